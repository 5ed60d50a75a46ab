//! How busy every port is over time, under every policy: rows are ports, columns are intervals,
//! darker is busier.
//!
//! Ports stand in one order in all panels, the busiest on top, so that panels can be compared row
//! by row. More intervals or ports than pixels are averaged.

use cavalcade_metrics::{Comparison, Utilisation};

use super::png::{self, LEVELS};
use super::timeline::{PANEL, heading, time_axis};
use crate::figures;
use crate::scale::Linear;
use crate::svg::{Svg, px};

const LEFT: f64 = 18.0;
const TOP: f64 = 24.0;
const HEIGHT: f64 = 76.0;
const GAP: f64 = 8.0;
const MOST_COLUMNS: usize = 288;
/// A pixel for each, so that each can be pointed at.
const MOST_ROWS: usize = 76;
/// Ports of one row that are named.
const MOST_NAMED: usize = 4;
/// Okabe and Ito's vermilion, which stands out on white and on black.
const COLOR: [u8; 3] = [0xd5, 0x5e, 0x00];

/// One panel for each run that recorded its links, best first.
pub(super) fn panels(comparison: &Comparison) -> Vec<String> {
    let used = |run: &usize| comparison.runs[*run].utilisation.as_ref().filter(|used| used.intervals() > 0);
    let runs: Vec<(usize, &Utilisation)> =
        comparison.ranking().into_iter().filter_map(|run| Some((run, used(&run)?))).collect();
    let Some((_, first)) = runs.first() else { return Vec::new() };
    let ports = comparison.fabric.ports as usize;
    let sides = [busiest_first(first, 0, ports), busiest_first(first, ports, ports)];
    let span_s = runs.iter().map(|(_, used)| span_s(used)).fold(0.0, f64::max);
    let draw = |&(run, used): &(usize, &Utilisation)| panel(comparison, run, used, &sides, span_s);
    runs.iter().map(draw).collect()
}

/// The scale of opacity with its ends named.
pub(super) fn key() -> String {
    let mut svg = Svg::new(216.0, 16.0, "Colour scale from 0 to 100 per cent");
    svg.text("axis-text", (0.0, 12.0), "0 %");
    for level in 0..LEVELS {
        let opacity = f64::from(level) / f64::from(LEVELS - 1);
        svg.shade(
            &format!(
                "fill=\"#{:02x}{:02x}{:02x}\" fill-opacity=\"{opacity:.2}\"",
                COLOR[0], COLOR[1], COLOR[2]
            ),
            (28.0 + 6.0 * f64::from(level), 2.0),
            (6.0, 12.0),
        );
    }
    svg.text("axis-text", (132.0, 12.0), "100 % busy");
    svg.finish()
}

fn span_s(used: &Utilisation) -> f64 {
    used.interval.as_secs_f64() * used.intervals() as f64
}

/// The links from `first` on, by how busy they are over all intervals.
fn busiest_first(used: &Utilisation, first: usize, ports: usize) -> Vec<usize> {
    let total = |link: usize| -> f64 {
        (0..used.intervals()).map(|interval| f64::from(used.share[interval * used.links + link])).sum()
    };
    let mut links: Vec<(usize, f64)> = (first..first + ports).map(|link| (link, total(link))).collect();
    links.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
    links.into_iter().map(|(link, _)| link).collect()
}

fn panel(
    comparison: &Comparison,
    index: usize,
    used: &Utilisation,
    sides: &[Vec<usize>; 2],
    span_s: f64,
) -> String {
    let run = &comparison.runs[index];
    let bottom = TOP + 2.0 * HEIGHT + GAP;
    let x = Linear::new((0.0, span_s), (LEFT, PANEL));
    let mut svg = Svg::new(PANEL, bottom + 22.0, &format!("Port utilisation over time under {}", run.label))
        .class(&format!("run{index}"));
    heading(&mut svg, &run.label, &format!("makespan {}", figures::time(run.makespan.as_secs_f64())));
    time_axis(&mut svg, &x, span_s, TOP, bottom);
    for (side, name) in [(0, "ingress"), (1, "egress")] {
        let top = TOP + (HEIGHT + GAP) * side as f64;
        let (cells, columns) = cells(used, &sides[side]);
        let width = x.at(self::span_s(used)) - LEFT;
        svg.rect("plate", (LEFT, top), (PANEL - LEFT, HEIGHT));
        svg.image(&png::address(&cells, columns, COLOR), (LEFT, top), (width, HEIGHT));
        let middle = px(top + HEIGHT / 2.0);
        svg.open_with("axis", &format!("transform=\"translate(13 {middle}) rotate(-90)\""));
        svg.text("mid", (0.0, 0.0), name);
        svg.close();
        let ports = &comparison.trace.port_names;
        rows_in_words(&mut svg, used, &sides[side], (name, ports), top);
    }
    svg.finish()
}

/// A row to point at for each row of the picture, with its ports and how busy they are in the mean.
fn rows_in_words(
    svg: &mut Svg,
    used: &Utilisation,
    links: &[usize],
    (side, names): (&str, &[String]),
    top: f64,
) {
    let rows = links.len().min(MOST_ROWS);
    let step = HEIGHT / rows.max(1) as f64;
    // Links are numbered by port, all ingress before all egress.
    let ports = links.len();
    svg.open_with("hits", &format!("stroke-width=\"{}\"", px(step.max(1.0))));
    for row in 0..rows {
        let links = &links[row * links.len() / rows..(row + 1) * links.len() / rows];
        let shares = (0..used.intervals())
            .flat_map(|interval| links.iter().map(move |link| interval * used.links + link))
            .map(|index| f64::from(used.share[index]));
        let busy = shares.sum::<f64>() / (links.len() * used.intervals()).max(1) as f64;
        let name = |link: &usize| match names.get(link % ports).filter(|name| !name.is_empty()) {
            Some(name) => name.clone(),
            None => (link % ports).to_string(),
        };
        let mut named: Vec<String> = links.iter().take(MOST_NAMED).map(name).collect();
        if links.len() > MOST_NAMED {
            named.push(format!("and {} more", links.len() - MOST_NAMED));
        }
        let noun = match (names.is_empty(), links.len()) {
            (false, _) => "",
            (true, 1) => "port ",
            (true, _) => "ports ",
        };
        let y = top + step * (row as f64 + 0.5);
        let text = format!("{noun}{}, {side}: {} busy", named.join(", "), figures::percent(busy, 1.0));
        svg.hit(&format!("M{} {}H{}", px(LEFT), px(y), px(PANEL)), &text, None);
    }
    svg.close();
}

/// The levels of a picture row by row, and how many columns it has.
fn cells(used: &Utilisation, links: &[usize]) -> (Vec<u8>, usize) {
    let columns = used.intervals().min(MOST_COLUMNS);
    let rows = links.len().min(MOST_ROWS);
    let mut cells = Vec::with_capacity(rows * columns);
    for row in 0..rows {
        let links = &links[row * links.len() / rows..(row + 1) * links.len() / rows];
        for column in 0..columns {
            let intervals = column * used.intervals() / columns..(column + 1) * used.intervals() / columns;
            let count = (links.len() * intervals.len()) as f64;
            let sum: f64 = intervals
                .flat_map(|interval| links.iter().map(move |link| interval * used.links + link))
                .map(|index| f64::from(used.share[index]))
                .sum();
            cells.push((sum / count * f64::from(LEVELS - 1)).round() as u8);
        }
    }
    (cells, columns)
}
