//! Running the built program, and comparing what it prints with files in `tests/golden`.
//!
//! `CAVALCADE_GOLDEN=rewrite cargo test -p cavalcade-cli` writes the files again; read the
//! difference before committing.

#![allow(dead_code, reason = "each test file uses its own part")]
#![allow(clippy::unwrap_used, reason = "a helper of tests fails by panicking")]

pub(crate) mod serving;

use std::ffi::OsStr;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// The result of a run of the program.
pub(crate) struct Ran {
    /// Its exit code.
    pub(crate) code: i32,
    /// Its standard output.
    pub(crate) out: String,
    /// Its standard error.
    pub(crate) err: String,
}

/// A process that is killed when the test ends.
pub(crate) struct Running(pub(crate) Child);

impl Drop for Running {
    fn drop(&mut self) {
        // It has ended where the test has waited for that.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A folder of its own for one test; the program runs in it, so that messages hold no machine's
/// paths.
pub(crate) struct Place(tempfile::TempDir);

/// Three coflows on three ports: a long one, and two short ones that wait behind it or do not.
pub(crate) const TRACE: &str = "3 3\n1 0 1 0 2 1:10 2:30\n2 100 2 0 1 1 2:8\n3 200 1 2 1 0:1\n";

impl Place {
    /// An empty folder.
    pub(crate) fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    /// A folder with [`TRACE`] in `trace.txt`.
    pub(crate) fn with_trace() -> Self {
        let place = Self::new();
        place.write("trace.txt", TRACE);
        place
    }

    /// The path of a file in it.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// Puts a file into it.
    pub(crate) fn write(&self, name: &str, content: impl AsRef<[u8]>) {
        fs::write(self.path(name), content).unwrap();
    }

    /// Takes a file out of it.
    pub(crate) fn read(&self, name: &str) -> Vec<u8> {
        fs::read(self.path(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
    }

    /// The names of everything in it, hidden or not.
    pub(crate) fn names(&self) -> Vec<String> {
        names(self.0.path())
    }

    /// Runs the program in it.
    pub(crate) fn run(&self, arguments: &[&str]) -> Ran {
        self.run_with_input(arguments, "")
    }

    /// Runs the program in it with `input` as its standard input.
    pub(crate) fn run_with_input(&self, arguments: &[impl AsRef<OsStr>], input: impl AsRef<[u8]>) -> Ran {
        let mut child = self
            .command()
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        // A program that does not want its input closes the pipe.
        let _ = child.stdin.take().unwrap().write_all(input.as_ref());
        let output = child.wait_with_output().unwrap();
        Ran {
            code: output.status.code().unwrap_or(-1),
            out: String::from_utf8(output.stdout).unwrap(),
            err: String::from_utf8(output.stderr).unwrap(),
        }
    }

    /// The program, to be run in it.
    pub(crate) fn command(&self) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_cavalcade"));
        command.current_dir(self.0.path()).env("NO_COLOR", "1").env_remove("COLUMNS");
        command
    }
}

/// The names of everything in a folder, sorted.
pub(crate) fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).unwrap();
    let mut names: Vec<String> =
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

/// Compares `text` with the golden file of that name, or writes it.
pub(crate) fn golden(name: &str, text: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(name);
    if std::env::var_os("CAVALCADE_GOLDEN").is_some_and(|value| value == "rewrite") {
        fs::write(&path, text).unwrap();
        return;
    }
    let expected = fs::read_to_string(&path).unwrap_or_default();
    assert!(
        expected == text,
        "{name} differs; CAVALCADE_GOLDEN=rewrite accepts this:\n{text}\n--- expected:\n{expected}"
    );
}
