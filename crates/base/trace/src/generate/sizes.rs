//! Coflows whose total sizes are uniform, or all the same: what a scheduler does where no tail is
//! heavy (Aalo §7.5, Fig 13).
//!
//! Structures follow Aalo's Table 3: 68 % of the coflows are narrow and 32 % wide, with mappers and
//! reducers drawn as in [`super::Classes`]. A coflow's bytes are shared equally by its flows (to
//! the nearest byte, at least one each), since the paper gives no other law. Coflows arrive as a
//! Poisson process.

use cavalcade_model::{BitsPerSec, Bytes, Workload};

use super::classes::{arrive, counts};
use super::parameters::parameters;
use super::quantiles::apportion;
use super::random::{Purpose, Random};
use super::shape::{FlowBudget, Shape, require_counts, require_load};
use super::{GenerateError, Recipe, require};

parameters! {
    /// Parameters of `uniform`.
    Uniform {
        /// number of coflows
        coflows: u32 = 100,
        /// number of ports
        ports: u32 = 100,
        /// largest coflow: sizes are uniform from 0 to this
        largest: Bytes = Bytes(1_000_000_000),
        /// offered load on all ports together, as a share of their capacity
        load: f64 = 1.0,
        /// rate of a port, which the load refers to
        rate: BitsPerSec = BitsPerSec(1_000_000_000),
    }
}

parameters! {
    /// Parameters of `fixed`.
    Fixed {
        /// number of coflows
        coflows: u32 = 100,
        /// number of ports
        ports: u32 = 100,
        /// size of every coflow
        size: Bytes = Bytes(100_000_000),
        /// offered load on all ports together, as a share of their capacity
        load: f64 = 1.0,
        /// rate of a port, which the load refers to
        rate: BitsPerSec = BitsPerSec(1_000_000_000),
    }
}

/// Shares of narrow and of wide coflows (Aalo Table 3).
const NARROW_AND_WIDE: [f64; 2] = [68.0, 32.0];
/// The most mappers, and reducers, of a narrow coflow.
const NARROW: u32 = 5;
/// The largest coflow that may be asked for.
const LARGEST: Bytes = Bytes(1 << 50);

impl Recipe for Uniform {
    const NAME: &'static str = "uniform";
    const MEANING: &'static str = "coflow sizes uniform up to a maximum";
    const SOURCE: &'static str = "Aalo Fig 13a";

    fn generate(&self, seed: u64) -> Result<Workload, GenerateError> {
        require_size("largest", self.largest)?;
        let mut sizes = Random::new(seed, Purpose::Sizes);
        let shapes = shapes(self.coflows, self.ports, seed, || sizes.between(1, self.largest.0))?;
        require_load(self.load, self.rate)?;
        arrive(self.ports, self.load, self.rate, seed, shapes)
    }
}

impl Recipe for Fixed {
    const NAME: &'static str = "fixed";
    const MEANING: &'static str = "coflows all of one size";
    const SOURCE: &'static str = "Aalo Fig 13b";

    fn generate(&self, seed: u64) -> Result<Workload, GenerateError> {
        require_size("size", self.size)?;
        require_load(self.load, self.rate)?;
        let shapes = shapes(self.coflows, self.ports, seed, || self.size.0)?;
        arrive(self.ports, self.load, self.rate, seed, shapes)
    }
}

fn require_size(parameter: &'static str, size: Bytes) -> Result<(), GenerateError> {
    require((Bytes(1)..=LARGEST).contains(&size), parameter, size, format_args!("1B to {LARGEST}"))
}

/// Coflows in random order, each with the bytes that `size` gives it.
fn shapes(
    coflows: u32,
    ports: u32,
    seed: u64,
    mut size: impl FnMut() -> u64,
) -> Result<Vec<Shape>, GenerateError> {
    require_counts(ports, 1, coflows)?;
    let mut random = Random::new(seed, Purpose::Shapes);
    let mut places = Random::new(seed, Purpose::Places);
    let mut budget = FlowBudget::new();
    let mut shapes = Vec::with_capacity(coflows as usize);
    for (count, wide) in apportion(coflows, &NARROW_AND_WIDE).into_iter().zip([false, true]) {
        for _ in 0..count {
            let (mappers, reducers) = counts(&mut random, ports, NARROW, wide);
            let flows = u64::from(mappers) * u64::from(reducers);
            budget.spend(flows)?;
            let share = Bytes(((size() + flows / 2) / flows).max(1));
            let mappers = places.ports(mappers, ports);
            let reducers = places.ports(reducers, ports).into_iter().map(|port| (port, share)).collect();
            shapes.push(Shape { mappers, reducers });
        }
    }
    random.shuffle(&mut shapes);
    Ok(shapes)
}
