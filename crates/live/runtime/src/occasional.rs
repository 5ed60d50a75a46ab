//! Messages that any peer can cause are logged once a second, with how many were left out; where it
//! is named, a few at once.

use std::time::{Duration, Instant};

const PAUSE: Duration = Duration::from_secs(1);

/// A limit on how often something is said.
#[derive(Debug, Default)]
pub(crate) struct Occasional {
    /// Time from which on one more may be said at once.
    due: Option<Instant>,
    /// The number that may be said at once, beside the first.
    more: u32,
    unsaid: u64,
}

impl Occasional {
    /// Lets so many be said at once, after as many seconds without any.
    pub(crate) fn in_bursts(of: u32) -> Self {
        Self { more: of.saturating_sub(1), ..Self::default() }
    }

    /// Counts an occasion; returns how many went unsaid before it where it is to be said.
    pub(crate) fn admit(&mut self) -> Option<u64> {
        let now = Instant::now();
        if self.due.is_some_and(|due| due > now + PAUSE * self.more) {
            self.unsaid += 1;
            return None;
        }
        self.due = Some(self.due.map_or(now, |due| due.max(now)) + PAUSE);
        Some(std::mem::take(&mut self.unsaid))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thousand_occasions_at_once_are_said_once() {
        let mut warnings = Occasional::default();
        let said = (0..1_000).filter_map(|_| warnings.admit()).count();
        assert!(said <= 2, "{said}");
        assert_eq!(warnings.unsaid, 1_000 - said as u64);
    }

    #[test]
    fn a_burst_is_said_as_a_whole_and_no_more() {
        let mut messages = Occasional::in_bursts(10);
        let said = (0..1_000).filter_map(|_| messages.admit()).count();
        assert!((10..=11).contains(&said), "{said}");
    }
}
