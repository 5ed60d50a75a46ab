//! What `saath`, `philae`, `dcoflow` and `crux` are for, on the smallest workloads that show it,
//! with exact times.

mod instances;
mod slow;
#[allow(dead_code, reason = "shared with the examples of the seeds, which need more of it")]
mod worked;

use cavalcade_model::{
    CoflowId, Compute, FabricSpec, Flow, Nanos, PolicyFactory, Stage, StageIndex, Task, Work, Workload,
};
use cavalcade_sim_fluid::{Options, simulate};
use instances::{ALL, cases, instance};
use proptest::prelude::*;
use worked::{SECOND, both_sides, flow, policy, run, senders_only, sum, task, times, units, workload};

/// B needs both senders, A and C one each. FIFO serves a part of B beside A, which helps none, and
/// makes C wait.
#[test]
fn saath_serves_whoever_gets_all_ports_in_place_of_half_a_coflow() {
    let tasks = vec![
        task("A", 0.0, &[flow(1, 1, 1.0)]),
        task("B", 0.0, &[flow(1, 2, 1.0), flow(2, 3, 1.0)]),
        task("C", 0.0, &[flow(2, 4, 1.0)]),
    ];
    let workload = workload(4, tasks);
    let fifo = times(&workload, &senders_only(4), &policy("fifo"));
    assert_eq!(fifo, units([("A", 1.0), ("B", 2.0), ("C", 2.0)]));
    let saath = policy("saath:least_contention=false,queues=1");
    assert_eq!(times(&workload, &senders_only(4), &saath), units([("A", 1.0), ("B", 2.0), ("C", 1.0)]));
}

/// The coflow in the middle meets both others, which meet no other.
#[test]
fn saath_serves_first_whoever_is_in_fewest_others_way() {
    let tasks = vec![
        task("middle", 0.0, &[flow(1, 1, 1.0), flow(2, 2, 1.0)]),
        task("left", 0.0, &[flow(1, 3, 1.0)]),
        task("right", 0.0, &[flow(2, 4, 1.0)]),
    ];
    let workload = workload(4, tasks);
    let fifo = times(&workload, &senders_only(4), &policy("fifo"));
    assert_eq!(sum(&fifo), 5 * SECOND);
    let saath = times(&workload, &senders_only(4), &policy("saath:queues=1,deadline_factor=1000000"));
    assert_eq!(saath, units([("middle", 2.0), ("left", 1.0), ("right", 1.0)]));
}

proptest! {
    #![proptest_config(cases(300))]

    #[test]
    fn saath_without_its_four_ideas_is_dclas(instance in instance(ALL)) {
        let saath = "saath:all_or_none=false,per_flow=false,least_contention=false,deadline_factor=4000000000";
        let finish = |spec: &str| {
            let spec = format!("{spec},queues=5,factor=3,first_threshold=50KB,sync=0ms");
            simulate(&instance.workload, &instance.fabric, &policy(&spec), &Options::default(), None).unwrap().flow_finish
        };
        let (saath, dclas) = (finish(saath), finish("dclas:weighted=false"));
        for (flow, (saath, dclas)) in saath.iter().zip(&dclas).enumerate() {
            let apart = saath.0.abs_diff(dclas.0) as f64;
            prop_assert!(apart <= 1.0 + 1e-9 * dclas.as_f64(), "flow {flow}: {saath:?} and {dclas:?}");
        }
    }
}

/// Eight flows of 3 units, then eight of 1, all from one sender. Each sends one pilot (5 % of eight
/// flows are none, and one is the least); then the shorter is known.
#[test]
fn philae_spends_a_pilot_to_learn_who_is_shorter() {
    let wide = |units: f64| -> Vec<Flow> { (1..9).map(|dst| flow(1, dst, units)).collect() };
    let workload = workload(8, vec![task("long", 0.0, &wide(3.0)), task("short", 0.0, &wide(1.0))]);
    let philae = times(&workload, &senders_only(8), &policy("philae"));
    // 3 and 1 for the pilots, 7 for the rest of the short one, 21 for the rest of the long one.
    assert_eq!(philae, units([("long", 32.0), ("short", 11.0)]));
}

/// One urgent coflow on four links against one on each: a deadline of 1 for 1 unit on each link, of
/// 2 for 1.5 units.
#[test]
fn dcoflow_gives_up_one_deadline_to_keep_four() {
    let mut tasks = vec![task("wide", 0.0, &[1, 2, 3, 4].map(|port| flow(port, port, 1.0)))];
    tasks.extend((1..5).map(|port| task(&format!("narrow {port}"), 0.0, &[flow(port, port, 1.5)])));
    for (index, (task, _)) in tasks.iter_mut().enumerate() {
        task.deadline = Some(Nanos(if index == 0 { SECOND } else { 2 * SECOND }));
    }
    let workload = workload(4, tasks);
    let met = |spec: &str| {
        let outcome = run(&workload, &both_sides(4), &policy(spec));
        let late = |(task, finish): (&Task, &cavalcade_model::Instant)| {
            task.deadline.is_some_and(|deadline| finish.since(task.arrival) <= deadline)
        };
        workload.tasks().iter().zip(&outcome.task_finish).filter(|&pair| late(pair)).count()
    };
    assert_eq!((met("edf"), met("dcoflow")), (1, 4));
}

/// A job that sends 1 unit between two ports, computes, sends, computes, sends: three iterations.
fn training(name: &str, src: u32, dst: u32, computation: f64) -> (Task, Vec<cavalcade_model::Coflow>) {
    let iteration: (&[u32], &[Flow]) = (&[], &[flow(src, dst, 1.0)]);
    let (mut task, coflows) = worked::staged(name, 0.0, &[iteration; 3]);
    let stage = |index: u32, work| Stage {
        starts_after: index.checked_sub(1).map(StageIndex).into_iter().collect(),
        finishes_after: Vec::new(),
        work,
    };
    let duration = Nanos((computation * SECOND as f64) as u64);
    task.stages = (0..5)
        .map(|index| match index % 2 {
            0 => stage(index, Work::Transfer(CoflowId::default())),
            _ => stage(index, Work::Compute(Compute::lasting(duration))),
        })
        .collect();
    (task, coflows)
}

fn two_jobs() -> Workload {
    workload(1, vec![training("light", 1, 1, 0.5), training("heavy", 1, 1, 2.0)])
}

/// Both have 1 unit to send at 4. The heavy job keeps the processors busy for 2 after it, the light
/// one for half a unit.
#[test]
fn crux_lets_the_job_go_first_whose_processors_wait_for_more() {
    let time = |policy: &dyn PolicyFactory| times(&two_jobs(), &senders_only(1), policy);
    assert_eq!(time(&policy("fair")), units([("light", 6.0), ("heavy", 9.0)]));
    assert_eq!(time(&policy("crux")), units([("light", 6.0), ("heavy", 8.0)]));
}

/// The same with no port in common: the jobs meet on the link up from their rack alone.
#[test]
fn crux_sees_that_jobs_on_disjoint_hosts_meet_on_an_uplink() {
    let tree: FabricSpec = "tree:pods=1,racks=2,hosts=2,oversubscription=2".parse().unwrap();
    let tree = tree.build(cavalcade_model::BitsPerSec(1_000_000_000)).unwrap();
    let jobs = workload(4, vec![training("light", 1, 3, 0.5), training("heavy", 2, 4, 2.0)]);
    let time = |spec: &str| times(&jobs, &tree, &policy(spec));
    assert_eq!(time("fair"), units([("light", 6.0), ("heavy", 9.0)]));
    assert_eq!(time("crux"), units([("light", 6.0), ("heavy", 8.0)]));
}
