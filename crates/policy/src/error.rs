//! Specifications that cannot be read, and the name that was probably meant.

/// Why a specification of a policy is refused. Each message says what to write instead.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PolicyError {
    /// No policy or preset of that name.
    #[error("unknown policy {name}: {hint}")]
    UnknownPolicy {
        /// The name given.
        name: String,
        /// The nearest name, or all of them.
        hint: String,
    },
    /// The policy has no such parameter.
    #[error("policy {policy} has no parameter {name}: {hint}")]
    UnknownParameter {
        /// The policy.
        policy: &'static str,
        /// The name given.
        name: String,
        /// The nearest name, or all of them.
        hint: String,
    },
    /// A setting without `=`.
    #[error("policy {policy}: the setting {setting} has no value: write it as parameter=value")]
    NoValue {
        /// The policy.
        policy: &'static str,
        /// What was given.
        setting: String,
    },
    /// A value that the parameter cannot take, alone or beside the others.
    #[error("policy {policy}: {parameter}={value} cannot be used: expected {expected}")]
    BadValue {
        /// The policy.
        policy: &'static str,
        /// The parameter.
        parameter: &'static str,
        /// The value given.
        value: String,
        /// What would be accepted.
        expected: String,
    },
    /// One parameter set twice.
    #[error("policy {policy}: {parameter} is given twice: leave one of them out")]
    Repeated {
        /// The policy.
        policy: &'static str,
        /// The parameter.
        parameter: &'static str,
    },
}

/// What to say about an unknown `name`: the nearest of `known`, or where none is near, all of them.
pub(crate) fn hint(name: &str, known: &[&str]) -> String {
    let near = |candidate: &&str| edit_distance(name, candidate) <= (candidate.len() / 3).max(1);
    match known.iter().filter(|candidate| near(candidate)).min_by_key(|known| edit_distance(name, known)) {
        Some(nearest) => format!("did you mean {nearest}?"),
        None if known.is_empty() => "it has none".to_owned(),
        None => format!("known are {}", known.join(", ")),
    }
}

/// The fewest insertions, deletions and replacements of characters between two words (Levenshtein).
fn edit_distance(from: &str, to: &str) -> usize {
    let to: Vec<char> = to.chars().collect();
    let mut row: Vec<usize> = (0..=to.len()).collect();
    for (i, have) in from.chars().enumerate() {
        let mut diagonal = std::mem::replace(&mut row[0], i + 1);
        for (j, want) in to.iter().enumerate() {
            let replaced = diagonal + usize::from(have != *want);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(diagonal + 1).min(row[j] + 1);
        }
    }
    row[to.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distance_counts_single_edits() {
        assert_eq!(edit_distance("", "abc"), 3);
        assert_eq!(edit_distance("dclas", "dcas"), 1);
        assert_eq!(edit_distance("kitten", "sitting"), 3);
    }

    #[test]
    fn far_names_get_the_whole_list() {
        assert_eq!(hint("dclass", &["fair", "dclas", "dcas"]), "did you mean dclas?");
        assert_eq!(hint("quantum", &["fair", "fifo"]), "known are fair, fifo");
        assert_eq!(hint("x", &[]), "it has none");
    }
}
