//! What people are told of coflows that are over: times that end with the last flow, and one row
//! for each key.

#![allow(clippy::unwrap_used, reason = "a helper of tests fails by panicking")]

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use cavalcade_control::*;
use cavalcade_model::{BitsPerSec, Bytes, Instant, Nanos, PortId, TaskClass};
use cavalcade_protocol::{ClientMessage, CoflowKey, Endpoints, PROTOCOL};

const RATE: BitsPerSec = BitsPerSec(1_000_000_000);
const CLIENT: ClientId = ClientId(0);
const PERIOD: Nanos = Nanos::from_millis(10);

fn address(host: u8) -> SocketAddr {
    SocketAddr::new(IpAddr::V4(Ipv4Addr::new(10, 0, 0, host)), 9)
}

/// A coordinator and an agent with one client.
struct Site {
    coordinator: Coordinator,
    agent: Agent,
    now: Instant,
    is_cut: bool,
}

impl Site {
    fn new() -> Self {
        let config = CoordinatorConfig::new(1, 2, RATE);
        let coordinator = Coordinator::new(config, Box::new(cavalcade_policy::parse("fifo").unwrap()));
        let directory = (0..2).map(|host| (address(host).ip(), PortId(u32::from(host)))).collect();
        let config = AgentConfig { directory, ..AgentConfig::new(PortId(0), 2, 1, RATE) };
        let mut agent = Agent::new(config, Mode::Coordinated);
        agent.handle_coordinator_connected();
        agent.handle_connected(CLIENT, 1);
        let mut site = Self { coordinator, agent, now: Instant(1_000_000_000), is_cut: false };
        site.say(ClientMessage::Hello { protocol: PROTOCOL, client: 1 });
        site
    }

    fn say(&mut self, message: ClientMessage) {
        self.agent.handle_client(self.now, CLIENT, message);
    }

    /// A coflow that has sent so much, by a flow that is open.
    fn begin(&mut self, sent: u64) -> CoflowKey {
        let (parents, deadline, size, class, name) = (Vec::new(), None, None, TaskClass::Online, None);
        self.say(ClientMessage::Register { request: 0, parents, deadline, size, class, weight: 1, name });
        let coflow = self.agent.parts().next().unwrap().key;
        let ends = Endpoints { local: address(0), remote: address(1) };
        self.say(ClientMessage::Open { flow: 0, coflow, ends, size: None, sent: Bytes(0) });
        self.say(ClientMessage::Sent { flow: 0, sent: Bytes(sent), idle: false });
        self.pass(Nanos::from_millis(100));
        coflow
    }

    fn pass(&mut self, time: Nanos) {
        let until = self.now + time;
        while self.now < until {
            self.now = self.now + PERIOD;
            self.agent.handle_timeout(self.now);
            while let Some(output) = self.agent.poll_output() {
                match output {
                    AgentOutput::Coordinator(report) if !self.is_cut => {
                        self.coordinator.handle_report(self.now, report);
                    }
                    AgentOutput::Reconnect if !self.is_cut => self.agent.handle_coordinator_connected(),
                    _ => {}
                }
            }
            self.coordinator.handle_timeout(self.now);
            while let Some((_, orders)) = self.coordinator.poll_orders() {
                if !self.is_cut {
                    self.agent.handle_orders(self.now, orders);
                }
            }
        }
    }

    fn rows(&self) -> Vec<&PastCoflow> {
        self.coordinator.history().collect()
    }
}

#[test]
fn a_coflows_time_ends_with_its_last_flow_though_its_program_never_says_that_it_is_over() {
    let mut site = Site::new();
    let coflow = site.begin(1_000_000);
    site.say(ClientMessage::Close { flow: 0, sent: Bytes(1_500_000) });
    let closed = site.now;
    site.agent.handle_gone(site.now, CLIENT);
    site.pass(Nanos::from_secs(30));
    let rows = site.rows();
    assert_eq!((rows.len(), rows[0].key, rows[0].sent), (1, coflow, Bytes(1_500_000)));
    let late = rows[0].ended.since(closed);
    assert!(late <= Nanos::from_millis(50), "it lingered for seconds, and ended {late} late");
}

#[test]
fn a_coflow_whose_host_is_lost_and_comes_back_has_one_row_with_all_of_its_bytes() {
    let mut site = Site::new();
    let coflow = site.begin(1_000_000);
    for _ in 0..3 {
        site.is_cut = true;
        site.coordinator.handle_disconnected(PortId(0));
        site.pass(Nanos::from_secs(5));
        let rows = site.rows();
        assert_eq!((rows.len(), rows[0].sent, rows[0].is_lost), (1, Bytes(1_000_000), true));
        site.is_cut = false;
        site.agent.handle_coordinator_connected();
        site.pass(Nanos::from_secs(1));
    }
    site.say(ClientMessage::Close { flow: 0, sent: Bytes(1_500_000) });
    site.say(ClientMessage::Unregister { coflow });
    site.pass(Nanos::from_secs(5));
    let rows = site.rows();
    let found: Vec<_> = rows.iter().map(|row| (row.key, row.sent, row.is_lost)).collect();
    assert_eq!(found, [(coflow, Bytes(1_500_000), false)]);
}
