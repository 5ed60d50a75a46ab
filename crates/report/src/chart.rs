//! A figure of one or more panels as an SVG file of its own: series over a parameter or over named cases.
//!
//! Experiments repeat one measurement over seeds and compare it with a number in a paper. So a point is a value with an
//! interval, and beside it may stand a hollow diamond: what the paper says. Over numbers, points are joined; over named
//! cases they stand side by side, since a line between "short" and "wide" would mean nothing.
//!
//! The file carries its own few styles and a plain background: it is shown by viewers that know nothing of our pages.
//! Colours are those of the HTML report; a name has one colour in all panels, and beyond seven names dots are hollow. Ratios are drawn on a
//! logarithmic axis with a line at one: a half is as far from one as a double.

use crate::scale::{Linear, Log, tick, time_tick};
use crate::svg::{Svg, px, shortened};

const PANEL: (f64, f64) = (480.0, 304.0);
const PLOT: (f64, f64, f64, f64) = (58.0, 40.0, 318.0, 248.0);
const LEGEND: f64 = 334.0;
const LEGEND_STEP: f64 = 18.0;
const LEGEND_LETTERS: usize = 21;
const COLUMNS: usize = 2;
const LOOKS: usize = 7;
/// Sixteen pixels of air where a value stands at the end of an axis.
const AIR: f64 = 14.0;

const STYLE: &str = "<style>\
text{font:12px system-ui,-apple-system,'Segoe UI','Helvetica Neue','Noto Sans','DejaVu Sans',sans-serif;fill:#1b1b1a}\
.mid{text-anchor:middle}.end{text-anchor:end}.muted{fill:#65635d;font-size:11px}.title{font-weight:600;font-size:13px}\
.grid{stroke:#ece9e1}.base{stroke:#b9b5aa}.one{stroke:#65635d;stroke-dasharray:3 3}\
.curve{fill:none;stroke:var(--c);stroke-width:1.7;stroke-linejoin:round}.whisker{stroke:var(--c);stroke-width:1.4}\
.band{fill:var(--c);opacity:.14}.dot{fill:var(--c)}.paper{fill:#fffefb;fill-opacity:.75;stroke:var(--c);stroke-width:1.7}\
.c0{--c:#1b1b1a}.c1{--c:#0072b2}.c2{--c:#d55e00}.c3{--c:#009e73}.c4{--c:#cc79a7}.c5{--c:#e69f00}.c6{--c:#56b4e9}\
.d1 .curve{stroke-dasharray:6 2.5}.d1 .dot{fill:#fffefb;stroke:var(--c);stroke-width:1.7}</style>";

/// One panel.
#[derive(Clone, Debug, PartialEq)]
pub struct ChartPanel {
    /// What it shows.
    pub title: String,
    /// The axis along which points stand.
    pub horizontal: Horizontal,
    /// The axis of values.
    pub vertical: Vertical,
    /// What is drawn, in the order of the legend.
    pub series: Vec<ChartSeries>,
}

/// The horizontal axis.
#[derive(Clone, Debug, PartialEq)]
pub enum Horizontal {
    /// A parameter.
    Numbers {
        /// Its name.
        name: String,
        /// Whether equal ratios are equal distances; then all values are above zero.
        log: bool,
    },
    /// Cases; a point's place is an index into the names.
    Cases {
        /// What they have in common.
        name: String,
        /// Their names.
        names: Vec<String>,
    },
}

/// The vertical axis: what a value is.
#[derive(Clone, Debug, PartialEq)]
pub enum Vertical {
    /// A ratio, where one means no difference.
    Ratio(String),
    /// A share in per cent, where zero means no difference.
    Percent(String),
    /// A time in seconds.
    Seconds(String),
}

/// One series.
#[derive(Clone, Debug, PartialEq)]
pub struct ChartSeries {
    /// Its name in the legend.
    pub name: String,
    /// Its points, from left to right.
    pub points: Vec<ChartPoint>,
    /// What a paper says: places and values.
    pub paper: Vec<(f64, f64)>,
}

/// A value with its interval; without one, both ends are the value.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ChartPoint {
    /// Where it stands.
    pub at: f64,
    /// The value.
    pub value: f64,
    /// Lower end of the interval.
    pub low: f64,
    /// Upper end of the interval.
    pub high: f64,
}

/// The figure as an SVG file. Values that are not finite are left out.
pub fn chart(label: &str, panels: &[ChartPanel]) -> String {
    let columns = panels.len().clamp(1, COLUMNS);
    let rows = panels.len().div_ceil(columns);
    let (width, height) = (PANEL.0 * columns as f64, PANEL.1 * rows as f64);
    let mut svg = Svg::file(width, height, label, STYLE);
    svg.rect("fill=\"#fffefb\"", (0.0, 0.0), (width, height));
    let names = names(panels);
    for (index, panel) in panels.iter().enumerate() {
        let origin = (PANEL.0 * (index % columns) as f64, PANEL.1 * (index / columns) as f64);
        draw(&mut svg, panel, origin, &names);
    }
    svg.finish()
}

/// The names of all series, each once, in the order in which they first appear.
fn names(panels: &[ChartPanel]) -> Vec<&str> {
    let mut names: Vec<&str> = Vec::new();
    for series in panels.iter().flat_map(|panel| &panel.series) {
        if !names.contains(&series.name.as_str()) {
            names.push(&series.name);
        }
    }
    names
}

fn draw(svg: &mut Svg, panel: &ChartPanel, (left, top): (f64, f64), names: &[&str]) {
    let frame = Frame { left: left + PLOT.0, top: top + PLOT.1, right: left + PLOT.2, bottom: top + PLOT.3 };
    svg.text("title", (left + 12.0, top + 20.0), &panel.title);
    let y = Scale::vertical(panel, &frame);
    let x = Scale::horizontal(panel, &frame);
    vertical_axis(svg, &panel.vertical, &y, &frame);
    horizontal_axis(svg, &panel.horizontal, &x, &frame);
    let reaches = panel.series.len() as f64;
    for (index, series) in panel.series.iter().enumerate() {
        let look = look(names.iter().position(|name| *name == series.name).unwrap_or(index));
        svg.open(&format!("class=\"{look}\""));
        let aside = match &panel.horizontal {
            Horizontal::Numbers { .. } => 0.0,
            Horizontal::Cases { names, .. } => {
                let room = (frame.right - frame.left) / names.len().max(1) as f64;
                (index as f64 - (reaches - 1.0) / 2.0) * (room * 0.72 / reaches).min(16.0)
            }
        };
        let joined = matches!(panel.horizontal, Horizontal::Numbers { .. });
        series_at(svg, series, &x, &y, aside, joined);
        svg.close();
        legend(svg, series, &look, (left + LEGEND, top + PLOT.1 + 6.0 + LEGEND_STEP * index as f64));
    }
    if panel.series.iter().any(|series| !series.paper.is_empty()) {
        let y = top + PLOT.1 + 6.0 + LEGEND_STEP * (reaches + 0.4);
        svg.open("class=\"c0\"");
        diamond(svg, (left + LEGEND + 7.0, y - 4.0));
        svg.text("muted", (left + LEGEND + 20.0, y), "what the paper says");
        svg.close();
    }
}

/// The rectangle that values are drawn in.
struct Frame {
    left: f64,
    top: f64,
    right: f64,
    bottom: f64,
}

enum Scale {
    Linear(Linear),
    Log(Log),
}

impl Scale {
    fn at(&self, value: f64) -> f64 {
        match self {
            Self::Linear(scale) => scale.at(value),
            Self::Log(scale) => scale.at(value),
        }
    }

    fn horizontal(panel: &ChartPanel, frame: &Frame) -> Self {
        let range = (frame.left + AIR, frame.right - AIR);
        match &panel.horizontal {
            Horizontal::Cases { names, .. } => {
                let most = names.len() as f64 - 0.5;
                Self::Linear(Linear::new((-0.5, most.max(0.5)), (frame.left, frame.right)))
            }
            Horizontal::Numbers { log, .. } => {
                let places = || panel.series.iter().flat_map(|series| &series.points).map(|point| point.at);
                let low = places().reduce(f64::min).unwrap_or(0.0);
                let high = places().reduce(f64::max).unwrap_or(1.0);
                if *log && low > 0.0 {
                    Self::Log(Log::new((low, high), range))
                } else {
                    Self::Linear(Linear::new((low, high), range))
                }
            }
        }
    }

    fn vertical(panel: &ChartPanel, frame: &Frame) -> Self {
        let ends = |point: &ChartPoint| [point.low, point.value, point.high];
        let drawn = panel.series.iter().flat_map(|series| {
            series.points.iter().flat_map(ends).chain(series.paper.iter().map(|&(_, value)| value))
        });
        let drawn: Vec<f64> = drawn.filter(|value| value.is_finite()).collect();
        let low = drawn.iter().copied().fold(f64::INFINITY, f64::min);
        let high = drawn.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let range = (frame.bottom, frame.top);
        match panel.vertical {
            Vertical::Percent(_) => {
                let (low, high) = (low.min(0.0), high.max(0.0));
                let air = (high - low) * 0.06;
                Self::Linear(Linear::new((if low < 0.0 { low - air } else { 0.0 }, high + air), range))
            }
            Vertical::Ratio(_) | Vertical::Seconds(_) => {
                let one = matches!(panel.vertical, Vertical::Ratio(_));
                let positive = drawn.iter().copied().filter(|&value| value > 0.0);
                let low = positive.clone().fold(if one { 1.0 } else { f64::INFINITY }, f64::min);
                let high = positive.fold(if one { 1.0 } else { 0.0 }, f64::max);
                if low > high {
                    return Self::Linear(Linear::new((0.0, 1.0), range));
                }
                Self::Log(Log::new((low / 1.12, high * 1.12), range))
            }
        }
    }
}

fn vertical_axis(svg: &mut Svg, vertical: &Vertical, y: &Scale, frame: &Frame) {
    let ticks: Vec<f64> = match y {
        Scale::Linear(scale) => scale.ticks(5),
        Scale::Log(scale) => {
            scale.ticks(20.0).into_iter().filter(|tick| tick.labelled).map(|tick| tick.value).collect()
        }
    };
    for value in ticks {
        let at = y.at(value);
        svg.line("grid", (frame.left, at), (frame.right, at));
        let text = match vertical {
            Vertical::Seconds(_) => time_tick(value),
            Vertical::Percent(_) => format!("{} %", tick(value)),
            Vertical::Ratio(_) => format!("{}×", tick(value)),
        };
        svg.text("muted end", (frame.left - 6.0, at + 4.0), &text);
    }
    let (name, neutral) = match vertical {
        Vertical::Ratio(name) => (name, Some(1.0)),
        Vertical::Percent(name) => (name, Some(0.0)),
        Vertical::Seconds(name) => (name, None),
    };
    if let Some(neutral) = neutral {
        svg.line("one", (frame.left, y.at(neutral)), (frame.right, y.at(neutral)));
    }
    svg.text("muted", (frame.left, frame.top - 6.0), name);
}

fn horizontal_axis(svg: &mut Svg, horizontal: &Horizontal, x: &Scale, frame: &Frame) {
    svg.line("base", (frame.left, frame.bottom), (frame.right, frame.bottom));
    let mut mark = |at: f64, text: &str| {
        svg.line("base", (at, frame.bottom), (at, frame.bottom + 4.0));
        svg.text("muted mid", (at, frame.bottom + 17.0), text);
    };
    let name = match horizontal {
        Horizontal::Cases { name, names } => {
            let letters = (48 / names.len().max(1)).max(9);
            for (index, case) in names.iter().enumerate() {
                mark(x.at(index as f64), &shortened(case, letters));
            }
            name
        }
        Horizontal::Numbers { name, .. } => {
            match x {
                Scale::Linear(scale) => {
                    scale.ticks(6).into_iter().for_each(|value| mark(scale.at(value), &tick(value)));
                }
                Scale::Log(scale) => {
                    for at in scale.ticks(26.0).into_iter().filter(|tick| tick.labelled) {
                        mark(scale.at(at.value), &compact(at.value));
                    }
                }
            }
            name
        }
    };
    svg.text("muted mid", ((frame.left + frame.right) / 2.0, frame.bottom + 36.0), name);
}

/// A large tick in few letters: `10k`, `5M`.
fn compact(value: f64) -> String {
    let units = [(1e12, "T"), (1e9, "G"), (1e6, "M"), (1e4, "k")];
    match units.into_iter().find(|(size, _)| value >= *size) {
        Some((1e4, unit)) => format!("{}{unit}", tick(value / 1e3)),
        Some((size, unit)) => format!("{}{unit}", tick(value / size)),
        None => tick(value),
    }
}

fn series_at(svg: &mut Svg, series: &ChartSeries, x: &Scale, y: &Scale, aside: f64, joined: bool) {
    let points: Vec<ChartPoint> =
        series.points.iter().copied().filter(|point| point.value.is_finite()).collect();
    if joined {
        let commands = points.iter().enumerate().map(|(index, point)| {
            let letter = if index == 0 { 'M' } else { 'L' };
            format!("{letter}{} {}", px(x.at(point.at)), px(y.at(point.value)))
        });
        svg.path("curve", &commands.collect::<String>());
    }
    for point in &points {
        let at = x.at(point.at) + aside;
        if point.low.is_finite() && point.high.is_finite() && point.low < point.high {
            svg.line("whisker", (at, y.at(point.low)), (at, y.at(point.high)));
        }
        svg.circle("dot", (at, y.at(point.value)), if joined { 2.6 } else { 3.6 });
    }
    for &(at, value) in &series.paper {
        diamond(svg, (x.at(at) + aside, y.at(value)));
    }
}

fn diamond(svg: &mut Svg, (x, y): (f64, f64)) {
    let corner = |dx: f64, dy: f64| format!("{} {}", px(x + dx), px(y + dy));
    let corners = [corner(0.0, -5.0), corner(5.0, 0.0), corner(0.0, 5.0), corner(-5.0, 0.0)];
    svg.path("paper", &format!("M{}Z", corners.join("L")));
}

fn legend(svg: &mut Svg, series: &ChartSeries, look: &str, (x, y): (f64, f64)) {
    svg.open(&format!("class=\"{look}\""));
    svg.line("whisker", (x, y - 4.0), (x + 14.0, y - 4.0));
    svg.circle("dot", (x + 7.0, y - 4.0), 3.2);
    svg.text("", (x + 20.0, y), &shortened(&series.name, LEGEND_LETTERS));
    svg.close();
}

/// The classes of the series at `index`.
fn look(index: usize) -> String {
    format!("c{} d{}", index % LOOKS, index / LOOKS % 2)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn panel(vertical: Vertical, horizontal: Horizontal) -> ChartPanel {
        let point = |at: f64, value: f64| ChartPoint { at, value, low: value * 0.9, high: value * 1.1 };
        let points = vec![point(1.0, 2.0), point(2.0, 4.0), point(3.0, f64::NAN)];
        let series = ChartSeries { name: "Aalo & co".to_owned(), points, paper: vec![(2.0, 3.0)] };
        ChartPanel { title: "A <title>".to_owned(), horizontal, vertical, series: vec![series] }
    }

    fn numbers(log: bool) -> Horizontal {
        Horizontal::Numbers { name: "queues".to_owned(), log }
    }

    #[test]
    fn the_same_panels_give_the_same_bytes_and_text_is_escaped() {
        let panels = [panel(Vertical::Ratio("factor".to_owned()), numbers(true))];
        let drawn = chart("a chart", &panels);
        assert_eq!(drawn, chart("a chart", &panels));
        assert!(drawn.contains("A &lt;title&gt;") && drawn.contains("Aalo &amp; co"), "{drawn}");
        assert!(drawn.starts_with("<svg xmlns=\"http://www.w3.org/2000/svg\""));
    }

    #[test]
    fn a_value_that_is_not_finite_is_left_out_and_the_papers_is_a_diamond() {
        for vertical in [Vertical::Ratio, Vertical::Percent, Vertical::Seconds] {
            let drawn = chart("", &[panel(vertical("y".to_owned()), numbers(false))]);
            // Two points and one in the legend.
            assert_eq!(drawn.matches("<circle").count(), 3);
            assert_eq!(drawn.matches("class=\"paper\"").count(), 2);
        }
    }

    #[test]
    fn cases_are_not_joined() {
        let names = ["a", "b", "c", "d"].map(str::to_owned).to_vec();
        let cases = Horizontal::Cases { name: "bin".to_owned(), names };
        let drawn = chart("", &[panel(Vertical::Ratio("y".to_owned()), cases)]);
        assert!(!drawn.contains("class=\"curve\""));
        assert_eq!(drawn.matches("<circle").count(), 3);
    }

    #[test]
    fn nothing_to_draw_is_an_empty_frame() {
        let empty =
            ChartPanel { series: Vec::new(), ..panel(Vertical::Seconds("y".to_owned()), numbers(true)) };
        assert!(chart("", &[empty]).contains("<line"));
        assert!(chart("", &[]).contains("<rect"));
    }

    #[test]
    fn large_ticks_are_short() {
        assert_eq!([1.0, 5000.0, 2e4, 5e6, 1e12].map(compact), ["1", "5000", "20k", "5M", "1T"]);
    }
}
