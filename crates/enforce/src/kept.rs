//! What an enforcer keeps for the next one: which commands that run belong to which coflow.
//!
//! The kernel forgets that with the programs. So it stands in a file beside the door, brought up to date as groups come and go, and at an
//! orderly end with the processes, which leave their groups then. The next enforcer takes those up that still run: the groups of one that was
//! killed are there until it loads its programs, so [`Kept::beside`] has to be called before that. A coflow keeps its key, so that it is the
//! same one to everybody; what only a rule or a client library has tagged comes back by itself.
//!
//! A process is known by its number and the time at which it began: the number alone may be another one's by now.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use cavalcade_model::Nanos;
use cavalcade_protocol::CoflowKey;
use serde_json::{Value, json};

use crate::door::Request;
use crate::groups::{self, Group};

/// The longest file that is read: more than 4,096 groups and 65,536 processes have.
const LONGEST: u64 = 16 << 20;

/// A coflow that commands belong to.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct KeptCoflow {
    pub(crate) user: u32,
    pub(crate) request: Request,
    pub(crate) key: Option<CoflowKey>,
    /// When it is to be done, by this host's monotonic clock.
    pub(crate) deadline: Option<Nanos>,
    /// Groups that stand for it and are not the enforcer's own.
    pub(crate) groups: Vec<PathBuf>,
    /// Processes in groups of the enforcer's own.
    pub(crate) processes: Vec<u32>,
}

/// All that a former enforcer has kept.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Kept(pub(crate) Vec<KeptCoflow>);

impl Kept {
    /// What the enforcer has kept that had its door there, as far as it still runs; nothing where nobody has, or others may write it.
    pub fn beside(door: &Path) -> Self {
        read(&place(door)).unwrap_or_default()
    }
}

/// The file beside a door.
pub(crate) fn place(door: &Path) -> PathBuf {
    door.with_extension("kept")
}

/// A coflow as it stands in the file.
pub(crate) fn entry(
    (user, request, key): (u32, &Request, Option<CoflowKey>),
    deadline: Option<Nanos>,
    all: &[Group],
    with_processes: bool,
) -> Value {
    let paths = |is_own: bool| {
        let of_kind = all.iter().filter(move |group| group.is_own() == is_own);
        of_kind.map(|group| group.path().to_string_lossy().into_owned())
    };
    let own = all.iter().filter(|group| with_processes && group.is_own());
    let processes: Vec<[u64; 2]> = own
        .flat_map(Group::all_members)
        .filter_map(|process| Some([u64::from(process), began(process)?]))
        .collect();
    json!({
        "user": user,
        "request": request.to_string(),
        "key": key.map(|key| key.to_string()),
        "deadline": deadline.map(|deadline| deadline.0),
        "groups": paths(false).collect::<Vec<_>>(),
        "own": paths(true).collect::<Vec<_>>(),
        "processes": processes,
    })
}

/// Puts text in the place of what stands there, for this user alone; without text nothing stands there.
pub(crate) fn write(place: &Path, text: &str) -> io::Result<()> {
    if text.is_empty() {
        return match fs::remove_file(place) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        };
    }
    let next = place.with_extension("kept.next");
    let _ = fs::remove_file(&next);
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&next)?;
    file.write_all(text.as_bytes())?;
    fs::rename(&next, place)
}

fn read(place: &Path) -> Option<Kept> {
    let found = fs::symlink_metadata(place).ok()?;
    let is_own = found.uid() == rustix::process::geteuid().as_raw() && found.mode() & 0o022 == 0;
    if !found.is_file() || !is_own || found.len() > LONGEST {
        return None;
    }
    let text = fs::read_to_string(place).ok()?;
    Some(Kept(text.lines().filter_map(read_entry).collect()))
}

fn read_entry(line: &str) -> Option<KeptCoflow> {
    let entry: Value = serde_json::from_str(line).ok()?;
    let texts = |name: &str| entry[name].as_array().into_iter().flatten().filter_map(Value::as_str);
    let pair = |pair: &Value| Some((u32::try_from(pair[0].as_u64()?).ok()?, pair[1].as_u64()?));
    let listed = entry["processes"].as_array().into_iter().flatten().filter_map(pair);
    let listed = listed.filter(|&(process, then)| began(process) == Some(then)).map(|(process, _)| process);
    let in_groups = texts("own").flat_map(|path| groups::all_members(Path::new(path)));
    let mut processes: Vec<u32> = listed.chain(in_groups).collect();
    processes.sort_unstable();
    processes.dedup();
    let groups = texts("groups").map(PathBuf::from).filter(|path| path.is_dir()).collect();
    Some(KeptCoflow {
        user: u32::try_from(entry["user"].as_u64()?).ok()?,
        request: entry["request"].as_str()?.parse().ok()?,
        key: entry["key"].as_str().and_then(|key| key.parse().ok()),
        deadline: entry["deadline"].as_u64().map(Nanos),
        groups,
        processes,
    })
}

/// When a process began, in ticks of the kernel since it did.
fn began(process: u32) -> Option<u64> {
    let status = fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    // The name before may have anything in it but ends with the last parenthesis; the time is the 20th word behind it.
    status.rsplit_once(") ")?.1.split(' ').nth(19)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_kept_comes_back_for_processes_that_still_run_and_for_no_others() {
        let folder = tempfile::tempdir().unwrap();
        let door = folder.path().join("door.sock");
        let own = std::process::id();
        let since = began(own).unwrap();
        let request: Request = "task=etl class=background".parse().unwrap();
        let mut line = entry((7, &request, "17.0.18".parse().ok()), Some(Nanos(9)), &[], true);
        line["processes"] = json!([[own, since], [own, since + 1], [u32::MAX, 5]]);
        line["groups"] = json!([folder.path(), "/nowhere/at/all"]);
        write(&place(&door), &format!("{line}\nnonsense\n{{}}\n")).unwrap();
        let kept = Kept::beside(&door);
        let wanted = KeptCoflow {
            user: 7,
            request,
            key: "17.0.18".parse().ok(),
            deadline: Some(Nanos(9)),
            groups: vec![folder.path().to_owned()],
            processes: vec![own],
        };
        assert_eq!(kept, Kept(vec![wanted]));
        write(&place(&door), "").unwrap();
        assert_eq!(Kept::beside(&door), Kept::default());
    }

    #[test]
    fn what_others_may_write_is_not_believed() {
        use std::os::unix::fs::PermissionsExt;
        let folder = tempfile::tempdir().unwrap();
        let door = folder.path().join("door.sock");
        let request: Request = "task=etl".parse().unwrap();
        let line = entry((7, &request, None), None, &[], false).to_string();
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
