//! Vouching: a server's bytes under the client's coflow.
//!
//! The client's host knows to which coflow a connection belongs, the server's host has to schedule
//! what comes back. So the client's enforcer says it in two ways. The SYN names the coflow (option
//! 254, in `bpf/enforce.bpf.c`): it arrives with the connection, but any sender can write one, and
//! middleboxes may take it out. A *report* says it in a datagram of its own, with the connection's
//! two ends, under a key that the two hosts alone have. Only the report counts: an option by itself
//! changes nothing, so no stranger can raise the priority of what is sent to them. Where the SYN
//! has said the same, the server's kernel has the connection at hand; else a walk looks for it
//! ([`crate::Kernel::refresh`]).
//!
//! A host speaks for itself alone: the key is that of the host whose address the datagram comes
//! from, and what it says has to be of a connection of that host. And it may have so many coflows
//! elsewhere and no more.
//!
//! A report holds for one connection between two addresses, and is too old after [`FRESH`]: who
//! replays one gives that very connection the coflow that it has. Each is sent twice, since
//! datagrams are lost. The client's user comes along: on the server's host the coflow is that
//! user's, too, and counts among those that the user may have there.
//!
//! Rejected: a tag behind the option. Beside the options of an ordinary SYN there are 20 bytes
//! left, too few for a coflow's key and a tag that could not be guessed.

use std::fmt::Debug;
use std::io;
use std::net::{IpAddr, Ipv6Addr, SocketAddr, UdpSocket};

use cavalcade_model::{Instant, Nanos, PortId};
use cavalcade_protocol::{CoflowKey, Directory};

use crate::Error;
use crate::shared::{Made, Pair};

/// The age at which a report is not believed any more; clocks of a site differ by less.
const FRESH: Nanos = Nanos::from_secs(5);
/// The first bytes of a report: other messages are sealed with the same key.
const KIND: [u8; 4] = *b"CVR1";
/// Bytes of a report without its seal.
const LENGTH: usize = 66;
/// The most reports that are heard in one turn.
const OF_TURN: usize = 256;

/// The keys that this host has with each other one of the site.
pub trait Seal: Debug {
    /// Appends what proves to the host at `to` that this one has written `message`; false where it
    /// has no key with that host.
    fn close(&mut self, to: PortId, message: &mut Vec<u8>) -> bool;
    /// The message, if the host at `from` has written it for this one.
    fn open<'a>(&mut self, from: PortId, sealed: &'a [u8]) -> Option<&'a [u8]>;
}

/// With whom an enforcer vouches for connections.
#[derive(Debug)]
pub struct Site {
    /// Address at which reports are received; other enforcers listen at the same port.
    pub listen: SocketAddr,
    /// The hosts of the site, by the address at which each is told: only they are told anything.
    pub hosts: Vec<IpAddr>,
    /// The host at each address, for those that have several.
    pub directory: Directory,
    /// The keys with them.
    pub seal: Box<dyn Seal>,
}

/// The report of an enforcer on a connection that one of its sockets has made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Report {
    pub(crate) said_at: Instant,
    pub(crate) key: CoflowKey,
    pub(crate) user: u32,
    /// The client's address, and both ports, as the server's host knows them.
    pub(crate) pair: Pair,
}

impl Report {
    fn to_bytes(self) -> Vec<u8> {
        let mut bytes = KIND.to_vec();
        for number in [self.said_at.0, self.key.task, self.key.serial] {
            bytes.extend_from_slice(&number.to_be_bytes());
        }
        bytes.extend_from_slice(&self.key.stage.to_be_bytes());
        bytes.extend_from_slice(&self.user.to_be_bytes());
        bytes.extend(self.pair.to_words().iter().flat_map(|word| word.to_be_bytes()));
        // Room for what a later version may say.
        bytes.resize(LENGTH, 0);
        bytes
    }

    fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let rest = bytes.strip_prefix(&KIND).filter(|_| bytes.len() == LENGTH)?;
        let long = |at: usize| Some(u64::from_be_bytes(rest.get(at..at + 8)?.try_into().ok()?));
        let word = |at: usize| Some(u32::from_be_bytes(rest.get(at..at + 4)?.try_into().ok()?));
        let stage = u16::from_be_bytes(rest.get(24..26)?.try_into().ok()?);
        let pair = [word(30)?, word(34)?, word(38)?, word(42)?, word(46)?];
        let key = CoflowKey { task: long(8)?, stage, serial: long(16)? };
        Some(Self { said_at: Instant(long(0)?), key, user: word(26)?, pair: Pair::from_words(pair) })
    }
}

/// The other enforcers of the site.
#[derive(Debug)]
pub(crate) struct Peers {
    pub(crate) socket: UdpSocket,
    site: Site,
    /// Reports to be sent a second time.
    again: Vec<(Vec<u8>, SocketAddr)>,
}

impl Peers {
    pub(crate) fn new(site: Site) -> Result<Self, Error> {
        let opened = UdpSocket::bind(site.listen).and_then(|socket| {
            socket.set_nonblocking(true)?;
            Ok(socket)
        });
        let socket = opened.map_err(Error::file("listen at", site.listen.to_string()))?;
        Ok(Self { socket, site, again: Vec::new() })
    }

    /// Tells the enforcer at the other end of a connection to which coflow it belongs.
    pub(crate) fn report(&mut self, now: Instant, made: Made, key: CoflowKey, user: u32) {
        let peer = address([made.peer_0, made.peer_1, made.peer_2, made.peer_3]);
        let Some(host) = self.site.directory.host(peer) else { return };
        let Some(&at) = self.site.hosts.get(host.index()) else { return };
        let mut bytes = Report { said_at: now, key, user, pair: seen_from_peer(made) }.to_bytes();
        if !self.site.seal.close(host, &mut bytes) {
            return;
        }
        let to = SocketAddr::new(at, self.site.listen.port());
        // What cannot be sent now is sent again, and is plain TCP if that fails as well.
        let _ = self.socket.send_to(&bytes, to);
        self.again.push((bytes, to));
    }

    /// Says everything a second time that was said since the last call.
    pub(crate) fn repeat(&mut self) {
        for (bytes, to) in self.again.drain(..) {
            let _ = self.socket.send_to(&bytes, to);
        }
    }

    /// The reports that have come and can be believed, with the host that each is of; and why
    /// others cannot.
    pub(crate) fn receive(&mut self, now: Instant) -> (Vec<(PortId, Report)>, Vec<String>) {
        let (mut heard, mut disbelieved) = (Vec::new(), Vec::new());
        let mut buffer = [0; 256];
        for _ in 0..OF_TURN {
            match self.socket.recv_from(&mut buffer) {
                Ok((length, from)) => {
                    let from = from.ip().to_canonical();
                    match self.believe(now, from, &buffer[..length]) {
                        Ok(report) => heard.push(report),
                        Err(reason) => disbelieved.push(format!("{from}: {reason}")),
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => break,
            }
        }
        (heard, disbelieved)
    }

    fn believe(&mut self, now: Instant, from: IpAddr, sealed: &[u8]) -> Result<(PortId, Report), String> {
        let host = self.site.directory.host(from).ok_or("no host of the site has this address")?;
        let opened = self.site.seal.open(host, sealed);
        let opened = opened.ok_or_else(|| format!("it is not sealed with the key of host {}", host.0))?;
        let report = Report::from_bytes(opened).ok_or("it is no report of this version")?;
        let age = now.0.abs_diff(report.said_at.0);
        if age > FRESH.0 {
            return Err(format!(
                "it is {} off this host's clock, more than {FRESH}: set both hosts' clocks",
                Nanos(age)
            ));
        }
        let Pair { peer_0, peer_1, peer_2, peer_3, .. } = report.pair;
        let of = address([peer_0, peer_1, peer_2, peer_3]);
        if self.site.directory.host(of) != Some(host) {
            return Err(format!("it is of a connection from {of}, for which that host alone speaks"));
        }
        Ok((host, report))
    }
}

/// A connection that was made here, as the host of its other end knows it.
pub(crate) fn seen_from_peer(made: Made) -> Pair {
    let (peer_0, peer_1) = (made.local_0, made.local_1);
    let (peer_2, peer_3) = (made.local_2, made.local_3);
    Pair { ports: made.ports.rotate_left(16), peer_0, peer_1, peer_2, peer_3 }
}

/// The address in four words of the kernel.
fn address(words: [u32; 4]) -> IpAddr {
    let mut bytes = [0; 16];
    for (place, word) in bytes.chunks_exact_mut(4).zip(words) {
        place.copy_from_slice(&word.to_ne_bytes());
    }
    IpAddr::V6(Ipv6Addr::from(bytes)).to_canonical()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Keys that everybody could make who can count: a host's own is its number.
    #[derive(Debug)]
    struct Numbers;

    impl Seal for Numbers {
        fn close(&mut self, _: PortId, message: &mut Vec<u8>) -> bool {
            message.push(0);
            true
        }
        fn open<'a>(&mut self, from: PortId, sealed: &'a [u8]) -> Option<&'a [u8]> {
            sealed.split_last().filter(|(last, _)| u32::from(**last) == from.0).map(|(_, message)| message)
        }
    }

    const NOW: Instant = Instant(1_000_000_000_000);

    fn report() -> Report {
        let key = CoflowKey { task: 17, stage: 3, serial: u64::MAX - 1 };
        let words = [0, 0, u32::from_ne_bytes([0, 0, 255, 255]), u32::from_ne_bytes([127, 0, 0, 1])];
        let [peer_0, peer_1, peer_2, peer_3] = words;
        let pair = Pair { ports: 0x1234_5678, peer_0, peer_1, peer_2, peer_3 };
        Report { said_at: NOW, key, user: 1000, pair }
    }

    fn peers(at: &str) -> Peers {
        let hosts = ["127.0.0.1+127.0.0.8/30", "127.0.0.2"].map(|host| host.parse().unwrap());
        let (listen, directory) = (at.parse().unwrap(), Directory::of_hosts(&hosts));
        let hosts = hosts.iter().map(|host| host.address).collect();
        Peers::new(Site { listen, hosts, directory, seal: Box::new(Numbers) }).unwrap()
    }

    #[test]
    fn a_report_comes_back_from_its_bytes_and_no_other_length_or_kind_is_one() {
        let bytes = report().to_bytes();
        assert_eq!(Report::from_bytes(&bytes), Some(report()));
        for length in 0..bytes.len() {
            assert_eq!(Report::from_bytes(&bytes[..length]), None, "{length}");
        }
        let longer = [&bytes[..], &[0]].concat();
        assert_eq!(Report::from_bytes(&longer), None);
        let other = [&b"CVR2"[..], &bytes[4..]].concat();
        assert_eq!(Report::from_bytes(&other), None);
    }

    #[test]
    fn a_report_is_believed_only_of_the_host_whose_connection_it_is_and_only_just_now() {
        let mut peers = peers("127.0.0.1:0");
        let sealed = |by: u8, said_at: Instant| {
            let mut bytes = Report { said_at, ..report() }.to_bytes();
            bytes.push(by);
            bytes
        };
        let own: IpAddr = "127.0.0.1".parse().unwrap();
        assert_eq!(peers.believe(NOW, own, &sealed(0, NOW)), Ok((PortId(0), report())));
        assert!(peers.believe(NOW, own, &sealed(1, NOW)).unwrap_err().contains("key of host 0"));
        assert!(peers.believe(NOW, own, &report().to_bytes()[..65]).is_err());
        let old = Instant(NOW.0 - 6_000_000_000);
        assert!(peers.believe(NOW, own, &sealed(0, old)).unwrap_err().contains("clock"));
        assert!(peers.believe(old, own, &sealed(0, NOW)).is_err());
        assert!(peers.believe(NOW, own, b"").is_err());
        let other = "127.0.0.2".parse().unwrap();
        assert!(peers.believe(NOW, other, &sealed(1, NOW)).unwrap_err().contains("alone speaks"));
        let stranger = "127.0.0.3".parse().unwrap();
        assert!(peers.believe(NOW, stranger, &sealed(0, NOW)).unwrap_err().contains("no host"));
        // The same host by another of its addresses.
        let at = "127.0.0.9".parse().unwrap();
        assert_eq!(peers.believe(NOW, at, &sealed(0, NOW)), Ok((PortId(0), report())));
    }

    #[test]
    fn nobody_outside_the_site_is_told_and_everything_is_said_twice() {
        let mut peers = peers("127.0.0.1:0");
        peers.site.listen = peers.socket.local_addr().unwrap();
        let mapped = |last: [u8; 4]| [0, 0, u32::from_ne_bytes([0, 0, 255, 255]), u32::from_ne_bytes(last)];
        let made = |[peer_0, peer_1, peer_2, peer_3]: [u32; 4]| Made {
            ports: 0x0050_9c40,
            peer_0,
            peer_1,
            peer_2,
            peer_3,
            local_0: 0,
            local_1: 0,
            local_2: u32::from_ne_bytes([0, 0, 255, 255]),
            local_3: u32::from_ne_bytes([127, 0, 0, 1]),
            ..Made::default()
        };
        peers.report(NOW, made(mapped([127, 0, 0, 3])), report().key, 1000);
        peers.report(NOW, made(mapped([127, 0, 0, 1])), report().key, 1000);
        peers.report(NOW, made(mapped([127, 0, 0, 10])), report().key, 1000);
        peers.repeat();
        let mut heard = Vec::new();
        let began = std::time::Instant::now();
        while heard.len() < 4 && began.elapsed().as_secs() < 60 {
            heard.extend(peers.receive(NOW).0);
        }
        let pair = Pair { ports: 0x9c40_0050, ..report().pair };
        assert_eq!(heard, [(PortId(0), Report { pair, ..report() }); 4]);
    }
}
