//! What the instances of a policy are to be told, and when: amounts reached, messages, wake-ups.
//!
//! Every simulated driver owes its policies the same three things beside arrivals and completions,
//! in the same order. What is due at one instant is told in *turns*: first the amounts that have
//! been reached, in order of ids; then messages, in the order in which they were sent; then
//! wake-ups, by instant and place. What an instance decides on being told may make more due at the
//! same instant (a message without delay, an amount that is reached already), which is told in the
//! next turn, messages still in the same one. Wake-ups of one turn come before the answers to them,
//! so that hosts that wake together negotiate as equals, whatever their numbers.
//!
//! The driver keeps the time. Messages arrive on its own axis `T` (the fluid driver's times are
//! fractions of nanoseconds), all after the same delay, so that a queue holds them in order of
//! arrival. Instances ask to be woken at [`Instant`]s. Which messages get lost is drawn when they
//! are sent.
//!
//! # Invariants
//! - An instance is woken only when it asked last: an earlier request is replaced.
//! - An amount that is forgotten (since another was asked for, or nothing is left to send) is not
//!   told of.
//! - A policy that keeps itself busy at one instant without end is a broken one, and is told
//!   nothing more ([`Stuck`]).
//!
//! Cost: O(log n) for an amount or wake-up among n, O(1) for a message.

use std::collections::{BTreeSet, VecDeque};

use cavalcade_model::{Event, Instant, Message, Nanos, PortId, SplitMix64, Target};

use crate::run_error::MOST_FRUITLESS;

/// More has come due at one instant, again and again; the last was this.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stuck {
    pub(crate) place: u32,
    pub(crate) event: Event,
}

#[derive(Clone, Copy, Debug)]
struct Letter<T> {
    due: T,
    from: u32,
    to: u32,
    message: Message,
}

/// The part of a turn that is told now.
#[derive(Clone, Copy, Debug)]
enum Part {
    Amounts,
    Messages,
    Wakes,
}

/// The news for the instances of a policy, each at its *place*: the fabric, a host or a link (see
/// [`Accounts`](crate::Accounts)).
#[derive(Debug)]
pub(crate) struct Agenda<T> {
    amounts: BTreeSet<(Target, u32)>,
    letters: VecDeque<Letter<T>>,
    /// The amounts that were asked for last, in the order in which they come due.
    wakes: BTreeSet<(Instant, u32)>,
    /// The same by place.
    wake_at: Vec<Option<Instant>>,
    loss: f64,
    random: SplitMix64,
    messages: u64,
    part: Part,
    /// This turn has told something.
    told: bool,
    turns: u32,
    /// The number of letters and amounts of the last count that have not been told.
    counted: usize,
}

impl<T: Copy + PartialOrd> Agenda<T> {
    /// An empty agenda of instances at so many places. A `loss` of messages (a share) is drawn from
    /// the stream of `seed`.
    pub(crate) fn new(places: usize, loss: f64, seed: u64) -> Self {
        Self {
            amounts: BTreeSet::new(),
            letters: VecDeque::new(),
            wakes: BTreeSet::new(),
            wake_at: vec![None; places],
            loss,
            random: SplitMix64::new(seed),
            messages: 0,
            part: Part::Amounts,
            told: false,
            turns: 0,
            counted: 0,
        }
    }

    /// The instance at `place` is to be told at once that `target` has reached the amount that it
    /// watches.
    pub(crate) fn reach(&mut self, target: Target, place: u32) {
        self.amounts.insert((target, place));
    }

    /// The instance at `place` is not to be told any more that `target` has reached an amount.
    #[inline]
    pub(crate) fn forget(&mut self, target: Target, place: u32) {
        // Mostly there is none, and this is asked for every flow that ends.
        if self.has_amounts() {
            self.amounts.remove(&(target, place));
        }
    }

    /// Tells whether an amount has been reached that is still to be told of.
    #[inline]
    pub(crate) fn has_amounts(&self) -> bool {
        !self.amounts.is_empty()
    }

    /// Returns the arrival of the next message.
    #[inline]
    pub(crate) fn next_message(&self) -> Option<T> {
        self.letters.front().map(|letter| letter.due)
    }

    /// Returns the time of the next wake-up.
    #[inline]
    pub(crate) fn next_wake(&self) -> Option<Instant> {
        self.wakes.first().map(|&(when, _)| when)
    }

    /// The instance at `place` asks to be woken at `when`, which lies ahead, and no more at what it
    /// asked for before.
    pub(crate) fn wake_at(&mut self, place: u32, when: Instant) {
        if let Some(before) = self.wake_at[place as usize].replace(when) {
            self.wakes.remove(&(before, place));
        }
        self.wakes.insert((when, place));
    }

    /// Returns whether wake-ups are asked for, all of them at multiples of `every`.
    pub(crate) fn has_only_ticks(&self, every: Nanos) -> bool {
        !self.wakes.is_empty() && self.wakes.iter().all(|(when, _)| when.0.is_multiple_of(every.0))
    }

    /// Puts all wake-ups off by so much.
    pub(crate) fn put_off(&mut self, by: Nanos) {
        self.wakes = self.wakes.iter().map(|&(when, place)| (when + by, place)).collect();
        self.wake_at.iter_mut().flatten().for_each(|when| *when = *when + by);
    }

    /// The instance at `from` says something to the one at `to`. It arrives at `arrival`, which
    /// never goes back from one call to the next, unless it is lost.
    pub(crate) fn post(&mut self, from: u32, to: PortId, message: Message, arrival: T) {
        self.messages += 1;
        if !self.random.happens(self.loss) {
            self.letters.push_back(Letter { due: arrival, from, to: to.0, message });
        }
    }

    /// The next event that is due, and the place of the instance to tell it to: messages that have
    /// arrived by `arrived`, wake-ups asked for by `clock`. Call it until there is none.
    ///
    /// # Errors
    /// If more is due at once without end.
    pub(crate) fn next(&mut self, arrived: T, clock: Instant) -> Result<Option<(u32, Event)>, Stuck> {
        loop {
            let due = match self.part {
                Part::Amounts => self.amount(),
                Part::Messages => self.message(arrived),
                Part::Wakes => self.wake(clock),
            };
            if let Some((place, event)) = due {
                self.told = true;
                let is_stuck = self.turns >= MOST_FRUITLESS;
                return if is_stuck { Err(Stuck { place, event }) } else { Ok(due) };
            }
            self.part = match self.part {
                Part::Amounts => Part::Messages,
                Part::Messages => Part::Wakes,
                Part::Wakes => Part::Amounts,
            };
            if matches!(self.part, Part::Amounts) && !std::mem::take(&mut self.told) {
                (self.turns, self.counted) = (0, 0);
                return Ok(None);
            }
        }
    }

    fn amount(&mut self) -> Option<(u32, Event)> {
        let (target, place) = self.amounts.pop_first()?;
        self.count();
        Some((place, Event::Reached(target)))
    }

    fn message(&mut self, arrived: T) -> Option<(u32, Event)> {
        let Letter { from, to, message, .. } = self.letters.pop_front_if(|letter| letter.due <= arrived)?;
        self.count();
        Some((to, Event::Received { from: PortId(from), message }))
    }

    fn wake(&mut self, clock: Instant) -> Option<(u32, Event)> {
        let (_, place) = *self.wakes.first().filter(|(when, _)| *when <= clock)?;
        self.wakes.pop_first();
        self.wake_at[place as usize] = None;
        Some((place, Event::Wake))
    }

    /// Counts one that has been taken out: when all that there were are told, those that have come
    /// in their place are a turn more. Wake-ups need no counting, since they are asked for in the
    /// future.
    fn count(&mut self) {
        if self.counted == 0 {
            self.turns += 1;
            self.counted = 1 + self.amounts.len() + self.letters.len();
        }
        self.counted -= 1;
    }

    /// Messages sent so far, lost ones among them.
    pub(crate) fn messages(&self) -> u64 {
        self.messages
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cavalcade_model::{CoflowId, FlowId, Payload};

    fn message(order: u64) -> Message {
        Message { coflow: CoflowId(0), payload: Payload::of_number(0, order) }
    }

    fn received(from: u32, order: u64) -> Event {
        Event::Received { from: PortId(from), message: message(order) }
    }

    fn all(agenda: &mut Agenda<u64>, now: u64) -> Vec<(u32, Event)> {
        std::iter::from_fn(|| agenda.next(now, Instant(now)).expect("what is due ends")).collect()
    }

    #[test]
    fn amounts_come_first_in_order_of_ids_then_messages_then_wakes() {
        let mut agenda = Agenda::new(3, 0.0, 0);
        agenda.wake_at(2, Instant(5));
        agenda.wake_at(0, Instant(5));
        agenda.post(1, PortId(0), message(7), 5);
        agenda.reach(Target::Flow(FlowId(1)), 2);
        agenda.reach(Target::Coflow(CoflowId(4)), 1);
        agenda.reach(Target::Coflow(CoflowId(4)), 0);
        assert!(agenda.has_amounts());
        let expected = vec![
            (0, Event::Reached(Target::Coflow(CoflowId(4)))),
            (1, Event::Reached(Target::Coflow(CoflowId(4)))),
            (2, Event::Reached(Target::Flow(FlowId(1)))),
            (0, received(1, 7)),
            (0, Event::Wake),
            (2, Event::Wake),
        ];
        assert_eq!(all(&mut agenda, 5), expected);
        assert_eq!((agenda.next_message(), agenda.next_wake(), agenda.has_amounts()), (None, None, false));
    }

    #[test]
    fn what_is_not_due_waits() {
        let mut agenda = Agenda::new(2, 0.0, 0);
        agenda.post(0, PortId(1), message(1), 7);
        agenda.wake_at(0, Instant(9));
        assert_eq!((agenda.next_message(), agenda.next_wake()), (Some(7), Some(Instant(9))));
        assert_eq!(all(&mut agenda, 6), vec![]);
        assert_eq!(all(&mut agenda, 7), vec![(1, received(0, 1))]);
        assert_eq!(all(&mut agenda, 9), vec![(0, Event::Wake)]);
    }

    #[test]
    fn an_instance_is_woken_when_it_asked_last() {
        let mut agenda = Agenda::new(1, 0.0, 0);
        agenda.wake_at(0, Instant(3));
        agenda.wake_at(0, Instant(6));
        assert_eq!(all(&mut agenda, 3), vec![]);
        assert_eq!(all(&mut agenda, 6), vec![(0, Event::Wake)]);
    }

    #[test]
    fn an_amount_that_is_forgotten_is_not_told_of() {
        let mut agenda: Agenda<u64> = Agenda::new(2, 0.0, 0);
        let target = Target::Coflow(CoflowId(1));
        agenda.reach(target, 0);
        agenda.reach(target, 1);
        agenda.forget(target, 0);
        assert_eq!(all(&mut agenda, 0), vec![(1, Event::Reached(target))]);
    }

    #[test]
    fn who_wakes_together_is_woken_before_the_answers_come() {
        let mut agenda = Agenda::new(2, 0.0, 0);
        (0..2).for_each(|place| agenda.wake_at(place, Instant(1)));
        let mut told = Vec::new();
        while let Ok(Some((place, event))) = agenda.next(1, Instant(1)) {
            if event == Event::Wake {
                agenda.post(place, PortId(1 - place), message(8), 1);
            }
            told.push((place, event));
        }
        assert_eq!(told, vec![(0, Event::Wake), (1, Event::Wake), (1, received(0, 8)), (0, received(1, 8))]);
    }

    #[test]
    fn lost_messages_are_counted_and_do_not_arrive() {
        let mut agenda = Agenda::new(2, 0.25, 1);
        (0..1_000).for_each(|order| agenda.post(0, PortId(1), message(order), 0));
        let arrived = all(&mut agenda, 0).len();
        assert!(arrived.abs_diff(750) < 50, "{arrived}");
        assert_eq!(agenda.messages(), 1_000);
    }

    #[test]
    fn a_long_queue_at_one_instant_is_no_endless_one() {
        let mut agenda = Agenda::new(1, 0.0, 0);
        (0..300_000).for_each(|order| agenda.post(0, PortId(0), message(order), 0));
        assert_eq!(all(&mut agenda, 0).len(), 300_000);
    }

    #[test]
    fn two_hosts_that_answer_each_other_at_once_for_ever_are_stopped() {
        let mut agenda = Agenda::new(2, 0.0, 0);
        agenda.post(0, PortId(1), message(0), 0);
        let stopped = loop {
            match agenda.next(0, Instant(0)) {
                Ok(Some((place, _))) => agenda.post(place, PortId(1 - place), message(0), 0),
                end => break end,
            }
        };
        assert!(stopped.is_err());
    }

    #[test]
    fn an_amount_that_is_asked_for_again_and_again_is_stopped() {
        let mut agenda: Agenda<u64> = Agenda::new(1, 0.0, 0);
        let target = Target::Flow(FlowId(0));
        agenda.reach(target, 0);
        while agenda.next(0, Instant(0)).is_ok() {
            agenda.reach(target, 0);
        }
    }
}
