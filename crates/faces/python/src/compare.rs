//! `compare`, `simulate`, `bound`, `validate` and `replay`.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;

use cavalcade::folder::Recorded;
use cavalcade::model::BitsPerSec;
use cavalcade::{
    Beside, Budget, Choice, Error, Kind, Progress, Runnable, Scenario, bound_of, budget_beside_runs,
    compare_with,
};
use pyo3::prelude::*;

use crate::asked::{self, Chosen, Setup, Words};
use crate::errors::{Raise as _, raised};
use crate::results::{Bound as Found, Inner, Runs, Setting};
use crate::running::{InPolicy, Told, watched};
use crate::trace::Loaded;

/// All that is to be run.
struct Plan {
    trace: Arc<Loaded>,
    setup: Setup,
    policies: Vec<Chosen>,
    rates: Vec<BitsPerSec>,
    seeds: Vec<u64>,
    baseline: Option<String>,
    budget: Option<Budget>,
}

impl Plan {
    /// What can be run under one rate with one seed, checked.
    fn runnable(&self, rate: BitsPerSec, seed: u64) -> Result<Runnable, Error> {
        let base = Scenario::new(Arc::clone(&self.trace.workload), self.setup.conditions(rate, seed))?
            .on(self.setup.engine.clone());
        let choices: Vec<Choice> = self.policies.iter().map(|chosen| chosen.choice().clone()).collect();
        let found = Runnable::of(&base, &choices, std::slice::from_ref(base.engine()), 0)?;
        let labels: Vec<String> = found.scenarios.iter().map(Scenario::label).collect();
        match (1..labels.len()).find(|&run| labels[..run].contains(&labels[run])) {
            Some(run) => Err(Error::usage(format!("two policies are called {}", labels[run]))
                .place("policies")
                .expected("each once")
                .help("leave one out; a policy in Python can have another name")),
            None => Ok(found),
        }
    }

    /// Runs all of it, and returns what of a set was left out as well.
    fn run(&self, progress: &Progress) -> Result<(Vec<Arc<Setting>>, BTreeSet<String>), Error> {
        // All that can be refused is refused before anything runs.
        let (mut planned, mut left_out) = (Vec::new(), BTreeSet::new());
        for &rate in &self.rates {
            for &seed in &self.seeds {
                if progress.is_cancelled() {
                    return Err(Error::new(Kind::Interrupted, "interrupted"));
                }
                let found = self.runnable(rate, seed)?;
                let named =
                    |one: &Scenario| (one.label(), one.policy().map(|policy| policy.name().to_owned()));
                let named: Vec<_> = found.scenarios.iter().map(named).collect();
                let baseline = asked::baseline(&named, self.baseline.as_deref())?;
                left_out.extend(found.costly.into_iter().map(|(name, _)| format!("{name} (its cost)")));
                left_out.extend(found.unfit.into_iter().map(|name| format!("{name} (the fabric)")));
                planned.push((rate, seed, found.scenarios, found.named, baseline));
            }
        }
        let run = |(rate, seed, scenarios, named, baseline): (_, _, Vec<Scenario>, Vec<bool>, usize)| {
            let beside = Beside { budget: self.budget, flow_ends: true, ..Beside::default() };
            let mut compared = compare_with(&scenarios, baseline, &beside, progress)?;
            compared.comparison.runs.iter_mut().zip(named).for_each(|(run, named)| run.named = named);
            Ok(Arc::new(Setting::new(rate, seed, scenarios, compared)))
        };
        Ok((planned.into_iter().map(run).collect::<Result<_, Error>>()?, left_out))
    }

    /// Runs all of it.
    fn runs(&self, py: Python<'_>, told: Told, is_single: bool) -> PyResult<Runs> {
        let jobs = self.policies.len() + usize::from(self.budget.is_some());
        let units = self.rates.len() * self.seeds.len() * jobs * self.trace.workload.coflow_count();
        let has_own = self.policies.iter().any(|chosen| chosen.own().is_some());
        let (settings, left_out) =
            with_policies(py, units, told, &self.policies, |progress| self.run(progress))?;
        if !left_out.is_empty() {
            let names = left_out.into_iter().collect::<Vec<_>>().join(", ");
            let text = format!(
                "left out because of its cost on this trace, or because it cannot run: {names}; name it to run it"
            );
            let warning = py.get_type::<pyo3::exceptions::PyUserWarning>();
            PyErr::warn(py, &warning, &std::ffi::CString::new(text)?, 2)?;
        }
        Ok(Runs(Arc::new(Inner { trace: Arc::clone(&self.trace), settings, is_single, has_own })))
    }
}

/// Does `work` in which these policies run. What one in Python raises is what the work raises, with
/// its own traceback.
pub(crate) fn with_policies<T: Send>(
    py: Python<'_>,
    units: usize,
    told: Told,
    policies: &[Chosen],
    work: impl FnOnce(&Progress) -> Result<T, Error> + Send,
) -> PyResult<T> {
    let own = || policies.iter().filter_map(Chosen::own);
    let inside: Vec<Arc<InPolicy>> = own().map(|policy| Arc::clone(&policy.inside)).collect();
    watched(py, units, told, &inside, work)?.map_err(|error| {
        own().find_map(crate::policy::OwnPolicy::take_failure).unwrap_or_else(|| raised(py, &error))
    })
}

/// Runs several policies over one trace, under each rate and with each seed.
///
/// A policy is a name ("sebf", "dclas:queues=4", "pias over dctcp", "tcp" for fair sharing), one of
/// policy(…), or an object of a class of your own (see Policy). None compares what the program
/// does: fair sharing, each paper's policy that the trace allows, and our best; "all" is every
/// policy. bound=True also searches for what no schedule can be below, beside the runs.
#[pyfunction]
#[pyo3(signature = (trace, policies=None, *, rate=None, seeds=None, fabric=None, engine="fluid", transport=None,
    baseline=None, bound=None, offline=false, control_delay="0ns", control_loss=0.0, counters=1, period="10ms",
    link_delay="1us", mtu=1500, headers=40, progress=None))]
#[allow(clippy::too_many_arguments, reason = "arguments by name are what callers in Python expect")]
pub(crate) fn compare<'py>(
    py: Python<'py>,
    trace: &Bound<'py, PyAny>,
    policies: Option<&Bound<'py, PyAny>>,
    rate: Option<&Bound<'py, PyAny>>,
    seeds: Option<&Bound<'py, PyAny>>,
    fabric: Option<&Bound<'py, PyAny>>,
    engine: &str,
    transport: Option<&Bound<'py, PyAny>>,
    baseline: Option<String>,
    bound: Option<&Bound<'py, PyAny>>,
    offline: bool,
    control_delay: &str,
    control_loss: f64,
    counters: u32,
    period: &str,
    link_delay: &str,
    mtu: u32,
    headers: u32,
    progress: Option<&Bound<'py, PyAny>>,
) -> PyResult<Runs> {
    let trace = asked::trace(trace)?;
    let words = Words {
        fabric,
        engine,
        transport,
        offline,
        control_delay,
        control_loss,
        counters,
        period,
        link_delay,
        mtu,
        headers,
    };
    let setup = words.setup(py)?;
    let usual = || budget_beside_runs(&trace.workload);
    let plan = Plan {
        policies: asked::policies(py, policies, asked::named_in(&trace, &setup.engine))?,
        setup,
        rates: asked::rates(py, rate, &trace)?,
        seeds: asked::seeds(py, seeds)?,
        baseline,
        budget: bound.map(|bound| asked::bound_beside(bound, usual)).transpose()?.flatten(),
        trace,
    };
    plan.runs(py, Told::of(progress)?, false)
}

/// Runs one policy over a trace.
#[pyfunction]
#[pyo3(signature = (trace, policy=None, *, rate=None, seed=1, fabric=None, engine="fluid", transport=None,
    offline=false, control_delay="0ns", control_loss=0.0, counters=1, period="10ms", link_delay="1us", mtu=1500,
    headers=40, progress=None))]
#[allow(clippy::too_many_arguments, reason = "arguments by name are what callers in Python expect")]
pub(crate) fn simulate<'py>(
    py: Python<'py>,
    trace: &Bound<'py, PyAny>,
    policy: Option<&Bound<'py, PyAny>>,
    rate: Option<&Bound<'py, PyAny>>,
    seed: u64,
    fabric: Option<&Bound<'py, PyAny>>,
    engine: &str,
    transport: Option<&Bound<'py, PyAny>>,
    offline: bool,
    control_delay: &str,
    control_loss: f64,
    counters: u32,
    period: &str,
    link_delay: &str,
    mtu: u32,
    headers: u32,
    progress: Option<&Bound<'py, PyAny>>,
) -> PyResult<Runs> {
    let trace = asked::trace(trace)?;
    let words = Words {
        fabric,
        engine,
        transport,
        offline,
        control_delay,
        control_loss,
        counters,
        period,
        link_delay,
        mtu,
        headers,
    };
    let setup = words.setup(py)?;
    let fair = pyo3::types::PyString::new(py, Choice::BASELINE).into_any();
    let policies = {
        let named = asked::named_in(&trace, &setup.engine);
        asked::policies(py, Some(policy.unwrap_or(&fair)), named)?
    };
    if policies.len() != 1 {
        let error = Error::usage(format!("one run has one policy, and there are {}", policies.len()));
        return Err(error.place("policy").help("compare(trace, policies) runs several")).or_raise(py);
    }
    let rates =
        vec![asked::one_rate_of(py, rate, &trace, "compare(trace, policies, rate=[…]) runs several")?];
    let plan = Plan { policies, setup, rates, seeds: vec![seed], baseline: None, budget: None, trace };
    plan.runs(py, Told::of(progress)?, true)
}

/// The text of the rate that a run of a trace has where this one is given, or none, as tables have
/// it: what a sweep asks beforehand.
#[pyfunction]
#[pyo3(signature = (trace, given))]
pub(crate) fn rate(
    py: Python<'_>,
    trace: &Bound<'_, PyAny>,
    given: Option<&Bound<'_, PyAny>>,
) -> PyResult<String> {
    let trace = asked::trace(trace)?;
    asked::one_rate_of(py, given, &trace, "sweep(…, rates=[…]) runs several").map(|rate| rate.to_string())
}

/// Searches for a mean completion time that no schedule can be below.
#[pyfunction]
#[pyo3(signature = (trace, *, budget=None, rate=None, fabric=None, offline=false, progress=None))]
pub(crate) fn bound<'py>(
    py: Python<'py>,
    trace: &Bound<'py, PyAny>,
    budget: Option<&Bound<'py, PyAny>>,
    rate: Option<&Bound<'py, PyAny>>,
    fabric: Option<&Bound<'py, PyAny>>,
    offline: bool,
    progress: Option<&Bound<'py, PyAny>>,
) -> PyResult<Found> {
    let trace = asked::trace(trace)?;
    let words = Words { fabric, offline, ..Words::default() };
    let setup = words.setup(py)?;
    let rates = asked::rates(py, rate, &trace)?;
    let budget = budget.filter(|budget| !budget.is_none()).map(asked::budget).transpose()?;
    let units = rates.len() * trace.workload.coflow_count();
    let search = |progress: &Progress| -> Result<Vec<_>, Error> {
        let one = |&rate: &BitsPerSec| {
            let scenario = Scenario::new(Arc::clone(&trace.workload), setup.conditions(rate, 1))?;
            let budget = budget.unwrap_or_else(|| budget_beside_runs(scenario.workload()));
            let found = bound_of(&scenario, budget, progress);
            match progress.is_cancelled() {
                true => Err(Error::new(Kind::Interrupted, "interrupted")),
                false => Ok((rate, found)),
            }
        };
        rates.iter().map(one).collect()
    };
    watched(py, units, Told::of(progress)?, &[], search)?.or_raise(py).map(Found::new)
}

/// What the independent check of a run's schedule found: it holds, or there is a CheckError.
#[pyclass(frozen, module = "cavalcade", get_all)]
pub(crate) struct Verdict {
    /// Pieces of time that were checked.
    segments: u64,
    /// The load of the busiest link, as a share of its capacity.
    peak_load: f64,
    /// Whether it was checked that no capacity was left idle.
    work_conservation: bool,
}

#[pymethods]
impl Verdict {
    fn __repr__(&self) -> String {
        let Self { segments, peak_load, work_conservation } = self;
        format!(
            "Verdict({segments} segments are valid, peak_load={peak_load}, work_conservation={work_conservation})"
        )
    }
}

/// A run again, whose results are the same bit for bit, or there is a CheckError.
#[pyclass(frozen, module = "cavalcade", get_all)]
pub(crate) struct Replay {
    /// The SHA-256 of each file of results.
    results: BTreeMap<String, String>,
}

#[pymethods]
impl Replay {
    fn __repr__(&self) -> String {
        format!("Replay({} results are the same, bit for bit)", self.results.len())
    }
}

/// Checks the schedule of a run's folder by code that shares nothing with the engine.
#[pyfunction]
#[pyo3(signature = (folder, *, trace=None))]
pub(crate) fn validate(py: Python<'_>, folder: PathBuf, trace: Option<PathBuf>) -> PyResult<Verdict> {
    let check = |_: &Progress| -> Result<Verdict, Error> {
        let recorded = Recorded::open(&folder, trace.as_deref())?;
        let verdict = recorded.validated()?;
        let (segments, peak_load) = (verdict.segments as u64, verdict.peak_load);
        Ok(Verdict { segments, peak_load, work_conservation: recorded.work_conserving() })
    };
    watched(py, 1, Told::Nobody, &[], check)?.or_raise(py)
}

/// Runs a folder's run again and checks that every result is the same.
#[pyfunction]
#[pyo3(signature = (folder, *, trace=None))]
pub(crate) fn replay(py: Python<'_>, folder: PathBuf, trace: Option<PathBuf>) -> PyResult<Replay> {
    let again = |progress: &Progress| -> Result<Replay, Error> {
        let results = Recorded::open(&folder, trace.as_deref())?.replay(progress)?;
        Ok(Replay { results })
    };
    watched(py, 1, Told::Nobody, &[], again)?.or_raise(py)
}
