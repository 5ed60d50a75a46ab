//! The solver against the slow obvious way: after every event, sort all flows and let each take what it can.

use super::*;
use proptest::prelude::*;

#[derive(Clone, Debug)]
enum Step {
    Add { row: u32, column: u32, account: u32, bytes: u32 },
    KeyOfAccount { account: u32, key: Key },
    KeyOfFlow { flow: prop::sample::Index, key: Key },
    Cap { flow: prop::sample::Index, eighths: Option<u8> },
    Pass { time: f64 },
}

const PORTS: u32 = 4;
const ACCOUNTS: u32 = 3;

fn key() -> impl Strategy<Value = Key> {
    (0..2u16, 0..2u64).prop_map(|(class, order)| Key { class, order })
}

fn step(caps: bool) -> impl Strategy<Value = Step> {
    let add = (0..PORTS, 0..PORTS, 0..ACCOUNTS, prop_oneof![1..6u32, 1..5000u32])
        .prop_map(|(row, column, account, bytes)| Step::Add { row, column: PORTS + column, account, bytes });
    let cap = (any::<prop::sample::Index>(), prop::option::weighted(0.7, 0..12u8))
        .prop_map(|(flow, eighths)| Step::Cap { flow, eighths });
    prop_oneof![
        8 => add,
        1 => (0..ACCOUNTS, key()).prop_map(|(account, key)| Step::KeyOfAccount { account, key }),
        1 => (any::<prop::sample::Index>(), key()).prop_map(|(flow, key)| Step::KeyOfFlow { flow, key }),
        u32::from(caps) => cap,
        4 => prop_oneof![Just(0.0), Just(1.0), 0.0..100.0, 0.0..3000.0].prop_map(|time| Step::Pass { time }),
    ]
}

fn equal_links() -> impl Strategy<Value = Vec<f64>> {
    Just(vec![0.125; 2 * PORTS as usize])
}

fn unequal_links() -> impl Strategy<Value = Vec<f64>> {
    prop::collection::vec(prop::sample::select(vec![0.125, 0.25, 0.375, 0.1, 1.0]), 2 * PORTS as usize)
}

/// The solver, and beside it what it has been told.
struct Scene {
    capacity: Vec<f64>,
    fill: ShortestFill,
    now: f64,
    links: Vec<[u32; 2]>,
    accounts: Vec<u32>,
    account_keys: Vec<Key>,
    keys: Vec<Key>,
    caps: Vec<f64>,
    finished: Vec<bool>,
}

impl Scene {
    fn new(capacity: Vec<f64>, flows: usize) -> Self {
        let mut fill = ShortestFill::new(capacity.clone(), flows);
        fill.reserve_accounts(ACCOUNTS as usize);
        Self {
            capacity,
            fill,
            now: 0.0,
            links: Vec::new(),
            accounts: Vec::new(),
            account_keys: vec![Key::default(); ACCOUNTS as usize],
            keys: Vec::new(),
            caps: Vec::new(),
            finished: Vec::new(),
        }
    }

    fn carry_out(&mut self, step: &Step) -> Result<(), TestCaseError> {
        match step {
            Step::Add { row, column, account, bytes } => {
                let flow = self.links.len() as u32;
                self.links.push([*row, *column]);
                self.accounts.push(*account);
                self.keys.push(self.account_keys[*account as usize]);
                self.caps.push(f64::INFINITY);
                self.finished.push(false);
                self.fill.add(flow, [*row, *column], [*account; 2], f64::from(*bytes), self.now);
            }
            Step::KeyOfAccount { account, key } => {
                self.account_keys[*account as usize] = *key;
                for (of, flow_key) in self.accounts.iter().zip(&mut self.keys) {
                    if of == account {
                        *flow_key = *key;
                    }
                }
                self.fill.set_account_keys(&[(*account, *key)], self.now);
            }
            Step::KeyOfFlow { flow, key } if !self.links.is_empty() => {
                let flow = flow.index(self.links.len());
                self.keys[flow] = *key;
                self.fill.set_flow_key(flow as u32, *key, self.now);
            }
            Step::Cap { flow, eighths } if !self.links.is_empty() => {
                let flow = flow.index(self.links.len());
                let cap = eighths.map(|eighths| f64::from(eighths) / 64.0);
                self.caps[flow] = cap.unwrap_or(f64::INFINITY);
                self.fill.set_cap(flow as u32, cap, self.now);
            }
            Step::Pass { time } => return self.pass(*time),
            _ => {}
        }
        Ok(())
    }

    /// Lets time pass, event by event. What was changed before takes effect first.
    fn pass(&mut self, time: f64) -> Result<(), TestCaseError> {
        self.fill.refill(self.now);
        self.check()?;
        let end = self.now + time;
        while self.fill.next() <= end && self.fill.next() < f64::INFINITY {
            self.now = self.fill.next().max(self.now);
            self.take_due();
            self.fill.refill(self.now);
            self.check()?;
        }
        if end < f64::INFINITY {
            self.now = end;
            self.take_due();
        }
        Ok(())
    }

    fn take_due(&mut self) {
        let mut due = Due::default();
        self.fill.take_due(self.now, &mut due);
        for flow in due.finished {
            assert!(!std::mem::replace(&mut self.finished[flow as usize], true), "a flow finishes once");
        }
    }

    /// Whether two flows are just passing each other: they change places in the course of a step, and then at once.
    fn is_between_ranks(&self) -> bool {
        let flows: Vec<usize> = (0..self.links.len()).filter(|&flow| !self.finished[flow]).collect();
        flows.iter().any(|&a| {
            let (left, rate) = (self.fill.remaining(a as u32, self.now), self.fill.rate(a as u32));
            flows.iter().any(|&b| {
                let apart = left - self.fill.remaining(b as u32, self.now);
                self.keys[a] == self.keys[b] && apart.abs() < 2.0 * STEP && rate != self.fill.rate(b as u32)
            })
        })
    }

    fn check(&self) -> Result<(), TestCaseError> {
        let mut order: Vec<Rank> = (0..self.links.len())
            .filter(|&flow| !self.finished[flow])
            .map(|flow| Rank::new(self.keys[flow], self.fill.remaining(flow as u32, self.now), flow as u32))
            .collect();
        order.sort_unstable();
        let mut free = self.capacity.clone();
        for rank in order {
            let flow = rank.flow() as usize;
            let links = self.links[flow].map(|link| link as usize);
            let mut rate = self.caps[flow];
            for link in links {
                let usable = if free[link] > NEGLIGIBLE * self.capacity[link] { free[link] } else { 0.0 };
                rate = rate.min(usable);
            }
            links.iter().for_each(|&link| free[link] -= rate);
            if self.is_between_ranks() {
                return Ok(());
            }
            let apart = (self.fill.rate(flow as u32) - rate).abs();
            prop_assert!(
                apart <= 1e-7,
                "at {} flow {flow} has {} and not {rate}",
                self.now,
                self.fill.rate(flow as u32)
            );
        }
        Ok(())
    }
}

fn agree(capacity: Vec<f64>, steps: &[Step]) -> Result<(), TestCaseError> {
    let mut scene = Scene::new(capacity, steps.len());
    for step in steps {
        scene.carry_out(step)?;
    }
    for flow in 0..scene.links.len() {
        scene.carry_out(&Step::Pass { time: 0.0 })?;
        scene.caps[flow] = f64::INFINITY;
        scene.fill.set_cap(flow as u32, None, scene.now);
    }
    scene.pass(f64::INFINITY)?;
    prop_assert!(scene.finished.iter().all(|&finished| finished), "every flow finishes");
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn equal_links_are_shared_as_by_sorting_all_flows_at_each_event(
        capacity in equal_links(), steps in prop::collection::vec(step(false), 1..80),
    ) {
        agree(capacity, &steps)?;
    }

    #[test]
    fn unequal_links_are_shared_as_by_sorting_all_flows_at_each_event(
        capacity in unequal_links(), steps in prop::collection::vec(step(false), 1..80),
    ) {
        agree(capacity, &steps)?;
    }

    #[test]
    fn capped_flows_leave_the_rest_to_those_behind_them(
        capacity in unequal_links(), steps in prop::collection::vec(step(true), 1..80),
    ) {
        agree(capacity, &steps)?;
    }
}
