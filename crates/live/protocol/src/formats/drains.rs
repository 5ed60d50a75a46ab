//! Drains: flows that go as plain TCP because a person wants it, and who wanted it, since when, and
//! why.
//!
//! Coordinators seal the list beside the kill switch ([`Standing`](crate::Standing)), so that
//! neither a restart nor another leader lifts a drain. So it is short: texts are [`Remark`]s, and
//! there are at most [`Drain::MOST`].

use cavalcade_model::{Instant, PortId};

use super::bytes::{Field, Reader, fields, put_varint, variants};
use super::error::WireError;
use super::names::CoflowKey;

variants! {
    /// The flows that go as plain TCP.
    #[derive(Copy, PartialOrd, Ord)]
    Drained ("what is drained") {
        /// All: of a coordinator those of the fabric, of an agent those of its host.
        0 => All {},
        /// Those that leave a host.
        1 => Host {
            /// Its port.
            port: PortId,
        },
        /// Those of a user's coflows.
        2 => User {
            /// The number that hosts have for the user.
            user: u32,
        },
        /// Those of a coflow.
        3 => Coflow {
            /// Its key.
            key: CoflowKey,
        },
    }
}

fields! {
    /// A drain.
    Drain ("a drain") {
        /// The flows that go as plain TCP.
        what: Drained,
        /// Time at which it began.
        since: Instant,
        /// The administrator who asked for it.
        who: Remark,
        /// Why.
        reason: Remark,
    }
}

impl Drain {
    /// The most drains that hold at once, beside that of everything.
    pub const MOST: usize = 15;
}

/// A short text of a person: 100 bytes at most, without control characters, which would forge lines
/// of a log.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Remark(String);

/// Why a text is no remark.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RemarkError {
    /// It is too long.
    #[error("it has {0} bytes and may have {most}: say it in fewer words", most = Remark::LONGEST)]
    Long(usize),
    /// It has line ends or other control characters.
    #[error("it has the control character {0:?}: write it on one line")]
    Control(char),
}

impl Remark {
    /// The length of the longest, in bytes.
    pub const LONGEST: usize = 100;

    /// A remark.
    ///
    /// # Errors
    /// If the text is too long or has control characters.
    pub fn new(text: &str) -> Result<Self, RemarkError> {
        if text.len() > Self::LONGEST {
            return Err(RemarkError::Long(text.len()));
        }
        match text.chars().find(|letter| letter.is_control()) {
            Some(letter) => Err(RemarkError::Control(letter)),
            None => Ok(Self(text.to_owned())),
        }
    }

    /// Its text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl Field for Remark {
    const NAME: &'static str = "a remark";

    fn put(&self, out: &mut Vec<u8>) {
        put_varint(self.0.len() as u64, out);
        out.extend_from_slice(self.0.as_bytes());
    }

    fn take(reader: &mut Reader<'_>) -> Result<Self, WireError> {
        let length = reader.varint(Self::NAME, Self::LONGEST as u64)? as usize;
        let bytes = reader.raw(length, Self::NAME)?;
        let text = core::str::from_utf8(bytes).ok().and_then(|text| Self::new(text).ok());
        text.ok_or_else(|| reader.invalid(Self::NAME, length, "UTF-8 without control characters"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{KillSwitch, Message, Sealed, Standing};

    #[test]
    fn a_remark_that_could_forge_a_line_of_a_log_or_fill_a_message_is_refused() {
        assert_eq!(Remark::new("new switches"), Ok(Remark("new switches".to_owned())));
        assert_eq!(Remark::new("a\nb"), Err(RemarkError::Control('\n')));
        assert_eq!(Remark::new(&"é".repeat(51)), Err(RemarkError::Long(102)));
        assert!(Remark::decode(b"\x03a\nb").is_err());
    }

    #[test]
    fn the_longest_standing_has_room_for_its_seal() {
        let most = u64::MAX;
        let long = Remark::new(&"x".repeat(Remark::LONGEST)).unwrap();
        let key = CoflowKey { task: most, stage: u16::MAX, serial: most - 1 };
        let what = Drained::Coflow { key };
        let drain = Drain { what, since: Instant(most), who: long.clone(), reason: long };
        let switch = Some(KillSwitch { term: most, throw: most, is_on: true });
        let standing = Standing { term: most, switch, drains: vec![drain; Drain::MOST + 1] };
        assert!(standing.to_bytes().len() + 64 <= Sealed::LONGEST, "{}", standing.to_bytes().len());
        assert_eq!(Standing::decode(&standing.to_bytes()), Ok(standing));
    }
}
