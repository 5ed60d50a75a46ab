//! Recordings of torch.profiler (Kineto): a file for each rank, or one that stands for all.
//!
//! How long a collective's kernel lasted shows mostly how long it waited for other ranks (up to 96
//! % in a recording of eight ranks), so it is not used. From kernels come **bytes of collectives
//! and times of everything else**:
//!
//! - Where a rank communicates and does not compute, time is dropped; what a run finds stands for it.
//! - Where it does neither, the host kept it waiting, and the time counts as computation.
//! - A collective waits for the computation before its kernel began.
//! - Computation waits for a collective if none ran when its kernel ended. A recording does not
//!   show which waits for which across streams; this is what a processor that waits looks like.
//!
//! An iteration is a period of the repeating sequence of collectives, the second where there are several, since profilers
//! cut the first; where it does not repeat or does not end after the first, or ranks repeat differently, it is the whole
//! recording. Annotations of steps are the host's, and may be far off. Clocks of hosts differ: events of two ranks are
//! joined by the order of their group's collectives, never by time.

mod recording;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use cavalcade_model::{Bytes, Nanos};
use cavalcade_trace::Note;

use crate::collective::{Collective, CollectiveKind, GroupKind};
use crate::error::{ReadError, ReadErrorKind};
use crate::program::{OpId, OpWork, ProgramBuilder, ProgramError, Stream, check_size};
use crate::rank_sets::{RankSet, RankSets};
use crate::read::{Options, Read, WorkloadFile};
use recording::{GpuSpan, Meta, Ran, Recording, list};

/// Reads recordings of all ranks of a job, or of one that stands for all if the options allow it.
///
/// # Errors
/// The first thing found wrong, with the file and the place.
pub fn read(files: Vec<WorkloadFile<'_>>, options: &Options) -> Result<Read, ReadError> {
    let mut recordings = Vec::with_capacity(files.len());
    for file in files {
        recordings.push(recording::read(&file.name, file.content)?);
    }
    let ranks = ranks(&mut recordings, options)?;
    let mut sets = RankSets::new(ranks);
    let mut iterations = Vec::with_capacity(recordings.len());
    for recording in &recordings {
        iterations.push(Iteration::of(recording, &mut sets, true)?);
    }
    // Where ranks do not repeat alike, an iteration of one need not be that of another.
    if iterations.windows(2).any(|pair| pair[0].repeats != pair[1].repeats) {
        iterations.clear();
        for recording in &recordings {
            iterations.push(Iteration::of(recording, &mut sets, false)?);
        }
    }
    let mut tally = Tally::default();
    iterations.iter().for_each(|iteration| tally.add(iteration));
    let stands_for_all = recordings.len() == 1 && ranks > 1;
    let longest = iterations.iter().map(|iteration| 4 * iteration.collectives.len() + 1).max().unwrap_or(0);
    check_size(ranks, longest).map_err(|error| ReadError::of_whole(&recordings[0].name, error.into()))?;
    let program = program(&recordings, &iterations, &mut sets, stands_for_all)?;
    Ok(Read { program, notes: tally.notes(recordings.len(), stands_for_all) })
}

/// How many ranks the job has, once the files are known to be those of all or of one that stands for all.
fn ranks(recordings: &mut [Recording], options: &Options) -> Result<u32, ReadError> {
    recordings.sort_by_key(|recording| recording.rank);
    let Some(first) = recordings.first() else {
        return Err(ReadError::of_whole("the workload", ReadErrorKind::UnknownFormat));
    };
    let found = recordings.len() as u32;
    let world = first.world.unwrap_or(found);
    let wrong = |recording: &Recording, kind| Err(ReadError::of_whole(&recording.name, kind));
    if let Err(error) = check_size(world, 1) {
        return wrong(first, error.into());
    }
    if let Some(expected) = options.ranks.filter(|&expected| expected != world) {
        let cure = "place the job on as many GPUs as it was recorded on";
        return wrong(first, ReadErrorKind::MissingRanks { found: world, expected, cure });
    }
    if found == 1 && (world == 1 || options.one_for_all) {
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

/// A collective of an iteration.
struct Member<'a> {
    span: GpuSpan,
    meta: &'a Meta,
    kind: CollectiveKind,
    ranks: RankSet,
}

impl Member<'_> {
    /// What makes it the same collective in another iteration.
    fn said(&self) -> (CollectiveKind, Bytes, Bytes, RankSet) {
        (self.kind, self.meta.input, self.meta.output, self.ranks)
    }

    /// The whole buffer at a rank.
    fn buffer(&self) -> Bytes {
        if self.kind == CollectiveKind::AllGather { self.meta.output } else { self.meta.input }
    }
}

/// The iteration of a rank that is taken.
struct Iteration<'a> {
    begin: u64,
    end: u64,
    /// Everything on the GPU within it.
    spans: Vec<GpuSpan>,
    collectives: Vec<Member<'a>>,
    /// The places of the collectives of each group, in order.
    of_group: BTreeMap<RankSet, Vec<usize>>,
    /// How often it repeats in the recording.
    repeats: usize,
    /// Kernels that communicate without details, and sends and the like.
    unnamed: usize,
    left_out: usize,
}

impl<'a> Iteration<'a> {
    /// One iteration of a recording, or all of it where it does not repeat or is not to be `cut`.
    fn of(recording: &'a Recording, sets: &mut RankSets, cut: bool) -> Result<Self, ReadError> {
        let wrong = |kind| ReadError::of_whole(&recording.name, kind);
        let (mut members, mut left_out) = (Vec::new(), 0);
        let mut known = BTreeMap::new();
        for &span in &recording.spans {
            let Ran::Collective(meta) = span.what else { continue };
            let meta = &recording.metas[meta as usize];
            match kind(&meta.collective) {
                Some(Some(kind)) => {
                    let said = (&meta.ranks, &meta.group, meta.size, meta.start, meta.stride);
                    let ranks = match known.get(&said) {
                        Some(&ranks) => ranks,
                        None => {
                            let ranks = members_of(meta, recording, sets.world()).map_err(wrong)?;
                            *known.entry(said).or_insert(sets.number(ranks))
                        }
                    };
                    members.push(Member { span, meta, kind, ranks });
                }
                Some(None) => left_out += 1,
                None => {
                    let known = "those of torch.distributed, as allreduce, _allgather_base, all_to_allv";
                    let found = meta.collective.clone();
                    return Err(wrong(ReadErrorKind::Unknown { what: "collective", found, known }));
                }
            }
        }
        let unnamed = recording.spans.iter().filter(|span| span.what == Ran::Unnamed).count();
        if members.is_empty() && unnamed > 0 {
            let found = format!("{unnamed} kernels communicate by their names, and none says how many bytes");
            let expected = "a recording of PyTorch 2.3 or newer, which has them";
            return Err(wrong(ReadErrorKind::Missing { found, expected }));
        }
        let [first, last] = [recording.spans.first(), recording.spans.iter().max_by_key(|span| span.end)];
        let (Some(first), Some(last)) = (first, last) else {
            let found = "nothing ran on a GPU".to_owned();
            let expected = "a recording of GPU activity";
            return Err(wrong(ReadErrorKind::Missing { found, expected }));
        };
        let (mut begin, mut end, mut repeats) = (first.begin, last.end, 1);
        let said: Vec<_> = members.iter().map(Member::said).collect();
        if let Some(period) = period(&said).filter(|_| cut) {
            // It ends when all its collectives have, and the next begins there. They stand by begin: of those on several
            // streams the last to begin need not be the last to end.
            let ended = |count: usize| members[..count].iter().map(|member| member.span.end).max();
            if let (Some(first), Some(second)) = (ended(period), ended(2 * period))
                && first < second
            {
                (begin, end, repeats) = (first, second, members.len() / period);
                members = members.into_iter().skip(period).take(period).collect();
            }
        }
        let spans = recording.spans.iter().filter(|span| span.end > begin && span.begin < end);
        let mut of_group: BTreeMap<RankSet, Vec<usize>> = BTreeMap::new();
        for (place, member) in members.iter().enumerate() {
            of_group.entry(member.ranks).or_default().push(place);
        }
        Ok(Self {
            begin,
            end,
            spans: spans.copied().collect(),
            collectives: members,
            of_group,
            repeats,
            unnamed,
            left_out,
        })
    }
}

/// The collective of a name: `None` for an unknown one, `Some(None)` for one that is left out.
#[allow(clippy::option_option, reason = "known and left out is not unknown")]
fn kind(name: &str) -> Option<Option<CollectiveKind>> {
    let name = name.trim_start_matches('_').to_ascii_lowercase().replace("all_", "all");
    Some(Some(match name.as_str() {
        _ if name.starts_with("allreduce") => CollectiveKind::AllReduce,
        _ if name.starts_with("allgather") => CollectiveKind::AllGather,
        _ if name.starts_with("reduce_scatter") || name.starts_with("reducescatter") => {
            CollectiveKind::ReduceScatter
        }
        _ if name.starts_with("allto") => CollectiveKind::AllToAll,
        "broadcast" | "broadcast_oop" => CollectiveKind::Broadcast,
        "reduce" | "reduce_oop" => CollectiveKind::Reduce,
        "barrier" => CollectiveKind::Barrier,
        "send" | "recv" | "gather" | "scatter" | "coalesced" | "init" => return Some(None),
        _ => return None,
    }))
}

/// The ranks of a collective, which may be written out, cut, or given by the group's name.
fn members_of(meta: &Meta, recording: &Recording, world: u32) -> Result<Vec<u32>, ReadErrorKind> {
    let written = list(&meta.ranks).filter(|ranks| !ranks.is_empty());
    let written =
        written.map(|ranks| ranks.into_iter().filter_map(|rank| u32::try_from(rank).ok()).collect());
    let configured = || recording.groups.get(&meta.group).filter(|ranks| !ranks.is_empty()).cloned();
    let regular = || {
        let (start, stride, size) = (meta.start?, meta.stride.filter(|&stride| stride > 0)?, meta.size?);
        let last = u64::from(start) + u64::from(stride) * u64::from(size.checked_sub(1)?);
        (last < u64::from(world)).then(|| (0..size).map(|place| start + place * stride).collect())
    };
    let all = || (meta.size == Some(world)).then(|| (0..world).collect());
    let ranks: Option<Vec<u32>> = written.or_else(configured).or_else(regular).or_else(all);
    let ranks = ranks.filter(|ranks| meta.size.is_none_or(|size| size as usize == ranks.len()));
    ranks.ok_or_else(|| ReadErrorKind::Missing {
        found: format!(
            "the ranks of group {:?} are cut off ({}), and nothing else tells them",
            meta.group, meta.ranks
        ),
        expected: "its ranks in pg_config, or its first rank and stride",
    })
}

/// The least number of elements after which a sequence repeats to the end, be it within a period; `None` where it does not
/// come to twice.
fn period<T: PartialEq>(sequence: &[T]) -> Option<usize> {
    // Of each beginning how many elements it ends with that it begins with, too: all but a period (Knuth, Morris and Pratt).
    let mut borders: Vec<usize> = Vec::with_capacity(sequence.len());
    for element in sequence {
        let mut border = borders.last().copied();
        while let Some(kept) = border.filter(|&kept| sequence[kept] != *element) {
            border = kept.checked_sub(1).map(|shorter| borders[shorter]);
        }
        borders.push(border.map_or(0, |kept| kept + 1));
    }
    let period = sequence.len() - borders.last()?;
    (2 * period <= sequence.len()).then_some(period)
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

/// A collective that a rank has reached, as recorded there.
struct Joined {
    op: OpId,
    kind: CollectiveKind,
    bytes: Bytes,
}

fn program(
    recordings: &[Recording],
    iterations: &[Iteration<'_>],
    sets: &mut RankSets,
    stands_for_all: bool,
) -> Result<crate::program::Program, ReadError> {
    let world = sets.world();
    let mut builder = ProgramBuilder::new(world);
    // The collectives of each group in order.
    let mut joined: BTreeMap<RankSet, Vec<Joined>> = BTreeMap::new();
    for rank in 0..world {
        let place = if stands_for_all { 0 } else { rank as usize };
        let (recording, iteration) = (&recordings[place], &iterations[place]);
        let wrong = |kind| ReadError::of_whole(&recording.name, kind);
        let mut counts: BTreeMap<RankSet, usize> = BTreeMap::new();
        let mut ops = Vec::with_capacity(iteration.collectives.len());
        for member in &iteration.collectives {
            let group = group_of(member, rank, sets, stands_for_all).map_err(wrong)?;
            let nth = counts.entry(group).or_default();
            let others = joined.entry(group).or_default();
            match others.get(*nth) {
                Some(other) => check_same(member, other, rank, *nth, sets.ranks(group)).map_err(wrong)?,
                None => {
                    let splits = (member.kind == CollectiveKind::AllToAll && !stands_for_all)
                        .then(|| splits(iterations, sets, group, *nth));
                    let op = add(&mut builder, member, sets.ranks(group), stands_for_all, splits.flatten());
                    let op = op.map_err(|error| wrong(error.into()))?;
                    others.push(Joined { op, kind: member.kind, bytes: member.buffer() });
                }
            }
            ops.push(others[*nth].op);
            *nth += 1;
        }
        put(&mut builder, rank, iteration, &ops);
    }
    for (&group, all) in joined.iter().filter(|_| !stands_for_all) {
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
    let (own, bytes) = (member.kind, member.buffer());
    let &Joined { kind, bytes: known, .. } = other;
    let may_differ = kind == CollectiveKind::AllToAll;
    if kind == own && (known == bytes || may_differ) {
        return Ok(());
    }
    let problem = format!(
        "collective {nth} of group {ranks:?} is a {own} of {bytes} at rank {rank}, and a {kind} of {known} elsewhere"
    );
    Err(ReadErrorKind::Contradiction { problem })
}

/// Adds the collective of a group that a rank is the first to reach.
fn add(
    builder: &mut ProgramBuilder,
    member: &Member<'_>,
    ranks: &[u32],
    stands_for_all: bool,
    splits: Option<Vec<Bytes>>,
) -> Result<OpId, ProgramError> {
    let group = builder.group(group_kind(&member.meta.description), ranks.to_vec())?;
    let root = member.meta.root.filter(|_| !stands_for_all);
    let root = root.and_then(|root| ranks.iter().position(|&rank| rank == root)).unwrap_or(0) as u32;
    let collective = Collective { root, splits, ..Collective::new(group, member.kind, member.buffer()) };
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
    if metas.iter().all(|meta| parts(meta).is_none()) {
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

/// Something that happens on a rank: a collective's kernel ends, or begins; ends first, but not before its own beginning.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Edge {
    Ends,
    Begins,
    EndsAtOnce,
}

/// Puts the iteration of a rank on its streams.
fn put(builder: &mut ProgramBuilder, rank: u32, iteration: &Iteration<'_>, ops: &[OpId]) {
    let stream = |number: u32| Stream { rank, number };
    let mut edges: Vec<(u64, Edge, usize)> = Vec::new();
    for (nth, member) in iteration.collectives.iter().enumerate() {
        let begin = member.span.begin.max(iteration.begin);
        edges.push((begin, Edge::Begins, nth));
        edges.push(match member.span.end {
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
        pending += busy.own_time(since, at);
        since = since.max(at);
        let of_collective = stream(iteration.collectives[nth].span.stream.saturating_add(1));
        match edge {
            Edge::Begins => {
                flush(builder, &mut pending);
                builder.wait_for_stream(of_collective, stream(COMPUTE));
                builder.put(ops[nth], of_collective);
            }
            // A processor that had nothing to do waited for it.
            Edge::Ends | Edge::EndsAtOnce if !busy.computes_at(at) => {
                flush(builder, &mut pending);
                builder.wait_for_stream(stream(COMPUTE), of_collective);
            }
            Edge::Ends | Edge::EndsAtOnce => {}
        }
    }
    pending += busy.own_time(since, iteration.end);
    flush(builder, &mut pending);
}

/// When a rank computed, and when it communicated, as spans that do not overlap.
struct Busy {
    computes: Vec<(u64, u64)>,
    communicates: Vec<(u64, u64)>,
}

impl Busy {
    fn of(iteration: &Iteration<'_>) -> Self {
        let spans = |is_computation: bool| {
            let spans = iteration.spans.iter();
            let of_kind = spans.filter(|span| (span.what == Ran::Computation) == is_computation);
            merged(of_kind.map(|span| (span.begin, span.end)))
        };
        Self { computes: spans(true), communicates: spans(false) }
    }

    /// The part of a window that is not communication alone.
    fn own_time(&self, from: u64, to: u64) -> u64 {
        if from >= to {
            return 0;
        }
        let window = (from, to);
        let both: u64 =
            within(&self.computes, window).map(|window| length(within(&self.communicates, window))).sum();
        // Both at once is part of all communication, which is part of the window.
        (to - from).saturating_sub(length(within(&self.communicates, window)).saturating_sub(both))
    }

    fn computes_at(&self, at: u64) -> bool {
        let next = self.computes.partition_point(|&(_, end)| end <= at);
        self.computes.get(next).is_some_and(|&(begin, _)| begin < at)
    }
}

/// Spans in order of their begin, without overlap.
fn merged(spans: impl Iterator<Item = (u64, u64)>) -> Vec<(u64, u64)> {
    let mut merged: Vec<(u64, u64)> = Vec::new();
    for (begin, end) in spans {
        match merged.last_mut() {
            Some(last) if begin <= last.1 => last.1 = last.1.max(end),
            _ => merged.push((begin, end)),
        }
    }
    merged
}

/// The length of spans that do not overlap.
fn length(spans: impl Iterator<Item = (u64, u64)>) -> u64 {
    spans.map(|(begin, end)| end.saturating_sub(begin)).sum()
}

/// The parts of spans that lie in a window.
fn within(spans: &[(u64, u64)], (from, to): (u64, u64)) -> impl Iterator<Item = (u64, u64)> + '_ {
    let first = spans.partition_point(|&(_, end)| end <= from);
    let inside = spans[first..].iter().take_while(move |&&(begin, _)| begin < to);
    inside.map(move |&(begin, end)| (begin.max(from), end.min(to)))
}

/// The content of notes.
#[derive(Default)]
struct Tally {
    collectives: usize,
    unnamed: usize,
    left_out: usize,
    repeats: usize,
    computes: u64,
    communicates: u64,
    whole: u64,
}

impl Tally {
    fn add(&mut self, iteration: &Iteration<'_>) {
        let busy = Busy::of(iteration);
        let window = (iteration.begin, iteration.end);
        self.collectives += iteration.collectives.len();
        self.unnamed += iteration.unnamed;
        self.left_out += iteration.left_out;
        self.repeats = iteration.repeats;
        // Clocks of a damaged file may say anything.
        let add = |sum: &mut u64, more: u64| *sum = sum.saturating_add(more);
        add(&mut self.computes, length(within(&busy.computes, window)));
        add(&mut self.communicates, length(within(&busy.communicates, window)));
        add(&mut self.whole, iteration.end.saturating_sub(iteration.begin));
    }

    fn notes(&self, files: usize, stands_for_all: bool) -> Vec<Note> {
        let each = files.max(1) as u64;
        let mean = |sum: u64| format!("{:.3} ms", (sum / each) as f64 / 1e6);
        let mut notes = vec![
            Note::exact(format!("bytes of {} collectives, by what they say of themselves", self.collectives)),
            Note::exact(format!("{} a rank of kernels and copies", mean(self.computes))),
            Note::estimated(
                "time in which a GPU did nothing and nobody was waited for: the host's, taken as computation",
            ),
            Note::estimated("what waits for what across streams, by where a GPU had nothing to do"),
            Note::left_out(format!(
                "how long kernels of collectives lasted ({} a rank): mostly waiting for others",
                mean(self.communicates)
            )),
        ];
        notes.push(if self.repeats > 1 {
            Note::estimated(format!(
                "an iteration of {}, by collectives that repeat {} times",
                mean(self.whole),
                self.repeats
            ))
        } else {
            Note::estimated(format!("the whole recording of {} as one iteration", mean(self.whole)))
        });
        if stands_for_all {
            notes.push(Note::estimated("all other ranks: the one that was recorded stands for them"));
        }
        if self.unnamed > 0 {
            notes.push(Note::left_out(format!(
                "{} kernels that communicate by their names and do not say what",
                self.unnamed
            )));
        }
        if self.left_out > 0 {
            notes.push(Note::left_out(format!("{} sends, receives, gathers and scatters", self.left_out)));
        }
        notes
    }
}
