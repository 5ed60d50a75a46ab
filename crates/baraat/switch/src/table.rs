//! Which address is behind which port: learned from sources of frames, or said beforehand.
//!
//! The table is bounded, so that a flood of made-up sources cannot exhaust memory: the entries that
//! have been silent for longest make room, some at once, so that a flood does not look through the
//! table for each frame. What was learned behind a link is forgotten when that is cut. Entries that
//! were said stay. What is not in the table goes to all ports, as in any bridge.

use std::collections::BTreeMap;

use cavalcade_model::{Instant, Nanos};

use crate::packet::{Address, is_group};

/// The part of a full table that makes room at once.
const AT_ONCE: usize = 64;
/// An address that has been silent for this long is forgotten (IEEE 802.1D's ageing time).
pub const AGEING: Nanos = Nanos(300_000_000_000);

#[derive(Clone, Copy, Debug)]
struct Place {
    port: usize,
    /// Time at which it was last heard; `None` for what was said.
    heard: Option<Instant>,
}

/// The table.
#[derive(Clone, Debug)]
pub struct Table {
    places: BTreeMap<Address, Place>,
    most: usize,
}

impl Table {
    /// Makes a table of at most so many learned addresses.
    pub fn new(most: usize) -> Self {
        Self { places: BTreeMap::new(), most: most.max(1) }
    }

    /// Puts an address behind a port for good.
    pub fn fix(&mut self, address: Address, port: usize) {
        self.places.insert(address, Place { port, heard: None });
    }

    /// Learns that a frame from `source` came in by `port`.
    pub fn learn(&mut self, now: Instant, source: Address, port: usize) {
        if is_group(source) {
            return;
        }
        if let Some(place) = self.places.get_mut(&source) {
            if place.heard.is_some() {
                *place = Place { port, heard: Some(now) };
            }
            return;
        }
        if self.places.len() >= self.most {
            self.make_room();
        }
        if self.places.len() < self.most {
            self.places.insert(source, Place { port, heard: Some(now) });
        }
    }

    fn make_room(&mut self) {
        let learned = self.places.iter().filter_map(|(&address, place)| Some((place.heard?, address)));
        let mut learned: Vec<(Instant, Address)> = learned.collect();
        let leave = (self.most / AT_ONCE).max(1).min(learned.len());
        if leave < learned.len() {
            learned.select_nth_unstable(leave);
        }
        learned[..leave].iter().for_each(|(_, address)| _ = self.places.remove(address));
    }

    /// Forgets what was learned behind a port, as when its link is cut: who was there may be
    /// elsewhere now.
    pub fn forget(&mut self, port: usize) {
        self.places.retain(|_, place| place.port != port || place.heard.is_none());
    }

    /// Forgets all that was learned.
    pub fn forget_learned(&mut self) {
        self.places.retain(|_, place| place.heard.is_none());
    }

    /// Finds the port of an address.
    pub fn port_of(&self, now: Instant, address: Address) -> Option<usize> {
        let place = self.places.get(&address)?;
        let fresh = place.heard.is_none_or(|heard| now.since(heard) < AGEING);
        fresh.then_some(place.port)
    }

    /// Returns the number of addresses.
    pub fn len(&self) -> usize {
        self.places.len()
    }

    /// Returns whether there are none.
    pub fn is_empty(&self) -> bool {
        self.places.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(number: u32) -> Address {
        let [a, b, c, d] = number.to_be_bytes();
        [2, 0, a, b, c, d]
    }

    #[test]
    fn the_entry_that_was_silent_for_longest_makes_room_and_fixed_ones_stay() {
        let mut table = Table::new(4);
        table.fix(address(0), 9);
        for number in 1..=3 {
            table.learn(Instant(u64::from(number)), address(number), 1);
        }
        table.learn(Instant(10), address(1), 2);
        table.learn(Instant(11), address(4), 3);
        let ports: Vec<_> = (0..=4).map(|number| table.port_of(Instant(12), address(number))).collect();
        assert_eq!(ports, [Some(9), Some(2), None, Some(1), Some(3)]);
        for number in 0..100_000 {
            table.learn(Instant(20), address(number), 5);
        }
        assert_eq!((table.len(), table.port_of(Instant(20), address(0))), (4, Some(9)));
    }

    #[test]
    fn a_flood_of_sources_takes_the_places_of_the_silent_and_not_of_those_who_speak() {
        let mut table = Table::new(1_000);
        for number in 0..20_000 {
            table.learn(Instant(u64::from(number)), address(number), 1);
            table.learn(Instant(u64::from(number)), [2, 1, 0, 0, 0, 0], 2);
        }
        assert_eq!(table.port_of(Instant(20_000), [2, 1, 0, 0, 0, 0]), Some(2));
        assert_eq!(table.port_of(Instant(20_000), address(19_999 - 900)), Some(1));
        assert_eq!(table.port_of(Instant(20_000), address(19_999 - 1_000)), None);
        assert!((984..=1_000).contains(&table.len()), "{}", table.len());
    }

    #[test]
    fn an_address_is_forgotten_after_its_time_and_groups_are_never_learned() {
        let mut table = Table::new(4);
        table.learn(Instant(0), address(1), 1);
        assert_eq!(table.port_of(Instant(AGEING.get() - 1), address(1)), Some(1));
        assert_eq!(table.port_of(Instant(AGEING.get()), address(1)), None);
        table.learn(Instant(0), [0xff; 6], 1);
        assert_eq!(table.port_of(Instant(0), [0xff; 6]), None);
    }

    #[test]
    fn what_was_learned_behind_a_link_that_is_cut_is_forgotten_and_what_was_said_stays() {
        let mut table = Table::new(4);
        table.fix(address(0), 1);
        table.learn(Instant(0), address(1), 1);
        table.learn(Instant(0), address(2), 2);
        table.forget(1);
        let ports: Vec<_> = (0..=2).map(|number| table.port_of(Instant(0), address(number))).collect();
        assert_eq!(ports, [Some(1), None, Some(2)]);
        table.forget_learned();
        let ports: Vec<_> = (0..=2).map(|number| table.port_of(Instant(0), address(number))).collect();
        assert_eq!(ports, [Some(1), None, None]);
    }
}
