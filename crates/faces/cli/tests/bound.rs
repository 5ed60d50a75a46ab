//! Bounds: what is printed of them, and that their certificates are derived again, from the right
//! trace and no other.

#![allow(clippy::unwrap_used, reason = "a helper of tests fails by panicking")]

mod support;

use std::io::Read;

use serde_json::Value;
use support::{Place, golden};

/// Two tasks of one port to another, of which only one can be done in time, and one of three stages
/// that has time enough.
const DEADLINES: &str = r#"{"cavalcade_trace":1,"ports":3,"tasks":3}
{"name":"a","arrival_ns":0,"deadline_ns":10000000,"weight":3,"stages":[{"flows":[[0,1,1000000]]}]}
{"name":"b","arrival_ns":0,"deadline_ns":10000000,"stages":[{"flows":[[0,1,1000000]]}]}
{"name":"c","arrival_ns":0,"deadline_ns":90000000,"stages":[{"flows":[[2,1,64]]},{"starts_after":[0],"compute_ns":2000},{"starts_after":[1],"flows":[[1,2,8]]}]}
"#;

fn place() -> Place {
    let place = Place::with_trace();
    place.write("deadlines.jsonl", DEADLINES);
    place
}

fn output(place: &Place, arguments: &[&str]) -> String {
    let ran = place.run(arguments);
    assert_eq!((ran.code, ran.err.as_str()), (0, ""), "{arguments:?}");
    ran.out
}

#[test]
fn every_bound_is_named_and_the_best_is_a_sentence() {
    let place = place();
    let mut text = String::new();
    for arguments in [
        &["bound", "trace.txt"][..],
        &["bound", "trace.txt", "--budget", "0"],
        &["bound", "trace.txt", "--offline", "--rate", "10Gbps"],
        &["bound", "deadlines.jsonl", "--objective", "tasks", "--weighted"],
        &["bound", "deadlines.jsonl", "--objective", "deadlines"],
        &["bound", "deadlines.jsonl", "--objective", "deadlines", "--weighted"],
        &["compare", "deadlines.jsonl", "--policies", "fair", "--json", "--bound", "100"],
    ] {
        let mut out = output(&place, arguments);
        if arguments.contains(&"--json") {
            let mut document: Value = serde_json::from_str(&out).unwrap();
            document["wall_s"] = Value::Null;
            out = format!("{document:#}\n");
        }
        text += &format!("$ cavalcade {}\n{out}\n", arguments.join(" "));
    }
    golden("bound.txt", &text);
}

#[test]
fn json_says_what_the_table_says() {
    let place = place();
    let arguments = ["bound", "trace.txt", "--json", "--offline", "--budget", "100"];
    let mut document: Value = serde_json::from_str(&output(&place, &arguments)).unwrap();
    assert!(document["search"]["wall_s"].as_f64().unwrap() >= 0.0);
    document["search"]["wall_s"] = Value::Null;
    let arguments = ["bound", "deadlines.jsonl", "--json", "--objective", "deadlines"];
    let mut deadlines: Value = serde_json::from_str(&output(&place, &arguments)).unwrap();
    deadlines["search"]["wall_s"] = Value::Null;
    golden("bound.json", &format!("{document:#}\n{deadlines:#}\n"));
}

#[test]
fn a_certificate_is_derived_anew_wherever_it_and_its_trace_are() {
    let place = place();
    for conditions in
        [&[][..], &["--offline"], &["--weighted"], &["--objective", "tasks"], &["--budget", "0"]]
    {
        let bound =
            output(&place, &[&["bound", "trace.txt", "--certificate", "bound.json"], conditions].concat());
        let sentence = bound.lines().find(|line| line.starts_with("No schedule")).unwrap();
        let checked = output(&place, &["validate", "bound.json"]);
        assert_eq!(checked, format!("The certificate holds. {sentence}\n"), "{conditions:?}");
    }
    std::fs::rename(place.path("trace.txt"), place.path("moved.txt")).unwrap();
    output(&place, &["validate", "bound.json", "--trace", "moved.txt"]);
    let ran = place.run(&["validate", "bound.json"]);
    assert_eq!(ran.code, 3);
    assert!(ran.err.contains("trace.txt"), "{}", ran.err);
}

#[test]
fn a_certificate_of_deadlines_is_derived_anew() {
    let place = place();
    let arguments = ["bound", "deadlines.jsonl", "--objective", "deadlines", "--certificate", "met.json"];
    let bound = output(&place, &arguments);
    assert!(bound.starts_with("No schedule meets more than 2 of 3 deadlines"), "{bound}");
    let checked = output(&place, &["validate", "met.json"]);
    assert!(checked.contains("No schedule meets more than 2 of 3 deadlines"), "{checked}");
}

#[test]
fn a_certificate_is_the_same_bytes_and_compressed_as_its_name_says() {
    let place = place();
    for name in ["one.json", "other.json", "bound.json.gz", "bound.json.zst"] {
        output(&place, &["bound", "trace.txt", "--budget", "100", "--certificate", name]);
        output(&place, &["validate", name]);
    }
    let plain = place.read("one.json");
    assert_eq!(plain, place.read("other.json"));
    assert_eq!(zstd::decode_all(&place.read("bound.json.zst")[..]).unwrap(), plain);
    let mut text = Vec::new();
    flate2::read::GzDecoder::new(&place.read("bound.json.gz")[..]).read_to_end(&mut text).unwrap();
    assert_eq!(text, plain);
    let ran = place.run_with_input(&["validate", "-"], plain);
    assert_eq!(ran.code, 0, "{}", ran.err);
}

#[test]
fn a_certificate_that_does_not_hold_is_found() {
    let place = place();
    output(&place, &["bound", "trace.txt", "--certificate", "bound.json"]);
    let text = String::from_utf8(place.read("bound.json")).unwrap();
    let trace = String::from_utf8(place.read("trace.txt")).unwrap();
    for (broken, code) in [
        (text.replace("\"nanos\":\"", "\"nanos\":\"9"), 4),
        (text.replace("\"nanos\":\"", "\"nanos\":\"x"), 3),
        // The other links are shorter.
        (text.replace("\"links\":[0]", "\"links\":[1]"), 4),
        // Ten times as fast as the bound was found for.
        (text.replace("\"rate_bps\":", "\"rate_bps\":1"), 4),
        (text.replace("\"rate_bps\":1000000000", "\"rate_bps\":0"), 3),
        (text.replace("\"version\":1", "\"version\":9"), 3),
        (text.replace("\"trace\":", "\"trail\":"), 3),
        (text[..text.len() / 2].to_owned(), 3),
        ("[]".to_owned(), 3),
        (String::new(), 3),
        (trace, 3),
    ] {
        place.write("broken.json", &broken);
        let ran = place.run(&["validate", "broken.json"]);
        assert_eq!((ran.code, ran.out.as_str()), (code, ""), "{}\n{broken}", ran.err);
        assert!(ran.err.contains("broken.json"), "{}", ran.err);
    }
    place.write("broken.json", b"\x28\xb5\x2f\xfdgarbage");
    assert_eq!(place.run(&["validate", "broken.json"]).code, 3);
}

#[test]
fn a_certificate_of_another_trace_is_refused_by_its_digest() {
    let place = place();
    output(&place, &["bound", "trace.txt", "--certificate", "bound.json"]);
    let ran = place.run(&["validate", "bound.json", "--trace", "deadlines.jsonl"]);
    assert_eq!(ran.code, 3);
    assert!(ran.err.contains("deadlines.jsonl is not the trace of this certificate"), "{}", ran.err);
}

#[test]
fn nothing_is_written_where_a_bound_fails() {
    let place = place();
    let before = place.names();
    for (arguments, code) in [
        (&["bound", "missing.txt", "--certificate", "bound.json"][..], 3),
        (&["bound", "trace.txt", "--certificate", "missing/bound.json"], 1),
        (&["bound", "trace.txt", "--objective", "deadlines", "--certificate", "bound.json"], 2),
        (&["bound", "trace.txt", "--budget", "soon"], 2),
        (&["bound", "trace.txt", "--rate", "0bps"], 2),
        (&["compare", "trace.txt", "--bound", "5s", "--no-bound"], 2),
    ] {
        let ran = place.run(arguments);
        assert_eq!((ran.code, ran.out.as_str()), (code, ""), "{arguments:?}: {}", ran.err);
        assert_eq!(place.names(), before, "{arguments:?}");
    }
}

#[test]
fn a_comparison_without_a_bound_has_no_gap() {
    let place = place();
    let table = output(&place, &["compare", "trace.txt", "--policies", "fair", "--no-bound"]);
    assert!(!table.contains("gap"), "{table}");
}
