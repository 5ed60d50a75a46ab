//! Runs over a trace that is read as it goes, for traces that do not fit into memory.
//!
//! The file is read once before any run, and once more for each. The first reading checks it from
//! its first line to its last, and keeps what a comparison says of the trace: for each coflow its
//! name, sizes and the time that it takes alone; for policies the sizes of tasks and flows, as an
//! operator knows those of the past. A run then holds the flows that are under way.
//!
//! # Invariant
//! The comparison is that of the trace read whole ([`crate::compare`]), to the bit. Under policies
//! under which the number of a flow may decide between it and another, flows keep the numbers that
//! they have in the whole, and with them their room (`cavalcade_sim_fluid::StreamOptions`).
//!
//! # Rejected
//! - One reading: which allocator is the faster one, and what policies may know of the past, depend
//!   on the whole. A mistake in the last line would also come to light after hours.
//! - Bounds, details and schedules: they look at flows that are over.

use std::cell::Cell;
use std::num::NonZeroU32;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::Instant;

use cavalcade_metrics::{Analysis, RunResult, Survey, WorkloadFacts};
use cavalcade_model::{Bytes, Coflow, Fabric, FabricError, History, SizeHistogram, Task, WorkloadBuilder};
use cavalcade_sim_fluid::{self as fluid, Load, StreamOptions};
use cavalcade_trace::{Format, ReadOptions, TaskStream, TraceError};

use crate::compare::{Compared, Finished, labels};
use crate::engine::{Engine, failed};
use crate::error::{Error, Kind};
use crate::parallel::{Meter, Progress, map};
use crate::policies::Policy;
use crate::scenario::{Conditions, fabric_of};
use crate::source::{Source, file};

/// A trace that is read as it goes, and the conditions under which it is run.
#[derive(Debug)]
pub struct Stream {
    path: PathBuf,
    format: Format,
    coflows: usize,
    conditions: Conditions,
    fabric: Fabric,
}

/// What the first reading finds.
struct Surveyed {
    facts: WorkloadFacts,
    history: History,
    is_wide: bool,
}

impl Stream {
    /// Opens a trace and reads its header.
    ///
    /// # Errors
    /// If it is not one file that can be read again and again, or of a format that is only read
    /// whole; if the conditions need the whole, or there is no such fabric or it has too few ports.
    pub fn open(source: &Source, format: Option<Format>, conditions: Conditions) -> Result<Self, Error> {
        let needs = match &conditions {
            Conditions { offline: true, .. } => Some("to submit all tasks at time zero"),
            Conditions { counters, .. } if *counters != NonZeroU32::MIN => {
                Some("to give out task-ids from several counters")
            }
            _ => None,
        };
        if let Some(needs) = needs {
            let problem = format!("{}: {needs}, all of the trace has to be there", source.name());
            return Err(Error::usage(problem).help("read the trace as a whole, or leave that out"));
        }
        let path = source.only_file()?.to_owned();
        let tasks = opened(&path, format)?;
        let (format, ports) = (tasks.format(), tasks.ports());
        let coflows = usize::try_from(tasks.coflows()).unwrap_or(usize::MAX);
        let fabric = fabric_of(&conditions, ports)?;
        if fabric.ports() < ports {
            let error = FabricError::TooFewPorts { needed: ports, ports: fabric.ports() };
            return Err(Error::input(error.to_string()));
        }
        Ok(Self { path, format, coflows, conditions, fabric })
    }

    /// The number of coflows of which its header speaks: a comparison counts as many for its first
    /// reading, and for each run.
    pub fn coflows(&self) -> usize {
        self.coflows
    }

    /// The conditions.
    pub fn conditions(&self) -> &Conditions {
        &self.conditions
    }

    /// Checks that a policy can be run over it.
    ///
    /// # Errors
    /// If it needs the whole.
    pub fn check(&self, policy: &Policy) -> Result<(), Error> {
        if !policy.is_order() {
            return Ok(());
        }
        let problem = format!("{}: an order lists coflows of the whole trace", policy.label());
        Err(Error::usage(problem).help("read the trace as a whole, or leave this policy out"))
    }

    /// Runs `policies` on all cores and compares them with the one at `baseline`.
    ///
    /// # Errors
    /// If no policy is at `baseline`, one cannot be run over the trace, or a run fails; if the
    /// trace is not valid, or its coflows are not in order of arrival; if it was cancelled.
    pub fn compare(
        &self,
        policies: &[Policy],
        baseline: usize,
        progress: &Progress,
    ) -> Result<Compared, Error> {
        policies.iter().try_for_each(|policy| self.check(policy))?;
        let surveyed = self.survey(progress)?;
        let runs = map(policies.len(), |run| self.run(&policies[run], &surveyed, progress));
        let runs = runs.into_iter().collect::<Result<Vec<_>, _>>()?;
        let named: Vec<_> = policies.iter().map(|policy| (Some(policy), &Engine::Fluid)).collect();
        let results: Vec<RunResult> = policies
            .iter()
            .zip(labels(&named))
            .zip(runs)
            .map(|((policy, label), Finished { outcome, wall_s })| RunResult {
                label,
                policy: policy.name().to_owned(),
                params: policy.params().to_vec(),
                about: policy.about(),
                named: false,
                transport: None,
                control: None,
                outcome,
                wall_s,
            })
            .collect();
        let comparison = Analysis::default().compare_by(surveyed.facts, &self.fabric, &results, baseline)?;
        Ok(Compared { comparison, folders: Vec::new(), flow_ends: Vec::new(), missing: Vec::new() })
    }

    /// Reads the trace from end to end, and keeps what is known of it as a whole.
    fn survey(&self, progress: &Progress) -> Result<Surveyed, Error> {
        let tasks = opened(&self.path, Some(self.format))?;
        let ports = tasks.ports();
        let mut survey = Survey::new(&self.fabric, Analysis::default().thresholds);
        let (mut sizes, mut histogram, mut widest) = (Vec::new(), SizeHistogram::default(), 0);
        let mut meter = Meter::new(Some(progress), self.coflows);
        for (read, task) in (1..).zip(tasks) {
            if progress.is_cancelled() {
                return Err(Error::new(Kind::Interrupted, "interrupted"));
            }
            let (task, coflows) = task?;
            let flows = || coflows.iter().flat_map(|coflow| &coflow.flows);
            flows().for_each(|flow| histogram.add(flow.size));
            sizes.push(flows().map(|flow| flow.size).sum::<Bytes>());
            widest = coflows.iter().map(|coflow| coflow.flows.len()).fold(widest, usize::max);
            let mut part = WorkloadBuilder::new(ports);
            part.push(task, coflows);
            let part = part.build().map_err(|error| Error::input(error.to_string()))?;
            survey.add(&part).map_err(|error| Error::input(error.to_string()))?;
            meter.reach(read);
        }
        let facts = survey.finish();
        let is_wide = Load::is_wide(ports, widest, facts.trace.flows);
        Ok(Surveyed { facts, history: History::new(sizes).with_histogram(histogram), is_wide })
    }

    /// Runs one policy.
    fn run(&self, policy: &Policy, surveyed: &Surveyed, progress: &Progress) -> Result<Finished, Error> {
        let start = Instant::now();
        let Surveyed { history, is_wide, .. } = surveyed;
        let about = StreamOptions { history, is_wide: *is_wide, is_exact: true };
        let &Conditions { control_delay, control_loss, seed, cpu_order, allocator, .. } = &self.conditions;
        let options = fluid::Options {
            control_delay,
            control_loss,
            seed,
            cpu_order,
            allocator,
            link_use: false,
            forgets_flows: true,
        };
        let is_broken = Rc::new(Cell::new(false));
        let tasks = opened(&self.path, Some(self.format))?;
        let mut tasks = Tasks { tasks, error: None, is_broken: Rc::clone(&is_broken) };
        let mut observer = Observer { meter: Meter::new(Some(progress), self.coflows), is_broken };
        let run =
            fluid::simulate_stream(&mut tasks, &self.fabric, policy, about, &options, Some(&mut observer));
        if let Some(error) = tasks.error {
            return Err(error.into());
        }
        let outcome = run.map_err(|error| failed(policy.label(), error))?.outcome;
        Ok(Finished { outcome, wall_s: start.elapsed().as_secs_f64() })
    }
}

fn opened(path: &Path, format: Option<Format>) -> Result<TaskStream<'static>, Error> {
    Ok(TaskStream::open(file(path), &ReadOptions { format, ..ReadOptions::default() })?)
}

/// The tasks of a trace for a run, which cannot be told of an error: they end with it.
struct Tasks {
    tasks: TaskStream<'static>,
    error: Option<TraceError>,
    /// True once there is an error.
    is_broken: Rc<Cell<bool>>,
}

impl Iterator for Tasks {
    type Item = (Task, Vec<Coflow>);

    fn next(&mut self) -> Option<Self::Item> {
        match self.tasks.next()? {
            Ok(task) => Some(task),
            Err(error) => {
                self.error = Some(error);
                self.is_broken.set(true);
                None
            }
        }
    }
}

/// Counts the coflows of a run that are done, and ends it where its trace cannot be read on.
struct Observer<'p> {
    meter: Meter<'p>,
    is_broken: Rc<Cell<bool>>,
}

impl fluid::Observer for Observer<'_> {
    fn wants_segments(&self) -> bool {
        false
    }

    fn progress(&mut self, done_coflows: usize) {
        self.meter.reach(done_coflows);
    }

    fn is_cancelled(&self) -> bool {
        self.is_broken.get() || self.meter.is_cancelled()
    }
}
