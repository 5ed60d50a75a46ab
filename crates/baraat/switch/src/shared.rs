//! What the switch in the kernel and this crate say to each other: made by `build.rs` from
//! `bpf/switch.h`, and the program.

#![allow(dead_code, reason = "the header also has what only the program uses")]

include!(concat!(env!("OUT_DIR"), "/shared.rs"));
