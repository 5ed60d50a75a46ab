//! Lists of ranks that a reader meets again and again: each is kept once and known by a number.
//!
//! A recording names the ranks of every collective, and these may be thousands. Numbers are
//! compared in one step where lists take one for each rank.

use std::collections::BTreeMap;

/// The number of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct RankSet(u32);

/// Groups of a symmetric job, of which each is the first one shifted.
#[derive(Clone, Copy, Debug)]
struct Shift {
    size: u32,
    stride: u32,
    block: u32,
}

impl Shift {
    /// How `ranks` lie in a world of so many, if they are evenly apart and begin where blocks of
    /// the world do.
    fn of(ranks: &[u32], world: u32) -> Option<Self> {
        let size = ranks.len() as u32;
        let stride = ranks.get(1).map_or(1, |second| second.wrapping_sub(ranks[0]));
        let is_even = |pair: &[u32]| pair[1].checked_sub(pair[0]) == Some(stride);
        let is_regular = stride > 0 && ranks.windows(2).all(is_even);
        let block = size.checked_mul(stride).filter(|&block| is_regular && block > 0)?;
        let shift = Self { size, stride, block };
        // Groups that do not begin where blocks do are shifted some other way.
        (world.is_multiple_of(block) && shift.first(ranks[0]) == ranks[0]).then_some(shift)
    }

    /// The first rank of the group that `rank` is in.
    fn first(self, rank: u32) -> u32 {
        rank / self.block * self.block + rank % self.stride
    }
}

#[derive(Debug)]
struct Kept {
    ranks: Vec<u32>,
    sorted: Vec<u32>,
    shift: Option<Shift>,
}

/// Lists of ranks of one job.
#[derive(Debug)]
pub(crate) struct RankSets {
    world: u32,
    kept: Vec<Kept>,
    numbers: BTreeMap<Vec<u32>, RankSet>,
    /// Groups that were shifted, by the group and their own first rank.
    shifted: BTreeMap<(RankSet, u32), RankSet>,
}

impl RankSets {
    /// None yet, of a job of so many ranks.
    pub(crate) fn new(world: u32) -> Self {
        Self { world, kept: Vec::new(), numbers: BTreeMap::new(), shifted: BTreeMap::new() }
    }

    /// How many ranks the job has.
    pub(crate) fn world(&self) -> u32 {
        self.world
    }

    /// The number of a list. Lists of the same ranks in other orders are others.
    pub(crate) fn number(&mut self, ranks: Vec<u32>) -> RankSet {
        if let Some(&known) = self.numbers.get(&ranks) {
            return known;
        }
        let set = RankSet(self.kept.len() as u32);
        let mut sorted = ranks.clone();
        sorted.sort_unstable();
        let shift = Shift::of(&ranks, self.world);
        self.kept.push(Kept { ranks: ranks.clone(), sorted, shift });
        self.numbers.insert(ranks, set);
        set
    }

    /// The ranks of a list, in its order.
    pub(crate) fn ranks(&self, set: RankSet) -> &[u32] {
        &self.kept[set.0 as usize].ranks
    }

    /// Checks whether a rank is in a list.
    pub(crate) fn has(&self, set: RankSet, rank: u32) -> bool {
        self.kept[set.0 as usize].sorted.binary_search(&rank).is_ok()
    }

    /// The group of `rank` that lies to it as this one to one of its ranks: groups of a symmetric
    /// job are shifted by each other. `None` if it is not evenly spread.
    pub(crate) fn shifted(&mut self, set: RankSet, rank: u32) -> Option<RankSet> {
        let shift = self.kept[set.0 as usize].shift.filter(|_| rank < self.world)?;
        let first = shift.first(rank);
        if let Some(&known) = self.shifted.get(&(set, first)) {
            return Some(known);
        }
        let shifted = self.number((0..shift.size).map(|place| first + place * shift.stride).collect());
        self.shifted.insert((set, first), shifted);
        Some(shifted)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cavalcade_model::SplitMix64;

    /// The same by moving all ranks, one by one, until they hold the rank that is asked for.
    fn by_trying(ranks: &[u32], rank: u32, world: u32) -> Option<Vec<u32>> {
        let stride = if ranks.len() < 2 { 1 } else { ranks[1].checked_sub(ranks[0])? };
        let is_even = ranks.windows(2).all(|pair| pair[0].checked_add(stride) == Some(pair[1]));
        let block = ranks.len() as u32 * stride;
        if !is_even
            || block == 0
            || !world.is_multiple_of(block)
            || ranks[0] % block >= stride
            || rank >= world
        {
            return None;
        }
        let starts = (0..world).filter(|start| start % block < stride);
        let mut groups = starts.map(|start| (0..ranks.len() as u32).map(move |place| start + place * stride));
        groups.find_map(|group| group.clone().any(|member| member == rank).then(|| group.collect()))
    }

    #[test]
    fn groups_are_shifted_as_they_are_by_trying_all() {
        let mut random = SplitMix64::new(7);
        let mut below = |most: u64| (random.bits() % most) as u32;
        let mut regular = 0;
        for _ in 0..20_000 {
            let (world, size, stride, first) = (1 + below(24), 1 + below(5), below(5), below(8));
            let mut ranks: Vec<u32> = (0..size).map(|place| first + place * stride).collect();
            if below(8) == 0 {
                ranks[0] = below(8);
            }
            let mut sets = RankSets::new(world);
            let set = sets.number(ranks.clone());
            let rank = below(26);
            let found = sets.shifted(set, rank);
            let found = found.map(|shifted| sets.ranks(shifted).to_vec());
            assert_eq!(found, by_trying(&ranks, rank, world), "{ranks:?} for {rank} of {world}");
            regular += usize::from(found.is_some());
        }
        assert!(regular > 1_000, "{regular}");
    }

    #[test]
    fn a_list_is_kept_once_however_often_it_is_met() {
        let world = 1_024;
        let mut sets = RankSets::new(world);
        let all = sets.number((0..world).collect());
        let pairs = sets.number(vec![0, 1]);
        for rank in 0..world {
            assert_eq!(sets.shifted(all, rank), Some(all));
            let own = sets.shifted(pairs, rank).unwrap();
            assert!(sets.has(own, rank) && sets.has(own, rank ^ 1) && !sets.has(own, rank ^ 2));
            assert_eq!(sets.number(vec![rank & !1, rank | 1]), own);
        }
        assert_eq!(sets.kept.len(), 1 + 512);
    }
}
