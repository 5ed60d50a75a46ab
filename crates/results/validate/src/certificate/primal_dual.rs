//! Prices of links for sets of jobs, for jobs that are all released together.
//!
//! On one link every set `S` obeys `Σ_S p·C ≥ ½·(Σ_S p² + (Σ_S p)²)`. If the prices of all sets
//! that a job is in never charge it more than its weight, the right sides times the prices bound
//! `Σ w·C`. The sets are those of jobs not placed yet, while jobs are placed one by one from the
//! last place on.

use crate::certificate::CertificateError;
use crate::certificate::jobs::Jobs;

pub(crate) fn sum(jobs: &Jobs, prices: &[(u32, u32, String)]) -> Result<u128, CertificateError> {
    let count = jobs.all.len();
    let mut busy = vec![vec![0u64; 0]; jobs.on_link.len()];
    let mut idle = vec![true; count];
    let mut release = None;
    for (link, loads) in jobs.on_link.iter().enumerate() {
        busy[link] = vec![0; count];
        for &(_, job, nanos) in loads.iter().filter(|load| load.2 > 0) {
            busy[link][job] = busy[link][job].checked_add(nanos).ok_or(CertificateError::TooLarge)?;
            idle[job] = false;
            if *release.get_or_insert(jobs.all[job].release) != jobs.all[job].release {
                return Err(CertificateError::ReleasesDiffer { job });
            }
        }
    }
    let mut charged = vec![0u128; count];
    let mut placed = vec![false; count];
    let mut sum = jobs.alone(|job| idle[job]);
    for (link, last, price) in prices {
        let price: u128 = price.parse().map_err(|_| CertificateError::NotANumber { text: price.clone() })?;
        let of_link = busy
            .get(*link as usize)
            .ok_or(CertificateError::NoSuchLink { link: *link, links: jobs.on_link.len() })?;
        let (mut total, mut squares) = (0u128, 0u128);
        for job in (0..count).filter(|&job| !placed[job]) {
            let nanos = u128::from(of_link[job]);
            total += nanos;
            squares = nanos
                .checked_mul(nanos)
                .and_then(|square| squares.checked_add(square))
                .ok_or(CertificateError::TooLarge)?;
            let charge = price.checked_mul(nanos).ok_or(CertificateError::TooLarge)?;
            charged[job] = charged[job].checked_add(charge).ok_or(CertificateError::TooLarge)?;
            if charged[job] > u128::from(jobs.all[job].weight) << 64 {
                return Err(CertificateError::Overcharged { job });
            }
        }
        let twice = total.checked_mul(total).and_then(|square| square.checked_add(squares));
        let part = scaled(price, twice.ok_or(CertificateError::TooLarge)? / 2);
        sum = part.and_then(|part| sum.checked_add(part)).ok_or(CertificateError::TooLarge)?;
        *placed.get_mut(*last as usize).ok_or(CertificateError::NoSuchJob { job: *last })? = true;
    }
    Ok(sum)
}

/// `price · area / 2⁶⁴`, rounded down, by schoolbook multiplication in base 2³².
pub(super) fn scaled(price: u128, area: u128) -> Option<u128> {
    let digits = |number: u128| [0, 32, 64, 96].map(|shift| (number >> shift) & 0xffff_ffff);
    let mut product = [0u128; 8];
    for (i, a) in digits(price).into_iter().enumerate() {
        for (j, b) in digits(area).into_iter().enumerate() {
            product[i + j] += a * b;
        }
    }
    for place in 0..7 {
        product[place + 1] += product[place] >> 32;
        product[place] &= 0xffff_ffff;
    }
    let fits = product[6] == 0 && product[7] == 0;
    fits.then(|| (2..6).rev().fold(0, |number, place| (number << 32) | product[place]))
}

#[cfg(test)]
mod tests {
    use super::scaled;

    #[test]
    fn products_are_cut_at_sixty_four_bits() {
        assert_eq!(scaled(3 << 64, 5), Some(15));
        assert_eq!(scaled((1 << 64) - 1, (1 << 64) - 1), Some((1 << 64) - 2));
        assert_eq!(scaled(1 << 96, 1 << 95), Some(1 << 127));
        assert_eq!(scaled(1 << 96, 1 << 96), None);
    }
}
