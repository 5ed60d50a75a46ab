//! The list of claims: every quantitative statement of the papers by its id, with where each of them is answered.
//!
//! The list is a text, `claims.toml` beside the folders of experiments, in our own words. Each claim is answered in exactly one
//! of three ways: by statements of experiments, which name its id; by tests that the list names; or not at all, with what is
//! missing. So no claim can be forgotten, and no experiment can invent one.

use std::collections::BTreeMap;

use serde::Deserialize;
use toml::Spanned;

use crate::definition::{DefinitionError, Experiment, OURS, line_at};

/// A claim of a paper.
#[derive(Clone, Debug)]
pub struct Claim {
    /// Its id, such as A9.
    pub id: String,
    /// The paper and the place in it.
    pub at: String,
    /// The claim, in our words.
    pub says: String,
    /// The paper's value, as text.
    pub paper: String,
    /// The tests that cover it, as `path::name`, where no experiment does.
    pub tests: Vec<String>,
    /// The means that a test would need; empty where it is tested.
    pub missing: String,
    line: usize,
}

/// All claims, in the order of the text.
#[derive(Clone, Debug)]
pub struct Claims(Vec<Claim>);

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default)]
    claim: Vec<ClaimText>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ClaimText {
    id: Spanned<String>,
    at: String,
    says: String,
    paper: String,
    #[serde(default)]
    tests: Vec<String>,
    #[serde(default)]
    missing: String,
}

/// An error of a list of claims or of an experiment that speaks of it.
#[derive(Debug, thiserror::Error)]
pub enum ClaimsError {
    /// The list is wrong.
    #[error(transparent)]
    List(DefinitionError),
    /// An experiment is.
    #[error("{experiment}: {error}")]
    Experiment {
        /// The name of its folder.
        experiment: String,
        /// The error there.
        error: DefinitionError,
    },
}

impl Claims {
    /// Reads the list.
    ///
    /// # Errors
    /// The first thing found wrong, with its line.
    pub fn read(text: &str) -> Result<Self, DefinitionError> {
        let file: File = toml::from_str(text).map_err(|error| DefinitionError::of_toml(&error, text))?;
        let mut lines = BTreeMap::new();
        let mut claims = Vec::new();
        for claim in file.claim {
            let line = line_at(text, claim.id.span().start);
            let ClaimText { id, at, says, paper, tests, missing } = claim;
            let claim = Claim { id: id.into_inner(), at, says, paper, tests, missing, line };
            if let Some(first) = lines.insert(claim.id.clone(), line) {
                return Err(claim.fault(format!("it stands on line {first} already: keep one of the two")));
            }
            if !claim.tests.is_empty() && !claim.missing.is_empty() {
                let fault = "it has tests and says what is missing: keep one of the two";
                return Err(claim.fault(fault.to_owned()));
            }
            claims.push(claim);
        }
        Ok(Self(claims))
    }

    /// The claims.
    pub fn iter(&self) -> impl Iterator<Item = &Claim> {
        self.0.iter()
    }

    /// Checks the list against all experiments: every id that they name is in it, and every claim has an answer.
    ///
    /// # Errors
    /// The first thing found wrong, in the list or in an experiment.
    pub fn check(&self, experiments: &[&Experiment]) -> Result<(), ClaimsError> {
        let mut tested: BTreeMap<&str, &str> = BTreeMap::new();
        for experiment in experiments {
            let named = experiment.panels.iter().flat_map(|panel| &panel.expectations);
            for expectation in named.filter(|expectation| expectation.claim != OURS) {
                let id = expectation.claim.as_str();
                if !self.0.iter().any(|claim| claim.id == id) {
                    return Err(ClaimsError::Experiment {
                        experiment: experiment.name.clone(),
                        error: DefinitionError::Part {
                            line: expectation.line,
                            place: format!("claim '{id}'"),
                            fault: format!(
                                "there is no such claim: name one of claims.toml, or '{OURS}' for what no paper states"
                            ),
                        },
                    });
                }
                tested.entry(id).or_insert(&experiment.name);
            }
        }
        for claim in &self.0 {
            let fault = match (tested.get(claim.id.as_str()), claim.missing.is_empty()) {
                (Some(experiment), false) => {
                    format!("it is called not testable, and {experiment} tests it: remove 'missing'")
                }
                (None, true) if claim.tests.is_empty() => {
                    "it has no answer: test it in an experiment, name its tests, or say in 'missing' what it needs".to_owned()
                }
                _ => continue,
            };
            return Err(ClaimsError::List(claim.fault(fault)));
        }
        Ok(())
    }
}

impl Claim {
    fn fault(&self, fault: String) -> DefinitionError {
        DefinitionError::Part { line: self.line, place: format!("claim {}", self.id), fault }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIST: &str = r#"
[[claim]]
id = "A9"
at = "Aalo Fig 8"
says = "ahead of fair sharing"
paper = "2.7×"

[[claim]]
id = "A7"
at = "Aalo Fig 7"
says = "a distribution"
paper = "–"
missing = "a cluster"
"#;

    fn experiment(claim: &str) -> Experiment {
        let text = format!(
            r#"
title = "Queues"
source = "Aalo"
question = "?"
[[panel]]
title = "K"
axis = {{ measures = ["mean(cct)"] }}
workload = "fixed:coflows=5,ports=6"
against = "fair"
series = [ {{ name = "fair", policy = "fair" }}, {{ name = "Aalo", policy = "aalo" }} ]
[[panel.expect]]
claim = "{claim}"
text = "ahead"
series = "Aalo"
paper = 2.7
"#
        );
        Experiment::read("test", &text).unwrap()
    }

    fn fault(list: &str, claim: &str) -> String {
        Claims::read(list).unwrap().check(&[&experiment(claim)]).unwrap_err().to_string()
    }

    #[test]
    fn every_claim_is_answered_once() {
        let claims = Claims::read(LIST).unwrap();
        claims.check(&[&experiment("A9")]).unwrap();
        assert!(fault(LIST, "ours").contains("line 3, claim A9: it has no answer"));
        let covered = LIST.replace("paper = \"2.7×\"", "paper = \"2.7×\"\ntests = [\"a.rs::b\"]");
        assert!(
            fault(&covered, "A7").contains("line 10, claim A7: it is called not testable, and test tests it")
        );
        Claims::read(&covered).unwrap().check(&[&experiment("ours")]).unwrap();
    }

    #[test]
    fn a_claim_that_does_not_exist_is_refused_with_line_and_cure() {
        let fault = fault(LIST, "A99");
        assert_eq!(
            fault,
            "test: line 12, claim 'A99': there is no such claim: name one of claims.toml, or 'ours' for what no paper states"
        );
    }

    #[test]
    fn a_list_that_says_a_thing_twice_or_something_unknown_is_refused() {
        let read = |text: &str| Claims::read(text).unwrap_err().to_string();
        assert!(
            read(&LIST.replace("\"A7\"", "\"A9\"")).contains("line 9, claim A9: it stands on line 3 already")
        );
        assert!(read(&LIST.replace("missing", "mising")).starts_with("line 13: unknown field `mising`"));
        let both = LIST.replace("missing = ", "tests = [\"a\"]\nmissing = ");
        assert!(read(&both).contains("it has tests and says what is missing"));
    }
}
