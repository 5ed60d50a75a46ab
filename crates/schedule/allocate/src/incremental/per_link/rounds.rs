//! The rounds of a run, many at a time.
//!
//! # The idea
//! A link *may be settled* if its flows in turn are in turn at their other ends as well. It is
//! settled if none of these ends has a lower level. That takes no look at them where its level is
//! not above the lowest of the other side; else a *witness* that was lower is looked at again, and
//! the others only once it no longer is.
//!
//! Where none is settled, the link with the lowest level is served, and then the next. Links of one
//! side have no flow in common, and serving one of them raises the levels of the other side. So all
//! whose level is below the lowest of the other side may be served one after the other, until a
//! class has all its rates, or a link that may be settled might be.
//!
//! Levels within [`SAME`] of each other go by number of link, as in the definition.

use super::classes::Classes;
use super::turns::Turns;
use crate::bits::members;
use crate::reference::SAME;

/// Levels, and what is looked at in a round.
#[derive(Debug)]
pub(super) struct Rounds {
    level: Vec<f64>,
    /// The level where flows wait that are in turn at both ends, infinite elsewhere.
    ready: Vec<f64>,
    /// By link: a link that was lower when it was last looked at.
    witness: Vec<usize>,
    /// Links that may be settled.
    candidates: Vec<usize>,
    batch: Vec<usize>,
    /// By link: whether it is in the batch, and the level that it must stay below as a witness.
    is_in_batch: Vec<bool>,
    bound: Vec<f64>,
    bounded: Vec<usize>,
    /// Candidates whose witness is in the batch.
    behind: Vec<usize>,
}

impl Rounds {
    pub(super) fn new(links: usize) -> Self {
        Self {
            level: vec![0.0; links],
            ready: vec![0.0; links],
            witness: vec![usize::MAX; links],
            candidates: Vec::new(),
            batch: Vec::new(),
            is_in_batch: vec![false; links],
            bound: vec![f64::INFINITY; links],
            bounded: Vec::new(),
            behind: Vec::new(),
        }
    }

    /// Serves all flows. False if some are left that wait for each other: none is in turn at both
    /// ends.
    pub(super) fn run(&mut self, turns: &mut Turns, classes: &Classes) -> bool {
        loop {
            let lowest = self.update_levels(turns);
            if lowest == [f64::INFINITY; 2] {
                return turns.waiting.iter().all(|&waiting| waiting < 0.5);
            }
            let may_settle = |&link: &usize| turns.held[link] < 0.5 && self.ready[link] < f64::INFINITY;
            self.candidates.clear();
            self.candidates.extend((0..self.ready.len()).filter(may_settle));
            if !self.settle(turns, classes, lowest) {
                self.share_bottlenecks(turns, classes, lowest);
            }
            turns.follow_up(classes);
        }
    }

    /// Computes all levels. Returns the lowest of flows in turn at both ends, by side.
    fn update_levels(&mut self, turns: &Turns) -> [f64; 2] {
        let links = turns.left.iter().zip(&turns.waiting).zip(&turns.held);
        for (((left, waiting), held), (level, ready)) in links.zip(self.level.iter_mut().zip(&mut self.ready))
        {
            *level = if *waiting > 0.5 { left / waiting } else { f64::INFINITY };
            *ready = if *waiting > held + 0.5 { *level } else { f64::INFINITY };
        }
        let lowest = |levels: &[f64]| levels.iter().fold(f64::INFINITY, |a, &b| if b < a { b } else { a });
        [lowest(&self.ready[..turns.lanes]), lowest(&self.ready[turns.lanes..])]
    }

    /// Serves settled links. False if there are none.
    fn settle(&mut self, turns: &mut Turns, classes: &Classes, lowest: [f64; 2]) -> bool {
        for side in 0..2 {
            let limit = lowest[1 - side] / (1.0 - SAME);
            let is_low = |&&link: &&usize| (link >= turns.lanes) == (side == 1) && self.ready[link] <= limit;
            let low: Vec<usize> = self.candidates.iter().filter(is_low).copied().collect();
            low.iter().for_each(|&link| turns.serve(classes, link, self.ready[link], false));
            if !low.is_empty() {
                return true;
            }
        }
        for at in 0..self.candidates.len() {
            let link = self.candidates[at];
            let below = self.level[link] * (1.0 - SAME);
            let is_below = |level: &[f64], other: usize| level[other] < below;
            let witness = self.witness[link];
            if witness < usize::MAX
                && is_below(&self.level, witness)
                && turns.are_adjacent(classes, link, witness)
            {
                continue;
            }
            self.witness[link] = self.lowest_across(turns, classes, link);
            if !is_below(&self.level, self.witness[link]) {
                turns.serve(classes, link, self.level[link], false);
                return true;
            }
        }
        false
    }

    /// The link with the lowest level of those that the flows in turn at a link cross.
    fn lowest_across(&self, turns: &Turns, classes: &Classes, link: usize) -> usize {
        let across = members(turns.ready_across(classes, link)).map(|lane| classes.across(link, lane));
        let lower = |a: usize, b: usize| if self.level[b] < self.level[a] { b } else { a };
        across.reduce(lower).expect("flows that are in turn at both ends wait here")
    }

    /// Serves the lowest links.
    fn share_bottlenecks(&mut self, turns: &mut Turns, classes: &Classes, lowest: [f64; 2]) {
        let side = usize::from(lowest[1] < lowest[0] * (1.0 - SAME));
        self.gather(side, turns.lanes, lowest);
        self.watch(side, turns.lanes);
        let mut checked = if self.behind.is_empty() { self.batch.len() } else { 1 };
        for at in 0..self.batch.len() {
            if at > 0
                && !self.bounded.iter().all(|&link| turns.left[link] < self.bound[link] * turns.waiting[link])
            {
                break;
            }
            if at >= checked {
                match self.still_behind(turns, classes, at) {
                    Some(until) => checked = until,
                    None => break,
                }
            }
            let link = self.batch[at];
            turns.serve(classes, link, self.ready[link], true);
            if turns.is_class_done {
                break;
            }
        }
        self.bounded.drain(..).for_each(|link| self.bound[link] = f64::INFINITY);
        self.batch.iter().for_each(|&link| self.is_in_batch[link] = false);
    }

    /// Collects the links of a side that may be served one after the other, in the order of the
    /// definition: the lowest first, and of those that are level the first by number.
    fn gather(&mut self, side: usize, lanes: usize, lowest: [f64; 2]) {
        let limit = if side == 0 { lowest[1] / (1.0 - SAME) } else { lowest[0] * (1.0 - SAME) };
        let ready = &self.ready;
        let links = side * lanes..(side + 1) * lanes;
        self.batch.clear();
        self.batch.extend(links.clone().filter(|&link| ready[link] < limit));
        if self.batch.is_empty() {
            self.batch.extend(links.into_iter().find(|&link| ready[link] <= lowest[side]));
        }
        self.batch.sort_unstable_by(|&a, &b| ready[a].total_cmp(&ready[b]).then(a.cmp(&b)));
        for at in 0..self.batch.len() {
            let limit = ready[self.batch[at]] / (1.0 - SAME);
            let level = self.batch[at..].iter().take_while(|&&link| ready[link] <= limit);
            let first = level.enumerate().min_by_key(|&(_, &link)| link).map_or(0, |(nth, _)| nth);
            self.batch[at..=at + first].rotate_right(1);
        }
        self.batch.iter().for_each(|&link| self.is_in_batch[link] = true);
    }

    /// Notes which witnesses the batch may take away. Those on its own side go when they are
    /// served, those on the other as they rise.
    fn watch(&mut self, side: usize, lanes: usize) {
        self.behind.clear();
        for &link in &self.candidates {
            let witness = self.witness[link];
            if usize::from(link >= lanes) != side {
                if self.is_in_batch[witness] {
                    self.behind.push(link);
                }
            } else {
                if self.bound[witness] == f64::INFINITY {
                    self.bounded.push(witness);
                }
                self.bound[witness] = self.bound[witness].min(self.level[link] * (1.0 - SAME));
            }
        }
    }

    /// The place in the batch up to which each candidate whose witness is in it has a lower link
    /// that is still to be served; none if one has no such link from `at` on.
    fn still_behind(&mut self, turns: &Turns, classes: &Classes, at: usize) -> Option<usize> {
        let mut until = self.batch.len();
        for &link in &self.behind {
            let below = turns.left[link] / turns.waiting[link] * (1.0 - SAME);
            let is_lower =
                |&other: &usize| self.ready[other] < below && turns.are_adjacent(classes, link, other);
            let last = self.batch[at..].iter().rposition(is_lower)?;
            self.witness[link] = self.batch[at + last];
            until = until.min(at + last + 1);
        }
        Some(until)
    }
}
