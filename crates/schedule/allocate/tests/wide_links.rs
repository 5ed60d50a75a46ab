//! Links with priorities of their own on a switch of more ports than a word has bits, under coflows
//! that are wide enough to be counted 64 flows at a time: what random sequences on four ports do
//! not reach.

#![allow(clippy::unwrap_used, reason = "a test whose scene cannot be set has failed")]

use cavalcade_allocate::reference::{self, Past};
use cavalcade_allocate::{Allocator, Due, Load, select};
use cavalcade_model::{BitsPerSec, Discipline, Fabric, Priority, Scope, Terms};
use proptest::prelude::*;
use proptest::test_runner::{RngAlgorithm, TestRng, TestRunner};

const PORTS: u32 = 70;

/// A coflow: each of its senders to each of its receivers.
#[derive(Clone, Debug)]
struct Shuffle {
    senders: Vec<u32>,
    receivers: Vec<u32>,
    bytes: Vec<u32>,
    /// The order at each link.
    ranks: Vec<u8>,
}

fn shuffle(ranks: u8) -> impl Strategy<Value = Shuffle> {
    let ports = || {
        let wide = proptest::sample::subsequence((0..PORTS).collect::<Vec<u32>>(), 15..25);
        prop_oneof![wide, proptest::collection::vec(0..PORTS, 1..4)]
    };
    let bytes = proptest::collection::vec(1_000u32..2_000, 1..4);
    let ranks = proptest::collection::vec(0..ranks, 2 * PORTS as usize);
    (ports(), ports(), bytes, ranks).prop_map(|(senders, receivers, bytes, ranks)| Shuffle {
        senders,
        receivers,
        bytes,
        ranks,
    })
}

fn agrees(shuffles: &[Shuffle], steps: usize) {
    let rate = BitsPerSec(8_000_000_000);
    let fabric = Fabric::big_switch(PORTS, rate).unwrap();
    let terms = Terms::strict(Scope::Link, Discipline::MaxMin);
    let links = 2 * PORTS;
    let (mut fill, _) =
        select(&terms, &fabric, Load { flows: 10_000, is_wide: true }, Allocator::Incremental);
    fill.reserve_accounts(shuffles.len() * links as usize);
    let mut flows: Vec<([u32; 2], [Priority; 2], u32)> = Vec::new();
    for (coflow, shuffle) in (0..).zip(shuffles) {
        let account = |link: u32| coflow * links + link;
        let priority = |link: u32| Priority::new(0, u64::from(shuffle.ranks[link as usize]));
        let keys: Vec<(u32, Priority)> = (0..links).map(|link| (account(link), priority(link))).collect();
        fill.set_account_keys(&keys, 0.0);
        for &sender in &shuffle.senders {
            for &receiver in &shuffle.receivers {
                let path = [sender, PORTS + receiver];
                let bytes = shuffle.bytes[flows.len() % shuffle.bytes.len()];
                fill.add(flows.len() as u32, &path, &path.map(account), f64::from(bytes), 0.0);
                flows.push((path, path.map(priority), coflow));
            }
        }
    }
    let (mut is_over, mut now) = (vec![false; flows.len()], 0.0);
    for _ in 0..steps {
        fill.refill(now);
        let there: Vec<usize> = (0..flows.len()).filter(|&flow| !is_over[flow]).collect();
        let asked = there.iter().map(|&flow| reference::Flow {
            path: &flows[flow].0,
            coflow: flows[flow].2,
            priorities: &flows[flow].1,
            remaining: 1.0,
            cap: f64::INFINITY,
        });
        let asked: Vec<reference::Flow<'_>> = asked.collect();
        let past = Past { rates: &[], same_coflows: false };
        let rates = reference::allocate(&terms, &vec![1.0; links as usize], &asked, past);
        for (&flow, defined) in there.iter().zip(rates) {
            let rate = fill.rate(flow as u32);
            assert!(
                (rate - defined).abs() < 1e-7,
                "flow {flow} gets {rate}, by the definition {defined}, at {now}"
            );
        }
        now = fill.next();
        let mut due = Due::default();
        fill.take_due(now, &mut due);
        due.finished.iter().for_each(|&flow| is_over[flow as usize] = true);
    }
}

/// Tries a few cases, the same in each run.
fn try_all(shuffles: impl Strategy<Value = Vec<Shuffle>>) {
    let config = ProptestConfig { cases: 12, failure_persistence: None, ..ProptestConfig::default() };
    let rng = TestRng::deterministic_rng(RngAlgorithm::ChaCha);
    let result = TestRunner::new_with_rng(config, rng).run(&shuffles, |shuffles| {
        agrees(&shuffles, 4);
        Ok(())
    });
    if let Err(error) = result {
        panic!("{error}");
    }
}

#[test]
fn links_that_contradict_each_other_agree_with_the_definition() {
    try_all(proptest::collection::vec(shuffle(3), 3..6));
}

#[test]
fn links_that_tie_what_others_rank_agree_with_the_definition() {
    // A later coflow goes behind an earlier one, or is tied with it.
    let ranked = proptest::collection::vec(shuffle(2), 3..6).prop_map(|mut shuffles| {
        for (coflow, shuffle) in (0..).zip(&mut shuffles) {
            shuffle.ranks.iter_mut().for_each(|rank| *rank += coflow);
        }
        shuffles
    });
    try_all(ranked);
}
