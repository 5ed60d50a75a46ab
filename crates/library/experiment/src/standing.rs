//! What the statements of experiments say of a claim, and whether they bear out what the list of
//! claims says of it.
//!
//! The literal statements are judged together: theirs is the verdict of the worst. So are those of
//! every other reading. A reading *answers* the literal one if it says something of each statement
//! that decided there, and comes out. Statements that are true by construction count only where
//! there are no others, and those whose parameters were fitted to them never do.
//!
//! | outcome | the literal statements | the readings |
//! |---|---|---|
//! | comes out | there are some, and all come out | |
//! | comes out if | not all come out, or there are none | the one named answers, and one of its statements is reproduced |
//! | paper silent | not all come out, or there are none | |
//! | refuted | one is not reproduced | none answers |
//! | not shown | none is not reproduced, and not all come out | |
//!
//! # Rejected
//! - Any reading whose own statements come out: one that is silent about what failed passed for a
//!   cure.
//! - An outcome computed from verdicts alone: whether the paper is wrong or silent is no figure.

use crate::claims::{Claim, Outcome};
use crate::definition::DefinitionError;
use crate::verdict::{Finding, Verdict};

/// A finding and the folder in which it stands.
pub(crate) type Placed<'a> = (&'a str, &'a Finding);

/// A claim with the statements about it.
pub(crate) struct Standing<'a> {
    pub(crate) claim: &'a Claim,
    /// Those that count.
    counted: Vec<Placed<'a>>,
    /// Those whose parameters were chosen so that they come out.
    fitted: Vec<Placed<'a>>,
    /// True where there are none but those that are true by construction.
    pub(crate) construction: bool,
}

impl<'a> Standing<'a> {
    /// The statements of `all` that are about the claim.
    pub(crate) fn of(claim: &'a Claim, all: &[Placed<'a>]) -> Self {
        let own = all.iter().copied().filter(|(_, finding)| finding.claim == claim.id);
        let (fitted, fair): (Vec<_>, Vec<_>) = own.partition(|(_, finding)| finding.fitted);
        let proper: Vec<Placed<'a>> =
            fair.iter().copied().filter(|(_, finding)| !finding.construction).collect();
        let construction = proper.is_empty() && !fair.is_empty();
        Self { claim, counted: if construction { fair } else { proper }, fitted, construction }
    }

    fn reading(&self, name: &str) -> Vec<Placed<'a>> {
        self.counted.iter().copied().filter(|(_, finding)| finding.reading == name).collect()
    }

    /// Returns the literal statement that decides: the first of the worst.
    pub(crate) fn literal(&self) -> Option<&'a Finding> {
        decides(&self.reading(""))
    }

    /// Returns how many literal statements come out, and how many there are.
    pub(crate) fn parts(&self) -> (usize, usize) {
        let literal = self.reading("");
        (literal.iter().filter(|(_, finding)| comes_out(finding.verdict)).count(), literal.len())
    }

    /// The folders in which it is tested.
    pub(crate) fn folders(&self) -> Vec<&'a str> {
        let mut folders: Vec<&str> =
            self.counted.iter().chain(&self.fitted).map(|(folder, _)| *folder).collect();
        folders.sort_unstable();
        folders.dedup();
        folders
    }

    /// Returns the statement of a reading that stands beside the literal one: of the reading that
    /// the list names, else of the best that answers, else of one that was fitted.
    pub(crate) fn beside(&self) -> Option<&'a Finding> {
        let of = |statements: &[Placed<'a>]| {
            let literal = self.literal();
            let same =
                |(_, finding): &&Placed<'a>| literal.is_some_and(|wanted| wanted.paper == finding.paper);
            statements.iter().find(same).or_else(|| statements.first()).map(|(_, finding)| *finding)
        };
        match self.claim.outcome {
            Outcome::ComesOut => None,
            Outcome::ComesOutIf => of(&self.reading(&self.claim.reading)),
            _ => self.answer().map_or_else(|| of(&self.fitted), |name| of(&self.reading(name))),
        }
    }

    /// Returns the best reading under which the claim comes out.
    fn answer(&self) -> Option<&'a str> {
        let mut names: Vec<&str> = self.counted.iter().map(|(_, finding)| finding.reading.as_str()).collect();
        names.sort_unstable();
        names.dedup();
        let answers = names.into_iter().filter(|name| !name.is_empty() && self.answers(&self.reading(name)));
        answers.min_by_key(|name| (worst(&self.reading(name)), *name))
    }

    /// Returns whether a reading comes out and speaks of each literal statement that decided: they
    /// are matched by what the paper says.
    fn answers(&self, reading: &[Placed<'_>]) -> bool {
        let literal = self.reading("");
        let verdict = worst(&literal);
        let mut deciding = literal.iter().filter(|(_, finding)| Some(finding.verdict) == verdict);
        worst(reading).is_some_and(comes_out)
            && deciding.all(|(_, wanted)| reading.iter().any(|(_, finding)| finding.paper == wanted.paper))
    }

    /// Checks the outcome that the list gives against the statements. Where rows are missing there
    /// is nothing to check against.
    ///
    /// # Errors
    /// If they do not bear it out: the claim's line, what they say instead, and what to do.
    pub(crate) fn check(&self) -> Result<(), DefinitionError> {
        let claim = self.claim;
        let has_rows = self.counted.iter().all(|(_, finding)| finding.has_rows());
        if !has_rows || (self.counted.is_empty() && !claim.tests.is_empty()) {
            return Ok(());
        }
        let literal = self.literal();
        let literal_comes_out = literal.is_some_and(|finding| comes_out(finding.verdict));
        let said = literal.map_or("there is no literal statement".to_owned(), |finding| {
            format!("literally '{}' is {}", finding.text, finding.verdict.words())
        });
        let words = claim.outcome.words();
        let borne_out = match claim.outcome {
            Outcome::ComesOut => literal_comes_out,
            Outcome::ComesOutIf if literal_comes_out => false,
            Outcome::ComesOutIf => return self.check_reading(),
            Outcome::PaperSilent => !literal_comes_out,
            Outcome::Refuted => match self.answer() {
                Some(reading) => {
                    return Err(claim.fault(format!(
                        "it is called '{words}', and comes out under the reading '{reading}': say 'comes out if', or why that reading \
                         does not count"
                    )));
                }
                None => literal.is_some_and(|finding| finding.verdict == Verdict::NotReproduced),
            },
            Outcome::NotShown => {
                literal.is_some_and(|finding| matches!(finding.verdict, Verdict::NotShown | Verdict::NotRun))
            }
            Outcome::NotTestable | Outcome::NoClaim => self.counted.is_empty() && self.fitted.is_empty(),
        };
        match borne_out {
            true => Ok(()),
            false => Err(claim.fault(format!("it is called '{words}', and {said}: give another outcome"))),
        }
    }

    fn check_reading(&self) -> Result<(), DefinitionError> {
        let name = &self.claim.reading;
        let reading = self.reading(name);
        let fault = if reading.is_empty() {
            "which no statement has"
        } else if let Some((_, fails)) = reading.iter().find(|(_, finding)| !comes_out(finding.verdict)) {
            let words = fails.verdict.words();
            return Err(self.claim.fault(format!(
                "it comes out under '{name}', where '{}' is {words}: give another outcome",
                fails.text
            )));
        } else if !self.answers(&reading) {
            "which says nothing of a literal statement that failed"
        } else if !reading.iter().any(|(_, finding)| finding.verdict == Verdict::Reproduced) {
            "of which no statement is reproduced"
        } else {
            return Ok(());
        };
        Err(self
            .claim
            .fault(format!("it comes out under '{name}', {fault}: name another, or give another outcome")))
    }
}

fn comes_out(verdict: Verdict) -> bool {
    verdict <= Verdict::InShape
}

fn worst(found: &[Placed<'_>]) -> Option<Verdict> {
    found.iter().map(|(_, finding)| finding.verdict).max()
}

fn decides<'a>(found: &[Placed<'a>]) -> Option<&'a Finding> {
    let worst = worst(found)?;
    found.iter().find(|(_, finding)| finding.verdict == worst).map(|(_, finding)| *finding)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::claims::Claims;
    use Verdict::{InShape, NotReproduced, NotShown, Reproduced};

    fn finding(reading: &str, paper: &str, verdict: Verdict) -> Finding {
        Finding {
            line: 1,
            claim: "A12".to_owned(),
            reading: reading.to_owned(),
            construction: false,
            fitted: false,
            text: "behind".to_owned(),
            paper: paper.to_owned(),
            ours: "4×".to_owned(),
            band: String::new(),
            verdict,
            why: String::new(),
        }
    }

    fn with<T>(outcome: &str, findings: &[Finding], of: impl FnOnce(&Standing<'_>) -> T) -> T {
        let text = format!(
            "[[claim]]\nid = \"A12\"\nat = \"Fig 8\"\nsays = \"behind\"\npaper = \"18.6×\"\n{outcome}"
        );
        let claims = Claims::read(&text).unwrap();
        let placed: Vec<Placed<'_>> = findings.iter().map(|finding| ("folder", finding)).collect();
        of(&Standing::of(claims.iter().next().unwrap(), &placed))
    }

    fn fault(outcome: &str, findings: &[Finding]) -> String {
        with(outcome, findings, |standing| standing.check())
            .map_or_else(|error| error.to_string(), |()| "none".to_owned())
    }

    const COMES_OUT: &str = "outcome = \"comes out\"";
    const IF_EVEN: &str = "outcome = \"comes out if\"\ncause = \"reading\"\nreading = \"even\"\nbecause = \"If parts are even.\"";
    const SILENT: &str =
        "outcome = \"paper silent\"\ncause = \"paper silent\"\nbecause = \"It has no sizes.\"";
    const REFUTED: &str = "outcome = \"refuted\"\ncause = \"paper wrong\"\nbecause = \"It is not so.\"";
    const NOT_SHOWN: &str = "outcome = \"not shown\"\ncause = \"criterion\"\nbecause = \"Too few.\"";

    #[test]
    fn what_comes_out_does_so_literally() {
        assert_eq!(fault(COMES_OUT, &[finding("", "2", Reproduced), finding("", "3", InShape)]), "none");
        let failed = fault(COMES_OUT, &[finding("", "2", Reproduced), finding("", "3", NotReproduced)]);
        assert!(
            failed.contains(
                "line 2, claim A12: it is called 'comes out', and literally 'behind' is **not reproduced**"
            ),
            "{failed}"
        );
        assert!(fault(COMES_OUT, &[finding("", "2", NotShown)]).contains("is not shown"));
        assert!(
            fault(COMES_OUT, &[finding("even", "2", Reproduced)]).contains("there is no literal statement")
        );
    }

    #[test]
    fn what_comes_out_under_a_reading_names_one_that_answers_what_failed() {
        let literal = finding("", "18.6×", NotReproduced);
        let of = |reading: Finding| fault(IF_EVEN, &[literal.clone(), reading]);
        assert_eq!(of(finding("even", "18.6×", Reproduced)), "none");
        assert!(of(finding("odd", "18.6×", Reproduced)).contains("'even', which no statement has"));
        assert!(of(finding("even", "18.6×", NotReproduced)).contains("where 'behind' is **not reproduced**"));
        assert!(
            of(finding("even", "2", Reproduced)).contains("says nothing of a literal statement that failed")
        );
        assert!(of(finding("even", "18.6×", InShape)).contains("of which no statement is reproduced"));
        let both = [finding("", "2", Reproduced), finding("even", "2", Reproduced)];
        assert!(fault(IF_EVEN, &both).contains("literally 'behind' is reproduced"));
    }

    #[test]
    fn what_was_fitted_to_a_figure_does_not_reproduce_it() {
        let fitted = |reading: &str| Finding { fitted: true, ..finding(reading, "18.6×", Reproduced) };
        assert!(fault(COMES_OUT, &[fitted("")]).contains("there is no literal statement"));
        let reading = [finding("", "18.6×", NotReproduced), fitted("even")];
        assert!(fault(IF_EVEN, &reading).contains("which no statement has"));
        assert_eq!(fault(SILENT, &[fitted("")]), "none");
        assert!(with(SILENT, &[fitted("")], |standing| standing.beside().is_some()));
    }

    #[test]
    fn what_is_refuted_fails_literally_and_under_every_reading() {
        let literal = finding("", "18.6×", NotReproduced);
        assert_eq!(fault(REFUTED, std::slice::from_ref(&literal)), "none");
        let answered = fault(REFUTED, &[literal, finding("even", "18.6×", InShape)]);
        assert!(answered.contains("comes out under the reading 'even'"), "{answered}");
        assert!(fault(REFUTED, &[finding("", "18.6×", NotShown)]).contains("is not shown"));
    }

    #[test]
    fn what_has_no_rows_yet_contradicts_nothing() {
        let missing = Finding { ours: "rows are missing".to_owned(), ..finding("", "2", Verdict::NotRun) };
        assert_eq!(fault(REFUTED, std::slice::from_ref(&missing)), "none");
        assert_eq!(fault(COMES_OUT, &[missing]), "none");
    }

    #[test]
    fn what_is_not_shown_is_neither_refuted_nor_out() {
        assert_eq!(fault(NOT_SHOWN, &[finding("", "2", Reproduced), finding("", "3", NotShown)]), "none");
        assert!(fault(NOT_SHOWN, &[finding("", "2", Reproduced)]).contains("is reproduced"));
        let failed = fault(NOT_SHOWN, &[finding("", "2", NotShown), finding("", "3", NotReproduced)]);
        assert!(failed.contains("is **not reproduced**"), "{failed}");
    }

    #[test]
    fn what_the_paper_leaves_open_does_not_come_out_by_itself() {
        assert_eq!(fault(SILENT, &[finding("", "2", NotReproduced)]), "none");
        assert_eq!(fault(SILENT, &[finding("even", "2", Reproduced)]), "none");
        assert!(fault(SILENT, &[finding("", "2", InShape)]).contains("is in shape"));
    }

    #[test]
    fn a_reading_stands_beside_only_if_it_speaks_of_what_failed() {
        let literal = [finding("", "18.6×", NotReproduced), finding("", "fair ≥ LM", Reproduced)];
        let beside = |reading: &[Finding]| {
            let all = [&literal, reading].concat();
            with(SILENT, &all, |standing| standing.beside().map(|finding| finding.reading.clone()))
        };
        assert_eq!(
            beside(&[finding("twelve ports", "fair ≥ LM", Reproduced)]),
            None,
            "that came out literally"
        );
        assert_eq!(beside(&[finding("even", "18.6×", Reproduced)]).as_deref(), Some("even"));
        let half = [finding("even", "18.6×", Reproduced), finding("even", "fair ≥ LM", NotReproduced)];
        assert_eq!(beside(&half), None, "it loses what came out");
    }
}
