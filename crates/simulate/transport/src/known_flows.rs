//! The flows that a port knows, each with its state, until it leaves or falls silent.
//!
//! A flow leaves with its last segment. One whose last segment was lost is forgotten after four
//! times as long as a packet of each flow and a round trip take, so what lost headers leave behind
//! costs bandwidth for no longer.
//!
//! Cost: a search in a tree for each packet; all flows are looked at when the silent are forgotten,
//! which is once in each interval of the virtual capacity.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use cavalcade_model::{BitsPerSec, Instant, Nanos};

/// Flows by their drivers' numbers.
#[derive(Clone, Debug)]
pub(crate) struct KnownFlows<V> {
    rate: BitsPerSec,
    base_rtt: Nanos,
    flows: BTreeMap<u32, Known<V>>,
}

#[derive(Clone, Debug)]
struct Known<V> {
    heard: Instant,
    value: V,
}

impl<V: Default> KnownFlows<V> {
    /// For a port with a link of `rate` in a network of `base_rtt`.
    pub(crate) fn new(rate: BitsPerSec, base_rtt: Nanos) -> Self {
        Self { rate, base_rtt, flows: BTreeMap::new() }
    }

    /// Number of entries.
    pub(crate) fn len(&self) -> usize {
        self.flows.len()
    }

    /// A packet of `flow` came. Returns whether it is new.
    pub(crate) fn hear(&mut self, flow: u32, now: Instant) -> bool {
        match self.flows.entry(flow) {
            Entry::Occupied(mut known) => {
                known.get_mut().heard = now;
                false
            }
            Entry::Vacant(place) => {
                place.insert(Known { heard: now, value: V::default() });
                true
            }
        }
    }

    /// Returns the entry of `flow`, if there is one.
    pub(crate) fn get_mut(&mut self, flow: u32) -> Option<&mut V> {
        self.flows.get_mut(&flow).map(|known| &mut known.value)
    }

    /// `flow` has left; what was known of it, if anything was.
    pub(crate) fn leave(&mut self, flow: u32) -> Option<V> {
        self.flows.remove(&flow).map(|known| known.value)
    }

    /// Returns the silence allowed to a flow: one maximal packet of every flow.
    pub(crate) fn patience(&self) -> Nanos {
        let one = u64::from(u16::MAX) * 8_000_000_000 / self.rate.get().max(1);
        let all = one.saturating_mul(self.flows.len() as u64);
        Nanos(self.base_rtt.get().saturating_add(all).saturating_mul(4))
    }

    /// Forgets the silent, and hands each to `gone`. Returns whether there were any.
    pub(crate) fn forget_the_silent(&mut self, now: Instant, mut gone: impl FnMut(&V)) -> bool {
        let patience = self.patience();
        let before = self.flows.len();
        self.flows.retain(|_, known| {
            let stays = now.since(known.heard) <= patience;
            if !stays {
                gone(&known.value);
            }
            stays
        });
        self.flows.len() != before
    }
}
