//! Nothing depends on when a trace was taken, on idle time in it, or on the units of bytes: for
//! every registered policy.

#![allow(clippy::unwrap_used, reason = "a test whose scene cannot be set has failed")]

mod instances;
mod odd;

use cavalcade_harness::RunError;
use cavalcade_metrics::Outcome;
use cavalcade_model::{
    BitsPerSec, Bytes, Coflow, Fabric, Flow, Instant, Nanos, PortId, Task, Work, Workload, WorkloadBuilder,
};
use cavalcade_policy::{Configured, parse, registry};
use cavalcade_sim_fluid::{Options, simulate};
use instances::{ALL, Instance, Shapes, instance, instance_on_paths};
use odd::{ANY, Odd};
use proptest::prelude::*;
use proptest::test_runner::TestRunner;

const DAY: u64 = 86_400_000_000_000;
const YEAR: u64 = 365 * DAY;

fn run(workload: &Workload, fabric: &Fabric, policy: &Configured) -> Outcome {
    simulate(workload, fabric, policy, &Options::default(), None).unwrap_or_else(|error| panic!("{error}"))
}

/// The tasks of a workload, each `times` over: with these spans between copies, and sizes times
/// `larger`.
fn again(workload: &Workload, shifts: &[u64], larger: u64) -> Workload {
    let mut builder = WorkloadBuilder::new(workload.ports());
    builder.hosts(workload.hosts().to_vec());
    for (copy, &shift) in shifts.iter().enumerate() {
        for (id, task) in workload.tasks().iter().enumerate() {
            let transfers = task.stages.iter().filter_map(|stage| match stage.work {
                Work::Transfer(coflow) => Some(coflow),
                Work::Compute(_) => None,
            });
            let scaled = |flow: &Flow| Flow { size: Bytes(flow.size.0 * larger), ..*flow };
            let transfers = transfers
                .map(|coflow| Coflow { flows: workload.flows_of(coflow).iter().map(scaled).collect() });
            let (name, arrival) = (format!("{copy}-{}", task.name), task.arrival + Nanos(shift));
            builder.push(Task { name, arrival, ..task.clone() }, transfers.collect());
            let id = cavalcade_model::TaskId::from_index(id);
            builder.waves_in_turn(workload.waves_in_turn(id));
            workload.iterations(id).map(|all| builder.iterations(all.clone()));
        }
    }
    builder.build().unwrap()
}

/// Tries `holds` for each policy on `cases` random inputs and reports all policies for which it
/// does not.
fn for_each_policy(
    policies: &[Configured],
    cases: u32,
    shapes: Shapes,
    holds: impl Fn(&Configured, Instance) -> Result<(), TestCaseError>,
) {
    let mut failures = Vec::new();
    for policy in policies {
        let inputs = prop_oneof![instance(shapes), instance_on_paths(shapes)];
        let result = TestRunner::new(instances::cases(cases)).run(&inputs, |input| holds(policy, input));
        failures.extend(result.err().map(|error| format!("{}: {error}", policy.label())));
    }
    assert!(failures.is_empty(), "{} policies fail\n\n{}", failures.len(), failures.join("\n\n"));
}

fn policies() -> Vec<Configured> {
    registry().iter().map(|info| parse(info.name).unwrap()).collect()
}

#[test]
fn a_later_trace_has_the_same_outcome() {
    for_each_policy(&policies(), 20, ALL, |policy, Instance { workload, fabric }| {
        let early = run(&workload, &fabric, policy);
        for shift in [1, 999_999_937, 1_700_000_000_000_000_123, 100 * YEAR] {
            let late = again(&workload, &[shift], 1);
            prop_assert_eq!(late.origin(), Instant(shift));
            prop_assert_eq!(&run(&late, &fabric, policy), &early);
        }
        Ok(())
    });
}

#[test]
fn what_comes_after_idle_time_is_as_if_it_came_first() {
    for_each_policy(&policies(), 12, ALL, |policy, Instance { workload, fabric }| {
        let alone = run(&workload, &fabric, policy);
        // A whole number of every policy's periods, or ticks would fall otherwise.
        for gap in [DAY, 6 * DAY, YEAR, 90 * YEAR] {
            let both = run(&again(&workload, &[0, gap], 1), &fabric, policy);
            let flows = workload.flows().len();
            for (flow, finish) in alone.flow_finish.iter().enumerate() {
                let [first, second] = [both.flow_finish[flow], both.flow_finish[flows + flow]];
                let apart = |a: u64, b: u64| a.abs_diff(b) as f64;
                // Rounding differs where the tasks of both are told apart by their numbers alone.
                let close = 1.0 + 1e-9 * finish.as_f64();
                prop_assert!(apart(first.0, finish.0) <= close, "flow {flow}: {finish:?} {first:?}");
                let second = second.0 - gap;
                prop_assert!(
                    apart(second, finish.0) <= close,
                    "flow {flow}: {finish:?} {second} after {gap}"
                );
            }
        }
        Ok(())
    });
}

/// The policy with every amount of bytes among its parameters so many times larger.
fn scaled(policy: &Configured, by: u64) -> Configured {
    let larger = |value: &str| match value.parse::<Bytes>() {
        Ok(bytes) if value.ends_with('B') => format!("{:?}", Bytes(bytes.0 * by)),
        _ => value.to_owned(),
    };
    let params: Vec<String> = (policy.params().iter())
        .map(|(name, value)| {
            let value: Vec<String> = value.split('/').map(larger).collect();
            format!("{name}={}", value.join("/"))
        })
        .collect();
    let spec = if params.is_empty() {
        policy.name().to_owned()
    } else {
        format!("{}:{}", policy.name(), params.join(","))
    };
    parse(&spec).unwrap_or_else(|error| panic!("{spec}: {error}"))
}

#[test]
fn larger_flows_over_faster_links_take_as_long() {
    const BY: u64 = 1 << 7;
    // Thresholds computed from a histogram of sizes depend on its bins, which are single bytes
    // where sizes are small; and steps of an iteration end at whole bytes.
    let computes = |policy: &Configured| ["pias", "karuna", "mltcp"].contains(&policy.name());
    let policies: Vec<Configured> = policies().into_iter().filter(|policy| !computes(policy)).collect();
    for_each_policy(&policies, 20, ALL, |policy, Instance { workload, fabric }| {
        let mut faster = fabric.clone();
        for link in fabric.links() {
            faster.set_capacity(link, BitsPerSec(fabric.capacity(link).0 * BY)).unwrap();
        }
        let before = run(&workload, &fabric, policy);
        let after = run(&again(&workload, &[0], BY), &faster, &scaled(policy, BY));
        for (before, after) in before.flow_finish.iter().zip(&after.flow_finish) {
            let close = 1.0 + 1e-9 * before.as_f64();
            prop_assert!(before.0.abs_diff(after.0) as f64 <= close, "{before:?} {after:?}");
        }
        Ok(())
    });
}

#[test]
fn ten_thousand_odd_workloads_are_run_or_refused() {
    let numbers = proptest::collection::vec(any::<u64>(), 0..48);
    let result = TestRunner::new(instances::cases(10_000)).run(&numbers, |numbers| {
        let odd = Odd::draw(ANY, numbers);
        odd::fluid_holds(&odd).map_err(|what| TestCaseError::fail(format!("{what}\n{odd:?}")))
    });
    if let Err(error) = result {
        panic!("{error}");
    }
}

fn flows(list: &[(u32, u32, u64, u64)], ports: u32) -> Workload {
    let mut builder = WorkloadBuilder::new(ports);
    for (name, &(src, dst, size, arrival)) in list.iter().enumerate() {
        let flow = Flow { src: PortId(src), dst: PortId(dst), size: Bytes(size), wave: Nanos::ZERO };
        builder.coflow(name.to_string(), Instant(arrival), vec![flow]);
    }
    builder.build().unwrap()
}

/// The same flow over and over without a pause, beside one that lasts for months: each takes what
/// it takes, to the nanosecond.
#[test]
fn a_busy_link_is_as_exact_after_months_as_at_first() {
    let fabric = Fabric::big_switch(4, BitsPerSec(1_000_000_000)).unwrap();
    for policy in
        ["fair", "fifo", "sebf", "sincronia", "dclas:weighted=false", "las:at=link", "pfabric", "varys"]
    {
        let policy = parse(policy).unwrap();
        // 300 days at 1 Gbps between two ports; every 10 days a flow of 1,000 bytes between two
        // others.
        let mut list = vec![(0, 1, 300 * DAY / 8, 0)];
        list.extend((1..30).map(|nth| (2, 3, 1_000, nth * 10 * DAY + 1)));
        let workload = flows(&list, 4);
        let outcome = run(&workload, &fabric, &policy);
        for nth in 1..30 {
            let took = outcome.flow_finish[nth].0 - workload.tasks()[nth].arrival.0;
            assert_eq!(took, 8_000, "{} flow {nth}", policy.label());
        }
        // What lasts for months is settled to 53 bits again and again.
        assert!(outcome.flow_finish[0].0.abs_diff(300 * DAY) <= 30, "{}", policy.label());
    }
}

#[test]
fn what_ends_beyond_the_end_of_time_is_refused_before_the_run() {
    let slow = Fabric::big_switch(2, BitsPerSec(1)).unwrap();
    let policy = parse("fair").unwrap();
    let refused = |workload: &Workload, fabric: &Fabric| {
        simulate(workload, fabric, &policy, &Options::default(), None).unwrap_err()
    };
    let error = refused(&flows(&[(0, 1, 1_152_921_505, 0)], 2), &slow);
    let expected = RunError::TooSlow {
        link: "ingress of port 0".into(),
        bytes: Bytes(1_152_921_505),
        rate: BitsPerSec(1),
    };
    assert_eq!(error, expected);
    assert!(
        simulate(&flows(&[(0, 1, 1_152_921_504, 0)], 2), &slow, &policy, &Options::default(), None).is_ok()
    );
}

#[test]
fn what_comes_to_lie_beyond_the_end_of_time_ends_the_run() {
    let slow = Fabric::big_switch(2, BitsPerSec(1)).unwrap();
    let policy = parse("fair").unwrap();
    // Four years each, but the second begins after 290.
    let workload = flows(&[(0, 1, 16_000_000, 0), (0, 1, 16_000_000, 145 * YEAR)], 2);
    assert!(simulate(&workload, &slow, &policy, &Options::default(), None).is_ok());
    let workload = again(&flows(&[(0, 1, 1, 0), (0, 1, 600_000_000, 10)], 2), &[145 * YEAR], 1);
    let error = simulate(&workload, &slow, &policy, &Options::default(), None).unwrap_err();
    assert_eq!(
        error,
        RunError::TooSlow {
            link: "ingress of port 0".into(),
            bytes: Bytes(600_000_001),
            rate: BitsPerSec(1),
        }
    );
}

/// A lone flow is over in no time whatever its policy would look at meanwhile.
#[test]
fn a_lone_flow_of_months_costs_no_ticks() {
    let fabric = Fabric::big_switch(4, BitsPerSec(1_000_000)).unwrap();
    let workload = flows(&[(0, 1, 1_000_000_000_000, 0), (2, 3, 1_000_000_000_000, 77)], 4);
    for policy in policies() {
        let outcome = run(&workload, &fabric, &policy);
        for (finish, exact) in
            outcome.flow_finish.iter().zip([8_000_000_000_000_000u64, 8_000_000_000_000_077])
        {
            assert!(finish.0.abs_diff(exact) <= 1, "{}: {finish:?}", policy.label());
        }
        let counts = outcome.counts;
        assert!(counts.events < 10_000, "{}: {counts:?}", policy.label());
    }
}
