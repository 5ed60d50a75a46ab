//! The flows that one account has left, by pair of links, and the bytes left on each link.
//!
//! A *row* is a link where flows enter the switch, a *column* one where they leave it. Flows are
//! sorted by column, then by row, then by number, so the flows between two links are a run that a
//! binary search in the column finds. A pair of links is *open* while one of its flows may want
//! more than it gets; each link has a bit set of the partners with which its pair is open. The
//! partners that are also free come out of an intersection of two short sets, and the fullest of
//! them out of a scan of their loads.
//!
//! Where paths have links in between, those are a third side, with loads. A path follows from its
//! row and its column, so a pair stands for one path there too; `groups` has those that cross the
//! same links.

mod groups;

use std::ops::Range;

use crate::bits::{has, ones, set};
use crate::fill::NONE;
use crate::route::Route;
use groups::Groups;
pub(crate) use groups::Part;

/// The bytes left of a flow that has finished; no other flow has a negative amount.
const OVER: f64 = -1.0;

/// Rounds bytes to 1024ths, in which loads are compared, so that rounding does not decide between
/// equal ones.
fn steps(bytes: f64) -> i64 {
    (bytes * 1024.0 + 0.5) as i64
}

/// One flow.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Flow<const N: usize> {
    pub(crate) number: u32,
    pub(crate) route: Route<N>,
    /// Bytes left when they were last settled.
    pub(crate) left: f64,
    /// The place of the first flow between its links.
    first: u32,
    /// Of the first one: how many from it on have finished before one that has not.
    finished: u32,
    /// Of the first one: the place behind the last between these links.
    end: u32,
}

impl<const N: usize> Flow<N> {
    pub(crate) fn new(number: u32, route: Route<N>, bytes: f64) -> Self {
        Self { number, route, left: bytes, first: 0, finished: 0, end: 0 }
    }

    fn is_over(&self) -> bool {
        self.left < 0.0
    }
}

/// The demand of the account on one link.
#[derive(Clone, Copy, Debug, Default)]
struct OfLink {
    /// Flows left.
    flows: u32,
    /// The place at which its set of partners begins.
    open: u32,
    /// Number of links of its side before it.
    nth: u32,
    /// Of a column: the places of its flows.
    first: u32,
    end: u32,
}

/// The measure by which one link of an account is fuller than another.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Measure {
    /// The bytes left there.
    #[default]
    Bytes,
    /// The flows left there.
    Flows,
}

/// How full the links of a path are, the fullest first: what is least goes first. A link is a step
/// lower where it is fuller, and of equals the one with the lower number comes first.
pub(crate) type Fullness<const N: usize> = [(i64, u32); N];

/// All rows, all columns, or all links in between.
#[derive(Debug, Default)]
struct Side {
    measure: Measure,
    /// The words that these links take in a set of links.
    words: Range<usize>,
    /// For each link from the first of those words on: the bytes left there, how full that makes
    /// it, and the rest.
    loads: Vec<f64>,
    steps: Vec<[i64; 64]>,
    ends: Vec<OfLink>,
    /// Sets of partners, over the words of the other side.
    open: Vec<u64>,
}

impl Side {
    fn new(measure: Measure, links: impl Iterator<Item = u32> + Clone) -> Self {
        let word = |link: u32| link as usize / 64;
        let words =
            links.clone().map(word).min().unwrap_or(0)..links.map(word).max().map_or(0, |last| last + 1);
        let links = words.len() * 64;
        let (loads, steps) = (vec![0.0; links], vec![[0; 64]; words.len()]);
        Self { measure, words, loads, steps, ends: vec![OfLink::default(); links], open: Vec::new() }
    }

    #[inline]
    fn set_load(&mut self, at: usize, load: f64) {
        self.loads[at] = load;
        self.steps[at / 64][at % 64] = match self.measure {
            Measure::Bytes => steps(load),
            Measure::Flows => i64::from(self.ends[at].flows),
        };
    }

    /// Notes one more flow on `link`, with so much left. Returns whether it is the first.
    fn join(&mut self, link: u32, left: f64) -> bool {
        let at = self.at(link);
        self.ends[at].flows += 1;
        self.set_load(at, self.loads[at] + left);
        self.ends[at].flows == 1
    }

    /// The demand on `link`, if there is any.
    #[inline]
    fn of_link(&self, link: u32) -> Option<&OfLink> {
        self.ends.get(self.at(link)).filter(|end| end.flows > 0)
    }

    /// How full `link` is, as [`Fullness`] has it.
    #[inline]
    fn fullness(&self, link: u32) -> (i64, u32) {
        let at = self.at(link);
        (-self.steps[at / 64][at % 64], link)
    }

    /// Finds the fullest link of a set that is given as words, from the word `first` on; of equals
    /// the lower one.
    #[inline]
    fn fullest(&self, first: usize, set: impl Iterator<Item = u64>) -> Option<u32> {
        let (mut fullest, mut most) = (NONE, -1);
        for ((first, steps), set) in (64 * first as u32..).step_by(64).zip(&self.steps[first..]).zip(set) {
            for bit in ones(set) {
                let load = steps[bit as usize % 64];
                // Without a branch: which of a dozen is the fullest, no processor can guess.
                fullest = if load > most { first + bit } else { fullest };
                most = most.max(load);
            }
        }
        (fullest != NONE).then(|| fullest + self.words.start as u32 * 64)
    }

    /// The place of `link`; out of range where the account has nothing near it.
    #[inline]
    fn at(&self, link: u32) -> usize {
        (link as usize).wrapping_sub(self.words.start * 64)
    }

    /// The links with flows left, and the bytes left there.
    fn links(&self) -> impl Iterator<Item = (u32, f64)> {
        let links = (self.words.start as u32 * 64..).zip(self.ends.iter().zip(&self.loads));
        links.filter(|(_, (end, _))| end.flows > 0).map(|(link, (_, &load))| (link, load))
    }
}

/// The flows of one account.
#[derive(Debug)]
pub(crate) struct Demand<const N: usize> {
    flows: Vec<Flow<N>>,
    /// Rows, columns, links in between.
    sides: [Side; 3],
    groups: Groups<N>,
}

impl<const N: usize> Default for Demand<N> {
    fn default() -> Self {
        Self { flows: Vec::new(), sides: <[Side; 3]>::default(), groups: Groups::default() }
    }
}

impl<const N: usize> Demand<N> {
    pub(crate) fn new(mut flows: Vec<Flow<N>>, measure: Measure) -> Self {
        flows.sort_unstable_by_key(|flow| {
            let [row, column] = flow.route.ends();
            (column, row, flow.number)
        });
        let on_side = |wanted: usize| {
            let links = flows.iter().flat_map(|flow| flow.route.sides());
            links.filter(move |&(side, _)| side == wanted).map(|(_, link)| link)
        };
        let mut sides = [0, 1, 2].map(|side| Side::new(measure, on_side(side)));
        let widths = [sides[1].words.len(), sides[0].words.len()];
        for place in 0..flows.len() {
            let before = place.checked_sub(1).map(|before| flows[before]);
            let flow = &mut flows[place];
            let first = before.filter(|before| before.route == flow.route).map(|before| before.first);
            (flow.first, flow.finished) = (first.unwrap_or(place as u32), 0);
            let flow = *flow;
            flows[flow.first as usize].end = place as u32 + 1;
            for ((side, link), width) in sides.iter_mut().zip(flow.route.ends()).zip(widths) {
                let is_first = side.join(link, flow.left);
                let at = side.at(link);
                if is_first {
                    (side.ends[at].first, side.ends[at].open) = (place as u32, side.open.len() as u32);
                    side.open.resize(side.open.len() + width, 0);
                }
                side.ends[at].end = place as u32 + 1;
            }
            for link in flow.route.links().skip(2) {
                sides[2].join(link, flow.left);
            }
        }
        for side in &mut sides {
            let used = side.ends.iter_mut().filter(|end| end.flows > 0);
            used.zip(0..).for_each(|(end, nth)| end.nth = nth);
        }
        let first = |(place, flow): (u32, &Flow<N>)| (flow.first == place).then_some(flow.route);
        let routes = if N == 2 { Vec::new() } else { (0..).zip(&flows).filter_map(first).collect() };
        let mut demand = Self { flows: Vec::new(), groups: Groups::new(routes, &sides), sides };
        flows.iter().for_each(|flow| demand.open(&flow.route, true));
        demand.flows = flows;
        demand
    }

    /// The flow at a place; `None` where it has finished.
    pub(crate) fn flow(&self, place: u32) -> Option<&Flow<N>> {
        self.flows.get(place as usize).filter(|flow| !flow.is_over())
    }

    /// The unfinished flows and their places.
    pub(crate) fn unfinished(&self) -> impl Iterator<Item = (u32, &Flow<N>)> {
        (0..).zip(&self.flows).filter(|(_, flow)| !flow.is_over())
    }

    /// The links of a side that have flows left, with the bytes left there.
    pub(crate) fn links(&self, side: usize) -> impl Iterator<Item = (u32, f64)> {
        self.sides[side].links()
    }

    /// The partners with which `link`, a row or a column, has an open pair, and that are in the set
    /// `free`: as words, from the first word of their side on.
    #[inline]
    fn partners<'a>(&'a self, side: usize, link: u32, free: &'a [u64]) -> impl Iterator<Item = u64> + 'a {
        let (own, other) = (&self.sides[side], &self.sides[1 - side]);
        let open = own.of_link(link).map(|end| &own.open[end.open as usize..][..other.words.len()]);
        let free = &free[other.words.clone()];
        open.unwrap_or_default().iter().zip(free).map(|(open, free)| open & free)
    }

    /// Finds the partner with most bytes left, of those with which `link` has an open pair and that
    /// are in the set `free`; of equals the lower link.
    #[inline]
    pub(crate) fn fullest_partner(&self, side: usize, link: u32, free: &[u64]) -> Option<u32> {
        self.sides[1 - side].fullest(0, self.partners(side, link, free))
    }

    /// How full the links of a path are.
    pub(crate) fn fullness(&self, route: &Route<N>) -> Fullness<N> {
        let mut fullness = [(i64::MIN, 0); N];
        let mut links = 0;
        for (place, (side, link)) in fullness.iter_mut().zip(route.sides()) {
            *place = self.sides[side].fullness(link);
            links += 1;
        }
        fullness[..links].sort_unstable();
        fullness
    }

    /// Opens or closes a pair of links.
    pub(crate) fn open(&mut self, route: &Route<N>, value: bool) {
        let links = route.ends();
        for side in [0, 1] {
            let partner = self.sides[1 - side].at(links[1 - side]) as u32;
            let own = &mut self.sides[side];
            let first = own.ends[own.at(links[side])].open as usize;
            set(&mut own.open[first..], partner, value);
        }
    }

    /// Returns whether a flow between the row and the column of a path may want more than it gets.
    pub(crate) fn is_open(&self, route: &Route<N>) -> bool {
        let [row, column] = route.ends();
        let partner = self.sides[1].at(column) as u32;
        self.sides[0].of_link(row).is_some_and(|end| has(&self.sides[0].open[end.open as usize..], partner))
    }

    /// The places of all flows between two links of which some flow is unfinished, except those
    /// finished at their head.
    #[inline]
    pub(crate) fn run(&self, route: &Route<N>) -> Range<usize> {
        let first = self.run_start(route.ends());
        let Flow { finished, end, .. } = self.flows[first];
        first + finished as usize..end as usize
    }

    /// Finds the first flow between two links.
    #[inline]
    fn run_start(&self, links: [u32; 2]) -> usize {
        let [rows, columns, _] = &self.sides;
        let OfLink { first, end, .. } = columns.ends[columns.at(links[1])];
        let of_column = &self.flows[first as usize..end as usize];
        // A column mostly has one flow from each row.
        let guess = rows.ends[rows.at(links[0])].nth as usize;
        match of_column.get(guess) {
            Some(flow) if flow.route.ends()[0] == links[0] => flow.first as usize,
            _ => first as usize + of_column.partition_point(|flow| flow.route.ends()[0] < links[0]),
        }
    }

    /// Takes bytes that were sent off the flow at a place and off its links.
    #[inline]
    pub(crate) fn settle(&mut self, place: u32, sent: f64) {
        let flow = &mut self.flows[place as usize];
        flow.left = (flow.left - sent).max(0.0);
        for (side, link) in flow.route.sides() {
            let side = &mut self.sides[side];
            let at = side.at(link);
            side.set_load(at, side.loads[at] - sent);
        }
    }

    /// Marks the flow at a place as finished.
    pub(crate) fn finish(&mut self, place: u32) {
        let flow = &mut self.flows[place as usize];
        let (route, left) = (flow.route, std::mem::replace(&mut flow.left, OVER));
        for (side, link) in route.sides() {
            let side = &mut self.sides[side];
            let at = side.at(link);
            side.ends[at].flows -= 1;
            // What rounding left of the load must not outlive the flows.
            side.set_load(at, if side.ends[at].flows == 0 { 0.0 } else { side.loads[at] - left });
        }
        let first = self.flows[place as usize].first as usize;
        let Flow { finished, end, .. } = self.flows[first];
        let behind = &self.flows[first + finished as usize..end as usize];
        let finished = finished as usize + behind.iter().take_while(|flow| flow.is_over()).count();
        self.flows[first].finished = finished as u32;
        let is_open = first + finished < end as usize;
        self.open(&route, is_open);
        if !is_open {
            self.groups.finish_pair(&route);
        }
    }
}
