//! Slow start and additive increase, which all window laws share; they differ in when and how far
//! they cut.
//!
//! The window is a whole number of segments. Below the threshold it grows by what is acknowledged
//! (doubles in a round trip), above it by one for each window acknowledged, counted in whole
//! segments as kernels do, so that no division is needed for an acknowledgement. A flow of another
//! weight than one grows by so much more or less above the threshold (MLTCP): windows that are cut
//! together are then in the ratio of their weights.

/// A congestion window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Aimd {
    window: u32,
    threshold: u32,
    /// What has been acknowledged towards the next segment, in thousandths.
    credit: u64,
    weight: u32,
}

/// One, in thousandths.
const ONE: u32 = 1_000;

/// Far above any bandwidth–delay product, and far from overflow.
const LARGEST: u32 = 1 << 24;

impl Aimd {
    /// Begins with `window` segments in slow start.
    pub fn new(window: u32) -> Self {
        Self { window: window.clamp(1, LARGEST), threshold: LARGEST, credit: 0, weight: ONE }
    }

    /// The window in segments, at least one.
    pub fn window(&self) -> u32 {
        self.window
    }

    /// Returns whether it is below the threshold.
    pub fn in_slow_start(&self) -> bool {
        self.window < self.threshold
    }

    /// Grows by what `acknowledged` segments allow.
    #[inline]
    pub fn grow(&mut self, acknowledged: u32) {
        let mut left = acknowledged;
        if self.in_slow_start() {
            let step = left.min(self.threshold - self.window);
            self.window += step;
            left -= step;
        }
        self.credit += u64::from(left) * u64::from(self.weight);
        let needed = u64::from(self.window) * u64::from(ONE);
        if self.credit >= needed {
            self.credit -= needed;
            self.window = (self.window + 1).min(LARGEST);
        }
    }

    /// From now on it grows above the threshold by so many thousandths of what it would.
    pub fn set_weight(&mut self, thousandths: u32) {
        self.weight = thousandths;
    }

    /// Cuts to `window` segments, at least `least`, and leaves slow start.
    pub fn cut_to(&mut self, window: u32, least: u32) {
        self.window = window.clamp(least.max(1), LARGEST);
        self.threshold = self.window;
        self.credit = 0;
    }

    /// After a timeout: begins again with one segment, with slow start to half of what was.
    pub fn restart(&mut self) {
        self.threshold = (self.window / 2).max(2);
        self.window = 1;
        self.credit = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_doubles_in_slow_start_and_adds_one_per_window_afterwards() {
        let mut window = Aimd::new(10);
        (0..10).for_each(|_| window.grow(1));
        assert_eq!(window.window(), 20);
        window.cut_to(10, 2);
        (0..9).for_each(|_| window.grow(1));
        assert_eq!(window.window(), 10);
        window.grow(1);
        assert_eq!(window.window(), 11);
    }

    #[test]
    fn one_of_half_the_weight_takes_twice_as_long_to_grow() {
        let mut window = Aimd::new(10);
        window.cut_to(10, 2);
        window.set_weight(500);
        (0..19).for_each(|_| window.grow(1));
        assert_eq!(window.window(), 10);
        window.grow(1);
        assert_eq!(window.window(), 11);
    }

    #[test]
    fn after_a_timeout_it_starts_slowly_up_to_half() {
        let mut window = Aimd::new(40);
        window.restart();
        assert_eq!(window.window(), 1);
        window.grow(19);
        assert!(!window.in_slow_start());
        assert_eq!(window.window(), 20);
    }
}
