//! Traces that come through named pipes.

#![allow(clippy::unwrap_used, reason = "a test whose scene cannot be set has failed")]

mod support;

use support::{Place, TRACE};

#[test]
fn a_trace_is_read_from_a_pipe_that_is_opened_once() {
    let place = Place::new();
    let pipe = place.path("pipe");
    assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    // If the reader opened the pipe twice, this write would fail and its second read would never
    // end.
    let writer = std::thread::spawn(move || std::fs::write(pipe, TRACE));
    let ran = place.run(&["compare", "pipe", "--policies", "fair,fifo", "--no-bound"]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    writer.join().unwrap().unwrap();
}
