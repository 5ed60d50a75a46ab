use super::*;
use crate::comparison::tests::comparison;
use proptest::prelude::*;

fn error(text: &str) -> (usize, String, &'static str) {
    let error = text.parse::<Assertion>().unwrap_err();
    (error.column, error.found, error.expected)
}

fn holds(text: &str) -> bool {
    text.parse::<Assertion>().unwrap().check(&comparison()).unwrap().holds
}

#[test]
fn an_assertion_reads_as_it_is_written() {
    let assertion: Assertion = " dclas:queues=10,weighted=false : p99.9( cct )<=1.5s ".parse().unwrap();
    assert_eq!(assertion.policy.as_deref(), Some("dclas:queues=10,weighted=false"));
    assert_eq!(assertion.relation, Relation::AtMost);
    assert_eq!(assertion.bound, Bound::Time(Nanos(1_500_000_000)));
    assert_eq!(assertion.to_string(), "dclas:queues=10,weighted=false: p99.9(cct) <= 1500ms");
    let assertion: Assertion = "factor(dclas:factor=4) >= 2.5".parse().unwrap();
    assert_eq!(assertion.quantity, Quantity::Factor { policy: "dclas:factor=4".into() });
}

#[test]
fn errors_name_the_column_what_is_there_and_what_was_expected() {
    assert_eq!(error(""), (1, "the end".into(), parse_expectations::QUANTITY));
    assert_eq!(error("p101(cct) < 2s").0, 1);
    assert_eq!(error("mean(cctx) < 2s"), (6, "`cctx) < 2s`".into(), "cct, tct or slowdown"));
    assert_eq!(error("mean cct < 2s").0, 6);
    assert_eq!(error("mean(cct = 2s"), (10, "`= 2s`".into(), ")"));
    assert_eq!(error("sebf: makespan = 2s"), (16, "`= 2s`".into(), "one of < <= > >= =="));
    assert_eq!(error("µ: makespan < 2"), (15, "`2`".into(), parse_expectations::TIME));
    assert_eq!(error("misses < 2s"), (10, "`2s`".into(), parse_expectations::NUMBER));
    assert_eq!(error("factor() > 2"), (8, "`) > 2`".into(), "the name of a policy"));
    assert_eq!(error("factor(sebf > 2"), (16, "the end".into(), ")"));
    assert_eq!(error(": misses == 0"), (1, "`: misses == 0`".into(), "the name of a policy"));
    for bound in ["inf", "NaN", "-1", "1e3", "", "1 2", "2s extra"] {
        assert_eq!(error(&format!("max(slowdown) < {bound}")).0, 17);
    }
}

/// The messages, repeated so that a change of wording is seen.
mod parse_expectations {
    pub(super) const QUANTITY: &str =
        "mean(…), min(…), max(…) or a percentile such as p99(…), or makespan, misses or factor(policy)";
    pub(super) const TIME: &str = "a time with its unit, such as 2s or 150ms (ns, us, ms, s, min, h)";
    pub(super) const NUMBER: &str = "a number without unit, such as 1.5";
}

#[test]
fn figures_are_those_of_the_runs_named() {
    assert!(holds("max(cct) <= 6s"));
    assert!(!holds("max(cct) < 6s"), "of every run");
    assert!(holds("fifo: max(cct) < 6s"));
    assert!(holds("sebf: mean(cct) == 4s"));
    assert!(holds("sebf: p50(cct) == 2s"));
    assert!(holds("sebf: min(slowdown) == 1"));
    assert!(holds("sebf: mean(slowdown) == 1.25"));
    assert!(holds("sebf: p95(tct) == 6s"));
    assert!(holds("makespan == 6s"));
    assert!(holds("fifo: misses == 1"));
    assert!(holds("factor(sebf) > 1.1"));
    assert!(holds("factor(fifo) == 1"));
}

#[test]
fn a_run_that_is_not_there_is_an_error_with_those_that_are() {
    let assertion: Assertion = "sebff: misses == 0".parse().unwrap();
    let error = assertion.check(&comparison()).unwrap_err();
    assert_eq!((error.name.as_str(), error.known.as_str()), ("sebff", "fifo, sebf"));
}

#[test]
fn a_failed_claim_says_which_run_has_what() {
    let assertion: Assertion = "max(cct) < 6s".parse().unwrap();
    let verdict = assertion.check(&comparison()).unwrap();
    let failed: Vec<String> = verdict
        .cases
        .iter()
        .filter(|case| !case.holds)
        .map(|case| format!("{} has {}", case.label, case.measured))
        .collect();
    assert_eq!(failed, ["sebf has 6s"]);
}

fn assertions() -> impl Strategy<Value = Assertion> {
    let policy = "[a-z_]{1,8}(:[a-z_]{1,4}=[a-z0-9]{1,4}(,[a-z]{1,3}=[0-9]{1,2}){0,2})?";
    let percent = (1u32..=99_999)
        .prop_map(|thousandths| format!("{}.{:03}", thousandths / 1000, thousandths % 1000).parse().unwrap());
    let function = prop_oneof![
        Just(Function::Mean),
        Just(Function::Min),
        Just(Function::Max),
        percent.prop_map(Function::Percentile),
    ];
    let measure = prop_oneof![Just(Measure::Cct), Just(Measure::Tct), Just(Measure::Slowdown)];
    let quantity = prop_oneof![
        (function, measure).prop_map(|(function, measure)| Quantity::Statistic { function, measure }),
        Just(Quantity::Makespan),
        Just(Quantity::Misses),
        policy.prop_map(|policy| Quantity::Factor { policy }),
    ];
    let relation = prop_oneof![
        Just(Relation::Less),
        Just(Relation::AtMost),
        Just(Relation::Greater),
        Just(Relation::AtLeast),
        Just(Relation::Equal),
    ];
    (proptest::option::of(policy), quantity, relation, any::<u64>(), 0.0..1e12f64).prop_map(
        |(policy, quantity, relation, nanos, number)| {
            let bound = if quantity.is_time() { Bound::Time(Nanos(nanos)) } else { Bound::Number(number) };
            let policy = policy.filter(|_| !matches!(quantity, Quantity::Factor { .. }));
            Assertion { policy, quantity, relation, bound }
        },
    )
}

proptest! {
    #[test]
    fn text_round_trips(assertion in assertions()) {
        prop_assert_eq!(assertion.to_string().parse(), Ok(assertion));
    }

    #[test]
    fn reading_never_panics(text in "[a-z0-9()<>=:. µ]{0,30}|.*") {
        let _ = text.parse::<Assertion>();
    }
}
