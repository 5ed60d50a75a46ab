//! The coordinator: reports in, a policy's decisions out, each agent told only what concerns it and has changed (Aalo §3, §6.2).
//!
//! # Invariants
//! - All state is soft. It is the sum of what agents have said since their last snapshots; a coordinator that starts
//!   with none asks each agent that it hears of for one, and decides by what it has until then.
//! - What a coflow has sent is the sum of what each agent says of its part. A snapshot replaces a part, a report seen
//!   twice is left out, a gap in the numbers of reports makes the part unknown until a snapshot: no byte counts twice.
//! - Orders hold for a lease. An agent that has not been heard of for as long obeys nobody, and is forgotten here.
//! - A coordinator that learns of a higher term than its own says nothing any more ([`Coordinator::is_deposed`]).
//!
//! # Rounds
//! Reports are taken in as they come; a *round* computes gates and writes orders. The first change after a quiet time makes
//! a round at once, further ones wait for the rest of the period.
//!
//! # Cost
//! A report costs its length times O(log n). A round costs one filling over active flows where anything has changed that
//! gates depend on, and a comparison with what each agent was told.

use std::collections::{BTreeMap, VecDeque};

use cavalcade_model::{BitsPerSec, Bytes, FlowId, Instant, Nanos, PortId, Priority};
use cavalcade_wire::{
    CoflowEntry, CoflowKey, Facts, FlowEntry, FlowOrder, Gate, Keyed, Orders, PROTOCOL, Report,
};

use crate::agent::CLASSES;
use crate::counter::TaskCounter;
use crate::explanation::Explanation;
use crate::hosted::{Factory, Hosted, NewFlow};
use crate::table::{Coflow, FlowName};

/// What a coordinator is started with.
#[derive(Clone, Copy, Debug)]
pub struct CoordinatorConfig {
    /// Its term: higher than that of any coordinator before it. The time of its start will do where there is one at a time;
    /// a standby takes its from the lease.
    pub term: u64,
    /// How many ports the fabric has.
    pub ports: u32,
    /// What a port can send and receive unless its agent says otherwise.
    pub line_rate: BitsPerSec,
    /// Δ: how long agents wait between reports, and the coordinator between rounds.
    pub period: Nanos,
    /// How long orders hold.
    pub lease: Nanos,
    /// Bytes below which an agent need not report a coflow. Safe for `dclas` up to its first threshold over the ports: if no
    /// agent's part reaches that, the coflow is in the first queue, where agents put it by themselves.
    pub quiet: Bytes,
    /// Decide and tell, and have agents carry out nothing.
    pub shadow: bool,
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
            shadow: false,
        }
    }
}

/// What has happened at a coordinator since it started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CoordinatorCounters {
    /// Rounds.
    pub rounds: u64,
    /// Reports that were taken in.
    pub reports: u64,
    /// Reports that came twice, late, or from another version, and were left out.
    pub reports_left_out: u64,
    /// Messages of orders.
    pub orders: u64,
    /// New gates: off, open, paced.
    pub decisions: [u64; 3],
    /// Agents that were silent for longer than the lease.
    pub agents_lost: u64,
    /// Parts of coflows that belong to another user.
    pub foreign_parts: u64,
    /// Bytes reported, by the class that their coflow had.
    pub sent_by_class: [u64; CLASSES],
}

/// What is known of an agent, and what it has been told.
#[derive(Debug)]
struct Peer {
    session: u64,
    /// The number of its last report.
    heard: u64,
    heard_at: Instant,
    /// Whether a snapshot from it is needed.
    is_unknown: bool,
    /// Whether it needs a snapshot from here.
    owes_snapshot: bool,
    /// The number of the last orders.
    sent: u64,
    sent_at: Option<Instant>,
    parts: BTreeMap<u32, Part>,
    /// Open flows, each with its coflow's number there.
    flows: BTreeMap<u32, u32>,
    /// What it was told of flows, where that is not the default.
    told: BTreeMap<u32, FlowOrder>,
    /// What it is to be told at the next occasion.
    news: Keyed<FlowOrder>,
    new_priorities: BTreeMap<u32, Priority>,
}

/// An agent's part of a coflow.
#[derive(Clone, Copy, Debug)]
struct Part {
    key: CoflowKey,
    /// Bytes of its flows that are over.
    sent: u64,
}

impl Peer {
    fn new(session: u64, now: Instant, sent: u64) -> Self {
        Self {
            session,
            heard: 0,
            heard_at: now,
            is_unknown: true,
            owes_snapshot: true,
            sent,
            sent_at: None,
            parts: BTreeMap::new(),
            flows: BTreeMap::new(),
            told: BTreeMap::new(),
            news: Keyed::default(),
            new_priorities: BTreeMap::new(),
        }
    }

    /// Whether there is something to say other than that the coordinator is there.
    fn has_news(&self) -> bool {
        self.owes_snapshot || self.is_unknown || !self.news.is_empty() || !self.new_priorities.is_empty()
    }
}

/// What is known of a coflow, for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CoflowStatus {
    /// Its key.
    pub key: CoflowKey,
    /// What is known of it.
    pub facts: Option<Facts>,
    /// Whose it is: a user, by the number that hosts have for it.
    pub owner: Option<u32>,
    /// What it has sent, as far as reported.
    pub sent: Bytes,
    /// The priority that the policy gave it.
    pub priority: Priority,
    /// Its open flows.
    pub flows: Vec<CoflowFlow>,
}

/// What is known of a flow of a coflow, for people.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CoflowFlow {
    /// Who sends it.
    pub from: PortId,
    /// Its number there.
    pub number: u32,
    /// Who receives it.
    pub to: PortId,
    /// Its bytes, if they are known.
    pub size: Option<Bytes>,
    /// Bytes sent, as far as reported.
    pub sent: Bytes,
    /// Whether it has nothing to send or makes no progress.
    pub rests: bool,
    /// What was decided about it.
    pub gate: Gate,
    /// The priority that holds for it.
    pub priority: Priority,
}

/// The coordinator.
#[derive(Debug)]
pub struct Coordinator {
    config: CoordinatorConfig,
    hosted: Hosted,
    peers: BTreeMap<PortId, Peer>,
    /// Which agents have a part of each coflow, under which number.
    holders: BTreeMap<CoflowKey, BTreeMap<PortId, u32>>,
    /// Whose each coflow is, and whether the agent says so that gave out its number.
    owners: BTreeMap<CoflowKey, (u32, bool)>,
    /// The highest term heard of.
    term: u64,
    /// The highest number of orders so far. An agent that was forgotten and is back remembers its own: numbers go on above.
    highest_sent: u64,
    last_round: Option<Instant>,
    is_drained: bool,
    outbox: VecDeque<(PortId, Orders)>,
    counters: CoordinatorCounters,
}

impl Coordinator {
    /// A coordinator that runs `factory`'s policy, which has to be one of scope fabric.
    pub fn new(config: CoordinatorConfig, factory: Factory) -> Self {
        Self {
            hosted: Hosted::new(factory, config.ports, config.line_rate),
            peers: BTreeMap::new(),
            holders: BTreeMap::new(),
            owners: BTreeMap::new(),
            term: config.term,
            highest_sent: 0,
            last_round: None,
            is_drained: false,
            outbox: VecDeque::new(),
            counters: CoordinatorCounters::default(),
            config,
        }
    }

    /// Whether another coordinator has a higher term. This one says nothing any more and can be dropped.
    pub fn is_deposed(&self) -> bool {
        self.term > self.config.term
    }

    /// How many rounds there have been.
    pub fn rounds(&self) -> u64 {
        self.counters.rounds
    }

    /// What has happened since it started.
    pub fn counters(&self) -> &CoordinatorCounters {
        &self.counters
    }

    /// The kill switch of the whole fabric: every agent puts every flow back to plain TCP, or that ends. A coordinator that
    /// starts again does not remember it.
    pub fn drain(&mut self, is_drained: bool) {
        if std::mem::replace(&mut self.is_drained, is_drained) != is_drained {
            self.peers.values_mut().for_each(|peer| peer.owes_snapshot = true);
        }
    }

    /// Whether the kill switch is on.
    pub fn is_drained(&self) -> bool {
        self.is_drained
    }

    /// How many ports the fabric has.
    pub fn ports(&self) -> u32 {
        self.config.ports
    }

    /// Its term.
    pub fn term(&self) -> u64 {
        self.config.term
    }

    /// The agents that are heard of, with when each was heard last.
    pub fn heard(&self) -> impl Iterator<Item = (PortId, Instant)> + '_ {
        self.peers.iter().map(|(&port, peer)| (port, peer.heard_at))
    }

    /// Why a coflow's flows go as they do; `None` where it is not known.
    pub fn why(&self, key: CoflowKey) -> Option<Explanation> {
        self.hosted.explain(key)
    }

    /// How many agents are heard of.
    pub fn agents(&self) -> usize {
        self.peers.len()
    }

    /// All coflows that are known, in the order of keys.
    pub fn status(&self) -> impl Iterator<Item = CoflowStatus> + '_ {
        self.hosted.coflows().map(|coflow| CoflowStatus {
            key: coflow.key,
            sent: Bytes(coflow.attained),
            priority: coflow.priority,
            facts: coflow.facts,
            owner: self.owners.get(&coflow.key).map(|(owner, _)| *owner),
            flows: coflow.flows.iter().map(|(&name, &id)| self.flow_status(coflow, name, id)).collect(),
        })
    }

    fn flow_status(&self, coflow: &Coflow, (from, number): FlowName, id: FlowId) -> CoflowFlow {
        let flow = self.hosted.flow(id);
        CoflowFlow {
            from,
            number,
            to: flow.facts.dst,
            size: flow.size.map(Bytes),
            sent: Bytes(flow.sent),
            rests: flow.idle,
            gate: flow.gate,
            priority: flow.priority.unwrap_or(coflow.priority),
        }
    }

    /// Takes in a report.
    pub fn handle_report(&mut self, now: Instant, report: Report) {
        self.term = self.term.max(report.term);
        if report.protocol != PROTOCOL || report.port.0 >= self.config.ports || self.is_deposed() {
            self.counters.reports_left_out += 1;
            return;
        }
        let port = report.port;
        match self.peers.get(&port) {
            None => {
                self.peers.insert(port, Peer::new(report.session, now, self.highest_sent));
            }
            Some(peer) if report.session > peer.session => {
                self.forget(now, port);
                self.peers.insert(port, Peer::new(report.session, now, self.highest_sent));
            }
            // The past; or an agent whose clock was set back, which is heard once the former session is forgotten.
            Some(peer) if report.session < peer.session => {
                self.counters.reports_left_out += 1;
                return;
            }
            Some(_) => {}
        }
        let peer = self.peers.get_mut(&port).expect("it has just been looked up or inserted");
        if report.sequence <= peer.heard {
            self.counters.reports_left_out += 1;
            return;
        }
        self.counters.reports += 1;
        peer.is_unknown |= !report.snapshot && report.sequence != peer.heard + 1;
        peer.owes_snapshot |= report.resync;
        peer.heard = report.sequence;
        peer.heard_at = now;
        self.hosted.set_capacity(port, report.up, report.down);
        if report.snapshot {
            self.take_snapshot(now, &report);
        } else if !peer.is_unknown {
            self.take_changes(now, &report);
        }
    }

    /// An agent's connection is gone. It may come back with the same session; until its lease is over it obeys.
    pub fn handle_disconnected(&mut self, port: PortId) {
        if let Some(peer) = self.peers.get_mut(&port) {
            peer.is_unknown = true;
            peer.owes_snapshot = true;
        }
    }

    /// Does what has come due.
    pub fn handle_timeout(&mut self, now: Instant) {
        if self.is_deposed() {
            return;
        }
        let silent = |peer: &Peer| now.since(peer.heard_at) > self.config.lease;
        let gone: Vec<PortId> =
            self.peers.iter().filter(|(_, peer)| silent(peer)).map(|(&port, _)| port).collect();
        self.counters.agents_lost += gone.len() as u64;
        gone.into_iter().for_each(|port| self.forget(now, port));
        self.hosted.wake(now);
        if self.round_at().is_some_and(|when| when <= now) {
            self.round(now);
        }
        let ports: Vec<PortId> = self.peers.keys().copied().collect();
        for port in ports {
            if self.orders_at(&self.peers[&port]).is_some_and(|when| when <= now) {
                self.write_orders(now, port);
            }
        }
    }

    /// When [`Coordinator::handle_timeout`] has something to do.
    pub fn poll_timeout(&self) -> Option<Instant> {
        if self.is_deposed() {
            return None;
        }
        let after = |when: Instant, span: Nanos| when.checked_add(span);
        let peers = self.peers.values();
        let gone = peers.clone().filter_map(|peer| after(peer.heard_at, Nanos(self.config.lease.0 + 1)));
        let orders = peers.filter_map(|peer| self.orders_at(peer));
        gone.chain(orders).chain(self.hosted.wake_at()).chain(self.round_at()).min()
    }

    /// Orders that are to be sent.
    pub fn poll_orders(&mut self) -> Option<(PortId, Orders)> {
        if self.is_deposed() {
            self.outbox.clear();
        }
        self.outbox.pop_front()
    }

    /// When the next round is due: none while nothing has changed.
    fn round_at(&self) -> Option<Instant> {
        let needed = self.hosted.is_dirty() || self.hosted.has_changed();
        needed.then(|| self.not_before(self.last_round))
    }

    /// When orders for a peer are due: news a period after the last, and else a quarter of the lease.
    fn orders_at(&self, peer: &Peer) -> Option<Instant> {
        if peer.has_news() {
            return Some(self.not_before(peer.sent_at));
        }
        peer.sent_at?.checked_add(Nanos(self.config.lease.0 / 4))
    }

    fn not_before(&self, last: Option<Instant>) -> Instant {
        last.and_then(|last| last.checked_add(self.config.period)).unwrap_or(Instant::ZERO)
    }

    /// Forgets an agent with all that it said: if it comes back, it says it again.
    fn forget(&mut self, now: Instant, port: PortId) {
        let Some(peer) = self.peers.remove(&port) else { return };
        for (&flow, part) in &peer.flows {
            let (key, name) = (peer.parts[part].key, (port, flow));
            let sent = self.hosted.sent(key, name);
            self.hosted.close_flow(now, key, name);
            self.hosted.adjust(now, key, -i128::from(sent));
        }
        for (&number, part) in &peer.parts {
            self.hosted.adjust(now, part.key, -i128::from(part.sent));
            self.leave(now, port, number, part.key);
        }
    }

    /// An agent has no part of a coflow any more. The last one takes the coflow with it.
    fn leave(&mut self, now: Instant, port: PortId, number: u32, key: CoflowKey) {
        let Some(holders) = self.holders.get_mut(&key) else { return };
        // The agent may have a new part of it by now.
        if holders.get(&port) == Some(&number) {
            holders.remove(&port);
        }
        if holders.is_empty() {
            self.holders.remove(&key);
            self.owners.remove(&key);
            self.hosted.close_coflow(now, key);
        }
    }

    /// A snapshot stands for all before it: what it does not name is over, what it names is so.
    fn take_snapshot(&mut self, now: Instant, report: &Report) {
        let port = report.port;
        let peer = self.peers.get_mut(&port).expect("a report is taken in from a known peer");
        peer.is_unknown = false;
        let over: Vec<(u32, u32)> = peer.flows.iter().map(|(&flow, &part)| (flow, part)).collect();
        let known = peer.parts.clone();
        for (flow, part) in over.into_iter().filter(|(flow, _)| report.flows.get(*flow).is_none()) {
            self.close_flow(now, port, flow, part, 0);
        }
        self.take_changes(now, report);
        for (number, part) in known {
            if report.coflows.get(number).is_none() {
                self.leave_part(now, port, number, part.key);
            }
        }
    }

    fn take_changes(&mut self, now: Instant, report: &Report) {
        let port = report.port;
        for (number, entry) in report.coflows.iter() {
            if !self.admits(now, port, entry) {
                self.counters.foreign_parts += 1;
                continue;
            }
            self.hosted.open_coflow(now, entry.key, entry.facts);
            self.holders.entry(entry.key).or_default().insert(port, number);
            let priority = self.hosted.priority(entry.key);
            let peer = self.peers.get_mut(&port).expect("a report is taken in from a known peer");
            if peer.parts.get(&number).is_none_or(|part| part.key != entry.key) {
                peer.parts.insert(number, Part { key: entry.key, sent: 0 });
                peer.new_priorities.insert(number, priority);
            }
        }
        for (flow, entry) in report.flows.iter() {
            self.open_flow(now, port, flow, entry);
        }
        for (flow, progress) in report.progress.iter() {
            let Some((key, _)) = self.find(port, flow) else { continue };
            self.count_bytes(key, progress.sent);
            let sent = self.hosted.sent(key, (port, flow)).saturating_add(progress.sent.0);
            self.hosted.progress(now, key, (port, flow), sent, progress.idle);
        }
        for (flow, more) in report.closed.iter() {
            let Some((key, part)) = self.find(port, flow) else { continue };
            self.count_bytes(key, *more);
            self.close_flow(now, port, flow, part, more.0);
        }
        for (number, entry) in report.coflows.iter() {
            let peer = self.peers.get_mut(&port).expect("a report is taken in from a known peer");
            let Some(part) = peer.parts.get_mut(&number) else { continue };
            let before = std::mem::replace(&mut part.sent, entry.sent.0);
            self.hosted.adjust(now, entry.key, i128::from(entry.sent.0) - i128::from(before));
        }
        for (number, ()) in report.left.iter() {
            let part = self.peers[&port].parts.get(&number).copied();
            if let Some(part) = part {
                self.leave_part(now, port, number, part.key);
            }
        }
    }

    /// Whether a part belongs to whom its coflow belongs to. That is the user of whom the agent speaks that gave out
    /// the coflow's number; until it does, the user of the first part that was heard of.
    fn admits(&mut self, now: Instant, port: PortId, entry: &CoflowEntry) -> bool {
        let is_home = TaskCounter::agent_of(entry.key.serial, self.config.ports) == Some(port);
        match self.owners.get(&entry.key).copied() {
            Some((owner, by_home)) if owner != entry.owner => {
                if by_home || !is_home {
                    return false;
                }
                self.expel(now, entry.key);
            }
            Some((_, true)) => return true,
            _ => {}
        }
        self.owners.insert(entry.key, (entry.owner, is_home));
        true
    }

    /// Takes a coflow from all who have a part of it: it is another user's. Their flows go as plain TCP.
    fn expel(&mut self, now: Instant, key: CoflowKey) {
        for (port, number) in self.holders.get(&key).cloned().unwrap_or_default() {
            self.counters.foreign_parts += 1;
            self.leave_part(now, port, number, key);
            if let Some(peer) = self.peers.get_mut(&port) {
                peer.owes_snapshot = true;
            }
        }
    }

    fn count_bytes(&mut self, key: CoflowKey, more: Bytes) {
        let class = usize::from(self.hosted.priority(key).class).min(CLASSES - 1);
        let count = &mut self.counters.sent_by_class[class];
        *count = count.saturating_add(more.0);
    }

    /// The coflow of an agent's flow, and its number there.
    fn find(&self, port: PortId, flow: u32) -> Option<(CoflowKey, u32)> {
        let peer = self.peers.get(&port)?;
        let part = *peer.flows.get(&flow)?;
        Some((peer.parts.get(&part)?.key, part))
    }

    fn open_flow(&mut self, now: Instant, port: PortId, flow: u32, entry: &FlowEntry) {
        let peer = self.peers.get_mut(&port).expect("a report is taken in from a known peer");
        let Some(key) = peer.parts.get(&entry.coflow).map(|part| part.key) else { return };
        if entry.to.0 >= self.config.ports {
            return;
        }
        if peer.flows.insert(flow, entry.coflow).is_some() {
            self.hosted.progress(now, key, (port, flow), entry.sent.0, entry.idle);
            return;
        }
        let FlowEntry { to, size, sent, idle, .. } = *entry;
        let new = NewFlow { to, size: size.map(|size| size.0), sent: sent.0, idle };
        self.hosted.open_flow(now, key, (port, flow), new);
    }

    /// A flow is over after `more` bytes; from now on they belong to its part.
    fn close_flow(&mut self, now: Instant, port: PortId, flow: u32, part: u32, more: u64) {
        let peer = self.peers.get_mut(&port).expect("flows belong to known peers");
        peer.flows.remove(&flow);
        peer.told.remove(&flow);
        let Some(part) = peer.parts.get_mut(&part) else { return };
        let sent = self.hosted.sent(part.key, (port, flow));
        part.sent = part.sent.saturating_add(sent).saturating_add(more);
        let key = part.key;
        self.hosted.adjust(now, key, i128::from(more));
        self.hosted.close_flow(now, key, (port, flow));
    }

    fn leave_part(&mut self, now: Instant, port: PortId, number: u32, key: CoflowKey) {
        let peer = self.peers.get_mut(&port).expect("parts belong to known peers");
        let flows: Vec<u32> =
            peer.flows.iter().filter(|(_, part)| **part == number).map(|(&flow, _)| flow).collect();
        flows.into_iter().for_each(|flow| self.close_flow(now, port, flow, number, 0));
        let peer = self.peers.get_mut(&port).expect("parts belong to known peers");
        peer.parts.remove(&number);
        peer.new_priorities.remove(&number);
        self.leave(now, port, number, key);
    }

    /// Computes gates and finds what each agent has to be told.
    fn round(&mut self, now: Instant) {
        self.last_round = Some(now);
        self.counters.rounds += 1;
        self.hosted.announce_fresh(now);
        for key in self.hosted.take_changed() {
            let priority = self.hosted.priority(key);
            for (port, &number) in self.holders.get(&key).into_iter().flatten() {
                if let Some(peer) = self.peers.get_mut(port) {
                    peer.new_priorities.insert(number, priority);
                }
            }
        }
        if !self.hosted.is_dirty() {
            return;
        }
        let mut news: BTreeMap<PortId, BTreeMap<u32, FlowOrder>> = BTreeMap::new();
        for ((port, flow), gate, priority) in self.hosted.gates() {
            let order = FlowOrder { gate, priority };
            let Some(peer) = self.peers.get_mut(&port) else { continue };
            let told = peer.told.get(&flow).copied().unwrap_or(UNTOLD);
            if told != order {
                let kind = match gate {
                    Gate::Off {} => 0,
                    Gate::Open {} => 1,
                    Gate::Paced { .. } => 2,
                };
                self.counters.decisions[kind] += 1;
                peer.told.insert(flow, order);
                news.entry(port).or_default().insert(flow, order);
            }
        }
        for (port, news) in news {
            if let Some(peer) = self.peers.get_mut(&port) {
                let unsaid = std::mem::take(&mut peer.news);
                peer.news = unsaid.into_iter().chain(news).collect();
            }
        }
    }

    fn write_orders(&mut self, now: Instant, port: PortId) {
        let config = self.config;
        let Some(peer) = self.peers.get_mut(&port) else { return };
        let snapshot = std::mem::take(&mut peer.owes_snapshot);
        let (mut priorities, mut flows) =
            (std::mem::take(&mut peer.new_priorities), std::mem::take(&mut peer.news));
        if snapshot {
            let hosted = &self.hosted;
            priorities =
                peer.parts.iter().map(|(&number, part)| (number, hosted.priority(part.key))).collect();
            flows = peer.told.iter().map(|(&flow, &order)| (flow, order)).collect();
        } else {
            let open = &peer.flows;
            flows = flows.into_iter().filter(|(flow, _)| open.contains_key(flow)).collect();
        }
        peer.sent += 1;
        self.counters.orders += 1;
        self.highest_sent = self.highest_sent.max(peer.sent);
        peer.sent_at = Some(now);
        let orders = Orders {
            protocol: PROTOCOL,
            term: config.term,
            session: peer.session,
            sequence: peer.sent,
            snapshot,
            resync: peer.is_unknown,
            enforce: !config.shadow && !self.is_drained,
            lease: config.lease,
            period: config.period,
            quiet: config.quiet,
            priorities: priorities.into_iter().collect(),
            flows,
        };
        self.outbox.push_back((port, orders));
    }

    /// What a coflow has sent, as far as reported.
    pub fn attained(&self, key: CoflowKey) -> Option<Bytes> {
        self.hosted.attained(key)
    }
}

/// What an agent does with a flow that it was told nothing of.
const UNTOLD: FlowOrder = FlowOrder { gate: Gate::Open {}, priority: None };
