//! The workload as a run sees it: all of it, or a window that moves along a stream of tasks.

use std::ops::Deref;

use cavalcade_harness::RunError;
use cavalcade_model::{Coflow, Instant, Task, TaskId, Window, Workload};

/// Tasks in order of arrival, each with the flows of its transfers.
pub type Stream<'a> = &'a mut dyn Iterator<Item = (Task, Vec<Coflow>)>;

/// The workload or stream that is run.
pub(crate) enum Book<'a> {
    /// All tasks are known from the start.
    Whole(&'a Workload),
    /// Tasks come when they arrive.
    Moving(Box<Moving<'a>>),
}

/// A window on a stream.
pub(crate) struct Moving<'a> {
    window: Window,
    stream: Stream<'a>,
    /// The next task, which has not arrived. Its times are those of the stream, the window's count
    /// from its first task.
    ahead: Option<(Task, Vec<Coflow>)>,
    origin: Instant,
    latest: Instant,
    /// True if the numbers of flows that are gone are used again.
    reuses: bool,
}

impl<'a> Moving<'a> {
    pub(crate) fn new(ports: u32, stream: Stream<'a>, reuses: bool) -> Self {
        let ahead = stream.next();
        let origin = ahead.as_ref().map_or(Instant::ZERO, |(task, _)| task.arrival);
        Self { window: Window::new(ports), stream, ahead, origin, latest: origin, reuses }
    }
}

impl Deref for Book<'_> {
    type Target = Workload;

    fn deref(&self) -> &Workload {
        match self {
            Book::Whole(workload) => workload,
            Book::Moving(moving) => moving.window.workload(),
        }
    }
}

impl Book<'_> {
    /// The time of the first task in the trace.
    pub(crate) fn begin(&self) -> Instant {
        match self {
            Book::Whole(workload) => workload.origin(),
            Book::Moving(moving) => moving.origin,
        }
    }

    /// Returns the time at which the next task of a stream arrives.
    pub(crate) fn next_arrival(&self) -> Option<Instant> {
        match self {
            Book::Whole(_) => None,
            Book::Moving(moving) => {
                moving.ahead.as_ref().map(|(task, _)| Instant(task.arrival.since(moving.origin).0))
            }
        }
    }

    /// Takes in the tasks that have arrived. Returns whether there were any.
    pub(crate) fn admit(&mut self, now: Instant) -> Result<bool, RunError> {
        let Book::Moving(moving) = self else { return Ok(false) };
        let mut any = false;
        while let Some((task, transfers)) =
            moving.ahead.take_if(|(task, _)| task.arrival.since(moving.origin).0 <= now.0)
        {
            if task.arrival < moving.latest {
                return Err(RunError::OutOfOrder { task: task.name });
            }
            moving.latest = task.arrival;
            moving.window.admit(task, transfers)?;
            moving.ahead = moving.stream.next();
            any = true;
        }
        Ok(any)
    }

    /// Lets go of a task that is done, where only a window is held.
    pub(crate) fn retire(&mut self, task: TaskId) {
        if let Book::Moving(moving) = self
            && moving.reuses
        {
            moving.window.retire(task);
        }
    }

    pub(crate) fn is_moving(&self) -> bool {
        matches!(self, Book::Moving(_))
    }
}
