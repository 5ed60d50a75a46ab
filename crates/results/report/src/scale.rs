//! Axes: from values to pixels, and where the ticks go.
//!
//! Ticks stand at 1, 2 or 5 times a power of ten, never at what happens to divide the range.
//! Logarithms are `libm`'s, so that a report is the same on every machine.

use crate::figures::{magnitude, power_of_ten};

/// Equal steps of value are equal steps of pixels.
#[derive(Clone, Copy)]
pub(crate) struct Linear {
    domain: (f64, f64),
    range: (f64, f64),
}

impl Linear {
    /// From `domain` (values) to `range` (pixels). An empty domain is widened, so that it can be
    /// divided by.
    pub(crate) fn new((low, high): (f64, f64), range: (f64, f64)) -> Self {
        let high = if high > low { high } else { low + 1.0 };
        Self { domain: (low, high), range }
    }

    /// Returns the pixel of `value`.
    pub(crate) fn at(&self, value: f64) -> f64 {
        let share = (value - self.domain.0) / (self.domain.1 - self.domain.0);
        self.range.0 + share * (self.range.1 - self.range.0)
    }

    /// At least three round values within the domain.
    pub(crate) fn three_ticks(&self) -> Vec<f64> {
        let ticks = [5, 8, 13].map(|target| self.ticks(target));
        ticks.into_iter().find(|ticks| ticks.len() >= 3).unwrap_or_else(|| self.ticks(21))
    }

    /// About `target` round values within the domain.
    pub(crate) fn ticks(&self, target: usize) -> Vec<f64> {
        let step = round_up((self.domain.1 - self.domain.0) / target as f64);
        let first = (self.domain.0 / step).ceil();
        let count = ((self.domain.1 / step).floor() - first) as usize;
        (0..=count).map(|index| (first + index as f64) * step).collect()
    }
}

/// The next of 1, 2, 5 × 10ⁿ.
fn round_up(step: f64) -> f64 {
    let power = power_of_ten(magnitude(step));
    [1.0, 2.0, 5.0, 10.0].into_iter().map(|digit| digit * power).find(|&round| round >= step).unwrap_or(step)
}

/// Equal ratios of values are equal steps of pixels.
#[derive(Clone, Copy)]
pub(crate) struct Log {
    domain: (f64, f64),
    range: (f64, f64),
}

/// A tick of a logarithmic axis.
pub(crate) struct LogTick {
    /// Its value.
    pub(crate) value: f64,
    /// True if there is room to name it.
    pub(crate) labelled: bool,
}

impl Log {
    /// From `domain` (values above zero) to `range` (pixels). A domain of less than a tenth is
    /// widened.
    pub(crate) fn new((low, high): (f64, f64), range: (f64, f64)) -> Self {
        assert!(low > 0.0 && high >= low, "a logarithmic axis from {low} to {high}");
        let domain = if high / low < 1.1 { (low / 1.05, high * 1.05) } else { (low, high) };
        Self { domain, range }
    }

    /// Returns the pixel of `value`, or of the end of the domain that it lies beyond.
    pub(crate) fn at(&self, value: f64) -> f64 {
        let value = value.clamp(self.domain.0, self.domain.1);
        let share = libm::log10(value / self.domain.0) / libm::log10(self.domain.1 / self.domain.0);
        self.range.0 + share * (self.range.1 - self.range.0)
    }

    /// All of 1…9 × 10ⁿ within the domain; named are powers of ten, and 2 and 5 times them where
    /// names stay `spacing` pixels apart.
    pub(crate) fn ticks(&self, spacing: f64) -> Vec<LogTick> {
        let decades = libm::log10(self.domain.1 / self.domain.0);
        let decade_px = (self.range.1 - self.range.0).abs() / decades;
        // The narrowest gap among 1, 2, 5, 10 is that of a factor of two: 0.3 of a decade.
        let all_named = decade_px * 0.3 >= spacing;
        let every = (spacing / decade_px).ceil().max(1.0) as i32;
        let (first, last) = (magnitude(self.domain.0), magnitude(self.domain.1));
        let mut ticks = Vec::new();
        for power in first..=last {
            for digit in 1..=9 {
                let value = f64::from(digit) * power_of_ten(power);
                if value >= self.domain.0 && value <= self.domain.1 {
                    let labelled = match digit {
                        1 => power.rem_euclid(every) == 0,
                        2 | 5 => all_named,
                        _ => false,
                    };
                    ticks.push(LogTick { value, labelled });
                }
            }
        }
        ticks
    }
}

impl Log {
    /// At least three values to name, `spacing` pixels apart where the domain has that many: powers
    /// of ten, then 2 and 5 times them, then the other digits, then whatever is round.
    pub(crate) fn three_ticks(&self, spacing: f64) -> Vec<f64> {
        self.round_ticks(spacing, None)
    }

    /// The same with one more digit, tried last.
    pub(crate) fn round_ticks(&self, spacing: f64, more: Option<f64>) -> Vec<f64> {
        let named: Vec<f64> =
            self.ticks(spacing).into_iter().filter(|tick| tick.labelled).map(|tick| tick.value).collect();
        if named.len() >= 3 {
            return named;
        }
        let fits = |chosen: &[f64], value: f64| {
            chosen.iter().all(|&other| (self.at(other) - self.at(value)).abs() >= spacing)
        };
        let mut chosen = named;
        for digit in [1.0, 5.0, 2.0, 3.0, 7.0, 4.0, 6.0, 8.0, 9.0, 1.5].into_iter().chain(more) {
            for power in magnitude(self.domain.0)..=magnitude(self.domain.1) {
                let value = digit * power_of_ten(power);
                let is_inside = value >= self.domain.0 && value <= self.domain.1;
                if is_inside && fits(&chosen, value) {
                    chosen.push(value);
                }
            }
        }
        if chosen.len() < 3 {
            chosen = Linear { domain: self.domain, range: self.range }.three_ticks();
        }
        chosen.sort_by(f64::total_cmp);
        chosen
    }
}

/// A span of time in the unit that its ticks are named in.
pub(crate) struct TimeUnit {
    /// One unit, in seconds.
    pub(crate) seconds: f64,
    /// Its name.
    pub(crate) name: &'static str,
}

impl TimeUnit {
    /// The unit for an axis of so many seconds.
    pub(crate) fn of(span_s: f64) -> Self {
        let units = [
            (7_200.0, 3_600.0, "h"),
            (600.0, 60.0, "min"),
            (2.0, 1.0, "s"),
            (2e-3, 1e-3, "ms"),
            (2e-6, 1e-6, "µs"),
        ];
        let (_, seconds, name) =
            units.into_iter().find(|(from, ..)| span_s >= *from).unwrap_or((0.0, 1e-9, "ns"));
        Self { seconds, name }
    }
}

/// A tick's number without trailing zeros.
pub(crate) fn tick(value: f64) -> String {
    let text = format!("{value:.6}");
    let text = text.trim_end_matches('0').trim_end_matches('.');
    if text == "-0" { "0".to_owned() } else { text.to_owned() }
}

/// A tick of an axis of times: `0 s`, `10 ms`, `1 s`, `1000 s`.
pub(crate) fn time_tick(seconds: f64) -> String {
    // Nothing is as little in any unit; that of `figures::time` is the one that it stands beside.
    if seconds <= 0.0 {
        return "0 s".to_owned();
    }
    let units = [(1.0, "s"), (1e-3, "ms"), (1e-6, "µs")];
    let (size, unit) = units.into_iter().find(|(size, _)| seconds >= size * 0.999).unwrap_or((1e-9, "ns"));
    format!("{} {unit}", tick(seconds / size))
}

/// A tick of an axis of bytes: `500 B`, `10 KB`, `1 GB`; decimal prefixes.
pub(crate) fn bytes_tick(bytes: f64) -> String {
    let units = [(1e12, "TB"), (1e9, "GB"), (1e6, "MB"), (1e3, "KB")];
    let (size, unit) = units.into_iter().find(|(size, _)| bytes >= size * 0.999).unwrap_or((1.0, "B"));
    format!("{} {unit}", tick(bytes / size))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn linear_ticks_are_round_and_inside() {
        assert_eq!(Linear::new((0.0, 61.6), (0.0, 300.0)).ticks(4), [0.0, 20.0, 40.0, 60.0]);
        assert_eq!(Linear::new((0.0, 0.0), (0.0, 1.0)).ticks(2), [0.0, 0.5, 1.0]);
        let scale = Linear::new((0.0, 10.0), (100.0, 0.0));
        assert_eq!((scale.at(0.0), scale.at(10.0)), (100.0, 0.0));
    }

    #[test]
    fn ticks_have_the_unit_that_fits_and_the_foot_of_an_axis_of_times_is_in_seconds() {
        assert_eq!([500.0, 1e3, 2e10].map(bytes_tick), ["500 B", "1 KB", "20 GB"]);
        assert_eq!([0.0, 1e-9, 2e-3, 1.0].map(time_tick), ["0 s", "1 ns", "2 ms", "1 s"]);
    }

    #[test]
    fn log_ticks_are_named_where_there_is_room() {
        let named = |range: f64| -> Vec<String> {
            let ticks = Log::new((0.008, 25.0), (0.0, range)).ticks(40.0);
            ticks.iter().filter(|tick| tick.labelled).map(|tick| time_tick(tick.value)).collect()
        };
        assert_eq!(named(200.0), ["10 ms", "100 ms", "1 s", "10 s"]);
        assert_eq!(named(100.0), ["10 ms", "1 s"]);
        assert_eq!(named(700.0).len(), 11, "with 2 and 5");
    }

    #[test]
    fn every_axis_has_three_names_however_short_it_is() {
        for domain in [(0.97, 1.04), (0.6, 1.2), (0.9, 3.1), (1.0, 1.1), (0.02, 1.1), (4.0, 4.1)] {
            let named = Log::new(domain, (200.0, 0.0)).three_ticks(18.0);
            assert!(named.len() >= 3, "{domain:?}: {named:?}");
        }
        for domain in [(-60.0, 48.0), (0.0, 7.0), (0.0, 2.1), (-0.3, 0.2)] {
            let named = Linear::new(domain, (200.0, 0.0)).three_ticks();
            assert!((3..=9).contains(&named.len()), "{domain:?}: {named:?}");
        }
    }

    #[test]
    fn a_point_domain_still_has_a_scale() {
        let scale = Log::new((2.0, 2.0), (0.0, 10.0));
        assert!((scale.at(2.0) - 5.0).abs() < 0.1);
        assert_eq!(scale.at(1e9), 10.0);
    }
}
