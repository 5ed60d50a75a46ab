//! Fabrics with several switches: the engine against the slow, obvious one, what holds for every
//! policy there, and that a tree whose links between switches are never short is a big switch.

#![allow(clippy::unwrap_used, reason = "a test whose scene cannot be set has failed")]
#![allow(dead_code, reason = "modules are shared with tests that use more of them")]

mod agreement;
mod fixed_order;
mod instances;
mod scripted;
mod slow;
mod timeline;

use agreement::agree;
use std::collections::BTreeMap;

use cavalcade_metrics::Outcome;
use cavalcade_model::{
    BitsPerSec, Coflow, Discipline, FabricSpec, FineInstant, FlowId, History, Instant, Nanos, PolicyFactory,
    Scope, TaskId, Work,
};
use cavalcade_policy::{Configured, parse, registry};
use cavalcade_sim_fluid::{
    Allocator, Load, Observer, Options, StreamOptions, Streamed, simulate, simulate_stream,
};
use cavalcade_validate::{Checks, Segment, validate};
use fixed_order::FixedOrder;
use instances::{ALL, Instance, Shapes, cases, instance, instance_on_paths};
use proptest::prelude::*;
use proptest::test_runner::TestRunner;
use scripted::Scripted;

const FEW: Shapes = Shapes { most: (3, 3, 4), ..ALL };

proptest! {
    #![proptest_config(cases(600))]

    #[test]
    fn fair_shares_agree(instance in instance_on_paths(ALL)) {
        let rank = vec![0; instance.workload.coflow_count()];
        agree(&instance, &FixedOrder { rank }, &Options::default())?;
    }

    #[test]
    fn fixed_orders_agree(instance in instance_on_paths(ALL), rank in proptest::collection::vec(0..4u64, 24)) {
        agree(&instance, &FixedOrder { rank }, &Options::default())?;
    }
}

#[test]
fn the_reference_allocator_agrees_for_every_policy() {
    for_each_policy(
        60,
        || instance(Shapes { uneven: false, ties: false, ..ALL }),
        |policy, instance| {
            let finishes = [Allocator::Incremental, Allocator::Reference].map(|allocator| {
                let options = Options { allocator, ..Options::default() };
                simulate(&instance.workload, &instance.fabric, policy, &options, None).unwrap().flow_finish
            });
            for (finish, other) in finishes[0].iter().zip(&finishes[1]) {
                let allowed = 1.0 + 1e-9 * finish.as_f64();
                prop_assert!(finish.0.abs_diff(other.0) as f64 <= allowed, "{finish:?} {other:?}");
            }
            Ok(())
        },
    );
}

fn script(scope: Scope) -> impl Strategy<Value = Scripted> {
    (any::<u64>(), any::<bool>()).prop_map(move |(seed, caps)| Scripted {
        scope,
        discipline: Discipline::MaxMin,
        weights: None,
        caps,
        seed,
    })
}

proptest! {
    #![proptest_config(cases(200))]

    #[test]
    fn random_decisions_agree_for_a_coordinator(
        instance in instance_on_paths(FEW), script in script(Scope::Fabric),
    ) {
        agree(&instance, &script, &Options::default())?;
    }

    #[test]
    fn random_decisions_agree_for_hosts_that_negotiate(
        instance in instance_on_paths(FEW), script in script(Scope::Host),
        delay in prop_oneof![Just(0), Just(1_000_000), 1..4_000_000u64],
    ) {
        let options = Options { control_delay: Nanos(delay), ..Options::default() };
        agree(&instance, &script, &options)?;
    }
}

/// Every policy with its defaults and every preset, and those that are local, at links too.
fn policies() -> Vec<Configured> {
    let mut specs: Vec<&str> = Vec::new();
    for info in registry() {
        // Amounts that karuna looks at every 10 ms would lie where rounding decides whether a byte
        // is left.
        specs.push(if info.name == "karuna" { "karuna:update=7300019ns" } else { info.name });
    }
    specs.extend(["fifo_lm:at=link,heavy_threshold=100KB", "las:at=link,quantum=250KB"]);
    specs.extend(["fifo_lm:heavy_threshold=100KB", "dclas:sync=0ms,weighted=false,first_threshold=100KB"]);
    // At 1 Gbps the rate of a flow that is held is one that counts as none.
    specs.extend(["sebf:sync=3ms", "varys:sync=3ms"]);
    specs.into_iter().map(|spec| parse(spec).unwrap()).collect()
}

fn for_each_policy<S: Strategy>(
    count: u32,
    inputs: impl Fn() -> S,
    holds: impl Fn(&Configured, S::Value) -> Result<(), TestCaseError>,
) {
    let mut failures = Vec::new();
    for policy in policies() {
        // Along paths the rates of links with priorities of their own are computed from scratch at
        // each event.
        let count = if policy.terms().scope == Scope::Link { count / 8 } else { count };
        let result = TestRunner::new(cases(count)).run(&inputs(), |input| holds(&policy, input));
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

#[test]
fn the_validator_accepts_every_policy_on_every_link() {
    for_each_policy(
        100,
        || instance_on_paths(ALL),
        |policy, instance| {
            let mut schedule = Schedule::default();
            let outcome = simulate(
                &instance.workload,
                &instance.fabric,
                policy,
                &Options::default(),
                Some(&mut schedule),
            )
            .unwrap();
            let checks = Checks { work_conservation: policy.terms().work_conserving };
            validate(&instance.workload, &instance.fabric, schedule.0, &outcome, checks)
                .map_err(|violation| TestCaseError::fail(violation.to_string()))?;
            Ok(())
        },
    );
}

#[test]
fn every_policy_agrees_with_the_slow_engine_on_paths() {
    for_each_policy(
        80,
        || instance_on_paths(Shapes { uneven: false, ties: false, ..ALL }),
        |policy, instance| agree(&instance, policy, &Options::default()),
    );
}

proptest! {
    #![proptest_config(cases(200))]

    /// Senders are compared with the slow engine; so links are too, where they cannot contradict
    /// each other.
    #[test]
    fn while_nothing_is_heavy_links_decide_what_senders_do(instance in instance_on_paths(ALL)) {
        let finishes = ["link", "sender"].map(|at| {
            let policy = parse(&format!("fifo_lm:at={at},heavy_threshold=1TB")).unwrap();
            simulate(&instance.workload, &instance.fabric, &policy, &Options::default(), None).unwrap().flow_finish
        });
        for (at_links, at_senders) in finishes[0].iter().zip(&finishes[1]) {
            let allowed = 1.0 + 1e-9 * at_senders.as_f64();
            prop_assert!(at_links.0.abs_diff(at_senders.0) as f64 <= allowed, "{at_links:?} {at_senders:?}");
        }
    }
}

/// Time at which each task finished.
#[derive(Default)]
struct Finishes(BTreeMap<TaskId, Instant>);

impl Observer for Finishes {
    fn wants_segments(&self) -> bool {
        false
    }

    fn task_finished(&mut self, task: TaskId, _: Instant, finish: Instant) {
        self.0.insert(task, finish);
    }
}

/// Runs a policy over the tasks of an instance, one after the other.
fn streamed(
    policy: &dyn PolicyFactory,
    instance: &Instance,
    is_exact: bool,
    finishes: &mut Finishes,
) -> Streamed {
    let workload = &instance.workload;
    let mut stream = workload.tasks().iter().map(|task| {
        let transfers = task.stages.iter().filter_map(|stage| match stage.work {
            Work::Transfer(coflow) => Some(Coflow { flows: workload.flows_of(coflow).to_vec() }),
            Work::Compute(_) => None,
        });
        (task.clone(), transfers.collect())
    });
    let (history, is_wide) = (&History::of(workload), Load::of(workload).is_wide);
    let about = StreamOptions { history, is_wide, is_exact };
    simulate_stream(&mut stream, &instance.fabric, policy, about, &Options::default(), Some(finishes))
        .unwrap()
}

#[test]
fn a_stream_gives_to_the_bit_what_the_whole_gives() {
    // A stream carries none of these.
    let shapes = Shapes { hosts: false, turns: false, iterations: false, ..ALL };
    for_each_policy(
        150,
        || prop_oneof![instance(shapes), instance_on_paths(shapes)],
        |policy, instance| {
            let streamed = streamed(policy, &instance, true, &mut Finishes::default());
            let whole =
                simulate(&instance.workload, &instance.fabric, policy, &Options::default(), None).unwrap();
            prop_assert!(streamed.held_flows <= instance.workload.flows().len());
            prop_assert_eq!(streamed.outcome, Outcome { flow_finish: Vec::new(), ..whole });
            Ok(())
        },
    );
}

#[test]
fn a_run_that_forgets_flows_differs_in_nothing_else() {
    for_each_policy(
        150,
        || {
            let instances = prop_oneof![instance(ALL), instance_on_paths(ALL)];
            (instances, prop_oneof![Just(0), 1..3_000_000u64], any::<bool>())
        },
        |policy, (instance, delay, link_use)| {
            let run = |forgets_flows| {
                let mut schedule = Schedule::default();
                let options =
                    Options { control_delay: Nanos(delay), link_use, forgets_flows, ..Options::default() };
                let Instance { workload, fabric } = &instance;
                let outcome = simulate(workload, fabric, policy, &options, Some(&mut schedule)).unwrap();
                (outcome, schedule.0)
            };
            let (kept, segments) = run(false);
            prop_assert_eq!(run(true), (Outcome { flow_finish: Vec::new(), ..kept }, segments));
            Ok(())
        },
    );
}

#[test]
fn a_stream_whose_numbers_are_used_again_gives_what_the_whole_gives_but_for_ties() {
    for_each_policy(
        100,
        // A stream carries none of these; and its numbers are used again, which decides between
        // flows of one size.
        || instance_on_paths(Shapes { hosts: false, turns: false, iterations: false, ties: false, ..ALL }),
        |policy, instance| {
            if policy.terms().discipline == Discipline::InTurn {
                return Ok(()); // Links with as many flows are a tie, which goes by number.
            }
            let mut finishes = Finishes::default();
            let streamed = streamed(policy, &instance, false, &mut finishes);
            prop_assert_eq!(finishes.0.len(), instance.workload.tasks().len());
            prop_assert!(streamed.held_flows <= instance.workload.flows().len());
            let whole =
                simulate(&instance.workload, &instance.fabric, policy, &Options::default(), None).unwrap();
            for (whole, streamed) in whole.task_finish.iter().zip(finishes.0.values()) {
                let apart = whole.0.abs_diff(streamed.0) as f64;
                prop_assert!(apart <= 1.0 + 1e-8 * whole.as_f64(), "{:?} {:?}", whole, streamed);
            }
            Ok(())
        },
    );
}

/// Half of the ports in each of two racks, with room between the racks for whatever can come.
fn in_two_racks(instance: &Instance) -> Instance {
    let ports = instance.fabric.ports();
    let spec: FabricSpec = format!("tree:pods=1,racks=2,hosts={}", ports.div_ceil(2)).parse().unwrap();
    let mut fabric = spec.build(BitsPerSec(1_000_000_000)).unwrap();
    for link in fabric.links().skip(2 * fabric.ports() as usize) {
        fabric.set_capacity(link, BitsPerSec(10_000_000_000)).unwrap();
    }
    for port in (0..ports).map(cavalcade_model::PortId) {
        let rates = [instance.fabric.ingress(port), instance.fabric.egress(port)]
            .map(|link| instance.fabric.capacity(link));
        fabric.set_capacity(fabric.ingress(port), rates[0]).unwrap();
        fabric.set_capacity(fabric.egress(port), rates[1]).unwrap();
    }
    Instance { workload: instance.workload.clone(), fabric }
}

#[test]
fn a_tree_with_room_between_its_switches_is_a_big_switch() {
    for_each_policy(
        100,
        || instance(Shapes { uneven: false, ties: false, ..ALL }),
        |policy, instance| {
            // Links that are never short still count where each of them ranks flows by itself.
            if policy.terms().scope == Scope::Link {
                return Ok(());
            }
            let tree = in_two_racks(&instance);
            let options = Options::default();
            let on_switch = simulate(&instance.workload, &instance.fabric, policy, &options, None).unwrap();
            let on_tree = simulate(&tree.workload, &tree.fabric, policy, &options, None).unwrap();
            for (on_switch, on_tree) in on_switch.flow_finish.iter().zip(&on_tree.flow_finish) {
                let allowed = 1.0 + 1e-9 * on_switch.as_f64();
                prop_assert!(
                    on_switch.0.abs_diff(on_tree.0) as f64 <= allowed,
                    "{:?} {:?}",
                    on_switch,
                    on_tree
                );
            }
            Ok(())
        },
    );
}

#[test]
fn a_leaf_alone_is_a_big_switch_whatever_hangs_above_it() {
    for_each_policy(
        40,
        || instance(ALL),
        |policy, instance| {
            let ports = instance.fabric.ports();
            let spec: FabricSpec = format!("leafspine:leaves=1,spines=2,hosts={ports}").parse().unwrap();
            let mut fabric = spec.build(BitsPerSec(1_000_000_000)).unwrap();
            for link in instance.fabric.links() {
                fabric.set_capacity(link, instance.fabric.capacity(link)).unwrap();
            }
            let finishes = [&instance.fabric, &fabric].map(|fabric| {
                simulate(&instance.workload, fabric, policy, &Options::default(), None).unwrap().flow_finish
            });
            prop_assert_eq!(&finishes[0], &finishes[1]);
            Ok(())
        },
    );
}
