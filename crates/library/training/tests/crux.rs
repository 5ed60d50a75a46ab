//! Crux on training jobs that share network cards: GPUs are no less busy than under fair sharing.

#![allow(clippy::unwrap_used, reason = "a test whose scene cannot be set has failed")]

mod cards;

use cards::run;
use cavalcade_model::{BitsPerSec, Bytes, Instant, Nanos};
use cavalcade_training::{
    Algorithm, ClusterOptions, Collective, CollectiveKind, Gpu, GroupKind, Job, Options, Program,
    ProgramBuilder, Stream, WorkloadFile, read,
};

/// A job on GPUs of two hosts, of which each has its ranks at `places`.
fn job(name: &str, program: Program, hosts: u32, places: &[u32], iterations: u32) -> Job {
    let gpus = (0..hosts).flat_map(|host| places.iter().map(move |&place| Gpu { host, place })).collect();
    let (name, arrival, algorithm) = (name.to_owned(), Instant::ZERO, Algorithm::Auto);
    Job { name, program, gpus, arrival, iterations, algorithm }
}

/// A rank on each of two hosts: each computes, then both exchange in so many collectives of a
/// millisecond for each MB.
fn in_turn(compute_ms: u64, megabytes: &[u64]) -> Program {
    let exchanges: Vec<Bytes> = megabytes.iter().map(|size| Bytes(size * 1_000_000)).collect();
    cards::in_turn(Nanos::from_millis(compute_ms), &exchanges)
}

/// The same on two streams, of which none waits for the other.
fn side_by_side(compute_ms: u64, megabytes: u64) -> Program {
    let mut builder = ProgramBuilder::new(2);
    for rank in 0..2 {
        builder.compute(Stream { rank, number: 0 }, Nanos::from_millis(compute_ms));
    }
    let group = builder.group(GroupKind::Data, vec![0, 1]).unwrap();
    let collective = Collective::new(group, CollectiveKind::AllReduce, Bytes(megabytes * 1_000_000));
    builder.collective(collective, 1).unwrap();
    builder.build().unwrap()
}

#[test]
fn a_mix_of_three_jobs_is_not_below_fair() {
    let options = cards::shared(3);
    let jobs = [
        job("always sends", side_by_side(1, 6), 2, &[0], 60),
        job("two in a row", in_turn(6, &[2, 2]), 2, &[1], 60),
        job("even", in_turn(3, &[3]), 2, &[2], 60),
    ];
    let [fair, crux] = ["fair", "crux"].map(|policy| run(&options, &jobs, policy).gpu_use);
    assert!(crux > 1.1 * fair, "{crux} and {fair}");
}

#[test]
fn a_mix_of_three_real_workloads_is_not_below_fair() {
    let mut jobs = Vec::new();
    for (place, name, tensor, iterations) in [
        (0, "G13B-M1-C01_GPT13B_megatron_tp8_pp1_mbs1_A100", 8, 6),
        (1, "L65B-M1-C05_Llama65B_megatron_tp8_pp1_mbs1_A100", 8, 10),
        (2, "L7B-D1-C02_Llama7B_deepspeed_zero3_A100", 1, 4),
    ] {
        let path = format!("ai/aicb/{name}.txt");
        let Some(bytes) = cavalcade_testing::public_data(&path) else { return };
        let file = WorkloadFile { name: path, content: Box::new(&bytes[..]) };
        let options = Options { ranks: Some(32), tensor: Some(tensor), ..Options::default() };
        let program = read(vec![file], &options).unwrap().program;
        let places: Vec<u32> = (0..8).map(|nth| 3 * nth + place).collect();
        jobs.push(job(name, program, 4, &places, iterations));
    }
    let options = ClusterOptions {
        hosts: 4,
        gpus: 24,
        nics: 8,
        nic: BitsPerSec(200_000_000_000),
        scale_up: Some(BitsPerSec(2_400_000_000_000)),
        leaves: None,
        alpha: Nanos::ZERO,
        scale_up_alpha: Nanos::ZERO,
    };
    let [fair, sebf, crux] = ["fair", "sebf", "crux"].map(|policy| run(&options, &jobs, policy));
    let said = [&fair, &sebf, &crux].map(|figures| (figures.gpu_use, figures.window[1]));
    assert!(crux.gpu_use >= fair.gpu_use, "{said:?}");
}
