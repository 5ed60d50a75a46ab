//! What people bring: orders of coflows in a file, and schedules that were made elsewhere.

#![allow(clippy::unwrap_used, reason = "a test whose scene cannot be set has failed")]

mod support;

use serde_json::Value;
use support::{Place, Ran};

/// Three coflows of 1, 2 and 4 MB from one port to another, which arrive together: at 8 Mbps a
/// megabyte takes a second.
const LINE: &str = "1 0 1 4000000 0 large\n2 0 1 1000000 0 small\n3 0 1 2000000 0 middle\n";
/// The conditions of all runs of it.
const RATE: [&str; 2] = ["--rate", "8Mbps"];

fn line() -> Place {
    let place = Place::new();
    place.write("line.txt", LINE);
    place
}

fn done(place: &Place, arguments: &[&str]) -> Ran {
    let ran = place.run(arguments);
    assert_eq!(ran.code, 0, "{arguments:?}: {}", ran.err);
    ran
}

/// The completion times of large, small and middle, in seconds, in the run in `folder`.
fn seconds(place: &Place, folder: &str) -> Vec<f64> {
    let text = String::from_utf8(place.read(&format!("{folder}/coflows.csv"))).unwrap();
    let column = text.lines().next().unwrap().split(',').position(|name| name == "cct_ns").unwrap();
    let cct = |line: &str| line.split(',').nth(column).unwrap().parse::<f64>().unwrap() / 1e9;
    text.lines().skip(1).map(cct).collect()
}

#[test]
fn an_order_of_a_file_is_served_as_it_stands() {
    let place = line();
    place.write("mine.txt", "\u{feff}# by hand\r\n\r\n  middle  \r\nlarge\r\nsmall\r\n");
    done(
        &place,
        &[&["simulate", "line.txt", "--policy", "order:mine.txt", "--out", "run"][..], &RATE].concat(),
    );
    assert_eq!(seconds(&place, "run"), [6.0, 7.0, 2.0]);
}

#[test]
fn an_order_is_kept_in_the_manifest_and_needs_its_file_no_more() {
    let place = line();
    place.write("mine.txt", "middle\nlarge\n");
    let simulate = ["simulate", "line.txt", "--policy", "Order:mine.txt", "--out", "run", "--dump-schedule"];
    let ran = done(&place, &[&simulate[..], &RATE].concat());
    assert!(ran.err.contains("order:mine.txt: 1 of 3 coflows are not in it"), "{}", ran.err);
    let manifest: Value = serde_json::from_slice(&place.read("run/manifest.json")).unwrap();
    assert_eq!(manifest["policy"]["order"], serde_json::json!([2, 0]));
    std::fs::remove_file(place.path("mine.txt")).unwrap();
    done(&place, &["replay", "run"]);
    done(&place, &["validate", "run"]);
    let text = String::from_utf8(place.read("run/manifest.json")).unwrap();
    place.write("run/manifest.json", text.replace("      2,\n", "      0,\n"));
    let ran = place.run(&["replay", "run"]);
    assert!(ran.code == 3 && ran.err.contains("manifest.json: the order has coflow 0 twice"), "{}", ran.err);
}

#[test]
fn an_order_stands_beside_policies_under_its_file_name_with_and_without_packets() {
    let place = line();
    place.write("mine.txt", "small\nmiddle\nlarge\n");
    let compare = ["compare", "line.txt", "--policies", "fair,order:mine.txt,sebf", "--no-bound"];
    let ran = done(&place, &[&compare[..], &RATE].concat());
    assert!(ran.out.contains("order:mine.txt *"), "{}", ran.out);
    let json = |more: &[&str]| -> Value {
        let ran = done(&place, &[&compare[..], &RATE, more, &["--json"]].concat());
        serde_json::from_str(&ran.out).unwrap()
    };
    let of = |document: &Value, policy: &str| {
        let runs = document["runs"].as_array().unwrap();
        runs.iter().find(|run| run["policy"] == policy).unwrap().clone()
    };
    // Smallest first is what sebf comes to on one link: 1, 3 and 7 seconds.
    let fluid = json(&[]);
    assert_eq!(of(&fluid, "order")["cct"], of(&fluid, "sebf")["cct"]);
    assert_eq!(of(&fluid, "order")["cct"]["mean_s"], 11.0 / 3.0);
    assert_eq!(of(&fluid, "order")["params"]["file"], "mine.txt");
    let packets = json(&["--engine", "packet", "--transport", "dctcp"]);
    let mean = |policy: &str| of(&packets, policy)["cct"]["mean_s"].as_f64().unwrap();
    assert!((mean("order") / mean("sebf") - 1.0).abs() < 0.02, "{} {}", mean("order"), mean("sebf"));
    assert!(mean("order") < 0.9 * mean("fair"));
}

#[test]
fn the_discipline_of_an_order_can_be_chosen() {
    let place = line();
    place.write("mine.txt", "small\n");
    let policies = "order:mine.txt,discipline=maxmin,order:mine.txt";
    let compare = ["compare", "line.txt", "--policies", policies, "--json"];
    let ran = done(&place, &[&compare[..], &RATE].concat());
    assert!(ran.out.contains(r#""discipline":"maxmin""#) && ran.out.contains(r#""discipline":"greedy""#));
}

#[test]
fn where_no_name_is_a_number_numbers_of_coflows_will_do() {
    let place = line();
    place.write("mine.txt", "2\n0\nsmall\n");
    done(
        &place,
        &[&["simulate", "line.txt", "--policy", "order:mine.txt", "--out", "run"][..], &RATE].concat(),
    );
    assert_eq!(seconds(&place, "run"), [6.0, 7.0, 2.0]);
    // In the trace of all tests coflows are called 1, 2 and 3, so 0 is none of them.
    let place = Place::with_trace();
    place.write("mine.txt", "0\n1\n");
    let ran = place.run(&["simulate", "trace.txt", "--policy", "order:mine.txt"]);
    assert!(ran.code == 3 && ran.err.contains("mine.txt:1: the trace has no coflow called 0"), "{}", ran.err);
}

#[test]
fn a_run_that_leaves_the_order_to_the_transport_is_kept_and_replayed() {
    let place = Place::with_trace();
    done(&place, &["simulate", "trace.txt", "--policy", "over pfabric", "--out", "run"]);
    done(&place, &["replay", "run"]);
}
