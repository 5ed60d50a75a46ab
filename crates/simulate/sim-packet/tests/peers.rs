//! The workloads on which other simulators have been measured: their results, and that ours are
//! always the same.

use cavalcade_sim_packet::{Network, Options, Run, simulate};
use cavalcade_trace::generate::speed::{OverPackets, over_packets};
use cavalcade_transport::dctcp::Dctcp;

fn run(case: &OverPackets) -> Run {
    let network = Network::new(&case.fabric).expect("its links have rates");
    simulate(&case.workload, &network, &Dctcp::default(), None, &Options::default(), None)
        .expect("it can be run")
}

fn runs(part: u64) -> Vec<(&'static str, Run)> {
    over_packets(part).iter().map(|case| (case.name, run(case))).collect()
}

/// 34,247 packets of 1,500 bytes and as many acknowledgements of 40 on each link take 42.19 ms.
/// csg-htsim has 42.2 ms; ns-3, whose acknowledgements wait behind data at hosts, 44.1 ms
/// (`docs/peers.md`).
#[test]
fn a_permutation_takes_as_long_as_in_other_simulators() {
    let run = run(&over_packets(1)[0]);
    let outcome = &run.outcome;
    let fct = outcome.coflow_finish.iter().zip(&outcome.coflow_arrival);
    let total: f64 = fct.map(|(finish, arrival)| finish.since(*arrival).as_secs_f64() * 1e3).sum();
    let mean = total / outcome.coflow_finish.len() as f64;
    assert!((42.1..42.3).contains(&mean), "{mean} ms");
}

#[test]
fn runs_are_the_same_every_time() {
    assert_eq!(runs(50), runs(50));
}
