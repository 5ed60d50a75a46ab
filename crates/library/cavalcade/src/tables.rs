//! The tables of results, as columns: what files of runs and comparisons, Arrow and Python have.
//!
//! Times are in the time of the trace, in nanoseconds.

use cavalcade_metrics::{CoflowFacts, Comparison, RunFigures, TaskFacts};
use cavalcade_model::{FlowId, Instant, Nanos, TaskClass, Workload};
use cavalcade_validate::Segment;

use crate::columns::Column;
use crate::compare::Compared;
use crate::kept::RUNS;

/// Describes each run of a comparison by its figures, as columns: `runs.csv`.
pub fn runs(compared: &Compared) -> Vec<Column> {
    let runs = || compared.comparison.runs.iter();
    // A schedule that was made elsewhere has no folder.
    let folder =
        |run: usize| compared.folders.get(run).map_or(String::new(), |name| format!("{RUNS}/{name}"));
    vec![
        Column::text("run", runs().map(|run| run.label.clone())).means("name of the run: the policy with its settings, and its engine or transport where there are several"),
        Column::text("policy", runs().map(|run| run.policy.clone())).means("name of the policy"),
        Column::text("folder", (0..runs().count()).map(folder)).means("folder of the run; empty where there is none, as for a schedule that was made elsewhere"),
        Column::real("cct_mean_s", runs().map(|run| run.cct_summary.mean_s)).means("mean coflow completion time"),
        Column::real("cct_p95_s", runs().map(|run| run.cct_summary.p95_s)).means("95th percentile of coflow completion times, by nearest rank"),
        Column::real("cct_p99_s", runs().map(|run| run.cct_summary.p99_s)).means("99th percentile of them"),
        Column::real("slowdown_mean", runs().map(|run| run.slowdown_summary.mean)).means("mean slowdown of coflows"),
        Column::real("tct_mean_s", runs().map(|run| run.tct_summary.mean_s)).means("mean task completion time"),
        Column::real("tct_p95_s", runs().map(|run| run.tct_summary.p95_s)).means("95th percentile of task completion times"),
        Column::whole("makespan_ns", runs().map(|run| run.makespan.get())).means("from the first arrival to the end of the last task"),
        Column::whole("deadlines_missed", runs().map(|run| run.misses as u64)).means("tasks that finished after their deadlines"),
    ]
}

/// Describes each coflow and its completion in a run, as columns.
pub fn coflows(comparison: &Comparison, run: &RunFigures) -> Vec<Column> {
    let Comparison { trace, coflows, isolation, .. } = comparison;
    of_coflows(trace.origin, coflows, isolation, &run.arrival, &run.cct)
}

/// [`coflows`], from the facts of each, the time that it takes alone, and its arrival and
/// completion time in a run. Times of a run count from `origin`.
pub(crate) fn of_coflows(
    origin: Instant,
    facts: &[CoflowFacts],
    alone: &[Nanos],
    arrival: &[Instant],
    cct: &[Nanos],
) -> Vec<Column> {
    let coflows = || facts.iter();
    let in_trace = |time| in_trace(origin, time);
    let finish = arrival.iter().zip(cct).map(|(&arrival, &cct)| in_trace(arrival + cct));
    vec![
        Column::whole("coflow", 0..facts.len() as u64).means("number of the coflow in the trace, from 0"),
        Column::whole("task", coflows().map(|coflow| u64::from(coflow.task.0)))
            .means("number of its task, from 0 in order of arrival"),
        Column::whole("stage", coflows().map(|coflow| u64::from(coflow.stage.0)))
            .means("number of its stage in its task, from 0"),
        Column::whole("arrival_ns", arrival.iter().map(|&time| in_trace(time)))
            .means("arrival of its first flow, in the time of the trace"),
        Column::whole("finish_ns", finish).means("end of its last flow, in the time of the trace"),
        Column::whole("cct_ns", cct.iter().map(|time| time.get()))
            .means("coflow completion time: finish less arrival"),
        Column::whole("alone_ns", alone.iter().map(|time| time.get()))
            .means("time that it takes with the fabric to itself (Γ)"),
        Column::real("slowdown", cct.iter().zip(alone).map(|(cct, alone)| cct.get() as f64 / alone.as_f64()))
            .means("completion time over the time alone"),
        Column::whole("size_bytes", coflows().map(|coflow| coflow.size.get()))
            .means("bytes of all its flows"),
        Column::whole("length_bytes", coflows().map(|coflow| coflow.length.get()))
            .means("bytes of its largest flow"),
        Column::whole("width", coflows().map(|coflow| coflow.width as u64)).means("number of its flows"),
        Column::text("name", coflows().map(|coflow| coflow.name.clone()))
            .means("name in the trace; with .stage behind it where its task has several stages"),
    ]
}

/// The trace's time of an instant of a run, in nanoseconds. Engines end a run before that would not
/// fit.
fn in_trace(origin: Instant, instant: Instant) -> u64 {
    instant.checked_add(Nanos(origin.get())).unwrap_or(Instant::MAX).get()
}

/// Describes each task and its completion in a run, as columns.
pub fn tasks(comparison: &Comparison, run: &RunFigures) -> Vec<Column> {
    of_tasks(comparison.trace.origin, &comparison.tasks, &run.tct)
}

/// [`tasks`], from the facts of each and its completion time in a run. Times of a run count from
/// `origin`.
pub(crate) fn of_tasks(origin: Instant, facts: &[TaskFacts], tct: &[Nanos]) -> Vec<Column> {
    let tasks = || facts.iter();
    let runs = || facts.iter().zip(tct.iter().copied());
    let class = |class| match class {
        TaskClass::Online => "online",
        TaskClass::Background => "background",
    };
    let arrival = |task: &TaskFacts| Instant(task.arrival.since(origin).get());
    let finish = runs().map(|(task, tct)| in_trace(origin, arrival(task) + tct));
    vec![
        Column::whole("task", 0..tasks().len() as u64)
            .means("number of the task, from 0 in order of arrival"),
        Column::whole("arrival_ns", tasks().map(|task| task.arrival.get()))
            .means("arrival, in the time of the trace"),
        Column::whole("finish_ns", finish).means("end of its last stage, in the time of the trace"),
        Column::whole("tct_ns", tct.iter().map(|time| time.get()))
            .means("task completion time: finish less arrival"),
        Column::whole("alone_ns", tasks().map(|task| task.alone.get()))
            .means("time that its longest chain of stages takes, each alone on the fabric"),
        Column::real("slowdown", runs().map(|(task, tct)| task.slowdown(tct)))
            .means("completion time over the time alone"),
        Column::optional_whole("deadline_ns", tasks().map(|task| task.deadline.map(Nanos::get)))
            .means("deadline, from its arrival; none where it has none"),
        Column::optional_fact("deadline_met", runs().map(|(task, tct)| task.deadline_met(tct)))
            .means("whether it was met; none where there is none"),
        Column::whole("weight", tasks().map(|task| u64::from(task.weight))).means("weight in weighted means"),
        Column::text("class", tasks().map(|task| class(task.class).to_owned())).means("online or background"),
        Column::text("name", tasks().map(|task| task.name.clone())).means("name in the trace"),
    ]
}

/// Describes each flow and its end in a run, as columns; without `finish_ns` where the run forgot
/// flows.
pub fn flows(workload: &Workload, flow_finish: &[Instant]) -> Vec<Column> {
    let flows = || workload.flows().iter();
    let ids = || (0..workload.flows().len()).map(FlowId::from_index);
    let mut columns = vec![
        Column::whole("flow", ids().map(|flow| u64::from(flow.0)))
            .means("number of the flow, from 0 in order of coflows"),
        Column::whole("coflow", ids().map(|flow| u64::from(workload.coflow_of(flow).0)))
            .means("number of its coflow"),
        Column::whole("src", flows().map(|flow| u64::from(flow.src.0))).means("port that sends"),
        Column::whole("dst", flows().map(|flow| u64::from(flow.dst.0))).means("port that receives"),
        Column::whole("size_bytes", flows().map(|flow| flow.size.get())).means("bytes"),
    ];
    if flow_finish.len() == workload.flows().len() {
        columns.push(
            Column::whole("finish_ns", flow_finish.iter().map(|&finish| in_trace(workload.origin(), finish)))
                .means("arrival of its last byte, in the time of the trace"),
        );
    }
    if workload.names_ports() {
        columns.push(
            Column::text("src_host", flows().map(|flow| workload.port_name(flow.src)))
                .means("name of the port that sends; only where the trace names its hosts"),
        );
        columns.push(
            Column::text("dst_host", flows().map(|flow| workload.port_name(flow.dst)))
                .means("name of the port that receives; only where the trace names its hosts"),
        );
    }
    columns
}

/// Describes pieces of a schedule, as columns: from when to when a flow had which rate, in the time
/// of the trace.
pub fn schedule<'a>(
    workload: &Workload,
    segments: impl IntoIterator<Item = &'a Segment> + Clone,
) -> Vec<Column> {
    /// Bits per second in one byte per nanosecond.
    const BPS: f64 = 8e9;
    let each = || segments.clone().into_iter();
    let origin = workload.origin().as_f64();
    vec![
        Column::whole("flow", each().map(|segment| u64::from(segment.flow.0))).means("number of the flow"),
        Column::real("from_ns", each().map(|segment| segment.from.as_f64() + origin))
            .means("begin, in the time of the trace"),
        Column::real("to_ns", each().map(|segment| segment.to.as_f64() + origin))
            .means("end, in the time of the trace"),
        Column::real("rate_bps", each().map(|segment| segment.bytes_per_nano * BPS))
            .means("rate in bits per second"),
    ]
}
