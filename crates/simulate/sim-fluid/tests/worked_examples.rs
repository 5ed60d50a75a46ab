//! The worked examples of the papers, with exact results: what `reference/worked_examples.py`
//! checks in rational arithmetic, checked of both engines with the registered policies.
//!
//! Where an example has something that the model lacks, its test says what stands for it: a second
//! resource is a second link, a flow that follows another flow is a stage that follows a stage.
//! `las` counts in quanta where the papers think of infinitesimal ones; its results are held to a
//! few quanta.

mod fixed_order;
mod slow;
mod worked;

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use cavalcade_model::{CoflowId, Instant, PortId, Priority, Target, Workload};
use fixed_order::FixedOrder;
use worked::{
    Log, Overheard, SECOND, Times, UNIT, both_sides, flow, policy, run, senders_only, staged, sum, task,
    times, units, workload,
};

/// `las` in quanta of a thousandth of a unit.
const FINE_LAS: &str = "las:quantum=125KB,even_steps=1000000";
const QUANTUM: u64 = SECOND / 1000;

fn assert_near(times: &Times, expected: &Times, within: u64) {
    for (name, &expected) in expected {
        assert!(
            times[name].abs_diff(expected) <= within,
            "{name}: {} ns, expected {expected} ns",
            times[name]
        );
    }
}

// ----------------------------------------------------------------------------------------------------------
// Aalo

/// The only instance of least volume with the averages that the paper states; it does not print its
/// inputs.
fn aalo_figure_1(order: [usize; 3]) -> Workload {
    let tasks = [
        task("C1", 0.0, &[flow(1, 1, 3.0), flow(2, 2, 4.0)]),
        task("C2", 1.0, &[flow(2, 3, 2.0)]),
        task("C3", 0.0, &[flow(1, 2, 3.0)]),
    ];
    workload(3, order.iter().map(|&index| tasks[index].clone()).collect())
}

const IN_ORDER: [usize; 3] = [0, 1, 2];

#[test]
fn aalo_figure_1c_per_flow_fairness() {
    let times = times(&aalo_figure_1(IN_ORDER), &senders_only(3), &policy("fair"));
    assert_eq!(times, units([("C1", 6.0), ("C2", 4.0), ("C3", 6.0)]));
    assert_eq!(sum(&times), 16 * SECOND, "an average of 5.33");
}

#[test]
fn aalo_figure_1d_decentralised_least_attained_service() {
    let times = times(&aalo_figure_1(IN_ORDER), &senders_only(3), &policy(FINE_LAS));
    assert_near(&times, &units([("C1", 6.0), ("C2", 3.0), ("C3", 6.0)]), 4 * QUANTUM);
    assert!(sum(&times).abs_diff(15 * SECOND) <= 8 * QUANTUM, "an average of 5");
}

/// Continuous CLAS in slots of 1/`parts` unit: at each sender the coflow that has had least
/// anywhere goes first.
fn clas_in_slots(parts: u64) -> BTreeMap<u32, u64> {
    // Coflow, sender, size, arrival.
    let flows = [(1, 1, 3, 0), (1, 2, 4, 0), (2, 2, 2, 1), (3, 1, 3, 0)];
    let mut left: Vec<u64> = flows.iter().map(|&(_, _, size, _)| size * parts).collect();
    let mut had: BTreeMap<u32, u64> = BTreeMap::new();
    let mut finish: BTreeMap<u32, u64> = BTreeMap::new();
    let mut slot = 0;
    while left.iter().any(|&left| left > 0) {
        let first = |sender: u32| {
            let here = (0..flows.len()).filter(|&index| {
                flows[index].1 == sender && left[index] > 0 && flows[index].3 * parts <= slot
            });
            here.min_by_key(|&index| (had.get(&flows[index].0).copied().unwrap_or(0), flows[index].0))
        };
        let served: Vec<usize> = [1, 2].into_iter().filter_map(first).collect();
        slot += 1;
        for index in served {
            left[index] -= 1;
            *had.entry(flows[index].0).or_default() += 1;
            finish.insert(flows[index].0, slot);
        }
    }
    finish.insert(2, finish[&2] - parts);
    finish
}

#[test]
fn aalo_figure_1e_coflow_aware_least_attained_service_tends_to_an_average_of_4() {
    let times = clas_in_slots(1920);
    let total: u64 = times.values().sum();
    assert!((total as f64 / 1920.0 / 3.0 - 4.0).abs() < 0.002, "{times:?}");
}

/// The best of all static orders, and its times.
fn best_order(workload: &Workload) -> (Vec<u64>, Times) {
    let orders = [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]];
    let all = orders.map(|rank| {
        let rank = rank.to_vec();
        let times = times(workload, &senders_only(3), &FixedOrder { rank: rank.clone() });
        (rank, times)
    });
    all.into_iter().min_by_key(|(_, times)| sum(times)).expect("there are orders")
}

#[test]
fn aalo_figure_1f_the_best_order_is_c2_c3_c1() {
    // Ids go by arrival: C1, C3, C2.
    let workload = aalo_figure_1(IN_ORDER);
    let (rank, times) = best_order(&workload);
    assert_eq!(sum(&times), 11 * SECOND, "an average of 3.67");
    assert_eq!(times, units([("C1", 6.0), ("C2", 2.0), ("C3", 3.0)]));
    assert!(rank[2] < rank[0] && rank[1] < rank[0], "C1 is last: {rank:?}");
}

#[test]
fn aalo_figure_1_fifo_depends_on_the_tie() {
    let c3_first = times(&aalo_figure_1([2, 0, 1]), &senders_only(3), &policy("fifo"));
    assert_eq!(sum(&c3_first), 14 * SECOND, "an average of 4.67: {c3_first:?}");
    let c1_first = times(&aalo_figure_1(IN_ORDER), &senders_only(3), &policy("fifo"));
    assert_eq!(sum(&c1_first), 15 * SECOND, "an average of 5: {c1_first:?}");
}

/// The least sum of completion times over all schedules in unit slots. Left: C1 and C3 at sender 1,
/// C1 and C2 at 2.
fn least_sum(slot: u32, left: [u32; 4], known: &mut BTreeMap<(u32, [u32; 4]), u32>) -> u32 {
    if left == [0; 4] {
        return 0;
    }
    if let Some(&least) = known.get(&(slot, left)) {
        return least;
    }
    let choices = |pair: [usize; 2]| -> Vec<Option<usize>> {
        let can = |&index: &usize| left[index] > 0 && (index != 3 || slot >= 1);
        let able: Vec<Option<usize>> = pair.into_iter().filter(can).map(Some).collect();
        if able.is_empty() { vec![None] } else { able }
    };
    let mut least = u32::MAX;
    for at_1 in choices([0, 1]) {
        for at_2 in choices([2, 3]) {
            let mut next = left;
            for index in [at_1, at_2].into_iter().flatten() {
                next[index] -= 1;
            }
            let ends = |parts: &[usize]| {
                let any = |left: &[u32; 4]| parts.iter().any(|&part| left[part] > 0);
                u32::from(any(&left) && !any(&next))
            };
            let ended = ends(&[0, 2]) + ends(&[1]) + ends(&[3]);
            least = least.min(ended * (slot + 1) + least_sum(slot + 1, next, known));
        }
    }
    known.insert((slot, left), least);
    least
}

#[test]
fn aalo_figure_1f_no_schedule_in_slots_is_better() {
    // Less the arrival of C2 at 1.
    assert_eq!(least_sum(0, [3, 3, 4, 2], &mut BTreeMap::new()) - 1, 11);
}

// --------------------------------------------------------------------------------------------------------
// Baraat

/// Any equal size will do: the text states ratios.
const SIZE: f64 = 4.0;

#[test]
fn baraat_figure_4a_one_stage() {
    let tasks = ["A", "B"].map(|name| task(name, 0.0, &[flow(1, 1, SIZE)]));
    let workload = workload(1, tasks.to_vec());
    let fair = times(&workload, &senders_only(1), &policy("fair"));
    assert_eq!(fair, units([("A", 2.0 * SIZE), ("B", 2.0 * SIZE)]));
    let serial = times(&workload, &senders_only(1), &policy("fifo"));
    assert_eq!(serial, units([("A", SIZE), ("B", 2.0 * SIZE)]));
}

/// The two stages have a bottleneck each: two sending links.
#[test]
fn baraat_figure_4b_two_stages_on_two_bottlenecks() {
    let stages: [(&[u32], &[_]); 2] = [(&[], &[flow(1, 1, SIZE)]), (&[0], &[flow(2, 2, SIZE)])];
    let workload = workload(2, ["A", "B"].map(|name| staged(name, 0.0, &stages)).to_vec());
    let fair = times(&workload, &senders_only(2), &policy("fair"));
    assert_eq!(fair, units([("A", 4.0 * SIZE), ("B", 4.0 * SIZE)]));
    let serial = times(&workload, &senders_only(2), &policy("fifo"));
    assert_eq!(serial, units([("A", 2.0 * SIZE), ("B", 3.0 * SIZE)]));
}

fn baraat_figure_5(size_of_c: f64) -> Workload {
    let tasks = vec![
        task("A", 0.0, &[flow(1, 1, 4.0)]),
        task("B", 0.0, &[flow(1, 1, 4.0)]),
        task("C", 4.0, &[flow(1, 1, size_of_c)]),
    ];
    workload(1, tasks)
}

#[test]
fn baraat_figure_5_fair_sharing_against_serial_service() {
    let workload = baraat_figure_5(4.0);
    let fair = times(&workload, &senders_only(1), &policy("fair"));
    assert_eq!(fair, units([("A", 10.0), ("B", 10.0), ("C", 8.0)]));
    let serial = times(&workload, &senders_only(1), &policy("fifo"));
    assert_eq!(serial, units([("A", 4.0), ("B", 8.0), ("C", 8.0)]));
}

#[test]
fn baraat_figure_5_holds_for_any_c_of_2_to_4() {
    for size in [2.0, 3.0, 4.0] {
        let fair = times(&baraat_figure_5(size), &senders_only(1), &policy("fair"));
        assert_eq!((fair["A"], fair["B"]), (10 * SECOND, 10 * SECOND));
        let serial = times(&baraat_figure_5(size), &senders_only(1), &policy("fifo"));
        assert!(serial.values().all(|&time| time <= 8 * SECOND), "{serial:?}");
    }
    let fair = times(&baraat_figure_5(1.8), &senders_only(1), &policy("fair"));
    assert!(fair["A"] < 10 * SECOND);
}

/// n tasks of 3 flows of 400 KB each into one 1 Gbps downlink. The paper adds 2 ms of round trips,
/// which a fluid has not.
#[test]
fn baraat_figure_7_tasks_into_one_downlink() {
    let alone = 3 * 400_000 * 8;
    for n in [1, 2, 4, 8] {
        let part = 400_000.0 / UNIT as f64;
        let flows = [flow(1, 4, part), flow(2, 4, part), flow(3, 4, part)];
        let tasks = (0..n).map(|index| task(&index.to_string(), 0.0, &flows)).collect();
        let workload = workload(4, tasks);
        assert_eq!(sum(&times(&workload, &both_sides(4), &policy("fair"))), n * n * alone);
        assert_eq!(sum(&times(&workload, &both_sides(4), &policy("fifo"))), n * (n + 1) / 2 * alone);
    }
}

fn heavy_and_small() -> Workload {
    let tasks = vec![
        task("H", 0.0, &[flow(1, 1, 10.0)]),
        task("s", 2.0, &[flow(1, 1, 1.0)]),
        task("u", 2.5, &[flow(1, 1, 1.0)]),
    ];
    workload(1, tasks)
}

#[test]
fn baraat_limited_multiplexing_lets_small_tasks_past_a_heavy_one() {
    let lm = policy("fifo_lm:heavy_threshold=250MB");
    let times = times(&heavy_and_small(), &senders_only(1), &lm);
    assert_eq!(times, units([("H", 12.0), ("s", 2.0), ("u", 3.5)]));
}

#[test]
fn baraat_plain_fifo_makes_them_wait() {
    let times = times(&heavy_and_small(), &senders_only(1), &policy("fifo"));
    assert_eq!(times, units([("H", 10.0), ("s", 9.0), ("u", 9.5)]));
}

// ---------------------------------------------------------------------------------------------------------
// D-CAS

fn dcas_figure_1() -> Workload {
    let a = task("A", 0.0, &[flow(1, 1, 1.0), flow(1, 2, 3.0)]);
    let b = task("B", 0.0, &[flow(1, 3, 2.0), flow(1, 4, 4.0)]);
    workload(4, vec![a, b])
}

#[test]
fn dcas_figure_1b_fair_sharing() {
    let workload = dcas_figure_1();
    let outcome = run(&workload, &senders_only(4), &policy("fair"));
    assert_eq!(outcome.flow_finish, [4, 9, 7, 10].map(|second| Instant(second * SECOND)));
    let times = times(&workload, &senders_only(4), &policy("fair"));
    assert_eq!(sum(&times), 19 * SECOND, "an average of 9.5");
}

#[test]
fn dcas_figure_1c_smallest_flow_first() {
    let times = times(&dcas_figure_1(), &senders_only(4), &policy("sff"));
    assert_eq!(sum(&times), 16 * SECOND, "an average of 8: {times:?}");
}

#[test]
fn dcas_figure_1d_smallest_coflow_first() {
    let times = times(&dcas_figure_1(), &senders_only(4), &policy("stf"));
    assert_eq!(sum(&times), 14 * SECOND, "an average of 7: {times:?}");
}

/// Three senders desire 4, 2 and 1; the first receiver hears of two of them, the second of all.
#[test]
fn dcas_figure_2_negotiation_settles_on_the_largest_desire() {
    let flows = [flow(1, 4, 2.0), flow(1, 5, 2.0), flow(2, 4, 1.0), flow(2, 5, 1.0), flow(3, 5, 1.0)];
    let workload = workload(5, vec![task("C", 0.0, &flows)]);
    let log: Log = Rc::new(RefCell::new(Vec::new()));
    let dcas = Overheard { policy: policy("dcas"), log: Rc::clone(&log), built: RefCell::new(0) };
    cavalcade_sim_fluid::simulate(&workload, &both_sides(5), &dcas, &Default::default(), None).unwrap();
    let (mut answers, mut priorities) = (BTreeMap::new(), BTreeMap::new());
    for (place, now, decision) in log.borrow().iter() {
        // Receivers answer at once; senders use what they were told a millisecond later.
        if *now > Instant(2_000_000) {
            break;
        }
        for &(to, message) in &decision.messages {
            // D-CAS's second kind of message is the feedback.
            if let Some((1, order)) = message.payload.number() {
                answers.insert((*place, to), order);
            }
        }
        for &(target, priority) in &decision.priorities {
            assert_eq!(target, Target::Coflow(CoflowId(0)));
            priorities.insert(*place, priority);
        }
    }
    let [r1, r2] = [3, 4];
    let expected =
        [(r1, 0), (r1, 1), (r2, 0), (r2, 1), (r2, 2)].map(|(from, to)| ((from, PortId(to)), 4 * SECOND));
    assert_eq!(answers, BTreeMap::from(expected), "what each receiver tells each sender (psi)");
    let agreed = Priority::new(1, 4 * SECOND);
    assert_eq!(
        priorities,
        BTreeMap::from([(0, agreed), (1, agreed), (2, agreed)]),
        "what senders make of it (phi)"
    );
}

/// D-CAS §IV: where every sender desires the same of every coflow, priorities order nothing. Hosts
/// look at their subcoflows once, on arrival, when each sender has four units of each coflow,
/// however spread.
#[test]
fn dcas_where_all_desire_the_same_is_fair_sharing() {
    let coflows = workload(
        4,
        vec![
            task("spread", 0.0, &[flow(1, 3, 1.0), flow(1, 4, 3.0), flow(2, 3, 2.0), flow(2, 4, 2.0)]),
            task("single", 0.0, &[flow(1, 4, 4.0)]),
            task("paired", 0.0, &[flow(1, 3, 4.0), flow(2, 3, 4.0)]),
        ],
    );
    let once = policy("dcas:sync=1000s,expiry=1000s,starvation=1000s,threshold_volume=1B");
    let negotiated = times(&coflows, &both_sides(4), &once);
    assert_eq!(negotiated, times(&coflows, &both_sides(4), &policy("fair")));
    let ordered = times(&coflows, &both_sides(4), &policy("dcas:threshold_volume=1B"));
    assert_ne!(negotiated, ordered, "looked at again, what is left differs, and orders");
}

// ----------------------------------------------------------------------------------------------------------
// TAFE

/// Two tasks of two map flows and two reduce flows, each of one unit. Port 1's link stands for the
/// CPU, port 2's for the network; each reduce flow follows its own map flow, so each flow is a
/// stage.
fn tafe_figure_2() -> Workload {
    let cpu = [flow(1, 1, 1.0)];
    let network = [flow(2, 2, 1.0)];
    let stages: [(&[u32], &[_]); 4] = [(&[], &cpu), (&[], &cpu), (&[0], &network), (&[1], &network)];
    workload(2, ["1", "2"].map(|name| staged(name, 0.0, &stages)).to_vec())
}

#[test]
fn tafe_figure_2_fair_sharing() {
    let times = times(&tafe_figure_2(), &senders_only(2), &policy("fair"));
    assert_eq!(times, units([("1", 8.0), ("2", 8.0)]));
}

#[test]
fn tafe_figure_2_tasks_in_turn_with_fair_sharing_inside() {
    let by_task = policy("fifo_lm:heavy_threshold=1TB");
    let times = times(&tafe_figure_2(), &senders_only(2), &by_task);
    assert_eq!(times, units([("1", 4.0), ("2", 6.0)]));
}

#[test]
fn tafe_figure_2_tasks_in_turn_and_flows_one_by_one() {
    for spec in ["fifo", "tafe:thresholds=1TB"] {
        let times = times(&tafe_figure_2(), &senders_only(2), &policy(spec));
        assert_eq!(times, units([("1", 3.0), ("2", 5.0)]), "{spec}");
    }
}

// -----------------------------------------------------------------------------------------------
// Aalo, Theorem A.1

/// m singletons, one on each pair of ports, and q = n − m coflows of one unit on every pair; all at
/// time 0.
fn theorem_a1(m: u32, q: u32, wide_first: bool) -> Workload {
    let single = |k: u32| task(&format!("single {k}"), 0.0, &[flow(k, m - k + 1, 1.0)]);
    let wide = |j: u32| {
        let flows: Vec<_> = (1..=m).map(|i| flow(i, m - i + 1, 1.0)).collect();
        task(&format!("wide {j}"), 0.0, &flows)
    };
    let (singles, wides): (Vec<_>, Vec<_>) = ((1..=m).map(single).collect(), (1..=q).map(wide).collect());
    workload(m, if wide_first { [wides, singles].concat() } else { [singles, wides].concat() })
}

const SIZES: [(u32, u32); 3] = [(4, 6), (9, 12), (16, 21)];

#[test]
fn theorem_a1_the_optimum_serves_the_singletons_first() {
    for (m, n) in SIZES {
        let q = n - m;
        let times = times(&theorem_a1(m, q, false), &both_sides(m), &policy("fifo"));
        assert_eq!(sum(&times), u64::from(m + q + q * (q + 1) / 2) * SECOND, "m = {m}, n = {n}");
    }
}

#[test]
fn theorem_a1_per_flow_fairness_is_as_bad_as_no_coordination() {
    for (m, n) in SIZES {
        let q = n - m;
        let times = times(&theorem_a1(m, q, false), &both_sides(m), &policy("fair"));
        assert_eq!(sum(&times), u64::from(n * (q + 1)) * SECOND, "m = {m}, n = {n}");
    }
}

#[test]
fn theorem_a1_local_least_attained_service_is_no_better() {
    for (m, n) in SIZES {
        let q = n - m;
        let times = times(&theorem_a1(m, q, false), &both_sides(m), &policy(FINE_LAS));
        let expected = u64::from(n * (q + 1)) * SECOND;
        assert!(
            sum(&times).abs_diff(expected) <= u64::from(n * (q + 1)) * QUANTUM,
            "m = {m}, n = {n}: {times:?}"
        );
    }
}

#[test]
fn theorem_a1_an_adversary_puts_the_wide_coflows_first() {
    for (m, n) in SIZES {
        let q = n - m;
        let times = times(&theorem_a1(m, q, true), &both_sides(m), &policy("fifo"));
        assert_eq!(sum(&times), u64::from(q * (q + 1) / 2 + m * (q + 1)) * SECOND, "m = {m}, n = {n}");
    }
}

#[test]
fn theorem_a1_dclas_beats_fairness_with_either_tie() {
    let dclas = policy("dclas:queues=4,factor=10,first_threshold=125MB,weighted=false,sync=0ms");
    for (m, n) in SIZES {
        for wide_first in [false, true] {
            let times = times(&theorem_a1(m, n - m, wide_first), &both_sides(m), &dclas);
            assert!(sum(&times) < u64::from(n * (n - m + 1)) * SECOND, "m = {m}, n = {n}: {times:?}");
        }
    }
}

// -----------------------------------------------------------------------------------------------
// Aalo, Appendix B

/// N coflows of size S on one link, continuous prioritisation (which is fair sharing here) against
/// two queues with the threshold `low`. S = `low` is left out: such a coflow ends when it would be
/// demoted.
fn appendix_b(n: u64, low: u64, size_in_hundredths: u64) {
    let size = size_in_hundredths as f64 / 100.0;
    let tasks = (0..n).map(|index| task(&index.to_string(), 0.0, &[flow(1, 1, size)])).collect();
    let workload = workload(1, tasks);
    let ns = SECOND / 100;
    let continuous = n * n * size_in_hundredths;
    assert_eq!(sum(&times(&workload, &senders_only(1), &policy("fair"))), continuous * ns);
    let queues = match low {
        0 => policy("dclas:queues=1,weighted=false,sync=0ms"),
        _ => policy(&format!("dclas:queues=2,first_threshold={}B,weighted=false,sync=0ms", low * UNIT)),
    };
    // In the highest queue FIFO serves each up to the threshold in turn, in the lower one the rest.
    let upper = n * n * low * 100;
    let discretised = upper + n * (n + 1) / 2 * (size_in_hundredths - low * 100);
    assert_eq!(sum(&times(&workload, &senders_only(1), &queues)), discretised * ns);
}

#[test]
fn appendix_b_just_above_the_threshold() {
    appendix_b(5, 10, 1001);
}

#[test]
fn appendix_b_far_above_the_threshold() {
    appendix_b(5, 10, 5000);
    appendix_b(5, 10, 10000);
}

#[test]
fn appendix_b_without_a_threshold() {
    appendix_b(5, 0, 1000);
}

#[test]
fn appendix_b_with_many_coflows() {
    appendix_b(20, 10, 9000);
}
