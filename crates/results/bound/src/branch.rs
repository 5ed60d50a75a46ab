//! The least weight to drop, by branch and bound over a [`Cover`], with a tree as its proof.
//!
//! Each node fixes the fate of some members and prices the rows by linear programming; rows are
//! added only as they are broken, and forgotten when they get no price. A row may be counted
//! without a *base*, members that are (almost) dropped anyway: the smaller excess that is left caps
//! the others more sharply.
//!
//! Depth first and in stages, each of which is to prove a little more than is proven: so nodes are
//! cut as soon as they prove that much, a lighter set ends the stage at once, and an early stop
//! keeps what the last stage proved. A node's program starts from its parent's last state. What a
//! node proves is evaluated exactly from its prices.
//!
//! Which member to split on decides everything: by [`Gains`] (pseudo-costs) the trees on the
//! offline Facebook trace are ten times smaller than by the most undecided fraction.
//!
//! # Rejected
//! - Best first: needs every open node's program, 400 kB each, or to solve it again.
//! - Mixed-integer rounding of rows by divisors: a third of the nodes where few must be dropped, at
//!   three times the cost.

use std::rc::Rc;

use crate::cover::{Cover, Fate, Price, Prices, SCALE};
use crate::simplex::Simplex;

/// A row counts as broken if it misses so much of its excess.
const BROKEN: f64 = 1e-4;
/// Rows that enter a linear program at a time.
const ROWS_AT_ONCE: usize = 24;
/// Splits below one another: proofs are read by recursion.
const DEEPEST: usize = 50;
/// A stage is to prove this part of what is open, and at least one.
const STAGES: u64 = 16;
/// Bases are tried in this order: none, what is dropped whole, what is dropped at least by half.
const BASES: [f64; 3] = [2.0, 1.0 - 1e-6, 0.5];
/// Rounds of a program: solve, add broken rows.
const MOST_ROUNDS: usize = 40;
/// A price for a row that no job can relieve.
const PROHIBITIVE: u64 = 1 << 62;

/// Proof that so much must be dropped: prices of rows, or both cases of a member.
#[derive(Clone, Debug)]
pub(crate) enum Tree {
    /// Prices of rows, by number.
    Prices(Prices),
    /// One tree for the case that a member is kept, and one for the case that it is dropped.
    Split {
        /// The member.
        member: u32,
        /// The case that it is kept.
        kept: Box<Tree>,
        /// The case that it is dropped.
        dropped: Box<Tree>,
    },
}

/// Bounds on the least weight to drop.
#[derive(Clone, Debug)]
pub(crate) struct Answer {
    /// At least so much must go,
    pub(crate) proven: u64,
    /// because of this.
    pub(crate) tree: Tree,
    /// Members that it is enough to drop.
    pub(crate) drop: Vec<bool>,
    /// Their weight.
    pub(crate) enough: u64,
    /// Linear programs solved.
    pub(crate) programs: u64,
}

/// Reason that a stage ends without a proof.
enum Stop {
    /// A set was found that is lighter than what was to be proven.
    Lighter,
    /// So many linear programs were not enough.
    Effort,
}

struct Search<'a> {
    cover: &'a Cover,
    drop: Vec<bool>,
    enough: u64,
    programs: u64,
    most_programs: u64,
    gains: &'a mut Gains,
    go_on: &'a mut dyn FnMut(u64) -> bool,
}

/// Rise of linear programs when a job is fixed, for each unit that its fraction had to move:
/// averages of all searches so far. The job to split on is the one that promises most in both
/// cases.
#[derive(Clone, Debug, Default)]
pub(crate) struct Gains {
    /// For each job, kept and dropped: sum and count.
    seen: Vec<[(f64, f64); 2]>,
    all: (f64, f64),
}

impl Gains {
    pub(crate) fn new(jobs: usize) -> Self {
        Self { seen: vec![[(0.0, 0.0); 2]; jobs], all: (1.0, 1.0) }
    }

    fn add(&mut self, job: u32, drop: bool, gain: f64) {
        for entry in [&mut self.seen[job as usize][usize::from(drop)], &mut self.all] {
            entry.0 += gain;
            entry.1 += 1.0;
        }
    }

    fn of(&self, job: u32, drop: bool) -> f64 {
        let mean = self.all.0 / self.all.1;
        let (sum, count) = self.seen[job as usize][usize::from(drop)];
        (sum + mean) / (count + 1.0)
    }
}

/// A member to split on, its fraction, and what the program came to.
#[derive(Clone, Copy)]
struct Split {
    member: u32,
    fraction: f64,
    value: f64,
}

/// Looks for the least weight to drop, with at most so many linear programs.
pub(crate) fn least_drop(
    cover: &Cover,
    programs: u64,
    gains: &mut Gains,
    go_on: &mut dyn FnMut(u64) -> bool,
) -> Answer {
    let mut search = Search {
        cover,
        drop: vec![true; cover.jobs.len()],
        enough: cover.weights.iter().sum(),
        programs: 0,
        most_programs: programs,
        gains,
        go_on,
    };
    let mut root = Program::new(cover);
    let (mut proven, prices) = search.solve(&mut root);
    let mut tree = Tree::Prices(prices);
    while proven < search.enough {
        let target = proven + 1.max((search.enough - proven) / STAGES);
        match search.below(root.clone(), target, 0) {
            Ok(proof) => (proven, tree) = (target, proof),
            Err(Stop::Lighter) => (),
            Err(Stop::Effort) => break,
        }
    }
    Answer { proven, tree, drop: search.drop, enough: search.enough, programs: search.programs }
}

impl Search<'_> {
    /// Prices the rows, and tries to round the fractions.
    fn solve(&mut self, program: &mut Program<'_>) -> (u64, Prices) {
        self.programs += 1;
        if let Some(row) = program.hopeless() {
            let prices = hopeless(row);
            return (self.cover.proven(&program.fates, &prices), prices);
        }
        program.solve();
        program.forget_idle();
        if let Some(drop) = self.cover.complete(&program.fates, &program.fractions()) {
            let weight = (0..drop.len()).filter(|&m| drop[m]).map(|m| self.cover.weights[m]).sum();
            if weight < self.enough {
                self.enough = weight;
                self.drop = drop;
            }
        }
        let prices = program.prices();
        (self.cover.proven(&program.fates, &prices), prices)
    }

    /// A proof that at least `target` must be dropped, given what `program`, which has been solved,
    /// has fixed.
    fn below(&mut self, mut program: Program<'_>, target: u64, depth: usize) -> Result<Tree, Stop> {
        if self.enough < target {
            return Err(Stop::Lighter);
        }
        if self.programs >= self.most_programs || depth >= DEEPEST || !(self.go_on)(self.programs) {
            return Err(Stop::Effort);
        }
        let fractions = program.fractions();
        let member = self.most_promising(&fractions).ok_or(Stop::Effort)?;
        let fraction = fractions[member as usize];
        let value = self.value(&fractions);
        let drop_first = fractions[member as usize] >= 0.5;
        let mut first = program.clone();
        first.fix(member, drop_first);
        let split = Split { member, fraction, value };
        let first = self.child(first, target, depth, split, drop_first)?;
        program.fix(member, !drop_first);
        let second = self.child(program, target, depth, split, !drop_first)?;
        let (kept, dropped) = if drop_first { (second, first) } else { (first, second) };
        Ok(Tree::Split { member, kept: Box::new(kept), dropped: Box::new(dropped) })
    }

    /// The same one level down, in one case of `split`.
    fn child(
        &mut self,
        mut program: Program<'_>,
        target: u64,
        depth: usize,
        split: Split,
        drop: bool,
    ) -> Result<Tree, Stop> {
        let Split { member, fraction, value } = split;
        let (proven, prices) = self.solve(&mut program);
        let moved = if drop { 1.0 - fraction } else { fraction };
        let gain = (self.value(&program.fractions()) - value).max(0.0) / moved;
        self.gains.add(self.cover.jobs[member as usize], drop, gain);
        if proven >= target { Ok(Tree::Prices(prices)) } else { self.below(program, target, depth + 1) }
    }

    /// Returns the objective of a linear program at `fractions`.
    fn value(&self, fractions: &[f64]) -> f64 {
        fractions.iter().zip(&self.cover.weights).map(|(fraction, &weight)| fraction * weight as f64).sum()
    }

    /// The undecided member that promises to raise the program most in both cases.
    fn most_promising(&self, fractions: &[f64]) -> Option<u32> {
        let mut best: Option<(f64, u32)> = None;
        for (member, &fraction) in fractions.iter().enumerate() {
            if !(BROKEN..=1.0 - BROKEN).contains(&fraction) {
                continue;
            }
            let job = self.cover.jobs[member];
            let kept = self.gains.of(job, false) * fraction;
            let dropped = self.gains.of(job, true) * (1.0 - fraction);
            let score = kept.max(1e-6) * dropped.max(1e-6);
            if best.is_none_or(|(most, _)| score > most) {
                best = Some((score, member as u32));
            }
        }
        best.map(|(_, member)| member)
    }
}

/// A proof from a row that no job can relieve.
fn hopeless(row: u32) -> Prices {
    Prices { bases: vec![Vec::new()], rows: vec![Price { row, base: 0, price: PROHIBITIVE }] }
}

/// The linear program of a node. Rows enter when they are broken.
#[derive(Clone)]
struct Program<'a> {
    cover: &'a Cover,
    fates: Vec<Fate>,
    /// For each row: by how much it would be relieved beyond its excess if all were dropped that
    /// are not kept.
    spare: Vec<i128>,
    simplex: Simplex,
    /// Sets of members that rows are counted without.
    bases: Vec<Rc<Vec<bool>>>,
    /// Row and base of each row of the simplex.
    rows: Vec<(u32, u32)>,
}

impl<'a> Program<'a> {
    fn new(cover: &'a Cover) -> Self {
        let spare = |row: usize| {
            let all: i128 = cover.terms(row).iter().map(|&(_, busy)| i128::from(busy)).sum();
            all - i128::from(cover.rows[row].excess)
        };
        Self {
            cover,
            fates: vec![Fate::Open; cover.jobs.len()],
            spare: (0..cover.rows.len()).map(spare).collect(),
            simplex: Simplex::new(cover.weights.iter().map(|&weight| weight as f64)),
            bases: Vec::new(),
            rows: Vec::new(),
        }
    }

    fn fix(&mut self, member: u32, drop: bool) {
        self.fates[member as usize] = if drop { Fate::Dropped } else { Fate::Kept };
        self.simplex.fix(member as usize, drop);
        if !drop {
            for &(row, busy) in self.cover.rows_of(member as usize) {
                self.spare[row as usize] -= i128::from(busy);
            }
        }
    }

    /// A row that stays broken even if all are dropped that are not kept.
    fn hopeless(&self) -> Option<u32> {
        self.spare.iter().position(|&spare| spare < 0).map(|row| row as u32)
    }

    fn add(&mut self, row: u32, base: u32) {
        let without = &self.bases[base as usize];
        let left = self.cover.left(row as usize, without);
        let terms = self.cover.terms(row as usize).iter().filter(|(member, _)| !without[*member as usize]);
        let part = |busy: u64| busy.min(left) as f64 / left as f64;
        self.simplex.add_row(terms.map(|&(member, busy)| (member as usize, part(busy))));
        self.rows.push((row, base));
    }

    fn solve(&mut self) {
        for _ in 0..MOST_ROUNDS {
            if !self.simplex.solve() || !self.cut() {
                return;
            }
        }
    }

    /// Forgets rows without a price, so that programs do not grow on the way down.
    fn forget_idle(&mut self) {
        let kept = self.simplex.forget_idle();
        self.rows = kept.iter().map(|&row| self.rows[row]).collect();
        let mut number = vec![None; self.bases.len()];
        let mut bases = Vec::new();
        for (_, base) in &mut self.rows {
            let old = *base as usize;
            *base = *number[old].get_or_insert_with(|| {
                bases.push(Rc::clone(&self.bases[old]));
                bases.len() as u32 - 1
            });
        }
        self.bases = bases;
    }

    /// Adds rows that are broken; whether there were any.
    fn cut(&mut self) -> bool {
        let fractions = self.fractions();
        for threshold in BASES {
            let base: Vec<bool> = fractions.iter().map(|&fraction| fraction >= threshold).collect();
            let broken = self.broken(&fractions, &base);
            if !broken.is_empty() {
                self.bases.push(Rc::new(base));
                let index = self.bases.len() as u32 - 1;
                broken.into_iter().for_each(|row| self.add(row, index));
                return true;
            }
        }
        false
    }

    /// The rows that are missed most, at most one of each link.
    fn broken(&self, fractions: &[f64], base: &[bool]) -> Vec<u32> {
        let mut worst: Vec<(f64, u32)> = Vec::new();
        let mut link = u32::MAX;
        // By columns: few members are dropped even in part.
        let mut left: Vec<u64> = self.cover.rows.iter().map(|row| row.excess).collect();
        for member in (0..base.len()).filter(|&member| base[member]) {
            for &(row, busy) in self.cover.rows_of(member) {
                left[row as usize] = left[row as usize].saturating_sub(busy);
            }
        }
        let mut covered = vec![0.0; left.len()];
        for member in (0..base.len()).filter(|&member| fractions[member] > 0.0 && !base[member]) {
            for &(row, busy) in self.cover.rows_of(member) {
                covered[row as usize] += fractions[member] * busy.min(left[row as usize]) as f64;
            }
        }
        for (row, facts) in self.cover.rows.iter().enumerate() {
            let left = left[row];
            if left == 0 {
                continue;
            }
            let covered = covered[row] / left as f64;
            if covered > 1.0 - BROKEN {
                continue;
            }
            match worst.last_mut() {
                Some(last) if facts.interval.link == link => {
                    if covered < last.0 {
                        *last = (covered, row as u32);
                    }
                }
                _ => worst.push((covered, row as u32)),
            }
            link = facts.interval.link;
        }
        worst.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
        worst.truncate(ROWS_AT_ONCE);
        worst.into_iter().map(|(_, row)| row).collect()
    }

    fn fractions(&self) -> Vec<f64> {
        (0..self.fates.len()).map(|member| self.simplex.fraction(member)).collect()
    }

    fn prices(&self) -> Prices {
        let fixed = |index: usize| (self.simplex.price(index) * SCALE as f64) as u64;
        let mut number = vec![None; self.bases.len()];
        let mut prices = Prices::default();
        for (index, &(row, base)) in self.rows.iter().enumerate() {
            let price = fixed(index).min(PROHIBITIVE);
            if price == 0 {
                continue;
            }
            let base = *number[base as usize].get_or_insert_with(|| {
                let members = (0..self.fates.len() as u32).filter(|&m| self.bases[base as usize][m as usize]);
                prices.bases.push(members.collect());
                prices.bases.len() as u32 - 1
            });
            prices.rows.push(Price { row, base, price });
        }
        prices
    }
}
