//! Active coflows that meet on links: who meets whom, and how many.
//!
//! A coflow uses a link as long as it has an unfinished flow that crosses it. Two coflows are
//! *rivals* while they have a link in common: a port on a switch, and on a tree also an uplink,
//! where coflows of disjoint hosts meet. Links are kept up to date flow by flow: a flow only
//! counts, and only the first and the last of a coflow on a link change who is there.
//!
//! Cost: O(log links) for each link of a flow. Rivals are counted when they are asked for: a bit
//! for each coflow and each link of the one that asks, once for all that use the same links, and
//! again when one of those has changed. With 43,600 coflows on 6 links that is some 60 counts over
//! 5 KB a link, in place of a thousand million pairs. Rejected: keeping for each pair what it has
//! in common, which costs n² where coflows meet on one link; and comparing the links of all pairs
//! at each decision, which costs n² times the links whether or not anything has changed.

use std::cell::RefCell;
use std::collections::BTreeMap;

use cavalcade_model::{CoflowId, LinkId};

/// The links of all active coflows.
#[derive(Debug, Default)]
pub(crate) struct Contention {
    coflows: BTreeMap<CoflowId, Used>,
    /// For each link, who is on it. As long as the highest link that was used.
    links: Vec<Present>,
    /// Places of coflows in bits, as far as they are vacant, and how many there are.
    vacant: Vec<usize>,
    places: usize,
    /// Number of changes of links so far.
    changes: u64,
    /// By links, how many coflows use any of them, and the number of changes at which that was
    /// counted.
    counted: RefCell<BTreeMap<Vec<usize>, (u32, u64)>>,
}

#[derive(Debug, Default)]
struct Used {
    /// For each link that it uses: its unfinished flows there.
    flows: BTreeMap<usize, u32>,
    place: usize,
}

/// The coflows on a link.
#[derive(Clone, Debug, Default)]
struct Present {
    /// A bit for the place of each.
    bits: Vec<u64>,
    /// The number of the last change.
    changed: u64,
}

impl Contention {
    /// Counts a flow of `coflow` that arrives and crosses `path`.
    pub(crate) fn add(&mut self, coflow: CoflowId, path: &[LinkId]) {
        for link in path.iter().map(|link| link.index()) {
            if !self.coflows.contains_key(&coflow) {
                let place = self.vacant.pop().unwrap_or(self.places);
                self.places = self.places.max(place + 1);
                self.coflows.insert(coflow, Used { flows: BTreeMap::new(), place });
            }
            let used = self.coflows.get_mut(&coflow).expect("it is there now");
            let flows = used.flows.entry(link).or_default();
            *flows += 1;
            if *flows == 1 {
                let place = used.place;
                self.set(place, link, true);
            }
        }
    }

    /// Counts the end of a flow of `coflow` that crossed `path`. Returns whether its coflow has
    /// left a link with it.
    pub(crate) fn remove(&mut self, coflow: CoflowId, path: &[LinkId]) -> bool {
        let mut left = false;
        for link in path.iter().map(|link| link.index()) {
            let Some(used) = self.coflows.get_mut(&coflow) else { continue };
            let Some(flows) = used.flows.get_mut(&link) else { continue };
            *flows -= 1;
            if *flows == 0 {
                used.flows.remove(&link);
                let place = used.place;
                self.set(place, link, false);
                left = true;
            }
        }
        left
    }

    /// Forgets `coflow`, which is over.
    pub(crate) fn forget(&mut self, coflow: CoflowId) {
        let Some(Used { flows, place }) = self.coflows.remove(&coflow) else { return };
        flows.into_keys().for_each(|link| self.set(place, link, false));
        self.vacant.push(place);
    }

    /// Returns how many other coflows share a link with `coflow` now.
    pub(crate) fn rivals(&self, coflow: CoflowId) -> u32 {
        let links: Vec<usize> = self.links(coflow).collect();
        let changed = links.iter().map(|&link| self.links[link].changed).max().unwrap_or(0);
        let mut counted = self.counted.borrow_mut();
        if let Some(&(count, at)) = counted.get(&links)
            && at >= changed
        {
            return count.saturating_sub(1);
        }
        let words = links.iter().map(|&link| self.links[link].bits.len()).max().unwrap_or(0);
        let any = |word: usize| {
            links.iter().filter_map(|&link| self.links[link].bits.get(word)).fold(0, |any, bits| any | bits)
        };
        let count = (0..words).map(|word| any(word).count_ones()).sum::<u32>();
        // Of links that no two coflows use together any more the counts go when there are many.
        if counted.len() > 2 * self.coflows.len() + 64 {
            counted.clear();
        }
        counted.insert(links, (count, self.changes));
        count.saturating_sub(1)
    }

    /// Returns whether two coflows share a link now.
    pub(crate) fn are_rivals(&self, a: CoflowId, b: CoflowId) -> bool {
        let (Some(a), Some(b)) = (self.coflows.get(&a), self.coflows.get(&b)) else { return false };
        let (few, many) = if a.flows.len() <= b.flows.len() { (a, b) } else { (b, a) };
        few.place != many.place && few.flows.keys().any(|link| many.flows.contains_key(link))
    }

    /// Lists the links that `coflow` uses now, ascending.
    pub(crate) fn links(&self, coflow: CoflowId) -> impl Iterator<Item = usize> + '_ {
        self.coflows.get(&coflow).into_iter().flat_map(|used| used.flows.keys().copied())
    }

    /// Notes whether the coflow at a place is on a link.
    fn set(&mut self, place: usize, link: usize, is_there: bool) {
        if self.links.len() <= link {
            self.links.resize(link + 1, Present::default());
        }
        let Present { bits, changed } = &mut self.links[link];
        if bits.len() <= place / 64 {
            bits.resize(place / 64 + 1, 0);
        }
        let bit = 1 << (place % 64);
        bits[place / 64] = if is_there { bits[place / 64] | bit } else { bits[place / 64] & !bit };
        self.changes += 1;
        *changed = self.changes;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cavalcade_model::PortId;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    /// Four hosts in two racks: links 0 to 3 up from hosts, 4 to 7 down to them, 8 and 9 up from
    /// racks, 10 and 11 down.
    fn path(src: PortId, dst: PortId) -> Vec<LinkId> {
        let (up, down) = (src.0, 4 + dst.0);
        let crosses = src.0 / 2 != dst.0 / 2;
        let middle = [8 + src.0 / 2, 10 + dst.0 / 2].into_iter().filter(|_| crosses);
        [up].into_iter().chain(middle).chain([down]).map(LinkId).collect()
    }

    proptest! {
        #[test]
        fn what_is_kept_is_what_a_look_at_all_flows_gives(
            steps in prop::collection::vec((0u32..5, 0u32..4, 0u32..4, any::<bool>()), 1..80),
            over in 0u32..5,
        ) {
            let mut contention = Contention::default();
            let mut flows: Vec<(CoflowId, Vec<LinkId>)> = Vec::new();
            for (coflow, src, dst, arrives) in steps {
                let flow = (CoflowId(coflow), path(PortId(src), PortId(dst)));
                let at = flows.iter().position(|other| *other == flow);
                if arrives {
                    contention.add(flow.0, &flow.1);
                    flows.push(flow);
                } else if let Some(at) = at {
                    contention.remove(flow.0, &flow.1);
                    flows.remove(at);
                }
            }
            contention.forget(CoflowId(over));
            flows.retain(|flow| flow.0 != CoflowId(over));
            let used = |coflow: u32| -> BTreeSet<usize> {
                let own = flows.iter().filter(|flow| flow.0.0 == coflow);
                own.flat_map(|flow| flow.1.iter().map(|link| link.index())).collect()
            };
            for a in 0..5 {
                prop_assert_eq!(contention.links(CoflowId(a)).collect::<BTreeSet<_>>(), used(a));
                let meet = |b: &u32| *b != a && !used(a).is_disjoint(&used(*b));
                prop_assert_eq!(contention.rivals(CoflowId(a)) as usize, (0..5).filter(meet).count());
                for b in (0..5).filter(|&b| b != a) {
                    prop_assert_eq!(contention.are_rivals(CoflowId(a), CoflowId(b)), meet(&b));
                }
            }
        }
    }
}
