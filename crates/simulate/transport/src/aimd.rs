//! Slow start and additive increase, which all window laws share; they differ in when and how far
//! they cut.
//!
//! The window is a whole number of segments. Below the threshold it grows by what is acknowledged
//! (doubles in a round trip), above it by one for each window acknowledged, counted in whole
//! segments as kernels do, so that no division is needed for an acknowledgement.

/// A congestion window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Aimd {
    window: u32,
    threshold: u32,
    credit: u32,
}

/// Far above any bandwidth–delay product, and far from overflow.
const LARGEST: u32 = 1 << 24;

impl Aimd {
    /// Begins with `window` segments in slow start.
    pub fn new(window: u32) -> Self {
        Self { window: window.clamp(1, LARGEST), threshold: LARGEST, credit: 0 }
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
        self.credit += left;
        if self.credit >= self.window {
            self.credit -= self.window;
            self.window = (self.window + 1).min(LARGEST);
        }
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
    fn after_a_timeout_it_starts_slowly_up_to_half() {
        let mut window = Aimd::new(40);
        window.restart();
        assert_eq!(window.window(), 1);
        window.grow(19);
        assert!(!window.in_slow_start());
        assert_eq!(window.window(), 20);
    }
}
