//! Unix sockets that leave no file behind.

use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::path::{Path, PathBuf};

use tokio::net::UnixListener;

/// A listener at a path of the file system. Dropping it removes the file.
#[derive(Debug)]
pub struct UnixSocket {
    pub(crate) listener: UnixListener,
    path: PathBuf,
}

impl UnixSocket {
    /// Returns another handle on the listener, for a thread that waits in it. Nothing else is to
    /// use this socket then.
    ///
    /// # Errors
    /// If the process may open no more files.
    pub fn blocking(&self) -> io::Result<std::os::unix::net::UnixListener> {
        let listener = std::os::unix::net::UnixListener::from(self.listener.as_fd().try_clone_to_owned()?);
        listener.set_nonblocking(false)?;
        Ok(listener)
    }
}

impl Drop for UnixSocket {
    fn drop(&mut self) {
        // A failure means that it is gone already.
        let _ = std::fs::remove_file(&self.path);
    }
}

/// Listens for clients at `path`. A socket file that a crashed agent left behind is replaced; one
/// at which a process listens is not. Every user of the host may connect: an agent tells users
/// apart by what the kernel says of them.
///
/// # Errors
/// If a process listens there already, or the file cannot be made.
pub fn bind_client_socket(path: &Path) -> io::Result<UnixSocket> {
    bind(path, 0o666)
}

/// Listens for administrators at `path`: as [`bind_client_socket`], for this process's user alone.
///
/// # Errors
/// As there.
pub fn bind_administration_socket(path: &Path) -> io::Result<UnixSocket> {
    bind(path, 0o600)
}

fn bind(path: &Path, mode: u32) -> io::Result<UnixSocket> {
    if std::os::unix::net::UnixStream::connect(path).is_ok() {
        let message = format!("somebody listens at {} already", path.display());
        return Err(io::Error::new(io::ErrorKind::AddrInUse, message));
    }
    match std::fs::symlink_metadata(path) {
        Ok(found) if found.file_type().is_socket() => std::fs::remove_file(path)?,
        Ok(_) => {
            let message = format!("{} exists and is no socket: name another path", path.display());
            return Err(io::Error::new(io::ErrorKind::AlreadyExists, message));
        }
        Err(_) => {}
    }
    let listener = UnixListener::bind(path)?;
    let socket = UnixSocket { listener, path: path.to_owned() };
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode))?;
    Ok(socket)
}
