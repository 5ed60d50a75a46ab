//! What carries bytes in a run: the fluid engine, the same under the live control plane, or packets under a transport.

use std::io::{self, Write};

use cavalcade_metrics::{ControlFacts, Outcome, TransportFacts};
use cavalcade_model::{Nanos, PolicyFactory, Scope};
use cavalcade_policy::Configured as Policy;
use cavalcade_sim_packet::capture::{self, Seen, least_overhead};
use cavalcade_sim_packet::{Network, Observer, Options, Run, SimulationError, simulate};
use cavalcade_spec::list;
use cavalcade_transport::{Configured as Transport, Definition, Visitor, parse};

use crate::arguments::{Carriage, Conditions, Engine};
use crate::fabric::argument::FabricArgument;
use crate::failure::{Failure, Kind};
use crate::parallel::Progress;
use crate::scene::{Meter, Scene};

/// The transport where none is named.
const DEFAULT: &str = "dctcp";

/// What carries the bytes of a run.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Carrier {
    /// Bytes flow at rates.
    Fluid,
    /// The same, through gates that the live system's agents open and shut.
    Controlled {
        /// How long agents wait between reports, and the coordinator between rounds.
        period: Nanos,
    },
    /// Hosts send packets.
    Packets {
        /// How they send them.
        transport: Transport,
        /// Whether it was named; else a paper's policy travels by its own.
        is_named: bool,
        /// What packets are like, and the links between them.
        wire: Wire,
    },
}

/// What packets are like, and what they cross.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Wire {
    /// How long a bit travels along a link, where the fabric says nothing of it.
    pub(crate) link_delay: Nanos,
    /// Bytes of a full packet.
    pub(crate) mtu: u16,
    /// Bytes of all headers of a packet.
    pub(crate) headers: u16,
    /// Whether what a policy's instances say to each other crosses the network itself.
    pub(crate) in_band: bool,
}

/// What is to be written of the packets of a run.
pub(crate) struct Capture<'a> {
    /// The links, by the fabric's names; all where none is named.
    pub(crate) links: &'a [String],
    /// Where they are written.
    pub(crate) out: &'a mut dyn Write,
}

impl Carrier {
    /// Those that the command line asks for, in the order given.
    ///
    /// # Errors
    /// Where a transport is unknown, or one is named for the fluid engine.
    pub(crate) fn selected(carriage: &Carriage) -> Result<Vec<Self>, Failure> {
        if let (Some(transports), false) = (&carriage.transport, carriage.engine.contains(&Engine::Packet)) {
            let problem = format!("--transport {transports}: the fluid engine has no packets to send");
            return Err(Failure::usage(problem).help("add --engine packet"));
        }
        let mut carriers = Vec::new();
        for engine in &carriage.engine {
            let of_engine = match engine {
                Engine::Fluid => vec![Self::Fluid],
                Engine::Control => vec![Self::Controlled { period: carriage.period }],
                Engine::Packet => Self::packets(carriage)?,
            };
            for carrier in of_engine {
                if !carriers.contains(&carrier) {
                    carriers.push(carrier);
                }
            }
        }
        Ok(carriers)
    }

    fn packets(carriage: &Carriage) -> Result<Vec<Self>, Failure> {
        let Carriage { link_delay, mtu, headers, in_band, .. } = *carriage;
        if headers == 0 || headers >= mtu {
            return Err(Failure::usage(format!(
                "--mtu {mtu}B --headers {headers}B: headers need at least a byte, and packets one beside them"
            )));
        }
        let wire = Wire { link_delay, mtu, headers, in_band };
        let named = list(carriage.transport.as_deref().unwrap_or(DEFAULT));
        let is_named = carriage.transport.is_some();
        named.iter().map(|spec| Ok(Self::Packets { transport: transport(spec)?, is_named, wire })).collect()
    }

    /// Returns what carries `policy`: where packets are sent and no transport was named, a paper's policy has its own.
    pub(crate) fn of(&self, policy: &Policy) -> Self {
        let own = policy.info().paper.and_then(|paper| paper.transport);
        match (self, own) {
            (&Self::Packets { is_named: false, wire, .. }, Some(own)) => {
                let transport = transport(own.name).expect("the transport of a paper is registered");
                Self::Packets { transport, is_named: true, wire }
            }
            _ => self.clone(),
        }
    }

    /// That `policy` can be run by it.
    ///
    /// # Errors
    /// Where its priorities differ from link to link, which packets cannot carry.
    pub(crate) fn check(&self, policy: &Policy) -> Result<(), Failure> {
        match self {
            Self::Packets { transport, .. } if beside(policy, transport).is_some() => {
                match policy.terms().scope {
                    Scope::Link => Err(failure(&policy.label(), &SimulationError::LinkScope)),
                    Scope::Fabric | Scope::Host => Ok(()),
                }
            }
            _ => Ok(()),
        }
    }

    /// What a run over it is called besides its policy, beside runs over others.
    pub(crate) fn name(&self) -> Option<&str> {
        match self {
            Self::Fluid => None,
            Self::Controlled { .. } => Some("control"),
            Self::Packets { transport, .. } => Some(transport.name()),
        }
    }

    /// How the control plane went about it, where there is one.
    pub(crate) fn control(&self) -> Option<ControlFacts> {
        match *self {
            Self::Controlled { period } => Some(ControlFacts { period }),
            Self::Fluid | Self::Packets { .. } => None,
        }
    }

    /// How packets are carried, where there are any.
    pub(crate) fn facts(&self) -> Option<TransportFacts> {
        match self {
            Self::Fluid | Self::Controlled { .. } => None,
            Self::Packets { transport, .. } => {
                let params = transport.params().into_iter().map(|(name, value)| (name.to_owned(), value));
                Some(TransportFacts { name: transport.name().to_owned(), params: params.collect() })
            }
        }
    }

    /// Runs `policy` over it; `link_use` records how busy links were, `capture` the packets themselves.
    ///
    /// # Errors
    /// Where queues or packets cannot be as they are asked for, or what is captured cannot be written.
    pub(crate) fn run(
        &self,
        scene: &Scene,
        policy: &Policy,
        link_use: bool,
        capture: Option<Capture<'_>>,
        progress: &Progress,
    ) -> Result<Outcome, Failure> {
        match self {
            Self::Fluid => Ok(scene.run(policy, link_use, progress)),
            Self::Controlled { period } => scene.run_controlled(policy, *period, link_use, progress),
            Self::Packets { transport, wire, .. } => {
                let network = network(scene, wire.link_delay)?;
                let (links, out) = match capture {
                    Some(Capture { links, out }) => (captured(&network, links)?, Some(out)),
                    None => (Vec::new(), None),
                };
                let Conditions { control_delay, control_loss, seed, cpu_order, .. } = scene.conditions;
                let options = Options {
                    packet: wire.mtu,
                    overhead: wire.headers,
                    in_band: wire.in_band,
                    control_delay,
                    control_loss,
                    seed,
                    cpu_order: cpu_order.into(),
                    link_use,
                    queue_use: true,
                    capture: links,
                    ..Options::default()
                };
                let mut watcher = Watcher::new(progress, out);
                let observer: &mut dyn Observer = &mut watcher;
                let run = transport.visit(Simulation {
                    scene,
                    network: &network,
                    policy: beside(policy, transport),
                    options: &options,
                    observer,
                });
                let outcome = run.map(|run| run.outcome).map_err(|error| failure(&policy.label(), &error))?;
                watcher.finish().map(|()| outcome)
            }
        }
    }

    /// That packets can be captured as others read them.
    ///
    /// # Errors
    /// Where there are none, or their headers have no room for those of TCP and IP.
    pub(crate) fn check_capture(&self) -> Result<(), Failure> {
        let Self::Packets { transport, wire, .. } = self else {
            return Err(Failure::usage("--pcap: the fluid engine has no packets to write")
                .help("add --engine packet"));
        };
        let least = least_overhead(transport.visit(OwnHeader));
        if wire.headers < least {
            return Err(Failure::usage(format!(
                "--pcap: {} bytes of headers have no room for those of IP, TCP and {}",
                wire.headers,
                transport.name()
            ))
            .help(format!("add --headers {least}B")));
        }
        Ok(())
    }
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

/// Returns the policy whose priorities packets carry: none where they travel by the paper's own transport, which orders them.
fn beside<'a>(policy: &'a Policy, transport: &Transport) -> Option<&'a Policy> {
    let own = policy.info().paper.and_then(|paper| paper.transport);
    let orders = own.is_some_and(|own| own.orders && own.name == transport.name());
    (!orders).then_some(policy)
}

struct Simulation<'a> {
    scene: &'a Scene,
    network: &'a Network,
    policy: Option<&'a Policy>,
    options: &'a Options,
    observer: &'a mut dyn Observer,
}

impl Visitor for Simulation<'_> {
    type Output = Result<Run, SimulationError>;

    fn visit<T: Definition>(self, transport: &T) -> Self::Output {
        let Self { scene, network, policy, options, observer } = self;
        let policy = policy.map(|policy| policy as &dyn PolicyFactory);
        simulate(&scene.workload, network, transport, policy, options, Some(observer))
    }
}

/// The numbers of the links of these names; of all where there are none.
fn captured(network: &Network, names: &[String]) -> Result<Vec<u32>, Failure> {
    if names.is_empty() {
        return Ok((0..network.links().len() as u32).collect());
    }
    let number = |name: &String| match network.fabric().link_named(name) {
        Ok(link) => Ok(network.number(link)),
        Err(error) => Err(Failure::usage(format!("--pcap-link: {error}"))),
    };
    names.iter().map(number).collect()
}

/// Bytes of a transport's own header.
struct OwnHeader;

impl Visitor for OwnHeader {
    type Output = usize;

    fn visit<T: Definition>(self, _: &T) -> usize {
        let mut own = Vec::new();
        T::wire(&T::Extra::default(), &mut own);
        own.len()
    }
}

struct Watcher<'p, 'o> {
    meter: Meter<'p>,
    out: Option<&'o mut dyn Write>,
    record: Vec<u8>,
    /// The first thing that went wrong; nothing is written behind it.
    error: Option<io::Error>,
}

impl<'p, 'o> Watcher<'p, 'o> {
    fn new(progress: &'p Progress, out: Option<&'o mut dyn Write>) -> Self {
        let record = if out.is_some() { capture::file_header() } else { Vec::new() };
        let mut watcher = Self { meter: Meter::new(progress), out, record, error: None };
        watcher.write();
        watcher
    }

    fn write(&mut self) {
        if let (Some(out), None) = (&mut self.out, &self.error) {
            self.error = out.write_all(&self.record).err();
        }
        self.record.clear();
    }

    fn finish(self) -> Result<(), Failure> {
        let failed = |error| Failure::new(Kind::Runtime, format!("cannot write what was captured: {error}"));
        self.error.map_or(Ok(()), |error| Err(failed(error)))
    }
}

impl Observer for Watcher<'_, '_> {
    fn progress(&mut self, done_coflows: usize) {
        self.meter.reach(done_coflows);
    }

    fn packet(&mut self, seen: &Seen<'_>) {
        capture::record(seen, &mut self.record);
        self.write();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_transport_is_named_for_packets_only() {
        let transport = Some("dctcp".to_owned());
        let carriage = Carriage { transport, ..Carriage::default() };
        assert!(Carrier::selected(&carriage).is_err());
        let carriage = Carriage { engine: vec![Engine::Packet, Engine::Packet], ..carriage };
        assert_eq!(Carrier::selected(&carriage).unwrap().len(), 1);
        assert_eq!(Carrier::selected(&Carriage::default()).unwrap(), [Carrier::Fluid]);
        let carriage = Carriage { engine: vec![Engine::Fluid, Engine::Control], ..Carriage::default() };
        let names: Vec<_> =
            Carrier::selected(&carriage).unwrap().iter().map(|one| one.name().map(str::to_owned)).collect();
        assert_eq!(names, [None, Some("control".to_owned())]);
    }
}
