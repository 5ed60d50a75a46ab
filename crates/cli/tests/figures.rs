//! Figures for papers: `cavalcade report figure`.

#![allow(clippy::unwrap_used, reason = "a test whose scene cannot be set has failed")]

mod support;

use support::Place;

#[test]
fn a_figure_is_written_as_its_name_ends() {
    let place = Place::with_trace();
    let trace = place.names().into_iter().next().expect("there is a trace");
    for (name, start) in [("a.svg", &b"<svg "[..]), ("a.PDF", b"%PDF-"), ("a.png", b"\x89PNG")] {
        let ran = place.run(&["report", "figure", "cdf", &trace, "--policies", "fair,sebf", "-o", name]);
        assert_eq!(ran.code, 0, "{}", ran.err);
        assert!(place.read(name).starts_with(start), "{name}");
    }
}

#[test]
fn a_run_with_a_schedule_is_written_as_trace_events() {
    let place = Place::with_trace();
    let simulate = |more: &[&str], run: &str| {
        let ran = place.run(&[&["simulate", "trace.txt", "--policy", "fair", "--out", run], more].concat());
        assert_eq!(ran.code, 0, "{}", ran.err);
    };
    simulate(&["--dump-schedule"], "with");
    simulate(&[], "without");
    assert_eq!(place.run(&["report", "events", "with", "-o", "run.json"]).code, 0);
    let events: serde_json::Value = serde_json::from_slice(&place.read("run.json")).unwrap();
    let events = events["traceEvents"].as_array().unwrap();
    let bytes_of = |group: u64| -> f64 {
        let of = events.iter().filter(|event| event["pid"] == group);
        of.filter_map(|event| event["args"]["bytes"].as_f64()).sum()
    };
    assert!(bytes_of(1) > 4e7 && (bytes_of(1) - bytes_of(2)).abs() < 1.0, "{events:?}");
    let ran = place.run(&["report", "events", "without", "-o", "none.json"]);
    assert!(ran.code == 3 && ran.err.contains("--dump-schedule"), "{}", ran.err);
    assert!(!place.path("none.json").exists());
}

#[test]
fn another_ending_is_refused_before_anything_is_read() {
    let place = Place::new();
    for name in ["a.jpg", "a", "a.svg.gz"] {
        let ran = place.run(&["report", "figure", "cdf", "nowhere.txt", "-o", name]);
        assert!(ran.code == 2 && ran.err.contains("end the name with .svg, .pdf or .png"), "{}", ran.err);
        assert!(ran.out.is_empty() && place.names().is_empty());
    }
}
