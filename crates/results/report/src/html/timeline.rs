//! Every coflow's life under every policy: a bar from arrival to finish, the same scale in all
//! panels.
//!
//! The first part of a bar, as long as the coflow alone would take, is dark; the rest, which it
//! lost to others, is light. So the light area is what a policy could still save, and where it lies
//! says whom it makes wait.
//!
//! Two views share the panel, one shown at a time. *All* has coflows in order of arrival, at most
//! [`MOST_BARS`], evenly taken: as many as there are pixels, so that each can be pointed at and
//! says its name, sizes and times. Since most coflows take a moment of an hour, that is a thin
//! diagonal with a few long bars; *longest* has only the coflows that take longest under the
//! baseline, in that order, with bars thick enough to follow one row through all panels. Rejected:
//! each panel in order of its own CCTs, a cloud of dots in which no row means the same coflow as in
//! the next panel.

use std::cmp::Reverse;

use cavalcade_metrics::{Comparison, RunFigures};
use cavalcade_model::Nanos;

use crate::figures;
use crate::scale::{Linear, TimeUnit, tick};
use crate::svg::{Svg, px, shortened, text_width};

/// The width and height of a panel.
pub(crate) const PANEL: f64 = 304.0;
const TOP: f64 = 24.0;
const BELOW: f64 = 22.0;
/// The height of all rows on a page.
const HEIGHT: f64 = 180.0;
const MOST_BARS: usize = 180;

/// The distance of rows from which on their coflows are named.
const NAMED: f64 = 12.5;
/// Rows that are few enough to be that far apart in a figure, whatever fills them.
const FEW: usize = 20;
/// The distance from which on there is room for a name above a bar.
const ROOMY: f64 = 26.0;

/// Coflows of the second view.
const LONGEST: usize = 60;

/// A choice of coflows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum View {
    /// Both, one at a time, for a page with a choice.
    Both,
    /// In order of arrival, evenly taken.
    All,
}

/// The timelines of a comparison: what all panels share.
pub(crate) struct Timelines<'a> {
    comparison: &'a Comparison,
    longest: Vec<usize>,
    end: Nanos,
    /// The height of all rows.
    height: f64,
}

impl<'a> Timelines<'a> {
    /// Of all runs; `None` where there are no coflows.
    pub(crate) fn of(comparison: &'a Comparison) -> Option<Self> {
        let end = comparison.runs.iter().map(|run| run.makespan).max().unwrap_or_default();
        if comparison.trace.coflows == 0 || end == Nanos::ZERO {
            return None;
        }
        let baseline = &comparison.baseline_run().cct;
        let mut longest: Vec<usize> = (0..baseline.len()).collect();
        longest.sort_by_key(|&coflow| (Reverse(baseline[coflow]), coflow));
        longest.truncate(LONGEST);
        Some(Self { comparison, longest, end, height: HEIGHT })
    }

    /// The same for a figure: as tall as it takes to name each coflow, where these are not too
    /// many.
    pub(crate) fn with_names(self) -> Self {
        let rows = self.comparison.trace.coflows;
        let step = match rows {
            rows if rows <= FEW => ROOMY,
            rows if rows <= LONGEST => NAMED,
            _ => 0.0,
        };
        let height = HEIGHT.max(step * rows as f64);
        Self { height, ..self }
    }

    /// The height of a panel.
    pub(crate) fn panel_height(&self) -> f64 {
        TOP + self.height + BELOW
    }

    /// Draws the panel of a run with its upper left corner at a place.
    pub(crate) fn draw(&self, svg: &mut Svg, run: usize, (left, top): (f64, f64), view: View) {
        let figures = &self.comparison.runs[run];
        let span_s = self.end.as_secs_f64();
        let x = Linear::new((0.0, span_s), (0.5, PANEL - 0.5));
        svg.open_with("", &format!("transform=\"translate({} {})\"", px(left), px(top)));
        heading(svg, &figures.label, &format!("mean {}", figures::time(figures.cct_summary.mean_s)));
        time_axis(svg, &x, span_s, TOP, TOP + self.height);
        let all = by_arrival(figures);
        self.rows(svg, figures, "by-arrival", &x, &all);
        if view == View::Both {
            self.rows(svg, figures, "by-cct", &x, &self.longest);
        }
        svg.close();
    }

    fn rows(&self, svg: &mut Svg, run: &RunFigures, class: &str, x: &Linear, coflows: &[usize]) {
        // Thin bars overlap, so that a crowd is a band; thick ones leave a gap between rows.
        let step = self.height / coflows.len() as f64;
        svg.open_with(class, &format!("stroke-width=\"{}\"", px((step * 0.75).clamp(0.9, 8.0))));
        let (waiting, alone) = bars(run, &self.comparison.isolation, x, (coflows, step));
        svg.path("waiting", &waiting);
        svg.path("alone", &alone);
        svg.close();
        svg.open(class);
        if step >= NAMED {
            self.names(svg, run, x, coflows);
        }
        svg.open_with("hits", &format!("stroke-width=\"{}\"", px(step.clamp(1.0, 12.0))));
        for (row, &coflow) in coflows.iter().enumerate() {
            let y = TOP + step * (row as f64 + 0.5);
            svg.hit(&format!("M0 {}h{}", px(y), px(PANEL)), &self.bar_in_words(run, coflow), Some(coflow));
        }
        svg.close();
        svg.close();
    }

    /// Writes the name of each coflow behind its bar; before or above it where there is no room.
    fn names(&self, svg: &mut Svg, run: &RunFigures, x: &Linear, coflows: &[usize]) {
        let step = self.height / coflows.len() as f64;
        for (row, &coflow) in coflows.iter().enumerate() {
            let name = shortened(&self.comparison.coflows[coflow].name, 24);
            let start = run.arrival[coflow].as_secs_f64();
            let (from, to) = (x.at(start), x.at(start + run.cct[coflow].as_secs_f64()));
            let (class, at, below) = match text_width(&name) + 5.0 {
                width if to + width <= PANEL => ("muted", to + 4.0, 4.0),
                width if from >= width => ("muted end", from - 4.0, 4.0),
                _ if step >= ROOMY => ("muted", from + 2.0, -8.0),
                _ => continue,
            };
            svg.text(class, (at, TOP + step * (row as f64 + 0.5) + below), &name);
        }
    }

    fn bar_in_words(&self, run: &RunFigures, coflow: usize) -> String {
        let facts = &self.comparison.coflows[coflow];
        let name =
            if facts.name == coflow.to_string() { String::new() } else { format!(" ({})", facts.name) };
        format!(
            "coflow {coflow}{name}: {}, {}, largest {}; CCT {}, alone {}",
            figures::counted(facts.width, "flow"),
            figures::bytes(facts.size),
            figures::bytes(facts.length),
            figures::time(run.cct[coflow].as_secs_f64()),
            figures::time(self.comparison.isolation[coflow].as_secs_f64()),
        )
    }

    /// One panel for each run, best first, for the page.
    pub(super) fn panels(&self) -> Vec<String> {
        let panel = |run: usize| {
            let label = format!("Timeline of coflows under {}", self.comparison.runs[run].label);
            let mut svg = Svg::new(PANEL, self.panel_height(), &label).class(&format!("run{run}"));
            self.draw(&mut svg, run, (0.0, 0.0), View::Both);
            svg.finish()
        };
        self.comparison.ranking().into_iter().map(panel).collect()
    }
}

/// Returns the number of coflows in the view of the longest, of so many.
pub(super) fn longest(coflows: usize) -> usize {
    coflows.min(LONGEST)
}

/// Returns the number of coflows in the view of all, of so many.
pub(crate) fn shown(coflows: usize) -> usize {
    coflows.min(MOST_BARS)
}

/// A panel's title, with a figure at its right.
pub(super) fn heading(svg: &mut Svg, label: &str, figure: &str) {
    svg.text("panel", (0.0, 14.0), &shortened(label, 24));
    svg.text("end muted", (PANEL, 14.0), figure);
}

/// Vertical lines and names of round times.
pub(super) fn time_axis(svg: &mut Svg, x: &Linear, span_s: f64, top: f64, bottom: f64) {
    let unit = TimeUnit::of(span_s);
    let ticks = Linear::new((0.0, span_s / unit.seconds), (0.0, 1.0)).three_ticks();
    svg.open("axis");
    for (index, &value) in ticks.iter().enumerate() {
        let at = x.at(value * unit.seconds);
        svg.line("grid", (at, top), (at, bottom + 3.0));
        let last = index + 1 == ticks.len();
        let name = if last { format!("{} {}", tick(value), unit.name) } else { tick(value) };
        let class = if index == 0 {
            ""
        } else if at > PANEL - 20.0 {
            "end"
        } else {
            "mid"
        };
        svg.text(class, (if class == "end" { PANEL } else { at }, bottom + 16.0), &name);
    }
    svg.line("base", (x.at(0.0), bottom), (PANEL, bottom));
    svg.close();
}

/// The coflows of the view of all: in order of arrival under this run, evenly taken where there are
/// too many.
fn by_arrival(run: &RunFigures) -> Vec<usize> {
    let mut coflows: Vec<usize> = (0..run.cct.len()).collect();
    coflows.sort_by_key(|&coflow| (run.arrival[coflow], coflow));
    let rows = shown(coflows.len());
    (0..rows).map(|row| coflows[row * coflows.len() / rows]).collect()
}

/// The light and the dark bars as two paths of horizontal strokes, in rows of so many pixels.
fn bars(
    run: &RunFigures,
    isolation: &[Nanos],
    x: &Linear,
    (coflows, step): (&[usize], f64),
) -> (String, String) {
    let (mut waiting, mut alone) = (String::new(), String::new());
    for (row, &coflow) in coflows.iter().enumerate() {
        let y = TOP + step * (row as f64 + 0.5);
        let start = run.arrival[coflow].as_secs_f64();
        let cct = run.cct[coflow].as_secs_f64();
        let own = isolation[coflow].as_secs_f64().min(cct);
        stroke(&mut alone, x.at(start), x.at(start + own), y);
        // What is narrower than a tenth of a pixel is not seen and only makes the file larger.
        if x.at(start + cct) - x.at(start + own) >= 0.1 {
            stroke(&mut waiting, x.at(start + own), x.at(start + cct), y);
        }
    }
    (waiting, alone)
}

/// A horizontal stroke that is never too short to be seen.
fn stroke(path: &mut String, from: f64, to: f64, y: f64) {
    path.push_str(&format!("M{} {}h{}", px(from), px(y), px((to - from).max(0.4))));
}
