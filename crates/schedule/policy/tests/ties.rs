//! Who goes first among equals, for every registered policy: what `docs/formats.md` says of it.

#![allow(clippy::unwrap_used, reason = "a test whose scene cannot be set has failed")]

use std::collections::BTreeMap;

use cavalcade_model::{BitsPerSec, Fabric};
use cavalcade_policy::registry;
use cavalcade_sim_fluid::{Options, simulate};
use cavalcade_trace::{ReadOptions, read};

/// What becomes of two tasks that differ in nothing but the order of their lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Tie {
    FirstLineFirst,
    Share,
}

/// In each format two tasks, `x` and `y`, of 1 MiB from port 0 to port 1 at the same instant, in
/// this order.
fn traces(x: &str, y: &str) -> [String; 5] {
    let [of_x, of_y] = [x, y]
        .map(|name| format!(r#"{{"name":"{name}","arrival_ns":7,"stages":[{{"flows":[[0,1,1048576]]}}]}}"#));
    [
        format!("1 0 1 1048576 7 {x}\n2 0 1 1048576 7 {y}\n"),
        format!("src,dst,bytes,start_ns,coflow\n0,1,1048576,7,{x}\n0,1,1048576,7,{y}\n"),
        format!("2 2\n{x} 7 1 0 1 1:1\n{y} 7 1 0 1 1:1\n"),
        format!("2 2\n{x} 7 1 1 1 0 1 1\n{y} 7 1 1 1 0 1 1\n"),
        format!("{{\"cavalcade_trace\":1,\"ports\":2}}\n{of_x}\n{of_y}\n"),
    ]
}

/// Runs a trace of [`traces`]. Returns what became of the tie, and who ended first.
fn settle(trace: &str, spec: &str) -> (Tie, String) {
    let workload = read(trace.as_bytes(), "ties", &ReadOptions::default()).unwrap().0;
    let fabric = Fabric::big_switch(workload.ports(), BitsPerSec(1_000_000_000)).unwrap();
    let policy = cavalcade_policy::parse(spec).unwrap();
    let outcome = simulate(&workload, &fabric, &policy, &Options::default(), None).expect("the run ends");
    let times: Vec<f64> = outcome.task_finish.iter().map(|finish| finish.as_f64()).collect();
    let early = usize::from(times[1] < times[0]);
    // Alone a task takes 8.4 ms.
    let tie = if (times[1] - times[0]).abs() < 1e6 {
        Tie::Share
    } else {
        assert!((times[1] - times[0]).abs() > 8.3e6, "{spec} neither shares nor serves in turn: {times:?}");
        Tie::FirstLineFirst
    };
    (tie, workload.tasks()[early].name.clone())
}

/// Asserts that a policy settles ties so, whatever the format and the names of the two.
fn assert_settles(spec: &str, expected: Tie) {
    for (x, y) in [("1", "2"), ("2", "1")] {
        for trace in traces(x, y) {
            let (tie, early) = settle(&trace, spec);
            assert_eq!(tie, expected, "{spec}");
            assert!(tie == Tie::Share || early == x, "{spec}: {early} in\n{trace}");
        }
    }
}

/// The table of `docs/formats.md`.
fn documented() -> BTreeMap<String, Tie> {
    let page = include_str!("../../../../docs/formats.md");
    let section = page.split("\n## ").find(|section| section.starts_with("Ties")).unwrap();
    let row = |begins: &str| section.lines().find(|line| line.starts_with(begins)).unwrap().to_owned();
    let names =
        |row: String| -> Vec<String> { row.split('`').skip(1).step_by(2).map(str::to_owned).collect() };
    let first =
        names(row("| the first line goes first |")).into_iter().map(|name| (name, Tie::FirstLineFirst));
    let share = names(row("| they share |")).into_iter().map(|name| (name, Tie::Share));
    first.chain(share).collect()
}

#[test]
fn every_registered_policy_settles_ties_as_the_page_on_formats_says() {
    let documented = documented();
    let registered: Vec<&str> = registry().iter().map(|info| info.name).collect();
    let mut listed: Vec<&str> = documented.keys().map(String::as_str).collect();
    let mut sorted = registered.clone();
    sorted.sort_unstable();
    listed.sort_unstable();
    assert_eq!(listed, sorted, "each policy stands in one row");
    for name in registered {
        assert_settles(name, documented[name]);
    }
}

#[test]
fn coflows_of_one_priority_share_under_max_min_and_go_by_line_otherwise() {
    for policy in ["sebf", "stf", "sincronia", "dcoflow"] {
        for (discipline, tie) in
            [("maxmin", Tie::Share), ("greedy", Tie::FirstLineFirst), ("madd", Tie::FirstLineFirst)]
        {
            // Sincronia gives no two coflows one place.
            let tie = if policy == "sincronia" { Tie::FirstLineFirst } else { tie };
            assert_settles(&format!("{policy}:discipline={discipline}"), tie);
        }
    }
}

#[test]
fn a_deadline_shared_is_a_link_shared_and_a_task_id_is_not() {
    assert_settles("edf:by_size=true", Tie::Share);
    assert_settles("fifo:discipline=greedy", Tie::FirstLineFirst);
    assert_settles("dclas:order=none", Tie::Share);
    assert_settles("tafe:order=flow", Tie::FirstLineFirst);
}

/// What is below D-CAS's threshold goes first in, first out; what is above shares.
#[test]
fn small_coflows_of_dcas_go_by_line() {
    for (x, y) in [("1", "2"), ("2", "1")] {
        let small = traces(x, y)[0].replace("1048576", "999999");
        let workload = read(small.as_bytes(), "ties", &ReadOptions::default()).unwrap().0;
        let fabric = Fabric::big_switch(2, BitsPerSec(1_000_000_000)).unwrap();
        let policy = cavalcade_policy::parse("dcas").unwrap();
        let outcome = simulate(&workload, &fabric, &policy, &Options::default(), None).expect("the run ends");
        assert_eq!(workload.tasks()[0].name, x);
        let times: Vec<u64> = outcome.task_finish.iter().map(|finish| finish.0).collect();
        assert_eq!(times, [7_999_992, 2 * 7_999_992]);
    }
}
