//! A comparison of policies in three forms: a terminal [`table()`], [`json()`] for programs, and a
//! page of [`html()`] for people. For an imported log [`savings()`] says first what scheduling
//! would have saved. Beside them [`figure()`]: one figure of a comparison as a file, for papers,
//! which [`pdf()`] and [`png()`] render; [`chart()`]: a figure of its own, for documents that show
//! many runs; [`fabric_picture()`]; and [`latex()`] and [`fragment()`]: the table for a paper and
//! for a notebook;
//! [`trace_events()`]: a schedule for the viewers of Chrome and Perfetto.
//!
//! All are pure functions from values to text, so the same comparison gives the same bytes; where
//! they go, and whether a terminal wants colour, is the caller's business.

#![cfg_attr(
    not(test),
    deny(clippy::disallowed_types, clippy::disallowed_methods, clippy::iter_over_hash_type)
)]

mod chart;
mod fabric;
mod figure;
mod figures;
#[cfg(test)]
mod golden;
mod grid;
mod html;
mod ink;
mod json;
mod legend;
mod look;
mod markup;
mod packets;
mod render;
#[cfg(test)]
mod sample;
mod savings;
mod scale;
mod svg;
mod table;
mod trace_events;

pub use chart::{Better, ChartPanel, ChartPoint, ChartSeries, Horizontal, Stroke, Unit, Vertical, chart};
pub use fabric::fabric_picture;
pub use figure::{
    ClassSide, FigureError, FigureKind, FigureWidth, PairSide, class_figure, figure, pair_figure,
    panel_figure,
};
pub use figures::{counted, factor, percent, time, time_rounded_down, times};
pub use grid::{Cells, Fit, Grid, wrapped};
pub use html::{ReportInfo, html};
pub use json::{RunConditions, json};
pub use markup::{fragment, latex};
pub use render::{FigureFile, RenderError, pdf, png, svg};
pub use savings::{after_savings, rate_chosen, recorded_on, savings};
pub use table::{TableOptions, table};
pub use trace_events::trace_events;
