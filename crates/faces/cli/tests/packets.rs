//! The packet engine from the command line: the output of the fluid one, and what is said where
//! something cannot be.

#![allow(clippy::unwrap_used, reason = "a test whose scene cannot be set has failed")]

mod support;

use serde_json::Value;
use support::Place;

fn runs(place: &Place, extra: &[&str]) -> Vec<Value> {
    runs_of(place, "fair,sebf", extra)
}

fn runs_of(place: &Place, policies: &str, extra: &[&str]) -> Vec<Value> {
    let ran = place.run(&[&["compare", "trace.txt", "--json", "--policies", policies], extra].concat());
    assert_eq!(ran.code, 0, "{}", ran.err);
    let document: Value = serde_json::from_str(&ran.out).unwrap();
    document["runs"].as_array().unwrap().clone()
}

const PACKETS: &[&str] = &["--engine", "packet", "--rate", "10Gbps"];

#[test]
fn runs_over_packets_have_the_keys_of_fluid_ones_and_name_engine_and_transport() {
    let place = Place::with_trace();
    let fluid = runs(&place, &["--rate", "10Gbps"]);
    let packets = runs(&place, &[PACKETS, &["--transport", "dctcp,pfabric"]].concat());
    assert_eq!((fluid.len(), packets.len()), (2, 4));
    let keys = |run: &Value| run.as_object().unwrap().keys().cloned().collect::<Vec<_>>();
    let more = ["engine", "transport", "transport_params", "fct", "deadlines", "queues"];
    for run in &packets {
        assert_eq!(run["engine"], "packet");
        assert!(run["transport_params"]["buffer"].is_string());
        // The trace has flows of 1 MB and more only.
        assert!(run["fct"]["to_100KB"].is_null());
        assert!(run["fct"]["to_10MB"]["p99_s"].as_f64().unwrap() > 0.0);
        assert_eq!(run["deadlines"]["tasks"], 0);
        let queues = &run["queues"];
        let number = |value: &Value| value.as_f64().unwrap();
        assert!((0.05..=1.0).contains(&number(&queues["utilisation"]["max"])), "{queues}");
        let occupancy = &queues["occupancy"];
        assert!(number(&occupancy["p50_bytes"]) <= number(&occupancy["p99_bytes"]));
        assert!(number(&occupancy["p99_bytes"]) <= number(&occupancy["max_bytes"]));
        assert_eq!(queues["fullest"].as_array().unwrap().len(), 3, "one port for each host");
        assert!(queues["fullest"][0]["port"].as_str().unwrap().starts_with("egress of port"));
        let mut without = keys(run);
        without.retain(|key| !more.contains(&key.as_str()));
        assert_eq!(without, keys(&fluid[0]));
    }
    // Headers and acknowledgements cost some 4 %; nothing here waits for a timeout.
    let mean = |runs: &[Value], transport: Option<&str>| {
        let transport = transport.map_or(Value::Null, Value::from);
        let run = runs.iter().find(|run| run["policy"] == "fair" && run["transport"] == transport).unwrap();
        run["cct"]["mean_s"].as_f64().unwrap()
    };
    let (flows, dctcp) = (mean(&fluid, None), mean(&packets, Some("dctcp")));
    assert!((1.02..1.15).contains(&(dctcp / flows)), "{dctcp} s over packets, {flows} s as a fluid");
}

#[test]
fn packets_cross_the_fabric_that_is_named_and_share_what_it_oversubscribes() {
    let place = Place::with_trace();
    let rate = ["--rate", "10Gbps"];
    let mean = |fabric: &str, extra: &[&str]| {
        let fabric = ["--fabric", fabric];
        let runs = runs_of(&place, "fair", &[&fabric[..], &rate, extra].concat());
        runs.iter().find(|run| run["policy"] == "fair").unwrap()["cct"]["mean_s"].as_f64().unwrap()
    };
    let packets = ["--engine", "packet"];
    let level = mean("leafspine:leaves=3,spines=1,hosts=1", &packets);
    let short = "leafspine:leaves=3,spines=1,hosts=1,oversubscription=4";
    let (over, fluid) = (mean(short, &packets), mean(short, &[]));
    assert!(over > 2.0 * level, "uplinks of a quarter are felt: {over} s, not {level} s");
    assert!((0.9..1.3).contains(&(over / fluid)), "{over} s over packets, {fluid} s as a fluid");
}

#[test]
fn a_run_over_packets_replays_bit_for_bit() {
    let place = Place::with_trace();
    let arguments = [
        "simulate",
        "trace.txt",
        "--policy",
        "dcas",
        "--in-band",
        "--out",
        "run",
        "--transport",
        "pfabric:window=10",
    ];
    let ran = place.run(&[&arguments[..], PACKETS].concat());
    assert_eq!(ran.code, 0, "{}", ran.err);
    let ran = place.run(&["replay", "run"]);
    assert_eq!((ran.code, ran.err.as_str()), (0, ""));
    assert!(String::from_utf8(place.read("run/manifest.json")).unwrap().contains("pfabric:window=10,"));
}

#[test]
fn what_packets_cannot_do_is_said_before_anything_is_run() {
    let place = Place::with_trace();
    let refusal = |arguments: &[&str]| {
        let ran = place.run(&[&["compare", "trace.txt"], arguments].concat());
        assert_eq!((ran.code, ran.out.as_str()), (2, ""), "{}", ran.err);
        ran.err
    };
    assert!(refusal(&["--transport", "dctcp"]).contains("add --engine packet"));
    assert!(refusal(&["--engine", "packet", "--transport", "cubic"]).contains("known are reno, dctcp"));
    assert!(
        refusal(&["--engine", "packet", "--transport", "dctcp:marking=1GB"]).contains("less than the buffer")
    );
    assert!(refusal(&["--engine", "packet", "--policy", "las:at=link"]).contains("use the fluid engine"));
    let packets = |arguments: &[&str]| refusal(&[&["--engine", "packet"], arguments].concat());
    assert!(packets(&["--transport", "dctcp:buffer=1KB,marking=0B"]).contains("at least 1500B"));
    assert!(packets(&["--transport", "reno:buffer=0B"]).contains("holds no packet of 1500 bytes"));
    assert!(packets(&["--policy", "dcas", "--in-band", "--mtu", "1KB"]).contains("make packets larger"));
    assert!(packets(&["--mtu", "40B"]).contains("expected 1 B <= headers < mtu"));
    assert!(packets(&["--headers", "0B"]).contains("expected 1 B <= headers < mtu"));
    assert!(packets(&["--mtu", "70KB"]).contains("at most 65535B"));
    assert!(packets(&["--rate", "0bps"]).contains("capacity of zero"));
    assert!(packets(&["--rate", "999bps"]).contains("too slow"));
    assert!(packets(&["--link-delay", "-1us"]).contains("invalid value '-1us'"));
    assert!(packets(&["--link-delay", "11s"]).contains("at most 10s"));
    let narrow = "leafspine:leaves=2,spines=1,hosts=2,rate=1Gbps,oversubscription=3000000";
    assert!(packets(&["--fabric", narrow]).contains("leaf 0 to spine 0 is too slow"));
}

/// A packet as a capture file holds it.
#[derive(Debug)]
struct Captured {
    nanos: u64,
    /// From the first byte of IP on.
    bytes: Vec<u8>,
    length: u32,
}

/// Reads a capture as its format is described by its authors, with nothing of the writer's.
fn read_capture(file: &[u8]) -> Vec<Captured> {
    let number = |at: usize| u32::from_le_bytes(file[at..at + 4].try_into().unwrap());
    assert_eq!((number(0), number(20)), (0xa1b2_3c4d, 101), "nanoseconds, bare IP");
    let (mut packets, mut at) = (Vec::new(), 24);
    while at < file.len() {
        let captured = number(at + 8) as usize;
        let nanos = u64::from(number(at)) * 1_000_000_000 + u64::from(number(at + 4));
        let bytes = file[at + 16..at + 16 + captured].to_vec();
        packets.push(Captured { nanos, bytes, length: number(at + 12) });
        at += 16 + captured;
    }
    packets
}

#[test]
fn what_crosses_a_link_can_be_captured_and_read_by_others() {
    let place = Place::with_trace();
    let simulate = ["simulate", "trace.txt", "--policy", "fair", "--pcap", "packets.pcap"];
    let ran = place.run(&[&simulate[..], PACKETS, &["--pcap-link", "egress of port 2"]].concat());
    assert_eq!(ran.code, 0, "{}", ran.err);
    let packets = read_capture(&place.read("packets.pcap"));
    assert!(packets.windows(2).all(|pair| pair[0].nanos <= pair[1].nanos), "in order of time");
    let mut payload = 0;
    for packet in &packets {
        assert_eq!(packet.bytes.len(), 40);
        let total = u32::from(u16::from_be_bytes([packet.bytes[2], packet.bytes[3]]));
        assert_eq!(packet.length, total);
        assert_eq!(packet.bytes[16..20], [10, 0, 0, 3], "all of them go to port 2");
        payload += packet.length - 40;
    }
    // Of coflow 1 it is sent 30 MB, of coflow 2 another 8, and nothing is lost or sent twice.
    assert_eq!(payload, 38 * 1_048_576);
}

/// The fields that tshark reads in the packets of a capture that match `filter`: a line for each
/// packet. Where tshark is not installed the test is reported as skipped.
fn tshark(place: &Place, file: &str, filter: &str, fields: &[&str]) -> Option<Vec<Vec<String>>> {
    let script =
        concat!("lua_script:", env!("CARGO_MANIFEST_DIR"), "/../../../docs/wireshark/cavalcade_spc.lua");
    let mut command = std::process::Command::new("tshark");
    command.args(["-X", script, "-o", "ip.check_checksum:TRUE", "-o", "udp.check_checksum:TRUE", "-r"]);
    command.arg(place.path(file)).args(["-Y", filter, "-T", "fields"]);
    command.args(fields.iter().flat_map(|field| ["-e", field]));
    let output = match command.output() {
        Ok(output) => output,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            cavalcade_testing::skipped("tshark (Debian: tshark)");
            return None;
        }
        Err(error) => panic!("{error}"),
    };
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success() && !said.contains("Lua: ") && !said.contains("rror"), "{said}");
    let text = String::from_utf8(output.stdout).unwrap();
    Some(text.lines().map(|line| line.split('\t').map(str::to_owned).collect()).collect())
}

/// The dissector in `docs/wireshark` against the bytes of every packet.
#[test]
fn the_dissector_reads_baraats_header_as_it_is_written() {
    let place = Place::new();
    // Some hundreds of packets of two tasks: tshark takes its time.
    place.write("small.txt", "3 2\n1 0 2 0 1 1 2:0.5\n2 0 1 1 1 2:0.25\n");
    let simulate = ["simulate", "small.txt", "--policy", "fair", "--pcap", "packets.pcap"];
    let spc = ["--transport", "spc", "--headers", "68B", "--pcap-link", "egress of port 2"];
    let ran = place.run(&[&simulate[..], PACKETS, &spc].concat());
    assert_eq!(ran.code, 0, "{}", ran.err);
    let packets = read_capture(&place.read("packets.pcap"));
    let fields =
        ["spc.task", "spc.scale", "spc.asks", "spc.hops", "spc.nominal", "spc.demand", "_ws.col.Protocol"];
    let Some(read) = tshark(&place, "packets.pcap", "spc", &fields) else { return };
    assert_eq!(read.len(), packets.len(), "every packet has the header");
    for (packet, line) in packets.iter().zip(&read) {
        let own = &packet.bytes[22..48];
        let unit = 250_000u64 << (own[4] & 15);
        let task = u32::from_be_bytes([own[0], own[1], own[2], own[3]]);
        let hops = usize::from(own[23] & 7);
        let nominal: Vec<_> =
            (0..hops).map(|port| (u64::from(own[5 + 2 * port]) * unit).to_string()).collect();
        let expected = [
            task.to_string(),
            (own[4] & 15).to_string(),
            (own[4] >> 6 & 1).to_string(),
            hops.to_string(),
            nominal.join(","),
            (u64::from(own[24]) * unit).to_string(),
            "SPC".to_owned(),
        ];
        assert_eq!(*line, expected);
    }
    assert!(read.iter().any(|line| line[3] == "2"), "hops are counted");
    let wrong = "_ws.malformed || ip.checksum.status == \"Bad\"";
    assert_eq!(tshark(&place, "packets.pcap", wrong, &["frame.number"]), Some(Vec::new()));
}

/// The dissector against frames as live hosts send them, behind UDP.
#[test]
fn the_dissector_reads_frames_of_live_hosts() {
    use cavalcade_model::BitsPerSec;
    use cavalcade_transport::spc::{Returned, SpcHeader};
    use cavalcade_transport::stream::frame::{Frame, FrameKind, Rates};

    let asking = SpcHeader::new(77, 3).asking(1, 200, &Returned::default());
    let shared = SpcHeader::new(78, 0).with_rate(BitsPerSec(12_345_678));
    let data =
        Frame { segment: 9, payload: b"bytes", last: true, ..Frame::new(FrameKind::Data, 0xab_cdef, asking) };
    let fair = Frame { rates: Rates::OfFlows, ..Frame::new(FrameKind::Probe, 1, shared) };
    let mut file = Vec::new();
    // The head of a capture: its magic, version 2.4, no zone, 65,535 bytes at most, IP packets.
    for word in [0xa1b2_c3d4, 2 | 4 << 16, 0, 0, 65_535, 101u32] {
        file.extend(word.to_ne_bytes());
    }
    for frame in [data, fair] {
        let mut bytes = Vec::new();
        frame.encode(&mut bytes);
        let length = 28 + bytes.len() as u16;
        let mut packet = vec![0x45, 0];
        packet.extend(length.to_be_bytes());
        packet.extend([0, 0, 0x40, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
        packet.extend([4_211, 4_212, length - 20, 0].iter().flat_map(|field: &u16| field.to_be_bytes()));
        packet.extend(bytes);
        for word in [0, 0, packet.len() as u32, packet.len() as u32] {
            file.extend(word.to_ne_bytes());
        }
        file.extend(packet);
    }
    let place = Place::new();
    place.write("live.pcap", file);
    let fields = [
        "spc.task",
        "spc.kind",
        "spc.last",
        "spc.connection",
        "spc.segment",
        "spc.demand",
        "spc.rate",
        "spc.payload",
    ];
    let Some(read) = tshark(&place, "live.pcap", "spc", &fields) else { return };
    let is_set = |text: &str| ["1", "True"].contains(&text);
    assert_eq!(
        [&read[0][0], &read[0][1], &read[0][4], &read[0][5], &read[0][7]],
        ["77", "0", "9", "400000000", "6279746573"]
    );
    assert!(is_set(&read[0][2]) && read[0][3].ends_with("abcdef"), "{read:?}");
    assert_eq!([&read[1][0], &read[1][1], &read[1][6]], ["78", "2", "12345678"]);
}

/// Hosts negotiate in datagrams: counted in every output, and to be seen in a capture.
#[test]
fn hosts_negotiate_over_the_network_and_the_output_says_what_that_costs() {
    let place = Place::with_trace();
    let in_band = runs_of(&place, "dcas,fair", &[PACKETS, &["--in-band"]].concat());
    let of = |policy: &str| in_band.iter().find(|run| run["policy"] == policy).unwrap();
    let said = &of("dcas")["negotiation"];
    let number = |key: &str| said[key].as_f64().unwrap();
    assert!(number("datagrams") > 0.0 && number("statements") >= number("datagrams"), "{said}");
    assert_eq!(number("arrived"), number("datagrams"));
    // At 10 Gbps over two links of 1 µs, behind one packet of data on each at most.
    assert!((2e-6..5e-6).contains(&number("mean_delay_s")) && number("max_delay_s") < 1e-3, "{said}");
    assert!(number("link_share") > 0.0 && number("link_share") < 0.01, "{said}");
    assert_eq!(of("fair")["negotiation"]["datagrams"], 0, "its instance stands alone");
    let out_of_band = runs_of(&place, "dcas,fair", PACKETS);
    assert!(out_of_band.iter().all(|run| run["negotiation"].is_null()));
    let simulate = ["simulate", "trace.txt", "--policy", "dcas", "--in-band", "--pcap", "packets.pcap"];
    let ran = place.run(&[&simulate[..], PACKETS, &["--pcap-link", "egress of port 2"]].concat());
    assert_eq!(ran.code, 0, "{}", ran.err);
    assert!(ran.out.contains("negotiation") && ran.out.contains("mean delay"), "{}", ran.out);
    let udp = read_capture(&place.read("packets.pcap")).iter().filter(|packet| packet.bytes[9] == 17).count();
    assert!(udp > 0, "datagrams are in the capture");
    if let Some(read) = tshark(&place, "packets.pcap", "udp.checksum.status == \"Good\"", &["udp.dstport"]) {
        assert_eq!((read.len(), read[0][0].as_str()), (udp, "5000"));
    }
}

#[test]
fn a_capture_that_cannot_be_made_leaves_nothing() {
    let place = Place::with_trace();
    let refused = |arguments: &[&str]| {
        let simulate = ["simulate", "trace.txt", "--policy", "fair", "--pcap", "packets.pcap"];
        let ran = place.run(&[&simulate[..], arguments].concat());
        assert_eq!((ran.code, ran.out.as_str()), (2, ""), "{}", ran.err);
        assert_eq!(place.names(), ["trace.txt"]);
        ran.err
    };
    assert!(refused(&[]).contains("add --engine packet"));
    let spc = ["--engine", "packet", "--transport", "spc"];
    assert!(refused(&spc).contains("add --headers 68B"));
    let nowhere = ["--engine", "packet", "--pcap-link", "egress of port 9"];
    assert!(refused(&nowhere).contains("there is no link"));
}
