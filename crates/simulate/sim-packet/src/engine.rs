//! The loop: take the next event, do what it brings, until nothing is pending.
//!
//! | event | pending at most once for each | brings |
//! |---|---|---|
//! | arrival | link | the first packet on the link reaches its far end: the next queue, or its host |
//! | free | link | the link can take the next packet: of its queue, or of its host's senders |
//! | timer | flow under way | a sender's or receiver's `handle_timeout` |
//! | release, policy, outage, sample, look | run | flows start; a policy wakes or hears a message; a cable goes away or comes back; some queues, or all, are looked at |
//!
//! Packets come into being in `next_data` (a sender's) and `answer` (a receiver's), and end in
//! `deliver` and `lose`; in between they are counted at their flow's place (`flows`), which is not
//! given to another flow before.
//!
//! - `packets`: from switch to switch. `hosts`: what hosts send and hear. `life`: flows start and
//!   end, policies decide. `faults`: cables go away.

mod faults;
mod hosts;
mod life;
mod packets;

use cavalcade_harness::{Releases, RunError, check};
use cavalcade_metrics::{EngineCounts, MessageUse, Outcome, PortUse, QueueUse};
use cavalcade_model::{Bytes, ClassShares, Instant, PolicyFactory, SplitMix64, Terms, Workload};
use cavalcade_transport::{PortLogic, PortSetup, Transport};

use crate::capture::Seen;
use crate::coupling::Coupling;
use crate::error::SimulationError;
use crate::flows::{Flows, clock};
use crate::link_use::LinkUseRecorder;
use crate::negotiation::Negotiations;
use crate::network::Network;
use crate::nic::Nic;
use crate::occupancy::OccupancyRecorder;
use crate::options::Options;
use crate::pool::Pool;
use crate::port::{Kind, Port, PortCounts};
use crate::queue::{Buffer, Discipline, Queue, QueueConfig, SharedBuffer};
use crate::setup;
use crate::wheel::{Picos, Wheel};

/// Someone who watches a run.
pub trait Observer {
    /// So many coflows have finished.
    fn progress(&mut self, done_coflows: usize) {
        let _ = done_coflows;
    }

    /// A packet has crossed one of the links that are to be captured.
    fn packet(&mut self, seen: &Seen<'_>) {
        let _ = seen;
    }

    /// Returns whether the run is to stop, which it does within milliseconds. It is asked again and
    /// again.
    fn is_cancelled(&self) -> bool {
        false
    }
}

/// Result of a run.
#[derive(Clone, Debug, PartialEq)]
pub struct Run {
    /// Time at which everything finished.
    pub outcome: Outcome,
    /// For each link of the network, what passed it.
    pub ports: Vec<PortCounts>,
    /// Bytes that waited for or were on each watched link's sender at each sample, as
    /// [`Options::watch`] asks for them.
    pub samples: Vec<Vec<u64>>,
    /// Time at which the last event was.
    pub end: Instant,
    /// Packets that there were at once, at most.
    pub most_packets: usize,
    /// Flows that were under way at once, at most.
    pub most_flows: usize,
}

impl Run {
    /// Packets sent on links, acknowledgements included.
    pub fn hops(&self) -> u64 {
        self.ports.iter().map(|port| port.packets).sum()
    }
}

/// Runs `transport`'s flows of `workload` over `network`. Without a `policy` all flows have one
/// priority and one queue.
///
/// # Errors
/// If something could not work, before anything is run; if the policy breaks its contract or fails,
/// the run goes on for more than 106 days, or the observer cancels it.
pub fn simulate<T: Transport>(
    workload: &Workload,
    network: &Network,
    transport: &T,
    policy: Option<&dyn PolicyFactory>,
    options: &Options,
    mut observer: Option<&mut dyn Observer>,
) -> Result<Run, SimulationError> {
    options.check(workload, network)?;
    check(workload, network.fabric())?;
    setup::check_hops(workload, network, T::most_hops())?;
    let terms = policy.map(PolicyFactory::terms);
    let has_weights = |terms: &Terms| matches!(terms.shares, ClassShares::OfFlows { .. });
    if terms.as_ref().is_some_and(has_weights) && !T::weighs() {
        return Err(SimulationError::NoWeights);
    }
    let config = match &options.queues {
        Some(config) => config.clone(),
        None => setup::queues(&transport.needs(), transport.classes(), terms.as_ref()),
    };
    config.check(options.packet)?;
    let coupling = policy.map(|policy| Coupling::new(workload, network, policy, options)).transpose()?;
    let mut engine = Engine::new(workload, network, transport, &config, coupling, options);
    engine.run(&mut observer)?;
    Ok(engine.outcome()?)
}

/// Events between two looks at whether the run is to stop: a few milliseconds.
const EVENTS_BETWEEN_LOOKS: u64 = 1 << 16;

/// Looks in a row at one and the same time after which a run is taken to be stuck.
const MOST_LOOKS_AT_ONCE: u32 = 16;

/// The last time at which something may happen: from there on the sum of two times might not fit.
const END: Picos = 1 << 63;

/// Events that are not of a link or flow.
const RELEASE: u32 = 0;
const POLICY: u32 = 1;
const OUTAGE: u32 = 2;
const SAMPLE: u32 = 3;
const LOOK: u32 = 4;
const OTHERS: u32 = 5;

struct Engine<'a, T: Transport> {
    workload: &'a Workload,
    network: &'a Network,
    transport: &'a T,
    options: &'a Options,
    links: u32,
    now: Picos,
    events: u64,
    wheel: Wheel,
    pool: Pool<T::Extra>,
    ports: Vec<Port>,
    queues: Vec<Queue>,
    /// For each switch, where buffers are shared.
    shared: Vec<SharedBuffer>,
    /// For each link, where the transport has any.
    logic: Vec<T::PortLogic>,
    nics: Vec<Nic>,
    /// True if hosts as well as switches send what has least left to send first.
    shortest_first: bool,
    flows: Flows<T>,
    dropped: Vec<u32>,
    random: SplitMix64,
    /// Time at which each outage begins and ends, in order of time.
    outages: Vec<(Picos, u32, bool)>,
    next_outage: usize,
    releases: Releases,
    coupling: Option<Coupling<'a>>,
    /// True if the policy has failed.
    has_failed: bool,
    /// For each flow of the workload, its place while it is under way; where a policy decides.
    places: Vec<u32>,
    /// Messages between instances of the policy over the network; places of flows beyond those of
    /// the workload carry it.
    negotiations: Option<Negotiations>,
    recorder: Option<LinkUseRecorder>,
    samples: Vec<Vec<u64>>,
    occupancy: Option<OccupancyRecorder>,
    coflow_left: Vec<u32>,
    coflow_arrival: Vec<Instant>,
    flow_finish: Vec<Instant>,
    done_coflows: usize,
}

/// The buffer that the port of `link` shares with its switch's others, where buffers are shared.
fn shared_by<'b>(
    network: &Network,
    shared: &'b mut [SharedBuffer],
    link: u32,
) -> Option<&'b mut SharedBuffer> {
    if shared.is_empty() {
        return None;
    }
    network.switch_of(link).and_then(|switch| shared.get_mut(switch as usize))
}

/// Returns the bytes that wait for `link` or are being sent on it at `now`.
fn backlog(ports: &[Port], queues: &[Queue], link: u32, now: Picos) -> u64 {
    let port = &ports[link as usize];
    let waiting = match port.kind {
        Kind::Queued(queue) => queues[queue as usize].bytes(),
        Kind::InOrder | Kind::Host(_) => 0,
    };
    waiting + port.unsent(now)
}

/// No place.
const NOWHERE: u32 = u32::MAX;

impl<'a, T: Transport> Engine<'a, T> {
    fn new(
        workload: &'a Workload,
        network: &'a Network,
        transport: &'a T,
        config: &QueueConfig,
        coupling: Option<Coupling<'a>>,
        options: &'a Options,
    ) -> Self {
        let links = network.links().len() as u32;
        // A queue whose packets leave in the order in which they came needs no events of its own.
        let in_order = config.discipline == Discipline::DropTail
            && matches!(config.buffer, Buffer::PerPort(_))
            && !T::PortLogic::PRESENT;
        let mut queues = Vec::new();
        let ports = (0..links).map(|link| {
            let kind = match network.host_of(link) {
                Some(host) => Kind::Host(host),
                None if in_order => Kind::InOrder,
                None => {
                    queues.push(Queue::new(config));
                    Kind::Queued(queues.len() as u32 - 1)
                }
            };
            let mut port = Port::new(network.links()[link as usize], kind, config);
            port.tapped = options.capture.contains(&link);
            port
        });
        let ports = ports.collect();
        let shares = matches!(config.buffer, Buffer::Shared { .. });
        let base_rtt = network.longest_round_trip(options.packet, options.overhead);
        let logic = |port: u32| {
            let link = network.links()[port as usize];
            transport.port_logic(&PortSetup { rate: link.rate, delay: link.delay, base_rtt, port })
        };
        let flows = workload.flows().len();
        Self {
            workload,
            network,
            transport,
            options,
            links,
            now: 0,
            events: 0,
            wheel: Wheel::new((2 * links + OTHERS) as usize),
            pool: Pool::new(),
            ports,
            queues,
            shared: vec![SharedBuffer::default(); if shares { network.switches() as usize } else { 0 }],
            logic: if T::PortLogic::PRESENT { (0..links).map(logic).collect() } else { Vec::new() },
            nics: (0..network.hosts()).map(|_| Nic::default()).collect(),
            shortest_first: config.discipline == Discipline::ShortestFirst,
            flows: Flows::new(),
            dropped: Vec::new(),
            random: SplitMix64::new(options.seed),
            outages: setup::outages(&options.outages),
            next_outage: 0,
            releases: Releases::new(workload).with_cpu_order(workload, options.cpu_order),
            places: if coupling.is_some() { vec![NOWHERE; flows] } else { Vec::new() },
            coupling,
            has_failed: false,
            negotiations: options.in_band.then(|| Negotiations::new(network.hosts())),
            recorder: options.link_use.then(|| LinkUseRecorder::new(network)),
            samples: vec![Vec::new(); options.watch.len()],
            occupancy: options.queue_use.then(|| OccupancyRecorder::new(network)),
            coflow_left: workload.coflows().map(|coflow| coflow.width() as u32).collect(),
            coflow_arrival: vec![Instant::ZERO; workload.coflow_count()],
            flow_finish: vec![Instant::ZERO; flows],
            done_coflows: 0,
        }
    }

    fn run(&mut self, observer: &mut Option<&mut dyn Observer>) -> Result<(), RunError> {
        self.expect_release();
        if let Some(&(first, ..)) = self.outages.first() {
            self.wheel.schedule(2 * self.links + OUTAGE, first);
        }
        if !self.options.watch.is_empty() {
            self.sample();
        }
        self.look();
        let (mut told, mut looked_at, mut looks) = (0, 0, 0);
        let (links, first_timer) = (self.links, 2 * self.links + OTHERS);
        while let Some((now, event)) = self.wheel.pop().filter(|_| !self.has_failed) {
            self.now = now;
            self.events += 1;
            if self.events % EVENTS_BETWEEN_LOOKS == 1 {
                looks = if now == looked_at { looks + 1 } else { 0 };
                looked_at = now;
                self.look_for_an_end(looks, observer)?;
            }
            if event < links {
                self.arrive(event, observer);
            } else if event < 2 * links {
                self.free(event - links);
            } else if event >= first_timer {
                self.timer(event - first_timer);
            } else {
                match event - 2 * links {
                    RELEASE => self.release(),
                    POLICY => self.wake_policy(),
                    OUTAGE => self.outage(),
                    SAMPLE => self.sample(),
                    _ => self.look(),
                }
            }
            if self.done_coflows != told {
                told = self.done_coflows;
                if let Some(observer) = observer {
                    observer.progress(told);
                }
            }
        }
        match self.coupling.as_ref().and_then(Coupling::fault) {
            Some(fault) => Err(fault.clone().into()),
            None => Ok(()),
        }
    }

    /// Stops a run that is cancelled, goes on for too long, or has seen so many `looks` at one
    /// time.
    #[cold]
    fn look_for_an_end(&self, looks: u32, observer: &Option<&mut dyn Observer>) -> Result<(), RunError> {
        if observer.as_ref().is_some_and(|observer| observer.is_cancelled()) {
            return Err(RunError::Cancelled);
        }
        if looks == MOST_LOOKS_AT_ONCE {
            return Err(RunError::Stalled { at: clock(self.now), last: "timer of a transport" });
        }
        if self.now > END {
            // Timers of what may not send go on for ever.
            return Err(match self.flows.has_stopped() {
                true => self.never_ends(),
                false => RunError::too_late(self.workload, &self.coflow_left, "2^63 ps (106 days)"),
            });
        }
        Ok(())
    }

    fn never_ends(&self) -> RunError {
        RunError::never_ends(self.workload, &self.coflow_left, clock(self.now))
    }

    /// Notes how full the watched queues are, as long as anything is under way.
    fn sample(&mut self) {
        for (&link, samples) in self.options.watch.iter().zip(&mut self.samples) {
            samples.push(backlog(&self.ports, &self.queues, link, self.now));
        }
        if self.done_coflows < self.coflow_left.len() {
            let next = self.now.saturating_add(self.options.sample_every.get().saturating_mul(1_000));
            self.wheel.schedule(2 * self.links + SAMPLE, next);
        }
    }

    /// Looks at all queues of switches, as long as anything is under way.
    fn look(&mut self) {
        let Some(recorder) = &mut self.occupancy else { return };
        let next = recorder.look(self.now, |link| backlog(&self.ports, &self.queues, link, self.now));
        if self.done_coflows < self.coflow_left.len() {
            self.wheel.schedule(2 * self.links + LOOK, next);
        }
    }

    fn queue_use(&self, end: Instant) -> Option<QueueUse> {
        let recorder = self.occupancy.as_ref()?;
        let (ports, occupancy) = recorder.ports();
        let (interval, fullest) = recorder.series();
        let fabric = self.network.fabric();
        let port = |(link, occupancy): (u32, _)| {
            let of_fabric = self.network.of_fabric(link);
            let PortCounts { packets, bytes, dropped, marked, lost } = self.ports[link as usize].counts;
            let room = fabric.capacity(of_fabric).as_f64() / 8.0 * end.since(Instant::ZERO).as_secs_f64();
            let utilisation = if room > 0.0 { (bytes as f64 / room).min(1.0) } else { 0.0 };
            PortUse {
                name: self.workload.link_name(fabric, of_fabric),
                packets,
                dropped,
                marked,
                lost,
                utilisation,
                occupancy,
            }
        };
        Some(QueueUse { ports: ports.into_iter().map(port).collect(), occupancy, interval, fullest })
    }

    fn outcome(self) -> Result<Run, RunError> {
        if self.done_coflows < self.coflow_left.len() {
            return Err(self.never_ends());
        }
        let end = self.releases.task_finish.iter().copied().max().unwrap_or_default();
        let queue_use = self.queue_use(end);
        let (policy_calls, messages) = self.coupling.as_ref().map_or((0, 0), Coupling::counts);
        let all_carried = Bytes(self.ports.iter().map(|port| port.counts.bytes).sum());
        let counts = EngineCounts { events: self.events, refills: 0, policy_calls, messages };
        Ok(Run {
            outcome: Outcome {
                coflow_arrival: self.coflow_arrival,
                coflow_finish: self.releases.coflow_finish,
                flow_finish: self.flow_finish,
                task_finish: self.releases.task_finish,
                counts,
                link_use: self.recorder.map(LinkUseRecorder::finish),
                queue_use,
                messages: self.negotiations.map(|all| MessageUse { all_carried, ..all.counts() }),
            },
            ports: self.ports.iter().map(|port| port.counts).collect(),
            samples: self.samples,
            end: clock(self.now),
            most_packets: self.pool.most(),
            most_flows: self.flows.len(),
        })
    }
}
