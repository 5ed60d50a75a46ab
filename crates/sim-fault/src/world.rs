//! The world of one seed: hosts, machines for coordinators, a lease of leadership, the network, and faults.

use core::net::{IpAddr, Ipv4Addr};

use cavalcade_control::{Coordinator, CoordinatorConfig, Factory};
use cavalcade_model::{BitsPerSec, Instant, Nanos};
use cavalcade_policy::parse;
use cavalcade_protocol::{ClientEvent, CoflowKey, Datagram, Keyed, KillSwitch, Message, Orders, Report};

use crate::dice::Dice;
use crate::host::{Clock, Host, Outgoing, RATE};
use crate::hostile::{Hostile, Secret};
use crate::network::{Network, Node, Weather};
use crate::operator::Operator;
use crate::traffic::{Coflow, Traffic};
use crate::{Account, Bug, FAULTS_MS, RECOVERY_ROUNDS, Violation};

/// How long leadership lasts without being renewed, in milliseconds of the store's clock.
const LEADERSHIP_MS: u64 = 100;
/// How often a machine asks for it.
const RENEWAL_MS: u64 = 20;
/// How long a run may take.
const LIMIT_MS: u64 = 60_000;

/// Policies that a coordinator runs here, and one for hosts.
const COORDINATED: [&str; 6] = [
    "dclas:first_threshold=1MB",
    "dclas:first_threshold=1MB,weighted=false",
    "sebf",
    "sincronia",
    "fifo",
    "fair",
];
const DECENTRALISED: &str = "dcas";

/// What the seed has chosen.
#[derive(Clone, Debug)]
pub(crate) struct Choice {
    pub(crate) policy: String,
    pub(crate) is_decentralised: bool,
    pub(crate) hosts: u32,
    pub(crate) rate: BitsPerSec,
    /// How often something breaks, in times of a thousand for each millisecond.
    pub(crate) trouble: u64,
    /// Whether one host more is in somebody else's hands; nothing else breaks then.
    pub(crate) is_hostile: bool,
}

impl Choice {
    fn new(dice: &mut Dice) -> Self {
        let is_decentralised = dice.chance(150);
        let policy = if is_decentralised {
            DECENTRALISED
        } else {
            COORDINATED[dice.below(COORDINATED.len() as u64) as usize]
        };
        let trouble = [0, 3, 10, 25][dice.below(4) as usize];
        let policy = policy.to_owned();
        let hosts = dice.between(3, 5) as u32;
        let is_hostile = !is_decentralised && dice.chance(250);
        let trouble = if is_hostile { 0 } else { trouble };
        Self { policy, is_decentralised, hosts, rate: RATE, trouble, is_hostile }
    }

    /// Ports of the fabric.
    pub(crate) fn ports(&self) -> u32 {
        self.hosts + u32::from(self.is_hostile)
    }

    pub(crate) fn factory(&self) -> Factory {
        Box::new(parse(&self.policy).expect("the policy was checked where it was chosen").live())
    }
}

/// The address of a host.
pub(crate) fn address(port: u32) -> IpAddr {
    IpAddr::V4(Ipv4Addr::from(0x0a00_0000 + port))
}

/// A machine on which a coordinator may run.
#[derive(Debug)]
pub(crate) struct Machine {
    clock: Clock,
    pub(crate) coordinator: Option<Coordinator>,
    /// Until when it believes that it leads, by its clock.
    pub(crate) leads_until: Option<Instant>,
    starts_at: u64,
}

/// Where the lease is kept: the one thing that does not fail, as etcd or a file lock.
#[derive(Debug, Default)]
struct Store {
    holder: Option<usize>,
    until: u64,
    term: u64,
}

/// Everything.
#[derive(Debug)]
pub(crate) struct World {
    dice: Dice,
    bug: Option<Bug>,
    pub(crate) choice: Choice,
    pub(crate) now: u64,
    pub(crate) hosts: Vec<Host>,
    pub(crate) machines: Vec<Machine>,
    store: Store,
    network: Network,
    pub(crate) operator: Option<Operator>,
    /// When everything has recovered, and bytes move again; they rest while it does.
    thaw_ms: u64,
    pub(crate) traffic: Traffic,
    pub(crate) faults: u64,
    /// Whether anything crashed that knew of bytes.
    pub(crate) has_forgotten: bool,
    fallbacks: u64,
    log: Vec<String>,
    last_orders: Vec<Option<Orders>>,
    hostile: Option<Hostile>,
}

impl World {
    pub(crate) fn new(seed: u64, bug: Option<Bug>) -> Self {
        let mut dice = Dice::new(seed);
        let choice = Choice::new(&mut dice);
        let processes = dice.between(1, 2) as usize;
        let mut traffic = Traffic::new(&mut dice, choice.hosts, processes);
        if choice.is_hostile {
            traffic.hasten();
        }
        let hosts: Vec<Host> =
            (0..choice.hosts).map(|port| Host::new(port, Clock::new(&mut dice), processes)).collect();
        let earliest = hosts.iter().map(|host| host.clock.read(0)).min().unwrap_or(Instant::ZERO);
        let hostile = choice.is_hostile.then(|| Hostile::new(choice.ports(), earliest));
        let machine = |dice: &mut Dice| Machine {
            clock: Clock::new(dice),
            coordinator: None,
            leads_until: None,
            starts_at: 0,
        };
        let machines =
            if choice.is_decentralised { Vec::new() } else { (0..2).map(|_| machine(&mut dice)).collect() };
        let weather =
            Weather { loss: dice.below(200), doubling: dice.below(200), delay_ms: dice.between(1, 30) };
        let throws = !choice.is_decentralised && dice.chance(300);
        let operator = throws.then(|| Operator::new(&mut dice, choice.hosts));
        let healed = FAULTS_MS + RECOVERY_ROUNDS * 10;
        Self {
            bug,
            now: 0,
            thaw_ms: operator.as_ref().map_or(healed, Operator::recovers_at),
            operator,
            hosts,
            machines,
            store: Store::default(),
            network: Network::new(weather),
            traffic,
            faults: 0,
            has_forgotten: false,
            fallbacks: 0,
            log: Vec::new(),
            last_orders: vec![None; choice.ports() as usize],
            hostile,
            dice,
            choice,
        }
    }

    /// The highest term that the store has given out.
    pub(crate) fn highest_term(&self) -> u64 {
        self.store.term
    }

    pub(crate) fn account(&self) -> Account {
        Account {
            policy: self.choice.policy.clone(),
            end_ms: self.now,
            coflows: self.traffic.coflows.len(),
            flows: self.traffic.flows.len(),
            messages: self.network.sent,
            lost: self.network.lost,
            doubled: self.network.doubled,
            faults: self.faults,
            terms: self.store.term,
            fallbacks: self.fallbacks,
            log: self.log.clone(),
        }
    }

    /// Everything from the first byte to the last.
    pub(crate) fn run(&mut self) -> Result<(), Violation> {
        while self.now < FAULTS_MS || !self.traffic.is_done() {
            self.now += 1;
            if self.now < FAULTS_MS && self.dice.chance(self.choice.trouble) {
                self.break_something();
            }
            if self.now == FAULTS_MS {
                self.heal();
            }
            if self.now == self.thaw_ms - 100 {
                self.traffic.add_marker(self.now);
            }
            self.step();
            if self.now < self.thaw_ms - RECOVERY_ROUNDS * 10 || self.now > self.thaw_ms {
                self.traffic.flow(self.now, &mut self.hosts);
            }
            self.check_step()?;
            if self.now == self.thaw_ms {
                self.check_recovery()?;
            }
            if self.now > LIMIT_MS {
                return Err(self.violation(self.unfinished()));
            }
        }
        Ok(())
    }

    fn unfinished(&self) -> String {
        let open = self.traffic.flows.iter().enumerate().filter(|(_, flow)| flow.sent < flow.size);
        let open: Vec<String> =
            open.map(|(index, flow)| format!("flow {index} ({}/{})", flow.sent, flow.size)).collect();
        format!("these do not come to an end: {}", open.join(", "))
    }

    pub(crate) fn violation(&self, what: String) -> Violation {
        Violation { at_ms: self.now, what }
    }

    /// One millisecond.
    fn step(&mut self) {
        for host in &mut self.hosts {
            host.start(self.now, &self.choice);
        }
        self.deliver();
        self.lead();
        if let Some(what) =
            self.operator.as_mut().and_then(|operator| operator.act(self.now, &mut self.machines))
        {
            self.log.push(format!("{:5} {what}", self.now));
        }
        self.let_hostile_speak();
        for index in 0..self.machines.len() {
            self.coordinate(index);
        }
        let up: Vec<Vec<bool>> = self
            .hosts
            .iter()
            .map(|host| host.processes.iter().map(|one| one.client.is_some()).collect())
            .collect();
        self.traffic.begin(self.now, &mut self.hosts, |host, process| up[host][process]);
        for index in 0..self.hosts.len() {
            let mut out = Outgoing::default();
            self.hosts[index].step(self.now, &mut out);
            self.send_out(index, out);
            self.hear_events(index);
        }
    }

    fn deliver(&mut self) {
        while let Some(parcel) = self.network.pop(self.now) {
            match parcel.to {
                Node::Host(index) if !self.hosts[index].acts(self.now) => {
                    // A process that hangs reads what has come when it comes to; one that is down never does.
                    if self.hosts[index].agent.is_some() {
                        self.network.hold(self.now + 1, parcel);
                    }
                }
                Node::Host(index) => {
                    let host = &mut self.hosts[index];
                    let clock = host.clock.read(self.now);
                    let Some(agent) = &mut host.agent else { continue };
                    if self.choice.is_decentralised {
                        agent.handle_datagram(clock, decode::<Datagram>(&parcel.bytes));
                    } else {
                        agent.handle_orders(clock, decode::<Orders>(&parcel.bytes));
                    }
                }
                Node::Machine(index) => {
                    let machine = &mut self.machines[index];
                    let clock = machine.clock.read(self.now);
                    if let Some(coordinator) = &mut machine.coordinator {
                        let mut report = decode::<Report>(&parcel.bytes);
                        if self.bug == Some(Bug::DoubleCount) && self.dice.chance(50) {
                            count_twice(&mut report);
                        }
                        coordinator.handle_report(clock, report);
                    }
                }
                Node::Store => {}
            }
        }
    }

    /// Machines ask for the leadership, and those that have it and are in time go on.
    fn lead(&mut self) {
        for index in 0..self.machines.len() {
            let reachable = !self.network.is_cut(Node::Machine(index), Node::Store, self.now);
            let machine = &mut self.machines[index];
            let clock = machine.clock.read(self.now);
            if self.now < machine.starts_at {
                continue;
            }
            let is_over = machine.leads_until.is_some_and(|until| until <= clock);
            let is_deposed = machine.coordinator.as_ref().is_some_and(Coordinator::is_deposed);
            if is_deposed || is_over && self.bug != Some(Bug::TwoLeaders) {
                machine.coordinator = None;
                machine.leads_until = None;
            }
            let asks = (self.now + index as u64 * 7).is_multiple_of(RENEWAL_MS);
            if !asks || !reachable {
                continue;
            }
            let holds = self.store.holder == Some(index) && self.now < self.store.until;
            if !holds && self.now < self.store.until {
                continue;
            }
            if !holds || machine.coordinator.is_none() {
                self.store.term += 1;
                let mut config =
                    CoordinatorConfig::new(self.store.term, self.choice.ports(), self.choice.rate);
                if self.bug == Some(Bug::PhantomFlow) {
                    config.stall = Nanos::from_secs(3600);
                }
                let mut coordinator = Coordinator::new(config, self.choice.factory());
                if self.bug != Some(Bug::ForgedStanding) {
                    coordinator = coordinator.with_notary(Box::new(Secret));
                }
                machine.coordinator = Some(coordinator);
                self.log.push(format!("{:5} machine {index} leads, term {}", self.now, self.store.term));
            }
            self.store.holder = Some(index);
            self.store.until = self.now + LEADERSHIP_MS;
            // A fifth is left for clocks that drift and for what is on its way.
            machine.leads_until = Some(clock + Nanos::from_millis(LEADERSHIP_MS * 4 / 5));
        }
    }

    fn coordinate(&mut self, index: usize) {
        let machine = &mut self.machines[index];
        let clock = machine.clock.read(self.now);
        let Some(coordinator) = &mut machine.coordinator else { return };
        if coordinator.poll_timeout().is_some_and(|when| when <= clock) {
            coordinator.handle_timeout(clock);
        }
        while let Some((port, mut orders)) = coordinator.poll_orders() {
            if self.bug == Some(Bug::SilentLoss) && self.dice.chance(200) {
                (orders.flows, orders.priorities) = (Keyed::default(), Keyed::default());
            }
            if let Some(hostile) = self.hostile.as_mut().filter(|hostile| hostile.port == port) {
                hostile.hear(orders.standing);
                continue;
            }
            if self.bug == Some(Bug::LiftedSwitch) && orders.snapshot && orders.switch.is_none() {
                orders.switch = Some(KillSwitch { term: orders.term, throw: 0, is_on: false });
            }
            self.last_orders[port.index()] = Some(orders.clone());
            let (from, to) = (Node::Machine(index), Node::Host(port.index()));
            self.network.send(self.now, &mut self.dice, from, to, orders.to_bytes());
        }
        if self.bug == Some(Bug::EternalLease) {
            return;
        }
        self.last_orders.fill(None);
    }

    /// A host in somebody else's hands speaks to whoever leads, while things break.
    fn let_hostile_speak(&mut self) {
        let Some(hostile) = self.hostile.as_mut().filter(|_| self.now < FAULTS_MS) else { return };
        // Those whose own hosts have long spoken of them.
        let is_known = |coflow: &&Coflow| self.now >= coflow.registered_at + 300 && !coflow.is_over;
        let victims: Vec<CoflowKey> =
            self.traffic.coflows.iter().filter(is_known).filter_map(|coflow| coflow.key).collect();
        let Some(report) = hostile.speak(self.now, &mut self.dice, &victims) else { return };
        let bytes = report.to_bytes();
        for machine in &mut self.machines {
            let clock = machine.clock.read(self.now);
            if let Some(coordinator) = &mut machine.coordinator {
                coordinator.handle_report(clock, decode::<Report>(&bytes));
            }
        }
    }

    fn send_out(&mut self, index: usize, out: Outgoing) {
        let from = Node::Host(index);
        for report in out.reports {
            let bytes = report.to_bytes();
            for machine in 0..self.machines.len() {
                let to = Node::Machine(machine);
                self.network.send(self.now, &mut self.dice, from, to, bytes.clone());
            }
        }
        for (to, datagram) in out.datagrams {
            let to = Node::Host(to.index());
            self.network.send(self.now, &mut self.dice, from, to, datagram.to_bytes());
        }
        if self.bug == Some(Bug::EternalLease) {
            self.keep_lease_alive(index);
        }
    }

    /// The planted bug: what was heard last goes on being heard.
    fn keep_lease_alive(&mut self, index: usize) {
        let host = &mut self.hosts[index];
        if let (Some(orders), Some(agent)) = (&mut self.last_orders[index], &mut host.agent) {
            orders.sequence += 1;
            orders.snapshot = false;
            (orders.flows, orders.priorities) = (Keyed::default(), Keyed::default());
            agent.handle_orders(host.clock.read(self.now), orders.clone());
        }
    }

    fn hear_events(&mut self, index: usize) {
        for process in 0..self.hosts[index].processes.len() {
            let Some(client) = &mut self.hosts[index].processes[process].client else { continue };
            while let Some(event) = client.poll_event() {
                match event {
                    ClientEvent::Registered { request, coflow } => {
                        let asked = self.traffic.coflows.iter_mut().find(|known| {
                            (known.host, known.process) == (index, process)
                                && known.request == Some(request)
                                && known.key.is_none()
                        });
                        if let Some(known) = asked {
                            known.key = Some(coflow);
                            known.registered_at = self.now;
                        }
                    }
                    ClientEvent::FellBack => self.fallbacks += 1,
                    _ => {}
                }
            }
        }
    }

    /// One fault.
    fn break_something(&mut self) {
        self.faults += 1;
        let host = self.dice.below(u64::from(self.choice.hosts)) as usize;
        let other = self.dice.below(u64::from(self.choice.hosts)) as usize;
        let process = self.dice.below(self.hosts[host].processes.len() as u64) as usize;
        let span = self.dice.between(1, 300);
        let kinds = if self.choice.is_decentralised { 4 } else { 8 };
        let now = self.now;
        let machine = host % 2;
        let what = match self.dice.below(kinds) {
            0 => {
                self.has_forgotten = true;
                self.hosts[host].crash_agent(now, span, &mut self.dice);
                format!("agent {host} crashes for {span} ms")
            }
            1 => {
                self.has_forgotten = true;
                self.hosts[host].crash_process(now, process, span);
                self.traffic.lose(host, process);
                format!("process {process} of host {host} crashes for {span} ms")
            }
            2 => {
                self.hosts[host].hangs_until = now + span;
                format!("agent {host} hangs for {span} ms")
            }
            3 => {
                self.network.cut(Node::Host(host), Node::Host(other), now + span);
                format!("hosts {host} and {other} are cut off from each other for {span} ms")
            }
            4 => {
                (self.machines[machine].coordinator, self.machines[machine].leads_until) = (None, None);
                self.machines[machine].starts_at = now + span;
                format!("machine {machine} crashes for {span} ms")
            }
            5 => {
                self.network.cut(Node::Host(host), Node::Machine(machine), now + span);
                format!("host {host} and machine {machine} are cut off from each other for {span} ms")
            }
            6 => {
                self.network.cut(Node::Machine(machine), Node::Store, now + span);
                format!("machine {machine} cannot renew its lease for {span} ms")
            }
            _ => {
                if let Some(agent) = &mut self.hosts[host].agent {
                    agent.handle_coordinator_connected();
                }
                let port = self.hosts[host].port;
                if let Some(coordinator) = &mut self.machines[machine].coordinator {
                    coordinator.handle_disconnected(port);
                }
                format!("the connection of host {host} begins anew")
            }
        };
        self.log.push(format!("{now:5} {what}"));
    }

    /// Faults stop.
    fn heal(&mut self) {
        self.network.heal();
        for host in &mut self.hosts {
            host.hangs_until = 0;
            host.agent_starts_at = host.agent_starts_at.min(self.now);
            for process in &mut host.processes {
                process.starts_at = process.starts_at.min(self.now);
            }
        }
        for machine in &mut self.machines {
            machine.starts_at = machine.starts_at.min(self.now);
        }
        self.log.push(format!("{:5} faults stop", self.now));
    }
}

fn decode<M: Message>(bytes: &[u8]) -> M {
    M::decode(bytes).expect("what was encoded is decoded")
}

/// The planted bug: the first progress of a report counts twice.
fn count_twice(report: &mut Report) {
    let mut is_first = true;
    report.progress = std::mem::take(&mut report.progress)
        .into_iter()
        .map(|(flow, mut progress)| {
            if std::mem::take(&mut is_first) {
                progress.sent.0 *= 2;
            }
            (flow, progress)
        })
        .collect();
}
