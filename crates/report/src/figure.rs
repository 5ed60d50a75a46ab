//! Single figures of a comparison as SVG files, for papers and slides; [`crate::render`] makes PDF and PNG of them.
//!
//! A figure is as wide as one column of a two-column page (240 pt) or as both (504 pt). It is drawn in units of which 1.5
//! make a point, so that its 12-unit text comes out at 8 pt, the size of a caption, in both. The legend stands above the
//! plot, the paper is white, and nothing depends on a style sheet outside the file.

use cavalcade_metrics::Comparison;

use crate::html::bins::Gains;
use crate::html::cdf::Cdf;
use crate::html::timeline::{PANEL, PANEL_HEIGHT, Timelines, View};
use crate::legend::{self, Key, Mark};
use crate::look::{Look, looks};
use crate::svg::Svg;

/// Units to a point.
const UNITS: f64 = 1.5;
const MARGIN: f64 = 6.0;

/// The content of a figure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FigureKind {
    /// The distribution of coflow completion times.
    Cdf,
    /// The speedup over the baseline by bin.
    Gain,
    /// Every coflow from its arrival to its finish.
    Timeline,
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
}

/// A figure of these runs as an SVG file; `None` where there is nothing to show, such as no coflow or nothing to compare.
///
/// # Panics
/// If there is no such run.
pub fn figure(
    comparison: &Comparison,
    kind: FigureKind,
    width: FigureWidth,
    runs: &[usize],
) -> Option<String> {
    assert!(runs.iter().all(|&run| run < comparison.runs.len()), "runs of the comparison");
    let policies: Vec<&str> = comparison.runs.iter().map(|run| run.policy.as_str()).collect();
    let looks = looks(&policies);
    let inner = width.points() * UNITS - 2.0 * MARGIN;
    match kind {
        FigureKind::Cdf => cdf(comparison, &looks, runs, inner),
        FigureKind::Gain => gain(comparison, &looks, runs, inner),
        FigureKind::Timeline => timeline(comparison, runs, inner),
    }
}

/// An empty file of that size in units, on white.
fn file(inner: f64, height: f64, label: &str) -> Svg {
    let (width, height) = (inner + 2.0 * MARGIN, height + 2.0 * MARGIN);
    let points = |units: f64| format!("{:.1}pt", units / UNITS);
    Svg::file((points(width), points(height)), (width, height), label, "#fff")
}

fn cdf(comparison: &Comparison, looks: &[Look], runs: &[usize], inner: f64) -> Option<String> {
    let cdf = Cdf::of(comparison, looks, runs)?;
    let key = |&run: &usize| Key::new(&comparison.runs[run].label, looks[run], Mark::Line);
    let keys: Vec<Key> = cdf.order().iter().map(key).collect();
    let legend = legend::height(&keys, inner);
    let height = if inner < 500.0 { 250.0 } else { 320.0 };
    let mut svg = file(inner, legend + height, "Distribution of coflow completion times by policy");
    legend::draw(&mut svg, &keys, (MARGIN, MARGIN), inner);
    cdf.draw(&mut svg, (MARGIN, MARGIN + legend), (inner, height));
    Some(svg.finish())
}

fn gain(comparison: &Comparison, looks: &[Look], runs: &[usize], inner: f64) -> Option<String> {
    let mut ranked = comparison.ranking();
    ranked.retain(|run| runs.contains(run) || *run == comparison.baseline);
    let gains = Gains::of(comparison, looks, &ranked)?;
    let keys = [Key::of(Mark::Lying, "95 % confidence interval (bootstrap over coflows)")];
    let legend = legend::height(&keys, inner);
    let label = "Speedup over the baseline by policy and bin";
    let mut svg = file(inner, legend + gains.height(inner), label);
    legend::draw(&mut svg, &keys, (MARGIN, MARGIN), inner);
    gains.draw(&mut svg, (MARGIN, MARGIN + legend), inner);
    Some(svg.finish())
}

fn timeline(comparison: &Comparison, runs: &[usize], inner: f64) -> Option<String> {
    const GAP: f64 = 20.0;
    let timelines = Timelines::of(comparison)?;
    let mut ranked = comparison.ranking();
    ranked.retain(|run| runs.contains(run));
    let columns = ((inner + GAP) / (PANEL + GAP)).max(1.0) as usize;
    let aside = (inner - PANEL * columns as f64) / columns as f64;
    let step = PANEL_HEIGHT + 10.0;
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
    Some(svg.finish())
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
            std::fs::write(&from, svg).unwrap();
            let mut command = std::process::Command::new("rsvg-convert");
            let done = command.args(["--dpi-x", "300", "--dpi-y", "300", "-o"]).args([&to, &from]).status();
            let png =
                done.ok().filter(std::process::ExitStatus::success).map(|_| std::fs::read(&to).unwrap());
            std::fs::remove_dir_all(&folder).unwrap();
            png
        };
        let comparison = sample::comparison(5, 80);
        let runs = [0, 1, 2, 3, 4];
        let policies: Vec<&str> = comparison.runs.iter().map(|run| run.policy.as_str()).collect();
        for kind in [FigureKind::Cdf, FigureKind::Gain] {
            let svg = figure(&comparison, kind, FigureWidth::Page, &runs).unwrap();
            let ours = pixels(&crate::render::png(&svg).unwrap());
            let Some(png) = rsvg(&svg) else {
                return cavalcade_testing::skipped("rsvg-convert (librsvg2-bin)");
            };
            let theirs = pixels(&png);
            for look in looks(&policies) {
                let (ours, theirs) =
                    (ours[usize::from(look.color)] as f64, theirs[usize::from(look.color)] as f64);
                assert!(ours > 300.0 && theirs > 300.0, "{kind:?} {look:?}: {ours} and {theirs} pixels");
                assert!(
                    (0.7..1.4).contains(&(ours / theirs)),
                    "{kind:?} {look:?}: {ours} and {theirs} pixels"
                );
            }
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
        assert_eq!(figure(&sample::empty(), FigureKind::Cdf, FigureWidth::Column, &[0]), None);
        assert_eq!(figure(&sample::comparison(1, 5), FigureKind::Gain, FigureWidth::Page, &[0]), None);
    }
}
