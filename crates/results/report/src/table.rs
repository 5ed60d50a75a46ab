//! The terminal table: one line per run, best first, its columns in the order of their worth
//! ([`crate::grid`]).

use cavalcade_metrics::{Bin, Comparison, Improvement, Ranked, RunFigures};

use crate::grid::{Fit, Grid, NOTHING, note};
use crate::{figures, packets};

/// The look of a table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TableOptions {
    /// Adds a table of mean CCTs and factors by length × width.
    pub by_bin: bool,
    /// The room for it.
    pub fit: Fit,
}

/// The comparison as text for a terminal, with footnotes; ends in a line break.
pub fn table(comparison: &Comparison, options: TableOptions) -> String {
    let runs: Vec<&RunFigures> =
        comparison.ranking().into_iter().map(|index| &comparison.runs[index]).collect();
    let fit = options.fit;
    let bins = options.by_bin.then(|| bin_table(comparison, &runs));
    let more = [bins, packets::flow_times(&runs), packets::queues(&runs), packets::negotiation(&runs)];
    let mut out = main_table(comparison, &runs).show(fit);
    for grid in more.into_iter().flatten() {
        out.push('\n');
        out.push_str(&grid.show(fit));
    }
    out.push('\n');
    for text in footnotes(comparison) {
        note(&mut out, &text, fit);
    }
    out
}

/// The mark of a policy that is told sizes.
const TOLD: &str = " *";

pub(crate) fn main_table(comparison: &Comparison, runs: &[&RunFigures]) -> Grid {
    let times = |of: &dyn Fn(&RunFigures) -> f64| {
        figures::times(&runs.iter().map(|run| of(run)).collect::<Vec<f64>>())
    };
    let cells = |of: &dyn Fn(&RunFigures) -> String| runs.iter().map(|run| of(run)).collect::<Vec<_>>();
    let factor =
        |gain: Option<Improvement>| gain.map_or(NOTHING.to_owned(), |gain| figures::factor(gain.factor));
    let baseline = &comparison.baseline_run().policy;
    let time = comparison.ranked().time();
    let mut grid = Grid::default()
        .text(
            "policy",
            cells(&|run| format!("{}{}", run.shown(), if run.about.told_sizes { TOLD } else { "" })),
        )
        .figures(format!("mean {time}"), times(&|run| comparison.summary(run).mean_s))
        .figures(format!("vs {baseline}"), cells(&|run| factor(comparison.improvement(run))))
        .figures("95 %", cells(&|run| interval(comparison.improvement(run))));
    if comparison.bound.is_some() {
        let gap = |run: &RunFigures| comparison.gap(run).map_or(NOTHING.to_owned(), figures::gap);
        grid = grid.figures("gap", cells(&gap));
    }
    if comparison.trace.deadlines > 0 {
        grid = grid.figures("missed", cells(&|run| figures::count(run.misses)));
    }
    if comparison.ranked() == Ranked::Tasks {
        grid = grid
            .figures("mean CCT", times(&|run| run.cct_summary.mean_s))
            .figures(format!("CCT vs {baseline}"), cells(&|run| factor(run.improvement)));
    }
    grid.figures("p50", times(&|run| comparison.summary(run).p50_s))
        .figures("p95", times(&|run| comparison.summary(run).p95_s))
        .figures("slowdown", cells(&|run| figures::number(comparison.slowdown(run).mean)))
        .figures("slowdown p95", cells(&|run| figures::number(comparison.slowdown(run).p95)))
        .figures("makespan", times(&|run| run.makespan.as_secs_f64()))
        .figures("max", times(&|run| comparison.summary(run).max_s))
        .figures("p99", times(&|run| comparison.summary(run).p99_s))
        .figures("wall", times(&|run| run.wall_s))
}

/// The confidence interval of the factor; a dash where it is a point.
fn interval(gain: Option<Improvement>) -> String {
    match gain {
        Some(i) if i.interval.low < i.interval.high => {
            format!("{}–{}", figures::number(i.interval.low), figures::number(i.interval.high))
        }
        _ => NOTHING.to_owned(),
    }
}

fn bin_table(comparison: &Comparison, runs: &[&RunFigures]) -> Grid {
    let mut grid = Grid::default().text("mean CCT by bin", runs.iter().map(|run| run.label.clone()));
    for bin in Bin::ALL.into_iter().filter(|bin| comparison.trace.bins[bin.index()].coflows > 0) {
        let of: Vec<_> = runs.iter().filter_map(|run| run.bins[bin.index()]).collect();
        let coflows = figures::count(comparison.trace.bins[bin.index()].coflows);
        let means: Vec<f64> = of.iter().map(|figures| figures.cct.mean_s).collect();
        let factors = of.iter().map(|figures| figures::factor(figures.improvement.factor));
        grid = grid
            .figures(format!("{bin} ({coflows})"), figures::times(&means))
            .figures(format!("{bin} vs {}", comparison.baseline_run().policy), factors);
    }
    grid
}

pub(crate) fn footnotes(comparison: &Comparison) -> Vec<String> {
    let trace = &comparison.trace;
    let (time, noun) = (comparison.ranked().time(), comparison.ranked().noun());
    let tasks = match comparison.ranked() {
        Ranked::Coflows => String::new(),
        Ranked::Tasks => format!("{}, ", figures::counted(trace.tasks, "task")),
    };
    let mut notes = vec![
        format!(
            "{tasks}{}, {}, {} on {} at {}.",
            figures::counted(trace.coflows, "coflow"),
            figures::counted(trace.flows, "flow"),
            figures::bytes(trace.bytes),
            figures::counted(comparison.fabric.ports as usize, "port"),
            figures::rates(comparison.fabric.slowest_bps, comparison.fabric.fastest_bps),
        ),
        format!(
            "vs {}: mean {time} of {} over that of the policy, with its 95 % confidence interval (bootstrap over {noun}s).",
            comparison.baseline_run().policy,
            comparison.baseline_run().label,
        ),
    ];
    notes.push(match comparison.ranked() {
        Ranked::Coflows => {
            "Percentiles by nearest rank. Slowdown: CCT over the coflow alone on the fabric, mean and p95.".to_owned()
        }
        Ranked::Tasks => {
            "TCT: from a task's arrival to the end of its last stage; CCT: of each of its coflows. Percentiles, of tasks, by \
             nearest rank. Slowdown: TCT over the task's longest chain of stages, each alone on the fabric, mean and p95."
                .to_owned()
        }
    });
    if comparison.runs.iter().any(|run| run.about.is_schedule) {
        notes.push(
            "(schedule): made elsewhere and read from a file; the validator has checked it.".to_owned(),
        );
    }
    let stands = |run: &&RunFigures| !run.about.stands_for.is_empty() && run.shown() != run.label;
    if let Some(run) = comparison.runs.iter().find(stands) {
        notes.push(format!(
            "{}: {} stands for {}, without the time that it takes to find its rates.",
            run.shown(),
            run.policy,
            run.about.stands_for
        ));
    }
    if comparison.runs.iter().any(|run| run.about.told_sizes) {
        notes.push(
            "* told the sizes of all flows when they arrive: a yardstick for policies that are not."
                .to_owned(),
        );
    }
    if let Some(bound) = &comparison.bound {
        notes.push(format!(
            "gap: by how much the mean {time} is above {}, which no schedule can be below ({}, {}).",
            figures::time_rounded_down(bound.mean),
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

    fn at(width: u16) -> TableOptions {
        TableOptions { fit: Fit { width: Some(width), color: false }, by_bin: true }
    }

    #[test]
    fn the_best_run_stands_first_and_nothing_is_left_out_of_a_pipe() {
        let mut comparison = sample::comparison(15, 120);
        comparison.bound = Some(sample::bound(&comparison));
        let text = table(&comparison, TableOptions { by_bin: true, ..TableOptions::default() });
        let best = &comparison.runs[comparison.ranking()[0]].label;
        assert!(text.lines().nth(2).unwrap().starts_with(best.as_str()), "{text}");
        assert!(!text.contains('\u{1b}') && !text.contains("NaN") && !text.contains("left out"), "{text}");
        for bin in Bin::ALL {
            assert!(text.contains(&format!("{bin} (")), "{text}");
        }
    }

    #[test]
    fn figures_end_at_one_column_and_none_is_broken() {
        let text = table(&sample::comparison(4, 60), TableOptions::default());
        let lines: Vec<&str> = text.lines().take_while(|line| !line.is_empty()).collect();
        let ends: Vec<usize> = lines.iter().map(|line| line.chars().count()).collect();
        assert_eq!(lines.len(), 6, "{text}");
        assert!(ends.windows(2).all(|pair| pair[0] == pair[1]), "{text}");
    }

    /// What a terminal shows of a comparison with long names and with very large figures.
    #[test]
    fn the_table_fits_terminals_of_every_width() {
        let mut comparison = sample::comparison(5, 60);
        comparison.bound = Some(sample::bound(&comparison));
        comparison.runs[3].label = "dclas:queues=20,factor=2,first_threshold=1MB".to_owned();
        let mut large = sample::comparison(3, 60);
        for run in &mut large.runs {
            run.cct_summary.mean_s += 1.764e9;
            run.cct_summary.max_s += 1.764e9;
            run.slowdown_summary.p95 = 1e12;
        }
        let mut shown = String::new();
        for width in [60, 80, 100, 140] {
            for (title, comparison) in [("long names", &comparison), ("large figures", &large)] {
                let text = table(comparison, at(width));
                assert!(text.lines().all(|line| line.chars().count() <= usize::from(width)), "{text}");
                shown.push_str(&format!("== {title} at {width} columns\n\n{text}\n"));
            }
        }
        crate::golden::compare("tables.txt", &shown);
    }

    #[test]
    fn where_tasks_have_stages_both_completion_times_are_shown_and_tasks_come_first() {
        let text = table(&sample::staged(), TableOptions::default());
        let rows: Vec<Vec<&str>> = text.lines().map(|line| line.split_whitespace().collect()).collect();
        assert_eq!(rows[0][..10].join(" "), "policy mean TCT vs fair 95 % missed mean CCT");
        assert_eq!(rows[2][..8].join(" "), "fair 4.50 s 1.00× – 1 3.00 s");
        assert!(text.contains("2 tasks, 3 coflows") && text.contains("mean TCT of fair"), "{text}");
        let single = table(&sample::comparison(2, 10), TableOptions::default());
        assert!(!single.contains("TCT") && !single.contains("task"), "{single}");
    }

    #[test]
    fn a_trace_without_coflows_still_has_a_table() {
        let text = table(&sample::empty(), at(80));
        assert!(text.contains("0 coflows"), "{text}");
    }
}
