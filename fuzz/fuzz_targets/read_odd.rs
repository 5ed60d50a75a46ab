//! Odd but legal texts of all formats, which are read as what they mean.

#![no_main]

#[path = "../../crates/base/trace/tests/property/mod.rs"]
mod property;

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    property::odd::odd_text_holds(&mut property::choices::Choices::new(0, bytes));
});
