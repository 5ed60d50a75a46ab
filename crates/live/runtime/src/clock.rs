//! The time as the machines see it: nanoseconds since 1970, which never go back.

use std::io;
use std::os::fd::OwnedFd;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use cavalcade_model::{Instant, Nanos};
use rustix::io::Errno;
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create, timerfd_settime,
};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

/// The time of day at which it was made, and what has passed since by a clock that is never set.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    started: std::time::Instant,
    offset: Duration,
}

impl Default for Clock {
    fn default() -> Self {
        let offset = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Self { started: std::time::Instant::now(), offset }
    }
}

impl Clock {
    /// Now.
    pub fn now(&self) -> Instant {
        Instant((self.offset + self.started.elapsed()).as_nanos() as u64)
    }
}

/// A timer of the kernel for the next thing that a machine has to do.
///
/// Timers of tokio fire up to a millisecond late, and on the way wake the thread for nothing at
/// every boundary of a timer wheel of 64 ms: a third of an agent's wakes were such.
#[derive(Debug)]
pub(crate) struct Alarm {
    clock: Clock,
    timer: AsyncFd<OwnedFd>,
    set_for: Option<Instant>,
}

impl Alarm {
    /// An alarm by `clock`, which is not set.
    ///
    /// # Errors
    /// If the kernel gives no timer.
    pub(crate) fn new(clock: Clock) -> io::Result<Self> {
        let flags = TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC;
        let timer = timerfd_create(TimerfdClockId::Monotonic, flags)?;
        #[expect(unsafe_code, reason = "tokio cannot tell whether a descriptor stays open")]
        // SAFETY: the `AsyncFd` owns the descriptor, and nothing else closes it.
        let timer = unsafe { AsyncFd::register_with_interest(timer, Interest::READABLE) }?;
        Ok(Self { clock, timer, set_for: None })
    }

    /// Waits until `when`, or for ever where there is nothing to wait for. A wait that is given up
    /// may go on with the next call.
    ///
    /// # Errors
    /// If the kernel refuses.
    pub(crate) async fn until(&mut self, when: Option<Instant>) -> io::Result<()> {
        let wait = when.map(|when| when.since(self.clock.now()));
        if wait == Some(Nanos::ZERO) {
            // Others have their turn where something is always due.
            tokio::task::consume_budget().await;
            return Ok(());
        }
        if self.set_for != when {
            self.set(wait.unwrap_or(Nanos::ZERO))?;
            self.set_for = when;
        }
        loop {
            let mut ready = self.timer.readable().await?;
            // Reading the number of expirations clears it. There are none if readiness is left from
            // an earlier setting.
            let rung = rustix::io::read(self.timer.get_ref(), &mut [0; 8]);
            ready.clear_ready();
            match rung {
                Ok(_) => break,
                Err(Errno::AGAIN) => {}
                Err(error) => return Err(error.into()),
            }
        }
        self.set_for = None;
        Ok(())
    }

    /// Has the timer ring once, or never where `wait` is zero.
    fn set(&self, wait: Nanos) -> io::Result<()> {
        let (seconds, nanos) = (wait.0 / 1_000_000_000, wait.0 % 1_000_000_000);
        let once = Timespec { tv_sec: 0, tv_nsec: 0 };
        let it_value = Timespec { tv_sec: seconds as _, tv_nsec: nanos as _ };
        let setting = Itimerspec { it_interval: once, it_value };
        timerfd_settime(self.timer.get_ref(), TimerfdTimerFlags::empty(), &setting)?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How long one wait for each of these times from now takes, one after the other, where it
    /// comes before `patience`.
    async fn waits(alarm: &mut Alarm, after: Option<Nanos>, patience: Duration) -> Option<Duration> {
        let began = std::time::Instant::now();
        let when = after.map(|after| alarm.clock.now() + after);
        let rung = tokio::time::timeout(patience, alarm.until(when)).await;
        rung.ok().map(|rung| rung.map(|()| began.elapsed()).unwrap())
    }

    /// Begins to wait for a time from now and gives up at once; again where the machine was so busy
    /// that the time had come.
    async fn gives_up(alarm: &mut Alarm, after: Nanos) {
        while waits(alarm, Some(after), Duration::ZERO).await.is_some() {}
    }

    #[test]
    fn an_alarm_rings_once_and_not_before_the_last_time_it_was_set_for() {
        let (brief, long) = (Nanos::from_millis(5), Duration::from_secs(60));
        crate::block_on(async {
            let mut alarm = Alarm::new(Clock::default())?;
            assert!(
                waits(&mut alarm, Some(Nanos::ZERO), long).await.is_some(),
                "what is past is not waited for"
            );
            assert!(waits(&mut alarm, Some(brief), long).await.unwrap() >= Duration::from_nanos(brief.0));
            // A timer that expires after its wait was cancelled does not cut the next wait short.
            let later = Duration::from_millis(20);
            gives_up(&mut alarm, brief).await;
            std::thread::sleep(later);
            assert!(waits(&mut alarm, Some(Nanos(later.as_nanos() as u64)), long).await.unwrap() >= later);
            // Nor does one that was disarmed; and a later setting does not hold up an earlier one.
            gives_up(&mut alarm, brief).await;
            assert_eq!(waits(&mut alarm, None, later).await, None);
            gives_up(&mut alarm, Nanos::from_secs(50)).await;
            assert!(waits(&mut alarm, Some(brief), long).await.unwrap() < Duration::from_secs(50));
            Ok(())
        })
        .unwrap();
    }
}
