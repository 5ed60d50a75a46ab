//! All machines and the network between them: carries messages and tells the time.

use cavalcade_control::{Agent, Coordinator, CoordinatorConfig};
use cavalcade_harness::PolicyFault;
use cavalcade_model::{FlowId, Instant, PortId};
use cavalcade_protocol::{CoflowKey, Datagram, Message, Orders, Report, WireError, frame};

use crate::Traffic;
use crate::connection::Connections;
use crate::fault::Tamper;
use crate::fluid::Fluid;
use crate::host::{Directed, Host, Outbox, Site};
use crate::machine::{Machine, Store};
use crate::network::{Network, Node, Parcel, Segment};

/// Everything but the bytes of the workload.
pub(crate) struct World {
    /// True time.
    pub(crate) now: Instant,
    pub(crate) site: Site,
    pub(crate) hosts: Vec<Host>,
    /// The time at which each host has something to do.
    due: Vec<Option<Instant>>,
    pub(crate) machines: Vec<Machine>,
    /// The store that machines ask whether they lead; `None` where one does for good.
    pub(crate) store: Option<Store>,
    pub(crate) network: Network,
    /// Connections between agents and machines; `None` where each message goes for itself, to all
    /// machines.
    pub(crate) connections: Option<Connections>,
    /// Interference of planted bugs and hostile hosts.
    pub(crate) tamper: Option<Tamper>,
    /// Coflows that have their keys and of which applications are still to hear: host, process,
    /// request, key.
    pub(crate) registered: Vec<(PortId, usize, u32, CoflowKey)>,
    /// Flows whose gates may have changed.
    pub(crate) directed: Vec<(FlowId, Directed)>,
    pub(crate) traffic: Traffic,
    pub(crate) fallbacks: u64,
    /// The first mistake by which a policy of an agent's own has failed.
    fault: Option<PolicyFault>,
    /// The first message of an honest machine that its reader did not accept, in words.
    pub(crate) unread: Option<String>,
    /// Terms of coordinators that began to lead, and when.
    pub(crate) led: Vec<(Instant, usize, u64)>,
}

impl World {
    /// Machines that begin at `now`.
    pub(crate) fn new(now: Instant, site: Site, network: Network) -> Self {
        Self {
            now,
            site,
            hosts: Vec::new(),
            due: Vec::new(),
            machines: Vec::new(),
            store: None,
            network,
            connections: None,
            tamper: None,
            registered: Vec::new(),
            directed: Vec::new(),
            traffic: Traffic::default(),
            fallbacks: 0,
            fault: None,
            unread: None,
            led: Vec::new(),
        }
    }

    /// The mistake by which a policy has failed, if any has.
    pub(crate) fn policy_fault(&self) -> Option<&PolicyFault> {
        let coordinators = self.machines.iter().filter_map(|machine| machine.coordinator.as_ref());
        coordinators.filter_map(Coordinator::policy_fault).next().or(self.fault.as_ref())
    }

    /// Adds a host at the next port.
    pub(crate) fn add_host(&mut self, host: Host) {
        self.due.push(host.due());
        self.hosts.push(host);
    }

    /// Returns when the next thing happens.
    pub(crate) fn next(&self) -> Option<Instant> {
        let machines = self.machines.iter().filter_map(Machine::due);
        let dials = (self.hosts.iter())
            .filter(|host| host.acts(self.now))
            .filter_map(|host| self.connections.as_ref().and_then(|connections| connections.due(host.port)));
        self.due.iter().copied().flatten().chain(machines).chain(dials).chain(self.network.next()).min()
    }

    /// Lets everything happen that is due up to `until`. What was due before is done at once.
    pub(crate) fn advance(&mut self, until: Instant, fluid: &Fluid<'_>) {
        while let Some(when) = self.next().filter(|when| *when <= until) {
            self.now = self.now.max(when);
            self.deliver();
            self.dial();
            for machine in 0..self.machines.len() {
                self.coordinate(machine);
            }
            for port in (0..self.hosts.len() as u32).map(PortId) {
                if self.due[port.index()].is_some_and(|when| when <= self.now) {
                    self.come_up(port, fluid);
                }
            }
        }
        self.now = until;
    }

    fn dial(&mut self) {
        let Some(connections) = &mut self.connections else { return };
        for host in self.hosts.iter().filter(|host| host.acts(self.now)) {
            connections.dial(self.now, host.port, &mut self.network);
        }
    }

    fn come_up(&mut self, port: PortId, fluid: &Fluid<'_>) {
        let host = &mut self.hosts[port.index()];
        host.come_up(self.now, &self.site, fluid);
        if let Some(orders) = self.tamper.as_mut().and_then(|tamper| tamper.repeats(port)) {
            host.receive_orders(self.now, orders);
        }
        self.attend(port);
    }

    fn deliver(&mut self) {
        let now = self.now;
        while let Some(parcel) = self.network.pop(now) {
            match parcel.to {
                _ if parcel.segment != Segment::Single => self.take_segment(parcel),
                Node::Host(port) => self.deliver_to_host(port, parcel),
                Node::Machine(number) => self.report(number, decode::<Report>(&parcel.bytes)),
                Node::Store => {}
            }
        }
    }

    fn deliver_to_host(&mut self, port: PortId, parcel: Parcel) {
        let host = &mut self.hosts[port.index()];
        if !host.acts(self.now) {
            // A process that hangs reads what has come when it comes to; one that is down never
            // does.
            if host.agent.is_some() {
                let until = host.hangs_until();
                self.network.hold_back(until, parcel);
            }
            return;
        }
        match (parcel.from, &mut self.connections) {
            (Node::Host(_), _) => host.receive_datagram(self.now, decode::<Datagram>(&parcel.bytes)),
            (_, None) => host.receive_orders(self.now, decode::<Orders>(&parcel.bytes)),
            (_, Some(connections)) => match connections.read_at_host::<Orders>(port, &parcel.bytes) {
                Ok(read) => read.into_iter().for_each(|orders| host.receive_orders(self.now, orders)),
                Err(error) => self.note_unread("orders", port, &error),
            },
        }
        self.attend(port);
    }

    /// Something arrives that is of a connection.
    fn take_segment(&mut self, parcel: Parcel) {
        let Some(connections) = &mut self.connections else { return };
        let (now, segment) = (self.now, parcel.segment);
        match (parcel.from, parcel.to) {
            (Node::Host(port), Node::Machine(number)) => {
                let machine = &mut self.machines[number];
                if !machine.is_there(now) {
                    return;
                }
                let answer = match segment {
                    Segment::Open(opened) if machine.coordinator.is_some() => {
                        connections.accept(number, port, opened);
                        Some(Segment::Accepted(opened))
                    }
                    Segment::Data(known) if connections.at_machine(number, port) == Some(known) => {
                        if machine.acts(now) {
                            match connections.read_at_machine::<Report>(number, port, &parcel.bytes) {
                                Ok(read) => read.into_iter().for_each(|report| self.report(number, report)),
                                Err(error) => self.note_unread("reports", port, &error),
                            }
                        } else {
                            self.network.hold_back(machine.hangs_until, parcel);
                        }
                        return;
                    }
                    Segment::Reset(over) => {
                        if connections.reset_machine(number, port, over)
                            && let Some(coordinator) = &mut machine.coordinator
                        {
                            coordinator.handle_disconnected(port);
                        }
                        None
                    }
                    Segment::Open(unknown) | Segment::Data(unknown) => Some(Segment::Reset(unknown)),
                    Segment::Accepted(_) | Segment::Single => None,
                };
                if let Some(answer) = answer {
                    self.network.stream(now, parcel.to, parcel.from, answer, Vec::new());
                }
            }
            (Node::Machine(_), Node::Host(port)) => self.take_segment_at_host(port, parcel),
            _ => {}
        }
    }

    fn take_segment_at_host(&mut self, port: PortId, parcel: Parcel) {
        let Some(connections) = &mut self.connections else { return };
        let (now, host) = (self.now, &mut self.hosts[port.index()]);
        match parcel.segment {
            Segment::Accepted(number) if connections.accepted(port, number) => {
                if let Some(agent) = &mut host.agent {
                    agent.handle_coordinator_connected();
                }
                self.attend(port);
            }
            Segment::Data(number) if connections.of_host(port).is_some_and(|(_, own)| own == number) => {
                self.deliver_to_host(port, parcel);
            }
            Segment::Data(number) => {
                let answer = Segment::Reset(number);
                self.network.stream(now, parcel.to, parcel.from, answer, Vec::new());
            }
            Segment::Reset(number) => connections.reset_host(now, port, number),
            Segment::Accepted(_) | Segment::Open(_) | Segment::Single => {}
        }
    }

    /// The live shell closes a connection on which something else comes than messages.
    fn note_unread(&mut self, what: &str, port: PortId, error: &WireError) {
        let what = format!("the reader of {what} on the connection of host {} gives it up: {error}", port.0);
        self.unread.get_or_insert(what);
    }

    /// The process of a machine is killed, or its host vanishes.
    pub(crate) fn lose_machine(&mut self, number: usize, until: Instant, vanishes: bool) {
        let machine = &mut self.machines[number];
        if vanishes {
            machine.vanish(until);
        } else {
            machine.crash(until);
        }
        if let Some(connections) = &mut self.connections {
            connections.end_all(self.now, number, vanishes, &mut self.network);
        }
    }

    /// An agent has crashed: its kernel closes its connection.
    pub(crate) fn hang_up(&mut self, port: PortId) {
        if let Some(connections) = &mut self.connections {
            connections.hang_up(self.now, port, true, &mut self.network);
        }
    }

    /// A coordinator hears a report.
    pub(crate) fn report(&mut self, number: usize, mut report: Report) {
        let machine = &mut self.machines[number];
        let Some(coordinator) = &mut machine.coordinator else { return };
        if let Some(tamper) = &mut self.tamper {
            tamper.report(&mut report);
        }
        coordinator.handle_report(machine.clock.read(self.now), report);
    }

    /// Lets a machine lead, decide and give orders.
    fn coordinate(&mut self, number: usize) {
        let now = self.now;
        if !self.machines[number].acts(now) {
            return;
        }
        self.lead(number);
        let machine = &mut self.machines[number];
        let Some(coordinator) = &mut machine.coordinator else {
            if let Some(connections) = &mut self.connections {
                connections.end_all(now, number, false, &mut self.network);
            }
            return;
        };
        let clock = machine.clock.read(now);
        if coordinator.poll_timeout().is_some_and(|when| when <= clock) {
            coordinator.handle_timeout(clock);
        }
        while let Some((port, mut orders)) = coordinator.poll_orders() {
            if self.tamper.as_mut().is_some_and(|tamper| !tamper.orders(port, &mut orders)) {
                continue;
            }
            let bytes = orders.to_bytes();
            self.traffic.orders += 1;
            self.traffic.bytes += bytes.len() as u64;
            let (from, to) = (Node::Machine(number), Node::Host(port));
            match &self.connections {
                None => self.network.send(now, from, to, bytes),
                Some(connections) => {
                    if let Some(open) = connections.at_machine(number, port) {
                        self.network.stream(now, from, to, Segment::Data(open), framed(&orders));
                    }
                }
            }
        }
    }

    fn send_report(&mut self, port: PortId, report: &Report) {
        let (from, bytes) = (Node::Host(port), report.to_bytes());
        let mut count = || {
            self.traffic.reports += 1;
            self.traffic.bytes += bytes.len() as u64;
        };
        match &mut self.connections {
            None => {
                for machine in 0..self.machines.len() {
                    count();
                    self.network.send(self.now, from, Node::Machine(machine), bytes.clone());
                }
            }
            Some(connections) => {
                if let Some((machine, number)) = connections.of_host(port) {
                    count();
                    // Without reads that keep to the order of bytes, what was held back for a
                    // process that hung may come behind what was sent later.
                    if self.network.reads.is_some() {
                        connections.note_report(number, bytes.len());
                    }
                    let segment = Segment::Data(number);
                    self.network.stream(self.now, from, Node::Machine(machine), segment, framed(report));
                }
            }
        }
    }

    /// An agent gives up its connection.
    fn reconnect(&mut self, port: PortId) {
        match &mut self.connections {
            Some(connections) => connections.hang_up(self.now, port, false, &mut self.network),
            None => {
                let host = &mut self.hosts[port.index()];
                if let Some(agent) = &mut host.agent {
                    agent.handle_coordinator_connected();
                }
                self.due[port.index()] = host.due();
            }
        }
    }

    fn lead(&mut self, number: usize) {
        let Some(store) = &mut self.store else { return };
        let machine = &mut self.machines[number];
        let Some(term) = store.visit(self.now, number, machine, &self.network) else { return };
        let mut config = CoordinatorConfig { term, ..self.site.coordinator };
        if let Some(tamper) = &self.tamper {
            tamper.configure(&mut config);
        }
        let coordinator = Coordinator::new(config, (self.site.policy)());
        machine.coordinator = Some(match &self.tamper {
            Some(tamper) => tamper.seal(coordinator),
            None => coordinator,
        });
        self.led.push((self.now, number, term));
    }

    /// Lets a host say what it has to say, and notes when it has something to do.
    pub(crate) fn attend(&mut self, port: PortId) {
        let mut outbox = Outbox::default();
        let host = &mut self.hosts[port.index()];
        host.talk(self.now, &mut outbox);
        self.due[port.index()] = host.due();
        if let Some(fault) = host.agent.as_ref().and_then(Agent::policy_fault) {
            self.fault.get_or_insert_with(|| fault.clone());
        }
        let from = Node::Host(port);
        for report in outbox.reports {
            self.send_report(port, &report);
        }
        if outbox.reconnects {
            self.reconnect(port);
        }
        for (to, datagram) in outbox.datagrams {
            let bytes = datagram.to_bytes();
            self.traffic.datagrams += 1;
            self.traffic.bytes += bytes.len() as u64;
            self.network.send(self.now, from, Node::Host(to), bytes);
        }
        let named = outbox.registered.into_iter();
        self.registered.extend(named.map(|(process, request, key)| (port, process, request, key)));
        self.directed.extend(outbox.directed);
        self.fallbacks += outbox.fallbacks;
    }
}

/// Starts a machine that leads for good from `now` on.
pub(crate) fn leader(site: &Site, now: Instant) -> Machine {
    let config = CoordinatorConfig { term: now.0, ..site.coordinator };
    Machine::leader(Coordinator::new(config, (site.policy)()))
}

fn decode<M: Message>(bytes: &[u8]) -> M {
    M::decode(bytes).expect("what was encoded is decoded")
}

/// A message as it is on a connection.
fn framed(message: &impl Message) -> Vec<u8> {
    let mut bytes = Vec::new();
    frame(message, &mut bytes).expect("no message here is too long");
    bytes
}
