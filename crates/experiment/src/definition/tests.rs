use super::*;
use crate::estimate::Estimate;

const TEXT: &str = r#"
title = "Queues"
source = "Aalo Fig 12a"
question = "How many?"
seeds = 2

[conditions]
rate = "1Gbps"

[[panel]]
title = "K"
axis = { name = "queues", values = [1, 2] }
workload = "fixed:coflows=5,ports=6"
against = "fair"
series = [
  { name = "fair", policy = "fair" },
  { name = "Aalo", policy = "dclas:queues={x}" },
]
[[panel.expect]]
claim = "A16"
text = "a big jump"
series = "Aalo"
trend = "rises"
"#;

fn fault(from: &str, to: &str) -> String {
    assert!(TEXT.contains(from), "{from}");
    Experiment::read("test", &TEXT.replacen(from, to, 1)).unwrap_err().to_string()
}

#[test]
fn a_sweep_is_one_run_for_each_value_seed_and_policy_and_none_twice() {
    let experiment = Experiment::read("test", TEXT).unwrap();
    let keys: Vec<Key> = experiment.runs().into_iter().map(|run| run.key).collect();
    // fair does not depend on the axis: two seeds; dclas at two values: four.
    assert_eq!(keys.len(), 6);
    let policies: Vec<&str> = keys.iter().map(|key| key.policy.as_str()).collect();
    assert_eq!(policies.iter().filter(|policy| **policy == "fair").count(), 2);
    assert!(policies.contains(&"dclas:queues=1") && policies.contains(&"dclas:queues=2"));
}

#[test]
fn what_is_wrong_is_named_with_its_place() {
    assert!(fault("dclas:queues={x}", "dclas:queue={x}").contains("panel 'K', series 'Aalo'"));
    assert!(fault("dclas:queues={x}", "dclas:queue={x}").contains("queues"));
    assert!(fault("fixed:coflows", "fixed:coflow").contains("coflows"));
    assert!(fault("against = \"fair\"", "against = \"fare\"").contains("expected one of fair, Aalo"));
    assert!(fault("against = \"fair\"", "").contains("'against' is missing"));
    assert!(fault("trend = \"rises\"", "").contains("expected one of paper"));
    assert!(fault("trend = \"rises\"", "paper = 2").contains("'at' is missing"));
    assert!(fault("seeds = 2", "seeds = 0").contains("expected 1 to 1000"));
    assert!(fault("title = \"K\"", "title = \"K\"\ncolour = 1").contains("unknown field `colour`"));
    assert!(fault("rate = \"1Gbps\"", "rate = \"fast\"").contains("conditions.rate"));
    assert!(
        fault("rate = \"1Gbps\"", "fabric = \"tree:pods=2\"").contains("conditions.fabric: 'tree:pods=2'")
    );
    assert!(fault("values = [1, 2]", "bins = true, values = [1]").contains("expected one of values"));
}

#[test]
fn sizes_and_times_are_numbers_on_an_axis() {
    let text = TEXT.replace("[1, 2]", "[\"1MB\", \"10MB\"]").replace("queues={x}", "first_threshold={x}");
    let Axis::Values { numbers, .. } = &Experiment::read("test", &text).unwrap().panels[0].axis else {
        panic!("an axis of values")
    };
    assert_eq!(numbers.as_deref(), Some([1e6, 1e7].as_slice()));
}

#[test]
fn factors_are_paired_by_seed() {
    let experiment = Experiment::read("test", TEXT).unwrap();
    let mut rows = BTreeMap::new();
    for run in experiment.runs() {
        let key = run.key().clone();
        let mut figures = [f64::NAN; crate::row::FIGURES];
        let scale = if key.policy == "fair" { 3.0 } else { 1.0 };
        figures[0] = scale * if key.seed == 1 { 1.0 } else { 100.0 };
        rows.insert(key.clone(), Row { key, coflows: 5, figures });
    }
    let panel = &experiment.panels[0];
    let Estimate { value, low, high, seeds } = experiment.estimate(&rows, panel, 1, 0, panel.view()).unwrap();
    assert!((value - 3.0).abs() < 1e-12 && (high - low) < 1e-9, "the seeds' sizes cancel");
    assert_eq!(seeds, 2);
    rows.pop_first();
    assert!(experiment.estimate(&rows, panel, 1, 0, panel.view()).is_none());
}
