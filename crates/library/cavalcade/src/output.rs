//! Outputs that appear whole or not at all.
//!
//! A file or folder is written under a temporary name beside its target and renamed when it is
//! complete; an error, a panic or an interrupt removes it. So a file that has its name can be
//! trusted, and a script may test for it.
//!
//! One rule for what exists already: a file that a command writes replaces the one of that name; a
//! folder is only written where it does not exist or is empty, since replacing it would remove
//! files that were never named. An empty folder is filled from one inside it, since it may be a
//! mount point or a link, which cannot be replaced.
//!
//! A file whose name ends in `.gz` or `.zst` is compressed accordingly; the readers of traces and
//! certificates look at the first bytes and take both.
//!
//! # Invariant
//! Everything temporary is listed in `PENDING` as long as it exists, so that the handler of
//! interrupts, which runs on another thread while this one is stopped in the middle of a write, can
//! remove it.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use flate2::write::GzEncoder;

use crate::error::{Error, Kind};

/// The outputs that are being written now.
static PENDING: Mutex<BTreeSet<PathBuf>> = Mutex::new(BTreeSet::new());

fn pending() -> MutexGuard<'static, BTreeSet<PathBuf>> {
    // A set of paths is whole after a panic elsewhere.
    PENDING.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Removes all that is half-written.
pub fn remove_pending() {
    for path in pending().iter() {
        remove(path);
    }
}

fn remove(path: &Path) {
    // A failure to remove has no caller to report to.
    let _ = if path.is_dir() { fs::remove_dir_all(path) } else { fs::remove_file(path) };
}

/// A temporary file or folder, removed when dropped unless it was kept.
struct Temporary {
    path: PathBuf,
    target: PathBuf,
}

impl Temporary {
    /// A unique name beside `target`, for `create` to make.
    fn beside<T>(target: &Path, create: impl FnMut(&Path) -> io::Result<T>) -> io::Result<(Self, T)> {
        let parent = match target.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => parent,
            _ => Path::new("."),
        };
        let made = tempfile::Builder::new().prefix(".cavalcade-").make_in(parent, create)?;
        let (value, path) = made.into_parts();
        // From here on it is ours to remove.
        let path = path.keep().map_err(|error| error.error)?;
        pending().insert(path.clone());
        Ok((Self { path, target: target.to_owned() }, value))
    }

    /// Gives it the target's name.
    fn keep(self) -> io::Result<()> {
        fs::rename(&self.path, &self.target)
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        if pending().remove(&self.path) && self.path.exists() {
            remove(&self.path);
        }
    }
}

/// Writes a file as a whole, compressed if its name ends so.
///
/// # Errors
/// If it cannot be written; then nothing is left of it, and a file that had the name is as it was.
pub fn write_file(target: &Path, write: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> Result<(), Error> {
    let attempt = || {
        let (temporary, file) = Temporary::beside(target, |path| fs::File::create_new(path))?;
        let file = io::BufWriter::new(file);
        match target.extension().and_then(OsStr::to_str) {
            Some("gz") => {
                let mut encoder = GzEncoder::new(file, flate2::Compression::default());
                write(&mut encoder)?;
                encoder.finish()?.flush()?;
            }
            Some("zst") => {
                let mut encoder = zstd::Encoder::new(file, zstd::DEFAULT_COMPRESSION_LEVEL)?;
                write(&mut encoder)?;
                encoder.finish()?.flush()?;
            }
            _ => {
                let mut file = file;
                write(&mut file)?;
                file.flush()?;
            }
        }
        temporary.keep()
    };
    attempt().map_err(|error| Error::file("write", target, &error))
}

/// Checks that a file can be written at `target`, without writing it: before a long run, not after
/// it.
///
/// # Errors
/// If it cannot.
pub fn check_writable(target: &Path) -> Result<(), Error> {
    if target.is_dir() {
        let problem = format!("cannot write {}: it is a folder", target.display());
        return Err(Error::new(Kind::Runtime, problem).help("name a file"));
    }
    let tried = Temporary::beside(target, |path| fs::File::create_new(path));
    tried.map(drop).map_err(|error| Error::file("write", target, &error))
}

/// A folder that is being filled.
pub struct Folder {
    temporary: Temporary,
    /// True if the target is there already, and the temporary folder in it.
    inside: bool,
}

impl Folder {
    /// Begins a folder that will be called `target`. What can be wrong with its place is found now,
    /// before the work.
    ///
    /// # Errors
    /// If it cannot be made, or something of that name is there that is not an empty folder.
    pub fn create(target: &Path) -> Result<Self, Error> {
        let (inside, occupied) = match fs::read_dir(target) {
            Ok(mut entries) => (true, entries.next().is_some()),
            Err(_) => (false, target.symlink_metadata().is_ok()),
        };
        if occupied {
            let problem = match inside {
                true => format!("{} already exists and is not empty", target.display()),
                false => format!("{} already exists and is not a folder that can be read", target.display()),
            };
            return Err(Error::new(Kind::Runtime, problem)
                .help("name an empty folder or a new one, or remove this one"));
        }
        let name = if inside { target.join("run") } else { target.to_owned() };
        let made = Temporary::beside(&name, |path| fs::create_dir(path));
        let (mut temporary, ()) = made.map_err(|error| Error::file("make the folder", target, &error))?;
        temporary.target = target.to_owned();
        Ok(Self { temporary, inside })
    }

    /// The path of a file in it, for now.
    pub fn path(&self, name: impl AsRef<Path>) -> PathBuf {
        self.temporary.path.join(name)
    }

    /// A new file in it.
    ///
    /// # Errors
    /// If it cannot be made.
    pub fn file(&self, name: impl AsRef<Path>) -> Result<fs::File, Error> {
        let file = fs::File::create_new(self.path(&name));
        file.map_err(|error| self.failure(name, &error))
    }

    /// Makes the error that the file `name` in it could not be written.
    pub fn failure(&self, name: impl AsRef<Path>, error: &io::Error) -> Error {
        Error::file("write", &self.temporary.target.join(name), error)
    }

    /// Gives it its name, and returns that.
    ///
    /// # Errors
    /// If it cannot be renamed; then nothing is left of it.
    pub fn keep(self) -> Result<PathBuf, Error> {
        let target = self.temporary.target.clone();
        let kept = if self.inside { self.move_up() } else { self.temporary.keep() };
        kept.map_err(|error| Error::file("make the folder", &target, &error)).map(|()| target)
    }
}

impl Folder {
    /// Moves everything into the folder around. Until all of it is there, what has been moved
    /// counts as half-written.
    fn move_up(&self) -> io::Result<()> {
        let Temporary { path, target } = &self.temporary;
        let mut moved = Vec::new();
        let attempt = (|| {
            for entry in fs::read_dir(path)? {
                let entry = entry?;
                let to = target.join(entry.file_name());
                if to.symlink_metadata().is_ok() {
                    return Err(io::Error::new(io::ErrorKind::AlreadyExists, "it is no longer empty"));
                }
                pending().insert(to.clone());
                moved.push(to.clone());
                fs::rename(entry.path(), to)?;
            }
            Ok(())
        })();
        let mut pending = pending();
        for path in &moved {
            pending.remove(path);
            if attempt.is_err() {
                remove(path);
            }
        }
        attempt
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_empty_folder_is_filled_in_place() {
        let parent = tempfile::tempdir().unwrap();
        let target = parent.path().join("run");
        fs::create_dir(&target).unwrap();
        let link = parent.path().join("link");
        std::os::unix::fs::symlink(&target, &link).unwrap();
        let before = fs::metadata(&target).map(|data| std::os::unix::fs::MetadataExt::ino(&data)).unwrap();
        let dropped = Folder::create(&link).unwrap();
        dropped.file("a.csv").unwrap().write_all(b"1").unwrap();
        drop(dropped);
        assert!(names(&target).is_empty());
        let kept = Folder::create(&link).unwrap();
        kept.file("a.csv").unwrap().write_all(b"1").unwrap();
        kept.file("b.csv").unwrap().write_all(b"2").unwrap();
        assert_eq!(kept.keep().unwrap(), link);
        assert_eq!(
            (names(&target), names(parent.path())),
            (vec!["a.csv".to_owned(), "b.csv".to_owned()], vec!["link".to_owned(), "run".to_owned()])
        );
        let after = fs::metadata(&target).map(|data| std::os::unix::fs::MetadataExt::ino(&data)).unwrap();
        assert_eq!(before, after, "a mount point stays what it is");
    }

    #[test]
    fn a_folder_that_someone_else_has_filled_meanwhile_is_left_as_it_is() {
        let target = tempfile::tempdir().unwrap();
        let folder = Folder::create(target.path()).unwrap();
        for name in ["a.csv", "b.csv", "c.csv"] {
            folder.file(name).unwrap().write_all(b"ours").unwrap();
        }
        fs::write(target.path().join("b.csv"), "theirs").unwrap();
        assert!(folder.keep().unwrap_err().to_string().contains("no longer empty"));
        assert_eq!(names(target.path()), ["b.csv"]);
        assert_eq!(fs::read_to_string(target.path().join("b.csv")).unwrap(), "theirs");
    }

    fn names(folder: &Path) -> Vec<String> {
        let entries = fs::read_dir(folder).unwrap();
        let mut names: Vec<_> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    #[test]
    fn a_file_whose_writing_fails_leaves_the_old_one_and_nothing_else() {
        let folder = tempfile::tempdir().unwrap();
        let target = folder.path().join("report.html");
        fs::write(&target, "old").unwrap();
        let failed = write_file(&target, |out| {
            out.write_all(b"half")?;
            Err(io::Error::other("the disk is full"))
        });
        assert!(failed.unwrap_err().to_string().contains("the disk is full"));
        assert_eq!(fs::read_to_string(&target).unwrap(), "old");
        assert_eq!(names(folder.path()), ["report.html"]);
    }

    #[test]
    fn a_file_that_is_complete_replaces_the_old_one() {
        let folder = tempfile::tempdir().unwrap();
        let target = folder.path().join("report.html");
        fs::write(&target, "old").unwrap();
        write_file(&target, |out| out.write_all(b"new")).unwrap();
        assert_eq!(fs::read_to_string(&target).unwrap(), "new");
        assert_eq!(names(folder.path()), ["report.html"]);
    }

    #[test]
    fn a_file_is_compressed_as_its_name_says() {
        let folder = tempfile::tempdir().unwrap();
        let written = |name: &str| {
            let target = folder.path().join(name);
            write_file(&target, |out| out.write_all(b"text")).unwrap();
            fs::read(target).unwrap()
        };
        assert_eq!(written("plain"), b"text");
        assert_eq!(zstd::decode_all(&written("a.json.zst")[..]).unwrap(), b"text");
        let mut text = Vec::new();
        io::Read::read_to_end(&mut flate2::read::GzDecoder::new(&written("a.gz")[..]), &mut text).unwrap();
        assert_eq!(text, b"text");
    }

    #[test]
    fn a_folder_appears_when_it_is_kept_and_vanishes_when_it_is_dropped() {
        let parent = tempfile::tempdir().unwrap();
        let target = parent.path().join("run");
        let dropped = Folder::create(&target).unwrap();
        dropped.file("a.csv").unwrap().write_all(b"1").unwrap();
        assert!(!target.exists());
        drop(dropped);
        assert!(names(parent.path()).is_empty());
        let kept = Folder::create(&target).unwrap();
        kept.file("a.csv").unwrap().write_all(b"1").unwrap();
        kept.keep().unwrap();
        assert_eq!(
            (names(parent.path()), names(&target)),
            (vec!["run".to_owned()], vec!["a.csv".to_owned()])
        );
    }

    #[test]
    fn a_folder_with_something_in_it_is_not_overwritten() {
        let parent = tempfile::tempdir().unwrap();
        fs::write(parent.path().join("precious"), "").unwrap();
        assert!(Folder::create(parent.path()).is_err());
        assert!(Folder::create(&parent.path().join("precious")).is_err());
    }
}
