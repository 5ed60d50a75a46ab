//! Sets of small numbers (links, lines) as words of 64 bits each.

/// Returns whether a set has `bit`.
pub(crate) fn has(words: &[u64], bit: u32) -> bool {
    words[bit as usize / 64] & 1 << (bit % 64) != 0
}

/// Puts `bit` into a set, or takes it out.
pub(crate) fn set(words: &mut [u64], bit: u32, value: bool) {
    let word = &mut words[bit as usize / 64];
    if value { *word |= 1 << (bit % 64) } else { *word &= !(1 << (bit % 64)) }
}

/// Each bit of a word alone.
const BIT: [u64; 64] = {
    let mut bits = [1; 64];
    let mut at = 1;
    while at < 64 {
        bits[at] = 2 * bits[at - 1];
        at += 1;
    }
    bits
};

/// The word whose bits are set where `is_set` says so. All 64 are asked, so that it is done for
/// several at a time; bits come from a table, since shifting each by another width is not.
#[inline]
pub(crate) fn pack(is_set: impl Fn(usize) -> bool) -> u64 {
    (0..64).fold(0, |word, bit| word | if is_set(bit) { BIT[bit] } else { 0 })
}

/// The bits of one word, ascending.
#[inline]
pub(crate) fn ones(mut word: u64) -> impl Iterator<Item = u32> {
    std::iter::from_fn(move || {
        let bit = (word != 0).then_some(word.trailing_zeros());
        word &= word.wrapping_sub(1);
        bit
    })
}

/// The bits of a set that is given word by word, ascending.
#[inline]
pub(crate) fn members(words: impl Iterator<Item = u64>) -> impl Iterator<Item = u32> {
    words.zip((0..).step_by(64)).flat_map(|(word, first)| ones(word).map(move |bit| first + bit))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn sets_agree_with_plain_lists(a in prop::collection::btree_set(0u32..192, 0..99)) {
            let words = |list: &std::collections::BTreeSet<u32>| {
                let mut words = vec![0; 3];
                list.iter().for_each(|&bit| set(&mut words, bit, true));
                words
            };
            let of_a = words(&a);
            prop_assert!(members(of_a.iter().copied()).eq(a.iter().copied()));
            prop_assert!((0..192).all(|bit| has(&of_a, bit) == a.contains(&bit)));
            prop_assert_eq!(pack(|bit| a.contains(&(64 + bit as u32))), of_a[1]);
            let mut emptied = of_a.clone();
            a.iter().for_each(|&bit| set(&mut emptied, bit, false));
            prop_assert!(emptied.iter().all(|&word| word == 0));
        }
    }
}
