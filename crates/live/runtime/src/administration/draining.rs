//! Drains in the words of the service: what a request means, and what people are told of those that
//! hold.

use cavalcade_model::{Instant, PortId};
use cavalcade_protocol::{CoflowKey, Drain, Drained, Remark};

use super::naming::Naming;
use super::proto;
use super::views::Administered;

/// Drains what a request asks for, or ends that, and logs who asked and why.
///
/// # Errors
/// If there is no such component, or it cannot be kept: the error is for people.
pub(super) fn drain<M: Administered>(
    machine: &mut M,
    now: Instant,
    request: &proto::DrainRequest,
) -> Result<proto::DrainReply, String> {
    let naming = machine.naming();
    let what = machine.place_of(asked(&naming, request)?)?;
    let name = name(&naming, M::EVERYTHING, what);
    let said = |field: &str, text: &str, none: &str| {
        let text = if text.is_empty() { none } else { text };
        Remark::new(text).map_err(|error| format!("the {field} is not kept: {error}"))
    };
    let who = said("name of who asks", &request.who, "somebody")?;
    let reason = said("reason", &request.reason, "no reason given")?;
    let verb = if request.undo { "ends a drain" } else { "drains" };
    let (by, why) = (who.as_str().to_owned(), reason.as_str().to_owned());
    let was_drained = if request.undo {
        machine.lift_drain(what)
    } else {
        let drain = Drain { what, since: now, who, reason };
        machine.set_drain(drain).map_err(|error| error.to_string())?
    };
    let (all, drains) = machine.drained();
    let is_drained = all || drains.iter().any(|drain| drain.what == what);
    tracing::warn!(what = name, who = by, reason = why, was_drained, is_drained, "a person {verb}");
    Ok(proto::DrainReply { was_drained, is_drained, what: name })
}

/// Reads what a request asks for.
fn asked(naming: &Naming, request: &proto::DrainRequest) -> Result<Drained, String> {
    match (request.host, request.user, request.coflow.as_str()) {
        (None, None, "") => Ok(Drained::All {}),
        (Some(port), None, "") => Ok(Drained::Host { port: PortId(port) }),
        (None, Some(user), "") => Ok(Drained::User { user }),
        (None, None, name) => match naming.find(name)? {
            Some(key) => Ok(Drained::Coflow { key }),
            None => {
                Err(format!("there is no coflow '{name}' here: 'cavalcade ps' lists those that are known"))
            }
        },
        _ => Err("a drain is of one host, of one user or of one coflow: ask for each by itself".to_owned()),
    }
}

/// The key of a coflow that is drained by itself.
pub(super) fn key_of(drain: &Drain) -> Option<CoflowKey> {
    match drain.what {
        Drained::Coflow { key } => Some(key),
        _ => None,
    }
}

/// A drain in the words of the service; `everything` is what all is called here.
pub(super) fn shown(naming: &Naming, everything: &str, drain: &Drain) -> proto::Drain {
    let (mut host, mut user) = (None, None);
    match drain.what {
        Drained::Host { port } => host = Some(port.0),
        Drained::User { user: number } => user = Some(number),
        Drained::All {} | Drained::Coflow { .. } => {}
    }
    proto::Drain {
        what: name(naming, everything, drain.what),
        host,
        user,
        coflow: key_of(drain).map(|key| key.to_string()),
        who: drain.who.as_str().to_owned(),
        reason: drain.reason.as_str().to_owned(),
        since_ns: drain.since.0,
    }
}

/// Returns the label of what is drained.
pub(super) fn name(naming: &Naming, everything: &str, what: Drained) -> String {
    match what {
        Drained::All {} => everything.to_owned(),
        Drained::Host { port } => format!("host {}", port.0),
        Drained::User { user } => format!("user {user}"),
        Drained::Coflow { key } => format!("coflow {}", naming.label(key)),
    }
}
