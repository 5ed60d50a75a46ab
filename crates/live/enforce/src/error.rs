//! Reasons for which the kernel path cannot be used.

use std::io;
use std::path::PathBuf;

/// A reason for which the kernel path cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The build has no programs.
    #[error("built without kernel enforcement: {0}; install clang and build again")]
    NotBuilt(&'static str),
    /// Control groups of version 2 are not there.
    #[error(
        "no control groups of version 2 are mounted; mount them: 'mkdir -p /run/cgroup2 && mount -t cgroup2 none /run/cgroup2'"
    )]
    NoGroups,
    /// The kernel does not describe its types.
    #[error(
        "the kernel has no BTF at /sys/kernel/btf/vmlinux; it takes one built with CONFIG_DEBUG_INFO_BTF: {0}"
    )]
    NoTypes(String),
    /// The kernel takes no congestion controls.
    #[error(
        "the kernel takes no congestion control of this program: {0}; it takes Linux 6.4 or newer with CONFIG_BPF_JIT and \
         CONFIG_DEBUG_INFO_BTF, CAP_BPF, CAP_NET_ADMIN and CAP_PERFMON"
    )]
    NoControls(String),
    /// Another enforcer is at work at the same place.
    #[error("another enforcer is at work ({}); stop it first", .0.display())]
    InUse(PathBuf),
    /// A folder or group that this program makes is another's.
    #[error("{} is another user's, or open to others; remove it", .0.display())]
    Foreign(PathBuf),
    /// A process is to be tagged for another user.
    #[error("the asking process belongs to another user; a command is tagged by the user who runs it")]
    NotYours,
    /// A connection cannot be tagged a second time.
    #[error("the connection belongs to a coflow already")]
    HasCoflow,
    /// A connection that is there already cannot be followed.
    #[error(
        "a connection that is there already cannot be followed: it takes Linux 6.12, and a process below the enforcer's control group"
    )]
    NotFollowed,
    /// A user has as many control groups as are free for others.
    #[error(
        "this user's commands are in {have} control groups, as many as are left for all others; try again when some of them have ended"
    )]
    NoRoom {
        /// The groups of the user.
        have: usize,
    },
    /// A file, a folder or a socket did not do what was asked.
    #[error("cannot {what} {}: {source}", .path.display())]
    File {
        /// The attempt.
        what: &'static str,
        /// The place.
        path: PathBuf,
        /// The system's answer.
        source: io::Error,
    },
    /// The kernel refused a program or a table.
    #[error(
        "the kernel refuses {what}: {reason}; it takes Linux 5.15 or newer, CAP_BPF, CAP_NET_ADMIN and CAP_PERFMON"
    )]
    Refused {
        /// The thing refused.
        what: &'static str,
        /// The kernel's answer.
        reason: String,
    },
}

impl Error {
    /// For `map_err`: something of the file system that failed.
    pub(crate) fn file(what: &'static str, path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> Self {
        let path = path.into();
        move |source| Self::File { what, path, source }
    }

    /// For `map_err`: something that the kernel refused, with all reasons behind the first. Of what
    /// the verifier says, the last word.
    pub(crate) fn refused<E: std::error::Error>(what: &'static str) -> impl FnOnce(E) -> Self {
        move |error| {
            let mut reason = error.to_string();
            let mut source = error.source();
            while let Some(deeper) = source {
                let said = deeper.to_string();
                if !reason.ends_with(&said) {
                    reason = format!("{reason}: {said}");
                }
                source = deeper.source();
            }
            let reason = if reason.contains('\n') { last_words(&reason).to_owned() } else { reason };
            Self::Refused { what, reason }
        }
    }
}

/// Returns the reason at the end of what the verifier says of a program.
pub(crate) fn last_words(log: &str) -> &str {
    let is_reason = |line: &&str| {
        let figures = ["processed ", "verification time ", "stack depth "];
        !line.trim().is_empty() && !figures.iter().any(|figure| line.starts_with(figure))
    };
    log.lines().rfind(is_reason).unwrap_or("it gave no reason").trim()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_what_the_verifier_says_the_reason_is_kept() {
        let log = "0: R1=ctx() R10=fp0\n; bpf_setsockopt(sk)\n12: (85) call bpf_setsockopt#49\n\
                   unknown func bpf_setsockopt#49\nverification time 85 usec\nstack depth 48\n\
                   processed 34 insns (limit 1000000)\n\n";
        let said = io::Error::other(format!("the BPF_PROG_LOAD syscall failed. Verifier output: {log}"));
        let error = Error::refused("refresh")(said).to_string();
        assert!(
            error.starts_with("the kernel refuses refresh: unknown func bpf_setsockopt#49; it takes"),
            "{error}"
        );
        assert_eq!(last_words("\n"), "it gave no reason");
    }
}
