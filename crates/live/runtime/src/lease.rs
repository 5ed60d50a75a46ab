//! Who leads: of several coordinators with one lease, one serves and the others stand by.
//!
//! The lease is a lock on a file where all of them run on one host, and a key in etcd where they do
//! not. Either also keeps the last *term* that was given out. Who gets the lease takes the time in
//! nanoseconds as its term, or one more than the last where a clock was set back; so terms ascend
//! whatever clocks say, and agents, which obey the highest, let go of a former leader that does not
//! know yet that it is one.
//!
//! # What fails
//! | what | then |
//! |---|---|
//! | the leader's process | the lock goes with it at once; the key after its time to live |
//! | the leader hangs | the lock is taken from it when its beat has stopped for three seconds; the key runs out |
//! | its connection to etcd | it stops serving before the key runs out, and stands by |
//! | the file's disk or folder | who leads goes on while its file is there; who stands by says so and tries again |
//! | etcd itself | who leads cannot go on for longer than that; agents go on as plain TCP after their lease |

mod certificates;
mod etcd;
mod file;

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use tokio::sync::oneshot;

use crate::clock::Clock;
pub use certificates::LeaseCertificates;

/// The longest time to give it back.
const GIVING_UP: Duration = Duration::from_millis(500);

/// The place of a lease.
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
        /// True if it is spoken to over TLS.
        is_secure: bool,
    },
}

impl LeasePlace {
    /// Looks whether there can be a lease there, as far as that is a question of this host: before
    /// a component starts this is most likely a mistake in its name, and later it is not.
    ///
    /// # Errors
    /// If the file cannot be opened.
    pub fn check(&self) -> io::Result<()> {
        match self {
            Self::File(path) => file::check(path),
            Self::Etcd { .. } => Ok(()),
        }
    }
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
    /// Ends with the task that renews the lease; none once that is known.
    lost: Option<oneshot::Receiver<()>>,
    /// Dropping it makes the task give the lease back.
    renewing: oneshot::Sender<()>,
}

impl Leadership {
    /// The term: higher than that of any leader before.
    pub fn term(&self) -> u64 {
        self.term
    }

    /// Waits until the lease is lost. May be called again after that.
    pub async fn lost(&mut self) {
        if let Some(lost) = &mut self.lost {
            let _ = lost.await;
            self.lost = None;
        }
    }

    /// Gives it back, so that a standby need not wait until it runs out.
    pub async fn give_up(self) {
        drop(self.renewing);
        if let Some(lost) = self.lost {
            // Without etcd it runs out by itself.
            drop(tokio::time::timeout(GIVING_UP, lost).await);
        }
    }
}

/// Waits until the lease is free, and takes it; from an etcd that is spoken to over TLS by means of
/// `certificates`. Its term is above `above`, and above that of any leader before.
///
/// # Errors
/// If certificates are missing. That etcd does not answer, or a disk is full, is no error: it may
/// come, or get room.
pub async fn acquire(
    place: &LeasePlace,
    certificates: Option<&LeaseCertificates>,
    above: u64,
) -> io::Result<Leadership> {
    match (place, certificates) {
        (LeasePlace::File(path), _) => Ok(file::acquire(path, above).await),
        (LeasePlace::Etcd { is_secure: true, .. }, None) => {
            Err(io::Error::new(io::ErrorKind::InvalidInput, "etcd over TLS takes certificates"))
        }
        (LeasePlace::Etcd { servers, key, is_secure }, certificates) => {
            Ok(etcd::acquire(servers, key, certificates.filter(|_| *is_secure), above).await)
        }
    }
}

/// Warns of what has not been said just before.
fn log_once(said: &mut Option<String>, text: String) {
    if said.as_ref() != Some(&text) {
        tracing::warn!("{text}");
        *said = Some(text);
    }
}

/// A term above the one that the first line of `last` names, if it names one, and above `above`.
fn next_term(last: &str, above: u64) -> u64 {
    let last: u64 = last.lines().next().and_then(|line| line.trim().parse().ok()).unwrap_or(0);
    Clock::default().now().0.max(last.max(above).saturating_add(1))
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
}
