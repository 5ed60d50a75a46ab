//! `dcoflow`: coflows that cannot make their deadline are found out early and put behind those that
//! can.
//!
//! Under overload, earliest deadline first serves what will be late anyway and makes the next one
//! late with it. DCoflow decides at each arrival who is admitted, and in which order, so that as
//! many as possible are in time:
//!
//! 1. Fill the order from its last place. The link with most to send is the bottleneck. If, of the
//!    coflows there, the one with the latest deadline would still be in time as the last of all, it
//!    takes the last place.
//! 2. Else one has to give way: the coflow of the bottleneck that stands in the way most, by
//!    `Σ over links: load / weight × (all that is to be sent there − its deadline)⁺`, keeps this
//!    place on probation.
//! 3. With the order complete, those on probation are looked at from the first to the last: who
//!    would be late after those before it is rejected, who would not stays where it is.
//!
//! Times are estimates: on each link, the loads of those before and its own. A greedy network comes
//! close to that.
//!
//! # Here
//! No coflow is turned away: the bytes of a rejected coflow are sent when no admitted one can use
//! the capacity. Each arrival and completion decides again about all, also about those rejected
//! before, as long as their deadline has not passed. Admitted coflows are of class 0, those without
//! a deadline of class 1, rejected and late ones of class 2; the latter two by the time that they
//! need alone, which is `sebf`. The deadline of a coflow is that of its task.
//!
//! The index is the sum over all links of the published code's second version; the first takes the
//! largest term instead. Weights are the paper's successor's (WDCoflow). Its choice by dynamic
//! programming of who may be rejected is left out.
//!
//! # Invariants
//! If all coflows could be in time one after the other on each link in order of their deadlines,
//! none is rejected. What rounds to in time is in time: remaining bytes are whole, so an admitted
//! coflow that needs all its time would otherwise be rejected for a byte.

use cavalcade_model::{CoflowId, Discipline, Foresee, Instant, Policy, Priority, Scope, Setting, Terms};
use cavalcade_spec::Parameter;

use crate::definition::{About, DISCIPLINE, Definition, Follows, Paper};
use crate::support::link_loads::LinkLoads;
use crate::support::order::{Order, Ordered};

/// Parameters of `dcoflow`.
#[derive(Clone)]
pub(crate) struct Dcoflow {
    discipline: Discipline,
}

impl Default for Dcoflow {
    fn default() -> Self {
        Self { discipline: Discipline::Greedy }
    }
}

impl Definition for Dcoflow {
    const ABOUT: About = About {
        name: "dcoflow",
        title: "Deadlines with admission: who would be late gives way, the others are ordered to be in time",
        source: "DCoflow (arXiv 2205.01229) Algorithms 1 and 2, and its authors' code",
        paper: Some(Paper {
            system: "DCoflow",
            venue: "arXiv 2205.01229",
            year: 2022,
            follows: Follows::ReleasedCode,
            transport: None,
        }),
        knows: "the remaining bytes of every coflow on every link, the capacities, deadlines, and weights",
        cost: "O(n² + n·links) for n active coflows, O(n·links) more for each on probation, at each arrival and completion of a coflow",
    };

    const PARAMETERS: &'static [Parameter<Self>] =
        &[Parameter { name: "discipline", meaning: DISCIPLINE, field: |p| &mut p.discipline }];

    fn terms(&self) -> Terms {
        Terms::strict(Scope::Fabric, self.discipline)
    }

    fn build(&self, _: &Setting<'_>) -> Policy {
        Policy::Clairvoyant(Box::new(Ordered::<Admission>::default()))
    }
}

/// Classes.
const ADMITTED: u16 = 0;
const NO_DEADLINE: u16 = 1;
const REJECTED: u16 = 2;

/// The order that the last place has: counted back from there, few orders change when the first
/// coflow ends.
const END: u64 = 1 << 32;

impl Order for Admission {
    fn order(&mut self, now: Instant, coflows: &[CoflowId], view: &dyn Foresee) -> Vec<Priority> {
        let in_time = |coflow| view.coflow(coflow).deadline.filter(|&deadline| deadline > now);
        self.clear();
        for &coflow in coflows {
            let Some(deadline) = in_time(coflow) else { continue };
            self.begin(deadline.since(now).as_f64(), f64::from(view.coflow(coflow).weight));
            view.loads(coflow, &mut |link, bytes, capacity| {
                self.loads.load(link.index(), bytes.as_f64() / capacity.bytes_per_nano());
            });
        }
        let mut places = self.admit().into_iter();
        let mut priority = |&coflow: &CoflowId| {
            let admitted = in_time(coflow).and_then(|_| places.next().expect("a verdict for each coflow"));
            match (admitted, view.coflow(coflow).deadline) {
                (Some(place), _) => Priority::new(ADMITTED, END - place),
                (None, Some(_)) => Priority::new(REJECTED, view.bottleneck(coflow).0),
                (None, None) => Priority::new(NO_DEADLINE, view.bottleneck(coflow).0),
            }
        };
        coflows.iter().map(&mut priority).collect()
    }
}

/// One decision about all coflows with a deadline. Times in nanoseconds from now.
#[derive(Debug, Default)]
struct Admission {
    /// For each coflow the time that it has, and its weight.
    coflows: Vec<(f64, f64)>,
    loads: LinkLoads,
}

/// The latest end that counts as in time.
fn allowed(deadline: f64) -> f64 {
    deadline * (1.0 + 1e-9) + 100.0
}

impl Admission {
    fn clear(&mut self) {
        self.coflows.clear();
        self.loads.clear();
    }

    /// The next coflow.
    fn begin(&mut self, deadline: f64, weight: f64) {
        self.coflows.push((deadline, weight));
        self.loads.begin();
    }

    /// For each coflow its place, counted from the last, or that it is rejected.
    fn admit(&mut self) -> Vec<Option<u64>> {
        self.loads.complete();
        let mut on_probation = vec![false; self.loads.len()];
        let mut from_last = Vec::with_capacity(self.loads.len());
        while let Some(bottleneck) = self.loads.busiest() {
            let users = || self.loads.unplaced_on(bottleneck).map(|(coflow, _)| coflow);
            // The youngest of equals, here and below.
            let Some(last) = users().max_by(|&a, &b| self.coflows[a].0.total_cmp(&self.coflows[b].0)) else {
                self.loads.set_idle(bottleneck);
                continue;
            };
            let fits = self.loads.total(bottleneck) <= allowed(self.coflows[last].0);
            let chosen = if fits {
                last
            } else {
                let index = |coflow| self.in_the_way(coflow);
                let worst = users().max_by(|&a, &b| index(a).total_cmp(&index(b)));
                worst.expect("the bottleneck has users")
            };
            on_probation[chosen] = !fits;
            self.loads.place(chosen, from_last.len() as u64);
            from_last.push(chosen);
        }
        self.loads.place_idle(from_last.len() as u64);
        let mut verdicts: Vec<Option<u64>> = self.loads.places().iter().copied().map(Some).collect();
        for coflow in self.late(from_last, &on_probation) {
            verdicts[coflow] = None;
        }
        verdicts
    }

    /// Returns a coflow's weight against being in time: the one with the largest is rejected first.
    fn in_the_way(&self, coflow: usize) -> f64 {
        let (deadline, weight) = self.coflows[coflow];
        let over =
            |&(link, load): &(usize, f64)| load / weight * (self.loads.total(link) - deadline).max(0.0);
        self.loads.of(coflow).iter().map(over).sum()
    }

    /// Of those on probation, the ones that would be late.
    fn late(&self, from_last: Vec<usize>, on_probation: &[bool]) -> Vec<usize> {
        let links = self.loads.links();
        let (mut sent, mut late) = (vec![0.0; links], Vec::new());
        for coflow in from_last.into_iter().rev() {
            let loads = self.loads.of(coflow);
            let end = loads.iter().map(|&(link, load)| sent[link] + load).fold(0.0, f64::max);
            if on_probation[coflow] && end > allowed(self.coflows[coflow].0) {
                late.push(coflow);
            } else {
                loads.iter().for_each(|&(link, load)| sent[link] += load);
            }
        }
        late
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scripted::{Script, drive};
    use cavalcade_model::{Event, Target};
    use proptest::prelude::*;

    /// Coflows given by deadline, weight and loads on links from 0.
    fn admitted(coflows: &[(f64, f64, &[f64])]) -> Vec<Option<u64>> {
        let mut problem = Admission::default();
        for &(deadline, weight, loads) in coflows {
            problem.begin(deadline, weight);
            let used = loads.iter().enumerate().filter(|(_, load)| **load > 0.0);
            used.for_each(|(link, &load)| problem.loads.load(link, load));
        }
        problem.admit()
    }

    const S: f64 = 1e9;

    /// The situation that motivates the paper: one urgent coflow on all links against one on each.
    /// Earliest deadline first is in time with one of five.
    #[test]
    fn a_wide_coflow_in_everybodys_way_is_rejected() {
        let wide = [S, S, S, S];
        let one = |link: usize| {
            let mut loads = [0.0; 4];
            loads[link] = 1.5 * S;
            loads
        };
        let narrow = [0, 1, 2, 3].map(one);
        let mut coflows = vec![(S, 1.0, &wide[..])];
        coflows.extend(narrow.iter().map(|loads| (2.0 * S, 1.0, &loads[..])));
        let verdicts = admitted(&coflows);
        assert_eq!(verdicts[0], None);
        assert!(verdicts[1..].iter().all(Option::is_some), "{verdicts:?}");
    }

    #[test]
    fn weight_keeps_the_wide_coflow() {
        let wide = [S, S];
        let (left, right) = ([1.5 * S, 0.0], [0.0, 1.5 * S]);
        let verdicts = admitted(&[(S, 100.0, &wide), (2.0 * S, 1.0, &left), (2.0 * S, 1.0, &right)]);
        assert_eq!(verdicts, [Some(2), None, None]);
    }

    #[test]
    fn who_fits_after_all_is_taken_back() {
        // Link 0 has 8 s for 7 s, so the first coflow is put on probation; link 1 then has 7 s for
        // 6.9 s, and the second has to give way to the third. Without the second, the first is in
        // time.
        let verdicts = admitted(&[
            (7.0 * S, 1.0, &[6.0 * S, 0.0]),
            (6.9 * S, 1.0, &[2.0 * S, 4.0 * S]),
            (6.8 * S, 10.0, &[0.0, 3.0 * S]),
        ]);
        assert_eq!(verdicts, [Some(0), None, Some(2)]);
    }

    #[test]
    fn classes_are_admitted_without_deadline_and_rejected() {
        let mut script = Script::new();
        let [free, tight, loose] = [0, 1, 2].map(|task| script.add_coflow(task, 0));
        script.add_flow(free, 0, 1, 50);
        script.add_flow(tight, 0, 1, 2_000);
        script.add_flow(loose, 0, 1, 1_000);
        script.facts_mut(tight).deadline = Some(Instant(1_500));
        script.facts_mut(loose).deadline = Some(Instant(9_000));
        let mut dcoflow = drive("dcoflow");
        let mut set = |event| dcoflow.at(0, event, &script).priorities;
        let of = |coflow, class, order| (Target::Coflow(coflow), Priority::new(class, order));
        assert_eq!(set(Event::CoflowArrived(free)), [of(free, NO_DEADLINE, 50)]);
        assert_eq!(set(Event::CoflowArrived(tight)), [of(tight, REJECTED, 2_000)], "it needs 2000 ns");
        assert_eq!(set(Event::CoflowArrived(loose)), [of(loose, ADMITTED, END)]);
    }

    #[test]
    fn a_deadline_that_has_passed_is_given_up() {
        let mut script = Script::new();
        let (late, other) = (script.add_coflow(0, 0), script.add_coflow(1, 7_000));
        script.add_flow(late, 0, 1, 3_000);
        script.add_flow(other, 0, 1, 100);
        script.facts_mut(late).deadline = Some(Instant(5_000));
        let mut dcoflow = drive("dcoflow");
        dcoflow.at(0, Event::CoflowArrived(late), &script);
        let decision = dcoflow.at(7_000, Event::CoflowArrived(other), &script);
        assert_eq!(decision.priorities[0], (Target::Coflow(late), Priority::new(REJECTED, 3_000)));
    }

    proptest! {
        /// On one link the admitted are in time when served in their order.
        #[test]
        fn on_one_link_whoever_is_admitted_is_in_time(
            jobs in prop::collection::vec((1u32..1000, 1u32..2000, 1u32..4), 1..10),
        ) {
            let loads: Vec<[f64; 1]> = jobs.iter().map(|&(load, ..)| [f64::from(load) * 1e6]).collect();
            let coflows: Vec<(f64, f64, &[f64])> = jobs.iter().zip(&loads)
                .map(|(&(_, deadline, weight), load)| (f64::from(deadline) * 1e6, f64::from(weight), &load[..]))
                .collect();
            let verdicts = admitted(&coflows);
            let mut order: Vec<(u64, usize)> = verdicts.iter().enumerate()
                .filter_map(|(coflow, place)| place.map(|place| (place, coflow))).collect();
            order.sort_unstable_by_key(|&(place, _)| std::cmp::Reverse(place));
            let mut end = 0.0;
            for (_, coflow) in order {
                end += loads[coflow][0];
                prop_assert!(end <= allowed(coflows[coflow].0), "{coflow} of {verdicts:?}");
            }
        }

        /// If all can be in time by their deadlines' order, all are admitted.
        #[test]
        fn nobody_is_rejected_without_need(
            cells in prop::collection::vec((0u32..50, 0u32..50, 0u32..20), 1..8),
        ) {
            let loads: Vec<[f64; 2]> = cells.iter().map(|&(a, b, _)| [f64::from(a + 1) * 1e6, f64::from(b) * 1e6]).collect();
            let mut sums = [0.0, 0.0];
            let coflows: Vec<(f64, f64, &[f64])> = cells.iter().zip(&loads).map(|(&(.., spare), load)| {
                sums = [sums[0] + load[0], sums[1] + load[1]];
                (sums[0].max(sums[1]) + f64::from(spare) * 1e6, 1.0, &load[..])
            }).collect();
            prop_assert!(admitted(&coflows).iter().all(Option::is_some));
        }
    }
}
