//! What each rank did when, as trace events for ui.perfetto.dev and chrome://tracing: a process for
//! each rank under each policy, with a track for computation and one for each kind of group that it
//! communicates in.
//!
//! Times are in microseconds with three digits behind the point, which is exact. Events are written
//! as they are made.

use std::io::{self, Write};

use cavalcade_model::Instant;
use cavalcade_training::{Job, OpId, OpWork, Timeline};
use serde_json::{Value, json};

use super::ComparedJobs;

/// Writes all runs.
pub(super) fn write(compared: &ComparedJobs, out: &mut dyn Write) -> io::Result<()> {
    out.write_all(b"{\"displayTimeUnit\": \"ms\", \"traceEvents\": [")?;
    let (mut writer, mut first) = (Writer { out, is_first: true }, 1);
    for (policy, run) in &compared.runs {
        for (timeline, job) in run.timelines.iter().zip(&compared.jobs.jobs) {
            writer.job(policy, job, timeline, first)?;
            first += u64::from(job.program.ranks());
        }
    }
    writer.out.write_all(b"\n]}\n")
}

struct Writer<'a> {
    out: &'a mut dyn Write,
    is_first: bool,
}

/// The track of computation; those of groups follow in the order of their kinds.
const COMPUTE: usize = 1;

impl Writer<'_> {
    fn event(&mut self, event: &Value) -> io::Result<()> {
        let between = if core::mem::take(&mut self.is_first) { "\n" } else { ",\n" };
        write!(self.out, "{between}{event}")
    }

    /// Writes a job, whose first rank has the number `first` among processes.
    fn job(&mut self, policy: &str, job: &Job, timeline: &Timeline, first: u64) -> io::Result<()> {
        let program = timeline.program(job);
        let mut kinds: Vec<_> = program.groups().iter().map(|group| group.kind).collect();
        kinds.extend((0..program.ops().len()).filter_map(|op| program.group_kind(OpId(op as u32))));
        kinds.sort_unstable();
        kinds.dedup();
        for rank in 0..program.ranks() {
            let pid = first + u64::from(rank);
            let name = format!("{policy}: {} rank {rank}", job.name);
            self.event(&json!({"ph": "M", "name": "process_name", "pid": pid, "args": {"name": name}}))?;
            let tracks = ["computation"].into_iter().chain(kinds.iter().map(|kind| kind.name()));
            for (track, name) in (COMPUTE..).zip(tracks) {
                let name = json!({"ph": "M", "name": "thread_name", "pid": pid, "tid": track, "args": {"name": name}});
                self.event(&name)?;
            }
        }
        for (iteration, pass) in timeline.passes().enumerate() {
            for (op, &[begin, end]) in pass.iter().enumerate().filter(|(_, [begin, end])| begin < end) {
                let id = OpId(op as u32);
                let kind = program.group_kind(id);
                let track = kind.and_then(|kind| kinds.iter().position(|known| *known == kind));
                let track = track.map_or(COMPUTE, |place| COMPUTE + 1 + place);
                let (name, bytes) = match &program.ops()[op].work {
                    OpWork::Compute { .. } => ("computation", None),
                    OpWork::Transfer { bytes, .. } => ("transfer", Some(bytes.get())),
                    OpWork::Collective(one) => (one.kind.name(), Some(one.bytes.get())),
                };
                let mut args = json!({"iteration": iteration});
                if let Some(bytes) = bytes {
                    args["bytes"] = bytes.into();
                }
                let lasts = Instant(end.0 - begin.0);
                for rank in timeline.ranks_of(job, id) {
                    let pid = first + u64::from(rank);
                    let (ts, dur) = (micros(begin), micros(lasts));
                    let event = json!({
                        "ph": "X", "name": name, "pid": pid, "tid": track, "ts": ts, "dur": dur, "args": args,
                    });
                    self.event(&event)?;
                }
            }
        }
        Ok(())
    }
}

fn micros(at: Instant) -> f64 {
    at.0 as f64 / 1e3
}
