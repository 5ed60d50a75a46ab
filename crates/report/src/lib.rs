//! A comparison of policies in three forms: a terminal [`table()`], [`json()`] for programs, and a page of [`html()`] for people.
//!
//! All three are pure functions from a [`cavalcade_metrics::Comparison`] to text, so the same comparison gives the same
//! bytes; where they go, and whether a terminal wants colour, is the caller's business.

mod figures;
mod html;
mod json;
#[cfg(test)]
mod sample;
mod table;

pub use figures::time_rounded_down;
pub use html::{ReportInfo, html};
pub use json::json;
pub use table::{TableOptions, table};
