//! `announce=leaders`: the same negotiation with far fewer messages. This is ours, not the paper's.
//!
//! As printed, every subcoflow tells all its receivers at every tick, and nearly all of that is
//! repetition. Here:
//! - A *leader*, a sender that has received no answer above what it announced, may be the one whom
//!   the others go by. When its desire changes it tells its *witness*: of the receivers that gave
//!   the largest answer the one whose answer arrived last, by port among several. Where all senders
//!   send to all receivers they so meet at one receiver. It tells all its receivers in a *round*,
//!   at instants that are the same for all hosts and 3/4 of `expiry` apart, if its desire has
//!   changed since the last; and when no answer is left. At ticks with nothing else to say it
//!   repeats to those that have not answered.
//! - A *follower* has been told a larger value than its own. It only asks its witness again after
//!   3/4 of `expiry`.
//! - A *receiver* gathers what comes at one instant, and answers a nanosecond later: sooner, the
//!   first to announce would be told what the last is about to change. When its largest value has
//!   changed it also tells the other senders that it remembers. That goes beyond Pseudocode 2,
//!   which answers the announcer alone, and lets followers be silent.
//! - A sender uses an answer when it comes, until it is older than `expiry`.
//!
//! # Staleness
//! Φ is to use the answers of one round; but a follower is in touch with its witness alone, and
//! what other receivers said is older. When the witness lowers its value, answers that were equal
//! to the former one are lowered with it: they came from the same leader. That is exact where every
//! sender of a coflow sends to all its receivers. Elsewhere two leaders may by chance have desired
//! the same; the guess then holds until the other receiver speaks.
//!
//! A receiver remembers what a follower announced, though that has shrunk since. When the leader
//! falls below it, the former value stands for all senders until the next tick, at which its owner,
//! now the leader, announces again. Both err towards a lower priority, by no more than was served
//! in `expiry`. Where senders have different receivers, those that are no sender's witness lag by
//! up to a round, and senders of one coflow may differ for as long. Where messages are lost, a
//! sender falls back on its own desire once nothing that it heard is younger than `expiry`.
//! Receivers of flows that arrive in later waves are found at the next full round.
//!
//! # How sure its figures are
//! Which sender leads and which receiver is a witness hangs on comparisons that the last bits of a
//! rate decide, and a busy coflow makes thousands. On the Facebook trace the mean CCT came out
//! anywhere from 28.3 to 29.4 s when the rate of the ports was changed by 10⁻⁸ to 10⁻⁶ of itself,
//! and when the solver added in another order: differences below 2 % say nothing.

use cavalcade_model::{Bytes, CoflowId, Decision, Foresee, Instant, Nanos, PortId};

use super::{Announce, Host, Received, Rules, desire, feedback, receivers};
use crate::support::peers::Latest;

impl Rules {
    /// Returns how long what was said stands before it is said again.
    fn repeat(&self) -> Nanos {
        Nanos(self.params.expiry.0 / 4 * 3)
    }

    /// Returns whether the tick at `now` is one at which all receivers are told.
    fn is_round(&self, now: Instant) -> bool {
        now.0.is_multiple_of(self.between_rounds().0)
    }

    /// Returns the time between two such ticks; between any two where all subcoflows announce.
    pub(super) fn between_rounds(&self) -> Nanos {
        let ticks = match self.params.announce {
            Announce::All => 1,
            Announce::Leaders => (self.repeat().0 / self.params.sync.0).max(1),
        };
        Nanos(self.params.sync.0.saturating_mul(ticks))
    }

    /// Returns when what was said at `now` is said again.
    fn next_ask(&self, now: Instant) -> Instant {
        now.checked_add(self.repeat()).unwrap_or(Instant::MAX)
    }
}

/// A sender's side of the negotiation of one subcoflow.
pub(super) struct Leading {
    /// The receivers of its unfinished flows, ascending.
    receivers: Vec<PortId>,
    feedback: Latest,
    /// Last value sent, to the witness or to all.
    said: Option<u64>,
    /// Last value sent to all receivers.
    told_all: Option<u64>,
    /// Time at which they were told.
    round: Instant,
    /// Number of them that have not answered since.
    outstanding: usize,
    /// Time at which, as a follower, it asks again.
    ask: Instant,
    /// True if it has asked and not been answered.
    asking: bool,
}

impl Leading {
    pub(super) fn new(now: Instant) -> Self {
        Self {
            receivers: Vec::new(),
            feedback: Latest::default(),
            said: None,
            told_all: None,
            round: now,
            outstanding: 0,
            ask: now,
            asking: false,
        }
    }

    /// Returns the largest answer that is not expired.
    pub(super) fn largest(&mut self, now: Instant, rules: &Rules) -> Option<u64> {
        self.feedback.max(now, rules.params.expiry)
    }

    /// Says what has to be said at a tick.
    pub(super) fn announce(
        &mut self,
        coflow: CoflowId,
        remaining: Bytes,
        now: Instant,
        rules: &Rules,
        view: &dyn Foresee,
        decision: &mut Decision,
    ) {
        let order = rules.desired(remaining);
        let mut tell = |receiver| decision.send(receiver, desire(coflow, order));
        let largest = self.largest(now, rules);
        let leads = largest <= self.said;
        let changed = self.told_all != Some(order);
        if largest.is_none() && changed || rules.is_round(now) && leads && changed {
            self.begin_round(receivers(coflow, view), order, now, rules);
            self.receivers.iter().for_each(|&receiver| tell(receiver));
        } else if let Some(witness) = self.feedback.holder()
            && (now >= self.ask || leads && self.said != Some(order))
        {
            self.asking = true;
            self.said = Some(order);
            tell(witness);
        } else if self.outstanding > 0 {
            let silent =
                |receiver: &&PortId| self.feedback.spoke(**receiver).is_none_or(|at| at < self.round);
            self.receivers.iter().filter(silent).for_each(|&receiver| tell(receiver));
        }
    }

    fn begin_round(&mut self, receivers: Vec<PortId>, desired: u64, now: Instant, rules: &Rules) {
        self.said = Some(desired);
        self.told_all = Some(desired);
        self.round = now;
        self.ask = rules.next_ask(now);
        self.asking = false;
        self.outstanding = receivers.len();
        self.receivers = receivers;
    }

    /// Takes an answer.
    pub(super) fn receive(&mut self, from: PortId, order: u64, now: Instant, rules: &Rules) {
        let before = self.feedback.put_with_equals(from, order, now);
        if before.is_none_or(|at| at < self.round) {
            self.outstanding = self.outstanding.saturating_sub(1);
        }
        if self.asking && self.largest(now, rules) <= Some(order) {
            self.asking = false;
            self.ask = rules.next_ask(now);
        }
    }
}

/// Announcements that a receiver has heard and not answered.
#[derive(Default)]
pub(super) struct Gathering {
    announced: Vec<(CoflowId, PortId)>,
    due: Option<Instant>,
}

impl Gathering {
    pub(super) fn note(&mut self, coflow: CoflowId, from: PortId, now: Instant) {
        self.announced.push((coflow, from));
        self.due = self.due.or_else(|| now.checked_add(Nanos(1)));
    }

    /// Returns when answers are to be given.
    pub(super) fn due(&self) -> Option<Instant> {
        self.due
    }

    pub(super) fn is_due(&self, now: Instant) -> bool {
        self.due.is_some_and(|due| due <= now)
    }
}

impl Host {
    /// Answers all that announced; where the largest desire has changed, all that are remembered.
    pub(super) fn answer_gathered(&mut self, now: Instant, decision: &mut Decision) {
        self.gathering.due = None;
        let mut announced = std::mem::take(&mut self.gathering.announced);
        announced.sort_unstable();
        announced.dedup();
        let expiry = self.rules.params.expiry;
        for of_coflow in announced.chunk_by(|(a, _), (b, _)| a == b) {
            let coflow = of_coflow[0].0;
            let Received { desires, told, .. } = self.received_of(coflow, now);
            let Some(order) = desires.max(now, expiry) else { continue };
            let answer = feedback(coflow, order);
            if std::mem::replace(told, order) == order {
                of_coflow.iter().for_each(|&(_, peer)| decision.send(peer, answer));
            } else {
                desires.peers().for_each(|peer| decision.send(peer, answer));
            }
        }
        announced.clear();
        self.gathering.announced = announced;
    }
}
