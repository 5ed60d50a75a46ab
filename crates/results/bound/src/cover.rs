//! How many jobs can be done in time? Asked the other way: what is the least weight that must be
//! *dropped*?
//!
//! Suppose that every job of a set is done by its due time. Then on every link, what the set brings
//! from some time `from` on and must have across by some time `to` fits between the two. A [`Row`]
//! is one such interval in which not everything fits: the jobs dropped must take at least its
//! `excess` off it. Rows say nothing about which job meets which, so they are necessary and not
//! sufficient; that makes the answer a bound.
//!
//! Few jobs must be dropped at a time when the network keeps up, and then whole numbers matter:
//! 1.01 dropped jobs are two. Two things sharpen the fractional answer. A job counts for no more
//! than the excess of a row, and that excess may be taken without a *base*, a set of jobs that are
//! dropped anyway: for any base `B`, `Σ_{not in B} min(a, e − a(B))·z ≥ e − a(B)` (the knapsack
//! cover inequalities of Carr, Fleischer, Leung and Phillips 2000). And the result is rounded up.
//!
//! # Prices
//! A proof is a price for each row. In exact terms: with `m` the price and `e` the excess of a row,
//! at least `Σ m − Σ_jobs max(0, Σ m·min(a, e)/e − weight)` must be dropped, since that is what any
//! prices leave of the least cover's weight. Prices are fixed-point numbers with [`SCALE`]; what a
//! job is charged is rounded up.
//!
//! # Rows that matter
//! Of two intervals that end together, the longer one adds nothing unless its excess is larger.
//! Those that do are the records of one scan from late to early releases.

use crate::problem::Problem;

/// Prices are whole multiples of one part in so many.
pub(crate) const SCALE: u64 = 1 << 32;

/// An interval of one link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Interval {
    pub(crate) link: u32,
    pub(crate) from: u64,
    pub(crate) to: u64,
}

/// An interval in which not everything fits.
#[derive(Clone, Debug)]
pub(crate) struct Row {
    pub(crate) interval: Interval,
    /// Time to be freed, in nanoseconds.
    pub(crate) excess: u64,
    first: u32,
    end: u32,
}

/// A row, what it is counted without, and what relieving it is worth.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Price {
    pub(crate) row: u32,
    /// Index of the base.
    pub(crate) base: u32,
    pub(crate) price: u64,
}

/// Prices of rows, and the sets of members that some rows are counted without.
#[derive(Clone, Debug, Default)]
pub(crate) struct Prices {
    pub(crate) bases: Vec<Vec<u32>>,
    pub(crate) rows: Vec<Price>,
}

/// Decision about a member on one branch of the tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    Open,
    Kept,
    Dropped,
}

/// The rows, and the jobs that are in any: its members.
#[derive(Clone, Debug, Default)]
pub(crate) struct Cover {
    /// The job of each member.
    pub(crate) jobs: Vec<u32>,
    /// The weight of each member.
    pub(crate) weights: Vec<u64>,
    pub(crate) rows: Vec<Row>,
    /// Of each row: member, and how long it keeps the link busy within the interval.
    terms: Vec<(u32, u64)>,
    /// Of each member: row, and the same.
    columns: Vec<Vec<(u32, u64)>>,
}

impl Cover {
    /// Everything in `problem` that has a due time in `due` shall be done by then.
    pub(crate) fn new(problem: &Problem, due: &[Option<u64>]) -> Self {
        let mut maker = Maker {
            problem,
            due,
            member: vec![NONE; problem.jobs.len()],
            brought: vec![0; problem.jobs.len()],
            cover: Self::default(),
        };
        for link in 0..problem.links.len() {
            maker.link(link as u32);
        }
        let mut cover = maker.cover;
        cover.columns = vec![Vec::new(); cover.jobs.len()];
        for (index, row) in cover.rows.iter().enumerate() {
            for &(member, busy) in &cover.terms[row.first as usize..row.end as usize] {
                cover.columns[member as usize].push((index as u32, busy));
            }
        }
        cover
    }

    pub(crate) fn terms(&self, row: usize) -> &[(u32, u64)] {
        let row = &self.rows[row];
        &self.terms[row.first as usize..row.end as usize]
    }

    /// Returns the excess of `row` that remains without those in `base`.
    pub(crate) fn left(&self, row: usize, base: &[bool]) -> u64 {
        let gone = self.terms(row).iter().filter(|(member, _)| base[*member as usize]);
        gone.fold(self.rows[row].excess, |left, (_, busy)| left.saturating_sub(*busy))
    }

    /// The weight that must be dropped if members have these fates, by the prices of some rows.
    /// Exact.
    pub(crate) fn proven(&self, fates: &[Fate], prices: &Prices) -> u64 {
        let mut charges = vec![0u128; self.jobs.len()];
        let mut sum = 0i128;
        let bases: Vec<Vec<bool>> = prices.bases.iter().map(|base| self.flags(base)).collect();
        for &Price { row, base, price } in &prices.rows {
            let base = &bases[base as usize];
            let left = u128::from(self.left(row as usize, base));
            if left == 0 {
                continue;
            }
            sum += i128::from(price);
            for &(member, busy) in self.terms(row as usize) {
                if !base[member as usize] {
                    charges[member as usize] +=
                        (u128::from(price) * left.min(u128::from(busy))).div_ceil(left);
                }
            }
        }
        for (member, &charge) in charges.iter().enumerate() {
            let left = charge as i128 - i128::from(self.weights[member]) * i128::from(SCALE);
            match fates[member] {
                Fate::Open => sum -= left.max(0),
                Fate::Dropped => sum -= left,
                Fate::Kept => (),
            }
        }
        (sum.max(0) as u128).div_ceil(u128::from(SCALE)) as u64
    }

    /// The rows of a member, and how long it keeps their links busy.
    pub(crate) fn rows_of(&self, member: usize) -> &[(u32, u64)] {
        &self.columns[member]
    }

    /// Marks the members that are in the list.
    pub(crate) fn flags(&self, members: &[u32]) -> Vec<bool> {
        let mut flags = vec![false; self.jobs.len()];
        members.iter().for_each(|&member| flags[member as usize] = true);
        flags
    }

    /// Drops enough, those with a large fraction first, and then keeps again whatever is not
    /// needed. `None` where what must be kept does not fit.
    pub(crate) fn complete(&self, fates: &[Fate], fractions: &[f64]) -> Option<Vec<bool>> {
        let mut dropped: Vec<bool> = fates.iter().map(|&fate| fate == Fate::Dropped).collect();
        let mut taken = Vec::new();
        let mut slack: Vec<i128> = self.rows.iter().map(|row| -i128::from(row.excess)).collect();
        for member in (0..dropped.len()).filter(|&member| dropped[member]) {
            self.columns[member].iter().for_each(|&(row, busy)| slack[row as usize] += i128::from(busy));
        }
        for row in 0..self.rows.len() {
            if slack[row] >= 0 {
                continue;
            }
            let mut able: Vec<(u32, u64)> = self.terms(row).to_vec();
            able.retain(|&(member, _)| !dropped[member as usize] && fates[member as usize] == Fate::Open);
            able.sort_by(|a, b| {
                let (za, zb) = (fractions[a.0 as usize], fractions[b.0 as usize]);
                zb.total_cmp(&za).then(b.1.cmp(&a.1)).then(a.0.cmp(&b.0))
            });
            for (member, _) in able {
                dropped[member as usize] = true;
                taken.push(member as usize);
                self.columns[member as usize]
                    .iter()
                    .for_each(|&(row, busy)| slack[row as usize] += i128::from(busy));
                if slack[row] >= 0 {
                    break;
                }
            }
            if slack[row] < 0 {
                return None;
            }
        }
        taken.sort_by(|&a, &b| fractions[a].total_cmp(&fractions[b]).then(a.cmp(&b)));
        for member in taken {
            if self.columns[member].iter().all(|&(row, busy)| slack[row as usize] >= i128::from(busy)) {
                self.columns[member].iter().for_each(|&(row, busy)| slack[row as usize] -= i128::from(busy));
                dropped[member] = false;
            }
        }
        Some(dropped)
    }
}

const NONE: u32 = u32::MAX;

struct Maker<'a> {
    problem: &'a Problem,
    due: &'a [Option<u64>],
    /// The member that a job is, or [`NONE`].
    member: Vec<u32>,
    /// Work of each job within the current interval; zero between intervals.
    brought: Vec<u64>,
    cover: Cover,
}

impl Maker<'_> {
    fn link(&mut self, link: u32) {
        let problem = self.problem;
        let loads = &problem.links[link as usize];
        let mut ends: Vec<u64> = loads.iter().filter_map(|load| self.due[load.job as usize]).collect();
        ends.sort_unstable();
        ends.dedup();
        for to in ends {
            let mut met: Vec<u32> = Vec::new();
            let (mut busy, mut most) = (0u128, 0u64);
            for chunk in loads.chunk_by(|a, b| a.release == b.release) {
                for load in
                    chunk.iter().filter(|load| self.due[load.job as usize].is_some_and(|due| due <= to))
                {
                    let brought = &mut self.brought[load.job as usize];
                    if *brought == 0 {
                        met.push(load.job);
                    }
                    *brought = brought.saturating_add(load.busy);
                    busy += u128::from(load.busy);
                }
                let from = chunk[0].release;
                let excess = busy.saturating_sub(u128::from(to.saturating_sub(from)));
                let excess = u64::try_from(excess).unwrap_or(u64::MAX);
                if excess > most {
                    most = excess;
                    self.row(Row { interval: Interval { link, from, to }, excess, first: 0, end: 0 }, &met);
                }
            }
            met.iter().for_each(|&job| self.brought[job as usize] = 0);
        }
    }

    fn row(&mut self, row: Row, met: &[u32]) {
        let first = self.cover.terms.len() as u32;
        for &job in met {
            let member = &mut self.member[job as usize];
            if *member == NONE {
                *member = self.cover.jobs.len() as u32;
                self.cover.jobs.push(job);
                self.cover.weights.push(self.problem.jobs[job as usize].weight);
            }
            self.cover.terms.push((*member, self.brought[job as usize]));
        }
        self.cover.rows.push(Row { first, end: self.cover.terms.len() as u32, ..row });
    }
}
