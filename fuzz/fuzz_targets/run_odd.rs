//! Any bytes, as an odd but legal workload under any policy: the run has a valid schedule and the
//! same outcome at any time.

#![no_main]

#[path = "../../crates/simulate/sim-fluid/tests/odd/mod.rs"]
mod odd;

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let (numbers, _) = bytes.as_chunks::<8>();
    let odd = odd::Odd::draw(odd::ANY, numbers.iter().map(|&number| u64::from_le_bytes(number)));
    if let Err(what) = odd::fluid_holds(&odd) {
        panic!("{what}\n{odd:?}");
    }
});
