//! The paths of one account by the links in between that they cross.
//!
//! # The idea
//! Pairs whose paths have the same links in between form a *group*: on a tree, the pairs between
//! two racks. Of the paths of a group only the ends differ, so that goes first which has the
//! fullest end, and of the paths from there the one with the fullest other end. If one of its links
//! in between is used up, a group is passed over at once; else its first path is found by a look at
//! its ends, not at its pairs.
//!
//! # Invariants
//! - Every pair is in one group, and what is offered of a group is looked at once, however many of
//!   its links are offered.
//! - Groups are sorted by their links in between.
//! - Sets of partners in a group stay as they are; a pair is open if the account's sets say so.
//!
//! # Cost
//! Of the Facebook trace on 150 hosts in racks of ten, oversubscribed four times, under `sebf`: a
//! link in between has 14 groups or more to look at, and had up to 1,400 pairs. Some 100 bytes for
//! a group of one pair.
//!
//! # Rejected
//! - A visit of all open pairs that cross an offered link: 31 s of the processor where this takes
//!   five.
//! - A search for each offered link in place of each group: the same groups are looked at for
//!   several links, and all groups of a link again after each path that is served.

use std::ops::Range;

use super::{Demand, Side};
use crate::bits::{has, set};
use crate::fill::NONE;
use crate::incremental::greedy::work::End;
use crate::route::Route;

/// Pairs of links with the same links in between.
#[derive(Debug)]
struct Group<const N: usize> {
    /// The path of one of them.
    route: Route<N>,
    /// Its rows and its columns, as places in the list of members.
    members: [(u32, u32); 2],
    /// The words in which they are, from the first of their sides on.
    words: [(u32, u32); 2],
    /// How many pairs have unfinished flows.
    pairs: u32,
}

/// A row or a column of a group.
#[derive(Clone, Copy, Debug, Default)]
struct Member {
    link: u32,
    group: u32,
    /// The link in between that is next to it, [`NONE`] if there is none.
    next: u32,
    /// How many places of its link share that, from this one on. That link is mostly the one that
    /// is used up, and then they are passed over at once.
    alike: u32,
    /// The place at which the set of its partners in the group begins, over the group's words of
    /// the other side.
    partners: u32,
    /// The same of the set of all partners with which it has an open pair.
    open: u32,
}

/// Lists, one for each link of a side.
#[derive(Debug)]
struct OfLinks<T> {
    /// For each link the place of its first entry, and the end of all.
    first: Vec<u32>,
    entries: Vec<T>,
}

impl<T: Copy + Default> OfLinks<T> {
    /// Takes pairs of a link's place and an entry of its list.
    fn new(links: usize, pairs: impl Iterator<Item = (usize, T)> + Clone) -> Self {
        let mut first = vec![0; links + 1];
        pairs.clone().for_each(|(at, _)| first[at] += 1);
        let mut end = 0;
        for first in &mut first {
            end += *first;
            *first = end;
        }
        let mut entries = vec![T::default(); end as usize];
        for (at, entry) in pairs {
            first[at] -= 1;
            entries[first[at] as usize] = entry;
        }
        Self { first, entries }
    }
}

impl<T> OfLinks<T> {
    /// The places of the list of a link; none if the account has nothing near it.
    #[inline]
    fn of_link(&self, at: usize) -> Range<usize> {
        match self.first.get(at..at.saturating_add(2)) {
            Some(&[first, end]) => first as usize..end as usize,
            _ => 0..0,
        }
    }
}

impl<T> Default for OfLinks<T> {
    fn default() -> Self {
        Self { first: Vec::new(), entries: Vec::new() }
    }
}

/// What is offered of a group: the paths from one row or column, by its side and its place in the
/// lists of that; all paths, where a link in between is offered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Part {
    group: u32,
    from: Option<(u8, u32)>,
}

/// All groups of an account; none across one switch.
#[derive(Debug)]
pub(super) struct Groups<const N: usize> {
    groups: Vec<Group<N>>,
    members: Vec<Member>,
    partners: Vec<u64>,
    /// For each row and each column where it is a member.
    of_ends: [OfLinks<Member>; 2],
    /// The groups that cross each link in between.
    crossing: OfLinks<u32>,
}

impl<const N: usize> Default for Groups<N> {
    fn default() -> Self {
        Self {
            groups: Vec::new(),
            members: Vec::new(),
            partners: Vec::new(),
            of_ends: <[OfLinks<Member>; 2]>::default(),
            crossing: OfLinks::default(),
        }
    }
}

impl<const N: usize> Groups<N> {
    /// Takes one path for each pair of links.
    pub(super) fn new(mut routes: Vec<Route<N>>, sides: &[Side; 3]) -> Self {
        let mut all = Self::default();
        for side in [0, 1] {
            let first = all.members.len();
            all.add_members(side, &mut routes, sides);
            all.of_ends[side] = Groups::<N>::members_of_links(&all.members[first..], &sides[side]);
        }
        let crossing = (0..)
            .zip(&all.groups)
            .flat_map(|(nth, group)| group.route.links().skip(2).map(move |link| (sides[2].at(link), nth)));
        all.crossing = OfLinks::new(sides[2].ends.len(), crossing);
        all
    }

    /// Adds the rows or the columns of all groups.
    fn add_members(&mut self, side: usize, routes: &mut [Route<N>], sides: &[Side; 3]) {
        let other = |route: &Route<N>| sides[1 - side].at(route.ends()[1 - side]) as u32;
        routes.sort_unstable_by(|a, b| (a.middle(), a.ends()[side]).cmp(&(b.middle(), b.ends()[side])));
        for (nth, of_group) in routes.chunk_by(|a, b| a.middle() == b.middle()).enumerate() {
            let words = of_group.iter().map(|route| other(route) / 64);
            let words = (words.clone().min().unwrap_or(0), words.max().map_or(0, |last| last + 1));
            let first = self.members.len() as u32;
            for of_link in of_group.chunk_by(|a, b| a.ends()[side] == b.ends()[side]) {
                let link = of_link[0].ends()[side];
                let mut middle = of_link[0].links().skip(2);
                let next = if side == 0 { middle.next() } else { middle.last() }.unwrap_or(NONE);
                let open = sides[side].ends[sides[side].at(link)].open + words.0;
                let (group, partners) = (nth as u32, self.partners.len() as u32);
                self.members.push(Member { link, group, next, alike: 1, partners, open });
                let partners = partners as usize;
                self.partners.resize(partners + (words.1 - words.0) as usize, 0);
                for route in of_link {
                    set(&mut self.partners[partners..], other(route) - 64 * words.0, true);
                }
            }
            if side == 0 {
                let (route, pairs) = (of_group[0], of_group.len() as u32);
                self.groups.push(Group { route, members: [(0, 0); 2], words: [(0, 0); 2], pairs });
            }
            let group = &mut self.groups[nth];
            group.members[side] = (first, self.members.len() as u32);
            group.words[1 - side] = words;
        }
    }

    /// Lists members by link, those with the same link next to them together.
    fn members_of_links(members: &[Member], side: &Side) -> OfLinks<Member> {
        let mut members = members.to_vec();
        members.sort_unstable_by_key(|member| (member.next, member.group));
        let places = members.iter().map(|&member| (side.at(member.link), member));
        let mut of_links = OfLinks::new(side.ends.len(), places);
        let is_alike = |a: &Member, b: &Member| (a.link, a.next) == (b.link, b.next);
        for alike in of_links.entries.chunk_by_mut(is_alike) {
            (1..).zip(alike.iter_mut().rev()).for_each(|(count, member)| member.alike = count);
        }
        of_links
    }

    /// Notes that the last flow of the pair on a path has finished.
    pub(super) fn finish_pair(&mut self, route: &Route<N>) {
        if let Ok(group) = self.groups.binary_search_by(|group| group.route.middle().cmp(route.middle())) {
            self.groups[group].pairs -= 1;
        }
    }

    fn members(&self, group: &Group<N>, side: usize) -> &[Member] {
        let (first, end) = group.members[side];
        &self.members[first as usize..end as usize]
    }
}

impl<const N: usize> Demand<N> {
    /// Appends the parts that an offer of links opens, as far as they have an open pair whose links
    /// are all in the set `free`.
    pub(crate) fn offered(&self, offered: &[End], free: &[u64], parts: &mut Vec<Part>) {
        for &(side, link) in offered {
            if side == 2 {
                let crossing = &self.groups.crossing;
                let crossing = crossing.entries[crossing.of_link(self.sides[2].at(link))].iter();
                let wanted = crossing.filter(|&&group| self.is_wanted(group, free));
                parts.extend(wanted.map(|&group| Part { group, from: None }));
            } else if self.partners(side, link, free).any(|word| word != 0) {
                self.offered_end(side, link, free, parts);
            }
        }
        parts.sort_unstable();
        parts.dedup_by(|part, kept| part.group == kept.group && kept.from.is_none() || part == kept);
    }

    /// The same for a row or a column.
    fn offered_end(&self, side: usize, link: u32, free: &[u64], parts: &mut Vec<Part>) {
        let mut places = self.groups.of_ends[side].of_link(self.sides[side].at(link));
        while let Some(place) = places.next() {
            let member = &self.groups.of_ends[side].entries[place];
            let group = &self.groups.groups[member.group as usize];
            if !is_free(member.next, free) {
                places.start += member.alike as usize - 1;
            } else if group.is_free(free) && self.has_partner(side, group, member, free) {
                parts.push(Part { group: member.group, from: Some((side as u8, place as u32)) });
            }
        }
    }

    /// Returns whether a group has an open pair whose links are all in the set `free`.
    fn is_wanted(&self, group: u32, free: &[u64]) -> bool {
        let group = &self.groups.groups[group as usize];
        let mut rows = self.groups.members(group, 0).iter();
        group.is_free(free) && rows.any(|row| has(free, row.link) && self.has_partner(0, group, row, free))
    }

    /// Finds the path that goes first of a part, of those that have an open pair and whose links
    /// are all in the set `free`.
    pub(crate) fn first_path(&self, part: &Part, free: &[u64]) -> Option<Route<N>> {
        let group = &self.groups.groups[part.group as usize];
        if !group.is_free(free) {
            return None;
        }
        let (side, member) = match part.from {
            None => self.fullest_member(group, free)?,
            Some((side, place)) => {
                let side = usize::from(side);
                (side, &self.groups.of_ends[side].entries[place as usize])
            }
        };
        if !has(free, member.link) {
            return None;
        }
        let partner = self.fullest_in(side, group, member, free)?;
        Some(group.route.between(if side == 0 { [member.link, partner] } else { [partner, member.link] }))
    }

    /// Finds the fullest end of the paths of a group, and its side.
    fn fullest_member(&self, group: &Group<N>, free: &[u64]) -> Option<(usize, &Member)> {
        let (mut fullest, mut found) = ((i64::MAX, NONE), None);
        for side in [0, 1] {
            for member in self.groups.members(group, side) {
                let fullness = self.sides[side].fullness(member.link);
                if fullness < fullest && has(free, member.link) && self.has_partner(side, group, member, free)
                {
                    (fullest, found) = (fullness, Some((side, member)));
                }
            }
        }
        found
    }

    /// Finds the fullest partner of a member in its group.
    fn fullest_in(&self, side: usize, group: &Group<N>, member: &Member, free: &[u64]) -> Option<u32> {
        let (first, _) = group.words[1 - side];
        self.sides[1 - side].fullest(first as usize, self.partners_in(side, group, member, free))
    }

    #[inline]
    fn has_partner(&self, side: usize, group: &Group<N>, member: &Member, free: &[u64]) -> bool {
        self.partners_in(side, group, member, free).any(|word| word != 0)
    }

    /// The partners of a member in its group with which it has an open pair, and that are in the
    /// set `free`, as words.
    #[inline]
    fn partners_in(
        &self,
        side: usize,
        group: &Group<N>,
        member: &Member,
        free: &[u64],
    ) -> impl Iterator<Item = u64> {
        let (first, end) = group.words[1 - side];
        let width = (end - first) as usize;
        let open = &self.sides[side].open[member.open as usize..][..width];
        let free = &free[self.sides[1 - side].words.start + first as usize..][..width];
        let partners = &self.groups.partners[member.partners as usize..][..width];
        partners.iter().zip(open).zip(free).map(|((partners, open), free)| partners & open & free)
    }
}

impl<const N: usize> Group<N> {
    /// Returns whether it has unfinished flows, and all its links in between are in the set `free`.
    #[inline]
    fn is_free(&self, free: &[u64]) -> bool {
        self.pairs > 0 && self.route.middle().iter().all(|&link| is_free(link, free))
    }
}

/// Returns whether `link`, if there is one, is in the set `free`.
#[inline]
fn is_free(link: u32, free: &[u64]) -> bool {
    link == NONE || has(free, link)
}

#[cfg(test)]
mod tests {
    use super::super::{Flow, Measure};
    use super::*;
    use proptest::prelude::*;

    const ENDS: u32 = 150;
    const MIDDLE: [[u32; 4]; 5] = [
        [NONE; 4],
        [300, 301, NONE, NONE],
        [300, 302, NONE, NONE],
        [300, 303, 304, 302],
        [305, 303, 304, 306],
    ];

    /// A path that follows from its ends. Which one the next pair has cannot be told from that.
    fn route(row: u32, column: u32) -> Route<6> {
        let middle = MIDDLE[((row * 7 + column * 11) / 5 % 5) as usize];
        let middle = middle.into_iter().take_while(|&link| link != NONE);
        let links: Vec<u32> = [row].into_iter().chain(middle).chain([ENDS + column]).collect();
        Route::new(&links)
    }

    proptest! {
        #[test]
        fn the_first_of_all_parts_is_the_first_of_all_paths_that_cross_an_offered_link(
            flows in prop::collection::vec((0..ENDS, 0..ENDS, 1u32..9), 1..250),
            finished in prop::collection::vec(any::<prop::sample::Index>(), 0..60),
            closed in prop::collection::vec(any::<prop::sample::Index>(), 0..20),
            used_up in prop::collection::vec(0u32..307, 0..60),
            offered in prop::collection::vec(0u32..307, 1..12),
        ) {
            let flows: Vec<Flow<6>> = (0..).zip(&flows)
                .map(|(number, &(row, column, bytes))| Flow::new(number, route(row, column), f64::from(bytes)))
                .collect();
            let mut demand = Demand::new(flows.clone(), Measure::Bytes);
            for index in finished {
                let place = index.index(flows.len()) as u32;
                if demand.flow(place).is_some() {
                    demand.finish(place);
                }
            }
            for index in closed {
                demand.open(&flows[index.index(flows.len())].route, false);
            }
            let mut free = vec![u64::MAX; 5];
            used_up.into_iter().for_each(|link| set(&mut free, link, false));
            let side = |link: u32| (link / ENDS) as usize;
            let offered = offered.into_iter().filter(|&link| has(&free, link));
            let offered: Vec<End> = offered.map(|link| (side(link), link)).collect();
            let mut parts = Vec::new();
            demand.offered(&offered, &free, &mut parts);
            let firsts: Vec<_> = parts.iter().map(|part| demand.first_path(part, &free)).collect();
            prop_assert!(firsts.iter().all(Option::is_some), "a part has an open pair");
            let by_parts = firsts.into_iter().flatten().map(|route| demand.fullness(&route)).min();
            let is_candidate = |route: &Route<6>| {
                demand.is_open(route)
                    && route.links().all(|link| has(&free, link))
                    && offered.iter().any(|&(_, link)| route.links().any(|own| own == link))
            };
            let routes = demand.unfinished().map(|(_, flow)| flow.route).filter(is_candidate);
            prop_assert_eq!(by_parts, routes.map(|route| demand.fullness(&route)).min());
        }
    }
}
