//! The distribution of completion times, of coflows or of tasks, under every policy: for each time,
//! the share that took no longer.
//!
//! Time is logarithmic: completion times span five orders of magnitude, and a constant ratio is
//! then a constant distance. The legend follows the lines from left to right, that is by the mean
//! of the logarithm, which is where a curve stands on this axis.

use cavalcade_metrics::{Comparison, Ranked, RunFigures};
use cavalcade_model::Nanos;

use crate::look::Look;
use crate::scale::{Linear, Log, time_tick};
use crate::svg::{Svg, px, text_width};

/// Room for the names of the vertical axis, and below the plot.
pub(crate) const LEFT: f64 = 62.0;
pub(crate) const BELOW: f64 = 44.0;
pub(crate) const ABOVE: f64 = 12.0;
pub(crate) const AIR: f64 = 16.0;

/// The curves of some runs on common axes.
pub(crate) struct Cdf<'a> {
    comparison: &'a Comparison,
    looks: &'a [Look],
    /// In the order of the lines, from left to right.
    order: Vec<usize>,
    /// For each of them, its completion times in seconds, ascending.
    curves: Vec<Vec<f64>>,
    span_s: (f64, f64),
    of: Ranked,
}

impl<'a> Cdf<'a> {
    /// Of the coflows or the tasks of these runs; `None` where none took any time.
    pub(crate) fn of(
        comparison: &'a Comparison,
        looks: &'a [Look],
        runs: &[usize],
        of: Ranked,
    ) -> Option<Self> {
        let place = |run: usize| -> f64 {
            let times = ascending_seconds(times(&comparison.runs[run], of));
            let times: Vec<f64> = times.into_iter().filter(|&seconds| seconds > 0.0).collect();
            times.iter().map(|&seconds| libm::log10(seconds)).sum::<f64>() / times.len().max(1) as f64
        };
        let mut placed: Vec<(f64, usize)> = runs.iter().map(|&run| (place(run), run)).collect();
        placed.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
        let order: Vec<usize> = placed.into_iter().map(|(_, run)| run).collect();
        let curves: Vec<Vec<f64>> =
            order.iter().map(|&run| ascending_seconds(times(&comparison.runs[run], of))).collect();
        let positive = || curves.iter().flatten().copied().filter(|&seconds| seconds > 0.0);
        let (low, high) = (positive().reduce(f64::min)?, positive().reduce(f64::max)?);
        Some(Self { comparison, looks, order, curves, span_s: (low.max(high / 1e8), high), of })
    }

    /// The runs in the order of the lines, from left to right.
    pub(crate) fn order(&self) -> &[usize] {
        &self.order
    }

    /// Draws axes and curves into a rectangle.
    pub(crate) fn draw(&self, svg: &mut Svg, (left, top): (f64, f64), (width, height): (f64, f64)) {
        let (left, right) = (left + LEFT, left + width - AIR);
        let (top, bottom) = (top + ABOVE, top + height - BELOW);
        let x = Log::new(self.span_s, (left, right));
        let y = Linear::new((0.0, 1.0), (bottom, top));
        let (noun, time) = (self.of.noun(), self.of.time());
        let name = match right - left {
            wide if wide > 400.0 => format!("{noun} completion time (log scale), further left is better"),
            _ => format!("{time} (log scale), further left is better"),
        };
        let shares = format!("share of {noun}s finished");
        axes(svg, (&x, &y), (left, right), (top, bottom), &Names { x: &name, tick: time_tick, y: &shares });
        // The first is drawn last, on top.
        for (&run, curve) in self.order.iter().zip(&self.curves).rev() {
            let base = if run == self.comparison.baseline { " base" } else { "" };
            svg.open_run(run, &format!("{} run{run}{base}", self.looks[run].classes()));
            svg.tooltip(&self.comparison.runs[run].label);
            svg.path("curve", &steps(curve, &x, &y));
            svg.close();
        }
    }

    /// A drawing of that size, for the page.
    pub(super) fn svg(&self, class: &str, width: f64, height: f64) -> String {
        let label = format!("Distribution of {} completion times by policy", self.of.noun());
        let mut svg = Svg::new(width, height, &label).class(class);
        self.draw(&mut svg, (0.0, 0.0), (width, height));
        svg.finish()
    }
}

fn times(run: &RunFigures, of: Ranked) -> &[Nanos] {
    match of {
        Ranked::Coflows => &run.cct,
        Ranked::Tasks => &run.tct,
    }
}

fn ascending_seconds(times: &[Nanos]) -> Vec<f64> {
    let mut nanos = times.to_vec();
    nanos.sort_unstable();
    nanos.into_iter().map(|time| time.as_secs_f64()).collect()
}

/// The curve of ascending values as steps; all that fall into one half pixel are one step.
pub(crate) fn steps(ascending: &[f64], x: &Log, y: &Linear) -> String {
    let column = |seconds: f64| (x.at(seconds.max(f64::MIN_POSITIVE)) * 2.0).round() / 2.0;
    let start = ascending.first().map_or_else(|| x.at(f64::MIN_POSITIVE), |&first| column(first));
    let mut path = format!("M{} {}", px(start), px(y.at(0.0)));
    for (index, &seconds) in ascending.iter().enumerate() {
        let at = column(seconds);
        if ascending.get(index + 1).is_none_or(|&next| column(next) > at) {
            let share = (index + 1) as f64 / ascending.len() as f64;
            path.push_str(&format!("H{}V{}", px(at), px(y.at(share))));
        }
    }
    path
}

/// The names of a distribution's axes, and of the values along the horizontal one.
pub(crate) struct Names<'a> {
    pub(crate) x: &'a str,
    pub(crate) tick: fn(f64) -> String,
    pub(crate) y: &'a str,
}

/// Draws the axes of a distribution.
pub(crate) fn axes(
    svg: &mut Svg,
    (x, y): (&Log, &Linear),
    (left, right): (f64, f64),
    (top, bottom): (f64, f64),
    names: &Names<'_>,
) {
    svg.open("axis");
    for share in [0.0, 0.25, 0.5, 0.75, 1.0] {
        svg.line("grid", (left, y.at(share)), (right, y.at(share)));
        svg.text("end", (left - 8.0, y.at(share) + 4.0), &format!("{} %", share * 100.0));
    }
    log_axis(svg, x, (left, right), (top, bottom), (names.x, names.tick));
    upright(svg, (left - LEFT + 12.0, (top + bottom) / 2.0), names.y);
    svg.close();
}

/// Draws a logarithmic horizontal axis below a plot.
pub(crate) fn log_axis(
    svg: &mut Svg,
    x: &Log,
    (left, right): (f64, f64),
    (top, bottom): (f64, f64),
    (name, tick_text): (&str, fn(f64) -> String),
) {
    let named = x.three_ticks(58.0);
    for tick in x.ticks(58.0) {
        let at = x.at(tick.value);
        svg.line("tick", (at, bottom), (at, bottom + if named.contains(&tick.value) { 6.0 } else { 3.0 }));
    }
    for value in named {
        svg.line("grid", (x.at(value), top), (x.at(value), bottom));
        let text = tick_text(value);
        // The last is not cut off by the edge.
        let at = x.at(value).min(right + AIR - text_width(&text) / 2.0);
        svg.text("mid", (at, bottom + 20.0), &text);
    }
    svg.line("base", (left, bottom), (right, bottom));
    svg.text("mid name", ((left + right) / 2.0, bottom + 39.0), name);
}

/// Writes the name of a vertical axis around its middle, from below.
pub(crate) fn upright(svg: &mut Svg, (x, y): (f64, f64), name: &str) {
    svg.open_with("", &format!("transform=\"translate({} {}) rotate(-90)\"", px(x), px(y)));
    svg.text("mid name", (0.0, 0.0), name);
    svg.close();
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{look, sample};

    #[test]
    fn the_order_of_the_legend_is_that_of_the_lines() {
        let comparison = sample::comparison(5, 80);
        let looks = look::looks(&["a", "b", "c", "d", "e"]);
        let cdf = Cdf::of(&comparison, &looks, &[0, 1, 2, 3, 4], Ranked::Coflows).unwrap();
        let place = |run: &usize| -> f64 {
            comparison.runs[*run].cct.iter().map(|time| libm::log10(time.as_secs_f64())).sum()
        };
        let places: Vec<f64> = cdf.order().iter().map(place).collect();
        assert!(places.is_sorted(), "{places:?}");
    }
}
