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
//! a look at memory that is not at hand. Flows therefore stand in the order of their pairs, with what is needed to start one
//! (the bytes left) apart from the rest. Where every pair has one flow, which is the rule, the place of the pair is the
//! place of the flow.

use crate::maxmin::NONE;

/// What stands in place of the bytes left of a flow that has finished; no other is negative.
const OVER: f64 = -1.0;

/// An unfinished flow.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Flow {
    pub(crate) number: u32,
    /// Where it enters (its row) and leaves (its column).
    pub(crate) links: [u32; 2],
    /// Bytes left when it was last settled.
    pub(crate) left: f64,
}

/// What the account has on one link.
#[derive(Clone, Copy, Debug)]
struct Stake {
    /// Flows left.
    count: u32,
    /// Where the link's set of partners begins; [`NONE`] where the account has nothing on the link.
    set: u32,
}

/// The links on one side: where flows enter (rows), or where they leave (columns).
#[derive(Debug, Default)]
struct Side {
    /// The words of a set over all links in which there are links of this side, and the place of each among them.
    words: Vec<u32>,
    place_of_word: Vec<u32>,
    /// By place of the word and bit.
    stakes: Vec<[Stake; 64]>,
    /// Bytes left on each link, as of the last time its flows were settled.
    loads: Vec<[f64; 64]>,
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
    /// Rows, columns.
    sides: [Side; 2],
    /// For each row: its partners from the beginning, and how many pairs there are before each word.
    known: Vec<u64>,
    pairs_before: Vec<u32>,
    /// For each pair: its first flow, and its first unfinished one; empty where every pair has one flow.
    first: Vec<u32>,
    heads: Vec<u32>,
    /// By place: bytes left when last settled, number, links.
    left: Vec<f64>,
    numbers: Vec<u32>,
    links: Vec<[u32; 2]>,
    /// Places in ascending order of number.
    by_number: Vec<u32>,
}

impl Side {
    fn find_words(&mut self, links: impl Iterator<Item = u32>) {
        for link in links {
            let word = link as usize / 64;
            if self.place_of_word.len() <= word {
                self.place_of_word.resize(word + 1, NONE);
            }
            self.place_of_word[word] = 0;
        }
        for (word, place) in self.place_of_word.iter_mut().enumerate().filter(|(_, place)| **place == 0) {
            *place = self.words.len() as u32;
            self.words.push(word as u32);
        }
        self.stakes = vec![[Stake { count: 0, set: NONE }; 64]; self.words.len()];
        self.loads = vec![[0.0; 64]; self.words.len()];
    }

    /// The place of a link's word, and its bit.
    fn at(&self, link: u32) -> (usize, usize) {
        (self.place_of_word[link as usize / 64] as usize, link as usize % 64)
    }

    fn stake(&self, link: u32) -> Stake {
        let (word, bit) = self.at(link);
        self.stakes[word][bit]
    }

    fn load(&mut self, link: u32) -> &mut f64 {
        let (word, bit) = self.at(link);
        &mut self.loads[word][bit]
    }

    /// Links, each with its stake and load, in ascending order.
    fn links(&self) -> impl Iterator<Item = (u32, Stake, f64)> {
        let words = self.words.iter().zip(&self.stakes).zip(&self.loads);
        let links = words.flat_map(|((word, stakes), loads)| {
            stakes.iter().zip(loads).zip(word * 64..).map(|((stake, load), link)| (link, *stake, *load))
        });
        links.filter(|(_, stake, _)| stake.set != NONE)
    }
}

impl Demand {
    /// From unfinished flows.
    pub(crate) fn new(mut flows: Vec<Flow>) -> Self {
        flows.sort_unstable_by_key(|flow| flow.number);
        let mut demand = Demand::default();
        for (side, links) in demand.sides.iter_mut().enumerate() {
            links.find_words(flows.iter().map(|flow| flow.links[side]));
        }
        demand.find_stakes(&flows);
        demand.find_pairs(&flows);
        demand.place(&flows);
        demand
    }

    fn find_stakes(&mut self, flows: &[Flow]) {
        let words = [self.sides[1].words.len(), self.sides[0].words.len()];
        for flow in flows {
            let places = [self.sides[0].at(flow.links[0]), self.sides[1].at(flow.links[1])];
            for (side, &(word, bit)) in places.iter().enumerate() {
                let Side { stakes, loads, open, .. } = &mut self.sides[side];
                let stake = &mut stakes[word][bit];
                if stake.set == NONE {
                    stake.set = open.len() as u32;
                    open.resize(open.len() + words[side], 0);
                }
                stake.count += 1;
                loads[word][bit] += flow.left;
                let (partner_word, partner_bit) = places[1 - side];
                open[stake.set as usize + partner_word] |= 1 << partner_bit;
            }
        }
    }

    fn find_pairs(&mut self, flows: &[Flow]) {
        self.known = self.sides[0].open.clone();
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

    fn place(&mut self, flows: &[Flow]) {
        let mut next = self.heads.clone();
        self.left = vec![0.0; flows.len()];
        self.numbers = vec![0; flows.len()];
        self.links = vec![[0; 2]; flows.len()];
        self.by_number = Vec::with_capacity(flows.len());
        for flow in flows {
            let pair = self.pair(flow.links);
            let at = next.get_mut(pair).map_or(pair, |next| {
                *next += 1;
                *next as usize - 1
            });
            self.left[at] = flow.left;
            self.numbers[at] = flow.number;
            self.links[at] = flow.links;
            self.by_number.push(at as u32);
        }
    }

    /// What the account has at `link`; `None` where it has nothing there.
    pub(crate) fn held(&self, link: u32) -> Option<Held> {
        let (word, bit) = (link as usize / 64, link as usize % 64);
        for (side, links) in self.sides.iter().enumerate() {
            if let Some(&place) = links.place_of_word.get(word)
                && let Some(stakes) = links.stakes.get(place as usize)
                && stakes[bit].set != NONE
            {
                return Some(Held { side, set: stakes[bit].set as usize });
            }
        }
        None
    }

    /// Bytes left on `link`.
    pub(crate) fn load(&self, link: u32) -> f64 {
        self.held(link).map_or(0.0, |held| {
            let (word, bit) = self.sides[held.side].at(link);
            self.sides[held.side].loads[word][bit]
        })
    }

    /// Links where flows enter, then those where they leave, each in ascending order, with the flows and bytes left there.
    pub(crate) fn links(&self) -> impl Iterator<Item = (u32, u32, f64)> {
        self.sides.iter().flat_map(Side::links).map(|(link, stake, load)| (link, stake.count, load))
    }

    /// Links where flows enter.
    pub(crate) fn rows(&self) -> impl Iterator<Item = u32> {
        self.sides[0].links().map(|(link, ..)| link)
    }

    /// The number of a pair of links.
    fn pair(&self, [row, column]: [u32; 2]) -> usize {
        let (word, bit) = self.sides[1].at(column);
        let word = self.sides[0].stake(row).set as usize + word;
        (self.pairs_before[word] + (self.known[word] & ((1 << bit) - 1)).count_ones()) as usize
    }

    /// The place of the first unfinished flow of an open pair of links.
    pub(crate) fn first_unfinished(&self, links: [u32; 2]) -> u32 {
        let pair = self.pair(links);
        self.heads.get(pair).copied().unwrap_or(pair as u32)
    }

    /// Of the partners with unfinished flows that are `usable`: the one with the most bytes left on its link, the lower link
    /// where equal. `usable` is given the number of a word and its open partners, and returns some of them.
    pub(crate) fn fullest_partner(&self, held: Held, usable: impl Fn(usize, u64) -> u64) -> Option<u32> {
        let partners = &self.sides[1 - held.side];
        let open = &self.sides[held.side].open[held.set..held.set + partners.words.len()];
        let (mut best, mut most) = (NONE, f64::NEG_INFINITY);
        for ((&word, loads), &open) in partners.words.iter().zip(&partners.loads).zip(open) {
            let mut usable = if open == 0 { 0 } else { usable(word as usize, open) };
            while usable != 0 {
                let bit = usable.trailing_zeros();
                usable &= usable - 1;
                let load = loads[bit as usize % 64];
                if load > most {
                    most = load;
                    best = word * 64 + bit;
                }
            }
        }
        (best != NONE).then_some(best)
    }

    /// The two links of a pair, the row first.
    pub(crate) fn row_and_column(held: Held, link: u32, partner: u32) -> [u32; 2] {
        if held.side == 0 { [link, partner] } else { [partner, link] }
    }

    /// Notes that the flow at a place has nothing left, and returns its number.
    pub(crate) fn finish(&mut self, place: u32, links: [u32; 2]) -> u32 {
        self.left[place as usize] = OVER;
        let mut is_over = true;
        if !self.heads.is_empty() {
            let pair = self.pair(links);
            let (head, end) = (&mut self.heads[pair], self.first[pair + 1]);
            while *head < end && self.left[*head as usize] < 0.0 {
                *head += 1;
            }
            is_over = *head == end;
        }
        let places = [self.sides[0].at(links[0]), self.sides[1].at(links[1])];
        for (side, &(word, bit)) in places.iter().enumerate() {
            let Side { stakes, loads, open, .. } = &mut self.sides[side];
            let stake = &mut stakes[word][bit];
            stake.count -= 1;
            if stake.count == 0 {
                loads[word][bit] = 0.0;
            }
            if is_over {
                let (partner_word, partner_bit) = places[1 - side];
                open[stake.set as usize + partner_word] &= !(1 << partner_bit);
            }
        }
        self.numbers[place as usize]
    }

    /// Takes sent bytes off both links.
    pub(crate) fn settle(&mut self, links: [u32; 2], bytes: f64) {
        for (side, link) in self.sides.iter_mut().zip(links) {
            *side.load(link) -= bytes;
        }
    }

    /// Bytes left of the flow at a place when it was last settled.
    pub(crate) fn left(&self, place: u32) -> f64 {
        self.left[place as usize]
    }

    pub(crate) fn set_left(&mut self, place: u32, bytes: f64) {
        self.left[place as usize] = bytes;
    }

    /// The number of the flow at a place.
    pub(crate) fn number(&self, place: u32) -> u32 {
        self.numbers[place as usize]
    }

    /// The place of an unfinished flow and its links; `None` where `number` is none of the account's.
    pub(crate) fn find(&self, number: u32) -> Option<(u32, [u32; 2])> {
        let number_at = |at: usize| self.numbers[self.by_number[at] as usize];
        // Flows of one account mostly have successive numbers.
        let guess = number.wrapping_sub(self.numbers[*self.by_number.first()? as usize]) as usize;
        let at = if guess < self.by_number.len() && number_at(guess) == number {
            guess
        } else {
            self.by_number.binary_search_by_key(&number, |&place| self.numbers[place as usize]).ok()?
        };
        let place = self.by_number[at];
        (self.left(place) >= 0.0).then(|| (place, self.links[place as usize]))
    }

    /// The unfinished flows in ascending order of number.
    pub(crate) fn unfinished(&self) -> impl Iterator<Item = Flow> {
        let places = self.by_number.iter().map(|&place| place as usize);
        places.filter(|&place| self.left[place] >= 0.0).map(|place| Flow {
            number: self.numbers[place],
            links: self.links[place],
            left: self.left[place],
        })
    }
}
