//! The kernel's virtual queues as Rust, to hold `drain` of `bpf/switch.bpf.c` to: two classes that
//! a link empties, of bytes that are not there.

use cavalcade_model::{BitsPerSec, Instant};

use crate::port::{LATE, PLAIN_SHARE};

/// Bits times nanoseconds of a byte a second.
const BYTE: u128 = 8_000_000_000;

/// The queues of a port.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Queues {
    pub(crate) spc: u64,
    pub(crate) plain: u64,
    at: Instant,
    fraction: u128,
}

impl Queues {
    /// Takes out what a link has carried: SPC first, one part in [`PLAIN_SHARE`] for the other.
    pub(crate) fn drain(&mut self, now: Instant, rate: BitsPerSec) {
        let sum = u128::from(now.since(self.at).get()) * u128::from(rate.get()) + self.fraction;
        self.at = self.at.max(now);
        let carried = u64::try_from(sum / BYTE).unwrap_or(u64::MAX);
        self.fraction = sum % BYTE;
        let plain = self.plain.min(carried / PLAIN_SHARE);
        let spc = self.spc.min(carried - plain);
        self.spc -= spc;
        let plain = self.plain.min(carried - spc);
        self.plain -= plain;
        if self.spc + self.plain == 0 {
            // What a link does not use is gone, but for the time that it may catch up with.
            self.fraction = 0;
            let unused = u128::from(carried - spc - plain) * BYTE / u128::from(rate.get());
            let unused = u64::try_from(unused).unwrap_or(u64::MAX).min(LATE.get());
            self.at = Instant(self.at.get().saturating_sub(unused));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RATE: BitsPerSec = BitsPerSec(80_000_000);

    #[test]
    fn a_link_carries_spc_first_and_a_part_of_the_rest_and_no_fraction_is_lost() {
        let mut queues = Queues { spc: 100_000, plain: 100_000, ..Queues::default() };
        // 10 bytes in a microsecond.
        queues.drain(Instant(1_600_000), RATE);
        assert_eq!((queues.spc, queues.plain), (85_000, 99_000));
        for step in 1..=1_000 {
            queues.drain(Instant(1_600_000 + step * 150), RATE);
        }
        assert!(85_000 + 99_000 - queues.spc - queues.plain == 1_500, "{queues:?}");
        queues.drain(Instant(1_000_000_000), RATE);
        assert_eq!((queues.spc, queues.plain), (0, 0));
    }

    #[test]
    fn a_link_catches_up_with_a_millisecond_and_no_more() {
        let mut queues = Queues::default();
        queues.drain(Instant(5_000_000_000), RATE);
        queues.spc = 30_000;
        queues.drain(Instant(5_000_000_000), RATE);
        assert_eq!(queues.spc, 20_000);
        queues.drain(Instant(5_001_000_000), RATE);
        assert_eq!(queues.spc, 10_000);
    }

    #[test]
    fn who_is_alone_has_the_whole_link() {
        let mut queues = Queues { plain: 100_000, ..Queues::default() };
        queues.drain(Instant(1_000_000), RATE);
        assert_eq!(queues.plain, 90_000);
        let mut queues = Queues { spc: 100_000, ..Queues::default() };
        queues.drain(Instant(1_000_000), RATE);
        assert_eq!(queues.spc, 90_000);
    }
}
