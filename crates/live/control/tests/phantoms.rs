//! A host with a valid certificate that has flows open which never move, and does something to be
//! waited for again before they are found out.

#![allow(clippy::unwrap_used, reason = "a helper of tests fails by panicking")]

use cavalcade_control::*;
use cavalcade_model::{BitsPerSec, Bytes, Instant, Nanos, PortId};
use cavalcade_protocol::{CoflowEntry, CoflowKey, FlowEntry, Gate, Report};

const RATE: BitsPerSec = BitsPerSec(1_000_000_000);
const BEGIN: Instant = Instant(1_000_000_000_000);
const STEP: Nanos = Nanos::from_millis(10);
const RECEIVER: PortId = PortId(2);

/// The number of the honest host's coflow, and one a little older.
const HONEST: u64 = BEGIN.0;
const OLDER: u64 = BEGIN.0 - 1_000_000;

/// A snapshot of a host with flows to the receiver that have sent nothing, each of a coflow of its
/// own; the numbers of those begin at `serial`.
fn snapshot(now: Instant, port: u32, session: u64, serial: u64, flows: &[u32], idle: bool) -> Report {
    let sent = Bytes::ZERO;
    let key = |flow: u32| CoflowKey::new(serial + u64::from(flow), &[]);
    let entry = |&flow: &u32| (flow, CoflowEntry { key: key(flow), facts: None, sent, owner: 1 });
    let open = |&flow: &u32| (flow, FlowEntry { coflow: flow, to: RECEIVER, size: None, sent, idle });
    Report {
        snapshot: true,
        coflows: flows.iter().map(entry).collect(),
        flows: flows.iter().map(open).collect(),
        ..Report::new(PortId(port), session, now.0, now, RATE)
    }
}

/// Returns for how many of 5,000 ms an honest flow waits behind those of a host that says `phantom`
/// every 50 ms; its arguments are the time and how often the host has spoken.
fn waited(phantom: impl Fn(Instant, u32) -> Report) -> u64 {
    waited_where(CoordinatorConfig::new(1, 3, RATE), phantom)
}

/// The same with a coordinator of this configuration.
fn waited_where(config: CoordinatorConfig, phantom: impl Fn(Instant, u32) -> Report) -> u64 {
    let factory = Box::new(cavalcade_policy::parse("fifo").unwrap());
    let mut coordinator = Coordinator::new(config, factory);
    let mut waited = 0;
    for step in 0..500 {
        let now = Instant(BEGIN.0 + u64::from(step) * STEP.0);
        if step % 5 == 0 {
            coordinator.handle_report(now, phantom(now, step / 5));
            coordinator.handle_report(now, snapshot(now, 0, 1, HONEST, &[0], false));
        }
        coordinator.handle_timeout(now);
        while coordinator.poll_orders().is_some() {}
        let all: Vec<CoflowStatus> = coordinator.status().collect();
        let own = all.iter().find(|coflow| coflow.key.serial == HONEST).unwrap();
        waited += u64::from(own.flows[0].gate == Gate::Off {}) * STEP.0 / 1_000_000;
    }
    waited
}

/// Time in milliseconds that a host is waited for once: the stall, and half of that until a look.
const ONCE: std::ops::RangeInclusive<u64> = 500..=750;

#[test]
fn phantom_flows_of_one_session_after_the_other_hold_others_once() {
    let waited = waited(|now, times| {
        let session = times / 6;
        snapshot(now, 1, 1 + u64::from(session), OLDER, &[session], false)
    });
    assert!(ONCE.contains(&waited), "{waited} ms");
}

#[test]
fn phantom_flows_that_are_replaced_within_a_session_hold_others_once() {
    let waited = waited(|now, times| snapshot(now, 1, 1, OLDER, &[times / 6], false));
    assert!(ONCE.contains(&waited), "{waited} ms");
}

#[test]
fn phantom_flows_that_are_new_in_every_report_hold_others_once() {
    let waited = waited(|now, times| snapshot(now, 1, 1, OLDER, &[times], false));
    assert!(ONCE.contains(&waited), "{waited} ms");
}

#[test]
fn a_phantom_flow_that_runs_dry_and_comes_to_again_holds_others_once() {
    let waited = waited(|now, times| snapshot(now, 1, 1, OLDER, &[0], times % 6 == 5));
    assert!(ONCE.contains(&waited), "{waited} ms");
}

#[test]
fn phantom_flows_that_are_gone_at_every_look_hold_others_once() {
    let waited = waited(|now, times| {
        let flows: &[u32] = if times % 5 == 0 { &[] } else { &[times / 5] };
        snapshot(now, 1, 1, OLDER, flows, false)
    });
    assert!(ONCE.contains(&waited), "{waited} ms");
}

#[test]
fn phantom_flows_that_wait_for_each_other_hold_others_once() {
    let flows: Vec<u32> = (0..100).collect();
    let waited = waited(|now, _| snapshot(now, 1, 1, OLDER, &flows, false));
    assert!((500..=2_000).contains(&waited), "{waited} ms: a period for each of 100 flows comes on top");
}

/// Phantom flows of user 1, each in the other's place after 250 ms, beside a flow of user 2 of that
/// host which moves all the time.
fn beside_another_user(now: Instant, times: u32) -> Report {
    let mut report = snapshot(now, 1, 1, OLDER, &[times / 5], false);
    let (number, key) = (u32::MAX, CoflowKey::new(HONEST + 1, &[]));
    let sent = Bytes(1 + 1_000 * u64::from(times));
    let entry = CoflowEntry { key, facts: None, sent: Bytes::ZERO, owner: 2 };
    let flow = FlowEntry { coflow: number, to: PortId(0), size: None, sent, idle: false };
    report.coflows =
        report.coflows.iter().map(|(number, entry)| (number, *entry)).chain([(number, entry)]).collect();
    report.flows =
        report.flows.iter().map(|(number, flow)| (number, *flow)).chain([(number, flow)]).collect();
    report
}

#[test]
fn phantom_flows_of_one_user_hold_others_once_though_another_user_of_the_host_has_flows_that_move() {
    let waited = waited(beside_another_user);
    assert!(ONCE.contains(&waited), "{waited} ms");
}

#[test]
fn a_host_that_names_another_user_for_each_phantom_flow_is_waited_for_once() {
    let waited = waited(|now, times| {
        let mut report = snapshot(now, 1, 1, OLDER, &[times / 5], false);
        let owner = times / 5;
        report.coflows =
            report.coflows.iter().map(|(number, entry)| (number, CoflowEntry { owner, ..*entry })).collect();
        report
    });
    assert!(ONCE.contains(&waited), "{waited} ms");
}

/// The phantom flows of a host that says of each that it moves, and has another in its place every
/// 250 ms.
fn said_to_move(now: Instant, times: u32) -> Report {
    let mut report = snapshot(now, 1, 1, OLDER, &[times / 5], false);
    let sent = Bytes(1 + 1_000 * u64::from(times));
    report.flows = report.flows.iter().map(|(flow, entry)| (flow, FlowEntry { sent, ..*entry })).collect();
    report
}

#[test]
fn phantom_flows_that_are_said_to_move_and_replaced_hold_others_once_where_receivers_are_asked() {
    let config = CoordinatorConfig { confirm: true, ..CoordinatorConfig::new(1, 3, RATE) };
    let waited = waited_where(config, said_to_move);
    assert!(ONCE.contains(&waited), "{waited} ms");
}

#[test]
fn where_receivers_are_not_asked_a_host_is_believed_that_says_that_its_flows_move() {
    let waited = waited(said_to_move);
    assert!(waited > 4_000, "{waited} ms: docs/threats.md says that this is open without --confirm");
}
