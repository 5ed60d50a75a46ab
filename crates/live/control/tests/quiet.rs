//! A coflow that its agent keeps to itself while it is small, and first reports long after it
//! began.

#![allow(clippy::unwrap_used, reason = "a helper of tests fails by panicking")]

use cavalcade_control::*;
use cavalcade_model::{BitsPerSec, Bytes, Instant, Nanos, PortId};
use cavalcade_protocol::{CoflowEntry, CoflowKey, Report};

const RATE: BitsPerSec = BitsPerSec(1_000_000_000);
const BEGIN: Instant = Instant(1_000_000_000_000);

/// The first report of a host, with one coflow.
fn report(now: Instant, port: u32, serial: u64) -> Report {
    let entry = CoflowEntry { key: CoflowKey::new(serial, &[]), facts: None, sent: Bytes(1), owner: 1 };
    Report {
        snapshot: true,
        coflows: [(0, entry)].into_iter().collect(),
        ..Report::new(PortId(port), 1, 1, now, RATE)
    }
}

#[test]
fn a_coflow_that_was_too_small_to_be_reported_for_an_hour_is_taken_in_when_it_has_grown() {
    let is_known = |quiet| {
        let config = CoordinatorConfig { quiet, ..CoordinatorConfig::new(1, 3, RATE) };
        let policy = Box::new(cavalcade_policy::parse("dclas").unwrap());
        let mut coordinator = Coordinator::new(config, policy);
        let (serial, later) = (BEGIN.0 + 1, BEGIN + Nanos::from_secs(3_600));
        coordinator.handle_report(BEGIN, report(BEGIN, 0, BEGIN.0));
        coordinator.handle_report(later, report(later, 1, serial));
        coordinator.status().any(|coflow| coflow.key.serial == serial)
    };
    assert!(is_known(Bytes(10_000_000)));
    assert!(!is_known(Bytes::ZERO), "where all are reported at once, none can be late");
}
