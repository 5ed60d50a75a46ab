//! The network that bytes cross: links with capacities, and the path of links between two ports.
//!
//! Four shapes:
//! - the **big switch** (Varys §3, Aalo §2): a core that never blocks, so that only the 2·n edge links can be short;
//! - the three-level **tree** of racks and pods, with one path between two hosts (Baraat §5.2);
//! - **leaf–spine**: every leaf switch has a link to every spine;
//! - the k-ary **fat-tree** (Al-Fares et al., SIGCOMM 2008, §3).
//!
//! The last two have several paths of equal length, of which a stable hash picks one (see the `route` module). Whatever the
//! shape, any link may have a capacity and delay of its own, or have failed. Everything outside this folder sees only
//! links and paths.
//!
//! # Invariants
//! - Port `p` of `n` sends on link `p` and receives on link `n + p`: every path begins and ends with such a link.
//! - A path has at most [`Path::LONGEST`] links, never the same one twice. It depends on the two ports and the fabric
//!   alone, so the packets of a pair stay in order and a flow's number decides nothing.
//!
//! # Rejected
//! - A hash over flows, as ECMP over transport ports is: paths would depend on how flows are numbered, and so would
//!   results. A pair of hosts with several flows keeps to one path here.
//! - Arbitrary graphs: routing would become a matter of its own, and no result in the field asks for it.

mod build;
mod error;
mod path;
mod route;
mod shape;
mod spec;
#[cfg(test)]
mod tests;

use crate::{BitsPerSec, LinkId, Nanos, PortId};

pub use error::FabricError;
pub use path::Path;
pub use shape::{Node, Oversubscription, Shape};
pub use spec::{Exception, FabricSpec, FabricSpecError, LinkException};

/// Links with capacities, and paths between ports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fabric {
    shape: Shape,
    /// Ingress links of all ports, egress links of all ports, then links between switches.
    capacities: Vec<BitsPerSec>,
    /// How long a byte takes along each link; empty where no link takes any time.
    delays: Vec<Nanos>,
    /// Which links have failed; empty where none has.
    failed: Vec<bool>,
}

impl Fabric {
    /// A big switch whose links all have the same `capacity`.
    ///
    /// # Errors
    /// Where there are no ports or the capacity is zero.
    pub fn big_switch(ports: u32, capacity: BitsPerSec) -> Result<Self, FabricError> {
        Self::new(Shape::BigSwitch { ports }, capacity)
    }

    /// A big switch with a capacity of its own for every ingress (what a port sends) and egress (what it receives).
    ///
    /// # Errors
    /// Where the lists are empty, differ in length, or hold a zero.
    pub fn uneven_big_switch(ingress: &[BitsPerSec], egress: &[BitsPerSec]) -> Result<Self, FabricError> {
        if ingress.len() != egress.len() {
            return Err(FabricError::Unpaired { ingress: ingress.len(), egress: egress.len() });
        }
        let shape = Shape::BigSwitch { ports: ingress.len() as u32 };
        Self::with_capacities(shape, [ingress, egress].concat())
    }

    /// What kind of fabric it is.
    pub fn shape(&self) -> &Shape {
        &self.shape
    }

    /// How many ports there are.
    pub fn ports(&self) -> u32 {
        self.shape.ports()
    }

    /// How many links there are.
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

    /// How long a byte takes along `link`: what it spends on the way, not what sending it takes. The fluid simulation has
    /// no use for it.
    pub fn delay(&self, link: LinkId) -> Nanos {
        self.delays.get(link.index()).copied().unwrap_or(Nanos::ZERO)
    }

    /// Whether `link` carries nothing any more.
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

    /// Whether only the ports' own links can be short, so that every path is one ingress and one egress.
    #[inline]
    pub fn is_one_switch(&self) -> bool {
        self.shape.is_one_switch()
    }

    /// Where a link begins and where it ends.
    pub fn ends(&self, link: LinkId) -> [Node; 2] {
        self.shape.ends(link)
    }

    /// The link that goes the other way: two nodes that are connected have one in each direction.
    pub fn twin(&self, link: LinkId) -> LinkId {
        self.shape.twin(link)
    }

    /// The link in words: "ingress of port 3", "rack 2 to pod 0".
    pub fn link_name(&self, link: LinkId) -> String {
        let ports = self.ports();
        if link.0 < ports {
            format!("ingress of port {}", link.0)
        } else if link.0 < 2 * ports {
            format!("egress of port {}", link.0 - ports)
        } else {
            let [from, to] = self.ends(link);
            format!("{from} to {to}")
        }
    }

    /// The link of this name, as [`Fabric::link_name`] gives it.
    ///
    /// # Errors
    /// Where there is none.
    pub fn link_named(&self, name: &str) -> Result<LinkId, FabricError> {
        // A look at every name: this is asked once for each exception in a file, and there are few.
        let found = self.links().find(|&link| self.link_name(link) == name);
        found.ok_or_else(|| FabricError::NoSuchLink {
            name: name.to_owned(),
            example: self.link_name(LinkId::from_index(self.link_count() - 1)),
        })
    }
}
