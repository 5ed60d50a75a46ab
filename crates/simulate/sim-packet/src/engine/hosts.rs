//! Hosts: what arrives is handed to the end of its flow that it is for, what that end has to say is
//! sent when the link is free, and timers go off.

use cavalcade_model::{Bytes, Priority};
use cavalcade_transport::{Kind as PacketKind, PortLogic, Receiver, Sender, Transport};

use super::{Engine, OTHERS};
use crate::flows::{NEVER, clock, picos};

impl<T: Transport> Engine<'_, T> {
    /// A packet has reached its host.
    #[inline]
    pub(super) fn deliver(&mut self, id: u32) {
        let (header, extra) = (self.pool[id].header, *self.pool.extra(id));
        self.pool.remove(id);
        let now = clock(self.now);
        let place = header.flow;
        let flow = &mut self.flows[place];
        flow.in_network -= 1;
        if header.kind == PacketKind::Ack {
            flow.sender.handle_packet(now, &header, &extra);
            let class = u16::from(flow.sender.class());
            if class != flow.priority.class && self.coupling.is_none() {
                self.set_priority(place, Priority { class, ..Priority::default() });
            }
            if self.flows[place].sender.is_done() {
                self.forget_if_over(place);
            } else {
                self.offer(place);
            }
        } else if header.kind == PacketKind::Datagram {
            self.receive(place, header.size);
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
    #[inline]
    pub(super) fn answer(&mut self, place: u32) {
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
    pub(super) fn offer(&mut self, place: u32) {
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
    #[inline]
    pub(super) fn serve(&mut self, host: u32) {
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
            if T::PortLogic::PRESENT && self.pool[id].header.kind.is_of_sender() {
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
    #[inline]
    pub(super) fn next_data(&mut self, host: u32) -> Option<u32> {
        let now = clock(self.now);
        loop {
            let nic = &mut self.nics[host as usize];
            if self.shortest_first {
                let flows = &self.flows;
                nic.prefer(|place| {
                    let flow = &flows[place];
                    flow.size.saturating_sub(flow.sender.sent()).get()
                });
            }
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
                    if !self.shortest_first {
                        nic.rotate();
                    }
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
                        // The policy is told behind this event: it may take this very sender's turn
                        // away.
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

    /// Sees to it that a flow's timer is pending no later than its ends ask for. One that is early
    /// is left as it is: most timeouts are put off long before they come.
    #[inline]
    pub(super) fn arm(&mut self, place: u32) {
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
    pub(super) fn timer(&mut self, place: u32) {
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
}
