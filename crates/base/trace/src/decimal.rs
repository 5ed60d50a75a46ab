//! Decimal numbers read and written exactly: `0.1` is a tenth, not the nearest binary fraction.
//!
//! Megabytes of 2²⁰ bytes have at most twenty decimal places for a whole number of bytes, so every
//! size can be written and read back. Exponents (`1.2E7`) are understood because Java writes them.

use core::fmt;

/// `digits` × 10^`exponent`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Decimal {
    digits: u128,
    exponent: i32,
}

impl Decimal {
    /// Reads digits, at most one point, and an optional exponent; no sign. `None` for anything
    /// else, and for what has more digits than can be kept.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let (mantissa, exponent) = match text.bytes().position(|byte| matches!(byte, b'e' | b'E')) {
            Some(at) => (&text[..at], exponent(&text[at + 1..])?),
            None => (text, 0),
        };
        let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
        if whole.len() + fraction.len() == 0 {
            return None;
        }
        let fraction = fraction.trim_end_matches('0');
        let digits = append_digits(append_digits(0, whole)?, fraction)?;
        Some(Self { digits, exponent: exponent.checked_sub(i32::try_from(fraction.len()).ok()?)? })
    }

    pub(crate) fn is_zero(self) -> bool {
        self.digits == 0
    }

    /// This times `factor`, if it is a whole number that fits.
    pub(crate) fn times_exactly(self, factor: u64) -> Option<u64> {
        let (numerator, denominator) = self.ratio(factor, 1)?;
        if numerator % denominator == 0 { u64::try_from(numerator / denominator).ok() } else { None }
    }

    /// This times `factor` over `parts`, to the nearest whole number (halves up), if that fits.
    pub(crate) fn times_over(self, factor: u64, parts: u64) -> Option<u64> {
        let (numerator, denominator) = self.ratio(factor, parts)?;
        u64::try_from(numerator.checked_add(denominator / 2)? / denominator).ok()
    }

    fn ratio(self, mut factor: u64, parts: u64) -> Option<(u128, u128)> {
        if self.exponent >= 0 {
            let power = 10u128.checked_pow(self.exponent.unsigned_abs())?;
            return Some((self.digits.checked_mul(power)?.checked_mul(factor.into())?, parts.into()));
        }
        // Cancelling first keeps twenty decimal places inside 128 bits.
        let (mut twos, mut fives) = (self.exponent.unsigned_abs(), self.exponent.unsigned_abs());
        while twos > 0 && factor.is_multiple_of(2) {
            (factor, twos) = (factor / 2, twos - 1);
        }
        while fives > 0 && factor.is_multiple_of(5) {
            (factor, fives) = (factor / 5, fives - 1);
        }
        let denominator =
            2u128.checked_pow(twos)?.checked_mul(5u128.checked_pow(fives)?)?.checked_mul(parts.into())?;
        Some((self.digits.checked_mul(factor.into())?, denominator))
    }
}

fn append_digits(number: u128, text: &str) -> Option<u128> {
    text.bytes().try_fold(number, |sum, byte| {
        byte.is_ascii_digit().then_some(())?;
        sum.checked_mul(10)?.checked_add(u128::from(byte - b'0'))
    })
}

fn exponent(text: &str) -> Option<i32> {
    let digits = text.strip_prefix(['+', '-']).unwrap_or(text);
    let plain = (1..=4).contains(&digits.len()) && digits.bytes().all(|byte| byte.is_ascii_digit());
    if plain { text.parse().ok() } else { None }
}

/// A number of bytes as MB of 2²⁰, exactly; at least `places` decimal places.
pub(crate) struct Megabytes {
    pub(crate) bytes: u128,
    pub(crate) places: usize,
}

impl fmt::Display for Megabytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let fraction = (self.bytes & ((1 << 20) - 1)) * 5u128.pow(20);
        write_decimal(f, self.bytes >> 20, fraction, 20, self.places)
    }
}

/// A number of nanoseconds as milliseconds, exactly.
pub(crate) struct Millis(pub(crate) u64);

impl fmt::Display for Millis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_decimal(f, u128::from(self.0 / 1_000_000), u128::from(self.0 % 1_000_000), 6, 0)
    }
}

/// Writes `whole` and `fraction` of `scale` places, without trailing zeros beyond `places`.
fn write_decimal(
    f: &mut fmt::Formatter<'_>,
    whole: u128,
    mut fraction: u128,
    mut scale: usize,
    places: usize,
) -> fmt::Result {
    while scale > places && fraction.is_multiple_of(10) {
        (fraction, scale) = (fraction / 10, scale - 1);
    }
    if scale == 0 { write!(f, "{whole}") } else { write!(f, "{whole}.{fraction:0scale$}") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn bytes(text: &str) -> Option<u64> {
        Decimal::parse(text)?.times_over(1 << 20, 1)
    }

    #[test]
    fn megabytes_are_read_exactly() {
        assert_eq!(bytes("1.0"), Some(1 << 20));
        assert_eq!(bytes("0.5"), Some(1 << 19));
        assert_eq!(bytes(".5"), Some(1 << 19));
        assert_eq!(bytes("3."), Some(3 << 20));
        assert_eq!(bytes("1.25E2"), Some(125 << 20));
        assert_eq!(bytes("125e-1"), Some(25 << 19));
        assert_eq!(bytes("0.00000095367431640625"), Some(1));
        assert_eq!(Decimal::parse("10").and_then(|mb| mb.times_over(1 << 20, 3)), Some(3_495_253));
    }

    #[test]
    fn what_is_no_plain_decimal_is_refused() {
        for text in
            ["", ".", "-1", "+1", "1.2.3", "NaN", "inf", "1e", "1e99999", "1e+-5", "0x10", "1_000", "１"]
        {
            assert_eq!(Decimal::parse(text), None, "{text}");
        }
        assert_eq!(bytes("1e300"), None);
        assert_eq!(bytes("1e-300"), None);
    }

    proptest! {
        #[test]
        fn every_size_and_time_round_trips(value in any::<u64>().prop_map(|value| value >> 1), parts in 1u64..1000) {
            let text = Megabytes { bytes: u128::from(value / parts) * u128::from(parts), places: 1 }.to_string();
            prop_assert_eq!(Decimal::parse(&text).and_then(|mb| mb.times_over(1 << 20, parts)), Some(value / parts));
            let text = Millis(value).to_string();
            prop_assert_eq!(Decimal::parse(&text).and_then(|ms| ms.times_exactly(1_000_000)), Some(value));
        }

        #[test]
        fn reading_never_panics(text in "[0-9.eE+-]{0,60}") {
            let _ = Decimal::parse(&text).map(|number| (number.times_exactly(1_000_000), number.times_over(1 << 20, 7)));
        }
    }
}
