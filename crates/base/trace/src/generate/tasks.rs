//! Partition–aggregate: tasks of several small flows from workers into one aggregator (Baraat §2.2,
//! Fig 3).
//!
//! Port 0 aggregates; the flows of a task come from different workers while there are enough, and
//! have sizes uniform from `smallest` to `largest`. With `load=0` all tasks are there at time zero,
//! as in the figure (40 tasks, 5 to 40 KB, and the number of flows is its x axis); otherwise they
//! arrive as a Poisson process at that load on the aggregator's link.

use cavalcade_model::{BitsPerSec, Bytes, Flow, Instant, Nanos, PortId, Workload, WorkloadBuilder};

use super::parameters::parameters;
use super::random::{Purpose, Random};
use super::shape::{FlowBudget, instant, require_counts, require_sizes};
use super::{GenerateError, Recipe, require};

parameters! {
    /// Parameters of `tasks`.
    Tasks {
        /// number of tasks
        tasks: u32 = 40,
        /// number of flows of a task
        flows: u32 = 20,
        /// smallest flow
        smallest: Bytes = Bytes(5_000),
        /// largest flow
        largest: Bytes = Bytes(40_000),
        /// number of ports: one aggregator, the others workers
        ports: u32 = 41,
        /// offered load on the aggregator's link, as a share of its capacity; 0 lets all tasks
        /// arrive at once
        load: f64 = 0.0,
        /// rate of a port, which the load refers to
        rate: BitsPerSec = BitsPerSec(1_000_000_000),
    }
}

const AGGREGATOR: PortId = PortId(0);

impl Recipe for Tasks {
    const NAME: &'static str = "tasks";
    const MEANING: &'static str = "partition–aggregate tasks into one port, flow sizes uniform";
    const SOURCE: &'static str = "Baraat §2.2, Fig 3";

    fn generate(&self, seed: u64) -> Result<Workload, GenerateError> {
        self.check()?;
        FlowBudget::new().spend(u64::from(self.tasks) * u64::from(self.flows))?;
        let mut sizes = Random::new(seed, Purpose::Sizes);
        let mut places = Random::new(seed, Purpose::Places);
        let mut random = Random::new(seed, Purpose::Arrivals);
        let mean_bytes = (self.smallest.as_f64() + self.largest.as_f64()) / 2.0 * f64::from(self.flows);
        let mut now = 0.0;
        let mut builder = WorkloadBuilder::new(self.ports);
        for task in 1..=self.tasks {
            let arrival = if self.load > 0.0 {
                now += random.exponential() * mean_bytes / (self.load * self.rate.bytes_per_nano());
                instant(now)?
            } else {
                Instant::ZERO
            };
            let workers = places.ports(self.flows.min(self.ports - 1), self.ports - 1);
            let flow = |index: u32| Flow {
                src: PortId(workers[index as usize % workers.len()].0 + 1),
                dst: AGGREGATOR,
                size: Bytes(sizes.between(self.smallest.0, self.largest.0)),
                wave: Nanos::ZERO,
            };
            builder.coflow(task.to_string(), arrival, (0..self.flows).map(flow).collect());
        }
        Ok(builder.build()?)
    }
}

impl Tasks {
    fn check(&self) -> Result<(), GenerateError> {
        require_counts(self.ports, 2, 1)?;
        require(self.tasks > 0, "tasks", self.tasks, "at least 1")?;
        require(self.flows > 0, "flows", self.flows, "at least 1")?;
        require_sizes([self.smallest, self.largest], self.load, self.rate)
    }
}
