//! A policy beside the packets: what its instances see of them, and what they decide about their priorities.
//!
//! The contract is the one of every driver (`cavalcade_model::contract`). Attained service is payload that has been sent at
//! least once, counted where it is sent; what has finished has arrived in whole. Decisions become the class and order that
//! a flow's packets carry from then on; packets under way keep theirs, as in a network.
//!
//! Instances stand at the fabric or at hosts. A policy per link would have to give a packet another priority at each link,
//! which no header holds; it is refused.
//!
//! # What differs from the fluid driver
//! - A cap holds a sender's packets back (`pace`); one that is above what its transport does changes nothing.
//! - A policy sees the fabric as a big switch of the hosts' links, whatever is between the racks.
//! - Messages take the control delay; they do not cross the simulated network.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap, VecDeque};

use cavalcade_model::{
    BitsPerSec, Bytes, CoflowFacts, CoflowId, Decision, Event, Fabric, FlowFacts, FlowId, Foresee, History,
    Instant, LinkId, Message, Nanos, Observe, Policy, PolicyFactory, PortId, Priority, Release, Scope,
    Setting, SplitMix64, Target, Workload,
};

use crate::error::SimulationError;
use crate::network::Network;
use crate::options::Options;

/// Turns at one and the same instant after which a policy is taken to be stuck.
const MAX_TURNS_AT_ONCE: u32 = 100_000;

/// What a coflow is at one place: the whole of it, or its subcoflow at a sender.
#[derive(Clone, Copy, Debug)]
struct Account {
    coflow: CoflowId,
    place: u32,
    /// Flows that have not finished, also those that have not arrived.
    flows_left: u32,
    arrived: u64,
    sent: u64,
    announced: bool,
    /// The amount at which the policy is to be told; never, where it has none in mind.
    watch: u64,
}

/// Nothing is watched.
const UNWATCHED: u64 = u64::MAX;

/// What is known of the flows.
struct Books<'a> {
    workload: &'a Workload,
    fabric: Fabric,
    scope: Scope,
    /// For each flow: payload sent, whether it has arrived, whether it has finished.
    sent: Vec<u64>,
    arrived: Vec<bool>,
    finished: Vec<bool>,
    accounts: Vec<Account>,
    /// For each coflow: (place, account), ascending, of the places where it has arrived and not finished.
    of_coflow: Vec<Vec<(u32, u32)>>,
}

struct Letter {
    due: Instant,
    from: u32,
    to: u32,
    message: Message,
}

/// A policy's instances and what they have asked for.
pub(crate) struct Coupling<'a> {
    books: Books<'a>,
    flow_events: bool,
    policies: Vec<Policy>,
    decision: Decision,
    priorities: Vec<Priority>,
    /// Flows whose priority was set since the engine last looked.
    pub(crate) changes: Vec<(u32, Priority)>,
    /// Flows whose cap was set since then.
    pub(crate) caps: Vec<(u32, Option<BitsPerSec>)>,
    /// The caps that hold.
    capped: BTreeMap<u32, BitsPerSec>,
    flow_watches: BTreeMap<u32, u64>,
    due_accounts: BTreeSet<(CoflowId, u32)>,
    due_flows: BTreeSet<u32>,
    letters: VecDeque<Letter>,
    wakes: BinaryHeap<Reverse<(Instant, u32)>>,
    wake_at: Vec<Option<Instant>>,
    control_delay: Nanos,
    control_loss: f64,
    random: SplitMix64,
    /// What the policy was last told as the time: it never goes back.
    clock: Instant,
    calls: u64,
    messages: u64,
}

impl<'a> Coupling<'a> {
    /// Instances of a policy for all flows of `workload`.
    ///
    /// # Errors
    /// Where the policy decides per link.
    pub(crate) fn new(
        workload: &'a Workload,
        network: &Network,
        factory: &dyn PolicyFactory,
        options: &Options,
    ) -> Result<Self, SimulationError> {
        let terms = factory.terms();
        let rate = |link: u32| network.links()[link as usize].rate;
        let out: Vec<_> = (0..network.hosts()).map(|host| rate(network.link_from(host))).collect();
        let into: Vec<_> = (0..network.hosts()).map(|host| rate(network.link_to(host))).collect();
        let fabric =
            Fabric::uneven_big_switch(&out, &into).expect("a network has hosts, and its links have rates");
        let places = match terms.scope {
            Scope::Fabric => 1,
            Scope::Host => network.hosts(),
            Scope::Link => return Err(SimulationError::LinkScope),
        };
        let history = History::new(workload.coflows().map(|coflow| coflow.size()))
            .with_flow_sizes(workload.flows().iter().map(|flow| flow.size));
        let fastest = out.iter().chain(&into).copied().max().unwrap_or_default();
        let instance = |place: u32| {
            let line_rate = if terms.scope == Scope::Host { out[place as usize] } else { fastest };
            factory.build(&Setting { ports: network.hosts(), line_rate, history: &history })
        };
        let policies = (0..places).map(instance).collect();
        let flows = workload.flows().len();
        let books = Books {
            workload,
            fabric,
            scope: terms.scope,
            sent: vec![0; flows],
            arrived: vec![false; flows],
            finished: vec![false; flows],
            accounts: Vec::new(),
            of_coflow: vec![Vec::new(); workload.coflow_count()],
        };
        Ok(Self {
            books,
            flow_events: terms.flow_events,
            policies,
            decision: Decision::default(),
            priorities: vec![Priority::default(); flows],
            changes: Vec::new(),
            caps: Vec::new(),
            capped: BTreeMap::new(),
            flow_watches: BTreeMap::new(),
            due_accounts: BTreeSet::new(),
            due_flows: BTreeSet::new(),
            letters: VecDeque::new(),
            wakes: BinaryHeap::new(),
            wake_at: vec![None; places as usize],
            control_delay: options.control_delay,
            control_loss: options.control_loss,
            random: SplitMix64::new(options.seed),
            clock: Instant::ZERO,
            calls: 0,
            messages: 0,
        })
    }

    /// The priority of a flow.
    pub(crate) fn priority(&self, flow: u32) -> Priority {
        self.priorities[flow as usize]
    }

    /// The cap of a flow.
    pub(crate) fn cap(&self, flow: u32) -> Option<BitsPerSec> {
        self.capped.get(&flow).copied()
    }

    /// Calls of the policy, and messages between its instances.
    pub(crate) fn counts(&self) -> (u64, u64) {
        (self.calls, self.messages)
    }

    /// When [`Coupling::settle`] has something to do.
    pub(crate) fn next(&self) -> Option<Instant> {
        if !self.due_accounts.is_empty() || !self.due_flows.is_empty() {
            return Some(self.clock);
        }
        let letter = self.letters.front().map(|letter| letter.due);
        let wake = self.wakes.peek().map(|&Reverse((when, _))| when);
        letter.into_iter().chain(wake).min()
    }

    /// Of `flow`, `bytes` have now been sent in all. Returns whether an amount was reached that is watched.
    pub(crate) fn sent(&mut self, flow: u32, bytes: Bytes) -> bool {
        let more = bytes.get() - self.books.sent[flow as usize];
        if more == 0 {
            return false;
        }
        self.books.sent[flow as usize] = bytes.get();
        let account = self.books.account_of(flow);
        let record = &mut self.books.accounts[account as usize];
        record.sent += more;
        let mut reached = false;
        if record.sent >= record.watch {
            record.watch = UNWATCHED;
            self.due_accounts.insert((record.coflow, account));
            reached = true;
        }
        if self.flow_watches.get(&flow).is_some_and(|&watch| bytes.get() >= watch) {
            self.flow_watches.remove(&flow);
            self.due_flows.insert(flow);
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
                self.books.accounts[account as usize].arrived += size;
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
        let record = &mut self.books.accounts[account as usize];
        let (place, coflow) = (record.place, record.coflow);
        if !std::mem::replace(&mut record.announced, true) {
            self.tell(place, Event::CoflowArrived(coflow), arrivals);
        }
        if self.flow_events {
            self.tell(place, Event::FlowArrived(FlowId(flow)), arrivals);
        }
    }

    /// Everything of a flow has arrived; its coflow has finished with it if `over`.
    pub(crate) fn finished(&mut self, flow: u32, now: Instant, over: bool, arrivals: &[Instant]) {
        self.advance(now);
        self.books.finished[flow as usize] = true;
        self.flow_watches.remove(&flow);
        self.due_flows.remove(&flow);
        self.capped.remove(&flow);
        let account = self.books.account_of(flow);
        let record = &mut self.books.accounts[account as usize];
        record.flows_left -= 1;
        let (place, coflow, left) = (record.place, record.coflow, record.flows_left);
        if self.flow_events {
            self.tell(place, Event::FlowFinished(FlowId(flow)), arrivals);
        }
        if left == 0 {
            self.tell(place, Event::CoflowFinished(coflow), arrivals);
            self.books.close(coflow, place);
            self.due_accounts.remove(&(coflow, account));
        }
        assert!(
            !over || self.books.of_coflow[coflow.index()].is_empty(),
            "a coflow ends at all of its places"
        );
        self.settle(now, arrivals);
    }

    /// Tells the instances all that has come due by `now`.
    pub(crate) fn settle(&mut self, now: Instant, arrivals: &[Instant]) {
        self.advance(now);
        let mut turns = 0;
        while self.reached(arrivals) | self.deliver(arrivals) | self.wake(arrivals) {
            turns += 1;
            let now = self.clock;
            assert!(
                turns < MAX_TURNS_AT_ONCE,
                "the policy keeps asking for attention at {now:?} without end"
            );
        }
    }

    fn advance(&mut self, now: Instant) {
        self.clock = self.clock.max(now);
    }

    fn reached(&mut self, arrivals: &[Instant]) -> bool {
        let mut any = false;
        while let Some((coflow, account)) = self.due_accounts.pop_first() {
            let place = self.books.accounts[account as usize].place;
            self.tell(place, Event::Reached(Target::Coflow(coflow)), arrivals);
            any = true;
        }
        while let Some(flow) = self.due_flows.pop_first() {
            let place = self.books.place_of(flow);
            self.tell(place, Event::Reached(Target::Flow(FlowId(flow))), arrivals);
            any = true;
        }
        any
    }

    fn deliver(&mut self, arrivals: &[Instant]) -> bool {
        let mut any = false;
        while self.letters.front().is_some_and(|letter| letter.due <= self.clock) {
            let Some(Letter { from, to, message, .. }) = self.letters.pop_front() else { break };
            self.tell(to, Event::Received { from: PortId(from), message }, arrivals);
            any = true;
        }
        any
    }

    fn wake(&mut self, arrivals: &[Instant]) -> bool {
        let mut any = false;
        while let Some(&Reverse((when, place))) = self.wakes.peek() {
            if when > self.clock {
                break;
            }
            self.wakes.pop();
            if self.wake_at[place as usize] == Some(when) {
                self.wake_at[place as usize] = None;
                self.tell(place, Event::Wake, arrivals);
                any = true;
            }
        }
        any
    }

    /// Hands one event to the instance at `place` and notes what it decides.
    fn tell(&mut self, place: u32, event: Event, arrivals: &[Instant]) {
        self.calls += 1;
        self.decision.clear();
        let view = View { place, books: &self.books, arrivals };
        self.policies[place as usize].handle(self.clock, event, &view, &mut self.decision);
        self.note(place);
    }

    fn note(&mut self, place: u32) {
        let decision = std::mem::take(&mut self.decision);
        for &(target, priority) in &decision.priorities {
            match target {
                Target::Coflow(coflow) => {
                    for flow in self.books.workload.flow_ids(coflow) {
                        if self.books.place_of(flow) == place {
                            self.set_priority(flow, priority);
                        }
                    }
                }
                Target::Flow(flow) => self.set_priority(flow.0, priority),
            }
        }
        for &(flow, cap) in &decision.caps {
            match cap {
                Some(rate) => drop(self.capped.insert(flow.0, rate)),
                None => drop(self.capped.remove(&flow.0)),
            }
            self.caps.push((flow.0, cap));
        }
        for &(target, bytes) in &decision.watches {
            match target {
                Target::Coflow(coflow) => self.watch_account(coflow, place, bytes.get()),
                Target::Flow(flow) => self.watch_flow(flow.0, bytes.get()),
            }
        }
        if let Some(when) = decision.wake_at {
            let now = self.clock;
            assert!(when > now, "a policy asks to be woken later than now ({now:?}), not at {when:?}");
            self.wake_at[place as usize] = Some(when);
            self.wakes.push(Reverse((when, place)));
        }
        for &(to, message) in &decision.messages {
            self.messages += 1;
            if !self.random.happens(self.control_loss) {
                let due = self.clock + self.control_delay;
                self.letters.push_back(Letter { due, from: place, to: to.0, message });
            }
        }
        self.decision = decision;
    }

    fn set_priority(&mut self, flow: u32, priority: Priority) {
        if std::mem::replace(&mut self.priorities[flow as usize], priority) != priority {
            self.changes.push((flow, priority));
        }
    }

    fn watch_account(&mut self, coflow: CoflowId, place: u32, bytes: u64) {
        let Some(account) = self.books.find(coflow, place) else { return };
        let record = &mut self.books.accounts[account as usize];
        if record.sent >= bytes {
            record.watch = UNWATCHED;
            self.due_accounts.insert((coflow, account));
        } else {
            record.watch = bytes;
            self.due_accounts.remove(&(coflow, account));
        }
    }

    fn watch_flow(&mut self, flow: u32, bytes: u64) {
        let at = flow as usize;
        if self.books.finished[at] {
            return;
        }
        if self.books.arrived[at] && self.books.sent[at] >= bytes {
            self.flow_watches.remove(&flow);
            self.due_flows.insert(flow);
        } else {
            self.due_flows.remove(&flow);
            self.flow_watches.insert(flow, bytes);
        }
    }
}

impl Books<'_> {
    /// Where the instance stands that a flow belongs to.
    fn place_of(&self, flow: u32) -> u32 {
        match self.scope {
            Scope::Fabric => 0,
            Scope::Host => self.workload.flow(FlowId(flow)).src.0,
            Scope::Link => unreachable!("policies per link are refused"),
        }
    }

    /// The account of a flow that has arrived and not finished.
    fn account_of(&self, flow: u32) -> u32 {
        let coflow = self.workload.coflow_of(FlowId(flow));
        let account = self.find(coflow, self.place_of(flow));
        account.expect("a flow that is under way has an account")
    }

    fn find(&self, coflow: CoflowId, place: u32) -> Option<u32> {
        let places = &self.of_coflow[coflow.index()];
        places.binary_search_by_key(&place, |&(place, _)| place).ok().map(|at| places[at].1)
    }

    /// Opens the accounts of an arriving coflow, if it has none.
    fn open(&mut self, coflow: CoflowId) {
        if !self.of_coflow[coflow.index()].is_empty() {
            return;
        }
        let mut places: Vec<u32> = self.workload.flow_ids(coflow).map(|flow| self.place_of(flow)).collect();
        places.sort_unstable();
        for run in places.chunk_by(|a, b| a == b) {
            self.of_coflow[coflow.index()].push((run[0], self.accounts.len() as u32));
            self.accounts.push(Account {
                coflow,
                place: run[0],
                flows_left: run.len() as u32,
                arrived: 0,
                sent: 0,
                announced: false,
                watch: UNWATCHED,
            });
        }
    }

    fn close(&mut self, coflow: CoflowId, place: u32) {
        self.of_coflow[coflow.index()].retain(|&(other, _)| other != place);
    }
}

/// What the instance at one place may look at.
struct View<'a> {
    place: u32,
    books: &'a Books<'a>,
    arrivals: &'a [Instant],
}

impl View<'_> {
    fn account(&self, coflow: CoflowId) -> Option<&Account> {
        self.books.find(coflow, self.place).map(|account| &self.books.accounts[account as usize])
    }

    fn size(&self, flow: FlowId) -> u64 {
        self.books.workload.flow(flow).size.get()
    }
}

impl Observe for View<'_> {
    fn coflow(&self, coflow: CoflowId) -> CoflowFacts {
        CoflowFacts::of(self.books.workload, coflow, self.arrivals[coflow.index()])
    }

    fn flow(&self, flow: FlowId) -> FlowFacts {
        FlowFacts::of(self.books.workload, flow)
    }

    fn flows(&self, coflow: CoflowId, visit: &mut dyn FnMut(FlowId)) {
        for flow in self.books.workload.flow_ids(coflow) {
            let at = flow as usize;
            if self.books.arrived[at] && !self.books.finished[at] && self.books.place_of(flow) == self.place {
                visit(FlowId(flow));
            }
        }
    }

    fn attained(&self, coflow: CoflowId) -> Bytes {
        Bytes(self.account(coflow).map_or(0, |account| account.sent))
    }

    fn flow_attained(&self, flow: FlowId) -> Bytes {
        Bytes(self.books.sent[flow.index()])
    }
}

impl Foresee for View<'_> {
    fn remaining(&self, coflow: CoflowId) -> Bytes {
        Bytes(self.account(coflow).map_or(0, |account| account.arrived - account.sent))
    }

    fn flow_remaining(&self, flow: FlowId) -> Bytes {
        Bytes(self.size(flow) - self.books.sent[flow.index()])
    }

    fn loads(&self, coflow: CoflowId, visit: &mut dyn FnMut(LinkId, Bytes, BitsPerSec)) {
        let mut loads: BTreeMap<LinkId, u64> = BTreeMap::new();
        self.flows(coflow, &mut |flow| {
            let record = self.books.workload.flow(flow);
            for link in self.books.fabric.path(record.src, record.dst) {
                *loads.entry(link).or_default() += self.flow_remaining(flow).get();
            }
        });
        for (link, bytes) in loads.into_iter().filter(|&(_, bytes)| bytes > 0) {
            visit(link, Bytes(bytes), self.books.fabric.capacity(link));
        }
    }
}
