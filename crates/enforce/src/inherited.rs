//! Connections that a process had before it was tagged: inherited, passed to it, or made in another group.

use std::collections::VecDeque;
use std::mem::MaybeUninit;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsRawFd, OwnedFd};

use cavalcade_protocol::Endpoints;
use rustix::fs::{Mode, OFlags, RawDir, readlinkat_raw};
use rustix::io::Errno;
use rustix::net::{ipproto, sockopt};
use rustix::path::DecInt;
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
    descriptors_of(process).take(MOST_DESCRIPTORS).flatten()
}

/// All descriptors of a process, in order: the TCP socket, or nothing where it is none or not to be seen.
struct Descriptors {
    process: OwnedFd,
    folder: OwnedFd,
    /// Those that have been listed and are yet to be looked at.
    numbers: VecDeque<i32>,
}

fn descriptors_of(process: u32) -> impl Iterator<Item = Option<Inherited>> {
    let folder =
        rustix::fs::open(format!("/proc/{process}/fd"), OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty());
    let opened = handle_of(process).zip(folder.ok());
    opened.into_iter().flat_map(|(process, folder)| Descriptors { process, folder, numbers: VecDeque::new() })
}

impl Descriptors {
    /// Lists some more. Few at a time: listing takes as long as looking at what is no socket, and the search may end soon.
    fn list(&mut self) {
        let mut space = [MaybeUninit::uninit(); 256];
        let mut entries = RawDir::new(&self.folder, &mut space);
        while let Some(Ok(entry)) = entries.next() {
            let number = entry.file_name().to_str().ok().and_then(|name| name.parse::<i32>().ok());
            self.numbers.extend(number);
            if entries.is_buffer_empty() && !self.numbers.is_empty() {
                break;
            }
        }
    }

    /// Nothing but sockets is copied: to close a copy of a file may take as long as a file system likes.
    fn is_socket(&self, number: i32) -> bool {
        const KIND: &[u8; 7] = b"socket:";
        let mut start = [0; KIND.len()];
        let read = readlinkat_raw(&self.folder, DecInt::new(number), &mut start);
        read.is_ok() && start == *KIND
    }
}

impl Iterator for Descriptors {
    type Item = Option<Inherited>;

    fn next(&mut self) -> Option<Option<Inherited>> {
        if self.numbers.is_empty() {
            self.list();
        }
        let number = self.numbers.pop_front()?;
        Some(if self.is_socket(number) { take(&self.process, number) } else { None })
    }
}

/// The connection that a process has between these ends, if it is among its first `most` descriptors, and how many of them
/// were looked at for it.
pub(crate) fn connection_between(process: u32, ends: Endpoints, most: usize) -> (Option<Inherited>, usize) {
    let mut looked_at = 0;
    let descriptors = descriptors_of(process).take(most).inspect(|_| looked_at += 1);
    let found = descriptors.flatten().find(|socket| socket.is_between(ends));
    (found, looked_at)
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

    /// Tells whether these are its ends. Addresses are compared without what else a socket's name has, such as an interface.
    fn is_between(&self, Endpoints { local, remote }: Endpoints) -> bool {
        let is = |found: rustix::io::Result<SocketAddr>, wanted: SocketAddr| {
            found.is_ok_and(|found| {
                found.port() == wanted.port() && found.ip().to_canonical() == wanted.ip().to_canonical()
            })
        };
        let peer =
            || rustix::net::getpeername(&self.descriptor)?.map_or(Err(Errno::NOTCONN), SocketAddr::try_from);
        let own = || SocketAddr::try_from(rustix::net::getsockname(&self.descriptor)?);
        self.peer == Some(remote.ip().to_canonical()) && is(peer(), remote) && is(own(), local)
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
    use std::net::{TcpListener, TcpStream};
    use std::os::fd::AsFd;

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

    /// A connection to a listener at `at`, made by a socket for both families where `to` is an IPv6 address.
    fn connect(at: &str, to: &str) -> (TcpStream, TcpStream) {
        let listener = TcpListener::bind(format!("{at}:0")).unwrap();
        let port = listener.local_addr().unwrap().port();
        let near = TcpStream::connect(format!("{to}:{port}")).unwrap();
        (near, listener.accept().unwrap().0)
    }

    fn ends_of(socket: &TcpStream) -> Endpoints {
        Endpoints { local: socket.local_addr().unwrap(), remote: socket.peer_addr().unwrap() }
    }

    #[test]
    fn a_connection_is_found_by_its_ends_and_no_other_is_taken_for_it() {
        let own = std::process::id();
        for (at, to) in [("127.0.0.1", "127.0.0.1"), ("[::1]", "[::1]"), ("127.0.0.1", "[::ffff:127.0.0.1]")]
        {
            let (near, _far) = connect(at, to);
            let mut ends = ends_of(&near);
            for canonical in [false, true] {
                if canonical {
                    ends.local.set_ip(ends.local.ip().to_canonical());
                    ends.remote.set_ip(ends.remote.ip().to_canonical());
                }
                let (found, _) = connection_between(own, ends, MOST_DESCRIPTORS);
                let cookie = |socket: &dyn AsFd| sockopt::socket_cookie(socket.as_fd()).unwrap();
                assert_eq!(cookie(&found.unwrap().descriptor), cookie(&near), "{ends:?}");
            }
            ends.local.set_port(ends.local.port() ^ 1);
            assert!(connection_between(own, ends, MOST_DESCRIPTORS).0.is_none());
        }
    }

    #[test]
    fn a_connection_is_looked_for_among_so_many_descriptors_and_no_further_than_it_is() {
        let (near, _far) = connect("127.0.0.1", "127.0.0.1");
        let own = std::process::id();
        let (found, before) = connection_between(own, ends_of(&near), MOST_DESCRIPTORS);
        assert!(found.is_some() && before <= near.as_raw_fd() as usize + 1, "{before}");
        let (found, looked_at) = connection_between(own, ends_of(&near), 1);
        assert!(found.is_none() && looked_at == 1, "{looked_at}");
    }
}
