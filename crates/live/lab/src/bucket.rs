//! A token bucket that many threads share: what holds a port to its rate where there is no port.
//!
//! Who comes takes the next free time on the line and sleeps until that has passed, so that those
//! who wait are served in turn, a piece each: equals share equally, as on a link. A sleep that was
//! too long is made up for by up to [`SLACK`].

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Unused time that may be used later.
const SLACK: Duration = Duration::from_millis(3);

/// A rate, and when the line is free.
#[derive(Debug)]
pub(crate) struct Bucket {
    nanos_per_byte: f64,
    free_at: Mutex<Instant>,
}

impl Bucket {
    /// A bucket that lets `bits_per_second` through.
    pub(crate) fn new(bits_per_second: u64) -> Self {
        Self { nanos_per_byte: 8e9 / bits_per_second.max(1) as f64, free_at: Mutex::new(Instant::now()) }
    }

    /// Returns the bytes to take at once: a millisecond's worth.
    pub(crate) fn piece(&self) -> usize {
        ((1e6 / self.nanos_per_byte) as usize).clamp(2_048, 65_536)
    }

    /// Waits until `bytes` may pass.
    pub(crate) fn take(&self, bytes: usize) {
        let done = self.reserve(Instant::now(), bytes);
        std::thread::sleep(done.saturating_duration_since(Instant::now()));
    }

    /// Takes the next free time from `now` on for `bytes`, and returns its end.
    fn reserve(&self, now: Instant, bytes: usize) -> Instant {
        let mut free_at = self.free_at.lock().unwrap_or_else(PoisonError::into_inner);
        let earliest = now.checked_sub(SLACK).unwrap_or(now);
        let begin = (*free_at).max(earliest);
        *free_at = begin + Duration::from_nanos((bytes as f64 * self.nanos_per_byte) as u64);
        *free_at
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_passes_is_the_rate_and_a_little_for_time_that_was_not_used() {
        let bucket = Bucket::new(8_000_000);
        let start = Instant::now() + SLACK;
        let millis = |from: Instant, to: Instant| to.saturating_duration_since(from).as_millis();
        let first = bucket.reserve(start, 5_000);
        assert!(millis(start, first) <= 5);
        let second = bucket.reserve(start, 5_000);
        assert_eq!(millis(first, second), 5);
        // A long pause saves up no more than the slack.
        let later = second + Duration::from_secs(1);
        assert_eq!(millis(later - SLACK, bucket.reserve(later, 5_000)), 5);
    }
}
