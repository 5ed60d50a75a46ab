//! The latest value received from each peer, and the largest of those not yet expired.
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
struct Report {
    peer: PortId,
    order: u64,
    at: Instant,
}

/// Latest values by peer.
#[derive(Debug, Default)]
pub(crate) struct Latest {
    /// Ascending by peer.
    reports: Vec<Report>,
    /// The largest order, and how many peers report it; (0, 0) where nothing is known.
    top: u64,
    holders: u32,
    /// No value is older than this.
    oldest: Instant,
}

impl Latest {
    /// `peer` says `order`. Returns when it spoke last, if that is still remembered.
    pub(crate) fn put(&mut self, peer: PortId, order: u64, now: Instant) -> Option<Instant> {
        if self.reports.is_empty() {
            self.oldest = now;
        }
        let report = Report { peer, order, at: now };
        let before = match self.reports.binary_search_by_key(&peer, |report| report.peer) {
            Ok(index) => Some(std::mem::replace(&mut self.reports[index], report)),
            Err(index) => {
                self.reports.insert(index, report);
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
    /// that report the same are lowered with it, none the younger for it.
    pub(crate) fn put_with_equals(&mut self, peer: PortId, order: u64, now: Instant) -> Option<Instant> {
        let index = self.reports.binary_search_by_key(&peer, |report| report.peer);
        if order < self.top && index.is_ok_and(|index| self.reports[index].order == self.top) {
            for report in self.reports.iter_mut().filter(|report| report.order == self.top) {
                report.order = order;
            }
            self.scan();
        }
        self.put(peer, order, now)
    }

    /// Returns the peers remembered, ascending.
    pub(crate) fn peers(&self) -> impl Iterator<Item = PortId> + '_ {
        self.reports.iter().map(|report| report.peer)
    }

    /// The largest value that is not older than `expiry`.
    pub(crate) fn max(&mut self, now: Instant, expiry: Nanos) -> Option<u64> {
        if !self.reports.is_empty() && now.since(self.oldest) > expiry {
            self.reports.retain(|report| now.since(report.at) <= expiry);
            self.oldest = self.reports.iter().map(|report| report.at).min().unwrap_or(now);
            self.scan();
        }
        (self.holders > 0).then_some(self.top)
    }

    /// Of the peers that report the largest value the one that spoke last; of several the first.
    pub(crate) fn holder(&self) -> Option<PortId> {
        let holders = self.reports.iter().filter(|report| report.order == self.top);
        holders.min_by_key(|report| Reverse(report.at)).map(|report| report.peer)
    }

    /// Returns the time at which `peer` spoke last.
    pub(crate) fn spoke(&self, peer: PortId) -> Option<Instant> {
        self.reports
            .binary_search_by_key(&peer, |report| report.peer)
            .ok()
            .map(|index| self.reports[index].at)
    }

    fn scan(&mut self) {
        self.top = self.reports.iter().map(|report| report.order).max().unwrap_or(0);
        self.holders = self.reports.iter().filter(|report| report.order == self.top).count() as u32;
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
