//! Ports for programs that are told where to listen.

use std::fs;
use std::sync::atomic::{AtomicU32, Ordering};

/// Returns a port of this host at which nothing listens, for TCP and for UDP. It is none of those
/// that the system assigns by itself (32,768 and up), and no test of this process gets it again, so
/// nothing takes it before the program that is told of it. It is found without a socket, of which a
/// process that another test is just starting would have a copy.
pub fn free_port() -> u16 {
    static GIVEN: AtomicU32 = AtomicU32::new(0);
    let (first, count) = (10_000, 22_000);
    loop {
        let next = std::process::id().wrapping_mul(101).wrapping_add(GIVEN.fetch_add(1, Ordering::Relaxed));
        let port = first + (next % count) as u16;
        let local = format!(":{port:04X} ");
        let is_taken = ["tcp", "tcp6", "udp", "udp6"].iter().any(|table| {
            fs::read_to_string(format!("/proc/net/{table}")).is_ok_and(|table| table.contains(&local))
        });
        if !is_taken {
            return port;
        }
    }
}
