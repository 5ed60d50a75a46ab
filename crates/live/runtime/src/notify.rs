//! Tells a service manager that a service is up (`sd_notify`), where there is one.

use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};

/// Says `READY=1` to the socket that `NOTIFY_SOCKET` names. Without one, or if no process listens,
/// nothing happens: a service without a manager is up all the same.
pub fn ready() {
    let Some(name) = std::env::var_os("NOTIFY_SOCKET") else { return };
    let bytes = name.as_encoded_bytes();
    let address = match bytes.strip_prefix(b"@") {
        Some(name) => SocketAddr::from_abstract_name(name),
        None => SocketAddr::from_pathname(&name),
    };
    let told = address.and_then(|address| UnixDatagram::unbound()?.send_to_addr(b"READY=1", &address));
    drop(told);
}
