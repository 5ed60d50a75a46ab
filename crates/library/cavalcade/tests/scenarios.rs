//! A scenario's parts fit each other, and only scenarios that differ in engine and policy are
//! compared. The examples run.

#![allow(clippy::unwrap_used, reason = "a test whose scene cannot be set has failed")]

use cavalcade::model::BitsPerSec;
use cavalcade::{Choice, Conditions, Engine, Runnable, Scenario, compare, generate};

#[path = "../examples/certified_bound.rs"]
mod certified_bound;
#[path = "../examples/compare.rs"]
mod compare_example;
#[path = "../examples/own_policy.rs"]
mod own_policy;
#[path = "../examples/own_transport.rs"]
mod own_transport;
#[path = "../examples/sweep.rs"]
mod sweep;

fn scenario(seed: u64) -> Scenario {
    Scenario::new(generate("facebook:coflows=5,ports=8", seed).unwrap(), Conditions::default()).unwrap()
}

#[test]
fn another_rate_is_another_scenario_with_all_times_as_much_longer() {
    let fast = scenario(1);
    let offline = fast.with_conditions(Conditions { offline: true, ..Conditions::default() }).unwrap();
    let slow = offline
        .with_conditions(Conditions { rate: BitsPerSec(100_000_000), ..offline.conditions().clone() })
        .unwrap();
    let makespan = |scenario: &Scenario| {
        scenario.run().unwrap().coflow_finish.iter().map(|finish| finish.as_f64()).fold(0.0, f64::max)
    };
    assert!((makespan(&slow) / makespan(&offline) - 10.0).abs() < 1e-6);
    let back = slow.with_conditions(fast.conditions().clone()).unwrap();
    assert_eq!(back.workload(), fast.workload(), "what was given is kept");
    assert_eq!(back.run().unwrap(), fast.run().unwrap());
}

#[test]
fn what_differs_in_more_than_engine_and_policy_is_not_compared() {
    let one = scenario(1);
    let other_rate =
        one.with_conditions(Conditions { rate: BitsPerSec(100_000_000), ..Conditions::default() }).unwrap();
    let other_seed = one.with_conditions(Conditions { seed: 7, ..Conditions::default() }).unwrap();
    for (other, what) in [(scenario(2), "workloads"), (other_rate, "fabrics"), (other_seed, "conditions")] {
        let error = compare(&[one.clone(), other], 0).unwrap_err();
        assert!(error.to_string().contains(&format!("different {what}")), "{error}");
    }
    // Alike, though read twice.
    assert!(compare(&[one.clone(), scenario(1).under("sebf").unwrap()], 0).is_ok());
    assert!(compare(&[one], 1).unwrap_err().to_string().contains("is the baseline"));
}

#[test]
fn baraat_is_in_the_default_set_over_large_traces_on_one_switch_and_not_on_several() {
    let large = generate("batch:jobs=45,ports=210,mappers=100,reducers=10,stages=1", 1).unwrap();
    assert!(large.flows().len() > 40_000, "{}", large.flows().len());
    let left_out = |fabric: Option<&str>| {
        let fabric = fabric.map(|spec| spec.parse().unwrap());
        let conditions = Conditions { fabric, ..Conditions::default() };
        let scenario = Scenario::new(large.clone(), conditions).unwrap();
        let choices = Choice::of_word(Choice::DEFAULT).unwrap();
        let found = Runnable::of(&scenario, &choices, &[Engine::Fluid], 0).unwrap();
        found.costly.into_iter().map(|(name, _)| name).collect::<Vec<_>>()
    };
    assert_eq!(left_out(None), ["dcas"]);
    assert_eq!(left_out(Some("tree:pods=3,racks=7,hosts=10")), ["baraat", "dcas"]);
}

#[test]
fn policies_of_training_jobs_are_in_sets_where_a_task_declares_iterations() {
    use cavalcade::model::{Bytes, Flow, Instant, Iterations, Nanos, PortId, WorkloadBuilder};
    let workload = |declares: bool| {
        let flow = Flow { src: PortId(0), dst: PortId(1), size: Bytes(1_000), wave: Nanos::ZERO };
        let mut builder = WorkloadBuilder::new(2);
        builder.coflow("a", Instant::ZERO, vec![flow]);
        if declares {
            builder.iterations(Iterations { gpus: 2, compute: Nanos(5), of_coflows: vec![0] });
        }
        std::sync::Arc::new(builder.build().unwrap())
    };
    let in_set = |set: &str, declares: bool| {
        let scenario = Scenario::new(workload(declares), Conditions::default()).unwrap();
        let choices = Choice::of_word(set).unwrap();
        let found = Runnable::of(&scenario, &choices, &[Engine::Fluid], 0).unwrap();
        let names = found.scenarios.iter().map(|one| one.policy().unwrap().name().to_owned());
        names.filter(|name| ["cassini", "mltcp"].contains(&&**name)).count()
    };
    for set in [Choice::DEFAULT, Choice::ALL] {
        assert_eq!([in_set(set, false), in_set(set, true)], [0, 2], "{set}");
    }
    assert_eq!(in_set("mltcp", false), 1, "what is named is run");
}

#[test]
fn a_rate_of_nothing_is_refused() {
    let conditions = Conditions { rate: BitsPerSec(0), ..Conditions::default() };
    let error = scenario(1).with_conditions(conditions).unwrap_err();
    assert!(error.to_string().contains("capacity of zero"), "{error}");
}

#[test]
fn the_examples_run() {
    certified_bound::main().unwrap();
    compare_example::main().unwrap();
    own_policy::main().unwrap();
    own_transport::main().unwrap();
    sweep::main().unwrap();
}

#[test]
fn runs_that_do_not_belong_together_are_an_error() {
    use cavalcade::metrics::{AnalysisError, RunResult, analyse, isolation_times};
    let (mine, other) = (scenario(1), scenario(2));
    let run = |scenario: &Scenario| RunResult {
        label: "fair".to_owned(),
        policy: "fair".to_owned(),
        params: Vec::new(),
        about: Default::default(),
        named: false,
        transport: None,
        control: None,
        outcome: scenario.run().unwrap(),
        wall_s: 0.0,
    };
    let of = |runs: &[RunResult], baseline| analyse(mine.workload(), mine.fabric(), runs, baseline).map(drop);
    assert_eq!(of(&[], 0), Err(AnalysisError::NoSuchRun { baseline: 0, runs: 0 }));
    assert_eq!(of(&[run(&mine)], 1), Err(AnalysisError::NoSuchRun { baseline: 1, runs: 1 }));
    assert_eq!(of(&[run(&mine), run(&other)], 0), Err(AnalysisError::OtherWorkload { run: 1 }));
    assert_eq!(of(&[run(&mine)], 0), Ok(()));
    let narrow = cavalcade::model::Fabric::big_switch(1, BitsPerSec(1)).unwrap();
    assert!(isolation_times(mine.workload(), &narrow).is_err());
}

#[test]
fn no_file_and_no_such_run_are_errors() {
    use cavalcade::report::{FigureKind, FigureWidth, figure};
    use cavalcade::trace::{ReadOptions, read_files, read_inputs};
    assert!(read_files(&[], &ReadOptions::default()).unwrap_err().to_string().contains("no file"));
    assert!(read_inputs(vec![], &ReadOptions::default()).is_err());
    let comparison = compare(&[scenario(1)], 0).unwrap();
    assert!(figure(&comparison, FigureKind::Cdf, FigureWidth::Column, &[1]).is_err());
}
