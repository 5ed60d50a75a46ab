//! What scheduling would have saved in an application whose log was imported: on a terminal and on the page.
//!
//! The owner of an application asks about its queries, in seconds, not about coflows and ratios. So the queries come
//! first, each with its recorded time beside the simulated one, which shows how far the simulation can be trusted. Where the
//! network is not what a query waits for, that is the answer, and no policy is named.

use cavalcade_metrics::{Calibration, Comparison, QuerySavings, RateChoice, Savings};

use crate::figures;
use crate::grid::{Fit, Grid, NOTHING, wrapped};
use crate::html::page::plain_table;
use crate::svg::escape;

/// The most rows of a table: those that could save most.
const ROWS: usize = 20;
/// Beyond this the simulation does not describe the application.
const FAR_OFF: f64 = 0.1;

/// The tables and sentences for a terminal; empty where nothing was recorded.
pub fn savings(comparison: &Comparison, fit: Fit) -> String {
    let Some(saved) = &comparison.savings else { return String::new() };
    let mut out = format!("{}\n", wrapped(&format!("{}.", headline(comparison, saved)), fit.width));
    for sentence in sentences(comparison, saved) {
        out.push_str(&wrapped(&sentence, fit.width));
        out.push('\n');
    }
    for (_, grid) in tables(comparison, saved) {
        out.push('\n');
        out.push_str(&grid.show(fit));
    }
    out
}

/// The answer in a sentence.
pub(crate) fn headline(comparison: &Comparison, saved: &Savings) -> String {
    let subject = match &saved.together {
        Some(_) => format!("{} queries and jobs", saved.queries.len()),
        None => subject(saved),
    };
    let whole = saved.whole();
    let recorded = figures::time(whole.recorded_s);
    if !whole.waits_for_network {
        let most = match whole.most_s() {
            most if most < 0.000_5 => "nothing".to_owned(),
            most => format!("at most {}", figures::time(most)),
        };
        return format!(
            "The network is not what {} for: scheduling would have saved {most} of {recorded}",
            if saved.together.is_some() { format!("the {subject} wait") } else { format!("{subject} waits") }
        );
    }
    let best = |told: bool| whole.best(|run| comparison.runs[run].about.told_sizes == told);
    let gain = |run: usize| (comparison.runs[run].label.as_str(), figures::time(whole.saved_s[run]));
    match (best(false), best(true)) {
        (Some(run), told) => {
            let (label, seconds) = gain(run);
            let more = told.filter(|&told| whole.saved_s[told] > whole.saved_s[run]).map(|told| {
                let (label, seconds) = gain(told);
                format!("; told all sizes, {label} saves {seconds}")
            });
            format!("{label} saves {seconds} of the {recorded} of {subject}{}", more.unwrap_or_default())
        }
        (None, Some(told)) => {
            let (label, seconds) = gain(told);
            format!(
                "Only told all sizes a policy saves time: {label} {seconds} of the {recorded} of {subject}"
            )
        }
        (None, None) => format!("No policy saves time in {subject}, which took {recorded}"),
    }
}

fn subject(saved: &Savings) -> String {
    match saved.queries.as_slice() {
        [query] => query.name.clone(),
        _ => "the application".to_owned(),
    }
}

/// Recorded against simulated, the rate and how it was chosen, and what could be saved at most.
fn sentences(comparison: &Comparison, saved: &Savings) -> Vec<String> {
    let whole = &saved.application;
    let baseline = comparison.baseline_run().shown();
    let off = 100.0 * (whole.simulated_s / whole.recorded_s - 1.0);
    let mut sentences = vec![format!(
        "{} took {} as recorded, and takes {} in the simulation under {baseline} at {} ({off:+.1} %). On a network that is \
         never short it would take {}.",
        subject(saved).replace("the app", "The app"),
        seconds(whole.recorded_s),
        seconds(whole.simulated_s),
        figures::rate(saved.rate.rate()),
        seconds(whole.endless_s),
    )];
    sentences.push(rate_chosen(&saved.rate));
    let error = match &saved.rate {
        RateChoice::Calibrated(found) => found.error,
        RateChoice::Asked(_) => off.abs() / 100.0,
    };
    if error > FAR_OFF {
        sentences.push(format!(
            "Simulated times are {:.0} % off the recorded ones: do not trust seconds saved more than that.",
            100.0 * error
        ));
    }
    if saved.queries.len() > 1 {
        sentences.push(match saved.is_sequential {
            true => "No two queries ran at the same time, so what they save adds up.".to_owned(),
            false => "Queries overlap: the application ends with its last one, so it saves less than all of them added up.".to_owned(),
        });
    }
    sentences
}

/// Says at which rate an imported log is simulated, and why.
pub fn rate_chosen(choice: &RateChoice) -> String {
    let rate = figures::rate;
    match choice {
        RateChoice::Asked(asked) => format!("The rate, {}, is the one that was asked for.", rate(*asked)),
        RateChoice::Calibrated(Calibration { best, slowest, fastest: Some(fastest), .. }) => format!(
            "The rate is inferred: at {} fair sharing gives the recorded times best, and {} within 2 % of that. Set another \
             with --rate.",
            rate(*best),
            match slowest == fastest {
                true => "no other does".to_owned(),
                false => format!("rates from {} to {} do", rate(*slowest), rate(*fastest)),
            }
        ),
        RateChoice::Calibrated(Calibration { slowest, fastest: None, .. }) => format!(
            "The log does not tell the rate: every network of {0} and more gives the recorded times equally well, within 2 %. \
             Figures are for {0}, so savings are upper bounds; set the rate with --rate.",
            rate(*slowest)
        ),
    }
}

/// Seconds with two decimals.
fn seconds(value: f64) -> String {
    if value.abs() < 0.005 { "0 s".to_owned() } else { format!("{value:.2} s") }
}

/// Queries; and where the network matters, policies and shuffles. Each with its title.
fn tables(comparison: &Comparison, saved: &Savings) -> Vec<(&'static str, Grid)> {
    let mut tables = vec![("Queries and jobs", queries(comparison, saved))];
    if saved.whole().waits_for_network {
        tables.push(("Seconds saved by each policy", policies(comparison, saved)));
        if !saved.shuffles.is_empty() {
            tables.push(("Shuffles, one by one", shuffles(comparison, saved)));
        }
    }
    tables
}

fn queries(comparison: &Comparison, saved: &Savings) -> Grid {
    let mut rows: Vec<&QuerySavings> = saved.queries.iter().collect();
    let left_out = rows.len().saturating_sub(ROWS);
    if left_out > 0 {
        rows.sort_by(|a, b| b.most_s().total_cmp(&a.most_s()));
        rows.truncate(ROWS);
    }
    if saved.queries.len() > 1 {
        rows.extend(&saved.together);
        rows.push(&saved.application);
    }
    let best = |told: bool| {
        let cell = |query: &&QuerySavings| {
            if !query.waits_for_network {
                return NOTHING.to_owned();
            }
            let best = query.best(|run| comparison.runs[run].about.told_sizes == told);
            best.map_or(NOTHING.to_owned(), |run| {
                format!("{} by {}", seconds(query.saved_s[run]), comparison.runs[run].label)
            })
        };
        rows.iter().map(cell).collect::<Vec<_>>()
    };
    let cells = |of: &dyn Fn(&QuerySavings) -> f64| -> Vec<String> {
        rows.iter().map(|query| seconds(of(query))).collect()
    };
    let heading = match left_out {
        0 => "query or job".to_owned(),
        left_out => format!("query or job ({left_out} that could save less are left out)"),
    };
    Grid::default()
        .text(heading, rows.iter().map(|query| query.name.clone()))
        .figures("recorded", cells(&|query| query.recorded_s))
        .figures(format!("simulated, {}", comparison.baseline_run().label), cells(&|query| query.simulated_s))
        .figures("endless network", cells(&|query| query.endless_s))
        .figures("could save", cells(&|query| query.most_s()))
        .figures("saved, not told sizes", best(false))
        .figures("saved, told sizes", best(true))
}

fn policies(comparison: &Comparison, saved: &Savings) -> Grid {
    let whole = saved.whole();
    let mut runs: Vec<usize> = (0..comparison.runs.len()).filter(|&run| run != comparison.baseline).collect();
    runs.sort_by(|&a, &b| whole.saved_s[b].total_cmp(&whole.saved_s[a]));
    // Added to zero, a small loss is not shown as −0.0.
    let percent = |run: usize| (1000.0 * whole.saved_s[run] / whole.simulated_s).round() / 10.0 + 0.0;
    let share = |&run: &usize| format!("{:.1} %", percent(run));
    let told = |&run: &usize| if comparison.runs[run].about.told_sizes { "yes" } else { "no" }.to_owned();
    Grid::default()
        .text("policy", runs.iter().map(|&run| comparison.runs[run].shown()))
        .figures("saves", runs.iter().map(|&run| seconds(whole.saved_s[run])))
        .figures("of the time", runs.iter().map(share))
        .figures("told sizes", runs.iter().map(told))
}

fn shuffles(comparison: &Comparison, saved: &Savings) -> Grid {
    let time = |run: usize, coflow: usize| comparison.runs[run].cct[coflow].as_secs_f64();
    let baseline = comparison.baseline;
    let best = |coflow: usize| {
        let runs = 0..comparison.runs.len();
        runs.min_by(|&a, &b| time(a, coflow).total_cmp(&time(b, coflow))).unwrap_or(baseline)
    };
    let gain = |coflow: usize| time(baseline, coflow) - time(best(coflow), coflow);
    let mut rows: Vec<(usize, &str)> =
        saved.shuffles.iter().map(|shuffle| (shuffle.coflow, shuffle.name.as_str())).collect();
    rows.sort_by(|a, b| gain(b.0).total_cmp(&gain(a.0)));
    rows.truncate(ROWS);
    let by = |coflow: usize| {
        // A hundredth of its time is not worth naming anybody for.
        let is_worth = gain(coflow) >= 0.01 * time(baseline, coflow);
        if is_worth { comparison.runs[best(coflow)].label.clone() } else { NOTHING.to_owned() }
    };
    Grid::default()
        .text("shuffle", rows.iter().map(|(_, name)| (*name).to_owned()))
        .figures(
            format!("CCT, {}", comparison.runs[baseline].label),
            rows.iter().map(|&(coflow, _)| seconds(time(baseline, coflow))),
        )
        .figures("shortest", rows.iter().map(|&(coflow, _)| seconds(time(best(coflow), coflow))))
        .figures("by", rows.iter().map(|&(coflow, _)| by(coflow)))
}

/// The section of the page.
pub(crate) fn section(comparison: &Comparison, saved: &Savings) -> String {
    let mut out = "<section>\n<h2>Recorded and simulated</h2>\n".to_owned();
    for sentence in sentences(comparison, saved) {
        out.push_str(&format!("<p class=\"lead\">{}</p>\n", escape(&sentence)));
    }
    for (title, grid) in tables(comparison, saved) {
        out.push_str(&format!("<h3>{title}</h3>\n{}", plain_table(title, &grid)));
    }
    out.push_str("<h3>How far the import can be trusted</h3>\n<dl class=\"short\">\n");
    for note in &saved.notes {
        out.push_str(&format!("<dt>{}</dt><dd>{}</dd>\n", escape(&note.certainty), escape(&note.text)));
    }
    out.push_str(
        "</dl>\n<p class=\"caption\">What follows is about coflows, here shuffles: how soon each was done. A shuffle that hides \
         behind computation saves its query nothing however soon it is done.</p>\n</section>\n",
    );
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample;
    use cavalcade_metrics::{ImportNote, RecordedShuffle};
    use cavalcade_model::BitsPerSec;

    fn query(name: &str, simulated_s: f64, endless_s: f64, saved_s: Vec<f64>) -> QuerySavings {
        let waits_for_network = simulated_s - endless_s >= 0.01 * simulated_s;
        let name = name.to_owned();
        QuerySavings { name, recorded_s: 71.125, simulated_s, endless_s, waits_for_network, saved_s }
    }

    /// Three runs, of which the first is told sizes and the second is the baseline.
    fn saved(simulated_s: f64, endless_s: f64, saved_s: Vec<f64>) -> Comparison {
        let mut comparison = sample::comparison(3, 6);
        let query = query("query72", simulated_s, endless_s, saved_s);
        let (best, slowest) = (BitsPerSec(10_000_000_000), BitsPerSec(1_100_000_000));
        comparison.savings = Some(Savings {
            rate: RateChoice::Calibrated(Calibration { best, error: 0.001, slowest, fastest: None }),
            application: query.clone(),
            queries: vec![query],
            together: None,
            is_sequential: true,
            shuffles: vec![RecordedShuffle { coflow: 0, name: "query72, stage 1 to 2".to_owned() }],
            notes: vec![ImportNote { certainty: "estimated".to_owned(), text: "<guess>".to_owned() }],
        });
        comparison
    }

    #[test]
    fn where_the_network_does_not_matter_no_policy_wins() {
        let comparison = saved(71.2, 71.1, vec![0.05, 0.0, 0.04]);
        let text = savings(&comparison, Fit::default());
        assert!(text.starts_with("The network is not what query72 waits for: "), "{text}");
        assert!(!text.contains('×') && !text.contains("by sebf") && !text.contains("shuffle"), "{text}");
        assert!(text.contains("every network of 1.1 Gbps and more"), "{text}");
        assert!(text.contains("71.12 s as recorded") || text.contains("71.13 s as recorded"), "{text}");
    }

    #[test]
    fn queries_that_overlap_are_answered_for_together_though_the_application_ends_no_sooner() {
        let mut comparison = saved(71.2, 71.1, vec![0.05, 0.0, 0.04]);
        let saved = comparison.savings.as_mut().unwrap();
        saved.queries = vec![query("a", 9.0, 2.0, vec![4.0, 0.0, 3.0]), query("b", 71.2, 71.1, vec![0.0; 3])];
        saved.together = Some(query("all of them, added up", 80.2, 73.1, vec![4.0, 0.0, 3.0]));
        saved.is_sequential = false;
        let text = savings(&comparison, Fit::default());
        let first = text.lines().next().unwrap();
        assert!(first.contains("of 2 queries and jobs") && !first.contains("not what"), "{text}");
        assert!(text.contains("all of them, added up") && text.contains("ends with its last one"), "{text}");
    }

    #[test]
    fn a_policy_that_saves_time_is_named_and_one_that_is_told_sizes_said_to_be() {
        let mut comparison = saved(71.2, 31.1, vec![20.0, 0.0, 8.0]);
        comparison.runs[2].about.told_sizes = false;
        let text = savings(&comparison, Fit::default());
        let told = "; told all sizes, sebf saves 20.0 s";
        assert!(text.lines().next().unwrap().contains(told), "{text}");
        assert!(text.contains("query72, stage 1 to 2"), "{text}");
    }

    #[test]
    fn a_page_of_an_application_that_does_not_wait_for_the_network_has_no_ratios() {
        let info = crate::ReportInfo {
            command: String::new(),
            version: String::new(),
            trace: "log".to_owned(),
            seed: None,
        };
        let page = crate::html(&saved(71.2, 71.1, vec![0.05, 0.0, 0.04]), &info);
        assert!(page.contains("<h1>The network is not what query72 waits for"));
        assert!(!page.contains('×') && !page.contains("Who gains") && page.contains("Timelines"));
        let page = crate::html(&saved(71.2, 31.1, vec![20.0, 0.0, 8.0]), &info);
        assert!(page.contains('×') && page.contains("Who gains"));
    }

    #[test]
    fn the_page_has_recorded_times_and_notes() {
        let page = section(
            &saved(71.2, 31.1, vec![20.0, 0.0, 8.0]),
            saved(71.2, 31.1, vec![20.0, 0.0, 8.0]).savings.as_ref().unwrap(),
        );
        assert!(page.contains("&lt;guess&gt;") && page.contains("recorded") && page.contains("query72"));
    }
}
