//! An agent with more than one message can hold: its reports and its orders come in pieces, and
//! nothing is lost.

#![allow(clippy::unwrap_used, reason = "a helper of tests fails by panicking")]

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use cavalcade_control::*;
use cavalcade_model::{BitsPerSec, Bytes, Instant, Nanos, PortId, TaskClass};
use cavalcade_protocol::{ClientMessage, Endpoints, Gate, MAX_FRAME, Message, Orders, PROTOCOL, Report};

const RATE: BitsPerSec = BitsPerSec(1_000_000_000);
const CLIENT: ClientId = ClientId(0);
const MANY: u32 = 50_000;

fn address(host: u8) -> SocketAddr {
    SocketAddr::new(IpAddr::V4(Ipv4Addr::new(10, 0, 0, host)), 9)
}

fn coordinator(term: u64) -> Coordinator {
    // A lease longer than the test, so that rounds are its only clock.
    let lease = Nanos::from_secs(60);
    let config = CoordinatorConfig { lease, stall: lease, ..CoordinatorConfig::new(term, 2, RATE) };
    Coordinator::new(config, Box::new(cavalcade_policy::parse("fifo").unwrap()))
}

/// Lets both talk for so many periods; every message is as short as frames have to be.
fn talk(agent: &mut Agent, coordinator: &mut Coordinator, now: &mut Instant, periods: u32) {
    talk_in(agent, coordinator, now, periods, MAX_FRAME);
}

/// The same with messages of so many bytes at most.
fn talk_in(
    agent: &mut Agent,
    coordinator: &mut Coordinator,
    now: &mut Instant,
    periods: u32,
    longest: usize,
) {
    for _ in 0..periods {
        *now = *now + Nanos::from_millis(10);
        agent.handle_timeout(*now);
        while let Some(output) = agent.poll_output() {
            let AgentOutput::Coordinator(report) = output else { continue };
            let bytes = report.to_bytes();
            assert!(bytes.len() <= longest, "a report of {} bytes", bytes.len());
            coordinator.handle_report(*now, Report::decode(&bytes).unwrap());
        }
        coordinator.handle_timeout(*now);
        while let Some((_, orders)) = coordinator.poll_orders() {
            let bytes = orders.to_bytes();
            assert!(bytes.len() <= longest, "orders of {} bytes", bytes.len());
            agent.handle_orders(*now, Orders::decode(&bytes).unwrap());
        }
    }
}

/// Returns the coflows, flows and bytes that a coordinator knows.
fn known(coordinator: &Coordinator) -> (u32, u32, u64) {
    let mut sums = (0, 0, 0);
    for coflow in coordinator.status() {
        sums = (sums.0 + 1, sums.1 + coflow.flows.len() as u32, sums.2 + coflow.sent.0);
    }
    sums
}

fn off(agent: &Agent) -> u32 {
    agent.status().filter(|flow| flow.told.gate == Gate::Off {}).count() as u32
}

#[test]
fn fifty_thousand_coflows_are_known_to_their_coordinator_and_to_the_next_one_and_none_of_their_bytes_twice() {
    let directory = (0..2).map(|host| (address(host).ip(), PortId(u32::from(host)))).collect();
    let stall = Nanos::from_secs(60);
    let config = AgentConfig { directory, stall, ..AgentConfig::new(PortId(0), 2, 1, RATE) };
    let mut agent = Agent::new(config, Mode::Coordinated);
    let mut now = Instant(1_000_000_000);
    agent.handle_coordinator_connected();
    agent.handle_connected(CLIENT, 1);
    agent.handle_client(now, CLIENT, ClientMessage::Hello { protocol: PROTOCOL, client: 1 });
    for request in 0..MANY {
        let (deadline, size, class) = (None, None, TaskClass::Online);
        let parents = Vec::new();
        let message =
            ClientMessage::Register { request, parents, deadline, size, class, weight: 1, name: None };
        agent.handle_client(now, CLIENT, message);
    }
    let ends = Endpoints { local: address(0), remote: address(1) };
    let keys: Vec<_> = agent.parts().map(|part| part.key).collect();
    for (flow, &coflow) in (0..).zip(&keys) {
        let message = ClientMessage::Open { flow, coflow, ends, size: None, sent: Bytes(3) };
        agent.handle_client(now, CLIENT, message);
    }

    let mut first = coordinator(1);
    talk(&mut agent, &mut first, &mut now, 20);
    assert_eq!(known(&first), (MANY, MANY, 3 * u64::from(MANY)));
    assert_eq!(off(&agent), MANY - 1, "the first of them goes, and the others wait");

    // While the next one is told, flows end and others move: the pieces say what holds when they
    // are made.
    let mut next = coordinator(2);
    agent.handle_coordinator_connected();
    talk(&mut agent, &mut next, &mut now, 2);
    assert!(known(&next).0 < MANY, "it has a piece only");
    for flow in (0..MANY).step_by(2) {
        agent.handle_client(now, CLIENT, ClientMessage::Close { flow, sent: Bytes(5) });
    }
    for flow in (1..MANY).step_by(2) {
        agent.handle_client(now, CLIENT, ClientMessage::Sent { flow, sent: Bytes(4), idle: false });
    }
    talk(&mut agent, &mut next, &mut now, 20);
    assert_eq!(known(&next), (MANY, MANY / 2, u64::from(MANY / 2) * (5 + 4)));
    assert_eq!(off(&agent), MANY / 2 - 1);

    // A connection that comes again says all of it again, to one who knows it.
    next.handle_disconnected(PortId(0));
    agent.handle_coordinator_connected();
    talk(&mut agent, &mut next, &mut now, 20);
    assert_eq!(known(&next), (MANY, MANY / 2, u64::from(MANY / 2) * (5 + 4)));
    assert_eq!(off(&agent), MANY / 2 - 1);

    for &coflow in &keys {
        agent.handle_client(now, CLIENT, ClientMessage::Unregister { coflow });
    }
    agent.handle_gone(now, CLIENT);
    now = now + Nanos::from_secs(30);
    talk(&mut agent, &mut next, &mut now, 20);
    assert_eq!(known(&next), (0, 0, 0));
}

#[test]
fn on_a_slow_line_no_message_takes_longer_than_half_a_period_and_all_is_known_in_the_end() {
    // 10 ms of 40 Mbps are 50 KB; a message has a header, and its last item may begin at the limit.
    let (line, longest) = (BitsPerSec(40_000_000), 25_000 + 400);
    let directory = (0..2).map(|host| (address(host).ip(), PortId(u32::from(host)))).collect();
    let config = AgentConfig { directory, ..AgentConfig::new(PortId(0), 2, 1, line) };
    let mut agent = Agent::new(config, Mode::Coordinated);
    let mut now = Instant(1_000_000_000);
    agent.handle_coordinator_connected();
    agent.handle_connected(CLIENT, 1);
    agent.handle_client(now, CLIENT, ClientMessage::Hello { protocol: PROTOCOL, client: 1 });
    let ends = Endpoints { local: address(0), remote: address(1) };
    for request in 0..9_000u32 {
        let (deadline, size, class) = (None, None, TaskClass::Online);
        let name = Some(format!("a-name-that-is-about-as-long-as-it-{request}").parse().unwrap());
        let parents = Vec::new();
        let message = ClientMessage::Register { request, parents, deadline, size, class, weight: 1, name };
        agent.handle_client(now, CLIENT, message);
    }
    let keys: Vec<_> = agent.parts().map(|part| part.key).collect();
    for (flow, &coflow) in (0..).zip(&keys) {
        let message = ClientMessage::Open { flow, coflow, ends, size: None, sent: Bytes(3) };
        agent.handle_client(now, CLIENT, message);
    }
    let mut first = coordinator(1);
    talk_in(&mut agent, &mut first, &mut now, 100, longest);
    assert_eq!(known(&first), (9_000, 9_000, 27_000));
}

#[test]
fn an_agent_with_more_than_any_host_has_is_taken_in_as_far_as_its_limit_and_no_further() {
    let config = CoordinatorConfig { agent_limit: 3, ..CoordinatorConfig::new(1, 2, RATE) };
    let mut coordinator = Coordinator::new(config, Box::new(cavalcade_policy::parse("fifo").unwrap()));
    let mut agent = Agent::new(AgentConfig::new(PortId(0), 2, 1, RATE), Mode::Coordinated);
    let mut now = Instant(1_000_000_000);
    agent.handle_connected(CLIENT, 1);
    agent.handle_client(now, CLIENT, ClientMessage::Hello { protocol: PROTOCOL, client: 1 });
    for request in 0..5 {
        let (deadline, size, class) = (None, None, TaskClass::Online);
        let parents = Vec::new();
        let message =
            ClientMessage::Register { request, parents, deadline, size, class, weight: 1, name: None };
        agent.handle_client(now, CLIENT, message);
    }
    talk(&mut agent, &mut coordinator, &mut now, 1);
    assert_eq!((known(&coordinator).0, coordinator.counters().over_limit), (3, 2));
}

#[test]
fn a_coordinator_that_takes_nothing_is_told_nothing_until_it_does() {
    let mut agent = Agent::new(AgentConfig::new(PortId(0), 2, 1, RATE), Mode::Coordinated);
    agent.handle_coordinator_connected();
    agent.set_coordinator_behind(true);
    agent.handle_timeout(Instant(1_000_000_000));
    assert_eq!(agent.poll_output(), None);
    agent.set_coordinator_behind(false);
    agent.handle_timeout(Instant(1_000_000_000));
    assert!(matches!(agent.poll_output(), Some(AgentOutput::Coordinator(report)) if report.snapshot));
}
