//! The commands of a former enforcer, and what the next one is to know of those that run now.

use cavalcade_model::{Instant, Nanos};
use cavalcade_protocol::CoflowKey;

use super::queue::Queue;
use super::{Enforcer, Subject, Tagged, at};
use crate::Error;
use crate::door::{Name, Request, is_of};
use crate::groups::Group;
use crate::kept::{self, Kept, KeptCoflow};
use crate::kernel::monotonic;

/// After each step it rests so many times as long as that took: what waits here is not scheduled.
const SPARING: u64 = 4;
/// What may fail because of what users do.
const UNTAGGED: &str = "a command of before is not tagged";

/// A coflow of before, as far as it is yet to be taken up.
#[derive(Debug)]
pub(super) struct Waiting {
    coflow: KeptCoflow,
    /// Processes of a group that has been tagged.
    members: Vec<u32>,
    /// What the next enforcer is to know if this one ends first.
    line: String,
}

impl Waiting {
    fn is(&self, user: u32, name: &Name) -> bool {
        self.coflow.user == user && self.coflow.request.name == *name
    }

    /// Its request with the time that is left, and its key.
    fn request(&self) -> (Request, Option<CoflowKey>) {
        let left = self.coflow.deadline.map(|until| Nanos(until.0.saturating_sub(monotonic().0)));
        (Request { deadline: left, ..self.coflow.request.clone() }, self.coflow.key)
    }

    fn runs(&self) -> bool {
        let user = self.coflow.user;
        self.coflow.processes.iter().any(|process| process.runs_as(user))
            || self.coflow.groups.iter().any(|group| group.find(user).is_some())
    }
}

impl Enforcer {
    /// Begins to tag again what a former enforcer had tagged for commands that still run: that goes
    /// on while it serves. What cannot be is logged, and plain TCP.
    pub fn take_up(&mut self, kept: Kept) {
        for coflow in kept.0 {
            if coflow.processes.is_empty() && coflow.groups.is_empty() {
                continue;
            }
            let owner = self.subordinates.owner_of(coflow.user);
            let line = coflow.line();
            self.taking_up.push(owner, Waiting { coflow, members: Vec::new(), line });
        }
        self.keep(false);
    }

    /// Takes some up, if it is time.
    pub(super) fn take_up_some(&mut self) {
        let (started, offset) = (self.started, self.offset);
        let mut queue: Queue<Waiting> = std::mem::take(&mut self.taking_up);
        queue.step(|| at(started, offset), SPARING, |waiting| self.take_up_next(waiting));
        self.taking_up = queue;
    }

    /// The number of a user's coflow of this name that waits to be taken up: it is opened as it
    /// was.
    pub(super) fn number_of_waiting(
        &mut self,
        now: Instant,
        user: u32,
        name: &Name,
    ) -> Option<Result<u32, String>> {
        let waiting = self.taking_up.iter().map(|(_, waiting)| waiting);
        let found = waiting.filter(|waiting| waiting.is(user, name)).find(|waiting| waiting.runs())?;
        let (request, key) = found.request();
        Some(self.open(now, user, request, key))
    }

    /// Takes up the next process or group. Returns whether that was all.
    fn take_up_next(&mut self, waiting: &mut Waiting) -> bool {
        let user = waiting.coflow.user;
        let failed = |error: Error| error.to_string();
        let tagged = if let Some(member) = waiting.members.pop() {
            let number = self.coflows.find(user, &waiting.coflow.request.name);
            match number.filter(|_| is_of(member, user)) {
                Some(number) => self.kernel.take_over(member, number).map_err(failed),
                None => Ok(()),
            }
        } else if let Some(group) = waiting.coflow.groups.pop() {
            let group = group.find(user).filter(Group::is_populated);
            group.map_or(Ok(()), |group| self.take_up_group(waiting, group))
        } else if let Some(process) = waiting.coflow.processes.pop() {
            // One that has asked again meanwhile is where it asked to be.
            match process.runs_as(user) && !self.is_in_group_of_command(process.number) {
                true => self
                    .number_again(waiting)
                    .and_then(|number| self.admit(process.number, user, number).map_err(failed)),
                false => Ok(()),
            }
        } else {
            return true;
        };
        self.troubles.settle(UNTAGGED, tagged);
        false
    }

    fn take_up_group(&mut self, waiting: &mut Waiting, group: Group) -> Result<(), String> {
        let mut groups = self.coflows.values().flat_map(|tagged| &tagged.groups);
        if groups.any(|known| known.id() == group.id()) {
            return Ok(());
        }
        let number = self.number_again(waiting)?;
        self.kernel.tag_group(&group, number).map_err(|error| error.to_string())?;
        waiting.members = group.all_members();
        if let Some(tagged) = self.coflows.get_mut(&number) {
            tagged.groups.push(group);
        }
        Ok(())
    }

    /// The number of a coflow of before, which is opened where it is not yet.
    fn number_again(&mut self, waiting: &Waiting) -> Result<u32, String> {
        let (user, (request, key)) = (waiting.coflow.user, waiting.request());
        let found = self.coflows.find(user, &request.name);
        found.map_or_else(|| self.open(self.now(), user, request, key), Ok)
    }

    /// Returns whether a process is in a group that this enforcer has made.
    fn is_in_group_of_command(&self, process: u32) -> bool {
        let mut own = self.coflows.values().flat_map(|tagged| &tagged.groups).filter(|group| group.is_own());
        let path = self.kernel.group_of(process);
        path.is_some_and(|path| own.any(|group| group.path() == path))
    }

    /// Writes down what the next enforcer is to know; at the end with the processes.
    pub(super) fn keep(&mut self, is_end: bool) {
        let commands = self.coflows.iter().filter(|(number, tagged)| self.is_of_commands(**number, tagged));
        let line = |(_, tagged): (&u32, &Tagged)| (tagged.owner, self.kept_coflow(tagged, is_end).line());
        let waiting = self.taking_up.iter().map(|(owner, waiting)| (owner, waiting.line.clone()));
        let lines: Vec<(u32, String)> = commands.map(line).chain(waiting).collect();
        let (text, left_out) = kept::fit(&lines, kept::LONGEST);
        if self.kept.as_ref() == Some(&text) {
            return;
        }
        if left_out > 0 {
            let reason = format!("{left_out} coflows are left out: their users have too many processes");
            self.troubles.note("what the next enforcer is to know has no room", reason);
        }
        let written = kept::write(&kept::place(&self.conditions.door), &text);
        let what = "what the next enforcer is to know cannot be written";
        if self.troubles.settle(what, written).is_some() {
            self.kept = Some(text);
        }
    }

    /// What the next enforcer is to know of a coflow.
    fn kept_coflow(&self, tagged: &Tagged, is_end: bool) -> KeptCoflow {
        let (name, class) = (tagged.name.clone(), tagged.class);
        let mut coflow = KeptCoflow {
            user: tagged.user,
            request: Request { name, class, deadline: None, sends: Vec::new() },
            key: tagged.key,
            deadline: tagged.deadline,
            groups: Vec::new(),
            own: Vec::new(),
            processes: Vec::new(),
        };
        coflow.hold(tagged.groups.iter().filter(|group| !self.is_of_rule(group)), is_end);
        coflow
    }

    /// Returns whether commands have asked for a coflow: what rules name comes back by itself.
    fn is_of_commands(&self, number: u32, tagged: &Tagged) -> bool {
        !self.standing.contains_key(&number)
            && tagged.vouched_by.is_none()
            && tagged.groups.iter().any(|group| !self.is_of_rule(group))
    }

    fn is_of_rule(&self, group: &Group) -> bool {
        let names = |subject: &Subject| matches!(subject, Subject::Group(path) if path == group.path());
        self.rules.iter().any(|rule| names(&rule.subject))
    }
}
