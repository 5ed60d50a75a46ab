//! Flows that wait for each other, where no link is settled: who they are, and what each of them gets.

use super::fans::SIDES;
use super::turns::Run;
use crate::bits::{has, members, ones, set};
use crate::fill::Key;
use crate::reference::{NEGLIGIBLE, SAME};

/// A flow without a rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Waiting {
    flow: u32,
    lanes: [u32; 2],
    fans: [u32; 2],
}

impl Run<'_> {
    /// The flow with the lowest number of those in turn at a lane that `select` chooses, for each fan and word.
    fn first_of(&self, lane: u32, select: impl Fn(u32, usize) -> u64) -> Option<Waiting> {
        let side = self.side(lane);
        let mut found: Option<(u32, u32, u32)> = None;
        for &(_, fan) in self.class(lane) {
            if found.is_some_and(|(flow, ..)| flow < self.fans.fan(fan).lowest) {
                continue;
            }
            let lines = members((0..self.words).map(|word| select(fan, word)));
            if let Some((flow, other)) = self.fans.first_flow(fan, 1 - side, lines)
                && found.is_none_or(|(first, ..)| flow < first)
            {
                found = Some((flow, other, fan));
            }
        }
        let (flow, other, fan) = found?;
        let (mut lanes, mut fans) =
            ([lane, other], [fan, self.fans.partners(fan)[self.fans.line(other) as usize]]);
        if side == 1 {
            lanes.swap(0, 1);
            fans.swap(0, 1);
        }
        Some(Waiting { flow, lanes, fans })
    }

    fn first_at(&self, lane: u32) -> Option<Waiting> {
        let side = self.side(lane);
        self.first_of(lane, |fan, word| self.undecided(fan, side, word))
    }

    /// The first flow in turn at the first link where any waits. No link before `first` has one.
    pub(super) fn first_in_turn(&self, first: &mut u32) -> Option<Waiting> {
        let waiting = &self.turns.waiting[*first as usize..];
        *first += waiting.iter().position(|&waiting| waiting > 0.0)? as u32;
        self.first_at(*first)
    }

    fn is_in_turn_at(&self, flow: &Waiting, side: usize) -> bool {
        self.is_in_turn(flow.fans[side], flow.lanes[side])
    }

    fn is_ready(&self, flow: &Waiting) -> bool {
        (0..SIDES).all(|side| self.is_in_turn_at(flow, side))
    }

    /// Finds the flows by going from one to the one that it waits for until one comes again.
    pub(super) fn ring(&self, first: Waiting) -> Vec<Waiting> {
        let mut walk = vec![first];
        loop {
            let next = self.waits_for(&walk[walk.len() - 1]);
            if let Some(at) = walk.iter().position(|flow| *flow == next) {
                return walk.split_off(at);
            }
            walk.push(next);
        }
    }

    fn waits_for(&self, flow: &Waiting) -> Waiting {
        if let Some(side) = (0..SIDES).find(|&side| !self.is_in_turn_at(flow, side)) {
            return self.first_at(flow.lanes[side]).expect("a class is in turn before another");
        }
        let [row, column] = flow.lanes.map(|lane| self.turns.level[lane as usize]);
        let side = usize::from(column < row * (1.0 - SAME));
        let bound = [row, column][side] * (1.0 - SAME);
        let held = |fan, word| {
            let undecided = self.undecided(fan, side, word);
            let ready = undecided & self.in_turn(fan, 1 - side, word);
            undecided & !ready | self.below(ready, 1 - side, word, bound)
        };
        self.first_of(flow.lanes[side], held).expect("a link without such a flow is settled")
    }

    /// Shares the lowest link of a ring evenly.
    pub(super) fn share(&mut self, ring: &[Waiting]) {
        let ready: Vec<Waiting> = ring.iter().copied().filter(|flow| self.is_ready(flow)).collect();
        let ring = if ready.is_empty() { ring } else { &ready };
        let joining = |lane: u32| {
            let joins = ring.iter().filter(|flow| {
                (0..SIDES).any(|side| flow.lanes[side] == lane && !self.is_in_turn_at(flow, side))
            });
            joins.count() as u32
        };
        let level = |lane: u32| {
            self.turns.left[lane as usize] / (self.turns.waiting[lane as usize] + f64::from(joining(lane)))
        };
        let mut lanes: Vec<u32> = ring.iter().flat_map(|flow| flow.lanes).collect();
        lanes.sort_unstable();
        lanes.dedup();
        let lower = |least: (u32, f64), &lane: &u32| {
            let level = level(lane);
            if level < least.1 * (1.0 - SAME) { (lane, level) } else { least }
        };
        let (lowest, share) = lanes.iter().fold((lanes[0], f64::INFINITY), lower);
        let side = self.side(lowest);
        self.turns.rounds.begin(lowest, share, true);
        for &(_, fan) in self.class(lowest) {
            for word in 0..self.words {
                let ready = self.undecided(fan, side, word) & self.in_turn(fan, 1 - side, word);
                let free = ready & !self.below(ready, 1 - side, word, share * (1.0 - SAME));
                self.turns.rounds.bits.push(free);
            }
            self.turns.rounds.end_fan(fan);
        }
        for flow in ring.iter().filter(|flow| flow.lanes[side] == lowest) {
            self.turns.rounds.include(flow.fans[side], self.fans.line(flow.lanes[1 - side]));
        }
        self.give(lowest, ready.is_empty());
    }

    /// Gives the flows of the last round their rate; their link stays open for others. If the ring is contrary, some of its flows
    /// were in turn at one link only.
    fn give(&mut self, lane: u32, is_contrary: bool) {
        let round = *self.turns.rounds.rounds.last().expect("a round has begun");
        let (side, at) = (self.side(lane), lane as usize);
        let (line, first) = (self.fans.line(lane), self.fans.first_lane(1 - side));
        self.serve_last_round();
        for place in round.first..round.end {
            let fan = self.turns.rounds.fans[place];
            let (partners, mut count) = (self.fans.partners(fan), 0.0);
            for word in 0..self.words {
                for bit in ones(self.turns.rounds.bits[place * self.words + word]) {
                    let far = 64 * word as u32 + bit;
                    self.turns.take(partners[far as usize], line);
                    count += 1.0;
                    let other = first + far;
                    let is_blocked =
                        has(&self.turns.blocked, other) && self.turns.blocked_by[other as usize] == lane;
                    if is_contrary || is_blocked {
                        self.queue(other);
                    }
                }
            }
            self.turns.left[at] -= round.rate * count;
            if self.is_in_turn(fan, lane) {
                self.turns.waiting[at] -= count;
            }
        }
        self.turns.find_level(at);
        self.turns.touched.push(lane);
        self.queue(lane);
        self.follow_up();
    }

    fn has_room(&self, lane: u32) -> bool {
        self.turns.left[lane as usize] > NEGLIGIBLE * self.turns.capacity[lane as usize]
    }

    /// Gives to flows of rings what others could not use.
    pub(super) fn top_up(&mut self, key: impl Fn(u32) -> Key) {
        let mut found: Vec<(Key, u32, usize, usize, u32)> = Vec::new();
        for (number, round) in self.turns.rounds.rounds.iter().enumerate() {
            if !round.is_ring || !self.has_room(round.lane) {
                continue;
            }
            let first = self.fans.first_lane(1 - self.side(round.lane));
            for at in round.first..round.end {
                let fan = self.turns.rounds.fans[at];
                let bits = &self.turns.rounds.bits[at * self.words..][..self.words];
                for line in members(bits.iter().copied()).filter(|line| self.has_room(first + line)) {
                    let partner = self.fans.partners(fan)[line as usize];
                    let best = key(fan).min(key(partner));
                    found.push((best, self.fans.flow(fan, first + line), number, at, line));
                }
            }
        }
        found.sort_unstable();
        for (_, _, number, at, line) in found {
            let round = self.turns.rounds.rounds[number];
            let lanes = [round.lane, self.fans.first_lane(1 - self.side(round.lane)) + line];
            let least =
                |of: &[f64]| lanes.iter().map(|&lane| of[lane as usize]).fold(f64::INFINITY, f64::min);
            let more = least(&self.turns.left);
            if more > NEGLIGIBLE * least(&self.turns.capacity) {
                lanes.iter().for_each(|&lane| self.turns.left[lane as usize] -= more);
                let rounds = &mut self.turns.rounds;
                set(&mut rounds.bits[at * self.words..][..self.words], line, false);
                rounds.give_one(round.lane, round.rate + more, rounds.fans[at], line);
            }
        }
    }
}
