//! Failed and slow tasks: flows that are sent again, and second copies of others (Aalo §3.2, §5.2).
//!
//! What fails is a task of the job, and its flows with it: a flow has sent a part of its bytes in
//! vain, and is sent again from the beginning. What is slow gets a second copy, elsewhere. To the
//! network both are flows of the same coflow that come as a later wave; so nothing but a trace has
//! to know of them, and the extra bytes count to the coflow's size by themselves.
//!
//! A part in vain is uniform from one byte to all. A second copy is sent from another port, and
//! goes to its end even where the first wins: who wins is known only when one has ended, so that
//! this is an upper bound of what speculation costs. Both begin `after` the flow that they stand
//! for.

use cavalcade_model::{Bytes, Flow, Nanos, PortId, Workload, WorkloadError};

use super::random::{Purpose, Random};
use super::rebuild::rebuild;

/// Rate and time of failures.
#[derive(Clone, Copy, Debug, PartialEq, Default)]
pub struct Failures {
    /// The share of flows that are sent again, from 0 to 1.
    pub restarted: f64,
    /// The share of flows that have a second copy, from 0 to 1; together with `restarted` at
    /// most 1.
    pub speculated: f64,
    /// Time from a flow's start to its second attempt or copy.
    pub after: Nanos,
}

/// The workload with failures drawn from `seed`; the same arguments give the same workload.
///
/// # Errors
/// If what is added takes the workload beyond what there may be of flows, bytes or time.
pub fn with_failures(workload: &Workload, failures: &Failures, seed: u64) -> Result<Workload, WorkloadError> {
    let mut random = Random::new(seed, Purpose::Failures);
    rebuild(
        workload,
        |task| Some(workload.submitted(task)),
        |flows| {
            let mut all = Vec::with_capacity(flows.len());
            flows.iter().for_each(|flow| attempts(flow, workload.ports(), failures, &mut random, &mut all));
            all
        },
    )
}

/// Appends what is sent for one flow.
fn attempts(flow: &Flow, ports: u32, failures: &Failures, random: &mut Random, all: &mut Vec<Flow>) {
    let (which, part, elsewhere) = (random.unit(), random.bits(), random.below(u64::from(ports).max(2) - 1));
    let later = Nanos(flow.wave.0.saturating_add(failures.after.0));
    if which < failures.restarted {
        all.push(Flow { size: Bytes(part % flow.size.0 + 1), ..*flow });
        all.push(Flow { wave: later, ..*flow });
    } else {
        all.push(*flow);
        if which < failures.restarted + failures.speculated {
            let src = PortId((flow.src.0 + 1 + elsewhere as u32) % ports);
            all.push(Flow { src, wave: later, ..*flow });
        }
    }
}
