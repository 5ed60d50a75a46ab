//! What one account still wants: its flows, which pairs of links they join, and how many bytes each link has left.
//!
//! # The idea
//! A pair is looked up by two bit sets over links: the partners that a link ever had (whose number of lower bits is the
//! pair's place in a compact table) and those that are still unfinished. Intersecting the second with the links that are
//! free answers "is there anything to do here?" in a few words. The sets of a link span only the links at which the other
//! side has flows, so those of a narrow coflow are a word long, and all of it goes when the account does.
//!
//! # Layout
//! A wide coflow has tens of thousands of flows, and which one is served next is as good as random: each look at one is
//! a look at memory that is not at hand, and waiting for it was a fifth of a run. So what starts and ends a flow looks at
//! none. Pairs are counted column by column, the order in which traces and reducers list their flows; where flows
//! come in that order, as they mostly do, the place of the pair is the place of the flow and also says its number. And
//! flows that leave at one link are mostly of one size, which is kept with the link; only of those that were interrupted, or
//! are of another size, the bytes left are looked up.

use crate::bits::ones;
use crate::free::Free;
use crate::maxmin::NONE;

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

/// What the account has on one link.
#[derive(Clone, Copy, Debug)]
struct Stake {
    /// Flows left.
    count: u32,
    /// Which side the link is on.
    side: u32,
    /// Where its set of partners begins; [`NONE`] where the account has nothing on the link.
    set: u32,
}

const NOTHING: Stake = Stake { count: 0, side: 0, set: NONE };

/// The links on one side: where flows enter (rows), or where they leave (columns).
#[derive(Debug, Default)]
struct Side {
    /// The words of a set over all links in which there are links of this side, and the place of each among all words.
    words: Vec<(u32, u32)>,
    /// For each link: its partners with unfinished flows, over the words of the other side.
    open: Vec<u64>,
}

/// A link on which an account has something: its side and where its set of partners begins.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Held {
    side: usize,
    set: usize,
}

/// The flows of one account.
#[derive(Debug, Default)]
pub(crate) struct Demand {
    /// The place of each word of a set over all links; [`NONE`] where the account has no link in it.
    place_of_word: Vec<u32>,
    /// By place of the word and bit.
    stakes: Vec<[Stake; 64]>,
    /// Bytes left on each link, as of the last time its flows were settled.
    loads: Vec<[f64; 64]>,
    /// Rows, columns.
    sides: [Side; 2],
    /// For each place of a word: which one it is among the words of rows, and among those of columns.
    place_on_side: [Vec<u32>; 2],
    /// For each column: its partners from the beginning, and how many pairs there are before each word.
    known: Vec<u64>,
    pairs_before: Vec<u32>,
    /// The bytes of the first flow of each column, by place of the word and bit.
    shares: Vec<[f64; 64]>,
    /// For each column: partners of which the flow may have other bytes left than that, so that they are in `left`.
    differs: Vec<u64>,
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
    pub(crate) fn new(mut flows: Vec<Flow>) -> Self {
        flows.sort_unstable_by_key(|flow| flow.number);
        let mut demand = Demand::default();
        demand.find_words(&flows);
        demand.find_stakes(&flows);
        demand.find_pairs(&flows);
        demand.place(flows);
        demand.find_shares();
        demand
    }

    fn find_words(&mut self, flows: &[Flow]) {
        // For each word, whether there are rows and columns in it.
        let mut has: Vec<[bool; 2]> = Vec::new();
        for flow in flows {
            for (side, link) in flow.links.into_iter().enumerate() {
                let word = link as usize / 64;
                if has.len() <= word {
                    has.resize(word + 1, [false; 2]);
                }
                has[word][side] = true;
            }
        }
        let mut words = 0;
        for (word, has) in has.into_iter().enumerate() {
            for (side, _) in self.sides.iter_mut().zip(has).filter(|(_, has)| *has) {
                side.words.push((word as u32, words));
            }
            self.place_of_word.push(if has == [false; 2] { NONE } else { words });
            words += u32::from(has != [false; 2]);
        }
        self.stakes = vec![[NOTHING; 64]; words as usize];
        self.loads = vec![[0.0; 64]; words as usize];
    }

    fn find_stakes(&mut self, flows: &[Flow]) {
        // For each place of a word: which one of its side's words it is.
        let mut place_on_side = [vec![0; self.loads.len()], vec![0; self.loads.len()]];
        for (places, side) in place_on_side.iter_mut().zip(&self.sides) {
            side.words.iter().zip(0..).for_each(|(&(_, place), nth)| places[place as usize] = nth);
        }
        let words = [self.sides[1].words.len(), self.sides[0].words.len()];
        for flow in flows {
            let places = flow.links.map(|link| self.at(link));
            for (side, &(place, bit)) in places.iter().enumerate() {
                let Side { open, .. } = &mut self.sides[side];
                let stake = &mut self.stakes[place][bit];
                if stake.set == NONE {
                    (stake.set, stake.side) = (open.len() as u32, side as u32);
                    open.resize(open.len() + words[side], 0);
                }
                stake.count += 1;
                self.loads[place][bit] += flow.left;
                let (partner_place, partner_bit) = places[1 - side];
                let word = stake.set + place_on_side[1 - side][partner_place];
                open[word as usize] |= 1 << partner_bit;
            }
        }
        self.place_on_side = place_on_side;
    }

    fn find_pairs(&mut self, flows: &[Flow]) {
        self.known = self.sides[1].open.clone();
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

    fn find_shares(&mut self) {
        // Of several flows between the same links, nobody knows which one is first without a look.
        let differ = !self.heads.is_empty();
        self.differs = vec![if differ { u64::MAX } else { 0 }; self.known.len()];
        self.shares = vec![[f64::NAN; 64]; self.loads.len()];
        self.left = vec![0.0; self.flows.len()];
        for place in 0..self.flows.len() {
            let Flow { links, left, .. } = self.flows[place];
            let (word, bit) = self.at(links[1]);
            let share = &mut self.shares[word][bit];
            if share.is_nan() {
                *share = left;
            }
            if differ || *share != left {
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
    fn at(&self, link: u32) -> (usize, usize) {
        (self.place_of_word[link as usize / 64] as usize, link as usize % 64)
    }

    fn stake(&self, link: u32) -> Stake {
        let (place, bit) = self.at(link);
        self.stakes[place][bit]
    }

    /// What the account has at `link`; `None` where it has nothing there.
    pub(crate) fn held(&self, link: u32) -> Option<Held> {
        let place = *self.place_of_word.get(link as usize / 64)?;
        let stake = self.stakes.get(place as usize)?[link as usize % 64];
        (stake.set != NONE).then_some(Held { side: stake.side as usize, set: stake.set as usize })
    }

    /// Bytes left on `link`, one of the account's.
    pub(crate) fn load(&self, link: u32) -> f64 {
        let (place, bit) = self.at(link);
        self.loads[place][bit]
    }

    /// Links where flows enter, then those where they leave, each in ascending order, with the flows and bytes left there.
    pub(crate) fn links(&self) -> impl Iterator<Item = (u32, u32, f64)> {
        (0..2).flat_map(|side| self.links_on(side))
    }

    /// Bytes left on each link, in ascending order of links.
    pub(crate) fn loads(&self) -> impl Iterator<Item = (u32, f64)> {
        let places = self.place_of_word.iter().zip((0u32..).step_by(64)).filter(|(place, _)| **place != NONE);
        places.flat_map(|(&place, first)| {
            let links = self.stakes[place as usize].iter().zip(&self.loads[place as usize]).zip(first..);
            links.filter(|((stake, _), _)| stake.set != NONE).map(|((_, &load), link)| (link, load))
        })
    }

    fn links_on(&self, side: usize) -> impl Iterator<Item = (u32, u32, f64)> {
        self.sides[side].words.iter().flat_map(move |&(word, place)| {
            let links = self.stakes[place as usize].iter().zip(&self.loads[place as usize]).zip(word * 64..);
            let here = links.filter(move |((stake, _), _)| stake.set != NONE && stake.side == side as u32);
            here.map(|((stake, load), link)| (link, stake.count, *load))
        })
    }

    /// Links where flows enter.
    pub(crate) fn rows(&self) -> impl Iterator<Item = u32> {
        self.links_on(0).map(|(link, ..)| link)
    }

    /// The word of the column's set of rows that a pair of links is in, and its bit.
    fn pair_at(&self, [row, column]: [u32; 2]) -> (usize, u64) {
        let (place, bit) = self.at(row);
        ((self.stake(column).set + self.place_on_side[0][place]) as usize, 1 << bit)
    }

    /// The number of a pair of links.
    fn pair(&self, links: [u32; 2]) -> usize {
        self.number_of_pair(self.pair_at(links))
    }

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

    /// Of the partners with unfinished flows that are free after `rank`, and not `useless`: the one with the most bytes left on
    /// its link, the lower link where equal.
    pub(crate) fn fullest_partner(&self, held: Held, free: &Free, rank: u32, useless: &[u32]) -> Option<u32> {
        let words = &self.sides[1 - held.side].words;
        let open = &self.sides[held.side].open[held.set..held.set + words.len()];
        let (mut best, mut most) = (NONE, f64::NEG_INFINITY);
        for (&(word, place), &open) in words.iter().zip(open) {
            let mut usable = open & free.word(rank, word);
            for link in useless.iter().filter(|&&link| link / 64 == word) {
                usable &= !(1 << (link % 64));
            }
            if usable == 0 {
                continue;
            }
            let loads = &self.loads[place as usize];
            for bit in ones(usable) {
                let load = loads[bit as usize % 64];
                // Without a branch: which of a dozen is the fullest, no processor can guess.
                best = if load > most { word * 64 + bit } else { best };
                most = if load > most { load } else { most };
            }
        }
        (best != NONE).then_some(best)
    }

    /// The two links of a pair, the row first.
    pub(crate) fn row_and_column(held: Held, link: u32, partner: u32) -> [u32; 2] {
        if held.side == 0 { [link, partner] } else { [partner, link] }
    }

    /// Notes that the flow at a place has nothing left, having sent the last of its bytes. Returns its number, and what is
    /// left on its links.
    pub(crate) fn finish(&mut self, place: u32, links: [u32; 2], sent: f64) -> (u32, [f64; 2]) {
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
        let mut loads = [0.0; 2];
        let places = links.map(|link| self.at(link));
        for (side, &(place, bit)) in places.iter().enumerate() {
            let (stake, load) = (&mut self.stakes[place][bit], &mut self.loads[place][bit]);
            stake.count -= 1;
            *load = if stake.count == 0 { 0.0 } else { *load - sent };
            loads[side] = *load;
            if is_over {
                let (partner_place, partner_bit) = places[1 - side];
                let word = stake.set + self.place_on_side[1 - side][partner_place];
                self.sides[side].open[word as usize] &= !(1 << partner_bit);
            }
        }
        (self.number(place), loads)
    }

    /// Notes how many bytes the flow at a place has left, and takes those that it has sent off both links.
    pub(crate) fn settle(&mut self, place: u32, links: [u32; 2], left: f64, sent: f64) {
        self.left[place as usize] = left;
        let (word, bit) = self.pair_at(links);
        self.differs[word] |= bit;
        for link in links {
            let (place, bit) = self.at(link);
            self.loads[place][bit] -= sent;
        }
    }

    /// Bytes left of the unfinished flow at a place when it was last settled.
    pub(crate) fn left(&self, place: u32, links: [u32; 2]) -> f64 {
        let (word, bit) = self.pair_at(links);
        self.left_of(place, links[1], self.differs[word] & bit != 0)
    }

    fn left_of(&self, place: u32, column: u32, differs: bool) -> f64 {
        if differs {
            return self.left[place as usize];
        }
        let (word, bit) = self.at(column);
        self.shares[word][bit]
    }

    /// The number of the flow at a place.
    pub(crate) fn number(&self, place: u32) -> u32 {
        self.first_number.map_or_else(|| self.flows[place as usize].number, |first| first + place)
    }

    /// The flow at a place with the bytes that it has left; `None` where that is nothing.
    fn look_up(&self, place: u32) -> Option<Flow> {
        let flow = self.flows[place as usize];
        let (word, bit) = self.pair_at(flow.links);
        let left = self.left(place, flow.links);
        (self.sides[1].open[word] & bit != 0 && left >= 0.0).then_some(Flow { left, ..flow })
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
