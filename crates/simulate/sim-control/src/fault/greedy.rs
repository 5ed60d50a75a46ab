//! A user of honest hosts who takes all that they may: connections, coflows, flows and grants, up
//! to the budget and beyond it, without end.
//!
//! They have no process here and speak the protocol by hand: they leave without a word, register in
//! loops, end what they began and begin it again, and ask for what is another's. Nothing of theirs
//! moves.

use cavalcade_control::{Agent, Budget, PartStatus};
use cavalcade_model::{Bytes, Instant, Nanos, PortId, SplitMix64, TaskClass, Workload};
use cavalcade_protocol::{ClientMessage, CoflowKey, PROTOCOL};

use crate::host::{Host, endpoints};

/// The pause between two of their turns.
pub(super) const PAUSE: Nanos = Nanos::from_millis(20);
/// Their number, which no other user has.
pub(super) const USER: u32 = 9;

/// What they ask for at once.
const AT_ONCE: u64 = 30;

/// Returns what each user may have on a host: more than honest ones need for `workload`, with what
/// is left of processes that crashed.
pub(super) fn budget(workload: &Workload) -> Budget {
    let (coflows, flows) = (workload.coflow_count() as u32, workload.flows().len() as u32);
    Budget { connections: 8, coflows: 64 + 8 * coflows, flows: 64 + 2 * flows, ..Budget::default() }
}

/// The user.
#[derive(Debug)]
pub(super) struct Greedy {
    dice: SplitMix64,
    /// Their flows look as if they had data to send.
    pub(super) holds: bool,
}

impl Greedy {
    pub(super) fn new(dice: SplitMix64, holds: bool) -> Self {
        Self { dice, holds }
    }

    /// They do something on a host.
    ///
    /// # Errors
    /// If that changes what is another's; in words.
    pub(super) fn act(&mut self, now: Instant, host: &mut Host, ports: u32) -> Result<(), String> {
        if !host.acts(now) {
            return Ok(());
        }
        let kind = self.dice.below(9);
        if host.guests.is_empty() || kind == 0 {
            self.connect(now, host);
            return Ok(());
        }
        let which = self.dice.below(host.guests.len() as u64) as usize;
        if kind == 1 {
            host.dismiss_guest(now, which);
            return Ok(());
        }
        let id = host.guests[which].id;
        let before = parts(host, false);
        let messages = match (kind, self.any(&parts(host, true))) {
            (2 | 3, _) | (_, None) => self.register(),
            (4, Some(own)) => self.open(host, which, own.key, ports),
            (5, Some(_)) => {
                let flows = std::mem::take(&mut host.guests[which].flows);
                flows.into_iter().map(|flow| ClientMessage::Close { flow, sent: Bytes::ZERO }).collect()
            }
            (6, Some(own)) => vec![ClientMessage::Unregister { coflow: own.key }],
            (7, Some(own)) => self.grant(own.key),
            (_, Some(_)) => match self.any(&before) {
                Some(victim) => self.meddle(host, which, victim.key, ports),
                None => Vec::new(),
            },
        };
        messages.iter().for_each(|message| host.receive_guest(now, id, message));
        match parts(host, false) == before {
            true => Ok(()),
            false => Err(format!("a user has changed what is another's: {messages:?}")),
        }
    }

    /// They end all that they have.
    pub(super) fn leave(now: Instant, host: &mut Host) {
        let own: Vec<CoflowKey> = parts(host, true).iter().map(|part| part.key).collect();
        if let Some(id) = host.guests.first().map(|guest| guest.id) {
            own.iter().for_each(|&coflow| {
                host.receive_guest(now, id, &ClientMessage::Unregister { coflow });
            });
        }
        while !host.guests.is_empty() {
            host.dismiss_guest(now, 0);
        }
    }

    fn any(&mut self, of: &[PartStatus]) -> Option<PartStatus> {
        (!of.is_empty()).then(|| of[self.dice.below(of.len() as u64) as usize])
    }

    fn connect(&mut self, now: Instant, host: &mut Host) {
        let name = self.dice.below(20);
        host.admit_guest(USER);
        if let Some(id) = host.guests.last().map(|guest| guest.id) {
            let hello = ClientMessage::Hello { protocol: PROTOCOL, client: name };
            host.receive_guest(now, id, &hello);
        }
    }

    fn register(&mut self) -> Vec<ClientMessage> {
        let coflow = |request| ClientMessage::Register {
            request: request as u32,
            parents: Vec::new(),
            deadline: None,
            size: None,
            class: TaskClass::Online,
            weight: 1,
            name: None,
        };
        (0..self.dice.below(AT_ONCE)).map(coflow).collect()
    }

    fn open(&mut self, host: &mut Host, which: usize, coflow: CoflowKey, ports: u32) -> Vec<ClientMessage> {
        let mut messages = Vec::new();
        for _ in 0..self.dice.below(AT_ONCE) {
            let to = PortId(self.dice.below(u64::from(ports)) as u32);
            let guest = &mut host.guests[which];
            let flow = guest.next_flow;
            guest.next_flow += 1;
            guest.flows.push(flow);
            let ends = endpoints(host.port, to);
            messages.push(ClientMessage::Open { flow, coflow, ends, size: None, sent: Bytes::ZERO });
            if !self.holds {
                messages.push(ClientMessage::Sent { flow, sent: Bytes::ZERO, idle: true });
            }
        }
        messages
    }

    fn grant(&mut self, coflow: CoflowKey) -> Vec<ClientMessage> {
        let first = self.dice.below(1_000) as u32 + 100;
        let users = first..first + self.dice.below(AT_ONCE) as u32;
        users.map(|user| ClientMessage::Grant { coflow, user }).collect()
    }

    /// They ask for what is another's.
    fn meddle(&mut self, host: &mut Host, which: usize, coflow: CoflowKey, ports: u32) -> Vec<ClientMessage> {
        match self.dice.below(4) {
            0 => vec![ClientMessage::Grant { coflow, user: USER }],
            1 => vec![ClientMessage::Join { coflow, facts: None, sent: Bytes(self.dice.below(1 << 42)) }],
            2 => vec![ClientMessage::Unregister { coflow }],
            _ => self.open(host, which, coflow, ports),
        }
    }
}

/// The coflows at a host that are theirs, or that are others'.
fn parts(host: &Host, own: bool) -> Vec<PartStatus> {
    let parts = host.agent.iter().flat_map(Agent::parts);
    parts.filter(|part| (part.user == USER) == own).collect()
}

/// Checks that no user has more at an agent than their budget, and that agents count what there is.
///
/// # Errors
/// In words, if one has.
pub(super) fn check(host: &Host, budget: &Budget) -> Result<(), String> {
    if let Some(what) = &host.over_budget {
        return Err(format!("an honest user of host {} is refused: {what}", host.port.0));
    }
    let Some(agent) = &host.agent else { return Ok(()) };
    for (user, usage) in agent.users() {
        let unnoticed = host.ending() as u32;
        if usage.coflows > budget.coflows
            || usage.flows > budget.flows
            || usage.connections > budget.connections + unnoticed
        {
            let what = format!("user {user} of host {} has {usage:?}, and may have {budget:?}", host.port.0);
            return Err(what);
        }
    }
    let (counted, open) =
        (agent.users().map(|(_, usage)| u64::from(usage.flows)).sum(), agent.status().count());
    if open as u64 != counted {
        let what = format!("users of host {} have {open} flows, their budgets count {counted}", host.port.0);
        return Err(what);
    }
    Ok(())
}

/// Checks that nothing of a user who has left counts any more.
///
/// # Errors
/// In words, if something does.
pub(super) fn check_left(host: &Host) -> Result<(), String> {
    let left = host.agent.iter().flat_map(Agent::users).find(|(user, _)| *user == USER);
    let lingering = parts(host, true).len();
    match left {
        Some((_, usage)) if (usage.flows, usage.connections) != (0, 0) || lingering == 0 => {
            Err(format!("a user who has left host {} still counts: {usage:?}", host.port.0))
        }
        _ => Ok(()),
    }
}
