//! The client library: coflows of an application, on TCP connections that it opens itself.
//!
//! ```no_run
//! # use std::{io::Write, net::TcpStream};
//! # use cavalcade_client::{Session, Registration};
//! let session = Session::open("/run/cavalcade.sock")?;
//! let shuffle = session.register(Registration::default())?;
//! let mut stream = session.stream(TcpStream::connect("10.0.0.7:9000")?, shuffle, None)?;
//! stream.write_all(b"map output")?;
//! drop(stream);
//! session.unregister(shuffle);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! [`Session::find`] looks for the agent at the usual places.
//!
//! # What it does
//! A [`CoflowStream`] writes to its connection while its flow may send, and waits while it may not.
//! Rates are set with `SO_MAX_PACING_RATE`, classes as DSCP; both need no privilege. Without an
//! agent, or with one that is silent, it is plain TCP, and it returns to the agent's orders by
//! itself once an agent answers.
//!
//! With the feature `tokio`, `Session::async_stream` does the same for a connection of tokio;
//! clients in other languages are in `clients/`, and pass the same suite (`tests/conformance.rs`).
//!
//! Where an enforcer is at work beside the agent (`cavalcade enforce`, Linux 6.12), the library
//! hands connections over to it ([`CoflowStream::is_in_kernel`]): the kernel gates, paces, marks
//! and counts them, and a write is that of any connection.
//!
//! In a child that was forked from the process of a session, the session and its streams are plain
//! TCP; the child may open a session of its own.
//!
//! # Invariants
//! - Not a byte is copied, held back or reordered here: a write is one write to the connection.
//! - No write waits for longer than a lease of the agent after its last message; in the kernel no
//!   longer than the enforcer's `--silence` (2 s) where that hangs or is killed.
//!
//! - What one call of `write_all` writes is in one piece, whichever threads write.
//! - A flow that ends leaves its connection as it was before.
//! - A call that fails because of an argument ([`Invalid`]) leaves its session as it was.
//!
//! # Cost
//! Three threads for a session. Besides the system call a write takes the stream's lock and the
//! session's, and the stream's alone where the kernel carries orders out. A stream whose flow has
//! had to wait has one more descriptor.

#[cfg(feature = "tokio")]
mod async_stream;
mod gate;
mod kernel_path;
mod options;
mod places;
mod session;
mod stream;
mod threads;

#[cfg(feature = "tokio")]
pub use async_stream::AsyncCoflowStream;
pub use cavalcade_model::{Bytes, Nanos, TaskClass};
pub use cavalcade_protocol::{
    CoflowKey, CoflowName, Directive, Gate, Invalid, Limit, NameError, Refusal, Registration, Subject,
};
pub use options::{DscpMap, TriedOptions, try_options};
pub use places::default_places;
pub use session::{Refused, RegisterError, Session};
pub use stream::CoflowStream;
