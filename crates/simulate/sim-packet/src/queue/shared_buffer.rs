//! What can wait: a buffer of its own for each port, or a share of the switch's.
//!
//! A shared buffer has a dynamic threshold (Choudhury, Hahne, ToN 1998): a queue may hold α times
//! what is free in the whole switch. One busy port may take much of it, many busy ports get little
//! each, and a part always stays free for the next.

use cavalcade_model::Bytes;

/// The factor of a dynamic threshold, as a fraction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Alpha {
    /// Above the line.
    pub numerator: u32,
    /// Below the line; never zero.
    pub denominator: u32,
}

impl Alpha {
    /// Returns whether it is no share at all.
    pub fn is_zero(&self) -> bool {
        self.numerator == 0 || self.denominator == 0
    }

    fn of(&self, bytes: u64) -> u64 {
        (u128::from(bytes) * u128::from(self.numerator) / u128::from(self.denominator.max(1))) as u64
    }
}

/// Buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Buffer {
    /// So much at each port.
    PerPort(Bytes),
    /// So much at all ports of a switch; each queue at most `alpha` times what is free.
    Shared {
        /// The buffer of a switch.
        total: Bytes,
        /// The factor of the dynamic threshold.
        alpha: Alpha,
    },
}

impl Buffer {
    /// The most that one port can hold.
    pub fn per_port(&self) -> Bytes {
        match *self {
            Buffer::PerPort(bytes) => bytes,
            Buffer::Shared { total, .. } => total,
        }
    }

    /// Returns whether `size` more bytes may wait at a port that holds `port`, in a queue that
    /// holds `queue`. Takes them from the `shared` buffer if there is one.
    pub(crate) fn admits(&self, size: u64, port: u64, queue: u64, shared: Option<&mut SharedBuffer>) -> bool {
        match (*self, shared) {
            (Buffer::Shared { total, alpha }, Some(shared)) => {
                let free = total.get() - shared.used;
                let admitted = size <= free && queue + size <= alpha.of(free);
                if admitted {
                    shared.used += size;
                }
                admitted
            }
            (Buffer::PerPort(limit) | Buffer::Shared { total: limit, .. }, _) => port + size <= limit.get(),
        }
    }
}

/// The buffer of one switch.
#[derive(Clone, Debug, Default)]
pub(crate) struct SharedBuffer {
    pub(crate) used: u64,
}

impl SharedBuffer {
    /// `size` bytes have left.
    pub(crate) fn leave(&mut self, size: u64) {
        self.used -= size;
    }
}
