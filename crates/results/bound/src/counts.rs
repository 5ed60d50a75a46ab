//! At each time, the link that holds up most: shortest remaining time first on every link, put
//! together over time.
//!
//! Shortest remaining time first does not only have the least sum on a link: at *every* time it has
//! done as many of the link's jobs as any schedule can. So of the jobs that could be done by `t` if
//! each were alone, those of link `p` beyond that count must still wait. The sum of completion
//! times is what it is in isolation, and on top the integral over time of how many the worst link
//! holds up at that time. [`super::single_link`] keeps one link for all times; this one takes
//! another at each.
//!
//! With `f₁ ≤ f₂ ≤ …` the floors of a link's jobs and `e₁ ≤ e₂ ≤ …` their ends under that order,
//! the link holds up one job more from each `fᵢ` and one less from each `max(eᵢ, fᵢ)`.
//!
//! It counts jobs, so it is there where all weigh the same. A job of several waves on a link is
//! taken to be there from the first.
//!
//! Cost: O(loads log loads) over all links.

use std::collections::{BTreeMap, BTreeSet};

use crate::problem::Problem;
use crate::single_link::{ends, pieces};

/// The bound, and the links that are the worst at some time. `None` where weights differ, or times
/// are beyond 2⁶² ns.
pub(crate) fn bound(problem: &Problem) -> Option<(u128, Vec<u32>)> {
    let weight = problem.jobs.first().map_or(1, |job| job.weight);
    if problem.jobs.iter().any(|job| job.weight != weight || job.floor >= 1 << 62) {
        return None;
    }
    // How many more or fewer each link holds up, by time.
    let mut changes: BTreeMap<u64, Vec<(u32, i64)>> = BTreeMap::new();
    for (link, loads) in problem.links.iter().enumerate() {
        let on_link = pieces(&problem.jobs, loads);
        let mut floors: Vec<u64> = on_link.iter().map(|(job, _)| problem.jobs[*job as usize].floor).collect();
        floors.sort_unstable();
        let ends = ends(on_link.into_iter().map(|(_, piece)| piece).collect());
        for (floor, end) in floors.into_iter().zip(ends).filter(|(floor, end)| end > floor) {
            changes.entry(floor).or_default().push((link as u32, 1));
            changes.entry(end).or_default().push((link as u32, -1));
        }
    }
    let (area, worst) = area(problem.links.len(), changes);
    Some((problem.isolation() + u128::from(weight) * area, worst))
}

/// The integral of the largest number that a link holds up, and the links that have it at some
/// time.
fn area(links: usize, changes: BTreeMap<u64, Vec<(u32, i64)>>) -> (u128, Vec<u32>) {
    let mut held = vec![0i64; links];
    // Links by how many they hold up; the first of those with most stands for the others.
    let mut by_count: BTreeMap<i64, BTreeSet<u32>> = BTreeMap::new();
    let mut worst = BTreeSet::new();
    let (mut from, mut area) = (0, 0u128);
    for (at, changes) in changes {
        if let Some((&most, links)) = by_count.last_key_value() {
            area += u128::from(at - from) * most as u128;
            worst.extend(links.first());
        }
        for (link, change) in changes {
            let held = &mut held[link as usize];
            if let Some(links) = by_count.get_mut(held) {
                links.remove(&link);
                if links.is_empty() {
                    by_count.remove(held);
                }
            }
            *held += change;
            if *held > 0 {
                by_count.entry(*held).or_default().insert(link);
            }
        }
        from = at;
    }
    (area, worst.into_iter().collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::problem::{Job, Load};

    #[test]
    fn each_time_has_its_worst_link() {
        // Two jobs on the first link from 0, two on the second from 100; each takes 10.
        let job = |release| Job { release, floor: release + 10, weight: 1, due: None };
        let load = |release, job| Load { release, job, busy: 10 };
        let problem = Problem {
            jobs: vec![job(0), job(0), job(100), job(100)],
            links: vec![vec![load(0, 0), load(0, 1)], vec![load(100, 2), load(100, 3)]],
        };
        // One of each pair waits 10 for the other; a single link would count one of them only.
        assert_eq!(bound(&problem), Some((4 * 10 + 2 * 10, vec![0, 1])));
        assert_eq!(crate::single_link::best(&problem).map(|(sum, _)| sum), Some(4 * 10 + 10));
    }

    #[test]
    fn weights_that_differ_are_not_counted() {
        let job = |weight| Job { release: 0, floor: 1, weight, due: None };
        let problem = Problem { jobs: vec![job(1), job(2)], links: Vec::new() };
        assert_eq!(bound(&problem), None);
    }
}
