//! From what logs say to tasks, stages, coflows and flows.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use cavalcade_model::{
    Bytes, Coflow, CoflowId, Compute, Flow, Instant, LATEST, Nanos, PortId, Stage, StageIndex, Task,
    TaskClass, Work, WorkloadBuilder,
};

use super::attempts::last_attempts;
use super::log::{Application, Cluster, Execution, StageLog, Unit};
use super::outputs::Outputs;
use super::service::Service;
use super::setup::Setup;
use super::sources::Readings;
use super::tries::{Try, tries};
use super::{Import, Query, Shuffle, account};
use crate::ReadOptions;
use crate::error::{TraceError, TraceErrorKind};
use crate::input::LogLines;
use crate::names::Names;

/// Counts of an import, for the notes.
#[derive(Default)]
pub(super) struct Tally {
    /// Bytes that were read on the host on which they were written, as the log counts.
    pub(super) stayed: u64,
    /// Bytes that are taken to have stayed on their host, though the log counts them as read from
    /// elsewhere.
    pub(super) stayed_by_share: u64,
    /// Bytes received from elsewhere.
    pub(super) received: u64,
    /// Of these, bytes that only one host of the log can have written.
    pub(super) known: u64,
    /// Of these, bytes that may have come from more than one host, or through more than one
    /// shuffle.
    pub(super) shared: u64,
    /// Of these, bytes that came from hosts that the log does not name, and bytes that went there.
    pub(super) from_beyond: u64,
    pub(super) to_beyond: u64,
    /// Bytes received from elsewhere that no known stage wrote elsewhere.
    pub(super) sourceless: u64,
    /// Stages that read more than one shuffle.
    pub(super) joins: usize,
    /// Attempts of tasks that failed or were killed.
    pub(super) failed: usize,
    /// Outputs that were written again after they were lost, and their bytes.
    pub(super) replaced: (usize, u64),
    /// Queries and jobs without a shuffle from host to host, which are left out.
    pub(super) idle_units: usize,
    /// Queries and jobs of which nothing is whole, or not all.
    pub(super) cut_units: usize,
    /// Attempts of stages that had not ended with their log, and the bytes that they had read.
    pub(super) cut_stages: usize,
    pub(super) cut_bytes: u64,
    /// Stages that ran in no job that the log names.
    pub(super) orphans: usize,
    /// Applications of which something is kept.
    pub(super) applications: BTreeSet<usize>,
}

/// Makes the workload.
pub(super) fn import(
    cluster: &Cluster,
    lines: &LogLines<'_>,
    options: &ReadOptions,
) -> Result<Import, TraceError> {
    let whole = |kind| TraceError::of_whole(lines.last_name(), kind);
    let kept = last_attempts(&cluster.applications).map_err(whole)?;
    let applications = || kept.iter().map(|&index| &cluster.applications[index]);
    if cluster.applications.is_empty() {
        return Err(whole(TraceErrorKind::Empty));
    }
    if applications().all(|application| application.jobs.is_empty()) {
        return Err(whole(TraceErrorKind::NoSparkJobs));
    }
    let goes_beyond = applications().any(Application::goes_beyond);
    let ports = cluster.hosts.names.len() as u64 * if goes_beyond { 2 } else { 1 };
    let ports = options.ports.map_or(ports, u64::from);
    let ports = match u32::try_from(ports) {
        Ok(ports) if ports <= options.limits.ports => ports,
        _ => return Err(whole(TraceErrorKind::TooManyPorts { ports, limit: options.limits.ports })),
    };
    let mut importer = Importer::new(cluster, &kept, options);
    let mut builder = WorkloadBuilder::new(ports);
    builder.port_names(importer.port_names(ports, goes_beyond));
    let (mut shuffles, mut queries) = (Vec::new(), Vec::new());
    for arriving in importer.units() {
        let made = importer.task(&arriving).map_err(|(spot, kind)| lines.fault(spot, kind))?;
        let Some(mut made) = made else { continue };
        shuffles.append(&mut made.shuffles);
        let (name, arrival) = (made.task.name.clone(), made.task.arrival);
        queries.push(Query { name, arrival, took: made.took });
        builder.push(made.task, made.transfers).coflow_names(made.names);
    }
    if builder.is_empty() {
        let open = applications().filter(|application| !application.ended);
        let mut open = open.filter_map(|application| Some((application.last?, application.open_work()?)));
        return Err(match open.next() {
            Some((spot, open)) => lines.fault(spot, TraceErrorKind::LogCutOff { open }),
            None => whole(TraceErrorKind::NoShuffle { hosts: cluster.hosts.names.len() }),
        });
    }
    // Units come in order of arrival, so the builder numbers coflows as they were made.
    for (index, shuffle) in shuffles.iter_mut().enumerate() {
        shuffle.coflow = CoflowId::from_index(index);
    }
    let zero_ms = importer.zero_ms.unwrap_or_default();
    let setup = Setup::of(applications());
    let account = account::Account {
        cluster,
        kept: &kept,
        lines,
        port_of: &importer.port_of,
        tally: &importer.tally,
        tasks: builder.len(),
        zero_ms,
        setup: &setup,
    };
    let notes = account.notes();
    let workload = builder.build().map_err(|error| whole(TraceErrorKind::Workload(error)))?;
    Ok(Import { workload, notes, shuffles, queries, setup })
}

/// A query or job on its way to be a task.
pub(super) struct Arriving<'l> {
    /// The application.
    index: usize,
    unit: &'l Unit,
    /// Its stages, in order of id.
    stages: Vec<u32>,
    arrival_ms: u64,
}

/// Something that cannot be, and the line that says it.
pub(super) type Wrong = (crate::input::Spot, TraceErrorKind);

pub(super) struct Importer<'l> {
    pub(super) cluster: &'l Cluster,
    kept: &'l [usize],
    pub(super) flow_limit: u64,
    pub(super) flows_left: u64,
    /// For each host, its port.
    pub(super) port_of: Vec<PortId>,
    /// For the last RDD of stages of an application, those that wrote output, in order.
    ran: BTreeMap<(usize, u64), Vec<u32>>,
    /// For each stage of an application that ran, what it wrote.
    pub(super) outputs: BTreeMap<(usize, u32), Rc<Outputs>>,
    /// Time zero: the arrival of the first task that is kept, so that nothing is counted of the
    /// time before it.
    zero_ms: Option<u64>,
    names: Names,
    /// Names that applications give and that are in use.
    given: BTreeSet<String>,
    pub(super) tally: Tally,
}

/// A task on its way into the builder.
struct Made {
    task: Task,
    transfers: Vec<Coflow>,
    shuffles: Vec<Shuffle>,
    /// For each transfer, the name of its coflow.
    names: Vec<String>,
    /// Duration by the log.
    took: Nanos,
    /// The latest time at which something may happen in it, with its stages taken one after the
    /// other.
    latest_ns: u128,
    /// For each attempt of a stage that has been made, its end.
    done: BTreeMap<(u32, u32), Done>,
}

/// The end of an attempt of a stage that has been made.
#[derive(Clone, Copy)]
struct Done {
    stage: StageIndex,
    finished_ms: u64,
}

impl<'l> Importer<'l> {
    fn new(cluster: &'l Cluster, kept: &'l [usize], options: &ReadOptions) -> Self {
        let hosts = &cluster.hosts.names;
        let mut by_name: Vec<usize> = (0..hosts.len()).collect();
        by_name.sort_unstable_by_key(|&host| &hosts[host]);
        let mut port_of = vec![PortId(0); hosts.len()];
        for (port, host) in by_name.into_iter().enumerate() {
            port_of[host] = PortId(port as u32);
        }
        let mut tally = Tally::default();
        let mut outputs = BTreeMap::new();
        let mut ran: BTreeMap<(usize, u64), Vec<u32>> = BTreeMap::new();
        let mut names = Names::default();
        for &index in kept {
            let application = &cluster.applications[index];
            for (&id, stage) in application.stages.iter().filter(|(_, stage)| !stage.runs.is_empty()) {
                let written = Outputs::of(application, id);
                let (count, bytes) = written.replaced();
                tally.replaced = (tally.replaced.0 + count, tally.replaced.1.saturating_add(bytes));
                if let Some(rdd) = stage.rdd.filter(|_| written.bytes() > 0) {
                    ran.entry((index, rdd)).or_default().push(id);
                }
                outputs.insert((index, id), Rc::new(written));
            }
            let given = application.executions.values().filter_map(Execution::name);
            given.for_each(|name| names.take(&full_name(cluster, kept, index, name)));
        }
        Self {
            cluster,
            kept,
            flow_limit: options.limits.flows,
            flows_left: options.limits.flows,
            port_of,
            ran,
            outputs,
            zero_ms: None,
            names,
            given: BTreeSet::new(),
            tally,
        }
    }

    /// Queries and jobs in order of arrival: that of its first job, or of the query's own start
    /// before it.
    fn units(&mut self) -> Vec<Arriving<'l>> {
        let mut arriving = Vec::new();
        for &index in self.kept {
            let application = &self.cluster.applications[index];
            let mut stages_of: BTreeMap<&Unit, Vec<u32>> = BTreeMap::new();
            let mut launched: BTreeMap<u64, u64> = BTreeMap::new();
            for (&id, stage) in application.stages.iter().filter(|(_, stage)| !stage.runs.is_empty()) {
                let job = stage.job.and_then(|id| Some((id, application.jobs.get(&id)?)));
                let Some((job, unit)) = job else {
                    self.tally.orphans += 1;
                    continue;
                };
                stages_of.entry(&unit.unit).or_default().push(id);
                let first = stage.runs.iter().map(|run| run.launched).min().unwrap_or(0);
                launched.entry(job).and_modify(|earliest| *earliest = first.min(*earliest)).or_insert(first);
            }
            let mut arrivals: BTreeMap<&Unit, (u64, u64)> = BTreeMap::new();
            for (&id, job) in &application.jobs {
                let arrival = job.submitted.or(launched.get(&id).copied()).unwrap_or(application.latest);
                let first = arrivals.entry(&job.unit).or_insert((arrival, id));
                first.0 = first.0.min(arrival);
            }
            for (unit, (arrival, job)) in arrivals {
                let started = application.execution(unit).and_then(|execution| execution.started);
                let arrival_ms = arrival.min(started.unwrap_or(arrival));
                let stages = stages_of.remove(unit).unwrap_or_default();
                arriving.push((arrival_ms, index, job, Arriving { index, unit, stages, arrival_ms }));
            }
        }
        arriving.sort_by_key(|&(arrival, index, job, _)| (arrival, index, job));
        arriving.into_iter().map(|(.., unit)| unit).collect()
    }

    /// The task of a query or job; `None` where it moves nothing from host to host.
    fn task(&mut self, arriving: &Arriving<'l>) -> Result<Option<Made>, Wrong> {
        let Arriving { index, unit, arrival_ms, .. } = *arriving;
        let application = &self.cluster.applications[index];
        let arrival_ns = u128::from(arrival_ms - self.zero_ms.unwrap_or(arrival_ms)) * 1_000_000;
        let mut made = Made::arriving(arrival_ns);
        let (tries, unfinished) = tries(application, &arriving.stages);
        for one in &tries {
            self.stage(index, one, arrival_ms, &mut made)?;
            if made.latest_ns > LATEST.0.into() {
                return Err((application.stages[&one.stage].spot, TraceErrorKind::TooLate));
            }
        }
        self.tally.cut_stages += unfinished.stages;
        self.tally.cut_bytes = self.tally.cut_bytes.saturating_add(unfinished.bytes);
        self.tally.cut_units += usize::from(unfinished.stages > 0);
        if made.transfers.is_empty() {
            self.tally.idle_units += usize::from(unfinished.stages == 0);
            return Ok(None);
        }
        let zero_ms = *self.zero_ms.get_or_insert(arrival_ms);
        made.task.arrival = Instant((arrival_ms - zero_ms) * 1_000_000);
        made.task.name = self.name(index, unit);
        made.names =
            made.shuffles.iter().map(|shuffle| self.coflow_name(index, &made.task.name, shuffle)).collect();
        made.end(arrival_ms, application.execution(unit));
        self.tally.applications.insert(index);
        Ok(Some(made))
    }

    /// Returns the application's name of the query, numbered from the second of that name on; else
    /// its id.
    fn name(&mut self, index: usize, unit: &Unit) -> String {
        let application = &self.cluster.applications[index];
        let given = application.execution(unit).and_then(Execution::name);
        let name = match (unit, given) {
            (_, Some(name)) => name.to_owned(),
            (Unit::Query(id), None) => format!("query-{id}"),
            (Unit::Job(id), None) => format!("job-{id}"),
        };
        let name = full_name(self.cluster, self.kept, index, &name);
        // A given name is the first query's that has it; what is made up must be nobody's.
        let is_first =
            if given.is_some() { self.given.insert(name.clone()) } else { !self.names.is_taken(&name) };
        if is_first {
            self.names.take(&name);
            return name;
        }
        self.names.make_up(&name, |name, count| format!("{name} #{}", count + 1))
    }

    /// The name of a coflow: between which stages of its task, and what the application calls the
    /// one that reads, unless that is the task's own name.
    fn coflow_name(&mut self, index: usize, task: &str, shuffle: &Shuffle) -> String {
        let Shuffle { map_stage, reduce_stage, .. } = *shuffle;
        let application = &self.cluster.applications[index];
        let to = reduce_stage.map_or("the shuffle service".to_owned(), |stage| stage.to_string());
        let mut name = format!("{task}, stage {map_stage} to {to}");
        let stage = application.stages.get(&reduce_stage.unwrap_or(map_stage));
        let called = stage.and_then(|stage| stage.name.as_deref());
        if let Some(called) = called.filter(|called| !task.contains(called)) {
            name.push_str(&format!(" ({called})"));
        }
        // A stage that is run again reads again.
        if self.names.is_taken(&name) {
            return self.names.make_up(&name, |name, count| format!("{name} #{}", count + 1));
        }
        self.names.take(&name);
        name
    }

    /// The names of so many ports: those of hosts, and behind them what stands for hosts that are
    /// not in the log.
    fn port_names(&self, ports: u32, goes_beyond: bool) -> Vec<String> {
        let hosts = &self.cluster.hosts.names;
        let mut names = vec![String::new(); ports as usize];
        let mut taken = Names::default();
        hosts.iter().for_each(|host| taken.take(host));
        for (host, name) in hosts.iter().enumerate() {
            if let Some(port) = names.get_mut(self.port_of[host].index()) {
                port.clone_from(name);
            }
            if !goes_beyond {
                continue;
            }
            if let Some(port) = names.get_mut(self.beyond(host).index()) {
                let other = |name: &str, count: usize| match count {
                    1 => format!("unknown hosts for {name}"),
                    count => format!("unknown hosts for {name} #{count}"),
                };
                *port = taken.make_up(name, other);
            }
        }
        names
    }

    /// Adds an attempt of a stage of Spark: a pause, the shuffles that it reads, and its
    /// computation.
    fn stage(&mut self, index: usize, one: &Try<'l>, arrival_ms: u64, made: &mut Made) -> Result<(), Wrong> {
        let application = &self.cluster.applications[index];
        let stage = &application.stages[&one.stage];
        let Try { span, runs, .. } = one;
        let parents: BTreeSet<u32> =
            stage.parents.iter().map(|&parent| self.resolve(index, parent, one.stage)).collect();
        let parents: Vec<u32> = parents.into_iter().collect();
        let before = made.before(one, &parents);
        let ready_ms = before.iter().map(|done| done.finished_ms).fold(arrival_ms, u64::max);
        let mut starts_after: Vec<StageIndex> = before.iter().map(|done| done.stage).collect();
        let pause_ms = span.launched.saturating_sub(ready_ms);
        if pause_ms > 0 {
            let pause = Work::Compute(Compute::lasting(Nanos(pause_ms * 1_000_000)));
            starts_after = vec![made.push(starts_after, Vec::new(), pause)];
        }
        self.tally.failed += runs.iter().filter(|run| !run.succeeded).count();
        let wrong = |kind| (stage.spot, kind);
        let read = Readings::of(self, index, &parents, one).map_err(wrong)?;
        let mut coflows = Vec::new();
        for (parent, flows) in read {
            let written = self.written(index, parent);
            let shuffle = Shuffle::of(parent, Some(one.stage), written, &flows);
            coflows.push(made.transfer(&starts_after, shuffle, flows));
        }
        if let Service::Elsewhere(_) = application.service() {
            let flows = self.given_away(application, one).map_err(wrong)?;
            if !flows.is_empty() {
                let shuffle = Shuffle::of(one.stage, None, self.written(index, one.stage), &flows);
                coflows.push(made.transfer(&starts_after, shuffle, flows));
            }
        }
        let compute = Work::Compute(Compute::lasting(span.computation()));
        let at = made.push(starts_after, coflows, compute);
        made.done.insert((one.stage, one.attempt), Done { stage: at, finished_ms: span.finished });
        Ok(())
    }

    /// The stage that wrote what stage `parent` stands for. An adaptive plan submits a shuffle that
    /// is already there under a new stage id, which is skipped; its last RDD names the stage that
    /// ran.
    fn resolve(&self, index: usize, parent: u32, child: u32) -> u32 {
        if self.written(index, parent) > 0 {
            return parent;
        }
        let application = &self.cluster.applications[index];
        let rdd = application.stages.get(&parent).and_then(|stage: &StageLog| stage.rdd);
        let ran = rdd.and_then(|rdd| self.ran.get(&(index, rdd))).map_or(&[][..], Vec::as_slice);
        ran.iter().rev().copied().find(|&stage| stage < child).unwrap_or(parent)
    }

    /// Bytes that a stage wrote, as they stand in the end.
    pub(super) fn written(&self, index: usize, stage: u32) -> u64 {
        self.outputs.get(&(index, stage)).map_or(0, |outputs| outputs.bytes())
    }
}

/// The name of something of an application: with the application's before it where several are
/// read.
fn full_name(cluster: &Cluster, kept: &[usize], index: usize, name: &str) -> String {
    if kept.len() == 1 {
        return name.to_owned();
    }
    match &cluster.applications[index].id {
        Some(id) => format!("{id}/{name}"),
        None => format!("application-{}/{name}", index + 1),
    }
}

impl Made {
    fn arriving(arrival_ns: u128) -> Self {
        let task = Task {
            name: String::new(),
            job: None,
            arrival: Instant::ZERO,
            deadline: None,
            class: TaskClass::Online,
            weight: 1,
            stages: Vec::new(),
        };
        Self {
            task,
            transfers: Vec::new(),
            shuffles: Vec::new(),
            names: Vec::new(),
            took: Nanos::ZERO,
            latest_ns: arrival_ns,
            done: BTreeMap::new(),
        }
    }

    /// What `one` comes after: of each stage that it reads the last attempt that had ended, and its
    /// own attempt before it.
    fn before(&self, one: &Try<'_>, parents: &[u32]) -> Vec<Done> {
        let of_parent = |&parent: &u32| {
            let attempts = || self.done.range((parent, 0)..=(parent, u32::MAX)).map(|(_, done)| done);
            let ended = attempts().rfind(|done| done.finished_ms <= one.span.launched);
            ended.or_else(|| attempts().next_back()).copied()
        };
        let own = self.done.range((one.stage, 0)..(one.stage, one.attempt)).next_back();
        parents.iter().filter_map(of_parent).chain(own.map(|(_, done)| *done)).collect()
    }

    /// Adds a transfer.
    fn transfer(&mut self, starts_after: &[StageIndex], shuffle: Shuffle, flows: Vec<Flow>) -> StageIndex {
        self.shuffles.push(shuffle);
        self.latest_ns += u128::from(flows.iter().map(|flow| flow.wave.0).max().unwrap_or(0));
        self.transfers.push(Coflow { flows });
        self.push(starts_after.to_vec(), Vec::new(), Work::Transfer(CoflowId::default()))
    }

    /// Ends the task as the log does. What the driver did after the last stage of a query, such as
    /// collecting its result, becomes a computation after all others.
    fn end(&mut self, arrival_ms: u64, execution: Option<&Execution>) {
        let last_ms = self.done.values().map(|done| done.finished_ms).fold(arrival_ms, u64::max);
        let ended_ms = execution.and_then(|execution| execution.ended).unwrap_or(last_ms).max(last_ms);
        if ended_ms > last_ms {
            let after = self.done.values().map(|done| done.stage).collect();
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

impl Shuffle {
    fn of(map_stage: u32, reduce_stage: Option<u32>, written: u64, flows: &[Flow]) -> Self {
        let moved = flows.iter().map(|flow| flow.size.0).fold(0, u64::saturating_add);
        let coflow = CoflowId::default();
        Self { coflow, map_stage, reduce_stage, written: Bytes(written), moved: Bytes(moved) }
    }
}

/// `amount` × `part` / `whole`, rounded down, for `part` up to `whole`.
pub(super) fn proportion(amount: u64, part: u128, whole: u128) -> u64 {
    assert!(part <= whole && whole > 0, "a part of something");
    // Both are sums of 64-bit numbers; losing low bits of sums beyond 64 bits loses nothing that
    // anyone measured.
    let shift = (128 - whole.leading_zeros()).saturating_sub(64);
    let (part, whole) = (part >> shift, whole >> shift);
    u64::try_from(u128::from(amount) * part / whole).expect("a part of a number is at most that number")
}
