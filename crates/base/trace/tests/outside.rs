//! Traces as other people's programs write them, each in a folder of `tests/outside` with what it
//! must be read as beside it.
//!
//! `expected` has a line for each thing that must hold; `#` begins a comment that says how the
//! values were found.
//!
//! | line | |
//! |---|---|
//! | `packed gzip`, `zstd`, `zstd-open`, `lz4` | the file is compressed before it is read; `zstd-open`: in a frame that has not ended |
//! | `padded N` | so many zeros follow |
//! | `together` | the files `trace-1`, `trace-2`, … are logs of their own; otherwise they are one after the other |
//! | `format NAME`, `ports N` | what is read |
//! | `coflow ARRIVAL_NS NAME`, `flow SRC DST BYTES WAVE_NS` | all coflows in order, each with its flows |
//! | `note TEXT`, `without TEXT` | a note that has this in it; no note does |
//! | `error TEXT` | it is refused, with a message that begins so |

#![allow(clippy::unwrap_used, reason = "a helper of tests fails by panicking")]

use std::fmt::Write as _;
use std::io::Write as _;
use std::path::Path;

use cavalcade_trace::{Input, ReadOptions, Reading, TraceError, read_inputs};

fn packed(codec: &str, text: &[u8]) -> Vec<u8> {
    match codec {
        "gzip" => {
            let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
            encoder.write_all(text).unwrap();
            encoder.finish().unwrap()
        }
        "zstd" => zstd::encode_all(text, 3).unwrap(),
        "zstd-open" => {
            let mut encoder = zstd::Encoder::new(Vec::new(), 3).unwrap();
            encoder.write_all(text).unwrap();
            encoder.flush().unwrap();
            encoder.get_ref().clone()
        }
        "lz4" => {
            let mut encoder = lz4_flex::frame::FrameEncoder::new(Vec::new());
            encoder.write_all(text).unwrap();
            encoder.finish().unwrap()
        }
        other => panic!("no codec {other}"),
    }
}

/// What is read, in the words of `expected`.
fn shown(reading: &Reading) -> String {
    let workload = &reading.workload;
    let mut text = format!("format {}\nports {}\n", reading.format, workload.ports());
    for coflow in workload.coflows() {
        writeln!(text, "coflow {} {}", coflow.submitted.0, workload.coflow_name(coflow.id)).unwrap();
        for flow in coflow.flows {
            writeln!(text, "flow {} {} {} {}", flow.src, flow.dst, flow.size.0, flow.wave.0).unwrap();
        }
    }
    text
}

/// Checks one case; what is wrong with it.
fn check(folder: &Path) -> Result<(), String> {
    let expected = std::fs::read_to_string(folder.join("expected")).unwrap();
    let lines = |word: &str| -> Vec<String> {
        let has = |line: &str| line.strip_prefix(word).map(|rest| rest.trim_start().to_owned());
        expected.lines().filter(|line| line.split(' ').next() == Some(word)).filter_map(has).collect()
    };
    let mut names: Vec<String> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| name != "expected")
        .collect();
    names.sort();
    let files: Vec<(String, Vec<u8>)> = names
        .into_iter()
        .map(|name| {
            let mut bytes = std::fs::read(folder.join(&name)).unwrap();
            for codec in lines("packed") {
                bytes = packed(&codec, &bytes);
            }
            for zeros in lines("padded") {
                bytes.extend(vec![0; zeros.parse().unwrap()]);
            }
            (name, bytes)
        })
        .collect();
    let inputs = files.iter().map(|(name, bytes)| Input::of_bytes(name, bytes));
    let traces: Vec<Vec<Input<'_>>> = if lines("together").is_empty() {
        vec![inputs.collect()]
    } else {
        inputs.map(|input| vec![input]).collect()
    };
    let read: Result<Reading, TraceError> = read_inputs(traces, &ReadOptions::default());
    if let [message] = lines("error").as_slice() {
        return match read {
            Err(error) if error.to_string().starts_with(message.as_str()) => Ok(()),
            Err(error) => Err(error.to_string()),
            Ok(reading) => Err(format!("it is read:\n{}", shown(&reading))),
        };
    }
    let reading = read.map_err(|error| error.to_string())?;
    let wanted: String = expected
        .lines()
        .filter(|line| ["format", "ports", "coflow", "flow"].contains(&line.split(' ').next().unwrap()))
        .map(|line| format!("{line}\n"))
        .collect();
    let found = shown(&reading);
    if found != wanted {
        return Err(format!("found\n{found}wanted\n{wanted}"));
    }
    let notes: Vec<String> = reading.notes.iter().map(ToString::to_string).collect();
    let is_noted = |part: &String| notes.iter().any(|note| note.contains(part.as_str()));
    if let Some(missing) = lines("note").iter().find(|part| !is_noted(part)) {
        return Err(format!("no note has {missing:?}: {notes:#?}"));
    }
    if let Some(wrong) = lines("without").iter().find(|part| is_noted(part)) {
        return Err(format!("a note has {wrong:?}: {notes:#?}"));
    }
    Ok(())
}

#[test]
fn every_trace_from_outside_is_read_as_what_it_is() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/outside");
    let mut folders: Vec<_> = std::fs::read_dir(&root).unwrap().map(|entry| entry.unwrap().path()).collect();
    folders.sort();
    assert!(folders.len() > 40, "{} cases", folders.len());
    let wrong: Vec<String> = folders
        .iter()
        .filter_map(|folder| check(folder).err().map(|error| format!("{}: {error}", folder.display())))
        .collect();
    assert!(wrong.is_empty(), "{} of {}:\n{}", wrong.len(), folders.len(), wrong.join("\n"));
}
