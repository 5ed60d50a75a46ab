//! Builds the program for the kernel, and the Rust side of what it shares with this crate.

#[path = "../../../bpf/build.rs"]
mod programs;

fn main() {
    programs::build(&[("port", "PROGRAMS")], &[]);
}
