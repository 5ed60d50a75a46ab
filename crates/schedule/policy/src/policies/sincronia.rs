//! `sincronia`: bottleneck, select, scale, iterate: an order within a constant of the best, for any
//! network that preserves it.
//!
//! BSSI fills the order from its *last* place. The link with most bytes left is the bottleneck; of
//! the coflows that use it, the one with the least weight for its bytes there goes last, and the
//! weights of the others are scaled down by what the choice has cost them. On a greedy network the
//! mean weighted completion time is within 4× of the optimum when all arrive together (2× in the
//! order itself).
//!
//! On line, all unfinished coflows are ordered again by their remaining bytes whenever one arrives
//! or ends (docs/protocols.md §6.4). Sincronia's own epochs, with a linear program that chooses
//! which coflows to order, need a solver and gain little over this.
//!
//! # How
//! Residual weights are kept instead of recomputed from all β (O(n²·m) becomes O(n² + n·m)), and so
//! are the sums over links. Loads are times (bytes over capacity), so links may differ. Ties go to
//! the youngest coflow. Orders are counted back from a fixed end, so that when the first coflow
//! ends, as it mostly does, the others keep their order.

use cavalcade_model::{CoflowId, Discipline, Foresee, Instant, Policy, Priority, Scope, Setting, Terms};
use cavalcade_spec::Parameter;

use crate::definition::{About, DISCIPLINE, Definition, Follows, Paper};
use crate::support::link_loads::LinkLoads;
use crate::support::order::{Order, Ordered};

/// Parameters of `sincronia`.
#[derive(Clone)]
pub(crate) struct Sincronia {
    discipline: Discipline,
}

impl Default for Sincronia {
    fn default() -> Self {
        Self { discipline: Discipline::Greedy }
    }
}

impl Definition for Sincronia {
    const ABOUT: About = About {
        name: "sincronia",
        title: "Bottleneck-select-scale-iterate: a near-optimal order from last to first",
        source: "Sincronia (SIGCOMM 2018) §3, Algorithm 1; docs/protocols.md §6.4",
        paper: Some(Paper {
            system: "Sincronia",
            venue: "SIGCOMM",
            year: 2018,
            follows: Follows::ReleasedCode,
            transport: None,
        }),
        knows: "the remaining bytes of every coflow on every link, the capacities, and weights",
        cost: "O(n² + n·links) for n active coflows, at each arrival and completion of a coflow",
    };

    const PARAMETERS: &'static [Parameter<Self>] =
        &[Parameter { name: "discipline", meaning: DISCIPLINE, field: |p| &mut p.discipline }];

    fn terms(&self) -> Terms {
        Terms::strict(Scope::Fabric, self.discipline)
    }

    fn build(&self, _: &Setting<'_>) -> Policy {
        Policy::Clairvoyant(Box::new(Ordered::<Bssi>::default()))
    }
}

/// The order that the last place has.
const END: u64 = 1 << 32;

impl Order for Bssi {
    fn order(&mut self, _: Instant, coflows: &[CoflowId], view: &dyn Foresee) -> Vec<Priority> {
        self.clear();
        for &coflow in coflows {
            self.begin(f64::from(view.coflow(coflow).weight));
            view.loads(coflow, &mut |link, bytes, capacity| {
                self.loads.load(link.index(), bytes.as_f64() / capacity.as_f64());
            });
        }
        self.places_from_last().iter().map(|place| Priority::new(0, END - place)).collect()
    }
}

/// One ordering problem, with buffers that are kept between problems.
#[derive(Debug, Default)]
struct Bssi {
    /// For each coflow its weight, scaled down as the order fills.
    weights: Vec<f64>,
    loads: LinkLoads,
}

impl Bssi {
    fn clear(&mut self) {
        self.weights.clear();
        self.loads.clear();
    }

    /// The next coflow, of this weight.
    fn begin(&mut self, weight: f64) {
        self.weights.push(weight);
        self.loads.begin();
    }

    /// For each coflow how far from the last place it is: 0 is last.
    fn places_from_last(&mut self) -> &[u64] {
        self.loads.complete();
        let mut place = 0;
        while let Some(bottleneck) = self.loads.busiest() {
            let Some((last, scale)) = self.cheapest(bottleneck) else {
                self.loads.set_idle(bottleneck);
                continue;
            };
            for (weight, load) in self.weights.iter_mut().zip(self.loads.on(bottleneck)) {
                *weight -= scale * load;
            }
            self.loads.place(last, place);
            place += 1;
        }
        self.loads.place_idle(place);
        self.loads.places()
    }

    /// The unplaced coflow with the least weight for its load on `link`, the youngest of equals,
    /// and that ratio.
    fn cheapest(&self, link: usize) -> Option<(usize, f64)> {
        let mut best: Option<(usize, f64)> = None;
        for (coflow, load) in self.loads.unplaced_on(link) {
            let ratio = self.weights[coflow] / load;
            if best.is_none_or(|(_, least)| ratio <= least) {
                best = Some((coflow, ratio));
            }
        }
        best
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scripted::{Script, drive};
    use cavalcade_model::{Event, Target};
    use proptest::prelude::*;

    #[test]
    fn the_largest_on_the_bottleneck_goes_last_and_a_completion_changes_nothing() {
        let mut script = Script::new();
        let (large, small) = (script.add_coflow(0, 0), script.add_coflow(1, 0));
        script.add_flow(large, 0, 1, 400);
        script.add_flow(small, 0, 1, 100);
        let mut sincronia = drive("sincronia");
        let set = |coflow, order| (Target::Coflow(coflow), Priority::new(0, order));
        assert_eq!(sincronia.at(0, Event::CoflowArrived(large), &script).priorities, [set(large, END)]);
        assert_eq!(sincronia.at(0, Event::CoflowArrived(small), &script).priorities, [set(small, END - 1)]);
        script.send(1, 100);
        assert_eq!(sincronia.at(1, Event::CoflowFinished(small), &script).priorities, []);
    }

    #[test]
    fn sincronia_orders_by_what_remains() {
        let mut script = Script::new();
        let (large, small) = (script.add_coflow(0, 0), script.add_coflow(1, 0));
        script.add_flow(large, 0, 1, 400);
        script.add_flow(small, 0, 1, 100);
        let mut sincronia = drive("sincronia");
        sincronia.at(0, Event::CoflowArrived(large), &script);
        script.send(0, 350);
        let set = |coflow, order| (Target::Coflow(coflow), Priority::new(0, order));
        let both = sincronia.at(1, Event::CoflowArrived(small), &script);
        assert_eq!(both.priorities, [set(large, END - 1), set(small, END)]);
    }

    #[test]
    fn weight_makes_up_for_size() {
        let mut script = Script::new();
        let (large, small) = (script.add_coflow(0, 0), script.add_coflow(1, 0));
        script.facts_mut(large).weight = 5;
        script.add_flow(large, 0, 1, 400);
        script.add_flow(small, 0, 1, 100);
        let mut sincronia = drive("sincronia");
        sincronia.at(0, Event::CoflowArrived(large), &script);
        let both = sincronia.at(0, Event::CoflowArrived(small), &script);
        let set = |coflow, order| (Target::Coflow(coflow), Priority::new(0, order));
        assert_eq!(both.priorities, [set(large, END - 1), set(small, END)]);
    }

    /// BSSI as printed: every step recomputes sums and residual weights from the start.
    fn plain(weights: &[f64], loads: &[Vec<f64>]) -> Vec<u64> {
        let (coflows, links) = (weights.len(), loads[0].len());
        let mut places = vec![u64::MAX; coflows];
        let mut steps: Vec<(usize, f64)> = Vec::new();
        for place in 0..coflows as u64 {
            let unplaced: Vec<usize> = (0..coflows).filter(|&j| places[j] == u64::MAX).collect();
            let total = |link: usize| unplaced.iter().map(|&j| loads[j][link]).sum::<f64>();
            let bottleneck = (0..links).rev().max_by(|&a, &b| total(a).total_cmp(&total(b))).unwrap();
            if total(bottleneck) == 0.0 {
                break;
            }
            let ratio = |j: usize| {
                steps.iter().fold(weights[j], |weight, &(link, beta)| weight - beta * loads[j][link])
                    / loads[j][bottleneck]
            };
            let users = unplaced.iter().rev().filter(|&&j| loads[j][bottleneck] > 0.0);
            let last = *users.min_by(|&&a, &&b| ratio(a).total_cmp(&ratio(b))).unwrap();
            steps.push((bottleneck, ratio(last)));
            places[last] = place;
        }
        let placed = places.iter().filter(|&&place| place != u64::MAX).count() as u64;
        let idle = places.iter_mut().rev().filter(|slot| **slot == u64::MAX);
        idle.zip(placed..).for_each(|(slot, place)| *slot = place);
        places
    }

    proptest! {
        #[test]
        fn kept_sums_give_the_order_of_recomputed_ones(
            weights in prop::collection::vec(1u8..5, 1..12),
            cells in prop::collection::vec(prop_oneof![Just(0u16), 0u16..100], 12 * 6),
        ) {
            let weights: Vec<f64> = weights.into_iter().map(f64::from).collect();
            let loads: Vec<Vec<f64>> =
                cells.chunks(6).take(weights.len()).map(|row| row.iter().map(|&v| f64::from(v)).collect()).collect();
            let mut bssi = Bssi::default();
            for (weight, row) in weights.iter().zip(&loads) {
                bssi.begin(*weight);
                row.iter().enumerate().filter(|(_, load)| **load > 0.0).for_each(|(link, load)| bssi.loads.load(link, *load));
            }
            prop_assert_eq!(bssi.places_from_last(), plain(&weights, &loads));
        }
    }
}
