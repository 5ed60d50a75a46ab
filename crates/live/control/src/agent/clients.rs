//! Messages of clients.
//!
//! A client that breaks the protocol is dropped; a request that is not allowed is refused and
//! changes nothing. A coflow belongs to the user whose client registered or joined it first on this
//! host; others take part only where that user grants it.

use std::collections::{BTreeMap, BTreeSet};

use cavalcade_model::{Bytes, Instant, Nanos};
use cavalcade_protocol::{
    AgentMessage, ClientMessage, CoflowKey, Endpoints, Facts, Limit, PROTOCOL, Refusal, Subject,
};

use super::{Agent, AgentOutput, CLASSES, Client, ClientId, Flow, Mode, Part, Speaker};
use crate::hosted::NewFlow;

/// The most that numbers of coflows may be ahead of the clock, which may have been set back.
const AHEAD: Nanos = Nanos::from_secs(3600);

impl Agent {
    /// A client of `user` has connected.
    pub fn handle_connected(&mut self, client: ClientId, user: u32) {
        let (flows, coflows) = (BTreeMap::new(), BTreeSet::new());
        let admitted = self.admits(user, Limit::Connections {});
        self.clients.insert(client, Client { user, name: None, flows, coflows });
        self.charge(user, Limit::Connections {});
        if let Err(refusal) = admitted {
            self.drop_client(client, refusal);
        }
    }

    /// Handles the loss of a client's connection. Its flows may go on, but are not reported until
    /// it is back.
    pub fn handle_gone(&mut self, now: Instant, client: ClientId) {
        let Some(gone) = self.clients.remove(&client) else { return };
        let speaker = gone.name.map(|name| (gone.user, name));
        if let Some(speaker) = speaker.filter(|speaker| self.named.get(speaker) == Some(&client)) {
            self.named.remove(&speaker);
        }
        let freed = self.freed(gone.flows.values().copied());
        self.credit(gone.user, Limit::Flows {}, gone.flows.len());
        gone.flows.into_values().for_each(|flow| self.close(now, flow));
        self.promote_into(now, freed);
        self.credit(gone.user, Limit::Coflows {}, gone.coflows.len());
        for part in gone.coflows {
            self.leave(now, part, client);
        }
        self.credit(gone.user, Limit::Connections {}, 1);
    }

    /// Handles a client's message.
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
                match self.join(now, client, coflow, Some(facts)) {
                    Ok(_) => self.send(client, AgentMessage::Registered { request, coflow, facts }),
                    Err(refusal) => self.refuse(client, Subject::Request { request }, refusal),
                }
            }
            ClientMessage::Join { coflow, facts, sent } => {
                // A number far ahead of the clock was not given out here: to go past it would use
                // up all numbers.
                if Instant(coflow.serial) <= now.checked_add(AHEAD).unwrap_or(now) {
                    self.counter.pass(coflow.serial);
                }
                match self.join(now, client, coflow, facts) {
                    Ok(number) => self.set_sent(now, client, number, sent.0),
                    Err(refusal) => self.refuse(client, Subject::Coflow { coflow }, refusal),
                }
            }
            ClientMessage::Unregister { coflow } => self.unregister(now, client, coflow),
            ClientMessage::Grant { coflow, user } => {
                if let Err(refusal) = self.grant(client, coflow, user) {
                    self.refuse(client, Subject::Coflow { coflow }, refusal);
                }
            }
            ClientMessage::Open { flow, coflow, ends, size, sent } => {
                if let Err(refusal) = self.open(now, client, flow, coflow, ends, size, sent) {
                    self.refuse(client, Subject::Flow { flow }, refusal);
                }
            }
            // A flow to an address that is no port's is not kept, and messages about it are
            // ignored.
            ClientMessage::Sent { flow, sent, idle } => {
                if let Some(number) = self.flow_of(client, flow) {
                    self.moved(now, number, sent.0, idle);
                }
            }
            ClientMessage::Close { flow, sent } => {
                if let Some(number) = self.flow_of(client, flow) {
                    self.moved(now, number, sent.0, false);
                    let freed = self.freed([number]);
                    self.close(now, number);
                    self.promote_into(now, freed);
                    if let Some(client) = self.clients.get_mut(&client)
                        && client.flows.remove(&flow).is_some()
                    {
                        let user = client.user;
                        self.credit(user, Limit::Flows {}, 1);
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
        if let Some(record) = self.clients.get_mut(&client) {
            record.name = Some(name);
            self.named.insert((record.user, name), client);
        }
        let period = self.link.period(&self.config);
        let welcome = AgentMessage::Welcome {
            protocol: PROTOCOL,
            port: self.config.port,
            period,
            lease: self.config.client_lease,
        };
        self.send(client, welcome);
    }

    pub(super) fn send(&mut self, client: ClientId, message: AgentMessage) {
        self.outbox.push_back(AgentOutput::Client(client, message));
    }

    fn flow_of(&self, client: ClientId, flow: u32) -> Option<u32> {
        self.clients.get(&client)?.flows.get(&flow).copied()
    }

    /// The client takes part in a coflow, which is opened here if it was not. Returns the agent's
    /// number of it.
    fn join(
        &mut self,
        now: Instant,
        client: ClientId,
        key: CoflowKey,
        facts: Option<Facts>,
    ) -> Result<u32, Refusal> {
        let record = self.clients.get(&client).expect("a client that speaks is known");
        let user = record.user;
        let number = self.part_of.get(&key).copied();
        if number.is_some_and(|number| !self.parts[&number].is_open_to(user)) {
            return Err(Refusal::NotYours {});
        }
        if number.is_none_or(|number| !record.coflows.contains(&number)) {
            self.admits(user, Limit::Coflows {})?;
        }
        let number = number.unwrap_or_else(|| self.open_part(key, user));
        let part = self.parts.get_mut(&number).expect("a part that was found or opened");
        part.clients.insert(client);
        part.empty_since = None;
        if part.facts.is_none() && facts.is_some() {
            part.facts = facts;
            self.link.note_part(number);
        }
        let (facts, owner) = (part.facts, part.user);
        let was_lingering = std::mem::take(&mut part.lingers);
        self.place_part(number);
        if was_lingering {
            self.credit(owner, Limit::Coflows {}, 1);
        }
        if self.clients.get_mut(&client).is_some_and(|client| client.coflows.insert(number)) {
            self.charge(user, Limit::Coflows {});
        }
        if let Mode::Decentralised(own) = &mut self.mode {
            own.hosted.open_coflow(now, key, facts);
        }
        Ok(number)
    }

    fn open_part(&mut self, key: CoflowKey, user: u32) -> u32 {
        let number = Self::vacant(&mut self.next_part, &self.parts);
        let part = Part {
            key,
            facts: None,
            user,
            granted: BTreeSet::new(),
            sent: BTreeMap::new(),
            clients: BTreeSet::new(),
            flows: BTreeSet::new(),
            is_over: false,
            open: 0,
            left_alone: 0,
            empty_since: None,
            expires: None,
            lingers: false,
            priority: Default::default(),
            reported: false,
        };
        self.link.note_part(number);
        self.parts.insert(number, part);
        self.part_of.insert(key, number);
        number
    }

    /// Drops the state of a client's former connection: it reports everything again, which would
    /// count twice.
    fn forget_former_life(&mut self, now: Instant, client: ClientId, name: u64) {
        let Some(user) = self.clients.get(&client).map(|client| client.user) else { return };
        if let Some(&former) = self.named.get(&(user, name)) {
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
        let known = part.sent_by(speaker);
        if sent != known {
            let evicted = part.set_sent(speaker, sent);
            let key = part.key;
            self.link.note_part(number);
            self.note_said(speaker, number, evicted);
            if let Mode::Decentralised(own) = &mut self.mode {
                own.hosted.adjust(now, key, i128::from(sent) - i128::from(known));
            }
        }
    }

    /// Records that a client has reported bytes of a coflow; those of `evicted` count among others
    /// from now on.
    fn note_said(&mut self, speaker: Speaker, number: u32, evicted: Option<Speaker>) {
        self.said.entry(speaker).or_default().insert(number);
        if let Some(evicted) = evicted {
            self.forget_said(evicted, number);
        }
    }

    fn forget_said(&mut self, speaker: Speaker, number: u32) {
        if let Some(of_speaker) = self.said.get_mut(&speaker) {
            of_speaker.remove(&number);
            if of_speaker.is_empty() {
                self.said.remove(&speaker);
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
        if !user.is_some_and(|user| self.parts[&number].is_open_to(user)) {
            return self.refuse(client, Subject::Coflow { coflow: key }, Refusal::NotYours {});
        }
        self.take_from_client(client, number);
        if let Some(part) = self.parts.get_mut(&number) {
            part.is_over = true;
        }
        self.leave(now, number, client);
        self.place_part(number);
    }

    /// Lets another user take part in a coflow, which counts among its owner's coflows for each
    /// such user.
    fn grant(&mut self, client: ClientId, key: CoflowKey, to: u32) -> Result<(), Refusal> {
        let owner = self.clients.get(&client).map(|client| client.user);
        let number = self.part_of.get(&key).copied().ok_or(Refusal::NotYours {})?;
        let part = &self.parts[&number];
        if owner != Some(part.user) {
            return Err(Refusal::NotYours {});
        }
        if part.is_open_to(to) {
            return Ok(());
        }
        let owner = part.user;
        self.admits(owner, Limit::Coflows {})?;
        self.charge(owner, Limit::Coflows {});
        if let Some(part) = self.parts.get_mut(&number) {
            part.granted.insert(to);
        }
        self.link.note_part(number);
        Ok(())
    }

    /// A coflow counts no more among those of a client.
    fn take_from_client(&mut self, client: ClientId, number: u32) {
        if let Some(client) = self.clients.get_mut(&client)
            && client.coflows.remove(&number)
        {
            let user = client.user;
            self.credit(user, Limit::Coflows {}, 1);
        }
    }

    /// A client takes part no more.
    fn leave(&mut self, now: Instant, number: u32, client: ClientId) {
        let Some(part) = self.parts.get_mut(&number) else { return };
        part.clients.remove(&client);
        if part.clients.is_empty() && part.flows.is_empty() {
            part.empty_since.get_or_insert(now);
        }
        if part.clients.is_empty() && !std::mem::replace(&mut part.lingers, true) {
            let user = part.user;
            self.charge(user, Limit::Coflows {});
        }
        self.place_part(number);
    }

    pub(super) fn forget_part(&mut self, now: Instant, number: u32) {
        let Some(part) = self.parts.remove(&number) else { return };
        self.part_of.remove(&part.key);
        self.credit(part.user, Limit::Coflows {}, usize::from(part.lingers) + part.granted.len());
        part.clients.into_iter().for_each(|client| self.take_from_client(client, number));
        part.sent.into_keys().for_each(|speaker| self.forget_said(speaker, number));
        self.link.parts.remove(&number);
        if part.reported {
            self.link.left.push(number);
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
    ) -> Result<(), Refusal> {
        let record = self.clients.get(&client).expect("a client that speaks is known");
        if record.flows.contains_key(&flow) {
            return Err(Refusal::BadFlow {});
        }
        let user = record.user;
        self.admits(user, Limit::Flows {})?;
        let speaker = self.speaker(client).expect("a client that opens a flow has said hello");
        let part = self.join(now, client, key, None)?;
        // A flow to an address that is no port is left alone.
        let Some(to) = self.config.directory.port(ends.remote.ip()) else {
            self.counters.left_alone += 1;
            if let Some(part) = self.parts.get_mut(&part) {
                part.left_alone += 1;
            }
            return Ok(());
        };
        let number = Self::vacant(&mut self.next_flow, &self.flows);
        if let Some(part) = self.parts.get_mut(&part) {
            part.flows.insert(number);
            part.open = part.open.saturating_add(sent.0);
        }
        if let Some(client) = self.clients.get_mut(&client) {
            client.flows.insert(flow, number);
        }
        self.charge(user, Limit::Flows {});
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
            moved_at: Some(now),
            reported: None,
            ordered: None,
            promoted: None,
            told: None,
            place: None,
            watched: None,
        };
        self.flows.insert(number, record);
        if let Mode::Decentralised(own) = &mut self.mode {
            let new = NewFlow::new(to, user, size.map(|size| size.0), sent.0);
            own.hosted.open_flow(now, key, (self.config.port, number), new);
        }
        self.link.flows.insert(number);
        self.link.note_part_of(&self.parts, part);
        self.direct(number);
        Ok(())
    }

    /// Records that a flow has sent so many bytes in all. It never goes back: a late report is
    /// ignored.
    fn moved(&mut self, now: Instant, number: u32, sent: u64, is_idle: bool) {
        let Some(flow) = self.flows.get_mut(&number) else { return };
        if sent > flow.sent {
            let class = usize::from(flow.told().class.unwrap_or(0)).min(CLASSES - 1);
            let count = &mut self.counters.sent_by_class[class];
            let more = sent - flow.sent;
            *count = count.saturating_add(more);
            flow.sent = sent;
            flow.moved_at = Some(now);
            flow.is_stalled = false;
            if let Some(part) = self.parts.get_mut(&flow.part) {
                part.open = part.open.saturating_add(more);
            }
        }
        if flow.is_idle && !is_idle {
            // What has waited for its application has not stalled.
            flow.moved_at = Some(now);
        }
        flow.is_idle = is_idle;
        self.fares(now, number);
    }

    /// Passes a flow's progress on to a policy of the agent's own.
    pub(super) fn fares(&mut self, now: Instant, number: u32) {
        self.place(number);
        let Some(flow) = self.flows.get(&number) else { return };
        self.link.flows.insert(number);
        self.link.note_part_of(&self.parts, flow.part);
        let (key, sent, rests) = (self.parts[&flow.part].key, flow.sent, flow.rests());
        if let Mode::Decentralised(own) = &mut self.mode {
            if let Some(flow) = own.hosted.named(key, (self.config.port, number)) {
                own.hosted.progress(now, flow, sent, rests);
            }
        } else if rests && flow.reported.is_some_and(|(_, known)| !known) {
            let freed = self.freed([number]);
            self.promote_into(now, freed);
        }
    }

    /// A flow is over; what it has sent goes on counting for its coflow.
    fn close(&mut self, now: Instant, number: u32) {
        let Some(flow) = self.flows.remove(&number) else { return };
        self.displace(number, &flow);
        self.link.flows.remove(&number);
        let part = self.parts.get_mut(&flow.part).expect("a flow's coflow is kept as long as the flow");
        part.flows.remove(&number);
        part.open = part.open.saturating_sub(flow.sent);
        let over = part.sent_by(flow.speaker).saturating_add(flow.sent);
        let evicted = part.set_sent(flow.speaker, over);
        if part.clients.is_empty() && part.flows.is_empty() {
            part.empty_since.get_or_insert(now);
        }
        match flow.reported {
            Some((reported, _)) => self.link.closed.push((number, flow.sent.saturating_sub(reported))),
            None => self.link.note_part(flow.part),
        }
        let (key, part_number) = (part.key, flow.part);
        self.note_said(flow.speaker, part_number, evicted);
        if let Mode::Decentralised(own) = &mut self.mode
            && let Some(flow) = own.hosted.named(key, (self.config.port, number))
        {
            own.hosted.close_flow(now, flow);
        }
        self.place_part(part_number);
    }
}
