//! Coflows like those of the Facebook trace: an hour of MapReduce on 150 racks (coflow-benchmark,
//! FB2010-1Hr-150-0).
//!
//! The trace may not be shipped, its statistics may. What was found in it, and is kept:
//!
//! - **Shapes.** Four classes (a coflow is *long* with a flow of 5 MB or more, *wide* with more
//!   than 50 flows): of the coflows SN 58.7 %, LN 17.1 %, SW 11.2 %, LW 12.9 %, of the bytes 0.009
//!   %, 0.112 %, 0.81 %, 99.07 %. Inside them lie eleven shapes that differ in kind, for example
//!   one rack spreading to dozens, or nearly all racks to nearly all. Each has quantiles of its own
//!   for mappers, reducers and length (the table [`SHAPES`]).
//! - **Skew.** The trace has merged the reducers of a rack into one. If n reducers fall on P racks
//!   at random and r racks have some, then n ≈ −P·ln(1 − r/P), and the number merged into one is
//!   Poisson of that mean over P, given that it is not zero. This alone gives the spread of sizes
//!   inside coflows. A tenth of the long ones also have one hot reducer, of 200 to 2,400 MB per
//!   mapper.
//! - **Whole MB.** Every mapper sends every reducer a whole number of MB, at least 1.
//! - **Places.** Reducers fall anywhere. The few mappers of a narrow coflow favour some ports
//!   (log-normal popularity, σ = 0.6).
//! - **Arrivals.** Gaps between arrivals by their quantiles: burstier than Poisson (coefficient of
//!   variation 1.4).
//!
//! Time is stretched until the busiest port has the `load` asked for; in the trace it has 1.02 at 1
//! Gbps. For another number of ports than 150 wide shapes keep their share of the ports.
//!
//! Left out: the correlation of successive gaps (0.17), and repeated jobs.

use cavalcade_model::{BitsPerSec, Bytes, Instant, PortId, Workload};

use super::parameters::parameters;
use super::quantiles::{Quantiles, apportion, even_draws};
use super::random::{Purpose, Random};
use super::shape::{FlowBudget, Shape, assemble, require_counts, require_load, whole_millis};
use super::{GenerateError, Recipe};

parameters! {
    /// Parameters of `facebook`.
    Facebook {
        /// number of coflows
        coflows: u32 = 526,
        /// number of ports (racks)
        ports: u32 = 150,
        /// load of the busiest port until the last arrival, as a share of its capacity
        load: f64 = 1.0,
        /// rate of a port, which the load refers to
        rate: BitsPerSec = BitsPerSec(1_000_000_000),
    }
}

const MB: u64 = 1 << 20;
/// A coflow is long if a flow has at least this many MB.
const LONG: u64 = 5;
/// A coflow is narrow if it has at most this many flows.
const NARROW: u64 = 50;
/// The ports of the trace that the table was fitted to.
const FITTED_PORTS: f64 = 150.0;
/// One in this many long coflows has a hot reducer.
const HOT_ONE_IN: u64 = 10;
/// MB that a hot reducer gets from each mapper.
const HOT: Quantiles = Quantiles(&[200.0, 2400.0]);
/// Spread of the popularity of ports among the mappers of narrow coflows.
const POPULARITY_SIGMA: f64 = 0.6;
/// Milliseconds between arrivals, at tenths.
const GAPS: Quantiles =
    Quantiles(&[7.0, 280.0, 760.0, 1400.0, 2000.0, 3100.0, 4800.0, 7400.0, 11_000.0, 18_000.0, 50_000.0]);

/// A kind of coflow and its quantiles.
struct Kind {
    /// Number of 526 coflows that are of this kind.
    share: f64,
    long: bool,
    wide: bool,
    mappers: Quantiles,
    reducers: Quantiles,
    /// MB from one mapper to one reducer before merging; less than one rounds up to one.
    length: Quantiles,
    /// Correlation of the three.
    tie: f64,
}

macro_rules! kind {
    ($share:literal $long:ident $wide:ident $mappers:tt $reducers:tt $length:tt tie $tie:literal) => {
        Kind {
            share: $share,
            long: kind!(@is $long),
            wide: kind!(@is $wide),
            mappers: Quantiles(&$mappers),
            reducers: Quantiles(&$reducers),
            length: Quantiles(&$length),
            tie: $tie,
        }
    };
    (@is short) => { false };
    (@is long) => { true };
    (@is narrow) => { false };
    (@is wide) => { true };
}

/// The fit: share, class, and quantiles of mappers, reducers and MB at equal steps of probability.
#[rustfmt::skip]
const SHAPES: [Kind; 11] = [
    // Many to one, one to many, few to few.
    kind!(269.0 short narrow [1.0, 1.0, 1.0, 1.0, 1.0, 3.0, 7.0, 10.0, 13.0, 26.0, 30.0] [1.0] [1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.3, 3.0] tie 0.0),
    kind!(24.0 short narrow [1.0] [16.0, 28.0, 33.0, 36.0, 40.0, 44.0, 48.0] [0.8, 1.0] tie 0.0),
    kind!(16.0 short narrow [5.0, 5.0, 5.0, 6.0, 10.0] [2.0, 2.0, 2.0, 3.0] [1.0, 1.0, 2.0] tie 0.0),
    kind!(62.0 long narrow [1.0, 1.0, 2.0, 2.0, 2.0, 2.0, 2.0, 3.0, 3.0, 4.0, 14.0] [1.0] [5.0, 5.5, 7.0, 14.0, 22.0, 25.0, 35.0, 55.0, 62.0, 120.0, 600.0] tie 0.0),
    kind!(21.0 long narrow [1.0] [11.0, 23.0, 28.0, 33.0, 36.0, 40.0, 45.0, 50.0] [1.0, 1.5, 3.0, 5.0, 6.0, 20.0] tie 0.0),
    kind!(7.0 long narrow [2.0, 5.0, 7.0, 10.0, 16.0] [2.0, 3.0, 7.0] [5.0, 26.0, 47.0, 58.0, 200.0, 250.0] tie 0.0),
    // Tens to few, one to many, half to half.
    kind!(19.0 short wide [13.0, 15.0, 18.0, 28.0, 58.0, 63.0] [2.0, 5.0, 5.0, 9.0, 20.0, 29.0] [0.5, 0.8, 1.0, 2.0, 4.0] tie 0.0),
    kind!(6.0 short wide [1.0] [51.0, 54.0, 62.0] [1.0] tie 0.0),
    kind!(34.0 short wide [43.0, 57.0, 64.0, 65.0, 120.0, 140.0, 147.0] [43.0, 48.0, 60.0, 67.0, 72.0, 80.0, 110.0, 136.0] [0.3, 0.4, 0.5] tie 0.0),
    // Few to nearly all, tens to few, nearly all to nearly all: the last has nearly all bytes.
    kind!(17.0 long wide [1.0, 3.0, 4.0, 4.0, 5.0, 9.0, 16.0] [112.0, 115.0, 120.0, 122.0, 123.0, 137.0] [2.0, 5.0, 8.0, 9.0, 11.0, 20.0] tie 0.0),
    kind!(51.0 long wide [12.0, 15.0, 27.0, 30.0, 48.0, 108.0, 137.0, 146.0, 147.0, 147.0] [5.0, 9.0, 14.0, 30.0, 85.0, 115.0, 122.0, 140.0, 142.0, 145.0] [1.0, 5.0, 9.0, 12.0, 14.0, 17.0, 20.0, 24.0, 40.0, 230.0] tie 0.7),
];

impl Recipe for Facebook {
    const NAME: &'static str = "facebook";
    const MEANING: &'static str = "MapReduce shuffles like those of the Facebook trace";
    const SOURCE: &'static str =
        "fitted to the statistics of coflow-benchmark FB2010-1Hr-150-0 (Varys, Aalo)";

    fn generate(&self, seed: u64) -> Result<Workload, GenerateError> {
        require_counts(self.ports, 8, self.coflows)?;
        require_load(self.load, self.rate)?;
        let shapes = self.shapes(seed)?;
        let arrivals = self.arrivals(seed, busiest(self.ports, &shapes))?;
        assemble(self.ports, arrivals.into_iter().zip(shapes))
    }
}

impl Facebook {
    /// The coflows, in random order.
    fn shapes(&self, seed: u64) -> Result<Vec<Shape>, GenerateError> {
        let mut random = Random::new(seed, Purpose::Shapes);
        let mut sizes = Random::new(seed, Purpose::Sizes);
        let mut places = Places::new(self.ports, seed);
        let mut budget = FlowBudget::new();
        let mut shapes = Vec::with_capacity(self.coflows as usize);
        let counts = apportion(self.coflows, &SHAPES.map(|kind| kind.share));
        for (kind, count) in SHAPES.iter().zip(counts) {
            for draws in even_draws::<3>(&mut random, count as usize, kind.tie) {
                let (mappers, reducers) = kind.counts(self.ports, draws[0], draws[1]);
                budget.spend(u64::from(mappers) * u64::from(reducers))?;
                let lengths = kind.lengths(&mut sizes, self.ports, reducers, draws[2]);
                let mappers = places.mappers(mappers, kind.wide);
                let reducers = places.random.ports(reducers, self.ports);
                let reducers = reducers.into_iter().zip(lengths).map(|(port, mb)| (port, Bytes(mb * MB)));
                shapes.push(Shape { mappers, reducers: reducers.collect() });
            }
        }
        random.shuffle(&mut shapes);
        Ok(shapes)
    }

    /// Arrivals from time zero on, such that `busiest` bytes at one port are the load asked for.
    fn arrivals(&self, seed: u64, busiest: f64) -> Result<Vec<Instant>, GenerateError> {
        let mut random = Random::new(seed, Purpose::Arrivals);
        let draws = even_draws::<1>(&mut random, self.coflows as usize - 1, 0.0);
        let gaps: Vec<f64> = draws.into_iter().map(|[at]| GAPS.at(at)).collect();
        let span_ns = busiest / (self.rate.bytes_per_nano() * self.load);
        let scale = span_ns / gaps.iter().sum::<f64>();
        let mut now = 0.0;
        let later = gaps.into_iter().map(|gap| {
            now += gap * scale;
            whole_millis(now)
        });
        core::iter::once(Ok(Instant::ZERO)).chain(later).collect()
    }
}

impl Kind {
    /// Returns the numbers of mappers and reducers within the width of the class.
    fn counts(&self, ports: u32, mappers: f64, reducers: f64) -> (u32, u32) {
        let scale = if self.wide { f64::from(ports) / FITTED_PORTS } else { 1.0 };
        let count = |value: f64| ((value * scale + 0.5) as u32).clamp(1, ports);
        let (mut mappers, mut reducers) =
            (count(self.mappers.at(mappers)), count(self.reducers.at(reducers)));
        let flows = |mappers: u32, reducers: u32| u64::from(mappers) * u64::from(reducers);
        if self.wide {
            // Whichever side has room grows, so that one rack stays one rack.
            let most = flows(ports, ports).min(NARROW + 1);
            while flows(mappers, reducers) < most {
                let larger_is_full = mappers.max(reducers) == ports;
                let grow = if (reducers >= mappers) != larger_is_full { &mut reducers } else { &mut mappers };
                *grow += 1;
            }
        } else {
            while flows(mappers, reducers) > NARROW {
                let shrink = if reducers >= mappers { &mut reducers } else { &mut mappers };
                *shrink -= 1;
            }
        }
        (mappers, reducers)
    }

    /// MB that each reducer gets from every mapper, held to the length of the class.
    fn lengths(&self, random: &mut Random, ports: u32, reducers: u32, at: f64) -> Vec<u64> {
        let base = self.length.at(at);
        // Half a reducer fewer: if every rack has one, their number is unknown.
        let empty = (f64::from(ports) - f64::from(reducers) + 0.5) / (f64::from(ports) + 0.5);
        let merged = -libm::log(empty);
        let longest = if self.long { u64::MAX } else { LONG - 1 };
        let mut lengths: Vec<u64> = (0..reducers)
            .map(|_| ((base * random.positive_poisson(merged) as f64 + 0.5) as u64).clamp(1, longest))
            .collect();
        if self.long {
            let one = random.below(reducers.into()) as usize;
            if reducers > 1 && random.below(HOT_ONE_IN) == 0 {
                lengths[one] = lengths[one].max(HOT.at(random.unit()) as u64);
            }
            if lengths.iter().all(|&length| length < LONG) {
                lengths[one] = LONG;
            }
        }
        lengths
    }
}

/// Placement of mappers and reducers.
struct Places {
    random: Random,
    /// Running sums of the popularity of ports.
    popularity: Vec<f64>,
}

impl Places {
    fn new(ports: u32, seed: u64) -> Self {
        let mut random = Random::new(seed, Purpose::Places);
        let mut sum = 0.0;
        let popularity = (0..ports)
            .map(|_| {
                sum += libm::exp(POPULARITY_SIGMA * random.normal());
                sum
            })
            .collect();
        Self { random, popularity }
    }

    fn mappers(&mut self, count: u32, wide: bool) -> Vec<PortId> {
        let ports = self.popularity.len() as u32;
        // Drawing different ports by popularity takes ever longer as they run out.
        if wide || count > ports / 4 {
            return self.random.ports(count, ports);
        }
        let popularity = &self.popularity;
        let total = popularity[popularity.len() - 1];
        self.random.distinct(count, |random| {
            let mark = random.unit() * total;
            PortId(popularity.partition_point(|&sum| sum <= mark).min(popularity.len() - 1) as u32)
        })
    }
}

/// The bytes that the busiest port sends or receives.
fn busiest(ports: u32, shapes: &[Shape]) -> f64 {
    let mut sent = vec![0.0f64; ports as usize];
    let mut received = vec![0.0f64; ports as usize];
    for shape in shapes {
        let each = shape.bytes() / shape.mappers.len() as f64;
        for mapper in &shape.mappers {
            sent[mapper.index()] += each;
        }
        for (reducer, share) in &shape.reducers {
            received[reducer.index()] += share.as_f64() * shape.mappers.len() as f64;
        }
    }
    sent.into_iter().chain(received).fold(0.0, f64::max)
}
