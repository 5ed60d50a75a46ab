//! Agents, clients and a coordinator joined by hand, without faults: who is told what, and when.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use cavalcade_control::*;
use cavalcade_model::{BitsPerSec, Bytes, Instant, Nanos, PortId, Priority, TaskClass};
use cavalcade_policy::parse;
use cavalcade_protocol::{
    AgentMessage, ClientMessage, CoflowEntry, CoflowKey, Directive, Drain, Drained, Endpoints, FlowEntry,
    Gate, Message, PROTOCOL, Remark, Report,
};

const RATE: BitsPerSec = BitsPerSec(1_000_000_000);
const OPEN: Gate = Gate::Open {};
const OFF: Gate = Gate::Off {};

fn policy(spec: &str) -> Factory {
    Box::new(parse(spec).expect("a valid specification"))
}

fn address(port: u32) -> SocketAddr {
    SocketAddr::new(IpAddr::V4(Ipv4Addr::new(10, 0, 0, port as u8)), 7000)
}

fn ends(from: u32, to: u32) -> Endpoints {
    Endpoints { local: address(from), remote: address(to) }
}

fn config(port: u32, ports: u32) -> AgentConfig {
    let directory = (0..ports).map(|port| (address(port).ip(), PortId(port))).collect();
    AgentConfig { directory, ..AgentConfig::new(PortId(port), ports, 1, RATE) }
}

/// Hosts and a coordinator, with all messages delivered at once; each host has one client, number
/// 0, of user 1.
struct Site {
    now: Instant,
    coordinator: Option<Coordinator>,
    agents: Vec<Agent>,
    heard: BTreeMap<u32, Vec<AgentMessage>>,
    bytes_to_agents: usize,
    /// Orders that said more than that the coordinator is there.
    news: usize,
}

impl Site {
    fn new(spec: &str, ports: u32) -> Self {
        let config_of = CoordinatorConfig::new(1, ports, RATE);
        let agents = (0..ports).map(|port| Agent::new(config(port, ports), Mode::Coordinated)).collect();
        let coordinator = Some(Coordinator::new(config_of, policy(spec)));
        let mut site = Self {
            now: Instant(1_000_000_000),
            coordinator,
            agents,
            heard: BTreeMap::new(),
            bytes_to_agents: 0,
            news: 0,
        };
        (0..ports).for_each(|port| site.connect(port, 0, 1));
        site
    }

    fn decentralised(spec: &str, ports: u32) -> Self {
        let mut site = Self::new("fair", ports);
        site.coordinator = None;
        for port in 0..ports {
            let own = Decentralised::new(&config(port, ports), policy(spec));
            site.agents[port as usize] = Agent::new(config(port, ports), Mode::Decentralised(Box::new(own)));
            site.connect(port, 0, 1);
        }
        site
    }

    /// Replaces the coordinator, as after a crash or when a standby takes over.
    fn next_coordinator(&mut self, spec: &str, term: u64) {
        let config = CoordinatorConfig::new(term, self.agents.len() as u32, RATE);
        self.coordinator = Some(Coordinator::new(config, policy(spec)));
        self.agents.iter_mut().for_each(Agent::handle_coordinator_connected);
    }

    /// Two coflows that compete for host 2: the first is of host 0, the second of host 1, each with
    /// its flow 0.
    fn open_two(&mut self) {
        let (first, second) = (self.register(0), self.register(1));
        self.open(0, 0, first, 2);
        self.open(1, 0, second, 2);
    }

    /// Both of them move, by a thousandth of what the line carries, and time passes.
    fn move_both(&mut self) {
        let sent = self.now.0 / 8_000;
        (0..2).for_each(|port| self.sent(port, 0, sent));
        self.pass(40);
    }

    fn connect(&mut self, port: u32, client: u64, user: u32) {
        self.agents[port as usize].handle_connected(ClientId(client), user);
        self.say_as(port, client, ClientMessage::Hello { protocol: PROTOCOL, client: 70 + client });
    }

    fn say(&mut self, port: u32, message: ClientMessage) {
        self.say_as(port, 0, message);
    }

    fn say_as(&mut self, port: u32, client: u64, message: ClientMessage) {
        self.agents[port as usize].handle_client(self.now, ClientId(client), message);
        self.flush();
    }

    fn flush(&mut self) {
        for port in 0..self.agents.len() {
            while let Some(output) = self.agents[port].poll_output() {
                match output {
                    AgentOutput::Client(_, message) => {
                        self.heard.entry(port as u32).or_default().push(message);
                    }
                    AgentOutput::Coordinator(report) => {
                        if let Some(coordinator) = &mut self.coordinator {
                            coordinator.handle_report(self.now, report);
                        }
                    }
                    AgentOutput::Peer(to, datagram) => {
                        self.agents[to.index()].handle_datagram(self.now, datagram)
                    }
                    AgentOutput::Drop(client) => self.agents[port].handle_gone(self.now, client),
                    AgentOutput::Reconnect => self.agents[port].handle_coordinator_connected(),
                    AgentOutput::Measure => {}
                }
            }
        }
        let Some(coordinator) = &mut self.coordinator else { return };
        while let Some((port, orders)) = coordinator.poll_orders() {
            self.news += usize::from(!orders.flows.is_empty() || !orders.priorities.is_empty());
            self.bytes_to_agents += orders.to_bytes().len();
            self.agents[port.index()].handle_orders(self.now, orders);
        }
    }

    /// Lets time pass, a millisecond at a time.
    fn pass(&mut self, millis: u64) {
        for _ in 0..millis {
            self.now = self.now + Nanos::from_millis(1);
            for port in 0..self.agents.len() {
                self.agents[port].handle_timeout(self.now);
            }
            self.flush();
            if let Some(coordinator) = &mut self.coordinator {
                coordinator.handle_timeout(self.now);
            }
            self.flush();
        }
    }

    fn register(&mut self, port: u32) -> CoflowKey {
        self.register_with(port, &[], None)
    }

    fn register_with(&mut self, port: u32, parents: &[CoflowKey], size: Option<Bytes>) -> CoflowKey {
        self.now = self.now + Nanos(1_000);
        let parents = parents.to_vec();
        let (deadline, class, name) = (None, TaskClass::Online, None);
        self.say(
            port,
            ClientMessage::Register { request: 9, parents, deadline, size, class, weight: 1, name },
        );
        match self.heard[&port].last() {
            Some(AgentMessage::Registered { request: 9, coflow, .. }) => *coflow,
            other => panic!("no key but {other:?}"),
        }
    }

    fn open(&mut self, from: u32, flow: u32, coflow: CoflowKey, to: u32) {
        self.open_sized(from, flow, coflow, to, None);
    }

    fn open_sized(&mut self, from: u32, flow: u32, coflow: CoflowKey, to: u32, size: Option<Bytes>) {
        let sent = Bytes::ZERO;
        self.say(from, ClientMessage::Open { flow, coflow, ends: ends(from, to), size, sent });
    }

    fn sent(&mut self, port: u32, flow: u32, sent: u64) {
        self.say(port, ClientMessage::Sent { flow, sent: Bytes(sent), idle: false });
    }

    /// Returns the last directive of `flow` at the client at `port`.
    fn told(&self, port: u32, flow: u32) -> Directive {
        let of_flow = self.heard.get(&port).into_iter().flatten().filter_map(|message| match message {
            AgentMessage::Direct { flow: told, directive } if *told == flow => Some(*directive),
            _ => None,
        });
        of_flow.fold(Directive::default(), |_, last| last)
    }

    fn gate(&self, port: u32, flow: u32) -> Gate {
        self.told(port, flow).gate
    }
}

#[test]
fn a_former_coordinator_is_not_obeyed_and_learns_that_it_is_deposed() {
    let mut site = Site::new("fifo", 3);
    site.open_two();
    site.pass(30);
    let mut former = site.coordinator.take().unwrap();
    site.next_coordinator("fair", 2);
    site.pass(40);
    assert_eq!(site.gate(1, 0), OPEN, "the new policy is fair");
    former.handle_timeout(site.now + Nanos::from_millis(20));
    let (port, orders) = former.poll_orders().expect("it says that it is there");
    site.agents[port.index()].handle_orders(site.now, orders);
    assert_eq!(site.agents[port.index()].obeys(), Some(2));
    std::mem::swap(site.coordinator.as_mut().unwrap(), &mut former);
    site.agents.iter_mut().for_each(Agent::handle_coordinator_connected);
    site.pass(30);
    assert!(site.coordinator.as_ref().unwrap().is_deposed());
}

#[test]
fn of_coflows_whose_sizes_are_known_and_not_their_flows_the_smaller_goes_first() {
    let mut site = Site::new("sebf", 3);
    let large = site.register_with(0, &[], Some(Bytes(40_000_000)));
    let small = site.register_with(1, &[], Some(Bytes(2_000_000)));
    site.open(0, 0, large, 2);
    site.open(1, 0, small, 2);
    site.pass(40);
    assert_eq!((site.gate(0, 0), site.gate(1, 0)), (OFF, OPEN));
}

#[test]
fn on_a_slow_line_a_flow_is_waited_for_while_the_writes_of_others_leave() {
    let stalls = |rate: u64| {
        let agent = AgentConfig::new(PortId(0), 2, 1, BitsPerSec(rate)).stall;
        (agent, CoordinatorConfig::new(1, 2, BitsPerSec(rate)).stall)
    };
    assert_eq!(stalls(1_000_000_000), (Nanos::from_millis(200), Nanos::from_millis(500)));
    let mebibyte = Nanos(1_677_721_600);
    assert_eq!(stalls(5_000_000), (mebibyte, mebibyte), "four writes of 256 KiB");
    assert_eq!(stalls(100_000), (Nanos::from_secs(2), Nanos::from_secs(2)));
}

#[test]
fn only_what_changed_is_sent() {
    let mut site = Site::new("fifo", 12);
    for port in 0..10 {
        let coflow = site.register(port);
        (0..10).for_each(|flow| site.open(port, flow, coflow, 10 + flow % 2));
    }
    site.pass(50);
    let (news, bytes) = (site.news, site.bytes_to_agents);
    site.sent(0, 0, 500);
    site.pass(100);
    assert_eq!(site.news, news, "bytes alone change nothing");
    let alive = site.bytes_to_agents - bytes;
    assert_eq!(
        alive,
        4 * 12 * 22,
        "four times in a lease, twenty-two bytes say that the coordinator is there"
    );
    site.say(9, ClientMessage::Close { flow: 3, sent: Bytes(1) });
    site.pass(20);
    assert_eq!(site.news, news, "the end of a flow that was off concerns no other");
}

#[test]
fn in_shadow_mode_decisions_are_made_and_nothing_is_enforced() {
    let mut site = Site::new("fifo", 3);
    let shadow = AgentConfig { shadow: true, ..config(1, 3) };
    site.agents[1] = Agent::new(shadow, Mode::Coordinated);
    site.connect(1, 0, 1);
    site.pass(150);
    site.open_two();
    site.pass(30);
    assert_eq!(site.gate(1, 0), OPEN);
    let status = site.agents[1].status().next().unwrap();
    assert_eq!(status.ordered.unwrap().gate, OFF);
}

#[test]
fn the_kill_switch_opens_every_flow_and_lets_go_of_it_again() {
    let mut site = Site::new("fifo", 3);
    site.open_two();
    site.pass(30);
    site.agents[1].drain(true);
    site.flush();
    assert_eq!(site.gate(1, 0), OPEN);
    site.agents[1].drain(false);
    site.flush();
    assert_eq!(site.gate(1, 0), OFF);
}

#[test]
fn the_kill_switch_of_the_coordinator_opens_every_flow_of_the_fabric_and_lets_go_of_them_again() {
    let mut site = Site::new("dclas:sync=0ms,first_threshold=1MB,weighted=false", 3);
    site.open_two();
    site.sent(1, 0, 2_000_000);
    site.pass(30);
    assert_eq!((site.gate(1, 0), site.told(1, 0).class), (OFF, Some(1)));
    site.coordinator.as_mut().unwrap().drain(true);
    site.pass(20);
    assert_eq!(site.told(1, 0), Directive::default());
    let ordered = site.agents[1].status().next().unwrap().ordered;
    assert_eq!(ordered.unwrap().gate, OFF, "decisions go on, for looking at");
    site.coordinator.as_mut().unwrap().drain(false);
    site.pass(20);
    assert_eq!((site.gate(1, 0), site.told(1, 0).class), (OFF, Some(1)));
}

fn drain(what: Drained) -> Drain {
    let remark = |text| Remark::new(text).expect("it is short");
    Drain { what, since: Instant(1), who: remark("root"), reason: remark("new switches") }
}

#[test]
fn a_drained_flow_goes_as_plain_tcp_and_holds_no_other() {
    let mut site = Site::new("fifo", 3);
    site.open_two();
    site.pass(30);
    let keys: Vec<CoflowKey> = site.coordinator.as_ref().unwrap().status().map(|coflow| coflow.key).collect();
    assert_eq!((site.gate(0, 0), site.gate(1, 0)), (OPEN, OFF));
    // Whether the first or the second is drained, both go on.
    for (what, host) in [
        (Drained::Host { port: PortId(0) }, 0),
        (Drained::Coflow { key: keys[0] }, 0),
        (Drained::Host { port: PortId(1) }, 1),
        (Drained::Coflow { key: keys[1] }, 1),
    ] {
        let coordinator = site.coordinator.as_mut().unwrap();
        assert_eq!(coordinator.set_drain(drain(what)), Ok(false));
        assert!(!coordinator.is_drained(), "the kill switch is another thing");
        site.move_both();
        assert_eq!((site.gate(0, 0), site.gate(1, 0)), (OPEN, OPEN), "{what:?}");
        assert_eq!(site.told(host, 0), Directive::default(), "{what:?}");
        let coordinator = site.coordinator.as_mut().unwrap();
        let drained = keys.iter().filter(|key| coordinator.drain_of(**key) == Some(&drain(what)));
        assert_eq!(drained.count(), 1, "{what:?}");
        assert!(coordinator.lift_drain(what));
        assert_eq!(keys.iter().filter(|key| coordinator.drain_of(**key).is_some()).count(), 0);
        site.move_both();
        assert_eq!(site.gate(1, 0), OFF, "{what:?}");
    }
    // Both are of one user.
    site.coordinator.as_mut().unwrap().set_drain(drain(Drained::User { user: 2 })).unwrap();
    site.pass(30);
    assert_eq!(site.gate(1, 0), OFF);
    site.coordinator.as_mut().unwrap().set_drain(drain(Drained::User { user: 1 })).unwrap();
    site.pass(30);
    assert_eq!(site.gate(1, 0), OPEN);
}

#[test]
fn a_drain_of_an_agent_opens_the_flows_of_a_user_or_a_coflow_of_its_host() {
    let mut site = Site::new("fifo", 3);
    site.open_two();
    site.pass(30);
    let (key, user) = site.agents[1].parts().next().map(|part| (part.key, part.user)).unwrap();
    for what in [Drained::User { user }, Drained::Coflow { key }] {
        assert_eq!(site.agents[1].set_drain(drain(what)), Ok(false));
        site.flush();
        assert_eq!(site.gate(1, 0), OPEN, "{what:?}");
        assert!(site.agents[1].lift_drain(what));
        site.flush();
        assert_eq!(site.gate(1, 0), OFF, "{what:?}");
    }
    site.agents[1].set_drain(drain(Drained::User { user: user + 1 })).unwrap();
    site.flush();
    assert_eq!(site.gate(1, 0), OFF);
}

#[test]
fn a_drain_and_its_reason_outlive_the_coordinator_and_so_does_its_end() {
    let mut site = Site::new("fifo", 3);
    site.open_two();
    site.pass(30);
    let what = Drained::Host { port: PortId(0) };
    site.coordinator.as_mut().unwrap().set_drain(drain(what)).unwrap();
    site.move_both();
    site.next_coordinator("fifo", 2);
    site.move_both();
    assert_eq!(site.coordinator.as_ref().unwrap().drains(), [drain(what)]);
    assert_eq!((site.gate(0, 0), site.gate(1, 0)), (OPEN, OPEN));
    site.coordinator.as_mut().unwrap().lift_drain(what);
    site.move_both();
    site.next_coordinator("fifo", 3);
    site.move_both();
    assert_eq!(site.coordinator.as_ref().unwrap().drains(), []);
    assert_eq!((site.gate(0, 0), site.gate(1, 0)), (OPEN, OFF));
}

#[test]
fn a_coflow_that_is_over_is_in_the_history_with_what_it_sent_and_who_drained_it() {
    let mut site = Site::new("fifo", 3);
    site.open_two();
    site.sent(0, 0, 5_000_000);
    site.pass(30);
    let key = site.coordinator.as_ref().unwrap().status().next().unwrap().key;
    let coordinator = site.coordinator.as_mut().unwrap();
    coordinator.set_drain(drain(Drained::Coflow { key })).unwrap();
    site.pass(30);
    site.coordinator.as_mut().unwrap().lift_drain(Drained::Coflow { key });
    assert_eq!(site.coordinator.as_ref().unwrap().history().count(), 0);
    site.say(0, ClientMessage::Close { flow: 0, sent: Bytes(5_000_000) });
    site.say(0, ClientMessage::Unregister { coflow: key });
    site.pass(11_000);
    let coordinator = site.coordinator.as_ref().unwrap();
    let past = coordinator.history().find(|past| past.key == key).unwrap();
    assert_eq!((past.sent, past.is_lost), (Bytes(5_000_000), false));
    assert_eq!(past.drain.as_ref().map(|drain| drain.reason.as_str()), Some("new switches"));
    site.now = site.now + Nanos::from_secs(3_601);
    site.pass(200);
    assert_eq!(site.coordinator.as_ref().unwrap().history().count(), 0, "an hour is over");
}

#[test]
fn a_coordinator_in_shadow_mode_decides_and_nobody_obeys() {
    let mut site = Site::new("fifo", 3);
    let shadow = CoordinatorConfig { shadow: true, ..CoordinatorConfig::new(1, 3, RATE) };
    site.coordinator = Some(Coordinator::new(shadow, policy("fifo")));
    site.open_two();
    site.pass(30);
    assert_eq!(site.gate(1, 0), OPEN);
    let flows = site.coordinator.as_ref().unwrap().status().flat_map(|coflow| coflow.flows);
    assert_eq!(flows.map(|flow| flow.gate).collect::<Vec<_>>(), [OPEN, OFF]);
}

#[test]
fn who_waits_is_told_behind_whom_and_where_and_for_how_long() {
    let mut site = Site::new("fifo", 4);
    let known = site.register_with(0, &[], None);
    let unknown = site.register(1);
    let late = site.register(3);
    site.open_sized(0, 0, known, 2, Some(Bytes(250_000_000)));
    site.open(1, 0, unknown, 2);
    site.open(3, 0, late, 2);
    site.open(3, 1, late, 1);
    site.pass(30);
    let why = site.coordinator.as_ref().unwrap().why(late).unwrap();
    assert_eq!((why.open, why.paced, why.off, why.resting), (1, 0, 1, 0));
    let [one] = &why.blockers[..] else { panic!("one blocker in {why:?}") };
    assert_eq!((one.port, one.direction, one.flows), (PortId(2), Direction::Receiving, 1));
    assert_eq!(one.ahead, [known, unknown]);
    assert_eq!((one.left, one.unknown), (Bytes(250_000_000), 1));
    assert_eq!(one.time, Nanos(250_000_000 * 8 * 1_000_000_000 / RATE.0));
    assert!(site.coordinator.as_ref().unwrap().why(known).unwrap().blockers.is_empty());
}

#[test]
fn hosts_negotiate_without_a_coordinator() {
    let mut site = Site::decentralised("dcas-quiet", 3);
    // At host 0 both have the same to send; but the wide one has more elsewhere, which its receiver
    // tells host 0.
    let (wide, narrow) = (site.register(0), site.register(0));
    site.open_sized(0, 0, wide, 2, Some(Bytes(50_000_000)));
    site.open_sized(0, 1, narrow, 2, Some(Bytes(60_000_000)));
    site.pass(5);
    assert_eq!((site.gate(0, 0), site.gate(0, 1)), (OPEN, OFF));
    site.say(1, ClientMessage::Join { coflow: wide, facts: None, sent: Bytes::ZERO });
    site.open_sized(1, 0, wide, 2, Some(Bytes(900_000_000)));
    for step in 1..=25 {
        site.sent(0, 0, step);
        site.sent(0, 1, step);
        site.pass(10);
    }
    assert_eq!((site.gate(0, 0), site.gate(0, 1)), (OFF, OPEN));
    let order = |flow: usize| site.agents[0].status().nth(flow).unwrap().priority;
    assert_eq!(order(0), Priority::new(1, 7_200_000_000), "the wish of the slowest part, in nanoseconds");
}

#[test]
fn a_new_flow_has_no_class_before_the_hosts_own_policy_has_placed_it() {
    let mut site = Site::decentralised("karuna", 2);
    let coflow = site.register(0);
    site.pass(5);
    site.open(0, 0, coflow, 1);
    // Karuna's highest class is of flows with deadlines, and a short flow is over before the policy
    // is asked again.
    assert_eq!(site.told(0, 0), Directive::default());
    site.pass(5);
    assert_eq!(site.told(0, 0).class, Some(1));
}

#[test]
fn orders_hold_for_three_rounds_where_rounds_take_longer_than_a_lease_and_no_agent_is_lost_in_one() {
    let mut site = Site::new("fifo", 3);
    let coflow = site.register(0);
    site.open(0, 0, coflow, 1);
    site.pass(50);
    site.coordinator.as_mut().unwrap().round_took(Nanos::from_millis(600), Nanos::from_millis(600));
    site.sent(0, 0, 500);
    // A beat tells of it; then the coordinator says and hears nothing for as long as a round takes.
    site.pass(30);
    let now = site.now + Nanos::from_millis(600);
    site.agents.iter_mut().for_each(|agent| agent.handle_timeout(now));
    assert!(site.agents.iter().all(|agent| agent.obeys().is_some()), "orders hold");
    site.coordinator.as_mut().unwrap().handle_timeout(now);
    assert_eq!(site.coordinator.as_ref().unwrap().agents(), 3);
}

#[test]
fn orders_hold_for_the_first_round_over_very_many_flows_before_its_time_is_known() {
    let lease = |flows: u32| {
        let config = CoordinatorConfig::new(1, 2, BitsPerSec(1_000_000_000));
        let mut coordinator = Coordinator::new(config, policy("fifo")).with_deferred_rounds(1);
        let now = Instant(10_000_000_000);
        let mut report = Report::new(PortId(0), 1, 1, now, config.line_rate);
        report.snapshot = true;
        let key = CoflowKey::new(now.0, &[]);
        let entry = CoflowEntry { key, facts: None, sent: Bytes::ZERO, owner: 0 };
        report.coflows = [(0, entry)].into_iter().collect();
        let flow = FlowEntry { coflow: 0, to: PortId(1), size: None, sent: Bytes::ZERO, idle: false };
        report.flows = (0..flows).map(|number| (number, flow)).collect();
        coordinator.handle_report(now, report);
        coordinator.handle_timeout(now);
        std::iter::from_fn(|| coordinator.poll_orders()).next().expect("it answers").1.lease
    };
    assert_eq!(lease(1_000), Nanos::from_millis(100), "as configured");
    assert!(lease(200_000) >= Nanos::from_millis(600), "{:?}", lease(200_000));
}

#[test]
fn the_kill_switch_does_not_wait_for_a_round_that_is_filled_elsewhere() {
    let mut site = Site::new("fifo", 3);
    site.open_two();
    site.pass(50);
    assert_eq!(site.gate(1, 0), OFF);
    site.coordinator = site.coordinator.map(|coordinator| coordinator.with_deferred_rounds(1));
    site.sent(0, 0, 9);
    let coflow = site.register(2);
    site.open(2, 0, coflow, 1);
    site.pass(30);
    let _filling = site.coordinator.as_mut().unwrap().poll_filling().expect("there are flows to decide on");
    site.coordinator.as_mut().unwrap().drain(true);
    site.pass(30);
    assert_eq!(site.gate(1, 0), OPEN);
}

#[test]
fn while_a_round_is_filled_elsewhere_agents_obey_reports_are_taken_in_and_what_has_ended_is_left_out() {
    let mut site = Site::new("fifo", 3);
    site.coordinator = site.coordinator.map(|coordinator| coordinator.with_deferred_rounds(1));
    site.open_two();
    site.pass(20);
    let coordinator = site.coordinator.as_mut().unwrap();
    let filling = coordinator.poll_filling().expect("there are flows to decide on");
    let (before, rounds) = (coordinator.counters().reports, coordinator.rounds());
    // Ten leases, in which the second flow ends and the first moves.
    site.say(1, ClientMessage::Close { flow: 0, sent: Bytes(9) });
    for step in 1..=50 {
        site.sent(0, 0, step);
        site.pass(20);
    }
    let coordinator = site.coordinator.as_mut().unwrap();
    assert!(coordinator.counters().reports > before + 50, "reports are taken in");
    assert_eq!((coordinator.rounds(), coordinator.counters().agents_lost), (rounds, 0));
    assert_eq!(coordinator.poll_filling().map(|_| "another"), None, "one round at a time");
    assert!(site.agents.iter().all(|agent| agent.obeys().is_some() && agent.counters().fallbacks == 0));
    let at = site.now;
    site.coordinator.as_mut().unwrap().handle_filled(at, filling.fill());
    site.pass(30);
    assert_eq!(site.agents[1].status().count(), 0);
    assert_eq!(site.gate(0, 0), OPEN);
    let coordinator = site.coordinator.as_mut().unwrap();
    assert!(coordinator.rounds() > rounds, "what has changed meanwhile is for the next round");
}
