//! Waiting for a condition, however slow the machine is.

use std::fmt::Display;
use std::time::{Duration, Instant};

/// How long to look before a test fails.
const PATIENCE: Duration = Duration::from_secs(60);
/// The time between two looks.
const PAUSE: Duration = Duration::from_millis(2);

/// Waits until `holds` does.
///
/// # Panics
/// If it does not within a minute; the message names `what`.
pub fn eventually(what: impl Display, mut holds: impl FnMut() -> bool) {
    eventually_some(what, || holds().then_some(()));
}

/// Waits until `look` finds something, and returns it.
///
/// # Panics
/// If it finds nothing within a minute; the message names `what`.
pub fn eventually_some<T>(what: impl Display, mut look: impl FnMut() -> Option<T>) -> T {
    let began = Instant::now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(began.elapsed() < PATIENCE, "{what}: never within a minute");
        std::thread::sleep(PAUSE);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_first_successful_look_finds_is_returned() {
        let mut looks = 0..;
        assert_eq!(eventually_some("three", || looks.next().filter(|&look| look == 3)), 3);
        eventually("more", || looks.next() > Some(5));
        assert_eq!(looks.start, 7);
    }
}
