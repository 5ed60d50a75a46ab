//! What the validator finds wrong with a schedule that came as a file, each thing with its place:
//! the lines, the flows with their coflows and ports, and the file that claims a time.

use std::fmt::{self, Write as _};
use std::path::Path;

use cavalcade_model::{CoflowId, FlowId, TaskId, Workload};
use cavalcade_validate::{Segment, Violation, Violations};

use crate::error::{Error, Kind};
use crate::folder::{COFLOWS, FLOWS, TASKS};

/// The lines of a dumped schedule before its first segment.
pub(crate) const TOP: u64 = 2;

/// The most lines that are named with a violation.
const SHOWN: usize = 5;

/// All that is wrong with a schedule, up to a number ([`cavalcade_validate::LISTED`]).
#[derive(Clone, Debug, PartialEq)]
pub struct Invalid {
    /// Each thing, in the order in which they were found: one or more.
    pub violations: Vec<Located>,
    /// The number of those that are not listed.
    pub more: usize,
}

/// One thing that is wrong with a schedule, with its place.
#[derive(Clone, Debug, PartialEq)]
pub struct Located {
    /// The violation.
    pub violation: Violation,
    /// The file that has its lines.
    pub file: String,
    /// The lines to look at, from 1: the first few.
    pub lines: Vec<u64>,
    /// Their number.
    pub lines_in_all: usize,
    /// Its flows, where the workload has them.
    pub flows: Vec<LocatedFlow>,
    /// The name of its coflow, or of its flow's.
    pub coflow: Option<String>,
    /// The name of its task.
    pub task: Option<String>,
}

/// A flow of a violation, by what people call it.
#[derive(Clone, Debug, PartialEq)]
pub struct LocatedFlow {
    /// The flow.
    pub flow: FlowId,
    /// The name of its coflow.
    pub coflow: String,
    /// The name of the port that sends it.
    pub src: String,
    /// The name of the port that receives it.
    pub dst: String,
}

/// The files that a violation may be found in.
pub(crate) struct Files<'a> {
    /// The schedule.
    pub(crate) schedule: &'a str,
    /// The folder with tables of the times that the run claims, each with one line above its first
    /// row.
    pub(crate) claims: Option<&'a Path>,
}

/// The error that a schedule is not valid. Its segments come with the numbers of their lines.
pub(crate) fn refused(
    violations: Violations,
    workload: &Workload,
    segments: &[(u64, Segment)],
    files: &Files<'_>,
) -> Error {
    let more = violations.more();
    let located = |violation| located(violation, workload, segments, files);
    let invalid = Invalid { violations: violations.into_listed().into_iter().map(located).collect(), more };
    let message = match &invalid.violations[..] {
        [one] if more == 0 => format!("{}: {one}", one.file),
        all => {
            let mut message = format!("{}: {} things are wrong", files.schedule, all.len() + more);
            for one in all {
                let other =
                    if one.file == files.schedule { String::new() } else { format!("{}: ", one.file) };
                // A text takes whatever is written to it.
                let _ = write!(message, "\n- {other}{one}");
            }
            if more > 0 {
                let _ = write!(message, "\n- and {more} more");
            }
            message
        }
    };
    Error::new(Kind::Assertion, message).that_is_invalid(invalid)
}

fn located(
    violation: Violation,
    workload: &Workload,
    segments: &[(u64, Segment)],
    files: &Files<'_>,
) -> Located {
    let place = violation.place();
    let is_known = |flow: &&FlowId| flow.index() < workload.flows().len();
    let known: Vec<FlowId> = place.flows.iter().filter(is_known).copied().collect();
    let coflow = match (place.coflow, &known[..]) {
        (Some(coflow), _) => Some(coflow),
        (None, [flow]) => Some(workload.coflow_of(*flow)),
        _ => None,
    };
    let (file, lines) = match (files.claims, claimed(&violation)) {
        (Some(folder), Some((table, row))) => {
            (folder.join(table).display().to_string(), vec![row as u64 + 2])
        }
        _ => (files.schedule.to_owned(), concerned(&violation, segments)),
    };
    Located {
        flows: known.into_iter().map(|flow| LocatedFlow::of(flow, workload)).collect(),
        coflow: coflow.map(|coflow| workload.coflow_name(coflow)),
        task: place.task.map(|task| workload.task(task).name.clone()),
        file,
        lines_in_all: lines.len(),
        lines: lines.into_iter().take(SHOWN).collect(),
        violation,
    }
}

/// The table that has the time which does not follow from the schedule, and the row from 0.
fn claimed(violation: &Violation) -> Option<(&'static str, usize)> {
    match *violation {
        Violation::FlowFinish { flow, .. } => Some((FLOWS, FlowId::index(flow))),
        Violation::CoflowArrival { coflow, .. } | Violation::CoflowFinish { coflow, .. } => {
            Some((COFLOWS, CoflowId::index(coflow)))
        }
        Violation::TaskFinish { task, .. } => Some((TASKS, TaskId::index(task))),
        _ => None,
    }
}

/// The lines of the segments that a violation is about.
fn concerned(violation: &Violation, segments: &[(u64, Segment)]) -> Vec<u64> {
    let place = violation.place();
    // Of a flow that waits there is no segment to look at.
    if let Violation::Idle { .. } = violation {
        return Vec::new();
    }
    let (from_ns, to_ns) = place.span_ns.unwrap_or((0.0, f64::INFINITY));
    let is_in_time = |segment: &Segment| {
        let (from, to) = (segment.from.as_f64(), segment.to.as_f64());
        (from <= from_ns && to >= to_ns) || (from < to_ns && to > from_ns)
    };
    let is_concerned = |segment: &Segment| place.flows.contains(&segment.flow) && is_in_time(segment);
    segments.iter().filter(|(_, segment)| is_concerned(segment)).map(|(line, _)| *line).collect()
}

impl LocatedFlow {
    fn of(flow: FlowId, workload: &Workload) -> Self {
        let facts = workload.flow(flow);
        Self {
            flow,
            coflow: workload.coflow_name(workload.coflow_of(flow)),
            src: workload.port_name(facts.src),
            dst: workload.port_name(facts.dst),
        }
    }
}

impl fmt::Display for Located {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown: Vec<String> = self.lines.iter().map(u64::to_string).collect();
        let (shown, hidden) = (shown.join(", "), self.lines_in_all - self.lines.len());
        let lines = match self.lines_in_all {
            0 => None,
            1 => Some(format!("line {shown}")),
            _ if hidden == 0 => Some(format!("lines {shown}")),
            _ => Some(format!("lines {shown} and {hidden} more")),
        };
        let name = self.coflow.as_ref().or(self.task.as_ref()).cloned();
        // A link says already which ports an overload is about.
        let ports = match &self.flows[..] {
            [LocatedFlow { src, dst, .. }] => Some(format!("{src} to {dst}")),
            _ => None,
        };
        let place: Vec<String> = [lines, name, ports].into_iter().flatten().collect();
        write!(f, "{}", self.violation)?;
        if place.is_empty() { Ok(()) } else { write!(f, " ({})", place.join("; ")) }
    }
}
