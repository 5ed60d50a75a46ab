//! The flows that one account has left, by pair of links, and the bytes left on each link.
//!
//! A *row* is a link where flows enter the switch, a *column* one where they leave it. Flows are sorted by column, then by
//! row, then by number, so the flows between two links are a run that a binary search in the column finds. A pair of links
//! is *open* while one of its flows may want more than it gets; each link has a bit set of the partners with which its
//! pair is open. The partners that are also free come out of an intersection of two short sets, and the fullest of them
//! out of a scan of their loads.

use std::ops::Range;

use crate::bits::{ones, set};
use crate::fill::NONE;

/// The bytes left of a flow that has finished; no other flow has a negative amount.
const OVER: f64 = -1.0;

/// Rounds bytes to 1024ths, in which loads are compared, so that rounding does not decide between equal ones.
fn steps(bytes: f64) -> i64 {
    (bytes * 1024.0 + 0.5) as i64
}

/// One flow.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Flow {
    pub(crate) number: u32,
    /// Its row and its column.
    pub(crate) links: [u32; 2],
    /// Bytes left when they were last settled.
    pub(crate) left: f64,
    /// The place of the first flow between its links; and, of that one, how many flows behind it have finished before
    /// the first unfinished one, with itself.
    first: u32,
    finished: u32,
}

impl Flow {
    pub(crate) fn new(number: u32, links: [u32; 2], bytes: f64) -> Self {
        Self { number, links, left: bytes, first: 0, finished: 0 }
    }

    fn is_over(&self) -> bool {
        self.left < 0.0
    }
}

/// The demand of the account on one link.
#[derive(Clone, Copy, Debug, Default)]
struct End {
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

/// All rows, or all columns.
#[derive(Debug, Default)]
struct Side {
    measure: Measure,
    /// The words that these links take in a set of links.
    words: Range<usize>,
    /// For each link from the first of those words on: the bytes left there, how full that makes it, and the rest.
    loads: Vec<f64>,
    steps: Vec<[i64; 64]>,
    ends: Vec<End>,
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
        Self { measure, words, loads, steps, ends: vec![End::default(); links], open: Vec::new() }
    }

    #[inline]
    fn set_load(&mut self, at: usize, load: f64) {
        self.loads[at] = load;
        self.steps[at / 64][at % 64] = match self.measure {
            Measure::Bytes => steps(load),
            Measure::Flows => i64::from(self.ends[at].flows),
        };
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
#[derive(Debug, Default)]
pub(crate) struct Demand {
    flows: Vec<Flow>,
    /// Rows, columns.
    sides: [Side; 2],
}

impl Demand {
    pub(crate) fn new(mut flows: Vec<Flow>, measure: Measure) -> Self {
        flows.sort_unstable_by_key(|flow| (flow.links[1], flow.links[0], flow.number));
        let mut sides = [0, 1].map(|side| Side::new(measure, flows.iter().map(|flow| flow.links[side])));
        let widths = [sides[1].words.len(), sides[0].words.len()];
        for place in 0..flows.len() {
            let before = place.checked_sub(1).map(|before| flows[before]);
            let flow = &mut flows[place];
            let first = before.filter(|before| before.links == flow.links).map(|before| before.first);
            (flow.first, flow.finished) = (first.unwrap_or(place as u32), 0);
            for ((side, link), width) in sides.iter_mut().zip(flow.links).zip(widths) {
                let at = side.at(link);
                let end = &mut side.ends[at];
                if end.flows == 0 {
                    (end.first, end.open) = (place as u32, side.open.len() as u32);
                    side.open.resize(side.open.len() + width, 0);
                }
                end.flows += 1;
                end.end = place as u32 + 1;
                side.set_load(at, side.loads[at] + flow.left);
            }
        }
        for side in &mut sides {
            let used = side.ends.iter_mut().filter(|end| end.flows > 0);
            used.zip(0..).for_each(|(end, nth)| end.nth = nth);
        }
        let mut demand = Self { flows: Vec::new(), sides };
        flows.iter().for_each(|flow| demand.open(flow.links, true));
        demand.flows = flows;
        demand
    }

    /// The flow at a place; `None` where it has finished.
    pub(crate) fn flow(&self, place: u32) -> Option<&Flow> {
        self.flows.get(place as usize).filter(|flow| !flow.is_over())
    }

    /// The unfinished flows and their places.
    pub(crate) fn unfinished(&self) -> impl Iterator<Item = (u32, &Flow)> {
        (0..).zip(&self.flows).filter(|(_, flow)| !flow.is_over())
    }

    /// The rows and the columns that have flows left, with the bytes left there.
    pub(crate) fn links(&self, side: usize) -> impl Iterator<Item = (u32, f64)> {
        self.sides[side].links()
    }

    /// Finds the partner with most bytes left, of those with which `link` has an open pair and that are in the set `free`;
    /// of equals the lower link.
    #[inline]
    pub(crate) fn fullest_partner(&self, side: usize, link: u32, free: &[u64]) -> Option<u32> {
        let (own, other) = (&self.sides[side], &self.sides[1 - side]);
        let end = own.ends.get(own.at(link)).filter(|end| end.flows > 0)?;
        let open = &own.open[end.open as usize..][..other.words.len()];
        let sets = open.iter().zip(&free[other.words.clone()]).map(|(open, free)| open & free);
        let (mut fullest, mut most) = (NONE, -1);
        for ((first, steps), set) in (0..).step_by(64).zip(&other.steps).zip(sets) {
            for bit in ones(set) {
                let load = steps[bit as usize % 64];
                // Without a branch: which of a dozen is the fullest, no processor can guess.
                fullest = if load > most { first + bit } else { fullest };
                most = most.max(load);
            }
        }
        (fullest != NONE).then(|| fullest + other.words.start as u32 * 64)
    }

    /// Opens or closes a pair of links.
    pub(crate) fn open(&mut self, links: [u32; 2], value: bool) {
        for side in [0, 1] {
            let partner = self.sides[1 - side].at(links[1 - side]) as u32;
            let own = &mut self.sides[side];
            let first = own.ends[own.at(links[side])].open as usize;
            set(&mut own.open[first..], partner, value);
        }
    }

    /// The places of all flows between two links of which some flow is unfinished, except those finished at their head.
    #[inline]
    pub(crate) fn run(&self, links: [u32; 2]) -> Range<usize> {
        let first = self.run_start(links);
        let first = first + self.flows[first].finished as usize;
        let len = self.flows[first..].iter().take_while(|flow| flow.links == links).count();
        first..first + len
    }

    /// Finds the first flow between two links.
    #[inline]
    fn run_start(&self, links: [u32; 2]) -> usize {
        let [rows, columns] = &self.sides;
        let End { first, end, .. } = columns.ends[columns.at(links[1])];
        let of_column = &self.flows[first as usize..end as usize];
        // A column mostly has one flow from each row.
        let guess = rows.ends[rows.at(links[0])].nth as usize;
        match of_column.get(guess) {
            Some(flow) if flow.links[0] == links[0] => flow.first as usize,
            _ => first as usize + of_column.partition_point(|flow| flow.links[0] < links[0]),
        }
    }

    /// Takes bytes that were sent off the flow at a place and off its links.
    #[inline]
    pub(crate) fn settle(&mut self, place: u32, sent: f64) {
        let flow = &mut self.flows[place as usize];
        flow.left = (flow.left - sent).max(0.0);
        for (side, link) in self.sides.iter_mut().zip(flow.links) {
            let at = side.at(link);
            side.set_load(at, side.loads[at] - sent);
        }
    }

    /// Marks the flow at a place as finished.
    pub(crate) fn finish(&mut self, place: u32) {
        let flow = &mut self.flows[place as usize];
        let (links, left) = (flow.links, std::mem::replace(&mut flow.left, OVER));
        for (side, link) in self.sides.iter_mut().zip(links) {
            let at = side.at(link);
            side.ends[at].flows -= 1;
            // What rounding left of the load must not outlive the flows.
            side.set_load(at, if side.ends[at].flows == 0 { 0.0 } else { side.loads[at] - left });
        }
        let first = self.flows[place as usize].first as usize;
        let is_between = |flow: &&Flow| flow.links == links;
        let finished = self.flows[first].finished as usize;
        let behind = self.flows[first + finished..].iter().take_while(is_between);
        let finished = finished + behind.take_while(|flow| flow.is_over()).count();
        self.flows[first].finished = finished as u32;
        let is_open = self.flows.get(first + finished).is_some_and(|flow| is_between(&flow));
        self.open(links, is_open);
    }
}
