//! Who stands where: the port of each address that a flow may go to.
//!
//! A host of a site may have several addresses, and prefixes such as that of its containers. All
//! that is no host of the site is *outside*: one more port behind each host's own link, which
//! carries there what that link carries. So what leaves the site is ordered among all else that the
//! host sends, and holds up no other host's. Traffic over loopback has no port, unless
//! the site names that.
//!
//! The port outside of host i of n is n + i. No agent stands there, and no receiver confirms what
//! has arrived.

use core::fmt;
use core::net::{IpAddr, Ipv6Addr};
use core::str::FromStr;
use std::collections::BTreeMap;

use cavalcade_model::PortId;

/// Returns the port at which all stands that is no host of a site of `hosts`, for the host at
/// `port`.
pub fn outside(hosts: u32, port: PortId) -> PortId {
    PortId(hosts.saturating_add(port.0))
}

/// Addresses that begin alike: `10.244.1.0/24`, or one address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Prefix {
    /// Bits that count, of the 128 of an IPv6 address; those of IPv4 are counted behind ::ffff:0:0.
    length: u8,
    /// The address, in the form that all families share, with zeros behind.
    bits: u128,
}

impl Prefix {
    fn new(address: IpAddr, length: u8) -> Self {
        Self { length, bits: bits(address) & mask(length) }
    }

    /// Returns whether it has an address.
    pub fn holds(self, address: IpAddr) -> bool {
        bits(address) & mask(self.length) == self.bits
    }

    /// Returns whether the two have an address in common.
    pub fn overlaps(self, other: Self) -> bool {
        let shared = mask(self.length.min(other.length));
        self.bits & shared == other.bits & shared
    }
}

impl From<IpAddr> for Prefix {
    fn from(address: IpAddr) -> Self {
        Self::new(address, 128)
    }
}

impl fmt::Display for Prefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let address = Ipv6Addr::from(self.bits);
        match (IpAddr::V6(address).to_canonical(), self.length) {
            (address, 128) => write!(f, "{address}"),
            (IpAddr::V4(address), length) if length >= 96 => write!(f, "{address}/{}", length - 96),
            (_, length) => write!(f, "{address}/{length}"),
        }
    }
}

impl FromStr for Prefix {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wanted = || format!("'{text}': expected an address as 10.0.0.1, or a prefix as 10.244.1.0/24");
        let (address, length) = match text.split_once('/') {
            Some((address, length)) => (address, Some(length.parse::<u8>().map_err(|_| wanted())?)),
            None => (text, None),
        };
        let address: IpAddr = address.trim().parse().map_err(|_| wanted())?;
        let (most, before) = if address.is_ipv4() { (32, 96) } else { (128, 0) };
        match length {
            Some(length) if length > most => {
                Err(format!("'{text}': an address of this kind has {most} bits, and /{length} asks for more"))
            }
            length => Ok(Self::new(address, before + length.unwrap_or(most))),
        }
    }
}

/// A host of a site: the address at which its agent is found, and what else goes to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Host {
    /// The address at which its agent and enforcer are found.
    pub address: IpAddr,
    /// Further addresses and prefixes.
    pub more: Vec<Prefix>,
}

impl Host {
    /// All that goes to it.
    pub fn prefixes(&self) -> impl Iterator<Item = Prefix> + '_ {
        std::iter::once(self.address.into()).chain(self.more.iter().copied())
    }
}

impl From<IpAddr> for Host {
    fn from(address: IpAddr) -> Self {
        Self { address, more: Vec::new() }
    }
}

impl fmt::Display for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.address)?;
        self.more.iter().try_for_each(|more| write!(f, "+{more}"))
    }
}

impl FromStr for Host {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (first, more) = text.split_once('+').map_or((text, None), |(first, more)| (first, Some(more)));
        let address = first.trim().parse().map_err(|_| {
            format!(
                "'{first}': expected the address of a host, as 10.0.0.1 or 10.0.0.1+fd00::1+10.244.1.0/24"
            )
        })?;
        let more = more.into_iter().flat_map(|more| more.split('+')).map(|one| one.trim().parse());
        Ok(Self { address, more: more.collect::<Result<_, _>>()? })
    }
}

/// The port of each address.
#[derive(Clone, Debug, Default)]
pub struct Directory {
    /// Single addresses.
    hosts: BTreeMap<IpAddr, PortId>,
    /// Prefixes, the longest last.
    prefixes: BTreeMap<Prefix, PortId>,
    /// Where all else stands; none where it is left alone.
    outside: Option<PortId>,
}

impl Directory {
    /// The directory of a site's hosts, from port 0 on; all else is left alone.
    pub fn of_hosts(hosts: &[Host]) -> Self {
        let mut this = Self::default();
        for (port, host) in hosts.iter().enumerate() {
            host.prefixes().for_each(|prefix| this.add(prefix, PortId::from_index(port)));
        }
        this
    }

    /// With all that is no host at `outside`.
    pub fn with_outside(self, outside: PortId) -> Self {
        Self { outside: Some(outside), ..self }
    }

    /// Has what a prefix holds stand at `port`, unless that is named already.
    pub fn add(&mut self, prefix: Prefix, port: PortId) {
        if prefix.length == 128 {
            let address = IpAddr::V6(Ipv6Addr::from(prefix.bits)).to_canonical();
            self.hosts.entry(address).or_insert(port);
        } else {
            self.prefixes.entry(prefix).or_insert(port);
        }
    }

    /// The host at an address; none where that is outside, or loopback that is not named.
    pub fn host(&self, address: IpAddr) -> Option<PortId> {
        let address = address.to_canonical();
        let longest = || self.prefixes.iter().rev().find(|(prefix, _)| prefix.holds(address));
        self.hosts.get(&address).or_else(|| longest().map(|(_, port)| port)).copied()
    }

    /// The port that flows to an address go to; none where they are left alone.
    pub fn port(&self, address: IpAddr) -> Option<PortId> {
        let address = address.to_canonical();
        let stays = address.is_loopback() || address.is_unspecified();
        self.host(address).or(self.outside.filter(|_| !stays))
    }

    /// Returns whether a host has an address of its own.
    pub fn has_host(&self, port: PortId) -> bool {
        self.hosts.values().chain(self.prefixes.values()).any(|at| *at == port)
    }
}

impl FromIterator<(IpAddr, PortId)> for Directory {
    fn from_iter<T: IntoIterator<Item = (IpAddr, PortId)>>(hosts: T) -> Self {
        Self { hosts: hosts.into_iter().collect(), ..Self::default() }
    }
}

/// The bits of an address in the form that all families share.
fn bits(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(address) => address.to_ipv6_mapped().to_bits(),
        IpAddr::V6(address) => address.to_bits(),
    }
}

fn mask(length: u8) -> u128 {
    u128::MAX.checked_shl(128 - u32::from(length.min(128))).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn directory(hosts: &[&str]) -> Directory {
        let hosts: Vec<Host> = hosts.iter().map(|host| host.parse().unwrap()).collect();
        Directory::of_hosts(&hosts).with_outside(outside(hosts.len() as u32, PortId(0)))
    }

    fn port(directory: &Directory, address: &str) -> Option<u32> {
        directory.port(address.parse().unwrap()).map(|port| port.0)
    }

    #[test]
    fn a_host_is_found_by_each_of_its_addresses_and_prefixes() {
        let site = directory(&["10.0.0.1+fd00::1+10.244.0.0/16", "10.0.0.2+10.244.7.0/24+fd00:7::/32"]);
        for (address, at) in [
            ("10.0.0.1", 0),
            ("::ffff:10.0.0.1", 0),
            ("fd00::1", 0),
            ("10.244.8.9", 0),
            ("10.244.7.9", 1),
            ("fd00:7::9", 1),
        ] {
            assert_eq!(port(&site, address), Some(at), "{address}");
        }
    }

    #[test]
    fn all_else_is_outside_but_for_what_never_leaves_a_host() {
        let site = directory(&["10.0.0.1", "10.0.0.2"]);
        for address in ["10.0.0.3", "192.0.2.1", "2001:db8::1"] {
            assert_eq!((port(&site, address), site.host(address.parse().unwrap())), (Some(2), None));
        }
        for address in ["127.0.0.1", "127.8.8.8", "::1", "::ffff:127.0.0.1", "0.0.0.0"] {
            assert_eq!(port(&site, address), None, "{address}");
        }
        assert_eq!(port(&directory(&["127.0.0.1"]), "127.0.0.1"), Some(0));
        let hosts: Directory = [("10.0.0.1".parse().unwrap(), PortId(0))].into_iter().collect();
        assert_eq!(port(&hosts, "192.0.2.1"), None);
    }

    #[test]
    fn what_is_written_is_read_again_and_what_is_no_address_is_refused() {
        for text in ["10.0.0.1", "10.0.0.1+fd00::1", "10.0.0.1+10.244.1.0/24+fd00:1::/32+0.0.0.0/0"] {
            assert_eq!(text.parse::<Host>().unwrap().to_string(), text);
        }
        for text in ["", "ten", "10.0.0.1/24", "10.0.0.1+", "10.0.0.1+10.0.0.0/33", "fd00::1+fd00::/129"] {
            assert!(text.parse::<Host>().is_err(), "{text}");
        }
        let overlaps = |a: &str, b: &str| a.parse::<Prefix>().unwrap().overlaps(b.parse().unwrap());
        assert!(overlaps("10.0.0.0/8", "10.244.1.0/24") && overlaps("10.244.1.0/24", "10.0.0.0/8"));
        assert!(!overlaps("10.244.1.0/24", "10.244.2.0/24") && !overlaps("0.0.0.0/0", "fd00::/8"));
    }
}
