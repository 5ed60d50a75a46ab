//! Two ends and a network that loses, repeats, reorders and breaks packets: every byte arrives once
//! and in order.

use std::collections::BTreeMap;

use cavalcade_model::SplitMix64;
use proptest::prelude::*;

use super::*;

/// The faults of the network, in thousandths of packets.
#[derive(Clone, Copy, Debug, Default)]
struct Weather {
    seed: u64,
    loss: u64,
    repeats: u64,
    breaks: u64,
    jitter: u64,
    /// Packets of more bytes than this do not get through.
    most: Option<usize>,
    /// A time in which all packets are lost.
    outage: (u64, u64),
}

const DELAY: u64 = 200_000;

struct Pair {
    weather: Weather,
    random: SplitMix64,
    now: u64,
    sequence: u64,
    on_the_way: BTreeMap<(u64, u64), (usize, Vec<u8>)>,
    ends: [Option<Connection>; 2],
    settings: Settings,
    broken: u64,
    packets: u64,
    /// The client's questions: their time and demand, which is zero where it gives back what it
    /// has.
    asked: Vec<(u64, u8)>,
}

impl Pair {
    fn new(weather: Weather, settings: Settings) -> Self {
        let client = Connection::connect(Instant(0), 77, 5, settings.clone());
        Self {
            weather,
            random: SplitMix64::new(weather.seed),
            now: 0,
            sequence: 0,
            on_the_way: BTreeMap::new(),
            ends: [Some(client), None],
            settings,
            broken: 0,
            packets: 0,
            asked: Vec::new(),
        }
    }

    fn end(&mut self, at: usize) -> &mut Connection {
        self.ends[at].as_mut().expect("the end is there")
    }

    fn launch(&mut self, to: usize, mut bytes: Vec<u8>) {
        let weather = self.weather;
        self.packets += 1;
        let away = (weather.outage.0..weather.outage.1).contains(&self.now);
        let copies = if self.random.below(1_000) < weather.repeats { 2 } else { 1 };
        for _ in 0..copies {
            let lost = self.random.below(1_000) < weather.loss;
            if lost || away || weather.most.is_some_and(|most| bytes.len() + 28 > most) {
                continue;
            }
            let arrival = self.now + DELAY + self.random.below(weather.jitter + 1);
            if self.random.below(1_000) < weather.breaks {
                // Anywhere but in what switches may change, which the checksum leaves to UDP's.
                let at = frame::HEADER - 30
                    + self.random.below((bytes.len() - frame::HEADER + 30) as u64) as usize;
                bytes[at] ^= 1 << self.random.below(8);
            }
            self.sequence += 1;
            self.on_the_way.insert((arrival, self.sequence), (to, bytes.clone()));
        }
    }

    fn flush(&mut self) {
        let mut bytes = Vec::new();
        for at in 0..2 {
            let now = Instant(self.now);
            while let Some(frame) = self.ends[at].as_mut().and_then(|end| end.poll_transmit(now)) {
                let asks = at == 0 && frame.kind.is_of_sender() && frame.spc.asks();
                self.asked.extend(asks.then_some((self.now, frame.spc.demand)));
                frame.encode(&mut bytes);
                self.launch(1 - at, bytes.clone());
            }
        }
    }

    fn receive(&mut self, to: usize, bytes: &[u8]) {
        let now = Instant(self.now);
        let Ok(frame) = Frame::decode(bytes) else {
            self.broken += 1;
            return;
        };
        match &mut self.ends[to] {
            Some(end) => end.handle(now, &frame),
            empty => *empty = Connection::accept(now, &frame, self.settings.clone()),
        }
    }

    /// Goes on to the next event; false once there is none.
    fn step(&mut self) -> bool {
        self.flush();
        let packet = self.on_the_way.first_key_value().map(|(&(arrival, _), _)| arrival);
        let timers = self.ends.iter().flatten().filter_map(Connection::poll_timeout);
        let timer = timers.map(|due| due.get().max(self.now + 1)).min();
        let Some(next) = packet.into_iter().chain(timer).min() else { return false };
        self.now = next;
        if packet == Some(next) {
            if let Some((_, (to, bytes))) = self.on_the_way.pop_first() {
                self.receive(to, &bytes);
            }
        } else {
            let now = Instant(self.now);
            self.ends.iter_mut().flatten().for_each(|end| end.handle_timeout(now));
        }
        true
    }

    fn open(&mut self) {
        while !self.ends.iter().all(|end| end.as_ref().is_some_and(Connection::is_open)) {
            assert!(self.step(), "it never opens");
        }
    }
}

fn message(seed: u64, length: usize) -> Vec<u8> {
    let mut random = SplitMix64::new(seed);
    (0..length).map(|_| random.below(256) as u8).collect()
}

/// Sends `sent[i]` from end i to the other; reads `read_each` bytes at most at a time. Returns what
/// arrived.
fn exchange(pair: &mut Pair, sent: &[Vec<u8>; 2], read_each: usize) -> [Vec<u8>; 2] {
    let mut written = [0, 0];
    let mut arrived = [Vec::new(), Vec::new()];
    for step in 0..3_000_000 {
        for at in 0..2 {
            let now = Instant(pair.now);
            let Some(end) = &mut pair.ends[at] else { continue };
            if end.is_open() {
                let chunk = &sent[at][written[at]..(written[at] + 3_000).min(sent[at].len())];
                written[at] += end.write(now, chunk);
                if written[at] == sent[at].len() {
                    end.finish(now);
                }
            }
            let mut buffer = vec![0; read_each];
            let count = end.read(&mut buffer);
            arrived[at].extend(&buffer[..count]);
        }
        let unread = pair.ends.iter().flatten().any(Connection::is_readable);
        if !pair.step() && !unread {
            return arrived;
        }
        assert!(step < 2_999_999, "no end in sight at {} ns", pair.now);
    }
    arrived
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn every_byte_arrives_once_and_in_order_both_ways(
        seed in any::<u64>(), loss in 0u64..=80, repeats in 0u64..=100, breaks in 0u64..=30,
        jitter in prop_oneof![Just(0), 0u64..600_000], outage in 0u64..40_000_000,
        there in prop_oneof![Just(0usize), 1usize..4_000, 1usize..300_000],
        back in prop_oneof![Just(0usize), 1usize..4_000, 1usize..100_000],
        read_each in prop_oneof![Just(100_000usize), 500usize..3_000], buffer in 3_000usize..60_000,
    ) {
        let weather =
            Weather { seed, loss, repeats, breaks, jitter, most: None, outage: (outage, outage + 20_000_000) };
        let settings = Settings { send_buffer: buffer, receive_buffer: buffer, ..Settings::default() };
        let mut pair = Pair::new(weather, settings);
        let sent = [message(seed, there), message(seed + 1, back)];
        let arrived = exchange(&mut pair, &sent, read_each);
        prop_assert!(arrived[1] == sent[0] && arrived[0] == sent[1], "{} {}", arrived[1].len(), arrived[0].len());
        for end in pair.ends.iter().flatten() {
            prop_assert_eq!(end.ending(), Some(Ending::Done));
        }
    }
}

#[test]
fn a_path_with_smaller_packets_is_found_at_the_opening() {
    let weather = Weather { most: Some(1_400), ..Weather::default() };
    let mut pair = Pair::new(weather, Settings::default());
    pair.open();
    assert_eq!(pair.end(0).payload(), Some(SMALLEST - OVERHEAD));
    let sent = [message(1, 50_000), Vec::new()];
    assert!(exchange(&mut pair, &sent, 4_000)[1] == sent[0]);
}

#[test]
fn a_path_that_answers_sooner_than_the_fabrics_round_trip_is_asked_no_more_than_once_in_that() {
    let mut pair = Pair::new(Weather::default(), Settings::default());
    let sent = [message(1, 2_000_000), Vec::new()];
    let [_, arrived] = exchange(&mut pair, &sent, 1 << 16);
    assert!(arrived == sent[0]);
    // Between two without a return.
    let pairs = pair.asked.windows(2).filter(|pair| pair[0].1 > 0 && pair[1].1 > 0);
    let gaps: Vec<u64> = pairs.map(|pair| pair[1].0 - pair[0].0).collect();
    let least = pair.settings.base_rtt.get();
    assert!(2 * DELAY < least && gaps.len() > 2, "{:?}", pair.asked);
    assert!(gaps.iter().all(|&gap| gap >= least), "{:?}", pair.asked);
}

#[test]
fn a_path_that_shrinks_under_a_stream_carries_its_segments_in_parts() {
    for (is_told, loss, jitter) in [(true, 0, 0), (false, 0, 0), (false, 30, 600_000)] {
        let mut pair =
            Pair::new(Weather { seed: 7, loss, jitter, ..Weather::default() }, Settings::default());
        pair.open();
        assert_eq!(pair.end(0).payload(), Some(LARGEST - OVERHEAD));
        pair.weather.most = Some(usize::from(SMALLEST));
        if is_told {
            let now = Instant(pair.now);
            pair.ends.iter_mut().flatten().for_each(|end| end.handle_too_large(now));
        }
        let sent = [message(1, 300_000), message(2, 50_000)];
        let arrived = exchange(&mut pair, &sent, 4_000);
        assert!(arrived[1] == sent[0] && arrived[0] == sent[1], "told {is_told}, loss {loss}");
    }
}

#[test]
fn parts_that_cannot_be_are_left_out() {
    let mut pair = Pair::new(Weather::default(), Settings::default());
    pair.open();
    let plain = SpcHeader::new(5, 0);
    let fragment = |segment: u32, run: (u32, u32), payload: &'static [u8]| Frame {
        segment,
        run,
        payload,
        ..Frame::new(FrameKind::Data, 77, plain)
    };
    let now = Instant(pair.now);
    for wrong in [
        fragment(0, (3, 5), b"abc"),
        fragment(0, (u32::MAX, 5), b"abc"),
        fragment(0, (0, u32::MAX), b"abc"),
        fragment(u32::MAX, (0, 5), b"abc"),
    ] {
        pair.end(1).handle(now, &wrong);
    }
    // The second of these says another length than the first.
    for piece in [
        fragment(0, (0, 6), b"abc"),
        fragment(0, (3, 7), b"xyz"),
        fragment(0, (3, 6), b"def"),
        fragment(0, (0, 6), b"abc"),
    ] {
        pair.end(1).handle(now, &piece);
    }
    let mut out = [0; 100];
    assert_eq!(pair.end(1).read(&mut out), 6);
    assert_eq!(&out[..6], b"abcdef");
}

#[test]
fn a_driver_that_refuses_a_size_has_the_next_tried_at_once() {
    for (peer, headers) in [("10.0.0.1", 28), ("::ffff:10.0.0.1", 28), ("fd00::1", 48)] {
        let settings = Settings { overhead: frame::overhead(peer.parse().unwrap()), ..Settings::default() };
        let mut client = Connection::connect(Instant(0), 1, 5, settings);
        let size = |client: &mut Connection| {
            let mut bytes = Vec::new();
            client.poll_transmit(Instant(0)).expect("an opening").encode(&mut bytes);
            bytes.len() + headers
        };
        assert_eq!(size(&mut client), usize::from(LARGEST), "{peer}");
        for smaller in [1_500, SMALLEST] {
            client.handle_too_large(Instant(0));
            assert_eq!(size(&mut client), usize::from(smaller), "{peer}");
        }
    }
}

#[test]
fn one_direction_goes_on_after_the_other_has_ended() {
    let mut pair = Pair::new(Weather::default(), Settings::default());
    pair.open();
    let now = Instant(pair.now);
    pair.end(0).finish(now);
    while !pair.end(1).is_at_end() {
        assert!(pair.step());
    }
    let now = Instant(pair.now);
    assert_eq!(pair.end(1).write(now, b"after the end"), 13);
    pair.end(1).finish(now);
    let mut buffer = [0; 20];
    while !pair.end(0).is_readable() {
        assert!(pair.step());
    }
    assert_eq!(pair.end(0).read(&mut buffer), 13);
    while pair.step() {}
    assert_eq!((pair.end(0).ending(), pair.end(1).ending()), (Some(Ending::Done), Some(Ending::Done)));
}

#[test]
fn a_receiver_that_stalls_holds_the_sender_back_and_then_gets_every_byte() {
    let settings = Settings { receive_buffer: 20_000, ..Settings::default() };
    let mut pair = Pair::new(Weather::default(), settings);
    pair.open();
    let sent = message(3, 200_000);
    let now = Instant(pair.now);
    assert_eq!(pair.end(0).write(now, &sent), sent.len());
    pair.end(0).finish(now);
    let (from, before) = (pair.now, pair.packets);
    while pair.now < from + 20_000_000_000 {
        assert!(pair.step());
    }
    let kept = pair.end(1).halves.as_ref().map(|halves| halves.incoming.room());
    assert_eq!(kept, Some(0), "no room is left");
    // Twenty seconds: asked at least each 640 ms, and no flood.
    assert!((30..400).contains(&(pair.packets - before)), "{}", pair.packets - before);
    let mut arrived = Vec::<u8>::new();
    let mut buffer = [0; 1_000];
    while !pair.end(1).is_at_end() {
        let count = pair.end(1).read(&mut buffer);
        arrived.extend(&buffer[..count]);
        if count == 0 {
            assert!(pair.step());
        }
    }
    assert!(arrived == sent);
}

#[test]
fn a_peer_that_is_gone_is_given_up_after_the_patience_and_one_that_is_idle_is_not() {
    let mut pair = Pair::new(Weather::default(), Settings::default());
    pair.open();
    while pair.now < 200_000_000_000 {
        assert!(pair.step());
    }
    assert!(pair.end(0).is_open() && pair.end(1).is_open(), "idle for 200 s");
    pair.weather.outage = (pair.now, u64::MAX);
    let gone = pair.now;
    while pair.end(0).ending().is_none() {
        assert!(pair.step());
    }
    assert_eq!(pair.end(0).ending(), Some(Ending::TimedOut));
    let patience = Settings::default().patience.get();
    assert!(pair.now - gone <= patience, "{} ns", pair.now - gone);
    assert!(pair.now - gone >= patience / 4 * 3, "{} ns", pair.now - gone);
}

#[test]
fn refusals_of_too_many_switches_end_an_open_connection_only_where_they_go_on_for_the_patience() {
    let refusal = Frame { accepted: true, ..Frame::reset(77, 5, Reason::TooManySwitches) };
    let patience = Settings::default().patience.get();
    // Idle; all acknowledged; more than its reader has room for; and cut off, which alone ends it.
    for (bytes, is_cut) in [(0, false), (100_000, false), (2 << 20, false), (100_000, true)] {
        let mut pair = Pair::new(Weather::default(), Settings::default());
        pair.open();
        let now = Instant(pair.now);
        pair.end(0).write(now, &message(3, bytes));
        let (began, mut refused) = (pair.now, 0);
        if is_cut {
            pair.weather.outage = (pair.now, u64::MAX);
        }
        // For a second, as a loop; where it is cut off, all the time.
        while pair.end(0).ending().is_none() && pair.now - began < 3 * patience {
            if pair.now >= refused && (is_cut || pair.now - began < 1_000_000_000) {
                refused = pair.now + 100_000_000;
                let now = Instant(pair.now);
                pair.end(0).handle(now, &refusal);
            }
            assert!(pair.step());
        }
        let ending = is_cut.then_some(Ending::Reset(Reason::TooManySwitches));
        assert_eq!(pair.end(0).ending(), ending, "{bytes} bytes");
        assert!(is_cut || pair.end(0).is_open());
    }
}

#[test]
fn a_writer_whose_reader_has_gone_is_told() {
    let mut pair = Pair::new(Weather::default(), Settings::default());
    pair.open();
    let now = Instant(pair.now);
    pair.end(1).stop_reading();
    pair.end(1).finish(now);
    pair.end(0).write(now, b"does anybody read this?");
    while pair.end(0).ending().is_none() {
        assert!(pair.step());
    }
    assert_eq!(pair.end(0).ending(), Some(Ending::Reset(Reason::Aborted)));
}

#[test]
fn an_end_that_is_closed_both_ways_does_not_wait_for_a_peer_that_never_closes() {
    let mut pair = Pair::new(Weather::default(), Settings::default());
    pair.open();
    let now = Instant(pair.now);
    pair.end(0).finish(now);
    pair.end(0).stop_reading();
    while pair.now < now.get() + 2 * LINGER.get() {
        assert!(pair.step());
    }
    assert_eq!((pair.end(0).ending(), pair.end(1).ending()), (Some(Ending::Done), None));
}

#[test]
fn a_copy_of_an_opening_that_nobody_confirms_is_never_open() {
    let mut pair = Pair::new(Weather::default(), Settings::default());
    let now = Instant(0);
    let mut bytes = Vec::new();
    pair.end(0).poll_transmit(now).expect("it opens").encode(&mut bytes);
    let frame = Frame::decode(&bytes).expect("its own frame");
    let mut server = Connection::accept(now, &frame, Settings::default()).expect("an opening");
    for second in 0..40 {
        server.handle_timeout(Instant(second * 1_000_000_000));
        while server.poll_transmit(Instant(second * 1_000_000_000)).is_some() {}
        assert!(!server.is_open());
    }
    assert_eq!(server.ending(), Some(Ending::TimedOut));
}

#[test]
fn a_segment_for_which_there_is_no_room_is_not_taken_in() {
    let settings = Settings { receive_buffer: 10_000, sizes: vec![1_500], ..Settings::default() };
    let mut pair = Pair::new(Weather::default(), settings);
    pair.open();
    let payload = message(1, 1_412);
    for segment in (0..100).rev() {
        let frame =
            Frame { segment, payload: &payload, ..Frame::new(FrameKind::Data, 77, SpcHeader::new(5, 0)) };
        pair.end(1).handle(Instant(1), &frame);
    }
    let mut buffer = [0; 200_000];
    assert_eq!(pair.end(1).read(&mut buffer), 10_000 / 1_412 * 1_412);
}
