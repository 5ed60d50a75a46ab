//! The latest value heard from each peer, and the largest of those not yet expired.
//!
//! Both sides of D-CAS keep such a table for a coflow: a receiver of what senders desire, a sender
//! of what receivers feed back; and both want its maximum, at every message and every tick. The
//! maximum is kept with the number of peers that hold it. Lowering the value of one of several
//! holders costs a search for the peer; only when the last holder lowers its value, or the oldest
//! value expires, is the table scanned.

use std::cmp::Reverse;

use cavalcade_model::{Instant, Nanos, PortId};

/// Last statement of one peer.
#[derive(Clone, Copy, Debug)]
struct Heard {
    peer: PortId,
    order: u64,
    at: Instant,
}

/// Latest values by peer.
#[derive(Debug, Default)]
pub(crate) struct Latest {
    /// Ascending by peer.
    heard: Vec<Heard>,
    /// The largest order, and how many peers said it; (0, 0) where nothing is known.
    top: u64,
    holders: u32,
    /// No value is older than this.
    oldest: Instant,
}

impl Latest {
    /// `peer` says `order`. Returns when it spoke last, if that is still remembered.
    pub(crate) fn put(&mut self, peer: PortId, order: u64, now: Instant) -> Option<Instant> {
        if self.heard.is_empty() {
            self.oldest = now;
        }
        let said = Heard { peer, order, at: now };
        let before = match self.heard.binary_search_by_key(&peer, |heard| heard.peer) {
            Ok(index) => Some(std::mem::replace(&mut self.heard[index], said)),
            Err(index) => {
                self.heard.insert(index, said);
                None
            }
        };
        let held = before.is_some_and(|before| before.order == self.top);
        if order > self.top || self.holders == 0 {
            (self.top, self.holders) = (order, 1);
        } else if order == self.top && !held {
            self.holders += 1;
        } else if order < self.top && held {
            self.holders -= 1;
            if self.holders == 0 {
                self.scan();
            }
        }
        before.map(|before| before.at)
    }

    /// Puts a value as [`Latest::put`] does; and where `peer` lowers the largest value, all others
    /// that said the same are lowered with it, none the younger for it.
    pub(crate) fn put_with_equals(&mut self, peer: PortId, order: u64, now: Instant) -> Option<Instant> {
        let index = self.heard.binary_search_by_key(&peer, |heard| heard.peer);
        if order < self.top && index.is_ok_and(|index| self.heard[index].order == self.top) {
            for heard in self.heard.iter_mut().filter(|heard| heard.order == self.top) {
                heard.order = order;
            }
            self.scan();
        }
        self.put(peer, order, now)
    }

    /// Returns the peers remembered, ascending.
    pub(crate) fn peers(&self) -> impl Iterator<Item = PortId> + '_ {
        self.heard.iter().map(|heard| heard.peer)
    }

    /// The largest value that is not older than `expiry`.
    pub(crate) fn max(&mut self, now: Instant, expiry: Nanos) -> Option<u64> {
        if !self.heard.is_empty() && now.since(self.oldest) > expiry {
            self.heard.retain(|heard| now.since(heard.at) <= expiry);
            self.oldest = self.heard.iter().map(|heard| heard.at).min().unwrap_or(now);
            self.scan();
        }
        (self.holders > 0).then_some(self.top)
    }

    /// Of the peers that said the largest value the one that spoke last; of several the first.
    pub(crate) fn holder(&self) -> Option<PortId> {
        let holders = self.heard.iter().filter(|heard| heard.order == self.top);
        holders.min_by_key(|heard| Reverse(heard.at)).map(|heard| heard.peer)
    }

    /// Returns the time at which `peer` spoke last.
    pub(crate) fn spoke(&self, peer: PortId) -> Option<Instant> {
        self.heard.binary_search_by_key(&peer, |heard| heard.peer).ok().map(|index| self.heard[index].at)
    }

    fn scan(&mut self) {
        self.top = self.heard.iter().map(|heard| heard.order).max().unwrap_or(0);
        self.holders = self.heard.iter().filter(|heard| heard.order == self.top).count() as u32;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    proptest! {
        #[test]
        fn the_kept_maximum_is_that_of_a_plain_table(
            steps in prop::collection::vec((0u32..5, 0u64..4, 0u64..30, any::<bool>()), 1..60),
        ) {
            let expiry = Nanos(50);
            let (mut latest, mut plain, mut now) = (Latest::default(), BTreeMap::new(), Instant::ZERO);
            for (peer, order, pause, look) in steps {
                now = now + Nanos(pause);
                latest.put(PortId(peer), order, now);
                plain.insert(peer, (order, now));
                if look {
                    plain.retain(|_, (_, at)| now.since(*at) <= expiry);
                    let want = plain.values().map(|(order, _)| *order).max();
                    prop_assert_eq!(latest.max(now, expiry), want);
                    let holder = latest.holder().unwrap();
                    prop_assert_eq!(Some(plain[&holder.0].0), want);
                }
            }
        }
    }
}
