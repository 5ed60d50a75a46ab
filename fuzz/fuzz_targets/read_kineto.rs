//! Any bytes, as a recording of torch.profiler.

#![no_main]

#[path = "../../crates/library/training/tests/property/mod.rs"]
mod property;

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| property::reading_holds_for_all_options("r.json", bytes, &[]));
