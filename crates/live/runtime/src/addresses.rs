//! Addresses that the kernel lists as local: those of this host, and those of containers on
//! bridges that lead nowhere else.
//!
//! Read from /proc and /sys, and once, at the start of an agent. What cannot be read is left out,
//! and then counts as outside of the site, as an address does that comes later.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::path::Path;

use cavalcade_protocol::Prefix;

/// The addresses and prefixes that are this host's own, but for loopback's.
pub fn own_prefixes() -> Vec<Prefix> {
    let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
    let own = own_v4(&read("/proc/net/fib_trie")).into_iter().chain(own_v6(&read("/proc/net/if_inet6")));
    let own = own.filter(|address| !address.is_loopback()).map(Prefix::from);
    own.chain(bridged(&read("/proc/net/route"), |interface| {
        leads_nowhere(Path::new("/sys/class/net"), interface)
    }))
    .collect()
}

/// The addresses of the kernel's table of local ones: each stands above the line that calls it so.
fn own_v4(trie: &str) -> Vec<IpAddr> {
    let mut own = Vec::new();
    let mut last = None;
    for line in trie.lines() {
        if let Some((_, address)) = line.split_once("-- ") {
            last = address.trim().parse::<Ipv4Addr>().ok();
        } else if line.trim() == "/32 host LOCAL" {
            own.extend(last.map(IpAddr::V4));
        }
    }
    own.sort();
    own.dedup();
    own
}

/// The addresses of interfaces, of which each line begins with one in hexadecimal digits. Those of
/// a link alone mean another host on another link.
fn own_v6(interfaces: &str) -> Vec<IpAddr> {
    let digits = interfaces.lines().filter_map(|line| line.split_whitespace().next());
    let own = digits.filter_map(|digits| u128::from_str_radix(digits, 16).ok()).map(Ipv6Addr::from_bits);
    own.filter(|address| !address.is_unicast_link_local()).map(IpAddr::V6).collect()
}

/// The prefixes that are reached without a gateway over interfaces of which `is_inner` is true.
fn bridged(routes: &str, is_inner: impl Fn(&str) -> bool) -> Vec<Prefix> {
    let of_line = |line: &str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let [interface, to, gateway, _, _, _, _, mask, ..] = words[..] else { return None };
        let word = |digits: &str| u32::from_str_radix(digits, 16).ok();
        // The kernel writes the bytes as they lie in memory.
        let (to, mask) = (word(to)?, u32::from_be_bytes(word(mask)?.to_ne_bytes()));
        let is_direct = word(gateway)? == 0 && mask != 0 && mask.leading_ones() == mask.count_ones();
        if !is_direct || !is_inner(interface) {
            return None;
        }
        format!("{}/{}", Ipv4Addr::from(to.to_ne_bytes()), mask.count_ones()).parse().ok()
    };
    routes.lines().filter_map(of_line).collect()
}

/// Returns whether an interface is a bridge to which nothing is attached that leads out of this
/// host, as container engines make them.
fn leads_nowhere(interfaces: &Path, interface: &str) -> bool {
    let folder = interfaces.join(interface);
    let Ok(ports) = std::fs::read_dir(folder.join("brif")) else { return false };
    ports.flatten().all(|port| is_inner(&interfaces.join(port.file_name())))
}

/// Returns whether an interface is an end of a pair or a tap: it has no device, lies on no other
/// interface (as a bond or a VLAN does), and is of no kind that the kernel names (as a tunnel is).
fn is_inner(interface: &Path) -> bool {
    let has_kind = |uevent: String| uevent.lines().any(|line| line.starts_with("DEVTYPE="));
    let lies_on = |entries: std::fs::ReadDir| {
        entries.flatten().any(|entry| entry.file_name().to_string_lossy().starts_with("lower_"))
    };
    !interface.join("device").exists()
        && !std::fs::read_to_string(interface.join("uevent")).is_ok_and(has_kind)
        && std::fs::read_dir(interface).is_ok_and(|entries| !lies_on(entries))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn local_addresses_are_read_and_broadcasts_and_networks_are_not() {
        let trie = "Main:\n  +-- 0.0.0.0/0 3 0 5\n     |-- 0.0.0.0\n        /0 universe UNICAST\n     |-- 10.0.0.0\n        /24 link UNICAST\n\
                    Local:\n     |-- 10.0.0.7\n        /32 host LOCAL\n     |-- 10.0.0.255\n        /32 link BROADCAST\n     |-- 127.0.0.1\n        /32 host LOCAL\n";
        assert_eq!(own_v4(trie), ["10.0.0.7", "127.0.0.1"].map(|one| one.parse::<IpAddr>().unwrap()));
        let interfaces = "fd000000000000000000000000000001 02 40 00 80     eth0\nfe800000000000000000000000000001 02 40 20 80     eth0\n";
        assert_eq!(own_v6(interfaces), ["fd00::1".parse::<IpAddr>().unwrap()]);
        assert_eq!((own_v4("garbage\n-- \n/32 host LOCAL"), own_v6("zz\n\n")), (vec![], vec![]));
    }

    #[test]
    fn prefixes_of_bridges_within_the_host_are_its_own() {
        let routes = "Iface\tDestination\tGateway\tFlags\tRefCnt\tUse\tMetric\tMask\tMTU\tWindow\tIRTT\n\
                      eth0\t00000000\t0100000A\t0003\t0\t0\t0\t00000000\t0\t0\t0\n\
                      eth0\t0000000A\t00000000\t0001\t0\t0\t0\t00FFFFFF\t0\t0\t0\n\
                      docker0\t000011AC\t00000000\t0001\t0\t0\t0\t0000FFFF\t0\t0\t0\n";
        let found = bridged(routes, |interface| interface == "docker0");
        assert_eq!(found, ["172.17.0.0/16".parse::<Prefix>().unwrap()]);
    }

    #[test]
    fn a_bridge_with_a_device_leads_to_other_hosts() {
        let folder = tempfile::tempdir().unwrap();
        let make = |path: &str| std::fs::create_dir_all(folder.path().join(path)).unwrap();
        ["docker0/brif/veth1", "veth1", "br0/brif/eth0", "eth0/device"].into_iter().for_each(make);
        assert!(leads_nowhere(folder.path(), "docker0"));
        ["br1/brif/bond0", "bond0/lower_eth0", "br2/brif/vxlan0", "vxlan0"].into_iter().for_each(make);
        std::fs::write(folder.path().join("vxlan0/uevent"), "DEVTYPE=vxlan\nINTERFACE=vxlan0\n").unwrap();
        for interface in ["br0", "br1", "br2", "eth0", "veth1", "missing"] {
            assert!(!leads_nowhere(folder.path(), interface), "{interface}");
        }
    }
}
