//! Numbers that agents give to coflows and flows, used in ways that no honest agent does.

use cavalcade_control::*;
use cavalcade_model::{BitsPerSec, Bytes, Instant, PortId};
use cavalcade_protocol::{CoflowEntry, CoflowKey, FlowEntry, Report};

const RATE: BitsPerSec = BitsPerSec(1_000_000_000);
const NOW: Instant = Instant(1_000_000_000);
const FIRST: CoflowKey = CoflowKey { task: 5, stage: 0, serial: 5 };
const SECOND: CoflowKey = CoflowKey { task: 7, stage: 0, serial: 7 };

/// The report of host 0 that its coflow 1 is `coflow`.
fn report(session: u64, sequence: u64, coflow: CoflowKey) -> Report {
    let entry = CoflowEntry { key: coflow, facts: None, sent: Bytes::ZERO, owner: 1 };
    Report {
        snapshot: sequence == 1,
        coflows: [(1, entry)].into_iter().collect(),
        ..Report::new(PortId(0), session, sequence, NOW, RATE)
    }
}

/// Found by fuzzing sequences of messages: the coordinator looked for the coflow of a flow that had
/// lost it, and ended.
#[test]
fn a_number_that_means_another_coflow_takes_the_flows_of_the_former_with_it() {
    let policy = cavalcade_policy::parse("fifo").expect("it is a policy");
    let mut coordinator = Coordinator::new(CoordinatorConfig::new(1, 2, RATE), Box::new(policy));
    let flow = FlowEntry { coflow: 1, to: PortId(1), size: None, sent: Bytes(9), idle: false };
    coordinator
        .handle_report(NOW, Report { flows: [(3, flow)].into_iter().collect(), ..report(1, 1, FIRST) });
    let known = |coordinator: &Coordinator| {
        coordinator.status().map(|coflow| (coflow.key, coflow.flows.len())).collect::<Vec<_>>()
    };
    assert_eq!(known(&coordinator), [(FIRST, 1)]);
    coordinator.handle_report(NOW, report(1, 2, SECOND));
    assert_eq!(known(&coordinator), [(SECOND, 0)]);
    coordinator.handle_report(NOW, Report { left: [(1, ())].into_iter().collect(), ..report(1, 3, SECOND) });
    assert_eq!(known(&coordinator), []);
    // Its next life: what is known of the former one is forgotten.
    coordinator.handle_report(NOW, report(2, 1, FIRST));
    assert_eq!(known(&coordinator), [(FIRST, 0)]);
}

/// Found by exploring small sites: the part was refused, and its flows went on as the coflow's.
#[test]
fn a_part_that_is_reported_for_another_user_than_before_is_refused_with_its_flows() {
    let policy = cavalcade_policy::parse("fifo").expect("it is a policy");
    let mut coordinator = Coordinator::new(CoordinatorConfig::new(1, 2, RATE), Box::new(policy));
    coordinator.handle_report(NOW, Report { port: PortId(1), ..report(1, 1, FIRST) });
    let flow = FlowEntry { coflow: 1, to: PortId(1), size: None, sent: Bytes(9), idle: false };
    let flows = [(3, flow)].into_iter().collect();
    coordinator.handle_report(NOW, Report { flows, ..report(1, 1, FIRST) });
    let flows = |coordinator: &Coordinator| coordinator.status().next().map(|coflow| coflow.flows.len());
    assert_eq!(flows(&coordinator), Some(1), "it is the owner's, for all that is known");
    let entry = CoflowEntry { key: FIRST, facts: None, sent: Bytes::ZERO, owner: 2 };
    let coflows = [(1, entry)].into_iter().collect();
    coordinator.handle_report(NOW, Report { coflows, ..report(1, 2, FIRST) });
    assert_eq!(flows(&coordinator), Some(0));
    assert_eq!(coordinator.counters().foreign_parts, 1);
}
