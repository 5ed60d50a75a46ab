//! What each link carries at every moment: never more than it can, and (where asked) never less
//! than it could.
//!
//! One link at a time: the starts and ends of all segments on it, in order of time, and a running
//! sum between them. The sum is compensated and starts again from zero whenever nothing is sent, so
//! that its rounding stays far below [`RELATIVE_RATE`] however many segments there are. A stretch
//! of too much load counts when it lasts longer than two times can differ by rounding.

use std::ops::Range;

use cavalcade_model::{Fabric, FlowId, LinkId, Workload};

use crate::check::Sent;
use crate::schedule::BPS;
use crate::tolerance::{IDLE_NS, IDLE_RATE, RELATIVE_RATE, grain_ns};
use crate::violation::{Overload, Violation};
use crate::violations::Found;

/// The number of flows named with an overload.
const NAMED: usize = 8;

/// The flows that cross each link.
pub(crate) struct LinkFlows {
    first: Vec<usize>,
    flows: Vec<FlowId>,
}

impl LinkFlows {
    pub(crate) fn new(workload: &Workload, fabric: &Fabric) -> Self {
        let mut crossings: Vec<(LinkId, FlowId)> = Vec::with_capacity(2 * workload.flows().len());
        for (index, flow) in workload.flows().iter().enumerate() {
            let path = fabric.path(flow.src, flow.dst);
            crossings.extend(path.into_iter().map(|link| (link, FlowId::from_index(index))));
        }
        crossings.sort_unstable();
        let first = (0..=fabric.link_count())
            .map(|link| crossings.partition_point(|(other, _)| other.index() < link))
            .collect();
        Self { first, flows: crossings.into_iter().map(|(_, flow)| flow).collect() }
    }

    fn on(&self, link: LinkId) -> &[FlowId] {
        let Range { start, end } = self.first[link.index()]..self.first[link.index() + 1];
        &self.flows[start..end]
    }
}

/// A stretch of time in which a link's load stays on one side of a limit.
#[derive(Clone, Copy, Debug)]
struct Stretch {
    from_ns: f64,
    to_ns: f64,
    /// The largest load in it, in bytes per nanosecond.
    peak: f64,
}

/// A compensated sum (Neumaier): what rounding takes off each addition is kept beside it.
#[derive(Clone, Copy, Default)]
struct Sum {
    value: f64,
    lost: f64,
}

impl Sum {
    fn add(&mut self, term: f64) {
        let total = self.value + term;
        self.lost += if self.value.abs() >= term.abs() {
            (self.value - total) + term
        } else {
            (term - total) + self.value
        };
        self.value = total;
    }

    fn total(self) -> f64 {
        self.value + self.lost
    }
}

/// Calls `visit` with each piece of time between changes on `link`: from, to, load.
fn sweep(
    link: LinkId,
    flows: &LinkFlows,
    sent: &Sent,
    changes: &mut Vec<(f64, f64)>,
    mut visit: impl FnMut(f64, f64, f64),
) {
    changes.clear();
    for segment in flows.on(link).iter().flat_map(|&flow| sent.of(flow)) {
        let (from_ns, to_ns) = (segment.from.as_f64(), segment.to.as_f64());
        if from_ns < to_ns {
            changes.push((from_ns, segment.bytes_per_nano));
            changes.push((to_ns, -segment.bytes_per_nano));
        }
    }
    changes.sort_unstable_by(|a, b| a.0.total_cmp(&b.0).then(a.1.total_cmp(&b.1)));
    let (mut load, mut sending, mut since) = (Sum::default(), 0_usize, f64::NEG_INFINITY);
    for &(at_ns, change) in changes.iter() {
        if at_ns > since {
            visit(since, at_ns, load.total());
            since = at_ns;
        }
        load.add(change);
        if change > 0.0 {
            sending += 1;
        } else {
            // A segment's start sorts before its end, because it has a length; so there is one to
            // end.
            sending -= 1;
        }
        if sending == 0 {
            load = Sum::default();
        }
    }
    visit(since, f64::INFINITY, load.total());
}

/// The stretches in which `inside` holds for the load.
fn stretches(
    link: LinkId,
    flows: &LinkFlows,
    sent: &Sent,
    changes: &mut Vec<(f64, f64)>,
    inside: impl Fn(f64) -> bool,
) -> Vec<Stretch> {
    let mut found: Vec<Stretch> = Vec::new();
    sweep(link, flows, sent, changes, |from_ns, to_ns, load| {
        if !inside(load) {
            return;
        }
        match found.last_mut() {
            Some(last) if last.to_ns >= from_ns => {
                last.to_ns = to_ns;
                last.peak = last.peak.max(load);
            }
            _ => found.push(Stretch { from_ns, to_ns, peak: load }),
        }
    });
    found
}

/// Checks that no link ever carries more than its capacity. Returns the largest load as a share of
/// capacity.
pub(crate) fn check_loads(
    workload: &Workload,
    fabric: &Fabric,
    flows: &LinkFlows,
    sent: &Sent,
    found: &mut Found,
) -> f64 {
    let mut changes = Vec::new();
    let mut peak_load = 0.0_f64;
    for link in fabric.links() {
        let capacity = fabric.capacity(link).bytes_per_nano();
        let limit = capacity * (1.0 + RELATIVE_RATE);
        for over in stretches(link, flows, sent, &mut changes, |load| load > limit) {
            if over.to_ns - over.from_ns <= grain_ns(over.to_ns) {
                continue;
            }
            // Whose it is takes a look at all flows of the link: only where that is told.
            if found.lists(Overload::KIND) {
                let name = workload.link_name(fabric, link);
                let over = overload(fabric, (link, name), flows, sent, over);
                found.add(Violation::Overload(Box::new(over)));
            } else {
                found.count();
            }
        }
        sweep(link, flows, sent, &mut changes, |_, _, load| {
            if load <= limit {
                peak_load = peak_load.max(load / capacity);
            }
        });
    }
    peak_load
}

fn overload(
    fabric: &Fabric,
    (link, name): (LinkId, String),
    flows: &LinkFlows,
    sent: &Sent,
    over: Stretch,
) -> Overload {
    let meets = |&flow: &FlowId| {
        sent.of(flow)
            .iter()
            .any(|segment| segment.from.as_f64() < over.to_ns && segment.to.as_f64() > over.from_ns)
    };
    Overload {
        link: name,
        from_ns: over.from_ns,
        to_ns: over.to_ns,
        load_bps: over.peak * BPS,
        capacity_bps: fabric.capacity(link).get(),
        flows: flows.on(link).iter().copied().filter(meets).take(NAMED).collect(),
    }
}

/// Checks that no flow that has arrived and is not done has capacity to spare on all its links for
/// longer than [`IDLE_NS`]. Of each flow the first such time is found.
pub(crate) fn check_idle(
    workload: &Workload,
    fabric: &Fabric,
    flows: &LinkFlows,
    sent: &Sent,
    releases: &[f64],
    found: &mut Found,
) {
    let mut changes = Vec::new();
    let spare: Vec<Vec<Stretch>> = fabric
        .links()
        .map(|link| {
            let busy = fabric.capacity(link).bytes_per_nano() * (1.0 - IDLE_RATE);
            stretches(link, flows, sent, &mut changes, |load| load < busy)
        })
        .collect();
    for (index, facts) in workload.flows().iter().enumerate() {
        let flow = FlowId::from_index(index);
        let lists = fabric.path(facts.src, facts.dst).into_iter().map(|link| spare[link.index()].as_slice());
        if let Some((from_ns, to_ns)) =
            common(&mut lists.collect::<Vec<_>>(), releases[index], sent.end_ns(flow))
        {
            found.add(Violation::Idle { flow, coflow: workload.coflow_of(flow), from_ns, to_ns });
        }
    }
}

/// The first stretch longer than [`IDLE_NS`] that lies in all lists and between `from_ns` and
/// `to_ns`. Uses up the lists.
fn common(lists: &mut [&[Stretch]], from_ns: f64, to_ns: f64) -> Option<(f64, f64)> {
    for list in lists.iter_mut() {
        *list = &list[list.partition_point(|stretch| stretch.to_ns <= from_ns)..];
    }
    loop {
        let (mut from, mut to, mut ends_first) = (from_ns, to_ns, 0);
        for (index, list) in lists.iter().enumerate() {
            let stretch = list.first()?;
            from = from.max(stretch.from_ns);
            if stretch.to_ns < to {
                (to, ends_first) = (stretch.to_ns, index);
            }
        }
        if to - from > IDLE_NS + grain_ns(to) {
            return Some((from, to));
        }
        if from >= to_ns || to >= to_ns {
            return None;
        }
        lists[ends_first] = &lists[ends_first][1..];
    }
}
