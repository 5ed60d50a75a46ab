//! What the ranks of a job do in one iteration: computation, collectives and transfers, and what
//! each waits for.
//!
//! A [`Program`] is a DAG of operations. Edges are what a profiler or a workload file has: order in
//! a stream of a rank, and events between streams. A collective begins when its last member has
//! come to it and ends for all at once, so that waiting for the slowest rank needs no model of its
//! own. One iteration is written down; runs repeat it.
//!
//! A [`ProgramBuilder`] takes operations in any order, since files come rank by rank, and puts them
//! into one in which each follows what it waits for. Where there is none it names an operation of
//! the cycle.
//!
//! A job whose ranks all do the same, one thing after the other, is kept as that row of steps, and
//! written out when it is asked for its operations.
//!
//! # Cost
//! O(operations + edges), in time and memory.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::sync::OnceLock;

use cavalcade_model::{Bytes, Nanos};

use crate::collective::{Collective, CollectiveKind, Group, GroupId, GroupKind};
use crate::row::{Row, Step};

/// An operation of a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct OpId(pub u32);

impl OpId {
    /// Returns it as an index into an array.
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// The work of an operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OpWork {
    /// Computation on the processor of a rank.
    Compute {
        /// The rank.
        rank: u32,
        /// Its duration.
        duration: Nanos,
    },
    /// A collective of a group.
    Collective(Collective),
    /// Bytes from one rank to another; begins when both have reached it.
    Transfer {
        /// The rank that sends.
        from: u32,
        /// The rank that receives.
        to: u32,
        /// How many.
        bytes: Bytes,
    },
}

/// An operation, and what it waits for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Op {
    /// Its work.
    pub work: OpWork,
    /// Operations that must be done before it begins, each once, in order.
    pub after: Vec<OpId>,
}

/// One iteration of a job, checked: each operation stands after those that it waits for.
#[derive(Clone, Debug)]
pub struct Program {
    ranks: u32,
    row: Option<Row>,
    /// Its operations, from when they are asked for.
    written: OnceLock<Written>,
}

/// The operations of a program.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Written {
    groups: Vec<Group>,
    /// The members of each group in ascending order, to look one up.
    sorted: Vec<Vec<u32>>,
    ops: Vec<Op>,
}

impl PartialEq for Program {
    fn eq(&self, other: &Self) -> bool {
        self.ranks == other.ranks
            && match (&self.row, &other.row) {
                (Some(row), Some(others)) => row == others,
                _ => self.written() == other.written(),
            }
    }
}

impl Eq for Program {}

/// Operations that are the same but for their ranks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpsAlike {
    /// The work of one of them.
    pub work: OpWork,
    /// The kind of group; `None` for computation.
    pub group: Option<GroupKind>,
    /// The ranks that take part in each.
    pub members: usize,
    /// How many they are.
    pub count: u64,
}

/// Reason that a program cannot be.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProgramError {
    /// A program without ranks.
    #[error("the job has no ranks: expected at least one")]
    NoRanks,
    /// A program without operations.
    #[error("the job does nothing: expected computation or a collective at least")]
    NoOps,
    /// A rank that there is not.
    #[error("rank {rank} is out of range: ranks count from 0 to {last}; check the size of the job")]
    UnknownRank {
        /// The rank named.
        rank: u32,
        /// The last one.
        last: u32,
    },
    /// A group without members.
    #[error("a {kind} group has no members: expected at least one")]
    EmptyGroup {
        /// Its kind.
        kind: GroupKind,
    },
    /// A rank that is twice in a group.
    #[error("rank {rank} is in a {kind} group twice: expected each rank once")]
    TwiceInGroup {
        /// The group's kind.
        kind: GroupKind,
        /// The rank.
        rank: u32,
    },
    /// A group that there is not.
    #[error("group {group} is not there: expected one of {groups}")]
    UnknownGroup {
        /// The group named.
        group: u32,
        /// How many there are.
        groups: usize,
    },
    /// A root that is no member.
    #[error("a {kind} has member {root} for its root, and the group has {members}: count members from 0")]
    BadRoot {
        /// The collective.
        kind: CollectiveKind,
        /// The root named.
        root: u32,
        /// Members of the group.
        members: usize,
    },
    /// Parts of an all-to-all that are not one for each pair.
    #[error(
        "an all-to-all of {members} members has {parts} parts: expected one for each pair, {members} × {members}"
    )]
    BadSplits {
        /// Members of the group.
        members: usize,
        /// Parts given.
        parts: usize,
    },
    /// An operation that waits for one that there is not.
    #[error("operation {op} waits for operation {on}, which there is not")]
    UnknownOp {
        /// The operation.
        op: u32,
        /// The one named.
        on: u32,
    },
    /// Operations that wait for each other.
    #[error(
        "operation {op} of {ops} ({what}) waits for itself through others: ranks must come to the collectives that they share in one order"
    )]
    Cycle {
        /// One of the cycle.
        op: u32,
        /// How many operations there are.
        ops: usize,
        /// What it is.
        what: String,
    },
    /// More operations than are held.
    #[error(
        "{ranks} ranks with up to {each} operations each are more than {most} in all: expected a smaller job"
    )]
    TooMany {
        /// Ranks of the job.
        ranks: u32,
        /// Operations of each, at most.
        each: usize,
        /// The most of all.
        most: u64,
    },
    /// Durations or bytes that do not fit.
    #[error("the times or bytes of an iteration add up to more than 2^62: check their units")]
    TooLarge,
}

/// The most operations of all ranks together, which take some gigabytes.
const MOST_OPS: u64 = 1 << 25;

/// Checks that a small file does not unfold into a job that no memory holds.
pub(crate) fn check_size(ranks: u32, each: usize) -> Result<(), ProgramError> {
    let all = u64::from(ranks).saturating_mul(each as u64);
    if all > MOST_OPS { Err(ProgramError::TooMany { ranks, each, most: MOST_OPS }) } else { Ok(()) }
}

impl Program {
    /// A row of steps.
    pub(crate) fn of_row(row: Row) -> Self {
        Self { ranks: row.ranks(), row: Some(row), written: OnceLock::new() }
    }

    /// Its row of steps, where all ranks do the same.
    pub(crate) fn row(&self) -> Option<&Row> {
        self.row.as_ref()
    }

    fn written(&self) -> &Written {
        self.written.get_or_init(|| {
            let row = self.row.as_ref().expect("a program has a row or operations");
            row.write_out().written.into_inner().expect("a builder gives operations")
        })
    }

    /// The number of ranks.
    pub fn ranks(&self) -> u32 {
        self.ranks
    }

    /// How many operations all ranks have together, without writing them out.
    pub fn operations(&self) -> u64 {
        self.row.as_ref().map_or_else(|| self.written().ops.len() as u64, Row::operations)
    }

    /// Checks that its operations can be written out.
    ///
    /// # Errors
    /// If they are more than are held.
    pub fn check_operations(&self) -> Result<(), ProgramError> {
        self.row.as_ref().map_or(Ok(()), |row| check_size(self.ranks, row.steps().len()))
    }

    /// What goes on in an iteration, without writing it out: each operation with how many are like
    /// it but for their ranks, where that is known, and by itself elsewhere.
    pub fn ops_alike(&self) -> Vec<OpsAlike> {
        let first = self.row.as_ref().map(|row| (row, row.of_first()));
        let program = first.as_ref().map_or(self, |(_, first)| first);
        let alike = |index: usize| first.as_ref().map_or(1, |(row, _)| row.alike(row.steps()[index]));
        let of_op = |(index, op): (usize, &Op)| {
            let (id, work) = (OpId(index as u32), op.work.clone());
            let members = if let OpWork::Transfer { .. } = work { 2 } else { program.ranks_of(id).count() };
            OpsAlike { work, group: program.group_kind(id), members, count: alike(index) }
        };
        program.ops().iter().enumerate().map(of_op).collect()
    }

    /// Groups of ranks that do collectives.
    pub fn groups(&self) -> &[Group] {
        &self.written().groups
    }

    /// One group.
    pub fn group(&self, id: GroupId) -> &Group {
        &self.groups()[id.index()]
    }

    /// All operations, each after those that it waits for.
    pub fn ops(&self) -> &[Op] {
        &self.written().ops
    }

    /// The ranks that take part in an operation.
    pub fn ranks_of(&self, op: OpId) -> impl Iterator<Item = u32> + '_ {
        members(self.groups(), &self.ops()[op.index()].work)
    }

    /// Checks whether a rank takes part in an operation; O(log members).
    pub fn has_rank(&self, op: OpId, rank: u32) -> bool {
        match &self.ops()[op.index()].work {
            OpWork::Collective(collective) => {
                self.written().sorted[collective.group.index()].binary_search(&rank).is_ok()
            }
            OpWork::Compute { .. } | OpWork::Transfer { .. } => {
                self.ranks_of(op).any(|member| member == rank)
            }
        }
    }

    /// The ranks that take part in both operations, in the order of the one that has fewer; O(log
    /// members) for each of that one.
    pub(crate) fn shared_ranks(&self, one: OpId, other: OpId) -> impl Iterator<Item = u32> + '_ {
        let count = |op: OpId| match &self.ops()[op.index()].work {
            OpWork::Collective(collective) => self.written().sorted[collective.group.index()].len(),
            OpWork::Compute { .. } | OpWork::Transfer { .. } => 1,
        };
        let (fewer, more) = if count(one) <= count(other) { (one, other) } else { (other, one) };
        self.ranks_of(fewer).filter(move |&rank| self.has_rank(more, rank))
    }

    /// The kind of group of a collective; transfers are the pipeline's. `None` for computation.
    pub fn group_kind(&self, op: OpId) -> Option<GroupKind> {
        match &self.ops()[op.index()].work {
            OpWork::Compute { .. } => None,
            OpWork::Collective(collective) => Some(self.group(collective.group).kind),
            OpWork::Transfer { .. } => Some(GroupKind::Pipeline),
        }
    }

    /// The computation of each rank in an iteration.
    pub fn computation(&self) -> Vec<Nanos> {
        if let Some(row) = &self.row {
            let of_step =
                |step: &Step| if let Step::Compute(duration) = step { *duration } else { Nanos::ZERO };
            let sum = row.steps().iter().map(of_step).fold(Nanos::ZERO, |sum, duration| sum + duration);
            return vec![sum; self.ranks as usize];
        }
        let mut sums = vec![Nanos::ZERO; self.ranks as usize];
        for op in self.ops() {
            if let OpWork::Compute { rank, duration } = op.work {
                sums[rank as usize] += duration;
            }
        }
        sums
    }
}

fn members<'a>(groups: &'a [Group], work: &'a OpWork) -> impl Iterator<Item = u32> + 'a {
    let (group, ends): (&[u32], [Option<u32>; 2]) = match work {
        OpWork::Compute { rank, .. } => (&[], [Some(*rank), None]),
        OpWork::Collective(collective) => (&groups[collective.group.index()].members, [None, None]),
        OpWork::Transfer { from, to, .. } => (&[], [Some(*from), (from != to).then_some(*to)]),
    };
    group.iter().copied().chain(ends.into_iter().flatten())
}

/// A stream of a rank: what is put on it runs in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Stream {
    /// The rank.
    pub rank: u32,
    /// The stream's number at the rank.
    pub number: u32,
}

/// Collects the operations of an iteration.
#[derive(Clone, Debug, Default)]
pub struct ProgramBuilder {
    ranks: u32,
    groups: Vec<Group>,
    ids: BTreeMap<Group, GroupId>,
    ops: Vec<Op>,
    streams: BTreeMap<Stream, Tail>,
    runs: u32,
}

/// Operations of which each waits for the one before.
type Run = u32;

/// What the next operation of a stream waits for: of each run the last one, with its place in the
/// run, since that waits for all others of the run. So a stream on which nothing is put waits for
/// few, however often it is made to wait.
#[derive(Clone, Debug, Default)]
struct Tail {
    /// The run of the operations that are put here.
    run: Run,
    /// How many were put.
    put: u32,
    last: BTreeMap<Run, (u32, OpId)>,
}

/// More runs than these meet in an operation of no time, so that not each that waits for them has
/// as many edges.
const MOST_RUNS: usize = 16;

impl ProgramBuilder {
    /// An empty program of so many ranks.
    pub fn new(ranks: u32) -> Self {
        Self { ranks, ..Self::default() }
    }

    /// The group of this kind and these members, in the order in which rings go round.
    ///
    /// # Errors
    /// If it has no members, one twice, or one that is no rank.
    pub fn group(&mut self, kind: GroupKind, members: Vec<u32>) -> Result<GroupId, ProgramError> {
        let group = Group { kind, members };
        if let Some(&known) = self.ids.get(&group) {
            return Ok(known);
        }
        if group.members.is_empty() {
            return Err(ProgramError::EmptyGroup { kind });
        }
        let mut sorted = group.members.clone();
        sorted.sort_unstable();
        if let Some(pair) = sorted.windows(2).find(|pair| pair[0] == pair[1]) {
            return Err(ProgramError::TwiceInGroup { kind, rank: pair[0] });
        }
        sorted.iter().try_for_each(|&rank| self.check(rank))?;
        let id = GroupId(self.groups.len() as u32);
        self.groups.push(group.clone());
        self.ids.insert(group, id);
        Ok(id)
    }

    fn check(&self, rank: u32) -> Result<(), ProgramError> {
        let last = self.ranks.checked_sub(1).ok_or(ProgramError::NoRanks)?;
        if rank > last { Err(ProgramError::UnknownRank { rank, last }) } else { Ok(()) }
    }

    /// Adds an operation that waits for `after` alone.
    pub fn add(&mut self, work: OpWork, after: Vec<OpId>) -> OpId {
        let id = OpId(self.ops.len() as u32);
        self.ops.push(Op { work, after });
        id
    }

    /// Has `op` wait for another one, too.
    pub fn wait(&mut self, op: OpId, on: OpId) {
        if let Some(op) = self.ops.get_mut(op.index()) {
            op.after.push(on);
        }
    }

    /// The tail of a stream, which begins a run where there is none.
    fn tail(&mut self, stream: Stream) -> &mut Tail {
        let runs = &mut self.runs;
        self.streams.entry(stream).or_insert_with(|| {
            *runs += 1;
            Tail { run: *runs, ..Tail::default() }
        })
    }

    /// What comes next on a stream waits for these: few.
    fn few(&mut self, stream: Stream) -> BTreeMap<Run, (u32, OpId)> {
        if self.streams.get(&stream).is_some_and(|tail| tail.last.len() > MOST_RUNS) {
            self.compute(stream, Nanos::ZERO);
        }
        self.streams.get(&stream).map(|tail| tail.last.clone()).unwrap_or_default()
    }

    /// Puts an operation on a stream: it waits for what was put there last, and what comes next
    /// waits for it. A collective is put on a stream of each member.
    pub fn put(&mut self, op: OpId, stream: Stream) {
        let tail = self.tail(stream);
        tail.put += 1;
        let next = BTreeMap::from([(tail.run, (tail.put, op))]);
        let before = core::mem::replace(&mut tail.last, next);
        if let Some(op) = self.ops.get_mut(op.index()) {
            op.after.extend(before.into_values().map(|(_, op)| op));
        }
    }

    /// Has `op` wait for what was put last on a stream, without putting it there.
    pub fn wait_on_stream(&mut self, op: OpId, stream: Stream) {
        let before = self.few(stream);
        if let Some(op) = self.ops.get_mut(op.index()) {
            op.after.extend(before.into_values().map(|(_, op)| op));
        }
    }

    /// Has what comes next on `stream` wait for these operations, and no others.
    pub fn leave_on_stream(&mut self, stream: Stream, ops: &[OpId]) {
        let first = self.runs + 1;
        self.runs += ops.len() as u32 + 1;
        let last = (first..).zip(ops).map(|(run, &op)| (run, (0, op))).collect();
        // What is put here next does not wait for what was put before.
        self.streams.insert(stream, Tail { run: self.runs, put: 0, last });
    }

    /// Has what comes next on `stream` wait for what was put last on another, as an event does.
    /// Where what comes next there waits for many, an operation of no time is put there, which
    /// stands for all of them.
    pub fn wait_for_stream(&mut self, stream: Stream, on: Stream) {
        let others = self.few(on);
        let last = &mut self.tail(stream).last;
        for (run, other) in others {
            let known = last.entry(run).or_insert(other);
            *known = other.max(*known);
        }
    }

    /// Adds computation on a stream.
    pub fn compute(&mut self, stream: Stream, duration: Nanos) -> OpId {
        let op = self.add(OpWork::Compute { rank: stream.rank, duration }, Vec::new());
        self.put(op, stream);
        op
    }

    /// Adds a collective, on the stream of this number of each member.
    ///
    /// # Errors
    /// If there is no such group.
    pub fn collective(&mut self, collective: Collective, number: u32) -> Result<OpId, ProgramError> {
        let (group, groups) = (collective.group, self.groups.len());
        let unknown = ProgramError::UnknownGroup { group: group.0, groups };
        let members = self.groups.get(group.index()).ok_or(unknown)?.members.clone();
        let op = self.add(OpWork::Collective(collective), Vec::new());
        members.into_iter().for_each(|rank| self.put(op, Stream { rank, number }));
        Ok(op)
    }

    /// Adds a transfer from one stream to another.
    pub fn transfer(&mut self, from: Stream, to: Stream, bytes: Bytes) -> OpId {
        let op = self.add(OpWork::Transfer { from: from.rank, to: to.rank, bytes }, Vec::new());
        self.put(op, from);
        self.put(op, to);
        op
    }

    /// Checks the program and puts its operations in order.
    ///
    /// # Errors
    /// The first thing that cannot be, by its number in the order of adding.
    pub fn build(self) -> Result<Program, ProgramError> {
        if self.ranks == 0 {
            return Err(ProgramError::NoRanks);
        }
        if self.ops.is_empty() {
            return Err(ProgramError::NoOps);
        }
        self.check_ops()?;
        let Self { ranks, groups, mut ops, .. } = self;
        for (index, op) in ops.iter_mut().enumerate() {
            op.after.sort_unstable();
            op.after.dedup();
            // A collective that is put on one stream twice stands there once.
            op.after.retain(|before| before.index() != index);
        }
        let order = in_order(&ops).map_err(|op| ProgramError::Cycle {
            op: op as u32,
            ops: ops.len(),
            what: named(&groups, &ops[op].work),
        })?;
        let mut place = vec![OpId(0); ops.len()];
        for (new, &old) in order.iter().enumerate() {
            place[old as usize] = OpId(new as u32);
        }
        let mut sorted = Vec::with_capacity(ops.len());
        for old in order {
            let Op { work, mut after } = ops[old as usize].clone();
            after.iter_mut().for_each(|before| *before = place[before.index()]);
            after.sort_unstable();
            sorted.push(Op { work, after });
        }
        let in_ascending_order = |group: &Group| {
            let mut members = group.members.clone();
            members.sort_unstable();
            members
        };
        let members = groups.iter().map(in_ascending_order).collect();
        let written = Written { groups, sorted: members, ops: sorted };
        Ok(Program { ranks, row: None, written: OnceLock::from(written) })
    }

    fn check_ops(&self) -> Result<(), ProgramError> {
        let mut sum = 0_u64;
        for (index, op) in self.ops.iter().enumerate() {
            let amount = match &op.work {
                OpWork::Compute { rank, duration } => self.check(*rank).map(|()| duration.0)?,
                OpWork::Transfer { from, to, bytes } => {
                    self.check(*from).and(self.check(*to)).map(|()| bytes.0)?
                }
                OpWork::Collective(collective) => {
                    let (group, groups) = (collective.group, self.groups.len());
                    let unknown = ProgramError::UnknownGroup { group: group.0, groups };
                    collective.check(self.groups.get(group.index()).ok_or(unknown)?)?;
                    collective.bytes.0
                }
            };
            sum = sum.checked_add(amount).filter(|&sum| sum < 1 << 62).ok_or(ProgramError::TooLarge)?;
            if let Some(on) = op.after.iter().find(|on| on.index() >= self.ops.len()) {
                return Err(ProgramError::UnknownOp { op: index as u32, on: on.0 });
            }
        }
        Ok(())
    }
}

fn named(groups: &[Group], work: &OpWork) -> String {
    match work {
        OpWork::Compute { rank, .. } => format!("computation of rank {rank}"),
        OpWork::Transfer { from, to, .. } => format!("transfer from rank {from} to rank {to}"),
        OpWork::Collective(collective) => {
            let group = &groups[collective.group.index()];
            format!("{} of {} ranks from {}", collective.kind, group.members.len(), group.members[0])
        }
    }
}

/// An order in which each operation follows those that it waits for: of those that could come next,
/// the one that was added first. Where there is none, an operation that is in a cycle or behind
/// one.
fn in_order(ops: &[Op]) -> Result<Vec<u32>, usize> {
    let mut waiting: Vec<usize> = ops.iter().map(|op| op.after.len()).collect();
    let mut first = vec![0_u32; ops.len() + 1];
    ops.iter().flat_map(|op| &op.after).for_each(|before| first[before.index() + 1] += 1);
    for op in 0..ops.len() {
        first[op + 1] += first[op];
    }
    let mut next = first.clone();
    let mut successors = vec![0_u32; first[ops.len()] as usize];
    for (index, op) in ops.iter().enumerate() {
        for before in &op.after {
            successors[next[before.index()] as usize] = index as u32;
            next[before.index()] += 1;
        }
    }
    let free = (0..ops.len()).filter(|&op| waiting[op] == 0).map(|op| Reverse(op as u32));
    let mut free: BinaryHeap<Reverse<u32>> = free.collect();
    let mut order = Vec::with_capacity(ops.len());
    while let Some(Reverse(op)) = free.pop() {
        order.push(op);
        for &after in &successors[first[op as usize] as usize..first[op as usize + 1] as usize] {
            waiting[after as usize] -= 1;
            if waiting[after as usize] == 0 {
                free.push(Reverse(after));
            }
        }
    }
    match waiting.iter().position(|&left| left > 0) {
        Some(op) => Err(op),
        None => Ok(order),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stream(rank: u32) -> Stream {
        Stream { rank, number: 0 }
    }

    #[test]
    fn operations_follow_what_they_wait_for_whatever_order_they_were_added_in() {
        let mut builder = ProgramBuilder::new(2);
        let group = builder.group(GroupKind::Data, vec![0, 1]).unwrap();
        let late = builder
            .add(OpWork::Collective(Collective::new(group, CollectiveKind::AllReduce, Bytes(8))), Vec::new());
        for rank in 0..2 {
            let compute = builder.add(OpWork::Compute { rank, duration: Nanos(5) }, Vec::new());
            builder.wait(late, compute);
        }
        let program = builder.build().unwrap();
        assert_eq!(program.ops()[2].after, [OpId(0), OpId(1)]);
        assert_eq!(program.ranks_of(OpId(2)).collect::<Vec<_>>(), [0, 1]);
        assert_eq!(program.computation(), [Nanos(5), Nanos(5)]);
    }

    #[test]
    fn shared_ranks_are_those_of_both_operations() {
        let mut builder = ProgramBuilder::new(6);
        let groups = [vec![4, 0, 2], vec![5, 2, 4, 1], vec![3]];
        let groups = groups.map(|members| builder.group(GroupKind::Data, members).unwrap());
        for group in groups {
            let collective = Collective::new(group, CollectiveKind::AllReduce, Bytes(8));
            builder.add(OpWork::Collective(collective), Vec::new());
        }
        builder.add(OpWork::Compute { rank: 2, duration: Nanos(1) }, Vec::new());
        builder.add(OpWork::Transfer { from: 4, to: 0, bytes: Bytes(1) }, Vec::new());
        builder.add(OpWork::Transfer { from: 5, to: 5, bytes: Bytes(1) }, Vec::new());
        let program = builder.build().unwrap();
        let ops = (0..program.ops().len() as u32).map(OpId);
        for (one, other) in ops.clone().flat_map(|one| ops.clone().map(move |other| (one, other))) {
            let mut found: Vec<u32> = program.shared_ranks(one, other).collect();
            found.sort_unstable();
            let mut ranks: Vec<u32> = program.ranks_of(one).collect();
            ranks.retain(|&rank| program.ranks_of(other).any(|member| member == rank));
            ranks.sort_unstable();
            assert_eq!(found, ranks, "{one:?} and {other:?}");
        }
    }

    #[test]
    fn ranks_that_come_to_collectives_in_different_orders_are_refused() {
        let mut builder = ProgramBuilder::new(2);
        let group = builder.group(GroupKind::Data, vec![0, 1]).unwrap();
        let add = |builder: &mut ProgramBuilder| {
            let collective = Collective::new(group, CollectiveKind::AllReduce, Bytes(8));
            builder.add(OpWork::Collective(collective), Vec::new())
        };
        let (a, b) = (add(&mut builder), add(&mut builder));
        [(a, 0), (b, 0), (b, 1), (a, 1)].into_iter().for_each(|(op, rank)| builder.put(op, stream(rank)));
        let refused = builder.build().unwrap_err();
        assert!(matches!(refused, ProgramError::Cycle { op: 0, .. }), "{refused}");
        assert!(refused.to_string().contains("all_reduce of 2 ranks"), "{refused}");
    }

    #[test]
    fn streams_run_side_by_side_and_meet_at_events() {
        let mut builder = ProgramBuilder::new(1);
        let (a, b) = (Stream { rank: 0, number: 0 }, Stream { rank: 0, number: 1 });
        builder.compute(a, Nanos(1));
        builder.wait_for_stream(b, a);
        builder.compute(b, Nanos(2));
        builder.compute(a, Nanos(3));
        builder.wait_for_stream(a, b);
        builder.compute(a, Nanos(4));
        let after: Vec<_> = builder.build().unwrap().ops().iter().map(|op| op.after.clone()).collect();
        assert_eq!(after, [vec![], vec![OpId(0)], vec![OpId(0)], vec![OpId(1), OpId(2)]]);
    }

    /// Streams as they are described: each is a list of what its next operation waits for.
    #[derive(Default)]
    struct Described {
        after: Vec<Vec<usize>>,
        streams: BTreeMap<u32, Vec<usize>>,
    }

    impl Described {
        fn compute(&mut self, stream: u32) {
            let before = self.streams.insert(stream, vec![self.after.len()]).unwrap_or_default();
            self.after.push(before);
        }

        fn wait_for_stream(&mut self, stream: u32, on: u32) {
            let others = self.streams.get(&on).cloned().unwrap_or_default();
            self.streams.entry(stream).or_default().extend(others);
        }
    }

    /// For each operation all that must be done before it; operations come after those that they
    /// wait for.
    fn before_each(after: &[Vec<usize>]) -> Vec<std::collections::BTreeSet<usize>> {
        let mut before: Vec<std::collections::BTreeSet<usize>> = Vec::new();
        for direct in after {
            let all = direct.iter().flat_map(|&on| before[on].iter().copied().chain([on]));
            let all = all.collect();
            before.push(all);
        }
        before
    }

    #[test]
    fn operations_wait_for_all_that_streams_are_described_to() {
        let mut random = cavalcade_model::SplitMix64::new(3);
        let mut below = |most: u32| (random.bits() % u64::from(most)) as u32;
        let mut joints = 0;
        for _ in 0..400 {
            let (mut builder, mut described) = (ProgramBuilder::new(1), Described::default());
            // Of each operation that is described its number in the builder.
            let mut ids: Vec<usize> = Vec::new();
            let streams = 1 + below(40);
            for _ in 0..below(150) {
                let [stream, on] = [0, 1].map(|_| Stream { rank: 0, number: below(streams) });
                match below(8) {
                    0..3 => {
                        ids.push(builder.compute(stream, Nanos(1)).index());
                        described.compute(stream.number);
                    }
                    3..7 => {
                        builder.wait_for_stream(stream, on);
                        described.wait_for_stream(stream.number, on.number);
                    }
                    _ => {
                        let ops: Vec<usize> = (0..ids.len()).filter(|_| below(4) == 0).collect();
                        let left: Vec<OpId> = ops.iter().map(|&op| OpId(ids[op] as u32)).collect();
                        builder.leave_on_stream(stream, &left);
                        described.streams.insert(stream.number, ops);
                    }
                }
            }
            let expected = before_each(&described.after);
            let after = builder.ops.iter().map(|op| op.after.iter().map(|on| on.index()).collect());
            let found = before_each(&after.collect::<Vec<_>>());
            for (op, expected) in expected.iter().enumerate() {
                let before = |other: &usize| found[ids[op]].contains(&ids[*other]);
                assert_eq!(
                    (0..ids.len()).filter(before).collect::<Vec<_>>(),
                    expected.iter().copied().collect::<Vec<_>>()
                );
            }
            joints += builder.ops.len() - ids.len();
        }
        assert!(joints > 10, "{joints}");
    }

    #[test]
    fn streams_that_wait_for_each_other_over_and_over_have_few_edges() {
        let edges = |streams: u32, rounds: u32| {
            let mut builder = ProgramBuilder::new(1);
            let main = Stream { rank: 0, number: 0 };
            for nth in 0..rounds {
                let other = Stream { rank: 0, number: 1 + nth % streams };
                builder.wait_for_stream(other, main);
                builder.compute(other, Nanos(1));
                builder.wait_for_stream(main, other);
            }
            builder.build().unwrap().ops().iter().map(|op| op.after.len()).sum::<usize>()
        };
        assert_eq!(edges(1, 3_000), 2_999);
        assert!(edges(8, 3_000) <= 8 * 3_000);
        assert!(edges(3_000, 3_000) <= 16 * 3_000);
    }

    #[test]
    fn what_cannot_be_is_refused_by_name() {
        assert_eq!(ProgramBuilder::new(0).build(), Err(ProgramError::NoRanks));
        assert_eq!(ProgramBuilder::new(1).build(), Err(ProgramError::NoOps));
        let mut builder = ProgramBuilder::new(2);
        let mut group = |members| builder.group(GroupKind::Tensor, members);
        assert_eq!(group(vec![]), Err(ProgramError::EmptyGroup { kind: GroupKind::Tensor }));
        assert_eq!(group(vec![0, 2]), Err(ProgramError::UnknownRank { rank: 2, last: 1 }));
        let twice = ProgramError::TwiceInGroup { kind: GroupKind::Tensor, rank: 1 };
        assert_eq!(group(vec![1, 0, 1]), Err(twice));
        builder.compute(stream(0), Nanos(1 << 61));
        builder.compute(stream(1), Nanos(1 << 61));
        assert_eq!(builder.build(), Err(ProgramError::TooLarge));
    }
}
