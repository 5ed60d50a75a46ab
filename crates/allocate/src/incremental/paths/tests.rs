//! What rates along paths have to be, whatever links think of flows: every link carries no more than it can, and every flow
//! has a link that is full, up to and including the flow's class there, and on which nobody of the class has more. Where
//! links agree this is what makes rates the wanted ones, and the only ones; where each has classes of its own, it is all
//! that can be asked. Checked from the rates alone, link by link, after every change.

use proptest::prelude::*;

use super::PathFill;
use crate::fill::{Due, Fill, Key};

const SLACK: f64 = 1e-9;

#[derive(Clone, Debug)]
enum Change {
    /// A flow of a coflow comes, over the links named by the bits.
    Come { coflow: u32, links: u8, bytes: u32 },
    /// A link ranks a coflow anew; without classes of links' own, all do.
    Rank { coflow: u32, link: u32, order: u64 },
    /// Time passes until something ends.
    Pass,
}

const LINKS: u32 = 6;
const COFLOWS: u32 = 4;

fn change() -> impl Strategy<Value = Change> {
    prop_oneof![
        4 => (0..COFLOWS, 1..1u8 << LINKS, 1..1000u32)
            .prop_map(|(coflow, links, bytes)| Change::Come { coflow, links, bytes }),
        2 => (0..COFLOWS, 0..LINKS, 0..3u64).prop_map(|(coflow, link, order)| Change::Rank { coflow, link, order }),
        2 => Just(Change::Pass),
    ]
}

/// A scene in which changes happen.
struct Scene {
    fill: PathFill,
    capacity: Vec<f64>,
    per_link: bool,
    /// Of each flow that ever came: its coflow and its links.
    flows: Vec<(u32, Vec<u32>)>,
    active: Vec<u32>,
    now: f64,
}

impl Scene {
    fn new(capacity: &[f64], per_link: bool) -> Self {
        let mut fill = PathFill::new(capacity.to_vec(), per_link);
        fill.reserve_accounts((COFLOWS * LINKS) as usize);
        Self { fill, capacity: capacity.to_vec(), per_link, flows: Vec::new(), active: Vec::new(), now: 0.0 }
    }

    fn account(&self, coflow: u32, link: u32) -> u32 {
        coflow * LINKS + if self.per_link { link } else { 0 }
    }

    fn make(&mut self, change: &Change) {
        match *change {
            Change::Come { coflow, links, bytes } => {
                let path: Vec<u32> = (0..LINKS).filter(|link| links >> link & 1 == 1).collect();
                let accounts: Vec<u32> = path.iter().map(|&link| self.account(coflow, link)).collect();
                let flow = self.flows.len() as u32;
                let accounts = if self.per_link { &accounts[..] } else { &accounts[..1] };
                self.fill.add_along(flow, &path, accounts, f64::from(bytes), self.now);
                self.flows.push((coflow, path));
                self.active.push(flow);
            }
            Change::Rank { coflow, link, order } => {
                let account = self.account(coflow, link);
                self.fill.set_account_keys(&[(account, Key { class: 0, order })], self.now);
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
            let hop = self.flows[flow as usize].1.iter().position(|&other| other == link)?;
            let key = self.key(flow, hop);
            Some((flow, self.fill.rate(flow), key))
        });
        here.collect()
    }

    /// What a link thinks of a flow: its account's key, or that on which its links agreed.
    fn key(&self, flow: u32, hop: usize) -> Key {
        let (coflow, path) = &self.flows[flow as usize];
        let own = self.fill.accounts[self.account(*coflow, path[hop]) as usize].key;
        let cell = self.fill.routes[flow as usize].cells[hop];
        let used = self.fill.cells.contents[cell as usize].key;
        assert!(
            used == own || self.fill.flows[flow as usize].agreed,
            "flow {flow} goes by {used:?}, not {own:?}"
        );
        used
    }

    /// Whether `flow` can have no more for the sake of others on `link`.
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
        per_link in any::<bool>(),
        changes in proptest::collection::vec(change(), 1..40),
    ) {
        let mut scene = Scene::new(&capacity, per_link);
        for change in &changes {
            scene.make(change);
            scene.check()?;
        }
    }
}
