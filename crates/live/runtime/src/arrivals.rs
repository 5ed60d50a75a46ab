//! What has come to this host from others, by the kernel's counts of its TCP connections.
//!
//! The kernel tells every user what each connection has received (sock_diag, as `ss -i` shows it),
//! and says once more so when one is gone. So what is open and what has ended add up to all bytes
//! since this was opened, and what open connections received before; the end of a connection may
//! count as a byte. Connections of other network namespaces are not seen, and a connection counts
//! for the port of the fabric whose address or prefix its other end has.
//!
//! # Cost
//! The kernel walks over all TCP connections: a few microseconds each. [`Pace`] keeps that below a
//! twentieth of the time.

use std::collections::BTreeMap;
use std::io;
use std::net::IpAddr;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use cavalcade_model::PortId;
use cavalcade_protocol::Directory;
use rustix::net::netlink::{self, SocketAddrNetlink};
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType};

/// Groups of the messages about IPv4 and IPv6 connections that are gone.
const GONE: u32 = 1 | 1 << 2;
const FAMILIES: [u8; 2] = [2, 10];
const TCP: u8 = 6;
const SOCK_DIAG_BY_FAMILY: u16 = 20;
const REQUEST_DUMP: u16 = 0x301;
const DONE: u16 = 3;
const ERROR: u16 = 2;
/// The attribute with `struct tcp_info`, and where in that the bytes received stand.
const INFO: u16 = 2;
const BYTES_RECEIVED: usize = 128;
/// Bytes of a message's head, and of the part of fixed length behind it.
const HEAD: usize = 16;
const FIXED: usize = 72;

/// The counts of a host.
#[derive(Debug)]
pub(crate) struct Arrivals {
    /// Asks about connections that are open.
    asking: OwnedFd,
    /// Hears of connections that are gone.
    hearing: OwnedFd,
    own: PortId,
    directory: Directory,
    /// Bytes of connections that are gone.
    over: BTreeMap<PortId, u64>,
    totals: BTreeMap<PortId, u64>,
    buffer: Vec<u8>,
}

impl Arrivals {
    /// Counts what comes to the host at `port`.
    ///
    /// # Errors
    /// If the kernel does not tell, or `directory` has no address for the port.
    pub(crate) fn open(own: PortId, directory: &Directory) -> io::Result<Self> {
        if !directory.has_host(own) {
            return Err(io::Error::new(io::ErrorKind::NotFound, "this host has no address"));
        }
        let socket = |flags| {
            rustix::net::socket_with(
                AddressFamily::NETLINK,
                SocketType::DGRAM,
                flags,
                Some(netlink::SOCK_DIAG),
            )
        };
        let hearing = socket(SocketFlags::CLOEXEC | SocketFlags::NONBLOCK)?;
        rustix::net::bind(&hearing, &SocketAddrNetlink::new(0, GONE))?;
        let (over, totals) = (BTreeMap::new(), BTreeMap::new());
        let (asking, directory) = (socket(SocketFlags::CLOEXEC)?, directory.clone());
        Ok(Self { asking, hearing, own, directory, over, totals, buffer: vec![0; 64 << 10] })
    }

    /// Returns what has come from each port in all; totals never go back.
    ///
    /// # Errors
    /// If the kernel does not tell.
    pub(crate) fn measure(&mut self) -> io::Result<&BTreeMap<PortId, u64>> {
        // First, so that no connection is counted as gone and as open.
        self.receive_gone();
        let mut totals = self.over.clone();
        for family in FAMILIES {
            rustix::net::send(&self.asking, &request(family), SendFlags::empty())?;
            while !self.take_open(&mut totals)? {}
        }
        for (port, total) in totals {
            let known = self.totals.entry(port).or_default();
            // One that ended between the two looks is told of at the next.
            *known = total.max(*known);
        }
        Ok(&self.totals)
    }

    fn receive_gone(&mut self) {
        // What did not fit into the kernel's buffer is lost: too little is counted, never too much.
        loop {
            match rustix::net::recv(&self.hearing, &mut self.buffer[..], RecvFlags::empty()) {
                Ok((length, _)) => {
                    for (kind, body) in Messages(&self.buffer[..length]) {
                        if kind == SOCK_DIAG_BY_FAMILY
                            && let Some((from, bytes)) = received(body, self.own, &self.directory)
                        {
                            *self.over.entry(from).or_default() += bytes;
                        }
                    }
                }
                Err(rustix::io::Errno::NOBUFS) => {}
                Err(_) => return,
            }
        }
    }

    /// Takes in a part of the answer; returns whether it was the last.
    fn take_open(&mut self, totals: &mut BTreeMap<PortId, u64>) -> io::Result<bool> {
        let (length, _) = rustix::net::recv(&self.asking, &mut self.buffer[..], RecvFlags::empty())?;
        for (kind, body) in Messages(&self.buffer[..length]) {
            match kind {
                DONE => return Ok(true),
                ERROR => return Err(io::Error::other("the kernel does not tell of connections")),
                _ => {
                    if let Some((from, bytes)) = received(body, self.own, &self.directory) {
                        *totals.entry(from).or_default() += bytes;
                    }
                }
            }
        }
        Ok(false)
    }
}

/// Asks for all connections of a family, with what they have received.
fn request(family: u8) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(HEAD + 56);
    bytes.extend((HEAD as u32 + 56).to_ne_bytes());
    bytes.extend(SOCK_DIAG_BY_FAMILY.to_ne_bytes());
    bytes.extend(REQUEST_DUMP.to_ne_bytes());
    bytes.extend([0; 8]);
    bytes.extend([family, TCP, 1 << (INFO - 1), 0]);
    // All states but listening (10), and those without a connection's counts: waiting (6) and new
    // (12).
    bytes.extend((!(1u32 << 10 | 1 << 6 | 1 << 12)).to_ne_bytes());
    bytes.extend([0; 48]);
    bytes
}

/// The messages in what was received: kind and body.
struct Messages<'a>(&'a [u8]);

impl<'a> Iterator for Messages<'a> {
    type Item = (u16, &'a [u8]);

    fn next(&mut self) -> Option<Self::Item> {
        let length = u32::from_ne_bytes(self.0.get(..4)?.try_into().ok()?) as usize;
        let kind = u16::from_ne_bytes(self.0.get(4..6)?.try_into().ok()?);
        let body = self.0.get(HEAD..length)?;
        self.0 = self.0.get(length.next_multiple_of(4)..).unwrap_or_default();
        Some((kind, body))
    }
}

/// Returns who sent over a connection of this host, and how much has come.
fn received(body: &[u8], own: PortId, directory: &Directory) -> Option<(PortId, u64)> {
    let address = |at: usize| -> Option<IpAddr> {
        if body.first() == Some(&FAMILIES[0]) {
            return Some(IpAddr::from(<[u8; 4]>::try_from(body.get(at..at + 4)?).ok()?));
        }
        Some(IpAddr::from(<[u8; 16]>::try_from(body.get(at..at + 16)?).ok()?).to_canonical())
    };
    let (near, far) = (address(8)?, address(24)?);
    let from = directory.host(far).filter(|_| directory.host(near) == Some(own))?;
    let mut attributes = body.get(FIXED..)?;
    while let Some(head) = attributes.get(..4) {
        let length = usize::from(u16::from_ne_bytes([head[0], head[1]])).max(4);
        if u16::from_ne_bytes([head[2], head[3]]) == INFO {
            let bytes = attributes.get(4 + BYTES_RECEIVED..4 + BYTES_RECEIVED + 8)?;
            return Some((from, u64::from_ne_bytes(bytes.try_into().ok()?)));
        }
        attributes = attributes.get(length.next_multiple_of(4)..)?;
    }
    None
}

/// The counts as the agent asks for them: not more often than they cost a twentieth of the time.
#[derive(Debug, Default)]
pub(crate) struct Pace {
    /// None before they are asked for, and where the kernel does not tell.
    arrivals: Option<Arrivals>,
    was_tried: bool,
    not_before: Option<Instant>,
}

impl Pace {
    /// Returns the counts, if it is time.
    pub(crate) fn measure(&mut self, port: PortId, directory: &Directory) -> Option<&BTreeMap<PortId, u64>> {
        let began = Instant::now();
        if self.not_before.is_some_and(|when| began < when) {
            return None;
        }
        if !std::mem::replace(&mut self.was_tried, true) {
            match Arrivals::open(port, directory) {
                Ok(arrivals) => self.arrivals = Some(arrivals),
                Err(error) => {
                    tracing::warn!(%error, "cannot count arriving bytes, so none are confirmed to senders");
                }
            }
        }
        let totals = self.arrivals.as_mut()?.measure().ok()?;
        self.not_before = Some(began + 20 * began.elapsed().max(Duration::from_micros(50)));
        Some(totals)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a helper of tests fails by panicking")]

    use super::*;
    use std::io::{Read, Write};
    use std::net::{SocketAddr, TcpListener, TcpStream};

    fn host(number: u8) -> IpAddr {
        IpAddr::from([127, 0, 9, number])
    }

    /// A connection from one host to another, both of this machine.
    fn connect(from: IpAddr, to: IpAddr) -> (TcpStream, TcpStream) {
        let listener = TcpListener::bind(SocketAddr::new(to, 0)).unwrap();
        let socket = rustix::net::socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
        rustix::net::bind(&socket, &SocketAddr::new(from, 0)).unwrap();
        rustix::net::connect(&socket, &listener.local_addr().unwrap()).unwrap();
        (TcpStream::from(socket), listener.accept().unwrap().0)
    }

    #[test]
    fn bytes_of_open_and_of_ended_connections_count_for_their_sender_once() {
        let directory = [(host(1), PortId(0)), (host(2), PortId(1))].into_iter().collect();
        let Ok(mut arrivals) = Arrivals::open(PortId(1), &directory) else {
            return cavalcade_testing::skipped("a kernel that tells of connections (sock_diag)");
        };
        // The kernel tells of the end of a connection a little later; and the end of each of two
        // may count as a byte.
        let mut came = |expected: u64| {
            let mut total = || arrivals.measure().unwrap().get(&PortId(0)).copied().unwrap_or(0);
            let until = Instant::now() + Duration::from_secs(60);
            while total() < expected && Instant::now() < until {
                std::thread::sleep(Duration::from_millis(5));
            }
            let total = total();
            assert!((expected..=expected + 2).contains(&total), "{total} for {expected}");
        };
        came(0);
        let (mut near, mut far) = connect(host(1), host(2));
        near.write_all(&[7; 100_000]).unwrap();
        far.read_exact(&mut [0; 100_000]).unwrap();
        came(100_000);
        let (mut second, mut its_end) = connect(host(1), host(2));
        second.write_all(&[7; 50]).unwrap();
        its_end.read_exact(&mut [0; 50]).unwrap();
        came(100_050);
        drop((near, far));
        for _ in 0..20 {
            std::thread::sleep(Duration::from_millis(5));
            came(100_050);
        }
        drop((second, its_end));
        let (mut third, mut its_end) = connect(host(1), host(2));
        third.write_all(&[7; 9]).unwrap();
        its_end.read_exact(&mut [0; 9]).unwrap();
        came(100_059);
    }
}
