//! Ports alone: what Algorithm 1 grants, what a port keeps, and how it forgets what was lost.

use proptest::prelude::*;

use super::super::header::{Returned, scale_for};
use super::*;
use crate::packet::Kind;

const LINK: BitsPerSec = BitsPerSec(1_000_000_000);
const EPOCH: u64 = 320_000;

fn port(heavy: Option<Bytes>) -> Port {
    let setup = PortSetup { rate: LINK, delay: Nanos(1_000), base_rtt: Nanos(20_000), port: 0 };
    Port::new(&setup, Gains { spare: 40, queue: 100 }, Nanos(EPOCH), heavy)
}

/// Asks for a flow; returns NR and AR.
fn ask(port: &mut Port, now: u64, task: u32, demand: u8, returned: &mut Returned) -> (u8, u8) {
    let mut header = Header { kind: Kind::Probe, size: 66, ..Header::default() };
    let mut extra = SpcHeader::new(task, scale_for(LINK)).asking(0, demand, returned);
    port.arrive(Instant(now), Bytes::ZERO, &mut header, &mut extra);
    *returned = extra.returned();
    extra.least().unwrap()
}

fn none() -> Returned {
    Returned::default()
}

#[test]
fn earlier_tasks_have_strict_priority_and_take_rates_back() {
    let mut port = port(None);
    let (mut early, mut late) = (none(), none());
    assert_eq!(ask(&mut port, 0, 5, 125, &mut late), (125, 125), "alone");
    assert_eq!(
        ask(&mut port, 1, 3, 125, &mut early),
        (125, 0),
        "entitled to all, of which nothing is left yet"
    );
    assert_eq!(ask(&mut port, 2, 5, 125, &mut late), (0, 0));
    assert_eq!(ask(&mut port, 3, 3, 125, &mut early), (125, 125));
}

#[test]
fn a_class_is_shared_fairly_and_what_rounding_takes_is_not_lost() {
    let mut port = port(None);
    let mut flows = [none(); 40];
    for _ in 0..3 {
        for flow in &mut flows {
            ask(&mut port, 0, 1, 125, flow);
        }
    }
    // 125 over 40 is 3.125.
    assert!(flows.iter().all(|flow| (3..=4).contains(&flow.rates[0])), "{flows:?}");
    let total: u32 = flows.iter().map(|flow| u32::from(flow.rates[0])).sum();
    assert!((124..=125).contains(&total), "{total}");
    assert_eq!((port.tasks(), port.flows()), (1, 40));
}

/// Baraat §4.3: state is of tasks. All that a port keeps is in what `Debug` shows of it; the
/// figures aside, that is the same after one flow of a task as after a thousand.
#[test]
fn what_a_port_keeps_does_not_grow_with_the_flows_of_a_task() {
    let kept = |flows: u32| {
        let mut port = port(None);
        for flow in 0..flows {
            let mut header = Header { flow, kind: Kind::Probe, size: 66, ..Header::default() };
            let mut extra = SpcHeader::new(1, scale_for(LINK)).asking(0, 125, &none());
            port.arrive(Instant(1), Bytes::ZERO, &mut header, &mut extra);
        }
        assert_eq!(port.flows(), u64::from(flows));
        format!("{port:?}").replace(|c: char| c.is_ascii_digit(), "")
    };
    assert_eq!(kept(1_000), kept(1));
}

#[test]
fn what_an_earlier_task_does_not_demand_goes_to_later_ones() {
    let mut port = port(None);
    ask(&mut port, 0, 1, 40, &mut none());
    assert_eq!(ask(&mut port, 0, 2, 125, &mut none()), (85, 85));
    assert_eq!(ask(&mut port, 0, 3, 125, &mut none()), (0, 0));
}

#[test]
fn a_heavy_task_shares_its_class_with_the_next_one_only() {
    let mut port = port(Some(Bytes(100_000)));
    let mut flows = [none(); 3];
    ask(&mut port, 0, 1, 125, &mut flows[0]);
    // 125 bytes/µs for 790 µs are 98,750 bytes; for 810 µs they are heavy.
    for now in (0..790_000).step_by(10_000) {
        ask(&mut port, now, 1, 125, &mut flows[0]);
    }
    assert_eq!(ask(&mut port, 790_000, 2, 125, &mut flows[1]), (0, 0));
    ask(&mut port, 810_000, 1, 125, &mut flows[0]);
    let nominal = |port: &mut Port, now, task: u32, flow: &mut Returned| ask(port, now, task, 125, flow).0;
    assert!((62..=63).contains(&nominal(&mut port, 810_001, 2, &mut flows[1])));
    assert_eq!(nominal(&mut port, 810_002, 3, &mut flows[2]), 0);
    assert!((62..=63).contains(&nominal(&mut port, 810_003, 1, &mut flows[0])));
    // When the second has left, the third is next.
    ask(&mut port, 810_004, 2, 0, &mut flows[1]);
    assert!((62..=63).contains(&nominal(&mut port, 810_005, 3, &mut flows[2])));
}

#[test]
fn a_flow_that_demands_more_than_the_link_holds_no_more_and_later_tasks_get_what_it_does_not_send() {
    let mut port = port(None);
    let (mut greedy, mut later) = (none(), none());
    let mut granted = Vec::new();
    for now in (0..5_000_000).step_by(20_000) {
        // 255 units of 64 Mbps.
        let mut header = Header { kind: Kind::Probe, size: 66, ..Header::default() };
        let mut extra = SpcHeader::new(1, 8).asking(0, 255, &greedy);
        port.arrive(Instant(now), Bytes::ZERO, &mut header, &mut extra);
        greedy = extra.returned();
        assert!(u64::from(greedy.rates[0]) * 64_000_000 <= LINK.get());
        granted.push(ask(&mut port, now + 1, 2, 125, &mut later).1);
    }
    // At first what is left of the link by whole units of 64 Mbps.
    assert_eq!((granted[0], granted[granted.len() - 1]), (5, 125), "{granted:?}");
    assert_eq!(port.flows(), 2);
}

#[test]
fn a_flow_that_falls_silent_costs_nothing_after_two_epochs() {
    let mut port = port(None);
    let mut flow = none();
    ask(&mut port, 0, 1, 125, &mut none());
    let mut granted = Vec::new();
    for now in (0..=3 * EPOCH).step_by(20_000) {
        granted.push(ask(&mut port, now, 2, 125, &mut flow).1);
    }
    assert_eq!(granted[0], 0);
    assert_eq!(granted[(2 * EPOCH / 20_000) as usize + 1], 125, "{granted:?}");
    assert_eq!(port.flows(), 1);
    ask(&mut port, 5 * EPOCH, 2, 125, &mut flow);
    assert_eq!(port.tasks(), 1, "the silent task is forgotten");
}

#[test]
fn a_port_that_nobody_asks_forgets_everything() {
    let mut port = port(None);
    for task in 0..50 {
        ask(&mut port, 0, task, 125, &mut none());
    }
    assert_eq!(port.tasks(), 50);
    assert_eq!(ask(&mut port, 10 * EPOCH, 99, 125, &mut none()), (125, 125));
    assert_eq!((port.tasks(), port.flows()), (1, 1));
}

proptest! {
    /// Whatever questions, answers and farewells are lost: once nothing is, sums are those of the
    /// flows that there are.
    #[test]
    fn lost_headers_leak_nothing(
        flows in prop::collection::vec((0u32..5, 1u8..=125), 1..12),
        lost in prop::collection::vec(any::<(bool, bool)>(), 200),
        leaving in 0usize..12,
    ) {
        let mut port = port(None);
        let mut held = vec![none(); flows.len()];
        let mut counted = vec![0; flows.len()];
        let (mut now, mut lost) = (0, lost.into_iter());
        // Forty round trips of losses, then three epochs without.
        let calm = 40 * 20_000;
        let left = leaving.min(flows.len() - 1);
        while now < calm + 3 * EPOCH {
            for (number, &(task, demand)) in flows.iter().enumerate() {
                let (question, answer) = if now < calm { lost.next().unwrap_or((true, false)) } else { (false, false) };
                if now >= calm && number < left {
                    // Gone without a farewell.
                    continue;
                }
                if now - counted[number] >= EPOCH {
                    held[number] = none();
                }
                let mut returned = held[number];
                if !question {
                    ask(&mut port, now, task, demand, &mut returned);
                    if !answer {
                        held[number] = returned;
                        counted[number] = now;
                    }
                }
            }
            now += 20_000;
        }
        let there = &flows[left..];
        prop_assert_eq!(port.flows(), there.len() as u64);
        let unit = 1 << scale_for(LINK);
        let demand: u64 = there.iter().map(|&(_, demand)| u64::from(demand)).sum();
        prop_assert_eq!(port.demand, demand * unit);
        let granted: u64 = held[left..].iter().map(|held| u64::from(held.rates[0])).sum();
        prop_assert_eq!(port.granted, granted * unit);
    }
}

#[test]
fn a_flood_of_ids_takes_bounded_room_and_leaves_old_tasks_their_order() {
    let mut port = port(None).with_at_most(10);
    let (mut first, mut second) = (none(), none());
    ask(&mut port, 0, 1, 125, &mut first);
    ask(&mut port, 0, 2, 125, &mut second);
    for id in 100..10_000 {
        ask(&mut port, 1, id, 125, &mut none());
    }
    assert_eq!(port.tasks(), 10);
    assert_eq!(ask(&mut port, 2, 2, 125, &mut second), (0, 0));
    assert_eq!(ask(&mut port, 2, 1, 125, &mut first).0, 125, "entitled to the whole link as before");
    // A later epoch: what has been silent makes room, what asks stays.
    for id in 20_000..20_020 {
        ask(&mut port, EPOCH + 1, 1, 125, &mut first);
        ask(&mut port, EPOCH + 1, id, 125, &mut none());
    }
    assert_eq!((port.tasks(), ask(&mut port, EPOCH + 2, 1, 125, &mut first).0), (10, 125));
    // An earlier task than all finds room among tasks that are as recent.
    assert_eq!(ask(&mut port, EPOCH + 3, 0, 125, &mut none()).0, 125);
    let (tasks, granted) = (&port.tasks, port.granted);
    assert_eq!(granted, tasks.iter().map(|task| task.now.granted).sum::<u64>());
}
