//! Task-id counters: unique numbers that grow with time, given out on every host without asking
//! anybody.
//!
//! Baraat §4.1 orders tasks by a counter at the place where they arrive. With several such places
//! each has a counter with a start of its own and a common step, so that no two give out the same
//! number and, while tasks arrive everywhere at like rates, comparing numbers compares arrivals.
//! Where rates differ, counters drift apart, and the paper says to bring them together loosely.
//! Here that is the clock: a number is never below the time in nanoseconds. A counter that starts
//! again after a crash so begins above all that it has given out, unless the clock was set back by
//! more than it was down; clients that come back say their numbers, and the counter goes past those
//! that are its own.

use cavalcade_model::{Instant, PortId};

/// Gives out `start`, `start + step` …, none below the time at which it is given out.
#[derive(Clone, Debug)]
pub struct TaskCounter {
    start: u64,
    step: u64,
    next: u64,
}

impl TaskCounter {
    /// The counter `start` of `step` counters.
    ///
    /// # Panics
    /// Unless `start < step`.
    pub fn new(start: u64, step: u64) -> Self {
        assert!(start < step, "counter {start} of {step}");
        Self { start, step, next: start }
    }

    /// Makes the counter of the agent at `port` of `ports`: even numbers.
    pub fn of_agent(port: PortId, ports: u32) -> Self {
        Self::new(2 * u64::from(port.0), 2 * u64::from(ports.max(port.0 + 1)))
    }

    /// The agent whose counter gave out `number`, of `ports`; `None` for a client's.
    pub fn agent_of(number: u64, ports: u32) -> Option<PortId> {
        let start = number.checked_rem(2 * u64::from(ports))?;
        (start % 2 == 0).then_some(PortId((start / 2) as u32))
    }

    /// Makes the counter of a client without an agent: odd numbers, at most 17 ms ahead of the
    /// clock, and no two clients give out the same within that time unless 23 bits of their names
    /// agree.
    pub fn of_client(name: u64) -> Self {
        let step = 1 << 24;
        Self::new((name.wrapping_mul(2) % step) | 1, step)
    }

    /// The next number.
    pub fn next(&mut self, now: Instant) -> u64 {
        self.advance(now.0.saturating_sub(1));
        let number = self.next;
        self.next = number.saturating_add(self.step);
        number
    }

    /// Goes past `number`, if it is one of this counter's: what was given out before is not given
    /// out again.
    pub fn pass(&mut self, number: u64) {
        if number >= self.next && number % self.step == self.start {
            self.advance(number);
        }
    }

    /// Makes the next number larger than `number`.
    fn advance(&mut self, number: u64) {
        if number >= self.next {
            let steps = (number - self.start) / self.step + 1;
            self.next = self.start.saturating_add(steps.saturating_mul(self.step));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn without_a_clock_a_counter_goes_by_its_step() {
        let mut counter = TaskCounter::new(1, 2);
        let numbers: Vec<u64> = (0..4).map(|_| counter.next(Instant::ZERO)).collect();
        assert_eq!(numbers, [1, 3, 5, 7], "Baraat §4.1: of two counters one gives the odd numbers");
    }

    proptest! {
        #[test]
        fn counters_never_meet_and_later_is_larger(
            steps in prop::collection::vec((0usize..3, 0u64..20), 1..60),
        ) {
            let mut counters: Vec<_> = (0..3).map(|start| TaskCounter::new(start, 3)).collect();
            let (mut seen, mut last, mut now) = (std::collections::BTreeSet::new(), [None; 3], 0);
            for (which, pause) in steps {
                now += pause;
                let number = counters[which].next(Instant(now));
                prop_assert!(number >= now && number % 3 == which as u64);
                prop_assert!(seen.insert(number));
                prop_assert!(last[which].replace(number) < Some(number));
            }
        }
    }

    #[test]
    fn a_counter_that_starts_again_goes_past_what_it_is_told() {
        let mut again = TaskCounter::new(2, 5);
        again.pass(1_002);
        again.pass(9_000);
        assert_eq!(again.next(Instant(30)), 1_007, "9000 is another counter's");
    }
}
