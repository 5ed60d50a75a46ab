//! Quantities from and to text. Numbers are read exactly: `1.5MB` is 1,500,000 bytes, and a value
//! that is not a whole number of the base unit is refused rather than rounded.

use core::fmt;
use core::str::FromStr;

use crate::{BitsPerSec, Bytes, Instant, Nanos};

/// Reason that a text is not a quantity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UnitError {
    /// No digits at the start.
    NoNumber,
    /// The unit is not one of those listed.
    UnknownUnit {
        /// Forms that are understood.
        expected: &'static str,
    },
    /// The value has a fraction of the base unit (half a byte).
    NotWhole,
    /// The value does not fit 64 bits.
    TooLarge,
}

impl fmt::Display for UnitError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            UnitError::NoNumber => f.write_str("expected a number, then a unit"),
            UnitError::UnknownUnit { expected } => write!(f, "unknown unit: expected one of {expected}"),
            UnitError::NotWhole => f.write_str("the value is not a whole number of the smallest unit"),
            UnitError::TooLarge => f.write_str("the value does not fit 64 bits"),
        }
    }
}

impl core::error::Error for UnitError {}

/// A type that is written as a number and a suffix.
pub(crate) trait Unit {
    /// Suffix and factor, largest factor first; [`write_exact`] prefers the earlier.
    const SUFFIXES: &'static [(&'static str, u64)];
    /// Further suffixes that are read but never written.
    const ALIASES: &'static [(&'static str, u64)];
    /// The suffixes, for a message.
    const EXPECTED: &'static str;
}

impl Unit for Bytes {
    const SUFFIXES: &'static [(&'static str, u64)] = &[
        ("TiB", 1 << 40),
        ("TB", 1_000_000_000_000),
        ("GiB", 1 << 30),
        ("GB", 1_000_000_000),
        ("MiB", 1 << 20),
        ("MB", 1_000_000),
        ("KiB", 1 << 10),
        ("KB", 1_000),
        ("B", 1),
    ];
    const ALIASES: &'static [(&'static str, u64)] = &[("kB", 1_000), ("", 1)];
    const EXPECTED: &'static str = "B, KB, MB, GB, TB, KiB, MiB, GiB, TiB";
}

impl Unit for BitsPerSec {
    const SUFFIXES: &'static [(&'static str, u64)] = &[
        ("Tbps", 1_000_000_000_000),
        ("Gbps", 1_000_000_000),
        ("Mbps", 1_000_000),
        ("Kbps", 1_000),
        ("bps", 1),
    ];
    const ALIASES: &'static [(&'static str, u64)] = &[("kbps", 1_000)];
    const EXPECTED: &'static str = "bps, Kbps, Mbps, Gbps, Tbps";
}

const TIME_SUFFIXES: &[(&str, u64)] = &[("s", 1_000_000_000), ("ms", 1_000_000), ("us", 1_000), ("ns", 1)];
const TIME_ALIASES: &[(&str, u64)] = &[("µs", 1_000), ("min", 60_000_000_000), ("h", 3_600_000_000_000)];
const TIME_EXPECTED: &str = "ns, us, ms, s, min, h";

impl Unit for Nanos {
    const SUFFIXES: &'static [(&'static str, u64)] = TIME_SUFFIXES;
    const ALIASES: &'static [(&'static str, u64)] = TIME_ALIASES;
    const EXPECTED: &'static str = TIME_EXPECTED;
}

impl Unit for Instant {
    const SUFFIXES: &'static [(&'static str, u64)] = TIME_SUFFIXES;
    const ALIASES: &'static [(&'static str, u64)] = TIME_ALIASES;
    const EXPECTED: &'static str = TIME_EXPECTED;
}

macro_rules! from_str {
    ($($name:ident),*) => {$(
        impl FromStr for $name {
            type Err = UnitError;
            fn from_str(text: &str) -> Result<Self, UnitError> {
                read::<Self>(text).map($name)
            }
        }
    )*};
}
from_str!(Bytes, BitsPerSec, Nanos, Instant);

/// Reads a decimal number with at most one point and a suffix of `U`, exactly.
fn read<U: Unit>(text: &str) -> Result<u64, UnitError> {
    let text = text.trim();
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.' && c != '_').unwrap_or(text.len());
    let (number, suffix) = (&text[..end], text[end..].trim_start());
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if !number.bytes().any(|b| b.is_ascii_digit()) || fraction.contains('.') {
        return Err(UnitError::NoNumber);
    }
    let factor = U::SUFFIXES
        .iter()
        .chain(U::ALIASES)
        .find(|(name, _)| *name == suffix)
        .map(|(_, factor)| *factor)
        .ok_or(UnitError::UnknownUnit { expected: U::EXPECTED })?;

    let mut value: u128 = 0;
    let mut scale: u128 = 1;
    for digit in whole.bytes().chain(fraction.bytes()).filter(u8::is_ascii_digit) {
        value = value
            .checked_mul(10)
            .and_then(|v| v.checked_add(u128::from(digit - b'0')))
            .ok_or(UnitError::TooLarge)?;
    }
    for _ in fraction.bytes().filter(u8::is_ascii_digit) {
        scale = scale.checked_mul(10).ok_or(UnitError::TooLarge)?;
    }
    let scaled = value.checked_mul(u128::from(factor)).ok_or(UnitError::TooLarge)?;
    if scaled % scale != 0 {
        return Err(UnitError::NotWhole);
    }
    u64::try_from(scaled / scale).map_err(|_| UnitError::TooLarge)
}

/// Writes `value` in the unit that takes the fewest digits and loses nothing; ties go to the larger
/// unit.
pub(crate) fn write_exact(
    f: &mut fmt::Formatter<'_>,
    value: u64,
    suffixes: &[(&'static str, u64)],
) -> fmt::Result {
    let smallest = suffixes[suffixes.len() - 1];
    let (suffix, factor) = suffixes
        .iter()
        .filter(|(_, factor)| value != 0 && value.is_multiple_of(*factor))
        .min_by_key(|(_, factor)| value / factor)
        .copied()
        .unwrap_or(smallest);
    f.pad(DigitsAndSuffix::format(value / factor, suffix).as_str())
}

/// A number and its suffix on the stack, so that padding works without an allocator.
struct DigitsAndSuffix {
    text: [u8; 32],
    len: usize,
}

impl DigitsAndSuffix {
    fn format(number: u64, suffix: &str) -> Self {
        use fmt::Write;
        let mut out = DigitsAndSuffix { text: [0; 32], len: 0 };
        write!(out, "{number}{suffix}").expect("twenty digits and a suffix fit 32 bytes");
        out
    }

    fn as_str(&self) -> &str {
        core::str::from_utf8(&self.text[..self.len]).expect("digits and suffixes are UTF-8")
    }
}

impl fmt::Write for DigitsAndSuffix {
    fn write_str(&mut self, s: &str) -> fmt::Result {
        let end = self.len + s.len();
        self.text.get_mut(self.len..end).ok_or(fmt::Error)?.copy_from_slice(s.as_bytes());
        self.len = end;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::string::{String, ToString};

    #[test]
    fn rates_are_decimal_and_sizes_know_both_prefixes() {
        assert_eq!("1Gbps".parse(), Ok(BitsPerSec(1_000_000_000)));
        assert_eq!("8388608bps".parse(), Ok(BitsPerSec(8_388_608)));
        assert_eq!("100 Mbps".parse(), Ok(BitsPerSec(100_000_000)));
        assert_eq!("10MB".parse(), Ok(Bytes(10_000_000)));
        assert_eq!("10MiB".parse(), Ok(Bytes(10_485_760)));
        assert_eq!("1.5KB".parse(), Ok(Bytes(1500)));
        assert_eq!("10ms".parse(), Ok(Nanos(10_000_000)));
    }

    #[test]
    fn what_is_not_exact_or_not_a_quantity_is_refused() {
        assert_eq!("0.5B".parse::<Bytes>(), Err(UnitError::NotWhole));
        assert_eq!("MB".parse::<Bytes>(), Err(UnitError::NoNumber));
        assert_eq!("-1MB".parse::<Bytes>(), Err(UnitError::NoNumber));
        assert_eq!("NaN".parse::<Bytes>(), Err(UnitError::NoNumber));
        assert_eq!("1.2.3MB".parse::<Bytes>(), Err(UnitError::NoNumber));
        assert_eq!("99999999999TB".parse::<Bytes>(), Err(UnitError::TooLarge));
        assert!(matches!("5 parsecs".parse::<Nanos>(), Err(UnitError::UnknownUnit { .. })));
        assert!(matches!("5".parse::<Nanos>(), Err(UnitError::UnknownUnit { .. })));
    }

    #[test]
    fn time_rounds_up_and_bytes_round_down() {
        assert_eq!(Bytes(1).time_at(BitsPerSec(3)), Some(Nanos(2_666_666_667)));
        assert_eq!(BitsPerSec(3).bytes_in(Nanos(2_666_666_666)), Bytes(0));
        assert_eq!(Bytes(1).time_at(BitsPerSec(0)), None);
    }

    proptest! {
        #[test]
        fn text_round_trips(value: u64) {
            prop_assert_eq!(Bytes(value).to_string().parse(), Ok(Bytes(value)));
            prop_assert_eq!(BitsPerSec(value).to_string().parse(), Ok(BitsPerSec(value)));
            prop_assert_eq!(Nanos(value).to_string().parse(), Ok(Nanos(value)));
        }

        #[test]
        fn reading_never_panics(text: String) {
            let _ = text.parse::<Bytes>();
            let _ = text.parse::<Nanos>();
        }
    }
}
