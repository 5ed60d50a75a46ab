//! Shuffles of jobs from a SWIM file: a day of a Facebook cluster, of which submission times and
//! bytes are known and nothing of where they were sent.
//!
//! A line has a job's name, when it was submitted, the gap since the last one (both in seconds),
//! and its bytes of input, shuffle and output (<https://github.com/SWIMProjectUCB/SWIM>). What is
//! missing is made up, always in the same way:
//!
//! - A mapper for each 128 MiB of input, a reducer for each 256 MiB of shuffle, at least one, at
//!   most one a port; ports at random.
//! - The bytes of reducers are spread by a log-normal law of σ = 0.5, and those of a reducer evenly
//!   over the mappers.
//! - Jobs without a shuffle are left out. The seed says at which of the others the trace begins;
//!   times are scaled so that all ports together are used to the load asked for.

use cavalcade_model::{BitsPerSec, Bytes, Flow, Instant, Nanos, Workload, WorkloadBuilder, WorkloadError};

use super::random::{Purpose, Random};

/// Parameters that a SWIM file leaves open.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Swim {
    /// Number of ports of the fabric.
    pub ports: u32,
    /// Number of jobs taken.
    pub jobs: usize,
    /// The bytes of all jobs over what all ports can send from the first arrival to the last.
    pub load: f64,
    /// Rate of a port.
    pub rate: BitsPerSec,
}

/// Reason that there is no workload.
#[derive(Debug, thiserror::Error)]
pub enum SwimError {
    /// A line that is not one of SWIM's.
    #[error(
        "line {line}: expected a job, two times and three numbers of bytes: give a file of SWIM as it is"
    )]
    Line {
        /// Its number, from one.
        line: usize,
    },
    /// Too few jobs.
    #[error("the file has {found} jobs with a shuffle, expected at least {wanted}: ask for fewer")]
    TooFew {
        /// Jobs with a shuffle.
        found: usize,
        /// Jobs asked for.
        wanted: usize,
    },
    /// The result is not a valid workload.
    #[error(transparent)]
    Workload(#[from] WorkloadError),
}

/// The bytes that each job of a SWIM file reads, those of jobs without input left out, none above
/// the percentile `cut`: the largest inputs of a day are ten thousand times the median, and one of
/// them would be the workload.
///
/// # Errors
/// If the text is none of SWIM's.
pub fn swim_inputs(text: &str, cut: f64) -> Result<Vec<u64>, SwimError> {
    let mut sizes: Vec<u64> = lines(text)?.iter().map(|job| job.input).filter(|&input| input > 0).collect();
    sizes.sort_unstable();
    let most = sizes.get(((sizes.len() as f64 * cut / 100.0) as usize).saturating_sub(1)).copied();
    let most = most.ok_or(SwimError::TooFew { found: 0, wanted: 1 })?;
    sizes.iter_mut().for_each(|size| *size = (*size).min(most));
    Ok(sizes)
}

struct Job {
    submitted: f64,
    input: u64,
    shuffle: u64,
}

impl Swim {
    /// Makes a workload of a file's jobs. The same seed gives the same workload on every machine.
    ///
    /// # Errors
    /// If the text is none of SWIM's or has too few jobs.
    pub fn workload(&self, text: &str, seed: u64) -> Result<Workload, SwimError> {
        let jobs = jobs(text)?;
        if jobs.len() < self.jobs.max(2) {
            return Err(SwimError::TooFew { found: jobs.len(), wanted: self.jobs.max(2) });
        }
        let mut places = Random::new(seed, Purpose::Places);
        let mut sizes = Random::new(seed, Purpose::Sizes);
        let start = places.below((jobs.len() - self.jobs + 1) as u64) as usize;
        let jobs = &jobs[start..][..self.jobs];
        let bytes: f64 = jobs.iter().map(|job| job.shuffle as f64).sum();
        let lasting = bytes / (f64::from(self.ports) * self.rate.bytes_per_nano() * self.load);
        let span = (jobs[self.jobs - 1].submitted - jobs[0].submitted).max(1.0);
        let mut builder = WorkloadBuilder::new(self.ports);
        for (number, job) in jobs.iter().enumerate() {
            let arrival = Instant(((job.submitted - jobs[0].submitted) / span * lasting) as u64);
            builder.coflow(
                format!("{}", start + number + 1),
                arrival,
                self.flows(job, &mut places, &mut sizes),
            );
        }
        Ok(builder.build()?)
    }

    fn flows(&self, job: &Job, places: &mut Random, sizes: &mut Random) -> Vec<Flow> {
        let tasks = |bytes: u64, each: u64| bytes.div_ceil(each).clamp(1, self.ports.into()) as u32;
        let mappers = places.ports(tasks(job.input, 128 << 20), self.ports);
        let reducers = places.ports(tasks(job.shuffle, 256 << 20), self.ports);
        let weights: Vec<f64> = reducers.iter().map(|_| libm::exp(0.5 * sizes.normal())).collect();
        let all: f64 = weights.iter().sum();
        let mut flows = Vec::with_capacity(mappers.len() * reducers.len());
        for (&dst, weight) in reducers.iter().zip(weights) {
            let each = (job.shuffle as f64 * (weight / all) / mappers.len() as f64) as u64;
            let flow = |&src| Flow { src, dst, size: Bytes(each.max(1)), wave: Nanos::ZERO };
            flows.extend(mappers.iter().map(flow));
        }
        flows
    }
}

/// The jobs that have a shuffle, in the order of the file, which is that of submission.
fn jobs(text: &str) -> Result<Vec<Job>, SwimError> {
    Ok(lines(text)?.into_iter().filter(|job| job.shuffle > 0).collect())
}

/// All jobs.
fn lines(text: &str) -> Result<Vec<Job>, SwimError> {
    let mut jobs: Vec<Job> = Vec::new();
    for (index, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
        let fault = SwimError::Line { line: index + 1 };
        let fields: Vec<&str> = line.split_whitespace().collect();
        let (Some(submitted), Some(input), Some(shuffle), 6) = (
            fields.get(1).and_then(|text| text.parse::<f64>().ok()).filter(|time| (0.0..1e9).contains(time)),
            fields.get(3).and_then(|text| text.parse::<u64>().ok()),
            fields.get(4).and_then(|text| text.parse::<u64>().ok()),
            fields.len(),
        ) else {
            return Err(fault);
        };
        let earliest = jobs.last().map_or(0.0, |last| last.submitted);
        jobs.push(Job { submitted: submitted.max(earliest), input, shuffle });
    }
    Ok(jobs)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "job0\t5\t5\t300000000\t600000000\t1\n\
                        job1\t7\t2\t1\t0\t1\n\
                        job2\t9\t2\t1\t40\t1\n";
    const SWIM: Swim = Swim { ports: 8, jobs: 2, load: 0.5, rate: BitsPerSec(8_000_000_000) };

    #[test]
    fn shuffles_become_coflows_and_times_are_scaled_to_the_load() {
        let made = SWIM.workload(TEXT, 1).unwrap();
        let widths: Vec<usize> = made.coflows().map(|coflow| coflow.width()).collect();
        assert_eq!(widths, [3 * 3, 1]);
        // 600,000,040 bytes over 8 bytes a nanosecond, at half load.
        assert_eq!(made.tasks()[1].arrival.0 / 1000, 150_000);
        assert_eq!(made, SWIM.workload(TEXT, 1).unwrap());
        assert_ne!(made, SWIM.workload(TEXT, 2).unwrap());
    }

    #[test]
    fn inputs_are_those_of_jobs_that_read_and_the_largest_are_cut() {
        let text = "a 1 1 100 0 0\nb 2 1 0 5 0\nc 3 1 7 0 0\nd 4 1 9 1 1\ne 5 1 8 1 1\n";
        assert_eq!(swim_inputs(text, 75.0).unwrap(), [7, 8, 9, 9]);
        assert_eq!(swim_inputs(text, 100.0).unwrap(), [7, 8, 9, 100]);
        assert!(swim_inputs("", 99.0).is_err());
    }

    #[test]
    fn what_is_none_of_swims_is_refused_by_line() {
        let fault = SWIM.workload("job0 1 1 2 3 4\njob1 x 1 2 3 4\n", 1).unwrap_err();
        assert!(matches!(fault, SwimError::Line { line: 2 }));
        assert!(matches!(SWIM.workload("", 1), Err(SwimError::TooFew { found: 0, wanted: 2 })));
    }
}
