//! Schedules that were made elsewhere: checked by the validator, and compared with ours.

#![allow(clippy::unwrap_used, reason = "a test whose scene cannot be set has failed")]

mod support;

use serde_json::{Value, json};
use support::{Place, Ran, TRACE};

fn done(place: &Place, arguments: &[&str]) -> Ran {
    let ran = place.run(arguments);
    assert_eq!(ran.code, 0, "{arguments:?}: {}", ran.err);
    ran
}

/// The trace and the schedule of the page's example.
fn example() -> Place {
    let page = include_str!("../../../../docs/formats.md");
    let section = page.split("## Schedules made elsewhere").nth(1).unwrap();
    let block = |fence: &str| {
        let rest = section.split_once(&format!("```{fence}\n")).expect(fence).1;
        rest.split_once("```").unwrap().0.to_owned()
    };
    let place = Place::new();
    place.write("trace.txt", block("text flows"));
    place.write("theirs.csv", block("csv"));
    place
}

fn run_named<'a>(document: &'a Value, policy: &str) -> &'a Value {
    let runs = document["runs"].as_array().unwrap();
    runs.iter().find(|run| run["policy"] == policy).unwrap()
}

#[test]
fn the_example_of_the_page_is_valid_and_comes_to_what_the_page_says() {
    let place = example();
    let ran = done(&place, &["validate", "--schedule", "theirs.csv", "--trace", "trace.txt"]);
    assert!(ran.out.starts_with("5 segments are valid: capacity kept (busiest link 100.0 %)"), "{}", ran.out);
    assert!(ran.out.contains("theirs (schedule)"), "{}", ran.out);
    let ran = done(&place, &["validate", "--schedule", "theirs.csv", "--trace", "trace.txt", "--json"]);
    let document: Value = serde_json::from_str(&ran.out).unwrap();
    // The backup ends at 16 ms; the lookup arrives at 4 ms and ends at 8 ms.
    assert_eq!(document["figures"]["cct"]["mean_s"], 0.010);
    assert_eq!(document["figures"]["cct"]["p95_s"], 0.016);
    assert_eq!(document["figures"]["makespan_s"], 0.016);
    assert_eq!((&document["valid"], &document["segments"]), (&true.into(), &5.into()));
}

#[test]
fn hosts_are_called_by_their_names_where_the_trace_has_them() {
    let place = Place::new();
    place.write("trace.csv", "src,dst,bytes,start_s,coflow\nweb,db,1000000,0,a\ndb,web,500000,0,a\n");
    place.write(
        "theirs.csv",
        "coflow,src,dst,start_ms,end_ms,bytes\na,web,db,0,8,1000000\na,db,web,0,4,500000\n",
    );
    let ran = done(&place, &["validate", "--schedule", "theirs.csv", "--trace", "trace.csv"]);
    assert!(ran.out.starts_with("2 segments are valid"), "{}", ran.out);
    place.write("wrong.csv", "coflow,src,dst,start_ms,end_ms,bytes\na,web,app,0,8,1000000\n");
    let ran = place.run(&["validate", "--schedule", "wrong.csv", "--trace", "trace.csv"]);
    assert!(ran.code != 0 && ran.err.contains("wrong.csv:2: 'app' is not a port"), "{}", ran.err);
}

#[test]
fn a_fault_has_its_line_whatever_ends_lines_and_stands_between_them() {
    let place = example();
    let text = "# made by hand\n\nflow,start_s,end_s,rate_bps\n0,0,1,1\n# a note\n\n0,1,x,1\n";
    for (name, text) in [("lf.csv", text.to_owned()), ("crlf.csv", text.replace('\n', "\r\n"))] {
        place.write(name, text);
        let ran = place.run(&["validate", "--schedule", name, "--trace", "trace.txt"]);
        assert!(ran.code != 0 && ran.err.contains(&format!("{name}:7: the time 'x'")), "{}", ran.err);
    }
}

#[test]
fn a_schedule_is_a_row_beside_policies_with_the_bound_and_claims() {
    let place = example();
    let compare = ["compare", "trace.txt", "--policies", "fair,sebf", "--schedule", "theirs=theirs.csv"];
    let ran = done(&place, &[&compare[..], &["--assert", "theirs: mean(cct) <= 10ms"]].concat());
    assert!(ran.out.contains("theirs (schedule)  ") && ran.out.contains("gap"), "{}", ran.out);
    assert!(ran.out.contains("(schedule): made elsewhere and read from a file"), "{}", ran.out);
    let ran = done(&place, &[&compare[..], &["--json", "--report", "report.html", "--out", "out"]].concat());
    let document: Value = serde_json::from_str(&ran.out).unwrap();
    // Fair sharing gives the lookup half of its link: it takes 8 ms, and the backup 16.
    assert_eq!(run_named(&document, "fair")["cct"]["mean_s"], 0.012);
    assert_eq!(run_named(&document, "theirs")["cct"]["mean_s"], 0.010);
    assert!(run_named(&document, "theirs")["told_sizes"].is_null(), "only its maker knows");
    assert_eq!(run_named(&document, "theirs")["params"]["schedule"], "theirs.csv");
    assert!(String::from_utf8(place.read("report.html")).unwrap().contains("made elsewhere"));
    let table = String::from_utf8(place.read("out/runs.csv")).unwrap();
    assert!(table.contains("\ntheirs,theirs,,0.01,"), "{table}");
    let ran = place.run(&[&compare[..], &["--assert", "theirs: mean(cct) < 10ms"]].concat());
    assert_eq!(ran.code, 4, "{}", ran.err);
}

#[test]
fn what_a_run_dumps_is_a_schedule_and_gives_its_figures_again() {
    let place = Place::with_trace();
    for policy in ["fair", "sebf"] {
        let arguments = ["simulate", "trace.txt", "--policy", policy, "--out", policy, "--dump-schedule"];
        done(&place, &arguments);
    }
    let fair = "again=fair/schedule.csv";
    let sebf = "other=sebf/schedule.csv";
    let policies = ["compare", "trace.txt", "--policies", "fair,sebf", "--json"];
    let ran = done(&place, &[&policies[..], &["--schedule", fair, "--schedule", sebf]].concat());
    let document: Value = serde_json::from_str(&ran.out).unwrap();
    for (policy, schedule) in [("fair", "again"), ("sebf", "other")] {
        let [ours, again] = [policy, schedule].map(|name| {
            let run = run_named(&document, name);
            [&run["cct"]["mean_s"], &run["cct"]["max_s"], &run["makespan_s"]]
                .map(|time| time.as_f64().unwrap())
        });
        // An engine may round up to the next nanosecond what is the noise of its own sums.
        assert!(
            ours.iter().zip(again).all(|(ours, again)| (ours - again).abs() < 2e-9),
            "{ours:?} {again:?}"
        );
    }
}

#[test]
fn stages_and_computation_are_kept_in_order() {
    let place = Place::new();
    place.write(
        "tasks.jsonl",
        concat!(
            "{\"cavalcade_trace\":1,\"ports\":2}\n",
            "{\"name\":\"query\",\"arrival_ns\":5000000000,\"stages\":[{\"flows\":[[0,1,125000000]]},",
            "{\"compute_ns\":1000000000,\"starts_after\":[0]},",
            "{\"flows\":[[0,1,125000000]],\"starts_after\":[1]}]}\n",
        ),
    );
    let schedule = |second: &str| format!("coflow,start_s,end_s,bytes\nquery.0,5,6,125000000\n{second}\n");
    place.write("good.csv", schedule("query.2,7,8.0,125000000"));
    let validate =
        |file: &str| place.run(&["validate", "--schedule", file, "--trace", "tasks.jsonl", "--json"]);
    let ran = validate("good.csv");
    assert_eq!(ran.code, 0, "{}", ran.err);
    let document: Value = serde_json::from_str(&ran.out).unwrap();
    assert_eq!(document["figures"]["tct"]["mean_s"], 3.0);
    // A second early: before the computation is done.
    place.write("early.csv", schedule("query.2,6,7,125000000"));
    let ran = validate("early.csv");
    assert!(
        ran.code == 4
            && ran.err.contains("arrives only at 2000000000 ns (line 3; query.2; port 0 to port 1)"),
        "{}",
        ran.err
    );
    assert!(ran.err.contains("count from the first arrival, 5000000000 ns"), "{}", ran.err);
}

#[test]
fn units_quotes_separators_and_exponents_are_read() {
    let place = example();
    let mean = |text: &str| -> f64 {
        place.write("other.csv", text);
        let arguments = ["validate", "--schedule", "other.csv", "--trace", "trace.txt", "--json"];
        let document: Value = serde_json::from_str(&done(&place, &arguments).out).unwrap();
        document["figures"]["cct"]["mean_s"].as_f64().unwrap()
    };
    let numbered = "\
        # from another program\r\n\
        Flow;rate_bps;from_us;to_us;why\r\n\
        0;5e8;0;4000;\"first; both\"\r\n\
        1;500000000;0;4e3;\r\n\
        2;1e9;4000;8000.000;\r\n\
        1;1e9;4000;10000;\r\n\
        0;1e9;1e4;1.6e4;\r\n";
    assert_eq!(mean(numbered), 0.010);
    let bytes = "\u{feff}flow,start_s,end_s,bytes\n0,0,0.004,250000\n1,0,0.004,250000\n2,4e-3,8e-3,500000\n\
                 1,.004,.01,750000\n0,0.01,0.016,750000\n";
    assert_eq!(mean(bytes), 0.010);
}

/// Schedules of the page's example that are not valid.
const BROKEN: &[(&str, &str, &str)] = &[
    ("too fast", "lookup,0,1,4,8,1\n", "lookup,0,1,4,8,2\n"),
    ("a link that carries too much", "backup,0,2,10,16,1\n", "backup,0,2,9,15,1\n"),
    ("before its arrival", "lookup,0,1,4,8,1\n", "lookup,0,1,3.5,7.5,1\n"),
    ("not whole", "backup,0,2,10,16,1\n", "backup,0,2,10,15,1\n"),
    ("twice at once", "backup,0,2,10,16,1\n", "backup,0,2,10,16,0.5\nbackup,0,2,10,16,0.5\n"),
];

/// Files that are no schedules of it.
const NOT_READ: &[(&str, &str)] = &[
    ("empty", ""),
    ("a header alone", "flow,start_s,end_s,rate_bps\n"),
    ("no flow", "start_s,end_s,rate_bps\n0,1,8\n"),
    ("no unit", "flow,start,end,rate\n0,0,1,8\n"),
    ("too few fields", "flow,start_s,end_s,rate_bps\n0,0,1\n"),
    ("a flow that is not there", "flow,start_s,end_s,rate_bps\n3,0,1,8\n"),
    ("a coflow that is not there", "coflow,src,dst,start_s,end_s,rate_bps\nbakup,0,2,0,1,8\n"),
    ("a flow between other ports", "coflow,src,dst,start_s,end_s,rate_bps\nbackup,2,0,0,1,8\n"),
    ("ports are missing", "coflow,start_s,end_s,rate_bps\nbackup,0,1,8\n"),
    ("a time that is none", "flow,start_s,end_s,rate_bps\n0,soon,1,8\n"),
    ("a negative rate", "flow,start_s,end_s,rate_bps\n0,0,1,-8\n"),
    ("backwards", "flow,start_s,end_s,rate_bps\n0,2,1,8\n"),
    ("bytes in no time", "flow,start_s,end_s,bytes\n0,1,1,8\n"),
    ("a dumped schedule that was cut", "#cavalcade-schedule 1\nflow,from_ns,to_ns,rate_bps\n0,0,1,8\n"),
];

#[test]
fn a_schedule_that_is_not_valid_is_refused_with_its_lines() {
    let place = example();
    let good = String::from_utf8(place.read("theirs.csv")).unwrap();
    let mut messages = String::new();
    for (what, line, instead) in BROKEN {
        let broken = good.replace(line, instead);
        assert_ne!(broken, good, "{what}");
        place.write("broken.csv", broken);
        for command in [
            &["validate", "--schedule", "broken.csv", "--trace", "trace.txt"][..],
            &["compare", "trace.txt", "--policies", "fair", "--schedule", "theirs=broken.csv", "-o", "out"],
        ] {
            let ran = place.run(command);
            assert_eq!((ran.code, ran.out.as_str()), (4, ""), "{what}: {}", ran.err);
            assert!(!place.path("out").exists());
            if command[0] == "validate" {
                messages += &format!("# {what}\n{}\n", ran.err);
            }
        }
    }
    for (what, text) in NOT_READ {
        place.write("broken.csv", text);
        let ran = place.run(&["validate", "--schedule", "broken.csv", "--trace", "trace.txt"]);
        assert_eq!((ran.code, ran.out.as_str()), (3, ""), "{what}: {}", ran.err);
        messages += &format!("# {what}\n{}\n", ran.err);
    }
    support::golden("bad_schedules.txt", &messages);
}

/// The page's example with three faults: a backup in a single piece that is too short, a lookup
/// before it arrives, and a link that both of them are too much for.
const THREE_FAULTS: &str = "\
    coflow,src,dst,start_ms,end_ms,rate_gbps\n\
    backup,0,2,0,7,1\n\
    backup,1,2,7,15,1\n\
    lookup,0,1,3,7,1\n";

#[test]
fn a_schedule_with_three_faults_names_all_three_with_their_places() {
    let place = example();
    place.write("broken.csv", THREE_FAULTS);
    let validate = ["validate", "--schedule", "broken.csv", "--trace", "trace.txt"];
    let ran = place.run(&validate);
    assert_eq!((ran.code, ran.out.as_str()), (4, ""), "{}", ran.err);
    for part in [
        "broken.csv: 3 things are wrong",
        "is sent 875000 bytes; it has 1000000",
        "(line 2; backup; port 0 to port 2)",
        "but arrives only at 4000000 ns (line 4; lookup; port 0 to port 1)",
        "ingress of port 0 carries 2000000000 bps between 3000000 ns and 7000000 ns",
    ] {
        assert!(ran.err.contains(part), "{part}: {}", ran.err);
    }
    let ran = place.run(&[&validate[..], &["--json"]].concat());
    assert_eq!(ran.code, 4, "{}", ran.err);
    let document: Value = serde_json::from_str(&ran.out).unwrap();
    let all = document["violations"].as_array().unwrap();
    let of = |key: &str| all.iter().map(|one| one[key].clone()).collect::<Vec<_>>();
    assert_eq!((&document["valid"], &document["more"]), (&false.into(), &0.into()));
    assert_eq!(of("kind"), ["bytes", "before_release", "overload"]);
    assert_eq!(of("lines"), [json!([2]), json!([4]), json!([2, 4])]);
    assert_eq!(of("from_ns"), [Value::Null, json!(3e6), json!(3e6)]);
    assert_eq!(of("link"), [Value::Null, Value::Null, json!("ingress of port 0")]);
    assert_eq!(all[1]["flows"], json!([{"flow": 2, "coflow": "lookup", "src": "port 0", "dst": "port 1"}]));
}

#[test]
fn of_many_faults_the_first_are_listed_and_the_others_counted() {
    let place = example();
    let flows: String = (0..30).map(|flow| format!("{flow} 0 1 1000 0\n")).collect();
    place.write("trace.txt", flows);
    // Every flow has one byte too few.
    let row = |flow: u64| format!("{flow},{},{},999\n", flow * 8_000, (flow + 1) * 8_000);
    place
        .write("broken.csv", format!("flow,start_ns,end_ns,bytes\n{}", (0..30).map(row).collect::<String>()));
    let ran = place.run(&["validate", "--schedule", "broken.csv", "--trace", "trace.txt", "--json"]);
    let document: Value = serde_json::from_str(&ran.out).unwrap();
    assert_eq!((document["violations"].as_array().unwrap().len(), &document["more"]), (20, &10.into()));
    assert!(ran.err.contains("30 things are wrong") && ran.err.contains("- and 10 more"), "{}", ran.err);
}

#[test]
fn a_schedule_is_checked_for_the_conditions_that_are_given() {
    let place = example();
    let validate = ["validate", "--schedule", "theirs.csv", "--trace", "trace.txt"];
    let ran = place.run(&[&validate[..], &["--rate", "900Mbps"]].concat());
    assert!(ran.code == 4 && ran.err.contains("but has 900000000 bps"), "{}", ran.err);
    done(&place, &[&validate[..], &["--fabric", "leafspine:leaves=1,spines=1,hosts=3"]].concat());
    // All at time zero: the lookup may then begin at once, and takes 8 ms.
    let ran = done(&place, &[&validate[..], &["--offline", "--json"]].concat());
    let document: Value = serde_json::from_str(&ran.out).unwrap();
    assert_eq!(document["figures"]["cct"]["mean_s"], 0.012);
}

#[test]
fn slips_around_schedules_say_what_to_write() {
    let place = Place::new();
    place.write("trace.txt", TRACE);
    for (arguments, part) in [
        (&["compare", "trace.txt", "--schedule", "theirs.csv"][..], "expected NAME=FILE"),
        (
            &["compare", "trace.txt", "--policies", "fair", "--schedule", "fair=a.csv"],
            "another row has this name",
        ),
        (&["validate", "--schedule", "a.csv"], "--trace"),
        (&["validate"], "<PATH>"),
    ] {
        let ran = place.run(arguments);
        assert!(ran.code == 2 && ran.err.contains(part), "{arguments:?}: {}", ran.err);
    }
    let ran = place.run(&["compare", "trace.txt", "--schedule", "theirs=missing.csv"]);
    assert!(ran.code == 3 && ran.err.contains("cannot read missing.csv"), "{}", ran.err);
}
