use super::*;
use cavalcade_metrics::Estimate;

const TEXT: &str = r#"
title = "Queues"
source = "Aalo Fig 12a"
question = "How many?"
seeds = 10

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
    // fair does not depend on the axis: ten seeds; dclas at two values: twenty.
    assert_eq!(keys.len(), 30);
    let policies: Vec<&str> = keys.iter().map(|key| key.policy.as_str()).collect();
    assert_eq!(policies.iter().filter(|policy| **policy == "fair").count(), 10);
    assert!(policies.contains(&"dclas:queues=1") && policies.contains(&"dclas:queues=2"));
}

#[test]
fn what_is_wrong_is_named_with_its_place() {
    assert!(fault("dclas:queues={x}", "dclas:queue={x}").contains("panel 'K': series 'Aalo'"));
    assert!(fault("dclas:queues={x}", "dclas:queue={x}").contains("queues"));
    assert!(fault("fixed:coflows", "fixed:coflow").contains("coflows"));
    assert!(fault("against = \"fair\"", "against = \"fare\"").contains("expected one of fair, Aalo"));
    assert!(fault("against = \"fair\"", "").contains("'against' is missing"));
    assert!(fault("trend = \"rises\"", "").contains("expected one of paper"));
    assert!(fault("trend = \"rises\"", "paper = 2").contains("'at' is missing"));
    assert!(fault("seeds = 10", "seeds = 0").contains("expected 1 to 1000"));
    assert!(fault("title = \"K\"", "title = \"K\"\ncolour = 1").contains("unknown field `colour`"));
    assert!(fault("rate = \"1Gbps\"", "rate = \"fast\"").contains("conditions.rate"));
    assert!(
        fault("rate = \"1Gbps\"", "fabric = \"tree:pods=2\"").contains("conditions.fabric: 'tree:pods=2'")
    );
    assert!(fault("rate = \"1Gbps\"", "warm_up = 1.0").contains("conditions.warm_up: 1 is no share"));
    assert!(fault("values = [1, 2]", "bins = true, values = [1]").contains("expected one of values"));
}

#[test]
fn a_criterion_is_refused_with_its_line_where_it_cannot_be_fitted() {
    let text = TEXT.replacen("values = [1, 2]", "values = [1, 2, 3, 4, 5, 6, 7, 8]", 1);
    let read = |criterion: &str| Experiment::read("test", &format!("{text}[criterion]\n{criterion}"));
    let good = r#"panel = "K"
series = "Aalo"
measures = ["mean(cct)"]
fit = ["1", "2", "3", "4"]
error_at_most = 1.5
sides_at_least = 0.8
"#;
    let runs = read(good).unwrap().runs();
    assert_eq!(runs.iter().filter(|run| run.key.policy == "sizes").count(), 10, "one workload, ten seeds");
    let fault = |from: &str, to: &str| read(&good.replacen(from, to, 1)).unwrap_err().to_string();
    assert!(
        fault("\"K\"", "\"L\"").starts_with("line 25, criterion: there is no panel 'L': expected one of K")
    );
    assert!(fault("Aalo", "FIFO").contains("expected one of fair, Aalo"));
    assert!(fault("\"4\"", "\"9\"").contains("fit: there is no place '9'"));
    assert!(fault(", \"4\"", "").contains("3 places to fit and 5 to test: expected at least 4 of each"));
    assert!(fault("1.5", "1").contains("error_at_most above 1"));
    assert!(fault("panel", "panels").contains("unknown field `panels`"));
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
    assert_eq!(seeds, 10);
    rows.pop_first();
    assert!(experiment.estimate(&rows, panel, 1, 0, panel.view()).is_none());
}

#[test]
fn an_unknown_key_is_named_with_its_line_and_the_keys_that_there_are() {
    let fault = fault("trend = \"rises\"", "trend = \"rises\"\ncoulour = 1");
    assert!(
        fault.starts_with("line 24: unknown field `coulour`, expected one of `claim`, `text`"),
        "{fault}"
    );
}

#[test]
fn a_part_that_is_wrong_is_named_with_its_line() {
    assert!(fault("queues={x}", "queue={x}").starts_with("line 11, panel 'K': series 'Aalo'"));
    let missing = fault("trend = \"rises\"", "paper = 2");
    assert!(missing.starts_with("line 20, panel 'K', claim A16: 'at' is missing"), "{missing}");
}

#[test]
fn a_band_wider_than_the_claim_is_refused_with_a_cure() {
    let band = |form: &str, paper: &str, band: &str| {
        let to = format!("at = 2\nform = \"{form}\"\npaper = {paper}\nband = {band}");
        Experiment::read("test", &TEXT.replace("trend = \"rises\"", &to))
            .map(|_| ())
            .map_err(|error| error.to_string())
    };
    let fault = band("factor", "1.14", "0.2").unwrap_err();
    assert!(
        fault.starts_with("line 20, panel 'K', claim A16: band = 0.2 is wider than the claim"),
        "{fault}"
    );
    assert!(fault.ends_with("is 0.14 from 'no difference': choose a band above 0 and below that"), "{fault}");
    band("factor", "1.14", "0.1").unwrap();
    assert!(band("factor", "0.9", "0.2").is_err());
    assert!(band("reduction", "10", "0.12").is_err(), "10 % less is a factor of 1.11");
    band("reduction", "10", "0.1").unwrap();
    assert!(band("share", "5", "6").is_err());
    assert!(band("factor", "2", "0").is_err());
}

#[test]
fn a_trend_that_cannot_fail_and_a_limit_with_a_band_are_refused() {
    let read = |to: &str| {
        let text = TEXT.replace("trend = \"rises\"", to);
        Experiment::read("test", &text).map(|_| ()).map_err(|error| error.to_string())
    };
    read("trend = \"rises\"\nband = 0.25").unwrap();
    let wide = read("trend = \"rises\"\nband = 5.0").unwrap_err();
    assert!(
        wide.ends_with(
            "band = 5 would call anything equal: choose a share from 0 to 0.25 for a trend or an order"
        ),
        "{wide}"
    );
    assert!(read("trend = \"rises\"\nband = -0.1").is_err());
    assert!(read("at = 2\nat_least = 2\nband = 0.1").unwrap_err().contains("have no band: remove it"));
}

#[test]
fn a_papers_statement_needs_ten_seeds_of_what_is_random() {
    assert!(
        fault("seeds = 10", "seeds = 9")
            .contains("9 seeds are too few for a paper's statement: set seeds = 10")
    );
    let ours = TEXT.replace("seeds = 10", "seeds = 9").replace("\"A16\"", "\"ours\"");
    Experiment::read("test", &ours).unwrap();
}

#[test]
fn a_panel_may_have_conditions_of_its_own() {
    let text =
        TEXT.replace("title = \"K\"", "title = \"K\"\nconditions = { warm_up = 0.1, rate = \"10Gbps\" }");
    let conditions = Experiment::read("test", &text).unwrap().runs()[0].key().conditions.clone();
    assert!(
        conditions.starts_with("10Gbps") && conditions.ends_with("the first 10 % not counted"),
        "{conditions}"
    );
}

mod judged {
    use super::*;
    use crate::verdict::{Finding, Verdict, findings};

    /// Judges the one statement of [`TEXT`] with `to` in the place of its trend, where the
    /// policies' means are `means` for each value of the axis and seed.
    fn judge(to: &str, seeds: u64, mean: impl Fn(&str, u64) -> f64) -> Finding {
        let text = TEXT.replace("seeds = 10", &format!("seeds = {seeds}")).replace("trend = \"rises\"", to);
        let text = text.replace("values = [1, 2]", "values = [1, 2, 4]");
        let experiment = Experiment::read("test", &text).unwrap();
        let rows = experiment.runs().into_iter().map(|run| {
            let key = run.key().clone();
            let mut figures = [f64::NAN; crate::row::FIGURES];
            figures[0] = mean(&key.policy, key.seed);
            figures[2] = figures[0];
            (key.clone(), Row { key, coflows: 599, figures })
        });
        findings(&experiment, &rows.collect()).remove(0)
    }

    /// The policy with one, two and four queues `speedups` times as fast as fair, with a spread
    /// over seeds.
    fn speedups(speedups: [f64; 3], spread: f64) -> impl Fn(&str, u64) -> f64 {
        move |policy, seed| match policy {
            "fair" => 8.0,
            _ => {
                let at = ["queues=1", "queues=2", "queues=4"].iter().position(|name| policy.contains(name));
                8.0 / (speedups[at.unwrap()] * (1.0 + if seed % 2 == 0 { spread } else { -spread }))
            }
        }
    }

    #[test]
    fn a_rise_needs_every_step() {
        let verdict = |figures, spread| judge("trend = \"rises\"", 10, speedups(figures, spread)).verdict;
        assert_eq!(verdict([1.0, 1.5, 2.0], 0.1), Verdict::Reproduced);
        assert_eq!(verdict([1.0, 0.5, 2.0], 0.1), Verdict::NotReproduced, "a dip between the ends");
        assert_eq!(verdict([2.0, 1.5, 1.0], 0.1), Verdict::NotReproduced);
        let flat = |figures| judge("trend = \"flat\"\nband = 0.1", 10, speedups(figures, 0.0)).verdict;
        assert_eq!(flat([1.0, 1.05, 0.95]), Verdict::Reproduced);
        assert_eq!(flat([1.0, 1.5, 1.0]), Verdict::NotReproduced, "a hump between the ends");
    }

    #[test]
    fn an_order_that_the_interval_does_not_decide_is_not_shown() {
        let order = |spread| judge("order = [\"Aalo\", \"fair\"]", 10, speedups([1.05; 3], spread));
        assert_eq!(order(0.01).verdict, Verdict::Reproduced);
        let undecided = order(0.3);
        assert_eq!(undecided.verdict, Verdict::NotShown);
    }

    #[test]
    fn the_best_place_needs_an_interval_to_every_other() {
        let best = |figures, spread| judge("best = [2]", 10, speedups(figures, spread)).verdict;
        assert_eq!(best([1.0, 1.5, 1.2], 0.0), Verdict::Reproduced);
        assert_eq!(best([1.0, 1.5, 1.6], 0.0), Verdict::NotReproduced);
    }

    #[test]
    fn an_interval_wider_than_the_effect_asks_for_twenty_seeds() {
        let value = |seeds| judge("at = 2\npaper = 1.1", seeds, speedups([1.1; 3], 0.3));
        assert_eq!(value(10).verdict, Verdict::NotRun);
        assert!(value(10).ours.contains("20 seeds needed"), "{}", value(10).ours);
        assert_ne!(value(20).verdict, Verdict::NotRun);
    }

    #[test]
    fn a_percentile_needs_thirty_tasks_beyond_it() {
        let tail = |measure: &str| {
            judge(&format!("at = 2\npaper = 2.0\nmeasure = \"{measure}\""), 10, speedups([2.0; 3], 0.0))
        };
        assert_eq!(tail("p95(cct)").verdict, Verdict::Reproduced, "599 coflows");
        let few = tail("p99(cct)");
        assert_eq!(few.verdict, Verdict::NotRun);
    }

    #[test]
    fn a_limit_holds_for_the_whole_interval() {
        let limit = |spread| judge("at = 2\nat_least = 1.0", 10, speedups([1.1; 3], spread)).verdict;
        assert_eq!((limit(0.01), limit(0.5)), (Verdict::Reproduced, Verdict::NotShown));
    }
}
