//! What a process may hold, what it does hold, and what raises a limit: for administrators
//! (`cavalcade ps --limits`), and for figures.

use std::cmp::Reverse;

use cavalcade_control::{Agent, Coordinator, Usage};
use cavalcade_protocol::Limit;

use crate::administration::Lines;
use crate::administration::proto;
use crate::capacity::Capacity;
use crate::coordinator::{STRANGERS, STRANGERS_OF_ONE, Strangers};
use crate::incidents::Incidents;
use crate::meter::Meter;

/// Users that are shown by themselves; those who are furthest from their limits are left out.
const USERS: usize = 16;

/// The amounts of a user that are known at any time; of messages only the pace is.
pub(crate) const HELD: [Limit; 4] =
    [Limit::Connections {}, Limit::Coflows {}, Limit::Flows {}, Limit::Bytes {}];

/// The use and limits of a process.
pub(crate) struct Holding<'a> {
    pub(crate) connections: usize,
    pub(crate) meter: &'a Meter,
    pub(crate) lines: &'a Lines,
    pub(crate) capacity: Capacity,
    /// The last second since 1970 at which its certificate is accepted.
    pub(crate) until: Option<u64>,
    pub(crate) incidents: &'a Incidents,
}

/// A user's counts in the shell of an agent.
#[derive(Clone, Copy, Debug)]
pub(crate) struct UserFigures {
    pub(crate) user: u32,
    /// Bytes that wait, from its clients and for them.
    pub(crate) bytes: usize,
    /// Number of times a client of it was slowed down.
    pub(crate) slowed: u64,
}

/// Returns what the users who are nearest to a limit have of [`HELD`], in the order of their
/// numbers.
pub(crate) fn of_users(agent: &Agent, metered: &[UserFigures]) -> Vec<(u32, [usize; HELD.len()])> {
    let budget = agent.budget();
    let bytes_of = |user| metered.iter().find(|metered| metered.user == user).map_or(0, |user| user.bytes);
    let amounts = |(user, usage): (u32, Usage)| {
        let held = |limit| match limit {
            Limit::Bytes {} => bytes_of(user),
            counted => usage.of(counted) as usize,
        };
        (user, HELD.map(held))
    };
    let share = |held: &[usize; HELD.len()]| {
        let millionths =
            |(&limit, &held): (&Limit, &usize)| held as u64 * 1_000_000 / u64::from(budget.of(limit)).max(1);
        HELD.iter().zip(held).map(millionths).max()
    };
    let mut users: Vec<_> = agent.users().map(amounts).collect();
    users.sort_by_key(|(user, held)| (Reverse(share(held)), *user));
    users.truncate(USERS);
    users.sort_unstable();
    users
}

/// Returns the limits of an agent, and those of its users.
pub(crate) fn of_agent(agent: &Agent, held: &Holding<'_>, metered: &[UserFigures]) -> Vec<proto::Limit> {
    let mut limits = of_process(held);
    let most = |limit: Limit| u64::from(agent.budget().of(limit));
    let cure = |limit: Limit| format!("--user-budget {}=…", limit.name());
    let users = of_users(agent, metered);
    for (user, held) in &users {
        let held = HELD.iter().zip(held).map(|(&limit, &held)| (limit, Some(held as u64)));
        limits.extend(held.chain([(Limit::Messages {}, None)]).map(|(limit, used)| proto::Limit {
            what: in_words(limit).to_owned(),
            user: Some(*user),
            used,
            most: most(limit),
            cure: cure(limit),
        }));
    }
    if users.is_empty() {
        limits.extend(Limit::ALL.map(|limit| proto::Limit {
            what: format!("{} of each user", in_words(limit)),
            user: None,
            used: None,
            most: most(limit),
            cure: cure(limit),
        }));
    }
    limits
}

/// Returns the limits of a coordinator, and those of its agents, of which the one with most counts.
pub(crate) fn of_coordinator(
    coordinator: &Coordinator,
    held: &Holding<'_>,
    strangers: &Strangers,
) -> Vec<proto::Limit> {
    let mut limits = of_process(held);
    let most_of_one = strangers.values().max().copied().unwrap_or(0);
    limits.push(of_all("not reported yet", strangers.values().sum(), STRANGERS, FIXED));
    limits.push(of_all("the same from one address", most_of_one, STRANGERS_OF_ONE, FIXED));
    let (coflows, flows) = coordinator.most_of_an_agent();
    for (what, used) in [("coflows of an agent", coflows), ("flows of an agent", flows)] {
        limits.push(of_all(what, used, coordinator.agent_limit() as usize, FIXED));
    }
    limits
}

const FIXED: &str = "fixed";

fn of_process(held: &Holding<'_>) -> Vec<proto::Limit> {
    let (served, most_served) = held.lines.served();
    vec![
        of_all("connections", held.connections, held.capacity.connections, "--max-connections"),
        of_all("bytes that wait", held.meter.held(), held.meter.most(), "--max-buffers"),
        of_all("administrators", served, most_served, FIXED),
    ]
}

fn of_all(what: &str, used: usize, most: usize, cure: &str) -> proto::Limit {
    let (what, cure) = (what.to_owned(), cure.to_owned());
    proto::Limit { what, user: None, used: Some(used as u64), most: most as u64, cure }
}

fn in_words(limit: Limit) -> &'static str {
    match limit {
        Limit::Messages {} => "messages in a second",
        Limit::Bytes {} => "bytes that wait",
        other => other.name(),
    }
}
