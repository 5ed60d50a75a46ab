//! Racks of hosts joined by software switches: Baraat's testbed (§5.1) on one machine.
//!
//! Each host is a namespace with a cable to the namespace of its rack's switch, and each of those
//! has one to the root's. A switch is a process, `cavalcade switch`, over the ends of its cables;
//! it paces what leaves by each port, so cables need no other shaper. Where its programs in the
//! kernel carry frames instead, they drop what the link would not have carried
//! ([`SwitchedBy::Xdp`]). A host's own link is held by HTB at its interface, as a network card
//! would: else everything that a host sends would wait at its rack's switch.
//!
//! Rates are those of IP packets, as at the switches; HTB counts Ethernet frames, and is given as
//! much more.
//!
//! Where hosts have agents and enforcers ([`Enforcement::Kernel`](crate::Enforcement::Kernel)),
//! these and the coordinator talk over a network of their own: the switches know no class for them,
//! and behind data an order would wait for a queue, 58 ms at 50 Mbps. Flows are plain traffic to
//! the switches. There is one class for all of it, so policies go by gates and rates alone.
//!
//! # Bridges in place of them
//! PIAS, Karuna and TAFE want switches that sort by class and mark. With [`SwitchedBy::Bridge`]
//! each switch is a bridge of the kernel, and each of its ports, and each host's link, is what a
//! port of the lab without racks is ([`crate::namespaces`]). All ports of switches mark, those that
//! lead to the root as well: there flows of a rack's hosts meet.

use cavalcade_model::BitsPerSec;
use cavalcade_switch::device::receive_offload;

use crate::error::LabError;
use crate::namespaces::{End, Namespaces, Ports, host_address, ip, packet, shape, tc, use_reno, within};
use crate::run::{Racks, SwitchedBy};

/// Bytes that may wait at a host for its link: as many as at a port of a switch.
const QUEUE: u64 = 360_000;

/// A switch of the racks: where it runs, and its ports with the rates of their links.
#[derive(Debug)]
pub(crate) struct Place {
    /// The part of its namespace's name.
    pub(crate) part: String,
    pub(crate) ports: Vec<(String, BitsPerSec)>,
}

impl Racks {
    /// Returns the rate of TCP's payload on a link of `rate`: a full packet has 52 bytes of
    /// headers, time stamps among them. It is what a coordinator knows as the rate of a host.
    pub fn payload(rate: BitsPerSec) -> BitsPerSec {
        BitsPerSec(rate.0 / 1_500 * 1_448)
    }

    /// Returns where switches are, the root last.
    pub(crate) fn places(&self, rate: BitsPerSec) -> Vec<Place> {
        let of_rack = |rack: u32| {
            let hosts = (rack * self.hosts..(rack + 1) * self.hosts).map(|host| (format!("p{host}"), rate));
            let ports = hosts.chain([("uplink".to_owned(), self.uplink)]).collect();
            Place { part: format!("t{rack}"), ports }
        };
        let down = (0..self.racks).map(|rack| (format!("d{rack}"), self.uplink)).collect();
        (0..self.racks).map(of_rack).chain([Place { part: "root".to_owned(), ports: down }]).collect()
    }

    /// Builds namespaces and cables for hosts on links of `rate`, with ports of a kind where
    /// bridges join them; with a network beside them where there may be a coordinator and agents.
    pub(crate) fn build(
        &self,
        rate: BitsPerSec,
        ports: Ports,
        has_control: bool,
    ) -> Result<Namespaces, LabError> {
        let mut built = Namespaces::none();
        let (root, seed) = (built.add("root")?, built.add_seed()?);
        for rack in 0..self.racks {
            let switch = built.add(&format!("t{rack}"))?;
            self.cable((&switch, "uplink"), (&root, &format!("d{rack}")))?;
            for host in rack * self.hosts..(rack + 1) * self.hosts {
                let namespace = built.add_from(&seed, &format!("h{host}"))?;
                self.cable((&namespace, "eth0"), (&switch, &format!("p{host}")))?;
                let own = host_address(host);
                ip(Some(&namespace), &format!("addr add {own}/16 dev eth0\nlink set lo up\n"))?;
                ip(Some(&namespace), &format!("link set dev eth0 gso_max_size {}\n", packet(rate)))?;
                use_reno(&namespace)?;
                match self.switches {
                    SwitchedBy::Bridge => shape(&namespace, "eth0", Self::payload(rate), ports, End::Host)?,
                    SwitchedBy::Process | SwitchedBy::Xdp => tc(&namespace, &shaping(rate))?,
                }
            }
        }
        if self.switches == SwitchedBy::Bridge {
            self.places(rate).iter().try_for_each(|place| bridge(&mut built, place, ports))?;
        }
        if has_control {
            built.add_control(self.racks * self.hosts)?;
        }
        Ok(built)
    }

    /// Joins two namespaces by a cable with these ends.
    fn cable(&self, one: (&str, &str), other: (&str, &str)) -> Result<(), LabError> {
        let [(at, name), (far, far_name)] = [one, other];
        ip(None, &format!("link add {name} netns {at} type veth peer name {far_name} netns {far}\n"))?;
        for (namespace, device) in [one, other] {
            // Without addresses of version 6 the kernel sends nothing of its own there.
            ip(Some(namespace), &format!("link set {device} addrgenmode none up\n"))?;
            if self.switches == SwitchedBy::Xdp {
                take_redirected(namespace, device)?;
            }
        }
        Ok(())
    }
}

/// Makes a switch a bridge over the ends of its cables.
fn bridge(built: &mut Namespaces, place: &Place, ports: Ports) -> Result<(), LabError> {
    let switch = built.of(&place.part);
    ip(Some(&switch), "link add br0 type bridge\nlink set br0 addrgenmode none up\n")?;
    for (device, rate) in &place.ports {
        let rate = Racks::payload(*rate);
        ip(Some(&switch), &format!("link set {device} master br0\n"))?;
        shape(&switch, device, rate, ports, End::Switch)?;
        built.mark(&switch, std::slice::from_ref(device), rate, ports)?;
    }
    Ok(())
}

/// Turns receive offload on, without which a virtual cable loses what XDP sends to its end.
fn take_redirected(namespace: &str, device: &str) -> Result<(), LabError> {
    let failed = |error: &dyn std::fmt::Display| LabError::Missing {
        what: format!("switches in the kernel are not available: {error}"),
        cure: "take '--carrier process'",
    };
    let turned = within(namespace, || receive_offload(device)).map_err(|error| failed(&error))?;
    turned.map_err(|error| failed(&error))
}

/// Writes the commands that hold what leaves a host to its link's rate.
fn shaping(rate: BitsPerSec) -> String {
    let frames = u128::from(rate.0) * 1_514 / 1_500;
    // A millisecond, which is what timers may be late by; two full packets at least.
    let burst = (frames / 8_000).max(3_100);
    format!(
        "qdisc add dev eth0 root handle 1: htb default 20\n\
         class add dev eth0 parent 1: classid 1:20 htb rate {frames}bit ceil {frames}bit burst {burst} cburst {burst} quantum 60000\n\
         qdisc add dev eth0 parent 1:20 bfifo limit {QUEUE}\n"
    )
}

#[cfg(test)]
mod tests {
    use cavalcade_model::Nanos;

    use super::*;

    #[test]
    fn every_host_has_a_port_at_its_racks_switch_and_every_rack_one_at_the_root() {
        let (rate, uplink) = (BitsPerSec(50), BitsPerSec(200));
        let racks = Racks { racks: 5, hosts: 4, uplink, round_trip: Nanos(1), switches: SwitchedBy::Process };
        let switches = racks.places(rate);
        assert_eq!(switches.iter().map(|switch| switch.ports.len()).collect::<Vec<_>>(), [5; 6]);
        let third: Vec<_> = switches[2].ports.iter().map(|(name, rate)| (name.as_str(), rate.0)).collect();
        assert_eq!(third, [("p8", 50), ("p9", 50), ("p10", 50), ("p11", 50), ("uplink", 200)]);
        assert!(switches[5].ports.iter().all(|(name, rate)| name.starts_with('d') && *rate == uplink));
    }
}
