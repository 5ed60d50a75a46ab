//! Which instances of the policy there are, and what each sees.
//!
//! A *place* is what an instance stands at: the fabric (0), a host (its port), or a link. An *account* is what a coflow is
//! at one place: the whole coflow, its subcoflow at a sender, or its flows on a link. Policies speak of coflows; this
//! file turns (coflow, place) into accounts, which is all that the solver knows.

use std::ops::Deref;

use cavalcade_model::{
    BitsPerSec, Bytes, CoflowFacts, CoflowId, Fabric, FlowFacts, FlowId, Foresee, Instant, LinkId, Nanos,
    Observe, Path, PortId, Scope, TaskId, Work, Workload,
};
use cavalcade_solver::Fill;

use crate::engine::slack;

/// What a coflow is at one place.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Account {
    pub(crate) coflow: CoflowId,
    pub(crate) place: u32,
    /// Flows that have not finished, also those that have not arrived.
    pub(crate) flows_left: u32,
    /// Bytes of the flows that have arrived.
    pub(crate) arrived: u64,
    /// Whether the instance has been told of the coflow.
    pub(crate) announced: bool,
}

/// The accounts of all coflows that have arrived.
pub(crate) struct Accounts {
    scope: Scope,
    pub(crate) list: Vec<Account>,
    /// For each coflow: (place, account), ascending, of the places where it has arrived and not finished.
    of_coflow: Vec<Vec<(u32, u32)>>,
    /// Accounts that have been closed in this instant, and numbers that may be used again.
    pub(crate) closed: Vec<u32>,
    pub(crate) free: Vec<u32>,
}

impl Accounts {
    pub(crate) fn new(scope: Scope, workload: &Workload) -> Self {
        let (closed, free) = (Vec::new(), Vec::new());
        Self { scope, list: Vec::new(), of_coflow: vec![Vec::new(); workload.coflow_count()], closed, free }
    }

    /// Makes room for coflows that have come into the workload.
    pub(crate) fn grow(&mut self, workload: &Workload) {
        self.of_coflow.resize_with(workload.coflow_count(), Vec::new);
    }

    /// Lets go of what is kept for the coflows of a task that is done.
    pub(crate) fn retire(&mut self, workload: &Workload, task: TaskId) {
        for stage in &workload.task(task).stages {
            if let Work::Transfer(coflow) = stage.work {
                self.of_coflow[coflow.index()] = Vec::new();
            }
        }
    }

    /// How many instances of a policy a scope asks for.
    pub(crate) fn places(scope: Scope, fabric: &Fabric) -> usize {
        match scope {
            Scope::Fabric => 1,
            Scope::Host => fabric.ports() as usize,
            Scope::Link => fabric.link_count(),
        }
    }

    /// Opens the accounts of an arriving coflow.
    pub(crate) fn open(&mut self, workload: &Workload, fabric: &Fabric, coflow: CoflowId) {
        let flows = workload.flows_of(coflow);
        let mut places: Vec<u32> = match self.scope {
            Scope::Fabric => vec![0; flows.len()],
            Scope::Host => flows.iter().map(|flow| flow.src.0).collect(),
            Scope::Link => {
                flows.iter().flat_map(|flow| fabric.path(flow.src, flow.dst)).map(|link| link.0).collect()
            }
        };
        places.sort_unstable();
        for run in places.chunk_by(|a, b| a == b) {
            let flows_left = run.len() as u32;
            let fresh = Account { coflow, place: run[0], flows_left, arrived: 0, announced: false };
            let account = self.free.pop().unwrap_or(self.list.len() as u32);
            match self.list.get_mut(account as usize) {
                Some(free) => *free = fresh,
                None => self.list.push(fresh),
            }
            self.of_coflow[coflow.index()].push((run[0], account));
        }
    }

    /// Forgets the account of what has finished at `place`, and returns it.
    pub(crate) fn close(&mut self, coflow: CoflowId, place: u32) -> u32 {
        let places = &mut self.of_coflow[coflow.index()];
        let at = places.binary_search_by_key(&place, |(place, _)| *place);
        let account = places.remove(at.expect("what finishes has an account until then")).1;
        self.closed.push(account);
        account
    }

    /// The account of `coflow` at `place`; `None` where it has none or is over.
    pub(crate) fn find(&self, coflow: CoflowId, place: u32) -> Option<u32> {
        let places = &self.of_coflow[coflow.index()];
        places.binary_search_by_key(&place, |(place, _)| *place).ok().map(|at| places[at].1)
    }

    /// Some account of `coflow`, if it has arrived and not finished.
    pub(crate) fn find_any(&self, coflow: CoflowId) -> Option<u32> {
        self.of_coflow[coflow.index()].first().map(|&(_, account)| account)
    }

    /// The accounts that a flow belongs to: one, except with one at each of its links.
    pub(crate) fn of_flow(&self, workload: &Workload, fabric: &Fabric, flow: u32) -> Few {
        let coflow = workload.coflow_of(FlowId(flow));
        let ports = || (workload.flow(FlowId(flow)).src, workload.flow(FlowId(flow)).dst);
        let at = |place| match self.of_coflow[coflow.index()].as_slice() {
            [(_, account)] => *account,
            _ => self.find(coflow, place).expect("an arrived flow has an account"),
        };
        match self.scope {
            Scope::Fabric => Few::from_iter([at(0)]),
            Scope::Host => Few::from_iter([at(ports().0.0)]),
            Scope::Link => fabric.path(ports().0, ports().1).into_iter().map(|link| at(link.0)).collect(),
        }
    }
}

/// As many numbers as a path has links, or fewer.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Few {
    numbers: [u32; Path::LONGEST],
    len: usize,
}

impl FromIterator<u32> for Few {
    fn from_iter<I: IntoIterator<Item = u32>>(numbers: I) -> Self {
        let mut few = Self::default();
        for number in numbers {
            few.numbers[few.len] = number;
            few.len += 1;
        }
        few
    }
}

impl Deref for Few {
    type Target = [u32];

    fn deref(&self) -> &[u32] {
        &self.numbers[..self.len]
    }
}

/// What the instance at one place may look at.
pub(crate) struct View<'a, F> {
    pub(crate) place: u32,
    pub(crate) now: f64,
    /// The capacity of the fastest link, in bytes per nanosecond.
    pub(crate) fastest: f64,
    pub(crate) workload: &'a Workload,
    pub(crate) fabric: &'a Fabric,
    pub(crate) accounts: &'a Accounts,
    pub(crate) fill: &'a F,
    pub(crate) arrivals: &'a [Instant],
    /// Flows that have arrived in this very instant and are not in the solver yet.
    pub(crate) pending: &'a [u32],
}

impl<F: Fill> View<'_, F> {
    fn account(&self, coflow: CoflowId) -> Option<u32> {
        self.accounts.find(coflow, self.place)
    }

    /// The pending flows of `coflow` at this place.
    fn pending(&self, coflow: CoflowId) -> impl Iterator<Item = u32> + '_ {
        let ids = self.workload.flow_ids(coflow);
        // Pending flows are in order of coflow, and so of flow within an instant's release.
        let from = self.pending.partition_point(|&flow| flow < ids.start);
        let to = self.pending.partition_point(|&flow| flow < ids.end);
        let is_here = |flow| is_at(self.accounts.scope, self.workload, self.fabric, FlowId(flow), self.place);
        self.pending[from..to].iter().copied().filter(move |&flow| is_here(flow))
    }

    fn size(&self, flow: u32) -> u64 {
        self.workload.flow(FlowId(flow)).size.0
    }

    /// Sent bytes are rounded down and remaining ones up, but an amount that is whole but for rounding in the engine is
    /// that whole amount: a policy that is told that a threshold is reached must see it reached.
    fn rounding(&self) -> f64 {
        1e-3 + self.fastest * slack(self.now)
    }

    fn sent(&self, bytes: f64) -> u64 {
        (bytes + self.rounding()).max(0.0) as u64
    }

    fn left(&self, bytes: f64) -> u64 {
        (bytes - self.rounding()).max(0.0).ceil() as u64
    }
}

impl<F: Fill> Observe for View<'_, F> {
    fn coflow(&self, coflow: CoflowId) -> CoflowFacts {
        CoflowFacts::of(self.workload, coflow, self.arrivals[coflow.index()])
    }

    fn flow(&self, flow: FlowId) -> FlowFacts {
        FlowFacts::of(self.workload, flow)
    }

    fn flows(&self, coflow: CoflowId, visit: &mut dyn FnMut(FlowId)) {
        if let Some(account) = self.account(coflow) {
            self.fill.visit_flows(account, &mut |flow| visit(FlowId(flow)));
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
}

impl<F: Fill> Foresee for View<'_, F> {
    fn remaining(&self, coflow: CoflowId) -> Bytes {
        let Some(account) = self.account(coflow) else { return Bytes::ZERO };
        let sent = self.fill.attained(account, self.now);
        Bytes(self.left(self.accounts.list[account as usize].arrived as f64 - sent))
    }

    fn flow_remaining(&self, flow: FlowId) -> Bytes {
        if self.pending.binary_search(&flow.0).is_ok() {
            return Bytes(self.size(flow.0));
        }
        Bytes(self.left(self.fill.remaining(flow.0, self.now)))
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
        let mut arriving = vec![0u64; 0];
        for flow in self.pending(coflow) {
            let record = self.workload.flow(FlowId(flow));
            arriving.resize(self.fabric.link_count(), 0);
            for link in self.fabric.path(record.src, record.dst) {
                arriving[link.index()] += record.size.0;
            }
        }
        let within = |link: u32| self.accounts.scope != Scope::Link || link == self.place;
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

/// Whether the instance at `place` sees `flow`.
pub(crate) fn is_at(scope: Scope, workload: &Workload, fabric: &Fabric, flow: FlowId, place: u32) -> bool {
    let flow = workload.flow(flow);
    match scope {
        Scope::Fabric => true,
        Scope::Host => flow.src.0 == place,
        Scope::Link => fabric.path(flow.src, flow.dst).contains(&LinkId(place)),
    }
}

/// The rate of the link or host at `place`; for the whole fabric, of its fastest link.
pub(crate) fn line_rate(scope: Scope, fabric: &Fabric, place: u32) -> BitsPerSec {
    match scope {
        Scope::Fabric => fabric.links().map(|link| fabric.capacity(link)).max().unwrap_or_default(),
        Scope::Host => fabric.capacity(fabric.ingress(PortId(place))),
        Scope::Link => fabric.capacity(LinkId(place)),
    }
}
