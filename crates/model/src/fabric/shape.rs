//! The shapes: how many hosts, switches and links, how links are numbered, and what they are called.
//!
//! Links between switches follow those of the ports, in blocks; each block goes up or down one level:
//!
//! | shape | blocks |
//! |---|---|
//! | tree | rack to pod, pod to rack, by rack; pod to core, core to pod, by pod |
//! | leaf–spine | leaf to spine, spine to leaf, by leaf and then spine |
//! | fat-tree | edge to aggregation and back, by edge and then aggregation of the pod; aggregation to core and back, by aggregation and then core |

use core::fmt;
use core::str::FromStr;

use super::FabricError;
use crate::{BitsPerSec, LinkId};

/// What a fabric looks like. Ports are numbered along the lowest level: all hosts of the first rack, then of the second.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// A core that never blocks.
    BigSwitch {
        /// How many ports there are.
        ports: u32,
    },
    /// Hosts in racks, racks in pods, pods under one core; one path between two hosts (Baraat §5.2).
    Tree {
        /// How many pods there are.
        pods: u32,
        /// Racks in each pod.
        racks: u32,
        /// Hosts in each rack.
        hosts: u32,
        /// What a rack's hosts can send over what its link to the pod carries.
        oversubscription: Oversubscription,
        /// What a pod's racks can send over what its link to the core carries.
        pod_oversubscription: Oversubscription,
    },
    /// Leaf switches with hosts, each with one link to every spine.
    LeafSpine {
        /// How many leaves there are.
        leaves: u32,
        /// How many spines there are.
        spines: u32,
        /// Hosts at each leaf.
        hosts: u32,
        /// What a leaf's hosts can send over what its links to all spines carry.
        oversubscription: Oversubscription,
    },
    /// The k-ary fat-tree: k pods of k/2 edge and k/2 aggregation switches, (k/2)² core switches, k/2 hosts at each edge.
    FatTree {
        /// k.
        arity: u32,
    },
}

/// How much more could come in below than fits out above, in thousandths: 2:1 is 2000.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Oversubscription(u64);

/// What is at the end of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Node {
    /// A host, by its port.
    Host(u32),
    /// The one switch of a big switch.
    Switch,
    /// A rack's switch of a tree, counted over all pods.
    Rack(u32),
    /// A pod's switch of a tree.
    Pod(u32),
    /// The switch above all pods of a tree (0), or a core switch of a fat-tree.
    Core(u32),
    /// A leaf switch.
    Leaf(u32),
    /// A spine switch.
    Spine(u32),
    /// An edge switch of a fat-tree, counted over all pods.
    Edge(u32),
    /// An aggregation switch of a fat-tree, counted over all pods.
    Aggregation(u32),
}

impl fmt::Display for Node {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Node::Host(port) => write!(f, "port {port}"),
            Node::Switch => write!(f, "switch"),
            Node::Rack(rack) => write!(f, "rack {rack}"),
            Node::Pod(pod) => write!(f, "pod {pod}"),
            Node::Core(core) => write!(f, "core {core}"),
            Node::Leaf(leaf) => write!(f, "leaf {leaf}"),
            Node::Spine(spine) => write!(f, "spine {spine}"),
            Node::Edge(edge) => write!(f, "edge {edge}"),
            Node::Aggregation(switch) => write!(f, "aggregation {switch}"),
        }
    }
}

impl Oversubscription {
    /// As much out as in.
    pub const NONE: Self = Self(1000);

    /// So many thousandths.
    ///
    /// # Errors
    /// Where it is zero.
    pub fn from_thousandths(thousandths: u64) -> Result<Self, FabricError> {
        match thousandths {
            0 => Err(FabricError::BadOversubscription { given: "0".to_owned() }),
            some => Ok(Self(some)),
        }
    }

    /// What is left of `rate` behind it, rounded down.
    pub(super) fn applied(self, rate: u128) -> BitsPerSec {
        BitsPerSec(u64::try_from(rate * 1000 / u128::from(self.0)).unwrap_or(u64::MAX))
    }
}

impl fmt::Display for Oversubscription {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (whole, part) = (self.0 / 1000, self.0 % 1000);
        if part == 0 {
            write!(f, "{whole}")
        } else {
            write!(f, "{whole}.{}", format!("{part:03}").trim_end_matches('0'))
        }
    }
}

impl FromStr for Oversubscription {
    type Err = FabricError;

    fn from_str(text: &str) -> Result<Self, FabricError> {
        let error = || FabricError::BadOversubscription { given: text.to_owned() };
        let (whole, part) = text.split_once('.').unwrap_or((text, "0"));
        let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        if !digits(whole) || !digits(part) || part.len() > 3 {
            return Err(error());
        }
        let number = |text: &str| text.parse::<u64>().map_err(|_| error());
        let thousandths = number(&format!("{part:0<3}"))?;
        let all = number(whole)?.checked_mul(1000).and_then(|whole| whole.checked_add(thousandths));
        all.filter(|&all| all > 0).map(Self).ok_or_else(error)
    }
}

/// Links between switches of one level and the next, as many up as down: the first of them, and how many go each way.
struct Level {
    first: u32,
    links: u32,
}

impl Shape {
    /// How many ports there are.
    pub fn ports(&self) -> u32 {
        match *self {
            Shape::BigSwitch { ports } => ports,
            Shape::Tree { pods, racks, hosts, .. } => pods * racks * hosts,
            Shape::LeafSpine { leaves, hosts, .. } => leaves * hosts,
            Shape::FatTree { arity } => arity * (arity / 2) * (arity / 2),
        }
    }

    /// Its name in specifications.
    pub fn name(&self) -> &'static str {
        match self {
            Shape::BigSwitch { .. } => "bigswitch",
            Shape::Tree { .. } => "tree",
            Shape::LeafSpine { .. } => "leafspine",
            Shape::FatTree { .. } => "fattree",
        }
    }

    /// Whether every path is one ingress and one egress link.
    #[inline]
    pub(super) fn is_one_switch(&self) -> bool {
        match *self {
            Shape::BigSwitch { .. } => true,
            Shape::Tree { pods, racks, .. } => pods * racks == 1,
            Shape::LeafSpine { leaves, .. } => leaves == 1,
            Shape::FatTree { .. } => false,
        }
    }

    /// Links that go up from each level of switches, lowest first; as many go down.
    pub(super) fn upward(&self) -> [u64; 2] {
        match *self {
            Shape::BigSwitch { .. } => [0, 0],
            Shape::Tree { pods, racks, .. } => [u64::from(pods) * u64::from(racks), u64::from(pods)],
            Shape::LeafSpine { leaves, spines, .. } => [u64::from(leaves) * u64::from(spines), 0],
            Shape::FatTree { arity } => {
                let half = u64::from(arity / 2);
                [u64::from(arity) * half * half; 2]
            }
        }
    }

    fn level(&self, level: usize) -> Level {
        let [lower, upper] = self.upward().map(|links| links as u32);
        let first = 2 * self.ports();
        if level == 0 {
            Level { first, links: lower }
        } else {
            Level { first: first + 2 * lower, links: upper }
        }
    }

    /// The `nth` link that goes up from a level of switches, and the one that goes down beside it.
    pub(super) fn up_and_down(&self, level: usize, nth: u32) -> [LinkId; 2] {
        let Level { first, links } = self.level(level);
        [LinkId(first + nth), LinkId(first + links + nth)]
    }

    /// The switch at which a port's links end.
    pub(super) fn switch_of(&self, port: u32) -> Node {
        match *self {
            Shape::BigSwitch { .. } => Node::Switch,
            Shape::Tree { hosts, .. } => Node::Rack(port / hosts),
            Shape::LeafSpine { hosts, .. } => Node::Leaf(port / hosts),
            Shape::FatTree { arity } => Node::Edge(port / (arity / 2)),
        }
    }

    /// Where a link begins and where it ends.
    pub(super) fn ends(&self, link: LinkId) -> [Node; 2] {
        let ports = self.ports();
        if link.0 < ports {
            return [Node::Host(link.0), self.switch_of(link.0)];
        } else if link.0 < 2 * ports {
            let port = link.0 - ports;
            return [self.switch_of(port), Node::Host(port)];
        }
        let (level, nth, down) = self.place_of(link);
        let (below, above) = self.between(level, nth);
        if down { [above, below] } else { [below, above] }
    }

    /// The link that goes the other way.
    pub(super) fn twin(&self, link: LinkId) -> LinkId {
        let ports = self.ports();
        if link.0 < 2 * ports {
            return LinkId((link.0 + ports) % (2 * ports));
        }
        let (level, nth, down) = self.place_of(link);
        self.up_and_down(level, nth)[usize::from(!down)]
    }

    /// Of a link between switches: its level, its place among those of its direction, whether it goes down.
    fn place_of(&self, link: LinkId) -> (usize, u32, bool) {
        let level = usize::from(link.0 >= self.level(1).first);
        let Level { first, links } = self.level(level);
        (level, (link.0 - first) % links, link.0 - first >= links)
    }

    /// The lower and the upper end of the `nth` links between a level of switches and the next.
    fn between(&self, level: usize, nth: u32) -> (Node, Node) {
        match (*self, level) {
            (Shape::Tree { racks, .. }, 0) => (Node::Rack(nth), Node::Pod(nth / racks)),
            (Shape::Tree { .. }, _) => (Node::Pod(nth), Node::Core(0)),
            (Shape::LeafSpine { spines, .. }, _) => (Node::Leaf(nth / spines), Node::Spine(nth % spines)),
            (Shape::FatTree { arity }, 0) => {
                let half = arity / 2;
                let edge = nth / half;
                (Node::Edge(edge), Node::Aggregation(edge / half * half + nth % half))
            }
            (Shape::FatTree { arity }, _) => {
                let half = arity / 2;
                let switch = nth / half;
                (Node::Aggregation(switch), Node::Core(switch % half * half + nth % half))
            }
            (Shape::BigSwitch { .. }, _) => unreachable!("a big switch has no links between switches"),
        }
    }
}
