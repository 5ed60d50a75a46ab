//! A set of segment numbers as sorted runs: what has arrived out of order, what has been
//! acknowledged out of order.
//!
//! Without loss and reordering it is empty and holds no memory. With them it has as many runs as
//! there are holes, few; so a sorted array beats every tree. Rejected: a bit map over the window,
//! which costs memory by the window, not by what goes wrong.

/// Runs `from..to`, ascending, none touching the next.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SegmentSet {
    runs: Vec<(u32, u32)>,
    count: u32,
}

impl SegmentSet {
    /// Returns whether it is empty.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.runs.is_empty()
    }

    /// Returns the number of segments in it.
    pub fn count(&self) -> u32 {
        self.count
    }

    /// Returns whether `segment` is in it.
    #[inline]
    pub fn contains(&self, segment: u32) -> bool {
        self.run_of(segment).is_some()
    }

    /// Adds `from..to` and says how many of them are new.
    pub fn insert(&mut self, from: u32, to: u32) -> u32 {
        if from >= to {
            return 0;
        }
        // All runs that overlap or touch the new one become one with it.
        let first = self.runs.partition_point(|&(_, end)| end < from);
        let last = self.runs.partition_point(|&(start, _)| start <= to);
        let old: u32 = self.runs[first..last].iter().map(|(start, end)| end - start).sum();
        let (mut start, mut end) = (from, to);
        if first < last {
            start = start.min(self.runs[first].0);
            end = end.max(self.runs[last - 1].1);
        }
        self.runs.splice(first..last, [(start, end)]);
        let new = end - start - old;
        self.count += new;
        new
    }

    /// Forgets what is below `edge`.
    #[inline]
    pub fn remove_below(&mut self, edge: u32) {
        // Nearly always: what arrives in order leaves nothing beyond a hole.
        if !self.runs.is_empty() {
            self.cut_below(edge);
        }
    }

    fn cut_below(&mut self, edge: u32) {
        let gone = self.runs.partition_point(|&(_, to)| to <= edge);
        for (from, to) in self.runs.drain(..gone) {
            self.count -= to - from;
        }
        if let Some(run) = self.runs.first_mut()
            && run.0 < edge
        {
            self.count -= edge - run.0;
            run.0 = edge;
        }
    }

    /// The run that `segment` is in.
    #[inline]
    pub fn run_of(&self, segment: u32) -> Option<(u32, u32)> {
        if self.runs.is_empty() { None } else { self.find(segment) }
    }

    fn find(&self, segment: u32) -> Option<(u32, u32)> {
        let at = self.runs.partition_point(|&(_, to)| to <= segment);
        self.runs.get(at).copied().filter(|&(from, _)| from <= segment)
    }

    /// The first number from `segment` on that is not in it.
    #[inline]
    pub fn first_gap(&self, segment: u32) -> u32 {
        self.run_of(segment).map_or(segment, |(_, to)| to)
    }

    /// Counts the segments of `from..to` that are in it.
    #[inline]
    pub fn count_in(&self, from: u32, to: u32) -> u32 {
        if self.runs.is_empty() { 0 } else { self.count_between(from, to) }
    }

    fn count_between(&self, from: u32, to: u32) -> u32 {
        let first = self.runs.partition_point(|&(_, end)| end <= from);
        let runs = self.runs[first..].iter().take_while(|&&(start, _)| start < to);
        runs.map(|&(start, end)| end.min(to) - start.max(from)).sum()
    }

    /// The `rank`-th highest segment, counted from 1; `None` where there are fewer.
    pub fn highest(&self, rank: u32) -> Option<u32> {
        let mut left = rank;
        for &(from, to) in self.runs.iter().rev() {
            if left <= to - from {
                return Some(to - left);
            }
            left -= to - from;
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn it_is_the_set_that_a_tree_would_hold(
            steps in prop::collection::vec((any::<bool>(), 0u32..60, 0u32..12), 0..40)
        ) {
            let (mut set, mut tree) = (SegmentSet::default(), BTreeSet::new());
            for (insert, at, length) in steps {
                if insert {
                    let before = tree.len();
                    tree.extend(at..at + length);
                    prop_assert_eq!(set.insert(at, at + length) as usize, tree.len() - before);
                } else {
                    set.remove_below(at);
                    tree.retain(|&segment| segment >= at);
                }
                prop_assert_eq!(set.count() as usize, tree.len());
                prop_assert_eq!(set.is_empty(), tree.is_empty());
                for segment in 0..80 {
                    prop_assert_eq!(set.contains(segment), tree.contains(&segment));
                    let gap = (segment..).find(|segment| !tree.contains(segment)).unwrap();
                    prop_assert_eq!(set.first_gap(segment), gap);
                    let rank = segment + 1;
                    prop_assert_eq!(set.highest(rank), tree.iter().rev().nth(segment as usize).copied());
                    let within = tree.range(segment..segment + length.max(1)).count();
                    prop_assert_eq!(set.count_in(segment, segment + length.max(1)) as usize, within);
                }
                prop_assert!(set.runs.windows(2).all(|pair| pair[0].1 < pair[1].0));
            }
        }
    }
}
