//! Coflow ownership: each coflow has one owning user on all hosts, who may grant others access.
//!
//! The owner is the user that is reported by the agent which gave out the coflow's number; until it
//! reports, the user of the first part that was reported. Two users share a coflow only where its
//! owner grants it, and no other user can grant it. A part that comes before its grant is refused,
//! and requested again once the grant has come.

use std::collections::{BTreeMap, BTreeSet};

use cavalcade_model::{Instant, PortId};
use cavalcade_protocol::{CoflowEntry, CoflowKey, Report, TaskCounter};

use super::Coordinator;

/// Parts that were refused and may be granted yet, at most; of more the oldest coflows' are
/// forgotten.
const MOST_REFUSED: usize = 65_536;

/// The most users with a grant for one coflow.
const MOST_GRANTS: usize = 1_024;

#[derive(Debug)]
struct Owner {
    user: u32,
    /// True once the agent that gave out the coflow's number has confirmed the owner.
    by_home: bool,
    granted: BTreeSet<u32>,
}

/// The owner of each coflow.
#[derive(Debug, Default)]
pub(super) struct Owners {
    of: BTreeMap<CoflowKey, Owner>,
    /// Agents that were refused a part.
    refused: BTreeSet<(CoflowKey, PortId)>,
}

impl Owners {
    /// Returns a coflow's owner.
    pub(super) fn of(&self, key: CoflowKey) -> Option<u32> {
        self.of.get(&key).map(|owner| owner.user)
    }

    /// A coflow is over.
    pub(super) fn forget(&mut self, key: CoflowKey) {
        self.of.remove(&key);
        self.take_refused(key);
    }

    /// Takes out the agents that were refused a part of a coflow.
    fn take_refused(&mut self, key: CoflowKey) -> Vec<PortId> {
        let all = (key, PortId(0))..=(key, PortId(u32::MAX));
        let ports: Vec<PortId> = self.refused.range(all).map(|(_, port)| *port).collect();
        ports.iter().for_each(|&port| _ = self.refused.remove(&(key, port)));
        ports
    }
}

impl Coordinator {
    /// Returns whether a part is accepted: its user owns the coflow or has a grant, and the serial
    /// of a new coflow is not stale.
    pub(super) fn admits(&mut self, now: Instant, port: PortId, entry: &CoflowEntry) -> bool {
        if self.is_stale(now, entry.key) {
            self.counters.stale_parts += 1;
            return false;
        }
        let (key, user) = (entry.key, entry.owner);
        let is_home = TaskCounter::agent_of(key.serial, self.config.ports) == Some(port);
        match self.owners.of.get(&key) {
            Some(owner) if owner.user == user => {
                if is_home && let Some(owner) = self.owners.of.get_mut(&key) {
                    owner.by_home = true;
                }
                return true;
            }
            Some(owner) if is_home && !owner.by_home => {
                self.expel(now, key);
                self.owners.of.insert(key, Owner { user, by_home: true, granted: BTreeSet::new() });
                // Agents with the same owner, or a new grant, report their parts again.
                self.ask_again(key);
                return true;
            }
            Some(owner) if owner.granted.contains(&user) => return true,
            Some(_) => {
                self.counters.foreign_parts += 1;
                self.owners.refused.insert((key, port));
                if self.owners.refused.len() > MOST_REFUSED {
                    self.owners.refused.pop_first();
                }
                return false;
            }
            None => {}
        }
        self.owners.of.insert(key, Owner { user, by_home: is_home, granted: BTreeSet::new() });
        true
    }

    /// Handles grants of owners; agents that were refused before report their parts again.
    pub(super) fn take_grants(&mut self, report: &Report) {
        for (number, users) in report.grants.iter() {
            let Some(entry) = report.coflows.get(number) else { continue };
            let Some(owner) = self.owners.of.get_mut(&entry.key).filter(|owner| owner.user == entry.owner)
            else {
                continue;
            };
            let room = MOST_GRANTS.saturating_sub(owner.granted.len());
            let before = owner.granted.len();
            owner.granted.extend(users.iter().take(room));
            if owner.granted.len() > before {
                self.ask_again(entry.key);
            }
        }
    }

    fn ask_again(&mut self, key: CoflowKey) {
        for port in self.owners.take_refused(key) {
            if let Some(peer) = self.peers.get_mut(port) {
                peer.is_unknown = true;
            }
            self.list(port);
        }
    }

    /// Takes a coflow from all agents that have a part of it: it is another user's. Their flows go
    /// as plain TCP.
    fn expel(&mut self, now: Instant, key: CoflowKey) {
        let holders = self.holders.get(&key).cloned().unwrap_or_default();
        for (&port, &number) in &holders {
            self.counters.foreign_parts += 1;
            let counted = self.leave_part(now, port, number, key);
            self.confirmations.give_back(port, counted);
            if let Some(peer) = self.peers.get_mut(port) {
                peer.owes_snapshot = true;
                self.list(port);
            }
        }
        // Behind the last of them, with which the coflow was forgotten.
        self.owners.refused.extend(holders.into_keys().map(|port| (key, port)));
    }
}
