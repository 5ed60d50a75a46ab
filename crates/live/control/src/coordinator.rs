//! The coordinator: reports in, a policy's decisions out; each agent gets only what concerns it and
//! has changed (Aalo §3, §6.2).
//!
//! # Invariants
//! - All state is soft. It is the sum of agents' reports since their last snapshots; a coordinator
//!   that starts without state requests a snapshot from each agent that reports, and decides by
//!   what it has until then.
//! - What a coflow has sent is the sum of what each agent reports of its part. A snapshot replaces
//!   a part, a duplicate report is ignored, a gap in the numbers of reports makes the part unknown
//!   until a snapshot: no byte counts twice.
//! - The kill switch is where its latest throw put it, and throws are ordered by term, then by
//!   count. Agents keep it as the coordinator has sealed it and report it in snapshots: neither a
//!   restart nor another leader ends it, and no agent can.
//! - Orders hold for a lease. An agent that has been silent for as long obeys no coordinator, and
//!   is forgotten here.
//! - A coordinator that learns of a higher term than its own sends nothing any more
//!   ([`Coordinator::is_deposed`]).
//!
//! # Rounds
//! Reports are handled as they come; a *round* computes gates and writes orders. The first change
//! after a quiet time starts a round at once, further ones wait for the rest of the period.
//!
//! # Cost
//! A report costs its length times O(log n). A round costs one filling over active flows where
//! anything has changed that gates depend on, and a comparison with what was sent to each agent.
//! Between rounds only agents with news are looked at; all of them four times in a lease. The
//! filling of a large round can be computed elsewhere ([`Coordinator::poll_filling`]); reports are
//! handled and signs of life sent meanwhile.
//!
//! # Files
//! `peers`: state of agents. `rounds`: orders. `reports`: reports. `trust`: which reports are
//! accepted; `owners`: for which users; `confirm`: what receivers confirm. `draining`: the kill
//! switch. `status` and `history`: for people.

mod confirm;
mod draining;
mod history;
mod owners;
mod peers;
mod reports;
mod rounds;
mod status;
mod trust;

use std::collections::{BTreeMap, VecDeque};

use cavalcade_harness::PolicyFault;
use cavalcade_model::{BitsPerSec, Bytes, Instant, Nanos, PortId};
use cavalcade_protocol::{CoflowKey, Drain, KillSwitch, Orders, PROTOCOL, Report};

use crate::agent::CLASSES;
use crate::allocation::Filling;
use crate::drains::Drains;
use crate::hosted::{Factory, Hosted};
use crate::patience::stall_on;
use confirm::Confirmations;
use history::History;
pub use history::PastCoflow;
use owners::Owners;
use peers::{Peer, Peers};
pub use status::{CoflowFlow, CoflowStatus};
pub use trust::Notary;
use trust::{REMEMBERED, Unsealed};

/// The configuration of a coordinator.
#[derive(Clone, Copy, Debug)]
pub struct CoordinatorConfig {
    /// Its term: higher than that of any coordinator before it. The time of its start suffices
    /// where there is one at a time; a standby takes its from the lease.
    pub term: u64,
    /// Number of ports of the fabric.
    pub ports: u32,
    /// Rate at which a port can send and receive unless its agent reports another.
    pub line_rate: BitsPerSec,
    /// Δ: how long agents wait between reports, and the coordinator between rounds.
    pub period: Nanos,
    /// Time that orders hold.
    pub lease: Nanos,
    /// Bytes below which an agent need not report a coflow. Safe for `dclas` up to its first
    /// threshold over the ports: if no agent's part reaches that, the coflow is in the first queue,
    /// where agents put it by themselves.
    pub quiet: Bytes,
    /// The time without progress after which a flow that may send no longer holds others; five
    /// periods at least.
    pub stall: Nanos,
    /// Coflows, and as many flows, that one agent may have here; those beyond get no orders.
    pub agent_limit: u32,
    /// The network serves packets by their classes: flows are given classes, and no gate is closed.
    pub by_class: bool,
    /// Decide and send orders, and have agents enforce nothing.
    pub shadow: bool,
    /// Have bytes of other hosts' coflows count only as far as receivers report them as arrived,
    /// and flows hold others only while something arrives.
    pub confirm: bool,
}

impl CoordinatorConfig {
    /// With Aalo's period of 10 ms (§7.1), a lease of ten periods, and all coflows reported.
    pub fn new(term: u64, ports: u32, line_rate: BitsPerSec) -> Self {
        let period = Nanos::from_millis(10);
        Self {
            term,
            ports,
            line_rate,
            period,
            lease: Nanos(10 * period.0),
            quiet: Bytes::ZERO,
            stall: stall_on(line_rate, Nanos::from_millis(500)),
            agent_limit: 2_000_000,
            by_class: false,
            shadow: false,
            confirm: false,
        }
    }
}

/// Counts of events at a coordinator since it started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CoordinatorCounters {
    /// Rounds.
    pub rounds: u64,
    /// Reports that were handled.
    pub reports: u64,
    /// Reports that were duplicate, late, or from another version, and were ignored.
    pub reports_left_out: u64,
    /// Messages of orders.
    pub orders: u64,
    /// New gates: off, open, paced.
    pub decisions: [u64; 3],
    /// Agents that were silent for longer than the lease.
    pub agents_lost: u64,
    /// Parts of coflows that belong to another user.
    pub foreign_parts: u64,
    /// Coflows and flows of agents that had too many.
    pub over_limit: u64,
    /// Parts refused because their coflow was new and its serial stale.
    pub stale_parts: u64,
    /// Flows that were allowed to send and made no progress.
    pub stalled_flows: u64,
    /// Flows that were allowed to send, and of which their receivers reported no arrivals.
    pub unconfirmed_flows: u64,
    /// Reports of bytes that no line could have carried.
    pub excessive_bytes: u64,
    /// Standings that no coordinator has sealed.
    pub forged_standings: u64,
    /// Bytes reported, by the class that their coflow had.
    pub sent_by_class: [u64; CLASSES],
}

/// The coordinator.
#[derive(Debug)]
pub struct Coordinator {
    config: CoordinatorConfig,
    hosted: Hosted,
    peers: Peers,
    /// All peers with pending changes, each once, and maybe some without changes or that are gone.
    with_news: Vec<PortId>,
    /// The time to look over those: not after the first of them is due.
    news_at: Option<Instant>,
    /// The time to look over all peers for silent ones and those due for orders: not after the
    /// first of them is due.
    look_at: Option<Instant>,
    /// Time that the last round took and for how much of that nothing else was done, as the driver
    /// reported, and over how many flows it went.
    round_took: Nanos,
    round_stalled: Nanos,
    round_flows: usize,
    /// Number of flows from which on rounds are filled by the driver.
    deferred_from: usize,
    /// The filling that the driver has still to fetch.
    filling: Option<Filling>,
    /// True until the driver has given it back.
    is_filling: bool,
    /// The agents that have a part of each coflow, and their numbers for it.
    holders: BTreeMap<CoflowKey, BTreeMap<PortId, u32>>,
    owners: Owners,
    confirmations: Confirmations,
    /// The highest term seen.
    term: u64,
    /// The highest number of orders so far. An agent that was forgotten and is back remembers its
    /// own: numbers go on above.
    highest_sent: u64,
    last_round: Option<Instant>,
    /// The latest throw of the kill switch that it knows of.
    switch: Option<KillSwitch>,
    /// The drains of administrators.
    drains: Drains,
    /// The first drain of each coflow that is known and had one, beside that of everything.
    drained: BTreeMap<CoflowKey, Drain>,
    /// Coflows that are over.
    history: History,
    outbox: VecDeque<(PortId, Orders)>,
    /// The notary that seals what agents keep.
    notary: Box<dyn Notary>,
    /// Time of its first call.
    started: Option<Instant>,
    /// The offset of most agents' clocks, in nanoseconds.
    offset: i128,
    /// Coflows that are over, and since when.
    remembered: BTreeMap<CoflowKey, Instant>,
    /// Time of the next check for flows that make no progress.
    stall_at: Option<Instant>,
    /// Peers that a round has something new for, once for each thing.
    touched: Vec<PortId>,
    /// The flows for which the last round changed the decision.
    decided: Vec<(PortId, u32)>,
    /// Agents found to be silent when that was looked for last.
    lost: Vec<PortId>,
    counters: CoordinatorCounters,
}

impl Coordinator {
    /// A coordinator that runs `factory`'s policy, which has to be one of scope fabric.
    pub fn new(config: CoordinatorConfig, factory: Factory) -> Self {
        let stall = config.stall.max(Nanos(5 * config.period.0));
        Self {
            hosted: Hosted::new(factory, config.ports, config.line_rate)
                .with_stall(stall, config.confirm)
                .with_classes(config.by_class),
            peers: Peers::new(config.ports),
            with_news: Vec::new(),
            news_at: None,
            look_at: None,
            round_took: Nanos::ZERO,
            round_stalled: Nanos::ZERO,
            round_flows: 0,
            deferred_from: usize::MAX,
            filling: None,
            is_filling: false,
            holders: BTreeMap::new(),
            owners: Owners::default(),
            confirmations: Confirmations::default(),
            term: config.term,
            highest_sent: 0,
            last_round: None,
            switch: None,
            drains: Drains::default(),
            drained: BTreeMap::new(),
            history: History::default(),
            outbox: VecDeque::new(),
            notary: Box::new(Unsealed),
            started: None,
            offset: 0,
            remembered: BTreeMap::new(),
            stall_at: None,
            touched: Vec::new(),
            decided: Vec::new(),
            lost: Vec::new(),
            counters: CoordinatorCounters::default(),
            config,
        }
    }

    /// With a notary: from now on statements of other coordinators count only if it has sealed
    /// them.
    pub fn with_notary(self, notary: Box<dyn Notary>) -> Self {
        Self { notary, ..self }
    }

    /// The highest term of any coordinator that it knows of.
    pub fn highest_term(&self) -> u64 {
        self.term
    }

    /// Returns whether another coordinator has a higher term. This one sends nothing any more and
    /// can be dropped.
    pub fn is_deposed(&self) -> bool {
        self.term > self.config.term
    }

    /// Returns the number of rounds.
    pub fn rounds(&self) -> u64 {
        self.counters.rounds
    }

    /// Returns the counts of events since it started.
    pub fn counters(&self) -> &CoordinatorCounters {
        &self.counters
    }

    /// Number of ports of the fabric.
    pub fn ports(&self) -> u32 {
        self.config.ports
    }

    /// Its term.
    pub fn term(&self) -> u64 {
        self.config.term
    }

    /// The agents that report, with the time of each one's last report.
    pub fn last_reports(&self) -> impl Iterator<Item = (PortId, Instant)> + '_ {
        self.peers.iter().map(|(port, peer)| (port, peer.heard_at))
    }

    /// Returns how many coflows, and how many flows, an agent may have at most.
    pub fn agent_limit(&self) -> u32 {
        self.config.agent_limit
    }

    /// Returns the most coflows that an agent has, and the most flows.
    pub fn most_of_an_agent(&self) -> (usize, usize) {
        let of = |(_, peer): (PortId, &Peer)| (peer.parts.len(), peer.flows.len());
        self.peers.iter().map(of).fold((0, 0), |most, one| (most.0.max(one.0), most.1.max(one.1)))
    }

    /// Returns the number of agents that report.
    pub fn agents(&self) -> usize {
        self.peers.len()
    }

    /// Handles a report.
    pub fn handle_report(&mut self, now: Instant, report: Report) {
        self.started.get_or_insert(now);
        if report.protocol != PROTOCOL || report.port.0 >= self.config.ports || self.is_deposed() {
            self.counters.reports_left_out += 1;
            return;
        }
        let port = report.port;
        match self.peers.get(port) {
            None => self.admit(now, &report),
            Some(peer) if report.session > peer.session => {
                self.forget(now, port);
                self.admit(now, &report);
            }
            // The past; or an agent whose clock was set back, which is accepted once the former
            // session is forgotten.
            Some(peer) if report.session < peer.session => {
                self.counters.reports_left_out += 1;
                return;
            }
            Some(_) => {}
        }
        let peer = self.peers.get_mut(port).expect("it has just been looked up or inserted");
        if report.sequence <= peer.heard {
            self.counters.reports_left_out += 1;
            return;
        }
        self.counters.reports += 1;
        peer.is_unknown |= !report.snapshot && report.sequence != peer.heard + 1;
        peer.owes_snapshot |= report.resync;
        peer.heard = report.sequence;
        peer.heard_at = now;
        peer.offset = peer.offset.max(offset(now, report.clock));
        peer.up = report.up;
        self.hosted.set_capacity(port, report.up, report.down);
        let is_unknown = peer.is_unknown;
        self.take_arrivals(now, &report);
        if report.snapshot {
            self.take_snapshot(now, &report);
        } else if !is_unknown {
            self.take_changes(now, &report);
        }
        self.receive_standing(&report.standing);
        self.list(port);
    }

    fn admit(&mut self, now: Instant, report: &Report) {
        let peer = Peer::new(report.session, now, self.highest_sent, offset(now, report.clock));
        self.peers.insert(report.port, peer);
        self.look_after(now);
    }

    /// Lists a peer that has pending changes.
    fn list(&mut self, port: PortId) {
        let Some(peer) = self.peers.get_mut(port).filter(|peer| peer.has_news()) else { return };
        if !std::mem::replace(&mut peer.is_listed, true) {
            let due = not_before(peer.sent_at, self.config.period);
            self.news_at = Some(self.news_at.map_or(due, |when| when.min(due)));
            self.with_news.push(port);
        }
    }

    /// Has all peers checked as soon as one that reported or got orders just now can be due.
    fn look_after(&mut self, now: Instant) {
        let due = now.checked_add(Nanos(self.config.lease.0 / 4));
        self.look_at = self.look_at.into_iter().chain(due).min();
    }

    /// Handles the loss of an agent's connection. It may return with the same session; until its
    /// lease expires it obeys.
    pub fn handle_disconnected(&mut self, port: PortId) {
        if let Some(peer) = self.peers.get_mut(port) {
            peer.is_unknown = true;
            peer.owes_snapshot = true;
            self.list(port);
        }
    }

    /// Runs due timers.
    pub fn handle_timeout(&mut self, now: Instant) {
        if self.is_deposed() {
            return;
        }
        let looks = self.look_at.is_some_and(|when| when <= now);
        if looks {
            let lease = self.lease();
            let silent = |peer: &Peer| now.since(peer.heard_at) > lease;
            let gone: Vec<PortId> =
                self.peers.iter().filter(|(_, peer)| silent(peer)).map(|(port, _)| port).collect();
            self.counters.agents_lost += gone.len() as u64;
            self.compare_clocks();
            self.remembered.retain(|_, since| now.since(*since) <= REMEMBERED);
            self.history.forget(now);
            self.forget_drains(now);
            gone.iter().for_each(|&port| self.forget(now, port));
            self.lost = gone;
        }
        self.hosted.wake(now);
        self.look_for_stalled(now);
        if self.round_at().is_some_and(|when| when <= now) {
            self.round(now);
        }
        if self.news_at.is_some_and(|when| when <= now) {
            self.send_news(now);
        }
        if looks {
            let is_due = |(_, peer): &(PortId, &Peer)| self.orders_at(peer).is_some_and(|when| when <= now);
            let due: Vec<PortId> = self.peers.iter().filter(is_due).map(|(port, _)| port).collect();
            due.into_iter().for_each(|port| self.write_orders(now, port));
            let silent = |peer: &Peer| peer.heard_at.checked_add(Nanos(self.config.lease.0 + 1));
            let due = |(_, peer): (PortId, &Peer)| silent(peer).into_iter().chain(self.orders_at(peer)).min();
            self.look_at = self.peers.iter().filter_map(due).min();
        }
    }

    /// Takes the agents that were found to be silent for longer than a lease when that was looked
    /// for last.
    pub fn take_lost(&mut self) -> Vec<PortId> {
        std::mem::take(&mut self.lost)
    }

    /// Finds flows that may send and make no progress.
    fn look_for_stalled(&mut self, now: Instant) {
        if self.stall_at.is_some_and(|when| when > now) || !self.hosted.has_flows() {
            return;
        }
        self.stall_at = now.checked_add(Nanos(self.hosted.stall().0 / 2));
        let stalled = self.hosted.rest_stalled(now);
        self.counters.stalled_flows += stalled.unmoved;
        self.counters.unconfirmed_flows += stalled.unconfirmed;
    }

    /// Writes orders for peers with pending changes whose last orders are long enough ago.
    fn send_news(&mut self, now: Instant) {
        let mut listed = std::mem::take(&mut self.with_news);
        listed.sort_unstable();
        self.news_at = None;
        for port in listed {
            let Some(peer) = self.peers.get_mut(port) else { continue };
            peer.is_listed = false;
            if peer.has_news() && not_before(peer.sent_at, self.config.period) <= now {
                self.write_orders(now, port);
            }
            // Those that are not due yet, or still have to send a snapshot.
            self.list(port);
        }
    }

    /// The policy's error, if it has failed: from then on all flows go as plain TCP.
    pub fn policy_fault(&self) -> Option<&PolicyFault> {
        self.hosted.policy_fault()
    }

    /// Returns the time at which [`Coordinator::handle_timeout`] has something to do.
    pub fn poll_timeout(&self) -> Option<Instant> {
        if self.is_deposed() {
            return None;
        }
        let stall_at = if self.hosted.has_flows() { self.stall_at.or(Some(Instant::ZERO)) } else { None };
        let due = [self.news_at, self.look_at, self.hosted.wake_at(), self.round_at(), stall_at];
        due.into_iter().flatten().min()
    }

    /// Orders that are to be sent.
    pub fn poll_orders(&mut self) -> Option<(PortId, Orders)> {
        if self.is_deposed() {
            self.outbox.clear();
        }
        self.outbox.pop_front()
    }

    /// Returns when orders for a peer are due: changes a period after the last, and else a quarter
    /// of the lease.
    fn orders_at(&self, peer: &Peer) -> Option<Instant> {
        if peer.has_news() {
            return Some(not_before(peer.sent_at, self.config.period));
        }
        peer.sent_at?.checked_add(Nanos(self.config.lease.0 / 4))
    }
}

/// Returns how far an agent's clock is ahead, and no less than that: messages take time.
fn offset(now: Instant, clock: Instant) -> i128 {
    i128::from(clock.0) - i128::from(now.0)
}

/// A pause after `last`, or at once where there was none.
fn not_before(last: Option<Instant>, pause: Nanos) -> Instant {
    last.and_then(|last| last.checked_add(pause)).unwrap_or(Instant::ZERO)
}
