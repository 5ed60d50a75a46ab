//! The kernel path of a host: an enforcer, and the control group below which it tags.
//!
//! An enforcer works in its host's network namespace, so that a walk over connections sees those of
//! this host only.

use std::path::{Path, PathBuf};

use cavalcade_enforce::{Group, Hierarchy, Place, leftovers, missing};

use crate::error::LabError;
use crate::namespaces::{CLASSES, PREFIX, is_stale};
use crate::process::Process;
use crate::run::Congestion;
use crate::site::Site;

const CURE: &str = "use --enforce library; 'cavalcade doctor' says what this host lacks for the kernel path";

/// An enforcer with its control group; both go when it is dropped, with whatever is in the kernel.
#[derive(Debug)]
pub(crate) struct Enforcer {
    pub(crate) process: Process,
    group: Group,
}

impl Drop for Enforcer {
    fn drop(&mut self) {
        self.process.end();
        remove(&self.group);
    }
}

impl Site {
    /// Returns the socket at which a host's senders ask to be tagged.
    pub(crate) fn door(&self, host: u32) -> PathBuf {
        self.folder().join(format!("door{host}.sock"))
    }

    /// Starts the enforcer of a host.
    pub(crate) fn start_enforcer(&self, host: u32, namespace: &str) -> Result<Enforcer, LabError> {
        let group = hierarchy().and_then(|hierarchy| Group::make(&hierarchy.root, namespace));
        let group = group.map_err(|error| lacks(&error))?;
        let arguments = [
            "enforce",
            "--group",
            &group.path().display().to_string(),
            "--door",
            &self.door(host).display().to_string(),
            "--socket",
            &self.socket(host).display().to_string(),
            "--dscp",
            &CLASSES.map(|dscp| dscp.to_string()).join(","),
        ];
        let mut arguments = arguments.map(str::to_owned).to_vec();
        if let Some((Congestion { law, marking, largest }, rate)) = self.congestion() {
            let (rate, marking) = (format!("{}bps", rate.0), format!("{}B", marking.at.0));
            let largest = format!("{}B", largest.0);
            let told = [
                "--congestion",
                law.name(),
                "--line-rate",
                &rate,
                "--marking",
                &marking,
                "--largest",
                &largest,
            ];
            arguments.extend(told.map(str::to_owned));
            // What receives belongs to no coflow of its host.
            arguments.push("--answer-marks".to_owned());
        }
        if let Some(policy) = self.demotion() {
            arguments.extend(["--demote", policy].map(str::to_owned));
        }
        match self.launch(format!("enforcer {host}"), Some(namespace)).service(&arguments) {
            Ok(process) => Ok(Enforcer { process, group }),
            Err(error) => {
                remove(&group);
                Err(lacks(&error))
            }
        }
    }
}

/// The control group of a host.
pub(crate) fn group_of(namespace: &str) -> Result<PathBuf, LabError> {
    hierarchy().map(|hierarchy| hierarchy.root.join(namespace)).map_err(|error| lacks(&error))
}

/// The control groups of this machine, where there can be enforcers.
fn hierarchy() -> Result<Hierarchy, cavalcade_enforce::Error> {
    match missing() {
        Some(reason) => Err(cavalcade_enforce::Error::NotBuilt(reason)),
        None => Hierarchy::find(),
    }
}

fn lacks(error: &dyn std::error::Error) -> LabError {
    LabError::Missing { what: format!("this machine has no kernel path: {error}"), cure: CURE }
}

/// Removes what an enforcer that was killed has left at a group. A failure cannot be reported here;
/// the next lab tries again.
fn remove(group: &Group) {
    let _ = Place::below(group.path()).and_then(|place| leftovers::fix(&place));
}

/// Returns the control groups of labs whose processes are gone.
pub(crate) fn find_stale() -> Vec<PathBuf> {
    let Ok(Hierarchy { root }) = Hierarchy::find() else { return Vec::new() };
    let entries = std::fs::read_dir(root).into_iter().flatten().flatten();
    let is_ours = |name: &str| name.starts_with(PREFIX) && is_stale(name);
    let stale = entries.filter(|entry| entry.file_name().to_str().is_some_and(is_ours));
    stale.map(|entry| entry.path()).collect()
}

/// Removes such a group with all that an enforcer has left there. Returns whether it is gone: where
/// its enforcer has yet to end the group stays, since by it the next lab finds the rest.
pub(crate) fn remove_stale(path: &Path) -> bool {
    let is_clean = Place::below(path).and_then(|place| leftovers::fix(&place)).is_ok();
    let parent_and_name = path.parent().zip(path.file_name().and_then(|name| name.to_str()));
    // One that is taken over is removed when it is dropped.
    is_clean
        && parent_and_name.is_some_and(|(parent, name)| Group::make(parent, name).is_ok())
        && !path.exists()
}
