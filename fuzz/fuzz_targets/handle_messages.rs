//! Any messages, from anybody, to agents and a coordinator.

#![no_main]
#![allow(dead_code, reason = "the other scripts of the module are another target's")]

#[path = "../../crates/live/control/tests/hostile/mod.rs"]
mod hostile;

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| hostile::nothing_breaks(bytes));
