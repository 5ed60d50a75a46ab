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
        "no control groups of version 2 are mounted; mount them: 'mount -t cgroup2 none /sys/fs/cgroup/unified'"
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
    /// A folder or group that this program makes is somebody else's.
    #[error("{} is another user's, or open to others; remove it", .0.display())]
    Foreign(PathBuf),
    /// A process is to be tagged for somebody else.
    #[error("the asking process belongs to another user; a command is tagged by the user who runs it")]
    NotYours,
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

    /// For `map_err`: something that the kernel refused, with all reasons behind the first.
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
            Self::Refused { what, reason }
        }
    }
}
