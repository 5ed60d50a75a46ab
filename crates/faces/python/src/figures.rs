//! Figures of a result, for papers and notebooks.

use std::path::PathBuf;
use std::sync::Arc;

use cavalcade::metrics::{Comparison, RunFigures};
use cavalcade::model::BitsPerSec;
use cavalcade::output::write_file;
use cavalcade::report::{
    ClassSide, FigureError, FigureFile, FigureKind, FigureWidth, PairSide, RenderError, class_figure, figure,
    pair_figure, svg,
};
use cavalcade::{Axis, Choice, Error, Kind, Progress, Show, Sweep, map, waiting_by_class};
use pyo3::prelude::*;
use pyo3::types::PyString;

use crate::asked::{self, Words};
use crate::compare::with_policies;
use crate::errors::Raise as _;
use crate::results::Inner;
use crate::running::{Told, watched};
use crate::trace::Loaded;

/// A figure for a paper or a notebook.
#[pyclass(frozen, module = "cavalcade")]
pub(crate) struct Figure {
    /// With text as text, which a browser draws.
    drawing: String,
}

#[pymethods]
impl Figure {
    /// What the SVG file has: text as outlines, so it looks alike in every program.
    #[getter]
    fn svg(&self, py: Python<'_>) -> PyResult<String> {
        py.detach(|| svg(&self.drawing).map_err(unrendered)).or_raise(py)
    }

    /// Writes it as SVG, PDF or PNG, by the ending of the name.
    fn save(&self, py: Python<'_>, path: PathBuf) -> PyResult<()> {
        let write = || {
            let file = FigureFile::of(&path).ok_or_else(|| {
                Error::usage(format!("{}: a figure is SVG, PDF or PNG", path.display()))
                    .place("path")
                    .expected("a name that ends with .svg, .pdf or .png")
            })?;
            let drawn = file.of_drawing(&self.drawing).map_err(unrendered)?;
            write_file(&path, |out| out.write_all(&drawn))
        };
        py.detach(write).or_raise(py)
    }

    fn _repr_svg_(&self) -> &str {
        &self.drawing
    }
}

fn unrendered(error: RenderError) -> Error {
    Error::new(Kind::Runtime, error.to_string())
}

/// The figures of a result.
#[pyclass(frozen, module = "cavalcade")]
pub(crate) struct Plots(pub(crate) Arc<Inner>);

fn width(word: &str) -> Result<FigureWidth, Error> {
    match word {
        "column" => Ok(FigureWidth::Column),
        "page" => Ok(FigureWidth::Page),
        _ => Err(Error::option("width", word, "it is no width of a page").expected("\"column\" or \"page\"")),
    }
}

fn drawn(comparison: &Comparison, kind: FigureKind, width: FigureWidth) -> Result<Figure, Error> {
    let runs: Vec<usize> = (0..comparison.runs.len()).collect();
    figure(comparison, kind, width, &runs).map_err(undrawn).map(|drawing| Figure { drawing })
}

fn undrawn(error: FigureError) -> Error {
    let cure = match error {
        FigureError::NoCoflows => "take a trace with coflows that cross the fabric",
        FigureError::OnePolicy => "compare two policies or more",
        FigureError::NoTasks => "draw plot.cdf(), of coflows",
        FigureError::Unlike => "take two runs of one trace",
        FigureError::NoSuchRun => "count runs from 0",
    };
    Error::usage(error.to_string()).help(cure)
}

impl Plots {
    /// A figure of what is compared under one rate with one seed.
    fn of_one(&self, py: Python<'_>, kind: FigureKind, word: &str) -> PyResult<Figure> {
        let draw = || drawn(&self.0.only("this figure")?.compared.comparison, kind, width(word)?);
        py.detach(draw).or_raise(py)
    }

    /// A figure of distributions: a line for each policy, over all rates and seeds, or for each of
    /// them.
    fn distributions(&self, py: Python<'_>, kind: FigureKind, by: &str, word: &str) -> PyResult<Figure> {
        let draw = || drawn(&self.pooled(by)?, kind, width(word)?);
        py.detach(draw).or_raise(py)
    }

    fn pooled(&self, by: &str) -> Result<Comparison, Error> {
        let label = |run: &RunFigures, rate: &str, seed: u64| match by {
            "policy" | "run" => Ok(run.label.clone()),
            "rate" => Ok(format!("{}, {rate}", run.label)),
            "seed" => Ok(format!("{}, seed {seed}", run.label)),
            _ => Err(Error::option("by", by, "there is no such column")
                .expected("\"policy\", \"rate\" or \"seed\"")),
        };
        let mut pooled = self.0.settings[0].compared.comparison.clone();
        pooled.runs.clear();
        for setting in &self.0.settings {
            for run in &setting.compared.comparison.runs {
                let label = label(run, &setting.rate.to_string(), setting.seed)?;
                match pooled.runs.iter_mut().find(|known| known.label == label) {
                    Some(known) => {
                        known.cct.extend(&run.cct);
                        known.tct.extend(&run.tct);
                    }
                    None => pooled.runs.push(RunFigures { label, ..run.clone() }),
                }
            }
        }
        Ok(pooled)
    }
}

#[pymethods]
impl Plots {
    /// Distribution of coflow completion times: a line for each policy, of all rates and seeds
    /// together; or by="rate", by="seed".
    #[pyo3(signature = (*, by="policy", width="column"))]
    fn cdf(&self, py: Python<'_>, by: &str, width: &str) -> PyResult<Figure> {
        self.distributions(py, FigureKind::Cdf, by, width)
    }

    /// Distribution of task completion times, where tasks have several coflows.
    #[pyo3(signature = (*, by="policy", width="column"))]
    fn tasks(&self, py: Python<'_>, by: &str, width: &str) -> PyResult<Figure> {
        self.distributions(py, FigureKind::Tasks, by, width)
    }

    /// Speedup over the baseline, for all coflows and by bin; of one rate and seed.
    #[pyo3(signature = (*, width="column"))]
    fn gain(&self, py: Python<'_>, width: &str) -> PyResult<Figure> {
        self.of_one(py, FigureKind::Gain, width)
    }

    /// Every coflow from arrival to finish; of one rate and seed.
    #[pyo3(signature = (*, width="column"))]
    fn timeline(&self, py: Python<'_>, width: &str) -> PyResult<Figure> {
        self.of_one(py, FigureKind::Timeline, width)
    }

    /// One policy against another: both times of each coflow, and the distribution of speedups; of
    /// one rate and seed.
    #[pyo3(signature = (a, b, *, width="column"))]
    fn ab(&self, py: Python<'_>, a: &str, b: &str, width: &str) -> PyResult<Figure> {
        let draw = || {
            let comparison = &self.0.only("this figure")?.compared.comparison;
            let side = |name: &'static str, label: &str| {
                let labels = || comparison.runs.iter().map(|run| run.label.clone()).collect::<Vec<_>>();
                let found = comparison.runs.iter().find(|run| run.label == label);
                found
                    .map(|run| PairSide { name: &run.label, policy: &run.policy, times: &run.cct })
                    .ok_or_else(|| {
                        Error::option(name, label, "it is not among the policies")
                            .expected(labels().join(", "))
                    })
            };
            let (a, b) = (side("a", a)?, side("b", b)?);
            pair_figure(&a, &b, self::width(width)?).map_err(undrawn).map(|drawing| Figure { drawing })
        };
        py.detach(draw).or_raise(py)
    }

    /// Mean bytes that wait in each priority class; of one rate and seed. Each policy is run again
    /// for it.
    #[pyo3(signature = (*, width="column"))]
    fn classes(&self, py: Python<'_>, width: &str) -> PyResult<Figure> {
        let draw = |progress: &Progress| {
            let setting = self.0.only("this figure")?;
            let (runs, scenarios) = (&setting.compared.comparison.runs, &setting.scenarios);
            let waiting = map(scenarios.len(), |run| waiting_by_class(&scenarios[run], progress));
            let waiting = waiting.into_iter().collect::<Result<Vec<_>, Error>>()?;
            let side = |run: usize| ClassSide {
                name: &runs[run].label,
                policy: &runs[run].policy,
                bytes: &waiting[run],
            };
            let sides: Vec<ClassSide<'_>> = (0..waiting.len()).map(side).collect();
            class_figure(&sides, self::width(width)?).map_err(undrawn).map(|drawing| Figure { drawing })
        };
        watched(py, 1, Told::Nobody, &[], draw)?.or_raise(py)
    }

    /// Mean time lost to others, by bin; of one rate and seed.
    #[pyo3(signature = (*, width="column"))]
    fn queueing(&self, py: Python<'_>, width: &str) -> PyResult<Figure> {
        self.of_one(py, FigureKind::Queueing, width)
    }
}

/// Runs policies at each value of a condition or a parameter, and draws a line for each; with a 95
/// % interval where there are seeds.
///
/// Instead of a trace, the text of a generator makes one for each seed. over is "rate" of all
/// links, "load" (a multiple of the trace's own), "control_delay", "period" (of the live
/// coordinator, which then runs all policies), or a parameter such as "first_threshold"; a policy
/// without it is a level line. show is "mean" or "p95" of completion times, or "speedup" over the
/// baseline.
#[pyfunction]
#[pyo3(signature = (trace, over, values, policies, *, show="mean", seeds=None, baseline=None, rate=None, fabric=None,
    offline=false, control_delay="0ns", width="column", progress=None))]
#[allow(clippy::too_many_arguments, reason = "arguments by name are what callers in Python expect")]
pub(crate) fn sweep_figure<'py>(
    py: Python<'py>,
    trace: &Bound<'py, PyAny>,
    over: &str,
    values: &Bound<'py, PyAny>,
    policies: &Bound<'py, PyAny>,
    show: &str,
    seeds: Option<&Bound<'py, PyAny>>,
    baseline: Option<&str>,
    rate: Option<&Bound<'py, PyAny>>,
    fabric: Option<&Bound<'py, PyAny>>,
    offline: bool,
    control_delay: &str,
    width: &str,
    progress: Option<&Bound<'py, PyAny>>,
) -> PyResult<Figure> {
    let show = match show {
        "mean" => Show::Mean,
        "p95" => Show::P95,
        "speedup" => Show::Speedup,
        _ => {
            let error = Error::option("show", show, "there is no such figure of a run");
            return Err(error.expected("\"mean\", \"p95\" or \"speedup\"")).or_raise(py);
        }
    };
    let width = self::width(width).or_raise(py)?;
    let given = seeds.is_some_and(|seeds| !seeds.is_none());
    let seeds = asked::seeds(py, seeds)?;
    let (origin, trace) = match trace.cast::<PyString>() {
        Ok(spec) => {
            let spec: String = spec.extract()?;
            let first = py.detach(|| cavalcade::generate(&spec, seeds[0])).or_raise(py)?;
            let name = spec.clone();
            (Some(spec), Arc::new(Loaded::made(first, name)))
        }
        Err(_) if given => {
            let error = Error::usage("seeds repeat a generated workload, but a trace was given");
            let cure = "leave it out, or give the generator, as \"facebook:coflows=100,ports=20\"";
            return Err(error.place("seeds").help(cure)).or_raise(py);
        }
        Err(_) => (None, asked::trace(trace)?),
    };
    let values = values.try_iter()?.map(|value| Ok(value?.str()?.to_string()));
    let axis = Axis::new(over, values.collect::<PyResult<Vec<String>>>()?).or_raise(py)?;
    let setup = Words { fabric, offline, control_delay, ..Words::default() }.setup(py)?;
    let has_rate = rate.is_some_and(|rate| !rate.is_none());
    let rate = match (axis.is_rate(), has_rate) {
        (true, true) => {
            let error = Error::usage("over=\"rate\" and rate both set the rate").place("rate");
            return Err(error.help("leave rate out")).or_raise(py);
        }
        (true, false) => BitsPerSec(1),
        (false, _) => asked::one_rate_of(py, rate, &trace, "sweep over=\"rate\" instead")?,
    };
    let named = origin.is_none().then_some(&*trace.workload);
    let policies = asked::policies(py, Some(policies), named)?;
    let choices: Vec<Choice> = policies.iter().map(|chosen| chosen.choice().clone()).collect();
    let named = |choice: &Choice| (choice.label(), choice.policy.as_ref().map(|one| one.name().to_owned()));
    let named: Vec<_> = choices.iter().map(named).collect();
    let baseline = asked::baseline(&named, baseline).or_raise(py)?;
    let draw = |progress: &Progress| {
        let sweep = Sweep::new(axis, choices, baseline, setup.conditions(rate, seeds[0]), seeds)?;
        sweep.first(&trace.workload)?;
        let workload = |seed| match &origin {
            Some(spec) => cavalcade::generate(spec, seed).map(Arc::new),
            None => Ok(Arc::clone(&trace.workload)),
        };
        let drawing = sweep.run(workload, progress)?.figure(show, width).map_err(undrawn)?;
        Ok(Figure { drawing })
    };
    with_policies(py, 1, Told::of(progress)?, &policies, draw)
}
