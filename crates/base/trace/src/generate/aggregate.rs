//! Partition–aggregate over racks, of one or two levels (Baraat §2.2, §5.2): what a web search
//! does.
//!
//! Each rack has one host that aggregates and others that work. With `levels=1` a task is a
//! question to the workers of one rack, and their answers to its aggregator are its one coflow.
//! With `levels=2` all racks are asked; as soon as an aggregator has all its answers, it sends
//! `selectivity` of their bytes on to the top, a port of its own behind the racks. So each rack has
//! two stages, and racks do not wait for each other. The defaults are the paper's: 30 racks of 40
//! workers, 1,200 + 30 flows, answers of 2 to 50 KB, 3 %.
//!
//! A worker computes before it answers, exponentially distributed with mean `compute_ms` (§5.2.3: a
//! wait that needs no slot): its flow is a wave of its own.
//!
//! Where `tail` is given (as in [`super::Tailed`]), all answers of a task are larger by one factor,
//! drawn for each task.
//!
//! Tasks arrive as a Poisson process; the load is that of the links into the racks' aggregators,
//! which are the bottleneck.

use cavalcade_model::{
    BitsPerSec, Bytes, Coflow, CoflowId, Flow, Instant, Nanos, PortId, Stage, StageIndex, Task, TaskClass,
    Work, Workload, WorkloadBuilder,
};

use super::parameters::parameters;
use super::random::{Purpose, Random};
use super::shape::{Background, FlowBudget, instant, require_counts, require_load, require_sizes};
use super::tailed::Tail;
use super::{GenerateError, Recipe, require};

parameters! {
    /// Parameters of `aggregate`.
    Aggregate {
        /// number of tasks
        tasks: u32 = 100,
        /// 1: workers to the aggregator of their rack; 2: all aggregators to the top as well
        levels: u32 = 2,
        /// number of racks
        racks: u32 = 30,
        /// number of workers in a rack, beside its aggregator
        workers: u32 = 40,
        /// smallest answer of a worker
        smallest: Bytes = Bytes(2_000),
        /// largest answer of a worker
        largest: Bytes = Bytes(50_000),
        /// distribution of the factor by which a task is heavier than the lightest
        tail: Tail = Tail::None,
        /// share of its input that an aggregator sends on
        selectivity: f64 = 0.03,
        /// mean computing time of a worker, in milliseconds
        compute_ms: f64 = 0.0,
        /// offered load on the links into the racks' aggregators, as a share of their capacity
        load: f64 = 0.8,
        /// rate of a port, which the load refers to
        rate: BitsPerSec = BitsPerSec(1_000_000_000),
        /// number of background tasks of one flow
        background: u32 = 0,
        /// size of a background task
        background_size: Bytes = Bytes(100_000_000),
    }
}

/// The largest answer that a tail may multiply.
const LARGEST_TAILED: Bytes = Bytes(1 << 40);

impl Recipe for Aggregate {
    const NAME: &'static str = "aggregate";
    const MEANING: &'static str = "partition–aggregate tasks of one or two levels over racks";
    const SOURCE: &'static str = "Baraat §2.2, §5.2; one aggregator for each rack is our assumption";

    fn generate(&self, seed: u64) -> Result<Workload, GenerateError> {
        self.check()?;
        let racks_of_a_task = if self.levels == 1 { 1 } else { self.racks };
        let flows = u64::from(racks_of_a_task) * u64::from(self.workers + 1);
        FlowBudget::new().spend(u64::from(self.tasks) * flows)?;
        let mut draws = Draws {
            parameters: self,
            sizes: Random::new(seed, Purpose::Sizes),
            waits: Random::new(seed, Purpose::Computation),
            factors: Random::new(seed, Purpose::Shapes),
        };
        let mut places = Random::new(seed, Purpose::Places);
        let mut arrivals = Random::new(seed, Purpose::Arrivals);
        let mean_answer = (self.smallest.as_f64() + self.largest.as_f64()) / 2.0 * self.tail.mean();
        let mean_bytes = mean_answer * f64::from(self.workers);
        let visits = f64::from(racks_of_a_task) / f64::from(self.racks);
        let mean_gap_ns = mean_bytes * visits / (self.load * self.rate.bytes_per_nano());
        let mut now = 0.0;
        let mut builder = WorkloadBuilder::new(self.ports());
        for number in 1..=self.tasks {
            now += arrivals.exponential() * mean_gap_ns;
            let arrival = instant(now)?;
            if self.levels == 1 {
                let rack = places.below(self.racks.into()) as u32;
                let factor = draws.factor();
                builder.coflow(number.to_string(), arrival, draws.answers(rack, factor));
            } else {
                let (task, coflows) = draws.two_levels(number.to_string(), arrival);
                builder.push(task, coflows);
            }
        }
        let background = Background { tasks: self.background, size: self.background_size };
        background.add(&mut builder, self.ports(), now, seed);
        Ok(builder.build()?)
    }
}

struct Draws<'a> {
    parameters: &'a Aggregate,
    sizes: Random,
    waits: Random,
    factors: Random,
}

impl Draws<'_> {
    /// By how much a task is heavier than the lightest.
    fn factor(&mut self) -> f64 {
        self.parameters.tail.draw(&mut self.factors)
    }

    /// Lists the flows from the workers of a rack to its aggregator, the first port.
    fn answers(&mut self, rack: u32, factor: f64) -> Vec<Flow> {
        let Aggregate { workers, smallest, largest, compute_ms, .. } = *self.parameters;
        let dst = PortId(rack * (workers + 1));
        let answer = |worker: u32| Flow {
            src: PortId(dst.0 + worker),
            dst,
            size: Bytes(((self.sizes.between(smallest.0, largest.0) as f64 * factor) as u64).max(1)),
            wave: Nanos((self.waits.exponential() * compute_ms * 1e6) as u64),
        };
        (1..=workers).map(answer).collect()
    }

    fn two_levels(&mut self, name: String, arrival: Instant) -> (Task, Vec<Coflow>) {
        let top = PortId(self.parameters.ports() - 1);
        let (mut stages, mut coflows) = (Vec::new(), Vec::new());
        let factor = self.factor();
        for rack in 0..self.parameters.racks {
            let answers = self.answers(rack, factor);
            let input: u64 = answers.iter().map(|flow| flow.size.0).sum();
            let size = Bytes(((input as f64 * self.parameters.selectivity) as u64).max(1));
            let result = Flow { src: answers[0].dst, dst: top, size, wave: Nanos::ZERO };
            for (flows, after) in [(answers, None), (vec![result], Some(StageIndex(2 * rack)))] {
                let work = Work::Transfer(CoflowId::default());
                let starts_after = after.into_iter().collect();
                stages.push(Stage { starts_after, finishes_after: Vec::new(), work });
                coflows.push(Coflow { flows });
            }
        }
        (
            Task { name, job: None, arrival, deadline: None, class: TaskClass::Online, weight: 1, stages },
            coflows,
        )
    }
}

impl Aggregate {
    fn ports(&self) -> u32 {
        self.racks * (self.workers + 1) + u32::from(self.levels == 2)
    }

    fn check(&self) -> Result<(), GenerateError> {
        require((1..=2).contains(&self.levels), "levels", self.levels, "1 or 2")?;
        require((1..=100_000).contains(&self.racks), "racks", self.racks, "1 to 100000")?;
        require((1..=10_000).contains(&self.workers), "workers", self.workers, "1 to 10000")?;
        require_counts(self.ports(), 2, self.tasks)?;
        require_load(self.load, self.rate)?;
        require_sizes([self.smallest, self.largest], self.load, self.rate)?;
        let within = self.tail == Tail::None || self.largest <= LARGEST_TAILED;
        let range = format_args!("at most {LARGEST_TAILED} where tail is not none").to_string();
        require(within, "largest", self.largest, range)?;
        require((0.0..=1.0).contains(&self.selectivity), "selectivity", self.selectivity, "0 to 1")?;
        require((0.0..=1e9).contains(&self.compute_ms), "compute_ms", self.compute_ms, "0 to 1e9")?;
        Background { tasks: self.background, size: self.background_size }.check(self.ports())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tail_makes_all_answers_of_a_task_heavier_and_keeps_the_load() {
        let tail = Tail::Two { share: 0.5, factor: 100.0 };
        let aggregate = Aggregate { tasks: 2_000, racks: 2, workers: 5, tail, ..Aggregate::default() };
        let workload = aggregate.generate(3).unwrap();
        let heavy = |flow: &Flow| flow.size > aggregate.largest;
        let answers = |task: &Task| {
            let stage = |stage: &Stage| match stage.work {
                Work::Transfer(id) if stage.starts_after.is_empty() => Some(id),
                _ => None,
            };
            task.stages.iter().filter_map(stage).collect::<Vec<CoflowId>>()
        };
        let mut heavy_tasks = 0;
        for task in workload.tasks() {
            let flows: Vec<&Flow> =
                answers(task).into_iter().flat_map(|coflow| workload.flows_of(coflow)).collect();
            let heavier = flows.iter().filter(|flow| heavy(flow)).count();
            assert!(heavier == 0 || heavier == flows.len(), "one factor for all answers of a task");
            heavy_tasks += usize::from(heavier > 0);
        }
        assert!((900..1100).contains(&heavy_tasks), "{heavy_tasks}");
        let first: u64 = workload
            .tasks()
            .iter()
            .flat_map(answers)
            .flat_map(|id| workload.flows_of(id))
            .map(|flow| flow.size.0)
            .sum();
        let last = workload.tasks().last().unwrap().arrival.0 as f64;
        let load = first as f64 / (2.0 * 0.125 * last);
        assert!((load - 0.8).abs() < 0.05, "{load}");
    }

    #[test]
    fn an_answer_that_a_tail_could_make_too_large_is_refused() {
        let aggregate = Aggregate {
            largest: Bytes(1 << 45),
            tail: Tail::LogNormal { sigma: 4.0 },
            ..Aggregate::default()
        };
        assert!(aggregate.generate(1).unwrap_err().to_string().contains("where tail is not none"));
    }
}
