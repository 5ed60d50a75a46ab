//! The contract between a policy (what goes first) and its driver (fluid simulator, packet
//! simulator, live runtime).
//!
//! A driver delivers each [`Event`] with its time to a policy; the policy may look at what its
//! scope lets it see ([`Observe`], or [`Foresee`] if it knows sizes) and writes down what changes
//! in a [`Decision`]. It decides **priorities**: lower goes first, and flows of equal priority
//! share by the policy's [`Discipline`]. All drivers can carry out that one form: a packet carries
//! a priority, an agent sorts its senders by it, a fluid solver fills capacity in its order.
//!
//! # Invariants
//! - A policy has no clock, no I/O and no randomness: the same events give the same decisions.
//! - A non-clairvoyant policy cannot name a size: [`Observe`] has no method that returns one, and
//!   no event carries one.
//! - Scope is part of the types' meaning, not of a policy's goodwill: a [`Scope::Link`] policy is
//!   built once for each link and receives events of, and can see, only what crosses that link.
//!   What a [`Target`] means is relative to that scope.
//! - A decision is incremental: only what changed is written, so its cost is that of the change.
//!
//! # What was rejected
//! - A policy that returns rates: every driver but the fluid one would have to turn them back into
//!   an order, and two policies would solve max-min twice.
//! - A policy that returns the whole order at each event: O(coflows) per flow completion, where
//!   most completions change nothing.
//! - One view with optional sizes: clairvoyance would be a promise instead of a type.

use crate::{
    BitsPerSec, Bytes, CoflowId, FlowId, Instant, Iteration, JobId, LinkId, Message, Nanos, Path, PortId,
    Stage, Task, TaskClass, TaskId, Work, Workload,
};

/// Part of the fabric that one instance of a policy sees and decides about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// One instance for the whole fabric: a coordinator, or one switch that everything crosses.
    /// Targets are whole coflows or any flow.
    Fabric,
    /// One instance per port's host. As a sender it sees and decides about its own outgoing flows:
    /// a coflow means its *subcoflow* there (D-CAS §III-A). As a receiver it gets only messages.
    Host,
    /// One instance per link, as in a switch: it sees the flows that cross the link, and its
    /// priorities hold at that link alone. A coflow means its flows on that link.
    Link,
}

/// Rule by which equal priorities share the capacity that higher priorities left.
///
/// The definitions, one short function each, are in `cavalcade_allocate::reference`; every driver
/// means those. Three of them depend on the past: greedy and in turn on what is being served, MADD
/// on when its rates were computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Discipline {
    /// Max-min fair between flows: what TCP, DCTCP and RCP aim at.
    MaxMin,
    /// Each flow takes all that its links have left; a coflow's flows in the order of how many
    /// bytes of the coflow remain on their links, most first. Within a coflow what is being served
    /// stays served; coflows of higher priority still pre-empt. It orders coflows: flows have no
    /// priorities of their own. Any order-preserving allocation of this kind is within 4× of the
    /// order's optimum (Sincronia).
    Greedy,
    /// Rates as [`Discipline::Greedy`], but a coflow's flows go in the order of how many *flows* of
    /// the coflow are left on their links: of policies that know no sizes, the allocator may not
    /// look at them either. On each link one flow of a coflow is served at a time, so flows end
    /// early and one after the other.
    InTurn,
    /// Minimum allocation for desired duration (Varys §5.3): all flows of a coflow finish together
    /// at its bottleneck's time. Coflows that find a link full share what is left evenly, and what
    /// is then left goes out greedily, both as in the authors' simulator. Rates are those of the
    /// last time that a coflow arrived, grew, ended or changed its priority or a cap: a flow that
    /// ends before its coflow leaves its links idle until then. It orders coflows: flows have no
    /// priorities of their own.
    Madd,
    /// The flow with the fewest remaining bytes first, preemptively (ideal pFabric).
    ShortestFlow,
    /// Each link parts its capacity by itself, evenly between its flows of the best priority; a
    /// flow gets the least of its parts, and what it cannot use of the others is lost (CoflowSim's
    /// fair sharing).
    EvenParts,
}

/// Relation between priority classes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClassShares {
    /// A lower class gets what higher classes leave.
    Strict,
    /// At each link the classes present share capacity by these weights (index = class; at least 1
    /// each).
    Weighted {
        /// Weight of each class.
        weights: Vec<u32>,
        /// Receiver of the capacity that a class cannot use.
        excess: Excess,
    },
    /// A class is how much a flow counts for: flows of all classes share max-min by these weights
    /// (index = class; at least 1 each), and orders inside classes mean nothing. With
    /// [`Discipline::MaxMin`] only.
    OfFlows {
        /// Weight of a flow of each class.
        weights: Vec<u32>,
    },
}

/// Receiver of the capacity that a weighted class cannot use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Excess {
    /// The other classes by their weights (Aalo Pseudocode 1: max-min among the others).
    Weighted,
    /// The highest class that can use it.
    Highest,
}

/// The terms on which decisions are to be carried out. Fixed for the life of a policy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Terms {
    /// Scope of one instance.
    pub scope: Scope,
    /// Sharing among equal priorities.
    pub discipline: Discipline,
    /// Sharing among classes.
    pub shares: ClassShares,
    /// True if the policy wants [`Event::FlowArrived`] and [`Event::FlowFinished`]; without them a
    /// driver saves the calls.
    pub flow_events: bool,
    /// Claims that no link is idle while a flow that could use all its links waits.
    pub work_conserving: bool,
    /// Claims that every coflow gets service in the long run, whatever else arrives.
    pub starvation_free: bool,
    /// The instants at which the policy looks at what is under way, if it does so for as long as
    /// anything is.
    pub ticks: Option<Ticks>,
}

/// Instants at regular intervals at which a policy ranks anew what is under way (δ of D-CAS).
///
/// Where no link is shared, ranks change nothing. So a driver may leave out ticks until something
/// is about to happen, if it begins with them again in time for the policy to have forgotten those
/// that it missed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ticks {
    /// The interval, or a multiple of it after which they repeat themselves: what the policy asks
    /// to be woken for lies at whole intervals since the first arrival.
    pub every: Nanos,
    /// The time for which ticks matter. A policy that was woken at each tick of the last `memory`
    /// decides as if it had been woken at all of them.
    pub memory: Nanos,
}

impl Terms {
    /// The terms of most policies: strict classes, no events of flows, work conserving, starvation
    /// possible.
    pub fn strict(scope: Scope, discipline: Discipline) -> Self {
        Self {
            scope,
            discipline,
            shares: ClassShares::Strict,
            flow_events: false,
            // Between events of coflows, MADD leaves idle what a flow that has ended was given.
            work_conserving: !matches!(discipline, Discipline::Madd | Discipline::EvenParts),
            starvation_free: false,
            ticks: None,
        }
    }

    /// Returns whether single flows may be given priorities of their own.
    pub fn rank_flows(&self) -> bool {
        self.scope != Scope::Link && matches!(self.discipline, Discipline::MaxMin | Discipline::ShortestFlow)
    }
}

/// Subject of a priority, watch or cap, relative to the scope.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Target {
    /// All flows of a coflow in scope.
    Coflow(CoflowId),
    /// One flow.
    Flow(FlowId),
}

/// Rank of a coflow or flow: lower is served before higher, class before order. Equal priorities
/// share by the [`Discipline`].
///
/// The class is what a network with few queues keeps (Aalo's queue, D-CAS's main priority T, a
/// DSCP); the order ranks inside it (a CoflowId, D-CAS's secondary priority P). The default is the
/// top: what has no decision yet is served at once (Aalo §3).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Priority {
    /// Class, 0 highest.
    pub class: u16,
    /// Rank inside the class, 0 first.
    pub order: u64,
}

impl Priority {
    /// A priority of `class` and `order`.
    pub const fn new(class: u16, order: u64) -> Self {
        Self { class, order }
    }
}

/// Notification to a policy about its scope. No event carries a size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// The first flow of a coflow appeared in scope.
    CoflowArrived(CoflowId),
    /// A flow appeared (only with [`Terms::flow_events`]; after its coflow's arrival).
    FlowArrived(FlowId),
    /// All bytes of a flow are delivered (only with [`Terms::flow_events`]).
    FlowFinished(FlowId),
    /// All flows of a coflow in scope have finished and no further wave is known to come.
    CoflowFinished(CoflowId),
    /// A target's attained service reached the bytes that [`Decision::watch`] asked about.
    Reached(Target),
    /// The instant that [`Decision::wake_at`] asked for has come.
    Wake,
    /// A message from the policy instance at another host ([`Scope::Host`] only).
    Received {
        /// The sender.
        from: PortId,
        /// The message.
        message: Message,
    },
}

/// Facts known of a coflow on arrival; its size is not among them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CoflowFacts {
    /// Its task.
    pub task: TaskId,
    /// The recurring job that its task is a run of, if that is known.
    pub job: Option<JobId>,
    /// The task-id that its task was given when it was submitted (Baraat §4.1), the external part
    /// of its CoflowId (Aalo §5.1): lower goes first where tasks are served first in, first out.
    pub number: u32,
    /// The internal part of its CoflowId (Aalo Pseudocode 2): larger than those of all coflows that
    /// it depends on.
    pub internal: u32,
    /// Time at which its task was submitted.
    pub task_arrival: Instant,
    /// Time at which its first flow arrived.
    pub arrival: Instant,
    /// Time at which its task should be done.
    pub deadline: Option<Instant>,
    /// Class of the task that waits for it.
    pub class: TaskClass,
    /// Its task's weight.
    pub weight: u32,
}

impl CoflowFacts {
    /// Collects the facts of `coflow`; its first flow arrived at `arrival`. A deadline past the end
    /// of time is left out.
    pub fn of(workload: &Workload, coflow: CoflowId, arrival: Instant) -> Self {
        let place = workload.place(coflow);
        let task = workload.task(place.task);
        Self {
            task: place.task,
            job: task.job,
            number: workload.number(place.task),
            internal: place.internal,
            task_arrival: task.arrival,
            arrival,
            deadline: task.deadline.and_then(|deadline| task.arrival.checked_add(deadline)),
            class: task.class,
            weight: task.weight,
        }
    }
}

/// Facts known of a flow on arrival; its size is not among them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlowFacts {
    /// Its coflow.
    pub coflow: CoflowId,
    /// Source port.
    pub src: PortId,
    /// Destination port.
    pub dst: PortId,
}

impl FlowFacts {
    /// Collects the facts of `flow`.
    pub fn of(workload: &Workload, flow: FlowId) -> Self {
        let record = workload.flow(flow);
        Self { coflow: workload.coflow_of(flow), src: record.src, dst: record.dst }
    }
}

/// View of a policy: its scope, without sizes.
pub trait Observe {
    /// The facts of a coflow in scope.
    fn coflow(&self, coflow: CoflowId) -> CoflowFacts;
    /// The iteration of a training job that a coflow in scope is part of, where the job declares
    /// its iterations.
    fn iteration(&self, coflow: CoflowId) -> Option<Iteration> {
        let _ = coflow;
        None
    }
    /// The facts of a flow in scope.
    fn flow(&self, flow: FlowId) -> FlowFacts;
    /// Calls `visit` with each unfinished flow of `coflow` that has arrived in scope.
    fn flows(&self, coflow: CoflowId, visit: &mut dyn FnMut(FlowId));
    /// Bytes that `coflow` has sent in scope.
    fn attained(&self, coflow: CoflowId) -> Bytes;
    /// Bytes that `flow` has sent.
    fn flow_attained(&self, flow: FlowId) -> Bytes;
    /// The links that `flow` crosses, in their order. Only those that can be short
    /// ([`Contended`](crate::Contended)), unless instances stand at links.
    fn path(&self, flow: FlowId) -> Path;
    /// The capacity of a link.
    fn capacity(&self, link: LinkId) -> BitsPerSec;
}

/// View of a clairvoyant policy: sizes of what has arrived as well.
pub trait Foresee: Observe {
    /// Bytes that `coflow` has still to send in scope.
    fn remaining(&self, coflow: CoflowId) -> Bytes;
    /// Bytes that `flow` has still to send.
    fn flow_remaining(&self, flow: FlowId) -> Bytes;
    /// Calls `visit` with each link in scope on which `coflow` has bytes to send, how many, and the
    /// link's capacity.
    fn loads(&self, coflow: CoflowId, visit: &mut dyn FnMut(LinkId, Bytes, BitsPerSec));

    /// Γ: the time that the rest of `coflow` takes when it has the fabric to itself, the largest of
    /// load over capacity (Varys §5.1). In nanoseconds, rounded up.
    fn bottleneck(&self, coflow: CoflowId) -> Nanos {
        let mut longest = Nanos::ZERO;
        self.loads(coflow, &mut |_, bytes, capacity| {
            longest = longest.max(bytes.time_at(capacity).unwrap_or(Nanos::MAX));
        });
        longest
    }
}

/// Decisions of a policy at one event. The driver clears it, passes it to the policy, and carries
/// it out.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Decision {
    /// New priorities, in the order in which they hold: a coflow's goes to all its flows, a flow's
    /// to it alone, and the last one counts.
    pub priorities: Vec<(Target, Priority)>,
    /// New rate caps for flows; `None` removes one. A capped flow never gets more, whatever is
    /// free.
    pub caps: Vec<(FlowId, Option<BitsPerSec>)>,
    /// Thresholds of attained service at which [`Event::Reached`] is delivered; one per target, the
    /// last counts.
    pub watches: Vec<(Target, Bytes)>,
    /// Time of the next wake-up; replaces an earlier request. `None` leaves that as it is.
    pub wake_at: Option<Instant>,
    /// Messages to the instances at other hosts.
    pub messages: Vec<(PortId, Message)>,
    /// What went wrong in the policy, in words: nothing of the decision is carried out, and the run
    /// ends.
    pub failure: Option<String>,
    /// Set by the driver: more events follow before anything is carried out that depends on this
    /// decision.
    pub more: bool,
    /// The policy has put its decision off until then ([`Decision::put_off`]).
    pub is_put_off: bool,
}

impl Decision {
    /// Forgets everything, keeping the buffers.
    pub fn clear(&mut self) {
        self.priorities.clear();
        self.caps.clear();
        self.watches.clear();
        self.wake_at = None;
        self.messages.clear();
        self.failure = None;
        (self.more, self.is_put_off) = (false, false);
    }

    /// Puts an expensive decision off, where the driver announces more events ([`Decision::more`]).
    /// Returns whether that is allowed: then the policy gets another event before anything depends
    /// on the decision, [`Event::Wake`] if no other, and decides at that.
    pub fn put_off(&mut self) -> bool {
        self.is_put_off = self.more;
        self.more
    }

    /// Gives `coflow` (in scope) a priority.
    pub fn set_coflow(&mut self, coflow: CoflowId, priority: Priority) {
        self.priorities.push((Target::Coflow(coflow), priority));
    }

    /// Gives one flow a priority.
    pub fn set_flow(&mut self, flow: FlowId, priority: Priority) {
        self.priorities.push((Target::Flow(flow), priority));
    }

    /// Caps a flow's rate, or lifts the cap.
    pub fn cap(&mut self, flow: FlowId, rate: Option<BitsPerSec>) {
        self.caps.push((flow, rate));
    }

    /// Asks for [`Event::Reached`] once `target` has sent `bytes` in scope (at once, if it has
    /// already). It replaces what was asked before, also an amount that was reached in this instant
    /// and whose event is not delivered yet.
    pub fn watch(&mut self, target: Target, bytes: Bytes) {
        self.watches.push((target, bytes));
    }

    /// Asks for [`Event::Wake`] at `when`, which lies ahead of the present instant.
    pub fn wake_at(&mut self, when: Instant) {
        self.wake_at = Some(when);
    }

    /// Ends the run, since the policy cannot go on for this reason.
    pub fn fail(&mut self, reason: impl Into<String>) {
        self.failure = Some(reason.into());
    }

    /// Sends a message to the instance at `to`.
    pub fn send(&mut self, to: PortId, message: Message) {
        self.messages.push((to, message));
    }
}

/// A policy that is never told sizes.
pub trait NonClairvoyant {
    /// Handles one event at `now` and writes what changes to `decision`.
    fn handle(&mut self, now: Instant, event: Event, view: &dyn Observe, decision: &mut Decision);
}

/// A policy that knows the sizes of what has arrived.
pub trait Clairvoyant {
    /// Handles one event at `now` and writes what changes to `decision`.
    fn handle(&mut self, now: Instant, event: Event, view: &dyn Foresee, decision: &mut Decision);
}

/// One instance of a policy, ready to be driven.
pub enum Policy {
    /// Knows no sizes.
    NonClairvoyant(Box<dyn NonClairvoyant>),
    /// Knows sizes.
    Clairvoyant(Box<dyn Clairvoyant>),
}

impl Policy {
    /// Handles one event. A driver always has the full view; what a policy gets of it is decided
    /// here.
    pub fn handle(&mut self, now: Instant, event: Event, view: &dyn Foresee, decision: &mut Decision) {
        match self {
            Policy::NonClairvoyant(policy) => policy.handle(now, event, view, decision),
            Policy::Clairvoyant(policy) => policy.handle(now, event, view, decision),
        }
    }
}

/// Surroundings of an instance, for its construction.
#[derive(Clone, Copy, Debug)]
pub struct Setting<'a> {
    /// Number of ports of the fabric.
    pub ports: u32,
    /// The rate of the link or host that the instance stands at; for a fabric-scope policy, of the
    /// fastest port.
    pub line_rate: BitsPerSec,
    /// Knowledge of past workloads.
    pub history: &'a History,
}

/// Past workloads, as an operator knows them: the sizes of tasks, for thresholds given as
/// percentiles (Baraat §3.3), and the distribution of flow sizes, for thresholds computed from it
/// (PIAS, Karuna).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct History {
    ascending: Vec<Bytes>,
    flows: Vec<SizeBin>,
}

/// Past flows of similar size: sizes of one bin differ by less than a sixteenth.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SizeBin {
    /// The largest size in the bin.
    pub largest: Bytes,
    /// Number of its flows.
    pub flows: u64,
    /// The bytes of all of them.
    pub bytes: Bytes,
}

/// The sizes of flows in at most about a thousand bins, so that the first moment is exact and the
/// second within 0.1 %, however heavy the tail: quantiles would lose it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SizeHistogram {
    bins: Vec<SizeBin>,
}

impl Default for SizeHistogram {
    fn default() -> Self {
        let empty = SizeBin { largest: Bytes::ZERO, flows: 0, bytes: Bytes::ZERO };
        Self { bins: vec![empty; size_bin(u64::MAX) + 1] }
    }
}

impl SizeHistogram {
    /// Counts one flow.
    pub fn add(&mut self, size: Bytes) {
        let bin = &mut self.bins[size_bin(size.0)];
        bin.largest = bin.largest.max(size);
        bin.flows += 1;
        bin.bytes += size;
    }
}

impl History {
    /// Keeps the sizes of past tasks: for each the bytes of all its coflows.
    pub fn new(sizes: impl IntoIterator<Item = Bytes>) -> Self {
        let mut ascending: Vec<Bytes> = sizes.into_iter().collect();
        ascending.sort_unstable();
        Self { ascending, flows: Vec::new() }
    }

    /// Makes the history of a site whose past was like `workload`.
    pub fn of(workload: &Workload) -> Self {
        Self::new(workload.tasks().iter().map(|task| task_size(workload, task)))
            .with_flow_sizes(workload.flows().iter().map(|flow| flow.size))
    }

    /// With the sizes of past flows.
    pub fn with_flow_sizes(self, sizes: impl IntoIterator<Item = Bytes>) -> Self {
        let mut histogram = SizeHistogram::default();
        sizes.into_iter().for_each(|size| histogram.add(size));
        self.with_histogram(histogram)
    }

    /// With the sizes of past flows that were counted as they came.
    pub fn with_histogram(mut self, SizeHistogram { mut bins }: SizeHistogram) -> Self {
        bins.retain(|bin| bin.flows > 0);
        self.flows = bins;
        self
    }

    /// The `percent`-th percentile of task sizes by nearest rank; `None` without history.
    pub fn percentile(&self, percent: u32) -> Option<Bytes> {
        let rank = (self.ascending.len() as u64 * u64::from(percent)).div_ceil(100).max(1);
        self.ascending.get(rank as usize - 1).or(self.ascending.last()).copied()
    }

    /// The distribution of flow sizes, ascending; empty without history.
    pub fn flow_sizes(&self) -> &[SizeBin] {
        &self.flows
    }
}

/// Returns the bytes of all coflows of `task`.
fn task_size(workload: &Workload, task: &Task) -> Bytes {
    let size = |stage: &Stage| match stage.work {
        Work::Transfer(coflow) => workload.coflow(coflow).size(),
        Work::Compute(_) => Bytes::ZERO,
    };
    task.stages.iter().map(size).sum()
}

/// The bin of a size: its leading one bit and the four bits behind it.
const fn size_bin(size: u64) -> usize {
    match size.checked_ilog2() {
        None | Some(0..=3) => size as usize,
        Some(exponent) => (exponent as usize - 3) * 16 + (size >> (exponent - 4)) as usize % 16,
    }
}

/// A policy with its parameters set, from which a driver builds as many instances as the scope asks
/// for.
pub trait PolicyFactory {
    /// The terms that hold for every instance.
    fn terms(&self) -> Terms;
    /// A fresh instance for one place.
    fn build(&self, setting: &Setting<'_>) -> Policy;
    /// Bytes that a coflow may send at each of `ports` hosts before a coordinator needs a report of
    /// it: as long as it has sent less than this at every host, no decision depends on how much.
    fn quiet(&self, ports: u32) -> Bytes {
        let _ = ports;
        Bytes::ZERO
    }
}
