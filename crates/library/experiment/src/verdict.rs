//! A claim against what came out: the rule.
//!
//! | verdict | a number | a limit, an order, a trend, a best place |
//! |---|---|---|
//! | *reproduced* | the whole interval lies within the stated band around the paper's number | it holds for the whole interval, at every place and step |
//! | *in shape* | the interval excludes "no difference" on the paper's side, and the effect (the logarithm of the ratio) is at least half the paper's and at most twice it, or inside a limit that the paper states beside the number | – |
//! | *not shown* | the interval reaches into the band and beyond it | the interval holds both what the paper says and its contrary |
//! | *not reproduced* | all else | all else |
//!
//! - A rise needs an interval above "no change" from end to end, and at every step between one that
//!   excludes a fall beyond the band. A paper's "stays" needs every place within the band of the
//!   first. Changes are taken seed by seed.
//! - A paper's "no difference" has no side, so there the band alone decides; nor has a time or a
//!   share.
//! - *Not run*: rows are missing; or the interval is wider than the effect at fewer than 20 seeds;
//!   or fewer than 30 tasks lie beyond the percentile that is asked for.
//! - The usual band is a tenth of the ratio to the baseline.
//! - A statement that is true by construction is judged like any other and counted apart.
//!
//! # Rejected
//! - "The same side" alone as in shape: a twentieth of the paper's effect passed, and effects
//!   within the noise.
//! - The paper's number within our interval as reproduced: the worse the experiment, the easier.
//! - No upper end to in shape, or one of four times: 45 % passed for 16 %.
//! - A band of a fifth of the ratio: 33 % passed for 43 %.
//! - What is not shown as not reproduced: an experiment that was too small to decide refuted a
//!   paper.

use std::collections::{BTreeMap, BTreeSet};

use crate::criterion::Fitted;
use crate::definition::{Direction, Expectation, Expected, Experiment, Form, OURS, Panel, View};
use crate::row::{Measure, Row, Statistic};
use crate::run::Key;
use cavalcade_metrics::Estimate;

/// The outcome of a statement, from the best to the worst.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Verdict {
    /// The interval lies within the band; or the statement holds.
    Reproduced,
    /// The paper's side and size of effect.
    InShape,
    /// The interval decides nothing.
    NotShown,
    /// Rows are missing, or too few to judge by.
    NotRun,
    /// Not one of these.
    NotReproduced,
}

impl Verdict {
    /// In words.
    pub const fn words(self) -> &'static str {
        match self {
            Self::Reproduced => "reproduced",
            Self::InShape => "in shape",
            Self::NotShown => "not shown",
            Self::NotReproduced => "**not reproduced**",
            Self::NotRun => "not run",
        }
    }
}

/// A claim and its outcome.
#[derive(Clone, Debug, PartialEq)]
pub struct Finding {
    /// The line of the experiment's text.
    pub line: usize,
    /// The id of the claim.
    pub claim: String,
    /// The reading of the paper; empty for the literal one.
    pub reading: String,
    /// True if it is true by construction.
    pub construction: bool,
    /// True if a parameter was chosen so that it comes out.
    pub fitted: bool,
    /// The statement.
    pub text: String,
    /// The paper's figure.
    pub paper: String,
    /// Our figure.
    pub ours: String,
    /// The tolerance.
    pub band: String,
    /// The verdict.
    pub verdict: Verdict,
    /// The reason that it came out otherwise.
    pub why: String,
}

impl Finding {
    /// Returns whether its rows are there.
    pub(crate) fn has_rows(&self) -> bool {
        self.ours != MISSING
    }

    /// Returns whether a paper states it.
    pub fn is_of_a_paper(&self) -> bool {
        self.claim != OURS
    }
}

/// The outcome of all claims of an experiment, in the order of its text; what its criterion is
/// expected to do comes last.
pub fn findings(experiment: &Experiment, rows: &BTreeMap<Key, Row>) -> Vec<Finding> {
    let judged = experiment.panels.iter().flat_map(|panel| {
        panel.expectations.iter().map(move |expectation| {
            let judge = Judge { experiment, rows, panel, expectation };
            let Judged { paper, ours, band, verdict } = judge.judge();
            let Expectation { line, claim, reading, construction, fitted, text, why, .. } =
                expectation.clone();
            Finding { line, claim, reading, construction, fitted, text, paper, ours, band, verdict, why }
        })
    });
    let of_criterion = Fitted::of(experiment, rows).map_or_else(Vec::new, |fitted| fitted.findings());
    judged.chain(of_criterion).collect()
}

/// A judgement in the words of a table.
struct Judged {
    paper: String,
    ours: String,
    band: String,
    verdict: Verdict,
}

struct Judge<'a> {
    experiment: &'a Experiment,
    rows: &'a BTreeMap<Key, Row>,
    panel: &'a Panel,
    expectation: &'a Expectation,
}

/// The figure of a statement whose rows are not there.
const MISSING: &str = "rows are missing";
/// The fewest tasks that lie beyond a percentile.
const BEYOND: f64 = 30.0;
/// The fewest seeds where the interval is wider than the effect.
const MANY_SEEDS: usize = 20;
/// The multiple of the paper's effect that is another effect.
const MOST_EFFECT: f64 = 2.0;

impl Judge<'_> {
    fn judge(&self) -> Judged {
        let (paper, band) = self.said();
        let found = match &self.expectation.expected {
            Expected::Value { at, paper, band, inside } => self.value(*at, *paper, *band, *inside),
            Expected::Limit { at, limit, most } => self.limit(*at, *limit, *most),
            Expected::Trend { direction, from, to, band } => self.trend(*direction, *from, *to, *band),
            Expected::Order { series, at, band } => self.order(series, *at, *band),
            Expected::Best { among } => self.best(among),
        };
        let (ours, verdict) = found.unwrap_or_else(|| (MISSING.to_owned(), Verdict::NotRun));
        Judged { paper, ours, band, verdict }
    }

    /// The paper's statement and the band, in words.
    fn said(&self) -> (String, String) {
        let form = self.expectation.form;
        let percent = |band: f64| format!("{} %", number(band * 100.0));
        match &self.expectation.expected {
            Expected::Value { paper, band, .. } if form == Form::Share => {
                (shown(*paper, form), format!("±{} points", number(*band)))
            }
            Expected::Value { paper, band, .. } => (shown(*paper, form), format!("±{}", percent(*band))),
            Expected::Limit { limit, most, .. } => (
                format!("{} {}", if *most { "at most" } else { "at least" }, shown(*limit, form)),
                String::new(),
            ),
            Expected::Trend { direction, from, to, band } => {
                let word = match direction {
                    Direction::Rises => "rises",
                    Direction::Falls => "falls",
                    Direction::Flat => "stays",
                };
                let said = format!("{word} from {} to {}", self.panel.place(*from), self.panel.place(*to));
                (said, percent(*band))
            }
            Expected::Order { series, band, .. } => {
                let names: Vec<&str> =
                    series.iter().map(|&index| self.panel.series[index].name.as_str()).collect();
                (names.join(" ≥ "), if *band > 0.0 { percent(*band) } else { String::new() })
            }
            Expected::Best { among } => (format!("best at {}", self.places(among, " or ")), String::new()),
        }
    }

    /// Places of the axis by name.
    fn places<'p>(&self, places: impl IntoIterator<Item = &'p usize>, between: &str) -> String {
        let names: Vec<String> = places.into_iter().map(|&place| self.panel.place(place)).collect();
        names.join(between)
    }

    fn view(&self) -> View {
        let Expectation { measure, against, form, .. } = *self.expectation;
        View { measure, against, form }
    }

    fn value(&self, at: usize, paper: f64, band: f64, inside: Option<f64>) -> Option<(String, Verdict)> {
        let form = self.expectation.form;
        let series = self.expectation.series;
        let ours = self.experiment.estimate(self.rows, self.panel, series, at, self.view())?;
        let shown = with_interval(&ours, form);
        if let Some(few) = self.too_few_beyond(series, at) {
            return Some((format!("{shown}; {few}"), Verdict::NotRun));
        }
        let claim = Claim { form, paper, band, inside };
        if claim.is_wide(&ours) && ours.seeds < MANY_SEEDS {
            let few = format!("{shown}; the interval is wider than the effect: {MANY_SEEDS} seeds needed");
            return Some((few, Verdict::NotRun));
        }
        Some((shown, claim.verdict(&ours)))
    }

    /// Returns the fault where too few tasks lie beyond the percentile that is asked for.
    fn too_few_beyond(&self, series: usize, at: usize) -> Option<String> {
        let measure = self.expectation.measure.unwrap_or_else(|| self.panel.measure_at(at));
        let beyond = match measure {
            Measure { statistic: Statistic::P50, .. } => 0.5,
            Measure { statistic: Statistic::P95, .. } => 0.05,
            Measure { statistic: Statistic::P99, .. } => 0.01,
            Measure { statistic: Statistic::Mean | Statistic::Max, .. } => return None,
        };
        let tasks = (self.experiment.counted(self.rows, self.panel, series, at) * beyond).round();
        (tasks < BEYOND).then(|| format!("{tasks} tasks beyond the percentile, {BEYOND} needed"))
    }

    fn limit(&self, at: usize, limit: f64, most: bool) -> Option<(String, Verdict)> {
        let form = self.expectation.form;
        let series = self.expectation.series;
        let ours = self.experiment.estimate(self.rows, self.panel, series, at, self.view())?;
        let shown = with_interval(&ours, form);
        if let Some(few) = self.too_few_beyond(series, at) {
            return Some((format!("{shown}; {few}"), Verdict::NotRun));
        }
        let (holds, fails) = if most {
            (ours.high <= limit, ours.low > limit)
        } else {
            (ours.low >= limit, ours.high < limit)
        };
        Some(decided(holds, fails, shown))
    }

    /// The change from one place to another, seed by seed: a ratio, or of shares a difference over
    /// a hundred.
    fn change(&self, from: usize, to: usize) -> Option<Estimate> {
        let of = |place| {
            self.experiment.samples(self.rows, self.panel, self.expectation.series, place, self.view())
        };
        let (before, after) = (of(from)?, of(to)?);
        // What is not random has one run, which stands beside every seed of the other.
        let seeds = before.len().max(after.len());
        let pairs = (0..seeds).map(|seed| (before[seed % before.len()], after[seed % after.len()]));
        match self.expectation.form {
            Form::Share => Estimate::of_values(&pairs.map(|(a, b)| (b - a) / 100.0).collect::<Vec<f64>>()),
            Form::Gap => {
                Some(Estimate::of_ratios(&pairs.map(|(a, b)| a / b).collect::<Vec<f64>>())?.map(|x| x - 1.0))
            }
            Form::Factor | Form::Reduction | Form::Seconds => {
                Some(Estimate::of_ratios(&pairs.map(|(a, b)| b / a).collect::<Vec<f64>>())?.map(|x| x - 1.0))
            }
        }
    }

    fn trend(&self, direction: Direction, from: usize, to: usize, band: f64) -> Option<(String, Verdict)> {
        let form = self.expectation.form;
        let at = |place| {
            let series = self.expectation.series;
            self.experiment.estimate(self.rows, self.panel, series, place, self.view())
        };
        let ours = format!("{} → {}", shown(at(from)?.value, form), shown(at(to)?.value, form));
        let places: Vec<usize> = if from <= to { (from..=to).collect() } else { (to..=from).rev().collect() };
        let (mut holds, mut fails) = (true, false);
        let mut broken = BTreeSet::new();
        let mut require = |is: bool, is_not: bool, place: usize| {
            holds &= is;
            fails |= is_not;
            if !is {
                broken.insert(place);
            }
        };
        if direction == Direction::Flat {
            for &place in &places[1..] {
                let change = self.change(from, place)?;
                require(
                    change.low >= -band && change.high <= band,
                    change.low > band || change.high < -band,
                    place,
                );
            }
        } else {
            let upward =
                |change: Estimate| if direction == Direction::Rises { change } else { change.map(|x| -x) };
            let whole = upward(self.change(from, to)?);
            require(whole.low > band, whole.high <= band, to);
            for step in places.windows(2) {
                let step_change = upward(self.change(step[0], step[1])?);
                let slack = band.max(STEP);
                require(step_change.low >= -slack, step_change.high < -slack, step[1]);
            }
        }
        let ours =
            if broken.is_empty() { ours } else { format!("{ours}, not at {}", self.places(&broken, ", ")) };
        Some(decided(holds, fails, ours))
    }

    fn order(&self, series: &[usize], at: Option<usize>, band: f64) -> Option<(String, Verdict)> {
        let places: Vec<usize> = at.map_or_else(|| (0..self.panel.places()).collect(), |at| vec![at]);
        let (mut fails, mut broken) = (false, BTreeSet::new());
        let mut least: Option<(Estimate, usize)> = None;
        for &place in &places {
            for pair in series.windows(2) {
                let view = View { against: Some(pair[1]), form: Form::Factor, ..self.view() };
                let factor = self.experiment.estimate(self.rows, self.panel, pair[0], place, view)?;
                if least.is_none_or(|(least, _)| factor.low < least.low) {
                    least = Some((factor, place));
                }
                fails |= factor.high < 1.0 - band;
                if factor.low < 1.0 - band {
                    broken.insert(place);
                }
            }
        }
        let (least, place) = least?;
        let least = with_interval(&least, Form::Factor);
        let ours = match (broken.len(), places.len()) {
            (_, 1) => least,
            (0, all) => format!("at all {all}; least {least}, at {}", self.panel.place(place)),
            (n, all) => format!("at {} of {all}, not at {}: {least}", all - n, self.places(&broken, ", ")),
        };
        Some(decided(broken.is_empty(), fails, ours))
    }

    fn best(&self, among: &[usize]) -> Option<(String, Verdict)> {
        let form = self.expectation.form;
        let larger_is_better = matches!(form, Form::Factor | Form::Reduction);
        let series = self.expectation.series;
        let mut figures = Vec::new();
        for place in 0..self.panel.places() {
            let estimate = self.experiment.estimate(self.rows, self.panel, series, place, self.view())?;
            figures.push((if larger_is_better { estimate.value } else { -estimate.value }, place));
        }
        let best_of = |places: &mut dyn Iterator<Item = &(f64, usize)>| {
            places.copied().reduce(|best, next| if next.0 > best.0 { next } else { best })
        };
        let best = best_of(&mut figures.iter())?;
        let inside = best_of(&mut figures.iter().filter(|(_, place)| among.contains(place)))?;
        let (mut holds, mut fails) = (true, false);
        for &(_, place) in figures.iter().filter(|(_, place)| !among.contains(place)) {
            let change = self.change(place, inside.1)?;
            let gain =
                if form == Form::Factor || form == Form::Reduction { change } else { change.map(|x| -x) };
            holds &= gain.low >= 0.0;
            fails |= gain.high < 0.0;
        }
        let value = if larger_is_better { best.0 } else { -best.0 };
        Some(decided(holds, fails, format!("best at {}: {}", self.panel.place(best.1), shown(value, form))))
    }
}

/// The most that a step of a trend may go the other way, where the band is narrower.
const STEP: f64 = 0.02;

/// A statement that holds or does not, or of which the interval decides nothing.
fn decided(holds: bool, fails: bool, ours: String) -> (String, Verdict) {
    match (holds, fails) {
        (true, _) => (ours, Verdict::Reproduced),
        (false, true) => (ours, Verdict::NotReproduced),
        (false, false) => (ours, Verdict::NotShown),
    }
}

/// A number that a paper states.
struct Claim {
    form: Form,
    paper: f64,
    band: f64,
    inside: Option<f64>,
}

impl Claim {
    /// The effect of a figure: the logarithm of the ratio to the baseline.
    fn effect(&self, figure: f64) -> f64 {
        libm::log(self.form.ratio_of(figure))
    }

    /// Returns whether the paper's number has a side: whether it is a ratio other than one.
    fn has_side(&self) -> bool {
        !self.form.is_plain() && self.effect(self.paper) != 0.0
    }

    fn is_wide(&self, ours: &Estimate) -> bool {
        let width = libm::fabs(self.effect(ours.high) - self.effect(ours.low));
        self.has_side() && width > libm::fabs(self.effect(self.paper))
    }

    /// The rule of this module's header.
    fn verdict(&self, ours: &Estimate) -> Verdict {
        let near = |value: f64| match self.form {
            Form::Share => libm::fabs(value - self.paper) <= self.band,
            _ => libm::fabs(self.effect(value) - self.effect(self.paper)) <= libm::log1p(self.band) + 1e-12,
        };
        if near(ours.low) && near(ours.high) {
            return Verdict::Reproduced;
        }
        let unshown = match self.reaches(ours) {
            true => Verdict::NotShown,
            false => Verdict::NotReproduced,
        };
        if !self.has_side() {
            return unshown;
        }
        let paper = self.effect(self.paper);
        let toward = |value: f64| self.effect(value) * paper.signum();
        let excludes_none = toward(ours.low) > 0.0 && toward(ours.high) > 0.0;
        let (effect, paper) = (toward(ours.value), libm::fabs(paper));
        let inside = self.inside.is_some_and(|limit| effect <= libm::fabs(self.effect(limit)));
        match excludes_none && (inside || (paper / 2.0..=MOST_EFFECT * paper).contains(&effect)) {
            true => Verdict::InShape,
            false => unshown,
        }
    }

    /// Returns whether part of the interval lies in the band.
    fn reaches(&self, ours: &Estimate) -> bool {
        let (low, high) = match self.form {
            Form::Share => (ours.low - self.paper, ours.high - self.paper),
            _ => (
                self.effect(ours.low) - self.effect(self.paper),
                self.effect(ours.high) - self.effect(self.paper),
            ),
        };
        let band = if self.form == Form::Share { self.band } else { libm::log1p(self.band) };
        low.min(high) <= band && low.max(high) >= -band
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

    fn estimate(value: f64, low: f64, high: f64) -> Estimate {
        Estimate { value, low, high, seeds: 20 }
    }

    fn verdict(form: Form, paper: f64, band: f64, ours: (f64, f64, f64)) -> Verdict {
        Claim { form, paper, band, inside: None }.verdict(&estimate(ours.0, ours.1, ours.2))
    }

    #[test]
    fn a_number_is_reproduced_where_the_whole_interval_lies_in_the_band() {
        assert_eq!(verdict(Form::Factor, 2.0, 0.2, (1.9, 1.7, 2.1)), Verdict::Reproduced);
        assert_eq!(verdict(Form::Factor, 2.0, 0.2, (1.9, 1.5, 2.3)), Verdict::InShape, "half outside");
        assert_eq!(verdict(Form::Seconds, 2.0, 0.2, (2.0, 1.5, 2.5)), Verdict::NotShown);
        assert_eq!(verdict(Form::Seconds, 2.0, 0.2, (2.6, 2.5, 2.7)), Verdict::NotReproduced);
        assert_eq!(verdict(Form::Share, 5.0, 2.5, (5.0, 3.0, 7.0)), Verdict::Reproduced);
    }

    #[test]
    fn in_shape_needs_the_papers_side_and_half_its_effect() {
        // Two is one doubling; its half is a factor of 1.41, twice it a factor of 4.
        for (ours, expected) in [
            ((1.42, 1.1, 1.8), Verdict::InShape),
            ((1.42, 0.99, 2.0), Verdict::NotShown),
            ((1.42, 0.99, 1.6), Verdict::NotReproduced),
            ((1.40, 1.3, 1.5), Verdict::NotReproduced),
            ((3.9, 3.8, 4.1), Verdict::InShape),
            ((4.1, 4.0, 4.2), Verdict::NotReproduced),
            ((0.5, 0.4, 0.6), Verdict::NotReproduced),
        ] {
            assert_eq!(verdict(Form::Factor, 2.0, 0.2, ours), expected, "{ours:?}");
        }
        // A reduction of 50 % is the same factor, a gap of 100 % its inverse.
        assert_eq!(verdict(Form::Reduction, 50.0, 0.2, (29.0, 10.0, 39.0)), Verdict::NotReproduced);
        assert_eq!(verdict(Form::Reduction, 50.0, 0.2, (30.0, 10.0, 40.0)), Verdict::InShape);
        assert_eq!(verdict(Form::Gap, 100.0, 0.2, (50.0, 20.0, 70.0)), Verdict::InShape);
        assert_eq!(verdict(Form::Gap, 100.0, 0.2, (-50.0, -60.0, -40.0)), Verdict::NotReproduced);
    }

    #[test]
    fn no_difference_has_no_side() {
        assert_eq!(verdict(Form::Factor, 1.0, 0.05, (0.99, 0.96, 1.02)), Verdict::Reproduced);
        assert_eq!(verdict(Form::Factor, 1.0, 0.05, (1.0, 0.9, 1.1)), Verdict::NotShown);
        assert_eq!(verdict(Form::Factor, 1.0, 0.05, (1.1, 1.06, 1.2)), Verdict::NotReproduced);
        assert_eq!(verdict(Form::Reduction, 0.0, 0.05, (4.0, 3.0, 4.7)), Verdict::Reproduced);
    }

    #[test]
    fn inside_a_stated_limit_is_in_shape() {
        let claim = |inside| Claim { form: Form::Reduction, paper: 47.0, band: 0.1, inside };
        let ours = estimate(20.0, 10.0, 29.0);
        assert_eq!(claim(None).verdict(&ours), Verdict::NotReproduced, "less than half");
        assert_eq!(claim(Some(47.0)).verdict(&ours), Verdict::InShape, "up to 47 %");
        assert_eq!(claim(Some(47.0)).verdict(&estimate(2.0, -6.0, 9.0)), Verdict::NotReproduced);
    }

    #[test]
    fn what_the_interval_does_not_decide_is_not_shown() {
        assert_eq!(decided(false, false, String::new()).1, Verdict::NotShown);
        assert_eq!(decided(false, true, String::new()).1, Verdict::NotReproduced);
        assert_eq!(decided(true, false, String::new()).1, Verdict::Reproduced);
    }

    #[test]
    fn numbers_have_three_digits() {
        assert_eq!(
            [38.502, 2.0, 0.01234, 1234.5, -5.0, 0.0].map(number),
            ["38.5", "2", "0.0123", "1234", "-5", "0"]
        );
        assert_eq!(with_interval(&estimate(2.0, 1.5, 2.5), Form::Factor), "2× (1.5 to 2.5)");
        assert_eq!(shown(-12.345, Form::Reduction), "-12.3 %");
        assert_eq!(with_interval(&estimate(0.02, 0.015, 0.025), Form::Seconds), "20 ms (15 to 25)");
        assert_eq!(with_interval(&estimate(0.012, 0.01, 0.014), Form::Share), "0.012 % (0.01 to 0.014)");
    }
}
