//! Comparisons that are kept: tables of all runs, and a folder for each that replays and validates.

#![allow(clippy::unwrap_used, reason = "a test whose scene cannot be set has failed")]

mod support;

use support::{Place, Ran, names};

/// The tables of a comparison.
const TABLES: [&str; 6] =
    ["coflows.csv", "coflows.parquet", "runs.csv", "runs.parquet", "tasks.csv", "tasks.parquet"];

fn done(place: &Place, arguments: &[&str]) -> Ran {
    let ran = place.run(arguments);
    assert_eq!(ran.code, 0, "{arguments:?}: {}", ran.err);
    ran
}

#[test]
fn each_run_of_a_kept_comparison_replays_and_validates() {
    let place = Place::with_trace();
    let policies = "fair,dclas:queues=3,factor=2,varys";
    done(&place, &["compare", "trace.txt", "--policies", policies, "--out", "out", "--dump-schedule"]);
    let mut expected: Vec<&str> = TABLES.to_vec();
    expected.insert(2, "runs");
    assert_eq!(names(&place.path("out")), expected);
    let runs = ["dclas-queues=3-factor=2", "fair", "varys"];
    assert_eq!(names(&place.path("out/runs")), runs);
    for run in runs {
        let folder = format!("out/runs/{run}");
        assert!(done(&place, &["replay", &folder]).out.contains("bit for bit"));
        assert!(done(&place, &["validate", &folder]).out.contains("segments are valid"));
    }
    // It is what 'simulate' keeps of the same run, byte for byte.
    done(&place, &["simulate", "trace.txt", "--policy", "varys", "--out", "alone", "--dump-schedule"]);
    for name in names(&place.path("alone")) {
        let both = [format!("alone/{name}"), format!("out/runs/varys/{name}")].map(|name| place.read(&name));
        assert_eq!(both[0], both[1], "{name}");
    }
}

#[test]
fn the_table_of_runs_says_in_which_folder_each_is() {
    let place = Place::with_trace();
    let compare =
        ["compare", "trace.txt", "--policies", "fair,sebf", "--engine", "fluid,control", "-o", "out"];
    done(&place, &compare);
    let text = String::from_utf8(place.read("out/runs.csv")).unwrap();
    let rows: Vec<Vec<&str>> = text.lines().map(|line| line.split(',').take(4).collect()).collect();
    assert_eq!(rows[0], ["run", "policy", "folder", "cct_mean_s"]);
    let first: Vec<[&str; 3]> = rows[1..].iter().map(|row| [row[0], row[1], row[2]]).collect();
    assert_eq!(
        first,
        [
            ["fair", "fair", "runs/fair"],
            ["fair/control", "fair", "runs/fair-control"],
            ["sebf", "sebf", "runs/sebf"],
            ["sebf/control", "sebf", "runs/sebf-control"],
        ]
    );
    done(&place, &["replay", "out/runs/sebf-control"]);
}

#[test]
fn a_comparison_without_schedules_keeps_none_and_packets_have_none() {
    let place = Place::with_trace();
    done(&place, &["compare", "trace.txt", "--policies", "fair,over pfabric", "-o", "out", "--no-bound"]);
    let ran = place.run(&["validate", "out/runs/fair"]);
    assert!(ran.code == 3 && ran.err.contains("--dump-schedule"), "{}", ran.err);
    done(&place, &["replay", "out/runs/over-pfabric"]);
    let compare =
        ["compare", "trace.txt", "--policies", "fair,over pfabric", "-o", "more", "--dump-schedule"];
    let ran = place.run(&compare);
    assert!(ran.code == 2 && ran.err.contains("only the fluid engine has rates"), "{}", ran.err);
    assert_eq!(place.names(), ["out", "trace.txt"]);
}

#[test]
fn a_run_that_fails_leaves_nothing_of_the_comparison() {
    let place = Place::new();
    place.write("large.txt", "1 0 1 1152921505 0\n");
    let ran = place.run(&["compare", "large.txt", "--policies", "fair,sebf", "--rate", "1bps", "-o", "out"]);
    assert_eq!((ran.code, place.names()), (3, vec!["large.txt".to_owned()]), "{}", ran.err);
}

#[cfg(target_os = "linux")]
#[test]
fn an_interrupted_comparison_keeps_the_runs_that_are_done() {
    use std::process::{Command, Stdio};
    let place = Place::new();
    // Arrivals at eight times the capacity. Fair sharing is soon done; Sincronia sorts all again at
    // each arrival: minutes.
    let flows: String = (0..4_000).map(|flow| format!("{flow} 0 1 1000 {}\n", 1000 * flow)).collect();
    place.write("flows.txt", flows);
    let compare = ["compare", "flows.txt", "--policies", "fair,sincronia", "--no-bound", "--out", "out"];
    let mut child =
        place.command().args(compare).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let is_kept = |name: &String| place.path(name).join("runs/fair/manifest.json").exists();
    while !place.names().iter().any(is_kept) {
        assert_eq!(child.try_wait().unwrap(), None, "it waits for sincronia");
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    let pid = child.id().to_string();
    assert!(Command::new("kill").args(["-INT", &pid]).status().unwrap().success());
    let output = child.wait_with_output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(130), "{said}");
    assert!(said.contains("interrupted: 1 of 2 runs are in out, without sincronia"), "{said}");
    assert_eq!(place.names(), ["flows.txt", "out"]);
    assert_eq!(names(&place.path("out/runs")), ["fair"]);
    assert_eq!(place.read("out/missing.txt"), b"sincronia\n");
    assert!(TABLES.iter().all(|table| place.path("out").join(table).exists()));
    done(&place, &["replay", "out/runs/fair"]);
}
