//! Distributions given by their quantiles, and draws from them that are spread evenly.
//!
//! Job sizes are heavy-tailed: of a few dozen wide coflows the largest has a quarter of the bytes,
//! and with independent draws the total differs by a factor of several from seed to seed. A Latin
//! hypercube (McKay 1979) takes one draw from each of n equal slices of the distribution instead,
//! in random order, so that every workload has its small, middle and giant coflows. Several
//! quantities of one coflow are tied by a common factor before they are ranked (a Gaussian copula),
//! because big jobs are big in all directions.

use super::random::Random;

/// Values at equally spaced probabilities from 0 to 1, all above 0; between them, straight lines on
/// a log axis.
#[derive(Clone, Copy)]
pub(super) struct Quantiles(pub(super) &'static [f64]);

impl Quantiles {
    /// The value at probability `at`, from 0 to 1.
    pub(super) fn at(self, at: f64) -> f64 {
        let place = at * (self.0.len() - 1) as f64;
        let below = (place as usize).min(self.0.len() - 1);
        let above = (below + 1).min(self.0.len() - 1);
        let (low, high) = (self.0[below], self.0[above]);
        low * libm::pow(high / low, place - below as f64)
    }
}

/// For each of `count` coflows, `N` probabilities to look up quantiles at: each column has one in
/// every slice of 1/`count`, and columns are tied with correlation `tie`² between any two.
pub(super) fn even_draws<const N: usize>(random: &mut Random, count: usize, tie: f64) -> Vec<[f64; N]> {
    let common: Vec<f64> = (0..count).map(|_| random.normal()).collect();
    let own = (1.0 - tie * tie).sqrt();
    let mut column = || {
        let mut ranked: Vec<(f64, usize)> =
            common.iter().map(|factor| tie * factor + own * random.normal()).zip(0..).collect();
        ranked.sort_by(|a, b| a.0.total_cmp(&b.0));
        let mut column = vec![0.0; count];
        for (rank, (_, index)) in ranked.into_iter().enumerate() {
            column[index] = (rank as f64 + random.unit()) / count as f64;
        }
        column
    };
    let columns: [Vec<f64>; N] = core::array::from_fn(|_| column());
    (0..count).map(|index| core::array::from_fn(|which| columns[which][index])).collect()
}

/// Splits `count` by shares: whole numbers that sum to `count`, each within one of its exact share
/// (largest remainders, the first of equals).
pub(super) fn apportion(count: u32, shares: &[f64]) -> Vec<u32> {
    let total: f64 = shares.iter().sum();
    let exact: Vec<f64> = shares.iter().map(|share| f64::from(count) * share / total).collect();
    let mut whole: Vec<u32> = exact.iter().map(|share| *share as u32).collect();
    let mut order: Vec<usize> = (0..shares.len()).filter(|&index| shares[index] > 0.0).collect();
    order.sort_by(|&a, &b| exact[b].fract().total_cmp(&exact[a].fract()));
    let missing = count.saturating_sub(whole.iter().sum());
    for &index in order.iter().cycle().take(missing as usize) {
        whole[index] += 1;
    }
    whole
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::generate::random::Purpose;

    #[test]
    fn quantiles_meet_their_values_and_run_straight_on_a_log_axis() {
        let quantiles = Quantiles(&[1.0, 100.0, 100.0]);
        assert_eq!([0.0, 0.5, 0.75, 1.0].map(|at| quantiles.at(at)), [1.0, 100.0, 100.0, 100.0]);
        assert!((quantiles.at(0.25) - 10.0).abs() < 1e-9);
    }

    #[test]
    fn draws_have_one_in_each_slice_and_are_tied() {
        let draws = even_draws::<2>(&mut Random::new(1, Purpose::Shapes), 400, 0.9);
        for column in 0..2 {
            let mut slices: Vec<usize> = draws.iter().map(|row| (row[column] * 400.0) as usize).collect();
            slices.sort_unstable();
            assert_eq!(slices, (0..400).collect::<Vec<_>>());
        }
        let correlation = draws.iter().map(|[a, b]| 12.0 * (a - 0.5) * (b - 0.5)).sum::<f64>() / 400.0;
        assert!((0.7..0.9).contains(&correlation), "{correlation}");
    }

    #[test]
    fn apportioned_shares_sum_to_the_whole() {
        assert_eq!(apportion(100, &[52.0, 16.0, 15.0, 17.0]), [52, 16, 15, 17]);
        assert_eq!(apportion(1, &[52.0, 16.0, 15.0, 17.0]), [1, 0, 0, 0]);
        assert_eq!(apportion(7, &[0.0, 1.0, 0.0, 1.0]), [0, 4, 0, 3]);
    }
}
