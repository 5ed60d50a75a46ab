//! Max-min fairness in strict classes where every link has priorities of its own: what the explicit
//! rates of Baraat's switches come to (§4.3.2 Algorithm 1, §4.3.3 Algorithm 2).
//!
//! # Derivation
//! Algorithm 1: a link gives a class what the demands of the classes before it leave, C − Σ D. A
//! flow whose demand fits in is not held back there (NR = D); else each flow of the class gets an
//! even part (line 8), and virtual capacity gives out again what some of them cannot use: max-min.
//! Algorithm 2: a sender demands the least that any link on its path grants it, and its line rate
//! as soon as none holds it back. In the limit (δ and the round trip going to zero) rates stand
//! still where every flow that could use more crosses a link that is full, of flows before it there
//! and of equals that have no more than it has. Where links rank flows alike there is one such
//! allocation. Where they contradict each other there may be many: of two flows over the same two
//! links, ranked A, B and B, A, any split of the link is one.
//!
//! # How it is found
//! A flow is *in turn* at a link if no flow before it there still waits for its rate. A link's
//! *level* is the even part of what it has left for the flows in turn. A link is *settled* if the
//! flows in turn there are in turn everywhere, and none of them crosses a link with a lower level:
//! in every allocation that stands still they have the level, so they get it. A flow across a link
//! with nothing left gets nothing. Where links agree, this decides all.
//!
//! # Where links contradict each other
//! When no link is settled, flows wait for each other in a circle. Either some of them are in turn
//! everywhere: A goes before B at one link and shares another evenly with B, and how much B can use
//! there depends on A. Line 8 counts a flow that is held back elsewhere like any other, so the link
//! with the lowest level among those of A gives A the even part, and B gets what A leaves. Or no
//! flow is, as of two flows ranked A, B and B, A: then being in turn at one link is enough, such
//! flows count on their whole path, and the link with the lowest level serves all of them evenly.
//!
//! # What is left
//! Line 8 counts flows that cannot use their parts. What is left of these goes out to the flows
//! that got theirs at bottlenecks and have room on all of their links, max-min: sharing inside a
//! class is max-min (§4.3.2), and virtual capacity gives to all alike (footnote 5). So rates do not
//! depend on how flows and links are numbered.
//!
//! It goes out last, and later classes come before. Of links X = 1, Y = 0.6 and Z = 1, with a and b
//! over X and Y and c over X and Z, where X ranks a = b < c and Y ranks a < b, a gets 0.5, b 0.1
//! and c 0.4: Y is full when b has its rate, X is when c has. What stands still where links
//! contradict each other is therefore not always what comes out here: a could rise to 0.6 if b and
//! c made room.
//!
//! SPC over packets bears that out (`contradicting_links` in the tests of `sim-packet`; in times
//! that a flow takes alone): tied at one link and strict at the other, both flows end at 2.0, as
//! here, whichever came first; with a third between them at the strict link the three end at 1.8,
//! 2.3 and 3.2, here at 2, 2 and 3. Of two flows with reversed ranks one ends at 1.0 and the other
//! at 2.0, and chance decides which (here both at 2). A circle of four never comes to rest: it ends
//! at 2.0 to 2.9 (here 2). Of three flows ranked A, B, C and C, B, A any may be first (here A and C
//! at 2, B at 3).
//!
//! # Rejected
//! - Deferred acceptance, in which the links where flows enter decide (Gale and Shapley): A alone
//!   gets all in these cases.
//! - To begin at the present rates and let links answer until nothing changes: what comes out
//!   depends on what was before, and on circles of three, where each link ranks another flow first,
//!   it never ends.
//! - To look for a circle, by going from a flow to the one that it waits for until one comes again,
//!   and to share the lowest of its links: which circle is found depends on how flows are numbered,
//!   and the packets favour neither.
//! - To give what is left to one flow after the other, in order of priority and number: flows that
//!   would end together do not, and of random instances with the ranks of Baraat one in seven has
//!   other rates when flows and ports are numbered backwards.
//! - To give out what a class leaves before the next one comes in turn, as far as flows that wait
//!   cannot use it (a gets 0.6 above). It takes from links that others wait for, so what was
//!   settled is so no longer, and rates depend again on which of several settled links goes first
//!   (one instance in sixty). And it cures little: of the flows of such instances 16 in place of 20
//!   in a hundred could still use more.
//!
//! O(rounds × flows × hops), with a round for each link.

use std::collections::{BTreeMap, BTreeSet};

use cavalcade_model::Priority;

use super::{Flow, NEGLIGIBLE, max_min};

/// Levels that differ by less than this share are the same.
pub(crate) const SAME: f64 = 1e-9;

pub(crate) fn allocate(capacity: &[f64], flows: &[Flow<'_>]) -> Vec<f64> {
    let (mut left, mut rates) = (capacity.to_vec(), vec![None; flows.len()]);
    let mut at_bottlenecks = Vec::new();
    loop {
        let is_full = |link: &u32| left[*link as usize] <= NEGLIGIBLE * capacity[*link as usize];
        for (flow, rate) in flows.iter().zip(&mut rates) {
            if rate.is_none() && (flow.cap <= 0.0 || flow.path.iter().any(is_full)) {
                *rate = Some(0.0);
            }
        }
        let turns = Turns::new(&left, flows, &rates);
        let decided = turns.settled().unwrap_or_else(|| {
            let shares = turns.at_bottleneck();
            at_bottlenecks.extend(shares.iter().map(|&(flow, _)| flow));
            shares
        });
        if decided.is_empty() {
            break;
        }
        for (flow, rate) in decided {
            rates[flow] = Some(rate);
            flows[flow].path.iter().for_each(|&link| left[link as usize] -= rate);
        }
    }
    let mut rates: Vec<f64> = rates.into_iter().flatten().collect();
    share_rest(capacity, flows, at_bottlenecks, &mut left, &mut rates);
    rates
}

/// Gives what is left to flows that were served at bottlenecks, max-min.
fn share_rest(
    capacity: &[f64],
    flows: &[Flow<'_>],
    mut served: Vec<usize>,
    left: &mut [f64],
    rates: &mut [f64],
) {
    let has_room = |&link: &u32| left[link as usize] > NEGLIGIBLE * capacity[link as usize];
    served.retain(|&flow| flows[flow].path.iter().all(has_room));
    let up_to_cap = |&flow: &usize| Flow { cap: flows[flow].cap - rates[flow], ..flows[flow] };
    let rising: Vec<Flow<'_>> = served.iter().map(up_to_cap).collect();
    let all: Vec<usize> = (0..rising.len()).collect();
    let mut more = vec![0.0; rising.len()];
    max_min::fill(&rising, &all, |_| 1.0, left, &mut more);
    for (flow, more) in served.into_iter().zip(more) {
        rates[flow] += more;
    }
}

/// A link with flows that wait for their rates.
#[derive(Default)]
struct Link {
    /// The best priority of these flows, and who has it.
    best: Option<Priority>,
    in_turn: Vec<usize>,
    left: f64,
}

impl Link {
    fn level(&self) -> f64 {
        self.left / self.in_turn.len() as f64
    }
}

/// The flows that are in turn at each link.
struct Turns<'a> {
    flows: &'a [Flow<'a>],
    links: BTreeMap<u32, Link>,
}

impl<'a> Turns<'a> {
    fn new(left: &[f64], flows: &'a [Flow<'a>], rates: &[Option<f64>]) -> Self {
        let mut links: BTreeMap<u32, Link> = BTreeMap::new();
        for (number, flow) in flows.iter().enumerate().filter(|(number, _)| rates[*number].is_none()) {
            for (&link, &priority) in flow.path.iter().zip(flow.priorities) {
                let entry = links.entry(link).or_default();
                entry.left = left[link as usize];
                if entry.best.is_none_or(|best| priority < best) {
                    entry.best = Some(priority);
                    entry.in_turn.clear();
                }
                if entry.best == Some(priority) {
                    entry.in_turn.push(number);
                }
            }
        }
        Self { flows, links }
    }

    fn is_in_turn(&self, flow: usize, link: u32) -> bool {
        let mut hops = self.flows[flow].path.iter().zip(self.flows[flow].priorities);
        hops.any(|(&hop, &own)| hop == link && self.links[&hop].best == Some(own))
    }

    /// Tells whether a flow is in turn everywhere.
    fn is_ready(&self, flow: usize) -> bool {
        self.flows[flow].path.iter().all(|&link| self.is_in_turn(flow, link))
    }

    /// The flows of a settled link, with the level as their rate. A cap is a link that only its
    /// flow crosses.
    fn settled(&self) -> Option<Vec<(usize, f64)>> {
        let lowest = |flow: usize| {
            let levels = self.flows[flow].path.iter().map(|link| self.links[link].level());
            levels.fold(f64::INFINITY, f64::min)
        };
        let reaches = |flow: usize, level: f64| self.is_ready(flow) && lowest(flow) >= level * (1.0 - SAME);
        let in_turn = self.links.values().flat_map(|link| &link.in_turn).copied();
        if let Some(flow) = in_turn.into_iter().find(|&flow| reaches(flow, self.flows[flow].cap)) {
            return Some(vec![(flow, self.flows[flow].cap)]);
        }
        let is_settled = |link: &&Link| link.in_turn.iter().all(|&flow| reaches(flow, link.level()));
        let settled = self.links.values().find(is_settled)?;
        Some(settled.in_turn.iter().map(|&flow| (flow, settled.level())).collect())
    }

    /// The flows that get even parts of the lowest link where links contradict each other: those in
    /// turn everywhere, or, where none is, those in turn anywhere.
    fn at_bottleneck(&self) -> Vec<(usize, f64)> {
        let in_turn: BTreeSet<usize> = self.links.values().flat_map(|link| &link.in_turn).copied().collect();
        let ready: BTreeSet<usize> = in_turn.iter().copied().filter(|&flow| self.is_ready(flow)).collect();
        let served = if ready.is_empty() { in_turn } else { ready };
        let mut crowds: BTreeMap<u32, usize> = BTreeMap::new();
        for &flow in &served {
            for &link in self.flows[flow].path {
                let crowd = crowds.entry(link).or_insert_with(|| self.links[&link].in_turn.len());
                *crowd += usize::from(!self.is_in_turn(flow, link));
            }
        }
        let levels = crowds.into_iter().map(|(link, crowd)| (link, self.links[&link].left / crowd as f64));
        let lower = |least: (u32, f64), (link, level)| {
            if level < least.1 * (1.0 - SAME) { (link, level) } else { least }
        };
        let (lowest, level) = levels.fold((u32::MAX, f64::INFINITY), lower);
        let crosses = |flow: &usize| self.flows[*flow].path.contains(&lowest);
        served.into_iter().filter(crosses).map(|flow| (flow, level.min(self.flows[flow].cap))).collect()
    }
}
