//! The description of a fabric's shape: switches by level, links between them, and the way from
//! port to port.
//!
//! A shape is a struct of parameters in a file of its own that implements [`Topology`], and a line
//! in `spec.rs`. Links between switches follow those of the ports, level by level, lowest first:
//! all that go up, then as many that go down.

use core::fmt;

use cavalcade_spec::{Complaint, Kind, Parameter, ParameterInfo, SpecError, configure, describe, print};

use super::{Fabric, FabricError, Path};
use crate::{BitsPerSec, LinkId, PortId};

/// A shape of fabric, with its parameters. `Default` has zero where there is no default.
pub trait Topology: fmt::Debug + Clone + Default + Send + Sync + 'static {
    /// Its name in specifications.
    const NAME: &'static str;
    /// Its parameters, in the order in which they are listed.
    const PARAMETERS: &'static [Parameter<Self>];

    /// Checks the parameters.
    ///
    /// # Errors
    /// Names the parameter to change, and what would be accepted.
    fn check(&self) -> Result<(), Complaint>;

    /// Counts the ports; saturates.
    fn ports(&self) -> u64;

    /// Lists the links between each level of switches and the next, lowest first, where ports have
    /// `rate`.
    fn levels(&self, rate: BitsPerSec) -> Vec<Level>;

    /// The capacity of both links of a port, where ports have `rate`: that, unless a shape has
    /// ports of several kinds.
    fn port_rate(&self, _port: u32, rate: BitsPerSec) -> BitsPerSec {
        rate
    }

    /// Names the switch at which a port's links end.
    fn switch_of(&self, port: u32) -> Node;

    /// Names the lower and the upper end of the `nth` link between a level of switches and the
    /// next.
    fn between(&self, level: usize, nth: u32) -> [Node; 2];

    /// Finds the links from `src` to `dst`, which are ports of different switches; `None` where
    /// failed links leave no way.
    fn path(&self, fabric: &Fabric, src: PortId, dst: PortId) -> Option<Path>;
}

/// The links between one level of switches and the next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Level {
    /// Number of uplinks; there are as many downlinks.
    pub links: u64,
    /// The capacity of each.
    pub rate: BitsPerSec,
}

/// A kind of switch.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Tier {
    /// Its height above the hosts, from 1.
    pub height: u8,
    /// The word for one.
    pub name: &'static str,
    /// The word for several.
    pub plural: &'static str,
}

/// Node at the end of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Node {
    /// A host, by its port.
    Host(u32),
    /// A switch, by its tier and its number there.
    Switch(&'static Tier, u32),
}

impl Node {
    /// The number of levels between it and the hosts.
    pub fn height(self) -> usize {
        match self {
            Node::Host(_) => 0,
            Node::Switch(tier, _) => tier.height.into(),
        }
    }

    /// The word for several of its kind.
    pub fn plural(self) -> &'static str {
        match self {
            Node::Host(_) => "hosts",
            Node::Switch(tier, _) => tier.plural,
        }
    }
}

impl fmt::Display for Node {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Node::Host(port) => write!(f, "port {port}"),
            Node::Switch(tier, number) => write!(f, "{} {number}", tier.name),
        }
    }
}

/// A [`Topology`] behind a trait object.
pub(super) trait Object: fmt::Debug + Send + Sync {
    fn boxed_clone(&self) -> Box<dyn Object>;
    fn name(&self) -> &'static str;
    fn parameters(&self) -> Vec<ParameterInfo>;
    fn configure(&mut self, settings: &str) -> Result<(), SpecError>;
    fn check(&self) -> Result<(), Complaint>;
    fn ports(&self) -> u64;
    fn levels(&self, rate: BitsPerSec) -> Vec<Level>;
    fn port_rate(&self, port: u32, rate: BitsPerSec) -> BitsPerSec;
    fn switch_of(&self, port: u32) -> Node;
    fn between(&self, level: usize, nth: u32) -> [Node; 2];
    fn path(&self, fabric: &Fabric, src: PortId, dst: PortId) -> Option<Path>;
}

impl<T: Topology> Object for T {
    fn boxed_clone(&self) -> Box<dyn Object> {
        Box::new(self.clone())
    }

    fn name(&self) -> &'static str {
        T::NAME
    }

    fn parameters(&self) -> Vec<ParameterInfo> {
        describe(T::PARAMETERS, self)
    }

    fn configure(&mut self, settings: &str) -> Result<(), SpecError> {
        configure((Kind::Fabric, T::NAME), T::PARAMETERS, self, settings, |shape, given| {
            Topology::check(shape).map_err(|complaint| Complaint {
                is_missing: !given.contains(&complaint.parameter),
                ..complaint
            })
        })
    }

    fn check(&self) -> Result<(), Complaint> {
        Topology::check(self)
    }

    fn ports(&self) -> u64 {
        Topology::ports(self)
    }

    fn levels(&self, rate: BitsPerSec) -> Vec<Level> {
        Topology::levels(self, rate)
    }

    fn port_rate(&self, port: u32, rate: BitsPerSec) -> BitsPerSec {
        Topology::port_rate(self, port, rate)
    }

    fn switch_of(&self, port: u32) -> Node {
        Topology::switch_of(self, port)
    }

    fn between(&self, level: usize, nth: u32) -> [Node; 2] {
        Topology::between(self, level, nth)
    }

    fn path(&self, fabric: &Fabric, src: PortId, dst: PortId) -> Option<Path> {
        Topology::path(self, fabric, src, dst)
    }
}

/// A shape of fabric with its parameters set. Shapes are equal if they print the same
/// specification.
pub struct Shape(pub(super) Box<dyn Object>);

impl Shape {
    /// A shape with these parameters.
    pub fn new(topology: impl Topology) -> Self {
        Self(Box::new(topology))
    }

    /// Its name in specifications.
    pub fn name(&self) -> &'static str {
        self.0.name()
    }

    /// Its parameters with their values.
    pub fn parameters(&self) -> Vec<ParameterInfo> {
        self.0.parameters()
    }

    /// Checks the parameters and counts the ports and the links that go up at each level.
    pub(super) fn size(&self, rate: BitsPerSec) -> Result<(u32, Vec<Level>), FabricError> {
        self.0.check().map_err(|complaint| FabricError::Shape {
            shape: self.name(),
            parameter: complaint.parameter,
            expected: complaint.expected,
        })?;
        let (ports, levels) = (self.0.ports(), self.0.levels(rate));
        let links = levels.iter().fold(ports, |sum, level| sum.saturating_add(level.links)).saturating_mul(2);
        match u32::try_from(ports) {
            Ok(ports) if links <= u64::from(MOST_LINKS) => Ok((ports, levels)),
            _ => Err(FabricError::TooLarge { most: MOST_LINKS }),
        }
    }
}

/// Links are counted in 32 bits, some of which solvers keep for themselves.
const MOST_LINKS: u32 = 1 << 30;

impl Clone for Shape {
    fn clone(&self) -> Self {
        Self(self.0.boxed_clone())
    }
}

impl fmt::Debug for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let parameters = self.parameters();
        f.write_str(&print(self.name(), parameters.iter().map(|info| (info.name, info.value.as_str()))))
    }
}

impl PartialEq for Shape {
    fn eq(&self, other: &Self) -> bool {
        self.name() == other.name() && self.parameters() == other.parameters()
    }
}

impl Eq for Shape {}

/// Fails unless `count` is at least one.
pub(super) fn some(parameter: &'static str, count: u32) -> Result<(), Complaint> {
    Complaint::unless(count > 0, parameter, "at least 1")
}

/// Multiplies counts, saturating.
pub(super) fn product<const N: usize>(counts: [u32; N]) -> u64 {
    counts.into_iter().fold(1, |product, count| product.saturating_mul(count.into()))
}

/// First link numbers of each layer between switches.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Numbering {
    pub(super) ports: u32,
    /// The first link of each level and how many of it go up.
    pub(super) levels: Vec<(u32, u32)>,
}

impl Numbering {
    pub(super) fn new(ports: u32, levels: &[Level]) -> Self {
        let mut first = 2 * ports;
        let number = |level: &Level| {
            let (begin, links) = (first, level.links as u32);
            first += 2 * links;
            (begin, links)
        };
        Self { ports, levels: levels.iter().map(number).collect() }
    }

    /// The `nth` link that goes up from a level of switches, and the one that goes down beside it.
    pub(super) fn up_and_down(&self, level: usize, nth: u32) -> [LinkId; 2] {
        let (first, links) = self.levels[level];
        [LinkId(first + nth), LinkId(first + links + nth)]
    }

    /// Of a link between switches: its level, its place among those of its direction, whether it
    /// goes down.
    pub(super) fn place_of(&self, link: LinkId) -> (usize, u32, bool) {
        let level = self.levels.partition_point(|(first, _)| *first <= link.0) - 1;
        let (first, links) = self.levels[level];
        (level, (link.0 - first) % links, link.0 - first >= links)
    }
}
