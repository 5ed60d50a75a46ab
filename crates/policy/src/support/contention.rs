//! Which active coflows meet at ports, and at how many.
//!
//! A coflow uses a *line*, one side of a port, as long as it has an unfinished flow there. Two coflows are *rivals* while
//! they have a line in common. Both are kept up to date flow by flow: a flow only counts, and only the first and the
//! last of a coflow on a line look at the others there.
//!
//! Cost: O(log lines) for a flow, and O(coflows on the line) when a coflow comes to a line or leaves it. Rejected: comparing
//! the lines of all pairs at each decision, which costs n² times the lines whether or not anything has changed.

use std::collections::BTreeMap;

use cavalcade_model::{CoflowId, FlowFacts};

/// The lines of all active coflows.
#[derive(Debug)]
pub(crate) struct Contention {
    coflows: BTreeMap<CoflowId, Used>,
    /// For each line: the coflows on it, and all their unfinished flows there.
    lines: Vec<Line>,
    /// For two coflows, the lower id first: how many lines they have in common, where any.
    common: BTreeMap<(CoflowId, CoflowId), u32>,
}

#[derive(Debug, Default)]
struct Used {
    /// For each line that it uses: its unfinished flows there.
    flows: BTreeMap<usize, u32>,
    rivals: u32,
}

#[derive(Clone, Debug, Default)]
struct Line {
    coflows: Vec<CoflowId>,
    flows: u32,
}

/// The lines of a flow: where it is sent, where it is received.
fn lines(flow: &FlowFacts) -> [usize; 2] {
    [2 * flow.src.index(), 2 * flow.dst.index() + 1]
}

impl Contention {
    /// For a fabric of so many ports.
    pub(crate) fn new(ports: u32) -> Self {
        Self {
            coflows: BTreeMap::new(),
            lines: vec![Line::default(); 2 * ports as usize],
            common: BTreeMap::new(),
        }
    }

    /// A flow arrives.
    pub(crate) fn add(&mut self, flow: &FlowFacts) {
        for line in lines(flow) {
            let used = self.coflows.entry(flow.coflow).or_default();
            let flows = used.flows.entry(line).or_default();
            *flows += 1;
            self.lines[line].flows += 1;
            if *flows == 1 {
                self.enter(flow.coflow, line);
            }
        }
    }

    /// A flow ends. Returns whether its coflow has left a line with it.
    pub(crate) fn remove(&mut self, flow: &FlowFacts) -> bool {
        let mut left = false;
        for line in lines(flow) {
            let Some(used) = self.coflows.get_mut(&flow.coflow) else { continue };
            let Some(flows) = used.flows.get_mut(&line) else { continue };
            *flows -= 1;
            self.lines[line].flows -= 1;
            if *flows == 0 {
                used.flows.remove(&line);
                self.leave(flow.coflow, line);
                left = true;
            }
        }
        left
    }

    /// `coflow` is over.
    pub(crate) fn forget(&mut self, coflow: CoflowId) {
        let Some(used) = self.coflows.get_mut(&coflow) else { return };
        for (line, flows) in std::mem::take(&mut used.flows) {
            self.lines[line].flows -= flows;
            self.leave(coflow, line);
        }
        self.coflows.remove(&coflow);
    }

    /// How many other coflows share a line with `coflow` now.
    pub(crate) fn rivals(&self, coflow: CoflowId) -> u32 {
        self.coflows.get(&coflow).map_or(0, |used| used.rivals)
    }

    /// Whether two coflows share a line now.
    pub(crate) fn are_rivals(&self, a: CoflowId, b: CoflowId) -> bool {
        self.common.contains_key(&pair(a, b))
    }

    /// The lines that `coflow` uses now, ascending, below twice the number of ports.
    pub(crate) fn lines(&self, coflow: CoflowId) -> impl Iterator<Item = usize> + '_ {
        self.coflows.get(&coflow).into_iter().flat_map(|used| used.flows.keys().copied())
    }

    /// How many unfinished flows the sender of `flow` has.
    pub(crate) fn flows_at_sender(&self, flow: &FlowFacts) -> u32 {
        self.lines[lines(flow)[0]].flows
    }

    fn enter(&mut self, coflow: CoflowId, line: usize) {
        for &other in &self.lines[line].coflows {
            let shared = self.common.entry(pair(coflow, other)).or_default();
            *shared += 1;
            if *shared == 1 {
                [coflow, other].into_iter().for_each(|one| change_rivals(&mut self.coflows, one, 1));
            }
        }
        self.lines[line].coflows.push(coflow);
    }

    fn leave(&mut self, coflow: CoflowId, line: usize) {
        self.lines[line].coflows.retain(|&other| other != coflow);
        for &other in &self.lines[line].coflows {
            let shared = self.common.get_mut(&pair(coflow, other)).expect("coflows on one line are rivals");
            *shared -= 1;
            if *shared == 0 {
                self.common.remove(&pair(coflow, other));
                [coflow, other].into_iter().for_each(|one| change_rivals(&mut self.coflows, one, -1));
            }
        }
    }
}

fn change_rivals(coflows: &mut BTreeMap<CoflowId, Used>, coflow: CoflowId, by: i32) {
    let used = coflows.get_mut(&coflow).expect("a coflow on a line is kept");
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

    proptest! {
        #[test]
        fn what_is_kept_is_what_a_look_at_all_flows_gives(
            steps in prop::collection::vec((0u32..5, 0u32..4, 0u32..4, any::<bool>()), 1..80),
            over in 0u32..5,
        ) {
            let mut contention = Contention::new(4);
            let mut flows: Vec<FlowFacts> = Vec::new();
            for (coflow, src, dst, arrives) in steps {
                let flow = FlowFacts { coflow: CoflowId(coflow), src: PortId(src), dst: PortId(dst) };
                let at = flows.iter().position(|other| *other == flow);
                if arrives {
                    contention.add(&flow);
                    flows.push(flow);
                } else if let Some(at) = at {
                    contention.remove(&flow);
                    flows.remove(at);
                }
            }
            contention.forget(CoflowId(over));
            flows.retain(|flow| flow.coflow != CoflowId(over));
            let used = |coflow: u32| -> BTreeSet<usize> {
                flows.iter().filter(|flow| flow.coflow.0 == coflow).flat_map(lines).collect()
            };
            for a in 0..5 {
                prop_assert_eq!(contention.lines(CoflowId(a)).collect::<BTreeSet<_>>(), used(a));
                let meet = |b: &u32| *b != a && !used(a).is_disjoint(&used(*b));
                prop_assert_eq!(contention.rivals(CoflowId(a)) as usize, (0..5).filter(meet).count());
                for b in (0..5).filter(|&b| b != a) {
                    prop_assert_eq!(contention.are_rivals(CoflowId(a), CoflowId(b)), meet(&b));
                }
            }
            for flow in &flows {
                let there = flows.iter().filter(|other| other.src == flow.src).count();
                prop_assert_eq!(contention.flows_at_sender(flow) as usize, there);
            }
        }
    }
}
