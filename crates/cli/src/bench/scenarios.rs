//! The workloads that speed is measured on.
//!
//! Four are those on which SimGrid 4.1 was measured: N hosts on one switch with 1 Gbps links, sizes bounded Pareto (shape
//! 1.2, 100 KB to 1 GB, mean about 505 KB), load 0.7; Poisson flows, all flows at once, or Poisson shuffles of 40 senders ×
//! 30 receivers. The same parameters and laws, but random numbers of our own: what is compared is cost, not a schedule.
//!
//! The other is Baraat's data centre (§5.2): two-stage partition-aggregate on a tree. What the paper leaves open, we choose:
//! - each task belongs to one pod, drawn uniformly; its 30 mid-level aggregators are one in each rack of the pod, each
//!   with 40 workers in its rack: the other 39 hosts, one of them twice;
//! - the top-level aggregator is host 0 of the pod's rack 0 ("in a separate rack, one per pod");
//! - the mid-level aggregator of a rack is always its host 1 (`Aggregators::Fixed`), so that the link to it is the
//!   bottleneck that the load is of; or a host drawn for each task (`Drawn`), and the load is that of its busiest link,
//!   the top-level aggregator's;
//! - flows of the first stage have U[2 KB, 50 KB]; one of the second has 3 % of what its aggregator received.

use cavalcade_model::{
    Bytes, Coflow, CoflowId, Flow, Instant, Nanos, PortId, Stage, StageIndex, Task, TaskClass, Work,
    Workload, WorkloadBuilder,
};

use super::random::Random;

const SHAPE: f64 = 1.2;
const SMALLEST: f64 = 1e5;
const LARGEST: f64 = 1e9;
const LOAD: f64 = 0.7;

/// How flows arrive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Arrivals {
    /// One by one, Poisson.
    Poisson,
    /// All at once.
    Batch,
    /// As shuffles of 40 × 30, Poisson.
    Shuffles,
}

/// One of the workloads on one switch.
pub(crate) fn on_a_switch(arrivals: Arrivals, hosts: u32, flows: u32) -> Workload {
    let mut random = Random::new(12_345 + u64::from(hosts) + u64::from(flows));
    let mean = SHAPE / (SHAPE - 1.0) * SMALLEST * (1.0 - libm::pow(SMALLEST / LARGEST, SHAPE - 1.0))
        / (1.0 - libm::pow(SMALLEST / LARGEST, SHAPE));
    let flows_per_nano = LOAD * f64::from(hosts) / (8.0 * mean);
    let mut builder = WorkloadBuilder::new(hosts);
    let mut clock = 0.0;
    let width = if arrivals == Arrivals::Shuffles { 1200 } else { 1 };
    for task in 0..flows / width {
        if arrivals != Arrivals::Batch {
            clock += random.exponential() * f64::from(width) / flows_per_nano;
        }
        let flow = |random: &mut Random, src, dst| Flow {
            src: PortId(src),
            dst: PortId(dst),
            size: Bytes(random.pareto(SHAPE, SMALLEST, LARGEST)),
            wave: Nanos::ZERO,
        };
        let of_task = if arrivals == Arrivals::Shuffles {
            let (senders, receivers) = (random.sample(40, hosts), random.sample(30, hosts));
            let pairs = senders.iter().flat_map(|&src| receivers.iter().map(move |&dst| (src, dst)));
            let apart = |(src, dst)| if src == dst { (src, (dst + 1) % hosts) } else { (src, dst) };
            pairs.map(apart).map(|(src, dst)| flow(&mut random, src, dst)).collect()
        } else {
            let src = random.below(hosts);
            let dst = random.below(hosts - 1);
            vec![flow(&mut random, src, dst + u32::from(dst >= src))]
        };
        builder.coflow(task.to_string(), Instant(clock as u64), of_task);
    }
    builder.build().expect("what is generated is valid")
}

/// Where mid-level aggregators are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Aggregators {
    /// Always the same host of a rack.
    Fixed,
    /// A host of the rack drawn for each task.
    Drawn,
}

/// Two-stage partition-aggregate tasks, one after the other.
pub(crate) struct PartitionAggregate {
    random: Random,
    pods: u32,
    racks: u32,
    hosts: u32,
    aggregators: Aggregators,
    nanos_between: f64,
    clock: f64,
    left: u32,
}

impl PartitionAggregate {
    /// So many tasks on 1 Gbps links, at `load` of the busiest link.
    pub(crate) fn new(
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
            random: Random::new(seed),
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
        self.clock += self.random.exponential() * self.nanos_between;
        let hosts = self.hosts;
        let first_rack = self.random.below(self.pods) * self.racks;
        let (mut down, mut up) = (Vec::new(), Vec::new());
        for rack in first_rack..first_rack + self.racks {
            let aggregator = match self.aggregators {
                Aggregators::Fixed => 1,
                Aggregators::Drawn => self.random.below(hosts),
            };
            let again = (aggregator + 1 + self.random.below(hosts - 1)) % hosts;
            let workers = (0..hosts).filter(|&host| host != aggregator).chain([again]);
            let mut received = 0;
            for worker in workers {
                let size = self.random.between(2_000, 50_000);
                received += size;
                down.push(flow(rack * hosts + worker, rack * hosts + aggregator, size));
            }
            up.push(flow(rack * hosts + aggregator, first_rack * hosts, (received * 3 / 100).max(1)));
        }
        let stage = |starts_after| Stage {
            starts_after,
            finishes_after: Vec::new(),
            work: Work::Transfer(CoflowId::default()),
        };
        let task = Task {
            name: String::new(),
            arrival: Instant(self.clock as u64),
            deadline: None,
            class: TaskClass::Online,
            weight: 1,
            stages: vec![stage(Vec::new()), stage(vec![StageIndex(0)])],
        };
        Some((task, vec![Coflow { flows: down }, Coflow { flows: up }]))
    }
}

fn flow(src: u32, dst: u32, size: u64) -> Flow {
    Flow { src: PortId(src), dst: PortId(dst), size: Bytes(size), wave: Nanos::ZERO }
}
