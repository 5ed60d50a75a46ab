//! Points in time between nanoseconds.

use core::ops::Add;

use crate::{Instant, Nanos};

/// A point in time between two nanoseconds: a whole number of them, and a fraction of the next. So
/// it is resolved equally well however far from zero it is, which a floating-point number of
/// nanoseconds is not.
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd, Default)]
pub struct FineInstant {
    whole: Instant,
    /// At least zero, and below one.
    fraction: f64,
}

impl FineInstant {
    /// The point `offset` nanoseconds after `base`: at `base` where it is negative, and at the end
    /// of time where it does not fit.
    pub fn new(base: Instant, offset: f64) -> Self {
        let whole = offset as u64;
        // Rounding makes no fraction a whole: the difference of two floating-point numbers this
        // close is exact.
        let fraction = if offset < u64::MAX as f64 { (offset - whole as f64).max(0.0) } else { 0.0 };
        Self { whole: Instant(base.0.saturating_add(whole)), fraction }
    }

    /// The whole nanoseconds.
    pub const fn whole(self) -> Instant {
        self.whole
    }

    /// The rest, at least zero and below one.
    pub const fn fraction(self) -> f64 {
        self.fraction
    }

    /// The same point where zero lies at `origin`; `None` where it is earlier.
    pub fn after(self, origin: Instant) -> Option<Self> {
        let whole = Instant(self.whole.0.checked_sub(origin.0)?);
        Some(Self { whole, ..self })
    }

    /// The nanoseconds from zero to here.
    pub fn as_f64(self) -> f64 {
        self.since(Self::default())
    }

    /// The nanoseconds from `earlier` to here; negative where that is later.
    pub fn since(self, earlier: Self) -> f64 {
        let whole = self.whole.since(earlier.whole).as_f64() - earlier.whole.since(self.whole).as_f64();
        whole + (self.fraction - earlier.fraction)
    }
}

impl From<Instant> for FineInstant {
    fn from(whole: Instant) -> Self {
        Self { whole, fraction: 0.0 }
    }
}

impl Add<Nanos> for FineInstant {
    type Output = Self;
    /// The point `span` later; at the end of time where it does not fit.
    fn add(self, span: Nanos) -> Self {
        Self { whole: Instant(self.whole.0.saturating_add(span.0)), ..self }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fraction_survives_however_late_it_is() {
        let base = Instant(1_700_000_000_000_000_000);
        let point = FineInstant::new(base, 1_000.25);
        assert_eq!((point.whole(), point.fraction()), (Instant(base.0 + 1_000), 0.25));
        assert_eq!(point.since(FineInstant::from(base)), 1_000.25);
        assert_eq!(FineInstant::from(base).since(point), -1_000.25);
        assert!(FineInstant::new(base, 0.5) < FineInstant::from(Instant(base.0 + 1)));
    }

    #[test]
    fn what_does_not_fit_is_at_an_end_of_time() {
        assert_eq!(FineInstant::new(Instant(7), -0.25), FineInstant::from(Instant(7)));
        assert_eq!(FineInstant::new(Instant(7), f64::INFINITY), FineInstant::from(Instant::MAX));
        assert_eq!(FineInstant::from(Instant::MAX) + Nanos(1), FineInstant::from(Instant::MAX));
    }
}
