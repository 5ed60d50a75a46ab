//! What an enforcer could not do for a client: it is counted and logged, and the enforcer goes on.
//!
//! Users decide how many coflows, flows and groups there are, so any table may be full and any
//! process gone. None of that ends what all users share. Each kind is said once a second at most,
//! with how often it happened and the last reason.

use std::collections::BTreeMap;
use std::fmt::Display;

use crate::status;

/// How often something failed, how often of that was said, and why it failed last.
#[derive(Debug, Default)]
struct Trouble {
    count: u64,
    said: u64,
    reason: String,
}

/// All that has failed, by what was to be done.
#[derive(Debug, Default)]
pub(super) struct Troubles(BTreeMap<&'static str, Trouble>);

impl Troubles {
    /// Notes a failure. Control characters of the reason are escaped: users choose paths and names
    /// in it.
    pub(super) fn note(&mut self, what: &'static str, reason: impl Display) {
        let trouble = self.0.entry(what).or_default();
        trouble.count += 1;
        trouble.reason.clear();
        for character in reason.to_string().chars() {
            match character.is_control() {
                true => trouble.reason.extend(character.escape_default()),
                false => trouble.reason.push(character),
            }
        }
    }

    /// The outcome, if it is one; else the failure is noted.
    pub(super) fn settle<T, E: Display>(&mut self, what: &'static str, outcome: Result<T, E>) -> Option<T> {
        outcome.map_err(|error| self.note(what, error)).ok()
    }

    /// Logs what has happened since the last call.
    pub(super) fn log(&mut self) {
        for (what, trouble) in self.0.iter_mut().filter(|(_, trouble)| trouble.count > trouble.said) {
            let (times, reason) = (trouble.count - trouble.said, &trouble.reason);
            tracing::warn!(times, in_all = trouble.count, reason, "{what}");
            trouble.said = trouble.count;
        }
    }

    /// All that has failed.
    pub(super) fn all(&self) -> Vec<status::Trouble> {
        let shown = |(&what, trouble): (&&'static str, &Trouble)| {
            let (times, reason) = (trouble.count, trouble.reason.clone());
            status::Trouble { what, times, reason }
        };
        self.0.iter().map(shown).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_is_counted_by_what_was_to_be_done_and_its_outcome_is_none() {
        let mut troubles = Troubles::default();
        assert_eq!(troubles.settle("a walk failed", Ok::<_, String>(7)), Some(7));
        for _ in 0..3 {
            assert_eq!(troubles.settle("a walk failed", Err::<u8, _>("full")), None);
        }
        troubles.note("a report was not believed", "of 10.0.0.9");
        troubles.log();
        let counts: Vec<_> =
            troubles.all().into_iter().map(|trouble| (trouble.what, trouble.times)).collect();
        assert_eq!(counts, [("a report was not believed", 1), ("a walk failed", 3)]);
        assert!(troubles.0.values().all(|trouble| trouble.said == trouble.count));
    }

    #[test]
    fn a_reason_that_would_command_a_terminal_is_shown_as_text() {
        let mut troubles = Troubles::default();
        troubles.note("a walk failed", "at /\u{1b}[2J\n/é 'x'");
        assert_eq!(troubles.all()[0].reason, "at /\\u{1b}[2J\\n/é 'x'");
    }
}
