//! How many jobs each of some links can have done by each time; at each time the link that holds up
//! most.
//!
//! Serving the job with least left has done as many of a link's jobs at every time as any order. So
//! of those of its jobs that would be done if each were alone, the ones beyond that number are
//! waiting, whatever the schedule. Time is cut wherever a job could be done or is done at any of
//! the links, and all are counted again in each piece: slow and obvious. Only for equal weights.

use crate::certificate::CertificateError;
use crate::certificate::jobs::Jobs;
use crate::certificate::single_link::{Piece, pieces, serve};

/// The abilities of one link.
struct Link {
    /// The time of each of its jobs alone.
    floors: Vec<u64>,
    /// Their ends, the one with least left first.
    ends: Vec<u64>,
}

pub(crate) fn sum(jobs: &Jobs, links: &[u32]) -> Result<u128, CertificateError> {
    let weight = jobs.all.first().map_or(1, |job| job.weight);
    if let Some(job) = jobs.all.iter().position(|job| job.weight != weight) {
        return Err(CertificateError::WeightsDiffer { job });
    }
    let link = |&link: &u32| {
        let pieces = pieces(jobs, link)?;
        let mut floors: Vec<u64> = pieces.keys().map(|&job| jobs.all[job].floor).collect();
        let mut pieces: Vec<Piece> = pieces.into_values().collect();
        serve(&mut pieces, true);
        let mut ends: Vec<u64> = pieces.iter().map(|piece| piece.end).collect();
        floors.sort_unstable();
        ends.sort_unstable();
        Ok(Link { floors, ends })
    };
    let links: Vec<Link> = links.iter().map(link).collect::<Result<_, CertificateError>>()?;
    let mut cuts: Vec<u64> =
        links.iter().flat_map(|link| link.floors.iter().chain(&link.ends)).copied().collect();
    cuts.sort_unstable();
    cuts.dedup();
    let mut waiting = 0u128;
    for pair in cuts.windows(2) {
        let most = links.iter().map(|link| link.held_up(pair[0])).max().unwrap_or(0);
        waiting += u128::from(pair[1] - pair[0]) * most as u128;
    }
    Ok(jobs.alone(|_| true) + u128::from(weight) * waiting)
}

impl Link {
    /// Returns the number that could be done by `now` and cannot all be, just after that time.
    fn held_up(&self, now: u64) -> usize {
        let by_now = |times: &[u64]| times.partition_point(|&time| time <= now);
        by_now(&self.floors).saturating_sub(by_now(&self.ends))
    }
}
