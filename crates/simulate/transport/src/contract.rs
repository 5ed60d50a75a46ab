//! What a transport is to its driver: a [`Sender`] and a [`Receiver`] for each flow, and
//! [`PortLogic`] for each port of each switch where it has any.
//!
//! The traits are meant for static dispatch: a driver is generic over one [`Transport`], so that a
//! run of DCTCP pays nothing for what SPC needs. Times are [`Instant`]s of the driver's clock,
//! which never goes back.

use cavalcade_model::{BitsPerSec, Bytes, Instant, Nanos, TaskId};

use crate::packet::Header;

/// Setup of both ends of a flow.
#[derive(Clone, Copy, Debug)]
pub struct FlowSetup {
    /// The driver's number for the flow, to be written on its packets.
    pub flow: u32,
    /// Bytes to deliver; never zero.
    pub size: Bytes,
    /// Time at which it starts.
    pub start: Instant,
    /// Time at which its task should be done.
    pub deadline: Option<Instant>,
    /// Its task, by the id that a counter gave it: a lower one goes first where tasks are served in
    /// order.
    pub task: TaskId,
    /// The bytes of all flows of its task.
    pub task_size: Bytes,
    /// The rate of the host's link.
    pub line_rate: BitsPerSec,
    /// Round trip of a full packet and its acknowledgement on an idle network.
    pub base_rtt: Nanos,
    /// Bytes of payload in a full packet; never zero.
    pub payload: u16,
    /// Bytes of all headers of a packet.
    pub overhead: u16,
}

impl FlowSetup {
    /// Number of segments of the flow.
    ///
    /// # Panics
    /// If they are more than 2³² − 1: drivers refuse such flows.
    pub fn segments(&self) -> u32 {
        let count = self.size.get().div_ceil(u64::from(self.payload));
        u32::try_from(count).expect("drivers refuse flows of more than 2^32 - 1 segments")
    }

    /// Bytes on the wire of segment `number`.
    #[inline]
    pub fn wire_size(&self, number: u32) -> u16 {
        let before = u64::from(number) * u64::from(self.payload);
        let left = self.size.get() - before;
        left.min(u64::from(self.payload)) as u16 + self.overhead
    }
}

/// The sending end of a flow.
pub trait Sender<Extra> {
    /// A packet from the receiver has arrived.
    fn handle_packet(&mut self, now: Instant, header: &Header, extra: &Extra);
    /// The time that [`Sender::poll_timeout`] named may have come. A call that is early changes
    /// nothing.
    fn handle_timeout(&mut self, now: Instant);
    /// The next packet that may leave now.
    fn poll_transmit(&mut self, now: Instant) -> Option<(Header, Extra)>;
    /// Returns the time at which [`Sender::handle_timeout`] is due.
    fn poll_timeout(&self) -> Option<Instant>;
    /// Payload sent at least once: a policy's attained service.
    fn sent(&self) -> Bytes;
    /// Returns whether everything is acknowledged; nothing will be sent any more.
    fn is_done(&self) -> bool;
    /// How much the flow counts for beside others on its links from now on, in thousandths; one
    /// until this is called. Nothing happens where [`Transport::weighs`] is false.
    fn set_weight(&mut self, thousandths: u32) {
        let _ = thousandths;
    }
    /// The priority class of its flow, 0 highest, unless a policy decides that. It changes with
    /// what arrives only.
    fn class(&self) -> u8 {
        0
    }
}

/// The receiving end of a flow.
pub trait Receiver<Extra> {
    /// A packet from the sender has arrived.
    fn handle_packet(&mut self, now: Instant, header: &Header, extra: &Extra);
    /// The time that [`Receiver::poll_timeout`] named may have come. A call that is early changes
    /// nothing.
    fn handle_timeout(&mut self, now: Instant) {
        let _ = now;
    }
    /// The next packet that may leave now.
    fn poll_transmit(&mut self, now: Instant) -> Option<(Header, Extra)>;
    /// Returns the time at which [`Receiver::handle_timeout`] is due.
    fn poll_timeout(&self) -> Option<Instant> {
        None
    }
    /// Payload that has arrived, each byte counted once.
    fn received(&self) -> Bytes;
    /// Returns whether every byte has arrived.
    fn is_complete(&self) -> bool;
}

/// Setup of the logic of one port.
#[derive(Clone, Copy, Debug)]
pub struct PortSetup {
    /// The rate of the port's link.
    pub rate: BitsPerSec,
    /// The delay of the port's link.
    pub delay: Nanos,
    /// The round trip that the fabric has when it is idle, across its longest path.
    pub base_rtt: Nanos,
    /// Index of the port in the network, for transports that name switches in their headers (PDQ).
    pub port: u32,
}

/// The logic that a transport has at one output port of a switch, or of a host's own link. It may
/// read and write what it sees; it has no timer, since all that these protocols do periodically can
/// be caught up with at the next packet.
pub trait PortLogic<Extra> {
    /// True if there is any. Where there is none, no driver calls.
    const PRESENT: bool = true;

    /// A packet from a sender joins the port's queue, which holds `backlog` before it.
    fn arrive(&mut self, now: Instant, backlog: Bytes, header: &mut Header, extra: &mut Extra);

    /// The packet leaves the queue, and `backlog` is what stays.
    fn depart(&mut self, now: Instant, backlog: Bytes, header: &mut Header, extra: &mut Extra) {
        let _ = (now, backlog, header, extra);
    }

    /// A packet from a receiver passes on its way back, at the switch whose port this is. It does
    /// not use this port, but the flow's data does.
    fn pass_back(&mut self, now: Instant, header: &mut Header, extra: &mut Extra) {
        let _ = (now, header, extra);
    }
}

/// No logic: switches only forward.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoLogic;

impl<Extra> PortLogic<Extra> for NoLogic {
    const PRESENT: bool = false;

    fn arrive(&mut self, _: Instant, _: Bytes, _: &mut Header, _: &mut Extra) {}
}

/// Queues that a transport expects. Options of a run may override them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SwitchNeeds {
    /// Mark what joins a queue that holds this much or more.
    pub marking: Option<Bytes>,
    /// Buffer of a port.
    pub buffer: Bytes,
    /// True if queues serve by remaining size and drop what is least urgent (pFabric).
    pub shortest_first: bool,
}

/// A transport with its parameters set.
pub trait Transport {
    /// The header fields of its own; `()` where it has none.
    type Extra: Copy + Default + core::fmt::Debug;
    /// The sending end of a flow.
    type Sender: Sender<Self::Extra>;
    /// The receiving end of a flow.
    type Receiver: Receiver<Self::Extra>;
    /// Its logic at ports.
    type PortLogic: PortLogic<Self::Extra>;

    /// The sending end of a flow that starts.
    fn sender(&self, setup: &FlowSetup) -> Self::Sender;
    /// The receiving end of a flow that starts.
    fn receiver(&self, setup: &FlowSetup) -> Self::Receiver;
    /// The logic of a port.
    fn port_logic(&self, setup: &PortSetup) -> Self::PortLogic;
    /// Returns the queues that it expects.
    fn needs(&self) -> SwitchNeeds;
    /// Returns the longest path in links, if the header has room for so many ports only.
    fn most_hops() -> usize {
        usize::MAX
    }
    /// Appends a packet's own header fields as they go over the wire; nothing where there is no
    /// format for them.
    fn wire(extra: &Self::Extra, out: &mut Vec<u8>) {
        let _ = (extra, out);
    }
    /// Returns whether a flow gets a share by its weight ([`Sender::set_weight`]).
    fn weighs() -> bool {
        false
    }
    /// Into how many classes its senders and ports sort packets; 1 where they leave that to a
    /// policy.
    fn classes(&self) -> u8 {
        1
    }
}
