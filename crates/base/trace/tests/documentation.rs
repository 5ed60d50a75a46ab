//! What `docs/formats.md` and `examples/` show is read as they say.

#![allow(clippy::unwrap_used, reason = "a helper of tests fails by panicking")]

use std::path::{Path, PathBuf};

use cavalcade_trace::{Format, ReadOptions, read};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../..")
}

/// The examples of a text in Markdown: blocks that begin with a kind of text and the name of a
/// format.
fn examples(text: &str) -> Vec<(&str, &str)> {
    let mut found = Vec::new();
    for block in text.split("\n```").skip(1).step_by(2) {
        let (first, example) = block.split_once('\n').unwrap();
        found.extend(first.split_once(' ').map(|(_, format)| (format, example)));
    }
    found
}

#[test]
fn every_example_of_the_formats_is_read_as_what_it_is() {
    let text = std::fs::read_to_string(root().join("docs/formats.md")).unwrap();
    let examples = examples(&text);
    for (name, example) in &examples {
        if *name == "swim" {
            let refused = read(format!("{example}\n").as_bytes(), name, &ReadOptions::default());
            assert!(refused.unwrap_err().to_string().contains("SWIM table"));
            continue;
        }
        let read = read(format!("{example}\n").as_bytes(), name, &ReadOptions::default());
        let (workload, format) = read.unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!(format.name(), *name);
        assert!(workload.coflow_count() > 1, "{name} shows more than one coflow");
    }
    for &format in Format::ALL.iter().filter(|&&format| format != Format::SPARK) {
        assert!(examples.iter().any(|(name, _)| *name == format.name()), "{format} has no example");
    }
}

#[test]
fn the_example_traces_are_read() {
    for (name, format, tasks) in [
        ("shuffles.txt", Format::COFLOW_BENCHMARK, 60),
        ("queries.jsonl", Format::NATIVE, 12),
        ("spark-eventlog.json", Format::SPARK, 4),
    ] {
        let bytes = std::fs::read(root().join("examples").join(name)).unwrap();
        let (workload, found) = read(&bytes, name, &ReadOptions::default()).unwrap();
        assert_eq!((found, workload.tasks().len()), (format, tasks), "{name}");
    }
}
