//! Giving the flows in turn at both ends of a link one rate, and what was served in a run.

use super::super::classes::{Classes, FIRST};
use super::Turns;
use crate::bits::{has, members, ones, set};

/// Flows that get one rate in one round: those in turn at both ends of a link.
#[derive(Debug)]
pub(in super::super) struct Serving {
    pub(in super::super) link: usize,
    /// How many times the link was served before in this run.
    pub(in super::super) nth: usize,
    pub(in super::super) rate: f64,
    /// Whether the rate is what a link that contradicts others gives.
    pub(in super::super) at_bottleneck: bool,
    /// The class at the link.
    pub(in super::super) class: u32,
    /// Where the classes at the other ends begin in `Turns::far_classes`, for those of `late`.
    far_classes: usize,
}

impl Turns {
    /// Gives all flows in turn at both ends of a link a rate.
    pub(in super::super) fn serve(&mut self, classes: &Classes, link: usize, rate: f64, at_bottleneck: bool) {
        let nth = self.servings_of[link].len();
        let number = self.served.len();
        self.servings_of[link].push(number);
        let far_classes = self.far_classes.len();
        let class = self.class[link];
        self.served.push(Serving { link, nth, rate, at_bottleneck, class, far_classes });
        let count = self.serve_both(classes, link, rate) + self.serve_late(number, link, rate);
        self.waiting[link] -= count;
        self.left[link] -= count * rate;
        self.note(link);
        self.is_class_done |= self.waiting[link] < 0.5;
    }

    /// Serves the flows of first classes at both ends. Returns how many.
    fn serve_both(&mut self, classes: &Classes, link: usize, rate: f64) -> f64 {
        let (side, lane) = self.place(link);
        let words = self.words_of(link);
        let begin = self.served_at.len();
        if self.alive[link] == 0.0 {
            self.served_at.resize(begin + self.words, 0);
            return 0.0;
        }
        let at =
            classes.both_at[words].iter().zip(&self.alive_at[1 - side]).map(|(both, others)| both & others);
        self.served_at.extend(at);
        self.alive[link] = 0.0;
        set(&mut self.alive_at[side], lane, false);
        if self.served_at[begin..].iter().all(|&word| word == 0) {
            return 0.0;
        }
        let far = (1 - side) * self.lanes;
        let lanes = far..far + self.lanes;
        let row = &classes.both[link];
        let (count, is_any_done) = take_row(
            row,
            &self.alive[lanes.clone()],
            &mut self.waiting[lanes.clone()],
            &mut self.left[lanes.clone()],
            rate,
        );
        if is_any_done {
            for (lane, &flows) in row.iter().enumerate() {
                if flows > 0.0 && self.alive[far + lane] > 0.0 && self.waiting[far + lane] < 0.5 {
                    self.note(far + lane);
                }
            }
            self.is_class_done = true;
        }
        count
    }

    /// Serves the others. Returns how many.
    fn serve_late(&mut self, number: usize, link: usize, rate: f64) -> f64 {
        let (side, own) = self.place(link);
        let far = (1 - side) * self.lanes;
        let (mut count, mut is_any) = (0.0, false);
        for word in 0..self.words {
            let at = std::mem::take(&mut self.late[link * self.words + word]);
            self.served_at.push(at);
            is_any |= at != 0;
            let several = std::mem::take(&mut self.late_several[link * self.words + word]);
            for bit in ones(at & several) {
                let lane = 64 * word as u32 + bit;
                let flows = self.late_count[self.count_at(link, lane)];
                self.several.push((number, lane, flows));
                self.drop_late(far + lane as usize, own);
                // One of them is counted with the others.
                let more = f64::from(flows - 1);
                self.waiting[far + lane as usize] -= more;
                self.left[far + lane as usize] -= more * rate;
                count += more;
            }
            let (own_word, own_bit) = (own as usize / 64, 1 << (own % 64));
            for bit in ones(at) {
                let other = far + 64 * word + bit as usize;
                let waiting = self.waiting[other] - 1.0;
                self.waiting[other] = waiting;
                self.left[other] -= rate;
                self.late[other * self.words + own_word] &= !own_bit;
                if waiting < 0.5 {
                    self.note(other);
                    self.is_class_done = true;
                }
            }
            count += f64::from(at.count_ones());
        }
        if is_any {
            self.far_classes.extend_from_slice(&self.class[far..far + self.lanes]);
        }
        count
    }

    /// The lanes that a serving decided: of first classes at both ends, and of others.
    pub(in super::super) fn lanes_of(&self, serving: usize) -> [&[u64]; 2] {
        let at = &self.served_at[2 * serving * self.words..2 * (serving + 1) * self.words];
        let (both, late) = at.split_at(self.words);
        [both, late]
    }

    /// The class at the other end of what a serving decided to a lane, in `late`.
    pub(in super::super) fn far_class(&self, serving: usize, lane: u32) -> u32 {
        self.far_classes(serving)[lane as usize]
    }

    /// The classes at the other ends when a serving decided flows of `late`.
    pub(in super::super) fn far_classes(&self, serving: usize) -> &[u32] {
        let begin = self.served[serving].far_classes;
        &self.far_classes[begin..begin + self.lanes]
    }

    /// The flows that a serving decided to a lane.
    pub(in super::super) fn flows_served(&self, classes: &Classes, serving: usize, lane: u32) -> f64 {
        if has(self.lanes_of(serving)[0], lane) {
            return f64::from(classes.both[self.served[serving].link][lane as usize]);
        }
        if self.several.is_empty() {
            return 1.0;
        }
        let of_serving = self.several.partition_point(|&(number, at, _)| (number, at) < (serving, lane));
        match self.several.get(of_serving) {
            Some(&(number, at, flows)) if (number, at) == (serving, lane) => f64::from(flows),
            _ => 1.0,
        }
    }

    /// The serving that has decided a flow: told the lanes and classes of its ends, and where it
    /// stands.
    pub(in super::super) fn serving_of(&self, links: [usize; 2], of_ends: [u32; 2]) -> Option<usize> {
        (0..2).find_map(|end| {
            let (lane, [own, far]) = (self.place(links[1 - end]).1, [of_ends[end], of_ends[1 - end]]);
            self.servings_of[links[end]].iter().copied().find(|&serving| {
                let [both, late] = self.lanes_of(serving);
                self.served[serving].class == own
                    && (has(both, lane) && far == FIRST
                        || has(late, lane) && self.far_class(serving, lane) == far)
            })
        })
    }
}

/// Serves a row: takes its flows off those that wait and what they get off what is left. Returns
/// how many they are, and whether a class has all its rates.
fn take_row(row: &[f32], alive: &[f64], waiting: &mut [f64], left: &mut [f64], rate: f64) -> (f64, bool) {
    let (mut count, mut done) = ([0.0; 4], [0.0; 4]);
    let rows = row.as_chunks::<4>().0.iter().zip(alive.as_chunks::<4>().0);
    let links = waiting.as_chunks_mut::<4>().0.iter_mut().zip(left.as_chunks_mut::<4>().0);
    for ((row, alive), (waiting, left)) in rows.zip(links) {
        for lane in 0..4 {
            let flows = f64::from(row[lane]) * alive[lane];
            waiting[lane] -= flows;
            left[lane] -= flows * rate;
            count[lane] += flows;
            done[lane] += if waiting[lane] < 0.5 { flows } else { 0.0 };
        }
    }
    (count.iter().sum(), done.iter().sum::<f64>() > 0.0)
}

/// The lanes of a set, ascending.
pub(in super::super) fn lanes(words: &[u64]) -> impl Iterator<Item = u32> {
    members(words.iter().copied())
}
