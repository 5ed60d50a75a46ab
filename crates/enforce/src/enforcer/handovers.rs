//! Client libraries that hand connections over: their flows are carried as those of tagged processes are.
//!
//! A library keeps its connection, so it knows when the enforcer is gone and carries orders out itself from then on. What it hands
//! over stays tagged when the library goes away: the kernel notices when a connection ends.

use std::collections::BTreeMap;

use cavalcade_model::{Instant, TaskClass};
use cavalcade_protocol::{CoflowKey, Handover};

use super::Enforcer;
use crate::door::{Amount, Asker, Name, Request};
use crate::inherited;

/// The most libraries at once, and of one user.
const LIBRARIES: usize = 1_024;
const LIBRARIES_OF_USER: usize = 128;
/// The most lines of a user's libraries that are read between two ticks, and of all users': the enforcer goes before all ordinary
/// threads. What is beyond waits, and a library that is not read carries orders out itself.
const AT_ONCE: u32 = 500;
const AT_ONCE_OF_ALL: u32 = 2_000;

/// Libraries that stay, and how much they have asked for.
#[derive(Debug, Default)]
pub(super) struct Handovers {
    pub(super) libraries: Vec<Asker>,
    /// By user, the lines since the last tick.
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

    /// The libraries that are read at present, with their places.
    pub(super) fn heard(&self) -> impl Iterator<Item = (usize, &Asker)> {
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
        if self.hear_library(now, &mut library) {
            self.handovers.libraries.push(library);
        }
    }

    /// Reads what the libraries at these places say. One that breaks off or sends anything else is let go.
    pub(super) fn hear_libraries(&mut self, now: Instant, speaking: &[usize]) {
        // From the last one, so that the places before it stay.
        for &at in speaking.iter().rev() {
            let mut library = self.handovers.libraries.swap_remove(at);
            if self.hear_library(now, &mut library) {
                self.handovers.libraries.push(library);
            }
        }
    }

    /// Returns whether it stays.
    fn hear_library(&mut self, now: Instant, library: &mut Asker) -> bool {
        while !self.handovers.is_sated(library.user) {
            let handover = match library.read::<Handover>() {
                Ok(Some(Ok(handover))) => handover,
                Ok(None) => return true,
                _ => return false,
            };
            *self.handovers.taken.entry(library.user).or_default() += 1;
            let taken = self.take_handover(now, library, &handover);
            if library.say(taken).is_err() {
                return false;
            }
        }
        true
    }

    /// A tick: all libraries are read again, also lines that have been read in part.
    pub(super) fn hear_all_libraries(&mut self, now: Instant) {
        if !std::mem::take(&mut self.handovers.taken).is_empty() {
            let all: Vec<usize> = (0..self.handovers.libraries.len()).collect();
            self.hear_libraries(now, &all);
        }
    }

    /// Tags a connection of the library's process.
    fn take_handover(
        &mut self,
        now: Instant,
        library: &Asker,
        handover: &Handover,
    ) -> Result<CoflowKey, String> {
        let &Handover { descriptor, cookie, coflow, sends } = handover;
        let socket = inherited::connection_of(library.process, descriptor, cookie)
            .ok_or_else(|| format!("descriptor {descriptor} is not, or no longer, that connection"))?;
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
