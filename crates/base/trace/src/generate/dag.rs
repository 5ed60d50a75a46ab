//! Tasks that are DAGs of stages: queries over tables, iterative jobs (Aalo §5.1, §7.2.2 and Fig
//! 11).
//!
//! A task takes its shape from a list, in random order, each once before any comes again. Published
//! shapes ([`crate::shapes`]) say which stage reads which and no bytes; what they leave open is
//! drawn:
//!
//! - **Sizes.** A stage's output is log-uniform from `smallest` to `largest`: queries shrink what
//!   they read by factors, so every power of ten is as likely as any other. Every stage that reads
//!   it gets all of it. Sizes that a shape gives are kept.
//! - **Places.** A stage runs on as many hosts as it has tasks, at most `width`; where a shape does
//!   not say, on 1 to `width`. Hosts are drawn again for each stage.
//! - **Flows.** Every host of the writing stage sends every host of the reading one the same share,
//!   at least one byte. A broadcast goes in whole from one of the hosts to every reader.
//! - **Computation.** Where a shape has times: that of one task, as many times as the tasks fill
//!   the `slots` of the stage's hosts. A stage computes when all that it reads has come.
//! - **Arrivals.** Poisson, so that the bytes of all tasks are `load` times what the ports carry
//!   meanwhile; with `load=0` all tasks are there at time zero.
//!
//! Without a file of shapes five small ones are used: aggregation, chain, join, join with a
//! broadcast, iteration.

use cavalcade_model::{
    BitsPerSec, Bytes, Coflow, CoflowId, Compute, Flow, Instant, Nanos, PortId, Stage, StageIndex, Task,
    TaskClass, Work, Workload, WorkloadBuilder,
};

use super::parameters::parameters;
use super::random::{Purpose, Random};
use super::shape::{FlowBudget, instant, require_counts, require_sizes};
use super::{GenerateError, Recipe, require};
use crate::shapes::{DagNode, DagShape};

parameters! {
    /// Parameters of `dag`.
    Dag {
        /// number of tasks
        tasks: u32 = 40,
        /// number of ports
        ports: u32 = 40,
        /// maximum number of hosts that a stage runs on
        width: u32 = 20,
        /// number of tasks that a host computes at a time
        slots: u32 = 4,
        /// smallest output of a stage
        smallest: Bytes = Bytes(1_000_000),
        /// largest output of a stage
        largest: Bytes = Bytes(10_000_000_000),
        /// offered load on all ports together, as a share of their capacity; 0 lets all tasks
        /// arrive at once
        load: f64 = 0.5,
        /// rate of a port, which the load refers to
        rate: BitsPerSec = BitsPerSec(1_000_000_000),
    }
}

impl Recipe for Dag {
    const NAME: &'static str = "dag";
    const MEANING: &'static str = "tasks of several stages; shapes built in, or from a file by --shapes";
    const SOURCE: &'static str = "Aalo §5.1, Fig 11; sizes are our assumption";

    fn generate(&self, seed: u64) -> Result<Workload, GenerateError> {
        self.generate_from(&built_in(), seed)
    }
}

impl Dag {
    /// Makes a workload of tasks with the given shapes. Shapes in which nothing is read are passed
    /// over.
    ///
    /// # Errors
    /// A parameter outside its range, no shape in which anything is read, or a workload out of
    /// proportion.
    pub fn generate_from(&self, shapes: &[DagShape], seed: u64) -> Result<Workload, GenerateError> {
        self.check()?;
        let shapes: Vec<&DagShape> = shapes.iter().filter(|shape| moves_something(shape)).collect();
        if shapes.is_empty() {
            return Err(GenerateError::NoShapes);
        }
        let mut draws = Draws::new(self, seed);
        let mut order: Vec<usize> = Vec::new();
        let mut made: Vec<(Task, Vec<Coflow>)> = Vec::with_capacity(self.tasks as usize);
        for number in 1..=self.tasks {
            if order.is_empty() {
                order = (0..shapes.len()).collect();
                draws.shapes.shuffle(&mut order);
            }
            let shape = shapes[order.pop().expect("just filled")];
            made.push(draws.task(format!("{number}-{}", shape.name), shape)?);
        }
        self.arrive(&mut made, seed)?;
        let mut builder = WorkloadBuilder::new(self.ports);
        for (task, transfers) in made {
            builder.push(task, transfers);
        }
        Ok(builder.build()?)
    }

    fn arrive(&self, made: &mut [(Task, Vec<Coflow>)], seed: u64) -> Result<(), GenerateError> {
        if self.load == 0.0 {
            return Ok(());
        }
        let flows = made.iter().flat_map(|(_, coflows)| coflows).flat_map(|coflow| &coflow.flows);
        let bytes: f64 = flows.map(|flow| flow.size.as_f64()).sum();
        let capacity = self.load * f64::from(self.ports) * self.rate.bytes_per_nano();
        let mean_gap_ns = bytes / capacity / f64::from(self.tasks);
        let mut random = Random::new(seed, Purpose::Arrivals);
        let mut now = 0.0;
        for (task, _) in made {
            now += random.exponential() * mean_gap_ns;
            task.arrival = instant(now)?;
        }
        Ok(())
    }

    fn check(&self) -> Result<(), GenerateError> {
        require_counts(self.ports, 2, 1)?;
        require(self.tasks > 0, "tasks", self.tasks, "at least 1")?;
        let range = format_args!("1 to {}, the number of ports", self.ports).to_string();
        require((1..=self.ports).contains(&self.width), "width", self.width, range)?;
        require(self.slots > 0, "slots", self.slots, "at least 1")?;
        require_sizes([self.smallest, self.largest], self.load, self.rate)
    }
}

fn moves_something(shape: &DagShape) -> bool {
    shape.nodes.iter().any(|node| !node.reads.is_empty())
}

/// Everything that is drawn, each from a stream of its own.
struct Draws<'a> {
    parameters: &'a Dag,
    shapes: Random,
    places: Random,
    sizes: Random,
    budget: FlowBudget,
}

/// A stage that has been drawn: where it runs, what it writes, and the stages of the task whose end
/// is its end.
struct Drawn {
    hosts: Vec<PortId>,
    output: u64,
    broadcast: bool,
    ends_with: Vec<StageIndex>,
}

impl<'a> Draws<'a> {
    fn new(parameters: &'a Dag, seed: u64) -> Self {
        Self {
            parameters,
            shapes: Random::new(seed, Purpose::Shapes),
            places: Random::new(seed, Purpose::Places),
            sizes: Random::new(seed, Purpose::Sizes),
            budget: FlowBudget::new(),
        }
    }

    fn task(&mut self, name: String, shape: &DagShape) -> Result<(Task, Vec<Coflow>), GenerateError> {
        let (mut stages, mut transfers) = (Vec::new(), Vec::new());
        let mut push = |starts_after: Vec<StageIndex>, work: Work| {
            stages.push(Stage { starts_after, finishes_after: Vec::new(), work });
            StageIndex::from_index(stages.len() - 1)
        };
        let mut drawn: Vec<Drawn> = Vec::with_capacity(shape.nodes.len());
        for node in &shape.nodes {
            let mut made = self.node(node);
            for &input in &node.reads {
                let from = &drawn[input];
                transfers.push(Coflow { flows: self.flows(from, &made.hosts)? });
                made.ends_with.push(push(from.ends_with.clone(), Work::Transfer(CoflowId::default())));
            }
            if let Some(duration) = self.computation(node, made.hosts.len()) {
                let after = core::mem::take(&mut made.ends_with);
                made.ends_with.push(push(after, Work::Compute(Compute::lasting(duration))));
            }
            drawn.push(made);
        }
        let (arrival, class) = (Instant::ZERO, TaskClass::Online);
        Ok((Task { name, job: None, arrival, deadline: None, class, weight: 1, stages }, transfers))
    }

    fn node(&mut self, node: &DagNode) -> Drawn {
        let Dag { width, ports, smallest, largest, .. } = *self.parameters;
        // Drawn whether or not the shape says it, so that one stage's sizes do not move another's.
        let drawn_width = self.shapes.between(1, width.into()) as u32;
        let hosts = node.tasks.map_or(drawn_width, |tasks| tasks.clamp(1, width));
        let ratio = largest.as_f64() / smallest.as_f64();
        let size = smallest.as_f64() * libm::pow(ratio, self.sizes.unit());
        Drawn {
            hosts: self.places.ports(hosts, ports),
            output: node.output.map_or(size as u64, Bytes::get),
            broadcast: node.broadcast,
            ends_with: Vec::new(),
        }
    }

    /// The flows of one stage's output to the hosts that read it.
    fn flows(&mut self, from: &Drawn, readers: &[PortId]) -> Result<Vec<Flow>, GenerateError> {
        let senders = if from.broadcast { &from.hosts[..1] } else { &from.hosts[..] };
        let width = senders.len() as u64 * readers.len() as u64;
        self.budget.spend(width)?;
        let parts = if from.broadcast { 1 } else { width };
        let size = Bytes((from.output / parts).max(1));
        let to = |&dst: &PortId| senders.iter().map(move |&src| Flow { src, dst, size, wave: Nanos::ZERO });
        Ok(readers.iter().flat_map(to).collect())
    }

    fn computation(&self, node: &DagNode, hosts: usize) -> Option<Nanos> {
        let time = node.task_time?;
        let at_once = u64::from(self.parameters.slots) * hosts as u64;
        let rounds = u64::from(node.tasks.unwrap_or(1)).div_ceil(at_once);
        Some(Nanos(time.0.saturating_mul(rounds)))
    }
}

/// Shapes for those who bring none.
fn built_in() -> Vec<DagShape> {
    let shape = |name: &str, reads: &[&[usize]], broadcast: &[usize]| {
        let node = |(index, reads): (usize, &&[usize])| DagNode {
            reads: reads.to_vec(),
            broadcast: broadcast.contains(&index),
            ..DagNode::default()
        };
        DagShape { name: name.to_owned(), nodes: reads.iter().enumerate().map(node).collect() }
    };
    vec![
        shape("aggregation", &[&[], &[0]], &[]),
        shape("chain", &[&[], &[0], &[1], &[2]], &[]),
        shape("join", &[&[], &[], &[0, 1], &[2]], &[]),
        shape("broadcast-join", &[&[], &[], &[], &[0, 1], &[2, 3], &[4]], &[0, 2]),
        shape("iteration", &[&[], &[0], &[0, 1], &[0, 2], &[0, 3], &[4]], &[]),
    ]
}
