//! What counts as the same instant where times are floating point.

/// Returns the distance from `now` (nanoseconds) that counts as now: a thousandth of a nanosecond, or what rounding leaves of it late
/// in a long run.
pub(crate) fn tolerance(now: f64) -> f64 {
    (now * 1e-15).max(1e-3)
}

/// Returns when what misses `missing` bytes at `now` and gets `rate` bytes per nanosecond has them; now, where all that misses is
/// rounding: a millibyte, far below any amount that is watched for, or what is sent within the tolerance.
pub(crate) fn reaches_at(missing: f64, rate: f64, now: f64) -> f64 {
    if missing <= rate * tolerance(now) + 1e-3 {
        now
    } else if rate > 0.0 {
        now + missing / rate
    } else {
        f64::INFINITY
    }
}
