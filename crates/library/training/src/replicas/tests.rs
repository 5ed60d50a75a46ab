#![allow(clippy::unwrap_used, reason = "a test whose scene cannot be set has failed")]

use std::sync::Arc;

use cavalcade::{Conditions, Engine, Packets, Scenario, Transport};
use cavalcade_metrics::Outcome;
use cavalcade_model::{BitsPerSec, Instant, Nanos, SplitMix64};
use cavalcade_sim_fluid::{Options as Fluid, simulate};

use super::*;
use crate::cluster::{ClusterOptions, Gpu, Leaves};
use crate::collective::{Algorithm, CollectiveKind, GroupKind};
use crate::measure::{Figures, measure};
use crate::plan::{MOST_FLOWS, MOST_STAGES, Plan, plan, plan_whole};
use crate::timeline::Timeline;

struct Random(SplitMix64);

impl Random {
    fn below(&mut self, most: u64) -> u64 {
        self.0.bits() % most
    }

    fn one<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.below(of.len() as u64) as usize]
    }

    fn cluster(&mut self, hosts: u32, gpus: u32) -> Cluster {
        let leaves = Leaves {
            hosts: 2,
            spines: 2,
            oversubscription: "2".parse().unwrap(),
            by_rail: self.below(2) == 0,
        };
        Cluster::new(&ClusterOptions {
            hosts,
            gpus,
            nics: if gpus.is_multiple_of(2) && self.below(2) == 0 { gpus / 2 } else { gpus },
            nic: BitsPerSec(8_000_000_000),
            scale_up: (self.below(4) > 0).then_some(BitsPerSec(32_000_000_000)),
            leaves: (self.below(2) == 0).then_some(leaves),
            alpha: Nanos(self.one(&[0, 7])),
            scale_up_alpha: Nanos(self.one(&[0, 3])),
        })
        .unwrap()
    }

    /// A row of `ranks`, a power of two, in groups of neighbours and of those as far apart as these
    /// are large.
    fn row(&mut self, ranks: u32) -> Program {
        let tensor = (1 << self.below(3)).min(ranks);
        let mut row = Row::new(ranks);
        for _ in 0..1 + self.below(5) {
            if self.below(2) == 0 {
                row.compute(Nanos(self.below(3_000)));
            }
            let (group, size, stride) = self.one(&[
                (GroupKind::Tensor, tensor, 1),
                (GroupKind::Data, ranks / tensor, tensor),
                (GroupKind::Other, ranks, 1),
            ]);
            let groups = || {
                let firsts = (0..ranks).filter(|rank| rank % (size * stride) < stride);
                let members = |first| (0..size).map(|nth| first + nth * stride).collect();
                firsts.map(members).collect()
            };
            let kind = self.one(&[
                CollectiveKind::AllReduce,
                CollectiveKind::AllGather,
                CollectiveKind::AllToAll,
                CollectiveKind::Broadcast,
                CollectiveKind::Barrier,
            ]);
            row.collective(group, groups, kind, Bytes(self.below(20_000))).unwrap();
        }
        row.program().unwrap()
    }

    fn job(&mut self, name: &str, gpus: Vec<Gpu>) -> Job {
        Job {
            name: name.to_owned(),
            program: self.row(gpus.len() as u32),
            gpus,
            arrival: Instant(self.below(2_000)),
            iterations: 1 + self.below(3) as u32,
            algorithm: self.one(&[
                Algorithm::Auto,
                Algorithm::Ring,
                Algorithm::RingSteps,
                Algorithm::Tree,
                Algorithm::HalvingDoubling,
                Algorithm::Direct,
                Algorithm::RailPhases,
            ]),
        }
    }
}

/// What a run of a plan says, with the spans of each rank.
fn said(cluster: &Cluster, jobs: &[Job], plan: &Plan, policy: &str) -> (Figures, Vec<String>) {
    let fabric = cluster.fabric().build(BitsPerSec(1)).unwrap();
    let policy = cavalcade_policy::parse(policy).unwrap();
    let run = |forgets_flows| {
        let options = Fluid { forgets_flows, ..Fluid::default() };
        simulate(&plan.workload, &fabric, &policy, &options, None).unwrap()
    };
    let outcome = run(true);
    assert_eq!(outcome, Outcome { flow_finish: Vec::new(), ..run(false) });
    let mut spans = Vec::new();
    for (index, job) in jobs.iter().enumerate() {
        let timeline = Timeline::of(plan, index, &outcome);
        timeline.each_rank(job, |rank, own| spans.push(format!("{rank} {own:?}")));
    }
    (measure(plan, jobs, &fabric, &outcome), spans)
}

#[test]
fn rank_0_has_the_times_of_all_ranks_under_every_policy() {
    let mut random = Random(SplitMix64::new(5));
    let (mut shortened, mut whole) = (0, 0);
    for round in 0..400 {
        let (hosts, gpus) = (random.one(&[1, 2, 4, 8]), random.one(&[1, 2, 4]));
        let cluster = random.cluster(hosts, gpus);
        let gpu = |host| (0..gpus).map(move |place| Gpu { host, place });
        let mut jobs = vec![random.job("a", (0..hosts).flat_map(gpu).collect())];
        if hosts > 1 && random.below(3) == 0 {
            // Two jobs, apart or in each other's way.
            let split = |host: &u32| if round % 2 == 0 { host.is_multiple_of(2) } else { *host < hosts / 2 };
            let (own, others): (Vec<u32>, Vec<u32>) = (0..hosts).partition(split);
            jobs = [("a", own), ("b", others)]
                .map(|(name, hosts)| random.job(name, hosts.into_iter().flat_map(gpu).collect()))
                .into();
        }
        let (short, full) = (plan(&cluster, &jobs).unwrap(), plan_whole(&cluster, &jobs).unwrap());
        if short.jobs.iter().all(|job| job.first.is_none()) {
            whole += 1;
            assert_eq!(short.workload, full.workload);
            continue;
        }
        shortened += 1;
        for about in cavalcade_policy::registry() {
            let found = said(&cluster, &jobs, &short, about.name);
            assert_eq!(found, said(&cluster, &jobs, &full, about.name), "{} {round}: {jobs:#?}", about.name);
        }
    }
    assert!(shortened > 100 && whole > 30, "{shortened} and {whole}");
}

/// The iterations over packets, under fair sharing.
fn over_packets(cluster: &Cluster, jobs: &[Job], plan: &Plan, transport: &Transport) -> Vec<Nanos> {
    let conditions = Conditions { fabric: Some(cluster.fabric()), ..Conditions::default() };
    let scenario = Scenario::new(Arc::clone(&plan.workload), conditions).unwrap();
    let scenario = scenario.on(Engine::Packet(Packets::over(transport.clone())));
    let figures = measure(plan, jobs, scenario.fabric(), &scenario.run().unwrap());
    figures.jobs.into_iter().flat_map(|job| job.iterations).collect()
}

#[test]
fn over_packets_rank_0_misses_no_more_than_the_last_answers_to_others() {
    let mut random = Random(SplitMix64::new(9));
    let (mut shortened, mut equal) = (0, 0);
    for round in 0..60 {
        let (hosts, gpus) = (random.one(&[2, 4]), random.one(&[1, 2, 4]));
        let cluster = random.cluster(hosts, gpus);
        let gpu = |host| (0..gpus).map(move |place| Gpu { host, place });
        let jobs = [random.job("a", (0..hosts).flat_map(gpu).collect())];
        let (short, full) = (plan(&cluster, &jobs).unwrap(), plan_whole(&cluster, &jobs).unwrap());
        if short.jobs[0].first.is_none() {
            continue;
        }
        shortened += 1;
        for transport in cavalcade::transport::registry() {
            let transport = Transport::from(&transport);
            let found = over_packets(&cluster, &jobs, &short, &transport);
            let expected = over_packets(&cluster, &jobs, &full, &transport);
            equal += usize::from(found == expected);
            // A header for each iteration.
            let allowed = Nanos(40);
            for (found, expected) in found.iter().zip(&expected) {
                let off = Nanos(found.0.abs_diff(expected.0));
                assert!(off <= allowed, "{} {round}: {found} {expected} {jobs:#?}", transport.name());
            }
        }
    }
    assert!(shortened > 20 && equal > 200, "{shortened} {equal}");
}

#[test]
fn a_row_that_rank_0_does_not_stand_for_is_refused_before_it_is_written_out() {
    let (hosts, gpus) = (1_152, 8);
    let ranks = hosts * gpus;
    let mut row = Row::new(ranks);
    // Every other GPU of four hosts.
    let experts = || {
        let firsts = (0..ranks).filter(|rank| rank % 32 < 2);
        firsts.map(|first| (0..16).map(|nth| first + 2 * nth).collect()).collect()
    };
    for _ in 0..1_000 {
        row.collective(GroupKind::Expert, experts, CollectiveKind::AllToAll, Bytes(16_000)).unwrap();
    }
    let job = Job {
        name: "experts".to_owned(),
        program: row.program().unwrap(),
        gpus: (0..hosts).flat_map(|host| (0..gpus).map(move |place| Gpu { host, place })).collect(),
        arrival: Instant::ZERO,
        iterations: 1,
        algorithm: Algorithm::Auto,
    };
    let planned = |nics| {
        let cluster = Cluster::new(&ClusterOptions {
            hosts,
            gpus,
            nics,
            nic: BitsPerSec(8_000_000_000),
            scale_up: None,
            leaves: None,
            alpha: Nanos::ZERO,
            scale_up_alpha: Nanos::ZERO,
        });
        plan(&cluster.unwrap(), std::slice::from_ref(&job)).map(|plan| plan.workload.coflow_count())
    };
    assert_eq!(planned(8), Ok(1_000));
    // Groups share network cards.
    assert_eq!(planned(4), Err(PlanError::TooLarge { stages: MOST_STAGES, flows: MOST_FLOWS }));
}
