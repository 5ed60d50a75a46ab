//! What applications transfer, and how bytes move: TCP as max-min sharing of what is open, with rates as caps.

use cavalcade_allocate::reference;
use cavalcade_model::{Bytes, Priority};
use cavalcade_protocol::{CoflowKey, Endpoints, Gate, Registration};

use crate::FAULTS_MS;
use crate::dice::Dice;
use crate::host::{Host, RATE};

/// A coflow of the workload.
#[derive(Debug)]
pub(crate) struct Coflow {
    pub(crate) arrives_at: u64,
    pub(crate) host: usize,
    pub(crate) process: usize,
    pub(crate) request: Option<u32>,
    pub(crate) key: Option<CoflowKey>,
    /// When it got that.
    pub(crate) registered_at: u64,
    /// Bytes that were really sent.
    pub(crate) sent: u64,
    pub(crate) is_over: bool,
}

impl Coflow {
    fn new(arrives_at: u64, host: usize, process: usize) -> Self {
        let (request, key, registered_at, sent, is_over) = (None, None, 0, 0, false);
        Self { arrives_at, host, process, request, key, registered_at, sent, is_over }
    }
}

/// A flow of the workload.
#[derive(Debug)]
pub(crate) struct Flow {
    pub(crate) coflow: usize,
    pub(crate) arrives_at: u64,
    pub(crate) host: usize,
    pub(crate) process: usize,
    pub(crate) to: u32,
    pub(crate) size: u64,
    pub(crate) sent: u64,
    /// From when to when the application has nothing to send.
    pub(crate) rests: (u64, u64),
    /// The client's number of it, while it has one.
    pub(crate) number: Option<u32>,
    /// Milliseconds for which it has been off although its links were idle.
    pub(crate) waits_ms: u64,
    part_of_byte: f64,
}

/// The whole workload.
#[derive(Debug)]
pub(crate) struct Traffic {
    pub(crate) coflows: Vec<Coflow>,
    pub(crate) flows: Vec<Flow>,
    hosts: u32,
    /// What gates were when rates were computed, and those rates in bytes per millisecond.
    gates: Vec<Option<Gate>>,
    rates: Vec<f64>,
}

impl Traffic {
    /// Coflows of a few flows each, from all hosts; a third of them large enough to outlast the faults.
    pub(crate) fn new(dice: &mut Dice, hosts: u32, processes: usize) -> Self {
        let (mut coflows, mut flows) = (Vec::new(), Vec::new());
        for coflow in 0..dice.between(3, 7) as usize {
            let arrives_at = dice.below(1000);
            let host = dice.below(u64::from(hosts)) as usize;
            let process = dice.below(processes as u64) as usize;
            coflows.push(Coflow::new(arrives_at, host, process));
            let is_large = dice.chance(400);
            for _ in 0..dice.between(1, 4) {
                let size =
                    if is_large { dice.between(30_000_000, 120_000_000) } else { dice.between(1, 8_000_000) };
                let rest = arrives_at + dice.below(1200);
                let rests =
                    if dice.chance(200) { (rest, (rest + dice.below(300)).min(FAULTS_MS)) } else { (0, 0) };
                flows.push(Flow {
                    coflow,
                    arrives_at: arrives_at + if dice.chance(300) { dice.below(400) } else { 0 },
                    host: dice.below(u64::from(hosts)) as usize,
                    process: dice.below(processes as u64) as usize,
                    to: dice.below(u64::from(hosts)) as u32,
                    size,
                    sent: 0,
                    rests,
                    number: None,
                    waits_ms: 0,
                    part_of_byte: 0.0,
                });
            }
        }
        let (gates, rates) = (Vec::new(), Vec::new());
        Self { coflows, flows, hosts, gates, rates }
    }

    /// Has everything arrive early and never rest, so that what is held back is held for long.
    pub(crate) fn hasten(&mut self) {
        self.coflows.iter_mut().for_each(|coflow| coflow.arrives_at /= 4);
        for flow in &mut self.flows {
            (flow.arrives_at, flow.rests) = (flow.arrives_at / 4, (0, 0));
        }
    }

    /// One more coflow, of one small flow.
    pub(crate) fn add_marker(&mut self, now: u64) {
        let coflow = self.coflows.len();
        self.coflows.push(Coflow::new(now, 0, 0));
        self.flows.push(Flow {
            coflow,
            arrives_at: now,
            host: 0,
            process: 0,
            to: 1,
            size: 100_000,
            sent: 0,
            rests: (0, 0),
            number: None,
            waits_ms: 0,
            part_of_byte: 0.0,
        });
    }

    pub(crate) fn is_done(&self) -> bool {
        self.flows.iter().all(|flow| flow.sent == flow.size)
    }

    /// The process at `host` has crashed: its connections are gone. It will open new ones for what remains.
    pub(crate) fn lose(&mut self, host: usize, process: usize) {
        for flow in self.flows.iter_mut().filter(|flow| (flow.host, flow.process) == (host, process)) {
            flow.number = None;
        }
        for coflow in
            self.coflows.iter_mut().filter(|coflow| (coflow.host, coflow.process) == (host, process))
        {
            if coflow.key.is_none() {
                coflow.request = None;
            }
        }
    }

    /// Registers coflows, opens flows, and says who rests.
    pub(crate) fn begin(
        &mut self,
        now: u64,
        hosts: &mut [Host],
        processes_up: impl Fn(usize, usize) -> bool,
    ) {
        for coflow in &mut self.coflows {
            let host = &mut hosts[coflow.host];
            let clock = host.clock.read(now);
            let Some(client) = &mut host.processes[coflow.process].client else { continue };
            if now >= coflow.arrives_at && coflow.request.is_none() {
                coflow.request = Some(client.register(clock, Registration::default()));
            }
        }
        for flow in &mut self.flows {
            let Some(key) = self.coflows[flow.coflow].key else { continue };
            if flow.sent == flow.size || now < flow.arrives_at || !processes_up(flow.host, flow.process) {
                continue;
            }
            let Some(client) = &mut hosts[flow.host].processes[flow.process].client else { continue };
            let number = *flow.number.get_or_insert_with(|| {
                let at = |port| core::net::SocketAddr::new(crate::world::address(port), 7000);
                let ends = Endpoints { local: at(flow.host as u32), remote: at(flow.to) };
                client.open(key, ends, Some(Bytes(flow.size - flow.sent)))
            });
            client.set_idle(number, flow.rests.0 <= now && now < flow.rests.1);
        }
    }

    /// Moves the bytes of a millisecond.
    pub(crate) fn flow(&mut self, now: u64, hosts: &mut [Host]) {
        let gate = |flow: &Flow| {
            let client = hosts[flow.host].processes[flow.process].client.as_ref()?;
            let number = flow.number?;
            let rests = flow.rests.0 <= now && now < flow.rests.1;
            (flow.sent < flow.size && !rests).then(|| client.directive(number).gate)
        };
        let gates: Vec<Option<Gate>> = self.flows.iter().map(gate).collect();
        if gates != self.gates {
            self.rates = self.share(&gates);
            self.gates = gates;
        }
        let mut busy = vec![false; 2 * self.hosts as usize];
        for (index, flow) in self.flows.iter_mut().enumerate() {
            let due = self.rates[index] + flow.part_of_byte;
            flow.part_of_byte = due.fract();
            let more = (due as u64).min(flow.size - flow.sent);
            let Some(number) = flow.number.filter(|_| more > 0) else { continue };
            busy[flow.host] = true;
            busy[(self.hosts + flow.to) as usize] = true;
            flow.sent += more;
            self.coflows[flow.coflow].sent += more;
            let Some(client) = &mut hosts[flow.host].processes[flow.process].client else { continue };
            client.sent(number, more);
            if flow.sent == flow.size {
                client.close(number);
                flow.number = None;
            }
        }
        for (flow, gate) in self.flows.iter_mut().zip(&self.gates) {
            let is_off = *gate == Some(Gate::Off {});
            let is_free = !busy[flow.host] && !busy[(self.hosts + flow.to) as usize];
            flow.waits_ms = if is_off && is_free { flow.waits_ms + 1 } else { 0 };
        }
        self.end(hosts);
    }

    /// Says of coflows that they are over.
    fn end(&mut self, hosts: &mut [Host]) {
        for (index, coflow) in self.coflows.iter_mut().enumerate().filter(|(_, coflow)| !coflow.is_over) {
            let Some(key) = coflow.key else { continue };
            let client = &mut hosts[coflow.host].processes[coflow.process].client;
            let is_done = || self.flows.iter().all(|flow| flow.coflow != index || flow.sent == flow.size);
            if let (Some(client), true) = (client, is_done()) {
                client.unregister(key);
                coflow.is_over = true;
            }
        }
    }

    /// Rates in bytes per millisecond: TCP is max-min sharing of what is open.
    fn share(&self, gates: &[Option<Gate>]) -> Vec<f64> {
        let capacity = vec![RATE.bytes_per_nano(); 2 * self.hosts as usize];
        let paths: Vec<[u32; 2]> =
            self.flows.iter().map(|flow| [flow.host as u32, self.hosts + flow.to]).collect();
        let cap = |gate: &Option<Gate>| match gate {
            None | Some(Gate::Off {}) => 0.0,
            Some(Gate::Paced { rate }) => rate.bytes_per_nano(),
            Some(_) => f64::INFINITY,
        };
        let flow = |(path, gate)| reference::Flow {
            path,
            coflow: 0,
            priorities: const { &[Priority::new(0, 0)] },
            remaining: f64::INFINITY,
            cap: cap(gate),
        };
        let flows: Vec<reference::Flow<'_>> =
            paths.iter().map(|path| &path[..]).zip(gates).map(flow).collect();
        reference::max_min(&capacity, &flows).into_iter().map(|rate| rate * 1e6).collect()
    }
}
