//! Drains: which flows go as plain TCP by a person's request, with the requester, the time and the
//! reason.
//!
//! A drained flow is open and holds no others; the policy goes on seeing what it sends, so that the
//! flow's coflow has its right priority once the drain ends. At a coordinator the list outlives the
//! process: it is sealed beside the kill switch, and agents keep it for the next coordinator
//! (`coordinator/draining.rs`). At an agent it holds for the host and ends with the process, as its
//! whole host's drain does.
//!
//! # Cost
//! A look through the list for each flow, and nothing while the list is empty; so it is short.

use cavalcade_model::PortId;
use cavalcade_protocol::{CoflowKey, Drain, Drained};

/// Why something is not drained.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooManyDrains;

impl core::fmt::Display for TooManyDrains {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let most = Drain::MOST;
        write!(
            f,
            "{most} drains hold already, the most that coordinators keep: end one with --undo, or drain all"
        )
    }
}

impl core::error::Error for TooManyDrains {}

/// The drains, the first one first.
#[derive(Clone, Debug, Default)]
pub(crate) struct Drains(Vec<Drain>);

impl Drains {
    /// Adds a drain, or takes it in the place of the one of the same flows; returns whether there
    /// was one.
    ///
    /// # Errors
    /// If there are too many, and it is not that of everything.
    pub(crate) fn set(&mut self, drain: Drain) -> Result<bool, TooManyDrains> {
        let was_drained = self.lift(drain.what);
        let parts = self.0.iter().filter(|other| other.what != Drained::All {}).count();
        if drain.what != (Drained::All {}) && parts >= Drain::MOST {
            return Err(TooManyDrains);
        }
        self.0.push(drain);
        Ok(was_drained)
    }

    /// Ends a drain; returns whether there was one.
    pub(crate) fn lift(&mut self, what: Drained) -> bool {
        let before = self.0.len();
        self.0.retain(|drain| drain.what != what);
        self.0.len() < before
    }

    /// Takes over the list of another coordinator.
    pub(crate) fn replace(&mut self, list: Vec<Drain>) {
        self.0 = list;
    }

    /// Ends drains of coflows that are not `wanted`; returns whether there were any.
    pub(crate) fn forget_coflows(&mut self, wanted: impl Fn(&Drain, CoflowKey) -> bool) -> bool {
        let before = self.0.len();
        self.0.retain(|drain| match drain.what {
            Drained::Coflow { key } => wanted(drain, key),
            _ => true,
        });
        self.0.len() < before
    }

    /// The drain of everything.
    pub(crate) fn of_all(&self) -> Option<&Drain> {
        self.0.iter().find(|drain| drain.what == Drained::All {})
    }

    /// The drain of a flow, other than that of everything; `user` is asked only where users are
    /// drained.
    pub(crate) fn of_flow(
        &self,
        from: PortId,
        user: impl Fn() -> Option<u32>,
        key: CoflowKey,
    ) -> Option<&Drain> {
        self.0.iter().find(|drain| match drain.what {
            Drained::All {} => false,
            Drained::Host { port } => port == from,
            Drained::User { user: drained } => user() == Some(drained),
            Drained::Coflow { key: drained } => key == drained,
        })
    }

    /// All of them.
    pub(crate) fn list(&self) -> &[Drain] {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cavalcade_model::Instant;
    use cavalcade_protocol::Remark;

    fn drain(what: Drained) -> Drain {
        Drain { what, since: Instant(7), who: Remark::default(), reason: Remark::default() }
    }

    #[test]
    fn a_list_that_is_full_takes_the_drain_of_everything_and_no_other() {
        let mut drains = Drains::default();
        for user in 0..Drain::MOST as u32 {
            assert_eq!(drains.set(drain(Drained::User { user })), Ok(false));
        }
        assert_eq!(drains.set(drain(Drained::User { user: 3 })), Ok(true), "it is renewed");
        assert_eq!(drains.set(drain(Drained::User { user: 99 })), Err(TooManyDrains));
        assert_eq!(drains.set(drain(Drained::All {})), Ok(false));
        assert_eq!(drains.list().len(), Drain::MOST + 1);
        assert!(drains.lift(Drained::User { user: 3 }) && !drains.lift(Drained::User { user: 3 }));
        assert_eq!(drains.set(drain(Drained::User { user: 99 })), Ok(false));
    }

    #[test]
    fn a_flow_is_drained_by_its_sender_its_user_and_its_coflow() {
        let key = CoflowKey::new(5, &[]);
        let flow = (PortId(1), || Some(1000), key);
        let others = [Drained::Host { port: PortId(2) }, Drained::User { user: 7 }, Drained::All {}];
        let own = [Drained::Host { port: PortId(1) }, Drained::User { user: 1000 }, Drained::Coflow { key }];
        for (what, is_drained) in
            others.map(|what| (what, false)).into_iter().chain(own.map(|what| (what, true)))
        {
            let mut drains = Drains::default();
            drains.set(drain(what)).unwrap();
            assert_eq!(drains.of_flow(flow.0, flow.1, flow.2).is_some(), is_drained, "{what:?}");
        }
    }
}
