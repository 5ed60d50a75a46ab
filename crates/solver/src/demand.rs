//! What one account still wants: which pairs of links, through which flows, and how many bytes on each link.
//!
//! A pair is looked up by two bit sets over links: the partners that a link ever had (whose number of lower bits is the
//! pair's place in a compact table) and those that are still unfinished. Intersecting the second with the links that are
//! free answers "is there anything to do here?" in a few words.

use crate::maxmin::NONE;

/// The unfinished pairs of one account.
#[derive(Debug, Default)]
pub(crate) struct Demand {
    words: usize,
    slot_of_link: Vec<u32>,
    pub(crate) links: Vec<u32>,
    /// Whether flows enter at a slot's link.
    is_row: Vec<bool>,
    /// Bytes left on each slot's link, as of the last time its flows were settled.
    pub(crate) loads: Vec<f64>,
    /// Flows left on each slot's link.
    pub(crate) counts: Vec<u32>,
    /// Per slot: partners that it ever had, and those with unfinished flows.
    known: Vec<u64>,
    open: Vec<u64>,
    /// For each slot: where its pairs begin in `heads`.
    first_pair: Vec<u32>,
    /// For each pair, from either side: its first unfinished flow.
    heads: Vec<u32>,
}

impl Demand {
    /// From the unfinished flows: number, links, bytes left. `next_in_pair` is set so that flows on the same pair are
    /// chained in ascending order.
    pub(crate) fn new(links: usize, mut flows: Vec<(u32, [u32; 2], f64)>, next_in_pair: &mut [u32]) -> Self {
        let words = links.div_ceil(64);
        let mut demand = Demand { words, slot_of_link: vec![NONE; links], ..Demand::default() };
        for &(_, ends, bytes) in &flows {
            for (side, &link) in ends.iter().enumerate() {
                let slot = demand.slot_or_new(link, side == 0);
                demand.loads[slot] += bytes;
                demand.counts[slot] += 1;
                let partner = ends[1 - side] as usize;
                demand.known[slot * words + partner / 64] |= 1 << (partner % 64);
            }
        }
        demand.open = demand.known.clone();
        let mut pairs = 0;
        for slot in 0..demand.links.len() {
            demand.first_pair.push(pairs);
            pairs += demand.known[slot * words..(slot + 1) * words]
                .iter()
                .map(|word| word.count_ones())
                .sum::<u32>();
        }
        demand.heads = vec![NONE; pairs as usize];
        flows.sort_unstable_by_key(|&(flow, ..)| std::cmp::Reverse(flow));
        for (flow, [row, column], _) in flows {
            let there = demand.pair(row, column);
            next_in_pair[flow as usize] = demand.heads[there];
            demand.heads[there] = flow;
            let back = demand.pair(column, row);
            demand.heads[back] = flow;
        }
        demand
    }

    fn slot_or_new(&mut self, link: u32, is_row: bool) -> usize {
        let slot = &mut self.slot_of_link[link as usize];
        if *slot == NONE {
            *slot = self.links.len() as u32;
            self.links.push(link);
            self.is_row.push(is_row);
            self.loads.push(0.0);
            self.counts.push(0);
            self.known.resize(self.known.len() + self.words, 0);
        }
        *slot as usize
    }

    /// The slot of a link; `None` where the account has nothing there.
    pub(crate) fn slot(&self, link: u32) -> Option<usize> {
        match self.slot_of_link.get(link as usize) {
            None | Some(&NONE) => None,
            Some(&slot) => Some(slot as usize),
        }
    }

    /// Where the pair of `link` and `partner` stands in `heads`.
    fn pair(&self, link: u32, partner: u32) -> usize {
        let slot = self.slot_of_link[link as usize] as usize;
        let known = &self.known[slot * self.words..(slot + 1) * self.words];
        let (word, bit) = (partner as usize / 64, partner % 64);
        let before: u32 = known[..word].iter().map(|word| word.count_ones()).sum();
        (self.first_pair[slot] + before + (known[word] & ((1 << bit) - 1)).count_ones()) as usize
    }

    /// The first unfinished flow between `link` and an open `partner`.
    pub(crate) fn flow(&self, link: u32, partner: u32) -> u32 {
        self.heads[self.pair(link, partner)]
    }

    /// Of the partners of `slot` with unfinished flows that are in `free`: the one with the most bytes left on its link,
    /// the lower link where equal.
    pub(crate) fn fullest_partner(&self, slot: usize, free: &[u64]) -> Option<u32> {
        let open = &self.open[slot * self.words..(slot + 1) * self.words];
        let mut best = None;
        let mut most = f64::NEG_INFINITY;
        for (index, (open, free)) in open.iter().zip(free).enumerate() {
            let mut both = open & free;
            while both != 0 {
                let link = index as u32 * 64 + both.trailing_zeros();
                both &= both - 1;
                let load = self.loads[self.slot_of_link[link as usize] as usize];
                if load > most {
                    most = load;
                    best = Some(link);
                }
            }
        }
        best
    }

    /// Takes a finished flow out of its pair.
    pub(crate) fn finish(&mut self, [row, column]: [u32; 2], flow: u32, next_in_pair: &mut [u32]) {
        let (there, back) = (self.pair(row, column), self.pair(column, row));
        let next = next_in_pair[flow as usize];
        if self.heads[there] == flow {
            self.heads[there] = next;
            self.heads[back] = next;
        } else {
            let mut before = self.heads[there];
            while next_in_pair[before as usize] != flow {
                before = next_in_pair[before as usize];
            }
            next_in_pair[before as usize] = next;
        }
        let is_over = self.heads[there] == NONE;
        for (link, partner) in [(row, column), (column, row)] {
            let slot = self.slot_of_link[link as usize] as usize;
            self.counts[slot] -= 1;
            if self.counts[slot] == 0 {
                self.loads[slot] = 0.0;
            }
            if is_over {
                self.open[slot * self.words + partner as usize / 64] &= !(1 << (partner % 64));
            }
        }
    }

    /// Calls `visit` with every unfinished flow.
    pub(crate) fn visit_flows(&self, next_in_pair: &[u32], visit: &mut dyn FnMut(u32)) {
        for (slot, &link) in self.links.iter().enumerate() {
            for word in 0..self.words {
                let mut open = self.open[slot * self.words + word];
                while open != 0 {
                    let partner = word as u32 * 64 + open.trailing_zeros();
                    open &= open - 1;
                    let mut flow = self.flow(link, partner);
                    // Each pair is known from both sides; it is visited from its row.
                    while self.is_row[slot] && flow != NONE {
                        visit(flow);
                        flow = next_in_pair[flow as usize];
                    }
                }
            }
        }
    }

    /// Takes sent bytes off both links.
    pub(crate) fn settle(&mut self, [row, column]: [u32; 2], bytes: f64) {
        for link in [row, column] {
            self.loads[self.slot_of_link[link as usize] as usize] -= bytes;
        }
    }
}
