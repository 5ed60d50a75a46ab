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
    members: Vec<u32>,
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
    at_bottlenecks: Vec<u32>,
    /// True if any flow has ever had a cap.
    pub(super) has_caps: bool,
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
            at_bottlenecks: Vec::new(),
            has_caps: false,
            capacity,
        }
    }

    /// Takes up a new flow.
    pub(super) fn add(&mut self, flow: u32, links: [u32; 2]) {
        self.turns[flow as usize] = Turn { links, ..Turn::default() };
    }

    /// Finds the rates of all flows.
    pub(super) fn run(&mut self, order: Order<'_>, service: &Service<2>) {
        self.run += 1;
        std::mem::swap(&mut self.served, &mut self.served_before);
        self.served.clear();
        self.at_bottlenecks.clear();
        for (link, &capacity) in self.links.iter_mut().zip(&self.capacity) {
            (link.left, link.next, link.waiting, link.ready) = (capacity, 0, 0, 0);
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
            if !run.share_bottleneck() {
                break;
            }
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
    pub(super) fn write(&mut self, service: &mut Service<2>, now: f64) {
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
    service: &'a Service<2>,
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
            for &account in class {
                for &flow in &order.accounts[account as usize].flows {
                    self.enter(flow, link);
                }
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
        for &flow in &self.link(link).members {
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

    /// The link with the lowest level, and this level, where a crowd shares what a link has left; none if all crowds are empty.
    fn lowest_link(&self, crowd: impl Fn(&Link) -> u32) -> Option<(usize, f64)> {
        let crowds = self.turns.links.iter().map(crowd).enumerate().filter(|&(_, crowd)| crowd > 0);
        crowds.fold(None, |least, (link, crowd)| {
            let level = self.turns.links[link].left / f64::from(crowd);
            match least {
                Some((_, lowest)) if level >= lowest * (1.0 - SAME) => least,
                _ => Some((link, level)),
            }
        })
    }

    /// Gives flows even parts of the lowest link where links contradict each other: those in turn everywhere, or, where none is,
    /// those in turn anywhere. False if no flow waits.
    fn share_bottleneck(&mut self) -> bool {
        let of_ready = self.lowest_link(|link| if link.ready > 0 { link.waiting } else { 0 });
        let waits = |&flow: &u32| !self.turn(flow).is_decided;
        let of_touched =
            || self.lowest_link(|link| link.touched.iter().filter(|&flow| waits(flow)).count() as u32);
        let Some((lowest, level)) = of_ready.or_else(of_touched) else { return false };
        let link = &self.turns.links[lowest];
        let candidates = if of_ready.is_some() { &link.members } else { &link.touched };
        let is_served = |flow: &u32| waits(flow) && (of_ready.is_none() || self.turn(*flow).is_ready());
        let served = candidates.iter().copied().filter(is_served);
        self.batch = served.map(|flow| (flow, level.min(self.cap(flow)))).collect();
        self.turns.at_bottlenecks.extend(self.batch.iter().map(|&(flow, _)| flow));
        self.decide();
        true
    }

    fn has_room(&self, flow: u32) -> bool {
        let negligible = |link: u32| NEGLIGIBLE * self.turns.capacity[link as usize];
        self.links_of(flow).into_iter().all(|link| self.link(link).left > negligible(link))
    }

    /// Gives to flows served at bottlenecks what others could not use.
    fn top_up(&mut self) {
        let key = |&flow: &u32| {
            let keys = self.service.flows[flow as usize].accounts.map(|account| self.order.key(account));
            (keys[0].min(keys[1]), flow)
        };
        let mut at_bottlenecks = std::mem::take(&mut self.turns.at_bottlenecks);
        at_bottlenecks.retain(|&flow| self.has_room(flow));
        at_bottlenecks.sort_unstable_by_key(key);
        self.turns.at_bottlenecks = at_bottlenecks;
        for index in 0..self.turns.at_bottlenecks.len() {
            let flow = self.turns.at_bottlenecks[index];
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
