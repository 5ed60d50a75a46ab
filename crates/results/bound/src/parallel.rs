//! The linear program over Queyranne's parallel inequalities, with releases and floors.
//!
//! On one link, with `p` the times that jobs keep it busy and `r` the earliest release among a set
//! `S` of them, every schedule obeys `Σ_S p·C ≥ r·Σ_S p + ½·(Σ_S p² + (Σ_S p)²)`. The least `Σ w·C`
//! over `C ≥ floor` and these rows, of all links and sets, is a bound. [`super::primal_dual`] finds
//! one solution of its dual, for equal releases; this is the best there is.
//!
//! Sets are too many to write down, so rows are found as they are broken: on each link, of jobs
//! released at some time or later, those that end first. With `x = C − floor` every row is one of
//! covering, which [`Simplex`] solves.
//!
//! # Numbers
//! The program is solved in floating point, and only its prices are kept: rounded down to 2⁻⁶⁴ of
//! weight for each nanosecond, so that no job is charged more than its weight, they prove
//! `Σ price·right side + Σ (weight − charge)·floor`.
//!
//! # Cost
//! At most [`ROUNDS`] rounds of one row for each link, on a dense dictionary: about a second for
//! 500 jobs. It is below [`crate::Method::Completions`] wherever it was tried, so it is not part of
//! [`crate::lower_bounds`].

use std::collections::BTreeMap;

use crate::certificate::PricedSet;
use crate::primal_dual::high_half;
use crate::problem::Problem;
use crate::simplex::Simplex;

/// Number of rounds in which rows are searched.
const ROUNDS: usize = 40;
/// For more jobs a dense dictionary is too slow.
const MOST_JOBS: usize = 2_000;
/// A row is broken by at least this share of its right side.
const BROKEN: f64 = 1e-6;

/// A job on a link.
#[derive(Clone, Copy)]
struct Piece {
    job: usize,
    release: u64,
    busy: u64,
}

/// A row of the program: a link and a set of its jobs.
#[derive(Clone)]
struct Row {
    link: u32,
    pieces: Vec<Piece>,
    /// By how much the right side is above what the floors give.
    short: f64,
}

impl Row {
    /// Twice the right side.
    fn twice(&self) -> Option<u128> {
        let release = u128::from(self.pieces.iter().map(|piece| piece.release).min()?);
        let (mut total, mut squares) = (0u128, 0u128);
        for piece in &self.pieces {
            let busy = u128::from(piece.busy);
            total += busy;
            squares = squares.checked_add(busy * busy)?;
        }
        total.checked_mul(total)?.checked_add(squares)?.checked_add(release.checked_mul(2 * total)?)
    }
}

/// The bound, and the priced sets that prove it. `None` without jobs or for too many, or where
/// numbers are too large.
pub(crate) fn bound(problem: &Problem) -> Option<(u128, Vec<PricedSet>)> {
    let jobs = &problem.jobs;
    if jobs.is_empty() || jobs.len() > MOST_JOBS || jobs.iter().any(|job| job.floor >= 1 << 62) {
        return None;
    }
    let links: Vec<Vec<Piece>> = (0..problem.links.len()).map(|link| pieces(problem, link)).collect();
    // No completion time that is worth having is further from its floor than this.
    let busiest = links.iter().map(|pieces| pieces.iter().map(|piece| piece.busy as f64).sum::<f64>());
    let last = jobs.iter().map(|job| job.floor as f64).fold(0.0, f64::max);
    let reach = last + busiest.fold(0.0, f64::max) + 1.0;
    let mut program = Simplex::new(jobs.iter().map(|job| job.weight as f64));
    let mut rows: Vec<Row> = Vec::new();
    for _ in 0..ROUNDS {
        let ends: Vec<f64> = jobs
            .iter()
            .enumerate()
            .map(|(job, facts)| facts.floor as f64 + reach * program.fraction(job))
            .collect();
        let broken: Vec<Row> = links
            .iter()
            .enumerate()
            .filter_map(|(link, pieces)| most_broken(link as u32, pieces, &ends, problem))
            .collect();
        if broken.is_empty() {
            break;
        }
        let kept = program.forget_idle();
        rows = kept.into_iter().map(|row| rows[row].clone()).collect();
        for row in broken {
            let terms = row.pieces.iter().map(|piece| (piece.job, piece.busy as f64 * reach / row.short));
            program.add_row(terms);
            rows.push(row);
        }
        if !program.solve() {
            break;
        }
    }
    let priced: Vec<(Row, f64)> = rows
        .into_iter()
        .enumerate()
        .map(|(index, row)| (program.price(index), row))
        .filter(|(price, _)| *price > 0.0)
        .map(|(price, row)| (row.clone(), price * reach / row.short))
        .collect();
    proven(problem, &priced)
}

/// Returns the work of each job on a link, all released with its first piece.
fn pieces(problem: &Problem, link: usize) -> Vec<Piece> {
    let mut by_job = BTreeMap::<u32, Piece>::new();
    for load in &problem.links[link] {
        let fresh = Piece { job: load.job as usize, release: load.release, busy: 0 };
        let piece = by_job.entry(load.job).or_insert(fresh);
        piece.release = piece.release.min(load.release);
        piece.busy += load.busy;
    }
    by_job.into_values().collect()
}

/// The set on a link whose row is broken most, for its length; `None` where none is.
fn most_broken(link: u32, pieces: &[Piece], ends: &[f64], problem: &Problem) -> Option<Row> {
    let mut order = pieces.to_vec();
    order.sort_by(|a, b| ends[a.job].total_cmp(&ends[b.job]).then(a.job.cmp(&b.job)));
    let mut releases: Vec<u64> = pieces.iter().map(|piece| piece.release).collect();
    releases.sort_unstable();
    releases.dedup();
    let (mut most, mut best) = (0.0, None);
    for release in releases {
        let (mut total, mut squares, mut left) = (0.0, 0.0, 0.0);
        for (at, piece) in order.iter().enumerate().filter(|(_, piece)| piece.release >= release) {
            let busy = piece.busy as f64;
            (total, squares, left) = (total + busy, squares + busy * busy, left + busy * ends[piece.job]);
            let right = release as f64 * total + (squares + total * total) / 2.0;
            let broken = (right - left) / total;
            if right - left > BROKEN * right && broken > most {
                (most, best) = (broken, Some((release, at)));
            }
        }
    }
    let (release, at) = best?;
    let pieces: Vec<Piece> = order[..=at].iter().filter(|piece| piece.release >= release).copied().collect();
    let mut row = Row { link, pieces, short: 0.0 };
    let floors: f64 =
        row.pieces.iter().map(|piece| piece.busy as f64 * problem.jobs[piece.job].floor as f64).sum();
    row.short = row.twice()? as f64 / 2.0 - floors;
    (row.short > 0.0).then_some(row)
}

/// Computes what the prices prove, in integers.
fn proven(problem: &Problem, priced: &[(Row, f64)]) -> Option<(u128, Vec<PricedSet>)> {
    let unit = (1u128 << 64) as f64;
    let mut charges = vec![0.0; problem.jobs.len()];
    for (row, price) in priced {
        row.pieces.iter().for_each(|piece| charges[piece.job] += price * piece.busy as f64);
    }
    let over = charges.iter().zip(&problem.jobs).map(|(charge, job)| charge / job.weight as f64);
    let scale = unit * (1.0 - 1e-9) / over.fold(1.0, f64::max);
    let mut left: Vec<u128> = problem.jobs.iter().map(|job| u128::from(job.weight) << 64).collect();
    let (mut sum, mut sets) = (0u128, Vec::new());
    for (row, price) in priced {
        let price = (price * scale) as u128;
        for piece in &row.pieces {
            let left = &mut left[piece.job];
            *left = left.checked_sub(price.checked_mul(u128::from(piece.busy))?)?;
        }
        sum = sum.checked_add(high_half(price, row.twice()? / 2)?)?;
        let jobs = row.pieces.iter().map(|piece| piece.job as u32).collect();
        sets.push(PricedSet { link: row.link, jobs, price: price.to_string() });
    }
    let mut released = 0u128;
    for (job, left) in problem.jobs.iter().zip(left) {
        sum = sum.checked_add(high_half(left, u128::from(job.floor))?)?;
        released += u128::from(job.weight) * u128::from(job.release);
    }
    Some((sum.saturating_sub(released), sets))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::problem::{Job, Load};

    #[test]
    fn two_links_share_the_blame() {
        // Jobs 0 and 1 meet on the first link, 1 and 2 on the second, each for 10 µs: one of 0 and
        // 1 waits, and one of 1 and 2.
        let job = Job { release: 0, floor: 10_000, weight: 1, due: None };
        let load = |job| Load { release: 0, job, busy: 10_000 };
        let links = vec![vec![load(0), load(1)], vec![load(1), load(2)]];
        let (sum, _) = bound(&Problem { jobs: vec![job; 3], links }).unwrap();
        // Job 1 waits for both others: 10 + 20 + 10 µs, which is also what a schedule takes.
        assert!((39_990..=40_000).contains(&sum), "{sum}");
    }

    #[test]
    fn releases_count() {
        let job = |release| Job { release, floor: release + 10_000, weight: 1, due: None };
        let load = |release, job| Load { release, job, busy: 10_000 };
        let links = vec![vec![load(100, 1), load(100, 0)]];
        let (sum, _) = bound(&Problem { jobs: vec![job(100), job(100)], links }).unwrap();
        assert!((29_990..=30_000).contains(&sum), "{sum}");
    }
}
