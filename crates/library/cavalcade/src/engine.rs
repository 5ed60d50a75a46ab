//! The engines of a run: the one place in which a policy meets a driver.
//!
//! A driver is added here: a variant of [`Engine`], and an arm in [`Engine::check`] and
//! [`Engine::run`]. What is watched of a run is the same for all of them ([`Watch`]).

use std::fmt;
use std::io::{self, Write};
use std::sync::Arc;

use cavalcade_harness::RunError;
use cavalcade_metrics::{ControlFacts, Outcome, Sent, TransportFacts};
use cavalcade_model::{ClassShares, FineInstant, FlowId, Instant, Nanos, PolicyFactory, Scope, Workload};
use cavalcade_sim_control::{self as control, Coordination};
use cavalcade_sim_fluid as fluid;
use cavalcade_sim_packet::capture::{self, Seen, least_overhead};
use cavalcade_sim_packet::{self as packet, Network, Run, SimulationError};
use cavalcade_transport::{Configured, Definition, Visitor};
use cavalcade_validate::{ScheduleWriter, Segment};

use crate::error::{Error, Kind};
use crate::parallel::{Meter, Progress};
use crate::policies::Policy;
use crate::scenario::{Conditions, Scenario};

/// A driver of policies.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Engine {
    /// Bytes flow at rates: exact and fast.
    #[default]
    Fluid,
    /// The fluid engine with the live system's coordinator, agents and clients between a decision
    /// and its effect. As live, the coordinator knows the rates of hosts, and assumes that the
    /// network between them never blocks.
    Control {
        /// The time between reports of agents, and between rounds of the coordinator.
        period: Nanos,
    },
    /// Every packet is sent, waits, is marked or lost, and answered.
    Packet(Packets),
}

/// Packets: their transport, sizes and delays.
#[derive(Clone, Debug, PartialEq)]
pub struct Packets {
    /// The transport of all hosts.
    pub transport: Transport,
    /// The delay of links, where the fabric sets no delays.
    pub link_delay: Nanos,
    /// Bytes of a full packet.
    pub mtu: u16,
    /// Bytes of all headers of a packet.
    pub headers: u16,
    /// Messages between a policy's instances cross the network itself.
    pub in_band: bool,
}

impl Packets {
    /// The default delay of links: a few hundred metres of cable.
    pub const LINK_DELAY: Nanos = Nanos(1_000);

    /// Ethernet's packets of 1,500 bytes, 40 of them headers.
    pub fn over(transport: Transport) -> Self {
        Self { transport, link_delay: Self::LINK_DELAY, mtu: 1_500, headers: 40, in_band: false }
    }
}

/// A transport with its parameters set, of the registry or one of your own.
#[derive(Clone)]
pub struct Transport {
    name: &'static str,
    label: String,
    spec: String,
    params: Vec<(String, String)>,
    sends: Arc<dyn Sends>,
}

impl Transport {
    /// A transport of your own.
    pub fn new(transport: impl Definition) -> Self {
        Visit.visit(&transport)
    }

    /// Its name, without parameters.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// The shortest text that names it with its parameters.
    pub fn label(&self) -> &str {
        &self.label
    }

    /// The text that names it with all its parameters.
    pub fn spec(&self) -> &str {
        &self.spec
    }
}

impl From<&Configured> for Transport {
    fn from(transport: &Configured) -> Self {
        Self { label: transport.label(), ..transport.visit(Visit) }
    }
}

impl fmt::Debug for Transport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Transport({})", self.spec)
    }
}

impl PartialEq for Transport {
    fn eq(&self, other: &Self) -> bool {
        self.spec == other.spec
    }
}

/// A transport behind a trait object: all that a run needs of it.
trait Sends: Send + Sync {
    fn simulate(&self, packets: PacketRun<'_>) -> Result<Run, SimulationError>;
    /// The bytes of its own header.
    fn header(&self) -> usize;
    /// Whether flows have weights.
    fn weighs(&self) -> bool;
}

/// A run over packets.
struct PacketRun<'a> {
    workload: &'a Workload,
    network: &'a Network,
    policy: Option<&'a dyn PolicyFactory>,
    options: &'a packet::Options,
    observer: &'a mut dyn packet::Observer,
}

impl<T: Definition> Sends for T {
    fn simulate(&self, run: PacketRun<'_>) -> Result<Run, SimulationError> {
        let PacketRun { workload, network, policy, options, observer } = run;
        packet::simulate(workload, network, self, policy, options, Some(observer))
    }

    fn header(&self) -> usize {
        let mut own = Vec::new();
        T::wire(&T::Extra::default(), &mut own);
        own.len()
    }

    fn weighs(&self) -> bool {
        T::weighs()
    }
}

struct Visit;

impl Visitor for Visit {
    type Output = Transport;

    fn visit<T: Definition>(self, transport: &T) -> Transport {
        let params = cavalcade_spec::describe(T::PARAMETERS, transport);
        let spec = cavalcade_spec::print(T::NAME, params.iter().map(|info| (info.name, info.value.as_str())));
        Transport {
            name: T::NAME,
            label: spec.clone(),
            spec,
            params: params.into_iter().map(|info| (info.name.to_owned(), info.value)).collect(),
            sends: Arc::new(transport.clone()),
        }
    }
}

/// The most pieces of time that a run keeps: 128 MB.
pub(crate) const MOST_SENT: usize = 4_000_000;

/// The observers of a run.
#[derive(Default)]
pub struct Watch<'p, 'o> {
    /// Counts coflows that are done, and cancels.
    pub progress: Option<&'p Progress>,
    /// Records how busy links were.
    pub link_use: bool,
    /// Receives the rate of every flow at every time; fluid engine only.
    pub schedule: Option<&'o mut dyn Write>,
    /// Receives the pieces of time in which flows are sent; a run that sends in more than four
    /// million is cancelled. Fluid engine only.
    pub sent: Option<&'o mut Vec<Sent>>,
    /// Keeps nothing of a flow that has ended, where the engine can: then the outcome has no ends
    /// of flows, and long runs of few flows at a time take far less room.
    pub forgets_flows: bool,
    /// Receives packets; packet engine only.
    pub capture: Option<Capture<'o>>,
}

/// The packets of a run, as a file for Wireshark.
pub struct Capture<'a> {
    /// The links, by the fabric's names; all if the list is empty.
    pub links: &'a [String],
    /// Receives the file.
    pub out: &'a mut dyn Write,
}

impl Engine {
    /// The name of a run on it, besides its policy, among runs on other engines: of a transport
    /// with what was set.
    pub fn name(&self) -> Option<String> {
        match self {
            Self::Fluid => None,
            Self::Control { .. } => Some("control".to_owned()),
            Self::Packet(packets) => Some(packets.transport.label().to_owned()),
        }
    }

    /// The control plane, for tables.
    pub fn control(&self) -> Option<ControlFacts> {
        match *self {
            Self::Control { period } => Some(ControlFacts { period }),
            Self::Fluid | Self::Packet(_) => None,
        }
    }

    /// The transport, for tables.
    pub fn transport(&self) -> Option<TransportFacts> {
        match self {
            Self::Fluid | Self::Control { .. } => None,
            Self::Packet(Packets { transport, .. }) => {
                Some(TransportFacts { name: transport.name.to_owned(), params: transport.params.clone() })
            }
        }
    }

    /// Checks that the engine can run the policy of `scenario` on its fabric.
    ///
    /// # Errors
    /// If it cannot, with the reason.
    pub(crate) fn check(&self, scenario: &Scenario) -> Result<(), Error> {
        let label = scenario.policy().map_or("", Policy::label);
        match (self, scenario.policy()) {
            (Self::Packet(packets), policy) => {
                if packets.headers == 0 || packets.headers >= packets.mtu {
                    let Packets { mtu, headers, .. } = packets;
                    return Err(Error::usage(format!(
                        "packets of {mtu} B with headers of {headers} B: expected 1 B <= headers < mtu"
                    )));
                }
                match policy {
                    Some(policy) if policy.terms().scope == Scope::Link => {
                        Err(refused(label, &SimulationError::LinkScope))
                    }
                    Some(policy) if has_weights(policy) && !packets.transport.sends.weighs() => {
                        Err(refused(label, &SimulationError::NoWeights))
                    }
                    _ => Ok(()),
                }
            }
            (Self::Control { .. }, Some(policy)) if policy.is_order() => {
                Err(Error::usage(format!(
                    "{label}: the live coordinator gives coflows numbers of its own, so it cannot follow an order of a trace"
                ))
                .help("use the fluid engine or packets,").with_option("engine", "fluid or packet"))
            }
            (Self::Fluid | Self::Control { .. }, None) => {
                Err(Error::usage("a run without a policy needs packets").help("name a policy"))
            }
            (Self::Fluid | Self::Control { .. }, Some(_)) => Ok(()),
        }
    }

    /// Runs a scenario that has been checked.
    pub(crate) fn run(&self, scenario: &Scenario, watch: Watch<'_, '_>) -> Result<Outcome, Error> {
        let &Conditions { control_delay, control_loss, seed, cpu_order, allocator, .. } =
            scenario.conditions();
        let Watch { progress, link_use, schedule, sent, forgets_flows, capture } = watch;
        let (workload, fabric) = (scenario.workload(), scenario.fabric());
        let meter = Meter::new(progress, workload.coflow_count());
        if let Self::Packet(packets) = self {
            let policy = scenario.policy().map(|policy| policy as &dyn PolicyFactory);
            return packets.run(scenario, policy, link_use, capture, meter);
        }
        let mut observer = Observer::new(meter, schedule, sent, workload.origin())?;
        let label = scenario.policy().map_or("", Policy::label);
        let failed = |error| failed(label, error);
        let options =
            fluid::Options { link_use, cpu_order, allocator, forgets_flows, ..fluid::Options::default() };
        match (self, scenario.policy()) {
            (Self::Packet(_), _) | (_, None) => {
                unreachable!("packets have run, and the scenario was checked")
            }
            (Self::Fluid, Some(policy)) => {
                let options = fluid::Options { control_delay, control_loss, seed, ..options };
                let outcome = fluid::simulate(workload, fabric, policy, &options, Some(&mut observer));
                let outcome = outcome.map_err(failed)?;
                observer.finish().map(|()| outcome)
            }
            (Self::Control { period }, Some(policy)) => {
                let policy = policy.registered().map_or_else(|| policy.clone(), |one| one.live().into());
                let coordination = Coordination { period: *period, quiet: policy.quiet(workload.ports()) };
                let options = fluid::Options { control_delay, control_loss, seed, ..options };
                let policy = Box::new(move || Box::new(policy.clone()) as control::Factory);
                let run =
                    control::simulate(workload, fabric, policy, &coordination, &options, Some(&mut observer));
                let (outcome, _) = run.map_err(failed)?;
                observer.finish().map(|()| outcome)
            }
        }
    }

    /// Checks that packets can be captured as others read them.
    ///
    /// # Errors
    /// If the engine has no packets, or their headers have no room for those of TCP and IP.
    pub fn check_capture(&self) -> Result<(), Error> {
        let Self::Packet(Packets { transport, headers, .. }) = self else {
            return Err(
                Error::usage("--pcap: the fluid engine has no packets to write").help("add --engine packet")
            );
        };
        let least = least_overhead(transport.sends.header());
        if *headers < least {
            let problem = format!(
                "--pcap: {headers} bytes of headers have no room for those of IP, TCP and {}",
                transport.name
            );
            return Err(Error::usage(problem).help(format!("add --headers {least}B")));
        }
        Ok(())
    }
}

fn has_weights(policy: &Policy) -> bool {
    matches!(policy.terms().shares, ClassShares::OfFlows { .. })
}

fn refused(policy: &str, error: &SimulationError) -> Error {
    match error {
        SimulationError::Run(error) => failed(policy, error.clone()),
        _ => Error::usage(format!("{policy} over packets: {error}")),
    }
}

/// Adds to a failure which policy the run was of.
pub(crate) fn failed(policy: &str, error: RunError) -> Error {
    let kind = match error {
        RunError::Fabric(_) | RunError::TooSlow { .. } | RunError::TooLate { .. } => Kind::Input,
        RunError::Task(_) | RunError::OutOfOrder { .. } => Kind::Input,
        RunError::NeverEnds { .. } | RunError::Stalled { .. } | RunError::Policy(_) => Kind::Runtime,
        RunError::Cancelled => Kind::Interrupted,
    };
    match (kind, policy) {
        (Kind::Runtime, policy) if !policy.is_empty() => Error::new(kind, format!("{policy}: {error}")),
        _ => Error::new(kind, error.to_string()),
    }
}

impl Packets {
    fn run(
        &self,
        scenario: &Scenario,
        policy: Option<&dyn PolicyFactory>,
        link_use: bool,
        capture: Option<Capture<'_>>,
        meter: Meter<'_>,
    ) -> Result<Outcome, Error> {
        let network = self.network(scenario)?;
        let (links, out) = match capture {
            Some(Capture { links, out }) => (captured(&network, links)?, Some(out)),
            None => (Vec::new(), None),
        };
        let &Conditions { control_delay, control_loss, seed, cpu_order, .. } = scenario.conditions();
        let options = packet::Options {
            packet: self.mtu,
            overhead: self.headers,
            in_band: self.in_band,
            control_delay,
            control_loss,
            seed,
            cpu_order,
            link_use,
            queue_use: true,
            capture: links,
            ..packet::Options::default()
        };
        let mut observer = PacketObserver::new(meter, out);
        let run = self.transport.sends.simulate(PacketRun {
            workload: scenario.workload(),
            network: &network,
            policy,
            options: &options,
            observer: &mut observer,
        });
        let label = scenario.policy().map_or("", Policy::label);
        let outcome = run.map(|run| run.outcome).map_err(|error| refused(label, &error))?;
        observer.finish().map(|()| outcome)
    }

    /// The network of a scenario's fabric, whose links take the delay of these packets unless the
    /// fabric has delays.
    fn network(&self, scenario: &Scenario) -> Result<Network, Error> {
        let fabric = scenario.fabric();
        let network = if fabric.links().any(|link| fabric.delay(link) != Nanos::ZERO) {
            Network::new(fabric)
        } else {
            let mut fabric = fabric.clone();
            fabric.set_delays(self.link_delay);
            Network::new(&fabric)
        };
        network.map_err(|error| Error::usage(format!("over packets: {error}")))
    }
}

/// The ids of the named links, or of all links if no name is given.
fn captured(network: &Network, names: &[String]) -> Result<Vec<u32>, Error> {
    if names.is_empty() {
        return Ok((0..network.links().len() as u32).collect());
    }
    let number = |name: &String| match network.fabric().link_named(name) {
        Ok(link) => Ok(network.number(link)),
        Err(error) => Err(Error::usage(format!("--pcap-link: {error}"))),
    };
    names.iter().map(number).collect()
}

fn unwritten(what: &str, error: &io::Error) -> Error {
    Error::new(Kind::Runtime, format!("cannot write the {what}: {error}"))
}

/// Watches a fluid run: counts, and writes segments down where they are wanted.
struct Observer<'p, 'o> {
    meter: Meter<'p>,
    schedule: Option<ScheduleWriter<&'o mut dyn Write>>,
    sent: Option<&'o mut Vec<Sent>>,
    /// The first failure to write: an observer cannot stop a run.
    error: Option<io::Error>,
}

impl<'p, 'o> Observer<'p, 'o> {
    fn new(
        meter: Meter<'p>,
        schedule: Option<&'o mut dyn Write>,
        sent: Option<&'o mut Vec<Sent>>,
        origin: Instant,
    ) -> Result<Self, Error> {
        let schedule = schedule.map(|out| ScheduleWriter::new(out, origin)).transpose();
        let schedule = schedule.map_err(|error| unwritten("schedule", &error))?;
        Ok(Self { meter, schedule, sent, error: None })
    }

    fn finish(self) -> Result<(), Error> {
        let finished = match (self.error, self.schedule) {
            (Some(error), _) => Err(error),
            (None, Some(schedule)) => schedule.finish().map(drop),
            (None, None) => Ok(()),
        };
        finished.map_err(|error| unwritten("schedule", &error))
    }
}

impl fluid::Observer for Observer<'_, '_> {
    fn wants_segments(&self) -> bool {
        self.schedule.is_some() || self.sent.is_some()
    }

    fn segment(&mut self, flow: FlowId, from: FineInstant, to: FineInstant, bytes_per_nano: f64) {
        if let Some(sent) = self.sent.as_mut().filter(|sent| sent.len() <= MOST_SENT) {
            let bytes = to.since(from) * bytes_per_nano;
            sent.push(Sent { flow, from_ns: from.as_f64(), to_ns: to.as_f64(), bytes });
        }
        if let (Some(schedule), None) = (&mut self.schedule, &self.error) {
            self.error = schedule.write(&Segment { flow, from, to, bytes_per_nano }).err();
        }
    }

    fn progress(&mut self, done_coflows: usize) {
        self.meter.reach(done_coflows);
    }

    fn is_cancelled(&self) -> bool {
        self.meter.is_cancelled() || self.sent.as_ref().is_some_and(|sent| sent.len() > MOST_SENT)
    }
}

/// Watches a packet run: counts, and writes packets down where they are wanted.
struct PacketObserver<'p, 'o> {
    meter: Meter<'p>,
    out: Option<&'o mut dyn Write>,
    record: Vec<u8>,
    /// The first failure to write: nothing is written behind it.
    error: Option<io::Error>,
}

impl<'p, 'o> PacketObserver<'p, 'o> {
    fn new(meter: Meter<'p>, out: Option<&'o mut dyn Write>) -> Self {
        let record = if out.is_some() { capture::file_header() } else { Vec::new() };
        let mut observer = Self { meter, out, record, error: None };
        observer.write();
        observer
    }

    fn write(&mut self) {
        if let (Some(out), None) = (&mut self.out, &self.error) {
            self.error = out.write_all(&self.record).err();
        }
        self.record.clear();
    }

    fn finish(self) -> Result<(), Error> {
        self.error.map_or(Ok(()), |error| Err(unwritten("captured packets", &error)))
    }
}

impl packet::Observer for PacketObserver<'_, '_> {
    fn progress(&mut self, done_coflows: usize) {
        self.meter.reach(done_coflows);
    }

    fn packet(&mut self, seen: &Seen<'_>) {
        capture::record(seen, &mut self.record);
        self.write();
    }

    fn is_cancelled(&self) -> bool {
        self.meter.is_cancelled()
    }
}
