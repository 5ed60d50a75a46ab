//! Reading of arbitrary bytes: the property of the fuzz targets, on a stable toolchain and within
//! seconds, by mutating valid traces.

mod property;

use cavalcade_trace::{Format, Generator, generate, write};
use property::reading_holds;
use proptest::prelude::*;

const SEEDS: &[&str] = &[
    "3 2\n1 0 2 0 1 1 2:3.0\n2 15 1 0 2 1:1.5 2:4\n",
    "5 2\n0 8 2 2 1 0 1 1 2 1 1\n1 10.25 1 1 1 4 0 7e-1\n",
    "# id src dst bytes start_ns coflow\n0 0 1 1000 0 a\n1 1 2 5 10 a\n2 0 2 7 3\n",
    "0 0 1 1000 0\n1 1 2 5 10\n",
    "{\"cavalcade_trace\":1,\"ports\":8,\"tasks\":2}\n{\"name\":\"7\",\"arrival_ns\":0,\"stages\":[{\"flows\":[[0,4,1000],[1,4,1000,500]]}]}\n\
     {\"name\":\"q\\u0031\",\"arrival_ns\":90,\"deadline_ns\":5,\"class\":\"background\",\"weight\":3,\"stages\":[{\"flows\":[[2,5,64]]},\
     {\"starts_after\":[0],\"compute_ns\":2},{\"starts_after\":[1],\"finishes_after\":[0],\"flows\":[[5,2,8]]}]}\n",
    SPARK,
];

/// The least that makes a Spark log: a shuffle of two sources.
const SPARK: &str = r#"{"Event":"SparkListenerLogStart","Spark Version":"3.5.3"}
{"Event":"SparkListenerApplicationStart","Timestamp":10}
{"Event":"SparkListenerJobStart","Job ID":0,"Submission Time":11,"Stage Infos":[{"Stage ID":0,"Parent IDs":[],"RDD Info":[{"RDD ID":0}]},{"Stage ID":1,"Parent IDs":[0]}],"Properties":{"spark.sql.execution.id":"3"}}
{"Event":"SparkListenerTaskEnd","Stage ID":0,"Task End Reason":{"Reason":"Success"},"Task Info":{"Host":"a","Executor ID":"1","Launch Time":12,"Finish Time":15},"Task Metrics":{"Shuffle Write Metrics":{"Shuffle Bytes Written":7}}}
{"Event":"SparkListenerTaskEnd","Stage ID":0,"Task End Reason":{"Reason":"Success"},"Task Info":{"Host":"b","Executor ID":"2","Launch Time":12,"Finish Time":14},"Task Metrics":{"Shuffle Write Metrics":{"Shuffle Bytes Written":8}}}
{"Event":"SparkListenerTaskEnd","Stage ID":1,"Task End Reason":{"Reason":"Success"},"Task Info":{"Host":"c","Executor ID":"3","Launch Time":16,"Finish Time":20},"Task Metrics":{"Shuffle Read Metrics":{"Remote Bytes Read":15,"Fetch Wait Time":2}}}
{"Event":"SparkListenerJobEnd","Job ID":0}
"#;

/// Pieces that break things: signs, extremes, other notations, separators, other formats.
const PIECES: &[&[u8]] = &[
    b"-1",
    b"0",
    b"1",
    b"4294967295",
    b"4294967296",
    b"18446744073709551615",
    b"18446744073709551616",
    b"1e9",
    b"1e300",
    b"0.000000000000000000001",
    b"NaN",
    b"inf",
    b":",
    b" ",
    b"\n",
    b"\r\n",
    b"\t",
    b"#",
    b"{",
    b"}",
    b"[",
    b"]",
    b",",
    b"\"",
    b"\xff",
    b"\xef\xbb\xbf",
    b"\x1f\x8b",
    b"\x28\xb5\x2f\xfd",
    b"ZV\x01",
    b"LZ4Block",
    b"\0",
    "é".as_bytes(),
    b"null",
    b"\"flows\":[]",
];

/// One change to a text.
#[derive(Clone, Debug)]
enum Change {
    Cut(usize),
    Remove(usize, usize),
    Insert(usize, usize),
    Replace(usize, usize),
    Flip(usize, u8),
    Repeat(usize, usize),
}

fn change() -> impl Strategy<Value = Change> {
    let at = any::<usize>();
    prop_oneof![
        1 => at.prop_map(Change::Cut),
        2 => (at, 1usize..8).prop_map(|(at, count)| Change::Remove(at, count)),
        4 => (at, at).prop_map(|(at, piece)| Change::Insert(at, piece)),
        4 => (at, at).prop_map(|(at, piece)| Change::Replace(at, piece)),
        2 => (at, any::<u8>()).prop_map(|(at, bits)| Change::Flip(at, bits)),
        1 => (at, 1usize..60).prop_map(|(at, count)| Change::Repeat(at, count)),
    ]
}

fn apply(text: &mut Vec<u8>, change: &Change) {
    let place = |at: usize, text: &[u8]| at % (text.len() + 1);
    match *change {
        Change::Cut(at) => text.truncate(place(at, text)),
        Change::Remove(at, count) => {
            let at = place(at, text);
            let end = (at + count).min(text.len());
            text.drain(at..end);
        }
        Change::Insert(at, piece) => {
            let at = place(at, text);
            text.splice(at..at, PIECES[piece % PIECES.len()].iter().copied());
        }
        Change::Replace(at, piece) => {
            // Whole words, since a replaced number tells more than a number with something in it.
            let at = place(at, text);
            let is_word = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'.';
            let start = text[..at].iter().rposition(|byte| !is_word(byte)).map_or(0, |before| before + 1);
            let end =
                text[at..].iter().position(|byte| !is_word(byte)).map_or(text.len(), |after| at + after);
            text.splice(start..end, PIECES[piece % PIECES.len()].iter().copied());
        }
        Change::Flip(at, bits) => {
            let at = place(at, text);
            if let Some(byte) = text.get_mut(at) {
                *byte ^= bits;
            }
        }
        Change::Repeat(at, count) => {
            let at = place(at, text);
            let end = (at + count).min(text.len());
            let copy = text[at..end].to_vec();
            text.splice(at..at, copy);
        }
    }
}

fn formats() -> impl Strategy<Value = Option<Format>> {
    proptest::option::of(proptest::sample::select(Format::ALL.to_vec()))
}

#[test]
fn a_name_that_looks_like_a_compressed_head_does_not_change_what_a_trace_is() {
    let lzf: &[u8] = b"\r\n22  2 22 \t\t9\t9\t9ZV\0\0\x01\x04|\t";
    assert!(
        cavalcade_trace::read(lzf, "input", &Default::default()).is_err(),
        "control characters in a name"
    );
    for text in [lzf, b" LZ4Block 0 1 1000 0\n", b" ZV 0 1 1000 0\n", b" ZV\x01 0 1 1000 0\n"] {
        reading_holds(text, None);
        reading_holds(text, Some(Format::FLOW_LIST));
    }
}

#[test]
fn the_unchanged_seeds_are_traces() {
    for seed in SEEDS {
        assert!(cavalcade_trace::read(seed.as_bytes(), "seed", &Default::default()).is_ok(), "{seed}");
        reading_holds(seed.as_bytes(), None);
    }
}

#[test]
fn every_beginning_of_a_trace_is_read_or_refused() {
    for seed in SEEDS {
        for end in 0..seed.len() {
            reading_holds(&seed.as_bytes()[..end], None);
        }
    }
    let generator: Generator = "facebook:coflows=12,ports=10".parse().unwrap();
    let mut text = Vec::new();
    write(&generate(&generator, 1).unwrap(), Format::COFLOW_BENCHMARK, &mut text).unwrap();
    for end in 0..text.len() {
        reading_holds(&text[..end], None);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4000))]

    #[test]
    fn mutated_traces_are_read_or_refused(
        seed in proptest::sample::select(SEEDS.to_vec()),
        changes in proptest::collection::vec(change(), 1..6),
        format in formats(),
    ) {
        let mut text = seed.as_bytes().to_vec();
        for change in &changes {
            apply(&mut text, change);
        }
        reading_holds(&text, None);
        reading_holds(&text, format);
    }

    #[test]
    fn random_bytes_are_read_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..200), format in formats()) {
        reading_holds(&bytes, format);
    }

    #[test]
    fn random_words_are_read_or_refused(text in "([0-9:.#a{}\"e-]{1,4}[ \n]){0,40}", format in formats()) {
        reading_holds(text.as_bytes(), format);
    }
}
