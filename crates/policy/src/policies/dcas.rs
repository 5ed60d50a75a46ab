//! `dcas`: hosts agree on the order of a coflow through its receivers, without a coordinator.
//!
//! A host sees only its own part of a coflow, the *subcoflow*. Ordering subcoflows by their own remaining time is blind
//! to coflows; so each sender announces its *desired* priority (remaining bytes over NIC rate) to the receivers of its
//! flows, a receiver answers with the largest that it has heard for the coflow (Ψ = max), and a sender uses the largest
//! answer (Φ = max). Parts of one coflow that share a receiver so come to one order: that of its slowest part.
//!
//! | remaining bytes, service | ⟨T, P⟩ |
//! |---|---|
//! | below `threshold_volume` | ⟨0, coflow id⟩: first in, first out; negotiation would take longer than the transfer |
//! | none served for `starvation` | ⟨1, 0⟩ |
//! | else | ⟨1, Φ(answers)⟩, or ⟨1, desired⟩ where no unexpired answer is known |
//!
//! Senders look at their subcoflows at every multiple of `sync`, all hosts at the same instants, and at a new one when
//! it arrives. Pseudocode 1 waits several RTTs between announcing and using answers; here an answer is used when it
//! comes, so late and lost messages need no case of their own.
//!
//! # How many messages
//! Announcing everything at every tick, as printed, is 3·10⁹ messages on the Facebook trace, nearly all of them
//! repetitions. What is said here:
//! - A *leader*, a sender that has heard no answer above what it announced, is perhaps the one whom the others go by.
//!   When its desire changes it tells its *witness*: of the receivers that gave the largest answer the one that spoke
//!   last, by port among several. Where all senders send to all receivers they so meet at one receiver. All its
//!   receivers it tells in a *round*, at instants that are the same for all hosts and 3/4 of `expiry` apart, if its
//!   desire has changed since the last; and when no answer is left. At ticks on which it has nothing else to say it
//!   repeats to those that have not answered.
//! - A *follower* has been told a larger value than its own. It only asks its witness again after 3/4 of `expiry`.
//! - A *receiver* gathers what comes at one instant, and answers a nanosecond later: sooner, the first to announce would
//!   be told what the last is about to change. When its largest value has changed it also tells the other senders that
//!   it remembers. That goes beyond Pseudocode 2, which answers the announcer alone, and lets followers be silent.
//!
//! # Staleness
//! Φ is to use the answers of one round; but a follower is in touch with its witness alone, and what other receivers said
//! is older. When the witness lowers its value, answers that were equal to the former one are lowered with it: they came
//! from the same leader. That is exact where every sender of a coflow sends to all its receivers. Elsewhere two leaders
//! may by chance have desired the same; the guess then holds until the other receiver speaks.
//!
//! A receiver remembers what a follower announced, though that has shrunk since. When the leader falls below it, the
//! former value stands for all senders until the next tick, at which its owner, now the leader, announces anew. Both err
//! towards a lower priority, by no more than was served in `expiry`. Where senders have different receivers, those that
//! are nobody's witness lag by up to a round, and senders of one coflow may differ for as long. Where messages are lost,
//! a sender falls back on its own desire once nothing that it heard is younger than `expiry`. Receivers of flows that
//! arrive in later waves are found at the next full round. A subcoflow's size is read again when it has been served, and
//! else once a round, for the same reason.
//!
//! # Starvation
//! ⟨1, 0⟩ comes before all negotiated subcoflows but after all small ones. The paper calls this starvation-free; an
//! endless stream of small subcoflows can still hold it up, so the claim is not made here.
//!
//! # How sure its figures are
//! Who leads and who is a witness hangs on comparisons that the last bits of a rate decide, and a busy coflow makes
//! thousands. On the Facebook trace the mean CCT came out anywhere from 28.3 to 29.4 s when the rate of the ports was
//! changed by 10⁻⁸ to 10⁻⁶ of itself, and when the solver added in another order: differences below 2 % say nothing.

use cavalcade_model::{
    BitsPerSec, Bytes, Clairvoyant, ClassShares, CoflowId, Decision, Discipline, Event, Foresee, Instant,
    Message, Nanos, Payload, Policy, PortId, Priority, Scope, Setting, Terms,
};
use cavalcade_spec::{Complaint, Parameter};

use crate::definition::{About, Definition};
use crate::support::peers::Latest;
use crate::support::ticks::tick_at_or_after;

/// Parameters of `dcas`.
#[derive(Clone)]
pub(crate) struct Dcas {
    sync: Nanos,
    threshold_volume: Bytes,
    starvation: Nanos,
    expiry: Nanos,
}

impl Default for Dcas {
    fn default() -> Self {
        Self {
            sync: Nanos::from_millis(100),
            threshold_volume: Bytes(1_000_000),
            starvation: Nanos::from_secs(1),
            expiry: Nanos::from_secs(2),
        }
    }
}

impl Definition for Dcas {
    const ABOUT: About = About {
        name: "dcas",
        title: "Hosts negotiate the order of coflows through their receivers",
        source: "D-CAS (2014) §III, §IV, Pseudocodes 1 and 2, §V-A for the parameters",
        knows: "remaining bytes of the host's own subcoflows, and what peers say",
        cost: "O(subcoflows of the host) every sync; O(log peers) for a message",
    };

    const PARAMETERS: &'static [Parameter<Self>] = &[
        Parameter {
            name: "sync",
            meaning: "how often a host looks at its subcoflows (delta)",
            field: |p| &mut p.sync,
        },
        Parameter {
            name: "threshold_volume",
            meaning: "bytes left below which a subcoflow goes first, in order of arrival",
            field: |p| &mut p.threshold_volume,
        },
        Parameter {
            name: "starvation",
            meaning: "time without service after which a subcoflow is lifted above all negotiated ones (T)",
            field: |p| &mut p.starvation,
        },
        Parameter {
            name: "expiry",
            meaning: "age at which what a peer said is forgotten",
            field: |p| &mut p.expiry,
        },
    ];

    fn check(&mut self, _: &[&str]) -> Result<(), Complaint> {
        Complaint::unless(self.sync > Nanos::ZERO, "sync", "at least 1ns")?;
        Complaint::unless(self.starvation > Nanos::ZERO, "starvation", "at least 1ns")?;
        Complaint::unless(
            self.expiry >= self.sync,
            "expiry",
            format!("at least sync, which is {}", self.sync),
        )
    }

    fn terms(&self) -> Terms {
        Terms {
            scope: Scope::Host,
            discipline: Discipline::MaxMin,
            shares: ClassShares::Strict,
            flow_events: false,
            work_conserving: true,
            starvation_free: false,
        }
    }

    fn build(&self, setting: &Setting<'_>) -> Policy {
        let rules = Rules {
            params: self.clone(),
            repeat: Nanos(self.expiry.0 / 4 * 3),
            line_rate: setting.line_rate,
        };
        Policy::Clairvoyant(Box::new(Host::new(rules)))
    }
}

/// The kinds of messages (§III-C): a sender's desired order for its subcoflow, to a receiver of it; and the receiver's
/// answer, made of all desired orders that it heard for the coflow.
const DESIRED: u8 = 0;
const FEEDBACK: u8 = 1;

fn desire(coflow: CoflowId, order: u64) -> Message {
    Message { coflow, payload: Payload::of_number(DESIRED, order) }
}

fn feedback(coflow: CoflowId, order: u64) -> Message {
    Message { coflow, payload: Payload::of_number(FEEDBACK, order) }
}

/// What holds for all subcoflows of a host.
struct Rules {
    params: Dcas,
    /// How long what was said stands before it is said again.
    repeat: Nanos,
    line_rate: BitsPerSec,
}

impl Rules {
    /// The time that `remaining` takes on the NIC, in nanoseconds.
    fn desired(&self, remaining: Bytes) -> u64 {
        remaining.time_at(self.line_rate).unwrap_or(Nanos::MAX).0
    }

    /// Whether the tick at `now` is one at which all receivers are told.
    fn is_round(&self, now: Instant) -> bool {
        let ticks = (self.repeat.0 / self.params.sync.0).max(1);
        now.0.is_multiple_of(self.params.sync.0.saturating_mul(ticks))
    }

    /// When what was said at `now` is said again.
    fn next_ask(&self, now: Instant) -> Instant {
        now.checked_add(self.repeat).unwrap_or(Instant::MAX)
    }
}

/// One host, as sender and as receiver.
struct Host {
    rules: Rules,
    /// Its subcoflows, ascending by coflow.
    sending: Vec<Subcoflow>,
    /// As a receiver: what senders desire, ascending by coflow.
    hearing: Vec<Hearing>,
    /// Who announced what coflow since the last answers.
    announced: Vec<(CoflowId, PortId)>,
    /// When the next tick is due.
    tick: Option<Instant>,
    /// When the next answers are due.
    answers: Option<Instant>,
}

/// What a receiver knows of a coflow.
struct Hearing {
    coflow: CoflowId,
    desires: Latest,
    /// The largest desire that it told all senders last.
    told: u64,
}

/// A sender's part of a coflow.
struct Subcoflow {
    coflow: CoflowId,
    attained: Bytes,
    remaining: Bytes,
    /// When it was last seen to have been served; at first, when it arrived.
    served: Instant,
    /// Who receives its unfinished flows, ascending.
    receivers: Vec<PortId>,
    feedback: Latest,
    /// What was said last, to the witness or to all.
    said: Option<u64>,
    /// What all receivers were told last.
    told_all: Option<u64>,
    /// When they were told.
    round: Instant,
    /// How many of them have not answered since.
    outstanding: usize,
    /// When, as a follower, it asks again.
    ask: Instant,
    /// Whether it has asked and not been answered.
    asking: bool,
    priority: Option<Priority>,
}

impl Subcoflow {
    fn new(coflow: CoflowId, now: Instant, view: &dyn Foresee) -> Self {
        Self {
            coflow,
            attained: view.attained(coflow),
            remaining: view.remaining(coflow),
            served: now,
            receivers: Vec::new(),
            feedback: Latest::default(),
            said: None,
            told_all: None,
            round: now,
            outstanding: 0,
            ask: now,
            asking: false,
            priority: None,
        }
    }

    /// Pseudocode 1 for one subcoflow.
    fn review(&mut self, now: Instant, rules: &Rules, view: &dyn Foresee, decision: &mut Decision) {
        let attained = view.attained(self.coflow);
        // Only more is service: what rounding takes back it gives again.
        if attained > self.attained {
            self.attained = attained;
            self.served = now;
            self.remaining = view.remaining(self.coflow);
        }
        if self.negotiates(now, rules) {
            self.announce(now, rules, view, decision);
        }
        self.decide(now, rules, decision);
    }

    /// Whether its priority is negotiated: it is neither small nor starved.
    fn negotiates(&self, now: Instant, rules: &Rules) -> bool {
        self.remaining >= rules.params.threshold_volume && now.since(self.served) < rules.params.starvation
    }

    /// Sets its priority where that has changed.
    fn decide(&mut self, now: Instant, rules: &Rules, decision: &mut Decision) {
        let priority = if self.remaining < rules.params.threshold_volume {
            Priority::new(0, u64::from(self.coflow.0))
        } else if !self.negotiates(now, rules) {
            Priority::new(1, 0)
        } else {
            let negotiated = self.feedback.max(now, rules.params.expiry);
            Priority::new(1, negotiated.unwrap_or_else(|| rules.desired(self.remaining)))
        };
        if self.priority != Some(priority) {
            self.priority = Some(priority);
            decision.set_coflow(self.coflow, priority);
        }
    }

    /// Says what has to be said at a tick.
    fn announce(&mut self, now: Instant, rules: &Rules, view: &dyn Foresee, decision: &mut Decision) {
        let largest = self.feedback.max(now, rules.params.expiry);
        let leads = largest <= self.said;
        let desired = rules.desired(self.remaining);
        let changed = self.told_all != Some(desired);
        if largest.is_none() && changed || rules.is_round(now) && leads && changed {
            self.announce_to_all(now, rules, view, decision);
        } else if let Some(witness) = self.feedback.holder()
            && (now >= self.ask || leads && self.said != Some(desired))
        {
            self.asking = true;
            self.said = Some(desired);
            self.tell(witness, desired, decision);
        } else if self.outstanding > 0 {
            let silent =
                |receiver: &&PortId| self.feedback.spoke(**receiver).is_none_or(|at| at < self.round);
            self.receivers.iter().filter(silent).for_each(|&receiver| self.tell(receiver, desired, decision));
        }
    }

    fn announce_to_all(&mut self, now: Instant, rules: &Rules, view: &dyn Foresee, decision: &mut Decision) {
        self.look_around(view);
        let desired = rules.desired(self.remaining);
        self.said = Some(desired);
        self.told_all = Some(desired);
        self.round = now;
        self.ask = rules.next_ask(now);
        self.asking = false;
        self.outstanding = self.receivers.len();
        self.receivers.iter().for_each(|&receiver| self.tell(receiver, desired, decision));
    }

    fn tell(&self, receiver: PortId, desired: u64, decision: &mut Decision) {
        decision.send(receiver, desire(self.coflow, desired));
    }

    /// Reads anew what later waves may have changed.
    fn look_around(&mut self, view: &dyn Foresee) {
        self.remaining = view.remaining(self.coflow);
        self.receivers.clear();
        view.flows(self.coflow, &mut |flow| self.receivers.push(view.flow(flow).dst));
        self.receivers.sort_unstable();
        self.receivers.dedup();
    }

    /// An answer has come.
    fn hear(&mut self, from: PortId, order: u64, now: Instant, rules: &Rules) {
        let before = self.feedback.put_with_equals(from, order, now);
        if before.is_none_or(|at| at < self.round) {
            self.outstanding = self.outstanding.saturating_sub(1);
        }
        if self.asking && self.feedback.max(now, rules.params.expiry) <= Some(order) {
            self.asking = false;
            self.ask = rules.next_ask(now);
        }
    }
}

impl Host {
    fn new(rules: Rules) -> Self {
        Self {
            rules,
            sending: Vec::new(),
            hearing: Vec::new(),
            announced: Vec::new(),
            tick: None,
            answers: None,
        }
    }

    fn find(&self, coflow: CoflowId) -> Result<usize, usize> {
        self.sending.binary_search_by_key(&coflow, |subcoflow| subcoflow.coflow)
    }

    fn arrive(&mut self, now: Instant, coflow: CoflowId, view: &dyn Foresee, decision: &mut Decision) {
        let mut subcoflow = Subcoflow::new(coflow, now, view);
        subcoflow.review(now, &self.rules, view, decision);
        match self.find(coflow) {
            Ok(index) => self.sending[index] = subcoflow,
            Err(index) => self.sending.insert(index, subcoflow),
        }
        if self.tick.is_none() {
            self.plan_tick(now);
            self.ask_to_be_woken(now, decision);
        }
    }

    fn plan_tick(&mut self, now: Instant) {
        self.tick = now.checked_add(Nanos(1)).map(|after| tick_at_or_after(after, self.rules.params.sync));
    }

    fn ask_to_be_woken(&self, now: Instant, decision: &mut Decision) {
        let next = self.tick.into_iter().chain(self.answers).min();
        // What is due now is on its way, and asking again would cancel it.
        if let Some(next) = next.filter(|next| *next > now) {
            decision.wake_at(next);
        }
    }

    fn wake(&mut self, now: Instant, view: &dyn Foresee, decision: &mut Decision) {
        if self.answers.is_some_and(|due| due <= now) {
            self.answers = None;
            self.answer(now, decision);
        }
        if self.tick.is_some_and(|due| due <= now) {
            self.tick = None;
            for subcoflow in &mut self.sending {
                subcoflow.review(now, &self.rules, view, decision);
            }
            if !self.sending.is_empty() {
                self.plan_tick(now);
            }
        }
        self.ask_to_be_woken(now, decision);
    }

    /// A message has come. What no host of this policy says is left out.
    fn receive(&mut self, now: Instant, from: PortId, message: Message, decision: &mut Decision) {
        let coflow = message.coflow;
        match message.payload.number() {
            Some((DESIRED, order)) => self.note(now, from, coflow, order, decision),
            Some((FEEDBACK, order)) => {
                if let Ok(index) = self.find(coflow) {
                    let subcoflow = &mut self.sending[index];
                    subcoflow.hear(from, order, now, &self.rules);
                    subcoflow.decide(now, &self.rules, decision);
                }
            }
            _ => {}
        }
    }

    /// The first half of Pseudocode 2. The answer waits for what else arrives in the same instant.
    fn note(&mut self, now: Instant, from: PortId, coflow: CoflowId, desired: u64, decision: &mut Decision) {
        let index = self.hear_of(coflow, now);
        self.hearing[index].desires.put(from, desired, now);
        self.announced.push((coflow, from));
        if self.answers.is_none() {
            self.answers = now.checked_add(Nanos(1));
            self.ask_to_be_woken(now, decision);
        }
    }

    /// The second half: answers to all that announced; where the largest desire has changed, to all that are remembered.
    fn answer(&mut self, now: Instant, decision: &mut Decision) {
        let mut announced = std::mem::take(&mut self.announced);
        announced.sort_unstable();
        announced.dedup();
        for of_coflow in announced.chunk_by(|(a, _), (b, _)| a == b) {
            let coflow = of_coflow[0].0;
            let index = self.hear_of(coflow, now);
            let Hearing { desires, told, .. } = &mut self.hearing[index];
            let Some(order) = desires.max(now, self.rules.params.expiry) else { continue };
            let answer = feedback(coflow, order);
            if std::mem::replace(told, order) == order {
                of_coflow.iter().for_each(|&(_, peer)| decision.send(peer, answer));
            } else {
                desires.peers().for_each(|peer| decision.send(peer, answer));
            }
        }
        announced.clear();
        self.announced = announced;
    }

    /// Where `coflow` is in `hearing`. Making room for a new one is when those of which all is expired are dropped.
    fn hear_of(&mut self, coflow: CoflowId, now: Instant) -> usize {
        if let Ok(index) = self.hearing.binary_search_by_key(&coflow, |hearing| hearing.coflow) {
            return index;
        }
        let expiry = self.rules.params.expiry;
        self.hearing.retain_mut(|hearing| hearing.desires.max(now, expiry).is_some());
        let index = self.hearing.partition_point(|hearing| hearing.coflow < coflow);
        self.hearing.insert(index, Hearing { coflow, desires: Latest::default(), told: 0 });
        index
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
            Event::Received { from, message } => self.receive(now, from, message, decision),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scripted::{Driven, Script, drive};
    use cavalcade_model::Target;

    const MS: u64 = 1_000_000;
    const MB: u64 = 1_000_000;

    /// One sender at port 0 with a subcoflow to ports 7 and 8. At 8 Gbps a byte takes a nanosecond.
    fn sender(spec: &str, first: u64, second: u64) -> (Script, Driven, CoflowId, Decision) {
        let mut script = Script::new();
        script.add_coflow(0, 0);
        let coflow = script.add_coflow(1, 0);
        script.add_flow(coflow, 0, 7, first);
        script.add_flow(coflow, 0, 8, second);
        let mut host = drive(spec);
        let start = host.at(5, Event::CoflowArrived(coflow), &script);
        (script, host, coflow, start)
    }

    fn answered(from: u32, coflow: CoflowId, order: u64) -> Event {
        Event::Received { from: PortId(from), message: feedback(coflow, order) }
    }

    fn desires(to: &[u32], coflow: CoflowId, order: u64) -> Vec<(PortId, Message)> {
        to.iter().map(|&to| (PortId(to), desire(coflow, order))).collect()
    }

    #[test]
    fn a_small_subcoflow_is_fifo_and_says_nothing() {
        let (_, _, coflow, start) = sender("dcas", MB / 2, MB / 4);
        assert_eq!(start.priorities, [(Target::Coflow(coflow), Priority::new(0, 1))]);
        assert!(start.messages.is_empty());
        assert_eq!(start.wake_at, Some(Instant(100 * MS)));
    }

    #[test]
    fn a_large_one_announces_its_time_and_takes_the_largest_answer() {
        let (script, mut host, coflow, start) = sender("dcas", 3 * MB, 2 * MB);
        let at = |order| vec![(Target::Coflow(coflow), Priority::new(1, order))];
        assert_eq!(start.priorities, at(5 * MB), "its own desire, for want of answers");
        assert_eq!(start.messages, desires(&[7, 8], coflow, 5 * MB));
        assert_eq!(host.at(6, answered(7, coflow, 5 * MB), &script).priorities, []);
        assert_eq!(host.at(7, answered(8, coflow, 9 * MB), &script).priorities, at(9 * MB));
    }

    #[test]
    fn a_leader_that_is_served_tells_its_witness_and_a_follower_asks_its_own_seldom() {
        let (mut script, mut host, coflow, _) = sender("dcas", 30 * MB, 20 * MB);
        host.at(5, answered(7, coflow, 50 * MB), &script);
        host.at(5, answered(8, coflow, 50 * MB), &script);
        script.send(0, MB);
        let tick = host.at(100 * MS, Event::Wake, &script);
        assert_eq!(tick.messages, desires(&[7], coflow, 49 * MB));
        host.at(100 * MS, answered(7, coflow, 49 * MB), &script);
        host.at(100 * MS, answered(8, coflow, 60 * MB), &script);
        for tick in 2..16 {
            script.send(0, MB);
            assert!(host.at(tick * 100 * MS, Event::Wake, &script).messages.is_empty(), "tick {tick}");
        }
        script.send(0, MB);
        let asking = host.at(1600 * MS, Event::Wake, &script);
        assert_eq!(asking.messages, desires(&[8], coflow, 34 * MB));
    }

    #[test]
    fn an_unanswered_announcement_is_repeated_at_the_next_tick() {
        let (script, mut host, coflow, _) = sender("dcas", 3 * MB, 2 * MB);
        host.at(6, answered(8, coflow, 5 * MB), &script);
        let tick = host.at(100 * MS, Event::Wake, &script);
        assert_eq!(tick.messages, desires(&[7], coflow, 5 * MB));
    }

    #[test]
    fn answers_expire_and_the_desire_takes_their_place() {
        let (mut script, mut host, coflow, _) = sender("dcas:starvation=1h", 3 * MB, 2 * MB);
        host.at(6, answered(7, coflow, 9 * MB), &script);
        script.send(0, MB);
        let later = host.at(2100 * MS, Event::Wake, &script);
        assert_eq!(later.priorities, [(Target::Coflow(coflow), Priority::new(1, 4 * MB))]);
        assert_eq!(later.messages, desires(&[7, 8], coflow, 4 * MB), "it may be the leader now");
    }

    #[test]
    fn what_is_not_served_is_lifted_until_it_is() {
        let (mut script, mut host, coflow, _) = sender("dcas", 3 * MB, 2 * MB);
        assert_eq!(host.at(1000 * MS, Event::Wake, &script).priorities, [], "5 ns short of a second");
        let lifted = host.at(1100 * MS, Event::Wake, &script);
        assert_eq!(lifted.priorities, [(Target::Coflow(coflow), Priority::new(1, 0))]);
        script.send(0, MB);
        let served = host.at(1200 * MS, Event::Wake, &script);
        assert_eq!(served.priorities, [(Target::Coflow(coflow), Priority::new(1, 4 * MB))]);
    }

    #[test]
    fn the_worked_example_of_figure_2_comes_out() {
        // Desires 4, 2, 1 of senders 1 to 3; R1 hears the first two, R2 all three. Feedback x = y = 4.
        let coflow = CoflowId(0);
        let reply = |to: u32, order: u64| (PortId(to), feedback(coflow, order));
        let mut first = drive("dcas");
        assert_eq!(answers(&mut first, 0, coflow, &[(2, 2)]), [reply(2, 2)]);
        assert_eq!(answers(&mut first, 5, coflow, &[(1, 4)]), [reply(1, 4), reply(2, 4)], "2 hears of it");
        assert_eq!(answers(&mut first, 9, coflow, &[(2, 2)]), [reply(2, 4)], "to 1 it is no news");
        let mut second = drive("dcas");
        let all = [reply(1, 4), reply(2, 4), reply(3, 4)];
        assert_eq!(answers(&mut second, 0, coflow, &[(1, 4), (2, 2), (3, 1)]), all);
    }

    /// What a receiver says to announcements (from, order) that come together.
    fn answers(
        receiver: &mut Driven,
        at: u64,
        coflow: CoflowId,
        said: &[(u32, u64)],
    ) -> Vec<(PortId, Message)> {
        let script = Script::new();
        for &(from, order) in said {
            let message = desire(coflow, order);
            let noted = receiver.at(at, Event::Received { from: PortId(from), message }, &script);
            assert!(noted.messages.is_empty(), "it waits for what else comes");
        }
        receiver.at(at + 1, Event::Wake, &script).messages
    }

    #[test]
    fn a_receiver_forgets_what_has_expired() {
        let coflow = CoflowId(3);
        let mut receiver = drive("dcas");
        let reply = |to: u32, order: u64| (PortId(to), feedback(coflow, order));
        answers(&mut receiver, 0, coflow, &[(1, 100)]);
        assert_eq!(answers(&mut receiver, 1999 * MS, coflow, &[(2, 10)]), [reply(2, 100)]);
        assert_eq!(answers(&mut receiver, 2001 * MS, coflow, &[(2, 9)]), [reply(2, 9)]);
    }

    #[test]
    fn ticks_stop_when_nothing_is_left_to_send() {
        let (mut script, mut host, coflow, _) = sender("dcas", MB, MB);
        script.send(0, MB);
        script.send(1, MB);
        host.at(50 * MS, Event::CoflowFinished(coflow), &script);
        assert_eq!(host.at(100 * MS, Event::Wake, &script), Decision::default());
    }
}
