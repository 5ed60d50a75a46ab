//! Rolling logs: a folder `eventlog_v2_<application>` in which Spark starts a new file whenever one is full.
//!
//! Files are `events_<number>_<application>`, numbered from 1, each compressed on its own (`….zstd`). The history server
//! may have replaced the oldest by one that ends in `.compact` and stands for itself and all before it.
//! `appstatus_<application>` is empty and tells by its name whether the application still runs.

/// Reason that the files of a folder are not a rolling log.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RollingError {
    /// No file has the name of one.
    #[error(
        "the folder has no file events_1_…, expected a rolling event log of Spark (a folder eventlog_v2_…): name that folder or a file"
    )]
    NoFiles,
    /// A number is left out.
    #[error(
        "the folder has no file events_{missing}_…, but later ones: copy the log again, with all of its files"
    )]
    Missing {
        /// The number.
        missing: u64,
    },
    /// A number occurs twice.
    #[error(
        "the folder has two files events_{number}_…, expected one: keep the logs of two applications apart"
    )]
    Twice {
        /// The number.
        number: u64,
    },
}

/// The number in the name of a file of a rolling log, and whether it stands for those before it.
fn parse(name: &str) -> Option<(u64, bool)> {
    let (number, rest) = name.strip_prefix("events_")?.split_once('_')?;
    if rest.is_empty() || !number.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    Some((number.parse().ok()?, rest.ends_with(".compact")))
}

/// Returns whether a file of that name may be part of a rolling log.
pub fn is_rolling_name(name: &str) -> bool {
    parse(name).is_some()
}

/// Finds the files of a folder that make up a rolling log, as indices into `names`, in order.
///
/// # Errors
/// If there are none, or not all.
pub fn rolling_order<S: AsRef<str>>(names: &[S]) -> Result<Vec<usize>, RollingError> {
    let mut files: Vec<((u64, bool), usize)> = names
        .iter()
        .enumerate()
        .filter_map(|(index, name)| parse(name.as_ref()).map(|key| (key, index)))
        .collect();
    files.sort_unstable();
    if let Some(pair) = files.windows(2).find(|pair| pair[0].0 == pair[1].0) {
        return Err(RollingError::Twice { number: pair[0].0.0 });
    }
    let compacted = files.iter().rposition(|((_, compact), _)| *compact);
    let files = &files[compacted.unwrap_or(0)..];
    let first = files.first().ok_or(RollingError::NoFiles)?.0.0;
    if compacted.is_none() && first > 1 {
        return Err(RollingError::Missing { missing: 1 });
    }
    match files.iter().zip(first..).find(|((key, _), expected)| key.0 != *expected) {
        Some((_, missing)) => Err(RollingError::Missing { missing }),
        None => Ok(files.iter().map(|&(_, index)| index).collect()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_read_by_number_and_others_are_not() {
        let names = ["events_10_a.zstd", "appstatus_a", "events_9_a.zstd", "events_x_a", "events_11_a.zstd"];
        assert_eq!(rolling_order(&names), Err(RollingError::Missing { missing: 1 }));
        let names = ["events_2_a", "notes.txt", "events_1_a"];
        assert_eq!(rolling_order(&names), Ok(vec![2, 0]));
        assert_eq!(rolling_order::<&str>(&[]), Err(RollingError::NoFiles));
    }

    #[test]
    fn a_compacted_file_stands_for_all_before_it() {
        let names = ["events_1_a", "events_2_a", "events_2_a.compact", "events_3_a"];
        assert_eq!(rolling_order(&names), Ok(vec![2, 3]));
        assert_eq!(rolling_order(&["events_7_a.compact", "events_8_a"]), Ok(vec![0, 1]));
    }

    #[test]
    fn a_gap_and_a_number_given_twice_are_refused() {
        assert_eq!(rolling_order(&["events_1_a", "events_3_a"]), Err(RollingError::Missing { missing: 2 }));
        assert_eq!(rolling_order(&["events_1_a", "events_1_b"]), Err(RollingError::Twice { number: 1 }));
    }
}
