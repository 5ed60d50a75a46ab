//! Single flows with a heavy tail, arriving as a Poisson process between random pairs of ports.
//!
//! Sizes follow a bounded Pareto law: with the defaults (shape 1.2, 100 KB to 1 GB) the mean is 505
//! KB and a few flows have most of the bytes; or a measured distribution (`flow_sizes`). Every flow
//! is a coflow of its own, so that coflow policies meet per-flow ones on equal terms.

use cavalcade_model::{BitsPerSec, Bytes, Flow, Nanos, PortId, Workload, WorkloadBuilder};

use super::flow_sizes::Sizes;
use super::parameters::parameters;
use super::random::{Purpose, Random};
use super::shape::{FlowBudget, instant, require_counts, require_load};
use super::{GenerateError, Recipe, require};

parameters! {
    /// Parameters of `poisson`.
    Poisson {
        /// number of flows
        flows: u32 = 10_000,
        /// number of ports
        ports: u32 = 16,
        /// offered load on all ports together, as a share of their capacity
        load: f64 = 0.7,
        /// distribution of the sizes: pareto, websearch or datamining; the next three are for the
        /// first
        sizes: Sizes = Sizes::Pareto,
        /// smallest flow
        smallest: Bytes = Bytes(100_000),
        /// largest flow
        largest: Bytes = Bytes(1_000_000_000),
        /// exponent of the tail; smaller is heavier
        shape: f64 = 1.2,
        /// rate of a port, which the load refers to
        rate: BitsPerSec = BitsPerSec(1_000_000_000),
    }
}

impl Recipe for Poisson {
    const NAME: &'static str = "poisson";
    const MEANING: &'static str = "single flows between random ports, sizes bounded Pareto or measured";
    const SOURCE: &'static str = "the usual open-loop model of data-centre traffic";

    fn generate(&self, seed: u64) -> Result<Workload, GenerateError> {
        self.check()?;
        FlowBudget::new().spend(self.flows.into())?;
        let mut random = Random::new(seed, Purpose::Arrivals);
        let mut places = Random::new(seed, Purpose::Places);
        let mut sizes = Random::new(seed, Purpose::Sizes);
        let law = BoundedPareto::new(self);
        let mean = self.sizes.mean().unwrap_or_else(|| law.mean());
        let mean_gap_ns = mean / (self.load * f64::from(self.ports) * self.rate.bytes_per_nano());
        let mut builder = WorkloadBuilder::new(self.ports);
        let mut now = 0.0;
        for index in 0..self.flows {
            now += random.exponential() * mean_gap_ns;
            let src = places.below(self.ports.into()) as u32;
            let other = places.below(u64::from(self.ports) - 1) as u32;
            let dst = other + u32::from(other >= src);
            let share = sizes.unit();
            let size = match self.sizes.at(share) {
                Some(measured) => Bytes(measured as u64),
                None => Bytes(law.at(share) as u64).clamp(self.smallest, self.largest),
            };
            let flow = Flow { src: PortId(src), dst: PortId(dst), size, wave: Nanos::ZERO };
            builder.coflow(index.to_string(), instant(now)?, vec![flow]);
        }
        Ok(builder.build()?)
    }
}

impl Poisson {
    fn check(&self) -> Result<(), GenerateError> {
        require_counts(self.ports, 2, 1)?;
        require_load(self.load, self.rate)?;
        require(self.flows > 0, "flows", self.flows, "at least 1")?;
        require(self.smallest > Bytes::ZERO, "smallest", self.smallest, "at least 1B")?;
        let range = format_args!("more than {} and at most {}", self.smallest, Bytes(1 << 50)).to_string();
        let in_range = self.largest > self.smallest && self.largest <= Bytes(1 << 50);
        require(in_range, "largest", self.largest, range)?;
        let usable = (0.01..=100.0).contains(&self.shape) && self.shape != 1.0;
        require(usable, "shape", self.shape, "0.01 to 100, and not exactly 1")
    }
}

/// A Pareto law between two bounds.
struct BoundedPareto {
    smallest: f64,
    shape: f64,
    /// (smallest ÷ largest)^shape: the part of the unbounded law that lies beyond the largest.
    beyond: f64,
    /// smallest ÷ largest.
    ratio: f64,
}

impl BoundedPareto {
    fn new(parameters: &Poisson) -> Self {
        let ratio = parameters.smallest.as_f64() / parameters.largest.as_f64();
        let shape = parameters.shape;
        Self { smallest: parameters.smallest.as_f64(), shape, beyond: libm::pow(ratio, shape), ratio }
    }

    /// The size below which a share of `at` lies.
    fn at(&self, at: f64) -> f64 {
        self.smallest * libm::pow(1.0 - at * (1.0 - self.beyond), -1.0 / self.shape)
    }

    fn mean(&self) -> f64 {
        let bounded = 1.0 - libm::pow(self.ratio, self.shape - 1.0);
        self.shape / (self.shape - 1.0) * self.smallest * bounded / (1.0 - self.beyond)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_law_has_the_documented_mean() {
        let law = BoundedPareto::new(&Poisson::default());
        assert!((law.mean() - 505_000.0).abs() < 1_000.0, "{}", law.mean());
        assert!((law.at(0.0) - 1e5).abs() < 1e-3 && (law.at(1.0) - 1e9).abs() < 1.0);
        let mean = (0..1_000_000).map(|step| law.at((f64::from(step) + 0.5) / 1e6)).sum::<f64>() / 1e6;
        assert!((mean / law.mean() - 1.0).abs() < 0.02, "{mean}");
    }
}
