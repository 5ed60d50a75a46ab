//! `cavalcade compare --json`: the schema that programs read, version 2.
//!
//! The keys, their order and their nesting are a promise (`schema_version` counts its changes), so
//! they are spelt out here and derived from nothing else. Numbers are the shortest text that reads
//! back as the same value, which does not depend on the machine. Parameters are text, as they were
//! given: `"10MB"` has no other form.
//!
//! Two runs of the same give the same bytes but for `wall_s`, which stands last: the seconds that
//! each run took on this machine, in the order of `runs`.
//!
//! Where some task is more than one coflow, runs are ranked by tasks: they have `tct` and
//! `task_slowdown`, and `tasks` with each of them in the time of the trace. Where tasks have
//! deadlines, or packets were simulated, a run has `deadlines`.
//!
//! Where packets were simulated, `engine` ("packet"), `transport`, `transport_params` and `fct`
//! (flow completion times by size; null where there are no flows of that size) and `queues` (the
//! output ports of switches: all of them in a few figures, and the fullest one by one) stand at the
//! end of a run.
//!
//! `savings` stands at the end where the workload is an imported log that recorded times.
//!
//! Where a comparison has a lower bound, `bound` stands behind the runs and `gap` at the end of
//! each. Callers give it one only where it was asked for by name, so that a program that knows
//! nothing of bounds reads what it always has.

use cavalcade_metrics::{
    Comparison, ImportNote, LowerBound, MessageUse, Occupancy, PortUse, QuerySavings, QueueTotals, QueueUse,
    Ranked, RateChoice, RecordedApplication, RecordedSetup, RunFigures, Savings, SlowdownSummary, Summary,
    TaskFacts, TransportFacts, USUAL,
};
use cavalcade_model::{BitsPerSec, Instant};
use serde::ser::{Serialize, SerializeMap, Serializer};

/// All that it takes, beside a comparison, to run it again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunConditions {
    /// The version of the program.
    pub version: String,
    /// The trace, as it was named.
    pub trace: String,
    /// The fabric as text; `None` for a big switch.
    pub fabric: Option<String>,
    /// The rate of links, unless the fabric says otherwise.
    pub rate: BitsPerSec,
    /// The seed of all random choices.
    pub seed: u64,
    /// True if all tasks were submitted at time zero.
    pub offline: bool,
}

#[derive(serde::Serialize)]
struct Document<'a> {
    schema_version: u32,
    cavalcade: &'a str,
    conditions: Conditions<'a>,
    trace: Trace,
    rate_bps: u64,
    runs: Vec<Run<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    bound: Option<Bound<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    savings: Option<SavingsOut<'a>>,
    wall_s: Vec<f64>,
}

#[derive(serde::Serialize)]
struct Conditions<'a> {
    trace: &'a str,
    fabric: Option<&'a str>,
    rate_bps: u64,
    seed: u64,
    offline: bool,
}

#[derive(serde::Serialize)]
struct Trace {
    tasks: usize,
    coflows: usize,
    ports: u32,
    bytes: u64,
}

#[derive(serde::Serialize)]
struct Run<'a> {
    policy: &'a str,
    params: Params<'a>,
    told_sizes: Option<bool>,
    paper: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    tct: Option<Times>,
    #[serde(skip_serializing_if = "Option::is_none")]
    task_slowdown: Option<Slowdown>,
    cct: Times,
    slowdown: Slowdown,
    makespan_s: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    deadlines: Option<Deadlines>,
    #[serde(skip_serializing_if = "Option::is_none")]
    gap: Option<f64>,
    #[serde(flatten)]
    control: Option<Control>,
    #[serde(flatten)]
    packets: Option<Packets<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tasks: Option<Vec<TaskOut<'a>>>,
}

/// A task in a run.
#[derive(serde::Serialize)]
struct TaskOut<'a> {
    name: &'a str,
    start_s: f64,
    end_s: f64,
    tct_s: f64,
    alone_s: f64,
    slowdown: f64,
    /// Null where it has no deadline.
    deadline_met: Option<bool>,
}

/// The keys of runs under the live control plane.
#[derive(serde::Serialize)]
struct Control {
    engine: &'static str,
    period_s: f64,
    messages: u64,
}

/// The keys of runs over packets.
#[derive(serde::Serialize)]
struct Packets<'a> {
    engine: &'a str,
    transport: &'a str,
    transport_params: Params<'a>,
    fct: FlowTimes,
    #[serde(skip_serializing_if = "Option::is_none")]
    queues: Option<Queues<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    negotiation: Option<Negotiation>,
}

/// Datagrams between instances of a policy over the network.
#[derive(serde::Serialize)]
struct Negotiation {
    datagrams: u64,
    statements: u64,
    payload_bytes: u64,
    arrived: u64,
    left_out: u64,
    lost: u64,
    link_bytes: u64,
    link_share: f64,
    mean_delay_s: f64,
    max_delay_s: f64,
}

/// Tasks with a deadline, and how many of them were late.
#[derive(serde::Serialize)]
struct Deadlines {
    tasks: usize,
    missed: usize,
}

/// The queues at the output ports of switches.
#[derive(serde::Serialize)]
struct Queues<'a> {
    dropped: u64,
    marked: u64,
    lost: u64,
    occupancy: Occupied,
    utilisation: Busy,
    fullest: Vec<Port<'a>>,
}

#[derive(serde::Serialize)]
struct Occupied {
    p50_bytes: u64,
    p95_bytes: u64,
    p99_bytes: u64,
    max_bytes: u64,
}

#[derive(serde::Serialize)]
struct Busy {
    mean: f64,
    max: f64,
}

#[derive(serde::Serialize)]
struct Port<'a> {
    port: &'a str,
    packets: u64,
    dropped: u64,
    marked: u64,
    lost: u64,
    occupancy: Occupied,
    utilisation: f64,
}

/// Ports that are shown one by one.
const FULLEST: usize = 8;

impl<'a> From<&'a QueueUse> for Queues<'a> {
    fn from(used: &'a QueueUse) -> Self {
        let QueueTotals { dropped, marked, lost, mean_utilisation, most_utilisation } = used.totals();
        let port = |port: &'a PortUse| Port {
            port: &port.name,
            packets: port.packets,
            dropped: port.dropped,
            marked: port.marked,
            lost: port.lost,
            occupancy: Occupied::from(port.occupancy),
            utilisation: port.utilisation,
        };
        Self {
            dropped,
            marked,
            lost,
            occupancy: Occupied::from(used.occupancy),
            utilisation: Busy { mean: mean_utilisation, max: most_utilisation },
            fullest: used.fullest_ports(FULLEST).into_iter().map(port).collect(),
        }
    }
}

impl From<Occupancy> for Occupied {
    fn from(Occupancy { p50, p95, p99, max }: Occupancy) -> Self {
        Self { p50_bytes: p50.get(), p95_bytes: p95.get(), p99_bytes: p99.get(), max_bytes: max.get() }
    }
}

/// Flow completion times by size.
#[derive(serde::Serialize)]
struct FlowTimes {
    #[serde(rename = "to_100KB")]
    short: Option<Times>,
    #[serde(rename = "to_10MB")]
    middle: Option<Times>,
    #[serde(rename = "above_10MB")]
    long: Option<Times>,
}

#[derive(serde::Serialize)]
struct Times {
    mean_s: f64,
    p50_s: f64,
    p95_s: f64,
    p99_s: f64,
    max_s: f64,
}

#[derive(serde::Serialize)]
struct Slowdown {
    mean: f64,
    p95: f64,
}

#[derive(serde::Serialize)]
struct Bound<'a> {
    method: &'a str,
    budget: &'a str,
    mean_s: f64,
    misses: usize,
}

/// Recorded times of an imported log, and what policies would have saved.
#[derive(serde::Serialize)]
struct SavingsOut<'a> {
    rate_bps: u64,
    /// Null where the rate was asked for.
    rate_inferred: Option<Inferred>,
    queries_are_sequential: bool,
    application: QueryOut<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    together: Option<QueryOut<'a>>,
    queries: Vec<QueryOut<'a>>,
    /// The policy that is not told sizes and saves most in all; null where none saves what can be
    /// noticed.
    best_policy: Option<&'a str>,
    /// The same of those that are told sizes.
    best_policy_told_sizes: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    at_usual_rate: Option<UsualOut>,
    #[serde(skip_serializing_if = "Option::is_none")]
    recorded_on: Option<SetupOut<'a>>,
    notes: Vec<NoteOut<'a>>,
}

/// What could be saved at the usual rate of a cluster, where the rate is a floor below that.
#[derive(serde::Serialize)]
struct UsualOut {
    rate_bps: u64,
    simulated_s: f64,
    could_save_s: f64,
}

/// The cluster of an imported log.
#[derive(serde::Serialize)]
struct SetupOut<'a> {
    applications: Vec<ApplicationOut<'a>>,
    hosts: usize,
    executors: usize,
    /// Null where the log does not say.
    cores: Option<u64>,
    ran_core_s: f64,
    waited_core_s: f64,
}

#[derive(serde::Serialize)]
struct ApplicationOut<'a> {
    name: Option<&'a str>,
    id: Option<&'a str>,
    version: Option<&'a str>,
    /// Since 1970.
    started_ns: Option<u64>,
}

impl<'a> SetupOut<'a> {
    fn new(setup: &'a RecordedSetup) -> Self {
        let application = |one: &'a RecordedApplication| ApplicationOut {
            name: one.name.as_deref(),
            id: one.id.as_deref(),
            version: one.version.as_deref(),
            started_ns: one.started.map(Instant::get),
        };
        Self {
            applications: setup.applications.iter().map(application).collect(),
            hosts: setup.hosts,
            executors: setup.executors,
            cores: setup.cores,
            ran_core_s: setup.ran.as_secs_f64(),
            waited_core_s: setup.waited.as_secs_f64(),
        }
    }
}

#[derive(serde::Serialize)]
struct Inferred {
    best_bps: u64,
    slowest_bps: u64,
    /// Null where every faster network fits as well.
    fastest_bps: Option<u64>,
    error: f64,
}

#[derive(serde::Serialize)]
struct QueryOut<'a> {
    name: &'a str,
    recorded_s: f64,
    simulated_s: f64,
    endless_network_s: f64,
    waits_for_network: bool,
    saved_s: Saved<'a>,
}

#[derive(serde::Serialize)]
struct NoteOut<'a> {
    certainty: &'a str,
    text: &'a str,
}

/// Seconds saved by label.
struct Saved<'a>(&'a Comparison, &'a [f64]);

impl Serialize for Saved<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.runs.iter().map(|run| &run.label).zip(self.1))
    }
}

impl<'a> SavingsOut<'a> {
    fn new(comparison: &'a Comparison, savings: &'a Savings) -> Self {
        let query = |query: &'a QuerySavings| QueryOut {
            name: &query.name,
            recorded_s: query.recorded_s,
            simulated_s: query.simulated_s,
            endless_network_s: query.endless_s,
            waits_for_network: query.waits_for_network,
            saved_s: Saved(comparison, &query.saved_s),
        };
        let inferred = match &savings.rate {
            RateChoice::Asked(_) => None,
            RateChoice::Calibrated(found) => Some(Inferred {
                best_bps: found.best.get(),
                slowest_bps: found.slowest.get(),
                fastest_bps: found.fastest.map(|rate| rate.get()),
                error: found.error,
            }),
        };
        let label = |run: usize| comparison.runs[run].label.as_str();
        let note = |note: &'a ImportNote| NoteOut { certainty: &note.certainty, text: &note.text };
        Self {
            rate_bps: savings.rate.rate().get(),
            rate_inferred: inferred,
            queries_are_sequential: savings.is_sequential,
            application: query(&savings.application),
            together: savings.together.as_ref().map(query),
            queries: savings.queries.iter().map(query).collect(),
            best_policy: savings.best(comparison, false).map(label),
            best_policy_told_sizes: savings.best(comparison, true).map(label),
            at_usual_rate: savings.usual.map(|usual| UsualOut {
                rate_bps: USUAL.get(),
                simulated_s: usual.simulated_s,
                could_save_s: usual.most_s,
            }),
            recorded_on: savings.setup.as_ref().map(SetupOut::new),
            notes: savings.notes.iter().map(note).collect(),
        }
    }
}

/// Name–value pairs as an object, in their own order.
struct Params<'a>(&'a [(String, String)]);

impl Serialize for Params<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.0.len()))?;
        for (name, value) in self.0 {
            map.serialize_entry(name, value)?;
        }
        map.end()
    }
}

/// The comparison as one line of JSON; runs best first. `rate_bps` is the rate of the slowest link
/// where links differ.
pub fn json(comparison: &Comparison, conditions: &RunConditions) -> String {
    let ranking = comparison.ranking();
    let document = Document {
        schema_version: 2,
        cavalcade: &conditions.version,
        conditions: Conditions {
            trace: &conditions.trace,
            fabric: conditions.fabric.as_deref(),
            rate_bps: conditions.rate.get(),
            seed: conditions.seed,
            offline: conditions.offline,
        },
        trace: Trace {
            tasks: comparison.trace.tasks,
            coflows: comparison.trace.coflows,
            ports: comparison.trace.ports,
            bytes: comparison.trace.bytes.get(),
        },
        rate_bps: comparison.fabric.slowest_bps,
        runs: ranking.iter().map(|&index| run(comparison, index)).collect(),
        bound: comparison.bound.as_ref().map(Bound::from),
        savings: comparison.savings.as_ref().map(|savings| SavingsOut::new(comparison, savings)),
        wall_s: ranking.iter().map(|&index| comparison.runs[index].wall_s).collect(),
    };
    let text = serde_json::to_string(&document).expect("text keys and finite numbers can always be written");
    text + "\n"
}

impl<'a> From<&'a LowerBound> for Bound<'a> {
    fn from(bound: &'a LowerBound) -> Self {
        let LowerBound { method, budget, mean, misses, .. } = bound;
        Self { method, budget, mean_s: mean.as_secs_f64(), misses: *misses }
    }
}

impl<'a> Packets<'a> {
    fn new(transport: &'a TransportFacts, run: &'a RunFigures) -> Self {
        let fct = run.fct.unwrap_or_default();
        let [short, middle, long] = fct.map(|summary| summary.as_ref().map(Times::from));
        let fct = FlowTimes { short, middle, long };
        Self {
            engine: "packet",
            transport: &transport.name,
            transport_params: Params(&transport.params),
            fct,
            queues: run.queue_use.as_ref().map(Queues::from),
            negotiation: run.messages.as_ref().map(Negotiation::from),
        }
    }
}

impl From<&MessageUse> for Negotiation {
    fn from(used: &MessageUse) -> Self {
        Self {
            datagrams: used.sent,
            statements: used.statements,
            payload_bytes: used.payload.get(),
            arrived: used.arrived,
            left_out: used.left_out,
            lost: used.lost,
            link_bytes: used.carried.get(),
            link_share: used.share(),
            mean_delay_s: used.mean_delay().as_secs_f64(),
            max_delay_s: used.longest.as_secs_f64(),
        }
    }
}

impl From<&Summary> for Times {
    fn from(summary: &Summary) -> Self {
        let Summary { mean_s, p50_s, p95_s, p99_s, max_s } = *summary;
        Self { mean_s, p50_s, p95_s, p99_s, max_s }
    }
}

impl From<&SlowdownSummary> for Slowdown {
    fn from(summary: &SlowdownSummary) -> Self {
        Self { mean: summary.mean, p95: summary.p95 }
    }
}

fn task<'a>(task: &'a TaskFacts, run: &RunFigures, index: usize) -> TaskOut<'a> {
    let (start, tct) = (task.arrival, run.tct[index]);
    TaskOut {
        name: &task.name,
        start_s: start.as_secs_f64(),
        end_s: start.checked_add(tct).unwrap_or(Instant::MAX).as_secs_f64(),
        tct_s: tct.as_secs_f64(),
        alone_s: task.alone.as_secs_f64(),
        slowdown: run.task_slowdown[index],
        deadline_met: task.deadline_met(tct),
    }
}

fn run(comparison: &Comparison, index: usize) -> Run<'_> {
    let run = &comparison.runs[index];
    let by_tasks = comparison.ranked() == Ranked::Tasks;
    let deadlines = comparison.trace.deadlines;
    Run {
        policy: &run.policy,
        params: Params(&run.params),
        told_sizes: run.about.told(),
        paper: &run.about.paper,
        tct: by_tasks.then(|| Times::from(&run.tct_summary)),
        task_slowdown: by_tasks.then(|| Slowdown::from(&run.task_slowdown_summary)),
        cct: Times::from(&run.cct_summary),
        slowdown: Slowdown::from(&run.slowdown_summary),
        makespan_s: run.makespan.as_secs_f64(),
        deadlines: (deadlines > 0 || run.transport.is_some())
            .then_some(Deadlines { tasks: deadlines, missed: run.misses }),
        gap: comparison.gap(run),
        control: run.control.map(|control| Control {
            engine: "control",
            period_s: control.period.as_secs_f64(),
            messages: run.counts.messages,
        }),
        packets: run.transport.as_ref().map(|transport| Packets::new(transport, run)),
        tasks: by_tasks.then(|| {
            comparison.tasks.iter().enumerate().map(|(index, facts)| task(facts, run, index)).collect()
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample;

    fn written(comparison: &Comparison) -> String {
        let conditions = RunConditions {
            version: "0.0.0".to_owned(),
            trace: "trace.txt".to_owned(),
            fabric: None,
            rate: BitsPerSec(1),
            seed: 1,
            offline: false,
        };
        json(comparison, &conditions)
    }

    #[test]
    fn where_tasks_have_stages_each_is_listed_with_its_deadline() {
        let comparison = sample::staged();
        let value: serde_json::Value = serde_json::from_str(&written(&comparison)).unwrap();
        let run = &value["runs"][0];
        let expected = serde_json::json!([
            {
                "name": "two", "start_s": 100.0, "end_s": 104.0, "tct_s": 4.0, "alone_s": 3.0,
                "slowdown": 4.0 / 3.0, "deadline_met": false,
            },
            {
                "name": "one", "start_s": 101.0, "end_s": 106.0, "tct_s": 5.0, "alone_s": 5.0,
                "slowdown": 1.0, "deadline_met": null,
            },
        ]);
        assert_eq!(run["tasks"], expected);
        assert_eq!((&run["tct"]["mean_s"], &run["deadlines"]["missed"]), (&4.5.into(), &1.into()));
        assert_eq!(run["task_slowdown"]["p95"], 4.0 / 3.0);
        let single: serde_json::Value = serde_json::from_str(&written(&sample::comparison(1, 3))).unwrap();
        assert!(
            ["tct", "task_slowdown", "tasks", "deadlines"]
                .iter()
                .all(|key| single["runs"][0].get(key).is_none())
        );
    }

    #[test]
    fn the_wall_times_stand_last_and_nothing_else_differs_between_two_runs() {
        let mut comparison = sample::comparison(3, 20);
        let once = written(&comparison);
        comparison.runs.iter_mut().for_each(|run| run.wall_s += 1.0);
        let again = written(&comparison);
        let without = |text: &str| text.split_once(",\"wall_s\":").unwrap().0.to_owned();
        assert!(once != again && without(&once) == without(&again));
        assert!(once.ends_with("]}\n"), "{once}");
    }

    #[test]
    fn the_document_has_exactly_the_keys_of_the_schema_in_its_order() {
        let mut comparison = sample::comparison(2, 5);
        let run = "policy params queues first_threshold told_sizes paper cct mean_s p50_s p95_s p99_s max_s slowdown mean p95 makespan_s ";
        let before = "schema_version cavalcade conditions trace fabric rate_bps seed offline trace tasks coflows ports bytes rate_bps runs ";
        assert_eq!(keys(&written(&comparison)), format!("{before}{run}{run}wall_s "));
        comparison.bound = Some(sample::bound(&comparison));
        let bound = "bound method budget mean_s misses ";
        assert_eq!(keys(&written(&comparison)), format!("{before}{run}gap {run}gap {bound}wall_s "));
    }

    #[test]
    fn only_a_run_over_packets_names_its_engine_and_transport() {
        let mut comparison = sample::comparison(1, 3);
        let fluid = written(&comparison);
        assert!(!fluid.contains("deadlines"));
        let (name, params) = ("dctcp".to_owned(), vec![("marking".to_owned(), "97500B".to_owned())]);
        comparison.runs[0].transport = Some(TransportFacts { name, params });
        let added = r#","engine":"packet","transport":"dctcp","transport_params":{"marking":"97500B"},"fct":{"to_100KB":null,"to_10MB":null,"above_10MB":null}"#;
        let deadlines = r#","deadlines":{"tasks":0,"missed":0}"#;
        assert_eq!(written(&comparison).replacen(added, "", 1).replacen(deadlines, "", 1), fluid);
    }

    /// All keys in order, each with a space behind it.
    fn keys(text: &str) -> String {
        let mut keys = String::new();
        let mut rest = text;
        while let Some(start) = rest.find('"') {
            let end = start + 1 + rest[start + 1..].find('"').unwrap();
            if rest[end + 1..].starts_with(':') {
                keys.push_str(&rest[start + 1..end]);
                keys.push(' ');
            }
            rest = &rest[end + 1..];
        }
        keys
    }

    #[test]
    fn values_read_back_as_they_were() {
        let comparison = sample::comparison(3, 20);
        let text = written(&comparison);
        assert_eq!(text, written(&comparison));
        let value: serde_json::Value = serde_json::from_str(&text).unwrap();
        let best = &comparison.runs[comparison.ranking()[0]];
        assert_eq!(value["schema_version"], 2);
        assert_eq!(value["trace"]["coflows"], 20);
        assert_eq!(value["runs"][0]["policy"], best.policy.as_str());
        // Read by the standard library: the parser of `serde_json` may be off by the last bit.
        let mean = text.split("\"mean_s\":").nth(1).unwrap().split(',').next().unwrap();
        assert_eq!(mean.parse(), Ok(best.cct_summary.mean_s));
        assert_eq!(value["runs"][0]["params"]["first_threshold"], "10MB");
    }

    #[test]
    fn names_are_escaped() {
        let mut comparison = sample::comparison(1, 3);
        comparison.runs[0].policy = "a\"b\\c".into();
        let value: serde_json::Value = serde_json::from_str(&written(&comparison)).unwrap();
        assert_eq!(value["runs"][0]["policy"], "a\"b\\c");
    }
}
