//! The enforcer: between commands that ask to be tagged, the programs in the kernel, and the agent.
//!
//! To the agent each tagged coflow is a client: it opens a flow for each peer, says what the kernel has counted, and is told
//! how to send. So the live system knows one way to carry out orders, and a coflow is its user's, with that user's limits.
//! One thread does everything; it wakes for an agent's word at once, and looks at counts each [`PERIOD`].

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use cavalcade_client::DscpMap;
use cavalcade_model::{Instant, Nanos};
use cavalcade_protocol::{ClientEvent, CoflowKey, Endpoints, Gate, Registration};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::door::{Asker, Door, Name, Request};
use crate::groups::{Group, Hierarchy};
use crate::link::Link;
use crate::{Count, Error, Flow, Kernel, Order};

/// The time between two looks at the counts while there are coflows.
const PERIOD: Nanos = Nanos::from_millis(5);
/// The time between two signs of life, and between two looks for what has ended.
const TICK: Nanos = Nanos::from_millis(100);
/// A flow without new bytes for so long has nothing to send, unless data waits at its gate. Longer than the pauses of a
/// connection that is held to some Mbps.
const IDLE: Nanos = Nanos::from_millis(100);
/// The most coflows that a user may have at once.
const OF_USER: usize = 256;
/// The most processes that may be asking at once.
const ASKERS: usize = 64;
/// The longest that a request may take to come: a process that does not ask keeps others out no longer.
const HURRY: Duration = Duration::from_secs(1);

/// Processes that are tagged without asking: those of a control group, as of a service or a container.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    /// The group, as a folder or as its path in the hierarchy.
    pub group: PathBuf,
    /// The task that they are while there are any; it belongs to the group's owner.
    pub request: Request,
}

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
struct Tagged {
    user: u32,
    name: Name,
    /// The groups of its processes: one in each of those in which they were.
    groups: Vec<Group>,
    link: Link,
    key: Option<CoflowKey>,
    /// Processes that wait for the key.
    askers: Vec<Asker>,
    flows: BTreeMap<IpAddr, Known>,
    is_obedient: bool,
}

/// Loaded programs, a door, and the way to the agent.
#[derive(Debug)]
pub struct Enforcer {
    kernel: Kernel,
    door: Door,
    agent: PathBuf,
    classes: DscpMap,
    rules: Vec<Rule>,
    askers: Vec<Asker>,
    coflows: BTreeMap<u32, Tagged>,
    next: u32,
    started: std::time::Instant,
    offset: u64,
    looked_at: Instant,
    ticked_at: Instant,
}

impl Enforcer {
    /// Opens `door` to commands, and tags what `rules` name, now or when it is there; coflows are scheduled by the agent that
    /// listens at `agent`, now or later.
    ///
    /// # Errors
    /// If the door cannot be opened, or there are no control groups.
    pub fn new(
        kernel: Kernel,
        door: &Path,
        agent: &Path,
        classes: DscpMap,
        rules: Vec<Rule>,
    ) -> Result<Self, Error> {
        let root = Hierarchy::find()?.root;
        let below_root = |rule: Rule| {
            let is_folder = rule.group.starts_with(&root);
            let path = rule.group.strip_prefix("/").unwrap_or(&rule.group);
            Rule { group: if is_folder { rule.group.clone() } else { root.join(path) }, ..rule }
        };
        let offset = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos() as u64;
        Ok(Self {
            kernel,
            door: Door::open(door)?,
            agent: agent.to_owned(),
            classes,
            rules: rules.into_iter().map(below_root).collect(),
            askers: Vec::new(),
            coflows: BTreeMap::new(),
            next: 1,
            started: std::time::Instant::now(),
            offset,
            looked_at: Instant::ZERO,
            ticked_at: Instant::ZERO,
        })
    }

    /// Serves until told to stop; then all limits are lifted, and processes go on untagged.
    ///
    /// # Errors
    /// If the kernel refuses what it took before.
    pub fn serve(mut self, stop: &AtomicBool) -> Result<(), Error> {
        while !stop.load(Ordering::Relaxed) {
            self.wait();
            self.turn()?;
        }
        Ok(())
    }

    /// By the clock of this host, going on evenly: what agents and clients count in.
    fn now(&self) -> Instant {
        Instant(self.offset + self.started.elapsed().as_nanos() as u64)
    }

    /// Sleeps until somebody says something, or something is due.
    fn wait(&self) {
        let streams = self.coflows.values().filter_map(|tagged| tagged.link.stream());
        let heard = std::iter::once(self.door.listener.as_fd())
            .chain(self.askers.iter().map(|asker| asker.stream.as_fd()))
            .chain(streams.map(AsFd::as_fd));
        let mut heard: Vec<PollFd<'_>> =
            heard.map(|stream| PollFd::from_borrowed_fd(stream, PollFlags::IN)).collect();
        let longest = if self.coflows.is_empty() { TICK } else { PERIOD };
        let wait = Timespec { tv_sec: 0, tv_nsec: longest.0 as _ };
        // An interrupt ends the wait early.
        let _ = poll(&mut heard, Some(&wait));
    }

    fn turn(&mut self) -> Result<(), Error> {
        let now = self.now();
        self.hear_askers(now);
        if now.since(self.looked_at) >= PERIOD {
            self.looked_at = now;
            self.look(now)?;
        }
        self.talk(now)?;
        if now.since(self.ticked_at) >= TICK {
            self.ticked_at = now;
            self.kernel.stay_alive()?;
            let groups = self.coflows.values().flat_map(|tagged| &tagged.groups);
            groups.for_each(|group| self.kernel.follow(group));
            self.askers.retain(|asker| asker.came_at.elapsed() < HURRY);
            self.end_what_is_over(now)?;
            for rule in self.rules.clone() {
                self.follow_rule(now, rule)?;
            }
        }
        Ok(())
    }

    fn hear_askers(&mut self, now: Instant) {
        while self.askers.len() < ASKERS {
            let Some(asker) = self.door.accept() else { break };
            self.askers.push(asker);
        }
        for mut asker in std::mem::take(&mut self.askers) {
            match asker.read() {
                Ok(None) => self.askers.push(asker),
                Ok(Some(Ok(request))) => self.take_in(now, asker, request),
                Ok(Some(Err(reason))) => asker.answer(Err(reason)),
                Err(_) => {}
            }
        }
    }

    /// Tags the process that asks.
    fn take_in(&mut self, now: Instant, asker: Asker, request: Request) {
        let number = match self.number_for(now, asker.user, request) {
            Ok(number) => number,
            Err(reason) => return asker.answer(Err(reason)),
        };
        let admitted = self.admit(&asker, number).map_err(|error| error.to_string());
        let Some(tagged) = self.coflows.get_mut(&number) else { return };
        match (admitted, tagged.key) {
            (Err(reason), _) => asker.answer(Err(reason)),
            (Ok(()), Some(key)) => asker.answer(Ok(key)),
            (Ok(()), None) => tagged.askers.push(asker),
        }
    }

    /// Moves the asking process into a group of the coflow below the one in which it is.
    fn admit(&mut self, asker: &Asker, number: u32) -> Result<(), Error> {
        if !asker.owns_process() {
            return Err(Error::NotYours);
        }
        let parent = self.kernel.parent_for(asker.process)?;
        let Some(tagged) = self.coflows.get_mut(&number) else { return Ok(()) };
        if tagged.groups.iter().any(|group| parent == group.path()) {
            return self.kernel.take_over(asker.process, number);
        }
        let known = tagged.groups.iter().position(|group| group.path().parent() == Some(&parent));
        let at = match known {
            Some(at) => at,
            None => {
                tagged.groups.push(self.kernel.tag(&parent, number)?);
                tagged.groups.len() - 1
            }
        };
        self.kernel.admit(asker.process, &tagged.groups[at], number)
    }

    /// Tags the processes of a rule's group, where there are any and they are not tagged yet.
    fn follow_rule(&mut self, now: Instant, rule: Rule) -> Result<(), Error> {
        let mut groups = self.coflows.values().flat_map(|tagged| &tagged.groups);
        let is_known = groups.any(|group| group.path() == rule.group);
        let Some(group) = Group::found(rule.group).ok().filter(|group| !is_known && group.is_populated())
        else {
            return Ok(());
        };
        let Ok(owner) = std::fs::metadata(group.path()).map(|found| found.uid()) else { return Ok(()) };
        // Its owner may have too many coflows for now.
        let Ok(number) = self.number_for(now, owner, rule.request) else { return Ok(()) };
        self.kernel.tag_group(&group, number)?;
        for process in group.all_members() {
            self.kernel.take_over(process, number)?;
        }
        if let Some(tagged) = self.coflows.get_mut(&number) {
            tagged.groups.push(group);
        }
        Ok(())
    }

    /// The number of a user's coflow, which is opened where there is none of that name.
    fn number_for(&mut self, now: Instant, user: u32, request: Request) -> Result<u32, String> {
        let is_it = |tagged: &Tagged| tagged.user == user && tagged.name == request.name;
        let found = self.coflows.iter().find(|(_, tagged)| is_it(tagged)).map(|(&number, _)| number);
        found.map_or_else(|| self.open(now, user, request), Ok)
    }

    fn open(&mut self, now: Instant, user: u32, request: Request) -> Result<u32, String> {
        if self.coflows.values().filter(|tagged| tagged.user == user).count() >= OF_USER {
            return Err(format!("a user may have {OF_USER} coflows at once: wait until some have ended"));
        }
        let number = self.next;
        self.next = number.checked_add(1).ok_or("the enforcer has used up its numbers: start it again")?;
        let mut link = Link::new(&self.agent, user, now.0.rotate_left(20) ^ u64::from(number));
        link.turn(now);
        let Request { name, class, deadline } = request;
        let key = match &name {
            Name::Coflow(key) => Some(*key),
            Name::Task(task) => {
                // A task whose name is none of a coflow's goes by its id.
                let name = task.parse().ok();
                link.client.register(now, Registration { class, deadline, name, ..Registration::default() });
                None
            }
        };
        let (groups, askers, flows) = (Vec::new(), Vec::new(), BTreeMap::new());
        let tagged = Tagged { user, name, groups, link, key, askers, flows, is_obedient: false };
        self.coflows.insert(number, tagged);
        Ok(number)
    }

    /// Tells clients what their flows have sent.
    fn look(&mut self, now: Instant) -> Result<(), Error> {
        if self.coflows.is_empty() {
            return Ok(());
        }
        for (flow, count) in self.kernel.counts()? {
            let Some(tagged) = self.coflows.get_mut(&flow.coflow) else { continue };
            let Some(key) = tagged.key else { continue };
            if tagged.tell(now, key, flow.peer, count) {
                self.kernel.cancel(flow);
            }
        }
        Ok(())
    }

    /// Exchanges words with the agent, and carries out what it has said.
    fn talk(&mut self, now: Instant) -> Result<(), Error> {
        let mut has_opened = false;
        for (&number, tagged) in &mut self.coflows {
            tagged.link.turn(now);
            while let Some(event) = tagged.link.client.poll_event() {
                match event {
                    ClientEvent::Ready(_) => {
                        tagged.is_obedient = true;
                        tagged.link.welcome();
                    }
                    ClientEvent::FellBack => tagged.is_obedient = false,
                    ClientEvent::Registered { coflow, .. } => tagged.learn_key(coflow),
                    ClientEvent::Directed(of_client) => {
                        let directive = tagged.link.client.directive(of_client);
                        let Some((peer, known)) = tagged.flow_of(of_client) else { continue };
                        let was_off = std::mem::replace(&mut known.is_off, directive.gate == Gate::Off {});
                        has_opened |= was_off && !known.is_off;
                        let flow = Flow { coflow: number, peer };
                        if tagged.is_obedient {
                            self.kernel.order(flow, Order::new(directive, self.classes))?;
                        } else {
                            self.kernel.cancel(flow);
                        }
                    }
                    ClientEvent::Refused { .. } => {}
                }
            }
        }
        // All else reaches connections by themselves: a gate that closes with the next packet, a rate or class within a
        // round trip. A walk costs milliseconds where the kernel's table of connections is large.
        if has_opened { self.kernel.refresh() } else { Ok(()) }
    }

    /// Forgets coflows without processes and connections.
    fn end_what_is_over(&mut self, now: Instant) -> Result<(), Error> {
        let is_over = |tagged: &Tagged| {
            let has_connections = tagged.flows.values().any(|known| known.number.is_some());
            !has_connections && !tagged.groups.iter().any(Group::is_populated)
        };
        let over: Vec<u32> =
            self.coflows.iter().filter(|(_, tagged)| is_over(tagged)).map(|(&number, _)| number).collect();
        for number in over {
            let Some(mut tagged) = self.coflows.remove(&number) else { continue };
            if let (Name::Task(_), Some(key)) = (&tagged.name, tagged.key) {
                tagged.link.client.unregister(key);
                tagged.link.turn(now);
            }
            self.kernel.forget(number, tagged.groups)?;
        }
        Ok(())
    }
}

impl Tagged {
    fn flow_of(&mut self, of_client: u32) -> Option<(IpAddr, &mut Known)> {
        let mut flows = self.flows.iter_mut();
        flows.find(|(_, known)| known.number == Some(of_client)).map(|(&peer, known)| (peer, known))
    }

    fn learn_key(&mut self, key: CoflowKey) {
        self.key = Some(key);
        self.askers.drain(..).for_each(|asker| asker.answer(Ok(key)));
    }

    /// Tells the agent what a flow has done. Returns whether it has just lost its last connection.
    fn tell(&mut self, now: Instant, key: CoflowKey, peer: IpAddr, count: Count) -> bool {
        let fresh = Known { number: None, sent: 0, moved_at: now, is_off: false };
        let known = self.flows.entry(peer).or_insert(fresh);
        let client = &mut self.link.client;
        let more = count.sent.0 - known.sent;
        if known.number.is_none() && (count.sockets > 0 || more > 0) {
            let local = SocketAddr::new(Ipv6Addr::UNSPECIFIED.into(), 0);
            let ends = Endpoints { local, remote: SocketAddr::new(peer, 0) };
            known.number = Some(client.open(key, ends, None));
        }
        let Some(number) = known.number else { return false };
        if more > 0 {
            client.sent(number, more);
            (known.sent, known.moved_at) = (count.sent.0, now);
        }
        client.set_idle(number, !count.waits && now.since(known.moved_at) >= IDLE);
        if count.sockets > 0 {
            return false;
        }
        client.close(number);
        (known.number, known.is_off) = (None, false);
        true
    }
}
