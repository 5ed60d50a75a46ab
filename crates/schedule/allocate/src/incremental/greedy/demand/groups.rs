//! The first path of those that cross a link, where paths have links in between.
//!
//! # The idea
//! The pairs of an account whose paths have the same links in between form a *group*: on a tree,
//! the pairs between two racks. Of the paths of a group only the ends differ, so that goes first
//! which has the fullest end, and of the paths from there the one with the fullest other end. A
//! group is looked at as a whole: if one of its links in between is used up, it is passed over, and
//! the fullest of its ends is found without a look at its pairs. So there is one path to compare
//! for each group that crosses the link.
//!
//! # Cost
//! For a row or a column: a scan of its partners, and a comparison for each group that it is in.
//! For a link in between: at each group that crosses it, a look at its ends.

use super::{Demand, Side};
use crate::bits::{has, ones, set};
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
}

/// A row or a column of a group.
#[derive(Clone, Copy, Debug)]
struct Member {
    link: u32,
    group: u32,
    /// The place at which the set of its partners in the group begins, over the group's words of
    /// the other side.
    partners: u32,
}

/// Lists of numbers, one for each link of a side.
#[derive(Debug, Default)]
struct OfLinks {
    /// For each link the place of its first number, and the end of all.
    first: Vec<u32>,
    numbers: Vec<u32>,
}

impl OfLinks {
    /// Takes pairs of a link's place and a number.
    fn new(links: usize, pairs: impl Iterator<Item = (usize, u32)> + Clone) -> Self {
        let mut first = vec![0; links + 1];
        pairs.clone().for_each(|(at, _)| first[at] += 1);
        let mut end = 0;
        for first in &mut first {
            end += *first;
            *first = end;
        }
        let mut numbers = vec![0; end as usize];
        for (at, number) in pairs {
            first[at] -= 1;
            numbers[first[at] as usize] = number;
        }
        Self { first, numbers }
    }

    fn of_link(&self, at: usize) -> &[u32] {
        match self.first.get(at..at.saturating_add(2)) {
            Some(&[first, end]) => &self.numbers[first as usize..end as usize],
            _ => &[],
        }
    }
}

/// All groups of an account; none across one switch.
#[derive(Debug)]
pub(super) struct Groups<const N: usize> {
    groups: Vec<Group<N>>,
    members: Vec<Member>,
    partners: Vec<u64>,
    /// For each row and each column where it is a member, and for each link in between the groups
    /// that cross it.
    of_links: [OfLinks; 3],
}

impl<const N: usize> Default for Groups<N> {
    fn default() -> Self {
        let of_links = <[OfLinks; 3]>::default();
        Self { groups: Vec::new(), members: Vec::new(), partners: Vec::new(), of_links }
    }
}

impl<const N: usize> Groups<N> {
    /// Takes one path for each pair of links.
    pub(super) fn new(mut routes: Vec<Route<N>>, sides: &[Side; 3]) -> Self {
        let mut all = Self::default();
        for side in [0, 1] {
            let other = |route: &Route<N>| sides[1 - side].at(route.ends()[1 - side]) as u32;
            routes.sort_unstable_by(|a, b| (a.middle(), a.ends()[side]).cmp(&(b.middle(), b.ends()[side])));
            for (nth, of_group) in routes.chunk_by(|a, b| a.middle() == b.middle()).enumerate() {
                if side == 0 {
                    all.groups.push(Group { route: of_group[0], members: [(0, 0); 2], words: [(0, 0); 2] });
                }
                let words = of_group.iter().map(|route| other(route) / 64);
                let words = (words.clone().min().unwrap_or(0), words.max().map_or(0, |last| last + 1));
                let first = all.members.len() as u32;
                for of_link in of_group.chunk_by(|a, b| a.ends()[side] == b.ends()[side]) {
                    let partners = all.partners.len();
                    let link = of_link[0].ends()[side];
                    all.members.push(Member { link, group: nth as u32, partners: partners as u32 });
                    all.partners.resize(partners + (words.1 - words.0) as usize, 0);
                    for route in of_link {
                        set(&mut all.partners[partners..], other(route) - 64 * words.0, true);
                    }
                }
                let group = &mut all.groups[nth];
                group.members[side] = (first, all.members.len() as u32);
                group.words[1 - side] = words;
            }
        }
        let middle = (0..)
            .zip(&all.groups)
            .flat_map(|(nth, group)| group.route.links().skip(2).map(move |link| (sides[2].at(link), nth)));
        let middle = OfLinks::new(sides[2].ends.len(), middle);
        let [rows, columns] = [0, 1].map(|side: usize| {
            let members = all.groups.iter().flat_map(|group| group.members[side].0..group.members[side].1);
            let places = members.map(|nth| (sides[side].at(all.members[nth as usize].link), nth));
            OfLinks::new(sides[side].ends.len(), places)
        });
        all.of_links = [rows, columns, middle];
        all
    }

    fn members(&self, group: &Group<N>, side: usize) -> &[Member] {
        let (first, end) = group.members[side];
        &self.members[first as usize..end as usize]
    }
}

impl<const N: usize> Demand<N> {
    /// Returns whether an open pair whose links are all in the set `free` crosses `end`.
    pub(crate) fn is_wanted(&self, end: End, free: &[u64]) -> bool {
        match end.0 {
            2 => self.sides[2].of_link(end.1).is_some(),
            _ => self.partners(end.0, end.1, free).any(|word| word != 0),
        }
    }

    /// Finds the path that goes first of those that cross `end`, have an open pair, and whose links
    /// are all in the set `free`.
    pub(crate) fn first_path(&self, end: End, free: &[u64]) -> Option<Route<N>> {
        let first = |one: Route<N>, other| if self.goes_before(&other, &one) { other } else { one };
        self.first_paths(end, free).reduce(first)
    }

    /// The same for each group.
    fn first_paths(&self, (side, link): End, free: &[u64]) -> impl Iterator<Item = Route<N>> {
        let numbers = self.groups.of_links[side].of_link(self.sides[side].at(link));
        numbers.iter().filter_map(move |&number| {
            if side == 2 {
                let group = &self.groups.groups[number as usize];
                let (side, member) = self.fullest_member(group, free)?;
                return self.fullest_path(side, member, free);
            }
            self.fullest_path(side, &self.groups.members[number as usize], free)
        })
    }

    /// Finds the fullest end of the paths of a group, and its side.
    fn fullest_member(&self, group: &Group<N>, free: &[u64]) -> Option<(usize, &Member)> {
        if !is_open(group, free) {
            return None;
        }
        let (mut fullest, mut found) = ((i64::MAX, NONE), None);
        for side in [0, 1] {
            for member in self.groups.members(group, side) {
                let fullness = self.sides[side].fullness(member.link);
                if fullness < fullest
                    && has(free, member.link)
                    && self.partners_in(side, group, member, free).any(|word| word != 0)
                {
                    (fullest, found) = (fullness, Some((side, member)));
                }
            }
        }
        found
    }

    /// Finds the path from a member of a group to its fullest partner there.
    fn fullest_path(&self, side: usize, member: &Member, free: &[u64]) -> Option<Route<N>> {
        let group = &self.groups.groups[member.group as usize];
        if !is_open(group, free) {
            return None;
        }
        let other = &self.sides[1 - side];
        let (mut fullest, mut most) = (NONE, -1);
        let (first, _) = group.words[1 - side];
        for (word, partners) in (first..).zip(self.partners_in(side, group, member, free)) {
            let steps = &other.steps[word as usize];
            for bit in ones(partners) {
                let load = steps[bit as usize % 64];
                fullest = if load > most { 64 * word + bit } else { fullest };
                most = most.max(load);
            }
        }
        let partner = (fullest != NONE).then(|| fullest + other.words.start as u32 * 64)?;
        let ends = if side == 0 { [member.link, partner] } else { [partner, member.link] };
        Some(group.route.between(ends))
    }

    /// The partners of a member in its group with which it has an open pair, and that are in the
    /// set `free`, as words.
    #[inline]
    fn partners_in<'a>(
        &'a self,
        side: usize,
        group: &Group<N>,
        member: &Member,
        free: &'a [u64],
    ) -> impl Iterator<Item = u64> + use<'a, N> {
        let [own, other] = [&self.sides[side], &self.sides[1 - side]];
        let (first, end) = group.words[1 - side];
        let words = first as usize..end as usize;
        let open = own.ends[own.at(member.link)].open as usize;
        let open = &own.open[open + words.start..open + words.end];
        let free = &free[other.words.start + words.start..other.words.start + words.end];
        let partners = &self.groups.partners[member.partners as usize..][..words.len()];
        partners.iter().zip(open).zip(free).map(|((partners, open), free)| partners & open & free)
    }
}

/// Returns whether all links in between of a group are in the set `free`.
#[inline]
fn is_open<const N: usize>(group: &Group<N>, free: &[u64]) -> bool {
    group.route.middle().iter().all(|&link| link == NONE || has(free, link))
}
