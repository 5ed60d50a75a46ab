//! Any bytes, as a rank's trace of Chakra with groups beside it.

#![no_main]

#[path = "../../crates/library/training/tests/property/mod.rs"]
mod property;

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| property::reading_holds_for_all_options("n.0.et", bytes, &[property::GROUPS]));
