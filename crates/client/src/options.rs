//! What a socket is told: its rate, its class, and how little may wait in it.

use std::io;
use std::net::TcpStream;
use std::os::fd::AsRawFd;
use std::str::FromStr;

use cavalcade_model::BitsPerSec;
use cavalcade_protocol::Gate;

/// The DSCP of each class, the highest class first. ECN bits are the kernel's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DscpMap(pub [u8; 8]);

impl Default for DscpMap {
    /// CS5 to CS2, then the default, then lower effort (RFC 8622); CS6 and CS7 are the network's own.
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
    // SAFETY: the descriptor is open as long as `socket`, and the kernel reads `length` bytes of a value that is as long.
    let result =
        unsafe { libc::setsockopt(socket.as_raw_fd(), level, option, (&raw const value).cast(), length) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Reads an option whose value is one or several words.
fn get<T: Copy + Default>(socket: &impl AsRawFd, level: i32, option: i32) -> io::Result<T> {
    let (mut value, mut length) = (T::default(), size_of::<T>() as libc::socklen_t);
    let (place, size) = ((&raw mut value).cast(), &raw mut length);
    #[expect(unsafe_code, reason = "the standard library has no such options")]
    // SAFETY: the descriptor is open as long as `socket`, and the kernel writes at most `length` bytes into a value that is as long
    // and may be any bytes.
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

/// Keeps what waits in the kernel unsent to so many bytes, so that a gate closes soon: it goes on being sent after a flow was
/// told to stop.
pub(crate) fn limit_unsent(socket: &TcpStream, bytes: usize) -> io::Result<()> {
    set(socket, libc::IPPROTO_TCP, libc::TCP_NOTSENT_LOWAT, u32::try_from(bytes).unwrap_or(u32::MAX))
}

/// Below this rate TCP's own pacing is too coarse: it hands over two packets at a time, and what it has scheduled holds up
/// what follows also after the gate has opened, at 10 kbps for two seconds.
/// (Writers of tokio have no timer of ours: they go no slower than this.)
pub(crate) const CRAWL: BitsPerSec = BitsPerSec(20_000_000);

/// Sets the rate at which TCP sends, not below [`CRAWL`]: what is slower or closed is held back by its writer, who can be woken.
pub(crate) fn pace(socket: &TcpStream, gate: Gate) -> io::Result<()> {
    let bytes_per_second = match gate {
        Gate::Paced { rate } => rate.max(CRAWL).0 / 8,
        Gate::Open {} | Gate::Off {} => u64::MAX,
    };
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

    /// Puts it on a connection's packets.
    pub(crate) fn put(self, socket: &TcpStream) -> io::Result<()> {
        let (level, option) = mark_option(socket)?;
        set(socket, level, option, self.0)
    }
}

/// Returns the level and number of the option that has a connection's mark.
fn mark_option(socket: &TcpStream) -> io::Result<(i32, i32)> {
    Ok(match socket.peer_addr()?.ip().to_canonical() {
        std::net::IpAddr::V4(_) => (libc::IPPROTO_IP, libc::IP_TOS),
        std::net::IpAddr::V6(_) => (libc::IPPROTO_IPV6, libc::IPV6_TCLASS),
    })
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
    let rate = cavalcade_model::BitsPerSec(1_000_000);
    Ok(TriedOptions {
        pacing: pace(&socket, Gate::Paced { rate }),
        marking: Mark::of_class(0, DscpMap::default()).put(&socket),
        unsent: limit_unsent(&socket, crate::stream::PIECE),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_map_of_classes_is_read_and_ends_with_the_last_that_is_named() {
        assert_eq!("40, 32,24,16,0,1".parse(), Ok(DscpMap::default()));
        assert_eq!("0".parse(), Ok(DscpMap([0; 8])));
        for wrong in ["", "64", "-1", "1,,2", "0,1,2,3,4,5,6,7,8"] {
            assert!(wrong.parse::<DscpMap>().unwrap_err().contains("40,32"), "{wrong}");
        }
    }
}
