//! What the clients of one user may have on a host, and what they have.
//!
//! One user must not take the agent from the others, so limits count per user and not per
//! connection. Connections, coflows and flows are counted here. Messages in a second and bytes that
//! wait are counted where connections are, by the shell, which reports them by
//! [`Agent::handle_over_budget`].
//!
//! A coflow counts once for each client that takes part, and once more while it lingers without
//! any: a client that registers and ends coflows in a loop does not get around its limit.

use std::collections::BTreeMap;

use cavalcade_protocol::{AgentMessage, Limit, Refusal, Subject};

use super::{Agent, AgentOutput, ClientId};

/// The budget of one user's clients on a host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Budget {
    /// Connections.
    pub connections: u32,
    /// Coflows in which they take part, once for each client.
    pub coflows: u32,
    /// Open flows.
    pub flows: u32,
    /// Messages in a second.
    pub messages: u32,
    /// Bytes that wait in the agent, from them and for them.
    pub bytes: u32,
}

impl Default for Budget {
    fn default() -> Self {
        Self { connections: 1_024, coflows: 65_536, flows: 65_536, messages: 100_000, bytes: 64 << 20 }
    }
}

impl Budget {
    /// Returns the limit of one quantity.
    pub fn of(&self, limit: Limit) -> u32 {
        match limit {
            Limit::Connections {} => self.connections,
            Limit::Coflows {} => self.coflows,
            Limit::Flows {} => self.flows,
            Limit::Messages {} => self.messages,
            Limit::Bytes {} => self.bytes,
        }
    }

    /// Sets how much of something a user may have.
    pub fn set(&mut self, limit: Limit, most: u32) {
        *match limit {
            Limit::Connections {} => &mut self.connections,
            Limit::Coflows {} => &mut self.coflows,
            Limit::Flows {} => &mut self.flows,
            Limit::Messages {} => &mut self.messages,
            Limit::Bytes {} => &mut self.bytes,
        } = most;
    }

    fn refusal(&self, of: Limit) -> Refusal {
        Refusal::TooMany { of, limit: self.of(of) }
    }
}

/// The use of one user's clients.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Connections.
    pub connections: u32,
    /// Coflows in which they take part, once for each client, and coflows that linger.
    pub coflows: u32,
    /// Open flows.
    pub flows: u32,
}

impl Usage {
    /// Returns what they have of one quantity; zero of messages and bytes, which the shell counts.
    pub fn of(&self, limit: Limit) -> u32 {
        match limit {
            Limit::Connections {} => self.connections,
            Limit::Coflows {} => self.coflows,
            Limit::Flows {} => self.flows,
            Limit::Messages {} | Limit::Bytes {} => 0,
        }
    }

    fn count(&mut self, limit: Limit) -> &mut u32 {
        match limit {
            Limit::Connections {} => &mut self.connections,
            Limit::Coflows {} => &mut self.coflows,
            Limit::Flows {} => &mut self.flows,
            Limit::Messages {} | Limit::Bytes {} => unreachable!("the shell counts these"),
        }
    }
}

/// The use of each user's clients.
pub(super) type Users = BTreeMap<u32, Usage>;

impl Agent {
    /// Returns the use of each user's clients, in order of the users' numbers.
    pub fn users(&self) -> impl Iterator<Item = (u32, Usage)> + '_ {
        self.users.iter().map(|(&user, &usage)| (user, usage))
    }

    /// Returns the budget of one user's clients.
    pub fn budget(&self) -> &Budget {
        &self.config.budget
    }

    /// Sets what one user's clients may have from now on; what they have beyond it stays.
    pub fn set_budget(&mut self, budget: Budget) {
        self.config.budget = budget;
    }

    /// Sends a client the refusal of a limit that the shell counts.
    pub fn handle_over_budget(&mut self, client: ClientId, limit: Limit) {
        self.refuse(client, Subject::Connection {}, self.config.budget.refusal(limit));
    }

    /// Checks that a user may have one more; the error has the limit that forbids it.
    pub(super) fn admits(&self, user: u32, limit: Limit) -> Result<(), Refusal> {
        let used = self.users.get(&user).map_or(0, |usage| usage.of(limit));
        if used < self.config.budget.of(limit) { Ok(()) } else { Err(self.config.budget.refusal(limit)) }
    }

    /// A user has one more.
    pub(super) fn charge(&mut self, user: u32, limit: Limit) {
        *self.users.entry(user).or_default().count(limit) += 1;
    }

    /// A user has fewer.
    pub(super) fn credit(&mut self, user: u32, limit: Limit, fewer: usize) {
        let Some(usage) = self.users.get_mut(&user) else { return };
        *usage.count(limit) -= fewer as u32;
        if *usage == Usage::default() {
            self.users.remove(&user);
        }
    }

    pub(super) fn refuse(&mut self, client: ClientId, subject: Subject, refusal: Refusal) {
        *self.refusals.entry(refusal.reason()).or_default() += 1;
        self.send(client, AgentMessage::Refused { subject, refusal });
    }

    /// Refuses to go on with a client.
    pub(super) fn drop_client(&mut self, client: ClientId, refusal: Refusal) {
        self.refuse(client, Subject::Connection {}, refusal);
        self.outbox.push_back(AgentOutput::Drop(client));
    }

    /// Returns the number of refusals to clients, by [`Refusal::reason`].
    pub fn refusals(&self) -> impl Iterator<Item = (&'static str, u64)> + '_ {
        self.refusals.iter().map(|(&reason, &count)| (reason, count))
    }
}
