//! The links on one side of a group, and who is connected to whom.
//!
//! A link on its side of a group is a *line*. Values of lines lie in *blocks* of 64, and a word of
//! bits stands for each block, so that something is done for all lines at a few instructions for
//! every four. A block is the links of one word, in order, so that what is left of links is read
//! and written a block at a time too; lines without flows are the price.
//!
//! Only a line that ever had flows has a *list*: a place for each line of the other side.

use std::array;
use std::ops::Range;

use super::residual::{blocks, blocks_mut, eights, eights_mut};
use super::{least, lower};
use crate::bits::{has, ones, pack, set};
use crate::fill::NONE;

/// The links on one side of a group: values by line, and lists of what there is for each partner.
#[derive(Debug)]
pub(super) struct Side {
    /// The word of links that is the first block.
    pub(super) first_word: usize,
    /// Flows on the link, capped ones included.
    pub(super) flows: Vec<u32>,
    /// Lines with flows, as bits.
    pub(super) present: Vec<u64>,
    /// Bytes per nanosecond of each flow attached here.
    pub(super) level: Vec<f64>,
    /// The service of one flow attached here, by the group's `since`.
    pub(super) served: Vec<f64>,
    /// No pair attached here reaches its milestone before this.
    pub(super) first: Vec<f64>,
    /// The account whose flows these are, if they have been of one account since `tenancy` began;
    /// of rows only.
    pub(super) tenant: Vec<u32>,
    pub(super) tenancy: Vec<u32>,
    /// Bytes per nanosecond of all flows on the link, and what they were sent by the group's
    /// `since`; of rows only.
    pub(super) used: Vec<f64>,
    pub(super) sent: Vec<f64>,
    /// The list of a line.
    list: Vec<u32>,
    /// The line of each list.
    pub(super) listed: Vec<u32>,
    /// The blocks of the other side: words in each list.
    pub(super) words: usize,
    /// Lines of the other side with which there are flows.
    pub(super) partners: Vec<u64>,
    /// Of those, the ones with which there are several flows.
    several: Vec<u64>,
    /// Number of flows beyond the first.
    surplus: Vec<u32>,
    /// Of the partners, the ones whose pair is attached here.
    pub(super) attached: Vec<u64>,
    /// The point on the scale of `served` at which a pair attached here reaches its next milestone;
    /// infinity for all others.
    due: Vec<f64>,
}

impl Side {
    /// A side whose blocks are these words of links, with so many blocks on the other side.
    pub(super) fn new(blocks: Range<usize>, words: usize) -> Self {
        let lines = 64 * blocks.len();
        Self {
            first_word: blocks.start,
            flows: vec![0; lines],
            present: vec![0; blocks.len()],
            level: vec![0.0; lines],
            served: vec![0.0; lines],
            first: vec![f64::INFINITY; lines],
            tenant: vec![NONE; lines],
            tenancy: vec![0; lines],
            used: vec![0.0; lines],
            sent: vec![0.0; lines],
            list: vec![NONE; lines],
            listed: Vec::new(),
            words,
            partners: Vec::new(),
            several: Vec::new(),
            surplus: Vec::new(),
            attached: Vec::new(),
            due: Vec::new(),
        }
    }

    /// The words of links that the blocks are.
    pub(super) fn blocks(&self) -> Range<usize> {
        self.first_word..self.first_word + self.present.len()
    }

    /// The line of a link.
    pub(super) fn line(&self, link: u32) -> u32 {
        link - 64 * self.first_word as u32
    }

    /// The link of a line.
    pub(super) fn link(&self, line: u32) -> u32 {
        line + 64 * self.first_word as u32
    }

    /// Begins the list of a line that has none.
    pub(super) fn begin_list(&mut self, line: u32) {
        if self.list[line as usize] != NONE {
            return;
        }
        self.list[line as usize] = self.listed.len() as u32;
        self.listed.push(line);
        let words = self.listed.len() * self.words;
        assert!(u32::try_from(64 * words).is_ok(), "a group's tables have at most 2^32 places");
        for bits in [&mut self.partners, &mut self.several, &mut self.attached] {
            bits.resize(words, 0);
        }
        self.due.resize(64 * words, f64::INFINITY);
        self.surplus.resize(64 * words, 0);
    }

    /// Notes another flow on a line.
    pub(super) fn add_flow(&mut self, line: u32) {
        self.flows[line as usize] += 1;
        set(&mut self.present, line, true);
    }

    /// Notes that a flow of a line went. Returns whether any is left.
    pub(super) fn remove_flow(&mut self, line: u32) -> bool {
        self.flows[line as usize] -= 1;
        let any = self.flows[line as usize] > 0;
        set(&mut self.present, line, any);
        any
    }

    /// The place of a partner in the list of a line, by which all tables tell of the two: also the
    /// bit in sets.
    #[inline]
    pub(super) fn place(&self, line: u32, partner: u32) -> u32 {
        64 * self.list(line) as u32 + partner
    }

    /// Returns where the list of a line begins, in words.
    fn list(&self, line: u32) -> usize {
        self.list[line as usize] as usize * self.words
    }

    /// Returns the time at which the pairs attached to a line are due, 64 partners at a time, where
    /// there are any.
    fn due_of(&self, line: u32) -> impl Iterator<Item = &[f64]> {
        let words = self.list(line)..self.list(line) + self.words;
        words.filter(|&word| self.attached[word] != 0).map(|word| &self.due[64 * word..][..64])
    }

    /// Returns the time at which the pair at a place is due here.
    pub(super) fn due(&self, place: u32) -> f64 {
        self.due[place as usize]
    }

    /// Notes when the pair at a place in the list of `line` is due here.
    #[inline]
    pub(super) fn set_due(&mut self, line: u32, place: u32, at: f64) {
        self.due[place as usize] = at;
        self.hasten(line, at);
    }

    /// Notes that a pair attached to a line is due at `at`.
    #[inline]
    pub(super) fn hasten(&mut self, line: u32, at: f64) {
        self.first[line as usize] = self.first[line as usize].min(at);
    }

    /// Finds when the first of the pairs attached to a line is due.
    pub(super) fn find_first(&mut self, line: u32) {
        self.first[line as usize] = self.due_of(line).map(least).fold(f64::INFINITY, f64::min);
    }

    /// Begins the scale of service again, on which all that is due has moved, and what was sent.
    pub(super) fn restart(&mut self) {
        self.served.fill(0.0);
        self.sent.fill(0.0);
        for line in 0..self.listed.len() {
            self.find_first(self.listed[line]);
        }
    }

    /// The partners of a line, as bits.
    pub(super) fn partners(&self, line: u32) -> &[u64] {
        &self.partners[self.list(line)..][..self.words]
    }

    /// Runs of lines that meet the same partners.
    pub(super) fn alike<'a>(&'a self, lines: &'a [u32]) -> impl Iterator<Item = &'a [u32]> {
        let mut rest = lines;
        std::iter::from_fn(move || {
            let (&first, others) = rest.split_first()?;
            let partners = self.partners(first);
            let alike = others.iter().take_while(|&&line| same(self.partners(line), partners)).count();
            let (run, behind) = rest.split_at(1 + alike);
            rest = behind;
            Some(run)
        })
    }

    /// The partners whose pair with a line is attached there, as bits.
    pub(super) fn attached(&self, line: u32) -> &[u64] {
        &self.attached[self.list(line)..][..self.words]
    }

    #[inline]
    pub(super) fn is_attached(&self, place: u32) -> bool {
        has(&self.attached, place)
    }

    /// The partners of a line with which it has several flows, as bits.
    pub(super) fn several(&self, line: u32) -> &[u64] {
        &self.several[self.list(line)..][..self.words]
    }

    /// Returns the number of flows that a line has with a partner, beyond the first: for 64
    /// partners.
    pub(super) fn surplus(&self, line: u32, word: usize) -> &[u32; 64] {
        &self.surplus.as_chunks().0[self.list(line) + word]
    }

    /// Returns the time to the first milestone of a line.
    #[inline]
    pub(super) fn wait(&self, line: usize) -> f64 {
        wait(self.first[line], self.served[line], self.level[line])
    }

    /// Finds how long each line has to wait for its first milestone. Returns the least.
    pub(super) fn find_waits(&self, waits: &mut Vec<f64>) -> f64 {
        waits.clear();
        waits.resize(self.first.len(), f64::INFINITY);
        let mut lowest = f64::INFINITY;
        let lines = blocks(&self.first).iter().zip(blocks(&self.served)).zip(blocks(&self.level));
        for (waits, ((first, served), level)) in blocks_mut(waits).iter_mut().zip(lines) {
            // Few lines have a level, and dividing takes long.
            for line in ones(pack(|line| level[line] > 0.0)).map(|line| line as usize) {
                waits[line] = wait(first[line], served[line], level[line]);
                lowest = lower(waits[line], lowest);
            }
        }
        lowest
    }

    /// Notes what was served in `elapsed` nanoseconds, before lines go on at the levels `allotted`
    /// (infinite where none is attached). Finds how long each line then has to wait for its first
    /// milestone, and returns the least.
    pub(super) fn settle(&mut self, elapsed: f64, allotted: &[f64], waits: &mut Vec<f64>) -> f64 {
        waits.resize(self.first.len(), 0.0);
        let state = eights_mut(&mut self.served).iter_mut().zip(eights_mut(&mut self.level));
        for ((served, level), allotted) in state.zip(eights(allotted)) {
            *served = array::from_fn(|line| served[line] + level[line] * elapsed);
            *level = allotted.map(|allotted| if allotted < f64::INFINITY { allotted } else { 0.0 });
        }
        self.find_waits(waits)
    }

    /// Notes what flows were sent in `elapsed` nanoseconds, before they go on at `used` in all.
    pub(super) fn settle_use(&mut self, elapsed: f64, used: &[f64]) {
        for ((sent, before), used) in self.sent.iter_mut().zip(&mut self.used).zip(used) {
            *sent += *before * elapsed;
            *before = *used;
        }
    }

    /// Notes another flow with a partner.
    pub(super) fn add_surplus(&mut self, place: u32) {
        self.surplus[place as usize] += 1;
        set(&mut self.several, place, true);
    }

    /// Notes that one of several flows with a partner went.
    pub(super) fn remove_surplus(&mut self, place: u32) {
        self.surplus[place as usize] -= 1;
        if self.surplus[place as usize] == 0 {
            set(&mut self.several, place, false);
        }
    }

    #[inline]
    pub(super) fn set_partner(&mut self, place: u32, value: bool) {
        set(&mut self.partners, place, value);
    }

    /// Attaches the pair at a place in the list of `line` here, where it is due at `at`.
    #[inline]
    pub(super) fn attach(&mut self, line: u32, place: u32, at: f64) {
        set(&mut self.attached, place, true);
        self.set_due(line, place, at);
    }

    /// Attaches the pair at a place here no more. Returns where it was due.
    #[inline]
    pub(super) fn detach(&mut self, place: u32) -> f64 {
        set(&mut self.attached, place, false);
        std::mem::replace(&mut self.due[place as usize], f64::INFINITY)
    }
}

/// Returns the time to a milestone at `first` on the scale of `served`, which goes on at `level`.
#[inline]
fn wait(first: f64, served: f64, level: f64) -> f64 {
    if level > 0.0 { (first - served) / level } else { f64::INFINITY }
}

/// Returns whether two sets are the same; for a few words, calling for a comparison of memory takes
/// longer.
#[inline]
fn same(a: &[u64], b: &[u64]) -> bool {
    match (a, b) {
        // Without a loop: three words are 192 ports.
        ([a0, a1, a2], [b0, b1, b2]) => (a0 ^ b0) | (a1 ^ b1) | (a2 ^ b2) == 0,
        _ => a.iter().zip(b).all(|(a, b)| a == b),
    }
}
