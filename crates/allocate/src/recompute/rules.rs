//! The rules of filling.

use std::collections::{BTreeMap, BTreeSet};

use super::{DirectFill, Sharing};
use crate::fill::{Key, Shares};
use crate::incremental::switch::max_min::group::NEGLIGIBLE;
use crate::incremental::switch::shortest::{Rank, STEP};
use crate::reference::strict::Setup;

impl DirectFill {
    /// Finds the rate of every active flow.
    pub(super) fn apply_rule(&mut self, now: f64) {
        let mut left = self.capacity.clone();
        match self.sharing.clone() {
            Sharing::Greedy => {
                let order = self.fullest_first(|flow| self.left_at(flow, now));
                self.take_all(&order, &mut left);
            }
            Sharing::InTurn => {
                let order = self.fullest_first(|_| 1.0);
                self.take_all(&order, &mut left);
            }
            Sharing::ShortestFirst => {
                let order = self.shortest_first(now);
                self.take_all(&order, &mut left);
                self.find_overtaking(&order, now);
            }
            Sharing::Madd => self.madd(&mut left, now),
            Sharing::MaxMin(Shares::Strict) => {
                let flows = self.active.clone();
                self.strict(&flows, &mut left);
            }
            Sharing::MaxMin(Shares::Weighted { weights, to_highest }) => self.weighted(&weights, to_highest),
        }
    }

    /// Bytes that the flows of an account have left, by link.
    pub(super) fn bytes_of(&self, account: u32, now: f64) -> BTreeMap<u32, f64> {
        self.loads_of(account, &|flow| self.left_at(flow, now))
    }

    /// What the flows of an account weigh, by link.
    fn loads_of(&self, account: u32, weight: &dyn Fn(u32) -> f64) -> BTreeMap<u32, f64> {
        let mut loads = BTreeMap::new();
        for &flow in &self.accounts[account as usize].flows {
            for &link in self.path(flow) {
                *loads.entry(link).or_insert(0.0) += weight(flow);
            }
        }
        loads
    }

    fn key(&self, flow: u32) -> Key {
        self.extra[flow as usize].key
    }

    /// The accounts of active flows, in order of number.
    fn accounts_with_flows(&self) -> BTreeSet<u32> {
        self.active.iter().map(|&flow| self.extra[flow as usize].account).collect()
    }

    /// By key, then flows on the fullest link of their account first, then by number.
    fn fullest_first(&self, weight: impl Fn(u32) -> f64) -> Vec<u32> {
        let mut order: Vec<(Key, f64, u32)> = Vec::with_capacity(self.active.len());
        for account in self.accounts_with_flows() {
            let loads = self.loads_of(account, &weight);
            order.extend(self.accounts[account as usize].flows.iter().map(|&flow| {
                let fullest = self.path(flow).iter().map(|link| loads[link]).fold(0.0, f64::max);
                (self.key(flow), fullest, flow)
            }));
        }
        order.sort_by(|a, b| a.0.cmp(&b.0).then(b.1.total_cmp(&a.1)).then(a.2.cmp(&b.2)));
        order.into_iter().map(|(_, _, flow)| flow).collect()
    }

    fn shortest_first(&self, now: f64) -> Vec<u32> {
        let rank = |&flow: &u32| Rank::new(self.key(flow), self.left_at(flow, now), flow);
        let mut ranks: Vec<Rank> = self.active.iter().map(rank).collect();
        ranks.sort_unstable();
        ranks.into_iter().map(Rank::flow).collect()
    }

    /// When the first flow draws level with the one before it: the order cannot change before.
    fn find_overtaking(&mut self, order: &[u32], now: f64) {
        self.overtaking = f64::INFINITY;
        for pair in order.windows(2) {
            let [ahead, behind] = [pair[0], pair[1]];
            let closing = self.rates[behind as usize] - self.rates[ahead as usize];
            if closing <= 0.0 || self.key(ahead) != self.key(behind) {
                continue;
            }
            let apart = self.left_at(behind, now) - self.left_at(ahead, now);
            // Once level they go by number; a step further on nothing is left to decide.
            let apart = if apart > STEP { apart } else { apart.max(0.0) + STEP };
            self.overtaking = self.overtaking.min(now + apart / closing);
        }
    }

    fn madd(&mut self, left: &mut [f64], now: f64) {
        let order: BTreeSet<(Key, u32)> = self
            .accounts_with_flows()
            .into_iter()
            .map(|account| (self.accounts[account as usize].key, account))
            .collect();
        for &(_, account) in &order {
            let mut longest: f64 = 0.0;
            for (link, bytes) in self.bytes_of(account, now) {
                let open = left[link as usize] > NEGLIGIBLE * self.capacity[link as usize];
                longest = longest.max(if open { bytes / left[link as usize] } else { f64::INFINITY });
            }
            for &flow in &self.accounts[account as usize].flows {
                let rate = (self.left_at(flow, now) / longest).min(self.service.flows[flow as usize].cap);
                self.rates[flow as usize] = rate;
                for &link in self.path(flow) {
                    left[link as usize] = (left[link as usize] - rate).max(0.0);
                }
            }
        }
        let rest: Vec<u32> =
            order.iter().flat_map(|&(_, account)| self.accounts[account as usize].flows.clone()).collect();
        self.take_all(&rest, left);
    }

    /// Key after key, max-min inside, on what is left. Sets the rates of these flows, whatever they were.
    fn strict(&mut self, flows: &[u32], left: &mut [f64]) {
        let mut order: Vec<(Key, u32)> = flows.iter().map(|&flow| (self.key(flow), flow)).collect();
        let (extra, service) = (&self.extra, &self.service);
        let path = |flow: u32| &*extra[flow as usize].path;
        let cap = |flow: u32| service.flows[flow as usize].cap;
        let mut setup = Setup { path, cap, capacity: &self.capacity, left, rates: &mut self.rates };
        self.strict.fill(&mut order, &mut setup);
    }

    /// Aalo Pseudocode 1 and what it leaves free.
    fn weighted(&mut self, weights: &[u32], to_highest: bool) {
        let mut classes: BTreeMap<u16, Vec<u32>> = BTreeMap::new();
        for &flow in &self.active {
            classes.entry(self.key(flow).class).or_default().push(flow);
        }
        let weight = |class: u16| f64::from(weights[usize::from(class).min(weights.len() - 1)]);
        let mut books = self.first_offers(&classes, weight);
        books.iter_mut().for_each(|book| self.fill_class(book));
        reserve(&mut books, &self.capacity, weight, to_highest);
        // What classes use that were served, and what is reserved for the others.
        let mut taken = vec![0.0; self.capacity.len()];
        for book in &books {
            book.offers.iter().for_each(|(&link, offer)| taken[link as usize] += offer.reserved);
        }
        for book in &mut books {
            for (&link, offer) in &mut book.offers {
                taken[link as usize] -= offer.reserved;
                offer.size = (self.capacity[link as usize] - taken[link as usize]).max(0.0);
            }
            self.fill_class(book);
            book.offers.iter().for_each(|(&link, offer)| taken[link as usize] += offer.used);
        }
    }

    /// What each link offers to the classes that are present there.
    fn first_offers(&self, classes: &BTreeMap<u16, Vec<u32>>, weight: impl Fn(u16) -> f64) -> Vec<Class> {
        let mut present: BTreeMap<u32, f64> = BTreeMap::new();
        let mut books = Vec::new();
        for (&class, flows) in classes {
            let links: BTreeSet<u32> =
                flows.iter().flat_map(|&flow| self.path(flow).iter().copied()).collect();
            links.iter().for_each(|&link| *present.entry(link).or_default() += weight(class));
            let offers = links.into_iter().map(|link| (link, Offer::default())).collect();
            books.push(Class { class, flows: flows.clone(), offers });
        }
        for book in &mut books {
            for (link, offer) in &mut book.offers {
                offer.size = self.capacity[*link as usize] * weight(book.class) / present[link];
            }
        }
        books
    }

    /// Lets a class fill what it was offered.
    fn fill_class(&mut self, book: &mut Class) {
        let mut left = vec![0.0; self.capacity.len()];
        book.offers.iter().for_each(|(&link, offer)| left[link as usize] = offer.size);
        self.strict(&book.flows, &mut left);
        for (&link, offer) in &mut book.offers {
            offer.used = offer.size - left[link as usize];
        }
    }
}

/// What a link offers to a class, what of that the class uses, and what it is to have if it can use it.
#[derive(Clone, Copy, Debug, Default)]
struct Offer {
    size: f64,
    used: f64,
    reserved: f64,
}

/// A class with its flows and what each of their links offers it.
struct Class {
    class: u16,
    flows: Vec<u32>,
    offers: BTreeMap<u32, Offer>,
}

/// Reserves for each class what it used of each link, and its part of what is free if it used up what it was offered there.
fn reserve(books: &mut [Class], capacity: &[f64], weight: impl Fn(u16) -> f64, to_highest: bool) {
    let mut used: BTreeMap<u32, f64> = BTreeMap::new();
    // Of the classes that want more on a link, all their weights, or that of the highest alone.
    let mut wanting: BTreeMap<u32, (u16, f64)> = BTreeMap::new();
    let wants = |link: u32, offer: &Offer| {
        offer.size > 0.0 && offer.used >= offer.size - NEGLIGIBLE * capacity[link as usize]
    };
    for book in books.iter() {
        for (&link, offer) in &book.offers {
            *used.entry(link).or_default() += offer.used;
            if wants(link, offer) {
                let (highest, total) = wanting.entry(link).or_insert((book.class, 0.0));
                if !to_highest || *highest == book.class {
                    *total += weight(book.class);
                }
            }
        }
    }
    for book in books {
        for (&link, offer) in &mut book.offers {
            let free = capacity[link as usize] - used[&link];
            let more = match wanting.get(&link) {
                Some(&(highest, total)) if wants(link, offer) && (!to_highest || highest == book.class) => {
                    free * weight(book.class) / total
                }
                _ => 0.0,
            };
            offer.reserved = offer.used;
            if free > NEGLIGIBLE * capacity[link as usize] {
                offer.reserved += more;
            }
        }
    }
}
