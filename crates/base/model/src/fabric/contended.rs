//! Which links can be short.
//!
//! Paths go up and then down. So all that crosses an uplink has come up into the switch below it,
//! and all that crosses a downlink goes on down from the switch below it. A link between switches
//! that is as fast as all of these together is full only when they are: whatever rates fit through
//! them fit through it. Such a link is left out of what allocators and policies look at. The set of
//! rates that are possible stays what it was, and on a tree that is not oversubscribed nothing but
//! the ports is left: it is one switch.
//!
//! # Invariant
//! A link is left out for links nearer to the ports only, so those that are left out may rest on
//! each other, and all of them rest on links that are kept.
//!
//! # Cost
//! O(links · log switches) once for a run.

use std::collections::BTreeMap;

use super::{Fabric, Node, Path};
use crate::{LinkId, PortId};

/// The links of a fabric that can be short: those of the ports, and those between switches that are
/// slower than all that lies below them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Contended {
    of_link: Vec<bool>,
    at_ports_only: bool,
}

impl Contended {
    /// Finds the links of `fabric` that can be short.
    pub fn of(fabric: &Fabric) -> Self {
        // What comes up into a switch, and what goes down from it.
        let (mut up, mut down) = (BTreeMap::<Node, u128>::new(), BTreeMap::<Node, u128>::new());
        let ends = |link| {
            let [from, to] = fabric.ends(link);
            (from, to, from.height() < to.height())
        };
        for link in fabric.links() {
            let capacity = u128::from(fabric.capacity(link).get());
            match ends(link) {
                (_, to, true) => *up.entry(to).or_default() += capacity,
                (from, _, false) => *down.entry(from).or_default() += capacity,
            }
        }
        let can_be_short = |link: LinkId| {
            let below = match ends(link) {
                (Node::Host(_), ..) | (_, Node::Host(_), _) => return true,
                (from, _, true) => up.get(&from),
                (_, to, false) => down.get(&to),
            };
            below.is_some_and(|&below| below > u128::from(fabric.capacity(link).get()))
        };
        let of_link: Vec<bool> = fabric.links().map(can_be_short).collect();
        let ports = 2 * fabric.ports() as usize;
        // The links above a switch that is alone carry nothing.
        let at_ports_only = fabric.is_one_switch() || !of_link[ports..].contains(&true);
        Self { of_link, at_ports_only }
    }

    /// All links of `fabric`, for what looks at each on its own.
    pub fn all(fabric: &Fabric) -> Self {
        Self { of_link: vec![true; fabric.link_count()], at_ports_only: fabric.is_one_switch() }
    }

    /// Returns whether only the ports' own links can be short.
    pub fn at_ports_only(&self) -> bool {
        self.at_ports_only
    }

    /// Returns whether no link was left out.
    pub fn is_all(&self) -> bool {
        !self.of_link.contains(&false)
    }

    /// Returns whether `link` can be short.
    pub fn contains(&self, link: LinkId) -> bool {
        self.of_link[link.index()]
    }

    /// The links from `src` to `dst` that can be short.
    ///
    /// # Panics
    /// If failed links between switches that can be short leave no path ([`Fabric::check`]).
    #[inline]
    pub fn path(&self, fabric: &Fabric, src: PortId, dst: PortId) -> Path {
        if self.at_ports_only {
            return Path::new(&[fabric.ingress(src), fabric.egress(dst)]);
        }
        fabric.path(src, dst).only(|link| self.contains(link))
    }
}
