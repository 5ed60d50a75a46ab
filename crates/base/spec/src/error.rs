//! Specifications that cannot be used, and the name that was probably meant.

use core::fmt;

/// Kind of object that a specification names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Decides which transfers go first.
    Policy,
    /// Sends packets.
    Transport,
    /// Makes a workload.
    Generator,
    /// Connects ports.
    Fabric,
    /// Writes a workload as text.
    Format,
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Kind::Policy => "policy",
            Kind::Transport => "transport",
            Kind::Generator => "generator",
            Kind::Fabric => "fabric",
            Kind::Format => "format",
        })
    }
}

/// A specification that cannot be used. Each message says what to write instead.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SpecError {
    /// A name that is not registered.
    #[error("unknown {kind} {name:?}: {hint}")]
    UnknownName {
        /// Kind that was looked up.
        kind: Kind,
        /// The name given.
        name: String,
        /// The nearest name, or all of them.
        hint: String,
    },
    /// A parameter that does not exist.
    #[error("{kind} {owner} has no parameter {name:?}: {hint}")]
    UnknownParameter {
        /// Kind that is configured.
        kind: Kind,
        /// Its name.
        owner: &'static str,
        /// The parameter given.
        name: String,
        /// The nearest name, or all of them.
        hint: String,
    },
    /// A setting without `=`.
    #[error("{kind} {owner}: the setting {setting:?} has no value: write it as parameter=value")]
    NoValue {
        /// Kind that is configured.
        kind: Kind,
        /// Its name.
        owner: &'static str,
        /// The setting given.
        setting: String,
    },
    /// A value that the parameter cannot take, alone or beside the others.
    #[error("{kind} {owner}: {parameter}={value} cannot be used: expected {expected}")]
    BadValue {
        /// Kind that is configured.
        kind: Kind,
        /// Its name.
        owner: &'static str,
        /// The parameter.
        parameter: &'static str,
        /// The value given.
        value: String,
        /// Accepted values.
        expected: String,
    },
    /// One parameter set twice.
    #[error("{kind} {owner}: {parameter} is given twice: leave one of them out")]
    Repeated {
        /// Kind that is configured.
        kind: Kind,
        /// Its name.
        owner: &'static str,
        /// The parameter.
        parameter: &'static str,
    },
    /// A parameter without a default that was not set.
    #[error("{kind} {owner}: {parameter} is missing: add {parameter}=…, {expected}")]
    Missing {
        /// Kind that is configured.
        kind: Kind,
        /// Its name.
        owner: &'static str,
        /// The parameter.
        parameter: &'static str,
        /// Accepted values.
        expected: String,
    },
}

/// Suggests the nearest of `known` for an unknown `name`, or lists all of them if none is near.
pub fn hint(name: &str, known: &[&str]) -> String {
    match nearest(name, known.iter().copied()) {
        Some(nearest) => format!("did you mean {nearest}?"),
        None if known.is_empty() => "it has none".to_owned(),
        None => format!("known are {}", known.join(", ")),
    }
}

/// Finds the nearest of `known` to an unknown `name`, without regard to case; the first of several,
/// `None` if none is near.
pub fn nearest<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let name = name.to_ascii_lowercase();
    let limit = |candidate: &str| (candidate.len() / 3).max(1);
    let length = name.chars().count();
    // The distance is at least the difference of the lengths, which costs less to find out.
    let maybe = |candidate: &&str| candidate.chars().count().abs_diff(length) <= limit(candidate);
    let distances = known
        .into_iter()
        .filter(maybe)
        .map(|candidate| (edit_distance(&name, &candidate.to_ascii_lowercase()), candidate));
    let near = distances.filter(|(distance, candidate)| *distance <= limit(candidate));
    near.min_by_key(|(distance, _)| *distance).map(|(_, candidate)| candidate)
}

/// Counts the fewest insertions, deletions and replacements of characters, and exchanges of
/// neighbours, between two words (optimal string alignment: exchanged neighbours are the commonest
/// slip of the fingers).
fn edit_distance(from: &str, to: &str) -> usize {
    let (from, to): (Vec<char>, Vec<char>) = (from.chars().collect(), to.chars().collect());
    let mut rows = vec![vec![0; to.len() + 1]; from.len() + 1];
    for i in 0..=from.len() {
        for j in 0..=to.len() {
            if i == 0 || j == 0 {
                rows[i][j] = i + j;
                continue;
            }
            let replaced = rows[i - 1][j - 1] + usize::from(from[i - 1] != to[j - 1]);
            rows[i][j] = replaced.min(rows[i - 1][j] + 1).min(rows[i][j - 1] + 1);
            if i > 1 && j > 1 && from[i - 1] == to[j - 2] && from[i - 2] == to[j - 1] {
                rows[i][j] = rows[i][j].min(rows[i - 2][j - 2] + 1);
            }
        }
    }
    rows[from.len()][to.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distance_counts_single_edits() {
        assert_eq!(edit_distance("", "abc"), 3);
        assert_eq!(edit_distance("dclas", "dcas"), 1);
        assert_eq!(edit_distance("vayrs", "varys"), 1, "neighbours that are exchanged");
        assert_eq!(edit_distance("kitten", "sitting"), 3);
    }

    #[test]
    fn far_names_get_the_whole_list() {
        assert_eq!(hint("dclass", &["fair", "dclas", "dcas"]), "did you mean dclas?");
        assert_eq!(hint("DCLASS", &["fair", "dclas", "dcas"]), "did you mean dclas?");
        assert_eq!(hint("quantum", &["fair", "fifo"]), "known are fair, fifo");
        assert_eq!(hint("x", &[]), "it has none");
    }
}
