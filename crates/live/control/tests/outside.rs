//! Flows to what is no host of the site: they are ordered behind the link of the host that sends
//! them, and hold up no other host's.

#![allow(clippy::unwrap_used, reason = "a test whose scene cannot be set has failed")]

use std::net::SocketAddr;

use cavalcade_control::*;
use cavalcade_model::{BitsPerSec, Instant, PortId};
use cavalcade_policy::parse;
use cavalcade_protocol::{
    AgentMessage, ClientMessage, CoflowKey, Directive, Directory, Endpoints, Gate, Host, Keyed, PROTOCOL,
    Report, outside,
};

const RATE: BitsPerSec = BitsPerSec(1_000_000_000);
const OPEN: Gate = Gate::Open {};
const OFF: Gate = Gate::Off {};

/// Hosts at 10.0.0.0 and after, each with one client, and a coordinator; all is delivered at once.
struct Site {
    now: Instant,
    coordinator: Coordinator,
    agents: Vec<Agent>,
    registered: Vec<CoflowKey>,
    /// Of each host, the gates of its flows as its client was told them last.
    gates: Vec<std::collections::BTreeMap<u32, Gate>>,
    /// What hosts said to others.
    reports: Vec<Report>,
}

fn agent(port: u32, hosts: u32, own: Option<&str>) -> Agent {
    let at: Vec<Host> = (0..hosts).map(|host| format!("10.0.0.{host}").parse().unwrap()).collect();
    let directory = Directory::of_hosts(&at).with_outside(outside(hosts, PortId(port)));
    let config = AgentConfig { directory, ..AgentConfig::new(PortId(port), hosts, 1, RATE) };
    let mode = own.map_or(Mode::Coordinated, |spec| {
        Mode::Decentralised(Box::new(Decentralised::new(&config, Box::new(parse(spec).unwrap()))))
    });
    Agent::new(config, mode)
}

impl Site {
    fn new(spec: &str, hosts: u32, is_own: bool) -> Self {
        let config = CoordinatorConfig { confirm: true, ..CoordinatorConfig::new(1, hosts, RATE) };
        let coordinated = if is_own { "fifo" } else { spec };
        let mut site = Self {
            now: Instant(1_000_000_000),
            coordinator: Coordinator::new(config, Box::new(parse(coordinated).unwrap())),
            agents: (0..hosts).map(|port| agent(port, hosts, is_own.then_some(spec))).collect(),
            registered: Vec::new(),
            gates: vec![Default::default(); hosts as usize],
            reports: Vec::new(),
        };
        for port in 0..hosts as usize {
            site.agents[port].handle_connected(ClientId(0), 1);
            site.say(port, ClientMessage::Hello { protocol: PROTOCOL, client: 70 });
        }
        site
    }

    fn say(&mut self, port: usize, message: ClientMessage) {
        self.agents[port].handle_client(self.now, ClientId(0), message);
        self.flush();
    }

    fn flush(&mut self) {
        for port in 0..self.agents.len() {
            while let Some(output) = self.agents[port].poll_output() {
                match output {
                    AgentOutput::Client(_, AgentMessage::Registered { coflow, .. }) => {
                        self.registered.push(coflow);
                    }
                    AgentOutput::Client(
                        _,
                        AgentMessage::Direct { flow, directive: Directive { gate, .. } },
                    ) => {
                        self.gates[port].insert(flow, gate);
                    }
                    AgentOutput::Coordinator(report) => {
                        self.reports.push(report.clone());
                        self.coordinator.handle_report(self.now, report);
                    }
                    AgentOutput::Peer(to, datagram) => {
                        self.agents[to.index()].handle_datagram(self.now, datagram);
                    }
                    _ => {}
                }
            }
        }
        while let Some((port, orders)) = self.coordinator.poll_orders() {
            self.agents[port.index()].handle_orders(self.now, orders);
        }
    }

    /// Opens a flow of a new coflow.
    fn open(&mut self, port: usize, flow: u32, to: &str) -> CoflowKey {
        self.say(
            port,
            ClientMessage::Register {
                request: 1,
                parents: vec![],
                deadline: None,
                size: None,
                class: Default::default(),
                weight: 1,
                name: None,
            },
        );
        let coflow = *self.registered.last().unwrap();
        let remote = SocketAddr::new(to.parse().unwrap(), 7000);
        let ends = Endpoints { local: "10.0.0.0:7000".parse().unwrap(), remote };
        self.say(port, ClientMessage::Open { flow, coflow, ends, size: None, sent: Default::default() });
        self.pass(40);
        coflow
    }

    fn pass(&mut self, millis: u64) {
        for _ in 0..millis {
            self.now = Instant(self.now.0 + 1_000_000);
            self.agents.iter_mut().for_each(|agent| agent.handle_timeout(self.now));
            self.coordinator.handle_timeout(self.now);
            self.flush();
        }
    }
}

#[test]
fn what_leaves_the_site_takes_turns_with_all_else_that_its_host_sends() {
    let mut site = Site::new("fifo", 2, false);
    site.open(0, 0, "192.0.2.1");
    site.open(0, 1, "10.0.0.1");
    site.open(0, 2, "2001:db8::7");
    assert_eq!(site.gates[0], [(0, OPEN), (1, OFF), (2, OFF)].into_iter().collect());
}

#[test]
fn what_leaves_by_other_hosts_holds_nobody_up_whatever_policy_decides() {
    for spec in ["fifo", "sebf", "saath", "varys", "dclas:queues=20,factor=2,first_threshold=1MB"] {
        let mut site = Site::new(spec, 3, false);
        for host in 0..3 {
            site.open(host, 0, "192.0.2.1");
        }
        for host in 0..3 {
            assert_eq!(site.gates[host][&0], OPEN, "{spec}: host {host}");
        }
    }
}

#[test]
fn a_policy_of_the_agents_own_orders_what_leaves_the_site_too() {
    let mut site = Site::new("baraat", 2, true);
    site.open(0, 0, "192.0.2.1");
    site.open(0, 1, "192.0.2.2");
    assert_eq!(site.gates[0], [(0, OPEN), (1, OFF)].into_iter().collect());
}

#[test]
fn a_host_cannot_take_up_what_is_behind_another_hosts_link() {
    let mut site = Site::new("fifo", 2, false);
    site.open(1, 0, "192.0.2.1");
    let mut report =
        site.reports.iter().rev().find(|report| report.flows.iter().count() > 0).unwrap().clone();
    assert_eq!(report.flows.get(0).map(|flow| flow.to), Some(PortId(3)));
    // The same word, from host 0.
    let mut flows = Keyed::default();
    report.flows.iter().for_each(|(number, flow)| flows.push(number, *flow));
    (report.port, report.flows, report.snapshot) = (PortId(0), flows, true);
    report.sequence = 1_000;
    site.coordinator.handle_report(site.now, report);
    let flows: usize = site
        .coordinator
        .status()
        .map(|coflow| coflow.flows.iter().filter(|flow| flow.from == PortId(0)).count())
        .sum();
    assert_eq!(flows, 0);
}

#[test]
fn what_leaves_the_site_needs_no_receivers_word() {
    let mut site = Site::new("fifo", 2, false);
    let first = site.open(0, 0, "192.0.2.1");
    site.open(0, 1, "192.0.2.1");
    for millis in 1..200 {
        site.say(
            0,
            ClientMessage::Sent { flow: 0, sent: cavalcade_model::Bytes(millis * 100_000), idle: false },
        );
        site.pass(10);
        assert_eq!((site.gates[0][&0], site.gates[0][&1]), (OPEN, OFF), "after {millis}0 ms");
    }
    let status = site.coordinator.status().find(|coflow| coflow.key == first).unwrap();
    assert!(status.sent.0 > 10_000_000, "{}", status.sent);
}

#[test]
fn an_explanation_says_what_leaves_the_site_and_waits_at_its_hosts_link() {
    let mut site = Site::new("fifo", 2, false);
    let first = site.open(0, 0, "192.0.2.1");
    let second = site.open(0, 1, "192.0.2.2");
    let why = site.coordinator.why(second).unwrap();
    assert_eq!((why.outside, why.off), (1, 1));
    let [blocker] = &why.blockers[..] else { panic!("{why:?}") };
    assert_eq!((blocker.port, blocker.direction), (PortId(0), Direction::Sending));
    assert_eq!(blocker.ahead, [first]);
}
