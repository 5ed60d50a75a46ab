//! Every registered transport against a network that loses, delays, reorders and goes away: every
//! byte arrives.
//!
//! The network is a heap of packets with random delays; it knows nothing of queues or rates, so it
//! is harsher than a real one. Ports' logic is not called: a transport must not depend on it to
//! deliver.

use std::collections::BTreeMap;

use cavalcade_model::{BitsPerSec, Bytes, Instant, Nanos, SplitMix64, TaskId};
use proptest::prelude::*;

use crate::contract::{FlowSetup, Receiver, Sender};
use crate::packet::{Header, Kind};
use crate::registry::{Definition, Visitor, registry};

/// Faults of the network.
#[derive(Clone, Copy, Debug)]
struct Weather {
    seed: u64,
    /// Packets lost of a thousand.
    loss: u64,
    /// The least and the additional, random delay.
    delay: u64,
    jitter: u64,
    /// The start of 10 ms in which all packets are lost.
    outage: u64,
}

const OUTAGE: u64 = 10_000_000;

struct Network<E> {
    weather: Weather,
    random: SplitMix64,
    sequence: u64,
    /// By arrival, then in order of sending.
    on_the_way: BTreeMap<(u64, u64), (Header, E)>,
}

impl<E> Network<E> {
    fn send(&mut self, now: u64, packet: (Header, E)) {
        let Weather { loss, delay, jitter, outage, .. } = self.weather;
        let arrival = now + delay + self.random.below(jitter + 1);
        let away = (outage..outage + OUTAGE).contains(&now);
        if self.random.below(1_000) >= loss && !away {
            self.sequence += 1;
            self.on_the_way.insert((arrival, self.sequence), packet);
        }
    }
}

struct Trial {
    weather: Weather,
    size: u64,
    deadline: Option<u64>,
}

impl Visitor for Trial {
    type Output = Result<(), TestCaseError>;

    fn visit<T: Definition>(self, transport: &T) -> Self::Output {
        let setup = FlowSetup {
            flow: 3,
            size: Bytes(self.size),
            start: Instant::ZERO,
            deadline: self.deadline.map(Instant),
            task: TaskId(0),
            task_size: Bytes(self.size),
            line_rate: BitsPerSec(10_000_000_000),
            base_rtt: Nanos(2 * self.weather.delay),
            payload: 1_460,
            overhead: 40,
        };
        let (mut sender, mut receiver) = (transport.sender(&setup), transport.receiver(&setup));
        let weather = self.weather;
        let mut network = Network {
            weather,
            random: SplitMix64::new(weather.seed),
            sequence: 0,
            on_the_way: BTreeMap::new(),
        };
        let mut arrived = vec![false; setup.segments() as usize];
        let mut now = 0;
        for step in 0.. {
            prop_assert!(step < 2_000_000, "{}: no end in sight at {now} ns", T::NAME);
            while let Some(packet) = sender.poll_transmit(Instant(now)) {
                network.send(now, packet);
            }
            while let Some(packet) = receiver.poll_transmit(Instant(now)) {
                network.send(now, packet);
            }
            if sender.is_done() {
                break;
            }
            let timers = [sender.poll_timeout(), receiver.poll_timeout()];
            let timer = timers.into_iter().flatten().map(|due| due.get().max(now)).min();
            let packet = network.on_the_way.first_key_value().map(|(&(arrival, _), _)| arrival);
            let next = timer.into_iter().chain(packet).min();
            prop_assert!(next.is_some(), "{}: neither a packet nor a timer is left", T::NAME);
            now = next.unwrap_or(now);
            if packet == Some(now) {
                let Some((_, (header, extra))) = network.on_the_way.pop_first() else { continue };
                if header.kind == Kind::Ack {
                    sender.handle_packet(Instant(now), &header, &extra);
                } else {
                    if header.kind == Kind::Data {
                        arrived[header.segment as usize] = true;
                        prop_assert_eq!(header.size, setup.wire_size(header.segment));
                    }
                    receiver.handle_packet(Instant(now), &header, &extra);
                }
            } else {
                sender.handle_timeout(Instant(now));
                receiver.handle_timeout(Instant(now));
            }
        }
        prop_assert!(receiver.is_complete(), "{}: the sender thinks it is done", T::NAME);
        prop_assert_eq!(receiver.received(), setup.size);
        prop_assert_eq!(sender.sent(), setup.size);
        prop_assert!(arrived.iter().all(|&arrived| arrived));
        Ok(())
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn every_transport_delivers_every_byte(
        seed in any::<u64>(),
        loss in 0u64..=50,
        delay in 1_000u64..200_000,
        jitter in prop_oneof![Just(0), 0u64..300_000],
        outage in 0u64..2_000_000,
        size in prop_oneof![1u64..5_000, 1u64..3_000_000],
        deadline in prop::option::of(0u64..20_000_000),
    ) {
        for transport in registry() {
            transport.visit(Trial { weather: Weather { seed, loss, delay, jitter, outage }, size, deadline })?;
        }
    }
}
