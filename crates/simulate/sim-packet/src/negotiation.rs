//! What a policy's instances say to each other as the live system says it: statements in the
//! datagrams of `cavalcade-protocol`, numbered and sorted out by its [`Negotiation`], over the
//! network of the simulation.
//!
//! A datagram is one packet without a flow: it is sent once, ahead of data and in the highest
//! class, waits in queues, is dropped where they are full and lost where links lose. They are not
//! sent again. What arrives is read from its bytes, and passed on unless something newer has come
//! from the same host.
//!
//! Coflows are named as in the live system, with the number of the workload as their serial: so a
//! datagram has the length that it has there. Clocks of hosts agree.
//!
//! Cost: a walk over the statements of an instant, and their bytes; nothing where nothing is said.
//!
//! Rejected: a message as a flow under the run's transport. It cannot be lost, which the live
//! system's can, and it competes as a flow where transports count flows.

use cavalcade_metrics::MessageUse;
use cavalcade_model::{Bytes, CoflowId, Instant, Message, PortId, Work, Workload};
use cavalcade_protocol::{CoflowKey, Datagram, Message as _, Negotiation, Statement};

/// A message on its way from one host to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Outgoing {
    pub(crate) from: u32,
    pub(crate) to: u32,
    pub(crate) message: Message,
}

/// A datagram that is to be put on the network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Parcel {
    /// Its number among those under way.
    pub(crate) number: u32,
    pub(crate) from: u32,
    pub(crate) to: u32,
    /// Bytes without the packet's headers.
    pub(crate) size: u16,
}

/// A datagram under way.
#[derive(Debug)]
struct UnderWay {
    sent: Instant,
    bytes: Vec<u8>,
}

/// The negotiations of all hosts.
#[derive(Debug)]
pub(crate) struct Negotiations {
    hosts: Vec<Negotiation>,
    under_way: Vec<Option<UnderWay>>,
    counts: MessageUse,
}

impl Negotiations {
    /// For `hosts` that have said nothing yet.
    pub(crate) fn new(hosts: u32) -> Self {
        let host = |port| Negotiation::new(PortId(port), 0);
        Self { hosts: (0..hosts).map(host).collect(), under_way: Vec::new(), counts: MessageUse::default() }
    }

    /// Returns the counts of all messages.
    pub(crate) fn counts(&self) -> MessageUse {
        self.counts
    }

    /// Packs what is to be said at `now`: to each host in turn, in the order in which it was
    /// decided.
    pub(crate) fn pack(&mut self, now: Instant, workload: &Workload, mut said: Vec<Outgoing>) -> Vec<Parcel> {
        let mut parcels = Vec::new();
        said.sort_by_key(|outgoing| (outgoing.from, outgoing.to));
        for to_one in said.chunk_by(|a, b| (a.from, a.to) == (b.from, b.to)) {
            let Outgoing { from, to, .. } = to_one[0];
            let statements: Vec<Statement> =
                to_one.iter().map(|outgoing| stated(workload, outgoing.message)).collect();
            for datagram in self.hosts[from as usize].send(now, PortId(to), &statements) {
                let bytes = datagram.to_bytes();
                self.counts.sent += 1;
                self.counts.statements += datagram.statements.len() as u64;
                self.counts.payload += Bytes(bytes.len() as u64);
                let size = u16::try_from(bytes.len()).expect("a datagram fits an Ethernet frame");
                parcels.push(Parcel { number: self.keep(UnderWay { sent: now, bytes }), from, to, size });
            }
        }
        parcels
    }

    fn keep(&mut self, datagram: UnderWay) -> u32 {
        match self.under_way.iter().position(Option::is_none) {
            Some(number) => {
                self.under_way[number] = Some(datagram);
                number as u32
            }
            None => {
                self.under_way.push(Some(datagram));
                self.under_way.len() as u32 - 1
            }
        }
    }

    /// Datagram `number` has come to host `to` over `links` links, each of which carried `size`
    /// bytes; what it says, unless that is not to be heeded.
    pub(crate) fn unpack(&mut self, now: Instant, to: u32, number: u32, carried: Bytes) -> Vec<Outgoing> {
        let UnderWay { sent, bytes } =
            self.under_way[number as usize].take().expect("a datagram arrives or is lost, once");
        let took = now.since(sent);
        self.counts.arrived += 1;
        self.counts.carried += carried;
        self.counts.total += took;
        self.counts.longest = self.counts.longest.max(took);
        let datagram = Datagram::decode(&bytes).expect("what was encoded can be decoded");
        let from = datagram.from.0;
        match self.hosts[to as usize].receive(now, datagram) {
            None => {
                self.counts.left_out += 1;
                Vec::new()
            }
            Some(statements) => {
                statements.into_iter().map(|said| Outgoing { from, to, message: meant(said) }).collect()
            }
        }
    }

    /// The bytes of datagram `number`, while it is under way.
    pub(crate) fn bytes(&self, number: u32) -> &[u8] {
        self.under_way[number as usize].as_ref().map_or(&[], |datagram| &datagram.bytes)
    }

    /// Returns whether datagram `number` is still under way; if so, it is lost.
    pub(crate) fn lose(&mut self, number: u32) {
        if self.under_way[number as usize].take().is_some() {
            self.counts.lost += 1;
        }
    }
}

fn stated(workload: &Workload, message: Message) -> Statement {
    Statement { coflow: key(workload, message.coflow), payload: message.payload }
}

fn meant(statement: Statement) -> Message {
    Message { coflow: CoflowId(statement.coflow.serial as u32), payload: statement.payload }
}

/// Returns the key of a coflow in the live system: its task is the serial of the task's first
/// coflow.
fn key(workload: &Workload, coflow: CoflowId) -> CoflowKey {
    let place = workload.place(coflow);
    let transfers = workload.task(place.task).stages.iter().filter_map(|stage| match stage.work {
        Work::Transfer(id) => Some(id),
        Work::Compute(_) => None,
    });
    let first = transfers.min().unwrap_or(coflow);
    let stage = u16::try_from(place.internal).unwrap_or(u16::MAX);
    CoflowKey { task: first.0.into(), stage, serial: coflow.0.into() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::coupling::Coupling;
    use crate::network::{Link, Network};
    use crate::options::Options;
    use cavalcade_harness::Release;
    use cavalcade_model::{BitsPerSec, Flow, Nanos, Payload, WorkloadBuilder};
    use proptest::prelude::*;

    const LINK: Link = Link { rate: BitsPerSec(10_000_000_000), delay: Nanos(1_000) };

    fn workload(coflows: &[Vec<(u32, u32, u64)>]) -> Workload {
        let mut builder = WorkloadBuilder::new(5);
        for (number, flows) in coflows.iter().enumerate() {
            let flow = |&(src, dst, size)| Flow {
                src: PortId(src),
                dst: PortId(dst),
                size: Bytes(size),
                wave: Nanos::ZERO,
            };
            builder.coflow(number.to_string(), Instant(0), flows.iter().map(flow).collect());
        }
        builder.build().unwrap()
    }

    fn said(from: u32, to: u32, coflow: u32, order: u64) -> Outgoing {
        Outgoing {
            from,
            to,
            message: Message { coflow: CoflowId(coflow), payload: Payload::of_number(0, order) },
        }
    }

    #[test]
    fn what_an_instant_says_to_one_host_is_one_datagram_with_its_bytes() {
        let workload = workload(&[vec![(0, 1, 1)], vec![(0, 1, 1)]]);
        let mut all = Negotiations::new(5);
        let parcels =
            all.pack(Instant(7), &workload, vec![said(0, 1, 0, 9), said(2, 1, 0, 8), said(0, 1, 1, 5)]);
        let ends: Vec<_> = parcels.iter().map(|parcel| (parcel.from, parcel.to)).collect();
        assert_eq!(ends, [(0, 1), (2, 1)]);
        assert_eq!(Datagram::decode(all.bytes(parcels[0].number)).unwrap().statements.len(), 2);
        assert_eq!(all.unpack(Instant(9), 1, 0, Bytes(200)), [said(0, 1, 0, 9), said(0, 1, 1, 5)]);
        all.lose(0);
        all.lose(1);
        let counts = all.counts();
        assert_eq!((counts.sent, counts.arrived, counts.lost, counts.statements), (2, 1, 1, 3));
        assert_eq!((counts.total, counts.longest, counts.carried), (Nanos(2), Nanos(2), Bytes(200)));
    }

    #[test]
    fn what_was_overtaken_is_left_out() {
        let workload = workload(&[vec![(0, 1, 1)]]);
        let mut all = Negotiations::new(5);
        let first = all.pack(Instant(1), &workload, vec![said(0, 1, 0, 9)])[0].number;
        let second = all.pack(Instant(2), &workload, vec![said(0, 1, 0, 4)])[0].number;
        assert_eq!(all.unpack(Instant(3), 1, second, Bytes(1)), [said(0, 1, 0, 4)]);
        assert_eq!(all.unpack(Instant(4), 1, first, Bytes(1)), []);
        assert_eq!(all.counts().left_out, 1);
    }

    /// D-CAS's instances over a workload whose flows progress as `served` says: the priorities that
    /// are set after each step. Messages are either the policy's own, without delay, or cross in
    /// datagrams that take no time.
    fn decisions(
        coflows: &[Vec<(u32, u32, u64)>],
        served: &[(usize, u8)],
        in_datagrams: bool,
    ) -> Vec<Vec<(u32, u64)>> {
        let workload = workload(coflows);
        let network = Network::star(5, LINK).unwrap();
        let policy = cavalcade_policy::parse("dcas-quiet").unwrap();
        let options = Options { in_band: in_datagrams, ..Options::default() };
        let arrivals = vec![Instant::ZERO; coflows.len()];
        let mut coupling = Coupling::new(&workload, &network, &policy, &options).unwrap();
        let mut all = Negotiations::new(5);
        let releases: Vec<Release> = workload
            .coflows()
            .map(|coflow| {
                let flows = workload.flow_ids(coflow.id);
                Release::Flows { first: flows.start, end: flows.end, coflow: coflow.id, opens: true }
            })
            .collect();
        let mut sent = vec![0; workload.flows().len()];
        let mut after = Vec::new();
        coupling.release(Instant::ZERO, &releases, &arrivals);
        for step in 0..=served.len() {
            // All that comes due within a period of the policy's: what is said and answered, and
            // its ticks.
            let until = Instant(100_000_000 * step as u64 + 50_000_000);
            loop {
                let now = coupling.next().filter(|next| *next <= until);
                if !coupling.held.outbox.is_empty() {
                    let posted = std::mem::take(&mut coupling.held.outbox);
                    for Parcel { number, to, .. } in all.pack(coupling.now(), &workload, posted) {
                        for heard in all.unpack(coupling.now(), to, number, Bytes::ZERO) {
                            coupling.received(heard, coupling.now(), &arrivals);
                        }
                    }
                } else if let Some(now) = now {
                    coupling.settle(now, &arrivals);
                } else {
                    break;
                }
            }
            let flows = 0..workload.flows().len() as u32;
            after.push(
                flows.map(|flow| coupling.priority(flow)).map(|own| (own.class.into(), own.order)).collect(),
            );
            if let Some(&(flow, share)) = served.get(step) {
                let flow = flow % sent.len();
                let size = workload.flows()[flow].size.get();
                sent[flow] = size.min(sent[flow] + size * u64::from(share) / 1_000);
                coupling.sent(flow as u32, Bytes(sent[flow]));
            }
        }
        after
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        /// The machines and bytes of the live system between the instances change nothing, where
        /// they take no time.
        #[test]
        fn datagrams_that_take_no_time_change_no_decision(
            coflows in prop::collection::vec(
                prop::collection::vec((0u32..3, 3u32..5, 500_000u64..30_000_000), 1..5), 1..6),
            served in prop::collection::vec((0usize..20, 1u8..255), 0..30),
        ) {
            prop_assert_eq!(decisions(&coflows, &served, true), decisions(&coflows, &served, false));
        }
    }
}
