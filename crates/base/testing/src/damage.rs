//! Files that were cut, or in which some bytes are others.

/// The most places at which a file is cut.
const MOST_CUTS: usize = 2_000;

/// Variants that are tried beside the cuts.
const VARIANTS: usize = 5_000;

/// The bytes that are put in half of the time: what means something in most formats.
const MEANINGFUL: &[u8] = b"09-{}[],\":=.x\xff\x80\x00 ";

/// Calls `read` with `good`, which it must take, then with `good` cut short, and with up to
/// three bytes changed, the same in each run. Whatever `read` makes of these, it must not panic.
///
/// # Panics
/// If `read` refuses `good`.
pub fn damage(good: &[u8], mut read: impl FnMut(&[u8]) -> bool) {
    assert!(read(good), "the file is good");
    for end in (0..good.len()).step_by(1 + good.len() / MOST_CUTS) {
        read(&good[..end]);
    }
    let mut state = 1u64;
    // Knuth's congruential generator (TAOCP vol. 2, §3.3.4): its upper bits are good enough here.
    let mut below = |bound: usize| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as usize % bound
    };
    for _ in 0..VARIANTS {
        let mut bad = good.to_vec();
        for _ in 0..=below(3) {
            let at = below(bad.len());
            bad[at] = match below(2) {
                0 => MEANINGFUL[below(MEANINGFUL.len())],
                _ => below(256) as u8,
            };
        }
        read(&bad);
    }
}
