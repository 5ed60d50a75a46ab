//! Partition–aggregate with a tail: the same small tasks, some of them many times heavier (Baraat
//! §2, §5.2; Table 4).
//!
//! A task has a flow from each of its `senders` to each of its `receivers`. The receivers are drawn
//! from the first `aggregators` ports, the senders from the others: with one aggregator all tasks
//! meet at one link, with several and more than one receiver a task waits for several links, as a
//! shuffle does. A flow's size is uniform from `smallest` to `largest`, times a factor of its task,
//! whose law is the `tail`:
//!
//! | tail | factor of a task | stands for |
//! |---|---|---|
//! | `none` | 1 | Baraat's uniform workload |
//! | `two:0.15:7` | 7 with probability 0.15, else 1 | search: "15 % significantly heavier" (Baraat §2.1); the 7 is ours |
//! | `pareto:1.1:10000` | Pareto with shape 1.1 from 1 to 10,000 | MapReduce inputs (Baraat §5.2.3 names the law) |
//! | `lognormal:2` | log-normal, median 1, σ = 2, cut at e^(4σ) | the same, with a lighter end |
//!
//! Tasks arrive as a Poisson process at `load` on the links into the aggregators, by the mean of
//! the laws and not of the draws; with `load=0` all are there at time zero.

use core::fmt;

use cavalcade_model::{BitsPerSec, Bytes, Flow, Instant, Nanos, PortId, Workload, WorkloadBuilder};
use cavalcade_spec::Value;

use super::parameters::parameters;
use super::random::{Purpose, Random};
use super::shape::{FlowBudget, instant, require_counts};
use super::{GenerateError, Recipe, require};

parameters! {
    /// Parameters of `tailed`.
    Tailed {
        /// number of tasks
        tasks: u32 = 1_000,
        /// number of ports that a task sends from
        senders: u32 = 40,
        /// number of ports that each of these sends to
        receivers: u32 = 1,
        /// number of ports
        ports: u32 = 41,
        /// number of ports that are aggregators
        aggregators: u32 = 1,
        /// smallest flow, before its task's factor
        smallest: Bytes = Bytes(2_000),
        /// largest flow, before its task's factor
        largest: Bytes = Bytes(50_000),
        /// distribution of the factor of a task
        tail: Tail = Tail::None,
        /// offered load on the links into the aggregators, as a share of their capacity; 0 lets all
        /// tasks arrive at once
        load: f64 = 0.8,
        /// rate of a port, which the load refers to
        rate: BitsPerSec = BitsPerSec(1_000_000_000),
    }
}

/// Distribution of task sizes relative to the lightest.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Tail {
    /// All tasks are alike.
    None,
    /// Some tasks are heavier by one factor.
    Two {
        /// The share of heavy tasks.
        share: f64,
        /// Their factor.
        factor: f64,
    },
    /// A Pareto law from 1 to a bound.
    Pareto {
        /// The exponent of the tail: the smaller, the heavier.
        shape: f64,
        /// The largest factor.
        largest: f64,
    },
    /// A log-normal law with median 1, cut at e^(4σ).
    LogNormal {
        /// σ of the logarithm.
        sigma: f64,
    },
}

/// Cut of the log-normal distribution, in σ above its median.
const CUT: f64 = 4.0;

impl fmt::Display for Tail {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Tail::None => f.write_str("none"),
            Tail::Two { share, factor } => write!(f, "two:{share}:{factor}"),
            Tail::Pareto { shape, largest } => write!(f, "pareto:{shape}:{largest}"),
            Tail::LogNormal { sigma } => write!(f, "lognormal:{sigma}"),
        }
    }
}

impl Value for Tail {
    fn read(&mut self, text: &str) -> bool {
        Self::parse(text).map(|tail| *self = tail).is_some()
    }
    fn write(&self) -> String {
        self.to_string()
    }
    fn expected(&self) -> String {
        "none, two:SHARE:FACTOR (share 0 to 1, factor 1 to 1e6), pareto:SHAPE:LARGEST (shape 0.1 to 10 but not 1, \
         largest above 1 to 1e6) or lognormal:SIGMA (above 0 to 4)"
            .to_owned()
    }
}

impl Tail {
    fn parse(text: &str) -> Option<Self> {
        let (law, numbers) = text.split_once(':').unwrap_or((text, ""));
        let numbers: Vec<f64> =
            numbers.split_terminator(':').map(|part| part.parse().ok()).collect::<Option<_>>()?;
        let read = match (law, numbers.as_slice()) {
            ("none", []) => Tail::None,
            ("two", &[share, factor]) => Tail::Two { share, factor },
            ("pareto", &[shape, largest]) => Tail::Pareto { shape, largest },
            ("lognormal", &[sigma]) => Tail::LogNormal { sigma },
            _ => return None,
        };
        read.is_usable().then_some(read)
    }

    fn is_usable(&self) -> bool {
        match *self {
            Tail::None => true,
            Tail::Two { share, factor } => (0.0..=1.0).contains(&share) && (1.0..=1e6).contains(&factor),
            Tail::Pareto { shape, largest } => {
                (0.1..=10.0).contains(&shape) && shape != 1.0 && largest > 1.0 && largest <= 1e6
            }
            Tail::LogNormal { sigma } => sigma > 0.0 && sigma <= 4.0,
        }
    }

    /// A factor.
    pub(super) fn draw(&self, random: &mut Random) -> f64 {
        match *self {
            Tail::None => 1.0,
            Tail::Two { share, factor } => {
                if random.unit() < share {
                    factor
                } else {
                    1.0
                }
            }
            Tail::Pareto { shape, largest } => {
                let beyond = libm::pow(largest, -shape);
                libm::pow(1.0 - random.unit() * (1.0 - beyond), -1.0 / shape)
            }
            Tail::LogNormal { sigma } => libm::exp(sigma * random.normal().min(CUT)),
        }
    }

    /// The mean of the law.
    pub(super) fn mean(&self) -> f64 {
        match *self {
            Tail::None => 1.0,
            Tail::Two { share, factor } => 1.0 + share * (factor - 1.0),
            Tail::Pareto { shape, largest } => {
                let beyond = libm::pow(largest, -shape);
                shape / (shape - 1.0) * (1.0 - libm::pow(largest, 1.0 - shape)) / (1.0 - beyond)
            }
            Tail::LogNormal { sigma } => {
                // What lies beyond the cut counts as the cut.
                let normal = |z: f64| 0.5 * libm::erfc(-z * core::f64::consts::FRAC_1_SQRT_2);
                libm::exp(sigma * sigma / 2.0) * normal(CUT - sigma) + libm::exp(CUT * sigma) * normal(-CUT)
            }
        }
    }
}

impl Recipe for Tailed {
    const NAME: &'static str = "tailed";
    const MEANING: &'static str = "partition–aggregate tasks of which some are much heavier than others";
    const SOURCE: &'static str = "Baraat §2.1, §5.2; the laws of the tail are our assumption";

    fn generate(&self, seed: u64) -> Result<Workload, GenerateError> {
        self.check()?;
        let width = u64::from(self.senders) * u64::from(self.receivers);
        FlowBudget::new().spend(u64::from(self.tasks).saturating_mul(width))?;
        let mut sizes = Random::new(seed, Purpose::Sizes);
        let mut places = Random::new(seed, Purpose::Places);
        let mut shapes = Random::new(seed, Purpose::Shapes);
        let mut arrivals = Random::new(seed, Purpose::Arrivals);
        let mean_gap_ns = self.mean_gap_ns();
        let mut now = 0.0;
        let mut builder = WorkloadBuilder::new(self.ports);
        for task in 1..=self.tasks {
            now += arrivals.exponential() * mean_gap_ns;
            let factor = self.tail.draw(&mut shapes);
            let receivers = places.ports(self.receivers, self.aggregators);
            let senders = places.ports(self.senders, self.ports - self.aggregators);
            let mut flow = |src: PortId, dst: PortId| {
                let base = sizes.between(self.smallest.0, self.largest.0) as f64;
                let size = Bytes(((base * factor) as u64).max(1));
                Flow { src: PortId(src.0 + self.aggregators), dst, size, wave: Nanos::ZERO }
            };
            let mut flows = Vec::with_capacity(width as usize);
            for &dst in &receivers {
                flows.extend(senders.iter().map(|&src| flow(src, dst)));
            }
            let arrival = if self.load > 0.0 { instant(now)? } else { Instant::ZERO };
            builder.coflow(task.to_string(), arrival, flows);
        }
        Ok(builder.build()?)
    }
}

impl Tailed {
    fn mean_gap_ns(&self) -> f64 {
        let mean_flow = (self.smallest.as_f64() + self.largest.as_f64()) / 2.0 * self.tail.mean();
        let bytes = mean_flow * f64::from(self.senders) * f64::from(self.receivers);
        let carried = f64::from(self.aggregators) * self.rate.bytes_per_nano();
        if self.load > 0.0 { bytes / (self.load * carried) } else { 0.0 }
    }

    fn check(&self) -> Result<(), GenerateError> {
        require_counts(self.ports, 2, 1)?;
        require(self.tasks > 0, "tasks", self.tasks, "at least 1")?;
        let range = format_args!("1 to {}, so that ports are left to send", self.ports - 1).to_string();
        require((1..self.ports).contains(&self.aggregators), "aggregators", self.aggregators, range)?;
        let others = self.ports - self.aggregators;
        let range = format_args!("1 to {others}, the ports that are no aggregators").to_string();
        require((1..=others).contains(&self.senders), "senders", self.senders, range)?;
        let range = format_args!("1 to {}, the number of aggregators", self.aggregators).to_string();
        require((1..=self.aggregators).contains(&self.receivers), "receivers", self.receivers, range)?;
        require(self.smallest > Bytes::ZERO, "smallest", self.smallest, "at least 1B")?;
        let range = format_args!("{} to {}", self.smallest, Bytes(1 << 40)).to_string();
        let in_range = (self.smallest..=Bytes(1 << 40)).contains(&self.largest);
        require(in_range, "largest", self.largest, range)?;
        require(self.load >= 0.0, "load", self.load, "0 or more")?;
        require(self.rate > BitsPerSec::ZERO, "rate", self.rate, "more than 0bps")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tail_reads_what_it_prints_and_refuses_what_makes_no_law() {
        for text in ["none", "two:0.15:7", "pareto:1.1:10000", "lognormal:2"] {
            assert_eq!(Tail::parse(text).unwrap().to_string(), text);
        }
        for text in
            ["", "two", "two:2:7", "two:0.1:0.5", "pareto:1:100", "pareto:2:1", "lognormal:0", "none:1"]
        {
            assert!(Tail::parse(text).is_none(), "{text}");
        }
    }

    #[test]
    fn draws_have_the_mean_that_the_load_is_computed_with() {
        for tail in ["two:0.15:7", "pareto:1.5:1000", "lognormal:1"] {
            let tail = Tail::parse(tail).unwrap();
            let mut random = Random::new(5, Purpose::Shapes);
            let mean = (0..400_000).map(|_| tail.draw(&mut random)).sum::<f64>() / 400_000.0;
            assert!((mean / tail.mean() - 1.0).abs() < 0.03, "{tail}: {mean} against {}", tail.mean());
        }
    }

    #[test]
    fn the_load_is_offered_to_the_aggregators() {
        let tailed = Tailed { tasks: 4_000, ports: 44, aggregators: 4, receivers: 2, ..Tailed::default() };
        let workload = tailed.generate(1).unwrap();
        let last = workload.tasks().last().unwrap().arrival.0 as f64;
        let load = workload.bytes().as_f64() / (4.0 * 0.125 * last);
        assert!((load - 0.8).abs() < 0.05, "{load}");
        assert!(workload.flows().iter().all(|flow| flow.dst.0 < 4 && flow.src.0 >= 4));
        assert!(workload.coflows().all(|coflow| coflow.width() == 80));
    }
}
