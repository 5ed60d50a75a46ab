//! A cap on a flow's rate, where a policy sets one (Karuna's flows with deadlines): payload leaves no sooner than the cap allows.
//!
//! After each packet the flow is held for as long as its payload takes at the cap. What was not used is not saved up.

use cavalcade_model::BitsPerSec;

use crate::flows::NEVER;
use crate::wheel::Picos;

/// The pace of one flow.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pace {
    cap: Option<BitsPerSec>,
    /// Until when it may not send.
    until: Picos,
    /// Whether it wanted to.
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

    /// Whether it may not send now; then it is remembered that it wanted to.
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
            self.until = time.map_or(NEVER, |time| self.until.max(now).saturating_add(time));
        }
    }

    /// When it may send what it wanted to.
    #[inline]
    pub(crate) fn due(&self) -> Option<Picos> {
        self.waits.then_some(self.until)
    }

    /// Whether the time has come that it waited for.
    pub(crate) fn release(&mut self, now: Picos) -> bool {
        let over = self.waits && now >= self.until;
        self.waits &= !over;
        over
    }
}
