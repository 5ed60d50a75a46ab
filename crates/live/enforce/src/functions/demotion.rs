//! The sorting of messages in the kernel against its definition, over the same packets, pauses and
//! time-outs.

use aya::maps::{Array, HashMap, MapData};
use cavalcade_client::DscpMap;
use cavalcade_model::{Bytes, Demotion, History, Nanos, Progress, SplitMix64};
use cavalcade_protocol::Gate;

use super::{ACK, Bench, CONTROL_BLOCK, GATE, NEXT, PASSES, PRIORITY, SORT, flow, over_v4, tcp};
use crate::demotion::to_kernel;
use crate::kernel::monotonic;
use crate::shared::{ClassWords, DemotionWords, FlowWords, GoalWords, Socket};
use crate::{Goal, Limits, Order};

/// Far from any time that this machine may take between two calls.
const IDLE: Nanos = Nanos::from_secs(3_600);

/// The rule of a policy.
fn rule(spec: &str) -> Demotion {
    cavalcade_policy::parse(spec).unwrap().demotion(&History::default()).unwrap()
}

impl Bench {
    /// A bench on which messages are sorted by `rule`.
    fn sorting(rule: &Demotion) -> Option<Self> {
        let mut bench = Self::new()?;
        bench.limit(Limits { silence: IDLE, idle: IDLE, ..Limits::default() }, Nanos::ZERO);
        let (words, classes) = to_kernel(rule, DscpMap::default()).unwrap();
        let mut map: Array<&mut MapData, DemotionWords> = bench.map("demotion");
        map.set(0, words, 0).unwrap();
        let mut map: Array<&mut MapData, ClassWords> = bench.map("classes");
        classes.into_iter().for_each(|(class, words)| map.set(class, words, 0).unwrap());
        bench.carry(Socket::default());
        // Also where this machine has not been up for so long.
        bench.rest(Nanos(2 * IDLE.0));
        Some(bench)
    }

    fn aim(&mut self, goal: Goal) {
        let mut map: HashMap<&mut MapData, FlowWords, GoalWords> = self.map("goals");
        map.insert(flow().to_kernel(), goal.to_kernel().to_words(), 0).unwrap();
    }

    /// The class of the next packet, or of what is sent again after so many time-outs in a row;
    /// none where the host gives none.
    fn sort(&mut self, in_a_row: u32, unacknowledged: u32) -> Option<u16> {
        let words = [(CONTROL_BLOCK, in_a_row), (CONTROL_BLOCK + 4, unacknowledged)];
        self.run(SORT, &words, &over_v4(&tcp(NEXT, ACK, 1)));
        (self.carried().class as u16).checked_sub(1)
    }

    /// Sends a packet of new data, after which the application has written so much more.
    fn send(&mut self, bytes: usize, unacknowledged: u32, more: u32) {
        // Here all packets have one sequence number: none was counted at it before.
        let carried = self.carried();
        self.carry(Socket { reached: 0, ..carried });
        let words = [(PRIORITY, NEXT + bytes as u32 + more), (CONTROL_BLOCK + 4, unacknowledged)];
        assert_eq!(self.run(GATE, &words, &over_v4(&tcp(NEXT, ACK, bytes))), PASSES);
    }

    /// The connection was quiet for so long.
    fn rest(&mut self, quiet: Nanos) {
        let carried = self.carried();
        self.carry(Socket { passed_at: monotonic().0.wrapping_sub(quiet.0), ..carried });
    }
}

/// Runs the same random packets, pauses and time-outs through both.
fn agrees(spec: &str, size: Option<Bytes>) {
    let rule = rule(spec);
    let Some(mut bench) = Bench::sorting(&rule) else { return };
    if let Some(size) = size {
        bench.aim(Goal { deadline: None, size: Some(size) });
    }
    let mut random = SplitMix64::new(7);
    let mut message = Progress { size, ..Progress::default() };
    let (mut is_drained, mut in_a_row, mut seen) = (false, 0, std::collections::BTreeSet::new());
    for step in 0..2_000 {
        let expected = if step > 0 && random.below(4) == 0 {
            in_a_row += 1;
            let class = bench.sort(in_a_row, 1);
            let patience = bench.carried().patience as u32;
            assert!(rule.patience.contains(&patience), "{patience} is none of {:?}", rule.patience);
            rule.time_out(&mut message, in_a_row, patience);
            (class, rule.class(&message))
        } else {
            in_a_row = if random.below(3) == 0 { 0 } else { in_a_row };
            let quiet = if random.below(6) == 0 { Nanos(2 * IDLE.0) } else { Nanos::ZERO };
            let (unacknowledged, more) = (random.below(2) as u32, random.below(2) as u32);
            // Some end where a threshold is.
            let unit = if random.below(4) == 0 { 1 } else { 500 };
            let bytes = (1 + random.below(3_000 / unit)) as usize * unit as usize;
            if step > 0 {
                bench.rest(quiet);
                message.resume(quiet, is_drained && unacknowledged == 0, IDLE);
            }
            let class = bench.sort(0, unacknowledged);
            let expected = rule.class(&message);
            bench.send(bytes, unacknowledged, more);
            message.send(Bytes(bytes as u64));
            is_drained = more == 0;
            (class, expected)
        };
        assert_eq!(expected.0, Some(expected.1), "{spec}, step {step}: {message:?}");
        seen.insert(expected.1);
    }
    let all: Vec<u16> = (rule.first..=rule.last()).collect();
    assert!(size.is_some() || seen.into_iter().collect::<Vec<u16>>() == all, "{spec} reaches all classes");
}

#[test]
fn the_kernel_sorts_by_bytes_sent_as_the_policies_define_it() {
    agrees("pias:thresholds=1KB/4KB/9KB/12KB", None);
    agrees("karuna:thresholds=3KB/5KB/15KB", None);
    agrees("karuna:thresholds=3KB/5KB/15KB,sizes_known=true", None);
}

#[test]
fn the_kernel_sorts_by_size_as_the_policy_defines_it() {
    for size in [1, 2_999, 3_000, 3_001, 15_000, 15_001] {
        agrees("karuna:thresholds=3KB/5KB/15KB,sizes_known=true", Some(Bytes(size)));
        agrees("karuna:thresholds=3KB/5KB/15KB", Some(Bytes(size)));
    }
}

#[test]
fn flows_with_deadlines_stay_above_until_the_orders_or_the_clock_say_otherwise() {
    let Some(mut bench) = Bench::sorting(&rule("karuna:thresholds=1KB/2KB")) else { return };
    let order = |class| Order { gate: Gate::Open {}, dscp: Some(0), priority: Some(0), class };
    bench.order_as(order(Some(0)));
    assert_eq!(bench.sort(0, 0), None, "the order's class holds");
    bench.order_as(order(Some(2)));
    assert_eq!(bench.sort(0, 0), Some(1), "it has no deadline that is known here");
    let at = |deadline| Goal { deadline: Some(deadline), size: None };
    bench.aim(at(Nanos(monotonic().0 + IDLE.0)));
    assert_eq!(bench.sort(0, 0), None, "who ordered has given it up");
    bench.order_as(order(None));
    assert_eq!(bench.sort(0, 0), Some(0));
    bench.aim(at(Nanos(1)));
    assert_eq!(bench.sort(0, 0), Some(3));
}

#[test]
fn a_message_that_waits_at_its_gate_begins_once() {
    let Some(mut bench) = Bench::sorting(&rule("pias:thresholds=1KB/2KB")) else { return };
    bench.send(3_000, 0, 0);
    bench.rest(Nanos(2 * IDLE.0));
    bench.order(Gate::Off {});
    let packet = over_v4(&tcp(NEXT, ACK, 1_500));
    for _ in 0..3 {
        // Too much for the trickle.
        assert_ne!(bench.judge_made_of(9, &packet), PASSES);
        assert_eq!(bench.sort(0, 0), Some(0));
    }
    bench.order(Gate::Open {});
    bench.send(1_500, 0, 0);
    assert_eq!((bench.sort(0, 0), bench.count().messages), (Some(1), 2));
}

#[test]
fn silence_ends_the_sorting() {
    let Some(mut bench) = Bench::sorting(&rule("pias")) else { return };
    assert_eq!(bench.sort(0, 0), Some(0));
    bench.limit(Limits { silence: Nanos(1), ..Limits::default() }, Nanos::from_secs(1));
    assert_eq!(bench.sort(0, 0), None);
}

#[test]
fn a_rule_with_more_classes_than_the_kernel_keeps_is_refused() {
    let thresholds = |count: u64| (1..=count).map(Bytes).collect();
    let of = |thresholds| Demotion { thresholds, ..rule("pias") };
    assert!(to_kernel(&of(thresholds(31)), DscpMap::default()).is_ok());
    assert!(to_kernel(&of(thresholds(32)), DscpMap::default()).unwrap_err().contains("32 is the most"));
}
