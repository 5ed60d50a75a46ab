//! What is left when all flows have rates: it goes to those that were served at bottlenecks and
//! could use it, max-min.
//!
//! Flows that one serving decides between two links rise together, so they are filled as one with
//! their number as its weight.

use super::classes::Classes;
use super::turns::{Turns, lanes};
use crate::reference::NEGLIGIBLE;

/// Flows between two links that rise together.
#[derive(Clone, Copy, Debug)]
pub(super) struct Raise {
    pub(super) serving: usize,
    pub(super) lane: u32,
    far: usize,
    flows: f64,
    /// What each of them gets beside its rate.
    pub(super) by: f64,
}

/// All that rise.
#[derive(Debug)]
pub(super) struct Leftovers {
    pub(super) raises: Vec<Raise>,
    /// By link: those of its flows that rise still, and how many these are.
    on_link: Vec<Vec<usize>>,
    rising: Vec<f64>,
}

impl Leftovers {
    pub(super) fn new(links: usize) -> Self {
        Self { raises: Vec::new(), on_link: vec![Vec::new(); links], rising: vec![0.0; links] }
    }

    /// Gives out what links have left.
    pub(super) fn share(&mut self, turns: &mut Turns, classes: &Classes) {
        self.collect(turns, classes);
        let links = self.rising.len();
        loop {
            let lowest = (0..links).filter(|&link| self.rising[link] > 0.5).fold(None, |lowest, link| {
                let level = turns.left[link] / self.rising[link];
                if lowest.is_none_or(|(_, least)| level < least) { Some((link, level)) } else { lowest }
            });
            let Some((lowest, level)) = lowest else { break };
            let level = level.max(0.0);
            for &at in &self.on_link[lowest] {
                let raise = &mut self.raises[at];
                if raise.by >= 0.0 {
                    continue;
                }
                raise.by = level;
                for link in [turns.served[raise.serving].link, raise.far] {
                    self.rising[link] -= raise.flows;
                    turns.left[link] -= level * raise.flows;
                }
            }
        }
    }

    /// Finds who was served at a bottleneck between two links that both have something left.
    fn collect(&mut self, turns: &Turns, classes: &Classes) {
        self.raises.clear();
        self.on_link.iter_mut().for_each(Vec::clear);
        self.rising.fill(0.0);
        let has_room = |link: usize| turns.left[link] > NEGLIGIBLE * turns.capacity[link];
        for (serving, served) in turns.served.iter().enumerate() {
            if !served.at_bottleneck || !has_room(served.link) {
                continue;
            }
            for lane in turns.lanes_of(serving).into_iter().flat_map(lanes) {
                let far = classes.across(served.link, lane);
                if !has_room(far) {
                    continue;
                }
                let flows = turns.flows_served(classes, serving, lane);
                for link in [served.link, far] {
                    self.on_link[link].push(self.raises.len());
                    self.rising[link] += flows;
                }
                self.raises.push(Raise { serving, lane, far, flows, by: -1.0 });
            }
        }
    }
}
