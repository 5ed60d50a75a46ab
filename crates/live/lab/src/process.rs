//! Processes of the lab: started where they belong, and gone when the lab is.

use std::fs::File;
use std::io;
use std::os::unix::net::UnixDatagram;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal};

use crate::error::LabError;
use crate::namespaces::path_of;

/// The time within which a service says that it is up.
const PATIENCE: Duration = Duration::from_secs(20);
/// The time within which a service that was asked to has ended.
const FAREWELL: Duration = Duration::from_secs(5);

/// A process that is killed when it is dropped, and by the kernel when the lab dies.
#[derive(Debug)]
pub(crate) struct Process {
    what: String,
    log: PathBuf,
    child: Child,
}

/// The command that starts a service.
pub(crate) struct Launch<'a> {
    /// Its name in messages and of its log.
    pub(crate) what: String,
    /// The program.
    pub(crate) program: &'a Path,
    /// The network namespace that it belongs into.
    pub(crate) namespace: Option<&'a str>,
    /// The folder of logs.
    pub(crate) folder: &'a Path,
}

impl Launch<'_> {
    /// Starts a service with `arguments` and waits until it says that it is up, as to a service
    /// manager.
    pub(crate) fn service(&self, arguments: &[String]) -> Result<Process, LabError> {
        let path = self.folder.join(format!("{}.up", self.what));
        let _ = std::fs::remove_file(&path);
        let socket =
            UnixDatagram::bind(&path).map_err(LabError::system(format!("make {}", path.display())))?;
        let set = socket.set_read_timeout(Some(Duration::from_millis(20)));
        set.map_err(LabError::system("set a time-out"))?;
        let mut process = self.spawn(arguments, Some(&path), Stdio::null(), Stdio::null())?;
        let started = std::time::Instant::now();
        while socket.recv(&mut [0; 64]).is_err() {
            if process.child.try_wait().is_ok_and(|status| status.is_some()) || started.elapsed() > PATIENCE {
                return Err(process.failed("did not come up"));
            }
        }
        let _ = std::fs::remove_file(&path);
        Ok(process)
    }

    /// Starts a program that is talked to over its standard input and output.
    pub(crate) fn talker(
        &self,
        arguments: &[String],
    ) -> Result<(Process, ChildStdin, ChildStdout), LabError> {
        let mut process = self.spawn(arguments, None, Stdio::piped(), Stdio::piped())?;
        match (process.child.stdin.take(), process.child.stdout.take()) {
            (Some(input), Some(output)) => Ok((process, input, output)),
            _ => Err(process.failed("has no standard input and output")),
        }
    }

    fn spawn(
        &self,
        arguments: &[String],
        notify: Option<&Path>,
        input: Stdio,
        output: Stdio,
    ) -> Result<Process, LabError> {
        let log = self.folder.join(format!("{}.log", self.what));
        let errors = File::create(&log).map_err(LabError::system(format!("make {}", log.display())))?;
        let mut command = match self.namespace {
            // It replaces itself by the program, so the process that is started is the program's.
            // `ip netns exec` would hide control groups and pins from it.
            Some(name) => {
                let mut command = Command::new("nsenter");
                command.arg(format!("--net={}", path_of(name).display())).arg(self.program);
                command
            }
            None => Command::new(self.program),
        };
        command.args(arguments).stdin(input).stdout(output).stderr(errors).env_remove("NOTIFY_SOCKET");
        if let Some(path) = notify {
            command.env("NOTIFY_SOCKET", path);
        }
        die_with_parent(&mut command);
        let child = command.spawn().map_err(LabError::system(format!("start the {}", self.what)))?;
        Ok(Process { what: self.what.clone(), log, child })
    }
}

impl Process {
    /// Its number.
    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Kills it at once, as `kill -9` does.
    pub(crate) fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// Asks it to end, and kills it where it does not.
    pub(crate) fn end(&mut self) {
        if let Some(id) = Pid::from_raw(self.id() as i32) {
            let _ = rustix::process::kill_process(id, Signal::TERM);
        }
        let asked = std::time::Instant::now();
        while self.child.try_wait().is_ok_and(|status| status.is_none()) && asked.elapsed() < FAREWELL {
            std::thread::sleep(Duration::from_millis(5));
        }
        self.kill();
    }

    /// Stops it where it stands, as if it hung, or lets it go on.
    pub(crate) fn hang(&self, hangs: bool) {
        let signal = if hangs { Signal::STOP } else { Signal::CONT };
        if let Some(id) = Pid::from_raw(self.id() as i32) {
            // Where it is gone there is nothing to stop.
            let _ = rustix::process::kill_process(id, signal);
        }
    }

    /// Returns the processor time that it has taken, in nanoseconds; zero where the kernel does not
    /// say.
    pub(crate) fn nanos(&self) -> u64 {
        let Ok(threads) = std::fs::read_dir(format!("/proc/{}/task", self.id())) else { return 0 };
        threads.flatten().map(|entry| nanos_of_thread(&entry.path())).sum()
    }

    /// Makes the error that it failed, with its last messages.
    pub(crate) fn failed(&self, how: &str) -> LabError {
        let said = std::fs::read_to_string(&self.log).unwrap_or_default();
        let lines: Vec<&str> = said.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
        let last = lines[lines.len().saturating_sub(4)..].join(" / ");
        let how = if last.is_empty() { how.to_owned() } else { format!("{how}: {last}") };
        LabError::Process { what: format!("the {}", self.what), how }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Returns the processor time of the thread with this folder below /proc.
pub(crate) fn nanos_of_thread(folder: &Path) -> u64 {
    let read = std::fs::read_to_string(folder.join("schedstat")).ok();
    read.and_then(|text| text.split(' ').next().and_then(|nanos| nanos.parse().ok())).unwrap_or(0)
}

/// Has the kernel kill what `command` starts when the thread that starts it ends, however that
/// comes about.
pub(crate) fn die_with_parent(command: &mut Command) {
    let parent = rustix::process::getpid();
    let ask = move || {
        rustix::process::set_parent_process_death_signal(Some(Signal::KILL))?;
        // The parent may have died before the kernel was asked.
        if rustix::process::getppid() == Some(parent) { Ok(()) } else { Err(io::ErrorKind::NotFound.into()) }
    };
    #[expect(unsafe_code, reason = "what runs between fork and exec may only do little")]
    // SAFETY: `ask` makes two system calls and allocates nothing.
    unsafe {
        command.pre_exec(ask)
    };
}
