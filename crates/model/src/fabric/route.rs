//! Which links lie between two ports.
//!
//! Where there is a choice, each switch on the way up picks one of the switches above it by a hash of source, destination
//! and choice: the highest hash wins (rendezvous hashing, Thaler and Ravishankar 1998). Only choices from which the
//! destination can still be reached take part, as after routing has converged. So a failed link moves the pairs that
//! crossed it and no other, which hashing modulo the number of choices would not hold. Cost: O(choices) for each
//! path, two levels for a fat-tree.

use super::{Fabric, Path, Shape};
use crate::{LinkId, PortId, mix};

impl Fabric {
    /// The links from `src` to `dst`. A flow from a port to itself crosses both links of that port, as traces at rack
    /// level mean it.
    ///
    /// # Panics
    /// Where failed links leave no path: see [`Fabric::find_path`] and [`Fabric::check`].
    #[inline]
    pub fn path(&self, src: PortId, dst: PortId) -> Path {
        match self.find_path(src, dst) {
            Some(path) => path,
            None => panic!("failed links leave no path from port {src} to port {dst}"),
        }
    }

    /// The links from `src` to `dst`; `None` where failed links leave no path.
    #[inline]
    pub fn find_path(&self, src: PortId, dst: PortId) -> Option<Path> {
        if self.is_one_switch() && self.failed.is_empty() {
            // Asked for every flow, and nothing has to be found.
            return Some(Path::new(&[self.ingress(src), self.egress(dst)]));
        }
        self.find_among_switches(src, dst)
    }

    fn find_among_switches(&self, src: PortId, dst: PortId) -> Option<Path> {
        let (first, last) = (self.ingress(src), self.egress(dst));
        let path = match self.shape {
            Shape::BigSwitch { .. } => Some(Path::new(&[first, last])),
            Shape::Tree { racks, hosts, .. } => {
                let (from, to) = (src.0 / hosts, dst.0 / hosts);
                let [up, _] = self.shape.up_and_down(0, from);
                let [_, down] = self.shape.up_and_down(0, to);
                let [pod_up, _] = self.shape.up_and_down(1, from / racks);
                let [_, pod_down] = self.shape.up_and_down(1, to / racks);
                Some(if from == to {
                    Path::new(&[first, last])
                } else if from / racks == to / racks {
                    Path::new(&[first, up, down, last])
                } else {
                    Path::new(&[first, up, pod_up, pod_down, down, last])
                })
            }
            Shape::LeafSpine { spines, hosts, .. } => {
                let (from, to) = (src.0 / hosts, dst.0 / hosts);
                if from == to {
                    Some(Path::new(&[first, last]))
                } else {
                    let by_spine = |spine| {
                        let [up, _] = self.shape.up_and_down(0, from * spines + spine);
                        let [_, down] = self.shape.up_and_down(0, to * spines + spine);
                        [up, down]
                    };
                    let spine = pick([src, dst], 0, spines, |spine| self.are_up(&by_spine(spine)));
                    spine.map(|spine| {
                        let [up, down] = by_spine(spine);
                        Path::new(&[first, up, down, last])
                    })
                }
            }
            Shape::FatTree { arity } => self.through_fat_tree(src, dst, arity / 2),
        };
        path.filter(|path| self.are_up(path))
    }

    fn through_fat_tree(&self, src: PortId, dst: PortId, half: u32) -> Option<Path> {
        let (first, last) = (self.ingress(src), self.egress(dst));
        let (from, to) = (src.0 / half, dst.0 / half);
        if from == to {
            return Some(Path::new(&[first, last]));
        }
        let edge_links = |switch| {
            let [up, _] = self.shape.up_and_down(0, from * half + switch);
            let [_, down] = self.shape.up_and_down(0, to * half + switch);
            [up, down]
        };
        if from / half == to / half {
            let switch = pick([src, dst], 0, half, |switch| self.are_up(&edge_links(switch)))?;
            let [up, down] = edge_links(switch);
            return Some(Path::new(&[first, up, down, last]));
        }
        // Aggregation switches of the same place in their pods share their cores.
        let core_links = |switch, core| {
            let [up, _] = self.shape.up_and_down(1, (from / half * half + switch) * half + core);
            let [_, down] = self.shape.up_and_down(1, (to / half * half + switch) * half + core);
            [up, down]
        };
        let leads_there = |switch| {
            self.are_up(&edge_links(switch)) && (0..half).any(|core| self.are_up(&core_links(switch, core)))
        };
        let switch = pick([src, dst], 0, half, leads_there)?;
        let core = pick([src, dst], 1, half, |core| self.are_up(&core_links(switch, core)))?;
        let ([up, down], [core_up, core_down]) = (edge_links(switch), core_links(switch, core));
        Some(Path::new(&[first, up, core_up, core_down, down, last]))
    }

    fn are_up(&self, links: &[LinkId]) -> bool {
        self.failed.is_empty() || links.iter().all(|&link| !self.has_failed(link))
    }
}

/// The usable one of so many choices whose hash with the two ports and the level is highest.
fn pick([src, dst]: [PortId; 2], level: u64, choices: u32, usable: impl Fn(u32) -> bool) -> Option<u32> {
    let pair = mix(u64::from(src.0) << 32 | u64::from(dst.0));
    let hash = |choice: &u32| mix(pair ^ (level << 32 | u64::from(*choice)));
    (0..choices).filter(|&choice| usable(choice)).max_by_key(hash)
}
