//! What waits in each priority class under a policy: the run is made again with a policy that notes
//! what the real one decides.
//!
//! Engines keep no class with what they send. A policy that passes everything on and takes notes
//! costs them nothing, and decides what the real one does, so the run is the same.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use cavalcade_metrics::{Classed, ClassedFlows, backlog_by_class};
use cavalcade_model::{
    Bytes, Clairvoyant, CoflowId, Decision, Event, FlowId, Foresee, Instant, NonClairvoyant, Observe,
    PolicyFactory, Priority, Scope, Setting, Target, Terms,
};

use crate::details::{MOST_FLOWS, sent_in};
use crate::engine::{Engine, MOST_SENT};
use crate::error::Error;
use crate::parallel::Progress;
use crate::policies::Policy;
use crate::scenario::Scenario;

/// Runs `scenario` on the fluid engine and returns for each class the bytes in it that are not sent
/// yet: the mean from the first arrival to the last byte.
///
/// # Errors
/// If the run fails or was cancelled; if it has more than [`MOST_FLOWS`] flows or sends in more
/// than four million pieces; if its policy decides at links, where a flow is in several classes at
/// a time.
pub fn waiting_by_class(scenario: &Scenario, progress: &Progress) -> Result<Vec<f64>, Error> {
    let scenario = scenario.on(Engine::Fluid).bound()?;
    let label = scenario.label();
    let Some(policy) = scenario.policy() else {
        return Err(Error::usage(format!("{label} has no policy")).help("name a policy"));
    };
    let scope = policy.terms().scope;
    if scope == Scope::Link {
        let message = format!("{label} decides at links: a flow is in a class at each of them");
        return Err(Error::usage(message).help("leave it out"));
    }
    let workload = scenario.workload();
    if workload.flows().len() > MOST_FLOWS {
        let message = format!("the trace has more than {MOST_FLOWS} flows: what they send is not kept");
        return Err(Error::input(message).help("name a smaller trace"));
    }
    let notes = Notes::default();
    let noting = Noting { policy: policy.clone(), at_hosts: scope == Scope::Host, notes: Arc::clone(&notes) };
    let scenario = scenario.with_policy(Policy::new(policy.name(), noting));
    let Some((outcome, sent)) = sent_in(&scenario, progress)? else {
        let message = format!("{label} sends in more than {MOST_SENT} pieces: they are not kept");
        return Err(Error::input(message).help("name a smaller trace"));
    };
    let notes = notes.lock().unwrap_or_else(PoisonError::into_inner);
    Ok(backlog_by_class(workload, &outcome, &sent, &notes))
}

/// What instances have decided, in order.
type Notes = Arc<Mutex<Vec<Classed>>>;

/// A policy whose instances record the classes that they decide.
struct Noting {
    policy: Policy,
    at_hosts: bool,
    notes: Notes,
}

impl PolicyFactory for Noting {
    fn terms(&self) -> Terms {
        self.policy.terms()
    }

    fn build(&self, setting: &Setting<'_>) -> cavalcade_model::Policy {
        use cavalcade_model::Policy::{Clairvoyant, NonClairvoyant};
        let book = Book { at_hosts: self.at_hosts, notes: Arc::clone(&self.notes), ..Book::default() };
        match self.policy.build(setting) {
            NonClairvoyant(policy) => NonClairvoyant(Box::new(Noted { policy, book })),
            Clairvoyant(policy) => Clairvoyant(Box::new(Noted { policy, book })),
        }
    }

    fn quiet(&self, ports: u32) -> Bytes {
        self.policy.quiet(ports)
    }
}

/// An instance, and what is noted of it.
struct Noted<P: ?Sized> {
    policy: Box<P>,
    book: Book,
}

impl NonClairvoyant for Noted<dyn NonClairvoyant> {
    fn handle(&mut self, now: Instant, event: Event, view: &dyn Observe, decision: &mut Decision) {
        let before = decision.priorities.len();
        self.policy.handle(now, event, view, decision);
        self.book.take(now, &decision.priorities[before..], view);
    }
}

impl Clairvoyant for Noted<dyn Clairvoyant> {
    fn handle(&mut self, now: Instant, event: Event, view: &dyn Foresee, decision: &mut Decision) {
        let before = decision.priorities.len();
        self.policy.handle(now, event, view, decision);
        self.book.take(now, &decision.priorities[before..], view);
    }
}

/// The notes of an instance; what is decided again is noted once.
#[derive(Default)]
struct Book {
    at_hosts: bool,
    notes: Notes,
    of_coflow: BTreeMap<CoflowId, u16>,
    of_flow: BTreeMap<FlowId, u16>,
}

impl Book {
    fn take(&mut self, at: Instant, priorities: &[(Target, Priority)], view: &dyn Observe) {
        for &(target, Priority { class, .. }) in priorities {
            let of = match target {
                Target::Coflow(coflow) if self.of_coflow.insert(coflow, class) != Some(class) => {
                    // Its flows go with it now, whatever was decided about them.
                    self.of_flow.clear();
                    let mut port = None;
                    if self.at_hosts {
                        view.flows(coflow, &mut |flow| port = Some(view.flow(flow).src));
                    }
                    (port.is_some() || !self.at_hosts).then_some(ClassedFlows::Coflow(coflow, port))
                }
                Target::Flow(flow) if self.of_flow.insert(flow, class) != Some(class) => {
                    // If its coflow is decided about once more, that is news for this flow.
                    self.of_coflow.remove(&view.flow(flow).coflow);
                    Some(ClassedFlows::Flow(flow))
                }
                Target::Coflow(_) | Target::Flow(_) => None,
            };
            if let Some(of) = of {
                let mut notes = self.notes.lock().unwrap_or_else(PoisonError::into_inner);
                notes.push(Classed { at, of, class });
            }
        }
    }
}
