//! A trace that is read as it goes gives what the same trace gives as a whole, and what cannot be
//! read or run so is an error.

#![allow(clippy::unwrap_used, reason = "a test whose scene cannot be set has failed")]

use std::fs;
use std::path::{Path, PathBuf};

use cavalcade::kept::write_tables;
use cavalcade::output::Folder;
use cavalcade::policy::registry;
use cavalcade::trace::{Format, write};
use cavalcade::{
    Comparison, Conditions, Error, Kind, Policy, Progress, Scenario, Source, Stream, compare, generate, read,
};

/// A trace in a folder of its own.
struct Scene {
    folder: tempfile::TempDir,
    trace: PathBuf,
}

impl Scene {
    fn of(text: &[u8]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let trace = folder.path().join("trace.txt");
        fs::write(&trace, text).unwrap();
        Self { folder, trace }
    }

    fn generated(spec: &str) -> Self {
        let mut text = Vec::new();
        write(&generate(spec, 7).unwrap(), Format::COFLOW_BENCHMARK, &mut text).unwrap();
        Self::of(&text)
    }

    fn stream(&self, conditions: Conditions) -> Result<Stream, Error> {
        Stream::open(&Source::open(&self.trace)?, None, conditions)
    }

    fn streamed(&self, policies: &[Policy], conditions: Conditions) -> Result<Comparison, Error> {
        Ok(self.stream(conditions)?.compare(policies, 0, &Progress::default())?.comparison)
    }

    fn whole(&self, policies: &[Policy], conditions: Conditions) -> Comparison {
        let scenario = Scenario::new(read(&self.trace).unwrap(), conditions).unwrap();
        let scenarios: Vec<Scenario> =
            policies.iter().map(|policy| scenario.with_policy(policy.clone())).collect();
        compare(&scenarios, 0).unwrap()
    }
}

/// Without the times that runs took.
fn timeless(mut comparison: Comparison) -> Comparison {
    comparison.runs.iter_mut().for_each(|run| run.wall_s = 0.0);
    comparison
}

fn policies(names: &[&str]) -> Vec<Policy> {
    names.iter().map(|name| Policy::named(name).unwrap()).collect()
}

#[test]
fn a_stream_has_the_comparison_of_the_whole_to_the_bit_under_every_policy() {
    let names: Vec<&str> = registry().iter().map(|info| info.name).collect();
    let scene = Scene::generated("facebook:coflows=40,ports=10,load=1.5");
    for fabric in [None, Some("tree:pods=1,racks=2,hosts=5,oversubscription=4")] {
        let conditions =
            Conditions { fabric: fabric.map(|spec| spec.parse().unwrap()), ..Conditions::default() };
        // Its rates are computed from their definition there.
        let is_run = |name: &&&str| fabric.is_none() || **name != "baraat";
        let policies = policies(&names.iter().filter(is_run).copied().collect::<Vec<_>>());
        let streamed = scene.streamed(&policies, conditions.clone()).unwrap();
        assert_eq!(timeless(streamed), timeless(scene.whole(&policies, conditions)));
    }
}

#[test]
fn its_tables_are_those_of_the_whole() {
    let scene = Scene::generated("facebook:coflows=12,ports=8");
    let policies = policies(&["fair", "sebf"]);
    let stream = scene.stream(Conditions::default()).unwrap();
    let compared = stream.compare(&policies, 0, &Progress::default()).unwrap();
    let folder = Folder::create(&scene.folder.path().join("out")).unwrap();
    write_tables(&folder, &compared).unwrap();
    let coflows = fs::read_to_string(folder.path("coflows.csv")).unwrap();
    let whole = scene.whole(&policies, Conditions::default());
    let expected: Vec<String> = whole
        .runs
        .iter()
        .flat_map(|run| run.cct.iter().map(|cct| format!("{},{}", run.label, cct.get())))
        .collect();
    let rows = coflows.lines().skip(1).map(|row| row.split(',').collect::<Vec<_>>());
    let found: Vec<String> = rows.map(|row| format!("{},{}", row[0], row[6])).collect();
    assert_eq!(found, expected, "{coflows}");
    for name in ["runs", "coflows", "tasks"] {
        assert!(
            folder.path(format!("{name}.csv")).exists() && folder.path(format!("{name}.parquet")).exists()
        );
    }
}

/// The message of what must fail, and its kind.
fn refused<T>(result: Result<T, Error>) -> (Kind, String) {
    let error = result.err().unwrap();
    (error.kind(), error.to_string())
}

const TRACE: &str = "3 3\na 0 1 0 1 1:2\nb 5 1 0 1 2:2\nc 9 1 1 1 2:2\n";

#[test]
fn a_mistake_in_the_last_line_is_found_before_any_run_with_its_line() {
    for (from, to, place) in [
        ("c 9 1 1 1 2:2", "c 9 1 1 1 3:2", "trace.txt:4:11: port 3 is out of range"),
        ("c 9", "c 4", "trace.txt:4: the coflow arrives at 4 ms, before the one above it at 5 ms"),
        ("c 9 1 1 1 2:2\n", "", "trace.txt: found 2 coflows, expected 3"),
    ] {
        let scene = Scene::of(TRACE.replace(from, to).as_bytes());
        let stream = scene.stream(Conditions::default()).unwrap();
        let progress = Progress::default();
        let (kind, message) = refused(stream.compare(&policies(&["fair"]), 0, &progress));
        assert_eq!(kind, Kind::Input);
        assert!(message.contains(place), "{message}");
        assert!(progress.done() <= 2, "no run has begun");
    }
}

#[test]
fn a_trace_that_changes_between_two_readings_is_an_error() {
    let scene = Scene::of(TRACE.as_bytes());
    let stream = scene.stream(Conditions::default()).unwrap();
    fs::write(&scene.trace, TRACE.replace("3 3", "2 3")).unwrap();
    let (kind, message) = refused(stream.compare(&policies(&["fair"]), 0, &Progress::default()));
    assert_eq!(kind, Kind::Input);
    assert!(message.contains("port 2 is out of range"), "{message}");
}

#[test]
fn what_needs_the_whole_trace_is_refused_by_name() {
    let scene = Scene::of(TRACE.as_bytes());
    let order = scene.folder.path().join("order.txt");
    fs::write(&order, "c\nb\n").unwrap();
    let listed = Policy::named(&format!("order:{}", order.display())).unwrap();
    let (kind, message) = refused(scene.streamed(&[listed], Conditions::default()));
    assert_eq!(kind, Kind::Usage);
    assert!(message.contains("lists coflows of the whole trace"), "{message}");
    for (conditions, needs) in [
        (Conditions { offline: true, ..Conditions::default() }, "all tasks at time zero"),
        (Conditions { counters: 2.try_into().unwrap(), ..Conditions::default() }, "several counters"),
    ] {
        let (kind, message) = refused(scene.stream(conditions));
        assert_eq!(kind, Kind::Usage);
        assert!(message.contains(needs), "{message}");
    }
}

#[test]
fn a_fabric_that_cannot_carry_the_trace_is_an_error() {
    let scene = Scene::of(TRACE.as_bytes());
    for (fabric, problem) in [
        ("tree:pods=1,racks=2,hosts=1", "3 ports"),
        ("tree:pods=1,racks=3,hosts=1;rack 2 to pod 0 failed;pod 0 to rack 2 failed", "no path"),
    ] {
        let conditions = Conditions { fabric: Some(fabric.parse().unwrap()), ..Conditions::default() };
        let (kind, message) = refused(scene.streamed(&policies(&["fair"]), conditions));
        assert_eq!(kind, Kind::Input);
        assert!(message.contains(problem), "{message}");
    }
}

#[test]
fn a_trace_that_is_only_read_whole_or_once_is_refused() {
    let flows = Scene::of(b"0 0 1 100 0\n");
    let (kind, message) = refused(flows.stream(Conditions::default()));
    assert_eq!(kind, Kind::Input);
    assert!(message.contains("only read as a whole, expected coflow-benchmark or sincronia"), "{message}");
    let (kind, message) =
        refused(Stream::open(&Source::open(Path::new("-")).unwrap(), None, Conditions::default()));
    assert_eq!(kind, Kind::Input);
    assert!(message.contains("standard input is not one file"), "{message}");
}

#[test]
fn a_comparison_that_is_cancelled_ends() {
    let scene = Scene::of(TRACE.as_bytes());
    let progress = Progress::default();
    progress.cancel();
    let stream = scene.stream(Conditions::default()).unwrap();
    assert_eq!(refused(stream.compare(&policies(&["fair"]), 0, &progress)).0, Kind::Interrupted);
}
