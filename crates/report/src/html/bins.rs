//! The factor over the baseline by bin: who gains, and who pays for it.
//!
//! A dot plot with one row for each policy and one panel for all coflows and for each bin; positions on a common
//! logarithmic scale compare better than the lengths of bars, and a factor of one half is as far from one as a factor of
//! two. The line through a dot is the 95 % confidence interval; the number stands beside it, so that the figure is its own
//! table.

use cavalcade_metrics::{Bin, Comparison, Improvement};

use crate::figures;
use crate::scale::{Log, tick};
use crate::svg::{Svg, shortened};

const WIDTH: f64 = 960.0;
const TOP: f64 = 46.0;
const ROW: f64 = 21.0;
const GAP: f64 = 18.0;
/// Room for the number at the right of a panel.
const NUMBER: f64 = 44.0;
/// Beyond a thousandfold either way a dot stands at the edge.
const FARTHEST: f64 = 1e3;

/// One panel: what it is about, and each run's factor there.
struct Panel {
    title: String,
    subtitle: String,
    factors: Vec<Option<Improvement>>,
}

/// The chart; `None` where there is nothing to compare.
pub(super) fn chart(comparison: &Comparison, looks: &[String]) -> Option<String> {
    let panels = panels(comparison);
    if comparison.runs.len() < 2 || comparison.trace.coflows == 0 {
        return None;
    }
    let ranking = comparison.ranking();
    let longest = comparison.runs.iter().map(|run| run.label.chars().count()).max().unwrap_or(0).min(24);
    let left = 20.0 + 7.5 * longest as f64;
    let panel = (WIDTH - left - GAP * (panels.len() - 1) as f64) / panels.len() as f64;
    let bottom = TOP + ROW * ranking.len() as f64;
    let mut svg = Svg::new(WIDTH, bottom + 42.0, "Factor over the baseline by policy and bin");

    for (row, &run) in ranking.iter().enumerate() {
        let at = TOP + ROW * (row as f64 + 0.5);
        svg.open(&format!("data-run=\"{run}\" class=\"{} legend\"", looks[run]));
        svg.line("row", (0.0, at + ROW / 2.0), (WIDTH, at + ROW / 2.0));
        svg.text("", (0.0, at + 4.0), &shortened(&comparison.runs[run].label, 24));
        svg.close();
    }
    let domain = domain(&panels);
    for (index, content) in panels.iter().enumerate() {
        let start = left + (panel + GAP) * index as f64;
        let x = Log::new(domain, (start, start + panel - NUMBER));
        frame(&mut svg, content, &x, start, bottom);
        for (row, &run) in ranking.iter().enumerate() {
            let at = TOP + ROW * (row as f64 + 0.5);
            let Some(improvement) = content.factors[run] else { continue };
            svg.open(&format!("data-run=\"{run}\" class=\"{}\"", looks[run]));
            let is_baseline = run == comparison.baseline;
            dot(&mut svg, improvement, &x, at, is_baseline);
            let number = if is_baseline { "1".to_owned() } else { figures::factor(improvement.factor) };
            svg.text("end number", (start + panel, at + 4.0), &number);
            svg.close();
        }
    }
    let middle = left + (WIDTH - left) / 2.0;
    let name =
        format!("factor over {} (log scale): right of the line is sooner", comparison.baseline_run().label);
    svg.text("mid name axis-text", (middle, bottom + 38.0), &name);
    Some(svg.finish())
}

fn panels(comparison: &Comparison) -> Vec<Panel> {
    let trace = &comparison.trace;
    let mut panels = vec![Panel {
        title: "all coflows".to_owned(),
        subtitle: figures::counted(trace.coflows, "coflow"),
        factors: comparison.runs.iter().map(|run| run.improvement).collect(),
    }];
    for bin in Bin::ALL {
        let facts = trace.bins[bin.index()];
        if facts.coflows > 0 {
            let bytes = figures::percent(facts.bytes.as_f64(), trace.bytes.as_f64());
            panels.push(Panel {
                title: format!("{}: {}", bin.code(), bin.name()),
                subtitle: format!("{}: {bytes} of bytes", figures::count(facts.coflows)),
                factors: comparison
                    .runs
                    .iter()
                    .map(|run| run.bins[bin.index()].map(|figures| figures.improvement))
                    .collect(),
            });
        }
    }
    panels
}

/// From the lowest to the highest end of any interval, with one inside and a little air.
fn domain(panels: &[Panel]) -> (f64, f64) {
    let (mut low, mut high) = (1.0f64, 1.0f64);
    for improvement in panels.iter().flat_map(|panel| &panel.factors).flatten() {
        low = low.min(improvement.factor).min(improvement.interval.low);
        high = high.max(improvement.factor).max(improvement.interval.high);
    }
    ((low / 1.15).max(1.0 / FARTHEST), (high * 1.15).min(FARTHEST))
}

fn frame(svg: &mut Svg, panel: &Panel, x: &Log, start: f64, bottom: f64) {
    svg.open("class=\"axis\"");
    svg.text("panel", (start, 14.0), &panel.title);
    svg.text("", (start, 30.0), &panel.subtitle);
    for mark in x.ticks(22.0) {
        let at = x.at(mark.value);
        if mark.labelled {
            svg.line("grid", (at, TOP), (at, bottom));
            svg.text("mid", (at, bottom + 17.0), &tick(mark.value));
        }
        svg.line("tick", (at, bottom), (at, bottom + if mark.labelled { 5.0 } else { 3.0 }));
    }
    svg.line("one", (x.at(1.0), TOP - 4.0), (x.at(1.0), bottom));
    svg.close();
}

fn dot(svg: &mut Svg, improvement: Improvement, x: &Log, at: f64, is_baseline: bool) {
    let interval = improvement.interval;
    if interval.low < interval.high {
        svg.tooltip(&format!(
            "{} (95 % interval {} to {})",
            figures::factor(improvement.factor),
            figures::number(interval.low),
            figures::number(interval.high)
        ));
        svg.line("whisker", (x.at(interval.low), at), (x.at(interval.high), at));
    }
    svg.circle(if is_baseline { "hollow" } else { "dot" }, (x.at(improvement.factor), at), 4.0);
}
