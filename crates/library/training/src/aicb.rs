//! Workloads of AICB, as SimAI reads them: a line for each layer, the same for every rank.
//!
//! The first line has the kind and `key: value`s, the second a number of layers, the others a name,
//! −1, then compute time, collective and bytes of the forward pass, the input gradient and the
//! weight gradient, and a last number. An iteration is all forward passes in order, then backwards
//! for each layer its weight gradient and its input gradient. Everything is in one row, as SimAI's
//! analytical back end adds it up, unless gradients may overlap or there are stages.
//!
//! # What is not in the file
//! - **Groups.** SimAI goes by phase: forward and input gradient run in the tensor group, the
//!   weight gradient in the data group; a suffix names expert groups. Older files put ZeRO's
//!   all-gather into the forward pass of a layer called `grad_…`, which SimAI so runs inside a
//!   host. [`Groups::ByName`] sends it over the data group instead. Both can be defended, so the
//!   reader notes which it did.
//! - **Sizes of groups** in older files, and the number of ranks: the caller gives them.
//! - Stages of a pipeline but one, which stands for all, and the order of its micro-batches:
//!   `pipeline.rs`. Where a file does not have the number of micro-batches and the bytes that
//!   stages send each other, or all stages are more than are held, one stage is read, and a note
//!   says so.
//!
//! Bytes of an all-gather are its output. A time of 1 or bytes of 1 stand for nothing.

mod pipeline;
mod staged;

use core::ops::Range;

use cavalcade_model::{Bytes, Nanos};
use cavalcade_spec::Choice;
use cavalcade_trace::Note;

use crate::collective::{Collective, CollectiveKind, GroupKind};
use crate::error::{Place, ReadError, ReadErrorKind};
use crate::program::{Program, ProgramBuilder, ProgramError, Stream, check_size};
use crate::read::{Options, Read};
use crate::row::Row;
use staged::Staged;

/// How the group of a collective is found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Groups {
    /// By the phase, as SimAI does.
    #[default]
    ByPhase,
    /// By the phase, but collectives of layers called `grad_…` are the data group's.
    ByName,
}

impl Choice for Groups {
    const WORDS: &'static [(&'static str, Self)] = &[("phase", Self::ByPhase), ("name", Self::ByName)];
}

/// Kinds that describe one iteration of a transformer.
const KINDS: [&str; 2] = ["HYBRID_TRANSFORMER_FWD_IN_BCKWD", "MICRO"];

/// Whether a text begins as such a workload does.
pub(crate) fn begins(text: &str) -> bool {
    text.split_whitespace().next().is_some_and(|word| KINDS.contains(&word) || word.starts_with("HYBRID_"))
}

/// A phase of a layer.
#[derive(Clone, Copy, Debug, Default)]
struct Phase {
    compute: Nanos,
    collective: Option<(CollectiveKind, Option<GroupKind>, Bytes)>,
}

struct Layer {
    name: String,
    /// Forward, input gradient, weight gradient.
    phases: [Phase; 3],
}

/// The places of phases.
const FORWARD: usize = 0;
const INPUT: usize = 1;
const WEIGHT: usize = 2;

impl Layer {
    /// The group of a collective of a phase that names none.
    fn usual_group(&self, phase: usize, groups: Groups) -> GroupKind {
        let by_name = groups == Groups::ByName && self.name.starts_with("grad_");
        if phase == WEIGHT || by_name { GroupKind::Data } else { GroupKind::Tensor }
    }
}

/// All forward passes, in order.
fn forwards(layers: &[Layer]) -> impl Iterator<Item = (&Layer, usize)> {
    layers.iter().map(|layer| (layer, FORWARD))
}

/// All passes backwards: of each layer the weight gradient, then the input gradient.
fn backwards(layers: &[Layer]) -> impl Iterator<Item = (&Layer, usize)> {
    layers.iter().rev().flat_map(|layer| [(layer, WEIGHT), (layer, INPUT)])
}

/// Numbers of the header.
#[derive(Default)]
struct Header {
    tensor: Option<u32>,
    expert: Option<u32>,
    pipeline: Option<u32>,
    ranks: Option<u32>,
    micro_batches: Option<u32>,
    chunks: Option<u32>,
    /// Bytes that each rank of a stage sends to the next for each micro-batch.
    sent: Option<u64>,
}

/// Reads a workload.
///
/// # Errors
/// The first thing found wrong, with its line; and sizes that neither the file nor the caller
/// gives.
pub fn read(text: &str, source_name: &str, options: &Options) -> Result<Read, ReadError> {
    let at = |line: usize, kind| ReadError::at(source_name, Place::Line(line as u64 + 1), kind);
    let whole = |kind| ReadError::of_whole(source_name, kind);
    let mut lines = text.lines().enumerate();
    let (_, first) = lines.next().ok_or_else(|| whole(ReadErrorKind::UnknownFormat))?;
    let mut words = first.split_whitespace();
    let kind = words.next().unwrap_or_default();
    if !KINDS.contains(&kind) {
        return Err(at(0, ReadErrorKind::UnknownParallelism { found: kind.to_owned() }));
    }
    let header = header(words).map_err(|kind| at(0, kind))?;
    let said = lines.next().map(|(_, line)| line.trim()).unwrap_or_default();
    let said = said.parse::<usize>().map_err(|_| {
        let expected = "the number of layers alone on the second line";
        at(1, ReadErrorKind::BadColumn { column: 1, found: said.to_owned(), expected })
    })?;
    let mut layers = Vec::new();
    for (number, line) in lines.filter(|(_, line)| !line.trim().is_empty()) {
        layers.push(layer(line).map_err(|kind| at(number, kind))?);
    }
    if layers.is_empty() {
        return Err(whole(ReadErrorKind::NoLayers));
    }
    let sizes = Sizes::of(&header, kind, options).map_err(whole)?;
    let staged = Staged::of(&layers, &header, &sizes);
    // Where all stages are more than are held, one stands for all.
    let too_large = staged.as_ref().and_then(|staged| staged.check_size(&layers, &sizes).err());
    let staged = staged.filter(|_| too_large.is_none());
    let mut notes = vec![Note::exact("times of computation, kinds and bytes of collectives")];
    if said != layers.len() {
        notes.push(Note::estimated(format!(
            "the file says {said} layers and has {}: those that are there are read",
            layers.len()
        )));
    }
    notes.push(Note::estimated(match options.groups {
        Groups::ByPhase => {
            "groups by phase, as SimAI has them: tensor forward and for inputs, data for weights"
        }
        Groups::ByName => "groups by phase, and data for layers called grad_…",
    }));
    if let Some(Staged { shape, sent }) = &staged {
        notes.push(Note::exact(format!(
            "{} micro-batches, of each of which every rank sends {sent} to the next stage of the pipeline",
            shape.micro_batches
        )));
        notes.push(Note::estimated(format!(
            "{} stages alike, {} of the model, in Megatron's order: one forward, one backward{}",
            shape.stages,
            match shape.chunks.len() {
                1 => "each with one part".to_owned(),
                chunks => format!("each with {chunks} parts"),
            },
            match header.chunks {
                Some(asked) if asked as usize != shape.chunks.len() => format!(
                    "; vpp is {asked}, and is left out: micro-batches are no multiple of stages, or layers do not repeat as often"
                ),
                _ => String::new(),
            }
        )));
    } else if sizes.pipeline > 1 {
        let reason = match too_large {
            Some(error) => error.to_string(),
            None => "the file does not say both micro-batches (ga) and bytes (pp_comm), or its layers do not repeat"
                .to_owned(),
        };
        notes.push(Note::left_out(format!(
            "the pipeline of {} stages: what its stages send each other, and its bubble; {reason}",
            sizes.pipeline
        )));
    }
    if !options.overlap {
        notes
            .push(Note::left_out("overlap of communication and computation: all is in one row, as in SimAI"));
    }
    let program = program(&layers, &sizes, staged.as_ref(), options).map_err(|error| whole(error.into()))?;
    Ok(Read { program, notes, measured: None })
}

fn header<'a>(words: impl Iterator<Item = &'a str>) -> Result<Header, ReadErrorKind> {
    let mut header = Header::default();
    let mut key = "";
    // The word before these says how the model is split.
    for (word, column) in words.zip(2..) {
        let bad = |expected| ReadErrorKind::BadColumn { column, found: word.to_owned(), expected };
        let small = || {
            let number: u32 = word.parse().map_err(|_| bad("a whole number below 2^32"))?;
            Ok::<_, ReadErrorKind>(Some(number).filter(|&number| number > 0))
        };
        match key.trim_end_matches(':') {
            "model_parallel_NPU_group" => header.tensor = small()?,
            "ep" => header.expert = small()?,
            "pp" => header.pipeline = small()?,
            "all_gpus" => header.ranks = small()?,
            "ga" => header.micro_batches = small()?,
            "vpp" => header.chunks = small()?,
            "pp_comm" => {
                let number: u64 = word.parse().map_err(|_| bad("a number of bytes"))?;
                header.sent = Some(number).filter(|&number| number > 0);
            }
            _ => {}
        }
        key = word;
    }
    Ok(header)
}

fn layer(line: &str) -> Result<Layer, ReadErrorKind> {
    let columns: Vec<&str> = line.split_whitespace().collect();
    if columns.len() < 12 {
        return Err(ReadErrorKind::FewColumns { found: columns.len() });
    }
    let number = |at: usize, expected: &'static str| {
        let found = columns[at];
        let bad = || ReadErrorKind::BadColumn { column: at + 1, found: found.to_owned(), expected };
        found.parse::<u64>().map_err(|_| bad())
    };
    let phase = |at: usize| {
        let compute = number(at, "computation in nanoseconds")?;
        let collective = collective(columns[at + 1]).ok_or_else(|| ReadErrorKind::BadColumn {
            column: at + 2,
            found: columns[at + 1].to_owned(),
            expected: "NONE, ALLREDUCE, ALLGATHER, REDUCESCATTER, ALLTOALL or BROADCAST, with _EP or _DP_EP",
        })?;
        let bytes = number(at + 2, "a number of bytes")?;
        let collective = collective.filter(|_| bytes > 1).map(|(kind, group)| (kind, group, Bytes(bytes)));
        let compute = Nanos(if compute == 1 { 0 } else { compute });
        Ok::<_, ReadErrorKind>(Phase { compute, collective })
    };
    Ok(Layer { name: columns[0].to_owned(), phases: [phase(2)?, phase(5)?, phase(8)?] })
}

/// The collective that a word names, and the group where a suffix does; `None` for other words.
#[allow(clippy::type_complexity, reason = "no collective and no such word are two things")]
fn collective(word: &str) -> Option<Option<(CollectiveKind, Option<GroupKind>)>> {
    if word == "NONE" {
        return Some(None);
    }
    let (word, group) = match (word.strip_suffix("_DP_EP"), word.strip_suffix("_EP")) {
        (Some(word), _) => (word, Some(GroupKind::DataExpert)),
        (None, Some(word)) => (word, Some(GroupKind::Expert)),
        (None, None) => (word, None),
    };
    let kind = match word {
        "ALLREDUCE" => CollectiveKind::AllReduce,
        "ALLGATHER" => CollectiveKind::AllGather,
        "REDUCESCATTER" => CollectiveKind::ReduceScatter,
        "ALLTOALL" => CollectiveKind::AllToAll,
        "BROADCAST" => CollectiveKind::Broadcast,
        _ => return None,
    };
    Some(Some((kind, group)))
}

/// The sizes of groups. Ranks are numbered as Megatron does: tensor, then expert inside data, then
/// pipeline.
struct Sizes {
    ranks: u32,
    tensor: u32,
    expert: u32,
    data: u32,
    pipeline: u32,
}

impl Sizes {
    fn of(header: &Header, kind: &str, options: &Options) -> Result<Self, ReadErrorKind> {
        let ranks = options.ranks.or(header.ranks).ok_or(ReadErrorKind::Unsaid { what: "its ranks" })?;
        let alone = (kind == "MICRO").then_some(1);
        let tensor = options.tensor.or(header.tensor).or(alone);
        let tensor = tensor.ok_or(ReadErrorKind::Unsaid { what: "the size of its tensor groups" })?;
        let pipeline = options.pipeline.or(header.pipeline).unwrap_or(1);
        let expert = options.expert.or(header.expert).unwrap_or(1);
        let divided = |ranks: u32, what, by: u32| match ranks.checked_rem(by) {
            Some(0) if ranks > 0 => Ok(ranks / by),
            _ => Err(ReadErrorKind::Indivisible { ranks, what, by }),
        };
        let data = divided(divided(ranks, "tensor", tensor)?, "pipeline", pipeline)?;
        divided(data, "expert", expert)?;
        Ok(Self { ranks, tensor, expert, data, pipeline })
    }

    /// How many members a group of a kind has.
    fn members(&self, kind: GroupKind) -> u32 {
        match kind {
            GroupKind::Tensor => self.tensor,
            GroupKind::Expert => self.expert,
            GroupKind::DataExpert => self.data / self.expert,
            _ => self.data,
        }
    }

    /// The ranks of some stages.
    fn ranks_of(&self, stages: &Range<u32>) -> Range<u32> {
        let each = self.data * self.tensor;
        stages.start * each..stages.end * each
    }

    /// The groups of a kind.
    fn groups(&self, kind: GroupKind) -> Vec<Vec<u32>> {
        self.groups_of(kind, 0..self.pipeline)
    }

    /// The groups of a kind in some stages.
    fn groups_of(&self, kind: GroupKind, stages: Range<u32>) -> Vec<Vec<u32>> {
        let &Self { tensor, expert, data, .. } = self;
        let rank = |stage: u32, replica: u32, shard: u32| (stage * data + replica) * tensor + shard;
        match kind {
            GroupKind::Tensor => stages
                .flat_map(|stage| (0..data).map(move |replica| (stage, replica)))
                .map(|(stage, replica)| (0..tensor).map(|shard| rank(stage, replica, shard)).collect())
                .collect(),
            kind => {
                // Runs of replicas `step` apart.
                let (count, step, firsts) = match kind {
                    GroupKind::Expert => (expert, 1, (0..data).step_by(expert as usize).collect()),
                    GroupKind::DataExpert => (data / expert, expert, (0..expert).collect()),
                    _ => (data, 1, vec![0]),
                };
                let firsts: Vec<u32> = firsts;
                let mut groups = Vec::new();
                for stage in stages {
                    for &first in &firsts {
                        for shard in 0..tensor {
                            let replicas = (0..count).map(|nth| first + nth * step);
                            groups.push(replicas.map(|replica| rank(stage, replica, shard)).collect());
                        }
                    }
                }
                groups
            }
        }
    }
}

/// Streams of a rank.
const COMPUTE: u32 = 0;
const GRADIENTS: u32 = 1;

/// What all ranks do together.
enum Together {
    Compute(Nanos),
    Collective { kind: CollectiveKind, group: GroupKind, bytes: Bytes, is_weight_gradient: bool },
}

/// What ranks do, in order; computation between two collectives is one step.
fn in_order(layers: &[Layer], groups: Groups) -> Result<Vec<Together>, ProgramError> {
    let mut together = Vec::new();
    let mut pending = Nanos::ZERO;
    for (layer, phase) in forwards(layers).chain(backwards(layers)) {
        let Phase { compute, collective } = layer.phases[phase];
        pending = pending.checked_add(compute).ok_or(ProgramError::TooLarge)?;
        let Some((kind, group, bytes)) = collective else { continue };
        if pending > Nanos::ZERO {
            together.push(Together::Compute(core::mem::take(&mut pending)));
        }
        let group = group.unwrap_or(layer.usual_group(phase, groups));
        together.push(Together::Collective { kind, group, bytes, is_weight_gradient: phase == WEIGHT });
    }
    if pending > Nanos::ZERO {
        together.push(Together::Compute(pending));
    }
    Ok(together)
}

fn program(
    layers: &[Layer],
    sizes: &Sizes,
    staged: Option<&Staged>,
    options: &Options,
) -> Result<Program, ProgramError> {
    if let Some(staged) = staged {
        return staged.program(layers, sizes, options);
    }
    let together = in_order(layers, options.groups)?;
    if options.overlap { overlapping(&together, sizes) } else { in_a_row(&together, sizes) }
}

/// Everything in one row.
fn in_a_row(together: &[Together], sizes: &Sizes) -> Result<Program, ProgramError> {
    let mut row = Row::new(sizes.ranks);
    for step in together {
        match *step {
            Together::Compute(duration) => row.compute(duration),
            Together::Collective { kind, group, bytes, .. } if sizes.members(group) > 1 => {
                row.collective(group, || sizes.groups(group), kind, bytes)?;
            }
            Together::Collective { .. } => {}
        }
    }
    row.program()
}

/// Collectives of weight gradients on a stream of their own, which waits for what was computed
/// before.
fn overlapping(together: &[Together], sizes: &Sizes) -> Result<Program, ProgramError> {
    check_size(sizes.ranks, together.len())?;
    let mut builder = ProgramBuilder::new(sizes.ranks);
    for step in together {
        let &Together::Collective { kind, group, bytes, is_weight_gradient } = step else {
            let &Together::Compute(duration) = step else { continue };
            for rank in 0..sizes.ranks {
                builder.compute(Stream { rank, number: COMPUTE }, duration);
            }
            continue;
        };
        if sizes.members(group) < 2 {
            continue;
        }
        let stream = if is_weight_gradient { GRADIENTS } else { COMPUTE };
        for members in sizes.groups(group) {
            if stream != COMPUTE {
                for &rank in &members {
                    let [from, to] = [COMPUTE, stream].map(|number| Stream { rank, number });
                    builder.wait_for_stream(to, from);
                }
            }
            let id = builder.group(group, members)?;
            builder.collective(Collective::new(id, kind, bytes), stream)?;
        }
    }
    builder.build()
}

#[cfg(test)]
mod tests;
