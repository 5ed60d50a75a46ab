//! Any bytes behind what tells either form of Chakra's JSON, with groups beside it.

#![no_main]

#[path = "../../crates/library/training/tests/property/mod.rs"]
mod property;

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    for head in property::CHAKRA_JSON {
        let content = [head.as_bytes(), bytes].concat();
        property::reading_holds_for_all_options("n.0.json", &content, &[property::GROUPS]);
    }
});
