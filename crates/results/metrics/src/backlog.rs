//! What waits in each priority class of a policy: bytes that are not sent yet, over time.
//!
//! A class is what a network with few queues keeps of a priority, so its bytes at a time are the
//! length of that queue. They are counted from when a flow arrives to when it is sent, the ones
//! that are being sent included, as in queueing theory.
//!
//! It is computed from what was sent and from what the policy decided, after the run: no engine
//! counts anything for it. The cost is a look at each flow's pieces for each class that it was in.

use cavalcade_model::{CoflowId, FlowId, Instant, PortId, Workload};

use crate::details::Sent;
use crate::outcome::Outcome;

/// What a policy decided about a class.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Classed {
    /// When.
    pub at: Instant,
    /// All flows of a coflow, or one.
    pub of: ClassedFlows,
    /// The class, 0 the highest.
    pub class: u16,
}

/// The flows that a decision is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClassedFlows {
    /// All flows of a coflow; where a policy decides at hosts, those that are sent from this port.
    Coflow(CoflowId, Option<PortId>),
    /// One flow.
    Flow(FlowId),
}

impl Classed {
    fn holds_for(&self, workload: &Workload, flow: FlowId) -> bool {
        match self.of {
            ClassedFlows::Flow(one) => one == flow,
            ClassedFlows::Coflow(_, port) => port.is_none_or(|port| workload.flow(flow).src == port),
        }
    }
}

/// Returns for each class the bytes in it that are not sent yet: the mean from the first arrival to
/// the last byte. What has no decision yet is in class 0. `sent` may come in any order, decisions
/// come in the order in which they were made. A flow that is not in the workload is left out.
pub fn backlog_by_class(
    workload: &Workload,
    outcome: &Outcome,
    sent: &[Sent],
    decisions: &[Classed],
) -> Vec<f64> {
    let mut of_flow: Vec<Vec<Sent>> = vec![Vec::new(); workload.flows().len()];
    for piece in sent {
        if let Some(pieces) = of_flow.get_mut(piece.flow.index()) {
            pieces.push(*piece);
        }
    }
    let mut of_coflow: Vec<Vec<Classed>> = vec![Vec::new(); workload.coflow_count()];
    for decision in decisions {
        let coflow = match decision.of {
            ClassedFlows::Coflow(coflow, _) => Some(coflow),
            ClassedFlows::Flow(flow) => {
                Some(flow).filter(|flow| flow.index() < of_flow.len()).map(|flow| workload.coflow_of(flow))
            }
        };
        if let Some(decisions) = coflow.and_then(|coflow| of_coflow.get_mut(coflow.index())) {
            decisions.push(*decision);
        }
    }
    let mut byte_nanos = vec![0.0];
    for coflow in workload.coflows() {
        let arrival = outcome.coflow_arrival[coflow.id.index()];
        let first = coflow.flows.iter().map(|flow| flow.wave).min().unwrap_or_default();
        for (facts, flow) in coflow.flows.iter().zip(workload.flow_ids(coflow.id).map(FlowId)) {
            let pieces = &of_flow[flow.index()];
            let begin = (arrival + facts.wave.saturating_sub(first)).as_f64();
            let decisions =
                of_coflow[coflow.id.index()].iter().filter(|one| one.holds_for(workload, flow)).copied();
            add(&mut byte_nanos, (facts.size.as_f64(), begin), pieces, decisions);
        }
    }
    let last = outcome.coflow_finish.iter().max().map_or(0.0, |finish| finish.as_f64());
    byte_nanos.into_iter().map(|sum| if last > 0.0 { sum / last } else { 0.0 }).collect()
}

/// Adds what a flow of `size` bytes that arrives at `begin` has left, times how long, to the
/// classes that it is in.
fn add(
    byte_nanos: &mut Vec<f64>,
    (size, begin): (f64, f64),
    pieces: &[Sent],
    decisions: impl Iterator<Item = Classed>,
) {
    let end = pieces.iter().map(|piece| piece.to_ns).fold(begin, f64::max);
    let left = |from: f64, to: f64| {
        let sent: f64 = pieces.iter().map(|piece| area(piece, to) - area(piece, from)).sum();
        (size * (to - from) - sent).max(0.0)
    };
    let mut stay = |class: u16, from: f64, to: f64| {
        if from < to {
            let class = usize::from(class);
            byte_nanos.resize(byte_nanos.len().max(class + 1), 0.0);
            byte_nanos[class] += left(from, to);
        }
    };
    let (mut class, mut since) = (0, begin);
    for decision in decisions.filter(|decision| decision.at.as_f64() < end) {
        let at = decision.at.as_f64().max(since);
        stay(class, since, at);
        (class, since) = (decision.class, at);
    }
    stay(class, since, end);
}

/// The bytes of a piece that are sent, summed over time up to `at`.
fn area(piece: &Sent, at: f64) -> f64 {
    let lasting = piece.to_ns - piece.from_ns;
    if at <= piece.from_ns {
        0.0
    } else if at < piece.to_ns {
        piece.bytes * (at - piece.from_ns).powi(2) / (2.0 * lasting)
    } else {
        piece.bytes * (lasting / 2.0 + (at - piece.to_ns))
    }
}

#[cfg(test)]
mod tests {
    use cavalcade_model::{Bytes, Flow, Nanos, WorkloadBuilder};

    use super::*;
    use crate::outcome::EngineCounts;

    fn sent(flow: u32, from_ns: f64, to_ns: f64, bytes: f64) -> Sent {
        Sent { flow: FlowId(flow), from_ns, to_ns, bytes }
    }

    fn outcome(workload: &Workload, finishes: &[u64]) -> Outcome {
        let tasks = workload.tasks().iter().map(|task| task.arrival);
        Outcome {
            coflow_arrival: tasks.collect(),
            coflow_finish: finishes.iter().copied().map(Instant).collect(),
            flow_finish: finishes.iter().copied().map(Instant).collect(),
            task_finish: finishes.iter().copied().map(Instant).collect(),
            counts: EngineCounts::default(),
            link_use: None,
            queue_use: None,
            messages: None,
        }
    }

    #[test]
    fn bytes_count_in_the_class_that_their_flow_is_in_until_they_are_sent() {
        let flow =
            |src, size| Flow { src: PortId(src), dst: PortId(2), size: Bytes(size), wave: Nanos::ZERO };
        let mut builder = WorkloadBuilder::new(3);
        builder.coflow("long", Instant(0), vec![flow(0, 100)]);
        builder.coflow("short", Instant(20), vec![flow(1, 10)]);
        let workload = builder.build().unwrap();
        // One byte a nanosecond; the short one overtakes as soon as it comes.
        let pieces = [sent(0, 0.0, 20.0, 20.0), sent(1, 20.0, 30.0, 10.0), sent(0, 30.0, 110.0, 80.0)];
        let of = |coflow, port| ClassedFlows::Coflow(CoflowId(coflow), port);
        let decide = |at, of, class| Classed { at: Instant(at), of, class };
        let outcome = outcome(&workload, &[110, 30]);
        let backlog = |decisions: &[Classed]| backlog_by_class(&workload, &outcome, &pieces, decisions);
        // The long one: 100 to 80 for 20 ns, 80 for 10 ns, 80 to 0 for 80 ns. The short one: 10 to
        // 0 for 10 ns.
        let (before, rest, short) = (90.0 * 20.0, 80.0 * 10.0 + 40.0 * 80.0, 5.0 * 10.0);
        assert_eq!(backlog(&[]), [(before + rest + short) / 110.0]);
        let expected = [(before + short) / 110.0, 0.0, rest / 110.0];
        assert_eq!(backlog(&[decide(20, of(0, None), 2)]), expected);
        assert_eq!(backlog(&[decide(20, of(0, Some(PortId(0))), 2)]), expected);
        assert_eq!(backlog(&[decide(20, ClassedFlows::Flow(FlowId(0)), 2)]), expected);
        assert_eq!(backlog(&[decide(20, of(0, Some(PortId(1))), 2)]), [(before + rest + short) / 110.0]);
        // The last decision of an instant counts.
        assert_eq!(backlog(&[decide(20, of(0, None), 1), decide(20, of(0, None), 2)]), expected);
    }

    #[test]
    fn nothing_to_send_is_nothing_that_waits() {
        let workload = WorkloadBuilder::new(1).build().unwrap();
        assert_eq!(backlog_by_class(&workload, &outcome(&workload, &[]), &[], &[]), [0.0]);
    }
}
