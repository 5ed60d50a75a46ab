//! Links that rank tasks as Baraat's switches do, by one order of which classes are runs, against
//! the definition: what random priorities seldom are. Shuffles come and go over small switches,
//! tasks become heavy at links, accounts are watched, time's origin moves. Some links are faster
//! than others, and some have failed.
//!
//! `CAVALCADE_SEQUENCES` is the number of sequences, for a longer search.

#![allow(clippy::unwrap_used, reason = "a test whose scene cannot be set has failed")]

use cavalcade_allocate::reference::{self, Past};
use cavalcade_allocate::{Due, Fill, PerLinkFill};
use cavalcade_model::{Discipline, Priority, Scope, Terms};

const SEQUENCES: u64 = 400;
/// Sequences over switches of more ports than a word of a set has bits.
const WIDE_SEQUENCES: u64 = 30;
/// The most senders and receivers of a shuffle.
const WIDEST: u32 = 8;
const STEPS: usize = 60;
/// The tolerance of amounts, in bytes, and of rates.
const CLOSE: f64 = 1e-2;
const SAME: f64 = 1e-7;

/// Random numbers (Marsaglia's xorshift).
struct Draws(u64);

impl Draws {
    fn draw(&mut self, below: u32) -> u32 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        ((self.0 >> 11) % u64::from(below)) as u32
    }

    fn one_in(&mut self, count: u32) -> bool {
        self.draw(count) == 0
    }
}

struct Sent {
    path: [u32; 2],
    accounts: [u32; 2],
    left: f64,
    rate: f64,
    is_over: bool,
}

/// A task at one link.
#[derive(Clone, Copy, Default)]
struct AtLink {
    is_heavy: bool,
    priority: Priority,
    sent: f64,
    watch: Option<f64>,
}

struct Scene {
    ports: u32,
    tasks: u32,
    capacity: Vec<f64>,
    fill: PerLinkFill,
    flows: Vec<Sent>,
    /// By account: task and link.
    accounts: Vec<AtLink>,
    /// Tasks below this number are of the first range of ids, the others of the background's.
    online: u32,
    has_twins: bool,
    now: f64,
}

impl Scene {
    fn new(ports: u32, draws: &mut Draws) -> Self {
        let (links, tasks) = (2 * ports, 2 + draws.draw(6));
        let is_even = draws.one_in(2);
        let capacity = |_| if is_even { 1.0 } else { f64::from(draws.draw(13).div_ceil(3)) };
        let capacity: Vec<f64> = (0..links).map(capacity).collect();
        let accounts = (tasks * links) as usize;
        let mut fill = PerLinkFill::new(capacity.clone(), 2_000);
        fill.reserve_accounts(accounts);
        Self {
            ports,
            tasks,
            capacity,
            fill,
            flows: Vec::new(),
            accounts: vec![AtLink::default(); accounts],
            online: if draws.one_in(3) { draws.draw(tasks) } else { tasks },
            has_twins: draws.one_in(3),
            now: 0.0,
        }
    }

    fn step(&mut self, draws: &mut Draws) {
        match draws.draw(10) {
            0..=2 if self.flows.len() < 1_000 => self.add_shuffle(draws),
            3 | 4 => {
                let account = draws.draw(self.accounts.len() as u32);
                self.accounts[account as usize].is_heavy = true;
            }
            5 => self.watch(draws),
            6 => self.rebase(),
            _ => {
                let part = if draws.one_in(4) { 0.5 } else { 1.0 };
                self.advance(part);
            }
        }
        self.classify();
        self.fill.refill(self.now);
    }

    fn add_shuffle(&mut self, draws: &mut Draws) {
        let task = draws.draw(self.tasks);
        let [first_sender, first_receiver] = [(); 2].map(|()| draws.draw(self.ports));
        let [senders, receivers] = [(); 2].map(|()| 1 + draws.draw(self.ports.min(WIDEST)));
        let pairs = (0..senders).flat_map(|sender| (0..receivers).map(move |receiver| (sender, receiver)));
        for (sender, receiver) in pairs {
            let path =
                [(first_sender + sender) % self.ports, self.ports + (first_receiver + receiver) % self.ports];
            let count = if self.has_twins { draws.draw(3) } else { draws.draw(4).min(1) };
            for _ in 0..count {
                let accounts = path.map(|link| task * 2 * self.ports + link);
                let left = f64::from(1_000 + draws.draw(3_000));
                self.fill.add(self.flows.len() as u32, &path, &accounts, left, self.now);
                self.flows.push(Sent { path, accounts, left, rate: 0.0, is_over: false });
            }
        }
    }

    fn watch(&mut self, draws: &mut Draws) {
        if self.flows.is_empty() {
            return;
        }
        let flow = &self.flows[draws.draw(self.flows.len() as u32) as usize];
        if !flow.is_over {
            let account = flow.accounts[draws.draw(2) as usize];
            let at_link = &mut self.accounts[account as usize];
            let amount = (at_link.sent + 1.0 + f64::from(draws.draw(2_000))).floor();
            at_link.watch = Some(amount);
            self.fill.watch_account(account, amount, self.now);
        }
    }

    fn rebase(&mut self) {
        let by = self.now.min(self.fill.next()).floor();
        if by > 0.0 {
            self.fill.rebase(by);
            self.now -= by;
        }
    }

    /// Goes on to the next thing that comes due, or part of the way.
    fn advance(&mut self, part: f64) {
        let next = self.fill.next();
        if next == f64::INFINITY {
            return;
        }
        let time = (next - self.now) * part;
        assert!(time > -1e-3, "next is {next} at {}", self.now);
        self.now = if part < 1.0 { self.now + time } else { next };
        for flow in self.flows.iter_mut().filter(|flow| !flow.is_over) {
            let sent = (flow.rate * time).min(flow.left);
            flow.left -= sent;
            flow.accounts.iter().for_each(|&account| self.accounts[account as usize].sent += sent);
        }
        let mut due = Due::default();
        self.fill.take_due(self.now, &mut due);
        for flow in due.finished {
            let flow = &mut self.flows[flow as usize];
            assert!(!flow.is_over && flow.left < CLOSE, "{} bytes are left of what ends", flow.left);
            (flow.is_over, flow.rate) = (true, 0.0);
        }
        for account in due.accounts {
            let AtLink { sent, watch, .. } = &mut self.accounts[account as usize];
            let watch = watch.take().unwrap();
            assert!((*sent - watch).abs() < CLOSE, "{sent} bytes are reported for {watch}");
        }
        assert!(self.flows.iter().all(|flow| flow.is_over || flow.left > 1e-9), "a flow should have ended");
        let is_late = |at: &AtLink| at.watch.is_some_and(|watch| at.sent > watch + CLOSE);
        assert!(!self.accounts.iter().any(is_late), "an account should have been reported");
    }

    /// Gives each class the id of its first task: a run of heavy ones and the first that is not.
    fn classify(&mut self) {
        let mut is_there = vec![false; self.accounts.len()];
        for flow in self.flows.iter().filter(|flow| !flow.is_over) {
            flow.accounts.iter().for_each(|&account| is_there[account as usize] = true);
        }
        let mut keys = Vec::new();
        for link in 0..2 * self.ports {
            let mut open: Option<Priority> = None;
            for task in 0..self.tasks {
                let account = task * 2 * self.ports + link;
                let at_link = &mut self.accounts[account as usize];
                if !is_there[account as usize] {
                    at_link.is_heavy = false;
                    continue;
                }
                let range = u16::from(task >= self.online);
                let own = Priority::new(range, u64::from(task));
                at_link.priority = open.filter(|open| open.class == range).unwrap_or(own);
                open = at_link.is_heavy.then_some(at_link.priority);
                keys.push((account, at_link.priority));
            }
        }
        self.fill.set_account_keys(&keys, self.now);
    }

    /// Compares all rates and amounts with the definition's.
    fn compare(&mut self) {
        let there: Vec<usize> = (0..self.flows.len()).filter(|&flow| !self.flows[flow].is_over).collect();
        let priority = |account: u32| self.accounts[account as usize].priority;
        let priorities: Vec<[Priority; 2]> =
            there.iter().map(|&flow| self.flows[flow].accounts.map(priority)).collect();
        let asked = there.iter().zip(&priorities).map(|(&flow, priorities)| reference::Flow {
            path: &self.flows[flow].path,
            coflow: 0,
            priorities,
            remaining: self.flows[flow].left,
            cap: f64::INFINITY,
        });
        let asked: Vec<reference::Flow<'_>> = asked.collect();
        let terms = Terms::strict(Scope::Link, Discipline::MaxMin);
        let past = Past { rates: &[], same_coflows: false };
        let defined = reference::allocate(&terms, &self.capacity, &asked, past);
        let mut carried = vec![0.0; self.capacity.len()];
        for (flow, defined) in there.into_iter().zip(defined) {
            let (rate, left) = (self.fill.rate(flow as u32), self.fill.remaining(flow as u32, self.now));
            let record = &mut self.flows[flow];
            assert!((rate - defined).abs() < SAME, "flow {flow} gets {rate}, by the definition {defined}");
            assert!((left - record.left).abs() < CLOSE, "{left} bytes are left in place of {}", record.left);
            record.rate = rate;
            record.path.iter().for_each(|&link| carried[link as usize] += rate);
        }
        let mut told = vec![0.0; self.capacity.len()];
        self.fill.add_use(&mut told);
        assert!(told.iter().zip(&carried).all(|(told, carried)| (told - carried).abs() < 100.0 * SAME));
        for (account, at_link) in (0..).zip(&self.accounts) {
            let sent = self.fill.attained(account, self.now);
            assert!((sent - at_link.sent).abs() < CLOSE, "{sent} bytes in place of {}", at_link.sent);
        }
    }
}

#[test]
fn switches_that_rank_tasks_by_one_order_agree_with_the_definition() {
    let asked = std::env::var("CAVALCADE_SEQUENCES").ok();
    let sequences = asked.map_or(SEQUENCES, |count| count.parse().unwrap());
    for sequence in 1..=sequences {
        agrees(sequence, |draws| 2 + draws.draw(7));
    }
}

#[test]
fn switches_of_more_ports_than_a_word_has_bits_agree_with_the_definition() {
    for sequence in 1..=WIDE_SEQUENCES {
        agrees(sequence, |draws| 60 + draws.draw(80));
    }
}

/// Compares one sequence, over a switch of so many ports, after each of its steps.
fn agrees(sequence: u64, ports: impl Fn(&mut Draws) -> u32) {
    let mut draws = Draws(sequence.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1);
    let mut scene = Scene::new(ports(&mut draws), &mut draws);
    for _ in 0..STEPS {
        scene.step(&mut draws);
        scene.compare();
    }
}
