//! The k-ary fat-tree: k pods of k/2 edge and k/2 aggregation switches, (k/2)² core switches, k/2
//! hosts at each edge (Al-Fares et al., SIGCOMM 2008, §3). All links are alike.

use cavalcade_spec::{Complaint, Parameter};

use super::topology::product;
use super::{Fabric, Level, Node, Path, Tier, Topology};
use crate::{BitsPerSec, PortId};

/// A fat-tree of an arity.
#[derive(Clone, Debug, Default)]
pub struct FatTree {
    /// k.
    pub arity: u32,
}

const EDGE: Tier = Tier { height: 1, name: "edge", plural: "edge switches" };
const AGGREGATION: Tier = Tier { height: 2, name: "aggregation", plural: "aggregation switches" };
const CORE: Tier = Tier { height: 3, name: "core", plural: "core" };

impl Topology for FatTree {
    const NAME: &'static str = "fattree";
    const PARAMETERS: &'static [Parameter<Self>] = &[Parameter {
        name: "arity",
        meaning: "k: the ports of a switch, an even number",
        field: |p| &mut p.arity,
    }];

    fn check(&self) -> Result<(), Complaint> {
        let usable = self.arity >= 2 && self.arity.is_multiple_of(2);
        Complaint::unless(usable, "arity", "an even number, at least 2")
    }

    fn ports(&self) -> u64 {
        product([self.arity, self.arity / 2, self.arity / 2])
    }

    fn levels(&self, rate: BitsPerSec) -> Vec<Level> {
        vec![Level { links: Topology::ports(self), rate }; 2]
    }

    fn switch_of(&self, port: u32) -> Node {
        Node::Switch(&EDGE, port / (self.arity / 2))
    }

    fn between(&self, level: usize, nth: u32) -> [Node; 2] {
        let half = self.arity / 2;
        let switch = nth / half;
        match level {
            0 => {
                let above = switch / half * half + nth % half;
                [Node::Switch(&EDGE, switch), Node::Switch(&AGGREGATION, above)]
            }
            _ => {
                let core = switch % half * half + nth % half;
                [Node::Switch(&AGGREGATION, switch), Node::Switch(&CORE, core)]
            }
        }
    }

    fn path(&self, fabric: &Fabric, src: PortId, dst: PortId) -> Option<Path> {
        let half = self.arity / 2;
        let (first, last) = (fabric.ingress(src), fabric.egress(dst));
        let (from, to) = (src.0 / half, dst.0 / half);
        let edge_links = |switch| {
            let [up, _] = fabric.up_and_down(0, from * half + switch);
            let [_, down] = fabric.up_and_down(0, to * half + switch);
            [up, down]
        };
        if from / half == to / half {
            let switch = Fabric::pick([src, dst], 0, half, |switch| fabric.are_up(&edge_links(switch)))?;
            let [up, down] = edge_links(switch);
            return Some(Path::new(&[first, up, down, last]));
        }
        // Aggregation switches of the same place in their pods share their cores.
        let core_links = |switch, core| {
            let [up, _] = fabric.up_and_down(1, (from / half * half + switch) * half + core);
            let [_, down] = fabric.up_and_down(1, (to / half * half + switch) * half + core);
            [up, down]
        };
        let leads_there = |switch| {
            fabric.are_up(&edge_links(switch))
                && (0..half).any(|core| fabric.are_up(&core_links(switch, core)))
        };
        let switch = Fabric::pick([src, dst], 0, half, leads_there)?;
        let core = Fabric::pick([src, dst], 1, half, |core| fabric.are_up(&core_links(switch, core)))?;
        let ([up, down], [core_up, core_down]) = (edge_links(switch), core_links(switch, core));
        Some(Path::new(&[first, up, core_up, core_down, down, last]))
    }
}
