//! A scenario: everything of a run.

use std::num::NonZeroU32;
use std::sync::Arc;

use cavalcade_harness::CpuOrder;
use cavalcade_metrics::Outcome;
use cavalcade_model::{BitsPerSec, Fabric, FabricSpec, Nanos, TaskId, Workload};
use cavalcade_report::RunConditions;
use cavalcade_sim_fluid::Allocator;
use cavalcade_spec::{Carried, SpecError};

use crate::engine::{Engine, Packets, Transport, Watch};
use crate::error::Error;
use crate::policies::Policy;

/// Conditions of a run besides its workload, engine and policy.
#[derive(Clone, Debug, PartialEq)]
pub struct Conditions {
    /// The capacity of every port in each direction.
    pub rate: BitsPerSec,
    /// The fabric; by default a big switch with as many ports as the workload needs.
    pub fabric: Option<FabricSpec>,
    /// Submits all tasks at time zero.
    pub offline: bool,
    /// The delay of messages between instances of a policy.
    pub control_delay: Nanos,
    /// The share of those messages that is lost.
    pub control_loss: f64,
    /// The seed of everything random.
    pub seed: u64,
    /// The number of counters that give out task-ids without communication (Baraat §4.1).
    pub counters: NonZeroU32,
    /// The order of computations on hosts with slots.
    pub cpu_order: CpuOrder,
    /// The way in which the fluid engine finds rates.
    pub allocator: Allocator,
}

impl Default for Conditions {
    fn default() -> Self {
        Self {
            rate: BitsPerSec(1_000_000_000),
            fabric: None,
            offline: false,
            control_delay: Nanos::ZERO,
            control_loss: 0.0,
            seed: 1,
            counters: NonZeroU32::MIN,
            cpu_order: CpuOrder::default(),
            allocator: Allocator::default(),
        }
    }
}

/// Everything of a run. Copies share the workload and the fabric. Its parts fit each other: to
/// change one, make another scenario ([`Scenario::with_conditions`], [`Scenario::on`],
/// [`Scenario::with_policy`], [`Scenario::under`]).
#[derive(Clone, Debug)]
pub struct Scenario {
    /// The workload as it was given.
    given: Arc<Workload>,
    /// The workload as the conditions have it.
    workload: Arc<Workload>,
    fabric: Arc<Fabric>,
    conditions: Conditions,
    engine: Engine,
    policy: Option<Policy>,
}

impl Scenario {
    /// Puts `workload` on the fabric of the conditions, under max-min fairness on the fluid engine.
    ///
    /// # Errors
    /// If there can be no such fabric, it cannot carry the workload, or there are more counters
    /// than task-ids.
    pub fn new(workload: impl Into<Arc<Workload>>, conditions: Conditions) -> Result<Self, Error> {
        let given = workload.into();
        let counters = conditions.counters;
        // Traces may be large, and most conditions leave them as they are.
        let in_order = || (0..given.tasks().len()).map(TaskId::from_index).all(|id| given.number(id) == id.0);
        let workload = if !conditions.offline && counters == NonZeroU32::MIN && in_order() {
            Arc::clone(&given)
        } else {
            let own = Workload::clone(&given);
            let own = if conditions.offline { own.offline() } else { own };
            let own =
                own.with_counters(counters).map_err(|error| Error::option("counters", counters, error))?;
            Arc::new(own)
        };
        let fabric = fabric_of(&conditions, workload.ports())?;
        fabric.check(&workload).map_err(|error| Error::input(error.to_string()))?;
        let fair = cavalcade_policy::parse("fair").map_err(|error| Error::usage(error.to_string()))?;
        Ok(Self {
            given,
            workload,
            fabric: Arc::new(fabric),
            conditions,
            engine: Engine::Fluid,
            policy: Some(fair.into()),
        })
    }

    /// The workload, as the conditions have it.
    pub fn workload(&self) -> &Workload {
        &self.workload
    }

    /// The fabric that it crosses.
    pub fn fabric(&self) -> &Fabric {
        &self.fabric
    }

    /// The conditions.
    pub fn conditions(&self) -> &Conditions {
        &self.conditions
    }

    /// The driver, which holds the transport if it sends packets.
    pub fn engine(&self) -> &Engine {
        &self.engine
    }

    /// The policy; `None` leaves the order to the transport.
    pub fn policy(&self) -> Option<&Policy> {
        self.policy.as_ref()
    }

    /// The same workload, engine and policy under other conditions.
    ///
    /// # Errors
    /// As [`Scenario::new`].
    pub fn with_conditions(&self, conditions: Conditions) -> Result<Self, Error> {
        let other = Self::new(self.given.clone(), conditions)?;
        Ok(Self { engine: self.engine.clone(), policy: self.policy.clone(), ..other })
    }

    /// What sets the scenario apart from `other` besides engine and policy, if anything does:
    /// figures of such runs show nothing about policies.
    pub(crate) fn difference(&self, other: &Self) -> Option<&'static str> {
        fn differ<T: PartialEq>(one: &Arc<T>, other: &Arc<T>) -> bool {
            !Arc::ptr_eq(one, other) && one != other
        }
        match () {
            () if differ(&self.workload, &other.workload) => Some("workloads"),
            () if differ(&self.fabric, &other.fabric) => Some("fabrics"),
            () if self.conditions != other.conditions => Some("conditions"),
            () => None,
        }
    }

    /// The same under what `text` names: a policy as `sebf` or `dclas:queues=4`, a policy over a
    /// transport as `pias over dctcp`, or a transport that orders packets itself as `over pfabric`.
    ///
    /// # Errors
    /// If a name is unknown, or a value cannot be used.
    pub fn under(&self, text: &str) -> Result<Self, SpecError> {
        let Carried { policy, transport } = Carried::read(text);
        let policy = policy.map(cavalcade_policy::parse).transpose()?.map(Policy::from);
        let engine = match transport.map(cavalcade_transport::parse).transpose()? {
            None => self.engine.clone(),
            Some(transport) => self.engine.over(Transport::from(&transport)),
        };
        Ok(Self { policy, engine, ..self.clone() })
    }

    /// The same under a policy.
    #[must_use]
    pub fn with_policy(&self, policy: impl Into<Policy>) -> Self {
        Self { policy: Some(policy.into()), ..self.clone() }
    }

    /// The same under a policy, or with the order of flows left to the transport, which only
    /// packets can have.
    #[must_use]
    pub fn ordered_by(&self, policy: Option<Policy>) -> Self {
        Self { policy, ..self.clone() }
    }

    /// The same on an engine.
    #[must_use]
    pub fn on(&self, engine: Engine) -> Self {
        Self { engine, ..self.clone() }
    }

    /// The policy, and the transport behind "over" where packets are sent; what [`Scenario::under`]
    /// takes.
    pub fn label(&self) -> String {
        let policy = self.policy.as_ref().map(Policy::label);
        let transport = match &self.engine {
            Engine::Packet(packets) => Some(packets.transport.label()),
            Engine::Fluid | Engine::Control { .. } => None,
        };
        Carried { policy, transport }.to_string()
    }

    /// Checks that the engine can run the policy on the fabric, and that an order of a file is one
    /// of these coflows.
    ///
    /// # Errors
    /// If not, with the reason.
    pub fn check(&self) -> Result<(), Error> {
        self.bound().map(drop)
    }

    /// The same, checked, with a policy that is ready for the workload.
    pub(crate) fn bound(&self) -> Result<Self, Error> {
        self.engine.check(self)?;
        let policy = self.policy.as_ref().map(|policy| policy.bound_to(&self.workload)).transpose()?;
        Ok(Self { policy, ..self.clone() })
    }

    /// Runs it.
    ///
    /// # Errors
    /// If the engine cannot run the policy, or the settings of packets cannot be used; if the
    /// policy fails, or the run does not end before the end of time.
    pub fn run(&self) -> Result<Outcome, Error> {
        self.run_with(Watch::default())
    }

    /// Runs it and watches.
    ///
    /// # Errors
    /// As [`Scenario::run`]; and where the run was cancelled, or what is recorded cannot be
    /// written.
    pub fn run_with(&self, watch: Watch<'_, '_>) -> Result<Outcome, Error> {
        self.engine.run(&self.bound()?, watch)
    }
}

/// The fabric of the conditions, or one big switch with so many ports.
pub(crate) fn fabric_of(conditions: &Conditions, ports: u32) -> Result<Fabric, Error> {
    let rate = conditions.rate;
    match &conditions.fabric {
        Some(spec) => spec.build(rate).map_err(|error| Error::option("fabric", spec, error)),
        None => Fabric::big_switch(ports, rate).map_err(|error| Error::option("rate", rate, error)),
    }
}

/// What it takes to run a comparison over `trace` again, for its JSON.
pub fn run_conditions(trace: &str, conditions: &Conditions) -> RunConditions {
    RunConditions {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        trace: trace.to_owned(),
        fabric: conditions.fabric.as_ref().map(ToString::to_string),
        rate: conditions.rate,
        seed: conditions.seed,
        offline: conditions.offline,
    }
}

impl Engine {
    /// Packets under `transport`, otherwise as this engine has them.
    #[must_use]
    pub fn over(&self, transport: Transport) -> Self {
        match self {
            Self::Packet(packets) => Self::Packet(Packets { transport, ..packets.clone() }),
            Self::Fluid | Self::Control { .. } => Self::Packet(Packets::over(transport)),
        }
    }
}
