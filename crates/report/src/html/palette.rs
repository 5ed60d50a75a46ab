//! One look for each policy, the same in every chart.
//!
//! The baseline is ink, the others take Okabe and Ito's colours by rank (their yellow left out: it vanishes on
//! white), and after six the dash changes. Looks are classes; what they mean in light, dark and print is in `style.css`.

use cavalcade_metrics::Comparison;

const COLORS: usize = 6;
const DASHES: usize = 3;

/// For each run (in the order given, not of rank) its classes: `c0` for the baseline, else `c1 d0` to `c6 d2`.
pub(super) fn looks(comparison: &Comparison) -> Vec<String> {
    let mut looks = vec!["c0 d0".to_owned(); comparison.runs.len()];
    let others = comparison.ranking().into_iter().filter(|&run| run != comparison.baseline);
    for (rank, run) in others.enumerate() {
        looks[run] = format!("c{} d{}", 1 + rank % COLORS, rank / COLORS % DASHES);
    }
    looks
}
