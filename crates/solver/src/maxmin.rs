//! Max-min fair rates inside one group of flows, kept up to date as flows come, go, and capacity changes.
//!
//! # The idea
//! Progressive filling raises all flows together; when a link is full, its flows stay at the link's *level*. So a flow's
//! rate is the level of one link, its bottleneck, and flows between the same two links always have the same rate: they are
//! one *pair*. The group keeps, for each link, the service that one flow bottlenecked there has received so far (`served`,
//! a virtual time), and for each pair only where its next flow ends on that scale. When levels change nothing is done per
//! flow; only a pair whose bottleneck moves from one of its links to the other gets a new mark.
//!
//! Filling is only done where the rates of before do not hold any more (`allotment`).
//!
//! # Invariants
//! - A pair is attached to exactly one of its links and its rate per flow is the level there.
//! - A pair with a link that has no capacity is attached where the level is 0.
//! - Flows with a cap of their own are kept apart, with rates of their own; they are expected to be few.
//!
//! # Cost
//! Nothing where no link of the group is given something else; 3 ns per link where that changes no rate; for filling
//! about 1.5 ns per pair on open links + 5 ns per link and round. A completion: O(log pairs of the link).
//!
//! # Rejected
//! A heap of links by level (each freeze changes the keys of all columns); rates per flow (touching every flow at
//! every event costs 30 times the filling on the Facebook trace); lists of neighbours in place of bit sets (every pair is
//! then visited from both sides).

mod allotment;
mod filling;
mod residual;

use std::collections::BinaryHeap;

use crate::marks::{Mark, tolerance};
use allotment::Allotment;

pub(crate) use filling::Scratch;
pub(crate) use residual::Residual;

/// No flow, group or account.
pub(crate) const NONE: u32 = u32::MAX;

/// Capacity below this share of a link is rounding, not capacity.
pub(crate) const NEGLIGIBLE: f64 = 1e-9;

/// The two sides of a group.
const ROWS: usize = 0;
const COLUMNS: usize = 1;

/// The allotment that flows are served by; others are trials.
const SERVICE: usize = 0;

/// One flow, as long as it is in some group.
#[derive(Clone, Debug)]
pub(crate) struct Flow {
    /// Its row and column in the group.
    lines: [u32; 2],
    /// The next flow of its pair to reach a milestone.
    next_in_pair: u32,
    /// Where it stands among the capped flows; [`NONE`] if it has no cap.
    capped: u32,
    /// The service of its pair at which it has sent everything.
    end: f64,
    /// Remaining bytes at its next milestone: 0 for its end, more for a watched amount before.
    pub(crate) milestone: f64,
    /// The group that it is in.
    pub(crate) group: u32,
    pub(crate) account: u32,
    /// Where it stands in its account's list.
    pub(crate) in_account: u32,
    /// Whether it has its account's key rather than one of its own.
    pub(crate) at_home: bool,
}

impl Flow {
    pub(crate) fn absent() -> Self {
        Self {
            lines: [NONE; 2],
            next_in_pair: NONE,
            capped: NONE,
            end: 0.0,
            milestone: 0.0,
            group: NONE,
            account: NONE,
            in_account: NONE,
            at_home: true,
        }
    }

    /// The service of its pair at its next milestone.
    fn due(&self) -> f64 {
        self.end - self.milestone
    }
}

/// A flow with a cap.
#[derive(Clone, Debug)]
struct Capped {
    flow: u32,
    limit: f64,
    /// Bytes left at `since`.
    left: f64,
    since: f64,
    rate: f64,
    frozen: bool,
}

/// A link within a group. What every refill looks at is kept in arrays of the group instead.
#[derive(Debug)]
struct Line {
    /// What one flow attached here has been served by `since`.
    served: f64,
    since: f64,
    /// Flows on the link, capped ones included.
    flows: u32,
    /// The account whose flows these are, if they have been of one account since `tenancy` began; of a row only.
    tenant: u32,
    tenancy: u32,
    /// What all flows on the link were sent by `counted`; of a row only.
    sent: f64,
    counted: f64,
    /// Lines of the other side with which there are flows.
    partners: Vec<u64>,
    /// Of those, the ones whose pair is attached here.
    attached: Vec<u64>,
    /// Milestones of the pairs attached here; outdated marks are dropped when they come up.
    marks: BinaryHeap<Mark>,
}

/// Flows between the same two lines.
#[derive(Clone, Copy, Debug)]
struct Pair {
    /// The first flow to reach a milestone; the others follow in that order.
    head: u32,
    /// The service of the line it is attached to, less the service of the pair.
    offset: f64,
}

/// Flows that share max-min fairly what higher groups left.
#[derive(Debug)]
pub(crate) struct Group {
    sides: [Vec<Line>; 2],
    /// By side and line: the link.
    link: [Vec<u32>; 2],
    /// Bytes per nanosecond of each flow attached to a line.
    level: [Vec<f64>; 2],
    /// When the first flow attached to a line reaches its milestone.
    next_of: [Vec<f64>; 2],
    /// Lines whose `next_of` may be outdated although the level is the same, as bits.
    stale: [Vec<u64>; 2],
    /// Bytes per nanosecond of all flows of a row.
    used: Vec<f64>,
    /// The line of each link, as a row or a column.
    line_of_link: Vec<u32>,
    /// Words of a bit set over columns and over rows.
    words: [usize; 2],
    /// `row * 64 * words[COLUMNS] + column`.
    pairs: Vec<Pair>,
    /// Flows of each pair without caps.
    counts: Vec<u32>,
    /// Pairs of more than one flow.
    multiple: usize,
    capped: Vec<Capped>,
    flow_count: usize,
    /// The links on which the group has flows, as bits: where they enter, and where they leave.
    links: [Vec<u64>; 2],
    /// What the group is served by, then its trials.
    allotments: Vec<Allotment>,
    /// When the first flow reaches its milestone.
    pub(crate) next: f64,
    /// Bytes per nanosecond of all flows together.
    pub(crate) rate: f64,
}

impl Group {
    /// An empty group on a fabric of so many links, with room for so many trials.
    pub(crate) fn new(links: usize, trials: usize) -> Self {
        Self {
            allotments: (0..=trials).map(|_| Allotment::default()).collect(),
            sides: [Vec::new(), Vec::new()],
            link: [Vec::new(), Vec::new()],
            level: [Vec::new(), Vec::new()],
            next_of: [Vec::new(), Vec::new()],
            stale: [vec![0], vec![0]],
            used: Vec::new(),
            line_of_link: vec![NONE; links],
            words: [1, 1],
            pairs: Vec::new(),
            counts: Vec::new(),
            multiple: 0,
            capped: Vec::new(),
            flow_count: 0,
            links: [vec![0; links.div_ceil(64)], vec![0; links.div_ceil(64)]],
            next: f64::INFINITY,
            rate: 0.0,
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.flow_count == 0
    }

    pub(crate) fn len(&self) -> usize {
        self.flow_count
    }

    /// The links on which the group has flows, as bits: where they enter, and where they leave.
    pub(crate) fn links(&self) -> &[Vec<u64>; 2] {
        &self.links
    }

    /// The links that the group has used since it was last served, as the allotment `which`.
    pub(crate) fn uses(&self, which: usize) -> &[(u32, f64)] {
        self.allotments[which].uses()
    }

    /// Notes that the group stands elsewhere in the order.
    pub(crate) fn moved(&mut self) {
        self.allotments.iter_mut().for_each(|allotment| allotment.moved = true);
    }

    /// Takes what the group used last time out of `residual`.
    pub(crate) fn pass(&self, residual: &mut Residual) {
        self.allotments[SERVICE].take_from(residual);
    }

    fn outdate(&mut self) {
        self.allotments.iter_mut().for_each(|allotment| allotment.outdated = true);
    }

    fn line(&mut self, link: u32, side: usize, now: f64) -> u32 {
        let line = self.line_of_link[link as usize];
        if line != NONE {
            return line;
        }
        let line = self.sides[side].len() as u32;
        assert!(line < 1 << 16, "a group spans at most 65536 links on a side");
        if line as usize == 64 * self.words[side] {
            self.widen(side);
        }
        let words = self.words[1 - side];
        self.link[side].push(link);
        self.level[side].push(0.0);
        self.next_of[side].push(f64::INFINITY);
        self.sides[side].push(Line {
            served: 0.0,
            since: now,
            flows: 0,
            tenant: NONE,
            tenancy: 0,
            sent: 0.0,
            counted: now,
            partners: vec![0; words],
            attached: vec![0; words],
            marks: BinaryHeap::new(),
        });
        self.allotments.iter_mut().for_each(|allotment| allotment.add_line(side));
        self.line_of_link[link as usize] = line;
        if side == ROWS {
            self.used.push(0.0);
            let pairs = self.sides[ROWS].len() * 64 * self.words[COLUMNS];
            self.pairs.resize(pairs, Pair { head: NONE, offset: 0.0 });
            self.counts.resize(pairs, 0);
        }
        line
    }

    /// Doubles the room for lines on one side.
    fn widen(&mut self, side: usize) {
        let before = self.words[side];
        self.words[side] *= 2;
        self.stale[side].resize(2 * before, 0);
        for line in &mut self.sides[1 - side] {
            line.partners.resize(2 * before, 0);
            line.attached.resize(2 * before, 0);
        }
        if side == COLUMNS {
            let (old, new) = (64 * before, 128 * before);
            let rows = self.sides[ROWS].len();
            let mut pairs = vec![Pair { head: NONE, offset: 0.0 }; rows * new];
            let mut counts = vec![0; rows * new];
            for row in 0..rows {
                pairs[row * new..row * new + old].copy_from_slice(&self.pairs[row * old..(row + 1) * old]);
                counts[row * new..row * new + old].copy_from_slice(&self.counts[row * old..(row + 1) * old]);
            }
            self.pairs = pairs;
            self.counts = counts;
        }
    }

    fn pair_at(&self, [row, column]: [u32; 2]) -> usize {
        row as usize * 64 * self.words[COLUMNS] + column as usize
    }

    /// The side on which a pair is attached.
    fn side_of(&self, [row, column]: [u32; 2]) -> usize {
        if has(&self.sides[ROWS][row as usize].attached, column) { ROWS } else { COLUMNS }
    }

    /// What one flow attached to a line has been served.
    fn served_at(&self, side: usize, index: u32, now: f64) -> f64 {
        let line = &self.sides[side][index as usize];
        line.served + self.level[side][index as usize] * (now - line.since)
    }

    /// What one flow of a pair has been served.
    fn pair_served(&self, lines: [u32; 2], now: f64) -> f64 {
        let side = self.side_of(lines);
        self.served_at(side, lines[side], now) - self.pairs[self.pair_at(lines)].offset
    }

    /// Adds `flow` with `bytes` to send. The next [`Group::fill`] gives it a rate.
    pub(crate) fn add(&mut self, flows: &mut [Flow], flow: u32, links: [u32; 2], bytes: f64, now: f64) {
        let lines = [self.line(links[0], ROWS, now), self.line(links[1], COLUMNS, now)];
        self.flow_count += 1;
        flows[flow as usize].lines = lines;
        flows[flow as usize].capped = NONE;
        let (row, account) = (&mut self.sides[ROWS][lines[ROWS] as usize], flows[flow as usize].account);
        if row.flows == 0 || row.tenant != account {
            row.tenant = if row.flows == 0 { account } else { NONE };
            row.tenancy += 1;
        }
        for side in [ROWS, COLUMNS] {
            self.sides[side][lines[side] as usize].flows += 1;
            set(&mut self.links[side], links[side], true);
        }
        self.outdate();
        self.join_pair(flows, flow, bytes, now);
    }

    /// Takes `flow` out and returns the bytes that it has still to send.
    pub(crate) fn remove(&mut self, flows: &mut [Flow], flow: u32, now: f64) -> f64 {
        let bytes = self.remaining(flows, flow, now);
        let lines = flows[flow as usize].lines;
        self.flow_count -= 1;
        for side in [ROWS, COLUMNS] {
            let line = &mut self.sides[side][lines[side] as usize];
            line.flows -= 1;
            if line.flows == 0 {
                set(&mut self.links[side], self.link[side][lines[side] as usize], false);
            }
        }
        if !self.capped.is_empty() {
            self.outdate();
        }
        match flows[flow as usize].capped {
            NONE => {
                self.leave_pair(flows, flow);
                for allotment in &mut self.allotments {
                    allotment.flow_left(lines, &self.sides);
                }
            }
            at => self.leave_capped(flows, at),
        }
        bytes
    }

    fn join_pair(&mut self, flows: &mut [Flow], flow: u32, bytes: f64, now: f64) {
        let lines = flows[flow as usize].lines;
        let pair = self.pair_at(lines);
        if self.counts[pair] == 0 {
            for side in [ROWS, COLUMNS] {
                let (line, partner) = (&mut self.sides[side][lines[side] as usize], lines[1 - side]);
                set(&mut line.partners, partner, true);
                set(&mut line.attached, partner, side == ROWS);
            }
            self.pairs[pair].offset = self.served_at(ROWS, lines[ROWS], now);
        }
        self.counts[pair] += 1;
        self.multiple += usize::from(self.counts[pair] == 2);
        flows[flow as usize].end = self.pair_served(lines, now) + bytes;
        self.insert_by_due(flows, flow);
    }

    fn leave_pair(&mut self, flows: &mut [Flow], flow: u32) {
        let lines = flows[flow as usize].lines;
        let pair = self.pair_at(lines);
        self.unlink(flows, flow);
        self.counts[pair] -= 1;
        self.multiple -= usize::from(self.counts[pair] == 1);
        if self.counts[pair] == 0 {
            for side in [ROWS, COLUMNS] {
                let (line, partner) = (&mut self.sides[side][lines[side] as usize], lines[1 - side]);
                set(&mut line.partners, partner, false);
                set(&mut line.attached, partner, false);
            }
        }
    }

    /// Puts `flow` in its place among the flows of its pair.
    fn insert_by_due(&mut self, flows: &mut [Flow], flow: u32) {
        let pair = self.pair_at(flows[flow as usize].lines);
        let due = (flows[flow as usize].due(), flow);
        let (mut before, mut after) = (NONE, self.pairs[pair].head);
        while after != NONE && (flows[after as usize].due(), after) < due {
            before = after;
            after = flows[after as usize].next_in_pair;
        }
        flows[flow as usize].next_in_pair = after;
        match before {
            NONE => {
                self.pairs[pair].head = flow;
                self.push_mark(flows, flows[flow as usize].lines);
            }
            before => flows[before as usize].next_in_pair = flow,
        }
    }

    fn unlink(&mut self, flows: &mut [Flow], flow: u32) {
        let pair = self.pair_at(flows[flow as usize].lines);
        let next = flows[flow as usize].next_in_pair;
        if self.pairs[pair].head == flow {
            self.pairs[pair].head = next;
            if next != NONE {
                self.push_mark(flows, flows[flow as usize].lines);
            }
            return;
        }
        let mut before = self.pairs[pair].head;
        while flows[before as usize].next_in_pair != flow {
            before = flows[before as usize].next_in_pair;
        }
        flows[before as usize].next_in_pair = next;
    }

    /// Marks the next milestone of a pair where it is attached.
    fn push_mark(&mut self, flows: &[Flow], lines: [u32; 2]) {
        let (side, pair) = (self.side_of(lines), self.pairs[self.pair_at(lines)]);
        let at = pair.offset + flows[pair.head as usize].due();
        let line = &mut self.sides[side][lines[side] as usize];
        line.marks.push(Mark { at, what: lines[ROWS] << 16 | lines[COLUMNS] });
        set(&mut self.stale[side], lines[side], true);
        // Pairs that move to and fro leave outdated marks behind; dropping them keeps the heap within a factor.
        if line.marks.len() > 4 * line.flows as usize + 64 {
            let mut marks = std::mem::take(&mut line.marks).into_vec();
            marks.retain(|mark| self.is_current(flows, side, mark));
            self.sides[side][lines[side] as usize].marks = marks.into();
        }
    }

    /// Whether a mark in a heap of `side` still says where its pair's next milestone is.
    fn is_current(&self, flows: &[Flow], side: usize, mark: &Mark) -> bool {
        let lines = [mark.what >> 16, mark.what & 0xffff];
        let pair = self.pairs[self.pair_at(lines)];
        pair.head != NONE
            && has(&self.sides[side][lines[side] as usize].attached, lines[1 - side])
            && pair.offset + flows[pair.head as usize].due() == mark.at
    }

    /// Bytes that `flow` has still to send.
    pub(crate) fn remaining(&self, flows: &[Flow], flow: u32, now: f64) -> f64 {
        let record = &flows[flow as usize];
        match record.capped {
            NONE => (record.end - self.pair_served(record.lines, now)).max(0.0),
            at => self.capped[at as usize].left_at(now),
        }
    }

    /// If all flows that enter where `flow` does are of its account: a number for as long as that lasts, what they were sent
    /// since the group began, and their rate.
    pub(crate) fn row_of(&self, flows: &[Flow], flow: u32, now: f64) -> Option<(u32, f64, f64)> {
        let record = &flows[flow as usize];
        let row = &self.sides[ROWS][record.lines[ROWS] as usize];
        (row.tenant == record.account).then_some((
            row.tenancy,
            row.sent + self.used[record.lines[ROWS] as usize] * (now - row.counted),
            self.used[record.lines[ROWS] as usize],
        ))
    }

    /// The rate of `flow` since the last fill.
    pub(crate) fn rate_of(&self, flows: &[Flow], flow: u32) -> f64 {
        let record = &flows[flow as usize];
        match record.capped {
            NONE => {
                let side = self.side_of(record.lines);
                self.level[side][record.lines[side] as usize]
            }
            at => self.capped[at as usize].rate,
        }
    }

    /// Sets the remaining bytes at which `flow` is next reported.
    pub(crate) fn set_milestone(&mut self, flows: &mut [Flow], flow: u32, milestone: f64, now: f64) {
        if flows[flow as usize].capped == NONE {
            self.unlink(flows, flow);
            flows[flow as usize].milestone = milestone;
            self.insert_by_due(flows, flow);
            for side in [ROWS, COLUMNS] {
                self.refresh(flows, side, flows[flow as usize].lines[side] as usize, now);
            }
        } else {
            flows[flow as usize].milestone = milestone;
        }
        self.find_next(flows);
    }

    /// The cap of `flow`.
    pub(crate) fn cap_of(&self, flows: &[Flow], flow: u32) -> Option<f64> {
        self.capped.get(flows[flow as usize].capped as usize).map(|capped| capped.limit)
    }

    /// Sets or lifts a cap in bytes per nanosecond.
    pub(crate) fn set_cap(&mut self, flows: &mut [Flow], flow: u32, cap: Option<f64>, now: f64) {
        self.outdate();
        match (cap, flows[flow as usize].capped) {
            (None, NONE) => {}
            (None, at) => {
                let left = self.capped[at as usize].left_at(now);
                self.leave_capped(flows, at);
                self.join_pair(flows, flow, left, now);
            }
            (Some(limit), NONE) => {
                let left = self.remaining(flows, flow, now);
                self.leave_pair(flows, flow);
                flows[flow as usize].capped = self.capped.len() as u32;
                self.capped.push(Capped { flow, limit, left, since: now, rate: 0.0, frozen: false });
            }
            (Some(limit), at) => self.capped[at as usize].limit = limit,
        }
    }

    fn leave_capped(&mut self, flows: &mut [Flow], at: u32) {
        let gone = self.capped.swap_remove(at as usize);
        flows[gone.flow as usize].capped = NONE;
        if let Some(moved) = self.capped.get(at as usize) {
            flows[moved.flow as usize].capped = at;
        }
    }

    /// Moves the bottleneck of a pair to its line on `side`.
    fn attach(&mut self, flows: &[Flow], lines: [u32; 2], side: usize, now: f64) {
        let pair = self.pair_at(lines);
        let from = self.served_at(1 - side, lines[1 - side], now);
        let to = self.served_at(side, lines[side], now);
        set(&mut self.sides[side][lines[side] as usize].attached, lines[1 - side], true);
        set(&mut self.sides[1 - side][lines[1 - side] as usize].attached, lines[side], false);
        set(&mut self.stale[1 - side], lines[1 - side], true);
        self.pairs[pair].offset += to - from;
        self.push_mark(flows, lines);
    }

    /// Attaches to `line` on `side` the pairs with those lines of the other side whose bits are set.
    fn attach_all(
        &mut self,
        flows: &[Flow],
        side: usize,
        line: u32,
        to: usize,
        word: usize,
        mut bits: u64,
        now: f64,
    ) {
        while bits != 0 {
            let partner = word as u32 * 64 + bits.trailing_zeros();
            bits &= bits - 1;
            let lines = if side == ROWS { [line, partner] } else { [partner, line] };
            self.attach(flows, lines, to, now);
        }
    }

    /// Finds when the first flow attached to a line reaches its milestone.
    fn refresh(&mut self, flows: &[Flow], side: usize, index: usize, now: f64) {
        set(&mut self.stale[side], index as u32, false);
        self.next_of[side][index] = f64::INFINITY;
        let level = self.level[side][index];
        if level == 0.0 {
            return;
        }
        while let Some(mark) = self.sides[side][index].marks.peek().copied() {
            if self.is_current(flows, side, &mark) {
                let line = &self.sides[side][index];
                self.next_of[side][index] = (line.since + (mark.at - line.served) / level).max(now);
                break;
            }
            self.sides[side][index].marks.pop();
        }
    }

    fn find_next(&mut self, flows: &[Flow]) {
        let least = |next: &[f64]| next.iter().copied().fold(f64::INFINITY, f64::min);
        let capped = self.capped.iter().map(|capped| capped.next(flows));
        self.next = capped.fold(least(&self.next_of[ROWS]).min(least(&self.next_of[COLUMNS])), f64::min);
    }

    /// Appends the flows that have reached their milestone at `now` to `due`. Each must then be removed or given another
    /// milestone.
    pub(crate) fn take_due(&mut self, flows: &[Flow], now: f64, due: &mut Vec<u32>) {
        for side in [ROWS, COLUMNS] {
            for index in 0..self.sides[side].len() {
                if self.next_of[side][index] <= now + tolerance(now) {
                    self.take_due_of(flows, side, index, now, due);
                }
            }
        }
        for capped in self.capped.iter().filter(|capped| capped.next(flows) <= now + tolerance(now)) {
            due.push(capped.flow);
        }
    }

    fn take_due_of(&mut self, flows: &[Flow], side: usize, index: usize, now: f64, due: &mut Vec<u32>) {
        set(&mut self.stale[side], index as u32, true);
        let served = self.served_at(side, index as u32, now);
        let reached = served + self.level[side][index] * tolerance(now) + served * 1e-14;
        let mut last = None;
        while let Some(mark) = self.sides[side][index].marks.peek().copied() {
            let current = self.is_current(flows, side, &mark);
            if current && mark.at > reached {
                break;
            }
            self.sides[side][index].marks.pop();
            // A pair that moved away and back within one instant has two equal marks, one behind the other.
            if !current || last == Some(mark.what) {
                continue;
            }
            last = Some(mark.what);
            let pair = self.pairs[self.pair_at([mark.what >> 16, mark.what & 0xffff])];
            let mut flow = pair.head;
            while flow != NONE && pair.offset + flows[flow as usize].due() <= reached {
                due.push(flow);
                flow = flows[flow as usize].next_in_pair;
            }
        }
    }
}

impl Capped {
    fn left_at(&self, now: f64) -> f64 {
        (self.left - self.rate * (now - self.since)).max(0.0)
    }

    fn next(&self, flows: &[Flow]) -> f64 {
        if self.rate == 0.0 {
            return f64::INFINITY;
        }
        self.since + (self.left - flows[self.flow as usize].milestone).max(0.0) / self.rate
    }
}

/// Whether the links of either side meet those in `bits`.
fn meet(links: &[Vec<u64>; 2], bits: &[u64]) -> bool {
    links[ROWS]
        .iter()
        .zip(&links[COLUMNS])
        .zip(bits)
        .any(|((rows, columns), bits)| (rows | columns) & bits != 0)
}

/// Whether no flow can have a rate while only the links in `open` have capacity.
fn is_shut(links: &[Vec<u64>; 2], open: &[u64]) -> bool {
    let meets = |side: &[u64]| side.iter().zip(open).any(|(side, open)| side & open != 0);
    !(meets(&links[ROWS]) && meets(&links[COLUMNS]))
}

fn has(words: &[u64], bit: u32) -> bool {
    words[bit as usize / 64] & 1 << (bit % 64) != 0
}

fn set(words: &mut [u64], bit: u32, value: bool) {
    let word = &mut words[bit as usize / 64];
    if value { *word |= 1 << (bit % 64) } else { *word &= !(1 << (bit % 64)) }
}
