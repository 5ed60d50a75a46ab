//! The runs of one contender.

use cavalcade_lab::{LabError, Measured};

use super::mean;

/// Runs of the same: the one with the median of mean CCTs first; of an even number, the lower of
/// the two.
pub(super) struct Runs(Vec<Measured>);

impl Runs {
    /// Runs it so often.
    ///
    /// # Errors
    /// That of the first run that fails.
    pub(super) fn make(repeat: u32, run: impl Fn() -> Result<Measured, LabError>) -> Result<Self, LabError> {
        let mut runs = (0..repeat).map(|_| run()).collect::<Result<Vec<_>, _>>()?;
        runs.sort_by(|a, b| mean(&a.outcome).total_cmp(&mean(&b.outcome)));
        let median = (runs.len() - 1) / 2;
        runs.swap(0, median);
        Ok(Self(runs))
    }

    /// The median one.
    pub(super) fn median(&self) -> &Measured {
        &self.0[0]
    }

    /// All of them.
    pub(super) fn all(&self) -> &[Measured] {
        &self.0
    }

    /// The least and the most of mean CCTs; a dash for a single run.
    pub(super) fn range(&self) -> String {
        let means = self.0.iter().map(|run| mean(&run.outcome));
        let (least, most) = means
            .fold((f64::INFINITY, 0.0), |(least, most), mean| (f64::min(least, mean), f64::max(most, mean)));
        if self.0.len() > 1 { format!("{least:.3} – {most:.3}") } else { "–".to_owned() }
    }
}
