//! The interface of all allocators.
//!
//! A driver adds flows, sets keys, and calls [`Fill::refill`] once all changes of an instant are
//! in. Between refills rates are constant; [`Fill::next`] says when the next flow ends or reaches a
//! watched amount, and [`Fill::take_due`] hands over those that have.
//!
//! An *account* is a set of flows that is given keys and watched as one (a coflow, or a coflow's
//! flows at one host).

/// A priority, in the word of the field for what a queue is sorted by.
pub use cavalcade_model::Priority as Key;

/// The number of no flow, link or account.
pub(crate) const NONE: u32 = u32::MAX;

/// The flows and milestones that have come due.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Due {
    /// Flows with nothing left to send. They are out of the allocator.
    pub finished: Vec<u32>,
    /// Flows that reached their watched amount.
    pub flows: Vec<u32>,
    /// Accounts that reached their watched amount.
    pub accounts: Vec<u32>,
}

impl Due {
    /// Empties it, to be used again.
    pub fn clear(&mut self) {
        self.finished.clear();
        self.flows.clear();
        self.accounts.clear();
    }
}

/// The two links of a path across one switch: where it enters, and where it leaves.
pub(crate) fn across_switch(path: &[u32]) -> [u32; 2] {
    path.try_into().expect("a path across one switch has two links")
}

/// Rates that are kept up to date. `now` never decreases from call to call, but for
/// [`Fill::rebase`].
pub trait Fill: std::fmt::Debug {
    /// Makes room for `account` numbers below `count`.
    fn reserve_accounts(&mut self, count: usize);

    /// Makes room for flow numbers below `count`, if they do not make it as they are added.
    fn reserve_flows(&mut self, count: usize) {
        let _ = count;
    }

    /// Adds `flow` with `bytes` to send along `links`. It takes the key of its account; with keys
    /// per link, `accounts` has one for each link.
    ///
    /// # Panics
    /// If the allocator is for one switch and there are not two links.
    fn add(&mut self, flow: u32, links: &[u32], accounts: &[u32], bytes: f64, now: f64);

    /// Gives accounts new keys, all of their flows with them.
    fn set_account_keys(&mut self, keys: &[(u32, Key)], now: f64);

    /// Gives one flow a key of its own.
    fn set_flow_key(&mut self, flow: u32, key: Key, now: f64);

    /// Caps the rate of a flow, in bytes per nanosecond, or lifts the cap.
    fn set_cap(&mut self, flow: u32, cap: Option<f64>, now: f64);

    /// Reports `flow` once only `remaining` bytes are left.
    fn watch_flow(&mut self, flow: u32, remaining: f64, now: f64);

    /// Reports `account` once it has sent `bytes` in all.
    fn watch_account(&mut self, account: u32, bytes: f64, now: f64);

    /// Forgets what `account` is watched for.
    fn unwatch_account(&mut self, account: u32);

    /// Forgets what it can of `account`, which has no flows and gets no more. Returns whether its
    /// number may stand for another from now on.
    fn forget_account(&mut self, account: u32) -> bool {
        let _ = account;
        false
    }

    /// Returns the time at which the next flow or account comes due; infinity if none does at the
    /// present rates.
    fn next(&self) -> f64;

    /// Takes out what has come due by `now`.
    fn take_due(&mut self, now: f64, due: &mut Due);

    /// Computes rates again where anything changed.
    fn refill(&mut self, now: f64);

    /// Moves the origin of time `by` nanoseconds ahead, and the origins of cumulative amounts with
    /// it. `by` is a whole number, not after [`Fill::next`], and later calls count time from there.
    /// So that times stay small enough to be resolved far below a nanosecond, however long a run
    /// lasts.
    fn rebase(&mut self, by: f64);

    /// Bytes that `flow` has still to send; zero if it is not in the allocator.
    fn remaining(&self, flow: u32, now: f64) -> f64;

    /// Bytes that `account` has sent in all.
    fn attained(&self, account: u32, now: f64) -> f64;

    /// The rate of `flow` in bytes per nanosecond.
    fn rate(&self, flow: u32) -> f64;

    /// Calls `visit` with every flow of `account` in the allocator.
    fn visit_flows(&self, account: u32, visit: &mut dyn FnMut(u32));

    /// Calls `visit` with each link on which `account` has bytes to send, and how many, in
    /// ascending order of links.
    fn loads(&self, account: u32, now: f64, visit: &mut dyn FnMut(u32, f64));

    /// Adds the rate on each link to `use_of_link`, which may go on behind the allocator's links.
    fn add_use(&self, use_of_link: &mut [f64]);
}
