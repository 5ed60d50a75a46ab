//! A site of very few machines, joined by connections: what its parts do at one step.
//!
//! Time passes in periods, and messages take none unless they are held up. A connection carries
//! messages in order; what is on it when it breaks is lost, and its other end learns of that later.
//! Clients and their agent are on one host: what they say to each other arrives at once.

use std::collections::BTreeMap;

use cavalcade_control::{Coordinator, CoordinatorConfig, Notary};
use cavalcade_model::{BitsPerSec, Instant, Nanos, PortId};
use cavalcade_protocol::{CoflowKey, Orders, Report};

use super::host::{CLIENT_LEASE, Host, Link};
use super::lies::{Liar, Lie};
use super::print::Print;

pub(super) const RATE: BitsPerSec = BitsPerSec(1_000_000_000);
pub(super) const BEGIN: Instant = Instant(1_000_000_000_000);
pub(super) const PERIOD: Nanos = Nanos::from_millis(10);
/// A sign of life comes every other period.
pub(super) const LEASE: Nanos = Nanos::from_millis(80);

/// What is explored: a site, what its applications do, and what may go wrong.
#[derive(Debug)]
pub(super) struct Plan {
    pub(super) name: &'static str,
    /// What the applications of each honest host do, in order.
    pub(super) scripts: &'static [&'static [Act]],
    /// The port that all flows go to.
    pub(super) receiver: u32,
    pub(super) coordinators: usize,
    /// How many reports the attacker sends, who has the last port; 0 where that is not in use.
    pub(super) lies: u8,
    /// Number of faults, and which there are.
    pub(super) faults: u8,
    pub(super) kinds: &'static [Kind],
    /// Where exploring begins, besides a site on which nothing has happened.
    pub(super) begins: &'static [&'static [Step]],
    /// Steps from there on.
    pub(super) depth: usize,
}

impl Plan {
    fn hosts(&self) -> usize {
        self.scripts.len()
    }

    pub(super) fn ports(&self) -> u32 {
        self.hosts() as u32 + 1
    }
}

/// A step of an application.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Act {
    /// Registers a coflow and opens a flow of it.
    Open,
    /// Opens a flow of the first host's coflow.
    Join,
    /// All flows that may send do.
    Send,
    /// Opens one flow more than its user may have.
    Exceed,
    /// All flows are over, and the coflow.
    Close,
}

/// A kind of fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// An agent crashes, and starts again a period later.
    Agent,
    /// A coordinator crashes; whoever takes the lease next starts without state.
    Coordinator,
    /// A connection breaks, with all that is on it.
    Cut,
    /// Nothing arrives for a lease.
    Silence,
    /// An agent does nothing for as long as clients obey.
    Hang,
    /// The lease is taken from who leads, who does not know yet.
    Expire,
    /// The first message on a connection is lost, up or down.
    Loss,
    /// The last report that arrived comes again; or the last orders of each term.
    Repeat,
    /// The operator throws the kill switch.
    Throw,
}

/// What happens next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// The application of a host goes on.
    Act(u8),
    /// The first report on a connection of a host arrives, or that it is over.
    Up(u8, u8),
    /// The first orders for a host arrive, or that its connection is over.
    Down(u8),
    /// A host connects to a coordinator.
    Dial(u8, u8),
    /// A period passes, and nothing arrives.
    Tick,
    /// All arrives, and a period passes.
    Calm,
    /// A coordinator takes the lease, which is free.
    Lead(u8),
    /// A coordinator that has lost the lease learns of it.
    Resign(u8),
    /// Something breaks, at a host or coordinator; of messages those up, or down.
    Fault(Kind, u8, bool),
    /// The attacker speaks.
    Lie(Lie),
}

/// A rule that does not hold, and how.
pub(super) type Broken = (Rule, String);

/// What must hold at any time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rule {
    /// Orders of a former coordinator, a former session or an earlier number change nothing.
    Outdated,
    /// An agent never obeys a lower term than before.
    Terms,
    /// Without orders for a lease all flows are open, and without an agent.
    FailOpen,
    /// A host's report changes no other host's flows, nor coflows of others; nor does it become part
    /// of another user's.
    Foreign,
    /// No byte counts twice.
    Bytes,
    /// Terms and the kill switch come from coordinators only.
    Standing,
    /// Nobody has more than their budget, and what they have is counted right.
    Budget,
}

/// The key by which the coordinators of a site know each other.
struct Secret;

const SEAL: [u8; 2] = [0x5e, 0xa1];

impl Notary for Secret {
    fn seal(&self, statement: &[u8]) -> Vec<u8> {
        [statement, &SEAL].concat()
    }

    fn open(&self, sealed: &[u8]) -> Option<Vec<u8>> {
        sealed.strip_suffix(&SEAL).map(<[u8]>::to_vec)
    }
}

/// The coordinator of a term.
pub(super) fn coordinator(plan: &Plan, term: u64) -> Coordinator {
    // Hosts are waited for only where one may lie: applications here stand still as they like.
    let stall = if plan.lies > 0 { Nanos(5 * PERIOD.0) } else { Nanos::from_secs(1_000) };
    let config = CoordinatorConfig {
        period: PERIOD,
        lease: LEASE,
        stall,
        confirm: plan.lies > 0,
        ..CoordinatorConfig::new(term, plan.ports(), RATE)
    };
    let policy = cavalcade_policy::parse("fifo").expect("it is a policy");
    Coordinator::new(config, Box::new(policy)).with_notary(Box::new(Secret))
}

/// The site.
pub(super) struct Site<'a> {
    pub(super) plan: &'a Plan,
    pub(super) now: Instant,
    pub(super) hosts: Vec<Host>,
    pub(super) coordinators: Vec<Option<Coordinator>>,
    /// Who has the lease, and the last term.
    pub(super) holder: Option<usize>,
    pub(super) term: u64,
    pub(super) liar: Liar,
    /// Faults that are left.
    pub(super) faults: u8,
    pub(super) is_thrown: bool,
    /// Bytes that have been sent of each coflow, and that have arrived from each port.
    pub(super) sent: BTreeMap<CoflowKey, u64>,
    pub(super) arrived: BTreeMap<PortId, u64>,
    sessions: u64,
    pub(super) broken: Option<Broken>,
}

impl<'a> Site<'a> {
    /// All run, the first coordinator leads, and agents obey it.
    pub(super) fn new(plan: &'a Plan) -> Self {
        let mut site = Self {
            plan,
            now: BEGIN,
            hosts: (0..plan.hosts()).map(|port| Host::new(plan, port as u32, 1)).collect(),
            coordinators: (0..plan.coordinators).map(|_| None).collect(),
            holder: None,
            term: 0,
            liar: Liar::new(plan),
            faults: plan.faults,
            is_thrown: false,
            sent: BTreeMap::new(),
            arrived: BTreeMap::new(),
            sessions: 1,
            broken: None,
        };
        site.lead(0);
        for host in 0..plan.hosts() {
            site.turn_host(host);
        }
        (0..2).for_each(|_| site.calm());
        site
    }

    pub(super) fn breaks(&mut self, rule: Rule, what: impl FnOnce() -> String) {
        self.broken.get_or_insert_with(|| (rule, what()));
    }

    /// What may happen next.
    pub(super) fn steps(&self) -> Vec<Step> {
        let mut steps = vec![Step::Calm, Step::Tick];
        for (number, host) in (0u8..).zip(&self.hosts) {
            if self.may_act(usize::from(number)) {
                steps.push(Step::Act(number));
            }
            for (link, at) in host.links.iter().zip(0u8..) {
                if link.has_up() {
                    steps.push(Step::Up(number, at));
                }
            }
            match host.link() {
                Some(link) if link.has_down() => steps.push(Step::Down(number)),
                Some(_) => {}
                None => {
                    let leads = |at: &u8| self.coordinators[usize::from(*at)].is_some();
                    let all = 0..self.coordinators.len() as u8;
                    steps.extend(all.filter(leads).map(|at| Step::Dial(number, at)));
                }
            }
        }
        for (number, coordinator) in (0u8..).zip(&self.coordinators) {
            match (coordinator, self.holder) {
                (None, None) => steps.push(Step::Lead(number)),
                (Some(_), holder) if holder != Some(usize::from(number)) => steps.push(Step::Resign(number)),
                _ => {}
            }
        }
        if self.faults > 0 {
            self.plan.kinds.iter().for_each(|kind| self.list_faults(*kind, &mut steps));
        }
        if self.liar.left > 0 {
            steps.extend(Lie::ALL.map(Step::Lie));
        }
        steps
    }

    fn list_faults(&self, kind: Kind, steps: &mut Vec<Step>) {
        for (number, host) in (0u8..).zip(&self.hosts) {
            let (up, down) = match kind {
                Kind::Agent | Kind::Hang => (true, false),
                Kind::Cut => (host.link().is_some(), false),
                Kind::Loss => {
                    let link = host.link();
                    (
                        link.is_some_and(|link| !link.up.is_empty()),
                        link.is_some_and(|link| !link.down.is_empty()),
                    )
                }
                Kind::Repeat => (host.last_up.is_some(), !host.last_down.is_empty()),
                _ => (false, false),
            };
            steps.extend(up.then_some(Step::Fault(kind, number, true)));
            steps.extend(down.then_some(Step::Fault(kind, number, false)));
        }
        for (number, coordinator) in (0u8..).zip(&self.coordinators) {
            let is_holder = self.holder == Some(usize::from(number));
            let may = match kind {
                Kind::Coordinator => coordinator.is_some(),
                Kind::Expire => is_holder,
                Kind::Throw => is_holder && !self.is_thrown,
                _ => false,
            };
            steps.extend(may.then_some(Step::Fault(kind, number, true)));
        }
        if kind == Kind::Silence {
            steps.push(Step::Fault(kind, 0, true));
        }
    }

    pub(super) fn step(&mut self, step: Step) {
        match step {
            Step::Act(host) => self.act(usize::from(host)),
            Step::Up(host, link) => self.deliver_up(usize::from(host), usize::from(link)),
            Step::Down(host) => self.deliver_down(usize::from(host)),
            Step::Dial(host, coordinator) => self.dial(usize::from(host), usize::from(coordinator)),
            Step::Tick => self.tick(None),
            Step::Calm => self.calm(),
            Step::Lead(coordinator) => self.lead(usize::from(coordinator)),
            Step::Resign(coordinator) => self.end(usize::from(coordinator)),
            Step::Fault(kind, at, is_up) => {
                self.faults -= 1;
                self.fault(kind, usize::from(at), is_up);
            }
            Step::Lie(lie) => self.lie(lie),
        }
        self.check();
    }

    fn fault(&mut self, kind: Kind, at: usize, is_up: bool) {
        match kind {
            Kind::Agent => self.crash_agent(at),
            Kind::Coordinator => {
                self.holder = self.holder.filter(|holder| *holder != at);
                self.end(at);
            }
            Kind::Cut => {
                if let Some(link) = self.hosts[at].link_mut() {
                    link.up.clear();
                    link.hang_up();
                }
            }
            Kind::Silence => (0..=LEASE.0 / PERIOD.0).for_each(|_| self.tick(None)),
            Kind::Hang => self.hang(at),
            Kind::Expire => self.holder = None,
            Kind::Loss => {
                let link = self.hosts[at].link_mut();
                link.into_iter().for_each(|link| match is_up {
                    true => drop(link.up.pop_front()),
                    false => drop(link.down.pop_front()),
                });
            }
            Kind::Repeat => match is_up {
                true => {
                    if let (Some(report), Some(link)) =
                        (self.hosts[at].last_up.clone(), self.hosts[at].link())
                    {
                        self.report(link.coordinator, report);
                    }
                }
                false => {
                    let all = self.hosts[at].last_down.clone();
                    all.into_values().rev().for_each(|orders| self.obey(at, orders));
                }
            },
            Kind::Throw => {
                self.is_thrown = true;
                if let Some(coordinator) = &mut self.coordinators[at] {
                    coordinator.drain(true);
                }
                self.turn_coordinator(at);
            }
        }
    }

    /// A period passes; a host that hangs does nothing meanwhile.
    fn tick(&mut self, hung: Option<usize>) {
        self.now = self.now + PERIOD;
        for host in (0..self.hosts.len()).filter(|host| Some(*host) != hung) {
            self.turn_host(host);
        }
        (0..self.coordinators.len()).for_each(|at| self.turn_coordinator(at));
    }

    /// All that is on its way arrives, and what is said to that; then a period passes.
    pub(super) fn calm(&mut self) {
        for host in 0..self.hosts.len() {
            if let (None, Some(holder)) = (self.hosts[host].link(), self.holder) {
                self.dial(host, holder);
            }
        }
        // More than anything ever takes: a loop would be a fault.
        for _ in 0..100 {
            let mut moved = false;
            for host in 0..self.hosts.len() {
                while let Some(at) = self.hosts[host].links.iter().position(Link::has_up) {
                    self.deliver_up(host, at);
                    moved = true;
                }
                if self.hosts[host].link().is_some_and(Link::has_down) {
                    self.deliver_down(host);
                    moved = true;
                }
            }
            if !moved {
                return self.tick(None);
            }
        }
        panic!("agents and coordinators talk to each other without end");
    }

    /// Faults are over: one coordinator leads, and the others know that they do not.
    pub(super) fn heal(&mut self) {
        for at in 0..self.coordinators.len() {
            if self.holder != Some(at) {
                self.end(at);
            }
        }
        if self.holder.is_none() {
            self.lead(0);
        }
    }

    fn lead(&mut self, at: usize) {
        self.holder = Some(at);
        self.term += 1;
        self.coordinators[at] = Some(coordinator(self.plan, self.term));
    }

    /// A coordinator is gone, and its ends of connections with it.
    fn end(&mut self, at: usize) {
        self.coordinators[at] = None;
        for host in &mut self.hosts {
            for link in host.links.iter_mut().filter(|link| link.coordinator == at) {
                link.close();
            }
            host.forget_links();
        }
    }

    fn dial(&mut self, host: usize, coordinator: usize) {
        self.hosts[host].links.push(Link::new(coordinator));
        self.hosts[host].agent.handle_coordinator_connected();
        self.turn_host(host);
    }

    fn deliver_up(&mut self, host: usize, at: usize) {
        let port = PortId(host as u32);
        let link = &mut self.hosts[host].links[at];
        let coordinator = link.coordinator;
        match link.up.pop_front() {
            Some(report) => {
                // The last connection that reports is the agent's; another one is closed.
                if !std::mem::replace(&mut link.is_route, true) {
                    let others = self.hosts[host].links.iter_mut().enumerate();
                    let others =
                        others.filter(|(other, link)| *other != at && link.coordinator == coordinator);
                    others.filter(|(_, link)| link.is_route).for_each(|(_, link)| link.close());
                }
                self.hosts[host].last_up = Some(report.clone());
                self.report(coordinator, report);
            }
            None => {
                let was_route = link.is_route;
                link.close();
                if let Some(coordinator) = self.coordinators[coordinator].as_mut().filter(|_| was_route) {
                    coordinator.handle_disconnected(port);
                }
                self.turn_coordinator(coordinator);
            }
        }
        self.hosts[host].forget_links();
    }

    /// A coordinator hears a report.
    pub(super) fn report(&mut self, at: usize, report: Report) {
        let before = self.others_of(at, report.port);
        let now = self.now;
        if let Some(coordinator) = &mut self.coordinators[at] {
            coordinator.handle_report(now, report.clone());
        }
        if before != self.others_of(at, report.port) {
            self.breaks(Rule::Foreign, || {
                format!("{report:?} changes what others have reported: {before:?}")
            });
        }
        if let Some(key) = self.intrusion(at, &report, &before) {
            self.breaks(Rule::Foreign, || format!("{report:?} has flows taken into {key}, another user's"));
        }
        self.turn_coordinator(at);
    }

    fn deliver_down(&mut self, host: usize) {
        let Some(link) = self.hosts[host].link_mut() else { return };
        match link.down.pop_front() {
            Some(orders) => {
                self.hosts[host].last_down.insert(orders.term, orders.clone());
                self.obey(host, orders);
            }
            None => {
                link.hang_up();
                self.hosts[host].forget_links();
            }
        }
    }

    /// An agent hears orders.
    fn obey(&mut self, at: usize, orders: Orders) {
        let (now, session) = (self.now, self.hosts[at].session);
        let host = &mut self.hosts[at];
        let number = (orders.term, orders.sequence);
        let is_outdated = orders.session != session || number <= host.latest;
        let before = is_outdated.then(|| Print::of(&host.agent));
        host.agent.handle_orders(now, orders.clone());
        if !is_outdated {
            host.latest = number;
            host.holds_until = host.holds_until.max(now + orders.lease);
        } else if before != Some(Print::of(&host.agent)) {
            self.breaks(Rule::Outdated, || format!("host {at} heeds {orders:?}"));
        }
        self.turn_host(at);
    }

    /// A host does what is due, and its words go on their way.
    pub(super) fn turn_host(&mut self, at: usize) {
        let is_receiver = at == self.plan.receiver as usize;
        let arrived = if is_receiver { self.arrived.clone() } else { BTreeMap::new() };
        self.hosts[at].turn(self.now, &arrived);
    }

    fn turn_coordinator(&mut self, at: usize) {
        let now = self.now;
        let Some(coordinator) = &mut self.coordinators[at] else { return };
        coordinator.handle_timeout(now);
        while let Some((port, orders)) = coordinator.poll_orders() {
            match self.hosts.get_mut(port.index()) {
                Some(host) => {
                    let mut links = host.links.iter_mut();
                    let link = links.find(|link| link.coordinator == at && link.is_route && link.at_agent);
                    link.into_iter().for_each(|link| link.down.push_back(orders.clone()));
                }
                None => self.liar.keep_first(orders.standing),
            }
        }
    }

    fn crash_agent(&mut self, at: usize) {
        for link in &mut self.hosts[at].links {
            link.hang_up();
        }
        self.hosts[at].forget_links();
        let now = self.now;
        self.hosts[at].client.handle_disconnected(now);
        self.tick(Some(at));
        self.sessions += 1;
        let session = self.now.0 + self.sessions;
        self.hosts[at].restart(self.plan, session);
        self.turn_host(at);
    }

    /// An agent does nothing for as long as clients obey; what arrives waits.
    fn hang(&mut self, at: usize) {
        let mut is_lost = false;
        for _ in 0..=CLIENT_LEASE.0 / PERIOD.0 {
            self.tick(Some(at));
            let host = &mut self.hosts[at];
            is_lost |= host.client.handle_timeout(self.now);
        }
        let host = &self.hosts[at];
        let is_held = host.flows.iter().any(|(flow, _)| host.client.directive(*flow) != Default::default());
        if is_held {
            self.breaks(Rule::FailOpen, || format!("a client of host {at} obeys an agent that hangs"));
        }
        if is_lost {
            self.hosts[at].reconnect(self.now);
        }
        self.turn_host(at);
    }
}
