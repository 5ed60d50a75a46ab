//! Single figures of a comparison as SVG files, for papers and slides; [`crate::render`] makes PDF
//! and PNG of them.
//!
//! A figure is as wide as one column of a two-column page (240 pt) or as both (504 pt). It is drawn
//! in units of which 1.5 make a point, so that its 12-unit text comes out at 8 pt, the size of a
//! caption, in both. The legend stands above the plot, the paper is white, and nothing depends on a
//! style sheet outside the file.

use cavalcade_metrics::{Bin, Comparison, Ranked, RunFigures};

use crate::chart::{Alone, Better, ChartPanel, ChartPoint, ChartSeries, Horizontal, Stroke, Unit, Vertical};
use crate::html::bins::Gains;
use crate::html::cdf::Cdf;
use crate::html::timeline::{PANEL, Timelines, View};
use crate::legend::{self, Key, Mark};
use crate::look::{Look, looks};
use crate::svg::Svg;

mod classes;
mod pair;

pub use classes::{ClassSide, class_figure};
pub use pair::{PairSide, pair_figure};

/// Units to a point.
const UNITS: f64 = 1.5;
const MARGIN: f64 = 6.0;

/// The content of a figure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FigureKind {
    /// The distribution of coflow completion times.
    Cdf,
    /// The distribution of task completion times.
    Tasks,
    /// The speedup over the baseline by bin.
    Gain,
    /// Every coflow from its arrival to its finish.
    Timeline,
    /// The mean time that coflows lost to others, by bin: their completion time less the time that
    /// they would take alone on the fabric.
    Queueing,
}

/// Why there is no figure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FigureError {
    /// There are no coflows, or none took any time.
    #[error("there is nothing to draw: no coflow of the trace takes any time")]
    NoCoflows,
    /// There is nothing to compare the baseline with.
    #[error("a speedup needs another policy beside the baseline")]
    OnePolicy,
    /// Tasks are coflows.
    #[error("every task of the trace is a single coflow: its tasks take as long as its coflows")]
    NoTasks,
    /// The two runs are not of the same coflows.
    #[error("the runs are of different numbers of coflows")]
    Unlike,
    /// A run that the comparison does not have.
    #[error("the comparison has fewer runs than that")]
    NoSuchRun,
}

impl FigureError {
    /// What to do about it.
    pub fn cure(self) -> &'static str {
        match self {
            Self::NoCoflows => "name a trace with coflows that cross the fabric",
            Self::OnePolicy => "name two policies or more, as --policies fair,dclas",
            Self::NoTasks => "draw cdf, the distribution of coflow completion times",
            Self::Unlike => "name two runs of one trace",
            Self::NoSuchRun => "count runs from 0",
        }
    }
}

/// The width of a figure.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FigureWidth {
    /// One column of a two-column page: 240 pt.
    #[default]
    Column,
    /// Both columns: 504 pt.
    Page,
}

impl FigureWidth {
    fn points(self) -> f64 {
        match self {
            Self::Column => 240.0,
            Self::Page => 504.0,
        }
    }

    /// In units, without margins.
    fn inner(self) -> f64 {
        self.points() * UNITS - 2.0 * MARGIN
    }
}

/// A figure of these runs as an SVG file.
///
/// # Errors
/// If there is nothing to show, or no such run.
pub fn figure(
    comparison: &Comparison,
    kind: FigureKind,
    width: FigureWidth,
    runs: &[usize],
) -> Result<String, FigureError> {
    if runs.iter().any(|&run| run >= comparison.runs.len()) {
        return Err(FigureError::NoSuchRun);
    }
    let policies: Vec<&str> = comparison.runs.iter().map(|run| run.policy.as_str()).collect();
    let looks = looks(&policies);
    let inner = width.inner();
    match kind {
        FigureKind::Cdf => cdf(comparison, &looks, runs, inner, Ranked::Coflows),
        FigureKind::Tasks if comparison.ranked() == Ranked::Coflows => Err(FigureError::NoTasks),
        FigureKind::Tasks => cdf(comparison, &looks, runs, inner, Ranked::Tasks),
        FigureKind::Gain => gain(comparison, &looks, runs, inner),
        FigureKind::Timeline => timeline(comparison, runs, inner),
        FigureKind::Queueing if comparison.trace.coflows == 0 => Err(FigureError::NoCoflows),
        FigureKind::Queueing => {
            Ok(panel_figure(&queueing(comparison, runs), "Mean time lost to others by bin and policy", width))
        }
    }
}

/// One panel as an SVG file; its title is left to the caption of the paper, and `label` is for
/// those who cannot see it.
pub fn panel_figure(panel: &ChartPanel, label: &str, width: FigureWidth) -> String {
    let drawing = Alone::of(panel, width.inner());
    let mut svg = file(width.inner(), drawing.height(), label);
    drawing.draw(&mut svg, (MARGIN, MARGIN));
    svg.finish()
}

/// An empty file of that size in units, on white.
fn file(inner: f64, height: f64, label: &str) -> Svg {
    let (width, height) = (inner + 2.0 * MARGIN, height + 2.0 * MARGIN);
    let points = |units: f64| format!("{:.1}pt", units / UNITS);
    Svg::file((points(width), points(height)), (width, height), label, "#fff")
}

/// The height of a plot of that width.
fn plot_height(inner: f64) -> f64 {
    if inner < 500.0 { 250.0 } else { 320.0 }
}

fn cdf(
    comparison: &Comparison,
    looks: &[Look],
    runs: &[usize],
    inner: f64,
    of: Ranked,
) -> Result<String, FigureError> {
    let cdf = Cdf::of(comparison, looks, runs, of).ok_or(FigureError::NoCoflows)?;
    let series = |&run: &usize| (comparison.runs[run].label.as_str(), looks[run], Mark::Line);
    let keys = Key::all(&cdf.order().iter().map(series).collect::<Vec<_>>());
    let legend = legend::height(&keys, inner);
    let height = plot_height(inner);
    let label = format!("Distribution of {} completion times by policy", of.noun());
    let mut svg = file(inner, legend + height, &label);
    legend::draw(&mut svg, &keys, (MARGIN, MARGIN), inner);
    cdf.draw(&mut svg, (MARGIN, MARGIN + legend), (inner, height));
    Ok(svg.finish())
}

fn gain(comparison: &Comparison, looks: &[Look], runs: &[usize], inner: f64) -> Result<String, FigureError> {
    let mut ranked = comparison.ranking();
    ranked.retain(|run| runs.contains(run) || *run == comparison.baseline);
    let nothing = match comparison.trace.coflows {
        0 => FigureError::NoCoflows,
        _ => FigureError::OnePolicy,
    };
    let gains = Gains::of(comparison, looks, &ranked).ok_or(nothing)?;
    let keys = [Key::of(Mark::Lying, "95 % confidence interval (bootstrap over coflows)")];
    let legend = legend::height(&keys, inner);
    let label = "Speedup over the baseline by policy and bin";
    let mut svg = file(inner, legend + gains.height(inner), label);
    legend::draw(&mut svg, &keys, (MARGIN, MARGIN), inner);
    gains.draw(&mut svg, (MARGIN, MARGIN + legend), inner);
    Ok(svg.finish())
}

/// The mean time lost to others, of all coflows and of those of each bin that has any.
fn queueing(comparison: &Comparison, runs: &[usize]) -> ChartPanel {
    let bins: Vec<Option<Bin>> = [None].into_iter().chain(Bin::ALL.map(Some)).collect();
    let holds = |place: &Option<Bin>, coflow: usize| place.is_none_or(|bin| comparison.bin_of[coflow] == bin);
    let coflows = || 0..comparison.trace.coflows;
    let shown: Vec<Option<Bin>> =
        bins.into_iter().filter(|place| coflows().any(|coflow| holds(place, coflow))).collect();
    let mean = |run: &RunFigures, place: &Option<Bin>| {
        let lost: Vec<f64> = coflows()
            .filter(|&coflow| holds(place, coflow))
            .map(|coflow| run.cct[coflow].saturating_sub(comparison.isolation[coflow]).as_secs_f64())
            .collect();
        lost.iter().sum::<f64>() / lost.len() as f64
    };
    let series = |&run: &usize| {
        let run = &comparison.runs[run];
        let point = |(index, place)| {
            let value = mean(run, place);
            ChartPoint { at: index as f64, value, low: value, high: value }
        };
        ChartSeries {
            name: run.label.clone(),
            policy: run.policy.clone(),
            points: shown.iter().enumerate().map(point).collect(),
            paper: Vec::new(),
            stroke: Stroke::Joined,
        }
    };
    let name = |place: &Option<Bin>| place.map_or("all coflows", Bin::name).to_owned();
    let mut ranked = comparison.ranking();
    ranked.retain(|run| runs.contains(run));
    ChartPanel {
        title: String::new(),
        horizontal: Horizontal::Cases {
            name: "coflows: short or long, narrow or wide".to_owned(),
            names: shown.iter().map(name).collect(),
        },
        vertical: Vertical {
            name: "mean time lost to others".to_owned(),
            unit: Unit::Seconds,
            better: Better::Lower,
            from_zero: true,
        },
        series: ranked.iter().map(series).collect(),
    }
}

fn timeline(comparison: &Comparison, runs: &[usize], inner: f64) -> Result<String, FigureError> {
    const GAP: f64 = 20.0;
    let timelines = Timelines::of(comparison).ok_or(FigureError::NoCoflows)?.with_names();
    let mut ranked = comparison.ranking();
    ranked.retain(|run| runs.contains(run));
    let columns = ((inner + GAP) / (PANEL + GAP)).max(1.0) as usize;
    let aside = (inner - PANEL * columns as f64) / columns as f64;
    let step = timelines.panel_height() + 10.0;
    let legend = 22.0;
    let height = legend + step * ranked.len().div_ceil(columns) as f64;
    let mut svg = file(inner, height, "Coflows from arrival to finish by policy");
    for (at, class, text) in [(0.0, "alone", "alone on the fabric"), (160.0, "waiting", "lost to others")] {
        svg.open_with("", "stroke-width=\"7\"");
        svg.line(class, (MARGIN + at, MARGIN + 9.0), (MARGIN + at + 22.0, MARGIN + 9.0));
        svg.close();
        svg.text("", (MARGIN + at + 30.0, MARGIN + 13.0), text);
    }
    for (place, &run) in ranked.iter().enumerate() {
        let left = MARGIN + aside / 2.0 + (PANEL + aside) * (place % columns) as f64;
        let top = MARGIN + legend + step * (place / columns) as f64;
        timelines.draw(&mut svg, run, (left, top), View::All);
    }
    Ok(svg.finish())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{look, sample};

    #[test]
    fn a_figure_is_as_wide_as_asked_and_its_text_is_eight_points() {
        let comparison = sample::comparison(5, 80);
        for kind in [FigureKind::Cdf, FigureKind::Gain, FigureKind::Timeline] {
            for (width, points) in [(FigureWidth::Column, 240.0), (FigureWidth::Page, 504.0)] {
                let drawn = figure(&comparison, kind, width, &[0, 1, 3]).unwrap();
                let units = points * 1.5;
                assert!(drawn.contains(&format!("width=\"{points:.1}pt\"")), "{kind:?}");
                assert!(
                    drawn.contains(&format!("viewBox=\"0 0 {units} ")) && drawn.contains("font-size=\"12\"")
                );
                assert_eq!(drawn.matches("font-size").count(), 1, "nothing is smaller");
            }
        }
    }

    /// The pixels of each colour of the table in a PNG, drawn opaque.
    fn pixels(png: &[u8]) -> Vec<usize> {
        let picture = resvg::tiny_skia::Pixmap::decode_png(png).unwrap();
        let of = |color: &str| {
            let channel = |at: usize| u8::from_str_radix(&color[at..at + 2], 16).unwrap();
            let color = [channel(1), channel(3), channel(5)];
            let is_it = |pixel: &&resvg::tiny_skia::PremultipliedColorU8| {
                [pixel.red(), pixel.green(), pixel.blue()] == color
            };
            picture.pixels().iter().filter(is_it).count()
        };
        look::LIGHT.iter().map(|color| of(color)).collect()
    }

    #[test]
    fn two_renderers_draw_the_same_curves_points_intervals_and_legend() {
        let rsvg = |svg: &str| {
            let folder = std::env::temp_dir().join(format!("cavalcade-figure-{}", std::process::id()));
            std::fs::create_dir_all(&folder).unwrap();
            let (from, to) = (folder.join("figure.svg"), folder.join("figure.png"));
            std::fs::write(&from, crate::render::svg(svg).unwrap()).unwrap();
            let mut command = std::process::Command::new("rsvg-convert");
            let done = command.args(["--dpi-x", "300", "--dpi-y", "300", "-o"]).args([&to, &from]).status();
            let png =
                done.ok().filter(std::process::ExitStatus::success).map(|_| std::fs::read(&to).unwrap());
            std::fs::remove_dir_all(&folder).unwrap();
            png
        };
        for (name, svg, policies) in drawn() {
            let ours = pixels(&crate::render::png(&svg).unwrap());
            let Some(png) = rsvg(&svg) else {
                return cavalcade_testing::skipped("rsvg-convert (librsvg2-bin)");
            };
            let theirs = pixels(&png);
            let policies: Vec<&str> = policies.iter().map(String::as_str).collect();
            for look in looks(&policies) {
                let (ours, theirs) =
                    (ours[usize::from(look.color)] as f64, theirs[usize::from(look.color)] as f64);
                assert!(ours > 300.0 && theirs > 300.0, "{name} {look:?}: {ours} and {theirs} pixels");
                assert!((0.7..1.4).contains(&(ours / theirs)), "{name} {look:?}: {ours} and {theirs} pixels");
            }
        }
    }

    /// A sweep of three policies over four values, with intervals.
    fn sweep() -> ChartPanel {
        let series = |(index, policy): (usize, &str)| {
            let point = |place: i32| {
                let value = 2.0 + 0.3 * f64::from(place) * (1.0 + index as f64);
                ChartPoint { at: f64::from(10 * place), value, low: value * 0.9, high: value * 1.2 }
            };
            let points = (1..=4).map(point).collect();
            let (name, policy) = (policy.to_owned(), policy.to_owned());
            ChartSeries { name, policy, points, paper: Vec::new(), stroke: Stroke::Joined }
        };
        let ticks = (1..=4).map(|place| (f64::from(10 * place), format!("{}Gbps", 10 * place))).collect();
        ChartPanel {
            title: String::new(),
            horizontal: Horizontal::Numbers { name: "rate of links".to_owned(), log: false, ticks },
            vertical: Vertical {
                name: "mean CCT".to_owned(),
                unit: Unit::Seconds,
                better: Better::Lower,
                from_zero: false,
            },
            series: ["fair", "sebf", "dclas"].into_iter().enumerate().map(series).collect(),
        }
    }

    /// One figure of each kind, and the policies that are seen in it.
    fn drawn() -> Vec<(&'static str, String, Vec<String>)> {
        let comparison = sample::comparison(5, 80);
        let runs = [0, 1, 2, 3, 4];
        let policies: Vec<String> = comparison.runs.iter().map(|run| run.policy.clone()).collect();
        let all = looks(&policies);
        let of = |kind| figure(&comparison, kind, FigureWidth::Page, &runs).unwrap();
        let side = |run: usize| {
            let run = &comparison.runs[run];
            PairSide { name: &run.label, policy: &run.policy, times: &run.cct }
        };
        let tasks = cdf(&comparison, &all, &runs, FigureWidth::Page.inner(), Ranked::Tasks).unwrap();
        let pair = pair_figure(&side(1), &side(0), FigureWidth::Page).unwrap();
        let swept = ["fair", "sebf", "dclas"].map(str::to_owned).to_vec();
        let classed = ["fair", "sebf", "dclas"].map(|policy| ClassSide {
            name: policy,
            policy,
            bytes: &[1e4, 3e6, 0.0, 2e9],
        });
        vec![
            ("cdf", of(FigureKind::Cdf), policies.clone()),
            ("tasks", tasks, policies.clone()),
            ("gain", of(FigureKind::Gain), policies.clone()),
            ("queueing", of(FigureKind::Queueing), policies),
            ("ab", pair, vec!["sebf".to_owned()]),
            ("sweep", panel_figure(&sweep(), "a sweep", FigureWidth::Page), swept.clone()),
            ("classes", class_figure(&classed, FigureWidth::Page).unwrap(), swept),
        ]
    }

    #[test]
    fn a_sweep_has_a_curve_for_each_policy_and_an_interval_at_each_point_in_both_widths() {
        for width in [FigureWidth::Column, FigureWidth::Page] {
            let drawn = panel_figure(&sweep(), "a sweep", width);
            // Each once in the plot and once in the legend.
            assert_eq!(drawn.matches("stroke-linejoin").count(), 2 * 3);
            // Every interval of three lines, and the legend's.
            assert_eq!(drawn.matches("stroke-width=\"1.4\"").count(), 3 * 4 + 1);
            assert!(drawn.contains("95 % interval over seeds") && drawn.contains("lower is better"));
        }
    }

    #[test]
    fn time_lost_is_drawn_for_each_policy_over_all_coflows_and_each_bin() {
        let comparison = sample::comparison(3, 80);
        let panel = queueing(&comparison, &[0, 2]);
        let Horizontal::Cases { names, .. } = &panel.horizontal else { panic!("bins are cases") };
        let bins = Bin::ALL.iter().filter(|bin| comparison.trace.bins[bin.index()].coflows > 0).count();
        assert_eq!((names.len(), panel.series.len()), (1 + bins, 2));
        for series in &panel.series {
            let run = comparison.runs.iter().find(|run| run.label == series.name).unwrap();
            let alone: f64 = comparison.isolation.iter().map(|time| time.as_secs_f64()).sum();
            let lost = run.cct_summary.mean_s - alone / 80.0;
            assert!(
                (series.points[0].value - lost).abs() < 1e-6 * lost,
                "{} and {lost}",
                series.points[0].value
            );
        }
    }

    #[test]
    fn no_horizontal_axis_says_which_of_higher_and_lower_is_better() {
        for (name, svg, _) in drawn() {
            let upright =
                svg.split("rotate(-90").skip(1).map(|rest| rest.split("</g>").next().unwrap().to_owned());
            let upright: String = upright.collect();
            let lying = svg.split("<text").filter(|text| text.contains(" is better"));
            for text in lying.filter(|text| !upright.contains(*text)) {
                let is_upright = name == "queueing" || name == "sweep";
                let words = if is_upright { [" lower is", " higher is"] } else { ["left is", "right is"] };
                assert!(words.iter().any(|word| text.contains(word)), "{name}: {text}");
            }
        }
    }

    #[test]
    fn the_axis_of_a_narrow_figure_of_gains_is_named_in_whole() {
        let comparison = sample::comparison(5, 80);
        for width in [FigureWidth::Column, FigureWidth::Page] {
            let drawn = figure(&comparison, FigureKind::Gain, width, &[0, 1, 2]).unwrap();
            assert!(drawn.contains("right is better</text>"), "{width:?}");
        }
    }

    #[test]
    fn a_file_needs_no_style_sheet() {
        let comparison = sample::comparison(5, 80);
        for kind in [FigureKind::Cdf, FigureKind::Gain, FigureKind::Timeline] {
            let drawn = figure(&comparison, kind, FigureWidth::Page, &[0, 1, 2]).unwrap();
            for word in ["class=", "style", "var(", "data-run"] {
                assert!(!drawn.contains(word), "{kind:?}: {word}");
            }
        }
    }

    #[test]
    fn nothing_to_show_is_no_figure() {
        let of = |comparison: &Comparison, kind| figure(comparison, kind, FigureWidth::Page, &[0]);
        for kind in [FigureKind::Cdf, FigureKind::Gain, FigureKind::Timeline, FigureKind::Queueing] {
            assert_eq!(of(&sample::empty(), kind), Err(FigureError::NoCoflows), "{kind:?}");
        }
        let one = sample::comparison(1, 5);
        assert_eq!(of(&one, FigureKind::Gain), Err(FigureError::OnePolicy));
        let failure = of(&one, FigureKind::Tasks).unwrap_err();
        assert!(failure == FigureError::NoTasks && failure.cure().contains("cdf"));
    }
}
