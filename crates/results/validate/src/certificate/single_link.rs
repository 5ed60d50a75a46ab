//! The least sum of completion times that one link allows.
//!
//! Jobs on the link need it for their busy time, from their first release on. With equal weights,
//! serving the job with least left gives the least sum; otherwise serving the largest weight for
//! its busy time gives the least sum of weight times mean time of service, and no job ends before
//! that mean plus half its busy time (Goemans 1997). Jobs that do not use the link count alone.
//! Time is stepped from release to release, looking at all jobs each time: slow and obvious.

use std::collections::BTreeMap;

use crate::certificate::CertificateError;
use crate::certificate::jobs::Jobs;

/// A job on a link.
pub(crate) struct Piece {
    /// Its release.
    pub(crate) release: u64,
    /// Its busy time on the link.
    pub(crate) busy: u64,
    left: u64,
    weight: u64,
    /// Twice the integral of time over its service.
    moment: u128,
    /// The end of its service.
    pub(crate) end: u64,
}

pub(crate) fn sum(jobs: &Jobs, link: u32) -> Result<u128, CertificateError> {
    let pieces = pieces(jobs, link)?;
    let rest = jobs.alone(|job| !pieces.contains_key(&job));
    let alone = jobs.alone(|job| pieces.contains_key(&job));
    let released: u128 =
        pieces.keys().map(|&job| u128::from(jobs.all[job].weight) * u128::from(jobs.all[job].release)).sum();
    let mut pieces: Vec<Piece> = pieces.into_values().collect();
    let equal = pieces.windows(2).all(|pair| pair[0].weight == pair[1].weight);
    serve(&mut pieces, equal);
    let ended: u128 = pieces
        .iter()
        .map(|piece| {
            let busy = u128::from(piece.busy);
            let end = if equal { u128::from(piece.end) } else { (piece.moment + busy * busy) / (2 * busy) };
            u128::from(piece.weight) * end
        })
        .sum();
    Ok(rest + alone.max(ended.saturating_sub(released)))
}

/// Returns the load of each job on a link.
pub(crate) fn pieces(jobs: &Jobs, link: u32) -> Result<BTreeMap<usize, Piece>, CertificateError> {
    let links = jobs.on_link.len();
    let loads = jobs.on_link.get(link as usize).ok_or(CertificateError::NoSuchLink { link, links })?;
    let mut pieces: BTreeMap<usize, Piece> = BTreeMap::new();
    for &(release, job, busy) in loads.iter().filter(|load| load.2 > 0) {
        let weight = jobs.all[job].weight;
        let piece =
            pieces.entry(job).or_insert(Piece { release, busy: 0, left: 0, weight, moment: 0, end: 0 });
        piece.release = piece.release.min(release);
        piece.busy = piece.busy.checked_add(busy).ok_or(CertificateError::TooLarge)?;
        piece.left = piece.busy;
    }
    if pieces.values().any(|piece| piece.busy.max(piece.release) >= 1 << 62) {
        return Err(CertificateError::TooLarge);
    }
    Ok(pieces)
}

/// Serves all pieces: with equal weights the one with least left.
pub(crate) fn serve(pieces: &mut [Piece], equal: bool) {
    let mut releases: Vec<u64> = pieces.iter().map(|piece| piece.release).collect();
    releases.sort_unstable();
    let mut now = 0;
    while let Some(next) = choose(pieces, now, equal) {
        let piece = &mut pieces[next];
        now = now.max(piece.release);
        let interrupted = releases.iter().copied().find(|&release| release > now).unwrap_or(u64::MAX);
        let until = now.saturating_add(piece.left).min(interrupted);
        piece.moment += u128::from(until - now) * (u128::from(until) + u128::from(now));
        piece.left -= until - now;
        piece.end = until;
        now = until;
    }
}

/// Returns the job that is served at `now`, or the next one to come.
fn choose(pieces: &[Piece], now: u64, equal: bool) -> Option<usize> {
    let unfinished = || (0..pieces.len()).filter(|&index| pieces[index].left > 0);
    let first = unfinished().map(|index| pieces[index].release).min()?;
    let there = unfinished().filter(|&index| pieces[index].release <= now.max(first));
    there.min_by(|&a, &b| {
        let (a, b) = (&pieces[a], &pieces[b]);
        if equal {
            a.left.cmp(&b.left)
        } else {
            let cross = |a: &Piece, b: &Piece| u128::from(a.weight) * u128::from(b.busy);
            cross(b, a).cmp(&cross(a, b))
        }
    })
}
