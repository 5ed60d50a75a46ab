//! From a shape to a fabric: how fast each link is, and which links are exceptions.

use super::topology::Numbering;
use super::{Fabric, FabricError, Level, Shape};
use crate::{BitsPerSec, CoflowId, LinkId, Nanos, Workload};

impl Fabric {
    /// A fabric of this shape whose ports' links have the capacity `rate`, unless it has ports of
    /// several kinds. Links between switches have what the oversubscription of their level leaves;
    /// in a fat-tree all links are alike.
    ///
    /// # Errors
    /// If the shape has no ports, too many links, or a link without capacity.
    pub fn new(shape: Shape, rate: BitsPerSec) -> Result<Self, FabricError> {
        let (ports, levels) = shape.size(rate)?;
        let mut capacities: Vec<BitsPerSec> = (0..ports).map(|port| shape.0.port_rate(port, rate)).collect();
        capacities.extend_from_within(..);
        for Level { links, rate } in &levels {
            capacities.resize(capacities.len() + 2 * *links as usize, *rate);
        }
        let numbering = Numbering::new(ports, &levels);
        let is_one_switch = shape.0.switch_of(0) == shape.0.switch_of(ports - 1);
        Self { shape, numbering, is_one_switch, capacities, delays: Vec::new(), failed: Vec::new() }.checked()
    }

    /// The fabric, if each of its links can carry something.
    pub(super) fn checked(self) -> Result<Self, FabricError> {
        match self.links().find(|&link| self.capacity(link) == BitsPerSec::ZERO) {
            Some(link) => Err(FabricError::ZeroCapacity { link: self.link_name(link) }),
            None => Ok(self),
        }
    }

    /// Gives one link a capacity of its own.
    ///
    /// # Errors
    /// If it is zero: a link that carries nothing has failed.
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

    /// Takes a link out of service. Paths that crossed it take another way, if there is one.
    pub fn fail(&mut self, link: LinkId) {
        self.failed.resize(self.capacities.len(), false);
        self.failed[link.index()] = true;
    }

    /// Checks that the fabric can carry a workload.
    ///
    /// # Errors
    /// If it has too few ports, or failed links cut off the ends of a flow from each other.
    pub fn check(&self, workload: &Workload) -> Result<(), FabricError> {
        let (needed, ports) = (workload.ports(), self.ports());
        if needed > ports {
            return Err(FabricError::TooFewPorts { needed, ports });
        }
        (0..workload.coflow_count())
            .try_for_each(|coflow| self.check_paths(workload, CoflowId::from_index(coflow)))
    }

    /// Checks that failed links leave a path for each flow of a coflow.
    ///
    /// # Errors
    /// If there is none.
    pub fn check_paths(&self, workload: &Workload, coflow: CoflowId) -> Result<(), FabricError> {
        if self.failed.is_empty() {
            return Ok(());
        }
        let mut flows = workload.flows_of(coflow).iter();
        let Some(flow) = flows.find(|flow| self.find_path(flow.src, flow.dst).is_none()) else {
            return Ok(());
        };
        let task = workload.coflow(coflow).task.name.clone();
        let [src, dst] = [flow.src, flow.dst].map(|port| workload.port_name(port));
        Err(FabricError::NoPath { task, src, dst })
    }
}
