//! What policies would have saved in an application that ran for real and whose log was imported.
//!
//! The log records how long each query took. So a simulation of it can be held against the record
//! before anything is concluded from it, and the one thing that the log does not say, the rate of
//! the network, can be looked for: it is the rate at which fair sharing (TCP, under which the
//! application ran) gives the recorded times.
//!
//! Often it cannot be found. Where an application computes more than it transfers, every fast
//! enough network gives the same times, and all of them fit. [`calibrate`] therefore gives the
//! range of rates that fit, and savings are computed at the slowest of them: they are then upper
//! bounds. How far any saving could go is known without asking a policy: the time of the query on a
//! network that is never short.
//!
//! Such a rate is a floor that nobody has, so what could be saved at the usual rate of a cluster
//! ([`USUAL`]) stands beside it.
//!
//! The answer names one policy: the one that saves most in all, of those that are not told sizes,
//! since that is what can be deployed. The best of each query would be many policies, which no
//! network runs side by side.
//!
//! The fit is the sum of absolute differences over the sum of recorded times (not squares: one
//! query whose computation the log describes badly should not decide). Two rounds of a grid rather
//! than a bisection, since rounds run in parallel and times need not fall with the rate at every
//! point.

use cavalcade_model::{BitsPerSec, Instant, Nanos};

use crate::comparison::{AnalysisError, Comparison};

/// A fit this much worse than the best is as good, as a share of the recorded time.
const TOLERANCE: f64 = 0.02;

/// Below this share of a query's time the network is not what the query waits for.
const NOTICEABLE: f64 = 0.01;

/// A rate at which no network is short.
pub const ENDLESS: BitsPerSec = BitsPerSec(1_000_000_000_000);

/// The rate that most hosts of clusters have or exceed: what is said where a log tells only the
/// slowest rate that fits.
pub const USUAL: BitsPerSec = BitsPerSec(10_000_000_000);

const SLOWEST: f64 = 1e7;
/// Points of the coarse grid to a decade, and points of the fine one between two of the coarse.
const COARSE: i32 = 3;
const FINE: i32 = 16;

/// The record in a log, and the notes of its reader.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Recording {
    /// For each task of the workload, in order.
    pub queries: Vec<RecordedQuery>,
    /// The cluster that it was recorded on.
    pub setup: Option<RecordedSetup>,
    /// The notes of the importer.
    pub notes: Vec<ImportNote>,
}

/// A query or job as it ran.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordedQuery {
    /// Its name.
    pub name: String,
    /// Its beginning.
    pub arrival: Instant,
    /// Its duration.
    pub took: Nanos,
}

/// The cluster that logs were written on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordedSetup {
    /// The applications, in the order of their logs.
    pub applications: Vec<RecordedApplication>,
    /// The number of hosts on which tasks ran.
    pub hosts: usize,
    /// The most executors at a time.
    pub executors: usize,
    /// The most cores at a time, where that was recorded.
    pub cores: Option<u64>,
    /// The time that tasks ran, times the cores that each held.
    pub ran: Nanos,
    /// The part of it in which they waited for blocks from elsewhere.
    pub waited: Nanos,
}

/// An application as it introduced itself.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct RecordedApplication {
    /// Its name.
    pub name: Option<String>,
    /// The id that the cluster gave it.
    pub id: Option<String>,
    /// The version of the program that ran it.
    pub version: Option<String>,
    /// Its start, since 1970.
    pub started: Option<Instant>,
}

/// A note of an importer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ImportNote {
    /// `exact`, `estimated` or `left out`.
    pub certainty: String,
    /// The note itself.
    pub text: String,
}

/// The rate of a comparison and the way it was chosen.
#[derive(Clone, Debug, PartialEq)]
pub enum RateChoice {
    /// It was asked for.
    Asked(BitsPerSec),
    /// It was inferred from the recorded times.
    Calibrated(Calibration),
}

impl RateChoice {
    /// The rate itself.
    pub fn rate(&self) -> BitsPerSec {
        match self {
            Self::Asked(rate) => *rate,
            Self::Calibrated(calibration) => calibration.rate(),
        }
    }
}

/// The rates at which simulated times fit recorded ones.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Calibration {
    /// The rate that fits best.
    pub best: BitsPerSec,
    /// The error of simulated times there, as a share of the recorded time.
    pub error: f64,
    /// The slowest rate that fits about as well.
    pub slowest: BitsPerSec,
    /// The fastest one; `None` where every faster network fits as well.
    pub fastest: Option<BitsPerSec>,
}

impl Calibration {
    /// The rate for a comparison: the best, or where there is no limit upward the slowest, so that
    /// savings are upper bounds.
    pub fn rate(&self) -> BitsPerSec {
        if self.fastest.is_some() { self.best } else { self.slowest }
    }
}

/// Looks for the rate at which `simulate` gives the times `recorded`. `simulate` is given several
/// rates at a time and returns for each of them the time of each query. Returns `None` where no
/// time was recorded.
///
/// # Errors
/// Those of `simulate`.
pub fn calibrate<E>(
    recorded: &[Nanos],
    mut simulate: impl FnMut(&[BitsPerSec]) -> Result<Vec<Vec<Nanos>>, E>,
) -> Result<Option<Calibration>, E> {
    let whole: f64 = recorded.iter().map(|time| time.as_f64()).sum();
    if whole == 0.0 {
        return Ok(None);
    }
    let mut errors = |rates: Vec<BitsPerSec>| -> Result<Vec<(BitsPerSec, f64)>, E> {
        let error = |times: &Vec<Nanos>| {
            let off = times.iter().zip(recorded).map(|(time, real)| (time.as_f64() - real.as_f64()).abs());
            off.sum::<f64>() / whole
        };
        let simulated = simulate(&rates)?;
        Ok(rates.into_iter().zip(simulated.iter().map(error)).collect())
    };
    let decades = libm::log10(ENDLESS.as_f64() / SLOWEST).round() as i32;
    let step = |points: i32, index: i32| libm::pow(10.0, f64::from(index) / f64::from(points));
    let coarse = (0..=decades * COARSE).map(|index| rounded(SLOWEST * step(COARSE, index)));
    let mut tried = errors(coarse.collect())?;
    let fits = fitting(&tried);
    // Between the ends of what fits and their neighbours that do not, and around the best.
    let ends =
        [fits.first.checked_sub(1), Some(fits.best.saturating_sub(1)), Some(fits.best), Some(fits.last)];
    let mut fine: Vec<BitsPerSec> = Vec::new();
    for index in ends.into_iter().flatten().filter(|index| index + 1 < tried.len()) {
        let from = tried[index].0.as_f64();
        fine.extend((1..FINE).map(|point| rounded(from * step(COARSE * FINE, point))));
    }
    fine.sort_unstable();
    fine.dedup();
    fine.retain(|rate| tried.iter().all(|(known, _)| known != rate));
    tried.extend(errors(fine)?);
    tried.sort_by_key(|&(rate, _)| rate);
    let fits = fitting(&tried);
    Ok(Some(Calibration {
        best: tried[fits.best].0,
        error: tried[fits.best].1,
        slowest: tried[fits.first].0,
        fastest: (fits.last + 1 < tried.len()).then(|| tried[fits.last].0),
    }))
}

/// Two digits, so that a rate can be read and given back.
fn rounded(rate: f64) -> BitsPerSec {
    let unit = libm::pow(10.0, libm::floor(libm::log10(rate)) - 1.0).round().max(1.0);
    BitsPerSec(((rate / unit).round() * unit) as u64)
}

/// Indices of the best of what was tried, and of the first and last around it that fit about as
/// well.
struct Fits {
    best: usize,
    first: usize,
    last: usize,
}

fn fitting(tried: &[(BitsPerSec, f64)]) -> Fits {
    let best = (0..tried.len()).min_by(|&a, &b| tried[a].1.total_cmp(&tried[b].1)).expect("rates were tried");
    let fits = |&index: &usize| tried[index].1 <= tried[best].1 + TOLERANCE;
    let first = (0..=best).rev().take_while(fits).last().unwrap_or(best);
    let last = (best..tried.len()).take_while(fits).last().unwrap_or(best);
    Fits { best, first, last }
}

/// Recorded and simulated times of an application and of each of its queries.
#[derive(Clone, Debug, PartialEq)]
pub struct Savings {
    /// The rate and the way it was chosen.
    pub rate: RateChoice,
    /// The application as a whole.
    pub application: QuerySavings,
    /// Its queries and jobs, in order.
    pub queries: Vec<QuerySavings>,
    /// All of them, their times added up, where they overlap or are of several applications.
    pub together: Option<QuerySavings>,
    /// True if no two of them ran at the same time, so that what each saves adds up.
    pub is_sequential: bool,
    /// What could be saved at [`USUAL`], where the rate is a floor below that.
    pub usual: Option<AtUsual>,
    /// The cluster that it was recorded on.
    pub setup: Option<RecordedSetup>,
    /// The notes of the importer.
    pub notes: Vec<ImportNote>,
}

/// The times that the answer is about, at the usual rate of a cluster.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AtUsual {
    /// The simulated time under fair sharing.
    pub simulated_s: f64,
    /// The most that any policy could save.
    pub most_s: f64,
}

/// Simulated times of all tasks on other networks than that of a comparison.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Elsewhere {
    /// On a network that is never short.
    pub endless: Vec<Nanos>,
    /// At [`USUAL`], where that was simulated.
    pub usual: Option<Vec<Nanos>>,
}

/// One query, or the application.
#[derive(Clone, Debug, PartialEq)]
pub struct QuerySavings {
    /// Its name.
    pub name: String,
    /// The recorded time.
    pub recorded_s: f64,
    /// The simulated time under the baseline.
    pub simulated_s: f64,
    /// The simulated time on a network that is never short: no policy can do better.
    pub endless_s: f64,
    /// True if it waits for the network. Not where the rate could not be told: an endless network
    /// fits the record then.
    pub waits_for_network: bool,
    /// For each run of the comparison: the seconds that it saves over the baseline; below zero
    /// where it costs some.
    pub saved_s: Vec<f64>,
}

impl QuerySavings {
    /// The most that any policy could save, in seconds.
    pub fn most_s(&self) -> f64 {
        (self.simulated_s - self.endless_s).max(0.0)
    }

    /// The run that saves most of those that `may` be chosen, where that is worth naming.
    pub fn best(&self, may: impl Fn(usize) -> bool) -> Option<usize> {
        let runs = (0..self.saved_s.len()).filter(|&run| may(run));
        // The first of equals.
        let best = runs.rev().max_by(|&a, &b| self.saved_s[a].total_cmp(&self.saved_s[b]))?;
        let is_worth = self.waits_for_network && self.saved_s[best] >= NOTICEABLE * self.simulated_s;
        is_worth.then_some(best)
    }
}

impl Savings {
    /// Holds `comparison` against what was recorded, and against the times of all tasks on other
    /// networks.
    ///
    /// # Errors
    /// If tasks, recorded queries and times elsewhere are not the same in number.
    pub fn of(
        comparison: &Comparison,
        recording: Recording,
        elsewhere: &Elsewhere,
        rate: RateChoice,
    ) -> Result<Self, AnalysisError> {
        let Recording { queries: recorded, setup, notes } = recording;
        let Elsewhere { endless, usual } = elsewhere;
        let baseline = comparison.baseline_run();
        let tasks = baseline.tct.len();
        let of_usual = usual.as_ref().map_or(tasks, Vec::len);
        if let Some(recorded) = [recorded.len(), endless.len(), of_usual].into_iter().find(|&n| n != tasks) {
            return Err(AnalysisError::OtherRecording { recorded, tasks });
        }
        let seconds = |time: Nanos| time.as_secs_f64();
        let queries: Vec<QuerySavings> = recorded
            .iter()
            .enumerate()
            .map(|(task, query)| QuerySavings {
                name: query.name.clone(),
                recorded_s: seconds(query.took),
                simulated_s: seconds(baseline.tct[task]),
                endless_s: seconds(endless[task]),
                waits_for_network: waits(seconds(baseline.tct[task]), seconds(endless[task]), &rate),
                saved_s: (comparison.runs.iter())
                    .map(|run| seconds(baseline.tct[task]) - seconds(run.tct[task]))
                    .collect(),
            })
            .collect();
        let is_sequential = recorded.windows(2).all(|pair| pair[0].arrival + pair[0].took <= pair[1].arrival);
        let application = application(comparison, &recorded, &queries, endless, is_sequential, &rate);
        let is_one_application = setup.as_ref().is_none_or(|setup| setup.applications.len() < 2);
        let together = (!is_sequential || !is_one_application).then(|| together(&queries, &rate));
        let mut savings =
            Self { rate, application, queries, together, is_sequential, usual: None, setup, notes };
        savings.usual = usual.as_ref().map(|usual| savings.at_usual(usual));
        Ok(savings)
    }

    /// The whole with queries that take `usual` each.
    fn at_usual(&self, usual: &[Nanos]) -> AtUsual {
        let queries = || self.queries.iter().zip(usual.iter().map(|time| time.as_secs_f64()));
        let whole = self.whole();
        AtUsual {
            simulated_s: whole.simulated_s
                - queries().map(|(query, usual)| query.simulated_s - usual).sum::<f64>(),
            most_s: queries().map(|(query, usual)| usual - query.endless_s).sum::<f64>().max(0.0),
        }
    }

    /// The run that saves most in all of those whose policy is told sizes, or is not, where that is
    /// worth naming.
    pub fn best(&self, comparison: &Comparison, told_sizes: bool) -> Option<usize> {
        self.whole().best(|run| comparison.runs[run].about.told() == Some(told_sizes))
    }

    /// Whether one application was recorded. The time from the first query of several to the last
    /// says nothing of any of them.
    pub fn is_one_application(&self) -> bool {
        self.setup.as_ref().is_none_or(|setup| setup.applications.len() < 2)
    }

    /// The share by which the simulated times of queries are off the recorded ones, each by itself;
    /// zero where none are recorded.
    pub fn error(&self) -> f64 {
        let recorded_s: f64 = self.queries.iter().map(|query| query.recorded_s).sum();
        let off_s: f64 = self.queries.iter().map(|query| (query.simulated_s - query.recorded_s).abs()).sum();
        if recorded_s > 0.0 { off_s / recorded_s } else { 0.0 }
    }

    /// The times that the answer is about: those of the application, or of all queries together
    /// where they overlap or are of several applications. An application of queries that overlap
    /// ends with its last one, whatever those before have saved.
    pub fn whole(&self) -> &QuerySavings {
        self.together.as_ref().unwrap_or(&self.application)
    }
}

/// Returns true if so much of the simulated time is spent waiting for the network that it can be
/// noticed.
fn waits(simulated_s: f64, endless_s: f64, rate: &RateChoice) -> bool {
    let is_known = !matches!(rate, RateChoice::Calibrated(Calibration { fastest: None, .. }));
    is_known && simulated_s > endless_s && simulated_s - endless_s >= NOTICEABLE * simulated_s
}

/// The times of all queries, added up.
fn together(queries: &[QuerySavings], rate: &RateChoice) -> QuerySavings {
    let sum = |of: &dyn Fn(&QuerySavings) -> f64| queries.iter().map(of).sum::<f64>();
    let (simulated_s, endless_s) = (sum(&|query| query.simulated_s), sum(&|query| query.endless_s));
    let runs = queries.first().map_or(0, |query| query.saved_s.len());
    QuerySavings {
        name: "all of them, added up".to_owned(),
        recorded_s: sum(&|query| query.recorded_s),
        simulated_s,
        endless_s,
        waits_for_network: waits(simulated_s, endless_s, rate),
        saved_s: (0..runs).map(|run| sum(&|query| query.saved_s[run])).collect(),
    }
}

/// The application from the beginning of its first query to the end of its last. Queries that
/// follow each other shift when an earlier one is done sooner, since the driver that submitted them
/// waited; for those that overlap the simulated ends count.
fn application(
    comparison: &Comparison,
    recorded: &[RecordedQuery],
    queries: &[QuerySavings],
    endless: &[Nanos],
    is_sequential: bool,
    rate: &RateChoice,
) -> QuerySavings {
    let begin = recorded.iter().map(|query| query.arrival).min().unwrap_or_default();
    let span_s = |times: &[Nanos]| {
        let ends = recorded.iter().zip(times).map(|(query, &time)| query.arrival + time);
        ends.max().unwrap_or(begin).since(begin).as_secs_f64()
    };
    let took: Vec<Nanos> = recorded.iter().map(|query| query.took).collect();
    let recorded_s = span_s(&took);
    let of = |sequential: &dyn Fn(&QuerySavings) -> f64, times: &[Nanos]| {
        if is_sequential {
            recorded_s + queries.iter().map(|query| sequential(query) - query.recorded_s).sum::<f64>()
        } else {
            span_s(times)
        }
    };
    let simulated_s = of(&|query| query.simulated_s, &comparison.baseline_run().tct);
    let saved = |(index, run): (usize, &crate::RunFigures)| {
        simulated_s - of(&|query| query.simulated_s - query.saved_s[index], &run.tct)
    };
    let endless_s = of(&|query| query.endless_s, endless);
    QuerySavings {
        name: "application".to_owned(),
        recorded_s,
        simulated_s,
        endless_s,
        waits_for_network: waits(simulated_s, endless_s, rate),
        saved_s: comparison.runs.iter().enumerate().map(saved).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::comparison::tests::comparison;

    /// A query that computes for so many seconds and moves so many bits.
    fn times(compute_s: f64, bits: f64) -> impl FnMut(&[BitsPerSec]) -> Result<Vec<Vec<Nanos>>, ()> {
        move |rates| {
            let time = |rate: &BitsPerSec| vec![Nanos(((compute_s + bits / rate.as_f64()) * 1e9) as u64)];
            Ok(rates.iter().map(time).collect())
        }
    }

    #[test]
    fn the_rate_of_a_query_that_waits_for_the_network_is_found() {
        let found = calibrate(&[Nanos::from_secs(30)], times(10.0, 60e9)).unwrap().unwrap();
        assert!((found.best.as_f64() / 3e9 - 1.0).abs() < 0.06, "{found:?}");
        assert!(found.error < 0.03 && found.slowest <= found.best, "{found:?}");
        assert!(found.fastest.is_some_and(|fastest| fastest < BitsPerSec(4_000_000_000)), "{found:?}");
        assert_eq!(found.rate(), found.best);
    }

    #[test]
    fn a_query_that_computes_does_not_tell_the_rate_and_gets_the_slowest_that_fits() {
        let found = calibrate(&[Nanos::from_secs(100)], times(100.0, 1e9)).unwrap().unwrap();
        assert_eq!(found.fastest, None);
        assert_eq!(found.rate(), found.slowest);
        // One second of a hundred more, and another within the tolerance.
        assert!(found.slowest < BitsPerSec(1_000_000_000), "{found:?}");
        let endless = times(100.0, 1e9)(&[found.slowest]).unwrap()[0][0].as_secs_f64();
        assert!(endless <= 102.1, "{found:?}");
    }

    #[test]
    fn a_record_that_no_network_explains_is_said_to_be_off() {
        let found = calibrate(&[Nanos::from_secs(50)], times(100.0, 1e9)).unwrap().unwrap();
        assert!(found.error > 0.9 && found.fastest.is_none(), "{found:?}");
    }

    fn recording(arrivals: [u64; 2], took: [u64; 2]) -> Recording {
        let query = |index: usize| RecordedQuery {
            name: format!("query{index}"),
            arrival: Instant(arrivals[index] * 1_000_000_000),
            took: Nanos::from_secs(took[index]),
        };
        Recording { queries: vec![query(0), query(1)], ..Recording::default() }
    }

    fn savings(arrivals: [u64; 2], took: [u64; 2]) -> Savings {
        let seconds = |times: [u64; 2]| times.map(Nanos::from_secs).to_vec();
        let elsewhere = Elsewhere { endless: seconds([1, 2]), usual: Some(seconds([3, 2])) };
        let rate = RateChoice::Asked(BitsPerSec(8));
        Savings::of(&comparison(), recording(arrivals, took), &elsewhere, rate).unwrap()
    }

    #[test]
    fn what_is_not_of_the_tasks_that_ran_is_refused() {
        let one = || vec![Nanos::from_secs(1)];
        let with = |queries: usize, endless: Vec<Nanos>, usual: Option<Vec<Nanos>>| {
            let mut recording = recording([0, 4], [4, 5]);
            recording.queries.truncate(queries);
            let rate = RateChoice::Asked(BitsPerSec(8));
            Savings::of(&comparison(), recording, &Elsewhere { endless, usual }, rate).map(|_| ())
        };
        let refused = Err(AnalysisError::OtherRecording { recorded: 1, tasks: 2 });
        assert_eq!(with(1, one().repeat(2), None), refused);
        assert_eq!(with(2, one(), None), refused);
        assert_eq!(with(2, one().repeat(2), Some(one())), refused);
        assert_eq!(with(2, one().repeat(2), None), Ok(()));
    }

    #[test]
    fn without_a_recorded_time_no_rate_is_found_and_nothing_is_simulated() {
        let never = |_: &[BitsPerSec]| -> Result<Vec<Vec<Nanos>>, ()> { Err(()) };
        assert_eq!(calibrate(&[], never), Ok(None));
        assert_eq!(calibrate(&[Nanos::ZERO], never), Ok(None));
    }

    #[test]
    fn what_queries_save_one_after_another_adds_up() {
        // Times under the baseline: 4 s and 5 s; under the other run: 6 s and 2 s.
        let saved = savings([0, 4], [4, 5]);
        assert!(saved.is_sequential);
        assert_eq!(saved.queries[0].saved_s, [0.0, -2.0]);
        assert_eq!(saved.queries[1].saved_s, [0.0, 3.0]);
        assert_eq!((saved.application.recorded_s, saved.application.simulated_s), (9.0, 9.0));
        assert_eq!(saved.application.saved_s, [0.0, 1.0]);
        assert_eq!(saved.application.most_s(), 6.0);
        // At the usual rate 3 s and 2 s, of which 2 s are the network's.
        assert_eq!(saved.usual, Some(AtUsual { simulated_s: 5.0, most_s: 2.0 }));
        assert_eq!(saved.queries[0].best(|_| true), None);
        assert_eq!(saved.queries[1].best(|_| true), Some(1));
    }

    #[test]
    fn where_queries_overlap_the_last_end_counts() {
        let saved = savings([0, 1], [4, 5]);
        assert!(!saved.is_sequential);
        assert_eq!((saved.application.recorded_s, saved.application.simulated_s), (6.0, 6.0));
        assert_eq!(saved.application.saved_s, [0.0, 0.0]);
        assert_eq!(saved.usual, Some(AtUsual { simulated_s: 5.0, most_s: 2.0 }));
        let sum = saved.queries.iter().map(|query| query.saved_s[1]).sum::<f64>();
        assert_eq!((saved.whole().name.as_str(), saved.whole().saved_s[1]), ("all of them, added up", sum));
    }
}
