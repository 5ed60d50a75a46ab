//! The page of all experiments: paper against ours at a glance, and in front of it the prose of the folder.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use crate::definition::Experiment;
use crate::row::Row;
use crate::run::Key;
use crate::verdict::{Finding, Verdict, findings};

/// The page. `prose` is Markdown that a person wrote; it stands between the counts and the tables.
pub fn summary(experiments: &[(Experiment, BTreeMap<Key, Row>)], prose: &str) -> String {
    let found: Vec<(&Experiment, Vec<Finding>)> =
        experiments.iter().map(|(experiment, rows)| (experiment, findings(experiment, rows))).collect();
    let mut out = String::from(
        "<!-- Made by `cavalcade experiment report`: edit prose.md and the experiment.toml of each folder. -->\n\
         # Experiments: what the papers say, and what came out\n\n",
    );
    let _ = writeln!(out, "{}\n", counts(&found));
    if !prose.trim().is_empty() {
        let _ = writeln!(out, "{}\n", prose.trim());
    }
    out.push_str("## At a glance\n\n");
    out.push_str(
        "| claim | what | paper | ours (95 % interval) | verdict | experiment |\n|---|---|---|---|---|---|\n",
    );
    for (experiment, findings) in &found {
        for finding in findings {
            let _ = writeln!(
                out,
                "| {} | {} | {} | {} | {} | [{}]({}/README.md) |",
                finding.claim,
                finding.text,
                finding.paper,
                finding.ours,
                finding.verdict.words(),
                experiment.name,
                experiment.name
            );
        }
    }
    out.push_str("\n## All experiments\n\n| experiment | what | source |\n|---|---|---|\n");
    for (experiment, _) in &found {
        let Experiment { name, title, source, .. } = experiment;
        let _ = writeln!(out, "| [{name}]({name}/README.md) | {title} | {source} |");
    }
    out
}

fn counts(found: &[(&Experiment, Vec<Finding>)]) -> String {
    let count = |verdict: Verdict| {
        found.iter().flat_map(|(_, findings)| findings).filter(|finding| finding.verdict == verdict).count()
    };
    let all: usize = found.iter().map(|(_, findings)| findings.len()).sum();
    let mut text = format!(
        "{} experiments test {all} statements of the papers: {} reproduced, {} in shape, {} not.",
        found.len(),
        count(Verdict::Reproduced),
        count(Verdict::InShape),
        count(Verdict::NotReproduced)
    );
    let missing = count(Verdict::NotRun);
    if missing > 0 {
        let _ = write!(text, " {missing} have not been run.");
    }
    text
}
