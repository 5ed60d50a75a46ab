//! A law of the speedup, fitted to one half of the workloads and tested on the other.
//!
//! For each figure of a [`Criterion`] (the mean, a percentile), with CV² the squared coefficient of
//! variation of the tasks' bytes and r the ports at which a task receives,
//!
//! ln speedup = a + b · ln(1 + CV²) + c · ln r,
//!
//! by least squares over the workloads that the text names. One is added to CV² since tasks that
//! are alike have none. The others are held out: its predictions for them are compared with the
//! measurements. Its error is the root of the mean square of the logarithm, as a factor; and it
//! names a side wherever the measured interval excludes one.
//!
//! The halves stand in the text, which is committed before the rows: no half can be chosen by what
//! came out.
//!
//! # Rejected
//! - More terms (load, threshold, products): a dozen workloads carry three coefficients.
//! - The closed form of one first-come queue, which puts the border at CV² = 1: it knows no
//!   multiplexing and no width.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use cavalcade_report::{
    Better, ChartPanel, ChartPoint, ChartSeries, Horizontal, Stroke, Unit, Vertical, chart,
};

use crate::definition::{Axis, Criterion, Experiment, Form, OURS, Panel, View};
use crate::figure::in_words;
use crate::row::{Measure, Row};
use crate::run::Key;
use crate::verdict::{Finding, Verdict, number, with_interval};
use cavalcade_metrics::Estimate;

/// A workload of the criterion.
struct Place {
    label: String,
    fitted: bool,
    size_cv2: f64,
    receivers: f64,
    /// The speedup in each of the criterion's figures.
    speedups: Vec<Estimate>,
}

/// The coefficients of a law.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Law([f64; 3]);

impl Law {
    /// Finds the law that is nearest to the points by least squares; `None` where they do not
    /// determine one.
    fn fit(points: &[([f64; 3], f64)]) -> Option<Self> {
        // The normal equations, with the right side as a fourth column.
        let mut rows = [[0.0f64; 4]; 3];
        for (terms, value) in points {
            for (row, &term) in rows.iter_mut().zip(terms) {
                terms.iter().chain([value]).zip(row).for_each(|(&other, sum)| *sum += term * other);
            }
        }
        for pivot in 0..3 {
            let best = (pivot..3).max_by(|&a, &b| rows[a][pivot].abs().total_cmp(&rows[b][pivot].abs()))?;
            rows.swap(pivot, best);
            if rows[pivot][pivot].abs() < 1e-9 {
                return None;
            }
            let chosen = rows[pivot];
            for (_, row) in rows.iter_mut().enumerate().filter(|&(at, _)| at != pivot) {
                let times = row[pivot] / chosen[pivot];
                row.iter_mut().zip(chosen).for_each(|(value, own)| *value -= times * own);
            }
        }
        Some(Self([0, 1, 2].map(|at| rows[at][3] / rows[at][at])))
    }

    /// Returns what the coefficients are multiplied by.
    fn terms(size_cv2: f64, receivers: f64) -> [f64; 3] {
        [1.0, libm::log1p(size_cv2), libm::log(receivers)]
    }

    /// Predicts a speedup.
    fn speedup(&self, size_cv2: f64, receivers: f64) -> f64 {
        let terms = Self::terms(size_cv2, receivers);
        libm::exp(self.0.iter().zip(terms).map(|(coefficient, term)| coefficient * term).sum())
    }

    /// Returns the CV² at which it predicts no difference, where there is one.
    fn border(&self, receivers: f64) -> Option<f64> {
        let [a, b, c] = self.0;
        let border = libm::expm1(-(a + c * libm::log(receivers)) / b);
        (border.is_finite() && border > 0.0).then_some(border)
    }
}

/// The quality of a law on some of the workloads.
#[derive(Clone, Copy, Debug, Default)]
struct Score {
    places: usize,
    squares: f64,
    sides: usize,
    right: usize,
}

impl Score {
    fn add(&mut self, predicted: f64, measured: &Estimate) {
        self.places += 1;
        let off = libm::log(predicted / measured.value);
        self.squares += off * off;
        if !measured.holds(1.0) {
            self.sides += 1;
            self.right += usize::from((predicted > 1.0) == (measured.value > 1.0));
        }
    }

    fn plus(self, other: Self) -> Self {
        Self {
            places: self.places + other.places,
            squares: self.squares + other.squares,
            sides: self.sides + other.sides,
            right: self.right + other.right,
        }
    }

    /// Returns the error as a factor.
    fn error(&self) -> f64 {
        libm::exp((self.squares / self.places.max(1) as f64).sqrt())
    }

    fn words(&self) -> String {
        format!("a factor of {}, {} of {} sides", number(self.error()), self.right, self.sides)
    }
}

/// A criterion with its rows: the laws and their scores.
pub(crate) struct Fitted<'a> {
    criterion: &'a Criterion,
    panel: &'a Panel,
    places: Vec<Place>,
    laws: Vec<Law>,
}

impl<'a> Fitted<'a> {
    /// Fits the criterion of an experiment; `None` where it has no criterion, or rows are missing.
    pub(crate) fn of(experiment: &'a Experiment, rows: &BTreeMap<Key, Row>) -> Option<Self> {
        let criterion = experiment.criterion.as_ref()?;
        let panel = &experiment.panels[criterion.panel];
        let places: Vec<Place> = (0..panel.places())
            .map(|place| Place::of(experiment, criterion, panel, rows, place))
            .collect::<Option<_>>()?;
        let law = |figure: usize| {
            let fitted = places.iter().filter(|place| place.fitted);
            let points: Vec<([f64; 3], f64)> = fitted
                .map(|place| {
                    (Law::terms(place.size_cv2, place.receivers), libm::log(place.speedups[figure].value))
                })
                .collect();
            Law::fit(&points)
        };
        let laws = (0..criterion.measures.len()).map(law).collect::<Option<_>>()?;
        Some(Self { criterion, panel, places, laws })
    }

    fn score(&self, figure: usize, fitted: bool) -> Score {
        let mut score = Score::default();
        for place in self.places.iter().filter(|place| place.fitted == fitted) {
            let predicted = self.laws[figure].speedup(place.size_cv2, place.receivers);
            score.add(predicted, &place.speedups[figure]);
        }
        score
    }

    /// Adds up the scores of all figures.
    fn total(&self, fitted: bool) -> Score {
        (0..self.laws.len()).map(|figure| self.score(figure, fitted)).fold(Score::default(), Score::plus)
    }

    /// Judges what the criterion is expected to do on the workloads that are held out.
    pub(crate) fn findings(&self) -> Vec<Finding> {
        let Criterion { line, error_at_most, sides_at_least, .. } = *self.criterion;
        let score = self.total(false);
        let finding = |text: &str, paper: String, ours: String, holds: bool| Finding {
            line,
            claim: OURS.to_owned(),
            reading: String::new(),
            construction: false,
            fitted: false,
            text: text.to_owned(),
            paper,
            ours,
            band: String::new(),
            verdict: if holds { Verdict::Reproduced } else { Verdict::NotReproduced },
            why: String::new(),
        };
        vec![
            finding(
                "the criterion's error on the workloads held out, as a factor",
                format!("at most {}×", number(error_at_most)),
                format!("{}×", number(score.error())),
                score.error() <= error_at_most,
            ),
            finding(
                "the sides that the criterion names on them",
                format!("at least {} %", number(100.0 * sides_at_least)),
                format!("{} of {}", score.right, score.sides),
                score.right as f64 >= sides_at_least * score.sides as f64,
            ),
        ]
    }

    /// Writes the section of the page.
    pub(crate) fn section(&self) -> String {
        let mut out = String::from(
            "## Criterion\n\nln speedup = a + b · ln(1 + CV²) + c · ln r, with CV² that of the bytes of tasks and r the ports at which a task receives \
             (geometric mean), fitted by least squares at half of the workloads and tested at the others \
             ([how](../../crates/library/experiment/src/criterion.rs)). Sides are counted where the measured interval excludes 1.\n\n\
             ![The criterion](criterion.svg)\n\n\
             | figure | a | b | c | even at CV², one port | error where fitted | error where held out |\n|---|---|---|---|---|---|---|\n",
        );
        for (figure, (measure, law)) in self.criterion.measures.iter().zip(&self.laws).enumerate() {
            let [a, b, c] = law.0.map(|coefficient| format!("{coefficient:.3}"));
            let border = law.border(1.0).map_or("–".to_owned(), number);
            let (fitted, tested) = (self.score(figure, true).words(), self.score(figure, false).words());
            let _ = writeln!(out, "| {measure} | {a} | {b} | {c} | {border} | {fitted} | {tested} |");
        }
        let (fitted, tested) = (self.total(true).words(), self.total(false).words());
        let _ = writeln!(out, "| all | | | | | {fitted} | {tested} |\n");
        let names: Vec<String> = self.criterion.measures.iter().map(Measure::to_string).collect();
        let _ = writeln!(out, "Measured, and in brackets what the criterion says:\n");
        let _ = writeln!(out, "| workload | half | CV² | r | {} |", names.join(" | "));
        let _ = writeln!(out, "|---|---|---|---{}|", "|---".repeat(names.len()));
        for place in &self.places {
            let Place { label, fitted, size_cv2, receivers, speedups } = place;
            let cells = speedups.iter().zip(&self.laws).map(|(speedup, law)| {
                let predicted = number(law.speedup(*size_cv2, *receivers));
                format!("{} [{predicted}]", with_interval(speedup, Form::Factor))
            });
            let cells: Vec<String> = cells.collect();
            let _ = writeln!(
                out,
                "| {label} | {} | {} | {} | {} |",
                if *fitted { "fitted" } else { "held out" },
                number(*size_cv2),
                number(*receivers),
                cells.join(" | ")
            );
        }
        out.push('\n');
        out
    }

    /// Draws for each measure the speedup by CV², with the law where tasks receive at one port and
    /// at ten.
    pub(crate) fn figure(&self) -> String {
        let Criterion { series, measures, .. } = self.criterion;
        let series = &self.panel.series[*series];
        let against = self.panel.against.map_or("", |against| self.panel.series[against].name.as_str());
        let most = self.places.iter().map(|place| place.size_cv2).fold(1.0, f64::max);
        let drawn = |figure: usize, measure: &Measure| {
            let law = self.laws[figure];
            let cloud = |name: &str, fitted: bool| ChartSeries {
                name: name.to_owned(),
                policy: series.policy(),
                points: self
                    .places
                    .iter()
                    .filter(|place| place.fitted == fitted)
                    .map(|place| {
                        let Estimate { value, low, high, .. } = place.speedups[figure];
                        ChartPoint { at: 1.0 + place.size_cv2, value, low, high }
                    })
                    .collect(),
                paper: Vec::new(),
                stroke: Stroke::Dots,
            };
            let line = |receivers: f64, name: &str| ChartSeries {
                name: name.to_owned(),
                policy: "fair".to_owned(),
                points: [0.0, most]
                    .map(|size_cv2| {
                        let value = law.speedup(size_cv2, receivers);
                        ChartPoint { at: 1.0 + size_cv2, value, low: value, high: value }
                    })
                    .to_vec(),
                paper: Vec::new(),
                stroke: Stroke::Line,
            };
            ChartPanel {
                title: format!("{} by spread of task sizes", in_words(*measure)),
                horizontal: Horizontal::Numbers {
                    name: "1 + CV² of task sizes".to_owned(),
                    log: true,
                    ticks: ticks(1.0 + most),
                },
                vertical: Vertical {
                    name: format!("speedup of {} over {against}", series.name),
                    unit: Unit::Ratio,
                    better: Better::Higher,
                    from_zero: false,
                },
                series: vec![
                    line(1.0, "criterion, receivers at one port"),
                    line(10.0, "criterion, at ten ports"),
                    cloud("workloads, fitted", true),
                    cloud("workloads, held out", false),
                ],
            }
        };
        let panels: Vec<ChartPanel> =
            measures.iter().enumerate().map(|(figure, measure)| drawn(figure, measure)).collect();
        chart("A criterion for limited multiplexing", &panels)
    }
}

/// Returns round values of a logarithmic axis from 1 to `most`.
fn ticks(most: f64) -> Vec<(f64, String)> {
    let rounds =
        (0..7).flat_map(|power| [1.0, 2.0, 5.0].map(|digit| digit * libm::pow(10.0, f64::from(power))));
    rounds.take_while(|&round| round <= most).map(|round| (round, number(round))).collect()
}

impl Place {
    fn of(
        experiment: &Experiment,
        criterion: &Criterion,
        panel: &Panel,
        rows: &BTreeMap<Key, Row>,
        place: usize,
    ) -> Option<Self> {
        let cell = &criterion.sizes[place];
        let spreads: Vec<_> = panel
            .seeds_of(cell)
            .map(|seed| rows.get(&cell.key(seed)).and_then(Row::spread))
            .collect::<Option<_>>()?;
        let count = spreads.len() as f64;
        let of = |measure: &Measure| {
            let view = View { measure: Some(*measure), ..panel.view() };
            experiment.estimate(rows, panel, criterion.series, place, view)
        };
        Some(Self {
            label: match &panel.axis {
                Axis::Values { labels, .. } => labels[place].clone(),
                Axis::Bins | Axis::Measures(_) => panel.place(place),
            },
            fitted: criterion.fitted.contains(&place),
            size_cv2: spreads.iter().map(|spread| spread.size_cv2).sum::<f64>() / count,
            receivers: spreads.iter().map(|spread| spread.receivers).sum::<f64>() / count,
            speedups: criterion.measures.iter().map(of).collect::<Option<_>>()?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_law_that_points_obey_is_found_and_says_where_nothing_is_gained() {
        let law = Law([0.7, -0.5, -0.2]);
        let points = [(0.0, 1.0), (1.0, 3.0), (8.0, 2.0), (30.0, 10.0)].map(|(size_cv2, receivers)| {
            (Law::terms(size_cv2, receivers), libm::log(law.speedup(size_cv2, receivers)))
        });
        let found = Law::fit(&points).unwrap();
        assert!(found.0.iter().zip(law.0).all(|(a, b)| (a - b).abs() < 1e-9), "{found:?}");
        let border = found.border(1.0).unwrap();
        assert!((found.speedup(border, 1.0) - 1.0).abs() < 1e-9);
        assert_eq!(Law([-0.1, -0.5, 0.0]).border(1.0), None, "behind from the start");
    }

    #[test]
    fn points_that_determine_no_law_give_none() {
        let same = [(Law::terms(2.0, 1.0), 0.5); 6];
        assert_eq!(Law::fit(&same), None);
    }

    #[test]
    fn a_score_counts_sides_only_where_the_interval_excludes_one() {
        let mut score = Score::default();
        let estimate =
            |value: f64, half: f64| Estimate { value, low: value - half, high: value + half, seeds: 10 };
        score.add(2.0, &estimate(1.0, 0.1));
        score.add(0.5, &estimate(1.0, 0.1));
        score.add(0.9, &estimate(1.5, 0.1));
        score.add(1.2, &estimate(1.5, 0.1));
        assert_eq!((score.places, score.sides, score.right), (4, 2, 1));
        let mut even = Score::default();
        even.add(2.0, &estimate(1.0, 0.1));
        even.add(0.5, &estimate(1.0, 0.1));
        assert!((even.error() - 2.0).abs() < 1e-12);
    }
}
