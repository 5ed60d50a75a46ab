//! A rank on whose GPU nothing communicated: what the host launched, in its order, with the
//! collectives that it called.
//!
//! A collective waits for all that was launched before it. What waits for it the host's calls tell
//! (`calls.rs`). Time in which the GPU did nothing is the host's, but not that within calls: a real
//! group takes none of it.

use std::collections::BTreeMap;

use super::busy::merged;
use super::iteration::Iteration;
use super::{COMPUTE, Host};
use crate::program::{OpId, OpWork, ProgramBuilder, Stream};
use crate::rank_sets::RankSet;
use cavalcade_model::Nanos;

/// Times of what was launched.
pub(super) struct Times {
    /// Of each span of the iteration its own time, without what ran beside those before.
    own: Vec<u64>,
    /// And the time before it in which the GPU did nothing for the host's sake.
    host: Vec<u64>,
}

impl Times {
    pub(super) fn of(iteration: &Iteration<'_>) -> Self {
        let calls = merged(iteration.collectives.iter().map(|call| (call.begin, call.end)));
        let (mut own, mut host) = (Vec::new(), Vec::new());
        let mut until = iteration.spans.first().map_or(0, |span| span.begin);
        for span in &iteration.spans {
            let gap = (until, span.begin.max(until));
            let called: u64 = super::busy::length(super::busy::within(&calls, gap));
            host.push((gap.1 - gap.0).saturating_sub(called));
            own.push(span.end.saturating_sub(gap.1));
            until = until.max(span.end);
        }
        Self { own, host }
    }

    pub(super) fn computes(&self) -> u64 {
        self.own.iter().sum()
    }

    pub(super) fn host(&self) -> u64 {
        self.host.iter().sum()
    }
}

/// What happens at the host. At one time a wait comes first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Step {
    Waits,
    Launches,
    Calls,
}

/// Puts the iteration of a rank on its streams.
pub(super) fn put(
    builder: &mut ProgramBuilder,
    rank: u32,
    iteration: &Iteration<'_>,
    ops: &[OpId],
    host: Host,
) {
    let times = Times::of(iteration);
    let mut steps: Vec<(u64, Step, usize)> = Vec::new();
    steps.extend(iteration.spans.iter().enumerate().map(|(nth, span)| (span.launched, Step::Launches, nth)));
    for (nth, call) in iteration.collectives.iter().enumerate() {
        steps.push((call.begin, Step::Calls, nth));
        let waited = call.waited.map(|at| at.max(call.begin.saturating_add(1)));
        steps.extend(waited.filter(|&at| at < iteration.end).map(|at| (at, Step::Waits, nth)));
    }
    steps.sort_unstable();
    // Collectives of a group go one after the other.
    let mut groups: BTreeMap<RankSet, u32> = BTreeMap::new();
    let compute = Stream { rank, number: COMPUTE };
    let mut pending = 0;
    let flush = |builder: &mut ProgramBuilder, pending: &mut u64| {
        if *pending > 0 {
            builder.compute(compute, Nanos(core::mem::take(pending)));
        }
    };
    for (_, step, nth) in steps {
        match step {
            Step::Launches => {
                pending += times.own[nth] + if host == Host::Kept { times.host[nth] } else { 0 };
            }
            Step::Calls => {
                flush(builder, &mut pending);
                let next = COMPUTE + 1 + groups.len() as u32;
                let number = *groups.entry(iteration.collectives[nth].ranks).or_insert(next);
                let stream = Stream { rank, number };
                builder.wait_for_stream(stream, compute);
                builder.put(ops[nth], stream);
            }
            Step::Waits => {
                flush(builder, &mut pending);
                let joint = builder.add(OpWork::Compute { rank, duration: Nanos::ZERO }, Vec::new());
                builder.put(joint, compute);
                builder.wait(joint, ops[nth]);
            }
        }
    }
    flush(builder, &mut pending);
}

#[cfg(test)]
mod tests;
