//! What an enforcer keeps for the next one: which commands that run belong to which coflow.
//!
//! The kernel forgets that with the programs. So it stands in a file beside the door, brought up to
//! date as groups come and go, and at an orderly end with the processes, which leave their groups
//! then. The next enforcer takes those up that still run: the groups of one that was killed are
//! there until it loads its programs, so [`Kept::beside`] has to be called before that. A coflow
//! keeps its key, so that it is the same one to everybody; what only a rule or a client library has
//! tagged comes back by itself.
//!
//! A process is known by its number and the time at which it began, a group by its path and the
//! kernel's number of it: the number or the path alone may be another one's by now.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use cavalcade_model::Nanos;
use cavalcade_protocol::CoflowKey;
use serde_json::{Value, json};

use crate::door::{Request, is_of};
use crate::groups::{self, Group};

/// The longest file that is read, in bytes, and so that is written: more than 4,096 groups and
/// 65,536 processes have.
pub(crate) const LONGEST: usize = 16 << 20;

/// A coflow that commands belong to.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct KeptCoflow {
    pub(crate) user: u32,
    pub(crate) request: Request,
    pub(crate) key: Option<CoflowKey>,
    /// When it is to be done, by this host's monotonic clock.
    pub(crate) deadline: Option<Nanos>,
    /// Groups that stand for it and are not the enforcer's own.
    pub(crate) groups: Vec<KeptGroup>,
    /// Groups of the enforcer's own, while it runs.
    pub(crate) own: Vec<PathBuf>,
    /// Processes in groups of the enforcer's own.
    pub(crate) processes: Vec<KeptProcess>,
}

/// A control group, by its path and the kernel's number of it: one that is made there later has
/// another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct KeptGroup {
    path: PathBuf,
    id: u64,
}

impl KeptGroup {
    /// The group, if it is still there and still this user's.
    pub(crate) fn find(&self, user: u32) -> Option<Group> {
        let group = Group::found(self.path.clone()).ok()?;
        (group.id() == self.id && group.is_owned_by(user)).then_some(group)
    }
}

/// A process, by its number and when it began, in ticks of the kernel since it did.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct KeptProcess {
    pub(crate) number: u32,
    began: u64,
}

impl KeptProcess {
    /// The process that has this number now, if one has.
    pub(crate) fn now(number: u32) -> Option<Self> {
        Some(Self { number, began: began(number)? })
    }

    /// Whether it still runs, as this user's.
    pub(crate) fn runs_as(&self, user: u32) -> bool {
        began(self.number) == Some(self.began) && is_of(self.number, user)
    }
}

/// All that a former enforcer has kept.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Kept(pub(crate) Vec<KeptCoflow>);

impl Kept {
    /// What the enforcer has kept that had its door there, as far as it still runs; nothing where
    /// no process has, or where the file is not believed, which is logged.
    pub fn beside(door: &Path) -> Self {
        let place = place(door);
        read(&place).unwrap_or_else(|reason| {
            tracing::warn!(file = %place.display(), reason, "commands of before are not tagged");
            Self::default()
        })
    }
}

/// The file beside a door.
pub(crate) fn place(door: &Path) -> PathBuf {
    behind(door, ".kept")
}

/// The path with more behind the file's name.
fn behind(path: &Path, more: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(more);
    name.into()
}

impl KeptCoflow {
    /// Takes in the groups of its commands; of own ones also the processes, if they are to leave
    /// these.
    pub(crate) fn hold<'a>(&mut self, groups: impl Iterator<Item = &'a Group>, with_processes: bool) {
        for group in groups {
            let path = group.path().to_owned();
            if !group.is_own() {
                self.groups.push(KeptGroup { path, id: group.id() });
                continue;
            }
            self.own.push(path);
            if with_processes {
                self.processes.extend(group.all_members().into_iter().filter_map(KeptProcess::now));
            }
        }
    }

    /// Its line in the file.
    pub(crate) fn line(&self) -> String {
        format!("{}\n", self.entry())
    }

    fn entry(&self) -> Value {
        let text = |path: &Path| path.to_string_lossy().into_owned();
        let groups = self.groups.iter().map(|group| json!([text(&group.path), group.id]));
        let processes = self.processes.iter().map(|process| json!([process.number, process.began]));
        json!({
            "boot": boot(),
            "user": self.user,
            "request": self.request.to_string(),
            "key": self.key.map(|key| key.to_string()),
            "deadline": self.deadline.map(|deadline| deadline.0),
            "groups": groups.collect::<Vec<_>>(),
            "own": self.own.iter().map(|path| text(path)).collect::<Vec<_>>(),
            "processes": processes.collect::<Vec<_>>(),
        })
    }
}

/// Joins lines of owners to a text of `longest` bytes at most, in which each owner has the same
/// share. Returns it with the number of lines for which there was no room.
pub(crate) fn fit(lines: &[(u32, String)], longest: usize) -> (String, usize) {
    let owners: BTreeSet<u32> = lines.iter().map(|(owner, _)| *owner).collect();
    let share = longest / owners.len().max(1);
    let mut used: BTreeMap<u32, usize> = BTreeMap::new();
    let (mut text, mut left_out) = (String::new(), 0);
    for (owner, line) in lines {
        let used = used.entry(*owner).or_default();
        if *used + line.len() > share {
            left_out += 1;
            continue;
        }
        *used += line.len();
        text.push_str(line);
    }
    (text, left_out)
}

/// Puts text in the place of what stands there, for this user alone; without text nothing stands
/// there.
pub(crate) fn write(place: &Path, text: &str) -> io::Result<()> {
    if text.is_empty() {
        return match fs::remove_file(place) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        };
    }
    let next = behind(place, ".next");
    let _ = fs::remove_file(&next);
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&next)?;
    file.write_all(text.as_bytes())?;
    fs::rename(&next, place)
}

fn read(place: &Path) -> Result<Kept, String> {
    let found = match fs::symlink_metadata(place) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Kept::default()),
        found => found.map_err(|error| error.to_string())?,
    };
    let is_own = found.uid() == rustix::process::geteuid().as_raw() && found.mode() & 0o022 == 0;
    if !found.is_file() || !is_own {
        return Err("expected a file that nobody but the enforcer's user may write".to_owned());
    }
    if found.len() > LONGEST as u64 {
        return Err(format!("it has {} bytes; expected {LONGEST} at most", found.len()));
    }
    let text = fs::read_to_string(place).map_err(|error| error.to_string())?;
    let boot = boot();
    Ok(Kept(text.lines().filter_map(|line| read_entry(line, &boot)).collect()))
}

fn read_entry(line: &str, boot: &str) -> Option<KeptCoflow> {
    let entry: Value = serde_json::from_str(line).ok()?;
    if entry["boot"].as_str() != Some(boot) {
        return None;
    }
    let user = u32::try_from(entry["user"].as_u64()?).ok()?;
    let all = |name: &str| entry[name].as_array().into_iter().flatten();
    let process = |pair: &Value| {
        let (number, began) = (u32::try_from(pair[0].as_u64()?).ok()?, pair[1].as_u64()?);
        Some(KeptProcess { number, began })
    };
    let group = |pair: &Value| Some(KeptGroup { path: pair[0].as_str()?.into(), id: pair[1].as_u64()? });
    let paths = all("own").filter_map(Value::as_str);
    let in_groups = paths.flat_map(|path| groups::all_members(Path::new(path)));
    let listed = all("processes").filter_map(process).chain(in_groups.filter_map(KeptProcess::now));
    let mut processes: Vec<KeptProcess> = listed.filter(|process| process.runs_as(user)).collect();
    processes.sort_unstable();
    processes.dedup();
    let groups = all("groups").filter_map(group).filter(|group| group.find(user).is_some()).collect();
    Some(KeptCoflow {
        user,
        request: entry["request"].as_str()?.parse().ok()?,
        key: entry["key"].as_str().and_then(|key| key.parse().ok()),
        deadline: entry["deadline"].as_u64().map(Nanos),
        groups,
        own: Vec::new(),
        processes,
    })
}

/// The kernel's name of the time since this host was started: numbers of processes and groups hold
/// no longer.
fn boot() -> String {
    let text = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    text.trim().to_owned()
}

/// When a process began, in ticks of the kernel since it did.
fn began(process: u32) -> Option<u64> {
    let status = fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    // The name before may have anything in it but ends with the last parenthesis; the time is the
    // 20th word behind it.
    status.rsplit_once(") ")?.1.split(' ').nth(19)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn own_user() -> u32 {
        rustix::process::geteuid().as_raw()
    }

    fn coflow(request: &str) -> KeptCoflow {
        KeptCoflow {
            user: own_user(),
            request: request.parse().unwrap(),
            key: "17.0.18".parse().ok(),
            deadline: Some(Nanos(9)),
            groups: Vec::new(),
            own: Vec::new(),
            processes: Vec::new(),
        }
    }

    #[test]
    fn what_is_kept_comes_back_for_processes_that_still_run_and_for_no_others() {
        let folder = tempfile::tempdir().unwrap();
        let door = folder.path().join("door.sock");
        let own = KeptProcess::now(std::process::id()).unwrap();
        let mut kept = coflow("task=etl class=background");
        let (later, gone) =
            (KeptProcess { began: own.began + 1, ..own }, KeptProcess { number: u32::MAX, began: 5 });
        kept.processes = vec![own, later, gone];
        let group = Group::found(folder.path().to_owned()).unwrap();
        kept.hold([&group].into_iter(), true);
        kept.groups.push(KeptGroup { path: "/nowhere/at/all".into(), id: 1 });
        write(&place(&door), &format!("{}nonsense\n{{}}\n", kept.line())).unwrap();
        (kept.processes, kept.groups) = (vec![own], kept.groups[..1].to_vec());
        assert_eq!(Kept::beside(&door), Kept(vec![kept.clone()]));
        // Another user's processes and groups have got the same numbers.
        kept.user = own_user() + 1;
        write(&place(&door), &kept.line()).unwrap();
        (kept.processes, kept.groups) = (Vec::new(), Vec::new());
        assert_eq!(Kept::beside(&door), Kept(vec![kept]));
        write(&place(&door), "").unwrap();
        assert_eq!(Kept::beside(&door), Kept::default());
    }

    #[test]
    fn a_group_that_was_made_again_at_its_path_is_another() {
        let folder = tempfile::tempdir().unwrap();
        let (path, kept) = (folder.path().join("group"), folder.path().join("kept"));
        fs::create_dir(&path).unwrap();
        let mut held = coflow("task=etl");
        held.hold([&Group::found(path.clone()).unwrap()].into_iter(), false);
        let group = held.groups[0].clone();
        assert!(group.find(own_user()).is_some());
        assert!(group.find(own_user() + 1).is_none());
        // The old one stays: its number is not free.
        fs::rename(&path, kept).unwrap();
        fs::create_dir(&path).unwrap();
        assert!(group.find(own_user()).is_none());
    }

    #[test]
    fn of_what_was_kept_before_the_host_was_started_nothing_comes_back() {
        let line = coflow("task=etl").line();
        assert!(read_entry(&line, &boot()).is_some());
        assert!(read_entry(&line, "another").is_none());
    }

    #[test]
    fn each_door_has_a_file_of_its_own() {
        assert_eq!(place(Path::new("/run/enforce.a")), Path::new("/run/enforce.a.kept"));
        assert_eq!(place(Path::new("/run/door")), Path::new("/run/door.kept"));
    }

    #[test]
    fn a_user_with_very_much_to_keep_takes_no_room_from_others_and_the_file_can_be_read() {
        let lines: Vec<_> = (0..9).map(|at| (u32::from(at == 8), format!("line {at}\n"))).collect();
        let (text, left_out) = fit(&lines, 40);
        assert_eq!((text.as_str(), left_out), ("line 0\nline 1\nline 8\n", 6));
        assert_eq!(fit(&[], 40), (String::new(), 0));
    }

    #[test]
    fn why_a_file_is_not_believed_is_said() {
        let folder = tempfile::tempdir().unwrap();
        let place = folder.path().join("kept");
        assert_eq!(read(&place), Ok(Kept::default()));
        let file = fs::File::create(&place).unwrap();
        file.set_len(LONGEST as u64 + 1).unwrap();
        assert!(read(&place).unwrap_err().contains("16777217 bytes"));
    }

    #[test]
    fn what_others_may_write_is_not_believed() {
        use std::os::unix::fs::PermissionsExt;
        let folder = tempfile::tempdir().unwrap();
        let door = folder.path().join("door.sock");
        let line = coflow("task=etl").line();
        write(&place(&door), &line).unwrap();
        assert_eq!(Kept::beside(&door).0.len(), 1);
        fs::set_permissions(place(&door), fs::Permissions::from_mode(0o622)).unwrap();
        assert_eq!(Kept::beside(&door), Kept::default());
        let other = folder.path().join("other");
        write(&other, &line).unwrap();
        fs::remove_file(place(&door)).unwrap();
        std::os::unix::fs::symlink(other, place(&door)).unwrap();
        assert_eq!(Kept::beside(&door), Kept::default());
    }
}
