//! A host's own link: which packet goes next among all of its senders.
//!
//! Senders are asked when the link is free, not before: so a host has no queue that a window could
//! fill, and a policy's priorities hold from one packet to the next. Acknowledgements go first;
//! then senders in order of priority, and among equals in turn, or the one with the least left to
//! send where switches do likewise (pFabric §4.2: a host's own link is the first of the fabric's).
//!
//! Senders stand in groups of equal priority, of which there is one unless a policy says otherwise.

use std::collections::VecDeque;

use cavalcade_model::Priority;

use crate::pool::List;

#[derive(Debug, Default)]
pub(crate) struct Nic {
    /// Acknowledgements.
    pub(crate) answers: List,
    /// Senders that may have something to send, by priority. No group is empty but an only one,
    /// which most hosts have, and which comes and goes with each packet.
    groups: Vec<(Priority, VecDeque<u32>)>,
    /// The room of a group that became empty, for the next.
    spare: VecDeque<u32>,
    /// True if the turn is as [`Nic::prefer`] left it: a sender that sends only comes nearer to its
    /// end.
    preferred: bool,
}

impl Nic {
    /// Returns whether anything may be sent.
    #[inline]
    pub(crate) fn has_work(&self) -> bool {
        !self.answers.is_empty() || self.groups.first().is_some_and(|(_, group)| !group.is_empty())
    }

    /// Adds a sender that is not in it.
    #[inline]
    pub(crate) fn add(&mut self, sender: u32, priority: Priority) {
        self.preferred = false;
        if let [(only, group)] = self.groups.as_mut_slice()
            && (*only == priority || group.is_empty())
        {
            *only = priority;
            group.push_back(sender);
            return;
        }
        self.add_beside_others(sender, priority);
    }

    fn add_beside_others(&mut self, sender: u32, priority: Priority) {
        match self.groups.binary_search_by_key(&priority, |group| group.0) {
            Ok(at) => self.groups[at].1.push_back(sender),
            Err(at) => {
                let mut group = std::mem::take(&mut self.spare);
                group.push_back(sender);
                self.groups.insert(at, (priority, group));
            }
        }
    }

    /// The sender whose turn it is.
    #[inline]
    pub(crate) fn next(&self) -> Option<u32> {
        self.groups.first().and_then(|(_, group)| group.front().copied())
    }

    /// Gives the turn to that of the equals which has the least `key`; the earliest of those that
    /// have it.
    #[inline]
    pub(crate) fn prefer(&mut self, key: impl Fn(u32) -> u64) {
        if std::mem::replace(&mut self.preferred, true) {
            return;
        }
        if let Some((_, group)) = self.groups.first_mut()
            && group.len() > 1
            && let Some((at, _)) = group.iter().enumerate().min_by_key(|&(_, &sender)| key(sender))
        {
            group.swap(0, at);
        }
    }

    /// The turn goes to the next of equals.
    #[inline]
    pub(crate) fn rotate(&mut self) {
        if let Some((_, group)) = self.groups.first_mut()
            && group.len() > 1
        {
            group.rotate_left(1);
        }
    }

    /// Takes out the sender whose turn it is.
    #[inline]
    pub(crate) fn remove_next(&mut self) {
        self.preferred = false;
        if let Some((_, group)) = self.groups.first_mut() {
            group.pop_front();
            if group.is_empty() && self.groups.len() > 1 {
                self.spare = self.groups.remove(0).1;
            }
        }
    }

    /// Takes out a sender of `priority`.
    pub(crate) fn remove(&mut self, sender: u32, priority: Priority) {
        self.preferred = false;
        let Ok(at) = self.groups.binary_search_by_key(&priority, |group| group.0) else { return };
        self.groups[at].1.retain(|&other| other != sender);
        if self.groups[at].1.is_empty() && self.groups.len() > 1 {
            self.spare = self.groups.remove(at).1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn higher_priorities_go_first_and_equals_take_turns() {
        let mut nic = Nic::default();
        let (high, low) = (Priority::new(0, 5), Priority::new(1, 0));
        for (sender, priority) in [(1, low), (2, high), (3, high)] {
            nic.add(sender, priority);
        }
        let turns: Vec<_> = (0..3).map(|_| (nic.next(), nic.rotate()).0).collect();
        assert_eq!(turns, [Some(2), Some(3), Some(2)]);
        nic.remove(3, high);
        nic.remove_next();
        assert_eq!(nic.next(), Some(1));
        nic.remove_next();
        assert!(!nic.has_work());
    }

    #[test]
    fn the_turn_can_be_given_to_the_least_of_equals() {
        let mut nic = Nic::default();
        (1..=3).for_each(|sender| nic.add(sender, Priority::default()));
        nic.add(4, Priority::new(1, 0));
        nic.prefer(|sender| u64::from(sender.abs_diff(2)));
        assert_eq!(nic.next(), Some(2));
        nic.prefer(|sender| u64::from(10 - sender));
        assert_eq!(nic.next(), Some(2), "no flow came or went");
        nic.remove(1, Priority::default());
        nic.prefer(|sender| u64::from(10 - sender));
        assert_eq!(nic.next(), Some(3), "priorities come before");
    }
}
