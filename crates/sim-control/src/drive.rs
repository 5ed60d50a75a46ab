//! The driver: from instant to instant, moves bytes, lets machines talk, tells applications what happened, and carries out
//! what gates say.

use cavalcade_model::{Instant, Nanos};
use cavalcade_sim_fluid::Observer;
use cavalcade_sim_fluid::parts::instant;

use crate::applications::{Applications, Habits};
use crate::clock::EPOCH;
use crate::fluid::{Fluid, Happened};
use crate::world::World;

/// A run under way.
pub(crate) struct Drive<'a> {
    pub(crate) fluid: Fluid<'a>,
    pub(crate) world: World,
    pub(crate) applications: Applications,
    /// The true time at which the workload began, later by how long it was held since.
    begin: Instant,
    /// The workload stands still while machines go on.
    pub(crate) is_held: bool,
    happened: Vec<Happened>,
}

impl<'a> Drive<'a> {
    /// Brings `world` to the time at which the workload begins.
    pub(crate) fn new(fluid: Fluid<'a>, mut world: World, habits: Habits) -> Self {
        world.advance(EPOCH, &fluid);
        let applications = Applications::new(habits);
        Self { fluid, world, applications, begin: EPOCH, is_held: false, happened: Vec::new() }
    }

    /// Tells whether every coflow is done.
    pub(crate) fn is_done(&self) -> bool {
        self.fluid.is_done()
    }

    /// Does what happens next. With `until`, at that time at the latest, and machines go on while there is nothing to send.
    /// Returns whether anything is left to do.
    pub(crate) fn turn(&mut self, until: Option<Instant>, observer: &mut Option<&mut dyn Observer>) -> bool {
        let is_watched = until.is_some() || self.applications.are_busy();
        let talk = self.world.next().filter(|_| is_watched).into_iter().chain(until).min();
        let talk = talk.map(|when| when.max(self.world.now));
        if self.is_held {
            let Some(now) = talk else { return false };
            self.begin = self.begin + now.since(self.world.now);
            self.talk(now);
        } else {
            let bytes =
                self.fluid.next().min(self.applications.next().map_or(f64::INFINITY, Instant::as_f64));
            let (next, now) = match talk.map(|when| (when.since(self.begin), when)) {
                Some((passed, when)) if passed.as_f64() <= bytes => (passed.as_f64(), when),
                _ if bytes < f64::INFINITY => (bytes, self.begin + Nanos(instant(bytes).0)),
                _ => return false,
            };
            let mut happened = std::mem::take(&mut self.happened);
            self.fluid.advance(next.max(self.fluid.now), observer, &mut happened);
            self.talk(now);
            happened.drain(..).for_each(|what| self.tell(what, now));
            self.happened = happened;
        }
        self.settle(observer);
        true
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
    fn tell(&mut self, what: Happened, now: Instant) {
        let (fluid, world) = (&self.fluid, &mut self.world);
        match what {
            Happened::Finished(flow) => self.applications.finish(flow, fluid, world),
            Happened::Done(coflow) => self.applications.end(coflow, world),
            Happened::Arrived(flow) => self.applications.arrive(flow, fluid, world),
        }
        self.talk(now);
    }
}
