//! What carries bytes in a run: the fluid engine, or packets under a transport.

use cavalcade_metrics::{Outcome, TransportFacts};
use cavalcade_model::{Nanos, PolicyFactory, Scope};
use cavalcade_policy::Configured as Policy;
use cavalcade_sim_packet::{Network, Observer, Options, Run, SimulationError, simulate};
use cavalcade_transport::{Configured as Transport, Definition, Visitor, parse};

use crate::arguments::{Carriage, Conditions, Engine};
use crate::fabric::argument::FabricArgument;
use crate::failure::Failure;
use crate::parallel::Progress;
use crate::scene::{Meter, Scene};

/// The transport where none is named.
const DEFAULT: &str = "dctcp";

/// What carries the bytes of a run.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Carrier {
    /// Bytes flow at rates.
    Fluid,
    /// Hosts send packets.
    Packets {
        /// How they send them.
        transport: Transport,
        /// How long a bit travels along a link.
        link_delay: Nanos,
    },
}

impl Carrier {
    /// Those that the command line asks for, in the order given.
    ///
    /// # Errors
    /// Where a transport is unknown, or one is named for the fluid engine.
    pub(crate) fn selected(carriage: &Carriage) -> Result<Vec<Self>, Failure> {
        let packets = carriage.engine == Engine::Packet;
        match &carriage.transport {
            None if !packets => Ok(vec![Self::Fluid]),
            Some(transports) if !packets => Err(Failure::usage(format!(
                "--transport {transports}: the fluid engine has no packets to send"
            ))
            .help("add --engine packet")),
            named => {
                let link_delay = carriage.link_delay;
                let named = specs(named.as_deref().unwrap_or(DEFAULT));
                let mut carriers = Vec::new();
                for spec in named {
                    let carrier = Self::Packets { transport: transport(&spec)?, link_delay };
                    if !carriers.contains(&carrier) {
                        carriers.push(carrier);
                    }
                }
                Ok(carriers)
            }
        }
    }

    /// That `policy` can be run by it.
    ///
    /// # Errors
    /// Where its priorities differ from link to link, which packets cannot carry.
    pub(crate) fn check(&self, policy: &Policy) -> Result<(), Failure> {
        if *self != Self::Fluid && policy.terms().scope == Scope::Link {
            return Err(failure(&policy.label(), &SimulationError::LinkScope));
        }
        Ok(())
    }

    /// What a run over it is called besides its policy.
    pub(crate) fn facts(&self) -> Option<TransportFacts> {
        match self {
            Self::Fluid => None,
            Self::Packets { transport, .. } => {
                let params = transport.params().into_iter().map(|(name, value)| (name.to_owned(), value));
                Some(TransportFacts { name: transport.name().to_owned(), params: params.collect() })
            }
        }
    }

    /// Runs `policy` over it; `link_use` records how busy links were.
    ///
    /// # Errors
    /// Where queues or packets cannot be as they are asked for.
    pub(crate) fn run(
        &self,
        scene: &Scene,
        policy: &Policy,
        link_use: bool,
        progress: &Progress,
    ) -> Result<Outcome, Failure> {
        match self {
            Self::Fluid => Ok(scene.run(policy, link_use, progress)),
            Self::Packets { transport, link_delay } => {
                let network = network(scene, *link_delay)?;
                let Conditions { control_delay, control_loss, seed, cpu_order, .. } = scene.conditions;
                let cpu_order = cpu_order.into();
                let options =
                    Options { control_delay, control_loss, seed, cpu_order, link_use, ..Options::default() };
                let mut watcher = Watcher { meter: Meter::new(progress) };
                let observer: &mut dyn Observer = &mut watcher;
                let run = transport.visit(Simulation {
                    scene,
                    network: &network,
                    policy,
                    options: &options,
                    observer,
                });
                run.map(|run| run.outcome).map_err(|error| failure(&policy.label(), &error))
            }
        }
    }
}

/// The parts of a list of specifications: what has an `=` but no name belongs to the one before.
fn specs(list: &str) -> Vec<String> {
    let mut specs: Vec<String> = Vec::new();
    for part in list.split(',').map(str::trim).filter(|part| !part.is_empty()) {
        match specs.last_mut() {
            Some(last) if part.contains('=') && !part.contains(':') => {
                last.push(if last.contains(':') { ',' } else { ':' });
                last.push_str(part);
            }
            _ => specs.push(part.to_owned()),
        }
    }
    specs
}

/// Reads one transport.
///
/// # Errors
/// Where a name is unknown or a value cannot be used.
pub(crate) fn transport(spec: &str) -> Result<Transport, Failure> {
    parse(spec).map_err(|error| Failure::usage(format!("--transport {spec}: {error}")))
}

fn failure(policy: &str, error: &SimulationError) -> Failure {
    Failure::usage(format!("{policy} over packets: {error}"))
}

/// What packets cross: the fabric of the scene, whose links take `delay` where the fabric says nothing of delays.
fn network(scene: &Scene, delay: Nanos) -> Result<Network, Failure> {
    let named = scene.conditions.fabric.as_ref().is_some_and(FabricArgument::names_delays);
    let network = if named {
        Network::new(&scene.fabric)
    } else {
        let mut fabric = scene.fabric.clone();
        fabric.set_delays(delay);
        Network::new(&fabric)
    };
    network.map_err(|error| Failure::usage(format!("over packets: {error}")))
}

struct Simulation<'a> {
    scene: &'a Scene,
    network: &'a Network,
    policy: &'a Policy,
    options: &'a Options,
    observer: &'a mut dyn Observer,
}

impl Visitor for Simulation<'_> {
    type Output = Result<Run, SimulationError>;

    fn visit<T: Definition>(self, transport: &T) -> Self::Output {
        let Self { scene, network, policy, options, observer } = self;
        simulate(&scene.workload, network, transport, Some(policy), options, Some(observer))
    }
}

struct Watcher<'a> {
    meter: Meter<'a>,
}

impl Observer for Watcher<'_> {
    fn progress(&mut self, done_coflows: usize) {
        self.meter.reach(done_coflows);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_belong_to_the_transport_before_them() {
        assert_eq!(specs("dctcp,pfabric"), ["dctcp", "pfabric"]);
        let with = specs("dctcp:marking=30KB,initial_window=16,reno:ack_every=2, pfabric");
        assert_eq!(with, ["dctcp:marking=30KB,initial_window=16", "reno:ack_every=2", "pfabric"]);
    }

    #[test]
    fn a_transport_is_named_for_packets_only() {
        let transport = Some("dctcp".to_owned());
        let carriage = Carriage { transport, ..Carriage::default() };
        assert!(Carrier::selected(&carriage).is_err());
        let carriage = Carriage { engine: Engine::Packet, ..carriage };
        assert_eq!(Carrier::selected(&carriage).unwrap().len(), 1);
        assert_eq!(Carrier::selected(&Carriage::default()).unwrap(), [Carrier::Fluid]);
    }
}
