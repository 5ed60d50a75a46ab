//! Who sends to whom, as bits: what a run of `turns` reads and never changes.
//!
//! A *fan* is the flows of one account at its link, at most one to each link of the other side: a set of bits, one for each
//! of these links. Where an account has several flows to one link it has as many fans, in *layers*, so that a flow is one bit
//! at each of its two links.
//!
//! # Invariants
//! - A flow has one layer: the fans at its two links have the same.
//! - Accounts that share flows are those of one coflow, which has one account at each link. Coflows are found from the flows,
//!   so what the driver calls one coflow may be several here, if they have no port in common.
//! - Links of a side are numbered from a whole word on: *lanes*. Ingress comes first.

use crate::bits::{has, set};
use crate::fill::{Key, NONE};

/// The two sides of a switch.
pub(super) const SIDES: usize = 2;

/// The flows of an account to different links.
#[derive(Clone, Debug)]
pub(super) struct Fan {
    pub(super) account: u32,
    pub(super) lane: u32,
    pub(super) coflow: u32,
    layer: u32,
    /// Flows by the lane at their other end, ascending.
    pub(super) flows: Vec<(u32, u32)>,
    /// True if flows ascend as lanes do.
    is_ascending: bool,
    /// No flow has a lower number.
    pub(super) lowest: u32,
}

/// The fans of accounts that share flows, by layer and lane.
#[derive(Clone, Debug, Default)]
struct Coflow {
    table: Vec<u32>,
    fans: u32,
}

/// The fans at all links.
#[derive(Debug)]
pub(super) struct Fans {
    /// Words for the lanes of one side.
    pub(super) words: usize,
    fans: Vec<Fan>,
    free: Vec<u32>,
    /// By fan, the lanes at the other ends of its flows.
    present: Vec<u64>,
    coflows: Vec<Coflow>,
    free_coflows: Vec<u32>,
    /// Fans by lane, in order of key.
    pub(super) at: Vec<Vec<(Key, u32)>>,
    /// Lanes whose order is to be made again.
    unsorted: Vec<u32>,
}

impl Fans {
    pub(super) fn new(words: usize) -> Self {
        Self {
            words,
            fans: Vec::new(),
            free: Vec::new(),
            present: Vec::new(),
            coflows: Vec::new(),
            free_coflows: Vec::new(),
            at: vec![Vec::new(); SIDES * 64 * words],
            unsorted: Vec::new(),
        }
    }

    /// Fans have numbers below this.
    pub(super) fn count(&self) -> usize {
        self.fans.len()
    }

    /// Coflows have numbers below this.
    pub(super) fn coflow_count(&self) -> usize {
        self.coflows.len()
    }

    pub(super) fn fan(&self, fan: u32) -> &Fan {
        &self.fans[fan as usize]
    }

    /// The side of a lane.
    pub(super) fn side(&self, lane: u32) -> usize {
        lane as usize / (64 * self.words)
    }

    /// The number of a lane on its side.
    pub(super) fn line(&self, lane: u32) -> u32 {
        lane % (64 * self.words) as u32
    }

    /// The first lane of a side.
    pub(super) fn first_lane(&self, side: usize) -> u32 {
        (side * 64 * self.words) as u32
    }

    /// The lines at the other ends of a fan's flows, as bits.
    pub(super) fn present(&self, fan: u32) -> &[u64] {
        &self.present[fan as usize * self.words..][..self.words]
    }

    /// The fans at the lines of the other side that may have flows of `fan`.
    pub(super) fn partners(&self, fan: u32) -> &[u32] {
        let Fan { coflow, layer, lane, .. } = self.fans[fan as usize];
        let first = self.place(layer, self.first_lane(1 - self.side(lane)));
        &self.coflows[coflow as usize].table[first..][..64 * self.words]
    }

    fn place(&self, layer: u32, lane: u32) -> usize {
        layer as usize * SIDES * 64 * self.words + lane as usize
    }

    fn find(&self, coflow: u32, layer: u32, lane: u32) -> u32 {
        let place = self.place(layer, lane);
        self.coflows[coflow as usize].table.get(place).copied().unwrap_or(NONE)
    }

    /// The flow of a fan to a lane. There is one.
    pub(super) fn flow(&self, fan: u32, lane: u32) -> u32 {
        let (present, line) = (self.present(fan), self.line(lane));
        let (words, last) = present.split_at(line as usize / 64);
        let before = words.iter().map(|word| word.count_ones()).sum::<u32>();
        let before = before + (last[0] & ((1 << (line % 64)) - 1)).count_ones();
        let (to, flow) = self.fans[fan as usize].flows[before as usize];
        debug_assert_eq!(to, lane, "a bit stands for a flow");
        flow
    }

    /// The fan of a coflow's flows at a lane, for each layer.
    pub(super) fn of_coflow(&self, coflow: u32, lane: u32) -> impl Iterator<Item = u32> {
        let table = &self.coflows[coflow as usize].table;
        let layers = table.get(lane as usize..).unwrap_or_default();
        layers.iter().step_by(SIDES * 64 * self.words).copied().filter(|&fan| fan != NONE)
    }

    /// The flow with the lowest number of those to these lines of a side, and its lane there.
    pub(super) fn first_flow(
        &self,
        fan: u32,
        side: usize,
        lines: impl Iterator<Item = u32>,
    ) -> Option<(u32, u32)> {
        let first = self.first_lane(side);
        let mut flows = lines.map(|line| (self.flow(fan, first + line), first + line));
        if self.fans[fan as usize].is_ascending { flows.next() } else { flows.min() }
    }

    /// Adds a flow of these accounts between two lanes; the fans of each account are given by layer. Returns its fans.
    pub(super) fn add(
        &mut self,
        flow: u32,
        lanes: [u32; 2],
        accounts: [u32; 2],
        of_accounts: [&mut Vec<u32>; 2],
    ) -> [u32; 2] {
        let known = of_accounts.each_ref().map(|fans| fans.first().map(|&fan| self.fan(fan).coflow));
        let coflow = match known {
            [Some(a), Some(b)] => self.merge(a, b),
            [Some(known), None] | [None, Some(known)] => known,
            [None, None] => self.new_coflow(),
        };
        let is_free = |&layer: &u32| {
            let fan = self.find(coflow, layer, lanes[0]);
            fan == NONE || !has(self.present(fan), self.line(lanes[1]))
        };
        let layer = (0..).find(is_free).expect("there are fewer flows than layers");
        let mut fans = [NONE; 2];
        for (side, of_account) in of_accounts.into_iter().enumerate() {
            let mut fan = self.find(coflow, layer, lanes[side]);
            if fan == NONE {
                fan = self.new_fan(accounts[side], coflow, layer, lanes[side]);
                of_account.push(fan);
            }
            assert_eq!(self.fan(fan).account, accounts[side], "a coflow has one account at a link");
            self.put(fan, lanes[1 - side], flow);
            fans[side] = fan;
        }
        fans
    }

    fn put(&mut self, fan: u32, lane: u32, flow: u32) {
        let line = self.line(lane);
        let words = self.words;
        set(&mut self.present[fan as usize * words..][..words], line, true);
        let Fan { flows, is_ascending, lowest, .. } = &mut self.fans[fan as usize];
        *lowest = flow.min(*lowest);
        let at = flows.partition_point(|&(other, _)| other < lane);
        *is_ascending &= flows[..at].last().is_none_or(|&(_, before)| before < flow)
            && flows.get(at).is_none_or(|&(_, behind)| flow < behind);
        flows.insert(at, (lane, flow));
    }

    fn new_coflow(&mut self) -> u32 {
        self.free_coflows.pop().unwrap_or_else(|| {
            self.coflows.push(Coflow::default());
            self.coflows.len() as u32 - 1
        })
    }

    fn new_fan(&mut self, account: u32, coflow: u32, layer: u32, lane: u32) -> u32 {
        let record =
            Fan { account, lane, coflow, layer, flows: Vec::new(), is_ascending: true, lowest: NONE };
        let fan = match self.free.pop() {
            Some(fan) => {
                self.fans[fan as usize] = record;
                fan
            }
            None => {
                self.fans.push(record);
                self.present.resize(self.fans.len() * self.words, 0);
                self.fans.len() as u32 - 1
            }
        };
        self.enter(coflow, layer, lane, fan);
        self.at[lane as usize].push((Key::default(), fan));
        self.unsorted.push(lane);
        fan
    }

    fn enter(&mut self, coflow: u32, layer: u32, lane: u32, fan: u32) {
        let (place, lanes) = (self.place(layer, lane), self.place(layer + 1, 0));
        let record = &mut self.coflows[coflow as usize];
        record.table.resize(lanes.max(record.table.len()), NONE);
        assert_eq!(record.table[place], NONE, "a coflow has one account at a link");
        record.table[place] = fan;
        record.fans += 1;
    }

    /// Makes one coflow of two that turn out to be one.
    fn merge(&mut self, a: u32, b: u32) -> u32 {
        if a == b {
            return a;
        }
        let is_less = self.coflows[a as usize].fans < self.coflows[b as usize].fans;
        let (from, to) = if is_less { (a, b) } else { (b, a) };
        let lanes = SIDES * 64 * self.words;
        for (place, fan) in std::mem::take(&mut self.coflows[from as usize]).table.into_iter().enumerate() {
            if fan != NONE {
                self.fans[fan as usize].coflow = to;
                self.enter(to, (place / lanes) as u32, (place % lanes) as u32, fan);
            }
        }
        self.free_coflows.push(from);
        to
    }

    /// Takes out a flow that has these fans.
    pub(super) fn remove(&mut self, fans: [u32; 2]) {
        let lanes = fans.map(|fan| self.fan(fan).lane);
        for side in 0..SIDES {
            let (fan, other) = (fans[side] as usize, lanes[1 - side]);
            let line = self.line(other);
            set(&mut self.present[fan * self.words..][..self.words], line, false);
            let flows = &mut self.fans[fan].flows;
            let at = flows.binary_search_by_key(&other, |&(lane, _)| lane);
            flows.remove(at.expect("a flow is in its fans"));
        }
    }

    /// Takes out the fans of an account without flows.
    pub(super) fn forget(&mut self, fans: &mut Vec<u32>) {
        for fan in fans.drain(..) {
            let Fan { coflow, layer, lane, .. } = self.fans[fan as usize];
            let place = self.place(layer, lane);
            let record = &mut self.coflows[coflow as usize];
            record.table[place] = NONE;
            record.fans -= 1;
            if record.fans == 0 {
                record.table.clear();
                self.free_coflows.push(coflow);
            }
            self.at[lane as usize].retain(|&(_, other)| other != fan);
            self.free.push(fan);
        }
    }

    /// Notes that an account at a lane has another key.
    pub(super) fn reorder(&mut self, lane: u32) {
        self.unsorted.push(lane);
    }

    /// Puts the fans at each lane in order.
    pub(super) fn sort(&mut self, key: impl Fn(u32) -> Key) {
        self.unsorted.sort_unstable();
        self.unsorted.dedup();
        for lane in self.unsorted.drain(..) {
            let order = &mut self.at[lane as usize];
            order.iter_mut().for_each(|(of, fan)| *of = key(self.fans[*fan as usize].account));
            order.sort_unstable();
        }
    }
}
