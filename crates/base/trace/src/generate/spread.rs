//! Other sizes for the flows of a trace, so that what a policy learns from one flow says less of
//! the next.
//!
//! The Facebook trace knows the bytes of each reducer and not which mapper sent how many; every
//! reader splits them evenly. A policy that learns a coflow's sizes from those of the flows that
//! have ended then learns a reducer's from its first flow. [`spread_sizes`] takes that away: inside
//! each receiver of a coflow sizes are drawn from a log-normal law, its bytes kept to the last.
//! [`permute_sizes`] keeps every size and gives them out to the flows of the coflow at random, so
//! that neither sender nor receiver says anything of a flow.

use std::collections::BTreeMap;

use cavalcade_model::{Bytes, Flow, PortId, Workload, WorkloadError};

use super::random::{Purpose, Random};
use super::rebuild::rebuild;

/// The same workload with the bytes of each receiver of a coflow split over its flows by weights
/// e^(σ·z), z standard normal. A flow has at least a byte. With σ = 0 they are split evenly.
///
/// # Errors
/// None that a valid workload could give.
pub fn spread_sizes(workload: &Workload, sigma: f64, seed: u64) -> Result<Workload, WorkloadError> {
    let mut random = Random::new(seed, Purpose::Spread);
    rebuild(
        workload,
        |task| Some(workload.submitted(task)),
        |flows| {
            let mut flows = flows.to_vec();
            let mut receivers: BTreeMap<PortId, Vec<usize>> = BTreeMap::new();
            (0..flows.len()).for_each(|at| receivers.entry(flows[at].dst).or_default().push(at));
            for members in receivers.values() {
                let weights: Vec<f64> = members.iter().map(|_| libm::exp(sigma * random.normal())).collect();
                split(&mut flows, members, &weights);
            }
            flows
        },
    )
}

/// Splits the bytes of `members` by weight: a byte each, and of the rest what is due up to each
/// less what was given so far.
fn split(flows: &mut [Flow], members: &[usize], weights: &[f64]) {
    let bytes: u64 = members.iter().map(|&at| flows[at].size.0).sum();
    let spare = bytes - members.len() as u64;
    let all: f64 = weights.iter().sum();
    let (mut weight, mut given) = (0.0, 0);
    for (&at, own) in members.iter().zip(weights) {
        weight += own;
        let due = ((spare as f64 * (weight / all)) as u64).clamp(given, spare);
        flows[at].size = Bytes(1 + due - given);
        given = due;
    }
    let last = members.last().expect("a receiver has a flow");
    flows[*last].size.0 += spare - given;
}

/// The same workload with the sizes of each coflow given out to its flows at random.
///
/// # Errors
/// None that a valid workload could give.
pub fn permute_sizes(workload: &Workload, seed: u64) -> Result<Workload, WorkloadError> {
    let mut random = Random::new(seed, Purpose::Spread);
    rebuild(
        workload,
        |task| Some(workload.submitted(task)),
        |flows| {
            let mut sizes: Vec<Bytes> = flows.iter().map(|flow| flow.size).collect();
            random.shuffle(&mut sizes);
            flows.iter().zip(sizes).map(|(flow, size)| Flow { size, ..*flow }).collect()
        },
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Generator, generate};

    fn workload() -> Workload {
        let generator: Generator = "facebook:coflows=60,ports=20".parse().unwrap();
        generate(&generator, 1).unwrap()
    }

    /// The bytes of each receiver of each coflow.
    fn received(workload: &Workload) -> BTreeMap<(u32, PortId), u64> {
        let mut bytes = BTreeMap::new();
        for coflow in workload.coflows() {
            for flow in coflow.flows {
                *bytes.entry((coflow.id.0, flow.dst)).or_default() += flow.size.0;
            }
        }
        bytes
    }

    /// The variance of the logarithm of sizes inside receivers.
    fn variance(workload: &Workload) -> f64 {
        let (mut sum, mut count) = (0.0, 0.0);
        for coflow in workload.coflows() {
            let mut logs: BTreeMap<PortId, Vec<f64>> = BTreeMap::new();
            for flow in coflow.flows {
                logs.entry(flow.dst).or_default().push(flow.size.as_f64().ln());
            }
            for logs in logs.values().filter(|logs| logs.len() > 1) {
                let mean = logs.iter().sum::<f64>() / logs.len() as f64;
                sum += logs.iter().map(|log| (log - mean).powi(2)).sum::<f64>();
                count += logs.len() as f64 - 1.0;
            }
        }
        sum / count
    }

    #[test]
    fn every_receiver_keeps_its_bytes_and_the_spread_is_that_asked_for() {
        let before = workload();
        assert!(variance(&before) < 1e-3, "an even split");
        for (sigma, low, high) in [(1.0, 0.9, 1.1), (2.0, 3.6, 4.4)] {
            let after = spread_sizes(&before, sigma, 7).unwrap();
            assert_eq!(received(&before), received(&after));
            let found = variance(&after);
            assert!((low..high).contains(&found), "σ² = {found} for σ = {sigma}");
            assert_eq!(after, spread_sizes(&before, sigma, 7).unwrap());
            assert_ne!(after, spread_sizes(&before, sigma, 8).unwrap());
        }
    }

    #[test]
    fn a_byte_for_each_flow_is_as_far_as_it_goes() {
        let mut flows =
            [Flow { src: PortId(0), dst: PortId(1), size: Bytes(2), wave: Default::default() }; 3];
        split(&mut flows, &[0, 1, 2], &[1e-300, 1.0, 1e300]);
        assert_eq!(flows.map(|flow| flow.size), [Bytes(1), Bytes(1), Bytes(4)]);
    }

    #[test]
    fn permuted_sizes_are_the_same_ones() {
        let before = spread_sizes(&workload(), 1.0, 1).unwrap();
        let after = permute_sizes(&before, 2).unwrap();
        let sizes = |workload: &Workload| -> Vec<Vec<u64>> {
            let of = |flows: &[Flow]| {
                let mut sizes: Vec<u64> = flows.iter().map(|flow| flow.size.0).collect();
                sizes.sort_unstable();
                sizes
            };
            workload.coflows().map(|coflow| of(coflow.flows)).collect()
        };
        assert_eq!(sizes(&before), sizes(&after));
        assert_ne!(received(&before), received(&after));
    }
}
