//! CPU seconds of whole processes on the Facebook trace, beside their targets.
//!
//! A benchmark, not a test: it prints and never fails on time, because the machine next door may be
//! busy. CPU time of the child process is taken, with reading the trace, since that is what a user
//! pays.

use std::process::{Command, Stdio};

use crate::steps::Failure;
use crate::workspace::Workspace;

const TRACE: &str = "../shared/data/coflow/FB2010-1Hr-150-0.txt";

/// Each run as it is given to `--policy`, and its target in CPU seconds.
const TARGETS: &[(&str, f64)] = &[
    ("sebf:discipline=greedy", 0.35),
    ("fifo", 0.5),
    ("stf", 0.5),
    ("sincronia", 0.5),
    ("dclas:weighted=false", 0.5),
    ("fair", 1.5),
    ("dclas:weighted=true", 1.5),
];

/// Each is run so often; the mean is shown, as the kernel counts CPU in hundredths of a second.
const REPEATS: u32 = 5;

/// Runs the table.
pub(crate) fn run(workspace: &Workspace) -> Result<(), Failure> {
    if !workspace.root.join(TRACE).exists() {
        return Err(Failure::new(format!("{TRACE} is not there: the benchmark runs on the Facebook trace")));
    }
    workspace.cargo(&["build", "--release", "--package", "cavalcade-cli"]).check()?;
    let binary = workspace.target.join("release/cavalcade");
    println!("{:<28} {:>8} {:>8}  CPU seconds", "policy", "target", "taken");
    for (policy, target) in TARGETS {
        let before = children_cpu_seconds()?;
        for _ in 0..REPEATS {
            let mut command = Command::new(&binary);
            command.args(["compare", TRACE, "--policy", policy]).stdout(Stdio::null());
            if !command.current_dir(&workspace.root).status()?.success() {
                return Err(Failure::new(format!("compare --policy {policy} failed")));
            }
        }
        let taken = (children_cpu_seconds()? - before) / f64::from(REPEATS);
        let verdict = if taken <= *target { "" } else { "  over" };
        println!("{policy:<28} {target:>8.2} {taken:>8.3}{verdict}");
    }
    Ok(())
}

/// User and system time of all children that have ended: fields 16 and 17 of `/proc/self/stat`, in
/// ticks of 10 ms.
pub(crate) fn children_cpu_seconds() -> Result<f64, Failure> {
    let text = std::fs::read_to_string("/proc/self/stat")
        .map_err(|error| Failure::new(format!("/proc/self/stat: {error}: the benchmark needs Linux")))?;
    let ticks = cpu_ticks(&text).ok_or_else(|| Failure::new("/proc/self/stat has an unknown shape"))?;
    Ok(ticks as f64 / 100.0)
}

fn cpu_ticks(stat: &str) -> Option<u64> {
    // The second field is the program's name in parentheses and may hold spaces; the third follows
    // its closing one.
    let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
    Some(fields.get(13)?.parse::<u64>().ok()? + fields.get(14)?.parse::<u64>().ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_name_with_spaces_and_parentheses_does_not_shift_the_fields() {
        let stat = "7 (a (b) c) S 1 7 7 0 -1 4194560 100 200 0 0 11 12 30 40 20 0 1 0 5";
        assert_eq!(cpu_ticks(stat), Some(70));
    }
}
