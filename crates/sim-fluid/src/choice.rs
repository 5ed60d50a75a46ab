//! Which of two solvers finds max-min rates on one switch.
//!
//! [`MaxMinFill`](cavalcade_allocate::MaxMinFill) fills all pairs of ports together: what it does in an event goes with the
//! number of ports, hardly with that of flows, and wide shuffles over few ports are its case.
//! [`PathFill`](cavalcade_allocate::PathFill) moves levels where something changed: what it does goes with the flows that share
//! links with those that come and go, and many ports with few flows each are its case. Both give the same rates.
//!
//! The rule goes by *crowding*: the most flows of tasks that arrive at one instant, over the number of ports. What arrives
//! together shares links for a while; what comes one by one seldom does. It is known before the run, costs one pass over the
//! coflows, and is the same on every machine. Flows each second of processor time, generation included, under `fair` and
//! `fifo`, one run each on a busy machine, where figures differ by half from run to run
//! (`cavalcade bench fluid` measures them):
//!
//! | workload (ports, flows) | crowding | `fair`: pairs | paths | `fifo`: pairs | paths |
//! |---|---|---|---|---|---|
//! | pois-100 (100, 10,000) | 0.01 | 48 k | 220 k to 460 k | 48 k | 340 k |
//! | pois-1000 (1,000, 100,000) | 0.001 | under 3 k | 134 k | | |
//! | coflow-1000 (1,000, 24,000) | 1.2 | 5.0 k | 16 k to 19 k | 63 k | 15 k |
//! | coflow-1000-long (1,000, 120,000) | 1.2 | | 4.5 k (27 s) | | |
//! | batch-100 (100, 10,000) | 100 | 25 k | 11 k | 5.5 k | 49 k |
//!
//! So paths are taken up to [`SPARSE`]; where nobody is put behind another, whose levels then move together, up to
//! [`SHARED`]. A policy of strict classes under which nobody starves puts nobody behind another.

use cavalcade_model::{ClassShares, Discipline, Terms, Work, Workload};

/// Who finds max-min rates on one switch. Rates are the same but for rounding.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MaxMinSolver {
    /// The one that is expected to be faster, by how many flows arrive together.
    #[default]
    ByCrowding,
    /// All pairs of ports together; for policies with weighted classes it is the only one.
    Pairs,
    /// Levels of links, along paths.
    Paths,
}

/// Crowding up to which levels along paths are faster whatever the order.
const SPARSE: f64 = 0.25;

/// Crowding up to which they are where all share.
const SHARED: f64 = 4.0;

/// Whether levels along paths are to find the rates.
pub(crate) fn takes_paths(workload: &Workload, terms: &Terms, choice: MaxMinSolver) -> bool {
    if terms.discipline != Discipline::MaxMin || terms.shares != ClassShares::Strict {
        return false;
    }
    match choice {
        MaxMinSolver::Pairs => false,
        MaxMinSolver::Paths => true,
        MaxMinSolver::ByCrowding => {
            let most = if terms.starvation_free { SHARED } else { SPARSE };
            crowding(workload) <= most
        }
    }
}

/// The most flows of tasks that arrive at one instant, over the number of ports.
fn crowding(workload: &Workload) -> f64 {
    let flows = |work: &Work| match *work {
        Work::Transfer(coflow) => workload.flow_ids(coflow).len(),
        Work::Compute(_) => 0,
    };
    let together = workload.tasks().chunk_by(|a, b| a.arrival == b.arrival);
    let together = together.map(|tasks| {
        let stages = tasks.iter().flat_map(|task| &task.stages);
        stages.map(|stage| flows(&stage.work)).sum::<usize>()
    });
    together.max().unwrap_or(0) as f64 / f64::from(workload.ports())
}
