//! What each flow was sent at, as a file; and a checker of it that trusts no one else's result.
//!
//! A driver can write down its whole schedule as [`Segment`]s: flow, from, to, rate, constant in
//! between. From them and the workload alone [`validate`] works out when every flow could start at
//! the earliest, what it was sent, when it, its coflow and its task were done, and what every link
//! carried at every moment, and compares all of that with the limits of the fabric and the times
//! that the driver claims. It shares no code with any driver or solver: it never computes a rate,
//! so a mistake in how rates are found cannot hide here.
//!
//! A schedule that comes without a driver's times is given those that its segments make
//! ([`completions`]).
//!
//! [`certificate`] does the same for bounds: it derives from a workload and a certificate's hints
//! what no schedule can beat.
//!
//! # Cost
//! Segments are held in memory at 32 bytes each and sorted once by flow; links are then swept one
//! at a time, so the rest is that of the busiest link. About 0.3 µs a segment in all.
//!
//! # Rejected
//! - A check in a stream: a segment is written when it ends, so a link's load at any time is known
//!   only once all segments that were open then have ended, which for a flow that waits long is
//!   nearly the whole run.
//! - Exact rationals: a driver that computes in `f64` cannot meet them; [`tolerance`] says what is
//!   forgiven, and why.

#![cfg_attr(
    not(test),
    deny(clippy::disallowed_types, clippy::disallowed_methods, clippy::iter_over_hash_type)
)]

pub mod certificate;
mod check;
mod completion;
mod links;
mod schedule;
mod timing;
pub mod tolerance;
mod violation;
mod violations;

pub use check::{Checks, Verdict, validate};
pub use completion::completions;
pub use schedule::{Fault, ScheduleError, ScheduleReader, ScheduleWriter, Segment};
pub use violation::{Overload, Place, Violation};
pub use violations::{LISTED, Violations};
