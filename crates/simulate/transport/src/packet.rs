//! The header that every transport's packets carry.
//!
//! It is small and `Copy`, since a simulator moves some ten million of them in a second. What only
//! some transports need (explicit rates of SPC, RCP, D3, PDQ) does not make it larger for the
//! others: it is a type of its own ([`crate::Transport::Extra`]) that travels beside the header,
//! and takes no space where it is `()`.
//!
//! Bytes are counted in *segments* of a fixed payload: the last one of a flow may be shorter. A
//! segment's number says which bytes it holds, so a retransmission is the same packet again, and 32
//! bits reach to six terabytes.

/// Purpose of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Kind {
    /// A segment of the flow, from its sender to its receiver.
    #[default]
    Data,
    /// Acknowledgement: the receiver's state, on the way back.
    Ack,
    /// A header without payload from the sender: asks for an [`Kind::Ack`] (pFabric's probe mode, a
    /// paused PDQ sender).
    Probe,
    /// Something that is of no flow and only shares links and queues with them: no end of a flow
    /// and no port's logic sees it.
    Datagram,
}

impl Kind {
    /// Returns whether a flow's sender sent it: what a port's logic is for.
    #[inline]
    pub const fn is_of_sender(self) -> bool {
        matches!(self, Self::Data | Self::Probe)
    }
}

/// One-bit marks of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Flags(u8);

impl Flags {
    /// No mark.
    pub const NONE: Self = Self(0);
    /// ECN-capable: switches mark it where they would else have to drop (RFC 3168 ECT).
    pub const ECN_CAPABLE: Self = Self(1);
    /// A switch on the way was congested (RFC 3168 CE).
    pub const CONGESTED: Self = Self(2);
    /// On an acknowledgement: what it acknowledges was marked (RFC 3168 ECE).
    pub const ECHO: Self = Self(4);
    /// The last segment of its flow.
    pub const LAST: Self = Self(8);
    /// On an acknowledgement: the segment had arrived before (RFC 2883 DSACK).
    pub const DUPLICATE: Self = Self(16);

    /// Returns whether all marks of `other` are set.
    pub const fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// With the marks of `other` as well.
    #[must_use]
    pub const fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// With the marks of `other` where `condition` holds.
    #[must_use]
    pub const fn with_if(self, condition: bool, other: Self) -> Self {
        if condition { self.with(other) } else { self }
    }
}

/// Header of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Header {
    /// The flow, by the driver's own number for it.
    pub flow: u32,
    /// Data: the segment's number. Acknowledgement: all segments below have arrived.
    pub segment: u32,
    /// Acknowledgement: the run of segments around the one that it answers, `sack_from..sack_to`
    /// (RFC 2018's first block).
    pub sack_from: u32,
    /// The end of that run; equal to `sack_from` where there is none.
    pub sack_to: u32,
    /// Data: segments that the sender has not seen acknowledged, of which this is one (pFabric's
    /// priority number).
    pub remaining: u32,
    /// The rank inside the class, 0 first: a policy's order. Written by the driver.
    pub order: u64,
    /// Bytes on the wire, with all headers.
    pub size: u16,
    /// The priority class, 0 highest. Written by the driver; ports may lower it.
    pub class: u8,
    /// Purpose.
    pub kind: Kind,
    /// Marks.
    pub flags: Flags,
}

const _: () = assert!(size_of::<Header>() <= 40, "a packet with its place in a queue fits a cache line");

impl Header {
    /// Bytes of payload, where each header takes `overhead` bytes.
    pub fn payload(&self, overhead: u16) -> u16 {
        if self.kind == Kind::Data { self.size.saturating_sub(overhead) } else { 0 }
    }
}
