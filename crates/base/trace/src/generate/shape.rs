//! The common part of most generators: coflows of mappers and reducers, and when they arrive.

use cavalcade_model::{
    BitsPerSec, Bytes, Coflow, Flow, Instant, LATEST, Nanos, PortId, Task, TaskClass, Workload,
    WorkloadBuilder,
};

use super::random::{Purpose, Random};
use super::{GenerateError, MOST_FLOWS, require};

/// The most ports and coflows that a generator takes.
const MOST: u32 = 1 << 20;

/// A coflow: every mapper sends every reducer that reducer's share.
pub(super) struct Shape {
    pub(super) mappers: Vec<PortId>,
    /// Each reducer, and the bytes that it gets from every mapper.
    pub(super) reducers: Vec<(PortId, Bytes)>,
}

impl Shape {
    pub(super) fn width(&self) -> u64 {
        self.mappers.len() as u64 * self.reducers.len() as u64
    }

    pub(super) fn bytes(&self) -> f64 {
        let shares = self.reducers.iter().map(|(_, share)| share.as_f64()).sum::<f64>();
        shares * self.mappers.len() as f64
    }

    pub(super) fn flows(&self) -> Vec<Flow> {
        let mut flows = Vec::with_capacity(self.width() as usize);
        for &(dst, size) in &self.reducers {
            flows.extend(self.mappers.iter().map(|&src| Flow { src, dst, size, wave: Nanos::ZERO }));
        }
        flows
    }
}

/// An error unless there is something to generate, and not too much.
pub(super) fn require_counts(ports: u32, least_ports: u32, coflows: u32) -> Result<(), GenerateError> {
    require((least_ports..=MOST).contains(&ports), "ports", ports, format_args!("{least_ports} to {MOST}"))?;
    require((1..=MOST).contains(&coflows), "coflows", coflows, format_args!("1 to {MOST}"))
}

/// An error unless a load on links of `rate` means something.
pub(super) fn require_load(load: f64, rate: BitsPerSec) -> Result<(), GenerateError> {
    require(load > 0.0, "load", load, "more than 0 (1 keeps the links just busy)")?;
    require(rate > BitsPerSec::ZERO, "rate", rate, "more than 0bps")
}

/// An error unless sizes can be drawn between these, and offered at this load; a load of 0 has all
/// arrive at once.
pub(super) fn require_sizes(
    [smallest, largest]: [Bytes; 2],
    load: f64,
    rate: BitsPerSec,
) -> Result<(), GenerateError> {
    require(smallest > Bytes::ZERO, "smallest", smallest, "at least 1B")?;
    let range = format_args!("{smallest} to {}", Bytes(1 << 50)).to_string();
    require((smallest..=Bytes(1 << 50)).contains(&largest), "largest", largest, range)?;
    require(load >= 0.0, "load", load, "0 or more")?;
    require(rate > BitsPerSec::ZERO, "rate", rate, "more than 0bps")
}

/// Counts flows before they cost memory.
pub(super) struct FlowBudget(u64);

impl FlowBudget {
    pub(super) fn new() -> Self {
        Self(MOST_FLOWS)
    }

    pub(super) fn spend(&mut self, flows: u64) -> Result<(), GenerateError> {
        self.0 = self.0.checked_sub(flows).ok_or(GenerateError::TooManyFlows)?;
        Ok(())
    }
}

/// Background tasks, for which no user waits (Baraat §4.1), beside those that a generator is about:
/// each one flow between two ports.
pub(super) struct Background {
    pub(super) tasks: u32,
    pub(super) size: Bytes,
}

impl Background {
    pub(super) fn check(&self, ports: u32) -> Result<(), GenerateError> {
        require(self.tasks <= MOST, "background", self.tasks, format_args!("at most {MOST}"))?;
        let sized = (Bytes(1)..=Bytes(1 << 50)).contains(&self.size);
        require(sized, "background_size", self.size, "1B to 2^50 bytes")?;
        require(self.tasks == 0 || ports > 1, "background", self.tasks, "0 on a single port")
    }

    /// Adds them, arriving at any time from 0 to `until_ns`.
    pub(super) fn add(&self, builder: &mut WorkloadBuilder, ports: u32, until_ns: f64, seed: u64) {
        let mut random = Random::new(seed, Purpose::Background);
        for number in 1..=self.tasks {
            let ends = random.ports(2, ports);
            let flow = Flow { src: ends[0], dst: ends[1], size: self.size, wave: Nanos::ZERO };
            let arrival = Instant((random.unit() * until_ns) as u64);
            let task = Task::of_coflow(format!("background-{number}"), arrival);
            builder.push(Task { class: TaskClass::Background, ..task }, vec![Coflow { flows: vec![flow] }]);
        }
    }
}

/// Coflows 1, 2, … in the order given.
pub(super) fn assemble(
    ports: u32,
    coflows: impl IntoIterator<Item = (Instant, Shape)>,
) -> Result<Workload, GenerateError> {
    let mut builder = WorkloadBuilder::new(ports);
    for (index, (arrival, shape)) in coflows.into_iter().enumerate() {
        builder.coflow((index + 1).to_string(), arrival, shape.flows());
    }
    Ok(builder.build()?)
}

/// `count` arrivals of a Poisson process with `mean_gap_ns` between them, at whole milliseconds (as
/// traces have them).
pub(super) fn poisson_millis(
    random: &mut Random,
    count: usize,
    mean_gap_ns: f64,
) -> Result<Vec<Instant>, GenerateError> {
    let mut now = 0.0;
    (0..count)
        .map(|_| {
            now += random.exponential() * mean_gap_ns;
            whole_millis(now)
        })
        .collect()
}

/// A time in nanoseconds at the last whole millisecond.
pub(super) fn whole_millis(nanos: f64) -> Result<Instant, GenerateError> {
    instant(nanos).map(|at| Instant(at.0 - at.0 % 1_000_000))
}

/// A time in nanoseconds, rounded down.
pub(super) fn instant(nanos: f64) -> Result<Instant, GenerateError> {
    if nanos < LATEST.as_f64() { Ok(Instant(nanos as u64)) } else { Err(GenerateError::TooLong) }
}
