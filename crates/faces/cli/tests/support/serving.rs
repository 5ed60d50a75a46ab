//! Commands that serve, and questions to them.

use std::fs::File;
use std::io::{self, Read, Seek, Write};
use std::net::TcpStream;
use std::process::{Command, Stdio};

use serde_json::Value;

use super::{Place, Running};
use cavalcade_testing::free_port;

/// A command that serves, and is killed when the test ends.
pub(crate) struct Serving(pub(crate) Running, Option<Messages>);

impl Serving {
    /// Starts it; what it says of itself is shown if the test fails.
    pub(crate) fn start(place: &Place, arguments: &[&str]) -> Self {
        let messages = tempfile::tempfile().expect("there is room for a file");
        let theirs = messages.try_clone().expect("it is open");
        let started = Self::saying(place, arguments, theirs.into());
        Self(started.0, Some(Messages(messages)))
    }

    /// Starts it with standard error going to `messages`.
    pub(crate) fn saying(place: &Place, arguments: &[&str], messages: Stdio) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_cavalcade"));
        command.args(arguments).current_dir(place.path(".")).env("XDG_RUNTIME_DIR", place.path("."));
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(messages);
        Self(Running(command.spawn().expect("it starts")), None)
    }

    /// Asks it to end, and says with what code it did.
    pub(crate) fn interrupt(mut self) -> Option<i32> {
        let pid = self.0.0.id().to_string();
        assert!(Command::new("kill").args(["-INT", &pid]).status().expect("kill runs").success());
        self.0.0.wait().expect("it ends").code()
    }
}

/// What a process says, shown if the test fails.
pub(crate) struct Messages(File);

impl Messages {
    fn show(&mut self) -> io::Result<()> {
        let mut text = String::new();
        self.0.rewind()?;
        self.0.read_to_string(&mut text)?;
        write!(io::stderr(), "a process said:\n{text}")
    }
}

impl Drop for Messages {
    fn drop(&mut self) {
        if std::thread::panicking() {
            // The test has failed anyhow.
            let _ = self.show();
        }
    }
}

/// Returns what a command prints as JSON; `None` where it fails.
pub(crate) fn json(place: &Place, arguments: &[&str]) -> Option<Value> {
    let ran = place.run(arguments);
    (ran.code == 0).then(|| serde_json::from_str(&ran.out).expect("it is JSON"))
}

/// An address of this host at which nothing listens.
pub(crate) fn free_address() -> String {
    format!("127.0.0.1:{}", free_port())
}

/// The answer to `GET` there: its status, and what it says.
pub(crate) fn get(at: &str, path: &str) -> (u16, String) {
    let Ok(mut stream) = TcpStream::connect(at) else { return (0, String::new()) };
    let asked = stream
        .write_all(format!("GET {path} HTTP/1.1\r\nHost: here\r\nConnection: close\r\n\r\n").as_bytes());
    let mut text = String::new();
    let _ = asked.and_then(|()| stream.read_to_string(&mut text));
    let status = text.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or(0);
    (status, text.split_once("\r\n\r\n").map_or("", |(_, body)| body).to_owned())
}
