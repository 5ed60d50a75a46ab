//! Quantities as types: [`Bytes`], [`BitsPerSec`], [`Nanos`] (a span of time) and [`Instant`] (a
//! point in it); [`FineInstant`] is a point between two nanoseconds.
//!
//! Every quantity that crosses a crate boundary is an integer of one of these types, so that bytes
//! are never added to bits and a result is the same on every machine. Products go through `u128`.
//! Text is read by [`core::str::FromStr`] (`10MB`, `10MiB`, `1Gbps`, `10ms`; prefixes of rates are
//! decimal, `MB` is 10⁶ and `MiB` 2²⁰ bytes) and written back by [`core::fmt::Display`] in the
//! largest unit that is exact, so text round-trips.
//!
//! Rejected: floating-point seconds (not reproducible after reordering, and 10⁻⁹ s is lost beyond
//! 10⁷ s), and `std::time` types (a process clock; simulated time starts at zero).

#![cfg_attr(
    not(test),
    deny(clippy::disallowed_types, clippy::disallowed_methods, clippy::iter_over_hash_type)
)]
#![no_std]

#[cfg(test)]
extern crate std;

mod fine;
mod parse;
mod quantity;
mod rounded;

pub use fine::FineInstant;
pub use parse::UnitError;
pub use quantity::{BitsPerSec, Bytes, Instant, Nanos};
pub use rounded::Rounded;
