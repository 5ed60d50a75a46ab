//! Processes of coflows that the agent refuses: they are let go a few at a time.
//!
//! A user decides how many processes a group has, and to let one go takes a look through its descriptors. So the groups stand for nothing at
//! once, and the processes follow, in no more than a small share of the enforcer's time.

use std::collections::{BTreeSet, VecDeque};
use std::path::{Path, PathBuf};

use cavalcade_model::{Instant, Nanos};

use crate::groups::Group;

/// The time after which no further process is let go in a turn.
const AT_ONCE: Nanos = Nanos::from_millis(1);

/// A coflow whose processes are let go.
#[derive(Debug)]
struct Released {
    coflow: u32,
    /// The coflow to which their sockets belong from then on, if to any.
    instead: Option<u32>,
    groups: Vec<Group>,
    /// The processes that are left, each behind the place of its group.
    left: BTreeSet<(usize, u32)>,
    is_listed: bool,
}

/// All of these, the one first that is let go now.
#[derive(Debug, Default)]
pub(super) struct Releasing {
    queue: VecDeque<Released>,
    not_before: Instant,
}

impl Releasing {
    /// Begins to let go the processes of groups that stand for nothing any more.
    pub(super) fn begin(&mut self, groups: Vec<Group>, coflow: u32, instead: Option<u32>) {
        self.queue.push_back(Released { coflow, instead, groups, left: BTreeSet::new(), is_listed: false });
    }

    /// Returns how many coflows there are.
    pub(super) fn len(&self) -> usize {
        self.queue.len()
    }

    /// Returns when there is something to do, if there is.
    pub(super) fn due_at(&self) -> Option<Instant> {
        (!self.queue.is_empty()).then_some(self.not_before)
    }

    /// The group in which a process of the group at `path` is once all are let go.
    pub(super) fn above(&self, path: PathBuf) -> PathBuf {
        let groups = self.queue.iter().flat_map(|released| &released.groups);
        let ending = |group: &&Group| group.is_own() && path.starts_with(group.path());
        let found =
            groups.into_iter().find(ending).and_then(|group| group.path().parent()).map(Path::to_owned);
        found.unwrap_or(path)
    }

    /// Lets some go, if it is time, as `let_go` does with a process, the coflow that it had and the one that it gets; then it rests `sparing`
    /// times as long as that took.
    pub(super) fn step(
        &mut self,
        now: impl Fn() -> Instant,
        sparing: u64,
        mut let_go: impl FnMut(&Group, u32, (u32, Option<u32>)),
    ) {
        let began = now();
        if began < self.not_before {
            return;
        }
        let mut spent = Nanos::ZERO;
        while spent < AT_ONCE
            && let Some(first) = self.queue.front_mut()
        {
            if first.step(&mut let_go) {
                self.queue.pop_front();
            }
            spent = now().since(began);
        }
        self.not_before = began + Nanos(spent.0.saturating_mul(sparing));
    }
}

impl Released {
    /// Lets one process go, or looks for those that are left. Returns whether all are gone.
    fn step(&mut self, let_go: &mut impl FnMut(&Group, u32, (u32, Option<u32>))) -> bool {
        if let Some((at, process)) = self.left.pop_first() {
            let_go(&self.groups[at], process, (self.coflow, self.instead));
            return false;
        }
        // What a group's processes start meanwhile is in it as well; what they start where they were is not.
        let groups = self.groups.iter().enumerate().filter(|(_, group)| !self.is_listed || group.is_own());
        self.left = groups
            .flat_map(|(at, group)| group.all_members().into_iter().map(move |one| (at, one)))
            .collect();
        self.is_listed = true;
        self.left.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    #[test]
    fn of_very_many_processes_a_turn_lets_go_few_and_in_the_end_all_are_gone() {
        let folder = tempfile::tempdir().unwrap();
        let processes: Vec<String> = (1..=1_000).map(|process| process.to_string()).collect();
        std::fs::write(folder.path().join("cgroup.procs"), processes.join("\n")).unwrap();
        let mut releasing = Releasing::default();
        releasing.begin(vec![Group::found(folder.path().to_owned()).unwrap()], 7, Some(9));
        // Each look at the clock takes half of the time of a turn.
        let clock = Cell::new(0);
        let now = || Instant(clock.replace(clock.get() + AT_ONCE.0 / 2));
        let mut gone = Vec::new();
        for turn in 1.. {
            let before = gone.len();
            let mut let_go = |_: &Group, process, coflows| {
                assert_eq!(coflows, (7, Some(9)));
                gone.push(process);
            };
            releasing.step(now, 20, &mut let_go);
            assert!(gone.len() - before <= 2, "turn {turn}");
            let Some(due) = releasing.due_at() else { break };
            // Before its time nothing happens.
            clock.set(due.0 - 1);
            releasing.step(|| Instant(due.0 - 1), 20, |_, _, _| panic!("it rests"));
            clock.set(due.0);
        }
        gone.sort();
        assert_eq!(gone, (1..=1_000).collect::<Vec<u32>>());
    }
}
