//! Which links have something left after which rank.
//!
//! What is left of a link only shrinks from rank to rank, so one number per link says it all: the rank after which the link is
//! used up. To find a free partner among many, a rank needs the same as a set of links. The sets are brought up to date
//! with some delay, since a link that is freed at some rank is mostly taken again at that very rank, and then no set changes:
//! links for which the sets are behind are *unmarked*, and few.
//!
//! # Invariant
//! For every link that is not unmarked, the set of a rank has the link exactly if it is used up only after that rank.

use crate::bits::{ones, set};
use crate::running::NEVER;

/// The free links of every rank.
#[derive(Debug)]
pub(crate) struct Free {
    ranks: usize,
    /// For each word of a set: that word of the sets of all ranks, since a link is marked for ranks that follow each other.
    words: Vec<Vec<u64>>,
    /// For each link: the rank after which nothing is left of it, and the same as it stands in `sets`.
    used_up: Vec<u32>,
    marked: Vec<u32>,
    /// Links for which the two differ.
    unmarked: Vec<u64>,
}

impl Free {
    /// Of so many links, none of which is used.
    pub(crate) fn new(links: usize) -> Self {
        Self {
            ranks: 0,
            words: vec![Vec::new(); links.div_ceil(64)],
            used_up: vec![NEVER; links],
            marked: vec![NEVER; links],
            unmarked: vec![0; links.div_ceil(64)],
        }
    }

    /// Whether something is left of `link` after `rank`.
    pub(crate) fn is_free(&self, link: u32, rank: u32) -> bool {
        self.used_up[link as usize] > rank
    }

    /// Notes after which rank `link` is used up.
    pub(crate) fn note(&mut self, link: u32, used_up: u32) {
        self.used_up[link as usize] = used_up;
        set(&mut self.unmarked, link, used_up != self.marked[link as usize]);
    }

    /// Brings the sets up to date as to `link`.
    #[inline]
    pub(crate) fn mark(&mut self, link: u32) {
        let (used_up, before) = (self.used_up[link as usize], self.marked[link as usize]);
        if used_up != before {
            self.write(link, used_up, before);
        }
    }

    fn write(&mut self, link: u32, used_up: u32, before: u32) {
        self.marked[link as usize] = used_up;
        let (word, bit) = (link as usize / 64, 1 << (link % 64));
        self.unmarked[word] &= !bit;
        let (from, to) = (used_up.min(before) as usize, (used_up.max(before) as usize).min(self.ranks));
        for set in &mut self.words[word][from..to] {
            *set ^= bit;
        }
    }

    /// Writes all sets anew, for so many ranks.
    pub(crate) fn mark_all(&mut self, ranks: usize) {
        self.ranks = ranks;
        self.marked.copy_from_slice(&self.used_up);
        self.unmarked.fill(0);
        for (words, links) in self.words.iter_mut().zip(self.used_up.chunks(64)) {
            words.clear();
            words.extend((0..ranks as u32).map(|rank| {
                let bits = links.iter().enumerate();
                bits.fold(0, |set, (bit, &used_up)| set | u64::from(used_up > rank) << bit)
            }));
        }
    }

    /// Forgets a rank that uses nothing. Those behind it move up.
    pub(crate) fn remove(&mut self, rank: u32) {
        self.ranks -= 1;
        for words in &mut self.words {
            words.remove(rank as usize);
        }
        for of_link in self.used_up.iter_mut().chain(&mut self.marked) {
            *of_link -= u32::from(*of_link > rank && *of_link != NEVER);
        }
    }

    /// Links of a word of a set that may be free after `rank`: all that are, and some that are not.
    #[inline]
    pub(crate) fn possible(&self, rank: u32, word: u32) -> u64 {
        self.words[word as usize][rank as usize] | self.unmarked[word as usize]
    }

    /// Those of the links `of_word` (bits of one word of a set) that are free after `rank`.
    #[inline]
    pub(crate) fn among(&self, rank: u32, word: u32, of_word: u64) -> u64 {
        let unmarked = self.unmarked[word as usize];
        let mut free = of_word & self.words[word as usize][rank as usize] & !unmarked;
        for bit in ones(of_word & unmarked) {
            free |= u64::from(self.is_free(word * 64 + bit, rank)) << bit;
        }
        free
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn sets_agree_with_the_ranks_after_which_links_are_used_up(
            steps in prop::collection::vec((0u32..100, 0u32..8, any::<bool>()), 1..100),
            removed in 0u32..7,
        ) {
            let mut free = Free::new(100);
            free.mark_all(7);
            let mut used_up = vec![NEVER; 100];
            let check = |free: &Free, used_up: &[u32], ranks: u32| {
                for rank in 0..ranks {
                    for link in 0..100 {
                        let set = free.among(rank, link / 64, u64::MAX >> (link / 64 * 28));
                        prop_assert_eq!(set >> (link % 64) & 1 == 1, used_up[link as usize] > rank);
                        prop_assert_eq!(set & !free.possible(rank, link / 64), 0);
                    }
                }
                Ok(())
            };
            for (link, rank, mark) in steps {
                used_up[link as usize] = if rank == 7 { NEVER } else { rank };
                free.note(link, used_up[link as usize]);
                if mark {
                    free.mark(link);
                }
                check(&free, &used_up, 7)?;
            }
            for (link, of_link) in used_up.iter_mut().enumerate() {
                if *of_link == removed {
                    *of_link = NEVER;
                    free.note(link as u32, NEVER);
                }
                *of_link -= u32::from(*of_link > removed && *of_link != NEVER);
            }
            free.remove(removed);
            check(&free, &used_up, 6)?;
            (0..100).for_each(|link| free.mark(link));
            check(&free, &used_up, 6)?;
        }
    }
}
