//! Random instances: links of equal and of unequal capacity, accounts that come, grow, change places and get caps.

use super::*;
use proptest::prelude::*;

const PORTS: u32 = 5;

/// What happens between two refills.
#[derive(Clone, Debug)]
enum Step {
    /// Flows of an account: rows, columns and bytes.
    Add(u32, Vec<(u32, u32, u32)>),
    Key(u32, u64),
    Cap(u32, Option<u8>),
    Watch(u32, u32),
    /// On to the next completion.
    Advance,
}

fn step() -> impl Strategy<Value = Step> {
    let flow = (0..PORTS, 0..PORTS, 1u32..40);
    prop_oneof![
        2 => (0u32..4, prop::collection::vec(flow, 1..8)).prop_map(|(account, flows)| Step::Add(account, flows)),
        1 => (0u32..4, 0u64..3).prop_map(|(account, key)| Step::Key(account, key)),
        1 => (0u32..60, prop::option::of(0u8..3)).prop_map(|(flow, cap)| Step::Cap(flow, cap)),
        1 => (0u32..60, 1u32..20).prop_map(|(flow, left)| Step::Watch(flow, left)),
        4 => Just(Step::Advance),
    ]
}

/// The solver, beside a plain list of what it was given.
struct Pair {
    fill: GreedyFill,
    capacity: Vec<f64>,
    keys: [Key; 4],
    /// Account, links, bytes, cap, and whether it has finished.
    flows: Vec<(u32, [u32; 2], f64, f64, bool)>,
    watched: Vec<(u32, f64)>,
    now: f64,
}

impl Pair {
    fn apply(&mut self, step: &Step) -> Result<(), TestCaseError> {
        match step {
            Step::Add(account, flows) => {
                for &(row, column, bytes) in flows {
                    let (number, links) = (self.flows.len() as u32, [row, PORTS + column]);
                    self.fill.add(number, links, [*account; 2], f64::from(bytes), self.now);
                    self.flows.push((*account, links, f64::from(bytes), f64::INFINITY, false));
                }
            }
            &Step::Key(account, order) => {
                self.keys[account as usize] = Key { class: 0, order };
                self.fill.set_account_keys(&[(account, self.keys[account as usize])], self.now);
            }
            &Step::Cap(flow, cap) => {
                let cap = cap.map(|cap| 0.25 + f64::from(cap));
                if self.flows.get(flow as usize).is_some_and(|flow| !flow.4) {
                    self.fill.set_cap(flow, cap, self.now);
                    self.flows[flow as usize].3 = cap.unwrap_or(f64::INFINITY);
                }
            }
            &Step::Watch(flow, left) => {
                let fresh =
                    self.fill.remaining(flow.min(self.flows.len() as u32), self.now) > f64::from(left);
                if fresh && self.watched.iter().all(|&(other, _)| other != flow) {
                    self.fill.watch_flow(flow, f64::from(left), self.now);
                    self.watched.push((flow, f64::from(left)));
                }
            }
            Step::Advance => self.advance()?,
        }
        self.fill.refill(self.now);
        self.check()
    }

    fn advance(&mut self) -> Result<(), TestCaseError> {
        let next = self.fill.next();
        if next == f64::INFINITY {
            return Ok(());
        }
        prop_assert!(next >= self.now);
        self.now = next;
        let mut due = Due::default();
        self.fill.take_due(next, &mut due);
        prop_assert!(!due.finished.is_empty() || !due.flows.is_empty());
        for flow in due.finished {
            prop_assert!(!std::mem::replace(&mut self.flows[flow as usize].4, true), "once only");
        }
        for flow in due.flows {
            let at = self.watched.iter().position(|&(other, _)| other == flow).expect("it is watched");
            let (_, left) = self.watched.remove(at);
            prop_assert!((self.fill.remaining(flow, self.now) - left).abs() < 1e-2);
        }
        Ok(())
    }

    /// No link carries more than it can, and nobody could have more without taking it from who stands before.
    fn check(&self) -> Result<(), TestCaseError> {
        let unfinished = || self.flows.iter().zip(0u32..).filter(|(flow, _)| !flow.4);
        let rank = |account: u32| (self.keys[account as usize], account);
        let left_after = |link: u32, of: u32| {
            let before = unfinished()
                .filter(|((account, links, ..), _)| links.contains(&link) && rank(*account) <= rank(of));
            self.capacity[link as usize] - before.map(|(_, flow)| self.fill.rate(flow)).sum::<f64>()
        };
        for (&(account, links, bytes, cap, _), flow) in unfinished() {
            let rate = self.fill.rate(flow);
            let left = links.map(|link| left_after(link, account)).into_iter().fold(f64::INFINITY, f64::min);
            prop_assert!(left > -1e-9, "links of flow {} carry {} too much", flow, -left);
            prop_assert!(rate <= cap * (1.0 + 1e-9), "flow {} exceeds its cap", flow);
            // Of several flows between the same links only the first is served.
            let first = unfinished().find(|((of, its, ..), _)| (*of, *its) == (account, links));
            let is_first = first.is_some_and(|(_, first)| first == flow);
            prop_assert!(
                !is_first || left < 1e-9 || rate > cap - 1e-9,
                "flow {} could have {} more",
                flow,
                left
            );
            prop_assert!(self.fill.remaining(flow, self.now) <= bytes);
        }
        Ok(())
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_flow_could_have_more_and_all_end(
        capacity in prop_oneof![Just(vec![1.0; 10]), prop::collection::vec(1u8..5, 10).prop_map(|c| c.into_iter().map(f64::from).collect())],
        steps in prop::collection::vec(step(), 1..40),
    ) {
        let mut fill = GreedyFill::new(capacity.clone(), 400);
        fill.reserve_accounts(4);
        let mut pair =
            Pair { fill, capacity, keys: [Key::default(); 4], flows: Vec::new(), watched: Vec::new(), now: 0.0 };
        for step in &steps {
            pair.apply(step)?;
        }
        while pair.fill.next() < f64::INFINITY {
            pair.apply(&Step::Advance)?;
        }
        for account in 0..4 {
            let sent: f64 = pair.flows.iter().filter(|flow| flow.0 == account).map(|flow| flow.2).sum();
            prop_assert!((pair.fill.attained(account, pair.now) - sent).abs() < 1e-2);
            let mut visited = 0;
            pair.fill.visit_flows(account, &mut |_| visited += 1);
            pair.fill.loads(account, pair.now, &mut |_, _| visited += 1);
            prop_assert_eq!(visited, 0);
        }
        prop_assert!(pair.flows.iter().all(|flow| flow.4), "all flows end");
    }
}
