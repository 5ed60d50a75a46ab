//! Task-ids as a rank: online tasks before background ones, and inside each range by number.

use cavalcade_model::{CoflowFacts, TaskClass};

/// Returns the range of ids of a task's class: 0 for online, 1 for background (Baraat §4.1).
pub(crate) fn range(facts: &CoflowFacts) -> u16 {
    match facts.class {
        TaskClass::Online => 0,
        TaskClass::Background => 1,
    }
}
