//! The lab's ports that mark, tried on a lab of one host.

use std::fs::File;
use std::io;
use std::net::UdpSocket;
use std::os::fd::AsFd;
use std::path::Path;
use std::time::Duration;

use cavalcade_lab::{Marking, Namespaces, Ports, host_address};
use cavalcade_model::{BitsPerSec, Bytes};
use rustix::net::sockopt::set_ip_tos;
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

/// The rate of the port, and what it marks from: whatever joins its queue.
const RATE: BitsPerSec = BitsPerSec(40_000_000);
const MARKING: Marking = Marking { at: Bytes(1), buffer: Bytes(360_000) };
/// So often they are sent, with this pause in between.
const TURNS: u32 = 300;
const PAUSE: Duration = Duration::from_millis(10);
/// The TOS of packets that can be marked, their number, and the length of each.
const MARKABLE: u8 = 2;
const PACKETS: usize = 100;
const LENGTH: usize = 1_400;
/// A port without a listener.
const NOWHERE: u16 = 9;

/// Builds a lab whose ports do not mark.
///
/// # Errors
/// If this machine or user cannot; with the reason.
pub(super) fn build() -> Result<(), String> {
    Namespaces::build(1, RATE).map(drop).map_err(|error| error.to_string())
}

/// Sends packets through a port that marks.
///
/// # Errors
/// If it does not mark them, or cannot be made; with the reason.
pub(super) fn mark() -> Result<&'static str, String> {
    if let Some(why) = cavalcade_lab::marks_missing() {
        return Err(why.to_owned());
    }
    let lab = Namespaces::build_with(1, RATE, Ports::Marking(MARKING)).map_err(|error| error.to_string())?;
    let mut passed = None;
    // Links that have just been made may not carry anything yet.
    for _ in 0..TURNS {
        send_within(&lab.of_coordinator()).map_err(|error| format!("no packets in a namespace: {error}"))?;
        passed = lab.marked();
        if matches!(passed, Some((_, 1..))) {
            return Ok("ports between hosts can mark packets of long queues (ECN)");
        }
        std::thread::sleep(PAUSE);
    }
    let all = passed.map_or(0, |(all, _)| all);
    Err(format!("a port with a queue has marked none of {all} packets"))
}

/// Sends to the host of a lab, from a thread of its own: namespaces are those of threads.
fn send_within(namespace: &str) -> io::Result<()> {
    let namespace = File::open(Path::new("/run/netns").join(namespace))?;
    let send = || {
        move_into_link_name_space(namespace.as_fd(), Some(LinkNameSpaceType::Network))?;
        let socket = UdpSocket::bind(("0.0.0.0", 0))?;
        set_ip_tos(&socket, MARKABLE)?;
        // The host may refuse these packets, but by then they have passed the lab's port.
        (0..PACKETS).for_each(|_| drop(socket.send_to(&[0; LENGTH], (host_address(0), NOWHERE))));
        Ok(())
    };
    std::thread::scope(|scope| {
        scope.spawn(send).join().unwrap_or_else(|panicked| std::panic::resume_unwind(panicked))
    })
}
