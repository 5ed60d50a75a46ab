//! What an instance of a policy may look at while a fluid engine runs.
//!
//! What a policy asks about a coflow is answered from the account that the coflow has at the
//! instance's place, by the allocator, which alone knows what has been sent. Flows that have
//! arrived in this very instant are not in the allocator yet.

use cavalcade_allocate::Fill;
use cavalcade_harness::Accounts;
use cavalcade_model::{
    BitsPerSec, Bytes, CoflowFacts, CoflowId, Contended, Fabric, FlowFacts, FlowId, Foresee, Instant,
    Iteration, LinkId, Nanos, Observe, Path, Scope, Workload,
};

use crate::numbers::Numbers;
use crate::pending::Pending;
use crate::time::SLACK;

/// The view of the instance at one place.
pub(crate) struct View<'a> {
    pub(crate) place: u32,
    /// The present, as the allocator counts it.
    pub(crate) now: f64,
    /// The rate of the fastest port, in bytes per nanosecond.
    pub(crate) fastest: f64,
    pub(crate) workload: &'a Workload,
    pub(crate) fabric: &'a Fabric,
    /// The links that the allocator looks at.
    pub(crate) links: &'a Contended,
    pub(crate) accounts: &'a Accounts,
    pub(crate) fill: &'a dyn Fill,
    pub(crate) numbers: &'a Numbers,
    pub(crate) arrivals: &'a [Instant],
    /// Flows that have arrived in this very instant and are not in the allocator yet.
    pub(crate) pending: &'a Pending,
}

impl View<'_> {
    fn account(&self, coflow: CoflowId) -> Option<u32> {
        self.accounts.find(coflow, self.place)
    }

    /// The pending flows of `coflow` at this place.
    fn pending(&self, coflow: CoflowId) -> impl Iterator<Item = u32> + '_ {
        let scope = self.accounts.scope();
        let is_here = move |flow| scope.sees(self.workload, self.fabric, FlowId(flow), self.place);
        self.pending.of(coflow).iter().flat_map(|(_, run)| run.clone()).filter(move |&flow| is_here(flow))
    }

    fn size(&self, flow: u32) -> u64 {
        self.workload.flow(FlowId(flow)).size.0
    }

    /// Sent bytes are rounded down and remaining ones up, but an amount that is whole but for
    /// rounding in the engine is that whole amount: a policy that is told that a threshold is
    /// reached must see it reached.
    fn rounding(&self) -> f64 {
        1e-3 + self.fastest * SLACK
    }

    fn sent(&self, bytes: f64) -> u64 {
        (bytes + self.rounding()).max(0.0) as u64
    }

    fn left(&self, bytes: f64) -> u64 {
        (bytes - self.rounding()).max(0.0).ceil() as u64
    }
}

impl Observe for View<'_> {
    fn coflow(&self, coflow: CoflowId) -> CoflowFacts {
        CoflowFacts::of(self.workload, coflow, self.arrivals[coflow.index()])
    }

    fn iteration(&self, coflow: CoflowId) -> Option<Iteration> {
        self.workload.iteration(coflow)
    }

    fn flow(&self, flow: FlowId) -> FlowFacts {
        FlowFacts::of(self.workload, flow)
    }

    fn flows(&self, coflow: CoflowId, visit: &mut dyn FnMut(FlowId)) {
        if let Some(account) = self.account(coflow) {
            self.fill.visit_flows(account, &mut |number| visit(FlowId(self.numbers.flow(number))));
            for flow in self.pending(coflow) {
                visit(FlowId(flow));
            }
        }
    }

    fn attained(&self, coflow: CoflowId) -> Bytes {
        Bytes(self.account(coflow).map_or(0, |account| self.sent(self.fill.attained(account, self.now))))
    }

    fn flow_attained(&self, flow: FlowId) -> Bytes {
        Bytes(self.size(flow.0) - self.flow_remaining(flow).0.min(self.size(flow.0)))
    }

    fn path(&self, flow: FlowId) -> Path {
        let record = self.workload.flow(flow);
        self.links.path(self.fabric, record.src, record.dst)
    }

    fn capacity(&self, link: LinkId) -> BitsPerSec {
        self.fabric.capacity(link)
    }
}

impl Foresee for View<'_> {
    fn remaining(&self, coflow: CoflowId) -> Bytes {
        let Some(account) = self.account(coflow) else { return Bytes::ZERO };
        let sent = self.fill.attained(account, self.now);
        Bytes(self.left(self.accounts[account].arrived as f64 - sent))
    }

    fn flow_remaining(&self, flow: FlowId) -> Bytes {
        if !self.pending.is_empty() && self.pending.contains(self.workload.coflow_of(flow), flow.0) {
            return Bytes(self.size(flow.0));
        }
        let Some(number) = self.numbers.of(self.workload, flow.0) else { return Bytes::ZERO };
        Bytes(self.left(self.fill.remaining(number, self.now)))
    }

    fn bottleneck(&self, coflow: CoflowId) -> Nanos {
        let mut longest: f64 = 0.0;
        self.loads(coflow, &mut |_, bytes, capacity| {
            longest = longest.max(bytes.as_f64() / capacity.bytes_per_nano());
        });
        Nanos(longest.ceil() as u64)
    }

    fn loads(&self, coflow: CoflowId, visit: &mut dyn FnMut(LinkId, Bytes, BitsPerSec)) {
        let Some(account) = self.account(coflow) else { return };
        let mut arriving = Vec::new();
        self.pending(coflow).for_each(|flow| {
            let record = self.workload.flow(FlowId(flow));
            if arriving.is_empty() {
                arriving.resize(self.fabric.link_count(), 0u64);
            }
            for link in self.links.path(self.fabric, record.src, record.dst) {
                arriving[link.index()] += record.size.0;
            }
        });
        let within = |link: u32| self.accounts.scope() != Scope::Link || link == self.place;
        let mut tell = |link: u32, bytes: u64| {
            if bytes > 0 && within(link) {
                visit(LinkId(link), Bytes(bytes), self.fabric.capacity(LinkId(link)));
            }
        };
        self.fill.loads(account, self.now, &mut |link, bytes| {
            let bytes = self.left(bytes);
            match arriving.get_mut(link as usize) {
                Some(more) => *more += bytes,
                None => tell(link, bytes),
            }
        });
        for (link, bytes) in arriving.into_iter().enumerate() {
            tell(link as u32, bytes);
        }
    }
}
