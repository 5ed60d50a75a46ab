//! Max-min fair rates inside one group of flows, kept up to date as flows come, go, and capacity
//! changes.
//!
//! # The idea
//! Progressive filling raises all flows together; when a link is full, its flows stay at the link's
//! *level*. So a flow's rate is the level of one link, its bottleneck, and flows between the same
//! two links always have the same rate: they are one *pair*. The group keeps, for each link, the
//! service that one flow bottlenecked there has received so far (`served`, a virtual time), and for
//! each pair only where its next flow ends on that scale. When levels change nothing is done per
//! flow; only a pair whose bottleneck moves from one of its links to the other gets a new place on
//! the scale. A line that is next has its pairs searched for the one that is due: 64 of them take
//! about 20 ns.
//!
//! Filling is only done where the rates of before do not hold any more (`allotment`).
//!
//! Links between switches, *trunks*, are a third side. They have no pairs of their own, since the
//! trunks of a pair follow from its two lines (`trunks`): how they are filled is apart
//! (`by_trunk`), and so is which pairs are attached to them (`on_trunks`).
//!
//! # Invariants
//! - A pair is attached to exactly one of its links and its rate per flow is the level there.
//! - A pair with a link that has no capacity is attached where the level is 0.
//! - Flows with a cap of their own are kept apart, with rates of their own; they are expected to be
//!   few.
//!
//! # Cost
//! Nothing where no link of the group is given something else. Else values are gone through in
//! blocks of 64 lines (`side`): a few instructions for every four lines where no rate changes; a
//! fill comes to about three rounds, each a look at all lines of both sides and a few word
//! operations for each line that is frozen. A completion: one search.
//!
//! With trunks every one that is a bottleneck is a round of its own, which takes the flows of the
//! hosts of a rack together; on a tree of 150 hosts whose racks are oversubscribed four times, a
//! run comes to four to nine times what it does on one switch.
//!
//! On the Facebook trace under weighted classes that is 4.3 fills for each of 116,600 events: every
//! class is tried once and served, and each group of it that comes behind a change is given
//! something else.
//!
//! # Rejected
//! A heap of due pairs for each line (moves to and fro leave outdated entries behind, and a push
//! costs as much as the search); a heap of links by level (each freeze changes the keys of all
//! columns); rates per flow (touching every flow at every event costs 30 times the filling on the
//! Facebook trace); lists of neighbours in place of bit sets (every pair is then visited from both
//! sides); finding again only the levels of lines that changed, and then of those that this changed
//! (spares half of the fillings, but the cheap half: no gain except for `fair`); estimating again,
//! in a round, only lines of which something was taken (that is nearly all of them); not settling a
//! group that is given something else and keeps its rates (5 to 8 % under weighted classes, for
//! times of completion that are rounded otherwise).

mod allotment;
mod by_trunk;
mod filling;
mod milestones;
mod on_trunks;
mod residual;
mod side;

use std::sync::Arc;

use super::trunks::Trunks;
use crate::bits::set;
use crate::fill::NONE;
use crate::progress::pairing::{self, Node, Queued};
use allotment::Allotment;
use on_trunks::OnTrunks;

pub(crate) use filling::Scratch;
pub(crate) use residual::{Block, Residual, blocks, blocks_mut};
use residual::{Eight, eights};
use side::Side;

/// The sides of a group: where flows enter, where they leave, and links between switches.
pub(crate) const ROWS: usize = 0;
pub(crate) const COLUMNS: usize = 1;
pub(crate) const TRUNKS: usize = 2;

/// All of them.
const SIDES: [usize; 3] = [ROWS, COLUMNS, TRUNKS];

/// The allotment that flows are served by; others are trials.
pub(crate) const SERVICE: usize = 0;

/// One flow, as long as it is in some group.
#[derive(Clone, Debug)]
pub(crate) struct Flow {
    /// Its row and column in the group.
    lines: [u32; 2],
    /// Its place among the flows of its pair.
    node: Node,
    /// Its index among the capped flows; [`NONE`] if it has no cap.
    capped: u32,
    /// The service of its pair at which it has sent everything; outside of groups, what it has to
    /// send.
    pub(crate) end: f64,
    /// Remaining bytes at its next milestone: 0 for its end, more for a watched amount before.
    pub(crate) milestone: f64,
    /// The group that it is in.
    pub(crate) group: u32,
    pub(crate) account: u32,
    /// Its index in its account's list.
    pub(crate) in_account: u32,
    /// True if it has its account's key rather than one of its own.
    pub(crate) at_home: bool,
}

impl Flow {
    pub(crate) fn absent() -> Self {
        Self {
            lines: [NONE; 2],
            node: Node::ALONE,
            capped: NONE,
            end: 0.0,
            milestone: 0.0,
            group: NONE,
            account: NONE,
            in_account: NONE,
            at_home: true,
        }
    }
}

impl Queued for Flow {
    fn node(&mut self) -> &mut Node {
        &mut self.node
    }

    fn links(&self) -> Node {
        self.node
    }

    /// The service of its pair at its next milestone.
    #[inline]
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

/// Flows between the same two lines.
#[derive(Clone, Copy, Debug)]
struct Pair {
    /// The first flow to reach a milestone: the head of the heap of all ([`pairing`]).
    head: u32,
    /// The service of the line it is attached to, less the service of the pair.
    offset: f64,
}

const NO_PAIR: Pair = Pair { head: NONE, offset: 0.0 };

/// The use of one ingress link by a group.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RowUse {
    /// If all flows that enter there are of one account: a number for as long as that lasts.
    pub(crate) tenancy: Option<u32>,
    /// The bytes sent there by all flows since the group began or was rebased, and how many of them
    /// are settled.
    pub(crate) sent: f64,
    pub(crate) settled: f64,
    /// The rate of all of them.
    pub(crate) rate: f64,
}

/// Flows that share max-min fairly what higher groups left.
#[derive(Debug)]
pub(crate) struct Group {
    trunks: Arc<Trunks>,
    sides: [Side; 3],
    /// By list of row, then by column.
    pairs: Vec<Pair>,
    /// Of those, the ones attached to trunks.
    on_trunks: OnTrunks,
    /// Flows without caps that are not the first of their pair.
    surplus: usize,
    capped: Vec<Capped>,
    flow_count: usize,
    /// The links on which the group has flows, as bits, by side.
    links: [Vec<u64>; 3],
    /// The allotment that serves the group, then its trials.
    allotments: Vec<Allotment>,
    /// Time at which service was last settled.
    since: f64,
    /// A buffer: how long until a line's first milestone.
    waits: Vec<f64>,
    /// Time at which the first flow reaches its milestone.
    pub(crate) next: f64,
    /// Bytes per nanosecond of all flows together.
    pub(crate) rate: f64,
}

impl Group {
    /// An empty group on so many links, ports' first, with so many allotments.
    pub(crate) fn new(links: usize, trunks: &Arc<Trunks>, allotments: usize) -> Self {
        let [rows, columns, between] = trunks.blocks();
        let blocks = trunks.blocks().map(|words| words.len());
        Self {
            trunks: Arc::clone(trunks),
            sides: [
                Side::new(rows, blocks[COLUMNS]),
                Side::new(columns, blocks[ROWS]),
                Side::new(between, 0),
            ],
            pairs: Vec::new(),
            on_trunks: OnTrunks::default(),
            surplus: 0,
            capped: Vec::new(),
            flow_count: 0,
            links: SIDES.map(|_| vec![0; links.div_ceil(64)]),
            allotments: (0..allotments).map(|_| Allotment::new(blocks)).collect(),
            since: 0.0,
            waits: Vec::new(),
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

    /// Returns whether any flow has a cap.
    pub(crate) fn has_caps(&self) -> bool {
        !self.capped.is_empty()
    }

    /// The links on which the group has flows, as bits, by side.
    pub(crate) fn links(&self) -> &[Vec<u64>; 3] {
        &self.links
    }

    /// The links that the group used when it was last served, as the allotment `which`.
    pub(crate) fn links_used(&self, which: usize) -> impl Iterator<Item = u32> {
        self.allotments[which].links_used(&self.sides)
    }

    /// Adds what the group is served at on each link.
    pub(crate) fn add_use(&self, use_of_link: &mut [f64]) {
        for (side, used) in self.sides.iter().zip(&self.allotments[SERVICE].used) {
            let links = use_of_link[side.link(0) as usize..].iter_mut();
            links.zip(used).for_each(|(of_link, used)| *of_link += used);
        }
    }

    /// Notes that the group stands elsewhere in the order.
    pub(crate) fn moved(&mut self) {
        self.allotments.iter_mut().for_each(|allotment| allotment.moved = true);
    }

    /// Takes what the group used last time out of `residual`.
    pub(crate) fn pass(&self, residual: &mut Residual) {
        self.allotments[SERVICE].take_from(&self.sides, residual);
    }

    fn outdate(&mut self) {
        self.allotments.iter_mut().for_each(|allotment| allotment.outdated = true);
    }

    /// The line of a link on a side, which from now on has a list.
    #[inline]
    fn line(&mut self, link: u32, side: usize) -> u32 {
        let line = self.sides[side].line(link);
        self.sides[side].begin_list(line);
        let rows = &self.sides[ROWS];
        self.pairs.resize(rows.listed.len() * 64 * rows.words, NO_PAIR);
        if self.has_trunks() {
            self.on_trunks.reserve(self.pairs.len(), &self.trunks);
        }
        line
    }

    /// The places of a pair in the tables of its two lines. What stands in `pairs` goes by that of
    /// the row.
    #[inline]
    fn places(&self, [row, column]: [u32; 2]) -> [u32; 2] {
        [self.sides[ROWS].place(row, column), self.sides[COLUMNS].place(column, row)]
    }

    /// The line that a pair is attached to, and the side of that.
    #[inline]
    fn bottleneck(&self, lines: [u32; 2], places: [u32; 2]) -> (usize, u32) {
        if self.sides[ROWS].is_attached(places[ROWS]) {
            return (ROWS, lines[ROWS]);
        }
        let trunk = self.on_trunks.trunk(places[ROWS]);
        trunk.map_or((COLUMNS, lines[COLUMNS]), |trunk| (TRUNKS, trunk))
    }

    /// Returns whether there are links between switches.
    #[inline]
    fn has_trunks(&self) -> bool {
        !self.trunks.is_none()
    }

    /// Returns the service of one flow attached to a line.
    #[inline]
    fn served_at(&self, side: usize, line: u32, now: f64) -> f64 {
        let side = &self.sides[side];
        side.served[line as usize] + side.level[line as usize] * (now - self.since)
    }

    /// Returns the service of one flow of a pair.
    #[inline]
    fn pair_served(&self, lines: [u32; 2], places: [u32; 2], now: f64) -> f64 {
        let (side, line) = self.bottleneck(lines, places);
        self.served_at(side, line, now) - self.pairs[places[ROWS] as usize].offset
    }

    /// Adds `flow` with `bytes` to send. [`Group::serve`] gives it a rate.
    pub(crate) fn add(&mut self, flows: &mut [Flow], flow: u32, links: [u32; 2], bytes: f64, now: f64) {
        self.outdate();
        self.put(flows, flow, links, bytes, now);
    }

    /// Adds flows that were in no group: what each has to send is its `end`.
    pub(crate) fn add_all(&mut self, flows: &mut [Flow], added: &[u32], links: &[[u32; 2]], now: f64) {
        self.outdate();
        for &flow in added {
            self.put(flows, flow, links[flow as usize], flows[flow as usize].end, now);
        }
    }

    #[inline]
    fn put(&mut self, flows: &mut [Flow], flow: u32, links: [u32; 2], bytes: f64, now: f64) {
        let lines = [self.line(links[0], ROWS), self.line(links[1], COLUMNS)];
        self.flow_count += 1;
        if self.has_trunks() {
            self.count_across(lines, 1.0);
        } else {
            self.allotments.iter_mut().for_each(|allotment| allotment.count_flow(lines, 1.0));
        }
        flows[flow as usize].lines = lines;
        flows[flow as usize].capped = NONE;
        let (rows, row) = (&mut self.sides[ROWS], lines[ROWS] as usize);
        let account = flows[flow as usize].account;
        if rows.flows[row] == 0 || rows.tenant[row] != account {
            rows.tenant[row] = if rows.flows[row] == 0 { account } else { NONE };
            rows.tenancy[row] += 1;
        }
        for side in [ROWS, COLUMNS] {
            self.sides[side].add_flow(lines[side]);
            set(&mut self.links[side], links[side], true);
        }
        self.join_pair(flows, flow, bytes, now);
    }

    /// Takes flows out; what each has still to send becomes its `end`.
    pub(crate) fn remove_all(&mut self, flows: &mut [Flow], removed: &[u32], now: f64) {
        for &flow in removed {
            flows[flow as usize].end = self.remove(flows, flow, now);
        }
    }

    /// Takes `flow` out and returns the bytes that it has still to send.
    #[inline]
    pub(crate) fn remove(&mut self, flows: &mut [Flow], flow: u32, now: f64) -> f64 {
        let bytes = self.remaining(flows, flow, now);
        let Flow { lines, capped, .. } = flows[flow as usize];
        self.flow_count -= 1;
        if self.has_trunks() {
            self.count_across(lines, -1.0);
        } else {
            self.allotments.iter_mut().for_each(|allotment| allotment.count_flow(lines, -1.0));
        }
        for side in [ROWS, COLUMNS] {
            self.leave_line(side, lines[side]);
        }
        if !self.capped.is_empty() {
            self.outdate();
        }
        match capped {
            NONE => {
                self.leave_pair(flows, flow);
                for allotment in &mut self.allotments {
                    allotment.flow_left(lines, &self.trunks, &self.sides);
                }
            }
            at => self.leave_capped(flows, at),
        }
        bytes
    }

    /// Counts a flow that comes (1) or goes (-1), and notes it on the trunks that it crosses.
    #[inline(never)]
    fn count_across(&mut self, lines: [u32; 2], by: f64) {
        let crossed = self.trunks.between(lines);
        self.allotments.iter_mut().for_each(|allotment| allotment.count_flow_across(lines, &crossed, by));
        for &trunk in &*crossed {
            if by > 0.0 {
                self.sides[TRUNKS].add_flow(trunk);
                set(&mut self.links[TRUNKS], self.sides[TRUNKS].link(trunk), true);
            } else {
                self.leave_line(TRUNKS, trunk);
            }
        }
    }

    /// Notes that a flow of a line went.
    #[inline]
    fn leave_line(&mut self, side: usize, line: u32) {
        let lines_of = &mut self.sides[side];
        if !lines_of.remove_flow(line) {
            set(&mut self.links[side], lines_of.link(line), false);
        }
    }

    #[inline]
    fn join_pair(&mut self, flows: &mut [Flow], flow: u32, bytes: f64, now: f64) {
        let lines = flows[flow as usize].lines;
        let places = self.places(lines);
        if self.pairs[places[ROWS] as usize].head == NONE {
            self.begin_pair(&mut flows[flow as usize], flow, places, bytes, now);
            return;
        }
        self.sides.iter_mut().zip(places).for_each(|(side, place)| side.add_surplus(place));
        self.surplus += 1;
        flows[flow as usize].end = self.pair_served(lines, places, now) + bytes;
        self.insert_by_due(flows, flow);
    }

    /// Begins a pair with one flow, attached to its row.
    #[inline]
    fn begin_pair(&mut self, record: &mut Flow, flow: u32, places: [u32; 2], bytes: f64, now: f64) {
        let row = record.lines[ROWS];
        let offset = self.served_at(ROWS, row, now);
        record.end = bytes;
        record.node = Node::ALONE;
        self.pairs[places[ROWS] as usize] = Pair { head: flow, offset };
        self.sides.iter_mut().zip(places).for_each(|(side, place)| side.set_partner(place, true));
        self.sides[ROWS].attach(row, places[ROWS], offset + record.due());
    }

    #[inline]
    fn leave_pair(&mut self, flows: &mut [Flow], flow: u32) {
        let places = self.places(flows[flow as usize].lines);
        let pair = &mut self.pairs[places[ROWS] as usize];
        let is_last = pair.head == flow && flows[flow as usize].node.is_leaf();
        if !is_last {
            self.unlink(flows, flow);
            self.sides.iter_mut().zip(places).for_each(|(side, place)| side.remove_surplus(place));
            self.surplus -= 1;
            return;
        }
        pair.head = NONE;
        let lines = flows[flow as usize].lines;
        let (side, line) = self.bottleneck(lines, places);
        self.detach((side, line), lines, places);
        self.sides.iter_mut().zip(places).for_each(|(side, place)| side.set_partner(place, false));
    }

    /// Puts `flow` in its place among the flows of its pair.
    fn insert_by_due(&mut self, flows: &mut [Flow], flow: u32) {
        let pair = self.places(flows[flow as usize].lines)[ROWS] as usize;
        let head = pairing::insert(flows, self.pairs[pair].head, flow);
        if head == flow {
            self.set_head(flows, head);
        }
    }

    fn unlink(&mut self, flows: &mut [Flow], flow: u32) {
        let pair = self.places(flows[flow as usize].lines)[ROWS] as usize;
        let before = self.pairs[pair].head;
        let head = pairing::remove(flows, before, flow);
        if head == NONE {
            self.pairs[pair].head = NONE;
        } else if head != before {
            self.set_head(flows, head);
        }
    }

    /// Makes a flow the first of its pair.
    fn set_head(&mut self, flows: &[Flow], flow: u32) {
        let Flow { lines, .. } = flows[flow as usize];
        let places = self.places(lines);
        let pair = &mut self.pairs[places[ROWS] as usize];
        pair.head = flow;
        let at = pair.offset + flows[flow as usize].due();
        let (side, line) = self.bottleneck(lines, places);
        self.set_due(side, line, places, at);
    }

    /// Notes when a pair is due at the line that it is attached to.
    #[inline]
    fn set_due(&mut self, side: usize, line: u32, places: [u32; 2], at: f64) {
        if side == TRUNKS {
            self.on_trunks.set_due(places[ROWS], line, at);
            self.sides[TRUNKS].hasten(line, at);
        } else {
            self.sides[side].set_due(line, places[side], at);
        }
    }

    /// Takes a pair off the line that it is attached to. Returns where it was due.
    #[inline(always)]
    fn detach(&mut self, (side, line): (usize, u32), lines: [u32; 2], places: [u32; 2]) -> f64 {
        if side != TRUNKS {
            return self.sides[side].detach(places[side]);
        }
        self.on_trunks.detach(places[ROWS], line, lines, &self.trunks)
    }

    /// Bytes that `flow` has still to send.
    #[inline]
    pub(crate) fn remaining(&self, flows: &[Flow], flow: u32, now: f64) -> f64 {
        let record = &flows[flow as usize];
        match record.capped {
            NONE => (record.end - self.pair_served(record.lines, self.places(record.lines), now)).max(0.0),
            at => self.capped[at as usize].left_at(now),
        }
    }

    /// Bytes that these flows, all of the group, have still to send together.
    pub(crate) fn remaining_of(&self, flows: &[Flow], of: &[u32], now: f64) -> f64 {
        of.iter().map(|&flow| self.remaining(flows, flow, now)).sum()
    }

    /// Returns the use of the link where `flow` enters.
    pub(crate) fn row_of(&self, flows: &[Flow], flow: u32, now: f64) -> RowUse {
        let record = &flows[flow as usize];
        let (rows, row) = (&self.sides[ROWS], record.lines[ROWS] as usize);
        RowUse {
            tenancy: (rows.tenant[row] == record.account).then_some(rows.tenancy[row]),
            sent: rows.sent[row] + rows.used[row] * (now - self.since),
            settled: rows.sent[row],
            rate: rows.used[row],
        }
    }

    /// The rate of `flow` since the last fill.
    #[inline]
    pub(crate) fn rate_of(&self, flows: &[Flow], flow: u32) -> f64 {
        let record = &flows[flow as usize];
        match record.capped {
            NONE => {
                let (side, line) = self.bottleneck(record.lines, self.places(record.lines));
                self.sides[side].level[line as usize]
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
        } else {
            flows[flow as usize].milestone = milestone;
        }
        self.find_next(flows, now);
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

    /// Moves the bottleneck of a pair across one switch to its line on `side`.
    fn attach(&mut self, lines: [u32; 2], side: usize, now: f64) {
        let from = self.served_at(1 - side, lines[1 - side], now);
        let to = self.served_at(side, lines[side], now);
        let places = self.places(lines);
        self.pairs[places[ROWS] as usize].offset += to - from;
        let at = self.sides[1 - side].detach(places[1 - side]);
        self.sides[side].attach(lines[side], places[side], at + (to - from));
    }

    /// Moves the bottleneck of a pair to a line on `side`, from wherever it was.
    fn attach_across(&mut self, lines: [u32; 2], (side, line): (usize, u32), now: f64) {
        let places = self.places(lines);
        let before = self.bottleneck(lines, places);
        let from = self.served_at(before.0, before.1, now);
        let to = self.served_at(side, line, now);
        self.pairs[places[ROWS] as usize].offset += to - from;
        let at = self.detach(before, lines, places) + (to - from);
        if side == TRUNKS {
            self.on_trunks.attach(places[ROWS], line, lines, &self.trunks);
            self.set_due(side, line, places, at);
        } else {
            self.sides[side].attach(line, places[side], at);
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

/// The least of many values, in eight strands so that it takes a fraction of the time.
struct Lowest(Eight);

impl Lowest {
    fn new() -> Self {
        Self([f64::INFINITY; 8])
    }

    #[inline]
    fn take(&mut self, values: &Eight) {
        self.0 = std::array::from_fn(|strand| lower(values[strand], self.0[strand]));
    }

    #[inline]
    fn found(self) -> f64 {
        self.0.into_iter().fold(f64::INFINITY, lower)
    }
}

/// Returns the lower of two values that are numbers.
#[inline]
fn lower(a: f64, b: f64) -> f64 {
    if a < b { a } else { b }
}

/// The least of `values`, in whole blocks.
pub(crate) fn least(values: &[f64]) -> f64 {
    let mut lowest = Lowest::new();
    eights(values).iter().for_each(|values| lowest.take(values));
    lowest.found()
}

/// Returns whether any of the links of any side is in `bits`.
pub(crate) fn intersects(links: &[Vec<u64>; 3], bits: &[u64]) -> bool {
    let [rows, columns, trunks] = links;
    let words = rows.iter().zip(columns).zip(trunks).zip(bits);
    words.into_iter().any(|(((rows, columns), trunks), bits)| (rows | columns | trunks) & bits != 0)
}

/// Returns whether no flow can have a rate while only the links in `open` have capacity.
pub(crate) fn is_shut(links: &[Vec<u64>; 3], open: &[u64]) -> bool {
    let meets = |side: &[u64]| side.iter().zip(open).any(|(side, open)| side & open != 0);
    !(meets(&links[ROWS]) && meets(&links[COLUMNS]))
}

/// All lines of a flow, each with its side.
#[inline]
fn path(lines: [u32; 2], crossed: &[u32]) -> impl Iterator<Item = (usize, u32)> {
    let trunks = crossed.iter().map(|&trunk| (TRUNKS, trunk));
    [(ROWS, lines[ROWS]), (COLUMNS, lines[COLUMNS])].into_iter().chain(trunks)
}
