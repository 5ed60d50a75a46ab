//! Which links have something left after which rank.
//!
//! What is left of a link only shrinks from rank to rank, so one number per link says it all: the rank after which the link is
//! used up. To find a free partner among many, a rank needs the same as a set; and since it wants the fullest of its
//! account, that set is over the account's own lines (see `demand`). So both are kept.
//!
//! # Cost
//! A change flips one bit in the sets of the ranks between the one before and the one after: three on average on the
//! Facebook trace, where five coflows are there at a time.
//!
//! # Rejected
//! Bringing sets up to date with delay, since mostly a link that is freed at a rank is taken again at that very rank: what
//! it spares in writes it costs in looking whom to believe.

use crate::running::NEVER;

/// The free links of every rank.
#[derive(Debug)]
pub(crate) struct Free {
    /// The words of a set. An account's lines are in all but the last one.
    width: usize,
    /// Rank by rank.
    sets: Vec<u64>,
    /// For each link: its line at each rank. A link that has none stands in a word of the sets that nobody looks at.
    lines: Vec<Vec<u32>>,
    /// For each link: the rank after which nothing is left of it.
    used_up: Vec<u32>,
}

impl Free {
    /// Of so many links, none of which is used.
    pub(crate) fn new(links: usize) -> Self {
        // Each side of an account begins with a word of its own.
        let width = links.div_ceil(64) + 2;
        Self { width, sets: Vec::new(), lines: vec![Vec::new(); links], used_up: vec![NEVER; links] }
    }

    fn nowhere(&self) -> u32 {
        (self.width - 1) as u32 * 64
    }

    /// Whether something is left of `link` after `rank`.
    #[inline]
    pub(crate) fn is_free(&self, link: u32, rank: u32) -> bool {
        self.used_up[link as usize] > rank
    }

    /// The line of `link` at `rank`; `None` where the rank's account has nothing there.
    #[inline]
    pub(crate) fn line(&self, link: u32, rank: u32) -> Option<u32> {
        let line = self.lines[link as usize][rank as usize];
        (line != self.nowhere()).then_some(line)
    }

    /// Notes after which rank `link` is used up.
    #[inline]
    pub(crate) fn note(&mut self, link: u32, used_up: u32) {
        let before = std::mem::replace(&mut self.used_up[link as usize], used_up);
        let lines = &self.lines[link as usize];
        let upto = |used_up: u32| (used_up as usize).min(lines.len());
        let (from, to) = (upto(used_up.min(before)), upto(used_up.max(before)));
        let mut set = from * self.width;
        for line in &lines[from..to] {
            self.sets[set + *line as usize / 64] ^= 1 << (line % 64);
            set += self.width;
        }
    }

    /// Notes after which rank each link is used up, where there are now so many ranks. Their lines are to be told next.
    pub(crate) fn note_all(&mut self, ranks: usize, used_up: impl Fn(u32) -> u32) {
        self.used_up.iter_mut().zip(0..).for_each(|(of_link, link)| *of_link = used_up(link));
        self.sets.resize(ranks * self.width, 0);
        let nowhere = self.nowhere();
        self.lines.iter_mut().for_each(|lines| lines.resize(ranks, nowhere));
    }

    /// The account at `rank` now has these lines, each with its link.
    pub(crate) fn number(&mut self, rank: u32, lines: impl Iterator<Item = (u32, u32)>) {
        let (rank, nowhere) = (rank as usize, self.nowhere());
        self.lines.iter_mut().for_each(|lines| lines[rank] = nowhere);
        let set = &mut self.sets[rank * self.width..(rank + 1) * self.width];
        set.fill(0);
        for (line, link) in lines {
            self.lines[link as usize][rank] = line;
            set[line as usize / 64] |= u64::from(self.used_up[link as usize] > rank as u32) << (line % 64);
        }
    }

    /// Forgets a rank that uses nothing. Those behind it move up.
    pub(crate) fn remove(&mut self, rank: u32) {
        let set = rank as usize * self.width;
        self.sets.drain(set..set + self.width);
        for lines in &mut self.lines {
            lines.remove(rank as usize);
        }
        for of_link in &mut self.used_up {
            *of_link -= u32::from(*of_link > rank && *of_link != NEVER);
        }
    }

    /// Those lines of the account at `rank` that are free after it.
    #[inline]
    pub(crate) fn set(&self, rank: u32) -> &[u64] {
        let set = rank as usize * self.width;
        &self.sets[set..set + self.width]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bits::has;
    use proptest::prelude::*;

    /// Of the links below 100, an account has two in three; its lines depend on who it is.
    fn line_of(account: u32, link: u32) -> Option<u32> {
        (link % 3 != account % 3).then_some((link * 7 + account) % 100)
    }

    fn lines(account: u32) -> impl Iterator<Item = (u32, u32)> {
        (0..100).filter_map(move |link| Some((line_of(account, link)?, link)))
    }

    proptest! {
        #[test]
        fn sets_agree_with_the_ranks_after_which_links_are_used_up(
            steps in prop::collection::vec((0u32..100, 0u32..8), 1..100),
            removed in 0u32..7,
            renewed in 0u32..6,
        ) {
            let mut free = Free::new(100);
            let mut accounts: Vec<u32> = (0..7).collect();
            free.note_all(7, |_| NEVER);
            accounts.iter().for_each(|&account| free.number(account, lines(account)));
            let mut used_up = vec![NEVER; 100];
            let check = |free: &Free, used_up: &[u32], accounts: &[u32]| {
                for (&account, rank) in accounts.iter().zip(0..) {
                    for link in 0..100 {
                        prop_assert_eq!(free.is_free(link, rank), used_up[link as usize] > rank);
                        prop_assert_eq!(free.line(link, rank), line_of(account, link));
                        if let Some(line) = free.line(link, rank) {
                            prop_assert_eq!(has(free.set(rank), line), used_up[link as usize] > rank);
                        }
                    }
                }
                Ok(())
            };
            for (link, rank) in steps {
                used_up[link as usize] = if rank == 7 { NEVER } else { rank };
                free.note(link, used_up[link as usize]);
                check(&free, &used_up, &accounts)?;
            }
            for (link, of_link) in used_up.iter_mut().enumerate() {
                if *of_link == removed {
                    *of_link = NEVER;
                    free.note(link as u32, NEVER);
                }
                *of_link -= u32::from(*of_link > removed && *of_link != NEVER);
            }
            free.remove(removed);
            accounts.remove(removed as usize);
            check(&free, &used_up, &accounts)?;
            accounts[renewed as usize] = 99;
            free.number(renewed, lines(99));
            check(&free, &used_up, &accounts)?;
            free.note_all(6, |link| used_up[link as usize]);
            accounts.iter().zip(0..).for_each(|(&account, rank)| free.number(rank, lines(account)));
            check(&free, &used_up, &accounts)?;
        }
    }
}
