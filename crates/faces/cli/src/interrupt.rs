//! What an interrupt (Ctrl-C) or a termination does: it ends the program cleanly, or, once, a
//! search that can be stopped.
//!
//! A search for a bound has a valid result at any time. A user who interrupts it has seen enough
//! and wants that result; a second interrupt means the program. A comparison whose runs are kept is
//! the same: runs that are done are worth having.

use std::sync::atomic::{AtomicBool, Ordering};

use cavalcade::output;

/// The exit code after an interrupt.
const INTERRUPTED: i32 = 130;

/// True if the next interrupt is for the running search.
static FOR_SEARCH: AtomicBool = AtomicBool::new(false);
/// True if the search was interrupted.
static STOPPED: AtomicBool = AtomicBool::new(false);

/// From now on an interrupt removes what is half-written and ends the program with code 130.
pub(crate) fn clean_up() {
    // Without the handler the program works, and dies of the signal as others do.
    let _ = ctrlc::set_handler(|| {
        if !polled_by_search() {
            output::remove_pending();
            std::process::exit(INTERRUPTED);
        }
    });
}

/// Gives an interrupt to the search, where one runs that has not had one yet.
fn polled_by_search() -> bool {
    let heard = FOR_SEARCH.swap(false, Ordering::SeqCst);
    if heard {
        STOPPED.store(true, Ordering::SeqCst);
    }
    heard
}

/// Calls `search`, which asks now and then whether it was interrupted, with a way to ask.
pub(crate) fn stops<T>(search: impl FnOnce(&dyn Fn() -> bool) -> T) -> T {
    STOPPED.store(false, Ordering::SeqCst);
    FOR_SEARCH.store(true, Ordering::SeqCst);
    let result = search(&|| STOPPED.load(Ordering::SeqCst));
    FOR_SEARCH.store(false, Ordering::SeqCst);
    result
}

/// True once what `stops` calls was interrupted.
pub(crate) fn flag() -> &'static AtomicBool {
    &STOPPED
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_interrupt_stops_the_search_and_all_others_mean_the_program() {
        assert!(!polled_by_search());
        stops(|asked| {
            assert!(!asked());
            assert!(polled_by_search());
            assert!(asked());
            assert!(!polled_by_search());
        });
        stops(|asked| assert!(!asked(), "a search is not stopped by what was meant for one before it"));
        assert!(!polled_by_search());
    }
}
