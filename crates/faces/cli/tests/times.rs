//! Times of traces as people have them: Unix time stamps, gaps of days, and more time than there
//! is.

#![allow(clippy::unwrap_used, reason = "a test whose scene cannot be set has failed")]

mod support;

use serde_json::Value;
use support::{Place, names};

/// Three flows with Unix time stamps in nanoseconds: two that contend, and one alone.
const EPOCH: &str =
    "1 0 1 200 1700000000000000000 a\n2 0 1 200 1700000000000000100 b\n3 2 3 64 1700000000000001000 c\n";

/// The columns `names` of a table.
fn columns<const N: usize>(place: &Place, table: &str, names: [&str; N]) -> Vec<[u64; N]> {
    let text = String::from_utf8(place.read(table)).unwrap();
    let header: Vec<&str> = text.lines().next().unwrap().split(',').collect();
    let at = names.map(|name| header.iter().position(|column| *column == name).unwrap());
    let row = |line: &str| at.map(|at| line.split(',').nth(at).unwrap().parse().unwrap());
    text.lines().skip(1).map(row).collect()
}

#[test]
fn unix_time_stamps_give_the_times_that_hand_and_paper_give() {
    // At 1 Gbps 200 bytes take 1600 ns. In turn: the second waits for the first. Fairly: both have
    // 187.5 bytes left when the second has come, and the last 12.5 of one are sent alone.
    for (policy, ccts) in [("fifo", [1600, 3100, 512]), ("fair", [3100, 3100, 512])] {
        let place = Place::new();
        place.write("epoch.txt", EPOCH);
        let run = ["simulate", "epoch.txt", "--policy", policy, "--out", "run", "--dump-schedule"];
        let ran = place.run(&run);
        assert_eq!(ran.code, 0, "{}", ran.err);
        let rows = columns(&place, "run/coflows.csv", ["arrival_ns", "finish_ns", "cct_ns"]);
        let arrivals = [0, 100, 1000].map(|after| 1_700_000_000_000_000_000 + after);
        let expected =
            std::array::from_fn::<_, 3, _>(|nth| [arrivals[nth], arrivals[nth] + ccts[nth], ccts[nth]]);
        assert_eq!(rows, expected, "{policy}");
        for command in ["validate", "replay"] {
            let ran = place.run(&[command, "run"]);
            assert_eq!(ran.code, 0, "{policy} {command}: {}", ran.err);
        }
        let schedule = String::from_utf8(place.read("run/schedule.csv")).unwrap();
        assert!(schedule.contains("\n2,1700000000000001000,1700000000000001512,1000000000\n"), "{schedule}");
    }
}

#[test]
fn a_gap_of_six_days_ends_no_comparison() {
    let place = Place::new();
    place.write("gap.txt", "1 0 1 125000000 0 a\n2 0 1 125000000 518400000000000 b\n");
    let ran = place.run(&["compare", "gap.txt", "--json"]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    let comparison: Value = serde_json::from_str(&ran.out).unwrap();
    let runs = comparison["runs"].as_array().unwrap();
    assert!(runs.len() > 5, "{}", runs.len());
    for run in runs {
        assert_eq!(run["cct"]["mean_s"], 1.0, "{}", run["label"]);
    }
}

#[test]
fn the_control_plane_skips_a_day_and_a_unix_time_stamp() {
    let place = Place::new();
    place.write("soon.txt", "1 0 1 1000000 0 a\n2 0 1 1000000 60000000000 b\n");
    place.write("day.txt", "1 0 1 1000000 0 a\n2 0 1 1000000 86400000000000 b\n");
    place.write("unix.txt", "1 0 1 1000000 1700000000000000000 a\n2 0 1 1000000 1700000060000000000 b\n");
    let means = ["soon.txt", "day.txt", "unix.txt"].map(|trace| {
        let engine = ["compare", trace, "--engine", "control", "--policies", "sebf,dcas,learn", "--json"];
        let ran = place.run(&engine);
        assert_eq!(ran.code, 0, "{}", ran.err);
        let comparison: Value = serde_json::from_str(&ran.out).unwrap();
        comparison["runs"].as_array().unwrap().iter().map(|run| run["cct"].clone()).collect::<Vec<_>>()
    });
    assert_eq!(means[0], means[1]);
    assert_eq!(means[0], means[2]);
}

#[test]
fn more_than_there_is_of_time_is_refused_and_nothing_is_written() {
    let place = Place::new();
    place.write("large.txt", "1 0 1 1152921505 0\n");
    for command in [&["compare"][..], &["simulate", "--policy", "fair"]] {
        let ran = place.run(&[command, &["large.txt", "--out", "run", "--rate", "1bps"]].concat());
        assert_eq!(ran.code, 3, "{}", ran.err);
        assert!(ran.err.contains("needs more than 2^63 ns (292 years)"), "{}", ran.err);
        assert_eq!(names(&place.path("")), ["large.txt"]);
    }
    // What fits is written.
    place.write("fits.txt", "1 0 1 1152921504 0\n");
    let ran = place.run(&[
        "compare",
        "fits.txt",
        "--rate",
        "1bps",
        "--policies",
        "fair,dcas,learn",
        "--out",
        "run",
    ]);
    assert_eq!(ran.code, 0, "{}", ran.err);
}

#[test]
fn a_flow_of_months_is_no_work() {
    let place = Place::new();
    place.write("long.txt", "1 0 1 1000000000000 0 a\n2 2 3 1000000000000 0 b\n");
    let ran = place.run(&["compare", "long.txt", "--rate", "1Mbps", "--json"]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    let comparison: Value = serde_json::from_str(&ran.out).unwrap();
    for run in comparison["runs"].as_array().unwrap() {
        assert_eq!(run["cct"]["mean_s"], 8_000_000.0, "{}", run["label"]);
    }
}
