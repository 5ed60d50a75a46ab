//! A slot: a clock, and the flows that are served by it.

use super::super::classes::Classes;
use crate::bits::set;
use crate::fill::NONE;

/// The flows of a slot to one link of the other side.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cell {
    pub(super) lane: u32,
    /// The head of the heap of its flows.
    pub(super) head: u32,
    /// What both clocks show when the first of them is due.
    pub(super) end: f64,
    /// The rate beside the slot's, and what it has come to by `since`.
    pub(super) raise: f64,
    pub(super) raised: f64,
    pub(super) since: f64,
}

/// Where a link's n-th serving is kept from run to run.
#[derive(Debug)]
pub(super) struct Slot {
    pub(super) link: usize,
    pub(super) rate: f64,
    /// What its clock shows at `since`.
    pub(super) clock: f64,
    pub(super) since: f64,
    /// The class at the link, and the lanes served in the last run: of first classes at both ends,
    /// and others.
    pub(super) class: u32,
    pub(super) at: [Vec<u64>; 2],
    /// The lanes of its raised cells.
    pub(super) raised_at: Vec<u64>,
    /// By lane: the class at the other end of those others.
    pub(super) far_classes: Vec<u32>,
    /// By lane: the place of its cell; [`NO_CELL`] without one.
    pub(super) place: Vec<u16>,
    pub(super) cells: Vec<Cell>,
    pub(super) ends: Vec<f64>,
    /// The least of `ends`; to be found again where it is stale.
    pub(super) first: f64,
    pub(super) is_stale: bool,
    pub(super) run: u64,
    /// The last run in which a cell was raised.
    pub(super) run_raised: u64,
}

const NO_CELL: u16 = u16::MAX;

impl Slot {
    pub(super) fn new(link: usize, classes: &Classes) -> Self {
        Self {
            link,
            rate: 0.0,
            clock: 0.0,
            since: 0.0,
            class: NONE,
            at: [vec![0; classes.words], vec![0; classes.words]],
            raised_at: vec![0; classes.words],
            far_classes: vec![NONE; classes.lanes],
            place: vec![NO_CELL; classes.lanes],
            cells: Vec::new(),
            ends: Vec::new(),
            first: f64::INFINITY,
            is_stale: false,
            run: 0,
            run_raised: 0,
        }
    }

    pub(super) fn clock_at(&self, now: f64) -> f64 {
        self.clock + self.rate * (now - self.since)
    }

    pub(super) fn set_rate(&mut self, rate: f64, now: f64) {
        if self.rate != rate {
            (self.clock, self.since) = (self.clock_at(now), now);
            self.rate = rate;
        }
    }

    pub(super) fn cell(&self, lane: u32) -> Option<usize> {
        let place = self.place[lane as usize];
        (place != NO_CELL).then_some(place as usize)
    }

    /// What both clocks of a cell show.
    pub(super) fn shows(&self, cell: usize, now: f64) -> f64 {
        self.clock_at(now) + self.cells[cell].raised_at(now)
    }

    /// Notes the flow of a cell that is due first, and when that is.
    pub(super) fn set_head(&mut self, cell: usize, head: u32, end: f64) {
        let record = &mut self.cells[cell];
        let before = std::mem::replace(&mut record.end, end);
        record.head = head;
        if before != end {
            self.note_end(cell);
        }
    }

    /// Notes that the first end of a cell, or what it is raised by, has changed.
    pub(super) fn note_end(&mut self, cell: usize) {
        let Cell { end, raise, raised, .. } = self.cells[cell];
        let end = if raise > 0.0 { f64::INFINITY } else { end - raised };
        let before = std::mem::replace(&mut self.ends[cell], end);
        if end <= self.first {
            self.first = end;
        } else {
            self.is_stale |= before <= self.first;
        }
    }

    pub(super) fn take_out(&mut self, cell: usize) {
        self.is_stale |= self.ends[cell] <= self.first;
        let lane = self.cells[cell].lane;
        self.place[lane as usize] = NO_CELL;
        set(&mut self.raised_at, lane, false);
        self.cells.swap_remove(cell);
        self.ends.swap_remove(cell);
        if let Some(moved) = self.cells.get(cell) {
            self.place[moved.lane as usize] = cell as u16;
        }
    }

    pub(super) fn update_first(&mut self) {
        if std::mem::take(&mut self.is_stale) {
            self.first = self.ends.iter().fold(f64::INFINITY, |a, &b| if b < a { b } else { a });
        }
    }

    /// The time at which the first cell that is not raised is due.
    pub(super) fn due_at(&self) -> f64 {
        if self.rate > 0.0 && self.first < f64::INFINITY {
            self.since + (self.first - self.clock).max(0.0) / self.rate
        } else {
            f64::INFINITY
        }
    }

    /// Takes its raise from a cell.
    pub(super) fn lower(&mut self, lane: u32, now: f64) {
        if let Some(cell) = self.cell(lane) {
            self.set_raise(cell, 0.0, now);
        }
    }

    pub(super) fn set_raise(&mut self, cell: usize, raise: f64, now: f64) {
        let record = &mut self.cells[cell];
        if record.raise != raise {
            (record.raised, record.since) = (record.raised_at(now), now);
            record.raise = raise;
            self.note_end(cell);
        }
    }
}

impl Cell {
    pub(super) fn raised_at(&self, now: f64) -> f64 {
        self.raised + self.raise * (now - self.since)
    }
}
