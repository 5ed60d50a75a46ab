//! Going before other threads: on a machine whose processors are all busy, an ordinary thread waits
//! tens of milliseconds for its turn, and a flow whose gate has opened would wait with it.
//!
//! The highest *nice* level does not help enough: with it, ON took 7 ms at the median and 32 ms at
//! p99 where real-time scheduling gives 2.3 and 3.0 (the same walk, two cores, 11 to 20 threads
//! that wanted them).

/// Has the calling thread scheduled before all ordinary ones, and in turn with others like it,
/// unless a real-time policy was given to it already (`chrt`), which stays. Returns whether it goes
/// first: that takes root or CAP_SYS_NICE, and without it everything only takes longer.
pub(crate) fn go_first() -> bool {
    #[expect(unsafe_code, reason = "neither the standard library nor rustix has this call")]
    // SAFETY: the kernel reads nothing of ours.
    let current = unsafe { libc::sched_getscheduler(0) } & !libc::SCHED_RESET_ON_FORK;
    if [libc::SCHED_FIFO, libc::SCHED_RR, libc::SCHED_DEADLINE].contains(&current) {
        return true;
    }
    let lowest = libc::sched_param { sched_priority: 1 };
    // What this thread starts is ordinary again.
    let policy = libc::SCHED_RR | libc::SCHED_RESET_ON_FORK;
    #[expect(unsafe_code, reason = "neither the standard library nor rustix has this call")]
    // SAFETY: the kernel reads the parameter, which outlives the call, and changes nothing but this
    // thread's scheduling.
    let result = unsafe { libc::sched_setscheduler(0, policy, &raw const lowest) };
    result == 0
}

#[cfg(test)]
mod tests {
    use super::go_first;

    #[test]
    fn a_real_time_priority_that_was_given_stays() {
        // On a thread of its own, since that is what the kernel schedules.
        let kept = std::thread::spawn(|| {
            let given = libc::sched_param { sched_priority: 7 };
            #[expect(unsafe_code, reason = "neither the standard library nor rustix has these calls")]
            // SAFETY: both parameters outlive the calls, which concern this thread alone.
            unsafe {
                if libc::sched_setscheduler(0, libc::SCHED_FIFO, &raw const given) != 0 {
                    return None;
                }
                assert!(go_first());
                let mut now = libc::sched_param { sched_priority: 0 };
                assert_eq!(libc::sched_getparam(0, &raw mut now), 0);
                Some((libc::sched_getscheduler(0), now.sched_priority))
            }
        });
        match kept.join().expect("it does not panic") {
            Some(kept) => assert_eq!(kept, (libc::SCHED_FIFO, 7)),
            None => cavalcade_testing::skipped("root or CAP_SYS_NICE"),
        }
    }
}
