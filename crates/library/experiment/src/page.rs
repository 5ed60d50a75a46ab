//! The page of one experiment, as Markdown: question, chart, claims with verdicts, what was
//! assumed, all figures.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use crate::criterion::Fitted;
use crate::definition::{Axis, Experiment, Form, Panel};
use crate::row::Row;
use crate::run::Key;
use crate::verdict::{Finding, findings, with_interval};

/// The page. Its first line states that it is generated, so that it is not edited.
pub fn page(experiment: &Experiment, rows: &BTreeMap<Key, Row>) -> String {
    let mut out = format!(
        "<!-- Made by `cavalcade experiment report` from experiment.toml and rows.parquet: edit experiment.toml. -->\n\
         # {}\n\n{}\n\n{}\n\n![{}](chart.svg)\n\n",
        experiment.title, experiment.source, experiment.question, experiment.title
    );
    if !experiment.findings.is_empty() {
        let _ = writeln!(out, "{}\n", experiment.findings);
    }
    claims(&mut out, experiment, rows);
    if let Some(fitted) = Fitted::of(experiment, rows) {
        out.push_str(&fitted.section());
    }
    if !experiment.assumptions.is_empty() {
        out.push_str("## What the paper leaves open, and what we chose\n\n");
        for assumption in &experiment.assumptions {
            let _ = writeln!(out, "- {assumption}");
        }
        out.push('\n');
    }
    out.push_str("## All figures\n\n");
    for panel in &experiment.panels {
        table(&mut out, experiment, rows, panel);
    }
    let _ = writeln!(out, "Run again with `cavalcade experiment run {}`.", experiment.name);
    out
}

fn claims(out: &mut String, experiment: &Experiment, rows: &BTreeMap<Key, Row>) {
    let findings = findings(experiment, rows);
    if findings.is_empty() {
        return;
    }
    out.push_str("## Claims\n\n\"A ≥ B\" says that A is at least as good as B, \"literal\" that the paper is taken at its word.\n\n| claim | what | reading | paper | ours (95 % interval) | band | verdict |\n|---|---|---|---|---|---|---|\n");
    for finding in &findings {
        let _ = writeln!(
            out,
            "| {} | {} | {} | {} | {} | {} | {} |",
            finding.claim,
            finding.text,
            reading(finding),
            finding.paper,
            finding.ours,
            finding.band,
            finding.verdict.words()
        );
    }
    out.push('\n');
    for finding in findings.iter().filter(|finding| !finding.why.is_empty()) {
        let _ = writeln!(out, "- {}, {}: {}", finding.claim, finding.text, finding.why);
    }
    out.push('\n');
}

/// The reading in words.
fn reading(finding: &Finding) -> String {
    let words = match (finding.reading.as_str(), finding.construction) {
        ("", true) => "by construction",
        ("", false) => "literal",
        (reading, _) => reading,
    };
    if finding.fitted { format!("{words}; fitted to this figure") } else { words.to_owned() }
}

fn table(out: &mut String, experiment: &Experiment, rows: &BTreeMap<Key, Row>, panel: &Panel) {
    let against = panel.against.map_or("", |series| panel.series[series].name.as_str());
    let form = match panel.form {
        Form::Factor => format!("factor over {against}"),
        Form::Reduction => format!("reduction against {against}"),
        Form::Gap => format!("above {against}"),
        Form::Seconds => "time".to_owned(),
        Form::Share => "share".to_owned(),
    };
    let measure = match panel.axis {
        Axis::Measures(_) => String::new(),
        Axis::Values { .. } | Axis::Bins => format!("{}, ", panel.measure),
    };
    let _ = writeln!(out, "**{}** ({measure}{form})\n", panel.title);
    let places: Vec<String> = (0..panel.places()).map(|place| panel.place(place)).collect();
    let _ = writeln!(out, "| | {} |", places.join(" | "));
    let _ = writeln!(out, "|---{}|", "|---".repeat(places.len()));
    for (index, series) in panel.series.iter().enumerate() {
        // The baseline against itself is no figure.
        if panel.against == Some(index) && !panel.form.is_plain() {
            continue;
        }
        let cells = (0..panel.places()).map(|place| {
            let estimate = experiment.estimate(rows, panel, index, place, panel.view());
            estimate.map_or("–".to_owned(), |estimate| with_interval(&estimate, panel.form))
        });
        let cells: Vec<String> = cells.collect();
        let _ = writeln!(out, "| {} | {} |", series.name, cells.join(" | "));
    }
    out.push('\n');
}
