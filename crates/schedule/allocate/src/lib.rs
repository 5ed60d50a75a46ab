//! How fast: rates from an order, over plain indices.
//!
//! Two sorts of allocators, one face ([`Fill`]), one meaning: [`mod@reference`] has the definition
//! of each discipline, and [`select`](fn@select) says which allocator carries out which terms.
//!
//! - [`Recompute`] computes rates by the definition at each event, on any fabric.
//! - The allocators of `incremental` keep rates up to date as flows come and go and priorities
//!   change, and settle what was sent lazily, so that an event costs what it changes:
//!   `per_link` is for one switch, `max_min` for one switch and for trees, the others are for any
//!   fabric.
//! - `progress` is what several of them share: bytes sent, and when the next flow ends.
//!
//! An allocator knows flows, links and accounts (coflows, or their parts at one place) as numbers,
//! sizes in bytes as `f64`, time in nanoseconds and rates in bytes per nanosecond; of the model it
//! uses priorities and terms. Sums are made in a fixed order and no transcendental function is
//! used, so rates are the same on every machine.

#![cfg_attr(
    not(test),
    deny(clippy::disallowed_types, clippy::disallowed_methods, clippy::iter_over_hash_type)
)]

mod bits;
mod fill;
mod incremental;
mod progress;
mod recompute;
pub mod reference;
mod route;
mod select;

pub use fill::{Due, Fill, Key};
pub use incremental::greedy::GreedyFill;
pub use incremental::madd::MaddFill;
pub use incremental::max_min::MaxMinFill;
pub use incremental::paths::PathFill;
pub use incremental::per_link::PerLinkFill;
pub use incremental::shortest::ShortestFill;
pub use incremental::weighted::WeightedFill;
pub use recompute::Recompute;
pub use select::{Allocator, Load, is_recomputed, select};
