//! The network that bytes cross: links with capacities, and the path of links between two ports.
//!
//! Four shapes:
//! - the **big switch** (Varys §3, Aalo §2): a core that never blocks, so that only the 2·n edge
//!   links can be short;
//! - the three-level **tree** of racks and pods, with one path between two hosts (Baraat §5.2);
//! - **leaf–spine**: every leaf switch has a link to every spine;
//! - the k-ary **fat-tree** (Al-Fares et al., SIGCOMM 2008, §3).
//!
//! The last two have several paths of equal length, of which a stable hash picks one (see the
//! `route` module). Whatever the shape, any link may have a capacity and delay of its own, or have
//! failed. Everything outside this folder sees only links and paths.
//!
//! # Invariants
//! - Port `p` of `n` sends on link `p` and receives on link `n + p`: every path begins and ends
//!   with such a link.
//! - A path has at most [`Path::LONGEST`] links, never the same one twice. It depends on the two
//!   ports and the fabric alone, so the packets of a pair stay in order and a flow's number decides
//!   nothing.
//!
//! # Rejected
//! - A hash over flows, as ECMP over transport ports is: paths would depend on how flows are
//!   numbered, and so would results. A pair of hosts with several flows keeps to one path here.
//! - Arbitrary graphs: routing would become a matter of its own, and no result in the field asks
//!   for it.

mod big_switch;
mod build;
mod contended;
mod error;
mod fat_tree;
mod leaf_spine;
mod oversubscription;
mod path;
mod route;
mod spec;
#[cfg(test)]
mod tests;
mod topology;
mod tree;

use crate::{BitsPerSec, LinkId, Nanos, PortId};

pub use big_switch::BigSwitch;
pub use contended::Contended;
pub use error::FabricError;
pub use fat_tree::FatTree;
pub use leaf_spine::LeafSpine;
pub use oversubscription::Oversubscription;
pub use path::Path;
pub use spec::{Exception, FabricSpec, FabricSpecError, LinkException, shapes};
pub use topology::{Level, Node, Shape, Tier, Topology};
pub use tree::Tree;

use topology::Numbering;

/// Links with capacities, and paths between ports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fabric {
    shape: Shape,
    numbering: Numbering,
    /// True if every path is one ingress and one egress link.
    is_one_switch: bool,
    /// Ingress links of all ports, egress links of all ports, then links between switches.
    capacities: Vec<BitsPerSec>,
    /// Propagation delay of each link; empty if all are zero.
    delays: Vec<Nanos>,
    /// Failed links; empty if none has failed.
    failed: Vec<bool>,
}

impl Fabric {
    /// A big switch whose links all have the same `capacity`.
    ///
    /// # Errors
    /// If there are no ports or the capacity is zero.
    pub fn big_switch(ports: u32, capacity: BitsPerSec) -> Result<Self, FabricError> {
        Self::new(Shape::new(BigSwitch { ports }), capacity)
    }

    /// A big switch with a capacity of its own for every ingress (what a port sends) and egress
    /// (what it receives).
    ///
    /// # Errors
    /// If the lists are empty, differ in length, or hold a zero.
    pub fn uneven_big_switch(ingress: &[BitsPerSec], egress: &[BitsPerSec]) -> Result<Self, FabricError> {
        if ingress.len() != egress.len() {
            return Err(FabricError::Unpaired { ingress: ingress.len(), egress: egress.len() });
        }
        let mut fabric = Self::big_switch(ingress.len() as u32, BitsPerSec(1))?;
        fabric.capacities = [ingress, egress].concat();
        fabric.checked()
    }

    /// Returns the fabric's shape.
    pub fn shape(&self) -> &Shape {
        &self.shape
    }

    /// Returns the number of ports.
    pub fn ports(&self) -> u32 {
        self.numbering.ports
    }

    /// Returns the number of links.
    pub fn link_count(&self) -> usize {
        self.capacities.len()
    }

    /// All links.
    pub fn links(&self) -> impl Iterator<Item = LinkId> + use<> {
        (0..self.capacities.len()).map(LinkId::from_index)
    }

    /// The capacity of `link`, also where it has failed.
    pub fn capacity(&self, link: LinkId) -> BitsPerSec {
        self.capacities[link.index()]
    }

    /// Returns the propagation delay of `link`, without transmission. The fluid simulation does not
    /// use it.
    pub fn delay(&self, link: LinkId) -> Nanos {
        self.delays.get(link.index()).copied().unwrap_or(Nanos::ZERO)
    }

    /// Returns whether `link` carries nothing any more.
    pub fn has_failed(&self, link: LinkId) -> bool {
        self.failed.get(link.index()).copied().unwrap_or(false)
    }

    /// The link on which `port` sends.
    pub fn ingress(&self, port: PortId) -> LinkId {
        LinkId(port.0)
    }

    /// The link on which `port` receives.
    pub fn egress(&self, port: PortId) -> LinkId {
        LinkId(self.ports() + port.0)
    }

    /// Returns whether only the ports' own links can be short, so that every path is one ingress
    /// and one egress.
    #[inline]
    pub fn is_one_switch(&self) -> bool {
        self.is_one_switch
    }

    /// The nodes at which a link begins and ends.
    pub fn ends(&self, link: LinkId) -> [Node; 2] {
        let ports = self.ports();
        if link.0 < ports {
            return [Node::Host(link.0), self.shape.0.switch_of(link.0)];
        } else if link.0 < 2 * ports {
            let port = link.0 - ports;
            return [self.shape.0.switch_of(port), Node::Host(port)];
        }
        let (level, nth, down) = self.numbering.place_of(link);
        let [below, above] = self.shape.0.between(level, nth);
        if down { [above, below] } else { [below, above] }
    }

    /// The link that goes the other way: two nodes that are connected have one in each direction.
    pub fn twin(&self, link: LinkId) -> LinkId {
        let ports = self.ports();
        if link.0 < 2 * ports {
            return LinkId((link.0 + ports) % (2 * ports));
        }
        let (level, nth, down) = self.numbering.place_of(link);
        self.up_and_down(level, nth)[usize::from(!down)]
    }

    /// The `nth` link that goes up from a level of switches, and the one that goes down beside it.
    pub fn up_and_down(&self, level: usize, nth: u32) -> [LinkId; 2] {
        self.numbering.up_and_down(level, nth)
    }

    /// The link in words: "ingress of port 3", "rack 2 to pod 0".
    pub fn link_name(&self, link: LinkId) -> String {
        self.link_name_by(link, |port| format!("port {port}"))
    }

    /// The link in words, with the names that `name` gives to ports.
    pub(crate) fn link_name_by(&self, link: LinkId, name: impl Fn(PortId) -> String) -> String {
        let ports = self.ports();
        if link.0 < ports {
            format!("ingress of {}", name(PortId(link.0)))
        } else if link.0 < 2 * ports {
            format!("egress of {}", name(PortId(link.0 - ports)))
        } else {
            let [from, to] = self.ends(link);
            format!("{from} to {to}")
        }
    }

    /// The link of this name, as [`Fabric::link_name`] gives it.
    ///
    /// # Errors
    /// If no link has this name.
    pub fn link_named(&self, name: &str) -> Result<LinkId, FabricError> {
        // A look at every name: this is asked once for each exception in a file, and there are few.
        let found = self.links().find(|&link| self.link_name(link) == name);
        found.ok_or_else(|| FabricError::NoSuchLink {
            name: name.to_owned(),
            example: self.link_name(LinkId::from_index(self.link_count() - 1)),
        })
    }
}
