//! Numbers for names that come and go in nearly ascending order, such that comparing numbers
//! compares names.
//!
//! Policies order coflows by [`CoflowId`](cavalcade_model::CoflowId): in a trace those are dense
//! and sorted beforehand. In a live system names arrive as they happen, from several counters, so a
//! name may fall between two that are numbered already. Numbers are therefore given with room
//! between them: a new largest name goes [`STRIDE`] above the last, any other into the middle of
//! its gap. When a gap is full all are numbered again, which costs what a restarted coordinator
//! costs, and is as rare: four million names later, or a dozen that halve the same gap in turn.

use std::collections::BTreeMap;

/// Room left between names that come in order.
const STRIDE: u32 = 1 << 10;

/// Numbers that order as their names do.
#[derive(Debug)]
pub(crate) struct Numbering<K> {
    number_of: BTreeMap<K, u32>,
    name_of: BTreeMap<u32, K>,
}

impl<K> Default for Numbering<K> {
    fn default() -> Self {
        Self { number_of: BTreeMap::new(), name_of: BTreeMap::new() }
    }
}

impl<K: Ord + Copy> Numbering<K> {
    /// The number of `name`, if it has one.
    pub(crate) fn get(&self, name: K) -> Option<u32> {
        self.number_of.get(&name).copied()
    }

    /// The name that has `number`.
    pub(crate) fn name(&self, number: u32) -> Option<K> {
        self.name_of.get(&number).copied()
    }

    /// The number of `name`, a new one if it is new; `None` if there is no room for it.
    pub(crate) fn assign(&mut self, name: K) -> Option<u32> {
        if let Some(number) = self.get(name) {
            return Some(number);
        }
        let below = self.number_of.range(..name).next_back().map(|(_, &number)| number);
        let above = self.number_of.range(name..).next().map(|(_, &number)| number);
        let number = match (below, above) {
            (None, None) => u32::MAX / 2,
            (Some(below), None) => below.checked_add(STRIDE)?,
            (None, Some(above)) => above.checked_sub(STRIDE).unwrap_or(above / 2),
            (Some(below), Some(above)) => below + (above - below) / 2,
        };
        if below == Some(number) || above == Some(number) {
            return None;
        }
        self.number_of.insert(name, number);
        self.name_of.insert(number, name);
        Some(number)
    }

    /// Forgets a name.
    pub(crate) fn remove(&mut self, name: K) {
        if let Some(number) = self.number_of.remove(&name) {
            self.name_of.remove(&number);
        }
    }

    /// Forgets the names that `keep` does not want.
    pub(crate) fn retain(&mut self, keep: impl Fn(&K, u32) -> bool) {
        self.number_of.retain(|name, number| keep(name, *number));
        self.name_of.retain(|number, name| keep(name, *number));
    }

    /// Gives all names new numbers, with room between them.
    pub(crate) fn renumber(&mut self) {
        let names: Vec<K> = self.number_of.keys().copied().collect();
        *self = Self::default();
        let count =
            u32::try_from(names.len()).expect("fewer than four thousand million names are active at once");
        // More than two million names have less room between them: new ones come at the end, and
        // need theirs.
        let stride = STRIDE.min(u32::MAX / 2 / (count + 1));
        let first = u32::MAX / 2 - count / 2 * stride;
        for (place, name) in names.into_iter().enumerate() {
            let number = first + place as u32 * stride;
            self.number_of.insert(name, number);
            self.name_of.insert(number, name);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn numbers_order_as_names_whatever_comes_and_goes(steps in prop::collection::vec((0u64..500, any::<bool>()), 1..300)) {
            let mut numbering = Numbering::default();
            for (name, comes) in steps {
                if !comes {
                    numbering.remove(name);
                } else if numbering.assign(name).is_none() {
                    numbering.renumber();
                    prop_assert!(numbering.assign(name).is_some());
                }
                let numbers: Vec<u32> = numbering.number_of.values().copied().collect();
                prop_assert!(numbers.is_sorted_by(|a, b| a < b));
                for (&name, &number) in &numbering.number_of {
                    prop_assert_eq!(numbering.name(number), Some(name));
                }
            }
        }
    }

    #[test]
    fn a_gap_that_is_halved_in_turn_is_full_at_last_and_wide_again_after_renumbering() {
        let mut numbering = Numbering::default();
        numbering.assign(0u64);
        numbering.assign(1000);
        let refused = (1..1000).rev().find(|&name| numbering.assign(name).is_none());
        assert_eq!(refused, Some(1000 - STRIDE.ilog2() as u64 - 1));
        numbering.renumber();
        assert!(numbering.assign(refused.unwrap()).is_some());
    }
}
