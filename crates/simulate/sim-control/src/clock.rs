//! The clock of a machine: ahead of the true time, and a little fast.

use cavalcade_model::{Instant, Nanos, SplitMix64};

/// Time zero of the workload, in true time: numbers of coflows are times, and 0 is none.
pub(crate) const EPOCH: Instant = Instant(1_000_000_000_000_000);

/// A clock. Only differences between clocks matter, so none is behind or slow.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock {
    ahead: Nanos,
    /// Millionths by which it is fast, from [`EPOCH`] on.
    fast: u64,
}

impl Clock {
    /// A clock that shows the true time.
    pub(crate) const TRUE: Self = Self { ahead: Nanos::ZERO, fast: 0 };

    /// A clock up to two seconds ahead and up to 300 millionths fast.
    pub(crate) fn any(dice: &mut SplitMix64) -> Self {
        Self { ahead: Nanos(dice.below(2_000_000_000)), fast: dice.below(300) }
    }

    /// The clock after it was set forward.
    pub(crate) fn ahead_by(self, span: Nanos) -> Self {
        Self { ahead: self.ahead + span, ..self }
    }

    /// The clock after it was set back, no further than to the true time.
    pub(crate) fn behind_by(self, span: Nanos) -> Self {
        Self { ahead: Nanos(self.ahead.0.saturating_sub(span.0)), ..self }
    }

    /// Returns what it shows at the true time `at`.
    pub(crate) fn read(&self, at: Instant) -> Instant {
        let passed = at.0.saturating_sub(EPOCH.0);
        at + self.ahead + Nanos(passed / 1_000_000 * self.fast)
    }

    /// Returns a true time at which it shows `shown` or just later; zero where it shows more at any
    /// time.
    pub(crate) fn when(&self, shown: Instant) -> Instant {
        if self.fast == 0 {
            return Instant(shown.0.saturating_sub(self.ahead.0));
        }
        let passed = shown.0.saturating_sub(self.ahead.0 + EPOCH.0);
        let slowed = u128::from(passed) * 1_000_000 / u128::from(1_000_000 + self.fast);
        let mut at = Instant(EPOCH.0 + slowed as u64);
        while self.read(at) < shown {
            at = at + shown.since(self.read(at));
        }
        at
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_shows_at_the_returned_time_what_was_asked_for_or_a_little_later() {
        let mut dice = SplitMix64::new(3);
        for _ in 0..10_000 {
            let clock = Clock::any(&mut dice);
            let shown = clock.read(EPOCH) + Nanos(dice.below(100_000_000_000));
            let at = clock.when(shown);
            let late = clock.read(at).since(shown);
            assert!(
                clock.read(at) >= shown && late < Nanos(1_000),
                "{clock:?} shows {shown:?} {late:?} late"
            );
        }
    }
}
