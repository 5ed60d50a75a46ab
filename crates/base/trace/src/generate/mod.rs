//! Workloads out of a line of text: `facebook:coflows=200,ports=50` and a seed.
//!
//! A [`Generator`] is one of a few recipes with its parameters. Its text form is a name and
//! `parameter=value` pairs, in which defaults may be left out; [`Generator::catalogue`] lists them
//! for people. The same text and seed give the same workload on every machine and in every version
//! of this program (golden tests hold the first lines of each): random numbers come from one pinned
//! generator through code of our own, and logarithms from a pinned `libm`.
//!
//! What varies for different reasons has streams of its own: changing the load moves arrivals and
//! leaves coflows as they are.
//!
//! Adding a generator is one file with its parameters and its `Recipe`, and a line in
//! [`Generator`]'s macro call below.

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
mod rebuild;
mod recurrent;
mod resize;
mod retrieval;
mod shape;
mod sizes;
pub mod speed;
mod spread;
mod swim;
mod tailed;
mod tasks;

use core::fmt;
use core::str::FromStr;

use cavalcade_model::{Workload, WorkloadError};
use cavalcade_spec::{Kind, ParameterInfo, SpecError, configure, describe, find, print};

pub use aggregate::Aggregate;
pub use batch::Batch;
pub use classes::Classes;
pub use dag::Dag;
pub use facebook::Facebook;
pub use failures::{Failures, with_failures};
pub use flow_sizes::Sizes;
pub use mixed::{Deadlines, Mixed};
pub use parameters::Mix;
pub use permute::{between, permute_arrivals};
pub use poisson::Poisson;
pub use recurrent::Recurrent;
pub use resize::{at_load, at_pace, on_ports, scale_sizes, with_task_sizes};
pub use retrieval::Retrieval;
pub use sizes::{Fixed, Uniform};
pub use spread::{permute_sizes, spread_sizes};
pub use swim::{Swim, SwimError, swim_inputs};
pub use tailed::{Tail, Tailed};
pub use tasks::Tasks;

use parameters::Parameters;

/// The most flows that a generator makes.
pub const MOST_FLOWS: u64 = 1 << 27;

/// Generator: its description and its recipe.
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
    /// Description of the workload.
    pub meaning: &'static str,
    /// Source of its distributions.
    pub source: &'static str,
    /// Its parameters, with their defaults.
    pub parameters: Vec<ParameterInfo>,
}

/// Reason that a workload cannot be generated.
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

macro_rules! generators {
    ($($(#[$doc:meta])* $kind:ident),* $(,)?) => {
        /// A recipe for workloads, with its parameters.
        #[derive(Clone, Debug, PartialEq)]
        pub enum Generator {
            $($(#[$doc])* $kind($kind),)*
        }

        impl Generator {
            /// All generators with their parameters and defaults, in the order in which people
            /// should see them.
            pub fn catalogue() -> Vec<GeneratorInfo> {
                vec![$(GeneratorInfo {
                    name: $kind::NAME,
                    meaning: $kind::MEANING,
                    source: $kind::SOURCE,
                    parameters: describe($kind::PARAMETERS, &$kind::default()),
                }),*]
            }

            /// The name by which it is chosen.
            pub const fn name(&self) -> &'static str {
                match self {
                    $(Generator::$kind(_) => $kind::NAME,)*
                }
            }

            /// Its parameters with their values.
            pub fn parameters(&self) -> Vec<ParameterInfo> {
                match self {
                    $(Generator::$kind(parameters) => describe($kind::PARAMETERS, parameters),)*
                }
            }

            fn defaults() -> Vec<Self> {
                vec![$(Generator::$kind($kind::default())),*]
            }

            fn configure(&mut self, settings: &str) -> Result<(), SpecError> {
                let id = (Kind::Generator, self.name());
                match self {
                    $(Generator::$kind(parameters) => {
                        configure(id, $kind::PARAMETERS, parameters, settings, |_, _| Ok(()))
                    })*
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
    /// Runs of recurring jobs.
    Recurrent,
    /// Single flows, Poisson, heavy-tailed.
    Poisson,
    /// Flows with deadlines beside others.
    Mixed,
}

impl fmt::Display for Generator {
    /// The name and every parameter, so that the text says all even after a default has changed.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let parameters = self.parameters();
        f.write_str(&print(self.name(), parameters.iter().map(|info| (info.name, info.value.as_str()))))
    }
}

impl FromStr for Generator {
    type Err = SpecError;

    fn from_str(text: &str) -> Result<Self, SpecError> {
        let mut known = Self::defaults();
        let names: Vec<&str> = known.iter().map(Self::name).collect();
        let (place, settings) = find(Kind::Generator, text, &names)?;
        let mut generator = known.swap_remove(place);
        generator.configure(settings)?;
        Ok(generator)
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
