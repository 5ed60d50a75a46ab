//! Whether an interface takes what XDP redirects to it: asked of the kernel by generic netlink,
//! before anything is attached.
//!
//! A virtual cable takes such frames only where its other end has generic receive offload or a
//! program of its own; otherwise each of them is lost, and nothing says so.

use std::io;
use std::mem;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

/// The family of messages that tells which families there are, its question, and the attributes for
/// name and number.
const CONTROL: u16 = 16;
const GET_FAMILY: u8 = 3;
const FAMILY_NAME: u16 = 2;
const FAMILY_ID: u16 = 1;
/// The same of network devices, and the feature in question.
const GET_DEVICE: u8 = 1;
const DEVICE: u16 = 1;
const XDP_FEATURES: u16 = 3;
const TAKES_REDIRECTED: u64 = 1 << 2;

const MESSAGE: usize = 16;
const GENERIC: usize = 4;

/// Returns whether an interface takes redirected frames; `None` where the kernel does not say.
pub(super) fn takes_redirected(interface: u32) -> Option<bool> {
    let socket = socket().ok()?;
    let family = ask(&socket, CONTROL, GET_FAMILY, FAMILY_NAME, b"netdev\0")?;
    let family = u16::from_ne_bytes(*find(&family, FAMILY_ID)?.first_chunk()?);
    let device = ask(&socket, family, GET_DEVICE, DEVICE, &interface.to_ne_bytes())?;
    let features = u64::from_ne_bytes(*find(&device, XDP_FEATURES)?.first_chunk()?);
    Some(features & TAKES_REDIRECTED != 0)
}

fn socket() -> io::Result<OwnedFd> {
    let kind = libc::SOCK_RAW | libc::SOCK_CLOEXEC;
    #[expect(unsafe_code, reason = "the standard library has no netlink")]
    // SAFETY: the call touches no memory, and a descriptor that it returns is ours alone.
    unsafe {
        let socket = libc::socket(libc::AF_NETLINK, kind, libc::NETLINK_GENERIC);
        if socket < 0 { Err(io::Error::last_os_error()) } else { Ok(OwnedFd::from_raw_fd(socket)) }
    }
}

/// Asks with one attribute, and returns the attributes of the answer; `None` for an error.
fn ask(socket: &OwnedFd, family: u16, command: u8, attribute: u16, value: &[u8]) -> Option<Vec<u8>> {
    let mut message = Vec::with_capacity(64);
    let length = MESSAGE + GENERIC + 4 + value.len().next_multiple_of(4);
    message.extend((length as u32).to_ne_bytes());
    message.extend(family.to_ne_bytes());
    message.extend((libc::NLM_F_REQUEST as u16).to_ne_bytes());
    message.extend([0; 8]);
    message.extend([command, 1, 0, 0]);
    message.extend((4 + value.len() as u16).to_ne_bytes());
    message.extend(attribute.to_ne_bytes());
    message.extend(value);
    message.resize(length, 0);
    let mut answer = vec![0u8; 16_384];
    #[expect(unsafe_code, reason = "the standard library has no netlink")]
    // SAFETY: the kernel reads `message` and writes at most the length of `answer`; both outlive
    // the calls. The kernel answers a request before it returns from `send`, so `recv` does not
    // wait.
    let read = unsafe {
        let raw = socket.as_raw_fd();
        if libc::send(raw, message.as_ptr().cast(), message.len(), 0) < 0 {
            return None;
        }
        libc::recv(raw, answer.as_mut_ptr().cast(), answer.len(), libc::MSG_DONTWAIT)
    };
    answer.truncate(usize::try_from(read).ok()?);
    let kind = u16::from_ne_bytes(*answer.get(4..)?.first_chunk()?);
    let length = u32::from_ne_bytes(*answer.first_chunk()?) as usize;
    let is_answer = kind == family && length <= answer.len() && length >= MESSAGE + GENERIC;
    is_answer.then(|| answer[MESSAGE + GENERIC..length].to_vec())
}

/// Finds an attribute among some.
fn find(mut attributes: &[u8], wanted: u16) -> Option<&[u8]> {
    while let Some(head) = attributes.first_chunk::<4>() {
        let length = usize::from(u16::from_ne_bytes([head[0], head[1]]));
        let kind = u16::from_ne_bytes([head[2], head[3]]) & 0x3fff;
        let value = attributes.get(mem::size_of_val(head)..length)?;
        if kind == wanted {
            return Some(value);
        }
        attributes = attributes.get(length.next_multiple_of(4)..)?;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attributes_are_found_and_broken_ones_end_the_search() {
        let attributes = [5, 0, 1, 0, 9, 0, 0, 0, 6, 0, 3, 0, 7, 8];
        assert_eq!(find(&attributes, 1), Some(&[9][..]));
        assert_eq!(find(&attributes, 3), Some(&[7, 8][..]));
        assert_eq!(find(&attributes, 2), None);
        for length in 0..14 {
            assert_eq!(find(&attributes[..length], 3), None);
        }
        assert_eq!(find(&[0, 0, 1, 0, 1, 1, 1, 1], 2), None);
    }
}
