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
/// The most connections that a user's libraries hand over between two ticks: the enforcer goes before all ordinary threads.
const AT_ONCE: u32 = 500;
/// One that asks for so many times more is cut off.
const FLOOD: u32 = 4;

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

    /// Reads what the libraries at these places say. One that breaks off, sends anything else or does not take answers in is let go.
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
        loop {
            let handover = match library.read::<Handover>() {
                Ok(Some(Ok(handover))) => handover,
                Ok(None) => return true,
                _ => return false,
            };
            let lines = self.handovers.taken.entry(library.user).or_default();
            *lines += 1;
            let lines = *lines;
            if lines > FLOOD * AT_ONCE {
                return false;
            }
            let taken = match lines <= AT_ONCE {
                true => self.take_handover(now, library, &handover),
                false => Err("too many connections at once".to_owned()),
            };
            if library.say(taken).is_err() {
                return false;
            }
        }
    }

    /// Tags a connection of the library's process.
    fn take_handover(
        &mut self,
        now: Instant,
        library: &Asker,
        handover: &Handover,
    ) -> Result<CoflowKey, String> {
        let &Handover { descriptor, port, coflow, sends } = handover;
        if !library.owns_process() {
            return Err("the asking process is gone, or another user's".to_owned());
        }
        let socket = inherited::connection_of(library.process, descriptor, port)
            .ok_or_else(|| format!("descriptor {descriptor} is no connection from port {port}"))?;
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
        tagged.libraries.insert(library.process);
        self.kernel.name(number, coflow.serial).map_err(|error| error.to_string())?;
        self.take_sizes(number, sends.as_slice());
        Ok(coflow)
    }
}
