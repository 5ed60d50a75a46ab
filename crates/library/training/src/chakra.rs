//! Chakra execution traces: a file of nodes for each rank, `NAME.RANK.et` or `NAME.RANK.json`, and
//! groups in a JSON file beside them.
//!
//! Real files are full of holes. Order does not mean topology, and nodes wait for ones that are not
//! there: such edges are left out and counted, and so are edges of control that go in circles;
//! cycles of data are refused. Collectives of PyTorch stand in a file twice, as an operation of the
//! processor without a kind and as a kernel with one; only the latter are collectives. Durations of
//! collectives are left out, and so are those of the processor's operations, which run ahead of the
//! GPU.
//!
//! Computation of a rank runs one at a time, in an order in which each follows what it waits for,
//! of several the lowest number first. The size of an all-gather is one rank's input, as ASTRA-sim
//! takes it, of all others the whole input.

mod json;
mod messages;
#[cfg(test)]
mod tests;

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

use cavalcade_model::{Bytes, Nanos};
use cavalcade_trace::Note;

use crate::collective::{Collective, CollectiveKind, GroupKind};
use crate::error::{Place, ReadError, ReadErrorKind};
use crate::program::{OpId, OpWork, Program, ProgramBuilder, ProgramError, Stream, check_size};
use crate::rank_sets::{RankSet, RankSets};
use crate::read::{Options, Read, WorkloadFile};
use messages::Node;

/// Whether a file is one of a rank's nodes: messages by its name, JSON by how it begins.
pub(crate) fn is_trace(name: &str, head: &str) -> bool {
    is_binary(name) || json::begins(head)
}

fn is_binary(name: &str) -> bool {
    uncompressed(name).ends_with(".et")
}

/// A file's name without that of its compression.
fn uncompressed(name: &str) -> &str {
    [".gz", ".zst", ".lz4", ".snappy"].iter().find_map(|ending| name.strip_suffix(ending)).unwrap_or(name)
}

/// The rank in a file's name.
fn rank_of(name: &str) -> Option<u32> {
    let name = uncompressed(name);
    name.strip_suffix(".et").or(name.strip_suffix(".json"))?.rsplit('.').next()?.parse().ok()
}

const COMPUTE: u64 = 4;
const SEND: u64 = 5;
const RECEIVE: u64 = 6;
const COLLECTIVE: u64 = 7;

/// A rank's nodes, each after those that it waits for.
struct RankTrace {
    name: String,
    nodes: Vec<Node>,
    /// Edges to nodes that are not there.
    missing: usize,
    /// Edges of control that are left out, since they go in circles.
    circular: usize,
}

/// Groups by name.
type Groups = BTreeMap<String, Vec<u32>>;

/// Reads the traces of all ranks, or of one that stands for all if the options allow it.
///
/// # Errors
/// The first thing found wrong, with the file and the place.
pub fn read(files: Vec<WorkloadFile<'_>>, options: &Options) -> Result<Read, ReadError> {
    let (mut traces, mut groups) = (BTreeMap::new(), Groups::new());
    let mut sorted = Vec::with_capacity(files.len());
    for mut file in files {
        let head = file.head()?;
        sorted.push((is_trace(&file.name, &head), file));
    }
    let given = sorted.iter().filter(|(is_trace, _)| *is_trace).count() as u32;
    for (is_trace, file) in sorted {
        if !is_trace {
            groups = serde_json::from_reader(file.content).map_err(|error| {
                let place = Place::Column(error.line() as u64, error.column() as u64);
                ReadError::at(&file.name, place, ReadErrorKind::of_json(&error))
            })?;
            continue;
        }
        let rank = rank_of(&file.name).unwrap_or(0);
        let read = if is_binary(&file.name) { messages::nodes } else { json::nodes };
        let nodes = read(&file.name, file.content, given)?;
        let trace = in_order(file.name, nodes)?;
        if let Some(other) = traces.insert(rank, trace) {
            let problem = format!("it is another file of rank {rank}");
            return Err(ReadError::of_whole(&other.name, ReadErrorKind::Contradiction { problem }));
        }
    }
    let ranks = options.ranks.unwrap_or(traces.len() as u32);
    let stands_for_all = options.one_for_all && (traces.len() == 1 || traces.len() != ranks as usize);
    let others = if stands_for_all { traces.len().saturating_sub(1) } else { 0 };
    while stands_for_all && traces.len() > 1 {
        traces.pop_last();
    }
    let Some(first) = traces.values().next() else {
        return Err(ReadError::of_whole("the workload", ReadErrorKind::UnknownFormat));
    };
    let found = traces.len() as u32;
    if ranks != found && !stands_for_all {
        let cure = "give a file for each rank, or one and say that it stands for all";
        let kind = ReadErrorKind::MissingRanks { found, expected: ranks, cure };
        return Err(ReadError::of_whole(&first.name, kind));
    }
    if !stands_for_all && traces.keys().copied().ne(0..ranks) {
        let problem = format!("a file of one of the ranks 0 to {} is not there", ranks - 1);
        return Err(ReadError::of_whole(&first.name, ReadErrorKind::Contradiction { problem }));
    }
    let longest = traces.values().map(|trace| trace.nodes.len()).max().unwrap_or(0);
    check_size(ranks, longest).map_err(|error| ReadError::of_whole(&first.name, error.into()))?;
    let traces: Vec<RankTrace> = traces.into_values().collect();
    let mut notes = notes(&traces, stands_for_all);
    if others > 0 {
        notes.push(Note::left_out(format!("traces of {others} other ranks")));
    }
    let program = Writer::new(&traces, &groups, ranks, stands_for_all).program()?;
    Ok(Read { program, notes, measured: None })
}

/// Puts each node after those that it waits for.
fn in_order(name: String, mut nodes: Vec<Node>) -> Result<RankTrace, ReadError> {
    let wrong = |problem: String| ReadError::of_whole(&name, ReadErrorKind::Contradiction { problem });
    let mut places = BTreeMap::new();
    for (place, node) in nodes.iter().enumerate() {
        if places.insert(node.id, place).is_some() {
            return Err(wrong(format!("node {} is there twice", node.id)));
        }
    }
    let edges =
        |node: &Node| node.after.iter().chain(&node.controls).filter(|id| !places.contains_key(id)).count();
    let missing = nodes.iter().map(edges).sum();
    let mut circular = 0;
    let order = match order(&nodes, &places, true) {
        Ok(order) => order,
        Err(_) => {
            for node in &mut nodes {
                circular += core::mem::take(&mut node.controls).len();
            }
            order(&nodes, &places, false).map_err(|place| {
                let node = &nodes[place];
                wrong(format!("node {} ({}) waits for itself through others", node.id, node.name))
            })?
        }
    };
    // Most are in order, and of large files a second list is as large as the first.
    let mut sorted: Vec<Node> = match order.iter().copied().eq(0..nodes.len()) {
        true => nodes,
        false => {
            let mut nodes: Vec<Option<Node>> = nodes.into_iter().map(Some).collect();
            order.into_iter().filter_map(|place| nodes[place].take()).collect()
        }
    };
    for node in &mut sorted {
        node.after.append(&mut node.controls);
    }
    Ok(RankTrace { name, nodes: sorted, missing, circular })
}

/// An order in which each node follows those that it waits for, of several the lowest number first;
/// a node that is in a cycle or behind one where there is none.
fn order(nodes: &[Node], places: &BTreeMap<u64, usize>, with_controls: bool) -> Result<Vec<usize>, usize> {
    let (mut waiting, mut followers) = (vec![0_usize; nodes.len()], vec![Vec::new(); nodes.len()]);
    for (place, node) in nodes.iter().enumerate() {
        let controls = if with_controls { &node.controls[..] } else { &[] };
        for before in node.after.iter().chain(controls).filter_map(|id| places.get(id)) {
            followers[*before].push(place);
            waiting[place] += 1;
        }
    }
    let free = (0..nodes.len()).filter(|&place| waiting[place] == 0);
    let mut free: BinaryHeap<Reverse<(u64, usize)>> =
        free.map(|place| Reverse((nodes[place].id, place))).collect();
    let mut order = Vec::with_capacity(nodes.len());
    while let Some(Reverse((_, place))) = free.pop() {
        order.push(place);
        for &after in &followers[place] {
            waiting[after] -= 1;
            if waiting[after] == 0 {
                free.push(Reverse((nodes[after].id, after)));
            }
        }
    }
    match waiting.iter().position(|&left| left > 0) {
        Some(place) => Err(place),
        None => Ok(order),
    }
}

/// The collective of a number; `None` for those that are not known or not carried.
fn kind(comm_type: u64) -> Option<CollectiveKind> {
    Some(match comm_type {
        0 => CollectiveKind::AllReduce,
        1 => CollectiveKind::Reduce,
        2 => CollectiveKind::AllGather,
        5 => CollectiveKind::Broadcast,
        6 => CollectiveKind::AllToAll,
        7 | 8 => CollectiveKind::ReduceScatter,
        9 => CollectiveKind::Barrier,
        _ => return None,
    })
}

/// The nth collective of a group.
type Key = (RankSet, usize);
/// The nth transfer between two ranks under a tag.
type Pair = (u64, u64, u64, usize);

struct Writer<'a> {
    traces: &'a [RankTrace],
    /// The ranks of each group by its name.
    groups: BTreeMap<&'a str, RankSet>,
    /// The group of all ranks.
    all: RankSet,
    sets: RankSets,
    ranks: u32,
    stands_for_all: bool,
    builder: ProgramBuilder,
    /// Collectives that a rank has reached: the operation, its kind and bytes, and how many ranks
    /// have.
    joined: BTreeMap<Key, (OpId, CollectiveKind, Bytes, usize)>,
    /// Transfers that one end has reached, with how often.
    transfers: BTreeMap<Pair, (OpId, usize)>,
}

impl<'a> Writer<'a> {
    fn new(traces: &'a [RankTrace], groups: &'a Groups, ranks: u32, stands_for_all: bool) -> Self {
        let builder = ProgramBuilder::new(ranks);
        let (joined, transfers) = (BTreeMap::new(), BTreeMap::new());
        let mut sets = RankSets::new(ranks);
        let all = sets.number((0..ranks).collect());
        let groups = groups.iter().map(|(name, ranks)| (name.as_str(), sets.number(ranks.clone()))).collect();
        Self { traces, groups, all, sets, ranks, stands_for_all, builder, joined, transfers }
    }

    fn program(mut self) -> Result<Program, ReadError> {
        for rank in 0..self.ranks {
            let trace = &self.traces[if self.stands_for_all { 0 } else { rank as usize }];
            self.rank(rank, trace).map_err(|kind| ReadError::of_whole(&trace.name, kind))?;
        }
        let whole = |kind| ReadError::of_whole(&self.traces[0].name, kind);
        let size = |set: RankSet| self.sets.ranks(set).len();
        let short = self.joined.iter().find(|((set, _), (_, _, _, came))| *came < size(*set));
        if let Some(((set, nth), (_, kind, _, came))) = short {
            let ranks = self.sets.ranks(*set);
            let problem = format!(
                "{came} of {} ranks come to the {kind} that is number {nth} of group {ranks:?}",
                ranks.len()
            );
            return Err(whole(ReadErrorKind::Contradiction { problem }));
        }
        if let Some(((from, to, tag, _), _)) = self.transfers.iter().find(|(_, (_, ends))| *ends < 2) {
            let problem = format!("a transfer from rank {from} to rank {to} with tag {tag} has one end");
            return Err(whole(ReadErrorKind::Contradiction { problem }));
        }
        self.builder.build().map_err(|error| whole(error.into()))
    }

    fn rank(&mut self, rank: u32, trace: &RankTrace) -> Result<(), ReadErrorKind> {
        // What stands for each node: its operation, or that of what it waits for where it has none.
        let mut ends: BTreeMap<u64, Option<OpId>> = BTreeMap::new();
        let mut counts: BTreeMap<RankSet, usize> = BTreeMap::new();
        let mut pairs: BTreeMap<(u64, u64, u64), usize> = BTreeMap::new();
        for node in &trace.nodes {
            let mut after: Vec<OpId> =
                node.after.iter().filter_map(|id| ends.get(id).copied().flatten()).collect();
            after.sort_unstable();
            after.dedup();
            let op = match node.kind {
                COMPUTE if !node.is_cpu_op && node.micros > 0 => {
                    let nanos = node.micros.checked_mul(1_000).ok_or(ProgramError::TooLarge)?;
                    let op = self.builder.add(OpWork::Compute { rank, duration: Nanos(nanos) }, Vec::new());
                    self.builder.put(op, Stream { rank, number: 0 });
                    op
                }
                COLLECTIVE if node.comm_type.is_some() => self.collective(rank, node, &mut counts)?,
                SEND | RECEIVE if !node.is_cpu_op => self.transfer(rank, node, &mut pairs)?,
                _ if after.len() < 2 => {
                    ends.insert(node.id, after.pop());
                    continue;
                }
                // One that takes no time stands between, so that not each that waits for this waits
                // for all of those.
                _ => self.builder.add(OpWork::Compute { rank, duration: Nanos::ZERO }, Vec::new()),
            };
            after.into_iter().for_each(|on| self.builder.wait(op, on));
            ends.insert(node.id, Some(op));
        }
        Ok(())
    }

    fn collective(
        &mut self,
        rank: u32,
        node: &Node,
        counts: &mut BTreeMap<RankSet, usize>,
    ) -> Result<OpId, ReadErrorKind> {
        let comm_type = node.comm_type.unwrap_or_default();
        let kind = kind(comm_type).ok_or_else(|| ReadErrorKind::Unknown {
            what: "comm_type",
            found: comm_type.to_string(),
            known: "0 to 2 and 5 to 9, without gather and scatter",
        })?;
        let set = self.members(rank, node)?;
        let ranks = self.sets.ranks(set);
        let bytes = match kind {
            CollectiveKind::AllGather => Bytes(node.comm_size.saturating_mul(ranks.len() as u64)),
            _ => Bytes(node.comm_size),
        };
        let count = counts.entry(set).or_default();
        let key = (set, *count);
        *count += 1;
        if let Some((op, known, size, came)) = self.joined.get_mut(&key) {
            if *known != kind || *size != bytes {
                let problem = format!(
                    "{} ({kind} of {bytes}) at rank {rank} is a {known} of {size} elsewhere in group {ranks:?}",
                    node.name
                );
                return Err(ReadErrorKind::Contradiction { problem });
            }
            *came += 1;
            return Ok(*op);
        }
        let group = self.builder.group(GroupKind::Other, ranks.to_vec())?;
        let op = self.builder.add(OpWork::Collective(Collective::new(group, kind, bytes)), Vec::new());
        self.joined.insert(key, (op, kind, bytes, 1));
        Ok(op)
    }

    /// The ranks of a collective: all where it names no group.
    fn members(&mut self, rank: u32, node: &Node) -> Result<RankSet, ReadErrorKind> {
        if node.group.is_empty() {
            return Ok(self.all);
        }
        let known = *self.groups.get(node.group.as_str()).ok_or_else(|| ReadErrorKind::Missing {
            found: format!("group {:?} of {} is nowhere", node.group, node.name),
            expected: "a JSON file beside the traces with the ranks of each group",
        })?;
        let own = if self.stands_for_all { self.sets.shifted(known, rank) } else { Some(known) };
        own.filter(|&own| self.sets.has(own, rank)).ok_or_else(|| ReadErrorKind::Contradiction {
            problem: format!(
                "rank {rank} is in {}, and not in its group {:?}",
                node.name,
                self.sets.ranks(known)
            ),
        })
    }

    fn transfer(
        &mut self,
        rank: u32,
        node: &Node,
        pairs: &mut BTreeMap<(u64, u64, u64), usize>,
    ) -> Result<OpId, ReadErrorKind> {
        let own = u64::from(rank);
        let (from, to) = match node.kind {
            SEND => (own, node.comm_dst.unwrap_or(own)),
            _ => (node.comm_src.unwrap_or(own), own),
        };
        // Both ends are counted at the rank that they are of; a rank that sends to itself is both.
        let count = pairs.entry((from, to, node.comm_tag << 1 | u64::from(node.kind == SEND))).or_default();
        let key = (from, to, node.comm_tag, *count);
        *count += 1;
        let ranks = [from, to].map(|rank| u32::try_from(rank).ok().filter(|&rank| rank < self.ranks));
        let [Some(from), Some(to)] = ranks else {
            let problem =
                format!("{} goes from rank {from} to rank {to}, and there are {}", node.name, self.ranks);
            return Err(ReadErrorKind::Contradiction { problem });
        };
        let bytes = Bytes(node.comm_size);
        let builder = &mut self.builder;
        let add = || (builder.add(OpWork::Transfer { from, to, bytes }, Vec::new()), 0);
        let transfer = self.transfers.entry(key).or_insert_with(add);
        transfer.1 += 1;
        Ok(transfer.0)
    }
}

fn notes(traces: &[RankTrace], stands_for_all: bool) -> Vec<Note> {
    let nodes = || traces.iter().flat_map(|trace| &trace.nodes);
    let count = |wanted: &dyn Fn(&Node) -> bool| nodes().filter(|node| wanted(node)).count();
    let collectives = count(&|node| node.kind == COLLECTIVE && node.comm_type.is_some());
    let which = match collectives {
        0 => "none of them a collective with kind and bytes".to_owned(),
        some => format!("{some} of them collectives with kind and bytes"),
    };
    let mut notes = vec![
        Note::exact(format!("{} nodes, {which}", nodes().count())),
        Note::left_out("how long collectives lasted when they were recorded"),
    ];
    let on_cpu = count(&|node| node.is_cpu_op && node.micros > 0);
    if on_cpu > 0 {
        notes.push(Note::left_out(format!("the time of {on_cpu} operations of the processor")));
    }
    let silent = count(&|node| node.kind == COLLECTIVE && node.comm_type.is_none() && !node.is_cpu_op);
    if silent > 0 {
        notes.push(Note::left_out(format!(
            "{silent} nodes of collectives that do not say their kind and bytes: they move nothing"
        )));
    }
    let untimed =
        count(&|node| node.kind == COMPUTE && !node.is_cpu_op && node.micros == 0 && node.num_ops > 0);
    if untimed > 0 {
        notes.push(Note::left_out(format!(
            "computation of {untimed} nodes that give operations and no duration: it takes no time"
        )));
    }
    let missing: usize = traces.iter().map(|trace| trace.missing).sum();
    if missing > 0 {
        notes.push(Note::left_out(format!("{missing} edges to nodes that are not there")));
    }
    let circular: usize = traces.iter().map(|trace| trace.circular).sum();
    if circular > 0 {
        notes.push(Note::left_out(format!("{circular} edges of control, since some of them go in circles")));
    }
    if stands_for_all {
        notes.push(Note::estimated("all other ranks: the one that was recorded stands for them"));
    }
    notes
}
