//! `cavalcade enforce`: the kernel path in the foreground, until Ctrl-C.
//!
//! It is a process of its own, not a part of the agent: it needs rights that the agent does not, and what it does to the
//! agent is what any client may.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use cavalcade_client::DscpMap;
use cavalcade_enforce::{Enforcer, Error, Kernel, Limits, Place};

use crate::arguments::Enforce;
use crate::failure::{Failure, Kind};
use crate::live::socket_path;
use crate::output::tell;

/// `cavalcade enforce`.
pub(crate) fn run(options: &Enforce) -> Result<(), Failure> {
    let Enforce { socket, door, group, tag, silence, idle } = options;
    let agent = socket_path(socket.as_deref());
    let place = group.as_deref().map_or_else(Place::of_host, Place::below).map_err(lacking)?;
    let limits = Limits { silence: *silence, idle: *idle, ..Limits::default() };
    let stop = Arc::new(AtomicBool::new(false));
    let stopped = Arc::clone(&stop);
    // Without the handler a signal ends the process, and the kernel lifts all limits.
    let _ = ctrlc::set_handler(move || stopped.store(true, Ordering::Relaxed));
    let kernel = Kernel::load(place, limits).map_err(lacking)?;
    let classes = DscpMap::default();
    let enforcer = Enforcer::new(kernel, door, &agent, classes, tag.clone()).map_err(lacking)?;
    tell(&format!(
        "Commands are tagged at {}; the agent is looked for at {}.",
        door.display(),
        agent.display()
    ));
    enforcer.serve(&stop).map_err(|error| Failure::new(Kind::Runtime, error.to_string()))
}

/// A reason for which this host cannot do it, with the next best thing.
fn lacking(error: Error) -> Failure {
    let failure = Failure::new(Kind::Capability, error.to_string());
    match error {
        Error::InUse(_) => failure,
        _ => failure.help(
            "'cavalcade doctor' tries each feature; programs that use a client library need none of them",
        ),
    }
}
