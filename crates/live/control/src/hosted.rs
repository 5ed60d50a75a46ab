//! One instance of a policy and all that it needs to be driven by reports in place of a simulation.
//!
//! The contract (`model::contract`) is the fluid driver's: the same object gets the same events.
//! What differs is the source of amounts. The simulator computes the instant at which a watched
//! amount is reached; here a report shows that it has been. So [`Hosted`] keeps the watches and
//! compares; what a decision means is the harness's ([`PolicyHost`]).
//!
//! # Names
//! Live coflows have keys, policies have dense numbers; [`Numbering`] keeps numbers in the order of
//! keys. When it runs out of room, or a policy's knowledge has become wrong (facts arrive late,
//! bytes are taken back after a crash), the policy gets events as if coflows had ended and arrived
//! again. Policies read their state from the view at an arrival, so that is safe, and it is the
//! same path that a restarted coordinator takes.
//!
//! # Cost
//! O(log n) map look-ups around each event, and what the policy itself costs: one that orders all
//! coflows does so once a round.

use std::collections::{BTreeMap, BTreeSet};

use cavalcade_harness::{PolicyFault, PolicyHost};
use cavalcade_model::{
    BitsPerSec, Bytes, CoflowId, Event, FlowFacts, FlowId, History, Instant, Message, Nanos, PolicyFactory,
    PortId, Priority, Setting, Target, TaskId, Terms,
};
use cavalcade_protocol::{CoflowKey, Facts, FlowOrder, Gate, Rank, Statement};

use crate::allocation::{Contender, Filled, Filling, Listed};
use crate::desk::{Desk, Kept};
use crate::explanation::Explanation;
use crate::numbering::Numbering;
use crate::patience::{Sender, Senders, Ways, stall_at};
use crate::table::{Coflow, Flow, FlowName, Table, UNTOLD};

/// Time that a coflow is remembered which only messages of other hosts have named.
const REMEMBERED: Nanos = Nanos::from_secs(60);

/// The source of policies.
pub type Factory = Box<dyn PolicyFactory + Send>;

/// A policy that is driven by reports.
pub(crate) struct Hosted {
    factory: Factory,
    terms: Terms,
    host: PolicyHost<Instant>,
    line_rate: BitsPerSec,
    table: Table,
    kept: Kept,
    task_ids: Numbering<u64>,
    /// Active coflows of each task.
    of_task: BTreeMap<u64, usize>,
    /// Coflows known only from messages of other hosts, and when those came.
    reported_by_peers: BTreeMap<CoflowKey, Instant>,
    /// Coflows that have got flows since the policy's last event about them.
    fresh: BTreeSet<CoflowId>,
    /// Time that hosts and their users were waited for.
    patience: Senders,
    /// The same as receivers confirm it, where confirmation is on.
    ways: Option<Ways>,
    /// True if the network holds to the classes of packets.
    by_class: bool,
}

/// The place of the one instance.
const HERE: u32 = 0;

impl std::fmt::Debug for Hosted {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Hosted")
            .field("table", &self.table)
            .field("kept", &self.kept)
            .field("fresh", &self.fresh)
            .field("patience", &self.patience)
            .field("ways", &self.ways)
            .finish_non_exhaustive()
    }
}

impl Hosted {
    /// An instance of `factory`'s policy for a site of `hosts` hosts and what is outside of it;
    /// links are taken to have `line_rate` until a host reports its own (`set_capacity`).
    pub(crate) fn new(factory: Factory, hosts: u32, line_rate: BitsPerSec) -> Self {
        let table = Table::new(hosts, line_rate);
        let host = build(&*factory, table.ports(), line_rate);
        Self {
            terms: factory.terms(),
            factory,
            host,
            line_rate,
            table,
            kept: Kept::default(),
            task_ids: Numbering::default(),
            of_task: BTreeMap::new(),
            reported_by_peers: BTreeMap::new(),
            fresh: BTreeSet::new(),
            patience: Senders::new(Nanos(u64::MAX)),
            ways: None,
            by_class: false,
        }
    }

    /// Leaves priorities to the network, where `by_class` is true: it serves packets by their
    /// classes.
    pub(crate) fn with_classes(self, by_class: bool) -> Self {
        Self { by_class, ..self }
    }

    /// Sets the time for which flows that may send are waited for at most, where
    /// [`Hosted::rest_stalled`] is called, and whether receivers report arrivals
    /// ([`Hosted::confirm_way`]).
    pub(crate) fn with_stall(self, stall: Nanos, confirm: bool) -> Self {
        Self {
            patience: Senders::new(stall),
            ways: confirm.then(|| Ways::new(stall, self.table.hosts())),
            ..self
        }
    }

    /// Sets the rates at which a host can send, to others as to what is outside, and receive.
    pub(crate) fn set_capacity(&mut self, port: PortId, up: BitsPerSec, down: BitsPerSec) {
        let ([sending, outside], receiving) = self.table.links_of_host(port);
        for (link, rate) in [(sending, up), (outside, up), (receiving, down)] {
            let known = &mut self.table.capacity[link as usize];
            let rate = if rate == BitsPerSec::ZERO { self.line_rate } else { rate };
            self.kept.is_dirty |= std::mem::replace(known, rate) != rate;
        }
    }

    /// A coflow appears, or more is known of one.
    pub(crate) fn open_coflow(&mut self, now: Instant, key: CoflowKey, facts: Option<Facts>) {
        self.reported_by_peers.remove(&key);
        if let Some(id) = self.active(key) {
            let record = self.table.coflows.get_mut(&id).expect("an active coflow has a record");
            if record.facts.is_none() && facts.is_some() {
                record.facts = facts;
                self.announce_anew(now, id);
            }
            return;
        }
        if self.kept.coflow_ids.assign(key).is_none() || self.task_ids.assign(key.task).is_none() {
            self.rebuild(now);
        }
        let id = self.kept.coflow_ids.assign(key).expect("there is room after renumbering");
        let task = self.task_ids.assign(key.task).expect("there is room after renumbering");
        let (id, task) = (CoflowId(id), TaskId(task));
        let (flows, priority) = (BTreeMap::new(), Priority::default());
        let (attained, is_announced, done_at) = (0, false, None);
        let coflow = Coflow { key, task, facts, attained, flows, priority, is_announced, done_at };
        self.table.coflows.insert(id, coflow);
        *self.of_task.entry(key.task).or_default() += 1;
        self.kept.changed.insert(key);
    }

    /// A coflow is over.
    pub(crate) fn close_coflow(&mut self, now: Instant, key: CoflowKey) {
        let Some(id) = self.active(key) else { return };
        let flows: Vec<FlowId> = self.table.coflows[&id].flows.values().copied().collect();
        flows.into_iter().for_each(|flow| self.close_flow(now, flow));
        if self.table.coflows[&id].is_announced {
            self.dispatch(now, Event::CoflowFinished(id));
        }
        self.forget(Target::Coflow(id));
        self.fresh.remove(&id);
        self.table.coflows.remove(&id);
        self.kept.coflow_ids.remove(key);
        if let Some(left) = self.of_task.get_mut(&key.task) {
            *left -= 1;
            if *left == 0 {
                self.of_task.remove(&key.task);
                self.task_ids.remove(key.task);
            }
        }
        self.kept.changed.remove(&key);
        self.settle(now);
    }

    /// A flow of an active coflow appears; what it has sent already counts as sent by the coflow
    /// now. `None` where there is no such coflow or port.
    pub(crate) fn open_flow(
        &mut self,
        now: Instant,
        key: CoflowKey,
        name: FlowName,
        flow: NewFlow,
    ) -> Option<FlowId> {
        let id = self.active(key)?;
        if !self.table.joins(name.0, flow.to) {
            return None;
        }
        let facts = FlowFacts { coflow: id, src: name.0, dst: flow.to };
        let NewFlow { user, size, sent, idle, counts, .. } = flow;
        let is_unconfirmed = self.ways.as_mut().is_some_and(|ways| ways.distrusts(now, facts));
        let flow = self.table.insert(Flow {
            facts,
            number: name.1,
            user,
            size,
            sent,
            idle,
            is_stalled: self.patience.distrusts(now, Sender { port: name.0, user }),
            is_drained: false,
            moved_at: now,
            awaited_since: now,
            is_unconfirmed,
            counts,
            priority: None,
            cap: None,
            told: UNTOLD,
            is_served: false,
        });
        let coflow = self.table.coflows.get_mut(&id).expect("an active coflow has a record");
        coflow.flows.insert(name, flow);
        coflow.attained = coflow.attained.saturating_add(if counts { sent } else { 0 });
        let is_announced = coflow.is_announced;
        self.kept.is_dirty = true;
        self.fresh.insert(id);
        if is_announced && self.terms.flow_events {
            self.dispatch(now, Event::FlowArrived(flow));
        }
        self.check(Target::Coflow(id));
        self.settle(now);
        Some(flow)
    }

    /// A flow has sent so many bytes in all, and may have run dry or got data again.
    pub(crate) fn progress(&mut self, now: Instant, flow: FlowId, sent: u64, idle: bool) {
        let Some(record) = self.table.find_mut(flow) else { return };
        let id = record.facts.coflow;
        let before = std::mem::replace(&mut record.sent, sent);
        if sent > before {
            record.moved_at = now;
            self.kept.is_dirty |= std::mem::take(&mut record.is_stalled);
            self.patience.moved(record.sender());
        } else if record.idle && !idle {
            record.is_stalled |= self.patience.distrusts(now, record.sender());
        }
        self.kept.is_dirty |= std::mem::replace(&mut record.idle, idle) != idle;
        if record.counts {
            self.add_attained(now, id, sent as i128 - before as i128);
        }
        self.check(Target::Flow(flow));
        self.settle(now);
    }

    /// A flow is over; what it has sent goes on counting for its coflow.
    pub(crate) fn close_flow(&mut self, now: Instant, flow: FlowId) {
        let Some(record) = self.table.find(flow) else { return };
        let (id, name) = (record.facts.coflow, record.name());
        if record.is_served {
            self.patience.give_up(now, record.sender(), record.moved_at);
            self.ways.iter_mut().for_each(|ways| ways.give_up(now, record.facts, record.awaited_since));
        }
        self.kept.is_dirty = true;
        if self.terms.flow_events && self.table.coflows[&id].is_announced {
            self.dispatch(now, Event::FlowFinished(flow));
        }
        self.forget(Target::Flow(flow));
        self.table.remove(flow);
        if let Some(coflow) = self.table.coflows.get_mut(&id) {
            coflow.flows.remove(&name);
            if coflow.flows.is_empty() {
                coflow.done_at = Some(now);
            }
        }
        self.settle(now);
    }

    /// Records progress of a flow which is about to be closed.
    pub(crate) fn note_moved(&mut self, flow: FlowId) {
        if let Some(flow) = self.table.find(flow) {
            self.patience.moved(flow.sender());
        }
    }

    /// A coflow has sent `more` bytes besides those of its open flows; negative where a crash has
    /// taken bytes back.
    pub(crate) fn adjust(&mut self, now: Instant, key: CoflowKey, more: i128) {
        let Some(id) = self.active(key) else { return };
        self.add_attained(now, id, more);
        self.settle(now);
    }

    fn add_attained(&mut self, now: Instant, id: CoflowId, more: i128) {
        let coflow = self.table.coflows.get_mut(&id).expect("an active coflow has a record");
        coflow.attained = (i128::from(coflow.attained) + more).clamp(0, i128::from(u64::MAX)) as u64;
        if more < 0 {
            self.announce_anew(now, id);
        } else if more > 0 {
            self.check(Target::Coflow(id));
        }
        // Where equals share by what remains, every byte matters.
        self.kept.is_dirty |= more != 0 && self.terms.discipline != cavalcade_model::Discipline::MaxMin;
    }

    /// Handles a message of an instance at another host.
    pub(crate) fn receive(&mut self, now: Instant, from: PortId, statement: Statement) {
        let key = statement.coflow;
        if self.active(key).is_none() {
            self.reported_by_peers.retain(|_, at| now.since(*at) <= REMEMBERED);
            self.reported_by_peers.insert(key, now);
            let (reported_by_peers, coflows) = (&self.reported_by_peers, &self.table.coflows);
            self.kept
                .coflow_ids
                .retain(|key, id| reported_by_peers.contains_key(key) || coflows.contains_key(&CoflowId(id)));
        }
        if self.kept.coflow_ids.assign(key).is_none() {
            self.rebuild(now);
        }
        let Some(id) = self.kept.coflow_ids.assign(key) else { return };
        let message = Message { coflow: CoflowId(id), payload: statement.payload };
        self.dispatch(now, Event::Received { from, message });
        self.settle(now);
    }

    /// Returns the time of the policy's next wake-up.
    pub(crate) fn wake_at(&self) -> Option<Instant> {
        self.host.next_wake()
    }

    /// Wakes the policy if its time has come.
    pub(crate) fn wake(&mut self, now: Instant) {
        self.settle(now);
    }

    /// Returns whether the policy has messages to other hosts.
    pub(crate) fn has_statements(&self) -> bool {
        !self.kept.statements.is_empty()
    }

    /// Takes the policy's messages to other hosts.
    pub(crate) fn take_statements(&mut self) -> Vec<(PortId, Statement)> {
        std::mem::take(&mut self.kept.statements)
    }

    /// The coflows whose priorities have changed, ascending.
    pub(crate) fn take_changed(&mut self) -> BTreeSet<CoflowKey> {
        std::mem::take(&mut self.kept.changed)
    }

    /// The priority that holds for a coflow; the highest where it is not known.
    pub(crate) fn priority(&self, key: CoflowKey) -> Priority {
        self.active(key).map(|id| self.table.coflows[&id].priority).unwrap_or_default()
    }

    /// A coflow that is active.
    pub(crate) fn coflow(&self, key: CoflowKey) -> Option<&Coflow> {
        self.table.coflows.get(&self.active(key)?)
    }

    /// Has gates computed again: what is drained has changed.
    pub(crate) fn look_again(&mut self) {
        self.kept.is_dirty = true;
    }

    /// Returns the bytes that a coflow has sent.
    pub(crate) fn attained(&self, key: CoflowKey) -> Option<Bytes> {
        self.active(key).map(|id| Bytes(self.table.coflows[&id].attained))
    }

    /// All active coflows with their flows, in the order of keys.
    pub(crate) fn coflows(&self) -> impl Iterator<Item = &Coflow> {
        self.table.coflows.values()
    }

    /// Returns whether the priority of some coflow has changed since [`Hosted::take_changed`].
    pub(crate) fn has_changed(&self) -> bool {
        !self.kept.changed.is_empty()
    }

    /// The flow `id`, if it is still the one that is called `name`: numbers are used again.
    pub(crate) fn find(&self, id: FlowId, name: FlowName) -> Option<&Flow> {
        self.table.find(id).filter(|flow| flow.name() == name)
    }

    /// The priority of the coflow of a flow that was found.
    pub(crate) fn priority_of(&self, flow: &Flow) -> Priority {
        self.table.coflows.get(&flow.facts.coflow).map(|coflow| coflow.priority).unwrap_or_default()
    }

    /// The flow of a coflow that is called `name`.
    pub(crate) fn named(&self, key: CoflowKey, name: FlowName) -> Option<FlowId> {
        let id = self.active(key)?;
        self.table.coflows[&id].flows.get(&name).copied()
    }

    /// Returns whether gates may differ from those that [`Hosted::decide`] gave last.
    pub(crate) fn is_dirty(&self) -> bool {
        self.kept.is_dirty
    }

    /// Returns how many flows there are.
    pub(crate) fn flows(&self) -> usize {
        self.table.flows()
    }

    /// Returns whether there are any flows.
    pub(crate) fn has_flows(&self) -> bool {
        self.table.has_flows()
    }

    /// Returns the time for which a flow that may send is waited for.
    pub(crate) fn stall(&self) -> Nanos {
        self.patience.stall()
    }

    /// Marks flows idle that were allowed to send but made no progress within the stall, as counted
    /// by sender or receiver.
    pub(crate) fn rest_stalled(&mut self, now: Instant) -> Stalled {
        let mut stalled = Stalled::default();
        let stall = self.patience.stall();
        for flow in self.table.flows_mut().filter(|flow| flow.is_served && !flow.rests()) {
            let (facts, since) = (flow.facts, flow.awaited_since);
            if now.since(flow.moved_at) >= stall_at(flow.told.gate, stall) {
                flow.is_stalled = true;
                stalled.unmoved += 1;
                self.patience.give_up(now, flow.sender(), flow.moved_at);
            } else if self.ways.as_mut().is_some_and(|ways| ways.rests(now, facts, since)) {
                flow.is_unconfirmed = true;
                stalled.unconfirmed += 1;
            }
        }
        self.kept.is_dirty |= stalled.unmoved > 0 || stalled.unconfirmed > 0;
        stalled
    }

    /// A receiver has confirmed arrivals from a port: flows between the two are no longer idle.
    pub(crate) fn confirm_way(&mut self, now: Instant, from: PortId, to: PortId) {
        let rested = self.ways.as_mut().is_some_and(|ways| ways.grew(now, (from, to)));
        if !rested {
            return;
        }
        for flow in self.table.flows_mut().filter(|flow| (flow.facts.src, flow.facts.dst) == (from, to)) {
            if std::mem::take(&mut flow.is_unconfirmed) {
                flow.awaited_since = now;
                self.kept.is_dirty = true;
            }
        }
    }

    /// Lists all flows, in the order of coflows and names, and those that contend: that neither
    /// rest nor are of a coflow and sender that `is_drained`, which go as plain TCP; all do where
    /// the policy has failed.
    pub(crate) fn list(&mut self, mut is_drained: impl FnMut(CoflowKey, PortId) -> bool) -> Filling {
        self.kept.is_dirty = false;
        let has_failed = self.host.fault().is_some();
        let (mut flows, mut contenders) = (Vec::with_capacity(self.flows()), Vec::new());
        for (place, coflow) in self.table.coflows.values().enumerate() {
            for (&name, &id) in &coflow.flows {
                let flow = self.table.find(id).expect("a named flow has a record");
                let is_drained = is_drained(coflow.key, flow.facts.src) || has_failed;
                let contends = !flow.rests() && !is_drained;
                flows.push(Listed { id, name, is_drained, contends });
                if contends {
                    contenders.push(Contender {
                        links: self.table.links(flow),
                        coflow: place as u32,
                        priority: flow.priority.unwrap_or(coflow.priority),
                        remaining: flow.size.map_or(1e15, |_| flow.remaining().max(1) as f64),
                        is_served: flow.is_served,
                        cap: flow.cap,
                    });
                }
            }
        }
        let (terms, capacity) = (self.terms.clone(), self.table.capacity.clone());
        Filling { terms, capacity, flows, contenders, by_class: self.by_class }
    }

    /// Takes over gates that were found, but for flows that are over by now; hands over each flow,
    /// with the order that it had before and the one that it has now.
    pub(crate) fn decide(
        &mut self,
        now: Instant,
        filled: Filled,
        mut tell: impl FnMut(FlowName, FlowOrder, FlowOrder),
    ) {
        let mut gates = filled.gates.into_iter();
        let mut let_go = Vec::new();
        for Listed { id, name, is_drained, contends } in filled.flows {
            let gate = if contends { gates.next().unwrap_or_default() } else { Gate::default() };
            let Some(flow) = self.table.find_mut(id).filter(|flow| flow.name() == name) else { continue };
            flow.is_drained = is_drained;
            let was_served = std::mem::replace(&mut flow.is_served, contends && gate != Gate::Off {});
            match (was_served, flow.is_served) {
                (true, false) => {
                    self.patience.give_up(now, flow.sender(), flow.moved_at);
                    self.ways.iter_mut().for_each(|ways| ways.give_up(now, flow.facts, flow.awaited_since));
                }
                (false, true) => let_go.push(id),
                _ => {}
            }
            let rank = match flow.priority {
                _ if is_drained => Rank::Plain {},
                None => Rank::OfCoflow {},
                Some(priority) => Rank::Own { priority },
            };
            let order = FlowOrder { gate, rank };
            let before = std::mem::replace(&mut flow.told, order);
            tell(name, before, order);
        }
        self.begin_waiting(now, let_go);
    }

    /// Begins to wait for flows that are let go; where their host or user has used up all patience,
    /// they rest from the next decision on.
    fn begin_waiting(&mut self, now: Instant, flows: Vec<FlowId>) {
        for id in flows {
            let flow = self.table.find_mut(id).expect("a flow that was just decided has a record");
            flow.moved_at = self.patience.begins_at(now, flow.sender());
            flow.is_stalled |= now.since(flow.moved_at) >= self.patience.stall();
            if let Some(ways) = &mut self.ways {
                (flow.awaited_since, flow.is_unconfirmed) = ways.let_go(now, flow.facts);
            }
            self.kept.is_dirty |= flow.is_stalled || flow.is_unconfirmed;
        }
    }

    /// Why a coflow's flows go as they do.
    pub(crate) fn explain(&self, key: CoflowKey) -> Option<Explanation> {
        self.active(key).map(|id| crate::explanation::explain(&self.table, id))
    }

    /// A flow that was named by [`Hosted::coflows`].
    pub(crate) fn flow(&self, id: FlowId) -> &Flow {
        self.table.find(id).expect("a named flow has a record")
    }

    fn active(&self, key: CoflowKey) -> Option<CoflowId> {
        self.kept.coflow_ids.get(key).map(CoflowId).filter(|id| self.table.coflows.contains_key(id))
    }

    /// Hands one event to the policy and carries out what it decides. Where that costs much, the
    /// policy may put it off until the next round ([`Hosted::announce_fresh`]): a round may have as
    /// many events as there are coflows.
    fn dispatch(&mut self, now: Instant, event: Event) {
        self.host.dispatch_one_of_several(HERE, now, event, &self.table);
        self.carry_out(now);
    }

    fn carry_out(&mut self, now: Instant) {
        self.host.carry_out(now, now, &mut Desk { kept: &mut self.kept, table: &mut self.table });
        self.kept.is_dirty |= self.host.fault().is_some() || self.host.is_put_off();
    }

    /// The policy's error, if it has failed: from then on all flows go as plain TCP.
    pub(crate) fn policy_fault(&self) -> Option<&PolicyFault> {
        self.host.fault()
    }

    /// Records a watched amount that has been reached.
    fn check(&mut self, target: Target) {
        if self.kept.watches.get(&target).is_some_and(|&bytes| bytes <= self.table.sent_by(target)) {
            self.kept.watches.remove(&target);
            self.host.reach(target, HERE);
        }
    }

    fn forget(&mut self, target: Target) {
        self.kept.watches.remove(&target);
        self.host.forget(target, HERE);
    }

    /// Delivers reached amounts to the policy, also those of watches that it sets meanwhile, and
    /// wakes it where that is due.
    fn settle(&mut self, now: Instant) {
        while let Some((_, event)) = self.host.next(now, now) {
            self.dispatch(now, event);
        }
    }

    /// Delivers to the policy the arrivals of coflows whose flows have appeared. A coflow arrives
    /// at its first flow, and flows that appeared together are seen together. Hosts report one
    /// after the other, so that a coflow may be seen in parts; a policy that goes by sizes then
    /// looks at it again with each part, as no part shows the whole. Has the policy decide what it
    /// has put off.
    pub(crate) fn announce_fresh(&mut self, now: Instant) {
        let goes_by_sizes = self.host.is_clairvoyant(HERE);
        for id in std::mem::take(&mut self.fresh) {
            let Some(coflow) = self.table.coflows.get_mut(&id) else { continue };
            if !std::mem::replace(&mut coflow.is_announced, true) {
                self.announce(now, id);
            } else if goes_by_sizes {
                self.announce_anew(now, id);
            }
        }
        if self.host.is_put_off() {
            self.host.dispatch(HERE, now, Event::Wake, &self.table);
            self.carry_out(now);
            self.settle(now);
        }
    }

    /// Has a coflow end and arrive again for the policy, so that it looks at it as it is now.
    fn announce_anew(&mut self, now: Instant, id: CoflowId) {
        if !self.table.coflows[&id].is_announced {
            return;
        }
        let flows: Vec<FlowId> = self.table.coflows[&id].flows.values().copied().collect();
        if self.terms.flow_events {
            flows.iter().for_each(|&flow| self.dispatch(now, Event::FlowFinished(flow)));
        }
        self.dispatch(now, Event::CoflowFinished(id));
        flows.iter().for_each(|&flow| self.forget(Target::Flow(flow)));
        self.forget(Target::Coflow(id));
        self.announce(now, id);
    }

    fn announce(&mut self, now: Instant, id: CoflowId) {
        self.dispatch(now, Event::CoflowArrived(id));
        if self.terms.flow_events {
            let flows: Vec<FlowId> = self.table.coflows[&id].flows.values().copied().collect();
            flows.into_iter().for_each(|flow| self.dispatch(now, Event::FlowArrived(flow)));
        }
        self.settle(now);
    }

    /// A fresh policy with new numbers for all coflows.
    fn rebuild(&mut self, now: Instant) {
        self.kept.coflow_ids.renumber();
        self.task_ids.renumber();
        self.host = build(&*self.factory, self.table.ports(), self.line_rate);
        self.kept.watches.clear();
        let coflows = std::mem::take(&mut self.table.coflows);
        for mut coflow in coflows.into_values() {
            let id =
                self.kept.coflow_ids.get(coflow.key).map(CoflowId).expect("an active coflow is numbered");
            coflow.task = self.task_ids.get(coflow.key.task).map(TaskId).expect("and so is its task");
            for &flow in coflow.flows.values() {
                if let Some(flow) = self.table.find_mut(flow) {
                    flow.facts.coflow = id;
                }
            }
            self.table.coflows.insert(id, coflow);
        }
        self.fresh.clear();
        let announced: Vec<CoflowId> =
            self.table.coflows.iter().filter(|(_, coflow)| coflow.is_announced).map(|(&id, _)| id).collect();
        announced.into_iter().for_each(|id| self.announce(now, id));
        let unannounced = self.table.coflows.iter().filter(|(_, coflow)| !coflow.is_announced);
        self.fresh = unannounced.map(|(&id, _)| id).collect();
    }
}

/// A flow that appears.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NewFlow {
    pub(crate) to: PortId,
    /// The owner of its coflow at the sending host.
    pub(crate) user: u32,
    pub(crate) size: Option<u64>,
    pub(crate) sent: u64,
    pub(crate) idle: bool,
    /// True if its bytes count for its coflow as they are reported.
    pub(crate) counts: bool,
}

impl NewFlow {
    /// A flow whose agent is trusted.
    pub(crate) fn new(to: PortId, user: u32, size: Option<u64>, sent: u64) -> Self {
        Self { to, user, size, sent, idle: false, counts: true }
    }
}

/// Flows that may send and make no progress.
#[derive(Debug, Default)]
pub(crate) struct Stalled {
    /// Number of those without progress at their senders.
    pub(crate) unmoved: u64,
    /// Number of those of which nothing arrives at receivers.
    pub(crate) unconfirmed: u64,
}

fn build(factory: &dyn PolicyFactory, ports: u32, line_rate: BitsPerSec) -> PolicyHost<Instant> {
    let policy = factory.build(&Setting { ports, line_rate, history: &History::default() });
    PolicyHost::new(vec![policy], &factory.terms(), 0.0, 0)
}
