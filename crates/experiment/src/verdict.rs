//! A claim against what came out.
//!
//! *Reproduced*: the number lies within the stated band of the paper's, or the paper's within our interval, and both are
//! on the same side of "no difference"; a statement of order or trend holds. *In shape*: the same side, but outside the
//! band. *Not reproduced*: all else. A paper's "no difference" has no side, so there the band alone decides.

use std::collections::BTreeMap;

use crate::definition::{Direction, Expectation, Expected, Experiment, Form, Panel, View};
use crate::estimate::Estimate;
use crate::row::Row;
use crate::run::Key;

/// What became of a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Verdict {
    /// The same side and within the band; or the statement holds.
    Reproduced,
    /// The same side.
    InShape,
    /// Neither.
    NotReproduced,
    /// Rows are missing.
    NotRun,
}

impl Verdict {
    /// In words.
    pub const fn words(self) -> &'static str {
        match self {
            Self::Reproduced => "reproduced",
            Self::InShape => "reproduced in shape",
            Self::NotReproduced => "**not reproduced**",
            Self::NotRun => "not run",
        }
    }
}

/// A claim, and what became of it.
#[derive(Clone, Debug, PartialEq)]
pub struct Finding {
    /// The id of the claim.
    pub claim: String,
    /// What is claimed.
    pub text: String,
    /// What the paper says.
    pub paper: String,
    /// What came out.
    pub ours: String,
    /// How far off still counts.
    pub band: String,
    /// The verdict.
    pub verdict: Verdict,
    /// Why it came out otherwise.
    pub why: String,
}

/// What became of all claims of an experiment, in the order of its text.
pub fn findings(experiment: &Experiment, rows: &BTreeMap<Key, Row>) -> Vec<Finding> {
    let judged = experiment.panels.iter().flat_map(|panel| {
        panel.expectations.iter().map(move |expectation| {
            let (paper, ours, band, verdict) = Judge { experiment, rows, panel, expectation }.judge();
            let Expectation { claim, text, why, .. } = expectation.clone();
            Finding { claim, text, paper, ours, band, verdict, why }
        })
    });
    judged.collect()
}

struct Judge<'a> {
    experiment: &'a Experiment,
    rows: &'a BTreeMap<Key, Row>,
    panel: &'a Panel,
    expectation: &'a Expectation,
}

impl Judge<'_> {
    fn judge(&self) -> (String, String, String, Verdict) {
        match &self.expectation.expected {
            Expected::Value { at, paper, band } => self.value(*at, *paper, *band),
            Expected::Limit { at, limit, most } => self.limit(*at, *limit, *most),
            Expected::Trend { direction, from, to, band } => self.trend(*direction, *from, *to, *band),
            Expected::Order { series, at, band } => self.order(series, *at, *band),
            Expected::Best { among } => self.best(among),
        }
    }

    fn view(&self) -> View {
        let Expectation { measure, against, form, .. } = *self.expectation;
        View { measure, against, form }
    }

    fn at(&self, series: usize, place: usize) -> Option<Estimate> {
        self.experiment.estimate(self.rows, self.panel, series, place, self.view())
    }

    fn value(&self, at: usize, paper: f64, band: f64) -> (String, String, String, Verdict) {
        let form = self.expectation.form;
        let points = form.is_percent();
        let shown_band =
            if points { format!("±{band} points") } else { format!("±{} %", number(band * 100.0)) };
        let said = shown(paper, form);
        let Some(ours) = self.at(self.expectation.series, at) else {
            return (said, "–".to_owned(), shown_band, Verdict::NotRun);
        };
        let near = if points {
            (ours.value - paper).abs() <= band
        } else {
            libm::fabs(libm::log(ours.value / paper)) <= libm::log1p(band)
        };
        (said, with_interval(&ours, form), shown_band, rule(form, paper, &ours, near))
    }

    fn limit(&self, at: usize, limit: f64, most: bool) -> (String, String, String, Verdict) {
        let form = self.expectation.form;
        let said = format!("{} {}", if most { "at most" } else { "at least" }, shown(limit, form));
        let Some(ours) = self.at(self.expectation.series, at) else {
            return (said, "–".to_owned(), String::new(), Verdict::NotRun);
        };
        let holds = if most { ours.value <= limit } else { ours.value >= limit };
        (said, with_interval(&ours, form), String::new(), if_holds(holds))
    }

    fn trend(
        &self,
        direction: Direction,
        from: usize,
        to: usize,
        band: f64,
    ) -> (String, String, String, Verdict) {
        let word = match direction {
            Direction::Rises => "rises",
            Direction::Falls => "falls",
            Direction::Flat => "stays",
        };
        let said = format!("{word} from {} to {}", self.panel.place(from), self.panel.place(to));
        let ends = (self.at(self.expectation.series, from), self.at(self.expectation.series, to));
        let (Some(first), Some(last)) = ends else {
            return (said, "–".to_owned(), String::new(), Verdict::NotRun);
        };
        let form = self.expectation.form;
        let change = match form {
            Form::Factor | Form::Seconds => last.value / first.value - 1.0,
            Form::Reduction | Form::Gap | Form::Share => (last.value - first.value) / 100.0,
        };
        let holds = match direction {
            Direction::Rises => change > band,
            Direction::Falls => change < -band,
            Direction::Flat => change.abs() <= band,
        };
        let ours = format!("{} → {}", shown(first.value, form), shown(last.value, form));
        (said, ours, format!("{} %", number(band * 100.0)), if_holds(holds))
    }

    fn order(&self, series: &[usize], at: Option<usize>, band: f64) -> (String, String, String, Verdict) {
        let names: Vec<&str> = series.iter().map(|&index| self.panel.series[index].name.as_str()).collect();
        let said = names.join(" ≥ ");
        let places: Vec<usize> = at.map_or_else(|| (0..self.panel.places()).collect(), |at| vec![at]);
        let mut broken = Vec::new();
        for &place in &places {
            for pair in series.windows(2) {
                let view = View { against: Some(pair[1]), form: Form::Factor, ..self.view() };
                let Some(factor) = self.experiment.estimate(self.rows, self.panel, pair[0], place, view)
                else {
                    return (said, "–".to_owned(), String::new(), Verdict::NotRun);
                };
                if factor.value < 1.0 - band {
                    broken.push(place);
                    break;
                }
            }
        }
        let ours = match (broken.len(), places.len()) {
            (0, 1) => "holds".to_owned(),
            (0, all) => format!("holds at all {all}"),
            (n, all) if n < all => {
                let where_not: Vec<String> = broken.iter().map(|&place| self.panel.place(place)).collect();
                format!("holds at {} of {all}, not at {}", all - n, where_not.join(", "))
            }
            _ => "does not hold".to_owned(),
        };
        (said, ours, format!("{} %", number(band * 100.0)), if_holds(broken.is_empty()))
    }

    fn best(&self, among: &[usize]) -> (String, String, String, Verdict) {
        let names: Vec<String> = among.iter().map(|&place| self.panel.place(place)).collect();
        let said = format!("best at {}", names.join(" or "));
        let figures: Option<Vec<(f64, usize)>> = (0..self.panel.places())
            .map(|place| self.at(self.expectation.series, place).map(|estimate| (estimate.value, place)))
            .collect();
        let Some(figures) = figures else { return (said, "–".to_owned(), String::new(), Verdict::NotRun) };
        let larger_is_better = matches!(self.expectation.form, Form::Factor | Form::Reduction);
        let better =
            |a: &(f64, usize), b: &(f64, usize)| if larger_is_better { a.0 > b.0 } else { a.0 < b.0 };
        let best = figures
            .iter()
            .skip(1)
            .fold(figures[0], |best, next| if better(next, &best) { *next } else { best });
        let ours = format!("best at {}: {}", self.panel.place(best.1), shown(best.0, self.expectation.form));
        (said, ours, String::new(), if_holds(among.contains(&best.1)))
    }
}

const fn if_holds(holds: bool) -> Verdict {
    if holds { Verdict::Reproduced } else { Verdict::NotReproduced }
}

/// The rule of this module's header. `near` says whether the value lies within the band.
fn rule(form: Form, paper: f64, ours: &Estimate, near: bool) -> Verdict {
    let near = near || ours.holds(paper);
    let neutral = match form {
        Form::Factor => 1.0,
        Form::Reduction | Form::Gap => 0.0,
        // A time has no side, nor has a share.
        Form::Seconds | Form::Share => return if_holds(near),
    };
    if paper == neutral {
        return if_holds(near);
    }
    match ((paper > neutral) == (ours.value > neutral), near) {
        (true, true) => Verdict::Reproduced,
        (true, false) => Verdict::InShape,
        (false, _) => Verdict::NotReproduced,
    }
}

/// A number in three significant digits.
pub(crate) fn number(value: f64) -> String {
    if value == 0.0 {
        return "0".to_owned();
    }
    let magnitude = libm::floor(libm::log10(libm::fabs(value))) as i32;
    let decimals = (2 - magnitude).clamp(0, 6) as usize;
    let text = format!("{value:.decimals$}");
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_owned() } else { text }
}

/// A figure in its form.
pub(crate) fn shown(value: f64, form: Form) -> String {
    match form {
        Form::Factor => format!("{}×", number(value)),
        Form::Reduction | Form::Gap => format!("{} %", number(libm::round(value * 10.0) / 10.0)),
        Form::Share => format!("{} %", number(value)),
        Form::Seconds if value < 0.1 => format!("{} ms", number(value * 1e3)),
        Form::Seconds => format!("{} s", number(value)),
    }
}

/// A figure with its interval, where it has one.
pub(crate) fn with_interval(estimate: &Estimate, form: Form) -> String {
    let value = shown(estimate.value, form);
    if estimate.seeds < 2 {
        return value;
    }
    let plain = |value: f64| match form {
        Form::Reduction | Form::Gap => number(libm::round(value * 10.0) / 10.0),
        // In the unit of the value.
        Form::Seconds if estimate.value < 0.1 => number(value * 1e3),
        Form::Factor | Form::Seconds | Form::Share => number(value),
    };
    format!("{value} ({} to {})", plain(estimate.low), plain(estimate.high))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn estimate(value: f64, half: f64) -> Estimate {
        Estimate { value, low: value - half, high: value + half, seeds: 10 }
    }

    #[test]
    fn the_side_decides_before_the_band() {
        let verdict =
            |paper: f64, ours: f64, near: bool| rule(Form::Factor, paper, &estimate(ours, 0.0), near);
        assert_eq!(verdict(2.0, 1.9, true), Verdict::Reproduced);
        assert_eq!(verdict(2.0, 1.1, false), Verdict::InShape);
        assert_eq!(verdict(1.05, 0.99, true), Verdict::NotReproduced, "near, but on the other side");
        assert_eq!(verdict(1.0, 0.99, true), Verdict::Reproduced, "no difference has no side");
        assert_eq!(rule(Form::Reduction, -5.0, &estimate(4.0, 1.0), true), Verdict::NotReproduced);
    }

    #[test]
    fn an_interval_that_holds_the_papers_number_is_as_good_as_the_band() {
        assert_eq!(rule(Form::Factor, 2.0, &estimate(3.0, 1.5), false), Verdict::Reproduced);
        assert_eq!(rule(Form::Seconds, 2.0, &estimate(3.0, 0.5), false), Verdict::NotReproduced);
    }

    #[test]
    fn numbers_have_three_digits() {
        assert_eq!(
            [38.502, 2.0, 0.01234, 1234.5, -5.0, 0.0].map(number),
            ["38.5", "2", "0.0123", "1234", "-5", "0"]
        );
        assert_eq!(with_interval(&estimate(2.0, 0.5), Form::Factor), "2× (1.5 to 2.5)");
        assert_eq!(shown(-12.345, Form::Reduction), "-12.3 %");
        assert_eq!(with_interval(&estimate(0.02, 0.005), Form::Seconds), "20 ms (15 to 25)");
        assert_eq!(with_interval(&estimate(0.012, 0.002), Form::Share), "0.012 % (0.01 to 0.014)");
    }
}
