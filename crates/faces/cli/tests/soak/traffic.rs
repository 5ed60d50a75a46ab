//! Transfers that never cease: each a coflow of its own between two hosts, digested at its
//! receiver.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::Path;
use std::process::ChildStdin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use cavalcade_client::{CoflowKey, Registration, Session};
use cavalcade_testing::Lines;
use serde_json::{Value, json};

use crate::site::{HOSTS, Site};
use crate::support::Running;

/// Transfers at once.
const AT_ONCE: usize = 6;
/// The bytes of the shortest transfer; the longest has [`SIZES`] times as many.
const SIZE: u64 = 1_000_000;
const SIZES: u64 = 8;
/// The longest that a transfer may take: far longer than any fault.
const PATIENCE: Duration = Duration::from_secs(180);

/// All that has been transferred.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Totals {
    pub(crate) transfers: u64,
    pub(crate) bytes: u64,
    /// Transfers whose connection could not be opened while a link was cut.
    pub(crate) begun_again: u64,
    /// The longest time that a transfer took.
    pub(crate) slowest: Duration,
}

/// The applications of all hosts.
pub(crate) struct Traffic {
    over: Arc<AtomicBool>,
    /// Numbers of the applications' processes.
    pub(crate) processes: Vec<u32>,
    thread: JoinHandle<Totals>,
}

impl Traffic {
    /// Starts applications and transfers.
    pub(crate) fn start(site: &Site) -> Self {
        let applications: Vec<Running> = (0..HOSTS).map(|host| site.start_application(host)).collect();
        let processes = applications.iter().map(|application| application.0.id()).collect();
        let (over, agent) = (Arc::new(AtomicBool::new(false)), site.path("agent-0.sock"));
        let ended = over.clone();
        let thread = std::thread::spawn(move || Work::new(applications, &agent).run(&ended));
        Self { over, processes, thread }
    }

    /// Checks that no transfer has failed; why one has, its thread has said.
    pub(crate) fn check(&self) {
        assert!(!self.thread.is_finished(), "a transfer has failed");
    }

    /// Begins no more transfers, and waits until all have arrived whole.
    pub(crate) fn finish(self) -> Totals {
        self.over.store(true, Ordering::Relaxed);
        self.thread.join().expect("every transfer is whole")
    }
}

/// A transfer that goes on.
struct Transfer {
    from: usize,
    to: usize,
    size: u64,
    attempt: u64,
    coflow: CoflowKey,
    since: Instant,
}

struct Work {
    _applications: Vec<Running>,
    inputs: Vec<ChildStdin>,
    heard: Receiver<Value>,
    /// The address at which each application receives.
    listens: Vec<Value>,
    session: Session,
    going_on: BTreeMap<u32, Transfer>,
    next: u32,
    dice: u64,
    totals: Totals,
}

impl Work {
    fn new(mut applications: Vec<Running>, agent: &Path) -> Self {
        let inputs = applications.iter_mut().map(|one| one.0.stdin.take().expect("it is piped")).collect();
        let mut outputs: Vec<_> = applications
            .iter_mut()
            .map(|one| Lines::new(one.0.stdout.take().expect("it is piped")).map(said))
            .collect();
        // An application first says where it listens.
        let listens =
            outputs.iter_mut().map(|lines| lines.next().expect("it comes up")["Ready"].clone()).collect();
        let (sender, heard) = channel();
        for output in outputs {
            let sender = sender.clone();
            std::thread::spawn(move || output.for_each(|said| drop(sender.send(said))));
        }
        let session = Session::open(agent).expect("the agent answers");
        assert!(session.wait_ready(PATIENCE), "the agent answers");
        Self {
            _applications: applications,
            inputs,
            heard,
            listens,
            session,
            going_on: BTreeMap::new(),
            next: 0,
            dice: 1,
            totals: Totals::default(),
        }
    }

    fn run(mut self, over: &AtomicBool) -> Totals {
        while !over.load(Ordering::Relaxed) || !self.going_on.is_empty() {
            while !over.load(Ordering::Relaxed) && self.going_on.len() < AT_ONCE {
                self.begin();
            }
            match self.heard.recv_timeout(Duration::from_millis(50)) {
                Ok(said) => self.hear(&said),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => panic!("all applications have ended"),
            }
            let late = self.going_on.iter().find(|(_, transfer)| transfer.since.elapsed() > PATIENCE);
            assert!(late.is_none(), "transfer {:?} never came", late.map(|(flow, _)| flow));
        }
        self.totals
    }

    /// Rolls a number below `sides`: a linear congruence will do, and is the same each time.
    fn roll(&mut self, sides: u64) -> u64 {
        self.dice = self.dice.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.dice >> 33) % sides
    }

    fn begin(&mut self) {
        let hosts = u64::from(HOSTS);
        let from = self.roll(hosts);
        let to = (from + 1 + self.roll(hosts - 1)) % hosts;
        let size = SIZE * (1 + self.roll(SIZES));
        let coflow = self.session.register(Registration::default()).expect("the agent answers");
        let (from, to, since) = (from as usize, to as usize, Instant::now());
        self.going_on.insert(self.next, Transfer { from, to, size, attempt: 0, coflow, since });
        self.tell(self.next);
        self.next += 1;
    }

    /// Tells the sender of a transfer to send it.
    fn tell(&mut self, flow: u32) {
        let Transfer { from, to, size, attempt, coflow, .. } = &self.going_on[&flow];
        let (to, coflow) = (&self.listens[*to], coflow.to_string());
        let start = json!({
            "flow": flow, "attempt": attempt, "to": to, "size": size, "task": 0, "coflow": coflow
        });
        let told = self.inputs[*from].write_all(format!("{}\n", json!({ "Start": start })).as_bytes());
        told.expect("the application takes commands");
    }

    fn hear(&mut self, said: &Value) {
        let number =
            |value: &Value| value.as_u64().unwrap_or_else(|| panic!("a transfer has failed: {said}"));
        let (received, failed) = (&said["Received"], &said["Failed"]);
        // While a link is cut no connection can be opened, with Cavalcade or without.
        if failed["reason"].as_str().is_some_and(|reason| reason.contains("No route to host")) {
            let flow = number(&failed["flow"][0]) as u32;
            self.going_on.get_mut(&flow).expect("each arrives once").attempt += 1;
            self.totals.begun_again += 1;
            return self.tell(flow);
        }
        let flow = number(&received["flow"]) as u32;
        let transfer = self.going_on.remove(&flow).expect("each arrives once");
        let expected = (transfer.attempt, transfer.size, cavalcade_lab::digest_of(flow, transfer.size));
        let arrived = ["attempt", "bytes", "digest"].map(|part| number(&received[part]));
        assert_eq!(arrived, <[u64; 3]>::from(expected), "transfer {flow} is not whole");
        self.session.unregister(transfer.coflow);
        self.totals.transfers += 1;
        self.totals.bytes += transfer.size;
        self.totals.slowest = self.totals.slowest.max(transfer.since.elapsed());
    }
}

fn said(line: String) -> Value {
    serde_json::from_str(&line).expect("it says JSON")
}
