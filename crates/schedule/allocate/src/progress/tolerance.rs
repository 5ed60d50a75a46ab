//! What counts as the same instant where times are floating point.

/// The distance from now, in nanoseconds, that counts as now. Times are rebased
/// ([`Fill::rebase`](crate::Fill::rebase)) long before rounding comes near it.
pub(crate) const TOLERANCE: f64 = 1e-3;

/// Returns when what misses `missing` bytes at `now` and gets `rate` bytes per nanosecond has them;
/// now, where all that misses is rounding: a millibyte, far below any amount that is watched for,
/// or what is sent within the tolerance.
pub(crate) fn reaches_at(missing: f64, rate: f64, now: f64) -> f64 {
    if missing <= rate * TOLERANCE + 1e-3 {
        now
    } else if rate > 0.0 {
        now + missing / rate
    } else {
        f64::INFINITY
    }
}
