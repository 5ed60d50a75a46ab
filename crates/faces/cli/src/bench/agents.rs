//! The process that plays agents for `cavalcade bench coordinator`: all that agents say, and
//! nothing that they decide.
//!
//! Each agent has flows of a few of the coflows. In a round it says how far they are, ends the
//! oldest, begins another, and asks for a snapshot of its orders. All that is written before the
//! clock starts, as a hundred thousand hosts would have their reports ready at once.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::io;
use std::rc::Rc;
use std::time::{Duration, Instant};

use cavalcade_model::{BitsPerSec, Bytes, PortId};
use cavalcade_protocol::{CoflowEntry, CoflowKey, FlowEntry, Frames, Keyed, Orders, Progress, Report, frame};
use cavalcade_runtime::block_on;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::sync::Notify;

use super::coordinator::{Measured, busy};
use crate::arguments::AgentsBench;
use crate::failure::{Failure, Kind};
use crate::output::print;

/// A round is over when everything has come and nothing follows for so long.
const QUIET: Duration = Duration::from_millis(25);
/// After which a coordinator that says nothing is dead.
const PATIENCE: Duration = Duration::from_secs(120);
/// The rate of each host's port.
const RATE: BitsPerSec = BitsPerSec(10_000_000_000);
/// Bytes that each flow sends in a round.
const PROGRESS: Bytes = Bytes(1_250_000);

/// Runs it.
///
/// # Errors
/// If a connection is lost.
pub(crate) fn run(options: &AgentsBench) -> Result<(), Failure> {
    let measured = block_on(play(options))
        .map_err(|error| Failure::new(Kind::Runtime, format!("playing agents failed: {error}")))?;
    let text = serde_json::to_string(&measured).unwrap_or_default();
    print(&(text + "\n"))
}

/// An agent, as far as it speaks.
struct Agent {
    port: u32,
    sequence: u64,
    next_flow: u32,
    /// Its flows, the oldest first: number and coflow.
    flows: VecDeque<(u32, u32)>,
}

/// The answers of a round so far.
#[derive(Default)]
struct Answers {
    snapshots: u32,
    last: Option<Instant>,
    bytes: u64,
    is_lost: bool,
}

async fn play(options: &AgentsBench) -> io::Result<Measured> {
    let answers = Rc::new(RefCell::new(Answers::default()));
    let news = Rc::new(Notify::new());
    let mut writers = Vec::new();
    for _ in 0..options.connections {
        let stream = TcpStream::connect(options.connect).await?;
        stream.set_nodelay(true)?;
        let (reader, writer) = stream.into_split();
        tokio::task::spawn_local(listen(reader, answers.clone(), news.clone()));
        writers.push(writer);
    }
    let mut agents: Vec<Agent> = (0..options.agents).map(Agent::new).collect();
    let mut measured = Measured { rounds_ns: Vec::new(), bytes_up: 0, bytes_down: 0, busy_ns: 0 };
    // The first round introduces everybody and is not counted.
    for round in 0..=options.rounds {
        let batches = batches(&mut agents, options, round == 0);
        let bytes: usize = batches.iter().map(Vec::len).sum();
        *answers.borrow_mut() = Answers::default();
        let (began, busy_before) = (Instant::now(), busy());
        writers = write_all(writers, batches).await?;
        let ended = all_answered(&answers, &news, options.agents).await?;
        let took = ended.duration_since(began);
        if round > 0 {
            measured.rounds_ns.push(took.as_nanos() as u64);
            measured.busy_ns += (busy() - busy_before).as_nanos() as u64;
            measured.bytes_up += bytes as u64;
            measured.bytes_down += answers.borrow().bytes;
        }
        // A coordinator rests between rounds in proportion to what they take: the next one is to
        // find it rested.
        tokio::time::sleep(3 * took).await;
    }
    Ok(measured)
}

/// The coflow of an agent's flow: flows, agent by agent, go through all coflows in turn, so an
/// agent has no two of a coflow where there are as many.
fn coflow_of(port: u32, flow: u32, options: &AgentsBench) -> u32 {
    let turn = u64::from(port) * u64::from(options.flows) + u64::from(flow);
    (turn % u64::from(options.coflows)) as u32
}

/// The frames of all agents for each connection.
fn batches(agents: &mut [Agent], options: &AgentsBench, is_first: bool) -> Vec<Vec<u8>> {
    let mut batches = vec![Vec::new(); options.connections as usize];
    for agent in agents {
        let batch = &mut batches[(agent.port % options.connections) as usize];
        let report = if is_first { agent.introduce(options) } else { agent.go_on(options) };
        frame(&report, batch).expect("messages of a client are short");
    }
    batches
}

async fn write_all(writers: Vec<OwnedWriteHalf>, batches: Vec<Vec<u8>>) -> io::Result<Vec<OwnedWriteHalf>> {
    let writing = writers.into_iter().zip(batches).map(|(mut writer, batch)| {
        tokio::task::spawn_local(async move { writer.write_all(&batch).await.map(|()| writer) })
    });
    let mut writers = Vec::new();
    for written in writing.collect::<Vec<_>>() {
        writers.push(written.await.map_err(io::Error::other)??);
    }
    Ok(writers)
}

/// Waits until every agent has its snapshot and nothing follows; returns when the last came.
async fn all_answered(answers: &RefCell<Answers>, news: &Notify, agents: u32) -> io::Result<Instant> {
    loop {
        let (has_all, last, is_lost) = {
            let answers = answers.borrow();
            (answers.snapshots >= agents, answers.last, answers.is_lost)
        };
        if is_lost {
            return Err(io::Error::other("the coordinator has closed a connection"));
        }
        let patience = if has_all { QUIET } else { PATIENCE };
        match (tokio::time::timeout(patience, news.notified()).await, last) {
            (Ok(()), _) => {}
            (Err(_), Some(last)) if has_all => return Ok(last),
            (Err(_), _) => return Err(io::Error::other("the coordinator does not answer")),
        }
    }
}

async fn listen(mut reader: OwnedReadHalf, answers: Rc<RefCell<Answers>>, news: Rc<Notify>) {
    let mut frames = Frames::default();
    let mut chunk = vec![0; 64 << 10];
    while let Ok(length @ 1..) = reader.read(&mut chunk).await {
        frames.push(&chunk[..length]);
        let mut answers = answers.borrow_mut();
        answers.bytes += length as u64;
        while let Ok(Some(orders)) = frames.pop::<Orders>() {
            answers.snapshots += u32::from(orders.snapshot);
            if orders.snapshot || !orders.flows.is_empty() || !orders.priorities.is_empty() {
                answers.last = Some(Instant::now());
            }
        }
        drop(answers);
        news.notify_one();
    }
    answers.borrow_mut().is_lost = true;
    news.notify_one();
}

impl Agent {
    fn new(port: u32) -> Self {
        Self { port, sequence: 0, next_flow: 0, flows: VecDeque::new() }
    }

    /// The first report: all that there is.
    fn introduce(&mut self, options: &AgentsBench) -> Report {
        let mut flows = Keyed::default();
        for _ in 0..options.flows {
            let (number, entry) = self.begin(options);
            flows.push(number, entry);
        }
        let mut coflows: Vec<u32> = self.flows.iter().map(|(_, coflow)| *coflow).collect();
        coflows.sort_unstable();
        coflows.dedup();
        let entry = |coflow: u32| {
            let serial = u64::from(coflow) + 1;
            CoflowEntry {
                key: CoflowKey { task: serial, stage: 0, serial },
                facts: None,
                sent: Bytes::ZERO,
                owner: 0,
            }
        };
        let coflows = coflows.into_iter().map(|coflow| (coflow, entry(coflow))).collect();
        Report { coflows, flows, snapshot: true, ..self.report() }
    }

    /// A further report: progress, one flow less and one more.
    fn go_on(&mut self, options: &AgentsBench) -> Report {
        let ended = self.flows.pop_front();
        let progress =
            self.flows.iter().map(|(flow, _)| (*flow, Progress { sent: PROGRESS, idle: false })).collect();
        // The next flow is of the coflow of the one that ended, so that the agent's parts stay what
        // they are.
        let mut flows = Keyed::default();
        let (number, entry) = self.begin(options);
        flows.push(number, entry);
        let closed = ended.map(|(flow, _)| (flow, PROGRESS)).into_iter().collect();
        Report { flows, progress, closed, ..self.report() }
    }

    /// A new flow; its coflow follows from its number.
    fn begin(&mut self, options: &AgentsBench) -> (u32, FlowEntry) {
        let number = self.next_flow;
        self.next_flow += 1;
        let coflow = coflow_of(self.port, number % options.flows, options);
        let to = (self.port.wrapping_mul(2_654_435_761).wrapping_add(number.wrapping_mul(40_503)))
            % options.agents;
        self.flows.push_back((number, coflow));
        (number, FlowEntry { coflow, to: PortId(to), size: None, sent: Bytes::ZERO, idle: false })
    }

    fn report(&mut self) -> Report {
        self.sequence += 1;
        Report {
            resync: true,
            ..Report::new(PortId(self.port), 1, self.sequence, cavalcade_model::Instant::ZERO, RATE)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_coflows_have_flows_and_no_agent_two_of_one_where_there_are_enough() {
        let connect: std::net::SocketAddr = "127.0.0.1:1".parse().unwrap();
        for [agents, coflows, flows] in
            [[100, 100, 2], [99, 100, 50], [1_000, 100, 100], [1_000, 100_000, 200], [7, 20, 3]]
        {
            let options = AgentsBench { connect, agents, coflows, flows, connections: 1, rounds: 1 };
            let mut all = std::collections::BTreeSet::new();
            for port in 0..agents {
                let own: std::collections::BTreeSet<u32> =
                    (0..flows).map(|flow| coflow_of(port, flow, &options)).collect();
                assert_eq!(own.len(), flows as usize, "{port} of {agents}, {coflows}, {flows}");
                all.extend(own);
            }
            assert_eq!(all.len(), coflows as usize, "{agents}, {coflows}, {flows}");
        }
    }

    #[test]
    fn an_agents_parts_stay_what_they_are_while_its_flows_come_and_go() {
        let connect: std::net::SocketAddr = "127.0.0.1:1".parse().unwrap();
        let options = AgentsBench { connect, agents: 50, coflows: 10, flows: 3, connections: 1, rounds: 1 };
        let mut agent = Agent::new(7);
        let first = agent.introduce(&options);
        let parts: Vec<u32> = first.coflows.iter().map(|(number, _)| number).collect();
        for _ in 0..20 {
            let report = agent.go_on(&options);
            assert_eq!((report.flows.len(), report.closed.len(), report.progress.len()), (1, 1, 2));
            assert!(report.flows.iter().all(|(_, flow)| parts.contains(&flow.coflow) && flow.to.0 < 50));
        }
    }
}
