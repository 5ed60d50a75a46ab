//! `cavalcade experiment`: the experiments of a folder, run on all cores, and their pages.
//!
//! What is known of an experiment is in its folder: `experiment.toml` says what is run,
//! `rows.parquet` what came out, and from the two follow `chart.svg` and `README.md`. Beside the
//! folders `claims.toml` lists the claims of the papers. Runs whose rows are there already are not
//! run again: an interrupted sweep goes on where it was, and a changed text costs what has changed.
//! All runs of all experiments asked for go through one queue, so that no core waits for the end of
//! an experiment. With `--on` others make the runs; what is done with rows is the same.

mod store;
mod workers;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use cavalcade::map;
use cavalcade::output::write_file;
use cavalcade_experiment::{
    Claims, ClaimsError, Experiment, Files, Key, Needed, Row, Run, criterion_figure, figure, findings, page,
    summary,
};
use cavalcade_report::wrapped;
use serde_json::json;

use crate::arguments::{ExperimentCommand, ExperimentFolder, ExperimentRun};
use crate::failure::{Failure, Kind};
use crate::output::{print, tell};
use crate::progress::watched;
use crate::terminal;
use store::{Store, read_rows};

const TEXT: &str = "experiment.toml";
const ROWS: &str = "rows.parquet";
const CLAIMS: &str = "claims.toml";
const PROSE: &str = "prose.md";

/// Runs the command.
///
/// # Errors
/// If an experiment is not there or not valid, a run cannot be made, an output cannot be written,
/// or a check fails.
pub(crate) fn run(command: &ExperimentCommand) -> Result<(), Failure> {
    match command {
        ExperimentCommand::List { folder, json } => list(folder, *json),
        ExperimentCommand::Run(options) if options.smoke => smoke(options),
        ExperimentCommand::Run(options) => run_all(options),
        ExperimentCommand::Report { folder, check } => report(folder, *check, &[]),
    }
}

/// An experiment with its text, its folder and the rows that are there.
struct Loaded {
    experiment: Experiment,
    text: String,
    folder: PathBuf,
    rows: BTreeMap<Key, Row>,
}

impl Loaded {
    /// Refuses rows that are not those of the text: runs without a row, and rows that no run gives.
    fn check_rows(&self) -> Result<(), Failure> {
        let place = |line: usize| format!("{}, line {line}", self.folder.join(TEXT).display());
        let rows = self.folder.join(ROWS);
        let name = &self.experiment.name;
        let mut wanted = BTreeSet::new();
        for (line, run) in self.experiment.runs_by_line() {
            let Key { workload, policy, seed, .. } = run.key();
            if !self.rows.contains_key(run.key()) {
                return Err(Failure::input(format!(
                    "{}: {} is older than this: it has no row for {policy} on {workload}, seed {seed}",
                    place(line),
                    rows.display()
                ))
                .help(format!("run 'cavalcade experiment run {name}'")));
            }
            wanted.insert(run.key().clone());
        }
        match self.rows.keys().find(|key| !wanted.contains(key)) {
            None => Ok(()),
            Some(Key { workload, policy, seed, .. }) => Err(Failure::input(format!(
                "{}: {} is older than this text: no panel asks for its row of {policy} on {workload}, seed {seed}",
                place(1),
                rows.display()
            ))
            .help(format!("run 'cavalcade experiment run {name}', which drops such rows"))),
        }
    }
}

impl ExperimentFolder {
    /// The list of claims, checked against all experiments.
    fn claims(&self, loaded: &[Loaded]) -> Result<Claims, Failure> {
        let path = self.dir.join(CLAIMS);
        let text = fs::read_to_string(&path).map_err(|error| Failure::file("read", &path, &error))?;
        let at = |error: &dyn std::fmt::Display| Failure::input(format!("{}, {error}", path.display()));
        let claims = Claims::read(&text).map_err(|error| at(&error))?;
        let experiments: Vec<&Experiment> = loaded.iter().map(|one| &one.experiment).collect();
        claims.check(&experiments).map_err(|error| self.at(&error))?;
        Ok(claims)
    }

    /// A fault of the list of claims, of an experiment or of the prose, with its file.
    fn at(&self, error: &ClaimsError) -> Failure {
        let (path, error): (PathBuf, &dyn std::fmt::Display) = match error {
            ClaimsError::List(error) => (self.dir.join(CLAIMS), error),
            ClaimsError::Experiment { experiment, error } => (self.dir.join(experiment).join(TEXT), error),
            ClaimsError::Prose { .. } => (self.dir.join(PROSE), error),
        };
        Failure::input(format!("{}, {error}", path.display()))
    }

    fn load(&self) -> Result<Vec<Loaded>, Failure> {
        let entries = fs::read_dir(&self.dir).map_err(|error| {
            Failure::usage(format!("cannot read the folder {}: {error}", self.dir.display()))
                .help("run this in the root of a checkout, or name the folder of experiments with --dir")
        })?;
        let mut names: Vec<String> = entries
            .filter_map(Result::ok)
            .filter(|entry| entry.path().join(TEXT).is_file())
            .filter_map(|entry| entry.file_name().into_string().ok())
            .collect();
        names.sort();
        names.into_iter().map(|name| self.load_one(name)).collect()
    }

    fn load_one(&self, name: String) -> Result<Loaded, Failure> {
        let folder = self.dir.join(&name);
        let path = folder.join(TEXT);
        let text = fs::read_to_string(&path).map_err(|error| Failure::file("read", &path, &error))?;
        let experiment = Experiment::read(&name, &text)
            .map_err(|error| Failure::input(format!("{}, {error}", path.display())))?;
        let rows = read_rows(&folder.join(ROWS))?;
        Ok(Loaded { experiment, text, folder, rows })
    }

    /// The folder of data: given, or that beside the checkout.
    fn data(&self) -> PathBuf {
        self.data.clone().unwrap_or_else(|| self.dir.join("../../shared/data"))
    }
}

fn list(folder: &ExperimentFolder, json: bool) -> Result<(), Failure> {
    let mut out = String::new();
    let mut entries = Vec::new();
    for Loaded { experiment, rows, .. } in folder.load()? {
        let runs = experiment.runs();
        let done = runs.iter().filter(|run| rows.contains_key(run.key())).count();
        let Experiment { name, title, source, .. } = &experiment;
        out.push_str(&format!("{name:<34} {done:>4} of {:>4} runs  {title} ({source})\n", runs.len()));
        entries.push(json!({
            "name": name, "title": title, "source": source, "runs": runs.len(), "done": done,
        }));
    }
    if json {
        return print(&format!("{:#}\n", json!({ "schema_version": 1, "experiments": entries })));
    }
    print(&wrapped(&out, terminal::fit(false).width))
}

/// The experiments named, or all.
fn chosen(options: &ExperimentRun) -> Result<Vec<Loaded>, Failure> {
    let mut loaded = options.folder.load()?;
    options.folder.claims(&loaded)?;
    for name in &options.names {
        if !loaded.iter().any(|one| one.experiment.name == *name) {
            let known: Vec<&str> = loaded.iter().map(|one| one.experiment.name.as_str()).collect();
            return Err(Failure::usage(format!("there is no experiment '{name}'"))
                .help(format!("there are {}", known.join(", "))));
        }
    }
    if !options.names.is_empty() {
        loaded.retain(|one| options.names.contains(&one.experiment.name));
    }
    Ok(loaded)
}

/// Files for one experiment.
struct Folders {
    data: PathBuf,
    beside: PathBuf,
}

impl Files for Folders {
    fn data(&self, path: &str) -> Option<Vec<u8>> {
        fs::read(self.data.join(path)).ok()
    }

    fn beside(&self, path: &str) -> Option<Vec<u8>> {
        fs::read(self.beside.join(path)).ok()
    }
}

/// Drops the runs whose data is not there, and says so.
fn possible(runs: Vec<Run>, data: &Path, name: &str) -> Vec<Run> {
    let missing = |run: &Run| {
        let mut files = run.needs().filter_map(|file| match file {
            Needed::Data(path) => Some(data.join(path)),
            Needed::Beside(_) => None,
        });
        files.find(|path| !path.is_file())
    };
    let (there, absent): (Vec<Run>, Vec<Run>) = runs.into_iter().partition(|run| missing(run).is_none());
    if let Some(file) = absent.first().and_then(missing) {
        tell(&format!("{name}: {} runs are left out because {} is missing", absent.len(), file.display()));
    }
    there
}

/// An experiment whose runs are being made.
struct Study {
    name: String,
    text: String,
    files: Folders,
    store: Store,
}

fn run_all(options: &ExperimentRun) -> Result<(), Failure> {
    let data = options.folder.data();
    let (mut studies, mut queue) = (Vec::new(), Vec::new());
    for Loaded { experiment, text, folder, rows } in chosen(options)? {
        let name = experiment.name.clone();
        let order: Vec<Key> = experiment.runs().iter().map(|run| run.key().clone()).collect();
        let known = if options.fresh { BTreeMap::new() } else { rows };
        let store = Store::new(folder.join(ROWS), order, known);
        let todo = experiment.runs().into_iter().filter(|run| !store.has(run.key())).collect();
        let files = Folders { data: data.clone(), beside: folder };
        for run in possible(todo, &data, &name) {
            queue.push((studies.len(), run));
        }
        studies.push(Study { name, text, files, store });
    }
    // Each seed of all experiments before the next: the time to go is known early, and an interrupt
    // leaves a look at everything.
    queue.sort_by_key(|(_, run)| run.key().seed);
    let total = queue.len();
    let results = watched(total, |progress| {
        let keep = |index: usize, row: Row, took: Duration| {
            let Study { name, store, .. } = &studies[queue[index].0];
            progress.add(1);
            store.keep(row)?;
            Ok((name.as_str(), took))
        };
        if let Some(on) = &options.on {
            return workers::run(on, &studies, &queue, keep);
        }
        map(total, |index| {
            let (study, run) = &queue[index];
            let started = Instant::now();
            let row = run.row(&studies[*study].files).map_err(|error| Failure::input(error.to_string()))?;
            keep(index, row, started.elapsed())
        })
    });
    // What was run is kept, also where another run could not be made.
    for study in &studies {
        study.store.write()?;
    }
    let times = results.into_iter().collect::<Result<Vec<_>, Failure>>()?;
    tell_costs(times.into_iter());
    tell(&format!("{total} runs made, the others were there"));
    report(&options.folder, false, &options.names)
}

/// Runs one seed of the cheap experiments, or of those that are named, and compares the rows with
/// those that are there: the same bits, or something has changed.
fn smoke(options: &ExperimentRun) -> Result<(), Failure> {
    let data = options.folder.data();
    let mut queue = Vec::new();
    for Loaded { experiment, folder, rows, .. } in chosen(options)? {
        if !experiment.smoke && options.names.is_empty() {
            continue;
        }
        let first = experiment.runs().into_iter().filter(|run| run.key().seed == 1).collect();
        for run in possible(first, &data, &experiment.name) {
            let expected = rows.get(run.key()).cloned();
            let files = Folders { data: data.clone(), beside: folder.clone() };
            queue.push((experiment.name.clone(), run, expected, files));
        }
    }
    let results = watched(queue.len(), |progress| {
        map(queue.len(), |index| {
            let (name, run, expected, files) = &queue[index];
            let started = Instant::now();
            let row = run.row(files).map_err(|error| Failure::input(error.to_string()))?;
            progress.add(1);
            Ok((name, started.elapsed(), difference(name, &row, expected.as_ref())))
        })
    });
    let results = results.into_iter().collect::<Result<Vec<_>, Failure>>()?;
    tell_costs(results.iter().map(|&(name, took, _)| (name.as_str(), took)));
    let faults: Vec<String> = results.into_iter().filter_map(|(_, _, fault)| fault).collect();
    if faults.is_empty() {
        tell(&format!("{} runs reproduce their rows bit for bit", queue.len()));
        return Ok(());
    }
    Err(Failure::new(Kind::Assertion, faults.join("\n"))
        .help("where the change is meant, run 'cavalcade experiment run --fresh' and read the difference"))
}

/// Says in what way a row is not the one that is kept.
fn difference(name: &str, row: &Row, expected: Option<&Row>) -> Option<String> {
    let Key { workload, policy, .. } = &row.key;
    let bits = |row: &Row| row.figures.map(f64::to_bits);
    match expected {
        Some(expected) if bits(expected) == bits(row) => None,
        Some(_) => Some(format!("{name}: {policy} on {workload} gives figures that differ from its row")),
        None => Some(format!("{name}: {policy} on {workload} has no row")),
    }
}

/// Tells the time of the runs of each experiment, as if one core had made them one by one.
fn tell_costs<'a>(times: impl Iterator<Item = (&'a str, Duration)>) {
    let mut costs: BTreeMap<&str, (usize, Duration)> = BTreeMap::new();
    for (name, took) in times {
        let cost = costs.entry(name).or_default();
        cost.0 += 1;
        cost.1 += took;
    }
    for (name, (runs, time)) in costs {
        tell(&format!("{name}: {runs} runs of {:.1} s together", time.as_secs_f64()));
    }
}

/// Writes the pages and charts, or with `check` only compares them with those that are there.
/// Prints the verdicts of the experiments that are `named`, or of all.
fn report(options: &ExperimentFolder, check: bool, named: &[String]) -> Result<(), Failure> {
    let mut pages: Vec<(PathBuf, String)> = Vec::new();
    let mut all = Vec::new();
    let loaded = options.load()?;
    let claims = options.claims(&loaded)?;
    if check {
        loaded.iter().try_for_each(Loaded::check_rows)?;
    }
    for Loaded { experiment, folder, rows, .. } in loaded {
        pages.push((folder.join("README.md"), page(&experiment, &rows)));
        pages.push((folder.join("chart.svg"), figure(&experiment, &rows)));
        let criterion = criterion_figure(&experiment, &rows);
        pages.extend(criterion.map(|figure| (folder.join("criterion.svg"), figure)));
        all.push((experiment, rows));
    }
    let prose = fs::read_to_string(options.dir.join(PROSE)).unwrap_or_default();
    let of_all = summary(&claims, &all, &prose).map_err(|error| options.at(&error));
    // Pages of folders and verdicts first: a person needs them to mend what the page of all says.
    let refused = match of_all {
        Ok(text) => {
            pages.push((options.dir.join("README.md"), text));
            None
        }
        Err(_) if check => return of_all.map(drop),
        Err(failure) => Some(failure),
    };
    if check {
        let differs =
            |(path, text): &&(PathBuf, String)| fs::read_to_string(path).ok().as_ref() != Some(text);
        let stale: Vec<String> =
            pages.iter().filter(differs).map(|(path, _)| path.display().to_string()).collect();
        return match stale.is_empty() {
            true => Ok(()),
            false => Err(Failure::new(Kind::Assertion, format!("not up to date: {}", stale.join(", ")))
                .help("run 'cavalcade experiment report'")),
        };
    }
    for (path, text) in &pages {
        write_file(path, |out| out.write_all(text.as_bytes()))?;
    }
    let mut out = String::new();
    let printed = |experiment: &Experiment| named.is_empty() || named.contains(&experiment.name);
    for (experiment, rows) in all.iter().filter(|(experiment, _)| printed(experiment)) {
        for finding in findings(experiment, rows) {
            let verdict = finding.verdict.words().replace('*', "");
            out.push_str(&format!(
                "{:<5} {:<44} {:>18} {:>26}  {verdict}\n",
                finding.claim, finding.text, finding.paper, finding.ours
            ));
        }
    }
    print(&out)?;
    refused.map_or(Ok(()), Err)
}
