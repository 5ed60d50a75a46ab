//! What the control plane brings about, beside what the simulator says of the policy alone.

use cavalcade_metrics::Outcome;
use cavalcade_model::{
    BitsPerSec, Bytes, Fabric, FabricSpec, Flow, Instant, Nanos, PortId, SplitMix64, Workload,
    WorkloadBuilder,
};
use cavalcade_policy::parse;
use cavalcade_sim_control::{Coordination, Factory, Traffic};
use cavalcade_sim_fluid::{Options, simulate};

/// Forty coflows on eight ports, of 1 to 16 flows: sizes spread over four powers of ten, the
/// smallest `least` bytes.
fn workload(least: u64) -> Workload {
    workload_of(least, 7)
}

fn workload_of(least: u64, seed: u64) -> Workload {
    let mut builder = WorkloadBuilder::new(8);
    let mut dice = SplitMix64::new(seed);
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

const RATE: BitsPerSec = BitsPerSec(1_000_000_000);

fn fabric(workload: &Workload) -> Fabric {
    Fabric::big_switch(workload.ports(), RATE).expect("it has ports")
}

/// Two racks of four hosts; links between racks carry a host's rate times four, divided by
/// `oversubscription`.
fn racks(oversubscription: u32) -> Fabric {
    let text = format!("tree:pods=1,racks=2,hosts=4,oversubscription={oversubscription}");
    let spec: FabricSpec = text.parse().expect("a fabric");
    spec.build(RATE).expect("a fabric that can be")
}

fn mean_ms(outcome: &Outcome) -> f64 {
    let ends = outcome.coflow_finish.iter().zip(&outcome.coflow_arrival);
    let total: u64 = ends.map(|(end, begin)| end.since(*begin).0).sum();
    total as f64 / 1e6 / outcome.coflow_finish.len() as f64
}

fn alone(workload: &Workload, spec: &str) -> f64 {
    alone_on(&fabric(workload), workload, spec)
}

fn alone_on(fabric: &Fabric, workload: &Workload, spec: &str) -> f64 {
    let policy = parse(spec).expect("a policy");
    mean_ms(&simulate(workload, fabric, &policy, &Options::default(), None).expect("a run ends"))
}

/// The mean under the control plane in milliseconds, and what was said for it.
fn carried_out(workload: &Workload, spec: &str, conditions: (u64, Options)) -> (f64, Traffic) {
    carried_out_on(&fabric(workload), workload, spec, conditions)
}

fn carried_out_on(
    fabric: &Fabric,
    workload: &Workload,
    spec: &str,
    (period, options): (u64, Options),
) -> (f64, Traffic) {
    let policy = parse(spec).expect("a policy");
    let factory = Box::new(move || Box::new(policy.clone()) as Factory);
    let coordination = Coordination { period: Nanos::from_millis(period), ..Coordination::default() };
    let (outcome, traffic) =
        cavalcade_sim_control::simulate(workload, fabric, factory, &coordination, &options, None)
            .expect("a run ends");
    (mean_ms(&outcome), traffic)
}

/// Returns the distance of the mean under the control plane from that of the policy alone: 0.1 is
/// 10 % above.
fn off_by(least: u64, spec: &str, conditions: (u64, Options)) -> f64 {
    off_by_on(&workload(least), spec, conditions)
}

fn off_by_on(workload: &Workload, spec: &str, conditions: (u64, Options)) -> f64 {
    carried_out(workload, spec, conditions).0 / alone(workload, spec) - 1.0
}

fn every(milliseconds: u64) -> (u64, Options) {
    (milliseconds, Options { seed: 1, ..Options::default() })
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
fn in_racks_that_never_block_a_coordinator_that_knows_hosts_only_brings_about_the_same() {
    let workload = workload(1_000_000);
    for spec in COORDINATED {
        let off = carried_out_on(&racks(1), &workload, spec, every(10)).0
            / alone_on(&racks(1), &workload, spec)
            - 1.0;
        assert!(off.abs() < 0.08, "{spec}: {:+.1} %", 100.0 * off);
    }
}

#[test]
fn a_coordinator_that_does_not_know_of_narrow_links_between_racks_loses_by_that() {
    let workload = workload(1_000_000);
    for spec in COORDINATED.into_iter().filter(|&spec| spec != "fair") {
        let off = carried_out_on(&racks(4), &workload, spec, every(10)).0
            / alone_on(&racks(4), &workload, spec)
            - 1.0;
        assert!((0.1..0.4).contains(&off), "{spec}: {:+.1} %", 100.0 * off);
    }
}

#[test]
fn what_is_lost_to_the_period_goes_with_the_period() {
    // Flows of half a megabyte last 4 ms: each end leaves links idle until the next round.
    for spec in ["sebf", "sincronia", "dclas:sync=0ms,first_threshold=1MB"] {
        // Over several workloads: on a single one an order that is made later may be the better one
        // by chance.
        let workloads = [7, 8, 9, 10].map(|seed| workload_of(100_000, seed));
        let [short, middle, long] = [1, 10, 100].map(|period| {
            let off = workloads.iter().map(|workload| off_by_on(workload, spec, every(period)));
            off.sum::<f64>() / workloads.len() as f64
        });
        assert!(short < middle && middle < long, "{spec}: {short} {middle} {long}");
        assert!(0.0 < short && short < 0.08 && middle < 0.32, "{spec}: {short} {middle} {long}");
    }
}

#[test]
fn hosts_that_decide_alone_do_not_hold_their_order_at_receivers() {
    // The simulator lets packets carry priorities to the receiver's link; gates hold at the sender,
    // and over TCP what comes together there shares.
    let off = off_by(1_000_000, "dcas-quiet", every(10));
    assert!((0.3..1.0).contains(&off), "{:+.1} %", 100.0 * off);
    let workload = workload(1_000_000);
    let (_, traffic) = carried_out(&workload, "dcas-quiet", every(10));
    assert!(traffic.datagrams > 0 && traffic.reports == 0);
}

#[test]
fn negotiation_gets_along_with_delay_and_loss() {
    let workload = workload(100_000);
    let rough = Options { control_delay: Nanos::from_millis(5), control_loss: 0.3, ..every(10).1 };
    let (rough, _) = carried_out(&workload, "dcas-quiet", (10, rough));
    let (smooth, _) = carried_out(&workload, "dcas-quiet", every(10));
    assert!((rough / smooth - 1.0).abs() < 0.25, "{rough} ms beside {smooth} ms");
}

#[test]
fn a_seed_gives_the_same_run_always() {
    let workload = workload(100_000);
    let run = |seed| carried_out(&workload, "sebf", (10, Options { seed, ..Options::default() }));
    assert_eq!(run(1), run(1));
    assert_ne!(run(1).1, run(2).1, "phases differ");
}

#[test]
fn tasks_of_several_stages_come_to_their_end() {
    let generator = "batch:jobs=6,ports=8,mappers=4,reducers=2".parse().expect("a generator");
    let workload = cavalcade_trace::generate(&generator, 1).expect("a workload");
    // Hosts that decide alone do not hold their order at receivers (see above), which costs at
    // every stage.
    for (spec, most) in [("dclas:sync=0ms", 1.25), ("sebf", 1.3), ("dcas-quiet", 2.0)] {
        let ratio = carried_out(&workload, spec, every(10)).0 / alone(&workload, spec);
        assert!((0.98..most).contains(&ratio), "{spec}: {ratio}");
    }
}
