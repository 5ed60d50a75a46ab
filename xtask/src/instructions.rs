//! A gate on the number of instructions that the engines' hot paths take.
//!
//! Time on a shared machine differs by half from run to run; the number of instructions hardly
//! differs at all. So a few small runs of the program over a generated workload are counted by
//! valgrind, and each has to stay within [`TOLERANCE`] of a committed figure, above and below: a
//! change that saves instructions updates the file as well (`cargo xtask instructions --update`),
//! and the difference is part of its review.
//!
//! Counts hold for one compiler and one architecture. The file names both; elsewhere the gate is
//! left out.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::steps::Failure;
use crate::workspace::Workspace;

const BASELINE: &str = "xtask/instructions.txt";

/// The tolerance of a count, as a share of the baseline.
const TOLERANCE: f64 = 0.03;

/// The generated workloads: a name, and what `cavalcade trace generate` is asked for.
const WORKLOADS: &[(&str, &str)] =
    &[("shuffles", "facebook:coflows=120,ports=60"), ("few", "facebook:coflows=6,ports=8")];

/// The runs: a name, its workload, and what `cavalcade simulate` is asked for.
const RUNS: &[(&str, &str, &[&str])] = &[
    ("fluid fair", "shuffles", &["--policy", "fair"]),
    ("fluid fifo", "shuffles", &["--policy", "fifo"]),
    ("fluid dclas", "shuffles", &["--policy", "dclas"]),
    ("fluid sebf", "shuffles", &["--policy", "sebf"]),
    ("packets fair", "few", &["--policy", "fair", "--engine", "packet"]),
];

/// Compiler and architecture that what is counted or listed holds for.
pub(crate) fn toolchain() -> Result<String, Failure> {
    let output = Command::new("rustc").arg("-vV").output()?;
    let text = String::from_utf8_lossy(&output.stdout);
    let field =
        |name: &str| text.lines().find_map(|line| line.strip_prefix(name)).unwrap_or("?").trim().to_owned();
    Ok(format!("rustc {} on {}", field("release:"), field("host:")))
}

/// Says what this machine lacks for the gate; `None` where it can run.
pub(crate) fn missing(workspace: &Workspace) -> Option<String> {
    if Command::new("valgrind").arg("--version").output().is_err() {
        return Some("valgrind (in Debian: apt-get install valgrind)".to_owned());
    }
    let update = "cargo xtask instructions --update";
    let here = toolchain().unwrap_or_default();
    let Ok(baseline) = workspace.read(BASELINE) else { return Some(format!("{BASELINE}: {update}")) };
    let of_baseline = baseline.lines().next().unwrap_or_default();
    (here != of_baseline)
        .then(|| format!("counts of {here}, where {BASELINE} has those of {of_baseline}: {update}"))
}

/// Counts the instructions of all runs and compares them with the baseline.
pub(crate) fn check(workspace: &Workspace) -> Result<(), Failure> {
    if let Some(needs) = missing(workspace) {
        return Err(Failure::new(format!("the count of instructions needs {needs}")));
    }
    let baseline = workspace.read(BASELINE)?;
    let mut faults = Vec::new();
    println!("{:<16} {:>14} {:>14} {:>8}", "run", "instructions", "baseline", "change");
    for (name, count) in count_all(workspace)? {
        let before = figure(&baseline, name).ok_or_else(|| {
            Failure::new(format!("{BASELINE} has no '{name}': cargo xtask instructions --update"))
        })?;
        let change = count as f64 / before as f64 - 1.0;
        println!("{name:<16} {count:>14} {before:>14} {:>+7.2}%", change * 100.0);
        if change.abs() > TOLERANCE {
            faults.push(format!(
                "{name} takes {count} instructions instead of {before} ({:+.1} %)",
                change * 100.0
            ));
        }
    }
    if faults.is_empty() {
        return Ok(());
    }
    faults.push("if that is intended: cargo xtask instructions --update".to_owned());
    Err(Failure::new(faults.join("\n")))
}

/// Writes the counts of this machine as the baseline.
pub(crate) fn update(workspace: &Workspace) -> Result<(), Failure> {
    let mut text = format!("{}\n", toolchain()?);
    for (name, count) in count_all(workspace)? {
        let _ = writeln!(text, "{name}: {count}");
    }
    std::fs::write(workspace.root.join(BASELINE), &text)?;
    print!("{text}");
    Ok(())
}

/// The count that a baseline has for a run.
fn figure(baseline: &str, name: &str) -> Option<u64> {
    baseline.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':')?.trim().parse().ok())
}

fn count_all(workspace: &Workspace) -> Result<Vec<(&'static str, u64)>, Failure> {
    workspace.cargo(&["build", "--release", "--package", "cavalcade-cli"]).check()?;
    let program = workspace.target.join("release/cavalcade");
    let folder = workspace.target.join("instructions");
    std::fs::create_dir_all(&folder)?;
    let file = |name: &str| folder.join(format!("{name}.jsonl"));
    for (name, generator) in WORKLOADS {
        let mut command = Command::new(&program);
        command.args(["trace", "generate", generator, "--out"]).arg(file(name));
        output_of(&mut command)?;
    }
    RUNS.iter()
        .map(|(name, workload, arguments)| Ok((*name, count(&program, file(workload), arguments)?)))
        .collect()
}

/// Counts the instructions of one run.
fn count(program: &Path, trace: PathBuf, arguments: &[&str]) -> Result<u64, Failure> {
    let mut command = Command::new("valgrind");
    command.args(["--tool=cachegrind", "--cache-sim=no", "--cachegrind-out-file=/dev/null"]);
    command.arg(program).arg("simulate").arg(trace).args(arguments);
    let report = output_of(&mut command)?;
    counted(&report)
        .ok_or_else(|| Failure::new(format!("valgrind shows no count of instructions:\n{report}")))
}

/// The count in what valgrind reports: `==7== I refs:  1,234`.
fn counted(report: &str) -> Option<u64> {
    let (_, count) = report.lines().find(|line| line.contains("refs:"))?.rsplit_once(':')?;
    count.trim().replace(',', "").parse().ok()
}

/// Runs a command, and returns what it wrote to standard error.
fn output_of(command: &mut Command) -> Result<String, Failure> {
    let output = command.output()?;
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    if output.status.success() { Ok(errors) } else { Err(Failure::new(errors)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_count_is_read_out_of_valgrinds_report() {
        assert_eq!(counted("==7== \n==7== I   refs:      1,234,567\n"), Some(1_234_567));
        assert_eq!(counted("==7== Command: cavalcade"), None);
    }

    #[test]
    fn a_figure_is_found_by_its_whole_name() {
        let baseline = "rustc 1 on x\nfluid fair: 12\nfluid fair share: 13\n";
        assert_eq!(figure(baseline, "fluid fair"), Some(12));
        assert_eq!(figure(baseline, "fluid fair share"), Some(13));
        assert_eq!(figure(baseline, "fluid"), None);
    }
}
