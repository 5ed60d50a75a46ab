//! The minimum of an array that changes one place at a time: a tree of minima, sixteen children to
//! a node. A node is two cache lines and its minimum a few vector instructions, so setting a place
//! costs O(log n) with a logarithm that is two or three, without branches on data that a processor
//! cannot predict; and nothing outdated is ever left behind, unlike in a heap with lazy deletion.

use crate::bits::ones;

/// Children of a node.
const WIDTH: usize = 16;

/// Values by place; infinity where there is none.
#[derive(Debug)]
pub(crate) struct MinTree {
    /// From the values themselves up to one node.
    levels: Vec<Vec<[f64; WIDTH]>>,
    least: f64,
}

impl MinTree {
    pub(crate) fn new(places: usize) -> Self {
        let mut levels = Vec::new();
        let mut nodes = places;
        while nodes != 1 || levels.is_empty() {
            nodes = nodes.div_ceil(WIDTH).max(1);
            levels.push(vec![[f64::INFINITY; WIDTH]; nodes]);
        }
        Self { levels, least: f64::INFINITY }
    }

    pub(crate) fn get(&self, place: usize) -> f64 {
        self.levels[0][place / WIDTH][place % WIDTH]
    }

    pub(crate) fn set(&mut self, mut place: usize, mut value: f64) {
        for level in &mut self.levels {
            let node = &mut level[place / WIDTH];
            if node[place % WIDTH] == value {
                // Mostly what changes is not the least of its node, and those above need no
                // update.
                return;
            }
            // Reading the whole node right after writing a part of it would wait for the write.
            let least = least_with(node, place % WIDTH, value);
            node[place % WIDTH] = value;
            (place, value) = (place / WIDTH, least);
        }
        self.least = value;
    }

    /// Makes room for places below `count`.
    pub(crate) fn reserve(&mut self, count: usize) {
        if count > self.levels[0].len() * WIDTH {
            // By a factor, so that growing one by one costs little for each, but to no more levels
            // than there have to be.
            let full = std::iter::successors(Some(WIDTH), |full| full.checked_mul(WIDTH));
            let full = full.into_iter().find(|&full| full >= count).unwrap_or(count);
            let mut larger = Self::new(full.min(2 * count));
            for (place, &value) in self.levels[0].as_flattened().iter().enumerate() {
                larger.set(place, value);
            }
            *self = larger;
        }
    }

    pub(crate) fn min(&self) -> f64 {
        self.least
    }

    /// Takes `by` off every value. Rounding keeps order, so minima stay minima.
    pub(crate) fn rebase(&mut self, by: f64) {
        self.levels.iter_mut().flat_map(|level| level.as_flattened_mut()).for_each(|value| *value -= by);
        self.least -= by;
    }

    /// Appends the places with a value of at most `bound`, in ascending order.
    pub(crate) fn up_to(&self, bound: f64, places: &mut Vec<u32>) {
        if self.least <= bound {
            self.descend(self.levels.len() - 1, 0, bound, places);
        }
    }

    fn descend(&self, level: usize, node: usize, bound: f64, places: &mut Vec<u32>) {
        let children = self.levels[level][node].iter().zip(0..);
        let due = children.fold(0, |due, (&value, child)| due | u64::from(value <= bound) << child);
        for child in ones(due) {
            let at = node * WIDTH + child as usize;
            if level == 0 {
                places.push(at as u32);
            } else {
                self.descend(level - 1, at, bound, places);
            }
        }
    }
}

/// The least of a node that is to have `value` at one place, in four lanes. Written out, since the
/// minimum of the standard library also minds NaN.
fn least_with(node: &[f64; WIDTH], place: usize, value: f64) -> f64 {
    let lesser = |a: f64, b: f64| if a < b { a } else { b };
    let mut lanes = [f64::INFINITY; 4];
    for (values, first) in node.as_chunks::<4>().0.iter().zip((0u64..).step_by(4)) {
        for ((lane, &of_node), nth) in lanes.iter_mut().zip(values).zip(first..) {
            *lane = lesser(*lane, if nth == place as u64 { value } else { of_node });
        }
    }
    lesser(lesser(lanes[0], lanes[1]), lesser(lanes[2], lanes[3]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn agrees_with_a_plain_array(sets in prop::collection::vec((0usize..300, 0u8..20), 1..200), bound in 0u8..20) {
            let (mut tree, mut plain) = (MinTree::new(300), vec![f64::INFINITY; 300]);
            for (place, value) in sets {
                tree.set(place, f64::from(value));
                plain[place] = f64::from(value);
                prop_assert_eq!(tree.min(), plain.iter().copied().fold(f64::INFINITY, f64::min));
            }
            let mut found = Vec::new();
            tree.up_to(f64::from(bound), &mut found);
            let expected: Vec<u32> = (0..300).filter(|&p| plain[p as usize] <= f64::from(bound)).collect();
            prop_assert_eq!(found, expected);
        }
    }
}
