//! How processor time and memory grow with a trace: coflows like Facebook's, each policy over the
//! first 1/64, 1/16, 1/4 and all of them, as the trace is read (`compare --stream`).
//!
//! A benchmark, not a test: it prints, and with `--record` writes `docs/growth.md`. The load is one
//! that the fabric carries, so what is under way at once does not grow with the trace, and what a
//! policy takes should go with its flows. Traces are beginnings of one, since a generator's `load`
//! is that of the busiest port, which is the further above the mean the shorter a trace is.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

use crate::bench::children_cpu_seconds;
use crate::steps::Failure;
use crate::workspace::Workspace;

const PAGE: &str = "docs/growth.md";

/// Coflows of each trace.
const COFLOWS: [usize; 4] = [1_563, 6_250, 25_000, 100_000];

/// The share of its capacity that the busiest port carries, until the last arrival of the longest.
const LOAD: f64 = 0.6;

const POLICIES: [&str; 3] = ["fair", "sebf", "aalo"];

/// A policy over a trace.
struct Run {
    coflows: usize,
    flows: f64,
    cpu_s: f64,
    bytes: f64,
}

/// Measures all traces of at most so many coflows; with `record` it becomes `docs/growth.md`.
pub(crate) fn run(workspace: &Workspace, most: usize, record: bool) -> Result<(), Failure> {
    workspace.cargo(&["build", "--release", "--package", "cavalcade-cli"]).check()?;
    let binary = workspace.target.join("release/cavalcade");
    let folder = workspace.target.join("growth");
    fs::create_dir_all(&folder)?;
    let text = generate(&binary, COFLOWS[COFLOWS.len() - 1])?;
    let mut runs: Vec<Vec<Run>> = POLICIES.map(|_| Vec::new()).into();
    for coflows in COFLOWS.into_iter().filter(|&coflows| coflows <= most) {
        let (trace, flows) = beginning(&text, coflows);
        let path = folder.join("trace.txt");
        fs::write(&path, trace)?;
        for (policy, runs) in POLICIES.iter().zip(&mut runs) {
            let (cpu_s, bytes) = measure(&binary, policy, &path)?;
            println!("{policy} over {coflows} coflows: {cpu_s:.1} CPU-s, {:.0} MB", bytes / 1e6);
            runs.push(Run { coflows, flows, cpu_s, bytes });
        }
    }
    let table = table(&runs);
    print!("{table}");
    if record {
        fs::write(workspace.root.join(PAGE), page(&table))?;
    }
    Ok(())
}

/// A trace of so many coflows.
fn generate(binary: &Path, coflows: usize) -> Result<String, Failure> {
    let generator = format!("facebook:coflows={coflows},load={LOAD}");
    let output =
        Command::new(binary).args(["trace", "generate", &generator, "--to", "coflow-benchmark"]).output()?;
    match output.status.success() {
        true => Ok(String::from_utf8_lossy(&output.stdout).into_owned()),
        false => Err(Failure::new(format!("trace generate {generator} failed"))),
    }
}

/// The first coflows of a trace, and their flows.
fn beginning(trace: &str, coflows: usize) -> (String, f64) {
    let mut lines = trace.lines();
    let ports = lines.next().and_then(|header| header.split(' ').next()).unwrap_or_default();
    let (mut text, mut flows) = (format!("{ports} {coflows}\n"), 0.0);
    for line in lines.take(coflows) {
        let mappers = line.split(' ').nth(2).and_then(|word| word.parse::<f64>().ok()).unwrap_or_default();
        flows += mappers * line.matches(':').count() as f64;
        text.push_str(line);
        text.push('\n');
    }
    (text, flows)
}

/// The CPU seconds of a policy over a trace, and the most memory that it had.
fn measure(binary: &Path, policy: &str, trace: &Path) -> Result<(f64, f64), Failure> {
    let before = children_cpu_seconds()?;
    let mut command = Command::new(binary);
    command.arg("compare").arg(trace).args(["--stream", "--policies", policy]);
    let mut child = command.stdout(Stdio::null()).spawn()?;
    let bytes = most_memory(&mut child)?;
    match child.wait()?.success() {
        true => Ok((children_cpu_seconds()? - before, bytes)),
        false => Err(Failure::new(format!("compare --stream --policies {policy} failed"))),
    }
}

/// Waits for a process to end, and returns the most memory that it had.
fn most_memory(child: &mut Child) -> Result<f64, Failure> {
    let status = format!("/proc/{}/status", child.id());
    let mut most: f64 = 0.0;
    while child.try_wait()?.is_none() {
        let text = fs::read_to_string(&status).unwrap_or_default();
        let line = text.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        let kilobytes = line.and_then(|line| line.trim().trim_end_matches(" kB").parse::<f64>().ok());
        most = kilobytes.map_or(most, |kilobytes| kilobytes * 1024.0);
        thread::sleep(Duration::from_millis(20));
    }
    Ok(most)
}

/// The runs of each policy, and how its cost grows from one trace to the next.
fn table(runs: &[Vec<Run>]) -> String {
    let mut text =
        "| policy | coflows | flows | CPU-s | µs/flow | growth n^x | peak memory MB |\n|---|--:|--:|--:|--:|--:|--:|\n"
            .to_owned();
    for (policy, runs) in POLICIES.iter().zip(runs) {
        let before = std::iter::once(None).chain(runs.iter().map(Some));
        for (run, before) in runs.iter().zip(before) {
            let growth = before.map_or(String::new(), |before| {
                format!("{:.2}", (run.cpu_s / before.cpu_s).ln() / (run.flows / before.flows).ln())
            });
            writeln!(
                text,
                "| {policy} | {} | {:.2} M | {:.2} | {:.2} | {growth} | {:.0} |",
                run.coflows,
                run.flows / 1e6,
                run.cpu_s,
                run.cpu_s * 1e6 / run.flows,
                run.bytes / 1e6
            )
            .expect("a string takes all text");
        }
    }
    text
}

fn page(table: &str) -> String {
    format!(
        "\
# How cost grows with a trace

`cargo xtask bench growth --record` writes this page: the first 1/64, 1/16, 1/4 and all of 100,000 coflows like Facebook's
(`facebook:coflows=100000,load={LOAD}`, 150 ports), each policy over the trace as it is read, `cavalcade compare --stream`.
CPU seconds are those of the whole process, with both readings of the file; memory is the most that it held. Growth is the
exponent x of n^x in flows, against the trace before it.

{table}"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_beginning_of_a_trace_is_a_trace_and_its_flows_are_mappers_times_reducers() {
        let trace = "9 3\na 0 2 0 1 2 2:1 3:1\nb 1 1 4 1 5:2\nc 2 1 4 1 5:2\n";
        let expected = "9 2\na 0 2 0 1 2 2:1 3:1\nb 1 1 4 1 5:2\n";
        assert_eq!(beginning(trace, 2), (expected.to_owned(), 5.0));
    }
}
