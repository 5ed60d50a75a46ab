//! A fluid engine that is slow and obvious: plain vectors, everything computed again at every
//! event, nothing kept between events but bytes and priorities. It drives policies by the same
//! contract as the real one and must agree with it.
//!
//! What is a convention rather than a consequence is the same in both, and stands here in one
//! place:
//! - two times within 10⁻³ ns are one ([`grain`]), and an instant is a time rounded up
//!   ([`instant`]); an amount that lacks a millibyte is reached;
//! - at an instant, flows end, then flows arrive, then watches of what has not ended are reached,
//!   each in order of ids; what is decided is carried out; then messages and wake-ups come, and
//!   what they decide is carried out, until there are no more;
//! - a watch that has been replaced in the same instant, before it was told of, is not told of;
//! - decisions hold in the order in which they were made; a coflow's priority goes to all of its
//!   flows that are there.

mod stages;
mod view;

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use cavalcade_allocate::reference::{self, Past};
use cavalcade_metrics::{EngineCounts, Outcome};
use cavalcade_model::{
    BitsPerSec, CoflowId, Contended, Decision, Discipline, Event, Fabric, FineInstant, FlowId, History,
    Instant, LinkId, Message, Path, Policy, PolicyFactory, PortId, Priority, Scope, Setting, Target, Terms,
    Workload,
};
use cavalcade_sim_fluid::Options;
use cavalcade_validate::Segment;

use view::View;

/// One flow.
#[derive(Clone, Debug)]
pub(crate) struct FlowState {
    pub(crate) arrived: bool,
    /// Number of flows that arrived before it.
    entered: usize,
    pub(crate) finish: Option<Instant>,
    pub(crate) remaining: f64,
    /// At each place that sees it.
    keys: [Priority; Path::LONGEST],
    cap: f64,
    watch: Option<u64>,
    rate: f64,
}

/// A coflow as one instance knows it.
#[derive(Clone, Debug, Default)]
struct Part {
    key: Priority,
    watch: Option<u64>,
    over: bool,
}

struct Letter {
    due: f64,
    from: u32,
    to: u32,
    message: Message,
}

struct Engine<'a> {
    workload: &'a Workload,
    fabric: &'a Fabric,
    /// The links on which flows are rivals.
    links: Contended,
    terms: Terms,
    options: &'a Options,
    capacity: Vec<f64>,
    now: f64,
    flows: Vec<FlowState>,
    policies: Vec<Policy>,
    wake_at: Vec<Option<Instant>>,
    /// The knowledge of each instance of the coflows it has been told of.
    parts: BTreeMap<(u32, CoflowId), Part>,
    letters: Vec<Letter>,
    decided: Vec<(u32, Decision)>,
    schedule: Vec<Segment>,
    counts: EngineCounts,
    /// True if nothing has happened since rates were computed but that flows have ended.
    same_coflows: bool,
}

/// Runs a policy. Returns the schedule beside the outcome.
pub(crate) fn simulate(
    workload: &Workload,
    fabric: &Fabric,
    factory: &dyn PolicyFactory,
    options: &Options,
) -> (Outcome, Vec<Segment>) {
    assert_eq!(options.control_loss, 0.0, "which messages get lost is the real engine's affair");
    let mut engine = Engine::new(workload, fabric, factory, options);
    while let Some(next) = engine.next_time() {
        engine.advance(next);
        engine.turn();
        engine.counts.events += 1;
        assert!(engine.counts.events < 1_000_000, "no end in sight");
    }
    engine.outcome()
}

/// Returns the distance at which two times are one.
fn grain(now: f64) -> f64 {
    (now * 1e-15).max(1e-3)
}

/// The most that an amount may lack and count as reached.
const MILLIBYTE: f64 = 1e-3;

/// The whole nanosecond in which a time ends.
fn instant(now: f64) -> Instant {
    Instant((now - 2.0 * grain(now)).max(0.0).ceil() as u64)
}

impl<'a> Engine<'a> {
    fn new(
        workload: &'a Workload,
        fabric: &'a Fabric,
        factory: &dyn PolicyFactory,
        options: &'a Options,
    ) -> Self {
        let terms = factory.terms();
        let history = History::of(workload);
        let (places, ports) = match terms.scope {
            Scope::Fabric => (1, fabric.ports()),
            Scope::Host => (fabric.ports(), fabric.ports()),
            Scope::Link => (fabric.link_count() as u32, fabric.ports()),
        };
        let line_rate = |place: u32| -> BitsPerSec {
            match terms.scope {
                Scope::Fabric => {
                    let of_ports = fabric.links().take(2 * ports as usize);
                    of_ports.map(|link| fabric.capacity(link)).max().expect("a fabric has ports")
                }
                Scope::Host => fabric.capacity(fabric.ingress(PortId(place))),
                Scope::Link => fabric.capacity(LinkId(place)),
            }
        };
        let build = |place| factory.build(&Setting { ports, line_rate: line_rate(place), history: &history });
        let fresh = |flow: &cavalcade_model::Flow| FlowState {
            arrived: false,
            entered: 0,
            finish: None,
            remaining: flow.size.as_f64(),
            keys: [Priority::default(); Path::LONGEST],
            cap: f64::INFINITY,
            watch: None,
            rate: 0.0,
        };
        Self {
            workload,
            fabric,
            links: terms.scope.links(fabric),
            options,
            capacity: fabric.links().map(|link| fabric.capacity(link).bytes_per_nano()).collect(),
            now: 0.0,
            flows: workload.flows().iter().map(fresh).collect(),
            policies: (0..places).map(build).collect(),
            wake_at: vec![None; places as usize],
            parts: BTreeMap::new(),
            letters: Vec::new(),
            decided: Vec::new(),
            schedule: Vec::new(),
            counts: EngineCounts::default(),
            same_coflows: false,
            terms,
        }
    }

    /// The instances that see a flow.
    fn places(&self, flow: FlowId) -> Vec<u32> {
        let facts = self.workload.flow(flow);
        match self.terms.scope {
            Scope::Fabric => vec![0],
            Scope::Host => vec![facts.src.0],
            Scope::Link => self.fabric.path(facts.src, facts.dst).into_iter().map(|link| link.0).collect(),
        }
    }

    /// The flows of a coflow that one instance sees, arrived or not.
    fn flows_at(&self, place: u32, coflow: CoflowId) -> Vec<FlowId> {
        let ids = self.workload.flow_ids(coflow).map(FlowId);
        ids.filter(|&flow| self.places(flow).contains(&place)).collect()
    }

    /// Returns the number of flows that arrived before the first of a coflow.
    fn opened(&self, coflow: CoflowId) -> usize {
        let flows = self.workload.flow_ids(coflow).map(|flow| &self.flows[flow as usize]);
        let entered = flows.filter(|flow| flow.arrived).map(|flow| flow.entered).min();
        entered.expect("a coflow with an active flow has arrived")
    }

    fn is_active(&self, flow: FlowId) -> bool {
        let state = &self.flows[flow.index()];
        state.arrived && state.finish.is_none()
    }

    fn all_flows(&self) -> impl Iterator<Item = FlowId> + use<> {
        (0..self.flows.len()).map(FlowId::from_index)
    }

    fn active(&self) -> Vec<FlowId> {
        self.all_flows().filter(|&flow| self.is_active(flow)).collect()
    }

    fn sent(&self, flow: FlowId) -> f64 {
        self.workload.flow(flow).size.as_f64() - self.flows[flow.index()].remaining
    }

    fn attained(&self, place: u32, coflow: CoflowId) -> f64 {
        self.flows_at(place, coflow).into_iter().map(|flow| self.sent(flow)).sum()
    }

    fn rate_at(&self, place: u32, coflow: CoflowId) -> f64 {
        self.flows_at(place, coflow).into_iter().map(|flow| self.flows[flow.index()].rate).sum()
    }

    /// Returns the time at which anything happens next.
    fn next_time(&self) -> Option<f64> {
        if self.flows.iter().all(|flow| flow.finish.is_some()) {
            return None;
        }
        let mut times: Vec<f64> = Vec::new();
        for flow in self.active() {
            let state = &self.flows[flow.index()];
            times.push(self.now + state.remaining / state.rate);
            times.extend(state.watch.map(|bytes| self.time_to(bytes, self.sent(flow), state.rate)));
        }
        for (&(place, coflow), part) in &self.parts {
            let (sent, rate) = (self.attained(place, coflow), self.rate_at(place, coflow));
            times.extend(part.watch.map(|bytes| self.time_to(bytes, sent, rate)));
        }
        let releases = stages::releases(self.workload, &self.flows, self.options.cpu_order);
        let waiting = releases.iter().zip(&self.flows).filter(|(_, state)| !state.arrived);
        times.extend(waiting.filter_map(|(release, _)| release.map(|instant| instant.as_f64())));
        times.extend(self.wake_at.iter().flatten().map(|when| when.as_f64()));
        times.extend(self.letters.iter().map(|letter| letter.due));
        if self.terms.discipline == Discipline::ShortestFlow {
            times.extend(self.overtaking());
        }
        let next = times.into_iter().filter(|time| time.is_finite()).min_by(f64::total_cmp);
        Some(next.expect("something is left to send, so something happens").max(self.now))
    }

    fn time_to(&self, bytes: u64, sent: f64, rate: f64) -> f64 {
        let missing = bytes as f64 - sent;
        if missing <= rate * grain(self.now) + MILLIBYTE { self.now } else { self.now + missing / rate }
    }

    /// Returns when a flow that sends faster comes to have fewer bytes left than one that sends
    /// slower: by a 1024th of a byte and a moment later, so that the order has changed by then.
    fn overtaking(&self) -> Vec<f64> {
        let mut times = Vec::new();
        for a in self.active() {
            for b in self.active() {
                let (a, b) = (&self.flows[a.index()], &self.flows[b.index()]);
                if a.remaining + 1.0 / 1024.0 > b.remaining && a.rate > b.rate * (1.0 + 1e-9) {
                    times.push(
                        self.now + (a.remaining - b.remaining + 1.0 / 1024.0) / (a.rate - b.rate) + 2e-3,
                    );
                }
            }
        }
        times
    }

    fn advance(&mut self, next: f64) {
        for flow in self.active() {
            let state = &mut self.flows[flow.index()];
            state.remaining = (state.remaining - state.rate * (next - self.now)).max(0.0);
            if state.rate > 0.0 && next > self.now {
                let [from, to] = [self.now, next].map(|ns| FineInstant::new(Instant::ZERO, ns));
                self.schedule.push(Segment { flow, from, to, bytes_per_nano: state.rate });
            }
        }
        self.now = next;
    }

    fn turn(&mut self) {
        self.finish_flows();
        let (parts, flows) = self.due_watches();
        self.release_flows();
        for (place, coflow) in parts {
            self.tell_reached(place, Target::Coflow(coflow));
        }
        for flow in flows {
            for place in self.places(flow) {
                self.tell_reached(place, Target::Flow(flow));
            }
        }
        self.carry_out();
        while self.deliver() | self.wake() {
            self.carry_out();
        }
        self.allocate();
    }

    fn tell_reached(&mut self, place: u32, target: Target) {
        let mut watches =
            self.decided.iter().filter(|(at, _)| *at == place).flat_map(|(_, decision)| &decision.watches);
        if !watches.any(|(watched, _)| *watched == target) {
            self.tell(place, Event::Reached(target));
        }
    }

    /// Takes out the watches that have been reached.
    fn due_watches(&mut self) -> (Vec<(u32, CoflowId)>, Vec<FlowId>) {
        let reached = |bytes: Option<u64>, sent: f64, rate: f64| {
            bytes.is_some_and(|bytes| self.time_to(bytes, sent, rate) <= self.now)
        };
        let mut parts: Vec<(u32, CoflowId)> = (self.parts.iter())
            .filter(|((place, coflow), part)| {
                reached(part.watch, self.attained(*place, *coflow), self.rate_at(*place, *coflow))
            })
            .map(|(&part, _)| part)
            .collect();
        parts.sort_by_key(|&(place, coflow)| (coflow, place));
        let flows: Vec<FlowId> = (self.active().into_iter())
            .filter(|&flow| {
                let state = &self.flows[flow.index()];
                reached(state.watch, self.sent(flow), state.rate)
            })
            .collect();
        for part in &parts {
            self.parts.get_mut(part).expect("it was just found").watch = None;
        }
        for flow in &flows {
            self.flows[flow.index()].watch = None;
        }
        (parts, flows)
    }

    fn finish_flows(&mut self) {
        let ended: Vec<FlowId> = (self.active().into_iter())
            .filter(|flow| {
                let state = &self.flows[flow.index()];
                state.rate > 0.0 && state.remaining <= state.rate * grain(self.now)
            })
            .collect();
        for &flow in &ended {
            let state = &mut self.flows[flow.index()];
            (state.remaining, state.finish) = (0.0, Some(instant(self.now)));
        }
        for (index, &flow) in ended.iter().enumerate() {
            let coflow = self.workload.coflow_of(flow);
            self.same_coflows &= self.workload.flow_ids(coflow).any(|flow| self.is_active(FlowId(flow)));
            for place in self.places(flow) {
                if self.terms.flow_events {
                    self.tell(place, Event::FlowFinished(flow));
                }
                let left = self.flows_at(place, coflow);
                let told = |flow: &FlowId| {
                    self.flows[flow.index()].finish.is_some() && !ended[index + 1..].contains(flow)
                };
                let over = left.iter().all(told);
                let part = self.parts.get_mut(&(place, coflow)).expect("what finishes has arrived");
                if over && !std::mem::replace(&mut part.over, true) {
                    part.watch = None;
                    self.tell(place, Event::CoflowFinished(coflow));
                }
            }
        }
    }

    fn release_flows(&mut self) {
        let releases = stages::releases(self.workload, &self.flows, self.options.cpu_order);
        let due = |flow: &FlowId| {
            let release = releases[flow.index()];
            !self.flows[flow.index()].arrived
                && release.is_some_and(|release| release.as_f64() <= self.now + 2.0 * grain(self.now))
        };
        let arriving: Vec<FlowId> = self.all_flows().filter(due).collect();
        let entered = self.flows.iter().filter(|flow| flow.arrived).count();
        for (index, &flow) in arriving.iter().enumerate() {
            let state = &mut self.flows[flow.index()];
            (state.arrived, state.entered) = (true, entered + index);
            self.same_coflows = false;
        }
        for flow in arriving {
            let coflow = self.workload.coflow_of(flow);
            for (side, place) in self.places(flow).into_iter().enumerate() {
                if let Entry::Vacant(unknown) = self.parts.entry((place, coflow)) {
                    unknown.insert(Part::default());
                    self.tell(place, Event::CoflowArrived(coflow));
                }
                let key = self.parts[&(place, coflow)].key;
                self.flows[flow.index()].keys[side] = key;
                if self.terms.flow_events {
                    self.tell(place, Event::FlowArrived(flow));
                }
            }
        }
    }

    fn deliver(&mut self) -> bool {
        let mut any = false;
        while let Some(at) =
            self.letters.iter().position(|letter| letter.due <= self.now + 2.0 * grain(self.now))
        {
            let Letter { from, to, message, .. } = self.letters.remove(at);
            self.tell(to, Event::Received { from: PortId(from), message });
            any = true;
        }
        any
    }

    fn wake(&mut self) -> bool {
        let mut any = false;
        for place in 0..self.wake_at.len() {
            if self.wake_at[place].is_some_and(|when| when.as_f64() <= self.now + 2.0 * grain(self.now)) {
                self.wake_at[place] = None;
                self.tell(place as u32, Event::Wake);
                any = true;
            }
        }
        any
    }

    fn tell(&mut self, place: u32, event: Event) {
        self.counts.policy_calls += 1;
        let mut decision = Decision::default();
        let mut policies = std::mem::take(&mut self.policies);
        let view = View { place, engine: self };
        policies[place as usize].handle(instant(self.now), event, &view, &mut decision);
        self.policies = policies;
        if let Some(when) = decision.wake_at {
            self.wake_at[place as usize] = Some(when);
        }
        for &(to, message) in &decision.messages {
            let due = self.now + self.options.control_delay.as_f64();
            self.letters.push(Letter { due, from: place, to: to.0, message });
        }
        self.decided.push((place, decision));
    }

    /// Carries out what was decided, in that order.
    fn carry_out(&mut self) {
        let decided = std::mem::take(&mut self.decided);
        for (place, decision) in &decided {
            for &(target, key) in &decision.priorities {
                match target {
                    Target::Coflow(coflow) => self.set_coflow(*place, coflow, key),
                    Target::Flow(flow) => self.set_flow(*place, flow, key),
                }
            }
            for &(flow, cap) in &decision.caps {
                self.flows[flow.index()].cap = cap.map_or(f64::INFINITY, |rate| rate.bytes_per_nano());
                self.same_coflows = false;
            }
            for &(target, bytes) in &decision.watches {
                match target {
                    Target::Flow(flow) => self.flows[flow.index()].watch = Some(bytes.0),
                    Target::Coflow(coflow) => match self.parts.get_mut(&(*place, coflow)) {
                        Some(part) if !part.over => part.watch = Some(bytes.0),
                        _ => {}
                    },
                }
            }
        }
    }

    fn set_coflow(&mut self, place: u32, coflow: CoflowId, key: Priority) {
        let Some(part) = self.parts.get_mut(&(place, coflow)) else { return };
        part.key = key;
        for flow in self.flows_at(place, coflow) {
            self.set_flow(place, flow, key);
        }
    }

    fn set_flow(&mut self, place: u32, flow: FlowId, key: Priority) {
        for (side, at) in self.places(flow).into_iter().enumerate() {
            if at == place {
                let before = std::mem::replace(&mut self.flows[flow.index()].keys[side], key);
                self.same_coflows &= before == key || !self.is_active(flow);
            }
        }
    }

    fn allocate(&mut self) {
        let active = self.active();
        let hops = |path: &[u32]| if self.terms.scope == Scope::Link { path.len() } else { 1 };
        let paths: Vec<Vec<u32>> = (active.iter())
            .map(|&flow| {
                let facts = self.workload.flow(flow);
                self.links.path(self.fabric, facts.src, facts.dst).iter().map(|link| link.0).collect()
            })
            .collect();
        let flows: Vec<reference::Flow<'_>> = (active.iter().zip(&paths))
            .map(|(flow, path)| {
                let state = &self.flows[flow.index()];
                reference::Flow {
                    path,
                    coflow: self.opened(self.workload.coflow_of(*flow)) as u32,
                    priorities: &state.keys[..hops(path)],
                    remaining: state.remaining,
                    cap: state.cap,
                }
            })
            .collect();
        let before: Vec<f64> = active.iter().map(|flow| self.flows[flow.index()].rate).collect();
        let past = Past { rates: &before, same_coflows: self.same_coflows };
        let rates = reference::allocate(&self.terms, &self.capacity, &flows, past);
        self.flows.iter_mut().for_each(|state| state.rate = 0.0);
        for (flow, rate) in active.iter().zip(rates) {
            self.flows[flow.index()].rate = rate;
        }
        self.same_coflows = true;
    }

    fn outcome(self) -> (Outcome, Vec<Segment>) {
        let done = stages::done(self.workload, &self.flows, self.options.cpu_order);
        let releases = stages::releases(self.workload, &self.flows, self.options.cpu_order);
        let coflows = || (0..self.workload.coflow_count()).map(CoflowId::from_index);
        let arrival =
            |coflow| self.workload.flow_ids(coflow).filter_map(|flow| releases[flow as usize]).min();
        let finish = |coflow| {
            let place = self.workload.place(coflow);
            done[place.task.index()][place.stage.index()]
        };
        let outcome = Outcome {
            coflow_arrival: coflows()
                .map(|coflow| arrival(coflow).expect("all flows have arrived"))
                .collect(),
            coflow_finish: coflows().map(|coflow| finish(coflow).expect("all stages are done")).collect(),
            flow_finish: self.flows.iter().filter_map(|flow| flow.finish).collect(),
            task_finish: done
                .iter()
                .map(|stages| stages.iter().copied().flatten().max().unwrap_or_default())
                .collect(),
            counts: self.counts,
            link_use: None,
            queue_use: None,
            messages: None,
        };
        (outcome, self.schedule)
    }
}
