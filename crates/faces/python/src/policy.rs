//! A policy that is written in Python, as any other to a driver.
//!
//! Each run has a copy of the object, so runs that go on at the same time share nothing and their
//! results do not depend on which was first. A copy is told of coflows as they come and go: at each
//! arrival and each end, and every so often if it asks for that, its `order` gets those under way
//! in order of arrival, and their places in what it returns become their priorities. What it
//! returns is checked: each coflow once. An exception, or an order that is none, ends the run.
//!
//! # Cost
//! A call of Python and a list of all coflows under way for each event; `examples/policy_cost.py`
//! measures it.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use cavalcade::model::{
    self, Clairvoyant, CoflowFacts, CoflowId, Decision, Discipline, Event, Foresee, Instant, Nanos,
    NonClairvoyant, Observe, PolicyFactory, Priority, Scope, Setting, Terms, Workload,
};
use cavalcade::spec::Choice as _;
use cavalcade::{Error, Policy};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyList;

use crate::errors::Raise as _;
use crate::running::InPolicy;
use crate::view::{Coflow, Lent, lend};

/// A policy in Python, with what its class says of it.
#[derive(Clone)]
pub(crate) struct OwnPolicy {
    pub(crate) name: String,
    object: Arc<Py<PyAny>>,
    clairvoyant: bool,
    discipline: Discipline,
    /// The time after which an order is asked for again.
    every: Option<Nanos>,
    names: Arc<[Arc<str>]>,
    failure: Failure,
    pub(crate) inside: Arc<InPolicy>,
}

/// The first exception that a policy of a run raised.
type Failure = Arc<Mutex<Option<PyErr>>>;

impl OwnPolicy {
    /// Reads what an object says of itself; coflows have the names of `workload`, or none.
    ///
    /// # Errors
    /// If it is no policy.
    pub(crate) fn of(object: &Bound<'_, PyAny>, workload: Option<&Workload>) -> PyResult<Self> {
        let py = object.py();
        // A class will do as well as an object of it.
        let object =
            if object.is_instance_of::<pyo3::types::PyType>() { object.call0()? } else { object.clone() };
        if !object.hasattr("order")? {
            return Err(PyTypeError::new_err(format!(
                "expected a policy: a name such as \"sebf\", policy(…), or an object with order(coflows); found {}",
                object.get_type().name()?
            )));
        }
        let said = |name: &str| -> PyResult<Option<Bound<'_, PyAny>>> {
            Ok(object.getattr_opt(name)?.filter(|value| !value.is_none()))
        };
        let name = match said("name")? {
            Some(name) => name.extract()?,
            None => object.get_type().name()?.to_string(),
        };
        let clairvoyant = said("clairvoyant")?.map_or(Ok(false), |value| value.extract())?;
        let discipline = match said("discipline")? {
            None => Discipline::MaxMin,
            Some(word) => discipline_of(&word.extract::<String>()?, clairvoyant).or_raise(py)?,
        };
        let every = said("every")?.map(|value| value.extract::<String>()).transpose()?;
        let every = every.map(|text| every_of(&text)).transpose().or_raise(py)?;
        let names = |workload: &Workload| -> Vec<Arc<str>> {
            workload.coflows().map(|coflow| workload.coflow_name(coflow.id).into()).collect()
        };
        let names = workload.map(names).unwrap_or_default();
        Ok(Self {
            name,
            object: Arc::new(object.unbind()),
            clairvoyant,
            discipline,
            every,
            names: names.into(),
            failure: Failure::default(),
            inside: Arc::default(),
        })
    }

    /// The policy for a scenario.
    pub(crate) fn policy(&self) -> Policy {
        Policy::new(self.name.clone(), self.clone())
    }

    /// The exception that one of its copies raised, if one did.
    pub(crate) fn take_failure(&self) -> Option<PyErr> {
        self.failure.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

/// How coflows of one place share, in a word. Who is told no sizes cannot have them shared by size
/// either.
fn discipline_of(word: &str, clairvoyant: bool) -> Result<Discipline, Error> {
    let known = || Discipline::WORDS.iter().filter(|(_, one)| clairvoyant || *one == Discipline::MaxMin);
    known().find(|(known, _)| *known == word).map(|(_, found)| *found).ok_or_else(|| {
        let words: Vec<&str> = known().map(|(known, _)| *known).collect();
        let problem = match Discipline::WORDS.iter().any(|(known, _)| *known == word) {
            true => "it looks at sizes, which this policy is not told",
            false => "it is no way to share",
        };
        Error::option("discipline", word, problem)
            .expected(words.join(", "))
            .help("set clairvoyant = True, or leave the discipline out")
    })
}

fn every_of(text: &str) -> Result<Nanos, Error> {
    let read = text.parse::<Nanos>().ok().filter(|time| *time > Nanos::ZERO);
    read.ok_or_else(|| Error::option("every", text, "it is no time").expected("a time such as 10ms"))
}

impl PolicyFactory for OwnPolicy {
    fn terms(&self) -> Terms {
        Terms::strict(Scope::Fabric, self.discipline)
    }

    fn build(&self, _: &Setting<'_>) -> model::Policy {
        static INSTANCES: AtomicU64 = AtomicU64::new(1);
        let copied = Python::attach(|py| {
            let copy = py.import("copy")?.call_method1("deepcopy", (self.object.bind(py),))?;
            Ok(copy.unbind())
        });
        let instance = Instance {
            own: self.clone(),
            number: INSTANCES.fetch_add(1, Ordering::Relaxed),
            object: copied,
            under_way: BTreeMap::new(),
            arrivals: 0,
        };
        if self.clairvoyant {
            model::Policy::Clairvoyant(Box::new(instance))
        } else {
            model::Policy::NonClairvoyant(Box::new(instance))
        }
    }
}

/// A copy of it in a run.
struct Instance {
    own: OwnPolicy,
    number: u64,
    /// The object, or why it could not be copied.
    object: PyResult<Py<PyAny>>,
    /// Coflows under way in order of arrival.
    under_way: BTreeMap<u64, UnderWay>,
    arrivals: u64,
}

struct UnderWay {
    id: CoflowId,
    object: Py<Coflow>,
    /// Its place, once it has one.
    place: Option<u64>,
}

impl NonClairvoyant for Instance {
    fn handle(&mut self, now: Instant, event: Event, view: &dyn Observe, decision: &mut Decision) {
        self.event(now, event, Lent::Blind(view), decision);
    }
}

impl Clairvoyant for Instance {
    fn handle(&mut self, now: Instant, event: Event, view: &dyn Foresee, decision: &mut Decision) {
        self.event(now, event, Lent::Seeing(view), decision);
    }
}

impl Instance {
    fn event(&mut self, now: Instant, event: Event, view: Lent<'_>, decision: &mut Decision) {
        let asked = match event {
            Event::CoflowArrived(_) | Event::CoflowFinished(_) | Event::Wake => {
                Python::attach(|py| self.asked(py, now, event, view, decision))
            }
            _ => Ok(()),
        };
        if let Err(error) = asked {
            let said = Python::attach(|py| {
                error.value(py).repr().map_or_else(|_| error.to_string(), |text| text.to_string())
            });
            self.own.failure.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
            decision.fail(said);
        }
        if let (Some(every), false) = (self.own.every, self.under_way.is_empty()) {
            let next = (now.get() / every.get()).saturating_add(1).saturating_mul(every.get());
            decision.wake_at(Instant(next));
        }
    }

    fn asked(
        &mut self,
        py: Python<'_>,
        now: Instant,
        event: Event,
        view: Lent<'_>,
        decision: &mut Decision,
    ) -> PyResult<()> {
        match event {
            Event::CoflowArrived(id) => self.arrived(py, id, view.observe().coflow(id))?,
            Event::CoflowFinished(id) => {
                self.under_way.retain(|_, coflow| {
                    let stays = coflow.id != id;
                    if !stays {
                        coflow.object.get().ended.store(true, Ordering::Relaxed);
                    }
                    stays
                });
            }
            _ => {}
        }
        if self.under_way.is_empty() {
            return Ok(());
        }
        let object = match &self.object {
            Ok(object) => object.bind(py),
            Err(error) => return Err(error.clone_ref(py)),
        };
        let coflows = PyList::new(py, self.under_way.values().map(|coflow| coflow.object.bind(py)))?;
        let thread: u64 = py.import("threading")?.call_method0("get_ident")?.extract()?;
        let places = lend(self.number, now, view, || {
            let _inside = self.own.inside.enter(thread);
            places(&object.call_method1("order", (&coflows,))?, self.number)
        })?;
        if places.len() != self.under_way.len() {
            return Err(PyValueError::new_err(format!(
                "order() returned {} of {} coflows: return each coflow once",
                places.len(),
                self.under_way.len()
            )));
        }
        for coflow in self.under_way.values_mut() {
            let Some(&place) = places.get(&coflow.id) else {
                return Err(PyValueError::new_err("order() returned a coflow that is not under way"));
            };
            if coflow.place != Some(place) {
                coflow.place = Some(place);
                decision.set_coflow(coflow.id, Priority::new(0, place));
            }
        }
        Ok(())
    }

    fn arrived(&mut self, py: Python<'_>, id: CoflowId, facts: CoflowFacts) -> PyResult<()> {
        // The live coordinator's coflows have numbers of its own.
        let name = self.own.names.get(id.index()).cloned().unwrap_or_else(|| id.0.to_string().into());
        let ended = AtomicBool::new(false);
        let object = Py::new(py, Coflow { instance: self.number, id, facts, name, ended })?;
        self.under_way.insert(self.arrivals, UnderWay { id, object, place: None });
        self.arrivals += 1;
        Ok(())
    }
}

/// The place of each coflow in what `order` returned.
fn places(order: &Bound<'_, PyAny>, instance: u64) -> PyResult<BTreeMap<CoflowId, u64>> {
    let iterator = order.try_iter().map_err(|_| {
        let kind = order.get_type().name().map_or_else(|_| String::new(), |name| name.to_string());
        PyTypeError::new_err(format!("order() returned {kind}, expected the coflows in order"))
    })?;
    let mut places = BTreeMap::new();
    for (place, item) in iterator.enumerate() {
        let item = item?;
        let Ok(coflow) = item.cast::<Coflow>() else {
            return Err(PyTypeError::new_err(format!(
                "order() returned {} among the coflows",
                item.get_type().name()?
            )));
        };
        let coflow = coflow.get();
        if coflow.instance != instance {
            return Err(PyValueError::new_err("order() returned a coflow of another run"));
        }
        if places.insert(coflow.id, place as u64).is_some() {
            return Err(PyValueError::new_err(format!(
                "order() returned coflow {} twice: return each coflow once",
                coflow.name
            )));
        }
    }
    Ok(places)
}
