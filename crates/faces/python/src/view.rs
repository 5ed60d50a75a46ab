//! What a policy in Python sees: coflows and flows under way.
//!
//! An object holds what never changes, and asks the driver for the rest when it is asked itself, so
//! that a policy pays for what it looks at. The driver answers only while it asks the policy for an
//! order: its view is lent to the thread for that time. Sizes are there only for a policy that says
//! that it is clairvoyant; another's view has no method that returns one, so asking raises.

#![allow(
    unsafe_code,
    reason = "a view is lent to Python for the time of a call; the one use says why it holds"
)]

use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use cavalcade::model::{self, CoflowFacts, CoflowId, FlowId, Foresee, Instant, Observe};
use pyo3::exceptions::{PyAttributeError, PyRuntimeError};
use pyo3::prelude::*;

/// What a driver lets a policy look at.
#[derive(Clone, Copy)]
pub(crate) enum Lent<'a> {
    /// Without sizes.
    Blind(&'a dyn Observe),
    /// With the sizes of what has arrived.
    Seeing(&'a dyn Foresee),
}

impl<'a> Lent<'a> {
    pub(crate) fn observe(&self) -> &'a dyn Observe {
        match *self {
            Self::Blind(view) => view,
            Self::Seeing(view) => view,
        }
    }
}

/// A view that is lent to this thread now.
#[derive(Clone, Copy)]
struct Now {
    /// The instance of the policy to which it is lent.
    instance: u64,
    at: Instant,
    view: Lent<'static>,
}

thread_local! {
    static NOW: Cell<Option<Now>> = const { Cell::new(None) };
}

/// Lends `view` to the objects of `instance` while `work` runs on this thread.
pub(crate) fn lend<T>(instance: u64, at: Instant, view: Lent<'_>, work: impl FnOnce() -> T) -> T {
    struct Back(Option<Now>);
    impl Drop for Back {
        fn drop(&mut self) {
            NOW.set(self.0.take());
        }
    }
    // SAFETY: the view is forgotten when `Back` is dropped, at the end of this function at the
    // latest, also where `work` panics; until then it is borrowed by the caller. No other thread
    // can see it, and `with` hands no reference out.
    let view = unsafe { std::mem::transmute::<Lent<'_>, Lent<'static>>(view) };
    let _back = Back(NOW.replace(Some(Now { instance, at, view })));
    work()
}

/// Looks at the view that is lent to `instance`.
fn with<T>(instance: u64, look: impl FnOnce(Instant, &Lent<'_>) -> T) -> PyResult<T> {
    match NOW.get().filter(|now| now.instance == instance) {
        Some(now) => Ok(look(now.at, &now.view)),
        None => Err(PyRuntimeError::new_err(
            "a coflow can be looked at only inside order(), on its thread: keep what is needed of it, not the coflow",
        )),
    }
}

fn blind(what: &str) -> PyErr {
    PyAttributeError::new_err(format!(
        "{what}: this policy is told no sizes; set clairvoyant = True in its class to be told them"
    ))
}

/// Looks at sizes, if they are told.
fn foresee<T>(instance: u64, what: &str, look: impl FnOnce(&dyn Foresee) -> T) -> PyResult<T> {
    with(instance, |_, view| match view {
        Lent::Blind(_) => Err(blind(what)),
        Lent::Seeing(view) => Ok(look(*view)),
    })?
}

/// A coflow under way, as a policy in Python sees it. Sizes raise unless the policy says
/// `clairvoyant = True`.
#[pyclass(frozen, module = "cavalcade", weakref)]
pub(crate) struct Coflow {
    pub(crate) instance: u64,
    pub(crate) id: CoflowId,
    pub(crate) facts: CoflowFacts,
    pub(crate) name: Arc<str>,
    /// True once it has ended.
    pub(crate) ended: AtomicBool,
}

impl Coflow {
    fn alive(&self) -> PyResult<()> {
        match self.ended.load(Ordering::Relaxed) {
            false => Ok(()),
            true => Err(PyRuntimeError::new_err(format!("coflow {} has ended", self.name))),
        }
    }
}

#[pymethods]
impl Coflow {
    /// Number of the coflow in the trace.
    #[getter]
    fn id(&self) -> u32 {
        self.id.0
    }

    /// Its name in the trace.
    #[getter]
    fn name(&self) -> &str {
        &self.name
    }

    /// Number of its task.
    #[getter]
    fn task(&self) -> u32 {
        self.facts.task.0
    }

    /// When its first flow arrived, in seconds since the first arrival of all.
    #[getter]
    fn arrived_s(&self) -> f64 {
        self.facts.arrival.as_secs_f64()
    }

    /// When its task was submitted.
    #[getter]
    fn task_arrived_s(&self) -> f64 {
        self.facts.task_arrival.as_secs_f64()
    }

    /// When its task should be done; None if it has no deadline.
    #[getter]
    fn deadline_s(&self) -> Option<f64> {
        self.facts.deadline.map(Instant::as_secs_f64)
    }

    /// Its task's weight.
    #[getter]
    fn weight(&self) -> u32 {
        self.facts.weight
    }

    /// The iteration of a training job that it is part of; None if its job declares none.
    #[getter]
    fn iteration(&self) -> PyResult<Option<Iteration>> {
        self.alive()?;
        with(self.instance, |_, view| view.observe().iteration(self.id).map(Iteration::from))
    }

    /// The time now.
    #[getter]
    fn now_s(&self) -> PyResult<f64> {
        with(self.instance, |at, _| at.as_secs_f64())
    }

    /// Bytes that it has sent.
    #[getter]
    fn sent_bytes(&self) -> PyResult<u64> {
        self.alive()?;
        with(self.instance, |_, view| view.observe().attained(self.id).get())
    }

    /// Bytes of its flows that have arrived; told only to a clairvoyant policy.
    #[getter]
    fn size_bytes(&self) -> PyResult<u64> {
        self.alive()?;
        foresee(self.instance, "size_bytes", |view| {
            view.attained(self.id).get() + view.remaining(self.id).get()
        })
    }

    /// Bytes that it has still to send; told only to a clairvoyant policy.
    #[getter]
    fn remaining_bytes(&self) -> PyResult<u64> {
        self.alive()?;
        foresee(self.instance, "remaining_bytes", |view| view.remaining(self.id).get())
    }

    /// The time that the rest takes with the fabric to itself (Γ); told only to a clairvoyant
    /// policy.
    #[getter]
    fn bottleneck_s(&self) -> PyResult<f64> {
        self.alive()?;
        foresee(self.instance, "bottleneck_s", |view| view.bottleneck(self.id).as_secs_f64())
    }

    /// Its unfinished flows that have arrived.
    #[getter]
    fn flows(&self) -> PyResult<Vec<Flow>> {
        self.alive()?;
        with(self.instance, |_, view| {
            let (view, mut flows) = (view.observe(), Vec::new());
            view.flows(self.id, &mut |flow| {
                let facts = view.flow(flow);
                let (source, destination) = (facts.src.0, facts.dst.0);
                flows.push(Flow { instance: self.instance, flow, source, destination });
            });
            flows
        })
    }

    fn __repr__(&self) -> String {
        format!("Coflow({}, {:?})", self.id.0, self.name)
    }
}

/// An iteration of a training job, as the job declares it.
#[pyclass(frozen, module = "cavalcade")]
pub(crate) struct Iteration {
    /// Its number: later ones have higher numbers.
    #[pyo3(get)]
    number: u32,
    /// Bytes of all its coflows.
    #[pyo3(get)]
    bytes: u64,
    /// GPUs of the job.
    #[pyo3(get)]
    gpus: u32,
    /// How long each of them computes in an iteration, on average.
    #[pyo3(get)]
    compute_s: f64,
}

impl From<model::Iteration> for Iteration {
    fn from(iteration: model::Iteration) -> Self {
        let model::Iteration { number, bytes, gpus, compute } = iteration;
        Self { number, bytes: bytes.get(), gpus, compute_s: compute.as_secs_f64() }
    }
}

#[pymethods]
impl Iteration {
    fn __repr__(&self) -> String {
        let Self { number, bytes, gpus, compute_s } = self;
        format!("Iteration({number}, bytes={bytes}, gpus={gpus}, compute_s={compute_s})")
    }
}

/// A flow, as a policy in Python sees it.
#[pyclass(frozen, module = "cavalcade")]
pub(crate) struct Flow {
    instance: u64,
    flow: FlowId,
    /// Port that sends.
    #[pyo3(get)]
    source: u32,
    /// Port that receives.
    #[pyo3(get)]
    destination: u32,
}

#[pymethods]
impl Flow {
    /// Number of the flow.
    #[getter]
    fn id(&self) -> u32 {
        self.flow.0
    }

    /// Bytes that it has sent.
    #[getter]
    fn sent_bytes(&self) -> PyResult<u64> {
        with(self.instance, |_, view| view.observe().flow_attained(self.flow).get())
    }

    /// Its bytes; told only to a clairvoyant policy.
    #[getter]
    fn size_bytes(&self) -> PyResult<u64> {
        foresee(self.instance, "size_bytes", |view| {
            view.flow_attained(self.flow).get() + view.flow_remaining(self.flow).get()
        })
    }

    /// Bytes that it has still to send; told only to a clairvoyant policy.
    #[getter]
    fn remaining_bytes(&self) -> PyResult<u64> {
        foresee(self.instance, "remaining_bytes", |view| view.flow_remaining(self.flow).get())
    }
}
