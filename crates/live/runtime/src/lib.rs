//! The live system's shell: sockets, a clock, and nothing that decides.
//!
//! All decisions are in `control`, whose machines are driven here as the fault simulator drives
//! them: what arrives is handed over with the time, what is to be sent is sent, and a timer is set
//! for when to come again. A machine and its connections run on one thread
//! ([`tokio::task::LocalSet`]); nothing in it is shared.
//!
//! # Who may be slow or wrong
//! - A connection that does not take its messages is closed once a bounded queue is full: the other
//!   side connects again and gets a snapshot. So a hung peer costs a queue and blocks no one.
//! - What waits from and for the clients of one user, or all agents, is counted together (`meter`):
//!   where there is too much, connections are not read for a while.
//! - Bytes that are no message close their connection, and nothing else.
//! - Without a coordinator an agent tries again, with a pause that doubles and is spread so that a
//!   thousand agents do not come at once.
//!
//! - What leaves a host is TLS between components that show each other certificates (`security`),
//!   where there are some.
//!
//! # Seams
//! Connections are anything that reads and writes bytes (`connection`): TLS goes between
//! [`tokio::net::TcpStream`] and that. Who asks a machine something (`administration`, `metrics`)
//! puts a question into its loop's queue.

mod addresses;
pub mod administration;
mod agent;
mod arrivals;
mod capacity;
mod clock;
mod connection;
mod coordinator;
mod enforcer;
mod incidents;
pub mod lease;
mod limits;
mod meter;
mod metrics;
mod notify;
mod occasional;
mod reloading;
mod rounds;
pub mod security;
mod showing;
mod sockets;
mod switch;
mod tls;

pub use addresses::own_prefixes;
pub use administration::About;
pub use agent::{AgentSockets, serve_agent};
pub use capacity::{Capacity, raise_descriptors};
pub use clock::Clock;
pub use coordinator::{CoordinatorSockets, serve_coordinator};
pub use enforcer::show_enforcer;
pub use metrics::stand_by;
pub use notify::ready;
pub use reloading::{Hangups, Reading, Reload, Reloaded, Reloading, Setting, Settings};
pub use security::{Identity, Pairs, Role};
pub use sockets::{UnixSocket, bind_administration_socket, bind_client_socket};
pub use switch::show_switch;
pub use tls::connect_as_agent;

/// Told once when to stop.
pub type Stop = tokio::sync::watch::Receiver<bool>;

/// Runs `work` on this thread, with its timers and sockets, to its end.
///
/// # Errors
/// If the operating system gives no event queue, and what `work` ends with.
pub fn block_on<T>(work: impl Future<Output = std::io::Result<T>>) -> std::io::Result<T> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    tokio::task::LocalSet::new().block_on(&runtime, work)
}

/// Becomes true on Ctrl-C and on a request to terminate.
///
/// # Errors
/// If signals cannot be waited for.
pub fn stop_on_signals() -> std::io::Result<Stop> {
    use tokio::signal::unix::{SignalKind, signal};
    let (sender, receiver) = tokio::sync::watch::channel(false);
    let (mut interrupt, mut terminate) = (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?);
    tokio::task::spawn_local(async move {
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
        }
        let _ = sender.send(true);
        // Listeners go on while it winds up.
        sender.closed().await;
    });
    Ok(receiver)
}
