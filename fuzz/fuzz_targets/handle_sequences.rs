//! Whole message loops of clients, agents and a coordinator, with strangers in between.
//!
//! The first run, of 7 processor minutes, found that an agent could end a coordinator by giving a
//! coflow's number to another one (`crates/live/control/tests/numbers.rs`). One of 48 processor
//! minutes with sequences of up to 2,900 bytes found nothing more, nor did 3.1 million sequences
//! before it at idle priority, whose processor time was not taken. A third of 5 processor minutes,
//! 1.68 million sequences from an empty corpus, found nothing either: 60 minutes in all.

#![no_main]
#![allow(dead_code, reason = "the other scripts of the module are another target's")]

#[path = "../../crates/live/control/tests/hostile/mod.rs"]
mod hostile;

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| hostile::loops_hold(bytes));
