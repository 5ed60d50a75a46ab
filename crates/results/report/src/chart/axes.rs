//! The axes of a panel: scales, ticks and their names.

use cavalcade_model::Bytes;

use super::{Better, ChartPanel, ChartPoint, Horizontal, Unit, Vertical};
use crate::figures::{bytes, number, time};
use crate::scale::{Linear, Log, bytes_tick, tick, time_tick};
use crate::svg::{Svg, px, shortened, text_width};

/// Pixels of air where a value stands at the end of an axis.
const AIR: f64 = 16.0;
/// Pixels that a name may stand to the right of a plot.
const ROOM: f64 = 14.0;

/// Letters of a slanted name that are shown.
const LETTERS_SLANTED: usize = 31;

/// The rectangle that values are drawn in.
pub(super) struct Frame {
    pub(super) left: f64,
    pub(super) top: f64,
    pub(super) right: f64,
    pub(super) bottom: f64,
}

/// From values to pixels.
pub(super) enum Scale {
    Linear(Linear),
    Log(Log),
}

impl Scale {
    pub(super) fn at(&self, value: f64) -> f64 {
        match self {
            Self::Linear(scale) => scale.at(value),
            Self::Log(scale) => scale.at(value),
        }
    }

    pub(super) fn horizontal(panel: &ChartPanel, frame: &Frame) -> Self {
        let range = (frame.left + AIR, frame.right - AIR);
        let (log, ticks) = match &panel.horizontal {
            Horizontal::Cases { names, .. } => {
                let most = names.len() as f64 - 0.5;
                return Self::Linear(Linear::new((-0.5, most.max(0.5)), (frame.left, frame.right)));
            }
            Horizontal::Numbers { log, ticks, .. } => (*log, ticks),
        };
        let points = panel.series.iter().flat_map(|series| &series.points).map(|point| point.at);
        let places = || points.clone().chain(ticks.iter().map(|&(at, _)| at));
        let low = places().reduce(f64::min).unwrap_or(0.0);
        let high = places().reduce(f64::max).unwrap_or(1.0);
        if log && low > 0.0 {
            Self::Log(Log::new((low, high), range))
        } else if high > low {
            Self::Linear(Linear::new((low, high), range))
        } else {
            // A single place stands in the middle.
            Self::Linear(Linear::new((low - 0.5, low + 0.5), range))
        }
    }

    pub(super) fn vertical(panel: &ChartPanel, frame: &Frame) -> Self {
        let ends = |point: &ChartPoint| [point.low, point.value, point.high];
        let drawn = panel.series.iter().flat_map(|series| {
            series.points.iter().flat_map(ends).chain(series.paper.iter().map(|&(_, value)| value))
        });
        let drawn: Vec<f64> = drawn.filter(|value| value.is_finite()).collect();
        let low = drawn.iter().copied().fold(f64::INFINITY, f64::min);
        let high = drawn.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let range = (frame.bottom, frame.top);
        let unit = panel.vertical.unit;
        if unit == Unit::Percent {
            let (low, high) = (low.min(0.0), high.max(0.0));
            let air = (high - low) * 0.06;
            return Self::Linear(Linear::new((if low < 0.0 { low - air } else { 0.0 }, high + air), range));
        }
        if panel.vertical.from_zero {
            return Self::Linear(Linear::new((0.0, high.max(0.0) * 1.06), range));
        }
        let is_ratio = unit == Unit::Ratio;
        let positive = drawn.iter().copied().filter(|&value| value > 0.0);
        let low = positive.clone().fold(if is_ratio { 1.0 } else { f64::INFINITY }, f64::min);
        let high = positive.fold(if is_ratio { 1.0 } else { 0.0 }, f64::max);
        if low > high {
            return Self::Linear(Linear::new((0.0, 1.0), range));
        }
        Self::Log(Log::new((low / 1.12, high * 1.12), range))
    }
}

impl Unit {
    /// A value to three digits with its unit.
    pub(super) fn text(self, value: f64) -> String {
        match self {
            Self::Ratio => format!("{}×", number(value)),
            Self::Percent if value < 0.0 => format!("−{} %", number(-value)),
            Self::Percent => format!("{} %", number(value)),
            Self::Seconds => time(value),
            Self::Bytes => bytes(Bytes(value.round() as u64)),
        }
    }

    fn tick(self, value: f64) -> String {
        match self {
            Self::Ratio => format!("{}×", tick(value)),
            Self::Percent => format!("{} %", tick(value).replace('-', "−")),
            Self::Seconds => time_tick(value),
            Self::Bytes => bytes_tick(value),
        }
    }

    /// The value that means no difference.
    fn neutral(self) -> Option<f64> {
        match self {
            Self::Ratio => Some(1.0),
            Self::Percent => Some(0.0),
            Self::Seconds | Self::Bytes => None,
        }
    }
}

impl Horizontal {
    /// A place in words, for tooltips.
    pub(super) fn place(&self, at: f64) -> String {
        match self {
            Self::Cases { names, .. } => names.get(at as usize).cloned().unwrap_or_default(),
            Self::Numbers { name, ticks, .. } => {
                let named = ticks.iter().find(|(value, _)| *value == at);
                format!("{name} {}", named.map_or_else(|| tick(at), |(_, text)| text.clone()))
            }
        }
    }
}

pub(super) fn vertical_axis(svg: &mut Svg, vertical: &Vertical, y: &Scale, frame: &Frame, title_at: f64) {
    let ticks = match y {
        Scale::Linear(scale) => scale.three_ticks(),
        Scale::Log(scale) => scale.round_ticks(20.0, Some(1.2)),
    };
    for value in ticks {
        let at = y.at(value);
        svg.line("grid", (frame.left, at), (frame.right, at));
        svg.text("muted end", (frame.left - 7.0, at + 4.0), &vertical.unit.tick(value));
    }
    if let Some(neutral) = vertical.unit.neutral() {
        svg.line("one", (frame.left, y.at(neutral)), (frame.right, y.at(neutral)));
    }
    svg.line("base", (frame.left, frame.top), (frame.left, frame.bottom));
    let better = match vertical.better {
        Better::Higher => Some("higher is better ↑"),
        Better::Lower => Some("lower is better ↓"),
        Better::Neither => None,
    };
    let room = frame.right - title_at - better.map_or(0.0, text_width);
    let name = shortened(&vertical.name, (room / 7.0).max(8.0) as usize);
    let title = better.map_or_else(|| name.clone(), |better| format!("{name} · {better}"));
    svg.text("muted", (title_at, frame.top - 15.0), &title);
}

pub(super) fn horizontal_axis(svg: &mut Svg, horizontal: &Horizontal, x: &Scale, frame: &Frame) {
    svg.line("base", (frame.left, frame.bottom), (frame.right, frame.bottom));
    let mut mark = |at: f64, name_at: f64, lines: &[String]| {
        svg.line("base", (at, frame.bottom), (at, frame.bottom + 4.0));
        for (index, text) in lines.iter().enumerate() {
            svg.text("muted mid", (name_at, frame.bottom + 17.0 + 13.0 * index as f64), text);
        }
    };
    let (name, lines) = match horizontal {
        Horizontal::Cases { name, names } => {
            let room = (frame.right - frame.left) / names.len().max(1) as f64;
            let broken: Vec<Vec<String>> = names.iter().map(|case| in_lines(case, room)).collect();
            for (index, lines) in broken.iter().enumerate() {
                mark(x.at(index as f64), x.at(index as f64), lines);
            }
            (name, broken.iter().map(Vec::len).max().unwrap_or(1))
        }
        Horizontal::Numbers { name, ticks, .. } => {
            let mut taken = f64::NEG_INFINITY;
            for (value, text) in ticks {
                let (place, half) = (x.at(*value), text_width(text) / 2.0);
                // A name at the right end moves to the left where it would leave the figure.
                let at = place.min(frame.right + ROOM - half);
                // A name that would run into its neighbour is left out; the point has a tooltip.
                if at - half > taken {
                    mark(place, at, std::slice::from_ref(text));
                    taken = at + half + 5.0;
                }
            }
            (name, 1)
        }
    };
    let below = frame.bottom + 23.0 + 13.0 * lines as f64;
    svg.text("muted mid", ((frame.left + frame.right) / 2.0, below), name);
}

/// Draws the axis of many cases, whose names do not fit side by side.
pub(super) fn slanted_axis(svg: &mut Svg, horizontal: &Horizontal, x: &Scale, frame: &Frame) {
    svg.line("base", (frame.left, frame.bottom), (frame.right, frame.bottom));
    let Horizontal::Cases { names, .. } = horizontal else { return };
    for (index, name) in names.iter().enumerate() {
        let (at, below) = (x.at(index as f64), frame.bottom + 14.0);
        svg.line("base", (at, frame.bottom), (at, frame.bottom + 4.0));
        svg.open_with("", &format!("transform=\"rotate(-35 {} {})\"", px(at), px(below)));
        svg.text("muted end", (at + 4.0, below), &shortened(name, LETTERS_SLANTED));
        svg.close();
    }
}

/// A name in at most two lines that fit into so many pixels, broken between words.
fn in_lines(name: &str, room: f64) -> Vec<String> {
    let fits = |text: &str| text_width(text) <= room;
    let letters = (room / 7.0).max(3.0) as usize;
    if fits(name) {
        return vec![name.to_owned()];
    }
    let mut breaks = name.char_indices().filter(|&(_, character)| character == ' ').map(|(at, _)| at);
    let first = breaks.rfind(|&at| fits(&name[..at]));
    match first {
        Some(at) => vec![name[..at].to_owned(), shortened(&name[at + 1..], letters)],
        None => vec![shortened(name, letters)],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_names_of_cases_are_broken_between_words() {
        assert_eq!(in_lines("heavy tasks", 60.0), ["heavy", "tasks"]);
        assert_eq!(in_lines("flows", 60.0), ["flows"]);
        assert_eq!(in_lines("unbreakable", 40.0), ["unbr…"]);
    }
}
