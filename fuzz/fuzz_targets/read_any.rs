//! Any bytes, as whatever format they seem to be, or compressed.

#![no_main]

#[path = "../../crates/base/trace/tests/property/mod.rs"]
mod property;

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| property::reading_holds(bytes, None));
