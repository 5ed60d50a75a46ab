//! Max-min by pairs of ports, and shortest flow first, on trees whose ports take one word on a side,
//! two or three, where racks and pods are oversubscribed and coflows are wide: what random sequences
//! on four ports do not reach.

#![allow(clippy::unwrap_used, reason = "a test whose scene cannot be set has failed")]

#[path = "sequence/level.rs"]
mod level;

use cavalcade_allocate::reference::{self, Past};
use cavalcade_allocate::{Allocator, Due, Fill, Load, select};
use cavalcade_model::{
    BitsPerSec, ClassShares, Discipline, Excess, Fabric, FabricSpec, LinkId, PortId, Priority, Scope,
    SplitMix64, Terms,
};

const RATE: BitsPerSec = BitsPerSec(8_000_000_000);

/// The tolerance of rates, in bytes a nanosecond.
const CLOSE: f64 = 1e-7;

/// A tree of 45 hosts, 72 or 99: rows and columns take one word and two, two and two, or two and
/// three. What leads to and from its pods has a third of what racks have in all, or as much, or one
/// of these links has less than all others; or every link between switches has a part of its own.
fn tree(random: &mut SplitMix64) -> Fabric {
    let hosts = [5, 8, 11][random.below(3) as usize];
    let spec = format!("tree:pods=3,racks=3,hosts={hosts},oversubscription=3");
    let mut fabric = spec.parse::<FabricSpec>().unwrap().build(RATE).unwrap();
    let names: Vec<_> = fabric.links().map(|link| (link, fabric.link_name(link))).collect();
    let of_pods = names.iter().filter(|(_, name)| name.contains("core"));
    let of_pods: Vec<_> = of_pods.map(|&(link, _)| link).collect();
    assert_eq!(of_pods.len(), 6, "three pods, each with a link to the core and one from it");
    let case = random.below(4);
    for (nth, &link) in of_pods.iter().enumerate() {
        let slower = if case == 0 || case == 2 && nth == 1 { 3 } else { 1 };
        fabric.set_capacity(link, BitsPerSec(fabric.capacity(link).0 / slower)).unwrap();
    }
    let between = names.iter().skip(2 * fabric.ports() as usize).filter(|_| case == 3);
    for &(link, _) in between {
        let part = fabric.capacity(link).0 / (1 + random.below(4));
        fabric.set_capacity(link, BitsPerSec(part)).unwrap();
    }
    fabric
}

/// One flow as the test knows it.
struct Given {
    coflow: u32,
    path: Vec<u32>,
    cap: f64,
    rate: f64,
    is_over: bool,
}

struct Scene {
    terms: Terms,
    fabric: Fabric,
    capacity: Vec<f64>,
    fill: Box<dyn Fill>,
    paths: cavalcade_model::Contended,
    flows: Vec<Given>,
    priorities: Vec<Priority>,
    now: f64,
}

impl Scene {
    fn new(terms: Terms, fabric: Fabric) -> Self {
        let load = Load { flows: 20_000, is_wide: true };
        let (mut fill, paths) = select(&terms, &fabric, load, Allocator::Incremental);
        fill.reserve_accounts(40);
        let capacity = fabric.links().map(|link| fabric.capacity(link).bytes_per_nano()).collect();
        Self { terms, fabric, capacity, fill, paths, flows: Vec::new(), priorities: Vec::new(), now: 0.0 }
    }

    /// Each of some senders sends to each of some receivers, one flow or two.
    fn add_coflow(&mut self, random: &mut SplitMix64) {
        let coflow = self.priorities.len() as u32;
        let priority = Priority::new(random.below(3) as u16, random.below(2));
        self.priorities.push(priority);
        self.fill.set_account_keys(&[(coflow, priority)], self.now);
        let ports = self.fabric.ports();
        let mut some = || {
            let most = [3, 12, 40][random.below(3) as usize];
            (0..ports).filter(|_| random.below(72) < most).collect::<Vec<u32>>()
        };
        let (senders, receivers) = (some(), some());
        for (sender, receiver) in senders.iter().flat_map(|row| receivers.iter().map(move |to| (*row, *to))) {
            for _ in 0..=random.below(8) / 7 {
                if self.fabric.find_path(PortId(sender), PortId(receiver)).is_none() {
                    continue; // A failed link leaves no way.
                }
                let path = self.paths.path(&self.fabric, PortId(sender), PortId(receiver));
                let path: Vec<u32> = path.iter().map(|link| link.0).collect();
                let bytes = self.bytes(random);
                self.fill.add(self.flows.len() as u32, &path, &[coflow], bytes, self.now);
                self.flows.push(Given { coflow, path, cap: f64::INFINITY, rate: 0.0, is_over: false });
            }
        }
    }

    /// Under shortest flow first no two flows are alike, or rounding decides which is shorter.
    fn bytes(&self, random: &mut SplitMix64) -> f64 {
        match self.terms.discipline {
            Discipline::ShortestFlow => 1_000.0 + random.below(1 << 24) as f64 / 8_192.0,
            _ => 1_000.0 + random.below(4) as f64 * 300.0,
        }
    }

    fn change(&mut self, random: &mut SplitMix64) {
        match random.below(6) {
            0 => self.add_coflow(random),
            1 => {
                let coflow = random.below(self.priorities.len() as u64) as u32;
                let priority = Priority::new(random.below(3) as u16, random.below(2));
                self.priorities[coflow as usize] = priority;
                self.fill.set_account_keys(&[(coflow, priority)], self.now);
            }
            2 if !self.flows.is_empty() => {
                let flow = random.below(self.flows.len() as u64) as usize;
                if !self.flows[flow].is_over {
                    let cap = [None, Some(0.01), Some(0.1)][random.below(3) as usize];
                    self.fill.set_cap(flow as u32, cap, self.now);
                    self.flows[flow].cap = cap.unwrap_or(f64::INFINITY);
                }
            }
            3 => {
                let by = (self.now / 2.0).floor();
                self.fill.rebase(by);
                self.now -= by;
            }
            _ => {}
        }
    }

    /// Compares all rates, and what is used of each link, with the definition.
    fn compare(&mut self) {
        self.fill.refill(self.now);
        let there: Vec<usize> = (0..self.flows.len()).filter(|&flow| !self.flows[flow].is_over).collect();
        let asked = there.iter().map(|&flow| reference::Flow {
            path: &self.flows[flow].path,
            coflow: self.flows[flow].coflow,
            priorities: std::slice::from_ref(&self.priorities[self.flows[flow].coflow as usize]),
            remaining: self.fill.remaining(flow as u32, self.now),
            cap: self.flows[flow].cap,
        });
        let mut asked: Vec<reference::Flow<'_>> = asked.collect();
        let before: Vec<f64> = there.iter().map(|&flow| self.flows[flow].rate).collect();
        let past = Past { rates: &before, same_coflows: false };
        let is_same = |(&flow, rate): (&usize, &f64)| (self.fill.rate(flow as u32) - rate).abs() < CLOSE;
        let is_found = |rates: &[f64]| there.iter().zip(rates).all(is_same);
        let rates = match self.terms.discipline {
            Discipline::ShortestFlow => {
                level::allocate(&self.terms, &self.capacity, &mut asked, past, is_found)
            }
            _ => reference::allocate(&self.terms, &self.capacity, &asked, past),
        };
        let mut used = vec![0.0; self.capacity.len()];
        for (&flow, defined) in there.iter().zip(rates) {
            let rate = self.fill.rate(flow as u32);
            let differs = (rate - defined).abs();
            assert!(differs < CLOSE, "flow {flow} gets {rate}, by the definition {defined}, at {}", self.now);
            self.flows[flow].rate = rate;
            self.flows[flow].path.iter().for_each(|&link| used[link as usize] += rate);
        }
        let mut claimed = vec![0.0; self.capacity.len()];
        self.fill.add_use(&mut claimed);
        for (link, (claimed, used)) in claimed.iter().zip(&used).enumerate() {
            assert!((claimed - used).abs() < 1e-6, "link {link} carries {used}, not {claimed}");
        }
    }

    fn advance(&mut self) {
        let next = self.fill.next();
        if next == f64::INFINITY {
            return;
        }
        self.now = next;
        let mut due = Due::default();
        self.fill.take_due(self.now, &mut due);
        due.finished.iter().for_each(|&flow| self.flows[flow as usize].is_over = true);
    }
}

/// Runs a scene on each of so many trees: coflows come and go, and change what they can.
fn runs(scenes: u64, scene: impl Fn(&mut SplitMix64) -> Scene) {
    for seed in 0..scenes {
        let mut random = SplitMix64::new(seed);
        let mut scene = scene(&mut random);
        (0..3).for_each(|_| scene.add_coflow(&mut random));
        for _ in 0..16 {
            scene.compare();
            scene.advance();
            scene.change(&mut random);
        }
    }
}

fn max_min_agrees(shares: &ClassShares) {
    runs(12, |random| {
        let terms = Terms { shares: shares.clone(), ..Terms::strict(Scope::Fabric, Discipline::MaxMin) };
        let scene = Scene::new(terms, tree(random));
        assert!(format!("{:?}", scene.fill).starts_with("MaxMinFill"), "this is about pairs of ports");
        scene
    });
}

#[test]
fn strict_classes_agree_with_the_definition() {
    max_min_agrees(&ClassShares::Strict);
}

#[test]
fn weighted_classes_agree_with_the_definition() {
    for excess in [Excess::Weighted, Excess::Highest] {
        max_min_agrees(&ClassShares::Weighted { weights: vec![4, 2, 1], excess });
    }
}

#[test]
fn shortest_flow_first_agrees_with_the_definition() {
    runs(40, |random| {
        let mut fabric = tree(random);
        // One time in three a link between switches fails.
        let first = 2 * fabric.ports();
        let inner = fabric.link_count() as u32 - first;
        if random.below(3) == 0 {
            fabric.fail(LinkId(first + random.below(u64::from(inner)) as u32));
        }
        Scene::new(Terms::strict(Scope::Fabric, Discipline::ShortestFlow), fabric)
    });
}
