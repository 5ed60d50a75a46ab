//! `cavalcade experiment`: runs, the store of rows, pages, and what is refused.

#![allow(clippy::unwrap_used, reason = "a helper of tests fails by panicking")]

mod support;

use support::{Place, Ran};

const TEXT: &str = r#"
title = "A test"
source = "ours"
question = "Does it run?"
smoke = true
seeds = 10
[[panel]]
title = "Queues"
axis = { name = "queues", values = [1, 2] }
workload = "fixed:coflows=6,ports=8"
against = "fair"
series = [
  { name = "fair", policy = "fair" },
  { name = "Aalo", policy = "dclas:queues={x}" },
]
[[panel.expect]]
claim = "A16"
text = "two queues"
series = "Aalo"
at = 2
paper = 1000.0
"#;

const CLAIMS: &str = r#"
[[claim]]
id = "A16"
at = "Aalo Fig 12a"
says = "two queues are better than one"
paper = "–"
outcome = "refuted"
cause = "paper wrong"
because = "They are not a thousand times better."
"#;

fn place(text: &str) -> Place {
    let place = Place::new();
    std::fs::create_dir_all(place.path("experiments/test")).unwrap();
    place.write("experiments/claims.toml", CLAIMS);
    place.write("experiments/test/experiment.toml", text);
    place
}

fn experiment(place: &Place, arguments: &[&str]) -> Ran {
    place.run(&[&["experiment"], arguments].concat())
}

#[test]
fn a_run_leaves_rows_a_page_a_chart_and_a_summary_and_the_next_one_runs_nothing() {
    let place = place(TEXT);
    let ran = experiment(&place, &["run"]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    assert!(ran.err.contains("30 runs made"), "{}", ran.err);
    assert!(ran.out.contains("A16") && ran.out.contains("1000×"), "{}", ran.out);
    let kept: Vec<Vec<u8>> = ["test/rows.parquet", "test/README.md", "test/chart.svg", "README.md"]
        .map(|name| place.read(&format!("experiments/{name}")))
        .into();
    assert!(String::from_utf8_lossy(&kept[3]).contains("Of 1 claims of the papers"));
    let again = experiment(&place, &["run", "test"]);
    assert!(again.err.contains("0 runs made"), "{}", again.err);
    let fresh = experiment(&place, &["run", "--fresh"]);
    assert!(fresh.err.contains("30 runs made"), "{}", fresh.err);
    for (name, before) in
        ["test/rows.parquet", "test/README.md", "test/chart.svg", "README.md"].iter().zip(&kept)
    {
        assert_eq!(&place.read(&format!("experiments/{name}")), before, "{name}");
    }
    let list = experiment(&place, &["list"]);
    assert!(list.out.contains("30 of   30 runs"), "{}", list.out);
}

#[test]
fn a_run_of_one_prints_the_verdicts_of_that_one() {
    let place = place(TEXT);
    std::fs::create_dir_all(place.path("experiments/other")).unwrap();
    place.write("experiments/other/experiment.toml", TEXT.replace("two queues", "another one's"));
    let ran = experiment(&place, &["run", "test"]);
    assert!(ran.out.contains("two queues") && !ran.out.contains("another one's"), "{}", ran.out);
    let all = experiment(&place, &["run"]);
    assert!(all.out.contains("two queues") && all.out.contains("another one's"), "{}", all.out);
}

#[test]
fn an_outcome_that_the_rows_do_not_bear_out_is_refused_beside_the_verdicts() {
    let place = place(TEXT);
    assert_eq!(experiment(&place, &["run"]).code, 0);
    let before = place.read("experiments/README.md");
    let outcome = "outcome = \"refuted\"\ncause = \"paper wrong\"";
    place.write("experiments/claims.toml", CLAIMS.replace(outcome, "outcome = \"comes out\""));
    for arguments in [&["report"][..], &["report", "--check"], &["run"]] {
        let ran = experiment(&place, arguments);
        assert_eq!(ran.code, 3, "{arguments:?}: {}", ran.err);
        let expected = "claims.toml, line 3, claim A16: it is called 'comes out', and literally 'two queues' is **not reproduced**";
        assert!(ran.err.contains(expected), "{}", ran.err);
        assert_eq!(ran.out.contains("1000×"), arguments != ["report", "--check"], "{}", ran.out);
    }
    assert_eq!(place.read("experiments/README.md"), before);
}

#[test]
fn a_figure_of_the_prose_is_that_of_the_folder_or_is_refused_with_its_line() {
    let place = place(TEXT);
    place.write("experiments/prose.md", "Two queues: {A16 | two queues}.\n");
    assert_eq!(experiment(&place, &["run"]).code, 0);
    let page = String::from_utf8(place.read("experiments/README.md")).unwrap();
    assert!(page.contains("Two queues: ") && !page.contains('{'), "{page}");
    place.write("experiments/prose.md", "Two queues.\n{A16 | three queues}\n");
    let ran = experiment(&place, &["report", "--check"]);
    assert_eq!(ran.code, 3);
    assert!(ran.err.contains("prose.md, line 2: '{A16 | three queues}' is no statement"), "{}", ran.err);
}

#[test]
fn what_changes_in_the_text_is_run_and_what_stays_is_kept() {
    let place = place(TEXT);
    assert_eq!(experiment(&place, &["run"]).code, 0);
    place.write("experiments/test/experiment.toml", TEXT.replace("values = [1, 2]", "values = [2, 3]"));
    let ran = experiment(&place, &["run"]);
    assert!(ran.err.contains("10 runs made"), "{}", ran.err);
}

#[test]
fn the_smoke_test_and_the_check_hold_what_is_kept_and_notice_what_is_not() {
    let place = place(TEXT);
    assert_eq!(experiment(&place, &["run", "--smoke"]).code, 4, "there are no rows yet");
    assert_eq!(experiment(&place, &["run"]).code, 0);
    assert_eq!(experiment(&place, &["run", "--smoke"]).code, 0);
    assert_eq!(experiment(&place, &["report", "--check"]).code, 0);
    place.write("experiments/test/README.md", "edited");
    let stale = experiment(&place, &["report", "--check"]);
    assert_eq!(stale.code, 4);
    assert!(stale.err.contains("README.md"), "{}", stale.err);
}

#[test]
fn what_cannot_be_is_refused_before_anything_runs() {
    let place = place(&TEXT.replace("dclas:queues", "dclas:queue"));
    let ran = experiment(&place, &["run"]);
    assert_eq!(ran.code, 3);
    assert!(ran.err.contains("experiment.toml, line 8, panel 'Queues': series 'Aalo'"), "{}", ran.err);
    assert!(!place.path("experiments/README.md").exists());
    place.write("experiments/test/experiment.toml", TEXT);
    assert_eq!(experiment(&place, &["run", "tset"]).code, 2);
    assert_eq!(experiment(&place, &["list", "--dir", "nowhere"]).code, 2);
    place.write("experiments/test/rows.parquet", "broken");
    assert_eq!(experiment(&place, &["run"]).code, 3);
}

#[test]
fn a_trace_that_is_not_there_leaves_its_runs_out_and_says_so() {
    let place = place(&TEXT.replace("fixed:coflows=6,ports=8", "trace:coflow/none.txt"));
    let ran = experiment(&place, &["run"]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    assert!(
        ran.err.contains("3 runs are left out") && ran.err.contains("none.txt is missing"),
        "{}",
        ran.err
    );
    assert!(ran.out.contains("not run"), "{}", ran.out);
}

#[test]
fn a_claim_that_does_not_exist_is_refused_with_file_line_and_cure() {
    let place = place(&TEXT.replace("\"A16\"", "\"A61\""));
    let ran = experiment(&place, &["run"]);
    assert_eq!(ran.code, 3);
    let expected =
        "test/experiment.toml, line 17, claim 'A61': there is no such claim: name one of claims.toml";
    assert!(ran.err.contains(expected), "{}", ran.err);
    place.write("experiments/test/experiment.toml", TEXT.replace("\"A16\"", "\"ours\""));
    let ran = experiment(&place, &["report"]);
    assert_eq!(ran.code, 3);
    assert!(ran.err.contains("claims.toml, line 3, claim A16: it has no answer"), "{}", ran.err);
}

#[test]
fn rows_older_than_their_text_are_refused_with_file_line_and_cure() {
    let place = place(TEXT);
    assert_eq!(experiment(&place, &["run"]).code, 0);
    for (values, expected) in [
        ("[2, 3]", "no row for dclas:queues=3 on fixed:coflows=6,ports=8, seed 1"),
        ("[2]", "no panel asks for its row"),
    ] {
        place.write(
            "experiments/test/experiment.toml",
            TEXT.replace("values = [1, 2]", &format!("values = {values}")),
        );
        let stale = experiment(&place, &["report", "--check"]);
        assert_eq!(stale.code, 3, "{}", stale.err);
        assert!(
            stale.err.contains("test/experiment.toml, line ") && stale.err.contains(expected),
            "{}",
            stale.err
        );
        assert!(stale.err.contains("cavalcade experiment run test"), "{}", stale.err);
    }
}

/// The list of claims of this repository names only tests that there are.
#[test]
fn every_test_that_covers_a_claim_is_there() {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../..");
    let list = std::fs::read_to_string(root.join("experiments/claims.toml")).unwrap();
    let claims = cavalcade_experiment::Claims::read(&list).unwrap();
    assert_eq!(claims.iter().count(), 100);
    for (claim, test) in claims.iter().flat_map(|claim| claim.tests.iter().map(move |test| (claim, test))) {
        let (path, name) = test.split_once("::").unwrap();
        let text = std::fs::read_to_string(root.join(path)).unwrap();
        assert!(text.contains(&format!("fn {name}(")), "{}: {test} is not there", claim.id);
    }
}

/// Runs the experiment of `place` on workers, where `python3` is this script.
fn on_workers(place: &Place, script: &str) -> Ran {
    use std::os::unix::fs::PermissionsExt;

    std::fs::create_dir_all(place.path("bin")).unwrap();
    place.write("bin/python3", format!("#!/bin/sh\n{script}\n"));
    std::fs::set_permissions(place.path("bin/python3"), std::fs::Permissions::from_mode(0o755)).unwrap();
    let path = format!("{}:{}", place.path("bin").display(), std::env::var("PATH").unwrap());
    let output = place.command().args(["experiment", "run", "--on", "2"]).env("PATH", path).output().unwrap();
    Ran {
        code: output.status.code().unwrap_or(-1),
        out: String::from_utf8(output.stdout).unwrap(),
        err: String::from_utf8(output.stderr).unwrap(),
    }
}

#[test]
fn rows_that_workers_sent_are_kept_where_they_end_before_all_are_there() {
    let place = place(TEXT);
    let words = format!("6{}", ",4607182418800017408".repeat(35));
    let row = format!(r#"{{"unit": 3, "seconds": 0.5, "words": [{words}]}}"#);
    let ran = on_workers(&place, &format!("read -r question\necho '{row}'"));
    assert_eq!(ran.code, 1, "{}", ran.err);
    assert!(ran.err.contains("ended before 29 runs") && ran.err.contains("start it again"), "{}", ran.err);
    let list = experiment(&place, &["list"]);
    assert!(list.out.contains("1 of   30 runs"), "{}", list.out);
    let ran = experiment(&place, &["run"]);
    assert!(ran.err.contains("29 runs made"), "{}", ran.err);
}

#[test]
fn what_workers_say_wrong_is_an_error_and_no_row() {
    for (said, code, shown) in [
        (r#"{"unit": 30, "seconds": 0.5, "words": [1]}"#, 1, "is no answer"),
        (r#"{"unit": 3, "seconds": -1e400, "words": [1]}"#, 1, "is no answer"),
        (r#"{"unit": 3, "seconds": 0.5, "words": [1]}"#, 1, "what came back is no row"),
        (r#"{"unit": 3, "seconds": -0.5, "words": [1, 2]}"#, 1, "what came back is no row"),
        (r#"{"unit": 3, "error": "OutOfRoom: no memory"}"#, 1, "seed 2: OutOfRoom: no memory"),
        (r#"{"refused": "a worker has cavalcade 9.9.9"}"#, 1, "a worker has cavalcade 9.9.9"),
        ("Traceback", 1, "is no answer"),
        ("", 1, "is no answer"),
    ] {
        let place = place(TEXT);
        let ran = on_workers(&place, &format!("read -r question\necho '{said}'"));
        assert_eq!(ran.code, code, "{said}: {}", ran.err);
        assert!(ran.err.contains(shown), "{said}: {}", ran.err);
        assert!(!place.path("experiments/test/rows.parquet").exists(), "{said}");
    }
}

#[test]
fn without_the_package_or_with_workers_that_are_none_it_says_what_is_needed() {
    let place = place(TEXT);
    let ran = on_workers(&place, "exit 1");
    assert_eq!(ran.code, 5, "{}", ran.err);
    assert!(
        ran.err.contains("made no run") && ran.err.contains("pip install 'cavalcade[dask]'"),
        "{}",
        ran.err
    );
    for workers in ["0", "-1", "spark://host:1", "Ray", ""] {
        let ran = experiment(&place, &["run", &format!("--on={workers}")]);
        assert_eq!(ran.code, 2, "{workers}: {}", ran.err);
        assert!(ran.err.contains("a number of processes, dask://HOST:PORT or ray"), "{}", ran.err);
    }
    let both = experiment(&place, &["run", "--smoke", "--on", "2"]);
    assert_eq!(both.code, 2, "{}", both.err);
}

#[test]
fn an_experiment_whose_runs_are_there_asks_no_worker() {
    let place = place(TEXT);
    assert_eq!(experiment(&place, &["run"]).code, 0);
    let ran = on_workers(&place, "exit 1");
    assert_eq!(ran.code, 0, "{}", ran.err);
    assert!(ran.err.contains("0 runs made"), "{}", ran.err);
}
