//! Leaf–spine: leaf switches with hosts, each with one link to every spine, so that there are as
//! many paths as spines.

use cavalcade_spec::{Complaint, Parameter};

use super::topology::{product, some};
use super::{Fabric, Level, Node, Oversubscription, Path, Tier, Topology};
use crate::{BitsPerSec, PortId};

/// Leaves and spines.
#[derive(Clone, Debug, Default)]
pub struct LeafSpine {
    /// Number of leaves.
    pub leaves: u32,
    /// Number of spines.
    pub spines: u32,
    /// Hosts at each leaf.
    pub hosts: u32,
    /// Total host rate of a leaf over the total rate of its uplinks.
    pub oversubscription: Oversubscription,
}

const LEAF: Tier = Tier { height: 1, name: "leaf", plural: "leaves" };
const SPINE: Tier = Tier { height: 2, name: "spine", plural: "spines" };

impl Topology for LeafSpine {
    const NAME: &'static str = "leafspine";
    const PARAMETERS: &'static [Parameter<Self>] = &[
        Parameter { name: "leaves", meaning: "number of leaves", field: |p| &mut p.leaves },
        Parameter { name: "spines", meaning: "number of spines", field: |p| &mut p.spines },
        Parameter { name: "hosts", meaning: "hosts at each leaf", field: |p| &mut p.hosts },
        Parameter {
            name: "oversubscription",
            meaning: "capacity of a leaf's hosts over that of its links to all spines",
            field: |p| &mut p.oversubscription,
        },
    ];

    fn check(&self) -> Result<(), Complaint> {
        some("leaves", self.leaves)?;
        some("spines", self.spines)?;
        some("hosts", self.hosts)
    }

    fn ports(&self) -> u64 {
        product([self.leaves, self.hosts])
    }

    fn levels(&self, rate: BitsPerSec) -> Vec<Level> {
        let leaf = self.oversubscription.applied(u128::from(rate.get()) * u128::from(self.hosts));
        let rate = BitsPerSec(leaf.get() / u64::from(self.spines));
        vec![Level { links: product([self.leaves, self.spines]), rate }]
    }

    fn switch_of(&self, port: u32) -> Node {
        Node::Switch(&LEAF, port / self.hosts)
    }

    fn between(&self, _: usize, nth: u32) -> [Node; 2] {
        [Node::Switch(&LEAF, nth / self.spines), Node::Switch(&SPINE, nth % self.spines)]
    }

    fn path(&self, fabric: &Fabric, src: PortId, dst: PortId) -> Option<Path> {
        let (from, to) = (src.0 / self.hosts, dst.0 / self.hosts);
        let by_spine = |spine| {
            let [up, _] = fabric.up_and_down(0, from * self.spines + spine);
            let [_, down] = fabric.up_and_down(0, to * self.spines + spine);
            [up, down]
        };
        let spine = Fabric::pick([src, dst], 0, self.spines, |spine| fabric.are_up(&by_spine(spine)))?;
        let [up, down] = by_spine(spine);
        Some(Path::new(&[fabric.ingress(src), up, down, fabric.egress(dst)]))
    }
}
