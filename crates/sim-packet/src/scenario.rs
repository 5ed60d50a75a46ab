//! The workloads on which the engine's speed is measured, and compared with other simulators'.
//!
//! 10 Gbps hosts, links of 1 µs, packets of 1,500 bytes of which 40 are headers, an acknowledgement for each.
//!
//! | name | network | flows |
//! |---|---|---|
//! | `perm32` | 32 hosts on one switch | each host sends 50 MB to the next, 1 µs apart |
//! | `incast32` | 32 hosts on one switch | 31 hosts send 200 MB each to the first, 1 µs apart |
//! | `ls144` | 9 racks of 16 hosts, 4 spines at 40 Gbps | 2,000 flows of web-search size, Poisson, random pairs, load 0.6 |
//!
//! Random numbers come from the project's generator, so the flows of `ls144` are others than a script in another language
//! would draw, from the same distributions.

use cavalcade_model::{
    BitsPerSec, Bytes, Fabric, Flow, Instant, LeafSpine, MeasuredSizes, Nanos, Oversubscription, PortId,
    Shape, SplitMix64, Workload, WorkloadBuilder,
};

use crate::network::{Link, Network};

/// A workload and what it crosses.
#[derive(Clone, Debug)]
pub struct Scenario {
    /// Name.
    pub name: &'static str,
    /// Hosts, switches, links.
    pub network: Network,
    /// The flows.
    pub workload: Workload,
}

const GBPS: u64 = 1_000_000_000;
const HOST: Link = Link { rate: BitsPerSec(10 * GBPS), delay: Nanos(1_000) };
const PAYLOAD: u64 = 1_460;

/// All three, smaller by `divisor` where that is above 1: fewer bytes in `perm32` and `incast32`, fewer flows in `ls144`.
pub fn all(divisor: u64) -> Vec<Scenario> {
    let divisor = divisor.max(1);
    vec![
        permutation(32, 34_247 / divisor),
        incast(32, 136_987 / divisor),
        leaf_spine(2_000 / divisor as u32, 0.6),
    ]
}

/// Each of `hosts` hosts sends `packets` packets to the next one.
fn permutation(hosts: u32, packets: u64) -> Scenario {
    let flows = (0..hosts).map(|host| (u64::from(host) * 1_000, host, (host + 1) % hosts, packets));
    scenario("perm32", star(hosts), flows)
}

/// All hosts but the first send `packets` packets to it.
fn incast(hosts: u32, packets: u64) -> Scenario {
    let flows = (1..hosts).map(|host| (u64::from(host) * 1_000, host, 0, packets));
    scenario("incast32", star(hosts), flows)
}

/// `flows` flows between random hosts of a leaf–spine.
fn leaf_spine(flows: u32, load: f64) -> Scenario {
    // Without oversubscription four spines leave 40 Gbps for each uplink.
    let shape = LeafSpine { leaves: 9, spines: 4, hosts: 16, oversubscription: Oversubscription::NONE };
    let mut fabric =
        Fabric::new(Shape::new(shape), HOST.rate).expect("9 leaves, 16 hosts and 4 spines are some");
    fabric.set_delays(HOST.delay);
    let network = Network::new(&fabric).expect("its links have rates");
    let hosts = network.hosts();
    let sizes = MeasuredSizes::WEB_SEARCH;
    let per_second = load * f64::from(hosts) * HOST.rate.as_f64() / (8.0 * 1_500.0 * sizes.mean_packets());
    let mut random = SplitMix64::new(7);
    let mut time = 0.0;
    let mut list = Vec::new();
    for _ in 0..flows {
        time += exponential(&mut random) / per_second;
        let src = (random.fraction() * f64::from(hosts)) as u32;
        let other = (random.fraction() * f64::from(hosts - 1)) as u32;
        let dst = other + u32::from(other >= src);
        let packets = (sizes.packets_at(random.fraction()) + 0.5).max(1.0);
        list.push(((time * 1e9) as u64, src, dst, packets as u64));
    }
    scenario("ls144", network, list.into_iter())
}

/// A draw of mean 1.
fn exponential(random: &mut SplitMix64) -> f64 {
    -libm::log(1.0 - random.fraction())
}

fn star(hosts: u32) -> Network {
    Network::star(hosts, HOST).expect("the link has a rate")
}

/// Flows as (start in nanoseconds, from, to, packets).
fn scenario(
    name: &'static str,
    network: Network,
    flows: impl Iterator<Item = (u64, u32, u32, u64)>,
) -> Scenario {
    let mut builder = WorkloadBuilder::new(network.hosts());
    for (number, (start, src, dst, packets)) in flows.enumerate() {
        let size = Bytes(packets.max(1) * PAYLOAD);
        let flow = Flow { src: PortId(src), dst: PortId(dst), size, wave: Nanos::ZERO };
        builder.coflow(number.to_string(), Instant(start), vec![flow]);
    }
    let workload = builder.build().expect("ports, sizes and names are as a workload wants them");
    Scenario { name, network, workload }
}
