//! `cavalcade compare --json`: the schema that programs read, version 1.
//!
//! The keys, their order and their nesting are a promise (`schema_version` counts its changes), so they are spelt out
//! here and derived from nothing else. Numbers are the shortest text that reads back as the same value, which does not
//! depend on the machine. Parameters are text, as they were given: `"10MB"` has no other form.

use cavalcade_metrics::{Comparison, RunFigures};
use serde::ser::{Serialize, SerializeMap, Serializer};

#[derive(serde::Serialize)]
struct Document<'a> {
    schema_version: u32,
    trace: Trace,
    rate_bps: u64,
    runs: Vec<Run<'a>>,
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
    cct: Times,
    slowdown: Slowdown,
    makespan_s: f64,
    wall_s: f64,
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
        runs: comparison.ranking().into_iter().map(|index| run(&comparison.runs[index])).collect(),
    };
    serde_json::to_string(&document).expect("text keys and finite numbers can always be written")
}

fn run(run: &RunFigures) -> Run<'_> {
    let (cct, slowdown) = (&run.cct_summary, &run.slowdown_summary);
    Run {
        policy: &run.policy,
        params: Params(&run.params),
        cct: Times {
            mean_s: cct.mean_s,
            p50_s: cct.p50_s,
            p95_s: cct.p95_s,
            p99_s: cct.p99_s,
            max_s: cct.max_s,
        },
        slowdown: Slowdown { mean: slowdown.mean, p95: slowdown.p95 },
        makespan_s: run.makespan.as_secs_f64(),
        wall_s: run.wall_s,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample;

    #[test]
    fn the_document_has_exactly_the_keys_of_the_schema_in_its_order() {
        let text = json(&sample::comparison(2, 5));
        let mut keys = String::new();
        let mut rest = text.as_str();
        while let Some(start) = rest.find('"') {
            let end = start + 1 + rest[start + 1..].find('"').unwrap();
            if rest[end + 1..].starts_with(':') {
                keys.push_str(&rest[start + 1..end]);
                keys.push(' ');
            }
            rest = &rest[end + 1..];
        }
        let run = "policy params queues first_threshold cct mean_s p50_s p95_s p99_s max_s slowdown mean p95 makespan_s wall_s ";
        assert_eq!(keys, format!("schema_version trace coflows ports bytes rate_bps runs {run}{run}"));
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
