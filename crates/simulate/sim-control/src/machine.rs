//! A machine on which a coordinator may run, and the store whose lease says which of them leads.

use cavalcade_control::Coordinator;
use cavalcade_model::{Instant, Nanos};

use crate::clock::{Clock, EPOCH};
use crate::fault::Bug;
use crate::network::{Network, Node};

/// The term of a lease that is not renewed, by the store's clock.
const LEADERSHIP: Nanos = Nanos::from_millis(100);
/// The same by the clock of the machine that leads: a fifth is left for drift and for what is on
/// its way.
const BELIEF: Nanos = Nanos::from_millis(80);
/// The pause between a machine's requests.
const RENEWAL: Nanos = Nanos::from_millis(20);
/// The time between the requests of two machines.
const APART: Nanos = Nanos::from_millis(7);

/// A machine.
#[derive(Debug)]
pub(crate) struct Machine {
    pub(crate) clock: Clock,
    pub(crate) coordinator: Option<Coordinator>,
    /// Until when it believes that it leads, by its clock; `None` without a store, where it leads
    /// for good.
    leads_until: Option<Instant>,
    starts_at: Instant,
    /// Until when its process does nothing, and until when its host is not there.
    pub(crate) hangs_until: Instant,
    vanished_until: Instant,
    /// The time of its next request, where there is a store.
    asks_at: Option<Instant>,
}

impl Machine {
    /// A machine that leads for good.
    pub(crate) fn leader(coordinator: Coordinator) -> Self {
        let coordinator = Some(coordinator);
        Self { coordinator, ..Self::new(Clock::TRUE, Instant::ZERO, None) }
    }

    /// The machine of this number, which asks a store whether it leads.
    pub(crate) fn candidate(clock: Clock, number: u64) -> Self {
        let asks_at = Some(EPOCH + Nanos(number * APART.0));
        Self::new(clock, EPOCH, asks_at)
    }

    fn new(clock: Clock, starts_at: Instant, asks_at: Option<Instant>) -> Self {
        Self {
            clock,
            coordinator: None,
            leads_until: None,
            starts_at,
            hangs_until: Instant::ZERO,
            vanished_until: Instant::ZERO,
            asks_at,
        }
    }

    /// Tells whether its process does anything that it has to.
    pub(crate) fn acts(&self, now: Instant) -> bool {
        now >= self.hangs_until
    }

    /// Tells whether anything reaches its host.
    pub(crate) fn is_there(&self, now: Instant) -> bool {
        now >= self.vanished_until
    }

    /// Returns when it has to do something, in true time.
    pub(crate) fn due(&self) -> Option<Instant> {
        let rounds = self.coordinator.as_ref().and_then(Coordinator::poll_timeout);
        let own = rounds.into_iter().chain(self.leads_until).map(|shown| self.clock.when(shown));
        own.chain(self.asks_at).min().map(|when| when.max(self.hangs_until))
    }

    /// It is gone until `until`.
    pub(crate) fn crash(&mut self, until: Instant) {
        (self.coordinator, self.leads_until) = (None, None);
        self.starts_at = until.max(self.vanished_until);
    }

    /// Its host is gone until `until`, without a word.
    pub(crate) fn vanish(&mut self, until: Instant) {
        self.vanished_until = until.max(self.vanished_until);
        self.crash(until);
    }

    /// It runs again.
    pub(crate) fn heal(&mut self, now: Instant) {
        self.hangs_until = self.hangs_until.min(now);
        self.vanished_until = self.vanished_until.min(now);
        self.starts_at = self.starts_at.min(now);
    }
}

/// The one thing that does not fail, as etcd or a file lock.
#[derive(Debug, Default)]
pub(crate) struct Store {
    holder: Option<usize>,
    until: Instant,
    /// The highest term that was given out.
    pub(crate) term: u64,
    bug: Option<Bug>,
}

impl Store {
    /// No machine leads.
    pub(crate) fn new(bug: Option<Bug>) -> Self {
        Self { bug, ..Self::default() }
    }

    /// Lets a machine step down and ask, if it is time. Returns the term with which it begins to
    /// lead.
    pub(crate) fn visit(
        &mut self,
        now: Instant,
        number: usize,
        machine: &mut Machine,
        network: &Network,
    ) -> Option<u64> {
        let clock = machine.clock.read(now);
        let is_over = machine.leads_until.is_some_and(|until| until <= clock);
        let is_deposed = machine.coordinator.as_ref().is_some_and(Coordinator::is_deposed);
        if is_over || is_deposed {
            machine.leads_until = None;
            if is_deposed || self.bug != Some(Bug::TwoLeaders) {
                machine.coordinator = None;
            }
            if self.bug == Some(Bug::LeaseLostForGood) {
                machine.asks_at = None;
            }
        }
        let asks_at = machine.asks_at.filter(|&when| when <= now)?;
        let missed = now.since(asks_at).0 / RENEWAL.0;
        machine.asks_at = Some(asks_at + Nanos((missed + 1) * RENEWAL.0));
        let is_up = now >= machine.starts_at;
        let is_taken = now < self.until && self.holder != Some(number);
        if !is_up || is_taken || network.is_cut(Node::Machine(number), Node::Store, now) {
            return None;
        }
        let renews = now < self.until && machine.coordinator.is_some();
        (self.holder, self.until) = (Some(number), now + LEADERSHIP);
        machine.leads_until = Some(clock + BELIEF);
        if renews {
            return None;
        }
        self.term += 1;
        Some(self.term)
    }
}
