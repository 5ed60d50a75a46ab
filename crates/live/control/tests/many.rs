//! A full round over very many coflows: what a policy decides about all of them it decides once.

use std::cell::Cell;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use cavalcade_control::*;
use cavalcade_model::{
    BitsPerSec, Bytes, Clairvoyant, Decision, Discipline, Event, Foresee, Instant, Nanos, Policy,
    PolicyFactory, PortId, Scope, Setting, TaskClass, Terms,
};
use cavalcade_protocol::{ClientMessage, Endpoints, Gate, PROTOCOL};

const RATE: BitsPerSec = BitsPerSec(10_000_000_000);
const CLIENT: ClientId = ClientId(1);

fn address(host: u8) -> SocketAddr {
    SocketAddr::new(IpAddr::V4(Ipv4Addr::new(10, 0, 0, host)), 7000)
}

/// An agent and a coordinator whose words reach each other at once.
struct Site {
    agent: Agent,
    coordinator: Coordinator,
    now: Cell<Instant>,
}

impl Site {
    fn new(factory: Factory) -> Self {
        let directory = (0..3).map(|host| (address(host).ip(), PortId(u32::from(host)))).collect();
        let stall = Nanos::from_secs(600);
        let budget = Budget { coflows: 200_000, flows: 200_000, ..Budget::default() };
        let config = AgentConfig { directory, stall, budget, ..AgentConfig::new(PortId(0), 3, 1, RATE) };
        let mut agent = Agent::new(config, Mode::Coordinated);
        let now = Instant(1_000_000_000);
        agent.handle_coordinator_connected();
        agent.handle_connected(CLIENT, 1);
        agent.handle_client(now, CLIENT, ClientMessage::Hello { protocol: PROTOCOL, client: 1 });
        let lease = Nanos::from_secs(600);
        let config = CoordinatorConfig { lease, stall, ..CoordinatorConfig::new(1, 3, RATE) };
        Self { agent, coordinator: Coordinator::new(config, factory), now: Cell::new(now) }
    }

    /// Registers coflows, of which every other one has a flow.
    fn open(&mut self, coflows: u32) {
        let now = self.now.get();
        for request in 0..coflows {
            let (parents, deadline, name) = (Vec::new(), None, None);
            let (size, class, weight) = (Some(Bytes(1_000 + u64::from(request))), TaskClass::Online, 1);
            let register = ClientMessage::Register { request, parents, deadline, size, class, weight, name };
            self.agent.handle_client(now, CLIENT, register);
        }
        let keys: Vec<_> = self.agent.parts().map(|part| part.key).collect();
        for (flow, &coflow) in (0..).zip(&keys).step_by(2) {
            let ends = Endpoints { local: address(0), remote: address(1 + (flow / 2 % 2) as u8) };
            let size = Some(Bytes(1_000 + u64::from(flow)));
            let open = ClientMessage::Open { flow, coflow, ends, size, sent: Bytes::ZERO };
            self.agent.handle_client(now, CLIENT, open);
        }
    }

    /// Has them talk for so many periods.
    fn talk(&mut self, periods: u32) {
        for _ in 0..periods {
            self.now.set(self.now.get() + Nanos::from_millis(10));
            let now = self.now.get();
            self.agent.handle_timeout(now);
            while let Some(output) = self.agent.poll_output() {
                if let AgentOutput::Coordinator(report) = output {
                    self.coordinator.handle_report(now, report);
                }
            }
            self.coordinator.handle_timeout(now);
            while let Some((_, orders)) = self.coordinator.poll_orders() {
                self.agent.handle_orders(now, orders);
            }
        }
    }

    fn close_all(&mut self) {
        let keys: Vec<_> = self.agent.parts().map(|part| part.key).collect();
        for (flow, coflow) in (0..).zip(keys) {
            if flow % 2 == 0 {
                self.agent.handle_client(
                    self.now.get(),
                    CLIENT,
                    ClientMessage::Close { flow, sent: Bytes(1) },
                );
            }
            self.agent.handle_client(self.now.get(), CLIENT, ClientMessage::Unregister { coflow });
        }
        // What has ended is remembered for a while.
        self.now.set(self.now.get() + Nanos::from_secs(30));
    }
}

/// A policy that counts how often it decides about all.
struct Counting(Arc<AtomicU64>);

impl PolicyFactory for Counting {
    fn terms(&self) -> Terms {
        Terms::strict(Scope::Fabric, Discipline::Greedy)
    }

    fn build(&self, _: &Setting<'_>) -> Policy {
        Policy::Clairvoyant(Box::new(Self(Arc::clone(&self.0))))
    }
}

impl Clairvoyant for Counting {
    fn handle(&mut self, _: Instant, _: Event, _: &dyn Foresee, decision: &mut Decision) {
        if !decision.put_off() {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }
}

#[test]
fn a_policy_that_puts_its_decision_off_makes_it_once_a_round_however_much_has_come_and_ended() {
    let decisions = Arc::new(AtomicU64::new(0));
    let mut site = Site::new(Box::new(Counting(Arc::clone(&decisions))));
    site.open(4_000);
    site.talk(20);
    assert_eq!(site.coordinator.status().count(), 4_000);
    let after_begin = decisions.load(Ordering::Relaxed);
    assert!((1..=site.coordinator.rounds()).contains(&after_begin), "{after_begin}");
    site.close_all();
    site.talk(20);
    assert_eq!(site.coordinator.status().count(), 0);
    let all = decisions.load(Ordering::Relaxed);
    assert!((after_begin + 1..=site.coordinator.rounds()).contains(&all), "{all}");
}

#[test]
fn forty_thousand_coflows_are_put_in_order_by_policies_that_look_at_all_of_them() {
    for spec in ["sebf", "varys", "saath"] {
        let mut site = Site::new(Box::new(cavalcade_policy::parse(spec).unwrap()));
        site.open(43_600);
        let began = std::time::Instant::now();
        site.talk(20);
        println!("{spec}: 20 periods after 43,600 coflows and 21,800 flows: {:?}", began.elapsed());
        assert_eq!(site.coordinator.status().map(|coflow| coflow.flows.len()).sum::<usize>(), 21_800);
        let sends = site.agent.status().filter(|flow| flow.told.gate != Gate::Off {}).count();
        assert!(sends > 0, "{spec}");
        site.close_all();
        site.talk(20);
        assert_eq!(site.coordinator.status().count(), 0, "{spec}");
    }
}
