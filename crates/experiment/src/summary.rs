//! The page of all experiments: counts, the prose of the folder, and one line for each claim of the papers.
//!
//! A line is made of the statements that name the claim. Those of the literal reading are judged together: the claim's verdict
//! is that of its worst statement, with how many of them came out. Where the literal reading does not come out, the best
//! other reading that does stands beside: one under which each statement that decided comes out better. Statements that are true by
//! construction count only where there are no others.
//!
//! # Rejected
//! - Any reading whose own statements come out: one that is silent about what failed passed for a cure.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use crate::claims::{Claim, Claims};
use crate::definition::Experiment;
use crate::row::Row;
use crate::run::Key;
use crate::verdict::{Finding, Verdict, findings};

/// A finding and the folder in which it stands.
type Placed<'a> = (&'a str, &'a Finding);

/// The page. `prose` is Markdown that a person wrote; it stands between the counts and the tables.
pub fn summary(claims: &Claims, experiments: &[(Experiment, BTreeMap<Key, Row>)], prose: &str) -> String {
    let found: Vec<(&str, Vec<Finding>)> = experiments
        .iter()
        .map(|(experiment, rows)| (experiment.name.as_str(), findings(experiment, rows)))
        .collect();
    let placed: Vec<Placed<'_>> = found
        .iter()
        .flat_map(|(name, findings)| findings.iter().map(move |finding| (*name, finding)))
        .collect();
    let standings: Vec<(&Claim, Standing)> =
        claims.iter().map(|claim| (claim, Standing::of(claim, &placed))).collect();
    let mut out = String::from(
        "<!-- Made by `cavalcade experiment report`: edit prose.md, claims.toml and the experiment.toml of each folder. -->\n\
         # Were the papers right?\n\n",
    );
    counts(&mut out, &standings, &placed, experiments.len());
    if !prose.trim().is_empty() {
        let _ = writeln!(out, "{}\n", prose.trim());
    }
    out.push_str("## Claim by claim\n\n");
    out.push_str(
        "Verdicts are those of the literal reading; \"2 of 3\" says how many of its statements came out, and the figure is that of the \
         first one that decides. [The rule](../crates/experiment/src/verdict.rs).\n\n\
         | claim | the paper says | paper | ours (95 % interval) | verdict | reading that comes out | where |\n\
         |---|---|---|---|---|---|---|\n",
    );
    for (claim, standing) in &standings {
        let _ = writeln!(out, "{}", standing.line(claim));
    }
    out.push_str("\n## All experiments\n\n| experiment | what | source |\n|---|---|---|\n");
    for (experiment, _) in experiments {
        let Experiment { name, title, source, .. } = experiment;
        let _ = writeln!(out, "| [{name}]({name}/README.md) | {title} | {source} |");
    }
    out
}

/// A claim's line before it is text.
enum Standing {
    Judged {
        verdict: Verdict,
        construction: bool,
        literal: String,
        other: String,
        where_: Vec<String>,
        shares: String,
    },
    Tested,
    Missing,
}

impl Standing {
    fn of(claim: &Claim, placed: &[Placed<'_>]) -> Self {
        let all: Vec<Placed<'_>> =
            placed.iter().copied().filter(|(_, finding)| finding.claim == claim.id).collect();
        let proper: Vec<Placed<'_>> =
            all.iter().copied().filter(|(_, finding)| !finding.construction).collect();
        let construction = proper.is_empty();
        let counted = if construction { &all } else { &proper };
        let reading = |name: &str| -> Vec<Placed<'_>> {
            counted.iter().copied().filter(|(_, finding)| finding.reading == name).collect()
        };
        let mut names: Vec<&str> = counted.iter().map(|(_, finding)| finding.reading.as_str()).collect();
        names.sort_unstable();
        names.dedup();
        let literal = reading("");
        let Some(verdict) = worst(&literal).or_else(|| worst(counted)) else {
            return if claim.missing.is_empty() { Self::Tested } else { Self::Missing };
        };
        let others = names.iter().filter(|name| !name.is_empty()).map(|name| (*name, reading(name)));
        let others = others.filter_map(|(name, found)| Some((worst(&found)?, name, found)));
        let best = others.filter(|(other, _, found)| {
            *other < verdict && *other <= Verdict::InShape && answers(found, &literal, verdict)
        });
        let best = best.min_by_key(|&(other, name, _)| (other, name));
        let shown = if literal.is_empty() { counted.clone() } else { literal };
        let decides = shown.iter().find(|(_, finding)| finding.verdict == verdict);
        let mut where_: Vec<String> = counted.iter().map(|(folder, _)| (*folder).to_owned()).collect();
        where_.dedup();
        Self::Judged {
            verdict,
            construction,
            literal: decides.map_or_else(String::new, |(_, finding)| finding.ours.clone()),
            other: best.map_or_else(String::new, |(other, name, found)| {
                let first = found.iter().find(|(_, finding)| finding.verdict == other);
                let ours = first.map_or("", |(_, finding)| finding.ours.as_str());
                format!("{name}: {ours}, {}", other.words())
            }),
            where_,
            shares: match came_out(&shown) {
                n if n == shown.len() || n == 0 => String::new(),
                n => format!(" ({n} of {})", shown.len()),
            },
        }
    }

    fn line(&self, claim: &Claim) -> String {
        let Claim { id, at, says, paper, tests, missing, .. } = claim;
        let (ours, verdict, other, place) = match self {
            Self::Judged { verdict, construction, literal, other, where_, shares } => {
                let built = if *construction { ", by construction" } else { "" };
                let links: Vec<String> =
                    where_.iter().map(|folder| format!("[{folder}]({folder}/README.md)")).collect();
                let words = format!("{}{built}{shares}", verdict.words());
                (literal.as_str(), words, other.as_str(), links.join(", "))
            }
            Self::Tested => {
                let names: Vec<&str> =
                    tests.iter().map(|test| test.rsplit("::").next().unwrap_or_default()).collect();
                ("", "covered by a test".to_owned(), "", format!("`{}`", names.join("`, `")))
            }
            Self::Missing => ("", "not testable here".to_owned(), "", format!("needs {missing}")),
        };
        format!("| {id} | {says} ({at}) | {paper} | {ours} | {verdict} | {other} | {place} |")
    }
}

fn worst(found: &[Placed<'_>]) -> Option<Verdict> {
    found.iter().map(|(_, finding)| finding.verdict).max()
}

/// Returns whether a reading says something of each literal statement that got this verdict: its statements are matched by what the paper says.
fn answers(reading: &[Placed<'_>], literal: &[Placed<'_>], verdict: Verdict) -> bool {
    let mut deciding = literal.iter().filter(|(_, finding)| finding.verdict == verdict);
    deciding.all(|(_, wanted)| reading.iter().any(|(_, finding)| finding.paper == wanted.paper))
}

fn came_out(found: &[Placed<'_>]) -> usize {
    found.iter().filter(|(_, finding)| finding.verdict <= Verdict::InShape).count()
}

fn counts(out: &mut String, standings: &[(&Claim, Standing)], placed: &[Placed<'_>], experiments: usize) {
    let claims = |wanted: Verdict, by_construction: bool| {
        let is = |standing: &Standing| {
            matches!(standing, Standing::Judged { verdict, construction, .. }
                if *verdict == wanted && *construction == by_construction)
        };
        standings.iter().filter(|(_, standing)| is(standing)).count()
    };
    let in_part = standings.iter().filter(|(_, standing)| {
        matches!(standing, Standing::Judged { verdict: Verdict::NotReproduced, shares, .. } if !shares.is_empty())
    });
    let other_reading = standings
        .iter()
        .filter(|(_, standing)| matches!(standing, Standing::Judged { other, .. } if !other.is_empty()));
    let built: usize = [Verdict::Reproduced, Verdict::InShape, Verdict::NotReproduced, Verdict::NotRun]
        .map(|verdict| claims(verdict, true))
        .iter()
        .sum();
    let _ = writeln!(
        out,
        "Of {} claims of the papers, read literally: **{} reproduced, {} in shape, {} not reproduced** ({} of these in part; {} come out under \
         another reading); {} hold by construction (worked examples, closed forms), {} are covered by tests, {} are not testable here{}.\n",
        standings.len(),
        claims(Verdict::Reproduced, false),
        claims(Verdict::InShape, false),
        claims(Verdict::NotReproduced, false),
        in_part.count(),
        other_reading.count(),
        built,
        standings.iter().filter(|(_, standing)| matches!(standing, Standing::Tested)).count(),
        standings.iter().filter(|(_, standing)| matches!(standing, Standing::Missing)).count(),
        match claims(Verdict::NotRun, false) {
            0 => String::new(),
            n => format!(", {n} are not run"),
        },
    );
    let statements = |wanted: Verdict, keep: &dyn Fn(&Finding) -> bool| {
        placed.iter().filter(|(_, finding)| finding.verdict == wanted && keep(finding)).count()
    };
    let of_papers = |finding: &Finding| finding.is_of_a_paper() && !finding.construction;
    let built = |finding: &Finding| finding.is_of_a_paper() && finding.construction;
    let ours = placed.iter().filter(|(_, finding)| !finding.is_of_a_paper()).count();
    let all = |keep: &dyn Fn(&Finding) -> bool| placed.iter().filter(|(_, finding)| keep(finding)).count();
    let _ = writeln!(
        out,
        "{experiments} experiments make {} statements about them, over all readings: {} reproduced, {} in shape, {} not{}. Beside these stand {} by \
         construction, of which {} came out, and {ours} statements of our own, of which {} hold.\n",
        all(&of_papers),
        statements(Verdict::Reproduced, &of_papers),
        statements(Verdict::InShape, &of_papers),
        statements(Verdict::NotReproduced, &of_papers),
        match statements(Verdict::NotRun, &of_papers) {
            0 => String::new(),
            n => format!(", {n} not run"),
        },
        all(&built),
        statements(Verdict::Reproduced, &built),
        statements(Verdict::Reproduced, &|finding| !finding.is_of_a_paper()),
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    fn finding(reading: &str, paper: &str, verdict: Verdict) -> Finding {
        Finding {
            line: 1,
            claim: "A12".to_owned(),
            reading: reading.to_owned(),
            construction: false,
            text: "behind".to_owned(),
            paper: paper.to_owned(),
            ours: "4×".to_owned(),
            band: String::new(),
            verdict,
            why: String::new(),
        }
    }

    fn other(findings: &[Finding]) -> String {
        let text = "[[claim]]\nid = \"A12\"\nat = \"Fig 8\"\nsays = \"behind\"\npaper = \"18.6×\"\n";
        let claims = Claims::read(text).unwrap();
        let placed: Vec<Placed<'_>> = findings.iter().map(|finding| ("folder", finding)).collect();
        match Standing::of(claims.iter().next().unwrap(), &placed) {
            Standing::Judged { other, .. } => other,
            Standing::Tested | Standing::Missing => panic!("it is judged"),
        }
    }

    #[test]
    fn a_reading_stands_beside_only_if_it_speaks_of_what_failed() {
        use Verdict::{NotReproduced, Reproduced};
        let literal = [finding("", "18.6×", NotReproduced), finding("", "fair ≥ LM", Reproduced)];
        let with = |reading: &[Finding]| other(&[&literal, reading].concat());
        assert_eq!(with(&[finding("twelve ports", "fair ≥ LM", Reproduced)]), "", "that came out literally");
        assert_eq!(with(&[finding("even parts", "18.6×", Reproduced)]), "even parts: 4×, reproduced");
        let half =
            [finding("even parts", "18.6×", Reproduced), finding("even parts", "fair ≥ LM", NotReproduced)];
        assert_eq!(with(&half), "", "it loses what came out");
    }
}
