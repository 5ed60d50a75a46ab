//! Which applications of those whose logs are read together count: of each the last attempt.
//!
//! YARN runs an application again whose driver died, under the same id. Each attempt has a log.
//! What an earlier one sent is no part of what the application needs, and its queries come again in
//! the last one.

use std::collections::BTreeMap;

use super::log::Application;
use crate::error::TraceErrorKind;

/// The applications that count, as indices in order.
///
/// # Errors
/// If one attempt of an application occurs twice.
pub(super) fn last_attempts(applications: &[Application]) -> Result<Vec<usize>, TraceErrorKind> {
    let mut last: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
    let mut kept = Vec::new();
    for (index, application) in applications.iter().enumerate() {
        match application.id.as_deref() {
            Some(id) => last.entry(id).or_default().push(index),
            None => kept.push(index),
        }
    }
    for (id, mut attempts) in last {
        let number = |index: usize| {
            let attempt = applications[index].attempt.as_deref();
            attempt.map(|attempt| (attempt.parse::<u64>().ok(), attempt))
        };
        attempts.sort_by_key(|&index| (number(index), applications[index].started));
        if attempts.windows(2).any(|pair| number(pair[0]) == number(pair[1])) {
            return Err(TraceErrorKind::ApplicationTwice { id: id.to_owned() });
        }
        kept.extend(attempts.last());
    }
    kept.sort_unstable();
    Ok(kept)
}
