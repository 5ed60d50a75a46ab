//! The workloads on which other simulators have been measured: their results, and that ours are always the same.

use cavalcade_sim_packet::{Options, Run, scenario, simulate};
use cavalcade_transport::dctcp::Dctcp;

fn runs(part: u64) -> Vec<(&'static str, Run)> {
    let options = Options::default();
    let run = |scenario: scenario::Scenario| {
        let run = simulate(&scenario.workload, &scenario.network, &Dctcp::default(), None, &options, None);
        (scenario.name, run.expect("a scenario can be run"))
    };
    scenario::all(part).into_iter().map(run).collect()
}

/// 34,247 packets of 1,500 bytes and as many acknowledgements of 40 on each link take 42.19 ms; csg-htsim has 42.2 ms, ns-3
/// with its larger headers 44.1 ms.
#[test]
fn a_permutation_takes_as_long_as_in_other_simulators() {
    let scenario = scenario::all(1).swap_remove(0);
    let run =
        simulate(&scenario.workload, &scenario.network, &Dctcp::default(), None, &Options::default(), None)
            .expect("a scenario can be run");
    let outcome = &run.outcome;
    let fct = outcome.coflow_finish.iter().zip(&outcome.coflow_arrival);
    let total: f64 = fct.map(|(finish, arrival)| finish.since(*arrival).as_secs_f64() * 1e3).sum();
    let mean = total / outcome.coflow_finish.len() as f64;
    assert!((42.1..44.2).contains(&mean), "{mean} ms");
}

#[test]
fn scenarios_are_the_same_every_time() {
    assert_eq!(runs(50), runs(50));
}
