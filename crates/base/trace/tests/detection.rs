//! Which format a text is: one at most, whatever its first lines are made of.

use cavalcade_trace::{Format, Opening, ReadOptions, opening, read};
use proptest::prelude::*;

/// The formats that recognise a text.
fn recognised(text: &str) -> Vec<Format> {
    let Some(opening): Option<Opening<'_>> = opening(text) else { return Vec::new() };
    Format::ALL.into_iter().filter(|format| (format.syntax().recognises)(&opening)).collect()
}

#[test]
fn what_begins_with_a_brace_is_json_whatever_blanks_are_in_it() {
    for (text, format) in [
        (r#"{"cavalcade_trace": 1, "ports": 8, "tasks": 2}"#, Format::NATIVE),
        ("{ \"ports\" : 8 ,\n \"cavalcade_trace\" : 1 }", Format::NATIVE),
        ("{\"a b c\":1,\"d e\":2} x y", Format::NATIVE),
        (r#"{ "Event": "SparkListenerLogStart", "Spark Version": "3.5.1" }"#, Format::SPARK),
        (
            r#"{"Block Manager ID":{"Executor ID":"driver"},"Event":"SparkListenerBlockManagerAdded"}"#,
            Format::SPARK,
        ),
        ("{\n  \"Spark Version\": \"3.5.1\",\n  \"Event\": \"SparkListenerLogStart\"\n}", Format::SPARK),
    ] {
        assert_eq!(recognised(text), [format], "{text}");
    }
}

#[test]
fn a_line_of_columns_is_csv_and_one_of_a_flow_is_not() {
    for (text, format) in [
        ("src\tdst\tbytes\tstart_ns\tcoflow\n0\t1\t5\t0\ta\n", Format::CSV),
        ("id source destination, x; y z", Format::FLOW_LIST),
        ("a,src,dst,b 0 1 5 0\n", Format::FLOW_LIST),
        ("0 0 1 5 0 a,src,dst,b\n", Format::FLOW_LIST),
        ("\"src\";\"dst\"\n", Format::CSV),
    ] {
        assert_eq!(recognised(text), [format], "{text}");
    }
    let error = read(b"3 src 4 dst\n", "t", &ReadOptions::default()).unwrap_err().to_string();
    assert!(error.contains("cannot tell the format"), "{error}");
}

fn piece() -> impl Strategy<Value = &'static str> {
    proptest::sample::select(vec![
        "{",
        "}",
        "\"Event\"",
        "\"cavalcade_trace\"",
        ":",
        ",",
        ";",
        "\t",
        " ",
        "\n",
        "#",
        "src",
        "dst",
        "source",
        "to",
        "bytes",
        "start_ns",
        "coflow",
        "0",
        "1",
        "12",
        "3:4",
        "1.5",
        "a",
        "\"",
        "\u{feff}",
        "job0",
        "-1",
        "[",
        "]",
    ])
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(10_000))]

    #[test]
    fn no_two_formats_recognise_one_text(pieces in proptest::collection::vec(piece(), 0..16)) {
        let text = pieces.concat();
        let found = recognised(&text);
        prop_assert!(found.len() <= 1, "{:?} is {:?}", text, found);
    }
}
