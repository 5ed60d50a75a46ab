//! Minimum allocation for desired duration (Varys §5.3): every flow of an account gets just the rate at which all of them end
//! together, when the account's bottleneck does.
//!
//! # The idea
//! Accounts are visited in the order of their keys. With what those before left of each link, the account's bottleneck is
//! Γ = max over its links of bytes left ÷ capacity left, and each flow gets bytes left ÷ Γ. An account that needs a link
//! with nothing left is passed over. Then the rest is handed out greedily in the same order, so that no link idles while
//! someone could use it.
//!
//! # Cost
//! O(flows) whenever coflows, their order or caps change; a flow that ends before its coflow changes no rates, as in Varys,
//! and costs O(flows of its coflow).

use crate::fill::{Due, Fill, Key};
use crate::incremental::switch::max_min::group::NEGLIGIBLE;
use crate::progress::service::{Service, leave_to_service};

#[derive(Clone, Debug, Default)]
struct Account {
    key: Key,
    flows: Vec<u32>,
}

/// MADD rates in the order of accounts' keys, the rest greedily.
#[derive(Debug)]
pub struct MaddFill {
    capacity: Vec<f64>,
    service: Service,
    accounts: Vec<Account>,
    /// Accounts with flows.
    order: Vec<u32>,
    rates: Vec<f64>,
    /// Whether anything has changed but that flows have ended.
    changed: bool,
}

impl MaddFill {
    /// For links of these capacities (bytes per nanosecond) and flows numbered below `flows`.
    pub fn new(capacity: Vec<f64>, flows: usize) -> Self {
        Self {
            service: Service::new(capacity.len(), flows),
            accounts: Vec::new(),
            order: Vec::new(),
            rates: vec![0.0; flows],
            changed: false,
            capacity,
        }
    }

    /// Gives the flows of one account the rates at which they end together, if every link has something left for it.
    fn allocate(&mut self, account: u32, left: &mut [f64], now: f64) {
        let flows = &self.accounts[account as usize].flows;
        let mut longest: f64 = 0.0;
        self.service.loads(flows, now, &mut |link, bytes| {
            let open = left[link as usize] > NEGLIGIBLE * self.capacity[link as usize];
            longest = longest.max(if open { bytes / left[link as usize] } else { f64::INFINITY });
        });
        for &flow in flows {
            let record = &self.service.flows[flow as usize];
            let rate = (record.left_at(now) / longest).min(record.cap);
            self.rates[flow as usize] = rate;
            for link in record.links {
                left[link as usize] = (left[link as usize] - rate).max(0.0);
            }
        }
    }

    /// Gives each flow of one account what both its links have left.
    fn backfill(&mut self, account: u32, left: &mut [f64]) {
        for &flow in &self.accounts[account as usize].flows {
            let record = &self.service.flows[flow as usize];
            let [row, column] = record.links.map(|link| link as usize);
            let more = left[row].min(left[column]).min(record.cap - self.rates[flow as usize]);
            if more > NEGLIGIBLE * self.capacity[row].min(self.capacity[column]) {
                self.rates[flow as usize] += more;
                left[row] -= more;
                left[column] -= more;
            }
        }
    }
}

impl Fill for MaddFill {
    leave_to_service!(on two links);

    fn reserve_accounts(&mut self, count: usize) {
        self.accounts.resize(count.max(self.accounts.len()), Account::default());
        self.service.reserve_accounts(count);
    }

    fn add(&mut self, flow: u32, links: [u32; 2], accounts: [u32; 2], bytes: f64, now: f64) {
        self.service.add(flow, links, accounts, bytes, now);
        let account = &mut self.accounts[accounts[0] as usize];
        if account.flows.is_empty() {
            self.order.push(accounts[0]);
        }
        account.flows.push(flow);
        self.changed = true;
    }

    fn set_account_keys(&mut self, keys: &[(u32, Key)], _now: f64) {
        for &(account, key) in keys {
            let account = &mut self.accounts[account as usize];
            self.changed |= std::mem::replace(&mut account.key, key) != key && !account.flows.is_empty();
        }
    }

    fn set_flow_key(&mut self, flow: u32, _key: Key, _now: f64) {
        panic!("the MADD discipline orders coflows; flow {flow} cannot have a priority of its own");
    }

    fn set_cap(&mut self, flow: u32, cap: Option<f64>, _now: f64) {
        self.service.flows[flow as usize].cap = cap.unwrap_or(f64::INFINITY);
        self.changed = true;
    }

    fn next(&self) -> f64 {
        self.service.next()
    }

    fn take_due(&mut self, now: f64, due: &mut Due) {
        let first = due.finished.len();
        self.service.take_due(now, due);
        for &flow in &due.finished[first..] {
            let [account, _] = self.service.flows[flow as usize].accounts;
            self.service.remove(flow, now);
            let flows = &mut self.accounts[account as usize].flows;
            flows.retain(|&other| other != flow);
            if flows.is_empty() {
                self.order.retain(|&other| other != account);
                self.changed = true;
            }
        }
    }

    fn refill(&mut self, now: f64) {
        if !std::mem::take(&mut self.changed) {
            return self.service.finish_refill(now);
        }
        self.order.sort_by_key(|&account| (self.accounts[account as usize].key, account));
        let mut left = self.capacity.clone();
        let order = std::mem::take(&mut self.order);
        for &account in &order {
            self.allocate(account, &mut left, now);
        }
        for &account in &order {
            self.backfill(account, &mut left);
        }
        for &account in &order {
            for index in 0..self.accounts[account as usize].flows.len() {
                let flow = self.accounts[account as usize].flows[index];
                if self.service.flows[flow as usize].rate != self.rates[flow as usize] {
                    self.service.set_rate(flow, self.rates[flow as usize], now);
                }
            }
        }
        self.order = order;
        self.service.finish_refill(now);
    }
}
