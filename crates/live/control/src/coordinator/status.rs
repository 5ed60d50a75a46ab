//! A coordinator's state, for administrators.

use cavalcade_model::{Bytes, FlowId, PortId, Priority};
use cavalcade_protocol::{CoflowKey, Facts, Gate};

use super::Coordinator;
use crate::explanation::Explanation;
use crate::table::{Coflow, FlowName};

/// The status of a coflow, for administrators.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CoflowStatus {
    /// Its key.
    pub key: CoflowKey,
    /// The facts known of it.
    pub facts: Option<Facts>,
    /// Its owner: a user, by the number that hosts have for it.
    pub owner: Option<u32>,
    /// Bytes that it has sent, as reported.
    pub sent: Bytes,
    /// The priority that the policy gave it.
    pub priority: Priority,
    /// Its open flows.
    pub flows: Vec<CoflowFlow>,
}

/// The status of a flow of a coflow, for administrators.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CoflowFlow {
    /// The sending port.
    pub from: PortId,
    /// Its number there.
    pub number: u32,
    /// The receiving port.
    pub to: PortId,
    /// Its bytes, if they are known.
    pub size: Option<Bytes>,
    /// Bytes sent, as far as reported.
    pub sent: Bytes,
    /// True if it has nothing to send or makes no progress.
    pub rests: bool,
    /// The decision about it.
    pub gate: Gate,
    /// The priority that holds for it.
    pub priority: Priority,
}

impl Coordinator {
    /// Why a coflow's flows go as they do; `None` where it is not known.
    pub fn why(&self, key: CoflowKey) -> Option<Explanation> {
        self.hosted.explain(key)
    }

    /// All coflows that are known, in the order of keys.
    pub fn status(&self) -> impl Iterator<Item = CoflowStatus> + '_ {
        self.hosted.coflows().map(|coflow| CoflowStatus {
            key: coflow.key,
            sent: Bytes(coflow.attained),
            priority: coflow.priority,
            facts: coflow.facts,
            owner: self.owners.of(coflow.key),
            flows: coflow.flows.iter().map(|(&name, &id)| self.flow_status(coflow, name, id)).collect(),
        })
    }

    /// The flows for which the last round changed the decision, with their coflows; nothing for one
    /// that has ended since.
    pub fn decided(&self) -> impl ExactSizeIterator<Item = Option<(CoflowKey, CoflowFlow)>> + '_ {
        self.decided.iter().map(|&(port, number)| self.flow(port, number))
    }

    /// The open flow of this number at `port`.
    fn flow(&self, port: PortId, number: u32) -> Option<(CoflowKey, CoflowFlow)> {
        let peer = self.peers.get(port)?;
        let (name, open) = ((port, number), peer.flows.get(&number)?);
        let coflow = self.hosted.coflow(peer.parts.get(&open.part)?.key)?;
        self.hosted.find(open.id, name)?;
        Some((coflow.key, self.flow_status(coflow, name, open.id)))
    }

    fn flow_status(&self, coflow: &Coflow, (from, number): FlowName, id: FlowId) -> CoflowFlow {
        let flow = self.hosted.flow(id);
        CoflowFlow {
            from,
            number,
            to: flow.facts.dst,
            size: flow.size.map(Bytes),
            sent: Bytes(flow.sent),
            rests: flow.rests(),
            gate: flow.told.gate,
            priority: flow.priority.unwrap_or(coflow.priority),
        }
    }

    /// Returns the bytes that a coflow has sent, as reported.
    pub fn attained(&self, key: CoflowKey) -> Option<Bytes> {
        self.hosted.attained(key)
    }
}
