//! The folder in which programs are pinned, so that they outlive the process that loaded them.

use std::fs::{self, DirBuilder, File};
use std::io::{self, Read};
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

use rustix::fs::FlockOperation;

use crate::Error;

/// The folder in which the kernel keeps what is pinned.
const MOUNT: &str = "/sys/fs/bpf";
/// The number by which the file system of pins is known.
const MAGIC: u64 = 0xcafe_4a11;

/// Only the enforcer's user may see what is pinned, and take it out.
const PRIVATE: u32 = 0o700;

/// A folder of pins, and the right to change them: one process at a time has it.
#[derive(Debug)]
pub(crate) struct Pins {
    folder: PathBuf,
    /// Locked as long as it is open, also where the process is killed.
    _lock: File,
}

impl Pins {
    /// Takes the folder `name`, making it where it is not.
    pub(crate) fn take(name: &str) -> Result<Self, Error> {
        mount()?;
        let folder = Path::new(MOUNT).join(name);
        match DirBuilder::new().mode(PRIVATE).create(&folder) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
                return Err(Error::file("make", folder)(error));
            }
            _ => {}
        }
        let lock = File::open(&folder).map_err(Error::file("open", &folder))?;
        let found = lock.metadata().map_err(Error::file("read", &folder))?;
        // Where all users may make folders there, one may have waited to take pins out.
        if found.uid() != rustix::process::geteuid().as_raw() || found.mode() & 0o022 != 0 {
            return Err(Error::Foreign(folder));
        }
        match rustix::fs::flock(&lock, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(Self { folder, _lock: lock }),
            Err(rustix::io::Errno::WOULDBLOCK) => Err(Error::InUse(folder)),
            Err(error) => Err(Error::file("lock", folder)(error.into())),
        }
    }

    /// Takes the folder `name` where there is one.
    pub(crate) fn found(name: &str) -> Result<Option<Self>, Error> {
        if Path::new(MOUNT).join(name).is_dir() { Self::take(name).map(Some) } else { Ok(None) }
    }

    /// The names of all folders.
    pub(crate) fn folders() -> impl Iterator<Item = String> {
        let folders = crate::groups::folders_in(Path::new(MOUNT));
        folders.filter_map(|folder| Some(folder.file_name()?.to_str()?.to_owned()))
    }

    /// The path of a pin.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// The names of everything that is pinned, sorted.
    pub(crate) fn names(&self) -> Vec<String> {
        let entries = fs::read_dir(&self.folder).into_iter().flatten().flatten();
        let mut names: Vec<String> =
            entries.filter_map(|entry| entry.file_name().into_string().ok()).collect();
        names.sort();
        names
    }

    /// Removes everything: the last reference to a program goes with its pin.
    pub(crate) fn clear(&self) {
        for name in self.names() {
            let _ = fs::remove_file(self.folder.join(name));
        }
        let _ = fs::remove_dir(&self.folder);
    }
}

/// Mounts the file system of pins where it is not mounted, as service managers do at start-up.
pub(crate) fn mount() -> Result<(), Error> {
    let found = rustix::fs::statfs(MOUNT).map_err(|error| Error::file("find", MOUNT)(error.into()))?;
    if found.f_type as u64 == MAGIC {
        return Ok(());
    }
    let flags = rustix::mount::MountFlags::NOSUID
        | rustix::mount::MountFlags::NODEV
        | rustix::mount::MountFlags::NOEXEC;
    rustix::mount::mount("bpf", MOUNT, "bpf", flags, c"mode=0700").map_err(|error| {
        Error::file("mount the file system of pins ('mount -t bpf bpf /sys/fs/bpf' as root) at", MOUNT)(
            error.into(),
        )
    })
}

/// Runs the program that goes over all TCP sockets of the calling thread's network namespace.
pub(crate) fn walk(program: &Path) -> io::Result<()> {
    File::open(program)?.read_to_end(&mut Vec::new()).map(drop)
}
