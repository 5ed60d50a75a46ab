//! One link, scheduled as well as can be, and isolation for jobs that do not use it.
//!
//! What a link has to carry for a job takes at least so long on it, however rates are shared. With
//! equal weights the least sum of completion times on one link is that of shortest remaining time
//! first. With unequal weights that problem is NP-hard; then Goemans' bound (1997) stands in: serve
//! the highest weight per nanosecond first, and count for each job the mean of the times at which
//! it is served, plus half its length.
//!
//! A job of several waves on the link is taken to be there from the first: that only helps it.
//!
//! Cost: O(loads log loads) over all links.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::problem::{Job, Load, Problem};

/// A job on the link at hand.
#[derive(Clone, Copy)]
pub(crate) struct Piece {
    release: u64,
    busy: u64,
    weight: u64,
}

/// The largest bound that a single link gives, and the link. `None` without links that a flow
/// uses, or where times are beyond 2⁶² ns, so that sums would not fit.
pub(crate) fn best(problem: &Problem) -> Option<(u128, u32)> {
    if problem.jobs.iter().any(|job| job.floor >= 1 << 62) {
        return None;
    }
    let isolation = problem.isolation();
    let mut best: Option<(u128, u32)> = None;
    for (link, loads) in problem.links.iter().enumerate().filter(|(_, loads)| !loads.is_empty()) {
        let sum = on_link(&problem.jobs, loads, isolation);
        if best.is_none_or(|(most, _)| sum > most) {
            best = Some((sum, link as u32));
        }
    }
    best
}

/// Returns the work of each job on a link with these loads, all released with the first of them.
pub(crate) fn pieces(jobs: &[Job], loads: &[Load]) -> Vec<(u32, Piece)> {
    let mut by_job = loads.to_vec();
    by_job.sort_unstable_by_key(|load| (load.job, load.release));
    let piece = |loads: &[Load]| {
        let Load { job, release, .. } = loads[0];
        let busy = loads.iter().map(|load| load.busy).sum();
        (job, Piece { release, busy, weight: jobs[job as usize].weight })
    };
    by_job.chunk_by(|a, b| a.job == b.job).map(piece).collect()
}

/// Returns the time at which the pieces end under shortest remaining time first, in order of time.
pub(crate) fn ends(mut pieces: Vec<Piece>) -> Vec<u64> {
    pieces.sort_by_key(|piece| piece.release);
    let mut ends = Vec::with_capacity(pieces.len());
    serve(&pieces, |_, left| left, |_, _, end, done| ends.extend(done.then_some(end)));
    ends
}

fn on_link(jobs: &[Job], loads: &[Load], isolation: u128) -> u128 {
    let by_job = pieces(jobs, loads);
    let (mut alone, mut released) = (0u128, 0u128);
    for (job, _) in &by_job {
        let job = &jobs[*job as usize];
        alone += u128::from(job.weight) * u128::from(job.floor - job.release);
        released += u128::from(job.weight) * u128::from(job.release);
    }
    let mut pieces: Vec<Piece> = by_job.into_iter().map(|(_, piece)| piece).collect();
    let ended = if pieces.windows(2).all(|pair| pair[0].weight == pair[1].weight) {
        shortest_first(&mut pieces)
    } else {
        heaviest_first(&mut pieces)
    };
    // Those on the link together may still be faster than alone: other links count for them too.
    isolation - alone + ended.saturating_sub(released).max(alone)
}

/// The sum of weight times end under shortest remaining time first: the least there is, weights
/// being equal.
fn shortest_first(pieces: &mut [Piece]) -> u128 {
    pieces.sort_by_key(|piece| piece.release);
    let mut sum = 0;
    serve(
        pieces,
        |_, left| left,
        |piece, _, end, done| {
            sum += if done { u128::from(pieces[piece].weight) * u128::from(end) } else { 0 };
        },
    );
    sum
}

/// Goemans' bound on the sum of weight times end.
fn heaviest_first(pieces: &mut [Piece]) -> u128 {
    pieces.sort_by_key(|piece| piece.release);
    let mut by_ratio: Vec<usize> = (0..pieces.len()).collect();
    by_ratio.sort_by(|&a, &b| {
        let (a, b) = (&pieces[a], &pieces[b]);
        let ab = u128::from(a.weight) * u128::from(b.busy);
        let ba = u128::from(b.weight) * u128::from(a.busy);
        ba.cmp(&ab)
    });
    let mut rank = vec![0; pieces.len()];
    by_ratio.iter().enumerate().for_each(|(place, &piece)| rank[piece] = place as u64);
    // Of each piece: twice the integral of time over its service.
    let mut moments = vec![0u128; pieces.len()];
    serve(
        pieces,
        |piece, _| rank[piece],
        |piece, from, to, _| {
            moments[piece] += u128::from(to - from) * (u128::from(from) + u128::from(to));
        },
    );
    let end = |(piece, moment): (&Piece, u128)| {
        let busy = u128::from(piece.busy);
        u128::from(piece.weight) * ((moment + busy * busy) / (2 * busy))
    };
    pieces.iter().zip(moments).map(end).sum()
}

/// Serves `pieces`, in order of release, one at a time: always the one there whose key is least,
/// given its place and what is left of it. `served` is told place, from, to, and whether it is
/// done.
fn serve(pieces: &[Piece], key: impl Fn(usize, u64) -> u64, mut served: impl FnMut(usize, u64, u64, bool)) {
    let mut left: Vec<u64> = pieces.iter().map(|piece| piece.busy).collect();
    let mut waiting = BinaryHeap::new();
    let (mut now, mut next) = (0, 0);
    loop {
        if waiting.is_empty() {
            let Some(piece) = pieces.get(next) else { return };
            now = piece.release.max(now);
        }
        while let Some(piece) = pieces.get(next).filter(|piece| piece.release <= now) {
            waiting.push(Reverse((key(next, piece.busy), next)));
            next += 1;
        }
        let Reverse((_, piece)) = waiting.pop().expect("somebody waits: the next was let in");
        let end = now + left[piece];
        let until = pieces.get(next).map_or(end, |next| next.release.min(end));
        left[piece] -= until - now;
        served(piece, now, until, left[piece] == 0);
        if left[piece] > 0 {
            waiting.push(Reverse((key(piece, left[piece]), piece)));
        }
        now = until;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn piece(release: u64, busy: u64, weight: u64) -> Piece {
        Piece { release, busy, weight }
    }

    #[test]
    fn a_short_piece_interrupts_a_long_one() {
        assert_eq!(shortest_first(&mut [piece(0, 10, 1), piece(2, 1, 1)]), 11 + 3);
        assert_eq!(shortest_first(&mut [piece(5, 2, 3)]), 21);
    }

    #[test]
    fn without_releases_the_weighted_bound_is_smiths_rule() {
        // 6/2 before 5/5 before 1/3.
        assert_eq!(heaviest_first(&mut [piece(0, 3, 1), piece(0, 2, 6), piece(0, 5, 5)]), 6 * 2 + 5 * 7 + 10);
    }

    proptest! {
        #[test]
        fn the_weighted_bound_is_below_every_priority_schedule(
            mut pieces in proptest::collection::vec((0u64..20, 1u64..10, 1u64..5), 1..6),
            order in proptest::collection::vec(0u64..100, 6),
        ) {
            pieces.sort_unstable();
            let mut pieces: Vec<Piece> = pieces.into_iter().map(|(r, b, w)| piece(r, b, w)).collect();
            let mut sum = 0;
            serve(&pieces, |piece, _| order[piece], |piece, _, end, done| {
                sum += if done { u128::from(pieces[piece].weight) * u128::from(end) } else { 0 };
            });
            prop_assert!(heaviest_first(&mut pieces) <= sum);
            if pieces.iter().all(|piece| piece.weight == pieces[0].weight) {
                prop_assert!(shortest_first(&mut pieces) <= sum);
            }
        }
    }
}
