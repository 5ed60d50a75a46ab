//! From what a log says to tasks, stages, coflows and flows: all estimates are made here.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use cavalcade_model::{
    Bytes, Coflow, CoflowId, Compute, Flow, Instant, LATEST, Nanos, PortId, Stage, StageIndex, Task,
    TaskClass, Work, WorkloadBuilder, WorkloadError,
};

use super::log::{Execution, Log, Run, StageLog, Unit};
use super::{Import, Query, Shuffle, account};
use crate::ReadOptions;
use crate::error::{Fault, TraceErrorKind};
use crate::tokens::checked_ports;

/// Counts of an import, for the notes.
#[derive(Default)]
pub(super) struct Tally {
    /// Bytes that never left the host on which they were written.
    pub(super) stayed: u64,
    /// Bytes received from elsewhere that no known stage wrote elsewhere.
    pub(super) sourceless: u64,
    /// Stages that read more than one shuffle.
    pub(super) joins: usize,
    /// Attempts of tasks that failed or were killed.
    pub(super) failed: usize,
    /// Queries and jobs without a shuffle from host to host, which are left out.
    pub(super) idle_units: usize,
    /// Stages that ran in no job that the log names.
    pub(super) orphans: usize,
}

/// Makes the workload. `end` is the length of the log, where a fault of the log as a whole is put.
pub(super) fn import(log: &Log, end: usize, options: &ReadOptions) -> Result<Import, Fault> {
    let ports = checked_ports(options.ports.map_or(log.hosts.len() as u64, u64::from), 0..0, options)?;
    let mut importer = Importer::new(log, options);
    let mut builder = WorkloadBuilder::new(ports);
    let (mut shuffles, mut queries) = (Vec::new(), Vec::new());
    for (unit, arrival) in importer.units() {
        let Some(mut made) = importer.task(&unit, arrival)? else { continue };
        shuffles.append(&mut made.shuffles);
        let (name, arrival) = (made.task.name.clone(), made.task.arrival);
        queries.push(Query { name, arrival, took: made.took });
        builder.push(made.task, made.transfers);
    }
    if builder.is_empty() {
        return Err(Fault::new(end..end, TraceErrorKind::NoShuffle { hosts: log.hosts.len() }));
    }
    // Units come in order of arrival, so the builder numbers coflows as they were made.
    for (index, shuffle) in shuffles.iter_mut().enumerate() {
        shuffle.coflow = CoflowId::from_index(index);
    }
    let zero_ms = importer.zero_ms.unwrap_or_default();
    let notes = account::notes(log, &importer.port_of, &importer.tally, builder.len(), zero_ms);
    let workload = builder.build().map_err(|error| match error {
        WorkloadError::TooLarge => Fault::new(0..0, TraceErrorKind::Workload(WorkloadError::TooLarge)),
        other => Fault::new(end..end, TraceErrorKind::Workload(other)),
    })?;
    Ok(Import { workload, notes, shuffles, queries })
}

struct Importer<'a> {
    log: &'a Log,
    flow_limit: u64,
    flows_left: u64,
    /// For each host, its port.
    port_of: Vec<PortId>,
    /// For the last RDD of stages, those that wrote output, in order.
    ran: BTreeMap<u64, Vec<u32>>,
    /// Time zero: the arrival of the first task that is kept, so that nothing is counted of the time before it.
    zero_ms: Option<u64>,
    /// Names of queries that have been given, with how often.
    named: BTreeMap<String, usize>,
    tally: Tally,
}

/// A task on its way into the builder.
struct Made {
    task: Task,
    transfers: Vec<Coflow>,
    shuffles: Vec<Shuffle>,
    /// Duration by the log.
    took: Nanos,
    /// The latest time at which something may happen in it, with its stages taken one after the other.
    latest_ns: u128,
}

/// The end of a stage that has been made.
#[derive(Clone, Copy)]
struct Done {
    stage: StageIndex,
    finished_ms: u64,
}

/// Source of a shuffle's bytes to one executor.
#[derive(Clone, Copy)]
struct Source {
    /// Index of the shuffle among those that the stage reads.
    slot: usize,
    host: usize,
    weight: u64,
}

impl<'a> Importer<'a> {
    fn new(log: &'a Log, options: &ReadOptions) -> Self {
        let mut by_name: Vec<usize> = (0..log.hosts.len()).collect();
        by_name.sort_unstable_by_key(|&host| &log.hosts[host]);
        let mut port_of = vec![PortId(0); log.hosts.len()];
        for (port, host) in by_name.into_iter().enumerate() {
            port_of[host] = PortId(port as u32);
        }
        let mut ran: BTreeMap<u64, Vec<u32>> = BTreeMap::new();
        for (&id, stage) in &log.stages {
            if let Some(rdd) = stage.rdd.filter(|_| log.written(id) > 0) {
                ran.entry(rdd).or_default().push(id);
            }
        }
        Self {
            log,
            flow_limit: options.limits.flows,
            flows_left: options.limits.flows,
            port_of,
            ran,
            zero_ms: None,
            named: BTreeMap::new(),
            tally: Tally::default(),
        }
    }

    /// Queries and jobs with their arrival, in order of it: that of its first job, or of the query's own start before it.
    fn units(&mut self) -> Vec<(Unit, u64)> {
        let mut arrivals: BTreeMap<&Unit, (u64, u64)> = BTreeMap::new();
        for (&id, job) in &self.log.jobs {
            let first = arrivals.entry(&job.unit).or_insert((job.submitted, id));
            first.0 = first.0.min(job.submitted);
        }
        for (unit, first) in &mut arrivals {
            if let Some(execution) = self.log.execution(unit) {
                first.0 = first.0.min(execution.started);
            }
        }
        let mut units: Vec<_> = arrivals.into_iter().collect();
        units.sort_unstable_by_key(|&(_, arrival_and_job)| arrival_and_job);
        let is_orphan = |stage: &&StageLog| stage.job.is_none() && !stage.runs.is_empty();
        self.tally.orphans = self.log.stages.values().filter(is_orphan).count();
        units.into_iter().map(|(unit, (arrival, _))| (unit.clone(), arrival)).collect()
    }

    /// The task of a query or job; `None` where it moves nothing from host to host.
    fn task(&mut self, unit: &Unit, arrival_ms: u64) -> Result<Option<Made>, Fault> {
        let log = self.log;
        let mut made = Made {
            task: Task {
                name: String::new(),
                job: None,
                arrival: Instant::ZERO,
                deadline: None,
                class: TaskClass::Online,
                weight: 1,
                stages: Vec::new(),
            },
            transfers: Vec::new(),
            shuffles: Vec::new(),
            took: Nanos::ZERO,
            latest_ns: u128::from(arrival_ms - self.zero_ms.unwrap_or(arrival_ms)) * 1_000_000,
        };
        let mut done: BTreeMap<u32, Done> = BTreeMap::new();
        for (&id, stage) in &log.stages {
            let owner = stage.job.and_then(|job| log.jobs.get(&job)).map(|job| &job.unit);
            if owner == Some(unit) && !stage.runs.is_empty() {
                self.stage(id, stage, arrival_ms, &mut done, &mut made)?;
                if made.latest_ns > LATEST.0.into() {
                    return Err(Fault::of_line(stage.line.clone(), TraceErrorKind::TooLate));
                }
            }
        }
        if made.transfers.is_empty() {
            self.tally.idle_units += 1;
            return Ok(None);
        }
        let zero_ms = *self.zero_ms.get_or_insert(arrival_ms);
        made.task.arrival = Instant((arrival_ms - zero_ms) * 1_000_000);
        made.task.name = self.name(unit);
        made.end(arrival_ms, log.execution(unit), &done);
        Ok(Some(made))
    }

    /// Returns the application's name of the query, numbered from the second of that name on; else its id.
    fn name(&mut self, unit: &Unit) -> String {
        let name = match (unit, self.log.execution(unit).and_then(Execution::name)) {
            (_, Some(name)) => name,
            (Unit::Query(id), None) => format!("query-{id}"),
            (Unit::Job(id), None) => format!("job-{id}"),
        };
        let times = self.named.entry(name.clone()).or_default();
        *times += 1;
        if *times == 1 { name } else { format!("{name} #{times}") }
    }

    /// Adds a stage of Spark: a pause, the shuffles that it reads, and its computation.
    fn stage(
        &mut self,
        id: u32,
        stage: &StageLog,
        arrival_ms: u64,
        done: &mut BTreeMap<u32, Done>,
        made: &mut Made,
    ) -> Result<(), Fault> {
        let parents: BTreeSet<u32> = stage.parents.iter().map(|&parent| self.resolve(parent, id)).collect();
        let parents: Vec<u32> = parents.into_iter().collect();
        let span = Span::of(&stage.runs);
        let before: Vec<Done> = parents.iter().filter_map(|parent| done.get(parent).copied()).collect();
        let ready_ms = before.iter().map(|done| done.finished_ms).fold(arrival_ms, u64::max);
        let mut starts_after: Vec<StageIndex> = before.iter().map(|done| done.stage).collect();
        let pause_ms = span.launched.saturating_sub(ready_ms);
        if pause_ms > 0 {
            let duration = Nanos(pause_ms * 1_000_000);
            starts_after =
                vec![made.push(starts_after, Vec::new(), Work::Compute(Compute::lasting(duration)))];
        }
        let mut coflows = Vec::new();
        for (parent, flows) in self.coflows(&parents, stage, span.launched)? {
            let moved = flows.iter().map(|flow| flow.size.0).fold(0, u64::saturating_add);
            made.shuffles.push(Shuffle {
                coflow: CoflowId::default(),
                map_stage: parent,
                reduce_stage: id,
                written: Bytes(self.log.written(parent)),
                moved: Bytes(moved),
            });
            made.latest_ns += u128::from(flows.iter().map(|flow| flow.wave.0).max().unwrap_or(0));
            made.transfers.push(Coflow { flows });
            coflows.push(made.push(starts_after.clone(), Vec::new(), Work::Transfer(CoflowId::default())));
        }
        let compute = Work::Compute(Compute::lasting(span.computation()));
        let index = made.push(starts_after, coflows, compute);
        done.insert(id, Done { stage: index, finished_ms: span.finished });
        Ok(())
    }

    /// The stage that wrote what stage `parent` stands for. An adaptive plan submits a shuffle that is already there under
    /// a new stage id, which is skipped; its last RDD names the stage that ran.
    fn resolve(&self, parent: u32, child: u32) -> u32 {
        if self.log.written(parent) > 0 {
            return parent;
        }
        let rdd = self.log.stages.get(&parent).and_then(|stage| stage.rdd);
        let ran = rdd.and_then(|rdd| self.ran.get(&rdd)).map_or(&[][..], Vec::as_slice);
        ran.iter().rev().copied().find(|&stage| stage < child).unwrap_or(parent)
    }

    /// The flows of each shuffle that `stage` read, with the stage that wrote it; only those that have any.
    fn coflows(
        &mut self,
        parents: &[u32],
        stage: &StageLog,
        launched_ms: u64,
    ) -> Result<Vec<(u32, Vec<Flow>)>, Fault> {
        let parents: Vec<u32> =
            parents.iter().copied().filter(|&parent| self.log.written(parent) > 0).collect();
        self.tally.failed += stage.runs.iter().filter(|run| !run.succeeded).count();
        let mut order: Vec<&Run> = stage.runs.iter().collect();
        order.sort_by_key(|run| run.launched);
        let mut flows = vec![Vec::new(); parents.len()];
        let mut sources_of: BTreeMap<usize, Rc<[Source]>> = BTreeMap::new();
        for run in order {
            self.tally.stayed = self.tally.stayed.saturating_add(run.local);
            if run.remote == 0 {
                continue;
            }
            let sources =
                sources_of.entry(run.executor).or_insert_with(|| self.sources(&parents, run.executor));
            let sources = Rc::clone(sources);
            let wave = Nanos((run.launched - launched_ms) * 1_000_000);
            self.fetch(run, wave, &sources, &mut flows)
                .map_err(|kind| Fault::of_line(stage.line.clone(), kind))?;
        }
        self.tally.joins += usize::from(flows.iter().filter(|flows| !flows.is_empty()).count() > 1);
        Ok(parents.into_iter().zip(flows).filter(|(_, flows)| !flows.is_empty()).collect())
    }

    /// Lists the executors that `reader` fetches from, with the bytes written there.
    fn sources(&self, parents: &[u32], reader: usize) -> Rc<[Source]> {
        let log = self.log;
        let host_local = log.reads_host_local();
        let mut weights: BTreeMap<(usize, PortId), Source> = BTreeMap::new();
        for (slot, parent) in parents.iter().enumerate() {
            let runs = log.stages.get(parent).map_or(&[][..], |stage| &stage.runs);
            for run in runs.iter().filter(|run| run.written > 0) {
                let host = log.host_of[run.executor];
                let is_local = if host_local { host == log.host_of[reader] } else { run.executor == reader };
                if !is_local {
                    let key = (slot, self.port_of[host]);
                    let source = weights.entry(key).or_insert(Source { slot, host, weight: 0 });
                    source.weight = source.weight.saturating_add(run.written);
                }
            }
        }
        weights.into_values().collect()
    }

    /// Adds the flows of one reduce task: its bytes, shared by weight so that they add up exactly.
    fn fetch(
        &mut self,
        run: &Run,
        wave: Nanos,
        sources: &[Source],
        flows: &mut [Vec<Flow>],
    ) -> Result<(), TraceErrorKind> {
        let whole: u128 = sources.iter().map(|source| u128::from(source.weight)).sum();
        if whole == 0 {
            self.tally.sourceless = self.tally.sourceless.saturating_add(run.remote);
            return Ok(());
        }
        let here = self.log.host_of[run.executor];
        let (mut weight, mut given) = (0u128, 0u64);
        for source in sources {
            weight += u128::from(source.weight);
            // The sum up to here, rounded down, less what was given: a share within a byte of the true one.
            let upto = proportion(run.remote, weight, whole);
            let size = upto - given;
            given = upto;
            if source.host == here {
                self.tally.stayed = self.tally.stayed.saturating_add(size);
            } else if size > 0 {
                let too_many = TraceErrorKind::TooManyFlows { limit: self.flow_limit };
                self.flows_left = self.flows_left.checked_sub(1).ok_or(too_many)?;
                let (src, dst) = (self.port_of[source.host], self.port_of[here]);
                flows[source.slot].push(Flow { src, dst, size: Bytes(size), wave });
            }
        }
        Ok(())
    }
}

impl Made {
    /// Ends the task as the log does. What the driver did after the last stage of a query, such as collecting its result,
    /// becomes a computation after all others.
    fn end(&mut self, arrival_ms: u64, execution: Option<&Execution>, done: &BTreeMap<u32, Done>) {
        let last_ms = done.values().map(|done| done.finished_ms).fold(arrival_ms, u64::max);
        let ended_ms = execution.and_then(|execution| execution.ended).unwrap_or(last_ms).max(last_ms);
        if ended_ms > last_ms {
            let after = done.values().map(|done| done.stage).collect();
            let duration = Nanos((ended_ms - last_ms) * 1_000_000);
            self.push(after, Vec::new(), Work::Compute(Compute::lasting(duration)));
        }
        self.took = Nanos((ended_ms - arrival_ms) * 1_000_000);
    }

    fn push(
        &mut self,
        starts_after: Vec<StageIndex>,
        finishes_after: Vec<StageIndex>,
        work: Work,
    ) -> StageIndex {
        if let Work::Compute(compute) = work {
            self.latest_ns += u128::from(compute.duration.0);
        }
        self.task.stages.push(Stage { starts_after, finishes_after, work });
        StageIndex::from_index(self.task.stages.len() - 1)
    }
}

/// Time at which a stage ran, and how much of its tasks' time was waiting. Milliseconds.
struct Span {
    launched: u64,
    finished: u64,
    busy: u128,
    waited: u128,
}

impl Span {
    /// Of at least one run.
    fn of(runs: &[Run]) -> Self {
        let length = |run: &Run| run.finished - run.launched;
        Self {
            launched: runs.iter().map(|run| run.launched).min().unwrap_or(0),
            finished: runs.iter().map(|run| run.finished).max().unwrap_or(0),
            busy: runs.iter().map(|run| u128::from(length(run))).sum(),
            waited: runs.iter().map(|run| u128::from(run.wait_ms.min(length(run)))).sum(),
        }
    }

    /// Returns the duration of the stage had no task waited for blocks.
    fn computation(&self) -> Nanos {
        let whole = (self.finished - self.launched) * 1_000_000;
        if self.busy == 0 {
            Nanos(whole)
        } else {
            Nanos(proportion(whole, self.busy - self.waited, self.busy))
        }
    }
}

/// `amount` × `part` / `whole`, rounded down, for `part` up to `whole`.
fn proportion(amount: u64, part: u128, whole: u128) -> u64 {
    assert!(part <= whole && whole > 0, "a part of something");
    // Both are sums of 64-bit numbers; losing low bits of sums beyond 64 bits loses nothing that anyone measured.
    let shift = (128 - whole.leading_zeros()).saturating_sub(64);
    let (part, whole) = (part >> shift, whole >> shift);
    u64::try_from(u128::from(amount) * part / whole).expect("a part of a number is at most that number")
}
