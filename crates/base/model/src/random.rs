//! Random numbers of which every bit is pinned: SplitMix64 (Steele, Lea and Flood, OOPSLA 2014, Fig
//! 16).
//!
//! The idea: a counter goes on by an odd constant (2⁶⁴ over the golden ratio), and a finisher,
//! [`mix`], makes of each count a number every bit of which depends on every bit of the count. The
//! finisher is a bijection, so a stream meets each of 2⁶⁴ numbers once before it repeats. Alone,
//! the same finisher is the project's hash of small numbers: of ports into paths, of a seed into
//! the state of a larger generator.
//!
//! Written here, not taken from a library: an update of one would move the streams, and with them
//! every result that a seed names. What draws far more than 2³² numbers, or needs streams that
//! provably never meet, is better off with PCG, as the generators of workloads are. Nothing here is
//! for secrets.
//!
//! A policy has no randomness; drivers draw here what a network loses, and statistics their
//! resamples.

/// 2⁶⁴ over the golden ratio, made odd.
const STEP: u64 = 0x9e37_79b9_7f4a_7c15;

/// Spreads the bits of `value` over the whole word: the first number of the stream that is seeded
/// with it.
#[inline]
pub const fn mix(value: u64) -> u64 {
    let mut mixed = value.wrapping_add(STEP);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

/// A stream of random numbers. The same seed gives the same stream everywhere and always.
#[derive(Clone, Debug)]
pub struct SplitMix64(u64);

impl SplitMix64 {
    /// The stream of `seed`.
    pub const fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// Any of 2⁶⁴ numbers.
    #[inline]
    pub const fn bits(&mut self) -> u64 {
        let bits = mix(self.0);
        self.0 = self.0.wrapping_add(STEP);
        bits
    }

    /// Uniform from 0 to 1, without 1, in 2⁵³ steps.
    #[inline]
    pub fn fraction(&mut self) -> f64 {
        (self.bits() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// Uniform below `bound`, with a bias of at most `bound` / 2⁶⁴.
    pub fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.bits()) * u128::from(bound)) >> 64) as u64
    }

    /// True in a `share` of cases. Draws nothing where that is zero.
    #[inline]
    pub fn happens(&mut self, share: f64) -> bool {
        share > 0.0 && self.fraction() < share
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_stream_is_the_published_one() {
        let mut random = SplitMix64::new(1_234_567);
        let drawn = [random.bits(), random.bits(), random.bits()];
        assert_eq!(drawn, [6_457_827_717_110_365_317, 3_203_168_211_198_807_973, 9_817_491_932_198_370_423]);
        assert_eq!(mix(1_234_567), drawn[0]);
    }

    #[test]
    fn draws_keep_to_their_ranges_and_means() {
        let mut random = SplitMix64::new(1);
        let (mut sum, mut happened, mut counts) = (0.0, 0, [0; 3]);
        for _ in 0..30_000 {
            let fraction = random.fraction();
            assert!((0.0..1.0).contains(&fraction));
            sum += fraction;
            happened += u32::from(random.happens(0.25));
            counts[random.below(3) as usize] += 1;
        }
        assert!((sum / 30_000.0 - 0.5).abs() < 0.01, "{sum}");
        assert!(happened.abs_diff(7_500) < 300, "{happened}");
        assert!(counts.iter().all(|count: &u32| count.abs_diff(10_000) < 300), "{counts:?}");
    }

    #[test]
    fn what_never_happens_draws_nothing() {
        let (mut random, mut untouched) = (SplitMix64::new(5), SplitMix64::new(5));
        assert!(!random.happens(0.0));
        assert_eq!(random.bits(), untouched.bits());
    }
}
