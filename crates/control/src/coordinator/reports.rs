//! What reports say, taken in.

use cavalcade_model::{Bytes, Instant, PortId};
use cavalcade_protocol::{CoflowEntry, CoflowKey, FlowEntry, Report, TaskCounter};

use super::Coordinator;
use super::peers::{OpenFlow, Part};
use crate::agent::CLASSES;
use crate::hosted::NewFlow;

const KNOWN: &str = "a report is taken in from a known peer";

impl Coordinator {
    /// Forgets an agent with all that it said: if it comes back, it says it again.
    pub(super) fn forget(&mut self, now: Instant, port: PortId) {
        let Some(peer) = self.peers.remove(port) else { return };
        for (&flow, open) in &peer.flows {
            let Some(sent) = self.hosted.find(open.id, (port, flow)).map(|flow| flow.sent) else { continue };
            self.hosted.close_flow(now, open.id);
            self.hosted.adjust(now, peer.parts[&open.part].key, -i128::from(sent));
        }
        for (&number, part) in &peer.parts {
            self.hosted.adjust(now, part.key, -i128::from(part.sent));
            self.leave(now, port, number, part.key);
        }
    }

    /// An agent has no part of a coflow any more. The last one takes the coflow with it.
    fn leave(&mut self, now: Instant, port: PortId, number: u32, key: CoflowKey) {
        let Some(holders) = self.holders.get_mut(&key) else { return };
        // The agent may have a new part of it by now.
        if holders.get(&port) == Some(&number) {
            holders.remove(&port);
        }
        if holders.is_empty() {
            self.holders.remove(&key);
            self.owners.remove(&key);
            self.hosted.close_coflow(now, key);
        }
    }

    /// A snapshot stands for all before it: what it does not name is over, what it names is so.
    pub(super) fn take_snapshot(&mut self, now: Instant, report: &Report) {
        let port = report.port;
        let peer = self.peers.get_mut(port).expect(KNOWN);
        peer.is_unknown = false;
        let known = peer.parts.clone();
        let is_over = |flow: &u32| report.flows.get(*flow).is_none();
        let over: Vec<u32> = peer.flows.keys().copied().filter(is_over).collect();
        over.into_iter().for_each(|flow| self.close_flow(now, port, flow, 0));
        self.take_changes(now, report);
        for (number, part) in known {
            if report.coflows.get(number).is_none() {
                self.leave_part(now, port, number, part.key);
            }
        }
    }

    pub(super) fn take_changes(&mut self, now: Instant, report: &Report) {
        let port = report.port;
        for (number, entry) in report.coflows.iter() {
            if !self.admits(now, port, entry) {
                self.counters.foreign_parts += 1;
                continue;
            }
            self.hosted.open_coflow(now, entry.key, entry.facts);
            self.holders.entry(entry.key).or_default().insert(port, number);
            let peer = self.peers.get_mut(port).expect(KNOWN);
            if peer.parts.get(&number).is_none_or(|part| part.key != entry.key) {
                peer.parts.insert(number, Part { key: entry.key, sent: 0 });
                peer.new_priorities.push(number);
            }
        }
        for (flow, entry) in report.flows.iter() {
            self.open_flow(now, port, flow, entry);
        }
        for (flow, progress) in report.progress.iter() {
            let Some((open, sent)) = self.find(port, flow, progress.sent) else { continue };
            self.hosted.progress(now, open.id, sent.saturating_add(progress.sent.0), progress.idle);
        }
        for (flow, more) in report.closed.iter() {
            self.find(port, flow, *more);
            self.close_flow(now, port, flow, more.0);
        }
        for (number, entry) in report.coflows.iter() {
            let peer = self.peers.get_mut(port).expect(KNOWN);
            let Some(part) = peer.parts.get_mut(&number) else { continue };
            let before = std::mem::replace(&mut part.sent, entry.sent.0);
            self.hosted.adjust(now, entry.key, i128::from(entry.sent.0) - i128::from(before));
        }
        for (number, ()) in report.left.iter() {
            let part = self.peers.get(port).and_then(|peer| peer.parts.get(&number)).copied();
            if let Some(part) = part {
                self.leave_part(now, port, number, part.key);
            }
        }
    }

    /// Whether a part belongs to whom its coflow belongs to. That is the user of whom the agent speaks that gave out
    /// the coflow's number; until it does, the user of the first part that was heard of.
    fn admits(&mut self, now: Instant, port: PortId, entry: &CoflowEntry) -> bool {
        let is_home = TaskCounter::agent_of(entry.key.serial, self.config.ports) == Some(port);
        match self.owners.get(&entry.key).copied() {
            Some((owner, by_home)) if owner != entry.owner => {
                if by_home || !is_home {
                    return false;
                }
                self.expel(now, entry.key);
            }
            Some((_, true)) => return true,
            _ => {}
        }
        self.owners.insert(entry.key, (entry.owner, is_home));
        true
    }

    /// Takes a coflow from all who have a part of it: it is another user's. Their flows go as plain TCP.
    fn expel(&mut self, now: Instant, key: CoflowKey) {
        for (port, number) in self.holders.get(&key).cloned().unwrap_or_default() {
            self.counters.foreign_parts += 1;
            self.leave_part(now, port, number, key);
            if let Some(peer) = self.peers.get_mut(port) {
                peer.owes_snapshot = true;
                self.list(port);
            }
        }
    }

    /// An open flow of an agent that has sent `more` bytes, and what it had sent before.
    fn find(&mut self, port: PortId, flow: u32, more: Bytes) -> Option<(OpenFlow, u64)> {
        let open = *self.peers.get(port)?.flows.get(&flow)?;
        let record = self.hosted.find(open.id, (port, flow))?;
        let class = usize::from(self.hosted.priority_of(record).class).min(CLASSES - 1);
        let count = &mut self.counters.sent_by_class[class];
        *count = count.saturating_add(more.0);
        Some((open, record.sent))
    }

    fn open_flow(&mut self, now: Instant, port: PortId, flow: u32, entry: &FlowEntry) {
        let peer = self.peers.get_mut(port).expect(KNOWN);
        if let Some(open) = peer.flows.get(&flow).copied() {
            if self.hosted.find(open.id, (port, flow)).is_some() {
                self.hosted.progress(now, open.id, entry.sent.0, entry.idle);
            }
            return;
        }
        let FlowEntry { coflow: part, to, size, sent, idle } = *entry;
        let Some(key) = peer.parts.get(&part).map(|part| part.key) else { return };
        let new = NewFlow { to, size: size.map(|size| size.0), sent: sent.0, idle };
        if let Some(id) = self.hosted.open_flow(now, key, (port, flow), new) {
            peer.flows.insert(flow, OpenFlow { part, id });
        }
    }

    /// A flow is over after `more` bytes; from now on they belong to its part.
    fn close_flow(&mut self, now: Instant, port: PortId, flow: u32, more: u64) {
        let peer = self.peers.get_mut(port).expect(KNOWN);
        let Some(open) = peer.flows.remove(&flow) else { return };
        let Some(sent) = self.hosted.find(open.id, (port, flow)).map(|flow| flow.sent) else { return };
        if let Some(part) = peer.parts.get_mut(&open.part) {
            part.sent = part.sent.saturating_add(sent).saturating_add(more);
            self.hosted.adjust(now, part.key, i128::from(more));
        }
        self.hosted.close_flow(now, open.id);
    }

    fn leave_part(&mut self, now: Instant, port: PortId, number: u32, key: CoflowKey) {
        let peer = self.peers.get_mut(port).expect("parts belong to known peers");
        let of_part = peer.flows.iter().filter(|(_, open)| open.part == number);
        let flows: Vec<u32> = of_part.map(|(&flow, _)| flow).collect();
        flows.into_iter().for_each(|flow| self.close_flow(now, port, flow, 0));
        let peer = self.peers.get_mut(port).expect("parts belong to known peers");
        peer.parts.remove(&number);
        self.leave(now, port, number, key);
    }
}
