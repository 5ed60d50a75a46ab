//! What a policy was told and what it decided, line by line, so that two engines that disagree can
//! be read side by side.

use std::cell::RefCell;
use std::fmt::Write;
use std::rc::Rc;

use cavalcade_model::{
    Clairvoyant, Decision, Event, Foresee, Instant, Policy, PolicyFactory, Setting, Target, Terms,
};

/// A policy whose instances write down everything.
pub(crate) struct Logged<'a> {
    inner: &'a dyn PolicyFactory,
    built: RefCell<u32>,
    lines: Rc<RefCell<Vec<String>>>,
}

impl<'a> Logged<'a> {
    pub(crate) fn new(inner: &'a dyn PolicyFactory) -> Self {
        Self { inner, built: RefCell::new(0), lines: Rc::default() }
    }

    pub(crate) fn into_lines(self) -> Vec<String> {
        self.lines.take()
    }
}

impl PolicyFactory for Logged<'_> {
    fn terms(&self) -> Terms {
        self.inner.terms()
    }

    fn build(&self, setting: &Setting<'_>) -> Policy {
        let place = self.built.replace_with(|built| *built + 1);
        let policy = self.inner.build(setting);
        Policy::Clairvoyant(Box::new(Logger { place, policy, lines: Rc::clone(&self.lines) }))
    }
}

struct Logger {
    place: u32,
    policy: Policy,
    lines: Rc<RefCell<Vec<String>>>,
}

impl Clairvoyant for Logger {
    fn handle(&mut self, now: Instant, event: Event, view: &dyn Foresee, decision: &mut Decision) {
        self.policy.handle(now, event, view, decision);
        let mut line = format!("{} at {}: {event:?}", now.0, self.place);
        let seen = match event {
            Event::Reached(Target::Coflow(coflow)) => Some(view.attained(coflow)),
            Event::Reached(Target::Flow(flow)) => Some(view.flow_attained(flow)),
            _ => None,
        };
        if let Some(bytes) = seen {
            write!(line, " having sent {}", bytes.0).expect("strings take everything");
        }
        for (target, priority) in &decision.priorities {
            write!(line, ", {target:?} to {}.{}", priority.class, priority.order).expect("the same");
        }
        for (flow, cap) in &decision.caps {
            write!(line, ", cap {flow:?} {cap:?}").expect("the same");
        }
        for (target, bytes) in &decision.watches {
            write!(line, ", watch {target:?} for {}", bytes.0).expect("the same");
        }
        if let Some(when) = decision.wake_at {
            write!(line, ", wake at {}", when.0).expect("the same");
        }
        self.lines.borrow_mut().push(line);
    }
}

/// Two timelines from a little before where they part.
pub(crate) fn parting(fast: &[String], slow: &[String]) -> String {
    const BEFORE: usize = 6;
    const AFTER: usize = 4;
    let same = fast.iter().zip(slow).take_while(|(fast, slow)| fast == slow).count();
    let part = |lines: &[String]| {
        let from = same.saturating_sub(BEFORE);
        let to = (same + AFTER).min(lines.len());
        let marked = (from..to).map(|at| format!("{} {}\n", if at < same { ' ' } else { '*' }, lines[at]));
        marked.collect::<String>()
    };
    format!("fast:\n{}slow:\n{}", part(fast), part(slow))
}
