//! What the programs in the kernel and this crate say to each other: made by `build.rs` from
//! `bpf/enforce.h` and `bpf/congestion.h`, with the programs themselves.

#![allow(dead_code, reason = "the header also has what only the programs use")]

include!(concat!(env!("OUT_DIR"), "/shared.rs"));
