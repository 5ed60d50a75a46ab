//! Answers to administrators and monitoring systems for what runs on a thread of its own, as a
//! switch or an enforcer does: over the administration socket, and as figures over HTTP.

use std::io;

use cavalcade_model::Instant;
use tokio::net::TcpListener;
use tokio::sync::mpsc;

use crate::administration::{Query, serve};
use crate::sockets::UnixSocket;
use crate::{Clock, Stop, metrics};

/// Has `answer` answer queries until it stops; it is given the start, and now.
///
/// # Errors
/// None at present: a connection that fails ends alone.
pub(crate) async fn answer_queries(
    administration: Option<UnixSocket>,
    figures: Option<TcpListener>,
    mut stop: Stop,
    answer: impl Fn(Query, Instant, Instant),
) -> io::Result<()> {
    let (queries, mut asked) = mpsc::unbounded_channel();
    let _lines = serve(administration, queries.clone());
    if let Some(listener) = figures {
        metrics::serve(listener, None, queries.clone());
    }
    let clock = Clock::default();
    let started = clock.now();
    loop {
        tokio::select! {
            Some(query) = asked.recv() => answer(query, started, clock.now()),
            _ = stop.changed() => return Ok(()),
        }
    }
}
