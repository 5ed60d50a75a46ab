//! What clients are told, and who goes on when a flow ends between two rounds.

use std::collections::BTreeMap;

use cavalcade_model::{Instant, Nanos, PortId};
use cavalcade_protocol::{AgentMessage, Directive, FlowOrder, Gate};

use super::{Agent, AgentOutput, Flow, Mode};

/// Periods for which a flow goes on in the place of another: by then the coordinator has heard of the end and answered.
const PROMOTION_PERIODS: u64 = 4;

impl Agent {
    /// A policy of the agent's own decides anew.
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
            own.hosted.decide(now, |(_, number), _, order| {
                if let Some(flow) = self.flows.get_mut(&number) {
                    flow.ordered = Some(order);
                }
            });
        }
        self.speak(now);
        self.direct_all();
    }

    /// Sends what the agent's own policy wants to say to other hosts.
    pub(super) fn speak(&mut self, now: Instant) {
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

    /// The agent at another host says something.
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
        statements.into_iter().for_each(|statement| own.hosted.hear(now, from, statement));
    }

    /// Tells a flow's client how to send it, where that has changed.
    pub(super) fn direct(&mut self, number: u32) {
        let enforces = self.enforces();
        let Some(flow) = self.flows.get(&number) else { return };
        let mut directive = Directive::default();
        if enforces && let Some(order) = flow.ordered {
            directive.gate = flow.promoted.map_or(order.gate, |(_, gate)| gate);
        }
        if enforces {
            directive.class = self.priority(flow).class.min(self.config.classes.max(1) - 1);
        }
        if flow.told == directive {
            return;
        }
        let (client, flow_there) = (flow.client, flow.number);
        if let Some(flow) = self.flows.get_mut(&number) {
            flow.told = directive;
        }
        self.counters.directives += 1;
        self.say(client, AgentMessage::Direct { flow: flow_there, directive });
    }

    /// Whether clients are told what was decided.
    fn enforces(&self) -> bool {
        let is_wanted = self.link.is_enforced || matches!(self.mode, Mode::Decentralised(_));
        is_wanted && !self.config.shadow && !self.is_drained()
    }

    pub(super) fn direct_all(&mut self) {
        let numbers: Vec<u32> = self.flows.keys().copied().collect();
        numbers.into_iter().for_each(|number| self.direct(number));
    }

    /// Flows end, perhaps all of a process: one flow to each of their receivers goes on in their place.
    pub(super) fn promote_after(&mut self, now: Instant, ended: impl IntoIterator<Item = u32>) {
        if !matches!(self.mode, Mode::Coordinated) {
            return;
        }
        let mut last_to: BTreeMap<PortId, u32> = BTreeMap::new();
        for number in ended {
            let Some(flow) = self.flows.get(&number) else { continue };
            if flow.told.gate != (Gate::Off {}) {
                last_to.insert(flow.to, number);
            }
        }
        last_to.into_values().for_each(|number| self.promote(now, number));
    }

    /// A flow ends or runs dry: until the coordinator has heard of it, the first flow to the same receiver that is off goes
    /// in its place (Aalo §3).
    pub(super) fn promote(&mut self, now: Instant, ended: u32) {
        let Some(over) = self.flows.get(&ended).filter(|flow| flow.told.gate != Gate::Off {}) else { return };
        let (to, gate, period) = (over.to, over.told.gate, self.link.period(&self.config));
        let is_off = |order: FlowOrder| order.gate == Gate::Off {};
        let waiting = self.flows.iter().filter(|(number, flow)| {
            **number != ended
                && flow.to == to
                && !flow.rests()
                && flow.promoted.is_none()
                && flow.ordered.is_some_and(is_off)
        });
        let next =
            waiting.min_by_key(|(number, flow)| (self.priority(flow), self.parts[&flow.part].key, **number));
        let Some(next) = next.map(|(&number, _)| number) else { return };
        if let Some(flow) = self.flows.get_mut(&next) {
            flow.promoted = now.checked_add(Nanos(PROMOTION_PERIODS * period.0)).map(|until| (until, gate));
        }
        self.direct(next);
    }

    pub(super) fn end_promotions(&mut self, now: Instant) {
        let is_over = |flow: &Flow| flow.promoted.is_some_and(|(until, _)| until <= now);
        let over: Vec<u32> =
            self.flows.iter().filter(|(_, flow)| is_over(flow)).map(|(&number, _)| number).collect();
        for number in over {
            if let Some(flow) = self.flows.get_mut(&number) {
                flow.promoted = None;
            }
            self.direct(number);
        }
    }
}
