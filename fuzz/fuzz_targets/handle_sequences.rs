//! Whole message loops of clients, agents and a coordinator, with strangers in between.

#![no_main]
#![allow(dead_code, reason = "the other scripts of the module are another target's")]

#[path = "../../crates/control/tests/hostile/mod.rs"]
mod hostile;

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| hostile::loops_hold(bytes));
