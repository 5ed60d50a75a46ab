//! What the control plane brings about, beside what the simulator says of the policy alone.

use cavalcade_control::Factory;
use cavalcade_model::{
    BitsPerSec, Bytes, Fabric, Flow, Instant, Nanos, PolicyFactory, PortId, SplitMix64, Workload,
    WorkloadBuilder,
};
use cavalcade_policy::parse;
use cavalcade_sim_control::{Conditions, ControlPlane, Traffic};
use cavalcade_sim_fluid::{Options, simulate};

/// Forty coflows on eight ports, of 1 to 16 flows: sizes spread over four powers of ten, the smallest `least` bytes.
fn workload(least: u64) -> Workload {
    let mut builder = WorkloadBuilder::new(8);
    let mut dice = SplitMix64::new(7);
    let mut arrival = 0;
    for coflow in 0..40 {
        arrival += dice.below(1_200 * least);
        let scale = least * [1, 10, 50, 400][dice.below(4) as usize];
        let flows = (0..=dice.below(16)).map(|_| Flow {
            src: PortId(dice.below(8) as u32),
            dst: PortId(dice.below(8) as u32),
            size: Bytes(scale / 2 + dice.below(scale)),
            wave: Nanos::ZERO,
        });
        let flows = flows.collect();
        builder.coflow(format!("{coflow}"), Instant(arrival), flows);
    }
    builder.build().expect("a workload that can be")
}

fn mean_ms(workload: &Workload, policy: &dyn PolicyFactory) -> f64 {
    let fabric = Fabric::big_switch(workload.ports(), BitsPerSec(1_000_000_000)).expect("it has ports");
    let outcome = simulate(workload, &fabric, policy, &Options::default(), None);
    let ends = outcome.coflow_finish.iter().zip(&outcome.coflow_arrival);
    ends.map(|(end, begin)| end.since(*begin).0).sum::<u64>() as f64 / 1e6 / workload.coflow_count() as f64
}

fn alone(workload: &Workload, spec: &str) -> f64 {
    mean_ms(workload, &parse(spec).expect("a policy"))
}

/// The mean under the control plane in milliseconds, and what was said for it.
fn carried_out(workload: &Workload, spec: &str, conditions: Conditions) -> (f64, Traffic) {
    let policy = parse(spec).expect("a policy");
    let plane = ControlPlane::new(move || Box::new(policy.clone()) as Factory, conditions);
    (mean_ms(workload, &plane), plane.traffic())
}

/// How far the mean under the control plane is from that of the policy alone: 0.1 is 10 % above.
fn off_by(least: u64, spec: &str, conditions: Conditions) -> f64 {
    let workload = workload(least);
    carried_out(&workload, spec, conditions).0 / alone(&workload, spec) - 1.0
}

fn every(milliseconds: u64) -> Conditions {
    Conditions { period: Nanos::from_millis(milliseconds), ..Conditions::default() }
}

const COORDINATED: [&str; 6] = [
    "fair",
    "fifo",
    "sebf",
    "sincronia",
    "dclas:sync=0ms,first_threshold=1MB",
    "dclas:sync=0ms,first_threshold=1MB,weighted=false",
];

#[test]
fn a_coordinator_brings_about_what_the_simulator_predicts_where_flows_are_long_beside_its_period() {
    for spec in COORDINATED {
        let off = off_by(1_000_000, spec, every(10));
        assert!(off.abs() < 0.08, "{spec}: {:+.1} %", 100.0 * off);
    }
}

#[test]
fn what_is_lost_to_the_period_goes_with_the_period() {
    // Flows of half a megabyte last 4 ms: each end leaves links to nobody until the next round.
    for spec in ["sebf", "sincronia", "dclas:sync=0ms,first_threshold=1MB"] {
        let [short, middle, long] = [1, 10, 100].map(|period| off_by(100_000, spec, every(period)));
        assert!(short < middle && middle < long, "{spec}: {short} {middle} {long}");
        assert!(0.0 < short && short < 0.08 && middle < 0.27, "{spec}: {short} {middle} {long}");
    }
}

#[test]
fn hosts_that_decide_alone_do_not_hold_their_order_at_receivers() {
    // The simulator lets packets carry priorities to the receiver's link; gates hold at the sender, and over TCP what comes
    // together there shares.
    let off = off_by(1_000_000, "dcas-quiet", every(10));
    assert!(0.3 < off, "{:+.1} %", 100.0 * off);
    let workload = workload(1_000_000);
    let (_, traffic) = carried_out(&workload, "dcas-quiet", every(10));
    assert!(traffic.datagrams > 0 && traffic.reports == 0);
}

#[test]
fn negotiation_gets_along_with_delay_and_loss() {
    let workload = workload(100_000);
    let conditions = Conditions { delay: Nanos::from_millis(5), loss: 0.3, ..Conditions::default() };
    let (rough, _) = carried_out(&workload, "dcas-quiet", conditions);
    let (smooth, _) = carried_out(&workload, "dcas-quiet", Conditions::default());
    assert!((rough / smooth - 1.0).abs() < 0.25, "{rough} ms beside {smooth} ms");
}

#[test]
fn a_seed_gives_the_same_run_always() {
    let workload = workload(100_000);
    let run = |seed| carried_out(&workload, "sebf", Conditions { seed, ..Conditions::default() });
    assert_eq!(run(1), run(1));
    assert_ne!(run(1).1, run(2).1, "phases differ");
}

#[test]
fn tasks_of_several_stages_come_to_their_end() {
    let generator = "batch:jobs=6,ports=8,mappers=4,reducers=2".parse().expect("a generator");
    let workload = cavalcade_trace::generate(&generator, 1).expect("a workload");
    // Hosts that decide alone do not hold their order at receivers (see above), which costs at every stage.
    for (spec, most) in [("dclas:sync=0ms", 1.25), ("sebf", 1.3), ("dcas-quiet", 2.0)] {
        let ratio = carried_out(&workload, spec, every(10)).0 / alone(&workload, spec);
        assert!((0.98..most).contains(&ratio), "{spec}: {ratio}");
    }
}
