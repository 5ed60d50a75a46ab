//! Any bytes, as every message of the live system and as a stream of frames.

#![no_main]

#[path = "../../crates/live/protocol/tests/property/mod.rs"]
mod property;

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| property::everything_holds(bytes));
