//! Random sequences of operations on an allocator, compared with the definition of its discipline
//! after each.
//!
//! A sequence is a string of bytes, so that proptest and the fuzzer share it. The scene keeps what
//! it has told the allocator, and works out from rates alone what has been sent.

mod level;

use cavalcade_allocate::reference::{self, Past};
use cavalcade_allocate::{Allocator, Due, Fill, Load, select};
use cavalcade_model::{
    BitsPerSec, ClassShares, Contended, Discipline, Excess, Fabric, FabricSpec, LinkId, PortId, Priority,
    Scope, Terms,
};

const PORTS: u32 = 4;
const COFLOWS: u32 = 4;

/// Fabrics of several switches with so many ports: paths of two, four and six links.
const FABRICS: [&str; 4] = [
    "tree:pods=1,racks=2,hosts=2,oversubscription=2",
    "tree:pods=2,racks=1,hosts=2",
    "tree:pods=2,racks=2,hosts=1,oversubscription=2",
    "leafspine:leaves=2,spines=2,hosts=2",
];

/// A case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Case {
    /// Max-min in strict classes, all pairs of ports of a switch together.
    Pairs,
    /// The same along paths, on a switch.
    Paths,
    /// The same on a tree.
    Tree,
    /// All pairs of ports together on a tree.
    PairsTree,
    /// Max-min in weighted classes, excess by weight.
    Weighted,
    /// Max-min in weighted classes, excess to the highest.
    WeightedHighest,
    /// Each link's own priorities.
    PerLink,
    /// The greedy discipline.
    Greedy,
    /// Greedy by number of flows.
    InTurn,
    /// Coflows whose flows end together.
    Madd,
    /// The same on a tree.
    MaddTree,
    /// Shortest flow first.
    Shortest,
    /// Each link's own priorities on a tree, by the definition.
    PerLinkTree,
    /// Greedy on several switches.
    GreedyTree,
    /// Greedy by number of flows on several switches.
    InTurnTree,
    /// Weighted classes on several switches, excess by weight.
    WeightedTree,
    /// Shortest flow first on several switches.
    ShortestTree,
    /// Weighted classes on several switches, excess to the highest.
    WeightedHighestTree,
    /// Weighted classes by pairs of ports on several switches, excess by weight.
    WeightedPairsTree,
    /// The same, excess to the highest.
    WeightedHighestPairsTree,
    /// Weighted flows, by the definition.
    OfFlows,
    /// The same on several switches.
    OfFlowsTree,
}

impl Case {
    /// All of them.
    pub(crate) const ALL: [Case; 22] = [
        Case::Pairs,
        Case::Paths,
        Case::Tree,
        Case::PairsTree,
        Case::Weighted,
        Case::WeightedHighest,
        Case::PerLink,
        Case::Greedy,
        Case::InTurn,
        Case::Madd,
        Case::MaddTree,
        Case::Shortest,
        Case::PerLinkTree,
        Case::GreedyTree,
        Case::InTurnTree,
        Case::WeightedTree,
        Case::ShortestTree,
        Case::WeightedHighestTree,
        Case::WeightedPairsTree,
        Case::WeightedHighestPairsTree,
        Case::OfFlows,
        Case::OfFlowsTree,
    ];

    fn terms(self) -> Terms {
        let discipline = match self {
            Case::Greedy | Case::GreedyTree => Discipline::Greedy,
            Case::InTurn | Case::InTurnTree => Discipline::InTurn,
            Case::Madd | Case::MaddTree => Discipline::Madd,
            Case::Shortest | Case::ShortestTree => Discipline::ShortestFlow,
            _ => Discipline::MaxMin,
        };
        let excess = match self {
            Case::Weighted | Case::WeightedTree | Case::WeightedPairsTree => Some(Excess::Weighted),
            Case::WeightedHighest | Case::WeightedHighestTree | Case::WeightedHighestPairsTree => {
                Some(Excess::Highest)
            }
            _ => None,
        };
        let weights = vec![4, 2, 1];
        let shares = match excess {
            Some(excess) => ClassShares::Weighted { weights, excess },
            None if matches!(self, Case::OfFlows | Case::OfFlowsTree) => ClassShares::OfFlows { weights },
            None => ClassShares::Strict,
        };
        let per_link = matches!(self, Case::PerLink | Case::PerLinkTree);
        let scope = if per_link { Scope::Link } else { Scope::Fabric };
        Terms {
            scope,
            discipline,
            shares,
            flow_events: false,
            work_conserving: true,
            starvation_free: false,
            ticks: None,
        }
    }

    fn is_tree(self) -> bool {
        matches!(
            self,
            Case::Tree
                | Case::PairsTree
                | Case::WeightedPairsTree
                | Case::WeightedHighestPairsTree
                | Case::MaddTree
                | Case::PerLinkTree
                | Case::GreedyTree
                | Case::InTurnTree
                | Case::WeightedTree
                | Case::ShortestTree
                | Case::WeightedHighestTree
                | Case::OfFlowsTree
        )
    }

    /// Returns whether flows can have priorities of their own.
    fn ranks_flows(self) -> bool {
        let terms = self.terms();
        terms.scope != Scope::Link
            && matches!(terms.discipline, Discipline::MaxMin | Discipline::ShortestFlow)
    }
}

/// A flow as the scene knows it.
#[derive(Debug)]
struct Given {
    coflow: u32,
    path: Vec<u32>,
    accounts: Vec<u32>,
    priorities: Vec<Priority>,
    cap: f64,
    left: f64,
    rate: f64,
    watch: Option<f64>,
    is_over: bool,
}

struct Scene {
    case: Case,
    terms: Terms,
    fabric: Fabric,
    /// The links that the allocator looks at.
    links: Contended,
    capacity: Vec<f64>,
    fill: Box<dyn Fill>,
    flows: Vec<Given>,
    /// By account.
    priorities: Vec<Priority>,
    sent: Vec<f64>,
    watches: Vec<Option<f64>>,
    same_coflows: bool,
    /// Sizes are even, and links alike: what is level is level to the last bit.
    is_even: bool,
    /// Number of coflows that have had a flow. Coflows are numbered in the order in which they have
    /// their first.
    come: u32,
    now: f64,
}

/// Reads what to do from a string of bytes; zeros at its end.
struct Script<'a>(&'a [u8]);

impl Script<'_> {
    fn draw(&mut self, below: u32) -> u32 {
        let (&byte, rest) = self.0.split_first().unwrap_or((&0, &[]));
        self.0 = rest;
        u32::from(byte) % below
    }
}

/// Carries out a sequence. Returns how many allocations were compared with the definition.
///
/// # Errors
/// With the first difference, in words.
pub(crate) fn run(case: Case, bytes: &[u8]) -> Result<u32, String> {
    let mut script = Script(bytes);
    let mut scene = Scene::new(case, &mut script);
    let mut compared = 0;
    while !script.0.is_empty() && scene.flows.len() < 60 {
        scene.step(&mut script)?;
        scene.compare()?;
        compared += 1;
    }
    for flow in 0..scene.flows.len() {
        // Nothing may be held at nothing for ever.
        if !scene.flows[flow].is_over && scene.flows[flow].cap == 0.0 {
            scene.set_cap(flow, None);
        }
    }
    scene.compare()?;
    while scene.flows.iter().any(|flow| !flow.is_over) {
        scene.advance(1.0)?;
        scene.compare()?;
        compared += 1;
        if compared > 2_000 {
            return Err(format!("no end in sight: {:?}", scene.flows));
        }
    }
    Ok(compared)
}

impl Scene {
    fn new(case: Case, script: &mut Script<'_>) -> Self {
        let rate = BitsPerSec(8_000_000_000);
        let mut fabric = if case.is_tree() {
            let spec = FABRICS[script.draw(FABRICS.len() as u32) as usize];
            let spec: FabricSpec = spec.parse().unwrap();
            let mut fabric = spec.build(rate).unwrap();
            // One time in four a link between switches fails.
            let inner = fabric.link_count() as u32 - 2 * PORTS;
            let failed = script.draw(4 * inner);
            if failed < inner {
                fabric.fail(LinkId(2 * PORTS + failed));
            }
            fabric
        } else {
            Fabric::big_switch(PORTS, rate).unwrap()
        };
        let is_even = script.draw(2) == 0;
        if !is_even {
            for link in 0..fabric.link_count() as u32 {
                let times = 1 + u64::from(script.draw(4));
                fabric.set_capacity(LinkId(link), BitsPerSec(rate.0 * times)).unwrap();
            }
        }
        let terms = case.terms();
        let capacity: Vec<f64> = fabric.links().map(|link| fabric.capacity(link).bytes_per_nano()).collect();
        // On links that differ flows of one size send at different rates, and who is level is a
        // matter of rounding.
        let is_alike = capacity.iter().all(|of_link| *of_link == capacity[0]);
        let is_even = is_even && (is_alike || terms.discipline != Discipline::ShortestFlow);
        let by_pairs =
            [Case::Pairs, Case::PairsTree, Case::WeightedPairsTree, Case::WeightedHighestPairsTree];
        let load = Load { flows: 100, is_wide: by_pairs.contains(&case) };
        let (mut fill, links) = select(&terms, &fabric, load, Allocator::Incremental);
        let accounts = COFLOWS as usize * if terms.scope == Scope::Link { fabric.link_count() } else { 1 };
        fill.reserve_accounts(accounts);
        Self {
            case,
            capacity,
            terms,
            fabric,
            links,
            fill,
            flows: Vec::new(),
            priorities: vec![Priority::default(); accounts],
            sent: vec![0.0; accounts],
            watches: vec![None; accounts],
            same_coflows: false,
            is_even,
            come: 0,
            now: 0.0,
        }
    }

    fn account(&self, coflow: u32, link: u32) -> u32 {
        if self.terms.scope == Scope::Link { coflow * self.capacity.len() as u32 + link } else { coflow }
    }

    fn step(&mut self, script: &mut Script<'_>) -> Result<(), String> {
        let any = |scene: &Self, script: &mut Script<'_>| {
            let there: Vec<usize> =
                (0..scene.flows.len()).filter(|&flow| !scene.flows[flow].is_over).collect();
            (!there.is_empty()).then(|| there[script.draw(there.len() as u32) as usize])
        };
        let priority =
            |script: &mut Script<'_>| Priority::new(script.draw(3) as u16, u64::from(script.draw(2)));
        match script.draw(12) {
            0..=3 => {
                let coflow = script.draw(COFLOWS).min(self.come);
                self.come = self.come.max(coflow + 1);
                for _ in 0..=script.draw(4) {
                    self.add(coflow, script);
                }
            }
            4 => {
                let coflow = script.draw(COFLOWS).min(self.come);
                let link = script.draw(self.capacity.len() as u32);
                let account = self.account(coflow, link);
                self.rank_account(account, priority(script));
            }
            5 => {
                if let Some(flow) = any(self, script).filter(|_| self.case.ranks_flows()) {
                    let priority = priority(script);
                    self.fill.set_flow_key(flow as u32, priority, self.now);
                    self.flows[flow].priorities.fill(priority);
                    self.same_coflows = false;
                }
            }
            6 => {
                // Under caps flows of one size send at different rates, and who is level is a
                // matter of rounding.
                let is_fit = !(self.is_even && self.terms.discipline == Discipline::ShortestFlow);
                if let Some(flow) = any(self, script).filter(|_| is_fit) {
                    let cap = [None, Some(0.0), Some(0.25), Some(0.75)][script.draw(4) as usize];
                    self.set_cap(flow, cap);
                }
            }
            7 => {
                if let Some(flow) = any(self, script).filter(|&flow| self.flows[flow].left > 2.0) {
                    let left = (self.flows[flow].left / 2.0).floor();
                    self.fill.watch_flow(flow as u32, left, self.now);
                    self.flows[flow].watch = Some(left);
                }
            }
            8 => {
                if let Some(flow) = any(self, script) {
                    let account = self.flows[flow].accounts[0];
                    let amount = (self.sent[account as usize] + 1.0 + f64::from(script.draw(30))).floor();
                    self.fill.watch_account(account, amount, self.now);
                    self.watches[account as usize] = Some(amount);
                }
            }
            9 => return self.advance(0.5),
            _ => return self.advance(1.0),
        }
        Ok(())
    }

    fn add(&mut self, coflow: u32, script: &mut Script<'_>) {
        let (from, to) = (PortId(script.draw(PORTS)), PortId(script.draw(PORTS)));
        // Where a failed link leaves no way, the flow stays at its port.
        let to = if self.fabric.find_path(from, to).is_some() { to } else { from };
        let path = self.links.path(&self.fabric, from, to);
        let path: Vec<u32> = path.into_iter().map(|link| link.0).collect();
        // On uneven links rounding decides what is level, so no two amounts are alike.
        let bytes = if self.is_even {
            f64::from(4 * (1 + script.draw(10)))
        } else {
            1000.0 + f64::from(script.draw(256) * 65_536 + script.draw(256) * 256 + self.flows.len() as u32)
        };
        let accounts: Vec<u32> = path.iter().map(|&link| self.account(coflow, link)).collect();
        let priorities = accounts.iter().map(|&account| self.priorities[account as usize]).collect();
        self.fill.add(self.flows.len() as u32, &path, &accounts, bytes, self.now);
        let (cap, left, rate) = (f64::INFINITY, bytes, 0.0);
        let (watch, is_over) = (None, false);
        self.flows.push(Given { coflow, path, accounts, priorities, cap, left, rate, watch, is_over });
        self.same_coflows = false;
    }

    fn rank_account(&mut self, account: u32, priority: Priority) {
        self.fill.set_account_keys(&[(account, priority)], self.now);
        let is_there = self.flows.iter().any(|flow| flow.accounts.contains(&account) && !flow.is_over);
        self.same_coflows &= self.priorities[account as usize] == priority || !is_there;
        self.priorities[account as usize] = priority;
        for flow in &mut self.flows {
            for (own, _) in flow.priorities.iter_mut().zip(&flow.accounts).filter(|(_, of)| **of == account) {
                *own = priority;
            }
        }
    }

    fn set_cap(&mut self, flow: usize, cap: Option<f64>) {
        self.fill.set_cap(flow as u32, cap, self.now);
        self.flows[flow].cap = cap.unwrap_or(f64::INFINITY);
        self.same_coflows = false;
    }

    /// Goes on to the next thing that comes due, or part of the way.
    fn advance(&mut self, part: f64) -> Result<(), String> {
        let next = self.fill.next();
        if next == f64::INFINITY {
            return Ok(());
        }
        if next < self.now {
            return Err(format!("next {next} is before now, {}", self.now));
        }
        let time = (next - self.now) * part;
        self.now = if part == 1.0 { next } else { self.now + time };
        for flow in self.flows.iter_mut().filter(|flow| !flow.is_over) {
            let sent = (flow.rate * time).min(flow.left);
            flow.left -= sent;
            let accounts =
                if self.terms.scope == Scope::Link { &flow.accounts[..] } else { &flow.accounts[..1] };
            accounts.iter().for_each(|&account| self.sent[account as usize] += sent);
        }
        let mut due = Due::default();
        self.fill.take_due(self.now, &mut due);
        for &number in &due.finished {
            let flow = &mut self.flows[number as usize];
            if std::mem::replace(&mut flow.is_over, true) || flow.left > CLOSE {
                return Err(format!("flow {number} ends with {} bytes left", flow.left));
            }
            flow.rate = 0.0;
            let coflow = flow.coflow;
            self.same_coflows &= self.flows.iter().any(|flow| flow.coflow == coflow && !flow.is_over);
        }
        for &number in &due.flows {
            let flow = &mut self.flows[number as usize];
            if flow.watch.take().is_none_or(|watch| (flow.left - watch).abs() > CLOSE) {
                return Err(format!("flow {number} is reported with {} bytes left", flow.left));
            }
        }
        for &number in &due.accounts {
            let watch = self.watches[number as usize].take();
            if watch.is_none_or(|watch| (self.sent[number as usize] - watch).abs() > CLOSE) {
                return Err(format!("account {number} is reported with {watch:?} bytes sent"));
            }
        }
        self.nothing_is_overdue()
    }

    fn nothing_is_overdue(&self) -> Result<(), String> {
        for (number, flow) in self.flows.iter().enumerate().filter(|(_, flow)| !flow.is_over) {
            if flow.rate > 0.0 && flow.left < -CLOSE + flow.watch.unwrap_or(0.0) || flow.left <= 0.0 {
                return Err(format!("flow {number} should have been reported: {flow:?}"));
            }
        }
        let late = |(sent, watch): (&f64, &Option<f64>)| watch.is_some_and(|watch| sent > &(watch + CLOSE));
        match self.sent.iter().zip(&self.watches).position(late) {
            Some(account) => Err(format!("account {account} should have been reported")),
            None => Ok(()),
        }
    }

    /// Refills and compares with the definition.
    fn compare(&mut self) -> Result<(), String> {
        self.fill.refill(self.now);
        let there: Vec<usize> = (0..self.flows.len()).filter(|&flow| !self.flows[flow].is_over).collect();
        // The definition is told what the allocator has left, or rounding would decide between
        // flows that are level. That the allocator is right about it is checked below.
        let mut flows: Vec<reference::Flow<'_>> = (there.iter().map(|&number| (number, &self.flows[number])))
            .map(|(number, flow)| reference::Flow {
                path: &flow.path,
                coflow: flow.coflow,
                priorities: &flow.priorities,
                remaining: self.fill.remaining(number as u32, self.now),
                cap: flow.cap,
            })
            .collect();
        let before: Vec<f64> = there.iter().map(|&flow| self.flows[flow].rate).collect();
        let past = Past { rates: &before, same_coflows: self.same_coflows };
        let rates = if self.terms.discipline == Discipline::ShortestFlow {
            let is_same = |(&number, defined): (&usize, &f64)| {
                let rate: f64 = self.fill.rate(number as u32);
                (rate - defined).abs() <= 1e-7
            };
            let is_found = |rates: &[f64]| there.iter().zip(rates).all(is_same);
            level::allocate(&self.terms, &self.capacity, &mut flows, past, is_found)
        } else {
            reference::allocate(&self.terms, &self.capacity, &flows, past)
        };
        for (&number, defined) in there.iter().zip(rates) {
            let (rate, left) = (self.fill.rate(number as u32), self.fill.remaining(number as u32, self.now));
            let flow = &mut self.flows[number];
            flow.rate = rate;
            if (rate - defined).abs() > 1e-7 {
                return Err(format!(
                    "at {}: flow {number} gets {rate}, by the definition {defined}: {:#?}",
                    self.now, self.flows
                ));
            }
            if (left - flow.left).abs() > CLOSE {
                return Err(format!("flow {number} has {left} bytes left in place of {}", flow.left));
            }
        }
        self.same_coflows = true;
        for (account, sent) in self.sent.iter().enumerate() {
            let attained = self.fill.attained(account as u32, self.now);
            if (attained - sent).abs() > CLOSE {
                return Err(format!("account {account} has sent {attained} bytes in place of {sent}"));
            }
        }
        Ok(())
    }
}

/// The tolerance of amounts, in bytes.
const CLOSE: f64 = 1e-2;
