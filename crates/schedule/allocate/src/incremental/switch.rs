//! Allocators for one switch: every path is one link where a flow enters and one where it leaves.

pub(crate) mod max_min;
pub(crate) mod per_link;
