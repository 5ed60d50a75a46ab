//! Runs that are kept: what is in the folder, that it replays bit for bit, that its schedule is
//! valid, and that a folder that was tampered with is refused.

mod support;

use serde_json::{Value, json};
use support::{Place, TRACE, names};

fn simulated(extra: &[&str]) -> Place {
    let place = Place::with_trace();
    let arguments =
        [&["simulate", "trace.txt", "--policy", "dclas:queues=3", "--out", "run"], extra].concat();
    let ran = place.run(&arguments);
    assert_eq!(ran.code, 0, "{}", ran.err);
    assert_eq!(place.names(), ["run", "trace.txt"]);
    place
}

#[test]
fn a_run_holds_its_results_and_replays_bit_for_bit() {
    let place = simulated(&[]);
    let files = ["coflows.csv", "coflows.parquet", "manifest.json", "tasks.csv", "tasks.parquet"];
    assert_eq!(names(&place.path("run")), files);
    let ran = place.run(&["replay", "run"]);
    assert_eq!((ran.code, ran.err.as_str()), (0, ""));
    assert!(ran.out.contains("bit for bit"), "{}", ran.out);
}

#[test]
fn two_runs_of_the_same_are_the_same_bytes() {
    let (one, other) = (simulated(&["--dump-schedule"]), simulated(&["--dump-schedule"]));
    for name in names(&one.path("run")) {
        let name = format!("run/{name}");
        assert_eq!(one.read(&name), other.read(&name), "{name}");
    }
}

#[test]
fn a_dumped_schedule_of_every_policy_is_valid() {
    let place = Place::with_trace();
    let list = place.run(&["policies", "--json"]).out;
    let list: serde_json::Value = serde_json::from_str(&list).unwrap();
    for policy in list["policies"].as_array().unwrap() {
        let name = policy["name"].as_str().unwrap();
        let ran = place.run(&["simulate", "trace.txt", "--policy", name, "--out", name, "--dump-schedule"]);
        assert_eq!(ran.code, 0, "{name}: {}", ran.err);
        let ran = place.run(&["validate", name]);
        assert_eq!(ran.code, 0, "{name}: {}", ran.err);
    }
}

#[test]
fn without_a_dumped_schedule_there_is_nothing_to_validate() {
    let ran = simulated(&[]).run(&["validate", "run"]);
    assert_eq!(ran.code, 3);
    assert!(ran.err.contains("--dump-schedule"), "{}", ran.err);
}

#[test]
fn a_schedule_that_sends_too_much_is_found() {
    let place = simulated(&["--dump-schedule"]);
    let schedule = String::from_utf8(place.read("run/schedule.csv")).unwrap();
    // The first segment's rate gets one more digit: ten times too fast.
    let mut lines: Vec<String> = schedule.lines().map(str::to_owned).collect();
    lines[2].push('0');
    place.write("run/schedule.csv", lines.join("\n") + "\n");
    let ran = place.run(&["validate", "run"]);
    assert_eq!((ran.code, ran.out.as_str()), (4, ""), "{}", ran.err);
    assert_eq!(place.run(&["replay", "run"]).code, 3, "the file is not the one of the run");
}

#[test]
fn a_wrong_time_of_a_run_is_named_with_the_file_and_row_that_have_it() {
    let place = simulated(&["--dump-schedule"]);
    for (table, kind) in [("flows.csv", "flow_finish"), ("tasks.csv", "task_finish")] {
        let path = format!("run/{table}");
        let text = String::from_utf8(place.read(&path)).unwrap();
        let mut rows: Vec<Vec<&str>> = text.lines().map(|line| line.split(',').collect()).collect();
        let column = rows[0].iter().position(|name| *name == "finish_ns").unwrap();
        rows[2][column] = "9000000000000";
        let text: String = rows.iter().map(|row| row.join(",") + "\n").collect();
        place.write(&path, text);
        let ran = place.run(&["validate", "run", "--json"]);
        assert_eq!(ran.code, 4, "{}", ran.err);
        let document: Value = serde_json::from_str(&ran.out).unwrap();
        let found =
            document["violations"].as_array().unwrap().iter().find(|one| one["kind"] == kind).unwrap();
        assert_eq!((found["file"].as_str().unwrap(), &found["lines"]), (path.as_str(), &json!([3])));
    }
}

#[test]
fn a_broken_folder_is_refused() {
    let place = simulated(&["--dump-schedule"]);
    let manifest = String::from_utf8(place.read("run/manifest.json")).unwrap();
    for broken in [
        String::new(),
        manifest[..manifest.len() / 2].to_owned(),
        manifest.replace("\"schema_version\": 1", "\"schema_version\": 2"),
        manifest.replace("queues=3", "queues=4"),
        manifest.replace("dclas", "unheard-of"),
        manifest.replace("coflow-benchmark", "unheard-of"),
    ] {
        place.write("run/manifest.json", &broken);
        for command in ["replay", "validate"] {
            let ran = place.run(&[command, "run"]);
            assert_eq!(ran.code, 3, "{command} with {broken}: {}", ran.err);
            assert!(ran.err.contains("manifest.json"), "{}", ran.err);
        }
    }
    assert_eq!(place.run(&["replay", "nowhere"]).code, 3);
}

#[test]
fn another_trace_under_the_same_name_is_noticed_and_the_right_one_may_be_elsewhere() {
    let place = simulated(&[]);
    place.write("trace.txt", TRACE.replace("1:10", "1:11"));
    let ran = place.run(&["replay", "run"]);
    assert_eq!(ran.code, 3);
    assert!(ran.err.contains("SHA-256"), "{}", ran.err);
    place.write("moved.txt", TRACE);
    assert_eq!(place.run(&["replay", "run", "--trace", "moved.txt"]).code, 0);
}

#[test]
fn a_run_on_standard_input_replays_from_standard_input() {
    let place = Place::new();
    let simulate = ["simulate", "-", "--policy", "stf", "--out", "run"];
    assert_eq!(place.run_with_input(&simulate, TRACE).code, 0);
    assert_eq!(place.run(&["replay", "run"]).code, 3);
    assert_eq!(place.run_with_input(&["replay", "run", "--trace", "-"], TRACE).code, 0);
}

#[test]
fn a_folder_that_is_there_already_is_left_alone() {
    let place = simulated(&[]);
    let before = place.read("run/manifest.json");
    let ran = place.run(&["simulate", "trace.txt", "--policy", "fair", "--out", "run"]);
    assert_eq!(ran.code, 1);
    assert_eq!(place.read("run/manifest.json"), before);
    assert_eq!(place.names(), ["run", "trace.txt"]);
}

#[cfg(target_os = "linux")]
#[test]
fn an_interrupt_is_code_130() {
    use std::process::Stdio;
    let place = Place::new();
    // It waits for a trace on standard input, which stays open.
    let mut child =
        place.command().args(["compare", "-"]).stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
    let catches_interrupt = || {
        let status = std::fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap();
        let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:")).unwrap().trim().to_owned();
        u64::from_str_radix(&caught, 16).unwrap() & (1 << 1) != 0
    };
    while !catches_interrupt() {
        std::thread::yield_now();
    }
    let input = child.stdin.take();
    let pid = child.id().to_string();
    assert!(std::process::Command::new("kill").args(["-INT", &pid]).status().unwrap().success());
    assert_eq!(child.wait().unwrap().code(), Some(130));
    drop(input);
}
