//! Who is in turn where, until every flow has its rate: the rounds of the definition, a link at a time instead of a flow
//! at a time.
//!
//! # The idea
//! All that a round gives flows of one link is the same rate, so a round is a link, a level and the bits of those flows. What
//! it leaves at the links of the other side are a few operations for all of them together.
//!
//! # Invariants
//! - A flow is *undecided* if both of its links are open and its bit is not in `taken`. A link that settles is closed, so its
//!   flows have the bit on its side only; those of a ring have it on both.
//! - `waiting` counts the undecided flows of the class that is in turn at a link; where it is none the link is closed or at
//!   the end of its order. `level` is infinite there.
//! - A link that may be settled is a candidate. Any other with flows that wait has seen one of them that is not in turn at
//!   its other link and stands `behind` that, or a lower link there, and stands in `blocked` by it.

use super::fans::{Fans, SIDES};
use crate::bits::{ones, pack, set};
use crate::fill::{Key, NONE};
use crate::reference::{NEGLIGIBLE, SAME};

/// From so many flows of 64 on it is cheaper to go through all 64 lanes than from bit to bit.
const DENSE: u32 = 12;

/// Flows of one link that get one rate.
#[derive(Clone, Copy, Debug)]
pub(super) struct Round {
    pub(super) lane: u32,
    pub(super) rate: f64,
    /// The range in `Rounds::fans`.
    pub(super) first: usize,
    pub(super) end: usize,
    pub(super) is_ring: bool,
}

/// What a run found: who gets which rate.
#[derive(Debug, Default)]
pub(super) struct Rounds {
    pub(super) rounds: Vec<Round>,
    pub(super) fans: Vec<u32>,
    /// The flows of each of `fans`, in so many words.
    pub(super) bits: Vec<u64>,
    words: usize,
}

impl Rounds {
    pub(super) fn new(words: usize) -> Self {
        Self { words, ..Self::default() }
    }

    pub(super) fn clear(&mut self) {
        self.rounds.clear();
        self.fans.clear();
        self.bits.clear();
    }

    /// The fans that get the rate of a round.
    pub(super) fn fans(&self, round: usize) -> &[u32] {
        let Round { first, end, .. } = self.rounds[round];
        &self.fans[first..end]
    }

    /// Their flows, in as many words for each.
    pub(super) fn bits(&self, round: usize) -> &[u64] {
        let Round { first, end, .. } = self.rounds[round];
        &self.bits[first * self.words..end * self.words]
    }

    pub(super) fn begin(&mut self, lane: u32, rate: f64, is_ring: bool) {
        let at = self.fans.len();
        self.rounds.push(Round { lane, rate, first: at, end: at, is_ring });
    }

    /// Takes the last words of bits for the flows of a fan, if there are any.
    pub(super) fn end_fan(&mut self, fan: u32) {
        let begin = self.bits.len() - self.words;
        if self.bits[begin..].iter().all(|&bits| bits == 0) {
            self.bits.truncate(begin);
            return;
        }
        self.fans.push(fan);
        self.rounds.last_mut().expect("a round has begun").end = self.fans.len();
    }

    /// The fans of the last round, with their flows.
    pub(super) fn last(&self) -> impl Iterator<Item = (u32, &[u64])> {
        let Round { first, end, .. } = *self.rounds.last().expect("a round has begun");
        let bits = self.bits[first * self.words..end * self.words].chunks_exact(self.words);
        self.fans[first..end].iter().copied().zip(bits)
    }

    /// Takes back the round that has begun.
    fn abandon(&mut self) {
        let round = self.rounds.pop().expect("a round has begun");
        self.fans.truncate(round.first);
        self.bits.truncate(round.first * self.words);
    }

    /// Puts a flow into the last round.
    pub(super) fn include(&mut self, fan: u32, line: u32) {
        let round = *self.rounds.last().expect("a round has begun");
        match self.fans[round.first..].iter().position(|&other| other == fan) {
            Some(at) => set(&mut self.bits[(round.first + at) * self.words..][..self.words], line, true),
            None => {
                self.bits.extend((0..self.words).map(|word| bit_in(line, word)));
                self.end_fan(fan);
            }
        }
    }

    /// Gives one flow a rate of its own.
    pub(super) fn give_one(&mut self, lane: u32, rate: f64, fan: u32, line: u32) {
        self.begin(lane, rate, false);
        self.bits.extend((0..self.words).map(|word| bit_in(line, word)));
        self.end_fan(fan);
    }
}

/// What is in a word of the set of one line.
fn bit_in(line: u32, word: usize) -> u64 {
    if line as usize / 64 == word { 1 << (line % 64) } else { 0 }
}

/// One run after the other. All but the rounds is by lane.
#[derive(Debug)]
pub(super) struct Turns {
    words: usize,
    pub(super) capacity: Vec<f64>,
    pub(super) left: Vec<f64>,
    pub(super) waiting: Vec<f64>,
    pub(super) level: Vec<f64>,
    /// Where the class in turn begins in the link's order, and where it ends.
    class: Vec<[usize; 2]>,
    /// Links that are open, as bits; ingress first.
    open: Vec<u64>,
    /// By coflow, where its fans are in turn or were.
    in_turn: Vec<u64>,
    /// By side, the coflows that are in turn anywhere there, or were.
    live: [Vec<u32>; SIDES],
    /// By fan, the flows that have rates.
    taken: Vec<u64>,
    /// Fans with such flows.
    taken_in: Vec<u32>,
    candidates: Vec<u32>,
    is_candidate: Vec<bool>,
    /// Links that others hold back which have lower levels, as bits, and one of those others.
    pub(super) blocked: Vec<u64>,
    pub(super) blocked_by: Vec<u32>,
    /// Links with a flow that is not in turn here.
    behind: Vec<Vec<u32>>,
    /// Links that may be full, or whose class may be over.
    pub(super) touched: Vec<u32>,
    pub(super) rounds: Rounds,
}

impl Turns {
    /// For links of these capacities, by lane; padded with none.
    pub(super) fn new(words: usize, capacity: Vec<f64>) -> Self {
        let lanes = capacity.len();
        Self {
            words,
            left: vec![0.0; lanes],
            waiting: vec![0.0; lanes],
            level: vec![f64::INFINITY; lanes],
            class: vec![[0; 2]; lanes],
            open: vec![0; SIDES * words],
            in_turn: Vec::new(),
            live: [const { Vec::new() }; SIDES],
            taken: Vec::new(),
            taken_in: Vec::new(),
            candidates: Vec::new(),
            is_candidate: vec![false; lanes],
            blocked: vec![0; SIDES * words],
            blocked_by: vec![NONE; lanes],
            behind: vec![Vec::new(); lanes],
            touched: Vec::new(),
            rounds: Rounds::new(words),
            capacity,
        }
    }

    /// Finds the rates of all flows. `key` is the best key of a flow at any link.
    pub(super) fn run(&mut self, fans: &Fans, key: impl Fn(u32) -> Key) {
        self.reset(fans);
        let mut run = Run { turns: self, fans, words: fans.words };
        for lane in (0..fans.first_lane(SIDES)).filter(|&lane| run.is_open(lane)).collect::<Vec<u32>>() {
            run.open_class(lane);
        }
        run.follow_up();
        let mut first = 0;
        loop {
            run.settle_all();
            let Some(flow) = run.first_in_turn(&mut first) else { break };
            let ring = run.ring(flow);
            run.share(&ring);
        }
        run.top_up(key);
    }

    fn reset(&mut self, fans: &Fans) {
        self.left.copy_from_slice(&self.capacity);
        self.waiting.fill(0.0);
        self.level.fill(f64::INFINITY);
        self.class.fill([0; 2]);
        for (word, open) in self.open.iter_mut().enumerate() {
            *open = pack(|bit| self.capacity[64 * word + bit] > 0.0);
        }
        self.in_turn.clear();
        self.in_turn.resize(SIDES * self.words * fans.coflow_count(), 0);
        self.live.iter_mut().for_each(Vec::clear);
        for fan in self.taken_in.drain(..) {
            self.taken[fan as usize * self.words..][..self.words].fill(0);
        }
        self.taken.resize(self.words * fans.count(), 0);
        self.blocked.fill(0);
        self.behind.iter_mut().for_each(Vec::clear);
        self.rounds.clear();
    }

    /// Notes that a coflow is in turn at a line of a side.
    fn put_in_turn(&mut self, coflow: u32, side: usize, line: usize) {
        let in_turn = &mut self.in_turn[(coflow as usize * SIDES + side) * self.words..][..self.words];
        if in_turn.iter().all(|&lines| lines == 0) {
            self.live[side].push(coflow);
        }
        in_turn[line / 64] |= 1 << (line % 64);
    }

    pub(super) fn find_level(&mut self, lane: usize) {
        self.level[lane] = level_of(self.left[lane], self.waiting[lane]);
    }

    /// Notes that a flow has a rate.
    pub(super) fn take(&mut self, fan: u32, line: u32) {
        set(&mut self.taken[fan as usize * self.words..][..self.words], line, true);
        self.taken_in.push(fan);
    }
}

/// What is left of a link's capacity for each of the flows in turn.
#[inline]
fn level_of(left: f64, waiting: f64) -> f64 {
    if waiting > 0.0 { left / waiting } else { f64::INFINITY }
}

/// `amount` where `bits` has the bit, else nothing.
#[inline]
fn masked(amount: f64, bits: u64, bit: usize) -> f64 {
    f64::from_bits(amount.to_bits() & (bits >> bit & 1).wrapping_neg())
}

/// A run in progress.
pub(super) struct Run<'a> {
    pub(super) turns: &'a mut Turns,
    pub(super) fans: &'a Fans,
    pub(super) words: usize,
}

impl<'a> Run<'a> {
    fn is_open(&self, lane: u32) -> bool {
        self.turns.open[lane as usize / 64] >> (lane % 64) & 1 != 0
    }

    pub(super) fn side(&self, lane: u32) -> usize {
        self.fans.side(lane)
    }

    /// The fans of the class that is in turn at a lane.
    pub(super) fn class(&self, lane: u32) -> &'a [(Key, u32)] {
        let [begin, end] = self.turns.class[lane as usize];
        &self.fans.at[lane as usize][begin..end]
    }

    /// Flows of a fan at an open link of `side` that have no rate yet, by the lines at their other ends.
    #[inline]
    pub(super) fn undecided(&self, fan: u32, side: usize, word: usize) -> u64 {
        let place = fan as usize * self.words + word;
        self.fans.present(fan)[word]
            & self.turns.open[(1 - side) * self.words + word]
            & !self.turns.taken[place]
    }

    /// Lines on a side at which the coflow of a fan is in turn, or was.
    #[inline]
    pub(super) fn in_turn(&self, fan: u32, side: usize, word: usize) -> u64 {
        let coflow = self.fans.fan(fan).coflow as usize;
        self.turns.in_turn[(coflow * SIDES + side) * self.words + word]
    }

    pub(super) fn is_in_turn(&self, fan: u32, lane: u32) -> bool {
        let line = self.fans.line(lane);
        self.in_turn(fan, self.side(lane), line as usize / 64) >> (line % 64) & 1 != 0
    }

    /// Lines of 64 with a level below `bound`.
    #[inline]
    pub(super) fn below(&self, bits: u64, side: usize, word: usize, bound: f64) -> u64 {
        let levels = &self.turns.level.as_chunks::<64>().0[side * self.words + word];
        if bits.count_ones() >= DENSE {
            return pack(|bit| levels[bit] < bound) & bits;
        }
        ones(bits).fold(0, |below, bit| below | u64::from(levels[bit as usize] < bound) << bit)
    }

    pub(super) fn queue(&mut self, lane: u32) {
        if !std::mem::replace(&mut self.turns.is_candidate[lane as usize], true) {
            self.turns.candidates.push(lane);
        }
    }

    /// Has the links looked at that stand behind this one.
    fn queue_behind(&mut self, lane: u32) {
        let mut behind = std::mem::take(&mut self.turns.behind[lane as usize]);
        behind.drain(..).for_each(|other| self.queue(other));
        self.turns.behind[lane as usize] = behind;
    }

    /// Has the next class of an open link in turn that has undecided flows.
    fn open_class(&mut self, lane: u32) {
        let (side, at) = (self.side(lane), lane as usize);
        let order = &self.fans.at[at];
        let line = self.fans.line(lane) as usize;
        let mut waiting = 0;
        while waiting == 0 {
            let begin = self.turns.class[at][1];
            let Some(&(key, _)) = order.get(begin) else { break };
            let class = order[begin..].iter().take_while(|&&(other, _)| other == key);
            let mut end = begin;
            for &(_, fan) in class {
                end += 1;
                self.turns.put_in_turn(self.fans.fan(fan).coflow, side, line);
                waiting +=
                    (0..self.words).map(|word| self.undecided(fan, side, word).count_ones()).sum::<u32>();
            }
            self.turns.class[at] = [begin, end];
        }
        self.turns.waiting[at] = f64::from(waiting);
        self.turns.level[at] = level_of(self.turns.left[at], self.turns.waiting[at]);
        if waiting > 0 {
            self.queue(lane);
            self.queue_behind(lane);
        }
    }

    /// Takes `rate` for each flow of `bits` at 64 lines of a side, and those in turn there off the ones that wait.
    #[inline]
    pub(super) fn spend(&mut self, side: usize, word: usize, bits: u64, in_turn: u64, rate: f64) {
        if bits == 0 {
            return;
        }
        let block = side * self.words + word;
        let Turns { left, waiting, level, capacity, touched, .. } = &mut *self.turns;
        let left = &mut left.as_chunks_mut::<64>().0[block];
        let waiting = &mut waiting.as_chunks_mut::<64>().0[block];
        let level = &mut level.as_chunks_mut::<64>().0[block];
        let capacity = &capacity.as_chunks::<64>().0[block];
        if bits.count_ones() >= DENSE {
            for line in 0..64 {
                left[line] -= masked(rate, bits, line);
                waiting[line] -= masked(1.0, in_turn, line);
                level[line] = level_of(left[line], waiting[line]);
            }
            let over = pack(|line| level[line] == f64::INFINITY || left[line] <= NEGLIGIBLE * capacity[line]);
            touched.extend(ones(over & bits).map(|line| 64 * block as u32 + line));
            return;
        }
        for line in ones(bits) {
            let at = line as usize;
            left[at] -= rate;
            waiting[at] -= masked(1.0, in_turn, at);
            level[at] = level_of(left[at], waiting[at]);
            if waiting[at] == 0.0 || left[at] <= NEGLIGIBLE * capacity[at] {
                touched.push(64 * block as u32 + line);
            }
        }
    }

    /// Closes a link. What is undecided there gets nothing.
    fn close(&mut self, lane: u32) {
        let (side, at) = (self.side(lane), lane as usize);
        self.turns.waiting[at] = 0.0;
        self.turns.level[at] = f64::INFINITY;
        for index in 0..self.turns.live[1 - side].len() {
            for fan in self.fans.of_coflow(self.turns.live[1 - side][index], lane) {
                for word in 0..self.words {
                    let waits = self.in_turn(fan, 1 - side, word) & self.undecided(fan, side, word);
                    self.spend(1 - side, word, waits, waits, 0.0);
                }
            }
        }
        self.turns.open[at / 64] &= !(1 << (lane % 64));
        self.turns.blocked[at / 64] &= !(1 << (lane % 64));
        self.queue_behind(lane);
    }

    /// Closes links that are full, and opens the next class where one is over.
    pub(super) fn follow_up(&mut self) {
        while let Some(lane) = self.turns.touched.pop() {
            let at = lane as usize;
            if !self.is_open(lane) {
                continue;
            }
            if self.turns.left[at] <= NEGLIGIBLE * self.turns.capacity[at] {
                self.close(lane);
            } else if self.turns.waiting[at] == 0.0 {
                self.open_class(lane);
            }
        }
    }

    /// Settles links until none can be.
    fn settle_all(&mut self) {
        loop {
            while let Some(lane) = self.turns.candidates.pop() {
                self.turns.is_candidate[lane as usize] = false;
                self.settle(lane);
            }
            for word in 0..SIDES * self.words {
                for bit in ones(self.turns.blocked[word]) {
                    let at = 64 * word + bit as usize;
                    let by = self.turns.blocked_by[at] as usize;
                    if self.turns.level[by] >= self.turns.level[at] * (1.0 - SAME) {
                        self.turns.blocked[word] &= !(1 << bit);
                        self.queue(at as u32);
                    }
                }
            }
            if self.turns.candidates.is_empty() {
                return;
            }
        }
    }

    /// Gives the flows in turn at a link its level, if it is settled.
    fn settle(&mut self, lane: u32) {
        let at = lane as usize;
        if !self.is_open(lane) || self.turns.waiting[at] == 0.0 {
            return;
        }
        let level = self.turns.level[at];
        self.turns.rounds.begin(lane, level, false);
        if !self.gather(lane, level * (1.0 - SAME)) {
            self.turns.rounds.abandon();
            return;
        }
        self.serve_last_round();
        self.turns.left[at] = 0.0;
        self.close(lane);
        self.follow_up();
    }

    /// Puts the flows in turn at a link into the round that has begun, if they are in turn everywhere and none of their other
    /// links has a level below `bound`; else notes what the link waits for.
    fn gather(&mut self, lane: u32, bound: f64) -> bool {
        let (side, other) = (self.side(lane), self.fans.first_lane(1 - self.side(lane)));
        for &(_, fan) in self.class(lane) {
            for word in 0..self.words {
                let bits = self.undecided(fan, side, word);
                let held = bits & !self.in_turn(fan, 1 - side, word);
                if held != 0 {
                    let behind = other as usize + 64 * word + held.trailing_zeros() as usize;
                    self.turns.behind[behind].push(lane);
                    return false;
                }
                self.turns.rounds.bits.push(bits);
            }
            self.turns.rounds.end_fan(fan);
        }
        for word in 0..self.words {
            let any = self.turns.rounds.last().fold(0, |any, (_, bits)| any | bits[word]);
            let lower = if any == 0 { 0 } else { self.below(any, 1 - side, word, bound) };
            if lower != 0 {
                self.turns.blocked[lane as usize / 64] |= 1 << (lane % 64);
                self.turns.blocked_by[lane as usize] = other + 64 * word as u32 + lower.trailing_zeros();
                return false;
            }
        }
        true
    }

    /// Takes what the last round gives from the links at the other ends, and notes that its flows have their rates.
    pub(super) fn serve_last_round(&mut self) {
        let round = *self.turns.rounds.rounds.last().expect("a round has begun");
        let side = self.side(round.lane);
        for at in round.first..round.end {
            let fan = self.turns.rounds.fans[at];
            for word in 0..self.words {
                let bits = self.turns.rounds.bits[at * self.words + word];
                let in_turn = bits & self.in_turn(fan, 1 - side, word);
                self.spend(1 - side, word, bits, in_turn, round.rate);
                self.turns.taken[fan as usize * self.words + word] |= bits;
            }
            self.turns.taken_in.push(fan);
        }
    }
}
