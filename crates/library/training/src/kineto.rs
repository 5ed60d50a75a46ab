//! Recordings of torch.profiler (Kineto): a file for each rank, or one that stands for all.
//!
//! How long a collective's kernel lasted shows mostly how long it waited for other ranks (up to 96
//! % in a recording of eight ranks), so it is not used. From kernels come **bytes of collectives
//! and times of everything else**:
//!
//! - Where a rank communicates and does not compute, time is dropped; what a run finds stands for
//!   it.
//! - Where it does neither, the host kept it waiting, and the time counts as computation unless the
//!   caller leaves it out.
//! - A collective waits for the computation before its kernel began.
//! - Computation waits for a collective, or for what is received, if none ran when its kernel
//!   ended. A recording does not show which waits for which across streams; this is what a
//!   processor that waits looks like. Who sends goes on.
//!
//! Execution traces of PyTorch beside the recordings tell the parts of all-to-alls (`graph.rs`).
//!
//! Over PyTorch's fake process group, where one GPU stands for many, no kernel communicates, and
//! what a GPU waited for cannot be seen. There the order in which the host launched things decides
//! (`launched.rs`).
//!
//! An iteration is a period of the repeating sequence of collectives, the second where there are
//! several, since profilers cut the first; where it does not repeat or does not end after the
//! first, or ranks repeat differently, it is the whole recording. Annotations of steps are the
//! host's, and may be far off. Clocks of hosts differ: events of two ranks are joined by the order
//! of their group's collectives, never by time.

mod busy;
mod calls;
mod event;
mod graph;
mod iteration;
mod launched;
mod recording;
mod tally;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use cavalcade_model::{Bytes, Nanos};
use cavalcade_trace::Note;

use crate::collective::{Collective, CollectiveKind, GroupKind};
use crate::error::{ReadError, ReadErrorKind};
use crate::program::{OpId, OpWork, ProgramBuilder, ProgramError, Stream, check_size};
use crate::rank_sets::{RankSet, RankSets};
use crate::read::{Host, Options, Read, WorkloadFile};
use busy::Busy;
use event::Meta;
use iteration::{Act, Iteration, Member, keep_pairs};
use recording::Recording;
use tally::Tally;

/// Reads recordings of all ranks of a job, or of one that stands for all if the options allow it.
///
/// # Errors
/// The first thing found wrong, with the file and the place.
pub fn read(files: Vec<WorkloadFile<'_>>, options: &Options) -> Result<Read, ReadError> {
    let (mut recordings, mut graphs) = (Vec::with_capacity(files.len()), Vec::new());
    for mut file in files {
        if is_graph(&file.head()?) {
            graphs.push(graph::read(&file.name, file.content)?);
        } else {
            recordings.push(recording::read(&file.name, file.content)?);
        }
    }
    if let (Some(graph), true) = (graphs.first(), recordings.is_empty()) {
        let found = "it is an execution trace of PyTorch, which has no times".to_owned();
        let expected = "recordings of torch.profiler";
        return Err(ReadError::of_whole(graph.name(), ReadErrorKind::Missing { found, expected }));
    }
    let given = recordings.len();
    let ranks = ranks(&mut recordings, options)?;
    let mut sets = RankSets::new(ranks);
    let mut iterations = Vec::with_capacity(recordings.len());
    let stands_for_all = recordings.len() == 1 && ranks > 1;
    // One rank's parts say nothing of what others send.
    let assigned = match stands_for_all {
        true => graph::Assigned { all_to_alls: 0, left_out: graphs.len() },
        false => graph::assign_parts(&mut recordings, &graphs)?,
    };
    for recording in &recordings {
        iterations.push(Iteration::of(recording, &mut sets, !stands_for_all, true)?);
    }
    // Where ranks do not repeat alike, an iteration of one need not be that of another.
    if iterations.windows(2).any(|pair| pair[0].repeats != pair[1].repeats) {
        iterations.clear();
        for recording in &recordings {
            iterations.push(Iteration::of(recording, &mut sets, !stands_for_all, false)?);
        }
    }
    keep_pairs(&mut iterations);
    let mut tally = Tally::default();
    recordings.iter().zip(&iterations).for_each(|(recording, iteration)| tally.add(recording, iteration));
    let longest = iterations.iter().map(|iteration| 4 * iteration.collectives.len() + 1).max().unwrap_or(0);
    check_size(ranks, longest).map_err(|error| ReadError::of_whole(&recordings[0].name, error.into()))?;
    let program = program(&recordings, &iterations, &mut sets, stands_for_all, options.host)?;
    let mut notes = tally.notes(stands_for_all.then(|| given - 1), options.host);
    let graph::Assigned { all_to_alls, left_out } = assigned;
    if all_to_alls > 0 {
        notes.push(Note::exact(format!(
            "the parts of {all_to_alls} all-to-alls in the recordings, by execution traces beside them"
        )));
    }
    if left_out > 0 {
        notes.push(Note::left_out(format!("{left_out} execution traces beside the recordings")));
    }
    Ok(Read { program, notes, measured: tally.measured() })
}

/// Whether a text begins as an execution trace of PyTorch does: operations without times, which are
/// recorded beside.
fn is_graph(head: &str) -> bool {
    let key = head.trim_start().strip_prefix('{').map(str::trim_start);
    key.is_some_and(|key| key.starts_with("\"schema\""))
}

/// How many ranks the job has, once the files are known to be those of all or of one that stands
/// for all.
fn ranks(recordings: &mut Vec<Recording>, options: &Options) -> Result<u32, ReadError> {
    recordings.sort_by_key(|recording| recording.rank);
    let Some(first) = recordings.first() else {
        return Err(ReadError::of_whole("the workload", ReadErrorKind::UnknownFormat));
    };
    let found = recordings.len() as u32;
    let world = match first.world.unwrap_or(found) {
        // A group of one, which was recorded for what a larger one would do.
        1 if found == 1 && options.one_for_all => options.ranks.unwrap_or(1),
        world => world,
    };
    let wrong = |recording: &Recording, kind| Err(ReadError::of_whole(&recording.name, kind));
    if let Err(error) = check_size(world, 1) {
        return wrong(first, error.into());
    }
    if let Some(expected) = options.ranks.filter(|&expected| expected != world) {
        let cure = "place the job on as many GPUs as it was recorded on";
        return wrong(first, ReadErrorKind::MissingRanks { found: world, expected, cure });
    }
    if found == 1 && world == 1 {
        return Ok(world);
    }
    if options.one_for_all && found != world {
        // Where not all are there, the first of those that are.
        recordings.truncate(1);
        return Ok(world);
    }
    if found != world {
        let cure = "give a file for each rank, or one and say that it stands for all";
        return wrong(first, ReadErrorKind::MissingRanks { found, expected: world, cure });
    }
    for (rank, recording) in (0..).zip(&*recordings) {
        if recording.world.unwrap_or(world) != world || recording.rank.is_some_and(|own| own != rank) {
            let problem = format!("a file of rank {rank} of {world} is not there, or another one is twice");
            return wrong(recording, ReadErrorKind::Contradiction { problem });
        }
    }
    Ok(world)
}

/// What a group's ranks share, by the words of its description.
fn group_kind(description: &str) -> GroupKind {
    let words = description.to_ascii_lowercase();
    let has = |known: &[&str]| {
        words.split(|letter: char| !letter.is_ascii_alphanumeric()).any(|word| known.contains(&word))
    };
    match () {
        () if has(&["tp", "tensor", "cp", "sp"]) => GroupKind::Tensor,
        () if has(&["pp", "pipeline"]) => GroupKind::Pipeline,
        () if has(&["ep", "expert", "experts"]) => GroupKind::Expert,
        () if has(&["dp", "ddp", "fsdp", "data", "shard", "replicate", "default"]) => GroupKind::Data,
        () => GroupKind::Other,
    }
}

/// The stream on which a rank computes; those of collectives follow.
const COMPUTE: u32 = 0;

/// A collective or transfer that a rank has reached, as recorded there.
struct Joined {
    op: OpId,
    act: Act,
    bytes: Bytes,
}

/// What joins ranks in order: the group, and of transfers between two the way.
type Key = (RankSet, Option<(u32, u32)>);

fn program(
    recordings: &[Recording],
    iterations: &[Iteration<'_>],
    sets: &mut RankSets,
    stands_for_all: bool,
    host: Host,
) -> Result<crate::program::Program, ReadError> {
    let world = sets.world();
    let mut builder = ProgramBuilder::new(world);
    // The collectives of each group in order, and the transfers of each way.
    let mut joined: BTreeMap<Key, Vec<Joined>> = BTreeMap::new();
    for rank in 0..world {
        let place = if stands_for_all { 0 } else { rank as usize };
        let (recording, iteration) = (&recordings[place], &iterations[place]);
        let wrong = |kind| ReadError::of_whole(&recording.name, kind);
        let mut counts: BTreeMap<Key, usize> = BTreeMap::new();
        let mut ops = Vec::with_capacity(iteration.collectives.len());
        for member in &iteration.collectives {
            let group = group_of(member, rank, sets, stands_for_all).map_err(wrong)?;
            let key = (group, member.act.way());
            let nth = counts.entry(key).or_default();
            let others = joined.entry(key).or_default();
            match others.get(*nth) {
                Some(other) => check_same(member, other, rank, *nth, sets.ranks(group)).map_err(wrong)?,
                None => {
                    let is_all_to_all = member.act == Act::Collective(CollectiveKind::AllToAll);
                    let splits =
                        (is_all_to_all && !stands_for_all).then(|| splits(iterations, sets, group, *nth));
                    let op = add(&mut builder, member, sets.ranks(group), stands_for_all, splits.flatten());
                    let op = op.map_err(|error| wrong(error.into()))?;
                    others.push(Joined {
                        op,
                        act: member.act,
                        bytes: member.buffer(sets.ranks(group).len()),
                    });
                }
            }
            ops.push(others[*nth].op);
            *nth += 1;
        }
        let put = if iteration.by_launch { launched::put } else { put };
        put(&mut builder, rank, iteration, &ops, host);
    }
    for (&(group, _), all) in joined.iter().filter(|((_, way), _)| !stands_for_all && way.is_none()) {
        for &rank in sets.ranks(group) {
            let nth = iterations[rank as usize].of_group.get(&group).map_or(0, Vec::len);
            if nth < all.len() {
                let ranks = sets.ranks(group);
                let problem =
                    format!("rank {rank} has no collective {nth} of group {ranks:?}, and others have");
                let kind = ReadErrorKind::Contradiction { problem };
                return Err(ReadError::of_whole(&recordings[rank as usize].name, kind));
            }
        }
    }
    builder.build().map_err(|error| ReadError::of_whole(&recordings[0].name, error.into()))
}

/// The group of a collective at a rank, whose own it is or that of the one that stands for all.
fn group_of(
    member: &Member<'_>,
    rank: u32,
    sets: &mut RankSets,
    stands_for_all: bool,
) -> Result<RankSet, ReadErrorKind> {
    let group = if stands_for_all { sets.shifted(member.ranks, rank) } else { Some(member.ranks) };
    let contradiction = |problem| ReadErrorKind::Contradiction { problem };
    let ranks = sets.ranks(member.ranks);
    let Some(group) = group else {
        let problem = format!("group {ranks:?} has no even stride, so one rank cannot stand for all");
        return Err(contradiction(problem));
    };
    if sets.has(group, rank) {
        return Ok(group);
    }
    Err(contradiction(format!("rank {rank} is in a collective of group {ranks:?}, which it is not in")))
}

/// Checks that a rank's collective, the nth of its group, is what another rank has there.
fn check_same(
    member: &Member<'_>,
    other: &Joined,
    rank: u32,
    nth: usize,
    ranks: &[u32],
) -> Result<(), ReadErrorKind> {
    let bytes = member.buffer(ranks.len());
    let &Joined { act, bytes: known, .. } = other;
    let may_differ = act == Act::Collective(CollectiveKind::AllToAll);
    if act == member.act && (known == bytes || may_differ) {
        return Ok(());
    }
    let name = |act| match act {
        Act::Collective(kind) => kind.name(),
        Act::Transfer { .. } => "transfer",
    };
    let (own, kind) = (name(member.act), name(act));
    let problem = format!(
        "collective {nth} of group {ranks:?} is a {own} of {bytes} at rank {rank}, and a {kind} of {known} elsewhere"
    );
    Err(ReadErrorKind::Contradiction { problem })
}

/// Adds the collective of a group, or the transfer, that a rank is the first to reach.
fn add(
    builder: &mut ProgramBuilder,
    member: &Member<'_>,
    ranks: &[u32],
    stands_for_all: bool,
    splits: Option<Vec<Bytes>>,
) -> Result<OpId, ProgramError> {
    let bytes = member.buffer(ranks.len());
    let kind = match member.act {
        Act::Collective(kind) => kind,
        Act::Transfer { from, to } => {
            return Ok(builder.add(OpWork::Transfer { from, to, bytes }, Vec::new()));
        }
    };
    let group = builder.group(group_kind(member.description), ranks.to_vec())?;
    let root = member.meta.root.filter(|_| !stands_for_all);
    let root = root.and_then(|root| ranks.iter().position(|&rank| rank == root)).unwrap_or(0) as u32;
    let collective = Collective { root, splits, ..Collective::new(group, kind, bytes) };
    Ok(builder.add(OpWork::Collective(collective), Vec::new()))
}

/// What each member of a group's nth all-to-all sends to each, where all reached it; `None` where
/// parts are even.
fn splits(iterations: &[Iteration<'_>], sets: &RankSets, group: RankSet, nth: usize) -> Option<Vec<Bytes>> {
    let ranks = sets.ranks(group);
    let meta = |&rank: &u32| {
        let iteration = iterations.get(rank as usize)?;
        Some(iteration.collectives[*iteration.of_group.get(&group)?.get(nth)?].meta)
    };
    let metas = ranks.iter().map(meta).collect::<Option<Vec<&Meta>>>()?;
    let parts = |meta: &Meta| {
        let all: u128 = meta.splits.iter().map(|&part| u128::from(part)).sum();
        (meta.splits.len() == ranks.len() && all > 0).then_some(all)
    };
    let are_alike = metas.windows(2).all(|pair| pair[0].input == pair[1].input);
    if are_alike && metas.iter().all(|meta| parts(meta).is_none()) {
        return None;
    }
    let mut rows = Vec::with_capacity(ranks.len() * ranks.len());
    for meta in metas {
        match parts(meta) {
            Some(all) => {
                let share = |part: u64| u128::from(meta.input.0) * u128::from(part) / all;
                rows.extend(meta.splits.iter().map(|&part| Bytes(share(part) as u64)));
            }
            // Without parts they are even.
            None => rows.extend(ranks.iter().map(|_| Bytes(meta.input.0.div_ceil(ranks.len() as u64)))),
        }
    }
    Some(rows)
}

/// Something that happens on a rank: a collective's kernel ends, or begins; ends first, but not
/// before its own beginning.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Edge {
    Ends,
    Begins,
    EndsAtOnce,
}

/// The stream of a rank's collective or transfer. What a rank sends stays behind nothing that it
/// receives, nor the other way round, whatever stream of the GPU both are on.
fn stream_of(member: &Member<'_>, rank: u32) -> u32 {
    match member.act {
        Act::Collective(_) => member.stream.saturating_add(1),
        Act::Transfer { from, to } if to == rank => u32::MAX - 2 * from,
        Act::Transfer { to, .. } => u32::MAX - 2 * to - 1,
    }
}

/// Puts the iteration of a rank on its streams.
fn put(builder: &mut ProgramBuilder, rank: u32, iteration: &Iteration<'_>, ops: &[OpId], host: Host) {
    let stream = |number: u32| Stream { rank, number };
    let mut edges: Vec<(u64, Edge, usize)> = Vec::new();
    for (nth, member) in iteration.collectives.iter().enumerate() {
        let begin = member.begin.max(iteration.begin);
        edges.push((begin, Edge::Begins, nth));
        edges.push(match member.end {
            end if end > begin => (end, Edge::Ends, nth),
            _ => (begin, Edge::EndsAtOnce, nth),
        });
    }
    edges.sort_unstable();
    let busy = Busy::of(iteration);
    let (mut since, mut pending) = (iteration.begin, 0);
    let flush = |builder: &mut ProgramBuilder, pending: &mut u64| {
        if *pending > 0 {
            builder.compute(stream(COMPUTE), Nanos(core::mem::take(pending)));
        }
    };
    for (at, edge, nth) in edges {
        pending += busy.own_time(since, at, host);
        since = since.max(at);
        let member = &iteration.collectives[nth];
        let of_collective = stream(stream_of(member, rank));
        // Who sends goes on: the bytes are on their way.
        let is_sent = member.act.way().is_some_and(|(from, _)| from == rank);
        match edge {
            Edge::Begins => {
                flush(builder, &mut pending);
                builder.wait_for_stream(of_collective, stream(COMPUTE));
                builder.put(ops[nth], of_collective);
            }
            // A processor that had nothing to do waited for it.
            Edge::Ends | Edge::EndsAtOnce if !is_sent && !busy.computes_at(at) => {
                flush(builder, &mut pending);
                builder.wait_for_stream(stream(COMPUTE), of_collective);
            }
            Edge::Ends | Edge::EndsAtOnce => {}
        }
    }
    pending += busy.own_time(since, iteration.end, host);
    flush(builder, &mut pending);
}
