//! When a rank computed and when it communicated, as spans of time.

use super::iteration::Iteration;
use super::recording::Ran;
use crate::read::Host;

/// When a rank computed, and when it communicated, as spans that do not overlap.
pub(super) struct Busy {
    pub(super) computes: Vec<(u64, u64)>,
    pub(super) communicates: Vec<(u64, u64)>,
}

impl Busy {
    pub(super) fn of(iteration: &Iteration<'_>) -> Self {
        let spans = |is_computation: bool| {
            let spans = iteration.spans.iter();
            let of_kind = spans.filter(|span| (span.what == Ran::Computation) == is_computation);
            merged(of_kind.map(|span| (span.begin, span.end)))
        };
        Self { computes: spans(true), communicates: spans(false) }
    }

    /// The part of a window that is computation, or the host's where that is kept.
    pub(super) fn own_time(&self, from: u64, to: u64, host: Host) -> u64 {
        if from >= to {
            return 0;
        }
        match host {
            Host::Kept => (to - from).saturating_sub(self.exposed((from, to))),
            Host::LeftOut => length(within(&self.computes, (from, to))),
        }
    }

    /// The part of a window that is communication alone.
    pub(super) fn exposed(&self, window: (u64, u64)) -> u64 {
        let both: u64 =
            within(&self.computes, window).map(|window| length(within(&self.communicates, window))).sum();
        // Both at once is part of all communication.
        length(within(&self.communicates, window)).saturating_sub(both)
    }

    pub(super) fn computes_at(&self, at: u64) -> bool {
        let next = self.computes.partition_point(|&(_, end)| end <= at);
        self.computes.get(next).is_some_and(|&(begin, _)| begin < at)
    }
}

/// Spans in order of their begin, without overlap.
pub(super) fn merged(spans: impl Iterator<Item = (u64, u64)>) -> Vec<(u64, u64)> {
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
pub(super) fn length(spans: impl Iterator<Item = (u64, u64)>) -> u64 {
    spans.map(|(begin, end)| end.saturating_sub(begin)).sum()
}

/// The parts of spans that lie in a window.
pub(super) fn within(spans: &[(u64, u64)], (from, to): (u64, u64)) -> impl Iterator<Item = (u64, u64)> + '_ {
    let first = spans.partition_point(|&(_, end)| end <= from);
    let inside = spans[first..].iter().take_while(move |&&(begin, _)| begin < to);
    inside.map(move |&(begin, end)| (begin.max(from), end.min(to)))
}
