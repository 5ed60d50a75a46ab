//! Workloads out of a line of text: `facebook:coflows=200,ports=50` and a seed.
//!
//! A [`Generator`] is one of a few recipes with its parameters. Its text form is a name and `parameter=value` pairs, in
//! which defaults may be left out; [`Generator::catalogue`] lists them for people. The same text and seed give the same
//! workload on every machine and in every version of this program (golden tests hold the first lines of each): random
//! numbers come from one pinned generator through code of our own, and logarithms from a pinned `libm`.
//!
//! What varies for different reasons has streams of its own: changing the load moves arrivals and leaves coflows as
//! they are.
//!
//! Adding a generator is one file with its parameters and its `Recipe`, and a line in [`Generator`]'s macro call below.

mod aggregate;
mod batch;
mod classes;
mod dag;
mod facebook;
mod failures;
mod flow_sizes;
mod mixed;
mod parameters;
mod permute;
mod poisson;
mod quantiles;
mod random;
mod retrieval;
mod shape;
mod sizes;
mod tailed;
mod tasks;

use core::fmt;
use core::str::FromStr;

use cavalcade_model::{Workload, WorkloadError};

pub use aggregate::Aggregate;
pub use batch::Batch;
pub use classes::Classes;
pub use dag::Dag;
pub use facebook::Facebook;
pub use failures::{Failures, with_failures};
pub use flow_sizes::Sizes;
pub use mixed::{Deadlines, Mixed};
pub use parameters::{Mix, ParameterInfo};
pub use permute::permute_arrivals;
pub use poisson::Poisson;
pub use retrieval::Retrieval;
pub use sizes::{Fixed, Uniform};
pub use tailed::{Tail, Tailed};
pub use tasks::Tasks;

use parameters::{Parameters, nearest};

/// The most flows that a generator makes.
pub const MOST_FLOWS: u64 = 1 << 27;

/// What a generator says of itself and does.
trait Recipe: Parameters {
    const NAME: &'static str;
    const MEANING: &'static str;
    const SOURCE: &'static str;

    fn generate(&self, seed: u64) -> Result<Workload, GenerateError>;
}

/// One line of the list of generators.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GeneratorInfo {
    /// The name by which it is chosen.
    pub name: &'static str,
    /// What it makes.
    pub meaning: &'static str,
    /// Where its distributions are from.
    pub source: &'static str,
    /// Its parameters, with their defaults.
    pub parameters: Vec<ParameterInfo>,
}

/// Why a workload cannot be generated.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum GenerateError {
    /// A parameter outside its range.
    #[error("{parameter}={value} is out of range: expected {expected}")]
    OutOfRange {
        /// The parameter.
        parameter: &'static str,
        /// Its value.
        value: String,
        /// The range.
        expected: String,
    },
    /// More flows than anyone wants by accident.
    #[error("the workload would have more than {MOST_FLOWS} flows: ask for fewer coflows or ports")]
    TooManyFlows,
    /// Arrivals beyond what times can hold.
    #[error("the workload would last more than 146 years: raise the load or lower the sizes")]
    TooLong,
    /// Shapes of tasks in which no stage reads another.
    #[error("no shape has a stage that reads another, expected at least one: choose another file of shapes")]
    NoShapes,
    /// A workload that cannot be.
    #[error(transparent)]
    Workload(#[from] WorkloadError),
}

/// Why a text is no [`Generator`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum GeneratorError {
    /// No generator of that name.
    #[error("unknown generator {found:?}: did you mean {nearest}? Known are {known}")]
    UnknownGenerator {
        /// The name given.
        found: String,
        /// The most similar name.
        nearest: &'static str,
        /// All names.
        known: String,
    },
    /// The generator has no such parameter.
    #[error("{generator} has no parameter {found:?}: did you mean {nearest}? It has {known}")]
    UnknownParameter {
        /// The generator.
        generator: &'static str,
        /// The parameter given.
        found: String,
        /// The most similar name.
        nearest: &'static str,
        /// All of its parameters.
        known: String,
    },
    /// A part that is not `parameter=value`.
    #[error("{generator}: found {found:?}, expected parameter=value, separated by commas")]
    NoAssignment {
        /// The generator.
        generator: &'static str,
        /// The part.
        found: String,
    },
    /// A parameter given twice.
    #[error("{generator}: {parameter} is given twice, expected once")]
    GivenTwice {
        /// The generator.
        generator: &'static str,
        /// The parameter.
        parameter: &'static str,
    },
    /// A value that cannot be read.
    #[error("{generator}: {parameter}={value} is not understood: expected {expected}")]
    BadValue {
        /// The generator.
        generator: &'static str,
        /// The parameter.
        parameter: &'static str,
        /// The value given.
        value: String,
        /// What would be understood.
        expected: String,
    },
}

macro_rules! generators {
    ($($(#[$doc:meta])* $kind:ident),* $(,)?) => {
        /// A recipe for workloads, with its parameters.
        #[derive(Clone, Debug, PartialEq)]
        pub enum Generator {
            $($(#[$doc])* $kind($kind),)*
        }

        impl Generator {
            /// All generators with their parameters and defaults, in the order in which people should see them.
            pub fn catalogue() -> Vec<GeneratorInfo> {
                vec![$(GeneratorInfo {
                    name: $kind::NAME,
                    meaning: $kind::MEANING,
                    source: $kind::SOURCE,
                    parameters: $kind::default().list(),
                }),*]
            }

            /// The name by which it is chosen.
            pub const fn name(&self) -> &'static str {
                match self {
                    $(Generator::$kind(_) => $kind::NAME,)*
                }
            }

            fn with_defaults(name: &str) -> Option<Self> {
                match name {
                    $($kind::NAME => Some(Generator::$kind($kind::default())),)*
                    _ => None,
                }
            }

            fn parameters(&self) -> &dyn Parameters {
                match self {
                    $(Generator::$kind(parameters) => parameters,)*
                }
            }

            fn parameters_mut(&mut self) -> &mut dyn Parameters {
                match self {
                    $(Generator::$kind(parameters) => parameters,)*
                }
            }
        }

        /// Makes a workload; equal arguments give equal workloads.
        ///
        /// # Errors
        /// A parameter outside its range, or a workload out of proportion.
        pub fn generate(generator: &Generator, seed: u64) -> Result<Workload, GenerateError> {
            match generator {
                $(Generator::$kind(parameters) => parameters.generate(seed),)*
            }
        }
    };
}

generators! {
    /// Like the Facebook trace.
    Facebook,
    /// Four classes of length × width.
    Classes,
    /// Coflow sizes uniform up to a maximum.
    Uniform,
    /// Coflows all of one size.
    Fixed,
    /// Partition–aggregate tasks into one port.
    Tasks,
    /// Partition–aggregate tasks over racks.
    Aggregate,
    /// Objects fetched from several servers.
    Retrieval,
    /// Data-parallel jobs that start together.
    Batch,
    /// Tasks of which some are much heavier than others.
    Tailed,
    /// Tasks of several stages.
    Dag,
    /// Single flows, Poisson, heavy-tailed.
    Poisson,
    /// Flows with deadlines beside others.
    Mixed,
}

impl fmt::Display for Generator {
    /// The name and every parameter, so that the text says all even after a default has changed.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())?;
        for (index, parameter) in self.parameters().list().into_iter().enumerate() {
            let separator = if index == 0 { ':' } else { ',' };
            write!(f, "{separator}{}={}", parameter.name, parameter.value)?;
        }
        Ok(())
    }
}

impl FromStr for Generator {
    type Err = GeneratorError;

    fn from_str(text: &str) -> Result<Self, GeneratorError> {
        let (name, assignments) = text.trim().split_once(':').unwrap_or((text.trim(), ""));
        let mut generator = Self::with_defaults(name).ok_or_else(|| {
            let names: Vec<_> = Self::catalogue().iter().map(|info| info.name).collect();
            GeneratorError::UnknownGenerator {
                found: name.to_owned(),
                nearest: nearest(name, &names),
                known: names.join(", "),
            }
        })?;
        let mut given = Vec::new();
        for part in assignments.split(',').filter(|part| !part.trim().is_empty()) {
            let parameter = generator.assign(part)?;
            if given.contains(&parameter) {
                return Err(GeneratorError::GivenTwice { generator: generator.name(), parameter });
            }
            given.push(parameter);
        }
        Ok(generator)
    }
}

impl Generator {
    /// Sets a parameter from `parameter=value`; gives back its name.
    fn assign(&mut self, part: &str) -> Result<&'static str, GeneratorError> {
        let generator = self.name();
        let (found, value) = part
            .split_once('=')
            .map(|(name, value)| (name.trim(), value.trim()))
            .ok_or_else(|| GeneratorError::NoAssignment { generator, found: part.trim().to_owned() })?;
        let names: Vec<_> = self.parameters().list().iter().map(|parameter| parameter.name).collect();
        let Some(&parameter) = names.iter().find(|&&name| name == found) else {
            return Err(GeneratorError::UnknownParameter {
                generator,
                found: found.to_owned(),
                nearest: nearest(found, &names),
                known: names.join(", "),
            });
        };
        match self.parameters_mut().set(parameter, value) {
            Ok(()) => Ok(parameter),
            Err(expected) => {
                Err(GeneratorError::BadValue { generator, parameter, value: value.to_owned(), expected })
            }
        }
    }
}

/// An error unless a parameter is in its range.
fn require(
    holds: bool,
    parameter: &'static str,
    value: impl fmt::Display,
    expected: impl fmt::Display,
) -> Result<(), GenerateError> {
    if holds {
        return Ok(());
    }
    Err(GenerateError::OutOfRange { parameter, value: value.to_string(), expected: expected.to_string() })
}
