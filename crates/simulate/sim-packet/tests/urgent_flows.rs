//! D3 and PDQ over queues and links: who has a deadline meets it where the paper says so, and
//! misses it where it says so too.

#![allow(clippy::unwrap_used, reason = "a test whose scene cannot be set has failed")]

use cavalcade_model::{
    BitsPerSec, Bytes, Coflow, CoflowId, Flow, Instant, Nanos, PortId, Stage, Task, TaskClass, Work,
    Workload, WorkloadBuilder,
};
use cavalcade_sim_packet::{Link, Network, Options, Run, SimulationError, simulate};
use cavalcade_transport::{Definition, Visitor, parse};

/// A full packet takes 12 µs, a round trip some 30.
const LINK: Link = Link { rate: BitsPerSec(1_000_000_000), delay: Nanos(1_000) };
const PACKET_MS: f64 = 0.012;

/// A flow to the last of six hosts: from where, when it starts in ms, how many packets it has, and
/// the ms that it may take.
type Urgent = (u32, f64, u64, Option<f64>);

fn workload(flows: &[Urgent]) -> Workload {
    let nanos = |ms: f64| (ms * 1e6) as u64;
    let mut builder = WorkloadBuilder::new(6);
    for (number, &(src, start, packets, deadline)) in flows.iter().enumerate() {
        let work = Work::Transfer(CoflowId::default());
        let task = Task {
            name: number.to_string(),
            job: None,
            arrival: Instant(nanos(start)),
            deadline: deadline.map(|ms| Nanos(nanos(ms))),
            class: TaskClass::Online,
            weight: 1,
            stages: vec![Stage { starts_after: Vec::new(), finishes_after: Vec::new(), work }],
        };
        let (dst, size) = (PortId(5), Bytes(packets * 1_460));
        let flow = Flow { src: PortId(src), dst, size, wave: Nanos::ZERO };
        builder.push(task, vec![Coflow { flows: vec![flow] }]);
    }
    builder.build().unwrap()
}

struct Simulate<'a>(&'a Workload, &'a Options);

impl Visitor for Simulate<'_> {
    type Output = Result<Run, SimulationError>;

    fn visit<T: Definition>(self, transport: &T) -> Self::Output {
        simulate(self.0, &Network::star(6, LINK).unwrap(), transport, None, self.1, None)
    }
}

/// Returns the duration of each flow, in ms.
fn times(transport: &str, flows: &[Urgent]) -> Vec<f64> {
    let (workload, options) = (workload(flows), Options::default());
    let run = parse(transport).unwrap().visit(Simulate(&workload, &options)).unwrap();
    let lost: u64 = run.ports.iter().map(|port| port.dropped).sum();
    assert_eq!(lost, 0, "{transport}: explicit rates do not overflow queues");
    let outcome = &run.outcome;
    let times = outcome.coflow_finish.iter().zip(&outcome.coflow_arrival);
    times.map(|(finish, arrival)| finish.since(*arrival).as_f64() / 1e6).collect()
}

/// The first comes first and has time; the second has little, and needs what the first has reserved
/// (PDQ §2.2).
#[test]
fn d3_keeps_what_was_reserved_first_and_pdq_does_not() {
    let flows: &[Urgent] = &[(0, 0.0, 600, Some(10.5)), (1, 1.0, 200, Some(4.0))];
    let (d3, pdq) = (times("d3", flows), times("pdq", flows));
    assert!(d3[0] < 10.5 && d3[1] > 4.0, "{d3:?}");
    assert!(pdq[0] < 10.5 && pdq[1] < 4.0, "{pdq:?}");
    // The urgent one is held up by no more than a few round trips.
    assert!(pdq[1] < 200.0 * PACKET_MS + 0.3, "{pdq:?}");
}

#[test]
fn d3_meets_deadlines_that_fit_together_and_gives_the_others_the_rest() {
    let flows: &[Urgent] =
        &[(0, 0.0, 300, Some(9.0)), (1, 0.0, 300, Some(9.0)), (2, 0.0, 1_000, None), (3, 0.0, 1_000, None)];
    let times = times("d3", flows);
    assert!(times[..2].iter().all(|&time| time < 9.0), "{times:?}");
    let all = 2_600.0 * PACKET_MS;
    assert!(times[2..].iter().all(|&time| (0.9 * all..1.1 * all).contains(&time)), "{times:?}");
}

/// Without deadlines PDQ serves the shortest first: the mean is that of one after the other.
#[test]
fn pdq_serves_the_shortest_first() {
    let flows: &[Urgent] =
        &[(0, 0.0, 800, None), (1, 0.0, 400, None), (2, 0.0, 200, None), (3, 0.0, 100, None)];
    let times = times("pdq", flows);
    for (time, packets) in times.iter().zip([1_500.0, 700.0, 300.0, 100.0]) {
        let ideal = packets * PACKET_MS;
        assert!((ideal..1.1 * ideal + 0.5).contains(time), "{time} ms, not {ideal} ms: {times:?}");
    }
}

#[test]
fn more_deadlines_are_met_where_the_most_urgent_go_first() {
    let flows: Vec<Urgent> = (0..40)
        .map(|number| {
            let start = f64::from(number) * 0.5;
            let packets = if number % 4 == 0 { 120 } else { 25 };
            (number % 5, start, packets, Some(if number % 4 == 0 { 9.0 } else { 1.0 }))
        })
        .collect();
    let met = |transport: &str| {
        let times = times(transport, &flows);
        times.iter().zip(&flows).filter(|(time, flow)| flow.3.is_some_and(|limit| **time <= limit)).count()
    };
    let (pdq, d3, rcp) = (met("pdq"), met("d3"), met("rcp"));
    assert!(pdq >= d3 && pdq > rcp, "pdq {pdq}, d3 {d3}, rcp {rcp} of 40");
}
