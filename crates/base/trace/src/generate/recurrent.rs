//! Runs of recurring jobs: most tasks of a production cluster have run before, on other data.
//!
//! A job is drawn as a coflow of [`classes`](super::classes) is: its class, its number of mappers
//! and reducers, and what each mapper sends each reducer. A run of it has that shape on ports of
//! its own, with all sizes times one factor of mean 1 that is log-normal with `drift` for σ. Some
//! jobs run far more often than others: the n-th is chosen with a weight of 1/n^`skew`. Every task
//! says which job it is a run of.
//!
//! With `shuffled=1` the same tasks have the same labels dealt out at random. What a policy still
//! gains by labels then is not knowledge of the job: the test that a gain is real.
//!
//! The papers have no such workload. Shares of recurring jobs and the drift of their inputs are our
//! assumption.

use cavalcade_model::{BitsPerSec, Bytes, Coflow, JobId, Task, Workload, WorkloadBuilder};

use super::classes::{MB, arrivals, counts, length};
use super::parameters::{Mix, parameters};
use super::quantiles::apportion;
use super::random::{Purpose, Random};
use super::shape::{FlowBudget, Shape, require_counts, require_load};
use super::{GenerateError, Recipe, require};

parameters! {
    /// Parameters of `recurrent`.
    Recurrent {
        /// number of tasks
        tasks: u32 = 400,
        /// number of jobs that they are runs of
        jobs: u32 = 40,
        /// number of ports (hosts)
        ports: u32 = 20,
        /// offered load on all ports together, as a share of their capacity
        load: f64 = 1.0,
        /// exponent by which some jobs run more often than others; 0 for all equally often
        skew: f64 = 1.0,
        /// σ of the log-normal factor by which the size of a run differs from its job's
        drift: f64 = 0.3,
        /// 1: labels of jobs are dealt out at random
        shuffled: u32 = 0,
        /// longest flow of a job
        longest: Bytes = Bytes(500 << 20),
        /// maximum number of mappers, and of reducers, of a narrow job
        narrow: u32 = 5,
        /// shares of short narrow / long narrow / short wide / long wide jobs
        mix: Mix = Mix([52.0, 16.0, 15.0, 17.0]),
        /// rate of a port, which the load refers to
        rate: BitsPerSec = BitsPerSec(1_000_000_000),
    }
}

/// The shape of a job: mappers, and the bytes that each sends to each reducer.
struct Job {
    mappers: u32,
    shares: Vec<Bytes>,
}

impl Recipe for Recurrent {
    const NAME: &'static str = "recurrent";
    const MEANING: &'static str = "runs of recurring jobs, each task labelled with its job";
    const SOURCE: &'static str = "ours: jobs as in classes, runs with drifting sizes";

    fn generate(&self, seed: u64) -> Result<Workload, GenerateError> {
        self.check()?;
        let jobs = self.jobs(seed);
        let mut choice = Random::new(seed, Purpose::Runs);
        let mut labels = self.choose(&mut choice);
        let shapes = self.shapes(&jobs, &labels, seed)?;
        let arrivals = arrivals(self.ports, self.load, self.rate, seed, &shapes)?;
        if self.shuffled == 1 {
            choice.shuffle(&mut labels);
        }
        let mut builder = WorkloadBuilder::new(self.ports);
        for (index, ((shape, arrival), job)) in shapes.iter().zip(arrivals).zip(labels).enumerate() {
            let task = Task::of_coflow((index + 1).to_string(), arrival);
            let job = Some(JobId(job as u64));
            builder.push(Task { job, ..task }, vec![Coflow { flows: shape.flows() }]);
        }
        Ok(builder.build()?)
    }
}

impl Recurrent {
    fn check(&self) -> Result<(), GenerateError> {
        require_counts(self.ports, 1, self.tasks)?;
        require_load(self.load, self.rate)?;
        require((1..=1 << 20).contains(&self.jobs), "jobs", self.jobs, "1 to 1048576")?;
        require((0.0..=10.0).contains(&self.skew), "skew", self.skew, "0 to 10")?;
        require((0.0..=5.0).contains(&self.drift), "drift", self.drift, "0 to 5")?;
        require(self.shuffled <= 1, "shuffled", self.shuffled, "0 or 1")?;
        require(self.narrow > 0, "narrow", self.narrow, "at least 1")?;
        let usable = (10..1 << 30).contains(&(self.longest.0 / MB));
        require(usable, "longest", self.longest, "10MiB to 1023TiB")
    }

    /// Draws the jobs, the most frequent first.
    fn jobs(&self, seed: u64) -> Vec<Job> {
        let mut shapes = Random::new(seed, Purpose::Shapes);
        let mut sizes = Random::new(seed, Purpose::Sizes);
        let mut jobs = Vec::with_capacity(self.jobs as usize);
        for (class, count) in apportion(self.jobs, &self.mix.0).into_iter().enumerate() {
            let (long, wide) = (class % 2 == 1, class >= 2);
            for _ in 0..count {
                let (mappers, reducers) = counts(&mut shapes, self.ports, self.narrow, wide);
                let shares = (0..reducers).map(|_| length(&mut sizes, long, self.longest.0 / MB)).collect();
                jobs.push(Job { mappers, shares });
            }
        }
        shapes.shuffle(&mut jobs);
        jobs
    }

    /// Draws the job of each run.
    fn choose(&self, random: &mut Random) -> Vec<usize> {
        let mut total = 0.0;
        let up_to: Vec<f64> = (1..=self.jobs)
            .map(|job| {
                total += libm::pow(f64::from(job), -self.skew);
                total
            })
            .collect();
        let mut draw = || {
            let drawn = random.unit() * total;
            up_to.partition_point(|&up_to| up_to <= drawn).min(up_to.len() - 1)
        };
        (0..self.tasks).map(|_| draw()).collect()
    }

    /// Draws the coflow of each run.
    fn shapes(&self, jobs: &[Job], runs: &[usize], seed: u64) -> Result<Vec<Shape>, GenerateError> {
        let mut places = Random::new(seed, Purpose::Places);
        let mut drift = Random::new(seed, Purpose::Drift);
        let mut budget = FlowBudget::new();
        let shape = |&run: &usize| {
            let Job { mappers, shares } = &jobs[run];
            budget.spend(u64::from(*mappers) * shares.len() as u64)?;
            let factor = libm::exp(self.drift * drift.normal() - self.drift * self.drift / 2.0);
            let mappers = places.ports(*mappers, self.ports);
            let reducers = places.ports(shares.len() as u32, self.ports);
            let size = |share: &Bytes| Bytes(((share.as_f64() * factor) as u64).max(1));
            let reducers = reducers.into_iter().zip(shares.iter().map(size)).collect();
            Ok(Shape { mappers, reducers })
        };
        runs.iter().map(shape).collect()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn workload(settings: &str) -> Workload {
        super::super::generate(&format!("recurrent:{settings}").parse().expect("a generator"), 1)
            .expect("a workload")
    }

    fn sizes_by_job(workload: &Workload) -> BTreeMap<JobId, Vec<u64>> {
        let mut sizes: BTreeMap<JobId, Vec<u64>> = BTreeMap::new();
        for coflow in workload.coflows() {
            let bytes = workload.flows_of(coflow.id).iter().map(|flow| flow.size.0).sum();
            let job = coflow.task.job.expect("every task is a run of a job");
            sizes.entry(job).or_default().push(bytes);
        }
        sizes
    }

    #[test]
    fn without_drift_all_runs_of_a_job_are_of_one_size() {
        let sizes = sizes_by_job(&workload("tasks=100,jobs=7,drift=0"));
        assert_eq!(sizes.values().map(Vec::len).sum::<usize>(), 100);
        assert!(sizes.values().all(|sizes| sizes.iter().all(|size| *size == sizes[0])));
        assert!(sizes.len() > 3);
    }

    #[test]
    fn the_first_jobs_run_most_often() {
        let sizes = sizes_by_job(&workload("tasks=1000,jobs=10,skew=1"));
        let runs = |job| sizes[&JobId(job)].len();
        // 1000 / (1 + 1/2 + … + 1/10) = 341, and a tenth of that.
        assert!((300..380).contains(&runs(0)), "{}", runs(0));
        assert!((20..50).contains(&runs(9)), "{}", runs(9));
    }

    #[test]
    fn shuffled_labels_are_the_same_ones_on_the_same_tasks_in_another_order() {
        let (told, dealt) = (workload("tasks=200,jobs=10"), workload("tasks=200,jobs=10,shuffled=1"));
        let labels = |of: &Workload| of.tasks().iter().map(|task| task.job).collect::<Vec<_>>();
        assert_eq!(told.flows(), dealt.flows());
        let (mut told, mut dealt) = (labels(&told), labels(&dealt));
        assert_ne!(told, dealt);
        told.sort();
        dealt.sort();
        assert_eq!(told, dealt);
    }
}
