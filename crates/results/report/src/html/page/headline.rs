//! The sentences on top: what the comparison shows, in words that no figure contradicts.
//!
//! A policy that is told all sizes beforehand is a yardstick, not a rival of TCP. So the headline
//! is about the best policy that is not told sizes, and where it sets one that is against the
//! baseline it says so. A gain whose interval includes none is not one.

use cavalcade_metrics::{Comparison, Improvement, RunFigures};

use crate::svg::escape;
use crate::{figures, savings};

/// Below this a speedup would read 1.0×.
const NOTICEABLE: f64 = 1.05;

/// A gain in the fluid from which on one over packets was found too, and the time that a mean flow
/// takes on an idle link there at least (`experiments/ranking-over-packets`).
const CARRIED: f64 = 1.25;
const CARRIED_S: f64 = 0.8e-3;

/// Says in a sentence what the comparison shows.
pub(in crate::html) fn headline(comparison: &Comparison) -> String {
    if let Some(saved) = &comparison.savings {
        return savings::headline(comparison, saved);
    }
    let mean = |run: &RunFigures| comparison.summary(run).mean_s;
    let noun = comparison.ranked().noun();
    let baseline = comparison.baseline_run();
    if comparison.runs.len() == 1 {
        return format!(
            "{} finishes a {noun} in {} on average",
            baseline.label,
            figures::time(mean(baseline))
        );
    }
    let best = |told: bool| {
        let is_one = |run: &usize| {
            let figures_of = &comparison.runs[*run];
            let is_shown = comparison.improvement(figures_of).is_some_and(|gain| gain.interval.low > 1.0);
            figures_of.about.told() == Some(told)
                && is_shown
                && mean(baseline) / mean(figures_of) >= NOTICEABLE
        };
        comparison.ranking().into_iter().find(is_one)
    };
    let label = |run: usize| comparison.runs[run].label.as_str();
    let speedup = |run: usize| figures::short_factor(mean(baseline) / mean(&comparison.runs[run]));
    let name = match baseline.about.told_sizes {
        true => format!("{}, which is told sizes,", baseline.shown()),
        false => baseline.shown(),
    };
    match (best(false), best(true)) {
        (Some(run), Some(told)) if mean(&comparison.runs[told]) < mean(&comparison.runs[run]) => format!(
            "{} finishes {noun}s {} sooner than {name} on average; told all sizes, {} gains {}",
            label(run),
            speedup(run),
            label(told),
            speedup(told)
        ),
        (Some(run), _) => {
            format!("{} finishes {noun}s {} sooner than {name} on average", label(run), speedup(run))
        }
        (None, Some(told)) => format!(
            "Told all sizes, {} finishes {noun}s {} sooner than {name}; no policy without sizes shows a gain",
            label(told),
            speedup(told)
        ),
        (None, None) => {
            format!("No policy is shown to finish {noun}s noticeably sooner than {name} on average")
        }
    }
}

/// The headline's figures in full, how evenly the gain is shared out, and what is left to gain.
pub(super) fn lead(comparison: &Comparison) -> String {
    if comparison.savings.is_some() || comparison.runs.len() < 2 {
        return String::new();
    }
    let ranking = comparison.ranking();
    let best = |told: bool| {
        let is_one =
            |run: &usize| *run != comparison.baseline && comparison.runs[*run].about.told() == Some(told);
        ranking.iter().copied().find(is_one).filter(|&run| {
            comparison.summary(&comparison.runs[run]).mean_s
                < comparison.summary(comparison.baseline_run()).mean_s
        })
    };
    let sentences: Vec<String> =
        [best(false), best(true)].into_iter().flatten().map(|run| sentence(comparison, run)).collect();
    let noun = comparison.ranked().noun();
    let name = escape(&comparison.baseline_run().shown());
    let baseline = unbroken(&figures::time(comparison.summary(comparison.baseline_run()).mean_s));
    let first = match sentences.is_empty() {
        true => {
            format!("No policy compared has a lower mean {noun} completion time than {name}: {baseline}.")
        }
        false => format!(
            "The mean {noun} completion time is {baseline} under {name}{}.",
            about(comparison.baseline_run())
        ),
    };
    let mut warnings =
        [best(false), best(true)].into_iter().flatten().map(|run| over_packets(comparison, run));
    let over_packets = warnings.find(|warning| !warning.is_empty()).unwrap_or_default();
    format!("<p class=\"lead\">{first}{}{over_packets}{}</p>\n", sentences.concat(), room_left(comparison))
}

/// Warns where a gain over fair sharing that stands for TCP may not be one over packets.
fn over_packets(comparison: &Comparison, run: usize) -> &'static str {
    let (baseline, best) = (comparison.baseline_run(), &comparison.runs[run]);
    let is_fluid = baseline.transport.is_none() && best.transport.is_none();
    if !is_fluid || baseline.about.stands_for.is_empty() {
        return "";
    }
    let mean_bytes = comparison.trace.bytes.as_f64() / comparison.trace.flows.max(1) as f64;
    if mean_bytes * 8.0 / (comparison.fabric.slowest_bps as f64) < CARRIED_S {
        return " Flows here are as short as a few round trips, and over packets such may gain nothing, whatever the \
                fluid says: compare them with <code>--engine packet</code>.";
    }
    match comparison.improvement(best) {
        Some(gain) if gain.factor < CARRIED => {
            " A gain below 1.25 in the fluid may be none over packets: compare them with <code>--engine packet</code>."
        }
        _ if best.about.told_sizes => {
            " An order inside a class, which such a policy needs, is not carried by switches with a few priorities: over \
             packets it takes a transport of its own, or hosts that hold flows back."
        }
        _ => "",
    }
}

/// Says what one policy gains, in a sentence to be set behind another.
fn sentence(comparison: &Comparison, run: usize) -> String {
    let figures_of = &comparison.runs[run];
    let Some(speedup) = comparison.improvement(figures_of) else { return String::new() };
    let noun = comparison.ranked().noun();
    format!(
        " Under {}{} it is {}: a speedup of {}{}; {noun} by {noun} the median speedup is {}, for one in twenty it is {} or less, \
         for another one in twenty {} or more.",
        escape(&figures_of.label),
        about(figures_of),
        unbroken(&figures::time(comparison.summary(figures_of).mean_s)),
        figures::number(speedup.factor),
        interval_in_words(&speedup),
        figures::number(speedup.coflow_p50),
        figures::number(speedup.coflow_p5),
        figures::number(speedup.coflow_p95),
    )
}

/// Formats the source of a policy and whether it is told sizes, in parentheses.
fn about(run: &RunFigures) -> String {
    let told = match run.about.told() {
        Some(true) => "told all sizes",
        Some(false) => "not told sizes",
        None => "made elsewhere",
    };
    match run.about.paper.as_str() {
        "" => format!(" ({told})"),
        paper => format!(" ({}; {told})", escape(paper)),
    }
}

/// Says how close the best run is to the best possible.
fn room_left(comparison: &Comparison) -> String {
    let best = &comparison.runs[comparison.ranking()[0]];
    let (Some(bound), Some(gap)) = (&comparison.bound, comparison.gap(best)) else { return String::new() };
    format!(
        " No schedule, whatever it knows, has a mean below {}, so {} is at most {} above the best possible.",
        unbroken(&figures::time_rounded_down(bound.mean)),
        escape(&best.label),
        unbroken(&figures::gap(gap)),
    )
}

fn interval_in_words(improvement: &Improvement) -> String {
    let interval = improvement.interval;
    if interval.low < interval.high {
        let (low, high) = (figures::number(interval.low), figures::number(interval.high));
        format!(" (95\u{a0}% interval {low} to {high})")
    } else {
        String::new()
    }
}

/// A number and its unit, not to be parted at the end of a line.
fn unbroken(text: &str) -> String {
    text.replace(' ', "\u{a0}")
}
