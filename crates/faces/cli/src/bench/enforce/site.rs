//! The kernel path in a whole site: what agents and enforcers take of a processor, and how soon a
//! decision is on the wire.
//!
//! Each is a run of the lab (`cavalcade_lab`): real coordinator, agents, enforcers, and senders
//! that know no library, in network namespaces.
//!
//! | workload | shows |
//! |---|---|
//! | one flow at a port that is never short | the cost of bytes, at the highest rate that sender and receiver reach |
//! | short flows that begin evenly, one coflow | the cost of connections |
//! | coflows in order of arrival, from one sender to a receiver each | the time from a decision to the wire, and from the end of one to the first byte of the next |
//!
//! A decision is timed from the begin of the coordinator's round, as its log says it, to the first
//! bytes at the receiver. From the end of a coflow it takes longer: that has to be noticed and
//! reported, and a round to come, up to Δ each. Nothing shortens it: a host lets the next flow to
//! the same receiver go by itself, and here each coflow has a receiver of its own.

use std::time::Duration;

use cavalcade_lab::{Burst, Decision, Enforcement, Measured, Scheduler, Setup, Transport};
use cavalcade_model::{BitsPerSec, Bytes, Flow, Instant, Nanos, PortId, Workload, WorkloadBuilder};

use crate::failure::Failure;
use crate::lab::{STOPPED, failure, stop_when_interrupted};

/// A port that is never short.
const AMPLE: BitsPerSec = BitsPerSec(40_000_000_000);
/// The bytes of the large flow.
const LARGE: Bytes = Bytes(1_000_000_000);
/// Short flows a second, for how many seconds, and the bytes of each.
const SHORT_A_SECOND: u64 = 2_000;
const SECONDS: u64 = 2;
const SHORT: Bytes = Bytes(10_000);
/// Coflows that take turns, and how often all of them do.
const TURNS: u32 = 10;
const REPEAT: u32 = 12;
/// The bytes of each, and the rate of their ports: 20 ms.
const TURN: Bytes = Bytes(2_500_000);
const TURN_RATE: BitsPerSec = BitsPerSec(1_000_000_000);
/// The most bytes that come at once while a gate is shut, lest connections be given up.
const TRICKLE: Bytes = Bytes(100_000);
/// Δ of all workloads, and a short one.
const PERIOD: Nanos = Nanos::from_millis(10);
const SHORT_PERIOD: Nanos = Nanos::from_millis(1);

/// What a workload costs at the host that sends it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Load {
    /// Bits that arrived in a second.
    pub(super) rate: f64,
    /// Flows that arrived in a second.
    pub(super) flows: f64,
    /// The share of a core that all agents took.
    pub(super) agents: f64,
    /// The share that all enforcers took.
    pub(super) enforcers: f64,
}

/// How soon the next coflow sends, in order of length.
#[derive(Clone, Debug)]
pub(super) struct Turns {
    pub(super) period: Duration,
    /// From the coordinator's decision that it may.
    pub(super) from_decision: Vec<Duration>,
    /// From the end of the one before.
    pub(super) from_end: Vec<Duration>,
}

impl Turns {
    fn measure(period: Nanos, part: u32) -> Result<Self, Failure> {
        let (mut from_decision, mut from_end) = (Vec::new(), Vec::new());
        let setup = Setup { with_decisions: true, ..setup(TURN_RATE, period) };
        for _ in 0..(REPEAT / part).max(1) {
            let workload = turns_taken((TURNS / part).max(2))?;
            let measured = run(&workload, &setup)?;
            for (flow, bursts) in workload.flows().iter().zip(&measured.bursts) {
                from_decision.extend(since_decisions(flow, bursts, &measured.decisions));
            }
            from_end.extend(since_ends(&measured));
        }
        from_decision.sort_unstable();
        from_end.sort_unstable();
        Ok(Self { period: Duration::from_nanos(period.0), from_decision, from_end })
    }
}

/// The figures of a site.
#[derive(Clone, Debug)]
pub(super) struct Figures {
    pub(super) large: Load,
    pub(super) short: Load,
    /// With each period.
    pub(super) turns: [Turns; 2],
}

/// Measures all of it, with 1/`part` of the work.
///
/// # Errors
/// If this machine cannot carry a lab with the kernel path.
pub(super) fn measure(part: u32) -> Result<Figures, Failure> {
    stop_when_interrupted();
    let large = load(&large(part)?)?;
    let short = load(&short(part)?)?;
    let turns = [Turns::measure(PERIOD, part)?, Turns::measure(SHORT_PERIOD, part)?];
    Ok(Figures { large, short, turns })
}

fn setup(rate: BitsPerSec, period: Nanos) -> Setup {
    Setup {
        enforcement: Enforcement::Kernel,
        limit: Nanos::from_secs(120),
        ..crate::lab::setup(Transport::Namespaces, rate, period)
    }
}

fn run(workload: &Workload, setup: &Setup) -> Result<Measured, Failure> {
    let scheduler = Scheduler::Coordinator("fifo".to_owned());
    cavalcade_lab::run(setup, workload, &scheduler, &[], &STOPPED).map_err(failure)
}

fn load(workload: &Workload) -> Result<Load, Failure> {
    let measured = run(workload, &setup(AMPLE, PERIOD))?;
    let seconds = measured.cost.wall.0 as f64 / 1e9;
    let share = |part: Nanos| part.0 as f64 / 1e9 / seconds;
    Ok(Load {
        rate: measured.cost.bytes.0 as f64 * 8.0 / seconds,
        flows: workload.flows().len() as f64 / seconds,
        agents: share(measured.cost.agents),
        enforcers: share(measured.cost.enforcers),
    })
}

fn flow(to: u32, size: Bytes, wave: Nanos) -> Flow {
    Flow { src: PortId(0), dst: PortId(to), size, wave }
}

fn large(part: u32) -> Result<Workload, Failure> {
    let mut builder = WorkloadBuilder::new(2);
    let size = Bytes(LARGE.0 / u64::from(part));
    builder.coflow("large", Instant::ZERO, vec![flow(1, size, Nanos::ZERO)]);
    built(builder)
}

fn short(part: u32) -> Result<Workload, Failure> {
    let mut builder = WorkloadBuilder::new(2);
    let flows = (0..SHORT_A_SECOND * SECONDS / u64::from(part))
        .map(|number| flow(1, SHORT, Nanos(number * 1_000_000_000 / SHORT_A_SECOND)));
    builder.coflow("short", Instant::ZERO, flows.collect());
    built(builder)
}

fn turns_taken(turns: u32) -> Result<Workload, Failure> {
    let mut builder = WorkloadBuilder::new(turns + 1);
    for turn in 0..turns {
        // In order, and all before the first has ended.
        let arrival = Instant(u64::from(turn) * 100_000);
        builder.coflow(format!("turn-{turn}"), arrival, vec![flow(1 + turn, TURN, Nanos::ZERO)]);
    }
    built(builder)
}

fn built(builder: WorkloadBuilder) -> Result<Workload, Failure> {
    builder.build().map_err(|error| Failure::input(error.to_string()))
}

/// The times from each decision that a flow may send which might not before to its first bytes,
/// where some come before the next decision.
fn since_decisions(flow: &Flow, bursts: &[Burst], decisions: &[Decision]) -> Vec<Duration> {
    let of_flow = decisions.iter().filter(|decision| (decision.from, decision.to) == (flow.src, flow.dst));
    let of_flow: Vec<&Decision> = of_flow.collect();
    let next_at = of_flow.iter().skip(1).map(|decision| decision.at).chain([Instant(u64::MAX)]);
    let (mut all, mut may_send) = (Vec::new(), true);
    for (decision, next_at) in of_flow.iter().zip(next_at) {
        let opens = !std::mem::replace(&mut may_send, decision.may_send) && decision.may_send;
        let is_first = |burst: &&Burst| burst.began > decision.at && burst.bytes > TRICKLE;
        let first = bursts.iter().find(is_first).filter(|burst| opens && burst.began < next_at);
        all.extend(first.map(|burst| since(burst.began, decision.at)));
    }
    all
}

fn since(later: Instant, earlier: Instant) -> Duration {
    Duration::from_nanos(later.since(earlier).0)
}

/// The times between the end of a coflow and the first bytes of the next. Some may have gone ahead
/// before there were orders; these waited for no other coflow.
fn since_ends(measured: &Measured) -> Vec<Duration> {
    let ends = measured.outcome.flow_finish.iter().copied();
    let mut turns: Vec<(Instant, &[Burst])> = ends.zip(measured.bursts.iter().map(Vec::as_slice)).collect();
    turns.sort_unstable_by_key(|&(end, _)| end);
    let pause = |pair: &[(Instant, &[Burst])]| {
        let (end, next) = (pair[0].0, pair[1].1);
        let first = next.iter().find(|burst| burst.began > end && burst.bytes > TRICKLE)?;
        Some(since(first.began, end))
    };
    turns.windows(2).filter_map(pause).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_decision_is_timed_to_the_first_bytes_of_its_own_flow_that_waited_for_it() {
        let wanted = flow(1, TURN, Nanos::ZERO);
        let decision = |at: u64, to: u32, may_send| Decision {
            at: Instant(at),
            from: PortId(0),
            to: PortId(to),
            may_send,
        };
        let burst = |began: u64, bytes: u64| Burst { began: Instant(began), bytes: Bytes(bytes) };
        let large = 2 * TRICKLE.0;
        // It goes before it is first ordered, and again after the second opening; the first opening
        // was taken back before any byte came.
        let bursts = [burst(5, large), burst(25, TRICKLE.0), burst(57, large)];
        let decisions = [
            decision(10, 1, false),
            decision(20, 1, true),
            decision(30, 1, false),
            decision(40, 2, true),
            decision(50, 1, true),
            decision(60, 1, true),
        ];
        assert_eq!(since_decisions(&wanted, &bursts, &decisions), [Duration::from_nanos(7)]);
        assert!(since_decisions(&wanted, &bursts, &decisions[..1]).is_empty());
    }
}
