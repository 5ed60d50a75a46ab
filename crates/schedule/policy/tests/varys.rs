//! Varys against its authors' simulator, and against a program that was written from a description
//! of it.
//!
//! Figures of the simulator are those of CoflowSim (commit b61f209) on the published hour, run
//! unchanged: quanta of 8 of its milliseconds. It lets coflows in at multiples of 10,240 of them,
//! and its ports carry 128 MiB in 1,024, which is 1,048,576 kbit/s. Figures of the independent
//! program are exact to the digits given.

#![allow(clippy::unwrap_used, reason = "a test whose scene cannot be set has failed")]

use cavalcade_metrics::{Bin, BinThresholds, Outcome};
use cavalcade_model::{BitsPerSec, Coflow, Fabric, Instant, Work, Workload, WorkloadBuilder};
use cavalcade_sim_fluid::{Options, simulate};
use cavalcade_testing::public_data;
use cavalcade_trace::{ReadOptions, read};

const GIGABIT: BitsPerSec = BitsPerSec(1_000_000_000);

fn workload(bytes: &[u8]) -> Workload {
    read(bytes, "trace", &ReadOptions::default()).unwrap().0
}

fn run(workload: &Workload, spec: &str, rate: BitsPerSec) -> Outcome {
    let fabric = Fabric::big_switch(workload.ports(), rate).unwrap();
    let policy = cavalcade_policy::parse(spec).unwrap();
    simulate(workload, &fabric, &policy, &Options::default(), None).expect("the run ends")
}

/// The mean and the longest completion time in milliseconds.
fn mean_and_longest(workload: &Workload, outcome: &Outcome) -> [f64; 2] {
    let times = || workload.coflows().map(|coflow| outcome.cct(coflow.id).as_f64() / 1e6);
    [times().sum::<f64>() / workload.coflow_count() as f64, times().fold(0.0, f64::max)]
}

/// The mean completion time of each bin in milliseconds.
fn by_bin(workload: &Workload, outcome: &Outcome) -> [f64; 4] {
    let mut sums = [(0.0, 0.0); 4];
    for coflow in workload.coflows() {
        let (sum, count) = &mut sums[BinThresholds::default().bin_of(&coflow).index()];
        (*sum, *count) = (*sum + outcome.cct(coflow.id).as_f64() / 1e6, *count + 1.0);
    }
    sums.map(|(sum, count)| sum / count)
}

/// The workload with tasks of one coflow let in as the simulator does: at the multiple of its epoch
/// before they arrive.
fn in_epochs(workload: &Workload) -> Workload {
    let epoch = 10_240_000_000;
    let mut builder = WorkloadBuilder::new(workload.ports());
    for task in workload.tasks() {
        let arrival = Instant(task.arrival.0.div_ceil(epoch).saturating_sub(1) * epoch);
        let Work::Transfer(coflow) = &task.stages[0].work else { panic!("a task is one coflow") };
        let flows = workload.flows_of(*coflow).to_vec();
        builder.push(cavalcade_model::Task { arrival, ..task.clone() }, vec![Coflow { flows }]);
    }
    builder.build().unwrap()
}

fn assert_near(what: &str, ours: f64, theirs: f64, tolerance: f64) {
    assert!((ours / theirs - 1.0).abs() <= tolerance, "{what}: {ours} for {theirs}");
}

/// The simulator has a mean of 28,528 ms. Of what is missing here 3 points are its rounding: where
/// a full link has more than a thousandth of a bit a second left, a coflow that needs the link has
/// neither a rate nor a part of what is shared (without that 27,712 ms, with quanta of 128). It
/// hits long, wide coflows alone; in the other bins we agree within a quantum.
#[test]
fn on_the_published_hour_varys_is_its_authors_simulator() {
    let Some(bytes) = public_data("coflow/FB2010-1Hr-150-0.txt") else { return };
    let workload = in_epochs(&workload(&bytes));
    let outcome = run(&workload, "varys:remaining=false", BitsPerSec(1_048_576_000));
    let bins = by_bin(&workload, &outcome);
    let theirs = [82.6, 1_916.0, 1_278.0, 216_656.0];
    for ((bin, tolerance), (ours, theirs)) in
        Bin::ALL.into_iter().zip([0.01, 0.002, 0.005, 0.04]).zip(bins.into_iter().zip(theirs))
    {
        assert_near(bin.code(), ours, theirs, tolerance);
    }
    let [mean, longest] = mean_and_longest(&workload, &outcome);
    assert_near("mean", mean, 28_528.5, 0.04);
    assert_near("mean without rounding", mean, 27_711.8, 0.01);
    assert_near("longest", longest, 2_371_152.0, 0.03);
}

/// With quanta of 128 ms the simulator has a mean of 85,199 ms. It has the same rounding.
#[test]
fn on_the_published_hour_orchestra_is_near_the_same_simulator() {
    let Some(bytes) = public_data("coflow/FB2010-1Hr-150-0.txt") else { return };
    let workload = in_epochs(&workload(&bytes));
    let [mean, _] = mean_and_longest(&workload, &run(&workload, "orchestra", BitsPerSec(1_048_576_000)));
    assert_near("mean", mean, 85_199.0, 0.05);
}

#[test]
fn on_the_published_hour_varys_is_an_independent_program() {
    let Some(bytes) = public_data("coflow/FB2010-1Hr-150-0.txt") else { return };
    let workload = workload(&bytes);
    let [mean, longest] = mean_and_longest(&workload, &run(&workload, "varys", GIGABIT));
    assert_near("mean", mean, 29_055.696_666, 1e-6);
    assert_near("longest", longest, 2_466_390.129_9, 1e-6);
}

#[test]
fn on_three_small_workloads_varys_is_an_independent_program() {
    let texts = [
        // A few ports take most of the traffic.
        (include_str!("varys/popular_ports.txt"), [249.258_439, 1_277.870_729], [258.051_439, 1_277.870_729]),
        // Four coflows at each instant, into one port or out of one, of equal sizes.
        (include_str!("varys/bursts.txt"), [100.444_315, 251.758_046], [103.600_399, 285.358_768]),
        (include_str!("varys/two_sizes.txt"), [912.835_172, 3_011.729_344], [967.205_769, 3_329.931_778]),
    ];
    for (text, remaining, on_arrival) in texts {
        let workload = workload(text.as_bytes());
        for (spec, expected) in [("varys", remaining), ("varys:remaining=false", on_arrival)] {
            let ours = mean_and_longest(&workload, &run(&workload, spec, GIGABIT));
            for (ours, expected) in ours.into_iter().zip(expected) {
                assert_near(spec, ours, expected, 1e-6);
            }
        }
    }
}
