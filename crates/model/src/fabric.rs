//! The network that bytes cross: links with capacities, and the path of links between two ports.
//!
//! The big switch (Varys §3, Aalo §2) is a non-blocking core: only the 2·n edge links can be bottlenecks. Ingress and
//! egress may differ and ports may differ. Everything outside this file sees only links and paths, so trees and
//! leaf–spines are a new constructor here, not a change elsewhere.

use crate::{BitsPerSec, LinkId, PortId};

/// Links with capacities, and paths between ports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fabric {
    ports: u32,
    /// Ingress links of all ports, then egress links of all ports.
    capacities: Vec<BitsPerSec>,
}

/// The links that a flow crosses, in order. On the big switch: the source's ingress link and the destination's egress
/// link.
pub type Path = [LinkId; 2];

/// Why a fabric cannot be built.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FabricError {
    /// No ports at all.
    #[error("a fabric needs at least one port")]
    NoPorts,
    /// A link that could never carry a byte.
    #[error("{link} has a capacity of zero: nothing could ever cross it; give it a rate above 0bps")]
    ZeroCapacity {
        /// "ingress of port 3" or "egress of port 3".
        link: String,
    },
    /// The two lists of capacities differ in length.
    #[error("{ingress} ingress but {egress} egress capacities: give one of each for every port")]
    Unpaired {
        /// How many ingress capacities were given.
        ingress: usize,
        /// How many egress capacities were given.
        egress: usize,
    },
}

impl Fabric {
    /// A big switch whose links all have the same `capacity`.
    ///
    /// # Errors
    /// Where there are no ports or the capacity is zero.
    pub fn big_switch(ports: u32, capacity: BitsPerSec) -> Result<Self, FabricError> {
        let each = vec![capacity; ports as usize];
        Self::uneven_big_switch(&each, &each)
    }

    /// A big switch with a capacity of its own for every ingress (what a port sends) and egress (what it receives).
    ///
    /// # Errors
    /// Where the lists are empty, differ in length, or hold a zero.
    pub fn uneven_big_switch(ingress: &[BitsPerSec], egress: &[BitsPerSec]) -> Result<Self, FabricError> {
        if ingress.len() != egress.len() {
            return Err(FabricError::Unpaired { ingress: ingress.len(), egress: egress.len() });
        }
        if ingress.is_empty() {
            return Err(FabricError::NoPorts);
        }
        let fabric = Self { ports: ingress.len() as u32, capacities: [ingress, egress].concat() };
        match fabric.links().find(|&link| fabric.capacity(link) == BitsPerSec::ZERO) {
            Some(link) => Err(FabricError::ZeroCapacity { link: fabric.link_name(link) }),
            None => Ok(fabric),
        }
    }

    /// How many ports there are.
    pub fn ports(&self) -> u32 {
        self.ports
    }

    /// How many links there are.
    pub fn link_count(&self) -> usize {
        self.capacities.len()
    }

    /// All links.
    pub fn links(&self) -> impl Iterator<Item = LinkId> + use<> {
        (0..self.capacities.len()).map(LinkId::from_index)
    }

    /// The capacity of `link`.
    pub fn capacity(&self, link: LinkId) -> BitsPerSec {
        self.capacities[link.index()]
    }

    /// The link on which `port` sends.
    pub fn ingress(&self, port: PortId) -> LinkId {
        LinkId(port.0)
    }

    /// The link on which `port` receives.
    pub fn egress(&self, port: PortId) -> LinkId {
        LinkId(self.ports + port.0)
    }

    /// The links from `src` to `dst`. A flow from a port to itself crosses both links of that port, as traces at rack
    /// level mean it.
    pub fn path(&self, src: PortId, dst: PortId) -> Path {
        [self.ingress(src), self.egress(dst)]
    }

    /// The link in words: "ingress of port 3".
    pub fn link_name(&self, link: LinkId) -> String {
        if link.0 < self.ports {
            format!("ingress of port {}", link.0)
        } else {
            format!("egress of port {}", link.0 - self.ports)
        }
    }
}
