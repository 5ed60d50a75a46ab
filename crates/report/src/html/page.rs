//! The page around the charts: headline, table, captions, how to reproduce it, definitions.
//!
//! Every sentence is made of the figures, so a headline cannot claim what the table does not show. All text from outside
//! (labels, names, the command line) goes through [`escape`].

use cavalcade_metrics::{Comparison, Improvement, RunFigures};

use super::{ReportInfo, bins, cdf, heatmap, palette, queues, timeline};
use crate::packets::Columns;
use crate::svg::escape;
use crate::{figures, packets};

const STYLE: &str = include_str!("style.css");
const SCRIPT: &str = include_str!("script.js");

/// The whole document.
pub(super) fn render(comparison: &Comparison, info: &ReportInfo) -> String {
    let looks = palette::looks(comparison);
    let headline = headline(comparison);
    let parts = [
        header(comparison, info, &headline),
        table(comparison, &looks),
        cdf::chart(comparison, &looks).map_or_else(String::new, |chart| distribution(comparison, &chart)),
        bins::chart(comparison, &looks).map_or_else(String::new, |chart| by_bin(comparison, &chart)),
        timelines(comparison),
        heat_maps(comparison),
        over_packets(comparison, &looks),
        reproduce(comparison, info),
        definitions(comparison),
    ];
    format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"color-scheme\" content=\"light dark\">\n\
         <meta name=\"generator\" content=\"cavalcade {}\">\n<title>{}</title>\n<style>\n{STYLE}</style>\n</head>\n\
         <body>\n<main>\n{}</main>\n<script>\n{SCRIPT}</script>\n</body>\n</html>\n",
        escape(&info.version),
        escape(&headline),
        parts.concat(),
    )
}

/// What the comparison shows, in a sentence.
pub(super) fn headline(comparison: &Comparison) -> String {
    let ranking = comparison.ranking();
    let best = &comparison.runs[ranking[0]];
    let baseline = comparison.baseline_run();
    let mean = |run: &RunFigures| run.cct_summary.mean_s;
    let Some(next) = ranking.get(1).map(|&run| &comparison.runs[run]) else {
        return format!("{} finishes a coflow in {} on average", best.label, figures::time(mean(best)));
    };
    let (rival, ratio) = if ranking[0] == comparison.baseline {
        (next, mean(next) / mean(best))
    } else {
        (baseline, mean(baseline) / mean(best))
    };
    // Below this the factor would read 1.0×; without any time at all it is no number.
    if !ratio.is_finite() || ratio < 1.05 {
        return format!("{} and {} finish coflows equally soon on average", best.label, rival.label);
    }
    format!(
        "{} finishes coflows {} sooner than {} on average",
        best.label,
        figures::short_factor(ratio),
        rival.label
    )
}

fn header(comparison: &Comparison, info: &ReportInfo, headline: &str) -> String {
    let trace = &comparison.trace;
    let mut facts = vec![
        format!("<strong>{}</strong>", escape(&info.trace)),
        figures::counted(trace.coflows, "coflow"),
        figures::counted(trace.flows, "flow"),
        figures::bytes(trace.bytes),
        format!(
            "{} at {}",
            figures::counted(comparison.fabric.ports as usize, "port"),
            figures::rates(comparison.fabric.slowest_bps, comparison.fabric.fastest_bps)
        ),
    ];
    if trace.tasks != trace.coflows {
        facts.insert(1, figures::counted(trace.tasks, "task"));
    }
    format!(
        "<header>\n<p class=\"kind\">Cavalcade · {} compared</p>\n<h1>{}</h1>\n<p class=\"facts\">{}</p>\n{}</header>\n",
        figures::counted(comparison.runs.len(), "scheduling policy").replace("policys", "policies"),
        escape(headline),
        facts.join(" · "),
        lead(comparison),
    )
}

/// The headline's figures in full, and how evenly the gain is shared out.
fn lead(comparison: &Comparison) -> String {
    let time = |seconds: f64| unbroken(&figures::time(seconds));
    let ranking = comparison.ranking();
    let (best, baseline) = (&comparison.runs[ranking[0]], comparison.baseline_run());
    let (best_name, name) = (escape(&best.label), escape(&baseline.label));
    match best.improvement {
        Some(improvement) if ranking[0] != comparison.baseline => format!(
            "<p class=\"lead\">The mean coflow completion time is {} under {best_name} and {} under {name}: a factor of \
             {}{}. Coflow by coflow, the median factor is {}; for one coflow in twenty it is {} or less, for another \
             one in twenty {} or more.{}</p>\n",
            time(best.cct_summary.mean_s),
            time(baseline.cct_summary.mean_s),
            figures::number(improvement.factor),
            interval_in_words(&improvement),
            figures::number(improvement.coflow_p50),
            figures::number(improvement.coflow_p5),
            figures::number(improvement.coflow_p95),
            room_left(comparison),
        ),
        Some(_) if comparison.runs.len() > 1 => format!(
            "<p class=\"lead\">No policy compared has a lower mean coflow completion time than the baseline, {name}: {}.{}</p>\n",
            time(baseline.cct_summary.mean_s),
            room_left(comparison),
        ),
        _ => String::new(),
    }
}

/// How close the best run is to the best that there could be; to be set behind another sentence.
fn room_left(comparison: &Comparison) -> String {
    let best = &comparison.runs[comparison.ranking()[0]];
    let (Some(bound), Some(gap)) = (&comparison.bound, comparison.gap(best)) else { return String::new() };
    format!(
        " No schedule, whatever it knows, has a mean below {}, so {} is at most {} above the best possible.",
        unbroken(&figures::time_rounded_down(bound.mean_cct)),
        escape(&best.label),
        unbroken(&figures::gap(gap)),
    )
}

fn interval_in_words(improvement: &Improvement) -> String {
    let interval = improvement.interval;
    if interval.low < interval.high {
        format!(
            " (95\u{a0}% interval {} to {})",
            figures::number(interval.low),
            figures::number(interval.high)
        )
    } else {
        String::new()
    }
}

/// A number and its unit, not to be parted at the end of a line.
fn unbroken(text: &str) -> String {
    text.replace(' ', "\u{a0}")
}

/// A cell: what is shown, and what it is sorted by.
type Cell = (String, f64);

/// A column of the table: its heading and what it shows of each run.
struct Column {
    heading: String,
    /// Begins a group of columns, and is set off from the last.
    group: bool,
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
    let factors = runs.iter().map(|run| match run.improvement {
        Some(improvement) => (figures::factor(improvement.factor), improvement.factor),
        None => ("–".to_owned(), 1.0),
    });
    let column = |heading: &str, group, cells| Column { heading: heading.to_owned(), group, cells };
    let mut columns = vec![
        column("mean", true, times(&|run| run.cct_summary.mean_s)),
        column("p50", false, times(&|run| run.cct_summary.p50_s)),
        column("p95", false, times(&|run| run.cct_summary.p95_s)),
        column("p99", false, times(&|run| run.cct_summary.p99_s)),
        column("max", false, times(&|run| run.cct_summary.max_s)),
        column("mean", true, numbers(&|run| run.slowdown_summary.mean)),
        column("p95", false, numbers(&|run| run.slowdown_summary.p95)),
        column("of means", true, factors.collect()),
        column("95 % interval", false, spread(&|i| (i.interval.low, i.interval.high))),
        column("coflows p5–p95", false, spread(&|i| (i.coflow_p5, i.coflow_p95))),
        column("makespan", true, times(&|run| run.makespan.as_secs_f64())),
    ];
    if comparison.bound.is_some() {
        let cell = |run: &&RunFigures| match comparison.gap(run) {
            Some(share) => (figures::gap(share), share),
            None => ("–".to_owned(), 0.0),
        };
        columns.insert(1, column("gap", false, runs.iter().map(cell).collect()));
    }
    if comparison.trace.deadlines > 0 {
        columns.push(column("missed", false, numbers(&|run| run.misses as f64)));
    }
    columns.push(column("wall", false, times(&|run| run.wall_s)));
    columns
}

fn table(comparison: &Comparison, looks: &[String]) -> String {
    let ranking = comparison.ranking();
    let runs: Vec<&RunFigures> = ranking.iter().map(|&run| &comparison.runs[run]).collect();
    let columns = columns(comparison, &runs);
    let times = 5 + usize::from(comparison.bound.is_some());
    let class = |column: &Column| if column.group { " class=\"group\"" } else { "" };
    let mut out = format!(
        "<section>\n<div class=\"scroll\"><table class=\"sortable\">\n<thead>\n<tr><th></th>\
         <th class=\"group\" colspan=\"{times}\">coflow completion time</th><th class=\"group\" colspan=\"2\">slowdown</th>\
         <th class=\"group\" colspan=\"3\">factor over {}</th><th class=\"group\" colspan=\"{}\">run</th></tr>\n<tr>\
         <th class=\"name\" aria-sort=\"none\"><button type=\"button\">policy</button></th>",
        escape(&comparison.baseline_run().label),
        columns.len() - times - 5,
    );
    for (index, column) in columns.iter().enumerate() {
        let sorted = if index == 0 { "ascending" } else { "none" };
        out.push_str(&format!(
            "<th{} aria-sort=\"{sorted}\"><button type=\"button\">{}</button></th>",
            class(column),
            escape(&column.heading)
        ));
    }
    out.push_str("</tr>\n</thead>\n<tbody>\n");
    for (row, &run) in ranking.iter().enumerate() {
        let label = escape(&comparison.runs[run].label);
        out.push_str(&format!(
            "<tr data-run=\"{run}\"><th class=\"name\" title=\"{label}\" data-value=\"{label}\"><span class=\"{}\">\
             <svg class=\"swatch\" viewBox=\"0 0 24 8\" aria-hidden=\"true\"><line class=\"curve\" x1=\"0\" y1=\"4\" \
             x2=\"24\" y2=\"4\"/></svg></span>{label}</th>",
            looks[run]
        ));
        for column in &columns {
            let (shown, value) = &column.cells[row];
            out.push_str(&format!("<td{} data-value=\"{value}\">{}</td>", class(column), escape(shown)));
        }
        out.push_str("</tr>\n");
    }
    out.push_str("</tbody>\n</table></div>\n");
    out.push_str(
        "<p class=\"caption\">Best mean first; click a heading to sort by it. What each column means is defined at the end.</p>\n\
         </section>\n",
    );
    out
}

fn figure(title: &str, caption: &str, content: &str) -> String {
    format!("<figure>\n<h2>{title}</h2>\n<p class=\"caption\">{caption}</p>\n{content}</figure>\n")
}

fn distribution(comparison: &Comparison, chart: &str) -> String {
    let caption = format!(
        "Share of the {} that took no longer than the time below. Further left is sooner; the baseline, {}, is drawn \
         {}.",
        figures::counted(comparison.trace.coflows, "coflow"),
        escape(&comparison.baseline_run().label),
        "heaviest",
    );
    figure("Distribution of coflow completion times", &caption, &format!("<div class=\"wide\">{chart}</div>"))
}

fn by_bin(comparison: &Comparison, chart: &str) -> String {
    let caption = format!(
        "Mean completion time under {} over that under each policy, for all coflows and for each bin of length and \
         width. Lines are 95\u{a0}% confidence intervals.",
        escape(&comparison.baseline_run().label)
    );
    figure("Who gains", &caption, &format!("<div class=\"wide\">{chart}</div>"))
}

fn timelines(comparison: &Comparison) -> String {
    let panels = timeline::panels(comparison);
    if panels.is_empty() {
        return String::new();
    }
    let coflows = comparison.trace.coflows;
    let shown = timeline::shown(coflows);
    let taken = if shown < coflows {
        format!(" {} of {} are shown, evenly taken.", figures::count(shown), figures::count(coflows))
    } else {
        String::new()
    };
    let caption = format!(
        "One bar for each coflow from its arrival to its finish. <span class=\"key alone\"></span> the time that it would \
         take alone on the fabric, <span class=\"key waiting\"></span> the time that it lost to others. All panels have the \
         same scale.{taken} <span class=\"choice\">Show <button type=\"button\" data-order=\"arrival\" \
         aria-pressed=\"true\">all, in order of arrival</button> <button type=\"button\" data-order=\"cct\" \
         aria-pressed=\"false\">the {} longest under {}, longest first</button></span>",
        timeline::longest(coflows),
        escape(&comparison.baseline_run().label),
    );
    let panels = format!("<div class=\"panels\" id=\"timelines\">\n{}</div>\n", panels.concat());
    figure("Timelines", &caption, &panels)
}

fn heat_maps(comparison: &Comparison) -> String {
    let panels = heatmap::panels(comparison);
    if panels.is_empty() {
        return String::new();
    }
    let caption = format!(
        "Share of each port’s capacity in use, over time. A row is a port, in the same order in all panels, the busiest on \
         top; ingress is what a port sends into the fabric, egress what it receives. <span class=\"scale\">{}</span>",
        heatmap::key().trim_end()
    );
    let panels = format!("<div class=\"panels\">\n{}</div>\n", panels.concat());
    figure("How busy the ports are", &caption, &panels)
}

/// What only runs over packets have: rates and queues over time, flow completion times by size, queues in figures.
fn over_packets(comparison: &Comparison, looks: &[String]) -> String {
    let runs: Vec<&RunFigures> =
        comparison.ranking().into_iter().map(|index| &comparison.runs[index]).collect();
    let mut out = String::new();
    let panels = queues::panels(comparison, looks);
    if !panels.is_empty() {
        let caption = "What all hosts receive, as a share of what their links carry, and the most that waited in one queue of \
             a switch. All panels have the same scales.";
        let panels = format!("<div class=\"panels\">\n{}</div>\n", panels.concat());
        out.push_str(&figure("Rates and queues", caption, &panels));
    }
    let tables = [
        (
            "Flow completion times by size",
            "From a flow’s arrival to its last byte.",
            packets::flow_times(&runs),
        ),
        ("Queues in figures", packets::NOTE, packets::queues(&runs)),
        ("Negotiation", packets::NEGOTIATION_NOTE, packets::negotiation(&runs)),
    ];
    for (title, caption, columns) in tables {
        if let Some(columns) = columns {
            out.push_str(&figure(title, &escape(caption), &plain_table(&columns)));
        }
    }
    out
}

fn plain_table(Columns { header, columns }: &Columns) -> String {
    let mut out = "<div class=\"scroll\"><table>\n<thead>\n<tr>".to_owned();
    for (index, name) in header.iter().enumerate() {
        let class = if index == 0 { " class=\"name\"" } else { "" };
        out.push_str(&format!("<th{class}>{}</th>", escape(name)));
    }
    out.push_str("</tr>\n</thead>\n<tbody>\n");
    for row in 0..columns.first().map_or(0, Vec::len) {
        out.push_str("<tr>");
        for (index, column) in columns.iter().enumerate() {
            let cell = escape(&column[row]);
            out.push_str(&if index == 0 {
                format!("<th class=\"name\">{cell}</th>")
            } else {
                format!("<td>{cell}</td>")
            });
        }
        out.push_str("</tr>\n");
    }
    out.push_str("</tbody>\n</table></div>\n");
    out
}

fn reproduce(comparison: &Comparison, info: &ReportInfo) -> String {
    let mut facts = vec![
        ("program", format!("cavalcade {}", info.version)),
        ("trace", info.trace.clone()),
        ("baseline", comparison.baseline_run().label.clone()),
    ];
    if let Some(seed) = info.seed {
        facts.push(("seed", seed.to_string()));
    }
    if let Some(bound) = &comparison.bound {
        facts.push(("lower bound", format!("{}, {}", bound.method, bound.budget)));
    }
    let but_for = match &comparison.bound {
        Some(bound) if !bound.repeatable => {
            "the wall time and the lower bound, which was searched for so long"
        }
        _ => "the wall time",
    };
    let mut out = format!(
        "<section>\n<h2>How to reproduce this</h2>\n<pre><code>{}</code></pre>\n<dl class=\"short\">\n",
        escape(&info.command)
    );
    for (name, value) in facts {
        out.push_str(&format!("<dt>{name}</dt><dd>{}</dd>\n", escape(&value)));
    }
    out.push_str(&format!(
        "</dl>\n<p class=\"caption\">The same version, trace and command give the same figures on every machine, but for \
         {but_for}. Parameters and work of each run:</p>\n<div class=\"scroll\"><table>\n<thead><tr><th class=\"name\">policy</th>\
         <th class=\"params\">parameters</th><th>events</th><th>rates computed</th><th>calls</th><th>messages</th></tr></thead>\n<tbody>\n",
    ));
    for run in comparison.ranking() {
        let run = &comparison.runs[run];
        let params: Vec<String> = run.params.iter().map(|(name, value)| format!("{name}={value}")).collect();
        let counts = [run.counts.events, run.counts.refills, run.counts.policy_calls, run.counts.messages];
        let counts: String =
            counts.iter().map(|&count| format!("<td>{}</td>", figures::count(count as usize))).collect();
        out.push_str(&format!(
            "<tr><th class=\"name\">{}</th><td class=\"params\">{}</td>{counts}</tr>\n",
            escape(&run.label),
            escape(&params.join(", "))
        ));
    }
    out.push_str("</tbody>\n</table></div>\n</section>\n");
    out
}

fn definitions(comparison: &Comparison) -> String {
    let thresholds = comparison.thresholds;
    let bins = format!(
        "A coflow is short (S) where its largest flow is below {}, else long (L); narrow (N) where it has at most {} flows, \
         else wide (W).",
        thresholds.short_below, thresholds.narrow_up_to
    );
    let mut entries = vec![
        ("coflow", "A set of flows that matter only together: it is done when its last flow is."),
        ("coflow completion time (CCT)", "From the arrival of the coflow’s first flow to its last byte."),
        (
            "p50, p95, p99",
            "Percentiles by nearest rank: the smallest value that at least so many per cent of all do not exceed.",
        ),
        (
            "slowdown",
            "A coflow’s completion time over the time that it would take alone on the fabric, which is the largest load over \
             capacity of any port, waves of flows included. One is the least possible.",
        ),
        ("makespan", "From time zero to the end of the last task."),
        (
            "factor over the baseline",
            "The mean CCT under the baseline over the mean CCT under the policy; above one is sooner than the baseline.",
        ),
        (
            "95 % interval",
            "How far that factor could be off with other coflows of the same kind: a BCa bootstrap over the coflows of this \
             trace, paired and seeded.",
        ),
        (
            "coflows p5–p95",
            "The 5th and 95th percentile of the ratio of each coflow’s own two completion times: how evenly the gain is \
             shared out.",
        ),
        ("bins", bins.as_str()),
        ("wall", "How long the simulation took on the machine that made this report."),
    ];
    if comparison.bound.is_some() {
        entries.push((
            "gap",
            "By how much the mean CCT is above a lower bound on that of every schedule on this fabric, clairvoyant or not. \
             The best possible schedule is somewhere between: no policy can gain more than this.",
        ));
    }
    if comparison.trace.deadlines > 0 {
        entries.push(("missed", "Tasks that finished after their deadline."));
    }
    let list: String = entries
        .into_iter()
        .map(|(word, meaning)| format!("<dt>{word}</dt><dd>{}</dd>\n", escape(meaning)))
        .collect();
    format!("<section>\n<h2>Definitions</h2>\n<dl>\n{list}</dl>\n</section>\n")
}
