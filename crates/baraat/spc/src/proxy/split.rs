//! Where in a client's bytes a new task begins.
//!
//! - A *burst* is what a client says before it hears anything: the first bytes after an answer
//!   begin the next one. Right for protocols of question and answer, whatever they are.
//! - By the *opaque* of memcached's meta commands (`O123`): the client says itself which requests
//!   are one task. To find the next command the length of a value that is stored must be known, so
//!   `ms` and the classic storage commands are read as well; anything else is a line. Commands
//!   without an opaque belong to the task before them.

/// The beginning of a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Begins {
    /// The next id of the proxy's own source.
    Next,
    /// The id that the client has given.
    Named(u32),
}

/// A longer line is no command of memcached's; it is passed on unread.
const LONGEST_LINE: usize = 2_048;

/// Cuts one client's bytes at the begins of tasks.
#[derive(Debug)]
pub(crate) enum Splitter {
    /// All belong to one task.
    Whole,
    /// A burst is a task.
    Burst,
    /// Requests with one opaque are a task.
    Opaque(Commands),
}

/// The state of a reader of memcached's protocol.
#[derive(Debug, Default)]
pub(crate) struct Commands {
    line: Vec<u8>,
    /// Bytes of a value that are still to come.
    value: usize,
    /// True inside a line that is too long to be a command.
    unread: bool,
    current: Option<u32>,
}

/// Bytes that go together, and what they begin.
pub(crate) type Run = (Option<Begins>, Vec<u8>);

impl Splitter {
    /// Takes bytes of the client, which has heard something since the last ones if `answered`. What
    /// is not known to be a whole command yet stays here.
    pub(crate) fn take(&mut self, bytes: &[u8], answered: bool) -> Vec<Run> {
        match self {
            Self::Whole => vec![(None, bytes.to_vec())],
            Self::Burst => vec![(answered.then_some(Begins::Next), bytes.to_vec())],
            Self::Opaque(commands) => commands.take(bytes),
        }
    }

    /// Gives out what was kept, at the client's end.
    pub(crate) fn finish(&mut self) -> Vec<u8> {
        match self {
            Self::Opaque(commands) => std::mem::take(&mut commands.line),
            Self::Whole | Self::Burst => Vec::new(),
        }
    }
}

impl Commands {
    fn take(&mut self, mut bytes: &[u8]) -> Vec<Run> {
        let mut runs: Vec<Run> = Vec::new();
        let mut put = |begins: Option<Begins>, bytes: &[u8]| match runs.last_mut() {
            Some((_, run)) if begins.is_none() => run.extend(bytes),
            _ => runs.push((begins, bytes.to_vec())),
        };
        while !bytes.is_empty() {
            if self.value > 0 {
                let (value, rest) = bytes.split_at(self.value.min(bytes.len()));
                self.value -= value.len();
                put(None, value);
                bytes = rest;
                continue;
            }
            let end = bytes.iter().position(|&byte| byte == b'\n').map(|at| at + 1);
            let (piece, rest) = bytes.split_at(end.unwrap_or(bytes.len()));
            bytes = rest;
            self.line.extend(piece);
            self.unread |= self.line.len() > LONGEST_LINE;
            if self.unread {
                put(None, &self.line);
                self.line.clear();
                self.unread = end.is_none();
            } else if end.is_some() {
                let begins = self.read_command();
                put(begins, &self.line);
                self.line.clear();
            }
        }
        runs
    }

    /// Reads the line that is complete: what it begins, and how long the value is that follows.
    fn read_command(&mut self) -> Option<Begins> {
        let text = String::from_utf8_lossy(&self.line);
        let words: Vec<&str> = text.split_ascii_whitespace().collect();
        let length = |at: usize| words.get(at).and_then(|word| word.parse::<usize>().ok());
        let value = match words.first().copied() {
            Some("ms") => length(2),
            Some("set" | "add" | "replace" | "append" | "prepend" | "cas") => length(4),
            _ => None,
        };
        self.value = value.map_or(0, |length| length.saturating_add(2));
        let is_meta = matches!(words.first(), Some(&("mg" | "ms" | "md" | "ma" | "me")));
        let opaque = words.iter().skip(2).find_map(|word| word.strip_prefix('O')?.parse::<u32>().ok());
        let opaque = opaque.filter(|_| is_meta)?;
        (self.current.replace(opaque) != Some(opaque)).then_some(Begins::Named(opaque))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Cuts text given in pieces of a size; returns what begins each run, with its text.
    fn cut(text: &str, piece: usize) -> Vec<(Option<Begins>, String)> {
        let mut splitter = Splitter::Opaque(Commands::default());
        let mut all: Vec<(Option<Begins>, String)> = Vec::new();
        let pieces =
            text.as_bytes().chunks(piece).flat_map(|bytes| splitter.take(bytes, true)).collect::<Vec<_>>();
        for (begins, bytes) in pieces.into_iter().chain([(None, splitter.finish())]) {
            let text = String::from_utf8(bytes).unwrap();
            match all.last_mut() {
                Some((_, last)) if begins.is_none() => last.push_str(&text),
                _ => all.push((begins, text)),
            }
        }
        all
    }

    #[test]
    fn commands_are_cut_by_their_opaque_wherever_packets_end() {
        let text = "get x\r\nmg a v O7\r\nmg b v O7\r\nms c 9 T0 O8\r\nmg d O9\r\n\r\nmg e v\r\nset f 0 0 6\r\nmg O5\r\n\r\nmg g O8 v\r\nmn\r\n";
        let expected = [
            (None, "get x\r\n".to_owned()),
            (Some(Begins::Named(7)), "mg a v O7\r\nmg b v O7\r\n".to_owned()),
            // What is stored looks like a command and is none.
            (
                Some(Begins::Named(8)),
                "ms c 9 T0 O8\r\nmg d O9\r\n\r\nmg e v\r\nset f 0 0 6\r\nmg O5\r\n\r\nmg g O8 v\r\nmn\r\n"
                    .to_owned(),
            ),
        ];
        for piece in 1..text.len() {
            assert_eq!(cut(text, piece), expected, "in pieces of {piece}");
        }
    }

    #[test]
    fn what_is_no_command_passes_unread_and_nothing_is_kept_at_the_end() {
        let long = format!("mg {} O7\r\nmg a O8\r\nunfinished O9", "k".repeat(5_000));
        for piece in [1, 100, 3_000, 10_000] {
            let runs = cut(&long, piece);
            assert_eq!(runs.iter().map(|(_, text)| text.as_str()).collect::<String>(), long);
            assert_eq!(runs.last().unwrap().0, Some(Begins::Named(8)), "in pieces of {piece}");
        }
        // A length that cannot be is no length.
        assert_eq!(cut("ms a 99999999999999999999 O1\r\nmg b O2\r\n", 7).len(), 2);
    }

    #[test]
    fn a_burst_begins_with_the_first_bytes_after_an_answer() {
        let mut splitter = Splitter::Burst;
        let begins = [true, false, true].map(|answered| splitter.take(b"x", answered)[0].0);
        assert_eq!(begins, [Some(Begins::Next), None, Some(Begins::Next)]);
    }
}
