//! Percentiles by nearest rank: the smallest value that at least so many per cent of all values do
//! not exceed.
//!
//! It is always a value that occurred, needs no interpolation rule, and is what the issue fixes for
//! every output. A [`Percent`] is held in thousandths, so that the rank is an exact product of
//! integers; computed as `(0.95 * n).ceil()` it is off by one wherever the product rounds up past a
//! whole number.

use core::fmt;
use core::str::FromStr;

/// A percentage above 0 and up to 100, exact to a thousandth.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Percent {
    thousandths: u32,
}

/// A text that is no [`Percent`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("expected a percentage above 0 and up to 100 with at most three decimals, as in 99 or 99.9")]
pub struct NotAPercent;

impl Percent {
    const WHOLE: u32 = 100_000;
    /// The 5th percentile.
    pub const P5: Self = Self::whole(5);
    /// The median.
    pub const P50: Self = Self::whole(50);
    /// The 95th percentile.
    pub const P95: Self = Self::whole(95);
    /// The 99th percentile.
    pub const P99: Self = Self::whole(99);

    /// A whole percentage.
    ///
    /// # Panics
    /// If `percent` is 0 or above 100.
    pub const fn whole(percent: u32) -> Self {
        assert!(percent >= 1 && percent <= 100, "a percentage is from 1 to 100");
        Self { thousandths: percent * 1_000 }
    }

    /// The nearest rank among `count` values, from 1; 0 where there are none.
    pub const fn rank(self, count: usize) -> usize {
        (count as u128 * self.thousandths as u128).div_ceil(Self::WHOLE as u128) as usize
    }
}

impl fmt::Display for Percent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (whole, fraction) = (self.thousandths / 1_000, self.thousandths % 1_000);
        if fraction == 0 {
            return write!(f, "{whole}");
        }
        let digits = format!("{fraction:03}");
        write!(f, "{whole}.{}", digits.trim_end_matches('0'))
    }
}

impl FromStr for Percent {
    type Err = NotAPercent;

    fn from_str(text: &str) -> Result<Self, NotAPercent> {
        let (whole, fraction) = text.split_once('.').unwrap_or((text, "0"));
        let digits = |part: &str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit());
        if !digits(whole) || !digits(fraction) || whole.len() > 3 || fraction.len() > 3 {
            return Err(NotAPercent);
        }
        let thousandths: u32 = format!("{whole}{fraction:0<3}").parse().map_err(|_| NotAPercent)?;
        if (1..=Self::WHOLE).contains(&thousandths) { Ok(Self { thousandths }) } else { Err(NotAPercent) }
    }
}

/// The percentile of values that are in ascending order; `None` where there are none.
pub fn percentile<T: Copy>(ascending: &[T], percent: Percent) -> Option<T> {
    let rank = percent.rank(ascending.len());
    rank.checked_sub(1).map(|index| ascending[index])
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_rank_is_exact_where_floating_point_is_not() {
        assert_eq!(Percent::P95.rank(20), 19);
        assert_eq!("7".parse::<Percent>().unwrap().rank(100), 7, "0.07 * 100.0 is 7.000000000000001");
        assert_eq!("99.9".parse::<Percent>().unwrap().rank(1000), 999);
        assert_eq!(percentile::<u8>(&[], Percent::P50), None);
        assert_eq!(percentile(&[3], Percent::P5), Some(3));
    }

    #[test]
    fn what_is_no_percentage_is_refused() {
        for text in ["", "0", "0.000", "100.001", "101", "-1", "1.", ".5", "99.9999", "9e1", "１"] {
            assert_eq!(text.parse::<Percent>(), Err(NotAPercent), "{text}");
        }
    }

    /// The definition, word for word.
    fn slowly(values: &[u16], thousandths: u32) -> Option<u16> {
        let enough = |candidate: u16| {
            let below = values.iter().filter(|&&value| value <= candidate).count() as u64;
            below * 100_000 >= values.len() as u64 * u64::from(thousandths)
        };
        values.iter().copied().filter(|&candidate| enough(candidate)).min()
    }

    proptest! {
        #[test]
        fn nearest_rank_is_the_smallest_value_that_enough_do_not_exceed(
            mut values in proptest::collection::vec(0u16..50, 0..60),
            thousandths in 1u32..=100_000,
        ) {
            let slow = slowly(&values, thousandths);
            values.sort_unstable();
            prop_assert_eq!(percentile(&values, Percent { thousandths }), slow);
        }

        #[test]
        fn text_round_trips(thousandths in 1u32..=100_000) {
            let percent = Percent { thousandths };
            prop_assert_eq!(percent.to_string().parse(), Ok(percent));
        }
    }
}
