//! The task counters that an agent holds for programs of its host that speak SPC.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use cavalcade_runtime::{UnixSocket, bind_client_socket};
use cavalcade_spc::counters::Counters;

use super::bound;
use crate::arguments::ForClients;

/// Returns where programs find the counters of the agent whose clients connect at `clients`.
pub(crate) fn counters_path(clients: &Path) -> PathBuf {
    clients.with_extension("counters.sock")
}

/// Begins to give ids from the counters that are set up, if any. The socket goes when what is
/// returned is dropped.
///
/// # Errors
/// If two counters have one name, their file cannot be read, or there can be no socket.
pub(super) fn hold(options: &ForClients, clients: &Path) -> io::Result<Option<UnixSocket>> {
    if options.task_counter.is_empty() {
        return Ok(None);
    }
    let counters = match &options.task_counter_file {
        Some(file) => Counters::kept_in(&options.task_counter, file)?,
        None => Counters::new(&options.task_counter)?,
    };
    let path = counters_path(clients);
    let socket = bound("programs that number tasks", path.display(), bind_client_socket(&path))?;
    let listener = socket.blocking()?;
    std::thread::spawn(move || {
        if let Err(error) = Arc::new(counters).serve(&listener) {
            tracing::error!(%error, "task counters have ended");
        }
    });
    tracing::info!("task counters at {}", path.display());
    Ok(Some(socket))
}
