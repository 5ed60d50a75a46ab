//! Links that have something to give, in the order in which they are offered.
//!
//! An instant at which flows end makes a batch of offers: they are collected as they come and sorted once. While they are
//! handed out, a flow that loses its place frees its other link for the ranks behind: such an offer is put in its place.
//! A heap would do both, but orders anew with every offer taken.

/// A link to be offered from a rank down, in one number that orders offers: by rank, then by the line that the link is to the
/// rank's account, so that rows go before columns and full links before others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Offer(u128);

impl Offer {
    pub(crate) fn new(rank: u32, line: u32, link: u32) -> Self {
        Self(u128::from(rank) << 64 | u128::from(line) << 32 | u128::from(link))
    }

    pub(crate) fn rank(self) -> u32 {
        (self.0 >> 64) as u32
    }

    pub(crate) fn link(self) -> u32 {
        self.0 as u32
    }
}

/// The offers that are still to be made.
#[derive(Debug, Default)]
pub(crate) struct Offers {
    /// The next one last, once they are sorted.
    list: Vec<Offer>,
}

impl Offers {
    pub(crate) fn collect(&mut self, offers: impl IntoIterator<Item = Offer>) {
        self.list.extend(offers);
    }

    /// Puts what was collected in order.
    pub(crate) fn sort(&mut self) {
        self.list.sort_unstable_by(|a, b| b.cmp(a));
    }

    /// Adds an offer in its place among those that are sorted.
    pub(crate) fn insert(&mut self, offer: Offer) {
        let at = self.list.partition_point(|other| *other > offer);
        self.list.insert(at, offer);
    }

    pub(crate) fn next(&mut self) -> Option<Offer> {
        self.list.pop()
    }

    /// Drops offers to `rank` and those behind it.
    pub(crate) fn drop_from(&mut self, rank: u32) {
        self.list.retain(|offer| offer.rank() < rank);
    }

    /// Ranks behind `rank` have moved up by one.
    pub(crate) fn move_up(&mut self, rank: u32) {
        for offer in &mut self.list {
            offer.0 -= u128::from(offer.rank() > rank) << 64;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_highest_rank_then_the_first_line_then_the_lower_link_is_first() {
        let mut offers = Offers::default();
        offers.collect([(1, 0, 0), (0, 4, 7), (0, 2, 9), (0, 2, 8)].map(|(r, l, k)| Offer::new(r, l, k)));
        offers.sort();
        offers.insert(Offer::new(0, 5, 3));
        let order: Vec<_> = std::iter::from_fn(|| offers.next()).map(|o| (o.rank(), o.link())).collect();
        assert_eq!(order, [(0, 8), (0, 9), (0, 7), (0, 3), (1, 0)]);
    }

    #[test]
    fn ranks_move_up_behind_one_that_is_gone() {
        let mut offers = Offers::default();
        offers.collect([Offer::new(2, 1, 4), Offer::new(1, 1, 4), Offer::new(3, 1, 4)]);
        offers.move_up(1);
        offers.drop_from(2);
        offers.sort();
        assert_eq!(offers.list.iter().map(|offer| offer.rank()).collect::<Vec<_>>(), [1, 1]);
    }
}
