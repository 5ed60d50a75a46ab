//! Arguments of Python as conditions, engines and policies.

use std::num::NonZeroU32;
use std::sync::Arc;

use cavalcade::model::{BitsPerSec, FabricSpec, Nanos, Workload};
use cavalcade::{Asked, Budget, Choice, Conditions, Engine, Error, Packets, Transport as Sending};
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyString};

use crate::choices::{Fabric, NamedPolicy, Transport};
use crate::errors::Raise as _;
use crate::policy::OwnPolicy;
use crate::trace::{Loaded, Trace};

/// The transport if none is named.
const DEFAULT_TRANSPORT: &str = "dctcp";
/// The rate if none is given.
const DEFAULT_RATE: BitsPerSec = BitsPerSec(1_000_000_000);

/// The trace that was passed.
///
/// # Errors
/// If it is none.
pub(crate) fn trace(given: &Bound<'_, PyAny>) -> PyResult<Arc<Loaded>> {
    match given.cast::<Trace>() {
        Ok(trace) => Ok(Arc::clone(&trace.get().0)),
        Err(_) => Err(PyTypeError::new_err(format!(
            "trace: expected a Trace, found {}; read(path) reads one, and Trace.from_flows(table) makes one",
            given.get_type().name()?
        ))),
    }
}

/// Conditions and engine as they were asked for, without rates and seeds.
pub(crate) struct Setup {
    pub(crate) fabric: Option<FabricSpec>,
    pub(crate) offline: bool,
    pub(crate) control_delay: Nanos,
    pub(crate) control_loss: f64,
    pub(crate) counters: NonZeroU32,
    pub(crate) engine: Engine,
}

/// The arguments that make a [`Setup`].
pub(crate) struct Words<'a, 'py> {
    pub(crate) fabric: Option<&'a Bound<'py, PyAny>>,
    pub(crate) engine: &'a str,
    pub(crate) transport: Option<&'a Bound<'py, PyAny>>,
    pub(crate) offline: bool,
    pub(crate) control_delay: &'a str,
    pub(crate) control_loss: f64,
    pub(crate) counters: u32,
    pub(crate) period: &'a str,
    pub(crate) link_delay: &'a str,
    pub(crate) mtu: u32,
    pub(crate) headers: u32,
}

impl Default for Words<'_, '_> {
    fn default() -> Self {
        Self {
            fabric: None,
            engine: "fluid",
            transport: None,
            offline: false,
            control_delay: "0ns",
            control_loss: 0.0,
            counters: 1,
            period: "10ms",
            link_delay: "1us",
            mtu: 1500,
            headers: 40,
        }
    }
}

impl Words<'_, '_> {
    pub(crate) fn setup(&self, py: Python<'_>) -> PyResult<Setup> {
        let counters = NonZeroU32::new(self.counters)
            .ok_or_else(|| Error::option("counters", 0, "there is none").expected("at least 1"))
            .or_raise(py)?;
        if !(0.0..=1.0).contains(&self.control_loss) {
            let error = Error::option("control_loss", self.control_loss, "it is no share");
            return Err(error.expected("a share from 0 to 1")).or_raise(py);
        }
        Ok(Setup {
            fabric: self.fabric.map(fabric).transpose()?.flatten(),
            offline: self.offline,
            control_delay: time("control_delay", self.control_delay).or_raise(py)?,
            control_loss: self.control_loss,
            counters,
            engine: self.engine(py)?,
        })
    }

    fn engine(&self, py: Python<'_>) -> PyResult<Engine> {
        let transport = self.transport.filter(|transport| !transport.is_none());
        if let (Some(transport), false) = (transport, self.engine == "packet") {
            let problem = format!("the {} engine has no packets to send", self.engine);
            let error = Error::option("transport", transport.str()?, problem).help("add engine=\"packet\"");
            return Err(error).or_raise(py);
        }
        match self.engine {
            "fluid" => Ok(Engine::Fluid),
            "control" => {
                let period = time("period", self.period).or_raise(py)?;
                if period == Nanos::ZERO {
                    let error = Error::option("period", self.period, "rounds would have no end");
                    return Err(error.expected("a time such as 10ms")).or_raise(py);
                }
                Ok(Engine::Control { period })
            }
            "packet" => {
                let text = match transport {
                    None => DEFAULT_TRANSPORT.to_owned(),
                    Some(transport) => match transport.cast::<Transport>() {
                        Ok(transport) => transport.get().text.clone(),
                        Err(_) => named(transport, "transport")?,
                    },
                };
                let transport = cavalcade::transport::parse(&text).or_raise(py)?;
                Ok(Engine::Packet(Packets {
                    transport: Sending::from(&transport),
                    link_delay: time("link_delay", self.link_delay).or_raise(py)?,
                    mtu: packet_size("mtu", self.mtu).or_raise(py)?,
                    headers: packet_size("headers", self.headers).or_raise(py)?,
                    in_band: false,
                }))
            }
            other => Err(Error::option("engine", format!("{other:?}"), "there is no such engine")
                .expected("\"fluid\", \"packet\" or \"control\""))
            .or_raise(py),
        }
    }
}

impl Setup {
    pub(crate) fn conditions(&self, rate: BitsPerSec, seed: u64) -> Conditions {
        Conditions {
            rate,
            fabric: self.fabric.clone(),
            offline: self.offline,
            control_delay: self.control_delay,
            control_loss: self.control_loss,
            seed,
            counters: self.counters,
            ..Conditions::default()
        }
    }
}

fn packet_size(name: &'static str, bytes: u32) -> Result<u16, Error> {
    u16::try_from(bytes)
        .map_err(|_| Error::option(name, bytes, "no packet is so large").expected("at most 65535 bytes"))
}

fn time(name: &'static str, text: &str) -> Result<Nanos, Error> {
    text.parse().map_err(|_| Error::option(name, text, "it is no time").expected("a time such as 10ms"))
}

/// A name as text.
fn named(given: &Bound<'_, PyAny>, what: &str) -> PyResult<String> {
    match given.cast::<PyString>() {
        Ok(text) => text.extract(),
        Err(_) => {
            Err(PyTypeError::new_err(format!("{what}: expected a name, found {}", given.get_type().name()?)))
        }
    }
}

fn fabric(given: &Bound<'_, PyAny>) -> PyResult<Option<FabricSpec>> {
    if given.is_none() {
        return Ok(None);
    }
    if let Ok(fabric) = given.cast::<Fabric>() {
        return Ok(Some(fabric.get().0.clone()));
    }
    Fabric::read(&named(given, "fabric")?).or_raise(given.py()).map(|fabric| Some(fabric.0))
}

/// A whole number of Python or NumPy; `None` if it is something else.
fn whole(given: &Bound<'_, PyAny>, name: &'static str) -> PyResult<Option<u64>> {
    if given.is_instance_of::<PyBool>() || !given.hasattr("__index__")? || given.hasattr("__iter__")? {
        return Ok(None);
    }
    let number = given.call_method0("__index__")?;
    let problem = "it is no number of 64 bits without a sign";
    let error = |_| Error::option(name, given, problem).expected("a whole number from 0 on");
    number.extract::<u64>().map_err(error).or_raise(given.py()).map(Some)
}

/// One rate: as text, or a number of bits per second.
fn one_rate(given: &Bound<'_, PyAny>) -> PyResult<BitsPerSec> {
    if let Some(number) = whole(given, "rate")? {
        return Ok(BitsPerSec(number));
    }
    let Ok(text) = given.cast::<PyString>() else {
        let kind = given.get_type().name()?;
        return Err(PyTypeError::new_err(format!(
            "rate: expected text such as \"10Gbps\" or whole bits per second, found {kind}"
        )));
    };
    let text: String = text.extract()?;
    text.parse::<BitsPerSec>()
        .map_err(|_| Error::option("rate", &text, "it is no rate").expected("a rate such as 10Gbps"))
        .or_raise(given.py())
}

/// All rates that were asked for, each once; a usual one where none was, unless a log says another.
pub(crate) fn rates(
    py: Python<'_>,
    given: Option<&Bound<'_, PyAny>>,
    trace: &Loaded,
) -> PyResult<Vec<BitsPerSec>> {
    let Some(given) = given.filter(|given| !given.is_none()) else {
        if trace.has_recording {
            let error =
                Error::usage(format!("{} is the log of a real network, whose rate is not given", trace.name));
            let cure = "give the rate of its hosts' links, as rate=\"10Gbps\"; the program 'cavalcade compare' infers it";
            return Err(error.place("rate").expected("a rate such as 10Gbps").help(cure)).or_raise(py);
        }
        return Ok(vec![DEFAULT_RATE]);
    };
    let is_one = given.is_instance_of::<PyString>() || !given.hasattr("__iter__")?;
    let all = match is_one {
        true => vec![one_rate(given)?],
        false => given.try_iter()?.map(|rate| one_rate(&rate?)).collect::<PyResult<_>>()?,
    };
    distinct(py, "rate", all)
}

/// The one rate that was asked for, or the usual one; `several` is the cure where there are
/// several.
pub(crate) fn one_rate_of(
    py: Python<'_>,
    given: Option<&Bound<'_, PyAny>>,
    trace: &Loaded,
    several: &str,
) -> PyResult<BitsPerSec> {
    match rates(py, given, trace)?[..] {
        [rate] => Ok(rate),
        ref all => {
            let error = Error::usage(format!("there is one rate here, and {} are given", all.len()));
            Err(error.place("rate").help(several)).or_raise(py)
        }
    }
}

/// The place of the baseline among runs, each given as its label and the name of its policy; fair
/// sharing, or the first, where none is named.
pub(crate) fn baseline(runs: &[(String, Option<String>)], asked: Option<&str>) -> Result<usize, Error> {
    let labelled = |wanted: &str| runs.iter().position(|(label, _)| label == wanted);
    let Some(asked) = asked else { return Ok(labelled(Choice::BASELINE).unwrap_or(0)) };
    // What stands for a policy is a name of it.
    let meant =
        cavalcade::Policy::named(asked).map_or_else(|_| asked.to_owned(), |policy| policy.label().to_owned());
    let called = || runs.iter().position(|(_, name)| name.as_deref() == Some(meant.as_str()));
    labelled(&meant).or_else(called).ok_or_else(|| {
        let labels: Vec<&str> = runs.iter().map(|(label, _)| label.as_str()).collect();
        Error::option("baseline", asked, "it is not among the policies").expected(labels.join(", "))
    })
}

/// All seeds that were asked for, each once; one where none was.
pub(crate) fn seeds(py: Python<'_>, given: Option<&Bound<'_, PyAny>>) -> PyResult<Vec<u64>> {
    let Some(given) = given.filter(|given| !given.is_none()) else { return Ok(vec![1]) };
    let seed = |given: &Bound<'_, PyAny>| {
        let kind = given.get_type().name()?;
        let fault = || PyTypeError::new_err(format!("seeds: expected whole numbers, found {kind}"));
        whole(given, "seeds")?.ok_or_else(fault)
    };
    let all = match given.hasattr("__iter__")? {
        false => vec![seed(given)?],
        true => given.try_iter()?.map(|one| seed(&one?)).collect::<PyResult<_>>()?,
    };
    distinct(py, "seeds", all)
}

fn distinct<T: PartialEq + std::fmt::Display>(
    py: Python<'_>,
    name: &'static str,
    all: Vec<T>,
) -> PyResult<Vec<T>> {
    if all.is_empty() {
        let error = Error::usage(format!("{name} is empty: nothing would be run"));
        return Err(error.place(name).expected("at least one")).or_raise(py);
    }
    match (1..all.len()).find(|&index| all[..index].contains(&all[index])) {
        Some(index) => {
            Err(Error::option(name, &all[index], "it is given twice").expected("each once")).or_raise(py)
        }
        None => Ok(all),
    }
}

/// A budget: a number of linear programs, or a time as text.
pub(crate) fn budget(given: &Bound<'_, PyAny>) -> PyResult<Budget> {
    if let Some(number) = whole(given, "budget")? {
        return Ok(Budget::Programs(number));
    }
    let Ok(text) = given.cast::<PyString>() else {
        let kind = given.get_type().name()?;
        return Err(PyTypeError::new_err(format!(
            "budget: expected a number or a time as text, found {kind}"
        )));
    };
    let text: String = text.extract()?;
    text.parse().map_err(|expected: String| Error::option("budget", &text, expected)).or_raise(given.py())
}

/// A bound beside runs: none, a usual one, or one of a budget.
pub(crate) fn bound_beside(
    given: &Bound<'_, PyAny>,
    usual: impl FnOnce() -> Budget,
) -> PyResult<Option<Budget>> {
    match given.cast::<PyBool>() {
        Ok(wanted) => Ok(wanted.is_true().then(usual)),
        Err(_) if given.is_none() => Ok(None),
        Err(_) => budget(given).map(Some),
    }
}

/// What is run, once for all conditions.
pub(crate) struct Chosen {
    choice: Choice,
    own: Option<OwnPolicy>,
}

impl Chosen {
    /// One policy, or those of a set.
    fn of(given: &Bound<'_, PyAny>, named: Option<&Workload>) -> PyResult<Vec<Self>> {
        let text: String = match (given.cast::<PyString>(), given.cast::<NamedPolicy>()) {
            (Ok(text), _) => text.extract()?,
            (_, Ok(named)) => named.get().text.clone(),
            _ => {
                let own = OwnPolicy::of(given, named)?;
                let choice = Choice { policy: Some(own.policy()), transport: None, asked: Asked::ByName };
                return Ok(vec![Self { choice, own: Some(own) }]);
            }
        };
        Self::of_word(given.py(), &text)
    }

    fn of_word(py: Python<'_>, word: &str) -> PyResult<Vec<Self>> {
        let choices = Choice::of_word(word).or_raise(py)?;
        Ok(choices.into_iter().map(|choice| Self { choice, own: None }).collect())
    }

    /// How it was chosen.
    pub(crate) fn choice(&self) -> &Choice {
        &self.choice
    }

    /// The policy in Python, if it is one.
    pub(crate) fn own(&self) -> Option<&OwnPolicy> {
        self.own.as_ref()
    }
}

/// The workload in which a policy finds coflows by name. The live coordinator gives coflows numbers
/// of its own, by which there are none.
pub(crate) fn named_in<'a>(trace: &'a Loaded, engine: &Engine) -> Option<&'a Workload> {
    (!matches!(engine, Engine::Control { .. })).then_some(&*trace.workload)
}

/// Reads all policies: one, a list, or the default set where none is named. Those in Python find
/// coflows of `named` by name.
pub(crate) fn policies(
    py: Python<'_>,
    given: Option<&Bound<'_, PyAny>>,
    named: Option<&Workload>,
) -> PyResult<Vec<Chosen>> {
    let Some(given) = given.filter(|given| !given.is_none()) else {
        return Chosen::of_word(py, Choice::DEFAULT);
    };
    let is_list =
        !given.is_instance_of::<PyString>() && !given.hasattr("order")? && given.hasattr("__iter__")?;
    let all: Vec<Chosen> = match is_list {
        true => {
            let each = given.try_iter()?.map(|one| Chosen::of(&one?, named));
            each.collect::<PyResult<Vec<_>>>()?.into_iter().flatten().collect()
        }
        false => Chosen::of(given, named)?,
    };
    if all.is_empty() {
        let error = Error::usage("there are no policies to run").place("policies");
        return Err(error.expected("at least one, as [\"fair\", \"aalo\"]")).or_raise(py);
    }
    Ok(all)
}
