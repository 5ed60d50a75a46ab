//! Names of the contract's choices, for specifications that set one.

use cavalcade_spec::Choice;

use crate::contract::{Discipline, Excess, Scope};

impl Choice for Discipline {
    const WORDS: &'static [(&'static str, Self)] =
        &[("greedy", Discipline::Greedy), ("madd", Discipline::Madd), ("maxmin", Discipline::MaxMin)];
}

impl Choice for Excess {
    const WORDS: &'static [(&'static str, Self)] =
        &[("weighted", Excess::Weighted), ("highest", Excess::Highest)];
}

/// The place at which a policy without coordination decides.
impl Choice for Scope {
    const WORDS: &'static [(&'static str, Self)] = &[("sender", Scope::Host), ("link", Scope::Link)];
}
