//! Rounds: gates for all flows, and the orders for each agent.
//!
//! A round over very many flows takes longer than a lease. What takes longest, the filling, is a
//! function of a list, so a driver may compute it elsewhere. Meanwhile reports are handled, agents
//! get signs of life, and flows that end are over; what has changed by then is for the next round.
//!
//! No orders take their agent's line for long (`room`): what is left over is for the next ones.

use cavalcade_model::{Instant, Nanos, PortId};
use cavalcade_protocol::{Gate, Keyed, Orders, PROTOCOL, Sealed};

use super::{Coordinator, not_before};
use crate::allocation::{Filled, Filling};
use crate::room::Room;
use crate::table::UNTOLD;

/// Items in one message of orders, at most: 1 MB. What is left over follows in the next one.
const PIECE: usize = 32_768;

/// The longest encodings of items of orders: of a refusal, of a coflow's priority and of an order
/// for a flow.
const REFUSAL: usize = 5;
const PRIORITY: usize = 18;
const ORDER: usize = 30;

/// Assumed stall of a round for each flow, until a round over about as many was measured: as on a
/// slow core.
const UNMEASURED: Nanos = Nanos(1_000);

/// The longest time for which orders hold because rounds take long.
const LONGEST_LEASE: Nanos = Nanos::from_secs(30);

impl Coordinator {
    /// Returns the least time between rounds.
    pub fn pause(&self) -> Nanos {
        Nanos(self.round_took.0.saturating_mul(2)).max(self.config.period)
    }

    /// Returns the longest time between two messages to an agent.
    pub fn beat(&self) -> Nanos {
        Nanos(self.config.lease.0 / 4)
    }

    /// Records that the last round took so long, of which the event loop was blocked for `stalled`.
    /// Where it is longer than the period, rounds are further apart: half of the time is for
    /// reports, or those of many agents would be answered one handful a round.
    pub fn round_took(&mut self, span: Nanos, stalled: Nanos) {
        (self.round_took, self.round_stalled) = (span, stalled);
        self.round_flows = self.hosted.flows();
    }

    /// Time that orders hold: as configured, or three times as long as a round over the flows that
    /// there are now stalls. So agents with very many flows keep to their orders, and notice the
    /// loss of a coordinator later. Orders that were sent before the first round over very many
    /// have to hold in it as well, so before that its time is taken to be long.
    pub(super) fn lease(&self) -> Nanos {
        let flows = self.hosted.flows();
        let growth = (flows + 1) as u128 * 3;
        let measured = u128::from(self.round_stalled.0) * growth / (self.round_flows + 1) as u128;
        let is_unmeasured = flows > 2 * self.round_flows;
        let rounds = if is_unmeasured { measured.max(u128::from(UNMEASURED.0) * growth) } else { measured };
        self.config.lease.max(Nanos(rounds.min(u128::from(LONGEST_LEASE.0)) as u64))
    }

    /// Returns the time at which the next round is due; `None` while nothing has changed.
    pub(super) fn round_at(&self) -> Option<Instant> {
        let needed = !self.is_filling && (self.hosted.is_dirty() || self.hosted.has_changed());
        needed.then(|| not_before(self.last_round, self.pause()))
    }

    /// Computes gates, or begins to, and finds the changes for each agent.
    pub(super) fn round(&mut self, now: Instant) {
        self.last_round = Some(now);
        self.counters.rounds += 1;
        self.hosted.announce_fresh(now);
        for key in self.hosted.take_changed() {
            for (&port, &number) in self.holders.get(&key).into_iter().flatten() {
                if let Some(peer) = self.peers.get_mut(port) {
                    peer.new_priorities.push(number);
                    self.touched.push(port);
                }
            }
        }
        self.list_touched();
        if !self.hosted.is_dirty() {
            return;
        }
        let (drains, owners, drained) = (&self.drains, &self.owners, &mut self.drained);
        let filling = self.hosted.list(|key, from| {
            let drain = drains.of_flow(from, || owners.of(key), key);
            drain.inspect(|&drain| _ = drained.entry(key).or_insert_with(|| drain.clone())).is_some()
        });
        if self.hosted.flows() < self.deferred_from {
            self.take_gates(now, filling.fill());
        } else {
            (self.filling, self.is_filling) = (Some(filling), true);
        }
    }

    /// Has rounds over so many flows or more filled by the driver: see
    /// [`Coordinator::poll_filling`].
    pub fn with_deferred_rounds(self, flows: usize) -> Self {
        Self { deferred_from: flows, ..self }
    }

    /// The filling of a round, to be computed while other work goes on, and to be given to
    /// [`Coordinator::handle_filled`]. No other round begins before that.
    pub fn poll_filling(&mut self) -> Option<Filling> {
        self.filling.take()
    }

    /// Takes over what the driver has computed.
    pub fn handle_filled(&mut self, now: Instant, filled: Filled) {
        self.is_filling = false;
        self.take_gates(now, filled);
    }

    fn take_gates(&mut self, now: Instant, filled: Filled) {
        self.decided.clear();
        self.hosted.decide(now, filled, |(port, flow), before, order| {
            let Some(peer) = self.peers.get_mut(port).filter(|_| before != order) else { return };
            let kind = match order.gate {
                Gate::Off {} => 0,
                Gate::Open {} => 1,
                Gate::Paced { .. } => 2,
            };
            self.counters.decisions[kind] += 1;
            self.decided.push((port, flow));
            peer.new_orders.push(flow);
            self.touched.push(port);
        });
        self.list_touched();
    }

    /// Lists the agents for which the round has changes.
    fn list_touched(&mut self) {
        for port in std::mem::take(&mut self.touched) {
            self.list(port);
        }
    }

    pub(super) fn write_orders(&mut self, now: Instant, port: PortId) {
        let (config, lease) = (self.config, self.lease());
        let owes_snapshot = self.peers.get(port).is_some_and(|peer| peer.owes_snapshot);
        let standing = if owes_snapshot { self.standing() } else { Sealed::default() };
        let Some(peer) = self.peers.get_mut(port) else { return };
        let hosted = &self.hosted;
        let snapshot = std::mem::take(&mut peer.owes_snapshot);
        if snapshot {
            peer.new_priorities = peer.parts.keys().copied().collect();
            peer.new_orders = peer.flows.keys().copied().collect();
        }
        // What is left over is news for the next orders.
        let mut room = Room::new(PIECE, peer.up, config.period);
        let refused = take_some(&mut peer.refused, &mut room, REFUSAL);
        let parts = take_some(&mut peer.new_priorities, &mut room, PRIORITY);
        let flows = take_some(&mut peer.new_orders, &mut room, ORDER);
        let refused = in_order(refused, |number| Some((number, ())));
        let priority = |number: u32| Some((number, hosted.priority(peer.parts.get(&number)?.key)));
        let order = |number: u32| {
            let told = hosted.find(peer.flows.get(&number)?.id, (port, number))?.told;
            // A snapshot omits what is at its default.
            Some((number, told)).filter(|_| !snapshot || told != UNTOLD)
        };
        let (priorities, flows) = (in_order(parts, priority), in_order(flows, order));
        peer.sent += 1;
        self.counters.orders += 1;
        self.highest_sent = self.highest_sent.max(peer.sent);
        peer.sent_at = Some(now);
        let orders = Orders {
            protocol: PROTOCOL,
            term: config.term,
            session: peer.session,
            sequence: peer.sent,
            snapshot,
            resync: peer.is_unknown,
            enforce: !config.shadow,
            confirm: config.confirm,
            switch: self.switch.filter(|_| snapshot),
            standing,
            lease,
            period: config.period,
            quiet: config.quiet,
            priorities,
            flows,
            refused,
        };
        self.outbox.push_back((port, orders));
        self.look_after(now);
    }
}

/// The first of some numbers, ascending, each once, as many as there is room for.
fn take_some(numbers: &mut Vec<u32>, room: &mut Room, bytes: usize) -> Vec<u32> {
    numbers.sort_unstable();
    numbers.dedup();
    let rest = numbers.split_off(numbers.len().min(room.for_items(bytes)));
    let some = std::mem::replace(numbers, rest);
    room.take(some.len(), bytes);
    some
}

/// Collects what `of` knows of each number of an ascending list.
fn in_order<T>(numbers: Vec<u32>, of: impl Fn(u32) -> Option<(u32, T)>) -> Keyed<T> {
    let mut items = Keyed::default();
    numbers.into_iter().filter_map(of).for_each(|(number, item)| items.push(number, item));
    items
}

#[cfg(test)]
mod tests {
    use cavalcade_model::{BitsPerSec, Bytes, Priority};
    use cavalcade_protocol::{FlowOrder, Message, Rank};

    use super::*;

    #[test]
    fn nothing_that_orders_say_is_longer_than_the_room_that_it_is_given() {
        let most = Priority::new(u16::MAX, u64::MAX);
        let order = FlowOrder {
            gate: Gate::Paced { rate: BitsPerSec(u64::MAX) },
            rank: Rank::Own { priority: most },
        };
        let orders = Orders {
            protocol: PROTOCOL,
            term: 0,
            session: 0,
            sequence: 0,
            snapshot: false,
            resync: false,
            enforce: true,
            confirm: false,
            switch: None,
            standing: Sealed::default(),
            lease: Nanos(0),
            period: Nanos(0),
            quiet: Bytes::ZERO,
            priorities: Keyed::default(),
            flows: Keyed::default(),
            refused: Keyed::default(),
        };
        let longest = |say: &dyn Fn(&mut Orders)| {
            let mut said = orders.clone();
            say(&mut said);
            said.to_bytes().len() - orders.to_bytes().len()
        };
        assert!(longest(&|orders| orders.refused.push(u32::MAX, ())) <= REFUSAL);
        assert!(longest(&|orders| orders.priorities.push(u32::MAX, most)) <= PRIORITY);
        assert!(longest(&|orders| orders.flows.push(u32::MAX, order)) <= ORDER);
    }
}
