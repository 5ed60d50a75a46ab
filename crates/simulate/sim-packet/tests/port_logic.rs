//! What a transport's logic at ports is promised: it sees each packet of a flow at each port of its
//! path, going and returning.
//!
//! The transport here is Reno with a header of its own: ports add themselves to it on the way, the
//! receiver sends it back, and ports check it on the way home.

#![allow(clippy::unwrap_used, reason = "a test whose scene cannot be set has failed")]

use std::sync::{Arc, Mutex};

use cavalcade_model::{BitsPerSec, Bytes, FabricSpec, Flow, Instant, Nanos, PortId, WorkloadBuilder};
use cavalcade_sim_packet::{Network, Options, SimulationError, simulate};
use cavalcade_transport::{
    FlowSetup, Header, Kind, PortLogic, PortSetup, Receiver, Sender, SwitchNeeds, Transport, WindowReceiver,
    WindowSender, reno::Reno,
};

/// The ports that a packet has passed, in order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Visited {
    ports: [u32; 6],
    count: usize,
}

/// Record of ports and senders.
#[derive(Debug, Default)]
struct Log {
    /// Count of packets arriving and leaving and of replies returning, for each port.
    seen: Vec<[u64; 3]>,
    largest_backlog: u64,
    /// The headers that came back to senders.
    returned: Vec<Visited>,
}

#[derive(Clone)]
struct Recording {
    inner: Reno,
    log: Arc<Mutex<Log>>,
}

struct Port {
    number: u32,
    log: Arc<Mutex<Log>>,
}

impl PortLogic<Visited> for Port {
    fn arrive(&mut self, _: Instant, backlog: Bytes, header: &mut Header, extra: &mut Visited) {
        assert_eq!(header.kind, Kind::Data);
        extra.ports[extra.count] = self.number;
        extra.count += 1;
        let mut log = self.log.lock().unwrap();
        log.seen[self.number as usize][0] += 1;
        log.largest_backlog = log.largest_backlog.max(backlog.get());
    }

    fn depart(&mut self, _: Instant, _: Bytes, _: &mut Header, extra: &mut Visited) {
        assert_eq!(extra.ports[extra.count - 1], self.number, "a packet leaves where it came last");
        self.log.lock().unwrap().seen[self.number as usize][1] += 1;
    }

    fn pass_back(&mut self, _: Instant, header: &mut Header, extra: &mut Visited) {
        assert_eq!(header.kind, Kind::Ack);
        // What the data wrote last is met first.
        extra.count -= 1;
        assert_eq!(extra.ports[extra.count], self.number);
        self.log.lock().unwrap().seen[self.number as usize][2] += 1;
    }
}

struct Sending {
    inner: WindowSender<cavalcade_transport::reno::Law>,
    log: Arc<Mutex<Log>>,
}

impl Sender<Visited> for Sending {
    fn handle_packet(&mut self, now: Instant, header: &Header, extra: &Visited) {
        self.log.lock().unwrap().returned.push(*extra);
        Sender::<()>::handle_packet(&mut self.inner, now, header, &());
    }
    fn handle_timeout(&mut self, now: Instant) {
        Sender::<()>::handle_timeout(&mut self.inner, now);
    }
    fn poll_transmit(&mut self, now: Instant) -> Option<(Header, Visited)> {
        Sender::<()>::poll_transmit(&mut self.inner, now).map(|(header, ())| (header, Visited::default()))
    }
    fn poll_timeout(&self) -> Option<Instant> {
        Sender::<()>::poll_timeout(&self.inner)
    }
    fn sent(&self) -> Bytes {
        Sender::<()>::sent(&self.inner)
    }
    fn is_done(&self) -> bool {
        Sender::<()>::is_done(&self.inner)
    }
}

struct Receiving {
    inner: WindowReceiver,
    last: Visited,
}

impl Receiver<Visited> for Receiving {
    fn handle_packet(&mut self, now: Instant, header: &Header, extra: &Visited) {
        self.last = *extra;
        Receiver::<()>::handle_packet(&mut self.inner, now, header, &());
    }
    fn poll_transmit(&mut self, now: Instant) -> Option<(Header, Visited)> {
        Receiver::<()>::poll_transmit(&mut self.inner, now).map(|(header, ())| (header, self.last))
    }
    fn received(&self) -> Bytes {
        Receiver::<()>::received(&self.inner)
    }
    fn is_complete(&self) -> bool {
        Receiver::<()>::is_complete(&self.inner)
    }
}

impl Transport for Recording {
    type Extra = Visited;
    type Sender = Sending;
    type Receiver = Receiving;
    type PortLogic = Port;

    fn sender(&self, setup: &FlowSetup) -> Sending {
        Sending { inner: self.inner.sender(setup), log: self.log.clone() }
    }
    fn receiver(&self, setup: &FlowSetup) -> Receiving {
        Receiving { inner: self.inner.receiver(setup), last: Visited::default() }
    }
    fn port_logic(&self, setup: &PortSetup) -> Port {
        Port { number: setup.port, log: self.log.clone() }
    }
    fn needs(&self) -> SwitchNeeds {
        self.inner.needs()
    }
    fn most_hops() -> usize {
        4
    }
}

#[test]
fn more_links_than_a_header_has_room_for_are_refused_before_the_run() {
    let fabric: FabricSpec = "fattree:arity=4".parse().unwrap();
    let network = Network::new(&fabric.build(BitsPerSec(10_000_000_000)).unwrap()).unwrap();
    let mut builder = WorkloadBuilder::new(16);
    let flow = Flow { src: PortId(0), dst: PortId(15), size: Bytes(1_000), wave: Nanos::ZERO };
    builder.coflow("0", Instant::ZERO, vec![flow]);
    let transport = Recording { inner: Reno::default(), log: Arc::new(Mutex::new(Log::default())) };
    let workload = builder.build().unwrap();
    let refused = simulate(&workload, &network, &transport, None, &Options::default(), None).unwrap_err();
    let [src, dst] = ["port 0", "port 15"].map(String::from);
    assert_eq!(refused, SimulationError::TooManyHops { src, dst, hops: 6, most: 4 });
    assert!(refused.to_string().contains("there are 6 links, but the transport's header has room for 4"));
}

#[test]
fn ports_see_every_packet_of_a_path_going_and_returning() {
    let spec: FabricSpec = "leafspine:leaves=2,spines=2,hosts=2,delay=1us".parse().unwrap();
    let network = Network::new(&spec.build(BitsPerSec(10_000_000_000)).unwrap()).unwrap();
    let mut builder = WorkloadBuilder::new(4);
    for (number, src) in [0, 1].into_iter().enumerate() {
        let flow = Flow { src: PortId(src), dst: PortId(3), size: Bytes(20 * 1_460), wave: Nanos::ZERO };
        builder.coflow(number.to_string(), Instant::ZERO, vec![flow]);
    }
    let workload = builder.build().unwrap();
    let log = Arc::new(Mutex::new(Log { seen: vec![[0; 3]; network.links().len()], ..Log::default() }));
    let transport = Recording { inner: Reno::default(), log: log.clone() };
    let run = simulate(&workload, &network, &transport, None, &Options::default(), None).unwrap();

    let log = log.lock().unwrap();
    let mut expected = vec![[0; 3]; network.links().len()];
    for src in [0, 1] {
        for (hop, &link) in network.route(src, 3).links().iter().enumerate() {
            let seen = &mut expected[link as usize];
            seen[0] += 20;
            seen[1] += 20;
            // An answer passes switches, not the host that it was sent to.
            seen[2] += if hop > 0 { 20 } else { 0 };
        }
    }
    assert_eq!(log.seen, expected);
    assert!(log.largest_backlog >= 1_500, "two senders meet at the last port: {}", log.largest_backlog);
    assert_eq!(log.returned.len(), 40);
    for visited in &log.returned {
        assert_eq!(visited.count, 1, "no packet meets the port of the host itself");
        assert!([0, 2].contains(&visited.ports[0]));
    }
    assert_eq!(run.hops(), 2 * 40 * 4);
}
