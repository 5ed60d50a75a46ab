//! `cassini`: training jobs that share links begin their iterations at times at which they want the
//! links one after the other.
//!
//! Under fair sharing jobs that communicate at the same time hold each other up in each iteration.
//! Where their patterns fit beside each other, beginning later once is all that it takes: CASSINI
//! rolls the iteration of each job up to a circle and turns the circles against each other until
//! what they ask of their links is as little as possible above what these have
//! (`circle`). No job has priority: flows share max-min.
//!
//! # How
//! The first iteration of a job that declares iterations ([`cavalcade_model::Iteration`]) is its
//! profile: which links its coflows load, for how long they would alone ([`Foresee::bottleneck`]),
//! and the pauses between. Whenever a profile has become known, shifts are found for all jobs that
//! meet on links. A job takes its place once: what it sends first of an iteration is held until its
//! time has come, and with it the whole iteration is later. Where all of them fit, a job that is
//! early in a later iteration is held again; where one is late, the places of all turn by as much,
//! so that they stay beside each other. Where they do not fit there is no time to hold to, and each
//! takes its place once only.
//!
//! Held is a cap of zero. What declares no iterations is shared fairly beside.
//!
//! # What differs from the paper
//! - It profiles a job before it is placed, and chooses among placements those whose jobs fit. Here
//!   the profile is that of the first iteration that is seen, and jobs stay where they are.
//! - It shifts jobs along a graph of jobs and links that must have no circle. Here the shifts of
//!   all jobs that meet are searched for at once, exactly where two fill one link.
//! - Collectives that overlap each other within a job are taken to begin when they did, however
//!   long another took.
//!
//! # Invariants
//! A job is held for less than an iteration at a time, and only where it has taken its place or
//! does so.

mod circle;

use std::collections::{BTreeMap, BTreeSet};

use cavalcade_model::{
    BitsPerSec, Clairvoyant, CoflowId, Decision, Discipline, Event, FlowId, Foresee, Instant, LinkId, Policy,
    Scope, Setting, TaskId, Terms,
};

use crate::definition::{About, Definition, Follows, Paper};
use circle::{Arc, Rhythm, can_be_full, places};

/// No parameters.
#[derive(Clone, Default)]
pub(crate) struct Cassini;

impl Definition for Cassini {
    const ABOUT: About = About {
        name: "cassini",
        title: "Training jobs shifted in time so that they want the links they share one after the other",
        source: "CASSINI (NSDI 2024), abstract: the circle",
        paper: Some(Paper {
            system: "CASSINI",
            venue: "NSDI",
            year: 2024,
            follows: Follows::SecondarySources,
            transport: None,
        }),
        knows: "the iterations that jobs declare, and of the first of each when it loads which links for how long",
        cost: "O(links) for a coflow of a first iteration; then a search that looks at up to a million ends of arcs",
    };

    fn terms(&self) -> Terms {
        let terms = Terms::strict(Scope::Fabric, Discipline::MaxMin);
        Terms { work_conserving: false, starvation_free: true, ..terms }
    }

    fn build(&self, _: &Setting<'_>) -> Policy {
        Policy::Clairvoyant(Box::<Instance>::default())
    }
}

#[derive(Default)]
struct Instance {
    /// All tasks that have declared iterations.
    jobs: BTreeMap<TaskId, Job>,
    /// The jobs for which shifts were found last, in groups that meet.
    groups: BTreeSet<Vec<TaskId>>,
}

#[derive(Default)]
struct Job {
    /// The last iteration that has begun, and when.
    iteration: Option<u32>,
    begun: Instant,
    active: BTreeSet<CoflowId>,
    /// When it last had nothing to send any more.
    paused: Instant,
    profile: Profile,
    rhythm: Option<Rhythm>,
    place: Option<Place>,
    /// Flows that are held, and until when.
    held: Vec<FlowId>,
    until: Option<Instant>,
}

/// The time of a job's iterations.
struct Place {
    /// The first of the jobs that it meets.
    group: TaskId,
    /// An iteration begins then, and one `every` so many nanoseconds before and behind.
    base: Instant,
    every: u64,
    /// True if the job has not come to it yet.
    is_new: bool,
    /// True if all that it meets fit beside it.
    is_kept: bool,
}

/// The part of an iteration by which one may miss its place when it takes it: five degrees, the
/// step in which the paper turns circles.
const IN_PLACE: u64 = 72;

/// What an iteration that could begin does.
enum Start {
    /// It begins, so many nanoseconds late.
    Late(u64),
    /// It is held until then.
    Held(Instant),
}

impl Place {
    fn start(&mut self, now: Instant) -> Start {
        let late = (i128::from(now.0) - i128::from(self.base.0)).rem_euclid(i128::from(self.every)) as u64;
        let most = match (std::mem::replace(&mut self.is_new, false), self.is_kept) {
            (true, _) => self.every / IN_PLACE,
            (false, true) => self.every / 2,
            (false, false) => return Start::Late(0),
        };
        match late <= most {
            true => Start::Late(if self.is_kept { late } else { 0 }),
            false => Start::Held(Instant(now.0.saturating_add(self.every - late))),
        }
    }
}

/// The first iteration of a job as it would be alone, while it is seen. Times count from its first
/// coflow.
#[derive(Default)]
struct Profile {
    /// A time alone, and when that was here.
    alone: u64,
    here: Instant,
    /// When coflows that are under way would end, the latest of them.
    end: u64,
    links: BTreeMap<LinkId, Vec<Arc>>,
}

impl Profile {
    /// The time alone at which something happens now.
    fn now(&self, now: Instant) -> u64 {
        self.alone.saturating_add(now.since(self.here).0)
    }

    fn arrive(&mut self, coflow: CoflowId, now: Instant, view: &dyn Foresee) {
        let from = self.now(now);
        let length = view.bottleneck(coflow).0.max(1);
        let to = from.saturating_add(length);
        (self.alone, self.here, self.end) = (from, now, self.end.max(to));
        view.loads(coflow, &mut |link, bytes, capacity| {
            let share = bytes.as_f64() / capacity.bytes_per_nano() / length as f64;
            self.links.entry(link).or_default().push(Arc { from, to, share: share.min(1.0) });
        });
    }

    /// Nothing is under way any more.
    fn pause(&mut self, now: Instant) {
        (self.alone, self.here) = (self.alone.max(self.end), now);
    }

    /// The rhythm of iterations of which the next begins now.
    fn rhythm(self, now: Instant) -> Rhythm {
        Rhythm {
            period: self.now(now),
            links: self.links.into_iter().map(|(link, arcs)| (link, merged(arcs))).collect(),
        }
    }
}

/// Arcs of one share that follow each other at once, as one.
fn merged(arcs: Vec<Arc>) -> Vec<Arc> {
    let mut all: Vec<Arc> = Vec::with_capacity(arcs.len());
    for arc in arcs {
        match all.last_mut() {
            Some(last) if last.to == arc.from && (last.share - arc.share).abs() < 1e-9 => last.to = arc.to,
            _ => all.push(arc),
        }
    }
    all
}

impl Instance {
    fn arrive(&mut self, coflow: CoflowId, now: Instant, view: &dyn Foresee, decision: &mut Decision) {
        let Some(iteration) = view.iteration(coflow) else { return };
        let task = view.coflow(coflow).task;
        let job = self.jobs.entry(task).or_default();
        let begins = job.iteration.is_none_or(|last| last < iteration.number);
        if begins && job.rhythm.is_none() && job.iteration.is_some() {
            let rhythm = std::mem::take(&mut job.profile).rhythm(now);
            (job.rhythm, job.begun) = (Some(rhythm), now);
            self.find_places(now, decision);
        }
        let job = self.jobs.get_mut(&task).expect("it has just been there");
        if job.rhythm.is_none() {
            if job.iteration.is_none() {
                job.profile.here = now;
            }
            job.profile.arrive(coflow, now, view);
        }
        job.active.insert(coflow);
        if begins {
            job.iteration = Some(iteration.number);
            self.start(task, now);
        }
        let job = self.jobs.get_mut(&task).expect("it has just been there");
        if job.until.is_some() {
            view.flows(coflow, &mut |flow| {
                job.held.push(flow);
                decision.cap(flow, Some(BitsPerSec::ZERO));
            });
            self.expect(now, decision);
        }
    }

    /// Begins an iteration, or holds it until its time.
    fn start(&mut self, task: TaskId, now: Instant) {
        let Some(job) = self.jobs.get_mut(&task) else { return };
        (job.until, job.begun) = (None, now);
        let Some(place) = &mut job.place else { return };
        let group = place.group;
        match place.start(now) {
            Start::Held(until) => (job.until, job.begun) = (Some(until), until),
            Start::Late(0) => {}
            Start::Late(late) => {
                let later = |at: Instant| Instant(at.0.saturating_add(late));
                for other in self.jobs.values_mut() {
                    let Some(place) = other.place.as_mut().filter(|place| place.group == group) else {
                        continue;
                    };
                    place.base = later(place.base);
                    if let Some(until) = other.until.map(later) {
                        (other.until, other.begun) = (Some(until), until);
                    }
                }
            }
        }
    }

    /// Finds a place for each of the jobs that meet, where these are others than before.
    fn find_places(&mut self, now: Instant, decision: &mut Decision) {
        // One that has paused for two iterations is over.
        let is_there = |job: &Job| {
            let period = job.rhythm.as_ref().map(|rhythm| rhythm.period);
            let paused = now.since(job.paused.max(job.begun)).0;
            period.is_some_and(|period| !job.active.is_empty() || paused <= 2 * period)
        };
        let there: Vec<TaskId> =
            self.jobs.iter().filter(|(_, job)| is_there(job)).map(|(&task, _)| task).collect();
        let groups = self.groups_of(&there);
        for group in groups.difference(&self.groups).cloned().collect::<Vec<_>>() {
            self.place(&group, now, decision);
        }
        self.groups = groups;
    }

    /// The jobs that meet on links that they could fill, or meet others that do.
    fn groups_of(&self, there: &[TaskId]) -> BTreeSet<Vec<TaskId>> {
        let mut on_links: BTreeMap<LinkId, Vec<TaskId>> = BTreeMap::new();
        for &task in there {
            let links = self.jobs[&task].rhythm.iter().flat_map(|rhythm| rhythm.links.keys());
            links.for_each(|&link| on_links.entry(link).or_default().push(task));
        }
        let mut group_of: BTreeMap<TaskId, TaskId> = there.iter().map(|&task| (task, task)).collect();
        let arcs = |task: &TaskId, link: &LinkId| {
            self.jobs[task]
                .rhythm
                .as_ref()
                .and_then(|rhythm| rhythm.links.get(link))
                .map_or(&[][..], Vec::as_slice)
        };
        for (link, met) in on_links.iter() {
            if !can_be_full(met.iter().map(|task| arcs(task, link))) {
                continue;
            }
            let least = met.iter().map(|task| group_of[task]).min();
            let joined: BTreeSet<TaskId> = met.iter().map(|task| group_of[task]).collect();
            if let (Some(least), true) = (least, joined.len() > 1) {
                group_of.values_mut().filter(|group| joined.contains(group)).for_each(|group| *group = least);
            }
        }
        let mut groups: BTreeMap<TaskId, Vec<TaskId>> = BTreeMap::new();
        group_of.into_iter().for_each(|(task, group)| groups.entry(group).or_default().push(task));
        groups.into_values().filter(|group| group.len() > 1).collect()
    }

    /// Gives each of these jobs its place. The first goes on as it does.
    fn place(&mut self, group: &[TaskId], now: Instant, decision: &mut Decision) {
        let rhythms: Vec<&Rhythm> = group.iter().filter_map(|task| self.jobs[task].rhythm.as_ref()).collect();
        let first = &self.jobs[&group[0]];
        let base = first.place.as_ref().filter(|place| !place.is_new).map_or(first.begun, |place| place.base);
        let begun = group.iter().map(|task| i128::from(self.jobs[task].begun.0) - i128::from(base.0));
        let found = places(&rhythms, &begun.collect::<Vec<i128>>());
        for (at, task) in group.iter().enumerate() {
            let job = self.jobs.get_mut(task).expect("a group has jobs");
            job.place = found.as_ref().map(|found| Place {
                group: group[0],
                base: Instant(base.0.saturating_add(found.shifts[at])),
                every: found.every[at],
                is_new: at > 0,
                is_kept: found.is_compatible,
            });
        }
        for &task in group {
            if self.jobs[&task].until.is_some() {
                self.start(task, now);
            }
        }
        self.release(now, decision);
        self.expect(now, decision);
    }

    /// Asks to be woken when the next job has been held for long enough.
    fn expect(&self, now: Instant, decision: &mut Decision) {
        let next = self.jobs.values().filter_map(|job| job.until).min();
        if let Some(next) = next.filter(|&next| next > now) {
            decision.wake_at(next);
        }
    }

    /// Lets go what is not held any more.
    fn release(&mut self, now: Instant, decision: &mut Decision) {
        for job in self.jobs.values_mut().filter(|job| job.until.is_none_or(|until| until <= now)) {
            job.until = None;
            job.held.drain(..).for_each(|flow| decision.cap(flow, None));
        }
    }

    fn finish(&mut self, coflow: CoflowId, now: Instant, view: &dyn Foresee) {
        let task = view.coflow(coflow).task;
        let Some(job) = self.jobs.get_mut(&task) else { return };
        if job.active.remove(&coflow) && job.active.is_empty() {
            job.paused = now;
            if job.rhythm.is_none() {
                job.profile.pause(now);
            }
        }
    }
}

impl Clairvoyant for Instance {
    fn handle(&mut self, now: Instant, event: Event, view: &dyn Foresee, decision: &mut Decision) {
        match event {
            Event::CoflowArrived(coflow) => self.arrive(coflow, now, view, decision),
            Event::CoflowFinished(coflow) => self.finish(coflow, now, view),
            Event::Wake => {
                self.release(now, decision);
                self.expect(now, decision);
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scripted::{Driven, Script, drive};
    use cavalcade_model::{Bytes, Iteration, Nanos};

    /// A coflow of `bytes` from port 0 in an iteration of a job, that arrives.
    fn begin(
        cassini: &mut Driven,
        script: &mut Script,
        job: u32,
        number: u32,
        now: u64,
        bytes: u64,
    ) -> (CoflowId, Decision) {
        let coflow = script.add_coflow(job, now);
        script.add_flow(coflow, 0, job + 1, bytes);
        script.declare(coflow, Iteration { number, bytes: Bytes(bytes), gpus: 2, compute: Nanos(1) });
        let decision = cassini.at(now, Event::CoflowArrived(coflow), script);
        (coflow, decision)
    }

    fn end(cassini: &mut Driven, script: &mut Script, coflow: CoflowId, now: u64, bytes: u64) {
        script.send(coflow.index(), bytes);
        cassini.at(now, Event::CoflowFinished(coflow), script);
    }

    #[test]
    fn the_second_of_two_jobs_is_held_until_the_first_has_sent() {
        let (mut script, mut cassini) = (Script::new(), drive("cassini"));
        // Both compute for 100 ns and send for 100, which takes 200 as long as they do so at once.
        let first = [0, 1].map(|job| begin(&mut cassini, &mut script, job, 0, 100, 100).0);
        for coflow in first {
            end(&mut cassini, &mut script, coflow, 300, 100);
        }
        let (one, goes) = begin(&mut cassini, &mut script, 0, 1, 400, 100);
        assert_eq!(goes, Decision::default());
        let (other, held) = begin(&mut cassini, &mut script, 1, 1, 400, 100);
        assert_eq!(held.caps, [(FlowId(3), Some(BitsPerSec::ZERO))]);
        assert_eq!(held.wake_at, Some(Instant(500)));
        end(&mut cassini, &mut script, one, 500, 100);
        let goes = cassini.at(500, Event::Wake, &script);
        assert_eq!((goes.caps, goes.wake_at), (vec![(FlowId(3), None)], None));
        end(&mut cassini, &mut script, other, 600, 100);
        // From here on each comes in time; one that is early waits, one that is late does not, and
        // the other is later by as much.
        let (early, held) = begin(&mut cassini, &mut script, 0, 2, 590, 100);
        assert_eq!((held.caps.len(), held.wake_at), (1, Some(Instant(600))));
        cassini.at(600, Event::Wake, &script);
        end(&mut cassini, &mut script, early, 700, 100);
        let (_, goes) = begin(&mut cassini, &mut script, 1, 2, 710, 100);
        assert_eq!(goes, Decision::default());
        let (_, held) = begin(&mut cassini, &mut script, 0, 3, 800, 100);
        assert_eq!(held.wake_at, Some(Instant(810)));
    }

    #[test]
    fn jobs_that_do_not_fit_take_their_place_once() {
        let (mut script, mut cassini) = (Script::new(), drive("cassini"));
        // Both send for 200 of 300 ns.
        let first = [0, 1].map(|job| begin(&mut cassini, &mut script, job, 0, 100, 200).0);
        for coflow in first {
            end(&mut cassini, &mut script, coflow, 500, 200);
        }
        let (one, _) = begin(&mut cassini, &mut script, 0, 1, 600, 200);
        let (other, held) = begin(&mut cassini, &mut script, 1, 1, 600, 200);
        assert!(held.wake_at > Some(Instant(600)), "{held:?}");
        cassini.at(held.wake_at.unwrap().0, Event::Wake, &script);
        end(&mut cassini, &mut script, one, 850, 200);
        end(&mut cassini, &mut script, other, 1000, 200);
        for (job, now) in [(0, 950), (1, 1100)] {
            let (coflow, goes) = begin(&mut cassini, &mut script, job, 2, now, 200);
            assert_eq!(goes, Decision::default());
            end(&mut cassini, &mut script, coflow, now + 250, 200);
        }
    }

    #[test]
    fn what_declares_no_iterations_and_what_meets_nobody_is_left_alone() {
        let (mut script, mut cassini) = (Script::new(), drive("cassini"));
        let plain = script.add_coflow(7, 0);
        script.add_flow(plain, 0, 8, 10);
        assert_eq!(cassini.at(0, Event::CoflowArrived(plain), &script), Decision::default());
        for number in 0..4 {
            let now = 20 + 200 * u64::from(number);
            let (coflow, decision) = begin(&mut cassini, &mut script, 0, number, now, 100);
            assert_eq!(decision, Decision::default());
            end(&mut cassini, &mut script, coflow, now + 100, 100);
        }
    }
}
