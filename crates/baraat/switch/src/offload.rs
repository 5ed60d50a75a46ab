//! Frames that the kernel has not finished: it leaves checksums to the device, and hands TCP over
//! in pieces of up to 64 KB.
//!
//! A virtual link never finishes them either. Checksums travel on as they are, with the note that
//! they are missing ([`Unfinished`]). Large pieces are cut here into what the link carries: at 50
//! Mbps one of them would hold up all that comes behind it for 10 ms.

use cavalcade_transport::internet::{checksum, sum};

use crate::packet::{ETHERNET, Unfinished};

const IPV4: [u8; 2] = [8, 0];
const IPV6: [u8; 2] = [0x86, 0xdd];
const TCP: u8 = 6;
const FIN: u8 = 1;
const PSH: u8 = 8;
const CWR: u8 = 0x80;

/// Cuts a large piece of TCP into segments of `most` bytes of payload, whole with their checksums;
/// each is made in `piece`. `None` where it is none that can be cut.
pub fn cut(frame: &[u8], most: u16, piece: &mut Vec<u8>, mut each: impl FnMut(&[u8])) -> Option<usize> {
    let four = frame.get(12..14)? == IPV4;
    if !four && frame.get(12..14)? != IPV6 {
        return None;
    }
    let ip = if four { usize::from(frame.get(ETHERNET)? & 15) * 4 } else { 40 };
    let protocol = *frame.get(ETHERNET + if four { 9 } else { 6 })?;
    let tcp = ETHERNET + ip;
    let header = tcp + usize::from(frame.get(tcp + 12)? >> 4) * 4;
    if protocol != TCP || most == 0 || header >= frame.len() || header < tcp + 20 {
        return None;
    }
    let sequence = u32::from_be_bytes(*frame.get(tcp + 4..)?.first_chunk()?);
    let identity = u16::from_be_bytes(*frame.get(ETHERNET + 4..)?.first_chunk()?);
    let pieces = frame[header..].chunks(usize::from(most));
    let count = pieces.len();
    for (number, payload) in pieces.enumerate() {
        piece.clear();
        piece.extend(&frame[..header]);
        piece.extend(payload);
        let sent = sequence.wrapping_add((number * usize::from(most)) as u32);
        piece[tcp + 4..tcp + 8].copy_from_slice(&sent.to_be_bytes());
        if number + 1 < count {
            piece[tcp + 13] &= !(FIN | PSH);
        }
        if number > 0 {
            piece[tcp + 13] &= !CWR;
        }
        finish(piece, four, tcp, identity.wrapping_add(number as u16));
        each(piece);
    }
    Some(count)
}

/// Writes lengths and checksums.
fn finish(piece: &mut [u8], four: bool, tcp: usize, identity: u16) {
    let length = (piece.len() - tcp) as u16;
    let addresses = if four {
        let total = (piece.len() - ETHERNET) as u16;
        piece[ETHERNET + 2..ETHERNET + 4].copy_from_slice(&total.to_be_bytes());
        piece[ETHERNET + 4..ETHERNET + 6].copy_from_slice(&identity.to_be_bytes());
        piece[ETHERNET + 10..ETHERNET + 12].fill(0);
        let stated = checksum(&piece[ETHERNET..tcp], 0);
        piece[ETHERNET + 10..ETHERNET + 12].copy_from_slice(&stated.to_be_bytes());
        ETHERNET + 12..ETHERNET + 20
    } else {
        piece[ETHERNET + 4..ETHERNET + 6].copy_from_slice(&length.to_be_bytes());
        ETHERNET + 8..ETHERNET + 40
    };
    let pseudo = sum(&piece[addresses]) + u32::from(TCP) + u32::from(length);
    piece[tcp + 16..tcp + 18].fill(0);
    let stated = checksum(&piece[tcp..], pseudo);
    piece[tcp + 16..tcp + 18].copy_from_slice(&stated.to_be_bytes());
}

/// Returns whether an unfinished checksum lies within its frame.
pub fn is_possible(unfinished: Unfinished, length: usize) -> bool {
    usize::from(unfinished.start) + usize::from(unfinished.offset) + 2 <= length
}

#[cfg(test)]
mod tests {
    use super::*;

    fn large(payload: &[u8], four: bool) -> Vec<u8> {
        let mut frame = vec![2; 12];
        if four {
            frame.extend(IPV4);
            frame.extend([0x45, 0, 0, 0, 0, 7, 0x40, 0, 64, TCP, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
        } else {
            frame.extend(IPV6);
            frame.extend([&[0x60, 0, 0, 0, 0, 0, TCP, 64][..], &[3; 32]].concat());
        }
        frame.extend(
            [&[0, 80, 1, 2, 0xff, 0xff, 0xff, 0][..], &[0; 4], &[5 << 4, FIN | PSH | CWR | 16], &[0; 6]]
                .concat(),
        );
        frame.extend(payload);
        frame
    }

    #[test]
    fn the_pieces_hold_the_same_bytes_in_order_with_right_checksums() {
        let payload: Vec<u8> = (0..5_000).map(|at| at as u8).collect();
        for four in [true, false] {
            let tcp = if four { 34 } else { 54 };
            let addresses = if four { 26..34 } else { 22..54 };
            let mut pieces: Vec<Vec<u8>> = Vec::new();
            let count =
                cut(&large(&payload, four), 1_448, &mut Vec::new(), |piece| pieces.push(piece.to_vec()));
            assert_eq!(count, Some(4));
            let joined: Vec<u8> = pieces.iter().flat_map(|piece| piece[tcp + 20..].to_vec()).collect();
            assert_eq!(joined, payload);
            for (number, piece) in pieces.iter().enumerate() {
                let pseudo = sum(&piece[addresses.clone()]) + u32::from(TCP) + (piece.len() - tcp) as u32;
                assert_eq!(checksum(&piece[tcp..], pseudo), 0);
                assert!(!four || checksum(&piece[14..34], 0) == 0);
                let sequence = u32::from_be_bytes(*piece[tcp + 4..].first_chunk().unwrap());
                assert_eq!(sequence, 0xffff_ff00u32.wrapping_add(1_448 * number as u32));
                let flags = piece[tcp + 13];
                assert_eq!((flags & (FIN | PSH) != 0, flags & CWR != 0), (number == 3, number == 0));
            }
        }
    }

    #[test]
    fn what_is_no_tcp_or_ends_too_soon_is_not_cut() {
        let whole = large(&[1; 3_000], true);
        let mut udp = whole.clone();
        udp[23] = 17;
        let cut = |frame: &[u8], most| cut(frame, most, &mut Vec::new(), |_| panic!("nothing"));
        assert_eq!(cut(&udp, 1_448), None);
        assert_eq!(cut(&whole, 0), None);
        for length in 0..=54 {
            assert_eq!(cut(&whole[..length], 1_448), None, "{length}");
        }
    }
}
