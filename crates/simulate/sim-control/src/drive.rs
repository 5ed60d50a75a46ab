//! The driver: from instant to instant, moves bytes, lets machines talk, tells applications what
//! happened, and carries out what gates say.
//!
//! # Idle time
//! While no coflow is under way, machines only assure each other that they are there. Once that has
//! settled, it repeats itself, and whole periods of it are skipped, however many: machines then
//! never see that time. So their clock is behind that of the workload by what was skipped, and
//! ahead by the time for which the workload was held.

use cavalcade_harness::RunError;
use cavalcade_model::{Instant, Nanos};
use cavalcade_sim_fluid::Observer;

use crate::applications::{Applications, Habits};
use crate::clock::EPOCH;
use crate::fluid::{Fluid, Happened};
use crate::world::World;

/// Leases after which idle machines have settled.
const SETTLED: u64 = 20;

/// Leases without a byte sent after which a run is taken to be stuck.
const STANDSTILL: u64 = 1_000;

/// A run under way.
pub(crate) struct Drive<'a> {
    pub(crate) fluid: Fluid<'a>,
    pub(crate) world: World,
    pub(crate) applications: Applications,
    /// How far machines' true time is ahead of the workload's, in nanoseconds.
    ahead: i128,
    /// The workload stands still while machines go on.
    pub(crate) is_held: bool,
    /// The machines' time when a byte last moved, or nothing was to be sent.
    moved_at: Instant,
    happened: Vec<Happened>,
}

impl<'a> Drive<'a> {
    /// Brings `world` to the time at which the workload begins.
    pub(crate) fn new(fluid: Fluid<'a>, mut world: World, habits: Habits) -> Self {
        world.advance(EPOCH, &fluid);
        let applications = Applications::new(habits);
        let ahead = i128::from(EPOCH.0);
        let (moved_at, happened) = (world.now, Vec::new());
        Self { fluid, world, applications, ahead, is_held: false, moved_at, happened }
    }

    /// Tells whether every coflow is done.
    pub(crate) fn is_done(&self) -> bool {
        self.fluid.is_done()
    }

    /// Does what happens next. With `until`, at that time at the latest, and machines go on while
    /// there is nothing to send. Returns whether anything is left to do.
    ///
    /// # Errors
    /// If it lies beyond the end of time, a policy has failed, or nothing is sent for long.
    pub(crate) fn turn(
        &mut self,
        until: Option<Instant>,
        observer: &mut Option<&mut dyn Observer>,
    ) -> Result<bool, RunError> {
        let is_watched = until.is_some() || self.applications.are_busy();
        let talk = self.world.next().filter(|_| is_watched).into_iter().chain(until).min();
        let talk = talk.map(|when| when.max(self.world.now));
        if self.is_held {
            let Some(now) = talk else { return Ok(false) };
            self.ahead += i128::from(now.since(self.world.now).0);
            self.talk(now);
        } else {
            let in_workload = |when: Instant| Instant((i128::from(when.0) - self.ahead).max(0) as u64);
            let awaited = talk.map(in_workload).into_iter().chain(self.applications.next()).min();
            let Some(next) = self.fluid.next(awaited)? else { return Ok(false) };
            let mut happened = std::mem::take(&mut self.happened);
            self.fluid.advance(next, observer, &mut happened);
            let now = self.skip_idle_time(is_watched);
            self.talk(now);
            happened.drain(..).for_each(|what| self.dispatch(what, now));
            self.happened = happened;
        }
        self.settle(observer);
        self.check_progress()?;
        Ok(true)
    }

    /// Checks that policies have not failed, and that something of what there is to send is sent.
    fn check_progress(&mut self) -> Result<(), RunError> {
        if let Some(fault) = self.world.policy_fault() {
            return Err(fault.clone().into());
        }
        if self.is_held || self.fluid.is_moving() || !self.applications.are_busy() {
            self.moved_at = self.world.now;
        }
        let patience = Nanos(STANDSTILL * self.world.site.coordinator.lease.0);
        match self.world.now.since(self.moved_at) < patience {
            true => Ok(()),
            false => Err(self.fluid.never_ends()),
        }
    }

    /// Returns the machines' time. Whole periods are left out where nothing was under way for long.
    fn skip_idle_time(&mut self, is_watched: bool) -> Instant {
        let now = i128::from(self.fluid.clock.instant().0) + self.ahead;
        let idle = now - i128::from(self.world.now.0);
        let settled = i128::from(SETTLED * self.world.site.coordinator.lease.0);
        if !is_watched && idle > settled {
            let period = i128::from(self.world.site.coordinator.period.0.max(1));
            self.ahead -= (idle - settled) / period * period;
        }
        // Of what happens inside a nanosecond, machines hear at its end.
        Instant((i128::from(self.fluid.clock.instant().0) + self.ahead) as u64)
    }

    /// Carries out at once what was done to machines from outside.
    pub(crate) fn take_note(&mut self) {
        self.talk(self.world.now);
        self.settle(&mut None);
    }

    /// Carries out what gates say.
    fn settle(&mut self, observer: &mut Option<&mut dyn Observer>) {
        for (flow, cap) in self.applications.caps() {
            self.fluid.set_cap(flow, cap);
        }
        self.fluid.refill(observer);
    }

    /// Lets machines talk up to `now`, and applications hear it.
    fn talk(&mut self, now: Instant) {
        self.world.advance(now, &self.fluid);
        self.applications.pause(&self.fluid, &mut self.world);
        self.applications.pursue(&self.fluid, &mut self.world);
    }

    /// Tells applications what happened to their bytes.
    fn dispatch(&mut self, what: Happened, now: Instant) {
        let (fluid, world) = (&self.fluid, &mut self.world);
        match what {
            Happened::Finished(flow) => self.applications.finish(flow, fluid, world),
            Happened::Done(coflow) => self.applications.end(coflow, world),
            Happened::Arrived(flow) => self.applications.arrive(flow, fluid, world),
        }
        self.talk(now);
    }
}
