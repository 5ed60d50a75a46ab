//! Rates and queues over time, one panel for each run over packets: what all hosts receive, as a
//! share of what their links carry, and below it the fullest queue of all switches.
//!
//! All panels have the same scales, so that a deeper queue looks deeper. A line is a maximum over
//! its interval for queues and a mean for rates, as it was recorded; nothing is smoothed.

use cavalcade_metrics::{Comparison, QueueUse, RunFigures, Utilisation};
use cavalcade_model::Bytes;

use super::timeline::{PANEL, heading, time_axis};
use crate::figures;
use crate::look::Look;
use crate::scale::Linear;
use crate::svg::{Svg, px};

const LEFT: f64 = 18.0;
const TOP: f64 = 24.0;
const HEIGHT: f64 = 76.0;
const GAP: f64 = 18.0;
/// Half pixels across a panel: more intervals are put together.
const MOST_COLUMNS: usize = 576;

/// One panel for each run that recorded its queues, best first.
pub(super) fn panels(comparison: &Comparison, looks: &[Look]) -> Vec<String> {
    let ranking = comparison.ranking();
    let recorded = |&run: &usize| {
        let figures = &comparison.runs[run];
        let (queues, used) = (figures.queue_use.as_ref()?, figures.utilisation.as_ref()?);
        Some((run, figures, queues, used))
    };
    let runs: Vec<_> = ranking.iter().filter_map(recorded).collect();
    let span_s = runs.iter().map(|(_, run, ..)| run.makespan.as_secs_f64()).fold(0.0, f64::max);
    let deepest = runs.iter().flat_map(|(_, _, queues, _)| queues.fullest.iter().copied()).max();
    let deepest = deepest.unwrap_or_default().max(Bytes(1));
    let ports = comparison.fabric.ports as usize;
    if span_s <= 0.0 {
        return Vec::new();
    }
    let draw = |&(index, run, queues, used): &(usize, &RunFigures, &QueueUse, &Utilisation)| {
        panel((index, run), looks[index], &received(used, ports), queues, span_s, deepest)
    };
    runs.iter().map(draw).collect()
}

/// For each interval its end in seconds and the share of their links' capacity that all hosts
/// received.
fn received(used: &Utilisation, ports: usize) -> Vec<(f64, f64)> {
    let interval_s = used.interval.as_secs_f64();
    let share = |interval: usize| {
        let links = interval * used.links + ports..interval * used.links + 2 * ports;
        let sum: f64 = used.share[links].iter().copied().map(f64::from).sum();
        (interval_s * (interval + 1) as f64, sum / ports.max(1) as f64)
    };
    (0..used.intervals()).map(share).collect()
}

fn panel(
    (index, run): (usize, &RunFigures),
    look: Look,
    rates: &[(f64, f64)],
    queues: &QueueUse,
    span_s: f64,
    deepest: Bytes,
) -> String {
    let bottom = TOP + 2.0 * HEIGHT + GAP;
    let x = Linear::new((0.0, span_s), (LEFT, PANEL));
    let mut svg =
        Svg::new(PANEL, bottom + 22.0, &format!("Rate and fullest queue over time under {}", run.label))
            .class(&format!("run{index}"));
    heading(&mut svg, &run.label, &format!("p99 of a queue {}", figures::bytes(queues.occupancy.p99)));
    time_axis(&mut svg, &x, span_s, TOP, bottom);
    let interval_s = queues.interval.as_secs_f64();
    let fullest: Vec<(f64, f64)> = queues
        .fullest
        .iter()
        .enumerate()
        .map(|(index, bytes)| (interval_s * (index + 1) as f64, bytes.as_f64()))
        .collect();
    let bands = [
        ("received", rates, 1.0, "100 %".to_owned()),
        ("fullest queue", &fullest[..], deepest.as_f64(), figures::bytes(deepest)),
    ];
    for (band, (name, points, most, most_text)) in bands.into_iter().enumerate() {
        let top = TOP + (HEIGHT + GAP) * band as f64;
        let y = Linear::new((0.0, most), (top + HEIGHT, top));
        svg.open("axis");
        svg.line("grid", (LEFT, top), (PANEL, top));
        svg.line("base", (LEFT, top + HEIGHT), (PANEL, top + HEIGHT));
        svg.text("end", (PANEL, top + 11.0), &most_text);
        svg.close();
        svg.open(&look.classes());
        svg.path("curve", &steps(points, span_s, &x, &y));
        svg.close();
        let middle = px(top + HEIGHT / 2.0);
        svg.open_with("axis", &format!("transform=\"translate(13 {middle}) rotate(-90)\""));
        svg.text("mid", (0.0, 0.0), name);
        svg.close();
    }
    svg.finish()
}

/// Steps through values that each hold until a time; the most of those that fall into one column.
fn steps(points: &[(f64, f64)], span_s: f64, x: &Linear, y: &Linear) -> String {
    let column = |until_s: f64| (until_s.min(span_s) / span_s * MOST_COLUMNS as f64).ceil() as usize;
    let mut path = format!("M{} {}", px(x.at(0.0)), px(y.at(0.0)));
    let mut at = 0;
    while let Some(&(until_s, value)) = points.get(at) {
        let end = column(until_s);
        let more = points[at + 1..].iter().take_while(|&&(until_s, _)| column(until_s) == end);
        let (count, most) = more.fold((1, value), |(count, most), &(_, value)| (count + 1, most.max(value)));
        at += count;
        path.push_str(&format!("V{}H{}", px(y.at(most)), px(x.at(until_s.min(span_s)))));
        if until_s >= span_s {
            break;
        }
    }
    path.push_str(&format!("V{}", px(y.at(0.0))));
    path
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_falls_into_one_column_is_one_step_as_high_as_the_most() {
        let (x, y) = (Linear::new((0.0, 1.0), (0.0, 576.0)), Linear::new((0.0, 1.0), (1.0, 0.0)));
        let points: Vec<(f64, f64)> =
            (1..=57_600).map(|n| (f64::from(n) / 57_600.0, if n == 150 { 1.0 } else { 0.5 })).collect();
        let path = steps(&points, 1.0, &x, &y);
        assert_eq!(path.matches('H').count(), 576);
        assert_eq!(path.matches("V0H").count(), 1);
    }
}
