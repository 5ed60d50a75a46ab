//! The packet engine from the command line: the output of the fluid one, and what is said where something cannot be.

#![allow(clippy::unwrap_used, reason = "a test whose scene cannot be set has failed")]

mod support;

use serde_json::Value;
use support::Place;

fn runs(place: &Place, extra: &[&str]) -> Vec<Value> {
    let ran = place.run(&[&["compare", "trace.txt", "--json", "--policies", "fair,sebf"], extra].concat());
    assert_eq!(ran.code, 0, "{}", ran.err);
    let document: Value = serde_json::from_str(&ran.out).unwrap();
    document["runs"].as_array().unwrap().clone()
}

const PACKETS: &[&str] = &["--engine", "packet", "--rate", "10Gbps"];

#[test]
fn runs_over_packets_have_the_keys_of_fluid_ones_and_name_engine_and_transport() {
    let place = Place::with_trace();
    let fluid = runs(&place, &["--rate", "10Gbps"]);
    let packets = runs(&place, &[PACKETS, &["--transport", "dctcp,pfabric"]].concat());
    assert_eq!((fluid.len(), packets.len()), (2, 4));
    let keys = |run: &Value| run.as_object().unwrap().keys().cloned().collect::<Vec<_>>();
    let more = ["engine", "transport", "transport_params", "fct"];
    for run in &packets {
        assert_eq!(run["engine"], "packet");
        assert!(run["transport_params"]["buffer"].is_string());
        // The trace has flows of 1 MB and more only.
        assert!(run["fct"]["to_100KB"].is_null());
        assert!(run["fct"]["to_10MB"]["p99_s"].as_f64().unwrap() > 0.0);
        let mut without = keys(run);
        without.retain(|key| !more.contains(&key.as_str()));
        assert_eq!(without, keys(&fluid[0]));
    }
    // Headers and acknowledgements cost some 4 %; nothing here waits for a timeout.
    let mean = |runs: &[Value], transport: Option<&str>| {
        let transport = transport.map_or(Value::Null, Value::from);
        let run = runs.iter().find(|run| run["policy"] == "fair" && run["transport"] == transport).unwrap();
        run["cct"]["mean_s"].as_f64().unwrap()
    };
    let (flows, dctcp) = (mean(&fluid, None), mean(&packets, Some("dctcp")));
    assert!((1.02..1.15).contains(&(dctcp / flows)), "{dctcp} s over packets, {flows} s as a fluid");
}

#[test]
fn packets_cross_the_fabric_that_is_named_and_share_what_it_oversubscribes() {
    let place = Place::with_trace();
    let rate = ["--rate", "10Gbps"];
    let mean = |fabric: &str, extra: &[&str]| {
        let fabric = ["--fabric", fabric];
        let runs = runs(&place, &[&fabric[..], &rate, extra].concat());
        runs.iter().find(|run| run["policy"] == "fair").unwrap()["cct"]["mean_s"].as_f64().unwrap()
    };
    let packets = ["--engine", "packet"];
    let level = mean("leafspine:leaves=4,spines=2,hosts=8", &packets);
    let short = "leafspine:leaves=4,spines=2,hosts=8,oversubscription=8";
    let (over, fluid) = (mean(short, &packets), mean(short, &[]));
    assert!(over > 1.2 * level, "uplinks of an eighth are felt: {over} s, not {level} s");
    assert!((0.9..1.3).contains(&(over / fluid)), "{over} s over packets, {fluid} s as a fluid");
}

#[test]
fn a_run_over_packets_replays_bit_for_bit() {
    let place = Place::with_trace();
    let arguments =
        ["simulate", "trace.txt", "--policy", "dcas", "--out", "run", "--transport", "pfabric:window=10"];
    let ran = place.run(&[&arguments[..], PACKETS].concat());
    assert_eq!(ran.code, 0, "{}", ran.err);
    let ran = place.run(&["replay", "run"]);
    assert_eq!((ran.code, ran.err.as_str()), (0, ""));
    assert!(String::from_utf8(place.read("run/manifest.json")).unwrap().contains("pfabric:window=10,"));
}

#[test]
fn what_packets_cannot_do_is_said_before_anything_is_run() {
    let place = Place::with_trace();
    let refusal = |arguments: &[&str]| {
        let ran = place.run(&[&["compare", "trace.txt"], arguments].concat());
        assert_eq!((ran.code, ran.out.as_str()), (2, ""), "{}", ran.err);
        ran.err
    };
    assert!(refusal(&["--transport", "dctcp"]).contains("add --engine packet"));
    assert!(refusal(&["--engine", "packet", "--transport", "cubic"]).contains("known are reno, dctcp"));
    assert!(
        refusal(&["--engine", "packet", "--transport", "dctcp:marking=1GB"]).contains("less than the buffer")
    );
    assert!(refusal(&["--engine", "packet", "--policy", "las:at=link"]).contains("use the fluid engine"));
    assert!(
        refusal(&["--engine", "packet", "--transport", "dctcp:buffer=1KB,marking=0B"])
            .contains("at least 1500B")
    );
}
