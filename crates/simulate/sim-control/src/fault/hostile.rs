//! A host in an attacker's hands: it has a valid certificate for its own port, and says any
//! well-formed thing about it.
//!
//! It forges terms and throws of the kill switch, claims flows that move nothing to every receiver,
//! or says that they move though nothing arrives, claims parts of other hosts' coflows with absurd
//! numbers of bytes, for their owner or for another user, coflows of long ago, grants, arrivals,
//! and any clock and line rate.

use cavalcade_control::Notary;
use cavalcade_model::{BitsPerSec, Bytes, Instant, Nanos, PortId, SplitMix64};
use cavalcade_protocol::{
    CoflowEntry, CoflowKey, FlowEntry, Keyed, KillSwitch, Message, PROTOCOL, Progress, Report, Sealed,
    Standing, TaskCounter,
};

/// The pause between two of its reports.
pub(super) const PAUSE: Nanos = Nanos::from_millis(20);

/// The secret that coordinators seal with, and no host knows.
pub(super) struct Secret;

const SEAL: [u8; 8] = *b"\x9e\x37\x79\xb9\x7f\x4a\x7c\x15";

impl Notary for Secret {
    fn seal(&self, statement: &[u8]) -> Vec<u8> {
        [statement, &SEAL].concat()
    }

    fn open(&self, sealed: &[u8]) -> Option<Vec<u8>> {
        sealed.strip_suffix(&SEAL).map(<[u8]>::to_vec)
    }
}

/// The host.
#[derive(Debug)]
pub(super) struct Hostile {
    pub(super) port: PortId,
    sequence: u64,
    /// Bytes that its flows have sent, by its word.
    claimed: u64,
    /// A coflow of its own, older than all others.
    ghost: CoflowKey,
    /// Standings that coordinators have sealed for it.
    kept: Vec<Sealed>,
}

impl Hostile {
    /// At the last of `ports`; others' clocks stand at `clock` or later.
    pub(super) fn new(ports: u32, clock: Instant) -> Self {
        let port = PortId(ports - 1);
        let ghost = CoflowKey::new(TaskCounter::of_agent(port, ports).next(clock), &[]);
        Self { port, sequence: 0, claimed: 0, ghost, kept: Vec::new() }
    }

    /// Keeps what a coordinator has sealed.
    pub(super) fn receive(&mut self, standing: Sealed) {
        if !standing.as_bytes().is_empty() {
            self.kept.push(standing);
        }
    }

    /// Returns its next report; `victims` are coflows of others.
    pub(super) fn speak(&mut self, dice: &mut SplitMix64, victims: &[CoflowKey]) -> Report {
        self.sequence += 1;
        let mut coflows = Keyed::default();
        let mut claim = |number, key, sent, owner| {
            coflows.push(number, CoflowEntry { key, facts: None, sent: Bytes(sent), owner });
        };
        claim(0, self.ghost, 0, 1);
        if dice.happens(0.3) {
            claim(1, CoflowKey { task: 0, stage: 0, serial: 0 }, dice.below(u64::MAX), 1);
        }
        for (number, &key) in victims.iter().enumerate() {
            claim(2 + number as u32, key, dice.below(u64::MAX), dice.below(5) as u32);
        }
        self.claimed += dice.below(2) * 100_000;
        let sent = Bytes(self.claimed);
        let flow = |to| FlowEntry { coflow: 0, to, size: Some(Bytes(1)), sent, idle: false };
        let unknown = Progress { sent: Bytes(dice.below(u64::MAX)), idle: dice.happens(0.5) };
        Report {
            protocol: PROTOCOL,
            port: self.port,
            session: 1,
            sequence: self.sequence,
            clock: Instant(dice.below(u64::MAX)),
            snapshot: true,
            resync: dice.happens(0.2),
            standing: self.forge(dice),
            up: BitsPerSec(dice.below(u64::MAX)),
            down: BitsPerSec(dice.below(u64::MAX)),
            arrived: [(self.port.0, Bytes(u64::MAX)), (0, Bytes(dice.below(1 << 40)))].into_iter().collect(),
            coflows,
            grants: [(0, vec![0, 1]), (2, vec![1, 2, 3])].into_iter().collect(),
            flows: (0..self.port.0).map(|to| (to, flow(PortId(to)))).collect(),
            progress: [(1_000, unknown)].into_iter().collect(),
            closed: [(1_001, Bytes(dice.below(u64::MAX)))].into_iter().collect(),
            left: [(1_002, ())].into_iter().collect(),
        }
    }

    fn forge(&self, dice: &mut SplitMix64) -> Sealed {
        if let (Some(kept), true) = (self.kept.first(), dice.happens(0.3)) {
            return kept.clone();
        }
        let term = if dice.happens(0.5) { u64::MAX } else { dice.below(3) };
        let switch = KillSwitch { term, throw: dice.below(u64::MAX), is_on: dice.happens(0.5) };
        let switch = dice.happens(0.7).then_some(switch);
        let mut bytes = Standing { term, switch, drains: Vec::new() }.to_bytes();
        if dice.happens(0.3) {
            bytes.extend((0..8).map(|_| dice.below(256) as u8));
        }
        Sealed::new(bytes)
    }
}
