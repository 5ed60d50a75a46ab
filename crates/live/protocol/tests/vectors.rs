//! The client protocol as bytes, in a file that the clients of all languages are tested against:
//! `clients/vectors.txt`.
//!
//! A line has who speaks, what is said, and the frame in hexadecimal digits.
//! `CAVALCADE_GOLDEN=rewrite` rewrites the file.

#![allow(clippy::unwrap_used, reason = "a helper of tests fails by panicking")]

use std::net::SocketAddr;
use std::path::Path;

use cavalcade_model::{BitsPerSec, Bytes, Instant, Nanos, PortId, TaskClass};
use cavalcade_protocol::*;

const KEY: CoflowKey = CoflowKey { task: 1_000, stage: 2, serial: 1_300 };
fn facts() -> Facts {
    Facts {
        arrival: Instant(1_700_000_000_000_000_000),
        deadline: Some(Instant(1_700_000_001_000_000_000)),
        size: Some(Bytes(1 << 40)),
        class: TaskClass::Background,
        weight: 3,
        name: Some("sort-7".parse().unwrap()),
    }
}

fn line(speaker: &str, what: &str, message: &impl Message) -> String {
    let mut bytes = Vec::new();
    frame(message, &mut bytes).unwrap();
    let digits: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    format!("{speaker}\t{what}\t{digits}\n")
}

fn client_lines() -> String {
    let ends = |local: &str, remote: &str| Endpoints {
        local: local.parse::<SocketAddr>().unwrap(),
        remote: remote.parse::<SocketAddr>().unwrap(),
    };
    let (v4, v6) = (ends("10.0.0.1:40000", "10.0.0.2:7337"), ends("[fe80::1]:1", "[2001:db8::2]:65535"));
    let class = TaskClass::Online;
    let (deadline, size) = (Some(Nanos(250_000_000)), Some(Bytes(5)));
    let (request, parents) = (300, vec![KEY, CoflowKey { task: 7, stage: 0, serial: 5 }]);
    let bare = ClientMessage::Register {
        request: 0,
        parents: Vec::new(),
        deadline: None,
        size: None,
        class,
        weight: 1,
        name: None,
    };
    let (class, name) = (TaskClass::Background, Some("query72/stage3@worker-1".parse().unwrap()));
    let full = ClientMessage::Register { request, parents, deadline, size, class, weight: 9, name };
    let messages = [
        ("hello", ClientMessage::Hello { protocol: PROTOCOL, client: u64::MAX }),
        ("register", bare),
        ("register with all", full),
        ("join", ClientMessage::Join { coflow: KEY, facts: None, sent: Bytes(0) }),
        ("join with all", ClientMessage::Join { coflow: KEY, facts: Some(facts()), sent: Bytes(128) }),
        ("unregister", ClientMessage::Unregister { coflow: KEY }),
        ("open", ClientMessage::Open { flow: 1, coflow: KEY, ends: v4, size: None, sent: Bytes(0) }),
        ("open with all", ClientMessage::Open { flow: 2, coflow: KEY, ends: v6, size, sent: Bytes(4) }),
        ("sent", ClientMessage::Sent { flow: 127, sent: Bytes(127), idle: false }),
        ("sent idle", ClientMessage::Sent { flow: 128, sent: Bytes(16_384), idle: true }),
        ("close", ClientMessage::Close { flow: 2, sent: Bytes(u64::MAX) }),
        ("grant", ClientMessage::Grant { coflow: KEY, user: 1_001 }),
    ];
    messages.iter().map(|(what, message)| line("client", what, message)).collect()
}

fn agent_lines() -> String {
    let direct = |flow, gate, class| AgentMessage::Direct { flow, directive: Directive { gate, class } };
    let refused = |subject, refusal| AgentMessage::Refused { subject, refusal };
    let welcome = AgentMessage::Welcome {
        protocol: PROTOCOL,
        port: PortId(3),
        period: Nanos(10_000_000),
        lease: Nanos(500_000_000),
    };
    let paced = Gate::Paced { rate: BitsPerSec(1_000_000_000) };
    let mut messages = vec![
        ("welcome 10000000 500000000".to_owned(), welcome),
        (
            "registered 4 1000.2.1300".to_owned(),
            AgentMessage::Registered { request: 4, coflow: KEY, facts: facts() },
        ),
        ("direct 1 off 0".to_owned(), direct(1, Gate::Off {}, Some(0))),
        ("direct 2 open 7".to_owned(), direct(2, Gate::Open {}, Some(7))),
        ("direct 3 paced 1000000000 1".to_owned(), direct(3, paced, Some(1))),
        ("direct 4 open none".to_owned(), direct(4, Gate::Open {}, None)),
        ("alive".to_owned(), AgentMessage::Alive {}),
    ];
    let mut refusals = vec![
        (Subject::Connection {}, Refusal::Protocol { ours: PROTOCOL + 1 }),
        (Subject::Coflow { coflow: KEY }, Refusal::NotYours {}),
        (Subject::Flow { flow: 300 }, Refusal::BadFlow {}),
        (Subject::Connection {}, Refusal::OutOfTurn {}),
    ];
    let limits =
        Limit::ALL.map(|of| (Subject::Request { request: 9 }, Refusal::TooMany { of, limit: 65_536 }));
    refusals.extend(limits);
    for (subject, refusal) in refusals {
        messages.push((format!("refused {subject}: {refusal}"), refused(subject, refusal)));
    }
    messages.iter().map(|(what, message)| line("agent", what, message)).collect()
}

#[test]
fn the_vectors_that_clients_are_tested_against_are_what_this_crate_writes() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../clients/vectors.txt");
    let written = client_lines() + &agent_lines();
    if std::env::var_os("CAVALCADE_GOLDEN").is_some_and(|value| value == "rewrite") {
        std::fs::write(&path, &written).unwrap();
    }
    assert_eq!(std::fs::read_to_string(&path).unwrap(), written);
}
