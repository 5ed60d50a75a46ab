//! Lanes: links that are split between classes, where each class has so much of a link and does not
//! wait for others.
//!
//! A lane is one class's part of one link, and for all the rest of the allocator it is a link: its
//! capacity is what the class is offered there, which may change at any time. Which lane a flow is
//! on follows from its key. Lanes are numbered class by class, as far as any class was ever there.
//! Where classes are strict there is one lane for all of them.
//!
//! Whoever hands out the lanes ([`super::super::weighted`]) asks what a class uses of each, so a
//! lane remembers that this may have changed (it is *stirred*), and none is ample, since of an
//! ample link nothing is kept.

use super::{PathFill, ample};
use crate::reference::NEGLIGIBLE;

/// How links are split.
#[derive(Debug)]
pub(super) struct Lanes {
    links: u32,
    /// Of each class the links whose lane was stirred; `None` where links are not split.
    stirred: Option<Vec<Vec<u32>>>,
    /// By lane.
    is_stirred: Vec<bool>,
}

impl Lanes {
    /// Links that are not split.
    pub(super) fn none(links: usize) -> Self {
        Self { links: links as u32, stirred: None, is_stirred: Vec::new() }
    }
}

impl PathFill {
    /// Creates an allocator that splits links of these capacities (bytes per nanosecond) between
    /// classes. A lane has nothing until it is [offered](Self::offer_lane) something.
    pub(crate) fn by_class(capacity: Vec<f64>) -> Self {
        let lanes = Lanes { stirred: Some(Vec::new()), ..Lanes::none(capacity.len()) };
        let negligible = capacity.iter().map(|of_link| NEGLIGIBLE * of_link).collect();
        let mut fill = Self { lanes, ample: ample::Links::new(&[]), ..Self::new(Vec::new()) };
        fill.cells.negligible = negligible;
        fill
    }

    /// The lane of a class on a link.
    pub(super) fn lane(&mut self, link: u32, class: u16) -> u32 {
        let Some(stirred) = &mut self.lanes.stirred else { return link };
        let links = self.lanes.links as usize;
        while stirred.len() <= usize::from(class) {
            stirred.push(Vec::new());
            let lanes = stirred.len() * links;
            self.lanes.is_stirred.resize(lanes, false);
            self.cells.capacity.resize(lanes, 0.0);
            self.cells.on_link.resize(lanes, Vec::new());
            let first = self.cells.negligible[..links].to_vec();
            self.cells.negligible.resize(lanes - links, 0.0);
            self.cells.negligible.extend(first);
        }
        u32::from(class) * self.lanes.links + link
    }

    /// The link of a lane.
    pub(super) fn link_of(&self, lane: u32) -> u32 {
        if self.lanes.stirred.is_none() { lane } else { lane % self.lanes.links }
    }

    /// The link that a flow crosses at a hop.
    pub(super) fn link_at(&self, flow: u32, hop: usize) -> u32 {
        self.link_of(self.cells.hot[self.routes[flow as usize].cells[hop] as usize].link)
    }

    /// Notes that what is used of the lane of a cell may have changed, or whether there are flows.
    pub(super) fn stir(&mut self, cell: u32) {
        let lane = self.cells.hot[cell as usize].link;
        if let Some(is_stirred) = self.lanes.is_stirred.get_mut(lane as usize)
            && !std::mem::replace(is_stirred, true)
            && let Some(stirred) = &mut self.lanes.stirred
        {
            stirred[(lane / self.lanes.links) as usize].push(lane % self.lanes.links);
        }
    }

    /// The number of classes that there ever were.
    pub(crate) fn classes(&self) -> u16 {
        self.lanes.stirred.as_ref().map_or(0, Vec::len) as u16
    }

    /// The links of a class whose lane was stirred.
    pub(crate) fn stirred(&self, class: u16) -> &[u32] {
        self.lanes.stirred.as_ref().map_or(&[], |stirred| &stirred[usize::from(class)])
    }

    /// Moves the links of a class whose lane was stirred to `links`.
    pub(crate) fn take_stirred(&mut self, class: u16, links: &mut Vec<u32>) {
        let Some(stirred) = &mut self.lanes.stirred else { return };
        for link in stirred[usize::from(class)].drain(..) {
            self.lanes.is_stirred[(u32::from(class) * self.lanes.links + link) as usize] = false;
            links.push(link);
        }
    }

    /// Returns whether any lane was stirred.
    pub(crate) fn is_stirred(&self) -> bool {
        self.lanes.stirred.iter().flatten().any(|links| !links.is_empty())
    }

    /// Returns whether a class has flows on a link.
    pub(crate) fn is_present(&self, class: u16, link: u32) -> bool {
        let lane = u32::from(class) * self.lanes.links + link;
        self.cells.on_link.get(lane as usize).is_some_and(|cells| !cells.is_empty())
    }

    /// What a class uses of a link, in bytes per nanosecond.
    pub(crate) fn used(&self, class: u16, link: u32) -> f64 {
        let lane = (u32::from(class) * self.lanes.links + link) as usize;
        match self.cells.on_link[lane].last() {
            Some(&(_, last)) => self.cells.capacity[lane] - self.cells.left_by(last),
            None => 0.0,
        }
    }

    /// Offers a class so much of a link, in bytes per nanosecond.
    pub(crate) fn offer_lane(&mut self, class: u16, link: u32, offer: f64) {
        let lane = (u32::from(class) * self.lanes.links + link) as usize;
        self.cells.capacity[lane] = if offer > self.cells.negligible[lane] { offer } else { 0.0 };
        if let Some(&(_, first)) = self.cells.on_link[lane].first() {
            self.offer(first);
        }
    }
}
