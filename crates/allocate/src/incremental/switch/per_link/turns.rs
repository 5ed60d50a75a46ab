//! Who is in turn where, until every flow has its rate.
//!
//! # Invariants
//! - A link is closed once it has nothing left, and open flows cross open links only.
//! - The members of a link are all of the class that is in turn there, some of which have their rates; `waiting` counts the
//!   others, `ready` those of them that are in turn at both links.
//! - A link that may be settled is queued, or stands in the list `behind` of the lower link that it waits for.

use super::Order;
use crate::progress::service::Service;
use crate::reference::{NEGLIGIBLE, SAME};

/// A link in one run.
#[derive(Clone, Debug, Default)]
struct Link {
    left: f64,
    /// The place in the link's order at which the next class begins.
    next: usize,
    /// In ascending order; none before the place `from` waits for its rate.
    members: Vec<u32>,
    from: usize,
    waiting: u32,
    ready: u32,
    is_closed: bool,
    is_queued: bool,
    is_changed: bool,
    /// Flows across this link that are in turn somewhere.
    touched: Vec<u32>,
    /// Links that are settled at the earliest when this one changes.
    behind: Vec<u32>,
}

impl Link {
    fn level(&self) -> f64 {
        self.left / f64::from(self.waiting)
    }
}

/// A flow in one run.
#[derive(Clone, Copy, Debug, Default)]
struct Turn {
    rate: f64,
    /// The rate that it is served at.
    written: f64,
    links: [u32; 2],
    /// The run in which the rest was written.
    run: u32,
    /// At which of its links it is in turn.
    at: [bool; 2],
    is_decided: bool,
}

impl Turn {
    fn is_ready(self) -> bool {
        self.at == [true; 2]
    }
}

/// One run after the other.
#[derive(Debug)]
pub(super) struct Turns {
    capacity: Vec<f64>,
    run: u32,
    links: Vec<Link>,
    turns: Vec<Turn>,
    queue: Vec<u32>,
    /// Flows with a rate, and those of the run before.
    served: Vec<u32>,
    served_before: Vec<u32>,
    from_rings: Vec<u32>,
    /// True if any flow has ever had a cap.
    pub(super) has_caps: bool,
    /// No link before this one has flows that wait.
    first: usize,
}

impl Turns {
    pub(super) fn new(capacity: Vec<f64>, flows: usize) -> Self {
        Self {
            run: 0,
            links: vec![Link::default(); capacity.len()],
            turns: vec![Turn::default(); flows],
            queue: Vec::new(),
            served: Vec::new(),
            served_before: Vec::new(),
            from_rings: Vec::new(),
            has_caps: false,
            first: 0,
            capacity,
        }
    }

    /// Takes up a new flow.
    pub(super) fn add(&mut self, flow: u32, links: [u32; 2]) {
        self.turns[flow as usize] = Turn { links, ..Turn::default() };
    }

    /// Finds the rates of all flows.
    pub(super) fn run(&mut self, order: Order<'_>, service: &Service) {
        self.run += 1;
        self.first = 0;
        std::mem::swap(&mut self.served, &mut self.served_before);
        self.served.clear();
        self.from_rings.clear();
        for (link, &capacity) in self.links.iter_mut().zip(&self.capacity) {
            (link.left, link.next, link.from, link.waiting, link.ready) = (capacity, 0, 0, 0, 0);
            link.is_closed = false;
            link.members.clear();
            link.touched.clear();
            link.behind.clear();
        }
        let mut run = Run { turns: self, order, service, batch: Vec::new(), changed: Vec::new() };
        (0..order.on_link.len() as u32).for_each(|link| run.open(link));
        loop {
            while let Some(link) = run.turns.queue.pop() {
                run.turns.links[link as usize].is_queued = false;
                run.settle(link);
            }
            let Some(first) = run.first_in_turn() else { break };
            let ring = run.ring(first);
            run.share(&ring);
        }
        run.top_up();
    }

    /// Has a link looked at, if it may be settled, and those that wait for it.
    fn queue(&mut self, link: u32) {
        let record = &mut self.links[link as usize];
        let may_settle = record.waiting > 0 && (record.ready == record.waiting || self.has_caps);
        if may_settle && !std::mem::replace(&mut record.is_queued, true) {
            self.queue.push(link);
        }
        let mut behind = std::mem::take(&mut record.behind);
        for other in behind.drain(..) {
            if !std::mem::replace(&mut self.links[other as usize].is_queued, true) {
                self.queue.push(other);
            }
        }
        self.links[link as usize].behind = behind;
    }

    /// Has flows served at the rates that the last run found, where these have changed.
    pub(super) fn write(&mut self, service: &mut Service, now: f64) {
        for &flow in &self.served_before {
            let turn = &mut self.turns[flow as usize];
            if (turn.run < self.run || turn.rate == 0.0) && turn.written > 0.0 {
                turn.written = 0.0;
                if service.flows[flow as usize].is_present() {
                    service.set_rate(flow, 0.0, now);
                }
            }
        }
        for &flow in &self.served {
            let turn = &mut self.turns[flow as usize];
            if turn.rate != turn.written {
                turn.written = turn.rate;
                service.set_rate(flow, turn.rate, now);
            }
        }
    }
}

/// A run in progress.
struct Run<'a> {
    turns: &'a mut Turns,
    order: Order<'a>,
    service: &'a Service,
    /// Flows and the rates that they are to be given together.
    batch: Vec<(u32, f64)>,
    changed: Vec<u32>,
}

impl Run<'_> {
    fn link(&self, link: u32) -> &Link {
        &self.turns.links[link as usize]
    }

    fn turn(&self, flow: u32) -> Turn {
        let turn = self.turns.turns[flow as usize];
        if turn.run == self.turns.run {
            turn
        } else {
            let Turn { written, links, .. } = turn;
            Turn { run: self.turns.run, written, links, ..Turn::default() }
        }
    }

    fn links_of(&self, flow: u32) -> [u32; 2] {
        self.turns.turns[flow as usize].links
    }

    fn cap(&self, flow: u32) -> f64 {
        if self.turns.has_caps { self.service.flows[flow as usize].cap } else { f64::INFINITY }
    }

    /// Has the next class of a link in turn, if none is.
    fn open(&mut self, link: u32) {
        let order = self.order;
        while !self.link(link).is_closed && self.link(link).waiting == 0 {
            let class = order.class(link, self.link(link).next);
            if class.is_empty() {
                return;
            }
            let record = &mut self.turns.links[link as usize];
            record.next += class.len();
            record.members.clear();
            record.from = 0;
            for &account in class {
                for &flow in &order.accounts[account as usize].flows {
                    self.enter(flow, link);
                }
            }
            if class.len() > 1 {
                // In runs, which a stable sort merges.
                self.turns.links[link as usize].members.sort();
            }
            self.turns.queue(link);
        }
    }

    /// Notes that a flow is in turn at a link, if it can be sent at all.
    fn enter(&mut self, flow: u32, link: u32) {
        let mut turn = self.turn(flow);
        let links = turn.links;
        if turn.is_decided || self.cap(flow) <= 0.0 || links.iter().any(|&link| self.link(link).is_closed) {
            return;
        }
        if turn.at == [false; 2] {
            links.iter().for_each(|&link| self.turns.links[link as usize].touched.push(flow));
        }
        turn.at[usize::from(links[0] != link)] = true;
        self.turns.turns[flow as usize] = turn;
        let record = &mut self.turns.links[link as usize];
        record.members.push(flow);
        record.waiting += 1;
        if turn.is_ready() {
            for link in links {
                self.turns.links[link as usize].ready += 1;
                self.turns.queue(link);
            }
        }
    }

    /// Gives the flows of the batch their rates, and what follows from that.
    fn decide(&mut self) {
        let mut batch = std::mem::take(&mut self.batch);
        for (flow, rate) in batch.drain(..) {
            self.give(flow, rate);
        }
        self.batch = batch;
        while let Some(link) = self.changed.pop() {
            let record = &mut self.turns.links[link as usize];
            record.is_changed = false;
            if !record.is_closed && record.left <= NEGLIGIBLE * self.turns.capacity[link as usize] {
                record.is_closed = true;
                let touched = std::mem::take(&mut record.touched);
                for &flow in &touched {
                    if !self.turn(flow).is_decided {
                        self.give(flow, 0.0);
                    }
                }
                self.turns.links[link as usize].touched = touched;
            }
            self.open(link);
            self.turns.queue(link);
        }
    }

    fn give(&mut self, flow: u32, rate: f64) {
        let turn = &mut self.turns.turns[flow as usize];
        assert!(!turn.is_decided && turn.run == self.turns.run, "a flow gets one rate in a run");
        (turn.rate, turn.is_decided) = (rate, true);
        let turn = *turn;
        if rate > 0.0 {
            self.turns.served.push(flow);
        }
        for (link, is_in_turn) in turn.links.into_iter().zip(turn.at) {
            let record = &mut self.turns.links[link as usize];
            record.left -= rate;
            record.waiting -= u32::from(is_in_turn);
            record.ready -= u32::from(turn.is_ready());
            if !std::mem::replace(&mut record.is_changed, true) {
                self.changed.push(link);
            }
        }
    }

    /// The level up to which a flow that is in turn everywhere may rise, and the link that has it; none where that is its cap.
    fn lowest(&self, flow: u32) -> (f64, Option<u32>) {
        self.links_of(flow).into_iter().fold((self.cap(flow), None), |(least, at), link| {
            let level = self.link(link).level();
            if level < least * (1.0 - SAME) { (level, Some(link)) } else { (least, at) }
        })
    }

    /// Gives the flows in turn at a link their rates if that link is settled.
    fn settle(&mut self, link: u32) {
        let record = self.link(link);
        let all_ready = record.ready == record.waiting;
        if record.is_closed || record.waiting == 0 || !(all_ready || self.turns.has_caps) {
            return;
        }
        let level = record.level();
        let (mut batch, mut waits_for) = (std::mem::take(&mut self.batch), None);
        for &flow in &self.link(link).members[self.link(link).from..] {
            let turn = self.turn(flow);
            if turn.is_decided || !turn.is_ready() {
                continue;
            }
            match self.lowest(flow) {
                (cap, None) => {
                    (waits_for, batch) = (None, vec![(flow, cap)]);
                    break;
                }
                (least, Some(lower)) if least < level * (1.0 - SAME) => {
                    waits_for = waits_for.or(Some(lower));
                    if !self.turns.has_caps {
                        break;
                    }
                }
                _ if all_ready => batch.push((flow, level)),
                _ => {}
            }
        }
        if let Some(lower) = waits_for {
            batch.clear();
            self.turns.links[lower as usize].behind.push(link);
        }
        self.batch = batch;
        self.decide();
    }

    /// The flows in turn at a link that have no rate yet.
    fn in_turn(&self, link: u32) -> impl Iterator<Item = u32> {
        self.link(link).members[self.link(link).from..]
            .iter()
            .copied()
            .filter(|&flow| !self.turn(flow).is_decided)
    }

    /// The first flow in turn at a link, if any.
    fn first_at(&mut self, link: u32) -> Option<u32> {
        let Link { members, from, .. } = self.link(link);
        let skipped = members[*from..].iter().position(|&flow| !self.turn(flow).is_decided);
        let from = from + skipped.unwrap_or(members.len() - from);
        self.turns.links[link as usize].from = from;
        self.link(link).members.get(from).copied()
    }

    /// The first of the flows in turn at the first link.
    fn first_in_turn(&mut self) -> Option<u32> {
        let links = &self.turns.links;
        self.turns.first += links[self.turns.first..].iter().position(|link| link.waiting > 0)?;
        self.first_at(self.turns.first as u32)
    }

    /// Flows that wait for each other, found by going from a flow to the one that it waits for until one comes again.
    fn ring(&mut self, first: u32) -> Vec<u32> {
        let mut walk = vec![first];
        loop {
            let next = self.waits_for(walk[walk.len() - 1]);
            if let Some(at) = walk.iter().position(|&flow| flow == next) {
                return walk.split_off(at);
            }
            walk.push(next);
        }
    }

    fn waits_for(&mut self, flow: u32) -> u32 {
        let turn = self.turn(flow);
        if let Some(side) = turn.at.iter().position(|is_in_turn| !is_in_turn) {
            return self.first_at(self.links_of(flow)[side]).expect("a class is in turn before another");
        }
        let lowest = self.lowest(flow).1.expect("a flow that rises to its cap waits for no other");
        let level = self.link(lowest).level();
        let is_held = |&flow: &u32| !self.turn(flow).is_ready() || self.lowest(flow).0 < level * (1.0 - SAME);
        self.in_turn(lowest).find(is_held).expect("a link without such a flow is settled")
    }

    /// Shares the lowest link of a ring evenly.
    fn share(&mut self, ring: &[u32]) {
        let ready: Vec<u32> = ring.iter().copied().filter(|&flow| self.turn(flow).is_ready()).collect();
        let ring = if ready.is_empty() { ring } else { &ready };
        let mut joining: Vec<u32> = Vec::new();
        for &flow in ring {
            let turn = self.turn(flow);
            let links = self.links_of(flow).into_iter().zip(turn.at);
            joining.extend(links.filter(|(_, is_in_turn)| !is_in_turn).map(|(link, _)| link));
        }
        let level = |link: u32| {
            let joins = joining.iter().filter(|&&other| other == link).count() as u32;
            self.link(link).left / f64::from(self.link(link).waiting + joins)
        };
        let mut of_ring: Vec<u32> = ring.iter().flat_map(|&flow| self.links_of(flow)).collect();
        of_ring.sort_unstable();
        let (mut lowest, mut share) = (of_ring[0], f64::INFINITY);
        for link in of_ring {
            if level(link) < share * (1.0 - SAME) {
                (lowest, share) = (link, level(link));
            }
        }
        let is_free = |&flow: &u32| {
            let links = self.links_of(flow);
            self.turn(flow).is_ready() && links.iter().all(|&link| level(link) >= share * (1.0 - SAME))
        };
        let of_ring = ring.iter().copied().filter(|&flow| self.links_of(flow).contains(&lowest));
        let others = self.in_turn(lowest).filter(|flow| !ring.contains(flow)).filter(is_free);
        let batch: Vec<(u32, f64)> =
            of_ring.chain(others).map(|flow| (flow, share.min(self.cap(flow)))).collect();
        self.turns.from_rings.extend(batch.iter().map(|&(flow, _)| flow));
        self.batch = batch;
        self.decide();
    }

    fn has_room(&self, flow: u32) -> bool {
        let negligible = |link: u32| NEGLIGIBLE * self.turns.capacity[link as usize];
        self.links_of(flow).into_iter().all(|link| self.link(link).left > negligible(link))
    }

    /// Gives to flows of rings what others could not use.
    fn top_up(&mut self) {
        let key = |&flow: &u32| {
            let keys = self.service.flows[flow as usize].accounts.map(|account| self.order.key(account));
            (keys[0].min(keys[1]), flow)
        };
        let mut from_rings = std::mem::take(&mut self.turns.from_rings);
        from_rings.retain(|&flow| self.has_room(flow));
        from_rings.sort_unstable_by_key(key);
        self.turns.from_rings = from_rings;
        for index in 0..self.turns.from_rings.len() {
            let flow = self.turns.from_rings[index];
            let links = self.links_of(flow).map(|link| link as usize);
            let least = |of: &dyn Fn(usize) -> f64| of(links[0]).min(of(links[1]));
            let rate = self.turns.turns[flow as usize].rate;
            let more = least(&|link| self.turns.links[link].left).min(self.cap(flow) - rate);
            if more > NEGLIGIBLE * least(&|link| self.turns.capacity[link]) {
                self.turns.turns[flow as usize].rate += more;
                links.iter().for_each(|&link| self.turns.links[link].left -= more);
            }
        }
    }
}
