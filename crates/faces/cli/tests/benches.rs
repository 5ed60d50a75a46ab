//! Benchmarks that need root, in a moment: what they print has its shape. What it says is the
//! machine's.

#![allow(clippy::unwrap_used, reason = "a helper of tests fails by panicking")]

mod support;

use std::process::Command;

use cavalcade_testing::skipped;
use serde_json::Value;
use support::Place;

/// Tells whether this machine lets this user make network namespaces.
fn can_make_namespaces() -> bool {
    let can = Command::new("unshare").args(["--net", "ip", "link", "set", "lo", "up"]).output();
    let can = can.is_ok_and(|output| output.status.success());
    if !can {
        skipped("network namespaces (root, iproute2)");
    }
    can
}

/// What a benchmark prints as JSON.
fn measured(arguments: &[&str]) -> Value {
    let ran = Place::new().run(&[&["bench"], arguments, &["--json"]].concat());
    assert_eq!(ran.code, 0, "{}", ran.err);
    serde_json::from_str(&ran.out).unwrap()
}

/// The number at a place such as "/site/large/bps".
fn number(of: &Value, at: &str) -> f64 {
    of.pointer(at).and_then(Value::as_f64).unwrap_or_else(|| panic!("no number at {at}: {of:#}"))
}

fn list<'a>(of: &'a Value, at: &str) -> &'a Vec<Value> {
    of.pointer(at).and_then(Value::as_array).unwrap_or_else(|| panic!("no list at {at}: {of:#}"))
}

#[test]
fn the_benchmark_of_the_kernel_path_prints_every_figure_of_a_connection_and_of_a_site() {
    if let Some(reason) = cavalcade_enforce::missing() {
        return skipped(format_args!("programs for the kernel ({reason})"));
    }
    if !can_make_namespaces() {
        return;
    }
    let figures = measured(&["enforce", "--part", "20"]);
    for programs in ["/programs", "/sorting/programs"] {
        let names: Vec<&Value> = list(&figures, programs).iter().map(|program| &program["program"]).collect();
        assert_eq!(names, ["gate", "connections", "refresh"]);
        for (at, _) in names.iter().enumerate() {
            let of_program = |field: &str| number(&figures, &format!("{programs}/{at}/{field}"));
            // On a busy machine nothing may have been sent while it was counted.
            assert!(of_program("verified") > 0.0 && of_program("runs") >= 0.0 && of_program("nanos") >= 0.0);
        }
    }
    for rate in ["/unlimited_bps", "/packet_nanos", "/sorting/packet_nanos"] {
        assert!(number(&figures, rate) >= 0.0, "{rate}");
    }
    let asked: Vec<f64> = list(&figures, "/paces").iter().map(|pace| number(pace, "/asked_bps")).collect();
    assert_eq!(asked, [1e6, 5e6, 50e6, 500e6, 2e9, 10e9]);
    assert!(list(&figures, "/paces").iter().all(|pace| number(pace, "/reached_bps") >= 0.0));
    assert_eq!((list(&figures, "/off_ms").len(), list(&figures, "/on_ms").len()), (5, 5));
    for load in ["/site/large", "/site/short"] {
        for figure in ["bps", "flows_a_second"] {
            assert!(number(&figures, &format!("{load}/{figure}")) >= 0.0, "{load} {figure}");
        }
        // In so short a time they may have taken none that is counted.
        for share in ["agents", "enforcers"] {
            assert!(number(&figures, &format!("{load}/{share}")) >= 0.0, "{load} {share}");
        }
    }
    let turns = list(&figures, "/site/turns");
    let periods: Vec<f64> = turns.iter().map(|turns| number(turns, "/period_ms")).collect();
    assert_eq!(periods, [10.0, 1.0]);
    assert!(turns.iter().all(|turns| turns["end_to_next_ms"].is_array()));
    assert!(turns.iter().all(|turns| turns["decision_to_wire_ms"].is_array()));
}

#[test]
fn the_benchmark_of_a_switch_prints_a_run_of_each_forwarder_and_content_and_what_is_carried_without_loss() {
    if !can_make_namespaces() {
        return;
    }
    let load = ["--offered", "1Mbps", "--time", "200ms", "--ports", "2", "--packet", "500"];
    let figures = measured(&[&["switch"], &load[..]].concat());
    let mut kinds = vec![("bridge", "plain"), ("process", "plain"), ("process", "spc")];
    if cavalcade_switch::kernel::missing().is_none() {
        kinds.extend([("xdp", "plain"), ("xdp", "spc")]);
    }
    let of = |runs: &str| -> Vec<(String, String)> {
        let text = |run: &Value, field: &str| run[field].as_str().unwrap().to_owned();
        list(&figures, runs).iter().map(|run| (text(run, "forwarder"), text(run, "content"))).collect()
    };
    let all: Vec<(String, String)> =
        kinds.iter().map(|(one, other)| ((*one).into(), (*other).into())).collect();
    assert_eq!(of("/runs"), all);
    assert!(of("/without_loss").iter().all(|run| all.contains(run)));
    assert_eq!((number(&figures, "/ports"), number(&figures, "/packet_bytes")), (2.0, 500.0));
}

#[test]
fn the_benchmark_of_a_coordinator_counts_full_rounds_in_which_each_agent_reports_and_gets_its_orders() {
    let figures = measured(&["coordinator", "--agents", "40", "--connections", "4", "--rounds", "5"]);
    assert_eq!(list(&figures, "/measured/rounds_ns").len(), 5, "{figures:#}");
    let sent = |way: &str| number(&figures, &format!("/measured/bytes_{way}"));
    // Forty agents, five rounds: a frame of each way has more than four bytes.
    assert!(sent("up") > 40.0 * 5.0 * 4.0 && sent("down") > 40.0 * 5.0 * 4.0, "{figures:#}");
    assert!(number(&figures, "/coordinator/fillings") >= 5.0, "one in each round: {figures:#}");
}
