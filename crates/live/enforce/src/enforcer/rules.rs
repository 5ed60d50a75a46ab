//! Rules: what is tagged without asking.
//!
//! The kernel itself carries out those for users and ports; for them a number is set aside for
//! good, because a socket that listens passes its number on. Groups and containers come and go, and
//! are looked for now and then.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use cavalcade_model::{Instant, Nanos};

use super::Enforcer;
use crate::door::Request;
use crate::groups::{self, Group};
use crate::{Error, containers};

/// The time between two looks for containers.
const LOOK_FOR_CONTAINERS: Nanos = Nanos::from_secs(1);

/// The subject of a rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Subject {
    /// The processes of a control group, as of a service or a container: the group as a folder or
    /// as its path in the hierarchy. The task belongs to the group's owner.
    Group(PathBuf),
    /// Connections made to a port, and those that are accepted at it. The task is the enforcer's
    /// own user's.
    Port(u16),
    /// All sockets of a user, whose task it is.
    User(u32),
    /// The processes of containers with a label of this value.
    Label(String, String),
}

/// A rule: what is tagged without asking, as a task that there is while there are processes or
/// connections of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    /// The subject it tags.
    pub subject: Subject,
    /// The task.
    pub request: Request,
}

impl Enforcer {
    /// Takes a rule in: the kernel tags by user and port, groups below `root` are looked for from
    /// now on.
    pub(super) fn take_rule(&mut self, mut rule: Rule, root: &Path) -> Result<(), Error> {
        match &mut rule.subject {
            Subject::Group(group) => {
                if !group.starts_with(root) {
                    *group = root.join(group.strip_prefix("/").unwrap_or(group));
                }
                self.rules.push(rule);
            }
            Subject::Label(..) => self.rules.push(rule),
            Subject::User(_) => {
                self.stand(&rule)?;
                self.rules.push(rule);
            }
            Subject::Port(_) => self.stand(&rule)?,
        }
        Ok(())
    }

    /// Has the kernel tag by user or port.
    fn stand(&mut self, rule: &Rule) -> Result<(), Error> {
        let number = self.next;
        self.next += 1;
        let owner = match rule.subject {
            Subject::User(user) => {
                self.kernel.assign(number, user)?;
                self.kernel.tag_user(user, number)?;
                for process in groups::processes_of(user) {
                    self.kernel.take_over(process, number)?;
                }
                user
            }
            Subject::Port(port) => {
                self.kernel.tag_port(port, number)?;
                self.are_ports_new = true;
                rustix::process::geteuid().as_raw()
            }
            Subject::Group(_) | Subject::Label(..) => return Ok(()),
        };
        self.standing.insert(number, (owner, rule.clone()));
        Ok(())
    }

    /// Tags the processes of groups that rules name, by path or by a container's label.
    pub(super) fn follow_rules(&mut self, now: Instant) {
        let is_time_to_scan = now.since(self.scanned_at) >= LOOK_FOR_CONTAINERS;
        if is_time_to_scan {
            self.scanned_at = now;
        }
        let rules = std::mem::take(&mut self.rules);
        rules.iter().for_each(|Rule { subject, request }| match subject {
            Subject::Group(group) => self.follow_group_or_say(now, group, request),
            Subject::Label(key, value) if is_time_to_scan => {
                let (above, folders) = (&self.kernel.place().above, &self.conditions.containers);
                let groups = containers::labelled(above, folders, (key, value));
                groups.iter().for_each(|group| self.follow_group_or_say(now, group, request));
            }
            Subject::User(user) if is_time_to_scan => {
                groups::processes_of(*user)
                    .into_iter()
                    .for_each(|process| self.kernel.follow_process(process));
            }
            Subject::Label(..) | Subject::User(_) | Subject::Port(_) => {}
        });
        self.rules = rules;
    }

    /// Where a group cannot be followed its processes are plain TCP, and all else goes on.
    fn follow_group_or_say(&mut self, now: Instant, group: &Path, request: &Request) {
        let followed = self.follow_group(now, group, request);
        self.troubles.settle("a rule's group is not tagged", followed);
    }

    /// Tags the processes of a group, where there are any and they are not tagged yet.
    fn follow_group(&mut self, now: Instant, group: &Path, request: &Request) -> Result<(), Error> {
        let mut groups = self.coflows.values().flat_map(|tagged| &tagged.groups);
        let is_known = groups.any(|known| known.path() == group);
        if is_known {
            return Ok(());
        }
        let Some(group) = Group::found(group.to_owned()).ok().filter(Group::is_populated) else {
            return Ok(());
        };
        let Ok(owner) = std::fs::metadata(group.path()).map(|found| found.uid()) else { return Ok(()) };
        // Its owner may have too many coflows for now.
        let Ok(number) = self.number_for(now, owner, request.clone()) else { return Ok(()) };
        self.kernel.tag_group(&group, number)?;
        for process in group.all_members() {
            self.kernel.take_over(process, number)?;
        }
        if let Some(tagged) = self.coflows.get_mut(&number) {
            tagged.groups.push(group);
        }
        Ok(())
    }
}
