use super::*;
use cavalcade_model::Bytes;

use crate::sample;
use proptest::prelude::*;

fn info() -> ReportInfo {
    ReportInfo {
        command: "cavalcade compare a.txt --assert 'p99(cct) < 2s'".into(),
        version: "0.1.0".into(),
        trace: "a.txt".into(),
        seed: Some(7),
    }
}

/// Walks through all tags and fails where one is not closed, closed twice, or closed in the wrong
/// order.
fn assert_balanced(html: &str) {
    const VOID: [&str; 2] = ["meta", "input"];
    let mut open: Vec<String> = Vec::new();
    let mut rest = html;
    while let Some(start) = rest.find('<') {
        rest = &rest[start + 1..];
        let end = rest.find('>').expect("a tag ends");
        let (tag, after) = (&rest[..end], &rest[end + 1..]);
        rest = after;
        let name: String =
            tag.trim_start_matches('/').chars().take_while(|c| c.is_ascii_alphanumeric()).collect();
        if tag.starts_with('!') || tag.ends_with('/') || VOID.contains(&name.as_str()) {
            continue;
        }
        assert!(tag.matches('"').count().is_multiple_of(2), "a quote is not closed in <{tag}>");
        if tag.starts_with('/') {
            assert_eq!(open.pop().as_deref(), Some(name.as_str()), "</{name}> closes something else");
            continue;
        }
        if name == "script" || name == "style" {
            let close = format!("</{name}>");
            rest = &rest[rest.find(&close).expect("raw text ends") + close.len()..];
            continue;
        }
        open.push(name);
    }
    assert!(open.is_empty(), "left open: {open:?}");
}

/// The page without its fixed style and script.
fn content(html: &str) -> &str {
    let start = html.find("</style>").unwrap();
    &html[start..html.rfind("<script>").unwrap()]
}

#[test]
fn a_report_is_well_formed_and_loads_nothing() {
    for (runs, coflows) in [(1, 1), (2, 3), (5, 60), (15, 526)] {
        let page = html(&sample::comparison(runs, coflows), &info());
        assert_balanced(&page);
        for loads in ["http:", "https:", "//", "<link", "<iframe", "@import", "url(", " src="] {
            let content = page.replace("\n//", "\n").replace("data:image/png;base64,", "");
            let content =
                if loads == "//" { self::content(&content).split("href=").next().unwrap() } else { &content };
            assert!(!content.contains(loads), "{loads} in a report of {runs} runs");
        }
        assert!(page.matches("href=").count() == page.matches("href=\"data:image/png;base64,").count());
    }
}

#[test]
fn no_figure_is_not_a_number() {
    let page = html(&sample::comparison(6, 80), &info());
    for word in ["NaN", "inf\"", "inf ", "-inf", "None", "Some("] {
        assert!(!content(&page).contains(word), "{word}");
    }
}

#[test]
fn every_part_is_there() {
    let page = html(&sample::comparison(5, 60), &info());
    for title in ["Distribution of", "Who gains", "Timelines", "How busy", "How to reproduce", "Definitions"]
    {
        assert_eq!(page.matches(&format!("<h2>{title}")).count(), 1, "{title}");
    }
    assert!(page.contains("p99(cct) &lt; 2s&#39;"));
    assert!(page.contains("<dt>seed</dt><dd>7</dd>"));
}

#[test]
fn without_link_use_there_is_no_heat_map() {
    let mut comparison = sample::comparison(3, 20);
    comparison.runs.iter_mut().for_each(|run| run.utilisation = None);
    let page = html(&comparison, &info());
    assert_balanced(&page);
    assert!(!page.contains("How busy") && page.contains("Timelines"));
}

#[test]
fn nothing_to_compare_still_makes_a_page() {
    let page = html(&sample::empty(), &info());
    assert_balanced(&page);
    assert!(page.contains("0 coflows") && !content(&page).contains("NaN"));
}

#[test]
fn a_bound_is_shown_with_every_run_and_what_it_is_worth() {
    let mut comparison = sample::comparison(4, 40);
    let without = html(&comparison, &info());
    assert!(!without.contains(">gap<"));
    comparison.bound = Some(sample::bound(&comparison));
    let page = html(&comparison, &info());
    assert_balanced(&page);
    let best = &comparison.runs[comparison.ranking()[0]].label;
    assert!(page.contains(&format!("{best} is at most 12\u{a0}% above the best possible")), "{page}");
    let cells = |page: &str| page.matches("<td").count();
    assert_eq!(cells(&page), cells(&without) + 4);
    assert!(page.contains("but for the wall time."));
    comparison.bound.as_mut().unwrap().repeatable = false;
    assert!(html(&comparison, &info()).contains("but for the wall time and the lower bound"));
}

#[test]
fn the_headline_says_what_the_table_says() {
    let mut comparison = sample::comparison(5, 60);
    let headline = page::headline(&comparison);
    assert!(headline.contains(" sooner than fair on average; told all sizes, sebf gains "), "{headline}");
    assert!(headline.starts_with("dclas finishes coflows "), "{headline}");
    comparison.runs[3].about.told_sizes = true;
    comparison.runs[4].about.told_sizes = true;
    let headline = page::headline(&comparison);
    assert!(headline.starts_with("Told all sizes, sebf finishes coflows "), "{headline}");
    comparison.baseline = 0;
    let headline = page::headline(&comparison);
    assert_eq!(
        headline,
        "No policy is shown to finish coflows noticeably sooner than sebf, which is told sizes, on average"
    );
    comparison.runs.truncate(1);
    assert!(page::headline(&comparison).starts_with("sebf finishes a coflow in "));
}

#[test]
fn a_gain_that_packets_may_not_have_is_warned_of() {
    let mut comparison = sample::comparison(5, 60);
    let small = "A gain below 1.25 in the fluid";
    let short = "as short as a few round trips";
    let baseline = comparison.baseline;
    comparison.runs[baseline].about.stands_for = "TCP".to_owned();
    comparison.trace.bytes = Bytes(comparison.trace.flows as u64 * 1_000_000_000);
    let warns = |comparison: &Comparison| {
        let page = html(comparison, &info());
        [small, short].map(|warning| page.contains(warning))
    };
    assert_eq!(warns(&comparison), [false, false], "a large gain of large flows");
    let order = "An order inside a class";
    assert!(html(&comparison, &info()).contains(order), "sebf is told sizes");
    comparison.trace.bytes = Bytes(comparison.trace.flows as u64);
    assert_eq!(warns(&comparison), [false, true]);
    comparison.runs[baseline].about.stands_for = String::new();
    assert_eq!(warns(&comparison), [false, false], "no figure of TCP");
}

#[test]
fn a_gain_that_may_be_chance_is_no_headline() {
    let mut comparison = sample::comparison(5, 60);
    for run in &mut comparison.runs {
        run.improvement = run.improvement.map(|mut gain| {
            gain.interval.low = 0.97;
            gain
        });
    }
    let headline = page::headline(&comparison);
    assert_eq!(headline, "No policy is shown to finish coflows noticeably sooner than fair on average");
}

#[test]
fn fifteen_policies_and_the_facebook_trace_stay_below_two_megabytes() {
    let page = html(&sample::comparison(15, 526), &info());
    assert!(page.len() < 2_000_000, "{} bytes", page.len());
    let larger = html(&sample::comparison(15, 5_260), &info());
    assert!(larger.len() < 2_000_000, "{} bytes", larger.len());
}

#[test]
fn the_same_comparison_gives_the_same_bytes() {
    assert_eq!(html(&sample::comparison(4, 50), &info()), html(&sample::comparison(4, 50), &info()));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]
    #[test]
    fn no_name_can_break_the_page(name in "[<>&\"' a-z/]{1,20}|.{1,20}") {
        let mut comparison = sample::comparison(3, 6);
        comparison.runs[0].label = name.clone();
        comparison.runs[1].label = name.clone();
        comparison.runs[0].params = vec![(name.clone(), name.clone())];
        let info = ReportInfo { command: name.clone(), version: name.clone(), trace: name, seed: None };
        assert_balanced(&html(&comparison, &info));
    }
}

#[test]
fn where_tasks_have_stages_the_page_lists_them() {
    let page = html(&sample::staged(), &info());
    for part in
        ["<h2>Tasks</h2>", "4.00 s (1.33×, missed)", "task completion time", "mean TCT", "CCT speedup"]
    {
        assert!(page.contains(part), "{part}");
    }
    let single = html(&sample::comparison(3, 20), &info());
    assert!(!single.contains("<h2>Tasks</h2>") && !single.contains("TCT"));
}

#[test]
fn every_panel_belongs_to_a_policy_that_can_be_hidden_on_paper_too() {
    let page = html(&sample::comparison(15, 60), &info());
    // Rules of a box hold in every medium, so print has what is chosen and nothing else.
    let style = &page[page.find("<style>").unwrap()..page.find("</style>").unwrap()];
    for run in 0..15 {
        let rule = format!("main:not(:has(#show{run}:checked)) .run{run}{{display:none}}");
        let before = &style[..style.find(&rule).unwrap_or_else(|| panic!("no rule for run {run}"))];
        assert_eq!(before.matches('{').count(), before.matches('}').count(), "inside of a rule for a medium");
    }
    let panels: Vec<&str> = page.split("class=\"panels\"").skip(1).collect();
    assert_eq!(panels.len(), 2, "timelines and heat maps");
    for panels in panels {
        let panels = panels.split("</figure>").next().unwrap();
        assert_eq!(panels.matches("<svg ").count(), 15);
        assert_eq!(panels.matches(" class=\"run").count(), 15, "a panel that no box hides");
    }
}

#[test]
fn a_page_with_coflows_up_close_is_well_formed_and_stays_small() {
    let mut comparison = sample::comparison(5, 526);
    let before = html(&comparison, &info()).len();
    comparison.details = Some(sample::details(&comparison));
    let page = html(&comparison, &info());
    assert_balanced(&page);
    assert!(page.contains("<h2>One coflow") && page.contains("The 40 of 526 that take longest under fair"));
    assert!(page.len() < before + 100_000, "{} bytes more", page.len() - before);
    assert_eq!(page.matches("type=\"application/json\"").count(), 1);
}
