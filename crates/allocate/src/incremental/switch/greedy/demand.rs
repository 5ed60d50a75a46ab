//! What one account still wants: its flows, which pairs of links they join, and how many bytes each link has left.
//!
//! # The idea
//! The account numbers its links, those with most bytes left first: these numbers are *lines*. For each line there is
//! a bit set of the lines with which it still has an unfinished flow, and who serves the account keeps a set of its lines
//! that are free. Then the first bit that both have is the fullest partner to be had. Searching the loads of all free
//! partners, of which there are twenty on average, was nearly a fifth of a run.
//!
//! Loads change with every flow that ends, and lines do not follow at once: they are numbered anew whenever an eighth of
//! the flows left has ended. Against an order that is always up to date, on the Facebook trace: mean completion times under
//! `sebf` 21.820 s for 21.818 s, `stf` 24.302 s for 24.291 s, `sincronia` 22.129 s for both; the slowdown under `sebf` is 1.03
//! for 1.02 in the mean, 1.14 for 1.04 at the 95th percentile. Lines that wait for half of the flows save another sixth of
//! a run and bring that percentile to 1.20, and `stf` to 24.37 s; lines that are never numbered anew bring `sebf` to
//! 21.854 s.
//!
//! # Layout
//! A wide coflow has tens of thousands of flows, and which one is served next is as good as random: each look at one is
//! a look at memory that is not at hand, and waiting for it was a fifth of a run. So what starts and ends a flow looks at
//! none. A pair of links is known by the bit of its row in the set of its column, as they were at first: the number of lower
//! bits is its place in a compact table. Pairs are counted column by column, the order in which traces and reducers list
//! their flows; where flows come in that order, as they mostly do, the place of the pair is the place of the flow and also
//! says its number. And flows that leave at one link are mostly of one size, which is kept with the link; only of those
//! that were interrupted, or are of another size, the bytes left are looked up.
//!
//! Sets of rows are kept in the words of a set over all links that have a row in them, so those of a narrow coflow are
//! a word long, and all of it goes when the account does.

use crate::bits::members;
use crate::incremental::switch::max_min::group::NONE;

/// What stands in place of the bytes left of a flow that has finished; no other is negative.
const OVER: f64 = -1.0;

/// An unfinished flow.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Flow {
    pub(crate) number: u32,
    /// Where it enters (its row) and leaves (its column).
    pub(crate) links: [u32; 2],
    /// Bytes left.
    pub(crate) left: f64,
}

/// What makes one link of an account fuller than another.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Measure {
    /// The bytes left there.
    #[default]
    Bytes,
    /// The flows left there.
    Flows,
}

/// What the account has on one link.
#[derive(Clone, Copy, Debug)]
struct Stake {
    /// Bytes left, as of the last time its flows were settled.
    load: f64,
    /// The bytes of the first flow that leaves here.
    share: f64,
    /// Flows left.
    count: u32,
    /// Its number; [`NONE`] where it had no flows left when lines were numbered.
    line: u32,
    /// Where its set of rows begins in `known`; [`NONE`] where no flow leaves.
    known: u32,
}

const NOTHING: Stake = Stake { load: 0.0, share: f64::NAN, count: 0, line: NONE, known: NONE };

/// The flows of one account.
#[derive(Debug, Default)]
pub(crate) struct Demand {
    measure: Measure,
    /// The place of each word of a set over all links; [`NONE`] where the account has no link in it.
    place_of_word: Vec<u32>,
    /// By place of the word and bit.
    stakes: Vec<[Stake; 64]>,
    /// For each place of a word: which one it is among the words that have rows.
    row_word: Vec<u32>,
    /// For each column: its rows from the beginning, over the words that have rows; and how many pairs there are before
    /// each word.
    known: Vec<u64>,
    pairs_before: Vec<u32>,
    /// For each column: rows of which the flow may have other bytes left than the column's share, so that they are in `left`.
    differs: Vec<u64>,
    /// The link of each line; [`NONE`] behind the last one of each side.
    links: Vec<u32>,
    /// The words of a set of lines: those of rows, and all.
    row_words: usize,
    words: usize,
    /// For each line: the set of its partners with unfinished flows.
    open: Vec<u64>,
    /// Flows left, and with how many of them lines are numbered anew.
    unfinished: usize,
    renewal: usize,
    /// For each pair: its first flow, and its first unfinished one; empty where every pair has one flow.
    first: Vec<u32>,
    heads: Vec<u32>,
    /// By place, as they were at first.
    flows: Vec<Flow>,
    /// By place: bytes left, for those of which they may differ.
    left: Vec<f64>,
    /// Places in ascending order of number; empty where flows stand in that order.
    by_number: Vec<u32>,
    /// The number of the flow at the first place, where those behind it have the numbers that follow.
    first_number: Option<u32>,
}

impl Demand {
    /// From unfinished flows.
    pub(crate) fn new(mut flows: Vec<Flow>, measure: Measure) -> Self {
        flows.sort_unstable_by_key(|flow| flow.number);
        let mut demand = Demand { measure, ..Demand::default() };
        demand.find_words(&flows);
        demand.find_stakes(&flows);
        demand.find_pairs(&flows);
        demand.number_lines();
        for flow in &flows {
            demand.open_pair(demand.stake(flow.links[0]).line, demand.stake(flow.links[1]).line);
        }
        demand.unfinished = flows.len();
        demand.set_renewal();
        demand.place(flows);
        demand.find_differing();
        demand
    }

    fn find_words(&mut self, flows: &[Flow]) {
        // For each word, whether there are links in it, and rows.
        let mut has: Vec<[bool; 2]> = Vec::new();
        for flow in flows {
            for (is_row, link) in [true, false].into_iter().zip(flow.links) {
                let word = link as usize / 64;
                if has.len() <= word {
                    has.resize(word + 1, [false; 2]);
                }
                has[word] = [true, has[word][1] | is_row];
            }
        }
        let (mut words, mut row_words) = (0, 0);
        for [any, rows] in has {
            self.place_of_word.push(if any { words } else { NONE });
            if any {
                self.row_word.push(row_words);
            }
            words += u32::from(any);
            row_words += u32::from(rows);
        }
        self.stakes = vec![[NOTHING; 64]; words as usize];
    }

    fn find_stakes(&mut self, flows: &[Flow]) {
        let row_words = self.row_word.last().map_or(0, |&last| last as usize + 1);
        for flow in flows {
            let [row, column] = [self.at(flow.links[0]), self.at(flow.links[1])];
            for (place, bit) in [row, column] {
                let stake = &mut self.stakes[place][bit];
                stake.count += 1;
                stake.load += flow.left;
            }
            let stake = &mut self.stakes[column.0][column.1];
            if stake.known == NONE {
                (stake.known, stake.share) = (self.known.len() as u32, flow.left);
                self.known.resize(self.known.len() + row_words, 0);
            }
            self.known[(stake.known + self.row_word[row.0]) as usize] |= 1 << row.1;
        }
    }

    fn find_pairs(&mut self, flows: &[Flow]) {
        let mut pairs = 0;
        self.pairs_before.extend(self.known.iter().map(|word| {
            pairs += word.count_ones();
            pairs - word.count_ones()
        }));
        if (pairs as usize) < flows.len() {
            self.first = vec![0; pairs as usize + 1];
            for flow in flows {
                let pair = self.pair(flow.links);
                self.first[pair + 1] += 1;
            }
            for pair in 0..pairs as usize {
                self.first[pair + 1] += self.first[pair];
            }
            self.heads = self.first[..pairs as usize].to_vec();
        }
    }

    /// Numbers the links that have flows left, those with most bytes left first. No pair is open then.
    fn number_lines(&mut self) {
        let mut sides: [Vec<(f64, u32)>; 2] = Default::default();
        for (link, stake) in self.links() {
            let load = match self.measure {
                Measure::Bytes => stake.load,
                Measure::Flows => f64::from(stake.count),
            };
            sides[usize::from(stake.known != NONE)].push((load, link));
        }
        self.stakes.as_flattened_mut().iter_mut().for_each(|stake| stake.line = NONE);
        self.links.clear();
        for mut links in sides {
            links.sort_unstable_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
            self.row_words = self.words;
            for (_, link) in links {
                let (place, bit) = self.at(link);
                self.stakes[place][bit].line = self.links.len() as u32;
                self.links.push(link);
            }
            self.links.resize(self.links.len().next_multiple_of(64), NONE);
            self.words = self.links.len() / 64;
        }
        self.open = vec![0; self.links.len() * self.words];
    }

    fn open_pair(&mut self, row: u32, column: u32) {
        for (line, partner) in [(row, column), (column, row)] {
            let (word, bit) = self.partner_at(line, partner);
            self.open[word] |= bit;
        }
    }

    /// Lines are to be numbered anew when another eighth of the flows has ended.
    fn set_renewal(&mut self) {
        self.renewal = self.unfinished.saturating_sub((self.unfinished / 8).max(1));
    }

    /// Numbers lines anew where it is time.
    pub(crate) fn renew(&mut self) -> bool {
        let is_due = self.unfinished == self.renewal && self.unfinished > 0;
        if is_due {
            self.set_renewal();
            let (links, open) = (std::mem::take(&mut self.links), std::mem::take(&mut self.open));
            let (row_words, words) = (self.row_words, self.words);
            self.number_lines();
            let line_of = |link: u32| if link == NONE { NONE } else { self.stake(link).line };
            let lines: Vec<u32> = links.into_iter().map(line_of).collect();
            for (rows, &column) in open.chunks(words).zip(&lines).skip(row_words * 64) {
                for row in members(rows[..row_words].iter().copied()) {
                    self.open_pair(lines[row as usize], column);
                }
            }
        }
        is_due
    }

    /// Finds the flows that have other bytes left than the first of their columns.
    fn find_differing(&mut self) {
        // Of several flows between the same links, nobody knows which one is first without a look.
        let differ = !self.heads.is_empty();
        self.differs = vec![if differ { u64::MAX } else { 0 }; self.known.len()];
        self.left = vec![0.0; self.flows.len()];
        for (place, &Flow { links, left, .. }) in self.flows.iter().enumerate() {
            if differ || self.stake(links[1]).share != left {
                let (word, bit) = self.pair_at(links);
                self.differs[word] |= bit;
                self.left[place] = left;
            }
        }
    }

    fn place(&mut self, flows: Vec<Flow>) {
        let mut next = self.heads.clone();
        let place = |flow: &Flow| {
            let pair = self.pair(flow.links);
            next.get_mut(pair).map_or(pair as u32, |next| {
                *next += 1;
                *next - 1
            })
        };
        let places: Vec<u32> = flows.iter().map(place).collect();
        if places.iter().zip(0..).all(|(&place, nth)| place == nth) {
            self.first_number = match flows.as_slice() {
                [first, .., last] if (last.number - first.number) as usize + 1 == flows.len() => {
                    Some(first.number)
                }
                _ => None,
            };
            self.flows = flows;
        } else {
            self.flows = flows.clone();
            for (flow, &place) in flows.into_iter().zip(&places) {
                self.flows[place as usize] = flow;
            }
            self.by_number = places;
        }
    }

    /// The place of the word of one of the account's links, and its bit.
    #[inline]
    fn at(&self, link: u32) -> (usize, usize) {
        (self.place_of_word[link as usize / 64] as usize, link as usize % 64)
    }

    #[inline]
    fn stake(&self, link: u32) -> &Stake {
        let (place, bit) = self.at(link);
        &self.stakes[place][bit]
    }

    /// The links that have flows left, in ascending order, and what is on each.
    fn links(&self) -> impl Iterator<Item = (u32, &Stake)> {
        let places = self.place_of_word.iter().zip((0u32..).step_by(64)).filter(|(place, _)| **place != NONE);
        let links = places.flat_map(|(&place, first)| (first..).zip(&self.stakes[place as usize]));
        links.filter(|(_, stake)| stake.count > 0)
    }

    /// Bytes left on each link that has any, in ascending order of links.
    pub(crate) fn loads(&self) -> impl Iterator<Item = (u32, f64)> {
        self.links().map(|(link, stake)| (link, stake.load))
    }

    /// All lines and their links: rows first, the fullest of each side first.
    pub(crate) fn lines(&self) -> impl Iterator<Item = (u32, u32)> {
        (0..).zip(self.links.iter().copied()).filter(|&(_, link)| link != NONE)
    }

    /// Links where flows enter.
    pub(crate) fn rows(&self) -> impl Iterator<Item = u32> {
        self.links[..self.row_words * 64].iter().copied().take_while(|&link| link != NONE)
    }

    /// The link of a line.
    #[inline]
    pub(crate) fn link(&self, line: u32) -> u32 {
        self.links[line as usize]
    }

    /// The word of the open set of `line` that `partner` is in, and its bit.
    #[inline]
    fn partner_at(&self, line: u32, partner: u32) -> (usize, u64) {
        (line as usize * self.words + partner as usize / 64, 1 << (partner % 64))
    }

    /// The word of the column's set of rows that a pair of links is in, and its bit.
    #[inline]
    fn pair_at(&self, [row, column]: [u32; 2]) -> (usize, u64) {
        let (place, bit) = self.at(row);
        ((self.stake(column).known + self.row_word[place]) as usize, 1 << bit)
    }

    /// The number of a pair of links.
    #[inline]
    fn pair(&self, links: [u32; 2]) -> usize {
        self.number_of_pair(self.pair_at(links))
    }

    #[inline]
    fn number_of_pair(&self, (word, bit): (usize, u64)) -> usize {
        (self.pairs_before[word] + (self.known[word] & (bit - 1)).count_ones()) as usize
    }

    /// The place of the first unfinished flow of an open pair of links, and the bytes left of it.
    #[inline]
    pub(crate) fn first_unfinished(&self, links: [u32; 2]) -> (u32, f64) {
        let (word, bit) = self.pair_at(links);
        let pair = self.number_of_pair((word, bit));
        let place = self.heads.get(pair).copied().unwrap_or(pair as u32);
        (place, self.left_of(place, links[1], self.differs[word] & bit != 0))
    }

    /// Of the partners with which `line` has unfinished flows, the fullest one in the set `free`.
    #[inline]
    pub(crate) fn fullest_partner(&self, line: u32, free: &[u64]) -> Option<u32> {
        let is_row = (line as usize) < self.row_words * 64;
        let (first, end) = if is_row { (self.row_words, self.words) } else { (0, self.row_words) };
        let set = line as usize * self.words;
        let open = &self.open[set + first..set + end];
        let (nth, usable) = (first as u32..)
            .zip(open.iter().zip(&free[first..end]).map(|(open, free)| open & free))
            .find(|&(_, usable)| usable != 0)?;
        Some(nth * 64 + usable.trailing_zeros())
    }

    /// The links of two lines that are partners, the row first.
    #[inline]
    pub(crate) fn links_of(&self, line: u32, partner: u32) -> [u32; 2] {
        [self.link(line.min(partner)), self.link(line.max(partner))]
    }

    /// Notes that the flow at a place has nothing left, having sent the last of its bytes. Returns its number.
    pub(crate) fn finish(&mut self, place: u32, links: [u32; 2], sent: f64) -> u32 {
        self.unfinished -= 1;
        let mut is_over = true;
        if !self.heads.is_empty() {
            self.left[place as usize] = OVER;
            let pair = self.pair(links);
            let (head, end) = (&mut self.heads[pair], self.first[pair + 1]);
            while *head < end && self.left[*head as usize] < 0.0 {
                *head += 1;
            }
            is_over = *head == end;
        }
        let mut lines = [NONE; 2];
        for (line, link) in lines.iter_mut().zip(links) {
            let (place, bit) = self.at(link);
            let stake = &mut self.stakes[place][bit];
            stake.count -= 1;
            stake.load = if stake.count == 0 { 0.0 } else { stake.load - sent };
            *line = stake.line;
        }
        if is_over {
            for (line, partner) in [(lines[0], lines[1]), (lines[1], lines[0])] {
                let (word, bit) = self.partner_at(line, partner);
                self.open[word] &= !bit;
            }
        }
        self.number(place)
    }

    /// Notes how many bytes the flow at a place has left, and takes those that it has sent off both links.
    #[inline]
    pub(crate) fn settle(&mut self, place: u32, links: [u32; 2], left: f64, sent: f64) {
        self.left[place as usize] = left;
        let (word, bit) = self.pair_at(links);
        self.differs[word] |= bit;
        for link in links {
            let (place, bit) = self.at(link);
            self.stakes[place][bit].load -= sent;
        }
    }

    /// Bytes left of the unfinished flow at a place when it was last settled.
    pub(crate) fn left(&self, place: u32, links: [u32; 2]) -> f64 {
        let (word, bit) = self.pair_at(links);
        self.left_of(place, links[1], self.differs[word] & bit != 0)
    }

    #[inline]
    fn left_of(&self, place: u32, column: u32, differs: bool) -> f64 {
        if differs {
            return self.left[place as usize];
        }
        self.stake(column).share
    }

    /// The number of the flow at a place.
    #[inline]
    pub(crate) fn number(&self, place: u32) -> u32 {
        self.first_number.map_or_else(|| self.flows[place as usize].number, |first| first + place)
    }

    /// The flow at a place with the bytes that it has left; `None` where that is nothing.
    fn look_up(&self, place: u32) -> Option<Flow> {
        let flow = self.flows[place as usize];
        let [row, column] = flow.links.map(|link| self.stake(link));
        if row.count == 0 || column.count == 0 {
            return None;
        }
        let (word, bit) = self.partner_at(row.line, column.line);
        let left = self.left(place, flow.links);
        (self.open[word] & bit != 0 && left >= 0.0).then_some(Flow { left, ..flow })
    }

    /// The place of an unfinished flow and its links; `None` where `number` is none of the account's.
    pub(crate) fn find(&self, number: u32) -> Option<(u32, [u32; 2])> {
        let place_of = |nth: usize| self.by_number.get(nth).copied().unwrap_or(nth as u32);
        let flow_of = |nth: usize| &self.flows[place_of(nth) as usize];
        // Flows of one account mostly have successive numbers.
        let guess = number.wrapping_sub(self.flows.first().map(|_| flow_of(0).number)?) as usize;
        let place = if guess < self.flows.len() && flow_of(guess).number == number {
            place_of(guess)
        } else if self.by_number.is_empty() {
            self.flows.binary_search_by_key(&number, |flow| flow.number).ok()? as u32
        } else {
            let number_at = |&place: &u32| self.flows[place as usize].number;
            self.by_number[self.by_number.binary_search_by_key(&number, number_at).ok()?]
        };
        self.look_up(place).map(|flow| (place, flow.links))
    }

    /// The unfinished flows in ascending order of number.
    pub(crate) fn unfinished(&self) -> impl Iterator<Item = Flow> {
        let places = (0..self.flows.len()).map(|nth| self.by_number.get(nth).copied().unwrap_or(nth as u32));
        places.filter_map(|place| self.look_up(place))
    }
}
