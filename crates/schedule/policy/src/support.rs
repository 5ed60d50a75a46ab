//! Code that policies share: contention, bytes sent, orders.

pub(crate) mod contention;
pub(crate) mod link_loads;
pub(crate) mod order;
pub(crate) mod peers;
pub(crate) mod task_ids;
pub(crate) mod task_meter;
pub(crate) mod thresholds;
pub(crate) mod ticks;
pub(crate) mod told;
