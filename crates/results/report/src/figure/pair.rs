//! Two runs of the same coflows, coflow by coflow: A against B.
//!
//! A mean may fall while most coflows take longer. So one plot has a point for each coflow, its
//! completion time under B over that under A, on equal logarithmic axes with the diagonal: below it
//! B is sooner. The other has the distribution of the ratios A over B, a speedup as in all other
//! figures. Counts and percentiles stand above in words, since overlapping points cannot be
//! counted.
//!
//! Points that fall on the same pixel are drawn once, so that the file does not grow with the
//! trace. A completion time of zero, which has no place on a logarithmic axis, is counted and not
//! drawn.

use std::collections::BTreeSet;

use cavalcade_metrics::{Percent, percentile};
use cavalcade_model::Nanos;

use super::{FigureError, FigureWidth, MARGIN, file, plot_height};
use crate::figures;
use crate::html::cdf::{ABOVE, AIR, BELOW, LEFT, Names, axes, log_axis, steps, upright};
use crate::legend::{self, Key, Mark};
use crate::look::looks;
use crate::scale::{Linear, Log, tick, time_tick};
use crate::svg::{Svg, shortened, shortened_apart};

/// Ratios closer to one than this count as the same: rounding, and what nobody notices.
const SAME: f64 = 1e-3;
/// The height of a line of words.
const LINE: f64 = 17.0;
/// Letters to a unit of width, about.
const LETTERS: f64 = 1.0 / 6.4;
/// Room at the left for times at ticks, and for the name of the axis beside them.
const BESIDE: f64 = 74.0;
const CCT_UNDER: &str = "CCT under ";
/// Between plots.
const GAP: f64 = 12.0;

/// One of the two runs.
#[derive(Clone, Copy, Debug)]
pub struct PairSide<'a> {
    /// Its name.
    pub name: &'a str,
    /// Its policy, which its colour goes by.
    pub policy: &'a str,
    /// The completion time of each coflow.
    pub times: &'a [Nanos],
}

/// Both completion times of each coflow.
struct Paired {
    /// Of those that took any time in both, in seconds: under A and under B.
    both: Vec<(f64, f64)>,
    /// Speedups of B over A, ascending.
    ratios: Vec<f64>,
    sooner: usize,
    later: usize,
    same: usize,
}

impl Paired {
    fn of(a: &[Nanos], b: &[Nanos]) -> Result<Self, FigureError> {
        if a.len() != b.len() {
            return Err(FigureError::Unlike);
        }
        let seconds = a.iter().zip(b).map(|(a, b)| (a.as_secs_f64(), b.as_secs_f64()));
        let both: Vec<(f64, f64)> = seconds.filter(|&(a, b)| a > 0.0 && b > 0.0).collect();
        let mut ratios: Vec<f64> = both.iter().map(|(a, b)| a / b).collect();
        ratios.sort_by(f64::total_cmp);
        if ratios.is_empty() {
            return Err(FigureError::NoCoflows);
        }
        let (mut sooner, mut later, mut same) = (0, 0, 0);
        for (a, b) in a.iter().zip(b).map(|(a, b)| (a.as_f64(), b.as_f64())) {
            match () {
                () if (a - b).abs() <= SAME * a.max(b) => same += 1,
                () if b < a => sooner += 1,
                () => later += 1,
            }
        }
        Ok(Self { both, ratios, sooner, later, same })
    }

    /// The speedup that so many per cent of the coflows do not exceed.
    fn percentile(&self, percent: Percent) -> String {
        figures::factor(percentile(&self.ratios, percent).unwrap_or(1.0))
    }

    fn in_words(&self) -> [String; 2] {
        let of = figures::counted(self.sooner + self.later + self.same, "coflow");
        let [sooner, later, same] = [self.sooner, self.later, self.same].map(figures::count);
        let [p5, p50, p95] = [5, 50, 95].map(|percent| self.percentile(Percent::whole(percent)));
        [
            format!("{of}: {sooner} sooner, {later} later, {same} the same (0.1 %)"),
            format!("speedup: median {p50}, p5 {p5}, p95 {p95}"),
        ]
    }
}

/// A figure of run `b` against run `a` as an SVG file: a point for each coflow, the distribution of
/// speedups, and how many coflows finish sooner, later, or within 0.1 % of the same time.
///
/// # Errors
/// If they have different numbers of coflows, or no coflow took any time.
pub fn pair_figure(a: &PairSide<'_>, b: &PairSide<'_>, width: FigureWidth) -> Result<String, FigureError> {
    let paired = Paired::of(a.times, b.times)?;
    let inner = width.inner();
    let look = looks(&[a.policy, b.policy])[1];
    // Both names in the letters of one key.
    let names = shortened_apart(&[a.name, b.name], 15);
    let keys = Key::all(&[(&format!("{} against {}", names[1], names[0]), look, Mark::Dot)]);
    let words = legend::height(&keys, inner) + 2.0 * LINE;
    let plot = plot_height(inner);
    let (columns, height) = match width {
        FigureWidth::Column => (1.0, 2.0 * plot + GAP),
        FigureWidth::Page => (2.0, plot),
    };
    let mut svg =
        file(inner, words + height, &format!("Completion times under {} against {}", b.name, a.name));
    legend::draw(&mut svg, &keys, (MARGIN, MARGIN), inner);
    let below = MARGIN + legend::height(&keys, inner);
    for (line, text) in paired.in_words().iter().enumerate() {
        let at = below + 12.0 + LINE * line as f64;
        svg.text("", (MARGIN, at), &shortened(text, (inner * LETTERS) as usize));
    }
    let size = ((inner - GAP * (columns - 1.0)) / columns, plot);
    let top = MARGIN + words;
    let second = match width {
        FigureWidth::Column => (MARGIN, top + plot + GAP),
        FigureWidth::Page => (MARGIN + size.0 + GAP, top),
    };
    svg.open(&look.classes());
    scatter(&mut svg, &paired, (MARGIN, top), size, (a.name, b.name));
    ratios(&mut svg, &paired, second, size, (a.name, b.name));
    svg.close();
    Ok(svg.finish())
}

fn scatter(svg: &mut Svg, paired: &Paired, (left, top): (f64, f64), size: (f64, f64), (a, b): (&str, &str)) {
    let (left, right) = (left + BESIDE, left + size.0 - AIR);
    let (top, bottom) = (top + ABOVE, top + size.1 - BELOW);
    let all = || paired.both.iter().flat_map(|&(a, b)| [a, b]);
    let low = all().fold(f64::INFINITY, f64::min) / 1.2;
    let high = all().fold(0.0, f64::max) * 1.2;
    let x = Log::new((low, high), (left, right));
    let y = Log::new((low, high), (bottom, top));
    let name = |name: &str, room: f64| {
        let letters = (room * LETTERS) as usize - CCT_UNDER.len();
        format!("{CCT_UNDER}{}", shortened(name, letters))
    };
    svg.open("axis");
    for value in y.three_ticks(24.0) {
        svg.line("grid", (left, y.at(value)), (right, y.at(value)));
        svg.text("end", (left - 6.0, y.at(value) + 4.0), &time_tick(value));
    }
    log_axis(svg, &x, (left, right), (top, bottom), (&name(a, right - left), time_tick));
    upright(svg, (left - BESIDE + 12.0, (top + bottom) / 2.0), &name(b, bottom - top));
    svg.line("one", (left, bottom), (right, top));
    svg.text("end muted", (right - 2.0, bottom - 8.0), "below the line: sooner");
    svg.close();
    let pixel = |&(a, b): &(f64, f64)| ((2.0 * x.at(a)).round() as i64, (2.0 * y.at(b)).round() as i64);
    let places: BTreeSet<(i64, i64)> = paired.both.iter().map(pixel).collect();
    for (x, y) in places {
        svg.circle("dot", (x as f64 / 2.0, y as f64 / 2.0), 1.8);
    }
}

fn ratios(svg: &mut Svg, paired: &Paired, (left, top): (f64, f64), size: (f64, f64), (a, b): (&str, &str)) {
    let (left, right) = (left + LEFT, left + size.0 - AIR);
    let (top, bottom) = (top + ABOVE, top + size.1 - BELOW);
    let (least, most) = (paired.ratios[0], paired.ratios[paired.ratios.len() - 1]);
    let x = Log::new((least.min(1.0) / 1.1, most.max(1.0) * 1.1), (left, right));
    let y = Linear::new((0.0, 1.0), (bottom, top));
    let letters = ((right - left) * LETTERS) as usize;
    let each = letters.saturating_sub("CCT  / : right is sooner".len()) / 2;
    let [a, b] = [a, b].map(|name| shortened(name, each.max(2)));
    let name = format!("CCT {a} / {b}: right is sooner");
    let tick = |value: f64| format!("{}×", tick(value));
    let names = Names { x: &name, tick, y: "share of coflows" };
    axes(svg, (&x, &y), (left, right), (top, bottom), &names);
    svg.line("one", (x.at(1.0), top), (x.at(1.0), bottom));
    svg.path("curve", &steps(&paired.ratios, &x, &y));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drawn(a: &[u64], b: &[u64], width: FigureWidth) -> Result<String, FigureError> {
        let [a, b] = [a, b].map(|times| times.iter().map(|&time| Nanos(time)).collect::<Vec<Nanos>>());
        let side = |name, times| PairSide { name, policy: name, times };
        pair_figure(&side("fair", &a), &side("sebf", &b), width)
    }

    #[test]
    fn coflows_are_counted_as_sooner_later_or_the_same() {
        let a = [1_000_000, 1_000_000, 1_000_000, 1_000_000, 0, 0];
        let b = [500_000, 2_000_000, 1_000_900, 250_000, 0, 7];
        let drawn = drawn(&a, &b, FigureWidth::Page).unwrap();
        assert!(drawn.contains("6 coflows: 2 sooner, 2 later, 2 the same"), "{drawn}");
        // Of 0.5, 0.999, 2 and 4: the second and the last of four.
        assert!(drawn.contains("median 1.00×, p5 0.50×, p95 4.00×"), "{drawn}");
        // Four that have a place on the axes, and the legend's.
        assert_eq!(drawn.matches("<circle").count(), 5);
    }

    #[test]
    fn points_on_one_pixel_are_drawn_once() {
        let times = vec![5_000; 10_000];
        let drawn = drawn(&times, &times, FigureWidth::Column).unwrap();
        assert!(drawn.contains("0 sooner, 0 later, 10,000 the same"), "{drawn}");
        assert_eq!(drawn.matches("<circle").count(), 2);
    }

    #[test]
    fn runs_of_other_coflows_are_refused() {
        assert_eq!(drawn(&[1], &[1, 2], FigureWidth::Page), Err(FigureError::Unlike));
        assert_eq!(drawn(&[0], &[0], FigureWidth::Page), Err(FigureError::NoCoflows));
    }
}
