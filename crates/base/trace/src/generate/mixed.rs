//! Flows with deadlines beside flows that only want to be done soon: the mix that Karuna is about
//! (SIGCOMM 2016, §2).
//!
//! Two Poisson processes between random pairs of ports, each with a load of its own. Flows without
//! deadline have measured sizes (`flow_sizes`); flows with one have sizes spread evenly over a
//! range, which may be a single size, and deadlines that are all the same or exponential. A
//! deadline is never shorter than a flow can meet on an empty network, with some room (`slack`;
//! pFabric's evaluation takes 1.25).
//!
//! The two kinds draw from streams of their own: more deadline traffic leaves the other flows where
//! they are, so a sweep of `urgent_load` compares equal with equal. Every flow is a task of its
//! own; those with a deadline are called `d1`, `d2`, …
//!
//! With `responses` above one, flows with a deadline are those of a query/response application
//! (Karuna §2.2): queries arrive as the Poisson process, and the responses to one of them all start
//! at once, from ports drawn for each, to the port that asked. The load stays what it is.
//!
//! What Karuna leaves open (rates, pairs, how many flows) is a parameter. Rejected: the rule of a
//! follow-up's scripts, by which a deadline is what is left of a share of the link
//! (docs/protocols.md §1.5). It ties deadlines to sizes, so that a sweep of one moves the other.

use cavalcade_model::{BitsPerSec, Bytes, Coflow, Flow, Nanos, PortId, Task, Workload, WorkloadBuilder};
use cavalcade_spec::Choice;

use super::flow_sizes::Sizes;
use super::parameters::parameters;
use super::random::{Purpose, Random};
use super::shape::{FlowBudget, instant, require_counts, require_load};
use super::{GenerateError, Recipe, require};

parameters! {
    /// Parameters of `mixed`.
    Mixed {
        /// number of flows without deadline
        flows: u32 = 2_000,
        /// number of ports
        ports: u32 = 16,
        /// load that flows without deadline offer to all ports together, as a share of their
        /// capacity
        load: f64 = 0.8,
        /// distribution of their sizes: websearch or datamining
        sizes: Sizes = Sizes::WebSearch,
        /// the same of flows with a deadline, which arrive until the last of the others has; 0 for
        /// none
        urgent_load: f64 = 0.05,
        /// smallest flow with a deadline
        smallest: Bytes = Bytes(2_000),
        /// the largest; sizes between them are equally likely
        largest: Bytes = Bytes(200_000),
        /// mean deadline, counted from the arrival
        deadline: Nanos = Nanos::from_millis(10),
        /// distribution of deadlines: exponential or fixed
        deadlines: Deadlines = Deadlines::Exponential,
        /// minimum deadline, as a multiple of the time that the flow takes alone
        slack: f64 = 1.25,
        /// number of flows with a deadline that arrive together for one port: the responses of a
        /// query
        responses: u32 = 1,
        /// rate of a port, which loads refer to
        rate: BitsPerSec = BitsPerSec(1_000_000_000),
    }
}

/// A law of deadlines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Deadlines {
    /// Exponential.
    Exponential,
    /// All the same.
    Fixed,
}

impl Choice for Deadlines {
    const WORDS: &'static [(&'static str, Self)] =
        &[("exponential", Deadlines::Exponential), ("fixed", Deadlines::Fixed)];
}

impl Recipe for Mixed {
    const NAME: &'static str = "mixed";
    const MEANING: &'static str = "flows with deadlines beside flows without, sizes measured";
    const SOURCE: &'static str = "Karuna §2.2; deadlines as pFabric §5 and D2TCP §4 draw them";

    fn generate(&self, seed: u64) -> Result<Workload, GenerateError> {
        let mean = self.check()?;
        let mut budget = FlowBudget::new();
        budget.spend(self.flows.into())?;
        let mut builder = WorkloadBuilder::new(self.ports);
        let mut random = Random::new(seed, Purpose::Arrivals);
        let mut places = Random::new(seed, Purpose::Places);
        let mut sizes = Random::new(seed, Purpose::Sizes);
        let gap = self.gap(mean, self.load);
        let mut now = 0.0;
        for index in 1..=self.flows {
            now += random.exponential() * gap;
            let [src, dst] = self.pair(&mut places);
            let measured = self.sizes.at(sizes.unit()).expect("the law was checked to be a measured one");
            let flow = Flow { src, dst, size: Bytes(measured as u64), wave: Nanos::ZERO };
            builder.coflow(index.to_string(), instant(now)?, vec![flow]);
        }
        if self.urgent_load > 0.0 {
            self.add_urgent(&mut builder, &mut budget, now, seed)?;
        }
        Ok(builder.build()?)
    }
}

impl Mixed {
    /// Checks everything; the mean size of flows without deadline.
    fn check(&self) -> Result<f64, GenerateError> {
        require_counts(self.ports, 2, 1)?;
        require_load(self.load, self.rate)?;
        require(self.flows > 0, "flows", self.flows, "at least 1")?;
        require((0.0..=100.0).contains(&self.urgent_load), "urgent_load", self.urgent_load, "0 to 100")?;
        require(self.smallest > Bytes::ZERO, "smallest", self.smallest, "at least 1B")?;
        let range = format_args!("{} to {}", self.smallest, Bytes(1 << 50)).to_string();
        require((self.smallest..=Bytes(1 << 50)).contains(&self.largest), "largest", self.largest, range)?;
        let most = Nanos::from_secs(365 * 24 * 3_600);
        require((Nanos(1)..=most).contains(&self.deadline), "deadline", self.deadline, "1ns to a year")?;
        require((1..=1_000_000).contains(&self.responses), "responses", self.responses, "1 to 1000000")?;
        require((0.0..=1e6).contains(&self.slack), "slack", self.slack, "0 to 1000000")?;
        let measured = self.sizes.mean();
        require(measured.is_some(), "sizes", self.sizes, "websearch or datamining")?;
        Ok(measured.unwrap_or_default())
    }

    /// The mean time between flows of `mean` bytes, in nanoseconds, that offer `load`.
    fn gap(&self, mean: f64, load: f64) -> f64 {
        mean / (load * f64::from(self.ports) * self.rate.bytes_per_nano())
    }

    /// Two different ports.
    fn pair(&self, random: &mut Random) -> [PortId; 2] {
        let src = PortId(random.below(self.ports.into()) as u32);
        [src, self.other_than(src, random)]
    }

    /// A port that is not `port`.
    fn other_than(&self, port: PortId, random: &mut Random) -> PortId {
        let other = random.below(u64::from(self.ports) - 1) as u32;
        PortId(other + u32::from(other >= port.0))
    }

    fn add_urgent(
        &self,
        builder: &mut WorkloadBuilder,
        budget: &mut FlowBudget,
        until: f64,
        seed: u64,
    ) -> Result<(), GenerateError> {
        let mut random = Random::new(seed, Purpose::Urgent);
        let mean = (self.smallest.as_f64() + self.largest.as_f64()) / 2.0;
        let gap = self.gap(mean * f64::from(self.responses), self.urgent_load);
        let (mut now, mut number) = (0.0, 0u64);
        loop {
            now += random.exponential() * gap;
            if now > until {
                return Ok(());
            }
            budget.spend(self.responses.into())?;
            let arrival = instant(now)?;
            let [mut src, dst] = self.pair(&mut random);
            for response in 0..self.responses {
                if response > 0 {
                    src = self.other_than(dst, &mut random);
                }
                number += 1;
                let (deadline, flow) = self.urgent(&mut random, src, dst)?;
                let task = Task::of_coflow(format!("d{number}"), arrival);
                builder.push(Task { deadline: Some(deadline), ..task }, vec![Coflow { flows: vec![flow] }]);
            }
        }
    }

    /// A flow with a deadline.
    fn urgent(&self, random: &mut Random, src: PortId, dst: PortId) -> Result<(Nanos, Flow), GenerateError> {
        let size = Bytes(random.between(self.smallest.get(), self.largest.get()));
        // Drawn under either law, so that the two differ in nothing else.
        let drawn = random.exponential();
        let mean = self.deadline.as_f64();
        let wanted = if self.deadlines == Deadlines::Fixed { mean } else { mean * drawn };
        let least = self.slack * size.as_f64() / self.rate.bytes_per_nano();
        let deadline = Nanos(instant(wanted.max(least).max(1.0))?.get());
        Ok((deadline, Flow { src, dst, size, wave: Nanos::ZERO }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn responses_of_a_query_come_at_once_to_the_port_that_asked_and_offer_the_same_load() {
        let mixed = Mixed { flows: 4_000, ports: 8, urgent_load: 0.2, ..Mixed::default() };
        let urgent = |mixed: &Mixed| {
            let made = mixed.generate(3).unwrap();
            let flows = made.coflows().filter(|coflow| coflow.task.deadline.is_some());
            flows.map(|coflow| (coflow.task.arrival, coflow.flows[0])).collect::<Vec<_>>()
        };
        let (single, queries) = (urgent(&mixed), urgent(&Mixed { responses: 20, ..mixed }));
        for query in queries.chunks(20) {
            assert!(query.iter().all(|(at, flow)| (*at, flow.dst) == (query[0].0, query[0].1.dst)));
            assert!(query.iter().all(|(_, flow)| flow.src != flow.dst));
            assert!(query.iter().any(|(_, flow)| flow.src != query[0].1.src));
        }
        let bytes = |flows: &[(_, Flow)]| flows.iter().map(|(_, flow)| flow.size.as_f64()).sum::<f64>();
        assert!((bytes(&queries) / bytes(&single) - 1.0).abs() < 0.2);
        assert_ne!(single[0].0, single[1].0);
    }
}
