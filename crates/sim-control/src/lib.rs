//! The live control plane inside a simulation: what a policy brings about when coordinator, agents and clients carry it out.
//!
//! # The idea
//! A simulator drives a policy as if every decision held at once and everywhere. Live, a decision is a report, a round, an
//! order and a gate later. [`ControlPlane`] puts the live system's own state machines (`cavalcade-control`) between the two:
//! to a driver it is one more policy of scope fabric, and inside it runs a client and an agent at each port, a coordinator
//! (or negotiation between agents, for a policy of scope host), and the bytes of all messages between machines. So Δ,
//! delay, loss and staleness are those of the real code, on an exact fluid of any workload.
//!
//! What it decides are gates, as live: a flow that is off is capped at nothing, a paced one at its rate, and all that are
//! open share max-min, as over TCP. The network has no classes here (agents give packets a DSCP; a plain switch ignores it).
//!
//! # Invariants
//! - Nothing of the control plane is written a second time here: this crate carries messages and tells the time.
//! - Machines start at phases of their own within a period (seeded), and have talked to each other before time zero.
//! - Messages between machines arrive in order after a delay; those of agents among each other (UDP, live) may be lost. On a
//!   host they take no time.
//!
//! # Cost
//! Each agent and client comes up once a period while it has flows: O(flows of the host) then. A decision costs what the
//! coordinator's does. An hour of a hundred and fifty ports has 10⁸ such turns: this is for minutes, not for hours.

#![cfg_attr(
    not(test),
    deny(clippy::disallowed_types, clippy::disallowed_methods, clippy::iter_over_hash_type)
)]

mod host;
mod plane;

use std::cell::Cell;
use std::rc::Rc;

use cavalcade_control::Factory;
use cavalcade_model::{Bytes, ClassShares, Discipline, Nanos, Policy, PolicyFactory, Scope, Setting, Terms};

/// What machines and the network between them are like.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Conditions {
    /// Δ: how long agents wait between reports, and the coordinator between rounds.
    pub period: Nanos,
    /// Bytes below which an agent need not report a coflow (see [`CoordinatorConfig::quiet`]).
    ///
    /// [`CoordinatorConfig::quiet`]: cavalcade_control::CoordinatorConfig::quiet
    pub quiet: Bytes,
    /// How long a message travels between machines.
    pub delay: Nanos,
    /// The share of datagrams between agents that is lost, 0 to 1.
    pub loss: f64,
    /// Of phases and losses.
    pub seed: u64,
}

impl Default for Conditions {
    /// Aalo's period (§7.1), all coflows reported, on a network that takes no time.
    fn default() -> Self {
        Self { period: Nanos::from_millis(10), quiet: Bytes::ZERO, delay: Nanos::ZERO, loss: 0.0, seed: 1 }
    }
}

/// What has been said between machines.
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
    /// How many messages there were.
    pub fn messages(&self) -> u64 {
        self.reports + self.orders + self.datagrams
    }
}

/// A policy that is carried out by the live control plane.
pub struct ControlPlane {
    policy: Box<dyn Fn() -> Factory>,
    conditions: Conditions,
    traffic: Rc<Cell<Traffic>>,
}

impl ControlPlane {
    /// The control plane under which `policy` makes the decisions. Staleness comes from the system itself, so a policy that
    /// has a parameter for it (`sync` of `dclas`) is best given 0.
    pub fn new(policy: impl Fn() -> Factory + 'static, conditions: Conditions) -> Self {
        Self { policy: Box::new(policy), conditions, traffic: Rc::default() }
    }

    /// What has been said in the run under way, or in the last one.
    pub fn traffic(&self) -> Traffic {
        self.traffic.get()
    }
}

impl PolicyFactory for ControlPlane {
    fn terms(&self) -> Terms {
        Terms {
            scope: Scope::Fabric,
            discipline: Discipline::MaxMin,
            shares: ClassShares::Strict,
            flow_events: true,
            work_conserving: false,
            starvation_free: false,
        }
    }

    fn build(&self, setting: &Setting<'_>) -> Policy {
        let plane = plane::Plane::new(&*self.policy, self.conditions, setting, self.traffic.clone());
        Policy::Clairvoyant(Box::new(plane))
    }
}
