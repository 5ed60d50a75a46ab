//! The size of one message: no more than its receiver accepts at once, and no more than the line
//! carries beside data.
//!
//! A host's line carries messages and data. A message that takes it for longer than a period comes
//! late, and so does all that waits behind it; after some of them in a row leases expire though
//! every component is alive. So each has half of what the line carries in a period at most. Sizes
//! are those of the longest encoding of an item: never too small, and no message is written twice
//! to find out.

use cavalcade_model::{BitsPerSec, Nanos};

/// The least that a message may have, however slow the line: else a snapshot would never end.
const LEAST: usize = 16 << 10;

/// The room that is left in a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Room {
    items: usize,
    bytes: usize,
}

impl Room {
    /// The room for so many items on a line of this rate, where a message comes each period.
    pub(crate) fn new(items: usize, line: BitsPerSec, period: Nanos) -> Self {
        let half = u128::from(line.0) * u128::from(period.0) / (2 * 8 * 1_000_000_000);
        Self { items, bytes: usize::try_from(half).unwrap_or(usize::MAX).max(LEAST) }
    }

    /// Returns whether something more goes in: the last item may take more than is left.
    pub(crate) fn is_left(self) -> bool {
        self.items > 0 && self.bytes > 0
    }

    /// Takes room for so many items of so many bytes each.
    pub(crate) fn take(&mut self, items: usize, bytes: usize) {
        self.items = self.items.saturating_sub(items);
        self.bytes = self.bytes.saturating_sub(items.saturating_mul(bytes));
    }

    /// Returns how many items of so many bytes each go in.
    pub(crate) fn for_items(self, bytes: usize) -> usize {
        self.items.min(self.bytes.div_ceil(bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_has_half_of_what_the_line_carries_in_a_period_and_is_never_too_short_to_get_on() {
        let period = Nanos::from_millis(10);
        // 10 ms of 40 Mbps are 50 KB.
        assert_eq!(Room::new(8_192, BitsPerSec(40_000_000), period).for_items(100), 250);
        assert_eq!(Room::new(8_192, BitsPerSec(1_000_000_000), period).for_items(100), 6_250);
        assert_eq!(Room::new(8_192, BitsPerSec(u64::MAX), Nanos(u64::MAX)).for_items(100), 8_192);
        assert_eq!(Room::new(8_192, BitsPerSec(0), period).for_items(LEAST), 1);
        let mut room = Room::new(3, BitsPerSec(0), period);
        room.take(2, 1);
        assert!(room.is_left());
        room.take(1, 1);
        assert!(!room.is_left());
    }
}
