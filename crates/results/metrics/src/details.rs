//! One coflow up close: when each of its flows is sent, and whom it waits for.
//!
//! A coflow is done when its last flow is. That flow crosses a few links, and the one looked at is
//! where others took most of the capacity. From the coflow's first flow there to its last byte
//! there, that link's capacity went to the coflow itself, to others, or is unused, and the three
//! add up to that time. The share of another coflow in seconds, its bytes in that time over the
//! capacity, is how long this one waited for it: had the other not been there, the link could have
//! carried this one for so long. The link is unused while the coflow's flows are held elsewhere.
//!
//! It is computed from what was sent, so it holds for every policy and needs none of them to
//! explain itself. The cost for each coflow is a look at all segments of two links, or as many as a
//! path has.
//!
//! # Rejected
//! - The link that would take longest alone: under others' load it is often not where the coflow is
//!   held.
//! - The time in which a coflow sends nothing at all: under fair sharing it always sends something.

use std::collections::{BTreeMap, BTreeSet};

use cavalcade_model::{CoflowId, Contended, Fabric, FlowId, Instant, LinkId, Nanos, Workload};

/// A time in which a flow is sent, in nanoseconds since the first arrival, and the bytes that are
/// sent in it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sent {
    /// The flow.
    pub flow: FlowId,
    /// Its beginning.
    pub from_ns: f64,
    /// Its end.
    pub to_ns: f64,
    /// The bytes.
    pub bytes: f64,
}

/// Flows that end within so many nanoseconds end together.
const TOGETHER_NS: f64 = 1_000.0;

/// Some coflows up close, under some runs of a comparison.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Details {
    /// What was not looked at, and why: some runs, or nothing at all.
    pub left_out: Option<String>,
    /// The runs, by their place in the comparison.
    pub runs: Vec<usize>,
    /// The coflows.
    pub coflows: Vec<CoflowDetails>,
}

/// A coflow up close.
#[derive(Clone, Debug, PartialEq)]
pub struct CoflowDetails {
    /// Its place in the comparison.
    pub coflow: usize,
    /// Those of its flows that are shown.
    pub flows: Vec<FlowId>,
    /// Ports and size of each of them, as text would name them: source, destination, bytes.
    pub ends: Vec<(u32, u32, u64)>,
    /// What became of it under each of the runs.
    pub runs: Vec<CoflowRun>,
}

/// A coflow up close under one run.
#[derive(Clone, Debug, PartialEq)]
pub struct CoflowRun {
    /// For each flow that is shown the first and the last instant at which it was sent, since the
    /// first arrival.
    pub sent: Vec<(Instant, Instant)>,
    /// Whom it waited for; `None` where it crosses no link.
    pub wait: Option<Wait>,
}

/// The use of the link at which a coflow was held most.
#[derive(Clone, Debug, PartialEq)]
pub struct Wait {
    /// The link.
    pub link: LinkId,
    /// Its name in the fabric, with those of ports that the workload gives.
    pub link_name: String,
    /// The time from the coflow's first flow there to its last byte there.
    pub lasting: Nanos,
    /// The part of that time in which the link carried the coflow itself.
    pub own: Nanos,
    /// The part in which it carried others.
    pub others: Nanos,
    /// The part in which it was unused, since flows were held elsewhere.
    pub idle: Nanos,
    /// The others and their parts, largest first.
    pub ahead: Vec<(CoflowId, Nanos)>,
}

/// What was sent in a run, by link.
#[derive(Debug)]
pub struct SentByLink<'a> {
    workload: &'a Workload,
    fabric: &'a Fabric,
    /// The links that can hold a flow.
    links: Contended,
    sent: &'a [Sent],
    /// For each link the places of what crosses it, by beginning.
    of_link: Vec<Vec<usize>>,
    /// For each flow its first and last instant.
    span: Vec<(f64, f64)>,
}

impl<'a> SentByLink<'a> {
    /// Of everything that was sent of a workload over a fabric, in any order; flows that are not in
    /// the workload are left out.
    pub fn new(workload: &'a Workload, fabric: &'a Fabric, sent: &'a [Sent]) -> Self {
        let mut of_link = vec![Vec::new(); fabric.link_count()];
        let mut span = vec![(f64::INFINITY, 0.0f64); workload.flows().len()];
        let mut order: Vec<usize> = (0..sent.len()).collect();
        order.sort_by(|&a, &b| sent[a].from_ns.total_cmp(&sent[b].from_ns));
        for place in order {
            let piece = &sent[place];
            let Some(span) = span.get_mut(piece.flow.index()).filter(|_| piece.bytes > 0.0) else { continue };
            *span = (span.0.min(piece.from_ns), span.1.max(piece.to_ns));
            let flow = workload.flow(piece.flow);
            for link in fabric.path(flow.src, flow.dst) {
                of_link[link.index()].push(place);
            }
        }
        Self { workload, fabric, links: Contended::of(fabric), sent, of_link, span }
    }

    /// A coflow that arrived at an instant, with those of its flows that are to be shown.
    pub fn coflow(&self, coflow: CoflowId, arrival: Instant, shown: &[FlowId]) -> CoflowRun {
        let whole = |nanos: f64| Instant(nanos.max(0.0).round() as u64);
        let sent = |flow: &FlowId| match self.span[flow.index()] {
            (from, to) if from <= to => (whole(from), whole(to)),
            _ => (arrival, arrival),
        };
        let ids = || self.workload.flow_ids(coflow).map(|id| FlowId::from_index(id as usize));
        // Flows that are made to end together are all last, whatever rounding makes of it.
        let end = ids().map(|flow| self.span[flow.index()].1).fold(0.0, f64::max);
        let last = ids().filter(|flow| self.span[flow.index()].1 >= end - TOGETHER_NS);
        let last = last.map(|flow| self.workload.flow(flow));
        let links = last.flat_map(|flow| self.links.path(self.fabric, flow.src, flow.dst));
        let links: BTreeSet<LinkId> = links.collect();
        let waits = links.into_iter().filter_map(|link| self.wait(coflow, arrival, link));
        // The first of equals, so that the answer does not depend on an order of comparisons.
        let wait = waits.reduce(|best, next| if next.others > best.others { next } else { best });
        CoflowRun { sent: shown.iter().map(sent).collect(), wait }
    }

    /// The use of a link while a coflow had bytes left there; `None` where it sent none.
    fn wait(&self, coflow: CoflowId, arrival: Instant, link: LinkId) -> Option<Wait> {
        let (mut from, mut to) = (f64::INFINITY, 0.0f64);
        for (id, flow) in self.workload.flow_ids(coflow).zip(self.workload.flows_of(coflow)) {
            if self.fabric.path(flow.src, flow.dst).into_iter().any(|crossed| crossed == link) {
                from = from.min((arrival + flow.wave).as_f64());
                to = to.max(self.span[id as usize].1);
            }
        }
        let of_link = &self.of_link[link.index()];
        let before = of_link.partition_point(|&place| self.sent[place].from_ns < to);
        let capacity = self.fabric.capacity(link).bytes_per_nano();
        let mut parts: BTreeMap<CoflowId, f64> = BTreeMap::new();
        for piece in of_link[..before].iter().map(|&place| &self.sent[place]) {
            let together = piece.to_ns.min(to) - piece.from_ns.max(from);
            if together > 0.0 {
                let bytes = piece.bytes * together / (piece.to_ns - piece.from_ns);
                *parts.entry(self.workload.coflow_of(piece.flow)).or_default() += bytes / capacity;
            }
        }
        let own = parts.remove(&coflow)?;
        let others: f64 = parts.values().sum();
        let nanos = |value: f64| Nanos(value.max(0.0).round() as u64);
        let mut ahead: Vec<(CoflowId, Nanos)> =
            parts.into_iter().map(|(id, part)| (id, nanos(part))).collect();
        ahead.retain(|&(_, part)| part > Nanos::ZERO);
        ahead.sort_by_key(|&(id, part)| (core::cmp::Reverse(part), id));
        Some(Wait {
            link,
            link_name: self.workload.link_name(self.fabric, link),
            lasting: nanos(to - from),
            own: nanos(own),
            others: nanos(others),
            idle: nanos(to - from - own - others),
            ahead,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cavalcade_model::{BitsPerSec, Bytes, Flow, PortId, WorkloadBuilder};

    const S: u64 = 1_000_000_000;

    /// Two coflows from port 0 to ports 2 and 3, of 2 and 3 bytes, over links of a byte a second,
    /// where the second comes a second later and another coflow keeps port 3 busy for 4 s.
    fn scene() -> (Workload, Fabric) {
        let mut builder = WorkloadBuilder::new(4);
        let flow = |src, dst, size| Flow {
            src: PortId(src),
            dst: PortId(dst),
            size: Bytes(size),
            wave: Nanos::ZERO,
        };
        builder.coflow("a", Instant(0), vec![flow(0, 2, 2)]);
        builder.coflow("busy", Instant(0), vec![flow(1, 3, 4)]);
        builder.coflow("b", Instant(S), vec![flow(0, 3, 3)]);
        (builder.build().unwrap(), Fabric::big_switch(4, BitsPerSec(8)).unwrap())
    }

    fn sent(flow: u32, from_s: f64, to_s: f64, bytes: f64) -> Sent {
        Sent { flow: FlowId(flow), from_ns: from_s * 1e9, to_ns: to_s * 1e9, bytes }
    }

    #[test]
    fn a_coflow_waits_where_others_took_most_and_the_parts_add_up() {
        let (workload, fabric) = scene();
        // First come, first served: b waits at port 3 for busy until 4 s, and from port 0 for a
        // until 2 s.
        let pieces = [sent(0, 0.0, 2.0, 2.0), sent(1, 0.0, 4.0, 4.0), sent(2, 4.0, 7.0, 3.0)];
        let by_link = SentByLink::new(&workload, &fabric, &pieces);
        let b = by_link.coflow(CoflowId(2), Instant(S), &[FlowId(2)]);
        assert_eq!(b.sent, [(Instant(4 * S), Instant(7 * S))]);
        let wait = b.wait.unwrap();
        assert_eq!((wait.link, wait.link_name.as_str()), (fabric.egress(PortId(3)), "egress of port 3"));
        let seconds = |nanos: Nanos| nanos.as_secs_f64();
        assert_eq!([wait.lasting, wait.own, wait.others, wait.idle].map(seconds), [6.0, 3.0, 3.0, 0.0]);
        assert_eq!(wait.ahead, [(CoflowId(1), Nanos(3 * S))]);
    }

    #[test]
    fn the_link_is_called_by_its_host_where_the_trace_names_it() {
        let mut builder = WorkloadBuilder::new(2);
        for name in ["first", "second"] {
            let flow = Flow { src: PortId(0), dst: PortId(1), size: Bytes(1), wave: Nanos::ZERO };
            builder.coflow(name, Instant(0), vec![flow]);
        }
        builder.port_names(["web", "db"].map(str::to_owned).to_vec());
        let (workload, fabric) = (builder.build().unwrap(), Fabric::big_switch(2, BitsPerSec(8)).unwrap());
        let pieces = [sent(0, 0.0, 1.0, 1.0), sent(1, 1.0, 2.0, 1.0)];
        let by_link = SentByLink::new(&workload, &fabric, &pieces);
        let wait = by_link.coflow(CoflowId(1), Instant(0), &[FlowId(1)]).wait.unwrap();
        assert!(["ingress of web", "egress of db"].contains(&wait.link_name.as_str()), "{}", wait.link_name);
    }

    #[test]
    fn a_shared_link_is_waited_for_in_part_and_an_idle_one_is_counted() {
        let (workload, fabric) = scene();
        // From 1 s to 3 s a and b share port 0, each at half the rate; then b pauses for a second.
        let pieces =
            [sent(0, 0.0, 1.0, 1.0), sent(0, 1.0, 3.0, 1.0), sent(2, 1.0, 3.0, 1.0), sent(2, 4.0, 6.0, 2.0)];
        let by_link = SentByLink::new(&workload, &fabric, &pieces);
        let wait = by_link.coflow(CoflowId(2), Instant(S), &[]).wait.unwrap();
        assert_eq!(wait.link, fabric.ingress(PortId(0)));
        assert_eq!(wait.ahead, [(CoflowId(0), Nanos(S))]);
        assert_eq!((wait.lasting, wait.own, wait.idle), (Nanos(5 * S), Nanos(3 * S), Nanos(S)));
        // Alone before b came: no flow to wait for.
        let alone = by_link.coflow(CoflowId(1), Instant(0), &[FlowId(1)]);
        assert_eq!(
            (alone.wait, alone.sent),
            (None, vec![(Instant(0), Instant(0))]),
            "nothing of it was sent"
        );
    }
}
