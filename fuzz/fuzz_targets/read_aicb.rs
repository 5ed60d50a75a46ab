//! Any bytes, as a workload of AICB or SimAI.

#![no_main]

#[path = "../../crates/library/training/tests/property/mod.rs"]
mod property;

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| property::reading_holds_for_all_options("w.txt", bytes, &[]));
