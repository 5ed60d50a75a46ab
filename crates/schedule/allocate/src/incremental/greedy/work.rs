//! What is to be looked at, rank by rank: links with something to give, and links that higher ranks
//! took from.

/// A link and the side that it is on: 0 for rows, 1 for columns, 2 for those in between.
pub(crate) type End = (usize, u32);

/// The work of one rank.
#[derive(Debug, Default)]
struct OfRank {
    offered: Vec<End>,
    contested: Vec<u32>,
}

/// The work of all ranks.
#[derive(Debug, Default)]
pub(crate) struct Work {
    of_rank: Vec<OfRank>,
    /// The entries in all lists, and a rank before which there are none.
    count: usize,
    first: u32,
}

impl Work {
    pub(crate) fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Takes the rank to begin with.
    pub(crate) fn take_first(&mut self) -> u32 {
        std::mem::replace(&mut self.first, u32::MAX)
    }

    /// Makes room for so many ranks. What is already offered may stand too high, never too low.
    pub(crate) fn resize(&mut self, ranks: usize) {
        self.of_rank.resize_with(ranks, OfRank::default);
    }

    /// Offers a link to `rank` and those behind it.
    #[inline]
    pub(crate) fn offer(&mut self, rank: u32, end: End) {
        self.count += 1;
        self.first = self.first.min(rank);
        self.of_rank[rank as usize].offered.push(end);
    }

    /// Notes that a higher rank took from a link that `rank` uses, so that it has more than is left
    /// to it. Once is enough.
    pub(crate) fn contest(&mut self, rank: u32, link: u32) {
        let contested = &mut self.of_rank[rank as usize].contested;
        if !contested.contains(&link) {
            self.count += 1;
            contested.push(link);
        }
    }

    /// Moves what is offered at `rank` behind what already is in the list.
    #[inline]
    pub(crate) fn take_offered(&mut self, rank: u32, offered: &mut Vec<End>) {
        let list = &mut self.of_rank[rank as usize].offered;
        self.count -= list.len();
        offered.append(list);
    }

    /// Takes the next contested link of `rank`.
    #[inline]
    pub(crate) fn take_contested(&mut self, rank: u32) -> Option<u32> {
        let link = self.of_rank[rank as usize].contested.pop()?;
        self.count -= 1;
        Some(link)
    }

    /// Forgets a rank. Those behind it move up, and what was offered there is offered to them.
    pub(crate) fn remove(&mut self, rank: u32) {
        let mut gone = self.of_rank.remove(rank as usize);
        self.count -= gone.contested.len();
        self.first = self.first.min(rank);
        match self.of_rank.get_mut(rank as usize) {
            Some(next) => next.offered.append(&mut gone.offered),
            None => self.count -= gone.offered.len(),
        }
    }
}
