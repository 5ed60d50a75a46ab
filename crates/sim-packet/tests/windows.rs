//! Window transports do what they are for: who has a near deadline, a small task or no deadline at all gets what its law
//! promises, over real queues.

#![allow(clippy::unwrap_used, reason = "a test whose scene cannot be set has failed")]

use cavalcade_model::{
    BitsPerSec, Bytes, Coflow, CoflowId, Flow, Instant, Nanos, PortId, Stage, Task, TaskClass, Work,
    Workload, WorkloadBuilder,
};
use cavalcade_sim_packet::{Link, Network, Options, Run, SimulationError, simulate};
use cavalcade_transport::{Definition, Visitor, parse};

/// 1 Gbps and a round trip of some 100 µs: a queue of K costs as much again.
const LINK: Link = Link { rate: BitsPerSec(1_000_000_000), delay: Nanos(20_000) };
const MILLISECOND: u64 = 1_000_000;

/// A task of one wave: when it starts, the time that it has, its flows as (from, to, bytes).
type Job<'a> = (u64, Option<u64>, &'a [(u32, u32, u64)]);

fn workload(jobs: &[Job<'_>]) -> Workload {
    let mut builder = WorkloadBuilder::new(8);
    for (number, &(start, deadline, flows)) in jobs.iter().enumerate() {
        let stage = Stage {
            starts_after: Vec::new(),
            finishes_after: Vec::new(),
            work: Work::Transfer(CoflowId::default()),
        };
        let task = Task {
            name: number.to_string(),
            arrival: Instant(start),
            deadline: deadline.map(Nanos),
            class: TaskClass::Online,
            weight: 1,
            stages: vec![stage],
        };
        let flow = |&(src, dst, size)| Flow {
            src: PortId(src),
            dst: PortId(dst),
            size: Bytes(size),
            wave: Nanos::ZERO,
        };
        builder.push(task, vec![Coflow { flows: flows.iter().map(flow).collect() }]);
    }
    builder.build().unwrap()
}

struct Simulate<'a>(&'a Workload);

impl Visitor for Simulate<'_> {
    type Output = Result<Run, SimulationError>;

    fn visit<T: Definition>(self, transport: &T) -> Self::Output {
        let network = Network::star(8, LINK).unwrap();
        simulate(self.0, &network, transport, None, &Options::default(), None)
    }
}

/// How long each task took, in milliseconds.
fn times(transport: &str, jobs: &[Job<'_>]) -> Vec<f64> {
    let run = parse(transport).unwrap().visit(Simulate(&workload(jobs))).unwrap();
    let outcome = &run.outcome;
    let times = outcome.coflow_finish.iter().zip(&outcome.coflow_arrival);
    times.map(|(finish, arrival)| finish.since(*arrival).as_f64() / 1e6).collect()
}

/// Two flows of 10 MB to one receiver: 164 ms together. The one that has 120 ms needs two thirds of the link; DCTCP gives
/// it half.
#[test]
fn of_a_near_and_a_far_deadline_d2tcp_gives_the_near_one_more() {
    let jobs: &[Job<'_>] = &[
        (0, Some(120 * MILLISECOND), &[(0, 7, 10_000_000)]),
        (0, Some(1_000 * MILLISECOND), &[(1, 7, 10_000_000)]),
    ];
    let (with, without) = (times("d2tcp", jobs), times("dctcp", jobs));
    eprintln!("d2tcp {with:?}, dctcp {without:?}");
    assert!(without.iter().all(|&time| time > 140.0), "DCTCP shares: {without:?}");
    assert!(with[0] < 120.0, "the near one is in time: {with:?}");
    assert!(with[1] < 170.0, "and the link is not left idle: {with:?}");
}

/// 5 MB in 200 ms need a fifth of the link; 4 MB beside them have no deadline. With DCTCP both share, and the deadline is
/// met by more than 100 ms that the other would have had use for.
#[test]
fn a_deadline_flow_takes_what_it_needs_and_the_others_the_rest() {
    let jobs: &[Job<'_>] =
        &[(0, Some(200 * MILLISECOND), &[(0, 7, 5_000_000)]), (0, None, &[(1, 7, 4_000_000)])];
    let shared = times("dctcp", jobs);
    for spec in ["mcp", "mcp:early=true"] {
        let found = times(spec, jobs);
        eprintln!("{spec} {found:?}, dctcp {shared:?}");
        assert!((160.0..200.0).contains(&found[0]), "{spec}: in time, and not long before: {found:?}");
        assert!(found[1] < 0.75 * shared[1], "{spec}: the other has the rest: {found:?}, not {shared:?}");
    }
}

/// 100 KB in 100 ms are 8 Mbps, less than a tenth of a segment in each round trip.
#[test]
fn a_deadline_flow_can_be_slower_than_a_segment_in_each_round_trip() {
    let found = times("mcp", &[(0, Some(100 * MILLISECOND), &[(0, 7, 100_000)])]);
    eprintln!("mcp, little needed {found:?}");
    assert!((60.0..100.0).contains(&found[0]), "{found:?}");
}

/// Others fill their class's queue, which marks and drops; the highest class does not notice.
#[test]
fn deadline_flows_are_in_time_whatever_the_others_do() {
    let others: &[(u32, u32, u64)] = &[(2, 7, 20_000_000), (3, 7, 20_000_000), (4, 7, 20_000_000)];
    let near: &[(u32, u32, u64)] = &[(0, 7, 2_000_000)];
    let far: &[(u32, u32, u64)] = &[(1, 7, 2_000_000)];
    let jobs = &[
        (0, None, others),
        (20 * MILLISECOND, Some(50 * MILLISECOND), near),
        (25 * MILLISECOND, Some(100 * MILLISECOND), far),
    ];
    let (found, shared) = (times("mcp", jobs), times("dctcp", jobs));
    eprintln!("mcp {found:?}, dctcp {shared:?}");
    assert!(found[1] < 50.0 && found[2] < 100.0, "{found:?}");
    assert!(shared[1] > 50.0, "which sharing alone does not give: {shared:?}");
}
