//! Logs that are spread over the files of a folder.
//!
//! Spark's rolling log is a folder `eventlog_v2_<application>`, in which a new file is begun
//! whenever one is full: `events_<number>_<application>`, numbered from 1, each compressed on its
//! own (`….zstd`). The history server may have replaced the oldest by one that ends in `.compact`
//! and stands for itself and all before it. `appstatus_<application>` is empty and tells by its
//! name whether the application still runs.
//!
//! Databricks begins a new file now and then as well: the present one is `eventlog`, those before
//! it are called after the time at which they ended, `eventlog-2024-05-31--14-50.gz`.

/// Reason that the files of a folder are not a whole log.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RollingError {
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
        "the folder has two files events_{number}_…, expected one: keep the logs of two applications apart, each in a folder of its own"
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

/// Finds the files of a folder that make up one log, as indices into `names`, in order; `None` if
/// it is no folder of one log.
///
/// # Errors
/// If it is one, and not all of its files are there.
pub fn files_of_log<S: AsRef<str>>(names: &[S]) -> Result<Option<Vec<usize>>, RollingError> {
    let mut files: Vec<((u64, bool), usize)> = names
        .iter()
        .enumerate()
        .filter_map(|(index, name)| parse(name.as_ref()).map(|key| (key, index)))
        .collect();
    files.sort_unstable();
    if files.is_empty() {
        return Ok(of_databricks(names));
    }
    if let Some(pair) = files.windows(2).find(|pair| pair[0].0 == pair[1].0) {
        return Err(RollingError::Twice { number: pair[0].0.0 });
    }
    let compacted = files.iter().rposition(|((_, compact), _)| *compact);
    let files = &files[compacted.unwrap_or(0)..];
    let first = files[0].0.0;
    if compacted.is_none() && first > 1 {
        return Err(RollingError::Missing { missing: 1 });
    }
    match files.iter().zip(first..).find(|((key, _), expected)| key.0 != *expected) {
        Some((_, missing)) => Err(RollingError::Missing { missing }),
        None => Ok(Some(files.iter().map(|&(_, index)| index).collect())),
    }
}

/// The files of a log of Databricks: by time, the present one last.
fn of_databricks<S: AsRef<str>>(names: &[S]) -> Option<Vec<usize>> {
    // Letters for digits: the names sort by time.
    let is_time = |time: &str| {
        let form = "dddd-dd-dd--dd-dd".bytes();
        let fits = |(form, byte): (u8, u8)| if form == b'd' { byte.is_ascii_digit() } else { byte == form };
        time.len() >= form.len() && form.zip(time.bytes()).all(fits)
    };
    let key = |name: &str| {
        let rest = name.strip_prefix("eventlog")?;
        if matches!(rest, "" | ".gz" | ".zst" | ".zstd" | ".lz4" | ".snappy") {
            return Some((true, String::new()));
        }
        let time = rest.strip_prefix('-').filter(|time| is_time(time) && !time.ends_with(".crc"))?;
        Some((false, time.to_owned()))
    };
    let mut files: Vec<((bool, String), usize)> =
        names.iter().zip(0..).filter_map(|(name, index)| Some((key(name.as_ref())?, index))).collect();
    files.sort_unstable();
    (!files.is_empty()).then(|| files.into_iter().map(|(_, index)| index).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_read_by_number_and_others_are_not() {
        let names = ["events_10_a.zstd", "appstatus_a", "events_9_a.zstd", "events_x_a", "events_11_a.zstd"];
        assert_eq!(files_of_log(&names), Err(RollingError::Missing { missing: 1 }));
        let names = ["events_2_a", "notes.txt", "events_1_a"];
        assert_eq!(files_of_log(&names), Ok(Some(vec![2, 0])));
        assert_eq!(files_of_log::<&str>(&[]), Ok(None));
    }

    #[test]
    fn a_compacted_file_stands_for_all_before_it() {
        let names = ["events_1_a", "events_2_a", "events_2_a.compact", "events_3_a"];
        assert_eq!(files_of_log(&names), Ok(Some(vec![2, 3])));
        assert_eq!(files_of_log(&["events_7_a.compact", "events_8_a"]), Ok(Some(vec![0, 1])));
    }

    #[test]
    fn a_gap_and_a_number_given_twice_are_refused() {
        assert_eq!(files_of_log(&["events_1_a", "events_3_a"]), Err(RollingError::Missing { missing: 2 }));
        assert_eq!(files_of_log(&["events_1_a", "events_1_b"]), Err(RollingError::Twice { number: 1 }));
    }

    #[test]
    fn files_of_databricks_are_read_by_time_and_the_present_one_last() {
        let names = [
            "eventlog",
            ".eventlog.crc",
            "eventlog.json",
            "eventlog-2023-11-14--22-10.gz",
            "stdout",
            "eventlog-2023-11-14--09-50.gz",
        ];
        assert_eq!(files_of_log(&names), Ok(Some(vec![5, 3, 0])));
        assert_eq!(files_of_log(&["eventlog.json"]), Ok(None));
        assert_eq!(files_of_log(&["eventlog-2023-11-14--22-10"]), Ok(Some(vec![0])));
        assert_eq!(files_of_log(&["eventlog_v2_x", "eventlog-x", "application_1"]), Ok(None));
    }
}
