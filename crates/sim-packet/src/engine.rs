//! The loop: take the next event, do what it brings, until nothing is pending.
//!
//! | event | pending at most once for each | brings |
//! |---|---|---|
//! | arrival | link | the first packet on the link reaches its far end: the next queue, or its host |
//! | free | link | the link can take the next packet: of its queue, or of its host's senders |
//! | timer | flow under way | a sender's or receiver's `handle_timeout` |
//! | release, policy, outage, sample | run | flows start; a policy wakes or hears a message; a cable goes away or comes back; queues are looked at |
//!
//! A packet belongs to its flow's place (`flows`) from `send` to `deliver` or `lose`, which are the only places where packets
//! come into being and end.

use cavalcade_metrics::{EngineCounts, Outcome};
use cavalcade_model::{Bytes, FlowId, Instant, PolicyFactory, Priority, Release, Releases, Workload};
use cavalcade_transport::{
    Flags, FlowSetup, Kind as PacketKind, PortLogic, PortSetup, Receiver, Sender, Transport,
};

use crate::coupling::Coupling;
use crate::error::SimulationError;
use crate::flows::{Flow, Flows, NEVER, clock, finished, picos};
use crate::link_use::LinkUseRecorder;
use crate::network::Network;
use crate::nic::Nic;
use crate::options::Options;
use crate::pace::Pace;
use crate::pool::{List, Pool};
use crate::port::{Kind, Port, PortCounts};
use crate::queue::{Buffer, Discipline, Joined, Queue, QueueConfig, SharedBuffer};
use crate::random::Random;
use crate::setup;
use crate::wheel::{Picos, Wheel};

/// Someone who watches a run.
pub trait Observer {
    /// So many coflows have finished.
    fn progress(&mut self, done_coflows: usize) {
        let _ = done_coflows;
    }
}

/// What came of a run.
#[derive(Clone, Debug, PartialEq)]
pub struct Run {
    /// When everything finished.
    pub outcome: Outcome,
    /// For each link of the network, what passed it.
    pub ports: Vec<PortCounts>,
    /// Bytes that waited for or were on each watched link's sender at each sample, as [`Options::watch`] asks for them.
    pub samples: Vec<Vec<u64>>,
    /// When the last event was.
    pub end: Instant,
    /// Packets that there were at once, at most.
    pub most_packets: usize,
    /// Flows that were under way at once, at most.
    pub most_flows: usize,
}

impl Run {
    /// Packets sent on links, acknowledgements included.
    pub fn hops(&self) -> u64 {
        self.ports.iter().map(|port| port.packets).sum()
    }
}

/// Runs `transport`'s flows of `workload` over `network`. Without a `policy` all flows have one priority and one queue.
///
/// # Errors
/// Where something could not work, before anything is run.
///
/// # Panics
/// Where the policy breaks its contract.
pub fn simulate<T: Transport>(
    workload: &Workload,
    network: &Network,
    transport: &T,
    policy: Option<&dyn PolicyFactory>,
    options: &Options,
    observer: Option<&mut dyn Observer>,
) -> Result<Run, SimulationError> {
    options.check(workload, network)?;
    let terms = policy.map(PolicyFactory::terms);
    let config = match &options.queues {
        Some(config) => config.clone(),
        None => setup::queues(&transport.needs(), terms.as_ref()),
    };
    config.check(options.packet)?;
    let coupling = policy.map(|policy| Coupling::new(workload, network, policy, options)).transpose()?;
    let mut engine = Engine::new(workload, network, transport, &config, coupling, options);
    engine.run(observer);
    Ok(engine.outcome())
}

/// Events that are not of a link or flow.
const RELEASE: u32 = 0;
const POLICY: u32 = 1;
const OUTAGE: u32 = 2;
const SAMPLE: u32 = 3;
const OTHERS: u32 = 4;

struct Engine<'a, T: Transport> {
    workload: &'a Workload,
    network: &'a Network,
    transport: &'a T,
    options: &'a Options,
    links: u32,
    now: Picos,
    events: u64,
    wheel: Wheel,
    pool: Pool<T::Extra>,
    ports: Vec<Port>,
    queues: Vec<Queue>,
    /// For each switch, where buffers are shared.
    shared: Vec<SharedBuffer>,
    /// For each link, where the transport has any.
    logic: Vec<T::PortLogic>,
    nics: Vec<Nic>,
    flows: Flows<T>,
    dropped: Vec<u32>,
    random: Random,
    /// When each outage begins and ends, in order of time.
    outages: Vec<(Picos, u32, bool)>,
    next_outage: usize,
    releases: Releases<'a>,
    coupling: Option<Coupling<'a>>,
    /// For each flow of the workload, its place while it is under way; where a policy decides.
    places: Vec<u32>,
    recorder: Option<LinkUseRecorder>,
    samples: Vec<Vec<u64>>,
    coflow_left: Vec<u32>,
    coflow_arrival: Vec<Instant>,
    flow_finish: Vec<Instant>,
    done_coflows: usize,
}

/// The buffer that the port of `link` shares with its switch's others, where buffers are shared.
fn shared_by<'b>(
    network: &Network,
    shared: &'b mut [SharedBuffer],
    link: u32,
) -> Option<&'b mut SharedBuffer> {
    if shared.is_empty() {
        return None;
    }
    network.switch_of(link).and_then(|switch| shared.get_mut(switch as usize))
}

/// No place.
const NOWHERE: u32 = u32::MAX;

impl<'a, T: Transport> Engine<'a, T> {
    fn new(
        workload: &'a Workload,
        network: &'a Network,
        transport: &'a T,
        config: &QueueConfig,
        coupling: Option<Coupling<'a>>,
        options: &'a Options,
    ) -> Self {
        let links = network.links().len() as u32;
        // A queue whose packets leave in the order in which they came needs no events of its own.
        let in_order = config.discipline == Discipline::DropTail
            && matches!(config.buffer, Buffer::PerPort(_))
            && !T::PortLogic::PRESENT;
        let mut queues = Vec::new();
        let ports = (0..links).map(|link| {
            let kind = match network.host_of(link) {
                Some(host) => Kind::Host(host),
                None if in_order => Kind::InOrder,
                None => {
                    queues.push(Queue::new(config));
                    Kind::Queued(queues.len() as u32 - 1)
                }
            };
            Port::new(network.links()[link as usize], kind, config)
        });
        let ports = ports.collect();
        let shares = matches!(config.buffer, Buffer::Shared { .. });
        let base_rtt = network.longest_round_trip(options.packet, options.overhead);
        let logic = |port: u32| {
            let link = network.links()[port as usize];
            transport.port_logic(&PortSetup { rate: link.rate, delay: link.delay, base_rtt, port })
        };
        let flows = workload.flows().len();
        Self {
            workload,
            network,
            transport,
            options,
            links,
            now: 0,
            events: 0,
            wheel: Wheel::new((2 * links + OTHERS) as usize),
            pool: Pool::new(),
            ports,
            queues,
            shared: vec![SharedBuffer::default(); if shares { network.switches() as usize } else { 0 }],
            logic: if T::PortLogic::PRESENT { (0..links).map(logic).collect() } else { Vec::new() },
            nics: (0..network.hosts()).map(|_| Nic::default()).collect(),
            flows: Flows::new(),
            dropped: Vec::new(),
            random: Random::new(options.seed),
            outages: setup::outages(&options.outages),
            next_outage: 0,
            releases: Releases::new(workload),
            places: if coupling.is_some() { vec![NOWHERE; flows] } else { Vec::new() },
            coupling,
            recorder: options.link_use.then(|| LinkUseRecorder::new(network)),
            samples: vec![Vec::new(); options.watch.len()],
            coflow_left: workload.coflows().map(|coflow| coflow.width() as u32).collect(),
            coflow_arrival: vec![Instant::ZERO; workload.coflow_count()],
            flow_finish: vec![Instant::ZERO; flows],
            done_coflows: 0,
        }
    }

    fn run(&mut self, mut observer: Option<&mut dyn Observer>) {
        self.expect_release();
        if let Some(&(first, ..)) = self.outages.first() {
            self.wheel.schedule(2 * self.links + OUTAGE, first);
        }
        if !self.options.watch.is_empty() {
            self.sample();
        }
        let (links, first_timer) = (self.links, 2 * self.links + OTHERS);
        while let Some((now, event)) = self.wheel.pop() {
            self.now = now;
            self.events += 1;
            if event < links {
                self.arrive(event);
            } else if event < 2 * links {
                self.free(event - links);
            } else if event >= first_timer {
                self.timer(event - first_timer);
            } else {
                match event - 2 * links {
                    RELEASE => self.release(),
                    POLICY => self.wake_policy(),
                    OUTAGE => self.outage(),
                    _ => self.sample(),
                }
                if let Some(observer) = &mut observer {
                    observer.progress(self.done_coflows);
                }
            }
        }
    }

    // ── Packets on their way ──────────────────────────────────────────────────────────────────────────────────────────

    /// The first packet on `link` reaches its far end.
    fn arrive(&mut self, link: u32) {
        let port = &mut self.ports[link as usize];
        let id =
            port.pipe.pop(&self.pool).expect("an arrival is pending only while something is on the link");
        if let Some(next) = port.pipe.first() {
            self.wheel.schedule(link, self.pool[next].due);
        }
        if self.options.loss > 0.0 && self.random.happens(self.options.loss) {
            self.ports[link as usize].counts.lost += 1;
            self.lose(id);
            return;
        }
        let packet = &mut self.pool[id];
        packet.hop += 1;
        let (hop, flow, kind) = (packet.hop, packet.header.flow, packet.header.kind);
        let route = self.flows.route(flow);
        if hop == route.hops() {
            self.deliver(id);
        } else if kind == PacketKind::Ack {
            let next = route.back(hop);
            if T::PortLogic::PRESENT {
                let data = route.forward(route.hops() - hop);
                let (packet, extra) = self.pool.both(id);
                self.logic[data as usize].pass_back(clock(self.now), &mut packet.header, extra);
            }
            self.enqueue(next, id);
        } else {
            let next = route.forward(hop);
            self.enqueue(next, id);
        }
    }

    /// A packet comes to the output port of a switch.
    fn enqueue(&mut self, link: u32, id: u32) {
        let port = &mut self.ports[link as usize];
        if port.down > 0 {
            port.counts.lost += 1;
            self.lose(id);
            return;
        }
        match port.kind {
            Kind::InOrder => {
                let header = &mut self.pool[id].header;
                match port.admit(self.now, header.size) {
                    Some(full) => {
                        let marked = full && header.flags.contains(Flags::ECN_CAPABLE);
                        header.flags = header.flags.with_if(marked, Flags::CONGESTED);
                        port.counts.marked += u64::from(marked);
                        self.transmit(link, id);
                    }
                    None => {
                        port.counts.dropped += 1;
                        self.lose(id);
                    }
                }
            }
            Kind::Queued(queue) => self.join(link, queue, id),
            Kind::Host(_) => unreachable!("no path goes through a host"),
        }
    }

    /// A packet comes to a queue whose head is chosen when the link is free.
    fn join(&mut self, link: u32, queue: u32, id: u32) {
        let now = self.now;
        let port = &mut self.ports[link as usize];
        let waiting = &mut self.queues[queue as usize];
        if T::PortLogic::PRESENT {
            let backlog = Bytes(waiting.bytes() + port.unsent(now));
            let (packet, extra) = self.pool.both(id);
            if packet.header.kind != PacketKind::Ack {
                self.logic[link as usize].arrive(clock(now), backlog, &mut packet.header, extra);
            }
        }
        if port.free_at <= now && waiting.is_empty() {
            self.depart(link, id);
            return;
        }
        let shared = shared_by(self.network, &mut self.shared, link);
        let joined = waiting.push(&mut self.pool, id, port.unsent(now), shared, &mut self.dropped);
        if joined == (Joined::Waits { marked: true }) {
            port.counts.marked += 1;
        }
        if !port.waking {
            port.waking = true;
            self.wheel.schedule(self.links + link, port.free_at.max(now));
        }
        while let Some(id) = self.dropped.pop() {
            self.ports[link as usize].counts.dropped += 1;
            self.lose(id);
        }
    }

    /// A link can take the next packet.
    fn free(&mut self, link: u32) {
        let port = &mut self.ports[link as usize];
        port.waking = false;
        match port.kind {
            Kind::Host(host) => self.serve(host),
            Kind::Queued(queue) => {
                let shared = shared_by(self.network, &mut self.shared, link);
                let waiting = &mut self.queues[queue as usize];
                // What waited may have been lost with the link, or dropped for something more urgent.
                let Some(id) = waiting.pop(&mut self.pool, shared) else { return };
                let more = !waiting.is_empty();
                self.depart(link, id);
                if more {
                    let port = &mut self.ports[link as usize];
                    port.waking = true;
                    self.wheel.schedule(self.links + link, port.free_at);
                }
            }
            Kind::InOrder => unreachable!("a port in order of arrival needs no such event"),
        }
    }

    /// A packet leaves a switch's queue.
    fn depart(&mut self, link: u32, id: u32) {
        if T::PortLogic::PRESENT {
            let port = &self.ports[link as usize];
            let Kind::Queued(queue) = port.kind else { unreachable!("only queues have departures") };
            let backlog = Bytes(self.queues[queue as usize].bytes());
            let (packet, extra) = self.pool.both(id);
            if packet.header.kind != PacketKind::Ack {
                self.logic[link as usize].depart(clock(self.now), backlog, &mut packet.header, extra);
            }
        }
        self.transmit(link, id);
    }

    /// Puts a packet on a link.
    #[inline]
    fn transmit(&mut self, link: u32, id: u32) {
        let port = &mut self.ports[link as usize];
        let packet = &mut self.pool[id];
        let size = packet.header.size;
        let due = port.send(self.now, size);
        packet.due = due;
        if let Some(recorder) = &mut self.recorder {
            recorder.add(link, port.free_at, u64::from(size));
        }
        if port.pipe.push(&mut self.pool, id) {
            self.wheel.schedule(link, due);
        }
    }

    /// A packet ends without arriving.
    fn lose(&mut self, id: u32) {
        let flow = self.pool[id].header.flow;
        self.pool.remove(id);
        self.flows[flow].in_network -= 1;
        self.forget_if_over(flow);
    }

    // ── Hosts ─────────────────────────────────────────────────────────────────────────────────────────────────────────

    /// A packet has reached its host.
    fn deliver(&mut self, id: u32) {
        let (header, extra) = (self.pool[id].header, *self.pool.extra(id));
        self.pool.remove(id);
        let now = clock(self.now);
        let place = header.flow;
        let flow = &mut self.flows[place];
        flow.in_network -= 1;
        if header.kind == PacketKind::Ack {
            flow.sender.handle_packet(now, &header, &extra);
            if flow.sender.is_done() {
                self.forget_if_over(place);
            } else {
                self.offer(place);
            }
        } else {
            flow.receiver.handle_packet(now, &header, &extra);
            self.answer(place);
            let flow = &mut self.flows[place];
            if !flow.complete && flow.receiver.is_complete() {
                flow.complete = true;
                self.finish(place);
            }
        }
    }

    /// Sends what a receiver has to say.
    fn answer(&mut self, place: u32) {
        let now = clock(self.now);
        let flow = &mut self.flows[place];
        let host = flow.dst;
        let mut any = false;
        while let Some((header, extra)) = flow.receiver.poll_transmit(now) {
            let id = self.pool.add(header, extra);
            flow.in_network += 1;
            let nic = &mut self.nics[host as usize];
            nic.answers.push(&mut self.pool, id);
            any = true;
        }
        if flow.receiver.poll_timeout().is_some() {
            self.arm(place);
        }
        if any {
            self.serve(host);
        }
    }

    /// A sender may have something to send.
    #[inline]
    fn offer(&mut self, place: u32) {
        let flow = &mut self.flows[place];
        let host = flow.src;
        if !flow.listed {
            flow.listed = true;
            self.nics[host as usize].add(place, flow.priority);
        }
        self.serve(host);
        // What a busy link puts off is armed when it is sent.
        self.arm(place);
    }

    /// Puts a host's next packet on its link, if the link is free.
    fn serve(&mut self, host: u32) {
        let link = self.network.link_from(host);
        let port = &mut self.ports[link as usize];
        if port.waking || port.down > 0 {
            return;
        }
        if port.free_at <= self.now {
            let id = match self.nics[host as usize].answers.pop(&self.pool) {
                Some(id) => id,
                None => match self.next_data(host) {
                    Some(id) => id,
                    None => return,
                },
            };
            if T::PortLogic::PRESENT && self.pool[id].header.kind != PacketKind::Ack {
                let (packet, extra) = self.pool.both(id);
                let (now, none) = (clock(self.now), Bytes::ZERO);
                self.logic[link as usize].arrive(now, none, &mut packet.header, extra);
                self.logic[link as usize].depart(now, none, &mut packet.header, extra);
            }
            self.transmit(link, id);
        }
        if self.nics[host as usize].has_work() {
            let port = &mut self.ports[link as usize];
            port.waking = true;
            self.wheel.schedule(self.links + link, port.free_at);
        }
    }

    /// The next packet of a host's senders.
    fn next_data(&mut self, host: u32) -> Option<u32> {
        let now = clock(self.now);
        loop {
            let nic = &mut self.nics[host as usize];
            let place = nic.next()?;
            let flow = &mut self.flows[place];
            if flow.pace.holds(self.now) {
                nic.remove_next();
                flow.listed = false;
                self.arm(place);
                continue;
            }
            match flow.sender.poll_transmit(now) {
                Some((mut header, extra)) => {
                    nic.rotate();
                    flow.pace.sent(self.now, header.payload(self.options.overhead));
                    header.class = flow.priority.class.min(u16::from(u8::MAX)) as u8;
                    header.order = flow.priority.order;
                    flow.in_network += 1;
                    let (id, sent) = (flow.id, flow.sender.sent());
                    let packet = self.pool.add(header, extra);
                    self.arm(place);
                    if let Some(coupling) = &mut self.coupling
                        && coupling.sent(id, sent)
                    {
                        // The policy is told behind this event: it may take this very sender's turn away.
                        self.expect_policy_now();
                    }
                    return Some(packet);
                }
                None => {
                    nic.remove_next();
                    flow.listed = false;
                    self.forget_if_over(place);
                }
            }
        }
    }

    /// Sees to it that a flow's timer is pending no later than its ends ask for. One that is early is left as it is: most
    /// timeouts are put off long before they come.
    #[inline]
    fn arm(&mut self, place: u32) {
        let flow = &mut self.flows[place];
        let mut due = flow.sender.poll_timeout().map_or(NEVER, picos);
        if let Some(other) = flow.receiver.poll_timeout() {
            due = due.min(picos(other));
        }
        due = flow.pace.due().map_or(due, |held| due.min(held)).max(self.now);
        if due < flow.armed {
            flow.armed = due;
            self.wheel.reschedule(2 * self.links + OTHERS + place, due);
        }
    }

    /// A flow's timer goes off.
    fn timer(&mut self, place: u32) {
        let now = clock(self.now);
        let flow = &mut self.flows[place];
        flow.armed = NEVER;
        let released = flow.pace.release(self.now);
        let timed_out = flow.sender.poll_timeout().is_some_and(|due| due <= now);
        if timed_out {
            flow.sender.handle_timeout(now);
        }
        if timed_out || released {
            self.offer(place);
        }
        let flow = &mut self.flows[place];
        if flow.receiver.poll_timeout().is_some_and(|due| due <= now) {
            flow.receiver.handle_timeout(now);
            self.answer(place);
        }
        self.arm(place);
    }

    // ── Flows ─────────────────────────────────────────────────────────────────────────────────────────────────────────

    /// Makes sure that the next flows are started when their time comes.
    fn expect_release(&mut self) {
        if let Some(next) = self.releases.next() {
            self.wheel.reschedule(2 * self.links + RELEASE, picos(next).max(self.now));
        }
    }

    /// Flows whose time has come start.
    fn release(&mut self) {
        let now = clock(self.now);
        let mut released = Vec::new();
        self.releases.take(now, &mut released);
        for release in &released {
            if let &Release::Flows { coflow, opens: true, .. } = release {
                let arrival = &mut self.coflow_arrival[coflow.index()];
                if *arrival == Instant::ZERO {
                    *arrival = now;
                }
            }
        }
        if let Some(coupling) = &mut self.coupling {
            coupling.release(now, &released, &self.coflow_arrival);
        }
        self.carry_out();
        for release in released {
            if let Release::Flows { first, end, .. } = release {
                (first..end).for_each(|flow| self.start(flow));
            }
        }
        self.expect_release();
    }

    fn start(&mut self, id: u32) {
        let flow = self.workload.flow(FlowId(id));
        let coflow = self.workload.coflow_of(FlowId(id));
        let place = self.workload.place(coflow);
        let task = self.workload.task(place.task);
        let route = self.network.route(flow.src.0, flow.dst.0, id);
        let out = self.network.link_from(flow.src.0);
        let setup = FlowSetup {
            flow: self.flows.next_place(),
            size: flow.size,
            start: clock(self.now),
            deadline: task.deadline.and_then(|deadline| task.arrival.checked_add(deadline)),
            task: place.task,
            task_size: setup::task_size(self.workload, place.task),
            line_rate: self.network.links()[out as usize].rate,
            base_rtt: self.network.round_trip(&route, self.options.packet, self.options.overhead),
            payload: self.options.payload(),
            overhead: self.options.overhead,
        };
        let (priority, cap) = match &self.coupling {
            Some(coupling) => (coupling.priority(id), coupling.cap(id)),
            None => (Priority::default(), None),
        };
        let pace = Pace::new(cap);
        let place = self.flows.add(
            Flow {
                sender: self.transport.sender(&setup),
                receiver: self.transport.receiver(&setup),
                id,
                src: flow.src.0,
                dst: flow.dst.0,
                in_network: 0,
                priority,
                pace,
                armed: NEVER,
                listed: false,
                complete: false,
                used: true,
            },
            route,
        );
        self.wheel.reserve((2 * self.links + OTHERS) as usize + self.flows.len());
        if let Some(at) = self.places.get_mut(id as usize) {
            *at = place;
        }
        self.offer(place);
    }

    /// Everything of a flow has arrived.
    fn finish(&mut self, place: u32) {
        let id = self.flows[place].id;
        let now = finished(self.now);
        self.flow_finish[id as usize] = now;
        let coflow = self.workload.coflow_of(FlowId(id));
        let left = &mut self.coflow_left[coflow.index()];
        *left -= 1;
        let over = *left == 0;
        if let Some(coupling) = &mut self.coupling {
            coupling.finished(id, now, over, &self.coflow_arrival);
        }
        if over {
            self.done_coflows += 1;
            self.releases.coflow_done(coflow, now);
            self.expect_release();
        }
        self.carry_out();
    }

    /// Frees the place of a flow of which nothing is left.
    fn forget_if_over(&mut self, place: u32) {
        let flow = &mut self.flows[place];
        if flow.in_network > 0 || !flow.sender.is_done() || !flow.used {
            return;
        }
        if flow.listed {
            flow.listed = false;
            let (host, priority) = (flow.src, flow.priority);
            self.nics[host as usize].remove(place, priority);
        }
        let id = flow.id;
        self.wheel.cancel(2 * self.links + OTHERS + place);
        if let Some(at) = self.places.get_mut(id as usize) {
            *at = NOWHERE;
        }
        self.flows.remove(place);
    }

    // ── Policies ──────────────────────────────────────────────────────────────────────────────────────────────────────

    fn expect_policy_now(&mut self) {
        self.wheel.reschedule(2 * self.links + POLICY, self.now);
    }

    /// A policy is told of what has come due.
    fn wake_policy(&mut self) {
        // Once every coflow is done there is nothing left to decide, though computation may go on.
        if self.done_coflows == self.coflow_left.len() {
            return;
        }
        if let Some(coupling) = &mut self.coupling {
            coupling.settle(clock(self.now), &self.coflow_arrival);
        }
        self.carry_out();
    }

    /// Carries out what a policy decided.
    fn carry_out(&mut self) {
        let Some(coupling) = &mut self.coupling else { return };
        let mut changes = std::mem::take(&mut coupling.changes);
        for (id, priority) in changes.drain(..) {
            let place = self.places[id as usize];
            if place == NOWHERE || self.flows[place].priority == priority {
                continue;
            }
            let flow = &mut self.flows[place];
            let before = std::mem::replace(&mut flow.priority, priority);
            if flow.listed {
                let nic = &mut self.nics[flow.src as usize];
                nic.remove(place, before);
                nic.add(place, priority);
            }
        }
        coupling.changes = changes;
        let mut caps = std::mem::take(&mut coupling.caps);
        for (id, cap) in caps.drain(..) {
            let place = self.places[id as usize];
            if place != NOWHERE {
                self.flows[place].pace.set(self.now, cap);
                self.offer(place);
            }
        }
        let Some(coupling) = &mut self.coupling else { return };
        coupling.caps = caps;
        if let Some(next) = coupling.next() {
            let next = picos(next).max(self.now);
            if self.wheel.pending(2 * self.links + POLICY).is_none_or(|pending| next < pending) {
                self.wheel.reschedule(2 * self.links + POLICY, next);
            }
        }
    }

    // ── Faults ────────────────────────────────────────────────────────────────────────────────────────────────────────

    /// A cable goes away or comes back.
    fn outage(&mut self) {
        while let Some(&(when, link, away)) = self.outages.get(self.next_outage) {
            if when > self.now {
                self.wheel.schedule(2 * self.links + OUTAGE, when);
                return;
            }
            self.next_outage += 1;
            for link in [link, link ^ 1] {
                if away {
                    self.take_down(link);
                } else {
                    self.bring_up(link);
                }
            }
        }
    }

    fn take_down(&mut self, link: u32) {
        let port = &mut self.ports[link as usize];
        port.down += 1;
        port.free_at = port.free_at.min(self.now);
        let mut on_link = std::mem::take(&mut port.pipe);
        self.wheel.cancel(link);
        self.lose_all(link, &mut on_link);
        match self.ports[link as usize].kind {
            Kind::Host(host) => {
                let mut answers = std::mem::take(&mut self.nics[host as usize].answers);
                self.lose_all(link, &mut answers);
            }
            Kind::Queued(queue) => loop {
                let shared = shared_by(self.network, &mut self.shared, link);
                let Some(id) = self.queues[queue as usize].pop(&mut self.pool, shared) else { break };
                self.ports[link as usize].counts.lost += 1;
                self.lose(id);
            },
            Kind::InOrder => {}
        }
    }

    fn lose_all(&mut self, link: u32, list: &mut List) {
        while let Some(id) = list.pop(&self.pool) {
            self.ports[link as usize].counts.lost += 1;
            self.lose(id);
        }
    }

    fn bring_up(&mut self, link: u32) {
        let port = &mut self.ports[link as usize];
        port.down -= 1;
        if let (0, Kind::Host(host)) = (port.down, port.kind) {
            self.serve(host);
        }
    }

    // ── What comes out ────────────────────────────────────────────────────────────────────────────────────────────────

    /// Notes how full the watched queues are, as long as anything is under way.
    fn sample(&mut self) {
        for (&link, samples) in self.options.watch.iter().zip(&mut self.samples) {
            let port = &self.ports[link as usize];
            let waiting = match port.kind {
                Kind::Queued(queue) => self.queues[queue as usize].bytes(),
                Kind::InOrder | Kind::Host(_) => 0,
            };
            samples.push(waiting + port.unsent(self.now));
        }
        if self.done_coflows < self.coflow_left.len() {
            let next = self.now.saturating_add(self.options.sample_every.get().saturating_mul(1_000));
            self.wheel.schedule(2 * self.links + SAMPLE, next);
        }
    }

    fn outcome(self) -> Run {
        assert!(
            self.done_coflows == self.coflow_left.len(),
            "{} of {} coflows did not finish though nothing is pending any more",
            self.coflow_left.len() - self.done_coflows,
            self.coflow_left.len()
        );
        let (policy_calls, messages) = self.coupling.as_ref().map_or((0, 0), Coupling::counts);
        let counts = EngineCounts { events: self.events, refills: 0, policy_calls, messages };
        Run {
            outcome: Outcome {
                coflow_arrival: self.coflow_arrival,
                coflow_finish: self.releases.coflow_finish,
                flow_finish: self.flow_finish,
                task_finish: self.releases.task_finish,
                counts,
                link_use: self.recorder.map(LinkUseRecorder::finish),
            },
            ports: self.ports.iter().map(|port| port.counts).collect(),
            samples: self.samples,
            end: clock(self.now),
            most_packets: self.pool.most(),
            most_flows: self.flows.len(),
        }
    }
}
