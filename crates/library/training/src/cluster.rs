//! A cluster of GPUs: hosts whose GPUs reach each other over a scale-up network and other hosts
//! through network cards.
//!
//! A GPU sends on two ports. Those of network cards come first, **rail by rail** (port = rail ×
//! hosts + host), so that GPUs of one place in their hosts have neighbouring ports; those of the
//! scale-up network follow, host by host. Network cards meet at one switch that never blocks, or at
//! leaves below spines: a leaf for some hosts of one rail (rail-optimised), or for all cards of
//! some hosts. To the rest of the program a cluster is one more shape of fabric.
//!
//! Rejected: two fabrics side by side, since every driver would have to hold both.

use cavalcade_model::{
    BitsPerSec, Fabric, FabricError, FabricSpec, Level, LinkId, Nanos, Node, Oversubscription, Path, PortId,
    Shape, Tier, Topology,
};
use cavalcade_spec::{Complaint, Parameter};

/// A GPU by its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Gpu {
    /// The host.
    pub host: u32,
    /// The GPU's place in the host, from 0.
    pub place: u32,
}

/// Leaves and spines between network cards.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Leaves {
    /// Hosts at each leaf.
    pub hosts: u32,
    /// Number of spines; each leaf has a link to each.
    pub spines: u32,
    /// The capacity of a leaf's cards over that of its links to all spines.
    pub oversubscription: Oversubscription,
    /// A leaf has cards of one rail; else all cards of its hosts.
    pub by_rail: bool,
}

/// A cluster, checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cluster {
    shape: Gpus,
    nic: BitsPerSec,
    alpha: Nanos,
    scale_up_alpha: Nanos,
}

/// Properties of a cluster before they are checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClusterOptions {
    /// Number of hosts.
    pub hosts: u32,
    /// GPUs of each host.
    pub gpus: u32,
    /// Network cards of each host; GPUs share them in order.
    pub nics: u32,
    /// The rate of a network card in each direction.
    pub nic: BitsPerSec,
    /// The rate of a GPU's scale-up port in each direction; `None` where hosts have no such
    /// network, and GPUs of one host communicate through their network cards.
    pub scale_up: Option<BitsPerSec>,
    /// Leaves and spines; `None` for one switch that never blocks.
    pub leaves: Option<Leaves>,
    /// The latency of each step of a collective between hosts.
    pub alpha: Nanos,
    /// The latency of each step of a collective inside a host.
    pub scale_up_alpha: Nanos,
}

/// A cluster that cannot be. Names are those of a jobs file.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ClusterError {
    /// A number that must not be zero.
    #[error("{what} is 0: expected at least 1")]
    Zero {
        /// The number.
        what: &'static str,
    },
    /// Network cards that GPUs cannot share evenly.
    #[error("{gpus} GPUs cannot share {nics} network cards evenly: expected nics that divide gpus")]
    Uneven {
        /// GPUs of a host.
        gpus: u32,
        /// Its network cards.
        nics: u32,
    },
    /// Too many ports.
    #[error("the cluster has more than {most} ports: expected fewer hosts or GPUs")]
    TooLarge {
        /// The most.
        most: u32,
    },
    /// Leaves and spines that make no fabric.
    #[error("the cluster has no fabric: {0}")]
    Fabric(#[from] FabricError),
}

/// The most ports of a cluster.
const MOST_PORTS: u32 = 1 << 22;

impl Cluster {
    /// Checks a cluster.
    ///
    /// # Errors
    /// What cannot be, by its name in a jobs file.
    pub fn new(options: &ClusterOptions) -> Result<Self, ClusterError> {
        let ClusterOptions { hosts, gpus, nics, nic, scale_up, leaves, alpha, scale_up_alpha } = *options;
        let numbers = [
            ("hosts", u64::from(hosts)),
            ("gpus", gpus.into()),
            ("nics", nics.into()),
            ("nic", nic.get()),
            ("scale_up", scale_up.map_or(1, BitsPerSec::get)),
            ("leaf_hosts", leaves.map_or(1, |leaves| leaves.hosts).into()),
            ("spines", leaves.map_or(1, |leaves| leaves.spines).into()),
        ];
        if let Some(&(what, _)) = numbers.iter().find(|(_, number)| *number == 0) {
            return Err(ClusterError::Zero { what });
        }
        if nics > gpus || gpus % nics != 0 {
            return Err(ClusterError::Uneven { gpus, nics });
        }
        let ports = u64::from(hosts).saturating_mul(u64::from(gpus) + u64::from(nics));
        if ports > u64::from(MOST_PORTS) {
            return Err(ClusterError::TooLarge { most: MOST_PORTS });
        }
        let leaf = leaves.unwrap_or(Leaves {
            hosts: 0,
            spines: 0,
            oversubscription: Oversubscription::NONE,
            by_rail: false,
        });
        let shape = Gpus {
            hosts,
            gpus,
            nics,
            scale_up,
            leaf_hosts: leaf.hosts,
            spines: leaf.spines,
            oversubscription: leaf.oversubscription,
            by_rail: leaf.by_rail,
        };
        let cluster = Self { shape, nic, alpha, scale_up_alpha };
        cluster.fabric().build(nic)?;
        Ok(cluster)
    }

    /// Number of hosts.
    pub fn hosts(&self) -> u32 {
        self.shape.hosts
    }

    /// GPUs of each host.
    pub fn gpus(&self) -> u32 {
        self.shape.gpus
    }

    /// Number of ports, of network cards and of the scale-up network.
    pub fn ports(&self) -> u32 {
        self.shape.nic_ports() + self.shape.scale_up_ports()
    }

    /// Checks that there is such a GPU.
    pub fn has(&self, gpu: Gpu) -> bool {
        gpu.host < self.shape.hosts && gpu.place < self.shape.gpus
    }

    /// The ports between which bytes go from one GPU to another, and the latency of a message
    /// there.
    pub fn between(&self, from: Gpu, to: Gpu) -> (PortId, PortId, Nanos) {
        if from.host == to.host && self.shape.scale_up.is_some() {
            let port = |gpu: Gpu| PortId(self.shape.nic_ports() + gpu.host * self.shape.gpus + gpu.place);
            return (port(from), port(to), self.scale_up_alpha);
        }
        let port = |gpu: Gpu| {
            let rail = gpu.place / (self.shape.gpus / self.shape.nics);
            PortId(rail * self.shape.hosts + gpu.host)
        };
        (port(from), port(to), self.alpha)
    }

    /// The latency of a step that reaches over hosts, or stays in one.
    pub(crate) fn latency(&self, leaves_host: bool) -> Nanos {
        if leaves_host { self.alpha } else { self.scale_up_alpha }
    }

    /// The fabric, for a scenario.
    pub fn fabric(&self) -> FabricSpec {
        let shape = Shape::new(self.shape.clone());
        FabricSpec { shape, rate: Some(self.nic), delay: Nanos::ZERO, exceptions: Vec::new() }
    }

    /// A link of the cluster's fabric in words.
    pub fn link_name(&self, fabric: &Fabric, link: LinkId) -> String {
        let ports = self.ports();
        let (port, direction) = match link.0 {
            sends if sends < ports => (sends, "out"),
            receives if receives < 2 * ports => (receives - ports, "in"),
            _ => return fabric.link_name(link),
        };
        match port.checked_sub(self.shape.nic_ports()) {
            None => format!(
                "host {} network card {} {direction}",
                port % self.shape.hosts,
                port / self.shape.hosts
            ),
            Some(gpu) => {
                format!("host {} GPU {} scale-up {direction}", gpu / self.shape.gpus, gpu % self.shape.gpus)
            }
        }
    }
}

/// The shape of a cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Gpus {
    hosts: u32,
    gpus: u32,
    nics: u32,
    scale_up: Option<BitsPerSec>,
    /// Hosts at each leaf; zero where there is one switch.
    leaf_hosts: u32,
    spines: u32,
    oversubscription: Oversubscription,
    by_rail: bool,
}

impl Default for Gpus {
    fn default() -> Self {
        let oversubscription = Oversubscription::NONE;
        Self {
            hosts: 0,
            gpus: 0,
            nics: 0,
            scale_up: None,
            leaf_hosts: 0,
            spines: 0,
            oversubscription,
            by_rail: true,
        }
    }
}

impl Gpus {
    fn nic_ports(&self) -> u32 {
        self.hosts * self.nics
    }

    fn scale_up_ports(&self) -> u32 {
        if self.scale_up.is_some() { self.hosts * self.gpus } else { 0 }
    }

    /// Leaves of a rail, or of all cards.
    fn leaves_in_row(&self) -> u32 {
        self.hosts.div_ceil(self.leaf_hosts.max(1))
    }

    fn leaves(&self) -> u32 {
        self.leaves_in_row() * if self.by_rail { self.nics } else { 1 }
    }

    fn leaf_of(&self, port: u32) -> u32 {
        let (rail, host) = (port / self.hosts, port % self.hosts);
        let in_row = host / self.leaf_hosts;
        if self.by_rail { rail * self.leaves_in_row() + in_row } else { in_row }
    }
}

const CORE: Tier = Tier { height: 1, name: "switch", plural: "one switch that never blocks" };
const SCALE_UP: Tier = Tier { height: 1, name: "scale-up network", plural: "scale-up networks" };
const LEAF: Tier = Tier { height: 1, name: "leaf", plural: "leaves" };
const SPINE: Tier = Tier { height: 2, name: "spine", plural: "spines" };

impl Topology for Gpus {
    const NAME: &'static str = "gpus";
    const PARAMETERS: &'static [Parameter<Self>] = &[
        Parameter { name: "hosts", meaning: "number of hosts", field: |p| &mut p.hosts },
        Parameter { name: "gpus", meaning: "GPUs of each host", field: |p| &mut p.gpus },
        Parameter { name: "nics", meaning: "network cards of each host", field: |p| &mut p.nics },
        Parameter { name: "scale_up", meaning: "rate of scale-up ports", field: |p| &mut p.scale_up },
        Parameter { name: "leaf_hosts", meaning: "hosts at each leaf", field: |p| &mut p.leaf_hosts },
        Parameter { name: "spines", meaning: "number of spines", field: |p| &mut p.spines },
        Parameter {
            name: "oversubscription",
            meaning: "capacity of a leaf's cards over that of its links to all spines",
            field: |p| &mut p.oversubscription,
        },
        Parameter { name: "by_rail", meaning: "leaves have cards of one rail", field: |p| &mut p.by_rail },
    ];

    fn check(&self) -> Result<(), Complaint> {
        Complaint::unless(self.hosts > 0, "hosts", "at least 1")?;
        Complaint::unless(self.gpus > 0, "gpus", "at least 1")?;
        Complaint::unless(self.nics > 0, "nics", "at least 1")
    }

    fn ports(&self) -> u64 {
        u64::from(self.nic_ports()) + u64::from(self.scale_up_ports())
    }

    fn levels(&self, rate: BitsPerSec) -> Vec<Level> {
        if self.leaf_hosts == 0 {
            return Vec::new();
        }
        let cards = u64::from(self.leaf_hosts) * if self.by_rail { 1 } else { u64::from(self.nics) };
        let leaf = self.oversubscription.applied(u128::from(rate.get()) * u128::from(cards));
        let links = u64::from(self.leaves()) * u64::from(self.spines);
        vec![Level { links, rate: BitsPerSec(leaf.get() / u64::from(self.spines)) }]
    }

    fn port_rate(&self, port: u32, rate: BitsPerSec) -> BitsPerSec {
        if port < self.nic_ports() { rate } else { self.scale_up.unwrap_or(rate) }
    }

    fn switch_of(&self, port: u32) -> Node {
        // Ports of the scale-up network talk inside their host alone, so that where nothing else
        // can be short all ports may hang at one switch: rates are the same, and paths need not be
        // looked for.
        if self.leaf_hosts == 0 {
            return Node::Switch(&CORE, 0);
        }
        match port.checked_sub(self.nic_ports()) {
            None => Node::Switch(&LEAF, self.leaf_of(port)),
            Some(gpu) => Node::Switch(&SCALE_UP, gpu / self.gpus),
        }
    }

    fn between(&self, _: usize, nth: u32) -> [Node; 2] {
        [Node::Switch(&LEAF, nth / self.spines), Node::Switch(&SPINE, nth % self.spines)]
    }

    fn path(&self, fabric: &Fabric, src: PortId, dst: PortId) -> Option<Path> {
        if src.0.max(dst.0) >= self.nic_ports() {
            return None;
        }
        let (from, to) = (self.leaf_of(src.0), self.leaf_of(dst.0));
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

#[cfg(test)]
mod tests {
    use super::*;

    fn options() -> ClusterOptions {
        ClusterOptions {
            hosts: 4,
            gpus: 8,
            nics: 4,
            nic: BitsPerSec(200),
            scale_up: Some(BitsPerSec(2400)),
            leaves: None,
            alpha: Nanos(5),
            scale_up_alpha: Nanos(1),
        }
    }

    fn gpu(host: u32, place: u32) -> Gpu {
        Gpu { host, place }
    }

    #[test]
    fn gpus_talk_over_the_scale_up_network_inside_a_host_and_through_the_card_of_their_rail_outside() {
        let cluster = Cluster::new(&options()).unwrap();
        assert_eq!(cluster.ports(), 48);
        // Two GPUs share a card, and cards are numbered rail by rail.
        assert_eq!(cluster.between(gpu(1, 3), gpu(2, 3)), (PortId(5), PortId(6), Nanos(5)));
        assert_eq!(cluster.between(gpu(1, 3), gpu(1, 0)), (PortId(27), PortId(24), Nanos(1)));
        let fabric = cluster.fabric().build(BitsPerSec(1)).unwrap();
        assert!(fabric.is_one_switch());
        assert_eq!(fabric.capacity(fabric.ingress(PortId(15))), BitsPerSec(200));
        assert_eq!(fabric.capacity(fabric.egress(PortId(16))), BitsPerSec(2400));
        assert_eq!(cluster.link_name(&fabric, fabric.ingress(PortId(5))), "host 1 network card 1 out");
        assert_eq!(cluster.link_name(&fabric, fabric.egress(PortId(27))), "host 1 GPU 3 scale-up in");
        let without = Cluster::new(&ClusterOptions { scale_up: None, ..options() }).unwrap();
        assert_eq!(without.between(gpu(1, 3), gpu(1, 0)), (PortId(5), PortId(1), Nanos(5)));
    }

    #[test]
    fn leaves_of_a_rail_keep_it_to_themselves_and_share_spines() {
        let leaves = Leaves { hosts: 2, spines: 2, oversubscription: "2".parse().unwrap(), by_rail: true };
        let cluster = Cluster::new(&ClusterOptions { leaves: Some(leaves), ..options() }).unwrap();
        let fabric = cluster.fabric().build(BitsPerSec(1)).unwrap();
        let [near, far, across] =
            [(0, 1), (0, 2), (0, 4)].map(|(from, to)| fabric.path(PortId(from), PortId(to)).len());
        assert_eq!([near, far, across], [2, 4, 4], "host 2 is at another leaf, port 4 on another rail");
        assert_eq!(fabric.path(PortId(16), PortId(23)).len(), 2, "inside a host");
        let [up, _] = fabric.up_and_down(0, 0);
        assert_eq!(fabric.capacity(up), BitsPerSec(100));
        let by_host = Leaves { by_rail: false, ..leaves };
        let cluster = Cluster::new(&ClusterOptions { leaves: Some(by_host), ..options() }).unwrap();
        let fabric = cluster.fabric().build(BitsPerSec(1)).unwrap();
        assert_eq!(fabric.path(PortId(0), PortId(4)).len(), 2, "all cards of a host are at one leaf");
    }

    #[test]
    fn what_cannot_be_is_named_as_in_a_jobs_file() {
        let refused = |options| Cluster::new(&options).unwrap_err().to_string();
        assert!(refused(ClusterOptions { hosts: 0, ..options() }).starts_with("hosts is 0"));
        assert!(refused(ClusterOptions { nics: 3, ..options() }).contains("nics that divide gpus"));
        assert!(refused(ClusterOptions { hosts: u32::MAX, ..options() }).contains("fewer hosts"));
    }

    #[test]
    fn uplinks_that_carry_nothing_and_more_links_than_can_be_counted_are_refused() {
        let none = Leaves { hosts: 1, spines: 2, oversubscription: "300".parse().unwrap(), by_rail: true };
        let refused = |leaves| {
            Cluster::new(&ClusterOptions { leaves: Some(leaves), ..options() }).unwrap_err().to_string()
        };
        let said = refused(none);
        assert!(said.contains("capacity of zero") && said.contains("leaf"), "{said}");
        let said = refused(Leaves { spines: u32::MAX, ..none });
        assert!(said.contains("links"), "{said}");
    }

    #[test]
    fn a_cluster_of_more_ports_than_can_be_counted_is_refused() {
        let huge = ClusterOptions { hosts: u32::MAX, gpus: u32::MAX, nics: u32::MAX, ..options() };
        assert!(matches!(Cluster::new(&huge), Err(ClusterError::TooLarge { .. })));
    }
}
