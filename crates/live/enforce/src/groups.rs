//! Control groups of version 2: where they are mounted, and those that stand for coflows.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use crate::Error;

/// The hierarchy of control groups.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hierarchy {
    /// The folder at which it is mounted.
    pub root: PathBuf,
}

impl Hierarchy {
    /// Finds where it is mounted.
    ///
    /// # Errors
    /// If it is not.
    pub fn find() -> Result<Self, Error> {
        let mounts = "/proc/self/mountinfo";
        let text = fs::read_to_string(mounts).map_err(Error::file("read", mounts))?;
        let root = text.lines().find_map(mount_of_groups).ok_or(Error::NoGroups)?;
        Ok(Self { root })
    }
}

/// The mount point in a line of `/proc/self/mountinfo`, where it is one of control groups of
/// version 2.
fn mount_of_groups(line: &str) -> Option<PathBuf> {
    let (place, kind) = line.split_once(" - ")?;
    let point = place.split(' ').nth(4)?;
    kind.starts_with("cgroup2 ").then(|| point.replace("\\040", " ").into())
}

/// The control group in which a process is.
pub(crate) fn of_process(hierarchy: &Hierarchy, process: u32) -> Option<PathBuf> {
    let text = fs::read_to_string(format!("/proc/{process}/cgroup")).ok()?;
    let path = text.lines().find_map(|line| line.strip_prefix("0::/"))?;
    Some(hierarchy.root.join(path))
}

/// All groups below `above` that stand for coflows of the place called `name`, the innermost first.
pub(crate) fn of_place(above: &Path, name: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for folder in folders_in(above) {
        found.extend(of_place(&folder, name));
        let is_its = |folder: &str| folder.strip_prefix(name).is_some_and(|rest| rest.starts_with('.'));
        if folder.file_name().and_then(|folder| folder.to_str()).is_some_and(is_its) {
            found.push(folder);
        }
    }
    found
}

/// A group and all below it, by their numbers.
pub(crate) fn by_number(folder: &Path) -> BTreeMap<u64, PathBuf> {
    let own = fs::metadata(folder).ok().map(|found| (found.ino(), folder.to_owned()));
    folders_in(folder).flat_map(|below| by_number(&below)).chain(own).collect()
}

pub(crate) fn folders_in(folder: &Path) -> impl Iterator<Item = PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let folders = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
    folders.map(|entry| entry.path())
}

/// A control group. Dropping one that this process has made removes the group; its processes go to
/// the group above.
#[derive(Debug)]
pub struct Group {
    path: PathBuf,
    id: u64,
    is_own: bool,
}

impl Group {
    /// Makes a group below `parent`, or takes over the one that is there, if this user has made it:
    /// the owner of a group may move processes into it.
    ///
    /// # Errors
    /// If there is no right to, or it is another user's.
    pub fn make(parent: &Path, name: &str) -> Result<Self, Error> {
        let path = parent.join(name);
        match fs::create_dir(&path) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
                return Err(Error::file("make the control group", path)(error));
            }
            _ => {}
        }
        let owner = fs::metadata(&path).map_err(Error::file("read", &path))?.uid();
        if owner != rustix::process::geteuid().as_raw() {
            return Err(Error::Foreign(path));
        }
        let mut group = Self::found(path)?;
        group.is_own = true;
        Ok(group)
    }

    /// A group of another program at `path`.
    ///
    /// # Errors
    /// If there is none.
    pub fn found(path: PathBuf) -> Result<Self, Error> {
        let id = fs::metadata(&path).map_err(Error::file("read", &path))?.ino();
        Ok(Self { path, id, is_own: false })
    }

    /// The kernel's number of it.
    pub fn id(&self) -> u64 {
        self.id
    }

    /// Its folder.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Moves a process here; what it starts from now on begins here.
    ///
    /// # Errors
    /// If it is gone, or there is no right to.
    pub fn admit(&self, process: u32) -> Result<(), Error> {
        admit(&self.path, process)
    }

    /// Returns whether this process has made it, and removes it in the end.
    pub(crate) fn is_own(&self) -> bool {
        self.is_own
    }

    /// Moves a process of it to the group above, where this process has made it.
    pub(crate) fn let_out(&self, process: u32) {
        if self.is_own
            && let Some(above) = self.path.parent()
        {
            // A process that has ended needs no other.
            let _ = admit(above, process);
        }
    }

    /// Its processes, without those of groups below it.
    pub fn members(&self) -> Vec<u32> {
        members(&self.path)
    }

    /// Its processes, and those of groups below it.
    pub fn all_members(&self) -> Vec<u32> {
        all_members(&self.path)
    }

    /// Tells whether a process has it to itself, and its user owns it: no process of other users
    /// comes here later.
    pub(crate) fn belongs_to(&self, process: u32, user: u32) -> bool {
        self.is_owned_by(user) && self.members() == [process] && folders_in(&self.path).next().is_none()
    }

    /// Returns whether it is this user's.
    pub(crate) fn is_owned_by(&self, user: u32) -> bool {
        fs::metadata(&self.path).is_ok_and(|folder| folder.uid() == user)
    }

    /// Tells whether a process is in it or in a group below it.
    pub fn is_populated(&self) -> bool {
        let events = fs::read_to_string(self.path.join("cgroup.events")).unwrap_or_default();
        events.lines().any(|line| line == "populated 1")
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        if self.is_own {
            remove(&self.path);
        }
    }
}

pub(crate) fn all_members(group: &Path) -> Vec<u32> {
    let mut found = members(group);
    found.extend(folders_in(group).flat_map(|below| all_members(&below)));
    found
}

fn admit(group: &Path, process: u32) -> Result<(), Error> {
    let file = group.join("cgroup.procs");
    fs::write(&file, process.to_string()).map_err(Error::file("move a process to", file))
}

fn members(group: &Path) -> Vec<u32> {
    let text = fs::read_to_string(group.join("cgroup.procs")).unwrap_or_default();
    text.lines().filter_map(|line| line.parse().ok()).collect()
}

/// The processes of a user.
pub(crate) fn processes_of(user: u32) -> Vec<u32> {
    processes_that(|entry| entry.metadata().is_ok_and(|process| process.uid() == user))
}

/// All processes.
pub(crate) fn processes() -> Vec<u32> {
    processes_that(|_| true)
}

fn processes_that(are_wanted: impl Fn(&fs::DirEntry) -> bool) -> Vec<u32> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten().filter(are_wanted);
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect()
}

/// Removes a group and those below it; their processes go to the group above. What cannot be
/// removed stays: it limits nothing and the next enforcer tries again.
pub(crate) fn remove(group: &Path) {
    folders_in(group).for_each(|below| remove(&below));
    if let Some(above) = group.parent() {
        // A process that ends meanwhile needs no new group.
        members(group).into_iter().for_each(|process| drop(admit(above, process)));
    }
    let _ = fs::remove_dir(group);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_version_two_counts_and_spaces_come_back() {
        let line = "35 24 0:30 / /sys/fs/cgroup/cpu rw,relatime shared:9 - cgroup cgroup rw,cpu";
        assert_eq!(mount_of_groups(line), None);
        let line = "42 24 0:39 / /sys/fs/my\\040groups rw,relatime - cgroup2 cgroup2 rw";
        assert_eq!(mount_of_groups(line), Some("/sys/fs/my groups".into()));
        assert_eq!(mount_of_groups("nonsense"), None);
    }
}
