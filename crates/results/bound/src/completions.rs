//! The time-decomposed bound: what is not done yet, added up over time.
//!
//! The sum of completion times is the area under the number of jobs in the system, and at time `t`
//! that is at least the number that have arrived less the largest number `U(t)` that any schedule
//! can have completed by then. `U` never falls, so an upper bound on it at a few points bounds it
//! everywhere, and what lies between two points is off by at most their difference. Jobs count by
//! weight.
//!
//! Floors, releases and busy times are whole nanoseconds, so what cannot be done by the whole time
//! `t` cannot be done before `t + 1` either.
//!
//! # How
//! Two staircases hold what is known: `most`, points at which an upper bound on `U` has been
//! proven, and `feasible`, times by which some set of jobs passes all tests, so that no proof can
//! do better. The interval with the largest area between the two is looked at next: first its right
//! end, then points inside. A look is a branch and bound ([`crate::branch`]). A set that it finds
//! is moved back to the earliest time at which it passes; a proof is moved on to the latest time at
//! which it still holds: so a single step of `U` is pinned in a few looks.
//!
//! It starts from what needs no search: what has not had its floor cannot be done. That alone is
//! the isolation bound, so any early stop is at least as good.

use std::collections::BTreeMap;

use crate::branch::{Gains, Tree, least_drop};
use crate::certificate::{Because, PriceRow, Step};
use crate::cover::Cover;
use crate::problem::{Job, Problem};
use crate::{Progress, mean};

/// Linear programs that the first look at a point may take, the factor for each further look, and
/// the maximum.
const EFFORTS: (u64, u64, u64) = (1, 8, 1 << 15);

/// An upper bound on the weight that can be done by some time.
#[derive(Clone, Debug)]
struct Most {
    weight: u64,
    because: Option<Because>,
    /// Number of linear programs allowed at the last look; zero before the first.
    effort: u64,
}

/// Bounds known of `U`.
pub(crate) struct Known<'a> {
    problem: &'a Problem,
    /// At most so much can be done by then.
    most: BTreeMap<u64, Most>,
    /// A set of this weight passes all tests from then on.
    feasible: BTreeMap<u64, u64>,
    gains: Gains,
    looks: u64,
    programs: u64,
}

/// Next point to examine.
struct Look {
    at: u64,
    effort: u64,
    /// Area to gain for each linear program.
    score: f64,
}

impl<'a> Known<'a> {
    /// Computes the bounds that need no search.
    pub(crate) fn new(problem: &'a Problem) -> Self {
        let mut floors: Vec<(u64, u64)> = problem.jobs.iter().map(|job| (job.floor, job.weight)).collect();
        floors.sort_unstable();
        let (mut most, mut weight) = (BTreeMap::new(), 0);
        for chunk in floors.chunk_by(|a, b| a.0 == b.0) {
            if let Some(before) = chunk[0].0.checked_sub(1) {
                most.insert(before, Most { weight, because: None, effort: 0 });
            }
            weight += chunk.iter().map(|&(_, weight)| weight).sum::<u64>();
        }
        let end = earliest(problem, &vec![true; problem.jobs.len()]);
        most.insert(end, Most { weight, because: None, effort: u64::MAX });
        let feasible = BTreeMap::from([(0, 0), (end, weight)]);
        Self { problem, most, feasible, gains: Gains::new(problem.jobs.len()), looks: 0, programs: 0 }
    }

    /// Looks where there is most to gain until nothing is open, which is told, or `go_on` says no.
    pub(crate) fn search(&mut self, go_on: &mut dyn FnMut(&Progress) -> bool) -> bool {
        let weight = self.problem.weight();
        while let Some(Look { at, effort, .. }) = self.next() {
            let (looks, programs, mean) = (self.looks, self.programs, mean(self.sum(), weight));
            let mut progress = Progress { looks, programs, mean };
            if !go_on(&progress) {
                return false;
            }
            self.look(at, effort, &mut |programs_here| {
                progress.programs = programs + programs_here;
                go_on(&progress)
            });
        }
        true
    }

    /// The sum of weight times completion time that is proven.
    pub(crate) fn sum(&self) -> u128 {
        let Some((&end, _)) = self.most.last_key_value() else { return 0 };
        let end = u128::from(end) + 1;
        let here = |job: &Job| u128::from(job.weight) * end.saturating_sub(u128::from(job.release));
        let arrived: u128 = self.problem.jobs.iter().map(here).sum();
        let (mut from, mut done) = (0u128, 0u128);
        for (&at, most) in &self.most {
            let next = u128::from(at) + 1;
            done += (next - from) * u128::from(most.weight);
            from = next;
        }
        arrived.saturating_sub(done)
    }

    /// The upper bounds as steps of a certificate: those that a later one does not imply.
    pub(crate) fn into_steps(self) -> Vec<Step> {
        let mut steps: Vec<Step> = Vec::new();
        for (by_ns, most) in self.most.into_iter().rev() {
            if steps.last().is_none_or(|later| most.weight < later.at_most) {
                steps.push(Step { by_ns, at_most: most.weight, because: most.because });
            }
        }
        steps.reverse();
        steps
    }

    fn next(&self) -> Option<Look> {
        let mut best: Option<Look> = None;
        let mut consider = |look: Look| {
            if look.score > best.as_ref().map_or(0.0, |best| best.score) {
                best = Some(look);
            }
        };
        let mut feasible = self.feasible.iter().peekable();
        let (mut from, mut reached) = (0, 0);
        for (&at, most) in &self.most {
            while let Some((&next, &more)) = feasible.next_if(|(next, _)| **next < at) {
                consider(inside(from, next, most.weight - reached));
                (from, reached) = (next, more);
            }
            let there = self.feasible.get(&at).copied().unwrap_or(reached);
            let (first, factor, last) = EFFORTS;
            let effort = if most.effort == 0 { first } else { most.effort.saturating_mul(factor) };
            if most.weight > there && effort <= last {
                let area = (at - from) as f64 * (most.weight - reached) as f64;
                consider(Look { at, effort, score: area / effort as f64 });
            } else {
                consider(inside(from, at, most.weight - reached));
            }
            from = at;
        }
        best
    }

    /// Looks at `at`, with at most so many linear programs.
    fn look(&mut self, at: u64, effort: u64, go_on: &mut dyn FnMut(u64) -> bool) {
        let jobs = &self.problem.jobs;
        let due: Vec<Option<u64>> = jobs.iter().map(|job| (job.floor <= at).then_some(at)).collect();
        let cover = Cover::new(self.problem, &due);
        let had: u64 = jobs.iter().filter(|job| job.floor <= at).map(|job| job.weight).sum();
        let answer = least_drop(&cover, effort, &mut self.gains, go_on);
        self.looks += 1;
        self.programs += answer.programs;
        let because = Some(spell(&cover, &answer.tree));
        self.prove(at, Most { weight: had - answer.proven, because, effort });

        let mut kept: Vec<bool> = due.iter().map(Option::is_some).collect();
        (0..cover.jobs.len()).filter(|&m| answer.drop[m]).for_each(|m| kept[cover.jobs[m] as usize] = false);
        let passes = earliest(self.problem, &kept);
        assert!(passes <= at, "a set that covers all rows passes at {at}, not only at {passes}");
        self.reach(passes, had - answer.enough);
    }

    /// Records a proof. Earlier ones that say no more go. Where a later one says as much, it is the
    /// proof, and this point only tells that somebody looked.
    fn prove(&mut self, at: u64, most: Most) {
        if let Some(own) = self.most.get_mut(&at).filter(|own| own.weight <= most.weight) {
            own.effort = most.effort;
            return;
        }
        let later = self.most.range(at..).next().map(|(_, later)| later.weight);
        let most = match later {
            Some(weight) if weight <= most.weight => Most { weight, because: None, effort: most.effort },
            _ => most,
        };
        let weight = most.weight;
        self.most.insert(at, most);
        let before = self.most.range(..at).rev();
        let idle: Vec<u64> =
            before.take_while(|(_, most)| most.weight >= weight).map(|(&at, _)| at).collect();
        for at in idle {
            self.most.remove(&at);
        }
    }

    /// Records that a set of this weight passes at `at`. Later ones that are no heavier go.
    fn reach(&mut self, at: u64, weight: u64) {
        if self.feasible.range(..=at).next_back().is_some_and(|(_, &reached)| reached >= weight) {
            return;
        }
        let after = self.feasible.range(at..);
        let idle: Vec<u64> =
            after.take_while(|&(_, &reached)| reached <= weight).map(|(&at, _)| at).collect();
        for at in idle {
            self.feasible.remove(&at);
        }
        self.feasible.insert(at, weight);
    }
}

/// A first look at the middle of an interval.
fn inside(from: u64, to: u64, gap: u64) -> Look {
    let area = if to - from > 1 { (to - from) as f64 * gap as f64 } else { 0.0 };
    Look { at: from + (to - from) / 2, effort: EFFORTS.0, score: area }
}

/// The most weight that can be done by its due times, whether the search closed, and why no more
/// can be.
pub(crate) fn in_time(
    problem: &Problem,
    go_on: &mut dyn FnMut(&Progress) -> bool,
) -> (u64, bool, Option<Because>) {
    let due: Vec<Option<u64>> =
        problem.jobs.iter().map(|job| job.due.filter(|&due| job.floor <= due)).collect();
    let had: u64 =
        problem.jobs.iter().zip(&due).filter(|(_, due)| due.is_some()).map(|(job, _)| job.weight).sum();
    let cover = Cover::new(problem, &due);
    let mut gains = Gains::new(problem.jobs.len());
    let mut progress = Progress { looks: 1, programs: 0, mean: mean(0, 1) };
    let answer = least_drop(&cover, u64::MAX, &mut gains, &mut |programs| {
        progress.programs = programs;
        go_on(&progress)
    });
    let because = (answer.proven > 0).then(|| spell(&cover, &answer.tree));
    (had - answer.proven, answer.proven == answer.enough, because)
}

/// The earliest time at which the jobs in `set` pass all tests.
fn earliest(problem: &Problem, set: &[bool]) -> u64 {
    let floors = problem.jobs.iter().zip(set).filter(|(_, kept)| **kept).map(|(job, _)| job.floor);
    let mut end = floors.max().unwrap_or(0);
    for loads in &problem.links {
        let mut busy = 0u64;
        for load in loads.iter().filter(|load| set[load.job as usize]) {
            busy = busy.saturating_add(load.busy);
            end = end.max(load.release.saturating_add(busy));
        }
    }
    end
}

/// A tree in the words of a certificate.
fn spell(cover: &Cover, tree: &Tree) -> Because {
    let job = |&member: &u32| cover.jobs[member as usize];
    match tree {
        Tree::Prices(prices) => Because::Prices {
            without: prices.bases.iter().map(|base| base.iter().map(job).collect()).collect(),
            rows: prices
                .rows
                .iter()
                .map(|price| {
                    let interval = cover.rows[price.row as usize].interval;
                    PriceRow(interval.link, interval.from, interval.to, price.base, price.price)
                })
                .collect(),
        },
        Tree::Split { member, kept, dropped } => Because::Split {
            job: job(member),
            kept: Box::new(spell(cover, kept)),
            dropped: Box::new(spell(cover, dropped)),
        },
    }
}
