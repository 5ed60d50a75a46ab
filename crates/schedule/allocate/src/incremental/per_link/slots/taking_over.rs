//! From one run to the next: which flows come under another slot, and what rates are now.

use super::super::classes::{Classes, FIRST};
use super::super::leftovers::Raise;
use super::super::turns::Turns;
use super::slot::Slot;
use super::{ALONE, Raised, Slots};
use crate::bits::{has, members, ones, set};
use crate::fill::NONE;

impl Slots {
    /// Serves by the run that has ended. `moved` are flows that are new, or in another class than
    /// before.
    pub(in super::super) fn take_over(&mut self, turns: &Turns, classes: &Classes, moved: &[u32], now: f64) {
        self.run += 1;
        self.find_slots(turns, classes);
        self.stop_others(now);
        self.stop_alone(now);
        self.gained.clear();
        self.gained.resize(turns.served_at.len(), 0);
        for serving in 0..turns.served.len() {
            self.compare(turns, serving, now);
        }
        for at in 0..self.gained.len() {
            for bit in ones(self.gained[at]) {
                let (serving, word) = (at / (2 * classes.words), at % classes.words);
                self.gain(turns, classes, serving, 64 * word as u32 + bit, now);
            }
        }
        for &flow in moved {
            if !self.is_present(flow) || self.has_rate(flow) {
                continue;
            }
            let record = self.flows[flow as usize];
            let of_ends = record.accounts.map(|account| classes.accounts[account as usize].class);
            if let Some(serving) = turns.serving_of(record.links, of_ends) {
                self.insert(flow, self.of_serving[serving], classes, now);
            }
        }
    }

    /// Serves flows at rates of their own.
    pub(in super::super) fn serve_alone(&mut self, rates: impl Iterator<Item = (u32, f64)>, now: f64) {
        self.run += 1;
        std::mem::swap(&mut self.of_serving, &mut self.before);
        self.of_serving.clear();
        self.stop_others(now);
        self.stop_alone(now);
        for (flow, rate) in rates.filter(|&(_, rate)| rate > 0.0) {
            self.flows[flow as usize].slot = ALONE;
            self.alone.insert(flow, (rate, now));
        }
    }

    fn stop_alone(&mut self, now: f64) {
        for (flow, (rate, since)) in std::mem::take(&mut self.alone) {
            let record = &mut self.flows[flow as usize];
            record.amount = (record.amount - rate * (now - since)).max(0.0);
            record.slot = NONE;
        }
    }

    fn find_slots(&mut self, turns: &Turns, classes: &Classes) {
        std::mem::swap(&mut self.of_serving, &mut self.before);
        self.of_serving.clear();
        for served in &turns.served {
            let of_link = &mut self.of_link[served.link];
            if of_link.len() <= served.nth {
                of_link.push(self.slots.len() as u32);
                self.slots.push(Slot::new(served.link, classes));
            }
            self.of_serving.push(of_link[served.nth]);
            self.slots[of_link[served.nth] as usize].run = self.run;
        }
    }

    /// Empties the slots that serve nothing any more.
    fn stop_others(&mut self, now: f64) {
        for at in 0..self.before.len() {
            let slot = self.before[at] as usize;
            let record = &mut self.slots[slot];
            if record.run == self.run {
                continue;
            }
            record.class = NONE;
            record.at.iter_mut().for_each(|words| words.fill(0));
            while let Some(cell) = self.slots[slot].cells.last() {
                let lane = cell.lane;
                self.empty(slot, lane, now);
            }
            let record = &mut self.slots[slot];
            (record.rate, record.clock) = (0.0, 0.0);
        }
    }

    /// Drops the cells that a slot no longer serves, records the new ones, and sets its rate.
    fn compare(&mut self, turns: &Turns, serving: usize, now: f64) {
        let number = self.of_serving[serving] as usize;
        let served = &turns.served[serving];
        let now_at = turns.lanes_of(serving);
        let slot = &self.slots[number];
        let has_others = now_at[1].iter().any(|&word| word != 0);
        let are_alike =
            !has_others || slot.class == served.class && slot.far_classes == turns.far_classes(serving);
        let words = now_at[0].len();
        for (word, (&both, &late)) in now_at[0].iter().zip(now_at[1]).enumerate() {
            let slot = &self.slots[number];
            let before = [slot.at[0][word], slot.at[1][word]];
            // The class at the link, or at the other end, may be another one.
            let same = before[1] & late;
            let first = 64 * word as u32;
            let others = if are_alike {
                0
            } else {
                let far = |lane: u32| turns.far_class(serving, first + lane);
                let is_other = |&lane: &u32| {
                    slot.class != served.class || slot.far_classes[(first + lane) as usize] != far(lane)
                };
                ones(same).filter(is_other).fold(0, |others, lane| others | 1 << lane)
            };
            let lost = before[0] & !both | before[1] & !late | others;
            self.gained[2 * serving * words + word] = both & !before[0];
            self.gained[(2 * serving + 1) * words + word] = late & !before[1] | others;
            for bit in ones(lost) {
                self.empty(number, first + bit, now);
            }
        }
        let slot = &mut self.slots[number];
        for (before, at) in slot.at.iter_mut().zip(now_at) {
            before.copy_from_slice(at);
        }
        if !are_alike {
            slot.far_classes.copy_from_slice(turns.far_classes(serving));
        }
        slot.class = served.class;
        slot.set_rate(served.rate, now);
    }

    /// Puts the flows of a lane that a slot has not served until now into it.
    fn gain(&mut self, turns: &Turns, classes: &Classes, serving: usize, lane: u32, now: f64) {
        let served = &turns.served[serving];
        let far = classes.across(served.link, lane);
        let is_both = has(turns.lanes_of(serving)[0], lane);
        let far_class = if is_both { FIRST } else { turns.far_class(serving, lane) };
        let order = &classes.order[served.link];
        let is_first = served.class == FIRST;
        let begin = if is_first { 0 } else { classes.accounts[served.class as usize].place };
        for &account in &order[begin..] {
            let record = &classes.accounts[account as usize];
            if record.class != served.class {
                break;
            }
            if !has(&record.to, lane)
                || classes.accounts[classes.partner(account, far) as usize].class != far_class
            {
                continue;
            }
            for flow in record.flows_to(lane) {
                if !self.has_rate(flow) {
                    self.insert(flow, self.of_serving[serving], classes, now);
                }
            }
        }
    }

    /// Gives flows rates beside those of their slots, which other flows lose.
    pub(in super::super) fn raise(&mut self, raises: &[Raise], now: f64) {
        self.raised.clear();
        for of_serving in raises.chunk_by(|a, b| a.serving == b.serving) {
            let number = self.of_serving[of_serving[0].serving];
            let slot = &mut self.slots[number as usize];
            slot.run_raised = self.run;
            let nowhere = vec![0; slot.raised_at.len()];
            let before = std::mem::replace(&mut slot.raised_at, nowhere);
            for raise in of_serving.iter().filter(|raise| raise.by > 0.0) {
                if let Some(cell) = slot.cell(raise.lane) {
                    slot.set_raise(cell, raise.by, now);
                    set(&mut slot.raised_at, raise.lane, true);
                    self.raised.push(Raised { slot: number, lane: raise.lane, due: 0.0 });
                }
            }
            let lost = before.iter().zip(&slot.raised_at).map(|(before, now)| before & !now);
            let lost: Vec<u32> = members(lost).collect();
            lost.into_iter().for_each(|lane| slot.lower(lane, now));
        }
        for &number in &self.of_serving {
            let slot = &mut self.slots[number as usize];
            if slot.run_raised < self.run && slot.raised_at.iter().any(|&word| word != 0) {
                let lost: Vec<u32> = members(slot.raised_at.iter().copied()).collect();
                slot.raised_at.fill(0);
                lost.into_iter().for_each(|lane| slot.lower(lane, now));
            }
        }
    }
}
