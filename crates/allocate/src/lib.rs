//! How fast: rates from an order, over plain indices.
//!
//! A solver knows flows, links and accounts as numbers, sizes in bytes as `f64`, time in nanoseconds and rates in bytes per
//! nanosecond; never a coflow, a policy or a clock. It keeps its rates up to date as flows come and go and priorities
//! change, and settles what was sent lazily, so that an event costs what it changes. All solvers have one face, [`Fill`]:
//!
//! | solver | equals share by | used for |
//! |---|---|---|
//! | [`MaxMinFill`] | max-min between flows; classes strict or weighted | `fair`, `fifo`, `dclas`, `dcas`, `pias`, `karuna`, `edf` |
//! | [`GreedyFill`] | all that is left, fullest port first | `sebf`, `stf`, `sincronia` |
//! | [`ShortestFill`] | fewest remaining bytes first | `sff`, `tafe` |
//! | [`MaddFill`] | all flows of a coflow end together | the `madd` discipline |
//! | [`StableFill`] | each link has priorities of its own | `fifo_lm`, `las` |
//! | [`PathFill`] | max-min along paths of any number of links; classes strict, or each link's own | trees, fat-trees, streams, sparse switches |
//! | [`DirectFill`] | any of these along paths, computed anew at each event | what `PathFill` does not know, on trees and fat-trees |
//! | [`StrictFill`] | max-min along paths, classes strict, computed once and not kept: no [`Fill`] | the live coordinator |
//!
//! Sums are made in a fixed order and no transcendental function is used, so rates are the same on every machine.
//!
//! Folders: `incremental/switch` has the allocators of one switch and `incremental/paths` that of any fabric, both of which
//! keep rates up to date; `recompute` works along paths from scratch at each event; `reference` has what a discipline means;
//! `progress` is what several of them share: bytes sent, and when the next flow ends.

#![cfg_attr(
    not(test),
    deny(clippy::disallowed_types, clippy::disallowed_methods, clippy::iter_over_hash_type)
)]

mod bits;
mod fill;
mod incremental;
mod progress;
mod recompute;
mod reference;

pub use fill::{Due, Fill, Key, Shares};
pub use incremental::paths::PathFill;
pub use incremental::switch::greedy::GreedyFill;
pub use incremental::switch::madd::MaddFill;
pub use incremental::switch::max_min::MaxMinFill;
pub use incremental::switch::shortest::ShortestFill;
pub use incremental::switch::stable::StableFill;
pub use recompute::{DirectFill, Sharing};
pub use reference::strict::{Setup, StrictFill};
