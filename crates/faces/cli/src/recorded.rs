//! What an imported log recorded, and the rate of the network on which it was recorded.

use std::sync::Arc;

use cavalcade::{Progress, Scenario, Watch, map};
use cavalcade_metrics::{
    Calibration, Comparison, ENDLESS, Elsewhere, ImportNote, RateChoice, RecordedApplication, RecordedQuery,
    RecordedSetup, Recording, Savings, USUAL, calibrate, task_completion_times,
};
use cavalcade_model::{BitsPerSec, Nanos, Workload};
use cavalcade_trace::Reading;
use cavalcade_trace::spark::{Setup, Started};

use crate::arguments::Conditions;
use crate::failure::Failure;
use crate::output::tell;
use crate::progress::watched;

/// The policy under which applications run today.
const RECORDED_UNDER: &str = "fair";

/// A record to hold a comparison against.
pub(crate) struct OnRecord {
    recording: Recording,
    /// The times of all tasks on other networks.
    elsewhere: Elsewhere,
    rate: RateChoice,
}

impl OnRecord {
    /// Returns the times that `reading` recorded, at the rate that `conditions` ask for, or at the
    /// one that fits the recorded times; `None` where it recorded nothing.
    ///
    /// # Errors
    /// If a simulation cannot be made under these conditions.
    pub(crate) fn of(reading: &Reading, conditions: &Conditions) -> Result<Option<Self>, Failure> {
        if reading.queries.is_empty() {
            return Ok(None);
        }
        let recording = recording(reading);
        let rate = rate(reading, conditions)?;
        let is_floor = matches!(
            rate,
            RateChoice::Calibrated(Calibration { fastest: None, slowest, .. }) if slowest < USUAL
        );
        let rates = if is_floor { &[ENDLESS, USUAL][..] } else { &[ENDLESS][..] };
        let mut times = simulated(reading, conditions, rates, &Progress::default())?.into_iter();
        let endless = times.next().expect("a result for each rate");
        Ok(Some(Self { recording, elsewhere: Elsewhere { endless, usual: times.next() }, rate }))
    }

    /// The rate to compare at.
    pub(crate) fn rate(&self) -> BitsPerSec {
        self.rate.rate()
    }

    /// Adds what policies would have saved to a comparison.
    ///
    /// # Errors
    /// If it is of other tasks than those recorded.
    pub(crate) fn add_to(self, comparison: &mut Comparison) -> Result<(), Failure> {
        let savings = Savings::of(comparison, self.recording, &self.elsewhere, self.rate);
        comparison.savings = Some(savings.map_err(cavalcade::Error::from)?);
        Ok(())
    }
}

/// The most rates that a search for the one that fits simulates, for its progress.
const TRIED: usize = 64;

/// The rate that `conditions` ask for, or the one at which simulated times fit the recorded ones.
///
/// # Errors
/// If a simulation cannot be made under these conditions, or the log has no time to fit.
fn rate(reading: &Reading, conditions: &Conditions) -> Result<RateChoice, Failure> {
    if let Some(rate) = conditions.rate {
        return Ok(RateChoice::Asked(rate));
    }
    let took: Vec<Nanos> = reading.queries.iter().map(|query| query.took).collect();
    let found = watched(TRIED * reading.workload.coflow_count(), |progress| {
        calibrate(&took, |rates| simulated(reading, conditions, rates, progress))
    })?;
    found.map(RateChoice::Calibrated).ok_or_else(|| {
        let problem = "the log records no times, so the rate of its network cannot be inferred from them";
        Failure::usage(problem).help("give the rate of its hosts' links, as --rate 10Gbps")
    })
}

/// The conditions with the rate at which an imported log is to be simulated, which is told; as they
/// are for any other trace.
///
/// # Errors
/// Those of a search for that rate.
pub(crate) fn at_recorded_rate(reading: &Reading, conditions: &Conditions) -> Result<Conditions, Failure> {
    if reading.queries.is_empty() || conditions.rate.is_some() {
        return Ok(conditions.clone());
    }
    let choice = rate(reading, conditions)?;
    tell(&cavalcade_report::rate_chosen(&choice));
    Ok(Conditions { rate: Some(choice.rate()), ..conditions.clone() })
}

fn recording(reading: &Reading) -> Recording {
    let query = |query: &cavalcade_trace::spark::Query| RecordedQuery {
        name: query.name.clone(),
        arrival: query.arrival,
        took: query.took,
    };
    let note = |note: &cavalcade_trace::Note| ImportNote {
        certainty: note.certainty.to_string(),
        text: note.text.clone(),
    };
    Recording {
        queries: reading.queries.iter().map(query).collect(),
        setup: reading.setup.as_ref().map(setup),
        notes: reading.notes.iter().map(note).collect(),
    }
}

/// What a log says of its cluster.
pub(crate) fn setup(setup: &Setup) -> RecordedSetup {
    let application = |started: &Started| RecordedApplication {
        name: started.name.clone(),
        id: started.id.clone(),
        version: started.spark_version.as_ref().map(|version| format!("Spark {version}")),
        started: started.at,
    };
    RecordedSetup {
        applications: setup.applications.iter().map(application).collect(),
        hosts: setup.hosts,
        executors: setup.executors,
        cores: setup.cores,
        ran: setup.ran,
        waited: setup.waited,
    }
}

/// The times of all tasks at each of `rates`.
fn simulated(
    reading: &Reading,
    conditions: &Conditions,
    rates: &[BitsPerSec],
    progress: &Progress,
) -> Result<Vec<Vec<Nanos>>, Failure> {
    let workload = Arc::new(reading.workload.clone());
    let times = |index: usize| times(&workload, conditions, rates[index], progress);
    map(rates.len(), times).into_iter().collect()
}

/// The times of all tasks at a rate.
fn times(
    workload: &Arc<Workload>,
    conditions: &Conditions,
    rate: BitsPerSec,
    progress: &Progress,
) -> Result<Vec<Nanos>, Failure> {
    let conditions = Conditions { rate: Some(rate), ..conditions.clone() };
    let scenario = Scenario::new(Arc::clone(workload), conditions.of_run()?)?.under(RECORDED_UNDER)?;
    let outcome = scenario.run_with(Watch { progress: Some(progress), ..Watch::default() })?;
    Ok(task_completion_times(scenario.workload(), &outcome))
}
