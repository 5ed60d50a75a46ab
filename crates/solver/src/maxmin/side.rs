//! The links on one side of a group, and who is connected to whom.

use super::{NONE, least};
use crate::bits::{has, set};

/// The links on one side of a group, each a *line*: values by line, and bit sets of `words` words for each.
#[derive(Debug)]
pub(super) struct Side {
    pub(super) link: Vec<u32>,
    /// Flows on the link, capped ones included.
    pub(super) flows: Vec<u32>,
    pub(super) words: usize,
    /// Lines of the other side with which there are flows.
    pub(super) partners: Vec<u64>,
    /// Of those, the ones with which there are several flows.
    pub(super) several: Vec<u64>,
    /// By line, then by partner: how many flows beyond the first.
    pub(super) surplus: Vec<u32>,
    /// Of the partners, the ones whose pair is attached here.
    pub(super) attached: Vec<u64>,
    /// Bytes per nanosecond of each flow attached here.
    pub(super) level: Vec<f64>,
    /// What one flow attached here has been served by the group's `since`.
    pub(super) served: Vec<f64>,
    /// By line, then by partner: where on the scale of `served` a pair attached here reaches its next milestone; infinity for
    /// all others.
    pub(super) due: Vec<f64>,
    /// No pair attached here reaches its milestone before this.
    pub(super) first: Vec<f64>,
    /// The account whose flows these are, if they have been of one account since `tenancy` began; of rows only.
    pub(super) tenant: Vec<u32>,
    pub(super) tenancy: Vec<u32>,
    /// Bytes per nanosecond of all flows on the link, and what they were sent by the group's `since`; of rows only.
    pub(super) used: Vec<f64>,
    pub(super) sent: Vec<f64>,
}

impl Side {
    pub(super) fn new() -> Self {
        Self {
            link: Vec::new(),
            flows: Vec::new(),
            words: 1,
            partners: Vec::new(),
            several: Vec::new(),
            surplus: Vec::new(),
            attached: Vec::new(),
            level: Vec::new(),
            served: Vec::new(),
            first: Vec::new(),
            due: Vec::new(),
            tenant: Vec::new(),
            tenancy: Vec::new(),
            used: Vec::new(),
            sent: Vec::new(),
        }
    }

    pub(super) fn len(&self) -> usize {
        self.link.len()
    }

    pub(super) fn push(&mut self, link: u32) {
        self.link.push(link);
        self.flows.push(0);
        for bits in [&mut self.partners, &mut self.several, &mut self.attached] {
            bits.resize(bits.len() + self.words, 0);
        }
        for zeros in [&mut self.level, &mut self.served, &mut self.used, &mut self.sent] {
            zeros.push(0.0);
        }
        self.first.push(f64::INFINITY);
        self.due.resize(self.due.len() + 64 * self.words, f64::INFINITY);
        self.surplus.resize(self.surplus.len() + 64 * self.words, 0);
        self.tenant.push(NONE);
        self.tenancy.push(0);
    }

    /// Doubles the room for lines of the other side.
    pub(super) fn widen(&mut self) {
        let (before, lines) = (self.words, self.len());
        self.words *= 2;
        for bits in [&mut self.partners, &mut self.several, &mut self.attached] {
            *bits = wider(bits, lines, before, 0);
        }
        self.due = wider(&self.due, lines, 64 * before, f64::INFINITY);
        self.surplus = wider(&self.surplus, lines, 64 * before, 0);
    }

    /// When the pairs attached to a line are due, 64 partners at a time, where there are any.
    pub(super) fn due_of(&self, line: u32) -> impl Iterator<Item = &[f64]> {
        let line = line as usize * self.words;
        let words = line..line + self.words;
        words.filter(|&word| self.attached[word] != 0).map(|word| &self.due[64 * word..][..64])
    }

    /// Notes when the pair of two lines is due here.
    pub(super) fn set_due(&mut self, line: u32, partner: u32, at: f64) {
        self.due[line as usize * 64 * self.words + partner as usize] = at;
        self.first[line as usize] = self.first[line as usize].min(at);
    }

    /// Finds when the first of the pairs attached to a line is due.
    pub(super) fn find_first(&mut self, line: u32) {
        self.first[line as usize] = self.due_of(line).map(least).fold(f64::INFINITY, f64::min);
    }

    /// The partners of a line, as bits.
    pub(super) fn partners(&self, line: u32) -> &[u64] {
        &self.partners[line as usize * self.words..][..self.words]
    }

    pub(super) fn is_attached(&self, line: u32, partner: u32) -> bool {
        has(&self.attached[line as usize * self.words..], partner)
    }

    /// The partners of a line with which it has several flows, as bits.
    pub(super) fn several(&self, line: u32) -> &[u64] {
        &self.several[line as usize * self.words..][..self.words]
    }

    /// How many flows a line has with a partner, beyond the first: for 64 partners.
    pub(super) fn surplus(&self, line: u32, word: usize) -> &[u32] {
        &self.surplus[64 * (line as usize * self.words + word)..][..64]
    }

    /// Notes another flow with a partner.
    pub(super) fn add_surplus(&mut self, line: u32, partner: u32) {
        self.surplus[line as usize * 64 * self.words + partner as usize] += 1;
        set(&mut self.several[line as usize * self.words..], partner, true);
    }

    /// Notes that one of several flows with a partner went.
    pub(super) fn remove_surplus(&mut self, line: u32, partner: u32) {
        let surplus = &mut self.surplus[line as usize * 64 * self.words + partner as usize];
        *surplus -= 1;
        if *surplus == 0 {
            set(&mut self.several[line as usize * self.words..], partner, false);
        }
    }

    pub(super) fn set_partner(&mut self, line: u32, partner: u32, value: bool) {
        set(&mut self.partners[line as usize * self.words..], partner, value);
    }

    pub(super) fn set_attached(&mut self, line: u32, partner: u32, value: bool) {
        set(&mut self.attached[line as usize * self.words..], partner, value);
    }
}

/// A table of `lines` rows of `before` values, made twice as wide.
pub(super) fn wider<T: Copy>(table: &[T], lines: usize, before: usize, fresh: T) -> Vec<T> {
    let mut wide = vec![fresh; lines * 2 * before];
    for line in 0..lines {
        wide[line * 2 * before..][..before].copy_from_slice(&table[line * before..][..before]);
    }
    wide
}
