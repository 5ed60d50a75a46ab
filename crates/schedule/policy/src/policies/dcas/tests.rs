//! Pseudocodes 1 and 2 step by step, and what leaders say.

use super::*;
use crate::scripted::{Driven, Script, drive};

const MS: u64 = 1_000_000;
const MB: u64 = 1_000_000;

/// One sender at port 0 with a subcoflow to ports 7 and 8. At 8 Gbps a byte takes a nanosecond.
fn sender(spec: &str, first: u64, second: u64) -> (Script, Driven, CoflowId, Decision) {
    let mut script = Script::new();
    script.add_coflow(0, 0);
    let coflow = script.add_coflow(1, 0);
    script.add_flow(coflow, 0, 7, first);
    script.add_flow(coflow, 0, 8, second);
    let mut host = drive(spec);
    let start = host.at(5, Event::CoflowArrived(coflow), &script);
    (script, host, coflow, start)
}

fn answered(from: u32, coflow: CoflowId, order: u64) -> Event {
    Event::Received { from: PortId(from), message: feedback(coflow, order) }
}

fn desires(to: &[u32], coflow: CoflowId, order: u64) -> Vec<(PortId, Message)> {
    to.iter().map(|&to| (PortId(to), desire(coflow, order))).collect()
}

#[test]
fn as_printed_every_tick_announces_to_all_receivers_and_the_answers_count_after_the_wait() {
    let (mut script, mut host, coflow, start) = sender("dcas", 30 * MB, 20 * MB);
    let at = |order| vec![(Target::Coflow(coflow), Priority::new(1, order))];
    assert_eq!(start.priorities, at(50 * MB), "its own desire until the answers are in");
    assert_eq!(start.messages, desires(&[7, 8], coflow, 50 * MB));
    assert_eq!(start.wake_at, Some(Instant(MS + 5)));
    assert_eq!(host.at(6, answered(7, coflow, 60 * MB), &script), Decision::default());
    assert_eq!(host.at(7, answered(8, coflow, 90 * MB), &script), Decision::default());
    let settled = host.at(MS + 5, Event::Wake, &script);
    assert_eq!(settled.priorities, at(90 * MB), "the largest answer");
    assert_eq!(settled.wake_at, Some(Instant(100 * MS)));
    let tick = host.at(100 * MS, Event::Wake, &script);
    assert_eq!(tick.messages, desires(&[7, 8], coflow, 50 * MB), "nothing has changed, and it says so");
    assert_eq!(tick.priorities, [], "until the wait is over the priority stays");
    script.send(0, MB);
    let silent = host.at(101 * MS, Event::Wake, &script);
    assert_eq!(silent.priorities, at(50 * MB), "former answers do not count: the desire announced does");
    let next = host.at(200 * MS, Event::Wake, &script);
    assert_eq!(next.messages, desires(&[7, 8], coflow, 49 * MB));
}

#[test]
fn as_printed_a_receiver_answers_each_announcement_at_once_and_the_announcer_alone() {
    // Fig 2: desires 4, 2, 1; the second receiver hears all three.
    let coflow = CoflowId(0);
    let mut receiver = drive("dcas");
    let script = Script::new();
    let mut answer = |from: u32, order: u64, at: u64| {
        let message = desire(coflow, order);
        receiver.at(at, Event::Received { from: PortId(from), message }, &script).messages
    };
    let reply = |to: u32, order: u64| vec![(PortId(to), feedback(coflow, order))];
    assert_eq!(answer(3, 1, 0), reply(3, 1), "as yet nothing else is cached");
    assert_eq!(answer(2, 2, 1), reply(2, 2));
    assert_eq!(answer(1, 4, 2), reply(1, 4));
    let round = [answer(3, 1, 100 * MS), answer(2, 2, 100 * MS), answer(1, 4, 100 * MS)];
    assert_eq!(round, [reply(3, 4), reply(2, 4), reply(1, 4)], "from the next round on x = y = 4");
    assert_eq!(answer(3, 1, 2101 * MS), reply(3, 1), "what is older than 2 s is forgotten");
}

#[test]
fn as_printed_the_lift_lasts_until_the_tick_after_service_and_may_end_with_it_or_never_come() {
    let lifted = |spec: &str| {
        let (mut script, mut host, coflow, _) = sender(spec, 30 * MB, 20 * MB);
        host.at(1000 * MS, Event::Wake, &script);
        host.at(1001 * MS, Event::Wake, &script);
        let lifted = host.at(1100 * MS, Event::Wake, &script);
        script.send(0, MB);
        let served = host.at(1150 * MS, Event::Reached(Target::Coflow(coflow)), &script);
        (lifted, served)
    };
    let target = Target::Coflow(CoflowId(1));
    let (lift, _) = lifted("dcas");
    assert_eq!((lift.priorities.clone(), lift.watches), (vec![(target, Priority::new(1, 0))], vec![]));
    let (lift, served) = lifted("dcas:lift=served");
    assert_eq!(lift.watches, [(target, Bytes(1))]);
    assert_eq!(served.priorities, [(target, Priority::new(1, 49 * MB))]);
    let (never, _) = lifted("dcas:starvation=none");
    assert_eq!(never.priorities, [], "it goes on negotiating");
    assert_eq!(never.messages.len(), 2);
}

#[test]
fn a_small_subcoflow_is_fifo_and_says_nothing() {
    let (_, _, coflow, start) = sender("dcas-quiet", MB / 2, MB / 4);
    assert_eq!(start.priorities, [(Target::Coflow(coflow), Priority::new(0, 1))]);
    assert!(start.messages.is_empty());
    assert_eq!(start.wake_at, Some(Instant(100 * MS)));
}

#[test]
fn a_large_one_announces_its_time_and_takes_the_largest_answer() {
    let (script, mut host, coflow, start) = sender("dcas-quiet", 3 * MB, 2 * MB);
    let at = |order| vec![(Target::Coflow(coflow), Priority::new(1, order))];
    assert_eq!(start.priorities, at(5 * MB), "its own desire, for want of answers");
    assert_eq!(start.messages, desires(&[7, 8], coflow, 5 * MB));
    assert_eq!(host.at(6, answered(7, coflow, 5 * MB), &script).priorities, []);
    assert_eq!(host.at(7, answered(8, coflow, 9 * MB), &script).priorities, at(9 * MB));
}

#[test]
fn a_leader_that_is_served_tells_its_witness_and_a_follower_asks_its_own_seldom() {
    let (mut script, mut host, coflow, _) = sender("dcas-quiet", 30 * MB, 20 * MB);
    host.at(5, answered(7, coflow, 50 * MB), &script);
    host.at(5, answered(8, coflow, 50 * MB), &script);
    script.send(0, MB);
    let tick = host.at(100 * MS, Event::Wake, &script);
    assert_eq!(tick.messages, desires(&[7], coflow, 49 * MB));
    host.at(100 * MS, answered(7, coflow, 49 * MB), &script);
    host.at(100 * MS, answered(8, coflow, 60 * MB), &script);
    for tick in 2..16 {
        script.send(0, MB);
        assert!(host.at(tick * 100 * MS, Event::Wake, &script).messages.is_empty(), "tick {tick}");
    }
    script.send(0, MB);
    let asking = host.at(1600 * MS, Event::Wake, &script);
    assert_eq!(asking.messages, desires(&[8], coflow, 34 * MB));
}

#[test]
fn an_unanswered_announcement_is_repeated_at_the_next_tick() {
    let (script, mut host, coflow, _) = sender("dcas-quiet", 3 * MB, 2 * MB);
    host.at(6, answered(8, coflow, 5 * MB), &script);
    let tick = host.at(100 * MS, Event::Wake, &script);
    assert_eq!(tick.messages, desires(&[7], coflow, 5 * MB));
}

#[test]
fn answers_expire_and_the_desire_takes_their_place() {
    let (mut script, mut host, coflow, _) = sender("dcas-quiet:starvation=1h", 3 * MB, 2 * MB);
    host.at(6, answered(7, coflow, 9 * MB), &script);
    script.send(0, MB);
    let later = host.at(2100 * MS, Event::Wake, &script);
    assert_eq!(later.priorities, [(Target::Coflow(coflow), Priority::new(1, 4 * MB))]);
    assert_eq!(later.messages, desires(&[7, 8], coflow, 4 * MB), "it may be the leader now");
}

#[test]
fn what_is_not_served_is_lifted_until_it_is() {
    let (mut script, mut host, coflow, _) = sender("dcas-quiet", 3 * MB, 2 * MB);
    assert_eq!(host.at(1000 * MS, Event::Wake, &script).priorities, [], "5 ns short of a second");
    let lifted = host.at(1100 * MS, Event::Wake, &script);
    assert_eq!(lifted.priorities, [(Target::Coflow(coflow), Priority::new(1, 0))]);
    script.send(0, MB);
    let served = host.at(1200 * MS, Event::Wake, &script);
    assert_eq!(served.priorities, [(Target::Coflow(coflow), Priority::new(1, 4 * MB))]);
}

#[test]
fn the_worked_example_of_figure_2_comes_out() {
    // Desires 4, 2, 1 of senders 1 to 3; R1 hears the first two, R2 all three. Feedback x = y = 4.
    let coflow = CoflowId(0);
    let reply = |to: u32, order: u64| (PortId(to), feedback(coflow, order));
    let mut first = drive("dcas-quiet");
    assert_eq!(answers(&mut first, 0, coflow, &[(2, 2)]), [reply(2, 2)]);
    assert_eq!(answers(&mut first, 5, coflow, &[(1, 4)]), [reply(1, 4), reply(2, 4)], "2 hears of it");
    assert_eq!(answers(&mut first, 9, coflow, &[(2, 2)]), [reply(2, 4)], "to 1 it is no news");
    let mut second = drive("dcas-quiet");
    let all = [reply(1, 4), reply(2, 4), reply(3, 4)];
    assert_eq!(answers(&mut second, 0, coflow, &[(1, 4), (2, 2), (3, 1)]), all);
}

/// Returns a receiver's replies to announcements (from, order) that come together.
fn answers(receiver: &mut Driven, at: u64, coflow: CoflowId, said: &[(u32, u64)]) -> Vec<(PortId, Message)> {
    let script = Script::new();
    for &(from, order) in said {
        let message = desire(coflow, order);
        let noted = receiver.at(at, Event::Received { from: PortId(from), message }, &script);
        assert!(noted.messages.is_empty(), "it waits for what else comes");
    }
    receiver.at(at + 1, Event::Wake, &script).messages
}

#[test]
fn a_receiver_forgets_what_has_expired() {
    let coflow = CoflowId(3);
    let mut receiver = drive("dcas-quiet");
    let reply = |to: u32, order: u64| (PortId(to), feedback(coflow, order));
    answers(&mut receiver, 0, coflow, &[(1, 100)]);
    assert_eq!(answers(&mut receiver, 1999 * MS, coflow, &[(2, 10)]), [reply(2, 100)]);
    assert_eq!(answers(&mut receiver, 2001 * MS, coflow, &[(2, 9)]), [reply(2, 9)]);
}

#[test]
fn ticks_stop_when_nothing_is_left_to_send() {
    let (mut script, mut host, coflow, _) = sender("dcas-quiet", MB, MB);
    script.send(0, MB);
    script.send(1, MB);
    host.at(50 * MS, Event::CoflowFinished(coflow), &script);
    assert_eq!(host.at(100 * MS, Event::Wake, &script), Decision::default());
}

#[test]
fn a_network_of_few_queues_gets_classes_that_grow_by_twos_and_the_same_order() {
    let class = |spec: &str, first: u64| {
        let (_, _, _, start) = sender(spec, first, 0);
        start.priorities[0].1
    };
    let orders = [MB, 2 * MB - 1, 2 * MB, 5 * MB, 31 * MB, 32 * MB, 4_000 * MB];
    let sorted: Vec<u16> = orders.iter().map(|&order| class("dcas:queues=8", order).class).collect();
    assert_eq!(sorted, [2, 2, 3, 4, 6, 7, 7], "the last queue takes what is larger still");
    for &order in &orders {
        assert_eq!(class("dcas", order), Priority::new(1, order), "without queues as printed");
        assert_eq!(class("dcas:queues=8", order).order, order);
    }
    assert!(class("dcas:queues=8", MB / 2).class < class("dcas:queues=8", MB).class);
    assert_eq!(class("dcas:queues=3", 4_000 * MB).class, 2);
    assert!(crate::parse("dcas:queues=2").is_err() && crate::parse("dcas:queues=9").is_err());
    let label = |spec: &str| crate::parse(spec).unwrap().for_queues(8).label();
    assert_eq!((label("dcas"), label("dcas:queues=4")), ("dcas:queues=8".into(), "dcas:queues=4".into()));
}
