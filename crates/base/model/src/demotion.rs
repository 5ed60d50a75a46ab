//! How a host sorts its own flows without a deadline, by what it counts itself.
//!
//! PIAS and Karuna need no coordinator: a message sinks from level to level with the bytes that it
//! has sent (Karuna's type 3), or stands on one by its size (type 2), and the host marks its
//! packets. This is the rule that policies follow over flows, and that programs in the kernel
//! follow over connections, where it has two more parts that only packets show.
//!
//! - A connection carries messages. Bytes after it was idle, with everything sent and acknowledged,
//!   begin one, at the top (PIAS §4.1).
//! - A demoted message may starve. A time-out of TCP shows that nothing arrives; after some *in a
//!   row* the message is lifted: type 3 begins at the top again, type 2 goes one level up. PIAS'
//!   module waits for three. Karuna draws how many each connection waits for, so that not all that
//!   starve are lifted at once (docs/protocols.md §1.4).

use core::ops::RangeInclusive;

use crate::{Bytes, Nanos};

/// The rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Demotion {
    /// The class of the top level; above it are flows with deadlines.
    pub first: u16,
    /// The bytes at which a message goes to the next level, rising.
    pub thresholds: Vec<Bytes>,
    /// True if messages of known size have the level of their size.
    pub by_size: bool,
    /// After so many time-outs in a row a message is lifted; each connection draws its number from
    /// these.
    pub patience: RangeInclusive<u32>,
}

/// A message on its way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// The bytes that it is to send in all, where that is known.
    pub size: Option<Bytes>,
    /// The bytes sent since it began, or was lifted to the top.
    pub sent: Bytes,
    /// The levels by which it was lifted, where it goes by its size.
    pub lifts: u32,
}

impl Demotion {
    /// The level of a message that has sent so much.
    pub fn level_by_sent(&self, sent: Bytes) -> usize {
        self.thresholds.partition_point(|&threshold| threshold <= sent)
    }

    /// The level of a message of this size.
    pub fn level_by_size(&self, size: Bytes) -> usize {
        self.thresholds.partition_point(|&threshold| threshold < size)
    }

    /// The class of a message.
    pub fn class(&self, message: &Progress) -> u16 {
        let level = match message.size {
            Some(size) if self.by_size => self.level_by_size(size).saturating_sub(message.lifts as usize),
            _ => self.level_by_sent(message.sent),
        };
        self.first + level as u16
    }

    /// The class below all levels but the last, where flows are that have given up their deadline.
    pub fn last(&self) -> u16 {
        self.first + self.thresholds.len() as u16
    }

    /// Lifts a message of a connection with this patience, where that is exhausted by the last of
    /// so many time-outs in a row.
    pub fn time_out(&self, message: &mut Progress, in_a_row: u32, patience: u32) {
        if patience == 0 || !in_a_row.is_multiple_of(patience) {
            return;
        }
        message.sent = Bytes::ZERO;
        message.lifts = message.lifts.saturating_add(1);
    }
}

impl Progress {
    /// Bytes are about to be sent after the connection was quiet for this long; `is_done` if all
    /// that had been written before was sent and acknowledged. Beyond `idle` they begin a message
    /// of the same size, where one is known.
    pub fn resume(&mut self, quiet: Nanos, is_done: bool, idle: Nanos) {
        if is_done && quiet > idle {
            (self.sent, self.lifts) = (Bytes::ZERO, 0);
        }
    }

    /// New bytes were sent.
    pub fn send(&mut self, bytes: Bytes) {
        self.sent = Bytes(self.sent.0.saturating_add(bytes.0));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const IDLE: Nanos = Nanos(500_000);

    fn karuna(by_size: bool) -> Demotion {
        Demotion { first: 1, thresholds: vec![Bytes(1_000), Bytes(5_000)], by_size, patience: 2..=10 }
    }

    #[test]
    fn a_message_sinks_with_what_it_has_sent_and_the_next_begins_at_the_top() {
        let (rule, mut message) = (karuna(false), Progress::default());
        let mut classes = Vec::new();
        for _ in 0..7 {
            classes.push(rule.class(&message));
            message.send(Bytes(1_000));
        }
        assert_eq!(classes, [1, 2, 2, 2, 2, 3, 3]);
        message.resume(IDLE, true, IDLE);
        assert_eq!(rule.class(&message), rule.last(), "exactly the idle time is not beyond it");
        message.resume(Nanos(IDLE.0 + 1), false, IDLE);
        assert_eq!(rule.class(&message), rule.last(), "what waits to be sent or acknowledged is no pause");
        message.resume(Nanos(IDLE.0 + 1), true, IDLE);
        assert_eq!(rule.class(&message), 1);
    }

    #[test]
    fn a_known_size_counts_only_where_messages_go_by_it() {
        let class = |by_size, size| {
            let message = Progress { size: Some(Bytes(size)), sent: Bytes(700), lifts: 0 };
            karuna(by_size).class(&message)
        };
        assert_eq!([1, 1_000, 1_001, 5_000, 5_001].map(|size| class(true, size)), [1, 1, 2, 2, 3]);
        assert_eq!(class(false, 9_000), 1);
    }

    #[test]
    fn time_outs_in_a_row_lift_to_the_top_or_by_a_level() {
        let class_after = |by_size, time_outs: u32| {
            let rule = karuna(by_size);
            let mut message = Progress { size: Some(Bytes(9_000)), sent: Bytes(9_000), lifts: 0 };
            (1..=time_outs).for_each(|in_a_row| rule.time_out(&mut message, in_a_row, 3));
            rule.class(&message)
        };
        assert_eq!([0, 2, 3, 9].map(|time_outs| class_after(false, time_outs)), [3, 3, 1, 1]);
        assert_eq!([0, 2, 3, 5, 6, 9].map(|time_outs| class_after(true, time_outs)), [3, 3, 2, 2, 1, 1]);
    }
}
