//! Faults of peers that connect, and whose they were: logged, counted, and kept for administrators.
//!
//! Any peer can cause these, as often as it likes. So a kind is logged once a second at most, with
//! the number suppressed, and of each kind only the count and the last one that was logged are
//! kept.

use std::fmt::Display;
use std::time::Instant;

use crate::administration::proto;
use crate::occasional::Occasional;

/// A kind of incident.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Incident {
    /// No certificate, or one that does not let its holder say that.
    Refused,
    /// Something that a client asked for.
    Denied,
    /// More connections than are served.
    Full,
    /// A component of another version.
    Version,
    /// A second process with the certificate of the first.
    Second,
    /// What came is no message, or did not come in time.
    Garbage,
    /// Messages for it were not taken.
    Unread,
    /// An agent that was not heard for a lease.
    Silent,
    /// A term, kill switch or drain that no coordinator has sealed.
    Forged,
    /// More coflows or flows than an agent may have.
    TooMany,
}

impl Incident {
    pub(crate) const ALL: [Self; 10] = [
        Self::Refused,
        Self::Denied,
        Self::Full,
        Self::Version,
        Self::Second,
        Self::Garbage,
        Self::Unread,
        Self::Silent,
        Self::Forged,
        Self::TooMany,
    ];

    /// Its name in figures.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Refused => "refused",
            Self::Denied => "denied",
            Self::Full => "full",
            Self::Version => "version",
            Self::Second => "second",
            Self::Garbage => "garbage",
            Self::Unread => "unread",
            Self::Silent => "silent",
            Self::Forged => "forged",
            Self::TooMany => "too_many",
        }
    }

    /// The event in words.
    fn title(self) -> &'static str {
        match self {
            Self::Refused => "refused a connection",
            Self::Denied => "refused a client's request",
            Self::Full => "turned a connection away",
            Self::Version => "a component of another version",
            Self::Second => "two processes show the same certificate",
            Self::Garbage => "closed a connection that broke the protocol",
            Self::Unread => "closed a connection that does not take its messages",
            Self::Silent => "silent for longer than a lease",
            Self::Forged => "a forged statement of a coordinator",
            Self::TooMany => "an agent has more than it may",
        }
    }
}

/// All incidents of one kind.
#[derive(Debug, Default)]
struct Past {
    times: u64,
    last: Option<Last>,
    warnings: Occasional,
}

/// The last one that was said.
#[derive(Debug)]
struct Last {
    at: Instant,
    who: String,
    what: String,
}

/// The incidents of a process.
#[derive(Debug, Default)]
pub(crate) struct Incidents([Past; Incident::ALL.len()]);

impl Incidents {
    /// Notes one: `who` was it, and `what` exactly, with the cure where there is one.
    pub(crate) fn note(&mut self, incident: Incident, who: impl Display, what: impl Display) {
        self.note_all(incident, 1, who, what);
    }

    /// Notes `times` of them at once.
    pub(crate) fn note_all(&mut self, incident: Incident, times: u64, who: impl Display, what: impl Display) {
        let past = &mut self.0[incident as usize];
        past.times += times;
        if let Some(unsaid) = past.warnings.admit() {
            let (who, what) = (who.to_string(), what.to_string());
            tracing::warn!(who, what, unsaid, "{}", incident.title());
            past.last = Some(Last { at: Instant::now(), who, what });
        }
    }

    /// Returns how many there were of a kind.
    pub(crate) fn count(&self, incident: Incident) -> u64 {
        self.0[incident as usize].times
    }

    /// Those that there were, for administrators.
    pub(crate) fn shown(&self) -> Vec<proto::Incident> {
        let shown = |incident: Incident| {
            let past = &self.0[incident as usize];
            let last = past.last.as_ref()?;
            Some(proto::Incident {
                kind: incident.name().to_owned(),
                title: incident.title().to_owned(),
                times: past.times,
                last_age_ns: last.at.elapsed().as_nanos() as u64,
                who: last.who.clone(),
                what: last.what.clone(),
            })
        };
        Incident::ALL.into_iter().filter_map(shown).collect()
    }
}

/// Logs a policy's failure when it begins; `has_failed` keeps whether it has.
pub(crate) fn log_policy_fault(has_failed: &mut bool, fault: Option<&impl Display>) {
    let had_failed = std::mem::replace(has_failed, fault.is_some());
    if let (false, Some(fault)) = (had_failed, fault) {
        tracing::error!(%fault, "the policy has failed: all flows go as plain TCP");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_is_counted_and_shown_with_the_last_one() {
        let mut incidents = Incidents::default();
        assert!(incidents.shown().is_empty());
        for number in 0..1_000 {
            incidents.note(Incident::Version, format!("agent-{number}"), "it speaks version 3");
        }
        incidents.note_all(Incident::Silent, 7, "agents 0 to 6", "");
        let shown = incidents.shown();
        assert_eq!((shown.len(), shown[0].times, &shown[0].who[..]), (2, 1_000, "agent-0"));
        assert_eq!((incidents.count(Incident::Silent), incidents.count(Incident::Full)), (7, 0));
    }

    #[test]
    fn kinds_stand_in_the_order_of_their_numbers() {
        assert!(Incident::ALL.iter().enumerate().all(|(place, &incident)| incident as usize == place));
    }
}
