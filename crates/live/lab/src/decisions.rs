//! When a coordinator decided that a flow may send or may not, as it says in its log.

use std::path::Path;

use cavalcade_model::{Instant, PortId};
use serde::Deserialize;

use crate::LabError;

/// A coordinator's decision about a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Decision {
    /// When its round began, from the start of the replay.
    pub at: Instant,
    /// The sender.
    pub from: PortId,
    /// The receiver.
    pub to: PortId,
    /// True if it may send from then on, at whatever rate.
    pub may_send: bool,
}

/// A line of the log that says so.
#[derive(Deserialize)]
struct Line {
    round: u64,
    host: u32,
    to: u32,
    gate: String,
}

/// The decisions in the log at `path`, of a replay that began at `began` nanoseconds since 1970.
///
/// # Errors
/// If it cannot be read.
pub(crate) fn read(path: &Path, began: u64) -> Result<Vec<Decision>, LabError> {
    let log = std::fs::read_to_string(path).map_err(LabError::system("read the coordinator's log"))?;
    // Most lines say something else.
    let lines = log.lines().filter_map(|line| serde_json::from_str::<Line>(line).ok());
    let decision = |Line { round, host, to, gate }| Decision {
        at: Instant(round.saturating_sub(began)),
        from: PortId(host),
        to: PortId(to),
        may_send: gate != "off",
    };
    Ok(lines.map(decision).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_about_flows_are_decisions_and_all_others_are_left_out() {
        let log = std::env::temp_dir().join(format!("cavalcade-decisions-{}.log", std::process::id()));
        let lines = [
            r#"{"timestamp":"2026-11-26T05:00:00.000001Z","level":"INFO","message":"agent connected","port":1}"#,
            r#"{"level":"DEBUG","message":"decided","host":0,"flow":7,"coflow":"1.0.1","to":3,"gate":"off","round":1500}"#,
            "not JSON",
            r#"{"level":"DEBUG","message":"decided","host":2,"flow":7,"coflow":"1.0.1","to":1,"gate":"paced at 2 Mbps","round":2500}"#,
        ];
        std::fs::write(&log, lines.join("\n")).unwrap();
        let (from, to) = (PortId(0), PortId(3));
        let first = Decision { at: Instant(500), from, to, may_send: false };
        let second = Decision { at: Instant(1500), from: PortId(2), to: PortId(1), may_send: true };
        assert_eq!(read(&log, 1000).unwrap(), [first, second]);
        std::fs::remove_file(&log).unwrap();
    }
}
