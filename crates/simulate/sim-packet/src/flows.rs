//! Both ends of every flow that is under way, in places that are used again.
//!
//! A place is free once the sender knows that everything has arrived and no packet of the flow is
//! left in the network: then no packet can find another flow where its own was. Routes lie apart,
//! since every hop reads one and nothing else here.

use cavalcade_model::{Bytes, Instant, Priority};
use cavalcade_transport::Transport;

use crate::network::Route;
use crate::pace::Pace;
use crate::wheel::Picos;

/// No time.
pub(crate) const NEVER: Picos = u64::MAX;

/// A flow that is under way.
pub(crate) struct Flow<T: Transport> {
    pub(crate) sender: T::Sender,
    pub(crate) receiver: T::Receiver,
    /// Its number in the workload.
    pub(crate) id: u32,
    pub(crate) src: u32,
    pub(crate) dst: u32,
    /// Its bytes.
    pub(crate) size: Bytes,
    /// Packets of it that are in the network or wait at a host.
    pub(crate) in_network: u32,
    pub(crate) priority: Priority,
    pub(crate) pace: Pace,
    /// Time at which its timer is pending, or [`NEVER`].
    pub(crate) armed: Picos,
    /// True if it stands in its host's list.
    pub(crate) listed: bool,
    /// True if everything has arrived.
    pub(crate) complete: bool,
    /// True if the place is taken.
    pub(crate) used: bool,
}

/// The flows under way.
pub(crate) struct Flows<T: Transport> {
    list: Vec<Flow<T>>,
    routes: Vec<Route>,
    free: Vec<u32>,
}

impl<T: Transport> Flows<T> {
    pub(crate) fn new() -> Self {
        Self { list: Vec::new(), routes: Vec::new(), free: Vec::new() }
    }

    /// The place that the next flow will have.
    pub(crate) fn next_place(&self) -> u32 {
        self.free.last().copied().unwrap_or(self.list.len() as u32)
    }

    /// Puts a flow into its place.
    pub(crate) fn add(&mut self, flow: Flow<T>, route: Route) -> u32 {
        match self.free.pop() {
            Some(place) => {
                self.list[place as usize] = flow;
                self.routes[place as usize] = route;
                place
            }
            None => {
                self.list.push(flow);
                self.routes.push(route);
                self.list.len() as u32 - 1
            }
        }
    }

    /// Frees a place.
    pub(crate) fn remove(&mut self, place: u32) {
        self.list[place as usize].used = false;
        self.free.push(place);
    }

    #[inline]
    pub(crate) fn route(&self, place: u32) -> &Route {
        &self.routes[place as usize]
    }

    /// Checks whether any flow is not to send at all.
    pub(crate) fn has_stopped(&self) -> bool {
        self.list.iter().any(|flow| flow.used && !flow.complete && flow.pace.is_stopped())
    }

    /// Returns the number of places.
    pub(crate) fn len(&self) -> usize {
        self.list.len()
    }
}

impl<T: Transport> std::ops::Index<u32> for Flows<T> {
    type Output = Flow<T>;
    #[inline]
    fn index(&self, place: u32) -> &Flow<T> {
        &self.list[place as usize]
    }
}

impl<T: Transport> std::ops::IndexMut<u32> for Flows<T> {
    #[inline]
    fn index_mut(&mut self, place: u32) -> &mut Flow<T> {
        &mut self.list[place as usize]
    }
}

/// The whole nanosecond that has come: what transports are told.
#[inline]
pub(crate) fn clock(now: Picos) -> Instant {
    Instant(now / 1_000)
}

/// The whole nanosecond in which something ended.
pub(crate) fn finished(now: Picos) -> Instant {
    Instant(now.div_ceil(1_000))
}

/// A time of a transport or workload as the engine's.
#[inline]
pub(crate) fn picos(when: Instant) -> Picos {
    when.get().saturating_mul(1_000)
}
