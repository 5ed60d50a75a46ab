//! The live control plane in a simulation: what a policy brings about when coordinator, agents and
//! clients carry it out, and what must hold when they break.
//!
//! # The idea
//! Other drivers carry a policy's decisions out at once and everywhere. Live, a decision is a
//! report, a round, an order and a gate later. Here the live system's own state machines
//! (`cavalcade-control`) run on an exact fluid of any workload: a client and an agent at each port,
//! a coordinator (or negotiation between agents, for a policy of scope host), and the bytes of all
//! messages between machines. So Δ, delay, loss and staleness are those of the real code.
//!
//! A policy decides on gates, as live: a flow that is off is capped at nothing, a paced one at its
//! rate, and all that are open share max-min, as over TCP. The network has no classes here (agents
//! give packets a DSCP; a plain switch ignores it).
//!
//! | part | what it is |
//! |---|---|
//! | `fluid` | the bytes: rates, ends and arrivals of flows |
//! | `world` | machines and the network between them; time |
//! | `host` | an agent and the clients of its processes |
//! | `machine` | where a coordinator may run, and the store that says which one leads |
//! | `network` | messages on their way: reliable, or with faults |
//! | `connection` | connections between agents and coordinators, which outlive the machines at their ends |
//! | `applications` | what registers coflows and opens flows |
//! | `drive` | the driver: from instant to instant |
//! | [`fault`] | the same driver with faults, and checks of what must hold |
//!
//! # Invariants
//! - Nothing of the control plane is written a second time here: this crate carries messages and
//!   tells the time.
//! - All messages pass through their byte formats.
//! - Without faults machines start at phases of their own within a period (seeded), and have talked
//!   to each other before the workload begins. Messages between machines arrive in order after a
//!   delay; those of agents among each other (UDP, live) may be lost. On a host they take no time.
//!
//! # Cost
//! Each agent and client comes up once a period while it has flows: O(flows of the host) then. A
//! decision costs what the coordinator's does. An hour of a hundred and fifty ports has 10⁸ such
//! turns: this is for minutes, not for hours.

#![cfg_attr(
    not(test),
    deny(clippy::disallowed_types, clippy::disallowed_methods, clippy::iter_over_hash_type)
)]

mod applications;
mod clock;
mod connection;
mod drive;
pub mod fault;
mod fluid;
mod host;
mod machine;
mod network;
mod world;

pub use cavalcade_control::Factory;
use cavalcade_control::{AgentConfig, Budget, CoordinatorConfig};
use cavalcade_harness::{RunError, check};
use cavalcade_metrics::Outcome;
use cavalcade_model::{BitsPerSec, Bytes, Fabric, Instant, Nanos, PortId, SplitMix64, Workload};
use cavalcade_sim_fluid::{Observer, Options};

use crate::applications::Habits;
use crate::clock::{Clock, EPOCH};
use crate::drive::Drive;
use crate::fluid::Fluid;
use crate::host::{Host, Site, address};
use crate::network::Network;
use crate::world::{World, leader};

/// The number of periods for which machines have been up when the workload begins.
const WARM_UP: u64 = 10;

/// The parameters of coordination.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Coordination {
    /// Δ: how long agents wait between reports, and the coordinator between rounds.
    pub period: Nanos,
    /// Bytes below which an agent need not report a coflow (see [`CoordinatorConfig::quiet`]).
    pub quiet: Bytes,
}

impl Default for Coordination {
    /// Aalo's period (§7.1), all coflows reported.
    fn default() -> Self {
        Self { period: Nanos::from_millis(10), quiet: Bytes::ZERO }
    }
}

/// Counts of messages between machines.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    /// Reports of agents to the coordinator.
    pub reports: u64,
    /// Orders of the coordinator to agents.
    pub orders: u64,
    /// Datagrams of agents to each other, lost ones too.
    pub datagrams: u64,
    /// Bytes of all of these, without headers of the network.
    pub bytes: u64,
}

impl Traffic {
    /// Returns the number of messages.
    pub fn messages(&self) -> u64 {
        self.reports + self.orders + self.datagrams
    }
}

/// Runs `policy` over `workload` on `fabric`, carried out by the live control plane. Returns what
/// came out, and what was said for it. Staleness comes from the system itself, so a policy that has
/// a parameter for it (`sync` of `dclas`) is best given 0.
///
/// `options` say how long messages travel between machines, what share of datagrams is lost, and
/// the seed of phases and losses.
///
/// # Errors
/// As `cavalcade_sim_fluid::simulate`.
pub fn simulate(
    workload: &Workload,
    fabric: &Fabric,
    policy: Box<dyn Fn() -> Factory>,
    coordination: &Coordination,
    options: &Options,
    mut observer: Option<&mut dyn Observer>,
) -> Result<(Outcome, Traffic), RunError> {
    check(workload, fabric)?;
    let wants_segments = observer.as_ref().is_some_and(|observer| observer.wants_segments());
    let fluid = Fluid::new(workload, fabric, options, wants_segments);
    let world = reliable(fabric, policy, coordination, options);
    let mut drive = Drive::new(fluid, world, Habits::default());
    while drive.turn(None, &mut observer)? {
        if observer.as_ref().is_some_and(|observer| observer.is_cancelled()) {
            return Err(RunError::Cancelled);
        }
    }
    let traffic = drive.world.traffic;
    let mut outcome = drive.fluid.outcome()?;
    outcome.counts.messages = traffic.messages();
    Ok((outcome, traffic))
}

/// Machines that do not fail, on a network that loses datagrams at most.
fn reliable(
    fabric: &Fabric,
    policy: Box<dyn Fn() -> Factory>,
    coordination: &Coordination,
    options: &Options,
) -> World {
    let Coordination { period, quiet } = *coordination;
    let begin = Instant(EPOCH.0 - WARM_UP * period.0);
    let site = Site {
        coordinator: CoordinatorConfig {
            period,
            quiet,
            lease: Nanos(10 * period.0 + 4 * options.control_delay.0),
            ..coordinator(fabric)
        },
        agent: AgentConfig { period, ..agent(fabric) },
        lines: lines(fabric),
        policy,
    };
    let mut dice = SplitMix64::new(options.seed);
    let network = Network::new(options.control_delay, options.control_loss, dice.bits());
    let mut phases: Vec<u64> = (0..fabric.ports()).map(|_| dice.below(period.0.max(1))).collect();
    phases.sort_unstable();
    let mut world = World::new(begin, site, network);
    if world.site.is_coordinated() {
        world.machines.push(leader(&world.site, begin));
    }
    for (port, phase) in (0..fabric.ports()).map(PortId).zip(phases) {
        world.add_host(Host::new(port, Clock::TRUE, 1, begin + Nanos(phase)));
    }
    world
}

/// Returns the rates at which each host sends and receives.
fn lines(fabric: &Fabric) -> Vec<[BitsPerSec; 2]> {
    let line = |port| [fabric.ingress(port), fabric.egress(port)].map(|link| fabric.capacity(link));
    (0..fabric.ports()).map(PortId).map(line).collect()
}

/// Returns what a coordinator on `fabric` is started with, but for its term. It knows hosts and
/// nothing between them.
fn coordinator(fabric: &Fabric) -> CoordinatorConfig {
    let fastest = lines(fabric).into_iter().flatten().max().unwrap_or_default();
    CoordinatorConfig::new(0, fabric.ports(), fastest)
}

/// Returns what any agent on `fabric` is started with, but for its port, line and session. Its
/// clients are refused nothing.
fn agent(fabric: &Fabric) -> AgentConfig {
    let ports = fabric.ports();
    AgentConfig {
        directory: (0..ports).map(|port| (address(PortId(port)), PortId(port))).collect(),
        budget: Budget { coflows: u32::MAX, flows: u32::MAX, ..Budget::default() },
        ..AgentConfig::new(PortId(0), ports, 0, BitsPerSec::ZERO)
    }
}
