//! Jobs with a rank on each of two hosts, on network cards that all of them share.

#![allow(clippy::unwrap_used, reason = "a test whose scene cannot be set has failed")]
#![allow(dead_code, reason = "each test uses some of it")]

use cavalcade_model::{BitsPerSec, Bytes, Instant, Nanos};
use cavalcade_sim_fluid::{Options, simulate};
use cavalcade_training::{
    Algorithm, Cluster, ClusterOptions, Collective, CollectiveKind, Figures, Gpu, GroupKind, Job, Program,
    ProgramBuilder, Stream, measure, plan,
};

/// Two hosts with so many GPUs and one card of 8 Gbps, and nothing else in the way: a byte takes a
/// nanosecond.
pub(crate) fn shared(gpus: u32) -> ClusterOptions {
    ClusterOptions {
        hosts: 2,
        gpus,
        nics: 1,
        nic: BitsPerSec(8_000_000_000),
        scale_up: None,
        leaves: None,
        alpha: Nanos::ZERO,
        scale_up_alpha: Nanos::ZERO,
    }
}

/// Each rank computes, then both exchange in so many collectives, one after the other.
pub(crate) fn in_turn(compute: Nanos, exchanges: &[Bytes]) -> Program {
    let mut builder = ProgramBuilder::new(2);
    for rank in 0..2 {
        builder.compute(Stream { rank, number: 0 }, compute);
    }
    let group = builder.group(GroupKind::Data, vec![0, 1]).unwrap();
    for &bytes in exchanges {
        builder.collective(Collective::new(group, CollectiveKind::AllReduce, bytes), 0).unwrap();
    }
    builder.build().unwrap()
}

/// The job with a program on the GPU at `place` of both hosts.
pub(crate) fn job(place: u32, program: Program, arrival: Instant, iterations: u32) -> Job {
    let gpus = [0, 1].map(|host| Gpu { host, place }).to_vec();
    let (name, algorithm) = (place.to_string(), Algorithm::Auto);
    Job { name, program, gpus, arrival, iterations, algorithm }
}

/// Runs jobs in the fluid.
pub(crate) fn run(options: &ClusterOptions, jobs: &[Job], policy: &str) -> Figures {
    let cluster = Cluster::new(options).unwrap();
    let plan = plan(&cluster, jobs).unwrap();
    let fabric = cluster.fabric().build(BitsPerSec(1)).unwrap();
    let policy = cavalcade_policy::parse(policy).unwrap();
    let outcome = simulate(&plan.workload, &fabric, &policy, &Options::default(), None).unwrap();
    measure(&plan, jobs, &fabric, &outcome)
}

/// The iterations of each job under a policy.
pub(crate) fn iterations(jobs: &[Job], policy: &str) -> Vec<Vec<Nanos>> {
    let figures = run(&shared(jobs.len() as u32), jobs, policy);
    figures.jobs.into_iter().map(|job| job.iterations).collect()
}
