//! The list of claims: every quantitative statement of the papers by its id, with what became of
//! each of them.
//!
//! The list is a text, `claims.toml` beside the folders of experiments, in our own words. A person
//! writes the outcome of a claim, why, and in one sentence what a reader needs to know; the program
//! holds that against the statements of experiments that name the claim (`standing.rs`), so that no
//! claim can be forgotten, no experiment can invent one, and no page can claim what its rows do not
//! show.
//!
//! | outcome | is | needs |
//! |---|---|---|
//! | `comes out` | all of it, taken at its word | statements that come out, or tests |
//! | `comes out if` | the same under one reading | that reading, a cause, the sentence |
//! | `paper silent` | the paper does not say enough: what it leaves open decides | the sentence |
//! | `refuted` | what the paper says is not so, under no reading | the sentence |
//! | `not shown` | the intervals are too wide to tell | a cause, the sentence |
//! | `not testable` | nothing here answers it | the sentence |
//! | `no claim` | a sum, a citation, a set-up; it leaves the count | the sentence |

use std::collections::BTreeMap;

use serde::Deserialize;
use toml::Spanned;

use crate::definition::{DefinitionError, Experiment, OURS, line_at};

/// What became of a claim.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq, PartialOrd, Ord)]
pub enum Outcome {
    /// All of it, taken at its word.
    #[serde(rename = "comes out")]
    ComesOut,
    /// All of it, under one reading.
    #[serde(rename = "comes out if")]
    ComesOutIf,
    /// What the paper leaves open decides.
    #[serde(rename = "paper silent")]
    PaperSilent,
    /// It is not so.
    #[serde(rename = "refuted")]
    Refuted,
    /// The intervals are too wide to tell.
    #[serde(rename = "not shown")]
    NotShown,
    /// Nothing here answers it.
    #[serde(rename = "not testable")]
    NotTestable,
    /// It claims nothing.
    #[serde(rename = "no claim")]
    NoClaim,
}

impl Outcome {
    /// Those that count, in the order of the page.
    pub const COUNTED: [Self; 6] = [
        Self::ComesOut,
        Self::ComesOutIf,
        Self::PaperSilent,
        Self::Refuted,
        Self::NotShown,
        Self::NotTestable,
    ];

    /// In words.
    pub const fn words(self) -> &'static str {
        match self {
            Self::ComesOut => "comes out",
            Self::ComesOutIf => "comes out if …",
            Self::PaperSilent => "the paper does not say enough",
            Self::Refuted => "**refuted**",
            Self::NotShown => "not shown",
            Self::NotTestable => "not testable here",
            Self::NoClaim => "no claim",
        }
    }

    /// Returns whether it is good news for the paper.
    pub const fn stands(self) -> bool {
        matches!(self, Self::ComesOut | Self::ComesOutIf)
    }

    /// The causes that it may have; empty where it needs no cause.
    const fn causes(self) -> &'static [Cause] {
        match self {
            Self::ComesOutIf => &[Cause::Ours, Cause::Reading, Cause::Criterion],
            Self::PaperSilent => &[Cause::PaperSilent],
            Self::Refuted => &[Cause::PaperWrong],
            Self::NotShown => &[Cause::Ours, Cause::Criterion],
            Self::ComesOut | Self::NotTestable | Self::NoClaim => &[],
        }
    }
}

/// Why a claim did not come out as the paper has it.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
pub enum Cause {
    /// Our implementation, or the size of our runs.
    #[serde(rename = "ours")]
    Ours,
    /// Our reading of the paper.
    #[serde(rename = "reading")]
    Reading,
    /// A criterion that is stricter than the claim.
    #[serde(rename = "criterion")]
    Criterion,
    /// The paper leaves out what decides.
    #[serde(rename = "paper silent")]
    PaperSilent,
    /// The paper is wrong, or not general.
    #[serde(rename = "paper wrong")]
    PaperWrong,
}

impl Cause {
    /// In words, as in the list.
    pub const fn words(self) -> &'static str {
        match self {
            Self::Ours => "ours",
            Self::Reading => "reading",
            Self::Criterion => "criterion",
            Self::PaperSilent => "paper silent",
            Self::PaperWrong => "paper wrong",
        }
    }
}

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
    /// What became of it.
    pub outcome: Outcome,
    /// Why it did not come out as the paper has it; `None` where it did, and where nothing was
    /// tested.
    pub cause: Option<Cause>,
    /// The reading under which it comes out; empty for all other outcomes.
    pub reading: String,
    /// The sentence that a reader needs; may be empty where it comes out.
    pub because: String,
    line: usize,
}

/// The summary of a paper as a whole, in one line of the page.
#[derive(Clone, Debug)]
pub struct Paper {
    /// Its name.
    pub name: String,
    /// The letter with which the ids of its claims begin.
    pub letter: String,
    /// What stands, with the ids of claims that come out.
    pub stands: String,
    /// What falls, or is open, with the ids of claims that do not.
    pub falls: String,
    /// Why.
    pub why: String,
    line: usize,
}

/// All claims and papers, in the order of the text.
#[derive(Clone, Debug)]
pub struct Claims {
    claims: Vec<Claim>,
    papers: Vec<Paper>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default)]
    claim: Vec<ClaimText>,
    #[serde(default)]
    paper: Vec<PaperText>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ClaimText {
    id: Spanned<String>,
    at: String,
    says: String,
    paper: String,
    outcome: Outcome,
    cause: Option<Cause>,
    #[serde(default)]
    reading: String,
    #[serde(default)]
    because: String,
    #[serde(default)]
    tests: Vec<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PaperText {
    name: Spanned<String>,
    letter: String,
    stands: String,
    falls: String,
    why: String,
}

/// An error of a list of claims or of an experiment that refers to it.
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
    /// The prose of the page is: the line, and what is wrong with it.
    #[error("line {line}: {fault}")]
    Prose {
        /// The line of the prose.
        line: usize,
        /// The fault, and what was expected.
        fault: String,
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
            let ClaimText { id, at, says, paper, outcome, cause, reading, because, tests } = claim;
            let id = id.into_inner();
            let claim = Claim { id, at, says, paper, tests, outcome, cause, reading, because, line };
            if let Some(first) = lines.insert(claim.id.clone(), line) {
                return Err(claim.fault(format!("it stands on line {first} already: keep one of the two")));
            }
            claim.check_words().map_err(|fault| claim.fault(fault))?;
            claims.push(claim);
        }
        let papers = file.paper.into_iter().map(|paper| Paper::read(paper, text)).collect();
        let claims = Self { claims, papers };
        claims.check_papers()?;
        Ok(claims)
    }

    /// The claims.
    pub fn iter(&self) -> impl Iterator<Item = &Claim> {
        self.claims.iter()
    }

    /// The summary of each paper.
    pub fn papers(&self) -> &[Paper] {
        &self.papers
    }

    /// Checks the list against all experiments: every id that they name is in it, and every claim
    /// has an answer.
    ///
    /// # Errors
    /// The first thing found wrong, in the list or in an experiment.
    pub fn check(&self, experiments: &[&Experiment]) -> Result<(), ClaimsError> {
        let mut tested: BTreeMap<&str, &str> = BTreeMap::new();
        for experiment in experiments {
            let named = experiment.panels.iter().flat_map(|panel| &panel.expectations);
            for expectation in named.filter(|expectation| expectation.claim != OURS) {
                let id = expectation.claim.as_str();
                if !self.claims.iter().any(|claim| claim.id == id) {
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
        for claim in &self.claims {
            let is_open = matches!(claim.outcome, Outcome::NotTestable | Outcome::NoClaim);
            let fault = match (tested.get(claim.id.as_str()), is_open) {
                (Some(experiment), true) => {
                    let words = claim.outcome.words();
                    format!("it is called '{words}', and {experiment} tests it: give another outcome")
                }
                (None, false) if claim.tests.is_empty() => {
                    "it has no answer: test it in an experiment, name its tests, or say that it is 'not testable'".to_owned()
                }
                _ => continue,
            };
            return Err(ClaimsError::List(claim.fault(fault)));
        }
        Ok(())
    }

    /// Every claim has its paper, and a paper's line agrees with the outcomes of its claims.
    fn check_papers(&self) -> Result<(), DefinitionError> {
        if self.papers.is_empty() {
            return Ok(());
        }
        if let Some(claim) =
            self.claims.iter().find(|claim| !self.papers.iter().any(|paper| paper.has(claim)))
        {
            return Err(
                claim.fault("it is of no paper of the list: add a [[paper]] with its letter".to_owned())
            );
        }
        self.papers.iter().try_for_each(|paper| {
            self.check_line(paper, &paper.stands, true)?;
            self.check_line(paper, &paper.falls, false)
        })
    }

    fn check_line(&self, paper: &Paper, text: &str, stands: bool) -> Result<(), DefinitionError> {
        let words = text.split(|c: char| !c.is_ascii_alphanumeric());
        for id in words.filter(|word| paper.is_id(word)) {
            let fault = match self.claims.iter().find(|claim| claim.id == id) {
                None => format!("there is no claim {id}: name one of the list"),
                Some(claim) if claim.outcome.stands() != stands => {
                    let field = if stands { "stands" } else { "falls" };
                    format!(
                        "{id} is among what {field}, and its outcome is '{}': keep one",
                        claim.outcome.words()
                    )
                }
                Some(_) => continue,
            };
            return Err(paper.fault(fault));
        }
        Ok(())
    }
}

impl Paper {
    fn read(paper: PaperText, text: &str) -> Self {
        let line = line_at(text, paper.name.span().start);
        let PaperText { name, letter, stands, falls, why } = paper;
        Self { name: name.into_inner(), letter, stands, falls, why, line }
    }

    /// Returns whether the claim is one of its.
    pub fn has(&self, claim: &Claim) -> bool {
        self.is_id(&claim.id)
    }

    /// An error of this paper, with its line.
    pub(crate) fn fault(&self, fault: String) -> DefinitionError {
        DefinitionError::Part { line: self.line, place: format!("paper {}", self.name), fault }
    }

    fn is_id(&self, word: &str) -> bool {
        let number = word.strip_prefix(&self.letter);
        number.is_some_and(|number| !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit()))
    }
}

impl Claim {
    /// An error of this claim, with its line.
    pub(crate) fn fault(&self, fault: String) -> DefinitionError {
        DefinitionError::Part { line: self.line, place: format!("claim {}", self.id), fault }
    }

    /// What its own words contradict, without any row.
    fn check_words(&self) -> Result<(), String> {
        let (outcome, words) = (self.outcome, self.outcome.words());
        let causes = outcome.causes();
        let expected =
            || causes.iter().map(|cause| format!("'{}'", cause.words())).collect::<Vec<_>>().join(" or ");
        match self.cause {
            None if !causes.is_empty() => {
                return Err(format!("'{words}' has no cause: expected {}", expected()));
            }
            Some(cause) if causes.is_empty() => {
                return Err(format!("'{words}' has the cause '{}': leave it out", cause.words()));
            }
            Some(cause) if !causes.contains(&cause) => {
                let cause = cause.words();
                return Err(format!("'{words}' cannot have the cause '{cause}': expected {}", expected()));
            }
            Some(_) | None => {}
        }
        if self.because.is_empty() && outcome != Outcome::ComesOut {
            return Err(format!("'{words}' has no sentence: say in 'because' what a reader needs to know"));
        }
        let needs_reading = outcome == Outcome::ComesOutIf && self.tests.is_empty();
        if needs_reading && self.reading.is_empty() {
            return Err("'comes out if' names no reading: say under which in 'reading'".to_owned());
        }
        if outcome != Outcome::ComesOutIf && !self.reading.is_empty() {
            return Err(format!("'{words}' has a reading: only 'comes out if' has one"));
        }
        if !self.tests.is_empty() && matches!(outcome, Outcome::NotTestable | Outcome::NoClaim) {
            return Err(format!("it has tests and is called '{words}': keep one of the two"));
        }
        Ok(())
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
outcome = "comes out"

[[claim]]
id = "A7"
at = "Aalo Fig 7"
says = "a distribution"
paper = "–"
outcome = "not testable"
because = "It needs a cluster."

[[paper]]
name = "Aalo"
letter = "A"
stands = "all of A9"
falls = "A7 is open"
why = "of a cluster"
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

    fn refused(from: &str, to: &str) -> String {
        assert!(LIST.contains(from));
        Claims::read(&LIST.replace(from, to)).unwrap_err().to_string()
    }

    #[test]
    fn every_claim_is_answered_once() {
        let claims = Claims::read(LIST).unwrap();
        claims.check(&[&experiment("A9")]).unwrap();
        assert!(fault(LIST, "ours").contains("line 3, claim A9: it has no answer"));
        let covered = LIST.replace("paper = \"2.7×\"", "paper = \"2.7×\"\ntests = [\"a.rs::b\"]");
        let twice = fault(&covered, "A7");
        assert!(
            twice.contains("line 11, claim A7: it is called 'not testable here', and test tests it"),
            "{twice}"
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
        assert!(refused("\"A7\"", "\"A9\"").contains("line 10, claim A9: it stands on line 3 already"));
        assert!(refused("because", "becuase").starts_with("line 15: unknown field `becuase`"));
        assert!(refused("not testable", "not tested").contains("unknown variant `not tested`"));
        let both = refused("because = ", "tests = [\"a\"]\nbecause = ");
        assert!(both.contains("it has tests and is called 'not testable here'"), "{both}");
    }

    #[test]
    fn an_outcome_without_its_cause_or_its_sentence_is_refused() {
        let of = |outcome: &str| refused("outcome = \"comes out\"", outcome);
        let without = of("outcome = \"refuted\"\nbecause = \"It is not so.\"");
        assert!(without.contains("'**refuted**' has no cause: expected 'paper wrong'"), "{without}");
        let other = of("outcome = \"refuted\"\ncause = \"ours\"\nbecause = \"It is not so.\"");
        assert!(other.contains("cannot have the cause 'ours'"), "{other}");
        let silent = of("outcome = \"refuted\"\ncause = \"paper wrong\"");
        assert!(silent.contains("has no sentence"), "{silent}");
        let needless = of("outcome = \"comes out\"\ncause = \"ours\"");
        assert!(needless.contains("'comes out' has the cause 'ours': leave it out"), "{needless}");
    }

    #[test]
    fn only_what_comes_out_under_a_reading_names_one() {
        let of = |outcome: &str| refused("outcome = \"comes out\"", outcome);
        let none = of("outcome = \"comes out if\"\ncause = \"reading\"\nbecause = \"If so.\"");
        assert!(none.contains("'comes out if' names no reading"), "{none}");
        let needless = of("outcome = \"comes out\"\nreading = \"the trace\"");
        assert!(needless.contains("only 'comes out if' has one"), "{needless}");
    }

    #[test]
    fn a_papers_line_speaks_of_claims_as_their_outcomes_do() {
        let falls = refused("A7 is open", "A9 is open");
        assert!(
            falls.contains("paper Aalo: A9 is among what falls, and its outcome is 'comes out'"),
            "{falls}"
        );
        let stands = refused("all of A9", "A9 and A7");
        assert!(stands.contains("line 18, paper Aalo: A7 is among what stands"), "{stands}");
        assert!(refused("all of A9", "A10").contains("there is no claim A10"));
        assert!(refused("letter = \"A\"", "letter = \"B\"").contains("claim A9: it is of no paper"));
    }
}
