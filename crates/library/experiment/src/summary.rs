//! The page of all experiments: what a person wrote, one line for each paper, the table of
//! outcomes, and one line for each claim.
//!
//! Prose is Markdown that a person wrote, in two parts: what stands before a line `---` comes
//! first, the rest after the claims. Figures of ours in it, in the lines of papers and in the
//! sentences of claims are not typed: `{A9 | the published trace | the mean}` stands for what came
//! out for that statement (claim, reading, text; without a reading for the literal one). So the
//! page cannot show another figure than the folder does.
//!
//! # Rejected
//! - A count of reproduced and not reproduced claims on top: a reader asked whether five papers are
//!   wrong or the simulator is.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use crate::claims::{Claim, Claims, ClaimsError, Outcome};
use crate::definition::Experiment;
use crate::row::Row;
use crate::run::Key;
use crate::standing::{Placed, Standing};
use crate::verdict::{Finding, findings};

/// The line of the prose that stands for all that is made.
const REST: &str = "---";

/// The page.
///
/// # Errors
/// If a claim's outcome is not borne out by the statements of experiments, or a figure that the
/// prose asks for is not there.
pub fn summary(
    claims: &Claims,
    experiments: &[(Experiment, BTreeMap<Key, Row>)],
    prose: &str,
) -> Result<String, ClaimsError> {
    let found: Vec<(&str, Vec<Finding>)> = experiments
        .iter()
        .map(|(experiment, rows)| (experiment.name.as_str(), findings(experiment, rows)))
        .collect();
    let placed: Vec<Placed<'_>> = found
        .iter()
        .flat_map(|(name, findings)| findings.iter().map(move |finding| (*name, finding)))
        .collect();
    let standings: Vec<Standing<'_>> = claims.iter().map(|claim| Standing::of(claim, &placed)).collect();
    standings.iter().try_for_each(Standing::check).map_err(ClaimsError::List)?;
    let (first, rest) = parts(prose, &placed)?;
    let mut out = String::from(
        "<!-- Made by `cavalcade experiment report`: edit prose.md, claims.toml and the experiment.toml of each folder. -->\n\
         # Were the papers right?\n\n",
    );
    paragraph(&mut out, &first);
    papers(&mut out, claims, &placed)?;
    outcomes(&mut out, claims);
    lines(&mut out, &standings, &placed)?;
    paragraph(&mut out, &rest);
    out.push_str("## All experiments\n\n| experiment | what | source |\n|---|---|---|\n");
    for (experiment, _) in experiments {
        let Experiment { name, title, source, .. } = experiment;
        let _ = writeln!(out, "| [{name}]({name}/README.md) | {title} | {source} |");
    }
    Ok(out)
}

fn paragraph(out: &mut String, text: &str) {
    if !text.trim().is_empty() {
        let _ = writeln!(out, "{}\n", text.trim());
    }
}

/// The prose with its figures, up to the line that stands for what is made, and from there on.
fn parts(prose: &str, placed: &[Placed<'_>]) -> Result<(String, String), ClaimsError> {
    let (mut first, mut rest, mut is_rest) = (String::new(), String::new(), false);
    for (index, line) in prose.lines().enumerate() {
        if line == REST && !is_rest {
            is_rest = true;
            continue;
        }
        let filled = filled(line, placed).map_err(|fault| ClaimsError::Prose { line: index + 1, fault })?;
        let part = if is_rest { &mut rest } else { &mut first };
        let _ = writeln!(part, "{filled}");
    }
    Ok((first, rest))
}

/// A text with the figures that it asks for.
fn filled(text: &str, placed: &[Placed<'_>]) -> Result<String, String> {
    let mut out = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('{') {
        let (asked, after) = after
            .split_once('}')
            .ok_or_else(|| format!("'{{{after}' has no end: expected '}}' on the line"))?;
        out.push_str(before);
        out.push_str(figure(asked, placed)?);
        rest = after;
    }
    out.push_str(rest);
    Ok(out)
}

fn figure<'a>(asked: &str, placed: &[Placed<'a>]) -> Result<&'a str, String> {
    let words: Vec<&str> = asked.split('|').map(str::trim).collect();
    let (claim, reading, text) = match words[..] {
        [claim, text] => (claim, "", text),
        [claim, reading, text] => (claim, reading, text),
        _ => return Err(format!("'{{{asked}}}' names no statement: write {{CLAIM | READING | TEXT}}")),
    };
    let mut found = placed
        .iter()
        .filter(|(_, finding)| finding.claim == claim && finding.reading == reading && finding.text == text);
    match (found.next(), found.next()) {
        (Some((_, finding)), None) => Ok(&finding.ours),
        (None, _) => Err(format!(
            "'{{{asked}}}' is no statement of an experiment: expected its claim, reading and text"
        )),
        (Some((one, _)), Some((other, _))) => {
            Err(format!("'{{{asked}}}' is a statement of {one} and of {other}: give one another text"))
        }
    }
}

/// One line for each paper.
fn papers(out: &mut String, claims: &Claims, placed: &[Placed<'_>]) -> Result<(), ClaimsError> {
    if claims.papers().is_empty() {
        return Ok(());
    }
    out.push_str(
        "## Paper by paper\n\n| paper | what stands | what falls, or is open | why |\n|---|---|---|---|\n",
    );
    for paper in claims.papers() {
        let text = |text: &str| filled(text, placed).map_err(|fault| ClaimsError::List(paper.fault(fault)));
        let (stands, falls, why) = (text(&paper.stands)?, text(&paper.falls)?, text(&paper.why)?);
        let _ = writeln!(out, "| **{}** | {stands} | {falls} | {why} |", paper.name);
    }
    out.push('\n');
    Ok(())
}

/// How many claims of each paper have each outcome.
fn outcomes(out: &mut String, claims: &Claims) {
    let count = |outcome: Outcome, keep: &dyn Fn(&Claim) -> bool| {
        claims.iter().filter(|claim| claim.outcome == outcome && keep(claim)).count()
    };
    let all = |_: &Claim| true;
    let none = count(Outcome::NoClaim, &all);
    let counted = claims.iter().count() - none;
    let words: Vec<String> = Outcome::COUNTED
        .iter()
        .map(|&outcome| {
            let words = outcome.words().replace('*', "").replace("comes", "come");
            format!("{} {words}", count(outcome, &all))
        })
        .collect();
    let _ = writeln!(out, "## Outcomes\n\nOf {counted} claims of the papers: **{}**.", words.join(", "));
    if none > 0 {
        let _ = writeln!(out, "{none} more of the list are no claims (sums, citations, set-ups).");
    }
    let heads: Vec<&str> = Outcome::COUNTED.iter().map(|outcome| outcome.words()).collect();
    let _ =
        writeln!(out, "\n| paper | {} | all |\n|---|{}---|", heads.join(" | "), "---|".repeat(heads.len()));
    let row = |name: &str, keep: &dyn Fn(&Claim) -> bool| {
        let counts = Outcome::COUNTED.map(|outcome| count(outcome, keep));
        let cells: Vec<String> =
            counts.iter().map(|&n| if n == 0 { "–".to_owned() } else { n.to_string() }).collect();
        format!("| {name} | {} | {} |\n", cells.join(" | "), counts.iter().sum::<usize>())
    };
    for paper in claims.papers() {
        out.push_str(&row(&paper.name, &|claim| paper.has(claim)));
    }
    out.push_str(&row("all", &all));
    out.push('\n');
}

/// One line for each claim, and what the columns mean.
fn lines(out: &mut String, standings: &[Standing<'_>], placed: &[Placed<'_>]) -> Result<(), ClaimsError> {
    out.push_str(
        "## Claim by claim\n\n\
         The figure is that of the literal statement that decides, with its 95 % interval; \"2 of 3\" says how many of a claim's literal statements \
         come out, which is *reproduced* or *in shape* by [one rule](../crates/library/experiment/src/verdict.rs). Beside it stands the figure of a reading \
         under which the claim comes out. What is *not shown* counts neither for the paper nor against it. Causes: *ours* (our program, or too few runs), \
         *reading* (of the paper), *criterion* (stricter than the claim), *paper silent* (it leaves out what decides), *paper wrong* (or not general).\n\n\
         | claim | the paper says | paper | literally | outcome | cause | another reading | in one sentence | where |\n\
         |---|---|---|---|---|---|---|---|---|\n",
    );
    for standing in standings {
        out.push_str(&line(standing, placed)?);
    }
    out.push('\n');
    Ok(())
}

fn line(standing: &Standing<'_>, placed: &[Placed<'_>]) -> Result<String, ClaimsError> {
    let Claim { id, at, says, paper, outcome, cause, because, tests, .. } = standing.claim;
    let because = filled(because, placed).map_err(|fault| ClaimsError::List(standing.claim.fault(fault)))?;
    let literal = standing.literal().map_or_else(String::new, |finding| {
        let built = if standing.construction { ", by construction" } else { "" };
        let parts = match standing.parts() {
            (n, all) if n == all || n == 0 => String::new(),
            (n, all) => format!(", {n} of {all}"),
        };
        format!("{}: {}{built}{parts}", finding.ours, finding.verdict.words().replace('*', ""))
    });
    let beside = standing.beside().map_or_else(String::new, |finding| {
        let fitted = if finding.fitted { "fitted to it, so not counted: " } else { "" };
        let name = if finding.reading.is_empty() { "" } else { &format!("{}: ", finding.reading) };
        format!("{fitted}{name}{}, {}", finding.ours, finding.verdict.words().replace('*', ""))
    });
    let names = tests.iter().map(|test| format!("`{}`", test.rsplit("::").next().unwrap_or_default()));
    let links = standing.folders().into_iter().map(|folder| format!("[{folder}]({folder}/README.md)"));
    let places: Vec<String> = links.chain(names).collect();
    let cause = cause.map_or("", |cause| cause.words());
    let (words, places) = (outcome.words(), places.join(", "));
    Ok(format!(
        "| {id} | {says} ({at}) | {paper} | {literal} | {words} | {cause} | {beside} | {because} | {places} |\n"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::verdict::Verdict;

    fn finding(reading: &str, text: &str, ours: &str) -> Finding {
        Finding {
            line: 1,
            claim: "B14".to_owned(),
            reading: reading.to_owned(),
            construction: false,
            fitted: false,
            text: text.to_owned(),
            paper: "27 %".to_owned(),
            ours: ours.to_owned(),
            band: String::new(),
            verdict: Verdict::Reproduced,
            why: String::new(),
        }
    }

    #[test]
    fn figures_of_the_prose_are_those_of_the_folders() {
        let findings = [finding("", "the mean", "24.7 %"), finding("1 ms", "the mean", "-81.8 %")];
        let placed: Vec<Placed<'_>> = findings.iter().map(|finding| ("folder", finding)).collect();
        let text = "It is {B14 | the mean}, and {B14 | 1 ms | the mean} at 1 ms.";
        assert_eq!(filled(text, &placed).unwrap(), "It is 24.7 %, and -81.8 % at 1 ms.");
        let (first, rest) = parts("one\n---\n{B14 | the mean}", &placed).unwrap();
        assert_eq!((first.as_str(), rest.as_str()), ("one\n", "24.7 %\n"));
    }

    #[test]
    fn a_figure_that_no_folder_has_is_refused_with_its_line() {
        let findings = [finding("", "the mean", "24.7 %"), finding("", "the mean", "21 %")];
        let placed: Vec<Placed<'_>> = [("one", &findings[0]), ("other", &findings[1])].into();
        let fault = |text: &str| parts(text, &placed).unwrap_err().to_string();
        assert!(
            fault("\n{B14 | 2 ms | the mean}")
                .starts_with("line 2: '{B14 | 2 ms | the mean}' is no statement")
        );
        assert!(fault("{B14 | the mean}").contains("is a statement of one and of other"));
        assert!(fault("{B14}").contains("names no statement: write {CLAIM | READING | TEXT}"));
        assert!(fault("{B14 | the").contains("has no end"));
    }

    #[test]
    fn the_count_leaves_out_what_is_no_claim() {
        let text = "[[claim]]\nid = \"B1\"\nat = \"-\"\nsays = \"-\"\npaper = \"-\"\noutcome = \"comes out\"\n\
                    [[claim]]\nid = \"B2\"\nat = \"-\"\nsays = \"-\"\npaper = \"-\"\noutcome = \"no claim\"\nbecause = \"A sum.\"\n";
        let mut out = String::new();
        outcomes(&mut out, &Claims::read(text).unwrap());
        assert!(out.contains("Of 1 claims of the papers: **1 come out, 0 come out if …,"), "{out}");
        assert!(out.contains("| all | 1 | – | – | – | – | – | 1 |"), "{out}");
    }
}
