//! Flows served in the virtual time of what serves them, so that a change of rate costs one number
//! and not one for each flow.
//!
//! # The idea
//! The n-th serving of a link in a run is the n-th *slot* of that link. A slot has a clock: the
//! bytes that each of its flows has been sent. A *cell* is its flows to one link of the other side;
//! what its flows get beside the slot's rate has a clock of the cell's own. A flow ends when both
//! clocks together reach its amount, which is fixed when it comes in. From one run to the next
//! nearly all slots serve the cells that they served, so few flows come in and go out.
//!
//! # Invariants
//! - A flow with a rate is in the list of one cell; its `amount` counts from the zero of the
//!   clocks. A flow without a rate is in none; its `amount` is what it has left.
//! - `ends` has for each cell what the slot's clock shows when the first of its flows ends or is to
//!   be reported; infinity for a cell that is *raised*, of which there are few.
//! - No cell is empty.

mod slot;
mod taking_over;

use std::collections::BTreeMap;

use super::classes::Classes;
use crate::fill::NONE;
use crate::progress::pairing::{self, Node, Queued};
use crate::progress::tolerance::TOLERANCE;
use slot::{Cell, Slot};

/// A flow.
#[derive(Clone, Copy, Debug)]
pub(super) struct Flow {
    pub(super) links: [usize; 2],
    /// [`NONE`] while it is not in the allocator.
    pub(super) accounts: [u32; 2],
    amount: f64,
    /// Bytes left at which it is next reported.
    milestone: f64,
    /// The slot that serves it, and its place among the flows of its cell.
    slot: u32,
    node: Node,
}

impl Flow {
    const ABSENT: Self = Self {
        links: [0; 2],
        accounts: [NONE; 2],
        amount: 0.0,
        milestone: 0.0,
        slot: NONE,
        node: Node::ALONE,
    };
}

impl Queued for Flow {
    fn node(&mut self) -> &mut Node {
        &mut self.node
    }

    fn links(&self) -> Node {
        self.node
    }

    /// What both clocks of its cell show when it ends or is to be reported.
    fn due(&self) -> f64 {
        self.amount - self.milestone
    }
}

/// A cell that gets more than its slot's rate, and when it is due.
#[derive(Clone, Copy, Debug)]
struct Raised {
    slot: u32,
    lane: u32,
    due: f64,
}

/// All flows, and what serves them.
#[derive(Debug)]
pub(super) struct Slots {
    pub(super) flows: Vec<Flow>,
    slots: Vec<Slot>,
    /// By link: its slots.
    of_link: Vec<Vec<u32>>,
    /// By serving of the last run: its slot. By that of the run before.
    of_serving: Vec<u32>,
    before: Vec<u32>,
    /// By serving: the lanes that its slot did not serve before.
    gained: Vec<u64>,
    raised: Vec<Raised>,
    /// Flows that have rates of their own: these, and since when.
    alone: BTreeMap<u32, (f64, f64)>,
    /// The flows of a cell, while all are gone through.
    listed: Vec<u32>,
    run: u64,
}

/// In place of the slot of a flow that has a rate of its own.
const ALONE: u32 = NONE - 1;

impl Slots {
    pub(super) fn new(links: usize, flows: usize) -> Self {
        Self {
            flows: vec![Flow::ABSENT; flows],
            slots: Vec::new(),
            of_link: vec![Vec::new(); links],
            of_serving: Vec::new(),
            before: Vec::new(),
            gained: Vec::new(),
            raised: Vec::new(),
            alone: BTreeMap::new(),
            listed: Vec::new(),
            run: 0,
        }
    }

    /// Makes room for flow numbers below `count`.
    pub(super) fn reserve(&mut self, count: usize) {
        self.flows.resize(count.max(self.flows.len()), Flow::ABSENT);
    }

    pub(super) fn add(&mut self, flow: u32, links: [usize; 2], accounts: [u32; 2], bytes: f64) {
        let milestone = 0.0;
        self.flows[flow as usize] =
            Flow { links, accounts, amount: bytes, milestone, slot: NONE, node: Node::ALONE };
    }

    pub(super) fn is_present(&self, flow: u32) -> bool {
        self.flows[flow as usize].accounts[0] != NONE
    }

    pub(super) fn has_rate(&self, flow: u32) -> bool {
        self.flows[flow as usize].slot != NONE
    }

    /// The slot and the cell that serve a flow.
    fn place(&self, flow: u32, classes: &Classes) -> Option<(&Slot, usize)> {
        let record = &self.flows[flow as usize];
        let slot = self.slots.get(record.slot as usize)?;
        Some((slot, slot.cell(lane_of(record, slot, classes)).expect("a flow with a slot is in a cell")))
    }

    pub(super) fn left(&self, flow: u32, classes: &Classes, now: f64) -> f64 {
        let amount = self.flows[flow as usize].amount;
        match self.place(flow, classes) {
            Some((slot, cell)) => (amount - slot.shows(cell, now)).max(0.0),
            None => match self.alone.get(&flow) {
                Some(&(rate, since)) => (amount - rate * (now - since)).max(0.0),
                None => amount,
            },
        }
    }

    /// What a flow has left, and its rate.
    pub(super) fn state(&self, flow: u32, classes: &Classes, now: f64) -> (f64, f64) {
        let amount = self.flows[flow as usize].amount;
        match self.place(flow, classes) {
            Some((slot, cell)) => {
                ((amount - slot.shows(cell, now)).max(0.0), slot.rate + slot.cells[cell].raise)
            }
            None => (self.left(flow, classes, now), self.rate(flow, classes)),
        }
    }

    pub(super) fn rate(&self, flow: u32, classes: &Classes) -> f64 {
        let alone = self.alone.get(&flow).map_or(0.0, |&(rate, _)| rate);
        self.place(flow, classes).map_or(alone, |(slot, cell)| slot.rate + slot.cells[cell].raise)
    }

    pub(super) fn watch(&mut self, flow: u32, milestone: f64, classes: &Classes) {
        if self.is_present(flow) {
            self.set_milestone(flow, milestone, classes);
        }
    }

    /// Gives a flow another milestone, and its cell another end if that follows.
    fn set_milestone(&mut self, flow: u32, milestone: f64, classes: &Classes) {
        let record = &mut self.flows[flow as usize];
        let Some(slot) = self.slots.get_mut(record.slot as usize) else {
            record.milestone = milestone;
            return;
        };
        let cell = slot.cell(lane_of(record, slot, classes)).expect("a flow with a slot is in a cell");
        let head = pairing::remove(&mut self.flows, slot.cells[cell].head, flow);
        self.flows[flow as usize].milestone = milestone;
        let head = pairing::insert(&mut self.flows, head, flow);
        slot.set_head(cell, head, self.flows[head as usize].due());
    }

    /// Puts a flow without a rate into a slot.
    fn insert(&mut self, flow: u32, slot: u32, classes: &Classes, now: f64) {
        let record = &mut self.flows[flow as usize];
        let served_by = &mut self.slots[slot as usize];
        let lane = lane_of(record, served_by, classes);
        let cell = served_by.cell(lane).unwrap_or_else(|| {
            let never = f64::INFINITY;
            let (raise, raised, since) = (0.0, 0.0, now);
            served_by.place[lane as usize] = served_by.cells.len() as u16;
            served_by.cells.push(Cell { lane, head: NONE, end: never, raise, raised, since });
            served_by.ends.push(never);
            served_by.cells.len() - 1
        });
        record.amount += served_by.shows(cell, now);
        record.slot = slot;
        let head = pairing::insert(&mut self.flows, served_by.cells[cell].head, flow);
        served_by.set_head(cell, head, self.flows[head as usize].due());
    }

    /// Takes a flow out of its slot, if it is in one.
    pub(super) fn detach(&mut self, flow: u32, classes: &Classes, now: f64) {
        let left = self.left(flow, classes, now);
        let record = self.flows[flow as usize];
        let Some(slot) = self.slots.get_mut(record.slot as usize) else {
            self.alone.remove(&flow);
            (self.flows[flow as usize].amount, self.flows[flow as usize].slot) = (left, NONE);
            return;
        };
        let cell = slot.cell(lane_of(&record, slot, classes)).expect("a flow with a slot is in a cell");
        let head = pairing::remove(&mut self.flows, slot.cells[cell].head, flow);
        match self.flows.get(head as usize) {
            None => slot.take_out(cell),
            Some(first) => slot.set_head(cell, head, first.due()),
        }
        let record = &mut self.flows[flow as usize];
        (record.amount, record.slot) = (left, NONE);
    }

    /// Takes out a flow that has nothing left.
    pub(super) fn remove(&mut self, flow: u32, classes: &Classes, now: f64) {
        self.detach(flow, classes, now);
        let record = &mut self.flows[flow as usize];
        (record.amount, record.accounts) = (0.0, [NONE; 2]);
    }

    /// Takes all flows of a cell out of their slot.
    fn empty(&mut self, slot: usize, lane: u32, now: f64) {
        let slot = &mut self.slots[slot];
        let Some(cell) = slot.cell(lane) else { return };
        let shows = slot.shows(cell, now);
        self.listed.clear();
        pairing::list(&self.flows, slot.cells[cell].head, |_| true, &mut self.listed);
        for &flow in &self.listed {
            let record = &mut self.flows[flow as usize];
            (record.amount, record.slot) = ((record.amount - shows).max(0.0), NONE);
        }
        slot.take_out(cell);
    }

    /// Returns when the next flow is due.
    pub(super) fn next_due(&mut self, now: f64) -> f64 {
        let mut least = f64::INFINITY;
        for &slot in &self.of_serving {
            let slot = &mut self.slots[slot as usize];
            slot.update_first();
            least = least.min(slot.due_at());
        }
        for raised in &mut self.raised {
            let slot = &self.slots[raised.slot as usize];
            raised.due = slot.cell(raised.lane).map_or(f64::INFINITY, |cell| {
                let missing = (slot.cells[cell].end - slot.shows(cell, now)).max(0.0);
                now + missing / (slot.rate + slot.cells[cell].raise)
            });
            least = least.min(raised.due);
        }
        let of_alone = self.alone.iter().map(|(&flow, &(rate, since))| {
            let record = &self.flows[flow as usize];
            since + record.due().max(0.0) / rate
        });
        of_alone.fold(least, f64::min)
    }

    /// Finds the flows that are due by `now`.
    pub(super) fn find_due(&mut self, now: f64, due: &mut Vec<u32>) {
        let reach = now + TOLERANCE;
        for &slot in &self.of_serving {
            let slot = &self.slots[slot as usize];
            if slot.due_at() <= reach {
                let shows = slot.clock + slot.rate * (reach - slot.since);
                for (cell, _) in slot.cells.iter().zip(&slot.ends).filter(|&(_, &end)| end <= shows) {
                    due_of_cell(&self.flows, cell.head, shows + cell.raised, due);
                }
            }
        }
        for raised in self.raised.iter().filter(|raised| raised.due <= reach) {
            let slot = &self.slots[raised.slot as usize];
            if let Some(cell) = slot.cell(raised.lane) {
                let rate = slot.rate + slot.cells[cell].raise;
                due_of_cell(
                    &self.flows,
                    slot.cells[cell].head,
                    slot.shows(cell, now) + rate * TOLERANCE,
                    due,
                );
            }
        }
        let is_due = |&(&flow, &(rate, since)): &(&u32, &(f64, f64))| {
            let record = &self.flows[flow as usize];
            since + record.due() / rate <= reach
        };
        due.extend(self.alone.iter().filter(is_due).map(|(&flow, _)| flow));
        due.sort_unstable();
    }

    /// Takes the milestone of a flow, if it has one.
    pub(super) fn take_milestone(&mut self, flow: u32, classes: &Classes) -> bool {
        let had = self.flows[flow as usize].milestone > 0.0;
        if had {
            self.set_milestone(flow, 0.0, classes);
        }
        had
    }

    /// Moves the origins of time and of all clocks.
    pub(super) fn rebase(&mut self, by: f64) {
        for slot in &mut self.slots {
            let clock = std::mem::take(&mut slot.clock);
            slot.since -= by;
            for cell in &mut slot.cells {
                let zero = clock + std::mem::take(&mut cell.raised);
                cell.since -= by;
                cell.end -= zero;
                self.listed.clear();
                pairing::list(&self.flows, cell.head, |_| true, &mut self.listed);
                self.listed.iter().for_each(|&flow| self.flows[flow as usize].amount -= zero);
            }
            for (end, cell) in slot.ends.iter_mut().zip(&slot.cells) {
                *end = if cell.raise > 0.0 { f64::INFINITY } else { cell.end };
            }
            slot.is_stale = true;
        }
        self.alone.values_mut().for_each(|(_, since)| *since -= by);
    }
}

/// The lane of a flow in a slot.
fn lane_of(flow: &Flow, slot: &Slot, classes: &Classes) -> u32 {
    classes.lane(flow.links[usize::from(flow.links[0] == slot.link)])
}

/// Those of a cell's flows that are due when its clocks show so much.
fn due_of_cell(flows: &[Flow], head: u32, shows: f64, due: &mut Vec<u32>) {
    pairing::list(flows, head, |flow| flows[flow as usize].due() <= shows, due);
}
