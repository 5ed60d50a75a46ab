//! Work for users that takes longer than a turn may: it is done in small steps, for no more than a
//! small share of the enforcer's time.
//!
//! A user decides how much of it there is. So owners take turns, a step each: who has much waits
//! for it longer, and no other does.

use std::collections::VecDeque;

use cavalcade_model::{Instant, Nanos};

/// The time after which no further step is taken in a turn.
pub(super) const AT_ONCE: Nanos = Nanos::from_millis(1);

/// Pieces of work, each its owner's.
#[derive(Debug)]
pub(super) struct Queue<T> {
    /// Each owner once, with at least one piece; the one first whose turn it is.
    lines: VecDeque<(u32, VecDeque<T>)>,
    not_before: Instant,
}

impl<T> Default for Queue<T> {
    fn default() -> Self {
        Self { lines: VecDeque::new(), not_before: Instant::ZERO }
    }
}

impl<T> Queue<T> {
    /// Adds a piece of work, behind those of its owner.
    pub(super) fn push(&mut self, owner: u32, piece: T) {
        match self.lines.iter_mut().find(|(other, _)| *other == owner) {
            Some((_, line)) => line.push_back(piece),
            None => self.lines.push_back((owner, VecDeque::from([piece]))),
        }
    }

    /// All pieces, with their owners.
    pub(super) fn iter(&self) -> impl Iterator<Item = (u32, &T)> {
        self.lines.iter().flat_map(|(owner, line)| line.iter().map(|piece| (*owner, piece)))
    }

    /// Returns how many pieces there are.
    pub(super) fn len(&self) -> usize {
        self.lines.iter().map(|(_, line)| line.len()).sum()
    }

    /// Returns when there is something to do, if there is.
    pub(super) fn due_at(&self) -> Option<Instant> {
        (!self.lines.is_empty()).then_some(self.not_before)
    }

    /// Takes some steps, if it is time: `advance` takes one, and returns whether the piece is done.
    /// Then it rests `sparing` times as long as that took.
    pub(super) fn step(
        &mut self,
        now: impl Fn() -> Instant,
        sparing: u64,
        mut advance: impl FnMut(&mut T) -> bool,
    ) {
        let began = now();
        if began < self.not_before {
            return;
        }
        let mut spent = Nanos::ZERO;
        while spent < AT_ONCE
            && let Some((owner, mut line)) = self.lines.pop_front()
        {
            if line.front_mut().is_none_or(&mut advance) {
                line.pop_front();
            }
            if !line.is_empty() {
                self.lines.push_back((owner, line));
            }
            spent = now().since(began);
        }
        self.not_before = began + Nanos(spent.0.saturating_mul(sparing));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_of_an_owner_that_never_ends_keeps_nobody_else_waiting() {
        let mut queue = Queue::default();
        for (owner, piece) in
            [(7, ("endless", u32::MAX)), (7, ("hidden", 1)), (8, ("short", 3)), (9, ("one", 1))]
        {
            queue.push(owner, piece);
        }
        assert_eq!(queue.len(), 4);
        let mut done = Vec::new();
        for _ in 0..9 {
            // The clock makes each call a turn of one step.
            let clock = std::cell::Cell::new(queue.due_at().unwrap().0);
            let now = || Instant(clock.replace(clock.get() + AT_ONCE.0));
            queue.step(now, 20, |(name, left)| {
                *left -= 1;
                done.extend((*left == 0).then_some(*name));
                *left == 0
            });
        }
        assert_eq!(done, ["one", "short"]);
        assert_eq!(
            queue.iter().map(|(owner, (name, _))| (owner, *name)).collect::<Vec<_>>(),
            [(7, "endless"), (7, "hidden")]
        );
    }
}
