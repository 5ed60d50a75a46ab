//! The engine against the slow, obvious one: the same completion times, for every registered policy whose sharing is
//! fully determined, and for policies that decide at random whatever the contract allows.
//!
//! Times may differ by 10⁻⁹ of themselves and a nanosecond: rates are `f64` in both, and a finish is rounded up.
//! `karuna` is left out: it compares the rate that whole remaining bytes ask for with the cap that it set from such bytes,
//! so whether it sets a cap anew can hang on the rounding of a byte, which is much of a small flow. Shortest flow first is
//! tried where who is level does not hang on rounding (see [`FEW_ON_EVEN_LINKS`] and [`FEW_WITHOUT_TIES`]).

#![allow(clippy::unwrap_used, reason = "a test whose scene cannot be set has failed")]

mod agreement;
mod fixed_order;
mod instances;
mod scripted;
mod slow;
mod timeline;

use agreement::agree;
use cavalcade_model::{Discipline, Excess, Nanos, PolicyFactory, Scope};
use cavalcade_sim_fluid::Options;
use fixed_order::FixedOrder;
use instances::{ALL, Shapes, cases, instance};

use proptest::prelude::*;
use scripted::Scripted;

/// Instances on which a discipline leaves nothing open; `None` where it always may.
fn determined(discipline: Discipline) -> Option<Shapes> {
    match discipline {
        Discipline::MaxMin => Some(ALL),
        Discipline::ShortestFlow => Some(Shapes { uneven: false, ..ALL }),
        // Whom a link serves goes by who was served before.
        Discipline::Greedy | Discipline::Madd => None,
    }
}

fn script(scope: Scope, discipline: Discipline, weights: Option<Excess>) -> impl Strategy<Value = Scripted> {
    (any::<u64>(), any::<bool>()).prop_map(move |(seed, caps)| Scripted {
        scope,
        discipline,
        weights,
        caps,
        seed,
    })
}

/// Ranks for more coflows than there can be.
fn order() -> impl Strategy<Value = FixedOrder> {
    proptest::collection::vec(0..4u64, 24).prop_map(|rank| FixedOrder { rank })
}

/// Small enough that what goes wrong under random decisions can be followed by hand.
const FEW: Shapes = Shapes { most: (3, 3, 4), ..ALL };

/// Shortest flow first goes by id where flows have the same bytes left. On these links bytes are multiples of an eighth at
/// every whole nanosecond, which `f64` holds exactly, so that both engines see who is level.
const FEW_ON_EVEN_LINKS: Shapes = Shapes { uneven: false, ..FEW };

/// With other rates, flows of one size that were served as long as each other differ by rounding, each engine's own, and
/// so does who of them goes on when they come to compete. Flows of different sizes draw level only to pass.
const FEW_WITHOUT_TIES: Shapes = Shapes { ties: false, ..FEW };

fn at_once() -> Options {
    Options::default()
}

proptest! {
    #![proptest_config(cases(1500))]

    #[test]
    fn fair_shares_agree(instance in instance(ALL)) {
        let rank = vec![0; instance.workload.coflow_count()];
        agree(&instance, &FixedOrder { rank }, &at_once())?;
    }

    #[test]
    fn fixed_orders_agree(instance in instance(ALL), order in order()) {
        agree(&instance, &order, &at_once())?;
    }

}

proptest! {
    #![proptest_config(cases(200))]

    #[test]
    fn random_decisions_agree_for_a_coordinator(
        instance in instance(FEW), script in script(Scope::Fabric, Discipline::MaxMin, None),
    ) {
        agree(&instance, &script, &at_once())?;
    }

    #[test]
    fn random_decisions_agree_for_weighted_classes(
        instance in instance(FEW), script in script(Scope::Fabric, Discipline::MaxMin, Some(Excess::Weighted)),
    ) {
        agree(&instance, &script, &at_once())?;
    }

    #[test]
    fn random_decisions_agree_for_weighted_classes_with_excess_to_the_highest(
        instance in instance(FEW), script in script(Scope::Fabric, Discipline::MaxMin, Some(Excess::Highest)),
    ) {
        agree(&instance, &script, &at_once())?;
    }

    /// Without caps: on even links they make flows of one size send at different rates, and which of two level flows has
    /// fewer bytes a moment later is then a matter of rounding. Uneven links have caps, and no ties.
    #[test]
    fn random_decisions_agree_for_shortest_flow_first(
        instance in instance(FEW_ON_EVEN_LINKS), script in script(Scope::Fabric, Discipline::ShortestFlow, None),
    ) {
        agree(&instance, &Scripted { caps: false, ..script }, &at_once())?;
    }

    #[test]
    fn random_decisions_agree_for_shortest_flow_first_on_uneven_links(
        instance in instance(FEW_WITHOUT_TIES), script in script(Scope::Fabric, Discipline::ShortestFlow, None),
    ) {
        agree(&instance, &script, &at_once())?;
    }

    #[test]
    fn random_decisions_agree_for_hosts_that_negotiate(
        instance in instance(FEW),
        script in script(Scope::Host, Discipline::MaxMin, None),
        delay in prop_oneof![Just(0), Just(1_000_000), 1..4_000_000u64],
    ) {
        let options = Options { control_delay: Nanos(delay), ..Options::default() };
        agree(&instance, &script, &options)?;
    }

    #[test]
    fn random_decisions_agree_for_links_on_their_own(
        instance in instance(FEW), script in script(Scope::Link, Discipline::MaxMin, None),
    ) {
        agree(&instance, &script, &at_once())?;
    }
}

/// Each registered policy on as many instances as the time allows; a new policy is covered as soon as it is listed.
mod registered {
    use super::*;
    use cavalcade_policy::{parse, registry};
    use proptest::test_runner::TestRunner;

    fn specs() -> Vec<String> {
        let mut specs = Vec::new();
        for info in registry() {
            specs.push(info.name.to_owned());
            specs.extend(info.presets.iter().map(|preset| preset.name.to_owned()));
        }
        // What the coordinator of D-CLAS knows at once, and strict queues.
        specs.extend(["dclas:sync=0ms", "dclas:sync=0ms,weighted=false"].map(str::to_owned));
        specs
    }

    #[test]
    fn every_determined_policy_agrees() {
        let mut failures = Vec::new();
        for spec in specs() {
            let policy = parse(&spec).unwrap();
            let Some(shapes) = determined(policy.terms().discipline).filter(|_| spec != "karuna") else {
                continue;
            };
            let mut runner = TestRunner::new(cases(300));
            let result = runner.run(&instance(shapes), |instance| {
                agree(&instance, &policy, &Options::default()).map(|_| ())
            });
            failures.extend(result.err().map(|error| format!("{spec}: {error}")));
        }
        assert!(failures.is_empty(), "{}", failures.join("\n\n"));
    }
}
