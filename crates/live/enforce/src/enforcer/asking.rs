//! Processes that ask: who is let in, and how many at once.

use cavalcade_model::Instant;

use super::{ASKERS, ASKERS_OF_USER, Enforcer, TICK};
use crate::door::{Asked, Asker};

impl Enforcer {
    /// Lets in who is at the door, and reads what those say who were let in.
    pub(super) fn accept_askers(&mut self, now: Instant, at_door: bool) {
        // Those who come beyond wait for the next turn.
        for _ in 0..if at_door { ASKERS } else { 0 } {
            let asker = match self.door.accept() {
                Ok(Some(asker)) => asker,
                Ok(None) => break,
                Err(error) => {
                    // To look again at once would find the same, and again.
                    self.closed_until = now + TICK;
                    self.troubles.note("nobody can be let in who asks", error);
                    break;
                }
            };
            let owner = self.subordinates.owner_of(asker.user);
            let is_its = |other: &&Asker| self.subordinates.owner_of(other.user) == owner;
            if self.askers.iter().filter(is_its).count() < ASKERS_OF_USER {
                self.make_room_at_door();
                self.askers.push(asker);
            } else {
                asker.answer(Err(format!(
                    "{ASKERS_OF_USER} processes of this user are asking already; try again in a second"
                )));
            }
        }
        for mut asker in std::mem::take(&mut self.askers) {
            match asker.read() {
                Ok(None) => self.askers.push(asker),
                Ok(Some(Ok(Asked::Process(request)))) => self.take_in(now, asker, request),
                Ok(Some(Ok(Asked::Library))) => self.take_library(now, asker),
                Ok(Some(Err(reason))) => asker.answer(Err(reason)),
                Err(_) => {}
            }
        }
    }

    /// Where as many ask as may, the one is let go that has said nothing for longest.
    fn make_room_at_door(&mut self) {
        let eldest = (0..self.askers.len()).min_by_key(|&at| self.askers[at].came_at);
        if let Some(at) = eldest.filter(|_| self.askers.len() >= ASKERS) {
            self.troubles
                .note("a process that asks was let go", "as many as may were asking, and others came");
            self.askers.swap_remove(at).answer(Err("too many processes are asking; try again".to_owned()));
        }
    }
}
