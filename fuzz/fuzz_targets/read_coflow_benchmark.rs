//! Any bytes, as a coflow-benchmark trace.

#![no_main]

#[path = "../../crates/base/trace/tests/property/mod.rs"]
mod property;

use cavalcade_trace::Format;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| property::reading_holds(bytes, Some(Format::COFLOW_BENCHMARK)));
