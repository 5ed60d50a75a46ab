//! What a run knows of each link: the class that is in turn, how many of its flows wait, what is
//! left; and what follows when flows get their rates: a link is full, or its next class comes in
//! turn.
//!
//! # Invariants
//! - `waiting` counts the flows in turn at a link that have no rate yet, `held` those of them that
//!   are not in turn at the other end.
//! - Flows of first classes at both ends that wait are those of `Classes::both` between links that
//!   are `alive`: neither has been served. So they need no mark of their own: serving a link
//!   decides its whole row.
//! - `late` has the other flows that are in turn at both ends and wait, by pair of links, and
//!   `late_count` how many where it is several.
//! - A full link has nothing in turn, and no flow across it waits.

mod serving;

use super::classes::{Classes, FIRST};
use crate::bits::{has, ones, set};
use crate::fill::NONE;
use crate::reference::NEGLIGIBLE;
pub(super) use serving::{Serving, lanes};

/// The classes of a link so far.
#[derive(Clone, Copy, Debug, Default)]
struct Turn {
    /// The places in the order of the class in turn.
    begin: usize,
    end: usize,
    is_full: bool,
    /// Whether it stands among those whose state has changed, and in `with_held`.
    is_noted: bool,
    is_with_held: bool,
}

/// A run in progress, and its result.
#[derive(Debug)]
pub(super) struct Turns {
    pub(super) capacity: Vec<f64>,
    pub(super) lanes: usize,
    words: usize,
    pub(super) left: Vec<f64>,
    pub(super) waiting: Vec<f64>,
    pub(super) held: Vec<f64>,
    turns: Vec<Turn>,
    /// By link: the class in turn; [`NONE`] behind the last one.
    class: Vec<u32>,
    /// One for a link that has not been served, by link and as sets of lanes by side.
    alive: Vec<f64>,
    alive_at: [Vec<u64>; 2],
    /// Links that are not full, and those whose first class is in turn.
    open_at: [Vec<u64>; 2],
    first_at: [Vec<u64>; 2],
    /// By group and side: the links where it is in turn.
    in_turn_at: Vec<u64>,
    late: Vec<u64>,
    late_several: Vec<u64>,
    late_count: Vec<u32>,
    /// By link and lane: flows of first classes at the other end that have come in turn here since.
    caught_up: Vec<Vec<f32>>,
    has_caught_up: Vec<bool>,
    /// By link: the lanes to which flows of a later class were held when it came in turn. Some may
    /// have caught up.
    held_to: Vec<u64>,
    /// Links by side with a later class in turn that has flows which are not in turn at the other
    /// end.
    with_held: [Vec<usize>; 2],
    noted: Vec<usize>,
    /// Whether a class has all its rates since this was last looked at.
    pub(super) is_class_done: bool,
    pub(super) served: Vec<Serving>,
    /// By serving: the lanes served of first classes, and of others.
    pub(super) served_at: Vec<u64>,
    far_classes: Vec<u32>,
    /// Flows served, where a pair of links had several in `late`: by serving and lane.
    pub(super) several: Vec<(usize, u32, u32)>,
    pub(super) servings_of: Vec<Vec<usize>>,
}

impl Turns {
    pub(super) fn new(capacity: &[f64], classes: &Classes) -> Self {
        let (lanes, words) = (classes.lanes, classes.words);
        let links = 2 * lanes;
        let mut padded = vec![0.0; links];
        for (link, &of_link) in (0..).zip(capacity) {
            padded[classes.number(link)] = of_link;
        }
        Self {
            capacity: padded,
            lanes,
            words,
            left: vec![0.0; links],
            waiting: vec![0.0; links],
            held: vec![0.0; links],
            turns: vec![Turn::default(); links],
            class: vec![NONE; links],
            alive: vec![0.0; links],
            alive_at: [vec![0; words], vec![0; words]],
            open_at: [vec![0; words], vec![0; words]],
            first_at: [vec![0; words], vec![0; words]],
            in_turn_at: Vec::new(),
            late: vec![0; links * words],
            late_several: vec![0; links * words],
            late_count: vec![0; lanes * lanes],
            caught_up: vec![Vec::new(); links],
            has_caught_up: vec![false; links],
            held_to: vec![0; links * words],
            with_held: [Vec::new(), Vec::new()],
            noted: Vec::new(),
            is_class_done: false,
            served: Vec::new(),
            served_at: Vec::new(),
            far_classes: Vec::new(),
            several: Vec::new(),
            servings_of: vec![Vec::new(); links],
        }
    }

    /// Has the first class of each link in turn.
    pub(super) fn begin(&mut self, classes: &Classes) {
        self.left.copy_from_slice(&self.capacity);
        self.waiting.copy_from_slice(&classes.in_turn);
        self.held.copy_from_slice(&classes.held);
        self.alive.fill(1.0);
        for sets in [&mut self.alive_at, &mut self.open_at, &mut self.first_at] {
            sets.iter_mut().for_each(|set| set.fill(u64::MAX));
        }
        self.in_turn_at.clone_from(&classes.first_at);
        self.late.fill(0);
        self.late_several.fill(0);
        self.has_caught_up.fill(false);
        self.with_held.iter_mut().for_each(Vec::clear);
        self.clear_servings();
        for link in 0..2 * self.lanes {
            let class = if classes.order[link].is_empty() { NONE } else { FIRST };
            self.turns[link] = Turn { end: classes.first[link], ..Turn::default() };
            self.class[link] = class;
            if class == FIRST && self.is_used_up(link) {
                self.note(link);
            }
        }
        self.follow_up(classes);
    }

    pub(super) fn clear_servings(&mut self) {
        self.served.clear();
        self.served_at.clear();
        self.far_classes.clear();
        self.several.clear();
        self.servings_of.iter_mut().for_each(Vec::clear);
    }

    fn words_of(&self, link: usize) -> std::ops::Range<usize> {
        link * self.words..(link + 1) * self.words
    }

    fn place(&self, link: usize) -> (usize, u32) {
        let side = usize::from(link >= self.lanes);
        (side, (link - side * self.lanes) as u32)
    }

    fn count_at(&self, link: usize, lane: u32) -> usize {
        let (side, own) = self.place(link);
        let [row, column] = if side == 0 { [own, lane] } else { [lane, own] };
        row as usize * self.lanes + column as usize
    }

    pub(super) fn is_used_up(&self, link: usize) -> bool {
        self.left[link] <= NEGLIGIBLE * self.capacity[link]
    }

    fn note(&mut self, link: usize) {
        if !std::mem::replace(&mut self.turns[link].is_noted, true) {
            self.noted.push(link);
        }
    }

    /// The lanes across which flows that are in turn at both ends wait, word by word.
    pub(super) fn ready_across(&self, classes: &Classes, link: usize) -> impl Iterator<Item = u64> {
        let (side, _) = self.place(link);
        let alive = if self.alive[link] > 0.0 { u64::MAX } else { 0 };
        let words = self.words_of(link);
        let both = classes.both_at[words.clone()].iter().zip(&self.alive_at[1 - side]);
        both.zip(&self.late[words]).map(move |((both, others), late)| both & others & alive | late)
    }

    /// Tells whether flows that are in turn at both ends wait between two links of different sides.
    pub(super) fn are_adjacent(&self, classes: &Classes, link: usize, far: usize) -> bool {
        let (_, lane) = self.place(far);
        let words = self.words_of(link);
        let is_both = || self.alive[far] > 0.0 && has(&classes.both_at[words.clone()], lane);
        has(&self.late[words.clone()], lane) || self.alive[link] > 0.0 && is_both()
    }

    /// How many flows wait in `late` where some do.
    fn late_flows(&self, link: usize, lane: u32) -> u32 {
        let is_several = has(&self.late_several[self.words_of(link)], lane);
        if is_several { self.late_count[self.count_at(link, lane)] } else { 1 }
    }

    fn drop_late(&mut self, link: usize, lane: u32) {
        let words = self.words_of(link);
        set(&mut self.late[words.clone()], lane, false);
        set(&mut self.late_several[words], lane, false);
    }

    /// Notes flows between two links that have come in turn at both ends.
    fn add_late(&mut self, link: usize, lane: u32, flows: u32) {
        let far = (1 - self.place(link).0) * self.lanes + lane as usize;
        let at = self.count_at(link, lane);
        let was_there = has(&self.late[self.words_of(link)], lane);
        let before = if was_there { self.late_flows(link, lane) } else { 0 };
        self.late_count[at] = before + flows;
        for (link, lane) in [(link, lane), (far, self.place(link).1)] {
            let words = self.words_of(link);
            set(&mut self.late[words.clone()], lane, true);
            set(&mut self.late_several[words], lane, before + flows > 1);
        }
    }

    /// After flows have got rates: closes links that are full and has next classes in turn.
    pub(super) fn follow_up(&mut self, classes: &Classes) {
        let mut at = 0;
        while let Some(&link) = self.noted.get(at) {
            if !self.turns[link].is_full && self.is_used_up(link) {
                self.close(classes, link);
            }
            at += 1;
        }
        let mut noted = std::mem::take(&mut self.noted);
        for link in noted.drain(..) {
            self.turns[link].is_noted = false;
            if !self.turns[link].is_full && self.waiting[link] < 0.5 {
                self.open_next(classes, link);
            }
        }
        self.noted = noted;
        self.is_class_done = false;
    }

    /// Gives the flows across a full link that wait nothing.
    fn close(&mut self, classes: &Classes, link: usize) {
        let (side, own) = self.place(link);
        let far = (1 - side) * self.lanes;
        self.turns[link].is_full = true;
        set(&mut self.open_at[side], own, false);
        set(&mut self.first_at[side], own, false);
        for word in 0..self.words {
            for bit in ones(self.late[link * self.words + word]) {
                let lane = 64 * word as u32 + bit;
                self.waiting[far + lane as usize] -= f64::from(self.late_flows(link, lane));
                self.note(far + lane as usize);
                self.drop_late(link, lane);
                self.drop_late(far + lane as usize, own);
            }
        }
        if self.alive[link] > 0.0 {
            let words = self.words_of(link);
            for word in 0..self.words {
                for bit in ones(classes.both_at[words.start + word] & self.alive_at[1 - side][word]) {
                    let lane = 64 * word + bit as usize;
                    self.waiting[far + lane] -= f64::from(classes.both[link][lane]);
                    self.note(far + lane);
                }
            }
            self.alive[link] = 0.0;
            set(&mut self.alive_at[side], own, false);
        }
        self.release_held(classes, link);
        (self.waiting[link], self.held[link]) = (0.0, 0.0);
        self.class[link] = NONE;
    }

    /// Gives the flows that are in turn at their other end only, and wait for a link that is full,
    /// nothing.
    fn release_held(&mut self, classes: &Classes, link: usize) {
        let (side, own) = self.place(link);
        let far = (1 - side) * self.lanes;
        for word in 0..self.words {
            for bit in ones(self.first_at[1 - side][word]) {
                let lane = 64 * word + bit as usize;
                let Some(&behind) = classes.behind[link].get(lane) else { break };
                let caught_up = if self.has_caught_up[link] { self.caught_up[link][lane] } else { 0.0 };
                let count = f64::from(behind - caught_up);
                if count > 0.0 {
                    self.waiting[far + lane] -= count;
                    self.held[far + lane] -= count;
                    self.note(far + lane);
                }
            }
        }
        let mut with_held = std::mem::take(&mut self.with_held[1 - side]);
        with_held.retain(|&other| {
            let turn = self.turns[other];
            let is_with = self.class[other] != NONE && self.held[other] > 0.5;
            self.turns[other].is_with_held = is_with;
            if !is_with || !has(&self.held_to[other * self.words..(other + 1) * self.words], own) {
                return is_with;
            }
            for &account in &classes.order[other][turn.begin..turn.end] {
                let record = &classes.accounts[account as usize];
                if !has(&record.to, own) {
                    continue;
                }
                let partner = &classes.accounts[classes.partner(account, link) as usize];
                if partner.place >= self.turns[link].end {
                    let count = f64::from(record.count(own));
                    self.waiting[other] -= count;
                    self.held[other] -= count;
                    self.note(other);
                }
            }
            true
        });
        self.with_held[1 - side] = with_held;
    }

    /// Has the next class of a link in turn that has flows which can be served.
    fn open_next(&mut self, classes: &Classes, link: usize) {
        let (side, own) = self.place(link);
        set(&mut self.first_at[side], own, false);
        if self.class[link] != NONE {
            self.set_in_turn(classes, link, false);
        }
        while self.waiting[link] < 0.5 {
            let order = &classes.order[link];
            let begin = self.turns[link].end;
            let Some(&first) = order.get(begin) else {
                self.class[link] = NONE;
                (self.waiting[link], self.held[link]) = (0.0, 0.0);
                return;
            };
            let class = classes.accounts[first as usize].class;
            let is_other = |&account: &u32| classes.accounts[account as usize].class != class;
            let end = order[begin..].iter().position(is_other).map_or(order.len(), |count| begin + count);
            let turn = &mut self.turns[link];
            (turn.begin, turn.end) = (begin, end);
            self.class[link] = class;
            (self.waiting[link], self.held[link]) = (0.0, 0.0);
            let words = self.words_of(link);
            self.held_to[words].fill(0);
            for &account in &order[begin..end] {
                self.bring_in_turn(classes, link, account);
            }
        }
        self.set_in_turn(classes, link, true);
        if self.held[link] > 0.5 && !std::mem::replace(&mut self.turns[link].is_with_held, true) {
            self.with_held[side].push(link);
        }
    }

    fn set_in_turn(&mut self, classes: &Classes, link: usize, value: bool) {
        let (side, own) = self.place(link);
        let turn = self.turns[link];
        for &account in &classes.order[link][turn.begin..turn.end] {
            let group = classes.accounts[account as usize].group;
            set(&mut self.in_turn_at[classes.of_group(group, side)], own, value);
        }
    }

    /// Counts the flows of an account whose class comes in turn.
    fn bring_in_turn(&mut self, classes: &Classes, link: usize, account: u32) {
        let (side, own) = self.place(link);
        let (own_word, own_bit) = (own as usize / 64, 1 << (own % 64));
        let far = (1 - side) * self.lanes;
        let record = &classes.accounts[account as usize];
        let in_turn_at = classes.of_group(record.group, 1 - side).start;
        for word in 0..self.words {
            let at = record.to[word] & self.open_at[1 - side][word];
            if at == 0 {
                continue;
            }
            let ready = at & self.in_turn_at[in_turn_at + word];
            let count = |lanes: u64| {
                let more = ones(lanes & record.several[word]);
                let more: u32 = more.map(|bit| record.count(64 * word as u32 + bit) - 1).sum();
                f64::from(lanes.count_ones() + more)
            };
            self.waiting[link] += count(at);
            self.held[link] += count(at & !ready);
            self.held_to[link * self.words + word] |= at & !ready;
            let again = ready & (self.late[link * self.words + word] | record.several[word]);
            for bit in ones(again) {
                let lane = 64 * word as u32 + bit;
                let flows = record.count(lane);
                self.add_late(link, lane, flows);
                self.held[far + lane as usize] -= f64::from(flows);
            }
            self.late[link * self.words + word] |= ready;
            for bit in ones(ready & !again) {
                let other = far + 64 * word + bit as usize;
                self.late[other * self.words + own_word] |= own_bit;
                self.held[other] -= 1.0;
            }
            self.note_caught_up(link, word, ready & self.first_at[1 - side][word], record);
        }
    }

    /// Counts flows of first classes at the other end that have come in turn here.
    fn note_caught_up(&mut self, link: usize, word: usize, at: u64, record: &super::classes::Account) {
        if at == 0 {
            return;
        }
        if !std::mem::replace(&mut self.has_caught_up[link], true) {
            self.caught_up[link].clear();
            self.caught_up[link].resize(self.lanes, 0.0);
        }
        for bit in ones(at) {
            self.caught_up[link][64 * word + bit as usize] += record.count(64 * word as u32 + bit) as f32;
        }
    }
}
