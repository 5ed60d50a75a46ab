//! A policy beside the packets: what its instances see of them, and what they decide about their
//! priorities.
//!
//! The contract is the one of every driver (`cavalcade_model::contract`). Attained service is
//! payload that has been sent at least once, counted where it is sent; what has finished has
//! arrived in whole. Decisions become the class and order that a flow's packets carry from then on;
//! packets under way keep theirs, as in a network.
//!
//! Instances stand at the fabric or at hosts. A policy per link would have to give a packet another
//! priority at each link, which no header holds; it is refused.
//!
//! # What differs from the fluid driver
//! - A cap holds a sender's packets back (`pace`); one that is above what its transport does
//!   changes nothing.
//! - Messages between hosts can cross the network themselves ([`Options::in_band`]): the engine
//!   sends what it finds in `outbox`, and says what has arrived. Else they take the control delay.

use std::collections::BTreeMap;

use cavalcade_harness::{Account, Accounts, Driver, PolicyFault, PolicyHost, Release, Watch};
use cavalcade_model::{
    BitsPerSec, Bytes, ClassShares, CoflowFacts, CoflowId, Contended, Event, Fabric, FlowFacts, FlowId,
    Foresee, History, Instant, Iteration, LinkId, Message, Nanos, Observe, Path, PolicyFactory, PortId,
    Priority, Scope, Target, Workload,
};

use crate::error::SimulationError;
use crate::negotiation::Outgoing;
use crate::network::Network;
use crate::options::Options;

/// Bytes sent of an account.
#[derive(Clone, Copy, Debug)]
struct Tally {
    sent: u64,
    /// The amount at which the policy is to be told; never, where it has none in mind.
    watch: u64,
}

/// Stands for no watch.
const UNWATCHED: u64 = u64::MAX;

/// State of the flows.
struct Books<'a> {
    workload: &'a Workload,
    fabric: Fabric,
    /// The links on which flows are rivals.
    links: Contended,
    /// For each flow: payload sent, whether it has arrived, whether it has finished.
    sent: Vec<u64>,
    arrived: Vec<bool>,
    finished: Vec<bool>,
    accounts: Accounts,
    /// By account.
    tallies: Vec<Tally>,
}

/// A policy's instances and what they have asked for.
pub(crate) struct Coupling<'a> {
    books: Books<'a>,
    flow_events: bool,
    /// The weight of each class, where the policy weighs flows.
    weights: Option<Vec<u32>>,
    host: PolicyHost<Instant>,
    /// Decisions of the policy in force.
    pub(crate) held: Held,
    /// True if messages are to cross the network.
    over_network: bool,
    control_delay: Nanos,
    /// Latest time passed to the policy; monotonic.
    clock: Instant,
}

/// Decisions of a policy in force.
pub(crate) struct Held {
    priorities: Vec<Priority>,
    /// Flows whose priority was set since the engine last looked.
    pub(crate) changes: Vec<(u32, Priority)>,
    /// Flows whose cap was set since then.
    pub(crate) caps: Vec<(u32, Option<BitsPerSec>)>,
    /// The caps that hold.
    capped: BTreeMap<u32, BitsPerSec>,
    flow_watches: BTreeMap<u32, u64>,
    /// Messages that are to cross the network.
    pub(crate) outbox: Vec<Outgoing>,
    /// Number of those so far.
    posted: u64,
}

/// Carries decisions out.
struct Desk<'c, 'a> {
    books: &'c mut Books<'a>,
    held: &'c mut Held,
    over_network: bool,
}

impl<'a> Coupling<'a> {
    /// Instances of a policy for all flows of `workload`.
    ///
    /// # Errors
    /// If the policy decides per link.
    pub(crate) fn new(
        workload: &'a Workload,
        network: &Network,
        factory: &dyn PolicyFactory,
        options: &Options,
    ) -> Result<Self, SimulationError> {
        let terms = factory.terms();
        if terms.scope == Scope::Link {
            return Err(SimulationError::LinkScope);
        }
        let fabric = network.fabric();
        let policies = terms.scope.instances(factory, fabric, &History::of(workload));
        let flows = workload.flows().len();
        let books = Books {
            workload,
            links: terms.scope.links(fabric),
            fabric: fabric.clone(),
            sent: vec![0; flows],
            arrived: vec![false; flows],
            finished: vec![false; flows],
            accounts: Accounts::new(terms.scope, workload),
            tallies: Vec::new(),
        };
        Ok(Self {
            books,
            flow_events: terms.flow_events,
            weights: match &terms.shares {
                ClassShares::OfFlows { weights } => Some(weights.clone()),
                ClassShares::Strict | ClassShares::Weighted { .. } => None,
            },
            host: PolicyHost::new(policies, &terms, options.control_loss, options.seed),
            held: Held {
                priorities: vec![Priority::default(); flows],
                changes: Vec::new(),
                caps: Vec::new(),
                capped: BTreeMap::new(),
                flow_watches: BTreeMap::new(),
                outbox: Vec::new(),
                posted: 0,
            },
            over_network: options.in_band && terms.scope == Scope::Host,
            control_delay: options.control_delay,
            clock: Instant::ZERO,
        })
    }

    /// The priority of a flow.
    pub(crate) fn priority(&self, flow: u32) -> Priority {
        self.held.priorities[flow as usize]
    }

    /// What a priority says of a flow's weight, in thousandths, where the policy weighs flows.
    pub(crate) fn weight(&self, priority: Priority) -> Option<u32> {
        let weights = self.weights.as_ref()?;
        weights.get(usize::from(priority.class)).or(weights.last()).copied()
    }

    /// The cap of a flow.
    pub(crate) fn cap(&self, flow: u32) -> Option<BitsPerSec> {
        self.held.capped.get(&flow).copied()
    }

    /// Calls of the policy, and messages between its instances.
    pub(crate) fn counts(&self) -> (u64, u64) {
        (self.host.calls(), self.host.messages() + self.held.posted)
    }

    /// The mistake by which the policy has failed, if it has.
    pub(crate) fn fault(&self) -> Option<&PolicyFault> {
        self.host.fault()
    }

    /// Returns the latest time passed to the policy.
    #[cfg(test)]
    pub(crate) fn now(&self) -> Instant {
        self.clock
    }

    /// Returns the time at which [`Coupling::settle`] has something to do.
    pub(crate) fn next(&self) -> Option<Instant> {
        if self.host.has_amounts() {
            return Some(self.clock);
        }
        self.host.next_message().into_iter().chain(self.host.next_wake()).min()
    }

    /// Of `flow`, `bytes` have now been sent in all. Returns whether an amount was reached that is
    /// watched.
    pub(crate) fn sent(&mut self, flow: u32, bytes: Bytes) -> bool {
        let more = bytes.get() - self.books.sent[flow as usize];
        if more == 0 {
            return false;
        }
        self.books.sent[flow as usize] = bytes.get();
        let account = self.books.account_of(flow);
        let Account { coflow, place, .. } = self.books.accounts[account];
        let tally = &mut self.books.tallies[account as usize];
        tally.sent += more;
        let mut reached = false;
        if tally.sent >= tally.watch {
            tally.watch = UNWATCHED;
            self.host.reach(Target::Coflow(coflow), place);
            reached = true;
        }
        if self.held.flow_watches.get(&flow).is_some_and(|&watch| bytes.get() >= watch) {
            self.held.flow_watches.remove(&flow);
            self.host.reach(Target::Flow(FlowId(flow)), place);
            reached = true;
        }
        reached
    }

    /// Flows appear, and the policy is told.
    pub(crate) fn release(&mut self, now: Instant, releases: &[Release], arrivals: &[Instant]) {
        for release in releases {
            let &Release::Flows { first, end, coflow, .. } = release else { continue };
            self.books.open(coflow);
            for flow in first..end {
                self.books.arrived[flow as usize] = true;
                let account = self.books.account_of(flow);
                let size = self.books.workload.flow(FlowId(flow)).size.get();
                self.books.accounts[account].arrived += size;
            }
        }
        self.advance(now);
        for release in releases {
            let &Release::Flows { first, end, .. } = release else { continue };
            for flow in first..end {
                self.announce(flow, arrivals);
            }
        }
        self.settle(now, arrivals);
    }

    fn announce(&mut self, flow: u32, arrivals: &[Instant]) {
        let account = self.books.account_of(flow);
        let record = &mut self.books.accounts[account];
        let (place, coflow) = (record.place, record.coflow);
        if !std::mem::replace(&mut record.announced, true) {
            self.dispatch(place, Event::CoflowArrived(coflow), arrivals);
        }
        if self.flow_events {
            self.dispatch(place, Event::FlowArrived(FlowId(flow)), arrivals);
        }
    }

    /// Everything of a flow has arrived; its coflow has finished with it if `over`.
    pub(crate) fn finished(&mut self, flow: u32, now: Instant, over: bool, arrivals: &[Instant]) {
        self.advance(now);
        self.books.finished[flow as usize] = true;
        self.held.flow_watches.remove(&flow);
        self.held.capped.remove(&flow);
        let account = self.books.account_of(flow);
        let record = &mut self.books.accounts[account];
        record.flows_left -= 1;
        let (place, coflow, left) = (record.place, record.coflow, record.flows_left);
        self.host.forget(Target::Flow(FlowId(flow)), place);
        if self.flow_events {
            self.dispatch(place, Event::FlowFinished(FlowId(flow)), arrivals);
        }
        if left == 0 {
            self.dispatch(place, Event::CoflowFinished(coflow), arrivals);
            self.books.accounts.close(coflow, place);
            self.host.forget(Target::Coflow(coflow), place);
        }
        assert!(!over || !self.books.accounts.is_open(coflow), "a coflow ends at all of its places");
        self.settle(now, arrivals);
    }

    /// A message has crossed the network.
    pub(crate) fn received(&mut self, outgoing: Outgoing, now: Instant, arrivals: &[Instant]) {
        let Outgoing { from, to, message } = outgoing;
        self.advance(now);
        self.dispatch(to, Event::Received { from: PortId(from), message }, arrivals);
        self.settle(now, arrivals);
    }

    /// Tells the instances all that has come due by `now`.
    pub(crate) fn settle(&mut self, now: Instant, arrivals: &[Instant]) {
        self.advance(now);
        while let Some((place, event)) = self.host.next(self.clock, self.clock) {
            self.dispatch(place, event, arrivals);
        }
    }

    fn advance(&mut self, now: Instant) {
        self.clock = self.clock.max(now);
    }

    /// Hands one event to the instance at `place` and notes what it decides.
    fn dispatch(&mut self, place: u32, event: Event, arrivals: &[Instant]) {
        let view = View { place, books: &self.books, arrivals };
        self.host.dispatch(place, self.clock, event, &view);
        let (over_network, arrival) = (self.over_network, self.clock + self.control_delay);
        let mut desk = Desk { books: &mut self.books, held: &mut self.held, over_network };
        self.host.carry_out(self.clock, arrival, &mut desk);
    }
}

impl Driver for Desk<'_, '_> {
    fn sees(&self, place: u32, target: Target) -> bool {
        let workload = self.books.workload;
        match target {
            Target::Coflow(coflow) => coflow.index() < workload.coflow_count(),
            Target::Flow(flow) => flow.index() < workload.flows().len() && self.books.is_at(flow, place),
        }
    }

    fn has_peer(&self, port: PortId) -> bool {
        port.0 < self.books.fabric.ports()
    }

    fn set_coflow(&mut self, place: u32, coflow: CoflowId, priority: Priority) {
        for flow in self.books.workload.flow_ids(coflow) {
            if self.books.is_at(FlowId(flow), place) {
                self.held.set_priority(flow, priority);
            }
        }
    }

    fn set_flow(&mut self, _place: u32, flow: FlowId, priority: Priority) {
        self.held.set_priority(flow.0, priority);
    }

    fn set_cap(&mut self, flow: FlowId, cap: Option<BitsPerSec>) {
        match cap {
            Some(rate) => drop(self.held.capped.insert(flow.0, rate)),
            None => drop(self.held.capped.remove(&flow.0)),
        }
        self.held.caps.push((flow.0, cap));
    }

    fn watch(&mut self, place: u32, target: Target, bytes: Bytes) -> Watch {
        match target {
            Target::Coflow(coflow) => self.books.watch_account(coflow, place, bytes.get()),
            Target::Flow(flow) => self.held.watch_flow(self.books, flow, bytes.get()),
        }
    }

    fn post(&mut self, from: u32, to: PortId, message: Message) -> bool {
        if self.over_network {
            self.held.outbox.push(Outgoing { from, to: to.0, message });
            self.held.posted += 1;
        }
        self.over_network
    }
}

impl Held {
    fn set_priority(&mut self, flow: u32, priority: Priority) {
        if std::mem::replace(&mut self.priorities[flow as usize], priority) != priority {
            self.changes.push((flow, priority));
        }
    }

    fn watch_flow(&mut self, books: &Books<'_>, flow: FlowId, bytes: u64) -> Watch {
        let at = flow.index();
        if books.finished[at] {
            return Watch::Void;
        }
        let place = books.sender(flow);
        if books.arrived[at] && books.sent[at] >= bytes {
            self.flow_watches.remove(&flow.0);
            return Watch::Reached(place);
        }
        self.flow_watches.insert(flow.0, bytes);
        Watch::Pending(place)
    }
}

impl Books<'_> {
    /// Returns the place of the instance that a flow belongs to.
    fn sender(&self, flow: FlowId) -> u32 {
        self.accounts.scope().sender(self.workload, flow)
    }

    fn is_at(&self, flow: FlowId, place: u32) -> bool {
        self.accounts.scope().sees(self.workload, &self.fabric, flow, place)
    }

    /// The account of a flow that has arrived and not finished.
    fn account_of(&self, flow: u32) -> u32 {
        self.accounts.of_flow(self.workload, &self.fabric, FlowId(flow))[0]
    }

    fn watch_account(&mut self, coflow: CoflowId, place: u32, bytes: u64) -> Watch {
        let Some(account) = self.accounts.find(coflow, place) else { return Watch::Void };
        let tally = &mut self.tallies[account as usize];
        let is_reached = tally.sent >= bytes;
        tally.watch = if is_reached { UNWATCHED } else { bytes };
        if is_reached { Watch::Reached(place) } else { Watch::Pending(place) }
    }

    /// Opens the accounts of an arriving coflow, if it has none.
    fn open(&mut self, coflow: CoflowId) {
        self.accounts.open(self.workload, &self.fabric, coflow);
        self.tallies.resize(self.accounts.count(), Tally { sent: 0, watch: UNWATCHED });
    }
}

/// View of the instance at one place.
struct View<'a> {
    place: u32,
    books: &'a Books<'a>,
    arrivals: &'a [Instant],
}

impl View<'_> {
    fn account(&self, coflow: CoflowId) -> Option<u32> {
        self.books.accounts.find(coflow, self.place)
    }

    fn size(&self, flow: FlowId) -> u64 {
        self.books.workload.flow(flow).size.get()
    }
}

impl Observe for View<'_> {
    fn coflow(&self, coflow: CoflowId) -> CoflowFacts {
        CoflowFacts::of(self.books.workload, coflow, self.arrivals[coflow.index()])
    }

    fn iteration(&self, coflow: CoflowId) -> Option<Iteration> {
        self.books.workload.iteration(coflow)
    }

    fn flow(&self, flow: FlowId) -> FlowFacts {
        FlowFacts::of(self.books.workload, flow)
    }

    fn flows(&self, coflow: CoflowId, visit: &mut dyn FnMut(FlowId)) {
        for flow in self.books.workload.flow_ids(coflow) {
            let at = flow as usize;
            if self.books.arrived[at]
                && !self.books.finished[at]
                && self.books.is_at(FlowId(flow), self.place)
            {
                visit(FlowId(flow));
            }
        }
    }

    fn attained(&self, coflow: CoflowId) -> Bytes {
        Bytes(self.account(coflow).map_or(0, |account| self.books.tallies[account as usize].sent))
    }

    fn flow_attained(&self, flow: FlowId) -> Bytes {
        Bytes(self.books.sent[flow.index()])
    }

    fn path(&self, flow: FlowId) -> Path {
        let record = self.books.workload.flow(flow);
        self.books.links.path(&self.books.fabric, record.src, record.dst)
    }

    fn capacity(&self, link: LinkId) -> BitsPerSec {
        self.books.fabric.capacity(link)
    }
}

impl Foresee for View<'_> {
    fn remaining(&self, coflow: CoflowId) -> Bytes {
        let left =
            |account: u32| self.books.accounts[account].arrived - self.books.tallies[account as usize].sent;
        Bytes(self.account(coflow).map_or(0, left))
    }

    fn flow_remaining(&self, flow: FlowId) -> Bytes {
        Bytes(self.size(flow) - self.books.sent[flow.index()])
    }

    fn loads(&self, coflow: CoflowId, visit: &mut dyn FnMut(LinkId, Bytes, BitsPerSec)) {
        let mut loads: BTreeMap<LinkId, u64> = BTreeMap::new();
        self.flows(coflow, &mut |flow| {
            let record = self.books.workload.flow(flow);
            for link in self.books.links.path(&self.books.fabric, record.src, record.dst) {
                *loads.entry(link).or_default() += self.flow_remaining(flow).get();
            }
        });
        for (link, bytes) in loads.into_iter().filter(|&(_, bytes)| bytes > 0) {
            visit(link, Bytes(bytes), self.books.fabric.capacity(link));
        }
    }
}
