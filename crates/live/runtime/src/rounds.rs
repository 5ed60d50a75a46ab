//! Rounds of a coordinator, small ones at once, large ones beside all else.
//!
//! The filling of a round over very many flows takes longer than a lease. It is computed on a
//! thread of its own while the coordinator's loop receives reports, sends keep-alives and renews
//! the lease of leadership.

use cavalcade_control::{Coordinator, Filled};
use cavalcade_model::{Instant, Nanos};
use tokio::task::JoinHandle;

use crate::clock::Clock;
use crate::metrics::Distributions;

/// Flows from which on the filling has a thread of its own: that costs tens of microseconds,
/// filling these some milliseconds.
pub(crate) const LARGE: usize = 4_096;

/// The most flows of a round whose decisions are logged.
const NOTED: usize = 256;

/// The rounds of a coordinator.
#[derive(Debug)]
pub(crate) struct Rounds {
    clock: Clock,
    filling: Option<JoinHandle<Filled>>,
    /// The begin of the round that is being filled, and how long it has kept the loop.
    began: Instant,
    stalled: Nanos,
    pub(crate) distributions: Distributions,
}

impl Rounds {
    pub(crate) fn new(clock: Clock) -> Self {
        let (began, stalled) = (Instant::ZERO, Nanos::ZERO);
        Self { clock, filling: None, began, stalled, distributions: Distributions::default() }
    }

    /// Lets the coordinator do what has come due.
    pub(crate) fn do_due(&mut self, coordinator: &mut Coordinator) {
        let rounds = coordinator.rounds();
        let began = self.clock.now();
        coordinator.handle_timeout(began);
        if coordinator.rounds() > rounds {
            (self.began, self.stalled) = (began, self.clock.now().since(began));
            match coordinator.poll_filling() {
                Some(filling) => self.filling = Some(tokio::task::spawn_blocking(|| filling.fill())),
                None => self.end(coordinator),
            }
        }
    }

    /// Waits until the round that is being filled is; for ever where none is.
    pub(crate) async fn filled(&mut self) -> Filled {
        let Some(filling) = &mut self.filling else { return std::future::pending().await };
        let filled = filling.await;
        self.filling = None;
        filled.unwrap_or_else(|failed| std::panic::resume_unwind(failed.into_panic()))
    }

    /// Has the coordinator take over a round that was filled.
    pub(crate) fn take_over(&mut self, coordinator: &mut Coordinator, filled: Filled) {
        let now = self.clock.now();
        coordinator.handle_filled(now, filled);
        self.stalled = self.stalled.max(self.clock.now().since(now));
        self.end(coordinator);
    }

    fn end(&self, coordinator: &mut Coordinator) {
        if tracing::enabled!(tracing::Level::DEBUG) {
            note(coordinator, self.began);
        }
        let took = self.clock.now().since(self.began);
        coordinator.round_took(took, self.stalled);
        let oldest = coordinator.last_reports().map(|(_, at)| self.began.since(at).0).max().unwrap_or(0);
        self.distributions.round(std::time::Duration::from_nanos(took.0), oldest);
    }
}

/// Logs what a round that began at `began` has decided about flows. Of a large round only a part is
/// logged: orders wait meanwhile, and a log that is full drops warnings as well.
fn note(coordinator: &Coordinator, began: Instant) {
    let decided = coordinator.decided();
    let beyond = decided.len().saturating_sub(NOTED);
    for (coflow, flow) in decided.take(NOTED).flatten() {
        let (host, number, to) = (flow.from.0, flow.number, flow.to.0);
        tracing::debug!(round = began.0, %coflow, host, flow = number, to, gate = %flow.gate, "decided");
    }
    if beyond > 0 {
        tracing::debug!(round = began.0, beyond, "decided about more flows");
    }
}
