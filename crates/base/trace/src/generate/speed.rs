//! The workloads on which speed is measured, fixed here so that a figure is always of the same
//! flows.
//!
//! # A fluid on one switch
//! SimGrid 4.1 was measured on these: N hosts on one switch with 1 Gbps links, sizes bounded Pareto
//! (shape 1.2, 100 KB to 1 GB, mean about 505 KB), load 0.7; Poisson flows, all flows at once, or
//! Poisson shuffles of 40 senders × 30 receivers. The same parameters and distributions, but random
//! numbers of our own: what is compared is cost, not a schedule.
//!
//! # A fluid on a tree
//! Baraat's data centre (§5.2): two-stage partition-aggregate. What the paper leaves open, we
//! choose:
//! - each task belongs to one pod, drawn uniformly; its 30 mid-level aggregators are one in each
//!   rack of the pod, each with 40 workers in its rack: the other 39 hosts, one of them twice;
//! - the top-level aggregator is host 0 of the pod's rack 0 ("in a separate rack, one per pod");
//! - the mid-level aggregator of a rack is always its host 1 ([`Aggregators::Fixed`]), so that the
//!   link to it is the bottleneck that the load is of; or a host drawn for each task
//!   ([`Aggregators::Drawn`]), and the load is that of its busiest link, the top-level
//!   aggregator's;
//! - flows of the first stage have U[2 KB, 50 KB]; one of the second has 3 % of what its aggregator
//!   received.
//!
//! # Packets
//! 10 Gbps hosts, links of 1 µs, packets of 1,500 bytes of which 40 are headers, an acknowledgement
//! for each.
//!
//! | name | network | flows |
//! |---|---|---|
//! | `perm32` | 32 hosts on one switch | each host sends 50 MB to the next, 1 µs apart |
//! | `incast32` | 32 hosts on one switch | 31 hosts send 200 MB each to the first, 1 µs apart |
//! | `ls144` | 9 racks of 16 hosts, 4 spines at 40 Gbps | 2,000 flows of web-search size, Poisson, random pairs, load 0.6 |
//!
//! Random numbers are SplitMix64's, not those of the other generators: figures of these flows have
//! been published.

use cavalcade_model::{
    BitsPerSec, Bytes, Coflow, CoflowId, Fabric, Flow, Instant, LeafSpine, MeasuredSizes, Nanos,
    Oversubscription, PortId, Shape, SplitMix64, Stage, StageIndex, Task, Work, Workload, WorkloadBuilder,
};

const SHAPE: f64 = 1.2;
const SMALLEST: f64 = 1e5;
const LARGEST: f64 = 1e9;
const LOAD: f64 = 0.7;

/// Arrivals of flows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arrivals {
    /// One by one, Poisson.
    Poisson,
    /// All at once.
    Batch,
    /// Shuffles of 40 × 30, Poisson.
    Shuffles,
}

/// Returns one of the workloads on one switch.
pub fn on_a_switch(arrivals: Arrivals, hosts: u32, flows: u32) -> Workload {
    let mut random = SplitMix64::new(12_345 + u64::from(hosts) + u64::from(flows));
    let mean = SHAPE / (SHAPE - 1.0) * SMALLEST * (1.0 - libm::pow(SMALLEST / LARGEST, SHAPE - 1.0))
        / (1.0 - libm::pow(SMALLEST / LARGEST, SHAPE));
    let flows_per_nano = LOAD * f64::from(hosts) / (8.0 * mean);
    let mut builder = WorkloadBuilder::new(hosts);
    let mut clock = 0.0;
    let width = if arrivals == Arrivals::Shuffles { 1200 } else { 1 };
    for task in 0..flows / width {
        if arrivals != Arrivals::Batch {
            clock += exponential(&mut random) * f64::from(width) / flows_per_nano;
        }
        let flow = |random: &mut SplitMix64, src, dst| Flow {
            src: PortId(src),
            dst: PortId(dst),
            size: Bytes(pareto(random)),
            wave: Nanos::ZERO,
        };
        let of_task = if arrivals == Arrivals::Shuffles {
            let (senders, receivers) = (sample(&mut random, 40, hosts), sample(&mut random, 30, hosts));
            let pairs = senders.iter().flat_map(|&src| receivers.iter().map(move |&dst| (src, dst)));
            let apart = |(src, dst)| if src == dst { (src, (dst + 1) % hosts) } else { (src, dst) };
            pairs.map(apart).map(|(src, dst)| flow(&mut random, src, dst)).collect()
        } else {
            let src = below(&mut random, hosts);
            let dst = below(&mut random, hosts - 1);
            vec![flow(&mut random, src, dst + u32::from(dst >= src))]
        };
        builder.coflow(task.to_string(), Instant(clock as u64), of_task);
    }
    builder.build().expect("what is generated is valid")
}

/// Places of mid-level aggregators.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Aggregators {
    /// Always the same host of a rack.
    Fixed,
    /// A host of the rack drawn for each task.
    Drawn,
}

/// Two-stage partition-aggregate tasks, one after the other.
pub struct PartitionAggregate {
    random: SplitMix64,
    pods: u32,
    racks: u32,
    hosts: u32,
    aggregators: Aggregators,
    nanos_between: f64,
    clock: f64,
    left: u32,
}

impl PartitionAggregate {
    /// Generates so many tasks on 1 Gbps links, at `load` of the busiest link.
    pub fn new(
        [pods, racks, hosts]: [u32; 3],
        aggregators: Aggregators,
        load: f64,
        tasks: u32,
        seed: u64,
    ) -> Self {
        let first_stage = f64::from(hosts) * 26_000.0;
        let second_stage = f64::from(racks) * 0.03 * first_stage;
        let busiest = match aggregators {
            Aggregators::Fixed => first_stage.max(second_stage),
            Aggregators::Drawn => (first_stage / f64::from(hosts)).max(second_stage),
        };
        let nanos_between = 8.0 * busiest / load / f64::from(pods);
        Self {
            random: SplitMix64::new(seed),
            pods,
            racks,
            hosts,
            aggregators,
            nanos_between,
            clock: 0.0,
            left: tasks,
        }
    }
}

impl Iterator for PartitionAggregate {
    type Item = (Task, Vec<Coflow>);

    fn next(&mut self) -> Option<Self::Item> {
        self.left = self.left.checked_sub(1)?;
        self.clock += exponential(&mut self.random) * self.nanos_between;
        let hosts = self.hosts;
        let first_rack = below(&mut self.random, self.pods) * self.racks;
        let (mut down, mut up) = (Vec::new(), Vec::new());
        for rack in first_rack..first_rack + self.racks {
            let aggregator = match self.aggregators {
                Aggregators::Fixed => 1,
                Aggregators::Drawn => below(&mut self.random, hosts),
            };
            let again = (aggregator + 1 + below(&mut self.random, hosts - 1)) % hosts;
            let workers = (0..hosts).filter(|&host| host != aggregator).chain([again]);
            let mut received = 0;
            for worker in workers {
                let size = 2_000 + (self.random.fraction() * 48_001.0) as u64;
                received += size;
                down.push(flow(rack * hosts + worker, rack * hosts + aggregator, size));
            }
            up.push(flow(rack * hosts + aggregator, first_rack * hosts, (received * 3 / 100).max(1)));
        }
        let mut task = Task::of_coflow(String::new(), Instant(self.clock as u64));
        let work = Work::Transfer(CoflowId::default());
        task.stages.push(Stage { starts_after: vec![StageIndex(0)], finishes_after: Vec::new(), work });
        Some((task, vec![Coflow { flows: down }, Coflow { flows: up }]))
    }
}

fn flow(src: u32, dst: u32, size: u64) -> Flow {
    Flow { src: PortId(src), dst: PortId(dst), size: Bytes(size), wave: Nanos::ZERO }
}

/// A workload of packets and what it crosses.
#[derive(Clone, Debug)]
pub struct OverPackets {
    /// Its name.
    pub name: &'static str,
    /// Hosts, switches, links.
    pub fabric: Fabric,
    /// The flows.
    pub workload: Workload,
}

const GBPS: u64 = 1_000_000_000;
const HOST_RATE: BitsPerSec = BitsPerSec(10 * GBPS);
const LINK_DELAY: Nanos = Nanos(1_000);
const PAYLOAD: u64 = 1_460;

/// Returns all three, smaller by `divisor` where that is above 1: fewer bytes in `perm32` and
/// `incast32`, fewer flows in `ls144`.
pub fn over_packets(divisor: u64) -> Vec<OverPackets> {
    let divisor = divisor.max(1);
    vec![
        permutation(32, 34_247 / divisor),
        incast(32, 136_987 / divisor),
        leaf_spine(2_000 / divisor as u32, 0.6),
    ]
}

/// Each of `hosts` hosts sends `packets` packets to the next one.
fn permutation(hosts: u32, packets: u64) -> OverPackets {
    let flows = (0..hosts).map(|host| (u64::from(host) * 1_000, host, (host + 1) % hosts, packets));
    over("perm32", star(hosts), flows)
}

/// All hosts but the first send `packets` packets to it.
fn incast(hosts: u32, packets: u64) -> OverPackets {
    let flows = (1..hosts).map(|host| (u64::from(host) * 1_000, host, 0, packets));
    over("incast32", star(hosts), flows)
}

/// `flows` flows between random hosts of a leaf–spine.
fn leaf_spine(flows: u32, load: f64) -> OverPackets {
    // Without oversubscription four spines leave 40 Gbps for each uplink.
    let shape = LeafSpine { leaves: 9, spines: 4, hosts: 16, oversubscription: Oversubscription::NONE };
    let mut fabric =
        Fabric::new(Shape::new(shape), HOST_RATE).expect("9 leaves, 16 hosts and 4 spines are some");
    fabric.set_delays(LINK_DELAY);
    let hosts = fabric.ports();
    let sizes = MeasuredSizes::WEB_SEARCH;
    let per_second = load * f64::from(hosts) * HOST_RATE.as_f64() / (8.0 * 1_500.0 * sizes.mean_packets());
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
    over("ls144", fabric, list.into_iter())
}

fn star(hosts: u32) -> Fabric {
    let mut fabric = Fabric::big_switch(hosts, HOST_RATE).expect("it has hosts");
    fabric.set_delays(LINK_DELAY);
    fabric
}

/// Flows as (start in nanoseconds, from, to, packets).
fn over(
    name: &'static str,
    fabric: Fabric,
    flows: impl Iterator<Item = (u64, u32, u32, u64)>,
) -> OverPackets {
    let mut builder = WorkloadBuilder::new(fabric.ports());
    for (number, (start, src, dst, packets)) in flows.enumerate() {
        let flow = flow(src, dst, packets.max(1) * PAYLOAD);
        builder.coflow(number.to_string(), Instant(start), vec![flow]);
    }
    let workload = builder.build().expect("ports, sizes and names are as a workload wants them");
    OverPackets { name, fabric, workload }
}

/// Draws an exponential number of mean 1.
fn exponential(random: &mut SplitMix64) -> f64 {
    -libm::log(1.0 - random.fraction())
}

/// Draws a size by the bounded Pareto distribution.
fn pareto(random: &mut SplitMix64) -> u64 {
    let (high, low) = (libm::pow(LARGEST, SHAPE), libm::pow(SMALLEST, SHAPE));
    let u = random.fraction();
    let inner = -(u * high - u * low - high) / (high * low);
    (libm::pow(inner, -1.0 / SHAPE) as u64).max(1)
}

fn below(random: &mut SplitMix64, bound: u32) -> u32 {
    random.below(u64::from(bound)) as u32
}

/// Draws so many different numbers below `bound`.
fn sample(random: &mut SplitMix64, count: usize, bound: u32) -> Vec<u32> {
    let mut drawn: Vec<u32> = Vec::with_capacity(count);
    while drawn.len() < count {
        let number = below(random, bound);
        if !drawn.contains(&number) {
            drawn.push(number);
        }
    }
    drawn
}
