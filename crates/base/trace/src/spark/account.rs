//! The notes of an import: which figures are exact, which estimated, and what is left out.

use cavalcade_model::{Bytes, PortId};

use super::dag::Tally;
use super::log::{Application, Cluster, Cut};
use super::service::Service;
use super::setup::Setup;
use crate::Note;
use crate::input::LogLines;

/// Hosts, and logs that were cut off, that are named one by one.
const NAMED: usize = 8;

/// Bytes for people.
fn size(bytes: u64) -> impl core::fmt::Display {
    Bytes(bytes).rounded()
}

/// All that notes are made of.
pub(super) struct Account<'a, 'f> {
    pub(super) cluster: &'a Cluster,
    /// The applications that count.
    pub(super) kept: &'a [usize],
    pub(super) lines: &'a LogLines<'f>,
    pub(super) port_of: &'a [PortId],
    pub(super) tally: &'a Tally,
    /// How many tasks came of them.
    pub(super) tasks: usize,
    /// The beginning of the first task.
    pub(super) zero_ms: u64,
    pub(super) setup: &'a Setup,
}

impl Account<'_, '_> {
    /// All notes.
    pub(super) fn notes(&self) -> Vec<Note> {
        let mut notes =
            vec![Note::exact(self.hosts()), Note::exact(self.read_exactly()), Note::exact(self.waiting())];
        notes.extend(self.sources());
        notes.extend(self.beyond());
        notes.push(Note::estimated(
            "computation: a stage computes for as long as it ran, less the share of its tasks' time that they waited for blocks; pauses between stages are as recorded",
        ));
        notes.extend(self.several_applications());
        notes.extend(self.stayed());
        notes.push(Note::left_out(
            "reads from storage, broadcasts, and results sent to the driver: the log does not say between whom they went",
        ));
        notes.extend(self.before_the_first());
        notes.extend(self.counted());
        notes.extend(self.odd());
        notes.extend(self.ends());
        notes
    }

    fn applications(&self) -> impl Iterator<Item = &Application> {
        self.kept.iter().map(|&index| &self.cluster.applications[index])
    }

    /// Describes the ports of hosts.
    fn hosts(&self) -> String {
        let names = self.cluster.hosts.names.iter().map(String::as_str);
        let mut named: Vec<(PortId, &str)> = self.port_of.iter().copied().zip(names).collect();
        named.sort_unstable();
        let shown: Vec<String> =
            named.iter().take(NAMED).map(|(port, host)| format!("{port} is {host}")).collect();
        let more = named.len().saturating_sub(NAMED);
        let rest = if more > 0 { format!(", and {more} more") } else { String::new() };
        format!("ports are hosts in order of name: {}{rest}", shown.join(", "))
    }

    /// The managers of others that count bytes, each once.
    fn foreign(&self) -> Vec<&str> {
        let mut names: Vec<&str> = self
            .applications()
            .filter_map(|application| match application.service() {
                Service::Own => None,
                Service::Executors(name) | Service::Elsewhere(name) => Some(name),
            })
            .collect();
        names.sort_unstable();
        names.dedup();
        names
    }

    fn read_exactly(&self) -> String {
        let foreign = self.foreign();
        let by = if foreign.is_empty() {
            String::new()
        } else {
            format!(" (both as {} counts them, which is not Spark's own)", foreign.join(" and "))
        };
        format!(
            "which stage reads which, the launch of every task (its wave), the bytes that every task got from elsewhere, and the bytes that every executor wrote{by}"
        )
    }

    /// Describes the tasks' recorded wait for the network.
    fn waiting(&self) -> String {
        let Setup { ran, waited, .. } = *self.setup;
        let share = if ran.0 == 0 { 0.0 } else { 100.0 * waited.as_f64() / ran.as_f64() };
        format!("tasks waited for blocks {share:.1} % of the time that they ran")
    }

    /// Describes what is known of the sources of bytes on hosts of the log.
    fn sources(&self) -> Vec<Note> {
        let Tally { known, shared, received, joins, .. } = *self.tally;
        let mut notes = Vec::new();
        if known > 0 {
            notes.push(Note::exact(format!(
                "from which host {} of the {} came that tasks got from elsewhere: only one can have written them",
                size(known),
                size(received)
            )));
        }
        if shared > 0 {
            let shuffles = match joins {
                0 => String::new(),
                1 => " (and, in one stage that reads several shuffles, through which of them)".to_owned(),
                joins => {
                    format!(" (and, in {joins} stages that read several shuffles, through which of them)")
                }
            };
            notes.push(Note::estimated(format!(
                "from which host {} of the {} came that tasks got from elsewhere{shuffles}: in proportion to what each other host wrote",
                size(shared),
                size(received)
            )));
        }
        notes
    }

    /// Describes what went through hosts that the logs do not name.
    fn beyond(&self) -> Vec<Note> {
        let mut notes = Vec::new();
        let Tally { from_beyond, to_beyond, .. } = *self.tally;
        if self.applications().any(Application::goes_beyond) {
            let (first, count) = (self.port_of.len(), self.port_of.len());
            let given = match to_beyond {
                0 => String::new(),
                _ => format!(", and tasks gave them {} that they wrote", size(to_beyond)),
            };
            notes.push(Note::estimated(format!(
                "sources that are not known: {} came from hosts that the log does not name{given}; ports {first} to {} stand for these, each for those that exchange bytes with one host, so that only that host's port limits them",
                size(from_beyond),
                first + count - 1
            )));
        }
        for application in self.applications() {
            if let Service::Elsewhere(name) = application.service() {
                notes.push(Note::left_out(format!(
                    "what happens inside {name}, which keeps what tasks write: where its servers are, and what they send each other"
                )));
            }
        }
        let merged = self.applications().any(|application| {
            application.stages.values().flat_map(|stage| &stage.runs).any(|run| run.merged > 0)
        });
        if merged || self.applications().any(Application::pushes) {
            notes.push(Note::left_out(
                "blocks that tasks pushed to be merged (push-based shuffle): the log does not say how many bytes, or where to",
            ));
        }
        notes.dedup();
        notes
    }

    fn several_applications(&self) -> Vec<Note> {
        let all = self.cluster.applications.len();
        let mut notes = Vec::new();
        if self.kept.len() > 1 {
            notes.push(Note::estimated(format!(
                "that the clocks of the drivers of {} applications agree: their tasks are on one clock, and hosts of one name are one host",
                self.kept.len()
            )));
        }
        if all > self.kept.len() {
            notes.push(Note::left_out(format!(
                "{} earlier attempts of applications: of each application the last one is read",
                all - self.kept.len()
            )));
        }
        let idle = self.kept.len() - self.tally.applications.len();
        if idle > 0 {
            notes.push(Note::left_out(format!("{idle} applications that shuffle nothing from host to host")));
        }
        notes
    }

    /// Describes what crossed no port.
    fn stayed(&self) -> Vec<Note> {
        let on_host = self.applications().all(Application::reads_host_local);
        let by_executor = self.applications().all(|application| !application.reads_host_local());
        let local = match (on_host, by_executor) {
            (true, _) => "on the same host",
            (_, true) => "by the same executor",
            _ => "on the same host or, in some of these applications, by the same executor",
        };
        let mut notes = vec![Note::left_out(format!(
            "{} that stayed on their host (this log counts what was written {local} as local)",
            size(self.tally.stayed)
        ))];
        if self.tally.stayed_by_share > 0 {
            notes.push(Note::estimated(format!(
                "that {} stayed on their host, too: another executor there wrote its share of what the log counts as read from elsewhere",
                size(self.tally.stayed_by_share)
            )));
        }
        notes
    }

    fn before_the_first(&self) -> Option<Note> {
        let started = self.applications().filter_map(|application| application.started).min()?;
        let before = self.zero_ms.checked_sub(started).filter(|&before| before > 0)?;
        let application = match self.applications().count() {
            1 => "the application",
            _ => "the first application",
        };
        Some(Note::left_out(format!(
            "{:.3} s between the start of {application} and the first query or job that shuffles: time zero is after them",
            before as f64 / 1e3
        )))
    }

    /// Describes what was counted.
    fn counted(&self) -> Vec<Note> {
        let tally = self.tally;
        let mut notes = Vec::new();
        if tally.idle_units > 0 {
            notes.push(Note::left_out(format!(
                "{} of {} queries and jobs, which shuffle nothing from host to host{}",
                tally.idle_units,
                tally.idle_units + self.tasks,
                match self.applications().all(|application| application.ended) {
                    true => "",
                    false => " as far as the log goes",
                }
            )));
        }
        if tally.sourceless > 0 {
            notes.push(Note::left_out(format!(
                "{} read from elsewhere, where the log names no other host that wrote any",
                size(tally.sourceless)
            )));
        }
        if tally.failed > 0 {
            notes.push(Note::exact(format!(
                "attempts of tasks that failed or were killed: {}; what they read counts, what they wrote does not",
                tally.failed
            )));
        }
        let (outputs, bytes) = tally.replaced;
        if outputs > 0 {
            notes.push(Note::exact(format!(
                "outputs of tasks that were lost and written again: {outputs} ({}); tasks that came later got them from where that was",
                size(bytes)
            )));
        }
        if tally.orphans > 0 {
            notes.push(Note::left_out(format!(
                "{} stages of jobs whose start is not in the log (compacted away, or an earlier file is missing)",
                tally.orphans
            )));
        }
        notes
    }

    /// Describes values that were taken as absent.
    fn odd(&self) -> Option<Note> {
        let mut fields: Vec<(&str, u64)> = self
            .applications()
            .flat_map(|application| &application.odd)
            .map(|(name, count)| (*name, *count))
            .collect();
        fields.sort_unstable();
        fields.dedup_by(|next, first| {
            let is_same = next.0 == first.0;
            first.1 += if is_same { next.1 } else { 0 };
            is_same
        });
        let shown: Vec<String> = fields.iter().map(|(name, count)| format!("{name} ({count})")).collect();
        (!shown.is_empty()).then(|| {
            Note::left_out(format!(
                "values that cannot be, taken as if they were not there: {}",
                shown.join(", ")
            ))
        })
    }

    /// Describes where logs end that do not end with their application.
    fn ends(&self) -> Vec<Note> {
        let open: Vec<&Application> = self.applications().filter(|application| !application.ended).collect();
        let mut notes: Vec<Note> =
            open.iter().take(NAMED).filter_map(|application| self.end(application)).collect();
        if open.len() > NAMED {
            notes.push(Note::left_out(format!("whatever followed in {} more logs", open.len() - NAMED)));
        }
        if self.tally.cut_stages > 0 {
            notes.push(Note::left_out(format!(
                "{} attempts of stages that ran where their log ends, with the {} that they had read from elsewhere: {} queries and jobs are read up to there",
                self.tally.cut_stages,
                size(self.tally.cut_bytes),
                self.tally.cut_units
            )));
        }
        notes
    }

    fn end(&self, application: &Application) -> Option<Note> {
        let last = application.last?;
        let how = match application.cut {
            None => String::new(),
            Some(Cut::InLine) => ", where it is cut off inside a line".to_owned(),
            Some(Cut::InData(codec)) => format!(", where it is cut off inside {} data", codec.name()),
        };
        let (line, file) = (last.line, self.lines.name(last));
        let seconds = application.latest.saturating_sub(self.zero_ms) as f64 / 1e3;
        let jobs = match application.open_jobs.len() {
            0 => "though all of its jobs have ended".to_owned(),
            1 => "and one job had not ended".to_owned(),
            jobs => format!("and {jobs} jobs had not ended"),
        };
        Some(Note::left_out(format!(
            "whatever followed line {line} of {file}, {seconds:.3} s after time zero{how}: the log has no end of the application, {jobs}"
        )))
    }
}
