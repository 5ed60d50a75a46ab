//! What rates along paths have to be: every link carries no more than it can, and every flow has a link that is full, up to and
//! including the flow's class, and on which no other flow of the class has more. Checked from the rates alone, link by
//! link, after every change.

use proptest::prelude::*;

use super::PathFill;
use crate::fill::{Due, Fill, Key};

const SLACK: f64 = 1e-9;

#[derive(Clone, Debug)]
enum Change {
    /// A flow of a coflow comes, over the links named by the bits.
    Come { coflow: u32, links: u8, bytes: u32 },
    /// A coflow is ranked again.
    Rank { coflow: u32, order: u64 },
    /// Time passes until something ends.
    Pass,
}

const LINKS: u32 = 6;
const COFLOWS: u32 = 4;

fn change() -> impl Strategy<Value = Change> {
    prop_oneof![
        4 => (0..COFLOWS, 1..1u8 << LINKS, 1..1000u32)
            .prop_map(|(coflow, links, bytes)| Change::Come { coflow, links, bytes }),
        2 => (0..COFLOWS, 0..3u64).prop_map(|(coflow, order)| Change::Rank { coflow, order }),
        2 => Just(Change::Pass),
    ]
}

/// A scene in which changes happen.
struct Scene {
    fill: PathFill,
    capacity: Vec<f64>,
    /// Of each flow that ever came: its coflow and its links.
    flows: Vec<(u32, Vec<u32>)>,
    active: Vec<u32>,
    now: f64,
}

impl Scene {
    fn new(capacity: &[f64]) -> Self {
        let mut fill = PathFill::new(capacity.to_vec());
        fill.reserve_accounts(COFLOWS as usize);
        Self { fill, capacity: capacity.to_vec(), flows: Vec::new(), active: Vec::new(), now: 0.0 }
    }

    fn make(&mut self, change: &Change) {
        match *change {
            Change::Come { coflow, links, bytes } => {
                let path: Vec<u32> = (0..LINKS).filter(|link| links >> link & 1 == 1).collect();
                let flow = self.flows.len() as u32;
                self.fill.add_along(flow, &path, &[coflow], f64::from(bytes), self.now);
                self.flows.push((coflow, path));
                self.active.push(flow);
            }
            Change::Rank { coflow, order } => {
                self.fill.set_account_keys(&[(coflow, Key { class: 0, order })], self.now);
            }
            Change::Pass => {
                if self.fill.next() < f64::INFINITY {
                    self.now = self.now.max(self.fill.next());
                    let mut due = Due::default();
                    self.fill.take_due(self.now, &mut due);
                    self.active.retain(|flow| !due.finished.contains(flow));
                }
            }
        }
        self.fill.refill(self.now);
    }

    /// The active flows on a link with their rates and the keys that they go by there.
    fn on(&self, link: u32) -> Vec<(u32, f64, Key)> {
        let here = self.active.iter().filter_map(|&flow| {
            let (coflow, path) = &self.flows[flow as usize];
            let key = self.fill.accounts[*coflow as usize].key;
            path.contains(&link).then(|| (flow, self.fill.rate(flow), key))
        });
        here.collect()
    }

    /// Returns whether `flow` can have no more for the sake of others on `link`.
    fn is_held_back(&self, flow: u32, link: u32) -> bool {
        let here = self.on(link);
        let &(_, rate, key) =
            here.iter().find(|entry| entry.0 == flow).expect("the link is on the flow's path");
        let before: f64 = here.iter().filter(|entry| entry.2 <= key).map(|entry| entry.1).sum();
        let most = here.iter().filter(|entry| entry.2 == key).map(|entry| entry.1).fold(0.0, f64::max);
        before >= self.capacity[link as usize] * (1.0 - SLACK)
            && rate >= most - SLACK * self.capacity[link as usize]
    }

    fn check(&self) -> Result<(), TestCaseError> {
        for link in 0..LINKS {
            let carried: f64 = self.on(link).iter().map(|entry| entry.1).sum();
            let capacity = self.capacity[link as usize];
            prop_assert!(
                carried <= capacity * (1.0 + SLACK),
                "link {} carries {} of {}",
                link,
                carried,
                capacity
            );
        }
        for &flow in &self.active {
            let path = &self.flows[flow as usize].1;
            let held_back = path.iter().any(|&link| self.is_held_back(flow, link));
            prop_assert!(held_back, "flow {} with {} could have more", flow, self.fill.rate(flow));
        }
        Ok(())
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn every_flow_is_held_back_by_a_full_link_that_gives_none_of_its_class_more(
        capacity in proptest::collection::vec(prop_oneof![Just(1.0), Just(2.0), 0.5..3.0f64], LINKS as usize),
        changes in proptest::collection::vec(change(), 1..40),
    ) {
        let mut scene = Scene::new(&capacity);
        for change in &changes {
            scene.make(change);
            scene.check()?;
        }
    }
}
