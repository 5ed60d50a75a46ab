//! Computation on hosts: who has a slot, and when each computation is done.
//!
//! A host has slots, each worth its speed; one computation uses at most one slot. Where there are
//! more computations than slots, a [`CpuOrder`] says who goes first, preemptively, and equals share
//! evenly, as on a link. It is the same under every policy: policies decide about the network
//! alone, so what they are compared on stays the same.
//!
//! What is left is kept in fractions of a nanosecond, as whole numbers; a computation ends at the
//! first whole nanosecond at which nothing is left.
//!
//! # Invariants
//! No slot is idle while a computation waits at its host. A computation is never shorter than its
//! duration, so what is known without hosts (earliest starts, lower bounds) stays true.
//!
//! Cost: O(computations at the host) each time one starts or ends there.

use std::collections::BTreeSet;

use cavalcade_model::{Host, Instant, Nanos, StageIndex, TaskId, Workload};
use cavalcade_spec::Choice;

/// The order of computation on a host with more computations than slots.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum CpuOrder {
    /// All share the slots evenly (TAFE §II-B, "flow-aware").
    Fair,
    /// Tasks in order of their task-ids; the computations of one task share (TAFE §II-B,
    /// "task-aware").
    Task,
    /// Tasks in order of their task-ids, and of a task one stage after the other (TAFE Fig 2).
    #[default]
    Stage,
}

impl Choice for CpuOrder {
    const WORDS: &'static [(&'static str, Self)] =
        &[("fair", Self::Fair), ("task", Self::Task), ("stage", Self::Stage)];
}

/// Parts of a nanosecond that are told apart.
const PARTS: u128 = 1 << 20;

/// A computation that has started and not ended.
#[derive(Clone, Copy, Debug)]
struct Computation {
    /// Its key: equal keys share.
    key: (u32, u32),
    task: TaskId,
    stage: StageIndex,
    /// Time left on a slot of full speed, in parts of a nanosecond.
    left: u128,
}

/// The share of a slot that one of them has.
#[derive(Clone, Copy, Debug)]
struct Share {
    slots: u128,
    among: u128,
}

#[derive(Debug)]
struct Computing {
    host: Host,
    /// In order of keys; of equals the first to start first.
    running: Vec<Computation>,
    /// Time at which what is left was last brought up to date.
    since: Instant,
    /// Time at which the first of them ends.
    next: Option<Instant>,
}

impl Computing {
    /// The shares of those that are running, in their order.
    fn shares(&self) -> impl Iterator<Item = Share> + '_ {
        let mut free = u128::from(self.host.slots);
        self.running.chunk_by(|a, b| a.key == b.key).flat_map(move |equals| {
            let among = equals.len() as u128;
            let slots = free.min(among);
            free -= slots;
            std::iter::repeat_n(Share { slots, among }, equals.len())
        })
    }

    /// Takes off what was computed until `now`.
    fn settle(&mut self, now: Instant) {
        let parts = u128::from(now.since(self.since).0) * PARTS * u128::from(self.host.speed_percent);
        let done: Vec<u128> = self.shares().map(|share| parts * share.slots / (share.among * 100)).collect();
        for (computation, done) in self.running.iter_mut().zip(done) {
            computation.left = computation.left.saturating_sub(done);
        }
        self.since = now;
    }

    /// Finds out when the first ends if nothing changes.
    fn look_ahead(&mut self) {
        let per_nano = PARTS * u128::from(self.host.speed_percent);
        let wait = self.running.iter().zip(self.shares()).filter_map(|(computation, share)| {
            let slots = if computation.left == 0 { 1 } else { share.slots };
            (slots > 0).then(|| (computation.left * share.among * 100).div_ceil(per_nano * slots))
        });
        let wait = wait
            .min()
            .map(|wait| u64::try_from(wait).expect("a workload's computations fit its scale of time"));
        self.next = wait.map(|wait| self.since + Nanos(wait));
    }
}

/// All hosts of a workload.
#[derive(Debug)]
pub(crate) struct Hosts {
    order: CpuOrder,
    hosts: Vec<Computing>,
    /// Hosts at which a computation will end, by when.
    due: BTreeSet<(Instant, usize)>,
}

impl Hosts {
    pub(crate) fn new(workload: &Workload, order: CpuOrder) -> Self {
        let idle = |&host: &Host| Computing { host, running: Vec::new(), since: Instant::ZERO, next: None };
        Self { order, hosts: workload.hosts().iter().map(idle).collect(), due: BTreeSet::new() }
    }

    /// A computation of `duration` starts on a host; `number` is its task's task-id.
    pub(crate) fn start(
        &mut self,
        now: Instant,
        host: usize,
        (task, number, stage): (TaskId, u32, StageIndex),
        duration: Nanos,
    ) {
        let key = match self.order {
            CpuOrder::Fair => (0, 0),
            CpuOrder::Task => (number, 0),
            CpuOrder::Stage => (number, stage.0),
        };
        let computing = &mut self.hosts[host];
        computing.settle(now);
        let at = computing.running.partition_point(|other| other.key <= key);
        let left = u128::from(duration.0) * PARTS;
        computing.running.insert(at, Computation { key, task, stage, left });
        self.reschedule(host);
    }

    /// Returns the time at which the next computation ends.
    pub(crate) fn next(&self) -> Option<Instant> {
        self.due.first().map(|&(when, _)| when)
    }

    /// The computations of one host that have ended by `now`; empty when there are none anywhere.
    pub(crate) fn take(&mut self, now: Instant) -> Vec<(TaskId, StageIndex)> {
        let Some(&(_, host)) = self.due.first().filter(|&&(when, _)| when <= now) else { return Vec::new() };
        let computing = &mut self.hosts[host];
        computing.settle(now);
        let ended = computing.running.extract_if(.., |computation| computation.left == 0);
        let ended = ended.map(|computation| (computation.task, computation.stage)).collect();
        self.reschedule(host);
        ended
    }

    fn reschedule(&mut self, host: usize) {
        let computing = &mut self.hosts[host];
        if let Some(before) = computing.next {
            self.due.remove(&(before, host));
        }
        computing.look_ahead();
        self.due.extend(computing.next.map(|next| (next, host)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Returns the ends of computations given by start, task and duration; stages count within a
    /// task.
    fn ends(host: Host, order: CpuOrder, given: &[(u64, u32, u64)]) -> Vec<u64> {
        let mut hosts = Hosts {
            order,
            hosts: vec![Computing { host, running: Vec::new(), since: Instant::ZERO, next: None }],
            due: BTreeSet::new(),
        };
        let mut ends = vec![0; given.len()];
        let (mut started, mut left) = (0, given.len());
        while left > 0 {
            let start = given.get(started).map(|&(start, ..)| Instant(start));
            let now = start.into_iter().chain(hosts.next()).min().expect("something is left");
            loop {
                let ended = hosts.take(now);
                if ended.is_empty() {
                    break;
                }
                left -= ended.len();
                ended.into_iter().for_each(|(_, stage)| ends[stage.index()] = now.0);
            }
            while let Some(&(_, task, duration)) = given.get(started).filter(|&&(start, ..)| start == now.0) {
                let who = (TaskId(task), task, StageIndex(started as u32));
                hosts.start(now, 0, who, Nanos(duration));
                started += 1;
            }
        }
        ends
    }

    fn host(slots: u32, speed_percent: u32) -> Host {
        Host { slots, speed_percent }
    }

    #[test]
    fn a_slow_host_takes_longer() {
        assert_eq!(ends(host(1, 25), CpuOrder::Stage, &[(5, 0, 100)]), [405]);
        assert_eq!(ends(host(1, 12), CpuOrder::Stage, &[(0, 0, 6)]), [50]);
    }

    #[test]
    fn more_slots_than_computations_make_none_faster() {
        assert_eq!(ends(host(8, 100), CpuOrder::Fair, &[(0, 0, 100), (0, 1, 40)]), [100, 40]);
    }

    #[test]
    fn orders_differ_in_who_shares() {
        let given = [(0, 0, 100), (0, 0, 100), (0, 1, 100), (0, 1, 100)];
        assert_eq!(ends(host(1, 100), CpuOrder::Fair, &given), [400, 400, 400, 400]);
        assert_eq!(ends(host(1, 100), CpuOrder::Task, &given), [200, 200, 400, 400]);
        assert_eq!(ends(host(1, 100), CpuOrder::Stage, &given), [100, 200, 300, 400]);
        // The first task has a slot for each; the second has the third slot until then, and two
        // slots after.
        assert_eq!(ends(host(3, 100), CpuOrder::Task, &given), [100, 100, 150, 150]);
    }

    /// The same in steps of a nanosecond, whole slots only.
    fn step_by_step(slots: u32, given: &[(u64, u32, u64)]) -> Vec<u64> {
        let mut left: Vec<u64> = given.iter().map(|&(.., duration)| duration).collect();
        let mut ends: Vec<Option<u64>> = vec![None; given.len()];
        for now in 0.. {
            let mut present: Vec<usize> =
                (0..given.len()).filter(|&index| given[index].0 <= now && ends[index].is_none()).collect();
            present.iter().filter(|&&index| left[index] == 0).for_each(|&index| ends[index] = Some(now));
            present.retain(|&index| left[index] > 0);
            present.sort_by_key(|&index| (given[index].1, index));
            present.iter().take(slots as usize).for_each(|&index| left[index] -= 1);
            if ends.iter().all(Option::is_some) {
                break;
            }
        }
        ends.into_iter().map(|end| end.expect("all have ended")).collect()
    }

    proptest! {
        #[test]
        fn stages_in_order_take_whole_slots(
            slots in 1u32..4, mut given in prop::collection::vec((0u64..60, 0u32..4, 0u64..40), 1..8),
        ) {
            given.sort_by_key(|&(start, ..)| start);
            prop_assert_eq!(ends(host(slots, 100), CpuOrder::Stage, &given), step_by_step(slots, &given));
        }

        /// One slot that is never idle while there is work is done with all of it at the same time,
        /// whichever goes first; but for less than a nanosecond at each end, since ends are whole.
        #[test]
        fn the_order_does_not_change_when_all_is_done(
            speed in 1u32..=100, mut given in prop::collection::vec((0u64..60, 0u32..4, 1u64..40), 1..8),
        ) {
            given.sort_by_key(|&(start, ..)| start);
            let last = |order| ends(host(1, speed), order, &given).into_iter().fold(0, u64::max);
            let all = [CpuOrder::Fair, CpuOrder::Task, CpuOrder::Stage].map(last);
            let apart = all.iter().max().expect("three") - all.iter().min().expect("three");
            prop_assert!(apart < given.len() as u64, "{:?}", all);
        }
    }
}
