//! Figures of a result, for papers and notebooks.

use std::path::PathBuf;
use std::sync::Arc;

use cavalcade::metrics::{Comparison, RunFigures};
use cavalcade::output::write_file;
use cavalcade::report::{
    ClassSide, FigureError, FigureFile, FigureKind, FigureWidth, PairSide, class_figure, figure, pair_figure,
};
use cavalcade::{Error, Kind, Progress, map, waiting_by_class};
use pyo3::prelude::*;

use crate::errors::Raise as _;
use crate::results::Inner;
use crate::running::{Told, watched};

/// A figure for a paper or a notebook.
#[pyclass(frozen, module = "cavalcade")]
pub(crate) struct Figure {
    /// Its text as SVG.
    #[pyo3(get)]
    svg: String,
}

#[pymethods]
impl Figure {
    /// Writes it as SVG, PDF or PNG, by the ending of the name.
    fn save(&self, py: Python<'_>, path: PathBuf) -> PyResult<()> {
        let write = || {
            let file = FigureFile::of(&path).ok_or_else(|| {
                Error::usage(format!("{}: a figure is SVG, PDF or PNG", path.display()))
                    .place("path")
                    .expected("a name that ends with .svg, .pdf or .png")
            })?;
            let drawn =
                file.of_svg(&self.svg).map_err(|error| Error::new(Kind::Runtime, error.to_string()))?;
            write_file(&path, |out| out.write_all(&drawn))
        };
        py.detach(write).or_raise(py)
    }

    fn _repr_svg_(&self) -> &str {
        &self.svg
    }
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
    figure(comparison, kind, width, &runs).map_err(undrawn).map(|svg| Figure { svg })
}

fn undrawn(error: FigureError) -> Error {
    let cure = match error {
        FigureError::NoCoflows => "take a trace with coflows that cross the fabric",
        FigureError::OnePolicy => "compare two policies or more",
        FigureError::NoTasks => "draw plot.cdf(), of coflows",
        FigureError::Unlike => "take two runs of one trace",
    };
    Error::usage(error.to_string()).help(cure)
}

impl Plots {
    /// A figure of what is compared under one rate with one seed.
    fn of_one(&self, py: Python<'_>, kind: FigureKind, word: &str) -> PyResult<Figure> {
        let draw = || drawn(&self.0.only("this figure")?.compared.comparison, kind, width(word)?);
        py.detach(draw).or_raise(py)
    }

    /// A figure of distributions: a line for each policy, over all rates and seeds, or for each of them.
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
    /// Distribution of coflow completion times: a line for each policy, of all rates and seeds together; or by="rate", by="seed".
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

    /// One policy against another: both times of each coflow, and the distribution of speedups; of one rate and seed.
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
            pair_figure(&a, &b, self::width(width)?).map_err(undrawn).map(|svg| Figure { svg })
        };
        py.detach(draw).or_raise(py)
    }

    /// Mean bytes that wait in each priority class; of one rate and seed. Each policy is run again for it.
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
            class_figure(&sides, self::width(width)?).map_err(undrawn).map(|svg| Figure { svg })
        };
        watched(py, 1, Told::Nobody, &[], draw)?.or_raise(py)
    }

    /// Mean time lost to others, by bin; of one rate and seed.
    #[pyo3(signature = (*, width="column"))]
    fn queueing(&self, py: Python<'_>, width: &str) -> PyResult<Figure> {
        self.of_one(py, FigureKind::Queueing, width)
    }
}
