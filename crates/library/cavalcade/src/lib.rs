//! Cavalcade as a library: run scheduling policies over a workload of coflows and compare the
//! results.
//!
//! ```
//! use cavalcade::{Conditions, Scenario, compare, generate};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let workload = generate("facebook:coflows=30,ports=10", 1)?;
//! let scenario = Scenario::new(workload, Conditions::default())?;
//! let runs = [scenario.under("fair")?, scenario.under("sebf")?];
//! let comparison = compare(&runs, 0)?;
//! for run in &comparison.runs {
//!     println!("{}: mean CCT {:.3} s", run.label, run.cct_summary.mean_s);
//! }
//! # Ok(())
//! # }
//! ```
//!
//! A [`Scenario`] is everything of a run: a workload, the fabric that it crosses, [`Conditions`],
//! an [`Engine`] and a [`Policy`]. [`Scenario::run`] gives an [`Outcome`]: when each flow, coflow
//! and task finished. [`compare`] runs several on all cores and gives a [`Comparison`], which
//! [`report`] turns into a table, JSON or a page. [`Progress`] counts what is done and cancels what
//! is not.
//!
//! | to | use |
//! |---|---|
//! | read a trace | [`read`], or [`Source`] for files, with errors that show the line |
//! | run a trace that does not fit into memory | [`Stream`], which reads it as it goes |
//! | make a workload | [`generate`] |
//! | name a policy and a transport | [`Scenario::under`], with text such as `pias:queues=4 over dctcp` |
//! | bring an order of coflows in a file | [`Policy::named`], with `order:FILE` |
//! | check a schedule that was made elsewhere | [`Elsewhere`] |
//! | run a policy of your own | [`Scenario::with_policy`]; the contract is [`model::contract`] |
//! | run a transport of your own | [`Transport::new`] |
//! | bound what any schedule can do | [`bound_of`] and [`bound`] |
//! | keep a run in a folder and run it again | [`folder`] |
//! | have results as columns | [`tables`], written by [`columns`]; as Arrow by the crate `cavalcade-arrow` |
//! | keep all runs of a comparison | [`kept`] |
//! | compare policies for training jobs | [`training`] |
//!
//! `examples/` has a comparison beside a bound, a bound with its proof checked, a policy and a
//! transport of one's own, and a sweep over a condition.
//!
//! # What was rejected
//! - Global registries to which policies are added at run time: what a text means would depend on
//!   what ran before it. A policy or transport of your own is a value.
//! - Public fields of [`Scenario`]: what its conditions make of workload and fabric is computed
//!   once, and a field that is set afterwards would change nothing.

#![forbid(unsafe_code)]

pub use cavalcade_bound as bound;
pub use cavalcade_metrics as metrics;
pub use cavalcade_model as model;
pub use cavalcade_policy as policy;
pub use cavalcade_report as report;
pub use cavalcade_spec as spec;
pub use cavalcade_trace as trace;
pub use cavalcade_transport as transport;
pub use cavalcade_validate as validate;

mod budget;
mod choices;
mod classes;
pub mod columns;
mod compare;
mod details;
mod elsewhere;
mod engine;
mod error;
pub mod folder;
mod invalid;
pub mod kept;
mod logs;
mod lower_bound;
pub mod manifest;
mod order;
pub mod output;
pub mod outputs;
mod parallel;
mod policies;
mod recheck;
pub mod results;
mod scenario;
mod source;
mod stream;
mod sweep;
pub mod tables;
pub mod training;
mod words;

pub use budget::Budget;
pub use cavalcade_metrics::{Comparison, Outcome};
pub use choices::{Afforded, Asked, Choice, Runnable};
pub use classes::waiting_by_class;
pub use compare::{Beside, Compared, Finished, analyse, compare, compare_with, labels};
pub use details::{MOST_COFLOWS, MOST_FLOWS, details_of};
pub use elsewhere::Elsewhere;
pub use engine::{Capture, Engine, Packets, Transport, Watch};
pub use error::{Error, Excerpt, Kind};
pub use invalid::{Invalid, Located, LocatedFlow};
pub use lower_bound::{bound_of, budget_beside_runs};
pub use parallel::{Progress, map};
pub use policies::Policy;
pub use scenario::{Conditions, Scenario, run_conditions};
pub use source::{STANDARD_INPUT, Source, generate, read, read_file};
pub use stream::Stream;
pub use sweep::{Axis, Show, Sweep, Swept};
