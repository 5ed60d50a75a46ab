//! The places at which a policy of each scope has its instances.
//!
//! A *place* is a number: 0 for the fabric, a host's port, or a link.

use crate::{
    BitsPerSec, Contended, Fabric, FlowId, History, LinkId, Policy, PolicyFactory, PortId, Scope, Setting,
    Workload,
};

impl Scope {
    /// Returns the number of instances of a policy on `fabric`.
    pub fn places(self, fabric: &Fabric) -> usize {
        match self {
            Scope::Fabric => 1,
            Scope::Host => fabric.ports() as usize,
            Scope::Link => fabric.link_count(),
        }
    }

    /// The place from which `flow` is sent: its host, or the link on which it enters, which have
    /// the same number. What single flows are watched for is decided there.
    #[inline]
    pub fn sender(self, workload: &Workload, flow: FlowId) -> u32 {
        match self {
            Scope::Fabric => 0,
            Scope::Host | Scope::Link => workload.flow(flow).src.0,
        }
    }

    /// Returns whether the instance at `place` sees `flow`.
    #[inline]
    pub fn sees(self, workload: &Workload, fabric: &Fabric, flow: FlowId, place: u32) -> bool {
        let flow = workload.flow(flow);
        match self {
            Scope::Fabric => true,
            Scope::Host => flow.src.0 == place,
            Scope::Link => fabric.path(flow.src, flow.dst).contains(&LinkId(place)),
        }
    }

    /// The links on which an instance of this scope finds rivals: each on its own where it decides
    /// for one, else those that can be short.
    pub fn links(self, fabric: &Fabric) -> Contended {
        match self {
            Scope::Fabric | Scope::Host => Contended::of(fabric),
            Scope::Link => Contended::all(fabric),
        }
    }

    /// The rate of the link or host at `place`; for the whole fabric, of its fastest port.
    pub fn line_rate(self, fabric: &Fabric, place: u32) -> BitsPerSec {
        match self {
            Scope::Fabric => {
                let of_ports = fabric.links().take(2 * fabric.ports() as usize);
                of_ports.map(|link| fabric.capacity(link)).max().unwrap_or_default()
            }
            Scope::Host => fabric.capacity(fabric.ingress(PortId(place))),
            Scope::Link => fabric.capacity(LinkId(place)),
        }
    }

    /// An instance of a policy of this scope for each place, in order.
    pub fn instances(self, factory: &dyn PolicyFactory, fabric: &Fabric, history: &History) -> Vec<Policy> {
        let build = |place| {
            let line_rate = self.line_rate(fabric, place);
            factory.build(&Setting { ports: fabric.ports(), line_rate, history })
        };
        (0..self.places(fabric) as u32).map(build).collect()
    }
}
