//! Prices of links for sets of jobs, whenever these are released.
//!
//! On one link every set `S` obeys `Σ_S p·C ≥ r·Σ_S p + ½·(Σ_S p² + (Σ_S p)²)`, with `r` the
//! earliest release in it. Prices that never charge a job more than its weight bound `Σ w·C` by the
//! right sides times the prices, and what they leave of a weight counts for the job's floor.

use std::collections::BTreeSet;

use crate::certificate::jobs::Jobs;
use crate::certificate::primal_dual::scaled;
use crate::certificate::single_link::pieces;
use crate::certificate::{CertificateError, PricedSet};

pub(crate) fn sum(jobs: &Jobs, sets: &[PricedSet]) -> Result<u128, CertificateError> {
    let mut left: Vec<u128> = jobs.all.iter().map(|job| u128::from(job.weight) << 64).collect();
    let mut sum = 0u128;
    for set in sets {
        let price: u128 =
            set.price.parse().map_err(|_| CertificateError::NotANumber { text: set.price.clone() })?;
        let on_link = pieces(jobs, set.link)?;
        let members: BTreeSet<u32> = set.jobs.iter().copied().collect();
        let (mut first, mut total, mut squares) = (u64::MAX, 0u128, 0u128);
        for &job in &members {
            // Who does not use the link adds nothing to either side.
            let Some(piece) = on_link.get(&(job as usize)) else { continue };
            let busy = u128::from(piece.busy);
            first = first.min(piece.release);
            total += busy;
            squares = squares.checked_add(busy * busy).ok_or(CertificateError::TooLarge)?;
            let left = &mut left[job as usize];
            let charge = price.checked_mul(busy).ok_or(CertificateError::TooLarge)?;
            *left = left.checked_sub(charge).ok_or(CertificateError::Overcharged { job: job as usize })?;
        }
        if total == 0 {
            continue;
        }
        let twice = total.checked_mul(total).and_then(|area| area.checked_add(squares));
        let twice = twice.and_then(|area| area.checked_add(u128::from(first).checked_mul(2 * total)?));
        let part = scaled(price, twice.ok_or(CertificateError::TooLarge)? / 2);
        sum = part.and_then(|part| sum.checked_add(part)).ok_or(CertificateError::TooLarge)?;
    }
    let mut released = 0u128;
    for (job, left) in jobs.all.iter().zip(left) {
        let part = scaled(left, u128::from(job.floor));
        sum = part.and_then(|part| sum.checked_add(part)).ok_or(CertificateError::TooLarge)?;
        released += u128::from(job.weight) * u128::from(job.release);
    }
    Ok(sum.saturating_sub(released))
}
