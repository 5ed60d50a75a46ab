//! Connections that a process had before it was tagged: inherited, passed to it, or made in another group.

use std::fs;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::OwnedFd;

use rustix::net::{ipproto, sockopt};
use rustix::process::{Pid, PidfdFlags, PidfdGetfdFlags, pidfd_getfd, pidfd_open};

/// A TCP socket of another process.
#[derive(Debug)]
pub(crate) struct Inherited {
    /// This process's own descriptor of it.
    pub(crate) descriptor: OwnedFd,
    /// The other end, if it is connected.
    pub(crate) peer: Option<IpAddr>,
}

/// All TCP sockets that a process has open, as far as this process may see them.
pub(crate) fn connections_of(process: u32) -> Vec<Inherited> {
    let Some(pid) = i32::try_from(process).ok().and_then(Pid::from_raw) else { return Vec::new() };
    let Ok(handle) = pidfd_open(pid, PidfdFlags::empty()) else { return Vec::new() };
    let entries = fs::read_dir(format!("/proc/{process}/fd")).into_iter().flatten().flatten();
    let sockets = entries.filter(|entry| {
        fs::read_link(entry.path()).is_ok_and(|target| target.to_string_lossy().starts_with("socket:"))
    });
    let numbers = sockets.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let copies = numbers.filter_map(|number| pidfd_getfd(&handle, number, PidfdGetfdFlags::empty()).ok());
    copies.filter(is_tcp).map(Inherited::new).collect()
}

/// Has the connections of a process send what they hold back. TCP tries when TCP_NODELAY is set; the application's own choice
/// comes back at once. Returns the number and the peer of each: two processes may have the same one.
pub(crate) fn push(process: u32) -> Vec<(u64, IpAddr)> {
    let push = |Inherited { descriptor, peer }: Inherited| {
        let own = sockopt::tcp_nodelay(&descriptor).unwrap_or(true);
        // One that has ended meanwhile has nothing to send.
        let _ = sockopt::set_tcp_nodelay(&descriptor, true);
        if !own {
            let _ = sockopt::set_tcp_nodelay(&descriptor, false);
        }
        Some((rustix::fs::fstat(&descriptor).ok()?.st_ino, peer?.to_canonical()))
    };
    connections_of(process).into_iter().filter(|socket| socket.peer.is_some()).filter_map(push).collect()
}

fn is_tcp(socket: &OwnedFd) -> bool {
    sockopt::socket_protocol(socket).is_ok_and(|protocol| protocol == Some(ipproto::TCP))
}

impl Inherited {
    fn new(descriptor: OwnedFd) -> Self {
        let peer = rustix::net::getpeername(&descriptor).ok().flatten();
        let peer = peer.and_then(|peer| SocketAddr::try_from(peer).ok()).map(|peer| peer.ip());
        Self { descriptor, peer }
    }
}
