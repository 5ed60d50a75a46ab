//! The kill switch of a host, and the drains of its users and coflows.

use cavalcade_model::Instant;
use cavalcade_protocol::{CoflowKey, Drain, Drained, Remark};

use super::{Agent, Flow};
use crate::drains::TooManyDrains;

impl Agent {
    /// The kill switch of this host: puts every flow back to plain TCP, or ends that, as far as the
    /// fabric's is not on.
    pub fn drain(&mut self, is_drained: bool) {
        if is_drained {
            let (since, who, reason) = (Instant::ZERO, Remark::default(), Remark::default());
            let all = Drain { what: Drained::All {}, since, who, reason };
            self.set_drain(all).expect("the drain of everything always has room");
        } else {
            self.lift_drain(Drained::All {});
        }
    }

    /// Drains a user, a coflow or all of this host, and keeps the requester and the reason; returns
    /// whether it was drained. It holds as long as the agent runs.
    ///
    /// # Errors
    /// If too many drains hold.
    pub fn set_drain(&mut self, drain: Drain) -> Result<bool, TooManyDrains> {
        let is_all = drain.what == Drained::All {};
        let was_drained = is_all && self.is_drained();
        let was_drained = self.drains.set(drain)? || was_drained;
        self.drains_changed();
        Ok(was_drained)
    }

    /// Ends a drain of this host; returns whether it held.
    pub fn lift_drain(&mut self, what: Drained) -> bool {
        let was_drained = self.drains.lift(what);
        self.drains_changed();
        was_drained
    }

    /// Returns what is drained here, other than by a coordinator.
    pub fn drains(&self) -> &[Drain] {
        self.drains.list()
    }

    /// Returns whether a kill switch is on: that of this host, or the fabric's.
    pub fn is_drained(&self) -> bool {
        self.drains.of_all().is_some() || self.link.is_switched_off()
    }

    /// The drain of this host under which flows of a coflow go as plain TCP.
    pub fn drain_of(&self, key: CoflowKey) -> Option<&Drain> {
        let user = || Some(self.parts.get(self.part_of.get(&key)?)?.user);
        self.drains.of_all().or_else(|| self.drains.of_flow(self.config.port, user, key))
    }

    pub(super) fn is_flow_drained(&self, flow: &Flow) -> bool {
        if self.drains.list().is_empty() {
            return false;
        }
        let part = &self.parts[&flow.part];
        self.drains.of_flow(self.config.port, || Some(part.user), part.key).is_some()
    }

    fn drains_changed(&mut self) {
        if let super::Mode::Decentralised(own) = &mut self.mode {
            own.hosted.look_again();
        }
        self.direct_all();
    }
}
