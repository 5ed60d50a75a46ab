//! Max-min fair rates inside one group of flows, kept up to date as flows come, go, and capacity changes.
//!
//! # The idea
//! Progressive filling raises all flows together; when a link is full its flows stay at the link's *level*. So a flow's
//! rate is the level of one link, its bottleneck, and all flows that have the same bottleneck have the same rate. The
//! group therefore keeps, for each link, the service that one flow bottlenecked there has received so far (`served`, a
//! virtual time), and for each flow only the mark on that scale at which it ends. When levels change nothing
//! is done per flow; only a flow whose bottleneck moves from one of its links to the other gets a new mark.
//!
//! # Filling
//! Links are rows (where flows enter) and columns (where they leave). Every row whose level is at most the lowest
//! column level can be frozen at once: freezing a row at a level below a column's can only raise that column's level,
//! and never touches another row. So filling alternates between the sides in a few rounds, where the textbook freezes
//! one link a round. Each flow is looked at twice, sequentially, in its links' lists.
//!
//! # Invariants
//! - A flow is attached to exactly one of its links (or its own cap) and its rate is the level there.
//! - A link without capacity is *closed*, at level 0; a flow with a closed link is attached where the level is 0. Links
//!   that stay closed are not visited, so a group that waits behind others costs little.
//!
//! # Cost
//! A refill: about 2 ns per flow on open links + 10 ns per link and round. A completion: O(log flows of the link).
//!
//! # Rejected
//! A heap of links by level (each freeze changes the keys of all columns), and rates per flow (touching every flow at
//! every event costs 30 times the filling on the Facebook trace).

use std::collections::BinaryHeap;

use crate::marks::{Mark, tolerance};

/// No slot, group or account.
pub(crate) const NONE: u32 = u32::MAX;

/// In an entry: the flow is attached to the slot that holds the entry.
const ATTACHED: u32 = 1 << 31;
/// In an entry: the flow has a cap of its own.
const CAPPED: u32 = 1 << 30;
const SLOT: u32 = CAPPED - 1;

/// What a flow can be attached to.
const ROW: usize = 0;
const COLUMN: usize = 1;
const CAP: usize = 2;

/// Capacity below this share of a link is rounding, not capacity.
pub(crate) const NEGLIGIBLE: f64 = 1e-9;

/// One flow, as long as it is in some group.
#[derive(Clone, Debug)]
pub(crate) struct Flow {
    /// Its links' slots in the group: row, column.
    slots: [u32; 2],
    /// Where it stands in the entry lists of the two slots.
    positions: [u32; 2],
    /// The slot of its own cap.
    cap: u32,
    /// The slot whose level is its rate.
    at: u32,
    /// The service of a flow at `at` when this flow has sent everything.
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
            slots: [NONE; 2],
            positions: [NONE; 2],
            cap: NONE,
            at: NONE,
            end: 0.0,
            milestone: 0.0,
            group: NONE,
            account: NONE,
            in_account: NONE,
            at_home: true,
        }
    }
}

/// A link within a group, or the cap of one flow.
#[derive(Debug)]
struct Slot {
    /// The link; [`NONE`] for a cap.
    link: u32,
    /// Whether flows enter here.
    is_row: bool,
    /// The cap in bytes per nanosecond, where the slot is one.
    limit: f64,
    /// Bytes per nanosecond of each flow attached here.
    level: f64,
    /// What one flow attached here has been served by `since`.
    served: f64,
    since: f64,
    /// When the first flow attached here reaches its milestone.
    next: f64,
    /// Whether the link had no capacity at the last fill.
    closed: bool,
    /// Of each flow on this link: the slot at its other end, with flags.
    entries: Vec<u32>,
    /// The flows, in the order of `entries`.
    flows: Vec<u32>,
    /// Milestones of the flows attached here; outdated marks are dropped when they come up.
    marks: BinaryHeap<Mark>,
}

impl Slot {
    fn new(link: u32, is_row: bool, now: f64) -> Self {
        Self {
            link,
            is_row,
            limit: f64::INFINITY,
            level: 0.0,
            served: 0.0,
            since: now,
            next: f64::INFINITY,
            closed: false,
            entries: Vec::new(),
            flows: Vec::new(),
            marks: BinaryHeap::new(),
        }
    }

    fn served_at(&self, now: f64) -> f64 {
        self.served + self.level * (now - self.since)
    }
}

/// Flows that share max-min fairly what higher groups left.
#[derive(Debug, Default)]
pub(crate) struct Group {
    slots: Vec<Slot>,
    /// Slots that are caps in use, and those that are not.
    caps: Vec<u32>,
    free_caps: Vec<u32>,
    slot_of_link: Vec<u32>,
    flow_count: usize,
    /// The links on which the group ever had flows, as bits: where they enter, and where they leave.
    rows: Vec<u64>,
    columns: Vec<u64>,
    /// When the first flow reaches its milestone.
    pub(crate) next: f64,
    /// Bytes per nanosecond of all flows together.
    pub(crate) rate: f64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fill {
    Open,
    Closed,
    Frozen,
}

/// Buffers for filling, shared by all groups.
#[derive(Debug, Default)]
pub(crate) struct Scratch {
    capacity: Vec<f64>,
    count: Vec<u32>,
    level: Vec<f64>,
    fill: Vec<Fill>,
    rows: Vec<u32>,
    columns: Vec<u32>,
    caps: Vec<u32>,
    moves: Vec<u32>,
}

impl Group {
    pub(crate) fn new(links: usize) -> Self {
        let words = links.div_ceil(64);
        Self {
            slot_of_link: vec![NONE; links],
            rows: vec![0; words],
            columns: vec![0; words],
            next: f64::INFINITY,
            ..Self::default()
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.flow_count == 0
    }

    pub(crate) fn len(&self) -> usize {
        self.flow_count
    }

    /// Writes `weight` for every link on which the group has flows.
    pub(crate) fn mark_links(&self, links: &mut [f64], weight: f64) {
        for slot in self.slots.iter().filter(|slot| slot.link != NONE && !slot.flows.is_empty()) {
            links[slot.link as usize] = weight;
        }
    }

    /// The cap of `flow`.
    pub(crate) fn cap_of(&self, flows: &[Flow], flow: u32) -> Option<f64> {
        match flows[flow as usize].cap {
            NONE => None,
            cap => Some(self.slots[cap as usize].limit),
        }
    }

    fn slot(&mut self, link: u32, is_row: bool, now: f64) -> u32 {
        let slot = self.slot_of_link[link as usize];
        if slot != NONE {
            return slot;
        }
        let slot = self.slots.len() as u32;
        assert!(slot < SLOT, "a group has fewer than 2^30 links");
        self.slots.push(Slot::new(link, is_row, now));
        self.slot_of_link[link as usize] = slot;
        let side = if is_row { &mut self.rows } else { &mut self.columns };
        side[link as usize / 64] |= 1 << (link % 64);
        slot
    }

    /// Whether every flow is without a rate and must stay so while only the links in `open` have capacity.
    pub(crate) fn stays_idle(&self, open: &[u64]) -> bool {
        let meets = |side: &[u64]| side.iter().zip(open).any(|(side, open)| side & open != 0);
        self.rate == 0.0 && !(meets(&self.rows) && meets(&self.columns))
    }

    /// Adds `flow` with `bytes` to send. The next [`Group::fill`] gives it a rate.
    pub(crate) fn add(&mut self, flows: &mut [Flow], flow: u32, links: [u32; 2], bytes: f64, now: f64) {
        let slots = [self.slot(links[0], true, now), self.slot(links[1], false, now)];
        self.flow_count += 1;
        let record = &mut flows[flow as usize];
        record.slots = slots;
        record.cap = NONE;
        record.at = slots[0];
        for side in 0..2 {
            let slot = &mut self.slots[slots[side] as usize];
            record.positions[side] = slot.entries.len() as u32;
            slot.entries.push(slots[1 - side] | if side == 0 { ATTACHED } else { 0 });
            slot.flows.push(flow);
        }
        let row = &mut self.slots[slots[0] as usize];
        record.end = row.served_at(now) + bytes;
        row.marks.push(Mark { at: record.end - record.milestone, flow });
        // A row that was closed may hold a flow attached to an open column only through the next fill.
        row.closed = false;
        self.slots[slots[1] as usize].closed = false;
    }

    /// Takes `flow` out and returns the bytes that it has still to send.
    pub(crate) fn remove(&mut self, flows: &mut [Flow], flow: u32, now: f64) -> f64 {
        self.set_cap(flows, flow, None, now);
        let bytes = self.remaining(flows, flow, now);
        self.flow_count -= 1;
        for side in 0..2 {
            let record = &flows[flow as usize];
            let (slot, position) = (record.slots[side] as usize, record.positions[side] as usize);
            let slot = &mut self.slots[slot];
            slot.entries.swap_remove(position);
            slot.flows.swap_remove(position);
            if let Some(&moved) = slot.flows.get(position) {
                flows[moved as usize].positions[side] = position as u32;
            }
        }
        flows[flow as usize].at = NONE;
        bytes
    }

    /// Bytes that `flow` has still to send.
    pub(crate) fn remaining(&self, flows: &[Flow], flow: u32, now: f64) -> f64 {
        let record = &flows[flow as usize];
        (record.end - self.slots[record.at as usize].served_at(now)).max(0.0)
    }

    /// The rate of `flow` since the last fill.
    pub(crate) fn rate_of(&self, flows: &[Flow], flow: u32) -> f64 {
        self.slots[flows[flow as usize].at as usize].level
    }

    /// Sets the remaining bytes at which `flow` is next reported.
    pub(crate) fn set_milestone(&mut self, flows: &mut [Flow], flow: u32, milestone: f64, now: f64) {
        let record = &mut flows[flow as usize];
        record.milestone = milestone;
        let at = record.at;
        self.slots[at as usize].marks.push(Mark { at: record.end - milestone, flow });
        self.refresh(flows, at, now);
        self.next = self.next.min(self.slots[at as usize].next);
    }

    /// Sets or lifts a cap in bytes per nanosecond.
    pub(crate) fn set_cap(&mut self, flows: &mut [Flow], flow: u32, cap: Option<f64>, now: f64) {
        let slot = flows[flow as usize].cap;
        match (cap, slot) {
            (None, NONE) => {}
            (None, slot) => {
                if flows[flow as usize].at == slot {
                    self.attach(flows, flow, ROW, now);
                }
                self.flag_capped(flows, flow, false);
                flows[flow as usize].cap = NONE;
                self.caps.retain(|&other| other != slot);
                self.free_caps.push(slot);
            }
            (Some(limit), NONE) => {
                let fresh = Slot { limit, flows: vec![flow], ..Slot::new(NONE, false, now) };
                let slot = match self.free_caps.pop() {
                    Some(slot) => {
                        self.slots[slot as usize] = fresh;
                        slot
                    }
                    None => {
                        self.slots.push(fresh);
                        self.slots.len() as u32 - 1
                    }
                };
                self.caps.push(slot);
                flows[flow as usize].cap = slot;
                self.flag_capped(flows, flow, true);
            }
            (Some(limit), slot) => self.slots[slot as usize].limit = limit,
        }
    }

    fn flag_capped(&mut self, flows: &[Flow], flow: u32, capped: bool) {
        let record = &flows[flow as usize];
        for side in 0..2 {
            let entry =
                &mut self.slots[record.slots[side] as usize].entries[record.positions[side] as usize];
            *entry = if capped { *entry | CAPPED } else { *entry & !CAPPED };
        }
    }

    /// Moves the bottleneck of `flow` to its [`ROW`], [`COLUMN`] or [`CAP`].
    fn attach(&mut self, flows: &mut [Flow], flow: u32, to: usize, now: f64) {
        let record = &mut flows[flow as usize];
        let target = if to == CAP { record.cap } else { record.slots[to] };
        if record.at == target {
            return;
        }
        for side in 0..2 {
            let entry =
                &mut self.slots[record.slots[side] as usize].entries[record.positions[side] as usize];
            *entry = if side == to { *entry | ATTACHED } else { *entry & !ATTACHED };
        }
        let shift = self.slots[target as usize].served_at(now) - self.slots[record.at as usize].served_at(now);
        record.end += shift;
        record.at = target;
        let slot = &mut self.slots[target as usize];
        slot.marks.push(Mark { at: record.end - record.milestone, flow });
        // Flows that move to and fro leave outdated marks behind; dropping them keeps the heap within a factor.
        if slot.marks.len() > 4 * slot.flows.len() + 64 {
            slot.marks.retain(|mark| is_current(&flows[mark.flow as usize], target, mark));
        }
    }

    /// Gives every flow its max-min fair rate on `residual` (capacity left, by link), takes what is used out of it, and
    /// brings milestones up to date. `full` is the capacity of the links when nothing is used.
    pub(crate) fn fill(
        &mut self,
        flows: &mut [Flow],
        residual: &mut [f64],
        full: &[f64],
        now: f64,
        scratch: &mut Scratch,
    ) {
        self.open_links(flows, residual, full, now, scratch);
        if !scratch.rows.is_empty() && !scratch.columns.is_empty() {
            self.freeze_rounds(flows, now, scratch);
        }
        self.rate = 0.0;
        self.next = f64::INFINITY;
        for index in 0..self.slots.len() {
            let slot = &mut self.slots[index];
            if slot.link != NONE {
                let link = slot.link as usize;
                let left = match scratch.fill[index] {
                    Fill::Open if scratch.capacity[index] > NEGLIGIBLE * full[link] => scratch.capacity[index],
                    _ => 0.0,
                };
                if slot.is_row {
                    self.rate += residual[link] - left;
                }
                residual[link] = left;
            }
            if slot.level != scratch.level[index] {
                slot.served = slot.served_at(now);
                slot.since = now;
                slot.level = scratch.level[index];
            }
            self.refresh(flows, index as u32, now);
            self.next = self.next.min(self.slots[index].next);
        }
    }

    /// Finds which links have capacity and how many flows could use each.
    fn open_links(
        &mut self,
        flows: &mut [Flow],
        residual: &[f64],
        full: &[f64],
        now: f64,
        scratch: &mut Scratch,
    ) {
        let size = self.slots.len();
        scratch.capacity.clear();
        scratch.count.clear();
        scratch.fill.clear();
        scratch.level.clear();
        scratch.level.resize(size, 0.0);
        scratch.rows.clear();
        scratch.columns.clear();
        scratch.caps.clear();
        let mut some_closed = false;
        for slot in &self.slots {
            let capacity = if slot.link == NONE { slot.limit } else { residual[slot.link as usize] };
            let open = slot.link == NONE || capacity > NEGLIGIBLE * full[slot.link as usize];
            some_closed |= !open;
            scratch.capacity.push(if open { capacity } else { 0.0 });
            scratch.count.push(slot.entries.len() as u32);
            scratch.fill.push(if open { Fill::Open } else { Fill::Closed });
        }
        if some_closed {
            self.close_links(flows, now, scratch);
        }
        for (index, slot) in self.slots.iter().enumerate() {
            if slot.link != NONE && scratch.fill[index] == Fill::Open && scratch.count[index] > 0 {
                if slot.is_row { scratch.rows.push(index as u32) } else { scratch.columns.push(index as u32) }
            }
        }
        for &cap in &self.caps {
            let record = &flows[self.slots[cap as usize].flows[0] as usize];
            if record.slots.iter().all(|&slot| scratch.fill[slot as usize] == Fill::Open) {
                scratch.caps.push(cap);
            }
        }
        scratch.caps.sort_by(|&a, &b| {
            let (a, b) = (&self.slots[a as usize], &self.slots[b as usize]);
            b.limit.total_cmp(&a.limit).then_with(|| b.flows[0].cmp(&a.flows[0]))
        });
        for (index, slot) in self.slots.iter_mut().enumerate() {
            slot.closed = scratch.fill[index] == Fill::Closed;
        }
    }

    /// Attaches the flows of newly closed links there, and counts what is left on the open ones.
    fn close_links(&mut self, flows: &mut [Flow], now: f64, scratch: &mut Scratch) {
        for index in 0..self.slots.len() {
            if scratch.fill[index] == Fill::Closed && !self.slots[index].closed {
                let to = if self.slots[index].is_row { ROW } else { COLUMN };
                for position in 0..self.slots[index].flows.len() {
                    let flow = self.slots[index].flows[position];
                    self.attach(flows, flow, to, now);
                }
            }
            scratch.count[index] = 0;
        }
        for (index, slot) in self.slots.iter().enumerate() {
            if !slot.is_row || scratch.fill[index] == Fill::Closed {
                continue;
            }
            let mut count = 0;
            for entry in &slot.entries {
                let other = (entry & SLOT) as usize;
                if scratch.fill[other] == Fill::Open {
                    count += 1;
                    scratch.count[other] += 1;
                }
            }
            scratch.count[index] = count;
        }
    }

    /// Freezes links in rounds, lowest levels first, until no flow is left without a rate.
    fn freeze_rounds(&mut self, flows: &mut [Flow], now: f64, scratch: &mut Scratch) {
        let mut rows = std::mem::take(&mut scratch.rows);
        let mut columns = std::mem::take(&mut scratch.columns);
        loop {
            let lowest_row = lowest_level(&mut rows, scratch);
            let lowest_column = lowest_level(&mut columns, scratch);
            let lowest = lowest_row.min(lowest_column);
            if lowest == f64::INFINITY {
                break;
            }
            if let Some(&cap) = scratch.caps.last() {
                let flow = self.slots[cap as usize].flows[0];
                let limit = self.slots[cap as usize].limit;
                let slots = flows[flow as usize].slots;
                if slots.iter().any(|&slot| scratch.fill[slot as usize] != Fill::Open) {
                    scratch.caps.pop();
                    continue;
                }
                if limit <= lowest {
                    scratch.caps.pop();
                    scratch.fill[cap as usize] = Fill::Frozen;
                    scratch.level[cap as usize] = limit;
                    for slot in slots {
                        scratch.capacity[slot as usize] -= limit;
                        scratch.count[slot as usize] -= 1;
                    }
                    self.attach(flows, flow, CAP, now);
                    continue;
                }
            }
            let (side, limit) =
                if lowest_row <= lowest_column { (&rows, lowest_column) } else { (&columns, lowest_row) };
            // With caps waiting, a level may not pass the lowest cap.
            let limit = scratch.caps.last().map_or(limit, |&cap| limit.min(self.slots[cap as usize].limit));
            for &slot in side {
                if scratch.level[slot as usize] <= limit {
                    self.freeze(flows, slot, now, scratch);
                }
            }
        }
        scratch.rows = rows;
        scratch.columns = columns;
    }

    /// Fixes the level of a link and of all flows on it that have no rate yet.
    fn freeze(&mut self, flows: &mut [Flow], index: u32, now: f64, scratch: &mut Scratch) {
        let level = scratch.level[index as usize];
        let to = if self.slots[index as usize].is_row { ROW } else { COLUMN };
        let entries = std::mem::take(&mut self.slots[index as usize].entries);
        let mut moves = std::mem::take(&mut scratch.moves);
        moves.resize(entries.len() + 1, 0);
        let mut moved = 0;
        let some_capped = !self.caps.is_empty();
        // Which of the other ends are open is as good as random, so nothing in this loop branches on it.
        for (position, &entry) in entries.iter().enumerate() {
            let other = (entry & SLOT) as usize;
            let fill = scratch.fill[other];
            let mut open = fill == Fill::Open;
            if some_capped && open && entry & CAPPED != 0 {
                open = !self.is_at_frozen_cap(flows, index, position, scratch);
            }
            let attached = entry & ATTACHED != 0;
            scratch.capacity[other] -= if open { level } else { 0.0 };
            scratch.count[other] -= u32::from(open);
            moves[moved] = position as u32;
            moved += usize::from((open & !attached) | ((fill == Fill::Closed) & attached));
        }
        let slot = &mut self.slots[index as usize];
        slot.entries = entries;
        for &position in &moves[..moved] {
            let slot = &self.slots[index as usize];
            let flow = slot.flows[position as usize];
            let away = slot.entries[position as usize] & ATTACHED != 0;
            self.attach(flows, flow, if away { ROW + COLUMN - to } else { to }, now);
        }
        scratch.moves = moves;
        scratch.capacity[index as usize] = 0.0;
        scratch.fill[index as usize] = Fill::Frozen;
    }

    fn is_at_frozen_cap(&self, flows: &[Flow], index: u32, position: usize, scratch: &Scratch) -> bool {
        let flow = self.slots[index as usize].flows[position];
        scratch.fill[flows[flow as usize].cap as usize] == Fill::Frozen
    }

    /// Finds when the first flow attached to `slot` reaches its milestone.
    fn refresh(&mut self, flows: &[Flow], index: u32, now: f64) {
        let slot = &mut self.slots[index as usize];
        slot.next = f64::INFINITY;
        if slot.level == 0.0 {
            return;
        }
        while let Some(mark) = slot.marks.peek() {
            if is_current(&flows[mark.flow as usize], index, mark) {
                slot.next = (slot.since + (mark.at - slot.served) / slot.level).max(now);
                break;
            }
            slot.marks.pop();
        }
    }

    /// Takes out the marks of all flows that have reached their milestone at `now` and appends the flows to `due`.
    pub(crate) fn take_due(&mut self, flows: &[Flow], now: f64, due: &mut Vec<u32>) {
        for index in 0..self.slots.len() {
            if self.slots[index].next > now + tolerance(now) {
                continue;
            }
            let slot = &mut self.slots[index];
            let served = slot.served_at(now);
            let reached = served + slot.level * tolerance(now) + served * 1e-14;
            while let Some(mark) = slot.marks.peek().copied() {
                let current = is_current(&flows[mark.flow as usize], index as u32, &mark);
                if current && mark.at > reached {
                    break;
                }
                slot.marks.pop();
                // A flow that left and came back within one instant has two equal marks, one behind the other.
                if current && due.last() != Some(&mark.flow) {
                    due.push(mark.flow);
                }
            }
            self.refresh(flows, index as u32, now);
        }
        self.next = self.slots.iter().map(|slot| slot.next).fold(f64::INFINITY, f64::min);
    }
}

/// Whether a mark in the heap of slot `at` still says where its flow's milestone is.
fn is_current(flow: &Flow, at: u32, mark: &Mark) -> bool {
    flow.at == at && flow.end - flow.milestone == mark.at
}

/// Drops from `side` what is frozen or has no flow left, brings the levels of the rest up to date, and returns the
/// lowest.
fn lowest_level(side: &mut Vec<u32>, scratch: &mut Scratch) -> f64 {
    let mut lowest = f64::INFINITY;
    side.retain(|&slot| {
        let slot = slot as usize;
        let count = scratch.count[slot];
        let live = scratch.fill[slot] == Fill::Open && count > 0;
        if live {
            scratch.level[slot] = (scratch.capacity[slot] / f64::from(count)).max(0.0);
            lowest = lowest.min(scratch.level[slot]);
        } else if scratch.fill[slot] == Fill::Open {
            scratch.level[slot] = 0.0;
        }
        live
    });
    lowest
}
