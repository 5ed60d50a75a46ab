//! A software switch as administrators and monitoring systems see it.
//!
//! The switch runs on a thread of its own and shows its state in a [`proto::Switch`]; here that is
//! given out on the same two ways as the state of coordinators and agents: over the administration
//! socket, and as figures over HTTP. A switch has no coflows and no kill switch, and says so where
//! it is asked for them.

use std::io;

use cavalcade_model::Instant;
use tokio::net::TcpListener;

use crate::administration::{Query, proto};
use crate::showing::answer_queries;
use crate::sockets::UnixSocket;
use crate::{Stop, metrics};

/// Answers questions to a switch until it stops. `look` returns how it stands, or `None` before it
/// has begun.
///
/// # Errors
/// None at present: a connection that fails ends alone.
pub async fn show_switch(
    administration: Option<UnixSocket>,
    figures: Option<TcpListener>,
    look: impl Fn() -> Option<proto::Switch>,
    stop: Stop,
) -> io::Result<()> {
    answer_queries(administration, figures, stop, |query, started, now| answer(query, look(), started, now))
        .await
}

fn answer(query: Query, switch: Option<proto::Switch>, started: Instant, now: Instant) {
    let none = || "it is a switch, which has tasks and no coflows".to_owned();
    // Who asked may be gone.
    match query {
        Query::Look(_, reply) => drop(reply.send(Ok(view(switch.unwrap_or_default(), started, now)))),
        Query::Why(_, reply) => drop(reply.send(Err(none()))),
        Query::Drain(_, reply) => {
            drop(reply.send(Err("it is a switch, which has no kill switch".to_owned())))
        }
        Query::History(_, reply) => drop(reply.send(Err(none()))),
        Query::Reload(_, reply) => {
            let reason = "a switch reads no file: start it again with other flags";
            drop(reply.send(Err(reason.to_owned())))
        }
        Query::Metrics(reply) => drop(reply.send(metrics::of_switch(&switch.unwrap_or_default()))),
        Query::Ready(reply) => {
            let ready = switch.map(drop).ok_or_else(|| "it watches for loops before it forwards".to_owned());
            drop(reply.send(ready));
        }
    }
}

fn view(switch: proto::Switch, started: Instant, now: Instant) -> proto::View {
    proto::View {
        role: "switch".to_owned(),
        ports: switch.ports.len() as u32,
        started_ns: started.0,
        now_ns: now.0,
        version: env!("CARGO_PKG_VERSION").to_owned(),
        switch: Some(switch),
        ..proto::View::default()
    }
}
