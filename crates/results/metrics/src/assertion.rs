//! `--assert 'p99(cct) < 2s'`: a claim about a comparison, for use in continuous integration.
//!
//! ```text
//! assertion = [ policy ":" ] quantity relation bound
//! quantity  = function "(" ( "cct" | "tct" | "slowdown" ) ")" | "makespan" | "misses" | "factor" "(" policy ")"
//! function  = "mean" | "min" | "max" | "p" percentage          p50, p95, p99, p99.9
//! relation  = "<" | "<=" | ">" | ">=" | "=="
//! bound     = time (2s, 150ms) for cct, tct and makespan; number for slowdown, misses and factor
//! ```
//!
//! Without a policy the claim is about every run. A policy is named by a run's label, or by its
//! plain name, which then means every run of it; labels hold colons (`dclas:factor=4`), so the last
//! colon ends the prefix. A bound without its unit is refused: `p99(cct) < 2` could mean anything.
//!
//! Times are compared in nanoseconds, without passing through rounded seconds. Rejected: an
//! expression language with arithmetic and `and`; several `--assert` do that, and each failure then
//! names its own claim.

use core::fmt;

use cavalcade_model::Nanos;

use crate::comparison::{Comparison, RunFigures};
use crate::percentile::{Percent, percentile};
use crate::summary::{mean, weighted_mean};

mod parse;

pub use parse::AssertionError;

/// A claim about the runs of a comparison. [`fmt::Display`] and [`core::str::FromStr`] are inverse.
#[derive(Clone, Debug, PartialEq)]
pub struct Assertion {
    /// Policy to check; all runs if absent.
    pub policy: Option<String>,
    /// The figure.
    pub quantity: Quantity,
    /// The relation that must hold.
    pub relation: Relation,
    /// To what.
    pub bound: Bound,
}

/// A figure of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Quantity {
    /// A statistic of many values.
    Statistic {
        /// The statistic.
        function: Function,
        /// The measured quantity.
        measure: Measure,
    },
    /// From the first arrival to the end of the last task.
    Makespan,
    /// Tasks that finished after their deadline.
    Misses,
    /// The factor over the baseline of the mean CCT of the policy named.
    Factor {
        /// The policy.
        policy: String,
    },
}

/// A statistic of many values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Function {
    /// Arithmetic mean.
    Mean,
    /// Smallest.
    Min,
    /// Largest.
    Max,
    /// A percentile by nearest rank.
    Percentile(Percent),
}

/// A measurement of each coflow or task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Measure {
    /// Coflow completion time.
    Cct,
    /// Task completion time.
    Tct,
    /// CCT over the time alone on the fabric.
    Slowdown,
}

/// A relation between two numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Relation {
    /// `<`
    Less,
    /// `<=`
    AtMost,
    /// `>`
    Greater,
    /// `>=`
    AtLeast,
    /// `==`
    Equal,
}

/// The right side of a claim.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Bound {
    /// A time.
    Time(Nanos),
    /// A number without unit; finite and not negative.
    Number(f64),
}

/// A measured value, in the unit of the bound.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Measured {
    /// A time, in nanoseconds (a mean has fractions of them).
    Time(f64),
    /// A number without unit.
    Number(f64),
}

/// The result of checking a claim.
#[derive(Clone, Debug, PartialEq)]
pub struct Verdict {
    /// True if it holds for every run that it is about.
    pub holds: bool,
    /// Each such run.
    pub cases: Vec<Case>,
}

/// A claim and one run.
#[derive(Clone, Debug, PartialEq)]
pub struct Case {
    /// The run's label.
    pub label: String,
    /// The measured value.
    pub measured: Measured,
    /// True if that satisfies the claim.
    pub holds: bool,
}

/// A claim about a policy that was not run.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no run is called {name}: name one of {known}, or leave the policy out to mean every run")]
pub struct UnknownRun {
    /// The name that was asked about.
    pub name: String,
    /// The labels of all runs.
    pub known: String,
}

impl Assertion {
    /// Holds the claim against the runs of `comparison`.
    ///
    /// # Errors
    /// If it names a policy that was not run.
    pub fn check(&self, comparison: &Comparison) -> Result<Verdict, UnknownRun> {
        let name = match &self.quantity {
            Quantity::Factor { policy } => Some(policy),
            _ => self.policy.as_ref(),
        };
        let cases: Vec<Case> = runs_called(comparison, name)?
            .into_iter()
            .map(|run| {
                let measured = self.quantity.measure(run);
                let holds = self.relation.holds(measured.get(), self.bound.get());
                Case { label: run.label.clone(), measured, holds }
            })
            .collect();
        Ok(Verdict { holds: cases.iter().all(|case| case.holds), cases })
    }
}

/// The runs of that label, or else of that policy, or all where no name is given.
fn runs_called<'a>(
    comparison: &'a Comparison,
    name: Option<&String>,
) -> Result<Vec<&'a RunFigures>, UnknownRun> {
    let runs = &comparison.runs;
    let Some(name) = name else { return Ok(runs.iter().collect()) };
    let labelled: Vec<&RunFigures> = runs.iter().filter(|run| run.label == *name).collect();
    if !labelled.is_empty() {
        return Ok(labelled);
    }
    let named: Vec<&RunFigures> = runs.iter().filter(|run| run.policy == *name).collect();
    if named.is_empty() {
        let known: Vec<&str> = runs.iter().map(|run| run.label.as_str()).collect();
        return Err(UnknownRun { name: name.clone(), known: known.join(", ") });
    }
    Ok(named)
}

impl Quantity {
    /// Returns true if its values are times.
    pub fn is_time(&self) -> bool {
        match self {
            Quantity::Statistic { measure, .. } => *measure != Measure::Slowdown,
            Quantity::Makespan => true,
            Quantity::Misses | Quantity::Factor { .. } => false,
        }
    }

    fn measure(&self, run: &RunFigures) -> Measured {
        match self {
            Quantity::Statistic { function, measure } => match measure {
                Measure::Cct => Measured::Time(function.of_times(&run.cct)),
                Measure::Tct => Measured::Time(function.of_times(&run.tct)),
                Measure::Slowdown => Measured::Number(function.of_numbers(&run.slowdown)),
            },
            Quantity::Makespan => Measured::Time(run.makespan.as_f64()),
            Quantity::Misses => Measured::Number(run.misses as f64),
            // Without coflows nothing is better or worse than the baseline.
            Quantity::Factor { .. } => {
                Measured::Number(run.improvement.map_or(1.0, |improvement| improvement.factor))
            }
        }
    }
}

impl Function {
    /// Of times, in nanoseconds; zero where there are none.
    fn of_times(self, times: &[Nanos]) -> f64 {
        if let Function::Mean = self {
            return mean(times);
        }
        let mut ascending = times.to_vec();
        ascending.sort_unstable();
        self.of_ascending(&ascending).unwrap_or_default().as_f64()
    }

    fn of_numbers(self, numbers: &[f64]) -> f64 {
        let mut ascending = numbers.to_vec();
        ascending.sort_unstable_by(f64::total_cmp);
        if let Function::Mean = self {
            return weighted_mean(ascending.iter().map(|&number| (number, 1)));
        }
        self.of_ascending(&ascending).unwrap_or_default()
    }

    fn of_ascending<T: Copy>(self, ascending: &[T]) -> Option<T> {
        match self {
            Function::Mean => unreachable!("a mean is no element"),
            Function::Min => ascending.first().copied(),
            Function::Max => ascending.last().copied(),
            Function::Percentile(percent) => percentile(ascending, percent),
        }
    }
}

impl Relation {
    fn holds(self, left: f64, right: f64) -> bool {
        match self {
            Relation::Less => left < right,
            Relation::AtMost => left <= right,
            Relation::Greater => left > right,
            Relation::AtLeast => left >= right,
            Relation::Equal => left == right,
        }
    }
}

impl Bound {
    fn get(self) -> f64 {
        match self {
            Bound::Time(time) => time.as_f64(),
            Bound::Number(number) => number,
        }
    }
}

impl Measured {
    /// The bare number: nanoseconds or no unit.
    pub fn get(self) -> f64 {
        match self {
            Measured::Time(value) | Measured::Number(value) => value,
        }
    }
}

impl fmt::Display for Measured {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Measured::Time(nanos) => write!(f, "{}s", nanos / 1e9),
            Measured::Number(number) => write!(f, "{number}"),
        }
    }
}

impl fmt::Display for Assertion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(policy) = &self.policy {
            write!(f, "{policy}: ")?;
        }
        write!(f, "{} {} {}", self.quantity, self.relation, self.bound)
    }
}

impl fmt::Display for Quantity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Quantity::Statistic { function, measure } => write!(f, "{function}({measure})"),
            Quantity::Makespan => f.write_str("makespan"),
            Quantity::Misses => f.write_str("misses"),
            Quantity::Factor { policy } => write!(f, "factor({policy})"),
        }
    }
}

impl fmt::Display for Function {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Function::Mean => f.write_str("mean"),
            Function::Min => f.write_str("min"),
            Function::Max => f.write_str("max"),
            Function::Percentile(percent) => write!(f, "p{percent}"),
        }
    }
}

impl fmt::Display for Measure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Measure::Cct => "cct",
            Measure::Tct => "tct",
            Measure::Slowdown => "slowdown",
        })
    }
}

impl fmt::Display for Relation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Relation::Less => "<",
            Relation::AtMost => "<=",
            Relation::Greater => ">",
            Relation::AtLeast => ">=",
            Relation::Equal => "==",
        })
    }
}

impl fmt::Display for Bound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Bound::Time(time) => write!(f, "{time}"),
            Bound::Number(number) => write!(f, "{number}"),
        }
    }
}

#[cfg(test)]
mod tests;
