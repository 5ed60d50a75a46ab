//! MLTCP: jobs whose flows weigh more as their iteration goes on move apart, where anything has one
//! of them ahead.

#![allow(clippy::unwrap_used, reason = "a test whose scene cannot be set has failed")]

mod cards;

use cavalcade_model::{Bytes, Instant, Nanos, SplitMix64};
use cavalcade_training::Job;

/// The time for which a job exchanges where it has its cards to itself.
const EXCHANGE: u64 = 1_000_000;

/// Equal jobs on network cards that all of them share. Each computes for `computes` exchanges, and
/// begins so many nanoseconds late: the iterations of all.
fn run(computes: u64, late: &[u64], iterations: u32, policy: &str) -> Vec<Vec<Nanos>> {
    let program = cards::in_turn(Nanos(computes * EXCHANGE), &[Bytes(EXCHANGE)]);
    let places = late.iter().zip(0..);
    let jobs: Vec<Job> =
        places.map(|(&late, place)| cards::job(place, program.clone(), Instant(late), iterations)).collect();
    cards::iterations(&jobs, policy)
}

/// The first iteration from which on none of any job is longer than alone by more than this share.
fn apart_from(found: &[Vec<Nanos>], alone: u64, share: f64) -> usize {
    let count = found[0].len();
    let is_apart = |nth: usize| found.iter().all(|all| all[nth].as_f64() <= alone as f64 * (1.0 + share));
    (0..count).rev().find(|&nth| !is_apart(nth)).map_or(0, |last| last + 1)
}

#[test]
fn two_equal_jobs_stay_in_lockstep_if_none_is_ahead_and_move_apart_if_one_is() {
    let alone = 2 * EXCHANGE;
    let together = run(1, &[0, 0], 40, "mltcp");
    assert!(together.iter().flatten().all(|&time| time == Nanos(3 * EXCHANGE)), "{together:?}");
    for late in [EXCHANGE / 1000, EXCHANGE / 100, EXCHANGE / 10, EXCHANGE / 2] {
        let starts = [0, late];
        assert_eq!(apart_from(&run(1, &starts, 40, "fair"), alone, 0.01), 40, "{late}");
        let found = apart_from(&run(1, &starts, 40, "mltcp"), alone, 0.01);
        assert!(found <= 6, "{late}: {found}");
    }
}

/// N equal jobs that fit: fair sharing keeps (2N − 1)/N of alone whatever the start; with weights
/// they are as alone after ten iterations.
#[test]
fn many_equal_jobs_move_apart_within_ten_iterations_whatever_their_starts() {
    for jobs in [3, 4, 8] {
        for seed in 0..8 {
            let mut random = SplitMix64::new(seed);
            let starts: Vec<u64> = (0..jobs).map(|_| random.below(EXCHANGE / 10)).collect();
            let apart = |policy| apart_from(&run(jobs - 1, &starts, 30, policy), jobs * EXCHANGE, 0.01);
            assert!(apart("mltcp") <= 10 && apart("fair") == 30, "{jobs} {starts:?}: {}", apart("mltcp"));
        }
    }
}
