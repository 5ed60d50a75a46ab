//! Processes of coflows that the agent refuses: they are let go a few at a time.
//!
//! A user decides how many processes a group has, and to let one go takes a look through its
//! descriptors. So the groups stand for nothing at once, and the processes follow, owner by owner
//! ([`Queue`]).

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use cavalcade_model::Instant;

use super::queue::Queue;
use crate::groups::Group;

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

/// All of these.
#[derive(Debug, Default)]
pub(super) struct Releasing(Queue<Released>);

impl Releasing {
    /// Begins to let go the processes of an owner's groups that stand for nothing any more.
    pub(super) fn begin(&mut self, owner: u32, groups: Vec<Group>, coflow: u32, instead: Option<u32>) {
        let released = Released { coflow, instead, groups, left: BTreeSet::new(), is_listed: false };
        self.0.push(owner, released);
    }

    /// Returns how many coflows there are.
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns when there is something to do, if there is.
    pub(super) fn due_at(&self) -> Option<Instant> {
        self.0.due_at()
    }

    /// The group in which a process of the group at `path` is once all are let go.
    pub(super) fn above(&self, path: PathBuf) -> PathBuf {
        let mut groups = self.0.iter().flat_map(|(_, released)| &released.groups);
        let ending = |group: &&Group| group.is_own() && path.starts_with(group.path());
        let found = groups.find(ending).and_then(|group| group.path().parent()).map(Path::to_owned);
        found.unwrap_or(path)
    }

    /// Lets some go, if it is time, as `let_go` does with a process, the coflow that it had and the
    /// one that it gets; then it rests `sparing` times as long as that took.
    pub(super) fn step(
        &mut self,
        now: impl Fn() -> Instant,
        sparing: u64,
        mut let_go: impl FnMut(&Group, u32, (u32, Option<u32>)),
    ) {
        self.0.step(now, sparing, |released| released.step(&mut let_go));
    }
}

impl Released {
    /// Lets one process go, or looks for those that are left. Returns whether all are gone.
    fn step(&mut self, let_go: &mut impl FnMut(&Group, u32, (u32, Option<u32>))) -> bool {
        if let Some((at, process)) = self.left.pop_first() {
            let_go(&self.groups[at], process, (self.coflow, self.instead));
            return false;
        }
        // What a group's processes start meanwhile is in it as well; what they start where they
        // were is not.
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

    use super::super::queue::AT_ONCE;
    use super::*;

    #[test]
    fn of_very_many_processes_a_turn_lets_go_few_and_in_the_end_all_are_gone() {
        let folder = tempfile::tempdir().unwrap();
        let processes: Vec<String> = (1..=1_000).map(|process| process.to_string()).collect();
        std::fs::write(folder.path().join("cgroup.procs"), processes.join("\n")).unwrap();
        let mut releasing = Releasing::default();
        releasing.begin(1, vec![Group::found(folder.path().to_owned()).unwrap()], 7, Some(9));
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

    #[test]
    fn who_starts_processes_as_fast_as_they_are_let_go_keeps_nobody_else_waiting() {
        let folder = tempfile::tempdir().unwrap();
        let group = |name: &str| {
            let path = folder.path().join(name);
            std::fs::create_dir(&path).unwrap();
            std::fs::write(path.join("cgroup.procs"), "1\n2\n").unwrap();
            // An own group is listed until no process is in it.
            if name == "forks" {
                Group::make(folder.path(), name).unwrap()
            } else {
                Group::found(path).unwrap()
            }
        };
        let mut releasing = Releasing::default();
        releasing.begin(7, vec![group("forks")], 1, None);
        releasing.begin(8, vec![group("ends")], 2, None);
        let clock = Cell::new(0);
        let now = || Instant(clock.replace(clock.get() + AT_ONCE.0));
        let mut gone = Vec::new();
        for _ in 0..40 {
            releasing.step(now, 0, |_, process, (coflow, _)| gone.extend((coflow == 2).then_some(process)));
        }
        assert_eq!((gone, releasing.len()), (vec![1, 2], 1));
    }
}
