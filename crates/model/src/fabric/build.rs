//! From a shape to a fabric: how fast each link is, and which links are exceptions.

use super::{Fabric, FabricError, Shape};
use crate::{BitsPerSec, LinkId, Nanos, Workload};

impl Fabric {
    /// A fabric of this shape whose ports' links all have the capacity `rate`. Links between switches have what the
    /// oversubscription of their level leaves; in a fat-tree all links are alike.
    ///
    /// # Errors
    /// Where the shape has no ports, too many links, or a link without capacity.
    pub fn new(shape: Shape, rate: BitsPerSec) -> Result<Self, FabricError> {
        check(&shape)?;
        let mut capacities = vec![rate; 2 * shape.ports() as usize];
        let rates = shape.rates(rate);
        for (links, rate) in shape.upward().into_iter().zip(rates) {
            capacities.resize(capacities.len() + 2 * links as usize, rate);
        }
        Self::with_capacities(shape, capacities)
    }

    pub(super) fn with_capacities(shape: Shape, capacities: Vec<BitsPerSec>) -> Result<Self, FabricError> {
        check(&shape)?;
        let fabric = Self { shape, capacities, delays: Vec::new(), failed: Vec::new() };
        match fabric.links().find(|&link| fabric.capacity(link) == BitsPerSec::ZERO) {
            Some(link) => Err(FabricError::ZeroCapacity { link: fabric.link_name(link) }),
            None => Ok(fabric),
        }
    }

    /// Gives one link a capacity of its own.
    ///
    /// # Errors
    /// Where it is zero: a link that carries nothing has failed.
    pub fn set_capacity(&mut self, link: LinkId, capacity: BitsPerSec) -> Result<(), FabricError> {
        if capacity == BitsPerSec::ZERO {
            return Err(FabricError::ZeroCapacity { link: self.link_name(link) });
        }
        self.capacities[link.index()] = capacity;
        Ok(())
    }

    /// Gives one link a delay of its own.
    pub fn set_delay(&mut self, link: LinkId, delay: Nanos) {
        self.delays.resize(self.capacities.len(), Nanos::ZERO);
        self.delays[link.index()] = delay;
    }

    /// Gives every link this delay.
    pub fn set_delays(&mut self, delay: Nanos) {
        self.delays = vec![delay; self.capacities.len()];
    }

    /// Takes a link out of service. Paths that crossed it go elsewhere, where there is an elsewhere.
    pub fn fail(&mut self, link: LinkId) {
        self.failed.resize(self.capacities.len(), false);
        self.failed[link.index()] = true;
    }

    /// Checks that the fabric can carry a workload.
    ///
    /// # Errors
    /// Where it has too few ports, or failed links cut off the ends of a flow from each other.
    pub fn check(&self, workload: &Workload) -> Result<(), FabricError> {
        let (needed, ports) = (workload.ports(), self.ports());
        if needed > ports {
            return Err(FabricError::TooFewPorts { needed, ports });
        }
        if self.failed.is_empty() {
            return Ok(());
        }
        for coflow in workload.coflows() {
            if let Some(flow) = coflow.flows.iter().find(|flow| self.find_path(flow.src, flow.dst).is_none())
            {
                let task = coflow.task.name.clone();
                return Err(FabricError::NoPath { task, src: flow.src.0, dst: flow.dst.0 });
            }
        }
        Ok(())
    }
}

impl Shape {
    /// The capacity of links between each level of switches and the next, where ports have `rate`.
    fn rates(&self, rate: BitsPerSec) -> [BitsPerSec; 2] {
        let rate = u128::from(rate.get());
        match *self {
            Shape::BigSwitch { .. } => [BitsPerSec::ZERO; 2],
            Shape::Tree { racks, hosts, oversubscription, pod_oversubscription, .. } => {
                let rack = oversubscription.applied(rate * u128::from(hosts));
                [rack, pod_oversubscription.applied(u128::from(rack.get()) * u128::from(racks))]
            }
            Shape::LeafSpine { spines, hosts, oversubscription, .. } => {
                let leaf = u128::from(oversubscription.applied(rate * u128::from(hosts)).get());
                [BitsPerSec((leaf / u128::from(spines)) as u64), BitsPerSec::ZERO]
            }
            Shape::FatTree { .. } => [BitsPerSec(rate as u64); 2],
        }
    }
}

/// Whether there is everything that there has to be, and not more than can be numbered.
fn check(shape: &Shape) -> Result<(), FabricError> {
    let parts: &[(&'static str, u32)] = match shape {
        Shape::BigSwitch { ports: 0 } => return Err(FabricError::NoPorts),
        Shape::FatTree { arity } if *arity == 0 || arity % 2 == 1 => {
            return Err(FabricError::BadArity { arity: *arity });
        }
        Shape::BigSwitch { ports } => &[("ports", *ports)],
        Shape::Tree { pods, racks, hosts, .. } => &[("pods", *pods), ("racks", *racks), ("hosts", *hosts)],
        Shape::LeafSpine { leaves, spines, hosts, .. } => {
            &[("leaves", *leaves), ("spines", *spines), ("hosts", *hosts)]
        }
        Shape::FatTree { arity } => &[("arity", *arity), ("half", *arity / 2), ("half", *arity / 2)],
    };
    if let Some(&(part, _)) = parts.iter().find(|(_, count)| *count == 0) {
        return Err(FabricError::Nothing { shape: shape.name(), part });
    }
    // No shape has more than six times as many links.
    let product = parts.iter().try_fold(1_u64, |product, (_, count)| product.checked_mul(u64::from(*count)));
    match product {
        Some(product) if product <= u64::from(MOST_LINKS) / 6 => Ok(()),
        _ => Err(FabricError::TooLarge { most: MOST_LINKS }),
    }
}

/// Links are counted in 32 bits, some of which solvers keep for themselves.
const MOST_LINKS: u32 = 1 << 30;
