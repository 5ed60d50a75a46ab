//! What has to hold for the reading of any bytes, and of odd but legal texts: the functions that
//! both the fuzz targets in `fuzz/` and the tests here call.

#![allow(dead_code, reason = "each test file and fuzz target uses its own part")]

pub(crate) mod choices;
pub(crate) mod odd;

use cavalcade_model::Bytes;
use cavalcade_trace::{Format, Limits, ReadOptions, read, write};

/// Reads `bytes` (as `format`, or as what they seem to be). This must not panic, whatever they are;
/// and if they are a trace, writing it in the native format and in its own (where that can carry
/// it) and reading that gives it back.
///
/// # Panics
/// If that does not hold.
pub(crate) fn reading_holds(bytes: &[u8], format: Option<Format>) {
    let limits =
        Limits { text: Bytes(1 << 22), line: Bytes(1 << 22), tasks: 1 << 14, flows: 1 << 14, ports: 1 << 16 };
    let options = ReadOptions { format, ports: None, limits };
    let (workload, format) = match read(bytes, "input", &options) {
        Ok(found) => found,
        Err(error) => {
            assert!(error.to_string().starts_with("input:"), "a message without its source: {error}");
            return;
        }
    };
    for format in [Format::NATIVE, format] {
        let mut text = Vec::new();
        if write(&workload, format, &mut text).is_err() {
            assert_ne!(format, Format::NATIVE, "the native format carries everything");
            assert!(text.is_empty(), "something was written before {format} was found not to do");
            continue;
        }
        let again = ReadOptions { format: Some(format), ports: Some(workload.ports()), limits };
        let (reread, _) = read(&text, "written", &again).unwrap_or_else(|error| panic!("{error}"));
        assert!(reread == workload, "written as {format}, it reads as another workload");
    }
}
