//! The trace in real time: coflows are registered and flows begun when it says, and what arrives is
//! checked.
//!
//! One thread keeps the time and hears the hosts. It registers a coflow with the agent of the host
//! that sends its first flow, as that host's application would, and hands the key to all hosts that
//! send.
//!
//! A flow whose sender or receiver was killed is begun again from its first byte, as a framework
//! does that runs a task again; the number of the attempt tells what is left of the former one.

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use cavalcade_client::{CoflowKey, Registration, Session};
use cavalcade_model::{Bytes, CoflowId, FlowId, Instant, Nanos, Workload};

use crate::error::LabError;
use crate::host::{HEAD, since_1970};
use crate::message::{Command, Event, Part, Start};
use crate::payload::Payload;
use crate::run::{Burst, Cost, Recovery};
use crate::site::{FromHost, Running, Site};
use crate::workload::Scheduler;

/// The pause between two looks at whether it is to stop.
const LOOK: Duration = Duration::from_millis(50);
/// The time within which agents answer.
const PATIENCE: Duration = Duration::from_secs(20);
/// From when everything is up until the trace begins: agents are with their coordinator by then.
const LEAD: Nanos = Nanos::from_millis(300);

/// Something that breaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fault {
    /// The time from the start of the replay.
    pub at: Nanos,
    /// The fault.
    pub victim: Victim,
    /// For how long it hangs; where nothing is event it is killed, and started again at once.
    pub hangs: Option<Nanos>,
}

/// A fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Victim {
    /// The coordinator.
    Coordinator,
    /// A host's agent.
    Agent(u32),
    /// A host's application, with all its connections.
    Application(u32),
}

/// The result of a replay.
pub(crate) struct Replayed {
    /// The time at which each flow had arrived.
    pub(crate) finished: Vec<Instant>,
    /// When it began, in nanoseconds since 1970.
    pub(crate) began: u64,
    /// The bursts in which each flow's bytes came.
    pub(crate) bursts: Vec<Vec<Burst>>,
    pub(crate) cost: Cost,
    pub(crate) recoveries: Vec<Recovery>,
}

/// A planned event.
#[derive(Clone, Copy)]
enum Step {
    Register(CoflowId),
    Begin(FlowId),
    Break(Fault),
    /// A process that hangs goes on.
    GoOn(usize),
}

#[derive(Clone, Default)]
struct Transfer {
    is_begun: bool,
    attempt: u32,
    finished: Option<Instant>,
    bursts: Vec<Burst>,
}

struct Replay<'a> {
    site: &'a Site,
    running: Running,
    workload: &'a Workload,
    scheduler: &'a Scheduler,
    payload: Payload,
    /// The begin of the trace, in nanoseconds since 1970.
    began: u64,
    sessions: Vec<Session>,
    keys: Vec<Option<CoflowKey>>,
    transfers: Vec<Transfer>,
    /// Processor time of the control plane when everything was up.
    spent_before: [Nanos; 3],
    /// Transfers of each coflow that have not arrived.
    left: Vec<usize>,
    unfinished: usize,
    /// Flows whose sender or receiver is not there at present.
    waiting: Vec<FlowId>,
    /// Faults, with when the victim was there again.
    broken: Vec<(Fault, Option<Instant>, Option<Instant>)>,
    steps: VecDeque<(Instant, Step)>,
}

/// Replays `workload` on what runs at `site`.
pub(crate) fn replay(
    site: &Site,
    running: Running,
    workload: &Workload,
    scheduler: &Scheduler,
    faults: &[Fault],
    limit: Nanos,
    stop: &AtomicBool,
) -> Result<Replayed, LabError> {
    let sessions = open_sessions(site, &running, scheduler)?;
    let mut replay = Replay {
        site,
        workload,
        scheduler,
        payload: Payload::new(),
        began: since_1970() + LEAD.0,
        sessions,
        keys: vec![None; workload.coflow_count()],
        transfers: vec![Transfer::default(); workload.flows().len()],
        left: workload.coflows().map(|coflow| coflow.flows.len()).collect(),
        unfinished: workload.flows().len(),
        waiting: Vec::new(),
        broken: Vec::new(),
        steps: steps(workload, faults),
        spent_before: running.spent(),
        running,
    };
    replay.play(limit, stop)?;
    let wall = replay.now();
    let cost = replay.cost(wall)?;
    let missing = "no transfer is unfinished";
    let finished = replay.transfers.iter().map(|transfer| transfer.finished.expect(missing)).collect();
    let recoveries = replay.broken.iter().filter_map(|&(fault, back, next)| {
        let since = |when: Instant| when.since(Instant(fault.at.0));
        Some(Recovery { fault, back: since(back?), next_arrival: next.map(since) })
    });
    let bursts = replay.transfers.iter_mut().map(|transfer| std::mem::take(&mut transfer.bursts)).collect();
    Ok(Replayed { began: replay.began, finished, bursts, cost, recoveries: recoveries.collect() })
}

fn open_sessions(site: &Site, running: &Running, scheduler: &Scheduler) -> Result<Vec<Session>, LabError> {
    if !scheduler.has_agents() {
        return Ok(Vec::new());
    }
    let sessions: io::Result<Vec<Session>> =
        (0..running.hosts.len()).map(|host| Session::open(site.socket(host as u32))).collect();
    let sessions = sessions.map_err(LabError::system("reach the agents"))?;
    match sessions.iter().position(|session| !session.wait_ready(PATIENCE)) {
        Some(silent) => Err(running.agents[silent].failed("does not answer")),
        None => Ok(sessions),
    }
}

/// Lists all steps of the trace and faults, in order of time; what comes at one time in order of
/// the trace.
fn steps(workload: &Workload, faults: &[Fault]) -> VecDeque<(Instant, Step)> {
    let mut steps: Vec<(Instant, Step)> = Vec::new();
    for coflow in workload.coflows() {
        let arrival = coflow.task.arrival;
        steps.push((arrival, Step::Register(coflow.id)));
        for flow in workload.flow_ids(coflow.id).map(FlowId) {
            steps.push((Instant(arrival.0.saturating_add(workload.flow(flow).wave.0)), Step::Begin(flow)));
        }
    }
    steps.extend(faults.iter().map(|fault| (Instant(fault.at.0), Step::Break(*fault))));
    steps.sort_by_key(|(when, _)| *when);
    steps.into()
}

impl Replay<'_> {
    /// Since the trace began; zero before.
    fn now(&self) -> Instant {
        Instant(since_1970().saturating_sub(self.began))
    }

    fn play(&mut self, limit: Nanos, stop: &AtomicBool) -> Result<(), LabError> {
        while self.unfinished > 0 || !self.steps.is_empty() || self.is_somebody_away() {
            let now = self.now();
            if stop.load(Ordering::Relaxed) {
                return Err(LabError::Interrupted);
            }
            if now.0 > limit.0 {
                let (unfinished, seconds) = (self.unfinished, limit.0 / 1_000_000_000);
                return Err(LabError::TimedOut { unfinished, seconds });
            }
            let has_begun = since_1970() >= self.began;
            if has_begun && let Some((_, step)) = self.steps.pop_front_if(|(when, _)| *when <= now) {
                self.step(step)?;
                continue;
            }
            let next = self.steps.front().map_or(LOOK, |(when, _)| {
                Duration::from_nanos((self.began + when.0).saturating_sub(since_1970()))
            });
            if let Ok(message) = self.running.events.recv_timeout(next.min(LOOK)) {
                self.receive(message)?;
            }
        }
        Ok(())
    }

    /// Tells whether a victim is not back yet.
    fn is_somebody_away(&self) -> bool {
        self.broken.iter().any(|(_, back, _)| back.is_none())
    }

    /// Tells whether there is such a victim in this run.
    fn runs(&self, victim: Victim) -> bool {
        match victim {
            Victim::Coordinator => self.running.coordinator.is_some(),
            Victim::Agent(host) => (host as usize) < self.running.agents.len(),
            Victim::Application(host) => (host as usize) < self.running.hosts.len(),
        }
    }

    fn step(&mut self, step: Step) -> Result<(), LabError> {
        match step {
            Step::Register(coflow) => self.register(coflow)?,
            Step::Begin(flow) => {
                self.transfers[flow.index()].is_begun = true;
                self.begin(flow)?;
            }
            Step::Break(fault) => self.break_it(fault)?,
            Step::GoOn(which) => {
                let now = self.now();
                let (fault, back, _) = &mut self.broken[which];
                *back = Some(now);
                let victim = fault.victim;
                self.hang(victim, false);
            }
        }
        Ok(())
    }

    fn register(&mut self, coflow: CoflowId) -> Result<(), LabError> {
        if !self.scheduler.has_agents() {
            return Ok(());
        }
        let size = Some(self.workload.coflow_bytes(coflow));
        let task = self.workload.coflow(coflow).task;
        let registration = Registration {
            size,
            deadline: task.deadline,
            class: task.class,
            weight: task.weight,
            ..Registration::default()
        };
        let master = self.workload.flows_of(coflow)[0].src;
        let key = self.sessions[master.index()].register(registration);
        let key = key.map_err(|invalid| LabError::system("register a coflow")(io::Error::other(invalid)))?;
        self.keys[coflow.index()] = Some(key);
        if self.site.is_kernel() { self.announce(coflow, &key.to_string()) } else { Ok(()) }
    }

    /// Tells each host that sends what its part of a coflow is.
    fn announce(&mut self, coflow: CoflowId, key: &str) -> Result<(), LabError> {
        let mut parts: BTreeMap<usize, BTreeMap<IpAddr, u64>> = BTreeMap::new();
        for flow in self.workload.flows_of(coflow) {
            let of_host = parts.entry(flow.src.index()).or_default();
            *of_host.entry(self.site.address(flow.dst.0)).or_default() += flow.size.0 + HEAD;
        }
        for (host, sends) in parts {
            let part = Part { coflow: key.to_owned(), sends: sends.into_iter().collect() };
            let host = &mut self.running.hosts[host];
            // One that is away is told with the flows themselves.
            if host.listens.is_some() {
                host.send(&Command::Part(part))?;
            }
        }
        Ok(())
    }

    fn begin(&mut self, id: FlowId) -> Result<(), LabError> {
        let flow = self.workload.flow(id);
        let to = self.running.hosts[flow.dst.index()].listens;
        let sender = &mut self.running.hosts[flow.src.index()];
        let (Some(to), Some(_)) = (to, sender.listens) else {
            self.waiting.push(id);
            return Ok(());
        };
        let of = self.workload.coflow_of(id);
        let coflow = self.keys[of.index()].map(|key| key.to_string());
        let task = self.workload.number(self.workload.place(of).task);
        let attempt = self.transfers[id.index()].attempt;
        sender.send(&Command::Start(Start { flow: id.0, attempt, to, size: flow.size.0, task, coflow }))
    }

    fn receive(&mut self, message: FromHost) -> Result<(), LabError> {
        let FromHost { host, life, event } = message;
        let application = &mut self.running.hosts[host as usize];
        let is_current = application.life == life;
        match event {
            None if is_current => Err(application.process.failed("ended")),
            Some(Event::Ready(at)) if is_current => {
                application.listens = Some(at);
                self.is_back(Victim::Application(host));
                std::mem::take(&mut self.waiting).into_iter().try_for_each(|flow| self.begin(flow))
            }
            Some(Event::Received { flow, attempt, bytes, digest, at, bursts }) => {
                let time = |since_1970: u64| Instant(since_1970.saturating_sub(self.began));
                let burst = |(began, bytes)| Burst { began: time(began), bytes: Bytes(bytes) };
                let bursts = bursts.into_iter().map(burst).collect();
                self.received(FlowId(flow), attempt, (bytes, digest), (time(at), bursts))
            }
            Some(Event::Failed { flow, reason }) => self.failed(flow, reason),
            _ => Ok(()),
        }
    }

    fn received(
        &mut self,
        id: FlowId,
        attempt: u32,
        (bytes, digest): (u64, u64),
        (at, bursts): (Instant, Vec<Burst>),
    ) -> Result<(), LabError> {
        let Some(transfer) = self.transfers.get_mut(id.index()) else { return Ok(()) };
        let (flow, coflow) = (self.workload.flow(id), self.workload.coflow_of(id));
        let is_whole = bytes == flow.size.0 && digest == self.payload.digest(id.0, bytes);
        if !is_whole && attempt < transfer.attempt {
            return Ok(());
        }
        if !is_whole {
            let (coflow, sent) = (self.workload.coflow_name(coflow), flow.size.0);
            return Err(LabError::Corrupt { flow: id.0, coflow, received: bytes, sent });
        }
        if transfer.finished.is_none() {
            (transfer.finished, transfer.bursts) = (Some(at), bursts);
            self.unfinished -= 1;
            self.left[coflow.index()] -= 1;
            for (fault, _, next) in &mut self.broken {
                if concerns(fault.victim, flow.src.0, flow.dst.0) {
                    next.get_or_insert(at);
                }
            }
        }
        if self.left[coflow.index()] == 0
            && let Some(key) = self.keys[coflow.index()].take()
        {
            self.over(coflow, key)?;
        }
        Ok(())
    }

    /// All applications that took part say that a coflow is over.
    fn over(&mut self, coflow: CoflowId, key: CoflowKey) -> Result<(), LabError> {
        let flows = self.workload.flows_of(coflow);
        self.sessions[flows[0].src.index()].unregister(key);
        let mut senders: Vec<usize> = flows.iter().map(|flow| flow.src.index()).collect();
        senders.sort_unstable();
        senders.dedup();
        senders
            .into_iter()
            .filter(|&host| self.running.hosts[host].listens.is_some())
            .collect::<Vec<_>>()
            .into_iter()
            .try_for_each(|host| self.running.hosts[host].send(&Command::Over(key.to_string())))
    }

    fn failed(&mut self, flow: Option<(u32, u32)>, reason: String) -> Result<(), LabError> {
        let Some((flow, attempt)) = flow else {
            return Err(LabError::Process { what: "an application".to_owned(), how: reason });
        };
        match self.transfers.get(flow as usize) {
            Some(transfer) if transfer.finished.is_none() && transfer.attempt == attempt => {
                let coflow = self.workload.coflow_name(self.workload.coflow_of(FlowId(flow)));
                Err(LabError::Transfer { flow, coflow, reason })
            }
            _ => Ok(()),
        }
    }

    fn break_it(&mut self, fault: Fault) -> Result<(), LabError> {
        if !self.runs(fault.victim) {
            return Ok(());
        }
        self.broken.push((fault, None, None));
        if let Some(time) = fault.hangs {
            self.hang(fault.victim, true);
            let until = Instant(fault.at.0.saturating_add(time.0));
            let at = self.steps.partition_point(|(when, _)| *when <= until);
            self.steps.insert(at, (until, Step::GoOn(self.broken.len() - 1)));
            return Ok(());
        }
        match (fault.victim, self.scheduler) {
            (Victim::Coordinator, Scheduler::Coordinator(policy)) => {
                self.running.coordinator = None;
                self.running.coordinator = Some(self.site.start_coordinator(policy)?);
                self.is_back(fault.victim);
            }
            (Victim::Agent(host), _) => {
                self.running.agents[host as usize].kill();
                self.running.agents[host as usize] = self.site.start_agent(host, self.scheduler)?;
                self.is_back(fault.victim);
            }
            (Victim::Application(host), _) => self.replace_application(host)?,
            (Victim::Coordinator, _) => unreachable!("only a coordinator's policy has a coordinator"),
        }
        Ok(())
    }

    fn replace_application(&mut self, host: u32) -> Result<(), LabError> {
        let old = &mut self.running.hosts[host as usize];
        old.process.kill();
        let life = old.life + 1;
        *old = self.site.start_host(host, life, self.scheduler, &self.running.sender)?;
        for flow in (0..self.transfers.len()).map(FlowId::from_index) {
            let transfer = &mut self.transfers[flow.index()];
            let ends = self.workload.flow(flow);
            if transfer.is_begun && transfer.finished.is_none() && [ends.src.0, ends.dst.0].contains(&host) {
                transfer.attempt += 1;
                if !self.waiting.contains(&flow) {
                    self.waiting.push(flow);
                }
            }
        }
        Ok(())
    }

    fn hang(&self, victim: Victim, hangs: bool) {
        match victim {
            Victim::Coordinator => self.running.coordinator.iter().for_each(|process| process.hang(hangs)),
            Victim::Agent(host) => {
                self.running.agents.get(host as usize).iter().for_each(|it| it.hang(hangs))
            }
            Victim::Application(host) => self.running.hosts[host as usize].process.hang(hangs),
        }
    }

    fn is_back(&mut self, victim: Victim) {
        let now = self.now();
        let found = self.broken.iter_mut().find(|(fault, back, _)| fault.victim == victim && back.is_none());
        if let Some((_, back, _)) = found {
            *back = Some(now);
        }
    }

    /// Ends the applications and adds up what it all cost.
    fn cost(&mut self, wall: Instant) -> Result<Cost, LabError> {
        let spent = self.running.spent();
        let [agents, enforcers, coordinator] =
            [0, 1, 2].map(|part| spent[part].saturating_sub(self.spent_before[part]));
        self.sessions.clear();
        self.running.hosts.iter_mut().for_each(|host| host.finish());
        let (mut clients, mut ended) = (Nanos::ZERO, 0);
        while ended < self.running.hosts.len() {
            match self.running.events.recv_timeout(PATIENCE) {
                Ok(FromHost { event: Some(Event::Cost(nanos)), .. }) => clients.0 += nanos,
                Ok(FromHost { host, life, event: None })
                    if self.running.hosts[host as usize].life == life =>
                {
                    ended += 1
                }
                Ok(_) => {}
                Err(_) => return Err(self.running.hosts[0].process.failed("does not end")),
            }
        }
        let (bytes, wall) = (self.workload.bytes(), Nanos(wall.0));
        Ok(Cost { agents, clients, enforcers, coordinator, bytes, wall })
    }
}

/// Tells whether a transfer from `src` to `dst` has to do with what broke.
fn concerns(victim: Victim, src: u32, dst: u32) -> bool {
    match victim {
        Victim::Coordinator => true,
        Victim::Agent(host) => src == host,
        Victim::Application(host) => src == host || dst == host,
    }
}
