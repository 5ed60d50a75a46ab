//! Any bytes, as operations on every allocator: the rates are those of the definition.

#![no_main]

#[path = "../../crates/schedule/allocate/tests/sequence/mod.rs"]
mod sequence;

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let Some((&first, bytes)) = bytes.split_first() else { return };
    let case = sequence::Case::ALL[usize::from(first) % sequence::Case::ALL.len()];
    if let Err(difference) = sequence::run(case, bytes) {
        panic!("{case:?}: {difference}");
    }
});
