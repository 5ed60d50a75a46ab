//! Whether the engine and the slow, obvious one agree on an instance.

use cavalcade_model::{Discipline, Instant, PolicyFactory, Scope, Terms};
use cavalcade_sim_fluid::{Options, simulate};
use proptest::prelude::*;

use crate::instances::Instance;
use crate::slow;
use crate::timeline::{Logged, parting};

/// The tolerance of times, as a share of them.
const CLOSE: f64 = 1e-9;

/// The same where links have priorities of their own: what they share round and round comes to them
/// in ever smaller steps.
const CLOSE_AT_LINKS: f64 = 1e-8;

/// The same for MADD, which at each event divides what flows have left by the time that it takes
/// them, and so multiplies what rounding has left of flows that are about to end: 3 of 45,000
/// random cases differ by more than [`CLOSE`].
const CLOSE_FOR_MADD: f64 = 3e-8;

fn same(what: &str, fast: &[Instant], slow: &[Instant], close: f64) -> Result<(), TestCaseError> {
    for (index, (fast, slow)) in fast.iter().zip(slow).enumerate() {
        let apart = fast.0.abs_diff(slow.0) as f64;
        let allowed = 1.0 + close * slow.as_f64();
        prop_assert!(apart <= allowed, "{what} {index}: fast {} ns, slow {} ns", fast.0, slow.0);
    }
    Ok(())
}

/// Runs both engines: the same completion times, but for rounding.
pub(crate) fn agree(
    instance: &Instance,
    factory: &dyn PolicyFactory,
    options: &Options,
) -> Result<(), TestCaseError> {
    let close = match factory.terms() {
        Terms { scope: Scope::Link, .. } => CLOSE_AT_LINKS,
        Terms { discipline: Discipline::Madd, .. } => CLOSE_FOR_MADD,
        _ => CLOSE,
    };
    agree_within(close, instance, factory, options)
}

fn agree_within(
    close: f64,
    instance: &Instance,
    factory: &dyn PolicyFactory,
    options: &Options,
) -> Result<(), TestCaseError> {
    let fast = simulate(&instance.workload, &instance.fabric, factory, options, None);
    let fast = fast.map_err(|error| TestCaseError::fail(error.to_string()))?;
    let (slow, _) = slow::simulate(&instance.workload, &instance.fabric, factory, options);
    let same = same("finish of flow", &fast.flow_finish, &slow.flow_finish, close)
        .and_then(|()| same("arrival of coflow", &fast.coflow_arrival, &slow.coflow_arrival, close))
        .and_then(|()| same("finish of coflow", &fast.coflow_finish, &slow.coflow_finish, close))
        .and_then(|()| same("finish of task", &fast.task_finish, &slow.task_finish, close));
    same.map_err(|difference| {
        let (told_fast, told_slow) = (Logged::new(factory), Logged::new(factory));
        let _ = simulate(&instance.workload, &instance.fabric, &told_fast, options, None);
        slow::simulate(&instance.workload, &instance.fabric, &told_slow, options);
        let parting = parting(&told_fast.into_lines(), &told_slow.into_lines());
        TestCaseError::fail(format!("{difference}\n{parting}"))
    })
}
