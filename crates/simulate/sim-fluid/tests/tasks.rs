//! Tasks of several stages: both kinds of edges, CoflowIds, computation on hosts, waves, counters
//! of task-ids, background tasks. Exact times on the smallest workloads that show each, and TAFE's
//! Figure 2 with real computation.

#![allow(clippy::unwrap_used, reason = "a test whose scene cannot be set has failed")]

mod slow;
#[allow(dead_code, reason = "shared with the examples of the seeds, which need more of it")]
mod worked;

use std::num::NonZeroU32;

use cavalcade_harness::CpuOrder;
use cavalcade_metrics::Outcome;
use cavalcade_model::{
    Coflow, CoflowId, Compute, Fabric, FineInstant, Flow, FlowId, Host, Instant, Nanos, PortId, Stage,
    StageIndex, Task, TaskClass, Work, Workload, WorkloadBuilder,
};
use cavalcade_sim_fluid::{Observer, Options, simulate};
use cavalcade_validate::{Checks, Segment, validate};
use worked::{SECOND, Times, flow, policy, run, senders_only, task, times, units, workload};

/// A stage that starts after some and does not finish before others.
fn stage(starts_after: &[u32], finishes_after: &[u32], work: Work) -> Stage {
    let indices = |list: &[u32]| list.iter().map(|&index| StageIndex(index)).collect();
    Stage { starts_after: indices(starts_after), finishes_after: indices(finishes_after), work }
}

fn transfer() -> Work {
    Work::Transfer(CoflowId::default())
}

/// Computation of so many units on the host behind a port that counts from 1.
fn computing(port: u32, units: f64) -> Work {
    let duration = Nanos((units * SECOND as f64) as u64);
    Work::Compute(Compute { duration, host: Some(PortId(port - 1)) })
}

fn of_stages(name: &str, stages: Vec<Stage>, coflows: &[&[Flow]]) -> (Task, Vec<Coflow>) {
    let task = Task {
        name: name.to_owned(),
        job: None,
        arrival: Instant::ZERO,
        deadline: None,
        class: TaskClass::Online,
        weight: 1,
        stages,
    };
    (task, coflows.iter().map(|flows| Coflow { flows: flows.to_vec() }).collect())
}

#[derive(Default)]
struct Schedule(Vec<Segment>);

impl Observer for Schedule {
    fn segment(&mut self, flow: FlowId, from: FineInstant, to: FineInstant, bytes_per_nano: f64) {
        self.0.push(Segment { flow, from, to, bytes_per_nano });
    }
}

/// A run with hosts, which the slow engine does not have; the validator looks at the schedule.
fn computed(workload: &Workload, fabric: &Fabric, spec: &str, cpu_order: CpuOrder) -> Outcome {
    let mut schedule = Schedule::default();
    let options = Options { cpu_order, ..Options::default() };
    let outcome = simulate(workload, fabric, &policy(spec), &options, Some(&mut schedule)).unwrap();
    validate(workload, fabric, schedule.0, &outcome, Checks { work_conservation: true }).unwrap();
    outcome
}

fn task_times(workload: &Workload, outcome: &Outcome) -> Times {
    let tasks = workload.tasks().iter().zip(&outcome.task_finish);
    tasks.map(|(task, finish)| (task.name.clone(), finish.since(task.arrival).0)).collect()
}

/// TAFE Figure 2: two tasks of two flows each; every flow needs a unit of the one processor, then a
/// unit of the one link. The machine's slots and speed are given, so that two slots of half the
/// speed can stand for the same processor.
fn tafe_figure_2(host: Host) -> Workload {
    let mut builder = WorkloadBuilder::new(2);
    let units = f64::from(host.speed_percent * host.slots) / 100.0;
    for name in ["1", "2"] {
        let map = || stage(&[], &[], computing(1, units / f64::from(host.slots)));
        let stages = vec![map(), map(), stage(&[0], &[], transfer()), stage(&[1], &[], transfer())];
        let reduce = [flow(2, 2, 1.0)];
        let (task, coflows) = of_stages(name, stages, &[&reduce, &reduce]);
        builder.push(task, coflows);
    }
    builder.hosts(vec![host; 2]);
    builder.build().unwrap()
}

const ONE: Host = Host { slots: 1, speed_percent: 100 };

#[test]
fn tafe_figure_2_with_computation_on_a_host() {
    let time = |spec: &str, order: CpuOrder| {
        let workload = tafe_figure_2(ONE);
        task_times(&workload, &computed(&workload, &senders_only(2), spec, order))
    };
    assert_eq!(time("fair", CpuOrder::Fair), units([("1", 8.0), ("2", 8.0)]));
    assert_eq!(time("fifo_lm:heavy_threshold=1TB", CpuOrder::Task), units([("1", 4.0), ("2", 6.0)]));
    assert_eq!(time("tafe:thresholds=1TB", CpuOrder::Stage), units([("1", 3.0), ("2", 5.0)]));
}

#[test]
fn a_host_of_half_the_speed_computes_twice_as_long() {
    let mut builder = WorkloadBuilder::new(2);
    for (name, port) in [("fast", 1), ("slow", 2)] {
        let stages = vec![stage(&[], &[], computing(port, 1.0)), stage(&[0], &[], transfer())];
        let (task, coflows) = of_stages(name, stages, &[&[flow(port, port, 1.0)]]);
        builder.push(task, coflows);
    }
    builder.hosts(vec![ONE, Host { slots: 1, speed_percent: 50 }]);
    let workload = builder.build().unwrap();
    let outcome = computed(&workload, &senders_only(2), "fair", CpuOrder::Stage);
    assert_eq!(task_times(&workload, &outcome), units([("fast", 2.0), ("slow", 3.0)]));
}

#[test]
fn a_task_is_done_with_its_last_stage_also_where_that_computes() {
    let mut builder = WorkloadBuilder::new(1);
    for name in ["a", "b"] {
        let stages = vec![stage(&[], &[], transfer()), stage(&[0], &[], computing(1, 2.0))];
        let (task, coflows) = of_stages(name, stages, &[&[flow(1, 1, 1.0)]]);
        builder.push(task, coflows);
    }
    builder.hosts(vec![ONE]);
    let workload = builder.build().unwrap();
    let outcome = computed(&workload, &senders_only(1), "fifo", CpuOrder::Stage);
    // The link is free at 2, the host has computed for a from 1 to 3 and for b from 3 to 5.
    assert_eq!(task_times(&workload, &outcome), units([("a", 3.0), ("b", 5.0)]));
}

/// The seconds at which the coflows of a workload of one task end.
fn ends(workload: &Workload, spec: &str) -> Vec<u64> {
    let outcome = run(workload, &senders_only(workload.ports()), &policy(spec));
    outcome.coflow_finish.iter().map(|finish| finish.0 / SECOND).collect()
}

const DCLAS: &str = "dclas:sync=0ms,weighted=false,first_threshold=1TB";

/// Starts-After: C waits for A. Its internal number is 1, that of B, which depends on none, 0; so B
/// is first although C is the earlier stage.
#[test]
fn coflows_of_a_task_go_by_how_far_they_are_from_its_beginning() {
    let stages = vec![stage(&[], &[], transfer()), stage(&[0], &[], transfer()), stage(&[], &[], transfer())];
    let coflows: [&[Flow]; 3] = [&[flow(2, 2, 1.0)], &[flow(1, 1, 1.0)], &[flow(1, 1, 2.0)]];
    let workload = workload(2, vec![of_stages("t", stages, &coflows)]);
    let internal: Vec<u32> = workload.coflows().map(|coflow| workload.place(coflow.id).internal).collect();
    assert_eq!(internal, [0, 1, 0]);
    assert_eq!(ends(&workload, DCLAS), [1, 3, 2]);
    assert_eq!(ends(&workload, "fifo"), [1, 2, 3]);
}

/// Finishes-Before: F may run beside E but not end sooner. CoflowIds put E first, so that none
/// waits for what goes on.
#[test]
fn a_pipelined_coflow_gives_way_to_the_one_that_feeds_it() {
    let stages = vec![stage(&[], &[], transfer()), stage(&[], &[0], transfer())];
    let coflows: [&[Flow]; 2] = [&[flow(1, 1, 2.0)], &[flow(1, 1, 1.0)]];
    let workload = workload(1, vec![of_stages("t", stages, &coflows)]);
    assert_eq!(ends(&workload, DCLAS), [2, 3]);
    assert_eq!(ends(&workload, "fair"), [3, 3], "the bytes of F are there at 2, E ends at 3");
}

/// Aalo §5.1: with a child of k.0 and k.2 numbered k.3, also where computation lies between.
#[test]
fn internal_numbers_are_one_more_than_the_largest_parent() {
    let compute = || Work::Compute(Compute::lasting(Nanos(5)));
    let stages = vec![
        stage(&[], &[], transfer()),
        stage(&[0], &[], transfer()),
        stage(&[1], &[], compute()),
        stage(&[2], &[], transfer()),
        stage(&[0, 3], &[], transfer()),
        stage(&[], &[4], transfer()),
    ];
    let one: &[Flow] = &[flow(1, 1, 1.0)];
    let workload = workload(1, vec![task("before", 0.0, one), of_stages("t", stages, &[one; 5])]);
    let internal: Vec<u32> = workload.coflows().map(|coflow| workload.place(coflow.id).internal).collect();
    assert_eq!(internal, [0, 0, 1, 2, 3, 4]);
}

/// Aalo §3.2, §5.2: a failed flow is started again as a later wave, a slow one has a second copy;
/// what they send in addition counts to the coflow's size.
#[test]
fn bytes_of_restarted_and_speculative_flows_take_a_coflow_down_sooner() {
    let late = |flow: Flow, units: f64| Flow { wave: Nanos((units * SECOND as f64) as u64), ..flow };
    let dclas = "dclas:sync=0ms,weighted=false,first_threshold=250MB";
    let ends = |extra: &[Flow]| {
        let flows = [&[flow(1, 1, 3.0)], extra].concat();
        let tasks = vec![task("with failures", 0.0, &flows), task("other", 1.5, &[flow(1, 2, 1.0)])];
        times(&workload(3, tasks), &senders_only(3), &policy(dclas))["other"]
    };
    // A threshold of 2 units: alone the first coflow gets there at 2, when the other has waited for
    // half a unit.
    assert_eq!(ends(&[]), 3 * SECOND / 2);
    // The second copy sends beside it from 0.5 on, so that the two have sent 2 units by 1.25,
    // before the other comes.
    assert_eq!(ends(&[late(flow(2, 1, 1.0), 0.5)]), SECOND);
}

fn two_clients() -> Workload {
    let to = |name: &str, arrival: f64, client: u32| task(name, arrival, &[flow(1, client, 1.0)]);
    workload(2, vec![to("a", 0.0, 1), to("b", 0.1, 1), to("c", 0.2, 1), to("d", 0.3, 2)])
}

/// Baraat §4.1: counter k gives out k, k + n, k + 2n. The second client's first task is older by
/// number than the first client's second.
#[test]
fn counters_that_do_not_talk_approximate_the_order_of_arrival() {
    let one = two_clients();
    let two = two_clients().with_counters(NonZeroU32::new(2).unwrap()).unwrap();
    let numbers = |workload: &Workload| -> Vec<u32> {
        (0..4).map(|index| workload.number(cavalcade_model::TaskId(index))).collect()
    };
    assert_eq!(numbers(&one), [0, 1, 2, 3]);
    assert_eq!(numbers(&two), [0, 2, 4, 1]);
    for spec in ["fifo", "fifo_lm:heavy_threshold=1TB", "tafe:thresholds=1TB", DCLAS] {
        let finish = |workload: &Workload| run(workload, &senders_only(2), &policy(spec)).task_finish;
        assert_eq!(finish(&one), [1, 2, 3, 4].map(|second| Instant(second * SECOND)), "{spec}");
        assert_eq!(finish(&two), [1, 3, 4, 2].map(|second| Instant(second * SECOND)), "{spec}");
    }
}

/// Baraat §4.1: background tasks have ids behind those of all online ones.
#[test]
fn background_tasks_give_way_whenever_they_came() {
    let mut tasks =
        vec![task("background", 0.0, &[flow(1, 1, 2.0)]), task("online", 1.0, &[flow(1, 2, 1.0)])];
    tasks[0].0.class = TaskClass::Background;
    let workload = workload(2, tasks);
    for spec in ["fifo", "fifo_lm:heavy_threshold=1TB"] {
        let times = times(&workload, &senders_only(2), &policy(spec));
        assert_eq!(times, units([("background", 3.0), ("online", 1.0)]), "{spec}");
    }
}
