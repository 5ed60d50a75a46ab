//! The pipeline of a workload: which micro-batch a stage takes when.
//!
//! A file describes one stage, which stands for all: layers before, those of a micro-batch as often
//! as there are micro-batches, and layers behind. They repeat by name; times of one micro-batch may
//! differ from those of another.
//!
//! Stages take micro-batches as Megatron does: as many forwards as fill the pipeline, then one
//! forward and one backward in turn. Where the layers of a micro-batch repeat in as many chunks as
//! the file has, a stage has that many parts of the model, and its micro-batches go round the
//! stages once for each of them.

use core::ops::Range;

use super::Layer;

/// Comparisons after which no repetition is looked for: about a second.
const MOST_COMPARISONS: usize = 1 << 29;

/// How the layers of a file lie.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Shape {
    pub(super) stages: u32,
    pub(super) micro_batches: u32,
    /// Layers that stand before those of micro-batches.
    pub(super) before: Range<usize>,
    /// Layers of each chunk of the first micro-batch.
    pub(super) chunks: Vec<Range<usize>>,
    /// Layers of a micro-batch.
    pub(super) length: usize,
    /// Layers that stand behind.
    pub(super) after: Range<usize>,
}

impl Shape {
    /// That of a file's layers, with so many micro-batches and as many `chunks` as the file has;
    /// `None` where layers do not repeat.
    pub(super) fn of(layers: &[Layer], stages: u32, micro_batches: u32, chunks: u32) -> Option<Self> {
        let (first, length) = repeated(layers, micro_batches as usize)?;
        let last = first + length * micro_batches as usize;
        let one = first..first + length;
        // Interleaved they go round in fives where there are five stages.
        let interleaves = chunks > 1 && micro_batches.is_multiple_of(stages);
        let inner = if interleaves { repeated(&layers[one.clone()], chunks as usize) } else { None };
        let chunks = match inner {
            Some((offset, length)) => (0..chunks as usize)
                .map(|chunk| {
                    let begin = if chunk == 0 { one.start } else { one.start + offset + chunk * length };
                    let is_last = chunk + 1 == chunks as usize;
                    begin..if is_last { one.end } else { one.start + offset + (chunk + 1) * length }
                })
                .collect(),
            None => vec![one],
        };
        Some(Self { stages, micro_batches, before: 0..first, chunks, length, after: last..layers.len() })
    }

    /// The layers of a turn.
    pub(super) fn layers(&self, turn: Turn) -> Range<usize> {
        let (chunk, offset) = (&self.chunks[turn.chunk as usize], turn.batch as usize * self.length);
        chunk.start + offset..chunk.end + offset
    }

    /// What a stage does in order.
    pub(super) fn turns(&self, stage: u32) -> Vec<Turn> {
        let (stages, chunks) = (self.stages, self.chunks.len() as u32);
        let all = self.micro_batches * chunks;
        let behind = stages - 1 - stage;
        let ahead = if chunks == 1 { behind } else { 2 * behind + (chunks - 1) * stages };
        let turn = |nth: u32, is_forward: bool| {
            let (round, within) = (nth / (stages * chunks), nth % (stages * chunks));
            let (chunk, batch) = match chunks {
                1 => (0, nth),
                _ => (within / stages, round * stages + within % stages),
            };
            Turn { is_forward, chunk: if is_forward { chunk } else { chunks - 1 - chunk }, batch }
        };
        let ahead = ahead.min(all);
        let mut turns: Vec<Turn> = (0..ahead).map(|nth| turn(nth, true)).collect();
        for nth in ahead..all {
            turns.extend([turn(nth, true), turn(nth - ahead, false)]);
        }
        turns.extend((all - ahead..all).map(|nth| turn(nth, false)));
        turns
    }

    /// The chunk and stage whose output a chunk of a stage takes on the way forwards or backwards;
    /// `None` for the first.
    pub(super) fn source(&self, turn: Turn, stage: u32) -> Option<(u32, u32)> {
        let (stages, chunks) = (self.stages, self.chunks.len() as u32);
        let place = turn.chunk * stages + stage;
        let place = if turn.is_forward { place.checked_sub(1)? } else { place + 1 };
        (place < stages * chunks).then_some((place / stages, place % stages))
    }

    /// The chunk and stage that take its output; `None` for the last.
    pub(super) fn target(&self, turn: Turn, stage: u32) -> Option<(u32, u32)> {
        self.source(Turn { is_forward: !turn.is_forward, ..turn }, stage)
    }
}

/// A chunk's pass of a micro-batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Turn {
    pub(super) is_forward: bool,
    pub(super) chunk: u32,
    pub(super) batch: u32,
}

/// Where the longest sequence of names begins that is there `count` times in a row, and how long it
/// is: all of them where it is to be there once.
fn repeated(layers: &[Layer], count: usize) -> Option<(usize, usize)> {
    if count == 1 {
        return (!layers.is_empty()).then_some((0, layers.len()));
    }
    if count < 2 || layers.len().saturating_mul(layers.len() / count) > MOST_COMPARISONS {
        return None;
    }
    (1..=layers.len() / count).rev().find_map(|length| {
        let mut same = 0;
        let end = (0..layers.len() - length).find(|&at| {
            same = if layers[at].name == layers[at + length].name { same + 1 } else { 0 };
            same == length * (count - 1)
        })?;
        Some((end + 1 - length * (count - 1), length))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    fn layers(names: &str) -> Vec<Layer> {
        let layer = |name: char| Layer { name: name.to_string(), phases: Default::default() };
        names.chars().map(layer).collect()
    }

    #[test]
    fn layers_of_micro_batches_and_their_chunks_are_those_that_repeat() {
        let shape = Shape::of(&layers("ghexxfexxfexxfexxfo"), 2, 4, 2).unwrap();
        assert_eq!((shape.before.clone(), shape.after.clone()), (0..2, 18..19));
        // The first chunk has what stands before the others' layers, the last what stands behind.
        assert_eq!(shape.chunks, [2..4, 4..6]);
        assert_eq!(
            Shape::of(&layers("ghexxfexxfexxfo"), 2, 3, 2).unwrap().chunks,
            vec![2..6],
            "no whole rounds"
        );
        assert_eq!(Shape::of(&layers("abcdef"), 2, 2, 1), None);
        let alone = Shape::of(&layers("abc"), 2, 1, 1).unwrap();
        assert_eq!(
            (alone.before.len(), alone.length, alone.after.len()),
            (0, 3, 0),
            "one micro-batch has all layers"
        );
    }

    /// Stages that wait for what they take never wait for each other in a circle, and each chunk of
    /// each micro-batch has both passes.
    #[test]
    fn every_order_comes_to_its_end() {
        for stages in 1..6 {
            for chunks in 1..4_u32 {
                for rounds in 1..4 {
                    let micro_batches = if chunks == 1 { rounds + 1 } else { rounds * stages };
                    let chunks = vec![0..0; chunks as usize];
                    let shape = Shape { stages, micro_batches, before: 0..0, chunks, length: 0, after: 0..0 };
                    let mut left: Vec<Vec<Turn>> = (0..stages).map(|stage| shape.turns(stage)).collect();
                    let each = 2 * micro_batches as usize * shape.chunks.len();
                    assert!(left.iter().all(|turns| turns.len() == each));
                    left.iter_mut().for_each(|turns| turns.reverse());
                    let mut done = BTreeSet::new();
                    while left.iter().any(|turns| !turns.is_empty()) {
                        let before = done.len();
                        for (stage, turns) in (0..).zip(&mut left) {
                            let is_ready = |turn: &Turn| {
                                let forward = Turn { is_forward: true, ..*turn };
                                let source = shape.source(*turn, stage).is_none_or(|(chunk, from)| {
                                    done.contains(&(Turn { chunk, ..*turn }, from))
                                });
                                source && (turn.is_forward || done.contains(&(forward, stage)))
                            };
                            if turns.last().is_some_and(is_ready) {
                                done.extend(turns.pop().map(|turn| (turn, stage)));
                            }
                        }
                        assert!(done.len() > before, "{stages} stages stand still: {left:?}");
                    }
                }
            }
        }
    }
}
