//! What the seed decides.

use rand_pcg::Pcg64;
use rand_pcg::rand_core::Rng as _;

/// A stream of random numbers.
#[derive(Debug)]
pub(crate) struct Dice(Pcg64);

impl Dice {
    pub(crate) fn new(seed: u64) -> Self {
        // Neighbouring seeds are to give unrelated worlds: the first numbers of near states resemble each other.
        let mut dice =
            Self(Pcg64::new(u128::from(seed).wrapping_mul(0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835), 7));
        (0..4).for_each(|_| {
            dice.0.next_u64();
        });
        dice
    }

    /// From 0 to `bound` − 1. The bias is below 2⁻³² for the small bounds here.
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.0.next_u64()) * u128::from(bound)) >> 64) as u64
    }

    /// From `low` to `high`, both included.
    pub(crate) fn between(&mut self, low: u64, high: u64) -> u64 {
        low + self.below(high - low + 1)
    }

    /// True `of_thousand` times in a thousand.
    pub(crate) fn chance(&mut self, of_thousand: u64) -> bool {
        self.below(1000) < of_thousand
    }
}
