//! Flows without a rate, in the order in which they are to be served, seen from each of their links.
//!
//! Flows over the same two links are alike but for their rank: if the first of them finds no room, nor does any after
//! it. So they stand in one queue per pair of links, and a link lists only the heads of its queues. Whoever looks for
//! the next flow on a link reads at most as many entries as it has partners, not as it has flows, and they lie side by
//! side in memory.
//!
//! # Cost
//! A flow that comes or goes behind the head of its queue: O(log queue) and a move inside the queue. A head: in addition
//! O(log partners) and a move inside the lists of both its links, some ten nanoseconds for a hundred partners. A heap would
//! save the move and lose the reading side by side, which is done far more often.

use super::rank::Rank;

/// The first flow that waits for a pair of links.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Head {
    pub(super) rank: Rank,
    /// The link at the other end.
    pub(super) other: u32,
}

/// The flows that wait for the same two links.
#[derive(Clone, Debug)]
struct Pair {
    links: [u32; 2],
    /// The first last.
    queue: Vec<Rank>,
}

/// All flows without a rate.
#[derive(Debug)]
pub(super) struct Waiting {
    pairs: Vec<Pair>,
    /// For each flow: its pair.
    pair_of: Vec<u32>,
    /// For each link where flows enter: the links where they leave, in ascending order, and the pair with each.
    partners: Vec<Vec<(u32, u32)>>,
    /// For each link: the heads of its pairs in order.
    heads: Vec<Vec<Head>>,
}

impl Waiting {
    pub(super) fn new(links: usize, flows: usize) -> Self {
        Self {
            pairs: Vec::new(),
            pair_of: vec![0; flows],
            partners: vec![Vec::new(); links],
            heads: vec![Vec::new(); links],
        }
    }

    /// Says which links `flow` crosses, before it waits for the first time.
    pub(super) fn introduce(&mut self, flow: u32, links: [u32; 2]) {
        let partners = &mut self.partners[links[0] as usize];
        let at = partners.partition_point(|&(link, _)| link < links[1]);
        if partners.get(at).is_none_or(|&(link, _)| link != links[1]) {
            partners.insert(at, (links[1], self.pairs.len() as u32));
            self.pairs.push(Pair { links, queue: Vec::new() });
        }
        self.pair_of[flow as usize] = partners[at].1;
    }

    pub(super) fn insert(&mut self, rank: Rank) {
        self.edit(rank.flow(), None, Some(rank));
    }

    pub(super) fn remove(&mut self, rank: Rank) {
        self.edit(rank.flow(), Some(rank), None);
    }

    /// Gives a flow that waits another rank.
    pub(super) fn change(&mut self, old: Rank, new: Rank) {
        self.edit(old.flow(), Some(old), Some(new));
    }

    /// Takes `flow` out of its queue or puts it in, or both, and tells its links if that makes another the head.
    fn edit(&mut self, flow: u32, old: Option<Rank>, new: Option<Rank>) {
        let Pair { links, queue } = &mut self.pairs[self.pair_of[flow as usize] as usize];
        let before = queue.last().copied();
        if old.is_some() && old == before {
            queue.pop();
        } else if let Some(old) = old {
            let at = queue.partition_point(|other| old < *other);
            assert!(queue.get(at) == Some(&old), "a flow without a rate stands in the queue of its links");
            queue.remove(at);
        }
        if let Some(new) = new {
            queue.insert(queue.partition_point(|other| new < *other), new);
        }
        let (links, after) = (*links, queue.last().copied());
        if after != before {
            self.replace(links, before, after);
        }
    }

    /// Puts another head in the place of one, on both links of its pair.
    fn replace(&mut self, links: [u32; 2], old: Option<Rank>, new: Option<Rank>) {
        for (side, &link) in links.iter().enumerate() {
            let heads = &mut self.heads[link as usize];
            let place = |rank: Rank| heads.partition_point(|head| head.rank < rank);
            let (from, to) = (old.map(place), new.map(place));
            let entry = new.map(|rank| Head { rank, other: links[1 - side] });
            match (from, to, entry) {
                (Some(from), Some(to), Some(entry)) if from < to => {
                    heads.copy_within(from + 1..to, from);
                    heads[to - 1] = entry;
                }
                (Some(from), Some(to), Some(entry)) => {
                    heads.copy_within(to..from, to + 1);
                    heads[to] = entry;
                }
                (None, Some(to), Some(entry)) => heads.insert(to, entry),
                (Some(from), ..) => {
                    heads.remove(from);
                }
                _ => {}
            }
        }
    }

    /// The heads on `link`, in order.
    pub(super) fn heads(&self, link: u32) -> &[Head] {
        &self.heads[link as usize]
    }

    /// Returns where the heads on `link` begin that stand behind `rank`.
    pub(super) fn place_behind(&self, link: u32, rank: Rank) -> usize {
        self.heads(link).partition_point(|head| head.rank <= rank)
    }
}
