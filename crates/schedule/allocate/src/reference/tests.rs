//! The definitions against hand-made examples, and against what must hold of their rates.

use cavalcade_model::Excess;
use proptest::prelude::*;

use super::*;

const TOP: [Priority; 1] = [Priority::new(0, 0)];
const SECOND: [Priority; 1] = [Priority::new(0, 1)];
const LOWER: [Priority; 1] = [Priority::new(1, 0)];

fn flow<'a>(path: &'a [u32], coflow: u32, priorities: &'a [Priority], remaining: f64) -> Flow<'a> {
    Flow { path, coflow, priorities, remaining, cap: f64::INFINITY }
}

#[test]
fn max_min_gives_each_flow_what_its_fullest_link_allows() {
    // Three flows on link 0, of which one meets the narrow link 1; what it leaves goes to the
    // others.
    let flows = [flow(&[0], 0, &TOP, 1.0), flow(&[0], 0, &TOP, 1.0), flow(&[0, 1], 0, &TOP, 1.0)];
    assert_eq!(max_min(&[1.0, 0.25], &flows), [0.375, 0.375, 0.25]);
}

#[test]
fn a_cap_is_a_link_of_its_own_and_lower_classes_get_what_is_left() {
    let capped = Flow { cap: 0.25, ..flow(&[0], 0, &TOP, 1.0) };
    let flows = [capped, flow(&[0, 1], 0, &SECOND, 1.0), flow(&[1], 0, &LOWER, 1.0)];
    assert_eq!(max_min(&[1.0, 1.0], &flows), [0.25, 0.75, 0.25]);
}

#[test]
fn flows_of_other_classes_rise_by_their_weights() {
    let terms = Terms {
        shares: ClassShares::OfFlows { weights: vec![3, 1] },
        ..Terms::strict(Scope::Fabric, Discipline::MaxMin)
    };
    let past = Past { rates: &[0.0; 4], same_coflows: false };
    let rates = |flows: &[Flow<'_>]| allocate(&terms, &[8.0, 1.0], flows, past);
    // Two of weight three and two of weight one: classes count for their flows. A class behind the
    // last counts as that, and an order means nothing.
    let last = [Priority::new(9, 7)];
    let flows = [&TOP, &SECOND, &LOWER, &last].map(|own| flow(&[0], 0, own, 1.0));
    assert_eq!(rates(&flows), [3.0, 3.0, 1.0, 1.0]);
    // What the narrow link or a cap takes from one goes to the others by their weights.
    let flows = [
        flow(&[0], 0, &TOP, 1.0),
        flow(&[0, 1], 0, &TOP, 1.0),
        flow(&[0], 0, &LOWER, 1.0),
        Flow { cap: 0.5, ..flow(&[0], 0, &LOWER, 1.0) },
    ];
    assert_eq!(rates(&flows), [4.875, 1.0, 1.625, 0.5]);
}

proptest! {
    /// Each flow meets a full link on which none has more for its weight (Bertsekas and Gallager
    /// §6.5.2), which there is one set of rates for.
    #[test]
    fn rates_by_weight_are_max_min_for_the_weights(
        capacities in prop::collection::vec(1u32..20, 4),
        drawn in prop::collection::vec((0u32..4, 0u32..4, 0u16..3), 1..12),
    ) {
        let weights = [5, 2, 1];
        let capacity: Vec<f64> = capacities.iter().map(|&one| f64::from(one)).collect();
        let of_flows: Vec<(Vec<u32>, [Priority; 1])> = drawn.iter().map(|&(a, b, class)| {
            (if a == b { vec![a] } else { vec![a, b] }, [Priority::new(class, 0)])
        }).collect();
        let flows: Vec<Flow<'_>> = of_flows.iter().map(|(path, own)| flow(path, 0, own, 1.0)).collect();
        let rates = max_min::by_weight(&capacity, &flows, &weights);
        let each = |nth: usize| rates[nth] / f64::from(weights[usize::from(drawn[nth].2)]);
        let on = |link: u32| (0..flows.len()).filter(|&nth| flows[nth].path.contains(&link)).collect::<Vec<_>>();
        for link in 0..4 {
            prop_assert!(on(link).iter().map(|&nth| rates[nth]).sum::<f64>() <= capacity[link as usize] * (1.0 + 1e-9));
        }
        for (nth, flow) in flows.iter().enumerate() {
            let is_held_up = flow.path.iter().any(|&link| {
                let is_full = on(link).iter().map(|&other| rates[other]).sum::<f64>() >= capacity[link as usize] * (1.0 - 1e-9);
                is_full && on(link).iter().all(|&other| each(other) <= each(nth) * (1.0 + 1e-9))
            });
            prop_assert!(is_held_up, "{nth}: {rates:?}");
        }
    }
}

#[test]
fn even_parts_give_nothing_on() {
    let even = |flows: &[Flow<'_>], weights| even_parts::allocate(&[1.0, 0.25], flows, weights);
    let flows = [flow(&[0], 0, &TOP, 1.0), flow(&[0], 0, &TOP, 1.0), flow(&[0, 1], 0, &TOP, 1.0)];
    assert_eq!(even(&flows, None), [1.0 / 3.0, 1.0 / 3.0, 0.25], "max-min has 0.375 for the first two");
    let flows = [flow(&[0], 0, &TOP, 1.0), flow(&[0], 0, &SECOND, 1.0), flow(&[0], 0, &LOWER, 1.0)];
    assert_eq!(even(&flows, None), [1.0, 0.0, 0.0]);
    assert_eq!(even(&flows, Some(&vec![3, 1])), [0.75, 0.0, 0.25], "the second waits in its class");
}

#[test]
fn links_that_disagree_lose_what_they_do_not_give_on() {
    // The second flow is first at link 0 and last at link 1, which the first has to itself then.
    let (one, other) = ([Priority::new(1, 0)], [Priority::new(0, 0), Priority::new(1, 1)]);
    let flows = [flow(&[1], 0, &one, 1.0), flow(&[0, 1], 1, &other, 1.0), flow(&[0], 2, &one, 1.0)];
    assert_eq!(even_parts::allocate(&[1.0, 1.0], &flows, None), [1.0, 0.0, 0.0]);
    assert_eq!(per_link::allocate(&[1.0, 1.0], &flows), [1.0, 0.0, 1.0]);
}

#[test]
fn weighted_classes_split_a_link_and_give_on_what_they_cannot_use() {
    let priorities = [[Priority::new(0, 0)], [Priority::new(1, 0)], [Priority::new(2, 0)]];
    let flows: Vec<Flow<'_>> = priorities.iter().map(|own| flow(&[0], 0, own, 1.0)).collect();
    let rates = |flows: &[Flow<'_>], excess| weighted::allocate(&[7.0], flows, &[4, 2, 1], excess);
    assert_eq!(rates(&flows, Excess::Weighted), [4.0, 2.0, 1.0]);
    let capped = [Flow { cap: 1.0, ..flows[0] }, flows[1], flows[2]];
    assert_eq!(rates(&capped, Excess::Weighted), [1.0, 4.0, 2.0]);
    assert_eq!(rates(&capped, Excess::Highest), [1.0, 5.0, 1.0]);
}

#[test]
fn greedy_serves_the_fullest_link_unless_another_flow_of_the_coflow_is_being_served() {
    let bytes = |flow: &Flow<'_>| flow.remaining;
    // Flow 0 crosses links 0 and 2, flow 1 the fuller links 0 and 3.
    let flows = [flow(&[0, 2], 0, &TOP, 1.0), flow(&[0, 3], 0, &TOP, 5.0)];
    assert_eq!(greedy::allocate(&[1.0; 4], &flows, &[0.0, 0.0], bytes), [0.0, 1.0]);
    assert_eq!(greedy::allocate(&[1.0; 4], &flows, &[1.0, 0.0], bytes), [1.0, 0.0]);
    let pre_empted = [flow(&[0, 2], 0, &SECOND, 1.0), flow(&[0, 3], 1, &TOP, 5.0)];
    assert_eq!(greedy::allocate(&[1.0; 4], &pre_empted, &[1.0, 0.0], bytes), [0.0, 1.0]);
}

#[test]
fn madd_lets_the_flows_of_a_coflow_end_together() {
    // Two flows into link 2, with 1 and 3 bytes: Γ is 4, and link 0 has 3/4 left for the second
    // coflow.
    let flows = [flow(&[0, 2], 0, &TOP, 1.0), flow(&[1, 2], 0, &TOP, 3.0), flow(&[0, 3], 1, &SECOND, 6.0)];
    assert_eq!(madd::allocate(&[1.0; 4], &flows), [0.25, 0.75, 0.75]);
}

#[test]
fn madd_keeps_its_rates_until_coflows_change() {
    let terms = Terms::strict(Scope::Fabric, Discipline::Madd);
    let rates = |same_coflows| {
        // Of a coflow with two flows into link 2 one has ended; its rate was a quarter.
        let flows = [flow(&[1, 2], 0, &TOP, 3.0)];
        allocate(&terms, &[1.0; 4], &flows, Past { rates: &[0.75], same_coflows })
    };
    assert_eq!((rates(true), rates(false)), (vec![0.75], vec![1.0]));
}

#[test]
fn coflows_that_find_a_link_full_share_what_madd_leaves_evenly() {
    // The first coflow fills links 0 and 2. Both others need link 0 and wait; their flows from link
    // 1 to 3 have a half each, where the second coflow's flow could have all.
    let flows = [
        flow(&[0, 2], 0, &TOP, 1.0),
        flow(&[0, 3], 1, &SECOND, 1.0),
        flow(&[1, 3], 1, &SECOND, 1.0),
        flow(&[0, 2], 2, &LOWER, 5.0),
        flow(&[1, 3], 2, &LOWER, 1.0),
    ];
    assert_eq!(madd::allocate(&[1.0; 4], &flows), [1.0, 0.0, 0.5, 0.0, 0.5]);
}

#[test]
fn even_parts_count_only_flows_that_find_room_on_all_of_their_links() {
    // Two flows of the waiting coflow leave link 1, one of them for link 2, which is full: the
    // other has link 1 for itself.
    let flows = [
        flow(&[0, 2], 0, &TOP, 1.0),
        flow(&[1, 2], 1, &SECOND, 1.0),
        flow(&[1, 3], 1, &SECOND, 9.0),
        flow(&[1, 3], 2, &LOWER, 1.0),
        flow(&[0, 3], 2, &LOWER, 1.0),
    ];
    assert_eq!(madd::allocate(&[1.0; 4], &flows), [1.0, 0.0, 0.5, 0.5, 0.0]);
}

#[test]
fn what_even_parts_leave_goes_out_by_number_and_not_by_priority() {
    // Coflow 3 fills link 0, so all others wait. Of the three that share link 1 one is capped; its
    // part goes to coflow 0, which has the lowest priority and came first.
    let capped = Flow { cap: 0.125, ..flow(&[1, 3], 2, &SECOND, 1.0) };
    let flows = [
        flow(&[0, 4], 0, &LOWER, 1.0),
        flow(&[1, 4], 0, &LOWER, 1.0),
        flow(&[0, 5], 1, &SECOND, 1.0),
        flow(&[1, 5], 1, &SECOND, 1.0),
        flow(&[0, 3], 2, &SECOND, 1.0),
        capped,
        flow(&[0, 2], 3, &TOP, 1.0),
    ];
    let capacity = [1.0, 0.75, 1.0, 1.0, 1.0, 1.0];
    assert_eq!(madd::allocate(&capacity, &flows), [0.0, 0.375, 0.0, 0.25, 0.0, 0.125, 1.0]);
}

#[test]
fn a_coflow_that_has_rates_by_madd_has_no_part_of_what_is_shared() {
    // The first coflow ends with its bottleneck, link 0, and leaves half of link 1; the second
    // waits for link 0 and gets it.
    let flows = [
        flow(&[0, 2], 0, &TOP, 2.0),
        flow(&[1, 3], 0, &TOP, 1.0),
        flow(&[0, 3], 1, &SECOND, 1.0),
        flow(&[1, 2], 1, &SECOND, 1.0),
        flow(&[1, 3], 1, &SECOND, 1.0),
    ];
    assert_eq!(madd::allocate(&[1.0; 4], &flows), [1.0, 0.5, 0.0, 0.0, 0.5]);
}

#[test]
fn the_flow_with_the_fewest_bytes_goes_first() {
    let flows = [flow(&[0, 2], 0, &TOP, 3.0), flow(&[0, 3], 0, &TOP, 2.0), flow(&[1, 2], 0, &TOP, 9.0)];
    assert_eq!(shortest::allocate(&[1.0; 4], &flows), [0.0, 1.0, 1.0]);
    // Flow 2 catches up with flow 0 after six bytes.
    let wait = next_overtaking(&flows, &[0.0, 1.0, 1.0]);
    assert!((6.0..6.1).contains(&wait), "{wait}");
}

#[test]
fn where_two_links_contradict_each_other_two_flows_share_evenly() {
    let (first, last) = (Priority::new(0, 0), Priority::new(0, 1));
    let (one, other) = ([first, last], [last, first]);
    let flows = [flow(&[0, 1], 0, &one, 1.0), flow(&[0, 1], 1, &other, 1.0)];
    assert_eq!(per_link::allocate(&[1.0, 1.0], &flows), [0.5, 0.5]);
    let tied = [first, first];
    let flows = [flow(&[0, 1], 0, &tied, 1.0), flow(&[0, 1], 1, &other, 1.0)];
    assert_eq!(per_link::allocate(&[1.0, 1.0], &flows), [0.5, 0.5], "tied where they leave");
    let flows = [flow(&[0, 1], 0, &tied, 1.0), flow(&[0, 1], 1, &one, 1.0)];
    assert_eq!(per_link::allocate(&[1.0, 1.0], &flows), [0.5, 0.5], "tied where they enter");
}

/// Fails if rates are others.
fn are_near(rates: &[f64], expected: &[f64]) {
    let is_near = |(rate, expected): (&f64, &f64)| (rate - expected).abs() < 1e-9;
    assert!(rates.len() == expected.len() && rates.iter().zip(expected).all(is_near), "{rates:?}");
}

#[test]
fn what_contradictions_leave_is_shared_evenly_however_flows_are_numbered() {
    // Four flows leave link 0, of which the last goes behind the first at link 3 and gets what that
    // leaves there: 0.2 of 1. The two that have room elsewhere share the rest.
    let (first, last) = (Priority::new(0, 0), Priority::new(0, 1));
    let (tied, behind) = ([first, first], [first, last]);
    let flows = [
        flow(&[0, 3], 0, &tied, 1.0),
        flow(&[0, 4], 0, &tied, 1.0),
        flow(&[0, 5], 0, &tied, 1.0),
        flow(&[0, 3], 1, &behind, 1.0),
    ];
    let capacity = [4.0, 9.0, 9.0, 1.2, 9.0, 9.0];
    are_near(&per_link::allocate(&capacity, &flows), &[1.0, 1.4, 1.4, 0.2]);
    let backwards: Vec<Flow<'_>> = flows.iter().rev().copied().collect();
    are_near(&per_link::allocate(&capacity, &backwards), &[0.2, 1.4, 1.4, 1.0]);
}

#[test]
fn what_a_class_leaves_goes_out_after_later_classes() {
    let (first, last) = (Priority::new(0, 0), Priority::new(0, 1));
    let (tied, behind, later) = ([first, first], [first, last], [last, first]);
    let flows = [flow(&[0, 1], 0, &tied, 1.0), flow(&[0, 1], 1, &behind, 1.0), flow(&[0, 2], 2, &later, 1.0)];
    are_near(&per_link::allocate(&[1.0, 0.6, 1.0], &flows), &[0.5, 0.1, 0.4]);
}

#[test]
fn three_links_that_chase_each_other_leave_nothing_idle() {
    let (first, last) = (Priority::new(0, 0), Priority::new(0, 1));
    let (up, down) = ([first, last], [last, first]);
    let flows = [flow(&[0, 2], 0, &up, 1.0), flow(&[0, 1], 1, &down, 1.0), flow(&[1, 2], 2, &down, 1.0)];
    let rates = per_link::allocate(&[1.0; 3], &flows);
    for flow in &flows {
        let is_full = |&link: &u32| {
            let on_link = flows.iter().zip(&rates).filter(|(other, _)| other.path.contains(&link));
            (on_link.map(|(_, rate)| rate).sum::<f64>() - 1.0).abs() < 1e-6
        };
        assert!(flow.path.iter().any(is_full), "{rates:?}");
    }
}

/// A flow over links of a switch with four ports, with a priority at each.
type Drawn = ([u32; 2], [Priority; 2], f64);

fn drawn() -> impl Strategy<Value = Drawn> {
    let cap = prop_oneof![3 => Just(f64::INFINITY), 1 => prop::sample::select(vec![0.0, 0.1, 0.5])];
    (0..4u32, 4..8u32, 0..3u64, 0..3u64, cap)
        .prop_map(|(from, to, a, b, cap)| ([from, to], [Priority::new(0, a), Priority::new(0, b)], cap))
}

/// Progressive filling in the fewest lines: raise all flows of a class by the least step that fills
/// a link or meets a cap.
fn textbook(capacity: &[f64], flows: &[Flow<'_>]) -> Vec<f64> {
    let (mut left, mut rates) = (capacity.to_vec(), vec![0.0; flows.len()]);
    for order in 0..3 {
        let mut rising: Vec<usize> =
            (0..flows.len()).filter(|&f| flows[f].priority().order == order).collect();
        while !rising.is_empty() {
            let on = |link: u32| rising.iter().filter(|&&f| flows[f].path.contains(&link)).count() as f64;
            let room = |f: usize| {
                let shares = flows[f].path.iter().map(|&link| left[link as usize] / on(link));
                shares.fold(flows[f].cap - rates[f], f64::min)
            };
            let step = rising.iter().map(|&f| room(f)).fold(f64::INFINITY, f64::min).max(0.0);
            for &f in &rising {
                rates[f] += step;
                flows[f].path.iter().for_each(|&link| left[link as usize] -= step);
            }
            rising.retain(|&f| {
                rates[f] + 1e-12 < flows[f].cap
                    && flows[f].path.iter().all(|&link| left[link as usize] > 1e-12)
            });
        }
        left.iter_mut().for_each(|left| *left = if *left < 1e-9 { 0.0 } else { *left });
    }
    rates
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 4000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn max_min_is_progressive_filling(
        drawn in prop::collection::vec(drawn(), 0..12),
        capacity in prop::collection::vec(prop::sample::select(vec![0.5, 1.0, 1.25, 10.0]), 8),
    ) {
        let flows: Vec<Flow<'_>> =
            drawn.iter().map(|(path, own, cap)| Flow { cap: *cap, ..flow(path, 0, &own[..1], 1.0) }).collect();
        for (rate, expected) in max_min(&capacity, &flows).iter().zip(textbook(&capacity, &flows)) {
            prop_assert!((rate - expected).abs() < 1e-7, "{rate} {expected}");
        }
    }

    #[test]
    fn links_that_rank_alike_share_as_one_order_does(
        drawn in prop::collection::vec(drawn(), 1..12),
        capacity in prop::collection::vec(prop::sample::select(vec![0.5, 1.0, 1.25, 10.0]), 8),
    ) {
        let alike: Vec<[Priority; 2]> = drawn.iter().map(|(_, own, _)| [own[0]; 2]).collect();
        let flows = drawn.iter().zip(&alike);
        let flows: Vec<Flow<'_>> =
            flows.map(|((path, _, cap), own)| Flow { cap: *cap, ..flow(path, 0, own, 1.0) }).collect();
        for (rate, expected) in per_link::allocate(&capacity, &flows).iter().zip(max_min(&capacity, &flows)) {
            prop_assert!((rate - expected).abs() < 1e-7, "{rate} {expected}");
        }
    }

    #[test]
    fn links_that_rank_for_themselves_share_alike_however_flows_are_numbered(
        drawn in prop::collection::vec(drawn(), 1..12),
        capacity in prop::collection::vec(prop::sample::select(vec![0.5, 1.0, 1.25, 10.0]), 8),
    ) {
        let flows = drawn.iter().map(|(path, own, cap)| Flow { cap: *cap, ..flow(path, 0, own, 1.0) });
        let flows: Vec<Flow<'_>> = flows.collect();
        let backwards: Vec<Flow<'_>> = flows.iter().rev().copied().collect();
        let rates = per_link::allocate(&capacity, &flows);
        for (rate, other) in rates.iter().zip(per_link::allocate(&capacity, &backwards).iter().rev()) {
            prop_assert!((rate - other).abs() < 1e-7, "{rate} {other}");
        }
    }

    #[test]
    fn no_link_idles_while_a_flow_waits_where_links_rank_for_themselves(
        drawn in prop::collection::vec(drawn(), 1..12),
        capacity in prop::collection::vec(prop::sample::select(vec![0.5, 1.0, 1.25, 10.0]), 8),
    ) {
        let flows: Vec<Flow<'_>> =
            drawn.iter().map(|(path, own, cap)| Flow { cap: *cap, ..flow(path, 0, own, 1.0) }).collect();
        let rates = per_link::allocate(&capacity, &flows);
        let on = |link: u32| -> f64 {
            let here = flows.iter().zip(&rates).filter(|(flow, _)| flow.path.contains(&link));
            here.map(|(_, rate)| rate).sum()
        };
        for (flow, &rate) in flows.iter().zip(&rates) {
            let is_full = |&link: &u32| on(link) > capacity[link as usize] - 1e-6;
            prop_assert!(flow.path.iter().any(is_full) || rate >= flow.cap - 1e-9, "{flow:?} of {rates:?}");
            for &link in flow.path {
                prop_assert!(on(link) <= capacity[link as usize] + 1e-6);
            }
        }
    }
}
