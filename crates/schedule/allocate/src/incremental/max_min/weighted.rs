//! Classes that share links by weight (Aalo Pseudocode 1).
//!
//! Each class serves its groups, in order of key, from an *offer* of its own instead of what the
//! class before left. First, every link offers its capacity to the classes present there by weight,
//! and every class tries what it can use of that. What is then free on a link goes on top to the
//! classes that used up their offer (all of them by weight, or the highest): what a class used and
//! its part of the rest is *reserved* for it. In the end each class, highest first, is served from
//! all that those before it left and that is not reserved for those behind it.
//!
//! Offers are remembered, so a class is only looked at where an offer changed or one of its groups
//! did. The trial is an allotment of the groups like the one that flows are served by; only levels
//! are found, nothing is attached.
//!
//! Not quite work conserving: what is reserved for a class that then cannot use it goes to those
//! behind, and if they cannot stays free until the next event.
//!
//! # Rejected
//! Trying what is reserved too, and serving from what the others used of it: mean CCT 38.79 s for
//! 38.83 s on the Facebook trace, for 1.7 times the fills.

use super::MaxMinFill;
use crate::bits::{has, members, pack, set};
use crate::incremental::max_min::group::{Block, SERVICE, blocks, blocks_mut};

/// The allotment of a group that finds what it can use of its class's offer.
pub(super) const TRIAL: usize = 1;

/// Number of allotments of a group: the one that serves it, and a trial.
pub(super) const STAGES: usize = 2;

/// The rates that one class is offered and uses, by link.
#[derive(Clone, Debug)]
struct Stage {
    offer: Vec<f64>,
    used: Vec<f64>,
    /// Links whose offer changed since it was last looked at, as bits.
    changed: Vec<u64>,
}

#[derive(Clone, Debug)]
struct Class {
    weight: f64,
    /// Links on which the class has flows, as bits.
    present: Vec<u64>,
    /// Served for real, then the trial.
    stages: [Stage; STAGES],
    /// The least rate of the class, if it can use it, by link.
    reserved: Vec<f64>,
    touched: bool,
    /// True if there is no flow in the class, and was none before this refill.
    is_out: bool,
}

/// The state of all classes.
#[derive(Debug)]
pub(super) struct Weighted {
    weights: Vec<u32>,
    to_highest: bool,
    /// Words of links, to which values are filled up.
    words: usize,
    /// By number, as far as any was ever there.
    classes: Vec<Class>,
    /// Links on which an offer or use changed in this refill, as bits.
    moved: Vec<u64>,
    /// For each class and link: what is reserved for the classes behind it.
    behind: Vec<Vec<f64>>,
    /// For each link: what the classes that were served already use.
    before: Vec<f64>,
}

impl Weighted {
    pub(super) fn new(weights: &[u32], to_highest: bool, links: usize) -> Self {
        let words = links.div_ceil(64);
        Self {
            weights: weights.to_vec(),
            to_highest,
            words,
            classes: Vec::new(),
            moved: vec![0; words],
            behind: Vec::new(),
            before: vec![0.0; 64 * words],
        }
    }

    /// Brings offers and rates up to date.
    pub(super) fn refill(&mut self, fill: &mut MaxMinFill, now: f64) {
        self.moved.fill(0);
        self.find_presence(fill);
        self.first_offers(fill);
        for class in 0..self.classes.len() {
            self.serve(fill, class, TRIAL, now);
        }
        self.reserve(fill);
        self.sum_behind();
        self.before.fill(0.0);
        for class in 0..self.classes.len() {
            if self.classes[class].is_out {
                continue;
            }
            self.offer_the_rest(fill, class);
            self.serve(fill, class, SERVICE, now);
            let used = &self.classes[class].stages[SERVICE].used;
            self.before.iter_mut().zip(used).for_each(|(before, used)| *before += used);
        }
        self.classes.iter_mut().for_each(|class| class.touched = false);
    }

    /// Notes which classes changed, and on which links they have flows now.
    fn find_presence(&mut self, fill: &MaxMinFill) {
        let (links, words) = (64 * self.words, self.words);
        for key in &fill.touched {
            while self.classes.len() <= usize::from(key.class) {
                let weight = f64::from(self.weights[self.classes.len().min(self.weights.len() - 1)]);
                let stage =
                    Stage { offer: vec![0.0; links], used: vec![0.0; links], changed: vec![0; words] };
                self.classes.push(Class {
                    weight,
                    present: vec![0; words],
                    stages: [stage.clone(), stage],
                    reserved: vec![0.0; links],
                    touched: false,
                    is_out: true,
                });
                self.behind.push(vec![0.0; links]);
            }
            self.classes[usize::from(key.class)].touched = true;
        }
        let mut now = vec![0; words];
        for (number, class) in self.classes.iter_mut().enumerate().filter(|(_, class)| class.touched) {
            now.fill(0);
            for rank in fill.ranks_of(number as u16) {
                let (_, group) = fill.order[rank];
                for links in fill.groups[group as usize].group.links() {
                    now.iter_mut().zip(links).for_each(|(now, links)| *now |= links);
                }
            }
            for ((moved, before), now) in self.moved.iter_mut().zip(&mut class.present).zip(&now) {
                *moved |= *before ^ now;
                *before = *now;
            }
        }
        for class in &mut self.classes {
            class.is_out = !class.touched && class.present.iter().all(|word| *word == 0);
        }
    }

    /// Splits each link on which presence changed by weight.
    fn first_offers(&mut self, fill: &MaxMinFill) {
        let classes = &mut self.classes;
        members(self.moved.iter().copied()).for_each(|link| {
            let is_present = |class: &Class| has(&class.present, link);
            let present = classes.iter().filter(|class| is_present(class));
            let total: f64 = present.map(|class| class.weight).sum();
            for class in classes.iter_mut() {
                let share = if is_present(class) { class.weight / total } else { 0.0 };
                class.stages[TRIAL].offer(link, share * fill.capacity[link as usize]);
            }
        });
    }

    /// Serves the groups of a class from its offer, if anything changed for it.
    fn serve(&mut self, fill: &mut MaxMinFill, number: usize, which: usize, now: f64) {
        let class = &mut self.classes[number];
        let is_as_before = class.stages[which].changed.iter().all(|word| *word == 0);
        if class.is_out || is_as_before && !class.touched {
            return;
        }
        let stage = &mut class.stages[which];
        fill.residual.restart_from(&stage.offer, &stage.changed);
        stage.changed.fill(0);
        fill.serve_class(number as u16, which, now);
        let uses = blocks_mut(&mut stage.used).iter_mut().zip(blocks(&stage.offer));
        for ((moved, (used, offer)), left) in self.moved.iter_mut().zip(uses).zip(fill.residual.left()) {
            let uses: Block = std::array::from_fn(|link| offer[link] - left[link]);
            *moved |= pack(|link| used[link] != uses[link]);
            *used = uses;
        }
    }

    /// Reserves for each class what it used in the trial, and what is free then for those that used
    /// up their offer. Where nothing moved it is as it was.
    fn reserve(&mut self, fill: &MaxMinFill) {
        let (full, negligible) = (fill.residual.full(), fill.residual.negligible());
        for link in members(self.moved.iter().copied()).map(|link| link as usize) {
            let (full, negligible) = (full.as_flattened()[link], negligible.as_flattened()[link]);
            let (mut used, mut total) = (0.0, 0.0);
            for class in self.classes.iter().filter(|class| !class.is_out) {
                used += class.stages[TRIAL].used[link];
                let counts = class.wants(link, negligible) && !(self.to_highest && total > 0.0);
                total += if counts { class.weight } else { 0.0 };
            }
            // By unit of weight; where no flow wants it, none looks.
            let mut free = if full - used > negligible { (full - used) / total } else { 0.0 };
            for class in self.classes.iter_mut().filter(|class| !class.is_out) {
                let wants = class.wants(link, negligible);
                let more = if wants { free * class.weight } else { 0.0 };
                class.reserved[link] = class.stages[TRIAL].used[link] + more;
                free = if wants && self.to_highest { 0.0 } else { free };
            }
        }
    }

    /// Adds up, for each link, what is reserved for all classes behind each one.
    fn sum_behind(&mut self) {
        for word in (0..self.words).filter(|&word| self.moved[word] != 0) {
            let mut sum: Block = [0.0; 64];
            let classes = self.classes.iter().zip(&mut self.behind).rev();
            for (class, behind) in classes.filter(|(class, _)| !class.is_out) {
                blocks_mut(behind)[word] = sum;
                let reserved = &blocks(&class.reserved)[word];
                sum.iter_mut().zip(reserved).for_each(|(sum, reserved)| *sum += reserved);
            }
        }
    }

    /// Offers a class all that those before it do not use and that is not reserved for those behind
    /// it.
    fn offer_the_rest(&mut self, fill: &MaxMinFill, number: usize) {
        let others = blocks(&self.before).iter().zip(blocks(&self.behind[number]));
        let links = fill.residual.full().iter().zip(others).enumerate();
        for (word, (full, (before, behind))) in links.filter(|&(word, _)| self.moved[word] != 0) {
            let left = std::array::from_fn(|link| (full[link] - before[link] - behind[link]).max(0.0));
            self.classes[number].stages[SERVICE].offer_block(word, &left);
        }
    }
}

impl Class {
    /// Returns whether it used all of a link that it was offered in the trial.
    fn wants(&self, link: usize, negligible: f64) -> bool {
        let Stage { offer, used, .. } = &self.stages[TRIAL];
        (offer[link] > 0.0) & (used[link] >= offer[link] - negligible)
    }
}

impl Stage {
    /// Changes the offer of a link.
    fn offer(&mut self, link: u32, offer: f64) {
        if self.offer[link as usize] != offer {
            self.offer[link as usize] = offer;
            set(&mut self.changed, link, true);
        }
    }

    /// Changes the offers of the links of a word.
    fn offer_block(&mut self, word: usize, offers: &Block) {
        let offer = &mut blocks_mut(&mut self.offer)[word];
        self.changed[word] |= pack(|link| offer[link] != offers[link]);
        *offer = *offers;
    }
}

impl MaxMinFill {
    /// Returns the ranks of a class's groups.
    fn ranks_of(&self, class: u16) -> std::ops::Range<usize> {
        let from = self.order.partition_point(|(key, _)| key.class < class);
        let to = self.order.partition_point(|(key, _)| key.class <= class);
        from..to
    }

    /// Serves the groups of a class, one after the other, on the residual.
    fn serve_class(&mut self, class: u16, which: usize, now: f64) {
        let mut vacated = self.vacated.partition_point(|(key, _)| key.class < class);
        let from = self.order.partition_point(|(key, _)| key.class < class);
        for rank in from..self.order.len() {
            let (key, group) = self.order[rank];
            if key.class > class {
                break;
            }
            vacated = self.mark_vacated(vacated, key);
            self.serve(group, which, now);
        }
    }
}
