//! Opening coflows: under a share of their user, a number in the kernel, and a connection to the
//! agent.

use cavalcade_model::Instant;
use cavalcade_protocol::CoflowKey;

use super::{Enforcer, Rule, Tagged};
use crate::Flow;
use crate::door::Request;
use crate::link::Link;

impl Enforcer {
    /// The number of a user's coflow, which is opened where there is none of that name.
    pub(super) fn number_for(&mut self, now: Instant, user: u32, request: Request) -> Result<u32, String> {
        if let Some(number) = self.coflows.find(user, &request.name) {
            return Ok(number);
        }
        let waiting = self.number_of_waiting(now, user, &request.name);
        waiting.unwrap_or_else(|| self.open(now, user, request, None))
    }

    pub(super) fn open(
        &mut self,
        now: Instant,
        user: u32,
        request: Request,
        key: Option<CoflowKey>,
    ) -> Result<u32, String> {
        let number = self.next;
        self.open_as(now, number, (user, key), request)?;
        self.next = number.checked_add(1).ok_or("the enforcer has used up its numbers: start it again")?;
        Ok(number)
    }

    /// Opens a user's coflow under this number; with the key that it has, if it has one.
    pub(super) fn open_as(
        &mut self,
        now: Instant,
        number: u32,
        (user, key): (u32, Option<CoflowKey>),
        request: Request,
    ) -> Result<(), String> {
        let most = self.conditions.of_user;
        let owner = self.subordinates.owner_of(user);
        if self.coflows.of_owner(owner) >= most {
            return Err(format!(
                "a user may have {most} coflows at once: wait until some have ended, or start the enforcer with a larger \
                 --coflows-of-user"
            ));
        }
        self.kernel.assign(number, owner).map_err(|error| error.to_string())?;
        let link = Link::new(&self.conditions.agent, user, now.0.rotate_left(20) ^ u64::from(number));
        let tagged = Tagged::new(now, (user, owner), link, request, key);
        // A task's follows with its key.
        if let Some(key) = tagged.key {
            self.kernel.name(number, key.serial).map_err(|error| error.to_string())?;
        }
        if let Some(goal) = tagged.goal() {
            self.kernel.aim(Flow::of_all_peers(number), goal).map_err(|error| error.to_string())?;
        }
        self.coflows.insert(number, tagged);
        Ok(())
    }

    /// Opens the coflow that a number by user or port stands for, where there is none: it begins
    /// with its first connection.
    pub(super) fn open_standing(&mut self, now: Instant, number: u32) {
        if self.coflows.contains_key(&number) {
            return;
        }
        if let Some((user, Rule { request, .. })) = self.standing.get(&number).cloned() {
            // One user too many coflows: its connections are plain TCP until some have ended.
            let _ = self.open_as(now, number, (user, None), request);
        }
    }
}
