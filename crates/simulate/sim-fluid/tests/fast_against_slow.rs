//! The engine against the slow, obvious one: the same completion times, for every registered policy
//! whose sharing is fully determined, and for policies that decide at random whatever the contract
//! allows.
//!
//! Times may differ by 10⁻⁹ of themselves and a nanosecond: rates are `f64` in both, and a finish
//! is rounded up. Shortest flow first and greedy are tried where who is level does not hang on
//! rounding (see [`FEW_ON_EVEN_LINKS`] and [`FEW_WITHOUT_TIES`]).

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
use instances::{ALL, Shapes, hold, instance};

use proptest::prelude::*;
use scripted::Scripted;

/// Instances on which a discipline leaves nothing to rounding.
fn determined(discipline: Discipline) -> Shapes {
    match discipline {
        Discipline::MaxMin | Discipline::EvenParts => ALL,
        // The order of coflows of one size that were served alike hangs on rounding, and rates on
        // that order.
        Discipline::Madd => Shapes { ties: false, ..ALL },
        Discipline::ShortestFlow | Discipline::Greedy | Discipline::InTurn => Shapes { uneven: false, ..ALL },
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

/// Shortest flow first goes by id where flows have the same bytes left. On these links bytes are
/// multiples of an eighth at every whole nanosecond, which `f64` holds exactly, so that both
/// engines see who is level.
const FEW_ON_EVEN_LINKS: Shapes = Shapes { uneven: false, ..FEW };

/// With other rates, flows of one size that were served as long as each other differ by rounding,
/// each engine's own, and so does who of them goes on when they come to compete. Flows of different
/// sizes draw level only to pass.
const FEW_WITHOUT_TIES: Shapes = Shapes { ties: false, ..FEW };

#[test]
fn fair_shares_agree() {
    hold(500, instance(ALL), |instance| {
        let rank = vec![0; instance.workload.coflow_count()];
        agree(&instance, &FixedOrder { rank }, &Options::default())
    });
}

#[test]
fn fixed_orders_agree() {
    hold(500, (instance(ALL), order()), |(instance, order)| agree(&instance, &order, &Options::default()));
}

/// Scripts that decide at random, on instances of these shapes.
fn random_decisions_agree(shapes: Shapes, script: impl Strategy<Value = Scripted>) {
    hold(400, (instance(shapes), script), |(instance, script)| {
        agree(&instance, &script, &Options::default())
    });
}

#[test]
fn random_decisions_agree_for_a_coordinator() {
    random_decisions_agree(FEW, script(Scope::Fabric, Discipline::MaxMin, None));
}

#[test]
fn random_decisions_agree_for_weighted_classes() {
    random_decisions_agree(FEW, script(Scope::Fabric, Discipline::MaxMin, Some(Excess::Weighted)));
}

#[test]
fn random_decisions_agree_for_weighted_classes_with_excess_to_the_highest() {
    random_decisions_agree(FEW, script(Scope::Fabric, Discipline::MaxMin, Some(Excess::Highest)));
}

/// Without caps: on even links they make flows of one size send at different rates, and which of
/// two level flows has fewer bytes a moment later is then a matter of rounding. Uneven links have
/// caps, and no ties.
#[test]
fn random_decisions_agree_for_shortest_flow_first() {
    let script = script(Scope::Fabric, Discipline::ShortestFlow, None);
    random_decisions_agree(FEW_ON_EVEN_LINKS, script.prop_map(|script| Scripted { caps: false, ..script }));
}

#[test]
fn random_decisions_agree_for_shortest_flow_first_on_uneven_links() {
    random_decisions_agree(FEW_WITHOUT_TIES, script(Scope::Fabric, Discipline::ShortestFlow, None));
}

#[test]
fn random_decisions_agree_for_greedy() {
    let script = script(Scope::Fabric, Discipline::Greedy, None);
    random_decisions_agree(FEW_ON_EVEN_LINKS, script.prop_map(|script| Scripted { caps: false, ..script }));
}

#[test]
fn random_decisions_agree_for_greedy_on_uneven_links() {
    random_decisions_agree(FEW_WITHOUT_TIES, script(Scope::Fabric, Discipline::Greedy, None));
}

#[test]
fn random_decisions_agree_for_madd() {
    random_decisions_agree(FEW_WITHOUT_TIES, script(Scope::Fabric, Discipline::Madd, None));
}

#[test]
fn random_decisions_agree_for_hosts_that_negotiate() {
    let delay = prop_oneof![Just(0), Just(1_000_000), 1..4_000_000u64];
    let drawn = (instance(FEW), script(Scope::Host, Discipline::MaxMin, None), delay);
    hold(400, drawn, |(instance, script, delay)| {
        agree(&instance, &script, &Options { control_delay: Nanos(delay), ..Options::default() })
    });
}

#[test]
fn random_decisions_agree_for_links_on_their_own() {
    random_decisions_agree(FEW, script(Scope::Link, Discipline::MaxMin, None));
}

/// Each registered policy on as many instances as the time allows; a new policy is covered as soon
/// as it is listed.
mod registered {
    use super::*;
    use cavalcade_policy::{parse, registry};

    fn specs() -> Vec<String> {
        let mut specs = Vec::new();
        for info in registry() {
            specs.push(info.name.to_owned());
        }
        // What a flow sends in 10 ms at a whole number of bits per second are steps of 1/800 byte,
        // and one such step is just what counts as rounding where the fastest link has 1 Gbps:
        // whether a byte is left would hang on the last bit.
        specs.retain(|spec| spec != "karuna");
        specs.push("karuna:update=7300019ns".to_owned());
        // What the coordinator of D-CLAS knows at once, and strict queues.
        specs.extend(["dclas:sync=0ms", "dclas:sync=0ms,weighted=false"].map(str::to_owned));
        specs.extend(["sebf", "sincronia", "dcoflow"].map(|name| format!("{name}:discipline=madd")));
        specs
    }

    fn agrees(spec: &str) {
        let policy = parse(spec).unwrap();
        hold(400, instance(determined(policy.terms().discipline)), |instance| {
            let agreed = agree(&instance, &policy, &Options::default());
            agreed.map_err(|error| TestCaseError::fail(format!("{spec}: {error}")))
        });
    }

    #[test]
    fn every_determined_policy_agrees() {
        let (specs, threads) = (specs(), 2);
        std::thread::scope(|scope| {
            for first in 0..threads {
                let own = specs.iter().skip(first).step_by(threads);
                scope.spawn(|| own.for_each(|spec| agrees(spec)));
            }
        });
    }
}
