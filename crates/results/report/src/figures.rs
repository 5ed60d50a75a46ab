//! Numbers as people read them: three significant digits, a unit, and one unit for a whole column.
//!
//! A column whose cells have units of their own (`940 ms` above `2.1 s`) cannot be compared at a
//! glance, so [`times`] gives all cells the unit of the largest and the decimals of the smallest.
//! Only where that would hide the smallest does each cell get its own unit.
//!
//! Everything here is a pure function of the number: no locale, no platform logarithm.

use cavalcade_model::{BitsPerSec, Bytes, Nanos};

const TIME_UNITS: [(f64, &str); 4] = [(1.0, "s"), (1e-3, "ms"), (1e-6, "µs"), (1e-9, "ns")];

/// The power of ten at or below `value`: 2 for 150, −1 for 0.15. The value is above zero.
pub(crate) fn magnitude(value: f64) -> i32 {
    libm::floor(libm::log10(value)) as i32
}

/// Ten to the power of `exponent`, correctly rounded, which repeated multiplication is not.
pub(crate) fn power_of_ten(exponent: i32) -> f64 {
    format!("1e{exponent}").parse().expect("a power of ten is a number")
}

/// The largest unit of time of which `seconds` is at least one.
fn time_unit(seconds: f64) -> (f64, &'static str) {
    // A hair below one unit is one unit after rounding to three digits.
    *TIME_UNITS.iter().find(|(size, _)| seconds >= size * 0.9995).unwrap_or(&TIME_UNITS[3])
}

/// Decimals that leave three significant digits of `value`, at most `most`.
fn decimals(value: f64, most: i32) -> usize {
    if value <= 0.0 { 0 } else { (2 - magnitude(value)).clamp(0, most) as usize }
}

/// One time: `21.9 s`, `940 ms`, `0 s`.
pub fn time(seconds: f64) -> String {
    if seconds <= 0.0 {
        return "0 s".to_owned();
    }
    let (size, unit) = time_unit(seconds);
    let value = seconds / size;
    format!("{:.*} {unit}", decimals(value, 2), value)
}

/// A time of which more can be said but not less, to five significant digits: `21.634 s`, never
/// rounded up.
pub fn time_rounded_down(time: Nanos) -> String {
    let units = [(1_000_000_000, "s"), (1_000_000, "ms"), (1_000, "µs"), (1, "ns")];
    let (size, unit) = *units.iter().find(|(size, _)| time.get() >= *size).unwrap_or(&units[0]);
    let (whole, rest) = (time.get() / size, time.get() % size);
    let decimals = 5usize.saturating_sub(whole.to_string().len()).min(3);
    if rest == 0 || decimals == 0 {
        return format!("{whole} {unit}");
    }
    // The remainder has fewer digits than the unit has zeros.
    let zeros = size.ilog10() as usize;
    format!("{whole}.{} {unit}", &format!("{rest:0zeros$}")[..decimals])
}

/// By how much a figure is above a bound on it, as a share: `1.4 %`, never rounded down.
pub(crate) fn gap(share: f64) -> String {
    let percent = share * 100.0;
    let scale = if percent < 10.0 { 10.0 } else { 1.0 };
    // Times are whole nanoseconds: a millionth above the bound is rounding.
    let shown = libm::ceil(percent * scale - 1e-4 * scale).max(0.0) / scale;
    format!("{shown:.*} %", if percent < 10.0 { 1 } else { 0 })
}

/// A column of times: one unit and one number of decimals where that leaves the smallest two
/// digits.
pub fn times(seconds: &[f64]) -> Vec<String> {
    let largest = seconds.iter().copied().fold(0.0, f64::max);
    let smallest = seconds.iter().copied().filter(|&s| s > 0.0).fold(f64::INFINITY, f64::min);
    let (size, unit) = time_unit(largest);
    if !smallest.is_finite() || smallest / size < 0.01 {
        return seconds.iter().map(|&s| time(s)).collect();
    }
    let (large, small) = (magnitude(largest / size), magnitude(smallest / size));
    // Three digits of the smallest, unless that gives the largest more than four; never less than
    // two of the smallest.
    let decimals = (2 - small).min(3 - large).max(1 - small).clamp(0, 3) as usize;
    seconds.iter().map(|s| format!("{:.*} {unit}", decimals, s / size)).collect()
}

/// A number of about three significant digits: `2.69`, `12.3`, `340`, `0.012`.
pub(crate) fn number(value: f64) -> String {
    if value <= 0.0 {
        return "0".to_owned();
    }
    let decimals = if value < 0.1 { 1 - magnitude(value) } else { (2 - magnitude(value)).clamp(0, 2) };
    format!("{:.*}", decimals.clamp(0, 6) as usize, value)
}

/// A factor: `2.69×`.
pub fn factor(value: f64) -> String {
    format!("{}×", number(value))
}

/// A factor in a sentence, with one digit less: `2.7×`.
pub(crate) fn short_factor(value: f64) -> String {
    let decimals = if value >= 10.0 {
        0
    } else if value >= 1.0 {
        1
    } else {
        2
    };
    format!("{value:.decimals$}×")
}

/// A share of the whole: `99 %`, `0.01 %`, `< 0.01 %`.
pub fn percent(part: f64, whole: f64) -> String {
    let value = if whole > 0.0 { part / whole * 100.0 } else { 0.0 };
    if value > 0.0 && value < 0.01 {
        return "< 0.01 %".to_owned();
    }
    let decimals = if value >= 10.0 || value == 0.0 {
        0
    } else if value >= 1.0 {
        1
    } else {
        2
    };
    format!("{value:.decimals$} %")
}

/// Bytes: `37.3 TB`, decimal prefixes.
pub(crate) fn bytes(bytes: Bytes) -> String {
    let units = [(1e12, "TB"), (1e9, "GB"), (1e6, "MB"), (1e3, "KB")];
    let value = bytes.as_f64();
    match units.iter().find(|(size, _)| value >= *size) {
        Some((size, unit)) => format!("{:.*} {unit}", decimals(value / size, 2), value / size),
        None => format!("{} B", bytes.get()),
    }
}

/// The rate of the links: `1Gbps`, or `1Gbps to 10Gbps`.
pub(crate) fn rates(slowest_bps: u64, fastest_bps: u64) -> String {
    if slowest_bps == fastest_bps {
        BitsPerSec(slowest_bps).to_string()
    } else {
        format!("{} to {}", BitsPerSec(slowest_bps), BitsPerSec(fastest_bps))
    }
}

/// A rate in a sentence: `1.1 Gbps`.
pub(crate) fn rate(rate: BitsPerSec) -> String {
    let units = [(1e12, "Tbps"), (1e9, "Gbps"), (1e6, "Mbps"), (1e3, "Kbps")];
    let value = rate.as_f64();
    let (size, unit) = units.into_iter().find(|(size, _)| value >= *size).unwrap_or((1.0, "bps"));
    format!("{} {unit}", crate::scale::tick(value / size))
}

/// A count in groups of three digits: `706,397`.
pub(crate) fn count(value: usize) -> String {
    let digits = value.to_string();
    let mut out = String::with_capacity(digits.len() + digits.len() / 3);
    for (position, digit) in digits.chars().enumerate() {
        if position > 0 && (digits.len() - position).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// Formats a number of things: `1 coflow`, `526 coflows`.
pub fn counted(value: usize, noun: &str) -> String {
    format!("{} {noun}{}", count(value), if value == 1 { "" } else { "s" })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_three_digits_and_the_unit_that_fits() {
        let shown: Vec<String> = [21.9376, 0.94, 0.0012345, 3695.2, 0.0, 0.99999, 45e-9].map(time).to_vec();
        assert_eq!(shown, ["21.9 s", "940 ms", "1.23 ms", "3695 s", "0 s", "1.00 s", "45.0 ns"]);
    }

    #[test]
    fn a_column_shares_its_unit_unless_that_hides_the_smallest() {
        assert_eq!(times(&[2.1, 0.94, 0.0]), ["2.100 s", "0.940 s", "0.000 s"]);
        assert_eq!(times(&[58.8, 21.94]), ["58.8 s", "21.9 s"]);
        assert_eq!(times(&[314.27, 2.63]), ["314.3 s", "2.6 s"]);
        assert_eq!(times(&[58.8, 0.001]), ["58.8 s", "1.00 ms"]);
        assert_eq!(times(&[0.0]), ["0 s"]);
    }

    #[test]
    fn bounds_are_never_overstated() {
        let shown =
            [21_634_999_999, 999_999_999, 1_000_000_000, 123_456_789_000, 5_000, 17, 0, 1_000_000_001];
        assert_eq!(
            shown.map(|nanos| time_rounded_down(Nanos(nanos))),
            ["21.634 s", "999.99 ms", "1 s", "123.45 s", "5 µs", "17 ns", "0 s", "1.000 s"]
        );
        assert_eq!(
            [0.0, 1e-8, 0.014, 0.01401, 0.0996, 0.1001, 1.72].map(gap),
            ["0.0 %", "0.0 %", "1.4 %", "1.5 %", "10.0 %", "11 %", "172 %"]
        );
    }

    #[test]
    fn rates_are_short() {
        let shown = [1_100_000_000, 100_000_000, 999, 25_000_000_000].map(|bps| rate(BitsPerSec(bps)));
        assert_eq!(shown, ["1.1 Gbps", "100 Mbps", "999 bps", "25 Gbps"]);
    }

    #[test]
    fn numbers_and_counts_are_short() {
        assert_eq!(
            [2.688, 12.34, 340.4, 0.0123, 1.0].map(factor),
            ["2.69×", "12.3×", "340×", "0.012×", "1.00×"]
        );
        assert_eq!([2.688, 12.34, 0.5].map(short_factor), ["2.7×", "12×", "0.50×"]);
        assert_eq!([0, 526, 706_397, 1_000_000].map(count), ["0", "526", "706,397", "1,000,000"]);
        assert_eq!(bytes(Bytes(37_300_000_000_000)), "37.3 TB");
        assert_eq!(percent(0.01, 100.0), "0.01 %");
        assert_eq!(percent(0.001, 100.0), "< 0.01 %");
        assert_eq!((counted(1, "port"), counted(2, "port")), ("1 port".into(), "2 ports".into()));
    }
}
