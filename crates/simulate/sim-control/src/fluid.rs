//! The bytes of a run: an exact fluid of all flows, which share max-min what their caps leave, as
//! open connections do over TCP.
//!
//! Rates come from the allocator that [`select`] names for max-min, so they are those of the
//! definition. Time is that of the workload, from its beginning.

use std::collections::BTreeMap;

use cavalcade_allocate::{Due, Fill, Load, select};
use cavalcade_harness::{END_OF_TIME, Release, Releases, RunError};
use cavalcade_metrics::{EngineCounts, Outcome};
use cavalcade_model::{
    BitsPerSec, Bytes, ClassShares, CoflowId, Contended, Discipline, Fabric, FlowId, Instant, PortId, Scope,
    Terms, Workload,
};
use cavalcade_sim_fluid::parts::{Awaited, Clock, LinkRecorder, SLACK, Segments, TooLate};
use cavalcade_sim_fluid::{Observer, Options};

/// The terms of open connections: max-min, without classes.
const TERMS: Terms = Terms {
    scope: Scope::Fabric,
    discipline: Discipline::MaxMin,
    shares: ClassShares::Strict,
    flow_events: true,
    work_conserving: false,
    starvation_free: false,
    ticks: None,
};

/// Something that happened to the bytes of the workload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Happened {
    /// A flow has sent all its bytes.
    Finished(FlowId),
    /// All flows of a coflow have.
    Done(CoflowId),
    /// A flow may begin.
    Arrived(FlowId),
}

/// All flows, and the time.
pub(crate) struct Fluid<'a> {
    pub(crate) workload: &'a Workload,
    fabric: &'a Fabric,
    /// The links that the allocator looks at.
    links: Contended,
    fill: Box<dyn Fill>,
    releases: Releases,
    due: Due,
    pub(crate) clock: Clock,
    fastest: BitsPerSec,
    coflow_left: Vec<u32>,
    coflow_arrival: Vec<Instant>,
    /// Bytes of the flows of each coflow that have arrived.
    arrived: Vec<u64>,
    has_begun: Vec<bool>,
    flow_finish: Vec<Instant>,
    done_coflows: usize,
    pub(crate) counts: EngineCounts,
    recorder: Option<LinkRecorder>,
    segments: Option<Segments>,
}

impl<'a> Fluid<'a> {
    pub(crate) fn new(
        workload: &'a Workload,
        fabric: &'a Fabric,
        options: &Options,
        wants_segments: bool,
    ) -> Self {
        let (mut fill, links) = select(&TERMS, fabric, Load::of(workload), options.allocator);
        fill.reserve_accounts(workload.coflow_count());
        Self {
            fill,
            releases: Releases::new(workload).with_cpu_order(workload, options.cpu_order),
            due: Due::default(),
            clock: Clock::new(workload.origin()),
            fastest: Scope::Fabric.line_rate(fabric, 0),
            coflow_left: workload.coflows().map(|coflow| coflow.width() as u32).collect(),
            coflow_arrival: vec![Instant::ZERO; workload.coflow_count()],
            arrived: vec![0; workload.coflow_count()],
            has_begun: vec![false; workload.flows().len()],
            flow_finish: vec![Instant::ZERO; workload.flows().len()],
            done_coflows: 0,
            counts: EngineCounts::default(),
            recorder: options.link_use.then(|| LinkRecorder::new(fabric.link_count())),
            segments: wants_segments.then(|| Segments::new(workload.flows().len())),
            workload,
            fabric,
            links,
        }
    }

    /// Returns when the next flow ends or begins, but not after `until`; `None` if there is nothing
    /// to wait for.
    ///
    /// # Errors
    /// If that is beyond the end of time.
    pub(crate) fn next(&mut self, until: Option<Instant>) -> Result<Option<f64>, RunError> {
        let release = self.releases.next(self.workload);
        let awaited = Awaited { instant: release.into_iter().chain(until).min(), point: None };
        self.clock
            .next(&mut *self.fill, awaited)
            .map_err(|TooLate| RunError::too_late(self.workload, &self.coflow_left, END_OF_TIME))
    }

    /// Tells whether every coflow is done.
    pub(crate) fn is_done(&self) -> bool {
        self.done_coflows == self.coflow_left.len()
    }

    /// Returns the arrival of a coflow's first flow.
    pub(crate) fn arrival(&self, coflow: CoflowId) -> Instant {
        self.coflow_arrival[coflow.index()]
    }

    /// Returns the bytes of a coflow that have arrived to be sent, sent ones too.
    pub(crate) fn arrived(&self, coflow: CoflowId) -> Bytes {
        Bytes(self.arrived[coflow.index()])
    }

    /// Returns the bytes that a flow has sent, as an application counts them.
    pub(crate) fn sent(&self, flow: FlowId) -> u64 {
        if !self.has_begun.get(flow.index()).is_some_and(|has_begun| *has_begun) {
            return 0;
        }
        let size = self.workload.flow(flow).size.0;
        let rounding = 1e-3 + self.fastest.bytes_per_nano() * SLACK;
        let left = (self.fill.remaining(flow.0, self.clock.now()) - rounding).max(0.0).ceil();
        size - (left as u64).min(size)
    }

    /// Returns the bytes that have come to a port from each other port, as its kernel counts them.
    pub(crate) fn arrivals(&self, port: PortId) -> BTreeMap<PortId, u64> {
        let mut totals = BTreeMap::new();
        for (id, flow) in self.workload.flows().iter().enumerate().filter(|(_, flow)| flow.dst == port) {
            *totals.entry(flow.src).or_default() += self.sent(FlowId::from_index(id));
        }
        totals
    }

    /// Moves all bytes up to `next`. Appends what ended and what arrives.
    pub(crate) fn advance(
        &mut self,
        next: f64,
        observer: &mut Option<&mut dyn Observer>,
        happened: &mut Vec<Happened>,
    ) {
        let passed = self.clock.advance(next);
        if let Some(recorder) = &mut self.recorder {
            recorder.advance(passed);
        }
        self.counts.events += 1;
        let mut due = std::mem::take(&mut self.due);
        due.clear();
        self.fill.take_due(next, &mut due);
        due.finished.sort_unstable();
        for &flow in &due.finished {
            self.finish(FlowId(flow), observer, happened);
        }
        self.due = due;
        self.release(happened);
    }

    fn finish(
        &mut self,
        flow: FlowId,
        observer: &mut Option<&mut dyn Observer>,
        happened: &mut Vec<Happened>,
    ) {
        let now = self.clock.instant();
        self.flow_finish[flow.index()] = now;
        if let (Some(segments), Some(observer)) = (&mut self.segments, observer.as_mut()) {
            segments.end(flow.0, self.clock.point(), *observer);
        }
        happened.push(Happened::Finished(flow));
        self.releases.flow_done(self.workload, flow, now);
        let coflow = self.workload.coflow_of(flow);
        self.coflow_left[coflow.index()] -= 1;
        if self.coflow_left[coflow.index()] == 0 {
            happened.push(Happened::Done(coflow));
            self.releases.coflow_done(self.workload, coflow, now);
            self.done_coflows += 1;
            if let Some(observer) = observer {
                observer.progress(self.done_coflows);
            }
        }
    }

    fn release(&mut self, happened: &mut Vec<Happened>) {
        let clock = self.clock.passed();
        if self.releases.next(self.workload).is_none_or(|next| next > clock) {
            return;
        }
        let mut releases = Vec::new();
        self.releases.take(self.workload, clock, &mut releases);
        for release in releases {
            let Release::Flows { first, end, coflow, opens } = release else { continue };
            if opens {
                self.coflow_arrival[coflow.index()] = self.clock.instant();
            }
            for flow in (first..end).map(FlowId) {
                let record = self.workload.flow(flow);
                let path = self.links.path(self.fabric, record.src, record.dst);
                let path: Vec<u32> = path.into_iter().map(|link| link.0).collect();
                self.fill.add(flow.0, &path, &[coflow.0], record.size.as_f64(), self.clock.now());
                self.arrived[coflow.index()] += record.size.0;
                self.has_begun[flow.index()] = true;
                if let Some(segments) = &mut self.segments {
                    segments.begin(flow.0);
                }
                happened.push(Happened::Arrived(flow));
            }
        }
    }

    /// Returns the bytes that a coflow has sent.
    pub(crate) fn sent_of(&self, coflow: CoflowId) -> u64 {
        self.workload.flow_ids(coflow).map(|flow| self.sent(FlowId(flow))).sum()
    }

    /// Caps the rate of a flow, or lifts the cap.
    pub(crate) fn set_cap(&mut self, flow: FlowId, cap: Option<BitsPerSec>) {
        self.fill.set_cap(flow.0, cap.map(|rate| rate.bytes_per_nano()), self.clock.now());
    }

    /// Computes the rates that hold from now on.
    pub(crate) fn refill(&mut self, observer: &mut Option<&mut dyn Observer>) {
        self.counts.refills += 1;
        self.fill.refill(self.clock.now());
        if let Some(recorder) = &mut self.recorder {
            let now = self.clock.now();
            let is_left = |&(_, left): &(usize, &u32)| *left > 0;
            let coflows = self.coflow_left.iter().enumerate().filter(is_left);
            let flows = coflows.flat_map(|(coflow, _)| self.workload.flow_ids(CoflowId::from_index(coflow)));
            let there =
                flows.filter(|&flow| self.has_begun[flow as usize] && self.fill.remaining(flow, now) > 0.0);
            let rates = there.map(|flow| (FlowId(flow), self.fill.rate(flow)));
            recorder.look(&*self.fill, self.workload, (self.fabric, &self.links), rates);
        }
        if let (Some(segments), Some(observer)) = (&mut self.segments, observer) {
            segments.update(|flow| self.fill.rate(flow), self.clock.point(), *observer);
        }
    }

    /// Tells whether any flow is being sent.
    pub(crate) fn is_moving(&self) -> bool {
        self.fill.next() < f64::INFINITY
    }

    /// The error of a run in which what is left is never sent.
    pub(crate) fn never_ends(&self) -> RunError {
        RunError::never_ends(self.workload, &self.coflow_left, self.clock.instant())
    }

    /// Returns when everything ended.
    ///
    /// # Errors
    /// If something has not and never will.
    pub(crate) fn outcome(self) -> Result<Outcome, RunError> {
        if !self.is_done() {
            return Err(self.never_ends());
        }
        Ok(Outcome {
            coflow_arrival: self.coflow_arrival,
            coflow_finish: self.releases.coflow_finish,
            flow_finish: self.flow_finish,
            task_finish: self.releases.task_finish,
            counts: self.counts,
            link_use: self.recorder.map(LinkRecorder::finish),
            queue_use: None,
            messages: None,
        })
    }
}
