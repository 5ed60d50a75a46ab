//! The big switch: a core that never blocks, so that only the ports' own links can be short (Varys
//! §3, Aalo §2).

use cavalcade_spec::{Complaint, Parameter};

use super::topology::some;
use super::{Fabric, Level, Node, Path, Tier, Topology};
use crate::{BitsPerSec, PortId};

/// A switch with so many ports.
#[derive(Clone, Debug, Default)]
pub struct BigSwitch {
    /// Number of ports.
    pub ports: u32,
}

const SWITCH: Tier = Tier { height: 1, name: "switch", plural: "one switch that never blocks" };

impl Topology for BigSwitch {
    const NAME: &'static str = "bigswitch";
    const PARAMETERS: &'static [Parameter<Self>] =
        &[Parameter { name: "ports", meaning: "number of ports", field: |p| &mut p.ports }];

    fn check(&self) -> Result<(), Complaint> {
        some("ports", self.ports)
    }

    fn ports(&self) -> u64 {
        self.ports.into()
    }

    fn levels(&self, _: BitsPerSec) -> Vec<Level> {
        Vec::new()
    }

    fn switch_of(&self, _: u32) -> Node {
        Node::Switch(&SWITCH, 0)
    }

    fn between(&self, _: usize, _: u32) -> [Node; 2] {
        unreachable!("a big switch has no links between switches")
    }

    fn path(&self, _: &Fabric, _: PortId, _: PortId) -> Option<Path> {
        unreachable!("a big switch has no two switches")
    }
}
