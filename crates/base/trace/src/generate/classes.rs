//! Coflows of four classes, short or long × narrow or wide, in any mix.
//!
//! This is the custom workload of Varys' simulator (CoflowSim), which D-CAS §V-A took over; Aalo's
//! Table 3 gives the mix of the Facebook trace. A narrow coflow draws its mappers and its reducers
//! from 1 to `narrow`, a wide one from 5 to `ports`; every reducer draws a length from 1 to 10 MB
//! (short) or 10 MB to `longest` (long), which each mapper sends it. Coflows arrive as a Poisson
//! process at `load` times what all ports can carry.
//!
//! | mix | source |
//! |---|---|
//! | `52/16/15/17`, longest 500 MB, 80 ports | D-CAS §V-A, Aalo Table 3 (default) |
//! | `41/29/9/21`, longest 1000 MB | CoflowSim's own default (Varys) |
//! | `58.7/17.1/11.2/12.9` | the Facebook trace as published |
//!
//! The papers leave open how wide "narrow" is; the 5 is CoflowSim's.

use cavalcade_model::{BitsPerSec, Bytes, Instant, Workload};

use super::parameters::{Mix, parameters};
use super::quantiles::apportion;
use super::random::{Purpose, Random};
use super::shape::{FlowBudget, Shape, assemble, poisson_millis, require_counts, require_load};
use super::{GenerateError, Recipe, require};

parameters! {
    /// Parameters of `classes`.
    Classes {
        /// number of coflows
        coflows: u32 = 400,
        /// number of ports (hosts)
        ports: u32 = 80,
        /// offered load on all ports together, as a share of their capacity
        load: f64 = 1.0,
        /// longest flow
        longest: Bytes = Bytes(500 << 20),
        /// maximum number of mappers, and of reducers, of a narrow coflow
        narrow: u32 = 5,
        /// shares of short narrow / long narrow / short wide / long wide coflows
        mix: Mix = Mix([52.0, 16.0, 15.0, 17.0]),
        /// rate of a port, which the load refers to
        rate: BitsPerSec = BitsPerSec(1_000_000_000),
    }
}

/// The unit of sizes.
pub(super) const MB: u64 = 1 << 20;
/// The longest flow of a short coflow and the shortest of a long one, in MB.
const SHORT_TO_LONG: u64 = 10;
/// The fewest mappers, and the fewest reducers, of a wide coflow.
const WIDE_FROM: u32 = 5;

impl Recipe for Classes {
    const NAME: &'static str = "classes";
    const MEANING: &'static str = "coflows of four classes, short or long and narrow or wide, in any mix";
    const SOURCE: &'static str = "D-CAS §V-A, Varys (CoflowSim), Aalo Table 3";

    fn generate(&self, seed: u64) -> Result<Workload, GenerateError> {
        require_counts(self.ports, 1, self.coflows)?;
        require_load(self.load, self.rate)?;
        require(self.narrow > 0, "narrow", self.narrow, "at least 1")?;
        let longest = self.longest.0 / MB;
        let usable = (SHORT_TO_LONG..1 << 40).contains(&longest);
        require(usable, "longest", self.longest, "10MiB to 1048575TiB")?;
        let mut shapes_random = Random::new(seed, Purpose::Shapes);
        let mut sizes = Random::new(seed, Purpose::Sizes);
        let mut places = Random::new(seed, Purpose::Places);
        let mut budget = FlowBudget::new();
        let mut shapes = Vec::with_capacity(self.coflows as usize);
        for (class, count) in apportion(self.coflows, &self.mix.0).into_iter().enumerate() {
            let (long, wide) = (class % 2 == 1, class >= 2);
            for _ in 0..count {
                let (mappers, reducers) = counts(&mut shapes_random, self.ports, self.narrow, wide);
                budget.spend(u64::from(mappers) * u64::from(reducers))?;
                let mappers = places.ports(mappers, self.ports);
                let reducers = places.ports(reducers, self.ports).into_iter();
                let reducers = reducers.map(|port| (port, length(&mut sizes, long, longest))).collect();
                shapes.push(Shape { mappers, reducers });
            }
        }
        shapes_random.shuffle(&mut shapes);
        arrive(self.ports, self.load, self.rate, seed, shapes)
    }
}

/// Draws the number of mappers and reducers of a coflow.
pub(super) fn counts(random: &mut Random, ports: u32, narrow: u32, wide: bool) -> (u32, u32) {
    let (least, most) = if wide { (WIDE_FROM.min(ports), ports) } else { (1, narrow.min(ports)) };
    let mut draw = || random.between(least.into(), most.into()) as u32;
    (draw(), draw())
}

/// Draws what each mapper sends to a reducer of a long or short coflow; the longest are of
/// `longest` MB.
pub(super) fn length(random: &mut Random, long: bool, longest: u64) -> Bytes {
    let (least, most) = if long { (SHORT_TO_LONG, longest) } else { (1, SHORT_TO_LONG) };
    Bytes(random.between(least, most) * MB)
}

/// Lets coflows arrive as a Poisson process at a load on all ports.
pub(super) fn arrive(
    ports: u32,
    load: f64,
    rate: BitsPerSec,
    seed: u64,
    shapes: Vec<Shape>,
) -> Result<Workload, GenerateError> {
    assemble(ports, arrivals(ports, load, rate, seed, &shapes)?.into_iter().zip(shapes))
}

/// Draws when coflows arrive as a Poisson process at a load on all ports.
pub(super) fn arrivals(
    ports: u32,
    load: f64,
    rate: BitsPerSec,
    seed: u64,
    shapes: &[Shape],
) -> Result<Vec<Instant>, GenerateError> {
    let mean_bytes = shapes.iter().map(Shape::bytes).sum::<f64>() / shapes.len() as f64;
    let mean_gap_ns = mean_bytes / (load * f64::from(ports) * rate.bytes_per_nano());
    poisson_millis(&mut Random::new(seed, Purpose::Arrivals), shapes.len(), mean_gap_ns)
}
