//! Which links have something left after which rank, and to whom they are on offer.
//!
//! What is left of a link only shrinks from rank to rank, so one number per link says it all: the rank after which the link is
//! used up. To find a free partner among many, a rank needs the same as a set; and since it wants the fullest of its
//! account, that set is over the account's own lines (see `demand`). So both are kept.
//!
//! A set of lines has them in the order in which they are to be offered, too: an offer is a bit in such a set, and the
//! first bit of the first rank is the next one. Nothing has to be sorted, and links that were taken meanwhile drop out.
//!
//! # Links that become idle
//! Mostly a link that is freed at a rank is taken again at that very rank or soon behind it. So where links serve one flow
//! each, one that becomes idle counts as used up still, and becomes free rank by rank as it is offered down the ranks. A rank
//! is served once all that is idle has come down to it, so it sees what is free; and the ranks behind the one that takes the
//! link hear nothing of it.
//!
//! # Cost
//! A change flips one bit in the sets of the ranks between the one before and the one after: one on average on the
//! Facebook trace, where five coflows are there at a time.

use std::ops::Range;

use crate::incremental::switch::greedy::running::NEVER;

/// The free links of every rank.
#[derive(Debug)]
pub(crate) struct Free {
    ranks: usize,
    /// The words of a set. An account's lines are in all but the last one.
    width: usize,
    /// Rank by rank: lines that are free, and those on offer.
    free: Vec<u64>,
    offered: Vec<u64>,
    /// For each link: its line at each rank, with room for so many ranks. A link that has none stands in a word of the
    /// sets that nobody looks at.
    lines: Vec<u32>,
    room: usize,
    /// For each link: the rank after which nothing is left of it.
    used_up: Vec<u32>,
    /// Links and the ranks from which they are to be offered, once all that changes ranks and lines has happened.
    collected: Vec<(u32, u32)>,
}

impl Free {
    /// Of so many links, none of which is used.
    pub(crate) fn new(links: usize) -> Self {
        Self {
            ranks: 0,
            // Each side of an account begins with a word of its own.
            width: links.div_ceil(64) + 2,
            free: Vec::new(),
            offered: Vec::new(),
            lines: Vec::new(),
            room: 0,
            used_up: vec![NEVER; links],
            collected: Vec::new(),
        }
    }

    #[inline]
    fn nowhere(&self) -> u32 {
        (self.width - 1) as u32 * 64
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
        let first = link as usize * self.room;
        let mut set = from * self.width;
        for line in &self.lines[first + from..first + to] {
            self.free[set + *line as usize / 64] ^= 1 << (line % 64);
            set += self.width;
        }
    }

    /// Notes after which rank each link is used up, where there are now so many ranks. Their lines are to be told next.
    pub(crate) fn note_all(&mut self, ranks: usize, used_up: impl Fn(u32) -> u32) {
        self.used_up.iter_mut().zip(0..).for_each(|(of_link, link)| *of_link = used_up(link));
        self.ranks = ranks;
        self.free.resize(ranks * self.width, 0);
        self.offered.resize(ranks * self.width, 0);
        if ranks > self.room {
            self.room = ranks.next_power_of_two();
            self.lines = vec![self.nowhere(); self.used_up.len() * self.room];
        }
    }

    /// The account at `rank` now has these lines, each with its link.
    pub(crate) fn number(&mut self, rank: u32, lines: impl Iterator<Item = (u32, u32)>) {
        let (at, nowhere) = (rank as usize, self.nowhere());
        self.lines.iter_mut().skip(at).step_by(self.room).for_each(|line| *line = nowhere);
        let free = &mut self.free[at * self.width..(at + 1) * self.width];
        free.fill(0);
        for (line, link) in lines {
            self.lines[link as usize * self.room + at] = line;
            free[line as usize / 64] |= u64::from(self.used_up[link as usize] > rank) << (line % 64);
        }
    }

    /// Forgets a rank that uses nothing. Those behind it move up.
    pub(crate) fn remove(&mut self, rank: u32) {
        let (at, set) = (rank as usize, rank as usize * self.width);
        self.ranks -= 1;
        self.free.drain(set..set + self.width);
        self.offered.drain(set..set + self.width);
        for lines in self.lines.chunks_mut(self.room) {
            lines.copy_within(at + 1.., at);
        }
        for of_link in &mut self.used_up {
            *of_link -= u32::from(*of_link > rank && *of_link != NEVER);
        }
        // Offers made by rank now stand one too low for those behind; offering one rank higher is always right.
        for (of_offer, _) in &mut self.collected {
            *of_offer -= u32::from(*of_offer > rank);
        }
    }

    /// Those lines of the account at `rank` that are free after it.
    #[inline]
    pub(crate) fn set(&self, rank: u32) -> &[u64] {
        let set = rank as usize * self.width;
        &self.free[set..set + self.width]
    }

    /// Offers `link` from `rank` down, once ranks and lines have settled.
    #[inline]
    pub(crate) fn collect(&mut self, rank: u32, link: u32) {
        self.collected.push((rank, link));
    }

    /// Drops what was collected for `rank` and those behind it.
    pub(crate) fn drop_from(&mut self, rank: u32) {
        self.collected.retain(|&(of_offer, _)| of_offer < rank);
    }

    /// Offers what was collected, and returns the first rank that something was collected for. A link that is idle is free from
    /// the rank at which it is offered.
    pub(crate) fn offer_collected(&mut self, is_idle: impl Fn(u32) -> bool) -> u32 {
        let mut first = self.ranks as u32;
        let mut collected = std::mem::take(&mut self.collected);
        for (rank, link) in collected.drain(..) {
            first = first.min(rank);
            self.offer(rank, link, is_idle(link));
        }
        self.collected = collected;
        first
    }

    /// Offers `link` to the first one from `rank` down that may have a use for it, if it is free or idle there.
    #[inline]
    pub(crate) fn offer(&mut self, rank: u32, link: u32, is_idle: bool) {
        let used_up = self.used_up[link as usize];
        if used_up < rank {
            // It is taken, or on offer to a higher rank that hands it on.
            return;
        }
        let to = if is_idle { self.ranks } else { self.ranks.min(used_up as usize) };
        let first = link as usize * self.room;
        let lines = (rank as usize..to).zip(&self.lines[first..first + to][rank as usize..]);
        for (at, line) in lines {
            if *line != self.nowhere() {
                let (word, bit) = (at * self.width + *line as usize / 64, 1 << (line % 64));
                self.offered[word] |= bit;
                self.free[word] |= bit;
                self.used_up[link as usize] = used_up.max(at as u32 + 1);
                return;
            }
        }
        if is_idle {
            self.used_up[link as usize] = NEVER;
        }
    }

    /// The words of the sets of `ranks`, one rank after the other.
    #[inline]
    pub(crate) fn words(&self, ranks: Range<u32>) -> Range<usize> {
        ranks.start as usize * self.width..ranks.end as usize * self.width
    }

    /// Takes the first offer out of these words, of a link that is still free, and returns its word and bit.
    #[inline]
    pub(crate) fn take_offer(&mut self, words: Range<usize>) -> Option<(usize, u32)> {
        for (nth, offered) in self.offered[words.clone()].iter_mut().enumerate() {
            if *offered != 0 {
                let at = words.start + nth;
                let lines = *offered & self.free[at];
                *offered = lines & lines.wrapping_sub(1);
                if lines != 0 {
                    return Some((at, lines.trailing_zeros()));
                }
            }
        }
        None
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
                        if let Some(line) = line_of(account, link) {
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
    #[test]
    fn offers_go_to_the_first_rank_with_a_use_and_there_by_line() {
        let mut free = Free::new(100);
        free.note_all(3, |_| NEVER);
        (0..3).for_each(|account| free.number(account, lines(account)));
        for (rank, link) in [(2, 4), (2, 0), (0, 0), (1, 1), (0, 5), (1, 2)] {
            free.collect(rank, link);
        }
        assert_eq!(free.offer_collected(|_| false), 0);
        free.note(5, 0);
        let mut taken = Vec::new();
        for rank in 0..3 {
            let words = free.words(rank..rank + 1);
            while let Some((word, bit)) = free.take_offer(words.clone()) {
                let line = (word - words.start) as u32 * 64 + bit;
                let link = (0..100).find(|&link| line_of(rank, link) == Some(line));
                taken.push((rank, link.expect("it is a line of the account")));
            }
        }
        // Account 0 has nothing on link 0, nor account 1 on link 1; link 5 was used up.
        assert_eq!(taken, [(1, 0), (1, 2), (2, 0), (2, 1), (2, 4)]);
    }

    #[test]
    fn an_idle_link_is_free_as_far_down_as_it_has_been_offered() {
        let mut free = Free::new(100);
        free.note_all(5, |_| NEVER);
        (0..5).for_each(|account| free.number(account, lines(account)));
        let is_free = |free: &Free| -> Vec<bool> { (0..5).map(|rank| free.is_free(3, rank)).collect() };
        free.note(3, 1);
        free.offer(3, 3, true);
        assert_eq!(is_free(&free), [true, false, false, false, false], "who is at rank 1 was not asked");
        free.offer(1, 3, false);
        assert_eq!(is_free(&free), [true, false, false, false, false], "it is used at rank 1");
        free.offer(1, 3, true);
        assert_eq!(is_free(&free), [true, true, false, false, false]);
        // Account 3 has nothing on link 3.
        free.offer(3, 3, true);
        assert_eq!(is_free(&free), [true, true, false, false, false], "who is at rank 2 was not asked");
        free.offer(2, 3, true);
        assert_eq!(is_free(&free), [true, true, true, false, false]);
        free.offer(3, 3, true);
        assert_eq!(is_free(&free), [true; 5]);
        free.note(3, 2);
        assert_eq!(is_free(&free), [true, true, false, false, false]);
    }
}
