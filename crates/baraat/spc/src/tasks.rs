//! Task-ids: where they come from (Baraat §4.1).
//!
//! A counter numbers tasks in the order of their arrival. Several counters, say one in each front
//! end, begin at k = 1 … n and count by n: they never give the same id twice and stay about level
//! without talking to each other. Background tasks have a range of their own above that of users'
//! tasks, so that each of them is behind all of those.

use std::fmt;
use std::io;
use std::ops::RangeInclusive;
use std::sync::atomic::{AtomicU64, Ordering};

/// Task-ids of one source of tasks; lower ones go first.
#[derive(Debug)]
pub struct TaskCounter {
    next: AtomicU64,
    step: u32,
    last: u32,
}

/// A source of task-ids.
pub trait IdSource: Send + Sync {
    /// Gives the id of the task that arrives now.
    ///
    /// # Errors
    /// If the source is used up, cannot be reached, or does not give this user any.
    fn next_id(&self) -> io::Result<u32>;
}

impl IdSource for TaskCounter {
    fn next_id(&self) -> io::Result<u32> {
        Ok(Self::next_id(self)?)
    }
}

impl<T: IdSource + ?Sized> IdSource for Box<T> {
    fn next_id(&self) -> io::Result<u32> {
        (**self).next_id()
    }
}

/// All ids of a counter's range have been given out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UsedUp {
    /// The last id of the range.
    pub last: u32,
}

impl fmt::Display for UsedUp {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "the task counter has reached {}, the end of its range; begin a new range", self.last)
    }
}

impl std::error::Error for UsedUp {}

impl From<UsedUp> for std::io::Error {
    fn from(error: UsedUp) -> Self {
        Self::other(error)
    }
}

impl TaskCounter {
    /// The first id of the upper half, where background tasks begin.
    pub const BACKGROUND: u32 = 1 << 31;

    /// Gives out `first`, `first + step` and so on, up to the background range: `first` tells a
    /// counter from its `step` − 1 fellows.
    ///
    /// # Panics
    /// If `step` is zero.
    pub fn new(first: u32, step: u32) -> Self {
        Self::within(first..=Self::BACKGROUND - 1, step)
    }

    /// The same for background tasks, which go behind all others.
    ///
    /// # Panics
    /// If `step` is zero.
    pub fn background(first: u32, step: u32) -> Self {
        Self::within(Self::BACKGROUND.saturating_add(first)..=u32::MAX, step)
    }

    /// Gives out every `step`-th id of a range.
    ///
    /// # Panics
    /// If `step` is zero.
    pub fn within(range: RangeInclusive<u32>, step: u32) -> Self {
        assert!(step > 0, "a counter that does not count gives all tasks one id");
        Self { next: AtomicU64::new(u64::from(*range.start())), step, last: *range.end() }
    }

    /// The id of the task that arrives now.
    ///
    /// # Errors
    /// If the range is used up: ids never wrap, since a wrapped one would go before all others.
    pub fn next_id(&self) -> Result<u32, UsedUp> {
        let used_up = UsedUp { last: self.last };
        let step = |next: u64| (next <= u64::from(self.last)).then(|| next + u64::from(self.step));
        let given =
            self.next.fetch_update(Ordering::Relaxed, Ordering::Relaxed, step).map_err(|_| used_up)?;
        u32::try_from(given).map_err(|_| used_up)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn four_counters_give_each_id_once() {
        let counters: Vec<_> = (1..=4).map(|first| TaskCounter::new(first, 4)).collect();
        let mut ids: Vec<u32> =
            counters.iter().flat_map(|counter| (0..5).map(|_| counter.next_id().unwrap())).collect();
        assert_eq!(ids[..5], [1, 5, 9, 13, 17]);
        ids.sort_unstable();
        assert_eq!(ids, (1..=20).collect::<Vec<_>>());
    }

    #[test]
    fn background_tasks_are_behind_all_others_and_ids_never_wrap() {
        let online = TaskCounter::within(TaskCounter::BACKGROUND - 2..=TaskCounter::BACKGROUND - 1, 1);
        let last = [online.next_id(), online.next_id(), online.next_id(), online.next_id()];
        let used_up = Err(UsedUp { last: TaskCounter::BACKGROUND - 1 });
        assert_eq!(last, [Ok((1 << 31) - 2), Ok((1 << 31) - 1), used_up, used_up]);
        assert_eq!(TaskCounter::background(0, 1).next_id(), Ok(1 << 31));
        let highest = TaskCounter::within(u32::MAX..=u32::MAX, 1);
        assert_eq!((highest.next_id(), highest.next_id()), (Ok(u32::MAX), Err(UsedUp { last: u32::MAX })));
    }
}
