//! A batch of data-parallel jobs, all there at time zero (Baraat §5.2.2, Fig 11), with computation
//! on hosts where asked for.
//!
//! A job maps, shuffles and, with `stages=2`, reduces and writes its result to other hosts. Where
//! `compute_ms` is above zero each mapper and reducer computes before it sends, exponentially
//! distributed, on its host; with `slots` hosts serve so many at a time and the others wait.
//! `mixed_speeds` gives the hosts the six speeds of TAFE §V-B in turn. What the paper leaves open,
//! the shape of a job, is a parameter.

use cavalcade_model::{
    BitsPerSec, Bytes, Coflow, CoflowId, Compute, Flow, Host, Instant, Nanos, PortId, Stage, StageIndex,
    Task, TaskClass, Work, Workload, WorkloadBuilder,
};

use super::parameters::parameters;
use super::random::{Purpose, Random};
use super::shape::{FlowBudget, require_counts, require_sizes};
use super::{GenerateError, Recipe, require};

parameters! {
    /// Parameters of `batch`.
    Batch {
        /// number of jobs
        jobs: u32 = 400,
        /// number of ports, with a host behind each
        ports: u32 = 100,
        /// number of mappers of a job
        mappers: u32 = 10,
        /// number of reducers of a job
        reducers: u32 = 5,
        /// 1: a shuffle; 2: the reducers also write their results to other hosts
        stages: u32 = 2,
        /// smallest flow of a shuffle
        smallest: Bytes = Bytes(1_000_000),
        /// largest flow of a shuffle
        largest: Bytes = Bytes(10_000_000),
        /// output of a reducer, as a share of its input
        selectivity: f64 = 1.0,
        /// mean computing time of a mapper or reducer at full speed, in milliseconds
        compute_ms: f64 = 0.0,
        /// number of them that a host serves at a time; 0 for no limit
        slots: u32 = 0,
        /// 1: hosts have 50, 50, 50, 100, 25 and 50 % of full speed in turn; 0: all are of full
        /// speed
        mixed_speeds: u32 = 0,
    }
}

/// The speeds of TAFE §V-B, in per cent of the fastest machine's.
const MIXED: [u32; 6] = [50, 50, 50, 100, 25, 50];

impl Recipe for Batch {
    const NAME: &'static str = "batch";
    const MEANING: &'static str = "data-parallel jobs that are all there at time zero";
    const SOURCE: &'static str =
        "Baraat §5.2.2, Fig 11; TAFE §V-B for hosts; the job's shape is our assumption";

    fn generate(&self, seed: u64) -> Result<Workload, GenerateError> {
        self.check()?;
        let width = u64::from(self.mappers) * u64::from(self.reducers) + u64::from(self.reducers);
        FlowBudget::new().spend(u64::from(self.jobs) * width)?;
        let mut draws = Draws {
            parameters: self,
            sizes: Random::new(seed, Purpose::Sizes),
            places: Random::new(seed, Purpose::Places),
            waits: Random::new(seed, Purpose::Computation),
        };
        let mut builder = WorkloadBuilder::new(self.ports);
        for number in 1..=self.jobs {
            let (task, coflows) = draws.job(number.to_string());
            builder.push(task, coflows);
        }
        if self.slots > 0 {
            let speeds = if self.mixed_speeds == 1 { &MIXED[..] } else { &[100] };
            let host = |&speed_percent: &u32| Host { slots: self.slots, speed_percent };
            builder.hosts(speeds.iter().cycle().take(self.ports as usize).map(host).collect());
        }
        Ok(builder.build()?)
    }
}

struct Draws<'a> {
    parameters: &'a Batch,
    sizes: Random,
    places: Random,
    waits: Random,
}

/// A job on its way.
#[derive(Default)]
struct Job {
    stages: Vec<Stage>,
    coflows: Vec<Coflow>,
}

impl Job {
    fn push(&mut self, starts_after: Vec<StageIndex>, work: Work) -> StageIndex {
        self.stages.push(Stage { starts_after, finishes_after: Vec::new(), work });
        StageIndex::from_index(self.stages.len() - 1)
    }

    fn transfer(&mut self, starts_after: Vec<StageIndex>, flows: Vec<Flow>) -> StageIndex {
        self.coflows.push(Coflow { flows });
        self.push(starts_after, Work::Transfer(CoflowId::default()))
    }
}

impl Draws<'_> {
    fn job(&mut self, name: String) -> (Task, Vec<Coflow>) {
        let Batch { ports, mappers, reducers, stages, smallest, largest, selectivity, .. } = *self.parameters;
        let mapping = self.places.ports(mappers, ports);
        let reducing = self.places.ports(reducers, ports);
        let mut job = Job::default();
        let mapped = self.compute(&mut job, &mapping, &[]);
        let mut shuffle = Vec::with_capacity(mapping.len() * reducing.len());
        for &dst in &reducing {
            for &src in &mapping {
                let size = Bytes(self.sizes.between(smallest.0, largest.0));
                shuffle.push(Flow { src, dst, size, wave: Nanos::ZERO });
            }
        }
        let input = |dst: PortId| shuffle.iter().filter(move |flow| flow.dst == dst).map(|flow| flow.size.0);
        let written: Vec<u64> = reducing.iter().map(|&dst| input(dst).sum()).collect();
        let shuffled = job.transfer(mapped, shuffle);
        let reduced = self.compute(&mut job, &reducing, &[shuffled]);
        if stages == 2 {
            let copies = self.places.ports(reducers, ports);
            let write = |((&src, &dst), bytes): ((&PortId, &PortId), u64)| {
                let size = Bytes(((bytes as f64 * selectivity) as u64).max(1));
                Flow { src, dst, size, wave: Nanos::ZERO }
            };
            let flows = reducing.iter().zip(&copies).zip(written).map(write).collect();
            job.transfer(reduced, flows);
        }
        let (arrival, class) = (Instant::ZERO, TaskClass::Online);
        (Task { name, job: None, arrival, deadline: None, class, weight: 1, stages: job.stages }, job.coflows)
    }

    /// Computation on each of `hosts` after some stages. Returns what comes after has to wait for.
    fn compute(&mut self, job: &mut Job, hosts: &[PortId], after: &[StageIndex]) -> Vec<StageIndex> {
        if self.parameters.compute_ms == 0.0 {
            return after.to_vec();
        }
        let mut on = |&host: &PortId| {
            let duration = Nanos((self.waits.exponential() * self.parameters.compute_ms * 1e6) as u64);
            job.push(after.to_vec(), Work::Compute(Compute { duration, host: Some(host) }))
        };
        hosts.iter().map(&mut on).collect()
    }
}

impl Batch {
    fn check(&self) -> Result<(), GenerateError> {
        require_counts(self.ports, 2, self.jobs)?;
        let range = format_args!("1 to {}, the number of ports", self.ports).to_string();
        require((1..=self.ports).contains(&self.mappers), "mappers", self.mappers, &range)?;
        require((1..=self.ports).contains(&self.reducers), "reducers", self.reducers, &range)?;
        require((1..=2).contains(&self.stages), "stages", self.stages, "1 or 2")?;
        // All arrive at once, whatever the rate.
        require_sizes([self.smallest, self.largest], 0.0, BitsPerSec(1))?;
        require((0.0..=1.0).contains(&self.selectivity), "selectivity", self.selectivity, "0 to 1")?;
        require((0.0..=1e9).contains(&self.compute_ms), "compute_ms", self.compute_ms, "0 to 1e9")?;
        require(self.mixed_speeds <= 1, "mixed_speeds", self.mixed_speeds, "0 or 1")?;
        let alone = self.mixed_speeds == 0 || self.slots > 0;
        require(
            alone,
            "mixed_speeds",
            self.mixed_speeds,
            "0 where slots is 0: hosts without slots have no speed",
        )
    }
}
