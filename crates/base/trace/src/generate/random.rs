//! Random numbers that never change: PCG XSL-RR 128/64 from a pinned crate, and every distribution
//! on top of it written here, so that no update of a library moves a stream.

use cavalcade_model::{PortId, mix};
use rand_pcg::Pcg64;
use rand_pcg::rand_core::Rng as _;

/// Purpose of random numbers. Each has its own stream, so that drawing more for one moves no other.
#[derive(Clone, Copy)]
pub(super) enum Purpose {
    /// Time at which things arrive.
    Arrivals = 1,
    /// Counts.
    Shapes = 2,
    /// Ports.
    Places = 3,
    /// Bytes.
    Sizes = 4,
    /// Computation times.
    Computation = 5,
    /// Background tasks.
    Background = 6,
    /// Failures.
    Failures = 7,
    /// Flows with a deadline, beside others.
    Urgent = 8,
    /// Split of a receiver's bytes over its flows.
    Spread = 9,
    /// Jobs of runs.
    Runs = 10,
    /// Sizes of runs.
    Drift = 11,
}

/// A stream of random numbers.
pub(super) struct Random(Pcg64);

impl Random {
    pub(super) fn new(seed: u64, purpose: Purpose) -> Self {
        // Neighbouring seeds have to give unrelated states, which the generator's own seeding does
        // not promise.
        let low = mix(seed);
        let high = mix(low);
        Self(Pcg64::new(u128::from(high) << 64 | u128::from(low), purpose as u128))
    }

    /// Any of 2⁶⁴ numbers.
    pub(super) fn bits(&mut self) -> u64 {
        self.0.next_u64()
    }

    /// Uniform from 0 to 1, without 1.
    pub(super) fn unit(&mut self) -> f64 {
        (self.bits() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// Uniform from 0 to `bound` − 1 (Lemire's multiplication, with the few unfair draws rejected).
    pub(super) fn below(&mut self, bound: u64) -> u64 {
        assert!(bound > 0, "nothing to choose from");
        loop {
            let product = u128::from(self.bits()) * u128::from(bound);
            if product as u64 >= bound.wrapping_neg() % bound {
                return (product >> 64) as u64;
            }
        }
    }

    /// Uniform from `low` to `high`, both included.
    pub(super) fn between(&mut self, low: u64, high: u64) -> u64 {
        assert!(low <= high, "an empty range");
        match (high - low).checked_add(1) {
            Some(count) => low + self.below(count),
            None => self.bits(),
        }
    }

    /// Exponential with mean 1.
    pub(super) fn exponential(&mut self) -> f64 {
        -libm::log(1.0 - self.unit())
    }

    /// Standard normal (Box–Muller, one of the pair).
    pub(super) fn normal(&mut self) -> f64 {
        let radius = (2.0 * self.exponential()).sqrt();
        radius * libm::cos(core::f64::consts::TAU * self.unit())
    }

    /// Poisson of mean `mean` given that it is not zero, by walking the distribution.
    pub(super) fn positive_poisson(&mut self, mean: f64) -> u64 {
        let mut left = self.unit() * -libm::expm1(-mean);
        let mut term = mean * libm::exp(-mean);
        let mut count = 1;
        while left > term && count < 1000 {
            left -= term;
            count += 1;
            term *= mean / count as f64;
        }
        count
    }

    /// Puts `list` in random order (Fisher–Yates).
    pub(super) fn shuffle<T>(&mut self, list: &mut [T]) {
        for last in (1..list.len()).rev() {
            list.swap(last, self.below(last as u64 + 1) as usize);
        }
    }

    /// `count` different ports of `ports`, in random order. Takes O(count²) where they are few,
    /// else O(ports).
    pub(super) fn ports(&mut self, count: u32, ports: u32) -> Vec<PortId> {
        assert!(count <= ports, "no more ports than there are");
        if count <= 16 && count < ports / 4 {
            return self.distinct(count, |random| PortId(random.below(ports.into()) as u32));
        }
        let mut all: Vec<PortId> = (0..ports).map(PortId).collect();
        for index in 0..count as usize {
            let other = self.between(index as u64, u64::from(ports) - 1) as usize;
            all.swap(index, other);
        }
        all.truncate(count as usize);
        all
    }

    /// `count` different values of `draw`, in the order drawn.
    pub(super) fn distinct<T: PartialEq>(&mut self, count: u32, draw: impl Fn(&mut Self) -> T) -> Vec<T> {
        let mut drawn = Vec::with_capacity(count as usize);
        while drawn.len() < count as usize {
            let value = draw(self);
            if !drawn.contains(&value) {
                drawn.push(value);
            }
        }
        drawn
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_stream_never_changes() {
        let mut random = Random::new(1, Purpose::Arrivals);
        let drawn = [random.bits(), random.bits(), random.bits()];
        assert_eq!(drawn, GOLDEN);
        assert_ne!(Random::new(1, Purpose::Shapes).bits(), drawn[0]);
        assert_ne!(Random::new(2, Purpose::Arrivals).bits(), drawn[0]);
    }

    const GOLDEN: [u64; 3] =
        [14_895_146_457_599_098_698, 5_129_526_527_062_463_305, 14_500_506_910_226_964_010];

    #[test]
    fn distributions_have_their_means() {
        let mut random = Random::new(7, Purpose::Sizes);
        let mut mean = |draw: &mut dyn FnMut(&mut Random) -> f64| {
            (0..20_000).map(|_| draw(&mut random)).sum::<f64>() / 20_000.0
        };
        assert!((mean(&mut |random| random.unit()) - 0.5).abs() < 0.01);
        assert!((mean(&mut |random| random.exponential()) - 1.0).abs() < 0.03);
        assert!(mean(&mut |random| random.normal()).abs() < 0.03);
        assert!((mean(&mut |random| random.between(3, 7) as f64) - 5.0).abs() < 0.05);
        // The mean of a Poisson given that it is not zero is λ / (1 − e^−λ).
        assert!((mean(&mut |random| random.positive_poisson(2.0) as f64) - 2.313).abs() < 0.04);
    }

    #[test]
    fn chosen_ports_are_different() {
        let mut random = Random::new(3, Purpose::Places);
        for (count, ports) in [(1, 1), (5, 100), (50, 60), (16, 16), (3, 1_000_000)] {
            let mut chosen = random.ports(count, ports);
            chosen.sort_unstable();
            chosen.dedup();
            assert_eq!(chosen.len(), count as usize);
            assert!(chosen.iter().all(|port| port.0 < ports));
        }
    }
}
