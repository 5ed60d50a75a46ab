//! One schedule that is right, each way to make it wrong, and random ones.

#![allow(clippy::unwrap_used, reason = "a test whose scene cannot be set has failed")]

use cavalcade_metrics::{EngineCounts, Outcome};
use cavalcade_model::{
    BitsPerSec, Bytes, Coflow, CoflowId, Compute, Fabric, FineInstant, Flow, FlowId, Instant, Nanos, PortId,
    Stage, StageIndex, Task, TaskClass, Work, Workload, WorkloadBuilder,
};
use cavalcade_validate::{Checks, LISTED, Segment, Verdict, Violation, Violations, validate};
use proptest::prelude::*;

/// Bytes per nanosecond of 1 Gbps, and the bytes that it carries in a second.
const FULL: f64 = 0.125;
const SECOND: u64 = 125_000_000;

fn flow(src: u32, dst: u32, size: u64, wave: Nanos) -> Flow {
    Flow { src: PortId(src), dst: PortId(dst), size: Bytes(size), wave }
}

fn stage(starts_after: &[u32], finishes_after: &[u32], work: Work) -> Stage {
    let indices = |list: &[u32]| list.iter().map(|&index| StageIndex(index)).collect();
    Stage { starts_after: indices(starts_after), finishes_after: indices(finishes_after), work }
}

/// Task A: a transfer in two waves, a second of computation, a transfer; and beside them a transfer
/// that must not finish before them. Task B: a short transfer that shares a link with the end of A.
fn workload() -> Workload {
    let transfer = Work::Transfer(CoflowId(0));
    let a = Task {
        name: "A".into(),
        job: None,
        arrival: Instant::ZERO,
        deadline: None,
        class: TaskClass::Online,
        weight: 1,
        stages: vec![
            stage(&[], &[], transfer.clone()),
            stage(&[0], &[], Work::Compute(Compute::lasting(Nanos::from_secs(1)))),
            stage(&[1], &[], transfer.clone()),
            stage(&[], &[2], transfer),
        ],
    };
    let half = Nanos::from_millis(500);
    let transfers = [
        vec![flow(0, 1, SECOND, Nanos::ZERO), flow(0, 2, SECOND, half)],
        vec![flow(1, 2, SECOND, Nanos::ZERO)],
        vec![flow(2, 0, SECOND, Nanos::ZERO)],
    ];
    let mut builder = WorkloadBuilder::new(3);
    builder.push(a, transfers.map(|flows| Coflow { flows }).to_vec());
    let arrival = Instant(3_500_000_000);
    builder.coflow("B", arrival, vec![flow(1, 0, SECOND / 2, Nanos::ZERO)]);
    builder.build().unwrap()
}

fn fabric() -> Fabric {
    Fabric::big_switch(3, BitsPerSec(1_000_000_000)).unwrap()
}

fn at(ns: f64) -> FineInstant {
    FineInstant::new(Instant::ZERO, ns)
}

fn sent(flow: u32, from_s: f64, to_s: f64, share: f64) -> Segment {
    Segment { flow: FlowId(flow), from: at(from_s * 1e9), to: at(to_s * 1e9), bytes_per_nano: share * FULL }
}

fn right() -> (Vec<Segment>, Outcome) {
    let schedule = vec![
        sent(0, 0.0, 1.0, 1.0),
        sent(3, 0.0, 1.0, 1.0),
        sent(1, 1.0, 2.0, 1.0),
        sent(2, 3.0, 3.5, 1.0),
        sent(2, 3.5, 4.5, 0.5),
        sent(4, 3.5, 4.5, 0.5),
    ];
    let seconds = |list: &[f64]| list.iter().map(|s| Instant((s * 1e9) as u64)).collect();
    let outcome = Outcome {
        coflow_arrival: seconds(&[0.0, 3.0, 0.0, 3.5]),
        coflow_finish: seconds(&[2.0, 4.5, 4.5, 4.5]),
        flow_finish: seconds(&[1.0, 2.0, 4.5, 1.0, 4.5]),
        task_finish: seconds(&[4.5, 4.5]),
        counts: EngineCounts::default(),
        link_use: None,
        queue_use: None,
        messages: None,
    };
    (schedule, outcome)
}

const ALL: Checks = Checks { work_conservation: true };

/// The verdict on the right schedule after `change`.
fn all_after(change: impl FnOnce(&mut Vec<Segment>, &mut Outcome)) -> Result<Verdict, Violations> {
    let (mut schedule, mut outcome) = right();
    change(&mut schedule, &mut outcome);
    validate(&workload(), &fabric(), schedule, &outcome, ALL)
}

/// The same, with the first violation of those that it finds.
fn after(change: impl FnOnce(&mut Vec<Segment>, &mut Outcome)) -> Result<Verdict, Violation> {
    all_after(change).map_err(|found| found.listed()[0].clone())
}

fn kinds(found: &Violations) -> Vec<&'static str> {
    found.listed().iter().map(Violation::kind).collect()
}

#[test]
fn a_right_schedule_is_accepted_in_any_order() {
    let verdict = after(|_, _| {}).unwrap();
    assert_eq!((verdict.segments, verdict.end_ns, verdict.peak_load), (6, 4.5e9, 1.0));
    assert_eq!(verdict.bytes, 4.5 * SECOND as f64);
    assert_eq!(after(|schedule, _| schedule.reverse()), Ok(verdict));
}

#[test]
fn what_sends_nothing_does_not_matter() {
    after(|schedule, _| schedule.extend([sent(0, 7.0, 8.0, 0.0), sent(0, 9.0, 9.0, 1.0)])).unwrap();
}

#[test]
fn a_link_with_too_much_on_it_is_named_with_its_flows() {
    let found = after(|schedule, outcome| {
        schedule[2] = sent(1, 0.5, 1.5, 1.0);
        outcome.flow_finish[1] = Instant(1_500_000_000);
    });
    let Err(Violation::CoflowFinish { coflow: CoflowId(0), .. }) = found else { panic!("{found:?}") };
    let found = after(|schedule, _| {
        schedule[2] = sent(1, 0.9, 2.0, 1.0 / 1.1);
    });
    let Err(Violation::Overload(over)) = found else { panic!("{found:?}") };
    assert_eq!(
        (over.link.as_str(), over.flows.as_slice()),
        ("ingress of port 0", &[FlowId(0), FlowId(1)][..])
    );
    assert_eq!((over.from_ns, over.to_ns, over.capacity_bps), (0.9e9, 1e9, 1_000_000_000));
    assert!((over.load_bps / 1e9 - 1.0 - 1.0 / 1.1).abs() < 1e-9);
}

#[test]
fn an_overload_of_a_millionth_is_found_and_one_of_rounding_is_not() {
    let slightly =
        |excess: f64| after(|schedule, _| schedule[0] = sent(0, 0.0, 1.0 / (1.0 + excess), 1.0 + excess));
    assert!(matches!(slightly(1e-6), Err(Violation::FlowFinish { flow: FlowId(0), .. })));
    let exactly_timed = after(|schedule, outcome| {
        schedule[0] = sent(0, 0.0, 1.0 / (1.0 + 1e-6), 1.0 + 1e-6);
        outcome.flow_finish[0] = Instant(999_999_001);
    });
    assert!(matches!(exactly_timed, Err(Violation::Overload(_))), "{exactly_timed:?}");
    slightly(1e-13).unwrap();
}

#[test]
fn a_flow_sent_before_its_wave_or_its_stage_is_named() {
    let early = after(|schedule, _| {
        schedule[0] = sent(0, 0.0, 1.0, 0.9);
        schedule[2] = sent(1, 0.4, 2.0, 0.625);
        schedule.push(sent(0, 1.0, 1.1, 1.0));
    });
    assert!(matches!(early, Err(Violation::FlowFinish { flow: FlowId(0), .. })), "{early:?}");
    let before_wave = after(|schedule, _| schedule[2] = sent(1, 0.4, 2.0, 0.625));
    assert!(
        matches!(before_wave, Err(Violation::BeforeRelease { flow: FlowId(1), release_ns: 5e8, .. })),
        "{before_wave:?}"
    );
    let before_computation_ends = after(|schedule, _| {
        schedule[3] = sent(2, 2.5, 3.0, 0.5);
        schedule.push(sent(2, 3.0, 3.5, 0.5));
    });
    assert!(
        matches!(
            before_computation_ends,
            Err(Violation::BeforeRelease { flow: FlowId(2), release_ns: 3e9, .. })
        ),
        "{before_computation_ends:?}"
    );
    let before_arrival = after(|schedule, _| schedule[5] = sent(4, 3.0, 4.5, 1.0 / 3.0));
    assert!(
        matches!(before_arrival, Err(Violation::BeforeRelease { flow: FlowId(4), release_ns: 3.5e9, .. })),
        "{before_arrival:?}"
    );
}

#[test]
fn a_byte_too_many_or_too_few_is_found() {
    for change in [-1.0, 1.0, -(SECOND as f64)] {
        let found = after(|schedule, _| schedule[1].bytes_per_nano += change / 1e9);
        let Err(Violation::Bytes { flow: FlowId(3), size: SECOND, sent, .. }) = found else {
            panic!("{found:?}")
        };
        assert!((sent - (SECOND as f64 + change)).abs() < 1e-3);
    }
}

#[test]
fn a_flow_sent_twice_at_a_time_is_found() {
    let found = after(|schedule, _| {
        schedule[1] = sent(3, 0.0, 1.0, 0.5);
        schedule.push(sent(3, 0.25, 0.75, 1.0));
    });
    assert_eq!(found, Err(Violation::Overlap { flow: FlowId(3), from_ns: 2.5e8, to_ns: 1e9 }));
}

#[test]
fn every_recorded_time_is_checked() {
    let ns = |instant: &mut Instant, by: i64| instant.0 = instant.0.wrapping_add_signed(by);
    for by in [-2, -1, 1, 1_000_000] {
        let found = after(|_, outcome| ns(&mut outcome.flow_finish[1], by));
        assert!(matches!(found, Err(Violation::FlowFinish { flow: FlowId(1), .. })), "{by} {found:?}");
        let found = after(|_, outcome| ns(&mut outcome.coflow_arrival[1], by));
        assert!(matches!(found, Err(Violation::CoflowArrival { coflow: CoflowId(1), .. })), "{by} {found:?}");
        let found = after(|_, outcome| ns(&mut outcome.coflow_finish[2], by));
        assert!(matches!(found, Err(Violation::CoflowFinish { coflow: CoflowId(2), .. })), "{by} {found:?}");
        let found = after(|_, outcome| ns(&mut outcome.task_finish[1], by));
        assert!(matches!(found, Err(Violation::TaskFinish { .. })), "{by} {found:?}");
    }
}

#[test]
fn every_fault_of_a_schedule_is_found_at_once_with_its_place() {
    let found = all_after(|schedule, outcome| {
        schedule[0].bytes_per_nano *= 1.5;
        schedule[2] = sent(1, 0.4, 2.0, 0.625);
        outcome.task_finish[1] = Instant(5_000_000_000);
    });
    let found = found.unwrap_err();
    assert_eq!(kinds(&found), ["bytes", "before_release", "task_finish", "overload", "overload", "idle"]);
    assert_eq!(found.more(), 0);
    let [bytes, early, _, over] = [0, 1, 2, 3].map(|index| found.listed()[index].place());
    assert_eq!((bytes.flows, bytes.coflow), (&[FlowId(0)][..], Some(CoflowId(0))));
    assert_eq!((early.flows, early.span_ns), (&[FlowId(1)][..], Some((4e8, 5e8))));
    assert_eq!((over.link, over.span_ns), (Some("ingress of port 0"), Some((0.0, 1e9))));
}

#[test]
fn one_wrong_record_is_found_once_though_stages_come_after_it() {
    for recorded in [1_999_000_000, 2_001_000_000] {
        let found = all_after(|_, outcome| outcome.coflow_finish[0] = Instant(recorded));
        assert_eq!(kinds(&found.unwrap_err()), ["coflow_finish"], "{recorded}");
    }
}

#[test]
fn of_many_faults_some_are_listed_and_one_of_each_kind_among_them() {
    let found = all_after(|schedule, _| {
        schedule.extend(vec![sent(9, 0.0, 1.0, 1.0); 30]);
        schedule[0].bytes_per_nano *= 2.0;
    });
    let found = found.unwrap_err();
    // The flow with too many bytes is also too much for its two links.
    let expected = [&["unknown_flow"; 18][..], &["bytes", "overload"]].concat();
    assert_eq!(kinds(&found), expected);
    assert_eq!((found.listed().len(), found.more()), (LISTED, 30 + 1 + 2 - LISTED));
    assert!(found.to_string().ends_with("\nand 13 more"), "{found}");
}

#[test]
fn a_flow_that_waits_beside_free_links_is_found_only_where_asked() {
    let lazy = |schedule: &mut Vec<Segment>, outcome: &mut Outcome| {
        schedule[1] = sent(3, 0.5, 1.5, 1.0);
        outcome.flow_finish[3] = Instant(1_500_000_000);
    };
    assert_eq!(
        after(lazy),
        Err(Violation::Idle { flow: FlowId(3), coflow: CoflowId(2), from_ns: 0.0, to_ns: 5e8 })
    );
    let (mut schedule, mut outcome) = right();
    lazy(&mut schedule, &mut outcome);
    validate(&workload(), &fabric(), schedule, &outcome, Checks::default()).unwrap();
    let slow = after(|schedule, outcome| {
        schedule[1] = sent(3, 0.0, 2.0, 0.5);
        outcome.flow_finish[3] = Instant(2_000_000_000);
    });
    assert!(matches!(slow, Err(Violation::Idle { flow: FlowId(3), .. })), "{slow:?}");
}

#[test]
fn what_is_of_another_run_is_refused() {
    let found = after(|_, outcome| outcome.task_finish.truncate(1));
    assert_eq!(found, Err(Violation::Shape { what: "task finishes", expected: 2, found: 1 }));
    let found = after(|schedule, _| schedule.push(sent(5, 0.0, 1.0, 1.0)));
    assert_eq!(found, Err(Violation::UnknownFlow { flow: FlowId(5), flows: 5 }));
    let (schedule, outcome) = right();
    let small = Fabric::big_switch(2, BitsPerSec(1)).unwrap();
    let found = validate(&workload(), &small, schedule, &outcome, ALL);
    assert_eq!(found, Err(Violation::Ports { fabric: 2, workload: 3 }.into()));
    let found = all_after(|_, outcome| {
        outcome.coflow_arrival.clear();
        outcome.task_finish.truncate(1);
    });
    assert_eq!(kinds(&found.unwrap_err()), ["shape", "shape"]);
}

#[test]
fn segments_that_are_none_are_refused() {
    for bad in [sent(0, 1.0, 0.5, 1.0), sent(0, 0.0, 1.0, -1.0), sent(0, 0.0, 1.0, f64::NAN)] {
        let found = after(|schedule, _| schedule.push(bad));
        assert!(matches!(found, Err(Violation::BadSegment { flow: FlowId(0), .. })), "{found:?}");
    }
}

/// Flows one after the other, each alone on the fabric, in up to three pieces.
fn one_by_one(sizes: &[(u32, u32, u64, u64)]) -> (Workload, Vec<Segment>, Outcome) {
    let mut builder = WorkloadBuilder::new(4);
    for (index, &(src, dst, size, arrival)) in sizes.iter().enumerate() {
        builder.coflow(index.to_string(), Instant(arrival), vec![flow(src, dst, size, Nanos::ZERO)]);
    }
    let workload = builder.build().unwrap();
    let (mut now, mut schedule, mut finishes) = (0.0_f64, Vec::new(), Vec::new());
    for (index, facts) in workload.flows().iter().enumerate() {
        now = now.max(workload.tasks()[index].arrival.as_f64());
        let third = facts.size.as_f64() / FULL / 3.0;
        for _ in 0..3 {
            let next = now + third;
            let segment =
                Segment { flow: FlowId(index as u32), from: at(now), to: at(next), bytes_per_nano: FULL };
            schedule.push(segment);
            now = next;
        }
        finishes.push(Instant((now - 1e-4).ceil() as u64));
    }
    let outcome = Outcome {
        coflow_arrival: workload.tasks().iter().map(|task| task.arrival).collect(),
        coflow_finish: finishes.clone(),
        flow_finish: finishes.clone(),
        task_finish: finishes,
        counts: EngineCounts::default(),
        link_use: None,
        queue_use: None,
        messages: None,
    };
    (workload, schedule, outcome)
}

fn flows() -> impl Strategy<Value = Vec<(u32, u32, u64, u64)>> {
    prop::collection::vec((0..4u32, 0..4u32, 1..10_000_000_000u64, 0..100_000_000_000u64), 1..12)
}

proptest! {
    #[test]
    fn flows_sent_one_by_one_are_accepted(sizes in flows()) {
        let (workload, schedule, outcome) = one_by_one(&sizes);
        let fabric = Fabric::big_switch(4, BitsPerSec(1_000_000_000)).unwrap();
        let verdict = validate(&workload, &fabric, schedule, &outcome, Checks::default());
        prop_assert!(verdict.is_ok(), "{:?}", verdict);
    }

    #[test]
    fn a_segment_that_is_lost_doubled_moved_or_sped_up_is_found(
        sizes in flows(), which: prop::sample::Index, how in 0..4,
    ) {
        let (workload, mut schedule, outcome) = one_by_one(&sizes);
        let index = which.index(schedule.len());
        let length = schedule[index].to.since(schedule[index].from);
        match how {
            0 => { schedule.remove(index); }
            1 => schedule.push(schedule[index]),
            2 => {
                let Segment { from, to, .. } = &mut schedule[index];
                (*from, *to) = (at(from.as_f64() + 1e12 + length), at(to.as_f64() + 1e12 + length));
            }
            _ => schedule[index].bytes_per_nano *= 1.0 + 0.01 * (1.0 + 1e3 / length),
        }
        let fabric = Fabric::big_switch(4, BitsPerSec(1_000_000_000)).unwrap();
        prop_assert!(validate(&workload, &fabric, schedule, &outcome, Checks::default()).is_err());
    }
}
