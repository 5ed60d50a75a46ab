//! The round trip time as a sender sees it, and how long to wait before a segment is given up (RFC
//! 6298).
//!
//! Integers throughout: the smoothed time moves by an eighth, its deviation by a quarter of each
//! new sample.

use cavalcade_model::Nanos;

/// Smoothed round trip time and its deviation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RoundTrip {
    smoothed: u64,
    deviation: u64,
    sampled: bool,
}

impl RoundTrip {
    /// Before the first sample: `guess`.
    pub fn new(guess: Nanos) -> Self {
        Self { smoothed: guess.get(), deviation: guess.get() / 2, sampled: false }
    }

    /// Takes a sample. Only of segments that were sent once (Karn): the answer to one that was sent
    /// twice may be to either.
    #[inline]
    pub fn sample(&mut self, time: Nanos) {
        let time = time.get();
        if !self.sampled {
            *self = Self { smoothed: time, deviation: time / 2, sampled: true };
            return;
        }
        self.deviation = self.deviation - self.deviation / 4 + time.abs_diff(self.smoothed) / 4;
        self.smoothed = self.smoothed - self.smoothed / 8 + time / 8;
    }

    /// The smoothed round trip time.
    pub fn smoothed(&self) -> Nanos {
        Nanos(self.smoothed)
    }

    /// Returns the timeout for a reply: smoothed time and four deviations.
    pub fn patience(&self) -> Nanos {
        Nanos(self.smoothed.saturating_add(self.deviation.saturating_mul(4)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_sample_replaces_the_guess_and_later_ones_move_it_by_an_eighth() {
        let mut time = RoundTrip::new(Nanos(1));
        time.sample(Nanos(800));
        assert_eq!((time.smoothed(), time.patience()), (Nanos(800), Nanos(800 + 4 * 400)));
        time.sample(Nanos(1600));
        assert_eq!(time.smoothed(), Nanos(900));
        assert_eq!(time.patience(), Nanos(900 + 4 * 500));
    }
}
