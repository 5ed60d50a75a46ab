//! Everything that can be wrong with a command line or a trace: an exit code that tells which, a
//! message with place, expectation and cure, and nothing left behind.

mod support;

use support::{Place, Ran, TRACE, golden};

/// Runs `arguments` and checks that they fail with `code`, say nothing on standard output and leave
/// nothing behind.
fn refused(place: &Place, arguments: &[&str], code: i32) -> Ran {
    let before = place.names();
    let ran = place.run(arguments);
    assert_eq!(ran.code, code, "{arguments:?}: {}", ran.err);
    assert_eq!(ran.out, "", "{arguments:?}");
    assert_eq!(place.names(), before, "{arguments:?}");
    ran
}

/// Traces that no command may accept.
const BAD_TRACES: &[(&str, &[u8])] = &[
    ("empty", b""),
    ("blank", b"\n\n"),
    ("no coflows", b"3 0\n"),
    ("no format at all", b"hello world, this is not a trace\n"),
    ("not UTF-8", b"3 1\n1 0 1 0 1 \xff:5\n"),
    ("source port out of range", b"3 1\n1 0 1 3 1 1:5\n"),
    ("destination port out of range", b"3 1\n1 0 1 0 1 7:5\n"),
    ("zero size", b"3 1\n1 0 1 0 1 1:0\n"),
    ("negative size", b"3 1\n1 0 1 0 1 1:-5\n"),
    ("NaN size", b"3 1\n1 0 1 0 1 1:NaN\n"),
    ("a size beyond all bytes", b"3 1\n1 0 1 0 1 1:99999999999999999999\n"),
    ("a size beyond all bytes in a flow list", b"0 0 1 99999999999999999999 0\n"),
    ("a SWIM table", b"job0\t5\t5\t0\t1048576\t524288\njob1\t9\t4\t7\t1\t2\n"),
    ("CSV without a size", b"src,dst,bytes,start_ms\nweb,db,,0\n"),
    ("CSV without a start", b"src,dst,bytes\nweb,db,7\n"),
    ("infinite size", b"3 1\n1 0 1 0 1 1:inf\n"),
    ("coflow without mappers", b"3 1\n1 0 0 1 1:5\n"),
    ("coflow without reducers", b"3 1\n1 0 1 0 0\n"),
    ("duplicate id", b"3 2\n1 0 1 0 1 1:5\n1 0 1 0 1 1:5\n"),
    ("cut off inside a line", b"3 2\n1 0 1 0 1 1:5\n2 0 1 0 2 1:5"),
    ("cut off between lines", b"3 2\n1 0 1 0 1 1:5\n"),
    ("more coflows than said", b"3 1\n1 0 1 0 1 1:5\n2 0 1 0 1 1:5\n"),
    ("no ports", b"0 1\n1 0 1 0 1 0:5\n"),
    ("negative arrival", b"3 1\n1 -4 1 0 1 1:5\n"),
    ("a million million mappers", b"3 1\n1 0 1000000000000 0 1 1:5\n"),
    ("flow of no bytes", b"0 0 1 0 0\n"),
    ("damaged gzip", b"\x1f\x8b\x08\x00garbage"),
    ("damaged Zstandard", b"\x28\xb5\x2f\xfdgarbage"),
    ("native JSON cut off", b"{\"cavalcade\":"),
    (
        "a cycle of stages",
        b"{\"cavalcade_trace\":1,\"ports\":4}\n{\"name\":\"a\",\"arrival_ns\":0,\"stages\":[{\"starts_after\":[1],\"flows\":[[0,1,8]]},{\"starts_after\":[0],\"flows\":[[1,2,8]]}]}\n",
    ),
    (
        "a stage that is not there",
        b"{\"cavalcade_trace\":1,\"ports\":4}\n{\"name\":\"a\",\"arrival_ns\":0,\"stages\":[{\"flows\":[[0,1,8]]},{\"starts_after\":[7],\"flows\":[[1,2,8]]}]}\n",
    ),
];

#[test]
fn every_bad_trace_is_refused_with_code_3_place_and_cure() {
    let mut messages = String::new();
    for (what, content) in BAD_TRACES {
        let place = Place::new();
        place.write("trace.txt", content);
        let ran = refused(&place, &["compare", "trace.txt", "--report", "report.html"], 3);
        messages += &format!("# {what}\n{}\n", ran.err);
    }
    golden("bad_traces.txt", &messages);
}

#[test]
fn every_command_that_reads_a_trace_refuses_a_bad_one() {
    let place = Place::new();
    place.write("trace.txt", "3 1\n1 0 1 0 1 1:-5\n");
    for arguments in [
        &["simulate", "trace.txt", "--policy", "fair", "--out", "run"][..],
        &["trace", "info", "trace.txt"],
        &["trace", "convert", "trace.txt", "--out", "other.txt"],
    ] {
        let ran = refused(&place, arguments, 3);
        assert!(ran.err.contains("trace.txt:2:"), "{arguments:?}: {}", ran.err);
    }
}

#[test]
fn a_trace_that_is_not_there_is_code_3() {
    let ran = refused(&Place::new(), &["compare", "missing.txt"], 3);
    assert!(ran.err.contains("missing.txt"), "{}", ran.err);
}

#[test]
fn a_fabric_that_cannot_carry_the_trace_is_code_3_and_names_the_cure() {
    let place = Place::new();
    place.write("flows.txt", "1 0 3 1000 0\n");
    let tree = |rest: &str| format!("fabric = \"tree:pods=1,racks=2,hosts=2\"\n[[link]]\n{rest}\n");
    place.write("fails.toml", tree("name = \"pod 0 to rack 1\"\nfailed = true"));
    place.write("zero.toml", tree("name = \"pod 0 to rack 1\"\nrate = \"0bps\""));
    place.write("unknown.toml", tree("name = \"pod 0 to rack 7\"\nfailed = true"));
    place.write("typo.toml", tree("nam = \"pod 0 to rack 1\""));
    for (fabric, says) in [
        ("bigswitch:ports=2", "needs 4 ports, the fabric has 2"),
        ("fails.toml", "no path from port 0 to port 3"),
        ("zero.toml", "capacity of zero"),
        ("unknown.toml", "there is no link \"pod 0 to rack 7\""),
        ("typo.toml", "unknown field"),
        ("missing.toml", "missing.toml"),
        ("tree:pods=1,racks=2,hosts=2;egress of port 3 failed", "no path from port 0 to port 3"),
    ] {
        let ran = refused(&place, &["compare", "flows.txt", "--policies", "fair", "--fabric", fabric], 3);
        assert!(ran.err.contains(says), "{fabric}: {}", ran.err);
    }
    let slow = "tree:pods=1,racks=2,hosts=2;pod 0 to rack 1 rate=1Mbps";
    let json = |fabric: &str| {
        let ran = place.run(&["compare", "flows.txt", "--policies", "fair", "--fabric", fabric, "--json"]);
        assert_eq!(ran.code, 0, "{}", ran.err);
        ran.out
    };
    assert_ne!(json(slow), json("tree:pods=1,racks=2,hosts=2"), "a slow link slows");
}

#[test]
fn a_folder_that_is_no_trace_is_told_from_a_rolling_log() {
    let place = Place::with_trace();
    assert_eq!(place.run(&["simulate", "trace.txt", "--policy", "fair", "--out", "run"]).code, 0);
    let ran = refused(&place, &["compare", "run"], 3);
    assert!(
        ran.err.contains("run is the folder of a run") && ran.err.contains("name the trace's file"),
        "{}",
        ran.err
    );
    std::fs::create_dir(place.path("empty")).unwrap();
    let ran = refused(&place, &["compare", "empty"], 3);
    assert!(ran.err.contains("empty is an empty folder: expected a trace"), "{}", ran.err);
    std::fs::create_dir_all(place.path("logs/deep/deeper")).unwrap();
    let ran = refused(&place, &["compare", "logs"], 3);
    assert!(ran.err.contains("a folder that holds another one without a log of Spark"), "{}", ran.err);
}

#[test]
fn the_sizes_of_flows_come_from_standard_input_too_and_with_whatever_a_spreadsheet_adds() {
    let place = Place::new();
    let plain = "size_bytes,cdf\n100,0.5\n1000,1\n";
    let tuned = |input: &str| {
        let ran = place.run_with_input(&["tune", "thresholds", "--cdf", "-"], input);
        assert_eq!(ran.code, 0, "{}", ran.err);
        ran.out
    };
    for other in ["\u{feff}size_bytes,cdf\r\n100,0.5\r\n1000,1\r\n", "size_bytes, cdf\n100, 0.5\n1000, 1\n"] {
        assert_eq!(tuned(other), tuned(plain));
    }
    let ran = place.run_with_input(&["tune", "thresholds", "--cdf", "-"], "size_bytes,cdf\n100,0.5\n1,2,3\n");
    assert_eq!(ran.code, 3);
    assert!(ran.err.contains("standard input:3: \"1, 2, 3\" is not a size"), "{}", ran.err);
}

#[test]
fn outputs_are_checked_before_the_trace_is_read() {
    let place = Place::new();
    for arguments in [
        &["compare", "missing.txt", "--report", "no/report.html"][..],
        &["compare", "missing.txt", "--report", "."],
        &["compare", "missing.txt", "--out", "no/folder"],
        &["simulate", "missing.txt", "--policy", "fair", "--out", "no/folder"],
        &["simulate", "missing.txt", "--policy", "fair", "--engine", "packet", "--pcap", "no/file.pcap"],
        &["bound", "missing.txt", "--certificate", "no/proof.json"],
    ] {
        let ran = refused(&place, arguments, 1);
        assert!(!ran.err.contains("missing.txt"), "{arguments:?}: {}", ran.err);
    }
}

#[test]
fn a_huge_size_is_no_error() {
    let place = Place::new();
    // 10^12 bytes and far more, in a flow list.
    place.write("flows.txt", "1 0 1 1000000000000 0\n2 1 0 4000000000000000 0\n");
    let ran = place.run(&["compare", "flows.txt", "--policies", "fair,sebf"]);
    assert_eq!(ran.code, 0, "{}", ran.err);
}

#[test]
fn slips_on_the_command_line_are_code_2_and_name_what_was_meant() {
    let place = Place::with_trace();
    place.write("order.txt", "2\n1\n");
    let mut messages = String::new();
    for arguments in [
        &["compare", "trace.txt", "--policies", "dclass"][..],
        &["compare", "trace.txt", "--policies", "fair,quantum"],
        &["compare", "trace.txt", "--policy", "dclas:queue=4"],
        &["compare", "trace.txt", "--policy", "dclas:queues=many"],
        &["compare", "trace.txt", "--policy", "dclas:queues"],
        &["compare", "trace.txt", "--policies", "fair,stf", "--baseline", "fifo"],
        &["compare", "trace.txt", "--rate", "fast"],
        &["compare", "trace.txt", "-x"],
        &["compare", "trace.txt", "--rate", "0bps"],
        &["compare", "trace.txt", "--control-loss", "2"],
        &["compare", "trace.txt", "--format", "xml"],
        &["compare", "trace.txt", "--assert", "p99(cct) < 2"],
        &["compare", "trace.txt", "--assert", "p99(cct < 2s"],
        &["compare", "trace.txt", "--policies", "fair", "--assert", "stf: mean(cct) < 2s"],
        &["compare"],
        &["compair", "trace.txt"],
        &["simulate", "trace.txt"],
        &["simulate", "trace.txt", "--policy", "fair", "--dump-schedule"],
        &["compare", "trace.txt", "--policies", "order"],
        &["compare", "trace.txt", "--policies", "order:"],
        &["compare", "trace.txt", "--policies", "order:order.txt,discipline=fair"],
        &["compare", "trace.txt", "--policies", "order:order.txt", "--engine", "control"],
        &["policies", "order"],
        &["trace", "generate", "facebok"],
        &["trace", "generate", "facebook:coflow=3"],
        &["trace", "generate", "facebook:coflows=-3"],
    ] {
        let ran = refused(&place, arguments, 2);
        messages += &format!("$ cavalcade {}\n{}\n", arguments.join(" "), ran.err);
    }
    golden("usage_errors.txt", &messages);
}

/// Orders of coflows that no command may accept.
const BAD_ORDERS: &[(&str, &[u8])] = &[
    ("empty", b"# nothing\n\n"),
    ("a name that no coflow has", b"2\n\n11\n"),
    ("a name that is like none", b"shuffle of the third query\n"),
    ("a name twice", b"# by hand\n2\n1\n2\n"),
    ("not UTF-8", b"2\n\xff\n"),
];

#[test]
fn every_bad_order_is_refused_with_code_3_place_and_cure() {
    let place = Place::with_trace();
    let mut messages = String::new();
    let refused_order = |place: &Place| {
        refused(place, &["compare", "trace.txt", "--policies", "fair,order:order.txt", "--out", "out"], 3)
    };
    messages += &format!("# missing\n{}\n", refused_order(&place).err);
    for (name, text) in BAD_ORDERS {
        place.write("order.txt", text);
        messages += &format!("# {name}\n{}\n", refused_order(&place).err);
    }
    golden("bad_orders.txt", &messages);
}

#[test]
fn a_claim_that_does_not_hold_is_code_4_and_names_the_figure() {
    let place = Place::with_trace();
    let ran = place.run(&["compare", "trace.txt", "--policies", "fair,stf", "--assert", "mean(cct) < 1ms"]);
    assert_eq!(ran.code, 4);
    assert!(
        ran.err.contains("mean(cct)") && ran.err.contains("fair") && ran.err.contains("stf"),
        "{}",
        ran.err
    );
    let ran = place.run(&["compare", "trace.txt", "--policies", "fair", "--assert", "mean(cct) < 1h"]);
    assert_eq!((ran.code, ran.err.as_str()), (0, ""));
}

#[test]
fn an_output_that_cannot_be_written_is_code_1_and_leaves_nothing() {
    let place = Place::with_trace();
    let ran = place.run(&["compare", "trace.txt", "--policies", "fair", "--report", "missing/report.html"]);
    assert_eq!(ran.code, 1, "{}", ran.err);
    assert!(ran.err.contains("missing/report.html"), "{}", ran.err);
    let simulate = ["simulate", "trace.txt", "--policy", "fair", "--out", "trace.txt"];
    assert_eq!(place.run(&simulate).code, 1);
    assert_eq!((place.names(), place.read("trace.txt")), (vec!["trace.txt".to_owned()], TRACE.into()));
}
