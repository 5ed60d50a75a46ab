//! Flows, orders and counts in words of this project; the kernel's are in `shared`.

use std::net::{IpAddr, Ipv6Addr};

use cavalcade_client::DscpMap;
use cavalcade_model::{BitsPerSec, Bytes, Nanos};
use cavalcade_protocol::{Directive, Gate};

use crate::shared;

/// Lower classes than this share its priority: `SO_PRIORITY` is 6 for the highest class and 0 for
/// these.
const LOWEST_CLASS: u16 = 6;

/// The lowest rate that the kernel is asked for. What is slower is paced by whole packets that are
/// seconds apart, and the pause behind the last one cannot be called off: a policy that gives the
/// last bytes of a flow next to nothing would hold it up for a minute after everybody else has
/// ended.
const CRAWL: BitsPerSec = BitsPerSec(1_000_000);

/// The DSCP of a class, without the bits for ECN.
pub(crate) fn dscp_of(class: u16, map: DscpMap) -> u8 {
    map.0[usize::from(class).min(map.0.len() - 1)] & 0x3f
}

/// The `SO_PRIORITY` of a class.
pub(crate) fn priority_of(class: u16) -> u8 {
    (LOWEST_CLASS - class.min(LOWEST_CLASS)) as u8
}

/// A lower rate is none: a segment takes longer than a tenth of a second at it. A policy that
/// shares out exactly gives such rates to what it wants to wait, the rest of a division for
/// instance.
const NOTHING: BitsPerSec = BitsPerSec(100_000);

/// So much a new connection sends at once, without waiting for any answer.
const FIRST_WINDOW: u64 = 10 * 1_448;

/// Returns the gate that comes nearest to `gate` for a flow with so many bytes left to send, where
/// that is known. At a rate that is none a flow would crawl, and whenever the rate rises finish the
/// pause behind its last burst first, tens of milliseconds; a gate that opens lets it go in less
/// than one. Its last segments are sent at once: they delay others only briefly.
pub(crate) fn nearest(gate: Gate, left: Option<u64>) -> Gate {
    match (gate, left) {
        (Gate::Paced { rate }, Some(left)) if rate < NOTHING && left <= FIRST_WINDOW => Gate::Open {},
        (Gate::Paced { rate }, Some(_)) if rate < NOTHING => Gate::Off {},
        _ => gate,
    }
}

/// All connections of a coflow to one peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Flow {
    /// The enforcer's number of the coflow.
    pub coflow: u32,
    /// The peer; an unspecified one stands for every peer without orders of its own.
    pub peer: IpAddr,
}

impl Flow {
    /// All peers of a coflow without orders of their own.
    pub fn of_all_peers(coflow: u32) -> Self {
        Self { coflow, peer: IpAddr::V6(Ipv6Addr::UNSPECIFIED) }
    }

    pub(crate) fn to_kernel(self) -> shared::FlowWords {
        let address = match self.peer {
            IpAddr::V4(address) => address.to_ipv6_mapped(),
            IpAddr::V6(address) => address,
        };
        let bytes = address.octets();
        let word = |at: usize| u32::from_ne_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
        let (peer_0, peer_1, peer_2, peer_3) = (word(0), word(4), word(8), word(12));
        shared::Flow { coflow: self.coflow, peer_0, peer_1, peer_2, peer_3 }.to_words()
    }

    pub(crate) fn from_kernel(words: shared::FlowWords) -> Self {
        let shared::Flow { coflow, peer_0, peer_1, peer_2, peer_3 } = shared::Flow::from_words(words);
        let mut bytes = [0; 16];
        for (place, word) in bytes.chunks_exact_mut(4).zip([peer_0, peer_1, peer_2, peer_3]) {
            place.copy_from_slice(&word.to_ne_bytes());
        }
        Self { coflow, peer: IpAddr::V6(Ipv6Addr::from(bytes)).to_canonical() }
    }
}

/// The way in which a flow is to be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Order {
    /// The gate: off, open, or a rate.
    pub gate: Gate,
    /// The DSCP of its packets; none leaves the application's own.
    pub dscp: Option<u8>,
    /// Its packets' priority at the host's own queue; none leaves the application's own.
    pub priority: Option<u8>,
    /// The class of which these two are; none where they are of no class.
    pub class: Option<u16>,
}

impl Order {
    /// The order that an agent's directive makes, with classes as DSCP by `map`.
    pub fn new(directive: Directive, map: DscpMap) -> Self {
        let Directive { gate, class } = directive;
        Self { gate, dscp: class.map(|class| dscp_of(class, map)), priority: class.map(priority_of), class }
    }

    /// Rates are 32 bits of bytes per second there: beyond 34 Gbps there is no limit.
    pub(crate) fn to_kernel(self, generation: u32) -> shared::OrderWords {
        let rate = match self.gate {
            Gate::Paced { rate: BitsPerSec(rate) } => {
                (rate.max(CRAWL.0) / 8).min(u64::from(shared::UNLIMITED)) as u32
            }
            Gate::Open {} | Gate::Off {} => shared::UNLIMITED,
        };
        let gate = if self.gate == (Gate::Off {}) { shared::OFF } else { shared::OPEN };
        let tos = self.dscp.map_or(shared::KEEP, |dscp| u32::from(dscp) << 2);
        let priority = self.priority.map_or(shared::KEEP, u32::from);
        let class = self.class.map_or(shared::KEEP, u32::from);
        shared::Order { generation, gate, rate, tos, priority, class }.to_words()
    }
}

/// The kernel's order for a flow that is plain TCP.
pub(crate) fn plain(generation: u32) -> shared::OrderWords {
    let open = Order::from(Gate::Open {}).to_kernel(generation);
    shared::Order { gate: shared::PLAIN, ..shared::Order::from_words(open) }.to_words()
}

impl From<Gate> for Order {
    /// An order that leaves packets unmarked.
    fn from(gate: Gate) -> Self {
        Self { gate, dscp: None, priority: None, class: None }
    }
}

/// The counts of a flow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Count {
    /// Payload, each byte once.
    pub sent: Bytes,
    /// Messages: bytes after an idle time begin one (PIAS).
    pub messages: u64,
    /// Packets that the gate refused.
    pub refused: u64,
    /// True while data waits at the gate.
    pub waits: bool,
    /// Connections that are open.
    pub sockets: u64,
    /// True while an application has written more than has passed: at the gate, or in a pause of
    /// its rate or window.
    pub has_unsent: bool,
    /// The instant at which data passed that had waited at the gate, by this host's monotonic
    /// clock; zero where none has.
    pub resumed_at: Nanos,
    /// How often a connection has needed [`crate::Kernel::mark`].
    pub marks: u64,
}

impl Count {
    pub(crate) fn from_kernel(words: shared::CountWords) -> Self {
        let shared::Count { sent, messages, refused, waiting, sockets, unsent, resumed_at, marks, .. } =
            shared::Count::from_words(words);
        let (sent, resumed_at) = (Bytes(sent), Nanos(resumed_at));
        let (waits, has_unsent) = (waiting != 0, unsent > 0);
        Self { sent, messages, refused, waits, sockets, has_unsent, resumed_at, marks }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flow_comes_back_from_the_kernel_as_it_went() {
        for peer in ["10.0.0.7", "2001:db8::7", "::"] {
            let flow = Flow { coflow: 7, peer: peer.parse().unwrap() };
            assert_eq!(Flow::from_kernel(flow.to_kernel()), flow, "{peer}");
        }
    }

    #[test]
    fn a_mapped_address_is_the_same_peer() {
        let flow = |peer: &str| Flow { coflow: 7, peer: peer.parse().unwrap() };
        assert_eq!(flow("::ffff:10.0.0.7").to_kernel(), flow("10.0.0.7").to_kernel());
    }

    #[test]
    fn a_rate_beyond_what_the_kernel_takes_is_no_limit_and_none_is_so_low_that_it_lasts() {
        let rate = |rate| {
            let order = Order::from(Gate::Paced { rate: BitsPerSec(rate) });
            shared::Order::from_words(order.to_kernel(1)).rate
        };
        assert_eq!(rate(100_000_000_000), shared::UNLIMITED);
        assert_eq!(rate(8_000_000), 1_000_000);
        assert_eq!(rate(1), 125_000);
    }

    #[test]
    fn next_to_no_rate_closes_the_gate_of_a_flow_with_much_to_send_and_lets_the_last_bytes_go() {
        let paced = |rate| Gate::Paced { rate: BitsPerSec(rate) };
        assert_eq!(nearest(paced(99_999), Some(1_000_000)), Gate::Off {});
        assert_eq!(nearest(paced(1), Some(10_000)), Gate::Open {});
        // How much is left may not be known, and would then wait for ever.
        for (gate, left) in [
            (paced(1), None),
            (paced(100_000), Some(1_000_000)),
            (Gate::Off {}, Some(1)),
            (Gate::Open {}, None),
        ] {
            assert_eq!(nearest(gate, left), gate);
        }
    }

    #[test]
    fn classes_become_dscp_without_ecn_bits_and_falling_priorities() {
        let order =
            |class| Order::new(Directive { class: Some(class), gate: Gate::Open {} }, DscpMap::default());
        assert_eq!((order(0).dscp, order(0).priority), (Some(40), Some(6)));
        assert_eq!((order(4).dscp, order(4).priority), (Some(0), Some(2)));
        assert_eq!((order(99).dscp, order(99).priority), (Some(1), Some(0)));
        assert_eq!(shared::Order::from_words(order(0).to_kernel(1)).tos, 40 << 2);
    }
}
