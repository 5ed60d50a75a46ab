//! `learn`: coflows in the order of what their ended flows say is left of them.
//!
//! # The problem
//! Shortest first needs sizes, which are not told. Queues (Aalo) learn that a coflow is large by
//! serving it; Philae sends pilot flows ahead and does nothing with what ends later. Both leave
//! much of the gap to a policy that is told all sizes.
//!
//! # The idea
//! 1. **One at a time.** At each port one flow of a coflow is served at a time
//!    ([`Discipline::InTurn`]), and a flow that has begun goes on. So flows end early and one after
//!    the other instead of late and together, and each that ends tells its size. Serving them in
//!    turn costs nothing: it is what a greedy allocator does anyway.
//! 2. **Estimate.** At port `p` a coflow has `n_p` unfinished flows and `e_p` ended ones, which had
//!    `b_p` bytes. A flow there is taken to have `m_p = (b_p + k·m) / (e_p + k)` bytes: `k` flows
//!    of `m` bytes count as if they had ended here. `m` is the mean of all ended flows of the
//!    coflow, and at least `h`, what each flow that has begun and not ended has had: those that end
//!    first are the small ones. The load of the coflow is the largest `n_p·m_p`.
//! 3. **Rank.** What begun flows have had is taken off the load. What is left is taken to be at
//!    least `h`: under a heavy tail what is to come is in proportion to what has been. So the rank
//!    is max(load − h, h), lowest first, with a load of zero before any flow has ended. The bytes
//!    of each flow are not asked for: `h` is the bytes of all begun flows, shared evenly between as
//!    many as can be served at once.
//!
//! A coflow thus comes in at the top, is there until its first flow ends or it has had as much as
//! others have left, and goes to its place. That is within the time of one flow, where queues take
//! the time of a whole queue. A flow that turns out to be larger than those before it takes its
//! coflow back by what it has had: the last flow of a coflow may be a thousand times the others,
//! and everybody would wait for it otherwise.
//!
//! # Earlier runs
//! Most tasks of a cluster have run before. Where a task says of which job it is a run, `memory`
//! above zero has earlier runs stand in for flows that have not ended: `K` flows of `m₀` bytes
//! count as if they had ended in the coflow, `K` being `memory` per cent of its flows. `m₀` is the
//! average of earlier runs, each counting twice the one before it, of the bytes at the fullest side
//! of a port over the most flows at one, for coflows of one place in the DAG: skew between ports
//! recurs with the job. As long as `h` is at most 2·m₀ the flows are as expected, and the rank is
//! load − h: a coflow near its end is not taken for one that is as far from it as from its start.
//! Nothing of a run is kept before it has ended.
//!
//! # What it must know
//! How many flows a coflow has, and from where to where, when it arrives; as Philae does. A coflow
//! whose flows come in waves counts only those that have come, and is ranked too high until the
//! rest has. Sizes are learnt from flows that have ended and from nothing else. A flow that is
//! given up counts as one that small.
//!
//! # Starvation
//! Shortest first starves the largest while smaller ones keep coming. With `patience` = q above
//! zero, a coflow that has waited q times the time that the rest of it would take goes before all
//! that have not, the oldest first. Whatever arrives later then cannot put it off any more.
//!
//! # Invariants
//! - The order of a coflow changes only at multiples of `sync`.
//! - It is a function of events, of coflows' attained bytes, and of the sizes of ended flows.
//!
//! # Rejected
//! - Bytes that each unfinished flow has had, port by port: 700,000 more things to be told of on
//!   the Facebook trace, and no better.
//! - At least 2 % of the load in place of `h`: one flow that is larger than expected holds
//!   everybody up.
//! - The mean of ended flows alone: 2 % worse where sizes inside a coflow spread, on the data that
//!   it was chosen on.
//!
//! `docs/learn.md` has the figures.

use std::collections::BTreeMap;

use cavalcade_model::{
    BitsPerSec, Bytes, ClassShares, CoflowId, Decision, Discipline, Event, FlowFacts, FlowId, Instant, JobId,
    Nanos, NonClairvoyant, Observe, Policy, Priority, Scope, Setting, Terms, Ticks,
};
use cavalcade_spec::{Complaint, Parameter};

use crate::definition::{About, Definition};
use crate::support::ticks::tick_at_or_after;

/// Parameters of `learn`.
#[derive(Clone)]
pub(crate) struct Learn {
    sync: Nanos,
    k: u32,
    patience: u32,
    memory: u32,
}

impl Default for Learn {
    fn default() -> Self {
        Self { sync: Nanos::from_millis(50), k: 3, patience: 0, memory: 0 }
    }
}

impl Definition for Learn {
    const ABOUT: About = About {
        name: "learn",
        title: "Flows of a coflow one at a time, coflows by what those that ended say is left",
        source: "Cavalcade, docs/learn.md",
        paper: None,
        knows: "where each coflow's flows are, how many they are, the size of those that have ended, and the bytes that each coflow has sent, up to `sync` old",
        cost: "O(log ports) for a flow; every `sync` O(active coflows + ports of those of which a flow has ended)",
    };

    const PARAMETERS: &'static [Parameter<Self>] = &[
        Parameter {
            name: "sync",
            meaning: "interval between rankings of coflows (delta)",
            field: |p| &mut p.sync,
        },
        Parameter {
            name: "k",
            meaning: "number of flows of average size that count as if they had ended at every port",
            field: |p| &mut p.k,
        },
        Parameter {
            name: "patience",
            meaning: "longest wait of a coflow before it goes first, as a multiple of its remaining time; 0: for ever",
            field: |p| &mut p.patience,
        },
        Parameter {
            name: "memory",
            meaning: "flows of the size of the job's earlier runs that count as if they had ended, in per cent of the coflow's flows; 0: ignore earlier runs",
            field: |p| &mut p.memory,
        },
    ];

    fn check(&mut self, _: &[&str]) -> Result<(), Complaint> {
        Complaint::unless(self.sync > Nanos::ZERO, "sync", "above 0ms")?;
        Complaint::unless((1..=1000).contains(&self.k), "k", "1 to 1000")?;
        Complaint::unless(self.memory <= 10_000, "memory", "0 to 10000")
    }

    fn terms(&self) -> Terms {
        Terms {
            scope: Scope::Fabric,
            discipline: Discipline::InTurn,
            shares: ClassShares::Strict,
            flow_events: true,
            work_conserving: true,
            starvation_free: false,
            // Ranks follow from what the view shows, and hold until the next tick.
            ticks: Some(Ticks { every: self.sync, memory: self.sync }),
        }
    }

    fn build(&self, setting: &Setting<'_>) -> Policy {
        Policy::NonClairvoyant(Box::new(Instance {
            parameters: self.clone(),
            line_rate: setting.line_rate,
            coflows: BTreeMap::new(),
            past: Past::default(),
            is_waking: false,
        }))
    }
}

/// The most kinds of coflows whose earlier runs are kept.
const MOST_KINDS: usize = 10_000;

/// Coflows that resemble each other: a job, and the place in its DAG (the internal part of a
/// CoflowId).
type Kind = (JobId, u32);

/// Sizes of flows in earlier runs, by kind.
#[derive(Debug, Default)]
struct Past {
    kinds: BTreeMap<Kind, Runs>,
    /// Number of runs so far.
    runs: u64,
}

/// The runs of a kind.
#[derive(Clone, Copy, Debug)]
struct Runs {
    /// The average of their sizes, later runs counting more.
    size: u64,
    /// The number of the last one.
    last: u64,
}

impl Past {
    fn size(&self, kind: Kind) -> Option<u64> {
        self.kinds.get(&kind).map(|runs| runs.size)
    }

    /// Takes in a run that has ended. Where there are too many kinds the one that has not run for
    /// longest is forgotten.
    fn keep(&mut self, kind: Kind, size: u64) {
        self.runs += 1;
        let former = self.size(kind).unwrap_or(size);
        self.kinds.insert(kind, Runs { size: former.midpoint(size), last: self.runs });
        if self.kinds.len() > MOST_KINDS {
            let oldest = self.kinds.iter().min_by_key(|(_, runs)| runs.last).map(|(&kind, _)| kind);
            oldest.map(|kind| self.kinds.remove(&kind));
        }
    }
}

struct Instance {
    parameters: Learn,
    line_rate: BitsPerSec,
    coflows: BTreeMap<CoflowId, Active>,
    past: Past,
    /// True if the next tick has been asked for.
    is_waking: bool,
}

/// State of an active coflow.
#[derive(Debug, Default)]
struct Active {
    lines: BTreeMap<u32, Line>,
    kind: Option<Kind>,
    /// Size of flows in earlier runs.
    expected: Option<u64>,
    /// Flows that have come.
    flows: u64,
    /// Flows that have ended, and their bytes.
    ended: u64,
    bytes: u64,
    /// Bytes of flows that had ended before the policy was told of the coflow.
    before: u64,
    /// The rank, and the attained bytes that it was computed for; `None` once a flow has come or
    /// ended.
    ranked: Option<(Bytes, u64)>,
    given: Option<Priority>,
}

/// The flows of a coflow at one side of a port.
#[derive(Clone, Copy, Debug, Default)]
struct Line {
    unfinished: u64,
    ended: u64,
    bytes: u64,
}

/// The sides of ports that a flow crosses: odd numbers receive.
fn lines(flow: &FlowFacts) -> [u32; 2] {
    [2 * flow.src.0, 2 * flow.dst.0 + 1]
}

impl Active {
    fn add(&mut self, flow: &FlowFacts) {
        for line in lines(flow) {
            self.lines.entry(line).or_default().unfinished += 1;
        }
        self.flows += 1;
        self.ranked = None;
    }

    fn end(&mut self, flow: &FlowFacts, size: Bytes) {
        for line in lines(flow) {
            let line = self.lines.entry(line).or_default();
            line.unfinished = line.unfinished.saturating_sub(1);
            line.ended += 1;
            line.bytes = line.bytes.saturating_add(size.0);
        }
        self.ended += 1;
        self.bytes = self.bytes.saturating_add(size.0);
        self.ranked = None;
    }

    /// The bytes that it is expected to have left at its fullest port.
    fn rank(&mut self, attained: Bytes, parameters: &Learn) -> u64 {
        if let Some((at, rank)) = self.ranked
            && at == attained
        {
            return rank;
        }
        let begun = attained.0.saturating_sub(self.bytes).saturating_sub(self.before) / self.width();
        let load = match self.mean(parameters.memory) {
            Some(mean) => {
                let load = |line: &Line| line.load(parameters.k.into(), mean.max(begun));
                self.lines.values().map(load).max().unwrap_or(0)
            }
            None => 0,
        };
        let is_as_expected = self.expected.is_some_and(|size| begun <= size.saturating_mul(2));
        let rank = load.saturating_sub(begun).max(if is_as_expected { 0 } else { begun });
        self.ranked = Some((attained, rank));
        rank
    }

    /// The bytes of ended flows at the fullest side of a port over the most flows at one; `None`
    /// before any has ended.
    fn size(&self) -> Option<u64> {
        let most = |of: fn(&Line) -> u64| self.lines.values().map(of).max().unwrap_or(0);
        most(|line| line.bytes).checked_div(most(|line| line.ended))
    }

    /// The mean size of ended flows, among which flows of the size of earlier runs count; `None`
    /// where there are neither.
    fn mean(&self, memory: u32) -> Option<u64> {
        let counted = |size| ((self.flows * u64::from(memory)).div_ceil(100), size);
        let (counted, size) = self.expected.map_or((0, 0), counted);
        let bytes = u128::from(self.bytes) + u128::from(counted) * u128::from(size);
        let mean = bytes.checked_div(u128::from(self.ended + counted))?;
        Some(u64::try_from(mean).unwrap_or(u64::MAX))
    }

    /// The most flows that can be served at once.
    fn width(&self) -> u64 {
        let open =
            |side| self.lines.iter().filter(move |(number, line)| *number % 2 == side && line.unfinished > 0);
        open(0).count().min(open(1).count()).max(1) as u64
    }
}

impl Line {
    /// The bytes that its unfinished flows are expected to have, where `k` flows of `mean` bytes
    /// count as if they had ended here.
    fn load(&self, k: u64, mean: u64) -> u64 {
        let bytes = u128::from(self.bytes) + u128::from(k) * u128::from(mean);
        let load = u128::from(self.unfinished) * bytes / u128::from(self.ended + k);
        u64::try_from(load).unwrap_or(u64::MAX)
    }
}

impl Instance {
    fn arrive(&mut self, coflow: CoflowId, view: &dyn Observe, decision: &mut Decision) {
        let mut active = Active::default();
        let mut sent: u64 = 0;
        view.flows(coflow, &mut |flow| {
            active.add(&view.flow(flow));
            sent = sent.saturating_add(view.flow_attained(flow).0);
        });
        active.before = view.attained(coflow).0.saturating_sub(sent);
        let facts = view.coflow(coflow);
        active.kind = facts.job.map(|job| (job, facts.internal));
        let is_asked = self.parameters.memory > 0;
        active.expected = active.kind.filter(|_| is_asked).and_then(|kind| self.past.size(kind));
        let top = Priority::new(1, 0);
        active.given = Some(top);
        decision.set_coflow(coflow, top);
        self.coflows.insert(coflow, active);
    }

    fn end(&mut self, flow: FlowId, view: &dyn Observe) {
        let facts = view.flow(flow);
        if let Some(active) = self.coflows.get_mut(&facts.coflow) {
            active.end(&facts, view.flow_attained(flow));
        }
    }

    fn leave(&mut self, coflow: CoflowId) {
        let Some(active) = self.coflows.remove(&coflow) else { return };
        if let (Some(kind), Some(size)) = (active.kind, active.size()) {
            self.past.keep(kind, size);
        }
    }

    /// Gives every coflow its place.
    fn rank(&mut self, now: Instant, view: &dyn Observe, decision: &mut Decision) {
        for (&coflow, active) in &mut self.coflows {
            let rank = active.rank(view.attained(coflow), &self.parameters);
            let alone = Bytes(rank).time_at(self.line_rate).unwrap_or(Nanos::MAX);
            let arrival = view.coflow(coflow).arrival;
            let patience = alone.0.saturating_mul(self.parameters.patience.into());
            let is_overdue = self.parameters.patience > 0 && now.since(arrival).0 > patience;
            let priority = if is_overdue { Priority::new(0, arrival.0) } else { Priority::new(1, rank) };
            if active.given.replace(priority) != Some(priority) {
                decision.set_coflow(coflow, priority);
            }
        }
    }

    /// Asks for the next tick, where there is anything to rank.
    fn ask(&mut self, now: Instant, decision: &mut Decision) {
        if !self.is_waking && !self.coflows.is_empty() {
            self.is_waking = true;
            decision.wake_at(tick_at_or_after(Instant(now.0.saturating_add(1)), self.parameters.sync));
        }
    }
}

impl NonClairvoyant for Instance {
    fn handle(&mut self, now: Instant, event: Event, view: &dyn Observe, decision: &mut Decision) {
        match event {
            Event::CoflowArrived(coflow) => self.arrive(coflow, view, decision),
            Event::FlowArrived(flow) => {
                let facts = view.flow(flow);
                // The first wave was counted when the coflow arrived.
                if view.coflow(facts.coflow).arrival < now
                    && let Some(active) = self.coflows.get_mut(&facts.coflow)
                {
                    active.add(&facts);
                }
            }
            Event::FlowFinished(flow) => self.end(flow, view),
            Event::CoflowFinished(coflow) => self.leave(coflow),
            Event::Wake => {
                self.is_waking = false;
                self.rank(now, view, decision);
            }
            _ => {}
        }
        self.ask(now, decision);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scripted::{Driven, Script, drive};
    use cavalcade_model::Target;

    const TICK: u64 = 50_000_000;

    fn of(coflow: CoflowId, class: u16, order: u64) -> (Target, Priority) {
        (Target::Coflow(coflow), Priority::new(class, order))
    }

    fn finish(learn: &mut Driven, script: &mut Script, flow: FlowId, size: u64) {
        script.send(flow.index(), size);
        let decision = learn.at(1, Event::FlowFinished(flow), script);
        assert_eq!(decision.priorities, [], "ranks change at ticks");
    }

    fn tick(learn: &mut Driven, script: &Script) -> Vec<(Target, Priority)> {
        learn.at(TICK, Event::Wake, script).priorities
    }

    #[test]
    fn one_ended_flow_tells_what_the_others_have() {
        let mut script = Script::new();
        let coflow = script.add_coflow(0, 0);
        let flows: Vec<FlowId> = (1..9).map(|src| script.add_flow(coflow, src, 0, 100)).collect();
        let mut learn = drive("learn");
        let arrived = learn.at(0, Event::CoflowArrived(coflow), &script);
        assert_eq!((arrived.priorities, arrived.wake_at), (vec![of(coflow, 1, 0)], Some(Instant(TICK))));
        finish(&mut learn, &mut script, flows[0], 100);
        assert_eq!(tick(&mut learn, &script), [of(coflow, 1, 700)]);
    }

    #[test]
    fn before_any_flow_has_ended_the_rank_is_what_was_sent_at_each_port() {
        let mut script = Script::new();
        let coflow = script.add_coflow(0, 0);
        (0..3).for_each(|port| {
            script.add_flow(coflow, port, port + 3, 1000);
        });
        let mut learn = drive("learn");
        learn.at(0, Event::CoflowArrived(coflow), &script);
        (0..3).for_each(|flow| script.send(flow, 200));
        assert_eq!(tick(&mut learn, &script), [of(coflow, 1, 200)]);
    }

    #[test]
    fn a_port_is_believed_against_k_average_flows() {
        let mut script = Script::new();
        let coflow = script.add_coflow(0, 0);
        let large: Vec<FlowId> = (0..3).map(|src| script.add_flow(coflow, src, 8, 700)).collect();
        let small = script.add_flow(coflow, 0, 9, 100);
        let mut learn = drive("learn:k=1");
        learn.at(0, Event::CoflowArrived(coflow), &script);
        finish(&mut learn, &mut script, large[0], 700);
        finish(&mut learn, &mut script, small, 100);
        // Mean of the coflow 400; at port 8 (700 + 400) / 2 = 550, two flows left.
        assert_eq!(tick(&mut learn, &script), [of(coflow, 1, 1100)]);
    }

    #[test]
    fn a_flow_that_is_larger_than_those_before_takes_its_coflow_back() {
        let mut script = Script::new();
        let coflow = script.add_coflow(0, 0);
        let first = script.add_flow(coflow, 0, 9, 100);
        script.add_flow(coflow, 1, 9, 10_000);
        let mut learn = drive("learn");
        learn.at(0, Event::CoflowArrived(coflow), &script);
        finish(&mut learn, &mut script, first, 100);
        script.send(1, 30);
        assert_eq!(tick(&mut learn, &script), [of(coflow, 1, 70)], "100 are expected");
        // What it has had is a size now too: (100 + 3 × 1000) / 4 = 775 are expected, and more has
        // been sent.
        script.send(1, 970);
        assert_eq!(learn.at(2 * TICK, Event::Wake, &script).priorities, [of(coflow, 1, 1000)]);
    }

    #[test]
    fn those_that_have_begun_speak_against_a_mean_of_small_ones() {
        let mut script = Script::new();
        let coflow = script.add_coflow(0, 0);
        let first = script.add_flow(coflow, 0, 9, 100);
        (1..5).for_each(|src| {
            script.add_flow(coflow, src, 9, 10_000);
        });
        let mut learn = drive("learn:k=1");
        learn.at(0, Event::CoflowArrived(coflow), &script);
        finish(&mut learn, &mut script, first, 100);
        script.send(1, 900);
        // (100 + 900) / 2 for each of four, less what has been sent.
        assert_eq!(tick(&mut learn, &script), [of(coflow, 1, 4 * 500 - 900)]);
    }

    #[test]
    fn a_later_wave_counts_from_when_it_comes() {
        let mut script = Script::new();
        let coflow = script.add_coflow(0, 0);
        let flows: Vec<FlowId> = (1..4).map(|src| script.add_flow(coflow, src, 0, 100)).collect();
        let mut learn = drive("learn");
        learn.at(0, Event::CoflowArrived(coflow), &script);
        let late = script.add_flow(coflow, 5, 0, 100);
        learn.at(1, Event::FlowArrived(late), &script);
        finish(&mut learn, &mut script, flows[0], 100);
        assert_eq!(tick(&mut learn, &script), [of(coflow, 1, 300)]);
    }

    #[test]
    fn a_run_is_expected_to_be_like_those_before_it() {
        let mut script = Script::new();
        let runs: Vec<CoflowId> = (0..3).map(|task| script.add_coflow(task, 0)).collect();
        let flows: Vec<FlowId> = runs
            .iter()
            .flat_map(|&run| [(run, 1), (run, 2)])
            .map(|(run, src)| script.add_flow(run, src, 0, 400))
            .collect();
        script.facts_mut(runs[0]).job = Some(JobId(7));
        script.facts_mut(runs[1]).job = Some(JobId(7));
        let mut learn = drive("learn:k=1,memory=100");
        learn.at(0, Event::CoflowArrived(runs[0]), &script);
        finish(&mut learn, &mut script, flows[0], 400);
        finish(&mut learn, &mut script, flows[1], 400);
        learn.at(2, Event::CoflowFinished(runs[0]), &script);
        learn.at(3, Event::CoflowArrived(runs[1]), &script);
        learn.at(3, Event::CoflowArrived(runs[2]), &script);
        // Two flows of 400 are expected of the second run, nothing is known of the coflow without a
        // job.
        assert_eq!(tick(&mut learn, &script), [of(runs[1], 1, 800)]);
        finish(&mut learn, &mut script, flows[2], 100);
        // The mean is (100 + 2 × 400) / 3 = 300, and no flow has ended where the one that is left
        // comes from.
        assert_eq!(learn.at(2 * TICK, Event::Wake, &script).priorities, [of(runs[1], 1, 300)]);
    }

    #[test]
    fn without_memory_earlier_runs_say_nothing() {
        let mut script = Script::new();
        let runs: Vec<CoflowId> = (0..2).map(|task| script.add_coflow(task, 0)).collect();
        let flows: Vec<FlowId> = runs.iter().map(|&run| script.add_flow(run, 1, 0, 400)).collect();
        runs.iter().for_each(|&run| script.facts_mut(run).job = Some(JobId(7)));
        let mut learn = drive("learn");
        learn.at(0, Event::CoflowArrived(runs[0]), &script);
        finish(&mut learn, &mut script, flows[0], 400);
        learn.at(2, Event::CoflowFinished(runs[0]), &script);
        learn.at(3, Event::CoflowArrived(runs[1]), &script);
        assert_eq!(tick(&mut learn, &script), []);
    }

    #[test]
    fn the_kind_that_has_not_run_for_longest_is_forgotten() {
        let mut past = Past::default();
        (0..MOST_KINDS as u64).for_each(|job| past.keep((JobId(job), 0), 1));
        past.keep((JobId(0), 0), 3);
        past.keep((JobId(u64::MAX), 0), 5);
        assert_eq!(past.size((JobId(0), 0)), Some(2));
        assert_eq!((past.size((JobId(1), 0)), past.kinds.len()), (None, MOST_KINDS));
    }

    #[test]
    fn who_has_lost_patience_goes_first() {
        let mut script = Script::new();
        let coflow = script.add_coflow(0, 0);
        script.add_flow(coflow, 0, 9, 1_000_000_000);
        let mut learn = drive("learn:patience=4");
        learn.at(0, Event::CoflowArrived(coflow), &script);
        script.send(0, 12_500_000);
        // 12.5 ms at a byte a nanosecond, four times: the tick at 50 ms is not past it, the next
        // is.
        assert_eq!(tick(&mut learn, &script), [of(coflow, 1, 12_500_000)]);
        assert_eq!(learn.at(2 * TICK, Event::Wake, &script).priorities, [of(coflow, 0, 0)]);
    }
}
