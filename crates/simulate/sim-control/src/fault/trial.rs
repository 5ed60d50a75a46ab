//! A run with faults: the driver, and faults of machines and network.

use std::collections::BTreeMap;

use cavalcade_control::{AgentConfig, CoordinatorConfig};
use cavalcade_model::{Fabric, FineInstant, FlowId, Instant, Nanos, PortId, SplitMix64, Workload};
use cavalcade_protocol::{CoflowKey, Registration};
use cavalcade_sim_fluid::Options;

use super::choice::{Choice, between, faults_of, span};
use super::greedy::{self, Greedy};
use super::hostile::{self, Hostile};
use super::operator::Operator;
use super::{Account, Bug, INSPECTION, Tamper, Violation, millis, passed};
use crate::clock::{Clock, EPOCH};
use crate::connection::Connections;
use crate::drive::Drive;
use crate::fluid::Fluid;
use crate::host::{Host, Site};
use crate::machine::{Machine, Store};
use crate::network::{Network, Node};
use crate::world::World;

/// The shortest delay of a message.
const DELAY: Nanos = Nanos::from_millis(1);
/// The time from the registration of one coflow more to the comparison.
const MARK: Nanos = Nanos::from_millis(100);
/// The age from which a hostile host speaks of others' coflows.
const KNOWN: Nanos = Nanos::from_millis(300);
/// Time for which agents wait for flows that move nothing: longer than the workload is held.
const STALL: Nanos = Nanos::from_millis(600);
/// Time for which a coordinator does, where an agent that crashed may have been waited for in vain
/// before the workload is held.
const STALL_OF_COORDINATOR: Nanos = Nanos::from_millis(800);
/// By how much clocks are set back under [`Bug::ClockSetBack`].
const SET_BACK: Nanos = Nanos::from_secs(2);
/// The number of the one flow that is no flow of the workload.
const MARKER: FlowId = FlowId(u32::MAX);

/// A step that is taken once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    /// Faults stop.
    Heal,
    /// The workload stands still.
    Hold,
    /// One coflow more is registered.
    Mark,
    /// The schedule is compared, and the workload goes on.
    Compare,
}

/// A run.
pub(super) struct Trial<'a> {
    pub(super) drive: Drive<'a>,
    pub(super) choice: Choice,
    pub(super) ports: u32,
    dice: SplitMix64,
    faults_end: Instant,
    breaks_at: Option<Instant>,
    speaks_at: Option<Instant>,
    greedy: Option<Greedy>,
    grabs_at: Option<Instant>,
    pub(super) inspects_at: Instant,
    steps: Vec<(Instant, Step)>,
    pub(super) operator: Option<Operator>,
    /// The key and number of the coflow that is registered for the comparison.
    marker: Option<(CoflowKey, u32)>,
    /// The term that each agent obeyed last.
    pub(super) obeyed: Vec<u64>,
    /// Since when each agent could reach the leader of a term and does not obey it.
    pub(super) lost_since: Vec<Option<(u64, Instant)>>,
    /// Bytes that each flow under way had sent at the last inspection.
    pub(super) seen: BTreeMap<FlowId, u64>,
    /// The time since which flows have been off while their links were idle, in the workload's
    /// time.
    pub(super) idle_since: BTreeMap<FlowId, FineInstant>,
    /// The last inspection, and the last that saw a byte move, in the workload's time.
    pub(super) inspected_at: FineInstant,
    pub(super) moved_at: FineInstant,
    /// Something crashed that knew of bytes.
    pub(super) has_forgotten: bool,
    faults: u64,
    log: Vec<String>,
}

impl<'a> Trial<'a> {
    pub(super) fn new(
        choice: Choice,
        bug: Option<Bug>,
        workload: &'a Workload,
        fabric: &'a Fabric,
        mut dice: SplitMix64,
    ) -> Self {
        let hosts = workload.ports() as usize;
        let faults_end = EPOCH + faults_of(workload);
        let throws = !choice.is_decentralised && dice.happens(0.3);
        let recovery = choice.recovery();
        let operator = throws.then(|| Operator::new(&mut dice, hosts, faults_end, recovery));
        let compares_at =
            operator.as_ref().map_or(faults_end + recovery, |operator| operator.recovers_at(faults_end));
        let greedy = choice.greedy();
        let world = world(&choice, bug, workload, fabric, &mut dice);
        let habits = choice.habits(&mut dice, workload);
        let fluid = Fluid::new(workload, fabric, &Options::default(), false);
        let mut steps = vec![
            (faults_end, Step::Heal),
            (Instant(compares_at.0 - recovery.0), Step::Hold),
            (Instant(compares_at.0 - MARK.0), Step::Mark),
            (compares_at, Step::Compare),
        ];
        steps.reverse();
        let mut trial = Self {
            drive: Drive::new(fluid, world, habits),
            ports: fabric.ports(),
            faults_end,
            breaks_at: None,
            speaks_at: choice.is_hostile.then_some(EPOCH + hostile::PAUSE),
            grabs_at: greedy.is_some().then_some(EPOCH + greedy::PAUSE),
            greedy,
            inspects_at: EPOCH + INSPECTION,
            steps,
            operator,
            marker: None,
            obeyed: vec![0; hosts],
            lost_since: vec![None; hosts],
            seen: BTreeMap::new(),
            idle_since: BTreeMap::new(),
            inspected_at: FineInstant::default(),
            moved_at: FineInstant::default(),
            has_forgotten: false,
            faults: 0,
            log: Vec::new(),
            choice,
            dice,
        };
        trial.breaks_at = trial.next_fault(EPOCH);
        trial
    }

    pub(super) fn account(&self) -> Account {
        let world = &self.drive.world;
        let workload = self.drive.fluid.workload;
        Account {
            policy: self.choice.policy.to_owned(),
            additions: self.choice.additions(),
            end: passed(world.now),
            coflows: workload.coflow_count(),
            flows: workload.flows().len(),
            messages: world.network.sent,
            lost: world.network.lost,
            doubled: world.network.doubled,
            faults: self.faults,
            terms: world.store.as_ref().map_or(0, |store| store.term),
            fallbacks: world.fallbacks,
            log: self.log.clone(),
        }
    }

    /// Runs everything from the first byte to the last.
    pub(super) fn run(&mut self) -> Result<(), Violation> {
        while !(self.steps.is_empty() && self.drive.is_done()) {
            let until = self.next();
            let turned = self.drive.turn(Some(until), &mut None);
            turned.map_err(|error| self.violation(error.to_string()))?;
            for (at, machine, term) in std::mem::take(&mut self.drive.world.led) {
                self.note(at, &format!("machine {machine} leads, term {term}"));
            }
            self.act()?;
            self.check()?;
        }
        Ok(())
    }

    /// Returns the next time of a fault, step or inspection.
    fn next(&self) -> Instant {
        let step = self.steps.last().map(|(when, _)| *when);
        let now = self.drive.world.now;
        let operator = self.operator.as_ref().and_then(|operator| operator.next(now));
        let own = [self.breaks_at, self.speaks_at, self.grabs_at];
        let due = own.into_iter().chain([step, operator, Some(self.inspects_at)]);
        due.flatten().min().unwrap_or(self.inspects_at)
    }

    /// Does what is due, and compares where it is time.
    fn act(&mut self) -> Result<(), Violation> {
        let now = self.drive.world.now;
        let is_due = |when: Option<Instant>| when.is_some_and(|when| when <= now);
        if is_due(self.breaks_at) {
            self.break_something();
            self.breaks_at = self.next_fault(now);
            self.drive.take_note();
        }
        if is_due(self.speaks_at) {
            self.let_hostile_speak();
            self.speaks_at = Some(now + hostile::PAUSE).filter(|when| *when < self.faults_end);
        }
        if is_due(self.grabs_at) {
            self.let_greedy_grab()?;
            self.grabs_at = Some(now + greedy::PAUSE).filter(|when| *when < self.faults_end);
            self.drive.take_note();
        }
        if let Some(what) = self.operator.as_mut().and_then(|operator| operator.act(&mut self.drive.world)) {
            self.note(now, what);
            self.drive.take_note();
        }
        while self.steps.last().is_some_and(|(when, _)| *when <= now) {
            let Some((_, step)) = self.steps.pop() else { break };
            self.take(step)?;
            self.drive.take_note();
        }
        Ok(())
    }

    fn take(&mut self, step: Step) -> Result<(), Violation> {
        let now = self.drive.world.now;
        match step {
            Step::Heal => self.heal(now),
            Step::Hold => self.drive.is_held = true,
            Step::Mark => self.mark(now),
            Step::Compare => {
                self.check_recovery()?;
                self.drive.is_held = false;
                if let Some((key, number)) = self.marker.take() {
                    let host = &mut self.drive.world.hosts[0];
                    host.close(0, (number, MARKER), 0);
                    host.unregister(0, key);
                    self.drive.world.attend(PortId(0));
                }
            }
        }
        Ok(())
    }

    /// Registers one coflow more, of a flow that does not move.
    fn mark(&mut self, now: Instant) {
        let world = &mut self.drive.world;
        let to = PortId(1.min(world.hosts.len() as u32 - 1));
        let request = world.hosts[0].register(now, 0, Registration::default());
        world.attend(PortId(0));
        let is_it = |named: &(PortId, usize, u32, CoflowKey)| {
            (named.0, named.1, Some(named.2)) == (PortId(0), 0, request)
        };
        let Some(at) = world.registered.iter().position(is_it) else { return };
        let (.., key) = world.registered.remove(at);
        self.marker = world.hosts[0].open(0, MARKER, key, to, (0, 100_000)).map(|number| (key, number));
        world.attend(PortId(0));
    }

    fn next_fault(&mut self, now: Instant) -> Option<Instant> {
        let pause = self.choice.pause?;
        Some(now + Nanos(1 + self.dice.below(2 * pause.0))).filter(|when| *when < self.faults_end)
    }

    fn let_hostile_speak(&mut self) {
        let now = self.drive.world.now;
        // Those whose own hosts have long spoken of them.
        let known = self.drive.applications.coflows.values().filter(|coflow| now >= coflow.named_at + KNOWN);
        let victims: Vec<CoflowKey> = known.filter_map(|coflow| coflow.key).collect();
        let world = &mut self.drive.world;
        let hostile = world.tamper.as_mut().and_then(|tamper| tamper.hostile.as_mut());
        let Some(report) = hostile.map(|hostile| hostile.speak(&mut self.dice, &victims)) else { return };
        for machine in 0..world.machines.len() {
            world.report(machine, report.clone());
        }
    }

    fn let_greedy_grab(&mut self) -> Result<(), Violation> {
        let (now, ports) = (self.drive.world.now, self.ports);
        let Some(greedy) = &mut self.greedy else { return Ok(()) };
        let world = &mut self.drive.world;
        for port in (0..world.hosts.len() as u32).map(PortId) {
            let grabbed = greedy.act(now, &mut world.hosts[port.index()], ports);
            world.attend(port);
            if let Err(what) = grabbed {
                return Err(self.violation(what));
            }
        }
        Ok(())
    }

    /// Lets one thing break.
    fn break_something(&mut self) {
        self.faults += 1;
        let dice = &mut self.dice;
        let world = &mut self.drive.world;
        let now = world.now;
        let hosts = world.hosts.len() as u64;
        let (host, other) = (dice.below(hosts) as usize, dice.below(hosts) as usize);
        let process = dice.below(self.choice.processes as u64) as usize;
        let (port, peer) = (PortId(host as u32), PortId(other as u32));
        let machine = host % 2;
        let kinds = match (self.choice.is_decentralised, self.choice.is_connected) {
            (true, _) => 4,
            (false, false) => 9,
            (false, true) => 11,
        };
        let kind = dice.below(kinds);
        // A silent fault lasts longer, so that TCP by itself would notice it only when it is over.
        let span = span(dice, 1, if kind >= 9 { 1500 } else { 300 });
        let until = now + span;
        let what = match kind {
            0 => {
                self.has_forgotten = true;
                let again = || now + Nanos(between(dice, 1_000_000, 20_000_000));
                world.hosts[host].crash_agent(now, until, again);
                world.hang_up(port);
                self.lost_since[host] = None;
                if dice.happens(0.2) {
                    world.hosts[host].set_forward(Nanos(dice.below(2_000_000_000)));
                }
                format!("agent {host} crashes")
            }
            1 => {
                self.has_forgotten = true;
                world.hosts[host].crash_process(process, until);
                self.drive.applications.lose((port, process), &self.drive.fluid);
                format!("process {process} of host {host} crashes")
            }
            2 => {
                world.hosts[host].hang(until);
                format!("agent {host} hangs")
            }
            3 => {
                world.network.cut(Node::Host(port), Node::Host(peer), until);
                format!("hosts {host} and {other} are cut off from each other")
            }
            4 => {
                world.lose_machine(machine, until, false);
                world.machines[machine].clock = Clock::any(dice);
                format!("machine {machine} crashes")
            }
            5 => {
                world.network.cut(Node::Host(port), Node::Machine(machine), until);
                format!("host {host} and machine {machine} are cut off from each other")
            }
            6 => {
                world.network.cut(Node::Machine(machine), Node::Store, until);
                format!("machine {machine} cannot renew its lease")
            }
            7 if self.choice.is_connected => {
                world.hang_up(port);
                self.lost_since[host] = None;
                format!("the connection of host {host} ends")
            }
            8 => {
                (0..2).for_each(|machine| world.network.cut(Node::Machine(machine), Node::Store, until));
                "the store is away".to_owned()
            }
            9 => {
                world.lose_machine(machine, until, true);
                format!("machine {machine} vanishes")
            }
            10 => {
                world.machines[machine].hangs_until = until;
                format!("machine {machine} hangs")
            }
            _ => {
                if let Some(agent) = &mut world.hosts[host].agent {
                    agent.handle_coordinator_connected();
                }
                if let Some(coordinator) = &mut world.machines[machine].coordinator {
                    coordinator.handle_disconnected(port);
                }
                format!("the connection of host {host} begins again")
            }
        };
        if world.tamper.as_ref().is_some_and(|tamper| tamper.has(Bug::ClockSetBack)) {
            world.hosts[host].set_back(SET_BACK);
        }
        world.attend(port);
        self.note(now, &format!("{what}, {} ms", millis(span)));
    }

    /// Ends all faults.
    fn heal(&mut self, now: Instant) {
        let world = &mut self.drive.world;
        world.network.heal();
        world.hosts.iter_mut().for_each(|host| host.heal(now));
        world.machines.iter_mut().for_each(|machine| machine.heal(now));
        if self.greedy.is_some() {
            world.hosts.iter_mut().for_each(|host| Greedy::leave(now, host));
        }
        for port in (0..world.hosts.len() as u32).map(PortId) {
            world.attend(port);
        }
        self.note(now, "faults stop");
    }

    fn note(&mut self, at: Instant, what: &str) {
        self.log.push(format!("{:5} {what}", millis(passed(at))));
    }
}

/// All machines, with clocks that are off, on a network with the weather that was chosen.
fn world(
    choice: &Choice,
    bug: Option<Bug>,
    workload: &Workload,
    fabric: &Fabric,
    dice: &mut SplitMix64,
) -> World {
    let policy = choice.clone();
    let usual = crate::coordinator(fabric);
    let site = Site {
        policy: Box::new(move || policy.factory()),
        coordinator: CoordinatorConfig {
            confirm: choice.is_hostile,
            stall: if choice.is_hostile { usual.stall } else { STALL_OF_COORDINATOR },
            ..usual
        },
        agent: AgentConfig {
            client_lease: Nanos::from_millis(100),
            stall: STALL,
            linger: Nanos::from_secs(1000),
            budget: choice.budget(workload, bug == Some(Bug::BoundlessUser)),
            ..crate::agent(fabric)
        },
        lines: crate::lines(fabric),
    };
    let mut network = Network::new(DELAY, 0.0, dice.bits());
    (network.weather, network.reads) = (choice.weather, choice.additions.reads());
    let mut world = World::new(EPOCH, site, network);
    for port in (0..workload.ports()).map(PortId) {
        let mut host = Host::new(port, Clock::any(dice), choice.processes, EPOCH);
        host.has_users = choice.has_users;
        host.has_enforcer = choice.additions.connections;
        host.is_generous = bug == Some(Bug::RateOfEach);
        host.reads_together = choice.additions.reads;
        world.add_host(host);
    }
    if !choice.is_decentralised {
        world.machines = (0..2).map(|number| Machine::candidate(Clock::any(dice), number)).collect();
        world.store = Some(Store::new(bug));
    }
    if choice.is_connected {
        let is_stubborn = bug == Some(Bug::EternalConnection);
        let hosts = world.hosts.len();
        world.connections = Some(Connections::new(hosts, 2, EPOCH, dice.bits(), is_stubborn));
    }
    let earliest = world.hosts.iter().map(|host| host.clock.read(EPOCH)).min().unwrap_or(EPOCH);
    let hostile = choice.is_hostile.then(|| Hostile::new(fabric.ports(), earliest));
    world.tamper = Some(Tamper::new(bug, dice.bits(), fabric.ports(), hostile));
    world
}
