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
    let theirs = ["--schedule", "with/schedule.csv", "--trace", "trace.txt", "-o", "theirs.json"];
    let ran = place.run(&[&["report", "events"][..], &theirs].concat());
    assert_eq!(ran.code, 0, "{}", ran.err);
    assert_eq!(place.read("theirs.json"), place.read("run.json"), "as a schedule that was made elsewhere");
    place.run(&["report", "events", "with", "--trace", "trace.txt", "-o", "moved.json"]);
    assert_eq!(place.read("moved.json"), place.read("run.json"));
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

/// A task of two coflows one after the other, and one of a single coflow.
const STAGED: &str = r#"{"cavalcade_trace":1,"ports":4,"tasks":2}
{"name":"two","arrival_ns":0,"stages":[{"flows":[[0,1,40000000]]},{"starts_after":[0],"flows":[[1,2,9000000]]}]}
{"name":"one","arrival_ns":1000000,"stages":[{"flows":[[0,2,5000000]]}]}
"#;

/// The figure of these arguments as SVG.
fn svg(place: &Place, arguments: &[&str]) -> String {
    let ran = place.run(&[&["report", "figure"], arguments, &["-o", "figure.svg"]].concat());
    assert_eq!(ran.code, 0, "{arguments:?}: {}", ran.err);
    let drawn = String::from_utf8(place.read("figure.svg")).unwrap();
    assert!(!drawn.contains("<text"), "no program that shows it needs a font");
    drawn
}

#[test]
fn a_sweep_has_a_line_for_each_policy_and_intervals_over_seeds() {
    let place = Place::with_trace();
    let drawn =
        svg(&place, &["sweep", "trace.txt", "--policies", "fair,sebf", "--over", "rate=1Gbps,2Gbps,8Gbps"]);
    // Two lines, each once more in the legend; three points on each, and no interval of one run.
    assert_eq!(drawn.matches("stroke-linejoin").count(), 4);
    assert_eq!(drawn.matches("stroke-width=\"1.4\"").count(), 0);
    for text in
        ["\"1Gbps\"", "\"2Gbps\"", "\"8Gbps\"", "rate of links (log scale)", "mean CCT", "lower is better"]
    {
        assert!(drawn.contains(text), "{text}");
    }
    let workload = ["--generate", "facebook:coflows=8,ports=8", "--policies", "fair,dclas", "--seeds", "3"];
    let drawn =
        svg(&place, &[&["sweep"], &workload[..], &["--over", "load=0.5,2", "--show", "speedup"]].concat());
    assert_eq!(drawn.matches("stroke-linejoin").count(), 2, "the baseline is the line at one");
    assert_eq!(drawn.matches("stroke-width=\"1.4\"").count(), 3, "an interval at each place, and the legend");
    assert!(drawn.contains("speedup over fair") && drawn.contains("95 % interval over seeds"));
    let again =
        svg(&place, &[&["sweep"], &workload[..], &["--over", "load=0.5,2", "--show", "speedup"]].concat());
    assert_eq!(drawn, again);
}

#[test]
fn a_parameter_is_swept_where_a_policy_has_it_and_its_points_are_those_of_compare() {
    let place = Place::with_trace();
    let drawn = svg(
        &place,
        &["sweep", "trace.txt", "--policies", "fair,dclas", "--over", "first_threshold=1MB,100MB"],
    );
    for threshold in ["1MB", "100MB"] {
        let policy = format!("dclas:first_threshold={threshold}");
        let ran = place.run(&["compare", "trace.txt", "--json", "--policies", "fair", "--policy", &policy]);
        let json: serde_json::Value = serde_json::from_str(&ran.out).unwrap();
        let runs = json["runs"].as_array().unwrap();
        let run = runs.iter().find(|run| run["policy"] == "dclas").unwrap_or_else(|| panic!("{}", ran.out));
        let mean = run["cct"]["mean_s"].as_f64().unwrap();
        let shown = format!("dclas, first threshold (log scale) {threshold}: {:.0} ms<", 1e3 * mean);
        assert!(drawn.contains(&shown), "{shown} in {drawn}");
    }
}

#[test]
fn two_runs_of_one_trace_are_set_against_each_other_whatever_their_conditions() {
    let place = Place::with_trace();
    for (folder, rate) in [("slow", "1Gbps"), ("fast", "2Gbps")] {
        let ran = place.run(&["simulate", "trace.txt", "--policy", "fair", "--rate", rate, "--out", folder]);
        assert_eq!(ran.code, 0, "{}", ran.err);
    }
    let drawn = svg(&place, &["ab", "slow", "fast"]);
    assert!(drawn.contains("3 coflows: 3 sooner, 0 later, 0 the same"), "{drawn}");
    assert!(drawn.contains("median 2.00×") && drawn.contains("fast against slow"), "{drawn}");
    let drawn = svg(&place, &["ab", "trace.txt", "--policies", "fair,sebf"]);
    assert!(drawn.contains("sebf against fair") && drawn.contains(" the same (0.1 %)"), "{drawn}");
    place.write("other.txt", "2 1\n1 0 1 0 1 1:10\n");
    let ran = place.run(&["simulate", "other.txt", "--policy", "fair", "--out", "other"]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    let ran = place.run(&["report", "figure", "ab", "slow", "other", "-o", "none.svg"]);
    assert!(ran.code == 3 && ran.err.contains("not runs of one trace"), "{}", ran.err);
}

#[test]
fn figures_that_cannot_be_drawn_say_what_can() {
    let place = Place::with_trace();
    for (arguments, code, says) in [
        (&["tasks", "trace.txt", "--policies", "fair"][..], 2, "draw cdf"),
        (&["gain", "trace.txt", "--policies", "fair"], 2, "--policies fair,dclas"),
        (&["ab", "trace.txt", "--policies", "fair,sebf,dclas"], 2, "ab compares two policies"),
        (&["sweep", "trace.txt", "--policies", "fair"], 2, "--over rate=1Gbps,10Gbps"),
        (&["sweep", "trace.txt", "--over", "rate=1Gbps,2Gbps"], 2, "a line for each policy"),
        (&["sweep", "trace.txt", "--policies", "fair,dclas", "--over", "first=1,2"], 2, "first_threshold"),
        (&["sweep", "trace.txt", "--policies", "fair", "--over", "rate=1Gbps,fast"], 2, "rate=fast"),
        (&["sweep", "trace.txt", "--policies", "fair", "--over", "rate=1Gbps"], 2, "two values or more"),
        (&["sweep", "trace.txt", "--policies", "dclas:queues=4", "--over", "queues=2,4"], 2, "leave it out"),
        (&["cdf", "trace.txt", "--over", "rate=1Gbps,2Gbps"], 2, "draw sweep"),
        (&["cdf", "trace.txt", "--seeds", "3"], 2, "draw sweep"),
        (&["sweep", "trace.txt", "--seeds", "3", "--over", "load=1,2"], 2, "--generate facebook"),
        (&["sweep", "trace.txt", "--policies", "pias", "--over", "load=50,60"], 2, "a parameter of pias"),
        (
            &["sweep", "trace.txt", "--policies", "fair", "--over", "rate=1Gbps,2Gbps", "--show", "speedup"],
            2,
            "two policies or more",
        ),
        (
            &["sweep", "trace.txt", "--policies", "fair", "--over", "rate=1Gbps,2Gbps", "--rate", "1Gbps"],
            2,
            "leave --rate out",
        ),
        (
            &[
                "sweep",
                "trace.txt",
                "--policies",
                "fair",
                "--over",
                "rate=1Gbps,2Gbps",
                "--fabric",
                "leafspine:leaves=2,spines=1,hosts=2,rate=1Gbps",
            ],
            2,
            "leave the rate out of the fabric",
        ),
        (&["classes", "trace.txt"], 2, "name some"),
        (&["classes", "trace.txt", "--policies", "baraat"], 2, "decides at links"),
        (&["cdf"], 2, "TRACE"),
    ] {
        let ran = place.run(&[&["report", "figure"], arguments, &["-o", "none.svg"]].concat());
        assert!(ran.code == code && ran.err.contains(says), "{arguments:?}: {} {}", ran.code, ran.err);
        assert!(!place.path("none.svg").exists());
    }
}

#[test]
fn every_figure_of_a_comparison_is_drawn_in_both_widths() {
    let place = Place::with_trace();
    place.write("staged.jsonl", STAGED);
    for kind in ["cdf", "gain", "bins", "timeline", "queueing"] {
        for width in ["column", "page"] {
            let drawn = svg(&place, &[kind, "trace.txt", "--policies", "fair,sebf,dclas", "--width", width]);
            for policy in ["fair", "sebf", "dclas"] {
                assert!(drawn.contains(&format!("aria-label=\"{policy}\"")), "{kind} {width}: {policy}");
            }
        }
    }
    let drawn = svg(&place, &["classes", "trace.txt", "--policies", "fair,dclas:queues=2"]);
    assert!(
        drawn.contains("class, 0 goes first") && drawn.contains("aria-label=\"dclas:queues=2\""),
        "{drawn}"
    );
    let drawn = svg(&place, &["classes", "trace.txt", "--policies", "all"]);
    assert!(!drawn.contains("baraat"), "it has none of a flow");
    let drawn = svg(&place, &["tasks", "staged.jsonl", "--policies", "fair,sebf"]);
    assert_eq!(drawn.matches("stroke-linejoin").count(), 4, "two lines and the legend");
    assert!(drawn.contains("TCT (log scale), further left is better") && drawn.contains("share of tasks"));
}
