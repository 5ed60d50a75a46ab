//! Tables of a comparison of training jobs: jobs as rows, policies as columns.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use cavalcade_model::{Bytes, Nanos};
use cavalcade_report::{Cells, Fit, Grid, factor, percent, time, times};
use cavalcade_training::{GroupKind, JobFigures, OpWork, OpsAlike, Read};

use super::ComparedJobs;
use super::beside::Parts;

/// All tables of a comparison.
pub(super) fn of(compared: &ComparedJobs, fit: Fit) -> String {
    let mut out = String::from("Mean iteration, and over alone\n");
    out += &means(compared).show(fit);
    let window = compared.runs().next().map(|(_, figures)| figures.window);
    out += "\nGPU use until the first job ends";
    if let Some([from, to]) = window {
        let first = compared.runs().next().map_or("", |(policy, _)| policy);
        write!(out, " ({} under {first})", time(to.since(from).as_secs_f64()))
            .expect("a string takes all text");
    }
    out.push('\n');
    out += &gpu_use(compared).show(fit);
    out += "\nEach job in detail; shares are of the time of its GPUs\n";
    out += &details(compared).show(fit);
    out += "\nCollectives; busbw as nccl-tests have it, in GB/s\n";
    out += &bandwidths(compared).show(fit);
    let beside = measured(compared, fit);
    if !beside.is_empty() {
        out += "\nMeasured beside simulated, and what the simulation adds; means of an iteration and rank\n";
        out += &beside;
    }
    out += "\nBusiest links\n";
    out += &links(compared).show(fit);
    out
}

fn names(compared: &ComparedJobs) -> impl Iterator<Item = String> + '_ {
    compared.jobs.jobs.iter().map(|job| job.name.clone())
}

fn means(compared: &ComparedJobs) -> Grid {
    let all = |figures: &[JobFigures]| figures.iter().map(|job| job.times.mean_s).collect::<Vec<_>>();
    let alone: Vec<f64> = compared.alone.iter().map(|alone| alone.times.mean_s).collect();
    let mut grid = Grid::default().text("job", names(compared)).figures("alone", times(&alone));
    for (policy, figures) in compared.runs() {
        let means = all(&figures.jobs);
        let over = means.iter().zip(&alone).map(|(mean, alone)| factor(mean / alone));
        let cells = times(&means).into_iter().zip(over).map(|(mean, over)| format!("{mean}  {over}"));
        grid = grid.figures(policy, cells);
    }
    grid
}

fn gpu_use(compared: &ComparedJobs) -> Grid {
    let mut grid = Grid::default().text("job", names(compared).chain(["all".to_owned()]));
    for (policy, figures) in compared.runs() {
        let shares = figures.jobs.iter().map(|job| job.gpu_use).chain([figures.gpu_use]);
        grid = grid.figures(policy, shares.map(|share| format!("{share:.3}")));
    }
    grid
}

fn details(compared: &ComparedJobs) -> Grid {
    let mut rows = Vec::new();
    let mut kinds: Vec<GroupKind> = Vec::new();
    for (_, figures) in compared.runs() {
        kinds.extend(figures.jobs.iter().flat_map(|job| job.shares.exposed.keys()));
    }
    kinds.sort_unstable();
    kinds.dedup();
    for (index, job) in compared.jobs.jobs.iter().enumerate() {
        for (policy, figures) in compared.runs() {
            let job_figures = &figures.jobs[index];
            let (times, shares) = (&job_figures.times, &job_figures.shares);
            let mut row = vec![job.name.clone(), policy.to_owned()];
            row.extend([times.p50_s, times.p95_s, times.max_s].map(time));
            row.push(percent(shares.computing, 1.0));
            row.extend(kinds.iter().map(|kind| {
                shares.exposed.get(kind).map_or_else(|| "–".to_owned(), |share| percent(*share, 1.0))
            }));
            row.extend([shares.waiting, shares.idle].map(|share| percent(share, 1.0)));
            rows.push(row);
        }
    }
    let exposed: Vec<String> = kinds.iter().map(|kind| format!("exposed {kind}")).collect();
    let mut columns = vec![("job", Cells::Text), ("policy", Cells::Text)];
    columns.extend(["p50", "p95", "max", "compute"].map(|heading| (heading, Cells::Figures)));
    columns.extend(exposed.iter().map(|heading| (heading.as_str(), Cells::Figures)));
    columns.extend(["waiting", "idle"].map(|heading| (heading, Cells::Figures)));
    Grid::of_rows(&columns, rows)
}

fn bandwidths(compared: &ComparedJobs) -> Grid {
    let mut rows = Vec::new();
    for (index, job) in compared.jobs.jobs.iter().enumerate() {
        let first = compared.runs().next().map_or(&[][..], |(_, figures)| &figures.jobs[index].bandwidths);
        for bandwidth in first {
            let mut row = vec![
                job.name.clone(),
                format!("{} {}", bandwidth.group, bandwidth.kind),
                bandwidth.count.to_string(),
                Bytes(bandwidth.bytes.get() / bandwidth.count.max(1)).rounded().to_string(),
            ];
            for (_, figures) in compared.runs() {
                let of_run = figures.jobs[index].bandwidths.iter();
                let same = of_run.filter(|one| (one.kind, one.group) == (bandwidth.kind, bandwidth.group));
                row.push(same.map(|one| format!("{:.2}", one.busbw)).next().unwrap_or_default());
            }
            rows.push(row);
        }
    }
    let mut columns = vec![("job", Cells::Text), ("collective", Cells::Text)];
    columns.extend([("count", Cells::Figures), ("mean size", Cells::Figures)]);
    columns.extend(compared.runs().map(|(policy, _)| (policy, Cells::Figures)));
    Grid::of_rows(&columns, rows)
}

/// Recorded iterations beside those of each run; empty without recordings.
fn measured(compared: &ComparedJobs, fit: Fit) -> String {
    let mut rows = Vec::new();
    for (index, job) in compared.jobs.jobs.iter().enumerate() {
        let Some((measured, runs)) = compared.beside(index) else { continue };
        let mut row = |run: &str, parts: Parts, signed: &dyn Fn(f64) -> String| {
            let Parts { iteration, own, communication, rest } = parts;
            let cells = [iteration, own, communication, rest].map(signed);
            rows.push([vec![job.name.clone(), run.to_owned()], cells.to_vec()].concat());
        };
        row("measured", measured, &time);
        for (run, parts) in runs {
            let signed = |value: f64| {
                let shown = time(value.abs());
                if value < 0.0 { format!("−{shown}") } else { format!("+{shown}") }
            };
            row(run, parts, &time);
            row(&format!("{run} − measured"), parts.less(&measured), &signed);
        }
    }
    if rows.is_empty() {
        return String::new();
    }
    let columns = [
        ("job", Cells::Text),
        ("run", Cells::Text),
        ("iteration", Cells::Figures),
        ("computation", Cells::Figures),
        ("communication and waiting", Cells::Figures),
        ("neither", Cells::Figures),
    ];
    Grid::of_rows(&columns, rows).show(fit)
}

/// How many links tables and JSON name.
pub(super) const BUSIEST: usize = 5;

fn links(compared: &ComparedJobs) -> Grid {
    let all = compared.runs().next().map_or(&[][..], |(_, figures)| &figures.links);
    let busiest = &all[..all.len().min(BUSIEST)];
    let name = |link| compared.jobs.cluster.link_name(&compared.fabric, link);
    let mut grid = Grid::default()
        .text("link", busiest.iter().map(|link| name(link.link)))
        .figures("carried", busiest.iter().map(|link| link.bytes.rounded().to_string()));
    for (policy, figures) in compared.runs() {
        let busy = |link| figures.links.iter().find(|other| other.link == link).map(|link| link.busy);
        let cells = busiest.iter().map(|link| busy(link.link));
        grid = grid.figures(policy, cells.map(|busy| busy.map_or("–".to_owned(), |busy| percent(busy, 1.0))));
    }
    grid
}

/// Collectives and transfers of a kind in groups of a kind, in an iteration.
pub(super) struct Sum {
    pub(super) group: String,
    pub(super) kind: String,
    pub(super) count: u64,
    /// The most members.
    pub(super) members: usize,
    /// Their buffers, each counted once.
    pub(super) bytes: u64,
}

/// What a workload sends, added up.
pub(super) fn summed(read: &Read) -> Vec<Sum> {
    let mut sums: BTreeMap<(String, String), (u64, u64, usize)> = BTreeMap::new();
    for OpsAlike { work, group, members, count } in read.program.ops_alike() {
        let (kind, bytes) = match work {
            OpWork::Compute { .. } => continue,
            OpWork::Collective(collective) => (collective.kind.to_string(), collective.bytes.get()),
            OpWork::Transfer { bytes, .. } => ("transfer".to_owned(), bytes.get()),
        };
        let group = group.map(|kind| kind.to_string()).unwrap_or_default();
        let sum = sums.entry((group, kind)).or_default();
        *sum = (sum.0 + count, sum.1.saturating_add(bytes.saturating_mul(count)), sum.2.max(members));
    }
    let sum = |((group, kind), (count, bytes, members))| Sum { group, kind, count, members, bytes };
    sums.into_iter().map(sum).collect()
}

/// What a job does in an iteration.
pub(super) fn info(read: &Read, fit: Fit) -> String {
    let program = &read.program;
    let computation = program.computation();
    let [least, most] = [computation.iter().min(), computation.iter().max()]
        .map(|span| span.copied().unwrap_or(Nanos::ZERO).as_secs_f64());
    let mut out = format!("{} ranks, {} operations in an iteration\n", program.ranks(), program.operations());
    let span = if least < most { format!("{} to {}", time(least), time(most)) } else { time(most) };
    writeln!(out, "computation: {span} a rank").expect("a string takes all text");
    let rows = summed(read).into_iter().map(|Sum { group, kind, count, members, bytes }| {
        vec![group, kind, count.to_string(), members.to_string(), Bytes(bytes).rounded().to_string()]
    });
    let columns = [
        ("group", Cells::Text),
        ("collective", Cells::Text),
        ("count", Cells::Figures),
        ("members", Cells::Figures),
        ("buffers", Cells::Figures),
    ];
    let rows: Vec<Vec<String>> = rows.collect();
    if !rows.is_empty() {
        out.push('\n');
        out += &Grid::of_rows(&columns, rows).show(fit);
    }
    out.push('\n');
    for note in &read.notes {
        writeln!(out, "{:9}  {}", note.certainty, note.text).expect("a string takes all text");
    }
    out
}
