//! What connections may hold together: bytes that wait in this process, and messages in a second.
//!
//! All connections of one user share a [`Meter`], and all meters of a process may share another
//! one, their parent. Bytes count from when they are read until their message has been handled, and
//! from when a message is put into a connection's queue until the kernel has it. Where there is no
//! room, connections are not read, nor those over their rate of messages: a sender that is too
//! fast is slowed down by its own socket, and no memory grows. A connection that does not take its
//! messages is given up ([`Meter::hold`] refuses). Either is counted by the meter that has no room,
//! which says once a second what its limit is and how to raise it.
//!
//! Messages are metered by the time at which the next one is due; up to a second's worth may come
//! at once.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant;

use crate::occasional::Occasional;

/// The most messages at once, as time.
const BURST: Duration = Duration::from_secs(1);
/// The shortest pause of a connection that is too fast.
const PAUSE: Duration = Duration::from_millis(10);

/// A count that connections share.
#[derive(Clone, Debug)]
pub(crate) struct Meter(Rc<State>);

#[derive(Debug)]
struct State {
    parent: Option<Meter>,
    /// The cure for those who find no room; none where that is as it should be.
    cure: Option<&'static str>,
    most: Cell<usize>,
    held: Cell<usize>,
    room: Notify,
    /// Number of connections that found no room.
    full: Cell<u64>,
    warnings: RefCell<Occasional>,
    /// Time of a message at the highest rate; zero where there is none.
    pace: Cell<Duration>,
    /// Time at which the next message is due.
    due: Cell<Instant>,
    slowed: Cell<u64>,
}

impl Meter {
    /// For `bytes` that wait; `cure` tells an operator how to get room for more.
    pub(crate) fn new(bytes: usize, cure: &'static str) -> Self {
        Self::with(None, bytes, None, Some(cure))
    }

    /// For what one connection has handed on: see [`Meter::handled`].
    pub(crate) fn queue(&self, bytes: usize) -> Self {
        Self::with(Some(self.clone()), bytes, None, None)
    }

    /// For `bytes` of those of this one, and so many messages in a second.
    pub(crate) fn part(&self, bytes: usize, messages: u32, cure: &'static str) -> Self {
        Self::with(Some(self.clone()), bytes, Some(messages), Some(cure))
    }

    fn with(parent: Option<Self>, bytes: usize, messages: Option<u32>, cure: Option<&'static str>) -> Self {
        Self(Rc::new(State {
            parent,
            cure,
            most: Cell::new(bytes),
            held: Cell::new(0),
            room: Notify::new(),
            full: Cell::new(0),
            warnings: RefCell::default(),
            pace: Cell::new(pace(messages)),
            due: Cell::new(Instant::now()),
            slowed: Cell::new(0),
        }))
    }

    /// Sets how many bytes may wait from now on, and how many messages may come in a second.
    pub(crate) fn set(&self, bytes: usize, messages: Option<u32>) {
        self.0.most.set(bytes);
        self.0.pace.set(pace(messages));
        self.0.room.notify_waiters();
    }

    /// Bytes that wait.
    pub(crate) fn held(&self) -> usize {
        self.0.held.get()
    }

    /// Bytes that may wait.
    pub(crate) fn most(&self) -> usize {
        self.0.most.get()
    }

    /// Returns the number of connections that found no room here.
    pub(crate) fn found_full(&self) -> u64 {
        self.0.full.get()
    }

    /// The meter that has no room for more, if one has none.
    fn full(&self) -> Option<&Self> {
        if self.held() >= self.most() { Some(self) } else { self.0.parent.as_ref().and_then(Self::full) }
    }

    /// Counts a connection that found no room here, and logs it once a second.
    fn note_full(&self, consequence: &'static str) {
        let state = &*self.0;
        state.full.set(state.full.get() + 1);
        if let Some(cure) = state.cure
            && let Some(unsaid) = state.warnings.borrow_mut().admit()
        {
            let most = self.most();
            tracing::warn!(most, unsaid, "no room for more bytes that wait: {consequence}; {cure}");
        }
    }

    /// Counts `after` bytes in the place of `before`.
    fn replace(&self, before: usize, after: usize) {
        let state = &*self.0;
        let held = state.held.get();
        state.held.set(held - before + after);
        if state.held.get() < self.most() && held >= self.most() {
            state.room.notify_waiters();
        }
        state.parent.iter().for_each(|parent| parent.replace(before, after));
    }

    /// Returns the number of times a connection was paused because its messages came too fast.
    pub(crate) fn slowed(&self) -> u64 {
        self.0.slowed.get()
    }

    /// Counts bytes that wait, if there is room for any; else the connection that they are for is
    /// to be given up.
    pub(crate) fn hold(&self, bytes: usize) -> Option<Held> {
        match self.full() {
            None => Some(self.take(bytes)),
            Some(full) => {
                full.note_full("a connection that does not take its messages is closed");
                None
            }
        }
    }

    /// Counts bytes that have come, and for which there may be too little room.
    pub(crate) fn take(&self, bytes: usize) -> Held {
        self.replace(0, bytes);
        Held { meter: self.clone(), bytes }
    }

    /// Waits until there is room for more bytes.
    pub(crate) async fn room(&self) {
        while let Some(full) = self.full() {
            full.note_full("connections are not read until there is some");
            full.0.room.notified().await;
        }
    }

    /// Waits until there is room here, whatever others hold: each connection has its turn.
    pub(crate) async fn handled(&self) {
        while self.held() >= self.most() {
            self.0.room.notified().await;
        }
    }

    /// Waits until a message is due.
    pub(crate) async fn pace(&self) {
        let early = || self.0.due.get().saturating_duration_since(Instant::now()).saturating_sub(BURST);
        if !early().is_zero() {
            self.0.slowed.set(self.slowed() + 1);
        }
        while !early().is_zero() {
            tokio::time::sleep(early().max(PAUSE)).await;
        }
    }

    /// Returns whether anything waits, or messages came faster than they may.
    pub(crate) fn is_in_use(&self) -> bool {
        self.held() > 0 || self.0.due.get() > Instant::now()
    }

    /// Counts messages that have come.
    pub(crate) fn count(&self, messages: u32) {
        self.0.due.set(self.0.due.get().max(Instant::now()) + self.0.pace.get() * messages);
    }
}

/// Returns the time of a message at the highest rate.
fn pace(messages: Option<u32>) -> Duration {
    messages.map_or(Duration::ZERO, |rate| Duration::from_secs(1) / rate.max(1))
}

/// Bytes that wait, until it is dropped.
#[derive(Debug)]
pub(crate) struct Held {
    meter: Meter,
    bytes: usize,
}

impl Held {
    /// Counts other bytes in their place.
    pub(crate) fn set(&mut self, bytes: usize) {
        self.meter.replace(self.bytes, bytes);
        self.bytes = bytes;
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.set(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_count_until_they_are_dropped_and_who_comes_too_late_finds_no_room() {
        let meter = Meter::new(100, "");
        let mut first = meter.hold(80).unwrap();
        let second = meter.hold(80).unwrap();
        assert_eq!(meter.held(), 160);
        assert!(meter.hold(1).is_none());
        assert_eq!(meter.found_full(), 1);
        first.set(10);
        assert!(meter.hold(1).is_some());
        drop((first, second));
        assert_eq!(meter.held(), 0);
    }

    #[test]
    fn what_one_user_holds_is_missing_to_the_others_only_where_all_have_too_much() {
        let all = Meter::new(100, "");
        let (one, other) = (all.part(60, 1, ""), all.part(60, 1, ""));
        let first = one.hold(60).unwrap();
        assert!(one.hold(1).is_none() && other.hold(0).is_some());
        let second = other.hold(50).unwrap();
        assert!(other.hold(0).is_none(), "110 bytes of 100 wait");
        assert_eq!([&all, &one, &other].map(Meter::found_full), [1, 1, 0], "who has no room counts it");
        drop(first);
        assert_eq!(all.held(), 50);
        drop(second);
        assert!(other.hold(0).is_some());
    }

    #[test]
    fn more_than_a_second_of_messages_at_once_is_slowed_down() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        runtime.block_on(async {
            let meter = Meter::new(100, "").part(100, 1_000, "");
            meter.count(900);
            meter.pace().await;
            assert_eq!(meter.slowed(), 0);
            meter.count(1_000);
            meter.pace().await;
            assert_eq!(meter.slowed(), 1);
        });
    }
}
