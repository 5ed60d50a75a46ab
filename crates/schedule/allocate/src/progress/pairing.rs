//! Flows that are sent at one rate, by when they are due: a pairing heap through the flows
//! themselves.
//!
//! The order in which such flows are due stays as it is while they are together, and only the first
//! counts.
//!
//! # Invariant
//! A flow is due no earlier than the one above it; of equals the one with the lower number is
//! above, but for what rounding does when origins move.
//!
//! # Cost
//! A flow that comes: one comparison. One that goes: O(log n), amortised.
//!
//! # Rejected
//! A list: a flow that comes or goes walks it, and a million flows between two ports are half a
//! million million steps. A `BinaryHeap` for each pair of ports: an allocation for each, and flows
//! that leave from the middle stay in it.

use crate::fill::NONE;

/// A flow with a place in a heap.
pub(crate) trait Queued {
    /// Its place.
    fn node(&mut self) -> &mut Node;

    /// The same, to look at.
    fn links(&self) -> Node;

    /// When it is due, by a clock that all flows of the heap have.
    fn due(&self) -> f64;
}

/// The place of a flow in a heap.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Node {
    /// The first of the flows right below it.
    child: u32,
    /// The next below the same flow.
    sibling: u32,
    /// The one before it below the same flow; of the first, the flow above.
    before: u32,
}

impl Node {
    /// A flow that is the only one.
    pub(crate) const ALONE: Self = Self { child: NONE, sibling: NONE, before: NONE };

    /// Returns whether there are no flows below.
    pub(crate) fn is_leaf(&self) -> bool {
        self.child == NONE
    }
}

fn precedes(flows: &[impl Queued], a: u32, b: u32) -> bool {
    (flows[a as usize].due(), a) < (flows[b as usize].due(), b)
}

/// Adds `flow` to the heap with this head, and returns the head.
#[inline]
pub(crate) fn insert(flows: &mut [impl Queued], head: u32, flow: u32) -> u32 {
    *flows[flow as usize].node() = Node::ALONE;
    meld(flows, head, flow)
}

/// Takes `flow` out of the heap with this head, and returns the head; [`NONE`] if no flow is left.
#[inline]
pub(crate) fn remove(flows: &mut [impl Queued], head: u32, flow: u32) -> u32 {
    let Node { child, sibling, before } = flows[flow as usize].links();
    *flows[flow as usize].node() = Node::ALONE;
    let below = meld_siblings(flows, child);
    if flow == head {
        return below;
    }
    let above = flows[before as usize].node();
    if above.child == flow {
        above.child = sibling;
    } else {
        above.sibling = sibling;
    }
    if sibling != NONE {
        flows[sibling as usize].node().before = before;
    }
    meld(flows, head, below)
}

/// Appends the flows of the heap with this head for which `wanted` holds; where it does not hold
/// for a flow, it must not for those below.
#[inline]
pub(crate) fn list(
    flows: &[impl Queued],
    head: u32,
    mut wanted: impl FnMut(u32) -> bool,
    found: &mut Vec<u32>,
) {
    let mut next = found.len();
    found.extend((head != NONE && wanted(head)).then_some(head));
    while let Some(&flow) = found.get(next) {
        let mut below = flows[flow as usize].links().child;
        while below != NONE {
            found.extend(wanted(below).then_some(below));
            below = flows[below as usize].links().sibling;
        }
        next += 1;
    }
}

/// Joins two heaps, each of which may be empty.
#[inline]
fn meld(flows: &mut [impl Queued], a: u32, b: u32) -> u32 {
    if a == NONE || b == NONE {
        return if a == NONE { b } else { a };
    }
    let (head, other) = if precedes(flows, a, b) { (a, b) } else { (b, a) };
    let child = std::mem::replace(&mut flows[head as usize].node().child, other);
    let node = flows[other as usize].node();
    (node.sibling, node.before) = (child, head);
    if child != NONE {
        flows[child as usize].node().before = other;
    }
    head
}

/// Joins the heaps whose heads are `first` and its siblings.
fn meld_siblings(flows: &mut [impl Queued], first: u32) -> u32 {
    // In twos from the first on; what comes of it is a list through the siblings, the last one
    // first.
    let (mut next, mut pairs) = (first, NONE);
    while next != NONE {
        let (a, b) = (next, separate(flows, next));
        next = if b == NONE { NONE } else { separate(flows, b) };
        let joined = meld(flows, a, b);
        flows[joined as usize].node().sibling = pairs;
        pairs = joined;
    }
    let mut head = NONE;
    while pairs != NONE {
        let heap = std::mem::replace(&mut pairs, NONE);
        pairs = separate(flows, heap);
        head = meld(flows, head, heap);
    }
    head
}

/// Parts a flow from the others below the same flow, and returns its next sibling.
fn separate(flows: &mut [impl Queued], flow: u32) -> u32 {
    let node = flows[flow as usize].node();
    node.before = NONE;
    std::mem::replace(&mut node.sibling, NONE)
}

#[cfg(test)]
mod tests {
    use cavalcade_model::SplitMix64;

    use super::*;

    #[derive(Clone)]
    struct Flow {
        node: Node,
        due: f64,
    }

    impl Queued for Flow {
        fn node(&mut self) -> &mut Node {
            &mut self.node
        }

        fn links(&self) -> Node {
            self.node
        }

        fn due(&self) -> f64 {
            self.due
        }
    }

    fn due(flows: &[Flow], flow: u32) -> (f64, u32) {
        (flows[flow as usize].due, flow)
    }

    #[test]
    fn the_head_is_the_least_of_a_sorted_list_after_any_flow_came_or_went() {
        let mut random = SplitMix64::new(7);
        for size in [1, 2, 3, 8, 60] {
            let mut flows = vec![Flow { node: Node::ALONE, due: 0.0 }; size];
            let (mut head, mut there) = (NONE, Vec::<u32>::new());
            for _ in 0..40 * size {
                let flow = random.below(size as u64) as u32;
                match there.iter().position(|&other| other == flow) {
                    Some(at) => {
                        there.remove(at);
                        head = remove(&mut flows, head, flow);
                    }
                    None => {
                        flows[flow as usize].due = random.below(9) as f64;
                        there.push(flow);
                        head = insert(&mut flows, head, flow);
                    }
                }
                there.sort_by(|&a, &b| due(&flows, a).partial_cmp(&due(&flows, b)).unwrap());
                assert_eq!(head, there.first().copied().unwrap_or(NONE));
                let limit = random.below(9) as f64;
                let mut found = Vec::new();
                list(&flows, head, |flow| flows[flow as usize].due <= limit, &mut found);
                found.sort_by(|&a, &b| due(&flows, a).partial_cmp(&due(&flows, b)).unwrap());
                let wanted = there.iter().take_while(|&&flow| flows[flow as usize].due <= limit);
                assert!(found.iter().eq(wanted), "{found:?} of {there:?}");
            }
        }
    }
}
