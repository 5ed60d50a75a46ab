//! Active coflows that meet on links: who meets whom, and how many.
//!
//! A coflow uses a link as long as it has an unfinished flow that crosses it. Two coflows are *rivals* while they have a
//! link in common: a port on a switch, and on a tree also an uplink, where coflows of disjoint hosts meet. Both are kept up
//! to date flow by flow: a flow only counts, and only the first and the last of a coflow on a link look at the others there.
//!
//! Cost: O(log links) for each link of a flow, and O(coflows on the link) when a coflow comes to a link or leaves it.
//! Rejected: comparing the links of all pairs at each decision, which costs n² times the links whether or not anything has
//! changed.

use std::collections::BTreeMap;

use cavalcade_model::{CoflowId, LinkId};

/// The links of all active coflows.
#[derive(Debug, Default)]
pub(crate) struct Contention {
    coflows: BTreeMap<CoflowId, Used>,
    /// For each link: the coflows on it. As long as the highest link that was used.
    links: Vec<Vec<CoflowId>>,
    /// For two coflows, the lower id first: how many links they have in common, where any.
    common: BTreeMap<(CoflowId, CoflowId), u32>,
}

#[derive(Debug, Default)]
struct Used {
    /// For each link that it uses: its unfinished flows there.
    flows: BTreeMap<usize, u32>,
    rivals: u32,
}

impl Contention {
    /// Counts a flow of `coflow` that arrives and crosses `path`.
    pub(crate) fn add(&mut self, coflow: CoflowId, path: &[LinkId]) {
        for link in path.iter().map(|link| link.index()) {
            let used = self.coflows.entry(coflow).or_default();
            let flows = used.flows.entry(link).or_default();
            *flows += 1;
            if *flows == 1 {
                self.enter(coflow, link);
            }
        }
    }

    /// Counts the end of a flow of `coflow` that crossed `path`. Returns whether its coflow has left a link with it.
    pub(crate) fn remove(&mut self, coflow: CoflowId, path: &[LinkId]) -> bool {
        let mut left = false;
        for link in path.iter().map(|link| link.index()) {
            let Some(used) = self.coflows.get_mut(&coflow) else { continue };
            let Some(flows) = used.flows.get_mut(&link) else { continue };
            *flows -= 1;
            if *flows == 0 {
                used.flows.remove(&link);
                self.leave(coflow, link);
                left = true;
            }
        }
        left
    }

    /// Forgets `coflow`, which is over.
    pub(crate) fn forget(&mut self, coflow: CoflowId) {
        let Some(used) = self.coflows.get_mut(&coflow) else { return };
        for link in std::mem::take(&mut used.flows).into_keys() {
            self.leave(coflow, link);
        }
        self.coflows.remove(&coflow);
    }

    /// Returns how many other coflows share a link with `coflow` now.
    pub(crate) fn rivals(&self, coflow: CoflowId) -> u32 {
        self.coflows.get(&coflow).map_or(0, |used| used.rivals)
    }

    /// Returns whether two coflows share a link now.
    pub(crate) fn are_rivals(&self, a: CoflowId, b: CoflowId) -> bool {
        self.common.contains_key(&pair(a, b))
    }

    /// Lists the links that `coflow` uses now, ascending.
    pub(crate) fn links(&self, coflow: CoflowId) -> impl Iterator<Item = usize> + '_ {
        self.coflows.get(&coflow).into_iter().flat_map(|used| used.flows.keys().copied())
    }

    fn enter(&mut self, coflow: CoflowId, link: usize) {
        if self.links.len() <= link {
            self.links.resize(link + 1, Vec::new());
        }
        for &other in &self.links[link] {
            let shared = self.common.entry(pair(coflow, other)).or_default();
            *shared += 1;
            if *shared == 1 {
                [coflow, other].into_iter().for_each(|one| change_rivals(&mut self.coflows, one, 1));
            }
        }
        self.links[link].push(coflow);
    }

    fn leave(&mut self, coflow: CoflowId, link: usize) {
        self.links[link].retain(|&other| other != coflow);
        for &other in &self.links[link] {
            let shared = self.common.get_mut(&pair(coflow, other)).expect("coflows on one link are rivals");
            *shared -= 1;
            if *shared == 0 {
                self.common.remove(&pair(coflow, other));
                [coflow, other].into_iter().for_each(|one| change_rivals(&mut self.coflows, one, -1));
            }
        }
    }
}

fn change_rivals(coflows: &mut BTreeMap<CoflowId, Used>, coflow: CoflowId, by: i32) {
    let used = coflows.get_mut(&coflow).expect("a coflow on a link is kept");
    used.rivals = used.rivals.checked_add_signed(by).expect("rivals leave as often as they come");
}

fn pair(a: CoflowId, b: CoflowId) -> (CoflowId, CoflowId) {
    (a.min(b), a.max(b))
}

#[cfg(test)]
mod tests {
    use super::*;
    use cavalcade_model::PortId;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    /// Four hosts in two racks: links 0 to 3 up from hosts, 4 to 7 down to them, 8 and 9 up from racks, 10 and 11 down.
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
