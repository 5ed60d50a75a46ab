//! The time as the machines see it: nanoseconds since 1970, which never go back.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use cavalcade_model::Instant;

/// The time of day at which it was made, and what has passed since by a clock that is never set.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    started: std::time::Instant,
    offset: Duration,
}

impl Default for Clock {
    fn default() -> Self {
        let offset = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Self { started: std::time::Instant::now(), offset }
    }
}

impl Clock {
    /// Now.
    pub fn now(&self) -> Instant {
        Instant((self.offset + self.started.elapsed()).as_nanos() as u64)
    }

    /// Converts `when` for a timer; a time that is past becomes now.
    pub(crate) fn timer(&self, when: Instant) -> tokio::time::Instant {
        let wait = when.since(self.now());
        tokio::time::Instant::now() + Duration::from_nanos(wait.0)
    }
}

/// Waits until `when`, or for ever where there is nothing to wait for.
pub(crate) async fn sleep_until(clock: Clock, when: Option<Instant>) {
    match when {
        Some(when) => tokio::time::sleep_until(clock.timer(when)).await,
        None => std::future::pending().await,
    }
}
