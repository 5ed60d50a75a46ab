//! Rates along paths of any number of links, computed anew at each event: for sharing that is not max-min within strict
//! classes.
//!
//! # The problem
//! The solvers for one switch pair its two sides and keep that pairing up to date. On paths of up to six links there is
//! nothing to pair. What a discipline means is clear all the same, since each is a rule of filling: go through the flows in
//! some order and give each of them, or each group of them, what its links have left.
//!
//! # The rules
//! - *Greedy*: by key; inside, flows on the fullest link of their account first; each takes all that its links have left.
//! - *Shortest first*: by key, bytes left and number; each takes all. Where a flow draws level with one before it, the
//!   order changes without anything else happening, so that is an event of its own.
//! - *MADD* (Varys §5.3): account after account, each flow at bytes left ÷ Γ of its account; then greedily what is left.
//! - *Weighted classes* (Aalo Pseudocode 1): each link splits its capacity by weight between the classes present there; each class
//!   fills what it was offered, max-min by key inside; what is free on a link is offered again to the classes there
//!   that used up their offer; what is free after that goes to the highest class that can use it.
//!
//! # Cost
//! O(flows × (hops + log flows)) for each event, and for weighted classes that many times classes and rounds of filling.
//! [`PathFill`](crate::PathFill) is what large runs are for; this is what the others can be compared by.
//!
//! # Rejected
//! Incremental versions of each: four solvers, each as large as those for one switch, for policies that nobody runs on
//! ten thousand hosts.

mod rules;

use crate::fill::{Due, Fill, Key, Shares};
use crate::incremental::switch::max_min::group::NEGLIGIBLE;
use crate::progress::service::{Service, leave_to_service};
use crate::reference::strict::StrictFill;

/// How equals share.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Sharing {
    /// All that is left, fullest link first.
    Greedy,
    /// All that is left, the link with the most flows first.
    InTurn,
    /// All that is left, fewest bytes first.
    ShortestFirst,
    /// All flows of an account end together.
    Madd,
    /// Max-min inside a class; classes share as these say.
    MaxMin(Shares),
}

#[derive(Clone, Debug, Default)]
struct Account {
    key: Key,
    flows: Vec<u32>,
}

/// What a flow has beside what [`Service`] knows of it.
#[derive(Clone, Debug, Default)]
struct Extra {
    path: Box<[u32]>,
    account: u32,
    key: Key,
}

/// Rates along paths by a rule of filling, computed anew at each event.
#[derive(Debug)]
pub struct DirectFill {
    sharing: Sharing,
    capacity: Vec<f64>,
    service: Service,
    extra: Vec<Extra>,
    accounts: Vec<Account>,
    /// Flows with something to send, ascending.
    active: Vec<u32>,
    /// The rate that each active flow is to have.
    rates: Vec<f64>,
    /// When the order changes by itself.
    overtaking: f64,
    strict: StrictFill,
}

impl DirectFill {
    /// For links of these capacities (bytes per nanosecond) and flows numbered below `flows`.
    pub fn new(capacity: Vec<f64>, sharing: Sharing, flows: usize) -> Self {
        Self {
            sharing,
            service: Service::new(capacity.len(), flows),
            extra: vec![Extra::default(); flows],
            accounts: Vec::new(),
            active: Vec::new(),
            rates: vec![0.0; flows],
            overtaking: f64::INFINITY,
            strict: StrictFill::default(),
            capacity,
        }
    }

    fn path(&self, flow: u32) -> &[u32] {
        &self.extra[flow as usize].path
    }

    fn left_at(&self, flow: u32, now: f64) -> f64 {
        self.service.flows[flow as usize].left_at(now)
    }

    /// Gives each flow, in this order, all that its links have left.
    fn take_all(&mut self, order: &[u32], left: &mut [f64]) {
        for &flow in order {
            let path = &self.extra[flow as usize].path;
            let least = |of: &[f64]| {
                path.iter()
                    .map(|&link| of[link as usize])
                    .fold(f64::INFINITY, |a, b| if b < a { b } else { a })
            };
            let more = least(left).min(self.service.flows[flow as usize].cap - self.rates[flow as usize]);
            if more > NEGLIGIBLE * least(&self.capacity) {
                self.rates[flow as usize] += more;
                path.iter().for_each(|&link| left[link as usize] -= more);
            }
        }
    }
}

impl Fill for DirectFill {
    leave_to_service!();

    fn reserve_accounts(&mut self, count: usize) {
        self.accounts.resize(count.max(self.accounts.len()), Account::default());
        self.service.reserve_accounts(count);
    }

    fn add(&mut self, flow: u32, links: [u32; 2], accounts: [u32; 2], bytes: f64, now: f64) {
        self.add_along(flow, &links, &accounts, bytes, now);
    }

    fn add_along(&mut self, flow: u32, links: &[u32], accounts: &[u32], bytes: f64, now: f64) {
        let (account, ends) = (accounts[0], [links[0], links[links.len() - 1]]);
        self.service.add(flow, ends, [account; 2], bytes, now);
        let key = self.accounts[account as usize].key;
        self.extra[flow as usize] = Extra { path: links.into(), account, key };
        self.accounts[account as usize].flows.push(flow);
        if let Err(place) = self.active.binary_search(&flow) {
            self.active.insert(place, flow);
        }
    }

    fn set_account_keys(&mut self, keys: &[(u32, Key)], _now: f64) {
        for &(account, key) in keys {
            self.accounts[account as usize].key = key;
            for &flow in &self.accounts[account as usize].flows {
                self.extra[flow as usize].key = key;
            }
        }
    }

    fn set_flow_key(&mut self, flow: u32, key: Key, _now: f64) {
        assert!(
            self.sharing != Sharing::Madd,
            "MADD orders coflows; flow {flow} cannot have a priority of its own"
        );
        self.extra[flow as usize].key = key;
    }

    fn set_cap(&mut self, flow: u32, cap: Option<f64>, _now: f64) {
        self.service.flows[flow as usize].cap = cap.unwrap_or(f64::INFINITY);
    }

    fn next(&self) -> f64 {
        self.service.next().min(self.overtaking)
    }

    fn take_due(&mut self, now: f64, due: &mut Due) {
        let first = due.finished.len();
        self.service.take_due(now, due);
        for &flow in &due.finished[first..] {
            self.service.remove(flow, now);
            let account = &mut self.accounts[self.extra[flow as usize].account as usize];
            account.flows.retain(|&other| other != flow);
        }
        if due.finished.len() > first {
            self.active.retain(|&flow| self.service.flows[flow as usize].is_present());
        }
    }

    fn refill(&mut self, now: f64) {
        for &flow in &self.active {
            self.rates[flow as usize] = 0.0;
        }
        self.apply_rule(now);
        for index in 0..self.active.len() {
            let flow = self.active[index];
            if self.service.flows[flow as usize].rate != self.rates[flow as usize] {
                self.service.set_rate(flow, self.rates[flow as usize], now);
            }
        }
        self.service.finish_refill(now);
    }

    fn loads(&self, account: u32, now: f64, visit: &mut dyn FnMut(u32, f64)) {
        self.bytes_of(account, now).into_iter().for_each(|(link, bytes)| visit(link, bytes));
    }

    fn add_use(&self, use_of_link: &mut [f64]) {
        for &flow in &self.active {
            let rate = self.service.flows[flow as usize].rate;
            self.path(flow).iter().for_each(|&link| use_of_link[link as usize] += rate);
        }
    }
}
