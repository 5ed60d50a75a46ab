//! Which links lie between two ports.
//!
//! Where there is a choice, each switch on the way up picks one of the switches above it by a hash
//! of source, destination and choice: the highest hash wins (rendezvous hashing, Thaler and
//! Ravishankar 1998). Only choices from which the destination can still be reached take part, as
//! after routing has converged. So a failed link moves the pairs that crossed it and no other,
//! which hashing modulo the number of choices would not hold. Cost: O(choices) for each path, two
//! levels for a fat-tree.

use super::{Fabric, Path};
use crate::{LinkId, PortId, mix};

impl Fabric {
    /// The links from `src` to `dst`. A flow from a port to itself crosses both links of that port,
    /// as traces at rack level mean it.
    ///
    /// # Panics
    /// If failed links leave no path: see [`Fabric::find_path`] and [`Fabric::check`].
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
        let is_near = self.is_one_switch() || self.shape.0.switch_of(src.0) == self.shape.0.switch_of(dst.0);
        let path = if is_near {
            Some(Path::new(&[self.ingress(src), self.egress(dst)]))
        } else {
            self.shape.0.path(self, src, dst)
        };
        path.filter(|path| self.are_up(path))
    }

    /// Checks that none of `links` has failed.
    pub fn are_up(&self, links: &[LinkId]) -> bool {
        self.failed.is_empty() || links.iter().all(|&link| !self.has_failed(link))
    }

    /// Picks, of so many choices, the usable one whose hash with the two ports and the level is
    /// highest.
    pub fn pick(
        [src, dst]: [PortId; 2],
        level: u64,
        choices: u32,
        usable: impl Fn(u32) -> bool,
    ) -> Option<u32> {
        let pair = mix(u64::from(src.0) << 32 | u64::from(dst.0));
        let hash = |choice: &u32| mix(pair ^ (level << 32 | u64::from(*choice)));
        (0..choices).filter(|&choice| usable(choice)).max_by_key(hash)
    }
}
