//! Where a policy's instances stand, and what each coflow is at each of them.
//!
//! A *place* is what an instance stands at: the fabric (0), a host (its port), or a link. An
//! *account* is what a coflow is at one place: the whole coflow, its subcoflow at a sender, or its
//! flows on a link. Policies speak of coflows, drivers of numbers; here (coflow, place) becomes an
//! account, a number under which a driver keeps what it counts.
//!
//! An account is open from when its coflow arrives until all of its flows at that place have
//! finished. A driver that lets go of a task in the middle of a run may have its numbers used
//! again.
//!
//! Cost: a coflow has few places, in ascending order, found by halving: O(log places), and less
//! where they are neighbours. Rejected: a hash map keyed by (coflow, place), whose order differs
//! from run to run, and an ordered one over all coflows, which is slower to ask.

use std::ops::{Deref, Index, IndexMut};

use cavalcade_model::{CoflowId, Fabric, FlowId, Path, Scope, TaskId, Work, Workload};

/// The account of a coflow at one place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Account {
    /// The coflow.
    pub coflow: CoflowId,
    /// The place.
    pub place: u32,
    /// Flows that have not finished, also those that have not arrived.
    pub flows_left: u32,
    /// Bytes of the flows that have arrived.
    pub arrived: u64,
    /// True if the instance has been told of the coflow.
    pub announced: bool,
}

/// The accounts of all coflows that have arrived, by number.
#[derive(Clone, Debug)]
pub struct Accounts {
    scope: Scope,
    list: Vec<Account>,
    of_coflow: Vec<Places>,
    /// Numbers that may be used again.
    free: Vec<u32>,
}

/// The places of a coflow that has arrived.
#[derive(Clone, Debug, Default)]
struct Places {
    /// (place, account), ascending; [`CLOSED`] where it has finished.
    accounts: Vec<(u32, u32)>,
    /// At how many of them it has not finished; once it has at all, there are none.
    open: usize,
}

/// In place of an account that is over: taking it out would move all those behind it.
const CLOSED: u32 = u32::MAX;

impl Places {
    /// Returns the index of a place in the list. Places ascend and differ, so no more of them lie
    /// before it than it is away from the first, and no more behind it than it is away from the
    /// last: among neighbours little is left to search.
    fn at(&self, place: u32) -> Option<usize> {
        let (&(first, _), &(last, _)) = (self.accounts.first()?, self.accounts.last()?);
        let (before, behind) = (place.checked_sub(first)? as usize, last.checked_sub(place)? as usize);
        let count = self.accounts.len();
        let (from, to) = (count.saturating_sub(behind + 1), count.min(before + 1));
        let found = self.accounts[from..to].binary_search_by_key(&place, |(place, _)| *place);
        found.ok().map(|at| from + at)
    }
}

impl Accounts {
    /// No account yet, for a policy of this `scope`.
    pub fn new(scope: Scope, workload: &Workload) -> Self {
        let of_coflow = vec![Places::default(); workload.coflow_count()];
        Self { scope, list: Vec::new(), of_coflow, free: Vec::new() }
    }

    /// Returns what each instance sees.
    pub fn scope(&self) -> Scope {
        self.scope
    }

    /// Returns the number of numbers: all accounts are below.
    pub fn count(&self) -> usize {
        self.list.len()
    }

    /// Makes room for coflows that have come into the workload.
    pub fn grow(&mut self, workload: &Workload) {
        self.of_coflow.resize_with(workload.coflow_count(), Places::default);
    }

    /// Lets go of what is kept for the coflows of a task that is done.
    pub fn retire(&mut self, workload: &Workload, task: TaskId) {
        for stage in &workload.task(task).stages {
            if let Work::Transfer(coflow) = stage.work {
                self.of_coflow[coflow.index()] = Places::default();
            }
        }
    }

    /// Opens the accounts of an arriving coflow, unless it has any.
    pub fn open(&mut self, workload: &Workload, fabric: &Fabric, coflow: CoflowId) {
        if self.is_open(coflow) {
            return;
        }
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
            self.of_coflow[coflow.index()].accounts.push((run[0], account));
        }
        self.of_coflow[coflow.index()].open = self.of_coflow[coflow.index()].accounts.len();
    }

    /// Forgets the account of what has finished at `place`, and returns it.
    ///
    /// # Panics
    /// If `coflow` has none there.
    pub fn close(&mut self, coflow: CoflowId, place: u32) -> u32 {
        let places = &mut self.of_coflow[coflow.index()];
        let at = places.at(place).expect("what finishes has an account until then");
        let account = std::mem::replace(&mut places.accounts[at].1, CLOSED);
        assert!(account != CLOSED, "what finishes has an account until then");
        places.open -= 1;
        if places.open == 0 {
            *places = Places::default();
        }
        account
    }

    /// The number of a closed account may be given to another.
    pub fn reuse(&mut self, account: u32) {
        self.free.push(account);
    }

    /// The account of `coflow` at `place`; `None` where it has none or is over.
    #[inline]
    pub fn find(&self, coflow: CoflowId, place: u32) -> Option<u32> {
        let places = &self.of_coflow[coflow.index()];
        places.at(place).map(|at| places.accounts[at].1).filter(|&account| account != CLOSED)
    }

    /// Returns whether `coflow` has arrived and not finished at every place.
    #[inline]
    pub fn is_open(&self, coflow: CoflowId) -> bool {
        self.of_coflow[coflow.index()].open > 0
    }

    /// The accounts that a flow under way belongs to: one, except with one at each of its links.
    ///
    /// # Panics
    /// If the flow has not arrived, or is over.
    #[inline]
    pub fn of_flow(&self, workload: &Workload, fabric: &Fabric, flow: FlowId) -> Few {
        let coflow = workload.coflow_of(flow);
        let ends = || (workload.flow(flow).src, workload.flow(flow).dst);
        let at = |place| match self.of_coflow[coflow.index()].accounts.as_slice() {
            [(_, account)] => *account,
            _ => self.find(coflow, place).expect("an arrived flow has an account"),
        };
        match self.scope {
            Scope::Fabric => Few::from_iter([at(0)]),
            Scope::Host => Few::from_iter([at(ends().0.0)]),
            Scope::Link => fabric.path(ends().0, ends().1).into_iter().map(|link| at(link.0)).collect(),
        }
    }
}

impl Index<u32> for Accounts {
    type Output = Account;

    #[inline]
    fn index(&self, account: u32) -> &Account {
        &self.list[account as usize]
    }
}

impl IndexMut<u32> for Accounts {
    #[inline]
    fn index_mut(&mut self, account: u32) -> &mut Account {
        &mut self.list[account as usize]
    }
}

/// Numbers, at most as many as a path has links.
#[derive(Clone, Copy, Debug, Default)]
pub struct Few {
    numbers: [u32; Path::LONGEST],
    len: usize,
}

impl FromIterator<u32> for Few {
    #[inline]
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

    #[inline]
    fn deref(&self) -> &[u32] {
        &self.numbers[..self.len]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cavalcade_model::{BitsPerSec, Bytes, Flow, Instant, Nanos, PortId, WorkloadBuilder};

    /// One coflow of three flows, two of which leave port 0.
    fn scene() -> (Workload, Fabric) {
        let flow = |src, dst| Flow { src: PortId(src), dst: PortId(dst), size: Bytes(1), wave: Nanos::ZERO };
        let mut builder = WorkloadBuilder::new(3);
        builder.coflow("a", Instant::ZERO, vec![flow(2, 1), flow(0, 1), flow(0, 2)]);
        builder.coflow("b", Instant::ZERO, vec![flow(0, 1)]);
        let fabric = Fabric::big_switch(3, BitsPerSec(8)).expect("ports and a rate");
        (builder.build().expect("the scene is right"), fabric)
    }

    fn opened(scope: Scope) -> (Workload, Fabric, Accounts) {
        let (workload, fabric) = scene();
        let mut accounts = Accounts::new(scope, &workload);
        accounts.open(&workload, &fabric, CoflowId(0));
        (workload, fabric, accounts)
    }

    #[test]
    fn a_coflow_has_an_account_at_each_place_that_sees_it() {
        for (scope, places) in [
            (Scope::Fabric, vec![(0, 3)]),
            (Scope::Host, vec![(0, 2), (2, 1)]),
            (Scope::Link, vec![(0, 2), (2, 1), (4, 2), (5, 1)]),
        ] {
            let (.., accounts) = opened(scope);
            let flows_left = |place| Some((place, accounts[accounts.find(CoflowId(0), place)?].flows_left));
            let found: Vec<(u32, u32)> = (0..6).filter_map(flows_left).collect();
            assert_eq!(found, places, "{scope:?}");
        }
    }

    #[test]
    fn a_flow_belongs_to_the_accounts_of_the_places_that_see_it() {
        for scope in [Scope::Fabric, Scope::Host, Scope::Link] {
            let (workload, fabric, accounts) = opened(scope);
            for flow in workload.flow_ids(CoflowId(0)).map(FlowId) {
                let mut places: Vec<u32> = accounts
                    .of_flow(&workload, &fabric, flow)
                    .iter()
                    .map(|&account| accounts[account].place)
                    .collect();
                places.sort_unstable();
                let sees = |&place: &u32| scope.sees(&workload, &fabric, flow, place);
                let all = 0..scope.places(&fabric) as u32;
                assert_eq!(places, all.filter(sees).collect::<Vec<u32>>(), "{scope:?} {flow}");
            }
        }
    }

    #[test]
    fn a_closed_account_is_not_found_and_its_number_is_used_again_when_it_is_free() {
        let (workload, fabric, mut accounts) = opened(Scope::Host);
        let closed = accounts.close(CoflowId(0), 0);
        assert_eq!(accounts.find(CoflowId(0), 0), None);
        assert!(accounts.is_open(CoflowId(0)), "its flow at port 2 goes on");
        accounts.reuse(closed);
        accounts.open(&workload, &fabric, CoflowId(1));
        assert_eq!(accounts.find(CoflowId(1), 0), Some(closed));
        assert_eq!(accounts.count(), 2);
    }

    #[test]
    fn a_coflow_that_is_open_is_not_opened_again() {
        let (workload, fabric, mut accounts) = opened(Scope::Fabric);
        accounts[0].arrived = 7;
        accounts.open(&workload, &fabric, CoflowId(0));
        assert_eq!((accounts.count(), accounts[0].arrived), (1, 7));
    }
}
