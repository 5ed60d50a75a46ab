//! Whoever throws the kill switch of the fabric in some worlds, and ends that again: at whichever machine leads at the time.
//!
//! The switch is said once, to one coordinator, and has to outlive it. What remembers it are the coordinator and agents that
//! have heard of it; only when all of those are gone at once may it be forgotten.

use crate::dice::Dice;
use crate::host::Host;
use crate::world::Machine;
use crate::{FAULTS_MS, RECOVERY_ROUNDS};

/// When the kill switch is thrown and ended, and what has become of that.
#[derive(Debug)]
pub(crate) struct Operator {
    throws_at: u64,
    /// Whether somebody leads whom it was said to.
    is_thrown: bool,
    ends_at: u64,
    /// Whether its end was said at least once.
    is_ended: bool,
    /// Whether all who knew of it were gone at once.
    is_forgotten: bool,
    /// For each host, whether the agent that runs there has heard of it.
    knows: Vec<bool>,
}

impl Operator {
    /// Throws it while things break, and ends that either meanwhile or when all have had the time to hear of it.
    pub(crate) fn new(dice: &mut Dice, hosts: u32) -> Self {
        let throws_at = dice.between(50, 1000);
        let meanwhile = throws_at + dice.between(50, 400);
        let ends_at = if dice.chance(500) { meanwhile } else { FAULTS_MS + RECOVERY_ROUNDS * 10 };
        let (is_thrown, is_ended, is_forgotten) = (false, false, false);
        Self { throws_at, is_thrown, ends_at, is_ended, is_forgotten, knows: vec![false; hosts as usize] }
    }

    /// When everything has to be as if it had never been thrown.
    pub(crate) fn recovers_at(&self) -> u64 {
        self.ends_at.max(FAULTS_MS) + RECOVERY_ROUNDS * 10
    }

    /// Whether it has thrown the switch.
    pub(crate) fn is_thrown(&self) -> bool {
        self.is_thrown
    }

    /// Says what it wants to whoever leads.
    pub(crate) fn act(&mut self, now: u64, machines: &mut [Machine]) -> Option<&'static str> {
        let leader = machines.iter_mut().find_map(|machine| machine.coordinator.as_mut())?;
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

    /// What holds in every millisecond.
    pub(crate) fn check(&mut self, now: u64, hosts: &[Host], machines: &[Machine]) -> Result<(), String> {
        for (index, host) in hosts.iter().enumerate() {
            let Some(agent) = &host.agent else {
                self.knows[index] = false;
                continue;
            };
            if self.knows[index] && !agent.is_drained() && !self.is_ended {
                return Err(format!("agent {index} obeys again though nobody has ended the kill switch"));
            }
            self.knows[index] = agent.is_drained();
            if self.knows[index]
                && let Some(flow) = agent.status().find(|flow| flow.told != Default::default())
            {
                let what = format!("flow {} at host {index} is told {:?}", flow.flow, flow.told);
                return Err(format!("{what} though the kill switch is on"));
            }
        }
        let mut leaders = machines.iter().filter_map(|machine| machine.coordinator.as_ref());
        let is_known = self.knows.contains(&true) || leaders.any(|leader| leader.is_drained());
        self.is_forgotten |= self.is_thrown && !is_known;
        let has_recovered = now >= FAULTS_MS + RECOVERY_ROUNDS * 10;
        if has_recovered && self.is_thrown && !self.is_ended && !self.is_forgotten {
            self.check_all_know()?;
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
