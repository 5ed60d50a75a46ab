//! What clients say.
//!
//! A client that breaks the protocol is dropped; one that asks for what it may not have is refused and nothing changes. A
//! coflow belongs to the user whose client spoke of it first on this host.

use std::collections::{BTreeMap, BTreeSet};

use cavalcade_model::{Bytes, Instant, Nanos};
use cavalcade_protocol::{
    AgentMessage, ClientMessage, CoflowKey, Directive, Endpoints, Facts, PROTOCOL, Refusal,
};

use super::{Agent, AgentOutput, CLASSES, Client, ClientId, Flow, Mode, Part, Speaker};
use crate::hosted::NewFlow;

/// How far numbers of coflows may be ahead of the clock, which may have been set back.
const AHEAD: Nanos = Nanos::from_secs(3600);

impl Agent {
    /// A client of `user` has connected.
    pub fn handle_connected(&mut self, client: ClientId, user: u32) {
        let (flows, coflows) = (BTreeMap::new(), BTreeSet::new());
        self.clients.insert(client, Client { user, name: None, flows, coflows });
        let usage = self.users.entry(user).or_default();
        usage.connections += 1;
        let limit = self.config.connection_limit;
        if usage.connections > limit {
            self.drop_client(client, Refusal::TooMany { limit });
        }
    }

    /// A client's connection is gone. Its flows may go on, but nothing is known of them until it is back.
    pub fn handle_gone(&mut self, now: Instant, client: ClientId) {
        let Some(gone) = self.clients.remove(&client) else { return };
        if let Some(usage) = self.users.get_mut(&gone.user) {
            usage.connections -= 1;
            usage.coflows -= gone.coflows.len() as u32;
            usage.flows -= gone.flows.len() as u32;
            if usage.connections == 0 {
                self.users.remove(&gone.user);
            }
        }
        self.promote_after(now, gone.flows.values().copied());
        gone.flows.into_values().for_each(|flow| self.close(now, flow));
        for part in gone.coflows {
            self.leave(now, part, client);
        }
    }

    /// A client says something.
    pub fn handle_client(&mut self, now: Instant, client: ClientId, message: ClientMessage) {
        let Some(record) = self.clients.get_mut(&client) else { return };
        let is_hello = matches!(message, ClientMessage::Hello { .. });
        if is_hello == record.name.is_some() {
            return self.drop_client(client, Refusal::OutOfTurn {});
        }
        match message {
            ClientMessage::Hello { protocol, client: name } => self.greet(now, client, protocol, name),
            ClientMessage::Register { request, parents, deadline, size, class, weight, name } => {
                let coflow = CoflowKey::new(self.counter.next(now), &parents);
                let deadline = deadline.and_then(|deadline| now.checked_add(deadline));
                let facts = Facts { arrival: now, deadline, size, class, weight, name };
                if self.join(now, client, coflow, Some(facts)).is_some() {
                    self.say(client, AgentMessage::Registered { request, coflow, facts });
                }
            }
            ClientMessage::Join { coflow, facts, sent } => {
                // A number far ahead of the clock is none that was given out here: to go past it would use up all numbers.
                if Instant(coflow.serial) <= now.checked_add(AHEAD).unwrap_or(now) {
                    self.counter.pass(coflow.serial);
                }
                if let Some(number) = self.join(now, client, coflow, facts) {
                    self.set_sent(now, client, number, sent.0);
                }
            }
            ClientMessage::Unregister { coflow } => self.unregister(now, client, coflow),
            ClientMessage::Open { flow, coflow, ends, size, sent } => {
                self.open(now, client, flow, coflow, ends, size, sent);
            }
            // A flow to an address that is nobody's port is not kept, and what is said of it is left out.
            ClientMessage::Sent { flow, sent, idle } => {
                if let Some(number) = self.flow_of(client, flow) {
                    self.moved(now, number, sent.0, idle);
                }
            }
            ClientMessage::Close { flow, sent } => {
                if let Some(number) = self.flow_of(client, flow) {
                    self.moved(now, number, sent.0, false);
                    self.promote_after(now, [number]);
                    self.close(now, number);
                    if let Some(client) = self.clients.get_mut(&client)
                        && client.flows.remove(&flow).is_some()
                        && let Some(usage) = self.users.get_mut(&client.user)
                    {
                        usage.flows -= 1;
                    }
                }
            }
        }
    }

    fn greet(&mut self, now: Instant, client: ClientId, protocol: u16, name: u64) {
        if protocol != PROTOCOL {
            return self.drop_client(client, Refusal::Protocol { ours: PROTOCOL });
        }
        self.forget_former_life(now, client, name);
        if let Some(client) = self.clients.get_mut(&client) {
            client.name = Some(name);
        }
        let period = self.link.period(&self.config);
        let welcome = AgentMessage::Welcome {
            protocol: PROTOCOL,
            port: self.config.port,
            period,
            lease: self.config.client_lease,
        };
        self.say(client, welcome);
    }

    pub(super) fn say(&mut self, client: ClientId, message: AgentMessage) {
        self.outbox.push_back(AgentOutput::Client(client, message));
    }

    pub(super) fn refuse(&mut self, client: ClientId, refusal: Refusal) {
        self.counters.refusals += 1;
        self.say(client, AgentMessage::Refused { refusal });
    }

    fn drop_client(&mut self, client: ClientId, refusal: Refusal) {
        self.refuse(client, refusal);
        self.outbox.push_back(AgentOutput::Drop(client));
    }

    fn flow_of(&self, client: ClientId, flow: u32) -> Option<u32> {
        self.clients.get(&client)?.flows.get(&flow).copied()
    }

    /// The client takes part in a coflow, which is opened here if it was not. Returns the agent's number of it.
    fn join(&mut self, now: Instant, client: ClientId, key: CoflowKey, facts: Option<Facts>) -> Option<u32> {
        let user = self.clients.get(&client)?.user;
        let limit = self.config.client_limit;
        if self.users.get(&user).is_some_and(|usage| usage.coflows >= limit) {
            self.refuse(client, Refusal::TooMany { limit });
            return None;
        }
        let number = match self.part_of.get(&key) {
            Some(&number) if self.parts[&number].user != user => {
                self.refuse(client, Refusal::NotYours { coflow: key });
                return None;
            }
            Some(&number) => number,
            None => self.open_part(key, user),
        };
        let part = self.parts.get_mut(&number).expect("a part that was found or opened");
        part.clients.insert(client);
        part.empty_since = None;
        if part.facts.is_none() && facts.is_some() {
            part.facts = facts;
            part.is_changed = true;
            self.link.has_news = true;
        }
        let facts = part.facts;
        if let Some(client) = self.clients.get_mut(&client)
            && client.coflows.insert(number)
            && let Some(usage) = self.users.get_mut(&user)
        {
            usage.coflows += 1;
        }
        if let Mode::Decentralised(own) = &mut self.mode {
            own.hosted.open_coflow(now, key, facts);
        }
        Some(number)
    }

    fn open_part(&mut self, key: CoflowKey, user: u32) -> u32 {
        let number = self.next_part;
        self.next_part =
            number.checked_add(1).expect("fewer than four thousand million coflows in a session");
        let part = Part {
            key,
            facts: None,
            user,
            sent: BTreeMap::new(),
            clients: BTreeSet::new(),
            flows: BTreeSet::new(),
            is_over: false,
            empty_since: None,
            priority: Default::default(),
            reported: false,
            is_changed: true,
        };
        self.link.has_news = true;
        self.parts.insert(number, part);
        self.part_of.insert(key, number);
        number
    }

    /// A client that comes back says everything again; what it said before would count twice.
    fn forget_former_life(&mut self, now: Instant, client: ClientId, name: u64) {
        let Some(user) = self.clients.get(&client).map(|client| client.user) else { return };
        let is_former = |other: &Client| other.user == user && other.name == Some(name);
        let former: Vec<ClientId> =
            self.clients.iter().filter(|(_, other)| is_former(other)).map(|(&id, _)| id).collect();
        for former in former {
            self.handle_gone(now, former);
            self.outbox.push_back(AgentOutput::Drop(former));
        }
        let numbers = self.said.remove(&(user, name)).unwrap_or_default();
        numbers.into_iter().for_each(|number| self.set_sent_by(now, (user, name), number, 0));
    }

    fn set_sent(&mut self, now: Instant, client: ClientId, number: u32, sent: u64) {
        if let Some(speaker) = self.speaker(client) {
            self.set_sent_by(now, speaker, number, sent);
        }
    }

    fn set_sent_by(&mut self, now: Instant, speaker: Speaker, number: u32, sent: u64) {
        let Some(part) = self.parts.get_mut(&number) else { return };
        let known = part.sent.get(&speaker).copied().unwrap_or(0);
        if sent != known {
            part.sent.insert(speaker, sent);
            self.said.entry(speaker).or_default().insert(number);
            part.is_changed = true;
            self.link.has_news = true;
            let key = part.key;
            if let Mode::Decentralised(own) = &mut self.mode {
                own.hosted.adjust(now, key, i128::from(sent) - i128::from(known));
            }
        }
    }

    fn speaker(&self, client: ClientId) -> Option<Speaker> {
        let client = self.clients.get(&client)?;
        Some((client.user, client.name?))
    }

    fn unregister(&mut self, now: Instant, client: ClientId, key: CoflowKey) {
        let Some(&number) = self.part_of.get(&key) else { return };
        let user = self.clients.get(&client).map(|client| client.user);
        if user != Some(self.parts[&number].user) {
            return self.refuse(client, Refusal::NotYours { coflow: key });
        }
        self.take_from_client(client, number);
        if let Some(part) = self.parts.get_mut(&number) {
            part.is_over = true;
        }
        self.leave(now, number, client);
    }

    /// A coflow counts no more among those of a client.
    fn take_from_client(&mut self, client: ClientId, number: u32) {
        if let Some(client) = self.clients.get_mut(&client)
            && client.coflows.remove(&number)
            && let Some(usage) = self.users.get_mut(&client.user)
        {
            usage.coflows -= 1;
        }
    }

    /// A client takes part no more.
    fn leave(&mut self, now: Instant, number: u32, client: ClientId) {
        let Some(part) = self.parts.get_mut(&number) else { return };
        part.clients.remove(&client);
        if part.clients.is_empty() && part.flows.is_empty() {
            part.empty_since.get_or_insert(now);
        }
    }

    pub(super) fn forget_part(&mut self, now: Instant, number: u32) {
        let Some(part) = self.parts.remove(&number) else { return };
        self.part_of.remove(&part.key);
        part.clients.into_iter().for_each(|client| self.take_from_client(client, number));
        for speaker in part.sent.into_keys() {
            if let Some(of_speaker) = self.said.get_mut(&speaker) {
                of_speaker.remove(&number);
                if of_speaker.is_empty() {
                    self.said.remove(&speaker);
                }
            }
        }
        if part.reported {
            self.link.left.push(number);
            self.link.has_news = true;
        }
        if let Mode::Decentralised(own) = &mut self.mode {
            own.hosted.close_coflow(now, part.key);
        }
    }

    fn open(
        &mut self,
        now: Instant,
        client: ClientId,
        flow: u32,
        key: CoflowKey,
        ends: Endpoints,
        size: Option<Bytes>,
        sent: Bytes,
    ) {
        let Some(record) = self.clients.get(&client) else { return };
        if record.flows.contains_key(&flow) {
            return self.refuse(client, Refusal::BadFlow { flow });
        }
        let limit = self.config.client_limit;
        if self.users.get(&record.user).is_some_and(|usage| usage.flows >= limit) {
            return self.refuse(client, Refusal::TooMany { limit });
        }
        let Some(speaker) = self.speaker(client) else { return };
        let Some(part) = self.join(now, client, key, None) else { return };
        let remote = ends.remote.ip().to_canonical();
        let Some(&to) = self.config.directory.get(&remote) else { return };
        let number = self.next_flow;
        self.next_flow = number.checked_add(1).expect("fewer than four thousand million flows in a session");
        if let Some(part) = self.parts.get_mut(&part) {
            part.flows.insert(number);
        }
        if let Some(client) = self.clients.get_mut(&client)
            && client.flows.insert(flow, number).is_none()
            && let Some(usage) = self.users.get_mut(&client.user)
        {
            usage.flows += 1;
        }
        let record = Flow {
            client,
            speaker,
            number: flow,
            part,
            to,
            size,
            sent: sent.0,
            is_idle: false,
            is_stalled: false,
            moved_at: now,
            reported: None,
            ordered: None,
            promoted: None,
            told: Directive::default(),
        };
        self.flows.insert(number, record);
        if let Mode::Decentralised(own) = &mut self.mode {
            let new = NewFlow { to, size: size.map(|size| size.0), sent: sent.0, idle: false };
            own.hosted.open_flow(now, key, (self.config.port, number), new);
        }
        self.link.has_news = true;
        self.direct(number);
    }

    /// A flow has sent so many bytes in all. It never goes back: a word that comes late is left out.
    fn moved(&mut self, now: Instant, number: u32, sent: u64, is_idle: bool) {
        let Some(flow) = self.flows.get_mut(&number) else { return };
        if sent > flow.sent {
            let class = usize::from(flow.told.class).min(CLASSES - 1);
            let count = &mut self.counters.sent_by_class[class];
            *count = count.saturating_add(sent - flow.sent);
            flow.sent = sent;
            flow.moved_at = now;
            flow.is_stalled = false;
        }
        if flow.is_idle && !is_idle {
            // What has waited for its application has not stalled.
            flow.moved_at = now;
        }
        flow.is_idle = is_idle;
        self.fares(now, number);
    }

    /// Passes on how a flow fares to a policy of the agent's own.
    pub(super) fn fares(&mut self, now: Instant, number: u32) {
        self.link.has_news = true;
        let Some(flow) = self.flows.get(&number) else { return };
        let (key, sent, rests) = (self.parts[&flow.part].key, flow.sent, flow.rests());
        if let Mode::Decentralised(own) = &mut self.mode {
            if let Some(flow) = own.hosted.named(key, (self.config.port, number)) {
                own.hosted.progress(now, flow, sent, rests);
            }
        } else if rests && flow.reported.is_some_and(|(_, known)| !known) {
            self.promote(now, number);
        }
    }

    /// A flow is over; what it has sent goes on counting for its coflow.
    fn close(&mut self, now: Instant, number: u32) {
        let Some(flow) = self.flows.remove(&number) else { return };
        let part = self.parts.get_mut(&flow.part).expect("a flow's coflow is kept as long as the flow");
        part.flows.remove(&number);
        let over = part.sent.entry(flow.speaker).or_default();
        *over = over.saturating_add(flow.sent);
        self.said.entry(flow.speaker).or_default().insert(flow.part);
        if part.clients.is_empty() && part.flows.is_empty() {
            part.empty_since.get_or_insert(now);
        }
        match flow.reported {
            Some((reported, _)) => self.link.closed.push((number, flow.sent.saturating_sub(reported))),
            None => part.is_changed = true,
        }
        let key = part.key;
        if let Mode::Decentralised(own) = &mut self.mode
            && let Some(flow) = own.hosted.named(key, (self.config.port, number))
        {
            own.hosted.close_flow(now, flow);
        }
        self.link.has_news = true;
    }
}
