//! Times of a fluid engine, in `f64` nanoseconds, and the whole nanoseconds that they stand for.

use cavalcade_model::Instant;

/// Returns the instant that a time of the engine stands for: the nanosecond it ends in, where rounding in the engine does not
/// make it spill into the next.
pub fn instant(now: f64) -> Instant {
    Instant((now - slack(now)).max(0.0).ceil() as u64)
}

/// Returns the last whole nanosecond that has come, where rounding in the engine does not put it off.
pub fn clock(now: f64) -> Instant {
    Instant((now + slack(now)) as u64)
}

/// Returns by how much a time of the engine may be off by rounding, in nanoseconds: twice the tolerance of the allocators.
pub fn slack(now: f64) -> f64 {
    (now * 2e-15).max(2e-3)
}
