//! What packets cross: a [`Fabric`] with its links in pairs, one for each direction, and a queue at
//! the beginning of each.
//!
//! The twin of link `l` is `l ^ 1`. Link `2h` goes out of host `h`, link `2h + 1` into it; links
//! between switches follow. A queue stands at the beginning of each link, so a link and its output
//! port are the same thing here and have the same number.
//!
//! Which of several paths a flow takes is the fabric's to say (ECMP by a hash of both ends), so
//! fluid and packets take the same one. Paths are symmetric: an acknowledgement goes back over the
//! twins of its flow's links. That is what the switch logic of explicit-rate transports relies on,
//! and what a fabric with consistent hashing over sorted addresses does. A cable of which one
//! direction has failed is therefore of no use to packets, and counts as failed.

use std::collections::BTreeMap;

use cavalcade_model::{BitsPerSec, Fabric, FabricError, LinkId, Nanos, Path, PortId, Workload};

/// The most links between two hosts: host, edge, aggregation, core and down again.
pub const MOST_HOPS: usize = Path::LONGEST;

/// A link in one direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Link {
    /// Rate.
    pub rate: BitsPerSec,
    /// Propagation delay.
    pub delay: Nanos,
}

/// The links that a flow crosses, in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Route {
    links: [u32; MOST_HOPS],
    hops: u8,
}

impl Route {
    /// Number of links.
    #[inline]
    pub fn hops(&self) -> u8 {
        self.hops
    }

    /// The link that data crosses as its `hop`-th.
    #[inline]
    pub fn forward(&self, hop: u8) -> u32 {
        self.links[usize::from(hop) % MOST_HOPS]
    }

    /// The link that an acknowledgement crosses as its `hop`-th.
    #[inline]
    pub fn back(&self, hop: u8) -> u32 {
        self.links[usize::from(self.hops - 1 - hop) % MOST_HOPS] ^ 1
    }

    /// All links, in order.
    pub fn links(&self) -> &[u32] {
        &self.links[..usize::from(self.hops)]
    }
}

/// Hosts, switches and links.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Network {
    /// With both directions of a cable failed where one has.
    fabric: Fabric,
    links: Vec<Link>,
    /// For each link, the fabric's.
    of_fabric: Vec<LinkId>,
    /// For each link of the fabric, the one here.
    numbers: Vec<u32>,
    /// For each link, the switch that it goes out of; [`NO_SWITCH`] for a host's.
    switch_of: Vec<u32>,
    switches: u32,
}

const NO_SWITCH: u32 = u32::MAX;

/// The slowest link: at 1 Kbps a full packet takes twelve seconds.
const SLOWEST: BitsPerSec = BitsPerSec(1_000);
/// The longest link: six to the moon and back take less together.
const LONGEST_DELAY: Nanos = Nanos(10_000_000_000);

/// Reason that packets cannot cross a fabric.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NetworkError {
    /// No such fabric.
    #[error(transparent)]
    Fabric(#[from] FabricError),
    /// A link on which a byte takes longer than the engine's clock lasts.
    #[error("{link} is too slow ({rate}): the packet engine needs {SLOWEST} or more")]
    TooSlow {
        /// The link.
        link: String,
        /// Its rate.
        rate: BitsPerSec,
    },
    /// A link on which a bit travels longer than the engine's clock allows for.
    #[error("{link} has a delay of {delay}: the packet engine supports at most {LONGEST_DELAY}")]
    TooLong {
        /// The link.
        link: String,
        /// Its delay.
        delay: Nanos,
    },
}

impl Network {
    /// Builds the packet network of `fabric`.
    ///
    /// # Errors
    /// If a link is too slow or too long for the engine's clock.
    pub fn new(fabric: &Fabric) -> Result<Self, NetworkError> {
        let mut fabric = fabric.clone();
        let mut of_fabric = Vec::with_capacity(fabric.link_count());
        for link in fabric.links() {
            let twin = fabric.twin(link);
            if fabric.has_failed(link) {
                fabric.fail(twin);
            }
            if link < twin {
                of_fabric.extend([link, twin]);
            }
        }
        let mut numbers = vec![0; of_fabric.len()];
        let mut links = Vec::with_capacity(of_fabric.len());
        for (number, &link) in of_fabric.iter().enumerate() {
            numbers[link.index()] = number as u32;
            links.push(checked(&fabric, link)?);
        }
        let mut switches = BTreeMap::new();
        let mut switch_of = vec![NO_SWITCH; links.len()];
        for (number, &link) in of_fabric.iter().enumerate() {
            if number >= 2 * fabric.ports() as usize || number % 2 == 1 {
                let next = switches.len() as u32;
                switch_of[number] = *switches.entry(fabric.ends(link)[0]).or_insert(next);
            }
        }
        let switches = switches.len() as u32;
        Ok(Self { fabric, links, of_fabric, numbers, switch_of, switches })
    }

    /// `hosts` hosts on one switch.
    ///
    /// # Errors
    /// If there are no hosts, or the link cannot carry packets.
    pub fn star(hosts: u32, link: Link) -> Result<Self, NetworkError> {
        let mut fabric = Fabric::big_switch(hosts, link.rate)?;
        fabric.set_delays(link.delay);
        Self::new(&fabric)
    }

    /// The fabric.
    pub fn fabric(&self) -> &Fabric {
        &self.fabric
    }

    /// Checks that packets of every flow find their way.
    ///
    /// # Errors
    /// If there are too few hosts, or failed cables leave no path.
    pub fn check(&self, workload: &Workload) -> Result<(), FabricError> {
        self.fabric.check(workload)
    }

    /// Returns the number of hosts.
    pub fn hosts(&self) -> u32 {
        self.fabric.ports()
    }

    /// All links.
    pub fn links(&self) -> &[Link] {
        &self.links
    }

    /// The fabric's link that `link` is.
    pub fn of_fabric(&self, link: u32) -> LinkId {
        self.of_fabric[link as usize]
    }

    /// The link that is the fabric's `link`.
    pub fn number(&self, link: LinkId) -> u32 {
        self.numbers[link.index()]
    }

    /// The host that `link` goes out of.
    pub fn host_of(&self, link: u32) -> Option<u32> {
        (link < 2 * self.hosts() && link.is_multiple_of(2)).then_some(link / 2)
    }

    /// The link out of `host`.
    #[inline]
    pub fn link_from(&self, host: u32) -> u32 {
        2 * host
    }

    /// The link into `host`.
    pub fn link_to(&self, host: u32) -> u32 {
        2 * host + 1
    }

    /// Returns the number of switches.
    pub fn switches(&self) -> u32 {
        self.switches
    }

    /// The switch that `link` goes out of; `None` where a host sends on it.
    #[inline]
    pub fn switch_of(&self, link: u32) -> Option<u32> {
        let switch = self.switch_of[link as usize];
        (switch != NO_SWITCH).then_some(switch)
    }

    /// The path from `src` to `dst`. A flow to its own host crosses both of its links, as traces at
    /// rack level mean it.
    ///
    /// # Panics
    /// If failed cables leave none: see [`Network::check`].
    pub fn route(&self, src: u32, dst: u32) -> Route {
        self.along(&self.fabric.path(PortId(src), PortId(dst)))
    }

    fn along(&self, path: &Path) -> Route {
        let mut route = Route { links: [0; MOST_HOPS], hops: path.len() as u8 };
        for (link, &of_fabric) in route.links.iter_mut().zip(path) {
            *link = self.number(of_fabric);
        }
        route
    }

    /// Returns the round trip of a packet of `size` and a reply of `answer` bytes over an idle
    /// `route`.
    pub fn round_trip(&self, route: &Route, size: u16, answer: u16) -> Nanos {
        let each = |&link: &u32| {
            let over = |bytes: u16, link: u32| {
                let Link { rate, delay } = self.links[link as usize];
                (u128::from(bytes) * 8_000_000_000_000).div_ceil(u128::from(rate.get()))
                    + u128::from(delay.get()) * 1_000
            };
            over(size, link) + over(answer, link ^ 1)
        };
        let picos = route.links().iter().map(each).sum::<u128>();
        Nanos((picos.div_ceil(1_000)).min(u128::from(u64::MAX)) as u64)
    }

    /// The longest [`Network::round_trip`] from the first host to another and back, what the ports
    /// of explicit-rate transports take the round trip of the network to be. Where all links of a
    /// level are alike, none is longer.
    pub fn longest_round_trip(&self, size: u16, answer: u16) -> Nanos {
        let paths = (0..self.hosts()).filter_map(|host| self.fabric.find_path(PortId(0), PortId(host)));
        paths.map(|path| self.round_trip(&self.along(&path), size, answer)).max().unwrap_or_default()
    }
}

/// A link of `fabric`, if packets can cross it.
fn checked(fabric: &Fabric, link: LinkId) -> Result<Link, NetworkError> {
    let (rate, delay) = (fabric.capacity(link), fabric.delay(link));
    let name = || fabric.link_name(link);
    if rate < SLOWEST {
        return Err(NetworkError::TooSlow { link: name(), rate });
    }
    if delay > LONGEST_DELAY {
        return Err(NetworkError::TooLong { link: name(), delay });
    }
    Ok(Link { rate, delay })
}

#[cfg(test)]
mod tests {
    use cavalcade_model::{Bytes, FabricSpec, Flow, Instant, WorkloadBuilder};

    use super::*;

    const LINK: Link = Link { rate: BitsPerSec(10_000_000_000), delay: Nanos(1_000) };

    fn fabric(text: &str) -> Fabric {
        text.parse::<FabricSpec>().unwrap().build(LINK.rate).unwrap()
    }

    #[test]
    fn every_shape_is_crossed_as_its_fabric_says_and_back_over_the_twins() {
        for text in [
            "bigswitch:ports=3",
            "tree:pods=2,racks=2,hosts=2,delay=3us",
            "leafspine:leaves=3,spines=2,hosts=2,oversubscription=2",
            "fattree:arity=4",
        ] {
            let fabric = fabric(text);
            let network = Network::new(&fabric).unwrap();
            assert_eq!(network.links().len(), fabric.link_count());
            for (number, link) in network.links().iter().enumerate() {
                let there = network.of_fabric(number as u32);
                assert_eq!((link.rate, link.delay), (fabric.capacity(there), fabric.delay(there)));
                assert_eq!(network.of_fabric(number as u32 ^ 1), fabric.twin(there), "{text}");
            }
            for (src, dst) in
                (0..network.hosts()).flat_map(|src| (0..network.hosts()).map(move |dst| (src, dst)))
            {
                let route = network.route(src, dst);
                let path = fabric.path(PortId(src), PortId(dst));
                let links: Vec<_> = route.links().iter().map(|&link| network.of_fabric(link)).collect();
                assert_eq!(links, path.iter().copied().collect::<Vec<_>>(), "{text}");
                assert_eq!(
                    (route.forward(0), route.back(0)),
                    (network.link_from(src), network.link_from(dst))
                );
                for hop in 1..route.hops() {
                    let (to, from) =
                        (network.switch_of(route.forward(hop)), network.switch_of(route.back(hop)));
                    assert!(to.is_some() && from.is_some());
                    assert_eq!(
                        to,
                        network.switch_of(route.back(route.hops() - hop)),
                        "{text}: one switch, both ways"
                    );
                }
            }
        }
    }

    #[test]
    fn switches_are_counted_once_each() {
        let switches = |text| Network::new(&fabric(text)).unwrap().switches();
        assert_eq!(switches("bigswitch:ports=3"), 1);
        assert_eq!(switches("tree:pods=2,racks=3,hosts=2"), 6 + 2 + 1);
        assert_eq!(switches("leafspine:leaves=3,spines=2,hosts=2"), 5);
        assert_eq!(switches("fattree:arity=4"), 8 + 8 + 4);
    }

    #[test]
    fn a_cable_with_one_failed_direction_carries_no_packets() {
        let mut fabric = fabric("leafspine:leaves=2,spines=2,hosts=1");
        let up = fabric.path(PortId(0), PortId(1))[1];
        fabric.fail(fabric.twin(up));
        let network = Network::new(&fabric).unwrap();
        assert_ne!(network.route(0, 1).forward(1), network.number(up), "its answers could not come back");
        let other = network.of_fabric(network.route(0, 1).forward(1));
        fabric.fail(other);
        let mut workload = WorkloadBuilder::new(2);
        let flow = Flow { src: PortId(0), dst: PortId(1), size: Bytes(1), wave: Nanos::ZERO };
        workload.coflow("cut", Instant::ZERO, vec![flow]);
        let cut = Network::new(&fabric).unwrap().check(&workload.build().unwrap());
        let Err(FabricError::NoPath { src, dst, .. }) = cut else { panic!("{cut:?}") };
        assert_eq!([src, dst], ["port 0", "port 1"]);
    }

    #[test]
    fn the_round_trip_is_that_of_store_and_forward() {
        let network = Network::star(2, LINK).unwrap();
        // Two hops of 1,200 ns and 32 ns each, and four times 1 µs.
        assert_eq!(network.longest_round_trip(1_500, 40), Nanos(2 * 1_200 + 2 * 32 + 4_000));
    }

    #[test]
    fn what_could_carry_nothing_is_refused() {
        let error = |link| Network::star(2, link).unwrap_err().to_string();
        assert!(error(Link { rate: BitsPerSec(0), ..LINK }).contains("capacity of zero"));
        assert!(error(Link { rate: BitsPerSec(999), ..LINK }).contains("too slow"));
        assert!(error(Link { delay: Nanos(10_000_000_001), ..LINK }).contains("at most 10s"));
        assert!(Network::star(0, LINK).is_err());
    }
}
