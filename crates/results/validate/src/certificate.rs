//! Whether a bound on all schedules follows from what its certificate says.
//!
//! A certificate holds a claim and hints: a link, prices, cases. [`check`] takes every fact (sizes,
//! times, capacities) from the workload and the fabric, applies the hints, and works out what they
//! prove; a false hint proves little or nothing, never something false. No code is shared with the
//! solver that writes certificates, and nothing here searches or uses floating point, so it is
//! short enough to be read with pencil in hand.
//!
//! # What is proven how
//! All proofs speak of jobs, coflows or whole tasks: a release, a floor (the earliest time at which
//! the job could be done if it were alone), and busy times of links, rounded down to nanoseconds.
//! See `jobs`.
//!
//! - `isolation`: every job takes at least from its release to its floor.
//! - `single-link`: no order of service on one link gives a smaller sum. See `single_link`.
//! - `counts`: at each time some link cannot have done as many of its jobs as would be done if each
//!   were alone. See `counts`.
//! - `primal-dual`: parallel inequalities with prices that overcharge no job. See `primal_dual`.
//! - `parallel`: the same inequalities for any sets, with releases and floors. See `parallel`.
//! - `completions`: by each time at most so much can be done, hence at least so much is still
//!   waiting. See `cases`.
//! - deadlines: among jobs that should all be done in time, at least so much must be given up. See
//!   `cases`.
//!
//! # Cost
//! Linear in the certificate's rows times the loads of the links that they name.

mod cases;
mod counts;
mod error;
mod format;
mod jobs;
mod parallel;
mod primal_dual;
mod single_link;

pub use error::CertificateError;
pub use format::{Because, Certificate, Claim, Objective, PricedSet, Proof, Step};

use cavalcade_model::{Fabric, Workload};

use crate::certificate::cases::Cases;
use crate::certificate::jobs::Jobs;

/// The figures that a certificate proves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verified {
    /// The sum of weight times completion time is at least this in every schedule.
    Sum {
        /// The sum, in nanoseconds.
        nanos: u128,
        /// The sum of the weights, to divide by for a mean.
        weight: u64,
    },
    /// No schedule lets more weight meet its deadlines.
    Deadlines {
        /// The weight.
        at_most: u64,
        /// The weight of all tasks with a deadline.
        of: u64,
    },
}

/// Derives what `certificate` proves for `workload` on `fabric`, and holds it against what it
/// claims.
///
/// # Errors
/// If it names what there is not, breaks a rule of its proof, or proves less than it claims.
pub fn check(
    workload: &Workload,
    fabric: &Fabric,
    certificate: &Certificate,
) -> Result<Verified, CertificateError> {
    if fabric.ports() < workload.ports() {
        return Err(CertificateError::Ports { fabric: fabric.ports(), workload: workload.ports() });
    }
    let jobs = Jobs::new(workload, fabric, certificate);
    match &certificate.claim {
        Claim::Sum { nanos, proof } => {
            let claimed: u128 =
                nanos.parse().map_err(|_| CertificateError::NotANumber { text: nanos.clone() })?;
            let proven = sum(&jobs, proof)?;
            if proven < claimed {
                return Err(CertificateError::LessThanClaimed { claimed, proven });
            }
            Ok(Verified::Sum { nanos: proven, weight: jobs.weight() })
        }
        Claim::Deadlines { at_most, because } => {
            if certificate.objective != Objective::Tasks {
                return Err(CertificateError::DeadlinesOfCoflows);
            }
            let due = jobs.all.iter().map(|job| job.due.filter(|&due| job.floor <= due)).collect();
            let mut cases = Cases::new(&jobs, due);
            let proven = cases.in_play() - cases.dropped(because.as_ref())?;
            if proven > *at_most {
                return Err(CertificateError::MoreThanClaimed { at_most: *at_most, proven, by_ns: None });
            }
            let of = jobs.all.iter().filter(|job| job.due.is_some()).map(|job| job.weight).sum();
            Ok(Verified::Deadlines { at_most: proven, of })
        }
    }
}

fn sum(jobs: &Jobs, proof: &Proof) -> Result<u128, CertificateError> {
    match proof {
        Proof::Isolation => Ok(jobs.alone(|_| true)),
        Proof::SingleLink { link } => single_link::sum(jobs, *link),
        Proof::Counts { links } => counts::sum(jobs, links),
        Proof::PrimalDual { prices } => primal_dual::sum(jobs, prices),
        Proof::Parallel { sets } => parallel::sum(jobs, sets),
        Proof::Completions { steps } => waiting(jobs, steps),
    }
}

/// The weight that is still waiting, added up over time to the last step.
///
/// All times and amounts are whole nanoseconds, so what cannot be done by a step's time cannot be
/// done within the nanosecond that follows either.
fn waiting(jobs: &Jobs, steps: &[Step]) -> Result<u128, CertificateError> {
    let (mut from, mut done) = (0u128, 0u128);
    for (index, step) in steps.iter().enumerate() {
        let next = u128::from(step.by_ns) + 1;
        if next <= from {
            let before_ns = steps[index - 1].by_ns;
            return Err(CertificateError::StepsOutOfOrder { step: index, by_ns: step.by_ns, before_ns });
        }
        let due = jobs.all.iter().map(|job| (job.floor <= step.by_ns).then_some(step.by_ns)).collect();
        let mut cases = Cases::new(jobs, due);
        let proven = cases.in_play() - cases.dropped(step.because.as_ref())?;
        if proven > step.at_most {
            let (at_most, by_ns) = (step.at_most, Some(step.by_ns));
            return Err(CertificateError::MoreThanClaimed { at_most, proven, by_ns });
        }
        done += (next - from) * u128::from(proven);
        from = next;
    }
    let here = |release: u64| from.saturating_sub(u128::from(release));
    let arrived: u128 = jobs.all.iter().map(|job| u128::from(job.weight) * here(job.release)).sum();
    Ok(arrived.saturating_sub(done))
}
