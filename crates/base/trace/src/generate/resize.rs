//! Other sizes and ports for the tasks of a workload, and the arrivals that give a load by what was
//! drawn.
//!
//! A generator sets its arrivals by the mean of its laws. With heavy tails the bytes drawn are
//! often half of that mean, so the load is too. [`at_load`] stretches the arrivals of a workload
//! until the bytes that are there make the load that was asked for.

use cavalcade_model::{
    BitsPerSec, Bytes, CoflowId, Flow, Instant, PortId, Task, Work, Workload, WorkloadBuilder, WorkloadError,
};

use super::random::{Purpose, Random};
use super::rebuild::{rebuild, rebuild_in};

/// The tasks with sizes drawn from `sizes`, each flow with the share of its task that it had. The
/// same seed gives the same workload on every machine. Without sizes tasks stay as they are.
///
/// # Errors
/// None that a valid workload could give.
pub fn with_task_sizes(workload: &Workload, sizes: &[u64], seed: u64) -> Result<Workload, WorkloadError> {
    if sizes.is_empty() {
        return Ok(workload.clone());
    }
    let mut random = Random::new(seed, Purpose::Shapes);
    let factors: Vec<f64> = workload
        .tasks()
        .iter()
        .map(|task| {
            let drawn = sizes[random.below(sizes.len() as u64) as usize] as f64;
            drawn / bytes_of(workload, task).max(1.0)
        })
        .collect();
    let mut coflow = 0;
    rebuild(
        workload,
        |task| Some(workload.submitted(task)),
        |flows| {
            let factor = factors[workload.place(CoflowId::from_index(coflow)).task.index()];
            coflow += 1;
            resized(flows, factor)
        },
    )
}

/// The same tasks with every flow `factor` times as large, and at least a byte.
///
/// # Errors
/// If a size no longer fits its unit.
pub fn scale_sizes(workload: &Workload, factor: f64) -> Result<Workload, WorkloadError> {
    rebuild(workload, |task| Some(workload.submitted(task)), |flows| resized(flows, factor))
}

fn resized(flows: &[Flow], factor: f64) -> Vec<Flow> {
    let size = |flow: &Flow| Bytes(((flow.size.as_f64() * factor) as u64).max(1));
    flows.iter().map(|flow| Flow { size: size(flow), ..*flow }).collect()
}

/// The same tasks on `ports` ports, to which those that there are are dealt out in turn: of 100
/// ports, 103 becomes 3. Each flow stays a flow. Hosts and names of ports are left out.
///
/// # Errors
/// If there are no ports, or computations name their hosts.
pub fn on_ports(workload: &Workload, ports: u32) -> Result<Workload, WorkloadError> {
    let dealt = |port: PortId| PortId(port.0.checked_rem(ports).unwrap_or_default());
    let moved = |flow: &Flow| Flow { src: dealt(flow.src), dst: dealt(flow.dst), ..*flow };
    rebuild_in(
        WorkloadBuilder::new(ports),
        workload,
        |task| Some(workload.submitted(task)),
        |flows| flows.iter().map(moved).collect(),
    )
}

/// The bytes of a task's coflows.
fn bytes_of(workload: &Workload, task: &Task) -> f64 {
    let transfers = task.stages.iter().filter_map(|stage| match stage.work {
        Work::Transfer(coflow) => Some(workload.coflow_bytes(coflow).as_f64()),
        Work::Compute(_) => None,
    });
    transfers.sum()
}

/// The tasks with their arrivals stretched so that the port with most bytes in one direction is
/// used to `load` from the first arrival to the last at `rate`.
///
/// # Errors
/// If an arrival no longer fits the scale of times, as with a load of zero or less.
pub fn at_load(workload: &Workload, load: f64, rate: BitsPerSec) -> Result<Workload, WorkloadError> {
    let load = load.max(0.0);
    let mut bytes = vec![[0u64; 2]; workload.ports() as usize];
    for flow in workload.flows() {
        bytes[flow.src.0 as usize][0] += flow.size.0;
        bytes[flow.dst.0 as usize][1] += flow.size.0;
    }
    let most = bytes.iter().flatten().copied().max().unwrap_or(0) as f64;
    let lasting = most / (rate.bytes_per_nano() * load);
    let last = workload.tasks().last().map_or(0, |task| task.arrival.0 + workload.origin().0).max(1) as f64;
    rebuild(
        workload,
        |task| Some(Instant((workload.submitted(task).0 as f64 / last * lasting) as u64)),
        <[_]>::to_vec,
    )
}

/// The tasks, which arrive `pace` times as fast: the time from the first arrival to each is divided
/// by that.
///
/// # Errors
/// If an arrival no longer fits the scale of times, as with a pace of zero or less.
pub fn at_pace(workload: &Workload, pace: f64) -> Result<Workload, WorkloadError> {
    let pace = pace.max(0.0);
    let origin = workload.origin();
    let after = |task| (workload.submitted(task).since(origin).as_f64() / pace) as u64;
    rebuild(workload, |task| Some(Instant(origin.0.saturating_add(after(task)))), <[_]>::to_vec)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Generator, generate};

    fn made(text: &str) -> Workload {
        let generator: Generator = text.parse().unwrap();
        generate(&generator, 2).unwrap()
    }

    #[test]
    fn tasks_have_drawn_sizes_and_flows_their_shares() {
        let before = made("tailed:tasks=50,senders=4,ports=5");
        let after = with_task_sizes(&before, &[1_000_000, 30_000_000], 1).unwrap();
        for (a, b) in before.coflows().zip(after.coflows()) {
            let size = b.size().as_f64();
            let drawn = if size < 2e6 { 1e6 } else { 3e7 };
            assert!((size / drawn - 1.0).abs() < 1e-4, "{size}");
            let share = |flow: &Flow, all: Bytes| flow.size.as_f64() / all.as_f64();
            for (x, y) in a.flows.iter().zip(b.flows) {
                assert!((share(x, a.size()) - share(y, b.size())).abs() < 1e-4);
            }
        }
    }

    #[test]
    fn the_load_is_that_of_what_was_drawn() {
        let rate = BitsPerSec(8_000_000_000);
        let before = made("tailed:tasks=300,tail=pareto:1.1:10000");
        let after = at_load(&before, 0.8, rate).unwrap();
        let last = (after.tasks().last().unwrap().arrival.0 + after.origin().0) as f64;
        assert!((after.bytes().as_f64() / last - 0.8).abs() < 1e-6, "one aggregator gets all bytes");
        assert_eq!(after.bytes(), before.bytes());
    }

    #[test]
    fn tasks_at_twice_the_pace_arrive_after_half_the_time() {
        let before = made("tailed:tasks=50,senders=4,ports=5");
        let after = at_pace(&before, 2.0).unwrap();
        assert_eq!(after.flows(), before.flows());
        for (a, b) in before.tasks().iter().zip(after.tasks()) {
            assert!(b.arrival.0.abs_diff(a.arrival.0 / 2) <= 1, "{:?} and {:?}", a.arrival, b.arrival);
        }
        assert!(before.tasks().last().unwrap().arrival.0 > 1_000_000);
        for slow in [1e-18, 0.0, -1.0, f64::NAN] {
            assert!(at_pace(&before, slow).is_err(), "beyond the end of time: {slow}");
        }
    }
}
