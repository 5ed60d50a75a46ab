//! Comparisons over a trace that is read as it goes.

#![allow(clippy::unwrap_used, reason = "a test whose scene cannot be set has failed")]

mod support;

use support::{Place, Ran, names};

fn done(place: &Place, arguments: &[&str]) -> Ran {
    let ran = place.run(arguments);
    assert_eq!(ran.code, 0, "{arguments:?}: {}", ran.err);
    ran
}

#[test]
fn a_stream_prints_and_keeps_what_the_whole_does() {
    let place = Place::with_trace();
    let policies = ["--policies", "fair,sebf,aalo,learn"];
    let compared = |more: &[&str]| done(&place, &[&["compare", "trace.txt"], &policies[..], more].concat());
    let timeless = |text: String| text.split_once(",\"wall_s\":[").unwrap().0.to_owned();
    let [whole, streamed] =
        [&["--json", "--out", "whole"][..], &["--json", "--out", "streamed", "--stream"]].map(compared);
    assert_eq!(timeless(streamed.out), timeless(whole.out));
    assert_eq!(
        names(&place.path("streamed")),
        names(&place.path("whole")).into_iter().filter(|name| name != "runs").collect::<Vec<_>>()
    );
    for name in ["coflows.csv", "coflows.parquet", "tasks.csv", "tasks.parquet"] {
        assert_eq!(place.read(&format!("streamed/{name}")), place.read(&format!("whole/{name}")), "{name}");
    }
    let table = compared(&["--stream", "--by-bin", "--assert", "factor(sebf) > 0.5"]).out;
    assert!(table.contains("sebf") && table.contains("aalo"), "{table}");
}

#[test]
fn what_needs_the_whole_trace_is_refused_by_name() {
    let place = Place::with_trace();
    for (more, said) in [
        (&["--report", "r.html"][..], "--report"),
        (&["--bound", "5s"], "--bound"),
        (&["--offline"], "--offline"),
        (&["--counters", "2"], "several counters"),
        (&["--engine", "packet"], "--engine"),
        (&["--policy", "pias over dctcp"], "pias over dctcp"),
    ] {
        let ran = place.run(&[&["compare", "trace.txt", "--policies", "fair", "--stream"], more].concat());
        assert_eq!(ran.code, 2, "{more:?}: {}", ran.err);
        assert!(ran.err.contains(said), "{}", ran.err);
    }
}

#[test]
fn costly_policies_of_a_set_are_left_out_of_a_stream() {
    let place = Place::with_trace();
    let ran = done(&place, &["compare", "trace.txt", "--stream"]);
    assert!(ran.err.contains("dcas, for which dcas-quiet stands"), "{}", ran.err);
    assert!(ran.out.contains("dcas-quiet") && !ran.out.contains("baraat"), "{}", ran.out);
}
