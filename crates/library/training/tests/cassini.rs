//! CASSINI's circle: two training jobs on one link lose nothing if one of them begins later by the
//! right time, if there is one.

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

/// The jobs on network cards that they share, under fair sharing: whether no iteration lasts longer
/// than alone.
fn lose_nothing(jobs: [Periodic; 2], shift: u64) -> bool {
    let options = ClusterOptions {
        hosts: 2,
        gpus: 2,
        nics: 1,
        nic: BitsPerSec(8_000_000_000),
        scale_up: None,
        leaves: None,
        alpha: Nanos::ZERO,
        scale_up_alpha: Nanos::ZERO,
    };
    let cluster = Cluster::new(&options).unwrap();
    let job = |(place, Periodic { computes, exchanges }): (u32, Periodic)| {
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
            gpus: vec![Gpu { host: 0, place }, Gpu { host: 1, place }],
            arrival: Instant(Nanos::from_millis(if place == 1 { shift } else { 0 }).get()),
            iterations: 40,
            algorithm: Algorithm::Auto,
        }
    };
    let planned = [(0, jobs[0]), (1, jobs[1])].map(job);
    let plan = plan(&cluster, &planned).unwrap();
    let fabric = cluster.fabric().build(BitsPerSec(1)).unwrap();
    let fair = cavalcade_policy::parse("fair").unwrap();
    let outcome = simulate(&plan.workload, &fabric, &fair, &Options::default(), None).unwrap();
    let figures = measure(&plan, &planned, &fabric, &outcome);
    let mut all = figures.jobs.iter().zip(jobs);
    all.all(|(job, own)| job.iterations.iter().all(|&time| time == Nanos::from_millis(own.period())))
}

/// CASSINI: compatible jobs interleave without loss at the shift that the circle gives, others at
/// none.
#[test]
fn jobs_lose_nothing_at_exactly_the_shifts_at_which_the_circle_has_them_apart() {
    let kinds = [(1, 1), (2, 1), (1, 2), (3, 1), (2, 2), (4, 2)];
    let kinds = kinds.map(|(computes, exchanges)| Periodic { computes, exchanges });
    let (mut compatible, mut incompatible) = (0, 0);
    for (one, other) in kinds.iter().flat_map(|&one| kinds.map(|other| (one, other))) {
        let shifts = 0..other.period();
        let apart: Vec<u64> = shifts.clone().filter(|&shift| is_apart([one, other], shift)).collect();
        let without_loss: Vec<u64> = shifts.filter(|&shift| lose_nothing([one, other], shift)).collect();
        assert_eq!(without_loss, apart, "{one:?} {other:?}");
        if apart.is_empty() { incompatible += 1 } else { compatible += 1 }
    }
    assert!(compatible > 5 && incompatible > 5, "{compatible} {incompatible}");
}
