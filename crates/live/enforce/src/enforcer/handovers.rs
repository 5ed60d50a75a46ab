//! Client libraries that hand connections over: their flows are carried as those of tagged
//! processes are.
//!
//! A library keeps its connection, so it knows when the enforcer is gone and carries orders out
//! itself from then on. What it hands over stays tagged when the library goes away: the kernel
//! notices when a connection ends. Where a flow ends before its connection, the library sets an
//! option of it ([`Handover::RELEASE`]), by which the programs let it go.

use std::collections::BTreeMap;

use cavalcade_model::{Instant, TaskClass};
use cavalcade_protocol::{CoflowKey, Connection, Handover};

use super::Enforcer;
use crate::door::{Amount, Asker, Name, Request};
use crate::inherited::{self, Inherited, Search};

/// The most libraries at once, and of one user.
const LIBRARIES: usize = 1_024;
const LIBRARIES_OF_USER: usize = 128;
/// The most lines of a user's libraries that are read between two ticks, and of all users': the
/// enforcer goes before all ordinary threads. What is beyond waits, and a library that is not read
/// carries orders out itself.
const AT_ONCE: u32 = 500;
const AT_ONCE_OF_ALL: u32 = 2_000;
/// The most descriptors of a process that are looked at for a connection that its library names by
/// its ends: some 23 ms where all are sockets, and 11 where none is.
const LOOKED_AT: usize = 4_096;
/// So many of them take as long as a line, and count as one.
const LOOKED_AT_AS_LINE: usize = 4;

/// Libraries that stay, and how much they have asked for.
#[derive(Debug, Default)]
pub(super) struct Handovers {
    pub(super) libraries: Vec<Asker>,
    /// By user, the lines since the last tick, with those that were too many before.
    pub(super) taken: BTreeMap<u32, u32>,
}

impl Handovers {
    fn has_room(&self, user: u32) -> bool {
        let of_user = self.libraries.iter().filter(|library| library.user == user).count();
        self.libraries.len() < LIBRARIES && of_user < LIBRARIES_OF_USER
    }

    /// Tells whether this user's libraries have said as much as is read before the next tick.
    fn is_sated(&self, user: u32) -> bool {
        self.taken.get(&user).is_some_and(|&lines| lines >= AT_ONCE)
            || self.taken.values().sum::<u32>() >= AT_ONCE_OF_ALL
    }

    /// Lets users say more. Returns whether any has said something.
    fn tick(&mut self) -> bool {
        let has_heard = !self.taken.is_empty();
        self.taken.retain(|_, lines| {
            *lines = lines.saturating_sub(AT_ONCE);
            *lines > 0
        });
        has_heard
    }

    /// A user's library has said so many lines, or what takes as long.
    fn count(&mut self, user: u32, lines: u32) {
        *self.taken.entry(user).or_default() += lines;
    }

    /// The libraries that are read at present, with their places.
    pub(super) fn connections(&self) -> impl Iterator<Item = (usize, &Asker)> {
        self.libraries.iter().enumerate().filter(|(_, library)| !self.is_sated(library.user))
    }
}

impl Enforcer {
    /// A library stays, unless there are too many.
    pub(super) fn take_library(&mut self, now: Instant, mut library: Asker) {
        if !self.handovers.has_room(library.user) {
            let reason = format!("a user may have {LIBRARIES_OF_USER} sessions, and all users {LIBRARIES}");
            return library.answer(Err(reason));
        }
        // It may have said more with its first line.
        if self.poll_library(now, &mut library) {
            self.handovers.libraries.push(library);
        }
    }

    /// Reads what the libraries at these places say. One that breaks off or sends anything else is
    /// let go.
    pub(super) fn poll_libraries(&mut self, now: Instant, speaking: &[usize]) {
        // From the last one, so that the places before it stay.
        for &at in speaking.iter().rev() {
            let mut library = self.handovers.libraries.swap_remove(at);
            if self.poll_library(now, &mut library) {
                self.handovers.libraries.push(library);
            }
        }
    }

    /// Returns whether it stays. What it says at once takes one search.
    fn poll_library(&mut self, now: Instant, library: &mut Asker) -> bool {
        let mut search = Search::new(library.process, LOOKED_AT);
        while !self.handovers.is_sated(library.user) {
            let handover = match library.read::<Handover>() {
                Ok(Some(Ok(handover))) => handover,
                Ok(None) => return true,
                _ => return false,
            };
            self.handovers.count(library.user, 1);
            let taken = self.take_handover(now, library, &handover, &mut search);
            if library.reply(taken).is_err() {
                return false;
            }
        }
        true
    }

    /// A tick: all libraries are read again, also lines that have been read in part.
    pub(super) fn poll_all_libraries(&mut self, now: Instant) {
        if self.handovers.tick() {
            let all: Vec<usize> = (0..self.handovers.libraries.len()).collect();
            self.poll_libraries(now, &all);
        }
    }

    /// Finds what a library's process calls a connection. Descriptors that are looked at for it
    /// count as lines.
    fn find(
        &mut self,
        library: &Asker,
        connection: Connection,
        search: &mut Search,
    ) -> Result<Inherited, String> {
        match connection {
            Connection::Descriptor { number, cookie } => {
                let found = inherited::connection_of(library.process, number, cookie);
                found.ok_or_else(|| format!("descriptor {number} is not, or no longer, that connection"))
            }
            Connection::Ends(ends) => {
                let (found, looked_at) = search.find(ends);
                self.handovers.count(library.user, looked_at.div_ceil(LOOKED_AT_AS_LINE) as u32);
                found.ok_or_else(|| {
                    format!(
                        "{connection} is not, or no longer, among the process's first {LOOKED_AT} descriptors"
                    )
                })
            }
        }
    }

    /// Tags a connection of the library's process.
    fn take_handover(
        &mut self,
        now: Instant,
        library: &Asker,
        handover: &Handover,
        search: &mut Search,
    ) -> Result<CoflowKey, String> {
        let &Handover { connection, coflow, sends } = handover;
        let socket = self.find(library, connection, search)?;
        // Asked afterwards: before, the number could be given to another process in between.
        if !library.owns_process() {
            return Err("the asking process is gone, or another user's".to_owned());
        }
        let peer = socket.peer.expect("a connection has a peer");
        let sends = sends.map(|bytes| Amount { peer, bytes });
        let request = Request {
            name: Name::Coflow(coflow),
            class: TaskClass::Online,
            deadline: None,
            sends: Vec::new(),
        };
        let number = self.number_for(now, library.user, request)?;
        let tagged = self.coflows.get_mut(&number).ok_or("the coflow has just ended")?;
        if sends.is_some() && tagged.is_sized(peer) {
            return Err(format!("the coflow's flow to {peer} has begun with another size"));
        }
        self.kernel.take_connection(library.process, &socket, number).map_err(|error| error.to_string())?;
        // Looks are apart: it is not to end before the next one.
        tagged.has_sockets = true;
        tagged.libraries.insert(library.process);
        self.take_sizes(number, sends.as_slice());
        Ok(coflow)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn libraries_and_programs_mean_the_same_release() {
        assert_eq!(Handover::RELEASE, crate::shared::RELEASE as i32);
    }

    #[test]
    fn who_has_had_descriptors_looked_at_for_several_ticks_is_not_heard_in_these() {
        let mut handovers = Handovers::default();
        handovers.count(1, 2 * AT_ONCE + 1);
        handovers.count(2, AT_ONCE - 1);
        let mut heard = Vec::new();
        for _ in 0..4 {
            heard.push([1, 2].map(|user| !handovers.is_sated(user)));
            handovers.tick();
        }
        assert_eq!(heard, [[false, true], [false, true], [true, true], [true, true]]);
        assert!(!handovers.tick());
    }
}
