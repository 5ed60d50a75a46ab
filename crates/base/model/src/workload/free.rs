//! Numbers that are given out in ranges and come back.

use core::ops::Range;
use std::collections::{BTreeMap, BTreeSet};

/// Numbers from 0 on that are out of use, to be used again: so that a table by number is hardly
/// longer than what was in use at once, unless lengths are chosen against it.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct FreeNumbers {
    /// By where each range starts: where it ends. No two of them touch.
    ranges: BTreeMap<usize, usize>,
    /// Their lengths and where they start.
    by_length: BTreeSet<(usize, usize)>,
}

impl FreeNumbers {
    /// The ranges that are out of use, ascending.
    pub fn ranges(&self) -> impl Iterator<Item = Range<usize>> + '_ {
        self.ranges.iter().map(|(&start, &end)| start..end)
    }

    /// Gives a range back that is in use and not empty, and joins it with those that it touches.
    pub fn add(&mut self, range: Range<usize>) {
        let Range { mut start, mut end } = range;
        if let Some((&before, &ends)) =
            self.ranges.range(..start).next_back().filter(|(_, ends)| **ends == start)
        {
            self.remove(before, ends);
            start = before;
        }
        if let Some(&ends) = self.ranges.get(&end) {
            self.remove(end, ends);
            end = ends;
        }
        self.insert(start, end);
    }

    /// Takes out so many numbers of the shortest range that has them; returns the first of them.
    /// Where there is none, the range at the end of the `held` numbers that there are is taken, if
    /// one is there, and has to be continued.
    pub fn take(&mut self, length: usize, held: usize) -> usize {
        let found = self.by_length.range((length, 0)..).next().copied();
        let at_end = || self.ranges.last_key_value().filter(|(_, end)| **end == held);
        let Some((free, start)) = found.or_else(|| at_end().map(|(&start, &end)| (end - start, start)))
        else {
            return held;
        };
        self.remove(start, start + free);
        if free > length {
            self.insert(start + length, start + free);
        }
        start
    }

    fn insert(&mut self, start: usize, end: usize) {
        self.ranges.insert(start, end);
        self.by_length.insert((end - start, start));
    }

    fn remove(&mut self, start: usize, end: usize) {
        self.ranges.remove(&start);
        self.by_length.remove(&(end - start, start));
    }
}
