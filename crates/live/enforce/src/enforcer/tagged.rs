//! A tagged coflow: its processes, and its flows as the agent has been told of them.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv6Addr, SocketAddr};

use cavalcade_model::{Bytes, Instant, Nanos, PortId, TaskClass};
use cavalcade_protocol::{CoflowKey, Endpoints, Facts, Gate, Registration};

use crate::door::{Amount, Asker, Name, Request, is_of};
use crate::flow::nearest;
use crate::groups::Group;
use crate::kernel::monotonic;
use crate::link::Link;
use crate::{Count, Goal};

/// A flow without new bytes for so long has nothing to send, unless its applications have written
/// more. Longer than the pauses of a connection that is held to some Mbps.
const IDLE: Nanos = Nanos::from_millis(100);

/// A coflow without connections or processes ends this long after it began at the earliest: the
/// agent has to hear of it first.
const GRACE: Nanos = Nanos::from_secs(1);

/// The most peers of which a coflow's commands may say what is sent to them.
const MOST_PEERS: usize = 1_024;

/// A flow as the agent has been told of it.
#[derive(Debug)]
struct Known {
    /// Its number as a client's flow, while it has connections.
    number: Option<u32>,
    sent: u64,
    moved_at: Instant,
    is_off: bool,
}

/// A coflow with the processes that were tagged with it.
#[derive(Debug)]
pub(super) struct Tagged {
    pub(super) user: u32,
    /// The user in whose share it counts.
    pub(super) owner: u32,
    pub(super) name: Name,
    pub(super) class: TaskClass,
    /// True if a former enforcer has registered its task.
    is_taken_up: bool,
    /// The host whose word for a connection has opened it here, if one has.
    pub(super) vouched_by: Option<PortId>,
    /// The groups of its processes: one in each of those in which they were.
    pub(super) groups: Vec<Group>,
    /// Processes whose client library has handed over connections of it.
    pub(super) libraries: BTreeSet<u32>,
    pub(super) link: Link,
    pub(super) key: Option<CoflowKey>,
    /// Processes that wait for the key.
    pub(super) askers: Vec<Asker>,
    flows: BTreeMap<IpAddr, Known>,
    /// By peer, how often its connections had needed marks when they were last given.
    marks: BTreeMap<IpAddr, u64>,
    /// The bytes that its commands said they send, by peer.
    sizes: BTreeMap<IpAddr, u64>,
    /// When it is to be done, by this host's monotonic clock.
    pub(super) deadline: Option<Nanos>,
    pub(super) is_obedient: bool,
    began: Instant,
    /// True where it had connections at the last look.
    pub(super) has_sockets: bool,
}

impl Tagged {
    /// A coflow that `user` asks for, in the share of `owner`; a task is registered with the agent;
    /// one that has a key was before.
    pub(super) fn new(
        now: Instant,
        (user, owner): (u32, u32),
        mut link: Link,
        request: Request,
        key: Option<CoflowKey>,
    ) -> Self {
        link.turn(now, false);
        let Request { name, class, deadline, .. } = request;
        let is_taken_up = matches!(name, Name::Task(_)) && key.is_some();
        let key = match (&name, key) {
            (Name::Coflow(key), _) => Some(*key),
            (Name::Task(task), key) => {
                let registration = registration(task, class, deadline);
                match key {
                    Some(key) => link.client.take_part(key, facts(now, key, registration)),
                    None => drop(link.client.register(now, registration)),
                }
                key
            }
        };
        let (groups, askers) = (Vec::new(), Vec::new());
        let (flows, marks, sizes) = (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
        let deadline = deadline.map(|left| Nanos(monotonic().0.saturating_add(left.0)));
        let (is_obedient, began, has_sockets) = (false, now, true);
        Self {
            user,
            owner,
            name,
            class,
            is_taken_up,
            vouched_by: None,
            groups,
            libraries: BTreeSet::new(),
            link,
            key,
            askers,
            flows,
            marks,
            sizes,
            deadline,
            is_obedient,
            began,
            has_sockets,
        }
    }

    /// A command of it has said how much it sends. A flow that has begun already keeps the size
    /// that the agent was told. Returns what each of these flows is to reach.
    pub(super) fn will_send(&mut self, amounts: &[Amount]) -> Vec<(IpAddr, Goal)> {
        let mut goals = Vec::new();
        for &Amount { peer, bytes } in amounts {
            let (peer, is_full) = (peer.to_canonical(), self.sizes.len() >= MOST_PEERS);
            match self.sizes.entry(peer) {
                Entry::Vacant(_) if is_full => {}
                size => {
                    let size = size.or_default();
                    *size = size.saturating_add(bytes.0);
                    goals.push((peer, Goal { deadline: self.deadline, size: Some(Bytes(*size)) }));
                }
            }
        }
        goals
    }

    /// The processes that may have connections of it. The number of one that has ended may be
    /// another user's by now.
    pub(super) fn processes(&self) -> BTreeSet<u32> {
        let libraries = self.libraries.iter().copied().filter(|&process| is_of(process, self.user));
        self.groups.iter().flat_map(Group::all_members).chain(libraries).collect()
    }

    /// Tells whether a flow to this peer has begun with a size, which does not change any more.
    pub(super) fn is_sized(&self, peer: IpAddr) -> bool {
        self.sizes.contains_key(&peer) && self.flows.get(&peer).is_some_and(|known| known.number.is_some())
    }

    /// What its flows of unknown size are to reach; nothing where there is nothing.
    pub(super) fn goal(&self) -> Option<Goal> {
        self.deadline.map(|deadline| Goal { deadline: Some(deadline), size: None })
    }

    /// Tells whether it is without processes and connections.
    pub(super) fn is_over(&self, now: Instant) -> bool {
        let has_connections = self.has_sockets || self.flows.values().any(|known| known.number.is_some());
        // A library has connections already when it names the coflow.
        let has_begun = !self.libraries.is_empty() && !self.flows.is_empty();
        let had_time = has_begun || now.since(self.began) >= GRACE;
        !has_connections && had_time && !self.groups.iter().any(Group::is_populated)
    }

    /// Takes in how a client's flow is to be sent. Returns its peer, the gate that comes nearest to
    /// that, and whether it opens.
    pub(super) fn direct(&mut self, of_client: u32, gate: Gate) -> Option<(IpAddr, Gate, bool)> {
        let mut flows = self.flows.iter_mut();
        let (&peer, known) = flows.find(|(_, known)| known.number == Some(of_client))?;
        let left = self.sizes.get(&peer).map(|size| size.saturating_sub(known.sent));
        let gate = nearest(gate, left);
        let was_off = std::mem::replace(&mut known.is_off, gate == Gate::Off {});
        Some((peer, gate, was_off && !known.is_off))
    }

    /// Tells whether a flow is off.
    pub(super) fn is_off(&self, peer: IpAddr) -> bool {
        self.flows.get(&peer).is_some_and(|known| known.is_off)
    }

    /// Tells whether a flow may send, or has sent more than the agent was told.
    pub(super) fn moves(&self, peer: IpAddr, count: Count) -> bool {
        let told = self.flows.get(&peer).map_or(Bytes::ZERO, |known| Bytes(known.sent));
        !self.is_off(peer) && (count.sockets > 0 || count.sent > told)
    }

    /// Tells whether connections to a peer have needed marks since the last call.
    pub(super) fn needs_marks(&mut self, peer: IpAddr, count: Count) -> bool {
        count.marks > 0 && self.marks.insert(peer, count.marks) != Some(count.marks)
    }

    /// Tells whether it has connections that have needed marks.
    pub(super) fn has_marks(&self) -> bool {
        self.has_sockets && !self.marks.is_empty()
    }

    /// Registers a task that a former enforcer had registered, and whose key the agent takes no
    /// more, once anew. Returns whether it has.
    pub(super) fn begin_again(&mut self, now: Instant) -> bool {
        let Name::Task(task) = &self.name else { return false };
        if !std::mem::take(&mut self.is_taken_up) {
            return false;
        }
        let client = &mut self.link.client;
        for known in self.flows.values_mut() {
            known.number.take().into_iter().for_each(|number| client.close(number));
            known.is_off = false;
        }
        let left = self.deadline.map(|until| Nanos(until.0.saturating_sub(monotonic().0)));
        client.register(now, registration(task, self.class, left));
        // Else each new connection would begin with the key that is refused.
        self.key.take().into_iter().for_each(|key| client.forget(key));
        true
    }

    /// Returns whether this is its key now: what is said of a former one concerns it no more.
    pub(super) fn goes_by(&self, key: CoflowKey) -> bool {
        self.key == Some(key)
    }

    /// Learns the key of its task, and passes it on to those who wait for it.
    pub(super) fn learn_key(&mut self, key: CoflowKey) {
        self.key = Some(key);
        self.askers.drain(..).for_each(|asker| asker.answer(Ok(key)));
    }

    /// Tells the agent what a flow has done. Returns whether it has just lost its last connection.
    pub(super) fn report(&mut self, now: Instant, key: CoflowKey, peer: IpAddr, count: Count) -> bool {
        let fresh = Known { number: None, sent: 0, moved_at: now, is_off: false };
        let known = self.flows.entry(peer).or_insert(fresh);
        let client = &mut self.link.client;
        let more = count.sent.0 - known.sent;
        if known.number.is_none() && (count.sockets > 0 || more > 0) {
            let local = SocketAddr::new(Ipv6Addr::UNSPECIFIED.into(), 0);
            let ends = Endpoints { local, remote: SocketAddr::new(peer, 0) };
            // What it has sent before counts for a flow that was closed meanwhile.
            // One that has sent more than was said is of unknown size again.
            let size = self.sizes.get(&peer).filter(|&&size| size > known.sent);
            let size = size.map(|size| Bytes(size - known.sent));
            known.number = Some(client.open(key, ends, size));
        }
        let Some(number) = known.number else { return false };
        if more > 0 {
            client.sent(number, more);
            (known.sent, known.moved_at) = (count.sent.0, now);
        }
        client.set_idle(number, !count.waits && !count.has_unsent && now.since(known.moved_at) >= IDLE);
        if count.sockets > 0 {
            return false;
        }
        client.close(number);
        (known.number, known.is_off) = (None, false);
        true
    }
}

/// A task as the agent is asked for its coflow: one whose name is none of a coflow's goes by its
/// id.
fn registration(task: &str, class: TaskClass, deadline: Option<Nanos>) -> Registration {
    Registration { class, deadline, name: task.parse().ok(), ..Registration::default() }
}

/// What was registered under a key, which has the time.
fn facts(now: Instant, key: CoflowKey, registration: Registration) -> Facts {
    let Registration { deadline, size, class, weight, name, .. } = registration;
    let deadline = deadline.and_then(|left| now.checked_add(left));
    Facts { arrival: Instant(key.serial), deadline, size, class, weight, name }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use cavalcade_model::PortId;
    use cavalcade_protocol::{AgentMessage, Client, ClientMessage};

    use super::*;

    const NOW: Instant = Instant(1_000);

    /// A task that a former enforcer has registered.
    fn taken_up(key: CoflowKey) -> Tagged {
        let request = "task=etl class=background deadline=500".parse().unwrap();
        let link = Link::new(Path::new("/nowhere/agent.sock"), 7, 1);
        Tagged::new(NOW, (7, 7), link, request, Some(key))
    }

    /// What a client says to an agent that has just come.
    fn said(client: &mut Client) -> Vec<ClientMessage> {
        client.handle_connected();
        let (period, lease) = (Nanos::from_millis(10), Nanos::from_millis(500));
        let welcome =
            AgentMessage::Welcome { protocol: cavalcade_protocol::PROTOCOL, port: PortId(0), period, lease };
        client.handle_message(NOW, welcome);
        std::iter::from_fn(|| client.poll_message()).skip(1).collect()
    }

    #[test]
    fn an_agent_that_has_lost_a_task_of_before_learns_its_name_class_and_deadline_again() {
        let key: CoflowKey = "17.0.18".parse().unwrap();
        let mut tagged = taken_up(key);
        let said = said(&mut tagged.link.client);
        let [ClientMessage::Join { coflow, facts: Some(facts), .. }] = said[..] else { panic!("{said:?}") };
        assert_eq!((coflow, facts.arrival), (key, Instant(key.serial)));
        assert_eq!((facts.class, facts.weight), (TaskClass::Background, 1));
        assert_eq!((facts.deadline, facts.name), (Some(NOW + Nanos(500)), "etl".parse().ok()));
    }

    #[test]
    fn a_key_that_was_refused_is_not_said_again_and_refused_again_changes_nothing() {
        let key: CoflowKey = "17.0.18".parse().unwrap();
        let mut tagged = taken_up(key);
        said(&mut tagged.link.client);
        assert!(tagged.goes_by(key));
        assert!(tagged.begin_again(NOW));
        assert!(!tagged.goes_by(key));
        tagged.link.client.handle_disconnected(NOW);
        let said = said(&mut tagged.link.client);
        let is_old =
            |one: &ClientMessage| matches!(one, ClientMessage::Join { coflow, .. } if *coflow == key);
        assert!(!said.iter().any(is_old), "{said:?}");
    }
}
