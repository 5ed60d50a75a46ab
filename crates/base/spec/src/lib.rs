//! One grammar for everything that is named in text: policies, transports, generators and fabrics.
//!
//! A *specification* is a name, and settings behind a colon: `dclas:queues=4,weighted=false`. Names
//! are compared without regard to case. Four things are the same for everything that is configured
//! this way:
//!
//! - a table of [`Parameter`]s beside the typed struct that holds them, which is the only place
//!   where a parameter is named; the struct's `Default` holds the defaults, so what is printed can
//!   always be read back;
//! - [`configure`], which sets what the text names and checks the whole;
//! - [`find`], which looks a name up in a registry;
//! - [`SpecError`], whose messages name the place, what was expected, and the nearest name.
//!
//! Above single specifications there are two forms: [`list`] splits `a,b:x=1,y=2,c`, and
//! [`Carried`] reads `POLICY over TRANSPORT`.
//!
//! # Rejected
//! - serde and a configuration language: a specification is typed into a shell, and its errors must
//!   say what to type instead.
//! - A derive macro: an accessor that yields `&mut dyn Value` serves reading, printing and
//!   documentation.

#![cfg_attr(
    not(test),
    deny(clippy::disallowed_types, clippy::disallowed_methods, clippy::iter_over_hash_type)
)]
#![forbid(unsafe_code)]

mod error;
mod parameter;
mod text;
mod value;

pub use error::{Kind, SpecError, hint, nearest};
pub use parameter::{Complaint, Parameter, ParameterInfo, configure, describe, print};
pub use text::{Carried, find, list};
pub use value::{Ascending, Choice, Value};
