//! What is forgiven, in one place. A driver may compute in `f64`; each limit below is what that
//! costs and no more, so a real mistake, which is of the size of a flow or a rate, is always far
//! outside.
//!
//! | what | forgiven |
//! |---|---|
//! | two times are the same moment | [`grain_ns`]: 2·10⁻³ ns and four units in the last place of the time |
//! | a link's load over its capacity | [`RELATIVE_RATE`] of the capacity, for any time; any load for less than a grain |
//! | bytes of a flow | [`bytes`]: 10⁻³ byte, 10⁻⁹ of its size, and a grain at full rate for each of its segments |
//! | a finish that is recorded in whole nanoseconds | the end rounded up, give or take a grain |
//! | a link that is called idle | [`IDLE_RATE`] of its capacity free for more than [`IDLE_NS`] |

/// A load is too high when it passes the capacity by this share of it.
pub const RELATIVE_RATE: f64 = 1e-9;

/// A link has capacity to spare when more than this share of it is free. Wider than
/// [`RELATIVE_RATE`], because a driver may give up what rounding leaves over.
pub const IDLE_RATE: f64 = 1e-6;

/// Idling for less is forgiven: what a driver starts on whole nanoseconds may wait for up to one.
pub const IDLE_NS: f64 = 1.0;

/// Returns the most that two times around `at_ns` may differ and still mean the same moment.
pub fn grain_ns(at_ns: f64) -> f64 {
    2e-3 + 4.0 * f64::EPSILON * at_ns.abs()
}

/// Returns the number of bytes a flow of `size` may differ, sent in `segments` segments until
/// `end_ns` at up to `full_rate` bytes per nanosecond.
pub fn bytes(size: f64, segments: usize, end_ns: f64, full_rate: f64) -> f64 {
    1e-3 + 1e-9 * size + segments as f64 * 4.0 * f64::EPSILON * end_ns.abs() * full_rate
}
