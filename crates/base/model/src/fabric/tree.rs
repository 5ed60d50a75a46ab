//! The tree: hosts in racks, racks in pods, pods under one core; one path between two hosts (Baraat
//! §5.2).

use cavalcade_spec::{Complaint, Parameter};

use super::topology::{product, some};
use super::{Fabric, Level, Node, Oversubscription, Path, Tier, Topology};
use crate::{BitsPerSec, PortId};

/// A tree of racks and pods.
#[derive(Clone, Debug, Default)]
pub struct Tree {
    /// Number of pods.
    pub pods: u32,
    /// Racks in each pod.
    pub racks: u32,
    /// Hosts in each rack.
    pub hosts: u32,
    /// Total host rate of a rack over the rate of its uplink.
    pub oversubscription: Oversubscription,
    /// Total rack rate of a pod over the rate of its uplink.
    pub pod_oversubscription: Oversubscription,
}

const RACK: Tier = Tier { height: 1, name: "rack", plural: "racks" };
const POD: Tier = Tier { height: 2, name: "pod", plural: "pods" };
const CORE: Tier = Tier { height: 3, name: "core", plural: "core" };

impl Topology for Tree {
    const NAME: &'static str = "tree";
    const PARAMETERS: &'static [Parameter<Self>] = &[
        Parameter { name: "pods", meaning: "number of pods", field: |p| &mut p.pods },
        Parameter { name: "racks", meaning: "racks in each pod", field: |p| &mut p.racks },
        Parameter { name: "hosts", meaning: "hosts in each rack", field: |p| &mut p.hosts },
        Parameter {
            name: "oversubscription",
            meaning: "capacity of a rack's hosts over that of its link to the pod",
            field: |p| &mut p.oversubscription,
        },
        Parameter {
            name: "pod_oversubscription",
            meaning: "capacity of a pod's racks over that of its link to the core",
            field: |p| &mut p.pod_oversubscription,
        },
    ];

    fn check(&self) -> Result<(), Complaint> {
        some("pods", self.pods)?;
        some("racks", self.racks)?;
        some("hosts", self.hosts)
    }

    fn ports(&self) -> u64 {
        product([self.pods, self.racks, self.hosts])
    }

    fn levels(&self, rate: BitsPerSec) -> Vec<Level> {
        let rack = self.oversubscription.applied(u128::from(rate.get()) * u128::from(self.hosts));
        let pod = self.pod_oversubscription.applied(u128::from(rack.get()) * u128::from(self.racks));
        vec![
            Level { links: product([self.pods, self.racks]), rate: rack },
            Level { links: self.pods.into(), rate: pod },
        ]
    }

    fn switch_of(&self, port: u32) -> Node {
        Node::Switch(&RACK, port / self.hosts)
    }

    fn between(&self, level: usize, nth: u32) -> [Node; 2] {
        match level {
            0 => [Node::Switch(&RACK, nth), Node::Switch(&POD, nth / self.racks)],
            _ => [Node::Switch(&POD, nth), Node::Switch(&CORE, 0)],
        }
    }

    fn path(&self, fabric: &Fabric, src: PortId, dst: PortId) -> Option<Path> {
        let (first, last) = (fabric.ingress(src), fabric.egress(dst));
        let (from, to) = (src.0 / self.hosts, dst.0 / self.hosts);
        let [up, _] = fabric.up_and_down(0, from);
        let [_, down] = fabric.up_and_down(0, to);
        if from / self.racks == to / self.racks {
            return Some(Path::new(&[first, up, down, last]));
        }
        let [pod_up, _] = fabric.up_and_down(1, from / self.racks);
        let [_, pod_down] = fabric.up_and_down(1, to / self.racks);
        Some(Path::new(&[first, up, pod_up, pod_down, down, last]))
    }
}
