//! Reports to the coordinator, and how its orders are taken over.
//!
//! Reports hold changes. The agent keeps what the coordinator knows beside its own state, and a
//! list of what may differ, so a report costs what has changed. A snapshot is made when a
//! connection begins, when the coordinator asks, and when its term changes.
//!
//! No report is longer than [`PIECE`] items, or takes the host's line for long (`room`): what is
//! left over follows in the next one, also of a snapshot. Its first piece replaces all before and
//! is otherwise a report like any other, so later pieces need no mark of their own. The first
//! report on a connection is a short one: until it is accepted, the coordinator reads no long ones.

use std::collections::{BTreeMap, BTreeSet};

use cavalcade_model::{Bytes, Instant, Nanos, PortId};
use cavalcade_protocol::{
    CoflowEntry, FlowEntry, Keyed, KillSwitch, Orders, PROTOCOL, Progress, Refusal, Report, Sealed, Subject,
};

use super::{Agent, AgentConfig, AgentOutput, Flow, Mode, Part};
use crate::room::Room;

/// Pauses between reports, whatever a coordinator asks for.
const SHORTEST_PERIOD: Nanos = Nanos::from_millis(1);
const LONGEST_PERIOD: Nanos = Nanos::from_secs(60);

/// Leases after which a connection on which no orders come is given up.
const PATIENCE_LEASES: u64 = 2;

/// Coflows and flows in one report, at most.
const PIECE: usize = Report::MOST_ITEMS;

/// The same in the first report on a connection: 126 KB.
const FIRST_PIECE: usize = 1_024;

/// The longest encodings of a report's items: of bytes of a port, of a coflow and of one with a
/// name, of a grant, of a flow, of its progress, and of the end of a flow and of a coflow.
const ARRIVAL: usize = 15;
const COFLOW: usize = 96;
const NAME: usize = cavalcade_protocol::CoflowName::LONGEST;
const GRANT: usize = 5;
const FLOW: usize = 37;
const PROGRESS: usize = 16;
const CLOSED: usize = 15;
const LEFT: usize = 5;

/// The agent's knowledge of its coordinator.
#[derive(Debug, Default)]
pub(super) struct CoordinatorLink {
    /// The highest term received.
    pub(super) term: u64,
    /// Until when orders hold, while any do.
    pub(super) lease_until: Option<Instant>,
    /// The number of the last report.
    sent: u64,
    sent_at: Option<Instant>,
    /// The number of the last orders of the term.
    heard: u64,
    period: Option<Nanos>,
    lease: Option<Nanos>,
    /// Time at which orders came last.
    pub(super) orders_at: Option<Instant>,
    quiet: Bytes,
    /// True if the coordinator's orders are to be enforced (no shadow mode).
    pub(super) is_enforced: bool,
    /// The latest throw of the fabric's kill switch that was received, from whichever coordinator.
    switch: Option<KillSwitch>,
    /// The same throw and its term, as the coordinator has sealed them.
    standing: Sealed,
    owes_snapshot: bool,
    needs_snapshot: bool,
    /// True if there is a connection on which nothing has been received yet.
    pub(super) is_unproven: bool,
    /// Time at which a silent connection is given up.
    pub(super) patience_until: Option<Instant>,
    /// True if the coordinator requests what arrives.
    wants_arrivals: bool,
    /// Time at which that was last to be measured.
    pub(super) measured_at: Option<Instant>,
    /// Bytes that have come from each port in all, and the ports of which the coordinator may not
    /// know that.
    arrived: BTreeMap<PortId, u64>,
    new_arrivals: BTreeSet<PortId>,
    /// Coflows and flows of which the coordinator may not know all.
    pub(super) parts: BTreeSet<u32>,
    pub(super) flows: BTreeSet<u32>,
    /// True if its connection has not taken the last reports yet.
    is_behind: bool,
    /// True if the next report is the first on its connection.
    is_first: bool,
    /// Ended flows, with the bytes that are not reported to the coordinator yet.
    pub(super) closed: Vec<(u32, u64)>,
    /// Coflows that are over.
    pub(super) left: Vec<u32>,
}

impl CoordinatorLink {
    /// A link to a coordinator that knows nothing yet.
    pub(super) fn new() -> Self {
        Self { owes_snapshot: true, is_enforced: true, ..Self::default() }
    }

    pub(super) fn period(&self, config: &AgentConfig) -> Nanos {
        self.period.unwrap_or(config.period)
    }

    /// The coordinator may not know all of a coflow.
    pub(super) fn note_part(&mut self, number: u32) {
        self.parts.insert(number);
    }

    /// A flow of a coflow has changed, which may have been too small until now to be reported.
    pub(super) fn note_part_of(&mut self, parts: &BTreeMap<u32, Part>, number: u32) {
        if parts.get(&number).is_some_and(|part| !part.reported) {
            self.parts.insert(number);
        }
    }

    fn has_news(&self) -> bool {
        let is_quiet = self.parts.is_empty() && self.flows.is_empty();
        !is_quiet || !self.closed.is_empty() || !self.left.is_empty() || !self.new_arrivals.is_empty()
    }

    /// Returns whether the kill switch of the fabric is on.
    pub(super) fn is_switched_off(&self) -> bool {
        self.switch.is_some_and(|switch| switch.is_on)
    }
}

impl Agent {
    /// Begins a new connection to a coordinator, with a snapshot.
    pub fn handle_coordinator_connected(&mut self) {
        self.link.owes_snapshot = true;
        self.link.sent_at = None;
        self.link.is_unproven = true;
        self.link.patience_until = None;
        (self.link.is_first, self.link.is_behind) = (true, false);
    }

    /// Sets whether the coordinator's connection has yet to take the last reports: changes
    /// accumulate meanwhile.
    pub fn set_coordinator_behind(&mut self, is_behind: bool) {
        self.link.is_behind = is_behind;
    }

    /// Handles the coordinator's orders.
    pub fn handle_orders(&mut self, now: Instant, orders: Orders) {
        let is_for_us = orders.protocol == PROTOCOL && orders.session == self.config.session;
        if !is_for_us || !matches!(self.mode, Mode::Coordinated) || orders.term < self.link.term {
            return;
        }
        if orders.term > self.link.term {
            // Another coordinator: the orders of the former one are void, and this one knows
            // nothing yet.
            self.link.term = orders.term;
            self.link.heard = 0;
            self.link.owes_snapshot = true;
            self.link.needs_snapshot = true;
        }
        if orders.sequence <= self.link.heard {
            return;
        }
        self.link.needs_snapshot |= !orders.snapshot && orders.sequence != self.link.heard + 1;
        self.link.heard = orders.sequence;
        self.link.owes_snapshot |= orders.resync;
        // Without a pause an agent would do nothing but report, and with a lease of years it would
        // never be free again.
        self.link.period = Some(orders.period.clamp(SHORTEST_PERIOD, LONGEST_PERIOD));
        let lease = orders.lease.clamp(Nanos(4 * SHORTEST_PERIOD.0), Nanos(10 * LONGEST_PERIOD.0));
        self.link.lease = Some(lease);
        self.link.quiet = orders.quiet;
        if self.link.needs_snapshot && !orders.snapshot {
            return;
        }
        self.link.needs_snapshot = false;
        let enforced = self.enforces();
        self.link.lease_until = now.checked_add(lease);
        self.link.orders_at = Some(now);
        (self.link.is_unproven, self.link.patience_until) = (false, None);
        self.obey(&orders, enforced);
    }

    /// Takes orders over; where enforcement began or ended, every flow gets a directive.
    fn obey(&mut self, orders: &Orders, enforced: bool) {
        self.link.wants_arrivals = orders.confirm;
        self.link.is_enforced = orders.enforce;
        self.link.switch = self.link.switch.max(orders.switch);
        // A standing without the switch that is known here is of a coordinator that has still to
        // receive it, from here.
        if orders.snapshot && orders.switch == self.link.switch {
            self.link.standing = orders.standing.clone();
            self.forget_orders();
        }
        let mut touched = BTreeSet::new();
        for (number, &priority) in orders.priorities.iter() {
            if let Some(part) = self.parts.get_mut(&number) {
                part.priority = priority;
                touched.extend(&part.flows);
            }
        }
        for (number, &order) in orders.flows.iter() {
            if let Some(flow) = self.flows.get_mut(&number) {
                flow.ordered = Some(order);
                flow.promoted = None;
                touched.insert(number);
            }
        }
        for (number, ()) in orders.refused.iter() {
            let Some(part) = self.parts.get(&number) else { continue };
            let (subject, clients) = (Subject::Coflow { coflow: part.key }, part.clients.clone());
            clients.into_iter().for_each(|client| self.refuse(client, subject, Refusal::NotYours {}));
        }
        if orders.snapshot || enforced != self.enforces() {
            self.direct_all();
        } else {
            touched.into_iter().for_each(|number| self.direct(number));
        }
    }

    /// Takes in what has come from other ports in all, by the kernel's counts; these never go back.
    pub fn handle_arrivals(&mut self, totals: &BTreeMap<PortId, u64>) {
        for (&from, &total) in totals {
            if self.link.arrived.insert(from, total) != Some(total) {
                self.link.new_arrivals.insert(from);
            }
        }
    }

    /// Returns whether the coordinator requests what arrives.
    pub fn wants_arrivals(&self) -> bool {
        self.link.wants_arrivals && self.link.lease_until.is_some()
    }

    /// Returns when arrivals are next to be measured, if the coordinator requests them.
    pub(super) fn measure_at(&self) -> Option<Instant> {
        let after = |last: Instant| last + self.link.period(&self.config);
        self.wants_arrivals().then(|| self.link.measured_at.map_or(Instant::ZERO, after))
    }

    fn forget_orders(&mut self) {
        for flow in self.flows.values_mut() {
            flow.ordered = None;
            flow.promoted = None;
        }
        self.parts.values_mut().for_each(|part| part.priority = Default::default());
    }

    /// Ends the obedience when the lease is over. Deltas that come later would build on what is
    /// forgotten here.
    pub(super) fn check_lease(&mut self, now: Instant) {
        if self.link.lease_until.is_some_and(|until| until <= now) {
            self.link.lease_until = None;
            self.counters.fallbacks += 1;
            self.link.needs_snapshot = true;
            self.forget_orders();
            self.direct_all();
            self.outbox.push_back(AgentOutput::Reconnect);
        }
        self.check_patience(now);
    }

    /// Gives up a connection on which no orders come: its other end hangs, or does not lead.
    fn check_patience(&mut self, now: Instant) {
        if std::mem::take(&mut self.link.is_unproven) {
            let lease = self.link.lease.unwrap_or(Nanos(10 * self.link.period(&self.config).0));
            self.link.patience_until = now.checked_add(Nanos(PATIENCE_LEASES * lease.0));
        }
        if self.link.patience_until.is_some_and(|until| until <= now) {
            self.link.patience_until = None;
            self.outbox.push_back(AgentOutput::Reconnect);
        }
    }

    /// Returns the time at which a report is due: changes a period after the last, and else a
    /// quarter of the lease.
    pub(super) fn report_at(&self) -> Option<Instant> {
        self.report_after(|pause| pause)
    }

    /// From when on a report is made if the agent is awake: clients report once a period, and their
    /// reports are passed on at once, though they came a little sooner than last time.
    pub(super) fn report_from(&self) -> Option<Instant> {
        self.report_after(|pause| Nanos(pause.0 / 4 * 3))
    }

    fn report_after(&self, shortened: impl Fn(Nanos) -> Nanos) -> Option<Instant> {
        if !matches!(self.mode, Mode::Coordinated) {
            return None;
        }
        let link = &self.link;
        if link.is_behind {
            return None;
        }
        let Some(last) = link.sent_at else { return Some(Instant::ZERO) };
        let has_news = link.owes_snapshot || link.needs_snapshot || link.has_news();
        let period = link.period(&self.config);
        let lease = link.lease.unwrap_or(Nanos(10 * period.0));
        last.checked_add(shortened(if has_news { period } else { Nanos(lease.0 / 4) }))
    }

    /// Returns whether a coflow is small enough here not to be reported.
    fn is_quiet(&self, part: &Part) -> bool {
        !part.reported && part.sent().saturating_add(part.open) < self.link.quiet.0
    }

    /// Forgets what the coordinator knows: the next report is a snapshot.
    fn begin_snapshot(&mut self) {
        // A snapshot leaves out what is over, and its entries count those bytes already.
        self.link.closed.clear();
        self.link.left.clear();
        self.parts.values_mut().for_each(|part| part.reported = false);
        self.flows.values_mut().for_each(|flow| flow.reported = None);
        self.link.new_arrivals = self.link.arrived.keys().copied().collect();
        self.link.parts = self.parts.keys().copied().collect();
        self.link.flows.clear();
    }

    pub(super) fn report(&mut self, now: Instant) {
        let snapshot = std::mem::take(&mut self.link.owes_snapshot);
        if snapshot {
            self.begin_snapshot();
        }
        self.link.sent += 1;
        self.counters.reports += 1;
        self.link.sent_at = Some(now);
        let items = if std::mem::take(&mut self.link.is_first) { FIRST_PIECE } else { PIECE };
        let mut room = Room::new(items, self.config.up, self.link.period(&self.config));
        // First, because the entry of a coflow counts the bytes of ended flows already.
        let closed = take_some(&mut self.link.closed, &mut room, CLOSED);
        let arrived = self.report_arrivals(&mut room);
        let (coflows, grants) = self.report_coflows(&mut room);
        let (flows, progress) = self.report_flows(&mut room);
        let left = take_some(&mut self.link.left, &mut room, LEFT);
        let report = Report {
            protocol: PROTOCOL,
            port: self.config.port,
            session: self.config.session,
            sequence: self.link.sent,
            clock: now,
            snapshot,
            resync: self.link.needs_snapshot,
            standing: if snapshot { self.link.standing.clone() } else { Sealed::default() },
            up: self.config.up,
            down: self.config.down,
            arrived,
            coflows,
            grants,
            flows,
            progress,
            closed: closed.into_iter().map(|(number, sent)| (number, Bytes(sent))).collect(),
            left: left.into_iter().map(|number| (number, ())).collect(),
        };
        self.outbox.push_back(AgentOutput::Coordinator(report));
    }

    fn report_arrivals(&mut self, room: &mut Room) -> Keyed<Bytes> {
        let mut arrived = Keyed::default();
        while room.is_left()
            && let Some(from) = self.link.new_arrivals.pop_first()
        {
            room.take(1, ARRIVAL);
            arrived.push(from.0, Bytes(self.link.arrived[&from]));
        }
        arrived
    }

    fn report_coflows(&mut self, room: &mut Room) -> (Keyed<CoflowEntry>, Keyed<Vec<u32>>) {
        let (mut coflows, mut grants) = (Keyed::default(), Keyed::default());
        while room.is_left()
            && let Some(number) = self.link.parts.pop_first()
        {
            let Some(part) = self.parts.get(&number).filter(|part| !self.is_quiet(part)) else { continue };
            let is_named = part.facts.is_some_and(|facts| facts.name.is_some());
            room.take(1, if is_named { COFLOW + NAME } else { COFLOW });
            let (key, facts, sent, owner) = (part.key, part.facts, Bytes(part.sent()), part.user);
            coflows.push(number, CoflowEntry { key, facts, sent, owner });
            if !part.granted.is_empty() {
                room.take(part.granted.len(), GRANT);
                grants.push(number, part.granted.iter().copied().collect());
            }
            if !part.reported {
                self.link.flows.extend(&part.flows);
            }
            if let Some(part) = self.parts.get_mut(&number) {
                part.reported = true;
            }
        }
        (coflows, grants)
    }

    /// Reports flows whose coflows have been reported.
    fn report_flows(&mut self, room: &mut Room) -> (Keyed<FlowEntry>, Keyed<Progress>) {
        let (mut flows, mut progress) = (Keyed::default(), Keyed::default());
        while room.is_left()
            && let Some(number) = self.link.flows.pop_first()
        {
            let Some(flow) = self.flows.get_mut(&number) else { continue };
            let bytes = if flow.reported.is_some() { PROGRESS } else { FLOW };
            if self.parts[&flow.part].reported && list_flow(number, flow, &mut flows, &mut progress) {
                room.take(1, bytes);
            }
        }
        (flows, progress)
    }
}

/// The first of a list, as many as there is room for.
fn take_some<T>(list: &mut Vec<T>, room: &mut Room, bytes: usize) -> Vec<T> {
    let some: Vec<T> = list.drain(..list.len().min(room.for_items(bytes))).collect();
    room.take(some.len(), bytes);
    some
}

/// Reports of a flow what the coordinator does not know; returns whether there was anything.
fn list_flow(
    number: u32,
    flow: &mut Flow,
    flows: &mut Keyed<FlowEntry>,
    progress: &mut Keyed<Progress>,
) -> bool {
    let idle = flow.rests();
    match flow.reported {
        Some(known) if known == (flow.sent, idle) => return false,
        Some((sent, _)) => progress.push(number, Progress { sent: Bytes(flow.sent - sent), idle }),
        None => {
            let (sent, size) = (Bytes(flow.sent), flow.size);
            flows.push(number, FlowEntry { coflow: flow.part, to: flow.to, size, sent, idle });
        }
    }
    flow.reported = Some((flow.sent, idle));
    true
}

#[cfg(test)]
mod tests {
    use cavalcade_model::{BitsPerSec, TaskClass};
    use cavalcade_protocol::{CoflowKey, CoflowName, Facts, Message};

    use super::*;

    #[test]
    fn nothing_that_a_report_says_is_longer_than_the_room_that_it_is_given() {
        let most = u32::MAX;
        let bytes = Bytes(u64::MAX);
        let facts = |name| Facts {
            arrival: Instant(u64::MAX),
            deadline: Some(Instant(u64::MAX)),
            size: Some(bytes),
            class: TaskClass::Background,
            weight: u32::MAX,
            name,
        };
        let key = CoflowKey { task: u64::MAX, stage: u16::MAX, serial: u64::MAX };
        let coflow = |name| CoflowEntry { key, facts: Some(facts(name)), sent: bytes, owner: most };
        let flow = FlowEntry { coflow: most, to: PortId(most), size: Some(bytes), sent: bytes, idle: true };
        let longest = |say: &dyn Fn(&mut Report)| {
            let mut report = Report::new(PortId(0), 0, 0, Instant::ZERO, BitsPerSec(0));
            let empty = report.to_bytes().len();
            say(&mut report);
            report.to_bytes().len() - empty
        };
        let name: CoflowName = "n".repeat(CoflowName::LONGEST).parse().expect("it is one");
        assert!(longest(&|report| report.arrived.push(most, bytes)) <= ARRIVAL);
        assert!(longest(&|report| report.coflows.push(most, coflow(None))) <= COFLOW);
        assert!(longest(&|report| report.coflows.push(most, coflow(Some(name)))) <= COFLOW + NAME);
        let (one, two) = (vec![most - 1], vec![most - 1, most]);
        let first = longest(&|report| report.grants.push(most, one.clone()));
        assert!(longest(&|report| report.grants.push(most, two.clone())) - first <= GRANT);
        assert!(longest(&|report| report.flows.push(most, flow)) <= FLOW);
        assert!(
            longest(&|report| report.progress.push(most, Progress { sent: bytes, idle: true })) <= PROGRESS
        );
        assert!(longest(&|report| report.closed.push(most, bytes)) <= CLOSED);
        assert!(longest(&|report| report.left.push(most, ())) <= LEFT);
    }
}
