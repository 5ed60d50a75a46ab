//! The life of a flow, from its release to the last of its packets, and what a policy decides about
//! it in between.

use cavalcade_harness::Release;
use cavalcade_model::{BitsPerSec, Bytes, FlowId, Instant, Priority, TaskId};
use cavalcade_transport::{FlowSetup, Header, Kind as PacketKind, Sender, Transport};

use super::{Engine, NOWHERE, OTHERS, POLICY, RELEASE};
use crate::flows::{Flow, NEVER, clock, finished, picos};
use crate::negotiation::Parcel;
use crate::pace::Pace;
use crate::setup;

/// A flow that starts.
struct Start {
    id: u32,
    src: u32,
    dst: u32,
    size: Bytes,
    deadline: Option<Instant>,
    /// By its number: counters may have given ids in another order than that of arrival.
    task: TaskId,
    task_size: Bytes,
}

impl<T: Transport> Engine<'_, T> {
    /// Makes sure that the next flows are started when their time comes.
    pub(super) fn expect_release(&mut self) {
        if let Some(next) = self.releases.next(self.workload) {
            self.wheel.reschedule(2 * self.links + RELEASE, picos(next).max(self.now));
        }
    }

    /// Flows whose time has come start.
    pub(super) fn release(&mut self) {
        let now = clock(self.now);
        let mut released = Vec::new();
        self.releases.take(self.workload, now, &mut released);
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

    pub(super) fn start(&mut self, id: u32) {
        let flow = self.workload.flow(FlowId(id));
        let coflow = self.workload.coflow_of(FlowId(id));
        let place = self.workload.place(coflow);
        let task = self.workload.task(place.task);
        let start = Start {
            id,
            src: flow.src.0,
            dst: flow.dst.0,
            size: flow.size,
            deadline: task.deadline.and_then(|deadline| task.arrival.checked_add(deadline)),
            task: TaskId(self.workload.number(place.task)),
            task_size: setup::task_size(self.workload, place.task),
        };
        let decided = self.coupling.as_ref().map(|coupling| (coupling.priority(id), coupling.cap(id)));
        self.begin(start, decided);
    }

    /// Sends what the policy's instances have to say to each other: a packet for each datagram,
    /// ahead of all that waits at its host.
    fn send_messages(&mut self) {
        let (Some(coupling), Some(negotiations)) = (&mut self.coupling, &mut self.negotiations) else {
            return;
        };
        let said = std::mem::take(&mut coupling.held.outbox);
        for Parcel { number, from, to, size } in negotiations.pack(clock(self.now), self.workload, said) {
            let start = Start {
                id: self.flow_finish.len() as u32 + number,
                src: from,
                dst: to,
                size: Bytes(size.into()),
                deadline: None,
                task: TaskId(0),
                task_size: Bytes(size.into()),
            };
            // Its ends are never asked: the place is there for the route, and for counting what is
            // under way.
            let flow = self.occupy(start, Some((Priority::default(), None)));
            let size = size + self.options.overhead;
            let header = Header { flow, kind: PacketKind::Datagram, size, ..Header::default() };
            let id = self.pool.add(header, T::Extra::default());
            self.flows[flow].in_network += 1;
            self.nics[from as usize].answers.push(&mut self.pool, id);
            self.serve(from);
        }
    }

    /// The datagram at `place`, of `size` bytes on the wire, has arrived.
    pub(super) fn receive(&mut self, place: u32, size: u16) {
        let now = finished(self.now);
        let carried = Bytes(u64::from(size) * u64::from(self.flows.route(place).hops()));
        let (to, number) = (self.flows[place].dst, self.datagram(place));
        let (Some(number), Some(negotiations)) = (number, &mut self.negotiations) else { return };
        for said in negotiations.unpack(now, to, number, carried) {
            // Once every coflow is done there is nothing left to decide.
            if self.done_coflows < self.coflow_left.len()
                && let Some(coupling) = &mut self.coupling
            {
                coupling.received(said, now, &self.coflow_arrival);
            }
        }
        self.forget_if_over(place);
        self.carry_out();
    }

    /// The bytes of the datagram at `place`.
    pub(super) fn said(&self, place: u32) -> &[u8] {
        match (self.datagram(place), &self.negotiations) {
            (Some(number), Some(negotiations)) => negotiations.bytes(number),
            _ => &[],
        }
    }

    /// The number of the datagram at `place`, where there is one and not a flow.
    fn datagram(&self, place: u32) -> Option<u32> {
        self.flows[place].id.checked_sub(self.flow_finish.len() as u32)
    }

    fn begin(&mut self, start: Start, decided: Option<(Priority, Option<BitsPerSec>)>) {
        let place = self.occupy(start, decided);
        self.offer(place);
    }

    /// Gives a flow its place.
    fn occupy(&mut self, start: Start, decided: Option<(Priority, Option<BitsPerSec>)>) -> u32 {
        let Start { id, src, dst, size, deadline, task, task_size } = start;
        let route = self.network.route(src, dst);
        let out = self.network.link_from(src);
        let setup = FlowSetup {
            flow: self.flows.next_place(),
            size,
            start: clock(self.now),
            deadline,
            task,
            task_size,
            line_rate: self.network.links()[out as usize].rate,
            base_rtt: self.network.round_trip(&route, self.options.packet, self.options.overhead),
            payload: self.options.payload(),
            overhead: self.options.overhead,
        };
        let mut sender = self.transport.sender(&setup);
        let own = Priority { class: u16::from(sender.class()), ..Priority::default() };
        let (mut priority, cap) = decided.unwrap_or((own, None));
        let pace = Pace::new(cap);
        if let Some(weight) = self.coupling.as_ref().and_then(|coupling| coupling.weight(priority)) {
            sender.set_weight(weight);
            priority = Priority::default();
        }
        let place = self.flows.add(
            Flow {
                sender,
                receiver: self.transport.receiver(&setup),
                id,
                src,
                dst,
                size,
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
        place
    }

    /// Everything of a flow has arrived.
    pub(super) fn finish(&mut self, place: u32) {
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
        self.releases.flow_done(self.workload, FlowId(id), now);
        if over {
            self.done_coflows += 1;
            self.releases.coflow_done(self.workload, coflow, now);
        }
        self.expect_release();
        self.carry_out();
    }

    /// Frees the place of a flow of which nothing is left.
    #[inline]
    pub(super) fn forget_if_over(&mut self, place: u32) {
        let flow = &self.flows[place];
        if flow.in_network > 0 || !flow.used {
            return;
        }
        if !flow.sender.is_done() {
            match (self.datagram(place), &mut self.negotiations) {
                (Some(number), Some(negotiations)) => negotiations.lose(number),
                _ => return,
            }
        }
        let flow = &mut self.flows[place];
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

    pub(super) fn expect_policy_now(&mut self) {
        self.wheel.reschedule(2 * self.links + POLICY, self.now);
    }

    /// A policy is told of what has come due.
    pub(super) fn wake_policy(&mut self) {
        // Once every coflow is done there is nothing left to decide, though computation may go on.
        if self.done_coflows == self.coflow_left.len() {
            return;
        }
        if let Some(coupling) = &mut self.coupling {
            coupling.settle(clock(self.now), &self.coflow_arrival);
        }
        self.carry_out();
    }

    /// Gives a flow another priority: at its host at once, in the network from its next packet on;
    /// or another weight, where that is what priorities mean.
    pub(super) fn set_priority(&mut self, place: u32, priority: Priority) {
        let flow = &mut self.flows[place];
        if let Some(weight) = self.coupling.as_ref().and_then(|coupling| coupling.weight(priority)) {
            flow.sender.set_weight(weight);
            return;
        }
        let before = std::mem::replace(&mut flow.priority, priority);
        if flow.listed {
            let nic = &mut self.nics[flow.src as usize];
            nic.remove(place, before);
            nic.add(place, priority);
        }
    }

    /// Carries out what a policy decided.
    pub(super) fn carry_out(&mut self) {
        let Some(coupling) = &mut self.coupling else { return };
        let mut changes = std::mem::take(&mut coupling.held.changes);
        for (id, priority) in changes.drain(..) {
            let place = self.places[id as usize];
            if place == NOWHERE || self.flows[place].priority == priority {
                continue;
            }
            self.set_priority(place, priority);
        }
        let Some(coupling) = &mut self.coupling else { return };
        coupling.held.changes = changes;
        let mut caps = std::mem::take(&mut coupling.held.caps);
        for (id, cap) in caps.drain(..) {
            let place = self.places[id as usize];
            if place != NOWHERE {
                self.flows[place].pace.set(self.now, cap);
                self.offer(place);
            }
        }
        let Some(coupling) = &mut self.coupling else { return };
        coupling.held.caps = caps;
        if !coupling.held.outbox.is_empty() {
            self.send_messages();
        }
        let Some(coupling) = &mut self.coupling else { return };
        self.has_failed = coupling.fault().is_some();
        if let Some(next) = coupling.next() {
            let next = picos(next).max(self.now);
            if self.wheel.pending(2 * self.links + POLICY).is_none_or(|pending| next < pending) {
                self.wheel.reschedule(2 * self.links + POLICY, next);
            }
        }
    }
}
