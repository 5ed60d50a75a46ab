//! Packets as a capture file that Wireshark, tshark and tcpdump read (pcap, with nanoseconds; link
//! type 101, bare IP).
//!
//! Each packet becomes what a host would have sent: an IPv4 and a TCP header with what the
//! simulation knows of them, and the length of a payload that is not in the file. So a reader
//! follows flows, sequence numbers, retransmissions and marks with the tools that it has.
//!
//! | of the simulation | in the file |
//! |---|---|
//! | host h | address 10.0.0.0 + h + 1 |
//! | flow f of the workload | ports 1024 + f mod 60,000 to 5001 + f / 60,000 |
//! | class c | DSCP CS(7 − c): class 0 is the highest |
//! | ECN-capable, marked | ECT(0), CE; its echo as TCP's ECE |
//! | segment n | sequence number 1 + its first byte; acknowledgements likewise, modulo 2³² |
//! | last segment | FIN |
//! | hops so far | 64 − TTL |
//! | what a policy's instances say to each other | UDP from and to port 5000, with the bytes of the live system's datagram; what headers take beyond 28 bytes follows as zeros |
//! | a header of the transport's own (SPC) | an IP option, number 30, for experiments (RFC 4727); `docs/wireshark` has its dissector |
//!
//! There are no SYNs, since no transport here has any. Selective acknowledgements would not fit the
//! 40 bytes that all headers have by default, and are left out. A larger overhead is filled with
//! TCP's no-operation options.
//!
//! A capture stands at the far end of a link: it has what arrived there and when the last bit did.
//! What was lost or dropped before is not in it.

use cavalcade_model::{Bytes, FlowId, Instant, PortId};
use cavalcade_transport::internet::{checksum, sum};
use cavalcade_transport::{Flags, Header, Kind};

/// A packet that has crossed a link.
#[derive(Clone, Copy, Debug)]
pub struct Seen<'a> {
    /// Time of capture.
    pub at: Instant,
    /// The link, as the network numbers it.
    pub link: u32,
    /// Its flow, as the workload numbers it.
    pub flow: FlowId,
    /// Source port of the flow's data.
    pub src: PortId,
    /// Destination port.
    pub dst: PortId,
    /// The bytes of the flow.
    pub size: Bytes,
    /// Links that the packet has behind it.
    pub hops: u8,
    /// Rate.
    pub header: &'a Header,
    /// The transport's own header as it goes over the wire; of a datagram, what it says. May be
    /// empty.
    pub own: &'a [u8],
    /// Bytes of payload in a full packet.
    pub full: u16,
    /// Bytes of all headers of a packet.
    pub overhead: u16,
}

/// Bytes of an IPv4 and a TCP header without options.
const PLAIN: usize = 40;

/// The bytes that all headers of a packet need in a capture, where the transport's own header has
/// `own`.
pub fn least_overhead(own: usize) -> u16 {
    (PLAIN + option_length(own)) as u16
}

/// Bytes of an IP option with so many bytes inside, filled up to whole words.
fn option_length(own: usize) -> usize {
    if own == 0 { 0 } else { (own + 2).next_multiple_of(4) }
}

const NANOSECOND_MAGIC: u32 = 0xa1b2_3c4d;
const RAW_IP: u32 = 101;
const TCP: u8 = 6;
const UDP: u8 = 17;
/// Port on which hosts exchange negotiation messages.
const NEGOTIATION: u16 = 5_000;
/// To be copied into fragments; class 0, number 30.
const EXPERIMENT: u8 = 0x80 | 30;
const MOST_OPTIONS: usize = 40;

/// Returns the header of a capture file.
pub fn file_header() -> Vec<u8> {
    let mut out = Vec::with_capacity(24);
    out.extend(NANOSECOND_MAGIC.to_le_bytes());
    out.extend([2, 0, 4, 0]);
    out.extend([0; 8]);
    out.extend(65_535u32.to_le_bytes());
    out.extend(RAW_IP.to_le_bytes());
    out
}

/// Appends the packet as one record.
pub fn record(seen: &Seen<'_>, out: &mut Vec<u8>) {
    let nanos = seen.at.get();
    out.extend(((nanos / 1_000_000_000) as u32).to_le_bytes());
    out.extend(((nanos % 1_000_000_000) as u32).to_le_bytes());
    let lengths = out.len();
    out.extend([0; 8]);
    let start = out.len();
    if seen.header.kind == Kind::Datagram {
        ip(seen, UDP, &[], out);
        udp(seen, out);
    } else {
        ip(seen, TCP, seen.own, out);
        tcp(seen, out);
    }
    // A packet has no more bytes than it has on the wire, and no payload that the simulation knew.
    out.truncate(start + usize::from(seen.header.size));
    let captured = (out.len() - start) as u32;
    out[lengths..lengths + 4].copy_from_slice(&captured.to_le_bytes());
    out[lengths + 4..lengths + 8].copy_from_slice(&u32::from(seen.header.size).to_le_bytes());
}

fn ip(seen: &Seen<'_>, protocol: u8, own: &[u8], out: &mut Vec<u8>) {
    let Header { flags, class, size, segment, kind, .. } = *seen.header;
    let ecn = match () {
        () if flags.contains(Flags::CONGESTED) => 0b11,
        () if flags.contains(Flags::ECN_CAPABLE) => 0b10,
        () => 0,
    };
    let start = out.len();
    let words = 5 + option_length(own.len()) / 4;
    assert!(words < 16, "an IP header has room for 38 bytes of a transport's own");
    out.extend([0x40 | words as u8, (7 - class.min(7)) << 5 | ecn]);
    out.extend(size.to_be_bytes());
    out.extend((segment as u16).to_be_bytes());
    out.extend([0x40, 0]);
    out.extend([64 - seen.hops.min(63), protocol, 0, 0]);
    let (src, dst) = if kind == Kind::Ack { (seen.dst, seen.src) } else { (seen.src, seen.dst) };
    out.extend(address(src));
    out.extend(address(dst));
    if !own.is_empty() {
        out.extend([EXPERIMENT, own.len() as u8 + 2]);
        out.extend(own);
        // Zero ends the list of options.
        out.resize(start + 4 * words, 0);
    }
    let sum = checksum(&out[start..], 0);
    out[start + 10..start + 12].copy_from_slice(&sum.to_be_bytes());
}

fn address(host: PortId) -> [u8; 4] {
    (0x0a00_0001u32 + host.0 % 0x00ff_fffe).to_be_bytes()
}

fn tcp(seen: &Seen<'_>, out: &mut Vec<u8>) {
    let Header { flags, segment, kind, .. } = *seen.header;
    let flow = seen.flow.0;
    let ends = [(1_024 + flow % 60_000) as u16, (5_001 + flow / 60_000 % 60_000) as u16];
    let payload = u64::from(seen.header.payload(seen.overhead));
    let full = u64::from(seen.full);
    // The first byte of a segment, or of what is missing; no further than the flow reaches.
    let place = (u64::from(segment) * full).min(seen.size.get()) as u32;
    let start = out.len();
    let (ports, sequence, acknowledged) = match kind {
        Kind::Ack => ([ends[1], ends[0]], 1, place.wrapping_add(1)),
        Kind::Data | Kind::Probe | Kind::Datagram => (ends, place.wrapping_add(1), 1),
    };
    out.extend(ports.iter().flat_map(|port| port.to_be_bytes()));
    out.extend(sequence.to_be_bytes());
    out.extend(acknowledged.to_be_bytes());
    let options = usize::from(seen.overhead.saturating_sub(least_overhead(seen.own.len())));
    let options = options.min(MOST_OPTIONS) / 4 * 4;
    let ack = 0x10;
    let fin = u8::from(kind == Kind::Data && flags.contains(Flags::LAST));
    let echo = if flags.contains(Flags::ECHO) { 0x40 } else { 0 };
    out.extend([(5 + options as u8 / 4) << 4, ack | fin | echo, 0xff, 0xff, 0, 0, 0, 0]);
    out.extend(std::iter::repeat_n(1, options));
    let (src, dst) = if kind == Kind::Ack { (seen.dst, seen.src) } else { (seen.src, seen.dst) };
    let length = (out.len() - start) as u64 + payload;
    // Payload counts as zeros, which add nothing.
    let pseudo = [&address(src)[..], &address(dst), &[0, TCP], &(length as u16).to_be_bytes()].concat();
    let sum = checksum(&out[start..], sum(&pseudo));
    out[start + 16..start + 18].copy_from_slice(&sum.to_be_bytes());
}

fn udp(seen: &Seen<'_>, out: &mut Vec<u8>) {
    let start = out.len();
    let length = seen.header.size.saturating_sub(20);
    out.extend([NEGOTIATION, NEGOTIATION, length, 0].iter().flat_map(|field| field.to_be_bytes()));
    out.extend(seen.own);
    out.resize(start + usize::from(length), 0);
    let pseudo = [&address(seen.src)[..], &address(seen.dst), &[0, UDP], &length.to_be_bytes()].concat();
    let sum = checksum(&out[start..], sum(&pseudo));
    // Nothing stands for no checksum, so a checksum of nothing is written as its other form (RFC
    // 768).
    out[start + 6..start + 8].copy_from_slice(&if sum == 0 { u16::MAX } else { sum }.to_be_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen<'a>(header: &'a Header, own: &'a [u8], overhead: u16) -> Seen<'a> {
        Seen {
            at: Instant(3_000_000_007),
            link: 1,
            flow: FlowId(60_001),
            src: PortId(0),
            dst: PortId(299),
            size: Bytes(2_000),
            hops: 2,
            header,
            own,
            full: 1_460,
            overhead,
        }
    }

    fn one(seen: &Seen<'_>) -> Vec<u8> {
        let mut out = Vec::new();
        record(seen, &mut out);
        out
    }

    #[test]
    fn a_datagram_is_udp_with_what_it_says() {
        let header = Header { kind: Kind::Datagram, size: 43, ..Header::default() };
        let bytes = one(&seen(&header, b"abc", 40));
        let (ip, udp) = bytes[16..].split_at(20);
        assert_eq!((ip[0], ip[9], udp.len()), (0x45, UDP, 23));
        assert_eq!(udp[..6], [0x13, 0x88, 0x13, 0x88, 0, 23]);
        assert_eq!((&udp[8..11], &udp[11..]), (&b"abc"[..], &[0; 12][..]));
        let pseudo = [&ip[12..20], &[0, UDP, 0, 23]].concat();
        assert_eq!((checksum(ip, 0), checksum(udp, sum(&pseudo))), (0, 0));
    }

    #[test]
    fn a_segment_is_an_ip_packet_of_its_length_with_the_marks_and_numbers_of_tcp() {
        let flags = Flags::ECN_CAPABLE.with(Flags::CONGESTED).with(Flags::LAST);
        let header = Header { segment: 1, size: 580, class: 1, flags, ..Header::default() };
        let out = one(&seen(&header, &[], 40));
        let number = |at: usize| u32::from_le_bytes(out[at..at + 4].try_into().unwrap());
        assert_eq!((number(0), number(4), number(8), number(12)), (3, 7, 40, 580));
        let (ip, tcp) = (&out[16..36], &out[36..56]);
        assert_eq!(out.len(), 56);
        assert_eq!((ip[0], ip[1], ip[8], ip[9]), (0x45, 6 << 5 | 0b11, 62, TCP));
        assert_eq!((&ip[12..16], &ip[16..20]), (&[10, 0, 0, 1][..], &[10, 0, 1, 44][..]));
        assert_eq!(checksum(ip, 0), 0, "a sum over what holds its checksum is zero");
        assert_eq!(&tcp[..4], [(1_025u16).to_be_bytes(), (5_002u16).to_be_bytes()].concat());
        assert_eq!(&tcp[4..8], 1_461u32.to_be_bytes());
        assert_eq!((tcp[12], tcp[13]), (5 << 4, 0x11));
    }

    #[test]
    fn an_acknowledgement_goes_the_other_way_and_never_beyond_the_flow() {
        let flags = Flags::ECHO;
        let header = Header { segment: 2, size: 40, kind: Kind::Ack, flags, ..Header::default() };
        let out = one(&seen(&header, &[], 40));
        let (ip, tcp) = (&out[16..36], &out[36..56]);
        assert_eq!(&ip[12..16], &[10, 0, 1, 44]);
        assert_eq!(&tcp[8..12], 2_001u32.to_be_bytes());
        assert_eq!(tcp[13], 0x50);
    }

    #[test]
    fn a_header_of_the_transports_own_is_an_ip_option_and_room_is_filled() {
        let header = Header { size: 1_500, ..Header::default() };
        let out = one(&seen(&header, &[7; 26], 74));
        assert_eq!(least_overhead(26), 68);
        let ip = &out[16..16 + 48];
        assert_eq!((ip[0], ip[9], checksum(ip, 0)), (0x4c, TCP, 0));
        assert_eq!((ip[20], ip[21], &ip[22..48]), (0x9e, 28, &[7; 26][..]));
        // 74 bytes less 68 are 6: one word of TCP's options.
        assert_eq!((out[64 + 12], out.len()), (6 << 4, 64 + 24));
        assert_eq!(out[out.len() - 4..], [1; 4]);
        let odd = one(&seen(&header, &[7; 3], 100));
        assert_eq!((odd[16] & 15, &odd[36..44]), (7, &[0x9e, 5, 7, 7, 7, 0, 0, 0][..]));
    }
}
