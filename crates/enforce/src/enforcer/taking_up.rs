//! The commands of a former enforcer, and what the next one is to know of those that run now.

use cavalcade_model::{Instant, Nanos};

use super::{Enforcer, Subject, Tagged};
use crate::Error;
use crate::door::{Request, is_of};
use crate::groups::Group;
use crate::kept::{self, Kept, KeptCoflow};
use crate::kernel::monotonic;

impl Enforcer {
    /// Tags again what a former enforcer had tagged for commands that still run. What cannot be is logged, and plain TCP.
    pub fn take_up(&mut self, kept: Kept) {
        let now = self.now();
        for coflow in kept.0 {
            let what = "a command of before is not tagged";
            let taken = self.take_up_coflow(now, coflow);
            self.troubles.settle(what, taken);
        }
        self.keep(false);
    }

    fn take_up_coflow(&mut self, now: Instant, coflow: KeptCoflow) -> Result<(), String> {
        let KeptCoflow { user, mut request, key, deadline, groups, processes } = coflow;
        let processes: Vec<u32> = processes.into_iter().filter(|&process| is_of(process, user)).collect();
        let groups: Vec<Group> = groups.into_iter().filter_map(|path| Group::found(path).ok()).collect();
        let groups: Vec<Group> = groups.into_iter().filter(Group::is_populated).collect();
        if processes.is_empty() && groups.is_empty() {
            return Ok(());
        }
        request.deadline = deadline.map(|until| Nanos(until.0.saturating_sub(monotonic().0)));
        let number = match self.coflows.find(user, &request.name) {
            Some(number) => number,
            None => self.open(now, user, request, key)?,
        };
        let failed = |error: Error| error.to_string();
        for group in groups {
            self.kernel.tag_group(&group, number).map_err(failed)?;
            for process in group.all_members() {
                self.kernel.take_over(process, number).map_err(failed)?;
            }
            if let Some(tagged) = self.coflows.get_mut(&number) {
                tagged.groups.push(group);
            }
        }
        // One that ends meanwhile keeps no others from it.
        for process in processes.into_iter().filter(|&process| is_of(process, user)) {
            let admitted = self.admit(process, user, number);
            self.troubles.settle("a process of before is not tagged", admitted);
        }
        Ok(())
    }

    /// Writes down what the next enforcer is to know; at the end with the processes.
    pub(super) fn keep(&mut self, is_end: bool) {
        let commands = self.coflows.iter().filter(|(number, tagged)| self.is_of_commands(**number, tagged));
        let entry = |(_, tagged): (&u32, &Tagged)| {
            let request =
                Request { name: tagged.name.clone(), class: tagged.class, deadline: None, sends: Vec::new() };
            let entry = (tagged.user, &request, tagged.key);
            format!("{}\n", kept::entry(entry, tagged.deadline, &tagged.groups, is_end))
        };
        let text: String = commands.map(entry).collect();
        if text != self.kept {
            let written = kept::write(&kept::place(&self.conditions.door), &text);
            if self.troubles.settle("what the next enforcer is to know cannot be written", written).is_some()
            {
                self.kept = text;
            }
        }
    }

    /// Tells whether commands have asked for a coflow: what rules name comes back by itself.
    fn is_of_commands(&self, number: u32, tagged: &Tagged) -> bool {
        let is_rules = |group: &Group| {
            self.rules
                .iter()
                .any(|rule| matches!(&rule.subject, Subject::Group(path) if path == group.path()))
        };
        !self.standing.contains_key(&number)
            && tagged.vouched_by.is_none()
            && tagged.groups.iter().any(|group| !is_rules(group))
    }
}
