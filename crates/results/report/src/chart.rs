//! A figure of one or more panels as an SVG file of its own: series over a parameter or over named
//! cases.
//!
//! Experiments repeat one measurement over seeds and compare it with a number in a paper. So a
//! point is a value with an interval, and beside it may stand a hollow diamond: the paper's value.
//! Over numbers, points are joined; over named cases they stand side by side, since a line between
//! "short" and "wide" would mean nothing. There a diamond stands to the left of its point, so that
//! none hides the other; a paper that says two numbers about a point has one diamond, the first.
//!
//! The file carries its own background and no style sheet: it is shown by viewers that know nothing
//! of our pages. Colours go by policy ([`crate::look`]), one legend at the top serves all panels
//! and says what whiskers and diamonds are, and every axis says in which direction better lies.
//! Ratios are drawn on a logarithmic axis with a line at one: a half is as far from one as a
//! double.

mod axes;

use crate::legend::{self, Key, Mark, diamond, marker};
use crate::look::{Look, looks};
use crate::svg::{Svg, px, shortened};
use axes::{Frame, Scale, horizontal_axis, slanted_axis, vertical_axis};

const PANEL: (f64, f64) = (480.0, 312.0);
/// The width of a figure of one panel.
const ALONE: f64 = 640.0;
const COLUMNS: usize = 2;
/// The number of cases up to which their names stand upright; a panel with more has the figure's
/// width and slanted names.
const MOST_UPRIGHT: usize = 10;
/// Height that slanted names take.
const SLANTED: f64 = 96.0;
/// About the width of a letter of a title.
const TITLE_LETTER: f64 = 7.2;
/// From the edges of a panel to its plot.
const INSET: (f64, f64, f64, f64) = (64.0, 52.0, 18.0, 56.0);
const MARGIN: f64 = 14.0;

/// One panel.
#[derive(Clone, Debug, PartialEq)]
pub struct ChartPanel {
    /// Its title.
    pub title: String,
    /// The axis along which points stand.
    pub horizontal: Horizontal,
    /// The axis of values.
    pub vertical: Vertical,
    /// The series, in the order of the legend.
    pub series: Vec<ChartSeries>,
}

/// The horizontal axis.
#[derive(Clone, Debug, PartialEq)]
pub enum Horizontal {
    /// A parameter.
    Numbers {
        /// Its name.
        name: String,
        /// True if equal ratios are equal distances; then all values are above zero.
        log: bool,
        /// Values to name and their names, in ascending order.
        ticks: Vec<(f64, String)>,
    },
    /// Cases; a point's place is an index into the names.
    Cases {
        /// Their common name.
        name: String,
        /// Their names.
        names: Vec<String>,
    },
}

/// The vertical axis.
#[derive(Clone, Debug, PartialEq)]
pub struct Vertical {
    /// Its title.
    pub name: String,
    /// The unit of values.
    pub unit: Unit,
    /// The better direction.
    pub better: Better,
    /// Whether it begins at zero, in equal steps: for values that may be zero. Otherwise equal
    /// ratios are equal distances.
    pub from_zero: bool,
}

/// The unit of the vertical axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// A ratio, where one means no difference.
    Ratio,
    /// A share in per cent, where zero means no difference.
    Percent,
    /// A time in seconds.
    Seconds,
    /// Bytes.
    Bytes,
}

/// The direction in which values are better.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Better {
    /// More is better.
    Higher,
    /// Less is better.
    Lower,
    /// Neither: what is less in one place is more in another.
    Neither,
}

/// One series.
#[derive(Clone, Debug, PartialEq)]
pub struct ChartSeries {
    /// Its name in the legend.
    pub name: String,
    /// The policy or transport that its colour goes by.
    pub policy: String,
    /// Its points, from left to right.
    pub points: Vec<ChartPoint>,
    /// A paper's values: places and values.
    pub paper: Vec<(f64, f64)>,
    /// How it is drawn over numbers; over cases it is dots.
    pub stroke: Stroke,
}

/// The way to draw a series over numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stroke {
    /// Points joined by a line.
    Joined,
    /// Points alone, where neighbours have nothing to do with each other.
    Dots,
    /// A line alone: a law, of which no point was measured.
    Line,
}

impl ChartPanel {
    /// Returns true where it has too many cases for half of the figure's width.
    fn is_wide(&self) -> bool {
        matches!(&self.horizontal, Horizontal::Cases { names, .. } if names.len() > MOST_UPRIGHT)
    }

    /// The mark of a series in the legend.
    fn mark(&self, series: &ChartSeries) -> Mark {
        match (&self.horizontal, series.stroke) {
            (Horizontal::Cases { .. }, _) | (_, Stroke::Dots) => Mark::Dot,
            (Horizontal::Numbers { .. }, Stroke::Joined) => Mark::Joined,
            (Horizontal::Numbers { .. }, Stroke::Line) => Mark::Line,
        }
    }
}

/// A value with its interval; without one, both ends are the value.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ChartPoint {
    /// Its place along the horizontal axis.
    pub at: f64,
    /// The value.
    pub value: f64,
    /// Lower end of the interval.
    pub low: f64,
    /// Upper end of the interval.
    pub high: f64,
}

/// Draws the figure as an SVG file. Values that are not finite are left out.
pub fn chart(label: &str, panels: &[ChartPanel]) -> String {
    let is_alone = panels.len() <= 1 && !panels.iter().any(ChartPanel::is_wide);
    let column = if is_alone { ALONE } else { PANEL.0 };
    let width = if is_alone { ALONE } else { PANEL.0 * COLUMNS as f64 };
    let keys = keys(panels);
    let top = MARGIN + legend::height(&keys, width - 2.0 * MARGIN) + 8.0;
    let (frames, height) = placed(panels, width, column, top);
    let mut svg = Svg::file((px(width), px(height)), (width, height), label, "#fffefb");
    legend::draw(&mut svg, &keys, (MARGIN, MARGIN - 4.0), width - 2.0 * MARGIN);
    for (panel, frame) in panels.iter().zip(frames) {
        draw(&mut svg, panel, &frame, &keys);
    }
    svg.finish()
}

/// One panel in a drawing of any width, with its legend above it: for figures that stand in a
/// paper, where the caption is the title.
pub(crate) struct Alone<'a> {
    panel: &'a ChartPanel,
    keys: Vec<Key>,
    width: f64,
}

impl<'a> Alone<'a> {
    /// Above the plot: the name of its vertical axis.
    const ABOVE: f64 = 28.0;

    /// The panel in that width.
    pub(crate) fn of(panel: &'a ChartPanel, width: f64) -> Self {
        Self { panel, keys: keys(std::slice::from_ref(panel)), width }
    }

    fn plot(&self) -> f64 {
        if self.width < 500.0 { 180.0 } else { 240.0 }
    }

    /// The height that it takes.
    pub(crate) fn height(&self) -> f64 {
        let below = if self.panel.is_wide() { SLANTED } else { 0.0 };
        legend::height(&self.keys, self.width) + Self::ABOVE + self.plot() + INSET.3 + below
    }

    /// Draws it with its upper left corner at a place.
    pub(crate) fn draw(&self, svg: &mut Svg, (left, top): (f64, f64)) {
        legend::draw(svg, &self.keys, (left, top), self.width);
        let top = top + legend::height(&self.keys, self.width) + Self::ABOVE;
        let right = left + self.width - INSET.2;
        let frame = Frame { left: left + INSET.0 - MARGIN, top, right, bottom: top + self.plot() };
        content(svg, self.panel, &frame, &self.keys, left);
    }
}

/// Places panels side by side from a height on, a wide one alone in its row; returns their plots
/// and the end of the last row.
fn placed(panels: &[ChartPanel], width: f64, column: f64, top: f64) -> (Vec<Frame>, f64) {
    let (mut left, mut top, mut bottom) = (0.0, top, top);
    let place = |panel: &ChartPanel| {
        let (needs, below) = if panel.is_wide() { (width, SLANTED) } else { (column, 0.0) };
        if left + needs > width {
            (left, top) = (0.0, bottom);
        }
        bottom = top + PANEL.1 + below;
        let frame = Frame {
            left: left + INSET.0,
            top: top + INSET.1,
            right: left + needs - INSET.2,
            bottom: top + PANEL.1 - INSET.3,
        };
        left += needs;
        frame
    };
    let frames = panels.iter().map(place).collect();
    (frames, bottom)
}

/// All series, each name once, in the order in which they first appear, and the marks that need an
/// explanation.
fn keys(panels: &[ChartPanel]) -> Vec<Key> {
    let mut shown: Vec<(&str, &str, Mark)> = Vec::new();
    for panel in panels {
        for series in &panel.series {
            let mark = panel.mark(series);
            match shown.iter_mut().find(|(name, ..)| *name == series.name) {
                Some(known) if mark != Mark::Dot => known.2 = mark,
                Some(_) => {}
                None => shown.push((&series.name, &series.policy, mark)),
            }
        }
    }
    let policies: Vec<&str> = shown.iter().map(|&(_, policy, _)| policy).collect();
    let series = shown.iter().zip(looks(&policies));
    let series: Vec<_> = series.map(|(&(name, _, mark), look)| (name, look, mark)).collect();
    let mut keys = Key::all(&series);
    let all = || panels.iter().flat_map(|panel| &panel.series);
    if all().flat_map(|series| &series.points).any(|point| point.low < point.high) {
        keys.push(Key::of(Mark::Whisker, "95 % interval over seeds"));
    }
    if all().any(|series| !series.paper.is_empty()) {
        keys.push(Key::of(Mark::Paper, "the paper’s value"));
    }
    keys
}

fn draw(svg: &mut Svg, panel: &ChartPanel, frame: &Frame, keys: &[Key]) {
    let left = frame.left - INSET.0 + MARGIN;
    let letters = ((frame.right - left) / TITLE_LETTER) as usize;
    svg.text("title", (left, frame.top - 34.0), &shortened(&panel.title, letters));
    content(svg, panel, frame, keys, left);
}

/// Draws axes and series; the name of the vertical axis begins at `left`.
fn content(svg: &mut Svg, panel: &ChartPanel, frame: &Frame, keys: &[Key], left: f64) {
    let y = Scale::vertical(panel, frame);
    let x = Scale::horizontal(panel, frame);
    vertical_axis(svg, &panel.vertical, &y, frame, left);
    if panel.is_wide() {
        slanted_axis(svg, &panel.horizontal, &x, frame);
    } else {
        horizontal_axis(svg, &panel.horizontal, &x, frame);
    }
    let reaches = panel.series.len() as f64;
    for (index, series) in panel.series.iter().enumerate() {
        let look = keys.iter().find(|key| key.name == series.name).map(|key| key.look);
        let look = look.expect("every series is in the legend");
        svg.open(&look.classes());
        let aside = match &panel.horizontal {
            // So little that points stay where they are, and intervals of one place can be told
            // apart.
            Horizontal::Numbers { .. } => {
                let has_intervals = panel.series.iter().flat_map(|series| &series.points).any(has_interval);
                let point = if has_intervals { 2.0 * (index as f64 - (reaches - 1.0) / 2.0) } else { 0.0 };
                Aside { point, paper: 0.0 }
            }
            Horizontal::Cases { names, .. } => {
                let room = (frame.right - frame.left) / names.len().max(1) as f64;
                let step = (room * 0.76 / reaches).min(18.0);
                let point = (index as f64 - (reaches - 1.0) / 2.0) * step;
                Aside { point, paper: point - (step / 2.0).min(9.0) }
            }
        };
        series_at(svg, series, look, (&x, &y), &aside, panel);
        svg.close();
    }
}

fn has_interval(point: &ChartPoint) -> bool {
    point.low.is_finite() && point.high.is_finite() && point.low < point.high
}

/// The offset of a series from its place on the axis, and what the paper says of it.
struct Aside {
    point: f64,
    paper: f64,
}

fn series_at(
    svg: &mut Svg,
    series: &ChartSeries,
    look: Look,
    (x, y): (&Scale, &Scale),
    aside: &Aside,
    panel: &ChartPanel,
) {
    let mark = panel.mark(series);
    let points: Vec<ChartPoint> =
        series.points.iter().copied().filter(|point| point.value.is_finite()).collect();
    if mark != Mark::Dot {
        let commands = points.iter().enumerate().map(|(index, point)| {
            let letter = if index == 0 { 'M' } else { 'L' };
            format!("{letter}{} {}", px(x.at(point.at) + aside.point), px(y.at(point.value)))
        });
        svg.path("curve", &commands.collect::<String>());
    }
    let unit = panel.vertical.unit;
    for point in points.iter().filter(|_| mark != Mark::Line) {
        let at = x.at(point.at) + aside.point;
        svg.open("");
        let interval = match has_interval(point) {
            true => format!(" (95 % interval {} to {})", unit.text(point.low), unit.text(point.high)),
            false => String::new(),
        };
        let place = panel.horizontal.place(point.at);
        svg.tooltip(&format!("{}, {place}: {}{interval}", series.name, unit.text(point.value)));
        if has_interval(point) {
            svg.line("whisker", (at, y.at(point.low)), (at, y.at(point.high)));
        }
        marker(svg, look, (at, y.at(point.value)), if mark == Mark::Joined { 2.9 } else { 3.6 });
        svg.close();
    }
    for (index, &(place, value)) in series.paper.iter().enumerate() {
        if series.paper[..index].iter().any(|&(other, _)| other == place) {
            continue;
        }
        svg.open("");
        let where_ = panel.horizontal.place(place);
        svg.tooltip(&format!("{}, {where_}: the paper says {}", series.name, unit.text(value)));
        diamond(svg, (x.at(place) + aside.paper, y.at(value)));
        svg.close();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn panel(unit: Unit, horizontal: Horizontal) -> ChartPanel {
        let point = |at: f64, value: f64| ChartPoint { at, value, low: value * 0.9, high: value * 1.1 };
        let points = vec![point(1.0, 2.0), point(2.0, 4.0), point(3.0, f64::NAN)];
        let (name, policy) = ("Aalo & co".to_owned(), "dclas".to_owned());
        let series = ChartSeries { name, policy, points, paper: vec![(2.0, 3.0)], stroke: Stroke::Joined };
        let vertical =
            Vertical { name: "speedup".to_owned(), unit, better: Better::Higher, from_zero: false };
        ChartPanel { title: "A <title>".to_owned(), horizontal, vertical, series: vec![series] }
    }

    fn numbers(log: bool) -> Horizontal {
        let ticks = [1.0, 2.0, 3.0].map(|at| (at, at.to_string())).to_vec();
        Horizontal::Numbers { name: "queues".to_owned(), log, ticks }
    }

    #[test]
    fn the_same_panels_give_the_same_bytes_and_text_is_escaped() {
        let panels = [panel(Unit::Ratio, numbers(true))];
        let drawn = chart("a chart", &panels);
        assert_eq!(drawn, chart("a chart", &panels));
        assert!(drawn.contains("A &lt;title&gt;") && drawn.contains("Aalo &amp; co"), "{drawn}");
        assert!(drawn.starts_with("<svg xmlns=\"http://www.w3.org/2000/svg\""));
        assert!(drawn.contains("higher is better") && drawn.contains("95 % interval over seeds"));
    }

    #[test]
    fn a_value_that_is_not_finite_is_left_out_and_the_papers_is_a_diamond() {
        for unit in [Unit::Ratio, Unit::Percent, Unit::Seconds, Unit::Bytes] {
            let drawn = chart("", &[panel(unit, numbers(false))]);
            // Two points and one in the legend.
            assert_eq!(drawn.matches("<circle").count(), 3);
            assert_eq!(drawn.matches("stroke-width=\"1.7\"").count(), 2);
        }
    }

    #[test]
    fn a_point_has_one_diamond_and_it_stands_beside_the_point() {
        let names = ["a", "b", "c", "d"].map(str::to_owned).to_vec();
        let mut cases = panel(Unit::Ratio, Horizontal::Cases { name: "bin".to_owned(), names });
        cases.series[0].paper = vec![(2.0, 4.0), (2.0, 3.9), (1.0, 2.0)];
        let drawn = chart("", &[cases]);
        assert_eq!(drawn.matches("stroke-width=\"1.7\"").count(), 3, "two points and the legend");
        let after = |text: &str, mark: &str| -> f64 {
            let at = text.find(mark).unwrap() + mark.len();
            text[at..].split([' ', '"']).next().unwrap().parse().unwrap()
        };
        let in_panel = &drawn[drawn.find("A &lt;title").unwrap()..];
        let (point, paper) = (after(in_panel, "cx=\""), after(in_panel, "stroke-width=\"1.7\" d=\"M"));
        // The first point is at 1 and the first diamond at 2, one of four cases further.
        let case = (ALONE - INSET.0 - INSET.2) / 4.0;
        assert!((case - 10.0..case - 4.0).contains(&(paper - point)), "{paper} beside {point}");
    }

    #[test]
    fn cases_are_not_joined() {
        let names = ["a", "b", "c", "d"].map(str::to_owned).to_vec();
        let cases = Horizontal::Cases { name: "bin".to_owned(), names };
        let drawn = chart("", &[panel(Unit::Ratio, cases)]);
        assert!(!drawn.contains("stroke-linejoin"));
        assert_eq!(drawn.matches("<circle").count(), 3);
    }

    #[test]
    fn many_cases_have_the_figures_width_and_slanted_names() {
        let with = |cases: usize| {
            let names = (0..cases).map(|case| format!("a case {case}")).collect();
            panel(Unit::Ratio, Horizontal::Cases { name: "workload".to_owned(), names })
        };
        let panels = [with(4), with(24), with(4), with(4)];
        let (frames, height) = placed(&panels, 960.0, 480.0, 0.0);
        assert!(frames[1].right > 900.0 && frames[0].right < 480.0 && frames[3].left > 480.0);
        assert!(frames[1].top > frames[0].bottom && frames[2].top > frames[1].bottom + SLANTED);
        assert_eq!(frames[2].top, frames[3].top);
        assert_eq!(height, 3.0 * PANEL.1 + SLANTED);
        assert_eq!(chart("", &panels).matches("rotate(").count(), 24);
    }

    #[test]
    fn a_law_is_a_line_without_points_and_a_cloud_is_points_without_a_line() {
        let with = |stroke: Stroke| {
            let mut panel = panel(Unit::Ratio, numbers(true));
            panel.series[0].stroke = stroke;
            let drawn = chart("", &[panel]);
            (drawn.matches("stroke-linejoin").count(), drawn.matches("<circle").count())
        };
        // In the panel and in the legend.
        assert_eq!(with(Stroke::Line), (2, 0));
        assert_eq!(with(Stroke::Dots), (0, 3));
    }

    #[test]
    fn nothing_to_draw_is_an_empty_frame() {
        let empty = ChartPanel { series: Vec::new(), ..panel(Unit::Seconds, numbers(true)) };
        assert!(chart("", &[empty]).contains("<line"));
        assert!(chart("", &[]).contains("<rect"));
    }

    #[test]
    fn one_policy_has_one_colour_in_every_figure() {
        let mut other = panel(Unit::Ratio, numbers(false));
        let fair = ChartSeries { name: "fair".into(), policy: "fair".into(), ..other.series[0].clone() };
        other.series.insert(0, fair);
        let color = |drawn: &str| {
            let at = drawn.find(">Aalo").unwrap();
            drawn[..at].rfind("stroke=\"#").map(|start| drawn[start + 8..start + 15].to_owned()).unwrap()
        };
        assert_eq!(color(&chart("", &[other])), color(&chart("", &[panel(Unit::Ratio, numbers(false))])));
    }
}
