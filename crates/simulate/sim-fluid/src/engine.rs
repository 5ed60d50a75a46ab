//! The event loop.
//!
//! Each turn goes to the next instant at which anything happens and does, in this order: flows that
//! end, flows that are released, watches that are reached, messages that arrive, policies that
//! wake. Each of these may make the policy decide; decisions are gathered and carried out together,
//! then rates are computed again. Priorities are known before flows enter the allocator, so an
//! arriving coflow goes straight to its place in the order.
//!
//! What comes due in one instant is told in order of ids, whatever order the allocator found it in,
//! and decisions hold in the order in which they were made. A watch that has been reached but not
//! told of yet is forgotten when the policy, told of something else first, asks for another amount:
//! only what it asked for last counts.

use cavalcade_allocate::{Due, Fill};
use cavalcade_harness::{
    Account, Accounts, Driver, END_OF_TIME, Few, MOST_FRUITLESS, PolicyHost, Release, Releases, RunError,
    Watch,
};
use cavalcade_metrics::{EngineCounts, Outcome};
use cavalcade_model::{
    BitsPerSec, Bytes, CoflowId, Contended, Event, Fabric, FineInstant, FlowId, History, Instant,
    PolicyFactory, PortId, Priority, Scope, Target, Terms,
};

use crate::book::Book;
use crate::link_use::LinkRecorder;
use crate::numbers::Numbers;
use crate::pending::Pending;
use crate::schedule::Segments;
use crate::ticks::UnderWay;
use crate::time::{Awaited, Clock, TooLate};
use crate::view::View;
use crate::{Observer, Options, Streamed};

/// Turns of the loop between two looks at whether the run is cancelled: milliseconds even where a
/// turn takes one, as those of `baraat` over hundreds of coflows nearly do.
const TURNS_BETWEEN_LOOKS: u64 = 16;

/// Everything that a run is made of.
pub(crate) struct Run<'a> {
    pub(crate) workload: Book<'a>,
    /// The history of past workloads; `None` where the workload itself says.
    pub(crate) history: Option<&'a History>,
    pub(crate) fabric: &'a Fabric,
    /// The links that the allocator looks at.
    pub(crate) links: Contended,
    pub(crate) factory: &'a dyn PolicyFactory,
    pub(crate) terms: &'a Terms,
    pub(crate) options: &'a Options,
    /// True if the allocator knows flows under numbers that are used again.
    pub(crate) lends_numbers: bool,
    /// True if accounts that are closed may give their numbers to others.
    pub(crate) reuses_accounts: bool,
}

/// The policy's decisions of this turn that are still to be carried out.
#[derive(Default)]
struct Decided {
    accounts: Vec<(u32, Priority)>,
    flows: Vec<(u32, Priority)>,
    caps: Vec<(u32, Option<f64>)>,
    account_watches: Vec<(u32, u64)>,
    flow_watches: Vec<(u32, u64)>,
}

pub(crate) struct Engine<'a> {
    pub(crate) run: Run<'a>,
    pub(crate) fill: Box<dyn Fill>,
    pub(crate) numbers: Numbers,
    releases: Releases,
    pub(crate) accounts: Accounts,
    decided: Decided,
    pending: Pending,
    pub(crate) host: PolicyHost<FineInstant>,
    due: Due,
    /// Accounts that have been closed in this instant, which a moving window lets go of.
    closed: Vec<u32>,
    pub(crate) clock: Clock,
    pub(crate) under_way: UnderWay,
    fastest: f64,
    coflow_left: Vec<u32>,
    coflow_arrival: Vec<Instant>,
    flow_finish: Vec<Instant>,
    done_coflows: usize,
    /// Events in a row that brought nothing about.
    fruitless: u32,
    counts: EngineCounts,
    recorder: Option<LinkRecorder>,
    segments: Option<Segments>,
}

impl<'a> Run<'a> {
    pub(crate) fn with(
        self,
        fill: Box<dyn Fill>,
        mut observer: Option<&mut dyn Observer>,
    ) -> Result<Outcome, RunError> {
        let segments = observer
            .as_ref()
            .filter(|observer| observer.wants_segments())
            .map(|_| Segments::new(self.workload.flows().len()));
        let mut engine = Engine::new(self, fill, segments);
        while engine.turn(&mut observer)? {}
        engine.outcome()
    }

    pub(crate) fn stream(
        self,
        fill: Box<dyn Fill>,
        mut observer: Option<&mut dyn Observer>,
    ) -> Result<Streamed, RunError> {
        let mut engine = Engine::new(self, fill, None);
        while engine.turn(&mut observer)? {}
        let held_flows = engine.run.workload.flows().len();
        Ok(Streamed { outcome: engine.outcome()?, held_flows })
    }
}

impl<'a> Engine<'a> {
    fn new(run: Run<'a>, fill: Box<dyn Fill>, segments: Option<Segments>) -> Self {
        let (workload, fabric, scope) = (&*run.workload, run.fabric, run.terms.scope);
        let history = run.history.cloned().unwrap_or_else(|| History::of(workload));
        let options = run.options;
        Self {
            releases: Releases::new(workload).with_cpu_order(workload, options.cpu_order),
            accounts: Accounts::new(scope, workload),
            decided: Decided::default(),
            pending: Pending::default(),
            host: PolicyHost::new(
                scope.instances(run.factory, fabric, &history),
                run.terms,
                options.control_loss,
                options.seed,
            ),
            due: Due::default(),
            closed: Vec::new(),
            clock: Clock::new(run.workload.begin()),
            under_way: UnderWay::default(),
            fastest: Scope::Fabric.line_rate(fabric, 0).bytes_per_nano(),
            coflow_left: workload.coflows().map(|coflow| coflow.width() as u32).collect(),
            coflow_arrival: vec![Instant::ZERO; workload.coflow_count()],
            flow_finish: vec![Instant::ZERO; if options.forgets_flows { 0 } else { workload.flows().len() }],
            done_coflows: 0,
            fruitless: 0,
            counts: EngineCounts::default(),
            recorder: run.options.link_use.then(|| LinkRecorder::new(fabric.link_count())),
            segments,
            fill,
            numbers: if run.lends_numbers { Numbers::lent(workload) } else { Numbers::Own },
            run,
        }
    }

    /// One instant. Returns whether anything is left to do.
    fn turn(&mut self, observer: &mut Option<&mut dyn Observer>) -> Result<bool, RunError> {
        let Some(next) = self.next_event()? else { return Ok(false) };
        let passed = self.clock.advance(next);
        if let Some(recorder) = &mut self.recorder {
            recorder.advance(passed);
        }
        self.counts.events += 1;
        let now = self.clock.instant();

        let mut due = std::mem::take(&mut self.due);
        self.take_due(&mut due);
        self.finish(&due.finished, now, observer);
        let began = self.release(now, observer)?;
        self.check_progress(began || !due.finished.is_empty(), passed)?;
        self.due = due;
        // Once every coflow is done there is nothing left to decide, though computation may go on.
        if self.is_more_to_do() {
            self.dispatch_what_is_due(now);
        }
        if let Some(fault) = self.host.fault() {
            return Err(fault.clone().into());
        }
        // Only now: hosts that negotiate within the instant change their minds on the way.
        self.carry_out();
        self.retire(observer);
        self.counts.refills += 1;
        self.fill.refill(next);
        if let Some(recorder) = &mut self.recorder {
            let (fill, numbers, workload) = (&*self.fill, &self.numbers, &*self.run.workload);
            let now = self.clock.now();
            let number = |flow: FlowId| numbers.of(workload, flow.0).map(|number| (flow, number));
            let known = self.under_way.flows(workload).filter_map(number);
            let there = known.filter(|&(_, number)| fill.remaining(number, now) > 0.0);
            let rates = there.map(|(flow, number)| (flow, fill.rate(number)));
            recorder.look(fill, workload, (self.run.fabric, &self.run.links), rates);
        }
        if let (Some(segments), Some(observer)) = (&mut self.segments, observer.as_mut()) {
            let (fill, numbers, workload) = (&*self.fill, &self.numbers, &*self.run.workload);
            let rate_of = |flow| numbers.of(workload, flow).map_or(0.0, |number| fill.rate(number));
            segments.update(rate_of, self.clock.point(), *observer);
        }
        if self.counts.refills % TURNS_BETWEEN_LOOKS == 1
            && observer.as_ref().is_some_and(|observer| observer.is_cancelled())
        {
            return Err(RunError::Cancelled);
        }
        Ok(true)
    }

    /// Returns whether it has to be known which coflows are under way.
    fn keeps_under_way(&self) -> bool {
        self.run.terms.ticks.is_some() || self.recorder.is_some()
    }

    /// Returns the time of the next event, if there is one.
    fn next_event(&mut self) -> Result<Option<f64>, RunError> {
        if self.host.has_amounts() {
            return Ok(Some(self.clock.now()));
        }
        let mut awaited = Awaited { instant: self.next_release(), point: None };
        if self.run.terms.ticks.is_some() {
            self.skip_ticks(self.clock.earliest(&*self.fill, awaited));
        }
        if self.is_more_to_do() {
            awaited.point = self.host.next_message();
            awaited.instant = awaited.instant.into_iter().chain(self.host.next_wake()).min();
        }
        self.clock.next(&mut *self.fill, awaited).map_err(|TooLate| self.too_late())
    }

    /// Stops a run in which `any` flow has ended or begun at last, or that goes nowhere: time
    /// stands still, or no flow has a rate.
    fn check_progress(&mut self, any: bool, passed: f64) -> Result<(), RunError> {
        let is_stuck = || passed == 0.0 || self.fill.next() == f64::INFINITY;
        self.fruitless = if any || !is_stuck() { 0 } else { self.fruitless + 1 };
        if self.fruitless < MOST_FRUITLESS {
            return Ok(());
        }
        let at = self.clock.instant();
        Err(match (passed == 0.0, self.host.endless(at)) {
            (false, _) => self.never_ends(at),
            (true, Some(fault)) => fault.into(),
            (true, None) => RunError::Stalled { at, last: "event of no policy" },
        })
    }

    fn too_late(&self) -> RunError {
        RunError::too_late(&self.run.workload, &self.coflow_left, END_OF_TIME)
    }

    fn never_ends(&self, at: Instant) -> RunError {
        RunError::never_ends(&self.run.workload, &self.coflow_left, at)
    }

    /// Returns whether any coflow has not finished, or any task of a stream has not come.
    fn is_more_to_do(&self) -> bool {
        self.done_coflows < self.coflow_left.len() || self.run.workload.next_arrival().is_some()
    }

    fn next_release(&self) -> Option<Instant> {
        let known = self.releases.next(&self.run.workload);
        match self.run.workload.next_arrival() {
            Some(arrival) => Some(known.map_or(arrival, |known| known.min(arrival))),
            None => known,
        }
    }

    /// Takes in the tasks of a stream that have arrived.
    fn admit(&mut self, clock: Instant) -> Result<(), RunError> {
        if !self.run.workload.admit(clock)? {
            return Ok(());
        }
        let workload = &*self.run.workload;
        for coflow in (self.coflow_left.len()..workload.coflow_count()).map(CoflowId::from_index) {
            self.run.fabric.check_paths(workload, coflow)?;
            self.coflow_left.push(workload.flow_ids(coflow).len() as u32);
        }
        self.coflow_arrival.resize(workload.coflow_count(), Instant::ZERO);
        self.accounts.grow(workload);
        self.releases.grow(workload);
        self.fill.reserve_flows(workload.flows().len());
        Ok(())
    }

    /// Lets go of the tasks of a stream that have finished.
    fn retire(&mut self, observer: &mut Option<&mut dyn Observer>) {
        while let Some(task) = self.releases.done.pop() {
            if let Some(observer) = observer {
                let arrival = self.run.workload.task(task).arrival;
                observer.task_finished(task, arrival, self.releases.task_finish[task.index()]);
            }
            if self.run.workload.is_moving() {
                self.accounts.retire(&self.run.workload, task);
                self.run.workload.retire(task);
            }
        }
        self.numbers.retire();
        for account in self.closed.drain(..) {
            if self.fill.forget_account(account) && self.run.reuses_accounts {
                self.accounts.reuse(account);
            }
        }
    }

    /// Finds the flows that have ended, and notes which watched amounts have been reached.
    fn take_due(&mut self, due: &mut Due) {
        due.clear();
        self.fill.take_due(self.clock.now(), due);
        if self.run.lends_numbers {
            for number in due.finished.iter_mut().chain(&mut due.flows) {
                *number = self.numbers.flow(*number);
            }
        }
        for &account in &due.accounts {
            let Account { coflow, place, .. } = self.accounts[account];
            self.host.reach(Target::Coflow(coflow), place);
        }
        for flow in due.flows.iter().map(|&flow| FlowId(flow)) {
            self.host.reach(Target::Flow(flow), self.sender(flow));
        }
        if self.run.workload.is_moving() {
            // Numbers are used again, so their order says nothing of that of coflows.
            due.finished.sort_unstable_by_key(|&flow| (self.run.workload.coflow_of(FlowId(flow)), flow));
        } else {
            due.finished.sort_unstable();
        }
    }

    fn finish(&mut self, finished: &[u32], now: Instant, observer: &mut Option<&mut dyn Observer>) {
        let scoped = self.run.terms.scope != Scope::Fabric;
        for &flow in finished {
            if let Some(finish) = self.flow_finish.get_mut(flow as usize) {
                *finish = now;
            }
            self.numbers.end(&self.run.workload, flow);
            self.host.forget(Target::Flow(FlowId(flow)), self.sender(FlowId(flow)));
            if let (Some(segments), Some(observer)) = (&mut self.segments, observer.as_mut()) {
                segments.end(flow, self.clock.point(), *observer);
            }
            let coflow = self.run.workload.coflow_of(FlowId(flow));
            let left = &mut self.coflow_left[coflow.index()];
            *left -= 1;
            let done = *left == 0;
            if scoped || self.run.terms.flow_events {
                self.finish_at_places(flow, coflow, now);
            }
            self.releases.flow_done(&self.run.workload, FlowId(flow), now);
            if self.keeps_under_way() {
                self.under_way.end(coflow, done);
            }
            if done {
                if !scoped {
                    self.end_part(coflow, 0, now);
                }
                self.releases.coflow_done(&self.run.workload, coflow, now);
                self.numbers.close(&self.run.workload, coflow);
                self.done_coflows += 1;
                if let Some(observer) = observer {
                    observer.progress(self.done_coflows);
                }
            }
        }
    }

    /// Tells the instances that a flow concerns that it has finished, and perhaps their part of the
    /// coflow with it.
    fn finish_at_places(&mut self, flow: u32, coflow: CoflowId, now: Instant) {
        let accounts = self.accounts.of_flow(&self.run.workload, self.run.fabric, FlowId(flow));
        for &account in &*accounts {
            let record = &mut self.accounts[account];
            record.flows_left -= 1;
            let (place, over) = (record.place, record.flows_left == 0);
            if self.run.terms.flow_events {
                self.dispatch(place, now, Event::FlowFinished(FlowId(flow)));
            }
            if over && self.run.terms.scope != Scope::Fabric {
                self.end_part(coflow, place, now);
            }
        }
    }

    /// All flows of `coflow` at `place` have finished: tells the instance, and forgets the account.
    fn end_part(&mut self, coflow: CoflowId, place: u32, now: Instant) {
        self.dispatch(place, now, Event::CoflowFinished(coflow));
        let account = self.accounts.close(coflow, place);
        self.fill.unwatch_account(account);
        // Another that ended in this instant may have made the policy ask for an amount of it.
        self.decided.account_watches.retain(|&(watched, _)| watched != account);
        self.host.forget(Target::Coflow(coflow), place);
        if self.run.workload.is_moving() || self.run.lends_numbers {
            self.closed.push(account);
        }
    }

    /// Starts the flows that are released. Returns whether there were any, or computation has
    /// ended.
    fn release(&mut self, now: Instant, observer: &mut Option<&mut dyn Observer>) -> Result<bool, RunError> {
        let clock = self.clock.passed();
        if self.next_release().is_none_or(|next| next > clock) {
            return Ok(false);
        }
        self.admit(clock)?;
        let mut releases = Vec::new();
        self.releases.take(&self.run.workload, clock, &mut releases);
        for &release in &releases {
            let Release::Flows { first, end, coflow, opens } = release else { continue };
            if opens && !self.accounts.is_open(coflow) {
                self.coflow_arrival[coflow.index()] = now;
                self.accounts.open(&self.run.workload, self.run.fabric, coflow);
                self.fill.reserve_accounts(self.accounts.count());
                if let Some(held) = self.numbers.open(&self.run.workload, coflow) {
                    self.fill.reserve_flows(held);
                }
            }
            self.pending.push(coflow, first..end);
            if self.keeps_under_way() {
                self.under_way.come(coflow);
            }
            if self.run.terms.scope == Scope::Fabric {
                let begin = self.run.workload.flow_ids(coflow).start;
                let own =
                    &self.run.workload.flows_of(coflow)[(first - begin) as usize..(end - begin) as usize];
                let sizes = own.iter().map(|flow| flow.size.0);
                let account = self.accounts.of_flow(&self.run.workload, self.run.fabric, FlowId(first))[0];
                self.accounts[account].arrived += sizes.sum::<u64>();
                continue;
            }
            for flow in first..end {
                let size = self.run.workload.flow(FlowId(flow)).size.0;
                let accounts = self.accounts.of_flow(&self.run.workload, self.run.fabric, FlowId(flow));
                for &account in &*accounts {
                    self.accounts[account].arrived += size;
                }
            }
        }
        for release in releases {
            if let Release::Flows { first, end, .. } = release {
                self.announce(first..end, now, observer);
            }
        }
        Ok(true)
    }

    fn announce(
        &mut self,
        flows: std::ops::Range<u32>,
        now: Instant,
        observer: &mut Option<&mut dyn Observer>,
    ) {
        if let (Some(segments), true) = (&mut self.segments, observer.is_some()) {
            flows.clone().for_each(|flow| segments.begin(flow));
        }
        // Where a coflow is announced as a whole, its first flow stands for all.
        let whole = self.run.terms.scope == Scope::Fabric && !self.run.terms.flow_events;
        for flow in flows.take(if whole { 1 } else { usize::MAX }) {
            let accounts = self.accounts.of_flow(&self.run.workload, self.run.fabric, FlowId(flow));
            for &account in &*accounts {
                let record = &mut self.accounts[account];
                let (place, coflow) = (record.place, record.coflow);
                if !std::mem::replace(&mut record.announced, true) {
                    self.dispatch(place, now, Event::CoflowArrived(coflow));
                }
                if self.run.terms.flow_events {
                    self.dispatch(place, now, Event::FlowArrived(FlowId(flow)));
                }
            }
        }
    }

    fn sender(&self, flow: FlowId) -> u32 {
        self.run.terms.scope.sender(&self.run.workload, flow)
    }

    /// Tells of amounts reached, of messages and wake-ups, until no more of them is due.
    fn dispatch_what_is_due(&mut self, now: Instant) {
        // Messages are due where wake-ups are, or the order of the two in one nanosecond would be
        // rounding's.
        let clock = self.clock.passed();
        let arrived = self.clock.reach();
        while let Some((place, event)) = self.host.next(arrived, clock) {
            self.dispatch(place, now, event);
        }
    }

    /// Hands one event to the instance at `place` and notes what it decides.
    fn dispatch(&mut self, place: u32, now: Instant, event: Event) {
        let view = View {
            place,
            now: self.clock.now(),
            fastest: self.fastest,
            workload: &self.run.workload,
            fabric: self.run.fabric,
            links: &self.run.links,
            accounts: &self.accounts,
            fill: &*self.fill,
            numbers: &self.numbers,
            arrivals: &self.coflow_arrival,
            pending: &self.pending,
        };
        self.host.dispatch(place, now, event, &view);
        let arrival = self.clock.point() + self.run.options.control_delay;
        let mut desk = Desk { accounts: &self.accounts, run: &self.run, decided: &mut self.decided };
        self.host.carry_out(now, arrival, &mut desk);
    }

    /// Carries out what was decided and lets pending flows in.
    fn carry_out(&mut self) {
        let now = self.clock.now();
        keep_last(&mut self.decided.accounts);
        self.decided.accounts.sort_by_key(|&(account, key)| (key, account));
        self.fill.set_account_keys(&self.decided.accounts, now);
        self.decided.accounts.clear();
        let Run { workload, fabric, links, terms, .. } = &self.run;
        for run in self.pending.drain() {
            let mut accounts = self.accounts.of_flow(workload, fabric, FlowId(run.start));
            for flow in run {
                let record = workload.flow(FlowId(flow));
                let path = links.path(fabric, record.src, record.dst);
                let path: Few = path.into_iter().map(|link| link.0).collect();
                if terms.scope != Scope::Fabric {
                    accounts = self.accounts.of_flow(workload, fabric, FlowId(flow));
                }
                let number =
                    self.numbers.of(workload, flow).expect("its coflow has come, and it has not ended");
                self.fill.add(number, &path, &accounts, record.size.as_f64(), now);
            }
        }
        // What is decided of a flow that has ended says nothing.
        for (flow, key) in self.decided.flows.drain(..) {
            if let Some(number) = self.numbers.of(&self.run.workload, flow) {
                self.fill.set_flow_key(number, key, now);
            }
        }
        for (flow, cap) in self.decided.caps.drain(..) {
            if let Some(number) = self.numbers.of(&self.run.workload, flow) {
                self.fill.set_cap(number, cap, now);
            }
        }
        for (flow, bytes) in self.decided.flow_watches.drain(..) {
            let Some(number) = self.numbers.of(&self.run.workload, flow) else { continue };
            let sender = self.run.terms.scope.sender(&self.run.workload, FlowId(flow));
            let milestone = self.run.workload.flow(FlowId(flow)).size.0.saturating_sub(bytes) as f64;
            let left = self.fill.remaining(number, now);
            // Allocators look at flows as they are served; what has been sent already is told of
            // without waiting for that.
            if left > 0.0 && left <= milestone {
                self.host.reach(Target::Flow(FlowId(flow)), sender);
                self.fill.watch_flow(number, 0.0, now);
            } else {
                self.host.forget(Target::Flow(FlowId(flow)), sender);
                self.fill.watch_flow(number, milestone, now);
            }
        }
        for (account, bytes) in self.decided.account_watches.drain(..) {
            self.fill.watch_account(account, bytes as f64, now);
        }
    }

    fn check_done(&self) -> Result<(), RunError> {
        if self.is_more_to_do() { Err(self.never_ends(self.clock.instant())) } else { Ok(()) }
    }

    fn counts(&self) -> EngineCounts {
        EngineCounts { messages: self.host.messages(), policy_calls: self.host.calls(), ..self.counts }
    }

    fn outcome(self) -> Result<Outcome, RunError> {
        self.check_done()?;
        let counts = self.counts();
        Ok(Outcome {
            coflow_arrival: self.coflow_arrival,
            coflow_finish: self.releases.coflow_finish,
            flow_finish: self.flow_finish,
            task_finish: self.releases.task_finish,
            counts,
            link_use: self.recorder.map(LinkRecorder::finish),
            queue_use: None,
            messages: None,
        })
    }
}

/// Takes down decisions until [`Engine::carry_out`].
struct Desk<'e, 'a> {
    accounts: &'e Accounts,
    run: &'e Run<'a>,
    decided: &'e mut Decided,
}

impl Driver for Desk<'_, '_> {
    fn sees(&self, place: u32, target: Target) -> bool {
        let Run { workload, fabric, terms, .. } = self.run;
        match target {
            Target::Coflow(coflow) => coflow.index() < workload.coflow_count(),
            Target::Flow(flow) => {
                flow.index() < workload.flows().len() && terms.scope.sees(workload, fabric, flow, place)
            }
        }
    }

    fn has_peer(&self, port: PortId) -> bool {
        port.0 < self.run.fabric.ports()
    }

    fn set_coflow(&mut self, place: u32, coflow: CoflowId, priority: Priority) {
        let Some(account) = self.accounts.find(coflow, place) else { return };
        self.decided.accounts.push((account, priority));
        let Run { workload, fabric, terms, .. } = self.run;
        let is_in =
            |flow| workload.coflow_of(flow) == coflow && terms.scope.sees(workload, fabric, flow, place);
        self.decided.flows.retain(|&(flow, _)| !is_in(FlowId(flow)));
    }

    fn set_flow(&mut self, _place: u32, flow: FlowId, priority: Priority) {
        self.decided.flows.push((flow.0, priority));
    }

    fn set_cap(&mut self, flow: FlowId, cap: Option<BitsPerSec>) {
        self.decided.caps.push((flow.0, cap.map(|rate| rate.bytes_per_nano())));
    }

    fn watch(&mut self, place: u32, target: Target, bytes: Bytes) -> Watch {
        match target {
            Target::Coflow(coflow) => {
                let Some(account) = self.accounts.find(coflow, place) else { return Watch::Void };
                self.decided.account_watches.push((account, bytes.0));
                Watch::Pending(place)
            }
            Target::Flow(flow) => {
                self.decided.flow_watches.push((flow.0, bytes.0));
                Watch::Pending(self.run.terms.scope.sender(&self.run.workload, flow))
            }
        }
    }
}

/// Leaves the last entry for each account.
fn keep_last(decided: &mut Vec<(u32, Priority)>) {
    if decided.len() > 1 {
        decided.reverse();
        decided.sort_by_key(|&(account, _)| account);
        decided.dedup_by_key(|&mut (account, _)| account);
    }
}
