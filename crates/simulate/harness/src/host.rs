//! The host of a policy's instances: what a [`Decision`] means, in one place for every driver.
//!
//! A driver hands events to a [`PolicyHost`] and implements [`Driver`], the few things that differ
//! between a fluid, packets and live machines: where a priority is kept, and how much has been
//! sent. Everything else about a decision is here:
//!
//! - Priorities hold in the order in which they were decided. One for a coflow voids what was said
//!   of its flows before.
//! - A watch replaces the one before on the same target, also one that was reached and has not been
//!   told of. An amount that is reached already is told of at once.
//! - A wake-up replaces the one that was asked for before.
//! - Messages go by the agenda, after a delay, unless the driver carries them itself.
//!
//! A decision is checked here, once, before anything of it is carried out. At the first that breaks
//! the contract the policy has failed: its instances are handed nothing more, and
//! [`PolicyHost::fault`] says what was wrong. A simulation ends with that; a live system leaves
//! flows to TCP.
//!
//! Rejected: a decision with iterators over what changed, so that drivers apply it as they like.
//! Three of them did, and disagreed about watches that were replaced.

use cavalcade_model::{
    BitsPerSec, Bytes, CoflowId, Decision, Event, FlowId, Foresee, Instant, Message, Nanos, Policy, PortId,
    Priority, Scope, Target, Terms, Ticks,
};

use crate::agenda::{Agenda, Stuck};
use crate::run_error::{Mistake, PolicyFault};

/// The state of a watch that has been asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Watch {
    /// There is nothing to watch: the target is over, or is not in scope.
    Void,
    /// The target has sent that much; the instance at this place is to be told.
    Reached(u32),
    /// The driver will say so with [`PolicyHost::reach`] for the instance at this place.
    Pending(u32),
}

/// The part of a driver that carries decisions out.
pub trait Driver {
    /// Tells whether there is, was or will be such a target, and the instance at `place` sees it.
    fn sees(&self, place: u32, target: Target) -> bool;
    /// Tells whether there is an instance at `port`.
    fn has_peer(&self, port: PortId) -> bool;
    /// From now on `coflow` has `priority` as far as the instance at `place` sees it, with all its
    /// flows there, whatever was decided about them before.
    fn set_coflow(&mut self, place: u32, coflow: CoflowId, priority: Priority);
    /// From now on `flow` has a priority of its own.
    fn set_flow(&mut self, place: u32, flow: FlowId, priority: Priority);
    /// From now on `flow` gets no more than `cap`.
    fn set_cap(&mut self, flow: FlowId, cap: Option<BitsPerSec>);
    /// The instance at `place` wants to know when `target` has sent `bytes`, and not what it wanted
    /// to know before.
    fn watch(&mut self, place: u32, target: Target, bytes: Bytes) -> Watch;
    /// Carries a message itself; `false` where the agenda is to deliver it.
    fn post(&mut self, _from: u32, _to: PortId, _message: Message) -> bool {
        false
    }
}

/// A policy's instances, and all that they are to be told. Times of messages are on the driver's
/// own axis `T`.
#[derive(Debug)]
pub struct PolicyHost<T> {
    instances: Vec<Instance>,
    terms: Terms,
    agenda: Agenda<T>,
    decision: Decision,
    /// The instance that was handed an event last, and the event.
    last: Option<(u32, Event)>,
    /// True if what it decided has not been carried out.
    is_undone: bool,
    /// True if something has been put off that is still to be decided.
    has_put_off: bool,
    fault: Option<PolicyFault>,
    calls: u64,
}

struct Instance(Policy);

impl std::fmt::Debug for Instance {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("a policy")
    }
}

impl<T: Copy + PartialOrd> PolicyHost<T> {
    /// Hosts `instances`, one for each place in order, under `terms`. A `loss` of messages (a
    /// share) is drawn from the stream of `seed`.
    pub fn new(instances: Vec<Policy>, terms: &Terms, loss: f64, seed: u64) -> Self {
        Self {
            agenda: Agenda::new(instances.len(), loss, seed),
            instances: instances.into_iter().map(Instance).collect(),
            terms: terms.clone(),
            decision: Decision::default(),
            last: None,
            is_undone: false,
            has_put_off: false,
            fault: None,
            calls: 0,
        }
    }

    /// The mistake by which the policy has failed, if it has.
    #[inline]
    pub fn fault(&self) -> Option<&PolicyFault> {
        self.fault.as_ref()
    }

    /// The mistake of the instance that was handed an event last, where time stands still at `at`
    /// since it asks for more and more.
    pub fn endless(&self, at: Instant) -> Option<PolicyFault> {
        self.last.map(|(place, event)| PolicyFault { place, at, event, mistake: Mistake::Endless })
    }

    /// Hands `event` to the instance at `place`. [`PolicyHost::carry_out`] has to follow.
    ///
    /// # Panics
    /// If the decision before has not been carried out.
    pub fn dispatch(&mut self, place: u32, now: Instant, event: Event, view: &dyn Foresee) {
        self.hand_over(place, now, event, view, false);
    }

    /// The same where more events follow before anything depends on what is decided: the policy may
    /// put that off. Then [`PolicyHost::dispatch`] has to follow, where there is nothing else with
    /// [`Event::Wake`], once [`PolicyHost::is_put_off`].
    ///
    /// # Panics
    /// If the decision before has not been carried out.
    pub fn dispatch_one_of_several(&mut self, place: u32, now: Instant, event: Event, view: &dyn Foresee) {
        self.hand_over(place, now, event, view, true);
    }

    /// Returns whether an instance has put off what it would have decided, and has not decided it
    /// since.
    pub fn is_put_off(&self) -> bool {
        self.fault.is_none() && self.has_put_off
    }

    fn hand_over(&mut self, place: u32, now: Instant, event: Event, view: &dyn Foresee, more: bool) {
        if self.fault.is_some() {
            return;
        }
        assert!(!self.is_undone, "each decision is carried out before the next event");
        (self.last, self.is_undone) = (Some((place, event)), true);
        self.calls += 1;
        self.decision.clear();
        self.decision.more = more;
        self.instances[place as usize].0.handle(now, event, view, &mut self.decision);
        self.has_put_off = more && (self.has_put_off || self.decision.is_put_off);
    }

    /// Carries out what was decided on the last event. Messages arrive at `arrival`, which never
    /// goes back.
    pub fn carry_out(&mut self, now: Instant, arrival: T, driver: &mut impl Driver) {
        let Some((place, event)) = self.last.filter(|_| std::mem::take(&mut self.is_undone)) else { return };
        if let Err(mistake) = self.check(place, now, driver) {
            self.fault = Some(PolicyFault { place, at: now, event, mistake });
            return;
        }
        for &(target, priority) in &self.decision.priorities {
            match target {
                Target::Coflow(coflow) => driver.set_coflow(place, coflow, priority),
                Target::Flow(flow) => driver.set_flow(place, flow, priority),
            }
        }
        for &(flow, cap) in &self.decision.caps {
            driver.set_cap(flow, cap);
        }
        for &(target, bytes) in &self.decision.watches {
            match driver.watch(place, target, bytes) {
                Watch::Void => {}
                Watch::Reached(at) => self.agenda.reach(target, at),
                Watch::Pending(at) => self.agenda.forget(target, at),
            }
        }
        if let Some(when) = self.decision.wake_at {
            self.agenda.wake_at(place, when);
        }
        for &(to, message) in &self.decision.messages {
            if !driver.post(place, to, message) {
                self.agenda.post(place, to, message, arrival);
            }
        }
    }

    /// Checks what was decided by the instance at `place`.
    fn check(&self, place: u32, now: Instant, driver: &impl Driver) -> Result<(), Mistake> {
        let Decision { priorities, caps, watches, wake_at, messages, failure, .. } = &self.decision;
        if let Some(reason) = failure {
            return Err(Mistake::Own(reason.clone()));
        }
        let sees = |target| match driver.sees(place, target) {
            true => Ok(()),
            false => Err(Mistake::OutOfScope { target }),
        };
        for &(target, _) in priorities {
            sees(target)?;
            if let (Target::Flow(flow), false) = (target, self.terms.rank_flows()) {
                return Err(Mistake::FlowRanked { flow, discipline: self.terms.discipline });
            }
        }
        caps.iter().try_for_each(|&(flow, _)| sees(Target::Flow(flow)))?;
        for &(target, _) in watches {
            sees(target)?;
            if let (Target::Flow(flow), Scope::Link) = (target, self.terms.scope) {
                return Err(Mistake::FlowWatched { flow });
            }
        }
        if let Some(when) = wake_at.filter(|&when| when <= now) {
            return Err(Mistake::WakePast { when });
        }
        for &(to, _) in messages {
            if self.terms.scope != Scope::Host || !driver.has_peer(to) {
                return Err(Mistake::NoPeer { to });
            }
        }
        Ok(())
    }

    /// The next event that is due; messages that have arrived by `arrived`, wake-ups asked
    /// for by `clock`. Call it until there is none.
    pub fn next(&mut self, arrived: T, clock: Instant) -> Option<(u32, Event)> {
        if self.fault.is_some() {
            return None;
        }
        self.agenda.next(arrived, clock).unwrap_or_else(|stuck| {
            let Stuck { place, event } = stuck;
            self.fault = Some(PolicyFault { place, at: clock, event, mistake: Mistake::Endless });
            None
        })
    }

    /// The instance at `place` is to be told that `target` has reached the amount that it watches.
    pub fn reach(&mut self, target: Target, place: u32) {
        self.agenda.reach(target, place);
    }

    /// The instance at `place` is not to be told any more that `target` has reached an amount.
    #[inline]
    pub fn forget(&mut self, target: Target, place: u32) {
        self.agenda.forget(target, place);
    }

    /// Tells whether an amount has been reached that is still to be told of.
    #[inline]
    pub fn has_amounts(&self) -> bool {
        self.fault.is_none() && self.agenda.has_amounts()
    }

    /// Returns the arrival of the next message.
    #[inline]
    pub fn next_message(&self) -> Option<T> {
        self.agenda.next_message().filter(|_| self.fault.is_none())
    }

    /// Returns the time of the next wake-up.
    #[inline]
    pub fn next_wake(&self) -> Option<Instant> {
        self.agenda.next_wake().filter(|_| self.fault.is_none())
    }

    /// Leaves out ticks, where nothing but ticks is waited for, and as many as may be left out if
    /// nothing else happens before `until`. For a time in which ranks change nothing ([`Ticks`]).
    pub fn skip_ticks(&mut self, ticks: Ticks, until: Instant) {
        let Some(next) = self.next_wake().filter(|_| self.agenda.has_only_ticks(ticks.every)) else { return };
        let spare = until.since(next).0.saturating_sub(ticks.memory.0);
        let by = spare / ticks.every.0 * ticks.every.0;
        if by > 0 {
            self.agenda.put_off(Nanos(by));
        }
    }

    /// Tells whether the instance at `place` knows sizes.
    pub fn is_clairvoyant(&self, place: u32) -> bool {
        matches!(self.instances[place as usize].0, Policy::Clairvoyant(_))
    }

    /// Events that were handed over.
    pub fn calls(&self) -> u64 {
        self.calls
    }

    /// Messages that went by the agenda, lost ones among them.
    pub fn messages(&self) -> u64 {
        self.agenda.messages()
    }
}
