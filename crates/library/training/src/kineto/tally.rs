//! The notes on recordings: what was taken for communication and by what, and where time went.

use cavalcade_model::Nanos;
use cavalcade_trace::Note;

use super::busy::{Busy, length, within};
use super::iteration::{Act, Iteration};
use super::launched::Times;
use super::recording::{Recording, Told};
use crate::collective::CollectiveKind;
use crate::read::{Host, Measured};

/// Sums over recordings.
#[derive(Default)]
pub(super) struct Tally {
    files: u64,
    by_launch: bool,
    collectives: usize,
    /// Ends of transfers.
    transfers: usize,
    told: Told,
    left_out: usize,
    neighbours: usize,
    /// All-to-alls that give no parts, and whose ends differ.
    even: usize,
    stand_ins: usize,
    repeats: usize,
    computes: u64,
    communicates: u64,
    exposed: u64,
    host: u64,
    whole: u64,
}

impl Tally {
    pub(super) fn add(&mut self, recording: &Recording, iteration: &Iteration<'_>) {
        self.files += 1;
        self.by_launch |= iteration.by_launch;
        let transfers = iteration.collectives.iter().filter(|member| member.act.way().is_some()).count();
        self.transfers += transfers;
        self.collectives += iteration.collectives.len() - transfers;
        self.told.metadata += recording.told.metadata;
        self.told.launch += recording.told.launch;
        self.told.name += recording.told.name;
        self.left_out += iteration.left_out;
        self.neighbours += iteration.neighbours;
        self.stand_ins += recording.stand_ins;
        self.repeats = iteration.repeats;
        let is_uneven = |meta: &super::event::Meta| meta.splits.is_empty() && meta.input != meta.output;
        let all_to_alls = iteration
            .collectives
            .iter()
            .filter(|member| member.act == Act::Collective(CollectiveKind::AllToAll));
        self.even += all_to_alls.filter(|member| is_uneven(member.meta)).count();
        // Clocks of a damaged file may have any time.
        let add = |sum: &mut u64, more: u64| *sum = sum.saturating_add(more);
        if iteration.by_launch {
            let times = Times::of(iteration);
            add(&mut self.computes, times.computes());
            add(&mut self.host, times.host());
            add(&mut self.whole, times.computes().saturating_add(times.host()));
            return;
        }
        let (busy, window) = (Busy::of(iteration), (iteration.begin, iteration.end));
        let whole = iteration.end.saturating_sub(iteration.begin);
        let computes = length(within(&busy.computes, window));
        let exposed = busy.exposed(window);
        add(&mut self.computes, computes);
        add(&mut self.communicates, length(within(&busy.communicates, window)));
        add(&mut self.exposed, exposed);
        add(&mut self.host, whole.saturating_sub(computes.saturating_add(exposed)));
        add(&mut self.whole, whole);
    }

    /// The iteration as it was recorded.
    pub(super) fn measured(&self) -> Option<Measured> {
        let mean = |sum: u64| Nanos(sum / self.files.max(1));
        (!self.by_launch).then(|| Measured {
            iteration: mean(self.whole),
            computing: mean(self.computes),
            exposed: mean(self.exposed),
            host: mean(self.host),
        })
    }

    /// What there is to know, where one rank stands for all with how many others there were.
    pub(super) fn notes(&self, others: Option<usize>, host: Host) -> Vec<Note> {
        let mean = |sum: u64| format!("{:.3} ms", (sum / self.files.max(1)) as f64 / 1e6);
        let Told { metadata, launch, name } = self.told;
        let mut notes = vec![if self.by_launch {
            Note::exact(format!(
                "bytes of {} collectives, by the operations that called them: no kernel communicates, as over a fake group",
                self.collectives
            ))
        } else {
            Note::exact(format!(
                "bytes of {} collectives, by what they or the operations that launched them say",
                self.collectives
            ))
        }];
        if self.transfers > 0 {
            notes.push(Note::exact(format!(
                "bytes and ends of {} transfers between ranks, by the order of sends and receives",
                self.transfers / 2
            )));
        }
        let by = [
            (metadata, "by what they say of themselves"),
            (launch, "by the operation that launched them"),
            (name, "by their names alone"),
        ];
        let by = by.iter().filter(|(count, _)| *count > 0).map(|(count, how)| format!("{count} {how}"));
        let by = by.collect::<Vec<_>>().join(", ");
        if !by.is_empty() {
            let all = metadata + launch + name;
            notes.push(Note::exact(format!("{all} kernels taken for communication: {by}")));
        }
        notes.push(Note::exact(format!("{} a rank of kernels and copies", mean(self.computes))));
        let late = format!("{} a rank in which a GPU did nothing and nobody was waited for", mean(self.host));
        if self.host > 0 {
            notes.push(match host {
                Host::Kept => Note::estimated(format!("{late}: the host's, taken as computation")),
                Host::LeftOut => Note::left_out(format!("{late}: the host's")),
            });
        }
        if self.by_launch {
            notes.push(Note::estimated(
                "what waits for what, by the order in which the host launched it, spans of FSDP and the optimizer",
            ));
        } else {
            notes.push(Note::estimated(
                "what waits for what across streams, by where a GPU had nothing to do",
            ));
            notes.push(Note::left_out(format!(
                "how long kernels of collectives lasted ({} a rank): mostly waiting for others",
                mean(self.communicates)
            )));
        }
        notes.push(if self.repeats > 1 {
            Note::estimated(format!(
                "an iteration of {}, by collectives that repeat {} times",
                mean(self.whole),
                self.repeats
            ))
        } else {
            Note::estimated(format!("the whole recording of {} as one iteration", mean(self.whole)))
        });
        if let Some(others) = others {
            notes.push(Note::estimated("all other ranks: the one that was recorded stands for them"));
            if others > 0 {
                notes.push(Note::left_out(format!("recordings of {others} other ranks")));
            }
        }
        self.holes(&mut notes);
        notes
    }

    /// What recordings lack.
    fn holes(&self, notes: &mut Vec<Note>) {
        let mut note = |count: usize, make: &dyn Fn(usize) -> Note| {
            if count > 0 {
                notes.push(make(count));
            }
        };
        note(self.neighbours, &|count| {
            Note::estimated(format!("the groups of {count} collectives, which say only how many: neighbours"))
        });
        note(self.even, &|count| {
            Note::estimated(format!("the parts of {count} all-to-alls, which give none: even"))
        });
        note(self.stand_ins, &|count| {
            Note::left_out(format!("{count} copies by which a fake group stands for collectives"))
        });
        note(self.told.name, &|count| {
            Note::left_out(format!("{count} kernels that communicate by their names and do not say what"))
        });
        note(self.left_out, &|count| {
            Note::left_out(format!(
                "{count} gathers and scatters, and sends and receives of which an end is not recorded"
            ))
        });
    }
}
