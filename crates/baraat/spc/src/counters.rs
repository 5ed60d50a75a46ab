//! Task counters that a host's agent holds: each user's processes get ids from that user's counters
//! alone.
//!
//! A counter belongs to the host, not to a process: two programs that number their tasks from the
//! same counter are served in the order in which they asked. The agent listens on a Unix socket and
//! asks the kernel which user is at the other end, so a name is no secret and needs none. The user
//! root may use every counter.
//!
//! # What is said
//! A line with the counter's name asks for an id; the answer is a line with the id, or with `!` and
//! a reason. A connection may ask any number of times. Both have 255 bytes at most.
//!
//! # Invariants
//! - No id is given twice, also where the agent is killed: with a file ([`Counters::kept_in`]) ids
//!   are set aside in blocks before the first of a block is given, and what was set aside and not
//!   given is skipped after a restart.
//! - A user has at most [`MOST_CONNECTIONS`] connections; one that says nothing for [`SILENCE`] is
//!   closed.

use std::collections::BTreeMap;
use std::fmt;
use std::fs;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rustix::net::sockopt::{Timeout, set_socket_timeout, socket_peercred};
use rustix::net::{self, AddressFamily, SocketAddrUnix, SocketFlags, SocketType};

use crate::tasks::{IdSource, TaskCounter};

/// The most connections of one user.
pub const MOST_CONNECTIONS: usize = 64;
/// The time for which a connection may say nothing.
pub const SILENCE: Duration = Duration::from_secs(60);
/// The longest that a program waits for an agent that hangs, to connect and for an answer each.
const PATIENCE: Duration = Duration::from_secs(5);
/// Ids that are set aside at once.
const BLOCK: u64 = 1_000;
const LONGEST_LINE: u64 = 255;
const ROOT: u32 = 0;

/// A counter as it is configured: `front:first=1,step=4,users=1000+1001` or
/// `sync:background,users=33`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CounterSetup {
    /// Its name.
    pub name: String,
    /// The first id, counted from the begin of its range.
    pub first: u32,
    /// By how much each next id is larger.
    pub step: u32,
    /// True if its tasks go behind all others.
    pub background: bool,
    /// The users that may use it, by number.
    pub users: Vec<u32>,
}

impl FromStr for CounterSetup {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let expected = |what: &str| format!("{what}; write it as front:first=1,step=4,users=1000+1001");
        let (name, rest) = text.split_once(':').unwrap_or((text, ""));
        let is_of_name = |letter: char| letter.is_ascii_alphanumeric() || "-_.".contains(letter);
        if name.is_empty() || name.len() > 32 || !name.chars().all(is_of_name) {
            return Err(expected("a counter's name has 1 to 32 letters, digits or -_."));
        }
        let mut setup =
            Self { name: name.to_owned(), first: 1, step: 1, background: false, users: Vec::new() };
        for part in rest.split(',').filter(|part| !part.is_empty()) {
            let number =
                |value: &str| value.parse::<u32>().map_err(|_| expected(&format!("{value} is no number")));
            match part.split_once('=') {
                None if part == "background" => setup.background = true,
                Some(("first", value)) => setup.first = number(value)?,
                Some(("step", value)) => setup.step = number(value)?,
                Some(("users", value)) => {
                    setup.users = value.split('+').map(number).collect::<Result<_, _>>()?;
                }
                _ => return Err(expected(&format!("a counter has no {part}"))),
            }
        }
        if setup.step == 0 || setup.first >= TaskCounter::BACKGROUND {
            return Err(expected("step begins at 1, and first is below 2147483648"));
        }
        Ok(setup)
    }
}

/// The reason for which no id is given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The user may use no counter of that name.
    NotYours {
        /// The name.
        name: String,
        /// The user.
        user: u32,
        /// The counters that the user may use.
        yours: Vec<String>,
    },
    /// The counter's range is used up.
    UsedUp,
    /// The numbers given cannot be kept for after a restart.
    NotKept(String),
}

impl fmt::Display for Refusal {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotYours { name, user, yours } if yours.is_empty() => {
                write!(
                    out,
                    "user {user} has no counter {name}, nor any other; the agent's --task-counter names users"
                )
            }
            Self::NotYours { name, user, yours } => {
                write!(out, "user {user} has no counter {name}, but {}", yours.join(", "))
            }
            Self::UsedUp => write!(out, "the counter has reached the end of its range; begin a new range"),
            Self::NotKept(why) => write!(out, "the agent cannot keep what it has given: {why}"),
        }
    }
}

struct Kept {
    /// None once its range is used up.
    counter: Option<TaskCounter>,
    users: Vec<u32>,
    /// Ids below may be given.
    aside: u64,
    step: u64,
    last: u64,
}

/// The counters of a host.
pub struct Counters {
    counters: Mutex<BTreeMap<String, Kept>>,
    file: Option<PathBuf>,
}

impl fmt::Debug for Counters {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Counters").field("file", &self.file).finish_non_exhaustive()
    }
}

impl Counters {
    /// Makes counters that begin again at their first ids with each process.
    ///
    /// # Errors
    /// If two have one name.
    pub fn new(setups: &[CounterSetup]) -> io::Result<Self> {
        Self::begin(setups, &BTreeMap::new(), None)
    }

    /// Makes counters that go on where the file says, and keep there what they have set aside.
    ///
    /// # Errors
    /// If two have one name, or the file cannot be read.
    pub fn kept_in(setups: &[CounterSetup], file: &Path) -> io::Result<Self> {
        let text = match fs::read_to_string(file) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => String::new(),
            read => read?,
        };
        let mut aside = BTreeMap::new();
        for line in text.lines() {
            let entry =
                line.split_once(' ').and_then(|(name, next)| Some((name.to_owned(), next.parse().ok()?)));
            let wrong = || {
                let text = format!("{}: '{line}' is not a counter's name and a number", file.display());
                io::Error::new(io::ErrorKind::InvalidData, text)
            };
            let (name, next): (String, u64) = entry.ok_or_else(wrong)?;
            aside.insert(name, next);
        }
        Self::begin(setups, &aside, Some(file.to_owned()))
    }

    fn begin(
        setups: &[CounterSetup],
        aside: &BTreeMap<String, u64>,
        file: Option<PathBuf>,
    ) -> io::Result<Self> {
        let mut counters = BTreeMap::new();
        for setup in setups {
            let (low, last) = match setup.background {
                true => (TaskCounter::BACKGROUND, u32::MAX),
                false => (0, TaskCounter::BACKGROUND - 1),
            };
            let first = u64::from(low) + u64::from(setup.first);
            let next = aside.get(&setup.name).copied().unwrap_or(first).max(first);
            let next_id = u32::try_from(next).ok().filter(|next| *next <= last);
            let kept = Kept {
                counter: next_id.map(|next| TaskCounter::within(next..=last, setup.step)),
                users: setup.users.clone(),
                aside: if file.is_some() { next } else { u64::MAX },
                step: u64::from(setup.step),
                last: u64::from(last),
            };
            if counters.insert(setup.name.clone(), kept).is_some() {
                let text = format!("two task counters are named {}; give each its own name", setup.name);
                return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
            }
        }
        Ok(Self { counters: Mutex::new(counters), file })
    }

    /// Gives the next id of a counter to a user.
    ///
    /// # Errors
    /// If the user may not use it, it is used up, or what is set aside cannot be kept.
    pub fn next_id(&self, user: u32, name: &str) -> Result<u32, Refusal> {
        let mut counters = self.counters.lock().unwrap_or_else(PoisonError::into_inner);
        let may = |kept: &Kept| user == ROOT || kept.users.contains(&user);
        if !counters.get(name).is_some_and(may) {
            let yours = counters.iter().filter(|(_, kept)| may(kept)).map(|(name, _)| name.clone()).collect();
            return Err(Refusal::NotYours { name: name.to_owned(), user, yours });
        }
        let kept = counters.get_mut(name).expect("it was found above");
        let id = kept.counter.as_ref().and_then(|counter| counter.next_id().ok()).ok_or(Refusal::UsedUp)?;
        let before = kept.aside;
        if u64::from(id) >= before {
            kept.aside = u64::from(id) + BLOCK * kept.step;
            if let Err(error) = self.keep(&counters) {
                if let Some(kept) = counters.get_mut(name) {
                    kept.aside = before;
                }
                return Err(Refusal::NotKept(error.to_string()));
            }
        }
        Ok(id)
    }

    /// Writes what is set aside; the file appears whole or stays as it was.
    fn keep(&self, counters: &BTreeMap<String, Kept>) -> io::Result<()> {
        let Some(file) = &self.file else { return Ok(()) };
        let line =
            |(name, kept): (&String, &Kept)| format!("{name} {}\n", kept.aside.min(kept.last + kept.step));
        let text: String = counters.iter().map(line).collect();
        let aside = file.with_extension("new");
        let mut out = fs::File::create(&aside)?;
        out.write_all(text.as_bytes())?;
        out.sync_all()?;
        fs::rename(&aside, file)
    }

    /// Answers processes at a socket for ever.
    ///
    /// # Errors
    /// If no more connections can be accepted.
    pub fn serve(self: &Arc<Self>, listener: &UnixListener) -> io::Result<()> {
        let connections: Arc<Mutex<BTreeMap<u32, usize>>> = Arc::default();
        loop {
            let (stream, _) = listener.accept()?;
            let Ok(peer) = socket_peercred(&stream) else { continue };
            let user = peer.uid.as_raw();
            let mut open = connections.lock().unwrap_or_else(PoisonError::into_inner);
            let count = open.entry(user).or_default();
            if *count >= MOST_CONNECTIONS {
                let _ = writeln!(&stream, "!user {user} has {MOST_CONNECTIONS} connections already");
                continue;
            }
            *count += 1;
            drop(open);
            let (counters, open) = (Arc::clone(self), Arc::clone(&connections));
            std::thread::spawn(move || {
                // A connection that fails ends alone.
                let _ = counters.answer(&stream, user);
                let mut open = open.lock().unwrap_or_else(PoisonError::into_inner);
                if let Some(count) = open.get_mut(&user) {
                    *count -= 1;
                }
            });
        }
    }

    fn answer(&self, stream: &UnixStream, user: u32) -> io::Result<()> {
        stream.set_read_timeout(Some(SILENCE))?;
        stream.set_write_timeout(Some(SILENCE))?;
        let mut lines = BufReader::new(stream);
        loop {
            let Some(name) = line(&mut lines)? else { return Ok(()) };
            let answer = match self.next_id(user, &name) {
                Ok(id) => format!("{id}\n"),
                Err(refusal) => format!("!{refusal}\n"),
            };
            let mut out = stream;
            out.write_all(answer.as_bytes())?;
        }
    }
}

/// Reads a line without its end; `None` where there is no further one.
fn line(from: &mut impl BufRead) -> io::Result<Option<String>> {
    let mut line = String::new();
    let length = from.take(LONGEST_LINE + 1).read_line(&mut line)?;
    if length == 0 {
        return Ok(None);
    }
    let end = line.pop();
    if end == Some('\n') { Ok(Some(line)) } else { Err(io::ErrorKind::InvalidData.into()) }
}

/// A counter of this host's agent, as a program uses it.
#[derive(Debug)]
pub struct AgentCounter {
    socket: PathBuf,
    name: String,
    connection: Mutex<Option<BufReader<UnixStream>>>,
}

impl AgentCounter {
    /// Names a counter and the socket of the agent that holds it. The first id that is asked for
    /// connects.
    pub fn new(socket: impl Into<PathBuf>, name: impl Into<String>) -> Self {
        Self { socket: socket.into(), name: name.into(), connection: Mutex::new(None) }
    }

    fn ask(&self, connection: &mut BufReader<UnixStream>) -> io::Result<u32> {
        connection.get_mut().write_all(format!("{}\n", self.name).as_bytes())?;
        let answer = line(connection)?.ok_or(io::ErrorKind::UnexpectedEof)?;
        match (answer.strip_prefix('!'), answer.parse()) {
            (Some(reason), _) => Err(io::Error::new(io::ErrorKind::PermissionDenied, reason)),
            (None, Ok(id)) => Ok(id),
            (None, Err(_)) => {
                Err(io::Error::new(io::ErrorKind::InvalidData, format!("'{answer}' is no task-id")))
            }
        }
    }

    fn connect(&self) -> io::Result<BufReader<UnixStream>> {
        let stream = connect(&self.socket, PATIENCE).map_err(|error| {
            let text = format!("no agent holds task counters at {}: {error}", self.socket.display());
            io::Error::new(error.kind(), text)
        })?;
        stream.set_read_timeout(Some(PATIENCE))?;
        Ok(BufReader::new(stream))
    }
}

/// Tells whether the agent has answered. Where it has not, an answer may still come, to a question
/// that is over.
fn is_answer(answer: &io::Result<u32>) -> bool {
    answer.as_ref().map_or_else(|error| error.kind() == io::ErrorKind::PermissionDenied, |_| true)
}

/// Connects and writes within `patience`: where an agent hangs and others wait for it, connecting
/// waits without end.
fn connect(path: &Path, patience: Duration) -> io::Result<UnixStream> {
    let socket = net::socket_with(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
    set_socket_timeout(&socket, Timeout::Send, Some(patience))?;
    net::connect(&socket, &SocketAddrUnix::new(path)?)?;
    Ok(socket.into())
}

impl IdSource for AgentCounter {
    fn next_id(&self) -> io::Result<u32> {
        if self.name.contains('\n') || self.name.len() as u64 > LONGEST_LINE - 1 {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "that is no counter's name"));
        }
        let mut kept = self.connection.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(mut connection) = kept.take() {
            let answer = self.ask(&mut connection);
            let hangs = answer.as_ref().is_err_and(|error| error.kind() == io::ErrorKind::WouldBlock);
            // Else it was closed for its silence, or the agent is another one now.
            if is_answer(&answer) || hangs {
                *kept = is_answer(&answer).then_some(connection);
                return answer;
            }
        }
        let mut connection = self.connect()?;
        let answer = self.ask(&mut connection);
        *kept = is_answer(&answer).then_some(connection);
        answer
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn setups(texts: &[&str]) -> Vec<CounterSetup> {
        texts.iter().map(|text| text.parse().unwrap()).collect()
    }

    #[test]
    fn counters_are_read_or_refused_with_an_example() {
        let read: CounterSetup = "front-2:first=3,step=4,users=1000+0,background".parse().unwrap();
        assert_eq!((read.first, read.step, read.background, &read.users[..]), (3, 4, true, &[1000, 0][..]));
        for wrong in ["", "a b", "x:step=0", "x:first=2147483648", "x:users=me", "x:colour=1", "x:users="] {
            assert!(wrong.parse::<CounterSetup>().unwrap_err().contains("users=1000+1001"), "{wrong}");
        }
    }

    #[test]
    fn a_user_gets_ids_from_its_own_counters_and_root_from_all() {
        let counters =
            Counters::new(&setups(&["a:first=1,step=4,users=7", "b:background,users=8+7", "c"])).unwrap();
        assert_eq!([counters.next_id(7, "a"), counters.next_id(7, "a")], [Ok(1), Ok(5)]);
        assert_eq!(counters.next_id(8, "b"), Ok((1 << 31) + 1));
        let refused = counters.next_id(8, "a").unwrap_err();
        assert_eq!(refused.to_string(), "user 8 has no counter a, but b");
        assert!(counters.next_id(9, "c").unwrap_err().to_string().contains("--task-counter"));
        assert_eq!(counters.next_id(ROOT, "a"), Ok(9));
        assert!(Counters::new(&setups(&["a", "a"])).is_err());
    }

    #[test]
    fn no_id_is_given_twice_by_the_next_process_and_a_broken_file_is_refused() {
        let folder = std::env::temp_dir().join(format!("cavalcade-counters-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let file = folder.join("counters");
        let setups = setups(&["a:first=1,step=4,users=7", "b:first=2147483647,users=7"]);
        let mut given = Vec::new();
        for _ in 0..3 {
            let counters = Counters::kept_in(&setups, &file).unwrap();
            given.extend((0..1_500).map(|_| counters.next_id(7, "a").unwrap()));
        }
        assert!(given.windows(2).all(|pair| pair[0] < pair[1]));
        assert!(given.iter().all(|id| id % 4 == 1), "each stays in its counter's part");
        let last = Counters::kept_in(&setups, &file).unwrap();
        assert_eq!((last.next_id(7, "b"), last.next_id(7, "b")), (Ok(2_147_483_647), Err(Refusal::UsedUp)));
        let again = Counters::kept_in(&setups, &file).unwrap();
        assert_eq!(again.next_id(7, "b"), Err(Refusal::UsedUp));
        fs::write(&file, "a many\n").unwrap();
        assert!(Counters::kept_in(&setups, &file).unwrap_err().to_string().contains("'a many'"));
        fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn an_agent_that_hangs_is_given_up_also_where_others_wait_for_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("counters");
        let listener = UnixListener::bind(&path).unwrap();
        // Room for one that waits.
        net::listen(&listener, 0).unwrap();
        let patience = Duration::from_millis(20);
        let _waits = connect(&path, patience).unwrap();
        assert_eq!(connect(&path, patience).unwrap_err().kind(), io::ErrorKind::WouldBlock);
    }
}
