//! What came out of runs.

use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use cavalcade::columns::Column;
use cavalcade::folder::keep;
use cavalcade::kept::Keep;
use cavalcade::metrics::{LowerBound, RunFigures};
use cavalcade::model::BitsPerSec;
use cavalcade::output::{Folder, check_writable, write_file};
use cavalcade::report::{ReportInfo, TableOptions, fragment, html, json, latex, table};
use cavalcade::results::Results;
use cavalcade::tables;
use cavalcade::validate::{ScheduleReader, Segment};
use cavalcade::{
    Beside, Budget, Compared, Engine, Error, Kind, Progress, Scenario, Watch, bound_of, budget_beside_runs,
    compare_with, details_of, run_conditions,
};
use pyo3::prelude::*;

use crate::asked;
use crate::errors::Raise as _;
use crate::figures::Plots;
use crate::running::{Told, watched};
use crate::table::Table;
use crate::trace::{Loaded, OWN_FILE, Trace};

/// The most tables that a result shows one below the other.
const MOST_TABLES: usize = 6;

/// All runs under one rate with one seed.
pub(crate) struct Setting {
    pub(crate) rate: BitsPerSec,
    pub(crate) seed: u64,
    pub(crate) scenarios: Vec<Scenario>,
    pub(crate) compared: Compared,
    /// For each run, the rates of its flows, once they have been asked for.
    schedules: Vec<OnceLock<Vec<Segment>>>,
}

impl Setting {
    pub(crate) fn new(rate: BitsPerSec, seed: u64, scenarios: Vec<Scenario>, compared: Compared) -> Self {
        let schedules = scenarios.iter().map(|_| OnceLock::new()).collect();
        Self { rate, seed, scenarios, compared, schedules }
    }

    fn runs(&self) -> &[RunFigures] {
        &self.compared.comparison.runs
    }

    /// Runs again, for the rates.
    fn find_schedules(&self, progress: &Progress) -> Result<(), Error> {
        let find = |scenario: &Scenario| -> Result<Vec<Segment>, Error> {
            let mut text = Vec::new();
            let watch = Watch { progress: Some(progress), schedule: Some(&mut text), ..Watch::default() };
            scenario.run_with(watch)?;
            ScheduleReader::new(&text[..], scenario.workload().origin())
                .and_then(Iterator::collect)
                .map_err(|error| Error::new(Kind::Runtime, error.to_string()))
        };
        for (scenario, found) in self.scenarios.iter().zip(&self.schedules) {
            if found.get().is_none() {
                let segments = find(scenario)?;
                found.get_or_init(|| segments);
            }
        }
        Ok(())
    }

    /// Columns of a run, behind those that say which it is.
    fn behind(&self, run: usize, columns: Vec<Column>) -> Vec<Column> {
        let rows = columns.first().map_or(0, Column::rows);
        let figures = &self.runs()[run];
        let text = |name, value: String| Column::text(name, std::iter::repeat_n(value, rows));
        vec![
            text("run", figures.label.clone()),
            text("policy", figures.policy.clone()),
            text("rate", self.rate.to_string()),
            Column::whole("seed", std::iter::repeat_n(self.seed, rows)),
        ]
        .into_iter()
        .chain(columns)
        .collect()
    }

    fn coflows(&self, run: usize) -> Vec<Column> {
        tables::coflows(&self.compared.comparison, &self.runs()[run])
    }

    fn tasks(&self, run: usize) -> Vec<Column> {
        tables::tasks(&self.compared.comparison, &self.runs()[run])
    }

    fn flows(&self, run: usize) -> Vec<Column> {
        tables::flows(self.scenarios[run].workload(), &self.compared.flow_ends[run])
    }

    fn schedule(&self, run: usize) -> Vec<Column> {
        let segments = self.schedules[run].get().into_iter().flatten();
        tables::schedule(self.scenarios[run].workload(), segments)
    }

    /// Of each run its figures: the columns of `runs.csv` but for the folder.
    fn summary(&self) -> Vec<Column> {
        let runs = self.runs();
        let columns = tables::runs(&self.compared);
        let is_named = |column: &Column| ["run", "policy", "folder"].contains(&column.name());
        let (rate, seed) = (self.rate.to_string(), self.seed);
        vec![
            Column::text("run", runs.iter().map(|run| run.label.clone())),
            Column::text("policy", runs.iter().map(|run| run.policy.clone())),
            Column::text("rate", std::iter::repeat_n(rate, runs.len())),
            Column::whole("seed", std::iter::repeat_n(seed, runs.len())),
        ]
        .into_iter()
        .chain(columns.into_iter().filter(|column| !is_named(column)))
        .collect()
    }

    /// The name of its folder beside others.
    fn folder(&self) -> String {
        format!("{}-{}", self.rate, self.seed)
    }
}

/// All runs of a result, shared by all that is made of it.
pub(crate) struct Inner {
    pub(crate) trace: Arc<Loaded>,
    pub(crate) settings: Vec<Arc<Setting>>,
    /// True for one run that was asked for alone.
    pub(crate) is_single: bool,
    /// True if a policy is written in Python, which no manifest could make again.
    pub(crate) has_own: bool,
}

impl Inner {
    /// The runs, if they are of one rate and seed.
    ///
    /// # Errors
    /// If they are of several.
    pub(crate) fn only(&self, what: &str) -> Result<&Setting, Error> {
        match &self.settings[..] {
            [one] => Ok(one),
            several => Err(Error::usage(format!(
                "{what} is of one rate and seed, and these runs are of {} pairs of them",
                several.len()
            ))
            .help("choose one first, as runs.at(rate=\"1Gbps\", seed=1)")),
        }
    }

    /// A table with a piece for each run.
    fn table(self: &Arc<Self>, columns: fn(&Setting, usize) -> Vec<Column>) -> Table {
        let inner = Arc::clone(self);
        let places: Vec<(usize, usize)> = (self.settings.iter().enumerate())
            .flat_map(|(setting, of)| (0..of.runs().len()).map(move |run| (setting, run)))
            .collect();
        let count = places.len();
        Table::new(
            count,
            Arc::new(move |piece| {
                let (setting, run) = places[piece];
                let setting = &inner.settings[setting];
                setting.behind(run, columns(setting, run))
            }),
        )
    }

    /// A bound on all runs under each of the rates.
    fn bounds(
        &self,
        budget: Option<Budget>,
        progress: &Progress,
    ) -> Result<Vec<(BitsPerSec, LowerBound)>, Error> {
        let mut found: Vec<(BitsPerSec, LowerBound)> = Vec::new();
        for setting in &self.settings {
            // Seeds change no bound.
            if found.iter().any(|(rate, _)| *rate == setting.rate) {
                continue;
            }
            let scenario = &setting.scenarios[0];
            let budget = budget.unwrap_or_else(|| budget_beside_runs(scenario.workload()));
            let bound = bound_of(scenario, budget, progress);
            if progress.is_cancelled() {
                return Err(Error::new(Kind::Interrupted, "interrupted"));
            }
            found.push((setting.rate, bound));
        }
        Ok(found)
    }

    fn coflow_count(&self) -> usize {
        self.trace.workload.coflow_count()
    }

    /// Keeps all runs in `folder`.
    fn save(&self, folder: &Path, schedule: bool, progress: &Progress) -> Result<(), Error> {
        if self.has_own {
            return Err(Error::usage("a run under a policy in Python cannot be made again from its folder")
                .help("save the tables, as runs.coflows.write(\"coflows.parquet\")"));
        }
        let is_fluid = |scenario: &Scenario| *scenario.engine() == Engine::Fluid;
        if schedule && !self.settings.iter().all(|setting| setting.scenarios.iter().all(is_fluid)) {
            return Err(Error::option("schedule", true, "only the fluid engine has rates to write"));
        }
        let out = Folder::create(folder)?;
        let (record, content) = self.trace.record(folder)?;
        if let Some(content) = content {
            std::fs::write(out.path(OWN_FILE), content).map_err(|error| out.failure(OWN_FILE, &error))?;
        }
        if let ([setting], true) = (&self.settings[..], self.is_single) {
            let watch = Watch { progress: Some(progress), ..Watch::default() };
            keep(&setting.scenarios[0], &record, schedule, watch, Results::new(Some(&out)))?;
        } else {
            for setting in &self.settings {
                let kept = match self.settings.len() {
                    1 => Keep::new(&out, record.clone(), schedule)?,
                    _ => Keep::inside(&out, &setting.folder(), record.clone(), schedule)?,
                };
                if schedule {
                    let baseline = setting.compared.comparison.baseline;
                    let beside = Beside { keep: Some(kept), ..Beside::default() };
                    let again = compare_with(&setting.scenarios, baseline, &beside, progress)?;
                    if progress.is_cancelled() {
                        return Err(Error::new(Kind::Interrupted, "interrupted"));
                    }
                    beside.keep.iter().try_for_each(|keep| keep.write_tables(&again))?;
                } else {
                    kept.put(&setting.scenarios, &setting.compared)?;
                }
            }
        }
        out.keep().map(drop)
    }

    fn text(&self) -> String {
        let one = |setting: &Arc<Setting>| table(&setting.compared.comparison, TableOptions::default());
        self.each(|setting| format!("{} with seed {}\n\n", setting.rate, setting.seed), one)
    }

    /// What is said of each setting, below a heading where there are several, and how many more
    /// there are.
    fn each(&self, heading: impl Fn(&Setting) -> String, one: impl Fn(&Arc<Setting>) -> String) -> String {
        if let [setting] = &self.settings[..] {
            return one(setting);
        }
        let shown = self.settings.iter().take(MOST_TABLES);
        let parts: Vec<String> = shown.map(|setting| heading(setting) + &one(setting)).collect();
        let more = match self.settings.len().saturating_sub(MOST_TABLES) {
            0 => String::new(),
            more => format!("\n… and {more} more pairs of rate and seed: .summary has all of them.\n"),
        };
        parts.join("\n") + &more
    }
}

/// What no schedule can be below. `mean_s` is of all conditions, each counted once.
#[pyclass(frozen, module = "cavalcade")]
pub(crate) struct Bound {
    bounds: Arc<Vec<(BitsPerSec, LowerBound)>>,
}

impl Bound {
    pub(crate) fn new(bounds: Vec<(BitsPerSec, LowerBound)>) -> Self {
        Self { bounds: Arc::new(bounds) }
    }

    fn words(&self, of: impl Fn(&LowerBound) -> &str) -> String {
        let mut words: Vec<&str> = self.bounds.iter().map(|(_, bound)| of(bound)).collect();
        words.dedup();
        words.join(", ")
    }
}

#[pymethods]
impl Bound {
    /// No policy has a lower mean completion time over these rates, each counted once: of coflows,
    /// or of tasks where tasks have several.
    #[getter]
    fn mean_s(&self) -> f64 {
        let sum: f64 = self.bounds.iter().map(|(_, bound)| bound.mean.as_secs_f64()).sum();
        sum / self.bounds.len() as f64
    }

    /// At least so many tasks miss their deadline in any schedule, of all rates together.
    #[getter]
    fn misses(&self) -> usize {
        self.bounds.iter().map(|(_, bound)| bound.misses).sum()
    }

    /// The name of the method that found it.
    #[getter]
    fn method(&self) -> String {
        self.words(|bound| &bound.method)
    }

    /// The budget of the search, in words.
    #[getter]
    fn budget(&self) -> String {
        self.words(|bound| &bound.budget)
    }

    /// Whether it is the same on every machine.
    #[getter]
    fn repeatable(&self) -> bool {
        self.bounds.iter().all(|(_, bound)| bound.repeatable)
    }

    /// The bound of each rate.
    #[getter]
    fn table(&self) -> Table {
        let bounds = Arc::clone(&self.bounds);
        Table::new(
            1,
            Arc::new(move |_| {
                let each = || bounds.iter();
                vec![
                    Column::text("rate", each().map(|(rate, _)| rate.to_string())),
                    Column::whole("mean_ns", each().map(|(_, bound)| bound.mean.get())),
                    Column::whole("misses", each().map(|(_, bound)| bound.misses as u64)),
                    Column::text("method", each().map(|(_, bound)| bound.method.clone())),
                ]
            }),
        )
    }

    fn __repr__(&self) -> String {
        format!("Bound(mean_s={}, {}, {})", self.mean_s(), self.method(), self.budget())
    }
}

/// What came out: one run for each policy under each rate and seed.
#[pyclass(frozen, module = "cavalcade")]
pub(crate) struct Runs(pub(crate) Arc<Inner>);

#[pymethods]
impl Runs {
    /// A row for each coflow in each run.
    #[getter]
    fn coflows(&self) -> Table {
        self.0.table(Setting::coflows)
    }

    /// A row for each flow in each run.
    #[getter]
    fn flows(&self) -> Table {
        self.0.table(Setting::flows)
    }

    /// A row for each task in each run.
    #[getter]
    fn tasks(&self) -> Table {
        self.0.table(Setting::tasks)
    }

    /// A row for each piece of time in which a flow is sent at one rate; of the fluid engine, which
    /// runs again for it the first time.
    #[getter]
    fn schedule(&self, py: Python<'_>) -> PyResult<Table> {
        let mut scenarios = self.0.settings.iter().flat_map(|setting| &setting.scenarios);
        if scenarios.any(|scenario| *scenario.engine() != Engine::Fluid) {
            let error = Error::usage("only the fluid engine has rates").help("leave engine= out");
            return Err(error).or_raise(py);
        }
        let runs: usize = self.0.settings.iter().map(|setting| setting.runs().len()).sum();
        let find = |progress: &Progress| {
            self.0.settings.iter().try_for_each(|setting| setting.find_schedules(progress))
        };
        watched(py, runs * self.0.coflow_count(), Told::Nobody, &[], find)?.or_raise(py)?;
        Ok(self.0.table(Setting::schedule))
    }

    /// A row for each run with its figures.
    #[getter]
    fn summary(&self) -> Table {
        let inner = Arc::clone(&self.0);
        Table::new(self.0.settings.len(), Arc::new(move |piece| inner.settings[piece].summary()))
    }

    /// The trace.
    #[getter]
    fn trace(&self) -> Trace {
        Trace(Arc::clone(&self.0.trace))
    }

    /// What the runs under each rate and seed are called.
    #[getter]
    fn policies(&self) -> Vec<String> {
        self.0.settings[0].runs().iter().map(|run| run.label.clone()).collect()
    }

    /// The rates.
    #[getter]
    fn rates(&self) -> Vec<String> {
        let mut rates: Vec<String> = Vec::new();
        for setting in &self.0.settings {
            let rate = setting.rate.to_string();
            if !rates.contains(&rate) {
                rates.push(rate);
            }
        }
        rates
    }

    /// The seeds.
    #[getter]
    fn seeds(&self) -> Vec<u64> {
        let mut seeds: Vec<u64> = Vec::new();
        for setting in &self.0.settings {
            if !seeds.contains(&setting.seed) {
                seeds.push(setting.seed);
            }
        }
        seeds
    }

    /// The figures.
    #[getter]
    fn plot(&self) -> Plots {
        Plots(Arc::clone(&self.0))
    }

    fn __len__(&self) -> usize {
        self.0.settings.iter().map(|setting| setting.runs().len()).sum()
    }

    /// Searches for a bound on all runs: a number of linear programs, or a time such as "20s".
    #[pyo3(signature = (budget=None))]
    fn bound(&self, py: Python<'_>, budget: Option<&Bound_<'_>>) -> PyResult<Bound> {
        let budget = budget.filter(|budget| !budget.is_none()).map(asked::budget).transpose()?;
        let units = self.rates().len() * self.0.coflow_count();
        let found = watched(py, units, Told::Nobody, &[], |progress| self.0.bounds(budget, progress))?;
        found.or_raise(py).map(Bound::new)
    }

    /// The runs under one rate, or of one seed.
    #[pyo3(signature = (*, rate=None, seed=None))]
    fn at(&self, py: Python<'_>, rate: Option<&str>, seed: Option<u64>) -> PyResult<Self> {
        let asked: Option<BitsPerSec> = match rate {
            None => None,
            Some(text) => Some(
                text.parse()
                    .map_err(|_| {
                        Error::option("rate", text, "it is no rate").expected(self.rates().join(", "))
                    })
                    .or_raise(py)?,
            ),
        };
        let settings: Vec<Arc<Setting>> = (self.0.settings.iter())
            .filter(|setting| asked.is_none_or(|rate| setting.rate == rate))
            .filter(|setting| seed.is_none_or(|seed| setting.seed == seed))
            .cloned()
            .collect();
        if settings.is_empty() {
            let known = format!("rates {}; seeds {:?}", self.rates().join(", "), self.seeds());
            let error = Error::usage("there are no such runs").place("rate, seed").expected(known);
            return Err(error).or_raise(py);
        }
        let Inner { trace, is_single, has_own, .. } = &*self.0;
        let (trace, is_single, has_own) = (Arc::clone(trace), *is_single, *has_own);
        Ok(Self(Arc::new(Inner { trace, settings, is_single, has_own })))
    }

    /// Keeps all runs in a new folder, as the program does, so that 'cavalcade replay' and
    /// 'cavalcade validate' take each of them; several rates or seeds each in a folder of their
    /// own. With schedule=True they run again, to keep the rates of flows.
    #[pyo3(signature = (folder, *, schedule=false))]
    fn save(&self, py: Python<'_>, folder: PathBuf, schedule: bool) -> PyResult<()> {
        let units = self.__len__() * self.0.coflow_count();
        watched(py, units, Told::Nobody, &[], |progress| self.0.save(&folder, schedule, progress))?
            .or_raise(py)
    }

    /// The result as JSON, as 'cavalcade compare --json' prints it; of one rate and seed.
    fn json(&self, py: Python<'_>) -> PyResult<String> {
        let made = || {
            let setting = self.0.only("JSON")?;
            let conditions = run_conditions(&self.0.trace.name, setting.scenarios[0].conditions());
            Ok::<_, Error>(json(&setting.compared.comparison, &conditions))
        };
        py.detach(made).or_raise(py)
    }

    /// Writes a page of HTML for people, as 'cavalcade compare --report' does; of one rate and
    /// seed.
    fn report(&self, py: Python<'_>, path: PathBuf) -> PyResult<()> {
        let work = |progress: &Progress| {
            check_writable(&path)?;
            let setting = self.0.only("a report")?;
            let mut comparison = setting.compared.comparison.clone();
            if !self.0.has_own {
                comparison.details = Some(details_of(&setting.scenarios, &comparison, progress)?);
            }
            let info = ReportInfo {
                command: "cavalcade.compare, in Python".to_owned(),
                version: env!("CARGO_PKG_VERSION").to_owned(),
                trace: self.0.trace.name.clone(),
                seed: None,
            };
            let page = html(&comparison, &info);
            write_file(&path, |out| out.write_all(page.as_bytes()))
        };
        watched(py, self.__len__() * self.0.coflow_count(), Told::Nobody, &[], work)?.or_raise(py)
    }

    /// The table for a paper, and its file where a path is given.
    #[pyo3(signature = (path=None))]
    fn to_latex(&self, py: Python<'_>, path: Option<PathBuf>) -> PyResult<String> {
        let heading = |setting: &Setting| format!("% {} with seed {}\n", setting.rate, setting.seed);
        let text = self.0.each(heading, |setting| latex(&setting.compared.comparison));
        if let Some(path) = path {
            py.detach(|| write_file(&path, |out| out.write_all(text.as_bytes()))).or_raise(py)?;
        }
        Ok(text)
    }

    fn __str__(&self) -> String {
        self.0.text()
    }

    fn __repr__(&self) -> String {
        self.0.text()
    }

    fn _repr_html_(&self) -> String {
        let heading = |setting: &Setting| format!("<h4>{} with seed {}</h4>", setting.rate, setting.seed);
        self.0.each(heading, |setting| fragment(&setting.compared.comparison))
    }
}

/// What PyO3 calls a reference; the name is taken here.
type Bound_<'py> = pyo3::Bound<'py, PyAny>;
