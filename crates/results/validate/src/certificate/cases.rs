//! What must be dropped so that the rest is done in time, by cases and prices.
//!
//! Jobs in play should all be done by their due times. On a link, what those due by `to` bring from
//! `from` on must fit in between; if it does not, jobs worth the excess `e` must go. Jobs in a set
//! that the row is counted without are left out on both sides: what they bring is taken off the
//! excess as if they were gone, which they can be at best. So for the others, each bringing `a`,
//! `Σ_dropped min(a, e) ≥ e`.
//!
//! A price `m` for every such row gives: the weight dropped is at least
//! `Σ m − Σ_open max(0, charge − weight) − Σ_dropped (charge − weight)`, where a job's charge is
//! `Σ m·min(a, e)/e` and the last two sums run over jobs whose case is open and settled. What is
//! dropped is a whole number, so it rounds up.

use crate::certificate::jobs::Jobs;
use crate::certificate::{Because, CertificateError};

/// One, in the units of prices.
const ONE: u128 = 1 << 32;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Case {
    Open,
    Kept,
    Dropped,
}

pub(crate) struct Cases<'a> {
    jobs: &'a Jobs,
    /// By when each job should be done; `None` for those out of play.
    due: Vec<Option<u64>>,
    case: Vec<Case>,
    charge: Vec<u128>,
}

impl<'a> Cases<'a> {
    pub(crate) fn new(jobs: &'a Jobs, due: Vec<Option<u64>>) -> Self {
        let count = jobs.all.len();
        Self { jobs, due, case: vec![Case::Open; count], charge: vec![0; count] }
    }

    /// The weight of all jobs in play.
    pub(crate) fn in_play(&self) -> u64 {
        let some = self.jobs.all.iter().zip(&self.due).filter(|(_, due)| due.is_some());
        some.map(|(job, _)| job.weight).sum()
    }

    /// The least weight that must be dropped.
    pub(crate) fn dropped(&mut self, because: Option<&Because>) -> Result<u64, CertificateError> {
        match because {
            None => Ok(0),
            Some(Because::Prices { without, rows }) => self.by_prices(without, rows),
            Some(Because::Split { job, kept, dropped }) => {
                let index = *job as usize;
                if self.due.get(index).is_none_or(Option::is_none) {
                    return Err(CertificateError::NoSuchJob { job: *job });
                }
                if self.case[index] != Case::Open {
                    return Err(CertificateError::SplitTwice { job: *job });
                }
                self.case[index] = Case::Kept;
                let kept = self.dropped(Some(kept))?;
                self.case[index] = Case::Dropped;
                let dropped = self.dropped(Some(dropped))?;
                self.case[index] = Case::Open;
                Ok(kept.min(dropped))
            }
        }
    }

    fn by_prices(
        &mut self,
        without: &[Vec<u32>],
        rows: &[(u32, u64, u64, u32, u64)],
    ) -> Result<u64, CertificateError> {
        self.charge.fill(0);
        let mut sum = 0u128;
        for &(link, from, to, set, price) in rows {
            let sets = without.len();
            let set = without.get(set as usize).ok_or(CertificateError::NoSuchSet { set, sets })?;
            sum += self.charge_row(link, from, to, set, price)?;
        }
        let (mut gains, mut losses) = (sum, 0u128);
        for (index, job) in self.jobs.all.iter().enumerate() {
            let weight = u128::from(job.weight) * ONE;
            match self.case[index] {
                Case::Kept => (),
                Case::Open => losses += self.charge[index].saturating_sub(weight),
                Case::Dropped => {
                    gains += weight;
                    losses += self.charge[index];
                }
            }
        }
        let whole = gains.saturating_sub(losses).div_ceil(ONE);
        // More than all that is in play need not be claimed, even where the case is impossible.
        Ok(u64::try_from(whole).unwrap_or(u64::MAX).min(self.in_play()))
    }

    /// Charges the jobs in one row, and returns its price, or nothing where the row needs no job
    /// dropped.
    fn charge_row(
        &mut self,
        link: u32,
        from: u64,
        to: u64,
        set: &[u32],
        price: u64,
    ) -> Result<u128, CertificateError> {
        let links = self.jobs.on_link.len();
        let loads =
            self.jobs.on_link.get(link as usize).ok_or(CertificateError::NoSuchLink { link, links })?;
        let room =
            to.checked_sub(from).ok_or(CertificateError::Backwards { link, from_ns: from, to_ns: to })?;
        let mut brought: Vec<(usize, u128)> = Vec::new();
        // Loads of one job follow one another: they were entered job by job.
        for &(release, job, busy) in loads {
            let counts = release >= from && self.due[job].is_some_and(|due| due <= to);
            match brought.last_mut() {
                _ if !counts || set.contains(&(job as u32)) => (),
                Some((last, sum)) if *last == job => *sum += u128::from(busy),
                _ => brought.push((job, u128::from(busy))),
            }
        }
        let all: u128 = brought.iter().map(|(_, busy)| busy).sum();
        let excess = all.saturating_sub(u128::from(room));
        if excess == 0 {
            return Ok(0);
        }
        for (job, busy) in brought {
            let scaled = u128::from(price).checked_mul(busy.min(excess)).ok_or(CertificateError::TooLarge)?;
            self.charge[job] += scaled.div_ceil(excess);
        }
        Ok(u128::from(price))
    }
}
