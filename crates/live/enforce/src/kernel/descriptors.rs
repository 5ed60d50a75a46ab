//! Sockets that are reached by the descriptors of their processes: one at a time, in no time, and
//! without a walk over all connections.

use std::net::IpAddr;
use std::path::Path;

use super::Kernel;
use crate::groups::Group;
use crate::inherited::{self, Inherited};
use crate::shared::{self, SocketWords};
use crate::{Error, Flow};

/// The kernel's flag by which a socket's storage is only made where there is none.
const ONLY_IF_NONE: u64 = 1;

impl Kernel {
    /// Moves a process, with the sockets that it has already, into the group of a coflow.
    ///
    /// # Errors
    /// If it is gone, or there is no right to.
    pub fn admit(&mut self, process: u32, group: &Group, coflow: u32) -> Result<(), Error> {
        group.admit(process)?;
        self.take_over(process, coflow)
    }

    /// Tags the sockets that a process has, and what waits to be accepted at them.
    ///
    /// # Errors
    /// If the kernel refuses.
    pub fn take_over(&mut self, process: u32, coflow: u32) -> Result<(), Error> {
        self.walkers.follow(process);
        if self.tag_sockets(process, coflow) {
            return Ok(());
        }
        self.refresh()?;
        // What was accepted meanwhile was neither among its descriptors then, nor does it wait now.
        self.tag_sockets(process, coflow);
        Ok(())
    }

    /// Tags the sockets that a process has. Returns whether all go by their flows' orders now.
    fn tag_sockets(&mut self, process: u32, coflow: u32) -> bool {
        let mut are_touched = true;
        for socket in inherited::sockets_of(process) {
            // A socket that has a coflow keeps it.
            let tagged = tagged(coflow, &socket);
            let _ = self.tables.sockets.insert(&socket.descriptor, tagged, ONLY_IF_NONE);
            are_touched &= self.touch(&socket);
        }
        are_touched
    }

    /// Gives the sockets of a process that have a coflow to another one, or to none. A connection
    /// under way is counted for it from now on.
    pub(crate) fn retag(&mut self, process: u32, coflow: u32, instead: Option<u32>) {
        for socket in inherited::sockets_of(process) {
            let carried = self.storage(&socket).filter(|storage| storage.coflow == u64::from(coflow));
            let Some(carried) = carried else { continue };
            // The programs give it back what was its own, and count it no more, as if a library had
            // handed it over.
            let handed = shared::Socket { is_handed: 1, ..carried };
            let _ = self.tables.sockets.insert(&socket.descriptor, handed.to_words(), 0);
            socket.release();
            let _ = self.tables.sockets.remove(&socket.descriptor);
            if let Some(instead) = instead {
                let _ =
                    self.tables.sockets.insert(&socket.descriptor, tagged(instead, &socket), ONLY_IF_NONE);
                self.touch(&socket);
            }
        }
    }

    /// Tags one connection of a process with a coflow that is known. Its options are set at once,
    /// and again when they are lifted.
    ///
    /// # Errors
    /// If it belongs to a coflow already, or the kernel cannot follow a connection that is there
    /// already.
    pub(crate) fn take_connection(
        &mut self,
        process: u32,
        socket: &Inherited,
        coflow: u32,
    ) -> Result<(), Error> {
        let handed = shared::Socket { is_handed: 1, ..shared::Socket::from_words(tagged(coflow, socket)) };
        let inserted = self.tables.sockets.insert(&socket.descriptor, handed.to_words(), ONLY_IF_NONE);
        inserted.map_err(|_| Error::HasCoflow)?;
        self.touch(socket);
        // Its order may be one that has been lifted; what counts is that it is followed.
        if self.storage(socket).is_some_and(|storage| storage.is_counted != 0) {
            self.walkers.follow(process);
            return Ok(());
        }
        let _ = self.tables.sockets.remove(&socket.descriptor);
        Err(Error::NotFollowed)
    }

    /// Has connections of a process take on the rate and class of their flow's order, and send at
    /// once what waited at a gate that has opened. A refresh reaches them as well, and others with
    /// them, but only after a walk of milliseconds. Returns the number of the socket and the peer
    /// of each that needs no walk any more: one that the process has closed with bytes left to send
    /// is not among them.
    pub fn push(&self, process: u32) -> Vec<(u64, IpAddr)> {
        let touched = inherited::sockets_of(process).filter(|socket| self.touch(socket));
        touched.filter_map(|socket| Some((socket.number()?, socket.peer?))).collect()
    }

    /// Sets the TOS of a process's connections over IPv4 whose sockets are made for both families,
    /// as their orders say or as it was before: no program may. It is due when
    /// [`crate::Count::marks`] has changed.
    pub fn mark(&mut self, process: u32) {
        for socket in inherited::sockets_of(process).filter(|socket| socket.is_mapped) {
            let Some(storage) = self.storage(&socket) else { continue };
            if let Some(tos) = storage.mark.checked_sub(1) {
                socket.mark(tos as u8, storage.mark_priority as u32);
                self.marked.insert(process);
            }
        }
    }

    /// The same for all processes that it was ever done for and that are still there.
    pub(super) fn mark_again(&mut self) {
        self.marked.retain(|process| Path::new(&format!("/proc/{process}")).exists());
        self.marked.clone().into_iter().for_each(|process| self.mark(process));
    }

    /// Has the programs bring a connection up to date, and the connection send. Returns whether it
    /// goes by its flow's order now: not where it only listens, or on a kernel that takes a walk
    /// for that.
    fn touch(&self, socket: &Inherited) -> bool {
        socket.push();
        let (Some(peer), Some(storage)) = (socket.peer, self.storage(socket)) else { return false };
        let coflow = storage.coflow as u32;
        let order = |flow: Flow| self.tables.orders.get(&flow.to_kernel(), 0).ok();
        let order = order(Flow { coflow, peer }).or_else(|| order(Flow::of_all_peers(coflow)));
        let generation = order.map_or(0, |words| shared::Order::from_words(words).generation);
        storage.is_counted != 0 && storage.applied == u64::from(generation)
    }

    /// What a tagged socket carries with it.
    fn storage(&self, socket: &Inherited) -> Option<shared::Socket> {
        self.tables.sockets.get(&socket.descriptor, 0).ok().map(shared::Socket::from_words)
    }
}

/// The storage of a socket that was made before it was tagged.
fn tagged(coflow: u32, socket: &Inherited) -> SocketWords {
    let flow = socket.peer.map_or(Flow::of_all_peers(coflow), |peer| Flow { coflow, peer });
    let flow = shared::Flow::from_words(flow.to_kernel());
    let joined = |first: u32, second: u32| u64::from(first) | u64::from(second) << 32;
    let (peer_high, peer_low) = (joined(flow.peer_0, flow.peer_1), joined(flow.peer_2, flow.peer_3));
    let coflow = u64::from(coflow);
    let has_queue = u64::from(socket.peer.is_none());
    shared::Socket { coflow, peer_high, peer_low, has_queue, ..Default::default() }.to_words()
}
