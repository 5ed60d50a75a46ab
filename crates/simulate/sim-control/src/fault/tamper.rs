//! Interference with messages on the way: planted bugs, and a hostile host that hears what its port
//! is told.

use cavalcade_control::{Coordinator, CoordinatorConfig};
use cavalcade_model::{Nanos, PortId, SplitMix64};
use cavalcade_protocol::{Keyed, KillSwitch, Orders, Report};

use super::Bug;
use super::hostile::{Hostile, Secret};

/// Between machines and their messages.
#[derive(Debug)]
pub(crate) struct Tamper {
    bug: Option<Bug>,
    dice: SplitMix64,
    pub(super) hostile: Option<Hostile>,
    /// The orders that each host heard last, under [`Bug::EternalLease`].
    last_orders: Vec<Option<Orders>>,
}

impl Tamper {
    pub(super) fn new(bug: Option<Bug>, seed: u64, ports: u32, hostile: Option<Hostile>) -> Self {
        Self { bug, dice: SplitMix64::new(seed), hostile, last_orders: vec![None; ports as usize] }
    }

    pub(super) fn has(&self, bug: Bug) -> bool {
        self.bug == Some(bug)
    }

    /// Changes a coordinator's configuration.
    pub(crate) fn configure(&self, config: &mut CoordinatorConfig) {
        if self.has(Bug::PhantomFlow) {
            config.stall = Nanos::from_secs(3600);
        }
        if self.has(Bug::UnconfirmedBytes) {
            config.confirm = false;
        }
    }

    /// Gives a coordinator its seal.
    pub(crate) fn seal(&self, coordinator: Coordinator) -> Coordinator {
        if self.has(Bug::ForgedStanding) { coordinator } else { coordinator.with_notary(Box::new(Secret)) }
    }

    /// Changes a report that has arrived.
    pub(crate) fn report(&mut self, report: &mut Report) {
        if self.has(Bug::DoubleCount) && self.dice.happens(0.05) {
            count_twice(report);
        }
    }

    /// Changes orders that are to be sent. Returns whether they are.
    pub(crate) fn orders(&mut self, port: PortId, orders: &mut Orders) -> bool {
        if self.has(Bug::SilentLoss) && self.dice.happens(0.2) {
            (orders.flows, orders.priorities) = (Keyed::default(), Keyed::default());
        }
        if let Some(hostile) = self.hostile.as_mut().filter(|hostile| hostile.port == port) {
            hostile.receive(orders.standing.clone());
            return false;
        }
        if self.has(Bug::LiftedSwitch) && orders.snapshot && orders.switch.is_none() {
            orders.switch = Some(KillSwitch { term: orders.term, throw: 0, is_on: false });
        }
        if self.has(Bug::EternalLease) {
            self.last_orders[port.index()] = Some(orders.clone());
        }
        true
    }

    /// Returns the orders that a host hears over and over under [`Bug::EternalLease`].
    pub(crate) fn repeats(&mut self, port: PortId) -> Option<Orders> {
        let orders = self.last_orders[port.index()].as_mut()?;
        orders.sequence += 1;
        orders.snapshot = false;
        (orders.flows, orders.priorities) = (Keyed::default(), Keyed::default());
        Some(orders.clone())
    }
}

/// Counts the first progress of a report twice.
fn count_twice(report: &mut Report) {
    let mut is_first = true;
    report.progress = std::mem::take(&mut report.progress)
        .into_iter()
        .map(|(flow, mut progress)| {
            if std::mem::take(&mut is_first) {
                progress.sent.0 *= 2;
            }
            (flow, progress)
        })
        .collect();
}
