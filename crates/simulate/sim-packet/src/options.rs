//! What belongs to a run besides workload, network, transport and policy.

use cavalcade_harness::CpuOrder;
use cavalcade_model::{Instant, Nanos, Workload};
use cavalcade_protocol::MAX_DATAGRAM;

use crate::error::SimulationError;
use crate::network::Network;
use crate::queue::QueueConfig;

/// Options of a run.
#[derive(Clone, Debug, PartialEq)]
pub struct Options {
    /// Bytes of a full packet on the wire.
    pub packet: u16,
    /// Bytes of all headers in a packet; what an acknowledgement has.
    pub overhead: u16,
    /// The queues of switches; `None` for what the transport needs, with strict priorities or
    /// weights where a policy decides.
    pub queues: Option<QueueConfig>,
    /// The share of packets that each link loses.
    pub loss: f64,
    /// Links that go away for a time.
    pub outages: Vec<Outage>,
    /// True if messages between a policy's instances at hosts cross the network themselves, as the
    /// datagrams of the live system. If not, messages take `control_delay` and get lost with
    /// `control_loss`.
    pub in_band: bool,
    /// Delay of a message between instances of a policy.
    pub control_delay: Nanos,
    /// The share of those messages that gets lost.
    pub control_loss: f64,
    /// Decides what gets lost.
    pub seed: u64,
    /// Order in which computations get slots.
    pub cpu_order: CpuOrder,
    /// True if to record how busy each link was.
    pub link_use: bool,
    /// True if to record what waited in switches.
    pub queue_use: bool,
    /// Links of which an observer is shown every packet that arrives.
    pub capture: Vec<u32>,
    /// Links whose queues are looked at from time to time.
    pub watch: Vec<u32>,
    /// Sampling interval.
    pub sample_every: Nanos,
}

/// A cable that carries nothing for a time: what waits for it or is on it is lost, in both
/// directions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outage {
    /// The link in either direction.
    pub link: u32,
    /// From here on.
    pub from: Instant,
    /// Until here.
    pub until: Instant,
}

impl Default for Options {
    /// Ethernet's 1,500 bytes, 40 of them headers; a network without faults.
    fn default() -> Self {
        Self {
            packet: 1_500,
            overhead: 40,
            queues: None,
            loss: 0.0,
            outages: Vec::new(),
            in_band: false,
            control_delay: Nanos::ZERO,
            control_loss: 0.0,
            seed: 1,
            cpu_order: CpuOrder::default(),
            link_use: false,
            queue_use: false,
            capture: Vec::new(),
            watch: Vec::new(),
            sample_every: Nanos(10_000),
        }
    }
}

/// The last nanosecond at which anything may be asked to happen, so that a clock of picoseconds has
/// as much again for it.
const LATEST: u64 = 100 * 24 * 3_600 * 1_000_000_000;

impl Options {
    /// Bytes of payload in a full packet.
    pub fn payload(&self) -> u16 {
        self.packet - self.overhead
    }

    /// Checks everything that a run relies on.
    pub(crate) fn check(&self, workload: &Workload, network: &Network) -> Result<(), SimulationError> {
        let (packet, overhead) = (self.packet, self.overhead);
        if overhead == 0 || overhead >= packet {
            return Err(SimulationError::NoPayload { packet, overhead });
        }
        network.check(workload)?;
        let payload = self.payload();
        if self.in_band && usize::from(payload) < MAX_DATAGRAM {
            return Err(SimulationError::DatagramsDoNotFit { payload, longest: MAX_DATAGRAM });
        }
        let most = u64::from(payload) * (u64::from(u32::MAX) - 1);
        if let Some(flow) = workload.flows().iter().find(|flow| flow.size.get() > most) {
            return Err(SimulationError::FlowTooLarge { size: flow.size, payload });
        }
        if !(0.0..=0.9).contains(&self.loss) {
            return Err(SimulationError::Loss { share: self.loss.to_string() });
        }
        let links = network.links().len();
        if self.sample_every == Nanos::ZERO {
            return Err(SimulationError::Sampling);
        }
        if let Some(&link) = self.watch.iter().chain(&self.capture).find(|&&link| link as usize >= links) {
            return Err(SimulationError::Watch { link, links });
        }
        for &Outage { link, from, until } in &self.outages {
            if link as usize >= links || until <= from {
                return Err(SimulationError::Outage { link, links });
            }
        }
        let arrivals = workload.tasks().iter().map(|task| task.arrival);
        match arrivals.chain(self.outages.iter().map(|outage| outage.until)).find(|when| when.get() > LATEST)
        {
            Some(when) => Err(SimulationError::TooLong { span: when.since(Instant::ZERO) }),
            None => Ok(()),
        }
    }
}
