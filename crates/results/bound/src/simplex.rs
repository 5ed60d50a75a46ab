//! A small dual simplex for covering: the least weight of fractions `z` in `[0, 1]` with every row
//! `Σ a·z ≥ 1`.
//!
//! All variables are boxed and all weights positive, so "nothing dropped" is dual feasible from the
//! start, and stays so when rows are added: each round only repairs the rows that it breaks. That
//! is the dual simplex with bound flipping, here on a dense dictionary of as many rows as have been
//! added and one column for each variable.
//!
//! Floating point, and no promise: callers take the row prices and evaluate them exactly
//! ([`crate::cover::Cover::proven`]). Any non-negative prices prove something, so rounding or an
//! early stop costs sharpness and never truth. Order of operations is fixed, so results are the
//! same everywhere.
//!
//! # Cost
//! O(rows · columns) for each pivot; some tens of pivots are usual, a few hundred where hundreds of
//! jobs compete.
//!
//! # Rejected
//! - Subgradient steps on the same prices: simple, but thousands of steps for the last per mille,
//!   and that last per mille decides whether a bound rounds up.
//! - A solver from outside (HiGHS): more than five minutes of C++ build for problems of a few dozen
//!   rows.

/// Something smaller is taken for zero.
const TINY: f64 = 1e-9;
/// The least size of a pivot.
const PIVOT: f64 = 1e-7;

/// A variable: first the fractions, then one surplus for each row.
type Variable = usize;

/// A program, and where its solution stands.
#[derive(Clone)]
pub(crate) struct Simplex {
    columns: usize,
    /// The box of each fraction.
    bounds: Vec<(f64, f64)>,
    /// `dictionary[row * columns + column]`: how a basic variable changes with a non-basic one.
    dictionary: Vec<f64>,
    /// The basic variable of each row, and its value.
    basic: Vec<Variable>,
    value: Vec<f64>,
    /// The non-basic variable of each column, whether it stands at one instead of zero, and its
    /// reduced cost.
    outside: Vec<Variable>,
    at_upper: Vec<bool>,
    reduced: Vec<f64>,
    /// Place of each variable.
    place: Vec<Place>,
}

/// Place of a variable: basic, with its row, or not, with its column.
#[derive(Clone, Copy)]
enum Place {
    Row(usize),
    Column(usize),
}

impl Simplex {
    /// Makes a program without anything to cover. `weights` are positive.
    pub(crate) fn new(weights: impl Iterator<Item = f64>) -> Self {
        let reduced: Vec<f64> = weights.collect();
        let columns = reduced.len();
        Self {
            columns,
            bounds: vec![(0.0, 1.0); columns],
            dictionary: Vec::new(),
            basic: Vec::new(),
            value: Vec::new(),
            outside: (0..columns).collect(),
            at_upper: vec![false; columns],
            reduced,
            place: (0..columns).map(Place::Column).collect(),
        }
    }

    /// Adds the row `Σ a·z ≥ 1` over `(variable, a)`.
    pub(crate) fn add_row(&mut self, terms: impl Iterator<Item = (usize, f64)>) {
        let mut row = vec![0.0; self.columns];
        let mut value = -1.0;
        for (variable, a) in terms {
            match self.place[variable] {
                Place::Column(column) => {
                    row[column] += a;
                    value += if self.at_upper[column] { a } else { 0.0 };
                }
                Place::Row(basic) => {
                    let from = &self.dictionary[basic * self.columns..][..self.columns];
                    row.iter_mut().zip(from).for_each(|(to, from)| *to += a * from);
                    value += a * self.value[basic];
                }
            }
        }
        self.place.push(Place::Row(self.basic.len()));
        self.basic.push(self.place.len() - 1);
        self.value.push(value);
        self.dictionary.extend(row);
    }

    /// Repairs all rows. Returns whether that was done; if not, prices are still usable.
    pub(crate) fn solve(&mut self) -> bool {
        let most = 200 + 20 * self.basic.len();
        for _ in 0..most {
            let Some((row, short)) = self.worst_row() else { return true };
            let Some(column) = self.entering(row, short) else { return false };
            self.pivot(row, column);
        }
        false
    }

    /// Forgets the rows that are met with something to spare. Returns which are left, by their
    /// former numbers.
    pub(crate) fn forget_idle(&mut self) -> Vec<usize> {
        let columns = self.columns;
        let mut kept_lines = 0;
        for line in 0..self.basic.len() {
            let variable = self.basic[line];
            if variable >= columns {
                continue;
            }
            self.dictionary.copy_within(line * columns..(line + 1) * columns, kept_lines * columns);
            self.basic[kept_lines] = variable;
            self.value[kept_lines] = self.value[line];
            self.place[variable] = Place::Row(kept_lines);
            kept_lines += 1;
        }
        self.basic.truncate(kept_lines);
        self.value.truncate(kept_lines);
        self.dictionary.truncate(kept_lines * columns);
        let rows = self.place.len() - columns;
        let kept: Vec<usize> =
            (0..rows).filter(|row| matches!(self.place[columns + row], Place::Column(_))).collect();
        for (number, &row) in kept.iter().enumerate() {
            let place = self.place[columns + row];
            self.place[columns + number] = place;
            if let Place::Column(column) = place {
                self.outside[column] = columns + number;
            }
        }
        self.place.truncate(columns + kept.len());
        kept
    }

    /// The fraction of `variable`.
    pub(crate) fn fraction(&self, variable: usize) -> f64 {
        match self.place[variable] {
            Place::Row(row) => self.value[row],
            Place::Column(column) => f64::from(u8::from(self.at_upper[column])),
        }
    }

    /// The price of the row that was added as number `row`: never negative.
    pub(crate) fn price(&self, row: usize) -> f64 {
        match self.place[self.columns + row] {
            Place::Row(_) => 0.0,
            Place::Column(column) => self.reduced[column].max(0.0),
        }
    }

    /// Fixes a fraction at one or zero.
    pub(crate) fn fix(&mut self, variable: usize, at_one: bool) {
        let bound = f64::from(u8::from(at_one));
        self.bounds[variable] = (bound, bound);
        if let Place::Column(column) = self.place[variable]
            && self.at_upper[column] != at_one
        {
            self.flip(column);
        }
    }

    fn bounds(&self, variable: Variable) -> (f64, f64) {
        self.bounds.get(variable).copied().unwrap_or((0.0, f64::INFINITY))
    }

    /// The row whose basic variable is furthest out of its box, and by how much it must grow.
    fn worst_row(&self) -> Option<(usize, f64)> {
        let mut worst: Option<(usize, f64)> = None;
        for (row, (&value, &variable)) in self.value.iter().zip(&self.basic).enumerate() {
            let (lower, upper) = self.bounds(variable);
            let short = if value < lower { lower - value } else { (upper - value).min(0.0) };
            if short.abs() > worst.map_or(TINY, |(_, most)| most.abs()) {
                worst = Some((row, short));
            }
        }
        worst
    }

    /// The column that enters in exchange for `row`, which must grow by `short`. Columns that are
    /// too short to mend it alone go to their other bound on the way.
    fn entering(&mut self, row: usize, short: f64) -> Option<usize> {
        let sign = short.signum();
        let line = &self.dictionary[row * self.columns..][..self.columns];
        let mut able: Vec<(f64, usize)> = Vec::with_capacity(self.columns);
        for (column, &slope) in line.iter().enumerate() {
            let helps = if self.at_upper[column] { sign * slope < -PIVOT } else { sign * slope > PIVOT };
            let (lower, upper) = self.bounds(self.outside[column]);
            if helps && upper > lower {
                able.push((self.reduced[column].abs() / slope.abs(), column));
            }
        }
        let mut left = short.abs();
        let mut flips = Vec::new();
        // Mostly the first will do, so taking the least each time beats sorting.
        while let Some(position) = least(&able) {
            let (_, column) = able.swap_remove(position);
            let reach = line[column].abs() * self.bounds(self.outside[column]).1;
            if reach >= left {
                flips.into_iter().for_each(|column| self.flip(column));
                return Some(column);
            }
            left -= reach;
            flips.push(column);
        }
        None
    }

    fn flip(&mut self, column: usize) {
        let change = if self.at_upper[column] { -1.0 } else { 1.0 };
        self.at_upper[column] = !self.at_upper[column];
        for (row, value) in self.value.iter_mut().enumerate() {
            *value += change * self.dictionary[row * self.columns + column];
        }
    }

    /// Exchanges the basic variable of `row`, which goes to the bound that it is beyond, for that
    /// of `column`.
    fn pivot(&mut self, row: usize, column: usize) {
        let columns = self.columns;
        let leaving = self.basic[row];
        let (lower, upper) = self.bounds(leaving);
        let target = if self.value[row] > upper { upper } else { lower };
        let slope = self.dictionary[row * columns + column];
        let step = (target - self.value[row]) / slope;
        let start = f64::from(u8::from(self.at_upper[column]));
        let mut line: Vec<f64> = self.dictionary[row * columns..][..columns].to_vec();
        line.iter_mut().for_each(|entry| *entry /= -slope);
        line[column] = 1.0 / slope;
        for other in 0..self.basic.len() {
            let factor = self.dictionary[other * columns + column];
            if other == row || factor == 0.0 {
                continue;
            }
            self.value[other] += factor * step;
            let entries = &mut self.dictionary[other * columns..][..columns];
            entries[column] = 0.0;
            entries.iter_mut().zip(&line).for_each(|(to, from)| *to += factor * from);
        }
        let factor = self.reduced[column];
        self.reduced[column] = 0.0;
        self.reduced.iter_mut().zip(&line).for_each(|(to, from)| *to += factor * from);
        self.dictionary[row * columns..][..columns].copy_from_slice(&line);
        let entering = self.outside[column];
        self.basic[row] = entering;
        self.value[row] = start + step;
        self.outside[column] = leaving;
        self.at_upper[column] = target > 0.5;
        self.place[entering] = Place::Row(row);
        self.place[leaving] = Place::Column(column);
    }
}

/// Finds the least; among equals the one with the least column.
fn least(able: &[(f64, usize)]) -> Option<usize> {
    let by_both = |a: &&(f64, usize), b: &&(f64, usize)| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1));
    able.iter().enumerate().min_by(|(_, a), (_, b)| by_both(a, b)).map(|(position, _)| position)
}
