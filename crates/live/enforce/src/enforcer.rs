//! The enforcer: between commands that ask to be tagged, the programs in the kernel, and the agent.
//!
//! To the agent each tagged coflow is a client: it opens a flow for each peer, says what the kernel
//! has counted, and is told how to send. So the live system knows one way to carry out orders, and
//! a coflow is its user's, with that user's limits. One thread does everything; it wakes for an
//! agent's word at once, and for flows that begin and end, but no more often than each [`BRIEF`].
//! It looks at counts each Δ, as often as the agent wants to hear of them, but takes no more than a
//! small share of its time for that: it goes before all ordinary threads (`urgency`). What is quiet
//! costs nothing: connections that can be read are read, and no others; and flows that are off are
//! looked at once more, for what they sent before, and then each [`TICK`].

mod asking;
mod coflows;
mod handovers;
mod opening;
mod queue;
mod releasing;
mod rules;
mod showing;
mod tagged;
mod taking_up;
mod troubles;
mod vouching;

use std::collections::{BTreeMap, BTreeSet};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use cavalcade_client::DscpMap;
use cavalcade_model::{Instant, Nanos};
use cavalcade_protocol::{ClientEvent, Directive, Refusal, Subject as Refused};
use coflows::Coflows;
use handovers::Handovers;
use queue::Queue;
use releasing::Releasing;
pub use rules::{Rule, Subject};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use tagged::Tagged;
use taking_up::Waiting;
use troubles::Troubles;

use crate::door::{Amount, Asker, Door, Name, Request};
use crate::groups::{self, Group, Hierarchy};
use crate::shared::Made;
use crate::status::Window;
use crate::subordinates::Subordinates;
use crate::vouch::{Peers, Site};
use crate::{Error, Flow, Kernel, Order, urgency};

/// The time from a look to the next for flows that begin or end meanwhile: short ones share looks,
/// and what those wake.
const BRIEF: Nanos = Nanos::from_millis(2);
/// With very many flows a look takes long: the time between two is so many times as long as the
/// last one took.
const SPARING: u64 = 20;
/// The time between two signs of life, and between two looks for what has ended.
const TICK: Nanos = Nanos::from_millis(100);
/// The number of those after which everything is looked for that may have been missed.
const THOROUGH: u32 = 10;
/// The time after which no further process is looked through for connections that need marks.
const MARKING: Nanos = Nanos::from_millis(1);
/// The most processes that may be asking at once.
const ASKERS: usize = 64;
/// The most of these of one user: they keep no others out.
const ASKERS_OF_USER: usize = 16;
/// What may fail because of what users do.
const WALK: &str = "a walk over sockets failed";
const NO_ORDER: &str = "a flow is plain TCP: its order cannot be kept";
/// The longest that a request may take to come: a process that does not ask keeps others out no
/// longer.
const HURRY: Duration = Duration::from_secs(1);

/// The conditions of an enforcer's work.
#[derive(Debug)]
pub struct Conditions {
    /// Socket at which commands ask to be tagged.
    pub door: PathBuf,
    /// Socket of the agent, now or later.
    pub agent: PathBuf,
    /// Classes as DSCP.
    pub classes: DscpMap,
    /// The rules for what is tagged without asking, now or once it is there.
    pub rules: Vec<Rule>,
    /// The most coflows that a user may have at once.
    pub of_user: usize,
    /// The folders in which runtimes keep what they know of containers.
    pub containers: Vec<PathBuf>,
    /// The site whose hosts this one vouches to for connections.
    pub site: Option<Site>,
}

/// Connections that are readable.
#[derive(Debug)]
struct Readable {
    /// True if a connection waits at the door.
    at_door: bool,
    /// The libraries with messages, by their place, ascending.
    libraries: Vec<usize>,
    /// The coflows with messages from the agent, ascending.
    coflows: Vec<u32>,
}

/// Loaded programs, a door, and the way to the agent.
#[derive(Debug)]
pub struct Enforcer {
    kernel: Kernel,
    door: Door,
    conditions: Conditions,
    /// Rules that look for groups.
    rules: Vec<Rule>,
    askers: Vec<Asker>,
    handovers: Handovers,
    coflows: Coflows,
    /// Processes of refused coflows that are still to be let go.
    releasing: Releasing,
    /// Coflows of a former enforcer that are still to be taken up.
    taking_up: Queue<Waiting>,
    /// Numbers that the kernel gives to sockets by user or port, with the rule of each and the user
    /// whose task it is. They stay: a socket that listens passes its number on.
    standing: BTreeMap<u32, (u32, Rule)>,
    /// Flows that the kernel counts.
    counted: BTreeSet<Flow>,
    /// Coflows with connections that need marks which no program may set, and processes that may
    /// have these.
    unmarked: BTreeSet<u32>,
    to_mark: BTreeSet<u32>,
    /// Time from which on such marks are set again.
    marks_at: Instant,
    next: u32,
    subordinates: Subordinates,
    troubles: Troubles,
    /// What the next enforcer is to know, as it was last written.
    kept: Option<String>,
    /// Where other threads see how it stands.
    window: Window,
    /// Bytes of coflows that are over which were not sent by TCP.
    strayed: u64,
    /// Time until which no connection is accepted: there were no descriptors.
    closed_until: Instant,
    peers: Option<Peers>,
    /// Connections whose coflow has no key yet.
    unsaid: Vec<Made>,
    /// True where a connection is to be looked for by a walk.
    is_walk_due: bool,
    /// True until rules for ports have been given the connections that were there before them.
    are_ports_new: bool,
    started: std::time::Instant,
    offset: u64,
    /// The next look at counts, and the time before which there is none even if flows begin or end.
    look_at: Instant,
    rest_until: Instant,
    /// True if a flow has begun or ended since the last look.
    has_turned: bool,
    ticks: u32,
    ticked_at: Instant,
    scanned_at: Instant,
}

impl Enforcer {
    /// Opens the door to commands, and tags what rules name.
    ///
    /// # Errors
    /// If the door cannot be opened, there are no control groups, or the kernel takes no rule.
    pub fn new(kernel: Kernel, mut conditions: Conditions) -> Result<Self, Error> {
        let root = Hierarchy::find()?.root;
        let offset = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos() as u64;
        let mut made = Self {
            kernel,
            door: Door::open(&conditions.door, &conditions.agent)?,
            rules: Vec::new(),
            askers: Vec::new(),
            handovers: Handovers::default(),
            coflows: Coflows::default(),
            releasing: Releasing::default(),
            taking_up: Queue::default(),
            standing: BTreeMap::new(),
            counted: BTreeSet::new(),
            unmarked: BTreeSet::new(),
            to_mark: BTreeSet::new(),
            marks_at: Instant::ZERO,
            next: 1,
            subordinates: Subordinates::of_host(),
            troubles: Troubles::default(),
            kept: None,
            window: Window::default(),
            strayed: 0,
            closed_until: Instant::ZERO,
            peers: conditions.site.take().map(Peers::new).transpose()?,
            unsaid: Vec::new(),
            is_walk_due: false,
            are_ports_new: false,
            started: std::time::Instant::now(),
            offset,
            look_at: Instant::ZERO,
            rest_until: Instant::ZERO,
            has_turned: false,
            ticks: 0,
            ticked_at: Instant::ZERO,
            scanned_at: Instant::ZERO,
            conditions,
        };
        if made.peers.is_some() {
            made.kernel.vouch()?;
        }
        for rule in std::mem::take(&mut made.conditions.rules) {
            made.take_rule(rule, &root)?;
        }
        made.door.link_beside_agent();
        Ok(made)
    }

    /// Where other threads see how it stands.
    pub fn window(&self) -> Window {
        self.window.clone()
    }

    /// Serves until told to stop; then all limits are lifted, and processes go on untagged.
    ///
    /// # Errors
    /// If the kernel takes no sign of life any more. What cannot be done for one client ends
    /// nothing: it is logged.
    pub fn serve(mut self, stop: &AtomicBool) -> Result<(), Error> {
        urgency::go_first();
        self.show();
        while !stop.load(Ordering::Relaxed) {
            let readable = self.wait();
            self.turn(&readable)?;
        }
        // Those who run on are the next one's.
        self.keep(true);
        Ok(())
    }

    /// By the clock of this host, going on evenly: what agents and clients count in.
    fn now(&self) -> Instant {
        at(self.started, self.offset)
    }

    /// The time between two looks at the counts while there are flows: Δ, as the agent has said it.
    fn period(&self) -> Nanos {
        self.coflows.values().map(|tagged| tagged.link.client.period()).min().unwrap_or(TICK).min(TICK)
    }

    /// Tells whether there is nothing to look at.
    fn is_idle(&self) -> bool {
        self.coflows.is_empty() && self.standing.is_empty()
    }

    /// Polls until a connection is readable, or something is due. Returns what is readable.
    fn wait(&self) -> Readable {
        let streams =
            self.coflows.iter().filter_map(|(&number, tagged)| Some((number, tagged.link.stream()?)));
        let (numbers, streams): (Vec<u32>, Vec<_>) = streams.unzip();
        // Where a look is due for flows that have begun or ended, more of them change nothing.
        let turned = (!self.has_turned).then(|| self.kernel.turned_descriptor());
        let (places, libraries): (Vec<usize>, Vec<_>) = self.handovers.connections().unzip();
        let speaks = |stream| PollFd::from_borrowed_fd(stream, PollFlags::IN);
        let others = (streams.into_iter().map(AsFd::as_fd))
            .chain(turned)
            .chain(self.askers.iter().map(|asker| asker.stream.as_fd()))
            .chain(self.peers.iter().flat_map(|peers| [peers.socket.as_fd(), self.kernel.made_descriptor()]));
        let now = self.now();
        let at_door = if now < self.closed_until { PollFlags::empty() } else { PollFlags::IN };
        let door = PollFd::from_borrowed_fd(self.door.listener.as_fd(), at_door);
        let mut polled: Vec<PollFd<'_>> = std::iter::once(door)
            .chain(libraries.iter().map(|library| library.waits_for()))
            .chain(others.map(speaks))
            .collect();
        let look_at = if self.has_turned { self.rest_until } else { self.look_at };
        // Of flows that begin the kernel tells.
        let longest = if self.counted.is_empty() { TICK } else { look_at.since(now).min(TICK) };
        let due = self.releasing.due_at().into_iter().chain(self.taking_up.due_at());
        let longest = due.map(|due| due.since(now)).fold(longest, Nanos::min);
        let wait = Timespec { tv_sec: 0, tv_nsec: longest.0 as _ };
        // An interrupt ends the wait early.
        let _ = poll(&mut polled, Some(&wait));
        let spoke = |at: usize| !polled[at].revents().is_empty();
        let streams = numbers.into_iter().enumerate().filter(|(at, _)| spoke(1 + libraries.len() + at));
        Readable {
            at_door: spoke(0),
            libraries: (0..places.len()).filter(|at| spoke(1 + at)).map(|at| places[at]).collect(),
            coflows: streams.map(|(_, number)| number).collect(),
        }
    }

    fn turn(&mut self, readable: &Readable) -> Result<(), Error> {
        let now = self.now();
        self.accept_askers(now, readable.at_door);
        self.poll_libraries(now, &readable.libraries);
        self.vouch(now);
        let turned = self.kernel.turned();
        self.has_turned |= !turned.is_empty();
        self.counted.extend(turned);
        let is_look_due = now >= self.look_at || self.has_turned && now >= self.rest_until;
        if is_look_due {
            self.has_turned = false;
            let moves = self.look(now);
            let pause = Nanos(self.now().since(now).0.saturating_mul(SPARING));
            let period = self.period();
            self.rest_until = now + BRIEF.min(period).max(pause);
            self.look_at = self.next_look(now, period, moves).max(self.rest_until);
        }
        self.exchange(now, readable, is_look_due);
        self.mark();
        let (started, offset) = (self.started, self.offset);
        let kernel = &mut self.kernel;
        self.releasing.step(
            || at(started, offset),
            SPARING,
            |group, process, (coflow, instead)| {
                kernel.retag(process, coflow, instead);
                // Its number may be another process's by now.
                if kernel.group_of(process).is_some_and(|own| own.starts_with(group.path())) {
                    group.let_out(process);
                }
            },
        );
        self.take_up_some();
        if now.since(self.ticked_at) >= TICK {
            self.ticked_at = now;
            self.kernel.stay_alive()?;
            self.ticks = (self.ticks + 1) % THOROUGH;
            if self.ticks == 0 {
                self.look_around();
            }
            self.peers.iter_mut().for_each(Peers::repeat);
            if std::mem::take(&mut self.is_walk_due) {
                self.walk();
            }
            self.askers.retain(|asker| asker.came_at.elapsed() < HURRY);
            self.poll_all_libraries(now);
            self.end_what_is_over(now);
            self.follow_rules(now);
            // After the rules for groups and users, which go before those for ports.
            if std::mem::take(&mut self.are_ports_new) {
                let walked = self.kernel.refresh_everywhere();
                self.troubles.settle(WALK, walked);
            }
        }
        Ok(())
    }

    /// Goes over all sockets.
    fn walk(&mut self) {
        let walked = self.kernel.refresh();
        self.troubles.settle(WALK, walked);
    }

    /// Finds what has come or gone without a word.
    fn look_around(&mut self) {
        self.door.link_beside_agent();
        self.subordinates = Subordinates::of_host();
        if !self.is_idle() {
            let counts = self.kernel.counts();
            let counts = self.troubles.settle("the counts of flows cannot be read", counts);
            self.counted.extend(counts.into_iter().flatten().map(|(flow, _)| flow));
            let groups = self.coflows.values().flat_map(|tagged| &tagged.groups);
            groups.for_each(|group| self.kernel.follow(group));
            // A descriptor may have been on its way from one process to another.
            let marked = self.coflows.iter().filter(|(_, tagged)| tagged.has_marks());
            self.unmarked.extend(marked.map(|(&number, _)| number));
        }
        self.kernel.leave_empty_namespaces();
        self.keep(false);
        self.troubles.log();
        self.show();
    }

    /// Tags the process that asks.
    fn take_in(&mut self, now: Instant, asker: Asker, request: Request) {
        let sends = request.sends.clone();
        let number = match self.number_for(now, asker.user, request) {
            Ok(number) => number,
            Err(reason) => return asker.answer(Err(reason)),
        };
        let admitted = match asker.owns_process() {
            true => self.admit(asker.process, asker.user, number),
            false => Err(Error::NotYours),
        };
        let admitted = admitted.map_err(|error| error.to_string());
        if admitted.is_ok() {
            self.take_sizes(number, &sends);
        }
        let Some(tagged) = self.coflows.get_mut(&number) else { return };
        match (admitted, tagged.key) {
            (Err(reason), _) => asker.answer(Err(reason)),
            (Ok(()), Some(key)) => asker.answer(Ok(key)),
            (Ok(()), None) => tagged.askers.push(asker),
        }
    }

    /// Learns what a command of a coflow sends: the agent is told with its flows, and congestion
    /// controls go by it at once.
    fn take_sizes(&mut self, number: u32, sends: &[Amount]) {
        let Some(tagged) = self.coflows.get_mut(&number) else { return };
        for (peer, goal) in tagged.will_send(sends) {
            // Where a user has filled the kernel's table, a law does without.
            let _ = self.kernel.aim(Flow { coflow: number, peer }, goal);
        }
    }

    /// Moves a user's process into a group of the coflow below the one in which it is. A process
    /// that has a group of its user's to itself stays: the kernel takes milliseconds for a move,
    /// and more where there are many at once.
    fn admit(&mut self, process: u32, user: u32, number: u32) -> Result<(), Error> {
        let parent = self.releasing.above(self.kernel.parent_for(process)?);
        let own = self.group_to_itself(process, user, &parent);
        let Some(tagged) = self.coflows.get_mut(&number) else { return Ok(()) };
        if tagged.groups.iter().any(|group| parent == group.path()) {
            return self.kernel.take_over(process, number);
        }
        if let Some(group) = own {
            self.kernel.tag_group(&group, number)?;
            tagged.groups.push(group);
            return self.kernel.take_over(process, number);
        }
        let known = tagged.groups.iter().position(|group| group.path().parent() == Some(&parent));
        let at = match known {
            Some(at) => at,
            None => {
                tagged.groups.push(self.kernel.tag(&parent, number)?);
                tagged.groups.len() - 1
            }
        };
        self.kernel.admit(process, &tagged.groups[at], number)
    }

    /// The group at `path`, where a user's process has it to itself and it stands for no coflow
    /// yet.
    fn group_to_itself(&self, process: u32, user: u32, path: &Path) -> Option<Group> {
        let mut groups = self.coflows.values().flat_map(|tagged| &tagged.groups);
        let is_taken = path == self.kernel.place().above || groups.any(|known| path == known.path());
        let group = Group::found(path.to_owned()).ok().filter(|_| !is_taken)?;
        group.belongs_to(process, user).then_some(group)
    }

    /// The time of the next look: a period from now if a flow moves, else after [`TICK`]. Two
    /// things bring the latter forward: a look that was planned already, because in it the agent
    /// hears what flows sent before they were off; and the end of a lease, when all open.
    fn next_look(&self, now: Instant, period: Nanos, moves: bool) -> Instant {
        if moves {
            return now + period;
        }
        let leases = self.coflows.values().filter_map(|tagged| tagged.link.client.lease_until());
        let planned = Some(self.look_at).into_iter().chain(leases).filter(|when| *when > now);
        planned.fold(now + TICK, Instant::min)
    }

    /// Tells clients what their flows have sent. Returns whether any flow moves
    /// ([`Tagged::moves`]).
    fn look(&mut self, now: Instant) -> bool {
        if self.is_idle() {
            return false;
        }
        self.coflows.values_mut().for_each(|tagged| tagged.has_sockets = false);
        let mut counts = Vec::with_capacity(self.counted.len());
        self.counted.retain(|&flow| {
            let count = self.kernel.count(flow);
            counts.extend(count.map(|count| (flow, count)));
            count.is_some()
        });
        let mut moves = false;
        for (flow, count) in counts {
            let is_open = count.sockets > 0;
            if is_open {
                self.open_standing(now, flow.coflow);
            }
            let Some(tagged) = self.coflows.get_mut(&flow.coflow) else { continue };
            tagged.has_sockets |= is_open;
            moves |= tagged.moves(flow.peer, count);
            if tagged.needs_marks(flow.peer, count) {
                self.unmarked.insert(flow.coflow);
            }
            let Some(key) = tagged.key else { continue };
            if tagged.report(now, key, flow.peer, count) {
                self.kernel.cancel(flow);
            } else {
                // A push may have missed it: its connection is not one of the coflow's processes.
                self.is_walk_due |= count.waits && !tagged.is_off(flow.peer);
            }
        }
        moves
    }

    /// Sets marks that no program may set. What users' processes have open may take long to look
    /// through, so this has time of its own, and does not hold up looks.
    fn mark(&mut self) {
        let began = self.now();
        if began < self.marks_at {
            return;
        }
        for number in std::mem::take(&mut self.unmarked) {
            self.to_mark.extend(self.processes_of(number));
        }
        let mut spent = Nanos::ZERO;
        while spent < MARKING
            && let Some(process) = self.to_mark.pop_first()
        {
            self.kernel.mark(process);
            spent = self.now().since(began);
        }
        self.marks_at = began + Nanos(spent.0.saturating_mul(SPARING));
    }

    /// The processes that may have connections of a coflow; for a rule that names a port nothing
    /// says which.
    fn processes_of(&self, number: u32) -> Vec<u32> {
        match self.standing.get(&number) {
            Some((user, Rule { subject: Subject::User(_), .. })) => groups::processes_of(*user),
            _ => self.coflows.get(&number).into_iter().flat_map(Tagged::processes).collect(),
        }
    }

    /// Reads and writes the connections to the agent, and carries out its directives. Those without
    /// input are only written to, after a look.
    fn exchange(&mut self, now: Instant, readable: &Readable, is_look_due: bool) {
        let (mut is_walk_due, mut is_directed, mut opened) = (false, false, Vec::new());
        let mut refused = Vec::new();
        for (&number, tagged) in &mut self.coflows {
            let is_readable = readable.coflows.binary_search(&number).is_ok();
            if !is_readable
                && !is_look_due
                && tagged.link.stream().is_some()
                && !tagged.link.client.has_messages()
            {
                continue;
            }
            tagged.link.turn(now, is_readable);
            while let Some(event) = tagged.link.client.poll_event() {
                match event {
                    ClientEvent::Ready(_) => {
                        self.kernel.cancel(Flow::of_all_peers(number));
                        tagged.is_obedient = true;
                        tagged.link.welcome();
                    }
                    ClientEvent::FellBack => {
                        // Flows that begin meanwhile as well.
                        let released = self.kernel.release(Flow::of_all_peers(number));
                        self.troubles.settle(NO_ORDER, released);
                        tagged.is_obedient = false;
                    }
                    ClientEvent::Registered { coflow, .. } => {
                        let named = self.kernel.name(number, coflow.serial);
                        self.troubles.settle("a coflow's key cannot be said", named);
                        tagged.learn_key(coflow);
                    }
                    ClientEvent::Directed(of_client) => {
                        let directive = tagged.link.client.directive(of_client);
                        let Some((peer, gate, opens)) = tagged.direct(of_client, directive.gate) else {
                            continue;
                        };
                        is_directed = true;
                        let directive = Directive { gate, ..directive };
                        let flow = Flow { coflow: number, peer };
                        // What only a rule has tagged is found by a walk alone.
                        let has_processes = !tagged.groups.is_empty() || !tagged.libraries.is_empty();
                        if opens && has_processes {
                            opened.push(flow);
                        } else {
                            is_walk_due |= opens;
                        }
                        // A directive without a class enforces nothing: the flow is drained, or no
                        // coordinator leads.
                        let ordered = if tagged.is_obedient && directive.class.is_some() {
                            self.kernel.order(flow, Order::new(directive, self.conditions.classes))
                        } else {
                            self.kernel.release(flow)
                        };
                        // What was ordered before holds no longer.
                        if self.troubles.settle(NO_ORDER, ordered).is_none() {
                            self.kernel.cancel(flow);
                        }
                    }
                    ClientEvent::Refused { subject: Refused::Coflow { coflow }, refusal } => {
                        refused.extend(tagged.goes_by(coflow).then_some((number, refusal)));
                    }
                    ClientEvent::Refused { .. } => {}
                }
            }
        }
        if is_directed {
            self.look_at = self.look_at.min((now + self.period()).max(self.rest_until));
        }
        is_walk_due |= !self.push(&opened);
        refused.into_iter().for_each(|(number, refusal)| self.let_go(now, number, refusal));
        // All else reaches connections by themselves: a gate that closes with the next packet, a
        // rate or class within a round trip. A walk costs milliseconds where the kernel's table of
        // connections is large.
        if is_walk_due {
            self.walk();
        }
    }

    /// The agent refuses a coflow that a process named: its processes are as if they had not asked,
    /// so that the rules for them hold.
    fn let_go(&mut self, now: Instant, number: u32, refusal: Refusal) {
        let Some(tagged) = self.coflows.get_mut(&number) else { return };
        if tagged.begin_again(now) {
            return;
        }
        let reason = format!("user {}, {:?}: {refusal}", tagged.user, tagged.name);
        let (user, owner, groups) = (tagged.user, tagged.owner, std::mem::take(&mut tagged.groups));
        self.troubles
            .note("the agent refuses a coflow; its commands are as if they had not named it", reason);
        let is_its = |rule: &Rule| rule.subject == Subject::User(user);
        let instead = self.standing.iter().find(|(_, (_, rule))| is_its(rule)).map(|(&number, _)| number);
        groups.iter().for_each(|group| self.kernel.forget_group(group));
        self.releasing.begin(owner, groups, number, instead);
    }

    /// Has these flows send what waited. Returns whether that reached all their connections, among
    /// the descriptors of their processes: a program may have closed one, and ended, with bytes
    /// left to send.
    fn push(&self, opened: &[Flow]) -> bool {
        let mut pushed = BTreeMap::new();
        let mut are_found = true;
        for &flow in opened {
            let processes = self.coflows.get(&flow.coflow).map(Tagged::processes).unwrap_or_default();
            let mut found = BTreeSet::new();
            for process in processes {
                let sockets: &Vec<_> = pushed.entry(process).or_insert_with(|| self.kernel.push(process));
                found
                    .extend(sockets.iter().filter(|(_, peer)| *peer == flow.peer).map(|(number, _)| *number));
            }
            are_found &= self.kernel.count(flow).is_none_or(|count| count.sockets <= found.len() as u64);
        }
        are_found
    }

    /// Forgets coflows without processes and connections.
    fn end_what_is_over(&mut self, now: Instant) {
        let over = self.coflows.iter().filter(|(_, tagged)| tagged.is_over(now));
        let over: Vec<u32> = over.map(|(&number, _)| number).collect();
        for number in over {
            let Some(mut tagged) = self.coflows.remove(number) else { continue };
            self.strayed = self.strayed.saturating_add(self.kernel.strayed(number).0);
            if let (Name::Task(_), Some(key)) = (&tagged.name, tagged.key) {
                tagged.link.client.unregister(key);
                tagged.link.turn(now, false);
            }
            let forgotten = match self.standing.contains_key(&number) {
                true => self.kernel.clear(number),
                false => self.kernel.forget(number, tagged.groups),
            };
            self.troubles.settle("a coflow that is over cannot be forgotten", forgotten);
        }
    }
}

/// The time by a clock that was `offset` when it started.
fn at(started: std::time::Instant, offset: u64) -> Instant {
    Instant(offset + started.elapsed().as_nanos() as u64)
}
