//! What is set on a connection: its rate, its class, and how little may wait in it; and what stood
//! there before.
//!
//! What the application had set itself comes back when the flow ends. Options are read before they
//! are set: where one is not as the session left it, the application has changed it meanwhile, and
//! what it set then is its own.

use std::io;
use std::net::{SocketAddr, TcpStream};
use std::os::fd::AsRawFd;
use std::str::FromStr;

use cavalcade_model::BitsPerSec;
use cavalcade_protocol::{Gate, Handover};

/// The DSCP of each class, the highest class first. ECN bits are the kernel's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DscpMap(pub [u8; 8]);

impl Default for DscpMap {
    /// CS5 to CS2, then the default, then lower effort (RFC 8622); CS6 and CS7 are the network's
    /// own.
    fn default() -> Self {
        Self([40, 32, 24, 16, 0, 1, 1, 1])
    }
}

impl FromStr for DscpMap {
    type Err = String;

    /// Reads the DSCP of each class; what is left out at the end is as the last one.
    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("'{text}': expected up to 8 numbers from 0 to 63, as 40,32,24,16,0,1");
        let listed: Option<Vec<u8>> =
            text.split(',').map(|number| number.trim().parse().ok().filter(|dscp| *dscp < 64)).collect();
        let listed = listed.filter(|listed| listed.len() <= 8).ok_or_else(wrong)?;
        let last = *listed.last().ok_or_else(wrong)?;
        let mut map = [last; 8];
        map[..listed.len()].copy_from_slice(&listed);
        Ok(Self(map))
    }
}

fn set<T>(socket: &TcpStream, level: i32, option: i32, value: T) -> io::Result<()> {
    let length = size_of::<T>() as libc::socklen_t;
    #[expect(unsafe_code, reason = "the standard library has no such options")]
    // SAFETY: the descriptor is open as long as `socket`, and the kernel reads `length` bytes of a
    // value that is as long.
    let result =
        unsafe { libc::setsockopt(socket.as_raw_fd(), level, option, (&raw const value).cast(), length) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Reads an option whose value is one or several words.
fn get<T: Copy + Default>(socket: &impl AsRawFd, level: i32, option: i32) -> io::Result<T> {
    let (mut value, mut length) = (T::default(), size_of::<T>() as libc::socklen_t);
    let (place, size) = ((&raw mut value).cast(), &raw mut length);
    #[expect(unsafe_code, reason = "the standard library has no such options")]
    // SAFETY: the descriptor is open as long as `socket`, and the kernel writes at most `length`
    // bytes into a value that is as long and may be any bytes.
    let result = unsafe { libc::getsockopt(socket.as_raw_fd(), level, option, place, size) };
    if result == 0 { Ok(value) } else { Err(io::Error::last_os_error()) }
}

/// The number of a socket that no other one of this host has had.
pub(crate) fn cookie(socket: &TcpStream) -> io::Result<u64> {
    get(socket, libc::SOL_SOCKET, libc::SO_COOKIE)
}

/// The user at the other end of a Unix socket.
pub(crate) fn peer_of(socket: &std::os::unix::net::UnixStream) -> io::Result<u32> {
    let [_process, user, _group]: [u32; 3] = get(socket, libc::SOL_SOCKET, libc::SO_PEERCRED)?;
    Ok(user)
}

/// Keeps what waits in the kernel unsent to so many bytes, so that a gate closes soon: it goes on
/// being sent after a flow was stopped.
fn limit_unsent(socket: &TcpStream, bytes: u32) -> io::Result<()> {
    set(socket, libc::IPPROTO_TCP, libc::TCP_NOTSENT_LOWAT, bytes)
}

/// Below this rate TCP's own pacing is too coarse: it hands over two packets at a time, and what it
/// has scheduled holds up what follows also after the gate has opened, at 10 kbps for two seconds.
/// (Writers of tokio have no timer of ours: they go no slower than this.)
pub(crate) const CRAWL: BitsPerSec = BitsPerSec(20_000_000);

/// The rate at which TCP sends in bytes per second, not below [`CRAWL`]: what is slower or closed
/// is held back by its writer, who can be woken. `None` where TCP needs no such rate.
fn rate_of(gate: Gate) -> Option<u64> {
    match gate {
        Gate::Paced { rate } => Some(rate.max(CRAWL).0 / 8),
        Gate::Open {} | Gate::Off {} => None,
    }
}

fn pace(socket: &TcpStream, bytes_per_second: u64) -> io::Result<()> {
    set(socket, libc::SOL_SOCKET, libc::SO_MAX_PACING_RATE, bytes_per_second)
}

/// The byte of a packet's header that has its DSCP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Mark(i32);

impl Mark {
    /// The mark of a class.
    pub(crate) fn of_class(class: u16, map: DscpMap) -> Self {
        Self(i32::from(map.0[usize::from(class).min(7)] & 0x3f) << 2)
    }

    /// Returns the mark of a connection's packets.
    pub(crate) fn of(socket: &TcpStream) -> io::Result<Self> {
        let (level, option) = mark_option(socket)?;
        get(socket, level, option).map(Self)
    }

    /// Puts it on a connection's packets. To set a TOS changes the priority, which is put back.
    pub(crate) fn put(self, socket: &TcpStream) -> io::Result<()> {
        let (level, option) = mark_option(socket)?;
        let priority: i32 = get(socket, libc::SOL_SOCKET, libc::SO_PRIORITY)?;
        set(socket, level, option, self.0)?;
        set(socket, libc::SOL_SOCKET, libc::SO_PRIORITY, priority)
    }

    /// The bits that are not the kernel's own, for ECN.
    fn dscp(self) -> i32 {
        self.0 & 0xfc
    }
}

/// Returns the level and number of the option that has a connection's mark. The own address is
/// there also when the other end is gone.
fn mark_option(socket: &TcpStream) -> io::Result<(i32, i32)> {
    Ok(match socket.local_addr()?.ip().to_canonical() {
        std::net::IpAddr::V4(_) => (libc::IPPROTO_IP, libc::IP_TOS),
        std::net::IpAddr::V6(_) => (libc::IPPROTO_IPV6, libc::IPV6_TCLASS),
    })
}

/// An option that was set: as the session left it, and the application's own.
#[derive(Clone, Copy, Debug)]
struct Kept<T> {
    ours: T,
    own: T,
}

/// Returns what an option becomes that stands at `stands` and is wanted at `wanted`, or at the
/// application's own where `wanted` is `None`; `None` where it stays. What stood `first` was the
/// application's own before anything else was set.
fn change<T: Copy + Eq>(
    kept: &mut Option<Kept<T>>,
    stands: T,
    first: Option<T>,
    wanted: impl FnOnce(T) -> Option<T>,
    is_same: impl Fn(T, T) -> bool,
) -> Option<T> {
    let own = match *kept {
        None => first.unwrap_or(stands),
        Some(Kept { ours, own }) if is_same(stands, ours) => own,
        Some(_) => stands,
    };
    let becomes = match wanted(own) {
        Some(ours) => {
            *kept = Some(Kept { ours, own });
            ours
        }
        None => {
            kept.take()?;
            own
        }
    };
    (becomes != stands).then_some(becomes)
}

/// What was set on a connection, and what stood there before. Its connection is a copy of the
/// application's.
#[derive(Debug)]
pub(crate) struct Options {
    socket: TcpStream,
    /// What stood there before an enforcer set anything.
    first: (Option<u64>, Option<Mark>),
    was_in_kernel: bool,
    rate: Option<Kept<u64>>,
    mark: Option<Kept<Mark>>,
    unsent: Option<Kept<u32>>,
}

impl Options {
    pub(crate) fn of(socket: TcpStream) -> Self {
        let rate = get(&socket, libc::SOL_SOCKET, libc::SO_MAX_PACING_RATE).ok();
        let first = (rate, Mark::of(&socket).ok());
        Self { socket, first, was_in_kernel: false, rate: None, mark: None, unsent: None }
    }

    pub(crate) fn socket(&self) -> &TcpStream {
        &self.socket
    }

    /// An enforcer sets them from here on.
    pub(crate) fn hand_over(&mut self) {
        self.was_in_kernel = true;
    }

    /// Keeps what waits in the kernel unsent to so many bytes; without that a gate that closes is
    /// only seen later.
    pub(crate) fn limit_unsent(&mut self, bytes: usize) {
        self.put_unsent(Some(u32::try_from(bytes).unwrap_or(u32::MAX)));
    }

    fn put_unsent(&mut self, wanted: Option<u32>) {
        let Ok(stands) = get(&self.socket, libc::IPPROTO_TCP, libc::TCP_NOTSENT_LOWAT) else { return };
        if let Some(bytes) = change(&mut self.unsent, stands, None, |_| wanted, |one, other| one == other) {
            let _ = limit_unsent(&self.socket, bytes);
        }
    }

    /// Sets a gate's rate and a class; `None` restores the application's own. A connection that is
    /// gone needs no rate, and one without its class is still a connection.
    pub(crate) fn direct(&mut self, gate: Gate, class: Option<Mark>) {
        self.put_rate(rate_of(gate));
        self.put_mark(class);
    }

    fn put_rate(&mut self, wanted: Option<u64>) {
        let Ok(stands) = get(&self.socket, libc::SOL_SOCKET, libc::SO_MAX_PACING_RATE) else { return };
        let first = self.first.0.filter(|_| self.was_in_kernel);
        let wanted = |own: u64| wanted.map(|rate| rate.min(own));
        if let Some(rate) = change(&mut self.rate, stands, first, wanted, |one, other| one == other) {
            let _ = pace(&self.socket, rate);
        }
    }

    fn put_mark(&mut self, wanted: Option<Mark>) {
        let Ok(stands) = Mark::of(&self.socket) else { return };
        let first = self.first.1.filter(|_| self.was_in_kernel);
        let is_same = |one: Mark, other: Mark| one.dscp() == other.dscp();
        if let Some(mark) = change(&mut self.mark, stands, first, |_| wanted, is_same) {
            let _ = mark.put(&self.socket);
        }
    }

    /// Sets all as it was before.
    pub(crate) fn restore(&mut self) {
        self.put_rate(None);
        self.put_mark(None);
        self.put_unsent(None);
    }

    /// Has the programs of an enforcer set all as it was before. No program may set the mark of
    /// IPv4 on a socket for both families.
    pub(crate) fn release(&self) {
        let released = set(&self.socket, libc::IPPROTO_TCP, libc::TCP_KEEPIDLE, Handover::RELEASE);
        let is_mapped = matches!(self.socket.local_addr(), Ok(SocketAddr::V6(own)) if own.ip().to_ipv4_mapped().is_some());
        if let (Ok(()), true, Some(first)) = (released, is_mapped, self.first.1) {
            let _ = first.put(&self.socket);
        }
    }
}

/// The answers of this host's kernel to the options of a client's connections.
#[derive(Debug)]
pub struct TriedOptions {
    /// Rates: `SO_MAX_PACING_RATE`.
    pub pacing: io::Result<()>,
    /// Classes: DSCP.
    pub marking: io::Result<()>,
    /// The limit of unsent bytes in the kernel: `TCP_NOTSENT_LOWAT`.
    pub unsent: io::Result<()>,
}

/// Tries on a connection of this host with itself what a client sets on its connections.
///
/// # Errors
/// If there is no such connection.
pub fn try_options() -> io::Result<TriedOptions> {
    let listener = std::net::TcpListener::bind((std::net::Ipv4Addr::LOCALHOST, 0))?;
    let socket = TcpStream::connect(listener.local_addr()?)?;
    Ok(TriedOptions {
        pacing: pace(&socket, CRAWL.0 / 8),
        marking: Mark::of_class(0, DscpMap::default()).put(&socket),
        unsent: limit_unsent(&socket, crate::stream::PIECE as u32),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn connection(family: &str) -> (TcpStream, std::net::TcpListener) {
        let receiver = std::net::TcpListener::bind((family, 0)).unwrap();
        (TcpStream::connect(receiver.local_addr().unwrap()).unwrap(), receiver)
    }

    /// The rate, mark, unsent bytes and priority of a connection.
    fn all(socket: &TcpStream) -> (u64, i32, u32, i32) {
        let rate = get(socket, libc::SOL_SOCKET, libc::SO_MAX_PACING_RATE).unwrap();
        let unsent = get(socket, libc::IPPROTO_TCP, libc::TCP_NOTSENT_LOWAT).unwrap();
        let priority = get(socket, libc::SOL_SOCKET, libc::SO_PRIORITY).unwrap();
        (rate, Mark::of(socket).unwrap().0, unsent, priority)
    }

    fn set_all(socket: &TcpStream, (rate, mark, unsent, priority): (u64, i32, u32, i32)) {
        pace(socket, rate).unwrap();
        Mark(mark).put(socket).unwrap();
        limit_unsent(socket, unsent).unwrap();
        set(socket, libc::SOL_SOCKET, libc::SO_PRIORITY, priority).unwrap();
    }

    const MBPS: fn(u64) -> Gate = |mbps| Gate::Paced { rate: BitsPerSec(mbps * 1_000_000) };

    #[test]
    fn what_was_set_is_undone_and_what_the_application_had_set_comes_back() {
        for family in ["127.0.0.1", "::1"] {
            let (socket, _receiver) = connection(family);
            let own = (50_000_000, 8, 300_000, 5);
            set_all(&socket, own);
            let mut options = Options::of(socket.try_clone().unwrap());
            options.restore();
            assert_eq!(all(&socket), own, "nothing was set");
            options.limit_unsent(16 << 10);
            options.direct(MBPS(80), Some(Mark(40 << 2)));
            assert_eq!(all(&socket), (10_000_000, 40 << 2, 16 << 10, 5));
            options.direct(MBPS(8_000), None);
            assert_eq!(all(&socket), (50_000_000, 8, 16 << 10, 5), "no faster than the application wants");
            options.direct(MBPS(80), Some(Mark(16 << 2)));
            options.restore();
            assert_eq!(all(&socket), own);
        }
    }

    #[test]
    fn what_the_application_sets_meanwhile_is_its_own() {
        let (socket, _receiver) = connection("127.0.0.1");
        let mut options = Options::of(socket.try_clone().unwrap());
        options.direct(MBPS(80), Some(Mark(40 << 2)));
        let own = (7_000_000, 32, 0, 3);
        set_all(&socket, own);
        options.direct(MBPS(40), Some(Mark(16 << 2)));
        assert_eq!(all(&socket), (5_000_000, 16 << 2, 0, 3));
        options.restore();
        assert_eq!(all(&socket), own);
        options.direct(MBPS(40), Some(Mark(16 << 2)));
        set_all(&socket, own);
        options.restore();
        assert_eq!(all(&socket), own);
    }

    #[test]
    fn what_an_enforcer_has_set_is_not_taken_for_the_applications_own() {
        let (socket, _receiver) = connection("127.0.0.1");
        let mut options = Options::of(socket.try_clone().unwrap());
        options.hand_over();
        set_all(&socket, (1_000_000, 40 << 2, 0, 0));
        options.direct(MBPS(80), Some(Mark(16 << 2)));
        options.restore();
        assert_eq!(all(&socket), (u64::MAX, 0, 0, 0));
    }

    #[test]
    fn a_connection_that_is_gone_is_left_alone() {
        let (socket, receiver) = connection("127.0.0.1");
        let mut options = Options::of(socket.try_clone().unwrap());
        options.direct(MBPS(80), Some(Mark(40 << 2)));
        drop((socket, receiver));
        options.direct(Gate::Open {}, None);
        options.restore();
        options.release();
    }

    #[test]
    fn a_map_of_classes_is_read_and_ends_with_the_last_that_is_named() {
        assert_eq!("40, 32,24,16,0,1".parse(), Ok(DscpMap::default()));
        assert_eq!("0".parse(), Ok(DscpMap([0; 8])));
        for wrong in ["", "64", "-1", "1,,2", "0,1,2,3,4,5,6,7,8"] {
            assert!(wrong.parse::<DscpMap>().unwrap_err().contains("40,32"), "{wrong}");
        }
    }
}
