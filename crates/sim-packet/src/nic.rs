//! A host's own link: which packet goes next among all of its senders.
//!
//! Senders are asked when the link is free, not before: so a host has no queue that a window could fill, and a policy's
//! priorities hold from one packet to the next. Acknowledgements go first; then senders in order of priority, and among
//! equals in turn.
//!
//! Senders stand in groups of equal priority, of which there is one unless a policy says otherwise.

use std::collections::VecDeque;

use cavalcade_model::Priority;

use crate::pool::List;

#[derive(Debug, Default)]
pub(crate) struct Nic {
    /// Acknowledgements.
    pub(crate) answers: List,
    /// Senders that may have something to send, by priority; no group is empty.
    groups: Vec<(Priority, VecDeque<u32>)>,
    /// The room of a group that became empty, for the next: most hosts have one group that comes and goes.
    spare: VecDeque<u32>,
}

impl Nic {
    /// Whether anything may be sent.
    #[inline]
    pub(crate) fn has_work(&self) -> bool {
        !self.answers.is_empty() || !self.groups.is_empty()
    }

    /// Adds a sender that is not in it.
    pub(crate) fn add(&mut self, sender: u32, priority: Priority) {
        if let [(only, group)] = self.groups.as_mut_slice()
            && *only == priority
        {
            group.push_back(sender);
            return;
        }
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
    pub(crate) fn remove_next(&mut self) {
        if let Some((_, group)) = self.groups.first_mut() {
            group.pop_front();
            if group.is_empty() {
                self.spare = self.groups.remove(0).1;
            }
        }
    }

    /// Takes out a sender of `priority`.
    pub(crate) fn remove(&mut self, sender: u32, priority: Priority) {
        let Ok(at) = self.groups.binary_search_by_key(&priority, |group| group.0) else { return };
        self.groups[at].1.retain(|&other| other != sender);
        if self.groups[at].1.is_empty() {
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
}
