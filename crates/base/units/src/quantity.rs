//! The four quantities and the arithmetic that makes sense between them.

use core::fmt;
use core::ops::{Add, AddAssign, Sub, SubAssign};

use crate::parse::{Unit, write_exact};

macro_rules! quantity {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
        pub struct $name(pub u64);

        impl $name {
            /// Zero.
            pub const ZERO: Self = Self(0);
            /// The largest value that the type holds.
            pub const MAX: Self = Self(u64::MAX);

            /// The bare number in the type's own unit.
            pub const fn get(self) -> u64 {
                self.0
            }

            /// The bare number as floating point: exact below 2⁵³.
            pub const fn as_f64(self) -> f64 {
                self.0 as f64
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(self, f)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write_exact(f, self.0, <Self as Unit>::SUFFIXES)
            }
        }
    };
}

macro_rules! additive {
    ($name:ident) => {
        impl Add for $name {
            type Output = Self;
            fn add(self, other: Self) -> Self {
                Self(self.0.checked_add(other.0).expect(concat!(stringify!($name), " overflow")))
            }
        }
        impl AddAssign for $name {
            fn add_assign(&mut self, other: Self) {
                *self = *self + other;
            }
        }
        impl Sub for $name {
            type Output = Self;
            fn sub(self, other: Self) -> Self {
                Self(self.0.checked_sub(other.0).expect(concat!(stringify!($name), " underflow")))
            }
        }
        impl SubAssign for $name {
            fn sub_assign(&mut self, other: Self) {
                *self = *self - other;
            }
        }
        impl $name {
            /// The sum, or `None` where it does not fit.
            pub const fn checked_add(self, other: Self) -> Option<Self> {
                match self.0.checked_add(other.0) {
                    Some(sum) => Some(Self(sum)),
                    None => None,
                }
            }
            /// The difference, or zero where it would be negative.
            pub const fn saturating_sub(self, other: Self) -> Self {
                Self(self.0.saturating_sub(other.0))
            }
        }
        impl core::iter::Sum for $name {
            fn sum<I: Iterator<Item = Self>>(values: I) -> Self {
                values.fold(Self::ZERO, Add::add)
            }
        }
    };
}

quantity! {
    /// An amount of data, in bytes.
    Bytes
}
quantity! {
    /// A rate of transfer, in bits per second.
    BitsPerSec
}
quantity! {
    /// A span of time, in nanoseconds.
    Nanos
}
quantity! {
    /// A point in time, in nanoseconds since the start of the trace or run.
    Instant
}
additive!(Bytes);
additive!(BitsPerSec);
additive!(Nanos);

impl Bytes {
    /// The time that these bytes take at `rate`, rounded up; `None` where the rate is zero and
    /// bytes are not, or where the time does not fit.
    pub const fn time_at(self, rate: BitsPerSec) -> Option<Nanos> {
        if self.0 == 0 {
            return Some(Nanos::ZERO);
        }
        if rate.0 == 0 {
            return None;
        }
        let nanos = (self.0 as u128 * 8_000_000_000).div_ceil(rate.0 as u128);
        if nanos > u64::MAX as u128 { None } else { Some(Nanos(nanos as u64)) }
    }
}

impl BitsPerSec {
    /// The whole bytes that this rate delivers in `span`, rounded down (and capped at
    /// [`Bytes::MAX`]).
    pub const fn bytes_in(self, span: Nanos) -> Bytes {
        let bytes = self.0 as u128 * span.0 as u128 / 8_000_000_000;
        if bytes > u64::MAX as u128 { Bytes::MAX } else { Bytes(bytes as u64) }
    }

    /// Bytes per nanosecond, the unit in which the fluid engine computes.
    pub const fn bytes_per_nano(self) -> f64 {
        self.0 as f64 / 8e9
    }
}

impl Nanos {
    /// `millis` milliseconds.
    pub const fn from_millis(millis: u64) -> Self {
        Self(millis * 1_000_000)
    }

    /// `secs` seconds.
    pub const fn from_secs(secs: u64) -> Self {
        Self(secs * 1_000_000_000)
    }

    /// Seconds as floating point, for output.
    pub const fn as_secs_f64(self) -> f64 {
        self.0 as f64 / 1e9
    }
}

impl Instant {
    /// The time passed since `earlier`; zero where `earlier` is later.
    pub const fn since(self, earlier: Instant) -> Nanos {
        Nanos(self.0.saturating_sub(earlier.0))
    }

    /// Seconds since the start as floating point, for output.
    pub const fn as_secs_f64(self) -> f64 {
        self.0 as f64 / 1e9
    }

    /// The point `span` later, or `None` where it does not fit.
    pub const fn checked_add(self, span: Nanos) -> Option<Instant> {
        match self.0.checked_add(span.0) {
            Some(nanos) => Some(Instant(nanos)),
            None => None,
        }
    }
}

impl Add<Nanos> for Instant {
    type Output = Instant;
    fn add(self, span: Nanos) -> Instant {
        Instant(self.0.checked_add(span.0).expect("Instant overflow"))
    }
}
