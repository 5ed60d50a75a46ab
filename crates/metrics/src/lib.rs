//! What a run came to: completion times of flows, coflows and tasks, and the figures made of them.

mod outcome;

pub use outcome::{EngineCounts, LinkUse, Outcome};
