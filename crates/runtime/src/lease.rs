//! Who leads: of several coordinators with one lease, one serves and the others stand by.
//!
//! The lease is a lock on a file where all of them run on one host, and a key in etcd where they do not. Either also keeps
//! the last *term* that was given out. Who gets the lease takes the time in nanoseconds as its term, or one more than
//! the last where a clock was set back; so terms ascend whatever clocks say, and agents, which obey the highest, let go of a
//! former leader that does not know yet that it is one.
//!
//! # What fails
//! | what | then |
//! |---|---|
//! | the leader's process | the lock goes with it at once; the key after its time to live |
//! | its connection to etcd | it stops serving before the key runs out, and stands by |
//! | etcd itself | who leads cannot go on for longer than that; agents go on as plain TCP after their lease |

mod etcd;

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Duration;

use tokio::sync::oneshot;

use crate::clock::Clock;

/// How often a coordinator that stands by looks whether the lease is free.
const LOOK: Duration = Duration::from_millis(50);

/// How long giving it back may take.
const GIVING_UP: Duration = Duration::from_millis(500);

/// Where a lease is kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LeasePlace {
    /// A lock on a file.
    File(PathBuf),
    /// A key in etcd.
    Etcd {
        /// Its servers, tried in turn.
        servers: Vec<SocketAddr>,
        /// The key.
        key: String,
    },
}

/// `etcd://ADDRESS,ADDRESS/KEY`, or the path of a file.
impl FromStr for LeasePlace {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let Some(etcd) = text.strip_prefix("etcd://") else { return Ok(Self::File(PathBuf::from(text))) };
        let expected = || "expected etcd://ADDRESS:PORT,ADDRESS:PORT/KEY".to_owned();
        let (servers, key) = etcd.split_once('/').ok_or_else(expected)?;
        let servers: Result<Vec<SocketAddr>, _> = servers.split(',').map(str::parse).collect();
        match servers {
            Ok(servers) if !key.is_empty() => Ok(Self::Etcd { servers, key: key.to_owned() }),
            _ => Err(expected()),
        }
    }
}

impl std::fmt::Display for LeasePlace {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::File(path) => write!(f, "{}", path.display()),
            Self::Etcd { servers, key } => {
                let servers: Vec<String> = servers.iter().map(SocketAddr::to_string).collect();
                write!(f, "etcd://{}/{key}", servers.join(","))
            }
        }
    }
}

/// The lease, as long as it is kept.
#[derive(Debug)]
pub struct Leadership {
    term: u64,
    hold: Hold,
}

#[derive(Debug)]
enum Hold {
    /// The lock goes with the file.
    File { _locked: File },
    /// The end of the task that renews the key; dropping the other end makes it give the key back.
    Etcd { lost: oneshot::Receiver<()>, renewing: oneshot::Sender<()> },
}

impl Leadership {
    /// The term: higher than that of any leader before.
    pub fn term(&self) -> u64 {
        self.term
    }

    /// Waits until the lease is lost; a lock never is.
    pub async fn lost(&mut self) {
        match &mut self.hold {
            Hold::File { .. } => std::future::pending().await,
            Hold::Etcd { lost, .. } => _ = lost.await,
        }
    }

    /// Gives it back, so that a standby need not wait until it runs out.
    pub async fn give_up(self) {
        if let Hold::Etcd { lost, renewing } = self.hold {
            drop(renewing);
            // Without etcd it runs out by itself.
            drop(tokio::time::timeout(GIVING_UP, lost).await);
        }
    }
}

/// Waits until nobody else holds the lease, and takes it.
///
/// # Errors
/// Where the file cannot be opened or locked. That etcd does not answer is no error: it may come.
pub async fn acquire(place: &LeasePlace) -> io::Result<Leadership> {
    match place {
        LeasePlace::File(path) => of_file(path).await,
        LeasePlace::Etcd { servers, key } => Ok(etcd::acquire(servers, key).await),
    }
}

async fn of_file(path: &Path) -> io::Result<Leadership> {
    let mut file = File::options().create(true).truncate(false).read(true).write(true).open(path)?;
    let mut has_said_so = false;
    loop {
        match file.try_lock() {
            Ok(()) => break,
            Err(std::fs::TryLockError::Error(error)) => return Err(error),
            Err(std::fs::TryLockError::WouldBlock) => {
                if !std::mem::replace(&mut has_said_so, true) {
                    tracing::info!("standing by: another coordinator holds {}", path.display());
                }
                tokio::time::sleep(LOOK).await;
            }
        }
    }
    let mut last = String::new();
    file.read_to_string(&mut last)?;
    let term = next_term(&last);
    file.seek(SeekFrom::Start(0))?;
    file.set_len(0)?;
    file.write_all(format!("{term}\n").as_bytes())?;
    Ok(Leadership { term, hold: Hold::File { _locked: file } })
}

/// A term above the one that `last` names, if it names one.
fn next_term(last: &str) -> u64 {
    let last: u64 = last.trim().parse().unwrap_or(0);
    Clock::default().now().0.max(last.saturating_add(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_a_path_or_names_servers_and_a_key() {
        let place = "etcd://10.0.0.5:2379,10.0.0.6:2379/site/leader".parse::<LeasePlace>().unwrap();
        assert_eq!(place.to_string(), "etcd://10.0.0.5:2379,10.0.0.6:2379/site/leader");
        assert_eq!("/run/x".parse(), Ok(LeasePlace::File(PathBuf::from("/run/x"))));
        for wrong in ["etcd://", "etcd://10.0.0.5:2379", "etcd://10.0.0.5:2379/", "etcd://ten:2379/key"] {
            assert!(wrong.parse::<LeasePlace>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn who_stands_by_leads_when_the_file_is_let_go_and_its_term_is_higher_whatever_the_clock_says() {
        let folder = tempfile::tempdir().unwrap();
        let place = LeasePlace::File(folder.path().join("lease"));
        crate::block_on(async {
            let first = acquire(&place).await?;
            let standby = tokio::time::timeout(3 * LOOK, acquire(&place)).await;
            assert!(standby.is_err(), "it stands by");
            drop(first);
            let far = u64::MAX - 7;
            std::fs::write(folder.path().join("lease"), format!("{far}\n"))?;
            assert_eq!(acquire(&place).await?.term(), far + 1);
            Ok(())
        })
        .unwrap();
    }
}
