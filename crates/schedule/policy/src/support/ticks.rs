//! Instants at which parts of a policy that run on several hosts look at what has changed.

use cavalcade_model::{Instant, Nanos};

/// Returns the first multiple of `interval` at or after `now`.
pub(crate) fn tick_at_or_after(now: Instant, interval: Nanos) -> Instant {
    Instant(now.0.div_ceil(interval.0).saturating_mul(interval.0))
}
