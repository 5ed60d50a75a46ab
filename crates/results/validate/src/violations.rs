//! All that is wrong with a schedule, up to a number: a schedule with one mistake in how it is made
//! has it everywhere.
//!
//! # Invariants
//! - [`Violations`] has at least one, and no more than [`LISTED`]; the others are counted.
//! - One of each kind that was found is listed, however many there are of another.

use std::collections::BTreeMap;
use std::fmt;

use crate::violation::Violation;

/// The most violations that are listed. There are fewer kinds.
pub const LISTED: usize = 20;

/// What is wrong with a schedule: one thing or more, in the order in which they were found.
#[derive(Clone, Debug, PartialEq)]
pub struct Violations {
    listed: Vec<Violation>,
    more: usize,
}

impl Violations {
    /// Those that are listed: at least one, at most [`LISTED`].
    pub fn listed(&self) -> &[Violation] {
        &self.listed
    }

    /// The number of those that are not.
    pub fn more(&self) -> usize {
        self.more
    }

    /// Gives away those that are listed.
    pub fn into_listed(self) -> Vec<Violation> {
        self.listed
    }
}

impl From<Violation> for Violations {
    fn from(violation: Violation) -> Self {
        Self { listed: vec![violation], more: 0 }
    }
}

impl fmt::Display for Violations {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, violation) in self.listed.iter().enumerate() {
            let before = if index == 0 { "" } else { "\n" };
            write!(f, "{before}{violation}")?;
        }
        if self.more > 0 { write!(f, "\nand {} more", self.more) } else { Ok(()) }
    }
}

impl std::error::Error for Violations {}

/// What has been found so far, which may be nothing.
#[derive(Default)]
pub(crate) struct Found {
    listed: Vec<Violation>,
    more: usize,
}

impl Found {
    /// Says whether one of this kind would be listed.
    pub(crate) fn lists(&self, kind: &str) -> bool {
        self.listed.len() < LISTED || self.listed.iter().all(|violation| violation.kind() != kind)
    }

    /// Takes one in. The first of its kind is always listed: it takes the place of one of the kind
    /// that has most.
    pub(crate) fn add(&mut self, violation: Violation) {
        if !self.lists(violation.kind()) {
            return self.count();
        }
        if self.listed.len() == LISTED {
            self.drop_one();
            self.count();
        }
        self.listed.push(violation);
    }

    /// Counts one that is not listed.
    pub(crate) fn count(&mut self) {
        self.more += 1;
    }

    /// Drops the last of the kind that has most.
    fn drop_one(&mut self) {
        let mut kinds: BTreeMap<&str, (usize, usize)> = BTreeMap::new();
        for (index, violation) in self.listed.iter().enumerate() {
            let (number, last) = kinds.entry(violation.kind()).or_default();
            (*number, *last) = (*number + 1, index);
        }
        if let Some(&(_, last)) = kinds.values().max() {
            self.listed.remove(last);
        }
    }

    /// Returns `verdict` if nothing was found.
    pub(crate) fn or<T>(self, verdict: T) -> Result<T, Violations> {
        let Self { listed, more } = self;
        if listed.is_empty() { Ok(verdict) } else { Err(Violations { listed, more }) }
    }
}
