//! What several policies stand on: who meets whom, what has been sent, and in which order.

pub(crate) mod contention;
pub(crate) mod link_loads;
pub(crate) mod order;
pub(crate) mod peers;
pub(crate) mod task_ids;
pub(crate) mod task_meter;
pub(crate) mod thresholds;
pub(crate) mod ticks;
pub(crate) mod told;
