//! Odd but legal workloads, and what holds for every run of one: tiny and huge flows, at one
//! instant and decades apart, to themselves, over slow and fast links. The tests of engines and the
//! fuzz target `run_odd` draw from it.

use std::cell::Cell;

use cavalcade_harness::RunError;
use cavalcade_metrics::Outcome;
use cavalcade_model::{
    BitsPerSec, Bytes, Fabric, FineInstant, Flow, FlowId, Instant, Nanos, PolicyFactory, PortId, Workload,
    WorkloadBuilder,
};
use cavalcade_policy::{Configured, parse, registry};
use cavalcade_sim_fluid::{Observer, Options, simulate};
use cavalcade_validate::{Checks, Segment, validate};

const PORTS: u32 = 3;

/// Cancels a run at this poll (there is one in 16 events), so that one that never ends fails.
const MOST_LOOKS: u32 = 1280;

/// The most bits that magnitudes have.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    pub(crate) bytes: u32,
    pub(crate) rate: (u32, u32),
    pub(crate) arrival: u32,
}

/// Whatever ends within 292 years, and more.
pub(crate) const ANY: Limits = Limits { bytes: 44, rate: (0, 39), arrival: 60 };

/// One workload, the policy to run it under, and the time by which its trace is taken later.
#[derive(Clone, Debug)]
pub(crate) struct Odd {
    /// From, to, bytes and arrival of each flow.
    pub(crate) flows: Vec<(u32, u32, u64, u64)>,
    pub(crate) rate: BitsPerSec,
    pub(crate) policy: Configured,
    pub(crate) shift: Nanos,
}

impl Odd {
    /// Draws one from a stream of numbers that ends in zeros.
    pub(crate) fn draw(limits: Limits, numbers: impl IntoIterator<Item = u64>) -> Self {
        let mut numbers = numbers.into_iter();
        let mut next = || numbers.next().unwrap_or(0);
        let policies = registry();
        let policy = &policies[(next() % policies.len() as u64) as usize];
        let rate = magnitude(&mut next, limits.rate.0, limits.rate.1);
        // With the latest arrival it is within the latest that a workload takes.
        let shift = magnitude(&mut next, 0, 60);
        let instants: Vec<u64> = (0..=next() % 3)
            .map(|_| if next().is_multiple_of(2) { 0 } else { magnitude(&mut next, 0, limits.arrival) })
            .collect();
        let flows = (0..=next() % 7)
            .map(|_| {
                let mut port = || (next() % u64::from(PORTS)) as u32;
                let (src, dst) = (port(), port());
                let size = magnitude(&mut next, 0, limits.bytes);
                (src, dst, size, instants[(next() % instants.len() as u64) as usize])
            })
            .collect();
        let policy = parse(policy.name).expect("a registered name is a policy");
        Self { flows, rate: BitsPerSec(rate), policy, shift: Nanos(shift) }
    }

    /// The workload, with its trace taken so much later; one coflow for each flow.
    pub(crate) fn workload(&self, later: Nanos) -> Workload {
        let mut builder = WorkloadBuilder::new(PORTS);
        for (name, &(src, dst, size, arrival)) in self.flows.iter().enumerate() {
            let flow = Flow { src: PortId(src), dst: PortId(dst), size: Bytes(size), wave: Nanos::ZERO };
            builder.coflow(name.to_string(), Instant(arrival) + later, vec![flow]);
        }
        builder.build().expect("an odd workload is legal")
    }

    pub(crate) fn fabric(&self) -> Fabric {
        Fabric::big_switch(PORTS, self.rate).expect("a rate is above zero")
    }
}

/// A number with `least` to `most` bits after its first.
fn magnitude(next: &mut impl FnMut() -> u64, least: u32, most: u32) -> u64 {
    let bits = least + (next() % u64::from(most - least + 1)) as u32;
    1 << bits | next() & ((1 << bits) - 1)
}

/// Keeps a schedule, and gives up on a run of more events than anybody would wait for.
#[derive(Default)]
struct Watch {
    schedule: Vec<Segment>,
    looks: Cell<u32>,
}

impl Observer for Watch {
    fn segment(&mut self, flow: FlowId, from: FineInstant, to: FineInstant, bytes_per_nano: f64) {
        self.schedule.push(Segment { flow, from, to, bytes_per_nano });
    }

    fn is_cancelled(&self) -> bool {
        self.looks.set(self.looks.get() + 1);
        self.looks.get() > MOST_LOOKS
    }
}

fn run(odd: &Odd, workload: &Workload) -> (Result<Outcome, RunError>, Vec<Segment>) {
    let mut watch = Watch::default();
    let outcome = simulate(workload, &odd.fabric(), &odd.policy, &Options::default(), Some(&mut watch));
    (outcome, watch.schedule)
}

/// Checks that a run of the fluid simulator ends with a valid schedule and with the same outcome
/// whenever its trace was taken, or says that there is not so much time.
///
/// # Errors
/// What does not hold.
pub(crate) fn fluid_holds(odd: &Odd) -> Result<(), String> {
    let early = odd.workload(Nanos::ZERO);
    let label = odd.policy.label();
    let (outcome, schedule) = run(odd, &early);
    let outcome = match outcome {
        Err(RunError::Cancelled | RunError::TooSlow { .. } | RunError::TooLate { .. }) => return Ok(()),
        outcome => outcome.map_err(|error| format!("{label}: {error}"))?,
    };
    let checks = Checks { work_conservation: odd.policy.terms().work_conserving };
    validate(&early, &odd.fabric(), schedule, &outcome, checks)
        .map_err(|violation| format!("{label}: {violation}"))?;
    match run(odd, &odd.workload(odd.shift)).0 {
        Ok(late) if late != outcome => Err(format!("{label}: {outcome:?} becomes {late:?}")),
        _ => Ok(()),
    }
}
