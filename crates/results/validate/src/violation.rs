//! What can be wrong with a schedule.

use std::slice;

use cavalcade_model::{CoflowId, FlowId, Instant, StageIndex, TaskId};

/// One thing that is wrong with a schedule. Times are nanoseconds since the first arrival, rates
/// bits per second.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum Violation {
    /// The outcome is of another workload.
    #[error("the outcome has {found} {what}, the workload {expected}: they are not of the same run")]
    Shape {
        /// "coflow finishes", for example.
        what: &'static str,
        /// The number in the workload.
        expected: usize,
        /// The number in the outcome.
        found: usize,
    },
    /// The fabric is too small for the workload.
    #[error("the fabric has {fabric} ports, the workload speaks of {workload}")]
    Ports {
        /// Ports of the fabric.
        fabric: u32,
        /// Ports of the workload.
        workload: u32,
    },
    /// A flow that the workload does not have.
    #[error("the schedule sends flow {flow}; the workload has {flows} flows, counted from 0")]
    UnknownFlow {
        /// The flow.
        flow: FlowId,
        /// Their number.
        flows: usize,
    },
    /// A segment that is not one: backwards, before time zero, a negative rate, not a number.
    #[error("flow {flow}: {rate_bps} bps from {from_ns} ns to {to_ns} ns is no segment")]
    BadSegment {
        /// The flow.
        flow: FlowId,
        /// Its start.
        from_ns: f64,
        /// Its end.
        to_ns: f64,
        /// Its rate.
        rate_bps: f64,
    },
    /// Two segments of one flow at the same time.
    #[error(
        "flow {flow} is sent twice between {from_ns} ns and {to_ns} ns: one segment begins before the other ends"
    )]
    Overlap {
        /// The flow.
        flow: FlowId,
        /// The beginning of the later segment.
        from_ns: f64,
        /// The end of the earlier one.
        to_ns: f64,
    },
    /// A flow sent before it had arrived.
    #[error(
        "flow {flow} of coflow {coflow} is sent from {from_ns} ns on, but arrives only at {release_ns} ns"
    )]
    BeforeRelease {
        /// The flow.
        flow: FlowId,
        /// Its coflow.
        coflow: CoflowId,
        /// The time at which it is first sent.
        from_ns: f64,
        /// Its arrival: that of its task, the end of the stages that its own starts after, and its
        /// wave.
        release_ns: f64,
    },
    /// A flow that was not sent its bytes, no more and no less.
    #[error("flow {flow} of coflow {coflow} is sent {} bytes; it has {size} (forgiven: {tolerance:.3})", short(*sent))]
    Bytes {
        /// The flow.
        flow: FlowId,
        /// Its coflow.
        coflow: CoflowId,
        /// The bytes that were sent of it.
        sent: f64,
        /// Its bytes.
        size: u64,
        /// The tolerance.
        tolerance: f64,
    },
    /// A flow's finish is not the end of its last segment.
    #[error("flow {flow} is said to finish at {recorded}, but is sent until {end_ns} ns")]
    FlowFinish {
        /// The flow.
        flow: FlowId,
        /// The time in the outcome.
        recorded: Instant,
        /// The end of its last segment.
        end_ns: f64,
    },
    /// A coflow's arrival does not follow from its task and the stages before it.
    #[error(
        "coflow {coflow} is said to arrive at {recorded}; its task and the stages before it make that {earliest_ns} to {latest_ns} ns"
    )]
    CoflowArrival {
        /// The coflow.
        coflow: CoflowId,
        /// The time in the outcome.
        recorded: Instant,
        /// The earliest that it can be.
        earliest_ns: f64,
        /// The latest, by when rounding up has been done.
        latest_ns: f64,
    },
    /// A coflow's finish does not follow from its flows and what it must not finish before.
    #[error(
        "coflow {coflow} is said to finish at {recorded}; its flows and stages make that {earliest_ns} to {latest_ns} ns"
    )]
    CoflowFinish {
        /// The coflow.
        coflow: CoflowId,
        /// The time in the outcome.
        recorded: Instant,
        /// The earliest that it can be.
        earliest_ns: f64,
        /// The latest, by when rounding up has been done.
        latest_ns: f64,
    },
    /// A task's finish does not follow from its stages.
    #[error(
        "task {task} is said to finish at {recorded}; its last stage (stage {stage}) makes that {earliest_ns} to {latest_ns} ns"
    )]
    TaskFinish {
        /// The task.
        task: TaskId,
        /// The time in the outcome.
        recorded: Instant,
        /// The stage that is done last.
        stage: StageIndex,
        /// The earliest that it can be.
        earliest_ns: f64,
        /// The latest, by when rounding up has been done.
        latest_ns: f64,
    },
    /// Computation waits for slots of hosts, and no times are claimed.
    #[error(
        "task {task} computes on a host with slots: how long it waits there does not follow from a schedule of flows"
    )]
    Slots {
        /// The task.
        task: TaskId,
    },
    /// A link carries more than it can.
    #[error(transparent)]
    Overload(Box<Overload>),
    /// A flow waits although both its links could carry more of it; only where work conservation is
    /// checked.
    #[error(
        "flow {flow} of coflow {coflow} has arrived and is not done, and both its links have capacity to spare between {from_ns} ns and {to_ns} ns"
    )]
    Idle {
        /// The flow.
        flow: FlowId,
        /// Its coflow.
        coflow: CoflowId,
        /// The beginning.
        from_ns: f64,
        /// The end.
        to_ns: f64,
    },
}

/// Where a violation is, as far as it has a place. Times are nanoseconds since the first arrival.
#[derive(Clone, Copy, Debug, PartialEq, Default)]
pub struct Place<'a> {
    /// The flows that it is about; of an overload the first few.
    pub flows: &'a [FlowId],
    /// The coflow.
    pub coflow: Option<CoflowId>,
    /// The task.
    pub task: Option<TaskId>,
    /// The link, as "ingress of port 3".
    pub link: Option<&'a str>,
    /// From when to when.
    pub span_ns: Option<(f64, f64)>,
}

impl Violation {
    /// Says which kind it is in a word, such as `overload`.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Shape { .. } => "shape",
            Self::Ports { .. } => "ports",
            Self::UnknownFlow { .. } => "unknown_flow",
            Self::BadSegment { .. } => "bad_segment",
            Self::Overlap { .. } => "overlap",
            Self::BeforeRelease { .. } => "before_release",
            Self::Bytes { .. } => "bytes",
            Self::FlowFinish { .. } => "flow_finish",
            Self::CoflowArrival { .. } => "coflow_arrival",
            Self::CoflowFinish { .. } => "coflow_finish",
            Self::TaskFinish { .. } => "task_finish",
            Self::Slots { .. } => "slots",
            Self::Overload(_) => Overload::KIND,
            Self::Idle { .. } => "idle",
        }
    }

    /// Says where it is.
    pub fn place(&self) -> Place<'_> {
        let none = Place::default();
        match self {
            Self::Shape { .. } | Self::Ports { .. } => none,
            Self::UnknownFlow { flow, .. } => Place { flows: slice::from_ref(flow), ..none },
            Self::BadSegment { flow, from_ns, to_ns, .. } | Self::Overlap { flow, from_ns, to_ns } => {
                Place { flows: slice::from_ref(flow), span_ns: Some((*from_ns, *to_ns)), ..none }
            }
            Self::BeforeRelease { flow, coflow, from_ns, release_ns: to_ns }
            | Self::Idle { flow, coflow, from_ns, to_ns } => {
                let (flows, span_ns) = (slice::from_ref(flow), Some((*from_ns, *to_ns)));
                Place { flows, coflow: Some(*coflow), span_ns, ..none }
            }
            Self::Bytes { flow, coflow, .. } => {
                Place { flows: slice::from_ref(flow), coflow: Some(*coflow), ..none }
            }
            Self::FlowFinish { flow, end_ns, .. } => {
                Place { flows: slice::from_ref(flow), span_ns: Some((*end_ns, *end_ns)), ..none }
            }
            Self::CoflowArrival { coflow, earliest_ns, latest_ns, .. }
            | Self::CoflowFinish { coflow, earliest_ns, latest_ns, .. } => {
                Place { coflow: Some(*coflow), span_ns: Some((*earliest_ns, *latest_ns)), ..none }
            }
            Self::TaskFinish { task, earliest_ns, latest_ns, .. } => {
                Place { task: Some(*task), span_ns: Some((*earliest_ns, *latest_ns)), ..none }
            }
            Self::Slots { task } => Place { task: Some(*task), ..none },
            Self::Overload(overload) => {
                let Overload { link, from_ns, to_ns, flows, .. } = overload.as_ref();
                Place { flows, link: Some(link), span_ns: Some((*from_ns, *to_ns)), ..none }
            }
        }
    }
}

/// A figure to a thousandth, without the sign of a rounded zero.
fn short(value: f64) -> f64 {
    (value * 1e3).round() / 1e3 + 0.0
}

/// Some flows as text: "flows 3, 5".
fn named(flows: &[FlowId]) -> String {
    let noun = if flows.len() == 1 { "flow" } else { "flows" };
    let flows: Vec<String> = flows.iter().map(ToString::to_string).collect();
    format!("{noun} {}", flows.join(", "))
}

/// A link that carries more than it can, for some time.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error(
    "{link} carries {} bps between {from_ns} ns and {to_ns} ns, but has {capacity_bps} bps; on it then: {}", short(*load_bps), named(flows)
)]
pub struct Overload {
    /// "ingress of port 3".
    pub link: String,
    /// The beginning.
    pub from_ns: f64,
    /// The end.
    pub to_ns: f64,
    /// The largest load in between.
    pub load_bps: f64,
    /// The capacity of the link.
    pub capacity_bps: u64,
    /// Flows sent in that time, the first few.
    pub flows: Vec<FlowId>,
}

impl Overload {
    /// What [`Violation::kind`] calls it.
    pub(crate) const KIND: &'static str = "overload";
}
