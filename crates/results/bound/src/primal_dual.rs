//! The dual solution that the BSSI order leaves behind, for jobs that are all released together.
//!
//! On one link, with `p` the times that jobs keep it busy, every set `S` of jobs obeys
//! `Σ_S p·C ≥ ½·(Σ_S p² + (Σ_S p)²)` (Queyranne's parallel inequalities). Prices `y ≥ 0` of links
//! and sets that charge no job more than its weight, `Σ y·p ≤ w`, give `Σ w·C ≥ Σ y·½(…)`. BSSI
//! (Mastrolilli and others 2010, Sincronia 2018) finds such prices from the last place: the link
//! with most left is the bottleneck; it is priced so high that one of its jobs is charged in full,
//! and that job goes last.
//!
//! # Numbers
//! Prices are whole multiples of 2⁻⁶⁴ of weight for each nanosecond, rounded down, so no charge
//! ever exceeds a weight.
//!
//! Cost: O(jobs · (links + jobs of a link)), once.

use crate::problem::Problem;

/// Link, job and price of each place.
type Prices = Vec<(u32, u32, String)>;

/// The bound, and link, job and price for each place from the last on. `None` where releases differ
/// or numbers are too large.
pub(crate) fn bound(problem: &Problem) -> Option<(u128, Prices)> {
    let loaded = loads_by_link(problem)?;
    let mut left: Vec<u128> = problem.jobs.iter().map(|job| u128::from(job.weight) << 64).collect();
    let mut placed = vec![false; problem.jobs.len()];
    let mut busy: Vec<u128> =
        loaded.iter().map(|jobs| jobs.iter().map(|&(_, p)| u128::from(p)).sum()).collect();
    let mut of_job: Vec<Vec<(u32, u64)>> = vec![Vec::new(); problem.jobs.len()];
    for (link, jobs) in loaded.iter().enumerate() {
        jobs.iter().for_each(|&(job, p)| of_job[job as usize].push((link as u32, p)));
    }
    let (mut sum, mut prices) = (0u128, Vec::new());
    loop {
        let bottleneck = (0..busy.len()).max_by_key(|&link| (busy[link], std::cmp::Reverse(link)))?;
        if busy[bottleneck] == 0 {
            break;
        }
        let there = loaded[bottleneck].iter().filter(|(job, _)| !placed[*job as usize]);
        let (price, last) = there.clone().map(|&(job, p)| (left[job as usize] / u128::from(p), job)).min()?;
        let (mut total, mut squares) = (0u128, 0u128);
        for &(job, p) in there {
            left[job as usize] -= price * u128::from(p);
            total += u128::from(p);
            squares = squares.checked_add(u128::from(p) * u128::from(p))?;
        }
        let area = total.checked_mul(total)?.checked_add(squares)? / 2;
        sum = sum.checked_add(high_half(price, area)?)?;
        prices.push((bottleneck as u32, last, price.to_string()));
        placed[last as usize] = true;
        of_job[last as usize].iter().for_each(|&(link, p)| busy[link as usize] -= u128::from(p));
    }
    // Jobs that load nothing take their floor.
    let idle = problem.jobs.iter().zip(&of_job).filter(|(_, loads)| loads.is_empty());
    let alone: u128 = idle.map(|(job, _)| u128::from(job.weight) * u128::from(job.floor - job.release)).sum();
    Some((sum + alone, prices))
}

/// For each link its jobs and their times, or `None` where jobs that load a link are not all
/// released together.
fn loads_by_link(problem: &Problem) -> Option<Vec<Vec<(u32, u64)>>> {
    let mut releases = problem.links.iter().flatten().map(|load| problem.jobs[load.job as usize].release);
    let first = releases.next()?;
    if releases.any(|release| release != first) {
        return None;
    }
    let of_link = |loads: &Vec<crate::problem::Load>| {
        let mut jobs: Vec<(u32, u64)> = loads.iter().map(|load| (load.job, load.busy)).collect();
        jobs.sort_unstable();
        jobs.chunk_by(|a, b| a.0 == b.0)
            .map(|loads| (loads[0].0, loads.iter().map(|&(_, p)| p).sum()))
            .collect()
    };
    Some(problem.links.iter().map(of_link).collect())
}

/// `a · b / 2⁶⁴`, rounded down.
pub(crate) fn high_half(a: u128, b: u128) -> Option<u128> {
    let low = u128::from(u64::MAX);
    let (a1, a0, b1, b0) = (a >> 64, a & low, b >> 64, b & low);
    let middle = (a1 * b0).checked_add(a0 * b1)?.checked_add((a0 * b0) >> 64)?;
    (a1 * b1).checked_mul(1 << 64)?.checked_add(middle)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn products_are_cut_at_sixty_four_bits() {
        assert_eq!(high_half(3 << 64, 5), Some(15));
        assert_eq!(high_half((1 << 64) - 1, (1 << 64) - 1), Some((1 << 64) - 2));
        assert_eq!(high_half(1 << 100, 1 << 100), None);
    }
}
