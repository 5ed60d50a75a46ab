//! Child processes of tests.

use std::fmt::Display;
use std::io::{BufRead, BufReader, Lines as Read, Write};
use std::process::{Child, ChildStdout, Command, Stdio};

/// The environment variable that names a player's role.
const ROLE: &str = "CAVALCADE_TEST_ROLE";
/// Marks what a player says to its test: the test harness prints lines of its own, and the test's
/// name before the first of ours.
const VOICE: &str = "player: ";

/// The lines that a child process prints, as they come.
#[derive(Debug)]
pub struct Lines<R>(Read<BufReader<R>>);

impl<R: std::io::Read> Lines<R> {
    /// Reads one of the child's streams.
    pub fn new(output: R) -> Self {
        Self(BufReader::new(output).lines())
    }

    /// Returns what follows `mark` in the next line that has it; `None` if the child ends first.
    pub fn after(&mut self, mark: &str) -> Option<String> {
        self.find_map(|line| Some(line.split_once(mark)?.1.to_owned()))
    }
}

impl<R: std::io::Read> Iterator for Lines<R> {
    type Item = String;

    fn next(&mut self) -> Option<String> {
        self.0.next().map(|line| line.expect("a child prints text"))
    }
}

/// A process with a role in a test: the test's own binary again, running one test that acts by
/// [`role`]. It is killed when this is dropped.
#[derive(Debug)]
pub struct Player {
    child: Child,
    lines: Lines<ChildStdout>,
}

impl Player {
    /// Starts the test named `plays` in the role `role`. `before` is a command that ends by running
    /// its arguments (a shell with `exec "$0" "$@"`); without it the binary is started directly.
    ///
    /// # Panics
    /// If it cannot be started.
    pub fn start(before: Option<Command>, plays: &str, role: &str) -> Self {
        let binary = std::env::current_exe().expect("a test has a binary");
        let mut command = match before {
            Some(mut before) => {
                before.arg(binary);
                before
            }
            None => Command::new(binary),
        };
        command.args(["--exact", plays, "--nocapture"]).env(ROLE, role);
        let child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
        let mut child = child.expect("a test can start its own binary");
        let lines = Lines::new(child.stdout.take().expect("it is piped"));
        Self { child, lines }
    }

    /// The number of its process.
    pub fn number(&self) -> u32 {
        self.child.id()
    }

    /// Lets it go on from [`wait_for_go`].
    ///
    /// # Panics
    /// If it has ended.
    pub fn go(&mut self) {
        self.child.stdin.as_mut().expect("it is piped").write_all(b"go\n").expect("the player is there");
    }

    /// Returns what it says next.
    ///
    /// # Panics
    /// If it has ended.
    pub fn hears(&mut self) -> String {
        self.lines.after(VOICE).expect("the player is there")
    }

    /// Kills it, and waits until it is gone.
    ///
    /// # Panics
    /// If the kernel refuses.
    pub fn kill(&mut self) {
        self.child.kill().and_then(|()| self.child.wait()).expect("a child can be killed");
    }
}

impl Drop for Player {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The role of this process; `None` in the test itself.
pub fn role() -> Option<String> {
    std::env::var(ROLE).ok()
}

/// Says something to the test, as a player.
///
/// # Panics
/// If the test has ended.
pub fn say(what: impl Display) {
    let mut out = std::io::stdout().lock();
    writeln!(out, "{VOICE}{what}").and_then(|()| out.flush()).expect("the test listens");
}

/// Waits until the test lets this player go on.
///
/// # Panics
/// If there is no test.
pub fn wait_for_go() {
    std::io::stdin().lock().read_line(&mut String::new()).expect("the test tells");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plays() {
        match role().as_deref() {
            None => {}
            Some(role) => {
                say(format_args!("I am {role}"));
                wait_for_go();
                say("gone on");
            }
        }
    }

    #[test]
    fn a_player_says_what_it_plays_and_goes_on_when_told_to() {
        for before in [None, Some("exec \"$0\" \"$@\"")] {
            let before = before.map(|line| {
                let mut shell = Command::new("sh");
                shell.args(["-c", line]);
                shell
            });
            let mut player = Player::start(before, "child::tests::plays", "a tree");
            assert_eq!(player.hears(), "I am a tree");
            player.go();
            assert_eq!(player.hears(), "gone on");
            player.kill();
        }
    }

    #[test]
    fn lines_without_the_mark_are_passed_over() {
        let mut lines = Lines::new(&b"one\nserves at here\ntwo\n"[..]);
        assert_eq!(lines.after("at ").as_deref(), Some("here"));
        assert_eq!(lines.next().as_deref(), Some("two"));
        assert_eq!((lines.after("at "), lines.next()), (None, None));
    }
}
