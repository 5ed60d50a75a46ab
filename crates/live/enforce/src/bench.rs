//! What the kernel path costs and how exactly it does what it is told, measured on a connection of
//! this process with itself.
//!
//! The programs are attached at this process's own control group and removed afterwards. Round
//! trips on loopback are some microseconds: bursts are as long as they can be
//! (`net.ipv4.tcp_tso_rtt_log`), so pacing is at its worst.

use std::fs;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, Shutdown, TcpListener, TcpStream};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use aya::programs::loaded_programs;
use aya::sys::{Stats, enable_stats};
use cavalcade_client::DscpMap;
use cavalcade_model::{BitsPerSec, Bytes, Demotion};
use cavalcade_protocol::Gate;

use crate::groups::Hierarchy;
use crate::kernel::monotonic;
use crate::{Count, Error, Flow, Kernel, Limits, Order, Place, urgency};

/// Rates that are asked for, in Mbps, and for how many seconds each is measured.
const RATES: [(u64, f64); 6] = [(1, 10.0), (5, 1.0), (50, 1.0), (500, 1.0), (2_000, 1.0), (10_000, 1.0)];
/// The levels of the rule by which messages are sorted, as PIAS has them.
const LEVELS: u64 = 8;
/// The number of times that a gate is closed and opened.
const ROUNDS: u32 = 100;
/// The pause after which a gate counts as closed: on loopback packets follow each other by
/// microseconds.
const QUIET: Duration = Duration::from_millis(5);
/// The time for which a rate has held before it is measured.
const SETTLE: Duration = Duration::from_millis(500);

const COFLOW: u32 = 1;

/// The programs that run for packets, for connections, and in walks.
const PROGRAMS: [&str; 3] = ["gate", "connections", "refresh"];

/// The cost of a program.
#[derive(Clone, Debug, PartialEq)]
pub struct Cost {
    /// Its name in `bpf/enforce.bpf.c`.
    pub program: &'static str,
    /// Instructions that the verifier looked at when it was loaded.
    pub verified: u32,
    /// The number of its runs while the connection sent without limits for a while.
    pub runs: u64,
    /// The time that they took.
    pub time: Duration,
}

impl Cost {
    /// Its mean time, in nanoseconds.
    pub fn nanos(&self) -> f64 {
        self.time.as_nanos() as f64 / self.runs.max(1) as f64
    }
}

/// What all these programs take for a packet that leaves, as it leaves TCP, in nanoseconds: the
/// gate sees each once.
pub fn nanos_a_packet(costs: &[Cost]) -> f64 {
    let gate = costs.iter().find(|cost| cost.program == PROGRAMS[0]);
    let packets = gate.map_or(0, |gate| gate.runs).max(1);
    costs.iter().map(|cost| cost.time.as_nanos() as f64).sum::<f64>() / packets as f64
}

/// A rate that was asked for, and the one that was reached.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Pace {
    /// The rate asked for.
    pub asked: BitsPerSec,
    /// The rate at which bytes arrived, in bits per second.
    pub reached: f64,
    /// The seconds over which it was measured.
    pub seconds: f64,
}

/// The measured figures.
#[derive(Clone, Debug, PartialEq)]
pub struct Figures {
    /// Of each program that runs for packets or connections.
    pub costs: Vec<Cost>,
    /// The same where this host sorts messages by itself.
    pub sorting: Vec<Cost>,
    /// The rate without limits, in bits per second.
    pub unlimited: f64,
    /// By rate.
    pub paces: Vec<Pace>,
    /// From the order OFF to the last new byte that left, in order of length.
    pub off: Vec<Duration>,
    /// From the order to open to the first new byte that leaves, in order of length.
    pub on: Vec<Duration>,
}

/// Measures everything, each for 1/`part` of the time that it takes to say much: half a minute in
/// all.
///
/// # Errors
/// If this host cannot do it.
pub fn measure(part: u32) -> Result<Figures, Error> {
    // As the enforcer does.
    urgency::go_first();
    let mut kernel = Kernel::load(Place::below(&own_group()?)?, Limits::default())?;
    kernel.announce(COFLOW)?;
    let flood = Flood::tagged(&mut kernel)?;
    let second = Duration::from_secs(1) / part;
    let unlimited = flood.rate(second);
    let costs = costs(second)?;
    let mut paces = Vec::new();
    for (rate, seconds) in RATES {
        paces.push(pace(&mut kernel, &flood, BitsPerSec(rate * 1_000_000), seconds / f64::from(part))?);
    }
    let (mut off, mut on) = (Vec::new(), Vec::new());
    order(&mut kernel, Gate::Open {})?;
    std::thread::sleep(SETTLE);
    for _ in 0..(ROUNDS / part).max(1) {
        off.push(close(&mut kernel)?);
        on.push(open(&mut kernel)?);
        kernel.refresh()?;
        // Full speed again.
        kernel.stay_alive()?;
        std::thread::sleep(Duration::from_millis(10));
    }
    off.sort();
    on.sort();
    drop(flood);
    let sorting = cost_of_sorting(&mut kernel, second)?;
    Ok(Figures { costs, sorting, unlimited, paces, off, on })
}

/// The control group of this process.
fn own_group() -> Result<PathBuf, Error> {
    let file = "/proc/self/cgroup";
    let text = fs::read_to_string(file).map_err(Error::file("read", file))?;
    let path = text.lines().find_map(|line| line.strip_prefix("0::/")).ok_or(Error::NoGroups)?;
    Ok(Hierarchy::find()?.root.join(path))
}

/// A connection that sends as much as it may, until it is dropped.
struct Flood {
    received: Arc<AtomicU64>,
    ends: [TcpStream; 2],
    threads: Vec<JoinHandle<()>>,
}

impl Flood {
    /// Starts one that belongs to the coflow.
    fn tagged(kernel: &mut Kernel) -> Result<Self, Error> {
        let flood = Self::start().map_err(Error::file("connect on", "loopback"))?;
        kernel.take_over(std::process::id(), COFLOW)?;
        Ok(flood)
    }

    fn start() -> std::io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let mut sender = TcpStream::connect(listener.local_addr()?)?;
        let (mut receiver, _) = listener.accept()?;
        let ends = [sender.try_clone()?, receiver.try_clone()?];
        let received = Arc::new(AtomicU64::new(0));
        let count = Arc::clone(&received);
        let sending = std::thread::spawn(move || {
            let chunk = vec![0; 256 << 10];
            while sender.write_all(&chunk).is_ok() {}
        });
        let receiving = std::thread::spawn(move || {
            let mut chunk = vec![0; 256 << 10];
            while let Ok(length @ 1..) = receiver.read(&mut chunk) {
                count.fetch_add(length as u64, Ordering::Relaxed);
            }
        });
        Ok(Self { received, ends, threads: vec![sending, receiving] })
    }

    fn received(&self) -> u64 {
        self.received.load(Ordering::Relaxed)
    }

    /// Bits per second that arrive now.
    fn rate(&self, over: Duration) -> f64 {
        let (from, began) = (self.received(), Instant::now());
        std::thread::sleep(over);
        (self.received() - from) as f64 * 8.0 / began.elapsed().as_secs_f64()
    }
}

impl Drop for Flood {
    fn drop(&mut self) {
        // Wakes a sender that waits as well, be it for a gate that is off.
        self.ends.iter().for_each(|end| drop(end.shutdown(Shutdown::Both)));
        self.threads.drain(..).for_each(|thread| drop(thread.join()));
    }
}

fn flow() -> Flow {
    Flow { coflow: COFLOW, peer: Ipv4Addr::LOCALHOST.into() }
}

fn order(kernel: &mut Kernel, gate: Gate) -> Result<(), Error> {
    kernel.stay_alive()?;
    kernel.order(flow(), Order::from(gate))?;
    kernel.refresh()
}

/// Measures what the programs take meanwhile.
fn costs(over: Duration) -> Result<Vec<Cost>, Error> {
    let _counting = enable_stats(Stats::RunTime).map_err(Error::refused("to count what programs take"))?;
    let before: Vec<Cost> = PROGRAMS.into_iter().filter_map(cost).collect();
    std::thread::sleep(over);
    let since = |before: Cost| {
        let now = cost(before.program)?;
        Some(Cost { runs: now.runs - before.runs, time: now.time.saturating_sub(before.time), ..now })
    };
    Ok(before.into_iter().filter_map(since).collect())
}

/// The same where the host sorts messages by itself: the flow that is measured is behind all
/// thresholds, where most is to be looked at.
fn cost_of_sorting(kernel: &mut Kernel, over: Duration) -> Result<Vec<Cost>, Error> {
    let thresholds = (1..LEVELS).map(|level| Bytes(level * 1_000_000)).collect();
    let rule = Demotion { first: 0, thresholds, by_size: false, patience: 3..=3 };
    kernel.demote(&rule, DscpMap::default())?;
    let flood = Flood::tagged(kernel)?;
    flood.rate(SETTLE);
    costs(over)
}

/// The program of this name that was loaded last, with its cost since then.
fn cost(program: &'static str) -> Option<Cost> {
    let infos = loaded_programs().filter_map(Result::ok);
    let info = infos.filter(|info| info.name_as_str() == Some(program)).max_by_key(|info| info.id())?;
    let (verified, runs) = (info.verified_instruction_count().unwrap_or(0), info.run_count());
    Some(Cost { program, verified, runs, time: info.run_time() })
}

fn pace(kernel: &mut Kernel, flood: &Flood, asked: BitsPerSec, seconds: f64) -> Result<Pace, Error> {
    order(kernel, Gate::Open {})?;
    std::thread::sleep(Duration::from_millis(50));
    order(kernel, Gate::Paced { rate: asked })?;
    std::thread::sleep(SETTLE);
    let (from, began) = (flood.received(), Instant::now());
    while began.elapsed().as_secs_f64() < seconds {
        kernel.stay_alive()?;
        std::thread::sleep(
            Duration::from_millis(100).min(Duration::from_secs_f64(seconds).saturating_sub(began.elapsed())),
        );
    }
    let reached = (flood.received() - from) as f64 * 8.0 / began.elapsed().as_secs_f64();
    Ok(Pace { asked, reached, seconds })
}

/// Measures for how long new bytes go on leaving after the order; returns when some wait at the
/// gate.
fn close(kernel: &mut Kernel) -> Result<Duration, Error> {
    let began = Instant::now();
    kernel.order(flow(), Gate::Off {}.into())?;
    let (mut last, mut moved_at) = (count(kernel)?.sent, Instant::now());
    // Where the receiver has not had a processor for a while, the sender has nothing that it may
    // send yet.
    while moved_at.elapsed() < QUIET || !count(kernel)?.waits {
        kernel.stay_alive()?;
        let now = count(kernel)?.sent;
        if now != last {
            (last, moved_at) = (now, Instant::now());
        }
    }
    Ok(moved_at - began)
}

/// Measures how long it takes after the order until what waited leaves, by the kernel's own note of
/// that: the call that pushes comes back only when much more has been sent.
fn open(kernel: &mut Kernel) -> Result<Duration, Error> {
    let (began, instant) = (monotonic(), Instant::now());
    kernel.order(flow(), Order::from(Gate::Open {}))?;
    kernel.push(std::process::id());
    while count(kernel)?.resumed_at < began && instant.elapsed() < Duration::from_secs(10) {
        std::thread::yield_now();
    }
    Ok(Duration::from_nanos(count(kernel)?.resumed_at.0.saturating_sub(began.0)))
}

fn count(kernel: &Kernel) -> Result<Count, Error> {
    let counts = kernel.counts()?;
    Ok(counts.iter().find(|(of, _)| *of == flow()).map(|&(_, count)| count).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flood_ends_with_its_owner() {
        let flood = Flood::start().unwrap();
        let received = Arc::clone(&flood.received);
        while received.load(Ordering::Relaxed) == 0 {
            std::thread::yield_now();
        }
        drop(flood);
        assert_eq!(Arc::strong_count(&received), 1, "no thread counts on");
    }
}
