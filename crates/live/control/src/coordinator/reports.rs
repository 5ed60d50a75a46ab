//! Handles the items of reports.

use std::collections::btree_map::Entry;
use std::ops::Bound;

use cavalcade_model::{Bytes, Instant, PortId};
use cavalcade_protocol::{CoflowKey, FlowEntry, Report};

use super::Coordinator;
use super::peers::{Claim, OpenFlow, Part};
use crate::agent::CLASSES;
use crate::hosted::NewFlow;

/// Claims that are looked at again when a report comes.
const OVERDRAWN_AT_ONCE: usize = 64;

const KNOWN: &str = "a report is taken in from a known peer";

impl Coordinator {
    /// Forgets an agent with all that it reported: if it returns, it reports all again.
    pub(super) fn forget(&mut self, now: Instant, port: PortId) {
        let Some(peer) = self.peers.remove(port) else { return };
        let attained = |key: CoflowKey| self.hosted.coflow(key).map_or(0, |coflow| coflow.attained);
        let before: Vec<u64> = peer.parts.values().map(|part| attained(part.key)).collect();
        for (&flow, open) in &peer.flows {
            let Some(sent) = self.hosted.find(open.id, (port, flow)).map(|flow| flow.sent) else { continue };
            self.hosted.close_flow(now, open.id);
            let part = &peer.parts[&open.part];
            if !part.needs_confirmation {
                self.hosted.adjust(now, part.key, -i128::from(sent));
            }
        }
        self.confirmations.forget(port);
        for ((&number, part), before) in peer.parts.iter().zip(before) {
            let counted = if part.needs_confirmation { part.counted } else { part.sent };
            self.hosted.adjust(now, part.key, -i128::from(counted));
            self.leave(now, port, number, part.key, Some(before));
        }
    }

    /// An agent has no part of a coflow any more, perhaps because it is lost. The last one takes
    /// the coflow with it. Where it is, the bytes are given that the coflow had before.
    fn leave(&mut self, now: Instant, port: PortId, number: u32, key: CoflowKey, lost: Option<u64>) {
        let Some(holders) = self.holders.get_mut(&key) else { return };
        // The agent may have a new part of it by now.
        if holders.get(&port) == Some(&number) {
            holders.remove(&port);
        }
        if holders.is_empty() {
            self.note_end(now, port, key, lost);
            self.holders.remove(&key);
            self.owners.forget(key);
            self.remember(now, key);
            self.hosted.close_coflow(now, key);
        }
    }

    /// A snapshot replaces all before it: what it does not name is over.
    pub(super) fn take_snapshot(&mut self, now: Instant, report: &Report) {
        let port = report.port;
        let peer = self.peers.get_mut(port).expect(KNOWN);
        peer.is_unknown = false;
        let known: Vec<(u32, CoflowKey)> =
            peer.parts.iter().map(|(&number, part)| (number, part.key)).collect();
        let is_over = |flow: &u32| report.flows.get(*flow).is_none();
        let over: Vec<u32> = peer.flows.keys().copied().filter(is_over).collect();
        over.into_iter().for_each(|flow| self.close_flow(now, port, flow, 0));
        self.take_changes(now, report);
        for (number, key) in known {
            if report.coflows.get(number).is_none() {
                self.leave_part(now, port, number, key);
            }
        }
    }

    pub(super) fn take_changes(&mut self, now: Instant, report: &Report) {
        let port = report.port;
        let most = self.config.agent_limit as usize;
        self.count_excess(now, port);
        for (number, entry) in report.coflows.iter() {
            self.leave_former(now, port, number, entry.key);
            let peer = self.peers.get(port).expect(KNOWN);
            if peer.parts.len() >= most && !peer.parts.contains_key(&number) {
                self.counters.over_limit += 1;
                continue;
            }
            if !self.admits(now, port, entry) {
                // An attacker may have said before that its part is the owner's.
                self.leave_refused(now, port, number, entry.key);
                let peer = self.peers.get_mut(port).expect(KNOWN);
                peer.refused.push(number);
                continue;
            }
            self.hosted.open_coflow(now, entry.key, entry.facts);
            self.holders.entry(entry.key).or_default().insert(port, number);
            let needs_confirmation = self.needs_confirmation(port, entry.key);
            let peer = self.peers.get_mut(port).expect(KNOWN);
            if let Entry::Vacant(place) = peer.parts.entry(number) {
                place.insert(Part::new(entry.key, entry.owner, needs_confirmation));
                peer.new_priorities.push(number);
            }
            // A client that is back reports of an open flow again what was a closed one's: it must
            // not count to both.
            if peer.parts.get(&number).is_some_and(|part| part.sent > entry.sent.0) {
                self.set_sent(now, port, number, entry.sent.0);
            }
        }
        self.take_grants(report);
        for (flow, entry) in report.flows.iter() {
            self.open_flow(now, port, flow, entry);
        }
        for (flow, progress) in report.progress.iter() {
            let Some((open, sent)) = self.find(port, flow, progress.sent) else { continue };
            let claimed = progress.sent.0.saturating_add(open.excess);
            let more = self.allow(now, port, open.part, claimed);
            self.set_excess(port, flow, claimed - more);
            self.hosted.progress(now, open.id, sent.saturating_add(more), progress.idle);
            self.count_part(now, port, open.part);
        }
        for (flow, more) in report.closed.iter() {
            self.find(port, flow, *more);
            self.close_flow(now, port, flow, more.0);
        }
        for (number, entry) in report.coflows.iter() {
            let allowance = self.allowance(now, port, entry.key);
            let peer = self.peers.get_mut(port).expect(KNOWN);
            let Some(part) = peer.parts.get_mut(&number) else { continue };
            let sent = entry.sent.0.min(allowance.saturating_sub(part.open));
            self.counters.excessive_bytes += u64::from(sent < entry.sent.0);
            self.set_sent(now, port, number, sent);
            self.set_part_excess(port, number, |_| entry.sent.0 - sent);
        }
        for (number, ()) in report.left.iter() {
            let part = self.peers.get(port).and_then(|peer| peer.parts.get(&number));
            if let Some(key) = part.map(|part| part.key) {
                self.leave_part(now, port, number, key);
            }
        }
    }

    /// A number of an agent means `key` from now on: what it meant before is over there, with its
    /// flows.
    fn leave_former(&mut self, now: Instant, port: PortId, number: u32, key: CoflowKey) {
        let part = self.peers.get(port).and_then(|peer| peer.parts.get(&number));
        if let Some(former) = part.map(|part| part.key).filter(|former| *former != key) {
            self.leave_part(now, port, number, former);
        }
    }

    /// What was accepted before of a part that is refused now is over, with its flows.
    fn leave_refused(&mut self, now: Instant, port: PortId, number: u32, key: CoflowKey) {
        if self.peers.get(port).is_some_and(|peer| peer.parts.contains_key(&number)) {
            self.leave_part(now, port, number, key);
        }
    }

    /// The flows of a part that are over have sent so many bytes.
    fn set_sent(&mut self, now: Instant, port: PortId, number: u32, sent: u64) {
        let peer = self.peers.get_mut(port).expect(KNOWN);
        let Some(part) = peer.parts.get_mut(&number) else { return };
        let before = std::mem::replace(&mut part.sent, sent);
        if part.needs_confirmation {
            return self.count_part(now, port, number);
        }
        let key = part.key;
        self.hosted.adjust(now, key, i128::from(sent) - i128::from(before));
    }

    /// Counts reported bytes beyond those that count, as far as the line can have carried them by
    /// now: some claims at each report, because a compromised agent may have as many of them as it
    /// likes.
    fn count_excess(&mut self, now: Instant, port: PortId) {
        let peer = self.peers.get_mut(port).expect(KNOWN);
        let after = peer.last_overdrawn.map_or(Bound::Unbounded, Bound::Excluded);
        let due: Vec<Claim> =
            peer.overdrawn.range((after, Bound::Unbounded)).take(OVERDRAWN_AT_ONCE).copied().collect();
        let is_all = due.len() < OVERDRAWN_AT_ONCE;
        peer.last_overdrawn = due.last().copied().filter(|_| !is_all);
        for claim in due {
            match claim {
                Claim::Part(part) => self.count_part_excess(now, port, part),
                Claim::Flow(flow) => self.count_flow_excess(now, port, flow),
            }
        }
    }

    fn count_part_excess(&mut self, now: Instant, port: PortId, number: u32) {
        let Some(part) = self.peers.get(port).and_then(|peer| peer.parts.get(&number)) else { return };
        let more = part.excess.min(self.room(now, port, part));
        self.set_sent(now, port, number, part.sent + more);
        self.set_part_excess(port, number, |excess| excess - more);
    }

    fn count_flow_excess(&mut self, now: Instant, port: PortId, flow: u32) {
        let Some(peer) = self.peers.get(port) else { return };
        let Some(open) = peer.flows.get(&flow).copied() else { return };
        let (Some(part), Some(record)) =
            (peer.parts.get(&open.part), self.hosted.find(open.id, (port, flow)))
        else {
            return;
        };
        let (sent, idle) = (record.sent, record.idle);
        let more = open.excess.min(self.room(now, port, part));
        if more > 0 {
            self.add_open(port, open.part, more);
            self.set_excess(port, flow, open.excess - more);
            self.hosted.progress(now, open.id, sent.saturating_add(more), idle);
            self.count_part(now, port, open.part);
        }
    }

    /// Changes the reported bytes of a part's ended flows beyond those that count.
    fn set_part_excess(&mut self, port: PortId, number: u32, change: impl FnOnce(u64) -> u64) {
        let peer = self.peers.get_mut(port).expect(KNOWN);
        let excess = peer.parts.get_mut(&number).map_or(0, |part| {
            part.excess = change(part.excess);
            part.excess
        });
        peer.set_overdrawn(Claim::Part(number), excess > 0);
    }

    /// Bytes that the line can have carried of a part beyond those that count.
    fn room(&self, now: Instant, port: PortId, part: &Part) -> u64 {
        self.allowance(now, port, part.key).saturating_sub(part.sent.saturating_add(part.open))
    }

    /// Counts `more` bytes to the open flows of a part, as far as the line can have carried them;
    /// returns how many.
    fn allow(&mut self, now: Instant, port: PortId, number: u32, more: u64) -> u64 {
        let Some(part) = self.peers.get(port).and_then(|peer| peer.parts.get(&number)) else { return 0 };
        let allowed = more.min(self.room(now, port, part));
        self.add_open(port, number, allowed);
        self.counters.excessive_bytes += u64::from(allowed < more);
        allowed
    }

    /// Adds bytes to those of the open flows of a part.
    fn add_open(&mut self, port: PortId, number: u32, more: u64) {
        if let Some(part) = self.peers.get_mut(port).and_then(|peer| peer.parts.get_mut(&number)) {
            part.open = part.open.saturating_add(more);
        }
    }

    /// Records the reported bytes of a flow beyond those that count.
    fn set_excess(&mut self, port: PortId, flow: u32, excess: u64) {
        let peer = self.peers.get_mut(port).expect(KNOWN);
        peer.flows.get_mut(&flow).expect("it was just looked up").excess = excess;
        peer.set_overdrawn(Claim::Flow(flow), excess > 0);
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
            if let Some(before) = self.hosted.find(open.id, (port, flow)).map(|flow| flow.sent) {
                if let Some(part) = peer.parts.get_mut(&open.part) {
                    part.open = part.open.saturating_sub(before);
                }
                let sent = self.allow(now, port, open.part, entry.sent.0);
                self.set_excess(port, flow, entry.sent.0 - sent);
                self.hosted.progress(now, open.id, sent, entry.idle);
                self.count_part(now, port, open.part);
            }
            return;
        }
        if peer.flows.len() >= self.config.agent_limit as usize {
            self.counters.over_limit += 1;
            return;
        }
        let FlowEntry { coflow: part, to, size, sent, idle } = *entry;
        let Some((key, user, needs_confirmation)) =
            peer.parts.get(&part).map(|part| (part.key, part.user, part.needs_confirmation))
        else {
            return;
        };
        let claimed = sent.0;
        let sent = self.allow(now, port, part, claimed);
        let size = size.map(|size| size.0);
        let new = NewFlow { to, user, size, sent, idle, counts: !needs_confirmation };
        let id = self.hosted.open_flow(now, key, (port, flow), new);
        let peer = self.peers.get_mut(port).expect(KNOWN);
        let record = peer.parts.get_mut(&part).expect("it was just looked up");
        match id {
            Some(id) => {
                record.flows.insert(flow);
                let excess = claimed - sent;
                peer.flows.insert(flow, OpenFlow { part, id, excess });
                peer.set_overdrawn(Claim::Flow(flow), excess > 0);
            }
            None => record.open = record.open.saturating_sub(sent),
        }
        self.count_part(now, port, part);
    }

    /// A flow is over after `more` bytes; from now on they belong to its part.
    fn close_flow(&mut self, now: Instant, port: PortId, flow: u32, more: u64) {
        let peer = self.peers.get_mut(port).expect(KNOWN);
        let Some(open) = peer.flows.remove(&flow) else { return };
        peer.set_overdrawn(Claim::Flow(flow), false);
        let Some(sent) = self.hosted.find(open.id, (port, flow)).map(|flow| flow.sent) else { return };
        let claimed = more.saturating_add(open.excess);
        let more = self.allow(now, port, open.part, claimed);
        let peer = self.peers.get_mut(port).expect(KNOWN);
        if let Some(part) = peer.parts.get_mut(&open.part) {
            part.flows.remove(&flow);
            part.open = part.open.saturating_sub(sent.saturating_add(more));
            part.sent = part.sent.saturating_add(sent).saturating_add(more);
            if !part.needs_confirmation {
                self.hosted.adjust(now, part.key, i128::from(more));
            }
        }
        if claimed > more {
            self.set_part_excess(port, open.part, |excess| excess.saturating_add(claimed - more));
        }
        self.count_part(now, port, open.part);
        if more > 0 {
            self.hosted.note_moved(open.id);
        }
        self.hosted.close_flow(now, open.id);
    }

    /// Ends a part with its flows. Returns how many of its bytes counted in the end: what its flows
    /// free may count at once.
    pub(super) fn leave_part(&mut self, now: Instant, port: PortId, number: u32, key: CoflowKey) -> u64 {
        let peer = self.peers.get_mut(port).expect("parts belong to known peers");
        let flows = peer.parts.get(&number).map(|part| part.flows.clone()).unwrap_or_default();
        flows.into_iter().for_each(|flow| self.close_flow(now, port, flow, 0));
        let peer = self.peers.get_mut(port).expect("parts belong to known peers");
        peer.unconfirmed.remove(&number);
        peer.set_overdrawn(Claim::Part(number), false);
        let counted = peer.parts.remove(&number).map_or(0, |over| over.counted);
        self.confirmations.end(port, counted);
        self.leave(now, port, number, key, None);
        counted
    }
}
