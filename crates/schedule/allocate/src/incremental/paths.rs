//! Max-min rates over paths of any number of links, by class, kept up to date where something
//! changed.
//!
//! # The problem
//! On a tree or fat-tree a flow crosses up to six links. The rates wanted are those of strict
//! classes with max-min sharing inside: at every link what a class leaves goes to the next, and a
//! flow gets the least that its links allow. The class is the same at all links of a flow.
//!
//! Links may be split between classes in place of that: see [`lanes`].
//!
//! # The idea
//! The flows of one class at one link form a *cell*. A cell's *level* is what a flow that is held
//! back there gets: the level λ at which the sum of min(λ, what its other links allow) over its
//! flows is the capacity that classes before it left; infinite if that suffices for all. A flow's
//! rate is the least level along its path. Levels for which both hold are the rates wanted, and the
//! only ones: every flow has a link that is full, up to and including its class, and on which no
//! flow of the class has more (the bottleneck condition, Bertsekas and Gallager §6.5.2).
//!
//! So nothing is filled again. A flow that comes or goes makes one cell's level outdated; a new
//! level makes those of other cells of its flows outdated, but only where they are held back or
//! short of capacity. Outdated cells are looked at by class and, inside, lowest level first: what
//! is lower never depends on what is higher, so most cells are looked at once. Any order would end:
//! after all cells were looked at twice, those of the lowest level are right for good, and so on
//! up.
//!
//! Demands that fall to what the bottleneck grants, so that lower classes get the rest (Baraat
//! Algorithm 2), are the same thing: a cell counts each flow at no more than its other links allow.
//!
//! # Service
//! Each flow is *held* by the cell with the least level on its path, and a cell keeps what one flow
//! held there has been served (a virtual time); a flow only knows where on that scale it ends. A
//! new level costs nothing for each flow but a look at its other cells.
//!
//! # Cost
//! A look at a cell: O(flows × hops); an event: one look for each cell whose level changes or may,
//! and one step for each class behind it that still has enough. Nothing depends on the size of the
//! fabric but how far flows lie apart in memory: what an event touches of a cell, a flow or an
//! account is therefore one cache line, or two.
//!
//! # Rejected
//! Progressive filling of the connected component at each event: it grows with the component
//! (SimGrid's collapse on shuffles). Rates for each flow in place of levels: writing every flow at
//! every event.

mod ample;
mod book;
mod cell;
mod lanes;
mod mark;
mod refill;

use crate::fill::{Due, Fill, Key};

use crate::progress::min_tree::MinTree;
use crate::progress::tolerance::TOLERANCE;
use book::{Account, Booked};
use cell::{Cells, Flow, MOST_CELLS, NOWHERE, Route};

/// Max-min inside a class along paths of several links, classes strict.
#[derive(Debug)]
pub struct PathFill {
    cells: Cells,
    routes: Vec<Route>,
    flows: Vec<Flow>,
    accounts: Vec<Account>,
    /// The record of each booked account.
    rates: Vec<Booked>,
    /// Accounts that are booked now.
    booked: usize,
    /// Time at which a flow held by each cell reaches its next milestone.
    ends: MinTree,
    /// Time at which each watched account reaches its amount, where that does not follow from one
    /// flow.
    watches: MinTree,
    /// Cells whose entry in `ends` is outdated, accounts whose entry in `watches` is.
    ends_outdated: Vec<u32>,
    watches_outdated: Vec<u32>,
    refill: refill::Worklist,
    ample: ample::Links,
    lanes: lanes::Lanes,
    /// Flows that no cell holds and that are to be looked at once all changes of the instant are
    /// in.
    loose: Vec<u32>,
    places: Vec<u32>,
}

impl PathFill {
    /// Creates an allocator for links of these capacities (bytes per nanosecond).
    pub fn new(capacity: Vec<f64>) -> Self {
        Self {
            ample: ample::Links::new(&capacity),
            lanes: lanes::Lanes::none(capacity.len()),
            cells: Cells::new(capacity),
            routes: Vec::new(),
            flows: Vec::new(),
            accounts: Vec::new(),
            rates: Vec::new(),
            booked: 0,
            ends: MinTree::new(0),
            watches: MinTree::new(0),
            ends_outdated: Vec::new(),
            watches_outdated: Vec::new(),
            refill: refill::Worklist::default(),
            loose: Vec::new(),
            places: Vec::new(),
        }
    }

    fn bytes_left(&self, flow: u32, now: f64) -> f64 {
        let left = match self.routes[flow as usize].held_by {
            NOWHERE => self.flows[flow as usize].end,
            cell => self.flows[flow as usize].end - self.cells.served_at(cell, now),
        };
        left.max(0.0)
    }

    /// The rate of a flow in bytes per nanosecond.
    fn rate_of(&self, flow: u32) -> f64 {
        match self.routes[flow as usize].held_by {
            NOWHERE => 0.0,
            cell => self.cells.hot[cell as usize].level,
        }
    }

    /// Has no cell hold a flow any more: what it still has to send stands in its `end`.
    fn release(&mut self, flow: u32, now: f64) {
        let held_by = self.routes[flow as usize].held_by;
        if held_by != NOWHERE {
            let rate = self.rate_of(flow);
            self.flows[flow as usize].end = self.bytes_left(flow, now);
            self.routes[flow as usize].held_by = NOWHERE;
            self.cells.hot[held_by as usize].held -= 1;
            self.outdate_end(held_by);
            self.book(flow, -rate, now);
        }
    }

    /// Lets `cell` hold a flow that no cell holds.
    fn hold(&mut self, flow: u32, cell: u32, now: f64) {
        self.routes[flow as usize].held_by = cell;
        self.cells.hot[cell as usize].held += 1;
        self.cells.hot[cell as usize].safe = -1.0;
        let record = &mut self.flows[flow as usize];
        record.end += self.cells.served_at(cell, now);
        let due = record.due();
        self.cells.push_mark(cell, due, flow, &self.routes, &self.flows);
        self.outdate_end(cell);
    }

    fn outdate_end(&mut self, cell: u32) {
        if !std::mem::replace(&mut self.cells.end_outdated[cell as usize], true) {
            self.ends_outdated.push(cell);
        }
    }

    /// Notes that the next milestone of a flow has changed.
    fn remark(&mut self, flow: u32) {
        let cell = self.routes[flow as usize].held_by;
        if cell != NOWHERE {
            let due = self.flows[flow as usize].due();
            self.cells.push_mark(cell, due, flow, &self.routes, &self.flows);
            self.outdate_end(cell);
        }
    }

    /// Puts a flow into the cell for `key` at its `hop`-th link.
    fn enter_cell(&mut self, flow: u32, hop: usize, link: u32, key: Key, now: f64) {
        let lane = self.lane(link, key.class);
        let cell = self.cells.find_or_open(lane, key, now);
        self.routes[flow as usize].cells[hop] = cell;
        self.flows[flow as usize].place[hop] = self.cells.contents[cell as usize].members.len() as u32;
        self.cells.contents[cell as usize].members.push(flow);
        self.stir(cell);
        self.crowd(lane);
    }

    /// Takes a flow, which no cell holds any more and which was sent at `rate`, out of its `hop`-th
    /// cell.
    fn leave_cell(&mut self, flow: u32, hop: usize, rate: f64) {
        let cell = self.routes[flow as usize].cells[hop];
        let lane = self.cells.hot[cell as usize].link;
        self.stir(cell);
        self.routes[flow as usize].cells[hop] = NOWHERE;
        let place = self.flows[flow as usize].place[hop] as usize;
        let members = &mut self.cells.contents[cell as usize].members;
        members.swap_remove(place);
        if let Some(&moved) = members.get(place) {
            let route = &self.routes[moved as usize];
            let hop = route.hop_of(cell);
            self.flows[moved as usize].place[hop] = place as u32;
        }
        if members.is_empty() {
            if let Some(next) = self.cells.close(cell) {
                self.offer(next);
            }
            self.outdate_end(cell);
        } else {
            self.lose(cell, rate);
        }
        self.thin_out(lane);
    }

    /// Puts a flow that no cell holds where it will be looked at: the link that is most likely to
    /// hold it back.
    fn outdate_least(&mut self, flow: u32) {
        let cells = self.routes[flow as usize].cells;
        let least = cells.into_iter().filter(|&cell| cell != NOWHERE && !self.cells.is_cap(cell));
        let least = least.min_by(|&a, &b| self.even_share(a).total_cmp(&self.even_share(b)));
        let least = least.expect("a flow crosses a link");
        self.attend(self.cells.hot[least as usize].link);
        self.outdate(least);
    }

    /// Gives a flow a new key.
    fn change_key(&mut self, flow: u32, key: Key, now: f64) {
        let first = self.routes[flow as usize].cells[0];
        if self.cells.contents[first as usize].key == key {
            return;
        }
        let rate = self.rate_of(flow);
        self.release(flow, now);
        for hop in 0..usize::from(self.flows[flow as usize].hops) {
            let link = self.link_at(flow, hop);
            self.leave_cell(flow, hop, rate);
            self.enter_cell(flow, hop, link, key, now);
        }
        self.loose.push(flow);
    }

    /// After rates have changed: finds when flows end and watched accounts reach their amounts.
    pub(crate) fn time_ends(&mut self, now: f64) {
        while let Some(cell) = self.ends_outdated.pop() {
            self.cells.end_outdated[cell as usize] = false;
            let next = self.cells.next_end(cell, now, &self.routes, &self.flows);
            self.ends.reserve(cell as usize + 1);
            self.ends.set(cell as usize, next);
        }
        self.update_watches(now);
    }

    /// Takes a flow out.
    pub(crate) fn remove(&mut self, flow: u32, now: f64) {
        let rate = self.rate_of(flow);
        self.release(flow, now);
        for hop in 0..MOST_CELLS {
            let cell = self.routes[flow as usize].cells[hop];
            if cell == NOWHERE {
                continue;
            }
            if self.cells.is_cap(cell) {
                self.routes[flow as usize].cells[hop] = NOWHERE;
                self.cells.close_cap(cell);
            } else {
                self.leave_cell(flow, hop, rate);
            }
        }
        self.leave_account(flow, now);
        self.flows[flow as usize].hops = 0;
    }
}

impl Fill for PathFill {
    fn reserve_accounts(&mut self, count: usize) {
        if count > self.accounts.len() {
            self.accounts.resize_with(count, Account::default);
            self.rates.resize(count, Booked::default());
            self.watches.reserve(count);
        }
    }

    fn forget_account(&mut self, account: u32) -> bool {
        self.unwatch_account(account);
        assert!(
            self.accounts[account as usize].flows.is_empty(),
            "an account that is forgotten has no flows"
        );
        self.accounts[account as usize].renew();
        true
    }

    fn add(&mut self, flow: u32, links: &[u32], accounts: &[u32], bytes: f64, now: f64) {
        if flow as usize >= self.flows.len() {
            let count = (flow as usize + 1).max(2 * self.flows.len());
            self.flows.resize(count, Flow::absent());
            self.routes.resize(count, Route::absent());
        }
        self.flows[flow as usize] = Flow { hops: links.len() as u8, end: bytes, ..Flow::absent() };
        self.routes[flow as usize] = Route::absent();
        self.join_account(flow, accounts[0], bytes, now);
        let key = self.accounts[accounts[0] as usize].key;
        for (hop, &link) in links.iter().enumerate() {
            self.enter_cell(flow, hop, link, key, now);
        }
        self.loose.push(flow);
    }

    fn set_account_keys(&mut self, keys: &[(u32, Key)], now: f64) {
        for &(account, key) in keys {
            self.accounts[account as usize].key = key;
            for index in 0..self.accounts[account as usize].flows.len() {
                let flow = self.accounts[account as usize].flows[index];
                self.change_key(flow, key, now);
            }
        }
    }

    fn set_flow_key(&mut self, flow: u32, key: Key, now: f64) {
        if self.flows[flow as usize].hops > 0 {
            self.change_key(flow, key, now);
        }
    }

    fn set_cap(&mut self, flow: u32, cap: Option<f64>, now: f64) {
        if self.flows[flow as usize].hops == 0 {
            return;
        }
        let rate = self.rate_of(flow);
        self.release(flow, now);
        for hop in 0..MOST_CELLS {
            let cell = self.routes[flow as usize].cells[hop];
            if cell != NOWHERE && self.cells.is_cap(cell) {
                self.routes[flow as usize].cells[hop] = NOWHERE;
                self.cells.close_cap(cell);
            } else if cell != NOWHERE {
                self.lose(cell, rate);
            }
        }
        if let Some(cap) = cap {
            let hop = usize::from(self.flows[flow as usize].hops);
            self.routes[flow as usize].cells[hop] = self.cells.open_cap(cap, now);
        }
        self.loose.push(flow);
    }

    fn watch_flow(&mut self, flow: u32, remaining: f64, _now: f64) {
        if self.flows.get(flow as usize).is_some_and(|record| record.hops > 0) {
            self.flows[flow as usize].milestone = remaining;
            self.remark(flow);
        }
    }

    fn watch_account(&mut self, account: u32, bytes: f64, now: f64) {
        self.watch(account, bytes, now);
    }

    fn unwatch_account(&mut self, account: u32) {
        self.unwatch(account);
    }

    fn next(&self) -> f64 {
        self.ends.min().min(self.watches.min())
    }

    fn take_due(&mut self, now: f64, due: &mut Due) {
        let reach = now + TOLERANCE;
        let mut places = std::mem::take(&mut self.places);
        places.clear();
        self.ends.up_to(reach, &mut places);
        for &cell in &places {
            self.outdate_end(cell);
            let served = self.cells.served_at(cell, reach);
            while let Some(flow) = self.cells.pop_due(cell, served, &self.routes, &self.flows) {
                self.reach_milestone(flow, due);
            }
        }
        for &flow in &due.finished {
            self.remove(flow, now);
        }
        // After that, since what ends may be what an account still lacked.
        self.take_due_accounts(reach, &mut places, &mut due.accounts);
        self.places = places;
    }

    fn refill(&mut self, now: f64) {
        self.settle_levels(now);
        self.time_ends(now);
    }

    fn rebase(&mut self, by: f64) {
        self.cells.rebase(by, &self.routes, &mut self.flows);
        self.rebase_accounts(by);
        self.ends.rebase(by);
    }

    fn remaining(&self, flow: u32, now: f64) -> f64 {
        match self.flows.get(flow as usize) {
            Some(record) if record.hops > 0 => self.bytes_left(flow, now),
            _ => 0.0,
        }
    }

    fn attained(&self, account: u32, now: f64) -> f64 {
        let account = &self.accounts[account as usize];
        account.added - account.flows.iter().map(|&flow| self.bytes_left(flow, now)).sum::<f64>()
    }

    fn rate(&self, flow: u32) -> f64 {
        match self.flows.get(flow as usize) {
            Some(record) if record.hops > 0 => self.rate_of(flow),
            _ => 0.0,
        }
    }

    fn visit_flows(&self, account: u32, visit: &mut dyn FnMut(u32)) {
        self.accounts[account as usize].flows.iter().for_each(|&flow| visit(flow));
    }

    fn loads(&self, account: u32, now: f64, visit: &mut dyn FnMut(u32, f64)) {
        let mut loads = std::collections::BTreeMap::new();
        for &flow in &self.accounts[account as usize].flows {
            for hop in 0..usize::from(self.flows[flow as usize].hops) {
                let link = self.link_at(flow, hop);
                *loads.entry(link).or_insert(0.0) += self.bytes_left(flow, now);
            }
        }
        loads.into_iter().for_each(|(link, bytes)| visit(link, bytes));
    }

    fn add_use(&self, use_of_link: &mut [f64]) {
        for (lane, on_lane) in (0..).zip(&self.cells.on_link) {
            let use_of_link = &mut use_of_link[self.link_of(lane) as usize];
            for &(_, cell) in on_lane {
                let rates = self.cells.contents[cell as usize].members.iter().map(|&flow| self.rate_of(flow));
                *use_of_link += rates.sum::<f64>();
            }
        }
    }
}

/// Looks at one cell in one refill after which levels may only fall.
const MOST_LOOKS: u32 = 1000;

/// A level that differs by less than this share of itself is the same.
const SETTLED: f64 = 1e-14;

/// The same where levels may only fall: by so much a link may be overrun then.
const FEASIBLE: f64 = 1e-10;

/// A flow that its other links allow no more than this share above a cell's level is held there,
/// and not by the cell: two cells with the same flows would else hand them to and fro.
const TIE: f64 = 1e-13;

/// By so much a cell's flows may use more than it was given before it is looked at: more than ties
/// come to.
const FULL: f64 = 1e-12;
