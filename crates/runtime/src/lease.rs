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

mod certificates;
mod etcd;

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Duration;

use tokio::sync::oneshot;

use crate::clock::Clock;
pub use certificates::LeaseCertificates;

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
        /// Whether it is spoken to over TLS.
        is_secure: bool,
    },
}

/// `etcd://ADDRESS,ADDRESS/KEY`, or `etcds://…` over TLS, or the path of a file.
impl FromStr for LeasePlace {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (is_secure, etcd) = match (text.strip_prefix("etcd://"), text.strip_prefix("etcds://")) {
            (Some(etcd), _) => (false, etcd),
            (_, Some(etcd)) => (true, etcd),
            _ => return Ok(Self::File(PathBuf::from(text))),
        };
        let expected = || "expected etcds://ADDRESS:PORT,ADDRESS:PORT/KEY".to_owned();
        let (servers, key) = etcd.split_once('/').ok_or_else(expected)?;
        let servers: Result<Vec<SocketAddr>, _> = servers.split(',').map(str::parse).collect();
        match servers {
            Ok(servers) if !key.is_empty() => Ok(Self::Etcd { servers, key: key.to_owned(), is_secure }),
            _ => Err(expected()),
        }
    }
}

impl std::fmt::Display for LeasePlace {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::File(path) => write!(f, "{}", path.display()),
            Self::Etcd { servers, key, is_secure } => {
                let servers: Vec<String> = servers.iter().map(SocketAddr::to_string).collect();
                write!(f, "{}://{}/{key}", if *is_secure { "etcds" } else { "etcd" }, servers.join(","))
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

/// Waits until nobody else holds the lease, and takes it; from an etcd that is spoken to over TLS by means of
/// `certificates`.
///
/// # Errors
/// Where the file cannot be opened or locked, or certificates are missing. That etcd does not answer is no error: it may
/// come.
pub async fn acquire(place: &LeasePlace, certificates: Option<&LeaseCertificates>) -> io::Result<Leadership> {
    match (place, certificates) {
        (LeasePlace::File(path), _) => of_file(path).await,
        (LeasePlace::Etcd { is_secure: true, .. }, None) => {
            Err(io::Error::new(io::ErrorKind::InvalidInput, "etcd over TLS takes certificates"))
        }
        (LeasePlace::Etcd { servers, key, is_secure }, certificates) => {
            Ok(etcd::acquire(servers, key, certificates.filter(|_| *is_secure)).await)
        }
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
        for text in ["etcd://10.0.0.5:2379,10.0.0.6:2379/site/leader", "etcds://10.0.0.5:2379/leader"] {
            assert_eq!(text.parse::<LeasePlace>().unwrap().to_string(), text);
        }
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
            let first = acquire(&place, None).await?;
            let standby = tokio::time::timeout(3 * LOOK, acquire(&place, None)).await;
            assert!(standby.is_err(), "it stands by");
            drop(first);
            let far = u64::MAX - 7;
            std::fs::write(folder.path().join("lease"), format!("{far}\n"))?;
            assert_eq!(acquire(&place, None).await?.term(), far + 1);
            Ok(())
        })
        .unwrap();
    }
}
