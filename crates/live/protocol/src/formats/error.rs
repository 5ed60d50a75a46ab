//! What can be wrong with bytes from outside.

/// Why bytes are no message.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WireError {
    /// The bytes end inside a field.
    #[error(
        "the message ends at byte {at}, inside {field}: the sender was cut off or is no Cavalcade program"
    )]
    Truncated {
        /// Offset from the start of the message.
        at: usize,
        /// The field being read.
        field: &'static str,
    },
    /// A field holds what it must not.
    #[error("{field} at byte {at} is not valid: {expected} was expected")]
    Invalid {
        /// Offset from the start of the message.
        at: usize,
        /// The field being read.
        field: &'static str,
        /// The accepted values.
        expected: &'static str,
    },
    /// Bytes are left over behind the message.
    #[error("the message is over at byte {at}, but {left} more follow: is the sender of another version?")]
    TrailingBytes {
        /// Offset of the message's end.
        at: usize,
        /// Number of bytes that follow.
        left: usize,
    },
    /// The other side speaks another version.
    #[error(
        "the other side speaks version {theirs} of the protocol, this program {ours}: install the same release on both"
    )]
    Version {
        /// Theirs.
        theirs: u16,
        /// Ours.
        ours: u16,
    },
    /// A frame is longer than any message.
    #[error(
        "a frame of {length} bytes was announced, at most {limit} are accepted: the sender is no Cavalcade program"
    )]
    FrameTooLong {
        /// The announced length.
        length: u64,
        /// The accepted length.
        limit: usize,
    },
}
