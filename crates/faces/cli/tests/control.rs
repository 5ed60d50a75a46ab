//! The fluid engine under the live control plane, from the command line.

#![allow(clippy::unwrap_used, reason = "a test whose scene cannot be set has failed")]

mod support;

use serde_json::Value;
use support::Place;

#[test]
fn what_the_control_plane_brings_about_stands_beside_the_policy_alone() {
    let place = Place::with_trace();
    let compare =
        ["compare", "trace.txt", "--json", "--policies", "fair,sebf,dcas", "--engine", "fluid,control"];
    let ran = place.run(&compare);
    assert_eq!(ran.code, 0, "{}", ran.err);
    let document: Value = serde_json::from_str(&ran.out).unwrap();
    let run = |policy: &str, engine: Value| {
        let runs = document["runs"].as_array().unwrap();
        runs.iter().find(|run| run["policy"] == policy && run["engine"] == engine).unwrap().clone()
    };
    let mean = |run: &Value| run["cct"]["mean_s"].as_f64().unwrap();
    for policy in ["fair", "sebf", "dcas"] {
        let (alone, carried_out) = (run(policy, Value::Null), run(policy, "control".into()));
        assert!((mean(&carried_out) / mean(&alone) - 1.0).abs() < 0.5, "{policy}: {carried_out} and {alone}");
        assert_eq!(carried_out["period_s"], 0.01);
        assert!(carried_out["messages"].as_u64().unwrap() > 0);
    }
    // With no coflow to be ordered nothing differs: all gates are open.
    assert_eq!(mean(&run("fair", Value::Null)), mean(&run("fair", "control".into())));
}

#[test]
fn a_run_under_the_control_plane_is_replayed_bit_for_bit_on_any_fabric() {
    let place = Place::with_trace();
    let simulate = [
        "simulate",
        "trace.txt",
        "--policy",
        "dclas",
        "--engine",
        "control",
        "--period",
        "25ms",
        "--fabric",
        "leafspine:leaves=2,spines=2,hosts=2",
        "--out",
        "run",
    ];
    assert_eq!(place.run(&simulate).code, 0);
    let manifest: Value = serde_json::from_slice(&place.read("run/manifest.json")).unwrap();
    assert_eq!(manifest["control"]["period_ns"], 25_000_000);
    let ran = place.run(&["replay", "run"]);
    assert_eq!(ran.code, 0, "{}", ran.err);
}

#[test]
fn conditions_that_the_control_plane_cannot_have_are_refused() {
    let place = Place::with_trace();
    let refused =
        [(vec!["--period", "10us"], "1ms to 60s"), (vec!["--transport", "dctcp"], "--engine packet")];
    for (arguments, cure) in refused {
        let ran = place.run(&[&["compare", "trace.txt", "--engine", "control"][..], &arguments].concat());
        assert_eq!(ran.code, 2, "{arguments:?}: {}", ran.err);
        assert!(ran.err.contains(cure), "{arguments:?}: {}", ran.err);
    }
}
