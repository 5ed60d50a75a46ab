//! The circle: when jobs that repeat themselves want a link, and by how much to shift them so that
//! they want more than it has for the least time.
//!
//! A job's iteration is a turn of its own circle, on which arcs are the times at which it wants a
//! link. Circles of several jobs are unified: the perimeter of the common one is a whole number of
//! iterations of each. A shift turns the arcs of one job. What a link is asked for beyond what it
//! has, over one turn, is the *excess*; jobs are compatible where it is zero.
//!
//! Excess is a sum of functions of the shifts that are straight between points where an arc of one
//! job begins or ends as one of another does. So candidates are shifts at which an arc begins where
//! another ends, and the other way round: where two jobs fill the link that they share, the least
//! is among them, and jobs that fit can be pushed together until each touches another.

use std::collections::{BTreeMap, BTreeSet};

use cavalcade_model::LinkId;

/// A time of an iteration in which a job wants this share of a link.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Arc {
    pub(super) from: u64,
    pub(super) to: u64,
    pub(super) share: f64,
}

/// What a job wants in each iteration, as it would be alone. Times are in nanoseconds.
#[derive(Clone, Debug, PartialEq, Default)]
pub(super) struct Rhythm {
    pub(super) period: u64,
    pub(super) links: BTreeMap<LinkId, Vec<Arc>>,
}

/// The places of jobs on their common circle.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Places {
    /// For each job the time between two iterations; a little more than its period where periods
    /// only nearly fit each other.
    pub(super) every: Vec<u64>,
    /// For each job when an iteration begins; zero for the first.
    pub(super) shifts: Vec<u64>,
    /// True if no link is asked for more than it has.
    pub(super) is_compatible: bool,
}

/// The most iterations of the longest job in a common turn.
const MOST_TURNS: u64 = 12;
/// The part of a period by which iterations may be made longer so that periods fit.
const SLACK: u64 = 200;
/// The most shifts of a job that are tried at once.
const MOST_SHIFTS: usize = 1_000;
/// The most ends of arcs that a search looks at. What has no place then stays where it is.
const MOST_ENDS: usize = 1 << 20;

/// How often each job iterates in a turn of the common circle, and the time of the turn.
fn unified(periods: &[u64]) -> Option<(Vec<u64>, u64)> {
    let longest = periods.iter().copied().max().filter(|_| !periods.contains(&0))?;
    (1..=MOST_TURNS).find_map(|turns| {
        let around = longest.checked_mul(turns)?;
        let counts: Vec<u64> = periods.iter().map(|period| (around + period / 2) / period).collect();
        let each = || periods.iter().zip(&counts);
        let least = each().map(|(period, count)| period * count).max()?;
        // A whole number of nanoseconds for each iteration of each job.
        let parts =
            counts.iter().try_fold(1_u64, |all, &count| (all / gcd(all, count)).checked_mul(count))?;
        let perimeter = least.div_ceil(parts).checked_mul(parts)?;
        let fits = each().all(|(&period, &count)| perimeter / count <= period + period / SLACK);
        fits.then_some((counts, perimeter))
    })
}

fn gcd(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { gcd(b, a % b) }
}

/// What the jobs want of one link: for each job its arcs in an iteration.
type Wanted<'a> = Vec<&'a [Arc]>;

/// The shifts at which links are asked for the least beyond what they have, of equals those at
/// which jobs are: iterations that begin so many nanoseconds after one of the first job. `None`
/// where periods do not fit each other, so that jobs meet at all times.
pub(super) fn places(jobs: &[&Rhythm], begun: &[i128]) -> Option<Places> {
    let periods: Vec<u64> = jobs.iter().map(|job| job.period).collect();
    let (counts, perimeter) = unified(&periods)?;
    let every: Vec<u64> = counts.iter().map(|count| perimeter / count).collect();
    let present = begun.iter().zip(&every).map(|(begun, &every)| begun.rem_euclid(every.into()) as u64);
    let mut search = Search {
        wanted: wanted(jobs),
        every: &every,
        present: present.collect(),
        perimeter,
        ends: 0,
        best: None,
        shifts: vec![None; jobs.len()],
    };
    search.shifts[0] = Some(0);
    search.place_another(0.0);
    let (excess, shifts) = search.best?;
    Some(Places { is_compatible: excess <= NEGLIGIBLE * perimeter as f64, every, shifts })
}

/// The part of a turn in which an excess is rounding.
const NEGLIGIBLE: f64 = 1e-6;

/// Returns whether jobs with these arcs on a link could ask for more than it has.
pub(super) fn can_be_full<'a>(of_jobs: impl Iterator<Item = &'a [Arc]>) -> bool {
    let most = of_jobs.map(|arcs| arcs.iter().map(|arc| arc.share).fold(0.0, f64::max));
    most.sum::<f64>() > 1.0 + 1e-9
}

/// What jobs want of each link that they could fill, each different case once.
fn wanted<'a>(jobs: &[&'a Rhythm]) -> Vec<Wanted<'a>> {
    let mut different: BTreeMap<Vec<Vec<[u64; 3]>>, Wanted<'a>> = BTreeMap::new();
    let links: BTreeSet<LinkId> = jobs.iter().flat_map(|job| job.links.keys().copied()).collect();
    for link in links {
        let of_jobs = jobs.iter().map(|job| job.links.get(&link).map_or(&[][..], Vec::as_slice));
        let of_jobs: Wanted<'a> = of_jobs.collect();
        if can_be_full(of_jobs.iter().copied()) {
            let key = of_jobs.iter().map(|arcs| {
                arcs.iter().map(|arc| [arc.from, arc.to, arc.share.to_bits()]).collect::<Vec<_>>()
            });
            different.insert(key.collect(), of_jobs);
        }
    }
    different.into_values().collect()
}

/// A search for the best shifts, job after job, of which the most promising are tried first.
struct Search<'a> {
    wanted: Vec<Wanted<'a>>,
    every: &'a [u64],
    /// The shifts at which jobs are.
    present: Vec<u64>,
    perimeter: u64,
    /// The ends of arcs that were looked at.
    ends: usize,
    best: Option<(f64, Vec<u64>)>,
    /// Those of jobs that have been placed.
    shifts: Vec<Option<u64>>,
}

impl Search<'_> {
    fn place_another(&mut self, excess: f64) {
        if self.best.as_ref().is_some_and(|(best, _)| *best <= excess) {
            return;
        }
        let left: Vec<usize> = (0..self.shifts.len()).filter(|&job| self.shifts[job].is_none()).collect();
        if left.is_empty() {
            self.best = Some((excess, self.shifts.iter().map(|shift| shift.unwrap_or(0)).collect()));
            return;
        }
        let mut next = Vec::new();
        for job in left {
            let moved = if self.is_spent() { BTreeSet::new() } else { self.candidates(job) };
            let present = self.present[job];
            for shift in [present].into_iter().chain(moved.into_iter().filter(|&shift| shift != present)) {
                self.shifts[job] = Some(shift);
                next.push((self.excess(), shift != present, job, shift));
                if self.is_spent() {
                    break;
                }
            }
            self.shifts[job] = None;
            if self.is_spent() {
                break;
            }
        }
        next.sort_by(|a, b| a.0.total_cmp(&b.0).then((a.1, a.2, a.3).cmp(&(b.1, b.2, b.3))));
        for (excess, _, job, shift) in next {
            if self.best.is_some() && self.is_spent() {
                return;
            }
            self.shifts[job] = Some(shift);
            self.place_another(excess);
            self.shifts[job] = None;
        }
    }

    /// Returns whether all looks that a search has are taken.
    fn is_spent(&self) -> bool {
        self.ends >= MOST_ENDS
    }

    /// Shifts of a job at which it meets a job that has been placed end to end, and none at all.
    fn candidates(&self, job: usize) -> BTreeSet<u64> {
        let every = self.every[job];
        let mut found = BTreeSet::from([0]);
        for wanted in &self.wanted {
            let placed = (0..wanted.len()).filter_map(|other| Some((other, self.shifts[other]?)));
            for (other, shift) in placed.filter(|&(other, _)| other != job) {
                for (theirs, own) in
                    wanted[other].iter().flat_map(|arc| wanted[job].iter().map(move |own| (arc, own)))
                {
                    for turn in 0..self.perimeter / self.every[other] {
                        let begin = shift + turn * self.every[other];
                        // Both sums stay above what is taken from them.
                        found.insert((begin + theirs.to + self.perimeter - own.from % every) % every);
                        found.insert((begin + theirs.from + self.perimeter - own.to % every) % every);
                        if found.len() > MOST_SHIFTS {
                            return found;
                        }
                    }
                }
            }
        }
        found
    }

    /// What placed jobs ask for beyond what links have, in times of a full link.
    fn excess(&mut self) -> f64 {
        let (mut all, mut ends) = (0.0, 0);
        for wanted in &self.wanted {
            let mut changes: Vec<(u64, f64)> = Vec::new();
            for (job, arcs) in wanted.iter().enumerate() {
                let Some(shift) = self.shifts[job] else { continue };
                for turn in 0..self.perimeter / self.every[job] {
                    let begin = shift + turn * self.every[job];
                    for arc in *arcs {
                        let length = (arc.to - arc.from).min(self.perimeter);
                        let from = (begin + arc.from) % self.perimeter;
                        changes.push((from, arc.share));
                        changes.push(((from + length).min(self.perimeter), -arc.share));
                        if from + length > self.perimeter {
                            changes.push((0, arc.share));
                            changes.push((from + length - self.perimeter, -arc.share));
                        }
                    }
                }
            }
            ends += changes.len();
            changes.sort_by(|a, b| a.0.cmp(&b.0).then(a.1.total_cmp(&b.1)));
            let (mut load, mut since) = (0.0_f64, 0);
            for (at, change) in changes {
                // Sums of shares are off by rounding.
                all += (load - 1.0 - 1e-9).max(0.0) * (at - since) as f64;
                (load, since) = (load + change, at);
            }
        }
        self.ends += ends.max(1);
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const LINK: LinkId = LinkId(0);

    /// A job that computes and then fills a link.
    fn job(computes: u64, sends: u64) -> Rhythm {
        let arc = Arc { from: 0, to: sends, share: 1.0 };
        Rhythm { period: computes + sends, links: BTreeMap::from([(LINK, vec![arc])]) }
    }

    fn wants(job: &Rhythm, at: u64) -> bool {
        let at = at % job.period;
        job.links[&LINK].iter().any(|arc| arc.from <= at && at < arc.to)
    }

    /// Steps of a turn in which both want the link.
    fn overlap(jobs: [&Rhythm; 2], shift: u64) -> u64 {
        let around = jobs[0].period * jobs[1].period;
        (0..around).filter(|&at| wants(jobs[0], at) && wants(jobs[1], at + around - shift)).count() as u64
    }

    proptest! {
        #[test]
        fn of_two_jobs_the_shift_is_as_good_as_any(
            one in (1u64..6, 1u64..6), other in (1u64..6, 1u64..6),
        ) {
            let jobs = [&job(one.0, one.1), &job(other.0, other.1)];
            let found = places(&jobs, &[0, 0]).expect("short periods fit");
            prop_assert_eq!(&found.every, &[jobs[0].period, jobs[1].period]);
            let least = (0..jobs[1].period).map(|shift| overlap(jobs, shift)).min().unwrap();
            prop_assert_eq!(overlap(jobs, found.shifts[1]), least);
            prop_assert_eq!(found.is_compatible, least == 0);
        }

        #[test]
        fn jobs_of_one_period_fit_where_they_send_no_longer_than_it_takes(
            sends in prop::collection::vec(1u64..20, 2..5), spare in 0u64..5, lacks in any::<bool>(),
        ) {
            let all: u64 = sends.iter().sum();
            let period = if lacks { all - 1 } else { all + spare };
            prop_assume!(sends.iter().all(|&send| send < period));
            let jobs: Vec<Rhythm> = sends.iter().map(|&send| job(period - send, send)).collect();
            let begun = vec![0; jobs.len()];
            let found = places(&jobs.iter().collect::<Vec<_>>(), &begun).expect("equal periods fit");
            prop_assert_eq!(found.is_compatible, !lacks);
        }
    }

    #[test]
    fn periods_that_nearly_fit_are_made_to_and_others_are_not() {
        let [ours, near, far] = [(600_000, 400_000), (604_000, 400_000), (310_000, 200_000)]
            .map(|(computes, sends)| job(computes, sends));
        let found = places(&[&ours, &near], &[0, 0]).expect("less than a two-hundredth is missing");
        assert_eq!((found.every, found.is_compatible), (vec![1_004_000; 2], true));
        assert_eq!(
            places(&[&ours, &far], &[0, 0]),
            None,
            "no twelve iterations of the one are some of the other"
        );
    }

    #[test]
    fn jobs_that_want_half_a_link_each_are_left_where_they_are() {
        let mut half = job(1, 3);
        half.links.get_mut(&LINK).unwrap()[0].share = 0.5;
        for (begun, shift) in [(0, 0), (3, 3), (6, 2), (-1, 3)] {
            let found = places(&[&half, &half], &[0, begun]).unwrap();
            assert_eq!((found.shifts, found.is_compatible), (vec![0, shift], true));
        }
    }

    #[test]
    fn jobs_that_are_apart_are_left_where_they_are() {
        let jobs = [&job(3, 1), &job(3, 1)];
        assert_eq!(places(&jobs, &[0, 2]).unwrap().shifts, [0, 2]);
        assert_ne!(places(&jobs, &[0, 0]).unwrap().shifts, [0, 0]);
    }

    #[test]
    fn periods_of_which_no_common_multiple_can_be_written_do_not_fit() {
        let periods = [1_000_000_000, 100_003, 100_019, 100_043, 100_057, 100_069, 100_103];
        let jobs = periods.map(|period| job(period - 1, 1));
        assert_eq!(places(&jobs.each_ref(), &[0; 7]), None);
    }

    #[test]
    fn many_jobs_with_many_arcs_have_places_after_a_bounded_search() {
        let arcs: Vec<Arc> =
            (0..40).map(|arc| Arc { from: 20 * arc, to: 20 * arc + 10, share: 1.0 }).collect();
        let all = Rhythm { period: 800, links: BTreeMap::from([(LINK, arcs)]) };
        let found = places(&[&all; 32], &[0; 32]).unwrap();
        assert!(!found.is_compatible && found.shifts.len() == 32);
    }

    #[test]
    fn one_shift_serves_all_links_that_a_job_shares() {
        // The first meets the second on one link and the third on another; these two meet nowhere.
        let on = |link: u32, from: u64| (LinkId(link), vec![Arc { from, to: from + 1, share: 1.0 }]);
        let of = |links: Vec<_>| Rhythm { period: 3, links: links.into_iter().collect() };
        let jobs = [of(vec![on(0, 0), on(1, 1)]), of(vec![on(0, 0)]), of(vec![on(1, 0)])];
        let found = places(&jobs.each_ref(), &[0; 3]).unwrap();
        assert!(found.is_compatible);
        assert_eq!(found.shifts[0], 0);
        assert!(found.shifts[1] != 0 && found.shifts[2] != 1, "{found:?}");
    }
}
