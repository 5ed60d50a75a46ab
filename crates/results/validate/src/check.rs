//! The checks, one after the other: shape, each flow by itself, the order of stages, links, idling.

use std::ops::Range;

use cavalcade_metrics::Outcome;
use cavalcade_model::{Fabric, FineInstant, FlowId, Instant, Workload};

use crate::links::{LinkFlows, check_idle, check_loads};
use crate::schedule::{BPS, Segment};
use crate::timing::check_times;
use crate::tolerance::{bytes, grain_ns};
use crate::violation::Violation;
use crate::violations::{Found, Violations};

/// Optional checks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Checks {
    /// Checks that no flow waits while both its links have capacity to spare. For policies that
    /// claim it (`Terms::work_conserving`).
    pub work_conservation: bool,
}

/// A schedule that is right, in figures.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Verdict {
    /// The number of segments.
    pub segments: usize,
    /// Bytes delivered.
    pub bytes: f64,
    /// The end of the last segment.
    pub end_ns: f64,
    /// The largest load of a link as a share of its capacity (at most 1 and rounding).
    pub peak_load: f64,
    /// The largest difference between what a flow was sent and its size, in bytes.
    pub largest_difference: f64,
}

/// The segments by flow, in order of time, and what follows from them.
pub(crate) struct Sent {
    pub(crate) segments: Vec<Segment>,
    /// For each flow: where its segments begin; one more entry at the end.
    first: Vec<usize>,
}

impl Sent {
    pub(crate) fn of(&self, flow: FlowId) -> &[Segment] {
        &self.segments[self.range(flow)]
    }

    fn range(&self, flow: FlowId) -> Range<usize> {
        self.first[flow.index()]..self.first[flow.index() + 1]
    }

    /// Returns the time of the last byte of `flow`; zero for a flow that is never sent.
    pub(crate) fn end(&self, flow: FlowId) -> FineInstant {
        self.of(flow).last().map_or(FineInstant::default(), |segment| segment.to)
    }

    /// The same in nanoseconds.
    pub(crate) fn end_ns(&self, flow: FlowId) -> f64 {
        self.end(flow).as_f64()
    }
}

/// Checks a whole schedule against the limits of `fabric`, the order and sizes in `workload`, and
/// the times in `outcome`. The order of `segments` does not matter. What is forgiven stands in
/// [`crate::tolerance`].
///
/// # Errors
/// All that is wrong, each with flow, link, interval and amounts; of many the first few. If
/// workload, fabric and outcome do not belong together, nothing else is checked.
pub fn validate(
    workload: &Workload,
    fabric: &Fabric,
    segments: Vec<Segment>,
    outcome: &Outcome,
    checks: Checks,
) -> Result<Verdict, Violations> {
    check_shape(workload, fabric, outcome)?;
    let mut found = Found::default();
    let sent = by_flow(workload, segments, &mut found);
    let mut verdict = check_flows(workload, fabric, &sent, outcome, &mut found);
    let releases = check_times(workload, &sent, outcome, &mut found);
    let link_flows = LinkFlows::new(workload, fabric);
    verdict.peak_load = check_loads(workload, fabric, &link_flows, &sent, &mut found);
    if checks.work_conservation {
        check_idle(workload, fabric, &link_flows, &sent, &releases, &mut found);
    }
    found.or(verdict)
}

fn check_shape(workload: &Workload, fabric: &Fabric, outcome: &Outcome) -> Result<(), Violations> {
    let mut found = Found::default();
    if fabric.ports() < workload.ports() {
        found.add(Violation::Ports { fabric: fabric.ports(), workload: workload.ports() });
    }
    let lengths = [
        ("coflow arrivals", workload.coflow_count(), outcome.coflow_arrival.len()),
        ("coflow finishes", workload.coflow_count(), outcome.coflow_finish.len()),
        ("flow finishes", workload.flows().len(), outcome.flow_finish.len()),
        ("task finishes", workload.tasks().len(), outcome.task_finish.len()),
    ];
    for (what, expected, length) in lengths {
        if length != expected {
            found.add(Violation::Shape { what, expected, found: length });
        }
    }
    found.or(())
}

/// Checks each segment by itself, drops those that are none or send nothing, and sorts the rest by
/// flow and time.
fn by_flow(workload: &Workload, mut segments: Vec<Segment>, found: &mut Found) -> Sent {
    let flows = workload.flows().len();
    segments.retain(|&Segment { flow, from, to, bytes_per_nano }| {
        let is_known = flow.index() < flows;
        let is_segment = to >= from && bytes_per_nano.is_finite() && bytes_per_nano >= 0.0;
        if !is_known {
            found.add(Violation::UnknownFlow { flow, flows });
        } else if !is_segment {
            let (from_ns, to_ns) = (from.as_f64(), to.as_f64());
            found.add(Violation::BadSegment { flow, from_ns, to_ns, rate_bps: bytes_per_nano * BPS });
        }
        is_known && is_segment && bytes_per_nano > 0.0 && to > from
    });
    let start = |segment: &Segment| (segment.flow, segment.from.whole());
    let fraction = |segment: &Segment| segment.from.fraction();
    segments.sort_unstable_by(|a, b| start(a).cmp(&start(b)).then(fraction(a).total_cmp(&fraction(b))));
    let mut first = Vec::with_capacity(flows + 1);
    let mut position = 0;
    for flow in 0..=flows {
        while segments.get(position).is_some_and(|segment| segment.flow.index() < flow) {
            position += 1;
        }
        first.push(position);
    }
    Sent { segments, first }
}

fn check_flows(
    workload: &Workload,
    fabric: &Fabric,
    sent: &Sent,
    outcome: &Outcome,
    found: &mut Found,
) -> Verdict {
    let mut verdict = Verdict {
        segments: sent.segments.len(),
        bytes: 0.0,
        end_ns: 0.0,
        peak_load: 0.0,
        largest_difference: 0.0,
    };
    for (index, facts) in workload.flows().iter().enumerate() {
        let flow = FlowId::from_index(index);
        check_overlaps(sent.of(flow), found);
        let (end_ns, recorded) = (sent.end_ns(flow), outcome.flow_finish[index]);
        let segments = sent.of(flow);
        let total: f64 = segments.iter().map(|s| s.bytes_per_nano * s.to.since(s.from)).sum();
        let slowest = fabric.path(facts.src, facts.dst).into_iter().map(|link| fabric.capacity(link)).min();
        let full_rate = slowest.map_or(0.0, |capacity| capacity.bytes_per_nano());
        let tolerance = bytes(facts.size.as_f64(), segments.len(), end_ns, full_rate);
        let difference = (total - facts.size.as_f64()).abs();
        if difference > tolerance {
            let (coflow, size) = (workload.coflow_of(flow), facts.size.get());
            found.add(Violation::Bytes { flow, coflow, sent: total, size, tolerance });
        }
        if !is_rounded_up(recorded, sent.end(flow)) {
            found.add(Violation::FlowFinish { flow, recorded, end_ns });
        }
        verdict.bytes += total;
        verdict.end_ns = verdict.end_ns.max(end_ns);
        verdict.largest_difference = verdict.largest_difference.max(difference);
    }
    verdict
}

fn check_overlaps(segments: &[Segment], found: &mut Found) {
    for pair in segments.windows(2) {
        let (from, to) = (pair[1].from, pair[0].to);
        if to.since(from) > grain_ns(0.0) {
            let (from_ns, to_ns) = (from.as_f64(), to.as_f64());
            found.add(Violation::Overlap { flow: pair[0].flow, from_ns, to_ns });
        }
    }
}

/// Returns true if `recorded` is `exact` in whole nanoseconds, rounded up.
fn is_rounded_up(recorded: Instant, exact: FineInstant) -> bool {
    let over = FineInstant::from(recorded).since(exact);
    over >= -grain_ns(exact.as_f64()) && over < 1.0
}
