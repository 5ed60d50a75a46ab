//! What coflows are called across hosts, and what is known of them from the start.

use cavalcade_model::{Bytes, Instant, TaskClass};

use super::bytes::fields;

/// The name of a coflow: the same on every host, and unique.
///
/// Comparing keys compares Aalo's external.internal CoflowIds (Pseudocode 2): task first, then depth in the task's DAG.
/// Aalo gives two stages of equal depth the same id; here `serial` tells them apart, in the order in which they were
/// registered. Tasks and serials are numbers of task counters, which grow with time (Baraat §4.1).
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
    /// The key of a coflow registered as number `serial` that starts after `parents` (all of one task; of several tasks
    /// the oldest counts).
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

/// The serial as the distance from the task's number, since a task's first coflow has the distance 0. It wraps: any pair
/// of numbers has exactly one form.
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

fields! {
    /// What the application said of a coflow when it registered it. Times are by the clock of the host where it did, so
    /// that all hosts have the same ones, whatever their clocks say.
    #[derive(Copy)]
    Facts ("the facts of a coflow") {
        /// When it was registered.
        arrival: Instant,
        /// When its task should be done.
        deadline: Option<Instant>,
        /// Its bytes, if the application knows them.
        size: Option<Bytes>,
        /// Who waits for it.
        class: TaskClass,
        /// Its task's weight.
        weight: u32,
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
    fn the_text_of_a_key_is_read_back() {
        let key = CoflowKey { task: 7, stage: 2, serial: u64::MAX };
        assert_eq!(key.to_string().parse(), Ok(key));
        assert!("7.2".parse::<CoflowKey>().is_err() && "7.2.1.0".parse::<CoflowKey>().is_err());
    }
}
