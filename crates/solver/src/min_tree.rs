//! The minimum of an array that changes one place at a time: a complete binary tree of minima. Setting a place costs
//! O(log n) without branches on data that a processor cannot predict, asking for the minimum costs nothing, and nothing
//! outdated is ever left behind, unlike in a heap with lazy deletion.

/// Values by place; infinity where there is none.
#[derive(Debug)]
pub(crate) struct MinTree {
    leaves: usize,
    nodes: Vec<f64>,
}

impl MinTree {
    pub(crate) fn new(places: usize) -> Self {
        let leaves = places.next_power_of_two().max(2);
        Self { leaves, nodes: vec![f64::INFINITY; 2 * leaves] }
    }

    pub(crate) fn set(&mut self, place: usize, value: f64) {
        let mut node = self.leaves + place;
        self.nodes[node] = value;
        while node > 1 {
            node /= 2;
            let least = self.nodes[2 * node].min(self.nodes[2 * node + 1]);
            if self.nodes[node] == least {
                break;
            }
            self.nodes[node] = least;
        }
    }

    /// Makes room for places below `count`.
    pub(crate) fn reserve(&mut self, count: usize) {
        if count > self.leaves {
            let mut larger = Self::new(count);
            for place in 0..self.leaves {
                larger.set(place, self.nodes[self.leaves + place]);
            }
            *self = larger;
        }
    }

    pub(crate) fn min(&self) -> f64 {
        self.nodes[1]
    }

    /// Appends the places with a value of at most `bound`, in ascending order.
    pub(crate) fn up_to(&self, bound: f64, places: &mut Vec<u32>) {
        self.descend(1, bound, places);
    }

    fn descend(&self, node: usize, bound: f64, places: &mut Vec<u32>) {
        if self.nodes[node] > bound {
            return;
        }
        if node >= self.leaves {
            places.push((node - self.leaves) as u32);
            return;
        }
        self.descend(2 * node, bound, places);
        self.descend(2 * node + 1, bound, places);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn agrees_with_a_plain_array(sets in prop::collection::vec((0usize..37, 0u8..20), 1..200), bound in 0u8..20) {
            let (mut tree, mut plain) = (MinTree::new(37), vec![f64::INFINITY; 37]);
            for (place, value) in sets {
                tree.set(place, f64::from(value));
                plain[place] = f64::from(value);
                prop_assert_eq!(tree.min(), plain.iter().copied().fold(f64::INFINITY, f64::min));
            }
            let mut found = Vec::new();
            tree.up_to(f64::from(bound), &mut found);
            let expected: Vec<u32> = (0..37).filter(|&p| plain[p as usize] <= f64::from(bound)).collect();
            prop_assert_eq!(found, expected);
        }
    }
}
