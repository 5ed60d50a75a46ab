//! Between a client library and the enforcer of its host: a connection is handed over to the kernel path.
//!
//! The library opens one connection to the enforcer, at [`enforcer_beside`] the agent's socket, and keeps it. Its first line is
//! [`Handover::HELLO`]. Each further one names a connection of the process:
//! `connection=9:45678 coflow=17.0.17 sends=40000000`. The enforcer looks the descriptor up in the process that the kernel says has
//! connected, so no process can hand over connections of another user. Its answers are a line each, in the order in which they were
//! asked: `ok 17.0.17`, or `no REASON`, and then the library carries orders out itself. When the enforcer's end closes, all that was
//! handed over is the library's again.

use core::fmt;
use core::str::FromStr;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use cavalcade_model::Bytes;

use crate::CoflowKey;

/// A connection of the process that asks, which is to be a flow of a coflow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Handover {
    /// The number of its descriptor in that process.
    pub descriptor: i32,
    /// Its cookie, as SO_COOKIE says it: by the time that the line is read the number may be another socket's.
    pub cookie: u64,
    /// The coflow.
    pub coflow: CoflowKey,
    /// The bytes that are sent, where that is known.
    pub sends: Option<Bytes>,
}

impl Handover {
    /// The first line of a library.
    pub const HELLO: &str = "library";
}

impl fmt::Display for Handover {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { descriptor, cookie, coflow, sends } = self;
        write!(f, "connection={descriptor}:{cookie} coflow={coflow}")?;
        sends.map_or(Ok(()), |bytes| write!(f, " sends={}", bytes.0))
    }
}

impl FromStr for Handover {
    type Err = String;

    fn from_str(line: &str) -> Result<Self, String> {
        let wrong =
            || format!("'{line}': expected connection=DESCRIPTOR:COOKIE coflow=KEY, and perhaps sends=BYTES");
        let mut words = line.split_whitespace();
        let (descriptor, cookie) = words
            .next()
            .and_then(|word| word.strip_prefix("connection=")?.split_once(':'))
            .ok_or_else(wrong)?;
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
            descriptor: descriptor.parse().map_err(|_| wrong())?,
            cookie: cookie.parse().map_err(|_| wrong())?,
            coflow: coflow.parse().map_err(|()| wrong())?,
            sends,
        })
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
        let all = "connection=9:45678 coflow=17.0.17";
        for line in [all.to_owned(), format!("{all} sends=40000000")] {
            assert_eq!(line.parse::<Handover>().unwrap().to_string(), line);
        }
        for line in ["", "connection=9", "connection=9:-1 coflow=17.0.17", "connection=9:1 coflow=17"] {
            assert!(line.parse::<Handover>().unwrap_err().contains("connection=DESCRIPTOR:COOKIE"), "{line}");
        }
        assert!(format!("{all} sends=1 more=1").parse::<Handover>().is_err());
        assert!(format!("{all} sends=-1").parse::<Handover>().is_err());
    }

    #[test]
    fn the_enforcer_is_beside_its_agent() {
        assert_eq!(
            enforcer_beside(Path::new("/run/cavalcade.sock")),
            Path::new("/run/cavalcade.sock.enforcer")
        );
    }
}
