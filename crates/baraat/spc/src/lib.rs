//! SPC on real sockets: [`SpcStream`] and [`SpcListener`] are what `TcpStream` and `TcpListener`
//! are, and each stream has a task-id, by which the switches of the path give it its rate (Baraat,
//! SIGCOMM 2014, §4).
//!
//! ```
//! # use std::io::{Read, Write};
//! # use cavalcade_spc::{SpcListener, SpcStream, TaskCounter};
//! let listener = SpcListener::bind("127.0.0.1:0")?;
//! let address = listener.local_addr()?;
//! let server = std::thread::spawn(move || -> std::io::Result<Vec<u8>> {
//!     let (mut stream, _) = listener.accept()?;
//!     let mut request = Vec::new();
//!     stream.read_to_end(&mut request)?;
//!     stream.write_all(b"the answer goes under the same task-id")?;
//!     Ok(request)
//! });
//! let tasks = TaskCounter::new(1, 4);
//! let mut stream = SpcStream::connect(address, tasks.next_id()?)?;
//! stream.write_all(b"get key")?;
//! stream.shutdown(std::net::Shutdown::Write)?;
//! let mut answer = String::new();
//! stream.read_to_string(&mut answer)?;
//! assert_eq!(server.join().expect("the server ends")?, b"get key");
//! # Ok::<(), std::io::Error>(())
//! ```
//!
//! # How it works
//! An [`Endpoint`] is a UDP socket and a thread that turns it: datagrams go to the connections'
//! machines (`cavalcade_transport::stream`), and what they want to send leaves in the order of
//! tasks. Reliability, flow control, pace and the opening are the machines'; there is no protocol
//! in this crate. An endpoint has any number of streams in both directions; [`SpcStream::connect`]
//! makes one for itself.
//!
//! # Invariants
//! - Every byte arrives once and in order, or the stream fails with an error that says why.
//! - What arrives and is no frame, or a broken one, is dropped and counted ([`Counters`]).
//! - Memory is bounded: by the buffers of each connection, and by their number ([`Options`]).
//! - Dropping the last handle on an endpoint (streams and listeners are handles as well) waits
//!   until what was written is acknowledged, and 0.3 s for what comes again; a late task so waits
//!   for its turn. It does not wait for a peer that has said nothing, or has had no room, for
//!   [`Options::linger`], which is 3 s. For these the endpoint's thread goes on without a handle
//!   until the peer is given up, but not beyond the end of the process: who must know calls
//!   [`SpcStream::wait_acknowledged`] before.
//!
//! # Without a wait
//! A program that waits for many things at once asks a stream or a listener for a descriptor
//! ([`SpcStream::readiness`], [`SpcListener::readiness`]), gives calls a time of zero, and begins
//! to connect with [`Endpoint::begin_connect`]. With the feature `tokio` streams are `AsyncRead`
//! and `AsyncWrite`, and there are `Endpoint::connect_async` and `SpcListener::accept_async`.
//! Either keeps a handle on the endpoint for as long as it runs: dropping the last one waits, as
//! above.
//!
//! # What is trusted
//! The hosts of the fabric. A host that can send arbitrary packets can use a task-id of another, or
//! send faster than its grant; a switch never lets it hold more than the link. Connection ids have
//! 64 random bits and frames a checksum, so that an attacker off the path can neither close a
//! connection nor inject data. There is no encryption.
//!
//! # Cost
//! A system call for each packet, and one lock for the endpoint. Timers are as late as the
//! kernel's; streams catch up with what they hold up within `Settings::late`.
//!
//! Rejected: an async runtime underneath. The machines need one socket, one timer and one thread,
//! and programs without a runtime would get one.

pub mod counters;
mod endpoint;
mod listener;
pub mod proxy;
mod reactor;
mod readiness;
mod stream;
mod tasks;
#[cfg(feature = "tokio")]
mod tokio_io;

pub use cavalcade_transport::stream::Settings;
pub use cavalcade_transport::stream::frame::Rates;
pub use endpoint::{Counters, Endpoint, Options};
pub use listener::SpcListener;
pub use stream::SpcStream;
pub use tasks::{IdSource, TaskCounter, UsedUp};
