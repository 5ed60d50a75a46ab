//! The budget of a search for a bound: a time, or a number of linear programs.
//!
//! A time is what a person has. A number of linear programs gives the same bound on every machine,
//! so it is what a comparison uses by default: figures that differ from run to run cannot be
//! compared.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use cavalcade_bound::Progress;
use cavalcade_model::Nanos;

/// The limit of a search that has not ended by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Budget {
    /// After this time.
    Time(Nanos),
    /// After so many linear programs.
    Programs(u64),
}

impl Budget {
    /// The share of it that is spent; from one on the search is to stop.
    pub fn spent(self, elapsed: Duration, progress: &Progress) -> f64 {
        let (spent, of) = match self {
            Self::Time(time) => (elapsed.as_secs_f64(), time.as_secs_f64()),
            Self::Programs(programs) => (progress.programs as f64, programs as f64),
        };
        if spent < of { spent / of } else { 1.0 }
    }

    /// Returns whether the search stops at the same place on every machine.
    pub const fn is_repeatable(self) -> bool {
        matches!(self, Self::Programs(_))
    }
}

impl fmt::Display for Budget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Time(time) => write!(f, "{time}"),
            Self::Programs(1) => f.write_str("1 linear program"),
            Self::Programs(programs) => write!(f, "{programs} linear programs"),
        }
    }
}

impl FromStr for Budget {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let is_count = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        let read =
            if is_count { text.parse().ok().map(Self::Programs) } else { text.parse().ok().map(Self::Time) };
        read.ok_or_else(|| {
            "expected a time, as in 20s, or a number of linear programs, as in 2000".to_owned()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn progress(programs: u64) -> Progress {
        Progress { looks: 0, programs, mean: Nanos::ZERO }
    }

    #[test]
    fn a_bare_number_counts_programs_and_one_with_a_unit_is_a_time() {
        assert_eq!("2000".parse(), Ok(Budget::Programs(2000)));
        assert_eq!("1.5s".parse(), Ok(Budget::Time(Nanos::from_millis(1500))));
        for text in ["", "s", "-1", "1.5", "5 apples", "99999999999999999999"] {
            assert!(text.parse::<Budget>().is_err(), "{text}");
        }
    }

    #[test]
    fn a_budget_of_nothing_is_spent_at_once() {
        for budget in [Budget::Programs(0), Budget::Time(Nanos::ZERO)] {
            assert_eq!(budget.spent(Duration::ZERO, &progress(0)), 1.0);
        }
        assert_eq!(Budget::Programs(4).spent(Duration::MAX, &progress(1)), 0.25);
        assert_eq!(Budget::Time(Nanos::from_secs(4)).spent(Duration::from_secs(1), &progress(9)), 0.25);
    }
}
