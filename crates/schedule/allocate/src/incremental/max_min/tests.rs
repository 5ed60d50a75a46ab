use super::*;

/// 100 Mbps, 1 Gbps and two rates that no power of two divides, in bytes per nanosecond.
const SLOW: f64 = 0.0125;
const MIDDLE: f64 = 0.125;
const FAST: f64 = 0.580_664_509_5;
const TARGET: f64 = 0.452_623_873_75;

fn key(order: u64) -> Key {
    Key { class: 0, order }
}

/// Fills flows that enter at 0 (slow), 1 (middle) or 2 (fast) and leave at 3 (the target), 4 and 5
/// (middle).
fn fill(flows: &[([u32; 2], u64, f64)]) -> MaxMinFill {
    let mut fill =
        MaxMinFill::new(vec![SLOW, MIDDLE, FAST, TARGET, MIDDLE, MIDDLE], &ClassShares::Strict, flows.len());
    let orders = flows.iter().map(|&(_, order, _)| order as u32).max().unwrap_or(0) + 1;
    fill.reserve_accounts(orders as usize);
    let keys: Vec<(u32, Key)> = (0..orders).map(|account| (account, key(account.into()))).collect();
    fill.set_account_keys(&keys, 0.0);
    for (flow, &(links, order, bytes)) in flows.iter().enumerate() {
        fill.add(flow as u32, &links, &[order as u32], bytes, 0.0);
    }
    fill.refill(0.0);
    fill
}

/// Without what rounding leaves in the last bits.
fn rounded(rate: f64) -> f64 {
    (rate * 1e9).round() / 1e9
}

/// Goes on to the next end of a flow. Returns who ended.
fn step(fill: &mut MaxMinFill) -> Vec<u32> {
    let (now, mut due) = (fill.next(), Due::default());
    fill.take_due(now, &mut due);
    fill.refill(now);
    due.finished
}

/// A group whose last served flow ended goes idle, with rounding left in what its column is used.
/// It remembered what it had handed on there; when it was served again and handed on the same, the
/// group behind it was not told, and kept what it had been given meanwhile: the link carried more
/// than it can.
#[test]
fn a_group_that_was_idle_meanwhile_tells_those_behind_it_what_it_leaves() {
    let mut fill = fill(&[
        ([1, 3], 0, 2_000.0),
        ([1, 4], 1, 100.0),
        ([1, 3], 2, 100.0),
        ([0, 3], 2, 100.0),
        ([2, 3], 3, 20_000.0),
    ]);
    let others = |fill: &MaxMinFill| rounded(TARGET - fill.rate(4));
    assert_eq!(others(&fill), MIDDLE + SLOW);
    assert_eq!(step(&mut fill), [3]);
    assert_eq!(others(&fill), MIDDLE);
    assert_eq!(step(&mut fill), [0]);
    assert_eq!(others(&fill), 0.0);
    assert_eq!(step(&mut fill), [1]);
    assert_eq!(fill.rate(2), MIDDLE);
    assert_eq!(others(&fill), MIDDLE);
}

/// A class has its weight on the links of those that wait there. One that waited beside others and
/// was given a key of another class left its class's weight behind, on a link that no flow of that
/// class used any more.
#[test]
fn who_goes_from_a_class_waiting_takes_its_share_along() {
    let shares = ClassShares::Weighted { weights: vec![2, 1], excess: Excess::Weighted };
    // Where flows enter: 0 and 1. Where they leave: 2 (slow) and 3.
    let mut fill = MaxMinFill::new(vec![MIDDLE, MIDDLE, SLOW, MIDDLE], &shares, 3);
    fill.reserve_accounts(3);
    let low = |order| Key { class: 1, order };
    fill.set_account_keys(&[(0, low(0)), (1, low(1)), (2, low(1))], 0.0);
    for (flow, links) in [[0, 3], [0, 2], [1, 3]].into_iter().enumerate() {
        fill.add(flow as u32, &links, &[flow as u32], 1_000.0, 0.0);
    }
    fill.refill(0.0);
    let rates = |fill: &MaxMinFill| [0, 1, 2].map(|flow| rounded(fill.rate(flow)));
    assert_eq!(rates(&fill), [MIDDLE, 0.0, 0.0]);
    fill.set_account_keys(&[(1, key(0))], 8.0);
    fill.refill(8.0);
    assert_eq!(rates(&fill), [MIDDLE - SLOW, SLOW, SLOW]);
}
