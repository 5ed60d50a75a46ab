//! `cavalcade compare --json`: the schema that programs read, version 1.
//!
//! The keys, their order and their nesting are a promise (`schema_version` counts its changes), so they are spelt out
//! here and derived from nothing else. Numbers are the shortest text that reads back as the same value, which does not
//! depend on the machine. Parameters are text, as they were given: `"10MB"` has no other form.
//!
//! Where packets were simulated, `engine` ("packet"), `transport`, `transport_params` and `fct` (flow completion times by size;
//! null where there are no flows of that size), `deadlines` and `queues` (the output ports of switches: all of them in a few
//! figures, and the fullest one by one) stand at the end of a run.
//!
//! `savings` stands at the end where the workload is an imported log that recorded times.
//!
//! Where a comparison has a lower bound, `bound` stands behind the runs and `gap` at the end of each. Callers give it one
//! only where it was asked for by name, so that a program that knows nothing of bounds reads what it always has.

use cavalcade_metrics::{
    Comparison, ImportNote, LowerBound, MessageUse, Occupancy, PortUse, QuerySavings, QueueTotals, QueueUse,
    RateChoice, RunFigures, Savings, Summary, TransportFacts,
};
use serde::ser::{Serialize, SerializeMap, Serializer};

#[derive(serde::Serialize)]
struct Document<'a> {
    schema_version: u32,
    trace: Trace,
    rate_bps: u64,
    runs: Vec<Run<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    bound: Option<Bound<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    savings: Option<SavingsOut<'a>>,
}

#[derive(serde::Serialize)]
struct Trace {
    coflows: usize,
    ports: u32,
    bytes: u64,
}

#[derive(serde::Serialize)]
struct Run<'a> {
    policy: &'a str,
    params: Params<'a>,
    told_sizes: bool,
    paper: &'a str,
    cct: Times,
    slowdown: Slowdown,
    makespan_s: f64,
    wall_s: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    gap: Option<f64>,
    #[serde(flatten)]
    control: Option<Control>,
    #[serde(flatten)]
    packets: Option<Packets<'a>>,
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
    deadlines: Deadlines,
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
    notes: Vec<NoteOut<'a>>,
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
        let note = |note: &'a ImportNote| NoteOut { certainty: &note.certainty, text: &note.text };
        Self {
            rate_bps: savings.rate.rate().get(),
            rate_inferred: inferred,
            queries_are_sequential: savings.is_sequential,
            application: query(&savings.application),
            together: savings.together.as_ref().map(query),
            queries: savings.queries.iter().map(query).collect(),
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

/// The comparison as one line of JSON without a line break; runs best first. `rate_bps` is the rate of the slowest link
/// where links differ.
pub fn json(comparison: &Comparison) -> String {
    let document = Document {
        schema_version: 1,
        trace: Trace {
            coflows: comparison.trace.coflows,
            ports: comparison.trace.ports,
            bytes: comparison.trace.bytes.get(),
        },
        rate_bps: comparison.fabric.slowest_bps,
        runs: comparison.ranking().into_iter().map(|index| run(comparison, index)).collect(),
        bound: comparison.bound.as_ref().map(Bound::from),
        savings: comparison.savings.as_ref().map(|savings| SavingsOut::new(comparison, savings)),
    };
    serde_json::to_string(&document).expect("text keys and finite numbers can always be written")
}

impl<'a> From<&'a LowerBound> for Bound<'a> {
    fn from(bound: &'a LowerBound) -> Self {
        let LowerBound { method, budget, mean_cct, misses, .. } = bound;
        Self { method, budget, mean_s: mean_cct.as_secs_f64(), misses: *misses }
    }
}

impl<'a> Packets<'a> {
    fn new(transport: &'a TransportFacts, run: &'a RunFigures, tasks: usize) -> Self {
        let fct = run.fct.unwrap_or_default();
        let [short, middle, long] = fct.map(|summary| summary.as_ref().map(Times::from));
        let fct = FlowTimes { short, middle, long };
        Self {
            engine: "packet",
            transport: &transport.name,
            transport_params: Params(&transport.params),
            fct,
            deadlines: Deadlines { tasks, missed: run.misses },
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

fn run(comparison: &Comparison, index: usize) -> Run<'_> {
    let run = &comparison.runs[index];
    let (cct, slowdown) = (&run.cct_summary, &run.slowdown_summary);
    Run {
        policy: &run.policy,
        params: Params(&run.params),
        told_sizes: run.about.told_sizes,
        paper: &run.about.paper,
        cct: Times::from(cct),
        slowdown: Slowdown { mean: slowdown.mean, p95: slowdown.p95 },
        makespan_s: run.makespan.as_secs_f64(),
        wall_s: run.wall_s,
        gap: comparison.gap(run),
        control: run.control.map(|control| Control {
            engine: "control",
            period_s: control.period.as_secs_f64(),
            messages: run.counts.messages,
        }),
        packets: run
            .transport
            .as_ref()
            .map(|transport| Packets::new(transport, run, comparison.trace.deadlines)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample;

    #[test]
    fn the_document_has_exactly_the_keys_of_the_schema_in_its_order() {
        let mut comparison = sample::comparison(2, 5);
        let run = "policy params queues first_threshold told_sizes paper cct mean_s p50_s p95_s p99_s max_s slowdown mean p95 makespan_s wall_s ";
        let before = "schema_version trace coflows ports bytes rate_bps runs ";
        assert_eq!(keys(&json(&comparison)), format!("{before}{run}{run}"));
        comparison.bound = Some(sample::bound(&comparison));
        let bound = "bound method budget mean_s misses ";
        assert_eq!(keys(&json(&comparison)), format!("{before}{run}gap {run}gap {bound}"));
    }

    #[test]
    fn only_a_run_over_packets_names_its_engine_and_transport() {
        let mut comparison = sample::comparison(1, 3);
        let fluid = json(&comparison);
        let (name, params) = ("dctcp".to_owned(), vec![("marking".to_owned(), "97500B".to_owned())]);
        comparison.runs[0].transport = Some(TransportFacts { name, params });
        let added = r#","engine":"packet","transport":"dctcp","transport_params":{"marking":"97500B"},"fct":{"to_100KB":null,"to_10MB":null,"above_10MB":null},"deadlines":{"tasks":0,"missed":0}"#;
        assert_eq!(json(&comparison).replace(added, ""), fluid);
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
        let text = json(&comparison);
        assert_eq!(text, json(&comparison));
        let value: serde_json::Value = serde_json::from_str(&text).unwrap();
        let best = &comparison.runs[comparison.ranking()[0]];
        assert_eq!(value["schema_version"], 1);
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
        let value: serde_json::Value = serde_json::from_str(&json(&comparison)).unwrap();
        assert_eq!(value["runs"][0]["policy"], "a\"b\\c");
    }
}
