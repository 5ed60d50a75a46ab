//! Connections that a process had before it was tagged: inherited, passed to it, or made in another
//! group.

use std::collections::{BTreeMap, VecDeque};
use std::mem::MaybeUninit;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsRawFd, OwnedFd};
use std::time::Duration;

use cavalcade_protocol::Endpoints;
use rustix::fs::{Mode, OFlags, RawDir, readlinkat_raw};
use rustix::net::{ipproto, sockopt};
use rustix::path::DecInt;
use rustix::process::{Pid, PidfdFlags, PidfdGetfdFlags, pidfd_getfd, pidfd_open};

use crate::shared::RELEASE;

/// The bits of a TOS that are for ECN.
const ECN: u8 = 3;

/// The most descriptors of a process that are looked at: a user's process can have half a million,
/// and each takes some microseconds of a thread that goes before all others.
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

/// The TCP sockets that a process has open, as far as this process may see them, among its first
/// [`MOST_DESCRIPTORS`].
pub(crate) fn sockets_of(process: u32) -> impl Iterator<Item = Inherited> {
    Descriptors::of(process, MOST_DESCRIPTORS).into_iter().flatten().filter_map(|(_, socket)| socket)
}

/// The first descriptors of a process: the TCP socket of each, or nothing where it is none or not
/// to be seen.
#[derive(Debug)]
struct Descriptors {
    process: OwnedFd,
    folder: OwnedFd,
    /// Those that have been listed and are yet to be looked at.
    numbers: VecDeque<i32>,
    /// So many are yet to be looked at.
    left: usize,
}

impl Descriptors {
    fn of(process: u32, left: usize) -> Option<Self> {
        let flags = OFlags::DIRECTORY | OFlags::CLOEXEC;
        let folder = rustix::fs::open(format!("/proc/{process}/fd"), flags, Mode::empty()).ok()?;
        Some(Self { process: handle_of(process)?, folder, numbers: VecDeque::new(), left })
    }

    /// Lists some more. Few at a time: listing takes as long as looking at what is no socket, and
    /// the search may end soon.
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

    /// Nothing but sockets is copied: to close a copy of a file may take as long as a file system
    /// likes.
    fn is_socket(&self, number: i32) -> bool {
        const KIND: &[u8; 7] = b"socket:";
        let mut start = [0; KIND.len()];
        let read = readlinkat_raw(&self.folder, DecInt::new(number), &mut start);
        read.is_ok() && start == *KIND
    }
}

impl Iterator for Descriptors {
    type Item = (i32, Option<Inherited>);

    fn next(&mut self) -> Option<(i32, Option<Inherited>)> {
        self.left = self.left.checked_sub(1)?;
        if self.numbers.is_empty() {
            self.list();
        }
        let number = self.numbers.pop_front()?;
        let socket = if self.is_socket(number) { take(&self.process, number) } else { None };
        Some((number, socket))
    }
}

/// A search for connections of a process by their ends. It keeps what it comes past in mind, so
/// that many take one look.
#[derive(Debug)]
pub(crate) struct Search {
    process: u32,
    /// The first so many descriptors are looked at.
    most: usize,
    /// Those that are yet to be looked at, once the search has begun.
    rest: Option<Descriptors>,
    /// The descriptors of connections that it has come past.
    passed: BTreeMap<Ends, i32>,
}

/// This end of a connection and the other one; IPv4 as such.
type Ends = (SocketAddr, SocketAddr);

impl Search {
    pub(crate) fn new(process: u32, most: usize) -> Self {
        Self { process, most, rest: None, passed: BTreeMap::new() }
    }

    /// The connection between these ends, and how many descriptors were looked at for it.
    pub(crate) fn find(&mut self, Endpoints { local, remote }: Endpoints) -> (Option<Inherited>, usize) {
        let ends = (canonical(local), canonical(remote));
        let passed = self.pass_again(ends);
        if passed.is_some() {
            return (passed, 1);
        }
        let has_begun = self.rest.is_some();
        let (found, looked_at) = self.go_on(ends, self.most);
        if found.is_some() || !has_begun {
            return (found, looked_at);
        }
        // What was made meanwhile mostly comes last, but may fill a gap that was passed.
        (self.rest, self.passed) = (None, BTreeMap::new());
        let (found, more) = self.go_on(ends, self.most - looked_at);
        (found, looked_at + more)
    }

    fn pass_again(&self, ends: Ends) -> Option<Inherited> {
        let number = *self.passed.get(&ends)?;
        let found = take(&self.rest.as_ref()?.process, number)?;
        (found.ends() == Some(ends)).then_some(found)
    }

    fn go_on(&mut self, wanted: Ends, most: usize) -> (Option<Inherited>, usize) {
        if self.rest.is_none() {
            self.rest = Descriptors::of(self.process, self.most);
        }
        let mut looked_at = 0;
        for (number, socket) in self.rest.iter_mut().flatten().take(most) {
            looked_at += 1;
            let Some((ends, socket)) = socket.and_then(|socket| Some((socket.ends()?, socket))) else {
                continue;
            };
            self.passed.insert(ends, number);
            if ends == wanted {
                return (Some(socket), looked_at);
            }
        }
        (None, looked_at)
    }
}

/// An address without what else a socket's name has, such as an interface.
fn canonical(end: SocketAddr) -> SocketAddr {
    SocketAddr::new(end.ip().to_canonical(), end.port())
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

    /// Its ends, if it is connected.
    fn ends(&self) -> Option<Ends> {
        let peer = rustix::net::getpeername(&self.descriptor).ok().flatten()?;
        let own = rustix::net::getsockname(&self.descriptor).ok()?;
        let end = |end| SocketAddr::try_from(end).ok().map(canonical);
        Some((end(own)?, end(peer)?))
    }

    /// Sets its TOS, and then its priority, which the kernel derives from that. The bits for ECN
    /// are the kernel's own.
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

    /// Has it send what it holds back. TCP tries when TCP_NODELAY is set; the application's own
    /// choice comes back at once.
    pub(crate) fn push(&self) {
        let own = sockopt::tcp_nodelay(&self.descriptor).unwrap_or(true);
        // One that has ended meanwhile has nothing to send.
        let _ = sockopt::set_tcp_nodelay(&self.descriptor, true);
        if !own {
            let _ = sockopt::set_tcp_nodelay(&self.descriptor, false);
        }
    }

    /// Has the programs let it go, where it carries that a library may.
    pub(crate) fn release(&self) {
        // No kernel takes such a time where no program has read it as a sign.
        let _ = sockopt::set_tcp_keepidle(&self.descriptor, Duration::from_secs(u64::from(RELEASE)));
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
    use std::sync::{Mutex, MutexGuard, PoisonError};

    use rustix::process::{Resource, getrlimit, setrlimit};

    use super::*;

    #[test]
    fn of_a_process_with_very_many_descriptors_only_so_many_are_looked_at() {
        let _alone = alone();
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

    /// One test at a time: another's descriptors are this process's as well.
    fn alone() -> MutexGuard<'static, ()> {
        static ALONE: Mutex<()> = Mutex::new(());
        ALONE.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A connection to a listener at `at`, made by a socket for both families where `to` is an IPv6
    /// address.
    fn connect_to(at: &str, to: &str) -> std::io::Result<(TcpStream, TcpStream)> {
        let listener = TcpListener::bind(format!("{at}:0"))?;
        let port = listener.local_addr()?.port();
        Ok((TcpStream::connect(format!("{to}:{port}"))?, listener.accept()?.0))
    }

    fn connect() -> (TcpStream, TcpStream) {
        connect_to("127.0.0.1", "127.0.0.1").unwrap()
    }

    fn ends_of(socket: &TcpStream) -> Endpoints {
        Endpoints { local: socket.local_addr().unwrap(), remote: socket.peer_addr().unwrap() }
    }

    #[test]
    fn a_connection_is_found_by_its_ends_and_no_other_is_taken_for_it() {
        let (_alone, own) = (alone(), std::process::id());
        for (at, to) in [("127.0.0.1", "127.0.0.1"), ("[::1]", "[::1]"), ("127.0.0.1", "[::ffff:127.0.0.1]")]
        {
            let Ok((near, _far)) = connect_to(at, to) else {
                return cavalcade_testing::skipped("an IPv6 loopback address");
            };
            let mut ends = ends_of(&near);
            for canonical in [false, true] {
                if canonical {
                    ends.local.set_ip(ends.local.ip().to_canonical());
                    ends.remote.set_ip(ends.remote.ip().to_canonical());
                }
                let (found, _) = Search::new(own, MOST_DESCRIPTORS).find(ends);
                let cookie = |socket: &dyn AsFd| sockopt::socket_cookie(socket.as_fd()).unwrap();
                assert_eq!(cookie(&found.unwrap().descriptor), cookie(&near), "{ends:?}");
            }
            ends.local.set_port(ends.local.port() ^ 1);
            assert!(Search::new(own, MOST_DESCRIPTORS).find(ends).0.is_none());
        }
    }

    #[test]
    fn many_connections_are_found_in_one_look_as_far_as_that_may_go() {
        let (_alone, own) = (alone(), std::process::id());
        let mut search = Search::new(own, MOST_DESCRIPTORS);
        let (first, _far) = connect();
        let mut looked_at = search.find(ends_of(&first)).1;
        let others: Vec<_> = (0..100).map(|_| connect()).collect();
        for (near, _) in others.iter().rev() {
            let (found, more) = search.find(ends_of(near));
            assert!(found.is_some());
            looked_at += more;
        }
        let last = others.iter().flat_map(|(near, far)| [near.as_raw_fd(), far.as_raw_fd()]).max().unwrap();
        // Those of other tests come and go meanwhile, and leave gaps.
        assert!(looked_at <= 3 * last as usize + 1_000, "{looked_at} of {last}");
        let mut short = Search::new(own, 10);
        let (found, looked_at) = short.find(ends_of(&others[99].0));
        assert!(found.is_none() && looked_at == 10, "{looked_at}");
    }

    #[test]
    fn a_connection_in_a_gap_that_the_search_has_passed_is_found_and_one_that_has_gone_is_not() {
        let _alone = alone();
        let mut search = Search::new(std::process::id(), MOST_DESCRIPTORS);
        let (gap, (last, _far)) = (connect(), connect());
        let gone = ends_of(&gap.0);
        assert!(search.find(ends_of(&last)).0.is_some());
        drop(gap);
        let (new, _far) = connect();
        assert!(search.find(ends_of(&new)).0.is_some());
        assert!(search.find(gone).0.is_none());
    }
}
