//! Any bytes, as an execution trace of PyTorch beside a recording.

#![no_main]

#[path = "../../crates/library/training/tests/property/mod.rs"]
mod property;

use libfuzzer_sys::fuzz_target;

const RECORDING: &[u8] = br#"{"distributedInfo": {"rank": 0, "world_size": 1}, "traceEvents": [{"ph": "X", "cat": "kernel",
 "name": "ncclKernel", "ts": 6, "dur": 4, "args": {"stream": 9, "dtype": "Float", "Collective name": "all_to_allv",
 "In msg nelems": 12, "Out msg nelems": 12, "Group size": 1, "Process Group Ranks": "[0]"}}]}"#;

fuzz_target!(|bytes: &[u8]| {
    property::reading_holds_for_all_options("et_0.json", bytes, &[("r.json", RECORDING)]);
});
