//! A pipeline written out: the turns of each stage, and what stages send each other.
//!
//! Layers outside of micro-batches are those of all stages; within, each stage takes its turns in
//! the order of its [`Shape`]. A stage waits for what it takes before it begins a turn, and sends
//! when it is done.

use core::ops::Range;
use std::collections::BTreeMap;

use cavalcade_model::{Bytes, Nanos};

use super::pipeline::{Shape, Turn};
use super::{COMPUTE, GRADIENTS, Header, Layer, Phase, Sizes, WEIGHT, backwards, forwards};
use crate::collective::{Collective, CollectiveKind, GroupKind};
use crate::program::{OpId, OpWork, Program, ProgramBuilder, ProgramError, Stream, check_size};
use crate::read::Options;

/// A pipeline whose micro-batches and transfers the file has.
pub(super) struct Staged {
    pub(super) shape: Shape,
    /// Bytes that each rank of a stage sends to the next for each micro-batch.
    pub(super) sent: Bytes,
}

impl Staged {
    /// That of a file; `None` where the file does not have enough of it, or there is one stage.
    pub(super) fn of(layers: &[Layer], header: &Header, sizes: &Sizes) -> Option<Self> {
        let sent = Bytes(header.sent?);
        let shape = Shape::of(layers, sizes.pipeline, header.micro_batches?, header.chunks.unwrap_or(1));
        shape.filter(|_| sizes.pipeline > 1).map(|shape| Self { shape, sent })
    }

    /// Checks that all stages can be written out.
    ///
    /// # Errors
    /// If they are more operations than are held.
    pub(super) fn check_size(&self, layers: &[Layer], sizes: &Sizes) -> Result<(), ProgramError> {
        let turns = self.shape.micro_batches as usize * self.shape.chunks.len();
        check_size(sizes.ranks, layers.len().saturating_add(2 * turns).saturating_mul(4))
    }

    /// Writes out all stages.
    pub(super) fn program(
        &self,
        layers: &[Layer],
        sizes: &Sizes,
        options: &Options,
    ) -> Result<Program, ProgramError> {
        let (builder, pending) =
            (ProgramBuilder::new(sizes.ranks), vec![Nanos::ZERO; sizes.pipeline as usize]);
        let mut writer = Writer { builder, sizes, options, pending, sent: BTreeMap::new() };
        let all = 0..sizes.pipeline;
        let [before, after] = [&self.shape.before, &self.shape.after].map(|range| &layers[range.clone()]);
        writer.phases(forwards(before), &all)?;
        writer.flush(&all);
        for stage in all.clone() {
            let mut turns = self.shape.turns(stage).into_iter();
            turns.try_for_each(|turn| writer.turn(layers, self, turn, stage))?;
            writer.flush(&(stage..stage + 1));
        }
        writer.phases(forwards(after).chain(backwards(after)).chain(backwards(before)), &all)?;
        writer.flush(&all);
        writer.builder.build()
    }
}

struct Writer<'a> {
    builder: ProgramBuilder,
    sizes: &'a Sizes,
    options: &'a Options,
    /// Computation of each stage since its last collective: one operation of a rank is enough for
    /// it.
    pending: Vec<Nanos>,
    /// What stages send each other: by what is done with it and the stage that does it, an
    /// operation for each rank.
    sent: BTreeMap<(Turn, u32), Vec<OpId>>,
}

impl Writer<'_> {
    /// Writes out the computation of stages that did the same.
    fn flush(&mut self, stages: &Range<u32>) {
        let duration = self.pending[stages.start as usize];
        for pending in &mut self.pending[stages.start as usize..stages.end as usize] {
            *pending = Nanos::ZERO;
        }
        if duration > Nanos::ZERO {
            for rank in self.sizes.ranks_of(stages) {
                self.builder.compute(Stream { rank, number: COMPUTE }, duration);
            }
        }
    }

    fn collective(
        &mut self,
        kind: CollectiveKind,
        group: GroupKind,
        bytes: Bytes,
        stream: u32,
        stages: &Range<u32>,
    ) -> Result<(), ProgramError> {
        self.flush(stages);
        for members in self.sizes.groups_of(group, stages.clone()) {
            if members.len() < 2 {
                continue;
            }
            if stream != COMPUTE {
                for &rank in &members {
                    let [from, to] = [COMPUTE, stream].map(|number| Stream { rank, number });
                    self.builder.wait_for_stream(to, from);
                }
            }
            let group = self.builder.group(group, members)?;
            self.builder.collective(Collective::new(group, kind, bytes), stream)?;
        }
        Ok(())
    }

    /// Writes out a phase of a layer at some stages.
    fn phase(&mut self, layer: &Layer, phase: usize, stages: &Range<u32>) -> Result<(), ProgramError> {
        let Phase { compute, collective } = layer.phases[phase];
        for pending in &mut self.pending[stages.start as usize..stages.end as usize] {
            *pending = pending.checked_add(compute).ok_or(ProgramError::TooLarge)?;
        }
        let Some((kind, group, bytes)) = collective else { return Ok(()) };
        let group = group.unwrap_or(layer.usual_group(phase, self.options.groups));
        let stream = if self.options.overlap && phase == WEIGHT { GRADIENTS } else { COMPUTE };
        self.collective(kind, group, bytes, stream, stages)
    }

    fn phases<'a>(
        &mut self,
        mut phases: impl Iterator<Item = (&'a Layer, usize)>,
        stages: &Range<u32>,
    ) -> Result<(), ProgramError> {
        phases.try_for_each(|(layer, phase)| self.phase(layer, phase, stages))
    }

    /// What each rank of a stage sends for a turn of it to the ranks in its place of another stage.
    fn transfers(&mut self, turn: Turn, stage: u32, to: u32, bytes: Bytes) -> &[OpId] {
        let (builder, sizes) = (&mut self.builder, self.sizes);
        self.sent.entry((turn, stage)).or_insert_with(|| {
            let ends = sizes.ranks_of(&(stage..stage + 1)).zip(sizes.ranks_of(&(to..to + 1)));
            ends.map(|(from, to)| builder.add(OpWork::Transfer { from, to, bytes }, Vec::new())).collect()
        })
    }

    /// Writes out a turn of a stage: what it takes, does and passes on.
    fn turn(
        &mut self,
        layers: &[Layer],
        staged: &Staged,
        turn: Turn,
        stage: u32,
    ) -> Result<(), ProgramError> {
        let Staged { shape, sent } = staged;
        let stages = stage..stage + 1;
        if let Some((chunk, from)) = shape.source(turn, stage) {
            self.flush(&stages);
            let taken = self.transfers(Turn { chunk, ..turn }, from, stage, *sent).to_vec();
            for (rank, transfer) in self.sizes.ranks_of(&stages).zip(taken) {
                let joint = self.builder.compute(Stream { rank, number: COMPUTE }, Nanos::ZERO);
                self.builder.wait(joint, transfer);
            }
        }
        let chunk = &layers[shape.layers(turn)];
        if turn.is_forward {
            self.phases(forwards(chunk), &stages)?;
        } else {
            self.phases(backwards(chunk), &stages)?;
        }
        if let Some((_, to)) = shape.target(turn, stage) {
            self.flush(&stages);
            let passed = self.transfers(turn, stage, to, *sent).to_vec();
            for (rank, transfer) in self.sizes.ranks_of(&stages).zip(passed) {
                self.builder.wait_on_stream(transfer, Stream { rank, number: COMPUTE });
            }
        }
        Ok(())
    }
}
