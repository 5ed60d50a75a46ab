//! Choices of a generator: from bytes as long as there are any, then from a seed. A fuzzer steers
//! the bytes, a test numbers the seeds.

/// A source of choices.
pub(crate) struct Choices<'a> {
    bytes: &'a [u8],
    state: u64,
}

impl<'a> Choices<'a> {
    pub(crate) fn new(seed: u64, bytes: &'a [u8]) -> Self {
        Self { bytes, state: seed }
    }

    /// A number (SplitMix64, Steele 2014).
    pub(crate) fn number(&mut self) -> u64 {
        if let Some((first, rest)) = self.bytes.split_first_chunk::<2>() {
            self.bytes = rest;
            self.state ^= u64::from(u16::from_le_bytes(*first));
        }
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below `limit`.
    pub(crate) fn below(&mut self, limit: usize) -> usize {
        (self.number() % limit as u64) as usize
    }

    /// True in one of so many cases.
    pub(crate) fn one_in(&mut self, cases: usize) -> bool {
        self.below(cases) == 0
    }

    pub(crate) fn pick<T: Clone>(&mut self, from: &[T]) -> T {
        from[self.below(from.len())].clone()
    }

    pub(crate) fn shuffle<T>(&mut self, list: &mut [T]) {
        for last in (1..list.len()).rev() {
            list.swap(last, self.below(last + 1));
        }
    }
}
