//! Allocators that keep rates up to date, so that an event costs what it changes.

pub(crate) mod greedy;
pub(crate) mod madd;
pub(crate) mod max_min;
pub(crate) mod paths;
pub(crate) mod per_link;
pub(crate) mod shortest;
pub(crate) mod weighted;
