//! `dcas`: hosts agree on the order of a coflow through its receivers, without a coordinator.
//!
//! A host sees only its own part of a coflow, the *subcoflow*. Ordering subcoflows by their own
//! remaining time is blind to coflows. So each sender announces its *desired* priority (remaining
//! bytes over NIC rate) to the receivers of its flows; a receiver answers with the largest that it
//! has heard for the coflow (Ψ = max); and a sender takes the largest answer (Φ = max). Parts of
//! one coflow that share a receiver so come to one order: that of its slowest part.
//!
//! # Pseudocode 1: the sender, every δ (`sync`), for each subcoflow
//! | remaining bytes, service | ⟨T, P⟩ |
//! |---|---|
//! | below `threshold_volume` | ⟨0, coflow id⟩: first in, first out; negotiation would take longer than the transfer |
//! | none served for more than `starvation` (T) | ⟨1, 0⟩ |
//! | else | announce the desire d to all receivers, `wait` several RTTs, then ⟨1, Φ(answers)⟩, or ⟨1, d⟩ without answers |
//!
//! # Pseudocode 2: the receiver, for each announcement
//! Remember it in place of the sender's last one, forget what is older than `expiry`, and answer
//! the sender with Ψ of what is left.
//!
//! The name `dcas` is that and nothing else. Three things the paper leaves open are settled here:
//! all hosts look at the same multiples of δ; a new subcoflow is scheduled when it arrives, and has
//! ⟨1, d⟩ until its answers are in; and "several RTTs" is a time. While a sender waits, a subcoflow
//! keeps the priority that it has.
//!
//! # What the starvation rule costs
//! ⟨1, 0⟩ holds until the next tick, so each subcoflow without service takes up to δ of each T + δ.
//! With more than ten of them on a port the port does little else, and D-CAS turns into fair
//! sharing. `starvation=none` leaves the rule out; `lift=served` ends it with the first byte. The
//! paper calls the rule starvation-free; an endless stream of small subcoflows can still hold a
//! large one up, so the claim is not made here.
//!
//! # Cost
//! Each tick costs a message and an answer for each pair of a subcoflow and a receiver: 3·10⁹ on
//! the Facebook trace. `announce=leaders` (the name `dcas-quiet`) says much less, and is ours: see
//! [`leaders`].

mod leaders;

use cavalcade_model::{
    BitsPerSec, Bytes, Clairvoyant, CoflowId, Decision, Discipline, Event, Foresee, Instant, Message, Nanos,
    Payload, Policy, PortId, Priority, Scope, Setting, Target, Terms, Ticks,
};
use cavalcade_spec::{Choice, Complaint, Parameter};

use self::leaders::{Gathering, Leading};
use crate::definition::{About, Definition, Follows, Named, Paper};
use crate::support::peers::Latest;
use crate::support::ticks::tick_at_or_after;

/// Parameters of `dcas`.
#[derive(Clone)]
pub(crate) struct Dcas {
    sync: Nanos,
    threshold_volume: Bytes,
    starvation: Option<Nanos>,
    lift: Lift,
    expiry: Nanos,
    wait: Nanos,
    announce: Announce,
    queues: Option<u32>,
}

/// The end of the priority of a subcoflow that was without service.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Lift {
    /// The first tick after it was served (the paper's).
    Tick,
    /// The first byte served.
    Served,
}

impl Choice for Lift {
    const WORDS: &'static [(&'static str, Self)] = &[("tick", Lift::Tick), ("served", Lift::Served)];
}

/// The subcoflows that announce their desires.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Announce {
    /// Every one, to all its receivers, at every tick (the paper's).
    All,
    /// Those that may be the slowest part of their coflow.
    Leaders,
}

impl Choice for Announce {
    const WORDS: &'static [(&'static str, Self)] = &[("all", Announce::All), ("leaders", Announce::Leaders)];
}

impl Default for Dcas {
    fn default() -> Self {
        Self {
            sync: Nanos::from_millis(100),
            threshold_volume: Bytes(1_000_000),
            starvation: Some(Nanos::from_secs(1)),
            lift: Lift::Tick,
            expiry: Nanos::from_secs(2),
            wait: Nanos::from_millis(1),
            announce: Announce::All,
            queues: None,
        }
    }
}

impl Definition for Dcas {
    const ABOUT: About = About {
        name: "dcas",
        title: "Hosts negotiate the order of coflows through their receivers",
        source: "D-CAS (2014) §III, §IV, Pseudocodes 1 and 2, §V-A for the parameters",
        paper: Some(Paper {
            system: "D-CAS",
            venue: "Luo et al.",
            year: 2014,
            follows: Follows::Text,
            transport: None,
        }),
        knows: "remaining bytes of the host's own subcoflows, and what peers say",
        cost: "O(pairs of subcoflow and receiver of the host) every sync; O(log peers) for a message",
    };

    const NAMES: &'static [Named] = &[Named {
        name: "dcas-quiet",
        title: "D-CAS with far fewer messages: only the slowest parts of a coflow announce",
        source: "our variant of D-CAS",
        paper: None,
        settings: "announce=leaders",
    }];

    const PARAMETERS: &'static [Parameter<Self>] = &[
        Parameter {
            name: "sync",
            meaning: "interval at which a host reviews its subcoflows (delta)",
            field: |p| &mut p.sync,
        },
        Parameter {
            name: "threshold_volume",
            meaning: "bytes left below which a subcoflow goes first, in order of arrival",
            field: |p| &mut p.threshold_volume,
        },
        Parameter {
            name: "starvation",
            meaning: "time without service after which a subcoflow is lifted above all negotiated ones (T); none: never",
            field: |p| &mut p.starvation,
        },
        Parameter {
            name: "lift",
            meaning: "end of the lift: at the first tick after service, or with the first byte served",
            field: |p| &mut p.lift,
        },
        Parameter {
            name: "expiry",
            meaning: "age at which a message of a peer is forgotten",
            field: |p| &mut p.expiry,
        },
        Parameter {
            name: "wait",
            meaning: "time between announcing and using the answers, several RTTs; leaders do not wait",
            field: |p| &mut p.wait,
        },
        Parameter {
            name: "announce",
            meaning: "all subcoflows announce at every tick, or only leaders, when something changes",
            field: |p| &mut p.announce,
        },
        Parameter {
            name: "queues",
            meaning: "queues of the network: negotiated priorities fall into those below two by steps of a factor of two; none: the order alone tells them apart",
            field: |p| &mut p.queues,
        },
    ];

    fn check(&mut self, _: &[&str]) -> Result<(), Complaint> {
        let positive = |time: Nanos| time > Nanos::ZERO;
        Complaint::unless(positive(self.sync), "sync", "at least 1ns")?;
        Complaint::unless(self.starvation.is_none_or(positive), "starvation", "at least 1ns, or none")?;
        let before_next = positive(self.wait) && self.wait < self.sync;
        Complaint::unless(
            before_next,
            "wait",
            format!("at least 1ns and below sync, which is {}", self.sync),
        )?;
        Complaint::unless(
            self.expiry >= self.sync,
            "expiry",
            format!("at least sync, which is {}", self.sync),
        )?;
        let fits = self.queues.is_none_or(|queues| (FIRST_QUEUE + 1..=MOST_QUEUES).contains(&queues));
        Complaint::unless(fits, "queues", format!("{} to {MOST_QUEUES}, or none", FIRST_QUEUE + 1))
    }

    fn go_to_queues(&mut self, queues: u32) {
        self.queues = self.queues.or(Some(queues));
    }

    fn terms(&self) -> Terms {
        // What was said is forgotten when it expires; what leaders repeat has come round once more
        // by then.
        let every = Rules { params: self.clone(), line_rate: BitsPerSec::ZERO }.between_rounds();
        let memory = Nanos(self.expiry.0.saturating_add(every.0).saturating_mul(2));
        Terms { ticks: Some(Ticks { every, memory }), ..Terms::strict(Scope::Host, Discipline::MaxMin) }
    }

    fn build(&self, setting: &Setting<'_>) -> Policy {
        let rules = Rules { params: self.clone(), line_rate: setting.line_rate };
        Policy::Clairvoyant(Box::new(Host {
            rules,
            sending: Vec::new(),
            received: Vec::new(),
            gathering: Gathering::default(),
            tick: None,
        }))
    }
}

/// The first queue of negotiated priorities where there are few queues: small subcoflows have one
/// above, lifted ones another.
const FIRST_QUEUE: u32 = 2;
/// The most queues that a network tells apart.
const MOST_QUEUES: u32 = 8;

/// The kinds of messages (§III-C): a sender's desired order for its subcoflow, to a receiver of it;
/// and the receiver's answer, made of all desired orders that it heard for the coflow.
const DESIRED: u8 = 0;
const FEEDBACK: u8 = 1;

fn desire(coflow: CoflowId, order: u64) -> Message {
    Message { coflow, payload: Payload::of_number(DESIRED, order) }
}

fn feedback(coflow: CoflowId, order: u64) -> Message {
    Message { coflow, payload: Payload::of_number(FEEDBACK, order) }
}

/// Rules of all subcoflows of a host.
struct Rules {
    params: Dcas,
    line_rate: BitsPerSec,
}

impl Rules {
    /// Returns the time that `remaining` takes on the NIC, in nanoseconds.
    fn desired(&self, remaining: Bytes) -> u64 {
        remaining.time_at(self.line_rate).unwrap_or(Nanos::MAX).0
    }

    /// The priority of a subcoflow whose negotiated order is this. A network of few queues keeps
    /// the class alone: then orders are sorted into classes too, and each holds twice as much as
    /// the one before it. Who goes before whom stays the same.
    fn negotiated(&self, order: u64) -> Priority {
        let Some(queues) = self.params.queues else { return Priority::new(1, order) };
        let least = self.desired(self.params.threshold_volume).max(1);
        let step = (order / least).checked_ilog2().unwrap_or(0);
        Priority::new((FIRST_QUEUE + step.min(queues - 1 - FIRST_QUEUE)) as u16, order)
    }
}

/// One host, as sender and as receiver.
struct Host {
    rules: Rules,
    /// Its subcoflows, ascending by coflow.
    sending: Vec<Subcoflow>,
    /// The desires of senders, kept by a receiver, ascending by coflow.
    received: Vec<Received>,
    /// The answers still due to leaders, kept by a receiver.
    gathering: Gathering,
    /// Time at which the next tick is due.
    tick: Option<Instant>,
}

/// State of a coflow at a receiver.
struct Received {
    coflow: CoflowId,
    desires: Latest,
    /// The largest desire that it told all senders last, where leaders announce.
    told: u64,
}

/// A sender's part of a coflow.
struct Subcoflow {
    coflow: CoflowId,
    attained: Bytes,
    remaining: Bytes,
    /// Time at which it was last seen to have been served; at first, when it arrived.
    served: Instant,
    talk: Talk,
    priority: Option<Priority>,
}

/// Exchange by which a subcoflow gets its secondary priority.
enum Talk {
    Round(Round),
    Leading(Box<Leading>),
}

/// One announcement to all receivers, and its answers.
#[derive(Default)]
struct Round {
    desired: u64,
    /// The largest answer so far.
    answer: Option<u64>,
    /// Time at which answers are used; `None` where nothing is awaited.
    ends: Option<Instant>,
}

/// Class into which Pseudocode 1 sorts a subcoflow.
enum Sort {
    Small,
    Starved,
    Large,
}

impl Subcoflow {
    fn new(coflow: CoflowId, now: Instant, rules: &Rules, view: &dyn Foresee) -> Self {
        let talk = match rules.params.announce {
            Announce::All => Talk::Round(Round::default()),
            Announce::Leaders => Talk::Leading(Box::new(Leading::new(now))),
        };
        let (attained, remaining) = (view.attained(coflow), view.remaining(coflow));
        Self { coflow, attained, remaining, served: now, talk, priority: None }
    }

    /// Carries out Pseudocode 1 for this subcoflow, up to the wait.
    fn schedule(&mut self, now: Instant, rules: &Rules, view: &dyn Foresee, decision: &mut Decision) {
        self.look(now, view);
        match (self.sort(now, rules), &mut self.talk) {
            (Sort::Large, Talk::Round(round)) => {
                round.announce(self.coflow, rules.desired(self.remaining), view, decision);
                round.ends = now.checked_add(rules.params.wait);
                if self.priority.is_none() {
                    let desired = round.desired;
                    self.set(rules.negotiated(desired), decision);
                }
            }
            (Sort::Large, Talk::Leading(leading)) => {
                leading.announce(self.coflow, self.remaining, now, rules, view, decision);
                self.decide(now, rules, decision);
            }
            (_, talk) => {
                if let Talk::Round(round) = talk {
                    round.ends = None;
                }
                self.decide(now, rules, decision);
            }
        }
    }

    /// Reads what has been sent and what is left.
    fn look(&mut self, now: Instant, view: &dyn Foresee) {
        let attained = view.attained(self.coflow);
        // Only more is service: what rounding takes back it gives again.
        if attained > self.attained {
            self.attained = attained;
            self.served = now;
        }
        self.remaining = view.remaining(self.coflow);
    }

    fn sort(&self, now: Instant, rules: &Rules) -> Sort {
        let waited = now.since(self.served);
        if self.remaining < rules.params.threshold_volume {
            Sort::Small
        } else if rules.params.starvation.is_some_and(|longest| waited > longest) {
            Sort::Starved
        } else {
            Sort::Large
        }
    }

    /// Sets the priority that follows from what is known now.
    fn decide(&mut self, now: Instant, rules: &Rules, decision: &mut Decision) {
        let priority = match self.sort(now, rules) {
            Sort::Small => Priority::new(0, u64::from(self.coflow.0)),
            Sort::Starved => Priority::new(1, 0),
            Sort::Large => {
                let negotiated = match &mut self.talk {
                    Talk::Round(round) => round.answer,
                    Talk::Leading(leading) => leading.largest(now, rules),
                };
                rules.negotiated(negotiated.unwrap_or_else(|| rules.desired(self.remaining)))
            }
        };
        self.set(priority, decision);
        if priority == Priority::new(1, 0) && rules.params.lift == Lift::Served {
            decision.watch(Target::Coflow(self.coflow), self.attained + Bytes(1));
        }
    }

    fn set(&mut self, priority: Priority, decision: &mut Decision) {
        if self.priority != Some(priority) {
            self.priority = Some(priority);
            decision.set_coflow(self.coflow, priority);
        }
    }

    /// Returns when it is to use the answers that it waits for.
    fn settles(&self) -> Option<Instant> {
        match &self.talk {
            Talk::Round(round) => round.ends,
            Talk::Leading(_) => None,
        }
    }

    /// Uses the answers: the wait is over.
    fn settle(&mut self, rules: &Rules, decision: &mut Decision) {
        if let Talk::Round(round) = &mut self.talk {
            round.ends = None;
            let order = round.answer.unwrap_or(round.desired);
            self.set(rules.negotiated(order), decision);
        }
    }

    /// Takes an answer.
    fn receive(&mut self, from: PortId, order: u64, now: Instant, rules: &Rules, decision: &mut Decision) {
        match &mut self.talk {
            Talk::Round(round) => round.answer = round.answer.max(Some(order)),
            Talk::Leading(leading) => {
                leading.receive(from, order, now, rules);
                self.decide(now, rules, decision);
            }
        }
    }
}

impl Round {
    /// Starts over: forgets the former answers and tells all receivers.
    fn announce(&mut self, coflow: CoflowId, desired: u64, view: &dyn Foresee, decision: &mut Decision) {
        self.desired = desired;
        self.answer = None;
        for receiver in receivers(coflow, view) {
            decision.send(receiver, desire(coflow, desired));
        }
    }
}

/// Lists who receives unfinished flows of `coflow`, ascending.
fn receivers(coflow: CoflowId, view: &dyn Foresee) -> Vec<PortId> {
    let mut receivers = Vec::new();
    view.flows(coflow, &mut |flow| receivers.push(view.flow(flow).dst));
    receivers.sort_unstable();
    receivers.dedup();
    receivers
}

impl Host {
    fn find(&self, coflow: CoflowId) -> Result<usize, usize> {
        self.sending.binary_search_by_key(&coflow, |subcoflow| subcoflow.coflow)
    }

    fn arrive(&mut self, now: Instant, coflow: CoflowId, view: &dyn Foresee, decision: &mut Decision) {
        let mut subcoflow = Subcoflow::new(coflow, now, &self.rules, view);
        subcoflow.schedule(now, &self.rules, view, decision);
        match self.find(coflow) {
            Ok(index) => self.sending[index] = subcoflow,
            Err(index) => self.sending.insert(index, subcoflow),
        }
        if self.tick.is_none() {
            self.plan_tick(now);
        }
        self.ask_to_be_woken(now, decision);
    }

    fn plan_tick(&mut self, now: Instant) {
        self.tick = now.checked_add(Nanos(1)).map(|after| tick_at_or_after(after, self.rules.params.sync));
    }

    fn ask_to_be_woken(&self, now: Instant, decision: &mut Decision) {
        let settles = self.sending.iter().filter_map(Subcoflow::settles);
        let next = settles.chain(self.tick).chain(self.gathering.due()).min();
        // What is due now is on its way, and asking again would cancel it.
        if let Some(next) = next.filter(|next| *next > now) {
            decision.wake_at(next);
        }
    }

    fn wake(&mut self, now: Instant, view: &dyn Foresee, decision: &mut Decision) {
        if self.gathering.is_due(now) {
            self.answer_gathered(now, decision);
        }
        for subcoflow in self.sending.iter_mut().filter(|one| one.settles().is_some_and(|at| at <= now)) {
            subcoflow.settle(&self.rules, decision);
        }
        if self.tick.is_some_and(|due| due <= now) {
            self.tick = None;
            for subcoflow in &mut self.sending {
                subcoflow.schedule(now, &self.rules, view, decision);
            }
            if !self.sending.is_empty() {
                self.plan_tick(now);
            }
        }
        self.ask_to_be_woken(now, decision);
    }

    /// Takes a message. What no host of this policy says is left out.
    fn receive(&mut self, now: Instant, from: PortId, message: Message, decision: &mut Decision) {
        let coflow = message.coflow;
        match message.payload.number() {
            Some((DESIRED, order)) => self.reply(now, from, coflow, order, decision),
            Some((FEEDBACK, order)) => {
                if let Ok(index) = self.find(coflow) {
                    self.sending[index].receive(from, order, now, &self.rules, decision);
                }
            }
            _ => {}
        }
    }

    /// Carries out Pseudocode 2. Leaders are answered together with what else arrives in the same
    /// instant.
    fn reply(&mut self, now: Instant, from: PortId, coflow: CoflowId, desired: u64, decision: &mut Decision) {
        let expiry = self.rules.params.expiry;
        let received = self.received_of(coflow, now);
        received.desires.put(from, desired, now);
        match self.rules.params.announce {
            Announce::All => {
                let largest = self.received_of(coflow, now).desires.max(now, expiry);
                let order = largest.expect("what has just been said is not expired");
                decision.send(from, feedback(coflow, order));
            }
            Announce::Leaders => {
                self.gathering.note(coflow, from, now);
                self.ask_to_be_woken(now, decision);
            }
        }
    }

    /// Finds the entry of `coflow`. Adding one drops those that have expired.
    fn received_of(&mut self, coflow: CoflowId, now: Instant) -> &mut Received {
        let index = match self.received.binary_search_by_key(&coflow, |known| known.coflow) {
            Ok(index) => index,
            Err(_) => {
                let expiry = self.rules.params.expiry;
                self.received.retain_mut(|known| known.desires.max(now, expiry).is_some());
                let index = self.received.partition_point(|known| known.coflow < coflow);
                self.received.insert(index, Received { coflow, desires: Latest::default(), told: 0 });
                index
            }
        };
        &mut self.received[index]
    }
}

impl Clairvoyant for Host {
    fn handle(&mut self, now: Instant, event: Event, view: &dyn Foresee, decision: &mut Decision) {
        match event {
            Event::CoflowArrived(coflow) => self.arrive(now, coflow, view, decision),
            Event::CoflowFinished(coflow) => {
                if let Ok(index) = self.find(coflow) {
                    self.sending.remove(index);
                }
            }
            Event::Wake => self.wake(now, view, decision),
            Event::Reached(Target::Coflow(coflow)) => {
                if let Ok(index) = self.find(coflow) {
                    let subcoflow = &mut self.sending[index];
                    subcoflow.look(now, view);
                    subcoflow.decide(now, &self.rules, decision);
                }
            }
            Event::Received { from, message } => self.receive(now, from, message, decision),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests;
