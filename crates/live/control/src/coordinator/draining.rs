//! The kill switch and the drains of parts of the fabric.
//!
//! Each change is a throw: it is counted, sealed, and sent to every agent in a snapshot, whether or
//! not the switch itself has changed. Of two coordinators' lists the one of the later throw holds
//! as a whole.

use std::collections::BTreeMap;

use cavalcade_model::{Instant, PortId};
use cavalcade_protocol::{CoflowKey, Drain, Drained, KillSwitch, Standing};

use super::Coordinator;
use super::trust::REMEMBERED;
use crate::drains::TooManyDrains;

impl Coordinator {
    /// Throws the kill switch of the whole fabric: every agent puts every flow back to plain TCP;
    /// or ends that. It holds for later coordinators too, as long as one agent remembers it.
    pub fn drain(&mut self, is_on: bool) {
        if !is_on {
            self.drains.lift(Drained::All {});
        }
        self.throw(is_on);
    }

    /// Drains a part of the fabric or all of it, and keeps the requester and the reason; returns
    /// whether it was drained.
    ///
    /// # Errors
    /// If too many drains hold.
    pub fn set_drain(&mut self, drain: Drain) -> Result<bool, TooManyDrains> {
        let is_on = self.is_drained() || drain.what == Drained::All {};
        let was_drained = drain.what == (Drained::All {}) && self.is_drained();
        let was_drained = self.drains.set(drain)? || was_drained;
        self.hosted.look_again();
        self.throw(is_on);
        Ok(was_drained)
    }

    /// Ends a drain; returns whether it held.
    pub fn lift_drain(&mut self, what: Drained) -> bool {
        let is_all = what == Drained::All {};
        let was_drained = self.drains.lift(what) || is_all && self.is_drained();
        if was_drained {
            self.hosted.look_again();
            self.throw(self.is_drained() && !is_all);
        }
        was_drained
    }

    /// Sets whether decisions are only made, and carried out by no agent.
    pub fn set_shadow(&mut self, shadow: bool) {
        self.config.shadow = shadow;
        self.send_to_all();
    }

    /// Returns what is drained. The drain of everything is listed where its requester is known.
    pub fn drains(&self) -> &[Drain] {
        self.drains.list()
    }

    /// Returns whether the kill switch is on.
    pub fn is_drained(&self) -> bool {
        self.switch.is_some_and(|switch| switch.is_on)
    }

    /// The drain under which flows of a coflow go as plain TCP.
    pub fn drain_of(&self, key: CoflowKey) -> Option<&Drain> {
        let ports = self.holders.get(&key).into_iter().flat_map(BTreeMap::keys);
        let by_part = || ports.into_iter().find_map(|&port| self.drain_of_part(port, key));
        self.drains.of_all().or_else(by_part)
    }

    pub(super) fn drain_of_part(&self, port: PortId, key: CoflowKey) -> Option<&Drain> {
        let owner = || self.owners.of(key);
        self.drains.of_flow(port, owner, key)
    }

    fn throw(&mut self, is_on: bool) {
        let term = self.config.term;
        let before = self.switch.filter(|switch| switch.term == term).map_or(0, |switch| switch.throw);
        self.set_switch(KillSwitch { term, throw: before + 1, is_on });
    }

    fn set_switch(&mut self, switch: KillSwitch) {
        self.switch = Some(switch);
        self.send_to_all();
    }

    /// Has a snapshot sent to every agent.
    fn send_to_all(&mut self) {
        let ports: Vec<PortId> = self.peers.iter().map(|(port, _)| port).collect();
        for port in ports {
            self.peers.get_mut(port).expect("a port from the same list").owes_snapshot = true;
            self.list(port);
        }
    }

    /// Takes switch and drains over from a former coordinator, by what an agent has kept of that.
    pub(super) fn receive_switch(&mut self, standing: Standing) {
        let heard = standing.switch.filter(|heard| heard.term < self.config.term);
        if let Some(switch) = heard.filter(|heard| self.switch.is_none_or(|known| known < *heard)) {
            self.drains.replace(standing.drains);
            self.hosted.look_again();
            self.set_switch(switch);
        }
    }

    /// Ends drains of coflows that are over. One that is not known here may be that of a host that
    /// has still to come back.
    pub(super) fn forget_drains(&mut self, now: Instant) {
        let is_new = |since: Instant| now.since(since) <= REMEMBERED;
        let is_wanted = |drain: &Drain, key: CoflowKey| {
            let is_known = self.holders.contains_key(&key) || self.remembered.contains_key(&key);
            is_known || is_new(drain.since) || self.started.is_none_or(is_new)
        };
        if self.drains.forget_coflows(is_wanted) {
            self.throw(self.is_drained());
        }
    }
}
