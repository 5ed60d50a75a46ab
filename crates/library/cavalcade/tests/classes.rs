//! What waits in each priority class, under every policy that has a class for each flow.

#![allow(clippy::unwrap_used, reason = "a test whose scene cannot be set has failed")]

use cavalcade::{Conditions, Progress, Scenario, Watch, generate, waiting_by_class};
use cavalcade_metrics::backlog_by_class;
use cavalcade_model::{PolicyFactory as _, Scope};

fn scenario(policy: &str) -> Scenario {
    let workload = generate("facebook:coflows=40,ports=8", 3).unwrap();
    Scenario::new(workload, Conditions::default()).unwrap().under(policy).unwrap()
}

fn waiting(policy: &str) -> Vec<f64> {
    waiting_by_class(&scenario(policy), &Progress::default()).unwrap()
}

#[test]
fn the_classes_add_up_to_all_that_waits_in_a_run_of_which_no_notes_are_taken() {
    let mut checked = 0;
    for info in cavalcade::policy::registry() {
        let scenario = scenario(info.name);
        if scenario.check().is_err() || scenario.policy().unwrap().terms().scope == Scope::Link {
            continue;
        }
        let mut sent = Vec::new();
        let plain = scenario.run_with(Watch { sent: Some(&mut sent), ..Watch::default() }).unwrap();
        let all = backlog_by_class(scenario.workload(), &plain, &sent, &[]);
        let sum: f64 = waiting(info.name).iter().sum();
        assert!((sum - all[0]).abs() < 1e-9 * all[0], "{}: {sum} and {all:?}", info.name);
        checked += 1;
    }
    assert!(checked > 10, "{checked} policies");
}

#[test]
fn what_has_sent_much_waits_in_lower_classes_and_fair_sharing_has_one() {
    assert_eq!(waiting("fair").len(), 1);
    for (policy, most) in [("dclas:queues=4", 4), ("pias", 8)] {
        let classes = waiting(policy);
        assert!((2..=most).contains(&classes.len()), "{policy}: {classes:?}");
        // The trace is heavy-tailed: nearly all bytes are of what goes down.
        assert!(classes[1..].iter().sum::<f64>() > classes[0], "{policy}: {classes:?}");
    }
}

#[test]
fn a_policy_that_decides_at_links_is_refused() {
    let refused = waiting_by_class(&scenario("baraat"), &Progress::default()).unwrap_err();
    assert!(refused.to_string().contains("decides at links"), "{refused}");
}
