//! Packets on their way: they arrive at a switch, join a queue, leave it, and are put on the next
//! link, or are lost.

use cavalcade_model::{Bytes, FlowId, PortId};
use cavalcade_transport::{Flags, Kind as PacketKind, PortLogic, Transport};

use super::{Engine, Observer, shared_by};
use crate::capture::Seen;
use crate::flows::{Flow, clock};
use crate::pool::Packet;
use crate::port::Kind;
use crate::queue::Joined;

impl<T: Transport> Engine<'_, T> {
    /// The first packet on `link` reaches its far end.
    #[inline]
    pub(super) fn arrive(&mut self, link: u32, observer: &mut Option<&mut dyn Observer>) {
        let port = &mut self.ports[link as usize];
        let id =
            port.pipe.pop(&self.pool).expect("an arrival is pending only while something is on the link");
        if let Some(next) = port.pipe.first() {
            self.wheel.schedule(link, self.pool[next].due);
        }
        let tapped = port.tapped;
        if self.random.happens(self.options.loss) {
            self.ports[link as usize].counts.lost += 1;
            self.lose(id);
            return;
        }
        let packet = &mut self.pool[id];
        packet.hop += 1;
        if tapped {
            self.show(link, id, observer);
        }
        let packet = &self.pool[id];
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

    /// Shows an observer a packet that has crossed `link`.
    #[cold]
    fn show(&self, link: u32, id: u32, observer: &mut Option<&mut dyn Observer>) {
        let Some(observer) = observer else { return };
        let Packet { header, hop, .. } = &self.pool[id];
        let Flow { id: flow, src, dst, size, .. } = self.flows[header.flow];
        let mut own = Vec::new();
        match header.kind {
            PacketKind::Datagram => own.extend(self.said(header.flow)),
            _ => T::wire(self.pool.extra(id), &mut own),
        }
        observer.packet(&Seen {
            at: clock(self.now),
            link,
            flow: FlowId(flow),
            src: PortId(src),
            dst: PortId(dst),
            size: match self.workload.flows().get(flow as usize) {
                Some(flow) => flow.size,
                None => size,
            },
            hops: *hop,
            header,
            own: &own,
            full: self.options.payload(),
            overhead: self.options.overhead,
        });
    }

    /// A packet comes to the output port of a switch.
    #[inline]
    pub(super) fn enqueue(&mut self, link: u32, id: u32) {
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
    #[inline]
    pub(super) fn join(&mut self, link: u32, queue: u32, id: u32) {
        let now = self.now;
        let port = &mut self.ports[link as usize];
        let waiting = &mut self.queues[queue as usize];
        if T::PortLogic::PRESENT {
            let backlog = Bytes(waiting.bytes() + port.unsent(now));
            let (packet, extra) = self.pool.both(id);
            if packet.header.kind.is_of_sender() {
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
    #[inline]
    pub(super) fn free(&mut self, link: u32) {
        let port = &mut self.ports[link as usize];
        port.waking = false;
        match port.kind {
            Kind::Host(host) => self.serve(host),
            Kind::Queued(queue) => {
                let shared = shared_by(self.network, &mut self.shared, link);
                let waiting = &mut self.queues[queue as usize];
                // What waited may have been lost with the link, or dropped for something more
                // urgent.
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
    #[inline]
    pub(super) fn depart(&mut self, link: u32, id: u32) {
        if T::PortLogic::PRESENT {
            let port = &self.ports[link as usize];
            let Kind::Queued(queue) = port.kind else { unreachable!("only queues have departures") };
            let backlog = Bytes(self.queues[queue as usize].bytes());
            let (packet, extra) = self.pool.both(id);
            if packet.header.kind.is_of_sender() {
                self.logic[link as usize].depart(clock(self.now), backlog, &mut packet.header, extra);
            }
        }
        self.transmit(link, id);
    }

    /// Puts a packet on a link.
    #[inline]
    pub(super) fn transmit(&mut self, link: u32, id: u32) {
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
    pub(super) fn lose(&mut self, id: u32) {
        let flow = self.pool[id].header.flow;
        self.pool.remove(id);
        self.flows[flow].in_network -= 1;
        self.forget_if_over(flow);
    }
}
