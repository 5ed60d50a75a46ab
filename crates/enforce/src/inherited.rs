//! Connections that a process had before it was tagged: inherited, passed to it, or made in another group.

use std::fs;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsRawFd, OwnedFd};

use rustix::net::{ipproto, sockopt};
use rustix::process::{Pid, PidfdFlags, PidfdGetfdFlags, pidfd_getfd, pidfd_open};

/// The bits of a TOS that are for ECN.
const ECN: u8 = 3;

/// The most descriptors of a process that are looked at: a user's process can have half a million, and each takes some microseconds of a
/// thread that goes before all others.
const MOST_DESCRIPTORS: usize = 16_384;

/// A TCP socket of another process.
#[derive(Debug)]
pub(crate) struct Inherited {
    /// This process's own descriptor of it.
    pub(crate) descriptor: OwnedFd,
    /// The other end, if it is connected; IPv4 as such.
    pub(crate) peer: Option<IpAddr>,
    /// True if it is connected over IPv4 and made for both families.
    pub(crate) is_mapped: bool,
}

/// The TCP sockets that a process has open, as far as this process may see them, among its first [`MOST_DESCRIPTORS`].
pub(crate) fn sockets_of(process: u32) -> impl Iterator<Item = Inherited> {
    handle_of(process).into_iter().flat_map(move |handle| {
        let entries = fs::read_dir(format!("/proc/{process}/fd")).into_iter().flatten().flatten();
        let sockets = entries.take(MOST_DESCRIPTORS).filter(|entry| {
            fs::read_link(entry.path()).is_ok_and(|target| target.to_string_lossy().starts_with("socket:"))
        });
        let numbers = sockets.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
        numbers.filter_map(move |number| take(&handle, number))
    })
}

/// The connection that a process has under this descriptor, where its cookie is this one.
pub(crate) fn connection_of(process: u32, descriptor: i32, cookie: u64) -> Option<Inherited> {
    let found = take(&handle_of(process)?, descriptor)?;
    let is_it = sockopt::socket_cookie(&found.descriptor).is_ok_and(|its| its == cookie);
    (is_it && found.peer.is_some()).then_some(found)
}

fn handle_of(process: u32) -> Option<OwnedFd> {
    let pid = i32::try_from(process).ok().and_then(Pid::from_raw)?;
    pidfd_open(pid, PidfdFlags::empty()).ok()
}

/// A copy of a descriptor, where that is a TCP socket.
fn take(process: &OwnedFd, number: i32) -> Option<Inherited> {
    let copy = pidfd_getfd(process, number, PidfdGetfdFlags::empty()).ok()?;
    is_tcp(&copy).then(|| Inherited::new(copy))
}

fn is_tcp(socket: &OwnedFd) -> bool {
    sockopt::socket_protocol(socket).is_ok_and(|protocol| protocol == Some(ipproto::TCP))
}

impl Inherited {
    fn new(descriptor: OwnedFd) -> Self {
        let peer = rustix::net::getpeername(&descriptor).ok().flatten();
        let found = peer.and_then(|peer| SocketAddr::try_from(peer).ok()).map(|peer| peer.ip());
        let peer = found.map(|peer| peer.to_canonical());
        Self { descriptor, peer, is_mapped: peer != found }
    }

    /// Sets its TOS, and then its priority, which the kernel derives from that. The bits for ECN are the kernel's own.
    pub(crate) fn mark(&self, tos: u8, priority: u32) {
        if sockopt::ip_tos(&self.descriptor).is_ok_and(|own| (own ^ tos) & !ECN == 0) {
            return;
        }
        // One that has ended meanwhile has no packets to mark.
        let _ = sockopt::set_ip_tos(&self.descriptor, tos);
        let size = size_of_val(&priority) as libc::socklen_t;
        #[expect(unsafe_code, reason = "rustix does not have this option")]
        // SAFETY: the descriptor is open, and the kernel reads as many bytes as the value has.
        let _ = unsafe {
            let (level, name) = (libc::SOL_SOCKET, libc::SO_PRIORITY);
            libc::setsockopt(self.descriptor.as_raw_fd(), level, name, (&raw const priority).cast(), size)
        };
    }

    /// Has it send what it holds back. TCP tries when TCP_NODELAY is set; the application's own choice comes back at once.
    pub(crate) fn push(&self) {
        let own = sockopt::tcp_nodelay(&self.descriptor).unwrap_or(true);
        // One that has ended meanwhile has nothing to send.
        let _ = sockopt::set_tcp_nodelay(&self.descriptor, true);
        if !own {
            let _ = sockopt::set_tcp_nodelay(&self.descriptor, false);
        }
    }

    /// The number of the socket, by which all its descriptors are known.
    pub(crate) fn number(&self) -> Option<u64> {
        rustix::fs::fstat(&self.descriptor).ok().map(|found| found.st_ino)
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use rustix::process::{Resource, getrlimit, setrlimit};

    use super::*;

    #[test]
    fn of_a_process_with_very_many_descriptors_only_so_many_are_looked_at() {
        let (limit, wanted) = (getrlimit(Resource::Nofile), MOST_DESCRIPTORS + 1_000);
        let raised = rustix::process::Rlimit { current: limit.maximum, ..limit };
        if limit.maximum.is_some_and(|most| most < wanted as u64)
            || setrlimit(Resource::Nofile, raised).is_err()
        {
            return cavalcade_testing::skipped("a limit of 17,384 descriptors");
        }
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let copies: Vec<TcpListener> = (0..wanted).map(|_| listener.try_clone().unwrap()).collect();
        let found = sockets_of(std::process::id()).count();
        assert!((1_000..=MOST_DESCRIPTORS).contains(&found), "{found}");
        drop(copies);
        assert!(sockets_of(std::process::id()).count() < 1_000);
    }
}
