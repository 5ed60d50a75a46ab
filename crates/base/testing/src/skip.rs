//! What a test does when this machine lacks something that it needs: it reports one line and
//! returns.
//!
//! Rust's test harness decides before a test runs whether it is ignored, and hides what a passing
//! test prints. A test that only returns therefore counts as passed, and a gate that ran half of
//! its tests looks like one that ran all. [`skipped`] writes its line past the harness's capture.
//! `cargo xtask test` counts these lines and names each at its end.
//!
//! Rejected: `#[ignore]` with a list of tests to switch on (a second place that must know each
//! test).

use std::fmt::Display;
use std::io::Write;
use std::path::Path;

/// The start of each line that reports a skipped test.
pub const PREFIX: &str = "skipped: ";

/// Reports that the running test is skipped because it needs `what`; the caller returns.
pub fn skipped(what: impl Display) {
    let thread = std::thread::current();
    let test = thread.name().unwrap_or("a test").to_owned();
    // One write for the whole line: tests run side by side. Not by `eprintln!`, which the harness
    // captures.
    let _ = std::io::stderr().write_all(format!("{PREFIX}{test}: needs {what}\n").as_bytes());
}

/// The bytes of a public trace by its path below `../shared/data` (beside the checkout). Where it
/// is absent the test is reported as skipped and has to return.
#[must_use]
pub fn public_data(path: &str) -> Option<Vec<u8>> {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../../shared/data").join(path);
    let bytes = std::fs::read(file).ok();
    if bytes.is_none() {
        skipped(format_args!("the public data ../shared/data/{path}"));
    }
    bytes
}

/// Programs for the kernel that a test may load: those of this build, for a test that runs as root.
/// Where there are none, or it does not, the test is reported as skipped and has to return.
#[must_use]
pub fn loadable(programs: Result<&'static [u8], &str>) -> Option<&'static [u8]> {
    if let Err(reason) = programs {
        skipped(format_args!("programs for the kernel ({reason})"));
    } else if !rustix::process::geteuid().is_root() {
        skipped("root, to load programs into the kernel");
        return None;
    }
    programs.ok()
}
