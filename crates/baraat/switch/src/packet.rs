//! What a frame is, and how its SPC header is changed in place.
//!
//! SPC is told from other UDP by what follows its 26 bytes (`transport::stream::frame`), not by
//! port numbers: both ends may have any. The UDP checksum is kept right by difference (RFC 1624),
//! except where there is none or the kernel has left it to the device.

use cavalcade_transport::internet::{checksum, fold, sum};
use cavalcade_transport::spc::{BYTES, SpcHeader};
use cavalcade_transport::stream::frame::{Frame, HEADER, Malformed, Peeked, Reason, peek};

/// Bytes of an Ethernet header.
pub const ETHERNET: usize = 14;
const IPV4: u16 = 0x0800;
const IPV6: u16 = 0x86dd;
const UDP: u8 = 17;
const UDP_HEADER: usize = 8;
const IPV6_HEADER: usize = 40;

/// A part of a packet that the kernel has left to the device: the checksum from `start` on, to be
/// written at `start + offset`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unfinished {
    /// Offset of the checksummed bytes.
    pub start: u16,
    /// Offset of the checksum in them.
    pub offset: u16,
}

/// An Ethernet address.
pub type Address = [u8; 6];

/// The kind of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Content {
    /// SPC, with its header here; or RCP in the same form.
    Spc {
        /// Offset of the SPC header.
        at: usize,
        /// The part that a switch needs.
        seen: Peeked,
    },
    /// Anything else.
    Plain,
    /// SPC with a header that cannot be.
    Malformed,
}

/// Reads the destination and the source of a frame; `None` where it is too short to be one.
pub fn addresses(frame: &[u8]) -> Option<(Address, Address)> {
    let destination = *frame.first_chunk()?;
    let source = *frame.get(6..)?.first_chunk()?;
    (frame.len() >= ETHERNET).then_some((destination, source))
}

/// Returns whether an address is for several stations.
pub fn is_group(address: Address) -> bool {
    address[0] & 1 == 1
}

fn word(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_be_bytes(*bytes.get(at..)?.first_chunk()?))
}

/// Finds the UDP header of an unfragmented datagram.
fn udp(frame: &[u8]) -> Option<usize> {
    match word(frame, 12)? {
        IPV4 => {
            let first = *frame.get(ETHERNET)?;
            let fragment = word(frame, ETHERNET + 6)? & 0x3fff;
            let fits =
                first >> 4 == 4 && first & 15 >= 5 && fragment == 0 && *frame.get(ETHERNET + 9)? == UDP;
            fits.then_some(ETHERNET + usize::from(first & 15) * 4)
        }
        IPV6 => (*frame.get(ETHERNET + 6)? == UDP).then_some(ETHERNET + IPV6_HEADER),
        _ => None,
    }
}

/// Says what a frame is.
pub fn classify(frame: &[u8]) -> Content {
    let Some(at) = udp(frame).map(|udp| udp + UDP_HEADER) else { return Content::Plain };
    match frame.get(at..).map(peek) {
        Some(Ok(seen)) => Content::Spc { at, seen },
        None | Some(Err(Malformed::Foreign)) => Content::Plain,
        Some(Err(_)) => Content::Malformed,
    }
}

/// Writes an SPC header over the one at `at`, and corrects the UDP checksum where there is one.
pub fn rewrite(frame: &mut [u8], at: usize, header: &SpcHeader, unfinished: bool) {
    let new = header.to_bytes();
    let (before, after) = frame.split_at_mut(at);
    let old = &mut after[..BYTES];
    let sum = &mut before[at - 2..];
    let stated = u16::from_be_bytes([sum[0], sum[1]]);
    if stated != 0 && !unfinished {
        let words = old.chunks_exact(2).zip(new.chunks_exact(2));
        let difference: u32 = words
            .map(|(old, new)| {
                let (old, new) = (u16::from_be_bytes([old[0], old[1]]), u16::from_be_bytes([new[0], new[1]]));
                u32::from(!old) + u32::from(new)
            })
            .sum();
        let corrected = !fold(u32::from(!stated) + difference);
        // Zero would say that there is none.
        let corrected = if corrected == 0 { u16::MAX } else { corrected };
        sum.copy_from_slice(&corrected.to_be_bytes());
    }
    old.copy_from_slice(&new);
}

/// Makes the answer that refuses a question: from its destination to its sender. `None` where the
/// question is broken.
pub fn refusal(frame: &[u8], at: usize, reason: Reason) -> Option<Vec<u8>> {
    let question = Frame::decode(frame.get(at..)?).ok()?;
    let reset = Frame {
        accepted: !question.accepted,
        ..Frame::reset(question.connection, question.spc.task(), reason)
    };
    let mut payload = Vec::with_capacity(HEADER);
    reset.encode(&mut payload);
    let mut answer = frame[..at].to_vec();
    answer[..6].copy_from_slice(&frame[6..12]);
    answer[6..12].copy_from_slice(&frame[..6]);
    let udp = at - UDP_HEADER;
    let length = (UDP_HEADER + payload.len()) as u16;
    let (source, width) = if word(frame, 12)? == IPV4 { (ETHERNET + 12, 4) } else { (ETHERNET + 8, 16) };
    answer[source..source + width].copy_from_slice(&frame[source + width..source + 2 * width]);
    answer[source + width..source + 2 * width].copy_from_slice(&frame[source..source + width]);
    answer[udp..udp + 2].copy_from_slice(&frame[udp + 2..udp + 4]);
    answer[udp + 2..udp + 4].copy_from_slice(&frame[udp..udp + 2]);
    answer[udp + 4..udp + 6].copy_from_slice(&length.to_be_bytes());
    answer[udp + 6..udp + 8].fill(0);
    answer.extend(&payload);
    if width == 4 {
        let total = (answer.len() - ETHERNET) as u16;
        answer[ETHERNET + 2..ETHERNET + 4].copy_from_slice(&total.to_be_bytes());
        answer[ETHERNET + 10..ETHERNET + 12].fill(0);
        let header = checksum(&answer[ETHERNET..udp], 0);
        answer[ETHERNET + 10..ETHERNET + 12].copy_from_slice(&header.to_be_bytes());
    } else {
        answer[ETHERNET + 4..ETHERNET + 6].copy_from_slice(&length.to_be_bytes());
    }
    let pseudo = sum(&answer[source..source + 2 * width]) + u32::from(UDP) + u32::from(length);
    let stated = checksum(&answer[udp..], pseudo);
    answer[udp + 6..udp + 8].copy_from_slice(&(if stated == 0 { u16::MAX } else { stated }).to_be_bytes());
    Some(answer)
}

#[cfg(test)]
pub(crate) mod tests {
    use cavalcade_transport::spc::Returned;
    use cavalcade_transport::stream::frame::FrameKind;

    use super::*;

    /// An Ethernet frame with a UDP datagram over IPv4 or IPv6, checksums and all.
    pub(crate) fn datagram(from: u8, to: u8, payload: &[u8], six: bool) -> Vec<u8> {
        let mut frame = vec![2, 0, 0, 0, 0, to, 2, 0, 0, 0, 0, from];
        let length = (UDP_HEADER + payload.len()) as u16;
        if six {
            frame.extend(IPV6.to_be_bytes());
            frame.extend([0x60, 0, 0, 0]);
            frame.extend(length.to_be_bytes());
            frame.extend([UDP, 64]);
            frame.extend([[0xfd; 15].as_slice(), &[from], &[0xfd; 15], &[to]].concat());
        } else {
            frame.extend(IPV4.to_be_bytes());
            frame.extend([0x45, 0]);
            frame.extend((length + 20).to_be_bytes());
            frame.extend([0, 0, 0x40, 0, 64, UDP, 0, 0, 10, 0, 0, from, 10, 0, 0, to]);
            let stated = checksum(&frame[ETHERNET..], 0);
            frame[ETHERNET + 10..ETHERNET + 12].copy_from_slice(&stated.to_be_bytes());
        }
        let udp = frame.len();
        frame.extend([4_000u16, 5_000, length, 0].iter().flat_map(|field| field.to_be_bytes()));
        frame.extend(payload);
        let addresses = if six { ETHERNET + 8..udp } else { ETHERNET + 12..udp };
        let pseudo = sum(&frame[addresses]) + u32::from(UDP) + u32::from(length);
        let stated = checksum(&frame[udp..], pseudo);
        frame[udp + 6..udp + 8].copy_from_slice(&stated.to_be_bytes());
        frame
    }

    /// Returns whether all checksums of a frame are right.
    fn is_right(frame: &[u8]) -> bool {
        let udp = udp(frame).unwrap();
        let addresses = if udp == 34 { 26..34 } else { 22..54 };
        let length = (frame.len() - udp) as u32;
        let pseudo = sum(&frame[addresses]) + u32::from(UDP) + length;
        checksum(&frame[udp..], pseudo) == 0 && (udp != 34 || checksum(&frame[14..34], 0) == 0)
    }

    pub(crate) fn question(task: u32, demand: u8) -> Vec<u8> {
        let spc = SpcHeader::new(task, 0).asking(1, demand, &Returned::default());
        let mut bytes = Vec::new();
        Frame { payload: b"odd", ..Frame::new(FrameKind::Data, 99, spc) }.encode(&mut bytes);
        bytes
    }

    #[test]
    fn spc_is_found_in_either_version_and_other_traffic_is_plain() {
        for six in [false, true] {
            let frame = datagram(1, 2, &question(7, 100), six);
            assert!(is_right(&frame));
            let Content::Spc { seen, .. } = classify(&frame) else { panic!("it is SPC") };
            assert_eq!((seen.header.task(), seen.kind), (7, FrameKind::Data));
            assert_eq!(
                classify(&datagram(1, 2, b"a query for a name, say, of any length", six)),
                Content::Plain
            );
            let mut fragment = frame.clone();
            fragment[ETHERNET + 6] |= 0x20;
            assert_eq!(classify(&fragment), Content::Plain);
        }
        for length in 0..80 {
            let frame = datagram(1, 2, &question(7, 100), false);
            let _ = (classify(&frame[..length.min(frame.len())]), addresses(&frame[..length]));
        }
        let mut odd = datagram(1, 2, &question(7, 100), false);
        odd[42 + 23] |= 7;
        assert_eq!(classify(&odd), Content::Malformed);
    }

    #[test]
    fn a_rewritten_header_leaves_every_checksum_right() {
        for six in [false, true] {
            let mut frame = datagram(1, 2, &question(7, 100), six);
            for hop in 0..6u8 {
                let Content::Spc { at, mut seen } = classify(&frame) else { panic!("it is SPC") };
                seen.header.answer(200 - hop, 17 * hop, hop % 2 == 1);
                rewrite(&mut frame, at, &seen.header, false);
                assert!(is_right(&frame), "after hop {hop}");
            }
            let Content::Spc { at, seen } = classify(&frame) else { panic!("it is SPC") };
            assert_eq!((seen.header.hop(), seen.header.least()), (6, Some((195, 0))));
            assert!(Frame::decode(&frame[at..]).is_ok());
        }
    }

    #[test]
    fn a_refusal_goes_back_to_the_sender_with_right_checksums() {
        for six in [false, true] {
            let frame = datagram(1, 2, &question(7, 100), six);
            let Content::Spc { at, .. } = classify(&frame) else { panic!("it is SPC") };
            let answer = refusal(&frame, at, Reason::TooManySwitches).unwrap();
            assert!(is_right(&answer));
            assert_eq!(addresses(&answer), Some(([2, 0, 0, 0, 0, 1], [2, 0, 0, 0, 0, 2])));
            let reset = Frame::decode(&answer[at..]).unwrap();
            assert_eq!((reset.kind, reset.reason()), (FrameKind::Reset, Reason::TooManySwitches));
            assert_eq!((reset.connection, reset.accepted), (99, true));
            assert_eq!(word(&answer, at - 8), Some(5_000));
        }
    }
}
