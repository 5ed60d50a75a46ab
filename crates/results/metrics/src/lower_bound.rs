//! What no schedule can beat, beside what schedules came to.
//!
//! How a bound is found and proven is another crate's business. What a comparison needs of it is
//! the figure, where it came from, and how far each run is above it: the *gap*, all that is left to
//! gain by any policy whatever it knows.

use cavalcade_model::Nanos;

/// A lower bound on the mean completion time of every schedule, and one on the deadlines missed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LowerBound {
    /// No schedule has a lower mean: of CCTs, or of TCTs where tasks are ranked
    /// ([`crate::Ranked`]); each counts once. Rounded down.
    pub mean: Nanos,
    /// At least so many tasks miss their deadline in any schedule.
    pub misses: usize,
    /// The name of the method that found the mean.
    pub method: String,
    /// The budget of the search in words: `2000 linear programs`, `5s`.
    pub budget: String,
    /// True if the figures are the same on every machine: not where the search was given a time and
    /// did not end sooner.
    pub repeatable: bool,
}

/// The share of the bytes of a flow by which a valid schedule may differ, as one in so many
/// (`cavalcade_validate::tolerance`).
const FORGIVEN: u64 = 1_000_000_000;

impl LowerBound {
    /// Tells whether a schedule with these times is below the bound by more than rounding: then one
    /// of the two is wrong. Each may be short of the exact one by a nanosecond, and by the share of
    /// its bytes that the validator forgives.
    pub fn is_broken_by(&self, times: &[Nanos]) -> bool {
        let most = |time: &Nanos| u128::from(time.get()) + 1 + u128::from(time.get() / FORGIVEN);
        let sum: u128 = times.iter().map(most).sum();
        sum < u128::from(self.mean.get()) * times.len() as u128
    }

    /// By how much a schedule with these times is above the bound, as a share of it. `None` where
    /// the bound is zero.
    pub fn gap(&self, times: &[Nanos]) -> Option<f64> {
        let sum: u128 = times.iter().map(|time| u128::from(time.get())).sum();
        let least = u128::from(self.mean.get()) * times.len() as u128;
        // By rounding it may be a hair below; for more see `is_broken_by`.
        (least > 0).then(|| sum.saturating_sub(least) as f64 / least as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bound(mean: Nanos) -> LowerBound {
        LowerBound { mean, misses: 0, method: String::new(), budget: String::new(), repeatable: true }
    }

    #[test]
    fn the_gap_is_a_share_of_the_bound_and_never_negative() {
        let cct = [Nanos(3), Nanos(9)];
        assert_eq!(bound(Nanos(4)).gap(&cct), Some(0.5));
        assert_eq!(bound(Nanos(7)).gap(&cct), Some(0.0));
        assert!(!bound(Nanos(7)).is_broken_by(&cct), "by a nanosecond for each");
        assert!(bound(Nanos(8)).is_broken_by(&cct));
        assert!(!bound(Nanos(9_223_372_032_000_000_000)).is_broken_by(&[Nanos(9_223_372_031_999_998_976)]));
    }

    #[test]
    fn nothing_is_above_a_bound_of_nothing() {
        assert_eq!(bound(Nanos(0)).gap(&[Nanos(3)]), None);
        assert_eq!(bound(Nanos(4)).gap(&[]), None);
    }
}
