//! A lease kept in a file: a lock, and a beat that shows that its holder runs.
//!
//! The lock goes with the holder's process, at once. A holder that hangs keeps it, so it also
//! writes a number into the file twice a second; a standby that sees the same number for
//! [`SILENCE`] puts another file, which it has locked, in the place of this one. The former holder
//! finds that its file is no longer there, or that it was silent for too long, and has lost the
//! lease. Until then agents know better: they obey the higher term.
//!
//! The file holds the term in its first line and the beat in its second. It is written in place and
//! never shorter, so a disk that is full does not end a lease. Whoever stands by and cannot read or
//! write there says so once, and tries again: a disk that is full, or a folder that has gone with
//! its server, comes back, and a coordinator that had ended would not.

use std::fs::{File, TryLockError};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use tokio::sync::oneshot;

use super::{Leadership, log_once, next_term};

/// The time between two looks of a standby at the lease.
const LOOK: Duration = Duration::from_millis(50);
/// The time between two beats of the holder.
const BEAT: Duration = Duration::from_millis(500);
/// For how long no beat may come before the lease is taken from its holder.
const SILENCE: Duration = Duration::from_secs(3);

/// The last state that a standby saw, and since when.
struct Seen {
    text: String,
    since: Instant,
}

/// Waits until the lease is free or its holder hangs, and takes it.
pub(super) async fn acquire(path: &Path, above: u64) -> Leadership {
    let (mut standby, mut said) = (Standby { seen: None }, None);
    loop {
        match standby.look(path, above) {
            Ok(Some(leadership)) => return leadership,
            Ok(None) => said = None,
            Err(error) => log_once(&mut said, format!("no lease at {}: {error}", path.display())),
        }
        tokio::time::sleep(LOOK).await;
    }
}

/// Looks whether there can be a lease at `path`: later that is not taken for a mistake in its name.
pub(super) fn check(path: &Path) -> io::Result<()> {
    open(path).map(drop)
}

/// Who waits for a lease.
struct Standby {
    /// The last state that it saw.
    seen: Option<Seen>,
}

impl Standby {
    /// Takes the lease if it can be had.
    fn look(&mut self, path: &Path, above: u64) -> io::Result<Option<Leadership>> {
        let mut file = open(path)?;
        match file.try_lock() {
            Ok(()) if is_at(&file, path) => return lead(path, file, above).map(Some),
            Ok(()) => return Ok(None),
            Err(TryLockError::Error(error)) => return Err(error),
            Err(TryLockError::WouldBlock) => {}
        }
        let mut text = String::new();
        file.read_to_string(&mut text)?;
        if self.seen.is_none() {
            tracing::info!("standing by: another coordinator holds {}", path.display());
        }
        match &self.seen {
            Some(seen) if seen.text == text && seen.since.elapsed() < SILENCE => Ok(None),
            Some(seen) if seen.text == text => take_over(path, &text, above),
            _ => {
                self.seen = Some(Seen { text, since: Instant::now() });
                Ok(None)
            }
        }
    }
}

fn open(path: &Path) -> io::Result<File> {
    File::options().create(true).truncate(false).read(true).write(true).open(path)
}

/// Tells whether `path` still leads to `file`.
fn is_at(file: &File, path: &Path) -> bool {
    let place = |metadata: std::fs::Metadata| (metadata.dev(), metadata.ino());
    let (Ok(own), Ok(there)) = (file.metadata(), path.metadata()) else { return false };
    place(own) == place(there)
}

/// A file beside the lease.
fn beside(path: &Path, ending: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(ending);
    PathBuf::from(name)
}

/// Takes the lease from a holder whose beat has stopped at `text`; `None` where another was
/// first.
fn take_over(path: &Path, text: &str, above: u64) -> io::Result<Option<Leadership>> {
    let guard = open(&beside(path, ".takeover"))?;
    if guard.try_lock().is_err() || std::fs::read_to_string(path)? != text {
        return Ok(None);
    }
    let next = beside(path, ".next");
    std::fs::write(&next, text)?;
    let file = open(&next)?;
    if file.try_lock().is_err() {
        return Ok(None);
    }
    let leadership = lead(path, file, above)?;
    std::fs::rename(&next, path)?;
    tracing::warn!("the holder of {} has been silent for {SILENCE:?}: taking over", path.display());
    Ok(Some(leadership))
}

/// Begins to hold a locked file.
fn lead(path: &Path, mut file: File, above: u64) -> io::Result<Leadership> {
    let mut last = String::new();
    file.read_to_string(&mut last)?;
    let term = next_term(&last, above);
    beat(&mut file, term, 0)?;
    let (losing, lost) = oneshot::channel();
    let (renewing, given_up) = oneshot::channel::<()>();
    let path = path.to_owned();
    tokio::task::spawn_local(async move {
        tokio::select! {
            () = hold(&path, &mut file, term) => tracing::warn!("lost the lease on {}", path.display()),
            _ = given_up => {}
        }
        drop((file, losing));
    });
    Ok(Leadership { term, lost: Some(lost), renewing })
}

/// Shows that the holder runs, for as long as it holds the lease.
async fn hold(path: &Path, file: &mut File, term: u64) {
    let (mut count, mut said) = (0, None);
    let mut last = Instant::now();
    loop {
        tokio::time::sleep(BEAT).await;
        if last.elapsed() >= SILENCE || count > 0 && !is_at(file, path) {
            return;
        }
        count += 1;
        match beat(file, term, count) {
            Ok(()) => (last, said) = (Instant::now(), None),
            Err(error) => {
                let lease = path.display();
                log_once(
                    &mut said,
                    format!("cannot write to the lease at {lease}: {error}; it is lost after {SILENCE:?}"),
                );
            }
        }
    }
}

fn beat(file: &mut File, term: u64, count: u64) -> io::Result<()> {
    file.seek(SeekFrom::Start(0))?;
    file.write_all(format!("{term:020}\n{count:020}\n").as_bytes())
}

#[cfg(test)]
mod tests {
    use super::super::{LeasePlace, acquire};
    use super::*;

    #[test]
    fn a_standby_leads_when_the_file_is_let_go_and_its_term_is_higher_whatever_the_clock_says() {
        let folder = tempfile::tempdir().unwrap();
        let place = LeasePlace::File(folder.path().join("lease"));
        crate::block_on(async {
            let first = acquire(&place, None, 0).await?;
            let standby = tokio::time::timeout(3 * LOOK, acquire(&place, None, 0)).await;
            assert!(standby.is_err(), "it stands by");
            first.give_up().await;
            let far = u64::MAX - 7;
            std::fs::write(folder.path().join("lease"), format!("{far}\n"))?;
            let second = acquire(&place, None, 0).await?;
            assert_eq!(second.term(), far + 1);
            second.give_up().await;
            assert_eq!(acquire(&place, None, far + 4).await?.term(), far + 5);
            Ok(())
        })
        .unwrap();
    }

    #[test]
    fn a_standby_outlives_a_folder_that_goes_and_a_disk_that_is_full_and_leads_when_they_are_back() {
        let folder = tempfile::tempdir().unwrap();
        let site = folder.path().join("site");
        let path = site.join("lease");
        let place = LeasePlace::File(path.clone());
        assert!(place.check().is_err(), "at its start that is a mistake");
        let ready = |name: &str| std::fs::create_dir_all(site.join(name));
        crate::block_on(async {
            let standby = acquire(&place, None, 0);
            tokio::pin!(standby);
            assert!(tokio::time::timeout(3 * LOOK, &mut standby).await.is_err(), "it waits");
            std::fs::create_dir(&site)?;
            let leader = standby.await?;
            drop(leader);
            // It hangs, and whoever takes over can put no other file in its place: as on a disk
            // that is full.
            let hung = open(&path)?;
            while hung.try_lock().is_err() {
                tokio::time::sleep(LOOK).await;
            }
            ready("lease.next")?;
            let standby = acquire(&place, None, 0);
            tokio::pin!(standby);
            assert!(tokio::time::timeout(SILENCE + 10 * LOOK, &mut standby).await.is_err(), "it tries again");
            std::fs::remove_dir(site.join("lease.next"))?;
            standby.await?;
            Ok(())
        })
        .unwrap();
    }

    #[test]
    fn a_holder_that_hangs_loses_the_lease_and_may_find_out_more_than_once() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("lease");
        // Another process that holds the lock and writes nothing.
        let hung = open(&path).unwrap();
        hung.try_lock().unwrap();
        crate::block_on(async {
            let mut first = acquire(&LeasePlace::File(path.clone()), None, 0).await?;
            // The file is put out of its place, as by the next that takes over.
            std::fs::rename(&path, folder.path().join("former"))?;
            tokio::time::timeout(4 * SILENCE, first.lost()).await.expect("the loss is noticed");
            first.lost().await;
            first.give_up().await;
            Ok(())
        })
        .unwrap();
    }
}
