//! Work without the interpreter's lock, which tells how far it is and which Ctrl-C ends.
//!
//! The work has a thread of its own. The calling thread waits for its end, takes the lock fifty
//! times a second to look for signals, and cancels the work if there is one. Then it waits on: the
//! work ends within milliseconds, and nothing of it outlives the call. Only code in Python can hold
//! it up: a policy that never returns. Into its thread the interrupt is raised as well.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Condvar, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use cavalcade::Progress;
use pyo3::exceptions::{PyImportError, PyTypeError};
use pyo3::prelude::*;
use pyo3::types::PyDict;

/// The time between two looks for signals.
const LOOK: Duration = Duration::from_millis(20);
/// The time between two words about progress.
const TELL: Duration = Duration::from_millis(100);

/// The thread on which Python runs a policy now, as `threading.get_ident` has it; zero for none.
/// One that does not return is interrupted there.
#[derive(Default)]
pub(crate) struct InPolicy(AtomicU64);

impl InPolicy {
    /// Says that a policy of this thread is asked, until what is returned is dropped.
    pub(crate) fn enter(&self, thread: u64) -> impl Drop + '_ {
        struct Left<'a>(&'a AtomicU64);
        impl Drop for Left<'_> {
            fn drop(&mut self) {
                self.0.store(0, Ordering::Release);
            }
        }
        self.0.store(thread, Ordering::Release);
        Left(&self.0)
    }
}

/// Who is told how far it is.
pub(crate) enum Told {
    /// Nobody.
    Nobody,
    /// A function of what is done and of how much.
    Function(Py<PyAny>),
    /// A bar of tqdm.
    Bar(Py<PyAny>),
}

impl Told {
    /// By the argument `progress`: a function, `True` for a bar where tqdm is there, or nothing.
    pub(crate) fn of(asked: Option<&Bound<'_, PyAny>>) -> PyResult<Self> {
        let Some(asked) = asked.filter(|asked| !asked.is_none()) else { return Ok(Self::Nobody) };
        let py = asked.py();
        if let Ok(wanted) = asked.extract::<bool>() {
            return match (wanted, py.import("tqdm.auto")) {
                (true, Ok(module)) => Ok(Self::Bar(module.getattr("tqdm")?.unbind())),
                (true, Err(error)) if !error.is_instance_of::<PyImportError>(py) => Err(error),
                _ => Ok(Self::Nobody),
            };
        }
        match asked.is_callable() {
            true => Ok(Self::Function(asked.clone().unbind())),
            false => Err(PyTypeError::new_err("progress: expected a function of two numbers, True or None")),
        }
    }

    /// Makes the bar, where there is to be one.
    fn begun(self, py: Python<'_>, units: usize) -> PyResult<Self> {
        let Self::Bar(bar) = self else { return Ok(self) };
        let options = PyDict::new(py);
        options.set_item("total", units)?;
        options.set_item("unit", "coflow")?;
        options.set_item("leave", false)?;
        Ok(Self::Bar(bar.call(py, (), Some(&options))?))
    }

    fn report(&self, py: Python<'_>, before: usize, done: usize, units: usize) -> PyResult<()> {
        match self {
            Self::Nobody => Ok(()),
            Self::Function(function) => function.call1(py, (done, units)).map(drop),
            Self::Bar(bar) => bar.call_method1(py, "update", (done.saturating_sub(before),)).map(drop),
        }
    }

    fn end(&self, py: Python<'_>) -> PyResult<()> {
        match self {
            Self::Bar(bar) => bar.call_method0(py, "close").map(drop),
            _ => Ok(()),
        }
    }
}

/// The end of the work.
#[derive(Default)]
struct Ended {
    flag: Mutex<bool>,
    changed: Condvar,
}

impl Ended {
    fn within(&self, time: Duration) -> bool {
        let flag = self.flag.lock().unwrap_or_else(PoisonError::into_inner);
        *self
            .changed
            .wait_timeout_while(flag, time, |ended| !*ended)
            .unwrap_or_else(PoisonError::into_inner)
            .0
    }
}

/// Says that the work has ended when it is dropped, also where it panics.
struct End<'a>(&'a Ended);

impl Drop for End<'_> {
    fn drop(&mut self) {
        *self.0.flag.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.0.changed.notify_all();
    }
}

/// Does `work` of so many `units`, whose policies in Python say in `inside` where they are.
///
/// # Errors
/// If a signal came, or whoever is told of progress raised an exception.
pub(crate) fn watched<T: Send>(
    py: Python<'_>,
    units: usize,
    told: Told,
    inside: &[std::sync::Arc<InPolicy>],
    work: impl FnOnce(&Progress) -> T + Send,
) -> PyResult<T> {
    let told = told.begun(py, units)?;
    let (progress, ended) = (Progress::default(), Ended::default());
    let (worker, failure) = thread::scope(|scope| {
        let worker = scope.spawn(|| {
            let _end = End(&ended);
            work(&progress)
        });
        let (mut failure, mut before, mut next) = (None, 0, Instant::now() + TELL);
        while !py.detach(|| ended.within(LOOK)) {
            let looked = py.check_signals().and_then(|()| {
                if failure.is_some() || Instant::now() < next {
                    return Ok(());
                }
                next = Instant::now() + TELL;
                let done = progress.done().min(units);
                let told = told.report(py, before, done, units);
                before = done;
                told
            });
            if let Err(error) = looked {
                progress.cancel();
                failure.get_or_insert(error);
            }
            if failure.is_some() {
                inside.iter().for_each(|policy| interrupt(py, policy));
            }
        }
        if failure.is_none() {
            let done = progress.done().min(units);
            failure = told.report(py, before, done, units).err();
        }
        (worker.join(), failure)
    });
    told.end(py)?;
    match (worker, failure) {
        (_, Some(error)) => Err(error),
        (Ok(value), None) => Ok(value),
        (Err(panic), None) => std::panic::resume_unwind(panic),
    }
}

/// Raises an interrupt in the thread of a policy that does not return.
fn interrupt(py: Python<'_>, policy: &InPolicy) {
    let thread = policy.0.load(Ordering::Acquire);
    if thread == 0 {
        return;
    }
    // What cannot be interrupted is waited for.
    let _ = py.import("ctypes").and_then(|ctypes| {
        let interrupt = py.get_type::<pyo3::exceptions::PyKeyboardInterrupt>();
        let ident = ctypes.getattr("c_ulong")?.call1((thread,))?;
        let object = ctypes.getattr("py_object")?.call1((interrupt,))?;
        ctypes.getattr("pythonapi")?.call_method1("PyThreadState_SetAsyncExc", (ident, object))
    });
}
