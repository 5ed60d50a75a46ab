//! Indices of timers and of waiting flows, so that no event walks over all flows.
//!
//! Every index follows from the fields of flows and parts; [`Agent::place`] and
//! [`Agent::place_part`] bring it up to date for one of them and cost O(log n). They are called
//! wherever such a field changes.
//!
//! | index | holds | by |
//! |---|---|---|
//! | `waiting` | flows that are off and have something to send | receiver, then priority |
//! | `stalls` | flows that may send | when to look whether they have moved |
//! | `promotions` | flows that go on in the place of others | until when |
//! | `empty` | coflows in which no client takes part | when they are forgotten |
//!
//! A flow that moves stays in its place in `stalls` until its time comes, and gets a later one
//! then: bytes cost nothing here.

use std::collections::BTreeSet;

use cavalcade_model::{Instant, Nanos, PortId, Priority};
use cavalcade_protocol::{CoflowKey, Gate};

use super::{Agent, Mode};
use crate::patience::stall_at;

/// The place of a flow among those that wait for a receiver.
pub(super) type Place = (PortId, Priority, CoflowKey, u32);

/// The indices.
#[derive(Debug, Default)]
pub(super) struct Queues {
    waiting: BTreeSet<Place>,
    stalls: BTreeSet<(Instant, u32)>,
    promotions: BTreeSet<(Instant, u32)>,
    empty: BTreeSet<(Instant, u32)>,
}

impl Queues {
    /// The first flow that waits for `to`.
    pub(super) fn first_for(&self, to: PortId) -> Option<u32> {
        let lowest = (to, Priority::default(), CoflowKey { task: 0, stage: 0, serial: 0 }, 0);
        self.waiting.range(lowest..).next().filter(|place| place.0 == to).map(|place| place.3)
    }

    /// The time at which the first of them all is due.
    pub(super) fn next_due(&self) -> Option<Instant> {
        let firsts = [&self.stalls, &self.promotions, &self.empty].map(BTreeSet::first);
        firsts.into_iter().flatten().map(|&(when, _)| when).min()
    }

    /// Notes until when a flow goes on in the place of another.
    pub(super) fn note_promotion(&mut self, until: Instant, flow: u32) {
        self.promotions.insert((until, flow));
    }
}

/// Takes out the first entry if it is due.
fn pop_due(queue: &mut BTreeSet<(Instant, u32)>, now: Instant) -> Option<u32> {
    let due = queue.first().is_some_and(|(due, _)| *due <= now);
    if due { queue.pop_first().map(|(_, number)| number) } else { None }
}

impl Agent {
    /// Puts a flow where it belongs; one that is over nowhere.
    pub(super) fn place(&mut self, number: u32) {
        let Some(flow) = self.flows.get(&number) else { return };
        let is_off = flow.ordered.is_some_and(|order| order.gate == Gate::Off {});
        let waits = is_off && !flow.rests() && flow.promoted.is_none();
        let place = (waits && matches!(self.mode, Mode::Coordinated))
            .then(|| (flow.to, self.priority(flow), self.parts[&flow.part].key, number));
        let may_move = flow.told().gate != (Gate::Off {}) && !flow.is_idle;
        let flow = self.flows.get_mut(&number).expect("it was just looked up");
        if !may_move {
            flow.moved_at = None;
        }
        let is_watched = may_move && !flow.is_stalled;
        let watched = is_watched.then(|| flow.watched.unwrap_or(Instant::ZERO));
        let (queues, former_place) = (&mut self.queues, std::mem::replace(&mut flow.place, place));
        let former_watch = std::mem::replace(&mut flow.watched, watched);
        if former_place != place {
            former_place.iter().for_each(|place| _ = queues.waiting.remove(place));
            queues.waiting.extend(place);
        }
        if former_watch != watched {
            former_watch.iter().for_each(|&when| _ = queues.stalls.remove(&(when, number)));
            queues.stalls.extend(watched.map(|when| (when, number)));
        }
    }

    /// Takes a flow that is over out of all places.
    pub(super) fn displace(&mut self, number: u32, flow: &super::Flow) {
        flow.place.iter().for_each(|place| _ = self.queues.waiting.remove(place));
        flow.watched.iter().for_each(|&when| _ = self.queues.stalls.remove(&(when, number)));
    }

    /// Puts a coflow where it belongs.
    pub(super) fn place_part(&mut self, number: u32) {
        let Some(part) = self.parts.get_mut(&number) else { return };
        // Also what is over is kept for a while: a client that was cut off from a hanging agent
        // comes back and says again what it has sent, which must not count twice.
        let linger = self.config.linger;
        let brief = Nanos(4 * self.config.client_lease.0).min(linger);
        let linger = if part.is_over { brief } else { linger };
        let expires = part.empty_since.and_then(|since| since.checked_add(linger));
        let former = std::mem::replace(&mut part.expires, expires);
        if former != expires {
            former.iter().for_each(|&when| _ = self.queues.empty.remove(&(when, number)));
            self.queues.empty.extend(expires.map(|when| (when, number)));
        }
    }

    /// Finds flows that have stalled, and forgets coflows without participants.
    pub(super) fn look_over(&mut self, now: Instant) {
        self.looked_at = Some(now);
        let mut again = Vec::new();
        while let Some(number) = pop_due(&mut self.queues.stalls, now) {
            let Some(flow) = self.flows.get_mut(&number) else { continue };
            // Its time begins when it is first seen to be able to move.
            let moved_at = *flow.moved_at.get_or_insert(now);
            let stall = stall_at(flow.told().gate, self.config.stall);
            let due = moved_at.checked_add(stall).unwrap_or(now);
            flow.is_stalled = due <= now;
            flow.watched = (!flow.is_stalled).then_some(due);
            if flow.is_stalled {
                again.push(number);
            } else {
                self.queues.stalls.insert((due, number));
            }
        }
        again.sort_unstable();
        again.into_iter().for_each(|number| self.fares(now, number));
        while let Some(number) = pop_due(&mut self.queues.empty, now) {
            self.forget_part(now, number);
        }
        self.end_promotions(now);
    }

    fn end_promotions(&mut self, now: Instant) {
        let mut over = Vec::new();
        while let Some(number) = pop_due(&mut self.queues.promotions, now) {
            // It may have been promoted again since, or ordered to go on.
            let flow = self.flows.get_mut(&number);
            if let Some(flow) = flow.filter(|flow| flow.promoted.is_some_and(|(until, _)| until <= now)) {
                flow.promoted = None;
                over.push(number);
            }
        }
        over.sort_unstable();
        over.into_iter().for_each(|number| self.direct(number));
    }
}
