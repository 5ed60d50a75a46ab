//! Whole switches without sockets: forwarding, refusals, loops, bounds.

use super::*;
use crate::packet::tests::{datagram, question};

const RATE: BitsPerSec = BitsPerSec(1_000_000_000);

fn setup(id: u64, ports: usize) -> Setup {
    let ports = (0..ports).map(|port| (format!("p{port}"), RATE, 1_500)).collect();
    Setup { id, life: 1_000 + id, watch: Nanos::ZERO, ports, ..Setup::default() }
}

fn switch(id: u64, ports: usize) -> Switch {
    let mut switch = Switch::new(Instant(0), setup(id, ports));
    // Its first beacons are out of the way.
    (0..ports).for_each(|port| while switch.poll_transmit(Instant(1), port).is_some() {});
    switch
}

fn out(switch: &mut Switch, now: u64, port: usize) -> Vec<Vec<u8>> {
    std::iter::from_fn(|| switch.poll_transmit(Instant(now), port)).map(|packet| packet.bytes).collect()
}

fn handle(switch: &mut Switch, from: usize, frame: &[u8]) {
    switch.handle(Instant(10_000), from, frame, None, None).expect("no loop");
}

#[test]
fn frames_go_to_all_ports_until_their_address_is_known() {
    let mut switch = switch(1, 3);
    handle(&mut switch, 0, &datagram(1, 2, b"who are you?", false));
    assert_eq!([0, 1, 2].map(|port| out(&mut switch, 20_000, port).len()), [0, 1, 1]);
    handle(&mut switch, 2, &datagram(2, 1, b"I am", false));
    assert_eq!([0, 1, 2].map(|port| out(&mut switch, 1_000_000, port).len()), [1, 0, 0]);
    handle(&mut switch, 0, &datagram(1, 2, b"good", false));
    assert_eq!([0, 1, 2].map(|port| out(&mut switch, 2_000_000, port).len()), [0, 0, 1]);
    handle(&mut switch, 2, &datagram(3, 2, b"on its own link", false));
    assert_eq!([0, 1, 2].map(|port| out(&mut switch, 3_000_000, port).len()), [0, 0, 0]);
    assert_eq!(switch.report().counters.filtered, 1);
}

#[test]
fn six_switches_answer_a_question_and_the_seventh_sends_it_back_refused() {
    let mut frame = datagram(1, 2, &question(7, 100), false);
    for id in 0..6 {
        let mut switch = switch(id, 2);
        handle(&mut switch, 0, &frame);
        frame = out(&mut switch, 20_000, 1).remove(0);
        let Content::Spc { seen, .. } = classify(&frame) else { panic!("it is SPC") };
        let header = seen.header;
        assert_eq!(header.hop(), id as usize + 1);
    }
    let mut seventh = switch(7, 2);
    handle(&mut seventh, 0, &frame);
    assert!(out(&mut seventh, 20_000, 1).is_empty());
    let back = out(&mut seventh, 20_000, 0).remove(0);
    assert_eq!(addresses(&back), Some(([2, 0, 0, 0, 0, 1], [2, 0, 0, 0, 0, 2])));
    assert_eq!(seventh.report().counters.refused, 1);
}

#[test]
fn malformed_headers_and_packets_that_are_too_large_are_dropped_and_counted() {
    let mut switch = switch(1, 2);
    let mut malformed = datagram(1, 2, &question(7, 100), false);
    malformed[42 + 23] |= 7;
    handle(&mut switch, 0, &malformed);
    handle(&mut switch, 0, &datagram(1, 2, &[0; 1_480], false));
    let counters = switch.report().counters;
    assert_eq!((counters.malformed, counters.too_large), (1, 1));
    assert!(out(&mut switch, 20_000, 1).is_empty());
    for length in 0..60 {
        handle(&mut switch, 0, &malformed[..length]);
    }
}

/// Carries what leaves `from` by its port 0 and 1 into `to`.
fn carry(from: &mut Switch, to: &mut Switch, now: u64) -> Result<(), SwitchError> {
    for port in 0..2 {
        for frame in out(from, now, port) {
            to.handle(Instant(now), port, &frame, None, None)?;
        }
    }
    Ok(())
}

#[test]
fn a_loop_through_another_switch_and_an_id_that_is_not_ones_own_are_found() {
    let mut watching = Switch::new(Instant(0), Setup { watch: Nanos(200_000_000), ..setup(1, 2) });
    let mut other = switch(2, 2);
    let found = (0..4u64).find_map(|round| {
        let now = 2_000_000_000 * round + 5;
        carry(&mut watching, &mut other, now).and_then(|()| carry(&mut other, &mut watching, now)).err()
    });
    assert!(matches!(found, Some(SwitchError::Loop { .. })), "{found:?}");

    let mut first = Switch::new(Instant(0), Setup { watch: Nanos(200_000_000), ..setup(5, 2) });
    let mut twin = Switch::new(Instant(0), Setup { life: 9, ..setup(5, 2) });
    let found = carry(&mut twin, &mut first, 1).expect_err("the same id");
    assert_eq!(found.to_string(), "another switch, behind p0, has the id 5 as well");
}

#[test]
fn a_switch_that_stays_forgets_what_it_learned_of_a_loop_twice_and_once_a_second_at_most() {
    let second = FORGETS_EVERY.get();
    let mut leaves = switch(2, 2);
    let mut stays = switch(1, 3);
    stays.table.fix([2, 0, 0, 0, 0, 9], 2);
    let parting = leaves.parting(Instant(10_000), 0).expect("it has forwarded").bytes;
    // Host 1 speaks, and is asked for after a parting. Returns whether its frame went to its port
    // alone.
    let mut is_known = |now: u64, parts: bool| {
        let now = Instant(now);
        stays.table.learn(now, [2, 0, 0, 0, 0, 1], 0);
        // A host may say it at any rate.
        for _ in 0..if parts { 100 } else { 0 } {
            stays.handle(now, 1, &parting, None, None).expect("another one's is no loop");
            stays.forget_if_due(now);
        }
        stays.forget_if_due(now);
        assert_eq!(stays.table.port_of(now, [2, 0, 0, 0, 0, 9]), Some(2), "what was said stays");
        stays.table.port_of(now, [2, 0, 0, 0, 0, 1]).is_some()
    };
    let times = [(1, true), (second, true), (second + 1, true), (2 * second + 1, false)];
    assert_eq!(times.map(|(now, parts)| is_known(now + 10_000, parts)), [false, true, false, false]);
    let times = [3, 4, 5].map(|seconds| seconds * second + 1);
    assert_eq!(
        times.map(|now| is_known(now + 10_000, false)),
        [false, true, true],
        "twice after the last one"
    );
    // It goes on to others, as any beacon does.
    let passed = out(&mut stays, 6 * second, 2);
    assert!(passed.iter().any(|frame| frame[..14] == parting[..14] && frame[36] == PARTS), "{passed:?}");
    let mut watching = Switch::new(Instant(0), Setup { watch: Nanos(200_000_000), ..setup(1, 2) });
    assert!(watching.parting(Instant(1), 0).is_none(), "it has brought no frame anywhere");
}

#[test]
fn a_switch_that_watches_forwards_nothing() {
    let mut watching = Switch::new(Instant(0), Setup { watch: Nanos(200_000_000), ..setup(1, 2) });
    handle(&mut watching, 0, &datagram(1, 2, b"too early", false));
    let left = out(&mut watching, 20_000, 1);
    assert!(left.iter().all(|frame| frame[12..14] == BEACON), "{left:?}");
}

#[test]
fn memory_is_taken_back_and_given_out_again() {
    let mut switch = switch(1, 2);
    for round in 0..100u64 {
        let now = Instant(1_000_000 * (round + 1));
        switch.handle(now, 0, &datagram(1, 2, &[7; 1_000], false), None, None).expect("no loop");
        while let Some(packet) = switch.poll_transmit(now, 1) {
            switch.recycle(packet);
        }
    }
    assert_eq!(switch.buffers.len(), 1);
}
