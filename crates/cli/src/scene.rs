//! A workload on a fabric under conditions: everything of a run but the policy.

use cavalcade_metrics::Outcome;
use cavalcade_model::{Fabric, Nanos, PolicyFactory, Workload};
use cavalcade_policy::Configured;
use cavalcade_sim_control::ControlPlane;
use cavalcade_sim_fluid::{Observer, Options, simulate};

use crate::arguments::Conditions;
use crate::failure::Failure;
use crate::parallel::Progress;

/// What policies are run on.
pub(crate) struct Scene {
    /// The workload, as the conditions have it.
    pub(crate) workload: Workload,
    /// The fabric.
    pub(crate) fabric: Fabric,
    /// The conditions.
    pub(crate) conditions: Conditions,
}

impl Scene {
    /// Puts `workload` on the fabric of the conditions: a big switch where they name none.
    ///
    /// # Errors
    /// Where there can be no such fabric, it cannot carry the workload, or there are more counters than task-ids.
    pub(crate) fn new(workload: Workload, conditions: Conditions) -> Result<Self, Failure> {
        let workload = if conditions.offline { workload.offline() } else { workload };
        let counters = conditions.counters;
        let workload = workload
            .with_counters(counters)
            .map_err(|error| Failure::usage(format!("--counters {counters}: {error}")))?;
        let fabric = match &conditions.fabric {
            Some(fabric) => fabric.build(conditions.rate())?,
            None => Fabric::big_switch(workload.ports(), conditions.rate())
                .map_err(|error| Failure::usage(format!("--rate {}: {error}", conditions.rate())))?,
        };
        fabric.check(&workload).map_err(|error| Failure::input(error.to_string()))?;
        Ok(Self { workload, fabric, conditions })
    }

    /// Runs `policy`; `link_use` records how busy links were.
    pub(crate) fn run(&self, policy: &Configured, link_use: bool, progress: &Progress) -> Outcome {
        self.observe(policy, link_use, &mut Bystander { meter: Meter::new(progress) })
    }

    /// Runs `policy` under the live control plane; `link_use` records how busy links were.
    ///
    /// # Errors
    /// Where the fabric is more than hosts on a switch, which is all that a coordinator knows.
    pub(crate) fn run_controlled(
        &self,
        policy: &Configured,
        period: Nanos,
        link_use: bool,
        progress: &Progress,
    ) -> Result<Outcome, Failure> {
        if self.conditions.fabric.is_some() {
            return Err(Failure::usage("--engine control: a coordinator knows of hosts on one switch only")
                .help("leave out --fabric"));
        }
        let Conditions { control_delay: delay, control_loss: loss, seed, cpu_order, allocator, .. } =
            self.conditions;
        let policy = policy.live();
        let quiet = policy.quiet(self.workload.ports());
        let conditions = cavalcade_sim_control::Conditions { period, quiet, delay, loss, seed };
        let plane = ControlPlane::new(move || Box::new(policy.clone()), conditions);
        let (cpu_order, allocator) = (cpu_order.into(), allocator.into());
        let options = Options { link_use, cpu_order, allocator, ..Options::default() };
        let observer: &mut dyn Observer = &mut Bystander { meter: Meter::new(progress) };
        let mut outcome = simulate(&self.workload, &self.fabric, &plane, &options, Some(observer));
        outcome.counts.messages = plane.traffic().messages();
        Ok(outcome)
    }

    /// Runs `policy` under the eyes of `observer`.
    pub(crate) fn observe(
        &self,
        policy: &Configured,
        link_use: bool,
        observer: &mut dyn Observer,
    ) -> Outcome {
        let Conditions { control_delay, control_loss, seed, cpu_order, allocator, .. } = self.conditions;
        let (cpu_order, allocator) = (cpu_order.into(), allocator.into());
        let options = Options { control_delay, control_loss, seed, link_use, cpu_order, allocator };
        simulate(&self.workload, &self.fabric, policy, &options, Some(observer))
    }
}

/// Turns a running total of coflows into progress.
pub(crate) struct Meter<'a> {
    progress: &'a Progress,
    done: usize,
}

impl<'a> Meter<'a> {
    /// A meter of one run.
    pub(crate) fn new(progress: &'a Progress) -> Self {
        Self { progress, done: 0 }
    }

    /// So many coflows of the run are done.
    pub(crate) fn reach(&mut self, done: usize) {
        self.progress.add(done.saturating_sub(self.done));
        self.done = self.done.max(done);
    }
}

/// Looks at progress alone, so that the engine need not put segments together.
struct Bystander<'a> {
    meter: Meter<'a>,
}

impl Observer for Bystander<'_> {
    fn wants_segments(&self) -> bool {
        false
    }

    fn progress(&mut self, done_coflows: usize) {
        self.meter.reach(done_coflows);
    }
}
