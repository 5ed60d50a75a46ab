//! The main table: one row for each policy, best mean first.
//!
//! It fits every screen. Where all columns do not, four of them are shown, and a box above the
//! table turns each row into a card with all of its figures: nothing scrolls sideways.

use cavalcade_metrics::{Comparison, Improvement, Ranked, RunFigures, Summary};

use crate::figures;
use crate::look::Look;
use crate::svg::escape;

/// A cell: what is shown, and what it is sorted by.
type Cell = (String, f64);

/// A column of the table: its heading and what it shows of each run.
struct Column {
    heading: String,
    /// Its heading where the one above it is not there.
    full: String,
    /// Begins a group of columns of this name, and is set off from the last.
    group: Option<String>,
    /// Shown on narrow screens too.
    first: bool,
    cells: Vec<Cell>,
}

fn columns(comparison: &Comparison, runs: &[&RunFigures]) -> Vec<Column> {
    let times = |of: &dyn Fn(&RunFigures) -> f64| -> Vec<Cell> {
        let values: Vec<f64> = runs.iter().map(|run| of(run)).collect();
        figures::times(&values).into_iter().zip(values).collect()
    };
    let numbers = |of: &dyn Fn(&RunFigures) -> f64| -> Vec<Cell> {
        runs.iter().map(|run| (figures::number(of(run)), of(run))).collect()
    };
    let spread = |of: &dyn Fn(&Improvement) -> (f64, f64)| -> Vec<Cell> {
        let cell = |run: &&RunFigures| match comparison.improvement(run).map(|improvement| of(&improvement)) {
            Some((low, high)) if low < high => {
                (format!("{}–{}", figures::number(low), figures::number(high)), low)
            }
            _ => ("–".to_owned(), 1.0),
        };
        runs.iter().map(cell).collect()
    };
    let factor = |gain: Option<Improvement>| match gain {
        Some(gain) => (figures::factor(gain.factor), gain.factor),
        None => ("–".to_owned(), 1.0),
    };
    let speedups = runs.iter().map(|run| factor(comparison.improvement(run)));
    let (time, noun) = (comparison.ranked().time(), comparison.ranked().noun());
    let summary = |of: &dyn Fn(&Summary) -> f64| times(&|run| of(comparison.summary(run)));
    let column = |heading: &str, full: &str, cells| Column {
        heading: heading.to_owned(),
        full: full.to_owned(),
        group: None,
        first: false,
        cells,
    };
    let speedup = format!("speedup over {}", comparison.baseline_run().label);
    let mut columns = vec![
        Column {
            group: Some(format!("{noun} completion time")),
            first: true,
            ..column("mean", &format!("mean {time}"), summary(&|times| times.mean_s))
        },
        column("p50", &format!("{time} p50"), summary(&|times| times.p50_s)),
        Column { first: true, ..column("p95", &format!("{time} p95"), summary(&|times| times.p95_s)) },
        column("p99", &format!("{time} p99"), summary(&|times| times.p99_s)),
        column("max", &format!("{time} max"), summary(&|times| times.max_s)),
        Column {
            group: Some("slowdown".to_owned()),
            ..column("mean", "slowdown", numbers(&|run| comparison.slowdown(run).mean))
        },
        column("p95", "slowdown p95", numbers(&|run| comparison.slowdown(run).p95)),
        Column { group: Some(speedup), first: true, ..column("of means", "speedup", speedups.collect()) },
        column("95 % interval", "95 % interval", spread(&|i| (i.interval.low, i.interval.high))),
        {
            let heading = format!("{noun}s p5–p95");
            column(&heading, &heading, spread(&|i| (i.coflow_p5, i.coflow_p95)))
        },
        Column {
            group: Some("run".to_owned()),
            ..column("makespan", "makespan", times(&|run| run.makespan.as_secs_f64()))
        },
    ];
    if comparison.ranked() == Ranked::Tasks {
        let cct = Column {
            group: Some("coflow completion time".to_owned()),
            ..column("mean", "mean CCT", times(&|run| run.cct_summary.mean_s))
        };
        let gains = runs.iter().map(|run| factor(run.improvement)).collect();
        let slowdown = numbers(&|run| run.slowdown_summary.mean);
        let coflows =
            [cct, column("speedup", "CCT speedup", gains), column("slowdown", "CCT slowdown", slowdown)];
        columns.splice(10..10, coflows);
    }
    if comparison.bound.is_some() {
        let cell = |run: &&RunFigures| match comparison.gap(run) {
            Some(share) => (figures::gap(share), share),
            None => ("–".to_owned(), 0.0),
        };
        columns.insert(1, column("gap", "gap", runs.iter().map(cell).collect()));
    }
    if comparison.trace.deadlines > 0 {
        let missed = runs.iter().map(|run| (figures::count(run.misses), run.misses as f64));
        columns.push(column("missed", "missed", missed.collect()));
    }
    columns
}

/// The table, with its caption.
pub(super) fn table(comparison: &Comparison, looks: &[Look]) -> String {
    let ranking = comparison.ranking();
    let runs: Vec<&RunFigures> = ranking.iter().map(|&run| &comparison.runs[run]).collect();
    let columns = columns(comparison, &runs);
    let mut out = "<section>\n<h2>All policies in figures</h2>\n<p class=\"caption\">Best mean first; a heading sorts by its \
         column. Told sizes: the policy knows how large flows are before they are sent. Terms are defined at the end. \
         <label class=\"cards\"><input type=\"checkbox\" id=\"cards\" autocomplete=\"off\"> all columns</label></p>\n\
         <table class=\"sortable main\">\n"
        .to_owned();
    head(&mut out, &columns);
    out.push_str("<tbody>\n");
    for (row, &run) in ranking.iter().enumerate() {
        let (label, figures) = (escape(&comparison.runs[run].shown()), &comparison.runs[run]);
        let base = if run == comparison.baseline { " base" } else { "" };
        let mut about = Vec::new();
        if !figures.about.paper.is_empty() {
            about.push(escape(&figures.about.paper));
        }
        if run == comparison.baseline {
            about.push("baseline".to_owned());
        }
        let told = match figures.about.told() {
            Some(true) => "<b>told sizes</b>",
            Some(false) => "not told sizes",
            None => "made elsewhere",
        };
        about.push(format!("<span class=\"whole\">{told}</span>"));
        out.push_str(&format!(
            "<tr data-run=\"{run}\"><th scope=\"row\" class=\"name\" title=\"{label}\" data-value=\"{label}\">\
             <span class=\"{}{base}\"><svg class=\"swatch\" viewBox=\"0 0 24 8\" aria-hidden=\"true\"><line class=\"curve\" \
             x1=\"0\" y1=\"4\" x2=\"24\" y2=\"4\"/></svg></span>{label}<span class=\"about\">{}</span></th>",
            looks[run].classes(),
            about.join(" · "),
        ));
        for column in &columns {
            let (shown, value) = &column.cells[row];
            out.push_str(&format!(
                "<td{} data-label=\"{}\" data-value=\"{value}\">{}</td>",
                class(column),
                column.full,
                escape(shown)
            ));
        }
        out.push_str("</tr>\n");
    }
    out.push_str("</tbody>\n</table>\n</section>\n");
    out
}

fn head(out: &mut String, columns: &[Column]) {
    out.push_str("<thead>\n<tr class=\"groups\"><td></td>");
    for group in columns.chunk_by(|_, next| next.group.is_none()) {
        let title = group[0].group.as_deref().unwrap_or_default();
        out.push_str(&format!(
            "<th scope=\"colgroup\" class=\"group\" colspan=\"{}\">{}</th>",
            group.len(),
            escape(title)
        ));
    }
    out.push_str(
        "</tr>\n<tr><th scope=\"col\" class=\"name\" aria-sort=\"none\"><button type=\"button\">policy</button></th>",
    );
    for (index, column) in columns.iter().enumerate() {
        let sorted = if index == 0 { "ascending" } else { "none" };
        out.push_str(&format!(
            "<th scope=\"col\"{} aria-sort=\"{sorted}\"><button type=\"button\"><span class=\"short\">{}</span><span \
             class=\"full\">{}</span></button></th>",
            class(column),
            column.heading,
            column.full
        ));
    }
    out.push_str("</tr>\n</thead>\n");
}

fn class(column: &Column) -> &'static str {
    match (column.group.is_some(), column.first) {
        (true, true) => " class=\"group\"",
        (true, false) => " class=\"group more\"",
        (false, true) => "",
        (false, false) => " class=\"more\"",
    }
}
