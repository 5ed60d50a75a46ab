//! Gives the shared library the name by which programs find it once it is installed.

#![allow(clippy::print_stdout, reason = "cargo reads what a build script prints")]

fn main() {
    println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,libcavalcade_spc.so.0");
    println!("cargo:rerun-if-changed=build.rs");
}
