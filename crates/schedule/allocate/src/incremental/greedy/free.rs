//! The links that have something left after each rank.
//!
//! What is left of a link only shrinks from rank to rank, so one number per link says it all: the
//! rank after which the link is used up. To find a free partner among many, a rank needs the same
//! as a set of links, so both are kept.
//!
//! A change flips one bit in the sets of the ranks between the number before and the number after.

use super::running::NEVER;
use crate::bits::set;

/// The free links of every rank.
#[derive(Debug)]
pub(crate) struct Free {
    /// The words of a set.
    width: usize,
    /// The sets of all ranks, one after the other.
    sets: Vec<u64>,
    /// For each link: the rank after which nothing is left of it.
    used_up: Vec<u32>,
}

impl Free {
    /// Starts with unused links and no ranks.
    pub(crate) fn new(links: usize) -> Self {
        Self { width: links.div_ceil(64), sets: Vec::new(), used_up: vec![NEVER; links] }
    }

    fn ranks(&self) -> usize {
        self.sets.len() / self.width
    }

    /// Tells whether something is left of `link` after `rank`.
    #[inline]
    pub(crate) fn is_free(&self, link: u32, rank: u32) -> bool {
        self.used_up[link as usize] > rank
    }

    /// The rank after which `link` is used up.
    #[inline]
    pub(crate) fn used_up(&self, link: u32) -> u32 {
        self.used_up[link as usize]
    }

    /// The links that are free after `rank`.
    #[inline]
    pub(crate) fn set(&self, rank: u32) -> &[u64] {
        &self.sets[rank as usize * self.width..][..self.width]
    }

    /// Notes after which rank `link` is used up.
    #[inline]
    pub(crate) fn note(&mut self, link: u32, used_up: u32) {
        let before = std::mem::replace(&mut self.used_up[link as usize], used_up);
        let place = |rank: u32| (rank as usize).min(self.ranks()) * self.width + link as usize / 64;
        for at in (place(used_up.min(before))..place(used_up.max(before))).step_by(self.width) {
            self.sets[at] ^= 1 << (link % 64);
        }
    }

    /// Notes after which rank each link is used up, where there are now so many ranks.
    pub(crate) fn note_all(&mut self, ranks: usize, mut used_up: impl FnMut(u32) -> u32) {
        self.sets.clear();
        self.sets.resize(ranks * self.width, u64::MAX);
        for (link, of_link) in (0..).zip(&mut self.used_up) {
            *of_link = used_up(link);
            for of_rank in self.sets.chunks_mut(self.width).skip(*of_link as usize) {
                set(of_rank, link, false);
            }
        }
    }

    /// Forgets a rank that uses nothing. Those behind it move up.
    pub(crate) fn remove(&mut self, rank: u32) {
        let first = rank as usize * self.width;
        self.sets.drain(first..first + self.width);
        for of_link in &mut self.used_up {
            *of_link -= u32::from(*of_link > rank && *of_link != NEVER);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bits::has;
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
                        prop_assert_eq!(has(free.set(rank), link), used_up[link as usize] > rank);
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
