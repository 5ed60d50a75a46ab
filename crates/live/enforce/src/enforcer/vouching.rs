//! Connections between hosts: what this one tells others of its own, and takes from them.

use cavalcade_model::{Instant, TaskClass};

use super::{Enforcer, Tagged};
use crate::door::{Name, Request};
use crate::vouch::Report;

/// The most connections that may wait for their coflow's key; those beyond are not vouched for.
const UNSAID: usize = 4096;
/// The most coflows that another host may have here by vouching for connections.
const VOUCHED_OF_HOST: usize = 1_024;

impl Enforcer {
    /// Tells other hosts of connections to them, and gives connections from them to the coflows
    /// that they say.
    pub(super) fn vouch(&mut self, now: Instant) {
        if self.peers.is_none() {
            return;
        }
        let made = self.kernel.made();
        made.iter().for_each(|made| self.open_standing(now, made.coflow));
        let Some(peers) = &mut self.peers else { return };
        for made in std::mem::take(&mut self.unsaid).into_iter().chain(made) {
            match self.coflows.get(&made.coflow) {
                Some(Tagged { key: Some(key), user, .. }) => peers.report(now, made, *key, *user),
                Some(_) if self.unsaid.len() < UNSAID => self.unsaid.push(made),
                _ => {}
            }
        }
        let (reports, disbelieved) = peers.receive(now);
        for reason in disbelieved {
            self.troubles.note("a report of a connection was not believed", reason);
        }
        for (from, Report { key, user, pair, .. }) in reports {
            let request = Request {
                name: Name::Coflow(key),
                class: TaskClass::Online,
                deadline: None,
                sends: Vec::new(),
            };
            // A user with too many coflows here has connections that are plain TCP, and so has a
            // host that vouches for too many.
            let is_new = self.coflows.find(user, &request.name).is_none();
            let of_host = self.coflows.of_host(from);
            if is_new && of_host >= VOUCHED_OF_HOST {
                let from = from.0;
                let reason =
                    format!("host {from} vouches for {of_host} coflows here, the most that a host may");
                self.troubles.note("a coflow that another host vouches for was left out", reason);
                continue;
            }
            let number = self.number_for(now, user, request);
            let Some(number) =
                self.troubles.settle("a coflow that another host vouches for was left out", number)
            else {
                continue;
            };
            if is_new {
                self.coflows.set_vouched(number, from);
            }
            let claimed = self.kernel.claim(pair, number, key.serial);
            let claimed = self.troubles.settle("a connection from outside was left out", claimed);
            self.is_walk_due |= claimed == Some(false);
        }
    }
}
