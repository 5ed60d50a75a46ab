//! A cap on a flow's rate, where a policy sets one (Karuna's flows with deadlines): payload leaves
//! no sooner than the cap allows.
//!
//! After each packet the flow is held for as long as its payload takes at the cap. A packet that
//! waited for its turn does not delay the next: so much is made up for, and no more is saved up, so
//! at most two packets leave at once. Without that a flow that is capped at what it needs would
//! lose a packet's time at each of its packets where it shares a host's link (measured: flows of
//! 100 KB came 0.1 to 0.5 ms behind their deadlines at 10 Gbps).

use cavalcade_model::BitsPerSec;

use crate::flows::NEVER;
use crate::wheel::Picos;

/// The pace of one flow.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pace {
    cap: Option<BitsPerSec>,
    /// Until when it may not send.
    until: Picos,
    /// True if it wanted to.
    waits: bool,
}

impl Pace {
    pub(crate) fn new(cap: Option<BitsPerSec>) -> Self {
        let until = if cap == Some(BitsPerSec::ZERO) { NEVER } else { 0 };
        Self { cap, until, waits: false }
    }

    /// A new cap, or none: what was held may go.
    pub(crate) fn set(&mut self, now: Picos, cap: Option<BitsPerSec>) {
        let until = match cap {
            Some(BitsPerSec::ZERO) => NEVER,
            Some(_) if self.until != NEVER => self.until,
            _ => now,
        };
        *self = Self { cap, until, waits: false };
    }

    /// Returns whether it may not send until another cap is set.
    pub(crate) fn is_stopped(&self) -> bool {
        self.cap == Some(BitsPerSec::ZERO)
    }

    /// Returns whether it may not send now; then it is remembered that it wanted to.
    #[inline]
    pub(crate) fn holds(&mut self, now: Picos) -> bool {
        self.waits = self.cap.is_some() && now < self.until;
        self.waits
    }

    /// `payload` bytes were sent.
    #[inline]
    pub(crate) fn sent(&mut self, now: Picos, payload: u16) {
        if let Some(cap) = self.cap {
            let time = (u64::from(payload) * 8_000_000_000_000).checked_div(cap.get());
            let next = |time: Picos| self.until.max(now.saturating_sub(time)).saturating_add(time);
            self.until = time.map_or(NEVER, next);
        }
    }

    /// Returns the time at which it may send what it wanted to.
    #[inline]
    pub(crate) fn due(&self) -> Option<Picos> {
        self.waits.then_some(self.until)
    }

    /// Returns whether the time has come that it waited for.
    pub(crate) fn release(&mut self, now: Picos) -> bool {
        let over = self.waits && now >= self.until;
        self.waits &= !over;
        over
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 1,000 bytes at 8 Gbps take 1 µs.
    const CAP: Option<BitsPerSec> = Some(BitsPerSec(8_000_000_000));
    const TIME: Picos = 1_000_000;

    #[test]
    fn a_packet_that_waited_does_not_delay_the_next_but_nothing_more_is_saved_up() {
        let mut pace = Pace::new(CAP);
        pace.sent(0, 1_000);
        assert!(pace.holds(TIME - 1) && !pace.holds(TIME));
        // It waits for its turn for 0.3 µs; the one after is due when it would have been.
        pace.sent(TIME + 300_000, 1_000);
        assert!(pace.holds(2 * TIME - 1) && !pace.holds(2 * TIME));
        // Silent for long, it may send two, and then goes on as before.
        pace.sent(10 * TIME, 1_000);
        assert!(!pace.holds(10 * TIME));
        pace.sent(10 * TIME, 1_000);
        assert!(pace.holds(11 * TIME - 1) && !pace.holds(11 * TIME));
    }
}
