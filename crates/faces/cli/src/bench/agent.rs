//! `cavalcade bench agent`: what an operation costs at an agent with very many coflows and flows,
//! and at its coordinator.
//!
//! Agent and coordinator are the machines of the live system, joined here without sockets: what is
//! measured is what they compute, with messages as bytes between them. All flows leave one host for
//! one other, so that all of them wait for the same receiver: whatever walks over those that wait
//! is quadratic here, and would show. `docs/threats.md` has figures.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::Instant as Wall;

use cavalcade_control::{
    Agent, AgentConfig, AgentOutput, Budget, ClientId, Coordinator, CoordinatorConfig, Mode,
};
use cavalcade_model::{BitsPerSec, Bytes, Instant, Nanos, PortId, TaskClass};
use cavalcade_protocol::{
    AgentMessage, ClientMessage, CoflowKey, Endpoints, MAX_FRAME, Message, Orders, PROTOCOL, Report,
};
use cavalcade_report::Cells;
use serde_json::json;

use super::Lines;
use crate::arguments::AgentBench;
use crate::failure::Failure;
use crate::policies::configured;

const CLIENT: ClientId = ClientId(0);
const RATE: BitsPerSec = BitsPerSec(10_000_000_000);
const PERIOD: Nanos = Nanos::from_millis(10);

/// Runs the benchmark.
///
/// # Errors
/// If the policy is unknown or output cannot be written.
pub(crate) fn run(options: &AgentBench) -> Result<(), Failure> {
    let mut pair = Pair::new(options)?;
    let (coflows, flows) = (options.coflows, options.flows);
    pair.measure("register a coflow", coflows, |pair| {
        (0..coflows).for_each(|request| pair.register(request));
    })?;
    let keys = std::mem::take(&mut pair.keys);
    pair.measure("open a flow", flows, |pair| {
        (0..flows).for_each(|flow| pair.open(flow, keys[flow as usize % keys.len()]));
    })?;
    pair.exchange_timed("all of it", coflows + flows)?;
    pair.measure("say how far a flow is", flows, |pair| {
        (0..flows).for_each(|flow| pair.send(ClientMessage::Sent { flow, sent: Bytes(5_000), idle: false }));
    })?;
    pair.exchange_timed("progress", flows)?;
    pair.coordinator.handle_disconnected(PortId(0));
    pair.agent.handle_coordinator_connected();
    pair.exchange_timed("all again, in a snapshot", coflows + flows)?;
    pair.measure("explain a coflow (why)", 10, |pair| {
        (0..10).for_each(|place| drop(pair.coordinator.why(keys[place * (keys.len() - 1) / 10])));
    })?;
    pair.measure("close a flow", flows / 2, |pair| {
        (0..flows / 2).for_each(|flow| pair.send(ClientMessage::Close { flow, sent: Bytes(6_000) }));
    })?;
    pair.measure("end a process with the other flows", flows - flows / 2, |pair| {
        pair.agent.handle_gone(pair.now, CLIENT);
    })?;
    pair.exchange_timed("their end", flows)?;
    pair.measure("forget a coflow", coflows, |pair| {
        pair.now = pair.now + Nanos::from_secs(60);
        pair.agent.handle_timeout(pair.now);
    })?;
    pair.exchange_timed("the end of coflows", coflows)?;
    pair.lines.end()
}

const COLUMNS: [(&str, Cells); 4] = [
    ("operation", Cells::Text),
    ("µs each", Cells::Figures),
    ("times", Cells::Figures),
    ("seconds", Cells::Figures),
];

/// An agent, its client and a coordinator.
struct Pair {
    agent: Agent,
    coordinator: Coordinator,
    now: Instant,
    keys: Vec<CoflowKey>,
    reports: Vec<Report>,
    lines: Lines<'static>,
}

/// The times of an exchange.
#[derive(Default)]
struct Exchange {
    reporting: f64,
    taking_in: f64,
    deciding: f64,
    /// The time that the coordinator is not kept from all else.
    filling: f64,
    obeying: f64,
    longest: f64,
    reports: u32,
    largest: usize,
}

impl Pair {
    fn new(options: &AgentBench) -> Result<Self, Failure> {
        let policy = configured(&options.policy)?;
        let directory = (0..2).map(|host| (address(host).ip(), PortId(u32::from(host)))).collect();
        let most = options.coflows.max(options.flows).saturating_mul(2);
        let budget = Budget { coflows: most, flows: most, ..Budget::default() };
        // A flow that moves nothing would give up its place to the next, one after the other.
        let stall = Nanos::from_secs(3600);
        let config = AgentConfig { directory, budget, stall, ..AgentConfig::new(PortId(0), 2, 1, RATE) };
        let coordinator = CoordinatorConfig { lease: stall, stall, ..CoordinatorConfig::new(1, 2, RATE) };
        let now = Instant(1_000_000_000);
        let mut pair = Self {
            agent: Agent::new(config, Mode::Coordinated),
            coordinator: Coordinator::new(coordinator, Box::new(policy)).with_deferred_rounds(1),
            now,
            keys: Vec::new(),
            reports: Vec::new(),
            lines: Lines::new(&COLUMNS, options.json, options.room.wide),
        };
        pair.agent.handle_connected(CLIENT, 1);
        pair.agent.handle_client(now, CLIENT, ClientMessage::Hello { protocol: PROTOCOL, client: 1 });
        pair.agent.handle_coordinator_connected();
        Ok(pair)
    }

    fn measure(&mut self, what: &str, times: u32, work: impl FnOnce(&mut Self)) -> Result<(), Failure> {
        let began = Wall::now();
        work(self);
        let took = began.elapsed().as_secs_f64();
        self.drain();
        self.line(what, times, took)
    }

    fn register(&mut self, request: u32) {
        let (deadline, size, class) = (None, None, TaskClass::Online);
        self.send(ClientMessage::Register {
            request,
            parents: Vec::new(),
            deadline,
            size,
            class,
            weight: 1,
            name: None,
        });
    }

    fn open(&mut self, flow: u32, coflow: CoflowKey) {
        let ends = Endpoints { local: address(0), remote: address(1) };
        self.send(ClientMessage::Open { flow, coflow, ends, size: Some(Bytes(1 << 30)), sent: Bytes::ZERO });
    }

    fn send(&mut self, message: ClientMessage) {
        self.now = self.now + Nanos(10);
        self.agent.handle_client(self.now, CLIENT, message);
        self.drain();
    }

    fn drain(&mut self) {
        while let Some(output) = self.agent.poll_output() {
            match output {
                AgentOutput::Client(_, AgentMessage::Registered { coflow, .. }) => self.keys.push(coflow),
                AgentOutput::Coordinator(report) => self.reports.push(report),
                _ => {}
            }
        }
    }

    /// Lets agent and coordinator talk until they have nothing new to say.
    fn exchange(&mut self) -> Exchange {
        let mut spent = Exchange::default();
        for quiet in 0.. {
            self.now = self.now + PERIOD;
            let now = self.now;
            let (_, took) = timed(|| self.agent.handle_timeout(now));
            self.drain();
            spent.reporting += took;
            let mut said = std::mem::take(&mut self.reports);
            // The other host has no flows and only has to be heard.
            said.truncate(1);
            let has_news = said.iter().any(|report| !report.coflows.is_empty() || !report.flows.is_empty())
                || said.iter().any(|report| !report.progress.is_empty() || !report.closed.is_empty())
                || said.iter().any(|report| !report.left.is_empty());
            for report in said {
                let bytes = report.to_bytes();
                assert!(bytes.len() <= MAX_FRAME, "a report of {} bytes fits a frame", bytes.len());
                (spent.reports, spent.largest) = (spent.reports + 1, spent.largest.max(bytes.len()));
                let ((), took) = timed(|| {
                    let report = Report::decode(&bytes).expect("what was encoded is decoded");
                    self.coordinator.handle_report(now, report);
                });
                (spent.taking_in, spent.longest) = (spent.taking_in + took, spent.longest.max(took));
            }
            let ((), took) = timed(|| self.coordinator.handle_timeout(now));
            (spent.deciding, spent.longest) = (spent.deciding + took, spent.longest.max(took));
            if let Some(filling) = self.coordinator.poll_filling() {
                let (filled, took) = timed(|| filling.fill());
                spent.filling += took;
                let ((), took) = timed(|| self.coordinator.handle_filled(now, filled));
                (spent.deciding, spent.longest) = (spent.deciding + took, spent.longest.max(took));
            }
            let mut is_told = false;
            while let Some((_, orders)) = self.coordinator.poll_orders() {
                is_told |= !orders.flows.is_empty() || !orders.priorities.is_empty();
                let bytes = orders.to_bytes();
                assert!(bytes.len() <= MAX_FRAME, "orders of {} bytes fit a frame", bytes.len());
                let ((), took) = timed(|| {
                    let orders = Orders::decode(&bytes).expect("what was encoded is decoded");
                    self.agent.handle_orders(now, orders);
                });
                spent.obeying += took;
            }
            if !has_news && !is_told && quiet > 3 {
                return spent;
            }
        }
        spent
    }

    fn exchange_timed(&mut self, what: &str, items: u32) -> Result<(), Failure> {
        let spent = self.exchange();
        let reports = format!("report {what} ({} reports, {} B at most)", spent.reports, spent.largest);
        self.line(&reports, items, spent.reporting)?;
        self.line(&format!("take in {what}"), items, spent.taking_in)?;
        self.line(&format!("decide on {what}"), items, spent.deciding)?;
        self.line(&format!("fill beside that, {what}"), items, spent.filling)?;
        self.line(&format!("obey after {what}"), items, spent.obeying)?;
        self.line(&format!("longest pause of the coordinator, {what}"), 1, spent.longest)
    }
    /// Adds what an operation took.
    fn line(&mut self, what: &str, times: u32, seconds: f64) -> Result<(), Failure> {
        let each = seconds * 1e6 / f64::from(times.max(1));
        let cells = vec![what.to_owned(), format!("{each:.2}"), times.to_string(), format!("{seconds:.3}")];
        self.lines.add(&json!({ "operation": what, "times": times, "seconds": seconds }), cells)
    }
}

fn timed<T>(work: impl FnOnce() -> T) -> (T, f64) {
    let began = Wall::now();
    let done = work();
    (done, began.elapsed().as_secs_f64())
}

fn address(host: u8) -> SocketAddr {
    SocketAddr::new(IpAddr::V4(Ipv4Addr::new(10, 0, 0, host)), 7336)
}
