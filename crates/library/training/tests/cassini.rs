//! CASSINI's circle: two training jobs on one link lose nothing if one of them begins later by the
//! right time, if there is one; and the policy `cassini`, which finds it.

#![allow(clippy::unwrap_used, reason = "a test whose scene cannot be set has failed")]

mod cards;

use cavalcade_model::{Bytes, Instant, Nanos};
use cavalcade_training::Job;

/// A job that computes and then exchanges, for so many milliseconds each.
#[derive(Clone, Copy, Debug)]
struct Periodic {
    computes: u64,
    exchanges: u64,
}

impl Periodic {
    fn period(self) -> u64 {
        self.computes + self.exchanges
    }

    /// Whether it wants the link in the `at`th millisecond after its first arrival; negative before
    /// that.
    fn wants(self, at: i64) -> bool {
        at.rem_euclid(self.period() as i64) >= self.computes as i64
    }
}

/// The circle: jobs of these periods meet in the same way again after the least common multiple of
/// them.
fn is_apart(jobs: [Periodic; 2], shift: u64) -> bool {
    let [one, other] = jobs;
    let around = one.period() * other.period();
    (0..around as i64).all(|at| !(one.wants(at) && other.wants(at - shift as i64)))
}

/// Jobs on network cards that all of them share, of which each begins so many milliseconds late:
/// their iterations.
fn run(jobs: &[(Periodic, u64)], iterations: u32, policy: &str) -> Vec<Vec<Nanos>> {
    let job = |(&(Periodic { computes, exchanges }, late), place): (&(Periodic, u64), u32)| {
        let bytes = Bytes(exchanges * 1_000_000);
        let program = cards::in_turn(Nanos::from_millis(computes), &[bytes]);
        cards::job(place, program, Instant(Nanos::from_millis(late).get()), iterations)
    };
    let planned: Vec<Job> = jobs.iter().zip(0..).map(job).collect();
    cards::iterations(&planned, policy)
}

/// Whether no iteration lasts longer than alone under fair sharing where the second begins late.
fn lose_nothing(jobs: [Periodic; 2], shift: u64) -> bool {
    let found = run(&[(jobs[0], 0), (jobs[1], shift)], 40, "fair");
    found.iter().zip(jobs).all(|(all, own)| all.iter().all(|&time| time == Nanos::from_millis(own.period())))
}

/// Kinds of jobs of which some fit beside each other.
const KINDS: [Periodic; 6] = [
    Periodic { computes: 1, exchanges: 1 },
    Periodic { computes: 2, exchanges: 1 },
    Periodic { computes: 1, exchanges: 2 },
    Periodic { computes: 3, exchanges: 1 },
    Periodic { computes: 2, exchanges: 2 },
    Periodic { computes: 4, exchanges: 2 },
];

/// CASSINI: compatible jobs interleave without loss at the shift that the circle gives, others at
/// none.
#[test]
fn jobs_lose_nothing_at_exactly_the_shifts_at_which_the_circle_has_them_apart() {
    let (mut compatible, mut incompatible) = (0, 0);
    for (one, other) in KINDS.iter().flat_map(|&one| KINDS.map(|other| (one, other))) {
        let shifts = 0..other.period();
        let apart: Vec<u64> = shifts.clone().filter(|&shift| is_apart([one, other], shift)).collect();
        let without_loss: Vec<u64> = shifts.filter(|&shift| lose_nothing([one, other], shift)).collect();
        assert_eq!(without_loss, apart, "{one:?} {other:?}");
        if apart.is_empty() { incompatible += 1 } else { compatible += 1 }
    }
    assert!(compatible > 5 && incompatible > 5, "{compatible} {incompatible}");
}

/// The policy `cassini` on all pairs, however late the second begins: after the first iterations
/// each is as long as alone where the circle has them apart at any shift, and not where it has not.
#[test]
fn the_policy_brings_jobs_to_the_speed_that_they_have_alone_exactly_where_the_circle_can() {
    for (one, other) in KINDS.iter().flat_map(|&one| KINDS.map(|other| (one, other))) {
        let can = (0..other.period()).any(|shift| is_apart([one, other], shift));
        for late in [0, 1, 2] {
            let found = run(&[(one, 0), (other, late)], 40, "cassini");
            let as_alone = |(all, own): (&Vec<Nanos>, Periodic)| {
                all[8..].iter().all(|&time| time == Nanos::from_millis(own.period()))
            };
            let both = found.iter().zip([one, other]).all(as_alone);
            assert_eq!(both, can, "{one:?} {other:?} {late}: {found:?}");
        }
    }
}

/// N equal jobs that fit: fair sharing keeps them in lockstep, shifts part them.
#[test]
fn equal_jobs_that_start_together_are_parted_by_shifts() {
    for count in [2, 3, 4, 6] {
        let job = Periodic { computes: count - 1, exchanges: 1 };
        let jobs = vec![(job, 0); count as usize];
        let lockstep = Nanos::from_millis(2 * count - 1);
        assert!(run(&jobs, 20, "fair").iter().flatten().all(|&time| time == lockstep));
        for all in run(&jobs, 20, "cassini") {
            assert!(all[4..].iter().all(|&time| time == Nanos::from_millis(count)), "{count}: {all:?}");
        }
    }
}
