//! What an imported log recorded, and the rate of the network on which it was recorded.

use cavalcade::{Scenario, map};
use cavalcade_metrics::{
    Comparison, ENDLESS, ImportNote, RateChoice, RecordedQuery, RecordedShuffle, Recording, Savings,
    calibrate, task_completion_times,
};
use cavalcade_model::{BitsPerSec, Nanos, Workload};
use cavalcade_trace::Reading;

use crate::arguments::Conditions;
use crate::failure::Failure;

/// The policy under which applications run today.
const RECORDED_UNDER: &str = "fair";

/// A record to hold a comparison against.
pub(crate) struct OnRecord {
    recording: Recording,
    /// The times of all tasks on a network that is never short.
    endless: Vec<Nanos>,
    rate: RateChoice,
}

impl OnRecord {
    /// What `reading` recorded, at the rate that `conditions` ask for, or at the one that fits the recorded times; `None`
    /// where it recorded nothing.
    ///
    /// # Errors
    /// Where a simulation cannot be made under these conditions.
    pub(crate) fn of(reading: &Reading, conditions: &Conditions) -> Result<Option<Self>, Failure> {
        if reading.queries.is_empty() {
            return Ok(None);
        }
        let recording = recording(reading);
        let simulate = |rates: &[BitsPerSec]| -> Result<Vec<Vec<Nanos>>, Failure> {
            map(rates.len(), |index| times(&reading.workload, conditions, rates[index])).into_iter().collect()
        };
        let endless = simulate(&[ENDLESS])?.remove(0);
        let took: Vec<Nanos> = recording.queries.iter().map(|query| query.took).collect();
        let rate = match conditions.rate {
            Some(rate) => RateChoice::Asked(rate),
            // A log without any time in it tells nothing.
            None if took.iter().all(|time| *time == Nanos::ZERO) => RateChoice::Asked(conditions.rate()),
            None => RateChoice::Calibrated(calibrate(&took, simulate)?),
        };
        Ok(Some(Self { recording, endless, rate }))
    }

    /// The rate to compare at.
    pub(crate) fn rate(&self) -> BitsPerSec {
        self.rate.rate()
    }

    /// Adds what policies would have saved to a comparison.
    pub(crate) fn add_to(self, comparison: &mut Comparison) {
        let savings = Savings::of(comparison, self.recording, &self.endless, self.rate);
        comparison.savings = Some(savings);
    }
}

fn recording(reading: &Reading) -> Recording {
    let query = |query: &cavalcade_trace::spark::Query| RecordedQuery {
        name: query.name.clone(),
        arrival: query.arrival,
        took: query.took,
    };
    let shuffle = |shuffle: &cavalcade_trace::spark::Shuffle| {
        let task = reading.workload.place(shuffle.coflow).task;
        let name = &reading.workload.task(task).name;
        let name = format!("{name}, stage {} to {}", shuffle.map_stage, shuffle.reduce_stage);
        RecordedShuffle { coflow: shuffle.coflow.index(), name }
    };
    let note = |note: &cavalcade_trace::Note| ImportNote {
        certainty: note.certainty.to_string(),
        text: note.text.clone(),
    };
    Recording {
        queries: reading.queries.iter().map(query).collect(),
        shuffles: reading.shuffles.iter().map(shuffle).collect(),
        notes: reading.notes.iter().map(note).collect(),
    }
}

/// The times of all tasks at a rate.
fn times(workload: &Workload, conditions: &Conditions, rate: BitsPerSec) -> Result<Vec<Nanos>, Failure> {
    let conditions = Conditions { rate: Some(rate), ..conditions.clone() };
    let scenario = Scenario::new(workload.clone(), conditions.of_run()?)?.under(RECORDED_UNDER)?;
    let outcome = scenario.run()?;
    Ok(task_completion_times(&scenario.workload, &outcome))
}
