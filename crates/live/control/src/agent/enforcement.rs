//! Directives to clients, and which flow goes on when another ends between two rounds.

use std::collections::BTreeMap;

use cavalcade_model::{Instant, Nanos, PortId};
use cavalcade_protocol::{AgentMessage, Directive, Gate, Rank};

use super::{Agent, AgentOutput, Mode};

/// Periods for which a flow goes on in the place of another: by then the coordinator has received
/// the end and answered.
const PROMOTION_PERIODS: u64 = 4;

impl Agent {
    /// A policy of the agent's own decides again.
    pub(super) fn decide(&mut self, now: Instant) {
        self.decided_at = Some(now);
        let Mode::Decentralised(own) = &mut self.mode else { return };
        own.hosted.announce_fresh(now);
        for key in own.hosted.take_changed() {
            let priority = own.hosted.priority(key);
            if let Some(part) = self.part_of.get(&key).and_then(|number| self.parts.get_mut(number)) {
                part.priority = priority;
            }
        }
        if own.hosted.is_dirty() {
            let user = |key| Some(self.parts.get(self.part_of.get(&key)?)?.user);
            let is_drained = |key, from| self.drains.of_flow(from, || user(key), key).is_some();
            let filled = own.hosted.list(is_drained).fill();
            own.hosted.decide(now, filled, |(_, number), _, order| {
                if let Some(flow) = self.flows.get_mut(&number) {
                    flow.ordered = Some(order);
                }
            });
        }
        self.send_statements(now);
        self.direct_all();
    }

    /// Sends the messages of the agent's own policy to other hosts.
    pub(super) fn send_statements(&mut self, now: Instant) {
        let Mode::Decentralised(own) = &mut self.mode else { return };
        let mut statements = own.hosted.take_statements();
        statements.sort_by_key(|&(to, _)| to);
        for of_peer in statements.chunk_by(|(a, _), (b, _)| a == b) {
            let to = of_peer[0].0;
            let said: Vec<_> = of_peer.iter().map(|&(_, statement)| statement).collect();
            let datagrams = own.negotiation.send(now, to, &said);
            self.outbox.extend(datagrams.into_iter().map(|datagram| AgentOutput::Peer(to, datagram)));
        }
    }

    /// Handles a message of the agent at another host.
    pub fn handle_datagram(&mut self, now: Instant, datagram: cavalcade_protocol::Datagram) {
        let from = datagram.from;
        let Mode::Decentralised(own) = &mut self.mode else { return };
        if from.0 >= self.config.ports {
            return;
        }
        let heard = own.negotiation.receive(now, datagram);
        let greetings = own.negotiation.greetings(now);
        self.outbox.extend(greetings.into_iter().map(|(to, datagram)| AgentOutput::Peer(to, datagram)));
        let Some(statements) = heard else {
            self.counters.datagrams_left_out += 1;
            return;
        };
        statements.into_iter().for_each(|statement| own.hosted.receive(now, from, statement));
    }

    /// Sends a flow's directive to its client, once at the start and then whenever it changes, and
    /// updates the flow's queues. A flow that starts as plain TCP is announced too, because its
    /// sender may have set it up to be scheduled.
    pub(super) fn direct(&mut self, number: u32) {
        let Some(flow) = self.flows.get(&number) else { return };
        // A new flow is in the class of its coflow; where the agent's own policy decides, it has no
        // class before that.
        let is_decided = flow.ordered.is_some() || !matches!(self.mode, Mode::Decentralised(_));
        let is_plain = !is_decided || flow.ordered.is_some_and(|order| order.rank == Rank::Plain {});
        let enforces = self.enforces() && !is_plain && !self.is_flow_drained(flow);
        let mut directive = Directive::default();
        if enforces && let Some(order) = flow.ordered {
            directive.gate = flow.promoted.map_or(order.gate, |(_, gate)| gate);
        }
        if enforces {
            directive.class = Some(self.priority(flow).class.min(self.config.classes.max(1) - 1));
        }
        if flow.told != Some(directive) {
            let (client, flow_there) = (flow.client, flow.number);
            if let Some(flow) = self.flows.get_mut(&number) {
                flow.told = Some(directive);
            }
            self.counters.directives += 1;
            self.send(client, AgentMessage::Direct { flow: flow_there, directive });
        }
        self.place(number);
    }

    /// Returns whether decisions are sent to clients.
    pub(super) fn enforces(&self) -> bool {
        let holds = self.link.is_enforced && self.link.lease_until.is_some();
        let is_wanted = holds || matches!(self.mode, Mode::Decentralised(_));
        is_wanted && !self.config.shadow && !self.is_drained()
    }

    pub(super) fn direct_all(&mut self) {
        let numbers: Vec<u32> = self.flows.keys().copied().collect();
        numbers.into_iter().for_each(|number| self.direct(number));
    }

    /// The places that flows leave free which end or run dry, perhaps all of a process: one at each
    /// of their receivers.
    pub(super) fn freed(&self, ended: impl IntoIterator<Item = u32>) -> BTreeMap<PortId, Gate> {
        if !matches!(self.mode, Mode::Coordinated) {
            return BTreeMap::new();
        }
        let flows = ended.into_iter().filter_map(|number| self.flows.get(&number));
        flows.map(|flow| (flow.to, flow.told().gate)).filter(|(_, gate)| *gate != Gate::Off {}).collect()
    }

    /// Until the coordinator has received the report, the first flow to the same receiver that is
    /// off goes in the place of one that has ended (Aalo §3).
    pub(super) fn promote_into(&mut self, now: Instant, freed: BTreeMap<PortId, Gate>) {
        let period = self.link.period(&self.config);
        for (to, gate) in freed {
            let Some(next) = self.queues.first_for(to) else { continue };
            let until = now.checked_add(Nanos(PROMOTION_PERIODS * period.0));
            if let (Some(flow), Some(until)) = (self.flows.get_mut(&next), until) {
                flow.promoted = Some((until, gate));
                self.queues.note_promotion(until, next);
            }
            self.direct(next);
        }
    }
}
