//! No schedule beats a bound: every registered policy on random workloads, every order of greedy
//! filling on small ones, exhaustive search on the smallest; and the certificates of all of that
//! prove what they claim.

mod instances;

use cavalcade_bound::{Bounds, Conditions, Method, Objective, deadlines_met, lower_bounds, parallel_bound};
use cavalcade_model::{BitsPerSec, Fabric, FabricError, Nanos, Workload, WorkloadBuilder};
use cavalcade_sim_fluid::{Options, simulate};
use cavalcade_validate::certificate::{Certificate, CertificateError, Verified, check};
use proptest::prelude::*;

use instances::{Case, case, slots};

/// Enough for small workloads to be searched to the end, and a stop that is the same everywhere.
fn bounds(workload: &Workload, fabric: &Fabric, conditions: Conditions) -> Bounds {
    let mut found = lower_bounds(workload, fabric, conditions, &mut |progress| progress.programs < 2_000)
        .expect("the fabric has the ports");
    found.bounds.extend(parallel_bound(workload, fabric, conditions).expect("the fabric has the ports"));
    found
}

/// Runs the checker on `certificate` written as a file.
fn checked(
    workload: &Workload,
    fabric: &Fabric,
    certificate: &cavalcade_bound::Certificate,
) -> Result<Verified, CertificateError> {
    let json = serde_json::to_vec(certificate).expect("a certificate is plain data");
    check(workload, fabric, &Certificate::read(&json)?)
}

fn assert_certified(workload: &Workload, fabric: &Fabric, bounds: &Bounds) {
    for bound in &bounds.bounds {
        let verified = checked(workload, fabric, &bound.certificate);
        let weight = bound.weight;
        assert_eq!(verified, Ok(Verified::Sum { nanos: bound.sum, weight }), "{}", bound.method.name());
    }
}

/// The sum of weight times completion time of one run.
fn measured(workload: &Workload, fabric: &Fabric, spec: &str, conditions: Conditions) -> (u128, u64) {
    let factory = cavalcade_policy::parse(spec).expect("registered names are specifications");
    let outcome = simulate(workload, fabric, &factory, &Options::default(), None).expect("the run ends");
    let weight = |weight: u32| if conditions.weighted { u128::from(weight) } else { 1 };
    let sum = match conditions.objective {
        Objective::Coflows => workload
            .coflows()
            .map(|coflow| weight(coflow.task.weight) * u128::from(outcome.cct(coflow.id).get()))
            .sum(),
        Objective::Tasks => {
            let ends = workload.tasks().iter().zip(&outcome.task_finish);
            ends.map(|(task, end)| weight(task.weight) * u128::from(end.since(task.arrival).get())).sum()
        }
    };
    let in_time = workload
        .tasks()
        .iter()
        .zip(&outcome.task_finish)
        .filter(|(task, end)| task.deadline.is_some_and(|deadline| end.since(task.arrival) <= deadline));
    (sum, in_time.map(|(task, _)| weight(task.weight) as u64).sum())
}

fn conditions() -> impl Strategy<Value = Conditions> {
    (any::<bool>(), any::<bool>(), any::<bool>()).prop_map(|(tasks, offline, weighted)| Conditions {
        objective: if tasks { Objective::Tasks } else { Objective::Coflows },
        offline,
        weighted,
    })
}

/// Allowance for floating point in drivers: less than a nanosecond for each job.
fn forgiven(workload: &Workload) -> u128 {
    workload.tasks().iter().map(|task| u128::from(task.weight) * task.stages.len() as u128).sum()
}

/// The same cases every time, as in the simulator's own tests: what fails here fails on every
/// machine.
fn config() -> ProptestConfig {
    let rng_seed = proptest::test_runner::RngSeed::Fixed(1);
    ProptestConfig { cases: 1_500, rng_seed, failure_persistence: None, ..ProptestConfig::default() }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn every_policy_is_at_or_above_every_bound(case in case(), conditions in conditions()) {
        let Case { workload, fabric } = case;
        let bounds = bounds(&workload, &fabric, conditions);
        assert_certified(&workload, &fabric, &bounds);
        let deadlines = deadlines_met(&workload, &fabric, conditions, &mut |p| p.programs < 500).expect("the fabric has the ports");
        let verified = checked(&workload, &fabric, &deadlines.certificate);
        prop_assert_eq!(verified, Ok(Verified::Deadlines { at_most: deadlines.at_most, of: deadlines.of }));
        let workload = if conditions.offline { workload.offline() } else { workload };
        for policy in cavalcade_policy::registry() {
            let (sum, in_time) = measured(&workload, &fabric, policy.name, conditions);
            prop_assert!(in_time <= deadlines.at_most, "{}: {in_time} in time", policy.name);
            for bound in &bounds.bounds {
                let name = bound.method.name();
                prop_assert!(sum + forgiven(&workload) >= bound.sum, "{} {sum} {name} {}", policy.name, bound.sum);
            }
        }
    }

    #[test]
    fn methods_that_search_are_at_least_isolation(case in case(), conditions in conditions()) {
        let bounds = bounds(&case.workload, &case.fabric, conditions);
        let isolation = &bounds.bounds[0];
        prop_assert_eq!(isolation.method, Method::Isolation);
        for bound in bounds.bounds.iter().filter(|bound| !matches!(bound.method, Method::PrimalDual | Method::Parallel)) {
            prop_assert!(bound.sum >= isolation.sum, "{}", bound.method.name());
        }
        prop_assert!(bounds.best().sum >= isolation.sum);
    }

    #[test]
    fn the_best_slotted_schedule_is_at_or_above_the_bound(
        coflows in slots::coflows(), offline in any::<bool>(), weighted in any::<bool>(),
    ) {
        let conditions = Conditions { objective: Objective::Coflows, offline, weighted };
        let (workload, fabric) = slots::workload(&coflows);
        let best = slots::least_sum(&coflows, offline, weighted);
        let bounds = bounds(&workload, &fabric, conditions);
        for bound in &bounds.bounds {
            prop_assert!(bound.sum <= best, "{}: {} above {best}", bound.method.name(), bound.sum);
        }
        assert_certified(&workload, &fabric, &bounds);
    }

    #[test]
    fn a_search_that_is_stopped_early_still_proves_what_it_says(case in case(), stop in 0u64..20) {
        let conditions = Conditions::default();
        let bounds = lower_bounds(&case.workload, &case.fabric, conditions, &mut |p| p.programs < stop).expect("the fabric has the ports");
        assert_certified(&case.workload, &case.fabric, &bounds);
    }
}

#[test]
fn an_empty_workload_is_bounded_by_nothing() {
    let workload = WorkloadBuilder::new(2).build().unwrap();
    let fabric = Fabric::big_switch(2, cavalcade_model::BitsPerSec(8)).unwrap();
    let bounds = bounds(&workload, &fabric, Conditions::default());
    assert!(bounds.exhausted);
    assert_eq!(bounds.best().mean(), Nanos::ZERO);
    assert_certified(&workload, &fabric, &bounds);
}

#[test]
fn the_facebook_trace_online_is_bounded_within_one_per_cent_of_the_best_schedule_known() {
    let path = "coflow/FB2010-1Hr-150-0.txt";
    let Some(bytes) = cavalcade_testing::public_data(path) else { return };
    let (workload, _) = cavalcade_trace::read(&bytes, path, &Default::default()).unwrap();
    let fabric = Fabric::big_switch(workload.ports(), cavalcade_model::BitsPerSec(1_048_576_000)).unwrap();
    let conditions = Conditions::default();
    let bounds = lower_bounds(&workload, &fabric, conditions, &mut |p| p.programs < 2_000)
        .expect("the fabric has the ports");
    let means: Vec<(Method, u64)> =
        bounds.bounds.iter().map(|bound| (bound.method, bound.mean().get() / 10_000_000)).collect();
    assert_eq!(means[..2], [(Method::Isolation, 1472), (Method::SingleLink, 1511)]);
    assert!(bounds.best().mean() >= Nanos::from_millis(21_600), "{}", bounds.best().mean());
    assert!(bounds.best().mean() <= Nanos::from_millis(21_830));
    assert_certified(&workload, &fabric, &bounds);
}

#[test]
fn a_fabric_of_too_few_ports_is_an_error() {
    let workload = WorkloadBuilder::new(3).build().unwrap();
    let fabric = Fabric::big_switch(2, BitsPerSec(1_000)).unwrap();
    let (conditions, refused) = (Conditions::default(), FabricError::TooFewPorts { needed: 3, ports: 2 });
    assert_eq!(lower_bounds(&workload, &fabric, conditions, &mut |_| true).unwrap_err(), refused);
    assert_eq!(parallel_bound(&workload, &fabric, conditions).unwrap_err(), refused);
    assert_eq!(deadlines_met(&workload, &fabric, conditions, &mut |_| true).unwrap_err(), refused);
}
