//! Names that readers make up for what has none in the trace.
//!
//! A made-up name must not be one that the trace gives to something else, wherever that stands, or
//! two things become one, or a legal trace is refused. So all given names are known before the
//! first is made up.

use std::collections::HashMap;

/// The names that are taken.
#[derive(Default)]
pub(crate) struct Names {
    /// Looked up, never walked. For each name, how many have been made up from it.
    taken: HashMap<String, usize>,
}

impl Names {
    /// Takes a name that the trace gives.
    pub(crate) fn take(&mut self, name: &str) {
        if !self.taken.contains_key(name) {
            self.taken.insert(name.to_owned(), 0);
        }
    }

    /// Returns whether a name is taken.
    pub(crate) fn is_taken(&self, name: &str) -> bool {
        self.taken.contains_key(name)
    }

    /// Makes up a name from `wanted`, and takes it: the first of `other(wanted, 1)`,
    /// `other(wanted, 2)`, … that is free.
    pub(crate) fn make_up(&mut self, wanted: &str, other: impl Fn(&str, usize) -> String) -> String {
        let mut count = self.taken.get(wanted).copied().unwrap_or_default();
        let name = loop {
            count += 1;
            let name = other(wanted, count);
            if !self.taken.contains_key(&name) {
                break name;
            }
        };
        // The next search from the same name begins where this one ended.
        self.taken.insert(wanted.to_owned(), count);
        self.take(&name);
        name
    }
}

/// The name of a flow without a coflow that has `id`, where that is taken: `flow-7`, `flow-7-2`,
/// `flow-7-3`, ….
pub(crate) fn of_lone_flow(id: &str, count: usize) -> String {
    if count == 1 { format!("flow-{id}") } else { format!("flow-{id}-{count}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_made_up_name_is_none_that_is_given_or_made_up_before() {
        let mut names = Names::default();
        ["7", "flow-7", "flow-7-3"].iter().for_each(|name| names.take(name));
        assert_eq!([1, 2, 3].map(|_| names.make_up("7", of_lone_flow)), ["flow-7-2", "flow-7-4", "flow-7-5"]);
        assert!(names.is_taken("flow-7-4") && !names.is_taken("8"));
    }
}
