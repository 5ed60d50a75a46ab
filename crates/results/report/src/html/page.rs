//! The page around the charts: headline, table, captions, how to reproduce it, definitions.
//!
//! Every sentence is made of the figures, so a headline cannot claim what the table does not show.
//! All text from outside (labels, names, the command line) goes through [`escape`].
//!
//! Charts begin with few policies: the baseline, the best that is told sizes, the best that is not,
//! and those asked for by name. The legend has a box for each of the others. Boxes work by style
//! rules alone, without script; where a browser does not know the selector (`:has`), all are shown.

use cavalcade_metrics::{Comparison, Ranked, RunFigures};

use super::bins::Gains;
use super::cdf::Cdf;
use super::timeline::{self, Timelines};
use super::{ReportInfo, coflow, heatmap, queues, tasks};
use crate::grid::Grid;
use crate::look::{self, Look, looks};
use crate::svg::escape;
use crate::{figures, packets, savings};

mod ending;
mod headline;
mod main_table;

pub(super) use headline::headline;

const STYLE: &str = include_str!("style.css");
const SCRIPT: &str = include_str!("script.js");

/// Widths of drawings for wide screens and for phones.
const WIDE: f64 = 1080.0;
const NARROW: f64 = 360.0;

/// The whole document.
pub(super) fn render(comparison: &Comparison, info: &ReportInfo) -> String {
    let policies: Vec<&str> = comparison.runs.iter().map(|run| run.policy.as_str()).collect();
    let looks = looks(&policies);
    let headline = headline(comparison);
    let everyone: Vec<usize> = (0..comparison.runs.len()).collect();
    // Of an application that does not wait for the network, ratios of transfer times would mislead.
    let shows_ratios = comparison.savings.as_ref().is_none_or(|saved| saved.whole().waits_for_network);
    let ratios = |part: String| if shows_ratios { part } else { String::new() };
    let parts = [
        header(comparison, info, &headline),
        comparison.savings.as_ref().map_or_else(String::new, |saved| savings::section(comparison, saved)),
        ratios(main_table::table(comparison, &looks)),
        tasks::table(comparison).map_or_else(String::new, |(caption, grid)| {
            figure("Tasks", &escape(&caption), &plain_table("Tasks", &grid))
        }),
        Cdf::of(comparison, &looks, &everyone, Ranked::Coflows)
            .map_or_else(String::new, |cdf| distribution(comparison, &cdf, &looks)),
        of_tasks(comparison, &looks, &everyone),
        ratios(gains(comparison, &looks)),
        timelines(comparison),
        coflow::section(comparison),
        heat_maps(comparison),
        over_packets(comparison, &looks),
        ending::reproduce(comparison, info),
        ending::definitions(comparison),
    ];
    format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"color-scheme\" content=\"light dark\">\n\
         <meta name=\"generator\" content=\"cavalcade {}\">\n<title>{}</title>\n<style>\n{}{STYLE}{}</style>\n</head>\n\
         <body>\n<main>\n{}</main>\n<script>\n{SCRIPT}</script>\n</body>\n</html>\n",
        escape(&info.version),
        escape(&headline),
        colors(),
        choice_rules(comparison),
        parts.concat(),
    )
}

/// The colours of policies, by the reader's setting; print is light.
fn colors() -> String {
    format!(
        ":root{{{}}}\n@media screen and (prefers-color-scheme: dark){{:root{{{}}}}}\n{}\n",
        look::declarations(&look::LIGHT),
        look::declarations(&look::DARK),
        look::classes()
    )
}

/// For each run: a rule that hides what is drawn of it while its box in the legend is empty.
fn choice_rules(comparison: &Comparison) -> String {
    let rule = |run: usize| format!("main:not(:has(#show{run}:checked)) .run{run}{{display:none}}\n");
    let few = comparison.featured();
    let others: Vec<String> = (0..comparison.runs.len())
        .filter(|run| !few.contains(run))
        .map(|run| format!("#show{run}:checked"))
        .collect();
    let every = match others.is_empty() {
        true => String::new(),
        false => format!(
            "main:has({0}) .few{{display:none}}\nmain:not(:has({0})) .all{{display:none}}\n",
            others.join(",")
        ),
    };
    (0..comparison.runs.len()).map(rule).chain([every]).collect()
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
    if trace.tasks != trace.coflows || trace.ranked == Ranked::Tasks {
        facts.insert(1, figures::counted(trace.tasks, "task"));
    }
    format!(
        "<header>\n<p class=\"kind\">Cavalcade · {} compared</p>\n<h1>{}</h1>\n<p class=\"facts\">{}</p>\n{}</header>\n",
        figures::counted(comparison.runs.len(), "scheduling policy").replace("policys", "policies"),
        escape(headline),
        facts.join(" · "),
        headline::lead(comparison),
    )
}

fn figure(title: &str, caption: &str, content: &str) -> String {
    format!("<figure>\n<h2>{title}</h2>\n<p class=\"caption\">{caption}</p>\n{content}</figure>\n")
}

fn distribution(comparison: &Comparison, cdf: &Cdf<'_>, looks: &[Look]) -> String {
    let caption = format!(
        "Share of the {} that took no longer than the time below. The baseline, {}, is drawn heaviest. The boxes choose what \
         this and the following figures show; they stand in the order of the lines, from left to right.",
        figures::counted(comparison.trace.coflows, "coflow"),
        escape(&comparison.baseline_run().label),
    );
    let content = format!(
        "{}{}{}",
        choice(comparison, cdf.order(), looks),
        cdf.svg("wide", WIDE, 420.0),
        cdf.svg("narrow", NARROW, 320.0)
    );
    figure("Distribution of coflow completion times", &caption, &content)
}

/// The distribution of tasks, where they are more than their coflows; the boxes above choose what
/// it shows.
fn of_tasks(comparison: &Comparison, looks: &[Look], everyone: &[usize]) -> String {
    if comparison.ranked() == Ranked::Coflows {
        return String::new();
    }
    let Some(cdf) = Cdf::of(comparison, looks, everyone, Ranked::Tasks) else { return String::new() };
    let caption = format!(
        "Share of the {} that took no longer than the time below, from arrival to the end of the last stage.",
        figures::counted(comparison.tasks.len(), "task")
    );
    let content = format!("{}{}", cdf.svg("wide", WIDE, 420.0), cdf.svg("narrow", NARROW, 320.0));
    figure("Distribution of task completion times", &caption, &content)
}

/// The legend, with a box for each policy.
fn choice(comparison: &Comparison, order: &[usize], looks: &[Look]) -> String {
    let few = comparison.featured();
    let mut out = "<fieldset class=\"choice\">\n<legend>Policies shown</legend>\n".to_owned();
    for &run in order {
        let figures = &comparison.runs[run];
        let (checked, few) = if few.contains(&run) { (" checked", " data-few") } else { ("", "") };
        let base = if run == comparison.baseline { " base" } else { "" };
        let told = if figures.about.told_sizes { " <span class=\"told\">told sizes</span>" } else { "" };
        out.push_str(&format!(
            "<label class=\"{}{base}\" data-run=\"{run}\"><input type=\"checkbox\" id=\"show{run}\" autocomplete=\"off\"\
             {checked}{few}><svg class=\"swatch\" viewBox=\"0 0 24 8\" aria-hidden=\"true\"><line class=\"curve\" x1=\"0\" \
             y1=\"4\" x2=\"24\" y2=\"4\"/></svg>{}{told}</label>\n",
            looks[run].classes(),
            escape(&figures.shown()),
        ));
    }
    out.push_str(
        "<span class=\"buttons\"><button type=\"button\" data-show=\"all\">show all</button> \
         <button type=\"button\" data-show=\"few\">show few</button></span>\n</fieldset>\n",
    );
    out
}

fn gains(comparison: &Comparison, looks: &[Look]) -> String {
    let ranking = comparison.ranking();
    let few = comparison.featured();
    let Some(all) = Gains::of(comparison, looks, &ranking) else { return String::new() };
    let mut content = String::new();
    // Rows of one drawing cannot move up where others are hidden, so there are two.
    let is_choice = few.len() >= 2 && few.len() < ranking.len();
    if let Some(few) = Gains::of(comparison, looks, &few).filter(|_| is_choice) {
        content.push_str(&few.svg("wide few", WIDE));
        content.push_str(&few.svg("narrow few", NARROW));
    }
    let class = if is_choice { " all" } else { "" };
    content.push_str(&all.svg(&format!("wide{class}"), WIDE));
    content.push_str(&all.svg(&format!("narrow{class}"), NARROW));
    let caption = format!(
        "Mean completion time under {} over that under each policy, for all coflows and for each bin of length and \
         width: right of the line is better. Lines through dots are 95\u{a0}% confidence intervals.",
        escape(&comparison.baseline_run().label)
    );
    figure("Who gains", &caption, &content)
}

fn timelines(comparison: &Comparison) -> String {
    let Some(timelines) = Timelines::of(comparison) else { return String::new() };
    let coflows = comparison.trace.coflows;
    let shown = timeline::shown(coflows);
    let taken = if shown < coflows {
        format!(" {} of {} are shown, evenly taken.", figures::count(shown), figures::count(coflows))
    } else {
        String::new()
    };
    let caption = format!(
        "One bar for each coflow from its arrival to its finish; point at it for its name and sizes. <span class=\"key \
         alone\"></span> the time that it would take alone on the fabric, <span class=\"key waiting\"></span> the time that it \
         lost to others. All panels have the same scale.{taken} <span class=\"views\">Show <button type=\"button\" \
         data-order=\"arrival\" aria-pressed=\"true\">all, in order of arrival</button> <button type=\"button\" \
         data-order=\"cct\" aria-pressed=\"false\">the {} longest under {}, longest first</button></span>",
        timeline::longest(coflows),
        escape(&comparison.baseline_run().label),
    );
    let panels = format!("<div class=\"panels\" id=\"timelines\">\n{}</div>\n", timelines.panels().concat());
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

/// Adds the sections of runs over packets: rates and queues over time, flow completion times by
/// size, queues in figures.
fn over_packets(comparison: &Comparison, looks: &[Look]) -> String {
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
    for (title, caption, grid) in tables {
        if let Some(grid) = grid {
            out.push_str(&figure(title, &escape(caption), &plain_table(title, &grid)));
        }
    }
    out
}

/// A table in a box of its own, which scrolls by itself where it is wider than the screen. On a
/// phone its rows are stacked: the name on a line, then the cells, each with its column's name.
pub(crate) fn plain_table(title: &str, grid: &Grid) -> String {
    let mut out = format!(
        "<div class=\"scroll\" role=\"region\" aria-label=\"{}\" tabindex=\"0\"><table class=\"stacked\">\n<thead>\n<tr>",
        escape(title)
    );
    let headings: Vec<String> = grid.headings().map(escape).collect();
    for (index, name) in headings.iter().enumerate() {
        let class = if index == 0 { " class=\"name\"" } else { "" };
        out.push_str(&format!("<th scope=\"col\"{class}>{name}</th>"));
    }
    out.push_str("</tr>\n</thead>\n<tbody>\n");
    for row in grid.rows() {
        out.push_str("<tr>");
        for (index, (cell, heading)) in row.into_iter().map(escape).zip(&headings).enumerate() {
            out.push_str(&if index == 0 {
                format!("<th scope=\"row\" class=\"name\">{cell}</th>")
            } else {
                format!("<td data-label=\"{heading}\">{cell}</td>")
            });
        }
        out.push_str("</tr>\n");
    }
    out.push_str("</tbody>\n</table></div>\n");
    out
}
