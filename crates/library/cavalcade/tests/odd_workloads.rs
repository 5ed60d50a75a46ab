//! Odd but legal workloads on the engines that exchange messages and packets: a run has the same
//! outcome whenever its trace was taken.

#![allow(clippy::unwrap_used, reason = "a test whose scene cannot be set has failed")]

#[path = "../../../simulate/sim-fluid/tests/odd/mod.rs"]
#[allow(dead_code, reason = "the fluid engine's tests use the rest")]
mod odd;

use cavalcade::metrics::Outcome;
use cavalcade::model::Nanos;
use cavalcade::{Conditions, Engine, Error, Packets, Policy, Scenario, Transport};
use odd::{Limits, Odd};
use proptest::prelude::*;
use proptest::test_runner::{Config, RngSeed, TestRunner};

/// What these engines end within a second or so: they work for every round and packet.
const SHORT: Limits = Limits { bytes: 16, rate: (22, 34), arrival: 60 };

fn run(odd: &Odd, engine: &Engine, later: Nanos) -> Result<Outcome, Error> {
    let conditions = Conditions { rate: odd.rate, ..Conditions::default() };
    let scenario = Scenario::new(odd.workload(later), conditions)?;
    scenario.on(engine.clone()).with_policy(Policy::from(odd.policy.clone())).run()
}

/// Tries `cases` workloads on `engine`, of which some are refused: those of policies that it does
/// not run, and spans that are too long.
fn no_outcome_depends_on_the_time_of_its_trace(engine: &Engine, cases: u32) {
    let config =
        Config { cases, rng_seed: RngSeed::Fixed(1), failure_persistence: None, ..Config::default() };
    let numbers = proptest::collection::vec(any::<u64>(), 0..48);
    let ran = std::cell::Cell::new(0);
    let result = TestRunner::new(config).run(&numbers, |numbers| {
        let odd = Odd::draw(SHORT, numbers);
        let (early, late) = (run(&odd, engine, Nanos::ZERO), run(&odd, engine, odd.shift));
        match (early, late) {
            (Ok(early), Ok(late)) => {
                ran.set(ran.get() + 1);
                prop_assert_eq!(early, late, "{:?}", odd);
            }
            (Err(early), Err(late)) => prop_assert_eq!(early.to_string(), late.to_string(), "{:?}", odd),
            (early, late) => prop_assert!(false, "{odd:?}\n{early:?}\n{late:?}"),
        }
        Ok(())
    });
    if let Err(error) = result {
        panic!("{error}");
    }
    assert!(ran.get() > cases / 2, "{} of {cases} ran", ran.get());
}

#[test]
fn rounds_of_messages_do_not_depend_on_the_time_of_a_trace() {
    no_outcome_depends_on_the_time_of_its_trace(&Engine::Control { period: Nanos::from_millis(1) }, 600);
}

#[test]
fn packets_do_not_depend_on_the_time_of_a_trace() {
    for name in ["dctcp", "reno"] {
        let transport = Transport::from(&cavalcade::transport::parse(name).unwrap());
        no_outcome_depends_on_the_time_of_its_trace(&Engine::Packet(Packets::over(transport)), 300);
    }
}
