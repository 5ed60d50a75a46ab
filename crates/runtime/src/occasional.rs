//! Warnings that anybody can cause are said once a second, with how many were left out.

use std::time::{Duration, Instant};

const PAUSE: Duration = Duration::from_secs(1);

/// A limit on how often something is said.
#[derive(Debug, Default)]
pub(crate) struct Occasional {
    last: Option<Instant>,
    unsaid: u64,
}

impl Occasional {
    /// Counts an occasion; returns how many went unsaid before it where it is to be said.
    pub(crate) fn admit(&mut self) -> Option<u64> {
        if self.last.is_some_and(|last| last.elapsed() < PAUSE) {
            self.unsaid += 1;
            return None;
        }
        self.last = Some(Instant::now());
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
}
