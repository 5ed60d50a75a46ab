//! Which links have something left after which rank.
//!
//! What is left of a link only shrinks from rank to rank, so one number per link says it all: the rank after which the link is
//! used up. To find a free partner among many, a rank needs the same as a set of links; so both are kept.
//!
//! # Cost
//! A change flips one bit in the sets of the ranks between the one before and the one after, which lie side by side.
//!
//! # Rejected
//! Bringing sets up to date with delay, since mostly a link that is freed at a rank is taken again at that very rank: what
//! it spares in writes it costs in looking whom to believe.

use crate::running::NEVER;

/// The free links of every rank.
#[derive(Debug)]
pub(crate) struct Free {
    ranks: usize,
    /// For each word of a set: that word of the sets of all ranks, since a link is marked for ranks that follow each other.
    words: Vec<Vec<u64>>,
    /// For each link: the rank after which nothing is left of it.
    used_up: Vec<u32>,
}

impl Free {
    /// Of so many links, none of which is used.
    pub(crate) fn new(links: usize) -> Self {
        Self { ranks: 0, words: vec![Vec::new(); links.div_ceil(64)], used_up: vec![NEVER; links] }
    }

    /// Whether something is left of `link` after `rank`.
    #[inline]
    pub(crate) fn is_free(&self, link: u32, rank: u32) -> bool {
        self.used_up[link as usize] > rank
    }

    /// Notes after which rank `link` is used up.
    #[inline]
    pub(crate) fn note(&mut self, link: u32, used_up: u32) {
        let before = std::mem::replace(&mut self.used_up[link as usize], used_up);
        let upto = |used_up: u32| (used_up as usize).min(self.ranks);
        let (from, to) = (upto(used_up.min(before)), upto(used_up.max(before)));
        for set in &mut self.words[link as usize / 64][from..to] {
            *set ^= 1 << (link % 64);
        }
    }

    /// Notes after which rank each link is used up, where there are now so many ranks.
    pub(crate) fn note_all(&mut self, ranks: usize, used_up: impl Fn(u32) -> u32) {
        self.ranks = ranks;
        self.used_up.iter_mut().zip(0..).for_each(|(of_link, link)| *of_link = used_up(link));
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
        for of_link in &mut self.used_up {
            *of_link -= u32::from(*of_link > rank && *of_link != NEVER);
        }
    }

    /// Those links of a word of a set that are free after `rank`.
    #[inline]
    pub(crate) fn word(&self, rank: u32, word: u32) -> u64 {
        self.words[word as usize][rank as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn sets_agree_with_the_ranks_after_which_links_are_used_up(
            steps in prop::collection::vec((0u32..100, 0u32..8), 1..100),
            removed in 0u32..7,
        ) {
            let mut free = Free::new(100);
            free.note_all(7, |_| NEVER);
            let mut used_up = vec![NEVER; 100];
            let check = |free: &Free, used_up: &[u32], ranks: u32| {
                for rank in 0..ranks {
                    for link in 0..100 {
                        let is_in_set = free.word(rank, link / 64) >> (link % 64) & 1 == 1;
                        prop_assert_eq!(is_in_set, used_up[link as usize] > rank);
                        prop_assert_eq!(free.is_free(link, rank), used_up[link as usize] > rank);
                    }
                }
                Ok(())
            };
            for (link, rank) in steps {
                used_up[link as usize] = if rank == 7 { NEVER } else { rank };
                free.note(link, used_up[link as usize]);
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
            free.note_all(6, |link| used_up[link as usize]);
            check(&free, &used_up, 6)?;
        }
    }
}
