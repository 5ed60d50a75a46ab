//! The operator, who in some runs throws the kill switch of the fabric and ends that again, at the
//! machine that leads then.
//!
//! The switch is said once, to one coordinator, and has to outlive it. What remembers it are the
//! coordinator and agents that have heard of it; only when all of those are gone at once may it be
//! forgotten.

use cavalcade_model::{Instant, Nanos, SplitMix64};

use super::choice::span;
use crate::clock::EPOCH;
use crate::world::World;

/// The operator: its plan, and what has become of it.
#[derive(Debug)]
pub(super) struct Operator {
    throws_at: Instant,
    /// It was said to a leader.
    pub(super) is_thrown: bool,
    ends_at: Instant,
    /// Its end was said at least once.
    is_ended: bool,
    /// All who knew of it were gone at once.
    is_forgotten: bool,
    /// The agents that have heard of it.
    knows: Vec<bool>,
    /// The time by which all have heard of it.
    known_by: Instant,
    /// The time that recovery takes.
    recovery: Nanos,
}

impl Operator {
    /// Throws it while things break, until `faults_end`, and ends that either meanwhile or when all
    /// have had the time to hear of it.
    pub(super) fn new(dice: &mut SplitMix64, hosts: usize, faults_end: Instant, recovery: Nanos) -> Self {
        let throws_at = EPOCH + span(dice, 50, 1000);
        let meanwhile = throws_at + span(dice, 50, 400);
        let known_by = faults_end + recovery;
        Self {
            throws_at,
            is_thrown: false,
            ends_at: if dice.happens(0.5) { meanwhile } else { known_by },
            is_ended: false,
            is_forgotten: false,
            knows: vec![false; hosts],
            known_by,
            recovery,
        }
    }

    /// Returns when it next says something.
    pub(super) fn next(&self, now: Instant) -> Option<Instant> {
        [self.throws_at, self.ends_at].into_iter().filter(|&when| when > now).min()
    }

    /// Returns when everything has to be as if it had never been thrown.
    pub(super) fn recovers_at(&self, faults_end: Instant) -> Instant {
        self.ends_at.max(faults_end) + self.recovery
    }

    /// Says what it wants to the machine that leads.
    pub(super) fn act(&mut self, world: &mut World) -> Option<&'static str> {
        let now = world.now;
        let leader = world.machines.iter_mut().find_map(|machine| machine.coordinator.as_mut())?;
        if now >= self.throws_at && !self.is_thrown {
            self.is_thrown = true;
            leader.drain(true);
            return Some("the kill switch is thrown");
        }
        // A later leader that had not heard of the end is told again.
        if now >= self.ends_at && (!self.is_ended || leader.is_drained()) {
            self.is_ended = true;
            leader.drain(false);
            return Some("the kill switch is ended");
        }
        None
    }

    /// Checks what holds at any time.
    pub(super) fn check(&mut self, world: &World) -> Result<(), String> {
        for (index, host) in world.hosts.iter().enumerate() {
            let Some(agent) = &host.agent else {
                self.knows[index] = false;
                continue;
            };
            if self.knows[index] && !agent.is_drained() && !self.is_ended {
                return Err(format!("agent {index} obeys again though the kill switch has not been ended"));
            }
            self.knows[index] = agent.is_drained();
            if self.knows[index]
                && let Some(flow) = agent.status().find(|flow| flow.told != Default::default())
            {
                let what = format!("flow {} at host {index} is told {:?}", flow.flow, flow.told);
                return Err(format!("{what} though the kill switch is on"));
            }
        }
        let mut leaders = world.machines.iter().filter_map(|machine| machine.coordinator.as_ref());
        let is_known = self.knows.contains(&true) || leaders.any(|leader| leader.is_drained());
        self.is_forgotten |= self.is_thrown && !is_known;
        if world.now >= self.known_by && self.is_thrown && !self.is_ended && !self.is_forgotten {
            return self.check_all_know();
        }
        Ok(())
    }

    fn check_all_know(&self) -> Result<(), String> {
        match self.knows.iter().position(|knows| !knows) {
            Some(index) => Err(format!("agent {index} has not heard of the kill switch")),
            None => Ok(()),
        }
    }
}
