//! The time of a fluid engine.
//!
//! Allocators compute in `f64` nanoseconds, which resolve less the further they are from zero. So
//! they count from a *base*, a whole number of nanoseconds that moves along: whenever the next
//! event lies [`FAR`] from it, it moves up to that event, and the allocator is rebased with it. So
//! a nanosecond is resolved to a 4096th of itself at any time of a run, and what is computed
//! depends on spans alone. Idle time, however long, costs one such move.
//!
//! # Invariants
//! - An [`Instant`] that is waited for (an arrival, a wake-up) comes out as that very instant.
//! - Nothing happens at or after the end of time, 2⁶³ ns in the time of the trace.

use cavalcade_allocate::Fill;
use cavalcade_harness::end_of_time;
use cavalcade_model::{FineInstant, Instant};

/// The distance from the base, in nanoseconds, at which it moves: 18 minutes.
const FAR: f64 = (1u64 << 40) as f64;

/// By how much a time may be off by rounding, in nanoseconds: twice the tolerance of the
/// allocators.
pub const SLACK: f64 = 2e-3;

/// The present of a run, and the base from which its allocator counts.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    base: Instant,
    /// The present, in nanoseconds since the base.
    now: f64,
    end: Instant,
}

/// What a run waits for next: the earliest of each kind.
#[derive(Clone, Copy, Debug, Default)]
pub struct Awaited {
    /// Something at a whole nanosecond.
    pub instant: Option<Instant>,
    /// Something at any time.
    pub point: Option<FineInstant>,
}

/// The next event lies beyond the end of time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooLate;

impl Clock {
    /// The clock of a run over a workload that begins at `origin`, at its beginning.
    pub fn new(origin: Instant) -> Self {
        Self { base: Instant::ZERO, now: 0.0, end: end_of_time(origin) }
    }

    /// The present, in nanoseconds since the base: what an allocator is given.
    pub fn now(&self) -> f64 {
        self.now
    }

    /// The present.
    pub fn point(&self) -> FineInstant {
        FineInstant::new(self.base, self.now)
    }

    /// The latest point that counts as the present.
    pub fn reach(&self) -> FineInstant {
        FineInstant::new(self.base, self.now + SLACK)
    }

    /// The instant that the present stands for: the nanosecond it ends in, where rounding does not
    /// make it spill into the next.
    pub fn instant(&self) -> Instant {
        Instant(self.base.0 + (self.now - SLACK).max(0.0).ceil() as u64)
    }

    /// The last whole nanosecond that has come, where rounding does not put it off.
    pub fn passed(&self) -> Instant {
        Instant(self.base.0 + (self.now + SLACK).max(0.0) as u64)
    }

    fn offset(&self, point: FineInstant) -> f64 {
        point.since(FineInstant::from(self.base))
    }

    /// Returns the last whole nanosecond before the first of what comes due in `fill` and what else
    /// is `awaited`.
    pub fn earliest(&self, fill: &dyn Fill, awaited: Awaited) -> Instant {
        let in_fill = Instant(self.base.0.saturating_add(fill.next().max(0.0) as u64));
        let points = awaited.point.map(FineInstant::whole);
        awaited.instant.into_iter().chain(points).fold(in_fill, Instant::min)
    }

    /// Returns the time of the next event: the earliest of what comes due in `fill` and what else
    /// is `awaited`, but not before now. Moves the base first where that is far. `None` if nothing
    /// is to come.
    ///
    /// # Errors
    /// If it lies beyond the end of time.
    pub fn next(&mut self, fill: &mut dyn Fill, awaited: Awaited) -> Result<Option<f64>, TooLate> {
        let points = || awaited.instant.map(FineInstant::from).into_iter().chain(awaited.point);
        loop {
            let in_fill = fill.next();
            let next = points().fold(in_fill, |next, point| next.min(self.offset(point)));
            if next < FAR {
                let next = next.max(self.now);
                let is_in_time = next < self.end.since(self.base).as_f64();
                return if is_in_time { Ok(Some(next)) } else { Err(TooLate) };
            } else if next == f64::INFINITY {
                return Ok(None);
            }
            // In whole numbers, since a point this far away may not have an offset. Few enough
            // digits for `f64` to hold.
            let away = |point: FineInstant| point.whole().since(self.base).0;
            let by = points().fold(in_fill as u64, |by, point| by.min(away(point))) & !0xfff;
            if by >= self.end.since(self.base).0 {
                return Err(TooLate);
            }
            fill.rebase(by as f64);
            self.base = Instant(self.base.0 + by);
            self.now -= by as f64;
        }
    }

    /// Goes on to a time that [`Clock::next`] returned, or earlier. Returns the nanoseconds that
    /// passed.
    pub fn advance(&mut self, next: f64) -> f64 {
        debug_assert!(next >= self.now, "time does not go back");
        next - std::mem::replace(&mut self.now, next)
    }
}
