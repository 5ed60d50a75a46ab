//! Between a client library and the enforcer of its host: a connection is handed over to the kernel
//! path.
//!
//! The library opens one connection to the enforcer, at [`enforcer_beside`] the agent's socket, and
//! keeps it. Its first line is [`Handover::HELLO`]. Each further one names a connection of the
//! process, by its descriptor and cookie: `connection=9:45678 coflow=17.0.17 sends=40000000`. A
//! language that tells a program neither names its ends, the near one first:
//! `connection=10.0.0.1:4711>10.0.0.2:9000 coflow=17.0.17`, and `[2001:db8::1]:4711` over IPv6. The
//! enforcer looks for it in the process that the kernel says has connected, so no process can hand
//! over connections of another user. Its answers are a line each, in the order in which they were
//! asked: `ok 17.0.17`, or `no REASON`, and then the library carries orders out itself. When the
//! enforcer's end closes, all that was handed over is the library's again.

use core::fmt;
use core::str::FromStr;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use cavalcade_model::Bytes;

use crate::{CoflowKey, Endpoints};

/// A connection of the process that asks, which is to be a flow of a coflow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Handover {
    /// The connection.
    pub connection: Connection,
    /// The coflow.
    pub coflow: CoflowKey,
    /// The bytes that are sent, where that is known.
    pub sends: Option<Bytes>,
}

/// What a process calls a connection of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Connection {
    /// A descriptor: found at once.
    Descriptor {
        /// Its number in that process.
        number: i32,
        /// The socket's cookie, as SO_COOKIE says it: by the time that the line is read the number
        /// may be another socket's.
        cookie: u64,
    },
    /// Its ends: looked for among the process's descriptors. An IPv4 address of a socket for both
    /// families counts as IPv4.
    Ends(Endpoints),
}

impl Handover {
    /// The first line of a library.
    pub const HELLO: &str = "library";
    /// What the library sets `TCP_KEEPIDLE` to on a connection that it handed over, once the flow
    /// is over and the connection is not: the programs in the kernel set it back as it was. It is
    /// no time that a kernel without them takes.
    pub const RELEASE: i32 = 0x7e1e_a5ed;
}

impl fmt::Display for Handover {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { connection, coflow, sends } = self;
        write!(f, "connection={connection} coflow={coflow}")?;
        sends.map_or(Ok(()), |bytes| write!(f, " sends={}", bytes.0))
    }
}

impl FromStr for Handover {
    type Err = String;

    fn from_str(line: &str) -> Result<Self, String> {
        let wrong = || {
            format!(
                "'{line}': expected connection=DESCRIPTOR:COOKIE or connection=ADDRESS:PORT>ADDRESS:PORT, then coflow=KEY, \
                 and perhaps sends=BYTES"
            )
        };
        let mut words = line.split_whitespace();
        let connection = words.next().and_then(|word| word.strip_prefix("connection=")).ok_or_else(wrong)?;
        let coflow = words.next().and_then(|word| word.strip_prefix("coflow=")).ok_or_else(wrong)?;
        let sends = match words.next() {
            None => None,
            Some(word) => {
                let number = word.strip_prefix("sends=").and_then(|number| number.parse().ok());
                Some(Bytes(number.ok_or_else(wrong)?))
            }
        };
        if words.next().is_some() {
            return Err(wrong());
        }
        Ok(Self {
            connection: connection.parse().map_err(|()| wrong())?,
            coflow: coflow.parse().map_err(|()| wrong())?,
            sends,
        })
    }
}

impl fmt::Display for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Descriptor { number, cookie } => write!(f, "{number}:{cookie}"),
            Self::Ends(Endpoints { local, remote }) => write!(f, "{local}>{remote}"),
        }
    }
}

impl FromStr for Connection {
    type Err = ();

    fn from_str(word: &str) -> Result<Self, ()> {
        if let Some((local, remote)) = word.split_once('>') {
            let end = |text: &str| text.parse().map_err(|_| ());
            return Ok(Self::Ends(Endpoints { local: end(local)?, remote: end(remote)? }));
        }
        let (number, cookie) = word.split_once(':').ok_or(())?;
        let (number, cookie) = (number.parse().map_err(|_| ())?, cookie.parse().map_err(|_| ())?);
        Ok(Self::Descriptor { number, cookie })
    }
}

/// Where client libraries look for the enforcer that takes orders from the agent at this socket.
pub fn enforcer_beside(agent: &Path) -> PathBuf {
    let mut path = OsString::from(agent);
    path.push(".enforcer");
    path.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_handover_comes_back_from_its_line_and_nothing_else_is_one() {
        let names = ["9:45678", "10.0.0.1:4711>10.0.0.2:9000", "[2001:db8::1]:4711>[2001:db8::2]:9000"];
        for name in names {
            for sends in ["", " sends=40000000"] {
                let line = format!("connection={name} coflow=17.0.17{sends}");
                assert_eq!(line.parse::<Handover>().unwrap().to_string(), line);
            }
        }
        let ends = ["10.0.0.1>10.0.0.2:1", "10.0.0.1:1>", "1:1>2:2", "10.0.0.1:1>10.0.0.2:1>10.0.0.3:1"];
        for name in ["", "9", "9:-1"].into_iter().chain(ends) {
            let refusal = format!("connection={name} coflow=17.0.17").parse::<Handover>().unwrap_err();
            assert!(refusal.contains("expected connection=DESCRIPTOR:COOKIE or"), "{refusal}");
        }
        let all = "connection=9:1 coflow=17.0.17";
        for line in ["", "connection=9:1", "connection=9:1 coflow=17", "coflow=17.0.17 connection=9:1"] {
            assert!(line.parse::<Handover>().is_err(), "{line}");
        }
        assert!(format!("{all} sends=1 more=1").parse::<Handover>().is_err());
        assert!(format!("{all} sends=-1").parse::<Handover>().is_err());
    }

    #[test]
    fn addresses_are_read_as_each_language_writes_them() {
        let read = |text: &str| text.parse::<Connection>().unwrap();
        let long = read("[2001:db8:0:0:0:0:0:1]:1>[::ffff:10.0.0.2]:2");
        assert_eq!(long, read("[2001:db8::1]:1>[::ffff:a00:2]:2"));
    }

    #[test]
    fn the_enforcer_is_beside_its_agent() {
        assert_eq!(
            enforcer_beside(Path::new("/run/cavalcade.sock")),
            Path::new("/run/cavalcade.sock.enforcer")
        );
    }
}
