//! What packets cross: hosts, switches and the links between them, with a rate and a delay each.
//!
//! Links come in pairs, one for each direction: the twin of link `l` is `l ^ 1`. Link `2h` goes out of host `h`, link
//! `2h + 1` into it; links between switches follow. A queue stands at the beginning of each link, so a link and its output
//! port are the same thing here and have the same number.
//!
//! Paths are symmetric: an acknowledgement goes back over the twins of its flow's links. That is what the switch logic of
//! explicit-rate transports relies on, and what a fabric with consistent hashing over sorted addresses does. Which of several
//! paths a flow takes is a stable hash of its ends and number (ECMP), so it is the same on every machine.

use cavalcade_model::{BitsPerSec, Nanos, mix};

/// The most links between two hosts: host, edge, aggregation, core and down again.
pub const MOST_HOPS: usize = 6;

/// A link in one direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Link {
    /// What it carries.
    pub rate: BitsPerSec,
    /// How long a bit travels.
    pub delay: Nanos,
}

/// The links that a flow crosses, in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Route {
    links: [u32; MOST_HOPS],
    hops: u8,
}

impl Route {
    fn new(path: &[u32]) -> Self {
        let mut links = [0; MOST_HOPS];
        links[..path.len()].copy_from_slice(path);
        Self { links, hops: path.len() as u8 }
    }

    /// How many links it has.
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

/// How switches are connected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Shape {
    /// One switch.
    Star,
    /// Racks under one core: the only way out of a rack is its uplink.
    Tree { hosts_per_rack: u32 },
    /// Racks under several spines, each rack with a link to each spine.
    LeafSpine { hosts_per_rack: u32, spines: u32 },
}

/// Hosts, switches and links.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Network {
    hosts: u32,
    shape: Shape,
    links: Vec<Link>,
}

/// Why a network cannot be built.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NetworkError {
    /// No hosts, racks or spines.
    #[error("a network needs at least one of {what}")]
    None {
        /// What there is none of.
        what: &'static str,
    },
    /// A link that could never carry a byte.
    #[error("a link of {what} has a rate of zero: nothing could ever cross it; give it a rate above 0bps")]
    ZeroRate {
        /// Which links.
        what: &'static str,
    },
    /// A link on which a byte takes longer than the engine's clock lasts.
    #[error("the links of {what} are too slow ({rate}): the packet engine needs 1Kbps or more")]
    TooSlow {
        /// Which links.
        what: &'static str,
        /// The rate given.
        rate: BitsPerSec,
    },
    /// More links than 2³¹.
    #[error("the network is too large: at most 1073741824 pairs of links")]
    TooLarge,
}

fn checked(link: Link, what: &'static str) -> Result<Link, NetworkError> {
    match link.rate {
        BitsPerSec::ZERO => Err(NetworkError::ZeroRate { what }),
        rate if rate.get() < 1_000 => Err(NetworkError::TooSlow { what, rate }),
        _ => Ok(link),
    }
}

impl Network {
    /// `hosts` hosts on one switch.
    ///
    /// # Errors
    /// Where there are no hosts or the rate is zero.
    pub fn star(hosts: u32, link: Link) -> Result<Self, NetworkError> {
        Self::build(hosts, Shape::Star, checked(link, "hosts")?, 0, link)
    }

    /// `racks` racks of `hosts_per_rack` hosts under one core, each connected by one `uplink`.
    ///
    /// # Errors
    /// Where there is none of something or a rate is zero.
    pub fn tree(racks: u32, hosts_per_rack: u32, host: Link, uplink: Link) -> Result<Self, NetworkError> {
        let hosts = racks.checked_mul(hosts_per_rack).ok_or(NetworkError::TooLarge)?;
        let shape = Shape::Tree { hosts_per_rack };
        Self::build(hosts, shape, checked(host, "hosts")?, racks, checked(uplink, "the core")?)
    }

    /// `racks` racks of `hosts_per_rack` hosts, each rack with an `uplink` to each of `spines` spines.
    ///
    /// # Errors
    /// Where there is none of something or a rate is zero.
    pub fn leaf_spine(
        racks: u32,
        hosts_per_rack: u32,
        spines: u32,
        host: Link,
        uplink: Link,
    ) -> Result<Self, NetworkError> {
        let hosts = racks.checked_mul(hosts_per_rack).ok_or(NetworkError::TooLarge)?;
        let uplinks = racks.checked_mul(spines).ok_or(NetworkError::TooLarge)?;
        if spines == 0 {
            return Err(NetworkError::None { what: "spines" });
        }
        let shape = Shape::LeafSpine { hosts_per_rack, spines };
        Self::build(hosts, shape, checked(host, "hosts")?, uplinks, checked(uplink, "the spines")?)
    }

    fn build(hosts: u32, shape: Shape, host: Link, uplinks: u32, uplink: Link) -> Result<Self, NetworkError> {
        if hosts == 0 {
            return Err(NetworkError::None { what: "hosts" });
        }
        let pairs = hosts.checked_add(uplinks).filter(|&pairs| pairs <= 1 << 30);
        let pairs = pairs.ok_or(NetworkError::TooLarge)?;
        let of = |pair| if pair < hosts { host } else { uplink };
        let links = (0..pairs).flat_map(|pair| [of(pair); 2]).collect();
        Ok(Self { hosts, shape, links })
    }

    /// How many hosts there are.
    pub fn hosts(&self) -> u32 {
        self.hosts
    }

    /// All links.
    pub fn links(&self) -> &[Link] {
        &self.links
    }

    /// The host that `link` goes out of.
    pub fn host_of(&self, link: u32) -> Option<u32> {
        (link < 2 * self.hosts && link.is_multiple_of(2)).then_some(link / 2)
    }

    /// The link out of `host`.
    pub fn link_from(&self, host: u32) -> u32 {
        2 * host
    }

    /// The link into `host`.
    pub fn link_to(&self, host: u32) -> u32 {
        2 * host + 1
    }

    /// How many switches there are.
    pub fn switches(&self) -> u32 {
        let racks = |hosts_per_rack| self.hosts / hosts_per_rack;
        match self.shape {
            Shape::Star => 1,
            Shape::Tree { hosts_per_rack } => racks(hosts_per_rack) + 1,
            Shape::LeafSpine { hosts_per_rack, spines } => racks(hosts_per_rack) + spines,
        }
    }

    /// The switch that `link` goes out of: racks first, then the core; `None` where a host sends on it.
    pub fn switch_of(&self, link: u32) -> Option<u32> {
        if self.host_of(link).is_some() {
            return None;
        }
        let host = link < 2 * self.hosts;
        let (pair, up) = ((link / 2).wrapping_sub(self.hosts), link.is_multiple_of(2));
        let switch = match self.shape {
            Shape::Star => 0,
            Shape::Tree { hosts_per_rack } if host => link / 2 / hosts_per_rack,
            Shape::LeafSpine { hosts_per_rack, .. } if host => link / 2 / hosts_per_rack,
            Shape::Tree { hosts_per_rack } => {
                if up {
                    pair
                } else {
                    self.hosts / hosts_per_rack
                }
            }
            Shape::LeafSpine { spines, .. } if up => pair / spines,
            Shape::LeafSpine { hosts_per_rack, spines } => self.hosts / hosts_per_rack + pair % spines,
        };
        Some(switch)
    }

    /// The path of `flow` from `src` to `dst`. A flow to its own host crosses both of its links, as traces at rack level
    /// mean it.
    pub fn route(&self, src: u32, dst: u32, flow: u32) -> Route {
        let (up, down) = (self.link_from(src), self.link_to(dst));
        match self.shape {
            Shape::Star => Route::new(&[up, down]),
            Shape::Tree { hosts_per_rack } => {
                let (from, to) = (src / hosts_per_rack, dst / hosts_per_rack);
                if from == to {
                    return Route::new(&[up, down]);
                }
                Route::new(&[up, 2 * (self.hosts + from), 2 * (self.hosts + to) + 1, down])
            }
            Shape::LeafSpine { hosts_per_rack, spines } => {
                let (from, to) = (src / hosts_per_rack, dst / hosts_per_rack);
                if from == to {
                    return Route::new(&[up, down]);
                }
                let hash = mix(u64::from(src) << 32 | u64::from(dst)) ^ u64::from(flow);
                let spine = (mix(hash) % u64::from(spines)) as u32;
                let uplink = |rack: u32| self.hosts + rack * spines + spine;
                Route::new(&[up, 2 * uplink(from), 2 * uplink(to) + 1, down])
            }
        }
    }

    /// What a packet of `size` and its answer of `answer` bytes take over `route` when nothing is in their way.
    pub fn round_trip(&self, route: &Route, size: u16, answer: u16) -> Nanos {
        let over = |bytes: u16| {
            let each = |&link: &u32| {
                let Link { rate, delay } = self.links[link as usize];
                (u128::from(bytes) * 8_000_000_000_000).div_ceil(u128::from(rate.get()))
                    + u128::from(delay.get()) * 1_000
            };
            route.links().iter().map(each).sum::<u128>()
        };
        Nanos(((over(size) + over(answer)).div_ceil(1_000)).min(u128::from(u64::MAX)) as u64)
    }

    /// The longest [`Network::round_trip`] between two hosts, for links of one kind.
    pub fn longest_round_trip(&self, size: u16, answer: u16) -> Nanos {
        // From the first host to the last: no path is longer in these shapes.
        self.round_trip(&self.route(0, self.hosts - 1, 0), size, answer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINK: Link = Link { rate: BitsPerSec(10_000_000_000), delay: Nanos(1_000) };

    #[test]
    fn paths_go_up_to_the_first_common_switch_and_down() {
        let network = Network::leaf_spine(3, 4, 2, LINK, LINK).unwrap();
        assert_eq!((network.links().len(), network.switches()), (2 * (12 + 6), 5));
        assert_eq!(network.route(0, 3, 9).links(), [0, 7]);
        let far = network.route(1, 10, 9);
        assert_eq!(far.hops(), 4);
        let switches: Vec<_> = far.links().iter().map(|&link| network.switch_of(link)).collect();
        assert_eq!((switches[0], switches[1], switches[3]), (None, Some(0), Some(2)));
        assert!(switches[2] >= Some(3), "a spine");
        let back: Vec<_> = (0..4).map(|hop| far.back(hop)).collect();
        assert_eq!(back, far.links().iter().rev().map(|link| link ^ 1).collect::<Vec<_>>());
    }

    #[test]
    fn flows_spread_over_all_spines() {
        let network = Network::leaf_spine(2, 1, 4, LINK, LINK).unwrap();
        let mut flows = [0; 4];
        (0..4_000).for_each(|flow| flows[(network.route(0, 1, flow).links()[1] / 2 - 2) as usize] += 1);
        assert!(flows.iter().all(|&flows| (900..1_100).contains(&flows)), "{flows:?}");
    }

    #[test]
    fn the_round_trip_is_that_of_store_and_forward() {
        let network = Network::star(2, LINK).unwrap();
        // Two hops of 1,200 ns and 32 ns each, and four times 1 µs.
        assert_eq!(network.longest_round_trip(1_500, 40), Nanos(2 * 1_200 + 2 * 32 + 4_000));
    }

    #[test]
    fn what_could_carry_nothing_is_refused() {
        let dead = Link { rate: BitsPerSec(0), ..LINK };
        assert_eq!(Network::star(2, dead), Err(NetworkError::ZeroRate { what: "hosts" }));
        assert_eq!(Network::tree(2, 2, LINK, dead), Err(NetworkError::ZeroRate { what: "the core" }));
        assert_eq!(Network::leaf_spine(2, 2, 0, LINK, LINK), Err(NetworkError::None { what: "spines" }));
        assert_eq!(Network::star(0, LINK), Err(NetworkError::None { what: "hosts" }));
    }
}
