//! What holds for every registered policy, on small random workloads. A new policy is covered as
//! soon as it is listed.
//!
//! Each test collects the failures of all policies before it fails, so that one run says which
//! policies are concerned.

#![allow(clippy::unwrap_used, reason = "a test whose scene cannot be set has failed")]

mod instances;

use cavalcade_metrics::Outcome;
use cavalcade_model::{
    BitsPerSec, Bytes, Discipline, Fabric, FineInstant, Flow, FlowId, Instant, Nanos, PolicyFactory, PortId,
    Scope, TaskId, Work, Workload, WorkloadBuilder,
};
use cavalcade_policy::{Configured, parse, registry};
use cavalcade_sim_fluid::{Observer, Options, simulate};
use cavalcade_validate::{Checks, ScheduleReader, ScheduleWriter, Segment, validate};
use instances::{ALL, Instance, Shapes, instance, instance_on_paths};
use proptest::prelude::*;
use proptest::test_runner::TestRunner;

/// Every policy with its defaults, every preset, and settings that change what the engine has to
/// do.
fn policies() -> Vec<Configured> {
    let mut specs: Vec<&str> = Vec::new();
    for info in registry() {
        specs.push(info.name);
    }
    specs.extend([
        "dclas:queues=4,factor=3,first_threshold=100KB,sync=0ms",
        "dclas:queues=4,factor=3,first_threshold=100KB,sync=0ms,weighted=false",
        "dclas:queues=4,factor=3,first_threshold=100KB,sync=2ms,excess=highest",
        "dcas:sync=1ms,wait=100us,threshold_volume=10KB,starvation=5ms,expiry=4ms",
        "las:quantum=250KB",
        "fifo_lm:heavy_threshold=100KB",
        "tafe:thresholds=10KB/100KB/1MB",
    ]);
    specs.into_iter().map(|spec| parse(spec).unwrap_or_else(|error| panic!("{spec}: {error}"))).collect()
}

/// Tries `holds` for each policy on `cases` random inputs and reports all policies for which it
/// does not.
fn for_each_policy<S: Strategy>(
    cases: u32,
    inputs: impl Fn() -> S,
    holds: impl Fn(&Configured, S::Value) -> Result<(), TestCaseError>,
) {
    let mut failures = Vec::new();
    for policy in policies() {
        let config = instances::cases(cases);
        let result = TestRunner::new(config).run(&inputs(), |input| holds(&policy, input));
        failures.extend(result.err().map(|error| format!("{}: {error}", policy.label())));
    }
    assert!(failures.is_empty(), "{} policies fail\n\n{}", failures.len(), failures.join("\n\n"));
}

#[derive(Default)]
struct Schedule(Vec<Segment>);

impl Observer for Schedule {
    fn segment(&mut self, flow: FlowId, from: FineInstant, to: FineInstant, bytes_per_nano: f64) {
        self.0.push(Segment { flow, from, to, bytes_per_nano });
    }
}

fn options(delay: u64) -> Options {
    Options { control_delay: Nanos(delay), ..Options::default() }
}

fn run(instance: &Instance, policy: &Configured, options: &Options) -> (Outcome, Vec<Segment>) {
    let mut schedule = Schedule::default();
    let outcome = simulate(&instance.workload, &instance.fabric, policy, options, Some(&mut schedule));
    (outcome.unwrap(), schedule.0)
}

#[test]
fn the_validator_accepts_what_was_dumped_and_read_back() {
    let inputs = || (instance(ALL), prop_oneof![Just(0), 1..3_000_000u64]);
    for_each_policy(200, inputs, |policy, (instance, delay)| {
        let (outcome, segments) = run(&instance, policy, &options(delay));
        let origin = instance.workload.origin();
        let mut writer = ScheduleWriter::new(Vec::new(), origin).unwrap();
        for segment in &segments {
            writer.write(segment).unwrap();
        }
        let file = writer.finish().unwrap();
        let read: Vec<Segment> =
            ScheduleReader::new(file.as_slice(), origin).unwrap().collect::<Result<_, _>>().unwrap();
        let checks = Checks { work_conservation: policy.terms().work_conserving };
        let verdict = validate(&instance.workload, &instance.fabric, read, &outcome, checks)
            .map_err(|violation| TestCaseError::fail(violation.to_string()))?;
        let difference = (verdict.bytes - instance.workload.bytes().as_f64()).abs();
        prop_assert!(difference <= 1.0, "{} bytes of {}", verdict.bytes, instance.workload.bytes());
        Ok(())
    });
}

#[test]
fn lost_messages_change_when_but_not_whether() {
    let inputs = || (instance(ALL), 0.0..1.0f64, any::<u64>());
    for_each_policy(100, inputs, |policy, (instance, control_loss, seed)| {
        if policy.terms().scope != Scope::Host {
            return Ok(());
        }
        let options = Options { control_loss, seed, ..options(10_000) };
        let (outcome, segments) = run(&instance, policy, &options);
        let checks = Checks { work_conservation: policy.terms().work_conserving };
        validate(&instance.workload, &instance.fabric, segments, &outcome, checks)
            .map_err(|violation| TestCaseError::fail(violation.to_string()))?;
        Ok(())
    });
}

#[test]
fn the_same_run_twice_is_the_same() {
    for_each_policy(
        60,
        || (instance(ALL), any::<u64>()),
        |policy, (instance, seed)| {
            let options = Options {
                control_delay: Nanos(1_000),
                control_loss: 0.3,
                seed,
                link_use: true,
                ..Options::default()
            };
            let (outcome, segments) = run(&instance, policy, &options);
            prop_assert_eq!(run(&instance, policy, &options), (outcome, segments));
            Ok(())
        },
    );
}

#[test]
fn watching_a_run_does_not_change_it() {
    for_each_policy(
        60,
        || instance(ALL),
        |policy, instance| {
            let alone = simulate(&instance.workload, &instance.fabric, policy, &Options::default(), None);
            prop_assert_eq!(run(&instance, policy, &Options::default()).0, alone.unwrap());
            Ok(())
        },
    );
}

#[test]
fn names_decide_nothing() {
    for_each_policy(
        60,
        || instance(ALL),
        |policy, instance| {
            let workload = &instance.workload;
            let mut builder = WorkloadBuilder::new(workload.ports());
            builder.hosts(workload.hosts().to_vec());
            for (index, task) in workload.tasks().iter().enumerate() {
                let mut task = task.clone();
                task.name = format!("{:03} renamed", workload.tasks().len() - index);
                builder.push(task.clone(), coflows_of(workload, &task.stages));
                builder.waves_in_turn(workload.waves_in_turn(TaskId::from_index(index)));
                workload.iterations(TaskId::from_index(index)).map(|all| builder.iterations(all.clone()));
            }
            let renamed = Instance { workload: builder.build().unwrap(), fabric: instance.fabric.clone() };
            let before = run(&instance, policy, &Options::default());
            prop_assert_eq!(run(&renamed, policy, &Options::default()), before);
            Ok(())
        },
    );
}

fn coflows_of(workload: &Workload, stages: &[cavalcade_model::Stage]) -> Vec<cavalcade_model::Coflow> {
    let transfers = stages.iter().filter_map(|stage| match stage.work {
        Work::Transfer(coflow) => Some(workload.flows_of(coflow).to_vec()),
        Work::Compute(_) => None,
    });
    transfers.map(|flows| cavalcade_model::Coflow { flows }).collect()
}

/// The same with port p called `names[p]`.
fn with_ports_renamed(instance: &Instance, names: &[u32]) -> Instance {
    let rename = |port: PortId| PortId(names[port.index()]);
    let workload = &instance.workload;
    let mut builder = WorkloadBuilder::new(workload.ports());
    let mut hosts = workload.hosts().to_vec();
    for (port, host) in workload.hosts().iter().enumerate() {
        hosts[names[port] as usize] = *host;
    }
    builder.hosts(hosts);
    for (index, task) in workload.tasks().iter().enumerate() {
        let mut coflows = coflows_of(workload, &task.stages);
        for flow in coflows.iter_mut().flat_map(|coflow| &mut coflow.flows) {
            (flow.src, flow.dst) = (rename(flow.src), rename(flow.dst));
        }
        let mut task = task.clone();
        for stage in &mut task.stages {
            if let Work::Compute(compute) = &mut stage.work {
                compute.host = compute.host.map(rename);
            }
        }
        builder.push(task, coflows);
        builder.waves_in_turn(workload.waves_in_turn(TaskId::from_index(index)));
        workload.iterations(TaskId::from_index(index)).map(|all| builder.iterations(all.clone()));
    }
    let fabric = &instance.fabric;
    let mut rates = [vec![BitsPerSec::ZERO; names.len()], vec![BitsPerSec::ZERO; names.len()]];
    for port in (0..fabric.ports()).map(PortId) {
        rates[0][rename(port).index()] = fabric.capacity(fabric.ingress(port));
        rates[1][rename(port).index()] = fabric.capacity(fabric.egress(port));
    }
    let fabric = Fabric::uneven_big_switch(&rates[0], &rates[1]).unwrap();
    Instance { workload: builder.build().unwrap(), fabric }
}

/// Where nothing is equal, the numbers of ports decide nothing either. (Where something is, a tie
/// may go by them. Hosts that negotiate all do so at the same instants, so who is heard first
/// always goes by them.)
#[test]
fn numbers_of_ports_decide_nothing() {
    let shapes = Shapes { ties: false, ..ALL };
    let inputs = || (instance(shapes), Just((0..6u32).collect::<Vec<_>>()).prop_shuffle());
    for_each_policy(100, inputs, |policy, (instance, mut names)| {
        // Links with as many flows of a coflow are a tie, for `learn` and for Philae's pilots, and
        // go by their number.
        let by_counts = policy.terms().discipline == Discipline::InTurn || policy.name() == "philae";
        if policy.terms().scope == Scope::Host || by_counts {
            return Ok(());
        }
        names.retain(|&name| name < instance.workload.ports());
        let renamed = with_ports_renamed(&instance, &names);
        let before = run(&instance, policy, &Options::default()).0;
        let after = run(&renamed, policy, &Options::default()).0;
        for (index, (before, after)) in before.coflow_finish.iter().zip(&after.coflow_finish).enumerate() {
            let apart = before.0.abs_diff(after.0) as f64;
            prop_assert!(
                apart <= 2.0 + 1e-9 * before.as_f64(),
                "coflow {index}: {} and {} ns",
                before.0,
                after.0
            );
        }
        Ok(())
    });
}

#[test]
fn link_use_adds_up_to_the_bytes() {
    for_each_policy(
        40,
        || prop_oneof![instance(ALL), instance_on_paths(ALL)],
        |policy, instance| {
            let options = Options { link_use: true, ..Options::default() };
            let link_use = run(&instance, policy, &options).0.link_use.unwrap();
            let fabric = &instance.fabric;
            let carried =
                |link| -> f64 { (0..link_use.intervals()).map(|index| link_use.at(index, link)).sum() };
            for link in fabric.links() {
                let crossing = |flow: &&Flow| fabric.path(flow.src, flow.dst).contains(&link);
                let bytes: u64 =
                    instance.workload.flows().iter().filter(crossing).map(|flow| flow.size.0).sum();
                let apart = (carried(link) - bytes as f64).abs();
                prop_assert!(apart <= 1.0, "{}: {} bytes of {bytes}", fabric.link_name(link), carried(link));
            }
            Ok(())
        },
    );
}

/// One large coflow from the start, and small ones without end that take four fifths of its link.
#[test]
fn where_nobody_starves_a_large_coflow_gets_on_beside_a_stream_of_small_ones() {
    const SMALL: u64 = 1_250_000;
    const STREAM: u64 = 3_000;
    const GAP_NS: u64 = 12_500_000;
    let flow = |size| vec![Flow { src: PortId(0), dst: PortId(1), size: Bytes(size), wave: Nanos::ZERO }];
    let mut builder = WorkloadBuilder::new(2);
    builder.coflow("large", Instant::ZERO, flow(100 * STREAM * SMALL));
    for index in 0..STREAM {
        // Each takes 10 ms alone.
        builder.coflow(format!("small {index}"), Instant(index * GAP_NS), flow(SMALL));
    }
    let fabric = Fabric::big_switch(2, BitsPerSec(1_000_000_000)).unwrap();
    let instance = Instance { workload: builder.build().unwrap(), fabric };
    let stream_ends_ns = (STREAM * GAP_NS) as f64;
    for policy in policies() {
        if !policy.terms().starvation_free {
            continue;
        }
        let (_, segments) = run(&instance, &policy, &Options::default());
        // In every tenth of the stream it gets something: 1 % of the link is little, and not
        // nothing.
        for tenth in 0..10 {
            let (from, to) =
                (f64::from(tenth) * stream_ends_ns / 10.0, f64::from(tenth + 1) * stream_ends_ns / 10.0);
            let sent: f64 = segments
                .iter()
                .filter(|segment| segment.flow == FlowId(0))
                .map(|s| s.bytes_per_nano * (s.to.as_f64().min(to) - s.from.as_f64().max(from)).max(0.0))
                .sum();
            let least = 0.01 * 0.125 * (to - from);
            assert!(sent >= least, "{}: only {sent} bytes in tenth {tenth} of the stream", policy.label());
        }
    }
}
