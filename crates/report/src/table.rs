//! The terminal table: one line per run, best first, in 120 columns.
//!
//! Layout is [`comfy_table`]'s without its terminal features: whether there is a terminal, how wide it is and whether
//! colour is wanted (`NO_COLOR`) are the caller's to know. Colour goes over whole lines after layout, so it cannot
//! disturb the alignment.

use cavalcade_metrics::{Bin, Comparison, RunFigures};
use comfy_table::{CellAlignment, ColumnConstraint, ContentArrangement, LineStyle, Table, TableStyle};

use crate::packets::Columns;
use crate::{figures, packets};

/// The look of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TableOptions {
    /// Adds a table of mean CCTs and factors by length × width.
    pub by_bin: bool,
    /// True if escape sequences for bold and dim text may be used.
    pub color: bool,
    /// Columns of the terminal; long labels are broken to fit.
    pub width: u16,
}

impl Default for TableOptions {
    /// One table of at most 120 columns without colour.
    fn default() -> Self {
        Self { by_bin: false, color: false, width: 120 }
    }
}

/// The comparison as text for a terminal, with footnotes; ends in a line break.
pub fn table(comparison: &Comparison, options: TableOptions) -> String {
    let runs: Vec<&RunFigures> =
        comparison.ranking().into_iter().map(|index| &comparison.runs[index]).collect();
    let mut out = String::new();
    lines_of(&mut out, &main_table(comparison, &runs, options.width), options.color);
    if options.by_bin {
        out.push('\n');
        lines_of(&mut out, &bin_table(comparison, &runs, options.width), options.color);
    }
    for more in [packets::flow_times(&runs), packets::queues(&runs), packets::negotiation(&runs)]
        .into_iter()
        .flatten()
    {
        out.push('\n');
        lines_of(&mut out, &layout(more.header, more.columns, options.width), options.color);
    }
    out.push('\n');
    for note in footnotes(comparison) {
        push_line(&mut out, &note, if options.color { DIM } else { PLAIN });
    }
    out
}

/// Escape sequences around a line.
type Paint = (&'static str, &'static str);
const PLAIN: Paint = ("", "");
const BOLD: Paint = ("\u{1b}[1m", "\u{1b}[0m");
const DIM: Paint = ("\u{1b}[2m", "\u{1b}[0m");

fn push_line(out: &mut String, line: &str, (before, after): Paint) {
    out.push_str(before);
    out.push_str(line.trim_end());
    out.push_str(after);
    out.push('\n');
}

/// Writes a laid-out table with its header bold.
fn lines_of(out: &mut String, table: &Table, color: bool) {
    let text = table.to_string();
    let rule = |line: &str| line.starts_with('─');
    let header = text.lines().position(rule).unwrap_or(0);
    for (number, line) in text.lines().enumerate() {
        let paint = match (color, number) {
            (false, _) => PLAIN,
            (true, number) if number < header => BOLD,
            (true, _) if rule(line) => DIM,
            (true, _) => PLAIN,
        };
        push_line(out, line, paint);
    }
}

/// A table without vertical lines, its first column to the left and all others to the right.
fn layout(header: Vec<String>, columns: Vec<Vec<String>>, width: u16) -> Table {
    let mut table = Table::new();
    // A rule below the header is the only line.
    let rule = LineStyle::none().fill('─');
    table
        .load_style(TableStyle::new().header_separator(rule))
        .set_content_arrangement(ContentArrangement::Dynamic)
        .set_width(width);
    let rows = columns.first().map_or(0, Vec::len);
    table.set_header(header);
    for row in 0..rows {
        table.add_row(columns.iter().map(|column| column[row].as_str()).collect::<Vec<_>>());
    }
    for (index, column) in table.column_iter_mut().enumerate() {
        if index == 0 {
            column.set_padding((0, 0));
        } else {
            column.set_padding((2, 0)).set_cell_alignment(CellAlignment::Right);
            column.set_constraint(ColumnConstraint::ContentWidth);
        }
    }
    table
}

/// Adds a table without colour.
pub(crate) fn push(out: &mut String, Columns { header, columns }: Columns, width: u16) {
    lines_of(out, &layout(header, columns, width), false);
}

/// The mark of a policy that is told sizes.
const TOLD: &str = " *";

fn main_table(comparison: &Comparison, runs: &[&RunFigures], width: u16) -> Table {
    let times = |of: &dyn Fn(&RunFigures) -> f64| {
        figures::times(&runs.iter().map(|run| of(run)).collect::<Vec<f64>>())
    };
    let cells = |of: &dyn Fn(&RunFigures) -> String| runs.iter().map(|run| of(run)).collect::<Vec<_>>();
    let mut columns = vec![
        (
            "policy".to_owned(),
            cells(&|run| format!("{}{}", run.label, if run.about.told_sizes { TOLD } else { "" })),
        ),
        ("mean CCT".to_owned(), times(&|run| run.cct_summary.mean_s)),
        ("p50".to_owned(), times(&|run| run.cct_summary.p50_s)),
        ("p95".to_owned(), times(&|run| run.cct_summary.p95_s)),
        ("p99".to_owned(), times(&|run| run.cct_summary.p99_s)),
        ("max".to_owned(), times(&|run| run.cct_summary.max_s)),
        ("slowdown".to_owned(), cells(&|run| figures::number(run.slowdown_summary.mean))),
        ("p95".to_owned(), cells(&|run| figures::number(run.slowdown_summary.p95))),
        ("makespan".to_owned(), times(&|run| run.makespan.as_secs_f64())),
        (
            format!("vs {}", comparison.baseline_run().policy),
            cells(&|run| run.improvement.map_or("–".to_owned(), |i| figures::factor(i.factor))),
        ),
        ("95 %".to_owned(), cells(&interval)),
    ];
    if comparison.bound.is_some() {
        let gap = |run: &RunFigures| comparison.gap(run).map_or("–".to_owned(), figures::gap);
        columns.insert(2, ("gap".to_owned(), cells(&gap)));
    }
    if comparison.trace.deadlines > 0 {
        columns.push(("missed".to_owned(), cells(&|run| figures::count(run.misses))));
    }
    columns.push(("wall".to_owned(), times(&|run| run.wall_s)));
    let (header, columns) = columns.into_iter().unzip();
    layout(header, columns, width)
}

/// The confidence interval of the factor; a dash where it is a point.
fn interval(run: &RunFigures) -> String {
    match run.improvement {
        Some(i) if i.interval.low < i.interval.high => {
            format!("{}–{}", figures::number(i.interval.low), figures::number(i.interval.high))
        }
        _ => "–".to_owned(),
    }
}

fn bin_table(comparison: &Comparison, runs: &[&RunFigures], width: u16) -> Table {
    let mut header = vec!["mean CCT by bin".to_owned()];
    let mut columns = vec![runs.iter().map(|run| run.label.clone()).collect::<Vec<_>>()];
    for bin in Bin::ALL.into_iter().filter(|bin| comparison.trace.bins[bin.index()].coflows > 0) {
        let figures_of: Vec<_> = runs.iter().filter_map(|run| run.bins[bin.index()]).collect();
        header.push(format!("{bin} ({})", figures::count(comparison.trace.bins[bin.index()].coflows)));
        columns.push(figures::times(&figures_of.iter().map(|f| f.cct.mean_s).collect::<Vec<_>>()));
        header.push(format!("vs {}", comparison.baseline_run().policy));
        columns.push(figures_of.iter().map(|f| figures::factor(f.improvement.factor)).collect());
    }
    layout(header, columns, width)
}

fn footnotes(comparison: &Comparison) -> Vec<String> {
    let trace = &comparison.trace;
    let mut notes = vec![
        format!(
            "{}, {}, {} on {} at {}.",
            figures::counted(trace.coflows, "coflow"),
            figures::counted(trace.flows, "flow"),
            figures::bytes(trace.bytes),
            figures::counted(comparison.fabric.ports as usize, "port"),
            figures::rates(comparison.fabric.slowest_bps, comparison.fabric.fastest_bps),
        ),
        format!(
            "vs {}: mean CCT of {} over that of the policy, with its 95 % confidence interval (bootstrap over coflows).",
            comparison.baseline_run().policy,
            comparison.baseline_run().label,
        ),
        "Percentiles by nearest rank. Slowdown: CCT over the coflow alone on the fabric, mean and p95."
            .to_owned(),
    ];
    if comparison.runs.iter().any(|run| run.about.told_sizes) {
        notes.push(
            "* told the sizes of all flows when they arrive: a yardstick for policies that are not."
                .to_owned(),
        );
    }
    if let Some(bound) = &comparison.bound {
        notes.push(format!(
            "gap: by how much the mean CCT is above {}, which no schedule can be below ({}, {}).",
            figures::time_rounded_down(bound.mean_cct),
            bound.method,
            bound.budget,
        ));
    }
    if comparison.runs.iter().any(|run| run.queue_use.is_some()) {
        notes.push(packets::NOTE.to_owned());
    }
    if comparison.runs.iter().any(|run| run.messages.is_some()) {
        notes.push(packets::NEGOTIATION_NOTE.to_owned());
    }
    if trace.deadlines > 0 {
        let least = match &comparison.bound {
            Some(bound) if bound.misses > 0 => format!("; no schedule misses fewer than {}", bound.misses),
            _ => String::new(),
        };
        notes.push(format!(
            "missed: of {} with a deadline{least}.",
            figures::counted(trace.deadlines, "task")
        ));
    }
    notes
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample;

    #[test]
    fn the_best_run_stands_first_and_lines_fit_120_columns() {
        let mut comparison = sample::comparison(15, 120);
        comparison.bound = Some(sample::bound(&comparison));
        let text = table(&comparison, TableOptions { by_bin: true, ..TableOptions::default() });
        let best = &comparison.runs[comparison.ranking()[0]].label;
        assert!(text.lines().nth(2).unwrap().starts_with(best.as_str()), "{text}");
        assert!(text.lines().all(|line| line.chars().count() <= 120), "{text}");
        assert!(!text.contains('\u{1b}') && !text.contains("NaN"), "{text}");
        for bin in Bin::ALL {
            assert!(text.contains(&format!("{bin} (")), "{text}");
        }
    }

    #[test]
    fn figures_are_aligned_right_and_none_is_broken() {
        let text = table(&sample::comparison(4, 60), TableOptions::default());
        let lines: Vec<&str> = text.lines().take_while(|line| !line.is_empty()).collect();
        let ends: Vec<usize> = lines.iter().map(|line| line.chars().count()).collect();
        assert_eq!(lines.len(), 6, "{text}");
        assert!(ends.windows(2).all(|pair| pair[0] == pair[1]), "{text}");
    }

    #[test]
    fn colour_changes_nothing_but_escape_sequences() {
        let comparison = sample::comparison(3, 40);
        let plain = table(&comparison, TableOptions::default());
        let mut colored = table(&comparison, TableOptions { color: true, ..TableOptions::default() });
        assert!(colored.contains(BOLD.0));
        for sequence in [BOLD.0, BOLD.1, DIM.0] {
            colored = colored.replace(sequence, "");
        }
        assert_eq!(colored, plain);
    }

    #[test]
    fn a_trace_without_coflows_still_has_a_table() {
        let text = table(&sample::empty(), TableOptions { by_bin: true, ..TableOptions::default() });
        assert!(text.contains("0 coflows"), "{text}");
    }
}
