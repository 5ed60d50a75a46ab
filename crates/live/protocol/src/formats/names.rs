//! What coflows are called across hosts, and what is known of them from the start.
//!
//! A coflow has a [`CoflowKey`], which the system makes and which is unique, and may have a
//! [`CoflowName`], which its application chose for people to read. Beside what people see only one
//! thing goes by names: which coflows are runs of the same job ([`CoflowName::job`]), for a policy
//! that learns from earlier runs.

use core::num::NonZeroU8;

use cavalcade_model::{Bytes, Instant, JobId, TaskClass};

use super::bytes::fields;

/// The key of a coflow: the same on every host, and unique.
///
/// Comparing keys compares Aalo's external.internal CoflowIds (Pseudocode 2): task first, then
/// depth in the task's DAG. Aalo gives two stages of equal depth the same id; here `serial` tells
/// them apart, in the order in which they were registered. Tasks and serials are numbers of task
/// counters, which grow with time (Baraat §4.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CoflowKey {
    /// The task: the serial of its first coflow.
    pub task: u64,
    /// One more than the largest stage among its parents; 0 without parents.
    pub stage: u16,
    /// The number that it got when it was registered.
    pub serial: u64,
}

impl CoflowKey {
    /// The key of a coflow registered as number `serial` that starts after `parents` (all of one
    /// task; of several tasks the oldest counts).
    pub fn new(serial: u64, parents: &[CoflowKey]) -> Self {
        let task = parents.iter().map(|parent| parent.task).min().unwrap_or(serial);
        let stage = parents.iter().map(|parent| parent.stage.saturating_add(1)).max().unwrap_or(0);
        Self { task, stage, serial }
    }
}

/// `task.stage.serial`, as applications pass it on.
impl core::fmt::Display for CoflowKey {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "{}.{}.{}", self.task, self.stage, self.serial)
    }
}

impl core::str::FromStr for CoflowKey {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let mut parts = text.split('.');
        let mut next = || parts.next().ok_or(());
        let task = next()?.parse().map_err(|_| ())?;
        let stage = next()?.parse().map_err(|_| ())?;
        let serial = next()?.parse().map_err(|_| ())?;
        if parts.next().is_some() { Err(()) } else { Ok(Self { task, stage, serial }) }
    }
}

/// The serial as the distance from the task's number, since a task's first coflow has the
/// distance 0. It wraps: any pair of numbers has exactly one form.
impl crate::formats::bytes::Field for CoflowKey {
    const NAME: &'static str = "a coflow's key";
    fn put(&self, out: &mut Vec<u8>) {
        self.task.put(out);
        self.stage.put(out);
        self.serial.wrapping_sub(self.task).put(out);
    }
    fn take(reader: &mut crate::formats::bytes::Reader<'_>) -> Result<Self, crate::WireError> {
        let (task, stage) = (u64::take(reader)?, u16::take(reader)?);
        Ok(Self { task, stage, serial: task.wrapping_add(u64::take(reader)?) })
    }
}

/// The name that an application gave to a coflow, for people: several coflows may have the same
/// one.
///
/// 1 to 39 letters, digits or `-_.:/@+` of ASCII, the first a letter: it is typed in a shell as it
/// is, and no key is a name. It is stored in place, so that the facts of a coflow can be copied.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CoflowName {
    bytes: [u8; CoflowName::LONGEST],
    length: NonZeroU8,
}

/// Why a text is no name of a coflow.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{0:?} is no name of a coflow: expected 1 to 39 letters, digits or -_.:/@+, the first a letter, as sort-7"
)]
pub struct NameError(String);

impl CoflowName {
    /// The length of the longest name.
    pub const LONGEST: usize = 39;

    fn read(text: &[u8]) -> Option<Self> {
        let is_name = text.first().is_some_and(u8::is_ascii_alphabetic)
            && text.iter().all(|byte| byte.is_ascii_alphanumeric() || b"-_.:/@+".contains(byte));
        let mut bytes = [0; Self::LONGEST];
        bytes.get_mut(..text.len()).filter(|_| is_name)?.copy_from_slice(text);
        Some(Self { bytes, length: NonZeroU8::new(text.len() as u8)? })
    }

    /// Returns the recurring job that a coflow of this name belongs to: coflows are of one job if
    /// their names differ at most in a number at the end and the sign before it, as `sort-7` and
    /// `sort-8`. The number of a job is a hash of what is left (FNV-1a).
    pub fn job(&self) -> JobId {
        let name = self.as_str().trim_end_matches(|end: char| end.is_ascii_digit());
        let name = name.trim_end_matches(|end: char| !end.is_ascii_alphanumeric());
        let mix = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
        JobId(name.as_bytes().iter().fold(0xcbf2_9ce4_8422_2325, mix))
    }

    /// The name as text.
    pub fn as_str(&self) -> &str {
        core::str::from_utf8(&self.bytes[..usize::from(self.length.get())]).expect("a name is ASCII")
    }
}

impl core::fmt::Debug for CoflowName {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "{:?}", self.as_str())
    }
}

impl core::fmt::Display for CoflowName {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(self.as_str())
    }
}

impl core::str::FromStr for CoflowName {
    type Err = NameError;

    fn from_str(text: &str) -> Result<Self, NameError> {
        // What is refused may be of any length, the message may not.
        Self::read(text.as_bytes()).ok_or_else(|| NameError(text.chars().take(2 * Self::LONGEST).collect()))
    }
}

/// The length, then the bytes.
impl crate::formats::bytes::Field for CoflowName {
    const NAME: &'static str = "a coflow's name";
    fn put(&self, out: &mut Vec<u8>) {
        out.push(self.length.get());
        out.extend_from_slice(self.as_str().as_bytes());
    }
    fn take(reader: &mut crate::formats::bytes::Reader<'_>) -> Result<Self, crate::WireError> {
        let length = reader.varint(Self::NAME, Self::LONGEST as u64)? as usize;
        let bytes = reader.raw(length, Self::NAME)?;
        let expected = "letters, digits or -_.:/@+, the first a letter";
        Self::read(bytes).ok_or_else(|| reader.invalid(Self::NAME, length, expected))
    }
}

fields! {
    /// The facts of a coflow as its application registered it. Times are by the clock of the host
    /// where it did, so that all hosts have the same ones, whatever their clocks say.
    #[derive(Copy)]
    Facts ("the facts of a coflow") {
        /// Time at which it was registered.
        arrival: Instant,
        /// Time at which its task should be done.
        deadline: Option<Instant>,
        /// Its bytes, if the application knows them.
        size: Option<Bytes>,
        /// Class of its task.
        class: TaskClass,
        /// Its task's weight.
        weight: u32,
        /// Its application's name for it.
        name: Option<CoflowName>,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_coflow_stands_behind_its_parents_and_before_later_tasks() {
        let scan = CoflowKey::new(10, &[]);
        let other = CoflowKey::new(20, &[]);
        let join = CoflowKey::new(30, &[scan]);
        let sum = CoflowKey::new(40, &[scan, join]);
        assert!(scan < join && join < sum && sum < other);
        assert_eq!((sum.task, sum.stage), (10, 2));
    }

    #[test]
    fn two_children_of_one_parent_differ() {
        let parent = CoflowKey::new(10, &[]);
        assert_ne!(CoflowKey::new(11, &[parent]), CoflowKey::new(12, &[parent]));
    }

    #[test]
    fn a_name_is_short_text_without_blanks_that_begins_with_a_letter() {
        let longest = "s".repeat(CoflowName::LONGEST);
        for name in ["s", "sort-7", "query72/stage3@worker-1", &longest] {
            assert_eq!(name.parse::<CoflowName>().map(|name| name.to_string()), Ok(name.to_owned()));
        }
        let too_long = longest + "s";
        for text in ["", "7", "7.0.7", "-s", "a b", "größe", "a\n", "a\0", &too_long] {
            assert!(text.parse::<CoflowName>().is_err(), "{text:?}");
        }
        let error = "x y".parse::<CoflowName>().unwrap_err().to_string();
        assert!(error.contains("\"x y\"") && error.contains("as sort-7"), "{error}");
    }

    #[test]
    fn the_text_of_a_key_is_read_back() {
        let key = CoflowKey { task: 7, stage: 2, serial: u64::MAX };
        assert_eq!(key.to_string().parse(), Ok(key));
        assert!("7.2".parse::<CoflowKey>().is_err() && "7.2.1.0".parse::<CoflowKey>().is_err());
    }
}
