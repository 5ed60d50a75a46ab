//! Builds the programs for the kernel, and the Rust side of what they share with this crate.

#[path = "../../../bpf/build.rs"]
mod programs;

fn main() {
    programs::build(&[("enforce", "PROGRAMS"), ("congestion", "CONTROLS")], &[]);
}
