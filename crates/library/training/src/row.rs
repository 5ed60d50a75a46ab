//! A job whose ranks all do the same, one thing after the other: one row of steps, however many
//! ranks there are.
//!
//! In each step all ranks compute for the same time, or each takes part in the same collective of
//! its own group. Files of AICB and steps of a jobs file say no more than that. Written out, an
//! iteration of 9,216 ranks is tens of millions of operations, and its row has some thousands.
//!
//! # Invariants
//! Groups of a kind have one size, and each rank is in one of them.

use std::collections::{BTreeMap, BTreeSet};

use cavalcade_model::{Bytes, Nanos};

use crate::collective::{Collective, CollectiveKind, GroupKind};
use crate::program::{OpWork, Program, ProgramBuilder, ProgramError, Stream, check_size};

/// What all ranks do together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Step {
    /// Each computes.
    Compute(Nanos),
    /// Each takes part in the collective of its group.
    Collective {
        /// The kind of its group.
        group: GroupKind,
        /// The collective.
        kind: CollectiveKind,
        /// Its buffer at one rank.
        bytes: Bytes,
    },
}

/// One iteration, step by step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Row {
    ranks: u32,
    /// For each kind of group that a step names, all groups of it.
    groups: BTreeMap<GroupKind, Vec<Vec<u32>>>,
    steps: Vec<Step>,
}

impl Row {
    /// An empty row of so many ranks.
    pub(crate) fn new(ranks: u32) -> Self {
        Self { ranks, groups: BTreeMap::new(), steps: Vec::new() }
    }

    /// Has each rank compute.
    pub(crate) fn compute(&mut self, duration: Nanos) {
        self.steps.push(Step::Compute(duration));
    }

    /// Has each group of a kind do a collective; `groups` gives them where the kind is new.
    ///
    /// # Errors
    /// If ranks of all kinds of groups are more than are held.
    ///
    /// # Panics
    /// If groups are not of one size with each rank in one.
    pub(crate) fn collective(
        &mut self,
        group: GroupKind,
        groups: impl FnOnce() -> Vec<Vec<u32>>,
        kind: CollectiveKind,
        bytes: Bytes,
    ) -> Result<(), ProgramError> {
        if !self.groups.contains_key(&group) {
            check_size(self.ranks, self.groups.len() + 1)?;
            let groups = groups();
            let sizes: BTreeSet<usize> = groups.iter().map(Vec::len).collect();
            let mut ranks: Vec<u32> = groups.iter().flatten().copied().collect();
            ranks.sort_unstable();
            let is_each_once = ranks.iter().copied().eq(0..self.ranks);
            assert!(sizes.len() < 2 && is_each_once, "{group} groups leave ranks out, or differ in size");
            self.groups.insert(group, groups);
        }
        self.steps.push(Step::Collective { group, kind, bytes });
        Ok(())
    }

    /// Makes a program of it, which is written out when it has to be.
    ///
    /// # Errors
    /// If it has no ranks or no steps, or its times or bytes are too large.
    pub(crate) fn program(self) -> Result<Program, ProgramError> {
        if self.ranks == 0 {
            return Err(ProgramError::NoRanks);
        }
        if self.steps.is_empty() {
            return Err(ProgramError::NoOps);
        }
        check_size(self.ranks, self.groups.len().max(1))?;
        let of_step = |&step: &Step| {
            let each = match step {
                Step::Compute(duration) => duration.0,
                Step::Collective { bytes, .. } => bytes.0,
            };
            u128::from(each) * u128::from(self.alike(step))
        };
        let sum = self.steps.iter().map(of_step).fold(0_u128, u128::saturating_add);
        if sum >= 1 << 62 { Err(ProgramError::TooLarge) } else { Ok(Program::of_row(self)) }
    }

    /// How many ranks there are.
    pub(crate) fn ranks(&self) -> u32 {
        self.ranks
    }

    /// The steps of an iteration.
    pub(crate) fn steps(&self) -> &[Step] {
        &self.steps
    }

    /// All groups of a kind that a step names.
    pub(crate) fn groups(&self, kind: GroupKind) -> &[Vec<u32>] {
        self.groups.get(&kind).map_or(&[], Vec::as_slice)
    }

    /// The group of rank 0.
    fn first_group(&self, kind: GroupKind) -> Vec<u32> {
        let found = self.groups(kind).iter().find(|members| members.contains(&0));
        found.cloned().unwrap_or_default()
    }

    /// How many operations a step is written out as.
    pub(crate) fn alike(&self, step: Step) -> u64 {
        match step {
            Step::Compute(_) => self.ranks.into(),
            Step::Collective { group, .. } => self.groups(group).len() as u64,
        }
    }

    /// How many operations the row is written out as.
    pub(crate) fn operations(&self) -> u64 {
        self.steps.iter().map(|&step| self.alike(step)).fold(0, u64::saturating_add)
    }

    /// The operations of all ranks.
    pub(crate) fn write_out(&self) -> Program {
        let mut builder = ProgramBuilder::new(self.ranks);
        for &step in &self.steps {
            match step {
                Step::Compute(duration) => {
                    for rank in 0..self.ranks {
                        builder.compute(Stream { rank, number: 0 }, duration);
                    }
                }
                Step::Collective { group, kind, bytes } => {
                    for members in self.groups(group) {
                        let id = builder.group(group, members.clone());
                        let added = id.and_then(|id| builder.collective(Collective::new(id, kind, bytes), 0));
                        added.expect("groups of a row have each rank once");
                    }
                }
            }
        }
        builder.build().expect("a row is checked when it becomes a program")
    }

    /// The operations of rank 0, one for each step: each stands for all those of its step.
    pub(crate) fn of_first(&self) -> Program {
        let mut builder = ProgramBuilder::new(self.ranks);
        let mut before = None;
        for &step in &self.steps {
            let work = match step {
                Step::Compute(duration) => OpWork::Compute { rank: 0, duration },
                Step::Collective { group, kind, bytes } => {
                    let id = builder.group(group, self.first_group(group));
                    let id = id.expect("groups of a row have each rank once");
                    OpWork::Collective(Collective::new(id, kind, bytes))
                }
            };
            before = Some(builder.add(work, before.into_iter().collect()));
        }
        builder.build().expect("a row is checked when it becomes a program")
    }
}
