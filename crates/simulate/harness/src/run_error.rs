//! Why a run ends without an outcome, and what can be known of that before it begins.

use cavalcade_model::{
    BitsPerSec, Bytes, CoflowId, Discipline, Event, Fabric, FabricError, FlowId, Instant, Nanos, PortId,
    Target, Workload, WorkloadError,
};

/// Reason for which a run has no outcome.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RunError {
    /// A fabric that cannot carry the workload.
    #[error(transparent)]
    Fabric(#[from] FabricError),
    /// A link that cannot be done with what crosses it before the end of time.
    #[error(
        "the {link} needs more than 2^63 ns (292 years) to carry {bytes} at {rate}: give it a higher rate or fewer bytes"
    )]
    TooSlow {
        /// The name of the link.
        link: String,
        /// What crosses it in all.
        bytes: Bytes,
        /// Its capacity.
        rate: BitsPerSec,
    },
    /// A run that goes on beyond the end of time.
    #[error("coflow {coflow} has not ended by {end}, nor have {others} others: give links a higher rate")]
    TooLate {
        /// The name of the first coflow that has not ended.
        coflow: String,
        /// Number of other coflows that have not.
        others: usize,
        /// The end of the engine's time, in words.
        end: &'static str,
    },
    /// Coflows that nothing will end: no flow has a rate, and nothing is to come but wake-ups that
    /// change nothing.
    #[error(
        "coflow {coflow} can never end under this policy, nor can {others} others: from {at:?} on no flow is given a rate"
    )]
    NeverEnds {
        /// The name of the first coflow that does not end.
        coflow: String,
        /// Number of other coflows that do not.
        others: usize,
        /// Time at which it was found, since the first arrival.
        at: Instant,
    },
    /// Events without end at one instant.
    #[error(
        "time stands still at {at:?}: {MOST_FRUITLESS} events in a row brought nothing about, the last a {last}"
    )]
    Stalled {
        /// The instant, since the first arrival.
        at: Instant,
        /// What the last event was.
        last: &'static str,
    },
    /// A policy that has failed.
    #[error(transparent)]
    Policy(#[from] PolicyFault),
    /// A task of a stream that cannot be.
    #[error(transparent)]
    Task(#[from] WorkloadError),
    /// A task of a stream that arrives before one that was given ahead of it.
    #[error("task {task} arrives before the one ahead of it: give tasks in order of arrival")]
    OutOfOrder {
        /// Its name.
        task: String,
    },
    /// A run that its observer has cancelled.
    #[error("the run was cancelled")]
    Cancelled,
}

impl RunError {
    /// The error of a run in which `left` flows of each coflow have not ended by `end`.
    pub fn too_late(workload: &Workload, left: &[u32], end: &'static str) -> Self {
        let (coflow, others) = unfinished(workload, left);
        Self::TooLate { coflow, others, end }
    }

    /// The error of a run in which `left` flows of each coflow never end, as is found at an
    /// instant.
    pub fn never_ends(workload: &Workload, left: &[u32], at: Instant) -> Self {
        let (coflow, others) = unfinished(workload, left);
        Self::NeverEnds { coflow, others, at }
    }
}

/// The name of the first coflow that has flows left, and the number of others.
fn unfinished(workload: &Workload, left: &[u32]) -> (String, usize) {
    let unfinished = || (0..).zip(left).filter(|&(_, &left)| left > 0);
    let first = unfinished().next().map(|(coflow, _)| workload.coflow_name(CoflowId(coflow)));
    (first.unwrap_or_default(), unfinished().count().saturating_sub(1))
}

/// A policy's mistake, and where it was made. Its instances are told nothing after it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the policy's instance at place {place}, told of {event:?} at {at:?}, {mistake}")]
pub struct PolicyFault {
    /// Where the instance stands: 0 for the fabric, else its host's port or its link.
    pub place: u32,
    /// The instant, since the first arrival.
    pub at: Instant,
    /// The event that it handled.
    pub event: Event,
    /// The mistake.
    pub mistake: Mistake,
}

impl PolicyFault {
    /// The coflow or flow that it is about, where there is one.
    pub fn target(&self) -> Option<Target> {
        match (&self.mistake, self.event) {
            (Mistake::OutOfScope { target }, _) => Some(*target),
            (Mistake::FlowRanked { flow, .. } | Mistake::FlowWatched { flow }, _) => {
                Some(Target::Flow(*flow))
            }
            (_, Event::Reached(target)) => Some(target),
            (_, Event::CoflowArrived(coflow) | Event::CoflowFinished(coflow)) => Some(Target::Coflow(coflow)),
            (_, Event::FlowArrived(flow) | Event::FlowFinished(flow)) => Some(Target::Flow(flow)),
            (_, Event::Received { message, .. }) => Some(Target::Coflow(message.coflow)),
            (_, Event::Wake) => None,
        }
    }
}

/// A kind of mistake of a policy.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Mistake {
    /// A wake-up that does not lie ahead.
    #[error("asks to be woken at {when:?}, which has come: ask for a later instant")]
    WakePast {
        /// The instant asked for.
        when: Instant,
    },
    /// A decision about what the instance cannot see, or what there is not.
    #[error("decides about {}, which it cannot see: decide about what events have named", name(*.target))]
    OutOfScope {
        /// The target.
        target: Target,
    },
    /// A priority for a flow where coflows are ordered.
    #[error("gives flow {flow} a priority of its own, but {discipline:?} orders coflows: rank its coflow")]
    FlowRanked {
        /// The flow.
        flow: FlowId,
        /// The policy's discipline.
        discipline: Discipline,
    },
    /// An amount of a flow asked for at a link.
    #[error("watches flow {flow} at a link: single flows are watched where they are sent")]
    FlowWatched {
        /// The flow.
        flow: FlowId,
    },
    /// A message to a host that there is not, or between instances that are none of hosts.
    #[error(
        "sends a message to port {}, where it has no peer: only instances at hosts have peers, one at each port", .to.0
    )]
    NoPeer {
        /// The port.
        to: PortId,
    },
    /// More asked for at one instant, again and again.
    #[error(
        "asks for more at once without end: ask for an amount that has not been reached, or answer fewer messages"
    )]
    Endless,
    /// A failure of the policy's own ([`cavalcade_model::Decision::fail`]).
    #[error("fails: {0}")]
    Own(String),
}

fn name(target: Target) -> String {
    match target {
        Target::Coflow(CoflowId(coflow)) => format!("coflow {coflow}"),
        Target::Flow(FlowId(flow)) => format!("flow {flow}"),
    }
}

/// Events in a row that bring nothing about after which a run is taken to be stuck.
pub const MOST_FRUITLESS: u32 = 100_000;

/// The end of time where it is counted in nanoseconds.
pub const END_OF_TIME: &str = "2^63 ns (292 years)";

/// The last instant of the time of a workload that begins at `origin`: in that of its trace it is
/// 2⁶³ − 1 ns, which every format of results can hold.
pub fn end_of_time(origin: Instant) -> Instant {
    Instant((i64::MAX as u64).saturating_sub(origin.0))
}

/// Checks that the fabric can carry the workload, and every link what crosses it before the end of
/// time.
///
/// # Errors
/// If it cannot.
pub fn check(workload: &Workload, fabric: &Fabric) -> Result<(), RunError> {
    fabric.check(workload)?;
    let end = Nanos(end_of_time(workload.origin()).0);
    let is_in_time = |bytes: Bytes, rate| bytes.time_at(rate).is_some_and(|time| time <= end);
    let slowest = fabric.links().map(|link| fabric.capacity(link)).min().unwrap_or_default();
    if is_in_time(workload.bytes(), slowest) {
        return Ok(());
    }
    let mut loads = vec![Bytes::ZERO; fabric.link_count()];
    for flow in workload.flows() {
        fabric.path(flow.src, flow.dst).into_iter().for_each(|link| loads[link.index()] += flow.size);
    }
    let found = fabric.links().zip(loads).find(|&(link, bytes)| !is_in_time(bytes, fabric.capacity(link)));
    found.map_or(Ok(()), |(link, bytes)| {
        Err(RunError::TooSlow { link: workload.link_name(fabric, link), bytes, rate: fabric.capacity(link) })
    })
}
