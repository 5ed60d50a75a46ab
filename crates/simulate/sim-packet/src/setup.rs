//! What is worked out before a run: the queues that transport and policy ask for, the order of
//! outages.

use cavalcade_model::{Bytes, ClassShares, TaskId, Terms, Work, Workload};
use cavalcade_transport::SwitchNeeds;

use crate::error::SimulationError;
use crate::flows::picos;
use crate::network::{MOST_HOPS, Network};
use crate::options::Outage;
use crate::queue::{Buffer, Discipline, MOST_CLASSES, Marking, Measured, QueueConfig};
use crate::wheel::Picos;

/// The queues for a transport that `needs` something of them and sorts packets into `classes`,
/// under a policy with these terms: as many classes as switches tell apart, by strict priority or
/// by the policy's weights, unless the transport orders queues itself; one where the policy weighs
/// flows, which their senders see to; without a policy the transport's own classes. Marks are set
/// per queue.
pub(crate) fn queues(needs: &SwitchNeeds, classes: u8, terms: Option<&Terms>) -> QueueConfig {
    let discipline = match terms.map(|terms| &terms.shares) {
        _ if needs.shortest_first => Discipline::ShortestFirst,
        None if classes > 1 => Discipline::Strict { queues: usize::from(classes).min(MOST_CLASSES) },
        None | Some(ClassShares::OfFlows { .. }) => Discipline::DropTail,
        Some(ClassShares::Strict) => Discipline::Strict { queues: MOST_CLASSES },
        Some(ClassShares::Weighted { weights, .. }) => {
            // Classes beyond the last queue share it, so its weight is that of the first of them.
            Discipline::Weighted { weights: weights.iter().copied().take(MOST_CLASSES).collect() }
        }
    };
    let marking = needs.marking.map(|at| Marking { at, measured: Measured::Queue });
    QueueConfig { discipline, buffer: Buffer::PerPort(needs.buffer), marking }
}

/// Lists cable failures (true) and repairs by time; at one time repairs come first.
pub(crate) fn outages(outages: &[Outage]) -> Vec<(Picos, u32, bool)> {
    let ends = |outage: &Outage| {
        [(picos(outage.from), outage.link, true), (picos(outage.until), outage.link, false)]
    };
    let mut list: Vec<_> = outages.iter().flat_map(ends).collect();
    list.sort_by_key(|&(when, link, away)| (when, away, link));
    list
}

/// Checks that no flow crosses more links than the transport's header has room for.
///
/// # Errors
/// The first flow that does.
pub(crate) fn check_hops(workload: &Workload, network: &Network, most: usize) -> Result<(), SimulationError> {
    if most >= MOST_HOPS {
        return Ok(());
    }
    for flow in workload.flows() {
        let hops = usize::from(network.route(flow.src.0, flow.dst.0).hops());
        if hops > most {
            let [src, dst] = [flow.src, flow.dst].map(|port| workload.port_name(port));
            return Err(SimulationError::TooManyHops { src, dst, hops, most });
        }
    }
    Ok(())
}

/// The bytes of all flows of a task.
pub(crate) fn task_size(workload: &Workload, task: TaskId) -> Bytes {
    let stages = workload.task(task).stages.iter();
    let sizes = stages.filter_map(|stage| match stage.work {
        Work::Transfer(coflow) => Some(workload.coflow_bytes(coflow)),
        Work::Compute(_) => None,
    });
    sizes.sum()
}
