//! Cells: the flows of one class at one link, with their level and what they have been served.
//!
//! What a look at a cell reads of others is kept apart and dense: levels in one array, and of each
//! flow its cells and who holds it in half a cache line.

use std::collections::BinaryHeap;

use cavalcade_model::Path;

use super::mark::Mark;
use crate::fill::Key;
use crate::fill::NONE;
use crate::reference::NEGLIGIBLE;

/// A cell for each link of the longest path, and one for the flow's own cap.
pub(super) const MOST_CELLS: usize = Path::LONGEST + 1;

/// The cell that is none: its level is infinite, so that looking at it changes nothing.
pub(super) const NOWHERE: u32 = 0;

/// The part of a flow that other flows' rates depend on.
#[derive(Clone, Copy, Debug)]
pub(super) struct Route {
    /// Its cell at each link, then its cap if it has one, then [`NOWHERE`].
    pub(super) cells: [u32; MOST_CELLS],
    /// The cell whose level is its rate; [`NOWHERE`] where its rate is not known yet, and zero so
    /// far.
    pub(super) held_by: u32,
}

impl Route {
    pub(super) fn absent() -> Self {
        Self { cells: [NOWHERE; MOST_CELLS], held_by: NOWHERE }
    }

    /// At which hop it has this cell.
    pub(super) fn hop_of(&self, cell: u32) -> usize {
        self.cells.iter().position(|&other| other == cell).expect("a member of a cell has it on its path")
    }
}

/// An account of a flow, and where the flow stands in the list of that.
#[derive(Clone, Copy, Debug)]
pub(super) struct Seat {
    pub(super) account: u32,
    pub(super) place: u32,
}

impl Seat {
    pub(super) const NONE: Self = Self { account: NONE, place: 0 };
}

/// The rest of what is known of a flow: a cache line.
#[derive(Clone, Debug)]
#[repr(align(64))]
pub(super) struct Flow {
    /// The service of its cell at which it has sent everything; while no cell holds it, the bytes
    /// left.
    pub(super) end: f64,
    /// Bytes left at which it is next reported.
    pub(super) milestone: f64,
    /// Bytes left at which the one account that has no other flow reaches its watched amount, and
    /// that account.
    pub(super) solo: f64,
    pub(super) solo_of: u32,
    /// Its account.
    pub(super) seat: Seat,
    /// Its index among the members of each of its cells.
    pub(super) place: [u32; Path::LONGEST],
    /// Links on its path; 0 when it is not in the allocator.
    pub(super) hops: u8,
    /// True if any account that is watched by its rate counts this flow.
    pub(super) booked: bool,
}

impl Flow {
    pub(super) fn absent() -> Self {
        Self {
            end: 0.0,
            milestone: 0.0,
            solo: 0.0,
            solo_of: NONE,
            seat: Seat::NONE,
            place: [0; Path::LONGEST],
            hops: 0,
            booked: false,
        }
    }

    /// Returns the service of its cell at its next milestone.
    pub(super) fn due(&self) -> f64 {
        self.end - self.milestone.max(self.solo)
    }
}

/// The part of a cell that other cells' flows touch: a cache line.
#[derive(Clone, Copy, Debug)]
#[repr(align(64))]
pub(super) struct Hot {
    /// Bytes per nanosecond of each flow held; infinite where all flows have less.
    pub(super) level: f64,
    /// Bytes per nanosecond of all flows; kept where the level is infinite.
    pub(super) used: f64,
    /// The rate that earlier classes left at the last look at the cell.
    pub(super) given: f64,
    /// Its link; [`NONE`] where it is a flow's cap, or out of use.
    pub(super) link: u32,
    /// The cells of the classes before and after at the link, or [`NOWHERE`].
    before: u32,
    next: u32,
    /// The level up to which the flows need not be looked at when it rises: none of their other
    /// links can hold them back. Below zero where one might at any level.
    pub(super) safe: f64,
    /// Number of flows that it holds.
    pub(super) held: u32,
    /// The service of a flow held here, by `since`.
    served: f64,
    since: f64,
}

/// The contents of a cell: another cache line.
#[derive(Clone, Debug, Default)]
#[repr(align(64))]
pub(super) struct Contents {
    pub(super) key: Key,
    pub(super) members: Vec<u32>,
    /// The marks at which its flows come due.
    marks: BinaryHeap<Mark>,
}

/// All cells; a number that is out of use is used again.
#[derive(Debug)]
pub(super) struct Cells {
    pub(super) capacity: Vec<f64>,
    /// The capacity of each link below which what is left is rounding.
    pub(super) negligible: Vec<f64>,
    /// The cells of each link, in order of key.
    pub(super) on_link: Vec<Vec<(Key, u32)>>,
    /// The part that is read and written for every flow of a cell whose level changes.
    pub(super) hot: Vec<Hot>,
    pub(super) contents: Vec<Contents>,
    pub(super) end_outdated: Vec<bool>,
    free: Vec<u32>,
}

const UNUSED: Hot = Hot {
    level: f64::INFINITY,
    used: 0.0,
    given: 0.0,
    link: NONE,
    before: NOWHERE,
    next: NOWHERE,
    safe: -1.0,
    held: 0,
    served: 0.0,
    since: 0.0,
};

impl Cells {
    pub(super) fn new(capacity: Vec<f64>) -> Self {
        let mut cells = Self {
            on_link: vec![Vec::new(); capacity.len()],
            negligible: capacity.iter().map(|of_link| NEGLIGIBLE * of_link).collect(),
            capacity,
            hot: Vec::new(),
            contents: Vec::new(),
            end_outdated: Vec::new(),
            free: Vec::new(),
        };
        let nowhere = cells.open(NONE, Key::default(), 0.0);
        assert!(nowhere == NOWHERE, "the first cell is none");
        cells
    }

    /// Returns the most cells there ever were at once.
    pub(super) fn len(&self) -> usize {
        self.hot.len()
    }

    fn open(&mut self, link: u32, key: Key, now: f64) -> u32 {
        let cell = match self.free.pop() {
            Some(cell) => cell,
            None => {
                self.hot.push(UNUSED);
                self.contents.push(Contents::default());
                self.end_outdated.push(false);
                self.hot.len() as u32 - 1
            }
        };
        let index = cell as usize;
        self.contents[index].key = key;
        self.hot[index] = Hot { link, since: now, ..UNUSED };
        cell
    }

    /// The cell of a class at a link.
    pub(super) fn find_or_open(&mut self, link: u32, key: Key, now: f64) -> u32 {
        let on_link = &self.on_link[link as usize];
        match on_link.binary_search_by_key(&key, |&(other, _)| other) {
            Ok(rank) => on_link[rank].1,
            Err(rank) => {
                let cell = self.open(link, key, now);
                let on_link = &mut self.on_link[link as usize];
                on_link.insert(rank, (key, cell));
                let before = rank.checked_sub(1).map_or(NOWHERE, |before| on_link[before].1);
                let next = on_link.get(rank + 1).map_or(NOWHERE, |&(_, next)| next);
                self.connect(before, cell);
                self.connect(cell, next);
                self.hot[cell as usize].given = self.offered(cell);
                cell
            }
        }
    }

    /// Takes an empty cell out of its link, and returns the one after it.
    pub(super) fn close(&mut self, cell: u32) -> Option<u32> {
        let link = self.hot[cell as usize].link as usize;
        let rank = self.rank(cell);
        self.on_link[link].remove(rank);
        let next = self.after(cell);
        self.connect(self.hot[cell as usize].before, next.unwrap_or(NOWHERE));
        self.retire(cell);
        next
    }

    /// Notes that of two cells of a link one comes right after the other; either may be
    /// [`NOWHERE`].
    fn connect(&mut self, cell: u32, next: u32) {
        if cell != NOWHERE {
            self.hot[cell as usize].next = next;
        }
        if next != NOWHERE {
            self.hot[next as usize].before = cell;
        }
    }

    fn retire(&mut self, cell: u32) {
        self.contents[cell as usize].marks.clear();
        self.hot[cell as usize].level = f64::INFINITY;
        self.hot[cell as usize].link = NONE;
        self.free.push(cell);
    }

    /// A cell that holds one flow at its own cap.
    pub(super) fn open_cap(&mut self, cap: f64, now: f64) -> u32 {
        let cell = self.open(NONE, Key::default(), now);
        self.hot[cell as usize].level = cap;
        cell
    }

    pub(super) fn close_cap(&mut self, cell: u32) {
        self.retire(cell);
    }

    /// Returns whether a cell is a flow's cap rather than a link's.
    pub(super) fn is_cap(&self, cell: u32) -> bool {
        self.hot[cell as usize].link == NONE
    }

    fn rank(&self, cell: u32) -> usize {
        let (link, key) = (self.hot[cell as usize].link, self.contents[cell as usize].key);
        let found = self.on_link[link as usize].binary_search_by_key(&key, |&(other, _)| other);
        found.expect("a cell in use is on its link")
    }

    /// The cell of the next class at the link.
    pub(super) fn after(&self, cell: u32) -> Option<u32> {
        let next = self.hot[cell as usize].next;
        (next != NOWHERE).then_some(next)
    }

    /// Returns what a cell leaves to the next class; what is only rounding counts as nothing.
    pub(super) fn left_by(&self, cell: u32) -> f64 {
        let Hot { level, used, given, link, .. } = self.hot[cell as usize];
        if level < f64::INFINITY {
            return 0.0;
        }
        let left = given - used;
        if left > self.negligible[link as usize] { left } else { 0.0 }
    }

    /// Returns what earlier classes leave to a cell now.
    pub(super) fn offered(&self, cell: u32) -> f64 {
        let Hot { link, before, .. } = self.hot[cell as usize];
        if before == NOWHERE { self.capacity[link as usize] } else { self.left_by(before) }
    }

    /// An even share of what the cell was last given, which its level is never below.
    pub(super) fn share(&self, cell: u32) -> f64 {
        self.hot[cell as usize].given / self.contents[cell as usize].members.len() as f64
    }

    /// Returns the service of a flow held by a cell.
    pub(super) fn served_at(&self, cell: u32, now: f64) -> f64 {
        let Hot { level, served, since, .. } = self.hot[cell as usize];
        let level = if level < f64::INFINITY { level } else { 0.0 };
        served + level * (now - since)
    }

    /// Gives a cell a new level from now on.
    pub(super) fn set_level(&mut self, cell: u32, level: f64, now: f64) {
        let served = self.served_at(cell, now);
        let record = &mut self.hot[cell as usize];
        (record.served, record.since, record.level) = (served, now, level);
    }

    /// Notes where on the scale of its cell a flow comes due, if it ever does.
    pub(super) fn push_mark(&mut self, cell: u32, at: f64, flow: u32, routes: &[Route], flows: &[Flow]) {
        if at == f64::INFINITY {
            return;
        }
        let Contents { members, marks, .. } = &mut self.contents[cell as usize];
        if marks.len() > 2 * members.len() + 32 {
            marks.retain(|mark| is_valid(mark, cell, routes, flows));
        }
        marks.push(Mark { at, what: flow });
    }

    /// Takes out a flow that has come due where a flow held here has been `served` so much.
    pub(super) fn pop_due(
        &mut self,
        cell: u32,
        served: f64,
        routes: &[Route],
        flows: &[Flow],
    ) -> Option<u32> {
        let marks = &mut self.contents[cell as usize].marks;
        while let Some(mark) = marks.peek().filter(|mark| mark.at <= served) {
            let mark = *mark;
            marks.pop();
            if is_valid(&mark, cell, routes, flows) {
                return Some(mark.what);
            }
        }
        None
    }

    /// Moves the origins of time and of service. Marks lie on the scale of service, so they are
    /// made again.
    pub(super) fn rebase(&mut self, by: f64, routes: &[Route], flows: &mut [Flow]) {
        for (cell, contents) in (0..).zip(&mut self.contents) {
            contents.marks.retain(|mark| is_valid(mark, cell, routes, flows));
        }
        for (flow, route) in flows.iter_mut().zip(routes).filter(|(_, route)| route.held_by != NOWHERE) {
            flow.end -= self.hot[route.held_by as usize].served;
        }
        for (hot, contents) in self.hot.iter_mut().zip(&mut self.contents) {
            hot.served = 0.0;
            hot.since -= by;
            let remade =
                contents.marks.drain().map(|Mark { what, .. }| Mark { at: flows[what as usize].due(), what });
            contents.marks = remade.collect::<Vec<_>>().into();
        }
    }

    /// Returns the time at which the next flow held by a cell comes due.
    pub(super) fn next_end(&mut self, cell: u32, now: f64, routes: &[Route], flows: &[Flow]) -> f64 {
        let Hot { level, served, since, .. } = self.hot[cell as usize];
        let marks = &mut self.contents[cell as usize].marks;
        while let Some(mark) = marks.peek() {
            if is_valid(mark, cell, routes, flows) {
                let wait = (mark.at - served) / level;
                return if level > 0.0 { (since + wait).max(now) } else { f64::INFINITY };
            }
            marks.pop();
        }
        f64::INFINITY
    }
}

/// Returns whether a mark still says where a flow comes due.
fn is_valid(mark: &Mark, cell: u32, routes: &[Route], flows: &[Flow]) -> bool {
    routes[mark.what as usize].held_by == cell && flows[mark.what as usize].due() == mark.at
}
