//! Rates on one switch where every link has priorities of its own: the rounds of
//! [`reference`](mod@crate::reference)'s definition, without looking at single flows.
//!
//! # The idea
//! Whenever anything has changed, rates are found from the beginning, by the rounds of the definition (`turns`, `rings`). But a
//! round is a link, a rate and a set of flows as bits (`fans`), and a link is looked at again only when one of its flows
//! has come in turn, or the lower link for which it waits has risen. Most of these sets are those of the event before.
//! Flows of one set are served together, in a virtual time of their own (`servers`), so rates that change cost nothing for
//! each flow.
//!
//! # Cost
//! An event: for each round a few operations for every 64 links of the other side and for each coflow at the link; for each
//! ring also its flows. Then O(servers + flows that are served with others than before).
//!
//! On the Facebook trace that is still too much: neither `baraat` nor `las:at=link` was run to its end there. Counted up to the
//! 900th second of `baraat`: 20 to 33 thousand flows have a rate, found in 250 rounds, 150 of which are rings of flows tied at
//! one link; an event changes the rate of 100 of these rounds and of 10,000 flows, but only 20 flows get another server.
//! `las:at=link`: 60 to 320 rounds, up to 240 of them rings, most of them real contradictions, of which an event changes 10 to
//! 50. Measured to the same place, in processor seconds on a machine with 30 other busy threads, this without optimisation
//! across crates and the one that went flow by flow with it: 20,000 events of `las:at=link` 4.0 against about 13; 5,000 of
//! `baraat` 8.6. A sixth of `baraat` goes into sorting flows of rings for what others could not use. On Sincronia's trace of
//! 200 coflows, where 16 ports have few flows each, `las:at=link` takes 1.0 against 0.49: what is done for 64 links at
//! once does not pay there.
//!
//! # Rejected
//! - To begin at the last rates: where links contradict each other what comes out would depend on the past.
//! - To go back to the first round that an event touches: on a crowded switch that is one of the first.
//! - Rates flow by flow, as until `a1b490e`: 7 ms an event once wide shuffles share links, since all flows are visited.
//!
//! Flows with caps are expected to be none, and then rates are those of the definition, computed by it.

mod accounts;
mod fans;
mod rings;
mod servers;
mod turns;

use std::collections::BTreeMap;

use cavalcade_model::{Discipline, Scope, Terms};

use crate::fill::{Due, Fill, Key, across_switch};
use crate::reference::{self, Past};
use accounts::Accounts;
use fans::{Fans, SIDES};
use servers::Servers;
use turns::Turns;

/// Max-min rates in strict classes of each link's own, on one switch.
#[derive(Debug)]
pub struct PerLinkFill {
    ports: u32,
    fans: Fans,
    accounts: Accounts,
    servers: Servers,
    turns: Turns,
    /// Caps by flow.
    caps: BTreeMap<u32, f64>,
    changed: bool,
    next: f64,
}

impl PerLinkFill {
    /// Creates an allocator for the links of a switch, those where flows enter first, of these capacities (bytes per
    /// nanosecond) and flows numbered below `flows`.
    pub fn new(capacity: Vec<f64>, flows: usize) -> Self {
        let ports = capacity.len() / SIDES;
        let words = ports.div_ceil(64);
        let mut by_lane = Vec::with_capacity(SIDES * 64 * words);
        for side in capacity.chunks(ports.max(1)) {
            by_lane.extend_from_slice(side);
            by_lane.resize(by_lane.len().next_multiple_of(64), 0.0);
        }
        Self {
            ports: ports as u32,
            fans: Fans::new(words),
            accounts: Accounts::new(by_lane.clone()),
            servers: Servers::new(words, by_lane.len(), flows),
            turns: Turns::new(words, by_lane),
            caps: BTreeMap::new(),
            changed: false,
            next: f64::INFINITY,
        }
    }

    fn lane(&self, link: u32) -> u32 {
        if link < self.ports { link } else { self.fans.first_lane(1) + link - self.ports }
    }

    fn link(&self, lane: u32) -> u32 {
        self.fans.side(lane) as u32 * self.ports + self.fans.line(lane)
    }

    fn lanes(&self, flow: u32) -> [u32; 2] {
        self.servers.fans(flow).map(|fan| self.fans.fan(fan).lane)
    }

    fn remove(&mut self, flow: u32, now: f64) {
        let fans = self.servers.fans(flow);
        let accounts = fans.map(|fan| self.fans.fan(fan).account);
        self.servers.remove(flow, &self.fans, &mut self.accounts, now);
        self.fans.remove(fans);
        for account in accounts {
            let account = self.accounts.get_mut(account);
            account.flows -= 1;
            if account.flows == 0 {
                self.fans.forget(&mut account.fans);
            }
        }
        self.caps.remove(&flow);
        self.changed = true;
    }

    /// Finds the rates of all flows by the definition, each a round of its own.
    fn run_by_definition(&mut self) {
        struct Present {
            flow: u32,
            lanes: [u32; 2],
            keys: [Key; 2],
        }
        let mut there: Vec<Present> = Vec::new();
        for row in 0..self.fans.first_lane(1) {
            for &(key, fan) in &self.fans.at[row as usize] {
                for &(column, flow) in &self.fans.fan(fan).flows {
                    let [_, far] = self.servers.fans(flow);
                    let far = self.accounts.get(self.fans.fan(far).account).key;
                    there.push(Present { flow, lanes: [row, column], keys: [key, far] });
                }
            }
        }
        there.sort_unstable_by_key(|flow| flow.flow);
        let cap = |flow: u32| self.caps.get(&flow).copied().unwrap_or(f64::INFINITY);
        let flows: Vec<reference::Flow<'_>> = there
            .iter()
            .map(|of| reference::Flow {
                path: &of.lanes,
                coflow: 0,
                priorities: &of.keys,
                remaining: 0.0,
                cap: cap(of.flow),
            })
            .collect();
        let terms = Terms::strict(Scope::Link, Discipline::MaxMin);
        let past = Past { rates: &[], same_coflows: false };
        let rates = reference::allocate(&terms, &self.turns.capacity, &flows, past);
        self.turns.rounds.clear();
        for (of, rate) in there.iter().zip(rates).filter(|&(_, rate)| rate > 0.0) {
            let [fan, _] = self.servers.fans(of.flow);
            self.turns.rounds.give_one(of.lanes[0], rate, fan, self.fans.line(of.lanes[1]));
        }
    }
}

impl Fill for PerLinkFill {
    fn reserve_accounts(&mut self, count: usize) {
        self.accounts.reserve(count);
    }

    fn add(&mut self, flow: u32, links: &[u32], accounts: &[u32], bytes: f64, _now: f64) {
        let lanes = across_switch(links).map(|link| self.lane(link));
        let accounts = [accounts[0], accounts[1]];
        let mut of_accounts = [Vec::new(), Vec::new()];
        for side in 0..SIDES {
            let account = self.accounts.get_mut(accounts[side]);
            account.lane = lanes[side];
            account.flows += 1;
            account.added += bytes;
            of_accounts[side] = std::mem::take(&mut account.fans);
        }
        let [near, far] = &mut of_accounts;
        let fans = self.fans.add(flow, lanes, accounts, [near, far]);
        for (account, fans) in accounts.into_iter().zip(of_accounts) {
            self.accounts.get_mut(account).fans = fans;
        }
        self.servers.add(flow, fans, bytes);
        self.changed = true;
    }

    fn set_account_keys(&mut self, keys: &[(u32, Key)], _now: f64) {
        for &(account, key) in keys {
            let record = self.accounts.get_mut(account);
            if std::mem::replace(&mut record.key, key) != key && record.flows > 0 {
                self.fans.reorder(record.lane);
                self.changed = true;
            }
        }
    }

    fn set_flow_key(&mut self, flow: u32, _key: Key, _now: f64) {
        panic!("links order coflows; flow {flow} cannot have a priority of its own at one link");
    }

    fn set_cap(&mut self, flow: u32, cap: Option<f64>, _now: f64) {
        if self.servers.is_present(flow) {
            match cap {
                Some(cap) => self.caps.insert(flow, cap),
                None => self.caps.remove(&flow),
            };
            self.changed = true;
        }
    }

    fn watch_flow(&mut self, flow: u32, remaining: f64, _now: f64) {
        self.servers.watch(flow, remaining);
    }

    fn watch_account(&mut self, account: u32, bytes: f64, now: f64) {
        self.accounts.watch(account, bytes, now);
    }

    fn unwatch_account(&mut self, account: u32) {
        self.accounts.unwatch(account);
    }

    fn next(&self) -> f64 {
        self.next
    }

    fn take_due(&mut self, now: f64, due: &mut Due) {
        let first = due.finished.len();
        self.accounts.take_due(&self.fans, &self.servers, now, due);
        self.servers.take_due(now, due);
        for &flow in &due.finished[first..] {
            self.remove(flow, now);
        }
    }

    fn refill(&mut self, now: f64) {
        if std::mem::take(&mut self.changed) {
            let Self { fans, accounts, turns, .. } = self;
            fans.sort(|account| accounts.get(account).key);
            if self.caps.is_empty() {
                turns.run(fans, |fan| accounts.get(fans.fan(fan).account).key);
            } else {
                self.run_by_definition();
            }
            self.servers.serve(&self.turns.rounds, &self.fans, &mut self.accounts, now);
        }
        let next = self.servers.next(now);
        self.next = self.accounts.next(next, &self.fans, &self.servers, now);
    }

    fn remaining(&self, flow: u32, now: f64) -> f64 {
        self.servers.remaining(flow, now)
    }

    fn attained(&self, account: u32, now: f64) -> f64 {
        self.accounts.sent(account, &self.fans, &self.servers, now)
    }

    fn rate(&self, flow: u32) -> f64 {
        self.servers.rate(flow)
    }

    fn visit_flows(&self, account: u32, visit: &mut dyn FnMut(u32)) {
        self.accounts.get(account).visit(&self.fans, |flow, _| visit(flow));
    }

    fn loads(&self, account: u32, now: f64, visit: &mut dyn FnMut(u32, f64)) {
        let account = self.accounts.get(account);
        let mut loads = BTreeMap::new();
        account.visit(&self.fans, |flow, lane| {
            let left = self.servers.remaining(flow, now);
            for lane in [account.lane, lane] {
                *loads.entry(lane).or_insert(0.0) += left;
            }
        });
        let loads = loads.into_iter().filter(|&(_, bytes)| bytes > 0.0);
        loads.for_each(|(lane, bytes)| visit(self.link(lane), bytes));
    }

    fn add_use(&self, use_of_link: &mut [f64]) {
        self.servers.visit_served(|flow, rate| {
            let lanes = self.lanes(flow);
            lanes.into_iter().for_each(|lane| use_of_link[self.link(lane) as usize] += rate);
        });
    }
}
