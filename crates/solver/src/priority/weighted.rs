//! Classes that share links by weight (Aalo Pseudocode 1).
//!
//! Each class serves its groups, in order of key, from an *offer* of its own instead of what the class before left.
//! First, every link offers its capacity to the classes present there by weight. After all classes have tried their
//! offers, what is free on a link is offered on top to the classes that used up theirs (all of them by weight, or the
//! highest), and they try again, [`TRIALS`] times in all. A class that left some of its offer is offered what it used.
//! In the end each class, highest first, is served from all that the others do not use.
//!
//! Offers are remembered, so a class is only looked at where an offer changed or one of its groups did. Trials are
//! allotments of the groups like the one that flows are served by; only levels are found, nothing is attached.
//!
//! Not quite work conserving: what a low class gave up for a higher one that then does not take it stays free until the
//! next event. More trials would leave less of it, at the price of one look at each class for each.

use super::MaxMinFill;
use crate::bits::{has, members, set};
use crate::maxmin::NEGLIGIBLE;

/// How often offers are tried out before classes are served.
pub(super) const TRIALS: usize = 2;

/// What one class is offered and uses at one trial, by link.
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
    /// Served for real, then the trials.
    stages: Vec<Stage>,
    touched: bool,
}

/// The state of all classes.
#[derive(Debug)]
pub(super) struct Weighted {
    weights: Vec<u32>,
    to_highest: bool,
    links: usize,
    /// By number, as far as any was ever there.
    classes: Vec<Class>,
    /// Links on which an offer or use changed in this refill, as bits.
    moved: Vec<u64>,
    /// For each class and link: what the classes behind it used in their last trial.
    behind: Vec<f64>,
}

impl Weighted {
    pub(super) fn new(weights: &[u32], to_highest: bool, links: usize) -> Self {
        Self {
            weights: weights.to_vec(),
            to_highest,
            links,
            classes: Vec::new(),
            moved: vec![0; links.div_ceil(64)],
            behind: Vec::new(),
        }
    }

    /// Brings offers and rates up to date.
    pub(super) fn refill(&mut self, fill: &mut MaxMinFill, now: f64) {
        self.moved.fill(0);
        self.find_presence(fill);
        self.first_offers(fill);
        for trial in 1..=TRIALS {
            for class in 0..self.classes.len() {
                self.serve(fill, class, trial, now);
            }
            if trial < TRIALS {
                self.offer_again(fill, trial);
            }
        }
        self.sum_behind();
        for class in 0..self.classes.len() {
            self.offer_the_rest(fill, class);
            self.serve(fill, class, 0, now);
        }
        self.classes.iter_mut().for_each(|class| class.touched = false);
    }

    /// Notes which classes changed, and on which links they have flows now.
    fn find_presence(&mut self, fill: &mut MaxMinFill) {
        for key in &fill.touched {
            while self.classes.len() <= usize::from(key.class) {
                let weight = f64::from(self.weights[self.classes.len().min(self.weights.len() - 1)]);
                let stage = Stage {
                    offer: vec![0.0; self.links],
                    used: vec![0.0; self.links],
                    changed: vec![0; self.moved.len()],
                };
                let present = vec![0; self.moved.len()];
                self.classes.push(Class { weight, present, stages: vec![stage; 1 + TRIALS], touched: false });
            }
            self.classes[usize::from(key.class)].touched = true;
        }
        let mut now = vec![0; self.moved.len()];
        for (number, class) in self.classes.iter_mut().enumerate().filter(|(_, class)| class.touched) {
            now.fill(0);
            for rank in fill.ranks_of(number as u16) {
                let (_, group) = fill.order[rank];
                for links in fill.groups[group as usize].group.links() {
                    now.iter_mut().zip(links).for_each(|(now, links)| *now |= links);
                }
                for links in fill.waiting_links(group) {
                    now.iter_mut().zip(links).for_each(|(now, links)| *now |= links);
                }
            }
            for ((moved, before), now) in self.moved.iter_mut().zip(&mut class.present).zip(&now) {
                *moved |= *before ^ now;
                *before = *now;
            }
        }
    }

    /// Splits each link on which presence changed by weight.
    fn first_offers(&mut self, fill: &MaxMinFill) {
        let classes = &mut self.classes;
        members(self.moved.iter().copied()).map(|link| link as usize).for_each(|link| {
            let is_present = |class: &Class| has(&class.present, link as u32);
            let present = classes.iter().filter(|class| is_present(class));
            let total: f64 = present.map(|class| class.weight).sum();
            for class in classes.iter_mut() {
                let share = if is_present(class) { class.weight / total } else { 0.0 };
                class.stages[1].offer(link, share * fill.capacity[link]);
            }
        });
    }

    /// Serves the groups of a class from its offer, if anything changed for it.
    fn serve(&mut self, fill: &mut MaxMinFill, number: usize, which: usize, now: f64) {
        let class = &mut self.classes[number];
        let stage = &mut class.stages[which];
        let is_absent = class.present.iter().all(|word| *word == 0);
        if !class.touched && (is_absent || stage.changed.iter().all(|word| *word == 0)) {
            return;
        }
        fill.residual.restart_from(&stage.offer, &stage.changed);
        stage.changed.fill(0);
        fill.serve_class(number as u16, which, now);
        for (link, (offer, used)) in stage.offer.iter().zip(&mut stage.used).enumerate() {
            let uses = offer - fill.residual.left(link as u32);
            if *used != uses {
                *used = uses;
                set(&mut self.moved, link as u32, true);
            }
        }
    }

    /// Offers what is free after a trial to the classes that used up their offer.
    fn offer_again(&mut self, fill: &MaxMinFill, trial: usize) {
        let (classes, to_highest) = (&mut self.classes, self.to_highest);
        members(self.moved.iter().copied()).map(|link| link as usize).for_each(|link| {
            let negligible = NEGLIGIBLE * fill.capacity[link];
            let (mut used, mut total) = (0.0, 0.0);
            for class in classes.iter() {
                used += class.stages[trial].used[link];
                if class.stages[trial].wants(link, negligible) && !(to_highest && total > 0.0) {
                    total += class.weight;
                }
            }
            let mut free = fill.capacity[link] - used;
            free = if free > negligible { free } else { 0.0 };
            for class in classes.iter_mut() {
                let wants = class.stages[trial].wants(link, negligible);
                let more = if wants { free * class.weight / total } else { 0.0 };
                free = if wants && to_highest { 0.0 } else { free };
                let offer = class.stages[trial].used[link] + more;
                class.stages[trial + 1].offer(link, offer);
            }
        });
    }

    /// Adds up, for each link, what all classes behind each one used in their last trial.
    fn sum_behind(&mut self) {
        let (classes, links) = (&self.classes, self.links);
        self.behind.resize(classes.len() * links, 0.0);
        members(self.moved.iter().copied()).map(|link| link as usize).for_each(|link| {
            let mut behind = 0.0;
            for (number, class) in classes.iter().enumerate().rev() {
                self.behind[number * links + link] = behind;
                behind += class.stages[TRIALS].used[link];
            }
        });
    }

    /// Offers a class all that the others do not use: those before it as they were served, those behind as they tried.
    fn offer_the_rest(&mut self, fill: &MaxMinFill, number: usize) {
        let (before, rest) = self.classes.split_at_mut(number);
        let behind = &self.behind[number * self.links..];
        members(self.moved.iter().copied()).map(|link| link as usize).for_each(|link| {
            let before: f64 = before.iter().map(|class| class.stages[0].used[link]).sum();
            let left = (fill.capacity[link] - before - behind[link]).max(0.0);
            rest[0].stages[0].offer(link, left);
        });
    }
}

impl Stage {
    /// Whether all that was offered of a link is used.
    fn wants(&self, link: usize, negligible: f64) -> bool {
        self.offer[link] > 0.0 && self.used[link] >= self.offer[link] - negligible
    }

    /// Changes the offer of a link.
    fn offer(&mut self, link: usize, offer: f64) {
        if self.offer[link] != offer {
            self.offer[link] = offer;
            set(&mut self.changed, link as u32, true);
        }
    }
}

impl MaxMinFill {
    /// Where the groups of a class stand in the order.
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
