//! CASSINI's circle: two training jobs on one link lose nothing if one of them begins later by the
//! right time, if there is one; and the policy `cassini`, which finds it.

#![allow(clippy::unwrap_used, reason = "a test whose scene cannot be set has failed")]

use cavalcade_model::{BitsPerSec, Bytes, Instant, Nanos};
use cavalcade_sim_fluid::{Options, simulate};
use cavalcade_training::{
    Algorithm, Cluster, ClusterOptions, Collective, CollectiveKind, Gpu, GroupKind, Job, ProgramBuilder,
    Stream, measure, plan,
};

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
    let options = ClusterOptions {
        hosts: 2,
        gpus: jobs.len() as u32,
        nics: 1,
        nic: BitsPerSec(8_000_000_000),
        scale_up: None,
        leaves: None,
        alpha: Nanos::ZERO,
        scale_up_alpha: Nanos::ZERO,
    };
    let cluster = Cluster::new(&options).unwrap();
    let job = |(place, &(Periodic { computes, exchanges }, late)): (usize, &(Periodic, u64))| {
        let mut builder = ProgramBuilder::new(2);
        for rank in 0..2 {
            builder.compute(Stream { rank, number: 0 }, Nanos::from_millis(computes));
        }
        let group = builder.group(GroupKind::Data, vec![0, 1]).unwrap();
        let bytes = Bytes(exchanges * 1_000_000);
        builder.collective(Collective::new(group, CollectiveKind::AllReduce, bytes), 0).unwrap();
        Job {
            name: place.to_string(),
            program: builder.build().unwrap(),
            gpus: [0, 1].map(|host| Gpu { host, place: place as u32 }).to_vec(),
            arrival: Instant(Nanos::from_millis(late).get()),
            iterations,
            algorithm: Algorithm::Auto,
        }
    };
    let planned: Vec<Job> = jobs.iter().enumerate().map(job).collect();
    let plan = plan(&cluster, &planned).unwrap();
    let fabric = cluster.fabric().build(BitsPerSec(1)).unwrap();
    let policy = cavalcade_policy::parse(policy).unwrap();
    let outcome = simulate(&plan.workload, &fabric, &policy, &Options::default(), None).unwrap();
    measure(&plan, &planned, &fabric, &outcome).jobs.into_iter().map(|job| job.iterations).collect()
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
