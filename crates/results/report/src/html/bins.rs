//! The speedup over the baseline by bin: who gains, and who pays for it.
//!
//! A dot plot with one row for each policy and one panel for all coflows and for each bin;
//! positions on a common logarithmic scale compare better than the lengths of bars, and a speedup
//! of one half is as far from one as one of two. The line through a dot is the 95 % confidence
//! interval; the number stands beside it, so that the figure is its own table. Panels stand side by
//! side where there is room, else below each other, each with the names of the policies.

use cavalcade_metrics::{Bin, Comparison, Improvement};

use crate::figures;
use crate::look::Look;
use crate::scale::{Log, tick};
use crate::svg::{Svg, shortened, shortened_apart, text_width};

const TOP: f64 = 46.0;
const ROW: f64 = 21.0;
const GAP: f64 = 18.0;
/// Below the rows: names of ticks.
const FOOT: f64 = 30.0;
/// Below everything: the title of the axis.
const TITLE: f64 = 24.0;
/// Room for the number at the right of a panel.
const NUMBER: f64 = 46.0;
/// A panel is at least so wide.
const NARROWEST: f64 = 128.0;
/// Beyond a thousandfold either way a dot stands at the edge.
const FARTHEST: f64 = 1e3;

/// One panel: what it is about, and each run's speedup there.
struct Panel {
    title: String,
    subtitle: String,
    speedups: Vec<Option<Improvement>>,
}

/// The speedups of some runs, in order of rank.
pub(crate) struct Gains<'a> {
    comparison: &'a Comparison,
    looks: &'a [Look],
    runs: &'a [usize],
    panels: Vec<Panel>,
}

/// The places of everything in a drawing of one width.
struct Layout {
    /// Room for names of policies.
    left: f64,
    columns: usize,
    panel: f64,
    /// The height of one row of panels.
    height: f64,
    rows: usize,
}

impl<'a> Gains<'a> {
    /// Of these runs; `None` where there is nothing to compare.
    pub(crate) fn of(comparison: &'a Comparison, looks: &'a [Look], runs: &'a [usize]) -> Option<Self> {
        if runs.len() < 2 || comparison.trace.coflows == 0 {
            return None;
        }
        Some(Self { comparison, looks, runs, panels: panels(comparison) })
    }

    /// Returns the height of a drawing of that width.
    pub(crate) fn height(&self, width: f64) -> f64 {
        let layout = self.layout(width);
        layout.height * layout.rows as f64 + TITLE
    }

    fn layout(&self, width: f64) -> Layout {
        let left = self.labels(width).iter().map(|label| text_width(label)).fold(0.0, f64::max) + 12.0;
        let columns = ((width - left + GAP) / (NARROWEST + GAP)).max(1.0) as usize;
        let rows = self.panels.len().div_ceil(columns.min(self.panels.len()));
        let columns = self.panels.len().div_ceil(rows);
        let panel = (width - left - GAP * (columns - 1) as f64) / columns as f64;
        Layout { left, columns, panel, height: TOP + ROW * self.runs.len() as f64 + FOOT, rows }
    }

    /// What stands before the rows.
    fn labels(&self, width: f64) -> Vec<String> {
        let labels: Vec<&str> =
            self.runs.iter().map(|&run| self.comparison.runs[run].label.as_str()).collect();
        shortened_apart(&labels, if width < 500.0 { 15 } else { 24 })
    }

    /// Draws all panels.
    pub(crate) fn draw(&self, svg: &mut Svg, (from, top): (f64, f64), width: f64) {
        let layout = self.layout(width);
        let domain = domain(&self.panels, self.runs);
        for (index, panel) in self.panels.iter().enumerate() {
            let (column, row) = (index % layout.columns, index / layout.columns);
            let top = top + layout.height * row as f64;
            if column == 0 {
                let panels = (self.panels.len() - index).min(layout.columns) as f64;
                let reach = layout.left + (layout.panel + GAP) * panels - GAP;
                self.names(svg, (from, top), width, reach);
            }
            let start = from + layout.left + (layout.panel + GAP) * column as f64;
            let x = Log::new(domain, (start, start + layout.panel - NUMBER));
            self.panel(svg, panel, &x, (start, top), layout.panel);
        }
        let named = |better: &str| {
            format!("speedup over {} (log scale), {better} is better", self.comparison.baseline_run().label)
        };
        let whole = Some(named("further right")).filter(|name| text_width(name) <= width);
        let name = whole.unwrap_or_else(|| shortened(&named("right"), (width / 6.6) as usize));
        let below = top + layout.height * layout.rows as f64 + 12.0;
        svg.text("mid name axis-text", (from + width / 2.0, below), &name);
    }

    /// Names the rows of panels, and draws a line below each that reaches to the last panel.
    fn names(&self, svg: &mut Svg, (left, top): (f64, f64), width: f64, reach: f64) {
        for (row, (&run, label)) in self.runs.iter().zip(self.labels(width)).enumerate() {
            let at = top + TOP + ROW * (row as f64 + 0.5);
            svg.open_run(run, &self.looks[run].classes());
            svg.tooltip(&self.comparison.runs[run].label);
            svg.line("row", (left, at + ROW / 2.0), (left + reach, at + ROW / 2.0));
            svg.text("", (left, at + 4.0), &label);
            svg.close();
        }
    }

    fn panel(&self, svg: &mut Svg, panel: &Panel, x: &Log, (start, top): (f64, f64), width: f64) {
        frame(svg, panel, x, (start, top), top + TOP + ROW * self.runs.len() as f64, width);
        for (row, &run) in self.runs.iter().enumerate() {
            let at = top + TOP + ROW * (row as f64 + 0.5);
            let Some(speedup) = panel.speedups[run] else { continue };
            svg.open_run(run, &self.looks[run].classes());
            svg.tooltip(&tooltip(&self.comparison.runs[run].label, panel, speedup));
            let interval = speedup.interval;
            if interval.low < interval.high {
                svg.line("whisker", (x.at(interval.low), at), (x.at(interval.high), at));
            }
            let is_baseline = run == self.comparison.baseline;
            svg.circle(if is_baseline { "hollow" } else { "dot" }, (x.at(speedup.factor), at), 4.0);
            let number = if is_baseline { "1".to_owned() } else { figures::factor(speedup.factor) };
            svg.text("end number", (start + width, at + 4.0), &number);
            svg.close();
        }
    }

    /// A drawing of that width, for the page.
    pub(super) fn svg(&self, class: &str, width: f64) -> String {
        let mut svg =
            Svg::new(width, self.height(width), "Speedup over the baseline by policy and bin").class(class);
        self.draw(&mut svg, (0.0, 0.0), width);
        svg.finish()
    }
}

fn tooltip(label: &str, panel: &Panel, speedup: Improvement) -> String {
    let interval = speedup.interval;
    let mut text = format!("{label}, {}: {}", panel.title, figures::factor(speedup.factor));
    if interval.low < interval.high {
        let (low, high) = (figures::number(interval.low), figures::number(interval.high));
        text.push_str(&format!(" (95 % interval {low} to {high})"));
    }
    text
}

fn panels(comparison: &Comparison) -> Vec<Panel> {
    let trace = &comparison.trace;
    let mut panels = vec![Panel {
        title: "all coflows".to_owned(),
        subtitle: figures::counted(trace.coflows, "coflow"),
        speedups: comparison.runs.iter().map(|run| run.improvement).collect(),
    }];
    for bin in Bin::ALL {
        let facts = trace.bins[bin.index()];
        if facts.coflows > 0 {
            let bytes = figures::percent(facts.bytes.as_f64(), trace.bytes.as_f64());
            let speedup = |run: &cavalcade_metrics::RunFigures| {
                run.bins[bin.index()].map(|figures| figures.improvement)
            };
            panels.push(Panel {
                title: bin.name().to_owned(),
                subtitle: format!("{}, {bytes} of bytes", figures::count(facts.coflows)),
                speedups: comparison.runs.iter().map(speedup).collect(),
            });
        }
    }
    panels
}

/// From the lowest to the highest end of any interval, with one inside and a little air.
fn domain(panels: &[Panel], runs: &[usize]) -> (f64, f64) {
    let (mut low, mut high) = (1.0f64, 1.0f64);
    let shown = panels.iter().flat_map(|panel| runs.iter().filter_map(|&run| panel.speedups[run]));
    for improvement in shown {
        low = low.min(improvement.factor).min(improvement.interval.low);
        high = high.max(improvement.factor).max(improvement.interval.high);
    }
    ((low / 1.15).max(1.0 / FARTHEST), (high * 1.15).min(FARTHEST))
}

fn frame(svg: &mut Svg, panel: &Panel, x: &Log, (start, top): (f64, f64), bottom: f64, width: f64) {
    let letters = (width / 6.9) as usize;
    svg.open("axis");
    svg.text("panel", (start, top + 14.0), &shortened(&panel.title, letters));
    let subtitle = match panel.subtitle.chars().count() > letters {
        true => panel.subtitle.trim_end_matches(" of bytes"),
        false => &panel.subtitle,
    };
    svg.text("", (start, top + 30.0), &shortened(subtitle, letters));
    let top = top + TOP;
    let named = x.three_ticks(28.0);
    for mark in x.ticks(28.0) {
        svg.line("tick", (x.at(mark.value), bottom), (x.at(mark.value), bottom + 3.0));
    }
    for value in named {
        let at = x.at(value);
        svg.line("grid", (at, top), (at, bottom));
        svg.line("tick", (at, bottom), (at, bottom + 5.0));
        svg.text("mid", (at, bottom + 17.0), &tick(value));
    }
    svg.line("one", (x.at(1.0), top - 4.0), (x.at(1.0), bottom));
    svg.close();
}
