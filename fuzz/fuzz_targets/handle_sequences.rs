//! Whole message loops of clients, agents and a coordinator, with strangers in between.
//!
//! Longest run: 7 processor minutes, 1.8 million sequences of up to 700 bytes. It found that an agent could end a coordinator by
//! giving a coflow's number to another one (`crates/control/tests/numbers.rs`).

#![no_main]
#![allow(dead_code, reason = "the other scripts of the module are another target's")]

#[path = "../../crates/control/tests/hostile/mod.rs"]
mod hostile;

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| hostile::loops_hold(bytes));
