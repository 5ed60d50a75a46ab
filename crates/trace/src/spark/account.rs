//! The notes of an import: which figures are exact, which estimated, and what is left out.

use cavalcade_model::PortId;

use super::dag::Tally;
use super::log::Log;
use crate::Note;

/// Hosts that are named one by one.
const NAMED_HOSTS: usize = 8;

/// All notes; `zero_ms` is the beginning of the first task.
pub(super) fn notes(log: &Log, port_of: &[PortId], tally: &Tally, tasks: usize, zero_ms: u64) -> Vec<Note> {
    let mut notes = vec![
        Note::exact(hosts(log, port_of)),
        Note::exact(
            "which stage reads which, the launch of every task (its wave), the bytes that every task got from elsewhere, and the bytes that every executor wrote",
        ),
        Note::exact(waiting(log)),
        Note::estimated(sources(log, tally)),
        Note::estimated(
            "computation: a stage computes for as long as it ran, less the share of its tasks' time that they waited for blocks; pauses between stages are as recorded",
        ),
    ];
    let local = if log.reads_host_local() { "on the same host" } else { "by the same executor" };
    notes.push(Note::left_out(format!(
        "{} bytes that stayed on their host (this log counts what was written {local} as local)",
        tally.stayed
    )));
    notes.push(Note::left_out(
        "reads from storage, broadcasts, and results sent to the driver: the log does not say between whom they went",
    ));
    if let Some(before) =
        log.application_start.and_then(|start| zero_ms.checked_sub(start)).filter(|&ms| ms > 0)
    {
        let before_s = before as f64 / 1e3;
        notes.push(Note::left_out(format!(
            "{before_s:.3} s between the start of the application and the first query or job that shuffles: time zero is after them"
        )));
    }
    if tally.idle_units > 0 {
        notes.push(Note::left_out(format!(
            "{} of {} queries and jobs, which shuffle nothing from host to host",
            tally.idle_units,
            tally.idle_units + tasks
        )));
    }
    if tally.sourceless > 0 {
        notes.push(Note::left_out(format!(
            "{} bytes read from elsewhere, where the log names no other host that wrote any",
            tally.sourceless
        )));
    }
    if tally.failed > 0 {
        notes.push(Note::exact(format!(
            "{} attempts of tasks failed or were killed: what they read counts, what they wrote does not",
            tally.failed
        )));
    }
    if tally.orphans > 0 {
        notes.push(Note::left_out(format!(
            "{} stages of jobs whose start is not in the log (compacted away, or an earlier file is missing)",
            tally.orphans
        )));
    }
    if !log.ended {
        notes.push(Note::left_out(
            "whatever followed the last event: the log has no end of the application, though all of its jobs have ended",
        ));
    }
    notes
}

/// Describes the tasks' recorded wait for the network.
fn waiting(log: &Log) -> String {
    let (busy, waited) = log.waiting();
    let share = if busy == 0 { 0.0 } else { 100.0 * waited as f64 / busy as f64 };
    format!("tasks waited for blocks {share:.1} % of the time that they ran")
}

/// Describes the ports of hosts.
fn hosts(log: &Log, port_of: &[PortId]) -> String {
    let mut named: Vec<(PortId, &str)> =
        port_of.iter().copied().zip(log.hosts.iter().map(String::as_str)).collect();
    named.sort_unstable();
    let shown: Vec<String> =
        named.iter().take(NAMED_HOSTS).map(|(port, host)| format!("{port} is {host}")).collect();
    let more = named.len().saturating_sub(NAMED_HOSTS);
    let rest = if more > 0 { format!(", and {more} more") } else { String::new() };
    format!("ports are hosts in order of name: {}{rest}", shown.join(", "))
}

/// Describes guesses about the sources of bytes.
fn sources(log: &Log, tally: &Tally) -> String {
    let shuffles = match tally.joins {
        0 => String::new(),
        1 => " (and, in one stage that reads several shuffles, through which of them)".to_owned(),
        joins => format!(" (and, in {joins} stages that read several shuffles, through which of them)"),
    };
    if log.hosts.len() == 2 && tally.joins == 0 {
        "nothing about sources: of two hosts, what came from elsewhere came from the other".to_owned()
    } else {
        format!("from which host the bytes came{shuffles}: in proportion to what each other host wrote")
    }
}
