//! An enforcer as administrators and monitoring systems see it.
//!
//! It runs on a thread of its own and shows its state in a [`proto::Enforcer`]; here that is given
//! out on the same two ways as the state of coordinators and agents. It decides nothing, so it has
//! no kill switch and no history, and says so where it is asked for them.

use std::io;

use cavalcade_model::Instant;
use tokio::net::TcpListener;

use crate::administration::{Query, proto};
use crate::showing::answer_queries;
use crate::sockets::UnixSocket;
use crate::{Stop, metrics};

/// Answers questions to an enforcer until it stops. `look` returns how it stands, or `None` before
/// it serves.
///
/// # Errors
/// None at present: a connection that fails ends alone.
pub async fn show_enforcer(
    administration: Option<UnixSocket>,
    figures: Option<TcpListener>,
    look: impl Fn() -> Option<proto::Enforcer>,
    stop: Stop,
) -> io::Result<()> {
    answer_queries(administration, figures, stop, |query, started, now| answer(query, look(), started, now))
        .await
}

fn answer(query: Query, enforcer: Option<proto::Enforcer>, started: Instant, now: Instant) {
    let none = || "it is an enforcer, which carries out what the agent orders: ask there".to_owned();
    // Who asked may be gone.
    match query {
        Query::Look(_, reply) => {
            drop(reply.send(Ok(proto::View {
                role: "enforcer".to_owned(),
                started_ns: started.0,
                now_ns: now.0,
                version: env!("CARGO_PKG_VERSION").to_owned(),
                enforcer: Some(enforcer.unwrap_or_default()),
                ..proto::View::default()
            })));
        }
        Query::Why(_, reply) => drop(reply.send(Err(none()))),
        Query::Drain(_, reply) => drop(reply.send(Err(none()))),
        Query::History(_, reply) => drop(reply.send(Err(none()))),
        Query::Reload(_, reply) => {
            let reason = "an enforcer reads its file at its start: start it again".to_owned();
            drop(reply.send(Err(reason)));
        }
        Query::Metrics(reply) => drop(reply.send(metrics::of_enforcer(&enforcer.unwrap_or_default()))),
        Query::Ready(reply) => {
            let ready = enforcer.map(drop).ok_or_else(|| "its programs are not loaded yet".to_owned());
            drop(reply.send(ready));
        }
    }
}
