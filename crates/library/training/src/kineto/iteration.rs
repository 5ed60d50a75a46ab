//! The iteration of a rank that is taken out of its recording: a period of the repeating sequence
//! of collectives.

use std::collections::{BTreeMap, BTreeSet};

use cavalcade_model::Bytes;

use super::event::{Meta, list};
use super::recording::{GpuSpan, Ran, Recording};
use crate::collective::CollectiveKind;
use crate::error::{ReadError, ReadErrorKind};
use crate::rank_sets::{RankSet, RankSets};

/// What a member of an iteration does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Act {
    /// It takes part in a collective.
    Collective(CollectiveKind),
    /// It is the one end or the other of what a rank sends to another.
    Transfer { from: u32, to: u32 },
}

impl Act {
    /// From which rank to which, of a transfer.
    pub(super) fn way(self) -> Option<(u32, u32)> {
        match self {
            Self::Collective(_) => None,
            Self::Transfer { from, to } => Some((from, to)),
        }
    }
}

/// A collective of an iteration, or an end of a transfer.
pub(super) struct Member<'a> {
    /// When its kernel began and ended, or when the host called it.
    pub(super) begin: u64,
    pub(super) end: u64,
    /// The stream of its kernel.
    pub(super) stream: u32,
    /// From when on what the host launches waits for it, where the host called it.
    pub(super) waited: Option<u64>,
    pub(super) meta: &'a Meta,
    /// The description of its group.
    pub(super) description: &'a str,
    pub(super) act: Act,
    pub(super) ranks: RankSet,
}

impl Member<'_> {
    /// What makes it the same collective in another iteration.
    fn said(&self) -> (Act, Bytes, Bytes, RankSet) {
        (self.act, self.meta.input, self.meta.output, self.ranks)
    }

    /// The whole buffer at a rank of a group of so many. Of a gather some have the input alone.
    pub(super) fn buffer(&self, members: usize) -> Bytes {
        match self.act {
            Act::Collective(CollectiveKind::AllGather) if self.meta.output > Bytes::ZERO => self.meta.output,
            Act::Collective(CollectiveKind::AllGather) => {
                Bytes(self.meta.input.0.saturating_mul(members as u64))
            }
            Act::Collective(_) => self.meta.input,
            Act::Transfer { .. } => self.meta.input.max(self.meta.output),
        }
    }
}

/// The iteration of a rank that is taken.
pub(super) struct Iteration<'a> {
    /// Whether nothing on the GPU communicated, so that the host's time orders it.
    pub(super) by_launch: bool,
    pub(super) begin: u64,
    pub(super) end: u64,
    /// Everything on the GPU within it.
    pub(super) spans: Vec<GpuSpan>,
    pub(super) collectives: Vec<Member<'a>>,
    /// The places of the collectives of each group, in order.
    pub(super) of_group: BTreeMap<RankSet, Vec<usize>>,
    /// How often it repeats in the recording.
    pub(super) repeats: usize,
    /// Gathers and the like, and transfers of which an end is not there.
    pub(super) left_out: usize,
    /// Collectives that name no group, and were given one by its size.
    pub(super) neighbours: usize,
}

/// What communicated in a recording, before it is known whether it is a collective.
struct Heard<'a> {
    begin: u64,
    end: u64,
    stream: u32,
    waited: Option<u64>,
    name: &'a str,
    meta: Option<&'a Meta>,
}

/// Everything of a recording that communicated, in order.
fn heard(recording: &Recording) -> impl Iterator<Item = Heard<'_>> {
    let kernels = recording.spans.iter().filter_map(|span| {
        let Ran::Collective(meta) = span.what else { return None };
        let meta = &recording.metas[meta as usize];
        let &GpuSpan { begin, end, stream, .. } = span;
        Some(Heard { begin, end, stream, waited: None, name: &meta.collective, meta: Some(meta) })
    });
    let calls = recording.calls.iter().map(|call| Heard {
        begin: call.begin,
        end: call.end,
        stream: 0,
        waited: call.waited,
        name: &call.name,
        meta: call.meta.as_ref(),
    });
    kernels.chain(calls)
}

impl<'a> Iteration<'a> {
    /// One iteration of a recording, or all of it where it does not repeat or is not to be `cut`.
    /// Transfers have both of their ends only where all ranks were `recorded`.
    pub(super) fn of(
        recording: &'a Recording,
        sets: &mut RankSets,
        recorded: bool,
        cut: bool,
    ) -> Result<Self, ReadError> {
        let wrong = |kind| ReadError::of_whole(&recording.name, kind);
        let (mut members, mut left_out, mut neighbours) = (Vec::new(), 0, 0);
        let (mut unsaid, mut known) = (0, BTreeMap::new());
        for Heard { begin, end, stream, waited, name, meta } in heard(recording) {
            let way = meta.and_then(|meta| way(name, meta, recording.rank?, sets.world()));
            let is_paired = recorded && recording.calls.is_empty();
            if let (Some((from, to)), Some(meta), true) = (way, meta, is_paired) {
                let ranks = sets.number(vec![from.min(to), from.max(to)]);
                let act = Act::Transfer { from, to };
                members.push(Member { begin, end, stream, waited, meta, description: "", act, ranks });
                continue;
            }
            let kind = match kind(name) {
                Some(Some(kind)) => kind,
                Some(None) => {
                    left_out += 1;
                    continue;
                }
                None => {
                    let known = "those of torch.distributed, as allreduce, _allgather_base, all_to_allv";
                    let found = name.to_owned();
                    return Err(wrong(ReadErrorKind::Unknown { what: "collective", found, known }));
                }
            };
            let Some(meta) = meta else {
                unsaid += usize::from(kind != CollectiveKind::Barrier);
                continue;
            };
            let said = (&meta.ranks, &meta.group, meta.size, meta.start, meta.stride);
            let (ranks, is_guess, description) = match known.get(&said) {
                Some(&known_ranks) => known_ranks,
                None => {
                    let (ranks, is_guess) = members_of(meta, recording, sets.world()).map_err(wrong)?;
                    let is_all = ranks.len() == sets.world() as usize;
                    let configured = recording.descriptions.get(&ranks).map(String::as_str);
                    let description = configured.unwrap_or(if is_all { "default" } else { "" });
                    *known.entry(said).or_insert((sets.number(ranks), is_guess, description))
                }
            };
            let description = if meta.description.is_empty() { description } else { &meta.description };
            neighbours += usize::from(is_guess);
            let act = Act::Collective(kind);
            members.push(Member { begin, end, stream, waited, meta, description, act, ranks });
        }
        let by_launch = !recording.calls.is_empty();
        if unsaid > 0 {
            let found = format!("{unsaid} operations of torch.distributed say no sizes");
            let expected = "a recording with record_shapes=True";
            return Err(wrong(ReadErrorKind::Missing { found, expected }));
        }
        let unnamed = recording.told.name;
        if members.is_empty() && unnamed > 0 {
            let found = format!("{unnamed} kernels communicate by their names, and none says how many bytes");
            let expected = "a recording of PyTorch 2.3 or newer, or one with record_shapes=True";
            return Err(wrong(ReadErrorKind::Missing { found, expected }));
        }
        let Some((mut begin, mut end)) = extent(recording) else {
            let found = "nothing ran on a GPU".to_owned();
            let expected = "a recording of GPU activity";
            return Err(wrong(ReadErrorKind::Missing { found, expected }));
        };
        let mut repeats = 1;
        let said: Vec<_> = members.iter().map(Member::said).collect();
        if let Some(period) = period(&said).filter(|_| cut) {
            // It ends when all its collectives have, and the next begins there. They stand by
            // begin: of those on several streams the last to begin need not be the last to end.
            let ended = |count: usize| members[..count].iter().map(|member| member.end).max();
            if let (Some(first), Some(second)) = (ended(period), ended(2 * period))
                && first < second
            {
                (begin, end, repeats) = (first, second, members.len() / period);
                members = members.into_iter().skip(period).take(period).collect();
            }
        }
        let is_within = |span: &&GpuSpan| match by_launch {
            true => span.launched >= begin && span.launched < end,
            false => span.end > begin && span.begin < end,
        };
        let spans = recording.spans.iter().filter(is_within).copied().collect();
        let (of_group, collectives) = (by_group(&members), members);
        Ok(Self { by_launch, begin, end, spans, collectives, of_group, repeats, left_out, neighbours })
    }
}

/// The places of collectives of each group.
fn by_group(members: &[Member<'_>]) -> BTreeMap<RankSet, Vec<usize>> {
    let mut of_group: BTreeMap<RankSet, Vec<usize>> = BTreeMap::new();
    for (place, member) in members.iter().enumerate().filter(|(_, member)| member.act.way().is_none()) {
        of_group.entry(member.ranks).or_default().push(place);
    }
    of_group
}

/// Leaves transfers out of which one end was recorded and the other was not: a recording may end
/// between. `iterations` are those of all ranks.
pub(super) fn keep_pairs(iterations: &mut [Iteration<'_>]) {
    // Of each way how often its sender sent and its receiver received.
    let mut ends: BTreeMap<(u32, u32), [usize; 2]> = BTreeMap::new();
    for (rank, iteration) in (0..).zip(iterations.iter()) {
        for (from, to) in iteration.collectives.iter().filter_map(|member| member.act.way()) {
            ends.entry((from, to)).or_default()[usize::from(rank == to)] += 1;
        }
    }
    for iteration in iterations.iter_mut() {
        let (mut seen, before) = (BTreeMap::new(), iteration.collectives.len());
        iteration.collectives.retain(|member| {
            let Some(way) = member.act.way() else { return true };
            let nth: &mut usize = seen.entry(way).or_default();
            *nth += 1;
            *nth <= ends[&way][0].min(ends[&way][1])
        });
        iteration.left_out += before - iteration.collectives.len();
        iteration.of_group = by_group(&iteration.collectives);
    }
}

/// From which rank to which a send or receive of the rank `own` goes, where that is recorded.
fn way(name: &str, meta: &Meta, own: u32, world: u32) -> Option<(u32, u32)> {
    let (from, to) = match name {
        "send" => (own, meta.receiver?),
        "recv" => (meta.root?, own),
        _ => return None,
    };
    (from != to && from.max(to) < world).then_some((from, to))
}

/// When a recording begins and ends: on the GPU, or where nothing there communicates at the host.
fn extent(recording: &Recording) -> Option<(u64, u64)> {
    let [first, last] = [recording.spans.first()?, recording.spans.iter().max_by_key(|span| span.end)?];
    if recording.calls.is_empty() {
        return Some((first.begin, last.end));
    }
    let launched = || recording.spans.iter().map(|span| span.launched);
    let begin = launched().chain(recording.calls.iter().map(|call| call.begin)).min()?;
    let end = launched().chain(recording.calls.iter().map(|call| call.end)).max()?;
    Some((begin, end.saturating_add(1)))
}

/// Returns whether a collective of this name is an all-to-all.
pub(super) fn is_all_to_all(name: &str) -> bool {
    kind(name) == Some(Some(CollectiveKind::AllToAll))
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
        "send" | "recv" | "recv_any_source" | "gather" | "scatter" | "coalesced" | "init" => {
            return Some(None);
        }
        _ => return None,
    }))
}

/// The ranks of a collective, which may be written out, cut, or given by the group's name; and
/// whether they are only likely.
fn members_of(meta: &Meta, recording: &Recording, world: u32) -> Result<(Vec<u32>, bool), ReadErrorKind> {
    // A group of one that stands for all.
    let stands_for_all = recording.world == Some(1) && world > 1;
    if meta.names_no_group() {
        return likely_members(meta, recording, world, stands_for_all);
    }
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
    let ranks = ranks.ok_or_else(|| ReadErrorKind::Missing {
        found: format!(
            "the ranks of group {:?} are cut off ({}), and nothing else tells them",
            meta.group, meta.ranks
        ),
        expected: "its ranks in pg_config, or its first rank and stride",
    })?;
    Ok((if stands_for_all { (0..world).collect() } else { ranks }, false))
}

/// The ranks of a collective that names no group: those of the group that the recording has of its
/// size, or else neighbours.
fn likely_members(
    meta: &Meta,
    recording: &Recording,
    world: u32,
    stands_for_all: bool,
) -> Result<(Vec<u32>, bool), ReadErrorKind> {
    if stands_for_all {
        return Ok(((0..world).collect(), false));
    }
    let own = recording.rank.unwrap_or(0);
    let fits =
        |ranks: &&Vec<u32>| ranks.contains(&own) && meta.size.is_none_or(|size| size as usize == ranks.len());
    let configured: BTreeSet<&Vec<u32>> = recording.groups.values().filter(fits).collect();
    let mut configured = configured.into_iter();
    match (configured.next(), configured.next(), meta.size) {
        (Some(ranks), None, _) => Ok((ranks.clone(), false)),
        (None, _, None) => Ok(((0..world).collect(), false)),
        (None, _, Some(size)) if size == world => Ok(((0..world).collect(), false)),
        (None, _, Some(size)) if size > 0 && size < world && world.is_multiple_of(size) => {
            let first = own / size * size;
            Ok(((first..first + size).collect(), true))
        }
        _ => Err(ReadErrorKind::Missing {
            found: format!("nothing tells the group of {}", meta.collective),
            expected: "a recording of one group, or one whose collectives say theirs (PyTorch 2.3 or newer)",
        }),
    }
}

/// The least number of elements after which a sequence repeats to the end, be it within a period;
/// `None` where it does not come to twice.
pub(super) fn period<T: PartialEq>(sequence: &[T]) -> Option<usize> {
    // Of each beginning how many elements it ends with that it begins with, too: all but a period
    // (Knuth, Morris and Pratt).
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
