//! The main table: one row for each policy, best mean first.
//!
//! It fits every screen. Where all columns do not, four of them are shown, and a box above the table turns each row into a
//! card with all of its figures: nothing scrolls sideways.

use cavalcade_metrics::{Comparison, Improvement, RunFigures};

use crate::figures;
use crate::look::Look;
use crate::svg::escape;

/// A cell: what is shown, and what it is sorted by.
type Cell = (String, f64);

/// A column of the table: its heading and what it shows of each run.
struct Column {
    heading: &'static str,
    /// Its heading where the one above it is not there.
    full: &'static str,
    /// Begins a group of columns, and is set off from the last.
    group: bool,
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
        let cell = |run: &&RunFigures| match run.improvement.map(|improvement| of(&improvement)) {
            Some((low, high)) if low < high => {
                (format!("{}–{}", figures::number(low), figures::number(high)), low)
            }
            _ => ("–".to_owned(), 1.0),
        };
        runs.iter().map(cell).collect()
    };
    let speedups = runs.iter().map(|run| match run.improvement {
        Some(improvement) => (figures::factor(improvement.factor), improvement.factor),
        None => ("–".to_owned(), 1.0),
    });
    let column = |heading, full, cells| Column { heading, full, group: false, first: false, cells };
    let mut columns = vec![
        Column {
            group: true,
            first: true,
            ..column("mean", "mean CCT", times(&|run| run.cct_summary.mean_s))
        },
        column("p50", "CCT p50", times(&|run| run.cct_summary.p50_s)),
        Column { first: true, ..column("p95", "CCT p95", times(&|run| run.cct_summary.p95_s)) },
        column("p99", "CCT p99", times(&|run| run.cct_summary.p99_s)),
        column("max", "CCT max", times(&|run| run.cct_summary.max_s)),
        Column { group: true, ..column("mean", "slowdown", numbers(&|run| run.slowdown_summary.mean)) },
        column("p95", "slowdown p95", numbers(&|run| run.slowdown_summary.p95)),
        Column { group: true, first: true, ..column("of means", "speedup", speedups.collect()) },
        column("95 % interval", "95 % interval", spread(&|i| (i.interval.low, i.interval.high))),
        column("coflows p5–p95", "coflows p5–p95", spread(&|i| (i.coflow_p5, i.coflow_p95))),
        Column { group: true, ..column("makespan", "makespan", times(&|run| run.makespan.as_secs_f64())) },
    ];
    if comparison.bound.is_some() {
        let cell = |run: &&RunFigures| match comparison.gap(run) {
            Some(share) => (figures::gap(share), share),
            None => ("–".to_owned(), 0.0),
        };
        columns.insert(1, column("gap", "gap", runs.iter().map(cell).collect()));
    }
    if comparison.trace.deadlines > 0 {
        columns.push(column("missed", "missed", numbers(&|run| run.misses as f64)));
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
    head(&mut out, comparison, &columns);
    out.push_str("<tbody>\n");
    for (row, &run) in ranking.iter().enumerate() {
        let (label, figures) = (escape(&comparison.runs[run].label), &comparison.runs[run]);
        let base = if run == comparison.baseline { " base" } else { "" };
        let mut about = Vec::new();
        if !figures.about.paper.is_empty() {
            about.push(escape(&figures.about.paper));
        }
        if run == comparison.baseline {
            about.push("baseline".to_owned());
        }
        let told = if figures.about.told_sizes { "<b>told sizes</b>" } else { "not told sizes" };
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

fn head(out: &mut String, comparison: &Comparison, columns: &[Column]) {
    let times = 5 + usize::from(comparison.bound.is_some());
    out.push_str(&format!(
        "<thead>\n<tr class=\"groups\"><td></td><th scope=\"colgroup\" class=\"group\" colspan=\"{times}\">coflow completion \
         time</th><th scope=\"colgroup\" class=\"group\" colspan=\"2\">slowdown</th><th scope=\"colgroup\" class=\"group\" \
         colspan=\"3\">speedup over {}</th><th scope=\"colgroup\" class=\"group\" colspan=\"{}\">run</th></tr>\n<tr>\
         <th scope=\"col\" class=\"name\" aria-sort=\"none\"><button type=\"button\">policy</button></th>",
        escape(&comparison.baseline_run().label),
        columns.len() - times - 5,
    ));
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
    match (column.group, column.first) {
        (true, true) => " class=\"group\"",
        (true, false) => " class=\"group more\"",
        (false, true) => "",
        (false, false) => " class=\"more\"",
    }
}
